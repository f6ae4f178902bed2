//! Records of data files: where one ends, and where its fields lie.
//!
//! A field is found by what its [`FileField`] says:
//!
//! | prefix | terminator | its bytes |
//! |---|---|---|
//! | yes | no | as many as the prefix says; all bits set: NULL |
//! | no | no | as many as its type or its length says |
//! | no | yes | text and binary: up to the terminator; else as its type says |
//! | yes | yes | as many as the prefix says; of text fewer, if the terminator comes first |
//!
//! No bytes up to a terminator are NULL, and a zero character alone is empty text. A terminator behind bytes whose
//! number is known must follow them, unless a prefix of text says the number. Of a type with fixed length a prefix of 0
//! is NULL too, as old versions of bcp wrote it. Terminators of UTF-16 are looked for at whole characters.
//!
//! A source of stretches asks [`RecordLayout::whole_records`] how many records a piece of a file has and where the last
//! ends. The decoder asks [`RecordLayout::split`] for the fields of each. Both walk over the bytes in the same
//! way. Neither allocates by what the bytes say. A record that goes on beyond its slice is answered with the bytes that
//! it has at least, so that the caller can refuse it or see that the file is shorter.
//!
//! Source: Microsoft's page on `bcp_colfmt` ("the least amount of data").
//!
//! Not here: what the bytes of a field mean ([`crate::native`]).

mod fault;
mod field;
#[cfg(test)]
mod tests;
mod write;

use hobt_base::SqlError;

use crate::format_file::{FileField, FileStyle, FormatFile, TableColumn};

pub use fault::{CutError, CutFault};
pub use field::FieldLayout;

/// The most bytes of a field: those of a `max` type.
pub const FIELD_BYTES_MAX: usize = i32::MAX as usize;

/// Where the bytes of a field lie in the slice that was split, or that it is NULL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldSpan {
    start: usize,
    /// `usize::MAX` if the field is NULL: no slice is as long.
    end: usize,
}

impl FieldSpan {
    /// The span of NULL.
    pub const NULL: FieldSpan = FieldSpan { start: 0, end: usize::MAX };

    /// The field's bytes in the slice that was split; `None` for NULL.
    ///
    /// # Panics
    /// If the slice is shorter than the one that was split.
    #[inline]
    pub fn of(self, bytes: &[u8]) -> Option<&[u8]> {
        if self.end == usize::MAX { None } else { Some(&bytes[self.start..self.end]) }
    }
}

/// What a slice says about a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// The record ends in front of this position.
    Record {
        /// A position in the slice, behind the record's start.
        end: usize,
    },
    /// The record goes on beyond the slice.
    More {
        /// How many bytes the record has at least, counted from its start; more than the slice has.
        bytes: usize,
    },
}

/// The whole records at the start of a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WholeRecords {
    /// How many.
    pub count: u64,
    /// Where the last of them ends.
    pub end: usize,
    /// How many bytes the record behind them has at least; 0 if the slice ends with a record.
    pub more: usize,
}

/// How records of a file are laid out.
#[derive(Clone, Debug)]
pub struct RecordLayout {
    fields: Box<[FieldLayout]>,
    /// The bytes of every record, if all are of one length.
    record_bytes: Option<usize>,
    field_bytes_max: usize,
}

impl RecordLayout {
    /// The layout that a format file says.
    ///
    /// # Errors
    /// An internal error if it has no fields, or one that nothing ends. [`FormatFile::parse`] returns neither.
    pub fn new(format: &FormatFile) -> Result<RecordLayout, SqlError> {
        let fields: Option<Box<[FieldLayout]>> = format.fields.iter().map(FieldLayout::new).collect();
        let fields = fields.filter(|fields| !fields.is_empty());
        let fields = fields.ok_or_else(|| SqlError::internal("a record without fields, or a field without an end"))?;
        // Terminators must be looked at.
        let fixed = |field: &FileField| field.fixed_bytes().filter(|_| field.terminator.is_empty());
        let record_bytes = format.fields.iter().map(fixed).sum::<Option<usize>>();
        Ok(RecordLayout { fields, record_bytes, field_bytes_max: FIELD_BYTES_MAX })
    }

    /// The layout of bcp's files of a table.
    ///
    /// # Errors
    /// An internal error for a table without columns.
    pub fn for_table(columns: &[TableColumn], style: &FileStyle) -> Result<RecordLayout, SqlError> {
        RecordLayout::new(&FormatFile::for_table(columns, style))
    }

