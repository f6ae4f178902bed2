//! Counters of each worker of each operator that keeps them, for `sys.dm_exec_query_profiles`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hobt_access::scan::{ScanWorker, WorkerProgress, WorkerReads};
use hobt_base::{DatabaseId, IndexId, ObjectId};
use hobt_instruments::{nanoseconds, processor};
use parking_lot::Mutex;

use crate::TableRead;
use hobt_showplan::NodeMark;

/// The rows and pages that a pushed filter has left out, all workers together.
#[derive(Debug, Default)]
pub struct FilterCounts {
    /// What it compares.
    pub(crate) name: String,
    /// Whether a join made it.
    pub(crate) is_of_join: bool,
    /// The kind of its key set.
    pub kind: OnceLock<&'static str>,
    /// Rows that it left out.
    pub rows: AtomicU64,
    /// Pages that were tested.
    pub pages: AtomicU64,
    /// Pages that were left out as a whole.
    pub skipped_pages: AtomicU64,
}

/// One operator of a running or finished statement.
#[derive(Debug)]
pub struct OperatorProfile {
    /// SQL Server's name for the operator: `Table Scan`.
    pub operator: &'static str,
    /// The table's database.
    pub database: DatabaseId,
    /// The table it works on.
    pub object: ObjectId,
    /// Its name.
    pub table: String,
    /// The id of the index that it reads; 0 for a heap.
    pub index_id: IndexId,
    /// The estimated rows of all workers together, if there is an estimate.
    pub estimated_rows: Option<u64>,
    /// Where the plan shows it.
    pub mark: NodeMark,
    /// Whether its workers' page reads are counted one by one.
    counts_reads: bool,
    workers: Vec<Counters>,
    filters: Mutex<Vec<Arc<FilterCounts>>>,
}

/// The counters of one worker of an operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkerProfile {
    /// Rows that it has given, or read if it aggregates them.
    pub rows: u64,
    /// Rows that it has read.
    pub rows_read: u64,
    /// Page ranges that it took.
    pub grants: u64,
    /// Pages that it has read; `None` if they are counted only for the table.
    pub reads: Option<WorkerReads>,
    /// Processor time; zero if it is not measured.
    pub cpu: Duration,
    /// From its first work to its last; zero if it is not measured.
    pub elapsed: Duration,
}

/// The rows and pages that a pushed filter has left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilterProfile {
    /// What it compares: a column's name.
    pub name: String,
    /// Whether a join above made it; otherwise it is a condition of the statement.
    pub is_of_join: bool,
    /// The kind of its key set: `range`, `bitmap`, `Bloom`, `empty`; `None` if its keys were never complete.
    pub kind: Option<&'static str>,
    /// Rows left out from pages that were read.
    pub rows: u64,
    /// Pages of which it left out the last remaining rows.
    pub pages: u64,
    /// Pages that were not read because of it.
    pub skipped_pages: u64,
}

/// Written by one worker, read by any thread.
#[derive(Debug, Default)]
struct Counters {
    rows: AtomicU64,
    rows_read: AtomicU64,
    grants: AtomicU64,
    logical_reads: AtomicU64,
    physical_reads: AtomicU64,
    read_ahead_reads: AtomicU64,
    cpu_ns: AtomicU64,
    elapsed_ns: AtomicU64,
}

impl OperatorProfile {
    /// An operator on a table's index with `workers` workers that have done nothing yet.
    pub fn new(operator: &'static str, table: &TableRead, index_id: IndexId, workers: usize) -> OperatorProfile {
        OperatorProfile {
            operator,
            database: table.database().id(),
            object: table.table().id,
            table: table.table().name.clone(),
            index_id,
            estimated_rows: None,
            mark: NodeMark::default(),
            counts_reads: false,
            workers: (0..workers).map(|_| Counters::default()).collect(),
            filters: Mutex::default(),
        }
    }

    /// Makes it show its workers' page reads.
    #[must_use]
    pub fn counting_reads(self) -> OperatorProfile {
        OperatorProfile { counts_reads: true, ..self }
    }

    /// Sets the estimated rows of all workers together.
    #[must_use]
    pub fn estimated(self, rows: u64) -> OperatorProfile {
        OperatorProfile { estimated_rows: Some(rows), ..self }
    }

    /// Sets where the plan shows it.
    #[must_use]
    pub fn marked(self, mark: &NodeMark) -> OperatorProfile {
        OperatorProfile { mark: mark.clone(), ..self }
    }

