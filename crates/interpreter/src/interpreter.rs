//! The state of one running batch, and how its parts end.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hobt_base::{DatabaseId, SqlError};
use hobt_files::FileBatches;
use hobt_table::StatementRun;

use super::capture::Capture;
use super::changed_keys::ChangedKeys;
use super::direct::learned::Statements;
use super::environment::Environment;
use super::event::{DoneKind, EventSink, StatementStatistics};
use super::frame::Frame;
use super::plans::Plans;
use super::state::SessionState;
use super::used_sequences::SharedSequences;

/// An error handled by a `CATCH`.
#[derive(Clone, Debug)]
pub(super) struct Caught {
    pub(super) error: SqlError,
    pub(super) procedure: Option<String>,
}

/// How a batch or procedure ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Exit {
    /// After its last statement, or by `RETURN` with or without a value.
    Returned(i32),
    /// By an error that the client has received.
    Failed,
}

/// The result of a statement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) kind: DoneKind,
    /// The row count sent to the client.
    pub(super) rows: Option<u64>,
    /// The new `@@ROWCOUNT`. `None` leaves it unchanged.
    pub(super) row_count: Option<u64>,
}

impl Outcome {
    /// A statement that counts no rows: `@@ROWCOUNT` becomes 0.
    pub(super) const QUIET: Outcome = Outcome { kind: DoneKind::Other, rows: None, row_count: Some(0) };
    /// An assignment: `@@ROWCOUNT` becomes 1.
    pub(super) const ASSIGNED: Outcome = Outcome { kind: DoneKind::Other, rows: None, row_count: Some(1) };
    /// A statement that leaves `@@ROWCOUNT` unchanged.
    pub(super) const KEPT: Outcome = Outcome { kind: DoneKind::Other, rows: None, row_count: None };

    /// A statement that counted rows.
    pub(super) const fn counted(kind: DoneKind, rows: u64) -> Outcome {
        Outcome { kind, rows: Some(rows), row_count: Some(rows) }
    }

    /// A `SELECT @v = …`: its row count is not sent to the client.
    pub(super) const fn assigned_from(rows: u64) -> Outcome {
        Outcome { kind: DoneKind::Other, rows: None, row_count: Some(rows) }
    }
}

/// What belongs to the running statement, and to none that it calls.
#[derive(Default)]
pub(super) struct StatementScope {
    /// Whether it changes a table variable, which takes part in no transaction.
    pub(super) changes_variable: bool,
    /// Its cost, once it is known.
    pub(super) cost: Option<Box<StatementStatistics>>,
    /// Elapsed time and processor time of the plans whose making `SET STATISTICS TIME` has shown for it. Not part of
    /// its execution time.
    pub(super) compile_shown: (Duration, Duration),
}

/// The interpreter of one running batch.
pub(super) struct Interpreter<'s> {
    pub(super) environment: &'s Environment,
    pub(super) state: &'s mut SessionState,
    pub(super) cancelled: Arc<AtomicBool>,
    pub(super) frames: Vec<Frame>,
    pub(super) caught: Vec<Caught>,
    pub(super) sink: &'s mut dyn EventSink,
    /// The running text. Spans point into it.
    pub(super) text: Arc<str>,
    /// Collects the result sets of an `INSERT … EXEC`, instead of the client.
    pub(super) capture: Option<Capture>,
    /// Whether an `INSERT` that locks its table lets others load into it at once: it is a `BULK INSERT`.
    pub(super) loads_beside_others: bool,
    /// The reading of files that the statements of a load in batches continue.
    pub(super) file_batches: Option<Arc<FileBatches>>,
    /// Whether rows are being read for statistics.
    pub(super) is_gathering: bool,
    /// The sequences that the running statement names.
    pub(super) sequences: SharedSequences,
    /// The keys that the running statement has changed, while references to them are checked.
    pub(super) changed_keys: Vec<ChangedKeys>,
    /// What belongs to the running statement alone.
    pub(super) scope: StatementScope,
    /// The running statements with operators, outermost first.
    pub(super) runs: Vec<Arc<StatementRun>>,
    /// What the list of sessions currently shows for the statement.
    pub(super) noted: Option<(&'static str, DatabaseId)>,
    /// The statements that run without binding.
    pub(super) statements: Statements,
    /// The data about plans.
    pub(super) plans: Plans,
}
