//! The state of a running statement that its operators share: context, settings, counters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use datafusion::physical_plan::ExecutionPlan;
use hobt_access::scan::{Scan, ScanSettings};
use hobt_base::{DatabaseId, EXTENT_PAGES, ObjectId, PAGE_SIZE, SessionId, SqlError};
use hobt_catalog::{Index, IndexUse, IndexUser, Statistics, Table};
use hobt_engine::{Database, DatabaseUse, Instance};
use hobt_files::Rejections;
use hobt_instruments::{WaitCounters, nanoseconds};
use hobt_tsql::ast::Span;
use hobt_txn::locks::HeldLock;
use hobt_txn::{IoCounts, Progress, StatementContext, Transaction};
use parking_lot::Mutex;

use super::memory_figures::MemoryFigures;
use super::noted_statistics::NotedStatistics;
use super::pending::PendingReasons;
use super::profile::OperatorProfile;
use super::steps::{PlanRows, Steps, Writes};
use crate::TableRead;
use crate::cardinality::Assumptions;
use hobt_showplan::{MemoryShown, StatisticsCost, StatisticsRead};

/// The number of values on which the estimates of one statement may evaluate expressions: enough for a hundred
/// expressions, each on a few thousand values.
const TRIED_VALUES_MAX: u64 = 1 << 19;

/// The plan of a running statement.
#[derive(Clone)]
pub struct Running {
    /// The plan, as long as it exists.
    pub plan: Weak<dyn ExecutionPlan>,
    /// The batch's text, the statement's span in it, and SQL Server's name for its kind.
    pub text: Arc<str>,
    /// The statement's span in the text.
    pub span: Span,
    /// SQL Server's name for the statement's kind.
    pub kind: &'static str,
    /// The table that is changed, and the columns that an `UPDATE` changes.
    pub change: Option<(DatabaseUse, Arc<Table>, Option<Vec<usize>>)>,
}

/// The rows that a worker has written into a table.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Writing {
    /// Rows.
    pub rows: u64,
    /// Processor time.
    pub cpu: Duration,
}

/// What is fixed when a statement begins.
#[derive(Debug, Default)]
pub struct RunSettings {
    /// `MAXDOP`; 0 or `None` means the instance's setting.
    pub max_dop: Option<usize>,
    /// Whether its scans read no pages ahead (trace flag 652).
    pub no_read_ahead: bool,
    /// Whether joins give scans no filters.
    pub no_join_filters: bool,
    /// The least and the most percentage of the operators' memory that it may request; `None` to follow the estimates.
    pub grant_percent: (Option<f64>, Option<f64>),
    /// The trace flags that are on.
    pub trace_flags: BTreeSet<i32>,
    /// The assumptions of its estimates.
    pub assumptions: Assumptions,
}

/// What its threads add up.
#[derive(Default)]
struct Totals {
    worker_cpu_ns: AtomicU64,
    worker_time_ns: AtomicU64,
    /// The most workers of any of its plans.
    workers: AtomicUsize,
    /// Elapsed time and processor time of its binding and planning.
    compile_ns: AtomicU64,
    compile_cpu_ns: AtomicU64,
    /// How often both sides of a join were put on disk.
    join_splits: Arc<AtomicU64>,
    /// On how many values estimates have evaluated expressions.
    tried: AtomicU64,
}

/// What is noted for views, plans and figures.
#[derive(Default)]
struct Noted {
    tables: Mutex<Vec<(String, Arc<IoCounts>)>>,
    scans: Mutex<Vec<Arc<Scan>>>,
    profiles: Mutex<Vec<Arc<OperatorProfile>>>,
    /// The rows that workers wrote into tables, by worker.
    written: Mutex<BTreeMap<usize, Writing>>,
    running: Mutex<Option<Running>>,
    /// The memory figures of its operators.
    memory: Mutex<Option<Arc<MemoryFigures>>>,
    /// The statistics that estimates have read.
    statistics: NotedStatistics,
    /// The statistics that were made first.
    statistics_cost: Mutex<StatisticsCost>,
    /// What counts as steps of its progress.
    steps: Steps,
    has_left_duplicates_out: AtomicBool,
    /// Rows of files that could not be read.
    rejections: Mutex<Vec<(u32, Arc<Rejections>)>>,
}

