//! The rows of one output partition: for each row of the probe side, the rows of the build side within its bounds.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::{filter, take};
use arrow::datatypes::{DataType, SchemaRef, UInt32Type};
use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::{Stream, TryStreamExt};
use parking_lot::Mutex;

use super::build::{BuildSide, Stretches};
use super::conditions::{Bound, Ranges};
use super::form_of;
use super::keys::Keys;
use super::reach::Reach;
use crate::join_types::shows_left_by_partners;
use crate::stop::Stop;

/// What a worker needs to know of its join.
#[derive(Clone)]
pub(super) struct Probe {
    pub(super) ranges: Arc<Ranges>,
    pub(super) join_type: JoinType,
    /// The sources of the output's columns.
    pub(super) columns: Vec<ColumnIndex>,
    pub(super) schema: SchemaRef,
    pub(super) left: SchemaRef,
    pub(super) right: SchemaRef,
    pub(super) stop: Stop,
    /// The most rows of a batch.
    pub(super) rows_max: usize,
    pub(super) metrics: BaselineMetrics,
}

impl Probe {
    fn shows_pairs(&self) -> bool {
        matches!(self.join_type, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full)
    }

    /// Whether it matters which rows of the probe side have partners.
    pub(super) fn marks_probe(&self) -> bool {
        matches!(
            self.join_type,
            JoinType::Right | JoinType::Full | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark
        )
    }

    /// Whether it matters which rows of the build side have partners.
    pub(super) fn marks_build(&self) -> bool {
        shows_left_by_partners(self.join_type)
    }

    /// Whether an empty build side gives no output.
    fn needs_build(&self) -> bool {
        !self.marks_probe() || self.join_type == JoinType::RightSemi
    }

    /// Whether one partner is enough for each row of the probe side, and there is no residual condition.
    fn needs_one(&self) -> bool {
        !self.shows_pairs() && self.marks_probe() && self.ranges.residual.is_none()
    }

    /// Whether only marks on the build side are needed, set by stretches or row by row, and no pair is made.
    fn marks_alone(&self) -> bool {
        !self.shows_pairs() && self.marks_build() && self.ranges.residual.is_none()
    }

    /// The output of a build side and the rows of a partition. `seen`: the partners found in earlier parts.
    pub(super) fn joined_with(
        self,
        build: Arc<BuildSide>,
        input: SendableRecordBatchStream,
        reservation: MemoryReservation,
        seen: Option<Seen>,
    ) -> impl Stream<Item = Result<RecordBatch>> + Send {
        let worker = Worker {
            probe: self,
            input,
            build,
            has_begun: false,
            seen,
            reservation,
            open: None,
            own: Own::default(),
            last: None,
        };
        futures::stream::try_unfold(worker, |mut worker| async move {
            let batch = worker.next().await?;
            Ok(batch.map(|batch| (batch, worker)))
        })
    }
}

/// Which rows of the probe side have had a partner. The probe side is read again for each part of the build side.
pub(super) struct Seen {
    marks: Arc<Mutex<Vec<bool>>>,
    /// Rows read so far.
    count: usize,
    /// Whether this is the last part.
    is_last: bool,
}

impl Seen {
    pub(super) fn new(marks: Arc<Mutex<Vec<bool>>>, is_last: bool) -> Seen {
        Seen { marks, count: 0, is_last }
    }

    /// The flags of the next rows.
    fn next(&self, rows: usize) -> Vec<bool> {
        self.marks.lock()[self.count..self.count + rows].to_vec()
    }

    /// Stores their flags.
    fn put(&mut self, marks: &[bool]) {
        self.marks.lock()[self.count..self.count + marks.len()].copy_from_slice(marks);
        self.count += marks.len();
    }
}

/// Bounds that the rows of a batch set.
struct Limit {
    values: Keys,
    includes: bool,
}

impl Limit {
    fn of(bound: &Option<Bound>, batch: &RecordBatch) -> Result<Option<Limit>> {
        let Some(bound) = bound else { return Ok(None) };
        let array: ArrayRef = bound.value.evaluate(batch)?.into_array(batch.num_rows())?;
        let values = form_of(&bound.value, &batch.schema())?.keys(&array)?;
        Ok(Some(Limit { values, includes: bound.includes }))
    }
}

/// A batch of the probe side, and the join's position in it.
struct OpenBatch {
    batch: RecordBatch,
    low: Option<Limit>,
    high: Option<Limit>,
    other: Option<Limit>,
    /// Whether stretches begin with the first build row. Rows that reach far enough are then assumed to be near their
    /// ends.
    is_below: bool,
    /// The row that is being joined.
    row: usize,
    /// The rest of its stretch of the sorted build rows, and the least rank of its partners in the other order.
    stretch: Option<(Range<usize>, u32)>,
    /// Which rows have had a partner.
    marks: Vec<bool>,
}

