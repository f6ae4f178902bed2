//! A file as one value: `SINGLE_CLOB`, `SINGLE_NCLOB`, `SINGLE_BLOB`.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryViewArray, RecordBatch, RecordBatchOptions, StringViewArray};
use hobt_base::{SqlError, errors};
use parking_lot::Mutex;

use crate::encoding::CodePage;
use crate::read::{BatchReader, FileRows, ReadRequest};
use crate::schema::file_schema;
use crate::source::SourceFile;

/// Bytes that are read at a time.
const READ_BYTES: usize = 4 << 20;

/// The files that are read whole.
pub(crate) struct WholeRows {
    request: ReadRequest,
    projection: Vec<usize>,
    next: Mutex<usize>,
}

impl WholeRows {
    pub(crate) fn new(request: ReadRequest, projection: Vec<usize>) -> WholeRows {
        WholeRows { request, projection, next: Mutex::new(0) }
    }

    fn row(&self, file: usize) -> Result<RecordBatch, SqlError> {
        let path = &self.request.files[file];
        let is_text = self.request.columns[0].sql_type.is_text();
        let code_page = self.request.code_page;
        let mut source = SourceFile::open(path, code_page, is_text, &self.request.progress)?;
        let mut bytes = Vec::new();
        loop {
            let read = source.append(&mut bytes, READ_BYTES)?;
            if bytes.len() > self.request.row_bytes_max {
                return Err(errors::BULK_FILE_NOT_OPENED.with([&path.display(), &"it is too long for one value"]));
            }
            if read < READ_BYTES {
                break;
            }
        }
        let array: ArrayRef = match is_text {
            true => {
                let text = code_page.text(&bytes).map_err(|at| {
                    let line = 1 + memchr::memchr_iter(b'\n', &bytes[..at]).count();
                    errors::BULK_TEXT_ENCODING.with([&1, &line, &path.display()])
                })?;
                Arc::new(StringViewArray::from_iter_values([text]))
            }
            false => Arc::new(BinaryViewArray::from_iter_values([bytes])),
        };
        let arrays = self.projection.iter().map(|_| Arc::clone(&array)).collect();
        let columns: Vec<_> = self.projection.iter().map(|&place| self.request.columns[place].clone()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        RecordBatch::try_new_with_options(file_schema(&columns), arrays, &options)
            .map_err(|error| SqlError::internal(error.to_string()))
    }
}

impl FileRows for WholeRows {
    fn reader(self: Arc<Self>) -> Box<dyn BatchReader> {
        Box::new(WholeReader(self))
    }
}

struct WholeReader(Arc<WholeRows>);

impl BatchReader for WholeReader {
    fn next(&mut self, _most: usize) -> Result<Option<RecordBatch>, SqlError> {
        let mut next = self.0.next.lock();
        let file = *next;
        if file == self.0.request.files.len() {
            return Ok(None);
        }
        *next += 1;
        drop(next);
        self.0.row(file).map(Some)
    }
}

/// The code page of a file that `SINGLE_NCLOB` reads: UTF-16, by its byte order mark.
pub fn wide_code_page(first: &[u8]) -> Option<CodePage> {
    match first {
        [0xFF, 0xFE, ..] => Some(CodePage::WIDE),
        [0xFE, 0xFF, ..] => Some(CodePage::Other(encoding_rs::UTF_16BE)),
        _ => None,
    }
}
