//! Which tables were changed of late, and by whom: a snapshot of rows does not reach behind that.

use std::collections::HashMap;

use hobt_base::{ObjectId, Stamp};
use hobt_catalog::SnapshotChange;
use hobt_sync::schedule::Mutex;
use hobt_txn::{Snapshot, Transactions};

/// The tables that not every snapshot knows as they are now, with the transaction that changed them last.
#[derive(Default)]
pub(super) struct ChangedDefinitions(Mutex<HashMap<ObjectId, Stamp>>);

impl ChangedDefinitions {
    /// Notes what a transaction has changed, before others see it.
    pub(super) fn changed(&self, changes: &[SnapshotChange], changer: Stamp, all: &Transactions) {
        for change in changes {
            match change {
                SnapshotChange::AddTable(table) => self.changed_table(table.id, changer, all),
                SnapshotChange::RemoveTable(table) => self.changed_table(*table, changer, all),
                _ => {}
            }
        }
    }

    /// Notes that `changer` has changed the definition of a table.
    pub(super) fn changed_table(&self, table: ObjectId, changer: Stamp, all: &Transactions) {
        let mut known = self.0.lock();
        known.retain(|_, changer| !all.is_seen_by_all(*changer));
        known.insert(table, changer);
    }

    pub(super) fn are_seen(&self, table: ObjectId, snapshot: &Snapshot) -> bool {
        self.0.lock().get(&table).is_none_or(|changer| snapshot.sees(*changer))
    }
}