impl OpenBatch {
    /// The stretch of a row, with the least rank that its partners have in the other order.
    fn stretch_of(&self, build: &BuildSide, row: usize) -> (Range<usize>, u32) {
        let limits = [&self.low, &self.high, &self.other];
        if limits.into_iter().flatten().any(|limit| limit.values.is_null(row)) {
            return (0..0, 0);
        }
        let sorted = &build.sorted;
        let from = self.low.as_ref().map_or(0, |low| sorted.count_below(&low.values, row, !low.includes));
        let all = sorted.rows().len();
        let to = self.high.as_ref().map_or(all, |high| sorted.count_below(&high.values, row, high.includes));
        let least = match (&build.other, &self.other) {
            (Some(other), Some(limit)) => other.least(&limit.values, row),
            _ => 0,
        };
        (from..to.max(from), least)
    }
}

/// A worker's marks on the build side, kept until its end.
#[derive(Default)]
struct Own {
    /// For each position of the order, how many more stretches cover it than the one before.
    stretches: Vec<i64>,
    /// The rows that it has not marked.
    unmarked: Option<Reach>,
}

/// A worker's state in its part of the probe side.
struct Worker {
    probe: Probe,
    input: SendableRecordBatchStream,
    build: Arc<BuildSide>,
    has_begun: bool,
    seen: Option<Seen>,
    reservation: MemoryReservation,
    open: Option<OpenBatch>,
    own: Own,
    /// At the end: the position from which on the build side's rows are still to be output.
    last: Option<usize>,
}

