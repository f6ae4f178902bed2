//! Numbers to digits and back, for whole arrays of ordinary values.
//!
//! Up to sixteen characters are one number of 128 bits, the first character in its lowest byte. They are made and read
//! in registers, and are the view of a short text but for its length. What is longer, does not fit the target or does
//! not look like a plain number is left to `print` and `parse`.

use std::fmt::Write;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, StringViewArray};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{Decimal128Type, Int16Type, Int32Type, Int64Type, UInt8Type};
use hobt_base::SqlError;
use hobt_types::SqlType;

use super::{Mode, convert_each};
use crate::ascii::views::INLINE_BYTES_MAX;
use crate::ascii::{BLOCK, inline_view, length_of, limit_of, text_array, view_of};
use crate::decimal;

/// The most digits of a number that is printed in a register: a sign and a point are added.
const DIGITS_MAX: u8 = 14;
/// The first number that has more.
const PRINTED_END: u64 = 10_u64.pow(DIGITS_MAX as u32);

/// The characters of 0 to 99, two each, the first one in the lower byte.
const PAIRS: [u16; 100] = {
    let mut table = [0; 100];
    let mut number = 0;
    while number < 100 {
        table[number as usize] = (b'0' as u16 + number / 10) | (b'0' as u16 + number % 10) << 8;
        number += 1;
    }
    table
};

/// Characters that are added in front of each other.
struct Characters {
    block: u128,
    count: usize,
}

impl Characters {
    fn push_front(&mut self, character: u8) {
        self.block = self.block << 8 | u128::from(character);
        self.count += 1;
    }

    fn push_pair_front(&mut self, number: u64) {
        self.block = self.block << 16 | u128::from(PAIRS[number as usize]);
        self.count += 2;
    }

    /// The number with `scale` digits after the point, of up to [`DIGITS_MAX`] digits.
    fn of_number(magnitude: u64, is_negative: bool, scale: u8) -> Characters {
        let mut text = Characters { block: 0, count: 0 };
        let mut rest = magnitude;
        if scale > 0 {
            for _ in 0..scale / 2 {
                text.push_pair_front(rest % 100);
                rest /= 100;
            }
            if scale % 2 == 1 {
                text.push_front(b'0' + (rest % 10) as u8);
                rest /= 10;
            }
            text.push_front(b'.');
        }
        while rest >= 10 {
            text.push_pair_front(rest % 100);
            rest /= 100;
        }
        let has_whole_digits = text.count > usize::from(scale) + usize::from(scale > 0);
        if rest > 0 || !has_whole_digits {
            text.push_front(b'0' + rest as u8);
        }
        if is_negative {
            text.push_front(b'-');
        }
        text
    }
}

/// Prints an array of integers or decimals as text of a varying length. `None` if it is of another type, or a value is
/// too long.
pub(super) fn print(array: &ArrayRef, from: SqlType, to: SqlType) -> Option<Result<ArrayRef, SqlError>> {
    let limit = limit_of(to)?;
    let nulls = array.nulls();
    let (views, buffer) = match from {
        SqlType::TinyInt => printed(array.as_primitive_opt::<UInt8Type>()?, limit, 0, i128::from),
        SqlType::SmallInt => printed(array.as_primitive_opt::<Int16Type>()?, limit, 0, i128::from),
        SqlType::Int => printed(array.as_primitive_opt::<Int32Type>()?, limit, 0, i128::from),
        SqlType::BigInt => printed(array.as_primitive_opt::<Int64Type>()?, limit, 0, i128::from),
        SqlType::Decimal { scale, .. } => printed(array.as_primitive_opt::<Decimal128Type>()?, limit, scale, |v| v),
        _ => None,
    }?;
    Some(text_array(views, vec![Buffer::from_vec(buffer)], nulls.cloned()))
}

