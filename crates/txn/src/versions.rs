//! Earlier versions of rows, for readers that do not see a transaction's changes.
//!
//! Versions are kept off the page, and only until the process ends: after a restart no reader needs them. A version is
//! put while the page is held exclusively, so a reader with a whole copy of the page finds every version that it needs
//! here. A version of a change that is not in that copy yet has no effect on it. Versions of a heap's rows are kept by
//! heap, page and slot (`pages`), those of a B+tree's rows by tree and key (`keys`).
//!
//! ```text
//!   runs on disk           frozen, being written     sealed      active
//!   [ 1 ] [ 2 ] [ 3 ]      [ 4 ]                     [ 5 ]       [ 6 ]  <- new versions
//!   oldest                                                       newest
//! ```
//!
//! A store is a sequence of generations: the versions that were put in one period, of whatever transactions. New ones
//! go to the active generation. A generation goes as a whole when all its writers have ended and every snapshot sees
//! them. If there is too little memory, the oldest are written to disk, sorted (`run`), and never changed after that:
//! what is undone later is noted in the active generation.
//!
//! A version belongs to one heap or tree, and to the rows that were in it when it was put. Versions outlive rows:
//! another heap may have the page by the time that they are read ([`HeapPage`]). A truncation removes rows without
//! versions; its undo restores the rows and the versions from before it ([`VersionStore::set_keys_aside`]).
//! `docs/design/0042-versions-beyond-memory.md`.

mod coding;
mod facts;
mod generation;
mod history;
mod keys;
mod merge;
mod pages;
mod place;
mod run;
mod space;
mod tables;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use hobt_base::{HobtId, PageId, SlotId, Stamp};
use hobt_instruments::planted::{self, Bug};
use hobt_instruments::rank::{Rank, Ranked};
use hobt_instruments::schedule::{Mutex, RwLock};
use hobt_page::RowImage;

use crate::{RebuiltName, Running, Snapshot, Transactions};
use facts::TreeName;
pub use facts::{Before, HeapPage, KeyState};
use generation::{Bytes, Generations, Recent};
pub(crate) use generation::{Generation, VersionMemory};
use history::History;
use keys::VersionsOfKey;
use merge::Spilled;
use pages::{PageVersions, Version};
use place::{KeyAt, Place};
use run::RunWriter;
pub use space::{SpaceError, VersionError, VersionFile, VersionSpace};
use tables::{KeysBetween, Tables};

/// Estimated bytes of a version of a heap's row beside the row's values: its entry in a list that grows by doubling.
const VERSION_BYTES: usize = 72;
/// Estimated bytes of a version of a key beside the key and the row's values: an entry in the map.
const KEY_VERSION_BYTES: usize = 112;
/// Estimated bytes of a note about a version on disk, beside the key.
const LATER_BYTES: usize = 250;
/// Versions of a page with more than this are looked through for those that no reader needs.
const PRUNED_FROM: usize = 512;
/// Versions of a key with at least this many more than one are looked through, too.
const KEY_PRUNED_FROM: usize = 16;

type Result<T> = std::result::Result<T, VersionError>;

/// What a store holds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct VersionExtent {
    /// Versions of rows in memory.
    pub versions: usize,
    /// The bytes of memory that they take, without the spare capacity of the maps.
    pub memory_bytes: usize,
    /// Pages and keys that have versions on disk.
    pub disk_entries: u64,
    /// The bytes of the files.
    pub disk_bytes: u64,
}

/// The versions of one database's rows.
#[derive(Debug)]
pub struct VersionStore {
    /// Tells the stores of the process apart.
    number: u64,
    generations: Ranked<RwLock<Generations>>,
    /// The transactions of its instance, from the first version on.
    transactions: OnceLock<Weak<Transactions>>,
    truncations: Truncations,
    /// The transactions that are being undone whole: the versions that they undo are not marked one by one.
    undoing: Undoing,
    /// Transactions of whose versions on disk some may be undone: the notes are in newer generations. Until the store
    /// is unused.
    noted_later: Mutex<BTreeSet<u64>>,
    /// A thread merges runs.
    is_merging: AtomicBool,
}

/// The transactions that are being undone whole.
#[derive(Debug, Default)]
struct Undoing {
    count: AtomicUsize,
    stamps: RwLock<Vec<Stamp>>,
}

impl Undoing {
    fn has(&self, writer: Stamp) -> bool {
        self.count.load(Ordering::Acquire) > 0 && self.stamps.read().contains(&writer)
    }
}

/// The truncations of trees, while there may be versions from before.
#[derive(Debug)]
struct Truncations {
    /// The number of entries in `known`.
    count: AtomicUsize,
    last: AtomicU64,
    /// The number of each truncation that is not committed, the last one at the end. Before them, the number of the
    /// last committed one, or 0.
    known: Ranked<RwLock<HashMap<HobtId, Vec<u64>>>>,
}

