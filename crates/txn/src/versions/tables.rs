//! The versions of a generation in memory.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};

use hobt_base::HobtId;
use hobt_instruments::rank::{self, Rank, Ranked, RankedGuard};
use hobt_instruments::schedule::{Mutex, MutexGuard, RwLock};

use super::coding;
use super::facts::{HeapPage, TreeName};
use super::history::History;
use super::keys::{VersionKey, VersionsOfKey};
use super::pages::PageVersions;

/// Parts of the heaps' versions, each with its own lock; a power of two.
const SHARDS: usize = 64;
/// The number of parts of a tree's versions, each with its own lock: transactions that change different keys mostly use
/// different parts.
const PARTS: usize = 16;
/// With more trees than this, trees without versions are forgotten.
const TREES: usize = 256;

/// The versions of each page.
type Pages = HashMap<HeapPage, PageVersions>;

/// The versions of each key.
type Part = BTreeMap<VersionKey, VersionsOfKey>;

/// The versions of a tree, in parts chosen by a hash of the key.
#[derive(Debug, Default)]
struct Tree([Mutex<Part>; PARTS]);

impl Tree {
    fn part(&self, key: &[u8]) -> RankedGuard<MutexGuard<'_, Part>> {
        let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        let mixed = key.iter().fold(0xCBF2_9CE4_8422_2325, mix);
        // The high bits are the ones that depend on all bytes.
        self.lock(usize::try_from(mixed >> 40).expect("24 bits") % PARTS)
    }

    fn lock(&self, part: usize) -> RankedGuard<MutexGuard<'_, Part>> {
        rank::wait_for(Rank::Versions, || self.0[part].lock())
    }
}

/// The keys from one key on and below another, or from one key on.
pub(super) struct KeysBetween(VersionKey, Option<VersionKey>);

impl KeysBetween {
    /// `None` if the range is empty.
    pub(super) fn new(low: &[u8], high: Option<&[u8]>) -> Option<KeysBetween> {
        high.is_none_or(|high| low < high).then(|| KeysBetween(VersionKey::new(low), high.map(VersionKey::new)))
    }

    fn bounds(&self) -> (Bound<&VersionKey>, Bound<&VersionKey>) {
        (Bound::Included(&self.0), self.1.as_ref().map_or(Bound::Unbounded, Bound::Excluded))
    }
}

/// The versions of a generation, by page and by key.
#[derive(Debug)]
pub(super) struct Tables {
    shards: Box<[Ranked<Mutex<Pages>>]>,
    hasher: RandomState,
    trees: Ranked<RwLock<HashMap<TreeName, Tree>>>,
    /// Whether versions of keys refer to the values of ghosts. Set while the leaf is held.
    has_ghosts: AtomicBool,
}

impl Tables {
    pub(super) fn new() -> Tables {
        let shards = (0..SHARDS).map(|_| Ranked::new(Rank::Versions, Mutex::default())).collect();
        let trees = Ranked::new(Rank::VersionTrees, RwLock::default());
        Tables { shards, hasher: RandomState::new(), trees, has_ghosts: AtomicBool::new(false) }
    }

