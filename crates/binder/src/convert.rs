//! Conversions between types. They are omitted if the carrier has the same representation, native if no value can fail
//! or change, and kernels of crate `functions` otherwise.

use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::Cast;
use hobt_base::{Position, SqlError};
use hobt_functions::type_rules::{as_decimal, check_explicit, check_implicit, common_type_of, declared_length};
use hobt_functions::{array_value, carrier, cast_array, value_to_array};
use hobt_types::{MaxLength, SqlType, Value};

use super::bound::{BoundExpr, Constant};
use hobt_table::Assumed;
use hobt_udf::{Kernel, Operation};

/// An implicit conversion: in operators, comparisons, `CASE`, set operators.
///
/// # Errors
/// 206 and 257 if T-SQL does not convert implicitly.
pub(super) fn implicit(bound: BoundExpr, to: SqlType) -> Result<BoundExpr, SqlError> {
    if bound.is_untyped_null() || bound.sql_type == to {
        return convert(bound, to, None, false);
    }
    let position = bound.position;
    check_implicit(bound.sql_type, to).map_err(|error| error.at(position))?;
    convert(bound, to, None, false)
}

/// `CAST`, `CONVERT` and their `TRY_` forms.
///
/// # Errors
/// 529 if T-SQL does not allow the conversion.
pub(super) fn explicit(
    bound: BoundExpr,
    to: SqlType,
    style: Option<i32>,
    attempt: bool,
    position: Position,
) -> Result<BoundExpr, SqlError> {
    if !bound.is_untyped_null() {
        check_explicit(bound.sql_type, to).map_err(|error| error.at(position))?;
    }
    convert(BoundExpr { position, ..bound }, to, style, attempt)
}

fn convert(bound: BoundExpr, to: SqlType, style: Option<i32>, attempt: bool) -> Result<BoundExpr, SqlError> {
    if bound.is_untyped_null() {
        let null = BoundExpr::literal(Value::Null, to, bound.position)?;
        return Ok(BoundExpr { foldable: bound.foldable, ..null });
    }
    let from = bound.sql_type;
    if from == to {
        return Ok(BoundExpr { constant: Constant::No, ..bound });
    }
    if let Some(folded) = fold(&bound, to, style, attempt) {
        return Ok(folded);
    }
    let expr = if is_free(from, to) {
        bound.expr
    } else if is_native(from, to) {
        Expr::Cast(Cast::new(Box::new(bound.expr), carrier(to)))
    } else {
        Kernel::call(Operation::Cast { from, to, style, attempt }, vec![bound.expr], bound.position)
    };
    Ok(BoundExpr {
        expr,
        sql_type: to,
        nullable: bound.nullable || attempt,
        collation: bound.collation,
        literal: None,
        foldable: false,
        assumed: None,
        variable: None,
        constant: Constant::No,
        position: bound.position,
    })
}

/// The conversion of a known value; `None` if it fails, in which case the error is raised at run time.
fn fold(bound: &BoundExpr, to: SqlType, style: Option<i32>, attempt: bool) -> Option<BoundExpr> {
    let converted = |value: &Value| {
        let array = value_to_array(value, bound.sql_type).ok()?;
        let array = cast_array(&array, bound.sql_type, to, style, attempt).ok()?;
        array_value(array.as_ref(), 0, to).ok()
    };
    let folded = BoundExpr::literal(converted(bound.literal.as_ref()?)?, to, bound.position).ok()?;
    let folded = BoundExpr { foldable: bound.foldable, ..folded }.with_collation(bound.collation);
    match &bound.assumed {
        None => Some(folded),
        Some(Assumed::Value(value)) => folded.assuming(converted(value).map_or(Assumed::Unknown, Assumed::Value)).ok(),
        Some(Assumed::Unknown) => folded.assuming(Assumed::Unknown).ok(),
    }
}

