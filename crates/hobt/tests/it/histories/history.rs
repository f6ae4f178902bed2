//! What sessions did and saw: transactions of steps, each with its place in one order of beginnings and ends.
//!
//! A row's `log` is a list of tokens. Each change of a row appends one that no other statement has, so that a read
//! of a row tells which changes of it came before, in which order: the versions of a row need not be guessed.

use std::fmt;

/// A place in the order of all beginnings and ends of a round: one counter, asked before and behind each statement.
pub(super) type Moment = u64;

/// What a statement appends to the rows that it changes. 0 is the row's first version.
pub(super) type Token = u32;

/// A row of a table of the round, by its place in the list of tables and its `id`, which never changes.
pub(super) type RowName = (usize, i32);

/// Isolation levels, as far as they promise something else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Level {
    ReadUncommitted,
    /// In a database where `READ_COMMITTED_SNAPSHOT` is off.
    ReadCommittedLocks,
    ReadCommittedVersions,
    RepeatableRead,
    Serializable,
    Snapshot,
}

impl Level {
    /// What `SET TRANSACTION ISOLATION LEVEL` is given.
    pub(super) fn name(self) -> &'static str {
        match self {
            Level::ReadUncommitted => "READ UNCOMMITTED",
            Level::ReadCommittedLocks | Level::ReadCommittedVersions => "READ COMMITTED",
            Level::RepeatableRead => "REPEATABLE READ",
            Level::Serializable => "SERIALIZABLE",
            Level::Snapshot => "SNAPSHOT",
        }
    }

    /// Whether what was read stays as it was until the transaction ends.
    pub(super) fn repeats_reads(self) -> bool {
        matches!(self, Level::RepeatableRead | Level::Serializable | Level::Snapshot)
    }

    /// Whether what was read is locked until then: no other commits a change of it before.
    pub(super) fn keeps_locks(self) -> bool {
        matches!(self, Level::RepeatableRead | Level::Serializable)
    }

    /// Whether nothing comes into what was read.
    pub(super) fn keeps_out_phantoms(self) -> bool {
        matches!(self, Level::Serializable | Level::Snapshot)
    }

    /// Whether all that a statement reads is of one moment.
    pub(super) fn reads_one_moment(self) -> bool {
        matches!(self, Level::ReadCommittedVersions | Level::Serializable | Level::Snapshot)
    }
}

/// A row as a statement saw it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Row {
    pub(super) id: i32,
    pub(super) key: i32,
    pub(super) part: i32,
    pub(super) balance: i64,
    /// Empty of a row that a `MERGE` has inserted: it was not there.
    pub(super) log: Vec<Token>,
}

/// Which rows a statement's condition names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Covers {
    All,
    Ids(Vec<i32>),
    /// Those with keys between two, and with them.
    Keys(i32, i32),
    Part(i32),
}

impl Covers {
    pub(super) fn has(&self, row: &Row) -> bool {
        match self {
            Covers::All => true,
            Covers::Ids(ids) => ids.contains(&row.id),
            Covers::Keys(from, to) => (*from..=*to).contains(&row.key),
            Covers::Part(part) => row.part == *part,
        }
    }
}

/// What a step does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Read(Covers),
    /// Appends its token to the rows that it covers, which it gives as they were, and adds to their balances in all.
    Update(Covers, i64),
    /// Gives the rows as they were.
    Delete(Covers),
    /// A row that was not there before, with a balance.
    Insert(i32, i64),
    /// A row that the step before has deleted, with its log and a token more.
    PutBack(Row),
    /// An update or an insert of one row; the row is given as it was, or with an empty log.
    Merge(i32),
    /// The number of all rows, as an `id`, and the sum of their balances.
    Total,
    /// A statement that must fail.
    Failing,
    Save,
    /// Takes back what came behind the last `Save`.
    Undo,
}

/// A statement and what came of it.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) table: usize,
    pub(super) sql: String,
    pub(super) kind: Kind,
    /// Whether an update gives rows another key or part.
    pub(super) moves: bool,
    pub(super) begin: Moment,
    pub(super) end: Moment,
    /// The number of its first error.
    pub(super) error: Option<i32>,
    pub(super) seen: Vec<Row>,
    pub(super) token: Option<Token>,
}

impl Step {
    /// Whether it reads or changes rows, and has done so.
    pub(super) fn has_rows(&self) -> bool {
        self.error.is_none() && !matches!(self.kind, Kind::Save | Kind::Undo | Kind::Failing)
    }

    /// Whether it only reads.
    pub(super) fn is_read(&self) -> bool {
        matches!(self.kind, Kind::Read(_))
    }

    /// Whether it may have put a row elsewhere in an index, be it for a while. Which rows a statement had changed
    /// before it failed is not known.
    pub(super) fn may_move(&self, id: i32) -> bool {
        let touches = |covers: &Covers| match covers {
            Covers::All => true,
            Covers::Ids(ids) => ids.contains(&id),
            Covers::Keys(..) | Covers::Part(_) => self.error.is_some() || self.seen.iter().any(|row| row.id == id),
        };
        match &self.kind {
            Kind::Read(_) | Kind::Total | Kind::Save | Kind::Undo => false,
            Kind::Failing => true,
            Kind::Insert(of, _) | Kind::Merge(of) => *of == id,
            Kind::PutBack(row) => row.id == id,
            Kind::Delete(covers) => touches(covers),
            Kind::Update(covers, _) => self.moves && touches(covers),
        }
    }
}

/// A transaction.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    /// The thread of the round that ran it, and which of that thread's transactions it is.
    pub(super) name: (usize, usize),
    pub(super) level: Level,
    pub(super) steps: Vec<Step>,
    /// When its end began: nothing of it is committed before.
    pub(super) ends_from: Moment,
    pub(super) ended: Moment,
    pub(super) is_committed: bool,
}

impl Transaction {
    /// When it first looked at rows, at the earliest.
    pub(super) fn first_look(&self) -> Moment {
        let looks = self.steps.iter().filter(|step| !matches!(step.kind, Kind::Save | Kind::Undo));
        looks.map(|step| step.begin).min().unwrap_or(self.ends_from)
    }

    /// From when on a step of it has to see what has committed.
    pub(super) fn sees_from(&self, step: &Step) -> Moment {
        if self.level == Level::Snapshot { self.first_look() } else { step.begin }
    }
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((thread, number), level) = (self.name, self.level);
        writeln!(f, "T{thread}.{number} {level:?}")?;
        for step in &self.steps {
            write!(f, "  [{} {}] {}", step.begin, step.end, step.sql)?;
            match step.error {
                Some(error) => writeln!(f, "\n      => error {error}")?,
                None => {
                    for row in &step.seen {
                        let Row { id, key, part, balance, log } = row;
                        write!(f, "\n      => id {id} k {key} p {part} bal {balance} log {log:?}")?;
                    }
                    writeln!(f)?;
                }
            }
        }
        let end = if self.is_committed { "COMMIT" } else { "ROLLBACK" };
        writeln!(f, "  [{} {}] {end}", self.ends_from, self.ended)
    }
}