    fn shard(&self, page: HeapPage) -> RankedGuard<MutexGuard<'_, Pages>> {
        let hash = self.hasher.hash_one(page);
        self.shards[usize::try_from(hash % SHARDS as u64).expect("fewer than a word counts")].lock()
    }

    /// Changes the versions of a page, also if there are none yet.
    pub(super) fn change_page<R>(&self, page: HeapPage, change: impl FnOnce(&mut PageVersions) -> R) -> R {
        change(self.shard(page).entry(page).or_default())
    }

    /// Shows the versions of a page if there are any.
    pub(super) fn with_page<R>(&self, page: HeapPage, show: impl FnOnce(&mut PageVersions) -> R) -> Option<R> {
        self.shard(page).get_mut(&page).map(show)
    }

    /// The pages of a heap that have versions.
    pub(super) fn pages_of(&self, hobt: HobtId) -> Vec<HeapPage> {
        let of_shard =
            |shard: &Ranked<Mutex<Pages>>| shard.lock().keys().filter(|page| page.hobt == hobt).copied().collect();
        self.shards.iter().flat_map(|shard| -> Vec<HeapPage> { of_shard(shard) }).collect()
    }

    /// Notes that a version of a key is about to be put that refers to the values of a ghost.
    pub(super) fn note_ghost(&self) {
        if !self.has_ghosts() {
            self.has_ghosts.store(true, Ordering::Release);
        }
    }

    /// Whether versions of keys may refer to the values of ghosts.
    pub(super) fn has_ghosts(&self) -> bool {
        self.has_ghosts.load(Ordering::Acquire)
    }

    /// Changes the versions of a key, also if there are none yet.
    pub(super) fn change_key<R>(&self, tree: TreeName, key: &[u8], change: impl FnOnce(&mut VersionsOfKey) -> R) -> R {
        {
            let trees = self.trees.read();
            if let Some(tree) = trees.get(&tree) {
                return change(tree.part(key).entry(VersionKey::new(key)).or_default());
            }
        }
        let mut trees = self.trees.write();
        let tree = trees.entry(tree).or_default();
        change(tree.part(key).entry(VersionKey::new(key)).or_default())
    }

    /// Shows the versions of a key if there are any.
    pub(super) fn with_key<R>(
        &self,
        tree: TreeName,
        key: &[u8],
        show: impl FnOnce(&mut VersionsOfKey) -> R,
    ) -> Option<R> {
        let trees = self.trees.read();
        let mut part = trees.get(&tree)?.part(key);
        part.get_mut(&VersionKey::new(key)).map(show)
    }

    /// Shows the keys of a range with their versions, in no order, until `show` returns `false`.
    pub(super) fn each_key(
        &self,
        tree: TreeName,
        range: &KeysBetween,
        mut show: impl FnMut(&VersionKey, &VersionsOfKey) -> bool,
    ) {
        let trees = self.trees.read();
        let Some(tree) = trees.get(&tree) else { return };
        for part in 0..PARTS {
            if !tree.lock(part).range(range.bounds()).all(|(key, versions)| show(key, versions)) {
                return;
            }
        }
    }

    /// The number of versions and the bytes of memory that they take, without the spare capacity of the maps. Reads all
    /// of them.
    pub(super) fn extent(&self) -> (usize, usize) {
        let add = |(count, bytes): (usize, usize), (more, added)| (count + more, bytes + added);
        let of_shard = |shard: &Ranked<Mutex<Pages>>| {
            let shard = shard.lock();
            shard.values().map(|versions| (versions.len(), versions.bytes())).fold((0, 0), add)
        };
        let of_key = |(key, versions): (&VersionKey, &VersionsOfKey)| {
            let elsewhere = if key.0.spilled() { key.0.len() } else { 0 };
            let own = size_of::<VersionKey>() + size_of::<VersionsOfKey>();
            (versions.len(), elsewhere + own + versions.bytes())
        };
        let of_tree = |tree: &Tree| {
            let of_part = |part| tree.lock(part).iter().map(of_key).fold((0, 0), add);
            (0..PARTS).map(of_part).fold((0, 0), add)
        };
        let of_heaps = self.shards.iter().map(of_shard).fold((0, 0), add);
        self.trees.read().values().map(of_tree).fold(of_heaps, add)
    }

    /// Removes all versions and keeps the maps, for a generation of few versions.
    pub(super) fn clear(&mut self) {
        *self.has_ghosts.get_mut() = false;
        for shard in &mut self.shards {
            let pages = shard.get_mut().get_mut();
            if !pages.is_empty() {
                pages.clear();
            }
        }
        let trees = self.trees.get_mut().get_mut();
        if trees.len() >= TREES {
            trees.clear();
        }
        for part in trees.values_mut().flat_map(|tree| &mut tree.0) {
            if !part.get_mut().is_empty() {
                part.get_mut().clear();
            }
        }
    }

    /// Shows all versions as bytes: each page's and key's place, in no order, and what it has.
    pub(super) fn encode(&self, mut show: impl FnMut(&[u8], &[u8])) {
        let (mut place, mut versions) = (Vec::new(), Vec::new());
        for shard in &self.shards {
            for (page, of_page) in shard.lock().iter() {
                place.clear();
                versions.clear();
                coding::put_page(&mut place, *page);
                of_page.encode(&mut versions);
                show(&place, &versions);
            }
        }
        for (name, tree) in self.trees.read().iter() {
            for part in 0..PARTS {
                for (key, of_key) in tree.lock(part).iter() {
                    place.clear();
                    versions.clear();
                    coding::put_key(&mut place, *name, &key.0);
                    of_key.encode(&mut versions);
                    show(&place, &versions);
                }
            }
        }
    }
}
