//! Versions of the rows of B+trees, by HOBT and normalised key. A split moves rows and no versions.
//!
//! A transaction has one version of a key: the state before its first change. A reader that does not see the
//! transaction sees none of its changes. A deleted row's values are in its ghost. A writer that overwrites them gives
//! them to the version that needs them ([`KeyVersions::keep_row`]).

use hobt_instruments::planted::{self, Bug};
use std::cmp::Ordering;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use hobt_base::{HobtId, Stamp, compare_bytes};
use hobt_instruments::rank::{self, Rank, Ranked, RankedGuard};
use hobt_instruments::schedule::{Mutex, MutexGuard, RwLock};
use hobt_page::RowImage;
use smallvec::SmallVec;

use super::Before;
use crate::Snapshot;

/// The number of parts of a tree's versions, each with its own lock: transactions that change different keys mostly use
/// different parts.
const PARTS: usize = 16;
/// With more trees than this, trees without versions are forgotten.
const TREES: usize = 256;

#[derive(Debug)]
struct KeyVersion {
    writer: Stamp,
    before: Before,
    /// How many changes of the writer are not undone. If it is 0, the row is again as before.
    changes: u32,
}

/// The versions of a key, the oldest first. Most keys have one.
#[derive(Debug)]
struct VersionsOfKey {
    first: KeyVersion,
    more: Vec<KeyVersion>,
}

impl VersionsOfKey {
    fn iter(&self) -> impl DoubleEndedIterator<Item = &KeyVersion> {
        std::iter::once(&self.first).chain(&self.more)
    }

    fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut KeyVersion> {
        std::iter::once(&mut self.first).chain(&mut self.more)
    }

    fn last_mut(&mut self) -> &mut KeyVersion {
        self.more.last_mut().unwrap_or(&mut self.first)
    }

    /// Removes the versions of a writer; returns `false` if there are no others.
    fn forget(&mut self, writer: Stamp) -> bool {
        self.more.retain(|version| version.writer != writer);
        if self.first.writer != writer {
            return true;
        }
        if self.more.is_empty() {
            return false;
        }
        self.first = self.more.remove(0);
        true
    }

    /// The state of a row before the oldest change that is not visible; `None` if the current row is visible.
    fn before_unseen(&self, snapshot: &Snapshot) -> Option<&Before> {
        let unseen = self.iter().rev().take_while(|version| !snapshot.sees(version.writer));
        unseen.last().map(|version| &version.before)
    }

    /// The transaction that has written the current state of the row, if it is not visible.
    fn unseen_writer(&self, snapshot: &Snapshot) -> Option<Stamp> {
        let last = self.iter().rfind(|version| version.changes > 0);
        last.map(|version| version.writer).filter(|writer| !snapshot.sees(*writer))
    }

    /// Whether the current state of the row was written by a transaction that is not visible.
    fn is_unseen(&self, snapshot: &Snapshot) -> bool {
        self.unseen_writer(snapshot).is_some()
    }
}

/// A key that has versions. Most keys are short and are stored inline, not behind a pointer. Their order is that of
/// their bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct VersionKey(SmallVec<[u8; 24]>);

impl VersionKey {
    pub(super) fn new(key: &[u8]) -> VersionKey {
        VersionKey(SmallVec::from_slice(key))
    }
}

impl Ord for VersionKey {
    fn cmp(&self, other: &VersionKey) -> Ordering {
        compare_bytes(&self.0, &other.0)
    }
}

impl PartialOrd for VersionKey {
    fn partial_cmp(&self, other: &VersionKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The keys from one key on and below another, or from one key on.
struct KeysBetween(VersionKey, Option<VersionKey>);

impl KeysBetween {
    /// `None` if the range is empty.
    fn new(low: &[u8], high: Option<&[u8]>) -> Option<KeysBetween> {
        high.is_none_or(|high| low < high).then(|| KeysBetween(VersionKey::new(low), high.map(VersionKey::new)))
    }

    fn bounds(&self) -> (Bound<&VersionKey>, Bound<&VersionKey>) {
        (Bound::Included(&self.0), self.1.as_ref().map_or(Bound::Unbounded, Bound::Excluded))
    }
}

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
        let part = usize::try_from(mixed >> 40).expect("24 bits") % PARTS;
        rank::wait_for(Rank::Versions, || self.0[part].lock())
    }

    fn forget(&self, writer: Stamp, key: VersionKey) {
        let mut part = self.part(&key.0);
        if let Entry::Occupied(mut versions) = part.entry(key)
            && !versions.get_mut().forget(writer)
        {
            versions.remove();
        }
    }
}

