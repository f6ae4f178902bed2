//! A session's open transaction.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use hobt_base::SqlError;
use hobt_engine::{Database, DatabaseUse, Instance};
use hobt_instruments::schedule::Mutex;
use hobt_txn::{Savepoint, Transaction};

/// A transaction with the databases that it may have changed. Owned by the session, and shared with the list of
/// sessions for `KILL`.
#[derive(Debug)]
pub struct SharedTransaction {
    pub(super) transaction: Arc<Transaction>,
    /// Locked while the transaction ends, so that a second caller waits until nothing is left to do.
    pub(super) databases: Mutex<Vec<DatabaseUse>>,
    pub(super) name: Option<String>,
}

impl SharedTransaction {
    /// `transaction_id` of the views.
    pub fn id(&self) -> u64 {
        self.transaction.stamp().0
    }

    /// Whether its statements see what had committed when the first of them read: under `SNAPSHOT`.
    pub fn has_snapshot(&self) -> bool {
        self.transaction.snapshot_so_far().is_some()
    }

    /// The name that `BEGIN TRANSACTION` gave it.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether it may have changed a database. May be `false` while the transaction ends or is rolled back to a
    /// savepoint.
    pub(super) fn has_used(&self, database: &Database) -> bool {
        let databases = self.databases.try_lock();
        databases.is_some_and(|databases| databases.iter().any(|used| used.id() == database.id()))
    }

    /// Undoes its changes and releases its locks. For a session that will run nothing more. Blocks.
    ///
    /// # Errors
    /// 926 if it could not be undone.
    pub fn roll_back(&self, instance: &Instance) -> Result<(), SqlError> {
        self.end(instance, false)
    }

    pub(super) fn end(&self, instance: &Instance, commits: bool) -> Result<(), SqlError> {
        let mut databases = self.databases.lock();
        let named: Vec<&Database> = databases.iter().map(|database| &**database.database()).collect();
        let ended = instance.end_transaction(&self.transaction, commits, &named);
        databases.clear();
        ended.map_err(|error| error.to_sql_error())
    }
}

/// A session's open transaction.
#[derive(Debug)]
pub(super) struct OpenTransaction {
    pub(super) shared: Arc<SharedTransaction>,
    /// `@@TRANCOUNT`, at least 1.
    pub(super) count: usize,
    pub(super) is_doomed: bool,
    pub(super) savepoints: Vec<NamedSavepoint>,
    pub(super) temporary_tables: DroppedTables,
    /// Whether the first of its statements that used a table ran under `SNAPSHOT`.
    pub(super) began_in_snapshot: OnceLock<bool>,
    /// The tables of `tempdb` that it may have changed.
    pub(super) changed_in_tempdb: Mutex<HashSet<String>>,
}

#[derive(Debug)]
pub(super) struct NamedSavepoint {
    pub(super) name: String,
    pub(super) place: Savepoint,
    /// The number of temporary tables that had been dropped by name.
    pub(super) dropped: usize,
}

/// The temporary tables that a transaction has dropped.
#[derive(Default, Debug)]
pub(super) struct DroppedTables {
    /// Dropped by `DROP TABLE`, in order: a rollback restores their names.
    pub(super) by_name: Vec<DroppedTable>,
    /// Dropped at the end of their calls, by their names in `tempdb`: if a rollback restores them, they are dropped
    /// again.
    pub(super) with_calls: Vec<String>,
}

#[derive(Debug)]
pub(super) struct DroppedTable {
    /// The name as written, in lower case.
    pub(super) lower: String,
    /// The name in `tempdb`.
    pub(super) stored: String,
    /// The depth of the call that it belonged to.
    pub(super) depth: usize,
}

impl OpenTransaction {
    /// The transaction that statements belong to.
    pub(super) fn transaction(&self) -> &Arc<Transaction> {
        &self.shared.transaction
    }

    /// Whether its first read or change was under `SNAPSHOT`. `false` before that.
    pub(super) fn has_begun_in_snapshot(&self) -> bool {
        self.began_in_snapshot.get() == Some(&true)
    }

    /// Whether it began under `SNAPSHOT`. The first caller determines the answer.
    pub(super) fn began_in_snapshot(&self, now: bool) -> bool {
        *self.began_in_snapshot.get_or_init(|| now)
    }

    /// Records a database that may be changed.
    pub(super) fn uses_database(&self, database: &DatabaseUse) {
        let mut databases = self.shared.databases.lock();
        if databases.iter().all(|known| known.id() != database.id()) {
            databases.push(database.clone());
        }
    }

    /// Records a table of `tempdb` that may be changed.
    pub(super) fn changes_in_tempdb(&self, stored: &str) {
        self.changed_in_tempdb.lock().insert(stored.to_owned());
    }

    /// Whether a rollback may change a table of `tempdb`.
    pub(super) fn has_changed_in_tempdb(&self, stored: &str) -> bool {
        self.changed_in_tempdb.lock().contains(stored)
    }

    /// Records that a temporary table was dropped by name, and the depth of the call that it belonged to.
    pub(super) fn drops_temporary_table(&mut self, lower: &str, stored: &str, depth: usize) {
        let (lower, stored) = (lower.to_owned(), stored.to_owned());
        self.temporary_tables.by_name.push(DroppedTable { lower, stored, depth });
    }

    /// Records temporary tables that were dropped at the end of the call that created them.
    pub(super) fn drops_with_call(&mut self, stored: &[String]) {
        self.temporary_tables.with_calls.extend_from_slice(stored);
    }
}
