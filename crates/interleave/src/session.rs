//! A session's actor: runs its script, and records the answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hobt_base::SqlError;
use hobt_instruments::schedule::{self, Place};
use hobt_interpreter::{Event, Flow, cell_text};
use hobt_session::Session;

use crate::history::{Done, Flush, History, Key, Moment, Outcome, Read, Value, View, Write};
use crate::others::FULL;
use crate::script::{Change, Level, Rows, Script, Statement, TableName, Transaction};
use crate::tables::{SWITCHED, is_pad_of};
use crate::world::Shared;

/// The answer to a batch.
#[derive(Default, Debug)]
pub(crate) struct Answer {
    pub(crate) rows: Vec<Vec<Option<String>>>,
    pub(crate) error: Option<SqlError>,
}

/// Runs a batch.
pub(crate) fn ask(session: &mut Session, batch: &str) -> Answer {
    let mut answer = Answer::default();
    let mut columns = Vec::new();
    session.execute(batch, &mut |event: Event| {
        match event {
            Event::ResultSet(begun) => columns = begun,
            Event::Rows(batch) => {
                for row in 0..batch.num_rows() {
                    let cell = |column| cell_text(&columns, &batch, row, column).unwrap_or_default();
                    answer.rows.push((0..columns.len()).map(cell).collect());
                }
            }
            Event::Error(error) => answer.error = answer.error.take().or(Some(error)),
            _ => {}
        }
        Flow::Continue
    });
    answer
}

/// Errors that a session must expect when others run.
const EXPECTED: [i32; 9] = [
    547,  // a row that others refer to, or that is not there
    1205, // it was a deadlock's victim
    3960, // a row has changed since the snapshot
    3961, // the table has changed since the snapshot
    2601, // a duplicate
    2627, //
    1222, // names that another claims, locks that are waited for too long
    3628, // a table whose definition changed while it was read
    539,  //
];

/// A session that runs a script.
pub(crate) struct Client<'w> {
    pub(crate) number: usize,
    pub(crate) shared: &'w Shared,
    pub(crate) session: Session,
}

fn number(cell: Option<&Option<String>>) -> Option<i64> {
    cell?.as_deref()?.parse().ok()
}

