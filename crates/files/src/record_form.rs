//! How the records of files are laid out, and where they are cut.

use hobt_base::SqlError;

use crate::encoding::CodePage;
use crate::record::RecordLayout;
use crate::stretches::{Cut, Cutter};

/// How the records of files are laid out.
#[derive(Clone, Debug)]
pub struct RecordForm {
    /// Where fields lie.
    pub layout: RecordLayout,
    /// The encoding of the text of each field.
    pub code_pages: Vec<CodePage>,
}

impl Cutter for RecordForm {
    fn cut(&self, bytes: &[u8], is_last: bool) -> Result<Cut, SqlError> {
        let (whole, fault) = self.layout.whole_records(bytes, 0, is_last);
        match fault {
            // The rows before it are read first.
            Some(fault) if whole.count == 0 => Err(fault.error(0)),
            _ => Ok(Cut { end: whole.end, rows: whole.count, lines: whole.count }),
        }
    }

    fn fault(&self, bytes: &[u8], is_last: bool, row: u64) -> Option<SqlError> {
        self.layout.whole_records(bytes, 0, is_last).1.map(|fault| fault.error(row))
    }

    fn signature_bytes(&self, first: &[u8]) -> usize {
        self.layout.signature_bytes(first)
    }
}
