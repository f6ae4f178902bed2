//! The versions of each row in order, derived from the final rows and from what deletes returned.

use std::collections::{BTreeMap, HashMap};

use super::history::{Moment, Row, RowName, Token, Transaction};
use super::own::{Own, walk};

/// A row from its insert to its delete. If an `id` is inserted again, that is another life.
pub(super) struct Life {
    pub(super) name: RowName,
    /// All tokens that it ever had.
    pub(super) order: Vec<Token>,
    /// The transaction that deleted it.
    pub(super) removed_by: Option<usize>,
}

/// The rows of a round and their versions.
pub(super) struct Versions<'h> {
    pub(super) transactions: &'h [Transaction],
    pub(super) lives: Vec<Life>,
    /// The final changes of each transaction, whether it committed or not.
    pub(super) done: Vec<Own>,
    by_first: HashMap<(RowName, Token), usize>,
    by_name: BTreeMap<RowName, Vec<usize>>,
    /// The transaction that wrote a token, and its step.
    writers: HashMap<Token, (usize, usize)>,
}

impl<'h> Versions<'h> {
    /// Builds the versions from the transactions and the final rows of each table. Impossible results are added to
    /// `wrong`.
    pub(super) fn new(
        transactions: &'h [Transaction],
        last: &[Vec<Row>],
        wrong: &mut Vec<(String, Vec<usize>)>,
    ) -> Versions<'h> {
        let mut writers = HashMap::new();
        for (at, transaction) in transactions.iter().enumerate() {
            for (number, step) in transaction.steps.iter().enumerate() {
                writers.extend(step.token.map(|token| (token, (at, number))));
            }
        }
        let done: Vec<Own> = transactions.iter().map(|transaction| walk(transaction, |_, _, _| {})).collect();
        let mut lives = Vec::new();
        for (table, rows) in last.iter().enumerate() {
            let life = |row: &Row| Life { name: (table, row.id), order: row.log.clone(), removed_by: None };
            lives.extend(rows.iter().map(life));
        }
        for (at, own) in done.iter().enumerate().filter(|(at, _)| transactions[*at].is_committed) {
            let life =
                |(name, log): (&RowName, &Vec<Token>)| Life { name: *name, order: log.clone(), removed_by: Some(at) };
            lives.extend(own.removed.iter().map(life));
        }
        let mut versions =
            Versions { transactions, lives, done, by_first: HashMap::new(), by_name: BTreeMap::new(), writers };
        for (at, life) in versions.lives.iter().enumerate() {
            let first = life.order.first().copied().unwrap_or(Token::MAX);
            if let Some(other) = versions.by_first.insert((life.name, first), at) {
                let involved = [life.removed_by, versions.lives[other].removed_by];
                wrong.push((format!("row {:?} is there twice", life.name), involved.into_iter().flatten().collect()));
            }
            versions.by_name.entry(life.name).or_default().push(at);
        }
        versions.check_orders(wrong);
        versions.check_lost(wrong);
        versions
    }

    /// The writer of a token. `None` for a row's first version.
    pub(super) fn writer(&self, token: Token) -> Option<usize> {
        self.writers.get(&token).map(|(transaction, _)| *transaction)
    }

    /// The life that a log belongs to.
    pub(super) fn life(&self, name: RowName, log: &[Token]) -> Option<usize> {
        self.by_first.get(&(name, *log.first()?)).copied()
    }

    /// The lives of an id.
    pub(super) fn lives_of(&self, name: RowName) -> &[usize] {
        self.by_name.get(&name).map_or(&[], Vec::as_slice)
    }

    /// The transaction that inserted a row. `None` if the row existed from the beginning.
    pub(super) fn inserter(&self, life: usize) -> Option<usize> {
        self.lives[life].order.first().and_then(|first| self.writer(*first))
    }

    /// When the insert of a row ended: rows of one id do not overlap.
    pub(super) fn inserted_at(&self, life: usize) -> Moment {
        let first = self.lives[life].order.first().and_then(|first| self.writers.get(first));
        first.map_or(0, |(transaction, step)| self.transactions[*transaction].steps[*step].end)
    }

    /// Whether a row exists for every reader between two moments.
    pub(super) fn is_there(&self, life: usize, from: Moment, to: Moment) -> bool {
        let came = self.inserter(life).is_none_or(|inserter| self.transactions[inserter].ended < from);
        let stays = self.lives[life].removed_by.is_none_or(|remover| self.transactions[remover].ends_from > to);
        came && stays
    }

    /// The transaction that wrote the next version, or deleted the row.
    pub(super) fn next_writer(&self, life: usize, at: usize) -> Option<usize> {
        let Life { order, removed_by, .. } = &self.lives[life];
        order.get(at + 1).map_or(*removed_by, |next| self.writer(*next))
    }

    /// Checks that everything in the rows was written by committed transactions, with the tokens of each transaction
    /// together.
    fn check_orders(&self, wrong: &mut Vec<(String, Vec<usize>)>) {
        for life in &self.lives {
            let (name, order) = (life.name, &life.order);
            for (at, token) in order.iter().enumerate().skip(usize::from(order.first() == Some(&0))) {
                let Some(writer) = self.writer(*token) else {
                    wrong.push((format!("row {name:?} has token {token}, which nothing wrote: {order:?}"), Vec::new()));
                    continue;
                };
                let stands = self.transactions[writer].is_committed && {
                    let own = self.done[writer].rows.get(&name);
                    let was_removed = life.removed_by == Some(writer);
                    was_removed || own.is_some_and(|own| own.tokens.contains(token))
                };
                if !stands {
                    wrong.push((
                        format!("row {name:?} has token {token}, which was taken back: {order:?}"),
                        vec![writer],
                    ));
                }
                let before = order[..at].iter().rposition(|other| self.writer(*other) == Some(writer));
                if before.is_some_and(|before| before + 1 != at) {
                    wrong.push((
                        format!("row {name:?}: another wrote between two changes of one: {order:?}"),
                        vec![writer],
                    ));
                }
            }
        }
    }

    /// Checks that everything written by committed transactions is in some row.
    fn check_lost(&self, wrong: &mut Vec<(String, Vec<usize>)>) {
        let committed = self.done.iter().enumerate().filter(|(at, _)| self.transactions[*at].is_committed);
        for (at, own) in committed {
            for (name, row) in own.rows.iter().filter(|(_, row)| !row.is_gone) {
                for token in &row.tokens {
                    let is_there = self.lives_of(*name).iter().any(|life| self.lives[*life].order.contains(token));
                    if !is_there {
                        wrong.push((format!("lost update: row {name:?} lacks token {token}"), vec![at]));
                    }
                }
            }
        }
    }
}
