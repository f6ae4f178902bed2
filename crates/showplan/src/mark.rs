//! Connects an operator's counters with its node in the plan tree: the node's number, and its estimates.
//!
//! An operator of the executor gets a mark when it is made, and passes it to its counters. The number is known once the
//! plan's tree has been made, to show a running statement or at its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// See the module.
#[derive(Clone, Default, Debug)]
pub struct NodeMark(Arc<Said>);

#[derive(Default, Debug)]
struct Said {
    /// The number plus one; 0 before it is known.
    number: AtomicU64,
    /// The bits of the estimated rows of all workers, and of the rows that are read to find them; 0 without an
    /// estimate.
    rows: AtomicU64,
    rows_read: AtomicU64,
}

impl NodeMark {
    /// The operator's number in its plan, from 0; `None` if the plan's tree has not been made, or does not show it.
    pub fn number(&self) -> Option<u64> {
        self.0.number.load(Ordering::Relaxed).checked_sub(1)
    }

    /// The operator's estimated rows, and the estimated rows that it reads to find them, if there are estimates.
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

/// Marks do not make plans different.
impl PartialEq for NodeMark {
    fn eq(&self, _: &NodeMark) -> bool {
        true
    }
}
