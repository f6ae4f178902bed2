//! The order in which a thread may take the engine's internal locks, checked in debug builds.
//!
//! Each [`Rank`] is a place in that order, the outermost first. A thread that holds a lock may wait for locks of later
//! ranks only. So no circle of threads can wait for each other. An attempt that does not wait is always allowed, and
//! what it gets counts as held.
//!
//! ```text
//!   held: CatalogWrites, HeapState, Page     wanted: Growth, later than all of them: waits
//!                                            wanted: HeapState, earlier than Page: panics
//! ```
//!
//! A lock stands in a [`Ranked`], or its rank is given at the call ([`wait_for`]). Release builds, and model checks,
//! whose threads share one thread's storage, keep no ranks: the types are as large as what they hold, and nothing is
//! compiled. `docs/design/0040-latches-and-locks.md` has the order with its reasons, and the locks without a rank.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use crate::schedule::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::{Latch, LatchReadGuard, LatchWriteGuard};

/// A place in the order of locks, the outermost first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Rank {
    /// A transaction's lock, while it is waited for. What is granted does not count as held.
    TransactionLock,
    /// A change of which databases there are, or of their files.
    Definitions,
    /// The state of a database in the instance's list. Held while the database is opened.
    DatabaseState,
    /// The position of a sequence. Held while its row is written.
    SequencePosition,
    /// The headers of a database's files. Held throughout a checkpoint.
    DatabaseFiles,
    /// The names that statements claim, and their changes of definitions.
    Pending,
    /// The writing of rows of system tables.
    CatalogWrites,
    /// The sequences in use. Held while a row is read.
    Sequences,
    /// The rows of system tables. Held exclusively while a system table is written anew.
    SystemRows,
    /// The heaps and trees that are open.
    Stores,
    /// A walk that reorganizes a tree.
    Reorganizing,
    /// Moves of a tree's leaves.
    LeafMoves,
    /// The runs of a heap.
    HeapState,
    /// A page. Several may be held at once, in the order that their tree gives.
    Page,
    /// The runs of a tree.
    TreeState,
    /// The row count of a heap or tree.
    Counting,
    /// Growth and removal of data files.
    Growth,
    /// The dealing of extents to files.
    Dealing,
    /// The list of a database's data files.
    StorageFiles,
    /// The free extents of a file.
    FreeExtents,
    /// The heaps and trees in which a transaction has changed rows.
    ChangedStores,
    /// The right to write row versions to disk.
    VersionSpill,
    /// The generations of a database's row versions. Held while one of them is read or changed.
    VersionGenerations,
    /// The truncations of trees with earlier versions of keys.
    Truncations,
    /// The list of trees with earlier versions of keys.
    VersionTrees,
    /// A part of the earlier versions of rows, or of a tree's keys.
    Versions,
    /// The running transactions and the snapshots of an instance.
    Transactions,
    /// The decisions of transactions over several databases.
    Decisions,
    /// The open transactions of a log.
    OpenTransactions,
    /// The last record of a transaction.
    LastRecord,
    /// The beginning of an epoch of the log.
    LogEpoch,
    /// The right to write a block of the log.
    LogWriter,
    /// The growth of the log.
    LogGrowth,
    /// The segments of the log.
    LogSegments,
    /// Where the log's blocks lie.
    LogMarks,
    /// The list of waits for transactions' locks.
    LockWaits,
    /// The names of applications' locks.
    LockNames,
    /// A part of the lock table.
    LockTable,
    /// The files that the buffer pool knows.
    PoolFiles,
    /// The free frames.
    FreeFrames,
    /// The buffer pool extension, and its map.
    Extension,
}

#[cfg(all(debug_assertions, not(feature = "model")))]
impl Rank {
    /// Whether a thread that holds a lock of this rank may wait for one of rank `next`.
    fn is_before(self, next: Rank) -> bool {
        match (self, next) {
            // Pages in the order that their tree gives, databases by their ids.
            (Rank::Page, Rank::Page) | (Rank::DatabaseState, Rank::DatabaseState) => true,
            // Pages of the run list, new pages of a tree, new allocation maps. No thread that holds one waits for the
            // lock.
            (Rank::TreeState | Rank::Counting | Rank::Growth, Rank::Page) => true,
            _ => self < next,
        }
    }
}

#[cfg(all(debug_assertions, not(feature = "model")))]
mod held {
    use std::cell::RefCell;

    use super::Rank;

    thread_local! {
        static RANKS: RefCell<Vec<Rank>> = const { RefCell::new(Vec::new()) };
    }

