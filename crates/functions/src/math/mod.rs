//! Numbers: rounding, powers, logarithms, trigonometry, `RAND`, `ISNUMERIC`.

mod random;
mod round;

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{Float64Type, Int32Type, Int64Type};
use hobt_base::SqlError;
use hobt_types::SqlType;

use crate::arithmetic;
use crate::cast::{cast_array, parse_float, parse_money};
use crate::error::{invalid_argument, invalid_float_operation, overflow};
use crate::function::{ArgType, Call, FunctionDef, Volatility};

pub(crate) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("ABS", (1, 1), |args| numeric(args, "abs"), absolute),
    FunctionDef::new("SIGN", (1, 1), |args| numeric(args, "sign"), sign),
    FunctionDef::new("CEILING", (1, 1), whole_type, round::ceiling),
    FunctionDef::new("FLOOR", (1, 1), whole_type, round::floor),
    FunctionDef::new("ROUND", (2, 3), |args| numeric(args, "round"), round::round),
    FunctionDef::new("POWER", (2, 2), |args| numeric(args, "power"), power),
    FunctionDef::new("SQRT", (1, 1), float, |call| map(call, f64::sqrt)),
    FunctionDef::new("SQUARE", (1, 1), float, |call| map(call, |x| x * x)),
    FunctionDef::new("EXP", (1, 1), float, |call| map(call, f64::exp)),
    FunctionDef::new("LOG", (1, 2), float, logarithm),
    FunctionDef::new("LOG10", (1, 1), float, |call| map(call, |x| if x > 0.0 { x.log10() } else { f64::NAN })),
    FunctionDef::new("PI", (0, 0), float, |call| constant(call, std::f64::consts::PI)),
    FunctionDef::new("SIN", (1, 1), float, |call| map(call, f64::sin)),
    FunctionDef::new("COS", (1, 1), float, |call| map(call, f64::cos)),
    FunctionDef::new("TAN", (1, 1), float, |call| map(call, f64::tan)),
    FunctionDef::new("COT", (1, 1), float, |call| map(call, |x| 1.0 / x.tan())),
    FunctionDef::new("ASIN", (1, 1), float, |call| map(call, f64::asin)),
    FunctionDef::new("ACOS", (1, 1), float, |call| map(call, f64::acos)),
    FunctionDef::new("ATAN", (1, 1), float, |call| map(call, f64::atan)),
    FunctionDef::new("ATN2", (2, 2), float, |call| map_two(call, f64::atan2)),
    FunctionDef::new("DEGREES", (1, 1), |args| numeric(args, "degrees"), |call| through_float(call, f64::to_degrees)),
    FunctionDef::new("RADIANS", (1, 1), |args| numeric(args, "radians"), |call| through_float(call, f64::to_radians)),
    FunctionDef::new("RAND", (0, 1), float, random::rand).with_volatility(Volatility::OncePerReference),
    FunctionDef::new("ISNUMERIC", (1, 1), |_| Ok(SqlType::Int), is_numeric),
    FunctionDef::new("BIT_COUNT", (1, 1), bit_count_type, bit_count),
];

fn bit_count_type(args: &[ArgType]) -> Result<SqlType, SqlError> {
    match args.first().map_or(SqlType::Int, |arg| arg.sql_type) {
        sql_type if sql_type.is_integer() || sql_type.is_binary() => Ok(SqlType::BigInt),
        sql_type => Err(invalid_argument(sql_type, 1, "bit_count")),
    }
}

/// The number of bits that are 1; an integer has the bits of its own width.
fn bit_count(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let arg = call.arg(0)?;
    if let Some(binary) = arg.column.array().as_binary_view_opt() {
        return call.primitive_result::<Int64Type>(|row| {
            let bytes = (!arg.column.is_null(row)).then(|| binary.value(arg.column.row(row)));
            Ok(bytes.map(|bytes| bytes.iter().map(|byte| i64::from(byte.count_ones())).sum()))
        });
    }
    let width = match arg.sql_type {
        SqlType::Bit | SqlType::TinyInt => u64::from(u8::MAX),
        SqlType::SmallInt => u64::from(u16::MAX),
        SqlType::Int => u64::from(u32::MAX),
        _ => u64::MAX,
    };
    let values = call.integers(0)?;
    call.primitive_result::<Int64Type>(|row| {
        Ok(values.get(row).map(|value| i64::from((value.cast_unsigned() & width).count_ones())))
    })
}

fn float(_: &[ArgType]) -> Result<SqlType, SqlError> {
    Ok(SqlType::Float)
}

/// The argument's type, with the small integers as `int`, `real` and text as `float`.
fn numeric(args: &[ArgType], function: &str) -> Result<SqlType, SqlError> {
    let sql_type = args.first().map_or(SqlType::Int, |arg| arg.sql_type);
    match sql_type {
        SqlType::TinyInt | SqlType::SmallInt | SqlType::Int => Ok(SqlType::Int),
        SqlType::SmallMoney | SqlType::Money => Ok(SqlType::Money),
        SqlType::Bit | SqlType::Real | SqlType::Float => Ok(SqlType::Float),
        SqlType::BigInt | SqlType::Decimal { .. } => Ok(sql_type),
        _ if sql_type.is_text() => Ok(SqlType::Float),
        _ => Err(invalid_argument(sql_type, 1, function)),
    }
}

