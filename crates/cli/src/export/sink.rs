//! Takes the events of one batch and writes the rows of its one result set to a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hobt_files::write::{Column, FileWriter, Format, WriteOptions};
use hobt_session::{Event, Flow};

use super::ExportError;
use hobt::ResultColumn;

/// What a column is called where it needs a name: `columnN` if it has none.
pub(crate) fn name_of(index: usize, column: &ResultColumn) -> String {
    if column.name.is_empty() { format!("column{}", index + 1) } else { column.name.clone() }
}

/// The columns of a result set as a file has them; those without a name get one if `names_all`.
pub(crate) fn columns_of(columns: &[ResultColumn], names_all: bool) -> Vec<Column> {
    let column = |(index, column): (usize, &ResultColumn)| Column {
        name: if names_all { name_of(index, column) } else { column.name.clone() },
        sql_type: column.sql_type,
        nullable: column.nullable,
    };
    columns.iter().enumerate().map(column).collect()
}

/// A file that the rows of one result set go to. Dropping it leaves none.
#[derive(Debug)]
pub(crate) struct FileSink {
    path: PathBuf,
    options: WriteOptions,
    writer: Option<FileWriter>,
    rows: Arc<AtomicU64>,
    error: Option<ExportError>,
}

impl FileSink {
    /// A file that is created when a result set begins.
    pub(crate) fn new(path: &Path, options: WriteOptions) -> FileSink {
        FileSink { path: path.to_path_buf(), options, writer: None, rows: Arc::default(), error: None }
    }

    /// Rows taken so far, as they are counted.
    pub(crate) fn rows(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.rows)
    }

    /// Takes an event. The first error stops the batch. Blocks while the file's threads are behind.
    pub(crate) fn event(&mut self, event: Event) -> Flow {
        let taken = match event {
            Event::ResultSet(columns) => self.begin(&columns),
            Event::Rows(batch) => {
                self.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
                self.writer.as_mut().map_or(Ok(()), |writer| writer.write(batch)).map_err(ExportError::from)
            }
            Event::Error(error) => Err(ExportError::Sql(error)),
            Event::Message(message) => {
                eprintln!("{}", message.text);
                Ok(())
            }
            Event::ResultSetDone { .. } | Event::Statistics(_) | Event::Done { .. } => Ok(()),
        };
        match taken {
            Ok(()) => Flow::Continue,
            Err(error) => {
                // What follows the first error is that the batch was stopped.
                self.error.get_or_insert(error);
                self.writer = None;
                Flow::Stop
            }
        }
    }

    fn begin(&mut self, columns: &[ResultColumn]) -> Result<(), ExportError> {
        if self.writer.is_some() {
            let text = "the batch has more than one result set, and a file has the rows of one";
            return Err(ExportError::Usage(text.to_owned()));
        }
        let columns = columns_of(columns, matches!(self.options.format, Format::Csv(_)));
        self.writer = Some(FileWriter::create(&self.path, columns, &self.options)?);
        Ok(())
    }

    /// The batch has ended. Returns the file with its rows, or `None` if the batch had no result set.
    ///
    /// # Errors
    /// The first error.
    pub(crate) fn end(self) -> Result<Option<FileWriter>, ExportError> {
        self.error.map_or(Ok(self.writer), Err)
    }
}
