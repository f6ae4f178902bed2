//! Files of rows: CSV, JSON, Parquet.
//!
//! A [`FileWriter`] takes batches in carriers ([`hobt_functions::carrier`](mod@hobt_functions::carrier)) and hands runs
//! of them to threads that encode and append them (`pipeline`). The file gets its name when it is complete and on the
//! disk; a writer that is dropped before leaves nothing (`new_file`). A [`RowText`] makes text of batches on the
//! caller's thread, for what is no file.
//!
//! | format | NULL | text | numbers | dates and times | binary |
//! |---|---|---|---|---|---|
//! | CSV | nothing | quoted if needed, or if empty | all digits | `2020-01-31 23:59:59.1234567` | `0x…` |
//! | JSON | `null` | string | all digits | the same with a `T`, as a string | the same, as a string |
//! | Parquet | NULL | `STRING` | their types | their types | bytes |
//!
//! Not here: queries, and where files may lie.

mod buffer;
mod cells;
mod column;
mod csv;
mod error;
mod json;
mod new_file;
mod numbers;
mod parquet;
mod pipeline;
#[cfg(test)]
mod tests;
mod text;

use std::collections::HashSet;
use std::fmt;
use std::path::Path;

use arrow::array::AsArray;
use arrow::record_batch::RecordBatch;

pub use self::column::Column;
pub use self::csv::CsvOptions;
pub use self::error::{Result, WriteError};
pub use self::json::JsonShape;
pub use self::parquet::{SQL_TYPE_KEY, Timestamps};

use self::buffer::Buffer;
use self::csv::Csv;
use self::json::Json;
use self::new_file::NewFile;
use self::parquet::ParquetTarget;
use self::pipeline::Pipeline;
use self::text::{TextEncoder, TextTarget, append_rows};
use crate::compression::Compression;

/// A part of a text file has so many rows or bytes of values at most, but for one row that has more.
const TEXT_PART: PartSize = PartSize { rows: 8192, bytes: 4 << 20 };
/// Compressors find more in longer parts.
const COMPRESSED_PART: PartSize = PartSize { rows: 65_536, bytes: 8 << 20 };
/// A row group. Its columns are encoded one after the other, so its batches are all in memory.
const ROW_GROUP: PartSize = PartSize { rows: 131_072, bytes: 32 << 20 };

/// What a file is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Format {
    /// Comma-separated values.
    Csv(CsvOptions),
    /// JSON.
    Json(JsonShape),
    /// Parquet, compressed with zstd.
    Parquet(Timestamps),
}

/// How a file is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WriteOptions {
    /// What it is.
    pub format: Format,
    /// How it is compressed, if it is text. Parquet is compressed inside.
    pub compression: Compression,
    /// Whether a file of that name is replaced.
    pub replaces: bool,
    /// Threads that encode, 1 or more.
    pub threads: usize,
}

impl WriteOptions {
    /// Uncompressed, as many threads as processors; replaces nothing.
    pub fn new(format: Format) -> WriteOptions {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        WriteOptions { format, compression: Compression::None, replaces: false, threads }
    }
}

/// What was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// Rows.
    pub rows: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Whether a file may be written under this name with these options. Creates nothing.
///
/// # Errors
/// If its folder is missing, it is a folder or a device, it is there and is not to be replaced, or the options are not
/// possible.
pub fn check(path: &Path, options: &WriteOptions) -> Result<()> {
    match &options.format {
        Format::Csv(csv) => drop(Csv::new(csv)?),
        Format::Parquet(_) if options.compression != Compression::None => {
            return Err(WriteError::Unfit("Parquet is compressed inside: its name has no .gz or .zst".to_owned()));
        }
        Format::Json(_) | Format::Parquet(_) => {}
    }
    new_file::check(path, options.replaces)
}

/// How much a part has.
#[derive(Clone, Copy, Debug)]
struct PartSize {
    rows: usize,
    bytes: usize,
}

/// Writes a file. Dropping it before it is published leaves nothing.
#[derive(Debug)]
pub struct FileWriter {
    pipeline: AnyPipeline,
    columns: usize,
    part: PartSize,
    /// Batches that make no part yet, with their rows and bytes.
    pending: Vec<RecordBatch>,
    pending_rows: usize,
    pending_bytes: usize,
    rows: u64,
}

