//! What lies between an aggregation and the scan below it, in terms of the table's columns: expressions that a scan can
//! evaluate on its pages.

use std::any::Any;
use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use hobt_access::scan::{Arithmetic, IntegerWidth, ScanExpression};
use hobt_functions::BinaryOperator;
use hobt_types::{PhysicalType, SqlType};
use hobt_udf::{Kernel, Operation};

use crate::columns::substituted;
use crate::role::{Exchange, Passing, Role, role};
use crate::scan_exec::ScanExec;

/// A scan, and what lies between it and a plan above.
pub struct ScanBelow {
    /// The scan.
    pub scan: Arc<dyn ExecutionPlan>,
    /// The definition of each column of the plan in terms of the scan's columns.
    pub columns: Vec<Arc<dyn PhysicalExpr>>,
    /// A filter right above the scan.
    pub filter: Option<Arc<dyn ExecutionPlan>>,
}

/// The scan under projections, exchanges and a filter.
pub fn scan_below(plan: &Arc<dyn ExecutionPlan>) -> Option<ScanBelow> {
    if plan.is::<ScanExec>() {
        let fields = plan.schema();
        let columns = fields.fields().iter().enumerate();
        let columns = columns.map(|(place, field)| Arc::new(Column::new(field.name(), place)) as Arc<dyn PhysicalExpr>);
        return Some(ScanBelow { scan: Arc::clone(plan), columns: columns.collect(), filter: None });
    }
    match role(plan.as_ref()) {
        Role::Project(projection) => {
            let below = scan_below(projection.input())?;
            let definition = |at: usize| below.columns.get(at).cloned();
            let above = projection.expr().iter().map(|item| substituted(&item.expr, &definition));
            Some(ScanBelow { columns: above.collect::<Option<_>>()?, ..below })
        }
        Role::Filter(filter) if filter.fetch().is_none() && filter.input().is::<ScanExec>() => {
            let below = scan_below(filter.input())?;
            let columns = match filter.projection() {
                Some(places) => places.iter().map(|&place| below.columns.get(place).cloned()).collect::<Option<_>>()?,
                None => below.columns,
            };
            Some(ScanBelow { columns, filter: Some(Arc::clone(plan)), ..below })
        }
        Role::Passes(Passing::Yields | Passing::Hides(_)) | Role::Exchange(Exchange::Spread(_)) => {
            scan_below(plan.children().first()?)
        }
        _ => None,
    }
}

/// The table's column that an expression is, if it is one.
pub fn scan_column(expr: &Arc<dyn PhysicalExpr>, scan: &ScanExec) -> Option<usize> {
    let column = expr.downcast_ref::<Column>()?;
    // A row's RID is no column of the table.
    let columns = scan.table().table().columns.len();
    scan.projection().get(column.index()).copied().filter(|&column| column < columns)
}

fn width_of(sql_type: SqlType) -> Option<IntegerWidth> {
    Some(match sql_type {
        SqlType::TinyInt => IntegerWidth::Unsigned8,
        SqlType::SmallInt => IntegerWidth::Signed16,
        SqlType::Int => IntegerWidth::Signed32,
        SqlType::BigInt => IntegerWidth::Signed64,
        _ => return None,
    })
}

/// What the scan can evaluate of type `sql_type`: an expression of integers, or a column that is stored as integers.
pub fn scan_number(sql_type: SqlType, expr: &Arc<dyn PhysicalExpr>, scan: &ScanExec) -> Option<ScanExpression> {
    if width_of(sql_type).is_some() {
        return scan_integer(sql_type, expr, scan);
    }
    let column = scan_column(expr, scan)?;
    let fits = is_stored_as_integer(sql_type) && scan.table().table().columns[column].sql_type == sql_type;
    fits.then_some(ScanExpression::Column(column))
}

/// Whether the digits of decimals, or days and times, are integers of at most eight bytes on pages.
fn is_stored_as_integer(sql_type: SqlType) -> bool {
    let is_digits = matches!(sql_type, SqlType::Decimal { .. } | SqlType::Money | SqlType::SmallMoney);
    let is_stored_so = matches!(sql_type.physical(), PhysicalType::Fixed4 | PhysicalType::Fixed8);
    (is_digits || sql_type.is_temporal()) && is_stored_so
}

/// The digits of an exact number that the scan can evaluate, of type `sql_type`: integers, decimals, and their sums and
/// products that keep all digits. A result that 64 bits do not hold has to be computed again, in 128.
pub(crate) fn scan_digits(sql_type: SqlType, expr: &Arc<dyn PhysicalExpr>, scan: &ScanExec) -> Option<ScanExpression> {
    if let Some(found) = scan_number(sql_type, expr, scan) {
        return Some(found);
    }
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        let ScalarValue::Decimal128(Some(digits), ..) = literal.value() else { return None };
        return i64::try_from(*digits).ok().map(ScanExpression::Literal);
    }
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let (operator, left, right, result) = match call.fun().inner().downcast_ref::<Kernel>()?.operation() {
        Operation::Binary { operator, left, right, result } => (operator, left, right, result),
        Operation::Cast { from, to: SqlType::Decimal { precision, scale }, style: None, attempt: false } => {
            let (digits, point) = digits_of(*from)?;
            let is_wider = *scale >= point && precision - scale >= digits - point;
            let inner = scan_digits(*from, call.args().first()?, scan).filter(|_| is_wider)?;
            return Some(scaled(inner, scale - point));
        }
        _ => return None,
    };
    let (SqlType::Decimal { precision, scale }, [one, other]) = (*result, call.args()) else { return None };
    let (l, r) = (digits_of(*left)?, digits_of(*right)?);
    let (one, other) = (scan_digits(*left, one, scan)?, scan_digits(*right, other, scan)?);
    let operation = match operator {
        BinaryOperator::Add => Arithmetic::Add,
        BinaryOperator::Subtract => Arithmetic::Subtract,
        BinaryOperator::Multiply => Arithmetic::Multiply,
        _ => return None,
    };
    let keeps_digits = match operation {
        Arithmetic::Multiply => l.1 + r.1 == scale,
        _ => l.1.max(r.1) == scale,
    };
    // Nothing below 19 digits is checked: any number of 64 bits has to be of the type.
    if !keeps_digits || precision < 19 && !is_proven(operation, l, r, (precision, scale)) {
        return None;
    }
    let (one, other) = match operation {
        Arithmetic::Multiply => (one, other),
        _ => (scaled(one, scale - l.1), scaled(other, scale - r.1)),
    };
    let (left, right) = (Box::new(one), Box::new(other));
    Some(ScanExpression::Arithmetic { operation, left, right, width: IntegerWidth::Signed64 })
}

