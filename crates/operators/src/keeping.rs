//! What an operator that is kept between executions is told, and what it says of itself.
//!
//! An operator's module writes a [`Recipe`]: how to make it again, of tables and of state that it shares with others.
//! Both have numbers here, so that each execution has its own.
//!
//! Leaves to others: which operators are kept, and the walk through a plan (`kept`).

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use hobt_table::{KeptTable, NameCounts, ParameterValues, TableRead};

/// With other values of its parameters, a plan is made anew if a leaf is then expected to give more rows than this, and
/// this many times as many as it was planned for; or the other way round.
const OTHER_ROWS: f64 = 10_000.0;
const OTHER_TIMES: f64 = 8.0;

type Plan = Arc<dyn ExecutionPlan>;
type Shared = Arc<dyn Any + Send + Sync>;

/// Makes an operator of an execution over its inputs.
pub(crate) type Recipe = Box<dyn Fn(&Making<'_>, Vec<Plan>) -> Result<Plan> + Send + Sync>;

/// What a plan that is being kept has so far.
#[derive(Default)]
pub(crate) struct Keeping {
    tables: Vec<(Arc<TableRead>, KeptTable)>,
    sorts: Vec<Arc<dyn PhysicalExpr>>,
    shared: Vec<Shared>,
    /// Whether a table cannot be kept.
    has_failed: bool,
    /// How often each parameter occurs in conditions of leaves, and in filters.
    of_leaves: NameCounts,
    of_filters: NameCounts,
    /// Whether values of parameters are in other places too.
    has_others: bool,
}

impl Keeping {
    /// The number of a table.
    pub(crate) fn table(&mut self, table: &Arc<TableRead>) -> usize {
        if let Some(known) = self.tables.iter().position(|(known, _)| Arc::ptr_eq(known, table)) {
            return known;
        }
        match KeptTable::of(table) {
            Some(kept) => self.tables.push((Arc::clone(table), kept)),
            None => self.has_failed = true,
        }
        self.tables.len().saturating_sub(1)
    }

    /// The number of a sort that gives scans below it its condition.
    pub(crate) fn add_sort(&mut self, condition: Arc<dyn PhysicalExpr>) -> usize {
        self.sorts.push(condition);
        self.sorts.len() - 1
    }

    /// The number of the sort whose condition this is; `None` if it is none of the sorts above.
    pub(crate) fn sort(&self, condition: &Arc<dyn PhysicalExpr>) -> Option<usize> {
        self.sorts.iter().position(|known| Arc::ptr_eq(known, condition))
    }

    /// The number of what operators share while they run.
    pub(crate) fn share<T: Any + Send + Sync>(&mut self, state: &Arc<T>) -> usize {
        let is_it = |known: &Shared| std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(state));
        self.shared.iter().position(is_it).unwrap_or_else(|| {
            self.shared.push(Arc::clone(state) as Shared);
            self.shared.len() - 1
        })
    }

    /// Whether every table can be kept.
    pub(crate) fn is_whole(&self) -> bool {
        !self.has_failed
    }

    /// Notes the parameters in the conditions of a leaf.
    pub(crate) fn note_leaf(&mut self, names: NameCounts) {
        add(&mut self.of_leaves, names);
    }

    /// Notes the parameters in a filter.
    pub(crate) fn note_filter(&mut self, names: NameCounts) {
        add(&mut self.of_filters, names);
    }

    /// Notes that values of parameters are in an operator which is not made for others.
    pub(crate) fn note_others(&mut self) {
        self.has_others = true;
    }

    /// How often each parameter occurs, if its every condition is that of a leaf and is tested above it. Otherwise a
    /// rule has made something else of a condition.
    pub(crate) fn parameters(&self) -> NameCounts {
        let is_known = !self.has_others && self.of_leaves == self.of_filters;
        if is_known { self.of_leaves.clone() } else { NameCounts::new() }
    }

    /// The tables as the statement reads them.
    pub(crate) fn reads(&self) -> Vec<Arc<TableRead>> {
        self.tables.iter().map(|(read, _)| Arc::clone(read)).collect()
    }

    /// The tables, and how many sorts and how much shared state there is.
    pub(crate) fn into_parts(self) -> (Vec<KeptTable>, usize, usize) {
        (self.tables.into_iter().map(|(_, kept)| kept).collect(), self.sorts.len(), self.shared.len())
    }
}

