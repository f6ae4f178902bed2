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
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use hobt_base::Stamp;
use hobt_instruments::rank::{Rank, Ranked};
use hobt_instruments::schedule::{self, Mutex, Place};
use smallvec::SmallVec;

use crate::memory::{MemoryAccount, MemoryBudget};
use crate::rebuilt::{PagePiece, Pieces, RebuiltMemory, RebuiltName, RebuiltPages, RebuiltRows};
use crate::versions::{Generation, VersionMemory, VersionSpace};
use crate::view::{Readers, View};
use crate::{VersionError, VersionStore, VersionsFull};

/// The part of the instance's memory that versions may take: one in so many. Beyond it they go to disk.
const VERSIONS_SHARE: u64 = 8;
/// The generations of versions that have room in that part.
const GENERATIONS: u64 = 4;
/// The most bytes of a generation: it is sorted and written at once.
const GENERATION_BYTES_MAX: u64 = 64 << 20;
/// Readers beyond this number are not asked which versions they need.
const READERS_MAX: usize = 64;

/// The transactions of an instance.
#[derive(Debug)]
pub struct Transactions {
    latest: AtomicU64,
    state: Ranked<Mutex<State>>,
    /// What the versions of all databases take.
    versions: OnceLock<Arc<VersionMemory>>,
    /// What the pages take that snapshots keep.
    rebuilt_memory: OnceLock<Arc<RebuiltMemory>>,
}

impl Default for Transactions {
    fn default() -> Transactions {
        let state = Ranked::new(Rank::Transactions, Mutex::default());
        Transactions { latest: AtomicU64::new(0), state, versions: OnceLock::new(), rebuilt_memory: OnceLock::new() }
    }
}

#[derive(Debug, Default)]
struct State {
    running: BTreeMap<u64, Arc<Noted>>,
    /// The snapshots by moment, which is the first stamp that was not given out then, and number.
    snapshots: BTreeMap<(u64, u64), Arc<View>>,
    /// The number of the last snapshot.
    last_snapshot: u64,
    /// How many snapshots there are of each horizon.
    horizons: BTreeMap<u64, usize>,
    /// The generations of versions whose writers have all ended, by the moment of the last one's end and number.
    /// Snapshots of later moments see all of their changes.
    idle: BTreeMap<(u64, u64), Arc<Generation>>,
    /// The stores that have had versions.
    stores: Vec<Weak<VersionStore>>,
}

/// The generations in which a running transaction has versions.
#[derive(Debug, Default)]
struct NotedGenerations {
    /// In the order in which they were noted.
    all: Vec<Arc<Generation>>,
    numbers: HashSet<u64>,
}

impl NotedGenerations {
    fn has(&self, generation: &Generation) -> bool {
        self.numbers.contains(&generation.number())
    }
}

