//! Which transactions are running, and what a reader sees of the others.
//!
//! A stamp is a transaction's position in the order of beginnings, one order per instance. A [`Snapshot`] is what had
//! committed at one moment: every stamp given out before, except those that were running. Later snapshots see a
//! transaction's changes from the moment its [`Running`] guard is dropped. That is after its commit is durable and
//! before its locks are released, so a transaction that waited for one of its locks sees its changes.
//!
//! A page names its newest writer. If that stamp is below a snapshot's [`Snapshot::horizon`], the whole page is
//! visible. Otherwise [`crate::VersionStore`] has the earlier versions.

use hobt_instruments::planted::{self, Bug};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use hobt_base::{HobtId, Stamp};
use hobt_instruments::rank::{Rank, Ranked};
use hobt_instruments::schedule::{self, Mutex, Place};

use crate::memory::{MemoryAccount, MemoryBudget};
use crate::versions::VersionKey;
use crate::{HeapPage, VersionStore, VersionsFull};

/// The part of the instance's memory that versions of ended transactions may take: one in so many.
const VERSIONS_SHARE: u64 = 4;

/// The transactions of an instance.
#[derive(Debug)]
pub struct Transactions {
    latest: AtomicU64,
    state: Ranked<Mutex<State>>,
    /// What versions of ended transactions take; changed under `state`.
    kept: OnceLock<KeptVersions>,
}

impl Default for Transactions {
    fn default() -> Transactions {
        let state = Ranked::new(Rank::Transactions, Mutex::default());
        Transactions { latest: AtomicU64::new(0), state, kept: OnceLock::new() }
    }
}

/// The account of versions that readers need after their writers have ended.
#[derive(Debug)]
struct KeptVersions {
    account: MemoryAccount,
    bytes_max: u64,
}

#[derive(Debug, Default)]
struct State {
    running: BTreeSet<u64>,
    /// How many snapshots there are of each moment. The key is the first stamp that was not given out then.
    snapshots: BTreeMap<u64, usize>,
    /// How many snapshots there are of each horizon.
    horizons: BTreeMap<u64, usize>,
    /// What ended transactions have left in version stores, in the order in which they ended.
    ended: VecDeque<Ended>,
}

/// What an ended transaction has left.
#[derive(Debug)]
struct Ended {
    /// Snapshots of later moments see the transaction's changes.
    at: u64,
    changed: Vec<Changed>,
    /// Estimated bytes of its versions.
    bytes: u64,
}

/// Versions in a store whose writer is `writer`, whether put by that transaction or on its behalf.
#[derive(Debug)]
struct Changed {
    store: Arc<VersionStore>,
    writer: Stamp,
    pages: Vec<HeapPage>,
    keys: Vec<(HobtId, VersionKey)>,
}

/// Bits of a stamp that count within one life of an instance.
const LIFE_BITS: u32 = 40;

