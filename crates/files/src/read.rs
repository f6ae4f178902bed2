//! What is to be read from files, and the reading that workers share.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use hobt_base::{SqlError, errors};
use hobt_txn::Progress;

use crate::batches::FileBatches;
use crate::encoding::CodePage;
use crate::infer::{Header, Inferred, infer_text};
use crate::json_lines::{JsonRows, infer_json, line_layout};
use crate::parquet::{FileCondition, ParquetRows};
use crate::records::{RecordForm, RecordRows};
use crate::rejected::Rejections;
use crate::schema::FileColumn;
use crate::source::{SourceFile, note_sizes};
use crate::stretches::Cutter;
use crate::text::{TextLayout, TextRows};
use crate::whole::WholeRows;

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

/// One worker's reading.
pub trait BatchReader: Send {
    /// The next rows, in the carriers of the columns that were asked for; `None` at the end. Blocks on the files.
    ///
    /// # Errors
    /// A file cannot be read, or has too many rows that are none.
    fn next(&mut self) -> Result<Option<RecordBatch>, SqlError>;
}

impl ReadRequest {
    /// Begins to read the columns `projection`, by their places among the request's.
    ///
    /// # Errors
    /// Those of files that must be looked at first.
    pub fn open(&self, projection: &[usize]) -> Result<Arc<dyn FileRows>, SqlError> {
        match &self.batches {
            Some(batches) => batches.rows(|| self.begin(projection)),
            None => self.begin(projection),
        }
    }

    fn begin(&self, projection: &[usize]) -> Result<Arc<dyn FileRows>, SqlError> {
        note_sizes(&self.files, &self.progress);
        if let Some(path) = &self.error_file {
            self.rejections.put_into(path)?;
        }
        let (request, projection) = (self.clone(), projection.to_vec());
        Ok(match &self.form {
            FileForm::Records(form) => Arc::new(RecordRows::new(request, form.clone(), projection)),
            FileForm::Whole => Arc::new(WholeRows::new(request, projection)),
            FileForm::JsonLines => Arc::new(JsonRows::new(request, projection)),
            FileForm::Parquet => Arc::new(ParquetRows::new(request, projection)),
            FileForm::Text(layout) => Arc::new(TextRows::new(request, layout.clone(), projection)),
        })
    }
}

/// Bytes of a text file that are looked at to infer its columns.
const SAMPLE_BYTES: usize = 4 << 20;

/// The columns of a text file, from its first rows.
///
/// # Errors
/// The file cannot be read, or is no text of its encoding.
pub fn infer_columns(
    path: &Path,
    layout: &TextLayout,
    code_page: CodePage,
    header: Header,
) -> Result<Inferred, SqlError> {
    Ok(infer_text(layout, &sample(path, layout, code_page)?, header))
}

/// The columns of a file of JSON lines, from its first lines.
///
/// # Errors
/// The file cannot be read, or is no text of its encoding.
pub fn infer_json_columns(path: &Path, code_page: CodePage) -> Result<Inferred, SqlError> {
    Ok(infer_json(&sample(path, &line_layout(), code_page)?))
}

/// The first whole rows of a text file.
fn sample(path: &Path, layout: &TextLayout, code_page: CodePage) -> Result<String, SqlError> {
    let mut file = SourceFile::open(path, code_page, true, &Arc::default())?;
    let mut bytes = Vec::new();
    let read = file.append(&mut bytes, SAMPLE_BYTES)?;
    let cut = layout.cut(&bytes, read < SAMPLE_BYTES)?;
    bytes.truncate(cut.end);
    let text = code_page.text(&bytes).map_err(|at| {
        let (row, line) = (cut.rows, 1 + memchr::memchr_iter(b'\n', &bytes[..at]).count());
        errors::BULK_TEXT_ENCODING.with([&row, &line, &path.display()])
    })?;
    Ok(text.into_owned())
}
