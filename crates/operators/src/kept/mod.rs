//! Physical plans that are kept between executions.
//!
//! ```text
//!   plan of a statement ──► KeptPlan: the operators, without its statement, its use of databases, its open trees
//!                               └─ made: for another statement, from the tables as that one reads them ──► plan
//! ```
//! An operator of DataFusion is kept over [`Hole`]s, which have the properties of its inputs; so its own need not be
//! computed again. An operator that has a table or a statement is kept as a [`Recipe`], which its module writes. What
//! operators share while they run (the keys of a join filter, the best rows so far of a sort, the inner table of an
//! index join) has a number in the kept plan, and each execution has its own.
//!
//! Leaves to others: whether a plan may be used again (`hobt-interpreter`), and the operators that are put into it when
//! it is about to run (`hobt-planner`, `prepare`).

mod hole;

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::datatypes::DataType;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, replace_children_if_necessary};
use datafusion::physical_plan::{ExecutionPlan, ReplaceChildrenOptions};
use hobt_base::SqlError;
use hobt_table::{KeptTable, TableRead};
use hobt_udf::sql_error_of;

use crate::index_join::Inner;
use crate::join_filter::JoinFilter;
use crate::role::{Exchange, Join, Passing, Role, role};
use hole::Hole;

type Plan = Arc<dyn ExecutionPlan>;

/// Makes an operator of an execution over its inputs.
pub(crate) type Recipe = Box<dyn Fn(&Making<'_>, Vec<Plan>) -> Result<Plan> + Send + Sync>;

/// A plan without the statement that it was made for.
pub struct KeptPlan {
    root: Node,
    tables: Vec<KeptTable>,
    filters: Vec<FilterKind>,
    sorts: usize,
    lookups: usize,
    /// Whether an execution uses it, if it serves one at a time.
    is_used: Option<Arc<AtomicBool>>,
}

/// An execution's use of a kept plan. It holds something if the plan serves one execution at a time.
#[derive(Debug)]
pub struct KeptUse(Option<Arc<AtomicBool>>);

impl Drop for KeptUse {
    fn drop(&mut self) {
        if let Some(is_used) = &self.0 {
            is_used.store(false, Ordering::Release);
        }
    }
}

impl fmt::Debug for KeptPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptPlan").field("tables", &self.tables).finish_non_exhaustive()
    }
}

/// An operator with its inputs, between executions.
pub(crate) struct Node {
    operator: Operator,
    inputs: Vec<Node>,
}

enum Operator {
    /// Over holes; the number of its condition if it is a sort that keeps the first rows.
    Plain(Plan, Option<usize>),
    Own(Recipe),
}

/// A join filter without its keys.
struct FilterKind {
    name: String,
    key_type: DataType,
    nulls_are_equal: bool,
}

impl KeptPlan {
    /// Keeps a plan that has not run. `None` if an operator cannot be kept: one whose rows are in the plan, or that
    /// shares with others what is not known here.
    pub fn of(plan: &Plan) -> Option<KeptPlan> {
        let mut keeping = Keeping::default();
        let root = keeping.node(plan)?;
        let is_used = keeping.is_exclusive.then(Arc::default);
        let tables = keeping.tables.into_iter().map(|(_, kept)| kept).collect();
        let filters = keeping.filters.iter().map(|filter| {
            let (name, key_type, nulls_are_equal) = filter.kind();
            FilterKind { name: name.to_owned(), key_type: key_type.clone(), nulls_are_equal }
        });
        let (filters, sorts, lookups) = (filters.collect(), keeping.sorts.len(), keeping.lookups.len());
        Some(KeptPlan { root, tables, filters, sorts, lookups, is_used })
    }

    /// The tables, in the order in which [`KeptPlan::made`] takes them.
    pub fn tables(&self) -> &[KeptTable] {
        &self.tables
    }

    /// The number of its operators.
    pub fn operators(&self) -> usize {
        fn count(node: &Node) -> usize {
            1 + node.inputs.iter().map(count).sum::<usize>()
        }
        count(&self.root)
    }

    /// Begins an execution, which keeps the answer until it ends. `None` if another one uses the plan, which serves one
    /// at a time.
    pub fn begin(&self) -> Option<KeptUse> {
        let is_taken = self.is_used.as_ref().is_some_and(|is_used| is_used.swap(true, Ordering::Acquire));
        (!is_taken).then(|| KeptUse(self.is_used.clone()))
    }

