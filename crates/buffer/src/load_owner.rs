//! The owners of loads under way, so that a thread that waits for one of their pages can have it published.
//!
//! A load's pages stay in the loading state until its owner takes the completions. An owner that runs as a task is not
//! polled while its client pauses, however long that is. So a thread that has waited for a moment asks all owners to
//! publish.

use std::sync::{Arc, Weak};

use hobt_instruments::schedule::Mutex;

/// Starts loads and may be kept from finishing them.
pub trait LoadOwner: Send + Sync {
    /// Waits for the reads of the owner's loads and publishes their pages. Returns at once while the owner is running,
    /// because it then takes the completions itself. Must not wait for a page, a latch or a lock: the caller may hold
    /// any of them.
    fn publish_loads(&self);
}

/// The owners of a pool.
#[derive(Default)]
pub(crate) struct LoadOwners {
    owners: Mutex<Vec<Weak<dyn LoadOwner>>>,
}

impl LoadOwners {
    /// Adds an owner, which stays registered until it is dropped.
    pub(crate) fn add(&self, owner: Weak<dyn LoadOwner>) {
        let mut owners = self.owners.lock();
        owners.retain(|owner| owner.strong_count() > 0);
        owners.push(owner);
    }

    /// Asks all owners to publish.
    pub(crate) fn publish(&self) {
        // Not under the mutex: dropping an owner here takes as long as its reads.
        let owners: Vec<Arc<dyn LoadOwner>> = self.owners.lock().iter().filter_map(Weak::upgrade).collect();
        owners.iter().for_each(|owner| owner.publish_loads());
    }
}
