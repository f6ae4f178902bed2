//! Comparisons: both sides are converted to one Arrow type, and text compares by its collation's sort key.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use hobt_base::{Position, SqlError, errors};
use hobt_tsql::ast::ComparisonOperator;
use hobt_types::{Collation, SqlType, Value};

use super::bound::{BoundExpr, Constant};
use super::convert::{narrow_integer, unify};
use super::folding::{self, Operands};
use super::parameters;
use hobt_table::{Assumed, marked, parameter};
use hobt_udf::{Kernel, Operation};

/// DataFusion's operator for a comparison, or for its negation.
pub(super) fn engine_operator(operator: ComparisonOperator, negated: bool) -> Operator {
    match (operator, negated) {
        (ComparisonOperator::Equal, false) | (ComparisonOperator::NotEqual, true) => Operator::Eq,
        (ComparisonOperator::NotEqual, false) | (ComparisonOperator::Equal, true) => Operator::NotEq,
        (ComparisonOperator::Less, false) | (ComparisonOperator::GreaterOrEqual, true) => Operator::Lt,
        (ComparisonOperator::LessOrEqual, false) | (ComparisonOperator::Greater, true) => Operator::LtEq,
        (ComparisonOperator::Greater, false) | (ComparisonOperator::LessOrEqual, true) => Operator::Gt,
        (ComparisonOperator::GreaterOrEqual, false) | (ComparisonOperator::Less, true) => Operator::GtEq,
    }
}

/// The operator's name in messages about collations.
fn operation_name(operator: Operator) -> &'static str {
    match operator {
        Operator::Eq => "equal to",
        Operator::NotEq => "not equal to",
        Operator::Lt => "less than",
        Operator::LtEq => "less than or equal to",
        Operator::Gt => "greater than",
        _ => "greater than or equal to",
    }
}

/// The bytes by which a text compares.
fn text_key(bound: &BoundExpr, collation: Collation) -> Expr {
    key_of(bound, |value| parameters::text_key(value, collation), Operation::SortKey(collation))
}

/// The key of a value, if `known` can compute it; otherwise the call of `operation` that computes it.
fn key_of(bound: &BoundExpr, known: impl Fn(&Value) -> Option<ScalarValue>, operation: Operation) -> Expr {
    let Some(value) = bound.literal.as_ref().and_then(&known) else {
        return Kernel::call(operation, vec![bound.expr.clone()], bound.position);
    };
    let literal = match &bound.assumed {
        None => Expr::Literal(value, None),
        Some(Assumed::Value(assumed)) => marked(value, known(assumed).as_ref()),
        Some(Assumed::Unknown) => marked(value, None),
    };
    match &bound.variable {
        Some(name) => parameter(literal, &parameters::key_name(name, &operation)),
        None => literal,
    }
}

/// The expression that sorts, groups and joins like `bound`: its key if the type has one, otherwise itself.
pub(super) fn key(bound: &BoundExpr) -> Expr {
    match bound.sql_type {
        SqlType::VarBinary(_) => binary_key(bound),
        sql_type if sql_type.is_text() => text_key(bound, bound.collation.collation),
        _ => bound.expr.clone(),
    }
}

/// The bytes by which a `varbinary` compares. The shorter of two values counts as padded with zeros, so trailing zeros
/// are removed.
fn binary_key(bound: &BoundExpr) -> Expr {
    key_of(bound, parameters::binary_key, Operation::BinaryKey)
}

/// The error if `time` is combined with a type that has a date.
fn incompatible(left: SqlType, right: SqlType, operation: &str) -> Option<SqlError> {
    let is_time = |sql_type| matches!(sql_type, SqlType::Time { .. });
    let clash = left.is_temporal() && right.is_temporal() && is_time(left) != is_time(right);
    clash.then(|| {
        let (left, right) = (left.name(), right.name());
        errors::INCOMPATIBLE_OPERANDS.with([&left, &right, &operation])
    })
}

/// The two sides of a comparison, converted to one Arrow type.
///
/// # Errors
/// 206, 257, 402 for types that cannot be compared; 468 for conflicting collations.
pub(super) fn comparable(left: BoundExpr, right: BoundExpr, operation: &str) -> Result<(Expr, Expr), SqlError> {
    let is_decimal = |bound: &BoundExpr| matches!(bound.sql_type, SqlType::Decimal { .. });
    let (left, right) = if left.constant == Constant::Integer && is_decimal(&right) {
        (narrow_integer(left)?, right)
    } else if right.constant == Constant::Integer && is_decimal(&left) {
        (left, narrow_integer(right)?)
    } else {
        (left, right)
    };
    let text = |bound: &BoundExpr| bound.sql_type.is_text() || bound.is_untyped_null();
    if text(&left) && text(&right) && (left.sql_type.is_text() || right.sql_type.is_text()) {
        let collation = match (left.sql_type.is_text(), right.sql_type.is_text()) {
            (true, true) => left.collation.meet(right.collation, operation)?,
            (true, false) => left.collation,
            _ => right.collation,
        };
        return Ok((text_key(&left, collation.collation), text_key(&right, collation.collation)));
    }
    if let Some(error) = incompatible(left.sql_type, right.sql_type, operation) {
        return Err(error);
    }
    let (mut sides, _) = unify(vec![left, right], operation)?;
    let right = sides.pop().ok_or_else(|| SqlError::internal("a comparison lost a side"))?;
    let left = sides.pop().ok_or_else(|| SqlError::internal("a comparison lost a side"))?;
    Ok((key(&left), key(&right)))
}

/// `left operator right` as a condition.
///
/// # Errors
/// As [`comparable`], at `position`.
pub(super) fn compare(
    left: BoundExpr,
    operator: Operator,
    right: BoundExpr,
    position: Position,
) -> Result<Expr, SqlError> {
    let operands = Operands::of([&left, &right]);
    let (left, right) = comparable(left, right, operation_name(operator)).map_err(|error| error.at(position))?;
    let condition = Expr::BinaryExpr(BinaryExpr::new(Box::new(left), operator, Box::new(right)));
    Ok(match operator {
        Operator::IsDistinctFrom | Operator::IsNotDistinctFrom => folding::test(condition, operands),
        _ => folding::comparison(condition, operands),
    })
}
