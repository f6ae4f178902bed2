//! The order in which a transaction's changes are undone: rows from their records in the log, all else by closures that
//! its statements have registered. `docs/design/0041-undo-from-the-log.md`.
//!
//! A closure has the positions of the transaction's chains at its registration. A rollback undoes the rows behind these
//! positions, then runs the closure, then undoes the rows before them down to the next one. Rows of a database without
//! a log are undone from what was noted of them (`row_undo`), which has positions too.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use hobt_base::{Lsn, Stamp};
use hobt_log::{LogReader, Record};
use smallvec::SmallVec;

use crate::LogChain;
use crate::progress::Progress;
use crate::row_undo::RowUndo;
use crate::undo_error::{UndoError, caught, stopped};

/// An undo or commit action.
pub(crate) type Action = Box<dyn FnOnce() -> Result<(), UndoError> + Send>;

/// The positions of a transaction's chains, in the order in which these were begun. Chains that were begun later are
/// missing: all of their records are behind.
pub(crate) type Positions = SmallVec<[Lsn; 2]>;

/// An action with the positions of the chains when it was registered.
pub(crate) struct Registered {
    pub(crate) at: Positions,
    /// The position in what was noted of rows without a log.
    pub(crate) rows: u64,
    pub(crate) action: Action,
}

/// What a record of a transaction says to a rollback.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Undone {
    /// Nothing of it is undone by its record, or it is undone now.
    Record,
    /// It undid the change of the record at this position. If that is a change of a row, all changes of rows since are
    /// undone, too: they are undone in reverse order.
    Other(Lsn),
}

/// Undoes the changes of rows that a transaction's records describe, in one database.
pub trait UndoRecords: Any + Send + Sync {
    /// Undoes the change of a row that `record` describes, and logs that. Blocks.
    ///
    /// # Errors
    /// The row cannot be undone: the database is then refused for good, and recovery undoes the transaction.
    fn undo(&self, chain: &Arc<LogChain>, record: &Record) -> Result<Undone, UndoError>;

    /// Whether a record is of a change of a row.
    ///
    /// # Errors
    /// It cannot be decoded: the database is then refused for good.
    fn is_of_row(&self, record: &Record) -> Result<bool, UndoError>;

    /// Refuses the database for good, because a record cannot be read.
    fn refuse(&self, why: &str) -> UndoError;

    /// Forgets what it has kept to undo: the transaction was committed or undone.
    fn forget(&self);
}

/// A rollback in the records of one chain.
struct Walk {
    chain: Arc<LogChain>,
    reader: LogReader,
    /// The next record to look at; 0 if there is none.
    next: Lsn,
    has_failed: bool,
}

impl Walk {
    fn new(chain: &Arc<LogChain>) -> Walk {
        Walk {
            chain: Arc::clone(chain),
            reader: LogReader::new(chain.log().log()),
            next: chain.last_of_rows(),
            has_failed: false,
        }
    }

    /// Bytes of log between the next record and the end of the walk: `until`, or the chain's first record.
    fn left(&self, until: Lsn) -> u64 {
        self.next.0.saturating_sub(until.max(self.chain.first()).0)
    }

    /// Undoes the records behind `until`, as long as `goes_on` says so before each.
    fn undo_down_to(
        &mut self,
        until: Lsn,
        progress: Option<&Progress>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), UndoError> {
        let Some(undoes) = self.chain.undoes().map(Arc::clone) else { return Ok(()) };
        while self.next > until && !self.has_failed && goes_on() {
            let before = self.left(until);
            self.next = self.step(&*undoes).inspect_err(|_| self.has_failed = true)?;
            progress.iter().for_each(|progress| progress.add(before - self.left(until)));
        }
        Ok(())
    }

    /// Undoes the next record. Returns the one after it.
    fn step(&mut self, undoes: &dyn UndoRecords) -> Result<Lsn, UndoError> {
        let record = self.record(self.next, undoes)?;
        let done = catch_unwind(AssertUnwindSafe(|| undoes.undo(&self.chain, &record)));
        match done.unwrap_or_else(|panic| Err(stopped(&*panic)))? {
            Undone::Record => Ok(record.previous),
            Undone::Other(undone) => {
                let undone = self.record(undone, undoes)?;
                Ok(if undoes.is_of_row(&undone)? { undone.previous } else { record.previous })
            }
        }
    }

    fn record(&mut self, lsn: Lsn, undoes: &dyn UndoRecords) -> Result<Record, UndoError> {
        let refuse = |why: &str| {
            undoes.refuse(&format!("the record at position {lsn} of transaction {}: {why}", self.chain.id()))
        };
        match catch_unwind(AssertUnwindSafe(|| self.reader.record(lsn))) {
            Ok(Ok(record)) if record.transaction == self.chain.id() => Ok(record),
            Ok(Ok(_)) => Err(refuse("it is another transaction's")),
            Ok(Err(error)) => Err(refuse(&error.to_string())),
            Err(panic) => Err(refuse(&stopped(&*panic).0)),
        }
    }
}

/// Undoes what a transaction has done since a point, the last first: the rows behind `until` in its chains and in
/// `rows`, and the `actions` that were registered since. Runs all actions, also after one that fails. Returns the first
/// error.
pub(crate) fn undo(
    chains: &[Arc<LogChain>],
    (rows, writer): (&mut RowUndo, Stamp),
    actions: Vec<Registered>,
    (until, rows_until): (&Positions, u64),
    progress: Option<&Progress>,
) -> Result<(), UndoError> {
    let mut walks: Vec<Walk> = chains.iter().map(Walk::new).collect();
    let behind = |at: &Positions, place: usize| at.get(place).copied().unwrap_or_default();
    if let Some(progress) = progress {
        let logged = walks.iter().enumerate().map(|(place, walk)| walk.left(behind(until, place)));
        let noted = rows.position().saturating_sub(rows_until);
        progress.begin_undo(logged.sum::<u64>() + noted + actions.len() as u64);
    }
    let mut result = Ok(());
    let mut note = |done: Result<(), UndoError>| {
        if result.is_ok() {
            result = done;
        }
    };
    let mut undo_rows = |at: &Positions, rows_at: u64, note: &mut dyn FnMut(Result<(), UndoError>)| {
        for (place, walk) in walks.iter_mut().enumerate() {
            note(walk.undo_down_to(behind(at, place), progress, &|| true));
        }
        note(rows.undo_down_to(rows_at, writer, &mut |bytes| progress.iter().for_each(|progress| progress.add(bytes))));
    };
    for Registered { at, rows, action } in actions.into_iter().rev() {
        undo_rows(&at, rows, &mut note);
        progress.iter().for_each(|progress| progress.add(1));
        note(run(action));
    }
    undo_rows(until, rows_until, &mut note);
    progress.iter().for_each(|progress| progress.end_undo());
    result
}

/// Undoes all changes of rows in a chain, as long as `goes_on` says so before each record. Returns whether nothing is
/// left. For a transaction that has no actions: a crash has left it open.
pub(crate) fn undo_chain(
    chain: &Arc<LogChain>,
    progress: &Progress,
    goes_on: &dyn Fn() -> bool,
) -> Result<bool, UndoError> {
    let mut walk = Walk::new(chain);
    progress.set(0, walk.left(Lsn(0)));
    walk.undo_down_to(Lsn(0), Some(progress), goes_on)?;
    Ok(walk.next == Lsn(0))
}

/// Runs an action. A panic ends the action, and not the statement's end.
pub(crate) fn run(action: Action) -> Result<(), UndoError> {
    caught(action)
}
