//! Beginning to read files, by their form.

use std::path::Path;
use std::sync::Arc;

use hobt_base::{SqlError, errors};

use crate::encoding::CodePage;
use crate::infer::{COLUMNS_MAX, Header, Inferred, first_row_of, infer_text};
use crate::json_lines::{JsonRows, infer_json, line_layout};
use crate::parquet::ParquetRows;
use crate::read::{FileForm, FileRows, ReadRequest};
use crate::records::RecordRows;
use crate::source::{SourceFile, note_sizes};
use crate::stretches::Cutter;
use crate::text::layout::TextLayout;
use crate::text::reader::TextRows;
use crate::whole::WholeRows;

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

/// Bytes of a text file that are looked at for its first row, if that is no longer.
const FIRST_ROW_BYTES: usize = 64 << 10;

/// Bytes of a first row, at most, whose columns can be inferred.
const FIRST_ROW_BYTES_MAX: usize = 64 << 20;

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
    let inferred = infer_text(layout, &sample(path, layout, code_page, SAMPLE_BYTES)?, header);
    match inferred.columns.len() {
        0..=COLUMNS_MAX => Ok(inferred),
        _ => Err(errors::BULK_COLUMNS.with([&path.display(), &COLUMNS_MAX])),
    }
}

/// The fields of the first row of a text file that is no empty line; none of an empty file.
///
/// # Errors
/// As [`infer_columns`].
pub fn first_row(path: &Path, layout: &TextLayout, code_page: CodePage) -> Result<Vec<String>, SqlError> {
    Ok(first_row_of(layout, &sample(path, layout, code_page, FIRST_ROW_BYTES)?))
}

/// The columns of a file of JSON lines, from its first lines.
///
/// # Errors
/// The file cannot be read, or is no text of its encoding.
pub fn infer_json_columns(path: &Path, code_page: CodePage) -> Result<Inferred, SqlError> {
    Ok(infer_json(&sample(path, &line_layout(), code_page, SAMPLE_BYTES)?))
}

/// The first whole rows of a text file.
fn sample(path: &Path, layout: &TextLayout, code_page: CodePage, bytes_wanted: usize) -> Result<String, SqlError> {
    let mut file = SourceFile::open(path, code_page, true, &Arc::default())?;
    let mut bytes = Vec::new();
    let mut wanted = bytes_wanted;
    let cut = loop {
        let read = file.append(&mut bytes, wanted)?;
        let cut = layout.cut(&bytes, read < wanted)?;
        if cut.end > 0 || read < wanted {
            break cut;
        }
        if bytes.len() >= FIRST_ROW_BYTES_MAX {
            return Err(errors::BULK_ROW_TOO_LONG.with([&1, &1, &path.display(), &FIRST_ROW_BYTES_MAX]));
        }
        // The first row is longer.
        wanted = bytes.len();
    };
    bytes.truncate(cut.end);
    let text = code_page.text(&bytes).map_err(|at| {
        let row = 1 + layout.cut(&bytes[..at], false).map_or(0, |cut| cut.rows);
        let line = 1 + memchr::memchr_iter(b'\n', &bytes[..at]).count();
        errors::BULK_TEXT_ENCODING.with([&row, &line, &path.display()])
    })?;
    Ok(text.into_owned())
}