impl Transactions {
    /// A new stamp, for a writer that no reader needs to know of.
    pub fn next(&self) -> Stamp {
        Stamp(self.latest.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// The latest stamp that was given out.
    pub fn latest(&self) -> Stamp {
        Stamp(self.latest.load(Ordering::Relaxed))
    }

    /// Makes all later stamps greater than `stamp`.
    pub fn raise_above(&self, stamp: Stamp) {
        self.latest.fetch_max(stamp.0, Ordering::Relaxed);
    }

    /// Begins a new life: all stamps from now on are above every stamp of an earlier life whose first stamps were known
    /// here. A life has 2^40 stamps, so the last stamp of a life that a crash ended need not be known.
    pub fn begin_life(&self) {
        let next = (self.latest.load(Ordering::Relaxed) >> LIFE_BITS) + 1;
        self.raise_above(Stamp(next << LIFE_BITS));
    }

    /// Sets the budget for versions that are needed after their writers have ended. Does nothing if one is set.
    pub fn keep_versions_in(&self, budget: &Arc<MemoryBudget>) {
        self.kept.get_or_init(|| KeptVersions {
            account: MemoryAccount::new(budget, "Row versions"),
            bytes_max: budget.limit() / VERSIONS_SHARE,
        });
    }

    /// Estimated bytes of the versions that readers need after their writers have ended.
    pub fn kept_version_bytes(&self) -> u64 {
        self.kept.get().map_or(0, |kept| kept.account.held())
    }

    /// Checks that there is room for more versions.
    ///
    /// # Errors
    /// Readers that are open for long keep as many versions as are allowed.
    pub(crate) fn check_version_room(&self) -> Result<(), VersionsFull> {
        let Some(kept) = self.kept.get() else { return Ok(()) };
        let bytes = kept.account.held();
        if bytes < kept.bytes_max { Ok(()) } else { Err(VersionsFull { bytes, bytes_max: kept.bytes_max }) }
    }

    /// Begins a transaction. No snapshot sees its changes until the guard is dropped.
    pub fn begin(self: &Arc<Transactions>) -> Running {
        // Under the lock: a snapshot that counts the stamp as given out finds it running.
        let mut state = self.state.lock();
        let stamp = self.next();
        state.running.insert(stamp.0);
        Running { of: Arc::clone(self), stamp, changed: Mutex::default(), version_bytes: AtomicU64::new(0) }
    }

    /// A snapshot of what has committed now, and of the changes of `own` and `also`: a statement that runs beside a
    /// transaction sees that transaction's changes.
    pub fn snapshot(self: &Arc<Transactions>, own: Stamp, also: Stamp) -> Arc<Snapshot> {
        let mut state = self.state.lock();
        let next = self.latest.load(Ordering::Relaxed) + 1;
        *state.snapshots.entry(next).or_default() += 1;
        let mut running: Box<[u64]> = state.running.iter().copied().collect();
        if planted::has(Bug::SnapshotWithoutRunning) {
            running = Box::default();
        }
        let horizon = running.iter().copied().find(|stamp| *stamp != own.0 && *stamp != also.0).unwrap_or(next);
        *state.horizons.entry(horizon).or_default() += 1;
        Arc::new(Snapshot { of: Arc::clone(self), own, also, next, horizon: Stamp(horizon), running })
    }

    /// The number of running transactions.
    pub fn running_count(&self) -> usize {
        self.state.lock().running.len()
    }

    /// Whether every snapshot, present and future, sees the changes of `writer`.
    pub fn is_seen_by_all(&self, writer: Stamp) -> bool {
        let state = self.state.lock();
        !state.running.contains(&writer.0) && state.horizons.keys().next().is_none_or(|oldest| writer.0 < *oldest)
    }

    /// Ends a transaction, and forgets the versions that are no longer needed.
    fn end(&self, ended: Stamp, changed: Vec<Changed>, bytes: u64) {
        let mut gone = Vec::new();
        let has_changed = !changed.is_empty();
        if has_changed {
            schedule::point(Place::Visibility);
        }
        {
            let mut state = self.state.lock();
            state.running.remove(&ended.0);
            let mut added = 0;
            if has_changed {
                // A stamp of its own: snapshots from before and after the end differ.
                let at = self.next().0;
                state.ended.push_back(Ended { at, changed, bytes });
                added = bytes;
            }
            state.collect(&mut gone);
            self.account(added, &gone);
        }
        if has_changed {
            schedule::point(Place::Visibility);
        }
        forget(gone);
    }

    /// Accounts for `added` bytes of versions, less those of `gone`, which mostly are the bytes that were added. Called
    /// under the lock of the state, so that no bytes are returned before they were taken.
    fn account(&self, added: u64, gone: &[Ended]) {
        let Some(KeptVersions { account, .. }) = self.kept.get() else { return };
        let freed: u64 = gone.iter().map(|ended| ended.bytes).sum();
        if added > freed {
            account.overdraw(added - freed);
        } else if added < freed {
            account.shrink(freed - added);
        }
    }

    fn leave(&self, next: u64, horizon: Stamp) {
        let mut gone = Vec::new();
        {
            let mut state = self.state.lock();
            take_one(&mut state.snapshots, next);
            take_one(&mut state.horizons, horizon.0);
            state.collect(&mut gone);
            self.account(0, &gone);
        }
        forget(gone);
    }
}

impl State {
    /// Takes out what all snapshots, present and future, see.
    fn collect(&mut self, gone: &mut Vec<Ended>) {
        let oldest = self.snapshots.keys().next().copied().unwrap_or(u64::MAX);
        let oldest = if planted::has(Bug::VersionsForgottenEarly) { u64::MAX } else { oldest };
        while self.ended.front().is_some_and(|ended| ended.at < oldest) {
            gone.extend(self.ended.pop_front());
        }
    }
}

fn take_one(counts: &mut BTreeMap<u64, usize>, key: u64) {
    if let Some(count) = counts.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&key);
        }
    }
}

