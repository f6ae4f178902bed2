//! Plans that are used again for another execution of their statement.
//!
//! ```text
//!   first execution   bind, lock, optimise, plan ─► run ─► its plan goes to the store, with what it stands on
//!   next execution    found by text, settings, variables' values ─► databases' snapshots as they were? statistics and
//!                     row counts still good? ─► lock ─► operators made again ─► run
//! ```
//! Values of variables are constants of a plan, made for them. A plan whose conditions compare columns with variables
//! is made again for other values too, once the plan for a second set of values has turned out to be the first one but
//! for these. Values with which other plans may be better (far more or fewer rows) have plans of their own.
//!
//! Leaves to others: what a statement stands on (`standing`), the plan itself (`hobt_planner::KeptQuery`), which plans
//! the store drops (`store`).

use std::sync::Arc;

use super::kept_statement::{General, KeptStatement};
use super::standing::{PlanSettings, SeenDatabase, Standing};
use super::store::PlanEntry;
use crate::automatic_statistics::update_threshold;
use crate::failure::Failure;
use crate::interpreter::Interpreter;
use crate::names::UsedTable;
use crate::reading::Reading;
use hobt_engine::DatabaseUse;
use hobt_planner::{FinishPlan, Planned};
use hobt_table::{ParameterValues, StatementRun, TableRead};

/// Trace flag 30004: every execution is planned anew, as with `OPTION (RECOMPILE)`.
pub(super) const PLAN_ALWAYS: i32 = 30_004;

/// Why a kept plan is not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unfit {
    /// Another execution may use it.
    Now,
    /// What it stands on is no more.
    ForEver,
}

