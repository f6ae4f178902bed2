//! The hash tables of locks: 64, each with its own spinlock and its own cache lines.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use hobt_instruments::rank::{self, Rank, RankedGuard};
use hobt_instruments::{Spinlock, SpinlockGuard, SpinlockName};

use super::queue::Queue;
use super::resource::ResourceHasher;
use super::{LockOwner, LockResource};

const TABLES: usize = 64;
/// The number of locks for which a table makes room at its first use.
const FIRST_CAPACITY: usize = 56;

const _: () = {
    // One lock with one holder: its entries in the table and in its owner's list.
    let block = size_of::<(LockResource, Queue)>() + size_of::<LockResource>();
    assert!(block <= 128 && size_of::<LockOwner>() <= 256);
};

type Queues = HashMap<LockResource, Queue, BuildHasherDefault<ResourceHasher>>;

#[repr(align(128))]
struct Table(Spinlock<Queues>);

/// The locks of an instance. The table is chosen by bits of the hash that the table itself does not use.
pub(super) struct Tables(Box<[Table]>);

impl Tables {
    pub(super) fn new() -> Tables {
        let table = |_| Table(Spinlock::new(SpinlockName::LockHash, Queues::default()));
        Tables((0..TABLES).map(table).collect())
    }

    /// The table of a resource, locked.
    pub(super) fn lock(&self, resource: &LockResource) -> RankedGuard<SpinlockGuard<'_, Queues>> {
        rank::wait_for(Rank::LockTable, || self.of(resource).lock())
    }

    /// Like [`Tables::lock`], with room for one resource more. The memory for it is allocated while the lock is not
    /// held.
    pub(super) fn lock_with_room(&self, resource: &LockResource) -> RankedGuard<SpinlockGuard<'_, Queues>> {
        let table = self.of(resource);
        loop {
            let queues = rank::wait_for(Rank::LockTable, || table.lock());
            if queues.len() < queues.capacity() {
                return queues;
            }
            let capacity = (queues.len() * 2).max(FIRST_CAPACITY);
            drop(queues);
            let mut larger = Queues::with_capacity_and_hasher(capacity, BuildHasherDefault::default());
            let mut queues = table.lock();
            if queues.len() < larger.capacity() {
                larger.extend(queues.drain());
                std::mem::swap(&mut *queues, &mut larger);
            }
            drop(queues);
            // The smaller map is freed here, when the lock is free.
            drop(larger);
        }
    }

    /// Calls `visit` for every table in turn, locked.
    pub(super) fn each(&self, mut visit: impl FnMut(&Spinlock<Queues>)) {
        self.0.iter().for_each(|table| visit(&table.0));
    }

    fn of(&self, resource: &LockResource) -> &Spinlock<Queues> {
        let bits = resource.hash_value() >> 48;
        &self.0[usize::try_from(bits).expect("16 bits") % TABLES].0
    }
}