    /// The plan for a statement that reads `tables`, and has begun ([`KeptPlan::begin`]).
    ///
    /// # Errors
    /// If an index cannot be opened.
    pub fn made(&self, tables: &[Arc<TableRead>]) -> Result<Plan, SqlError> {
        let filter = |kind: &FilterKind| {
            Arc::new(JoinFilter::new(kind.name.clone(), kind.key_type.clone(), kind.nulls_are_equal))
        };
        let making = Making {
            tables,
            filters: self.filters.iter().map(filter).collect(),
            sorts: RefCell::new(vec![None; self.sorts]),
            lookups: RefCell::new(vec![None; self.lookups]),
        };
        making.node(&self.root).map_err(sql_error_of)
    }
}

/// What a plan that is being kept has so far.
#[derive(Default)]
pub(crate) struct Keeping {
    tables: Vec<(Arc<TableRead>, KeptTable)>,
    filters: Vec<Arc<JoinFilter>>,
    sorts: Vec<Arc<dyn PhysicalExpr>>,
    lookups: Vec<Arc<Inner>>,
    /// Whether a table cannot be kept.
    has_failed: bool,
    /// Whether operators and expressions share what one execution finds out.
    is_exclusive: bool,
}

impl Keeping {
    /// Keeps an operator with its inputs; `None` if one of them cannot be kept.
    pub(crate) fn node(&mut self, plan: &Plan) -> Option<Node> {
        let operator = match role(plan.as_ref()) {
            Role::Scan(scan) => Operator::Own(scan.kept(self)?),
            Role::Seek(seek) => Operator::Own(seek.kept(self)),
            Role::ScanAggregate(scan) => Operator::Own(scan.kept(self)?),
            Role::Outer(outer) => Operator::Own(outer.kept(self)),
            Role::Passes(Passing::Taps(tap)) => Operator::Own(tap.kept(self)),
            Role::Passes(Passing::Reads(inner)) => Operator::Own(inner.kept(self)),
            Role::Join(Join::Lookup(join)) => Operator::Own(join.kept(self)),
            Role::Sort(sort) => {
                let condition = sort.fetch().and_then(|_| sort.dynamic_expressions_produced().into_iter().next());
                let number = condition.map(|condition| number(&mut self.sorts, &condition));
                Operator::Plain(over_holes(plan)?, number)
            }
            Role::Passes(
                Passing::Yields | Passing::HidesOrder | Passing::Shortens | Passing::Ranks | Passing::Fences,
            )
            | Role::Exchange(Exchange::Spread(_) | Exchange::Gather | Exchange::Merge(_))
            | Role::Join(Join::Hash(_) | Join::Loops(_) | Join::Cross(_) | Join::Merge(_) | Join::Ranges(_)) => {
                Operator::Plain(over_holes(plan)?, None)
            }
            Role::Constant(_) | Role::Filter(_) | Role::Project(_) | Role::Limit { .. } | Role::Group(_) => {
                Operator::Plain(over_holes(plan)?, None)
            }
            Role::Window { .. } | Role::Unnest | Role::Union => Operator::Plain(over_holes(plan)?, None),
            // The values of its subqueries are where the expressions that use them look, in each execution.
            Role::Subqueries(_) => {
                self.is_exclusive = true;
                Operator::Plain(over_holes(plan)?, None)
            }
            Role::Recursion | Role::WorkTable => return None,
            // Rows that are in the plan, or in files.
            Role::Made => return None,
            // Rows are locked, or waited for, by an execution.
            Role::Locks(_) | Role::Unseen(_) => return None,
            Role::Passes(Passing::Cancels | Passing::Repeats) => return None,
            Role::Join(Join::RowLoops(_)) | Role::StandIn | Role::Unknown => return None,
        };
        let inputs = plan.children().into_iter().map(|input| self.node(input)).collect::<Option<_>>()?;
        (!self.has_failed).then_some(Node { operator, inputs })
    }

