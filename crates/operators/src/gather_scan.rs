//! Statistics gathered inside the scan: each worker hands the values of its pages to gatherers of its own, without a
//! batch of rows, a sort or a group.
//!
//! ```text
//!   page ─► stored values of the columns ─► the worker's Gatherer of the partition ┐
//!                                                                                  ├ merged when the scan is over
//!   page ─► …                            ─► another worker's                       ┘
//! ```
//! If the scan reads a sample, each page or extent that was drawn is a unit of the gatherers. The plan gives no rows.
//!
//! Leaves to others: which rows are read (`hobt-interpreter` writes a query), what becomes of the gatherers.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, RecordBatchStream};
use futures::Stream;
use hobt_access::scan::{PageVisitor, Scan, ScanWorker, ShownPage};
use hobt_access::{AccessError, LargeValues};
use hobt_engine::statistics_type;
use hobt_page::StoredValue;
use hobt_types::statistics::{GatherColumns, Gatherer};
use hobt_types::{MaxLength, SqlType};
use parking_lot::Mutex;

use super::role::{Role, role};
use super::scan_exec::{ScanExec, Started};
use super::turn::{self, Turn};
use hobt_table::{OperatorProfile, WorkerClock};
use hobt_udf::external;

/// The most rows of a worker from which a histogram is made.
const SAMPLE_ROWS_MAX: usize = 1 << 17;
/// The least, if the table has many partitions.
const SAMPLE_ROWS_MIN: usize = 1 << 13;

/// What scans gather of some columns.
#[derive(Debug)]
pub struct GatheredScan {
    columns: GatherColumns,
    /// The columns' positions in the table.
    places: Vec<usize>,
    /// Whether the pages are a sample.
    is_sample: bool,
    /// By partition of the table, from 0.
    parts: Mutex<BTreeMap<usize, Gatherer>>,
}

impl GatheredScan {
    /// Nothing yet, of the columns at these positions of a table. `is_sample`: a sample of its pages is read.
    pub fn new(columns: GatherColumns, places: Vec<usize>, is_sample: bool) -> Arc<GatheredScan> {
        Arc::new(GatheredScan { columns, places, is_sample, parts: Mutex::default() })
    }

    /// What was gathered, by partition of the table, from 0. Partitions without rows may be missing.
    pub fn take(&self) -> BTreeMap<usize, Gatherer> {
        std::mem::take(&mut self.parts.lock())
    }

    /// The plan of a query that reads these columns of all rows of a table, and nothing else, with the gatherers
    /// instead of rows. `None` if it is not a scan of the table.
    pub fn gathering(self: &Arc<GatheredScan>, plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
        match role(plan.as_ref()) {
            Role::Scan(scan) if scan.predicates().is_empty() => {
                Some(Arc::new(GatherScanExec { scan: Arc::clone(plan), gathered: Arc::clone(self) }))
            }
            Role::Project(_) => self.gathering(plan.children().first()?),
            _ => None,
        }
    }

    fn add(&self, parts: BTreeMap<usize, Gatherer>) {
        let mut all = self.parts.lock();
        for (partition, gatherer) in parts {
            match all.get_mut(&partition) {
                Some(known) => known.merge(gatherer),
                None => {
                    all.insert(partition, gatherer);
                }
            }
        }
    }
}

/// The part of a stored value of a `max` type that statistics are of: that of the longest other type
/// ([`statistics_type`]).
fn known_part(sql_type: SqlType, value: &[u8]) -> &[u8] {
    let limit = match statistics_type(sql_type) {
        same if same == sql_type => return value,
        SqlType::VarChar(MaxLength::Limited(limit)) => (usize::from(limit), false),
        SqlType::NVarChar(MaxLength::Limited(limit)) => (usize::from(limit), true),
        SqlType::VarBinary(MaxLength::Limited(limit)) => return &value[..value.len().min(usize::from(limit))],
        _ => return value,
    };
    let (characters, are_units) = limit;
    if value.len() <= characters {
        return value;
    }
    // Pages hold UTF-8. Limits are in characters, or in units of UTF-16, of which characters of four bytes have two.
    let mut left = characters;
    let end = value.iter().position(|byte| {
        let width = match byte {
            0x80..=0xBF => return false,
            0xF0.. if are_units => 2,
            _ => 1,
        };
        let is_beyond = width > left;
        left = left.saturating_sub(width);
        is_beyond
    });
    &value[..end.unwrap_or(value.len())]
}

