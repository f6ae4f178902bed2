//! Rows of a table that others have changed and that a path through one of its indexes leads to, or would lead to by
//! now.
//!
//! A statement's snapshot shows what had committed. What has happened since, committed or not, is in the versions
//! beside the pages: of the table's own rows, and of the entries of the index that is read.

use std::sync::Arc;

use hobt_access::scan::RowPlace;
use hobt_access::{BTree, KeyRange, RowStore};
use hobt_base::{PageId, SqlError};
use hobt_catalog::{IndexKind, IndexLeaf, Table};
use hobt_engine::{RowAt, current_row};
use hobt_page::{PageDamage, PageHeader, RowPage};
use hobt_txn::Snapshot;
use hobt_types::Value;

use crate::access_path::{AccessPath, SeekPath};
use crate::source::HeapTable;

/// A path to a table's rows, and what a snapshot does not see of them.
pub(super) struct PathRows {
    table: Arc<HeapTable>,
    path: AccessPath,
    stores: Vec<RowStore>,
    /// `None` where everything that stands is seen.
    view: Option<Arc<Snapshot>>,
}

impl PathRows {
    /// For who sees `view` of a table that he reaches by `path`.
    ///
    /// # Errors
    /// The table cannot be opened.
    pub(super) fn new(
        table: &Arc<HeapTable>,
        path: &AccessPath,
        view: Option<Arc<Snapshot>>,
    ) -> Result<PathRows, SqlError> {
        let stores = table.stores()?;
        Ok(PathRows { table: Arc::clone(table), path: path.clone(), stores, view })
    }

    /// The table.
    pub(super) fn table(&self) -> &Table {
        self.table.table()
    }

    /// The heaps or trees of the table's partitions.
    pub(super) fn stores(&self) -> &[RowStore] {
        &self.stores
    }

    /// How the rows are reached.
    pub(super) fn path(&self) -> &AccessPath {
        &self.path
    }

    /// Whether somebody who is not seen has changed a row, and the change stands.
    pub(super) fn is_changed(&self, at: &RowAt) -> bool {
        let Some(view) = &self.view else { return false };
        let hobt = self.stores[at.partition()].hobt();
        let versions = hobt.storage().versions();
        match at {
            RowAt::Heap { page, slot, .. } => versions.is_changed(*page, *slot, view),
            RowAt::Tree { key, .. } => versions.is_key_changed(hobt.id(), key, view),
        }
    }

    /// Where a row went that has left its place.
    pub(super) fn moved_to(&self, at: &RowAt) -> Option<RowAt> {
        let RowAt::Heap { partition, page, slot } = at else { return None };
        let versions = self.stores[*partition].hobt().storage().versions();
        let (page, slot) = versions.moved_to(*page, *slot, self.view.as_ref()?)?;
        Some(RowAt::Heap { partition: *partition, page, slot })
    }

    /// The values of a row as they stand; `None` if it is gone.
    pub(super) fn values(&self, at: &RowAt) -> Result<Option<Vec<Value>>, SqlError> {
        current_row(self.table(), &self.stores, at).map_err(|error| self.table.sql_error(error))
    }

    /// The path where it leads through another index than the one that has the rows: its entries come and go apart from
    /// them.
    pub(super) fn by_entries(&self) -> Option<&SeekPath> {
        match &self.path {
            AccessPath::Seek(path) if self.table().indexes[path.index].kind == IndexKind::Nonclustered => Some(path),
            _ => None,
        }
    }

    /// Where rows are that have come into the path since the snapshot, or are about to. A row may be named twice.
    ///
    /// # Errors
    /// A page is damaged or cannot be read.
    pub(super) fn inserted(&self) -> Result<Vec<RowAt>, SqlError> {
        self.unseen(true)
    }

    /// Where rows are to which the path leads or would lead, and that somebody who is not seen has changed or is about
    /// to. Of a path by entries those whose entries have come; behind the entries that are seen the rows have to be
    /// asked for one by one.
    ///
    /// # Errors
    /// A page is damaged or cannot be read.
    pub(super) fn changed(&self) -> Result<Vec<RowAt>, SqlError> {
        self.unseen(self.by_entries().is_some())
    }

