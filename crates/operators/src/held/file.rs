//! Batches in a spill file, in Arrow's format for streams.

use std::fmt;
use std::io::BufReader;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use datafusion::common::DataFusionError;
use hobt_base::SqlError;
use hobt_engine::{SpillFile, SpillFiles};
use hobt_udf::sql_error_of;

use crate::spill::{Reader, Writer, create};

/// Reads the batches of a file.
pub(super) type FileBatches = StreamReader<BufReader<Reader>>;

/// Batches with equal columns in a file, which is removed when this and its last reading are dropped.
pub(super) struct BatchFile {
    file: Arc<SpillFile>,
    /// `None` once it is complete.
    writer: Option<StreamWriter<Writer>>,
}

impl fmt::Debug for BatchFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchFile").field("file", &self.file).finish_non_exhaustive()
    }
}

impl BatchFile {
    /// An empty file for batches with the columns of `schema`, any of which may be NULL.
    ///
    /// # Errors
    /// 5123, 1105, 823.
    pub(super) fn create(files: &Arc<SpillFiles>, schema: &Schema) -> Result<BatchFile, SqlError> {
        let file = create(files).map_err(sql_error_of)?;
        // Columns of later batches may have NULLs where those of the first could have none.
        let nullable = |field: &Arc<arrow::datatypes::Field>| field.as_ref().clone().with_nullable(true);
        let schema = Schema::new(schema.fields().iter().map(nullable).collect::<Vec<_>>());
        let writer = StreamWriter::try_new(Writer::new(&file), &schema).map_err(arrow_error)?;
        Ok(BatchFile { file, writer: Some(writer) })
    }

    /// Appends a batch.
    ///
    /// # Errors
    /// 1105, 823.
    ///
    /// # Panics
    /// The file has been read.
    pub(super) fn append(&mut self, batch: &RecordBatch) -> Result<(), SqlError> {
        let writer = self.writer.as_mut().expect("all is written before any of it is read");
        writer.write(batch).map_err(arrow_error)
    }

    /// Reads all batches in their order. None can be appended any more.
    ///
    /// # Errors
    /// 1105, 823.
    pub(super) fn read(&mut self) -> Result<FileBatches, SqlError> {
        self.reopen()?()
    }

    /// As [`BatchFile::read`], any number of times. The file stays until the function is dropped.
    ///
    /// # Errors
    /// 1105, 823.
    pub(super) fn reopen(
        &mut self,
    ) -> Result<impl Fn() -> Result<FileBatches, SqlError> + Send + Sync + use<>, SqlError> {
        if let Some(mut writer) = self.writer.take() {
            writer.finish().map_err(arrow_error)?;
        }
        let file = Arc::clone(&self.file);
        Ok(move || StreamReader::try_new(Reader::buffered(&file), None).map_err(arrow_error))
    }
}

/// An error of Arrow's for the user.
pub(super) fn arrow_error(error: ArrowError) -> SqlError {
    sql_error_of(DataFusionError::ArrowError(Box::new(error), None))
}
