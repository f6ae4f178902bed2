//! Events that a running batch sends to its client.
//!
//! The order is SQL Server's: a query sends [`Event::ResultSet`], any number of [`Event::Rows`], then
//! [`Event::ResultSetDone`]. Every statement ends with [`Event::Done`]. Messages and errors are sent when they occur.
//! The client decides how to display them (tables, counts, error frames).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use hobt_base::SqlError;
use hobt_txn::IoCounts;
use hobt_types::SqlType;

use hobt_showplan::{ShownStatement, StatisticsCost};
use hobt_table::{FilterProfile, StatementRun};

/// A column of a result set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResultColumn {
    /// Its name. Empty if the query gives none.
    pub name: String,
    /// Its type. Rows are sent in that type's carrier.
    pub sql_type: SqlType,
    /// Whether NULL can occur.
    pub nullable: bool,
}

/// An informational message: `PRINT`, `SET STATISTICS`, warnings, `RAISERROR` up to severity 10.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// SQL Server's message number; 0 for `PRINT`.
    pub number: i32,
    /// 0 to 10.
    pub severity: u8,
    /// Distinguishes the places that raise the same message.
    pub state: u8,
    /// The line in the batch, from 1.
    pub line: u32,
    /// The text.
    pub text: String,
}

impl Message {
    /// A message without a number, as `PRINT` sends it.
    pub fn plain(line: u32, text: impl Into<String>) -> Message {
        Message { number: 0, severity: 0, state: 1, line, text: text.into() }
    }

    /// An entry of the table of errors as a message.
    pub fn of(line: u32, entry: SqlError) -> Message {
        let SqlError { number, severity, state, message: text, .. } = entry;
        Message { number, severity, state, line, text }
    }
}

/// The kind of a statement that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DoneKind {
    /// A query with a result set.
    Select,
    /// An `INSERT`.
    Insert,
    /// An `UPDATE`.
    Update,
    /// A `DELETE`.
    Delete,
    /// A `MERGE`.
    Merge,
    /// A `SELECT … INTO`.
    SelectInto,
    /// Any other statement.
    Other,
}

/// The reads of one table by one statement, in pages.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TableReads {
    /// The table's name.
    pub table: String,
    /// Scans and seeks begun.
    pub scans: u64,
    /// Pages accessed.
    pub logical: u64,
    /// Pages read on demand, while a reader waited.
    pub physical: u64,
    /// Pages read ahead of their use.
    pub read_ahead: u64,
    /// Pages of large values accessed.
    pub lob_logical: u64,
    /// Pages of large values read.
    pub lob_physical: u64,
}

impl TableReads {
    /// The reads of a statement so far, in the order in which it used its tables.
    pub fn of(run: &StatementRun) -> Vec<TableReads> {
        let reads = |(table, counts): (String, Arc<IoCounts>)| TableReads {
            table,
            scans: counts.scans.load(Relaxed),
            logical: counts.logical_reads.load(Relaxed),
            physical: counts.physical_reads.load(Relaxed),
            read_ahead: counts.read_ahead_reads.load(Relaxed),
            lob_logical: counts.lob_logical_reads.load(Relaxed),
            lob_physical: counts.lob_physical_reads.load(Relaxed),
        };
        run.table_counts().into_iter().map(reads).collect()
    }

    /// The pages of all tables accessed, and those read from disk, both including large values.
    pub fn total(reads: &[TableReads]) -> (u64, u64) {
        let logical = reads.iter().map(|table| table.logical + table.lob_logical).sum();
        (logical, reads.iter().map(|table| table.physical + table.read_ahead + table.lob_physical).sum())
    }
}

/// Elapsed time of a statement's threads. Its processor time and its waits are parts of it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ThreadTime {
    /// Time of the statement's own thread, which binds, plans, changes rows, sends them and commits. Without the time
    /// waiting for its workers.
    pub own: Duration,
    /// The largest number of workers of one plan; 0 if no workers ran.
    pub workers: usize,
    /// Time of all workers, from the start to the end of each plan.
    pub working: Duration,
}

impl ThreadTime {
    /// Time of all threads.
    pub fn total(&self) -> Duration {
        self.own + self.working
    }
}

/// The cost of a statement.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct StatementStatistics {
    /// Elapsed time of its execution.
    pub elapsed: Duration,
    /// Processor time of all its threads.
    pub cpu: Duration,
    /// Time taken to bind and plan it.
    pub compile: Duration,
    /// Processor time taken to bind and plan it.
    pub compile_cpu: Duration,
    /// The statistics that were made for it first. Their time is not in `compile`.
    pub statistics_cost: StatisticsCost,
    /// The number of workers that it was allowed.
    pub degree_of_parallelism: usize,
    /// Time of its threads.
    pub threads: ThreadTime,
    /// The tables read.
    pub reads: Vec<TableReads>,
    /// Its waits by type: name, number of waits, time.
    pub waits: Vec<(&'static str, u64, Duration)>,
    /// Pages that became dirty, or were written for the first time.
    pub pages_dirtied: u64,
    /// Rows read by each worker of the widest scan.
    pub rows_per_worker: Vec<u64>,
    /// Its plan with the operators' figures, if the session collects plans.
    pub plan: Option<Arc<ShownStatement>>,
    /// What pushed-down filters have excluded, with the table's name.
    pub filters: Vec<(String, FilterProfile)>,
    /// How often both sides of a join were spilled because the build side did not fit into memory.
    pub join_splits: u64,
}

impl StatementStatistics {
    /// The time of its threads that is neither processor time nor waits.
    pub fn unexplained(&self) -> Duration {
        let waited: Duration = self.waits.iter().map(|(_, _, time)| *time).sum();
        self.threads.total().saturating_sub(self.cpu + waited)
    }
}

/// An event sent by a running batch.
#[derive(Clone, Debug)]
pub enum Event {
    /// A result set begins.
    ResultSet(Vec<ResultColumn>),
    /// Rows of the result set, in carriers.
    Rows(RecordBatch),
    /// The result set is complete.
    ResultSetDone {
        /// Its number of rows.
        rows: u64,
    },
    /// An informational message.
    Message(Message),
    /// An error of severity 11 or higher. The batch may continue after it.
    Error(SqlError),
    /// The cost of the statement; sent after queries and inserts.
    Statistics(Box<StatementStatistics>),
    /// A statement has ended.
    Done {
        /// Rows sent or changed. `None` if the statement counts none or `NOCOUNT` is on.
        row_count: Option<u64>,
        /// What kind of statement.
        kind: DoneKind,
    },
}

/// Whether a client accepts more events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// Go on.
    Continue,
    /// The client accepts no more: the batch is cancelled.
    Stop,
}

/// Receives the events of a batch. A sink that blocks delays the batch.
pub trait EventSink {
    /// Takes one event.
    fn event(&mut self, event: Event) -> Flow;
}

impl<F: FnMut(Event) -> Flow> EventSink for F {
    fn event(&mut self, event: Event) -> Flow {
        self(event)
    }
}
