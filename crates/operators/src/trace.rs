//! Traces expressions of an operator down to the columns of a table: which rows of the table may be left out below a
//! join, and whether an index has its rows in an order.
//!
//! ```text
//!   HashJoin on  #1 = …
//!     Projection   #0 = a, #1 = SORT_KEY(name)       #1 is SORT_KEY(name)
//!       Filter     …
//!         Scan     a, name                           name, compared by its collation
//! ```
//! Rows whose values no row of the other side has can be left out if every operator between treats rows one by one, or
//! treats only rows of one value together: groups by the column, windows partitioned by it.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, utils::collect_columns};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use hobt_catalog::Table;
use hobt_functions::carrier;
use hobt_types::SqlType;

use super::lock_rows::LockRowsExec;
use super::scan_exec::ScanExec;
use super::seek_exec::SeekExec;
use super::unseen_rows::UnseenRowsExec;
use hobt_table::{ColumnPredicate, JoinedColumn, KeyForm, TableRead};
use hobt_udf::Kernel;

/// An expression over the columns of a plan.
type Expr = Arc<dyn PhysicalExpr>;

/// The operator that reads a table, at the end of a trace.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// A [`ScanExec`] or [`SeekExec`].
    pub plan: Arc<dyn ExecutionPlan>,
    /// The table.
    pub table: Arc<TableRead>,
    /// The columns that it gives, by their positions in the table.
    pub projection: Vec<usize>,
    /// The conditions on single columns that its rows fulfil.
    pub predicates: Arc<[ColumnPredicate]>,
    /// Whether an operator above relies on the order of its rows.
    pub is_order_used: bool,
    /// Whether its rows are sorted above.
    pub is_sorted: bool,
}

impl Leaf {
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Leaf> {
        let (table, projection, predicates) = if let Some(scan) = plan.downcast_ref::<ScanExec>() {
            (scan.table(), scan.projection(), scan.predicates())
        } else {
            let seek = plan.downcast_ref::<SeekExec>()?;
            (seek.table(), seek.projection(), seek.predicates())
        };
        let (table, predicates) = (Arc::clone(table), Arc::clone(predicates));
        let (plan, projection) = (Arc::clone(plan), projection.to_vec());
        Some(Leaf { plan, table, projection, predicates, is_order_used: false, is_sorted: false })
    }

    /// Notes whether an operator above may rely on the order of the rows.
    fn ordered(self, is_order_used: bool) -> Leaf {
        Leaf { is_order_used: self.is_order_used || (is_order_used && !self.is_sorted), ..self }
    }
}

/// The table below `plan`, and for each expression the table's column that it traces to, if any.
pub fn trace(plan: &Arc<dyn ExecutionPlan>, exprs: Vec<Option<Expr>>) -> Option<(Leaf, Vec<Option<JoinedColumn>>)> {
    if plan.fetch().is_some() || exprs.iter().all(Option::is_none) {
        return None;
    }
    if let Some(leaf) = Leaf::of(plan) {
        let column = |expr: Option<Expr>| joined_column(&expr?, leaf.table.table(), &leaf.projection);
        let columns = exprs.into_iter().map(column).collect();
        return Some((leaf, columns));
    }
    let below = |exprs: Vec<Option<Expr>>| trace(plan.children().first()?, exprs);
    let each = |translated: &dyn Fn(&Expr) -> Option<Expr>| -> Vec<Option<Expr>> {
        exprs.iter().map(|expr| translated(expr.as_ref()?)).collect()
    };
    if plan.is::<SortExec>() {
        return below(exprs).map(|(leaf, columns)| (Leaf { is_sorted: true, ..leaf }, columns));
    }
    if is_exchange(plan) || plan.is::<SortPreservingMergeExec>() || plan.is::<UnseenRowsExec>() {
        return below(exprs);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let definitions: Vec<Expr> = projection.expr().iter().map(|item| Arc::clone(&item.expr)).collect();
        return below(each(&|expr| substituted(expr, &|at| definitions.get(at).cloned())));
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let Some(projection) = filter.projection() else { return below(exprs) };
        let schema = filter.input().schema();
        let input = |at: usize| projection.get(at).map(|&at| column_at(&schema, at));
        return below(each(&|expr| substituted(expr, &input)));
    }
    if let Some(locks) = plan.downcast_ref::<LockRowsExec>() {
        if locks.has_limit() {
            return None;
        }
        let schema = plan.children().first()?.schema();
        let input = |at: usize| locks.output().get(at).map(|&at| column_at(&schema, at));
        return below(each(&|expr| substituted(expr, &input)));
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let groups = aggregate.group_expr();
        if groups.has_grouping_set() || aggregate.limit_options().is_some() {
            return None;
        }
        let group = |at: usize| groups.expr().get(at).map(|(expr, _)| Arc::clone(expr));
        let (leaf, columns) = below(each(&|expr| substituted(expr, &group)))?;
        return Some((leaf.ordered(*aggregate.input_order_mode() != InputOrderMode::Linear), columns));
    }
    let windows = plan.downcast_ref::<WindowAggExec>().map(WindowAggExec::window_expr);
    let windows =
        windows.or_else(|| plan.downcast_ref::<BoundedWindowAggExec>().map(BoundedWindowAggExec::window_expr))?;
    let (leaf, columns) = below(each(&|expr| is_of_all_partitions(expr, windows).then(|| Arc::clone(expr))))?;
    Some((leaf.ordered(true), columns))
}

