//! The estimates of the operators of a physical plan: rows, their width, and what is known of their columns.
//!
//! They come from the tables' statistics, as those for join order do (`cardinality`). A scan or a seek tells how many
//! rows its conditions leave and what is known of each of its columns. The operators above derive from it what the
//! logical plan's estimates derive. So the plan that was chosen by estimates shows those same estimates. Columns are
//! named by their positions.
//!
//! DataFusion's choice of build sides asks through [`Estimator`], all others through [`Expectations`]. Only for
//! operators whose role says nothing about their rows, DataFusion's own statistics are used.

mod expression;
mod join;

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::common::{Column, Statistics};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::utils::split_conjunction;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode, AggregateMode, AggregateOutputMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::operator_statistics::{ExtendedStatistics, StatisticsProvider, StatisticsResult};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PhysicalExpr};

use hobt_operators::{Exchange, FileScanExec, Role, role};
use hobt_table::{
    ColumnRows, Knowledge, LeafEstimate, Relation, RowWidth, TableKnowledge, TableRead, UNKNOWN_ROWS, WantedColumn,
    distinct_left, series_rows,
};
use hobt_udf::SqlAggregate;
use parking_lot::Mutex;

use join::joined;
pub(super) use join::of_join;

type Plan = Arc<dyn ExecutionPlan>;

/// The estimates that were made, by the addresses of their operators. These are kept alive, so that no other operator
/// gets the same address.
#[derive(Default)]
struct Known(HashMap<usize, (Plan, Arc<Relation>)>);

impl Known {
    fn of(&self, plan: &dyn ExecutionPlan) -> Option<Arc<Relation>> {
        self.0.get(&address(plan)).map(|(_, relation)| Arc::clone(relation))
    }

    fn add(&mut self, plan: &Plan, relation: &Arc<Relation>) {
        self.0.insert(address(plan.as_ref()), (Arc::clone(plan), Arc::clone(relation)));
    }
}

fn address(plan: &dyn ExecutionPlan) -> usize {
    std::ptr::from_ref(plan).cast::<()>().addr()
}

/// The estimates as DataFusion's rules ask for them: for one side of a join after the other, each with all that is
/// below it. An operator that is asked for has no owner to be kept alive by, but its inputs have.
#[derive(Default)]
pub(super) struct Estimator(Mutex<Known>);

impl std::fmt::Debug for Estimator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Estimator")
    }
}

impl StatisticsProvider for Estimator {
    fn compute_statistics(
        &self,
        plan: &dyn ExecutionPlan,
        inputs: &[ExtendedStatistics],
    ) -> datafusion::common::Result<StatisticsResult> {
        let known = |input: &ExtendedStatistics| input.get_extension::<Arc<Relation>>().map(Arc::clone);
        let Some(inputs) = inputs.iter().map(known).collect::<Option<Vec<_>>>() else {
            return Ok(StatisticsResult::Delegate);
        };
        let mut known = self.0.lock();
        let found = known.of(plan).unwrap_or_else(|| {
            plan.children().into_iter().zip(&inputs).for_each(|(input, relation)| known.add(input, relation));
            Arc::new(relation(plan, &inputs))
        });
        // Build sides are chosen by sizes alone.
        let mut made = ExtendedStatistics::new(Statistics {
            num_rows: Precision::Inexact(found.rows.ceil() as usize),
            total_byte_size: Precision::Inexact((found.rows * found.width).ceil() as usize),
            column_statistics: Vec::new(),
        });
        made.set_extension(found);
        Ok(StatisticsResult::Computed(made))
    }
}

/// Estimates for the operators of one plan. Each operator is estimated once.
#[derive(Default)]
pub(super) struct Expectations(RefCell<Known>);

/// The number of rows that a plan is estimated to give.
pub(super) fn rows_of(plan: &Plan) -> f64 {
    Expectations::default().of(plan).rows
}

impl Expectations {
    /// The estimate for the output of `plan`, all its partitions together.
    pub(super) fn of(&self, plan: &Plan) -> Arc<Relation> {
        let known = self.0.borrow().of(plan.as_ref());
        known.unwrap_or_else(|| {
            let inputs: Vec<_> = plan.children().into_iter().map(|input| self.of(input)).collect();
            let found = Arc::new(relation(plan.as_ref(), &inputs));
            self.0.borrow_mut().add(plan, &found);
            found
        })
    }
}

/// The estimate for the output of an operator over inputs of which `inputs` is known.
fn relation(plan: &dyn ExecutionPlan, inputs: &[Arc<Relation>]) -> Relation {
    let width = RowWidth::of(plan.schema().fields());
    let role = role(plan);
    let text_bytes = match role {
        Role::Scan(scan) => width.text_bytes(scan.table().row_width(scan.projection())),
        Role::Seek(seek) => width.text_bytes(seek.table().row_width(seek.projection())),
        Role::Outer(outer) => outer.expected().text_bytes,
        _ => inputs.iter().filter_map(|input| input.text_bytes).reduce(f64::max),
    };
    let found = by_role(plan, role, inputs).of_width(width, text_bytes);
    match plan.fetch() {
        Some(fetch) if (fetch as f64) < found.rows => {
            let share = fetch as f64 / found.rows;
            found.kept(share)
        }
        _ => found,
    }
}