#[derive(Debug)]
enum AnyPipeline {
    Text(Pipeline<TextTarget>),
    Parquet(Pipeline<ParquetTarget>),
}

impl FileWriter {
    /// Creates the file under a temporary name. Blocks on the disk.
    ///
    /// # Errors
    /// As [`check`], and if the columns are not possible in that format.
    pub fn create(path: &Path, columns: Vec<Column>, options: &WriteOptions) -> Result<FileWriter> {
        check(path, options)?;
        check_columns(&columns, &options.format)?;
        let file = |()| NewFile::create(path, options.replaces);
        let threads = options.threads.max(1);
        let part = match (&options.format, options.compression) {
            (Format::Parquet(_), _) => ROW_GROUP,
            (_, Compression::None) => TEXT_PART,
            _ => COMPRESSED_PART,
        };
        let count = columns.len();
        let compression = options.compression;
        let pipeline = match &options.format {
            Format::Csv(csv) => {
                let encoder = TextEncoder { form: Csv::new(csv)?, columns, compression };
                AnyPipeline::Text(Pipeline::start(encoder, TextTarget(file(())?), threads, 2 * threads + 2)?)
            }
            Format::Json(shape) => {
                let encoder = TextEncoder { form: Json::new(*shape, &columns), columns, compression };
                AnyPipeline::Text(Pipeline::start(encoder, TextTarget(file(())?), threads, 2 * threads + 2)?)
            }
            Format::Parquet(timestamps) => {
                let (encoder, target) = parquet::begin(file(())?, columns, *timestamps)?;
                AnyPipeline::Parquet(Pipeline::start(encoder, target, threads, threads + 1)?)
            }
        };
        Ok(FileWriter {
            pipeline,
            columns: count,
            part,
            pending: Vec::new(),
            pending_rows: 0,
            pending_bytes: 0,
            rows: 0,
        })
    }

    /// Takes rows, in carriers. They are behind those of earlier calls in the file. Blocks while the threads are
    /// behind.
    ///
    /// # Errors
    /// If what was taken earlier, or this, cannot be written. The file is lost then.
    pub fn write(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_columns() != self.columns {
            return Err(WriteError::internal(format!("{} columns for {}", batch.num_columns(), self.columns)));
        }
        let bytes = value_bytes(&batch);
        self.rows += batch.num_rows() as u64;
        // Rows of long values are more than a part together.
        let parts = bytes.div_ceil(self.part.bytes).max(1);
        let rows = batch.num_rows().div_ceil(parts).clamp(1, self.part.rows);
        let mut from = 0;
        while from < batch.num_rows() {
            let count = rows.min(batch.num_rows() - from);
            if self.pending_rows + count > self.part.rows {
                self.push(false)?;
            }
            self.pending.push(batch.slice(from, count));
            self.pending_rows += count;
            self.pending_bytes += bytes / parts;
            from += count;
            if self.pending_rows >= self.part.rows || self.pending_bytes >= self.part.bytes {
                self.push(false)?;
            }
        }
        Ok(())
    }

    /// Rows taken so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    fn push(&mut self, is_last: bool) -> Result<()> {
        let batches = std::mem::take(&mut self.pending);
        (self.pending_rows, self.pending_bytes) = (0, 0);
        match &mut self.pipeline {
            AnyPipeline::Text(pipeline) => pipeline.push(batches, is_last),
            AnyPipeline::Parquet(pipeline) => pipeline.push(batches, is_last),
        }
    }

    /// Writes what is left and makes it durable. The file still has its temporary name. Blocks on the disk.
    ///
    /// # Errors
    /// As [`FileWriter::write`].
    pub fn finish(mut self) -> Result<FinishedFile> {
        self.push(true)?;
        let mut file = match self.pipeline {
            AnyPipeline::Text(pipeline) => pipeline.finish()?,
            AnyPipeline::Parquet(pipeline) => pipeline.finish()?,
        };
        file.sync()?;
        Ok(FinishedFile { file, rows: self.rows })
    }
}

