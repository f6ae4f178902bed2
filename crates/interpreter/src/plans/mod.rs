//! Plans that are shown: of statements that ran, and of statements that are planned without running.
//!
//! ```text
//!   a statement runs ─► prepare ─► PlanOfStatement ─► in_run's end ─┬─► STATISTICS PROFILE, XML; Event::Statistics
//!                                                                   └─► PlanStore: sys.dm_exec_query_stats
//!   SHOWPLAN_… is on ─► show ─► planned: bound and planned as if it ran, and no further
//! ```
//! One plan is kept per statement: the first one that its own run makes. Evaluating a `TOP` and checking foreign keys
//! use plans of their own, which are not shown.

mod identity;
mod kept;
mod kept_statement;
mod planned;
mod result;
mod reuse;
mod show;
pub(crate) mod standing;
mod store;

use std::sync::Arc;
use std::time::Duration;

use hobt_tsql::ast::{Span, Statement, StatementKind, StatisticsKind};

use super::event::StatementStatistics;
use super::failure::Failure;
use super::statement_kind;
use crate::interpreter::Interpreter;
use hobt_planner::{PhysicalPlan, Texts, changes, explain, shape, spilled_bytes};
use hobt_showplan::{Actual, Body, Detail, Figures, PlanNode, ShownStatement, WorkerActual};
use hobt_table::{MemoryFigures, StatementRun, Writing};

use kept::PlanOfStatement;
pub(super) use kept::{ChangeShown, Plans};
pub(super) use show::{check_alone, is_showplan_alone};
pub(super) use store::PlanEntry;
pub use store::{CachedPlan, Measure, PlanStore, QueryStats, sql_handle};

/// A statement that runs at least this long has its plan recorded on its first execution.
const LOOKED_INTO: Duration = Duration::from_millis(1);