/// The versions of a tree, and those from before each truncation that is not committed yet.
#[derive(Debug, Default)]
struct TreeVersions {
    tree: Tree,
    /// The oldest truncation's first. All are of one transaction, which has the tree locked exclusively.
    aside: Vec<Tree>,
}

impl TreeVersions {
    /// Whether there are no versions, and none set aside that an undo would put back.
    fn is_unused(&mut self) -> bool {
        self.aside.is_empty() && self.tree.0.iter_mut().all(|part| part.get_mut().is_empty())
    }

    /// The current versions and those set aside.
    fn all(&self) -> impl Iterator<Item = &Tree> {
        std::iter::once(&self.tree).chain(&self.aside)
    }
}

/// The versions of all trees of a database.
#[derive(Debug)]
pub(super) struct KeyVersions {
    trees: Ranked<RwLock<HashMap<HobtId, TreeVersions>>>,
}

impl Default for KeyVersions {
    fn default() -> KeyVersions {
        KeyVersions { trees: Ranked::new(Rank::VersionTrees, RwLock::default()) }
    }
}

impl KeyVersions {
    /// Adds a version and returns its key. `None` if the writer has a version of this key already.
    pub(super) fn put(&self, writer: Stamp, hobt: HobtId, key: &[u8], before: Before) -> Option<VersionKey> {
        let add = |part: &mut Part| {
            let (key, version) = (VersionKey::new(key), KeyVersion { writer, before, changes: 1 });
            match part.entry(key.clone()) {
                Entry::Vacant(place) => {
                    place.insert(VersionsOfKey { first: version, more: Vec::new() });
                }
                Entry::Occupied(mut versions) => {
                    let last = versions.get_mut().last_mut();
                    if last.writer == writer {
                        last.changes += 1;
                        if planted::has(Bug::KeyVersionOfLastChange) {
                            last.before = version.before;
                        }
                        return None;
                    }
                    versions.get_mut().more.push(version);
                }
            }
            Some(key)
        };
        {
            let trees = self.trees.read();
            if let Some(TreeVersions { tree, .. }) = trees.get(&hobt) {
                return add(&mut tree.part(key));
            }
        }
        let mut trees = self.trees.write();
        if trees.len() >= TREES {
            trees.retain(|_, versions| !versions.is_unused());
        }
        let TreeVersions { tree, .. } = trees.entry(hobt).or_default();
        add(&mut tree.part(key))
    }

    /// Copies a deleted row's values into the versions that refer to it, before they are overwritten. Returns the
    /// additional bytes.
    pub(super) fn keep_row(&self, hobt: HobtId, key: &[u8], row: &RowImage) -> usize {
        let trees = self.trees.read();
        let Some(TreeVersions { tree, .. }) = trees.get(&hobt) else { return 0 };
        let mut part = tree.part(key);
        let Some(versions) = part.get_mut(&VersionKey::new(key)) else { return 0 };
        let mut kept = None;
        for version in versions.iter_mut().filter(|version| version.before == Before::Present) {
            version.before = Before::Row(Arc::clone(kept.get_or_insert_with(|| Arc::new(row.clone()))));
        }
        kept.map_or(0, |row| Before::Row(row).row_bytes())
    }

    /// See [`super::VersionStore::key_changes`].
    pub(super) fn changes(
        &self,
        hobt: HobtId,
        low: &[u8],
        high: Option<&[u8]>,
        snapshot: &Snapshot,
    ) -> Vec<(Arc<[u8]>, Before)> {
        let trees = self.trees.read();
        let Some(TreeVersions { tree, .. }) = trees.get(&hobt) else { return Vec::new() };
        let Some(range) = KeysBetween::new(low, high) else { return Vec::new() };
        let mut changed = Vec::new();
        for part in &tree.0 {
            let part = part.lock();
            changed.extend(part.range(range.bounds()).filter_map(|(key, versions)| {
                versions.before_unseen(snapshot).map(|before| (Arc::from(key.0.as_slice()), before.clone()))
            }));
        }
        changed.sort_unstable_by(|(one, _): &(Arc<[u8]>, _), (other, _)| one.cmp(other));
        changed
    }

    /// See [`super::VersionStore::has_unseen_keys`].
    pub(super) fn has_unseen(&self, hobt: HobtId, low: &[u8], high: Option<&[u8]>, snapshot: &Snapshot) -> bool {
        let trees = self.trees.read();
        let (Some(TreeVersions { tree, .. }), Some(range)) = (trees.get(&hobt), KeysBetween::new(low, high)) else {
            return false;
        };
        tree.0.iter().any(|part| part.lock().range(range.bounds()).any(|(_, versions)| versions.is_unseen(snapshot)))
    }

