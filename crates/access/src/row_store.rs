//! The store of one partition of a table or index: a heap or a B+tree.

use std::sync::Arc;

use crate::{BTree, Hobt};

/// A heap or a B+tree.
#[derive(Clone, Debug)]
pub enum RowStore {
    /// Rows in no order, found by RID.
    Heap(Arc<Hobt>),
    /// Rows in the order of a key, found by the key.
    Tree(Arc<BTree>),
}

impl RowStore {
    /// Its runs, counts and long values.
    pub fn hobt(&self) -> &Arc<Hobt> {
        match self {
            RowStore::Heap(hobt) => hobt,
            RowStore::Tree(tree) => tree.hobt(),
        }
    }

    /// The tree; `None` for a heap.
    pub fn tree(&self) -> Option<&Arc<BTree>> {
        match self {
            RowStore::Heap(_) => None,
            RowStore::Tree(tree) => Some(tree),
        }
    }
}