/// Whether every value of `from` is a value of `to` with the same carrier and representation.
fn is_free(from: SqlType, to: SqlType) -> bool {
    match (from, to) {
        (SqlType::Bit, SqlType::TinyInt) => true,
        (SqlType::Time { scale: a }, SqlType::Time { scale: b })
        | (SqlType::DateTime2 { scale: a }, SqlType::DateTime2 { scale: b }) => a <= b,
        (SqlType::SmallDateTime, SqlType::DateTime | SqlType::DateTime2 { .. }) => true,
        (_, SqlType::VarChar(_)) if from.is_text() && !from.is_national() => fits(from, to),
        (_, SqlType::NVarChar(_)) if from.is_text() => fits(from, to),
        (_, SqlType::VarBinary(_)) if from.is_binary() => fits(from, to),
        _ => false,
    }
}

/// Whether the declared length of `from` is at most that of `to`.
fn fits(from: SqlType, to: SqlType) -> bool {
    match (declared_length(from), declared_length(to)) {
        (_, Some(MaxLength::Max)) => true,
        (Some(MaxLength::Limited(a)), Some(MaxLength::Limited(b))) => a <= b,
        _ => false,
    }
}

/// Whether Arrow's own cast is used: for widening of numbers, which loses nothing and never fails.
fn is_native(from: SqlType, to: SqlType) -> bool {
    let width = |sql_type| match sql_type {
        SqlType::TinyInt | SqlType::Bit => Some(1),
        SqlType::SmallInt => Some(2),
        SqlType::Int => Some(3),
        SqlType::BigInt => Some(4),
        _ => None,
    };
    match (from, to) {
        (SqlType::Real, SqlType::Float) => true,
        (_, SqlType::Float) => from.is_integer(),
        (_, SqlType::Decimal { precision, scale }) => match as_decimal(from) {
            // Arrow checks a decimal cast of an integer by the digits of its type, not of its value.
            Some((p, s)) => s <= scale && p - s <= precision - scale,
            None => false,
        },
        _ => matches!((width(from), width(to)), (Some(a), Some(b)) if a < b && to != SqlType::Bit),
    }
}

/// Converts all expressions to their common type.
///
/// # Errors
/// As [`implicit`].
pub(super) fn unify(items: Vec<BoundExpr>, operation: &str) -> Result<(Vec<BoundExpr>, SqlType), SqlError> {
    let types: Vec<SqlType> = items.iter().filter(|item| !item.is_untyped_null()).map(|item| item.sql_type).collect();
    let common = match types.is_empty() {
        true => SqlType::Int,
        false => common_type_of(&types).map_err(|error| error.at(items[0].position))?,
    };
    let collation = if common.is_text() {
        let texts = items.iter().filter(|item| item.sql_type.is_text()).map(|item| item.collation);
        texts.map(Ok).reduce(|met, next| met?.meet(next?, operation)).transpose()?
    } else {
        None
    };
    let converted = items.into_iter().map(|item| {
        let converted = implicit(item, common)?;
        Ok(match collation {
            Some(collation) => converted.with_collation(collation),
            None => converted,
        })
    });
    Ok((converted.collect::<Result<_, SqlError>>()?, common))
}

/// An integer constant as a decimal with exactly its digits, as it is used beside a decimal operand.
///
/// # Errors
/// None in practice: the digits hold the value.
pub(super) fn narrow_integer(bound: BoundExpr) -> Result<BoundExpr, SqlError> {
    let Some(Value::Int(value)) = bound.literal else { return Ok(bound) };
    let digits = value.unsigned_abs().checked_ilog10().unwrap_or(0) + 1;
    let sql_type = SqlType::Decimal { precision: u8::try_from(digits).unwrap_or(38), scale: 0 };
    let narrow = BoundExpr::literal(Value::Decimal(i128::from(value)), sql_type, bound.position)?;
    Ok(BoundExpr { foldable: bound.foldable, ..narrow })
}