    /// Checks that the calling thread may wait for a lock.
    pub fn check(rank: Rank) {
        let in_the_way = |ranks: &RefCell<Vec<Rank>>| ranks.borrow().iter().copied().find(|held| !held.is_before(rank));
        // A thread that panics already reports its first fault.
        if let Ok(Some(held)) = RANKS.try_with(in_the_way)
            && !std::thread::panicking()
        {
            panic!("{rank:?} is waited for while {held:?} is held: docs/design/0040-latches-and-locks.md");
        }
    }

    /// Notes that the calling thread holds a lock.
    pub fn note(rank: Rank) {
        let _ended = RANKS.try_with(|ranks| ranks.borrow_mut().push(rank));
    }

    /// Notes that the calling thread has released a lock.
    pub fn forget(rank: Rank) {
        let _ended = RANKS.try_with(|ranks| {
            let mut ranks = ranks.borrow_mut();
            // A page's guard may have been taken on another thread, which then counts as holding the page. Only a test
            // does that.
            if let Some(last) = ranks.iter().rposition(|held| *held == rank) {
                ranks.remove(last);
            }
        });
    }

    /// The note of a lock, while it is held.
    #[derive(Debug)]
    pub(super) struct Note(Rank);

    impl Note {
        pub(super) fn new(rank: Rank) -> Note {
            note(rank);
            Note(rank)
        }
    }

    impl Drop for Note {
        fn drop(&mut self) {
            forget(self.0);
        }
    }
}

#[cfg(not(all(debug_assertions, not(feature = "model"))))]
mod held {
    use super::Rank;

    /// Checks that the calling thread may wait for a lock: not in this build.
    #[inline(always)]
    pub fn check(_rank: Rank) {}

    /// Notes that the calling thread holds a lock: not in this build.
    #[inline(always)]
    pub fn note(_rank: Rank) {}

    /// Notes that the calling thread has released a lock: not in this build.
    #[inline(always)]
    pub fn forget(_rank: Rank) {}

    #[derive(Debug)]
    pub(super) struct Note;

    impl Note {
        #[inline(always)]
        pub(super) fn new(_rank: Rank) -> Note {
            Note
        }
    }
}

pub use held::{check, forget, note};

/// The guard of a lock that has a rank.
#[derive(Debug)]
pub struct RankedGuard<G> {
    // Released before the note is.
    guard: G,
    _note: held::Note,
}

impl<G> RankedGuard<G> {
    #[inline]
    fn new(rank: Rank, guard: G) -> RankedGuard<G> {
        RankedGuard { guard, _note: held::Note::new(rank) }
    }

    /// The lock's own guard, for a condition variable.
    pub fn guard(&mut self) -> &mut G {
        &mut self.guard
    }
}

impl<G: Deref> Deref for RankedGuard<G> {
    type Target = G::Target;

    #[inline]
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for RankedGuard<G> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

/// Takes a lock by `take`, which may wait.
#[inline]
pub fn wait_for<G>(rank: Rank, take: impl FnOnce() -> G) -> RankedGuard<G> {
    check(rank);
    RankedGuard::new(rank, take())
}

/// A lock with its rank.
#[derive(Debug)]
pub struct Ranked<L> {
    #[cfg(all(debug_assertions, not(feature = "model")))]
    rank: Rank,
    lock: L,
}

impl<L> Ranked<L> {
    /// A lock of this rank.
    pub const fn new(rank: Rank, lock: L) -> Ranked<L> {
        #[cfg(not(all(debug_assertions, not(feature = "model"))))]
        let _ = rank;
        Ranked {
            #[cfg(all(debug_assertions, not(feature = "model")))]
            rank,
            lock,
        }
    }

    /// The lock itself, without waiting: `&mut self` says that no other thread can reach it.
    pub fn get_mut(&mut self) -> &mut L {
        &mut self.lock
    }

    #[cfg(all(debug_assertions, not(feature = "model")))]
    fn rank(&self) -> Rank {
        self.rank
    }

    #[cfg(not(all(debug_assertions, not(feature = "model"))))]
    #[inline(always)]
    fn rank(&self) -> Rank {
        Rank::Definitions
    }

    #[inline]
    fn wait<'l, G>(&'l self, take: impl FnOnce(&'l L) -> G) -> RankedGuard<G> {
        wait_for(self.rank(), || take(&self.lock))
    }