impl Client<'_> {
    fn history(&self) -> MutexGuard<'_, History> {
        self.shared.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tables(&self) -> &[TableName] {
        &self.shared.tables
    }

    /// Whether there is no point in continuing.
    fn is_over(&self) -> bool {
        self.shared.disk.is_off() || self.history().wrong.is_some()
    }

    /// Runs its script.
    pub(crate) fn run(&mut self, script: &Script) {
        let (mut level, mut waits_ms) = (Level::ReadCommitted, None);
        for transaction in script {
            if self.is_over() {
                return;
            }
            if transaction.level != level {
                level = transaction.level;
                self.say(&format!("SET TRANSACTION ISOLATION LEVEL {}", level.name()));
            }
            if transaction.waits_ms != waits_ms {
                waits_ms = transaction.waits_ms;
                self.say(&format!("SET LOCK_TIMEOUT {}", waits_ms.map_or(-1, i64::from)));
            }
            if transaction.is_autocommit {
                for statement in &transaction.statements {
                    if !matches!(statement, Statement::Save(_) | Statement::RollBackTo(_)) && !self.is_over() {
                        self.alone(transaction, statement);
                    }
                }
            } else {
                self.transaction(transaction);
            }
        }
    }

    /// Runs a batch that changes no row, and must not fail while there is power.
    fn say(&mut self, batch: &str) -> bool {
        let answer = self.batch(batch);
        match answer.error {
            None => true,
            Some(error) => {
                self.unexpected(batch, &error);
                false
            }
        }
    }

    fn batch(&mut self, batch: &str) -> Answer {
        schedule::point(Place::Statement);
        let number = self.number;
        self.history().note(|| format!("s{number}: {batch}"));
        self.history().statements += 1;
        let answer = ask(&mut self.session, batch);
        self.history().note(|| match &answer.error {
            None => format!("s{number} --> {}", shown(&answer.rows)),
            Some(error) => format!("s{number} --> error {}: {}", error.number, error.message),
        });
        answer
    }

    /// Handles an error; records it if it is not allowed.
    fn unexpected(&mut self, batch: &str, error: &SqlError) {
        if self.shared.disk.is_off() {
            return;
        }
        let number = error.number;
        let mut history = self.history();
        history.deadlocks += u64::from(number == 1205);
        history.conflicts += u64::from(number == 3960);
        history.full += u64::from(FULL.contains(&number));
        let is_expected = EXPECTED.contains(&number) || self.shared.is_tight && FULL.contains(&number);
        if !is_expected {
            history.is_wrong(format!("session {}: error {number}: {} in {batch}", self.number, error.message));
        }
    }

    /// A statement that is a transaction of its own.
    fn alone(&mut self, transaction: &Transaction, statement: &Statement) {
        let begun = self.history().tick();
        let mut done = Done::new(self.number, transaction.level, begun);
        done.is_alone = true;
        // Its commit is requested with it.
        done.ending = Some(begun);
        let failed = self.statement(&mut done, statement);
        let ended = self.history().tick();
        let is_off = self.shared.disk.is_off();
        done.outcome = match failed {
            _ if is_off && done.writes.is_empty() => Outcome::RolledBack,
            _ if is_off => Outcome::InDoubt,
            true => Outcome::RolledBack,
            false => Outcome::Committed,
        };
        done.ended = (!is_off).then_some(ended);
        if done.outcome == Outcome::RolledBack && !is_off {
            // A statement that fails leaves no changes, whatever it has returned.
            done.writes.clear();
        }
        self.history().transactions.push(done);
    }

    fn transaction(&mut self, transaction: &Transaction) {
        if !self.say("BEGIN TRANSACTION") {
            return;
        }
        let begun = self.history().tick();
        let mut done = Done::new(self.number, transaction.level, begun);
        done.is_delayed = transaction.is_delayed;
        let mut saved: BTreeMap<usize, usize> = BTreeMap::new();
        let mut is_open = true;
        for statement in &transaction.statements {
            match statement {
                Statement::Save(number) => {
                    is_open = self.say(&statement.text(&[]));
                    saved.insert(*number, done.writes.len());
                }
                Statement::RollBackTo(number) => {
                    let Some(from) = saved.get(number).copied() else { continue };
                    is_open = self.say(&statement.text(&[]));
                    let moment = self.history().tick();
                    done.writes[from..].iter_mut().for_each(|write| write.undone = write.undone.or(Some(moment)));
                    saved.retain(|other, _| other <= number);
                }
                _ => is_open = !self.statement(&mut done, statement) || self.is_in_transaction(),
            }
            if !is_open || self.is_over() {
                break;
            }
        }
        self.end(transaction, done, is_open);
    }

    fn is_in_transaction(&mut self) -> bool {
        if self.shared.disk.is_off() {
            return false;
        }
        let answer = ask(&mut self.session, "SELECT @@TRANCOUNT");
        number(answer.rows.first().and_then(|row| row.first())).is_some_and(|count| count > 0)
    }

    fn end(&mut self, transaction: &Transaction, mut done: Done, is_open: bool) {
        if !is_open {
            // The statement that failed has ended the transaction.
            let moment = self.history().tick();
            done.ending = Some(done.writes.last().map_or(done.begun, |write| write.at).max(done.begun));
            done.outcome = Outcome::RolledBack;
            done.ended = Some(moment);
            self.history().transactions.push(done);
            return;
        }
        done.ending = Some(self.history().tick());
        let text = match (transaction.commits, transaction.is_delayed) {
            (false, _) => "ROLLBACK",
            (true, false) => "COMMIT",
            (true, true) => "COMMIT TRANSACTION WITH (DELAYED_DURABILITY = ON)",
        };
        let answer = self.batch(text);
        let ended = self.history().tick();
        done.outcome = match (&answer.error, transaction.commits) {
            (_, false) => Outcome::RolledBack,
            (None, true) if !self.shared.disk.is_off() => Outcome::Committed,
            _ => Outcome::InDoubt,
        };
        if done.outcome != Outcome::InDoubt {
            done.ended = Some(ended);
        }
        if let Some(error) = answer.error
            && !self.shared.disk.is_off()
        {
            let text = format!("session {}: error {}: {} at its {text}", self.number, error.number, error.message);
            self.history().is_wrong(text);
        }
        self.history().transactions.push(done);
    }

    /// Runs a statement of a transaction. Returns whether it failed.
    fn statement(&mut self, done: &mut Done, statement: &Statement) -> bool {
        let text = statement.text(self.tables());
        let from = self.history().tick();
        let answer = self.batch(&text);
        let to = self.history().tick();
        let failed = match &answer.error {
            Some(error) => {
                self.unexpected(&text, error);
                true
            }
            None => false,
        };
        if let Statement::Other(other) = statement {
            if !failed && other.contains("sp_flush_log") {
                let database = crate::world::DATABASES.iter().position(|name| other.contains(name));
                self.history().flushes.push(Flush { database: database.expect("one of them"), from });
            }
            return failed;
        }
        if let Statement::Number { database, is_identity } = statement {
            if let Some(value) = number(answer.rows.first().and_then(|row| row.first()))
                && !self.history().numbers.insert((*database, *is_identity, value))
            {
                self.history().is_wrong(format!("session {}: {value} came twice: {text}", self.number));
            }
            return failed;
        }
        // A read under locks needs no snapshot; the snapshot is taken at a later read.
        let is_of_now = matches!(statement, Statement::Read { hint: "READCOMMITTEDLOCK", .. });
        done.looked = done.looked.or((!is_of_now).then_some(to));
        if self.shared.disk.is_off() && failed && done.ending.is_none() {
            return true;
        }
        let seen = Seen { from, to, text: &text, failed };
        match statement {
            Statement::Read { table, rows, hint, .. } => self.read(done, (*table, *rows, hint), &seen, &answer),
            Statement::Change { table, rows, change, .. } => {
                self.change(done, (*table, *rows, *change == Change::Delete), &seen, &answer);
            }
            Statement::Insert { table, rid, .. } | Statement::Upsert { table, rid, .. } => {
                self.change(done, (*table, Rows::One(*rid), false), &seen, &answer);
            }
            Statement::InsertAll { table, .. } => self.change(done, (*table, Rows::All, false), &seen, &answer),
            Statement::Truncate { table, rows } => self.change(done, (*table, *rows, true), &seen, &answer),
            Statement::Switch { table, .. } => {
                let rows = Rows::Between(SWITCHED.start, SWITCHED.end - 1);
                self.change(done, (*table, rows, false), &seen, &answer);
            }
            Statement::Save(_) | Statement::RollBackTo(_) | Statement::Number { .. } | Statement::Other(_) => {}
        }
        failed
    }

    fn view(&self, level: Level, table: usize, hint: &str) -> View {
        let is_locking = self.shared.locks_reads[self.tables()[table].database];
        match level {
            // The hint takes precedence over the level.
            _ if hint == "READCOMMITTEDLOCK" => View::EachItsMoment,
            Level::ReadCommitted if is_locking => View::EachItsMoment,
            Level::ReadCommitted => View::OneMoment,
            Level::RepeatableRead => View::Repeatable,
            Level::Snapshot => View::Snapshot,
            Level::Serializable => View::Serializable,
        }
    }

    fn read(&self, done: &mut Done, (table, rows, hint): (usize, Rows, &str), seen: &Seen<'_>, answer: &Answer) {
        if seen.failed {
            return;
        }
        let view = self.view(done.level, table, hint);
        let Seen { from, to, text, .. } = *seen;
        let mut found = BTreeMap::new();
        for row in &answer.rows {
            let cells = (number(row.first()), number(row.get(1)), number(row.get(2)));
            let (Some(rid), Some(token), Some(balance)) = cells else {
                self.history().is_wrong(format!("session {}: {} shows {row:?}", self.number, seen.text));
                continue;
            };
            let pad = row.get(4).and_then(|cell| cell.as_deref()).unwrap_or_default();
            let value = Value { token, balance };
            let before = found.insert(rid, value);
            // If no lock is kept and each row is read at a moment of its own, a row may change and be found again
            // elsewhere.
            let comes_again = before.is_some_and(|before| before != value) && view == View::EachItsMoment;
            if let Some(before) = before.filter(|_| comes_again) {
                let (rows, found, text) = (Rows::One(rid), BTreeMap::from([(rid, before)]), text.to_owned());
                done.reads.push(Read { table, rows, view, from, to, found, text });
            }
            let twice = before.is_some() && !comes_again;
            if twice || !rows.holds(rid) || !is_pad_of(token, pad) {
                let text = format!("session {}: {} shows {row:?}, twice: {twice}", self.number, seen.text);
                self.history().is_wrong(text);
            }
        }
        done.reads.push(Read { table, rows, view, from, to, found, text: text.to_owned() });
    }

    fn change(&self, done: &mut Done, (table, rows, deletes): (usize, Rows, bool), seen: &Seen<'_>, answer: &Answer) {
        let mut found = BTreeMap::new();
        let mut writes = Vec::new();
        for row in &answer.rows {
            let Some(rid) = number(row.first()) else {
                self.history().is_wrong(format!("session {}: {} says that it wrote {row:?}", self.number, seen.text));
                continue;
            };
            let value = |at: usize| Some(Value { token: number(row.get(at))?, balance: number(row.get(at + 1))? });
            let (before, after) = (value(1), value(3));
            if after.is_none() != deletes || !rows.holds(rid) {
                self.history().is_wrong(format!("session {}: {} says that it wrote {row:?}", self.number, seen.text));
            }
            let key: Key = (table, rid);
            if let Some(before) = before {
                found.insert(rid, before);
            }
            writes.push(Write { key, before, after, at: seen.to, undone: None });
        }
        if seen.failed && done.ending.is_none() {
            // It is undone, and its transaction continues or is undone as well.
            return;
        }
        let view = match self.view(done.level, table, "") {
            View::OneMoment => View::EachItsMoment,
            other => other,
        };
        let Seen { from, to, text, failed } = *seen;
        // An insert has not read the other rows.
        let is_insert = writes.iter().any(|write| write.before.is_none());
        if !failed && !is_insert {
            done.reads.push(Read { table, rows, view, from, to, found, text: text.to_owned() });
        }
        done.writes.extend(writes);
    }
}

/// A statement that was run.
struct Seen<'t> {
    from: Moment,
    to: Moment,
    text: &'t str,
    failed: bool,
}

fn shown(rows: &[Vec<Option<String>>]) -> String {
    let cell = |cell: &Option<String>| {
        let text = cell.as_deref().unwrap_or("NULL");
        if text.len() > 12 { format!("{}...({})", &text[..8], text.len()) } else { text.to_owned() }
    };
    let row = |row: &Vec<Option<String>>| format!("({})", row.iter().map(cell).collect::<Vec<_>>().join(" "));
    format!("{} rows {}", rows.len(), rows.iter().map(row).collect::<Vec<_>>().join(" "))
}

/// State that several actors share.
pub(crate) type SharedHistory = Arc<Mutex<History>>;
