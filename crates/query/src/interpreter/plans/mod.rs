//! Plans that are shown: those of statements that ran, and those of statements that do not run.
//!
//! ```text
//!   a statement runs ─► prepare ─► PlanOfStatement ─► in_run's end ─┬─► STATISTICS PROFILE, XML; Event::Statistics
//!                                                                   └─► PlanStore: sys.dm_exec_query_stats
//!   SHOWPLAN_… is on ─► show ─► planned: bound and planned as if it ran, and no further
//! ```
//! Of a statement one plan is kept: the first that is made in its own run. What evaluates a `TOP` or looks after
//! foreign keys has plans of its own, which are not shown.

mod planned;
mod result;
mod show;
mod store;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::ExecutionPlan;
use hobt_catalog::Table;
use hobt_engine::DatabaseUse;
use hobt_tsql::ast::{Span, Statement, StatementKind, StatisticsKind};

use super::event::StatementStatistics;
use super::failure::Failure;
use super::run::Interpreter;
use super::statement_kind;
use crate::execute::{MemoryFigures, StatementRun, Texts, Writing, changes, explain, outline, shape, spilled_bytes};
use crate::plan_tree::{Actual, Body, Detail, Figures, PlanNode, ShownStatement, WorkerActual};

pub(super) use show::{check_alone, is_showplan_alone};
pub use store::{CachedPlan, Measure, PlanStore, QueryStats, sql_handle};
pub(super) use store::{PlanEntry, StatementKey};

/// A statement that takes as long has its plan looked into the first time.
const LOOKED_INTO: Duration = Duration::from_millis(1);

/// What the interpreter keeps of plans.
#[derive(Default)]
pub(super) struct Plans {
    /// How many runs are under way, one within the other.
    depth: usize,
    /// The plan of the statement that runs.
    current: PlanOfStatement,
    /// Where the statements go that are shown in place of being run; `None` if statements run.
    showing: Option<Vec<ShownStatement>>,
    /// Whether each statement's plan goes with its cost.
    collects: bool,
    /// The hash of the text that runs, once somebody has asked for it.
    hash: Cell<Option<u64>>,
}

impl Plans {
    /// Another text runs: gives what is known of the one that ran.
    pub(super) fn take_hash(&mut self) -> Option<u64> {
        self.hash.take()
    }

    /// The text runs again of which this is known.
    pub(super) fn put_hash(&mut self, hash: Option<u64>) {
        self.hash.set(hash);
    }
}

/// What is kept of the plan of one statement.
#[derive(Default)]
pub(super) struct PlanOfStatement {
    /// The statement; `None` for one whose plan nobody wants.
    statement: Option<(Span, &'static str)>,
    /// The rest of it, where there is one: most statements of a loop run without a plan.
    kept: Option<Box<Kept>>,
}

#[derive(Default)]
struct Kept {
    /// The plan, and whose run it is of.
    plan: Option<(Arc<StatementRun>, Arc<dyn ExecutionPlan>)>,
    /// What the statement changes.
    change: Option<ChangeShown>,
    /// Where its cost is noted, once that is known.
    entry: Option<Arc<PlanEntry>>,
    /// The plan as it is shown, when the run is over.
    shown: Option<ShownStatement>,
    spilled_bytes: u64,
    /// What its operators asked for, were granted and held, of each plan that it ran.
    memory: Vec<Arc<MemoryFigures>>,
}

impl PlanOfStatement {
    fn kept(&mut self) -> &mut Kept {
        self.kept.get_or_insert_default()
    }

    fn plan(&self) -> Option<&(Arc<StatementRun>, Arc<dyn ExecutionPlan>)> {
        self.kept.as_ref()?.plan.as_ref()
    }

    fn change(&self) -> Option<&ChangeShown> {
        self.kept.as_ref()?.change.as_ref()
    }

    /// Tells the operators that have counted which numbers they have in the plan: who looks at the counters afterwards
    /// has no plan any more.
    fn tell_numbers(&self) {
        let Some((run, plan)) = self.plan().filter(|(run, _)| run.has_profiles()) else { return };
        let mut root = outline(plan, run.degree());
        if let (Some(change), Some((_, kind))) = (self.change(), self.statement) {
            root = changes(kind, &change.database, &change.table, change.columns.as_deref(), root);
        }
        root.number();
    }
}

/// What a statement changes.
pub(super) struct ChangeShown {
    pub(super) database: DatabaseUse,
    pub(super) table: Arc<Table>,
    /// The columns that an `UPDATE` changes.
    pub(super) columns: Option<Vec<usize>>,
    /// How many rows of values there are; 0 where a query gives them.
    pub(super) rows: u64,
}

impl Interpreter<'_> {
    /// A statement is about to run; gives what is kept of the one around it. `None` if there is nothing to keep.
    pub(super) fn begin_plan(&mut self, statement: &Statement) -> Option<PlanOfStatement> {
        let has_plan = matches!(
            statement.kind,
            StatementKind::Select(_)
                | StatementKind::Insert(_)
                | StatementKind::Update(_)
                | StatementKind::Delete(_)
                | StatementKind::Merge(_)
        );
        // What runs within an INSERT … EXEC is not its plan.
        if !has_plan && self.plans.current.statement.is_none() {
            return None;
        }
        let of = has_plan.then(|| (statement.span, statement_kind::command(&statement.kind)));
        Some(std::mem::replace(&mut self.plans.current, PlanOfStatement { statement: of, kept: None }))
    }

