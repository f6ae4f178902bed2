//! What sessions do: transactions of a few statements, drawn from a seed before anything runs, so that a failure can be
//! reduced to the statements that it needs.

use hobt_base::SplitMix64;

use crate::tables::{BALANCE, COLUMNS, RID_MIN, ROWS, SWITCHED, Shape, group, pad};

/// The isolation level of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Level {
    ReadCommitted,
    RepeatableRead,
    Snapshot,
    Serializable,
}

impl Level {
    const ALL: [Level; 4] = [Level::ReadCommitted, Level::RepeatableRead, Level::Snapshot, Level::Serializable];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Level::ReadCommitted => "READ COMMITTED",
            Level::RepeatableRead => "REPEATABLE READ",
            Level::Snapshot => "SNAPSHOT",
            Level::Serializable => "SERIALIZABLE",
        }
    }
}

/// The rows that a statement applies to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rows {
    One(i64),
    Between(i64, i64),
    Group(i64),
    All,
}

impl Rows {
    pub(crate) fn holds(self, rid: i64) -> bool {
        match self {
            Rows::One(one) => rid == one,
            Rows::Between(first, last) => (first..=last).contains(&rid),
            Rows::Group(own) => group(rid) == own,
            Rows::All => true,
        }
    }

    fn condition(self) -> String {
        match self {
            Rows::One(rid) => format!(" WHERE rid = {rid}"),
            Rows::Between(first, last) => format!(" WHERE rid BETWEEN {first} AND {last}"),
            Rows::Group(group) => format!(" WHERE grp = {group}"),
            Rows::All => String::new(),
        }
    }

    /// All rows that it may apply to.
    pub(crate) fn all(self) -> impl Iterator<Item = i64> {
        (RID_MIN..ROWS).filter(move |rid| self.holds(*rid))
    }

    fn draw(random: &mut SplitMix64) -> Rows {
        let rid = below(random, ROWS);
        match random.below(10) {
            0..6 => Rows::One(rid),
            6..8 => Rows::Between(rid, rid + below(random, 4)),
            8 => Rows::Group(group(rid)),
            _ => Rows::All,
        }
    }
}

/// What a statement does to its rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// New values in place, as far as they fit there.
    Set {
        length: usize,
    },
    /// A new `k`: the row moves in a tree, and may move to another partition.
    Move {
        k: i64,
        length: usize,
    },
    /// An amount is added.
    Add(i64),
    Delete,
}

/// One statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Statement {
    Read {
        table: usize,
        rows: Rows,
        index: Option<&'static str>,
        hint: &'static str,
    },
    Change {
        table: usize,
        rows: Rows,
        change: Change,
        token: i64,
        index: Option<&'static str>,
    },
    Insert {
        table: usize,
        rid: i64,
        k: i64,
        token: i64,
        length: usize,
    },
    /// An update of the row, or an insert if it does not exist.
    Upsert {
        table: usize,
        rid: i64,
        k: i64,
        token: i64,
        length: usize,
    },
    /// An insert of rows, of which all but the first two mostly exist already: it fails after some of them.
    InsertAll {
        table: usize,
        token: i64,
    },
    /// Removes all rows at once; the existing rows are read first, under a lock.
    Truncate {
        table: usize,
        rows: Rows,
    },
    /// Switches the middle partition of a table to another table, changes its rows there, and switches it back.
    Switch {
        table: usize,
        token: i64,
    },
    Save(usize),
    RollBackTo(usize),
    /// Takes a value of a sequence, or of an identity column: no value may come twice.
    Number {
        database: usize,
        is_identity: bool,
    },
    /// A statement that changes no row of the tables.
    Other(String),
}

/// A transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Transaction {
    pub(crate) level: Level,
    /// Each statement is a transaction of its own, without a `BEGIN`.
    pub(crate) is_autocommit: bool,
    pub(crate) statements: Vec<Statement>,
    pub(crate) commits: bool,
    pub(crate) is_delayed: bool,
    /// How many milliseconds it waits for a lock; without a limit if `None`.
    pub(crate) waits_ms: Option<u32>,
}

/// What one session does in one life of the instance.
pub(crate) type Script = Vec<Transaction>;

