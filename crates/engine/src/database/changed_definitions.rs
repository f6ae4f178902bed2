//! Which tables' definitions were changed recently, and by which transaction: a snapshot of rows that was made before
//! the change cannot be used with the table.

use std::collections::HashMap;

use hobt_base::{ObjectId, Stamp};
use hobt_catalog::SnapshotChange;
use hobt_instruments::schedule::Mutex;
use hobt_txn::{Snapshot, Transactions};

/// The tables whose last change some snapshot may not see, each with the transaction that made it.
#[derive(Default)]
pub(super) struct ChangedDefinitions(Mutex<HashMap<ObjectId, Stamp>>);

impl ChangedDefinitions {
    /// Records the table changes of a transaction, before they are visible to others.
    pub(super) fn changed(&self, changes: &[SnapshotChange], changer: Stamp, all: &Transactions) {
        for change in changes {
            match change {
                SnapshotChange::AddTable(table) => self.changed_table(table.id, changer, all),
                SnapshotChange::RemoveTable(table) => self.changed_table(*table, changer, all),
                _ => {}
            }
        }
    }

    /// Records that `changer` has changed the definition of a table.
    pub(super) fn changed_table(&self, table: ObjectId, changer: Stamp, all: &Transactions) {
        let mut known = self.0.lock();
        known.retain(|_, changer| !all.is_seen_by_all(*changer));
        known.insert(table, changer);
    }

    pub(super) fn are_seen(&self, table: ObjectId, snapshot: &Snapshot) -> bool {
        self.0.lock().get(&table).is_none_or(|changer| snapshot.sees(*changer))
    }
}