    #[inline]
    fn held<G>(&self, taken: Option<G>) -> Option<RankedGuard<G>> {
        taken.map(|guard| RankedGuard::new(self.rank(), guard))
    }
}

impl<T> Ranked<Mutex<T>> {
    /// Exclusive access. Blocks.
    #[inline]
    pub fn lock(&self) -> RankedGuard<MutexGuard<'_, T>> {
        self.wait(Mutex::lock)
    }

    /// Exclusive access if it is available without waiting.
    #[inline]
    pub fn try_lock(&self) -> Option<RankedGuard<MutexGuard<'_, T>>> {
        self.held(self.lock.try_lock())
    }

    /// Exclusive access if it becomes available within `time`. Blocks.
    pub fn try_lock_for(&self, time: Duration) -> Option<RankedGuard<MutexGuard<'_, T>>> {
        check(self.rank());
        self.held(self.lock.try_lock_for(time))
    }

    /// Whether it is held by a thread.
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.lock.is_locked()
    }
}

impl<T> Ranked<RwLock<T>> {
    /// Shared access. Blocks.
    #[inline]
    pub fn read(&self) -> RankedGuard<RwLockReadGuard<'_, T>> {
        self.wait(RwLock::read)
    }

    /// Shared access if it is available without waiting.
    #[inline]
    pub fn try_read(&self) -> Option<RankedGuard<RwLockReadGuard<'_, T>>> {
        self.held(self.lock.try_read())
    }

    /// Exclusive access. Blocks.
    #[inline]
    pub fn write(&self) -> RankedGuard<RwLockWriteGuard<'_, T>> {
        self.wait(RwLock::write)
    }
}

impl<T> Ranked<Latch<T>> {
    /// Shared access. Blocks.
    #[inline]
    pub fn read(&self) -> RankedGuard<LatchReadGuard<'_, T>> {
        self.wait(Latch::read)
    }

    /// Exclusive access. Blocks.
    #[inline]
    pub fn write(&self) -> RankedGuard<LatchWriteGuard<'_, T>> {
        self.wait(Latch::write)
    }
}

#[cfg(all(test, debug_assertions, not(feature = "model")))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn panic_of(act: impl FnOnce()) -> Option<String> {
        let panic = catch_unwind(AssertUnwindSafe(act)).err()?;
        panic.downcast_ref::<String>().cloned()
    }

    #[test]
    fn a_lock_of_an_earlier_rank_than_one_that_is_held_is_refused_with_both_names() {
        let (outer, inner) = (Ranked::new(Rank::Growth, Mutex::new(())), Ranked::new(Rank::LogWriter, Mutex::new(())));
        let held = outer.lock();
        drop(inner.lock());
        drop(held);
        let held = inner.lock();
        let text = panic_of(|| drop(outer.lock())).expect("the wrong order panics");
        assert!(text.contains("Growth") && text.contains("LogWriter"), "{text}");
        drop(held);
        assert_eq!(panic_of(|| drop(outer.lock())), None, "what was released is not held any more");
    }

    #[test]
    fn a_rank_is_refused_while_it_is_held_unless_a_rule_of_its_own_orders_its_locks() {
        let (one, other) = (Ranked::new(Rank::Stores, RwLock::new(())), Ranked::new(Rank::Stores, RwLock::new(())));
        let held = one.read();
        assert!(panic_of(|| drop(other.read())).is_some());
        drop(held);
        note(Rank::Page);
        assert_eq!(panic_of(|| check(Rank::Page)), None);
        forget(Rank::Page);
    }

    #[test]
    fn an_attempt_is_allowed_in_any_order_and_counts_as_held() {
        let (outer, inner) = (Ranked::new(Rank::Growth, Mutex::new(())), Ranked::new(Rank::LogWriter, Mutex::new(())));
        let first = inner.lock();
        let second = outer.try_lock().expect("it is free");
        drop(first);
        assert!(panic_of(|| check(Rank::Growth)).is_some());
        drop(second);
        assert_eq!(panic_of(|| check(Rank::Growth)), None);
    }

    #[test]
    fn ranks_belong_to_a_thread() {
        let inner = Ranked::new(Rank::LogWriter, Mutex::new(()));
        let _held = inner.lock();
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| panic_of(|| check(Rank::Growth)));
            assert_eq!(asked.join().expect("it returns"), None);
        });
    }
}

#[cfg(all(test, not(debug_assertions)))]
mod tests {
    use super::*;

    #[test]
    fn release_builds_keep_no_ranks() {
        assert_eq!(size_of::<Ranked<Mutex<u64>>>(), size_of::<Mutex<u64>>());
        assert_eq!(size_of::<RankedGuard<MutexGuard<'_, u64>>>(), size_of::<MutexGuard<'_, u64>>());
    }
}
