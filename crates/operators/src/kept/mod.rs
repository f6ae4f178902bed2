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

pub(crate) mod hole;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::{Result, internal_datafusion_err};
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, replace_children_if_necessary};
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::{ExecutionPlan, ReplaceChildrenOptions};
use hobt_base::SqlError;
use hobt_table::{KeptTable, NameCounts, ParameterValues, TableRead, parameters_of, with_values_of};
use hobt_udf::sql_error_of;

use crate::keeping::{Keeping, Making, Recipe, only};
use crate::role::{Exchange, Join, Passing, Role, role};
use hole::Hole;

type Plan = Arc<dyn ExecutionPlan>;

/// A plan without the statement that it was made for.
pub struct KeptPlan {
    root: Node,
    tables: Vec<KeptTable>,
    sorts: usize,
    shared: usize,
    /// How often each parameter occurs in its conditions.
    parameters: NameCounts,
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
struct Node {
    operator: Operator,
    inputs: Vec<Node>,
}

enum Operator {
    /// Over holes; the number of its condition if it is a sort that keeps the first rows.
    Plain(Plan, Option<usize>),
    /// A filter with parameters, over a hole.
    Filter(Plan),
    Own(Recipe),
}

impl KeptPlan {
    /// Keeps a plan that has not run. `None` if an operator cannot be kept: one whose rows are in the plan, or that
    /// shares with others what is not known here.
    ///
    /// Also returns the tables as the statement reads them.
    pub fn of(plan: &Plan) -> Option<(KeptPlan, Vec<Arc<TableRead>>)> {
        let (mut keeping, mut is_exclusive) = (Keeping::default(), false);
        let root = keep(plan, &mut keeping, &mut is_exclusive)?;
        if !keeping.is_whole() {
            return None;
        }
        let parameters = if is_exclusive { NameCounts::new() } else { keeping.parameters() };
        let reads = keeping.reads();
        let (tables, sorts, shared) = keeping.into_parts();
        Some((KeptPlan { root, tables, sorts, shared, parameters, is_used: is_exclusive.then(Arc::default) }, reads))
    }

