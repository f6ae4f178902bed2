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
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PhysicalExpr};

use hobt_operators::{
    AgainExec, AggregateScanExec, CancelExec, IndexJoinExec, InnerExec, KeyTapExec, LockRowsExec, ScanExec, SeekExec,
    UnseenRowsExec,
};
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
        let found = self.leaf(plan).or_else(|| self.row_by_row(plan)).or_else(|| self.join(plan));
        let found = found.unwrap_or_else(|| self.other(plan)).of_width(RowWidth::of(plan.schema().fields()));
        match plan.fetch() {
            Some(fetch) if (fetch as f64) < found.rows => {
                let share = fetch as f64 / found.rows;
                found.kept(share)
            }
            _ => found,
        }
    }

    /// Operators that read or produce rows.
    fn leaf(&self, plan: &Plan) -> Option<Relation> {
        if let Some(scan) = plan.downcast_ref::<ScanExec>() {
            let whole = || scan.table().expected_rows() as f64;
            return Some(of_table(scan.table(), scan.projection(), scan.estimated(), whole));
        }
        if let Some(seek) = plan.downcast_ref::<SeekExec>() {
            return Some(of_table(seek.table(), seek.projection(), seek.estimated(), || seek.path().rows));
        }
        if plan.is::<AggregateScanExec>() {
            return Some(of_rows(plan.output_partitioning().partition_count() as f64));
        }
        if plan.is::<PlaceholderRowExec>() {
            return Some(of_rows(1.0));
        }
        if plan.is::<EmptyExec>() {
            return Some(of_rows(0.0));
        }
        let outers = self.outers.borrow();
        let is_its = |(join, _): &&(Plan, Arc<Relation>)| {
            join.downcast_ref::<IndexJoinExec>().is_some_and(|join| join.is_outer(plan))
        };
        outers.iter().find(is_its).map(|(_, outer)| Relation::clone(outer))
    }

    /// Operators that transform each row of one input, or keep some of its rows.
    fn row_by_row(&self, plan: &Plan) -> Option<Relation> {
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            return Some(self.filter(filter));
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let below = self.of(projection.input());
            let exprs = projection.expr().iter().map(|each| &each.expr);
            return Some(of_exprs(&below, exprs, below.rows));
        }
        if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
            return Some(self.aggregate(aggregate));
        }
        if let Some(locks) = plan.downcast_ref::<LockRowsExec>() {
            let below = self.of(plan.children().first()?);
            return Some(projected(&below, locks.output()));
        }
        if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
            let below = Relation::clone(&self.of(limit.input()));
            let share = 1.0 - (limit.skip() as f64 / below.rows.max(1.0)).min(1.0);
            return Some(below.kept(share));
        }
        // The columns that windows compute come after the input's.
        let keeps_columns = plan.is::<SortExec>()
            || plan.is::<SortPreservingMergeExec>()
            || plan.is::<WindowAggExec>()
            || plan.is::<BoundedWindowAggExec>();
        let input = passed_on(plan).or_else(|| plan.children().first().copied().filter(|_| keeps_columns))?;
        Some(Relation::clone(&self.of(input)))
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
        if plan.is::<UnionExec>() {
            return united(&inputs);
        }
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
    while let Some(input) = passed_on(below) {
        below = input;
    }
    below.downcast_ref::<AggregateExec>().filter(|below| *below.mode() == AggregateMode::Partial)
}

/// The input of an operator that passes on every row with all its columns.
fn passed_on(plan: &Plan) -> Option<&Plan> {
    let passes = plan.is::<CancelExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<UnseenRowsExec>()
        || plan.is::<KeyTapExec>()
        || plan.is::<InnerExec>()
        || plan.is::<AgainExec>()
        || plan.is::<ScalarSubqueryExec>();
    plan.children().first().copied().filter(|_| passes)
}

/// Whether rows come from a table unchanged, or with computed values.
fn reads_table(plan: &Plan) -> bool {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return reads_table(projection.input());
    }
    plan.is::<ScanExec>() || plan.is::<SeekExec>() || passed_on(plan).is_some_and(reads_table)
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
