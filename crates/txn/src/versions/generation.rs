//! The generations of a version store.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use hobt_base::Stamp;
use hobt_instruments::rank::{Rank, Ranked};
use hobt_instruments::schedule::{Mutex, RwLock};

use super::facts::TreeName;
use super::merge::Spilled;
use super::run::Run;
use super::space::VersionSpace;
use super::tables::Tables;
use super::{VersionStore, coding};
use crate::memory::MemoryAccount;
use crate::view::Readers;
use crate::{Snapshot, Transactions};

/// Numbers generations, of all stores of the process.
static LAST: AtomicU64 = AtomicU64::new(0);

/// A generation with fewer bytes is emptied, and its maps are kept.
const KEPT_MAPS_BYTES: u64 = 64 << 10;
/// So many generations in memory that only readers keep. On disk they are merged, without what no reader needs.
const KEPT_MAX: usize = 2;
/// The bytes of a generation while there are few versions.
const GENERATION_BYTES: u64 = 1 << 20;
/// With many versions, one in so many bytes of them is a generation's.
const GENERATIONS: u64 = 8;

/// The memory of all version stores of an instance, and the disk space for what it does not hold.
#[derive(Debug)]
pub(crate) struct VersionMemory {
    pub(crate) account: MemoryAccount,
    /// Bytes of the generations in memory.
    recent: AtomicU64,
    /// How many generations in memory are kept by readers alone.
    pub(crate) kept: AtomicUsize,
    /// How many they were when the disk had no room for one of them; 0 since it had.
    pub(crate) kept_refused: AtomicUsize,
    /// From this on, generations go to disk.
    pub(crate) bytes_max: u64,
    /// From this on, a generation takes no more versions.
    pub(crate) generation_bytes: u64,
    pub(crate) space: OnceLock<Arc<dyn VersionSpace>>,
    /// A thread of its own merges what is on disk.
    pub(crate) merges_behind: AtomicBool,
    /// The largest size of runs that are merged: a merge needs as much disk space again. Falls with each merge that the
    /// disk had no room for.
    pub(crate) merged_bytes_max: AtomicU64,
    /// Merges give up, for the room that they take.
    pub(crate) is_merging_stopped: AtomicBool,
    /// Held by the thread that writes to disk.
    pub(crate) spilling: Ranked<Mutex<()>>,
}

impl VersionMemory {
    pub(crate) fn new(account: MemoryAccount, bytes_max: u64, generation_bytes: u64) -> VersionMemory {
        let (recent, kept, kept_refused, space, merges_behind, is_merging_stopped) = Default::default();
        let spilling = Ranked::new(Rank::VersionSpill, Mutex::new(()));
        VersionMemory {
            account,
            recent,
            kept,
            kept_refused,
            bytes_max,
            generation_bytes,
            space,
            merges_behind,
            merged_bytes_max: AtomicU64::new(u64::MAX),
            is_merging_stopped,
            spilling,
        }
    }

    /// Whether generations in memory should go to disk: they take too much, or a reader looks into too many.
    pub(crate) fn is_crowded(&self) -> bool {
        let kept_max = KEPT_MAX.max(self.kept_refused.load(Ordering::Relaxed));
        self.recent() >= self.bytes_max || self.kept.load(Ordering::Relaxed) > kept_max
    }

    /// Bytes of the generations in memory.
    pub(crate) fn recent(&self) -> u64 {
        self.recent.load(Ordering::Relaxed)
    }
}

/// How the bytes of versions in memory change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes {
    pub(super) added: usize,
    pub(super) freed: usize,
}

/// The versions that were put in one period.
#[derive(Debug)]
pub(crate) struct Generation {
    number: u64,
    store: Weak<VersionStore>,
    store_number: u64,
    /// Transactions that have put versions and have not ended. Changed under the lock of the running transactions.
    pub(crate) writers: AtomicUsize,
    /// The moment at which the last of them ended. Changed under that lock, too.
    pub(crate) last_end: AtomicU64,
    /// No version is changed any more: they are on disk or on their way.
    is_fixed: AtomicBool,
    /// No writer comes to it any more.
    is_sealed: AtomicBool,
    /// It is in memory, its writers have ended, and a reader keeps it. Changed under that lock, too.
    pub(crate) is_kept: AtomicBool,
    /// Transactions that have undone all of their changes.
    undone: RwLock<Vec<Stamp>>,
    has_undone: AtomicBool,
    /// The newest transaction that has a version here.
    newest_writer: AtomicU64,
    /// Estimated bytes of memory.
    bytes: AtomicU64,
    memory: OnceLock<Arc<VersionMemory>>,
}

