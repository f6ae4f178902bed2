//! Row estimates for the operators of a physical plan.
//!
//! The estimates come from the tables' statistics, as those for join order do (`cardinality`). A scan or a seek tells
//! how many rows its conditions leave and what is known of each of its columns. The operators above derive from it what
//! the logical plan's estimates derive. So the plan that was chosen by estimates shows those same estimates. Columns
//! are named by their positions.
//!
//! For operators that are not known here, DataFusion's own statistics are used.

mod expression;
mod join;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::Column;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::utils::split_conjunction;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PhysicalExpr};

use hobt_operators::{Join, Role, role};
use hobt_table::{
    ColumnRows, Knowledge, LeafEstimate, Relation, RowWidth, TableKnowledge, UNKNOWN_ROWS, WantedColumn, distinct_left,
};
use hobt_table::{TableRead, series_rows};
use hobt_udf::SqlAggregate;

pub(super) use join::of_join;

type Plan = Arc<dyn ExecutionPlan>;

/// Estimates for the operators of one plan. Each operator is estimated once.
#[derive(Default)]
pub(super) struct Expectations {
    /// The estimates found, by the addresses of operators.
    known: RefCell<HashMap<usize, Arc<Relation>>>,
    /// The operators asked for, kept alive so that no other operator gets the same address.
    asked: RefCell<Vec<Plan>>,
    /// Index joins with the estimates of their outer sides, whose stand-ins in the joins have no input to estimate.
    outers: RefCell<Vec<(Plan, Arc<Relation>)>>,
    executor: StatisticsContext,
}

/// The number of rows that a plan is estimated to give.
pub(super) fn rows_of(plan: &Plan) -> f64 {
    Expectations::default().of(plan).rows
}

impl Expectations {
    /// The estimate for the output of `plan`, all its partitions together.
    pub(super) fn of(&self, plan: &Plan) -> Arc<Relation> {
        let address = Arc::as_ptr(plan).cast::<()>().addr();
        let known = self.known.borrow().get(&address).cloned();
        known.unwrap_or_else(|| {
            let found = Arc::new(self.find(plan));
            self.asked.borrow_mut().push(Arc::clone(plan));
            self.known.borrow_mut().insert(address, Arc::clone(&found));
            found
        })
    }

    fn find(&self, plan: &Plan) -> Relation {
        let found = self.by_role(plan).of_width(RowWidth::of(plan.schema().fields()));
        match plan.fetch() {
            Some(fetch) if (fetch as f64) < found.rows => {
                let share = fetch as f64 / found.rows;
                found.kept(share)
            }
            _ => found,
        }
    }

    fn by_role(&self, plan: &Plan) -> Relation {
        let input = || plan.children().first().map(|input| self.of(input)).unwrap_or_default();
        match role(plan.as_ref()) {
            Role::Scan(scan) => {
                let whole = || scan.table().expected_rows() as f64;
                of_table(scan.table(), scan.projection(), scan.estimated(), whole)
            }
            Role::Seek(seek) => of_table(seek.table(), seek.projection(), seek.estimated(), || seek.path().rows),
            Role::ScanAggregate(_) => of_rows(plan.output_partitioning().partition_count() as f64),
            Role::Constant(rows) => of_rows(rows as f64),
            Role::StandIn => self.outer(plan).unwrap_or_else(|| self.other(plan)),
            Role::Filter(filter) => self.filter(filter),
            Role::Project(projection) => {
                let below = self.of(projection.input());
                of_exprs(&below, projection.expr().iter().map(|each| &each.expr), below.rows)
            }
            Role::Group(aggregate) => self.aggregate(aggregate),
            Role::Locks(locks) => projected(&input(), locks.output()),
            Role::Limit { skip, .. } => {
                let below = Relation::clone(&input());
                let share = 1.0 - (skip as f64 / below.rows.max(1.0)).min(1.0);
                below.kept(share)
            }
            // The columns that windows compute come after the input's.
            Role::Window { .. } => Relation::clone(&input()),
            Role::Passes(_) | Role::Exchange(_) | Role::Sort(_) | Role::Unseen(_) | Role::Subqueries(_) => {
                Relation::clone(&input())
            }
            Role::Join(join) => self.join(plan, join),
            Role::Union => united(&plan.children().into_iter().map(|input| self.of(input)).collect::<Vec<_>>()),
            Role::Made | Role::WorkTable | Role::Recursion | Role::Unknown => self.other(plan),
        }
    }