/// A scan that gathers statistics; plans show it as the [`ScanExec`].
struct GatherScanExec {
    scan: Arc<dyn ExecutionPlan>,
    gathered: Arc<GatheredScan>,
}

impl GatherScanExec {
    fn around(&self, scan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(GatherScanExec { scan, gathered: Arc::clone(&self.gathered) })
    }
}

impl fmt::Debug for GatherScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatherScanExec").field("scan", &self.scan).finish_non_exhaustive()
    }
}

crate::inputs::shows_as!(GatherScanExec, scan);

impl ExecutionPlan for GatherScanExec {
    crate::inputs::stands_for!(scan);

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let source = self.scan.downcast_ref::<ScanExec>().expect("made from a scan");
        let Started { scan, profile } = source.start()?;
        let partitions = source.partitions().to_vec();
        let sample_rows = (SAMPLE_ROWS_MAX / partitions.len().max(1)).max(SAMPLE_ROWS_MIN);
        let pages = GatherPages {
            scan: Arc::clone(&scan),
            gathered: Arc::clone(&self.gathered),
            types: self.gathered.places.iter().map(|place| source.table().table().columns[*place].sql_type).collect(),
            partitions,
            sample_rows,
            parts: BTreeMap::new(),
            unit: None,
        };
        Ok(Box::pin(GatherStream {
            worker: ScanWorker::new(scan),
            clock: WorkerClock::new(&profile, partition),
            source: Arc::clone(&self.scan),
            profile,
            partition,
            pages,
            read: 0,
            waiting: false,
            turn: Turn::new(self.scan.output_partitioning().partition_count(), turn::RANGES),
            done: false,
        }))
    }
}

/// The gatherers of one worker.
struct GatherPages {
    scan: Arc<Scan>,
    gathered: Arc<GatheredScan>,
    /// The columns' types.
    types: Vec<SqlType>,
    /// The partitions that are scanned, by their positions in the table.
    partitions: Vec<usize>,
    sample_rows: usize,
    parts: BTreeMap<usize, Gatherer>,
    /// The partition and the unit of the page before.
    unit: Option<(usize, u64)>,
}

impl PageVisitor for GatherPages {
    fn visit(&mut self, shown: ShownPage<'_, '_>) -> std::result::Result<(), AccessError> {
        let GatheredScan { columns, places, is_sample, .. } = &*self.gathered;
        let (page, sample_rows) = (shown.page, self.sample_rows);
        let gatherer = self.parts.entry(self.partitions[shown.partition]).or_insert_with(|| match is_sample {
            true => Gatherer::of_units(columns.clone(), sample_rows),
            false => Gatherer::with_sample(columns.clone(), sample_rows),
        });
        let unit = (shown.partition, self.scan.sampled_unit(shown.id));
        if self.unit.replace(unit) != Some(unit) {
            gatherer.begin_unit();
        }
        if let Some(next) = shown.next {
            places.iter().for_each(|place| next.fetch(page, *place));
        }
        let (large, types) = (self.scan.large_values(shown.partition), &self.types);
        let slots = (0..page.row_count()).filter(|slot| !page.is_deleted(*slot));
        let stored = |place: usize, slot: usize| {
            page.stored(place, slot).map_err(|damage| self.scan.damaged_page(shown.id, damage))
        };
        if let ([place], false) = (places.as_slice(), page.has_pointers()) {
            let known = |bytes| known_part(types[0], bytes);
            let values = slots.map(|slot| stored(*place, slot).map(|value| value.in_row().map(known)));
            let values: Vec<Option<&[u8]>> = values.collect::<std::result::Result<_, _>>()?;
            gatherer.add_column(values.into_iter());
            return Ok(());
        }
        for slot in slots {
            let row = places.iter().map(|place| match stored(*place, slot)? {
                StoredValue::Pointer(pointer) => large.fetch(&pointer).map(Some),
                other => Ok(other.in_row().map(<[u8]>::to_vec)),
            });
            let row: Vec<Option<Vec<u8>>> = row.collect::<std::result::Result<_, AccessError>>()?;
            let known = row.iter().zip(types);
            let row: Vec<Option<&[u8]>> =
                known.map(|(value, sql_type)| value.as_deref().map(|bytes| known_part(*sql_type, bytes))).collect();
            // A value that its column cannot have is left out; it makes the statement fail that uses it.
            let _left_out = gatherer.add(&row);
        }
        Ok(())
    }
}