    /// The number of a table.
    pub(crate) fn table(&mut self, table: &Arc<TableRead>) -> usize {
        if let Some(known) = self.tables.iter().position(|(known, _)| Arc::ptr_eq(known, table)) {
            return known;
        }
        match table.kept() {
            Some(kept) => self.tables.push((Arc::clone(table), kept)),
            None => self.has_failed = true,
        }
        self.tables.len().saturating_sub(1)
    }

    /// The number of a join filter.
    pub(crate) fn filter(&mut self, filter: &Arc<JoinFilter>) -> usize {
        number(&mut self.filters, filter)
    }

    /// The number of the sort whose condition this is; `None` if it is none of the sorts above.
    pub(crate) fn sort(&self, condition: &Arc<dyn PhysicalExpr>) -> Option<usize> {
        self.sorts.iter().position(|known| Arc::ptr_eq(known, condition))
    }

    /// The number of an index join's inner table.
    pub(crate) fn lookup(&mut self, inner: &Arc<Inner>) -> usize {
        number(&mut self.lookups, inner)
    }
}

/// The position of a value in a list, to which it is added if it is not there.
fn number<T: ?Sized>(list: &mut Vec<Arc<T>>, value: &Arc<T>) -> usize {
    list.iter().position(|known| Arc::ptr_eq(known, value)).unwrap_or_else(|| {
        list.push(Arc::clone(value));
        list.len() - 1
    })
}

/// An operator over holes in place of its inputs.
fn over_holes(plan: &Plan) -> Option<Plan> {
    let inputs = plan.children();
    if inputs.is_empty() {
        return Some(Arc::clone(plan));
    }
    let holes = inputs.into_iter().map(|input| Arc::new(Hole::of(input)) as Plan).collect();
    let keeps = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    Arc::clone(plan).replace_children(holes, keeps).ok()
}

/// What a plan that is being made has so far.
pub(crate) struct Making<'k> {
    tables: &'k [Arc<TableRead>],
    filters: Vec<Arc<JoinFilter>>,
    sorts: RefCell<Vec<Option<Arc<dyn PhysicalExpr>>>>,
    lookups: RefCell<Vec<Option<Arc<Inner>>>>,
}

impl Making<'_> {
    /// Makes an operator with its inputs. A sort is made before its input, since a scan needs its condition.
    pub(crate) fn node(&self, node: &Node) -> Result<Plan> {
        let inputs = || node.inputs.iter().map(|input| self.node(input)).collect::<Result<Vec<_>>>();
        match &node.operator {
            Operator::Own(recipe) => recipe(self, inputs()?),
            Operator::Plain(plan, sort) => {
                let fresh = Arc::clone(plan).reset_state()?;
                if let Some(sort) = *sort {
                    self.sorts.borrow_mut()[sort] = fresh.dynamic_expressions_produced().into_iter().next();
                }
                replace_children_if_necessary(fresh, inputs()?)
            }
        }
    }

    /// All tables.
    pub(crate) fn tables(&self) -> &[Arc<TableRead>] {
        self.tables
    }

    /// The table with this number.
    pub(crate) fn table(&self, number: usize) -> Result<&Arc<TableRead>> {
        self.tables.get(number).ok_or_else(|| internal_datafusion_err!("a kept plan without table {number}"))
    }

    /// The join filter with this number.
    pub(crate) fn filter(&self, number: usize) -> &Arc<JoinFilter> {
        &self.filters[number]
    }

    /// The condition of the sort with this number.
    pub(crate) fn sort(&self, number: usize) -> Result<Arc<dyn PhysicalExpr>> {
        let condition = self.sorts.borrow()[number].clone();
        condition.ok_or_else(|| internal_datafusion_err!("a kept sort without a condition"))
    }

    /// The inner table of the index join with this number, which `make` makes for the first that asks.
    pub(crate) fn lookup(&self, number: usize, make: impl FnOnce() -> Result<Inner>) -> Result<Arc<Inner>> {
        if let Some(known) = &self.lookups.borrow()[number] {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(make()?);
        self.lookups.borrow_mut()[number] = Some(Arc::clone(&made));
        Ok(made)
    }
}

/// The only input of an operator.
pub(crate) fn only(inputs: &mut Vec<Plan>) -> Result<Plan> {
    inputs.pop().ok_or_else(|| internal_datafusion_err!("a kept operator without its input"))
}
