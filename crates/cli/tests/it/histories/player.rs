//! A session of a round: runs the statements of its script and records their results.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hobt::Session;
use hobt_base::SplitMix64;

use super::history::{Covers, Kind, Level, Moment, Row, Step, Token, Transaction};
use super::script::{Moves, Operation, Part, Plan, Reach, plan};
use super::tables::RoundTable;
use crate::client::{self, answer};

/// The data shared by the sessions of a round.
pub(super) struct Shared<'r> {
    pub(super) tables: &'r [RoundTable],
    pub(super) has_versions: bool,
    pub(super) transactions: usize,
    pub(super) clock: AtomicU64,
    pub(super) tokens: AtomicU32,
}

impl Shared<'_> {
    fn now(&self) -> Moment {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }
}

/// Errors that end a transaction: deadlock, update conflict, a definition that changed after the snapshot.
const ENDING: [i32; 3] = [1205, 3960, 3961];
const OLD_ROW: &str = "deleted.id, deleted.k, deleted.p, deleted.bal, deleted.log";

/// A running session.
pub(super) struct Player<'r> {
    shared: &'r Shared<'r>,
    session: Session,
    thread: usize,
    under_way: Transaction,
    /// The money that it has taken out of each table and not put back yet.
    owed: Vec<i64>,
    /// Whether a row was deleted and could not be put back.
    is_torn: bool,
    has_ended: bool,
}

/// Runs the script generated from `seed`. Returns the transactions.
pub(super) fn play(shared: &Shared<'_>, session: Session, thread: usize, seed: u64) -> Vec<Transaction> {
    let mut random = SplitMix64::new(seed);
    let mut player = Player {
        shared,
        session,
        thread,
        under_way: empty((thread, 0), Level::ReadCommittedLocks),
        owed: vec![0; shared.tables.len()],
        is_torn: false,
        has_ended: false,
    };
    let mut done = Vec::new();
    for number in 0..shared.transactions {
        let plan = plan(&mut random, shared.tables, shared.has_versions);
        done.push(player.transaction(number, plan));
    }
    done
}

fn empty(name: (usize, usize), level: Level) -> Transaction {
    Transaction { name, level, steps: Vec::new(), ends_from: 0, ended: 0, is_committed: false }
}

/// Parses a row of this module's result sets. A `MERGE` returns NULLs for a row that did not exist.
pub(super) fn row_of(cells: &[Option<String>]) -> Row {
    let number = |cell: &Option<String>| cell.as_ref().map_or(0, |text| text.parse::<i64>().expect("a number"));
    let narrow = |cell: &Option<String>| i32::try_from(number(cell)).expect("an int");
    let tokens = cells[4].iter().flat_map(|log| log.split(',')).filter(|token| !token.is_empty());
    Row {
        id: narrow(&cells[0]),
        key: narrow(&cells[1]),
        part: narrow(&cells[2]),
        balance: number(&cells[3]),
        // A failing statement writes a token that is not a number.
        log: tokens.map(|token| token.parse().unwrap_or(Token::MAX)).collect(),
    }
}

fn condition(covers: &Covers) -> String {
    match covers {
        Covers::All => "1 = 1".to_owned(),
        Covers::Ids(ids) if ids.len() == 1 => format!("id = {}", ids[0]),
        Covers::Ids(ids) => format!("id BETWEEN {} AND {}", ids[0], ids[ids.len() - 1]),
        Covers::Keys(from, to) => format!("k BETWEEN {from} AND {to}"),
        Covers::Part(part) => format!("p = {part}"),
    }
}

fn hint(reach: &Reach) -> String {
    reach.hint.map_or_else(String::new, |index| format!(" WITH (INDEX({index}))"))
}

/// The assignments of an update besides the token's. `is_one`: the update is of one row.
fn assignments(moves: Moves, is_one: bool) -> String {
    let mut text = String::new();
    match moves.key {
        Some(key) if is_one => text.push_str(&format!(", k = {key}")),
        Some(key) => text.push_str(&format!(", k = (k + {key}) % {}", super::tables::KEYS)),
        None => {}
    }
    if let Some(part) = moves.part {
        text.push_str(&format!(", p = {part}"));
    }
    if let Some(pad) = moves.pad {
        text.push_str(&format!(", pad = REPLICATE('x', {pad})"));
    }
    text
}

