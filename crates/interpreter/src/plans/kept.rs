//! What is kept of the plans of a batch's statements while they run.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use hobt_catalog::Table;
use hobt_engine::DatabaseUse;
use hobt_planner::{PhysicalPlan, changes, outline};
use hobt_showplan::ShownStatement;
use hobt_table::{MemoryFigures, StatementRun};
use hobt_tsql::ast::Span;

use super::kept_statement::KeptStatement;
use super::store::PlanEntry;

/// The interpreter's state for plans.
#[derive(Default)]
pub(crate) struct Plans {
    /// Number of nested runs under way.
    pub(crate) depth: usize,
    /// The plan of the running statement.
    pub(crate) current: PlanOfStatement,
    /// Receives the statements that are shown instead of being run. `None` if statements run.
    pub(crate) showing: Option<Vec<ShownStatement>>,
    /// Whether each statement's cost includes its plan.
    pub(crate) collects: bool,
    /// The hash of the running text, once it has been computed.
    pub(crate) hash: Cell<Option<u64>>,
}

impl Plans {
    /// Called when another text begins to run. Returns the hash of the outer text.
    pub(crate) fn take_hash(&mut self) -> Option<u64> {
        self.hash.take()
    }

    /// Called when the outer text continues. Restores its hash.
    pub(crate) fn put_hash(&mut self, hash: Option<u64>) {
        self.hash.set(hash);
    }
}

/// The plan of one statement, and data about it.
#[derive(Default)]
pub(crate) struct PlanOfStatement {
    /// The statement. `None` if its plan is not needed.
    pub(crate) statement: Option<(Span, &'static str)>,
    /// Its parameterised text with its place in it, once they are asked for; nothing if it has none.
    pub(crate) form: OnceCell<Option<(Arc<str>, Span)>>,
    /// The rest of the data, if there is any: most statements in a loop run without a plan.
    pub(crate) kept: Option<Box<Kept>>,
}

#[derive(Default)]
pub(crate) struct Kept {
    /// The plan, and the run it belongs to.
    pub(crate) plan: Option<(Arc<StatementRun>, PhysicalPlan)>,
    /// The change that the statement makes.
    pub(crate) change: Option<ChangeShown>,
    /// The store entry that its cost is added to, once it is known.
    pub(crate) entry: Option<Arc<PlanEntry>>,
    /// The plan as it is shown, once the run is over.
    pub(crate) shown: Option<ShownStatement>,
    pub(crate) spilled_bytes: u64,
    /// The plan for other executions, until the run is over.
    pub(crate) reusable: Option<Arc<KeptStatement>>,
    /// The plan of an earlier execution for other values of these parameters, with which this one is compared.
    pub(crate) compared: Option<(Arc<KeptStatement>, Vec<String>)>,
    /// Whether the plan is one of an earlier execution.
    pub(crate) reuses: bool,
    /// For each plan that it ran: the memory that its operators asked for, were granted and held.
    pub(crate) memory: Vec<Arc<MemoryFigures>>,
}

impl PlanOfStatement {
    pub(crate) fn kept(&mut self) -> &mut Kept {
        self.kept.get_or_insert_default()
    }

    pub(crate) fn plan(&self) -> Option<&(Arc<StatementRun>, PhysicalPlan)> {
        self.kept.as_ref()?.plan.as_ref()
    }

    pub(crate) fn change(&self) -> Option<&ChangeShown> {
        self.kept.as_ref()?.change.as_ref()
    }

    /// Passes each operator its number in the plan, so that the counters can be read when the plan is gone.
    pub(crate) fn tell_numbers(&self) {
        let Some((run, plan)) = self.plan().filter(|(run, _)| run.has_profiles()) else { return };
        let mut root = outline(plan, run.degree());
        if let (Some(change), Some((_, kind))) = (self.change(), self.statement) {
            root = changes(kind, &change.database, &change.table, change.columns.as_deref(), root);
        }
        root.number();
    }
}

/// Describes the change that a statement makes.
pub(crate) struct ChangeShown {
    pub(crate) database: DatabaseUse,
    pub(crate) table: Arc<Table>,
    /// The columns that an `UPDATE` changes.
    pub(crate) columns: Option<Vec<usize>>,
    /// Number of rows in a `VALUES` list. 0 if a query gives the rows.
    pub(crate) rows: u64,
}