    /// The outer side of an index join, by the operator that stands for it.
    fn outer(&self, stand_in: &Plan) -> Option<Relation> {
        let outers = self.outers.borrow();
        let is_its = |(join, _): &&(Plan, Arc<Relation>)| is_outer_of(join, stand_in);
        outers.iter().find(is_its).map(|(_, outer)| Relation::clone(outer))
    }

    fn filter(&self, filter: &FilterExec) -> Relation {
        let below = Relation::clone(&self.of(filter.input()));
        // A table's estimate includes all conditions directly above it.
        let is_counted = |condition: &&Arc<dyn PhysicalExpr>| {
            reads_table(filter.input()) && !expression::is_volatile(condition) && !expression::has_subquery(condition)
        };
        let open = split_conjunction(filter.predicate()).into_iter().filter(|condition| !is_counted(condition));
        let open: Vec<Expr> = open.map(expression::logical).collect();
        let left = below.filtered(open.iter());
        match filter.projection() {
            Some(places) => projected(&left, places),
            None => left,
        }
    }

    fn aggregate(&self, aggregate: &AggregateExec) -> Relation {
        let below = self.of(aggregate.input());
        let groups = aggregate.group_expr();
        let exprs: Vec<Expr> = groups.expr().iter().map(|(expr, _)| expression::logical(expr)).collect();
        let of_set = |nulls: &Vec<bool>| {
            let set: Vec<Expr> =
                exprs.iter().zip(nulls).filter(|(_, is_null)| !**is_null).map(|(expr, _)| expr.clone()).collect();
            below.group_count(&set)
        };
        let is_raw = aggregate.mode().input_mode() == AggregateInputMode::Raw;
        let mut rows = match groups.has_grouping_set() && is_raw {
            true => groups.groups().iter().map(of_set).sum(),
            false => below.group_count(&exprs),
        };
        // Each partition makes groups of its own rows.
        if *aggregate.mode() == AggregateMode::Partial {
            let workers = aggregate.input().output_partitioning().partition_count() as f64;
            let of_each = distinct_left(rows, below.rows.max(1.0), below.rows / workers.max(1.0));
            rows = if exprs.is_empty() { workers } else { (of_each * workers).min(below.rows) };
        }
        let made = of_exprs(&below, groups.expr().iter().map(|(expr, _)| expr), rows);
        self.with_counts(aggregate, made)
    }

    /// The groups with what is known of their counts, if these are final and not partial.
    fn with_counts(&self, aggregate: &AggregateExec, groups: Relation) -> Relation {
        let counts = |expr: &AggregateFunctionExpr| {
            let known = expr.fun().inner().downcast_ref::<SqlAggregate>();
            !expr.is_distinct() && known.is_some_and(SqlAggregate::is_count)
        };
        let first = aggregate.group_expr().num_group_exprs();
        let is_whole = *aggregate.mode() != AggregateMode::Partial && !aggregate.group_expr().has_grouping_set();
        let counted = aggregate.aggr_expr().iter().enumerate().filter(|(_, expr)| is_whole && counts(expr));
        let places: Vec<usize> = counted.map(|(at, _)| first + at).collect();
        if places.is_empty() {
            return groups;
        }
        // Of two aggregates, the lower one takes the rows that are counted.
        let counting = partial_below(aggregate).unwrap_or(aggregate);
        let exprs: Vec<Expr> = counting.group_expr().expr().iter().map(|(expr, _)| expression::logical(expr)).collect();
        let sizes = Arc::new(self.of(counting.input()).group_sizes(&exprs));
        let mut columns = groups.columns().clone();
        for place in places {
            columns.insert(column(place), ColumnRows::of_counts(Arc::clone(&sizes), groups.rows));
        }
        Relation::new(groups.rows, columns)
    }