/// `CEILING` and `FLOOR` of a decimal have scale 0.
fn whole_type(args: &[ArgType]) -> Result<SqlType, SqlError> {
    Ok(match numeric(args, "floor")? {
        SqlType::Decimal { precision, .. } => SqlType::Decimal { precision, scale: 0 },
        other => other,
    })
}

/// A float result; NaN is error 3623, infinity 8115.
fn checked(value: f64) -> Result<f64, SqlError> {
    if value.is_nan() {
        Err(invalid_float_operation())
    } else if value.is_infinite() {
        Err(overflow(SqlType::Float))
    } else {
        Ok(value)
    }
}

fn map(call: &Call<'_>, function: fn(f64) -> f64) -> Result<ArrayRef, SqlError> {
    let values = call.floats(0)?;
    call.primitive_result::<Float64Type>(|row| values.get(row).map(|value| checked(function(value))).transpose())
}

fn map_two(call: &Call<'_>, function: fn(f64, f64) -> f64) -> Result<ArrayRef, SqlError> {
    let (left, right) = (call.floats(0)?, call.floats(1)?);
    call.primitive_result::<Float64Type>(|row| {
        left.get(row).zip(right.get(row)).map(|(a, b)| checked(function(a, b))).transpose()
    })
}

fn constant(call: &Call<'_>, value: f64) -> Result<ArrayRef, SqlError> {
    call.primitive_result::<Float64Type>(|_| Ok(Some(value)))
}

/// Computes in `float` and converts to the result's type.
fn through_float(call: &Call<'_>, function: fn(f64) -> f64) -> Result<ArrayRef, SqlError> {
    let values = map(call, function)?;
    cast_array(&values, SqlType::Float, call.result_type, None, false)
}

fn power(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let (base, exponent) = (call.floats(0)?, call.floats(1)?);
    let values = call.primitive_result::<Float64Type>(|row| {
        let Some((base, exponent)) = base.get(row).zip(exponent.get(row)) else {
            return Ok(None);
        };
        checked(base.powf(exponent)).map(Some)
    })?;
    cast_array(&values, SqlType::Float, call.result_type, None, false)
}

fn logarithm(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    // ln(0) is minus infinity, which SQL Server reports as an invalid operation.
    let natural = |x: f64| if x > 0.0 { x.ln() } else { f64::NAN };
    if call.args.len() == 1 {
        return map(call, |x| if x > 0.0 { x.ln() } else { f64::NAN });
    }
    let (values, bases) = (call.floats(0)?, call.floats(1)?);
    call.primitive_result::<Float64Type>(|row| {
        values.get(row).zip(bases.get(row)).map(|(x, base)| checked(natural(x) / natural(base))).transpose()
    })
}

fn absolute(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let column = call.as_type(0, call.result_type)?;
    let values = column.to_array(call.rows)?;
    let is_negative = round::negative(&values)?;
    if is_negative.true_count() == 0 {
        return Ok(values);
    }
    // The smallest integer has no positive counterpart: the negation of only the negative values raises 8115.
    let candidates =
        arrow::compute::nullif(&values, &arrow::compute::not(&is_negative).map_err(crate::error::from_arrow)?)
            .map_err(crate::error::from_arrow)?;
    let negated = arithmetic::negate(&candidates, call.result_type)?;
    arrow::compute::kernels::zip::zip(&is_negative, &negated, &values).map_err(crate::error::from_arrow)
}

fn sign(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let values = call.floats(0)?;
    let signs = call.primitive_result::<Int32Type>(|row| {
        Ok(values.get(row).map(|value| i32::from(value > 0.0) - i32::from(value < 0.0)))
    })?;
    cast_array(&signs, SqlType::Int, call.result_type, None, false)
}

/// 1 if the text converts to one of the numeric types. A sign, a currency sign or a point alone counts too.
fn is_numeric(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let arg = call.arg(0)?;
    if arg.sql_type.is_numeric() {
        let column = &arg.column;
        return call.primitive_result::<Int32Type>(|row| Ok(Some(i32::from(!column.is_null(row)))));
    }
    if !arg.sql_type.is_text() {
        return call.primitive_result::<Int32Type>(|_| Ok(Some(0)));
    }
    let texts = call.texts(0)?;
    call.primitive_result::<Int32Type>(|row| {
        let numeric = texts.get(row).map(str::trim).is_some_and(|text| {
            let is_money = !text.is_empty() && parse_money(text).is_some();
            is_money || parse_float(text).is_some_and(f64::is_finite) || matches!(text, "+" | "-" | "." | "$" | ",")
        });
        Ok(Some(i32::from(numeric)))
    })
}

/// Boxes a whole array as a result.
fn boxed(array: impl arrow::array::Array + 'static) -> ArrayRef {
    Arc::new(array)
}