    /// The layout with a lower bound for the bytes of a field: a longer one is [`CutError::TooLong`].
    pub fn with_field_bytes_max(mut self, bytes: usize) -> RecordLayout {
        self.field_bytes_max = bytes.min(FIELD_BYTES_MAX);
        self
    }

    /// The fields, in the order of the file.
    pub fn fields(&self) -> &[FieldLayout] {
        &self.fields
    }

    /// The bytes of a byte order mark at the start of a file whose first field is text.
    pub fn signature_bytes(&self, file: &[u8]) -> usize {
        use crate::format_file::HostType;
        match (self.fields[0].host(), file) {
            (HostType::NChar, [0xFF, 0xFE, ..]) if self.fields[0].prefix_length() == 0 => 2,
            (HostType::Char, [0xEF, 0xBB, 0xBF, ..]) if self.fields[0].prefix_length() == 0 => 3,
            _ => 0,
        }
    }

    /// Where the record that starts at `start` ends. `at_end` says that the file ends with the slice: then the last
    /// field may lack its terminator, and no record goes on.
    ///
    /// # Errors
    /// The field that cannot be, by its index.
    ///
    /// # Panics
    /// If `start` is beyond the slice.
    pub fn end_of(&self, bytes: &[u8], start: usize, at_end: bool) -> Result<Cut, CutFault> {
        self.walk(bytes, start, at_end, |_| {})
    }

    /// As [`RecordLayout::end_of`], and where its fields lie: one span for each field of a whole record is appended.
    /// Of a record that is not whole the spans of its first fields are.
    ///
    /// # Errors
    /// The field that cannot be, by its index.
    ///
    /// # Panics
    /// If `start` is beyond the slice.
    pub fn split(&self, bytes: &[u8], start: usize, at_end: bool, spans: &mut Vec<FieldSpan>) -> Result<Cut, CutFault> {
        self.walk(bytes, start, at_end, |span| spans.push(span))
    }

    /// The whole records from `start` on. A field that cannot be ends them: then they are those in front of its record,
    /// together with the fault.
    ///
    /// # Panics
    /// If `start` is beyond the slice.
    pub fn whole_records(&self, bytes: &[u8], start: usize, at_end: bool) -> (WholeRecords, Option<CutFault>) {
        let mut whole = WholeRecords { count: 0, end: start, more: 0 };
        if let Some(record_bytes) = self.record_bytes {
            let count = (bytes.len() - start) / record_bytes;
            whole.count = count as u64;
            whole.end = start + count * record_bytes;
        }
        // Of records of one length at most one is left, which is not whole.
        while whole.end < bytes.len() {
            match self.end_of(bytes, whole.end, at_end) {
                Ok(Cut::Record { end }) => {
                    whole.count += 1;
                    whole.end = end;
                }
                Ok(Cut::More { bytes }) => {
                    whole.more = bytes;
                    break;
                }
                Err(fault) => return (whole, Some(fault)),
            }
        }
        (whole, None)
    }

    /// Walks over a record. Every field has a byte at least, so that a record is never empty; the last one may be at
    /// the end of the file.
    fn walk(
        &self,
        bytes: &[u8],
        start: usize,
        at_end: bool,
        mut found: impl FnMut(FieldSpan),
    ) -> Result<Cut, CutFault> {
        assert!(start <= bytes.len(), "a record that starts behind its slice");
        let more = |field, bytes| match at_end {
            true => Err(CutFault { field, error: CutError::FileEnd }),
            // Of a record whose length is known it is all of it.
            false => Ok(Cut::More { bytes: self.record_bytes.unwrap_or(bytes) }),
        };
        if start == bytes.len() {
            return more(0, 1);
        }
        let mut at = start;
        let last = self.fields.len() - 1;
        for (index, field) in self.fields.iter().enumerate() {
            match field.find(bytes, at, at_end && index == last, self.field_bytes_max) {
                Ok(Ok((span, end))) => {
                    found(span);
                    at = end;
                }
                Ok(Err(missing)) => return more(index, bytes.len() - start + missing),
                Err(error) => return Err(CutFault { field: index, error }),
            }
        }
        Ok(Cut::Record { end: at })
    }
}
