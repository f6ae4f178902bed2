//! What sessions did and saw, in one order: one clock, ticking in the turns of the schedule, numbers everything.

use std::collections::{BTreeMap, BTreeSet};

use crate::script::{Level, Rows};

/// A row of a table: the table's number and `rid`.
pub(crate) type Key = (usize, i64);

/// The contents of a row, as far as they are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Value {
    pub(crate) token: i64,
    pub(crate) balance: i64,
}

/// A moment: the number of things recorded before.
pub(crate) type Moment = u64;

/// A row that was changed.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) key: Key,
    pub(crate) before: Option<Value>,
    pub(crate) after: Option<Value>,
    /// When its statement ended.
    pub(crate) at: Moment,
    /// When a rollback to a savepoint undid it.
    pub(crate) undone: Option<Moment>,
}

/// Which moments a statement reads rows at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum View {
    /// All rows at one moment of the statement.
    OneMoment,
    /// Each row at a moment of its own.
    EachItsMoment,
    /// All rows at the moment of the transaction's first read.
    Snapshot,
    /// Each row at a moment of its own. The rows found do not change before the transaction has ended.
    Repeatable,
    /// The rows found do not change, and no others appear, before the transaction has ended.
    Serializable,
}

/// Rows that were read.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) table: usize,
    pub(crate) rows: Rows,
    pub(crate) view: View,
    pub(crate) from: Moment,
    pub(crate) to: Moment,
    pub(crate) found: BTreeMap<i64, Value>,
    pub(crate) text: String,
}

/// How a transaction ended, as far as its session knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Open,
    Committed,
    RolledBack,
    /// Its commit was requested, and the power failed.
    InDoubt,
}

/// A transaction, or a statement that is a transaction of its own.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) session: usize,
    pub(crate) level: Level,
    pub(crate) begun: Moment,
    /// It is a single statement: its changes were made at some moment between its beginning and its end.
    pub(crate) is_alone: bool,
    /// The end of its first statement that read rows: its snapshot is from an earlier moment.
    pub(crate) looked: Option<Moment>,
    /// When its end was requested.
    pub(crate) ending: Option<Moment>,
    /// When its end was acknowledged.
    pub(crate) ended: Option<Moment>,
    pub(crate) outcome: Outcome,
    /// It requested a commit with delayed durability.
    pub(crate) is_delayed: bool,
    pub(crate) reads: Vec<Read>,
    pub(crate) writes: Vec<Write>,
}

impl Done {
    pub(crate) fn new(session: usize, level: Level, begun: Moment) -> Done {
        Done {
            session,
            level,
            begun,
            is_alone: false,
            looked: None,
            ending: None,
            ended: None,
            outcome: Outcome::Open,
            is_delayed: false,
            reads: Vec::new(),
            writes: Vec::new(),
        }
    }

    /// What it has made of a row by `moment`, if it has changed the row.
    pub(crate) fn own(&self, key: Key, moment: Moment) -> Option<Option<Value>> {
        let stands = |write: &&Write| {
            write.key == key && write.at <= moment && write.undone.is_none_or(|undone| undone > moment)
        };
        self.writes.iter().rev().find(stands).map(|write| write.after)
    }
}

/// An administrator's action that made earlier commits of a database durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flush {
    pub(crate) database: usize,
    pub(crate) from: Moment,
}

/// Everything recorded in one life of the instance.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) now: Moment,
    pub(crate) transactions: Vec<Done>,
    pub(crate) flushes: Vec<Flush>,
    /// What was run, as text for people.
    pub(crate) log: Vec<String>,
    pub(crate) keeps_log: bool,
    /// Values of each database's sequence and identity column (`true`), in this life and earlier ones.
    pub(crate) numbers: BTreeSet<(usize, bool, i64)>,
    /// The first violation.
    pub(crate) wrong: Option<String>,
    pub(crate) statements: u64,
    pub(crate) deadlocks: u64,
    pub(crate) conflicts: u64,
    /// Statements that found no room.
    pub(crate) full: u64,
}

impl History {
    /// The next moment.
    pub(crate) fn tick(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        if self.keeps_log {
            let text = text();
            self.log.push(format!("[{}] {text}", self.now));
        }
    }

    pub(crate) fn is_wrong(&mut self, text: String) {
        self.wrong.get_or_insert(text);
    }
}