fn by_role(plan: &dyn ExecutionPlan, role: Role<'_>, inputs: &[Arc<Relation>]) -> Relation {
    let of_nothing = Relation::default();
    let below = inputs.first().map_or(&of_nothing, Arc::as_ref);
    match role {
        Role::Scan(scan) => {
            let whole = || scan.table().expected_rows() as f64;
            of_table(scan.table(), scan.projection(), scan.estimated(), whole)
        }
        Role::Seek(seek) => of_table(seek.table(), seek.projection(), seek.estimated(), || seek.path().rows),
        Role::ScanAggregate(_) => of_rows(plan.output_partitioning().partition_count() as f64),
        Role::Constant(rows) => of_rows(rows as f64),
        Role::Outer(outer) => outer.expected().clone(),
        Role::SpoolRead(read) => read.expected().clone(),
        Role::Filter(filter) => filtered(filter, below),
        Role::Project(projection) => of_exprs(below, projection.expr().iter().map(|each| &each.expr), below.rows),
        Role::Group(aggregate) => grouped(aggregate, below),
        Role::Locks(locks) => projected(below, locks.output()),
        Role::Limit { skip, .. } => {
            let share = 1.0 - (skip as f64 / below.rows.max(1.0)).min(1.0);
            below.clone().kept(share)
        }
        // The columns that windows compute come after the input's.
        Role::Window { .. } => below.clone(),
        Role::Passes(_) | Role::Exchange(_) | Role::Sort(_) | Role::Unseen(_) | Role::Spool | Role::Subqueries(_) => {
            below.clone()
        }
        Role::Join(join) => joined(plan, join, inputs),
        Role::Union => united(inputs),
        Role::Made | Role::WorkTable | Role::StandIn | Role::Recursion | Role::Unnest | Role::Unknown => {
            other(plan, inputs)
        }
    }
}

fn filtered(filter: &FilterExec, below: &Relation) -> Relation {
    // A table's estimate includes all conditions directly above it.
    let reads_table = reads_table(filter.input());
    let is_counted = |condition: &&Arc<dyn PhysicalExpr>| {
        reads_table && !expression::is_volatile(condition) && !expression::has_subquery(condition)
    };
    let open = split_conjunction(filter.predicate()).into_iter().filter(|condition| !is_counted(condition));
    let open: Vec<Expr> = open.map(expression::logical).collect();
    let left = below.clone().filtered(open.iter());
    match filter.projection() {
        Some(places) => projected(&left, places),
        None => left,
    }
}

fn grouped(aggregate: &AggregateExec, below: &Relation) -> Relation {
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
    let made = of_exprs(below, groups.expr().iter().map(|(expr, _)| expr), rows);
    if groups.has_grouping_set() { made } else { with_counts(aggregate, below, &exprs, made) }
}

/// The groups with what is known of their counts. An upper aggregate takes it from the lower one's counts.
fn with_counts(aggregate: &AggregateExec, below: &Relation, exprs: &[Expr], groups: Relation) -> Relation {
    let counts = |expr: &AggregateFunctionExpr| {
        let known = expr.fun().inner().downcast_ref::<SqlAggregate>();
        !expr.is_distinct() && known.is_some_and(SqlAggregate::is_count)
    };
    let takes_counts = aggregate.mode().input_mode() == AggregateInputMode::Partial;
    let gives_states = aggregate.mode().output_mode() == AggregateOutputMode::Partial;
    let sizes = OnceCell::new();
    let mut columns = groups.columns().clone();
    // A lower aggregate's columns are the states of each function, of which a count has one.
    let mut state = exprs.len();
    for (at, expr) in aggregate.aggr_expr().iter().enumerate() {
        if counts(expr) {
            let known = match takes_counts {
                true => below.columns().get(&column(state)).and_then(|count| count.counts.clone()),
                false => Some(Arc::clone(sizes.get_or_init(|| Arc::new(below.group_sizes(exprs))))),
            };
            let place = if gives_states { state } else { exprs.len() + at };
            columns.extend(known.map(|sizes| (column(place), ColumnRows::of_counts(sizes, groups.rows))));
        }
        state += expr.state_fields().map_or(1, |fields| fields.len());
    }
    Relation::new(groups.rows, columns)
}

fn other(plan: &dyn ExecutionPlan, inputs: &[Arc<Relation>]) -> Relation {
    let known = StatisticsContext::default().compute(plan, &StatisticsArgs::new()).ok();
    let known = known.and_then(|known| known.num_rows.get_value().copied());
    let most = inputs.iter().map(|input| input.rows).fold(0.0, f64::max);
    let of_files = || plan.downcast_ref::<FileScanExec>().map(FileScanExec::expected_rows);
    let known = known.map(|rows| rows as f64).or_else(|| series_rows(plan).map(|rows| rows as f64)).or_else(of_files);
    of_rows(match known {
        Some(rows) => rows,
        None if inputs.is_empty() => UNKNOWN_ROWS,
        None => most,
    })
}

/// Whether rows come from a table unchanged, or with computed values.
fn reads_table(plan: &Plan) -> bool {
    match role(plan.as_ref()) {
        Role::Scan(_) | Role::Seek(_) => true,
        // A condition above an order is not in the table's estimate.
        Role::Exchange(Exchange::Merge(_)) => false,
        Role::Project(_) | Role::Passes(_) | Role::Exchange(_) | Role::Unseen(_) | Role::Subqueries(_) => {
            plan.children().into_iter().next().is_some_and(reads_table)
        }
        _ => false,
    }
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
