//! Columns of values from texts: the fields of a block of rows, or those of records.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BinaryViewBuilder, Decimal128Builder, FixedSizeBinaryBuilder, PrimitiveBuilder,
    StringViewBuilder,
};
use arrow::datatypes::{DataType, Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, UInt8Type};
use hobt_base::{SqlError, number};
use hobt_functions::{carrier, cast_array, convert_value};
use hobt_types::{MaxLength, SqlType, Value};

use super::batch::BlockFaults;
use super::fields::{Field, undoubled};
use super::parse;
use crate::rejected::FaultKind;
use crate::schema::FileColumn;

/// Fields of some rows of a stretch.
pub(crate) struct Block<'s> {
    /// The stretch.
    pub(crate) text: &'s str,
    /// Whether it is ASCII.
    pub(crate) is_ascii: bool,
    /// `width` fields of each row, row by row.
    pub(crate) fields: &'s [Field],
    pub(crate) width: usize,
    pub(crate) quote: Option<u8>,
}

/// The text of one field of each row.
pub(crate) trait Texts {
    fn rows(&self) -> usize;

    /// Whether all texts are known to be ASCII.
    fn is_ascii(&self) -> bool;

    /// Gives the text of each row to `take`, in order.
    fn each(&self, take: impl FnMut(usize, FieldText<'_>));
}

/// The text of a field.
#[derive(Clone, Copy)]
pub(crate) enum FieldText<'t> {
    /// NULL.
    Missing,
    Text(&'t str),
    /// Bytes that are no text of their encoding; what can be shown of them.
    Wrong(&'t str),
}

/// One field of a block.
pub(crate) struct BlockTexts<'b> {
    pub(crate) block: &'b Block<'b>,
    /// Its place among the block's fields of a row.
    pub(crate) field: usize,
}

impl Texts for BlockTexts<'_> {
    fn rows(&self) -> usize {
        self.block.fields.len() / self.block.width
    }

    fn is_ascii(&self) -> bool {
        self.block.is_ascii
    }

    fn each(&self, mut take: impl FnMut(usize, FieldText<'_>)) {
        let Block { text, fields, width, quote, .. } = self.block;
        for (row, fields) in fields.chunks_exact(*width).enumerate() {
            let field = fields[self.field];
            let value = &text[field.range()];
            match quote {
                _ if field.is_missing() => take(row, FieldText::Missing),
                Some(quote) if field.is_doubled() => take(row, FieldText::Text(&undoubled(value, *quote))),
                _ => take(row, FieldText::Text(value)),
            }
        }
    }
}

/// A column of values that texts say.
pub(crate) struct ColumnOfTexts<'c, T> {
    pub(crate) texts: T,
    pub(crate) column: &'c FileColumn,
    /// Its place among the request's columns.
    pub(crate) place: usize,
}

/// What a conversion makes of a text: a value, NULL, or what is wrong.
type Read<T> = Result<Option<T>, FaultKind>;

impl<S: Texts> ColumnOfTexts<'_, S> {
    /// The column's values in the carrier of its type. Rows with a fault have any value.
    pub(crate) fn array(&self, faults: &mut BlockFaults) -> Result<ArrayRef, SqlError> {
        let to = self.column.sql_type;
        Ok(match to {
            _ if to.is_text() => return self.texts(faults),
            _ if to.is_binary() => self.binaries(faults),
            SqlType::UniqueIdentifier => self.guids(faults),
            SqlType::Bit => self.primitives::<UInt8Type>(faults, |text| match text {
                "0" => Ok(Some(0)),
                "1" => Ok(Some(1)),
                _ => small(self.general(text)?),
            }),
            SqlType::TinyInt => self.integers::<UInt8Type>(faults),
            SqlType::SmallInt => self.integers::<Int16Type>(faults),
            SqlType::Int => self.integers::<Int32Type>(faults),
            SqlType::BigInt => self.integers::<Int64Type>(faults),
            SqlType::Decimal { precision, scale } => self.decimals(faults, precision, scale),
            SqlType::Money => self.decimals(faults, 19, 4),
            SqlType::SmallMoney => self.decimals(faults, 10, 4),
            SqlType::Real => self.primitives::<Float32Type>(faults, |text| match parse::float(text.as_bytes()) {
                Some(value) if (value as f32).is_finite() => Ok(Some(value as f32)),
                _ => Ok(float(self.general(text)?)?.map(|value| value as f32)),
            }),
            SqlType::Float => self.primitives::<Float64Type>(faults, |text| match parse::float(text.as_bytes()) {
                Some(value) => Ok(Some(value)),
                None => float(self.general(text)?),
            }),
            SqlType::Date => self.primitives::<Date32Type>(faults, |text| match parse::date(text.as_bytes()) {
                Some(value) => Ok(Some(value)),
                None => small(self.general(text)?),
            }),
            _ => self.primitives::<Int64Type>(faults, |text| match parse::moment(text.as_bytes(), to) {
                Some(value) => Ok(Some(value)),
                None => small(self.general(text)?),
            }),
        })
    }

