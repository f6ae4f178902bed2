//! What snapshots see of other transactions.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hobt_base::Stamp;

/// What a snapshot sees.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) own: Stamp,
    pub(crate) also: Stamp,
    /// The first stamp that was not given out.
    pub(crate) next: u64,
    /// All stamps below this one are visible.
    pub(crate) horizon: Stamp,
    /// The stamps that were running, in order.
    pub(crate) running: Box<[u64]>,
    /// The versions that it needs may be gone.
    pub(crate) is_given_up: AtomicBool,
}

impl View {
    pub(crate) fn sees(&self, writer: Stamp) -> bool {
        writer == self.own
            || writer == self.also
            || writer < self.horizon
            || (writer.0 < self.next && self.running.binary_search(&writer.0).is_err())
    }

    /// Whether `writer` is its own transaction, or the other one whose changes it sees from the beginning on. It sees
    /// their changes even of rows that a transaction which it does not see has changed before.
    pub(crate) fn is_own(&self, writer: Stamp) -> bool {
        writer == self.own || writer == self.also
    }
}

/// All snapshots and running transactions of a moment: which versions are needed.
#[derive(Debug)]
pub(crate) struct Readers {
    /// `None` if there are too many to be asked.
    pub(crate) views: Option<Vec<Arc<View>>>,
    /// In order.
    pub(crate) running: Vec<u64>,
    /// Transactions that have undone all of their changes, of those that have versions in the same generation.
    pub(crate) undone: Vec<Stamp>,
}

impl Readers {
    pub(crate) fn is_running(&self, writer: Stamp) -> bool {
        self.running.binary_search(&writer.0).is_ok()
    }

    /// Whether every snapshot, present and future, sees the changes of `writer`.
    pub(crate) fn is_seen_by_all(&self, writer: Stamp) -> bool {
        let views = self.views.as_ref();
        !self.is_running(writer) && views.is_some_and(|views| views.iter().all(|view| view.sees(writer)))
    }

    /// Whether a snapshot, present or future, sees `older` and not `writer`, the next transaction that has changed a
    /// row. `older` is `None` for the row's oldest version.
    pub(crate) fn need(&self, older: Option<Stamp>, writer: Stamp) -> bool {
        let stops_here = |view: &Arc<View>| !view.sees(writer) && older.is_none_or(|older| view.sees(older));
        self.is_running(writer) || self.views.as_ref().is_none_or(|views| views.iter().any(stops_here))
    }
}
