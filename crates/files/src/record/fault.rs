//! Records that cannot be cut.

use hobt_base::{SqlError, errors};

/// Why a record cannot be cut. What follows it cannot be found either, so the file cannot be read on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CutError {
    /// The field is longer than it may be, or its terminator does not follow it.
    TooLong,
    /// The length in front of the field is none that its type has.
    BadLength,
    /// The field is UTF-16 and ends within a character.
    OddBytes,
    /// The file ends within the field.
    FileEnd,
}

/// A field at which a record cannot be cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CutFault {
    /// Its index in the record.
    pub field: usize,
    /// What is wrong with it.
    pub error: CutError,
}

impl CutFault {
    /// The error, with the number of the row, from 1: 4832, 4864, 4866, 4895.
    pub fn error(self, row: u64) -> SqlError {
        let field = self.field + 1;
        match self.error {
            CutError::TooLong => errors::RECORD_FIELD_TOO_LONG.with([&row, &field]),
            CutError::BadLength => errors::RECORD_FIELD_LENGTH.with([&row, &field]),
            CutError::OddBytes => errors::RECORD_ODD_BYTES.with([&field, &row]),
            CutError::FileEnd => errors::RECORD_CUT_OFF.with([&row, &field]),
        }
    }
}
