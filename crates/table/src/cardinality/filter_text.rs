//! The conditions that the `WHERE` of a statistics object may have: comparisons of a column with a constant, lists of
//! constants and `IS [NOT] NULL`, joined by AND (Microsoft: "CREATE STATISTICS").

use hobt_base::{Position, SqlError, errors};
use hobt_tsql::ast::{ColumnName, ComparisonOperator, Condition, Expression, Literal, UnaryOperator};
use hobt_types::{SqlType, TypedValue, Value};

use hobt_functions::convert_value;

use super::literal::literal_value;

/// One of the conditions.
pub struct FilterPart<'c> {
    /// The column that it tests.
    pub column: &'c ColumnName,
    pub(super) test: PartTest<'c>,
}

/// The condition on the column.
pub(super) enum PartTest<'c> {
    Compared(ComparisonOperator, &'c Expression),
    In(&'c [Expression]),
    Null { negated: bool },
}

/// The conditions of a filter.
///
/// # Errors
/// 102 and 156 for keywords that a filter may not have; the error of `refused` for anything else that a filter may not
/// have; 112; 1046; the error of `null` for a comparison with NULL.
pub fn filter_parts<'c>(
    condition: &'c Condition,
    refused: &dyn Fn(Position) -> SqlError,
    null: &dyn Fn(Position) -> SqlError,
) -> Result<Vec<FilterPart<'c>>, SqlError> {
    let column = |operand: &'c Expression| match operand {
        Expression::Column { name } => Ok(&**name),
        other => Err(refused(other.position())),
    };
    let one = |column, test| Ok(vec![FilterPart { column, test }]);
    match condition {
        Condition::And { operands } => {
            let parts = operands.iter().map(|operand| filter_parts(operand, refused, null));
            Ok(parts.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
        }
        Condition::Comparison { left, operator, right, .. } => {
            let column = column(left)?;
            check_constant(right, refused, null)?;
            one(column, PartTest::Compared(*operator, right))
        }
        Condition::InList { operand, items, negated: false, .. } => {
            let column = column(operand)?;
            items.iter().try_for_each(|item| check_constant(item, refused, null))?;
            one(column, PartTest::In(items))
        }
        Condition::IsNull { operand, negated, .. } => one(column(operand)?, PartTest::Null { negated: *negated }),
        Condition::InList { span, .. } | Condition::InQuery { span, negated: true, .. } => {
            Err(errors::SYNTAX.with([&"NOT"]).at(span.position))
        }
        Condition::InQuery { span, .. } => Err(no_subquery(span.position)),
        other => {
            let word = match other {
                Condition::Or { .. } => "OR",
                Condition::Like { negated: false, .. } => "LIKE",
                Condition::Between { negated: false, .. } => "BETWEEN",
                Condition::Exists { .. } => "EXISTS",
                Condition::IsDistinct { .. } => "DISTINCT",
                Condition::Quantified { .. } => "SELECT",
                _ => "NOT",
            };
            Err(errors::SYNTAX_KEYWORD.with([&word]).at(other.position()))
        }
    }
}

fn no_subquery(position: Position) -> SqlError {
    errors::SUBQUERY_NOT_ALLOWED.error().at(position)
}

fn check_constant(
    expression: &Expression,
    refused: &dyn Fn(Position) -> SqlError,
    null: &dyn Fn(Position) -> SqlError,
) -> Result<(), SqlError> {
    match expression {
        Expression::Literal { value: Literal::Null, span } => Err(null(span.position)),
        Expression::Literal { .. } => Ok(()),
        Expression::Unary { operator: UnaryOperator::Plus | UnaryOperator::Minus, operand, .. }
            if matches!(**operand, Expression::Literal { .. }) =>
        {
            check_constant(operand, refused, null)
        }
        Expression::Cast { operand, .. } | Expression::Convert { operand, style: None, .. } => {
            check_constant(operand, refused, null)
        }
        Expression::Subquery { span, .. } => Err(no_subquery(span.position)),
        Expression::Variable { name } => Err(errors::FILTER_VARIABLE.error().at(name.position)),
        other => Err(refused(other.position())),
    }
}

/// A constant of a filter as a value of the column's type; `None` if the conversion would lose information.
pub(super) fn constant_of(expression: &Expression, sql_type: SqlType) -> Option<Value> {
    let (value, from) = typed(expression)?;
    let value_of_column = convert_value(&value, from, sql_type).ok()?;
    let is_exact = sql_type.is_text() == from.is_text();
    let back = || convert_value(&value_of_column, sql_type, from).ok();
    (!is_exact || back().as_ref() == Some(&value)).then_some(value_of_column)
}

fn typed(expression: &Expression) -> Option<(Value, SqlType)> {
    match expression {
        Expression::Literal { value, span } => {
            let TypedValue { value, sql_type } = literal_value(value, span.position).ok()?;
            Some((value, sql_type))
        }
        Expression::Unary { operator: UnaryOperator::Plus, operand, .. } => typed(operand),
        Expression::Unary { operator: UnaryOperator::Minus, operand, .. } => {
            let (value, sql_type) = typed(operand)?;
            let negative = match value {
                Value::Int(number) => Value::Int(number.checked_neg()?),
                Value::Decimal(number) => Value::Decimal(number.checked_neg()?),
                Value::Float(number) => Value::Float(-number),
                _ => return None,
            };
            Some((negative, sql_type))
        }
        Expression::Cast { operand, .. } | Expression::Convert { operand, .. } => typed(operand),
        _ => None,
    }
}