/// Whether a node only spreads or gathers rows.
pub fn is_exchange(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.fetch().is_none()
        && (plan.is::<RepartitionExec>() || plan.is::<CoalescePartitionsExec>() || plan.is::<CooperativeExec>())
}

fn column_at(schema: &arrow::datatypes::SchemaRef, at: usize) -> Expr {
    Arc::new(Column::new(schema.field(at).name(), at))
}

/// `expr` with each column replaced; `None` if one has no definition.
pub fn substituted(expr: &Expr, definition: &dyn Fn(usize) -> Option<Expr>) -> Option<Expr> {
    let mut is_whole = true;
    let replaced = Arc::clone(expr).transform_up(|node| {
        let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
        match definition(column.index()) {
            Some(definition) => Ok(Transformed::yes(definition)),
            None => {
                is_whole = false;
                Ok(Transformed::no(node))
            }
        }
    });
    replaced.data().ok().filter(|_| is_whole)
}

/// Whether each of these windows treats only rows with one value of `expr` together.
pub fn is_of_all_partitions(expr: &Expr, windows: &[Arc<dyn WindowExpr>]) -> bool {
    let columns = collect_columns(expr);
    windows.iter().all(|window| {
        let is_key = |column: &Column| {
            let keys = window.partition_by().iter();
            keys.filter_map(|key| key.downcast_ref::<Column>()).any(|key| key.index() == column.index())
        };
        columns.iter().all(is_key)
    })
}

/// The table's column whose comparisons an expression over its scan's columns has.
pub fn joined_column(expr: &Expr, table: &Table, projection: &[usize]) -> Option<JoinedColumn> {
    if let Some(column) = expr.downcast_ref::<Column>() {
        // A row's RID is no column of the table.
        let column = *projection.get(column.index()).filter(|&&column| column < table.columns.len())?;
        return Some(JoinedColumn::plain(column));
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let inner = joined_column(cast.expr(), table, projection).filter(|inner| inner.form == KeyForm::Value)?;
        let form = widened(table.columns[inner.column].sql_type, cast.cast_type())?;
        return Some(JoinedColumn { form, ..inner });
    }
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let [argument] = call.args() else { return None };
    let inner = joined_column(argument, table, projection)?;
    let operation = call.fun().inner().downcast_ref::<Kernel>()?.operation();
    inner.applied(operation, table.columns[inner.column].sql_type)
}

/// The form of a column after a native cast that keeps each value.
fn widened(from: SqlType, to: &DataType) -> Option<KeyForm> {
    let scale = match from {
        SqlType::Decimal { scale, .. } => scale,
        SqlType::TinyInt | SqlType::SmallInt | SqlType::Int | SqlType::BigInt => 0,
        _ => return None,
    };
    match to {
        to if *to == carrier(from) => Some(KeyForm::Value),
        DataType::Int16 | DataType::Int32 | DataType::Int64 if from.is_integer() => Some(KeyForm::Widened),
        DataType::Decimal128(_, digits) => u32::try_from(digits - i8::try_from(scale).ok()?).ok().map(KeyForm::Scaled),
        _ => None,
    }
}