impl Generation {
    fn new(store: Weak<VersionStore>, store_number: u64) -> Arc<Generation> {
        Arc::new(Generation {
            number: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            store,
            store_number,
            writers: AtomicUsize::new(0),
            last_end: AtomicU64::new(0),
            is_fixed: AtomicBool::new(false),
            is_sealed: AtomicBool::new(false),
            is_kept: AtomicBool::new(false),
            undone: RwLock::default(),
            has_undone: AtomicBool::new(false),
            newest_writer: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            memory: OnceLock::new(),
        })
    }

    /// Tells generations apart.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn store(&self) -> Option<Arc<VersionStore>> {
        self.store.upgrade()
    }

    /// Whether it is one of a store's.
    pub(crate) fn is_in(&self, store: &Arc<VersionStore>) -> bool {
        std::ptr::eq(self.store.as_ptr(), Arc::as_ptr(store))
    }

    /// Whether it is one of those of the store with this number.
    pub(crate) fn is_of_store(&self, number: u64) -> bool {
        self.store_number == number
    }

    /// Whether no version is changed any more.
    pub(crate) fn is_fixed(&self) -> bool {
        self.is_fixed.load(Ordering::Acquire)
    }

    /// Whether readers alone keep it in memory, once its writers have ended. The active generation of a store stays in
    /// any case.
    pub(crate) fn is_sealed_in_memory(&self) -> bool {
        self.is_sealed.load(Ordering::Acquire) && !self.is_fixed()
    }

    /// Charges its bytes to `memory`, unless it is charged already.
    pub(crate) fn is_of(&self, memory: &Arc<VersionMemory>) {
        self.memory.get_or_init(|| Arc::clone(memory));
    }

    pub(super) fn memory(&self) -> Option<&Arc<VersionMemory>> {
        self.memory.get()
    }

    pub(super) fn newest_writer(&self) -> Stamp {
        Stamp(self.newest_writer.load(Ordering::Relaxed))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Notes how the bytes of its versions change; returns whether it should take no more.
    pub(super) fn add_bytes(&self, Bytes { added, freed }: Bytes) -> bool {
        let memory = self.memory.get();
        if added >= freed {
            let more = (added - freed) as u64;
            if let Some(memory) = memory.filter(|_| more > 0) {
                memory.recent.fetch_add(more, Ordering::Relaxed);
                memory.account.overdraw(more);
            }
            // Last: what another thread frees of it has been taken.
            self.bytes.fetch_add(more, Ordering::Relaxed);
        } else {
            let less = (freed - added) as u64;
            let take = |bytes: u64| Some(bytes.saturating_sub(less));
            let before = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).unwrap_or_default();
            if let Some(memory) = memory {
                memory.recent.fetch_sub(less.min(before), Ordering::Relaxed);
                memory.account.shrink(less.min(before));
            }
        }
        self.is_full()
    }

    /// Whether it should take no more versions. The first generations are small: all of them is looked through by
    /// statements that search for what others are changing.
    fn is_full(&self) -> bool {
        let bytes_max = match self.memory.get() {
            Some(memory) => GENERATION_BYTES.max(memory.recent() / GENERATIONS).min(memory.generation_bytes),
            None => GENERATION_BYTES,
        };
        self.bytes() >= bytes_max
    }

    /// Notes that a version of `writer` is about to be put.
    pub(super) fn has_version_of(&self, writer: Stamp) {
        if self.newest_writer.load(Ordering::Relaxed) < writer.0 {
            self.newest_writer.fetch_max(writer.0, Ordering::Relaxed);
        }
    }

    /// Whether a snapshot needs its versions: it may not see all writers, or some are its own. Of other writers that it
    /// sees it needs no version, nor any older one of the same rows: it sees the writers before them, too.
    pub(super) fn may_matter(self: &Arc<Generation>, snapshot: &Snapshot) -> bool {
        if self.is_ended_before(snapshot) {
            return false;
        }
        self.newest_writer() >= snapshot.horizon() || snapshot.has_own(std::slice::from_ref(self))
    }

    /// Whether all its writers had ended when a snapshot was taken. Versions that come to it later are of changes
    /// that are not in the copy of the page for which a reader looks here.
    pub(super) fn is_ended_before(&self, snapshot: &Snapshot) -> bool {
        // The writers first: one that ends in between has a later end than the snapshot's moment.
        self.writers.load(Ordering::Acquire) == 0 && self.last_end.load(Ordering::Relaxed) < snapshot.view().next
    }

    /// Returns all its bytes.
    fn free_bytes(&self) {
        let bytes = self.bytes.swap(0, Ordering::Relaxed);
        if let Some(memory) = self.memory.get().filter(|_| bytes > 0) {
            memory.recent.fetch_sub(bytes, Ordering::Relaxed);
            memory.account.shrink(bytes);
        }
    }

    /// Notes that `writer` has undone all of its changes.
    pub(crate) fn undone_by(&self, writer: Stamp) {
        self.undone.write().push(writer);
        self.has_undone.store(true, Ordering::Release);
    }

    /// Shows the transactions that have undone all of their changes.
    pub(super) fn each_undone(&self, show: impl FnMut(Stamp)) {
        if self.has_undone.load(Ordering::Acquire) {
            self.undone.read().iter().copied().for_each(show);
        }
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.free_bytes();
        if let Some(memory) = self.memory.get().filter(|_| *self.is_kept.get_mut()) {
            memory.kept.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A generation in memory. A copy has it, too, whatever becomes of the store's.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    pub(super) generation: Arc<Generation>,
    pub(super) tables: Arc<Tables>,
}

impl Recent {
    fn new(store: Weak<VersionStore>, store_number: u64) -> Recent {
        Recent { generation: Generation::new(store, store_number), tables: Arc::new(Tables::new()) }
    }

    /// What its versions are needed for.
    pub(super) fn readers(&self, transactions: &Transactions) -> Readers {
        let mut readers = transactions.readers();
        self.generation.each_undone(|writer| readers.undone.push(writer));
        readers
    }
}

/// The generations of a store.
#[derive(Debug)]
pub(super) struct Generations {
    store: Weak<VersionStore>,
    store_number: u64,
    /// Those on disk, older than all others; the oldest first.
    pub(super) runs: Arc<Vec<Arc<Spilled>>>,
    /// Those in memory, the oldest first, the active one last.
    pub(super) recent: Vec<Recent>,
}

impl Generations {
    pub(super) fn new(store: Weak<VersionStore>, store_number: u64) -> Generations {
        let recent = vec![Recent::new(store.clone(), store_number)];
        Generations { store, store_number, runs: Arc::default(), recent }
    }

    /// What versions of the active generation are needed for.
    pub(super) fn readers(&self, transactions: &Transactions) -> Readers {
        self.active().readers(transactions)
    }

    /// The generation to which new versions go.
    pub(super) fn active(&self) -> &Recent {
        self.recent.last().expect("there is an active generation")
    }

    /// The active generation, if there is no other one and nothing in it is undone by a whole rollback.
    pub(super) fn only(&self) -> Option<&Recent> {
        let active = self.active();
        let is_alone = self.recent.len() == 1 && self.runs.is_empty();
        (is_alone && !active.generation.has_undone.load(Ordering::Acquire)).then_some(active)
    }

    /// Those in memory with versions that a snapshot may need, the oldest first.
    pub(super) fn that_matter(&self, snapshot: &Snapshot) -> impl Iterator<Item = &Recent> {
        self.recent.iter().filter(|recent| recent.generation.may_matter(snapshot))
    }

    /// Those whose versions may be changed, the newest first.
    pub(super) fn changeable(&self) -> impl Iterator<Item = &Tables> {
        let newest_first = self.recent.iter().rev();
        newest_first.take_while(|recent| !recent.generation.is_fixed()).map(|recent| &*recent.tables)
    }

    /// Whether there are generations whose versions cannot be changed any more.
    pub(super) fn has_fixed(&self) -> bool {
        !self.runs.is_empty() || self.recent[0].generation.is_fixed()
    }

    /// Whether one of these may have versions of a key.
    pub(super) fn may_have_fixed(&self, tree: TreeName, key: &[u8]) -> bool {
        if !self.has_fixed() {
            return false;
        }
        let mut place = Vec::new();
        coding::put_key(&mut place, tree, key);
        let behind: Vec<u8> = place.iter().copied().chain([0]).collect();
        let fixed = self.recent.iter().take_while(|recent| recent.generation.is_fixed());
        self.runs.iter().any(|spilled| spilled.run.may_have(&place, Some(&behind)))
            || fixed.into_iter().any(|recent| recent.tables.with_key(tree, key, |_| ()).is_some())
    }

    /// Begins a new generation if the active one is full. To be called by one of its writers, which has not ended.
    pub(super) fn seal_if_full(&mut self) {
        if self.active().generation.is_full() {
            self.seal();
        }
    }

    fn seal(&mut self) {
        self.active().generation.is_sealed.store(true, Ordering::Release);
        self.recent.push(Recent::new(self.store.clone(), self.store_number));
    }

    /// Makes the oldest generation in memory one that is not changed any more, and returns it; `None` if there is
    /// nothing in it.
    pub(super) fn freeze_oldest(&mut self) -> Option<(Arc<Generation>, Arc<Tables>)> {
        if self.recent.len() == 1 {
            if self.active().generation.bytes() == 0 {
                return None;
            }
            self.seal();
        }
        let Recent { generation, tables } = &self.recent[0];
        generation.is_fixed.store(true, Ordering::Release);
        Some((Arc::clone(generation), Arc::clone(tables)))
    }

    /// Replaces the oldest generation in memory by its copy on disk, unless it is gone. Returns what is to be dropped.
    pub(super) fn replace_by_run(&mut self, generation: &Arc<Generation>, run: Run) -> impl Sized + use<> {
        if !Arc::ptr_eq(&self.recent[0].generation, generation) {
            return (Some(run), None);
        }
        let Recent { generation, tables } = self.recent.remove(0);
        generation.free_bytes();
        let newest_writer = generation.newest_writer();
        Arc::make_mut(&mut self.runs).push(Arc::new(Spilled::new(vec![generation], newest_writer, run, 0)));
        (None, Some(tables))
    }

    /// Removes a generation. Returns what is to be dropped.
    pub(super) fn remove(&mut self, generation: &Arc<Generation>) -> impl Sized + use<> {
        let is_it = |other: &Arc<Generation>| Arc::ptr_eq(other, generation);
        if let Some(at) = self.recent.iter().position(|recent| is_it(&recent.generation)) {
            if at + 1 < self.recent.len() {
                return (Some(self.recent.remove(at)), None);
            }
            let active = self.recent.last_mut().expect("found");
            if active.generation.bytes() <= KEPT_MAPS_BYTES
                && !active.generation.has_undone.load(Ordering::Acquire)
                && let Some(tables) = Arc::get_mut(&mut active.tables)
            {
                tables.clear();
                active.generation.free_bytes();
                return (None, None);
            }
            return (Some(std::mem::replace(active, Recent::new(self.store.clone(), self.store_number))), None);
        }
        let found = self.runs.iter().enumerate().find_map(|(at, run)| Some((at, run.remove(generation)?)));
        let at = found.and_then(|(at, is_last)| is_last.then_some(at));
        (None, at.map(|at| Arc::make_mut(&mut self.runs).remove(at)))
    }

    /// Replaces runs by the one to which they were merged, unless all of them are gone. Returns what is to be dropped.
    /// `combine` says which generations stand for those that are still needed.
    pub(super) fn replace_runs(
        &mut self,
        merged: &[Arc<Spilled>],
        run: Run,
        combine: impl FnOnce(Vec<Arc<Generation>>) -> Vec<Arc<Generation>>,
    ) -> (Option<Run>, Vec<Arc<Spilled>>) {
        let is_merged = |run: &Arc<Spilled>| merged.iter().any(|one| Arc::ptr_eq(one, run));
        let Some(at) = self.runs.iter().position(is_merged) else { return (Some(run), Vec::new()) };
        let runs = Arc::make_mut(&mut self.runs);
        let gone: Vec<Arc<Spilled>> = runs.extract_if(.., |run| is_merged(run)).collect();
        let generations = combine(gone.iter().flat_map(|run| run.generations()).collect());
        let newest_writer = gone.iter().map(|run| run.newest_writer()).max().unwrap_or_default();
        let level = gone.iter().map(|run| run.level()).max().unwrap_or_default().saturating_add(1);
        runs.insert(at, Arc::new(Spilled::new(generations, newest_writer, run, level)));
        (None, gone)
    }

    /// Whether there are no versions.
    pub(super) fn is_unused(&self) -> bool {
        self.runs.is_empty() && self.recent.len() == 1 && self.active().generation.bytes() == 0
    }
}