/// A file that is complete and durable and has no name yet. Dropping it leaves nothing.
#[derive(Debug)]
pub struct FinishedFile {
    file: NewFile,
    rows: u64,
}

impl FinishedFile {
    /// Gives the file its name. Blocks on the disk.
    ///
    /// # Errors
    /// If the name was taken meanwhile, or the system refuses.
    pub fn publish(self) -> Result<Written> {
        let written = Written { rows: self.rows, bytes: self.file.length() };
        self.file.publish().map(|()| written)
    }
}

/// Rows as text, on the caller's thread.
#[derive(Debug)]
pub struct RowText {
    columns: Vec<Column>,
    form: TextForm,
    out: Buffer,
    is_first: bool,
}

#[derive(Debug)]
enum TextForm {
    Csv(Csv),
    Json(Json),
}

impl RowText {
    /// Rows of these columns.
    ///
    /// # Errors
    /// If the columns or the options are not possible in that format, or it is none of text.
    pub fn new(columns: Vec<Column>, format: &Format) -> Result<RowText> {
        let form = match format {
            Format::Csv(options) => TextForm::Csv(Csv::new(options)?),
            Format::Json(shape) => TextForm::Json(Json::new(*shape, &columns)),
            Format::Parquet(_) => return Err(WriteError::Unfit("Parquet is no text".to_owned())),
        };
        Ok(RowText { columns, form, out: Buffer::default(), is_first: true })
    }

    /// What stands before all rows.
    pub fn begin(&mut self) -> &[u8] {
        self.out.clear();
        match &self.form {
            TextForm::Csv(form) => text::RowForm::begin_file(form, &self.columns, &mut self.out),
            TextForm::Json(form) => text::RowForm::begin_file(form, &self.columns, &mut self.out),
        }
        self.out.as_slice()
    }

    /// The rows of a batch in carriers.
    ///
    /// # Errors
    /// An internal error if the batch is not as the columns say.
    pub fn rows(&mut self, batch: &RecordBatch) -> Result<&[u8]> {
        self.out.clear();
        let is_first = std::mem::take(&mut self.is_first);
        match &self.form {
            TextForm::Csv(form) => append_rows(form, &self.columns, batch, is_first, &mut self.out)?,
            TextForm::Json(form) => append_rows(form, &self.columns, batch, is_first, &mut self.out)?,
        }
        Ok(self.out.as_slice())
    }

    /// What stands behind all rows.
    pub fn end(&mut self) -> &[u8] {
        self.out.clear();
        match &self.form {
            TextForm::Csv(form) => text::RowForm::end_file(form, &mut self.out),
            TextForm::Json(form) => text::RowForm::end_file(form, &mut self.out),
        }
        self.out.as_slice()
    }
}

/// Whether columns can be told apart by their names, which JSON and Parquet need.
fn check_columns(columns: &[Column], format: &Format) -> Result<()> {
    if columns.is_empty() {
        return Err(WriteError::Unfit("there are no columns to write".to_owned()));
    }
    let what = match format {
        Format::Csv(_) => return Ok(()),
        Format::Json(_) => "JSON",
        Format::Parquet(_) => "Parquet",
    };
    let mut names = HashSet::new();
    for (index, Column { name, .. }) in columns.iter().enumerate() {
        let problem: &dyn fmt::Display = match name.is_empty() {
            true => &"has no name",
            false if !names.insert(name) => &format!("has the name {name}, as one before it"),
            false => continue,
        };
        let place = index + 1;
        return Err(WriteError::Unfit(format!("column {place} {problem}; {what} needs names: write … AS name")));
    }
    Ok(())
}

/// About the bytes of a batch's values.
fn value_bytes(batch: &RecordBatch) -> usize {
    let of_column = |array: &arrow::array::ArrayRef| {
        let width = array.data_type().primitive_width().unwrap_or(16);
        let long: usize = match (array.as_string_view_opt(), array.as_binary_view_opt()) {
            (Some(text), _) => text.lengths().map(|length| length as usize).sum(),
            (_, Some(binary)) => binary.lengths().map(|length| length as usize).sum(),
            _ => 0,
        };
        long + width * array.len()
    };
    batch.columns().iter().map(of_column).sum()
}
