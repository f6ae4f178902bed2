//! Functions that choose one of their arguments: `ISNULL`, `COALESCE`, `NULLIF`, `GREATEST`, `LEAST`, `CHOOSE`.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array};
use hobt_base::SqlError;
use hobt_types::{SqlType, Value};

use crate::carrier::array_value;
use crate::error::from_arrow;
use crate::function::{ArgType, Call, FunctionDef};
use crate::type_rules::{check_implicit, common_type_of};

pub(crate) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("ISNULL", (2, 2), isnull_type, first_not_null),
    FunctionDef::new("COALESCE", (2, 254), common, first_not_null),
    FunctionDef::new("NULLIF", (2, 2), nullif_type, nullif),
    FunctionDef::new("GREATEST", (1, 254), common, |call| extreme(call, Ordering::Greater)),
    FunctionDef::new("LEAST", (1, 254), common, |call| extreme(call, Ordering::Less)),
    FunctionDef::new("CHOOSE", (2, 254), |args| common(args.get(1..).unwrap_or(&[])), choose),
];

/// The common type of the arguments that are not the constant NULL.
fn common(args: &[ArgType]) -> Result<SqlType, SqlError> {
    let types: Vec<SqlType> = args.iter().filter(|arg| !arg.is_null_literal()).map(|arg| arg.sql_type).collect();
    if types.is_empty() { Ok(SqlType::Int) } else { common_type_of(&types) }
}

/// The first argument's type; the second's if the first is the constant NULL.
fn isnull_type(args: &[ArgType]) -> Result<SqlType, SqlError> {
    let [check, replacement] = args else {
        return Err(SqlError::internal("ISNULL takes two arguments"));
    };
    if check.is_null_literal() {
        return Ok(replacement.sql_type);
    }
    if !replacement.is_null_literal() {
        check_implicit(replacement.sql_type, check.sql_type)?;
    }
    Ok(check.sql_type)
}

fn nullif_type(args: &[ArgType]) -> Result<SqlType, SqlError> {
    args.first().map(|arg| arg.sql_type).ok_or_else(|| SqlError::internal("NULLIF takes two arguments"))
}

/// All arguments as whole arrays of the result's type.
fn converted(call: &Call<'_>, from: usize) -> Result<Vec<ArrayRef>, SqlError> {
    (from..call.args.len())
        .map(|index| {
            let arg = call.arg(index)?;
            if arg.column.array().null_count() == arg.column.array().len() {
                return Ok(arrow::array::new_null_array(&crate::carrier(call.result_type), call.rows));
            }
            call.as_type(index, call.result_type)?.to_array(call.rows)
        })
        .collect()
}

fn first_not_null(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let mut arrays = converted(call, 0)?.into_iter();
    let mut chosen = arrays.next().ok_or_else(|| SqlError::internal("a choice of nothing"))?;
    for next in arrays {
        if chosen.null_count() == 0 {
            break;
        }
        let present = arrow::compute::is_not_null(&chosen).map_err(from_arrow)?;
        chosen = arrow::compute::kernels::zip::zip(&present, &chosen, &next).map_err(from_arrow)?;
    }
    Ok(chosen)
}

/// The order of two values of one type that are not NULL.
fn compare(left: &Value, right: &Value, call: &Call<'_>) -> Ordering {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Decimal(a), Value::Decimal(b)) => a.cmp(b),
        (Value::Float(a), Value::Float(b)) => a.total_cmp(b),
        (Value::Text(a), Value::Text(b)) => call.collation.compare(a, b),
        (Value::Binary(a), Value::Binary(b)) => a.cmp(b),
        (Value::Guid(a), Value::Guid(b)) => a.cmp(b),
        _ => Ordering::Equal,
    }
}

fn nullif(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let (left, right) = (call.arg(0)?, call.arg(1)?);
    let common = crate::common_type(left.sql_type, right.sql_type)?;
    let (a, b) = (call.as_type(0, common)?, call.as_type(1, common)?);
    let equal = |row: usize| -> Result<bool, SqlError> {
        if a.is_null(row) || b.is_null(row) {
            return Ok(false);
        }
        let a = array_value(a.array(), a.row(row), common)?;
        let b = array_value(b.array(), b.row(row), common)?;
        Ok(compare(&a, &b, call) == Ordering::Equal)
    };
    let equals = (0..call.rows).map(|row| equal(row).map(Some)).collect::<Result<BooleanArray, _>>()?;
    arrow::compute::nullif(&left.column.to_array(call.rows)?, &equals).map_err(from_arrow)
}

/// Takes each row from the array with the index that `choose` returns; `None` for NULL.
fn pick(
    call: &Call<'_>,
    arrays: &[ArrayRef],
    choose: impl Fn(usize) -> Result<Option<usize>, SqlError>,
) -> Result<ArrayRef, SqlError> {
    let parts: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
    let all = arrow::compute::concat(&parts).map_err(from_arrow)?;
    let place = |row: usize| -> Result<Option<u32>, SqlError> {
        let place = choose(row)?.map(|array| array * call.rows + row);
        place.map(u32::try_from).transpose().map_err(|_| SqlError::internal("a batch of more than 2^32 values"))
    };
    let places = (0..call.rows).map(place).collect::<Result<UInt32Array, _>>()?;
    arrow::compute::take(&all, &places, None).map_err(from_arrow)
}

/// The greatest or least argument; NULLs are ignored.
fn extreme(call: &Call<'_>, wanted: Ordering) -> Result<ArrayRef, SqlError> {
    let arrays = converted(call, 0)?;
    pick(call, &arrays, |row| {
        let mut best: Option<(usize, Value)> = None;
        for (index, array) in arrays.iter().enumerate().filter(|(_, array)| array.is_valid(row)) {
            let value = array_value(array, row, call.result_type)?;
            if best.as_ref().is_none_or(|(_, held)| compare(&value, held, call) == wanted) {
                best = Some((index, value));
            }
        }
        Ok(best.map(|(index, _)| index))
    })
}

/// `CHOOSE(n, a, b, …)`: NULL if `n` is out of range.
fn choose(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let indexes = call.integers(0)?;
    let arrays = converted(call, 1)?;
    pick(call, &arrays, |row| {
        let index = indexes.get(row).and_then(|index| usize::try_from(index - 1).ok());
        Ok(index.filter(|index| *index < arrays.len()))
    })
}
