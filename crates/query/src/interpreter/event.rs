//! What a batch sends to its client while it runs.
//!
//! The order is that of SQL Server: a query sends [`Event::ResultSet`], any number of [`Event::Rows`], then
//! [`Event::ResultSetDone`]; every statement ends with [`Event::Done`]. Messages and errors come where they arise.
//! How a client shows them (tables, counts, error frames) is left to it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use hobt_base::SqlError;
use hobt_txn::IoCounts;
use hobt_types::SqlType;

use crate::execute::{FilterProfile, StatementRun};
use crate::plan_tree::ShownStatement;

/// A column of a result set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResultColumn {
    /// Its name; empty where the query gave none.
    pub name: String,
    /// Its type; rows come in that type's carrier.
    pub sql_type: SqlType,
    /// Whether NULL can occur.
    pub nullable: bool,
}

/// Something that is said and is no error: `PRINT`, `SET STATISTICS`, warnings, `RAISERROR` up to severity 10.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// SQL Server's number; 0 for `PRINT`.
    pub number: i32,
    /// 0 to 10.
    pub severity: u8,
    /// Tells apart the places that say the same.
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

    /// A numbered message of severity 10.
    pub fn numbered(number: i32, line: u32, text: impl Into<String>) -> Message {
        Message { number, severity: 10, state: 1, line, text: text.into() }
    }
}

/// What kind of statement has ended.
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
    /// Pages looked at.
    pub logical: u64,
    /// Pages read because somebody waited for them.
    pub physical: u64,
    /// Pages read ahead of their use.
    pub read_ahead: u64,
    /// Pages of large values looked at.
    pub lob_logical: u64,
    /// Pages of large values read.
    pub lob_physical: u64,
}

impl TableReads {
    /// Those of a statement so far, in the order in which it came to its tables.
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

    /// Pages of all tables that were looked at, and those that were read from disk, large values' among them.
    pub fn total(reads: &[TableReads]) -> (u64, u64) {
        let logical = reads.iter().map(|table| table.logical + table.lob_logical).sum();
        (logical, reads.iter().map(|table| table.physical + table.read_ahead + table.lob_physical).sum())
    }
}

/// Time of a statement's threads: what its processor time and its waits are parts of.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ThreadTime {
    /// Of the thread that runs it: that binds, plans, changes rows, sends them and commits. Without what it waited for
    /// its workers.
    pub own: Duration,
    /// Workers of the plan that had most of them; 0 of a statement that ran none.
    pub workers: usize,
    /// Of all workers, from the first to the last moment of each plan.
    pub working: Duration,
}

impl ThreadTime {
    /// Of all threads.
    pub fn total(&self) -> Duration {
        self.own + self.working
    }
}

/// What a statement cost.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct StatementStatistics {
    /// From the start of its execution to its end.
    pub elapsed: Duration,
    /// Processor time of all its threads.
    pub cpu: Duration,
    /// Time taken to bind and plan it.
    pub compile: Duration,
    /// Processor time taken to bind and plan it.
    pub compile_cpu: Duration,
    /// Workers that it was allowed.
    pub degree_of_parallelism: usize,
    /// Time of its threads.
    pub threads: ThreadTime,
    /// The tables read.
    pub reads: Vec<TableReads>,
    /// Its waits by type: name, number of waits, time.
    pub waits: Vec<(&'static str, u64, Duration)>,
    /// Pages that were clean and were changed, or were written for the first time.
    pub pages_dirtied: u64,
    /// Rows that each worker of the widest scan looked at.
    pub rows_per_worker: Vec<u64>,
    /// Its plan with what the operators did, if the session collects plans.
    pub plan: Option<Arc<ShownStatement>>,
    /// What filters that were pushed down have left out, with the table's name.
    pub filters: Vec<(String, FilterProfile)>,
    /// How often both sides of a join were put on disk, because the build side did not fit into memory.
    pub join_splits: u64,
}

impl StatementStatistics {
    /// What processor time and waits leave of the time of its threads.
    pub fn unexplained(&self) -> Duration {
        let waited: Duration = self.waits.iter().map(|(_, _, time)| *time).sum();
        self.threads.total().saturating_sub(self.cpu + waited)
    }
}

/// One thing that a running batch sends.
#[derive(Clone, Debug)]
pub enum Event {
    /// A result set begins.
    ResultSet(Vec<ResultColumn>),
    /// Rows of the result set, in carriers.
    Rows(RecordBatch),
    /// The result set is complete.
    ResultSetDone {
        /// How many rows it had.
        rows: u64,
    },
    /// Something is said.
    Message(Message),
    /// An error of severity 11 or more. The batch may go on behind it.
    Error(SqlError),
    /// What the statement cost; sent behind queries and inserts.
    Statistics(Box<StatementStatistics>),
    /// A statement has ended.
    Done {
        /// Rows sent or changed; `None` where the statement counts none or `NOCOUNT` is on.
        row_count: Option<u64>,
        /// What kind of statement.
        kind: DoneKind,
    },
}

/// Whether a client wants more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// Go on.
    Continue,
    /// Nothing more is wanted: the batch is cancelled.
    Stop,
}

/// Takes the events of a batch. A sink that blocks holds the batch back.
pub trait EventSink {
    /// Takes one event.
    fn event(&mut self, event: Event) -> Flow;
}

impl<F: FnMut(Event) -> Flow> EventSink for F {
    fn event(&mut self, event: Event) -> Flow {
        self(event)
    }
}
