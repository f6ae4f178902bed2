//! The script of a session, from its random numbers alone: its transactions, operations and rows.

use hobt_base::SplitMix64;

use super::history::{Covers, Level};
use super::tables::{COMING, KEYS, PARTS, RoundTable, STAYING};

/// An operation on one table. If it needs several statements, they are determined when it is run.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    Read(Reach),
    /// The sum of all balances, without the rows.
    Total,
    /// Appends a token to the rows, and changes their keys, parts and lengths.
    Append(Reach, Moves),
    /// Moves money from one permanent row to another: in one statement or in two.
    Transfer {
        from: i32,
        to: i32,
        amount: i64,
        at_once: bool,
    },
    /// Deletes a permanent row and inserts it again.
    Remake(i32, Moves),
    /// Inserts a row, and takes its money from a permanent one.
    Come {
        id: i32,
        payer: i32,
        key: i32,
    },
    /// Deletes a row, and adds its money to a permanent one.
    Go {
        id: i32,
        payee: i32,
    },
    Merge(i32, Moves),
    /// A statement that fails after it has changed some rows.
    Fail(i32),
    /// An insert of an existing row after a new one.
    FailInsert(i32),
}

/// The rows of an operation, and how a statement reaches them.
#[derive(Clone, Debug)]
pub(super) struct Reach {
    pub(super) covers: Covers,
    /// The index that a hint names.
    pub(super) hint: Option<&'static str>,
    /// For some ids, whether they are read by a join with a list of them, or as the first rows in order.
    pub(super) is_odd: bool,
}

/// The changes of an update besides the token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moves {
    pub(super) key: Option<i32>,
    pub(super) part: Option<i32>,
    pub(super) pad: Option<i32>,
}

/// An operation on a table, or several that may be rolled back together.
#[derive(Clone, Debug)]
pub(super) enum Part {
    Plain(usize, Operation),
    Savepoint { operations: Vec<(usize, Operation)>, is_taken_back: bool },
}

/// The plan of a transaction.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) level: Level,
    /// Whether its only statement commits by itself.
    pub(super) is_alone: bool,
    pub(super) lock_timeout_ms: i32,
    pub(super) parts: Vec<Part>,
    pub(super) commits: bool,
}

/// Random choices for a transaction.
struct Dice<'r> {
    random: &'r mut SplitMix64,
    /// Rows that it uses repeatedly.
    favourites: [i32; 2],
}

