//! Compares what each statement saw with what had been written by then. See the list of promises in the parent module.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::{self, Looked, Missed};
use super::history::{Covers, Kind, Level, Row, RowName, Step, Token, Transaction};
use super::own::{Own, walk};
use super::ranges::{Images, Look};
use super::tables::{BALANCE, COMING, STAYING};
use super::versions::Versions;

/// The errors found, and the transactions that show them.
pub(super) type Wrong = Vec<(String, Vec<usize>)>;

/// What a transaction has read and must read again: the other transactions' part of a row's log, or `None` for a row
/// that did not exist.
type Known = BTreeMap<RowName, Option<Vec<Token>>>;

/// All errors of a round with these final rows, and the number of rows that ranges had to contain.
pub(super) fn check(transactions: &[Transaction], last: &[Vec<Row>]) -> (Wrong, u64) {
    let (mut wrong, mut asked) = (Wrong::new(), 0);
    check_last(last, &mut wrong);
    let versions = Versions::new(transactions, last, &mut wrong);
    let images = Images::new(transactions, last, &mut wrong);
    let (mut looked, mut missed) = (Vec::new(), Vec::new());
    for (at, transaction) in transactions.iter().enumerate() {
        let (looked, missed, wrong, asked) = (&mut looked, &mut missed, &mut wrong, &mut asked);
        let (versions, images) = (&versions, &images);
        let mut reader = Reader { versions, images, at, known: Known::new(), looked, missed, wrong, asked };
        walk(transaction, |number, step, own| reader.step(number, step, own));
    }
    graph::check(&versions, (&looked, &missed), &mut wrong);
    (wrong, asked)
}

fn check_last(last: &[Vec<Row>], wrong: &mut Wrong) {
    for (table, rows) in last.iter().enumerate() {
        let sum: i64 = rows.iter().map(|row| row.balance).sum();
        if sum != total() {
            wrong.push((format!("table {table}: the sum is {sum} in the end"), Vec::new()));
        }
        let ids: Vec<i32> = rows.iter().map(|row| row.id).collect();
        for id in STAYING.filter(|id| ids.iter().filter(|other| *other == id).count() != 1) {
            wrong.push((format!("table {table}: row {id} is not there once in the end: {ids:?}"), Vec::new()));
        }
    }
}

/// The sum of all balances of a table.
fn total() -> i64 {
    STAYING.map(|_| BALANCE).sum()
}

/// A transaction whose reads are checked.
struct Reader<'c, 'h> {
    versions: &'c Versions<'h>,
    images: &'c Images<'h>,
    at: usize,
    known: Known,
    looked: &'c mut Vec<Looked>,
    missed: &'c mut Vec<Missed>,
    wrong: &'c mut Wrong,
    /// The number of rows that ranges had to contain.
    asked: &'c mut u64,
}

impl Reader<'_, '_> {
    fn this(&self) -> &Transaction {
        &self.versions.transactions[self.at]
    }

    fn fails(&mut self, step: &Step, text: &str, other: Option<usize>) {
        let involved = std::iter::once(self.at).chain(other.filter(|other| *other != self.at)).collect();
        self.wrong.push((format!("{text}\n    at [{} {}] {}", step.begin, step.end, step.sql), involved));
    }

    fn step(&mut self, number: usize, step: &Step, own: &Own) {
        if step.kind == Kind::Failing && step.error.is_none() {
            self.fails(step, "a statement that must fail did not", None);
        }
        // Uncommitted rows may be read, but changes lock rows at every level.
        if !step.has_rows() || (step.is_read() && self.this().level == Level::ReadUncommitted) {
            return;
        }
        if step.kind == Kind::Total {
            let sum = step.seen.iter().map(|row| row.balance).sum();
            self.sum(step, own, sum);
            return;
        }
        for row in &step.seen {
            self.row(number, step, own, row);
        }
        match &step.kind {
            Kind::Read(covers) | Kind::Update(covers, _) | Kind::Delete(covers) => self.covered(step, own, covers),
            Kind::Merge(id) => self.covered(step, own, &Covers::Ids(vec![*id])),
            _ => {}
        }
        if step.kind == Kind::Read(Covers::All) {
            self.sum(step, own, step.seen.iter().map(|row| row.balance).sum());
        }
    }