/// A table, as scripts know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TableName {
    /// With the name of its database.
    pub(crate) name: String,
    pub(crate) database: usize,
    pub(crate) shape: Shape,
}

fn below(random: &mut SplitMix64, bound: i64) -> i64 {
    i64::try_from(random.below(u64::try_from(bound).expect("positive"))).expect("below an i64")
}

fn chance(random: &mut SplitMix64, percent: u64) -> bool {
    random.below(100) < percent
}

fn length(random: &mut SplitMix64) -> usize {
    [20, 60, 300, 880][usize::try_from(random.below(4)).expect("few")]
}

/// The factor for values that are stored on pages of their own.
const LONGER: usize = 25;

/// Draws scripts.
pub(crate) struct Author<'t> {
    pub(crate) random: SplitMix64,
    pub(crate) tables: &'t [TableName],
    /// The last token that was given out.
    pub(crate) token: i64,
}

impl Author<'_> {
    fn token(&mut self) -> i64 {
        self.token += 1;
        self.token
    }

    fn table(&mut self) -> usize {
        usize::try_from(self.random.below(self.tables.len() as u64)).expect("few")
    }

    fn index(&mut self, table: usize) -> Option<&'static str> {
        let indexes = self.tables[table].shape.indexes();
        if indexes.is_empty() || chance(&mut self.random, 60) {
            return None;
        }
        Some(indexes[usize::try_from(self.random.below(indexes.len() as u64)).expect("few")])
    }

    /// A script of `transactions` transactions.
    pub(crate) fn script(&mut self, transactions: u64) -> Script {
        (0..transactions).map(|_| self.transaction()).collect()
    }

    fn transaction(&mut self) -> Transaction {
        let level = Level::ALL[usize::try_from(self.random.below(4)).expect("few")];
        let is_autocommit = chance(&mut self.random, 25);
        let count = 1 + self.random.below(if is_autocommit { 2 } else { 5 });
        let mut saved = Vec::new();
        let mut statements = Vec::new();
        for _ in 0..count {
            if !is_autocommit && chance(&mut self.random, 25) {
                saved.push(saved.len());
                statements.push(Statement::Save(saved.len() - 1));
            }
            if chance(&mut self.random, 15) {
                self.transfer(&mut statements);
            } else if !is_autocommit && level != Level::Snapshot && chance(&mut self.random, 5) {
                statements.extend(self.partition_change());
            } else {
                let statement = self.statement();
                statements.push(statement);
            }
            if !saved.is_empty() && chance(&mut self.random, 50) {
                let to = usize::try_from(self.random.below(saved.len() as u64)).expect("few");
                // A row that was deleted and inserted again is then changed in place.
                let back = statements.iter().rev().find_map(|statement| match statement {
                    Statement::Change { table, rows, change: Change::Delete, .. } => Some((*table, *rows)),
                    _ => None,
                });
                statements.push(Statement::RollBackTo(to));
                saved.truncate(to + 1);
                if let Some((table, rows)) = back.filter(|_| chance(&mut self.random, 60)) {
                    let change = Change::Set { length: 20 };
                    statements.push(Statement::Change { table, rows, change, token: self.token(), index: None });
                }
            }
        }
        let commits = chance(&mut self.random, 70);
        let is_delayed = chance(&mut self.random, 15);
        let waits_ms = chance(&mut self.random, 10).then_some(60);
        Transaction { level, is_autocommit, statements, commits, is_delayed, waits_ms }
    }

    /// Moves an amount from one row to another.
    fn transfer(&mut self, statements: &mut Vec<Statement>) {
        let (from, to) = (self.table(), self.table());
        let amount = 1 + below(&mut self.random, 20);
        for (table, amount) in [(from, -amount), (to, amount)] {
            let (rows, token) = (Rows::One(below(&mut self.random, ROWS)), self.token());
            let index = self.index(table);
            statements.push(Statement::Change { table, rows, change: Change::Add(amount), token, index });
        }
    }

    /// A truncation or a switch, if the table's shape allows it.
    fn partition_change(&mut self) -> Option<Statement> {
        let table = self.table();
        let shape = self.tables[table].shape;
        match (shape, self.random.below(3)) {
            (Shape::Switched, 0) => Some(Statement::Switch { table, token: self.token() }),
            (Shape::Switched, 1) => {
                Some(Statement::Truncate { table, rows: Rows::Between(SWITCHED.start, SWITCHED.end - 1) })
            }
            // A table that is referred to cannot be truncated.
            _ if shape.create_children("").is_some() => None,
            _ => Some(Statement::Truncate { table, rows: Rows::All }),
        }
    }

    fn statement(&mut self) -> Statement {
        let table = self.table();
        let index = self.index(table);
        let rows = Rows::draw(&mut self.random);
        let (k, mut length) = (below(&mut self.random, 400), length(&mut self.random));
        if self.tables[table].shape.is_long() {
            length *= LONGER;
        }
        match self.random.below(100) {
            0..38 => {
                let hint = if chance(&mut self.random, 8) { "READCOMMITTEDLOCK" } else { "" };
                Statement::Read { table, rows, index, hint }
            }
            38..56 => Statement::Change { table, rows, change: Change::Set { length }, token: self.token(), index },
            56..68 => Statement::Change { table, rows, change: Change::Move { k, length }, token: self.token(), index },
            68..80 => Statement::Change { table, rows, change: Change::Delete, token: self.token(), index },
            80..88 => Statement::Insert { table, rid: below(&mut self.random, ROWS), k, token: self.token(), length },
            88..92 => Statement::Upsert { table, rid: below(&mut self.random, ROWS), k, token: self.token(), length },
            92..94 => Statement::InsertAll { table, token: self.token() },
            94..96 => {
                let database = self.tables[table].database;
                Statement::Number { database, is_identity: chance(&mut self.random, 50) }
            }
            96..98 => {
                let child = self.child(table);
                child.map_or_else(|| Statement::Other(self.other(table)), Statement::Other)
            }
            _ => Statement::Other(self.other(table)),
        }
    }

    /// Inserts or deletes a row that refers to one of the table's rows.
    fn child(&mut self, table: usize) -> Option<String> {
        let TableName { name, shape, .. } = &self.tables[table];
        shape.create_children("")?;
        let (rid, goes) = (below(&mut self.random, ROWS), chance(&mut self.random, 40));
        Some(match goes {
            true => format!("DELETE FROM {name}_child WHERE rid = {rid}"),
            false => format!("INSERT {name}_child VALUES ({rid}, {})", self.token),
        })
    }

    fn other(&mut self, table: usize) -> String {
        let TableName { name, database, .. } = &self.tables[table];
        let database = crate::world::DATABASES[*database];
        match self.random.below(4) {
            0 => format!("EXEC {database}.sys.sp_flush_log"),
            1 => format!("SELECT COUNT(*) FROM {name} WITH (NOLOCK)"),
            _ => format!(
                "INSERT {database}.dbo.side SELECT TOP ({}) tok, LEFT(pad, 900) FROM {name}",
                1 + self.random.below(30)
            ),
        }
    }
}