impl Interpreter<'_> {
    /// Called before a statement runs. Returns the plan data of the enclosing statement, or `None` if nothing is to be
    /// kept.
    pub(super) fn begin_plan(&mut self, statement: &Statement) -> Option<PlanOfStatement> {
        let has_plan = matches!(
            statement.kind,
            StatementKind::Select(_)
                | StatementKind::Insert(_)
                | StatementKind::Update(_)
                | StatementKind::Delete(_)
                | StatementKind::Merge(_)
        );
        // A statement run by INSERT … EXEC does not belong to the INSERT's plan.
        if !has_plan && self.plans.current.statement.is_none() {
            return None;
        }
        let of = has_plan.then(|| (statement.span, statement_kind::command(&statement.kind)));
        Some(std::mem::replace(
            &mut self.plans.current,
            PlanOfStatement { statement: of, ..PlanOfStatement::default() },
        ))
    }

    /// Called after a statement has run. Records its cost in the store, sends its plan to the client if `STATISTICS
    /// PROFILE` or `XML` is on, and adds the plan to `cost` if plans are collected.
    ///
    /// # Errors
    /// If the client accepts no more.
    pub(super) fn end_plan(
        &mut self,
        outer: Option<PlanOfStatement>,
        cost: Option<&mut StatementStatistics>,
        rows: u64,
    ) -> Result<(), Failure> {
        let Some(outer) = outer else { return Ok(()) };
        let Some(ended) = std::mem::replace(&mut self.plans.current, outer).kept else { return Ok(()) };
        if let (Some(entry), Some(cost)) = (&ended.entry, &cost) {
            entry.record(&Measure::of(cost, rows).with_memory(&ended.memory, ended.spilled_bytes));
        }
        let Some(mut shown) = ended.shown else { return Ok(()) };
        if let Some(cost) = &cost {
            shown.compile = (cost.compile, cost.compile_cpu);
            shown.statistics_cost = cost.statistics_cost;
            shown.memory = ended.memory.last().map(|figures| figures.shown());
            shown.figures = Some(Figures { elapsed: cost.elapsed, cpu: cost.cpu, waits: cost.waits.clone(), rows });
        }
        let (profile, xml) = (StatisticsKind::Profile, StatisticsKind::Xml);
        let options = &self.state.options;
        let (profile, xml) = (options.statistics(profile), options.statistics(xml));
        if profile {
            self.send_result(&result::profile(std::slice::from_ref(&shown)))?;
        }
        if xml {
            self.send_result(&result::xml(std::slice::from_ref(&shown)))?;
        }
        if let Some(cost) = cost.filter(|_| self.plans.collects) {
            cost.plan = Some(Arc::new(shown));
        }
        Ok(())
    }

    /// Drops the plan data of a statement that failed.
    pub(super) fn leave_plan(&mut self, outer: Option<PlanOfStatement>) {
        if let Some(outer) = outer {
            self.plans.current = outer;
        }
    }

    /// Whether plans of statements that ran are requested.
    fn shows_runs(&self) -> bool {
        let options = &self.state.options;
        self.plans.collects || options.statistics(StatisticsKind::Profile) || options.statistics(StatisticsKind::Xml)
    }

    /// Called when a run begins, nested or not.
    pub(super) fn run_begins(&mut self, run: &StatementRun) {
        self.plans.depth += 1;
        if self.plans.depth == 1 && self.plans.current.statement.is_some() && self.shows_runs() {
            run.keep_plan();
        }
    }

    /// Called when a run ends. `elapsed` is its duration. `own_cpu` is the processor time of its own thread, without
    /// planning. Drops the plan, which holds tables and memory.
    pub(super) fn run_ends(
        &mut self,
        run: &Arc<StatementRun>,
        succeeded: bool,
        (elapsed, own_cpu): (Duration, Duration),
    ) {
        self.plans.depth -= 1;
        let current = &mut self.plans.current;
        let is_plans = current.plan().is_some_and(|(of, _)| Arc::ptr_eq(of, run));
        let is_values = current.plan().is_none() && current.change().is_some() && self.plans.depth == 0;
        if !is_plans && !is_values {
            return;
        }
        current.tell_numbers();
        let kept = current.kept();
        let plan = kept.plan.take().map(|(_, plan)| plan);
        if !succeeded {
            kept.change = None;
            return;
        }
        kept.spilled_bytes = plan.as_ref().map_or(0, spilled_bytes);
        self.note_entry(run, plan.as_ref(), elapsed);
        if self.shows_runs() {
            let tree = self.tree(plan.as_ref(), Some(own_cpu), run);
            self.plans.current.kept().shown = self.shown_statement(tree, run);
        }
        self.plans.current.kept().change = None;
    }

    /// Keeps a plan that is about to run, if it is the plan of the statement itself.
    pub(super) fn keep_plan(&mut self, run: &Arc<StatementRun>, plan: &PhysicalPlan) {
        let current = &mut self.plans.current;
        let has_values = current.change().is_some_and(|change| change.rows > 0);
        let (Some(statement), 1, None, false) = (current.statement, self.plans.depth, current.plan(), has_values)
        else {
            return;
        };
        run.show_plan(plan, &self.text, statement);
        if let Some(change) = current.change() {
            run.show_change(&change.database, &change.table, change.columns.as_deref());
        }
        current.kept().plan = Some((Arc::clone(run), Arc::clone(plan)));
    }

    /// Records the memory that the statement was admitted with.
    pub(super) fn note_memory(&mut self, figures: Arc<MemoryFigures>) {
        self.plans.current.kept().memory.push(figures);
    }

    /// Whether the statement's plan has been made.
    pub(super) fn has_plan(&self) -> bool {
        self.plans.current.plan().is_some()
    }

    /// Drops the statement's plan because it is planned again.
    pub(super) fn forget_plan(&mut self) {
        self.plans.current.tell_numbers();
        self.plans.current.kept.iter_mut().for_each(|kept| kept.plan = None);
    }

    /// Records the change that the statement makes, unless it is already recorded.
    pub(super) fn note_change(&mut self, change: impl FnOnce() -> ChangeShown) {
        let current = &mut self.plans.current;
        if self.plans.depth == 1 && current.statement.is_some() && current.change().is_none() {
            let change = change();
            if let Some((run, _)) = current.plan() {
                run.show_change(&change.database, &change.table, change.columns.as_deref());
            }
            current.kept().change = Some(change);
        }
    }

    /// Finds the store entry for the statement's cost. Records its plan there if the run took at least [`LOOKED_INTO`],
    /// or if the statement has run before.
    fn note_entry(&mut self, run: &StatementRun, plan: Option<&PhysicalPlan>, elapsed: Duration) {
        let Some(identity) = self.identity() else { return };
        let store = Arc::clone(&self.environment.plans);
        let shape = plan.map_or(0, shape);
        let known = store.find(&identity.key(shape));
        let looks = known.is_some() || elapsed >= LOOKED_INTO;
        let entry = known.or_else(|| store.insert(&identity, shape));
        if let Some(entry) = entry.as_ref().filter(|entry| looks && !entry.has_plan()) {
            let tree = self.tree(plan, None, run);
            self.shown_statement(tree, run).into_iter().for_each(|shown| store.fill(entry, shown));
        }
        if let Some(entry) = &entry {
            self.note_reuse(entry);
        }
        self.plans.current.kept().entry = entry;
    }

    /// The hash of the running text. It is cached, so a batch of many statements is hashed once.
    fn hash_of_text(&self) -> u64 {
        let hash = self.plans.hash.get().unwrap_or_else(|| store::text_hash(&self.text));
        self.plans.hash.set(Some(hash));
        hash
    }

    /// The tree of the statement's plan, or of its rows of values if it has no plan. `ran` is the processor time of the
    /// statement's own thread if it has run.
    fn tree(&self, plan: Option<&PhysicalPlan>, ran: Option<Duration>, run: &StatementRun) -> PlanNode {
        let (current, has_run, degree) = (&self.plans.current, ran.is_some(), run.degree());
        let mut node = match plan {
            Some(plan) => explain(plan, &self.statement_texts(), has_run, degree),
            None => {
                let rows = current.change().map_or(1, |change| change.rows);
                constant_rows(rows, has_run)
            }
        };
        if let (Some(change), Some((_, kind))) = (current.change(), current.statement) {
            node = changes(kind, &change.database, &change.table, change.columns.as_deref(), node);
            let rows = node.children[0].actual.as_ref().map_or(0, Actual::rows);
            node.actual = ran.map(|own_cpu| changed(run, rows, own_cpu));
        }
        node.finish();
        node
    }

    /// The text constants of the running statement.
    fn statement_texts(&self) -> Texts {
        let span = self.plans.current.statement.map_or_else(Span::default, |(span, _)| span);
        Texts::new(hobt_tsql::text_constants(self.text_of(span)))
    }

    fn text_of(&self, span: Span) -> &str {
        self.text.get(span.start as usize..span.end as usize).unwrap_or_default()
    }

    fn shown_statement(&self, root: PlanNode, run: &StatementRun) -> Option<ShownStatement> {
        let (span, kind) = self.plans.current.statement?;
        let text = self.text_of(span);
        Some(ShownStatement {
            text: text.to_owned(),
            kind: kind.to_owned(),
            root: Some(root),
            degree: run.degree(),
            compile: (Duration::ZERO, Duration::ZERO),
            is_reused: self.plans.current.kept.as_ref().is_some_and(|kept| kept.reuses),
            statistics_cost: run.statistics_cost(),
            query_hash: store::query_hash(text),
            figures: None,
            memory: None,
            statistics: run.statistics_read(),
            body: Body::None,
        })
    }

    /// Sets whether each statement's cost includes its plan from now on.
    pub(super) fn collect_plans(&mut self, collects: bool) {
        self.plans.collects = collects;
    }
}

