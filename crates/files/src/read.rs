//! What is to be read from files, and the reading that workers share.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use hobt_base::SqlError;
use hobt_txn::Progress;

use crate::batches::FileBatches;
use crate::condition::FileCondition;
use crate::encoding::CodePage;
use crate::record_form::RecordForm;
use crate::rejected::Rejections;
use crate::schema::FileColumn;
use crate::text::layout::TextLayout;

/// The form of the files.
#[derive(Clone, Debug)]
pub enum FileForm {
    /// Rows of fields that terminators end.
    Text(TextLayout),
    /// JSON lines: one object a line.
    JsonLines,
    /// Parquet.
    Parquet,
    /// Records that a format file, or bcp's native format, describes.
    Records(RecordForm),
    /// Each file is one value of the only column.
    Whole,
}

impl FileForm {
    /// Whether files of this form say which values parts of them have.
    pub fn has_statistics(&self) -> bool {
        match self {
            FileForm::Text(_) | FileForm::JsonLines | FileForm::Records(_) | FileForm::Whole => false,
            FileForm::Parquet => true,
        }
    }
}

/// What is to be read from some files of one form.
#[derive(Clone, Debug)]
pub struct ReadRequest {
    /// The files, in order.
    pub files: Vec<PathBuf>,
    /// Their form.
    pub form: FileForm,
    /// The encoding of their text.
    pub code_page: CodePage,
    /// All columns that a row has for the reader.
    pub columns: Vec<FileColumn>,
    /// How many fields each row has exactly; `None` if it may have more than the columns need.
    pub fields: Option<usize>,
    /// Conditions on columns: parts of a file without a row that fulfils them are left out where the file says so.
    pub conditions: Vec<FileCondition>,
    /// The first row of each file that is read, from 1.
    pub first_row: u64,
    /// The last.
    pub last_row: u64,
    /// Rows of a batch, at most.
    pub batch_rows: usize,
    /// Bytes of a row, at most.
    pub row_bytes_max: usize,
    /// The new file that takes rejected rows.
    pub error_file: Option<PathBuf>,
    /// The reading that this request continues, if it is one of several.
    pub batches: Option<Arc<FileBatches>>,
    /// Rows that cannot be read.
    pub rejections: Arc<Rejections>,
    /// Counts the bytes that are read; [`ReadRequest::open`] adds those of the files to its whole.
    pub progress: Arc<Progress>,
}

/// Rows of files that several workers read.
pub trait FileRows: Send + Sync {
    /// One worker's reading. All readings together give each row once.
    fn reader(self: Arc<Self>) -> Box<dyn BatchReader>;
}

/// The next batch that has rows, of pieces of files that come one after the other. `take` takes a piece, `None` at the
/// end; `read` reads the next rows of one, `None` at its end.
pub(crate) fn next_batch<P>(
    current: &mut Option<P>,
    take: impl Fn() -> Result<Option<P>, SqlError>,
    mut read: impl FnMut(&mut P) -> Result<Option<RecordBatch>, SqlError>,
) -> Result<Option<RecordBatch>, SqlError> {
    loop {
        let piece = match current {
            Some(piece) => piece,
            None => match take()? {
                Some(piece) => current.insert(piece),
                None => return Ok(None),
            },
        };
        match read(piece)? {
            Some(batch) if batch.num_rows() > 0 => return Ok(Some(batch)),
            Some(_) => {}
            None => *current = None,
        }
    }
}

/// One worker's reading.
pub trait BatchReader: Send {
    /// The next rows, in the carriers of the columns that were asked for; `None` at the end. Of more than `most` rows
    /// none beyond them is looked at, but in Parquet. Blocks on the files.
    ///
    /// # Errors
    /// A file cannot be read, or has too many rows that are none.
    fn next(&mut self, most: usize) -> Result<Option<RecordBatch>, SqlError>;
}