type Noted = Mutex<NotedGenerations>;

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

    /// Sets the budget for versions, and the bytes of memory from which on they go to disk: an eighth of the budget if
    /// absent. Does nothing if one is set.
    pub fn keep_versions_in(&self, budget: &Arc<MemoryBudget>, bytes_max: Option<u64>) {
        let bytes_max = bytes_max.unwrap_or(budget.limit() / VERSIONS_SHARE);
        let generation_bytes = (bytes_max / GENERATIONS).min(GENERATION_BYTES_MAX);
        self.versions.get_or_init(|| {
            let account = MemoryAccount::new(budget, "Row versions");
            Arc::new(VersionMemory::new(account, bytes_max, generation_bytes))
        });
    }

    /// Sets the budget for the pages that snapshots keep, and how many bytes of it they may take: a sixteenth of the
    /// budget if absent. Until then they keep none. Does nothing if one is set.
    pub fn keep_rebuilt_pages_in(&self, budget: &Arc<MemoryBudget>, bytes_max: Option<u64>) {
        self.rebuilt_memory.get_or_init(|| Arc::new(RebuiltMemory::new(budget, bytes_max)));
    }

    /// Sets where versions go for which there is no memory, and whether a thread merges them there. The budget must be
    /// set. Does nothing if the space is set.
    pub fn spill_versions_to(&self, space: Arc<dyn VersionSpace>, merges_behind: bool) {
        if let Some(versions) = self.versions.get() {
            versions.space.get_or_init(|| space);
            versions.merges_behind.store(merges_behind, Ordering::Relaxed);
        }
    }

    /// Where versions go for which there is no memory, if that is set.
    pub(crate) fn version_space(&self) -> Option<&Arc<dyn VersionSpace>> {
        self.versions.get().and_then(|versions| versions.space.get())
    }

    /// Estimated bytes of memory that versions take.
    pub fn version_bytes(&self) -> u64 {
        self.versions.get().map_or(0, |versions| versions.account.held())
    }

    /// Makes sure that there is room for more versions, by writing some to disk, or by giving up those of the oldest
    /// readers if the disk has no room. Blocks.
    ///
    /// # Errors
    /// The disk has no room, and no reader keeps versions.
    pub(crate) fn make_version_room(&self) -> Result<(), VersionsFull> {
        let Some(versions) = self.versions.get() else { return Ok(()) };
        if !versions.is_crowded() {
            return Ok(());
        }
        let _one_at_a_time = versions.spilling.lock();
        while versions.is_crowded() {
            let stores: Vec<Arc<VersionStore>> = self.state.lock().stores.iter().filter_map(Weak::upgrade).collect();
            let is_needed = versions.recent() >= versions.bytes_max;
            let weight = |store: &&Arc<VersionStore>| if is_needed { store.recent_bytes() } else { store.kept_count() };
            let Some(largest) = stores.iter().max_by_key(weight).filter(|store| weight(store) > 0) else { break };
            let (why, is_full) = match versions.space.get().map(|space| largest.spill(space)) {
                Some(Ok(true)) => {
                    let space = versions.space.get().expect("it was written to");
                    versions.kept_refused.store(0, Ordering::Relaxed);
                    largest.merge_if_due(versions, space);
                    continue;
                }
                Some(Ok(false)) => break,
                Some(Err(error)) if error.is_full && VersionStore::stop_merges(&stores, versions) => continue,
                Some(Err(error)) => (error.message, error.is_full),
                None => ("there is no disk space for them".to_owned(), true),
            };
            if !is_needed {
                // Memory has room for them.
                versions.kept_refused.store(versions.kept.load(Ordering::Relaxed), Ordering::Relaxed);
                break;
            }
            if !is_full || !self.give_up_oldest_readers() {
                return Err(VersionsFull { bytes: versions.account.held(), why });
            }
        }
        Ok(())
    }

    /// Gives up the versions that only the oldest snapshots need. Returns `false` if no snapshot keeps versions whose
    /// writers have ended.
    fn give_up_oldest_readers(&self) -> bool {
        let mut gone = Vec::new();
        {
            let mut state = self.state.lock();
            let Some((oldest, _)) = state.snapshots.first_key_value().map(|(key, _)| *key) else { return false };
            if state.idle.is_empty() {
                return false;
            }
            while let Some(entry) = state.snapshots.first_entry().filter(|entry| entry.key().0 == oldest) {
                let view = entry.remove();
                view.is_given_up.store(true, Ordering::Release);
                take_one(&mut state.horizons, view.horizon.0);
            }
            state.collect(&mut gone);
        }
        self.forget(gone);
        true
    }

    /// Begins a transaction. No snapshot sees its changes until the guard is dropped.
    pub fn begin(self: &Arc<Transactions>) -> Running {
        let noted = Arc::default();
        // Under the lock: a snapshot that counts the stamp as given out finds it running.
        let mut state = self.state.lock();
        let stamp = self.next();
        state.running.insert(stamp.0, Arc::clone(&noted));
        Running { of: Arc::clone(self), stamp, noted, undone_in: OnceLock::new() }
    }

    /// A snapshot of what has committed now, and of the changes of `own` and `also`: a statement that runs beside a
    /// transaction sees that transaction's changes.
    pub fn snapshot(self: &Arc<Transactions>, own: Stamp, also: Stamp) -> Arc<Snapshot> {
        Arc::new(self.take_snapshot(own, also, None))
    }

    /// The snapshot of a transaction of several statements. It keeps the pages that they rebuild.
    pub(crate) fn snapshot_to_keep(self: &Arc<Transactions>, own: Stamp) -> Arc<Snapshot> {
        Arc::new(self.take_snapshot(own, own, self.rebuilt_memory.get().map(RebuiltPages::new)))
    }

    fn take_snapshot(self: &Arc<Transactions>, own: Stamp, also: Stamp, rebuilt: Option<RebuiltPages>) -> Snapshot {
        let mut state = self.state.lock();
        let next = self.latest.load(Ordering::Relaxed) + 1;
        let mut running: Box<[u64]> = state.running.keys().copied().collect();
        if planted::has(Bug::SnapshotWithoutRunning) {
            running = Box::default();
        }
        let horizon = running.iter().copied().find(|stamp| *stamp != own.0 && *stamp != also.0).unwrap_or(next);
        *state.horizons.entry(horizon).or_default() += 1;
        state.last_snapshot += 1;
        let number = state.last_snapshot;
        let noted = |stamp: &Stamp| state.running.get(&stamp.0).map(Arc::clone);
        let own_noted = [own, also].iter().filter_map(noted).collect();
        let is_given_up = AtomicBool::new(false);
        let view = View { own, also, next, horizon: Stamp(horizon), running, is_given_up };
        let view = Arc::new(view);
        state.snapshots.insert((next, number), Arc::clone(&view));
        Snapshot { of: Arc::clone(self), number, view, own_noted, rebuilt }
    }

    /// The number of running transactions.
    pub fn running_count(&self) -> usize {
        self.state.lock().running.len()
    }

    /// Whether every snapshot, present and future, sees the changes of `writer`.
    pub fn is_seen_by_all(&self, writer: Stamp) -> bool {
        let state = self.state.lock();
        if state.running.contains_key(&writer.0) {
            return false;
        }
        let is_old = state.horizons.keys().next().is_none_or(|oldest| writer.0 < *oldest);
        is_old || (state.snapshots.len() <= READERS_MAX && state.snapshots.values().all(|view| view.sees(writer)))
    }

    /// The snapshots and running transactions of this moment.
    pub(crate) fn readers(&self) -> Readers {
        let state = self.state.lock();
        let are_few = state.snapshots.len() <= READERS_MAX;
        let views = are_few.then(|| state.snapshots.values().cloned().collect());
        Readers { views, running: state.running.keys().copied().collect(), undone: Vec::new() }
    }

    /// Notes that a generation has versions of a running transaction.
    fn note(&self, noted: &Noted, generation: &Arc<Generation>) {
        let mut state = self.state.lock();
        state.note(noted, generation);
        self.count_kept(generation, false);
        if let Some(versions) = self.versions.get() {
            generation.is_of(versions);
        }
    }

    /// Notes that a generation is on its way to disk.
    pub(crate) fn note_frozen(&self, generation: &Generation) {
        let _state = self.state.lock();
        self.count_kept(generation, false);
    }

    /// Counts a generation as kept in memory by readers alone, or not. Called under the lock of the state.
    fn count_kept(&self, generation: &Generation, is_kept: bool) {
        if generation.is_kept.swap(is_kept, Ordering::Relaxed) != is_kept
            && let Some(versions) = self.versions.get()
        {
            let change = if is_kept { 1 } else { usize::MAX };
            versions.kept.fetch_add(change, Ordering::Relaxed);
        }
    }

    /// Makes one generation stand for all of `generations`, which are one run and whose writers have ended: the one
    /// whose last writer ended last. Returns it.
    pub(crate) fn combine(&self, generations: Vec<Arc<Generation>>) -> Vec<Arc<Generation>> {
        let mut state = self.state.lock();
        let end = |one: &Arc<Generation>| one.last_end.load(Ordering::Relaxed);
        let last = generations.iter().max_by_key(|one| (end(one), one.number())).map(Arc::clone);
        for one in generations.iter().filter(|one| last.as_ref().is_some_and(|last| !Arc::ptr_eq(last, one))) {
            debug_assert!(one.is_fixed() && one.writers.load(Ordering::Relaxed) == 0, "no writer comes to it");
            state.idle.remove(&(end(one), one.number()));
        }
        last.into_iter().collect()
    }

    /// Notes that the active generation has something to say of versions of `writer` that are not changed any more.
    /// Returns `false`, and notes nothing, if there are none.
    pub(crate) fn note_fixed(&self, writer: Stamp, active: &Arc<Generation>) -> bool {
        let mut state = self.state.lock();
        let Some(noted) = state.running.get(&writer.0).map(Arc::clone) else { return false };
        let has_fixed = noted.lock().all.iter().any(|generation| generation.is_fixed());
        if has_fixed {
            state.note(&noted, active);
            self.count_kept(active, false);
            if let Some(versions) = self.versions.get() {
                active.is_of(versions);
            }
        }
        has_fixed
    }

    /// Whether no reader needs a generation any more, and none of its writers is running. No writer comes to it while
    /// this is called.
    pub(crate) fn may_go(&self, generation: &Arc<Generation>) -> bool {
        let mut state = self.state.lock();
        let last_end = generation.last_end.load(Ordering::Relaxed);
        let may_go = generation.writers.load(Ordering::Relaxed) == 0 && last_end < state.oldest_moment();
        if may_go {
            state.idle.remove(&(last_end, generation.number()));
            self.count_kept(generation, false);
        }
        may_go
    }

    /// Ends a transaction, and forgets the versions that are no longer needed.
    fn end(&self, ended: Stamp, noted: Vec<Arc<Generation>>) {
        let mut gone = Vec::new();
        let has_changed = !noted.is_empty();
        if has_changed {
            schedule::point(Place::Visibility);
        }
        {
            let mut state = self.state.lock();
            state.running.remove(&ended.0);
            if has_changed {
                // A stamp of its own: snapshots from before and after the end differ.
                let at = self.next().0;
                for generation in noted {
                    generation.last_end.store(at, Ordering::Relaxed);
                    if generation.writers.fetch_sub(1, Ordering::Release) == 1 {
                        self.count_kept(&generation, generation.is_sealed_in_memory());
                        state.idle.insert((at, generation.number()), generation);
                    }
                }
                state.collect(&mut gone);
            }
        }
        if has_changed {
            schedule::point(Place::Visibility);
        }
        self.forget(gone);
    }

    fn leave(&self, number: u64, view: &View) {
        let mut gone = Vec::new();
        {
            let mut state = self.state.lock();
            if let Entry::Occupied(entry) = state.snapshots.entry((view.next, number)) {
                entry.remove();
                take_one(&mut state.horizons, view.horizon.0);
                state.collect(&mut gone);
            }
        }
        self.forget(gone);
    }

    fn forget(&self, gone: Vec<Arc<Generation>>) {
        for generation in gone {
            // What is not retired was taken up by another writer, which puts it back at its end.
            if let Some(store) = generation.store() {
                store.retire(&generation, self);
            }
        }
    }
}