    /// The counters of the filter at this position, a join's or a condition's; `name` is what it compares.
    pub fn filter(&self, place: usize, name: &str, is_of_join: bool) -> Arc<FilterCounts> {
        let mut filters = self.filters.lock();
        while filters.len() <= place {
            let name = name.to_owned();
            filters.push(Arc::new(FilterCounts { name, is_of_join, ..FilterCounts::default() }));
        }
        Arc::clone(&filters[place])
    }

    /// The counters of each filter that was pushed down to it.
    pub fn filters(&self) -> Vec<FilterProfile> {
        let of = |counts: &Arc<FilterCounts>| FilterProfile {
            name: counts.name.clone(),
            is_of_join: counts.is_of_join,
            kind: counts.kind.get().copied(),
            rows: counts.rows.load(Ordering::Relaxed),
            pages: counts.pages.load(Ordering::Relaxed),
            skipped_pages: counts.skipped_pages.load(Ordering::Relaxed),
        };
        self.filters.lock().iter().map(of).collect()
    }

    /// Sets the counters of a worker whose page reads are not counted.
    pub fn set(&self, worker: usize, rows: u64, grants: u64) {
        self.workers[worker].rows.store(rows, Ordering::Relaxed);
        self.workers[worker].rows_read.store(rows, Ordering::Relaxed);
        self.workers[worker].grants.store(grants, Ordering::Relaxed);
    }

    /// Like [`OperatorProfile::set`], for a worker that has given and read these numbers of rows.
    pub fn set_read(&self, worker: usize, (given, read): (u64, u64), grants: u64) {
        self.set(worker, read, grants);
        self.set_given(worker, given);
    }

    /// Sets the counters of a scan's worker.
    pub fn set_scanned(&self, worker: usize, scanned: &ScanWorker) {
        let WorkerProgress { rows, grants, reads } = scanned.progress();
        self.set(worker, rows, grants);
        let counters = &self.workers[worker];
        counters.logical_reads.store(reads.logical, Ordering::Relaxed);
        counters.physical_reads.store(reads.physical, Ordering::Relaxed);
        counters.read_ahead_reads.store(reads.read_ahead, Ordering::Relaxed);
    }

    /// Sets the rows given by a worker that leaves rows out, after its other counters.
    pub fn set_given(&self, worker: usize, rows: u64) {
        self.workers[worker].rows.store(rows, Ordering::Relaxed);
    }

    /// The counters of each worker.
    pub fn workers(&self) -> Vec<WorkerProfile> {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let worker = |counters: &Counters| WorkerProfile {
            rows: of(&counters.rows),
            rows_read: of(&counters.rows_read),
            grants: of(&counters.grants),
            reads: self.counts_reads.then(|| WorkerReads {
                logical: of(&counters.logical_reads),
                physical: of(&counters.physical_reads),
                read_ahead: of(&counters.read_ahead_reads),
            }),
            cpu: Duration::from_nanos(of(&counters.cpu_ns)),
            elapsed: Duration::from_nanos(of(&counters.elapsed_ns)),
        };
        self.workers.iter().map(worker).collect()
    }
}

/// One worker's time in an operator.
#[derive(Debug)]
pub struct WorkerClock {
    profile: Arc<OperatorProfile>,
    worker: usize,
    /// When it began first.
    since: Option<Instant>,
    /// The thread's processor time at the last addition; `None` between two steps.
    cpu_before: Option<Duration>,
}

impl WorkerClock {
    /// For a worker that has not begun.
    pub fn new(profile: &Arc<OperatorProfile>, worker: usize) -> WorkerClock {
        WorkerClock { profile: Arc::clone(profile), worker, since: None, cpu_before: None }
    }

    /// Begins a step of the worker.
    pub fn begin(&mut self) {
        if hobt_instruments::accounting() {
            self.since.get_or_insert_with(Instant::now);
            self.cpu_before = Some(processor::thread_cpu_time());
        }
    }

    /// Adds the time of the step so far.
    pub fn lap(&mut self) {
        let (Some(since), Some(before)) = (self.since, self.cpu_before) else { return };
        let now = processor::thread_cpu_time();
        self.cpu_before = Some(now);
        let counters = &self.profile.workers[self.worker];
        counters.cpu_ns.fetch_add(nanoseconds(now.saturating_sub(before)), Ordering::Relaxed);
        counters.elapsed_ns.store(nanoseconds(since.elapsed()), Ordering::Relaxed);
    }

    /// Ends the step; the next may be on another thread.
    pub fn end(&mut self) {
        self.lap();
        self.cpu_before = None;
    }
}
