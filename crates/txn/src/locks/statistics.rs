//! The locks of each heap and tree, and the waits for them: `sys.dm_db_index_operational_stats`.
//!
//! An owner counts its locks together with those that may escalate. The counts are added here when it releases all of
//! them: once a transaction. Waits are added here when they end.

use std::time::Duration;

use hobt_base::{DatabaseId, HobtId};
use hobt_instruments::{PerHobt, nanoseconds};

use super::LockResource;

/// Locks of one kind in one heap or tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LockTotal {
    /// Locks that were granted, of owners that have released all theirs.
    pub count: u64,
    /// Requests that waited, whether or not they were granted.
    pub waits: u64,
    /// The sum of the waits, in nanoseconds.
    pub wait_ns: u64,
}

/// The locks of one heap or tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HobtLocks {
    /// Rows and keys.
    pub rows: LockTotal,
    /// Pages.
    pub pages: LockTotal,
    /// Attempts to exchange its locks for a larger one.
    pub promotion_attempts: u64,
    /// Those that succeeded.
    pub promotions: u64,
}

impl HobtLocks {
    fn of(&mut self, resource: &LockResource) -> &mut LockTotal {
        if matches!(resource, LockResource::Page(..)) { &mut self.pages } else { &mut self.rows }
    }
}

/// Locks that an owner was granted in one heap or tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Granted {
    pub(super) hobt: (DatabaseId, HobtId),
    pub(super) rows: u64,
    pub(super) pages: u64,
}

/// The locks of all heaps and trees.
#[derive(Debug, Default)]
pub(super) struct Statistics(pub(super) PerHobt<HobtLocks>);

impl Statistics {
    pub(super) fn add_granted(&self, granted: &[Granted]) {
        for each in granted {
            let (database, hobt) = each.hobt;
            self.0.change(database, hobt, |locks| {
                locks.rows.count += each.rows;
                locks.pages.count += each.pages;
            });
        }
    }

    pub(super) fn add_wait(&self, resource: &LockResource, time: Duration) {
        let Some((database, hobt)) = resource.escalates_in() else { return };
        self.0.change(database, hobt, |locks| {
            let total = locks.of(resource);
            total.waits += 1;
            total.wait_ns += nanoseconds(time);
        });
    }
}
