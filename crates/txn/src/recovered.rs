//! A transaction that a crash has left open, and that is undone behind the opening of its database.
//! `docs/design/0044-undo-behind-the-opening.md`.
//!
//! It has no session and no statements, only its chain in the log and locks. Other transactions have no versions of
//! what it changed, so its locks keep readers away, too: `Sch-M` on each table.

use std::fmt;
use std::sync::Arc;

use hobt_base::{DatabaseId, ObjectId, SessionId, Stamp};

use crate::locks::{LockManager, LockMode, LockOwner, LockOwnerKind, LockResource};
use crate::progress::Progress;
use crate::undo::undo_chain;
use crate::{LogChain, UndoError};

/// The session of all recovered transactions, which views show as the one that blocks. SQL Server's number of a
/// deferred recovery transaction. Requests of one session never wait for each other, so several of them can lock one
/// table.
pub const RECOVERED_SESSION: SessionId = SessionId(-3);

/// A transaction that recovery has found open, with its locks. When it is dropped, they are released; what is not
/// undone by then is left to the next recovery.
pub struct RecoveredTransaction {
    chain: Arc<LogChain>,
    locks: Arc<LockManager>,
    lock_owner: Arc<LockOwner>,
    progress: Progress,
}

impl fmt::Debug for RecoveredTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecoveredTransaction").field("chain", &self.chain).finish_non_exhaustive()
    }
}

impl RecoveredTransaction {
    /// The transaction of `chain`, without locks yet.
    pub fn new(chain: Arc<LogChain>, locks: &Arc<LockManager>) -> RecoveredTransaction {
        let stamp = Stamp(chain.id());
        let lock_owner = LockOwner::new(RECOVERED_SESSION, LockOwnerKind::Transaction(stamp.0), stamp);
        RecoveredTransaction { chain, locks: Arc::clone(locks), lock_owner, progress: Progress::default() }
    }

    /// Its number, which is its stamp in an earlier life of the instance.
    pub fn id(&self) -> u64 {
        self.chain.id()
    }

    /// Locks a table against all other use until the transaction is undone. Returns `false` if another one holds a lock
    /// of it. Does not wait.
    pub fn lock(&self, database: DatabaseId, table: ObjectId) -> bool {
        let resource = LockResource::Object(database, table);
        self.locks.try_lock(&self.lock_owner, resource, LockMode::SchemaModification).is_some()
    }

    /// Per cent of its log that the current or last call of [`RecoveredTransaction::roll_back`] has gone back over.
    pub fn percent_undone(&self) -> f64 {
        self.progress.percent()
    }

    /// Undoes it, as long as `goes_on` says so before each record, and then logs its end. Returns whether it has ended.
    /// Blocks.
    ///
    /// # Errors
    /// A record cannot be read or a row cannot be undone: the database is refused for good.
    pub fn roll_back(&self, goes_on: &dyn Fn() -> bool) -> Result<bool, UndoError> {
        if !undo_chain(&self.chain, &self.progress, goes_on)? {
            return Ok(false);
        }
        self.chain.forget_undo();
        let ended = self.chain.end();
        ended.map_err(|error| UndoError(format!("its end could not be written to the log: {error}"))).map(|()| true)
    }
}

impl Drop for RecoveredTransaction {
    fn drop(&mut self) {
        self.locks.release_all(&self.lock_owner);
    }
}