/// What its own thread decides while it goes on.
#[derive(Default)]
struct Decided {
    databases: Mutex<Vec<DatabaseUse>>,
    /// Tables that it reads as a whole under `SERIALIZABLE`, and whether they have been requested to be locked as such.
    whole: Mutex<Vec<((DatabaseId, ObjectId), bool)>>,
    /// Whether it has one worker, whatever its degree of parallelism would be.
    is_serial: AtomicBool,
    /// Whether its current work is the engine's own.
    is_internal: AtomicBool,
    /// Whether its plan is kept to be shown after its run.
    keeps_plan: AtomicBool,
}

/// The state that the operators of one statement share.
pub struct StatementRun {
    /// Cancellation, memory, undo.
    pub context: Arc<StatementContext>,
    /// The instance.
    pub instance: Arc<Instance>,
    /// The settings of scans.
    pub scan_settings: ScanSettings,
    /// Processors that workers are bound to; empty if they are not bound.
    pub affinity: Vec<usize>,
    /// The statement's waits.
    pub waits: Arc<WaitCounters>,
    /// The reasons why its workers are parked.
    pub pending: Arc<PendingReasons>,
    settings: RunSettings,
    cancelled: Arc<AtomicBool>,
    counts_index_use: bool,
    totals: Totals,
    noted: Noted,
    decided: Decided,
}

impl std::fmt::Debug for StatementRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatementRun").field("context", &self.context).finish_non_exhaustive()
    }
}

impl StatementRun {
    /// Notes where rows of files are collected that cannot be read, and the line of the batch that names the files.
    pub fn note_rejections(&self, line: u32, rejections: &Arc<Rejections>) {
        self.noted.rejections.lock().push((line, Arc::clone(rejections)));
    }

    /// Takes what [`StatementRun::note_rejections`] has noted.
    pub fn take_rejections(&self) -> Vec<(u32, Arc<Rejections>)> {
        std::mem::take(&mut *self.noted.rejections.lock())
    }

    /// Whether a trace flag is on for the statement.
    pub fn has_trace_flag(&self, flag: i32) -> bool {
        self.settings.trace_flags.contains(&flag)
    }

    /// The trace flags that are on for the statement.
    pub fn trace_flags(&self) -> &BTreeSet<i32> {
        &self.settings.trace_flags
    }

    /// The assumptions of its estimates.
    pub fn assumptions(&self) -> &Assumptions {
        &self.settings.assumptions
    }