    fn sum(&mut self, step: &Step, own: &Own, sum: i64) {
        let wanted = total() + own.added.get(&step.table).copied().unwrap_or_default();
        if self.this().level.reads_one_moment() && sum != wanted {
            self.fails(step, &format!("the sum is {sum}, and {wanted} at every moment"), None);
        }
    }

    /// Checks one row that was seen.
    fn row(&mut self, number: usize, step: &Step, own: &Own, row: &Row) {
        let name = (step.table, row.id);
        let mine = own.rows.get(&name).cloned().unwrap_or_default();
        if row.log.is_empty() {
            return;
        }
        if mine.is_gone {
            return self.fails(step, &format!("row {name:?} is there, which the transaction has deleted"), None);
        }
        let Some(others) = row.log.strip_suffix(mine.tokens.as_slice()) else {
            let text = format!("row {name:?} does not end in the transaction's own {:?}: {:?}", mine.tokens, row.log);
            return self.fails(step, &text, None);
        };
        if mine.is_new {
            if !others.is_empty() {
                self.fails(step, &format!("row {name:?} is not as the transaction inserted it: {:?}", row.log), None);
            }
            return;
        }
        self.version(number, step, name, others);
        if self.this().level.repeats_reads() {
            match self.known.insert(name, Some(others.to_vec())) {
                Some(Some(before)) if before != others => {
                    let text = format!("row {name:?} was {before:?} for this transaction before, and is {others:?}");
                    self.fails(step, &text, None);
                }
                Some(None) => {
                    let text = format!("phantom: row {name:?} was not there for this transaction before");
                    self.fails(step, &text, self.versions.writer(others[0]));
                }
                _ => {}
            }
        }
    }

    /// Checks a row's version from another transaction: committed, complete, and not outdated.
    fn version(&mut self, number: usize, step: &Step, name: RowName, log: &[Token]) {
        let versions = self.versions;
        let last = log.last().copied().unwrap_or_default();
        let writer = versions.writer(last);
        let Some(life) = versions.life(name, log) else {
            return self.fails(step, &format!("dirty read: row {name:?} {log:?} was never committed"), writer);
        };
        let order = &versions.lives[life].order;
        if !order.starts_with(log) {
            return self.fails(
                step,
                &format!("dirty read: row {name:?} was {log:?}, its versions are {order:?}"),
                writer,
            );
        }
        if let Some(writer) = writer.filter(|writer| *writer != self.at) {
            let next = order.get(log.len()).and_then(|next| versions.writer(*next));
            if next == Some(writer) {
                self.fails(step, &format!("row {name:?} in the midst of a transaction: {log:?} of {order:?}"), next);
            }
            if versions.transactions[writer].ends_from > step.end {
                self.fails(step, &format!("dirty read: row {name:?} {log:?} was not committed yet"), Some(writer));
            }
        }
        let sees_from = self.this().sees_from(step);
        let at = self.at;
        let is_older = |other: &usize| *other != at && versions.transactions[*other].ended < sees_from;
        let newest = order.iter().rposition(|token| versions.writer(*token).is_some_and(|other| is_older(&other)));
        if let Some(newest) = newest.filter(|newest| *newest >= log.len()) {
            let text = format!("row {name:?} {log:?} is out of date: {:?} was there before", &order[..=newest]);
            self.fails(step, &text, versions.writer(order[newest]));
        }
        if let Some(remover) = versions.lives[life].removed_by.filter(is_older) {
            self.fails(step, &format!("row {name:?} {log:?} was gone before"), Some(remover));
        }
        self.looked.push(Looked { transaction: self.at, step: number, life, version: log.len() - 1 });
    }