    /// It has run, and what is kept of it goes to whom it concerns.
    ///
    /// # Errors
    /// The client wants no more.
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

    /// Gives up what is kept of a statement that failed.
    pub(super) fn leave_plan(&mut self, outer: Option<PlanOfStatement>) {
        if let Some(outer) = outer {
            self.plans.current = outer;
        }
    }

    /// Whether somebody wants to see what statements did.
    fn shows_runs(&self) -> bool {
        let options = &self.state.options;
        self.plans.collects || options.statistics(StatisticsKind::Profile) || options.statistics(StatisticsKind::Xml)
    }

    /// A run begins, within others or not.
    pub(super) fn run_begins(&mut self, run: &StatementRun) {
        self.plans.depth += 1;
        if self.plans.depth == 1 && self.plans.current.statement.is_some() && self.shows_runs() {
            run.keep_plan();
        }
    }

    /// It has ended, after so long, and with so much processor time of its own thread behind the making of its plan,
    /// which holds tables and memory and does not outlive it.
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

    /// Keeps a plan that is about to run, if it is the statement's.
    pub(super) fn keep_plan(&mut self, run: &Arc<StatementRun>, plan: &Arc<dyn ExecutionPlan>) {
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

    /// Notes what memory the statement was let in with.
    pub(super) fn note_memory(&mut self, figures: Arc<MemoryFigures>) {
        self.plans.current.kept().memory.push(figures);
    }

    /// Whether the statement's plan has been made.
    pub(super) fn has_plan(&self) -> bool {
        self.plans.current.plan().is_some()
    }

    /// The statement's plan is made anew.
    pub(super) fn forget_plan(&mut self) {
        self.plans.current.tell_numbers();
        self.plans.current.kept.iter_mut().for_each(|kept| kept.plan = None);
    }

    /// Notes what the statement changes, if nobody has.
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

    /// Looks where the statement's cost is noted. Its plan is looked into where it took a while, or comes again.
    fn note_entry(&mut self, run: &StatementRun, plan: Option<&Arc<dyn ExecutionPlan>>, elapsed: Duration) {
        let Some((span, _)) = self.plans.current.statement else { return };
        let store = Arc::clone(&self.environment.plans);
        let key = self.statement_key(span, plan.map_or(0, shape));
        let known = store.find(&key);
        let looks = known.is_some() || elapsed >= LOOKED_INTO;
        let entry = known.or_else(|| store.insert(key, &self.text, span));
        if let Some(entry) = entry.as_ref().filter(|entry| looks && !entry.has_plan()) {
            let tree = self.tree(plan, None, run);
            self.shown_statement(tree, run).into_iter().for_each(|shown| store.fill(entry, shown));
        }
        self.plans.current.kept().entry = entry;
    }

    /// Where the cost of the statement that runs is noted, if it has run before.
    pub(super) fn known_entry(&self) -> Option<Arc<PlanEntry>> {
        let (span, _) = self.plans.current.statement?;
        self.environment.plans.latest(&self.statement_key(span, 0))
    }

    fn statement_key(&self, span: Span, shape: u64) -> StatementKey {
        let options = self.state.options.bits();
        StatementKey::new(self.hash_of_text(), span, (self.state.database.id(), self.state.procedure, options), shape)
    }

    /// The hash of the text that runs. A batch of many statements is hashed once.
    fn hash_of_text(&self) -> u64 {
        let hash = self.plans.hash.get().unwrap_or_else(|| store::text_hash(&self.text));
        self.plans.hash.set(Some(hash));
        hash
    }

    /// The tree of the statement's plan; of rows of values where there is none. `ran` is the processor time of the own
    /// thread of a statement that has run.
    fn tree(&self, plan: Option<&Arc<dyn ExecutionPlan>>, ran: Option<Duration>, run: &StatementRun) -> PlanNode {
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

    /// The text constants of the statement that runs.
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
            query_hash: store::query_hash(text),
            figures: None,
            memory: None,
            statistics: run.statistics_read(),
            body: Body::None,
        })
    }

    /// Has each statement's plan go with its cost, from now on.
    pub(super) fn collect_plans(&mut self, collects: bool) {
        self.plans.collects = collects;
    }
}

/// What an operator did that changes a table: what workers wrote, and the statement's own thread, which took `rows`.
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
    // It publishes what workers wrote, and commits.
    workers[0].cpu += own_cpu;
    Actual { workers, ..Actual::default() }
}

/// The operator of rows that a statement has written down.
fn constant_rows(rows: u64, has_run: bool) -> PlanNode {
    let mut node = PlanNode::new("Constant Scan", "Constant Scan", Detail::ConstantScan { rows });
    node.estimate.rows = rows as f64;
    if has_run {
        let worker = WorkerActual { rows, executions: 1, ..WorkerActual::default() };
        node.actual = Some(Actual { workers: vec![worker], ..Actual::default() });
    }
    node
}