impl Dice<'_> {
    /// A number below `end`.
    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("few");
        usize::try_from(self.random.next_u64() % end).expect("below the end")
    }

    fn number(&mut self, end: i32) -> i32 {
        i32::try_from(self.below(usize::try_from(end).expect("positive"))).expect("below the end")
    }

    /// True with a probability of `percent` in a hundred.
    fn is_one_of(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn any_staying(&mut self) -> i32 {
        STAYING.start() + self.number(STAYING.end() - STAYING.start() + 1)
    }

    fn staying(&mut self) -> i32 {
        if self.is_one_of(70) { self.favourites[self.below(2)] } else { self.any_staying() }
    }

    fn coming(&mut self) -> i32 {
        COMING.start() + self.number(COMING.end() - COMING.start() + 1)
    }

    fn moves(&mut self) -> Moves {
        Moves {
            key: self.is_one_of(45).then(|| self.number(KEYS)),
            part: self.is_one_of(25).then(|| self.number(PARTS)),
            // Some rows are so long that two fill a page.
            pad: self
                .is_one_of(45)
                .then(|| if self.is_one_of(20) { 2_000 + self.number(900) } else { self.number(400) }),
        }
    }

    fn reach(&mut self, table: &RoundTable, is_change: bool) -> Reach {
        let covers = match self.below(10) {
            0..=1 if !is_change => Covers::All,
            0..=5 => Covers::Ids(vec![self.staying()]),
            6 => {
                let first = self.staying().min(*STAYING.end() - 2);
                Covers::Ids((first..first + 3).collect())
            }
            7..=8 => {
                let from = self.number(KEYS);
                Covers::Keys(from, from + self.number(15))
            }
            _ => Covers::Part(self.number(PARTS)),
        };
        let hints = table.form.hints;
        let of_ids = table.form.of_ids.filter(|_| matches!(covers, Covers::Ids(_)) && self.is_one_of(70));
        let hint = of_ids.or_else(|| (!hints.is_empty() && self.is_one_of(50)).then(|| hints[self.below(hints.len())]));
        Reach { covers, hint, is_odd: self.is_one_of(25) }
    }

    fn operation(&mut self, table: &RoundTable) -> Operation {
        let may_come = table.form.of_ids.is_some();
        match self.below(100) {
            0..=33 => Operation::Read(self.reach(table, false)),
            34..=36 => Operation::Total,
            37..=56 => Operation::Append(self.reach(table, true), self.moves()),
            57..=65 => {
                let from = self.staying();
                let other = self.any_staying();
                let to = if other == from { from % STAYING.end() + 1 } else { other };
                let amount = i64::from(self.number(9)) + 1;
                Operation::Transfer { from, to, amount, at_once: self.is_one_of(50) }
            }
            66..=78 => Operation::Remake(self.staying(), self.moves()),
            79..=83 if may_come => Operation::Come { id: self.coming(), payer: self.staying(), key: self.number(KEYS) },
            84..=88 if may_come => Operation::Go { id: self.coming(), payee: self.staying() },
            89..=93 => {
                let id = if may_come && self.is_one_of(50) { self.coming() } else { self.staying() };
                Operation::Merge(id, self.moves())
            }
            94..=96 if may_come => Operation::FailInsert(self.staying()),
            _ => Operation::Fail(self.staying().min(*STAYING.end() - 1)),
        }
    }

    fn on_some_table(&mut self, tables: &[RoundTable]) -> (usize, Operation) {
        let table = self.below(tables.len());
        (table, self.operation(&tables[table]))
    }
}

/// The next transaction of a session. `has_versions` is the setting of `READ_COMMITTED_SNAPSHOT`.
pub(super) fn plan(random: &mut SplitMix64, tables: &[RoundTable], has_versions: bool) -> Plan {
    let mut dice = Dice { random, favourites: [*STAYING.start(); 2] };
    dice.favourites = [dice.any_staying(), dice.any_staying()];
    let read_committed = if has_versions { Level::ReadCommittedVersions } else { Level::ReadCommittedLocks };
    let level = match dice.below(100) {
        0..=3 => Level::ReadUncommitted,
        4..=28 => read_committed,
        29..=50 => Level::RepeatableRead,
        51..=75 => Level::Serializable,
        _ => Level::Snapshot,
    };
    let lock_timeout_ms = if dice.is_one_of(15) { 20 } else { 4_000 };
    if dice.is_one_of(15) {
        let table = dice.below(tables.len());
        let reach = dice.reach(&tables[table], false);
        let operation = match dice.is_one_of(50) {
            true => Operation::Read(reach),
            false => Operation::Append(reach, dice.moves()),
        };
        let parts = vec![Part::Plain(table, operation)];
        return Plan { level, is_alone: true, lock_timeout_ms, parts, commits: true };
    }
    let mut parts = Vec::new();
    for _ in 0..1 + dice.below(5) {
        if dice.is_one_of(25) {
            let operations = (0..1 + dice.below(2)).map(|_| dice.on_some_table(tables)).collect();
            parts.push(Part::Savepoint { operations, is_taken_back: dice.is_one_of(75) });
        } else {
            let (table, operation) = dice.on_some_table(tables);
            parts.push(Part::Plain(table, operation));
        }
    }
    Plan { level, is_alone: false, lock_timeout_ms, parts, commits: dice.is_one_of(85) }
}