    fn other(&self, plan: &Plan) -> Relation {
        let inputs: Vec<Arc<Relation>> = plan.children().into_iter().map(|input| self.of(input)).collect();
        let known = self.executor.compute(plan.as_ref(), &StatisticsArgs::new()).ok();
        let known = known.and_then(|known| known.num_rows.get_value().copied());
        let most = inputs.iter().map(|input| input.rows).fold(0.0, f64::max);
        let known = known.map(|rows| rows as f64).or_else(|| series_rows(plan).map(|rows| rows as f64));
        of_rows(match known {
            Some(rows) => rows,
            None if inputs.is_empty() => UNKNOWN_ROWS,
            None => most,
        })
    }
}

/// The partial aggregate below a final one.
fn partial_below(aggregate: &AggregateExec) -> Option<&AggregateExec> {
    let mut below = aggregate.input();
    loop {
        match role(below.as_ref()) {
            Role::Group(below) => return Some(below).filter(|below| *below.mode() == AggregateMode::Partial),
            role if role.keeps_rows() => below = below.children().into_iter().next()?,
            _ => return None,
        }
    }
}

/// Whether rows come from a table unchanged, or with computed values.
fn reads_table(plan: &Plan) -> bool {
    match role(plan.as_ref()) {
        Role::Scan(_) | Role::Seek(_) => true,
        role if role.keeps_rows() || matches!(role, Role::Project(_)) => {
            plan.children().into_iter().next().is_some_and(reads_table)
        }
        _ => false,
    }
}

/// Whether an operator stands for the outer side of an index join.
pub(super) fn is_outer_of(join: &Plan, stand_in: &Plan) -> bool {
    matches!(role(join.as_ref()), Role::Join(Join::Lookup(join)) if join.is_outer(stand_in))
}

/// A column named by its position.
fn column(place: usize) -> Column {
    Column::from_name(place.to_string())
}

fn of_rows(rows: f64) -> Relation {
    Relation::new(rows, HashMap::new())
}

fn of_table(
    table: &Arc<TableRead>,
    projection: &[usize],
    estimated: Option<&Arc<LeafEstimate>>,
    rows: impl FnOnce() -> f64,
) -> Relation {
    if let Some(estimated) = estimated.filter(|estimated| estimated.columns.len() == projection.len()) {
        let columns = estimated.columns.iter().enumerate().map(|(at, known)| (column(at), known.clone()));
        return Relation::new(estimated.rows, columns.collect());
    }
    let rows = estimated.map_or_else(rows, |estimated| estimated.rows);
    let knowledge = TableKnowledge::whole(table);
    let known = |place: &usize| {
        let known = knowledge.column(*place);
        ColumnRows {
            distinct: distinct_left(known.distinct, knowledge.rows.max(1.0), rows),
            origin: Some(Arc::new(WantedColumn::new(Arc::clone(table), *place))),
            ..known
        }
    };
    let columns = projection.iter().enumerate().map(|(at, place)| (column(at), known(place)));
    Relation::new(rows, columns.collect())
}

/// A relation of `rows` rows with the values of expressions over `below`.
fn of_exprs<'e>(below: &Relation, exprs: impl Iterator<Item = &'e Arc<dyn PhysicalExpr>>, rows: f64) -> Relation {
    let known = exprs.map(|expr| below.expression(&expression::logical(expr)));
    Relation::new(rows, known.enumerate().map(|(at, known)| (column(at), known)).collect())
}

/// Some of the columns.
fn projected(below: &Relation, places: &[usize]) -> Relation {
    let known = |(at, place): (usize, &usize)| Some((column(at), below.columns().get(&column(*place))?.clone()));
    Relation::new(below.rows, places.iter().enumerate().filter_map(known).collect())
}

/// The rows of all inputs. The inputs' values may be equal or different: distinct counts are added.
fn united(inputs: &[Arc<Relation>]) -> Relation {
    let rows: f64 = inputs.iter().map(|input| input.rows).sum();
    let mut columns: HashMap<Column, ColumnRows> = HashMap::new();
    for input in inputs {
        let part = if rows > 0.0 { input.rows / rows } else { 0.0 };
        for (name, known) in input.columns() {
            let all = columns.entry(name.clone()).or_insert_with(|| ColumnRows::of(0.0, 0.0));
            all.distinct += known.distinct;
            all.null_share += part * known.null_share;
        }
    }
    columns.retain(|name, _| inputs.iter().all(|input| input.columns().contains_key(name)));
    Relation::new(rows, columns)
}
