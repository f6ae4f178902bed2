//! The sequences that a statement names.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use hobt_base::{DatabaseId, ObjectId};
use hobt_catalog::Sequence;
use hobt_table::StatementRun;
use hobt_types::Value;

pub(super) type Key = (DatabaseId, ObjectId);

/// A statement's data about the sequences that it names.
#[derive(Debug, Default)]
pub(super) struct UsedSequences {
    /// The values of the current row.
    pub(super) row: Vec<(Key, Value)>,
    /// The sequences that a statement has locked, as they were then.
    pub(super) locked: Vec<(Weak<StatementRun>, Arc<Sequence>, DatabaseId)>,
}

impl UsedSequences {
    /// Called before another row.
    pub(super) fn next_row(&mut self) {
        self.row.clear();
    }

    /// Called before another statement.
    pub(super) fn next_statement(&mut self) {
        self.row.clear();
        self.locked.clear();
    }
}

/// [`UsedSequences`], shared by all parts of the interpreter that bind a part of the statement.
pub(super) type SharedSequences = Rc<RefCell<UsedSequences>>;