    /// How often each parameter occurs in the conditions of its leaves, if it can be made for other values of them.
    pub fn parameters(&self) -> &NameCounts {
        &self.parameters
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

    /// The plan for a statement that reads `tables`, and has begun ([`KeptPlan::begin`]). `values` are those of
    /// parameters that are not as in the plan; `None` is returned if they need another plan.
    ///
    /// # Errors
    /// If an index cannot be opened.
    pub fn made(&self, tables: &[Arc<TableRead>], values: Option<&ParameterValues>) -> Result<Option<Plan>, SqlError> {
        let making = Making::new(tables, values, self.sorts, self.shared);
        match make(&self.root, &making) {
            Err(_) if making.is_refused() => Ok(None),
            made => made.map(Some).map_err(sql_error_of),
        }
    }
}

/// Keeps an operator with its inputs; `None` if one of them cannot be kept. `is_exclusive` is set if operators and
/// expressions share what one execution finds out.
fn keep(plan: &Plan, keeping: &mut Keeping, is_exclusive: &mut bool) -> Option<Node> {
    let mut inputs = plan.children();
    let operator = match role(plan.as_ref()) {
        Role::Scan(scan) => Operator::Own(scan.kept(keeping)?),
        Role::Seek(seek) => Operator::Own(seek.kept(keeping)),
        Role::ScanAggregate(scan) => {
            inputs = vec![scan.input()];
            Operator::Own(scan.kept())
        }
        Role::Outer(outer) => Operator::Own(outer.kept(keeping)),
        Role::SpoolRead(read) => Operator::Own(read.kept(keeping)),
        Role::Passes(Passing::Taps(tap)) => Operator::Own(tap.kept(keeping)),
        Role::Passes(Passing::Reads(inner)) => {
            // Other lookups have the values of conditions in their keys.
            if !inner.is_of_joined_rows() && has_parameters(&inner.scan) {
                keeping.note_others();
            }
            Operator::Own(inner.kept(keeping))
        }
        Role::Join(Join::Lookup(join)) => Operator::Own(join.kept(keeping)),
        Role::Filter(filter) => {
            let names = parameters_of(filter.predicate());
            let is_plain = names.is_empty();
            keeping.note_filter(names);
            let filter = over_holes(plan)?;
            if is_plain { Operator::Plain(filter, None) } else { Operator::Filter(filter) }
        }
        Role::Sort(sort) => {
            let condition = sort.fetch().and_then(|_| sort.dynamic_expressions_produced().into_iter().next());
            let number = condition.map(|condition| keeping.add_sort(condition));
            Operator::Plain(over_holes(plan)?, number)
        }
        // The values of its subqueries are where the expressions that use them look, in each execution.
        Role::Subqueries(_) => {
            *is_exclusive = true;
            Operator::Plain(over_holes(plan)?, None)
        }
        Role::Passes(Passing::Yields | Passing::Hides(_) | Passing::Shortens | Passing::Ranks | Passing::Fences)
        | Role::Exchange(Exchange::Spread(_) | Exchange::Gather | Exchange::Merge(_))
        | Role::Join(Join::Hash(_) | Join::Loops(_) | Join::Cross(_) | Join::Merge(_) | Join::Ranges(_))
        | Role::Constant(_)
        | Role::Project(_)
        | Role::Limit { .. }
        | Role::Group(_)
        | Role::Window { .. }
        | Role::Unnest
        | Role::Spool
        | Role::Union => Operator::Plain(over_holes(plan)?, None),
        // The rows of a recursion's last round are shared by operators of one execution.
        Role::Recursion | Role::WorkTable => return None,
        // Rows that are in the plan, or in files.
        Role::Made => return None,
        // Rows are locked, or waited for, by an execution.
        Role::Locks(_) | Role::Unseen(_) => return None,
        Role::Passes(Passing::Cancels | Passing::Repeats) => return None,
        Role::Join(Join::RowLoops(_)) | Role::StandIn | Role::Unknown => return None,
    };
    let inputs = inputs.into_iter().map(|input| keep(input, keeping, is_exclusive)).collect::<Option<_>>()?;
    Some(Node { operator, inputs })
}

/// Makes an operator with its inputs. A sort is made before its input, since a scan needs its condition.
fn make(node: &Node, making: &Making<'_>) -> Result<Plan> {
    let inputs = || node.inputs.iter().map(|input| make(input, making)).collect::<Result<Vec<_>>>();
    match &node.operator {
        Operator::Own(recipe) => recipe(making, inputs()?),
        Operator::Filter(plan) => match making.values() {
            Some(values) => filter_for(plan, values, inputs()?),
            None => replace_children_if_necessary(Arc::clone(plan).reset_state()?, inputs()?),
        },
        Operator::Plain(plan, sort) => {
            let fresh = Arc::clone(plan).reset_state()?;
            if let Some(sort) = *sort {
                making.set_sort(sort, fresh.dynamic_expressions_produced().into_iter().next());
            }
            replace_children_if_necessary(fresh, inputs()?)
        }
    }
}

/// Whether a leaf of a plan has parameters.
fn has_parameters(plan: &Plan) -> bool {
    let is_leaf = match role(plan.as_ref()) {
        Role::Scan(scan) => scan.parameters().is_some(),
        Role::Seek(seek) => seek.parameters().is_some(),
        _ => false,
    };
    is_leaf || plan.children().into_iter().any(has_parameters)
}

/// A filter with other values of its parameters.
fn filter_for(plan: &Plan, values: &ParameterValues, mut inputs: Vec<Plan>) -> Result<Plan> {
    let known = plan.downcast_ref::<FilterExec>();
    let known = known.ok_or_else(|| internal_datafusion_err!("a kept filter that is none"))?;
    let made = FilterExecBuilder::from(known).with_predicate(with_values_of(known.predicate(), values)?);
    Ok(Arc::new(made.with_input(only(&mut inputs)?).build()?))
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