    /// Whether estimates may evaluate an expression on `values` more values; if so, these are counted. `false` if the
    /// statement was cancelled.
    pub(crate) fn may_try(&self, values: usize) -> bool {
        let more = |tried: u64| Some(tried + values as u64).filter(|tried| *tried <= TRIED_VALUES_MAX);
        let tried = &self.totals.tried;
        !self.is_cancelled() && tried.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Notes that its estimates read statistics of a table.
    pub(crate) fn note_statistics(&self, heap: &TableRead, statistics: &Arc<Statistics>) {
        self.noted.statistics.note(heap, statistics);
    }

    /// The statistics that its estimates have read, without a use of their databases.
    pub fn noted_statistics(&self) -> Vec<(DatabaseId, Arc<Table>, Arc<Statistics>)> {
        self.noted.statistics.noted()
    }

    /// Notes statistics that the estimates of its plan, which was kept, have read.
    pub fn note_kept_statistics(&self, database: &DatabaseUse, table: &Arc<Table>, statistics: &Arc<Statistics>) {
        self.noted.statistics.note_of(database, table, statistics);
    }

    /// The statistics that its estimates have read.
    pub fn statistics_read(&self) -> Vec<StatisticsRead> {
        self.noted.statistics.shown()
    }

    /// Counts a use of an index. Does not block other threads.
    pub fn note_use(&self, index: &Index, used: IndexUse) {
        if self.counts_index_use {
            let is_internal = self.decided.is_internal.load(Ordering::Relaxed);
            index.usage.note(used, if is_internal { IndexUser::System } else { IndexUser::User });
        }
    }

    /// Whether joins give scans filters.
    pub fn uses_join_filters(&self) -> bool {
        !self.settings.no_join_filters
    }

    /// How often both sides of a join were put on disk, because the build side did not fit into memory.
    pub fn join_splits(&self) -> &Arc<AtomicU64> {
        &self.totals.join_splits
    }

    /// Whether a user's use of indexes is counted now.
    pub(crate) fn counts_index_use(&self) -> bool {
        self.counts_index_use && !self.decided.is_internal.load(Ordering::Relaxed)
    }

    /// Sets whether the work that follows is the engine's own, such as reading rows to build an index.
    pub fn set_internal(&self, is_internal: bool) {
        self.decided.is_internal.store(is_internal, Ordering::Relaxed);
    }

    /// Keeps the plan to be shown after the run, so that operators keep what is needed for that.
    pub fn keep_plan(&self) {
        self.decided.keeps_plan.store(true, Ordering::Relaxed);
    }

    /// Whether the plan is kept.
    pub fn keeps_plan(&self) -> bool {
        self.decided.keeps_plan.load(Ordering::Relaxed)
    }

    /// Makes its running plan visible to other sessions, as long as the plan exists.
    pub fn show_plan(&self, plan: &Arc<dyn ExecutionPlan>, text: &Arc<str>, (span, kind): (Span, &'static str)) {
        let running = Running { plan: Arc::downgrade(plan), text: Arc::clone(text), span, kind, change: None };
        *self.noted.running.lock() = Some(running);
    }

    /// Sets which table the shown plan's rows change.
    pub fn show_change(&self, database: &DatabaseUse, table: &Arc<Table>, columns: Option<&[usize]>) {
        if let Some(running) = self.noted.running.lock().as_mut() {
            running.change = Some((database.clone(), Arc::clone(table), columns.map(<[usize]>::to_vec)));
        }
    }

    /// The plan that runs, if any. May be called from any thread.
    pub fn running(&self) -> Option<Running> {
        self.noted.running.lock().clone()
    }

    /// The least and the most bytes that it may request of the operators' memory of `total` bytes.
    pub fn grant_range(&self, total: u64) -> (u64, u64) {
        let (least, most) = self.settings.grant_percent;
        let part = |percent: f64| (total as f64 * percent / 100.0) as u64;
        (least.map_or(0, part), most.map_or(u64::MAX, part))
    }

    /// Makes the memory figures of its operators visible to other sessions.
    pub fn show_memory(&self, figures: &Arc<MemoryFigures>) {
        *self.noted.memory.lock() = Some(Arc::clone(figures));
    }

    /// The memory figures of its operators; `None` if they keep almost nothing, or are done. May be called from any
    /// thread.
    pub fn memory(&self) -> Option<MemoryShown> {
        self.noted.memory.lock().as_ref().filter(|figures| !figures.is_over()).map(|figures| figures.shown())
    }

    /// Counts the rows that scans read among the steps of its progress, whose number is set by the caller.
    pub fn count_scanned(&self, progress: &Arc<Progress>) {
        self.noted.steps.count_scanned(progress);
    }

    /// Takes the rows that a plan reads and writes as steps of its progress, unless they are few or the number of steps
    /// is set. `share` of the whole is done when the plan's rows are written.
    pub fn follow(&self, progress: &Arc<Progress>, rows: PlanRows, writes: Writes, share: f64) {
        self.noted.steps.follow(progress, rows, writes, share);
    }

    /// Notes that all rows are read and so many are about to be written.
    pub fn begin_writing(&self, rows: u64) {
        self.noted.steps.begin_writing(Some(rows));
    }

    /// Notes that a scan has read rows.
    pub fn note_scanned(&self, rows: u64) {
        self.noted.steps.read(rows);
    }

    /// Notes that rows were written.
    pub fn note_written(&self, rows: usize) {
        self.noted.steps.written(rows as u64);
    }

    /// Notes that a row was left out, because an index with `IGNORE_DUP_KEY` has its key.
    pub fn leave_duplicate_out(&self) {
        self.noted.has_left_duplicates_out.store(true, Ordering::Relaxed);
    }

    /// Whether any row was left out.
    pub fn left_duplicates_out(&self) -> bool {
        self.noted.has_left_duplicates_out.load(Ordering::Relaxed)
    }

    /// A statement of `session`, as a part of `transaction` if there is one, and a transaction of its own if not. Its
    /// degree of parallelism is never more than the processors that the instance may use.
    ///
    /// # Errors
    /// 6005: the instance is being closed.
    pub fn new(
        instance: &Arc<Instance>,
        session: SessionId,
        transaction: Option<&Arc<Transaction>>,
        cancelled: Arc<AtomicBool>,
        settings: RunSettings,
    ) -> Result<Arc<StatementRun>, SqlError> {
        let runtime = instance.runtime();
        let affinity = processors_of(runtime.affinity_mask);
        let processors =
            if affinity.is_empty() { hobt_instruments::processor::processor_count() } else { affinity.len() };
        let instance_dop = match runtime.max_degree_of_parallelism as usize {
            0 => processors,
            limit => limit.min(processors),
        };
        let degree = match settings.max_dop {
            None | Some(0) => instance_dop,
            Some(asked) => asked.min(processors),
        };
        let read_pages = (runtime.read_bytes / PAGE_SIZE as u32).clamp(EXTENT_PAGES, 64);
        let scan_settings = ScanSettings {
            read_pages: read_pages / EXTENT_PAGES * EXTENT_PAGES,
            queue_depth: runtime.queue_depth.max(1),
            read_ahead: runtime.read_ahead && !settings.no_read_ahead,
            dealer: runtime.dealer,
            ..ScanSettings::default()
        };
        let context = match transaction {
            Some(transaction) => instance.statement_of(transaction, session, degree, Arc::clone(&cancelled)),
            None => {
                let context = instance.statement_context(session, degree, Arc::clone(&cancelled));
                context.map_err(|error| error.to_sql_error())?
            }
        };
        Ok(Arc::new(StatementRun {
            context,
            instance: Arc::clone(instance),
            scan_settings,
            affinity,
            waits: Arc::new(WaitCounters::new()),
            pending: Arc::default(),
            settings,
            cancelled,
            counts_index_use: runtime.counts_index_use,
            totals: Totals::default(),
            noted: Noted::default(),
            decided: Decided::default(),
        }))
    }

    /// Notes that the statement reads a whole table and needs it protected from inserts.
    pub fn ask_for_whole(&self, database: DatabaseId, table: ObjectId) {
        let mut whole = self.decided.whole.lock();
        if whole.iter().all(|(known, _)| *known != (database, table)) {
            whole.push(((database, table), false));
        }
    }

    /// Whether tables were noted by [`StatementRun::ask_for_whole`].
    pub fn asks_for_whole(&self) -> bool {
        !self.decided.whole.lock().is_empty()
    }

    /// Whether tables were noted by [`StatementRun::ask_for_whole`] since the last call. They are then locked as a
    /// whole when the statement is bound again.
    pub fn takes_whole(&self) -> bool {
        let mut is_new = false;
        self.decided.whole.lock().iter_mut().for_each(|(_, is_taken)| is_new |= !std::mem::replace(is_taken, true));
        is_new
    }

    /// Whether a table is locked as a whole instead of by ranges.
    pub fn is_whole(&self, database: DatabaseId, table: ObjectId) -> bool {
        self.decided.whole.lock().iter().any(|(known, is_taken)| *is_taken && *known == (database, table))
    }

    /// Notes a database that the statement names. If the statement's end fails, the pages of all of these are in an
    /// unknown state.
    pub fn uses_database(&self, database: &DatabaseUse) {
        let mut databases = self.decided.databases.lock();
        if databases.iter().all(|known| known.id() != database.id()) {
            databases.push(database.clone());
        }
    }

    /// Keeps locks until the transaction has ended. If it is dropped without an end, until it was rolled back for that.
    pub fn hold_locks(&self, locks: Vec<HeldLock>) {
        self.context.hold(locks);
    }

    /// Keeps locks until the statement has ended.
    pub fn hold_locks_for_statement(&self, locks: Vec<HeldLock>) {
        self.context.hold_for_statement(locks);
    }

    /// The databases that the statement has named so far.
    pub fn databases(&self) -> Vec<DatabaseUse> {
        self.decided.databases.lock().clone()
    }

    /// Ends the statement: keeps its changes if it succeeded and undoes them if not, and only then releases its locks.
    /// Its transaction ends with it unless it spans several statements.
    ///
    /// # Errors
    /// 926: the end failed, or a database that the statement named became SUSPECT before.
    pub fn end(&self, succeeded: bool) -> Result<(), SqlError> {
        let databases = std::mem::take(&mut *self.decided.databases.lock());
        let named: Vec<&Database> = databases.iter().map(|database| &**database.database()).collect();
        let ended = self.instance.end_statement(&self.context, succeeded, &named);
        ended.map_err(|error| error.to_sql_error())
    }

    /// The number of workers that the statement may use.
    pub fn degree(&self) -> usize {
        if self.decided.is_serial.load(Ordering::Relaxed) { 1 } else { self.context.degree_of_parallelism() }
    }

    /// Restricts it to one worker; called before its plan is made.
    pub fn make_serial(&self) {
        self.decided.is_serial.store(true, Ordering::Relaxed);
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// The counters of a table, shared by all its uses.
    pub fn io_counts(&self, table: &str) -> Arc<IoCounts> {
        let mut tables = self.noted.tables.lock();
        if let Some((_, counts)) = tables.iter().find(|(name, _)| name == table) {
            return Arc::clone(counts);
        }
        let counts = Arc::new(IoCounts::default());
        tables.push((table.to_owned(), Arc::clone(&counts)));
        counts
    }

    /// The tables read so far with their counters, in the order of their first use.
    pub fn table_counts(&self) -> Vec<(String, Arc<IoCounts>)> {
        self.noted.tables.lock().clone()
    }

    /// Remembers a scan, for its figures.
    pub fn add_scan(&self, scan: &Arc<Scan>) {
        self.noted.scans.lock().push(Arc::clone(scan));
    }

    /// The scans of the statement.
    pub fn scans(&self) -> Vec<Arc<Scan>> {
        self.noted.scans.lock().clone()
    }

    /// Remembers an operator's counters.
    pub fn add_profile(&self, profile: &Arc<OperatorProfile>) {
        self.noted.profiles.lock().push(Arc::clone(profile));
    }

    /// Whether any operator has counters.
    pub fn has_profiles(&self) -> bool {
        !self.noted.profiles.lock().is_empty()
    }

    /// The operators' counters by worker.
    pub fn profiles(&self) -> Vec<Arc<OperatorProfile>> {
        self.noted.profiles.lock().clone()
    }

    /// Adds the times of a plan's workers: their processor time, and their number × elapsed.
    pub fn add_workers(&self, workers: usize, cpu: Duration, time: Duration) {
        self.totals.worker_cpu_ns.fetch_add(nanoseconds(cpu), Ordering::Relaxed);
        self.totals.worker_time_ns.fetch_add(nanoseconds(time), Ordering::Relaxed);
        self.totals.workers.fetch_max(workers, Ordering::Relaxed);
    }

    /// Adds the rows that a worker wrote into a table, and its processor time for that.
    pub fn add_written(&self, worker: usize, rows: u64, cpu: Duration) {
        let mut written = self.noted.written.lock();
        let of_worker = written.entry(worker).or_default();
        of_worker.rows += rows;
        of_worker.cpu += cpu;
    }

    /// The rows that workers have written into tables, ordered by worker.
    pub fn written(&self) -> Vec<Writing> {
        self.noted.written.lock().values().copied().collect()
    }

    /// Adds the worker times and waits of a statement that ran on this one's thread and on its behalf: one that read
    /// rows for statistics, or for `INSERT … EXEC`.
    pub fn add_inner(&self, inner: &StatementRun) {
        self.waits.absorb(&inner.waits);
        self.add_workers(inner.workers(), inner.worker_cpu(), inner.worker_time());
    }

    /// Adds the elapsed time and the processor time of a plan's making.
    pub fn add_compile(&self, elapsed: Duration, cpu: Duration) {
        self.totals.compile_ns.fetch_add(nanoseconds(elapsed), Ordering::Relaxed);
        self.totals.compile_cpu_ns.fetch_add(nanoseconds(cpu), Ordering::Relaxed);
    }

    /// Adds statistics that were made before it is planned.
    pub fn add_statistics_cost(&self, made: StatisticsCost) {
        let mut sum = self.noted.statistics_cost.lock();
        *sum = sum.and(made);
    }

    /// The statistics that were made for it so far.
    pub fn statistics_cost(&self) -> StatisticsCost {
        *self.noted.statistics_cost.lock()
    }

    /// Elapsed time and processor time of its binding and planning.
    pub fn compile(&self) -> (Duration, Duration) {
        let of = |counter: &AtomicU64| Duration::from_nanos(counter.load(Ordering::Relaxed));
        (of(&self.totals.compile_ns), of(&self.totals.compile_cpu_ns))
    }

    /// Time of the workers of the statement's plans so far: their number × elapsed, of each.
    pub fn worker_time(&self) -> Duration {
        Duration::from_nanos(self.totals.worker_time_ns.load(Ordering::Relaxed))
    }

    /// The most workers of any of its plans so far; 0 if none has run.
    pub fn workers(&self) -> usize {
        self.totals.workers.load(Ordering::Relaxed)
    }

    /// Processor time of the workers of the statement's plans so far.
    pub fn worker_cpu(&self) -> Duration {
        Duration::from_nanos(self.totals.worker_cpu_ns.load(Ordering::Relaxed))
    }
}

/// The processors whose bits are set.
fn processors_of(mask: u64) -> Vec<usize> {
    (0..64).filter(|bit| mask >> bit & 1 == 1).collect()
}
