//! Hints that ask for hash or merge joins: a query is refused if its sources cannot be joined by equal values.
//!
//! ```text
//!   FROM a JOIN b ON a.x = b.x JOIN c ON a.y + b.y = c.y      {a}–{b}, then {a, b}–{c}: all are joined
//!   FROM a JOIN b ON a.x < b.x                                nothing to hash by: 8622
//! ```
//!
//! The engine chooses the order of joins. Only whether there is a valid order is decided here: equations connect
//! sources, and one that reads several sources counts as soon as these are connected.

use std::collections::{BTreeSet, HashMap};

use datafusion::common::{Column, DFSchema, JoinType};
use datafusion::logical_expr::{BinaryExpr, EmptyRelation, Expr, LogicalPlan, Operator};
use hobt_base::SqlError;

use hobt_table::no_plan_for_hints;

/// Stands for the rows of the enclosing queries.
const OUTER: usize = usize::MAX;

/// The sources on the two sides of an equation, the lesser first.
type Equation = (BTreeSet<usize>, BTreeSet<usize>);

/// Error 8622 for a query whose `OPTION` asks for hash or merge joins.
pub(super) fn no_equations() -> SqlError {
    no_plan_for_hints(
        "Take HASH JOIN or MERGE JOIN out of OPTION, add LOOP JOIN to it, or give each join an equation between its sides.",
    )
}

/// Whether `on` equates values of both sides, by which they can be hashed.
pub(super) fn joins_by_hash(left: &LogicalPlan, right: &LogicalPlan, on: Option<&Expr>) -> bool {
    let mut sources = Sources::default();
    sources.add(left.schema());
    sources.add(right.schema());
    sources.conditions.extend(on);
    sources.are_tied()
}

/// Whether all joins of a `FROM` can be hash joins, given the condition of its `WHERE`.
pub(super) fn all_join_by_hash(from: &LogicalPlan, condition: Option<&Expr>) -> bool {
    let mut sources = Sources::default();
    sources.collect(from);
    sources.conditions.extend(condition);
    sources.are_tied()
}

/// The sources of a join, and the conditions on them.
#[derive(Default)]
struct Sources<'p> {
    count: usize,
    /// The source that a column belongs to.
    columns: HashMap<Column, usize>,
    conditions: Vec<&'p Expr>,
    equations: Vec<(&'p Expr, &'p Expr)>,
    /// Sources that read the ones before them, which need no equal values.
    applied: Vec<Equation>,
}

impl<'p> Sources<'p> {
    fn add(&mut self, schema: &DFSchema) {
        self.columns.extend(schema.columns().into_iter().map(|column| (column, self.count)));
        self.count += 1;
    }

    fn collect(&mut self, plan: &'p LogicalPlan) {
        match plan {
            LogicalPlan::Filter(filter) => {
                self.conditions.push(&filter.predicate);
                self.collect(&filter.input);
            }
            LogicalPlan::Join(join) => {
                self.equations.extend(join.on.iter().map(|(left, right)| (left, right)));
                self.conditions.extend(&join.filter);
                let first = self.count;
                self.collect(&join.left);
                if !matches!(join.join_type, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full) {
                    return;
                }
                if matches!(&*join.right, LogicalPlan::Subquery(_)) && self.count > first {
                    self.applied.push(([first].into(), [self.count].into()));
                }
                self.collect(&join.right);
            }
            plan if is_one_row(plan) => {}
            plan => self.add(plan.schema()),
        }
    }

    fn are_tied(&self) -> bool {
        let mut equations = self.applied.clone();
        equations.extend(self.equations.iter().filter_map(|(left, right)| self.equation(left, right)));
        equations.extend(self.conditions.iter().flat_map(|condition| self.equations_of(condition)));
        let mut groups: Vec<BTreeSet<usize>> = (0..self.count).chain([OUTER]).map(|source| [source].into()).collect();
        loop {
            let holds = |side: &BTreeSet<usize>| groups.iter().position(|group| side.is_subset(group));
            let next = equations.iter().find_map(|(left, right)| match (holds(left), holds(right)) {
                (Some(left), Some(right)) if left != right => Some((left.max(right), left.min(right))),
                _ => None,
            });
            let Some((from, into)) = next else { break };
            let tied = groups.swap_remove(from);
            groups[into].extend(tied);
        }
        // The rows of the enclosing queries are given.
        groups.iter().filter(|group| group.iter().any(|source| *source != OUTER)).count() <= 1
    }

    /// The equations that hold whenever a condition is true: those of all operands of an `AND`, and those that all
    /// operands of an `OR` share.
    fn equations_of(&self, condition: &Expr) -> BTreeSet<Equation> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return BTreeSet::new() };
        match op {
            Operator::And => &self.equations_of(left) | &self.equations_of(right),
            Operator::Or => &self.equations_of(left) & &self.equations_of(right),
            Operator::Eq | Operator::IsNotDistinctFrom => self.equation(left, right).into_iter().collect(),
            _ => BTreeSet::new(),
        }
    }

    /// `left = right` if the two sides read different sources.
    fn equation(&self, left: &Expr, right: &Expr) -> Option<Equation> {
        let (left, right) = (self.sources_of(left), self.sources_of(right));
        if left.is_empty() || right.is_empty() || !left.is_disjoint(&right) {
            return None;
        }
        Some((left.clone().min(right.clone()), left.max(right)))
    }

    fn sources_of(&self, expr: &Expr) -> BTreeSet<usize> {
        let outer = expr.contains_outer().then_some(OUTER);
        let own = expr.column_refs().into_iter().filter_map(|column| self.columns.get(column).copied());
        own.chain(outer).collect()
    }
}

/// Whether a source is a single row of values, which is no join.
fn is_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_one_row(&projection.input),
        LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row, .. }) => *produce_one_row,
        _ => false,
    }
}