/// The figures of the operator that changes a table: the rows written by each worker, or `rows` for the statement's own
/// thread.
fn changed(run: &StatementRun, rows: u64, own_cpu: Duration) -> Actual {
    let written = run.written();
    let is_parallel = written.len() > 1;
    let worker = |(at, of): (usize, &Writing)| WorkerActual {
        worker: if is_parallel { at + 1 } else { 0 },
        rows: of.rows,
        executions: 1,
        cpu: of.cpu,
        ..WorkerActual::default()
    };
    let mut workers: Vec<WorkerActual> = written.iter().enumerate().map(worker).collect();
    if workers.is_empty() {
        workers.push(WorkerActual { rows, executions: 1, ..WorkerActual::default() });
    }
    // The statement's own thread publishes what the workers wrote, and commits.
    workers[0].cpu += own_cpu;
    Actual { workers, ..Actual::default() }
}

/// The operator for rows of values written in the statement.
fn constant_rows(rows: u64, has_run: bool) -> PlanNode {
    let mut node = PlanNode::new("Constant Scan", "Constant Scan", Detail::ConstantScan { rows });
    node.estimate.rows = rows as f64;
    if has_run {
        let worker = WorkerActual { rows, executions: 1, ..WorkerActual::default() };
        node.actual = Some(Actual { workers: vec![worker], ..Actual::default() });
    }
    node
}