    /// See [`super::VersionStore::key_change`].
    pub(super) fn change(&self, hobt: HobtId, key: &[u8], snapshot: &Snapshot) -> Option<Before> {
        let trees = self.trees.read();
        let part = trees.get(&hobt)?.tree.part(key);
        part.get(&VersionKey::new(key))?.before_unseen(snapshot).cloned()
    }

    pub(super) fn has(&self, hobt: HobtId, key: &[u8]) -> bool {
        self.trees.read().get(&hobt).is_some_and(|known| known.tree.part(key).contains_key(&VersionKey::new(key)))
    }

    /// See [`super::VersionStore::undone_key`].
    pub(super) fn undone(&self, writer: Stamp, hobt: HobtId, key: &[u8]) {
        let trees = self.trees.read();
        let Some(TreeVersions { tree, .. }) = trees.get(&hobt) else { return };
        let mut part = tree.part(key);
        let versions = part.get_mut(&VersionKey::new(key));
        let own = versions.and_then(|versions| versions.iter_mut().rfind(|version| version.writer == writer));
        if let Some(own) = own {
            own.changes = own.changes.saturating_sub(1);
        }
    }

    /// See [`super::VersionStore::key_changed_by`].
    pub(super) fn changed_by(&self, hobt: HobtId, key: &[u8], snapshot: &Snapshot) -> Option<Stamp> {
        let trees = self.trees.read();
        trees.get(&hobt)?.tree.part(key).get(&VersionKey::new(key))?.unseen_writer(snapshot)
    }

    /// See [`super::VersionStore::set_keys_aside`].
    pub(super) fn set_aside(&self, hobt: HobtId) {
        if planted::has(Bug::VersionsNotSetAside) {
            return;
        }
        let mut trees = self.trees.write();
        let TreeVersions { tree, aside } = trees.entry(hobt).or_default();
        aside.push(std::mem::take(tree));
    }

    /// See [`super::VersionStore::put_keys_back`].
    pub(super) fn put_back(&self, hobt: HobtId) {
        self.end_aside(hobt, |TreeVersions { tree, aside }| {
            aside.pop().map(|before| std::mem::replace(tree, before)).into_iter().collect()
        });
    }

    /// See [`super::VersionStore::drop_keys_aside`].
    pub(super) fn drop_aside(&self, hobt: HobtId) {
        self.end_aside(hobt, |versions| std::mem::take(&mut versions.aside));
    }

    /// Drops what `end` removes from a tree's versions.
    fn end_aside(&self, hobt: HobtId, end: impl FnOnce(&mut TreeVersions) -> Vec<Tree>) {
        let gone = {
            let mut trees = self.trees.write();
            let Some(versions) = trees.get_mut(&hobt) else { return };
            let gone = end(versions);
            if versions.is_unused() {
                trees.remove(&hobt);
            }
            gone
        };
        // Outside the lock, which every reader and writer of trees takes: there may be millions of versions.
        drop(gone);
    }

    /// Drops the versions that a transaction has put.
    pub(super) fn forget(&self, writer: Stamp, keys: Vec<(HobtId, VersionKey)>) {
        let trees = self.trees.read();
        for (hobt, key) in keys {
            let Some(TreeVersions { tree, aside }) = trees.get(&hobt) else { continue };
            aside.iter().for_each(|tree| tree.forget(writer, key.clone()));
            tree.forget(writer, key);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.of_parts(|part| part.values().map(|versions| 1 + versions.more.len()).sum())
    }

    pub(super) fn bytes(&self) -> usize {
        let of_key = |(key, versions): (&VersionKey, &VersionsOfKey)| {
            let of_version = |version: &KeyVersion| size_of::<KeyVersion>() + version.before.row_bytes();
            let elsewhere = if key.0.spilled() { key.0.len() } else { 0 };
            elsewhere + size_of::<VersionKey>() + versions.iter().map(of_version).sum::<usize>()
        };
        self.of_parts(|part| part.iter().map(of_key).sum())
    }

    fn of_parts(&self, count: impl Fn(&Part) -> usize) -> usize {
        let trees = self.trees.read();
        trees.values().flat_map(TreeVersions::all).flat_map(|tree| &tree.0).map(|part| count(&part.lock())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_of_a_tree_without_versions() {
        let keys = KeyVersions::default();
        let trees = || keys.trees.read().len();
        keys.set_aside(HobtId(1));
        keys.set_aside(HobtId(1));
        keys.put_back(HobtId(1));
        assert_eq!(trees(), 1, "those of the first truncation are to come back");
        keys.put_back(HobtId(1));
        assert_eq!(trees(), 0);
        keys.set_aside(HobtId(1));
        keys.drop_aside(HobtId(1));
        assert_eq!(trees(), 0);
    }
}
