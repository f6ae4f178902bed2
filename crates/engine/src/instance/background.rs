//! Work that others do in databases behind statements, and that ends when somebody wants a database for himself.

use std::sync::Arc;

use hobt_base::DatabaseId;

use super::Instance;
use super::registry::Transition;

/// Who works in databases behind statements.
pub trait BackgroundWork: Send + Sync {
    /// Ends the work in a database, or in all. Blocks until it has ended.
    fn stop(&self, database: Option<DatabaseId>);
}

impl Instance {
    /// Has `work` stopped before a database is dropped, detached or taken offline, and before the instance is closed.
    pub fn stop_before_closing(&self, work: Arc<dyn BackgroundWork>) {
        *self.background.lock() = Some(work);
    }

    pub(super) fn stop_background(&self, database: Option<DatabaseId>) {
        let work = self.background.lock().clone();
        if let Some(work) = work {
            work.stop(database);
        }
    }

    /// Begins a transition of a database that is used by nothing but work that can be stopped; `None` if it has users.
    pub(super) fn take_unused(&self, database: DatabaseId) -> Option<Transition<'_>> {
        self.stop_background(Some(database));
        self.registry.begin_transition(database)
    }
}