    /// Checks the rows that a statement's condition names: those that exist throughout must be seen exactly once.
    fn covered(&mut self, step: &Step, own: &Own, covers: &Covers) {
        if let Some(row) = step.seen.iter().find(|row| !row.log.is_empty() && !covers.has(row)) {
            self.fails(step, &format!("row {} does not fulfil the condition", row.id), None);
        }
        let ids: BTreeSet<i32> = match covers {
            Covers::Ids(ids) => ids.iter().copied().collect(),
            Covers::All | Covers::Keys(..) | Covers::Part(_) => STAYING.chain(COMING).collect(),
        };
        for id in ids {
            let name = (step.table, id);
            let count = step.seen.iter().filter(|row| row.id == id && !row.log.is_empty()).count();
            let may_repeat = step.is_read() && self.this().level == Level::ReadCommittedLocks;
            if count > 1 && !may_repeat {
                self.fails(step, &format!("row {name:?} {count} times"), None);
            }
            match covers {
                Covers::All | Covers::Ids(_) if count == 0 => self.absent(step, own, name),
                Covers::All | Covers::Ids(_) => {}
                Covers::Keys(..) | Covers::Part(_) => self.in_range(step, own, (covers, name), count > 0),
            }
        }
    }

    /// Checks a row for a condition on a range of keys or a part. `is_seen` says whether it was found.
    fn in_range(&mut self, step: &Step, own: &Own, (covers, name): (&Covers, RowName), is_seen: bool) {
        let known = self.known.get(&name).filter(|_| self.this().level.repeats_reads());
        let known = known.and_then(|log| log.as_deref());
        let (versions, images) = (self.versions, self.images);
        let must_show = Look { versions, images, transaction: self.at, step, covers }.must_show(own, known, name);
        *self.asked += u64::from(must_show);
        if must_show && !is_seen {
            let text = format!("row {name:?} was not found, and lies in the range");
            self.fails(step, &text, self.changing(step, name));
        }
    }

    /// Checks a row that was not found.
    fn absent(&mut self, step: &Step, own: &Own, name: RowName) {
        let mine = own.rows.get(&name);
        if mine.is_some_and(|mine| mine.is_gone) {
            return;
        }
        if let Some(Some(log)) = self.known.get(&name).filter(|_| self.this().level.repeats_reads()) {
            let text = format!("row {name:?} {log:?} has vanished");
            return self.fails(step, &text, None);
        }
        let is_mine = mine.is_some_and(|mine| mine.is_new);
        let sees_from = self.this().sees_from(step);
        let mut lives = self.versions.lives_of(name).iter();
        if is_mine || lives.any(|life| self.versions.is_there(*life, sees_from, step.end)) {
            return self.fails(step, &format!("row {name:?} was not found"), self.changing(step, name));
        }
        if self.this().level.keeps_out_phantoms() {
            self.known.insert(name, None);
        }
        if self.this().level == Level::Serializable {
            self.stays_absent(step, name);
        }
    }

    /// Checks a row that was not found and whose position is locked until the transaction ends: it was deleted before,
    /// or is inserted after that end.
    fn stays_absent(&mut self, step: &Step, name: RowName) {
        let versions = self.versions;
        for life in versions.lives_of(name).iter().copied() {
            let remover = versions.lives[life].removed_by;
            let was_before = remover.is_some_and(|remover| versions.transactions[remover].ends_from < step.end);
            let inserter = versions.inserter(life).filter(|inserter| *inserter != self.at);
            if !was_before && inserter.is_some() && versions.inserted_at(life) < self.this().ends_from {
                let text = format!("phantom: row {name:?} came while its place was locked");
                self.fails(step, &text, inserter);
            }
            self.missed.push(Missed { transaction: self.at, life, was_before });
        }
    }

    /// A transaction that changed a row while a step was running.
    fn changing(&self, step: &Step, name: RowName) -> Option<usize> {
        let versions = self.versions;
        let all = versions.transactions.iter().enumerate().filter(|(at, _)| *at != self.at);
        let mut beside = all.filter(|(_, other)| other.first_look() < step.end && other.ended > step.begin);
        beside.find(|(at, _)| versions.done[*at].rows.contains_key(&name)).map(|(at, _)| at)
    }
}
