//! The table of date functions, their result types, and the functions that return the current time.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{Date32Type, Int64Type};
use hobt_base::SqlError;
use hobt_types::{MaxLength, SqlType, Value};

use super::calendar::{BASE_TICKS, TICKS_PER_DAY, round_to_datetime};
use super::{add, construct, difference, extract};
use crate::cast::cast_array;
use crate::column::Column;
use crate::error::{date_conversion, invalid_argument};
use crate::function::{ArgType, Call, FunctionDef, Volatility};

pub(crate) static FUNCTIONS: &[FunctionDef] = &[
    now("GETDATE", |_| Ok(SqlType::DateTime), |call| clock(call, call.context.now_local))
        .with_one(|context| one(context.now_local, SqlType::DateTime)),
    now("CURRENT_TIMESTAMP", |_| Ok(SqlType::DateTime), |call| clock(call, call.context.now_local))
        .with_one(|context| one(context.now_local, SqlType::DateTime)),
    now("GETUTCDATE", |_| Ok(SqlType::DateTime), |call| clock(call, call.context.now_utc))
        .with_one(|context| one(context.now_utc, SqlType::DateTime)),
    now("SYSDATETIME", |_| Ok(DATETIME2), |call| clock(call, call.context.now_local))
        .with_one(|context| one(context.now_local, DATETIME2)),
    now("SYSUTCDATETIME", |_| Ok(DATETIME2), |call| clock(call, call.context.now_utc))
        .with_one(|context| one(context.now_utc, DATETIME2)),
    FunctionDef::new("DATEADD", (2, 2), |args| temporal_type(args, 1, "dateadd"), add::dateadd).with_date_part(),
    FunctionDef::new("DATETRUNC", (1, 1), |args| temporal_type(args, 0, "datetrunc"), add::datetrunc).with_date_part(),
    FunctionDef::new("DATE_BUCKET", (2, 3), bucket_type, add::date_bucket).with_date_part(),
    FunctionDef::new("DATEDIFF", (2, 2), int, difference::datediff).with_date_part(),
    FunctionDef::new("DATEDIFF_BIG", (2, 2), |_| Ok(SqlType::BigInt), difference::datediff).with_date_part(),
    FunctionDef::new("DATEPART", (1, 1), int, extract::datepart).with_date_part(),
    FunctionDef::new("DATENAME", (1, 1), name_type, extract::datename).with_date_part(),
    FunctionDef::new("YEAR", (1, 1), int, |call| extract::fixed(call, super::DatePart::Year)),
    FunctionDef::new("MONTH", (1, 1), int, |call| extract::fixed(call, super::DatePart::Month)),
    FunctionDef::new("DAY", (1, 1), int, |call| extract::fixed(call, super::DatePart::Day)),
    FunctionDef::new("DATEFROMPARTS", (3, 3), |_| Ok(SqlType::Date), construct::datefromparts),
    FunctionDef::new("DATETIMEFROMPARTS", (7, 7), |_| Ok(SqlType::DateTime), construct::datetimefromparts),
    FunctionDef::new("DATETIME2FROMPARTS", (8, 8), construct::datetime2_type, construct::datetime2fromparts),
    FunctionDef::new("TIMEFROMPARTS", (5, 5), construct::time_type, construct::timefromparts),
    FunctionDef::new("EOMONTH", (1, 2), |_| Ok(SqlType::Date), construct::eomonth),
    FunctionDef::new("ISDATE", (1, 1), int, construct::isdate),
];

const DATETIME2: SqlType = SqlType::DateTime2 { scale: 7 };

const fn now(
    name: &'static str,
    result_type: crate::function::ResultType,
    evaluate: crate::function::Evaluate,
) -> FunctionDef {
    FunctionDef::new(name, (0, 0), result_type, evaluate).with_volatility(Volatility::Statement)
}

fn int(_: &[ArgType]) -> Result<SqlType, SqlError> {
    Ok(SqlType::Int)
}

fn name_type(_: &[ArgType]) -> Result<SqlType, SqlError> {
    Ok(SqlType::NVarChar(MaxLength::Limited(30)))
}

/// The type of the date argument at `index`; text and numbers are `datetime`, as for `DATEADD`.
fn temporal_type(args: &[ArgType], index: usize, function: &str) -> Result<SqlType, SqlError> {
    match args.get(index).map(|arg| arg.sql_type) {
        Some(sql_type) if sql_type.is_temporal() => Ok(sql_type),
        Some(sql_type) if sql_type.is_text() && matches!(function, "datetrunc" | "date_bucket") => Ok(DATETIME2),
        Some(sql_type) if sql_type.is_text() || sql_type.is_numeric() => Ok(SqlType::DateTime),
        Some(sql_type) => Err(invalid_argument(sql_type, index + 2, function)),
        None => Err(date_conversion()),
    }
}

