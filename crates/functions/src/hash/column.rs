//! Applies a hash function to a column: which bytes of a value it hashes, and the faster paths for columns of integers.
//!
//! The bytes are those of `CAST(value AS varbinary(max))`: numbers big-endian, `varchar` in its code page, `nvarchar`
//! in UTF-16. The hash of NULL is NULL. An optional second argument is the seed, a constant or a column.
//!
//! ```text
//!   int, bigint, one seed     kernel over the whole array, at the machine's vector width (crate `pulp`). Its closures
//!                             are `inline(always)`: a call that is not inlined uses the narrow registers
//!   text, binary              one value after the other; ASCII `varchar` and binary are hashed in place
//!   any other type            the column is cast to varbinary first
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{Int32Type, Int64Type};
use hobt_base::SqlError;
use hobt_types::{MaxLength, SqlType};
use pulp::Arch;

use crate::cast::cast_array;
use crate::column::Column;
use crate::function::Call;
use crate::text::code_page;

/// A hash function whose results have carrier `T`.
pub(super) struct Algorithm<T: ArrowPrimitiveType> {
    /// The hash of bytes.
    pub(super) bytes: fn(&[u8], u64) -> T::Native,
    /// The hashes of `int` values.
    pub(super) ints: fn(Arch, &[i32], u64) -> Vec<T::Native>,
    /// The hashes of `bigint` values.
    pub(super) bigints: fn(Arch, &[i64], u64) -> Vec<T::Native>,
}

/// The hash of each value, at the machine's vector width. Closures must own their data (`move`): borrowed data would be
/// read again after each result that is written.
#[inline(always)]
pub(super) fn each<T: Copy, H>(arch: Arch, values: &[T], hash: impl Fn(T) -> H) -> Vec<H> {
    arch.dispatch(
        #[inline(always)]
        move || {
            values
                .iter()
                .map(
                    #[inline(always)]
                    move |value| hash(*value),
                )
                .collect()
        },
    )
}

/// The hash of each row's first argument.
pub(super) fn hash_column<T: ArrowPrimitiveType>(
    call: &Call<'_>,
    algorithm: &Algorithm<T>,
) -> Result<ArrayRef, SqlError> {
    let arg = call.arg(0)?;
    let seeds = if call.args.len() > 1 { Some(call.as_type(1, SqlType::BigInt)?) } else { None };
    let Some(seed) = one_seed(seeds.as_ref()) else {
        let seeds = seeds.ok_or_else(|| SqlError::internal("a seed that is not there"))?;
        return by_rows(&arg.column, arg.sql_type, &seeds, call.rows, algorithm);
    };
    let Some(seed) = seed else { return Ok(arrow::array::new_null_array(&T::DATA_TYPE, call.rows)) };
    let array = arg.column.array();
    let hashes = if let Some(ints) = array.as_primitive_opt::<Int32Type>().filter(|_| arg.sql_type == SqlType::Int) {
        (algorithm.ints)(Arch::new(), ints.values(), seed)
    } else if let Some(bigints) = array.as_primitive_opt::<Int64Type>().filter(|_| arg.sql_type == SqlType::BigInt) {
        (algorithm.bigints)(Arch::new(), bigints.values(), seed)
    } else {
        let mut hashes = Vec::with_capacity(array.len());
        each_bytes(array, arg.sql_type, |_, bytes| {
            hashes.push(bytes.map_or(T::default_value(), |bytes| (algorithm.bytes)(bytes, seed)));
        })?;
        hashes
    };
    let hashes = PrimitiveArray::<T>::new(hashes.into(), array.nulls().cloned());
    arg.column.with_array(Arc::new(hashes)).to_array(call.rows)
}

/// The seed of all rows, which may be NULL; `None` if each row has its own.
fn one_seed(seeds: Option<&Column>) -> Option<Option<u64>> {
    match seeds {
        None => Some(Some(0)),
        Some(Column::Scalar(seed)) => {
            let seed = seed.as_primitive_opt::<Int64Type>()?;
            Some(seed.is_valid(0).then(|| seed.value(0).cast_unsigned()))
        }
        Some(Column::Array(_)) => None,
    }
}

/// Like [`hash_column`], with a seed for each row.
fn by_rows<T: ArrowPrimitiveType>(
    column: &Column,
    sql_type: SqlType,
    seeds: &Column,
    rows: usize,
    algorithm: &Algorithm<T>,
) -> Result<ArrayRef, SqlError> {
    let values = column.to_array(rows)?;
    let seeds = seeds.to_array(rows)?;
    let seeds = seeds.as_primitive::<Int64Type>();
    let mut hashes: Vec<Option<T::Native>> = Vec::with_capacity(rows);
    each_bytes(&values, sql_type, |row, bytes| {
        let bytes = bytes.filter(|_| seeds.is_valid(row));
        hashes.push(bytes.map(|bytes| (algorithm.bytes)(bytes, seeds.value(row).cast_unsigned())));
    })?;
    Ok(Arc::new(hashes.into_iter().collect::<PrimitiveArray<T>>()))
}

/// Passes the bytes of each value, `None` for NULL, to `take` with its row.
fn each_bytes(array: &ArrayRef, sql_type: SqlType, mut take: impl FnMut(usize, Option<&[u8]>)) -> Result<(), SqlError> {
    if let Some(texts) = array.as_string_view_opt() {
        let mut encoded = Vec::new();
        for (row, text) in texts.iter().enumerate() {
            match text {
                Some(text) if !sql_type.is_national() && text.is_ascii() => take(row, Some(text.as_bytes())),
                Some(text) => {
                    encoded.clear();
                    code_page::encode(text, sql_type, &mut encoded);
                    take(row, Some(&encoded));
                }
                None => take(row, None),
            }
        }
        return Ok(());
    }
    let binary = match sql_type.is_binary() {
        true => Arc::clone(array),
        false => cast_array(array, sql_type, SqlType::VarBinary(MaxLength::Max), None, false)?,
    };
    let binary = binary.as_binary_view_opt().ok_or_else(|| SqlError::internal("a cast gave another carrier"))?;
    binary.iter().enumerate().for_each(|(row, bytes)| take(row, bytes));
    Ok(())
}