fn add(all: &mut NameCounts, names: NameCounts) {
    names.into_iter().for_each(|(name, count)| *all.entry(name).or_default() += count);
}

/// What a plan that is being made has so far.
pub(crate) struct Making<'k> {
    tables: &'k [Arc<TableRead>],
    /// The values of parameters, if they are others than the plan was made for.
    values: Option<&'k ParameterValues>,
    /// Whether the plan is not the one for these values.
    is_refused: Cell<bool>,
    sorts: RefCell<Vec<Option<Arc<dyn PhysicalExpr>>>>,
    shared: RefCell<Vec<Option<Shared>>>,
}

impl<'k> Making<'k> {
    /// Of these tables, with so many sorts and so much shared state.
    pub(crate) fn new(
        tables: &'k [Arc<TableRead>],
        values: Option<&'k ParameterValues>,
        sorts: usize,
        shared: usize,
    ) -> Making<'k> {
        let (sorts, shared) = (RefCell::new(vec![None; sorts]), RefCell::new(vec![None; shared]));
        Making { tables, values, is_refused: Cell::new(false), sorts, shared }
    }

    /// The values of parameters, if they are others than the plan was made for.
    pub(crate) fn values(&self) -> Option<&'k ParameterValues> {
        self.values
    }

    /// The end of the attempt to make the plan for other values, which need another plan.
    pub(crate) fn refusal(&self) -> DataFusionError {
        self.is_refused.set(true);
        internal_datafusion_err!("other values need another plan")
    }

    /// Whether [`Making::refusal`] was asked for.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused.get()
    }

    /// A leaf for other values, if it is of the kind that the plan has.
    pub(crate) fn fitting<'p, T: ExecutionPlan>(&self, leaf: &'p Plan) -> Result<&'p T> {
        leaf.downcast_ref::<T>().ok_or_else(|| self.refusal())
    }

    /// Refuses if a leaf is expected to give so many more rows than the plan was made for, or so many fewer, that
    /// another plan may be better.
    pub(crate) fn check_rows(&self, planned: f64, now: f64) -> Result<()> {
        let is_other = |few: f64, many: f64| many > OTHER_ROWS && many > OTHER_TIMES * few;
        if is_other(planned, now) || is_other(now, planned) { Err(self.refusal()) } else { Ok(()) }
    }

    /// All tables.
    pub(crate) fn tables(&self) -> &[Arc<TableRead>] {
        self.tables
    }

    /// The table with this number.
    pub(crate) fn table(&self, number: usize) -> Result<&Arc<TableRead>> {
        self.tables.get(number).ok_or_else(|| internal_datafusion_err!("a kept plan without table {number}"))
    }

    /// Sets the condition of the sort with this number.
    pub(crate) fn set_sort(&self, number: usize, condition: Option<Arc<dyn PhysicalExpr>>) {
        self.sorts.borrow_mut()[number] = condition;
    }

    /// The condition of the sort with this number.
    pub(crate) fn sort(&self, number: usize) -> Result<Arc<dyn PhysicalExpr>> {
        let condition = self.sorts.borrow()[number].clone();
        condition.ok_or_else(|| internal_datafusion_err!("a kept sort without a condition"))
    }

    /// What operators share under this number, which `make` makes for the first that asks.
    pub(crate) fn shared<T: Any + Send + Sync>(
        &self,
        number: usize,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        let other = || internal_datafusion_err!("kept operators share something else");
        let known = self.shared.borrow()[number].clone();
        if let Some(known) = known {
            return known.downcast().map_err(|_| other());
        }
        let made = Arc::new(make()?);
        self.shared.borrow_mut()[number] = Some(Arc::clone(&made) as Shared);
        Ok(made)
    }
}

/// The only input of an operator, or the last of those that are left.
pub(crate) fn only(inputs: &mut Vec<Plan>) -> Result<Plan> {
    inputs.pop().ok_or_else(|| internal_datafusion_err!("a kept operator without its input"))
}
