//! Joins a build side that does not fit into memory: both sides are written to files. As much of the build side as fits
//! is joined with the whole probe side, part after part.
//!
//! One worker does it, because each part has to meet all rows of the probe side. Whether each of these rows has had a
//! partner in any part is kept in memory. Rows that are output by that come after the last part.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::spill_file::SpillFile;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::EmptyRecordBatchStream;
use datafusion::physical_plan::spill::SpillManager;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};
use parking_lot::Mutex;

use super::build::{Builder, HeldRows, weight};
use super::probe::{Probe, Seen};
use crate::spill_join::own_buffers;
use crate::stop::Stop;

/// All rows of a side, in a file.
pub(super) struct Filed {
    spills: SpillManager,
    /// `None` if there are no rows.
    file: Option<Arc<dyn SpillFile>>,
    count: usize,
}

impl Filed {
    /// Writes the rows of a side to a file, `first` before `rest`.
    ///
    /// # Errors
    /// The input's errors, a file that cannot be written, the cancellation of the statement.
    pub(super) async fn put(
        first: Option<HeldRows>,
        mut rest: SendableRecordBatchStream,
        spills: SpillManager,
        stop: &Stop,
    ) -> Result<Filed> {
        let mut file = spills.create_in_progress_file("RangeJoin")?;
        let mut count = 0;
        let mut put = |batch: &RecordBatch| {
            stop.check()?;
            count += batch.num_rows();
            file.append_batch(batch).map(drop)
        };
        if let Some(first) = first {
            first.give(&mut put)?;
        }
        while let Some(batch) = rest.try_next().await? {
            put(&batch)?;
        }
        Ok(Filed { file: file.finish()?, spills, count })
    }

    fn rows(&self) -> Result<SendableRecordBatchStream> {
        match &self.file {
            Some(file) => self.spills.read_spill_as_stream_unbuffered(Arc::clone(file), None),
            None => Ok(Box::pin(EmptyRecordBatchStream::new(Arc::clone(self.spills.schema())))),
        }
    }
}

/// Both sides.
pub(super) struct Parts {
    pub(super) build: Filed,
    pub(super) probe: Filed,
}

/// The state of the join over the parts.
struct PartsWay {
    parts: Arc<Parts>,
    probe: Probe,
    context: Arc<TaskContext>,
    /// The rest of the build side, and a batch that did not fit into the part before, with its memory.
    rest: SendableRecordBatchStream,
    next: Option<(RecordBatch, MemoryReservation)>,
    /// Which rows of the probe side have had a partner, if that matters.
    seen: Option<(Arc<Mutex<Vec<bool>>>, MemoryReservation)>,
    joins: Option<BoxStream<'static, Result<RecordBatch>>>,
    is_through: bool,
}

impl Probe {
    /// The output of a join of two sides in files.
    ///
    /// # Errors
    /// A file that cannot be read, no memory for a flag for each row of the probe side.
    pub(super) fn rows_of_parts(
        self,
        parts: Arc<Parts>,
        context: Arc<TaskContext>,
    ) -> Result<impl Stream<Item = Result<RecordBatch>> + Send> {
        let seen = match self.marks_probe() {
            false => None,
            true => {
                let held = MemoryConsumer::new("RangeJoinSeen").register(context.memory_pool());
                held.try_grow(parts.probe.count)?;
                Some((Arc::new(Mutex::new(vec![false; parts.probe.count])), held))
            }
        };
        let rest = parts.build.rows()?;
        let way = PartsWay { parts, probe: self, context, rest, next: None, seen, joins: None, is_through: false };
        Ok(futures::stream::try_unfold(way, |mut way| async move {
            let batch = way.next().await?;
            Ok(batch.map(|batch| (batch, way)))
        }))
    }
}

impl PartsWay {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(joins) = &mut self.joins {
                if let Some(batch) = joins.try_next().await? {
                    return Ok(Some(batch));
                }
                self.joins = None;
            }
            if self.is_through {
                return Ok(None);
            }
            let (batches, held) = self.part().await?;
            self.is_through = batches.is_empty();
            if self.is_through && self.seen.is_none() {
                return Ok(None);
            }
            let probe = &self.probe;
            let marks = probe.marks_build();
            let builder = Builder { ranges: &probe.ranges, marks, workers: 1, stop: probe.stop.clone() };
            let build = Arc::new(builder.sorted(&probe.left, &batches, held)?);
            let reservation = MemoryConsumer::new("RangeJoinProbe").register(self.context.memory_pool());
            let seen = self.seen.as_ref().map(|(marks, _)| Seen::new(Arc::clone(marks), self.is_through));
            let input = self.parts.probe.rows()?;
            self.joins = Some(probe.clone().joined_with(build, input, reservation, seen).boxed());
        }
    }

    /// The next rows of the build side that fit into memory, at least one batch; none after the last.
    async fn part(&mut self) -> Result<(Vec<RecordBatch>, MemoryReservation)> {
        let held = MemoryConsumer::new("RangeJoinBuild").register(self.context.memory_pool());
        let mut batches = Vec::new();
        while let Some(batch) = match self.next.take() {
            Some((batch, _held)) => Some(batch),
            None => self.rest.try_next().await?.as_ref().map(own_buffers).transpose()?,
        } {
            self.probe.stop.check()?;
            match held.try_grow(weight(&batch)) {
                Ok(()) => batches.push(batch),
                Err(error) if batches.is_empty() => return Err(error),
                Err(_) => {
                    let waiting = held.new_empty();
                    waiting.grow(batch.get_array_memory_size());
                    self.next = Some((batch, waiting));
                    break;
                }
            }
        }
        Ok((batches, held))
    }
}
