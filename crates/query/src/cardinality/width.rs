//! How wide rows are thought to be, by the types of their columns as the executor holds them.
//!
//! This is what is expected. What rows may be at the most, for which room has to be made, follows from the declared
//! types: `declared_width` and [`HeapTable::row_width`](crate::source::HeapTable::row_width).

use arrow::datatypes::Fields;

/// Bytes that a text of unknown length is taken for: a name, a word or a code, with the sixteen by which a batch knows
/// it.
const TEXT_BYTES: usize = 24;

/// What a row is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RowWidth {
    /// Bytes of its columns of fixed length.
    pub(crate) fixed: usize,
    /// How many others it has: texts and binaries.
    pub(crate) texts: usize,
}

impl RowWidth {
    pub(crate) fn of(fields: &Fields) -> RowWidth {
        let none = RowWidth { fixed: 0, texts: 0 };
        fields.iter().fold(none, |row, field| match field.data_type().primitive_width() {
            Some(width) => RowWidth { fixed: row.fixed + width, ..row },
            None => RowWidth { texts: row.texts + 1, ..row },
        })
    }

    /// Bytes of a row with texts of unknown length.
    pub(crate) fn bytes(self) -> f64 {
        (self.fixed + self.texts * TEXT_BYTES) as f64
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
        assert_eq!(width.bytes(), 68.0);
    }
}
