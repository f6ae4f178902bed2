//! Work that background threads do in databases, and that ends when a statement needs a database exclusively.

use std::sync::Arc;

use hobt_base::DatabaseId;

use super::Instance;
use super::registry::Transition;

/// A worker that works in databases in the background.
pub trait BackgroundWork: Send + Sync {
    /// Ends the work in one database, or in all if `None`. Blocks until it has ended.
    fn stop(&self, database: Option<DatabaseId>);
}

impl Instance {
    /// Registers `work` to be stopped before a database is dropped, detached or taken offline, and before the instance
    /// is closed.
    pub fn stop_before_closing(&self, work: Arc<dyn BackgroundWork>) {
        *self.background.lock() = Some(work);
    }

    pub(super) fn stop_background(&self, database: Option<DatabaseId>) {
        let work = self.background.lock().clone();
        if let Some(work) = work {
            work.stop(database);
        }
    }

    /// Begins a transition of a database after stopping background work in it; `None` if the database still has users.
    pub(super) fn take_unused(&self, database: DatabaseId) -> Option<Transition<'_>> {
        self.stop_background(Some(database));
        self.registry.begin_transition(database)
    }
}