impl Default for Truncations {
    fn default() -> Truncations {
        let known = Ranked::new(Rank::Truncations, RwLock::default());
        Truncations { count: AtomicUsize::new(0), last: AtomicU64::new(0), known }
    }
}

impl Truncations {
    /// The name of a tree now.
    fn name(&self, hobt: HobtId) -> TreeName {
        if self.count.load(Ordering::Acquire) == 0 {
            return TreeName { hobt, truncations: 0 };
        }
        let known = self.known.read();
        let truncations = known.get(&hobt).and_then(|numbers| numbers.last().copied()).unwrap_or(0);
        TreeName { hobt, truncations }
    }

    fn change(&self, hobt: HobtId, change: impl FnOnce(&mut Vec<u64>)) {
        let mut known = self.known.write();
        let numbers = known.entry(hobt).or_insert_with(|| vec![0]);
        change(numbers);
        if *numbers == [0] {
            known.remove(&hobt);
        }
        self.count.store(known.len(), Ordering::Release);
    }

    /// Forgets the committed truncations. To be called when there are no versions.
    fn forget(&self) {
        if self.count.load(Ordering::Acquire) > 0 {
            let mut known = self.known.write();
            // What an open transaction has truncated may come back.
            known.retain(|_, numbers| numbers.len() > 1);
            self.count.store(known.len(), Ordering::Release);
        }
    }
}

/// The places of the keys of a tree from `low` on and below `high`: the first, and the one behind the last.
fn places_between(name: TreeName, low: &[u8], high: Option<&[u8]>) -> (Vec<u8>, Vec<u8>) {
    let (mut first, mut end) = (Vec::new(), Vec::new());
    coding::put_key(&mut first, name, low);
    match high {
        Some(high) => coding::put_key(&mut end, name, high),
        None => end = coding::behind_tree(name),
    }
    (first, end)
}

