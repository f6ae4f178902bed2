//! Where versions are found, in memory and on disk: at a page of a heap, or at a key of a tree.

use super::coding;
use super::facts::{HeapPage, TreeName};
use super::history::History;
use super::keys::VersionsOfKey;
use super::pages::PageVersions;
use super::tables::Tables;

/// Where versions are found.
pub(super) trait Place: Copy {
    type History: History;

    /// Shows the versions here in a generation in memory, if there are any.
    fn show<R>(self, tables: &Tables, show: impl FnOnce(&mut Self::History) -> R) -> Option<R>;

    /// Changes the versions here in a generation in memory, also if there are none yet.
    fn change<R>(self, tables: &Tables, change: impl FnOnce(&mut Self::History) -> R) -> R;

    /// Appends the place's bytes, by which a run is sorted.
    fn put(self, out: &mut Vec<u8>);

    /// Bytes of memory that a new entry takes for the place.
    fn bytes(self) -> usize;
}

impl Place for HeapPage {
    type History = PageVersions;

    fn show<R>(self, tables: &Tables, show: impl FnOnce(&mut PageVersions) -> R) -> Option<R> {
        tables.with_page(self, show)
    }

    fn change<R>(self, tables: &Tables, change: impl FnOnce(&mut PageVersions) -> R) -> R {
        tables.change_page(self, change)
    }

    fn put(self, out: &mut Vec<u8>) {
        coding::put_page(out, self);
    }

    fn bytes(self) -> usize {
        0
    }
}

/// A key of a tree.
#[derive(Clone, Copy)]
pub(super) struct KeyAt<'k> {
    pub(super) tree: TreeName,
    pub(super) key: &'k [u8],
}

impl Place for KeyAt<'_> {
    type History = VersionsOfKey;

    fn show<R>(self, tables: &Tables, show: impl FnOnce(&mut VersionsOfKey) -> R) -> Option<R> {
        tables.with_key(self.tree, self.key, show)
    }

    fn change<R>(self, tables: &Tables, change: impl FnOnce(&mut VersionsOfKey) -> R) -> R {
        tables.change_key(self.tree, self.key, change)
    }

    fn put(self, out: &mut Vec<u8>) {
        coding::put_key(out, self.tree, self.key);
    }

    fn bytes(self) -> usize {
        self.key.len()
    }
}