/// The precision and scale of an exact number.
fn digits_of(sql_type: SqlType) -> Option<(u8, u8)> {
    Some(match sql_type {
        SqlType::Decimal { precision, scale } => (precision, scale),
        SqlType::TinyInt => (3, 0),
        SqlType::SmallInt => (5, 0),
        SqlType::Int => (10, 0),
        SqlType::BigInt => (19, 0),
        _ => return None,
    })
}

/// Whether the operands' digits prove that the result's type holds every result.
fn is_proven(operation: Arithmetic, l: (u8, u8), r: (u8, u8), (precision, scale): (u8, u8)) -> bool {
    match operation {
        Arithmetic::Multiply => l.0 + r.0 <= precision,
        _ => (l.0 - l.1).max(r.0 - r.1) + scale < precision,
    }
}

/// Digits with more zeros behind them.
fn scaled(digits: ScanExpression, zeros: u8) -> ScanExpression {
    match (digits, 10i64.checked_pow(u32::from(zeros))) {
        (digits, Some(1)) => digits,
        (ScanExpression::Literal(digits), Some(factor)) if digits.checked_mul(factor).is_some() => {
            ScanExpression::Literal(digits * factor)
        }
        (digits, factor) => ScanExpression::Arithmetic {
            operation: Arithmetic::Multiply,
            left: Box::new(digits),
            right: Box::new(ScanExpression::Literal(factor.unwrap_or(i64::MAX))),
            width: IntegerWidth::Signed64,
        },
    }
}

/// An integer expression that the scan can evaluate, of type `sql_type`.
fn scan_integer(sql_type: SqlType, expr: &Arc<dyn PhysicalExpr>, scan: &ScanExec) -> Option<ScanExpression> {
    width_of(sql_type)?;
    if let Some(column) = scan_column(expr, scan) {
        let declared = scan.table().table().columns[column].sql_type;
        return width_of(declared).map(|_| ScanExpression::Column(column));
    }
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return integer_literal(literal).map(ScanExpression::Literal);
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        // Of DataFusion, between native integers.
        let column = scan_column(cast.expr(), scan)?;
        let from = width_of(scan.table().table().columns[column].sql_type)?;
        return widens(from, width_of(sql_type)?).then_some(ScanExpression::Column(column));
    }
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let function: &dyn Any = call.fun().inner().as_ref();
    let arguments = call.args();
    match function.downcast_ref::<Kernel>()?.operation() {
        Operation::Binary { operator, left, right, result } => {
            let operation = match operator {
                BinaryOperator::Add => Arithmetic::Add,
                BinaryOperator::Subtract => Arithmetic::Subtract,
                BinaryOperator::Multiply => Arithmetic::Multiply,
                _ => return None,
            };
            Some(ScanExpression::Arithmetic {
                operation,
                left: Box::new(scan_integer(*left, &arguments[0], scan)?),
                right: Box::new(scan_integer(*right, &arguments[1], scan)?),
                width: width_of(*result)?,
            })
        }
        Operation::Cast { from, to, style: None, attempt: false } => {
            let widens = widens(width_of(*from)?, width_of(*to)?);
            widens.then(|| scan_integer(*from, &arguments[0], scan)).flatten()
        }
        Operation::Function { def, arguments: types, .. } if def.name.eq_ignore_ascii_case("LEN") => {
            let column = scan_column(&arguments[0], scan)?;
            types[0].is_text().then_some(ScanExpression::Length(column))
        }
        _ => None,
    }
}

/// Whether every value of `from` is also a value of `to`.
fn widens(from: IntegerWidth, to: IntegerWidth) -> bool {
    let bits = |width| match width {
        IntegerWidth::Unsigned8 => 8,
        IntegerWidth::Signed16 => 16,
        IntegerWidth::Signed32 => 32,
        IntegerWidth::Signed64 => 64,
    };
    from == to || bits(from) < bits(to)
}

fn integer_literal(literal: &Literal) -> Option<i64> {
    use datafusion::common::ScalarValue as S;
    match literal.value() {
        S::UInt8(Some(value)) => Some(i64::from(*value)),
        S::Int16(Some(value)) => Some(i64::from(*value)),
        S::Int32(Some(value)) => Some(i64::from(*value)),
        S::Int64(Some(value)) => Some(*value),
        _ => None,
    }
}
