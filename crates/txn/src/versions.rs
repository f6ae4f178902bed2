//! Earlier versions of rows, for readers that do not see a transaction's changes.
//!
//! Versions are kept off the page and only in memory: after a restart no reader needs them. A version is put while the
//! page is held exclusively, so a reader with a whole copy of the page finds every version that it needs here. A
//! version of a change that is not in that copy yet has no effect on it. Versions of a heap's rows are kept by heap,
//! page and slot, those of a B+tree's rows by tree and key (`keys`).
//!
//! A version belongs to one heap or tree, and to the rows that were in it when it was put. Versions outlive rows:
//! another heap may have the page by the time that they are read ([`HeapPage`]). A truncation removes rows without
//! versions; its undo restores the rows and the versions from before it ([`VersionStore::set_keys_aside`]).

mod keys;

use hobt_instruments::planted::{self, Bug};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use hobt_base::{HobtId, PageId, SlotId, Stamp};
use hobt_instruments::rank::{Rank, Ranked};
use hobt_instruments::schedule::Mutex;
use hobt_page::RowImage;

use crate::undo_memory::{KEY_VERSION_BYTES, VERSION_BYTES};
use crate::{Running, Snapshot};
use keys::KeyVersions;
pub(crate) use keys::VersionKey;

/// Parts of the store, each with its own lock; a power of two.
const SHARDS: usize = 64;

/// A page while it belongs to a heap: versions of its rows do not apply to rows that another heap has there later. A
/// truncated heap may use its pages again: snapshots from before the truncation are refused with 3961.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HeapPage {
    /// The heap.
    pub hobt: HobtId,
    /// Its page.
    pub page: PageId,
}

/// The state of a row before a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Before {
    /// No row: it was inserted.
    Absent,
    /// The row, which was deleted. Its values are those that the slot had at that time. If a newer version of the slot
    /// has a row ([`Before::Row`]), the delete was undone before, and the values are that version's.
    Present,
    /// This row, which was replaced by another one.
    Row(Arc<RowImage>),
}

impl Before {
    /// The state of the slot before this change and `newer`, the next one, neither of which is visible.
    fn beneath<'a>(&'a self, newer: Option<&'a Before>) -> &'a Before {
        match newer {
            Some(row @ Before::Row(_)) if *self == Before::Present && !planted::has(Bug::PresentHidesRow) => row,
            _ => self,
        }
    }

    /// Bytes that it keeps.
    pub(crate) fn row_bytes(&self) -> usize {
        if let Before::Row(row) = self { size_of::<RowImage>() + row.byte_count() } else { 0 }
    }
}

/// Versions of neighbouring rows that say the same: a page that one transaction fills, or empties, has one.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Version {
    /// The first row.
    slot: SlotId,
    /// The number of rows, at least 1.
    rows: u16,
    writer: Stamp,
    before: Before,
    /// Its change has been undone: the row is again as before. A reader with an older copy of the page still needs the
    /// version.
    is_undone: bool,
    /// The RID of the row's new values, if they were not put in the row's own position.
    moved_to: Option<(PageId, SlotId)>,
}

impl Version {
    fn has(&self, slot: SlotId) -> bool {
        (self.slot.0..self.end()).contains(&slot.0)
    }

    /// The slot behind the last row.
    fn end(&self) -> u16 {
        self.slot.0 + self.rows
    }

    fn slots(&self) -> impl Iterator<Item = SlotId> {
        (self.slot.0..self.end()).map(SlotId)
    }

    /// Whether it says the same of its rows as `other` of others.
    fn is_like(&self, other: &Version) -> bool {
        Version { slot: other.slot, rows: other.rows, ..self.clone() } == *other
    }

    /// Takes in the rows of `other`, if they are the next ones on either side and it says the same. Rows are not
    /// compared: those that were replaced have versions of their own.
    fn join(&mut self, other: &Version) -> bool {
        let is_next = self.end() == other.slot.0 || other.end() == self.slot.0;
        if !is_next || matches!(other.before, Before::Row(_)) || other.moved_to.is_some() || !self.is_like(other) {
            return false;
        }
        self.slot = self.slot.min(other.slot);
        self.rows += other.rows;
        true
    }
}

