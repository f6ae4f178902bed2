//! What is expected of the operators of a plan that runs: how many rows each gives.
//!
//! The tables' statistics answer, as they do for the order of joins (`cardinality`): a scan or a seek says what its
//! conditions leave and what is known of each of its columns, and what stands above makes the same of it that the
//! logical plan's estimates make. So the plan that was chosen by estimates shows those estimates. Columns are known by
//! their places.
//!
//! Of operators that are not known here the executor's own statistics are taken.

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

use super::again::AgainExec;
use super::aggregate_scan::AggregateScanExec;
use super::cancel::CancelExec;
use super::index_join::{IndexJoinExec, InnerExec};
use super::join_filter::KeyTapExec;
use super::lock_rows::LockRowsExec;
use super::scan_exec::ScanExec;
use super::seek_exec::SeekExec;
use super::unseen_rows::UnseenRowsExec;
use crate::cardinality::{
    ColumnRows, Knowledge, LeafEstimate, Relation, RowWidth, TableKnowledge, UNKNOWN_ROWS, WantedColumn, distinct_left,
};
use crate::source::{HeapTable, series_rows};
use crate::wrap::SqlAggregate;

pub(super) use join::of_join;

type Plan = Arc<dyn ExecutionPlan>;

/// What is expected of the operators of one plan. Each is looked at once.
#[derive(Default)]
pub(super) struct Expectations {
    /// What was found, by the addresses of operators.
    known: RefCell<HashMap<usize, Arc<Relation>>>,
    /// Who was asked for, so that nobody else comes to lie at the same address.
    asked: RefCell<Vec<Plan>>,
    /// Joins that look up, and what is expected of their outer sides: it stands beside the joins.
    outers: RefCell<Vec<(Plan, Arc<Relation>)>>,
    executor: StatisticsContext,
}

/// The rows that a plan is expected to give.
pub(super) fn rows_of(plan: &Plan) -> f64 {
    Expectations::default().of(plan).rows
}

impl Expectations {
    /// What `plan` is expected to give: all its workers together.
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

    /// What reads or makes rows.
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

    /// What does something with each row, or with some, of one input.
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
        // The columns that windows make stand behind the input's.
        let keeps_columns = plan.is::<SortExec>()
            || plan.is::<SortPreservingMergeExec>()
            || plan.is::<WindowAggExec>()
            || plan.is::<BoundedWindowAggExec>();
        let input = passed_on(plan).or_else(|| plan.children().first().copied().filter(|_| keeps_columns))?;
        Some(Relation::clone(&self.of(input)))
    }

    fn filter(&self, filter: &FilterExec) -> Relation {
        let below = Relation::clone(&self.of(filter.input()));
        // A table knows all conditions right above it, and has counted them.
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
        // Each worker makes groups of the rows that come to it.
        if *aggregate.mode() == AggregateMode::Partial {
            let workers = aggregate.input().output_partitioning().partition_count() as f64;
            let of_each = distinct_left(rows, below.rows.max(1.0), below.rows / workers.max(1.0));
            rows = if exprs.is_empty() { workers } else { (of_each * workers).min(below.rows) };
        }
        let made = of_exprs(&below, groups.expr().iter().map(|(expr, _)| expr), rows);
        self.with_counts(aggregate, made)
    }

    /// The groups with what is known of their counts, where those are whole.
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
        // The rows that are counted come to the first of two aggregates.
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

/// The aggregate that makes groups of rows for one that makes groups of groups.
fn partial_below(aggregate: &AggregateExec) -> Option<&AggregateExec> {
    let mut below = aggregate.input();
    while let Some(input) = passed_on(below) {
        below = input;
    }
    below.downcast_ref::<AggregateExec>().filter(|below| *below.mode() == AggregateMode::Partial)
}

/// The input of what only passes rows on, each of them with all its columns.
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

/// Whether rows come from a table as they are read, or with values computed of them.
fn reads_table(plan: &Plan) -> bool {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return reads_table(projection.input());
    }
    plan.is::<ScanExec>() || plan.is::<SeekExec>() || passed_on(plan).is_some_and(reads_table)
}

/// A column by its place.
fn column(place: usize) -> Column {
    Column::from_name(place.to_string())
}

fn of_rows(rows: f64) -> Relation {
    Relation::new(rows, HashMap::new())
}

fn of_table(
    table: &Arc<HeapTable>,
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
        let provider = Arc::clone(table);
        ColumnRows {
            distinct: distinct_left(known.distinct, knowledge.rows.max(1.0), rows),
            origin: Some(Arc::new(WantedColumn::new(provider, *place))),
            ..known
        }
    };
    let columns = projection.iter().enumerate().map(|(at, place)| (column(at), known(place)));
    Relation::new(rows, columns.collect())
}

/// So many rows of what expressions make of those below.
fn of_exprs<'e>(below: &Relation, exprs: impl Iterator<Item = &'e Arc<dyn PhysicalExpr>>, rows: f64) -> Relation {
    let known = exprs.map(|expr| below.expression(&expression::logical(expr)));
    Relation::new(rows, known.enumerate().map(|(at, known)| (column(at), known)).collect())
}

/// Some of the columns.
fn projected(below: &Relation, places: &[usize]) -> Relation {
    let known = |(at, place): (usize, &usize)| Some((column(at), below.columns().get(&column(*place))?.clone()));
    Relation::new(below.rows, places.iter().enumerate().filter_map(known).collect())
}

/// The rows of all inputs: they may have the same values, or others.
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