    /// Gives what `read` makes of each row's text to `append`; `None` for NULL and for a row with a fault.
    fn each<T>(&self, faults: &mut BlockFaults, read: impl Fn(&str) -> Read<T>, mut append: impl FnMut(Option<T>)) {
        self.texts.each(|row, field| {
            let (found, value) = match field {
                FieldText::Missing => (Ok(None), ""),
                FieldText::Text(text) => (read(text), text),
                FieldText::Wrong(shown) => (Err(FaultKind::Invalid), shown),
            };
            let found = match found {
                Ok(None) if !self.column.nullable => Err(FaultKind::Null),
                other => other,
            };
            append(found.unwrap_or_else(|kind| {
                faults.add(row, self.place, kind, value);
                None
            }));
        });
    }

    fn primitives<T: ArrowPrimitiveType>(
        &self,
        faults: &mut BlockFaults,
        read: impl Fn(&str) -> Read<T::Native>,
    ) -> ArrayRef {
        let mut array = PrimitiveBuilder::<T>::with_capacity(self.texts.rows());
        self.each(faults, read, |value| array.append_option(value));
        Arc::new(array.finish())
    }

    fn integers<T: ArrowPrimitiveType>(&self, faults: &mut BlockFaults) -> ArrayRef
    where
        T::Native: TryFrom<i64>,
    {
        self.primitives::<T>(faults, |text| match parse::integer(text.as_bytes()) {
            Some(value) => T::Native::try_from(value).map(Some).map_err(|_| FaultKind::Overflow),
            None => small(self.general(text)?),
        })
    }

    fn decimals(&self, faults: &mut BlockFaults, precision: u8, scale: u8) -> ArrayRef {
        let limit = match self.column.sql_type {
            // They have 64 and 32 bits, which is less than their digits.
            SqlType::Money => i64::MAX.into(),
            SqlType::SmallMoney => i32::MAX.into(),
            _ => 10_i128.checked_pow(precision.into()).unwrap_or(i128::MAX),
        };
        let data_type: DataType = carrier(self.column.sql_type);
        let mut array = Decimal128Builder::with_capacity(self.texts.rows()).with_data_type(data_type);
        let read = |text: &str| match parse::decimal(text.as_bytes(), scale).map(i128::from) {
            Some(value) if value.abs() < limit => Ok(Some(value)),
            // What is beyond the limit too: the least and the greatest amount of money are.
            _ => Ok(match self.general(text)? {
                Value::Decimal(value) => Some(value),
                Value::Int(value) => Some(value.into()),
                _ => None,
            }),
        };
        self.each(faults, read, |value| array.append_option(value));
        Arc::new(array.finish())
    }

    fn guids(&self, faults: &mut BlockFaults) -> ArrayRef {
        let mut array = FixedSizeBinaryBuilder::with_capacity(self.texts.rows(), 16);
        let read = |text: &str| match self.general(text)? {
            Value::Guid(value) => Ok(Some(value)),
            _ => Ok(None),
        };
        self.each(faults, read, |value| match value {
            Some(value) => array.append_value(value).expect("16 bytes, the carrier's width"),
            None => array.append_null(),
        });
        Arc::new(array.finish())
    }