    fn unseen(&self, inserts_only: bool) -> Result<Vec<RowAt>, SqlError> {
        let Some(view) = self.view.as_deref() else { return Ok(Vec::new()) };
        let mut rows = Vec::new();
        match &self.path {
            AccessPath::Scan { partitions } => {
                for &partition in partitions {
                    match &self.stores[partition] {
                        RowStore::Tree(tree) => {
                            let keys = tree.unseen_keys(&KeyRange::all(), view, inserts_only).into_iter();
                            rows.extend(keys.map(|key| RowAt::Tree { partition, key: key.to_vec() }));
                        }
                        RowStore::Heap(heap) => {
                            let places = heap.unseen_rows(view, inserts_only).into_iter();
                            rows.extend(places.map(|(page, slot)| RowAt::Heap { partition, page, slot }));
                        }
                    }
                }
            }
            AccessPath::Seek(path) => {
                for (partition, tree) in &path.trees {
                    for key in path.ranges.iter().flat_map(|range| tree.unseen_keys(range, view, inserts_only)) {
                        match self.by_entries() {
                            Some(path) => rows.extend(self.row_of_entry(path, (*partition, tree), &key)?),
                            None => rows.push(RowAt::Tree { partition: *partition, key: key.to_vec() }),
                        }
                    }
                }
            }
        }
        Ok(rows)
    }

    /// The row of the table to which an entry of an index refers; `None` if the entry is gone.
    fn row_of_entry(
        &self,
        path: &SeekPath,
        (partition, index): (usize, &BTree),
        key: &[u8],
    ) -> Result<Option<RowAt>, SqlError> {
        let mut id = PageId::default();
        let found = index.find(key, |page, slot| {
            id = PageHeader::read(page.bytes()).map_or(id, |header| header.page);
            reference(&path.leaf, &self.stores, partition, (page, usize::from(slot.0)), Vec::new())
        });
        let found = found.map_err(|error| self.table.sql_error(error))?.transpose();
        found.map_err(|damage| self.table.sql_error(index.hobt().damaged(id, damage)))
    }
}

/// To which row of a table the entry in a slot of an index's leaf refers. The entry is in the index's partition
/// `partition`, `stores` are the table's heaps or trees, and `key` is room for a key.
///
/// # Errors
/// The entry refers to nothing.
pub(super) fn reference(
    leaf: &IndexLeaf,
    stores: &[RowStore],
    partition: usize,
    (page, slot): (&RowPage<'_>, usize),
    mut key: Vec<u8>,
) -> Result<RowAt, PageDamage> {
    let broken = |rule| PageDamage::Structure { rule };
    let partition = match leaf.base_partition {
        Some(column) => {
            let number = page.value(column, slot)?.and_then(|bytes| bytes.try_into().ok()).map(i32::from_le_bytes);
            let number = number.and_then(|number| usize::try_from(number).ok());
            number.ok_or_else(|| broken("the partition of a row"))?
        }
        None if stores.len() == 1 => 0,
        None => partition,
    };
    match stores.get(partition).ok_or_else(|| broken("the partition of a row"))? {
        RowStore::Heap(_) => {
            let id = page.value(leaf.reference[0], slot)?.and_then(|bytes| bytes.try_into().ok());
            let id = id.map(i64::from_le_bytes).ok_or_else(|| broken("the reference of a row"))?;
            let narrow = u32::try_from(partition).expect("at most 15,000 partitions");
            let RowPlace { page, slot, .. } = RowPlace::of_row_id(narrow, id);
            Ok(RowAt::Heap { partition, page, slot })
        }
        RowStore::Tree(tree) => {
            let values = leaf.reference.iter().map(|&column| page.value(column, slot));
            key.clear();
            let encoded = tree.key().encode_prefix(&values.collect::<Result<Vec<_>, _>>()?, &mut key);
            encoded.map_err(|_| broken("the reference of a row"))?;
            Ok(RowAt::Tree { partition, key })
        }
    }
}