/// The views of printed numbers, and the buffer of those that are longer than a view; `None` if one is too long.
fn printed<T: ArrowPrimitiveType>(
    numbers: &PrimitiveArray<T>,
    limit: usize,
    scale: u8,
    wide: impl Fn(T::Native) -> i128,
) -> Option<(Vec<u128>, Vec<u8>)> {
    let mut views = Vec::with_capacity(numbers.len());
    let mut buffer = Vec::new();
    let mut text = String::new();
    for (row, number) in numbers.values().iter().enumerate() {
        if numbers.nulls().is_some_and(|nulls: &NullBuffer| nulls.is_null(row)) {
            views.push(0);
            continue;
        }
        let value = wide(*number);
        let at = buffer.len();
        let length = match u64::try_from(value.unsigned_abs()) {
            Ok(magnitude) if magnitude < PRINTED_END && scale < DIGITS_MAX => {
                let text = Characters::of_number(magnitude, value < 0, scale);
                if text.count <= INLINE_BYTES_MAX.min(limit) {
                    views.push(inline_view(text.block, text.count));
                    continue;
                }
                buffer.extend_from_slice(&text.block.to_le_bytes()[..text.count]);
                text.count
            }
            _ => {
                text.clear();
                match scale {
                    0 => write!(text, "{value}").expect("a String takes all"),
                    _ => decimal::to_text(value, scale, &mut text),
                }
                buffer.extend_from_slice(text.as_bytes());
                text.len()
            }
        };
        // A view has 32 bits for the place of its text.
        if length > limit || u32::try_from(at).is_err() {
            return None;
        }
        views.push(view_of(&buffer, at, length, 0));
        if length <= INLINE_BYTES_MAX {
            buffer.truncate(at);
        }
    }
    Some((views, buffer))
}

/// The number of a short text of digits with or without a sign; `None` for any other text.
fn plain_number(view: u128) -> Option<i64> {
    let length = length_of(view);
    if !(1..=INLINE_BYTES_MAX).contains(&length) {
        return None;
    }
    let text = view >> 32;
    let sign = text as u8;
    let has_sign = matches!(sign, b'-' | b'+');
    let (text, count) = if has_sign { (text >> 8, length - 1) } else { (text, length) };
    if count == 0 {
        return None;
    }
    // The digits become the last ones of sixteen, with zeros in front.
    let missing = 8 * (BLOCK - count);
    let zeros = u128::from_le_bytes([b'0'; BLOCK]);
    let digits = (text ^ zeros) << missing;
    // The high bit of each byte above 9. A carry leaves only bytes from 128 on, which have it themselves.
    let above_nine = digits.wrapping_add(u128::from_le_bytes([0x76; BLOCK])) | digits;
    if above_nine & u128::from_le_bytes([0x80; BLOCK]) != 0 {
        return None;
    }
    let magnitude = number_of_eight(digits as u64) * 100_000_000 + number_of_eight((digits >> 64) as u64);
    let magnitude = magnitude.cast_signed();
    Some(if sign == b'-' { -magnitude } else { magnitude })
}

/// The number of eight digits, each a byte of 0 to 9, the first in the lowest byte: neighbours are joined three times.
const fn number_of_eight(digits: u64) -> u64 {
    let pairs = digits.wrapping_mul(10 << 8 | 1) >> 8 & 0x00FF_00FF_00FF_00FF;
    let fours = pairs.wrapping_mul(100 << 16 | 1) >> 16 & 0x0000_FFFF_0000_FFFF;
    fours.wrapping_mul(10_000 << 32 | 1) >> 32
}

