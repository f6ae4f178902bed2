//! A row outside a page: as changes carry it, and as a page returns it when a row is removed.

use crate::row_page::StoredValue;
use crate::{PageFlags, RowLayout, ValuePointer};

/// A value to be written to a page: its bytes (fixed-length ones little-endian), or NULL.
pub type ColumnValue<'a> = Option<&'a [u8]>;

/// A row outside a page: its values' bytes, concatenated. A value may be a pointer to other pages.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RowImage {
    bytes: Vec<u8>,
    /// For each column, the end of its bytes, and their form.
    ends: Vec<(usize, Form)>,
}

/// The form of a row image's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Null,
    InRow,
    Pointer,
}

impl RowImage {
    /// The image of a row, values in table order.
    pub fn new<'a>(values: impl IntoIterator<Item = ColumnValue<'a>>) -> RowImage {
        let values = values.into_iter();
        let mut image = RowImage::for_columns(values.size_hint().0);
        for value in values {
            image.push(value.unwrap_or_default(), if value.is_none() { Form::Null } else { Form::InRow });
        }
        image
    }

    /// The image of a row as a page stores it, values in table order.
    pub fn of_stored<'a>(values: impl IntoIterator<Item = StoredValue<'a>>) -> RowImage {
        let mut image = RowImage::default();
        for value in values {
            match value {
                StoredValue::Null => image.push(&[], Form::Null),
                StoredValue::InRow(bytes) => image.push(bytes, Form::InRow),
                StoredValue::Pointer(pointer) => image.push(&pointer.to_bytes(), Form::Pointer),
            }
        }
        image
    }

    /// An image without values, with capacity for those of this many columns.
    fn for_columns(columns: usize) -> RowImage {
        const BYTES_OF_COLUMN: usize = 24;
        RowImage { bytes: Vec::with_capacity(columns * BYTES_OF_COLUMN), ends: Vec::with_capacity(columns) }
    }

    pub(crate) fn push(&mut self, bytes: &[u8], form: Form) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push((self.bytes.len(), form));
    }

    /// The number of columns.
    pub fn column_count(&self) -> usize {
        self.ends.len()
    }

    /// What the row stores of one value: its bytes, or those of a pointer.
    pub fn value(&self, column: usize) -> ColumnValue<'_> {
        let start = if column == 0 { 0 } else { self.ends[column - 1].0 };
        let (end, form) = self.ends[column];
        (form != Form::Null).then(|| &self.bytes[start..end])
    }

    /// Whether one value is a pointer.
    pub fn is_pointer(&self, column: usize) -> bool {
        self.ends[column].1 == Form::Pointer
    }

    /// One value, as a page stores it.
    pub fn stored(&self, column: usize) -> StoredValue<'_> {
        match self.value(column) {
            None => StoredValue::Null,
            Some(bytes) if self.is_pointer(column) => {
                StoredValue::Pointer(ValuePointer::read(bytes).expect("checked when it came into the image"))
            }
            Some(bytes) => StoredValue::InRow(bytes),
        }
    }

    /// The page flags that the row requires.
    pub(crate) fn flags(&self) -> PageFlags {
        let has_pointers = self.ends.iter().any(|(_, form)| *form == Form::Pointer);
        if has_pointers { PageFlags::HAS_POINTERS } else { PageFlags::default() }
    }

    /// Bytes of all values.
    pub fn byte_count(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of memory that the image takes, itself included.
    pub fn memory_bytes(&self) -> usize {
        size_of::<RowImage>() + self.bytes.capacity() + self.ends.capacity() * size_of::<(usize, Form)>()
    }

    /// The values' bytes, concatenated.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the row fits this table: its number of columns, the widths of fixed-length values, NULL only where
    /// allowed.
    pub fn fits_columns(&self, rows: &RowLayout) -> bool {
        self.column_count() == rows.columns().len()
            && rows.columns().iter().enumerate().all(|(column, described)| match self.value(column) {
                None => described.nullable,
                Some(bytes) => {
                    described.physical.width().is_none_or(|width| width == bytes.len() && !self.is_pointer(column))
                }
            })
    }

    /// Bytes of all values of variable length.
    pub fn variable_bytes(&self, rows: &RowLayout) -> usize {
        (0..self.ends.len())
            .filter(|&column| rows.variable_rank(column).is_some())
            .map(|column| self.value(column).map_or(0, <[u8]>::len))
            .sum()
    }
}
