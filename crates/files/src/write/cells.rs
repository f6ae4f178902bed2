//! The values of a batch as a text format writes them: one enum over the carriers, so that a row's loop has no types.
//!
//! Not here: quotes and escapes, which differ by format.

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, FixedSizeBinaryArray, StringViewArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    UInt8Type,
};
use hobt_types::SqlType;

use super::buffer::Buffer;
use super::error::{Result, WriteError};
use super::numbers;

/// Room for any value but text and binary.
pub(super) const CELL_BYTES: usize = 64;
/// Text up to this length is in its view.
const INLINE_BYTES: usize = 12;

/// The values of a column of a batch.
pub(super) struct Cells<'a> {
    nulls: Option<&'a NullBuffer>,
    values: Values<'a>,
}

enum Values<'a> {
    Bit(&'a [u8]),
    Byte(&'a [u8]),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    Decimal(&'a [i128], u8),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Date(&'a [i32]),
    Time(&'a [i64], u8),
    Moment(&'a [i64], u8),
    Text(&'a StringViewArray),
    Binary(&'a BinaryViewArray),
    Guid(&'a FixedSizeBinaryArray),
}

/// A text as it lies in its array.
#[derive(Clone, Copy)]
pub(super) enum TextBytes<'a> {
    /// At most 12 bytes in the lowest bytes of a word, with zero bytes behind them.
    Word(u128, usize),
    /// More.
    Slice(&'a [u8]),
}

/// What a format writes for values that have no text of their own in every format.
pub(super) trait CellForm {
    /// What stands between a date and a time.
    const DATE_TIME: u8;
    /// What stands around the text of a date, time, guid or binary value.
    const QUOTE: Option<u8>;
    /// A `bit`.
    fn bit(&self, out: &mut Buffer, is_set: bool);
    /// A text. Makes room itself.
    fn text(&self, out: &mut Buffer, text: TextBytes<'_>);
    /// NULL.
    fn null(&self, out: &mut Buffer);
}

impl<'a> Cells<'a> {
    /// The values of `array`, which has the carrier of `sql_type`.
    ///
    /// # Errors
    /// An internal error if it has another type.
    pub(super) fn of(array: &'a ArrayRef, sql_type: SqlType) -> Result<Cells<'a>> {
        let values = match sql_type {
            SqlType::Bit => Values::Bit(primitives::<UInt8Type>(array, sql_type)?),
            SqlType::TinyInt => Values::Byte(primitives::<UInt8Type>(array, sql_type)?),
            SqlType::SmallInt => Values::Int16(primitives::<Int16Type>(array, sql_type)?),
            SqlType::Int => Values::Int32(primitives::<Int32Type>(array, sql_type)?),
            SqlType::BigInt => Values::Int64(primitives::<Int64Type>(array, sql_type)?),
            SqlType::Decimal { scale, .. } => Values::Decimal(primitives::<Decimal128Type>(array, sql_type)?, scale),
            SqlType::Money | SqlType::SmallMoney => Values::Decimal(primitives::<Decimal128Type>(array, sql_type)?, 4),
            SqlType::Real => Values::Float32(primitives::<Float32Type>(array, sql_type)?),
            SqlType::Float => Values::Float64(primitives::<Float64Type>(array, sql_type)?),
            SqlType::Date => Values::Date(primitives::<Date32Type>(array, sql_type)?),
            SqlType::Time { scale } => Values::Time(primitives::<Int64Type>(array, sql_type)?, scale),
            SqlType::SmallDateTime => Values::Moment(primitives::<Int64Type>(array, sql_type)?, 0),
            SqlType::DateTime => Values::Moment(primitives::<Int64Type>(array, sql_type)?, 3),
            SqlType::DateTime2 { scale } => Values::Moment(primitives::<Int64Type>(array, sql_type)?, scale),
            _ if sql_type.is_text() => Values::Text(is(array.as_string_view_opt(), array, sql_type)?),
            _ if sql_type.is_binary() => Values::Binary(is(array.as_binary_view_opt(), array, sql_type)?),
            _ => Values::Guid(is(array.as_fixed_size_binary_opt(), array, sql_type)?),
        };
        Ok(Cells { nulls: array.nulls().filter(|nulls| nulls.null_count() > 0), values })
    }

    /// Appends the value of `row`. There has to be room of [`CELL_BYTES`]; longer values make room themselves.
    #[inline]
    pub(super) fn append<F: CellForm>(&self, row: usize, form: &F, out: &mut Buffer) {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return form.null(out);
        }
        match self.values {
            Values::Bit(values) => form.bit(out, values[row] != 0),
            Values::Byte(values) => numbers::unsigned(out, values[row].into()),
            Values::Int16(values) => numbers::integer(out, values[row].into()),
            Values::Int32(values) => numbers::integer(out, values[row].into()),
            Values::Int64(values) => numbers::integer(out, values[row]),
            Values::Decimal(values, scale) => numbers::decimal(out, values[row], scale),
            Values::Float32(values) => numbers::float(out, values[row]),
            Values::Float64(values) => numbers::float(out, values[row]),
            Values::Date(values) => quoted::<F>(out, |out| numbers::date(out, values[row])),
            Values::Time(values, scale) => quoted::<F>(out, |out| numbers::time(out, values[row], scale)),
            Values::Moment(values, scale) => {
                quoted::<F>(out, |out| numbers::moment(out, values[row], scale, F::DATE_TIME));
            }
            Values::Text(values) => form.text(out, text_at(values, row)),
            Values::Binary(values) => quoted::<F>(out, |out| numbers::hexadecimal(out, values.value(row))),
            Values::Guid(values) => quoted::<F>(out, |out| {
                // The carrier has 16 bytes; one of another width is no guid.
                numbers::guid(out, values.value(row).try_into().unwrap_or_default());
            }),
        }
    }
}

#[inline]
fn quoted<F: CellForm>(out: &mut Buffer, write: impl FnOnce(&mut Buffer)) {
    if let Some(quote) = F::QUOTE {
        out.byte(quote);
    }
    write(out);
    if let Some(quote) = F::QUOTE {
        out.byte(quote);
    }
}

/// The text of `row`. A short one is taken out of its view without looking at its length.
#[inline]
fn text_at(values: &StringViewArray, row: usize) -> TextBytes<'_> {
    let view = values.views()[row];
    let length = view as u32 as usize;
    if length <= INLINE_BYTES {
        TextBytes::Word(view >> 32, length)
    } else {
        TextBytes::Slice(values.value(row).as_bytes())
    }
}

fn primitives<T: ArrowPrimitiveType>(array: &ArrayRef, sql_type: SqlType) -> Result<&[T::Native]> {
    Ok(is(array.as_primitive_opt::<T>(), array, sql_type)?.values())
}

fn is<'a, T>(found: Option<&'a T>, array: &ArrayRef, sql_type: SqlType) -> Result<&'a T> {
    found.ok_or_else(|| {
        WriteError::internal(format!("an array of {} stands where {sql_type} is expected", array.data_type()))
    })
}