/// A table with hints.
fn hinted(table: &TableName, index: Option<&str>, hint: &str) -> String {
    let index = index.map(|index| format!("INDEX({index})"));
    let all: Vec<&str> = index.as_deref().into_iter().chain(Some(hint).filter(|hint| !hint.is_empty())).collect();
    let with = if all.is_empty() { String::new() } else { format!(" WITH ({})", all.join(", ")) };
    format!("{}{with}", table.name)
}

/// The `OUTPUT` of a statement for a row that is inserted, or deleted.
const OF_INSERT: &str = "inserted.rid, CAST(NULL AS bigint), CAST(NULL AS int), inserted.tok, inserted.bal";
const OF_DELETE: &str = "deleted.rid, deleted.tok, deleted.bal, CAST(NULL AS bigint), CAST(NULL AS int)";
const OF_UPDATE: &str = "inserted.rid, deleted.tok, deleted.bal, inserted.tok, inserted.bal";

impl Change {
    /// The T-SQL of this change for the rows of a table that satisfy a condition.
    fn text(self, target: &str, token: i64, condition: &str) -> String {
        let set = match self {
            Change::Delete => return format!("DELETE FROM {target} OUTPUT {OF_DELETE}{condition}"),
            Change::Set { length } => format!("tok = {token}, pad = '{}'", pad(token, length)),
            Change::Move { k, length } => format!("tok = {token}, k = {k} + rid % 3, pad = '{}'", pad(token, length)),
            Change::Add(amount) => format!("tok = {token}, bal = bal + {amount}, pad = '{}'", pad(token, 30)),
        };
        format!("UPDATE {target} SET {set} OUTPUT {OF_UPDATE}{condition}")
    }
}