/// The type of the date. An origin has the same type.
fn bucket_type(args: &[ArgType]) -> Result<SqlType, SqlError> {
    let sql_type = temporal_type(args, 1, "date_bucket")?;
    match args.get(2) {
        Some(origin) if origin.sql_type.is_temporal() && origin.sql_type.name() != sql_type.name() => {
            Err(invalid_argument(origin.sql_type, 4, "date_bucket"))
        }
        _ => Ok(sql_type),
    }
}

fn one(ticks: i64, sql_type: SqlType) -> Value {
    Value::Int(round_to_datetime(ticks, sql_type))
}

fn clock(call: &Call<'_>, ticks: i64) -> Result<ArrayRef, SqlError> {
    let ticks = round_to_datetime(ticks, call.result_type);
    call.primitive_result::<Int64Type>(|_| Ok(Some(ticks)))
}

/// A date argument as 100 ns since 1970-01-01, with its type.
pub(super) struct Moments {
    column: Column,
    sql_type: SqlType,
}

impl Moments {
    /// The argument at `index`; text is read as `datetime2`, numbers as `datetime`.
    pub(super) fn new(call: &Call<'_>, index: usize) -> Result<Moments, SqlError> {
        let arg = call.arg(index)?;
        let sql_type = match arg.sql_type {
            sql_type if sql_type.is_temporal() => sql_type,
            sql_type if sql_type.is_text() => DATETIME2,
            _ => SqlType::DateTime,
        };
        let array = cast_array(arg.column.array(), arg.sql_type, sql_type, None, false)?;
        Ok(Moments { column: arg.column.with_array(array), sql_type })
    }

    /// The type of the values.
    pub(super) fn sql_type(&self) -> SqlType {
        self.sql_type
    }

    /// Numbers that are computed of the day and the moment of each row: one for each row, or one for all.
    ///
    /// `of` gets the day, counted from 1970-01-01, and the moment.
    #[inline]
    pub(super) fn map<T: ArrowPrimitiveType>(&self, of: impl Fn(i64, i64) -> T::Native) -> PrimitiveArray<T> {
        let array = self.column.array();
        match self.sql_type {
            SqlType::Date => array.as_primitive::<Date32Type>().unary(|day| {
                let day = i64::from(day);
                of(day, day * TICKS_PER_DAY)
            }),
            SqlType::Time { .. } => array.as_primitive::<Int64Type>().unary(|ticks| {
                let ticks = ticks.wrapping_add(BASE_TICKS);
                of(ticks.div_euclid(TICKS_PER_DAY), ticks)
            }),
            _ => array.as_primitive::<Int64Type>().unary(|ticks| of(ticks.div_euclid(TICKS_PER_DAY), ticks)),
        }
    }

    /// Whether it is one NULL for all rows.
    pub(super) fn is_constant_null(&self) -> bool {
        self.column.is_scalar() && self.column.is_null(0)
    }

    /// Numbers of `map` as a column of a call's arguments.
    pub(super) fn with<T: ArrowPrimitiveType>(&self, numbers: PrimitiveArray<T>) -> Column {
        self.column.with_array(Arc::new(numbers))
    }

    /// The moment of `row`; a `time` is on 1900-01-01.
    pub(super) fn get(&self, row: usize) -> Option<i64> {
        let array = self.column.array();
        let row = self.column.row(row);
        if array.is_null(row) {
            return None;
        }
        Some(match self.sql_type {
            SqlType::Date => i64::from(array.as_primitive::<Date32Type>().value(row)) * TICKS_PER_DAY,
            SqlType::Time { .. } => array.as_primitive::<Int64Type>().value(row) + BASE_TICKS,
            _ => array.as_primitive::<Int64Type>().value(row),
        })
    }
}

/// An array of moments, row by row, of the call's result type.
pub(super) fn moments_result(
    call: &Call<'_>,
    mut value: impl FnMut(usize) -> Result<Option<i64>, SqlError>,
) -> Result<ArrayRef, SqlError> {
    match call.result_type {
        SqlType::Date => call.primitive_result::<Date32Type>(|row| {
            let day = value(row)?.map(|ticks| i32::try_from(ticks.div_euclid(TICKS_PER_DAY)));
            day.transpose().map_err(|_| crate::error::date_add_overflow(SqlType::Date))
        }),
        SqlType::Time { .. } => {
            call.primitive_result::<Int64Type>(|row| Ok(value(row)?.map(|ticks| ticks.rem_euclid(TICKS_PER_DAY))))
        }
        _ => call.primitive_result::<Int64Type>(value),
    }
}
