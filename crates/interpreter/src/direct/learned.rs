//! What earlier runs of statements have taught: the data by which they run without binding.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::datatypes::SchemaRef;
use hobt_access::BTree;
use hobt_base::{DatabaseId, Stamp};
use hobt_binder::Formula;
use hobt_catalog::{DatabaseSnapshot, Table};
use hobt_operators::WriteTarget;
use hobt_txn::locks::Patience;
use hobt_txn::{IoCounts, RowLockSettings, RowLocks};

use crate::event::{DoneKind, ResultColumn};
use crate::insert_target::Target;
use crate::plans::PlanEntry;

/// What earlier runs have taught about a step.
#[derive(Default)]
pub(crate) enum Learned {
    /// The step has not run.
    #[default]
    Nothing,
    /// The step is bound on every run.
    Interpreted,
    /// The step has run once and may be learned.
    Ran,
    /// The truth of a condition, or the value of an assignment.
    Formula(Formula),
    /// A statement that runs without binding.
    Statement {
        /// Its position in [`Statements`].
        place: usize,
        /// How often its learned data was outdated.
        misses: u8,
    },
}

/// The statements of a batch that run without binding. They hold references to databases and tables, so they are
/// dropped before a statement that may have to wait until a database or table is not in use.
#[derive(Default)]
pub(crate) struct Statements {
    pub(crate) learned: Vec<Option<Direct>>,
    /// The store entries that count their executions, if there are any.
    pub(crate) counted: Vec<Option<Arc<PlanEntry>>>,
    /// The start of an uninterrupted series of direct statements: the time, this thread's processor time, and the
    /// number of statements since.
    pub(crate) since: Option<(Instant, Duration, u64)>,
    /// The pages that the last read looked at.
    pub(crate) reads: Arc<IoCounts>,
}

/// A learned statement.
pub(crate) enum Direct {
    Insert(Box<DirectInsert>),
    Change(Box<DirectChange>, DoneKind),
    Read(Box<DirectRead>),
}

impl Statements {
    /// The number of statements.
    pub(crate) fn len(&self) -> usize {
        self.learned.len()
    }

    /// Drops all but the first `len`, whose steps run no more.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.learned.truncate(len);
        self.counted.truncate(len);
    }

    /// Drops the learned data of all statements.
    pub(crate) fn forget(&mut self) {
        self.learned.iter_mut().for_each(|learned| *learned = None);
    }
}

/// An `INSERT` that can run without binding.
pub(crate) struct DirectInsert {
    pub(crate) target: Target,
    pub(crate) store: WriteTarget,
    /// The session's current database when it was learned.
    pub(crate) current: DatabaseId,
    pub(crate) rows: Vec<Vec<Source>>,
    pub(crate) locks: RowLockSettings,
    pub(crate) locked: RefCell<Option<Locked>>,
}

/// The transaction that holds the table's lock for a statement, and its row locks.
pub(crate) type Locked = (Stamp, Arc<RowLocks>);

/// The source of a column's value.
pub(crate) enum Source {
    /// A constant, as stored bytes.
    Stored(Option<Vec<u8>>),
    Formula(Formula),
    Identity,
}

/// A change of one row that can run without binding.
pub(crate) struct DirectChange {
    pub(crate) store: WriteTarget,
    pub(crate) snapshot: Arc<DatabaseSnapshot>,
    pub(crate) current: DatabaseId,
    pub(crate) row: SoughtRow,
    /// The new values of the columns that change. `None` for a `DELETE`.
    pub(crate) values: Option<Vec<(usize, Formula)>>,
    pub(crate) locks: RowLockSettings,
    pub(crate) locked: RefCell<Option<Locked>>,
}

/// Identifies the row that a statement is about.
pub(crate) struct SoughtRow {
    /// The values of the key's columns, with their positions in the table.
    pub(crate) key: Vec<(usize, Formula)>,
    /// The rest of the condition, which the row must also satisfy.
    pub(crate) rest: Option<Formula>,
}

/// A `SELECT` of one row that can run without binding.
pub(crate) struct DirectRead {
    pub(crate) table: Arc<Table>,
    pub(crate) tree: Arc<BTree>,
    pub(crate) current: DatabaseId,
    pub(crate) patience: Patience,
    pub(crate) row: SoughtRow,
    pub(crate) values: Vec<Formula>,
    pub(crate) goes_to: GoesTo,
}

/// The destination of the values.
pub(crate) enum GoesTo {
    /// The variables at these positions.
    Variables(Vec<usize>),
    /// The client.
    Client(Vec<ResultColumn>, SchemaRef),
}