impl VersionStore {
    /// A store without versions.
    pub fn new() -> Arc<VersionStore> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        Arc::new_cyclic(|store| VersionStore {
            number,
            generations: Ranked::new(Rank::VersionGenerations, RwLock::new(Generations::new(store.clone(), number))),
            transactions: OnceLock::new(),
            truncations: Truncations::default(),
            undoing: Undoing::default(),
            noted_later: Mutex::default(),
            is_merging: AtomicBool::new(false),
        })
    }

    /// Names a page of its database among the pages that snapshots keep.
    pub fn name_of_page(&self, hobt: HobtId, page: PageId) -> RebuiltName {
        RebuiltName { store: self.number, hobt, page }
    }

    fn transactions(&self) -> Option<Arc<Transactions>> {
        self.transactions.get()?.upgrade()
    }

    /// Puts versions of a writer into the active generation, where they stay until `noter`'s are not needed any more.
    /// `put` returns how their bytes change.
    fn put_with(&self, noter: &Running, writer: Stamp, put: impl FnOnce(&Generations, &Tables) -> Bytes) {
        self.transactions.get_or_init(|| Arc::downgrade(noter.transactions()));
        let is_full = {
            let generations = self.generations.read();
            let active = generations.active();
            noter.note(&active.generation);
            active.generation.has_version_of(writer);
            let bytes = put(&generations, &active.tables);
            active.generation.add_bytes(bytes)
        };
        if is_full {
            self.generations.write().seal_if_full();
        }
    }

    /// Notes in the active generation what has become of a version of `writer` that is on disk. Does nothing if the
    /// writer has none there. Returns whether the generation should take no more.
    fn note_later(
        &self,
        generations: &Generations,
        writer: Stamp,
        key_bytes: usize,
        put: impl FnOnce(&Tables),
    ) -> bool {
        let active = generations.active();
        if generations.has_fixed()
            && let Some(transactions) = self.transactions()
            && transactions.note_fixed(writer, &active.generation)
        {
            self.noted_later.lock().insert(writer.0);
            active.generation.has_version_of(writer);
            put(&active.tables);
            return active.generation.add_bytes(Bytes { added: LATER_BYTES + key_bytes, freed: 0 });
        }
        false
    }

    /// Makes room for what is noted of versions on disk while changes are undone. To be called before a page is
    /// latched. An undo goes on without room, too. Blocks.
    pub fn make_room_to_undo(&self) {
        if let Some(transactions) = self.transactions() {
            let _goes_on = transactions.make_version_room();
        }
    }

    /// Puts the state of a row before a change. The page is held exclusively.
    pub(crate) fn put(&self, writer: &Running, page: HeapPage, slot: SlotId, before: Before) {
        self.put_with(writer, writer.stamp(), |generations, active| {
            let bytes = VERSION_BYTES + before.row_bytes();
            let version = Version::new(slot, 1, writer.stamp(), before);
            active.change_page(page, |versions| {
                let added = if versions.put(version) { bytes } else { 0 };
                Bytes {
                    added,
                    freed: versions.prune_if_long(PRUNED_FROM, || generations.readers(writer.transactions())),
                }
            })
        });
    }

    /// Puts a version for the rows of a page that `loader` has built whole, before `changer` is the first to change
    /// one of them: until now the page's stamp alone has said which readers see it. Puts none if every reader sees the
    /// load. The page is held exclusively.
    pub(crate) fn put_loaded(&self, changer: &Running, loader: Stamp, page: HeapPage, rows: u16) {
        if rows == 0 || changer.transactions().is_seen_by_all(loader) {
            return;
        }
        self.put_with(changer, loader, |_, active| {
            let loaded = Version::new(SlotId(0), rows, loader, Before::Absent);
            active.change_page(page, |versions| versions.put(loaded));
            Bytes { added: VERSION_BYTES, freed: 0 }
        });
    }

    /// A key of a tree as the tree is named now. To be called while the generations are held: without versions, names
    /// change.
    fn key_at<'k>(&self, hobt: HobtId, key: &'k [u8]) -> KeyAt<'k> {
        KeyAt { tree: self.truncations.name(hobt), key }
    }

    /// Shows the versions of a page or key, those of all generations as one. `place` is called while these are held.
    fn with<P: Place, R: Default>(
        &self,
        place: impl FnOnce() -> P,
        snapshot: &Snapshot,
        show: impl FnOnce(&P::History) -> R,
    ) -> Result<R> {
        let (place, recent, runs) = {
            let generations = self.generations.read();
            let place = place();
            if let Some(only) = generations.only() {
                return snapshot.checked(place.show(&only.tables, |versions| show(versions)).unwrap_or_default());
            }
            let mut recent = P::History::default();
            for Recent { generation, tables } in generations.that_matter(snapshot) {
                if let Some(mut versions) = place.show(tables, |versions| versions.clone()) {
                    generation.each_undone(|writer| versions.undone_by(writer));
                    recent.append(versions);
                }
            }
            (place, recent, Arc::clone(&generations.runs))
        };
        if runs.is_empty() {
            return snapshot.checked(show(&recent));
        }
        let mut bytes = Vec::new();
        place.put(&mut bytes);
        let mut all = P::History::default();
        for spilled in runs.iter().filter(|spilled| spilled.may_matter(snapshot)) {
            if let Some(found) = spilled.run.find(&bytes)? {
                let mut versions = P::History::decode(&found)?;
                spilled.each_undone(|writer| versions.undone_by(writer));
                all.append(versions);
            }
        }
        all.append(recent);
        snapshot.checked(show(&all))
    }

    /// Changes the last version of `writer` at a place: by `change`, which returns `false` if it is not there, in a
    /// generation in memory, or by `note` in the active one if it is on disk. `place` is called while the generations
    /// are held.
    fn change_last<P: Place>(
        &self,
        place: impl FnOnce() -> P,
        writer: Stamp,
        change: impl Fn(&mut P::History) -> bool,
        note: impl FnOnce(&mut P::History),
    ) {
        let is_full = {
            let generations = self.generations.read();
            let place = place();
            !generations.changeable().any(|tables| place.show(tables, &change) == Some(true))
                && self.note_later(&generations, writer, place.bytes(), |active| place.change(active, note))
        };
        if is_full {
            self.generations.write().seal_if_full();
        }
    }

    /// The rows of a page whose state in a snapshot differs from the current one, each once.
    ///
    /// # Errors
    /// As for all that look for versions: they are on disk and cannot be read, or were given up.
    pub fn changes(&self, page: HeapPage, snapshot: &Snapshot) -> Result<Vec<(SlotId, Before)>> {
        self.with(|| page, snapshot, |versions| versions.changes(snapshot.view()))
    }

    /// The state of a heap row before the changes that a snapshot does not see; `None` if it sees the current row.
    ///
    /// # Errors
    /// [`VersionError`].
    pub fn change(&self, page: HeapPage, slot: SlotId, snapshot: &Snapshot) -> Result<Option<Before>> {
        self.with(|| page, snapshot, |versions| versions.change(slot, snapshot.view()))
    }

    /// Whether the current state of a row was written by a transaction that `snapshot` does not see.
    ///
    /// # Errors
    /// [`VersionError`].
    pub fn is_changed(&self, page: HeapPage, slot: SlotId, snapshot: &Snapshot) -> Result<bool> {
        Ok(self.changed_by(page, slot, snapshot)?.is_some())
    }

    /// The transaction that has written the current state of a row, if `snapshot` does not see it.
    ///
    /// # Errors
    /// [`VersionError`].
    pub fn changed_by(&self, page: HeapPage, slot: SlotId, snapshot: &Snapshot) -> Result<Option<Stamp>> {
        self.with(|| page, snapshot, |versions| versions.changed_by(slot, snapshot.view()))
    }

    /// The new RID of a row, if a transaction that `snapshot` does not see has changed and moved it.
    ///
    /// # Errors
    /// [`VersionError`].
    pub fn moved_to(&self, page: HeapPage, slot: SlotId, snapshot: &Snapshot) -> Result<Option<(PageId, SlotId)>> {
        self.with(|| page, snapshot, |versions| versions.moved_to(slot, snapshot.view()))
    }

    /// Notes that `writer` has undone its last change of a row that was not undone yet. The page is held exclusively.
    pub fn undone(&self, writer: Stamp, page: HeapPage, slot: SlotId) {
        if self.undoing.has(writer) {
            return;
        }
        let note = |versions: &mut PageVersions| versions.undone_later(slot, writer);
        self.change_last(|| page, writer, |versions| versions.undone(slot, writer), note);
    }

    /// Notes that `writer`, which has deleted a row, has put it at another RID with new values.
    pub fn moved(&self, writer: Stamp, (page, slot): (HeapPage, SlotId), to: (PageId, SlotId)) {
        let note = |versions: &mut PageVersions| versions.moved_later(slot, writer, to);
        self.change_last(|| page, writer, |versions| versions.moved(slot, writer, to), note);
    }

    /// Shows the pages of a heap that may have changes that `snapshot` does not see, some of them more than once, until
    /// `show` returns `false`.
    fn each_page(
        &self,
        hobt: HobtId,
        snapshot: &Snapshot,
        mut show: impl FnMut(HeapPage) -> Result<bool>,
    ) -> Result<()> {
        let (recent, runs) = {
            let generations = self.generations.read();
            let in_memory: Vec<Recent> = generations.that_matter(snapshot).cloned().collect();
            (in_memory, Arc::clone(&generations.runs))
        };
        for page in recent.iter().flat_map(|recent| recent.tables.pages_of(hobt)) {
            if !show(page)? {
                return Ok(());
            }
        }
        let (mut low, mut high) = (Vec::new(), Vec::new());
        coding::put_heap(&mut low, hobt);
        coding::put_heap(&mut high, HobtId(hobt.0.saturating_add(1)));
        let mut goes_on = true;
        for spilled in runs.iter().filter(|spilled| spilled.may_matter(snapshot)) {
            spilled.run.each(&low, Some(&high), |place, _| {
                if let Some(page) = coding::page_of(place) {
                    goes_on = show(HeapPage { hobt, page })?;
                }
                Ok(goes_on)
            })?;
            if !goes_on {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether a transaction that `snapshot` does not see has changed a row of one of the wanted pages of a heap, and
    /// has not undone it.
    ///
    /// # Errors
    /// [`VersionError`].
    pub fn has_unseen_rows(
        &self,
        hobt: HobtId,
        snapshot: &Snapshot,
        is_wanted: &dyn Fn(PageId) -> bool,
    ) -> Result<bool> {
        let mut has_any = false;
        self.each_page(hobt, snapshot, |page| {
            has_any = is_wanted(page.page)
                && self.with(|| page, snapshot, |versions| versions.unseen(snapshot.view()).next().is_some())?;
            Ok(!has_any)
        })?;
        snapshot.checked(has_any)
    }

    /// The RIDs of the heap's rows on wanted pages that a transaction invisible to `snapshot` has changed, inserted or
    /// deleted, without those whose change was undone. With `inserts_only`, only the inserted rows. Reads all pages
    /// that have versions.
    ///
    /// # Errors
    /// [`VersionError`].
    pub fn unseen_rows(
        &self,
        hobt: HobtId,
        snapshot: &Snapshot,
        inserts_only: bool,
        is_wanted: &dyn Fn(PageId) -> bool,
    ) -> Result<Vec<(PageId, SlotId)>> {
        let mut pages = Vec::new();
        self.each_page(hobt, snapshot, |page| {
            pages.extend(is_wanted(page.page).then_some(page));
            Ok(true)
        })?;
        pages.sort_unstable();
        pages.dedup();
        let mut found = Vec::new();
        for page in pages {
            found.extend(self.with(
                || page,
                snapshot,
                |versions| {
                    let unseen = versions.unseen(snapshot.view());
                    let wanted = unseen.filter(|version| !inserts_only || version.before == Before::Absent);
                    wanted.flat_map(|version| version.slots().map(|slot| (page.page, slot))).collect::<Vec<_>>()
                },
            )?);
        }
        found.sort_unstable();
        found.dedup();
        snapshot.checked(found)
    }

    /// Puts the state at a key of a tree before `writer` changed it, unless `writer` had changed it before. The leaf is
    /// held exclusively.
    pub(crate) fn put_key(&self, writer: &Running, hobt: HobtId, key: &[u8], before: Before) {
        self.put_key_of(writer, writer.stamp(), hobt, key, before);
    }

    /// Like [`VersionStore::put_key`], for a change of `writer` whose version is needed until `noter`'s are not.
    fn put_key_of(&self, noter: &Running, writer: Stamp, hobt: HobtId, key: &[u8], before: Before) {
        self.put_with(noter, writer, |generations, active| {
            if before == Before::Present {
                active.note_ghost();
            }
            active.change_key(self.truncations.name(hobt), key, |versions| {
                let bytes = KEY_VERSION_BYTES + key.len() + before.row_bytes();
                let added = if versions.put(writer, before) { bytes } else { 0 };
                Bytes {
                    added,
                    freed: versions.prune_if_long(KEY_PRUNED_FROM, || generations.readers(noter.transactions())),
                }
            })
        });
    }

    /// Puts one version for each key of a leaf that `loader` has built whole and that not all readers see, before
    /// `changer` is the first to change the leaf. The leaf is held exclusively.
    pub(crate) fn put_loaded_keys<'k>(
        &self,
        changer: &Running,
        loader: Stamp,
        hobt: HobtId,
        keys: impl IntoIterator<Item = &'k [u8]>,
    ) {
        keys.into_iter().for_each(|key| self.put_key_of(changer, loader, hobt, key, Before::Absent));
    }

    /// Puts the state at a key of a tree before `writer` replaced `row`, the values of a row or of its ghost. Gives the
    /// values to the versions that refer to them. The leaf is held exclusively.
    pub(crate) fn put_replaced_key(&self, writer: &Running, hobt: HobtId, key: &[u8], row: RowImage, is_ghost: bool) {
        let (stamp, row) = (writer.stamp(), Arc::new(row));
        self.put_with(writer, stamp, |generations, active| {
            // While the store has a generation that it is noted in, the name stays.
            let name = self.truncations.name(hobt);
            let mut is_kept = false;
            if !planted::has(Bug::RowNotKept) {
                for tables in generations.changeable().filter(|tables| tables.has_ghosts()) {
                    is_kept |= tables.with_key(name, key, |versions| versions.keep_row(&row)) == Some(true);
                }
            }
            let is_fixed = !planted::has(Bug::RowNotKeptForDisk) && generations.may_have_fixed(name, key);
            active.change_key(name, key, |versions| {
                if is_fixed && !versions.has_values() && (is_ghost || versions.has_writer(stamp)) {
                    versions.keep_row_later(Arc::clone(&row));
                    is_kept = true;
                }
                let before = if is_ghost { Before::Absent } else { Before::Row(Arc::clone(&row)) };
                let is_put = versions.put(stamp, before);
                let own = if is_put { KEY_VERSION_BYTES + key.len() } else { 0 };
                let added = own + if is_kept || (is_put && !is_ghost) { row.memory_bytes() } else { 0 };
                Bytes {
                    added,
                    freed: versions.prune_if_long(KEY_PRUNED_FROM, || generations.readers(writer.transactions())),
                }
            })
        });
    }

    /// Shows the keys of a range with their versions, in no order, until `show` returns `false`.
    fn with_keys(
        &self,
        (hobt, low, high): (HobtId, &[u8], Option<&[u8]>),
        snapshot: &Snapshot,
        mut show: impl FnMut(&[u8], &VersionsOfKey) -> bool,
    ) -> Result<()> {
        let Some(range) = KeysBetween::new(low, high) else { return Ok(()) };
        // Without the lock, for which writers wait: a range may be a whole tree.
        let (name, in_memory, runs, is_alone) = {
            let generations = self.generations.read();
            let name = self.truncations.name(hobt);
            match generations.only() {
                Some(only) => (name, vec![only.clone()], Arc::default(), true),
                None => {
                    let in_memory = generations.that_matter(snapshot).cloned().collect();
                    (name, in_memory, Arc::clone(&generations.runs), false)
                }
            }
        };
        if is_alone {
            in_memory[0].tables.each_key(name, &range, |key, versions| show(&key.0, versions));
            return snapshot.checked(());
        }
        let mut recent: Vec<(Vec<u8>, VersionsOfKey)> = Vec::new();
        for Recent { generation, tables } in &in_memory {
            tables.each_key(name, &range, |key, versions| {
                if versions.are_seen(snapshot.view()) {
                    return true;
                }
                let mut versions = versions.clone();
                generation.each_undone(|writer| versions.undone_by(writer));
                recent.push((key.0.to_vec(), versions));
                true
            });
        }
        let (first, end) = places_between(name, low, high);
        let runs: Vec<&Arc<Spilled>> = runs.iter().filter(|spilled| spilled.may_matter(snapshot)).collect();
        // Stable: the parts of a key stay in the order of time.
        recent.sort_by(|(one, _), (other, _)| one.cmp(other));
        let (mut recent, mut from) = (recent.into_iter().peekable(), first);
        loop {
            // As far as one block of each run goes: a range may have more versions than there is memory.
            let next = runs.iter().filter_map(|spilled| spilled.run.next_block(&from)).min();
            let to = next.filter(|next| *next < end.as_slice()).unwrap_or(&end).to_vec();
            let is_last = to == end;
            let mut all: Vec<(Vec<u8>, VersionsOfKey)> = Vec::new();
            for spilled in &runs {
                spilled.run.each(&from, Some(&to), |place, bytes| {
                    let mut versions = VersionsOfKey::decode(bytes)?;
                    if !versions.are_seen(snapshot.view()) {
                        spilled.each_undone(|writer| versions.undone_by(writer));
                        all.push((place[coding::TREE_PREFIX_BYTES..].to_vec(), versions));
                    }
                    Ok(true)
                })?;
            }
            while let Some(part) =
                recent.next_if(|(key, _)| is_last || key.as_slice() < &to[coding::TREE_PREFIX_BYTES..])
            {
                all.push(part);
            }
            all.sort_by(|(one, _), (other, _)| one.cmp(other));
            let mut parts = all.into_iter().peekable();
            while let Some((key, mut versions)) = parts.next() {
                while let Some((_, newer)) = parts.next_if(|(other, _)| *other == key) {
                    versions.append(newer);
                }
                if !show(&key, &versions) {
                    return snapshot.checked(());
                }
            }
            if is_last {
                return snapshot.checked(());
            }
            from = to;
        }
    }

    /// The keys of a tree from `low` on and below `high` whose state in a snapshot differs from the current one, in
    /// order.
    ///
    /// # Errors
    /// [`VersionError`].
    pub fn key_changes(
        &self,
        hobt: HobtId,
        low: &[u8],
        high: Option<&[u8]>,
        snapshot: &Snapshot,
    ) -> Result<Vec<KeyState>> {
        self.key_states((hobt, low, high), snapshot, |_| true)
    }

    /// The states of keys of a range before the changes that a snapshot does not see, in order: of those keys whose
    /// versions are `wanted`.
    fn key_states(
        &self,
        range: (HobtId, &[u8], Option<&[u8]>),
        snapshot: &Snapshot,
        wanted: impl Fn(&VersionsOfKey) -> bool,
    ) -> Result<Vec<KeyState>> {
        let mut changed = Vec::new();
        self.with_keys(range, snapshot, |key, versions| {
            if let Some(before) = versions.before_unseen(snapshot.view()).filter(|_| wanted(versions)) {
                changed.push((Arc::from(key), before.clone()));
            }
            true
        })?;
        changed.sort_unstable_by(|(one, _): &KeyState, (other, _)| one.cmp(other));
        Ok(changed)
    }

    /// The keys of a tree from `low` on and below `high` whose current state was written by a transaction that
    /// `snapshot` does not see, in order; each with what the snapshot sees.
    ///
    /// # Errors
    /// [`VersionError`].
    pub fn unseen_keys(
        &self,
        hobt: HobtId,
        low: &[u8],
        high: Option<&[u8]>,
        snapshot: &Snapshot,
    ) -> Result<Vec<KeyState>> {
        let is_unseen = |versions: &VersionsOfKey| versions.unseen_writer(snapshot.view()).is_some();
        self.key_states((hobt, low, high), snapshot, is_unseen)
    }

    /// The state of a key of a tree in a snapshot, if it differs from the current one.
    ///
    /// # Errors
    /// [`VersionError`].
    pub fn key_change(&self, hobt: HobtId, key: &[u8], snapshot: &Snapshot) -> Result<Option<Before>> {
        self.with(|| self.key_at(hobt, key), snapshot, |versions| versions.before_unseen(snapshot.view()).cloned())
    }

    /// Whether a version of a key is needed: a snapshot does not see the current row, or its writer may undo it.
    ///
    /// # Errors
    /// [`VersionError`].
    pub fn needs_key(&self, hobt: HobtId, key: &[u8]) -> Result<bool> {
        let Some(transactions) = self.transactions() else { return Ok(false) };
        let is_needed =
            |versions: &VersionsOfKey| versions.last_writer().is_some_and(|last| !transactions.is_seen_by_all(last));
        let (at, runs) = {
            let generations = self.generations.read();
            let at = self.key_at(hobt, key);
            let mut recent = generations.recent.iter();
            if recent.any(|recent| at.show(&recent.tables, |versions| is_needed(versions)) == Some(true)) {
                return Ok(true);
            }
            (at, Arc::clone(&generations.runs))
        };
        let mut place = Vec::new();
        if !runs.is_empty() {
            at.put(&mut place);
        }
        for run in runs.iter().map(|spilled| &spilled.run) {
            if let Some(bytes) = run.find(&place)?
                && is_needed(&VersionsOfKey::decode(&bytes)?)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Notes that `writer` has undone its last change at a key that was not undone yet. The leaf is held exclusively.
    pub fn undone_key(&self, writer: Stamp, hobt: HobtId, key: &[u8]) {
        if self.undoing.has(writer) {
            return;
        }
        let note = |versions: &mut VersionsOfKey| versions.undone_later(writer);
        self.change_last(|| self.key_at(hobt, key), writer, |versions| versions.undone(writer), note);
    }

    /// Whether the current state of a key was written by a transaction that `snapshot` does not see.
    ///
    /// # Errors
    /// [`VersionError`].
    pub fn is_key_changed(&self, hobt: HobtId, key: &[u8], snapshot: &Snapshot) -> Result<bool> {
        Ok(self.key_changed_by(hobt, key, snapshot)?.is_some())
    }

    /// The transaction that has written the current state of a key, if `snapshot` does not see it.
    ///
    /// # Errors
    /// [`VersionError`].
    pub fn key_changed_by(&self, hobt: HobtId, key: &[u8], snapshot: &Snapshot) -> Result<Option<Stamp>> {
        self.with(|| self.key_at(hobt, key), snapshot, |versions| versions.unseen_writer(snapshot.view()))
    }

    /// Whether a transaction that `snapshot` does not see has changed a key of a tree from `low` on and below `high`,
    /// and has not undone it.
    ///
    /// # Errors
    /// [`VersionError`].
    pub fn has_unseen_keys(&self, hobt: HobtId, low: &[u8], high: Option<&[u8]>, snapshot: &Snapshot) -> Result<bool> {
        // A change that stands is in one of the generations. What is there may have been undone since, which a newer
        // generation tells.
        let Some(key) = self.standing_key((hobt, low, high), snapshot)? else { return snapshot.checked(false) };
        let mut stands = self.with(
            || self.key_at(hobt, &key),
            snapshot,
            |versions| versions.unseen_writer(snapshot.view()).is_some(),
        )?;
        if !stands {
            self.with_keys((hobt, low, high), snapshot, |_, versions| {
                stands = versions.unseen_writer(snapshot.view()).is_some();
                !stands
            })?;
        }
        Ok(stands)
    }

    /// A key of a range with a change that `snapshot` does not see and that stands in one of the generations.
    fn standing_key(
        &self,
        (hobt, low, high): (HobtId, &[u8], Option<&[u8]>),
        snapshot: &Snapshot,
    ) -> Result<Option<Vec<u8>>> {
        let Some(range) = KeysBetween::new(low, high) else { return Ok(None) };
        let mut found = None;
        let (name, in_memory, runs) = {
            let generations = self.generations.read();
            let in_memory: Vec<Recent> = generations.that_matter(snapshot).cloned().collect();
            (self.truncations.name(hobt), in_memory, Arc::clone(&generations.runs))
        };
        for Recent { tables, .. } in &in_memory {
            tables.each_key(name, &range, |key, versions| {
                found = versions.has_unseen(snapshot.view()).then(|| key.0.to_vec());
                found.is_none()
            });
            if found.is_some() {
                return Ok(found);
            }
        }
        let (first, end) = places_between(name, low, high);
        for spilled in runs.iter().filter(|spilled| spilled.may_matter(snapshot)) {
            spilled.run.each(&first, Some(&end), |place, bytes| {
                let versions = VersionsOfKey::decode(bytes)?;
                found = versions.has_unseen(snapshot.view()).then(|| place[coding::TREE_PREFIX_BYTES..].to_vec());
                Ok(found.is_none())
            })?;
            if found.is_some() {
                break;
            }
        }
        Ok(found)
    }

    /// Sets the versions of a tree aside before a truncation, which removes rows without versions. Rows inserted from
    /// now on have versions of their own, even under the same keys. The transaction must have the tree locked
    /// exclusively until it ends. [`VersionStore::put_keys_back`] undoes this, [`VersionStore::drop_keys_aside`]
    /// commits it.
    pub fn set_keys_aside(&self, hobt: HobtId) {
        if !planted::has(Bug::VersionsNotSetAside) {
            let number = self.truncations.last.fetch_add(1, Ordering::Relaxed) + 1;
            self.truncations.change(hobt, |numbers| numbers.push(number));
        }
    }

    /// Undoes the last [`VersionStore::set_keys_aside`], once the truncated rows are restored. Versions put since have
    /// no effect any more.
    pub fn put_keys_back(&self, hobt: HobtId) {
        if !planted::has(Bug::VersionsNotSetAside) {
            self.truncations.change(hobt, |numbers| {
                if numbers.len() > 1 {
                    numbers.pop();
                }
            });
        }
    }

    /// Makes the versions that were set aside those of rows that are gone for good: the truncation is committed.
    pub fn drop_keys_aside(&self, hobt: HobtId) {
        if !planted::has(Bug::VersionsNotSetAside) {
            self.truncations.change(hobt, |numbers| drop(numbers.drain(..numbers.len() - 1)));
        }
    }

    /// Notes that a transaction is being undone whole, or has been: `is_done`.
    pub(crate) fn undo_whole(&self, writer: Stamp, is_done: bool) {
        let mut stamps = self.undoing.stamps.write();
        if is_done {
            stamps.retain(|stamp| *stamp != writer);
        } else {
            stamps.push(writer);
        }
        self.undoing.count.store(stamps.len(), Ordering::Release);
    }

    /// Removes a generation if no reader needs it and no writer can still put versions into it.
    pub(crate) fn retire(&self, generation: &Arc<Generation>, transactions: &Transactions) {
        let gone = {
            let mut generations = self.generations.write();
            // No writer comes to a generation while this is held.
            if !transactions.may_go(generation) {
                return;
            }
            let gone = generations.remove(generation);
            if generations.is_unused() {
                self.truncations.forget();
                self.noted_later.lock().clear();
            }
            gone
        };
        // Outside the lock, which every reader and writer takes: there may be millions of versions.
        drop(gone);
    }

    /// Writes the oldest generation in memory to disk; returns `false` if there is none. Blocks.
    pub(crate) fn spill(&self, space: &Arc<dyn VersionSpace>) -> std::result::Result<bool, SpaceError> {
        let Some(transactions) = self.transactions() else { return Ok(false) };
        let frozen = self.generations.write().freeze_oldest();
        let Some((generation, tables)) = frozen else { return Ok(false) };
        transactions.note_frozen(&generation);
        let (mut bytes, mut entries): (Vec<u8>, Vec<(usize, usize, usize)>) = (Vec::new(), Vec::new());
        tables.encode(|place, versions| {
            let start = bytes.len();
            bytes.extend_from_slice(place);
            bytes.extend_from_slice(versions);
            entries.push((start, start + place.len(), bytes.len()));
        });
        entries.sort_unstable_by(|one, other| bytes[one.0..one.1].cmp(&bytes[other.0..other.1]));
        let mut writer = RunWriter::new(space)?;
        for (start, middle, end) in entries {
            writer.add(&bytes[start..middle], &bytes[middle..end])?;
        }
        let run = writer.finish()?;
        let gone = self.generations.write().replace_by_run(&generation, run);
        drop(gone);
        Ok(true)
    }

    /// How many generations in memory are kept by readers alone.
    pub(crate) fn kept_count(&self) -> u64 {
        let is_kept = |recent: &&Recent| recent.generation.is_kept.load(Ordering::Relaxed);
        self.generations.read().recent.iter().filter(is_kept).count() as u64
    }

    /// The bytes of memory that can be written to disk.
    pub(crate) fn recent_bytes(&self) -> u64 {
        self.generations.read().recent.iter().map(|recent| recent.generation.bytes()).sum()
    }

    /// Estimated bytes of memory and bytes of disk that the versions take.
    pub fn usage(&self) -> (u64, u64) {
        let generations = self.generations.read();
        let recent: u64 = generations.recent.iter().map(|recent| recent.generation.bytes()).sum();
        let runs = generations.runs.iter().map(|spilled| &spilled.run);
        let (memory, disk) =
            runs.fold((0, 0), |(memory, disk), run| (memory + run.memory_bytes() as u64, disk + run.file_bytes));
        (recent + memory, disk)
    }

    /// What the store holds. Reads all versions in memory.
    pub fn extent(&self) -> VersionExtent {
        let generations = self.generations.read();
        let mut extent = VersionExtent::default();
        for recent in &generations.recent {
            let (versions, bytes) = recent.tables.extent();
            extent.versions += versions;
            extent.memory_bytes += bytes;
        }
        for spilled in &*generations.runs {
            extent.disk_entries += spilled.run.entries;
            extent.disk_bytes += spilled.run.file_bytes;
            extent.memory_bytes += spilled.run.memory_bytes();
        }
        extent
    }

    /// Whether there are no versions, needed or not.
    pub fn is_empty(&self) -> bool {
        self.extent() == VersionExtent::default()
    }
}

#[cfg(test)]
mod tests;
