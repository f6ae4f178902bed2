//! Reads the arguments of functions as text, integers or floats, whatever their type, and builds the results.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryViewArray, PrimitiveArray, PrimitiveBuilder, StringViewArray,
    StringViewBuilder,
};
use arrow::datatypes::{Float64Type, Int64Type};
use hobt_base::SqlError;
use hobt_types::{MaxLength, SqlType};

use crate::ascii::{AsciiTexts, limit_of};
use crate::cast::{cast_array, fit};
use crate::column::Column;
use crate::function::{Argument, Call};
use crate::watch::Meter;

/// A text argument.
pub(crate) struct Texts(Column);

impl Texts {
    /// The text of `row`, `None` for NULL.
    pub(crate) fn get(&self, row: usize) -> Option<&str> {
        let texts: &StringViewArray = self.0.array().as_string_view();
        let row = self.0.row(row);
        texts.is_valid(row).then(|| texts.value(row))
    }

    /// The operand itself, in the text carrier.
    pub(crate) fn column(&self) -> &Column {
        &self.0
    }

    /// The text that all rows have, if it is a constant other than NULL.
    pub(crate) fn constant(&self) -> Option<&str> {
        if self.0.is_scalar() { self.get(0) } else { None }
    }

    /// The texts of a batch that is all ASCII, if no text is longer than a result of the call may be, and results are
    /// not padded. So no part of one needs to be cut or padded.
    pub(crate) fn ascii(&self, call: &Call<'_>) -> Option<AsciiTexts> {
        let limit = limit_of(call.result_type)?;
        AsciiTexts::of_rows(&self.0, call.rows).filter(|texts| texts.longest() <= limit)
    }
}

/// A binary argument.
pub(crate) struct Binaries(Column);

impl Binaries {
    /// The bytes of `row`, `None` for NULL.
    pub(crate) fn get(&self, row: usize) -> Option<&[u8]> {
        let values: &BinaryViewArray = self.0.array().as_binary_view();
        let row = self.0.row(row);
        values.is_valid(row).then(|| values.value(row))
    }
}

/// A numeric argument.
pub(crate) struct Numbers<T: ArrowPrimitiveType> {
    array: PrimitiveArray<T>,
    scalar: bool,
}

impl<T: ArrowPrimitiveType> Numbers<T> {
    /// The number of `row`, `None` for NULL.
    pub(crate) fn get(&self, row: usize) -> Option<T::Native> {
        let row = if self.scalar { 0 } else { row };
        self.array.is_valid(row).then(|| self.array.value(row))
    }

    /// The number that all rows have, if it is a constant other than NULL.
    pub(crate) fn constant(&self) -> Option<T::Native> {
        if self.scalar { self.get(0) } else { None }
    }
}

impl Call<'_> {
    /// The argument at `index`.
    pub(crate) fn arg(&self, index: usize) -> Result<&Argument, SqlError> {
        self.args.get(index).ok_or_else(|| SqlError::internal(format!("a call without argument {}", index + 1)))
    }

    /// The argument's column in the type `to`.
    pub(crate) fn as_type(&self, index: usize, to: SqlType) -> Result<Column, SqlError> {
        let arg = self.arg(index)?;
        let array = cast_array(arg.column.array(), arg.sql_type, to, None, false)?;
        Ok(arg.column.with_array(array))
    }

    /// The argument as text. Other types are converted, binary to `varchar`.
    pub(crate) fn texts(&self, index: usize) -> Result<Texts, SqlError> {
        let arg = self.arg(index)?;
        if arg.sql_type.is_text() {
            return Ok(Texts(arg.column.clone()));
        }
        let to =
            if arg.sql_type.is_binary() { SqlType::VarChar(MaxLength::Max) } else { SqlType::NVarChar(MaxLength::Max) };
        Ok(Texts(self.as_type(index, to)?))
    }

    /// The argument as text for a function of `nvarchar`: binary is converted to `nvarchar` too.
    pub(crate) fn national_texts(&self, index: usize) -> Result<Texts, SqlError> {
        match self.arg(index)?.sql_type.is_text() {
            true => self.texts(index),
            false => Ok(Texts(self.as_type(index, SqlType::NVarChar(MaxLength::Max))?)),
        }
    }

    /// The argument as bytes. An untyped NULL is allowed.
    pub(crate) fn binaries(&self, index: usize) -> Result<Binaries, SqlError> {
        Ok(Binaries(self.as_type(index, SqlType::VarBinary(MaxLength::Max))?))
    }

    fn numbers<T: ArrowPrimitiveType>(&self, index: usize, to: SqlType) -> Result<Numbers<T>, SqlError> {
        let column = self.as_type(index, to)?;
        let array = column.array().as_primitive_opt::<T>().cloned();
        let array = array.ok_or_else(|| SqlError::internal("a cast gave another carrier"))?;
        Ok(Numbers { array, scalar: column.is_scalar() })
    }

    /// The argument as `bigint`.
    pub(crate) fn integers(&self, index: usize) -> Result<Numbers<Int64Type>, SqlError> {
        self.numbers(index, SqlType::BigInt)
    }

    /// The argument as `float`.
    pub(crate) fn floats(&self, index: usize) -> Result<Numbers<Float64Type>, SqlError> {
        self.numbers(index, SqlType::Float)
    }

    /// A text result. `value` returns each row's text, which is cut to the result type's length.
    pub(crate) fn text_result<'t>(
        &self,
        mut value: impl FnMut(usize) -> Result<Option<Cow<'t, str>>, SqlError>,
    ) -> Result<ArrayRef, SqlError> {
        let mut builder = StringViewBuilder::with_capacity(self.rows);
        let mut meter = Meter::new();
        for row in 0..self.rows {
            let text = value(row)?;
            let text = text.as_deref().map(|text| fit(text, self.result_type));
            meter.build(text.as_ref().map_or(0, |text| text.len()))?;
            builder.append_option(text);
        }
        Ok(Arc::new(builder.finish()))
    }

    /// A result of a primitive carrier.
    pub(crate) fn primitive_result<T: ArrowPrimitiveType>(
        &self,
        mut value: impl FnMut(usize) -> Result<Option<T::Native>, SqlError>,
    ) -> Result<ArrayRef, SqlError> {
        let mut builder = PrimitiveBuilder::<T>::with_capacity(self.rows);
        for row in 0..self.rows {
            builder.append_option(value(row)?);
        }
        Ok(Arc::new(builder.finish()))
    }
}
