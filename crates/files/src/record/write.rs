//! Records are written: the prefix, the bytes of a value, the terminator.

use encoding_rs::Encoding;
use hobt_functions::value_text;
use hobt_types::{SqlType, Value};

use super::FieldLayout;
use crate::native::{self, ValueError};

impl FieldLayout {
    /// Appends the field with a value of `sql_type`. Text of `SQLCHAR` has the encoding; a value that is not text
    /// becomes text as clients print it. After a fault the field is not appended.
    ///
    /// # Errors
    /// [`ValueError::Null`] for NULL in a field without prefix and without terminator; [`ValueError::Truncation`] for a
    /// value that is longer than its field or its prefix can say; what [`native::encode`] returns.
    pub fn write(
        &self,
        value: &Value,
        sql_type: SqlType,
        encoding: &'static Encoding,
        out: &mut Vec<u8>,
    ) -> Result<(), ValueError> {
        let start = out.len();
        let written = self.append(value, sql_type, encoding, out);
        match written {
            Ok(()) => out.extend_from_slice(self.terminator()),
            Err(_) => out.truncate(start),
        }
        written
    }

    fn append(
        &self,
        value: &Value,
        sql_type: SqlType,
        encoding: &'static Encoding,
        out: &mut Vec<u8>,
    ) -> Result<(), ValueError> {
        let width = usize::from(self.prefix_length());
        let start = out.len() + width;
        out.resize(start, 0xFF);
        if value.is_null() {
            return if self.fixed_bytes().is_none() { Ok(()) } else { Err(ValueError::Null) };
        }
        if self.host().is_text() && !sql_type.is_text() {
            let text = Value::Text(value_text(value, sql_type).map_err(|_| ValueError::Mismatch)?);
            native::encode(&text, SqlType::VarChar(hobt_types::MaxLength::Max), self.host(), encoding, out)?;
        } else {
            native::encode(value, sql_type, self.host(), encoding, out)?;
        }
        let length = out.len() - start;
        match (self.fixed_bytes(), width) {
            (Some(bytes), _) => self.fill(bytes, length, out),
            (None, 0) => {
                if length == 0 {
                    // No bytes at all would be NULL.
                    native::encode_empty(self.host(), out);
                }
                Ok(())
            }
            (None, width) => {
                // All bits set is NULL.
                let is_said = width == 8 || (length as u64) < (1 << (8 * width)) - 1;
                if !is_said {
                    return Err(ValueError::Truncation);
                }
                out[start - width..start].copy_from_slice(&(length as u64).to_le_bytes()[..width]);
                Ok(())
            }
        }
    }

    /// Fills the end of a field of fixed length: text with spaces, binary with zeros.
    fn fill(&self, bytes: usize, length: usize, out: &mut Vec<u8>) -> Result<(), ValueError> {
        let missing = bytes.checked_sub(length).ok_or(ValueError::Truncation)?;
        native::encode_padding(self.host(), missing, out);
        Ok(())
    }
}
