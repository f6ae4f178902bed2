//! The rows that a range of keys, or a part, must contain.
//!
//! A row's key and part change, so the result for a range follows from the versions that the statement may have met: a
//! row must be found if all of these are in the range. The contents of a version are known from any statement that saw
//! it, because a change returns its rows ([`Images`]).
//!
//! A statement that reads one moment must return such a row in any case. A statement that locks row by row may miss a
//! row that moves past it in an index, so rows that may have moved during the statement are not required.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::check::Wrong;
use super::history::{Covers, Kind, Level, Row, RowName, Step, Token, Transaction};
use super::own::Own;
use super::versions::Versions;

/// The contents of each version of a row, by its last change.
pub(super) struct Images<'h> {
    rows: BTreeMap<(RowName, Token), &'h Row>,
}

impl<'h> Images<'h> {
    /// Collects everything that was seen and the final rows. A version that was seen with different contents is added
    /// to `wrong`.
    pub(super) fn new(transactions: &'h [Transaction], last: &'h [Vec<Row>], wrong: &mut Wrong) -> Images<'h> {
        let mut images = Images { rows: BTreeMap::new() };
        for (table, rows) in last.iter().enumerate() {
            rows.iter().for_each(|row| images.add((table, row), Vec::new(), wrong));
        }
        for (at, transaction) in transactions.iter().enumerate() {
            // Uncommitted rows may be incomplete.
            let is_clean = |step: &&Step| transaction.level != Level::ReadUncommitted || !step.is_read();
            for step in transaction.steps.iter().filter(|step| step.has_rows() && step.kind != Kind::Total) {
                if is_clean(&step) {
                    step.seen.iter().for_each(|row| images.add((step.table, row), vec![at], wrong));
                }
            }
        }
        images
    }

    fn add(&mut self, (table, row): (usize, &'h Row), by: Vec<usize>, wrong: &mut Wrong) {
        let Some(last) = row.log.last() else { return };
        match self.rows.entry(((table, row.id), *last)) {
            Entry::Vacant(place) => {
                place.insert(row);
            }
            Entry::Occupied(known) if *known.get() == row => {}
            Entry::Occupied(known) => {
                wrong.push((format!("one version of a row in table {table} is {:?} and {row:?}", known.get()), by));
            }
        }
    }

    /// Whether a version is known to satisfy a condition.
    fn is_in(&self, name: RowName, last: Token, covers: &Covers) -> bool {
        self.rows.get(&(name, last)).is_some_and(|row| covers.has(row))
    }
}

/// A statement of a transaction that reads a range.
pub(super) struct Look<'c, 'h> {
    pub(super) versions: &'c Versions<'h>,
    pub(super) images: &'c Images<'h>,
    pub(super) transaction: usize,
    pub(super) step: &'c Step,
    pub(super) covers: &'c Covers,
}

impl Look<'_, '_> {
    fn this(&self) -> &Transaction {
        &self.versions.transactions[self.transaction]
    }

    /// Whether a row must be seen. `known`: the other transactions' part of its log, as the transaction has read it, if
    /// it must read the same again.
    pub(super) fn must_show(&self, own: &Own, known: Option<&[Token]>, name: RowName) -> bool {
        if self.this().level == Level::ReadUncommitted {
            return false;
        }
        let is_in = |last: Option<&Token>| last.is_some_and(|last| self.images.is_in(name, *last, self.covers));
        if let Some(mine) = own.rows.get(&name) {
            // No other transaction can change it now.
            return !mine.is_gone && is_in(mine.tokens.last());
        }
        if let Some(log) = known {
            return is_in(log.last());
        }
        let lives = self.versions.lives_of(name).iter();
        lives.copied().any(|life| self.is_in_all_the_while(life)) && (self.is_of_one_moment() || !self.may_move(name))
    }

    /// Whether all that the statement sees is of one moment. A change locks the latest rows one by one, even under
    /// versions.
    fn is_of_one_moment(&self) -> bool {
        let level = self.this().level;
        level.reads_one_moment() && (self.step.is_read() || level != Level::ReadCommittedVersions)
    }

    /// Whether a row exists throughout, and all of its versions that may be met are in the range.
    fn is_in_all_the_while(&self, life: usize) -> bool {
        let versions = self.versions;
        let (from, to) = (self.this().sees_from(self.step), self.step.end);
        if !versions.is_there(life, from, to) {
            return false;
        }
        let of = &versions.lives[life];
        (0..of.order.len()).all(|at| {
            let (writer, next) = (versions.writer(of.order[at]), versions.next_writer(life, at));
            // Other transactions never see a version that its own writer has changed again or deleted.
            let is_passing = writer.is_some() && writer == next;
            let is_late = writer.is_some_and(|writer| versions.transactions[writer].ends_from > to);
            let is_over = next.is_some_and(|next| versions.transactions[next].ended < from);
            is_passing || is_late || is_over || self.images.is_in(of.name, of.order[at], self.covers)
        })
    }

    /// Whether a row may have moved in an index during the statement, by a transaction that was running, whether or not
    /// it committed.
    fn may_move(&self, name: RowName) -> bool {
        let all = self.versions.transactions.iter().enumerate();
        let mut others = all.filter(|(at, other)| *at != self.transaction && other.ended > self.step.begin);
        others.any(|(_, other)| {
            let steps = other.steps.iter().filter(|step| step.begin < self.step.end && step.table == name.0);
            steps.into_iter().any(|step| step.may_move(name.1))
        })
    }
}