struct GatherStream {
    worker: ScanWorker,
    clock: WorkerClock,
    source: Arc<dyn ExecutionPlan>,
    profile: Arc<OperatorProfile>,
    partition: usize,
    pages: GatherPages,
    /// Rows read that are counted in the statement's progress already.
    read: u64,
    waiting: bool,
    turn: Turn,
    done: bool,
}

impl GatherStream {
    fn scan(&self) -> &ScanExec {
        self.source.downcast_ref::<ScanExec>().expect("made from a scan")
    }

    fn set_waiting(&mut self, waiting: bool) {
        if self.waiting != waiting {
            self.waiting = waiting;
            self.scan().run().pending.reads(waiting);
        }
    }

    /// Publishes the counters.
    fn report(&mut self) {
        let before = std::mem::replace(&mut self.read, self.worker.rows());
        self.scan().run().note_scanned(self.read - before);
        self.profile.set_scanned(self.partition, &self.worker);
        self.clock.lap();
    }

    fn poll_end(&mut self, task: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        loop {
            if self.turn.is_over(task) {
                self.report();
                return Poll::Pending;
            }
            let polled = self.worker.poll_range(task, &mut self.pages);
            self.set_waiting(polled.is_pending());
            if !matches!(polled, Poll::Ready(Some(Ok(())))) {
                self.report();
            }
            match polled {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(()))) => {}
                Poll::Ready(Some(Err(error))) => {
                    self.done = true;
                    let error = self.scan().table().sql_error(error);
                    return Poll::Ready(Some(Err(external(error))));
                }
                Poll::Ready(None) => {
                    self.done = true;
                    let parts = std::mem::take(&mut self.pages.parts);
                    self.pages.gathered.add(parts);
                    return Poll::Ready(None);
                }
            }
        }
    }
}

impl Drop for GatherStream {
    fn drop(&mut self) {
        self.set_waiting(false);
    }
}

impl Stream for GatherStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.done {
            return Poll::Ready(None);
        }
        this.clock.begin();
        let polled = this.poll_end(task);
        this.clock.end();
        polled
    }
}

impl RecordBatchStream for GatherStream {
    fn schema(&self) -> SchemaRef {
        self.source.schema()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_max_types_are_known_up_to_the_length_of_the_longest_others() {
        let (text, unicode) = (SqlType::VarChar(MaxLength::Max), SqlType::NVarChar(MaxLength::Max));
        let ascii = "a".repeat(9000).into_bytes();
        assert_eq!(known_part(text, &ascii).len(), 8000);
        assert_eq!(known_part(unicode, &ascii).len(), 4000);
        assert_eq!(known_part(SqlType::VarBinary(MaxLength::Max), &ascii).len(), 8000);
        assert_eq!(known_part(SqlType::VarChar(MaxLength::Limited(20)), &ascii[..20]), &ascii[..20]);
        let accents = "\u{e9}".repeat(5000).into_bytes();
        assert_eq!(known_part(text, &accents), accents, "characters are counted, not bytes");
        assert_eq!(known_part(unicode, &accents).len(), 8000);
        let wide = "\u{1f600}".repeat(3000).into_bytes();
        assert_eq!(known_part(unicode, &wide).len(), 4 * 2000, "two units each");
        let odd = ["a", &"\u{1f600}".repeat(3000)].concat().into_bytes();
        assert_eq!(known_part(unicode, &odd).len(), 1 + 4 * 1999, "no half of a character");
    }
}
