//! Expressions with one value for each value of a column: a text's sort key, a number in a wider type, a number plus a
//! constant. The number of distinct values of the column is also that of the expression.

use arrow::datatypes::DataType;
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::Expr;
use hobt_functions::BinaryOperator;
use hobt_functions::type_rules::as_decimal;
use hobt_types::SqlType;

use crate::access_path::is_wider_text;
use hobt_udf::{Kernel, Operation};

/// The column that an expression is, or whose comparisons it preserves.
pub fn same_value(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        Expr::Alias(alias) => same_value(&alias.expr),
        Expr::ScalarFunction(call) => {
            let [argument] = call.args.as_slice() else { return None };
            let operation = call.func.inner().downcast_ref::<Kernel>()?.operation();
            let is_same = match operation {
                Operation::Cast { from, to, style: None, .. } => keeps_apart(*from, *to),
                Operation::SortKey(_) | Operation::BinaryKey | Operation::Nullable(_) => true,
                _ => false,
            };
            is_same.then(|| same_value(argument)).flatten()
        }
        _ => None,
    }
}

/// The column that has as many distinct values as an expression.
pub(crate) fn same_values(expr: &Expr) -> Option<&Column> {
    if let Some(column) = same_value(expr) {
        return Some(column);
    }
    match expr {
        Expr::Alias(alias) => same_values(&alias.expr),
        Expr::Negative(inner) => same_values(inner),
        Expr::ScalarFunction(call) => {
            let operation = call.func.inner().downcast_ref::<Kernel>()?.operation();
            match (operation, call.args.as_slice()) {
                (Operation::Cast { from, to, style: None, .. }, [argument]) if keeps_apart(*from, *to) => {
                    same_values(argument)
                }
                (Operation::SortKey(_) | Operation::BinaryKey, [argument])
                | (Operation::Nullable(_) | Operation::Negate(_) | Operation::BitNot(_), [argument]) => {
                    same_values(argument)
                }
                (Operation::Binary { operator, result, .. }, [left, right]) => shifted(*operator, *result, left, right),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The column of a sum or difference with a constant, or of a product with a constant other than 0.
fn shifted<'e>(operator: BinaryOperator, result: SqlType, left: &'e Expr, right: &'e Expr) -> Option<&'e Column> {
    let (constant, inner) = match (left, right) {
        (Expr::Literal(value, _), inner) | (inner, Expr::Literal(value, _)) => (value, inner),
        _ => return None,
    };
    let is_nought = || {
        let number = constant.cast_to(&DataType::Int64);
        !matches!(number, Ok(ScalarValue::Int64(Some(number))) if number != 0)
    };
    let keeps = match operator {
        BinaryOperator::Add | BinaryOperator::Subtract => true,
        // A product of decimals may be rounded.
        BinaryOperator::Multiply => is_integer(result) && !is_nought(),
        _ => false,
    };
    (keeps && !constant.is_null()).then(|| same_values(inner)).flatten()
}

fn is_integer(sql_type: SqlType) -> bool {
    digits(sql_type).is_some_and(|(_, scale)| scale == 0)
}

/// Digits before and after the decimal point of an exact number.
fn digits(sql_type: SqlType) -> Option<(u8, u8)> {
    as_decimal(sql_type).map(|(precision, scale)| (precision.saturating_sub(scale), scale))
}

/// Whether a conversion gives different values for different values.
fn keeps_apart(from: SqlType, to: SqlType) -> bool {
    if from == to {
        return true;
    }
    if let (Some((whole, decimals)), Some((to_whole, to_decimals))) = (digits(from), digits(to)) {
        return whole <= to_whole && decimals <= to_decimals;
    }
    match (from, to) {
        (SqlType::TinyInt | SqlType::SmallInt | SqlType::Int | SqlType::Real, SqlType::Float) => true,
        (SqlType::Date | SqlType::SmallDateTime, SqlType::DateTime | SqlType::DateTime2 { .. }) => true,
        (SqlType::Date, SqlType::SmallDateTime) => true,
        (SqlType::DateTime, SqlType::DateTime2 { scale }) => scale >= 3,
        (SqlType::DateTime2 { scale: from }, SqlType::DateTime2 { scale: to }) => from <= to,
        (SqlType::Time { scale: from }, SqlType::Time { scale: to }) => from <= to,
        // A number has only one text.
        (from, to) if is_integer(from) && to.is_text() => is_long_enough(to),
        _ => is_wider_text(from, to),
    }
}

/// Whether every integer fits as text: its digits and a sign.
fn is_long_enough(text: SqlType) -> bool {
    let bytes = text.max_length_bytes();
    let characters = if text.is_national() { bytes / 2 } else { bytes };
    bytes == -1 || characters >= 20
}

#[cfg(test)]
mod tests {
    use super::*;
    use hobt_base::Position;
    use hobt_types::{Collation, MaxLength};

    fn cast(from: SqlType, to: SqlType, of: Expr) -> Expr {
        Kernel::call(Operation::Cast { from, to, style: None, attempt: false }, vec![of], Position::default())
    }

    #[test]
    fn a_column_is_found_behind_what_keeps_its_values_apart() {
        let column = || Expr::Column(Column::from_name("c"));
        let text = |length| SqlType::VarChar(MaxLength::Limited(length));
        let key = |of| Kernel::call(Operation::SortKey(Collation::default()), vec![of], Position::default());
        let same = [
            column().alias("d"),
            key(column()),
            key(cast(text(10), SqlType::NVarChar(MaxLength::Limited(20)), column())),
            cast(SqlType::Int, SqlType::BigInt, column()),
            cast(SqlType::Int, SqlType::Decimal { precision: 12, scale: 2 }, column()),
            cast(SqlType::Date, SqlType::DateTime2 { scale: 7 }, column()),
        ];
        assert!(same.iter().all(|expr| same_values(expr) == Some(&Column::from_name("c"))));
        let other = [
            cast(text(10), text(2), column()),
            cast(SqlType::BigInt, SqlType::Int, column()),
            cast(SqlType::DateTime, SqlType::Date, column()),
            cast(SqlType::Decimal { precision: 12, scale: 2 }, SqlType::Int, column()),
            column() + column(),
        ];
        assert!(other.iter().all(|expr| same_values(expr).is_none()));
    }
}
