//! What sessions did and saw, in one order: the turns of the schedule number everything.

use std::collections::{BTreeMap, BTreeSet};

use crate::script::{Level, Rows};

/// A row of a table: the table's number and `rid`.
pub(crate) type Key = (usize, i64);

/// What a row holds, as far as it is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Value {
    pub(crate) token: i64,
    pub(crate) balance: i64,
}

/// A moment: how many things had been noted before.
pub(crate) type Moment = u64;

/// A row that was changed.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) key: Key,
    pub(crate) before: Option<Value>,
    pub(crate) after: Option<Value>,
    /// When its statement had ended.
    pub(crate) at: Moment,
    /// When a rollback to a savepoint took it back.
    pub(crate) undone: Option<Moment>,
}

/// How a statement looks at rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum View {
    /// All of them at one moment of the statement.
    OneMoment,
    /// Each at a moment of its own.
    EachItsMoment,
    /// All at the moment when the transaction first looked.
    Snapshot,
    /// Each at a moment of its own, and what was found does not change before the transaction has ended.
    Repeatable,
    /// What was found, and that no more was there, does not change before the transaction has ended.
    Serializable,
}

/// Rows that were looked for.
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
    /// Its commit was asked for, and the power failed.
    InDoubt,
}

/// A transaction, or a statement that is one.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) session: usize,
    pub(crate) level: Level,
    pub(crate) begun: Moment,
    /// One statement: when it changed its rows is known to lie between its beginning and its end, no closer.
    pub(crate) is_alone: bool,
    /// The end of its first statement that looked at rows: a snapshot is of a moment before.
    pub(crate) looked: Option<Moment>,
    /// Its end was asked for.
    pub(crate) ending: Option<Moment>,
    /// Its end was acknowledged.
    pub(crate) ended: Option<Moment>,
    pub(crate) outcome: Outcome,
    /// It asked for a commit that need not be durable.
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

    /// What it has made of a row by `moment`, if it has changed it.
    pub(crate) fn own(&self, key: Key, moment: Moment) -> Option<Option<Value>> {
        let stands = |write: &&Write| {
            write.key == key && write.at <= moment && write.undone.is_none_or(|undone| undone > moment)
        };
        self.writes.iter().rev().find(stands).map(|write| write.after)
    }
}

/// Something that an administrator did which made earlier commits of a database durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flush {
    pub(crate) database: usize,
    pub(crate) from: Moment,
}

/// All that was noted in one life of the instance.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) now: Moment,
    pub(crate) transactions: Vec<Done>,
    pub(crate) flushes: Vec<Flush>,
    /// What was run, for people.
    pub(crate) log: Vec<String>,
    pub(crate) keeps_log: bool,
    /// Values of each database's sequence and identity column (`true`), in this life and those before.
    pub(crate) numbers: BTreeSet<(usize, bool, i64)>,
    /// The first thing that must not be.
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