fn forget(gone: Vec<Ended>) {
    for changed in gone.into_iter().flat_map(|ended| ended.changed) {
        changed.store.forget(changed.writer, &changed.pages, changed.keys);
    }
}

/// A running transaction. Dropping it ends it for readers: later snapshots see its changes.
#[derive(Debug)]
pub struct Running {
    of: Arc<Transactions>,
    stamp: Stamp,
    changed: Mutex<Vec<Changed>>,
    /// Estimated bytes of the versions that it has put.
    version_bytes: AtomicU64,
}

impl Running {
    /// Estimated bytes of the versions that it has put.
    pub(crate) fn version_bytes(&self) -> u64 {
        self.version_bytes.load(Ordering::Relaxed)
    }

    /// Notes that its versions, or versions of others into which it has put values, take `bytes` more.
    pub(crate) fn add_version_bytes(&self, bytes: usize) {
        self.version_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Its stamp.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// The list of running transactions that has it.
    pub fn transactions(&self) -> &Arc<Transactions> {
        &self.of
    }

    /// Notes that `store` has versions of a page's rows, changed by `writer`. They are dropped after this transaction
    /// has ended.
    pub(crate) fn note(&self, store: &Arc<VersionStore>, writer: Stamp, page: HeapPage) {
        self.note_in(store, writer, |changed| {
            if changed.pages.last() != Some(&page) {
                changed.pages.push(page);
            }
        });
    }

    /// Like [`Running::note`], for a version of a tree's key.
    pub(crate) fn note_key(&self, store: &Arc<VersionStore>, writer: Stamp, hobt: HobtId, key: VersionKey) {
        self.note_in(store, writer, |changed| changed.keys.push((hobt, key)));
    }

    fn note_in(&self, store: &Arc<VersionStore>, writer: Stamp, note: impl FnOnce(&mut Changed)) {
        let mut all = self.changed.lock();
        let known = all.iter().position(|known| known.writer == writer && Arc::ptr_eq(&known.store, store));
        let place = known.unwrap_or_else(|| {
            all.push(Changed { store: Arc::clone(store), writer, pages: Vec::new(), keys: Vec::new() });
            all.len() - 1
        });
        note(&mut all[place]);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let bytes = self.version_bytes();
        self.of.end(self.stamp, std::mem::take(&mut *self.changed.lock()), bytes);
    }
}

/// A view of the database: what had committed at one moment, and a transaction's own changes.
#[derive(Debug)]
pub struct Snapshot {
    of: Arc<Transactions>,
    own: Stamp,
    also: Stamp,
    /// The first stamp that was not given out.
    next: u64,
    horizon: Stamp,
    /// The stamps that were running, in order.
    running: Box<[u64]>,
}

impl Snapshot {
    /// Whether the changes of `writer` are visible.
    pub fn sees(&self, writer: Stamp) -> bool {
        writer == self.own
            || writer == self.also
            || writer < self.horizon
            || (writer.0 < self.next && self.running.binary_search(&writer.0).is_err())
    }

