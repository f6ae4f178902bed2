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
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use hobt_catalog::Table;
use hobt_functions::carrier;
use hobt_types::SqlType;

use super::role::{Role, role};
use super::scan_exec::ScanExec;
use super::seek_exec::SeekExec;
use hobt_table::{ColumnPredicate, JoinedColumn, KeyForm, TableRead};
use hobt_udf::Kernel;

/// An expression over the columns of a plan.
type Expr = Arc<dyn PhysicalExpr>;

/// The operator that reads a table, at the end of a trace.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// A scan or a seek.
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
    /// The reader that an operator is, if it is one.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Leaf> {
        let (table, projection, predicates) = match role(plan.as_ref()) {
            Role::Scan(scan) => (scan.table(), scan.projection(), scan.predicates()),
            Role::Seek(seek) => (seek.table(), seek.projection(), seek.predicates()),
            _ => return None,
        };
        let (table, predicates) = (Arc::clone(table), Arc::clone(predicates));
        let (plan, projection) = (Arc::clone(plan), projection.to_vec());
        Some(Leaf { plan, table, projection, predicates, is_order_used: false, is_sorted: false })
    }

    /// The scan that it is, if it is one.
    pub fn scan(&self) -> Option<&ScanExec> {
        if let Role::Scan(scan) = role(self.plan.as_ref()) { Some(scan) } else { None }
    }

    /// The seek that it is, if it is one.
    pub fn seek(&self) -> Option<&SeekExec> {
        if let Role::Seek(seek) = role(self.plan.as_ref()) { Some(seek) } else { None }
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
    let role = role(plan.as_ref());
    let below = exprs.iter().map(|expr| role.over_input(expr.as_ref()?)).collect();
    let (leaf, columns) = trace(plan.children().first()?, below)?;
    let leaf = match role {
        Role::Sort(_) => Leaf { is_sorted: true, ..leaf },
        Role::Group(aggregate) => leaf.ordered(*aggregate.input_order_mode() != InputOrderMode::Linear),
        Role::Window { .. } => leaf.ordered(true),
        _ => leaf,
    };
    Some((leaf, columns))
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