impl State {
    /// The moment of the oldest snapshot.
    fn oldest_moment(&self) -> u64 {
        let oldest = self.snapshots.keys().next().map_or(u64::MAX, |(next, _)| *next);
        if planted::has(Bug::VersionsForgottenEarly) { u64::MAX } else { oldest }
    }

    /// Takes out the generations that all snapshots, present and future, see.
    fn collect(&mut self, gone: &mut Vec<Arc<Generation>>) {
        let oldest = self.oldest_moment();
        while let Some(entry) = self.idle.first_entry().filter(|entry| entry.key().0 < oldest) {
            gone.push(entry.remove());
        }
    }

    fn note(&mut self, noted: &Noted, generation: &Arc<Generation>) {
        let mut noted = noted.lock();
        if !noted.numbers.insert(generation.number()) {
            return;
        }
        noted.all.push(Arc::clone(generation));
        if generation.writers.fetch_add(1, Ordering::Relaxed) == 0 {
            self.idle.remove(&(generation.last_end.load(Ordering::Relaxed), generation.number()));
        }
        if let Some(store) = generation.store()
            && !self.stores.iter().any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(&store)))
        {
            self.stores.retain(|known| known.strong_count() > 0);
            self.stores.push(Arc::downgrade(&store));
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

/// A running transaction. Dropping it ends it for readers: later snapshots see its changes.
#[derive(Debug)]
pub struct Running {
    of: Arc<Transactions>,
    stamp: Stamp,
    noted: Arc<Noted>,
    /// It is being undone whole, and in these stores that is noted.
    undone_in: OnceLock<Vec<Arc<VersionStore>>>,
}

impl Running {
    /// Its stamp.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// The list of running transactions that has it.
    pub fn transactions(&self) -> &Arc<Transactions> {
        &self.of
    }

    /// Notes that a generation has versions that were put by it, or on its behalf. They are needed until it has ended
    /// and every snapshot sees it.
    pub(crate) fn note(&self, generation: &Arc<Generation>) {
        let is_known = self.noted.lock().all.last().is_some_and(|last| Arc::ptr_eq(last, generation));
        if !is_known {
            self.of.note(&self.noted, generation);
        }
    }

    /// Notes that all of its changes are about to be undone. In stores where it has many versions, it is noted once,
    /// and not for each row, that they are undone.
    pub(crate) fn undo_whole(&self) {
        self.undone_in.get_or_init(|| {
            let noted = self.noted.lock().all.clone();
            let mut stores: HashMap<_, (Arc<VersionStore>, usize)> = HashMap::new();
            for store in noted.iter().filter_map(|generation| generation.store()) {
                stores.entry(Arc::as_ptr(&store)).or_insert((store, 0)).1 += 1;
            }
            let large = stores.into_values().filter(|(_, generations)| *generations > 1);
            let large: Vec<Arc<VersionStore>> = large.map(|(store, _)| store).collect();
            large.iter().for_each(|store| store.undo_whole(self.stamp, false));
            large
        });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let noted = std::mem::take(&mut *self.noted.lock()).all;
        for store in self.undone_in.get().into_iter().flatten() {
            let of_store = noted.iter().filter(|generation| generation.is_in(store));
            of_store.for_each(|generation| generation.undone_by(self.stamp));
            store.undo_whole(self.stamp, true);
        }
        self.of.end(self.stamp, noted);
    }
}

/// A view of the database: what had committed at one moment, and a transaction's own changes.
#[derive(Debug)]
pub struct Snapshot {
    of: Arc<Transactions>,
    number: u64,
    view: Arc<View>,
    /// The generations of its own transactions.
    own_noted: SmallVec<[Arc<Noted>; 1]>,
    /// What it keeps, unless it is of one statement.
    rebuilt: Option<RebuiltPages>,
}

impl Snapshot {
    /// Whether the changes of `writer` are visible.
    pub fn sees(&self, writer: Stamp) -> bool {
        self.view.sees(writer)
    }

    /// All stamps below this one are visible.
    pub fn horizon(&self) -> Stamp {
        self.view.horizon
    }

    /// What it sees.
    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// Whether its own transactions have versions in one of some generations.
    pub(crate) fn has_own(&self, generations: &[Arc<Generation>]) -> bool {
        let is_one_own = |noted: &Arc<Noted>| {
            let noted = noted.lock();
            generations.iter().any(|generation| noted.has(generation))
        };
        self.own_noted.iter().any(is_one_own)
    }

    /// Notes that a scan begins.
    pub fn begin_scan(&self) {
        if let Some(rebuilt) = &self.rebuilt {
            rebuilt.begin_scan();
        }
    }

    /// The kept pages of a database; `None` if it keeps none, or its transaction has changed a row there, or it was
    /// given up: then all look-ups are to fail.
    fn usable_pages(&self, store: u64) -> Option<&RebuiltPages> {
        let rebuilt = self.rebuilt.as_ref()?;
        let is_changed = |noted: &Arc<Noted>| noted.lock().all.iter().any(|generation| generation.is_of_store(store));
        if self.own_noted.iter().any(is_changed) && !planted::has(Bug::OwnChangesNotRebuilt) {
            rebuilt.forget(store);
            return None;
        }
        (!self.view.is_given_up.load(Ordering::Acquire)).then_some(rebuilt)
    }

    /// What it sees of a page, if it has kept that.
    pub fn rebuilt_page(&self, name: RebuiltName, rows: RebuiltRows<'_>) -> Option<Pieces> {
        self.usable_pages(name.store)?.get(name, rows).map(Pieces::Kept)
    }

    /// Keeps what it sees of a page, if it keeps pages and there is memory.
    pub fn keep_rebuilt(&self, name: RebuiltName, rows: RebuiltRows<'_>, pieces: Vec<PagePiece>) -> Pieces {
        // Asked after the page was rebuilt: a change of its own that may be in it was noted before the latch on the
        // page was released.
        match self.usable_pages(name.store) {
            Some(rebuilt) => Pieces::Kept(rebuilt.keep(name, rows, pieces)),
            None => Pieces::Own(pieces),
        }
    }

    /// Whether it sees all current rows: no other transaction was running when it was taken, and none has begun since.
    pub fn is_of_present(&self) -> bool {
        self.view.horizon.0 == self.view.next && self.of.latest.load(Ordering::Relaxed) < self.view.next
    }

    /// What was found out with the versions of this moment.
    ///
    /// # Errors
    /// Versions that the snapshot needs may have been missing.
    pub(crate) fn checked<R>(&self, found: R) -> Result<R, VersionError> {
        if self.view.is_given_up.load(Ordering::Acquire) { Err(VersionError::GivenUp) } else { Ok(found) }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.of.leave(self.number, &self.view);
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
    fn versions_go_when_no_snapshot_needs_them() {
        use crate::{Before, HeapPage, VersionStore};
        use hobt_base::{FileId, HobtId, PageId, SlotId};
        let all: Arc<Transactions> = Arc::default();
        let store = VersionStore::new();
        let page = HeapPage { hobt: HobtId(7), page: PageId::new(FileId(1), 9) };
        let writer = all.begin();
        store.put(&writer, page, SlotId(3), Before::Absent);
        let reader = all.snapshot(Stamp(0), Stamp(0));
        let stamp = writer.stamp();
        drop(writer);
        assert_eq!(store.changes(page, &reader).expect("in memory"), vec![(SlotId(3), Before::Absent)]);
        let later = all.snapshot(Stamp(0), Stamp(0));
        assert_eq!(store.changes(page, &later).expect("in memory"), Vec::new());
        assert!(later.sees(stamp) && store.extent().versions == 1);
        drop(later);
        assert_eq!(store.extent().versions, 1, "the reader may come again");
        drop(reader);
        assert_eq!(store.extent().versions, 0);
    }
}
