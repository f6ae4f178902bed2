//! The expected width of rows, by the types of their columns as the executor holds them.
//!
//! The maximum width of a row, for which space must be reserved, follows from the declared types: `declared_width` and
//! [`TableRead::row_width`](crate::TableRead::row_width).

use arrow::datatypes::Fields;

/// Expected bytes of a text of unknown length: a name, a word or a code, plus the sixteen bytes of its view in a batch.
pub const TEXT_BYTES: usize = 24;

/// The columns of a row, by whether their length is fixed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowWidth {
    /// Bytes of the columns of fixed length.
    pub fixed: usize,
    /// The number of other columns: texts and binaries.
    pub texts: usize,
}

impl RowWidth {
    /// The width of a row of these columns.
    pub fn of(fields: &Fields) -> RowWidth {
        let none = RowWidth { fixed: 0, texts: 0 };
        fields.iter().fold(none, |row, field| match field.data_type().primitive_width() {
            Some(width) => RowWidth { fixed: row.fixed + width, ..row },
            None => RowWidth { texts: row.texts + 1, ..row },
        })
    }

    /// Bytes of a row with texts of so many bytes.
    pub(crate) fn bytes(self, text_bytes: f64) -> f64 {
        self.fixed as f64 + self.texts as f64 * text_bytes
    }

    /// Bytes of a text in a row of so many bytes; `None` if it has none.
    pub fn text_bytes(self, row_bytes: usize) -> Option<f64> {
        let texts = row_bytes.saturating_sub(self.fixed) as f64;
        (self.texts > 0).then(|| texts / self.texts as f64)
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};

    use super::*;

    #[test]
    fn a_row_has_the_bytes_of_its_numbers_and_some_for_each_text() {
        let field = |data_type| Field::new("f", data_type, true);
        let types = [DataType::Int32, DataType::Utf8View, DataType::Decimal128(9, 2), DataType::BinaryView];
        let width = RowWidth::of(&types.into_iter().map(field).collect());
        assert_eq!(width, RowWidth { fixed: 20, texts: 2 });
        assert_eq!(width.bytes(TEXT_BYTES as f64), 68.0);
        assert_eq!(width.text_bytes(100), Some(40.0));
    }
}
