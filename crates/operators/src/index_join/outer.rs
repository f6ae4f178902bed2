//! The outer side of an index join: its rows are read ahead and given again.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};
use futures::StreamExt;
use futures::future::{Either, select};
use hobt_base::SqlError;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{Inner, KeptInner};
use crate::inputs::{shows_its_name, without_inputs};
use crate::keeping::{Keeping, Recipe};
use hobt_table::{KeptRelation, Relation};
use hobt_udf::external;

/// Stands for the outer side in the plan of a join until its rows have been read.
#[derive(Debug)]
pub struct OuterExec {
    inner: Arc<Inner>,
    properties: Arc<PlanProperties>,
    expected: Arc<Relation>,
}

impl OuterExec {
    /// A stand-in for `outer`, whose rows are estimated to be `expected`, in the join with `inner`.
    pub fn new(inner: &Arc<Inner>, outer: &Arc<dyn ExecutionPlan>, expected: Arc<Relation>) -> OuterExec {
        OuterExec { inner: Arc::clone(inner), properties: Arc::clone(outer.properties()), expected }
    }

    /// How it is made again for another execution.
    pub(crate) fn kept(&self, keeping: &mut Keeping) -> Recipe {
        let (inner, properties) = (KeptInner::of(&self.inner, keeping), Arc::clone(&self.properties));
        let expected = KeptRelation::of(&self.expected, &mut |table| keeping.table(table));
        Box::new(move |making, _| {
            let expected = Arc::new(expected.of_tables(making.tables()));
            Ok(Arc::new(OuterExec { inner: inner.made(making)?, properties: Arc::clone(&properties), expected }))
        })
    }

    /// The estimate of the outer side's rows.
    pub fn expected(&self) -> &Relation {
        &self.expected
    }

    /// Whether it is the stand-in of the join with `inner`.
    pub(super) fn is_of(&self, inner: &Arc<Inner>) -> bool {
        Arc::ptr_eq(&self.inner, inner)
    }
}

shows_its_name!(OuterExec);

impl ExecutionPlan for OuterExec {
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    without_inputs!();

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Err(external(SqlError::internal("the outer side of a join ran before its rows were there")))
    }
}

/// Rows read of an outer side, by its partitions, and the streams of the rows not yet read.
pub(super) struct OuterRows {
    partitions: Vec<Vec<RecordBatch>>,
    rest: Mutex<Vec<Option<SendableRecordBatchStream>>>,
    _reservation: Option<MemoryReservation>,
}

impl fmt::Debug for OuterRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OuterRows").field("partitions", &self.partitions.len()).finish_non_exhaustive()
    }
}

impl OuterRows {
    /// Whether all rows have been read.
    pub(super) fn is_all(&self) -> bool {
        self.rest.lock().iter().all(Option::is_none)
    }

    /// The rows that have been read.
    pub(super) fn batches(&self) -> impl Iterator<Item = &RecordBatch> {
        self.partitions.iter().flatten()
    }

    /// These rows alone, and the streams of the rest if there is any.
    pub(super) fn split(self) -> (OuterRows, Option<Vec<Option<SendableRecordBatchStream>>>) {
        let is_all = self.is_all();
        let rest = self.rest.into_inner();
        let none = rest.iter().map(|_| None).collect();
        (OuterRows { rest: Mutex::new(none), ..self }, (!is_all).then_some(rest))
    }
}

/// The state shared by the readers of the partitions.
struct Progress {
    rows: AtomicUsize,
    rows_max: usize,
    reservation: Mutex<MemoryReservation>,
    stop: watch::Sender<bool>,
}

impl Progress {
    /// Counts a batch; stops all readers if there are too many rows or there is no memory for them.
    fn add(&self, batch: &RecordBatch) {
        let rows = self.rows.fetch_add(batch.num_rows(), Ordering::Relaxed) + batch.num_rows();
        let has_room = self.reservation.lock().try_grow(batch.get_array_memory_size()).is_ok();
        if rows > self.rows_max || !has_room {
            self.stop.send_replace(true);
        }
    }
}

/// The rows read of a partition, and the stream of its rest.
type Read = (Vec<RecordBatch>, Option<SendableRecordBatchStream>);

/// Reads all partitions concurrently until they have ended, or have more than `rows_max` rows together, or memory runs
/// out.
///
/// # Errors
/// The first error of the outer side.
pub(super) async fn read_outer(
    streams: Vec<Option<SendableRecordBatchStream>>,
    rows_max: usize,
    reservation: MemoryReservation,
) -> Result<OuterRows> {
    let (stop, stopped) = watch::channel(false);
    let reservation = Mutex::new(reservation);
    let progress = Arc::new(Progress { rows: AtomicUsize::new(0), rows_max, reservation, stop });
    let mut read: Vec<Read> = Vec::with_capacity(streams.len());
    if let [Some(_)] = streams.as_slice() {
        let stream = streams.into_iter().flatten().next().expect("there is one");
        read.push(read_partition(stream, Arc::clone(&progress), stopped).await?);
    } else {
        let begin = |stream: SendableRecordBatchStream| {
            SpawnedTask::spawn(read_partition(stream, Arc::clone(&progress), stopped.clone()))
        };
        let tasks: Vec<_> = streams.into_iter().map(|stream| stream.map(begin)).collect();
        for task in tasks {
            read.push(match task {
                Some(task) => task.await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??,
                None => (Vec::new(), None),
            });
        }
    }
    let reservation = Arc::try_unwrap(progress).ok().map(|progress| progress.reservation.into_inner());
    let (partitions, rest) = read.into_iter().unzip();
    Ok(OuterRows { partitions, rest: Mutex::new(rest), _reservation: reservation })
}

async fn read_partition(
    mut stream: SendableRecordBatchStream,
    progress: Arc<Progress>,
    mut stopped: watch::Receiver<bool>,
) -> Result<Read> {
    let mut batches = Vec::new();
    loop {
        if *stopped.borrow() {
            return Ok((batches, Some(stream)));
        }
        // `progress` holds the sender, so it is not dropped here: this wait ends only when the flag is set.
        let next = match select(stream.next(), pin!(stopped.wait_for(|is_over| *is_over))).await {
            Either::Left((next, _)) => next,
            Either::Right(_) => return Ok((batches, Some(stream))),
        };
        let Some(batch) = next else { return Ok((batches, None)) };
        let batch = batch?;
        progress.add(&batch);
        batches.push(batch);
    }
}

/// Gives the rows of an outer side that were read, then the rest.
#[derive(Debug)]
pub(crate) struct ReplayExec {
    rows: Arc<OuterRows>,
    properties: Arc<PlanProperties>,
}

impl ReplayExec {
    /// Gives the rows in place of a plan with these properties.
    pub(super) fn new(rows: Arc<OuterRows>, properties: &Arc<PlanProperties>) -> ReplayExec {
        ReplayExec { rows, properties: Arc::clone(properties) }
    }
}

shows_its_name!(ReplayExec);

impl ExecutionPlan for ReplayExec {
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    without_inputs!();

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = Arc::clone(&self.rows);
        let rest = rows.rest.lock()[partition].take();
        let batches = rows.partitions[partition].clone();
        let held = futures::stream::iter(batches.into_iter().map(move |batch| {
            // The memory is released when the last batch of it has been passed on.
            let _held = &rows;
            Ok(batch)
        }));
        let all = held.chain(futures::stream::iter(rest).flatten());
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), all)))
    }
}