/// Makes the version at a place that has `slot` one of this row alone, and returns its new place. What it has said of
/// other rows is said by versions of these.
fn single_out(versions: &mut Vec<Version>, at: usize, slot: SlotId) -> usize {
    let whole = versions[at].clone();
    let part = |from: u16, to: u16| Version { slot: SlotId(from), rows: to - from, ..whole.clone() };
    let parts = [part(whole.slot.0, slot.0), part(slot.0, slot.0 + 1), part(slot.0 + 1, whole.end())];
    let place = at + usize::from(parts[0].rows > 0);
    versions.splice(at..=at, parts.into_iter().filter(|part| part.rows > 0));
    place
}

/// Joins the version at a place with its neighbours, if they say the same.
fn join_neighbours(versions: &mut Vec<Version>, at: usize) {
    for other in [Some(at + 1), at.checked_sub(1)].into_iter().flatten() {
        let Some(neighbour) = versions.get(other).cloned() else { continue };
        if versions[at].join(&neighbour) {
            versions.remove(other);
            if other < at {
                return;
            }
        }
    }
}

/// The result for a slot so far, while its versions are walked from the newest back.
#[derive(Clone, Copy)]
enum Found<'a> {
    Nothing,
    /// Changes that are not visible, with the state before the oldest of them so far.
    Some(&'a Before),
    /// The next older change is visible: nothing older matters.
    All(Option<&'a Before>),
}

/// The versions of each page, the oldest first.
type Pages = HashMap<HeapPage, Vec<Version>>;

/// A part of the store.
type Shard = Ranked<Mutex<Pages>>;

/// The versions of a page, and the place of the last one of a row by `writer` that is not undone.
fn last_of_row(pages: &mut Pages, page: HeapPage, slot: SlotId, writer: Stamp) -> Option<(&mut Vec<Version>, usize)> {
    let versions = pages.get_mut(&page)?;
    let at =
        versions.iter().rposition(|version| version.has(slot) && version.writer == writer && !version.is_undone)?;
    Some((versions, at))
}

/// The versions of one database's rows.
#[derive(Debug)]
pub struct VersionStore {
    shards: Box<[Shard]>,
    hasher: RandomState,
    keys: KeyVersions,
}

impl VersionStore {
    /// A store without versions.
    pub fn new() -> Arc<VersionStore> {
        let shards = (0..SHARDS).map(|_| Ranked::new(Rank::Versions, Mutex::default())).collect();
        Arc::new(VersionStore { shards, hasher: RandomState::new(), keys: KeyVersions::default() })
    }

    fn shard(&self, page: HeapPage) -> &Shard {
        let hash = self.hasher.hash_one(page);
        &self.shards[usize::try_from(hash % SHARDS as u64).expect("fewer than a word counts")]
    }

    /// Puts the state of a row before a change. The page is held exclusively. Returns the bytes that the version takes.
    pub(crate) fn put(
        self: &Arc<VersionStore>,
        writer: &Running,
        page: HeapPage,
        slot: SlotId,
        before: Before,
    ) -> usize {
        let bytes = VERSION_BYTES + before.row_bytes();
        let version = Version { slot, rows: 1, writer: writer.stamp(), before, is_undone: false, moved_to: None };
        {
            let mut shard = self.shard(page).lock();
            let versions = shard.entry(page).or_default();
            if versions.last_mut().is_some_and(|last| last.join(&version)) {
                return 0;
            }
            versions.push(version);
        }
        writer.add_version_bytes(bytes);
        writer.note(self, writer.stamp(), page);
        bytes
    }

    /// Puts a version for the rows of a page that `loader` has built whole, before `changer` is the first to change
    /// one of them: until now the page's stamp alone has said which readers see it. Puts none if every reader sees the
    /// load. The page is held exclusively. Returns the bytes that the versions take.
    pub(crate) fn put_loaded(
        self: &Arc<VersionStore>,
        changer: &Running,
        loader: Stamp,
        page: HeapPage,
        rows: u16,
    ) -> usize {
        if rows == 0 || changer.transactions().is_seen_by_all(loader) {
            return 0;
        }
        let (slot, before) = (SlotId(0), Before::Absent);
        let loaded = Version { slot, rows, writer: loader, before, is_undone: false, moved_to: None };
        changer.add_version_bytes(VERSION_BYTES);
        self.shard(page).lock().entry(page).or_default().push(loaded);
        changer.note(self, loader, page);
        VERSION_BYTES
    }

    /// The rows of a page whose state in a snapshot differs from the current one, each once.
    pub fn changes(&self, page: HeapPage, snapshot: &Snapshot) -> Vec<(SlotId, Before)> {
        let shard = self.shard(page).lock();
        let Some(versions) = shard.get(&page) else { return Vec::new() };
        let slots = versions.iter().map(|version| usize::from(version.end())).max().unwrap_or(0);
        let mut found: Vec<Found<'_>> = vec![Found::Nothing; slots];
        // The newest first: each undoes one change, until one is visible.
        for version in versions.iter().rev() {
            let is_seen = snapshot.sees(version.writer);
            for place in &mut found[usize::from(version.slot.0)..usize::from(version.end())] {
                *place = match *place {
                    Found::All(before) => Found::All(before),
                    Found::Some(before) if is_seen => Found::All(Some(before)),
                    Found::Nothing if is_seen => Found::All(None),
                    Found::Some(newer) => Found::Some(version.before.beneath(Some(newer))),
                    Found::Nothing => Found::Some(&version.before),
                };
            }
        }
        let changed = (0..).zip(found).filter_map(|(slot, found)| match found {
            Found::Some(before) | Found::All(Some(before)) => Some((SlotId(slot), before.clone())),
            Found::Nothing | Found::All(None) => None,
        });
        changed.collect()
    }

    /// The state of a heap row before the changes that a snapshot does not see; `None` if it sees the current row.
    pub fn change(&self, page: HeapPage, slot: SlotId, snapshot: &Snapshot) -> Option<Before> {
        let shard = self.shard(page).lock();
        let of_slot = shard.get(&page)?.iter().rev().filter(|version| version.has(slot));
        let unseen = of_slot.take_while(|version| !snapshot.sees(version.writer));
        unseen.fold(None, |newer, version| Some(version.before.beneath(newer))).cloned()
    }

    /// Puts the state at a key of a tree before `writer` changed it, unless `writer` had changed it before. The leaf is
    /// held exclusively. Returns the bytes that the version takes.
    pub(crate) fn put_key(
        self: &Arc<VersionStore>,
        writer: &Running,
        hobt: HobtId,
        key: &[u8],
        before: Before,
    ) -> usize {
        self.put_key_of(writer, writer.stamp(), hobt, key, before)
    }

    /// Like [`VersionStore::put_key`], for a change of `writer` whose version is dropped when `noter`'s are.
    fn put_key_of(
        self: &Arc<VersionStore>,
        noter: &Running,
        writer: Stamp,
        hobt: HobtId,
        key: &[u8],
        before: Before,
    ) -> usize {
        let bytes = KEY_VERSION_BYTES + key.len() + before.row_bytes();
        let Some(key) = self.keys.put(writer, hobt, key, before) else { return 0 };
        noter.add_version_bytes(bytes);
        noter.note_key(self, writer, hobt, key);
        bytes
    }

    /// Puts one version for each key of a leaf that `loader` has built whole and that not all readers see, before
    /// `changer` is the first to change the leaf. The leaf is held exclusively. Returns the bytes that the versions
    /// take.
    pub(crate) fn put_loaded_keys<'k>(
        self: &Arc<VersionStore>,
        changer: &Running,
        loader: Stamp,
        hobt: HobtId,
        keys: impl IntoIterator<Item = &'k [u8]>,
    ) -> usize {
        keys.into_iter().map(|key| self.put_key_of(changer, loader, hobt, key, Before::Absent)).sum()
    }

    /// To be called before other values replace those of a row of a tree, deleted or not. `row` is the current row. The
    /// leaf is held exclusively. Returns the additional bytes that the versions take.
    pub(crate) fn keep_row(&self, hobt: HobtId, key: &[u8], row: &RowImage) -> usize {
        self.keys.keep_row(hobt, key, row)
    }

    /// The keys of a tree from `low` on and below `high` whose state in a snapshot differs from the current one, in
    /// order.
    pub fn key_changes(
        &self,
        hobt: HobtId,
        low: &[u8],
        high: Option<&[u8]>,
        snapshot: &Snapshot,
    ) -> Vec<(Arc<[u8]>, Before)> {
        self.keys.changes(hobt, low, high, snapshot)
    }

    /// The state of a key of a tree in a snapshot, if it differs from the current one.
    pub fn key_change(&self, hobt: HobtId, key: &[u8], snapshot: &Snapshot) -> Option<Before> {
        self.keys.change(hobt, key, snapshot)
    }

    /// Whether there is a version of a key: a snapshot may not see the current row, or its writer may undo it.
    pub fn has_key(&self, hobt: HobtId, key: &[u8]) -> bool {
        self.keys.has(hobt, key)
    }

    /// Notes that `writer` has undone its last change at a key that was not undone yet. The leaf is held exclusively.
    pub fn undone_key(&self, writer: Stamp, hobt: HobtId, key: &[u8]) {
        self.keys.undone(writer, hobt, key);
    }

    /// Whether the current state of a key was written by a transaction that `snapshot` does not see.
    pub fn is_key_changed(&self, hobt: HobtId, key: &[u8], snapshot: &Snapshot) -> bool {
        self.keys.changed_by(hobt, key, snapshot).is_some()
    }

    /// The transaction that has written the current state of a key, if `snapshot` does not see it.
    pub fn key_changed_by(&self, hobt: HobtId, key: &[u8], snapshot: &Snapshot) -> Option<Stamp> {
        self.keys.changed_by(hobt, key, snapshot)
    }

    /// Notes that `writer` has undone its last change of a row that was not undone yet. The page is held exclusively.
    pub fn undone(&self, writer: Stamp, page: HeapPage, slot: SlotId) {
        let mut shard = self.shard(page).lock();
        let Some((versions, at)) = last_of_row(&mut shard, page, slot, writer) else { return };
        let at = single_out(versions, at, slot);
        versions[at].is_undone = true;
        join_neighbours(versions, at);
    }

    /// Notes that `writer`, which has deleted a row, has put it at another RID with new values.
    pub fn moved(&self, writer: Stamp, (page, slot): (HeapPage, SlotId), to: (PageId, SlotId)) {
        let mut shard = self.shard(page).lock();
        let Some((versions, at)) = last_of_row(&mut shard, page, slot, writer) else { return };
        let at = single_out(versions, at, slot);
        versions[at].moved_to = Some(to);
    }

    /// The new RID of a row, if a transaction that `snapshot` does not see has changed and moved it.
    pub fn moved_to(&self, page: HeapPage, slot: SlotId, snapshot: &Snapshot) -> Option<(PageId, SlotId)> {
        let shard = self.shard(page).lock();
        let stands = |version: &&Version| version.has(slot) && !version.is_undone;
        let last = shard.get(&page)?.iter().rev().find(stands)?;
        last.moved_to.filter(|_| !snapshot.sees(last.writer))
    }

    /// Whether a transaction that `snapshot` does not see has changed a row of one of the wanted pages of a heap, and
    /// has not undone it.
    pub fn has_unseen_rows(&self, hobt: HobtId, snapshot: &Snapshot, is_wanted: &dyn Fn(PageId) -> bool) -> bool {
        let is_unseen = |version: &Version| !version.is_undone && !snapshot.sees(version.writer);
        self.shards.iter().any(|shard| {
            let shard = shard.lock();
            let mut of_heap = shard.iter().filter(|(at, _)| at.hobt == hobt);
            of_heap.any(|(at, versions)| is_wanted(at.page) && versions.iter().any(is_unseen))
        })
    }

    /// Whether a transaction that `snapshot` does not see has changed a key of a tree from `low` on and below `high`,
    /// and has not undone it.
    pub fn has_unseen_keys(&self, hobt: HobtId, low: &[u8], high: Option<&[u8]>, snapshot: &Snapshot) -> bool {
        self.keys.has_unseen(hobt, low, high, snapshot)
    }

    /// The RIDs of the heap's rows on wanted pages that a transaction invisible to `snapshot` has changed, inserted or
    /// deleted, without those whose change was undone. With `inserts_only`, only the inserted rows. Reads all pages
    /// that have versions.
    pub fn unseen_rows(
        &self,
        hobt: HobtId,
        snapshot: &Snapshot,
        inserts_only: bool,
        is_wanted: &dyn Fn(PageId) -> bool,
    ) -> Vec<(PageId, SlotId)> {
        let mut found = Vec::new();
        for shard in &self.shards {
            let of_heap = |at: &HeapPage| at.hobt == hobt && is_wanted(at.page);
            for (at, versions) in shard.lock().iter().filter(|(at, _)| of_heap(at)) {
                let unseen = versions.iter().filter(|version| !version.is_undone && !snapshot.sees(version.writer));
                let wanted = unseen.filter(|version| !inserts_only || version.before == Before::Absent);
                found.extend(wanted.flat_map(|version| version.slots().map(|slot| (at.page, slot))));
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Whether the current state of a row was written by a transaction that `snapshot` does not see.
    pub fn is_changed(&self, page: HeapPage, slot: SlotId, snapshot: &Snapshot) -> bool {
        self.changed_by(page, slot, snapshot).is_some()
    }

    /// The transaction that has written the current state of a row, if `snapshot` does not see it.
    pub fn changed_by(&self, page: HeapPage, slot: SlotId, snapshot: &Snapshot) -> Option<Stamp> {
        let shard = self.shard(page).lock();
        let stands = |version: &&Version| version.has(slot) && !version.is_undone;
        let last = shard.get(&page).and_then(|versions| versions.iter().rev().find(stands));
        last.map(|version| version.writer).filter(|writer| !snapshot.sees(*writer))
    }

    /// Sets the versions of a tree aside before a truncation, which removes rows without versions. Rows inserted from
    /// now on have versions of their own, even under the same keys. The transaction must have the tree locked
    /// exclusively until it ends. [`VersionStore::put_keys_back`] undoes this, [`VersionStore::drop_keys_aside`]
    /// commits it.
    pub fn set_keys_aside(&self, hobt: HobtId) {
        self.keys.set_aside(hobt);
    }

    /// Undoes the last [`VersionStore::set_keys_aside`], once the truncated rows are restored. Versions put since are
    /// dropped.
    pub fn put_keys_back(&self, hobt: HobtId) {
        self.keys.put_back(hobt);
    }

    /// Drops the versions that were set aside: the truncation is committed.
    pub fn drop_keys_aside(&self, hobt: HobtId) {
        self.keys.drop_aside(hobt);
    }

    /// Drops the versions that a transaction has put for pages and keys.
    pub(crate) fn forget(&self, writer: Stamp, pages: &[HeapPage], keys: Vec<(HobtId, VersionKey)>) {
        self.keys.forget(writer, keys);
        for page in pages {
            let mut shard = self.shard(*page).lock();
            if let Some(versions) = shard.get_mut(page) {
                versions.retain(|version| version.writer != writer);
                if versions.is_empty() {
                    shard.remove(page);
                }
            }
        }
    }

    /// How many versions there are.
    pub fn len(&self) -> usize {
        let of_shard =
            |shard: &Shard| shard.lock().values().flatten().map(|version| usize::from(version.rows)).sum::<usize>();
        self.shards.iter().map(of_shard).sum::<usize>() + self.keys.len()
    }

    /// Bytes that the versions take, without the spare capacity of the maps. Reads all of them.
    pub fn bytes(&self) -> usize {
        let of_version = |version: &Version| size_of::<Version>() + version.before.row_bytes();
        let of_shard = |shard: &Shard| shard.lock().values().flatten().map(of_version).sum::<usize>();
        self.shards.iter().map(of_shard).sum::<usize>() + self.keys.bytes()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use hobt_base::FileId;

    use super::*;
    use crate::Transactions;

    const HEAP: HobtId = HobtId(7);

    fn heap_page(number: u32) -> HeapPage {
        HeapPage { hobt: HEAP, page: PageId::new(FileId(1), number) }
    }

    #[test]
    fn versions_of_a_page_are_those_of_the_heap_that_had_it() {
        let (all, store): (Arc<Transactions>, _) = (Arc::default(), VersionStore::new());
        let reader = all.snapshot(Stamp(0), Stamp(0));
        let (page, slot) = (heap_page(9), SlotId(3));
        let writer = all.begin();
        store.put(&writer, page, slot, Before::Present);
        let later = HeapPage { hobt: HobtId(8), ..page };
        assert_eq!((store.changes(later, &reader), store.change(later, slot, &reader)), (vec![], None));
        assert!(!store.is_changed(later, slot, &reader) && !store.has_unseen_rows(later.hobt, &reader, &|_| true));
        store.put(&writer, later, slot, Before::Absent);
        assert_eq!(store.changes(later, &reader), vec![(slot, Before::Absent)]);
        assert_eq!(store.changes(page, &reader), vec![(slot, Before::Present)]);
    }

    #[test]
    fn what_comes_into_a_truncated_tree_leaves_the_versions_of_what_was_there() {
        let (all, store): (Arc<Transactions>, _) = (Arc::default(), VersionStore::new());
        let hobt = HobtId(4);
        let reader = all.snapshot(Stamp(0), Stamp(0));
        let old = Before::Row(Arc::new(RowImage::new([Some(&b"old"[..])])));
        let (earlier, writer) = (all.begin(), all.begin());
        store.put_key(&earlier, hobt, b"deleted", Before::Present);
        store.put_key(&writer, hobt, b"changed", old.clone());
        let before = store.key_changes(hobt, b"", None, &reader);
        for truncations in 1..=2 {
            (0..truncations).for_each(|_| {
                store.set_keys_aside(hobt);
                assert_eq!(store.key_changes(hobt, b"", None, &reader), vec![]);
                for key in [&b"deleted"[..], b"changed", b"other"] {
                    store.put_key(&writer, hobt, key, Before::Absent);
                    store.undone_key(writer.stamp(), hobt, key);
                    store.keep_row(hobt, key, &RowImage::new([Some(&b"new"[..])]));
                }
            });
            (0..truncations).for_each(|_| store.put_keys_back(hobt));
            assert_eq!(store.key_changes(hobt, b"", None, &reader), before);
            assert!(store.is_key_changed(hobt, b"changed", &reader), "it was changed before");
        }
        // Versions that are dropped meanwhile are not put back.
        store.set_keys_aside(hobt);
        store.forget(earlier.stamp(), &[], vec![(hobt, VersionKey::new(b"deleted"))]);
        store.put_keys_back(hobt);
        assert_eq!(store.key_changes(hobt, b"", None, &reader), vec![(Arc::from(&b"changed"[..]), old)]);
        store.set_keys_aside(hobt);
        store.drop_keys_aside(hobt);
        assert!(store.is_empty() && !store.has_key(hobt, b"changed"));
    }

    #[test]
    fn what_was_undone_is_no_change_but_an_older_copy_still_finds_it() {
        let (all, store): (Arc<Transactions>, _) = (Arc::default(), VersionStore::new());
        let (page, slot) = (heap_page(9), SlotId(3));
        let reader = all.snapshot(Stamp(0), Stamp(0));
        let writer = all.begin();
        store.put(&writer, page, slot, Before::Present);
        store.put(&writer, page, slot, Before::Absent);
        assert!(store.is_changed(page, slot, &reader));
        store.undone(writer.stamp(), page, slot);
        assert!(store.is_changed(page, slot, &reader), "the first of the two stands");
        store.undone(writer.stamp(), page, slot);
        assert!(!store.is_changed(page, slot, &reader));
        assert_eq!(store.changes(page, &reader), vec![(slot, Before::Present)]);
    }

    #[test]
    fn a_row_whose_delete_was_undone_has_the_values_that_a_newer_version_tells_of() {
        let (all, store): (Arc<Transactions>, _) = (Arc::default(), VersionStore::new());
        let (page, slot) = (heap_page(9), SlotId(3));
        let reader = all.snapshot(Stamp(0), Stamp(0));
        let old = Before::Row(Arc::new(RowImage::new([Some(&b"old"[..])])));
        let between = Before::Row(Arc::new(RowImage::new([Some(&b"between"[..])])));
        let first = all.begin();
        store.put(&first, page, slot, Before::Present);
        store.undone(first.stamp(), page, slot);
        store.put(&first, page, slot, old.clone());
        assert_eq!(store.changes(page, &reader), vec![(slot, old.clone())]);
        assert_eq!(store.change(page, slot, &reader), Some(old.clone()));
        // Another delete that is undone, and another row in its place: the oldest row of the versions counts.
        store.put(&first, page, slot, Before::Present);
        store.undone(first.stamp(), page, slot);
        let second = all.begin();
        store.put(&second, page, slot, between);
        assert_eq!(store.changes(page, &reader), vec![(slot, old.clone())]);
        assert_eq!(store.change(page, slot, &reader), Some(old));
    }

    #[test]
    fn what_others_have_changed_and_not_undone_is_told_until_it_is_seen() {
        let (all, store): (Arc<Transactions>, _) = (Arc::default(), VersionStore::new());
        let (hobt, key) = (HobtId(4), &b"k"[..]);
        let (page, other) = (heap_page(9), heap_page(10));
        let (writer, own) = (all.begin(), all.begin());
        let reader = all.snapshot(own.stamp(), Stamp(0));
        store.put(&writer, page, SlotId(3), Before::Absent);
        store.put(&writer, page, SlotId(5), Before::Present);
        store.put(&writer, other, SlotId(1), Before::Present);
        store.put(&own, page, SlotId(7), Before::Absent);
        let of_page = |inserts_only| store.unseen_rows(HEAP, &reader, inserts_only, &|id| id == page.page);
        assert_eq!(of_page(false), vec![(page.page, SlotId(3)), (page.page, SlotId(5))]);
        assert_eq!(of_page(true), vec![(page.page, SlotId(3))]);
        store.undone(writer.stamp(), page, SlotId(3));
        assert_eq!(of_page(true), vec![]);
        assert!(
            store.has_unseen_rows(HEAP, &reader, &|id| id == other.page)
                && !store.has_unseen_rows(HEAP, &reader, &|_| false)
        );
        store.put_key(&own, hobt, b"a", Before::Absent);
        assert!(!store.has_unseen_keys(hobt, b"", None, &reader), "its own");
        store.put_key(&writer, hobt, key, Before::Absent);
        assert!(store.has_unseen_keys(hobt, b"k", Some(b"l"), &reader));
        assert!(
            !store.has_unseen_keys(hobt, b"l", None, &reader) && !store.has_unseen_keys(hobt, b"", Some(b"k"), &reader)
        );
        store.undone_key(writer.stamp(), hobt, key);
        assert!(!store.has_unseen_keys(hobt, b"", None, &reader));
        store.put_key(&writer, hobt, key, Before::Absent);
        drop(writer);
        let later = all.snapshot(own.stamp(), Stamp(0));
        assert!(store.has_unseen_keys(hobt, b"", None, &reader), "it has committed since");
        assert!(!store.has_unseen_keys(hobt, b"", None, &later) && !store.has_unseen_rows(HEAP, &later, &|_| true));
    }

    #[test]
    fn a_transaction_has_one_version_of_a_key_and_it_is_what_was_before_all_its_changes() {
        let (all, store): (Arc<Transactions>, _) = (Arc::default(), VersionStore::new());
        let (hobt, key) = (HobtId(4), &b"k"[..]);
        let row = |text: &[u8]| RowImage::new([Some(text)]);
        let oldest = all.snapshot(Stamp(0), Stamp(0));
        // A row is deleted, and another one replaces its ghost.
        let first = all.begin();
        store.put_key(&first, hobt, key, Before::Present);
        store.keep_row(hobt, key, &row(b"old"));
        store.put_key(&first, hobt, key, Before::Absent);
        assert_eq!(store.len(), 1);
        let was = Before::Row(Arc::new(row(b"old")));
        assert_eq!(store.key_change(hobt, key, &oldest), Some(was.clone()));
        assert!(store.is_key_changed(hobt, key, &oldest));
        store.undone_key(first.stamp(), hobt, key);
        assert!(store.is_key_changed(hobt, key, &oldest), "the first of the two stands");
        store.undone_key(first.stamp(), hobt, key);
        assert!(!store.is_key_changed(hobt, key, &oldest), "all is as it was");
        store.put_key(&first, hobt, key, Before::Present);
        drop(first);
        // A later change: a snapshot that sees the first transaction sees what that one left.
        let between = all.snapshot(Stamp(0), Stamp(0));
        let second = all.begin();
        store.put_key(&second, hobt, key, Before::Absent);
        store.put_key(&second, hobt, b"m", Before::Absent);
        assert_eq!(store.key_changes(hobt, b"", None, &oldest).len(), 2);
        assert_eq!(store.key_changes(hobt, b"k", Some(b"m"), &between), vec![(key.into(), Before::Absent)]);
        assert_eq!(store.key_changes(hobt, b"l", Some(b"l"), &between), vec![]);
        assert_eq!(store.key_change(HobtId(5), key, &oldest), None, "another tree");
        assert_eq!(store.key_change(hobt, key, &oldest), Some(was));
        drop((oldest, second));
        assert_eq!(store.len(), 2, "the first one's are forgotten");
        drop(between);
        assert!(store.is_empty() && !store.has_key(hobt, key) && store.bytes() == 0);
    }

    /// Of many random changes, runs of rows say what versions of single rows say.
    #[test]
    fn runs_of_rows_say_what_single_rows_would() {
        let mut random = hobt_base::SplitMix64::new(3);
        for _ in 0..300 {
            let transactions = Arc::new(Transactions::default());
            let (store, page) = (VersionStore::new(), heap_page(5));
            let mut readers = vec![transactions.snapshot(transactions.next(), Stamp(0))];
            // Each version of a row with its writer, its former state, and whether it is undone: the oldest first.
            let mut model: Vec<(SlotId, Stamp, Before, bool)> = Vec::new();
            let mut ended = Vec::new();
            for _ in 0..1 + random.below(4) {
                let writer = transactions.begin();
                let first = random.below(20) as u16;
                for step in 0..random.below(30) as u16 {
                    let slot = SlotId(if random.below(4) == 0 { random.below(40) as u16 } else { first + step % 15 });
                    let known = |(at, by, _, is_undone): &(SlotId, Stamp, Before, bool)| {
                        *at == slot && *by == writer.stamp() && !is_undone
                    };
                    match random.below(4) {
                        0 => {
                            store.undone(writer.stamp(), page, slot);
                            if let Some(at) = model.iter().rposition(known) {
                                model[at].3 = true;
                            }
                        }
                        kind => {
                            let row = Arc::new(RowImage::new([Some(&[kind as u8][..])]));
                            let before = [Before::Absent, Before::Present, Before::Row(row)][kind as usize - 1].clone();
                            store.put(&writer, page, slot, before.clone());
                            model.push((slot, writer.stamp(), before, false));
                        }
                    }
                }
                if random.below(2) == 0 {
                    readers.push(transactions.snapshot(transactions.next(), Stamp(0)));
                }
                ended.push(writer);
                if random.below(2) == 0 {
                    readers.push(transactions.snapshot(transactions.next(), Stamp(0)));
                }
            }
            assert_eq!(store.len(), model.len());
            for reader in &readers {
                let mut unseen = Vec::new();
                let mut changes = Vec::new();
                for slot in (0..60).map(SlotId) {
                    let of_slot: Vec<_> = model.iter().filter(|(at, ..)| *at == slot).collect();
                    let last = of_slot.iter().rfind(|(.., is_undone)| !is_undone).map(|(_, by, ..)| *by);
                    let by = last.filter(|by| !reader.sees(*by));
                    assert_eq!(store.changed_by(page, slot, reader), by, "{slot:?} of {model:?}");
                    let hidden = of_slot.iter().rev().take_while(|(_, by, ..)| !reader.sees(*by));
                    let state = hidden.fold(None::<&Before>, |newer, (_, _, before, _)| Some(before.beneath(newer)));
                    assert_eq!(store.change(page, slot, reader).as_ref(), state, "{slot:?} of {model:?}");
                    changes.extend(state.map(|state| (slot, state.clone())));
                    let stands = of_slot.iter().any(|(_, by, _, is_undone)| !is_undone && !reader.sees(*by));
                    unseen.extend(stands.then_some((page.page, slot)));
                }
                assert_eq!(store.changes(page, reader), changes);
                assert_eq!(store.unseen_rows(HEAP, reader, false, &|_| true), unseen);
            }
            drop((readers, ended));
            assert!(store.is_empty());
        }
    }

    #[test]
    fn a_page_that_is_filled_and_taken_back_has_few_versions() {
        let transactions = Arc::new(Transactions::default());
        let (store, page) = (VersionStore::new(), heap_page(5));
        let writer = transactions.begin();
        let bytes: usize = (0..200).map(|slot| store.put(&writer, page, SlotId(slot), Before::Absent)).sum();
        assert_eq!(bytes, VERSION_BYTES);
        for slot in (0..200).rev() {
            store.undone(writer.stamp(), page, SlotId(slot));
            assert!(store.bytes() <= 2 * size_of::<Version>());
        }
        assert_eq!(store.len(), 200);
    }
}
