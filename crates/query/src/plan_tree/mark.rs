//! What a plan says of an operator to those who count what it does: its number, and what was expected of it.
//!
//! An operator of the executor has one from the time that it is made, and gives it to its counters. The number is known
//! once somebody has made the tree of its plan: who looks at a statement that runs, or its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// See the module.
#[derive(Clone, Default, Debug)]
pub struct NodeMark(Arc<Said>);

#[derive(Default, Debug)]
struct Said {
    /// One more than the number; 0 before it is known.
    number: AtomicU64,
    /// The bits of the rows that were expected of all workers, and of those looked at to find them; 0 where nobody
    /// said.
    rows: AtomicU64,
    rows_read: AtomicU64,
}

impl NodeMark {
    /// The operator's number in its plan, from 0; `None` if nobody has made the plan's tree, or it is in none.
    pub fn number(&self) -> Option<u64> {
        self.0.number.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Rows that were expected of it, and rows that it was expected to look at to find them, as far as anybody said.
    pub fn expected(&self) -> (Option<f64>, Option<f64>) {
        let of = |value: &AtomicU64| Some(f64::from_bits(value.load(Ordering::Relaxed))).filter(|rows| *rows > 0.0);
        (of(&self.0.rows), of(&self.0.rows_read))
    }

    pub(super) fn tell(&self, number: usize, (rows, rows_read): (f64, Option<f64>)) {
        self.0.number.store(number as u64 + 1, Ordering::Relaxed);
        if rows > 0.0 {
            self.0.rows.store(rows.to_bits(), Ordering::Relaxed);
            self.0.rows_read.store(rows_read.unwrap_or(rows).to_bits(), Ordering::Relaxed);
        }
    }
}

/// A plan is the same whoever counts.
impl PartialEq for NodeMark {
    fn eq(&self, _: &NodeMark) -> bool {
        true
    }
}