/// An insert of rows, of which all but the first two mostly exist already.
pub(crate) fn insert_all(name: &str, token: i64) -> String {
    let row = |rid: i64| format!("({rid}, {}, {})", rid * 30, group(rid));
    let rows: Vec<String> = (RID_MIN..ROWS).map(row).collect();
    format!(
        "INSERT {name} ({COLUMNS}) OUTPUT {OF_INSERT} SELECT v.rid, v.k, v.grp, {token}, {BALANCE}, '{}' FROM (VALUES {}) \
         AS v(rid, k, grp)",
        pad(token, 100),
        rows.join(", ")
    )
}

impl Statement {
    /// The T-SQL of the statement. A change of rows returns the old and the new values.
    pub(crate) fn text(&self, tables: &[TableName]) -> String {
        match self {
            Statement::Read { table, rows, index, hint } => {
                let from = hinted(&tables[*table], *index, hint);
                format!("SELECT rid, tok, bal, grp, pad FROM {from}{}", rows.condition())
            }
            Statement::Change { table, rows, change, token, index } => {
                change.text(&hinted(&tables[*table], *index, ""), *token, &rows.condition())
            }
            Statement::Insert { table, rid, k, token, length } => format!(
                "INSERT {} ({COLUMNS}) OUTPUT {OF_INSERT} VALUES ({rid}, {k}, {}, {token}, {BALANCE}, '{}')",
                tables[*table].name,
                group(*rid),
                pad(*token, *length)
            ),
            Statement::Upsert { table, rid, k, token, length } => {
                let pad = pad(*token, *length);
                format!(
                    "MERGE {} AS t USING (SELECT {rid} AS rid) AS s ON t.rid = s.rid WHEN MATCHED THEN UPDATE SET tok = \
                     {token}, pad = '{pad}' WHEN NOT MATCHED THEN INSERT ({COLUMNS}) VALUES ({rid}, {k}, {}, {token}, \
                     {BALANCE}, '{pad}') OUTPUT {OF_UPDATE};",
                    tables[*table].name,
                    group(*rid),
                )
            }
            Statement::InsertAll { table, token } => insert_all(&tables[*table].name, *token),
            Statement::Truncate { table, rows } => {
                let name = &tables[*table].name;
                let partitions = if *rows == Rows::All { "" } else { " WITH (PARTITIONS (2))" };
                format!(
                    "SELECT rid, tok, bal, CAST(NULL AS bigint), CAST(NULL AS int) FROM {name} WITH (TABLOCKX){}; \
                     TRUNCATE TABLE {name}{partitions}",
                    rows.condition()
                )
            }
            Statement::Switch { table, token } => {
                let (name, pad) = (&tables[*table].name, pad(*token, 200));
                format!(
                    "SET XACT_ABORT ON; ALTER TABLE {name} SWITCH PARTITION 2 TO {name}_out PARTITION 2; UPDATE {name}_out \
                     SET tok = {token}, pad = '{pad}' OUTPUT {OF_UPDATE}; ALTER TABLE {name}_out SWITCH PARTITION 2 TO \
                     {name} PARTITION 2; SET XACT_ABORT OFF"
                )
            }
            Statement::Save(number) => format!("SAVE TRANSACTION s{number}"),
            Statement::RollBackTo(number) => format!("ROLLBACK TRANSACTION s{number}"),
            Statement::Number { database, is_identity } => {
                let database = crate::world::DATABASES[*database];
                match is_identity {
                    true => format!("INSERT {database}.dbo.numbered OUTPUT inserted.n VALUES (1)"),
                    false => format!("SELECT NEXT VALUE FOR {database}.dbo.numbers"),
                }
            }
            Statement::Other(text) => text.clone(),
        }
    }
}
