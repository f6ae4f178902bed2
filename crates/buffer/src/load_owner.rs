//! Who has loads under way, so that a thread that waits for one of their pages can have it published.
//!
//! A load's pages stay in the loading state until its owner takes the completions. An owner that runs as a task is not
//! polled while its client pauses, however long; so a thread that has waited for a moment asks all owners to publish.

use std::sync::{Arc, Weak};

use hobt_sync::schedule::Mutex;

/// Somebody who starts loads and may be kept from finishing them.
pub trait LoadOwner: Send + Sync {
    /// Publishes the pages of the owner's loads and waits for their reads first. Returns at once while the owner is at
    /// work: it then comes to them itself. Must not wait for a page, a latch or a lock: the caller may hold any of
    /// them.
    fn publish_loads(&self);
}

/// The owners of a pool.
#[derive(Default)]
pub(crate) struct LoadOwners {
    owners: Mutex<Vec<Weak<dyn LoadOwner>>>,
}

impl LoadOwners {
    /// Adds an owner, until it is dropped.
    pub(crate) fn add(&self, owner: Weak<dyn LoadOwner>) {
        let mut owners = self.owners.lock();
        owners.retain(|owner| owner.strong_count() > 0);
        owners.push(owner);
    }

    /// Asks all of them.
    pub(crate) fn publish(&self) {
        // Not under the mutex: an owner that is dropped here takes as long as its reads.
        let owners: Vec<Arc<dyn LoadOwner>> = self.owners.lock().iter().filter_map(Weak::upgrade).collect();
        owners.iter().for_each(|owner| owner.publish_loads());
    }
}