    /// All stamps below this one are visible.
    pub fn horizon(&self) -> Stamp {
        self.horizon
    }

    /// Whether it sees all current rows: no other transaction was running when it was taken, and none has begun since.
    pub fn is_of_present(&self) -> bool {
        self.horizon.0 == self.next && self.of.latest.load(Ordering::Relaxed) < self.next
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.of.leave(self.next, self.horizon);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_sees_what_had_ended_and_its_own() {
        let all: Arc<Transactions> = Arc::default();
        let (one, two) = (all.begin(), all.begin());
        let (first, second) = (one.stamp(), two.stamp());
        let own = all.snapshot(second, second);
        assert!(!own.sees(first) && own.sees(second) && own.horizon() == first);
        drop(one);
        let later = all.begin();
        assert!(!own.sees(first), "it was running then");
        assert!(!own.sees(later.stamp()));
        let other = all.snapshot(later.stamp(), Stamp(0));
        assert!(other.sees(first) && !other.sees(second) && other.sees(later.stamp()));
        drop(two);
        assert!(all.snapshot(Stamp(0), Stamp(0)).sees(second));
        let with_own = all.snapshot(later.stamp(), Stamp(0));
        assert!(with_own.is_of_present() && !other.is_of_present(), "one ran beside the other");
        let _next = all.begin();
        assert!(!with_own.is_of_present(), "somebody may have changed something");
    }

    #[test]
    fn versions_that_outlive_their_writer_are_in_an_account_with_an_end() {
        use crate::{Before, VersionStore};
        use hobt_base::{FileId, PageId, SlotId};
        let budget = MemoryBudget::new(4096);
        let all: Arc<Transactions> = Arc::default();
        all.keep_versions_in(&budget);
        let store = VersionStore::new();
        let page = HeapPage { hobt: HobtId(7), page: PageId::new(FileId(1), 9) };
        let change = |slot: u16| {
            let writer = all.begin();
            store.put(&writer, page, SlotId(slot), Before::Present);
        };
        change(0);
        assert_eq!((all.kept_version_bytes(), budget.used()), (0, 0), "nobody needs them");
        let reader = all.snapshot(Stamp(0), Stamp(0));
        let mut slot = 0;
        while all.check_version_room().is_ok() {
            assert_eq!(all.kept_version_bytes(), budget.used());
            change(slot);
            slot += 1;
        }
        let full = VersionsFull { bytes: budget.used(), bytes_max: 1024 };
        assert_eq!(all.check_version_room(), Err(full));
        assert!(slot > 4 && full.bytes < 1024 + 1024 / 4, "{slot} versions of {full:?}");
        drop(reader);
        assert_eq!((all.kept_version_bytes(), budget.used(), store.len()), (0, 0, 0));
        all.check_version_room().expect("there is room again");
    }

    #[test]
    fn versions_go_when_no_snapshot_needs_them() {
        use crate::{Before, VersionStore};
        use hobt_base::{FileId, PageId, SlotId};
        let all: Arc<Transactions> = Arc::default();
        let store = VersionStore::new();
        let page = HeapPage { hobt: HobtId(7), page: PageId::new(FileId(1), 9) };
        let writer = all.begin();
        store.put(&writer, page, SlotId(3), Before::Absent);
        let reader = all.snapshot(Stamp(0), Stamp(0));
        let stamp = writer.stamp();
        drop(writer);
        assert_eq!(store.changes(page, &reader), vec![(SlotId(3), Before::Absent)]);
        let later = all.snapshot(Stamp(0), Stamp(0));
        assert_eq!(store.changes(page, &later), Vec::new());
        assert!(later.sees(stamp) && store.len() == 1);
        drop(later);
        assert_eq!(store.len(), 1, "the reader may come again");
        drop(reader);
        assert_eq!(store.len(), 0);
    }
}