    /// Hexadecimal digits, with or without `0x`.
    fn binaries(&self, faults: &mut BlockFaults) -> ArrayRef {
        let (most, pads) = match self.column.sql_type {
            SqlType::Binary(length) => (usize::from(length), true),
            SqlType::VarBinary(MaxLength::Limited(length)) => (usize::from(length), false),
            _ => (usize::MAX, false),
        };
        let mut array = BinaryViewBuilder::with_capacity(self.texts.rows());
        let read = |text: &str| {
            let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
            let mut bytes = hex_bytes(digits).ok_or(FaultKind::Invalid)?;
            if bytes.len() > most {
                return Err(FaultKind::TooLong);
            }
            if pads {
                bytes.resize(most, 0);
            }
            Ok(Some(bytes))
        };
        self.each(faults, read, |value| array.append_option(value));
        Arc::new(array.finish())
    }

    fn texts(&self, faults: &mut BlockFaults) -> Result<ArrayRef, SqlError> {
        let to = self.column.sql_type;
        let (most, pads) = match to {
            SqlType::Char(length) | SqlType::NChar(length) => (usize::from(length), true),
            SqlType::VarChar(MaxLength::Limited(length)) | SqlType::NVarChar(MaxLength::Limited(length)) => {
                (usize::from(length), false)
            }
            _ => (usize::MAX, false),
        };
        let mut array = StringViewBuilder::with_capacity(self.texts.rows());
        let mut padded = String::new();
        let spaces = if pads { " ".repeat(most) } else { String::new() };
        let (all_ascii, mut has_others) = (self.texts.is_ascii(), false);
        self.texts.each(|row, field| {
            let mut fault = |kind, value: &str| {
                faults.add(row, self.place, kind, value);
                None
            };
            let value = match field {
                FieldText::Missing if self.column.nullable => None,
                FieldText::Missing => fault(FaultKind::Null, ""),
                FieldText::Wrong(shown) => fault(FaultKind::Invalid, shown),
                FieldText::Text(text) => {
                    let is_ascii = all_ascii || text.is_ascii();
                    has_others |= !is_ascii;
                    // Lengths count UTF-16 units; a text has at most as many of them as bytes.
                    let units = || if is_ascii { text.len() } else { text.chars().map(char::len_utf16).sum() };
                    if text.len() > most && units() > most {
                        fault(FaultKind::TooLong, text)
                    } else if pads {
                        padded.clear();
                        padded.push_str(text);
                        padded.push_str(&spaces[..most - units()]);
                        Some(padded.as_str())
                    } else {
                        Some(text)
                    }
                }
            };
            array.append_option(value);
        });
        let array: ArrayRef = Arc::new(array.finish());
        if !has_others || to.is_national() {
            return Ok(array);
        }
        // Characters that the code page of `varchar` does not have.
        cast_array(&array, SqlType::NVarChar(MaxLength::Max), to, None, false)
    }

    /// What the conversions of crate `functions` make of a text.
    fn general(&self, text: &str) -> Result<Value, FaultKind> {
        general(text, self.column.sql_type)
    }
}

/// A text as a value of another type by the rules of `CONVERT`, but that a blank text is no number.
pub(crate) fn general(text: &str, to: SqlType) -> Result<Value, FaultKind> {
    if text.is_empty() {
        return Ok(Value::Null);
    }
    if text.trim().is_empty() {
        return Err(FaultKind::Invalid);
    }
    let from = SqlType::VarChar(MaxLength::Max);
    convert_value(&Value::Text(text.to_owned()), from, to).map_err(|error| match error.number {
        number::OVERFLOW | number::INT_OVERFLOW_TEXT | number::SMALL_OVERFLOW_TEXT => FaultKind::Overflow,
        _ => FaultKind::Invalid,
    })
}

fn small<N: TryFrom<i64>>(value: Value) -> Read<N> {
    match value {
        Value::Int(value) => N::try_from(value).map(Some).map_err(|_| FaultKind::Overflow),
        _ => Ok(None),
    }
}

fn float(value: Value) -> Read<f64> {
    match value {
        Value::Float(value) => Ok(Some(value)),
        _ => Ok(None),
    }
}

fn hex_bytes(digits: &str) -> Option<Vec<u8>> {
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}