/// What became of the attempt to use a plan again.
enum Attempt {
    Planned(Box<Planned>),
    Unfit(Unfit),
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
        let Some(known) = self.identity() else { return Ok(None) };
        let candidates = self.environment.plans.kept(&known.key(0));
        if candidates.is_empty() {
            return Ok(None);
        }
        let settings = self.plan_settings(run);
        let is_it = |kept: &KeptStatement| {
            kept.span == span
                && kept.settings == settings
                && (Arc::ptr_eq(&kept.text, &self.text) || kept.text == self.text)
        };
        let of_values = |(entry, kept): (Arc<PlanEntry>, Arc<KeptStatement>)| {
            let values = self.other_values(&kept)?;
            Some((entry, kept, values))
        };
        let mut fitting: Vec<_> =
            candidates.into_iter().filter(|(_, kept)| is_it(kept)).filter_map(of_values).collect();
        // Those for just these values come first.
        fitting.sort_by_key(|(_, _, values)| !values.is_empty());
        for (entry, kept, values) in fitting {
            if !kept.general.is_for(&values) {
                if kept.general.is_open() {
                    let names = values.into_keys().collect();
                    // The most recent one.
                    self.plans.current.kept().compared.get_or_insert((kept, names));
                }
                continue;
            }
            match self.made_again(run, &kept, &values, finish)? {
                Attempt::Planned(planned) => {
                    self.plans.current.kept().reuses = true;
                    return Ok(Some(*planned));
                }
                Attempt::Unfit(Unfit::Now) => {}
                Attempt::Unfit(Unfit::ForEver) => self.environment.plans.forget(&entry, &kept),
            }
        }
        Ok(None)
    }

    /// The plan of an earlier execution for other values, with which the plan that is made now is to be compared.
    pub(crate) fn compared_plan(&self) -> Option<Arc<KeptStatement>> {
        self.plans.current.kept.as_ref()?.compared.as_ref().map(|(kept, _)| Arc::clone(kept))
    }

    /// The values of literals of a kept plan for variables that have other values now. `None` if the plan is not for
    /// these.
    fn other_values(&self, kept: &KeptStatement) -> Option<ParameterValues> {
        let frame = self.frame();
        let mut values = ParameterValues::new();
        for seen in &kept.standing.variables {
            let now = frame.get(&seen.name);
            if now != seen.value.as_ref() || frame.passed(&seen.name) != seen.passed.as_ref() {
                values.extend(kept.values_of(seen, now?)?);
            }
        }
        Some(values)
    }

    fn made_again(
        &mut self,
        run: &Arc<StatementRun>,
        kept: &KeptStatement,
        values: &ParameterValues,
        finish: FinishPlan<'_>,
    ) -> Result<Attempt, Failure> {
        let databases = match self.databases_of(&kept.standing) {
            Ok(databases) => databases,
            Err(unfit) => return Ok(Attempt::Unfit(unfit)),
        };
        let of = |id| databases.iter().find(|database: &&DatabaseUse| database.id() == id);
        let wanted = kept.query.wanted().iter();
        let wanted = wanted.filter_map(|(id, table, column)| Some((of(*id)?.clone(), Arc::clone(table), *column)));
        if !self.due_statistics(wanted.collect()).is_empty() {
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
        let planned = kept.query.planned(&self.environment.executor, run, &tables, values, finish)?;
        let Some(planned) = planned else { return Ok(Attempt::Unfit(Unfit::Now)) };
        for (id, table, statistics) in kept.query.statistics() {
            of(*id).into_iter().for_each(|database| run.note_kept_statistics(database, table, statistics));
        }
        Ok(Attempt::Planned(Box::new(planned)))
    }

    /// Keeps the plan of the running statement, which goes to the store when the statement has ended well.
    pub(crate) fn keep_for_reuse(&mut self, run: &StatementRun, planned: &mut Planned, standing: Standing) {
        if let (Some(compared), Some(is_alike)) = (self.plans.current.kept().compared.take(), planned.is_alike()) {
            let (compared, names) = compared;
            compared.general.note(&names, is_alike);
            if is_alike {
                return;
            }
        }
        let (Some(query), Some((span, _))) = (planned.take_kept(), self.plans.current.statement) else { return };
        if standing.may_be_kept() {
            let (text, settings) = (Arc::clone(&self.text), self.plan_settings(run));
            let kept = Arc::new(KeptStatement { text, span, settings, standing, query, general: General::default() });
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

impl Interpreter<'_> {
    /// The settings that the running statement's plan depends on.
    pub(crate) fn plan_settings(&self, run: &StatementRun) -> PlanSettings {
        PlanSettings {
            options: self.state.options.of_plans(),
            trace_flags: run.trace_flags().clone(),
            database: self.state.database.id(),
        }
    }

    /// The databases in which a plan's names were looked up, if they are what they were.
    pub(crate) fn databases_of(&self, standing: &Standing) -> Result<Vec<DatabaseUse>, Unfit> {
        let same = |seen: &SeenDatabase| {
            let database = match self.state.database.id() == seen.id {
                true => self.state.database.clone(),
                false => self.environment.instance.database_by_id(seen.id).map_err(|_| Unfit::ForEver)?,
            };
            if database.name() != seen.name || !std::ptr::eq(Arc::as_ptr(&database.snapshot()), seen.snapshot.as_ptr())
            {
                return Err(Unfit::ForEver);
            }
            let database = database.seen_by(self.state.viewer());
            // The transaction has changed definitions itself.
            let is_it = std::ptr::eq(Arc::as_ptr(&database.snapshot()), seen.snapshot.as_ptr());
            is_it.then_some(database).ok_or(Unfit::Now)
        };
        standing.databases.iter().map(same).collect()
    }

    /// The tables that a plan reads, as they have to be locked; `None` if they would be read in another way now.
    /// `databases` are those of [`Interpreter::databases_of`].
    pub(crate) fn used_again(
        &self,
        standing: &Standing,
        databases: &[DatabaseUse],
        run: &StatementRun,
    ) -> Option<Vec<UsedTable>> {
        let isolation = self.state.options.isolation;
        let mut used = Vec::with_capacity(standing.reads.len());
        for seen in &standing.reads {
            let database = databases.iter().find(|database| database.id() == seen.database)?;
            let reading = Reading::of(&seen.hints, seen.places, isolation, (database, &seen.table), false);
            if reading != seen.reading {
                return None;
            }
            used.push(UsedTable::read(database.clone(), Arc::clone(&seen.table), reading));
        }
        standing.reads.iter().for_each(|seen| self.begin_reading(run, seen.reading.rows));
        Some(used)
    }
}
