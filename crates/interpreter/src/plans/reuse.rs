//! Plans that are used again for another execution of their statement.
//!
//! ```text
//!   first execution   bind, lock, optimise, plan ─► run ─► its plan goes to the store, with what it stands on
//!   next execution    found by text, settings, variables' values ─► databases' snapshots as they were? statistics and
//!                     row counts still good? ─► lock ─► operators made again ─► run
//! ```
//! Values of variables are constants of a plan, so each combination of values has a plan of its own, made for them.
//!
//! Leaves to others: what a statement stands on (`standing`), the plan itself (`hobt_planner::KeptQuery`), which plans
//! the store drops (`store`).

use std::sync::Arc;

use hobt_engine::DatabaseUse;
use hobt_tsql::ast::Span;

use super::standing::{PlanSettings, Standing, Unfit};
use super::store::PlanEntry;
use crate::automatic_statistics::update_threshold;
use crate::failure::Failure;
use crate::interpreter::Interpreter;
use hobt_planner::{FinishPlan, KeptQuery, Planned};
use hobt_table::{StatementRun, TableRead};

/// Trace flag 30004: every execution is planned anew, as with `OPTION (RECOMPILE)`.
pub(super) const PLAN_ALWAYS: i32 = 30_004;

/// A statement with its plan, between executions.
#[derive(Debug)]
pub(crate) struct KeptStatement {
    text: Arc<str>,
    span: Span,
    settings: PlanSettings,
    standing: Standing,
    query: KeptQuery,
}

/// What became of the attempt to use a plan again.
enum Attempt {
    Planned(Box<Planned>),
    Unfit(Unfit),
}

/// Constants are in the plan, in its conditions, in estimates and in ranges.
const COPIES_OF_CONSTANTS: u64 = 4;

impl KeptStatement {
    /// The memory that it takes, in bytes, estimated: its operators, its text, and the constants of both the text and
    /// the variables.
    pub(super) fn bytes(&self) -> u64 {
        let constants = u64::from(self.span.end - self.span.start) + self.standing.bytes_of_variables();
        self.query.bytes() + self.text.len() as u64 + COPIES_OF_CONSTANTS * constants
    }

    /// Whether it makes `other` superfluous.
    pub(super) fn replaces(&self, other: &KeptStatement) -> bool {
        self.settings == other.settings && self.standing.has_values_of(&other.standing)
    }
}

impl Interpreter<'_> {
    /// Whether a plan that is made now is the running statement's own, so that it may be kept.
    pub(crate) fn plans_statement(&self, run: &StatementRun) -> bool {
        let current = &self.plans.current;
        let is_own = self.plans.depth == 1 && current.statement.is_some() && current.plan().is_none();
        is_own
            && !self.frame().plans_anew
            && !self.is_gathering
            && !run.assumptions().knows_all
            && !run.has_trace_flag(PLAN_ALWAYS)
    }

    /// Plans the running statement as before, if a plan of it is kept that still holds. Its tables are then locked.
    ///
    /// # Errors
    /// Those of locking the tables, and of opening them.
    pub(crate) fn plan_again(
        &mut self,
        run: &Arc<StatementRun>,
        finish: FinishPlan<'_>,
    ) -> Result<Option<Planned>, Failure> {
        let Some((span, _)) = self.plans.current.statement else { return Ok(None) };
        let candidates = self.environment.plans.kept(&self.statement_key(span, 0));
        if candidates.is_empty() {
            return Ok(None);
        }
        let settings = self.plan_settings(run);
        let is_it = |kept: &KeptStatement| {
            kept.span == span
                && kept.settings == settings
                && self.has_variables_of(&kept.standing)
                && (Arc::ptr_eq(&kept.text, &self.text) || kept.text == self.text)
        };
        let fitting: Vec<_> = candidates.into_iter().filter(|(_, kept)| is_it(kept)).collect();
        for (entry, kept) in &fitting {
            match self.made_again(run, kept, finish)? {
                Attempt::Planned(planned) => {
                    self.plans.current.kept().reuses = true;
                    return Ok(Some(*planned));
                }
                Attempt::Unfit(Unfit::Now) => {}
                Attempt::Unfit(Unfit::ForEver) => self.environment.plans.forget(entry, kept),
            }
        }
        Ok(None)
    }

    fn made_again(
        &mut self,
        run: &Arc<StatementRun>,
        kept: &KeptStatement,
        finish: FinishPlan<'_>,
    ) -> Result<Attempt, Failure> {
        let databases = match self.databases_of(&kept.standing) {
            Ok(databases) => databases,
            Err(unfit) => return Ok(Attempt::Unfit(unfit)),
        };
        let of = |id| databases.iter().find(|database: &&DatabaseUse| database.id() == id);
        let wanted = kept.query.wanted().iter();
        let wanted = wanted.filter_map(|(id, table, column)| Some((of(*id)?, table, *column)));
        if self.wants_statistics(wanted.collect()) {
            return Ok(Attempt::Unfit(Unfit::ForEver));
        }
        // While the locks are waited for, definitions may change: then nothing is locked, and the statement is planned
        // anew.
        let is_locked = self.until_locked(run, |this| {
            let is_as_before = this.databases_of(&kept.standing).is_ok();
            let used = if is_as_before { this.used_again(&kept.standing, &databases, run) } else { None };
            Ok((used.is_some(), used.unwrap_or_default()))
        })?;
        if !is_locked || self.databases_of(&kept.standing).is_err() {
            return Ok(Attempt::Unfit(Unfit::Now));
        }
        let mut tables: Vec<Arc<TableRead>> = Vec::with_capacity(kept.query.tables().len());
        for table in kept.query.tables() {
            let Some(database) = of(table.database()) else { return Ok(Attempt::Unfit(Unfit::ForEver)) };
            let read = table.read(database.clone(), run);
            let (before, now) = (table.rows() as f64, read.expected_rows() as f64);
            if (now - before).abs() > update_threshold(before) {
                return Ok(Attempt::Unfit(Unfit::ForEver));
            }
            tables.push(read);
        }
        let planned = kept.query.planned(&self.environment.executor, run, &tables, finish)?;
        let Some(planned) = planned else { return Ok(Attempt::Unfit(Unfit::Now)) };
        for (id, table, statistics) in kept.query.statistics() {
            of(*id).into_iter().for_each(|database| run.note_kept_statistics(database, table, statistics));
        }
        Ok(Attempt::Planned(Box::new(planned)))
    }

    /// Keeps the plan of the running statement, which goes to the store when the statement has ended well.
    pub(crate) fn keep_for_reuse(&mut self, run: &StatementRun, planned: &mut Planned, standing: Standing) {
        let (Some(query), Some((span, _))) = (planned.take_kept(), self.plans.current.statement) else { return };
        if standing.may_be_kept() {
            let (text, settings) = (Arc::clone(&self.text), self.plan_settings(run));
            let kept = Arc::new(KeptStatement { text, span, settings, standing, query });
            self.plans.current.kept().reusable = Some(kept);
        }
    }

    /// Gives the store the plan that the statement has left for other executions, or counts that it has used one.
    pub(super) fn note_reuse(&mut self, entry: &PlanEntry) {
        let current = self.plans.current.kept();
        if current.reuses {
            entry.count_reuse();
        }
        if let Some(kept) = current.reusable.take() {
            self.environment.plans.keep(entry, kept);
        }
    }
}