/// The integers in texts. `read` is the conversion of one text, whatever it looks like.
pub(super) fn parse<O: ArrowPrimitiveType>(
    array: &ArrayRef,
    texts: &StringViewArray,
    mode: Mode,
    read: impl Fn(usize) -> Result<O::Native, SqlError>,
) -> Result<PrimitiveArray<O>, SqlError>
where
    O::Native: TryFrom<i64>,
{
    if mode.try_cast {
        return convert_each::<O>(array, mode, read);
    }
    let mut values = Vec::with_capacity(texts.len());
    for (row, view) in texts.views().iter().enumerate() {
        values.push(match plain_number(*view).and_then(|number| O::Native::try_from(number).ok()) {
            Some(value) => value,
            None if texts.is_null(row) => O::Native::default(),
            None => read(row)?,
        });
    }
    Ok(PrimitiveArray::new(ScalarBuffer::from(values), texts.nulls().cloned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use arrow::array::{Decimal128Array, Int64Array, StringViewBuilder};
    use hobt_base::SplitMix64;
    use hobt_types::MaxLength;

    use crate::cast_array;

    /// Numbers of all lengths, and those beside powers of ten.
    fn numbers() -> Vec<i64> {
        let mut random = SplitMix64::new(3);
        let mut numbers = vec![0, i64::MAX, i64::MIN];
        for exponent in 0..19 {
            let power = 10_i64.pow(exponent);
            numbers.extend([power - 1, power, power + 1, 1 - power, -power, -power - 1]);
            numbers.extend((0..20).map(|_| random.next_u64().cast_signed() % power.saturating_mul(10)));
        }
        numbers
    }

    fn varchar(length: u16) -> SqlType {
        SqlType::VarChar(MaxLength::Limited(length))
    }

    #[test]
    fn whole_numbers_are_printed_in_full() {
        let numbers: Vec<Option<i64>> = numbers().into_iter().flat_map(|number| [Some(number), None]).collect();
        let array: ArrayRef = Arc::new(Int64Array::from(numbers.clone()));
        let printed = cast_array(&array, SqlType::BigInt, varchar(20), None, false).expect("they fit");
        let expected: StringViewArray = numbers.iter().map(|number| number.map(|number| number.to_string())).collect();
        assert_eq!(printed.as_string_view(), &expected);
    }

    #[test]
    fn decimals_are_printed_with_their_scale() {
        for scale in 0..=38 {
            let sql_type = SqlType::Decimal { precision: 38, scale };
            let array: Decimal128Array = numbers().into_iter().map(|number| Some(i128::from(number))).collect();
            let array: ArrayRef = Arc::new(array.with_precision_and_scale(38, scale as i8).expect("a decimal"));
            let printed = cast_array(&array, sql_type, varchar(50), None, false).expect("they fit");
            let mut expected = StringViewBuilder::new();
            for number in numbers() {
                let mut text = String::new();
                decimal::to_text(i128::from(number), scale, &mut text);
                expected.append_value(text);
            }
            assert_eq!(printed.as_string_view(), &expected.finish(), "scale {scale}");
        }
    }

    #[test]
    fn a_number_that_is_too_long_for_the_target_is_left_to_others() {
        let array: ArrayRef = Arc::new(Int64Array::from(vec![Some(12), None, Some(12_345)]));
        assert!(print(&array, SqlType::BigInt, varchar(4)).is_none());
        assert!(print(&array, SqlType::BigInt, varchar(5)).is_some());
        assert!(print(&array, SqlType::BigInt, SqlType::Char(9)).is_none());
    }

    #[test]
    fn plain_texts_are_the_numbers_they_say() {
        let of = |text: &str| {
            let mut builder = StringViewBuilder::new();
            builder.append_value(text);
            plain_number(builder.finish().views()[0])
        };
        for number in numbers() {
            for text in [number.to_string(), format!("+{number}"), format!("00{number}"), format!("{number:08}")] {
                let expected = text.parse::<i64>().ok().filter(|_| text.len() <= INLINE_BYTES_MAX);
                assert_eq!(of(&text), expected, "{text}");
            }
        }
        for byte in 0..128_u8 {
            for text in [format!("1{}", char::from(byte)), format!("{}2", char::from(byte)), char::from(byte).into()] {
                let expected = text.parse::<i64>().ok();
                assert_eq!(of(&text), expected, "{text:?}");
            }
        }
        for text in ["", "-", "+", "--1", "é", "1é", " 1", "1 ", "1.0", "/", ":"] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
