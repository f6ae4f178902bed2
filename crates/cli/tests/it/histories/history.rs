//! What sessions did and saw: transactions with steps, each with its position in one order of begins and ends.
//!
//! A row's `log` is a list of tokens. Each change of a row appends a token that is unique to its statement. So a read
//! of a row shows which changes came before, and in which order: the versions of a row need not be guessed.

use std::fmt;

/// A position in the order of all begins and ends of a round: one counter, read before and after each statement.
pub(super) type Moment = u64;

/// The value that a statement appends to the log of the rows that it changes. 0 is the row's first version.
pub(super) type Token = u32;

/// A row of a table of the round: the index of its table and its `id`, which never changes.
pub(super) type RowName = (usize, i32);

/// Isolation levels, as far as their promises differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Level {
    ReadUncommitted,
    /// In a database with `READ_COMMITTED_SNAPSHOT` off.
    ReadCommittedLocks,
    ReadCommittedVersions,
    RepeatableRead,
    Serializable,
    Snapshot,
}

impl Level {
    /// The name in `SET TRANSACTION ISOLATION LEVEL`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Level::ReadUncommitted => "READ UNCOMMITTED",
            Level::ReadCommittedLocks | Level::ReadCommittedVersions => "READ COMMITTED",
            Level::RepeatableRead => "REPEATABLE READ",
            Level::Serializable => "SERIALIZABLE",
            Level::Snapshot => "SNAPSHOT",
        }
    }

    /// Whether rows that were read stay the same until the transaction ends.
    pub(super) fn repeats_reads(self) -> bool {
        matches!(self, Level::RepeatableRead | Level::Serializable | Level::Snapshot)
    }

    /// Whether rows that were read are locked until then, so that no other transaction commits a change of them before.
    pub(super) fn keeps_locks(self) -> bool {
        matches!(self, Level::RepeatableRead | Level::Serializable)
    }

    /// Whether no rows are added to what was read.
    pub(super) fn keeps_out_phantoms(self) -> bool {
        matches!(self, Level::Serializable | Level::Snapshot)
    }

    /// Whether all rows that a statement reads are of one moment.
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
    /// Empty for a row that a `MERGE` has inserted: it did not exist.
    pub(super) log: Vec<Token>,
}

/// The rows that a statement's condition names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Covers {
    All,
    Ids(Vec<i32>),
    /// Rows with keys between two values, inclusive.
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

/// The kind of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Read(Covers),
    /// Appends its token to the covered rows, returns them as they were, and adds the amount to the sum of their
    /// balances.
    Update(Covers, i64),
    /// Deletes the rows, and returns them as they were.
    Delete(Covers),
    /// Inserts a new row with a balance.
    Insert(i32, i64),
    /// Inserts the row that the previous step has deleted, with its log and one more token.
    PutBack(Row),
    /// An update or an insert of one row. Returns the row as it was, or with an empty log.
    Merge(i32),
    /// Reads the number of all rows, returned as an `id`, and the sum of their balances.
    Total,
    /// A statement that must fail.
    Failing,
    Save,
    /// Rolls back to the last `Save`.
    Undo,
}

/// A statement and its result.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) table: usize,
    pub(super) sql: String,
    pub(super) kind: Kind,
    /// Whether an update changes the key or part of rows.
    pub(super) moves: bool,
    pub(super) begin: Moment,
    pub(super) end: Moment,
    /// The number of its first error.
    pub(super) error: Option<i32>,
    pub(super) seen: Vec<Row>,
    pub(super) token: Option<Token>,
}

impl Step {
    /// Whether it reads or changes rows, and succeeded.
    pub(super) fn has_rows(&self) -> bool {
        self.error.is_none() && !matches!(self.kind, Kind::Save | Kind::Undo | Kind::Failing)
    }

    /// Whether it only reads.
    pub(super) fn is_read(&self) -> bool {
        matches!(self.kind, Kind::Read(_))
    }

    /// Whether it may have moved a row in an index, even temporarily. It is not known which rows a failed statement had
    /// changed.
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
    /// The thread of the round that ran it, and its number among that thread's transactions.
    pub(super) name: (usize, usize),
    pub(super) level: Level,
    pub(super) steps: Vec<Step>,
    /// When its end began: it is not committed before that.
    pub(super) ends_from: Moment,
    pub(super) ended: Moment,
    pub(super) is_committed: bool,
}

impl Transaction {
    /// The earliest moment at which it can have read rows.
    pub(super) fn first_look(&self) -> Moment {
        let looks = self.steps.iter().filter(|step| !matches!(step.kind, Kind::Save | Kind::Undo));
        looks.map(|step| step.begin).min().unwrap_or(self.ends_from)
    }

    /// The moment from which on a step must see what has been committed.
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
