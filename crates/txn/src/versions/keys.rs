//! Versions of the rows of B+trees, by HOBT and normalised key: a split moves rows and no version.
//!
//! A transaction has one version of a key, of what stood there before its first change: who does not see it sees none of
//! its changes. A deleted row's values stand in its ghost; whoever puts others there gives the former ones to the version
//! that needs them ([`KeyVersions::keep_row`]).

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use hobt_base::{HobtId, Stamp};
use hobt_page::RowImage;
use parking_lot::{Mutex, RwLock};

use super::Before;
use crate::Snapshot;

#[derive(Debug)]
struct KeyVersion {
    writer: Stamp,
    before: Before,
    /// How many changes of the writer stand; what all of them tell of has been undone if none does.
    changes: u32,
}

/// By key its versions, the oldest first.
type TreeVersions = BTreeMap<Arc<[u8]>, Vec<KeyVersion>>;

/// The versions of all trees of a database.
#[derive(Debug, Default)]
pub(super) struct KeyVersions {
    trees: RwLock<HashMap<HobtId, Mutex<TreeVersions>>>,
}

/// What stood in a row's place before the oldest change that is not seen; `None` if what stands there is seen.
fn before_unseen<'v>(versions: &'v [KeyVersion], snapshot: &Snapshot) -> Option<&'v Before> {
    let unseen = versions.iter().rev().take_while(|version| !snapshot.sees(version.writer));
    unseen.last().map(|version| &version.before)
}

impl KeyVersions {
    /// Adds a version, unless the writer has one of this key; its key then.
    pub(super) fn put(&self, writer: Stamp, hobt: HobtId, key: &[u8], before: Before) -> Option<Arc<[u8]>> {
        let add = |tree: &mut TreeVersions| {
            let version = KeyVersion { writer, before, changes: 1 };
            if let Some(versions) = tree.get_mut(key) {
                if let Some(own) = versions.last_mut().filter(|version| version.writer == writer) {
                    own.changes += 1;
                    return None;
                }
                versions.push(version);
                return Some(tree.get_key_value(key).expect("just looked at").0.clone());
            }
            let key: Arc<[u8]> = key.into();
            tree.insert(Arc::clone(&key), vec![version]);
            Some(key)
        };
        {
            let trees = self.trees.read();
            if let Some(tree) = trees.get(&hobt) {
                return add(&mut tree.lock());
            }
        }
        add(self.trees.write().entry(hobt).or_default().get_mut())
    }

    /// Puts a deleted row's values into the versions that say that it was there, before others take their place.
    pub(super) fn keep_row(&self, hobt: HobtId, key: &[u8], row: &RowImage) {
        let trees = self.trees.read();
        let Some(tree) = trees.get(&hobt) else { return };
        let mut tree = tree.lock();
        let Some(versions) = tree.get_mut(key) else { return };
        let mut kept = None;
        for version in versions.iter_mut().filter(|version| version.before == Before::Present) {
            version.before = Before::Row(Arc::clone(kept.get_or_insert_with(|| Arc::new(row.clone()))));
        }
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
        let Some(tree) = trees.get(&hobt) else { return Vec::new() };
        let bounds = (Bound::Included(low), high.map_or(Bound::Unbounded, Bound::Excluded));
        if high.is_some_and(|high| high <= low) {
            return Vec::new();
        }
        let tree = tree.lock();
        let changed = tree.range::<[u8], _>(bounds).filter_map(|(key, versions)| {
            before_unseen(versions, snapshot).map(|before| (Arc::clone(key), before.clone()))
        });
        changed.collect()
    }

    /// See [`super::VersionStore::key_change`].
    pub(super) fn change(&self, hobt: HobtId, key: &[u8], snapshot: &Snapshot) -> Option<Before> {
        let trees = self.trees.read();
        let tree = trees.get(&hobt)?.lock();
        before_unseen(tree.get(key)?, snapshot).cloned()
    }

    pub(super) fn has(&self, hobt: HobtId, key: &[u8]) -> bool {
        self.trees.read().get(&hobt).is_some_and(|tree| tree.lock().contains_key(key))
    }

    /// See [`super::VersionStore::undone_key`].
    pub(super) fn undone(&self, writer: Stamp, hobt: HobtId, key: &[u8]) {
        let trees = self.trees.read();
        let Some(tree) = trees.get(&hobt) else { return };
        let mut tree = tree.lock();
        let own = tree.get_mut(key).and_then(|versions| versions.iter_mut().rfind(|version| version.writer == writer));
        if let Some(own) = own {
            own.changes = own.changes.saturating_sub(1);
        }
    }

    /// See [`super::VersionStore::is_key_changed`].
    pub(super) fn is_changed(&self, hobt: HobtId, key: &[u8], snapshot: &Snapshot) -> bool {
        let trees = self.trees.read();
        let Some(tree) = trees.get(&hobt) else { return false };
        let tree = tree.lock();
        let last = tree.get(key).and_then(|versions| versions.iter().rfind(|version| version.changes > 0));
        last.is_some_and(|version| !snapshot.sees(version.writer))
    }

    /// Forgets what a transaction had put.
    pub(super) fn forget(&self, writer: Stamp, keys: &[(HobtId, Arc<[u8]>)]) {
        let mut emptied = Vec::new();
        {
            let trees = self.trees.read();
            for (hobt, key) in keys {
                let Some(tree) = trees.get(hobt) else { continue };
                let mut tree = tree.lock();
                let Some(versions) = tree.get_mut(key) else { continue };
                versions.retain(|version| version.writer != writer);
                if versions.is_empty() {
                    tree.remove(key);
                    if tree.is_empty() {
                        emptied.push(*hobt);
                    }
                }
            }
        }
        for hobt in emptied {
            if let Entry::Occupied(mut entry) = self.trees.write().entry(hobt)
                && entry.get_mut().get_mut().is_empty()
            {
                entry.remove();
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        let of_tree = |tree: &Mutex<TreeVersions>| tree.lock().values().map(Vec::len).sum::<usize>();
        self.trees.read().values().map(of_tree).sum()
    }

    pub(super) fn bytes(&self) -> usize {
        let of_key = |(key, versions): (&Arc<[u8]>, &Vec<KeyVersion>)| {
            let of_version = |version: &KeyVersion| size_of::<KeyVersion>() + version.before.row_bytes();
            key.len() + size_of::<Arc<[u8]>>() + versions.iter().map(of_version).sum::<usize>()
        };
        let of_tree = |tree: &Mutex<TreeVersions>| tree.lock().iter().map(of_key).sum::<usize>();
        self.trees.read().values().map(of_tree).sum()
    }
}
