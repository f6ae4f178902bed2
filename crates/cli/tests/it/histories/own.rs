//! The changes of a transaction to rows so far, which it must see itself.

use std::collections::BTreeMap;

use super::history::{Kind, Row, RowName, Step, Token, Transaction};

/// The changes of a transaction to a row.
#[derive(Clone, Default, Debug)]
pub(super) struct OwnRow {
    /// Its tokens, which are the last ones in the row's log.
    pub(super) tokens: Vec<Token>,
    pub(super) is_gone: bool,
    /// Whether it has inserted the row: then the log has no other tokens.
    pub(super) is_new: bool,
}

/// The changes of a transaction to all rows.
#[derive(Clone, Default, Debug)]
pub(super) struct Own {
    pub(super) rows: BTreeMap<RowName, OwnRow>,
    /// Rows of other transactions that it has deleted, with their logs.
    pub(super) removed: BTreeMap<RowName, Vec<Token>>,
    /// For each table, the change to the sum of the balances.
    pub(super) added: BTreeMap<usize, i64>,
}

impl Own {
    fn inserts(&mut self, name: RowName, token: Token) {
        self.rows.insert(name, OwnRow { tokens: vec![token], is_gone: false, is_new: true });
    }

    fn deletes(&mut self, name: RowName, row: &Row) {
        let own = self.rows.entry(name).or_default();
        if !own.is_new {
            own.is_gone = true;
            self.removed.insert(name, row.log.clone());
        } else if self.removed.contains_key(&name) {
            *own = OwnRow { is_gone: true, ..OwnRow::default() };
        } else {
            self.rows.remove(&name);
        }
    }

    fn does(&mut self, step: &Step) {
        let (table, token) = (step.table, step.token.unwrap_or_default());
        let added = match &step.kind {
            Kind::Update(_, amount) => {
                for row in &step.seen {
                    self.rows.entry((table, row.id)).or_default().tokens.push(token);
                }
                amount * i64::try_from(step.seen.len()).expect("few")
            }
            Kind::Delete(_) => {
                step.seen.iter().for_each(|row| self.deletes((table, row.id), row));
                -step.seen.iter().map(|row| row.balance).sum::<i64>()
            }
            Kind::Insert(id, balance) => {
                self.inserts((table, *id), token);
                *balance
            }
            Kind::PutBack(row) => {
                let own = self.rows.entry((table, row.id)).or_default();
                own.is_gone = false;
                own.tokens.push(token);
                self.removed.remove(&(table, row.id));
                row.balance
            }
            Kind::Merge(id) => {
                match step.seen.iter().all(|row| row.log.is_empty()) {
                    true => self.inserts((table, *id), token),
                    false => self.rows.entry((table, *id)).or_default().tokens.push(token),
                }
                0
            }
            _ => 0,
        };
        *self.added.entry(table).or_default() += added;
    }
}

/// Visits a transaction's steps, each with what the transaction had done before it. Returns everything that it has
/// done.
pub(super) fn walk(transaction: &Transaction, mut show: impl FnMut(usize, &Step, &Own)) -> Own {
    let (mut own, mut saved) = (Own::default(), Own::default());
    for (at, step) in transaction.steps.iter().enumerate() {
        show(at, step, &own);
        match step.kind {
            _ if step.error.is_some() => {}
            Kind::Save => saved = own.clone(),
            Kind::Undo => own = saved.clone(),
            _ => own.does(step),
        }
    }
    own
}
