//! Splits rows into spill files by a hash of their keys.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{concat_batches, take, take_record_batch};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::spill_file::SpillFile;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::spill::SpillManager;
use futures::TryStreamExt;

use crate::stop::Stop;

/// The number of files for the rows of a side.
pub(super) const FILES: usize = 16;
/// Bytes that are gathered for one file before they are written, unless a batch's limit of rows is reached first.
const WRITE_BYTES: usize = 64 << 10;
/// The first seed of the hashes. No other operator may split rows by these, or all rows of one of its parts would be in
/// one file.
const FIRST_SEED: u64 = 0x6F62_7468;

/// A file of rows.
pub(super) struct Part {
    /// `None` if there are no rows.
    pub(super) file: Option<Arc<dyn SpillFile>>,
    pub(super) rows: usize,
}

/// Writes all rows of a side to files, by the hash of this level, in batches of about `batch_rows` rows.
///
/// # Errors
/// Errors of the side or of a key, a file that cannot be written, the cancellation of the statement.
pub(super) async fn split(
    mut rows: SendableRecordBatchStream,
    keys: &[Arc<dyn PhysicalExpr>],
    level: usize,
    batch_rows: usize,
    spills: &SpillManager,
    stop: &Stop,
) -> Result<Vec<Part>> {
    let state = RandomState::with_seed(FIRST_SEED + level as u64);
    let mut writers: Vec<Writer> = (0..FILES).map(|_| Writer { rows_max: batch_rows, ..Writer::default() }).collect();
    let (mut hashes, mut places) = (Vec::new(), vec![Vec::new(); FILES]);
    while let Some(batch) = rows.try_next().await? {
        stop.check()?;
        let arrays = keys.iter().map(|key| key.evaluate(&batch)?.into_array(batch.num_rows()));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        hashes.clear();
        hashes.resize(batch.num_rows(), 0);
        create_hashes(&arrays, &state, &mut hashes)?;
        places.iter_mut().for_each(Vec::clear);
        for (row, hash) in (0u32..).zip(&hashes) {
            // The upper bits: hash tables use the lower ones.
            places[(hash >> 40) as usize % FILES].push(row);
        }
        for (writer, places) in writers.iter_mut().zip(&places) {
            if !places.is_empty() {
                let taken = take_record_batch(&batch, &UInt32Array::from(places.clone()))?;
                writer.add(taken, spills)?;
            }
        }
    }
    writers.into_iter().map(|writer| writer.finish(spills)).collect()
}

/// Copies the rows to buffers of their own. A batch read from a file has one buffer for all columns, which each of them
/// counts as its own.
///
/// # Errors
/// The schema's columns are not the batch's.
pub(crate) fn own_buffers(batch: &RecordBatch) -> Result<RecordBatch> {
    let rows = UInt32Array::from_iter_values(0..u32::try_from(batch.num_rows()).unwrap_or(u32::MAX));
    let column = |array: &ArrayRef| -> Result<ArrayRef> {
        let taken = take(array, &rows, None)?;
        Ok(match taken.data_type() {
            DataType::Utf8View => Arc::new(taken.as_string_view().gc()),
            DataType::BinaryView => Arc::new(taken.as_binary_view().gc()),
            _ => taken,
        })
    };
    let arrays = batch.columns().iter().map(column).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), arrays, &options)?)
}

/// A file that is being written; a closure because its type is private. Takes a batch, or ends the file without one.
type Begun = Box<dyn FnMut(Option<&RecordBatch>) -> Result<Option<Arc<dyn SpillFile>>> + Send>;

fn begin(spills: &SpillManager) -> Result<Begun> {
    let mut file = spills.create_in_progress_file("HashJoin")?;
    Ok(Box::new(move |batch| match batch {
        Some(batch) => file.append_batch(batch).map(|_bytes| None),
        None => file.finish(),
    }))
}

/// Collects the rows for one file.
#[derive(Default)]
struct Writer {
    file: Option<Begun>,
    gathered: Vec<RecordBatch>,
    gathered_rows: usize,
    gathered_bytes: usize,
    rows: usize,
    /// About the rows of a batch: the reader has no memory for many more.
    rows_max: usize,
}

impl Writer {
    fn add(&mut self, batch: RecordBatch, spills: &SpillManager) -> Result<()> {
        self.rows += batch.num_rows();
        self.gathered_rows += batch.num_rows();
        self.gathered_bytes += batch.get_array_memory_size();
        self.gathered.push(batch);
        if self.gathered_rows >= self.rows_max || self.gathered_bytes >= WRITE_BYTES {
            self.write(spills)?;
        }
        Ok(())
    }

    fn write(&mut self, spills: &SpillManager) -> Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let schema: &SchemaRef = spills.schema();
        let batch = concat_batches(schema, &self.gathered)?;
        self.gathered.clear();
        (self.gathered_rows, self.gathered_bytes) = (0, 0);
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(begin(spills)?),
        };
        file(Some(&batch)).map(drop)
    }

    fn finish(mut self, spills: &SpillManager) -> Result<Part> {
        self.write(spills)?;
        let file = match &mut self.file {
            Some(file) => file(None)?,
            None => None,
        };
        Ok(Part { file, rows: self.rows })
    }
}