impl Worker {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let build = Arc::clone(&self.build);
        if !std::mem::replace(&mut self.has_begun, true) {
            self.begin(&build)?;
        }
        let made = self.joined(&build).await?;
        if let Some(batch) = &made {
            self.probe.metrics.record_output(batch.num_rows());
        }
        Ok(made)
    }

    /// Reserves memory for the worker's own marks.
    fn begin(&mut self, build: &BuildSide) -> Result<()> {
        if !self.probe.marks_alone() {
            return Ok(());
        }
        let count = build.sorted.rows().len();
        match &build.other {
            Some(other) => {
                self.reservation.try_grow(Reach::bytes(count))?;
                self.own.unmarked = Some(other.reach.clone());
            }
            None => {
                self.reservation.try_grow((count + 1) * size_of::<i64>())?;
                self.own.stretches = vec![0; count + 1];
            }
        }
        Ok(())
    }

    async fn joined(&mut self, build: &BuildSide) -> Result<Option<RecordBatch>> {
        loop {
            self.probe.stop.check()?;
            if let Some(from) = self.last {
                let timer = self.probe.metrics.elapsed_compute().clone();
                let _timed = timer.timer();
                return self.rest_of_build(build, from);
            }
            if let Some(mut open) = self.open.take() {
                let timer = self.probe.metrics.elapsed_compute().clone();
                let _timed = timer.timer();
                let made = self.pairs(build, &mut open)?;
                if open.row < open.batch.num_rows() {
                    self.open = Some(open);
                    match made {
                        Some(pairs) => return Ok(Some(pairs)),
                        // Pairs that all fail the residual condition take time without giving a batch at which the task
                        // could stop.
                        None => {
                            tokio::task::yield_now().await;
                            continue;
                        }
                    }
                }
                let is_shown = self.seen.as_ref().is_none_or(|seen| seen.is_last);
                self.seen.iter_mut().for_each(|seen| seen.put(&open.marks));
                let rest = if is_shown { self.rest_of_probe(&open)? } else { None };
                let all = [made, rest].into_iter().flatten().collect::<Vec<_>>();
                match all.as_slice() {
                    [] => continue,
                    [batch] => return Ok(Some(batch.clone())),
                    both => return Ok(Some(arrow::compute::concat_batches(&self.probe.schema, both)?)),
                }
            }
            let is_over = build.rows.num_rows() == 0 && self.probe.needs_build() && self.seen.is_none();
            let next = if is_over { None } else { self.input.try_next().await? };
            match next {
                Some(batch) => self.open = Some(self.opened(batch)?),
                None => self.last = Some(self.end(build)),
            }
        }
    }

    fn opened(&self, batch: RecordBatch) -> Result<OpenBatch> {
        let ranges = &self.probe.ranges;
        let marks = match &self.seen {
            Some(seen) => seen.next(batch.num_rows()),
            None if self.probe.marks_probe() => vec![false; batch.num_rows()],
            None => Vec::new(),
        };
        Ok(OpenBatch {
            low: Limit::of(&ranges.low, &batch)?,
            high: Limit::of(&ranges.high, &batch)?,
            other: Limit::of(&ranges.other, &batch)?,
            is_below: ranges.low.is_none(),
            batch,
            row: 0,
            stretch: None,
            marks,
        })
    }

    /// The next pairs of a batch, at most a batch of them; `None` if none is output.
    fn pairs(&mut self, build: &BuildSide, open: &mut OpenBatch) -> Result<Option<RecordBatch>> {
        if self.probe.marks_alone() {
            self.mark_build(build, open);
            return Ok(None);
        }
        let (mut of_build, mut of_probe) = (Vec::new(), Vec::new());
        let needs_one = self.probe.needs_one();
        let rows = build.sorted.rows();
        while of_build.len() < self.probe.rows_max && open.row < open.batch.num_rows() {
            let row = open.row;
            let (mut stretch, least) = open.stretch.take().unwrap_or_else(|| open.stretch_of(build, row));
            let room = if needs_one { 1 } else { self.probe.rows_max - of_build.len() };
            let before = of_build.len();
            match &build.other {
                None => {
                    let taken = stretch.len().min(room);
                    of_build.extend_from_slice(&rows[stretch.start..stretch.start + taken]);
                    stretch.start += taken;
                }
                Some(other) => {
                    while of_build.len() - before < room
                        && let Some(place) = other.reach.take(&mut stretch, least, open.is_below)
                    {
                        of_build.push(rows[place]);
                    }
                }
            }
            of_probe.resize(of_build.len(), u32::try_from(row).expect("a batch is not as long"));
            if stretch.is_empty() || (needs_one && of_build.len() > before) {
                open.row += 1;
            } else {
                open.stretch = Some((stretch, least));
            }
        }
        self.shown(build, open, (UInt32Array::from(of_build), UInt32Array::from(of_probe)))
    }

    /// Tests the residual condition on pairs, marks rows that have a partner, and outputs the pairs if the join does
    /// so.
    fn shown(
        &self,
        build: &BuildSide,
        open: &mut OpenBatch,
        (mut of_build, mut of_probe): (UInt32Array, UInt32Array),
    ) -> Result<Option<RecordBatch>> {
        if let Some(residual) = self.probe.ranges.residual.as_ref().filter(|_| !of_build.is_empty()) {
            let kept = kept(residual, (&build.rows, &of_build), (&open.batch, &of_probe))?;
            of_build = filter(&of_build, &kept)?.as_primitive::<UInt32Type>().clone();
            of_probe = filter(&of_probe, &kept)?.as_primitive::<UInt32Type>().clone();
        }
        if let Some(marks) = &build.marks {
            of_build.values().iter().for_each(|row| marks.set(*row));
        }
        if self.probe.marks_probe() {
            of_probe.values().iter().for_each(|row| open.marks[*row as usize] = true);
        }
        if of_build.is_empty() || !self.probe.shows_pairs() {
            return Ok(None);
        }
        self.batch(Some((&build.rows, &of_build)), Some((&open.batch, &of_probe)), None).map(Some)
    }

    /// Marks the build rows that are within the bounds of a batch's rows.
    fn mark_build(&mut self, build: &BuildSide, open: &mut OpenBatch) {
        let rows = build.sorted.rows();
        for row in open.row..open.batch.num_rows() {
            let (mut stretch, least) = open.stretch_of(build, row);
            let Some(unmarked) = &mut self.own.unmarked else {
                if !stretch.is_empty() {
                    self.own.stretches[stretch.start] += 1;
                    self.own.stretches[stretch.end] -= 1;
                }
                continue;
            };
            while let Some(place) = unmarked.take(&mut stretch, least, open.is_below) {
                build.marks.iter().for_each(|marks| marks.set(rows[place]));
                unmarked.remove(place);
            }
        }
        open.row = open.batch.num_rows();
    }

    /// The rows of a batch that are output by whether they have had a partner.
    fn rest_of_probe(&self, open: &OpenBatch) -> Result<Option<RecordBatch>> {
        let wanted: fn(bool) -> bool = match self.probe.join_type {
            JoinType::Right | JoinType::Full | JoinType::RightAnti => |has_partner| !has_partner,
            JoinType::RightSemi => |has_partner| has_partner,
            JoinType::RightMark => |_| true,
            _ => return Ok(None),
        };
        let rows = (0..).zip(&open.marks).filter(|(_, mark)| wanted(**mark)).map(|(row, _)| row);
        let rows: UInt32Array = rows.collect::<Vec<u32>>().into();
        if rows.is_empty() {
            return Ok(None);
        }
        let mark = (self.probe.join_type == JoinType::RightMark).then(|| BooleanArray::from(open.marks.clone()));
        self.batch(None, Some((&open.batch, &rows)), mark.as_ref()).map(Some)
    }

    /// Called when the worker has read its part. The last worker outputs the rest of the build side: returns its first
    /// position.
    fn end(&mut self, build: &BuildSide) -> usize {
        let changes = std::mem::take(&mut self.own.stretches);
        if let Some(marks) = build.marks.as_ref().filter(|_| !changes.is_empty()) {
            marks.add_stretches(Stretches { changes, _held: self.reservation.take() });
        }
        self.own.unmarked = None;
        self.reservation.free();
        let is_last = build.probing.fetch_sub(1, Ordering::AcqRel) == 1;
        match (&build.marks, is_last) {
            (Some(marks), true) => {
                marks.mark_stretches(&build.sorted);
                0
            }
            _ => build.rows.num_rows(),
        }
    }

    /// The next rows of the build side that are output by whether they have had a partner.
    fn rest_of_build(&mut self, build: &BuildSide, from: usize) -> Result<Option<RecordBatch>> {
        let wanted: fn(bool) -> bool = match self.probe.join_type {
            JoinType::Left | JoinType::Full | JoinType::LeftAnti => |has_partner| !has_partner,
            JoinType::LeftSemi => |has_partner| has_partner,
            JoinType::LeftMark => |_| true,
            _ => return Ok(None),
        };
        let Some(marks) = &build.marks else { return Ok(None) };
        let count = build.rows.num_rows();
        let mut rows: Vec<u32> = Vec::new();
        let mut at = from;
        while at < count && rows.len() < self.probe.rows_max {
            let row = u32::try_from(at).expect("the build side has looked");
            if wanted(marks.is_set(row)) {
                rows.push(row);
            }
            at += 1;
        }
        self.last = Some(at);
        if rows.is_empty() {
            return Ok(None);
        }
        let mark = (self.probe.join_type == JoinType::LeftMark)
            .then(|| rows.iter().map(|row| Some(marks.is_set(*row))).collect::<BooleanArray>());
        self.batch(Some((&build.rows, &rows.into())), None, mark.as_ref()).map(Some)
    }

    /// Rows of the output: of both sides, or of one and NULL, and a mark if the join gives one.
    fn batch(
        &self,
        build: Option<(&RecordBatch, &UInt32Array)>,
        probe: Option<(&RecordBatch, &UInt32Array)>,
        mark: Option<&BooleanArray>,
    ) -> Result<RecordBatch> {
        let count = build.or(probe).map_or(0, |(_, rows)| rows.len());
        let taken = |side: Option<(&RecordBatch, &UInt32Array)>, schema: &SchemaRef, at: usize| match side {
            Some((batch, rows)) => Ok(own_buffers(take(batch.column(at), rows, None)?)),
            None => Ok(new_null_array(schema.field(at).data_type(), count)),
        };
        let column = |index: &ColumnIndex| -> Result<ArrayRef> {
            match (index.side, mark) {
                (JoinSide::Left, _) => taken(build, &self.probe.left, index.index),
                (JoinSide::Right, _) => taken(probe, &self.probe.right, index.index),
                (JoinSide::None, Some(mark)) => Ok(Arc::new(mark.clone())),
                (JoinSide::None, None) => Ok(new_null_array(&arrow::datatypes::DataType::Boolean, count)),
            }
        };
        let columns = self.probe.columns.iter().map(column).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.probe.schema), columns, &options)?)
    }
}

/// Copies the values into buffers of their own: texts taken from a side would keep all its buffers alive.
fn own_buffers(array: ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        _ => array,
    }
}

/// Which pairs fulfil a condition.
fn kept(
    condition: &JoinFilter,
    (build, of_build): (&RecordBatch, &UInt32Array),
    (probe, of_probe): (&RecordBatch, &UInt32Array),
) -> Result<BooleanArray> {
    let column = |index: &ColumnIndex| match index.side {
        JoinSide::Left => take(build.column(index.index), of_build, None),
        _ => take(probe.column(index.index), of_probe, None),
    };
    let columns = condition.column_indices().iter().map(column).collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(of_build.len()));
    let pairs = RecordBatch::try_new_with_options(Arc::clone(condition.schema()), columns, &options)?;
    let kept = condition.expression().evaluate(&pairs)?.into_array(pairs.num_rows())?;
    Ok(kept.as_boolean().clone())
}