impl Player<'_> {
    fn transaction(&mut self, number: usize, plan: Plan) -> Transaction {
        let Plan { level, is_alone, lock_timeout_ms, parts, commits } = plan;
        self.under_way = empty((self.thread, number), level);
        self.owed.fill(0);
        (self.is_torn, self.has_ended) = (false, false);
        let mut begin = format!("SET TRANSACTION ISOLATION LEVEL {}; SET LOCK_TIMEOUT {lock_timeout_ms}", level.name());
        if !is_alone {
            begin.push_str("; BEGIN TRANSACTION");
        }
        client::ok(&mut self.session, &begin);
        for part in parts {
            if self.has_ended || self.is_torn {
                break;
            }
            match part {
                Part::Plain(table, operation) => self.operation(table, &operation),
                Part::Savepoint { operations, is_taken_back } => self.savepoint(&operations, is_taken_back),
            }
        }
        let commits = commits && !self.is_torn && self.owed.iter().all(|owed| *owed == 0);
        self.end(is_alone, commits);
        std::mem::replace(&mut self.under_way, empty((self.thread, number), level))
    }

    fn end(&mut self, is_alone: bool, commits: bool) {
        let now = self.shared.now();
        let last = self.under_way.steps.last();
        if is_alone || self.has_ended {
            self.under_way.ends_from = last.map_or(now, |step| step.begin);
            self.under_way.is_committed = is_alone && last.is_some_and(|step| step.error.is_none());
        } else {
            self.under_way.ends_from = now;
            self.under_way.is_committed = commits;
            let end = if commits { "COMMIT" } else { "ROLLBACK" };
            if let Some(error) = answer(&mut self.session, end).1 {
                panic!("{end}: {error}\n{}", self.under_way);
            }
        }
        self.under_way.ended = self.shared.now();
    }

    fn savepoint(&mut self, operations: &[(usize, Operation)], is_taken_back: bool) {
        let before = (self.owed.clone(), self.is_torn);
        self.step(0, Kind::Save, None, "SAVE TRANSACTION s".to_owned());
        for (table, operation) in operations {
            if self.has_ended || self.is_torn {
                break;
            }
            self.operation(*table, operation);
        }
        if !self.has_ended && (is_taken_back || self.is_torn) {
            self.step(0, Kind::Undo, None, "ROLLBACK TRANSACTION s".to_owned());
            (self.owed, self.is_torn) = before;
        }
    }

    /// Runs a statement. Returns its rows, or `None` if it failed.
    fn step(&mut self, table: usize, kind: Kind, token: Option<Token>, sql: String) -> Option<Vec<Row>> {
        let begin = self.shared.now();
        let (rows, failed) = answer(&mut self.session, &sql);
        let end = self.shared.now();
        if let Some(error) = &failed {
            const EXPECTED: [i32; 7] = [1205, 1222, 2601, 2627, 3960, 3961, 8134];
            assert!(EXPECTED.contains(&error.number), "{sql}: {error}\nin {}", self.under_way);
        }
        let error = failed.map(|error| error.number);
        // Rows sent before an error do not count as read.
        let seen = if error.is_none() { rows.iter().map(|cells| row_of(cells)).collect() } else { Vec::new() };
        self.has_ended |= error.is_some_and(|number| ENDING.contains(&number));
        let moves = [", k = ", ", p = "].iter().any(|assignment| sql.contains(assignment));
        let step = Step { table, sql, kind, moves, begin, end, error, seen, token };
        let found = step.error.is_none().then(|| step.seen.clone());
        self.under_way.steps.push(step);
        found
    }

    fn token(&self) -> Token {
        self.shared.tokens.fetch_add(1, Ordering::Relaxed)
    }

    fn operation(&mut self, at: usize, operation: &Operation) {
        let table = &self.shared.tables[at];
        let name = table.name.clone();
        match operation {
            Operation::Read(reach) => self.read(at, &name, reach),
            Operation::Total => {
                let sql = format!("SELECT COUNT(*), 0, 0, SUM(bal), '' FROM {name}");
                self.step(at, Kind::Total, None, sql);
            }
            Operation::Append(reach, moves) => {
                let is_one = matches!(&reach.covers, Covers::Ids(ids) if ids.len() == 1);
                let more = assignments(*moves, is_one);
                self.update(at, reach, (&more, 0));
            }
            Operation::Transfer { from, to, amount, at_once: true } => {
                let token = self.token();
                let covers = Covers::Ids(vec![*from, *to]);
                let sql = format!(
                    "UPDATE {name} SET log = log + ',{token}', bal = bal + CASE id WHEN {from} THEN -{amount} ELSE {amount} END \
                     OUTPUT {OLD_ROW} WHERE id IN ({from}, {to})"
                );
                self.step(at, Kind::Update(covers, 0), Some(token), sql);
            }
            Operation::Transfer { from, to, amount, at_once: false } => {
                if self.pay(at, *from, -amount) {
                    self.pay(at, *to, *amount);
                }
            }
            Operation::Remake(id, moves) => self.remake(at, &name, *id, *moves),
            Operation::Come { id, payer, key } => {
                let (token, part) = (self.token(), id % super::tables::PARTS);
                let sql = format!("INSERT {name} VALUES ({id}, {key}, {part}, 7, '{token}', '')");
                if self.step(at, Kind::Insert(*id, 7), Some(token), sql).is_some() {
                    self.owed[at] += 7;
                    self.pay(at, *payer, -7);
                }
            }
            Operation::Go { id, payee } => {
                let sql = format!("DELETE {name} OUTPUT {OLD_ROW} WHERE id = {id}");
                let gone = self.step(at, Kind::Delete(Covers::Ids(vec![*id])), None, sql);
                let balance: i64 = gone.iter().flatten().map(|row| row.balance).sum();
                if balance != 0 {
                    self.owed[at] -= balance;
                    self.pay(at, *payee, balance);
                }
            }
            Operation::Merge(id, moves) => self.merge(at, &name, *id, *moves),
            Operation::Fail(id) => {
                let sql = format!(
                    "UPDATE {name} SET log = log + ',fails', k = k + 1, bal = bal / (id - {}) WHERE id IN ({id}, {})",
                    id + 1,
                    id + 1
                );
                self.step(at, Kind::Failing, None, sql);
            }
            Operation::FailInsert(id) => {
                let (key, part) = (super::tables::KEYS + id, id % super::tables::PARTS);
                let sql = format!(
                    "INSERT {name} VALUES ({}, {key}, {part}, 7, 'fails', ''), ({id}, 1{key}, {part}, 7, 'fails', '')",
                    id + 100
                );
                self.step(at, Kind::Failing, None, sql);
            }
        }
    }

    fn read(&mut self, at: usize, name: &str, reach: &Reach) {
        const COLUMNS: &str = "t.id, t.k, t.p, t.bal, t.log";
        let (hint, covers) = (hint(reach), reach.covers.clone());
        let sql = match &covers {
            Covers::Ids(ids) if reach.is_odd && ids[0] == 1 => {
                format!("SELECT TOP ({}) {COLUMNS} FROM {name} AS t{hint} ORDER BY id", ids.len())
            }
            Covers::Ids(ids) if reach.is_odd => {
                let list: Vec<String> = ids.iter().map(|id| format!("({id})")).collect();
                let list = list.join(", ");
                format!("SELECT {COLUMNS} FROM (VALUES {list}) AS v (id) JOIN {name} AS t{hint} ON t.id = v.id")
            }
            covers => format!("SELECT {COLUMNS} FROM {name} AS t{hint} WHERE {}", condition(covers)),
        };
        self.step(at, Kind::Read(covers), None, sql);
    }

    /// Appends a token to rows, with the assignments `more`, which add `amount` to the balance of each.
    fn update(&mut self, at: usize, reach: &Reach, (more, amount): (&str, i64)) -> Option<Vec<Row>> {
        let (token, name, hint) = (self.token(), &self.shared.tables[at].name, hint(reach));
        let condition = condition(&reach.covers);
        let sql = format!("UPDATE {name}{hint} SET log = log + ',{token}'{more} OUTPUT {OLD_ROW} WHERE {condition}");
        self.step(at, Kind::Update(reach.covers.clone(), amount), Some(token), sql)
    }

    /// Adds money to a permanent row, or takes it. Returns whether that was done.
    fn pay(&mut self, at: usize, id: i32, amount: i64) -> bool {
        if self.has_ended {
            return false;
        }
        let reach = Reach { covers: Covers::Ids(vec![id]), hint: None, is_odd: false };
        let paid = self.update(at, &reach, (&format!(", bal = bal + {amount}"), amount)).is_some();
        if paid {
            self.owed[at] += amount;
        }
        paid
    }

    fn remake(&mut self, at: usize, name: &str, id: i32, moves: Moves) {
        let sql = format!("DELETE {name} OUTPUT {OLD_ROW} WHERE id = {id}");
        let gone = self.step(at, Kind::Delete(Covers::Ids(vec![id])), None, sql);
        let Some(row) = gone.and_then(|mut rows| rows.pop()) else { return };
        let token = self.token();
        let mut log: Vec<String> = row.log.iter().map(Token::to_string).collect();
        log.push(token.to_string());
        let sql = format!(
            "INSERT {name} VALUES ({id}, {}, {}, {}, '{}', REPLICATE('y', {}))",
            moves.key.unwrap_or(row.key),
            moves.part.unwrap_or(row.part),
            row.balance,
            log.join(","),
            moves.pad.unwrap_or(0)
        );
        self.is_torn |= self.step(at, Kind::PutBack(row), Some(token), sql).is_none();
    }

    fn merge(&mut self, at: usize, name: &str, id: i32, moves: Moves) {
        let (token, more) = (self.token(), assignments(moves, true));
        let (key, part) = (moves.key.unwrap_or(id * 5), moves.part.unwrap_or(0));
        let sql = format!(
            "MERGE {name} AS t USING (VALUES ({id})) AS s (id) ON t.id = s.id \
             WHEN MATCHED THEN UPDATE SET log = t.log + ',{token}'{more} \
             WHEN NOT MATCHED THEN INSERT (id, k, p, bal, log, pad) VALUES (s.id, {key}, {part}, 0, '{token}', '') \
             OUTPUT inserted.id, deleted.k, deleted.p, deleted.bal, deleted.log;"
        );
        self.step(at, Kind::Merge(id), Some(token), sql);
    }
}
