//! Rows of a table that other transactions have changed, and that a path through one of its indexes leads to, or would
//! lead to by now.
//!
//! A statement's snapshot shows what had committed. Later changes, committed or not, are in the version store: those of
//! the table's own rows, and those of the entries of the index that is read.

use std::sync::Arc;

use hobt_access::scan::RowPlace;
use hobt_access::{BTree, KeyRange, RowStore};
use hobt_base::{PageId, SqlError, Stamp};
use hobt_catalog::{IndexKind, IndexLeaf, Table};
use hobt_engine::{RowAt, current_row};
use hobt_instruments::planted::{self, Bug};
use hobt_page::{ColumnValue, PageDamage, PageHeader, RowPage};
use hobt_txn::{Before, Snapshot};
use hobt_types::Value;

use hobt_table::{AccessPath, SeekPath, TableRead};

/// A path to a table's rows, and the changes that a snapshot does not see.
pub(super) struct PathRows {
    table: Arc<TableRead>,
    path: AccessPath,
    stores: Vec<RowStore>,
    /// `None` if all current rows are visible.
    view: Option<Arc<Snapshot>>,
}

impl PathRows {
    /// For a reader with the snapshot `view` that reaches the table's rows by `path`.
    ///
    /// # Errors
    /// The table cannot be opened.
    pub(super) fn new(
        table: &Arc<TableRead>,
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

    /// Whether a row was changed by a transaction that the snapshot does not see, and the change was not rolled back.
    ///
    /// # Errors
    /// Versions cannot be read, or were given up.
    pub(super) fn is_changed(&self, at: &RowAt) -> Result<bool, SqlError> {
        Ok(self.changed_by(at)?.is_some())
    }

    /// The transaction that has written a row's current state, if the snapshot does not see it.
    ///
    /// # Errors
    /// As [`PathRows::is_changed`].
    pub(super) fn changed_by(&self, at: &RowAt) -> Result<Option<Stamp>, SqlError> {
        let Some(view) = self.view.as_ref() else { return Ok(None) };
        let hobt = self.stores[at.partition()].hobt();
        let versions = hobt.storage().versions();
        let changed = match at {
            RowAt::Heap { page, slot, .. } => versions.changed_by(hobt.at(*page), *slot, view),
            RowAt::Tree { key, .. } => versions.key_changed_by(hobt.id(), key, view),
        };
        changed.map_err(|error| self.table.sql_error(error.into()))
    }

    /// The current position of a row that has moved.
    ///
    /// # Errors
    /// As [`PathRows::is_changed`].
    pub(super) fn moved_to(&self, at: &RowAt) -> Result<Option<RowAt>, SqlError> {
        let (RowAt::Heap { partition, page, slot }, Some(view)) = (at, self.view.as_ref()) else { return Ok(None) };
        let hobt = self.stores[*partition].hobt();
        let moved = hobt.storage().versions().moved_to(hobt.at(*page), *slot, view);
        let moved = moved.map_err(|error| self.table.sql_error(error.into()))?;
        Ok(moved.map(|(page, slot)| RowAt::Heap { partition: *partition, page, slot }))
    }

    /// The current values of a row; `None` if it is gone.
    pub(super) fn values(&self, at: &RowAt) -> Result<Option<Vec<Value>>, SqlError> {
        current_row(self.table(), &self.stores, at).map_err(|error| self.table.sql_error(error))
    }

    /// The path, if it goes through a nonclustered index: its entries are inserted and deleted separately from the
    /// rows.
    pub(super) fn by_entries(&self) -> Option<&SeekPath> {
        match &self.path {
            AccessPath::Seek(path) if self.table().indexes[path.index].kind == IndexKind::Nonclustered => Some(path),
            _ => None,
        }
    }

    /// Positions of rows that were inserted into the path since the snapshot, or are being inserted. A row may be named
    /// twice.
    ///
    /// # Errors
    /// A page is damaged or cannot be read.
    pub(super) fn inserted(&self) -> Result<Vec<CameIn>, SqlError> {
        self.unseen(true)
    }

    /// Positions of rows that the path leads to, or would lead to, and that a transaction invisible to the snapshot has
    /// changed or is changing. For a path by entries these are only the rows that new entries lead to; the rows of
    /// visible entries have to be checked one by one.
    ///
    /// # Errors
    /// A page is damaged or cannot be read.
    pub(super) fn changed(&self) -> Result<Vec<RowAt>, SqlError> {
        Ok(self.unseen(self.by_entries().is_some())?.into_iter().map(|came| came.at).collect())
    }

    fn unseen(&self, inserts_only: bool) -> Result<Vec<CameIn>, SqlError> {
        let Some(view) = self.view.as_deref() else { return Ok(Vec::new()) };
        let mut rows = Vec::new();
        let failed = |error| self.table.sql_error(error);
        let in_tree = |tree: &BTree, range: &KeyRange, partition: usize| {
            let keys = tree.unseen_keys(range, view).map_err(failed)?.into_iter();
            let wanted = keys.filter(move |(_, before)| !inserts_only || *before == Before::Absent);
            Ok::<_, SqlError>(wanted.map(move |(key, _)| CameIn::new(RowAt::Tree { partition, key: key.to_vec() })))
        };
        match &self.path {
            AccessPath::Scan { partitions } => {
                for &partition in partitions {
                    match &self.stores[partition] {
                        RowStore::Tree(tree) => rows.extend(in_tree(tree, &KeyRange::all(), partition)?),
                        RowStore::Heap(heap) => {
                            let places = heap.unseen_rows(view, inserts_only).map_err(failed)?.into_iter();
                            let row = |(page, slot)| CameIn::new(RowAt::Heap { partition, page, slot });
                            rows.extend(places.map(row));
                        }
                    }
                }
            }
            AccessPath::Seek(path) => {
                let ranges = path.trees.iter().flat_map(|tree| path.ranges.iter().map(move |range| (tree, range)));
                for ((partition, tree), range) in ranges {
                    match self.by_entries() {
                        Some(path) => self.come_by_entries(path, (*partition, tree), range, &mut rows)?,
                        None => rows.extend(in_tree(tree, range, *partition)?),
                    }
                }
            }
        }
        Ok(rows)
    }

    /// Adds the rows that entries of an index range lead to now, if the snapshot's entries lead elsewhere or are
    /// missing. A unique index keeps the entry of a key whose row moves to another position, or is deleted and inserted
    /// again.
    fn come_by_entries(
        &self,
        path: &SeekPath,
        (partition, index): (usize, &BTree),
        range: &KeyRange,
        rows: &mut Vec<CameIn>,
    ) -> Result<(), SqlError> {
        let view = self.view.as_deref().expect("a path that shows all that stands is not asked");
        for (key, before) in index.unseen_keys(range, view).map_err(|error| self.table.sql_error(error))? {
            let led_to = match &before {
                // The current entry, if there is one, is the one that the snapshot sees.
                Before::Present => continue,
                Before::Absent => None,
                Before::Row(entry) => {
                    let value = |column: usize| Ok(entry.value(column));
                    let row = reference_of(&path.leaf, &self.stores, partition, &value, Vec::new());
                    let damaged = |damage| self.table.sql_error(index.hobt().damaged(index.root(), damage));
                    Some(row.map_err(damaged)?)
                }
            };
            if led_to.is_some() && planted::has(Bug::EntriesNotFollowed) {
                continue;
            }
            let Some(at) = self.row_of_entry(path, (partition, index), &key)? else { continue };
            if led_to.as_ref() != Some(&at) {
                let is_unique = self.table().indexes[path.index].options.is_unique;
                debug_assert!(
                    led_to.is_none() || is_unique,
                    "an entry of another index has its row's place in its key"
                );
                rows.push(CameIn { at, instead_of: led_to });
            }
        }
        Ok(())
    }

    /// The row of the table that an entry of an index refers to; `None` if the entry is gone. A deleted entry counts:
    /// the transaction that is deleting it and its row may roll back. The row's lock tells.
    fn row_of_entry(
        &self,
        path: &SeekPath,
        (partition, index): (usize, &BTree),
        key: &[u8],
    ) -> Result<Option<RowAt>, SqlError> {
        let mut id = PageId::default();
        let found = index.find_or_deleted(key, |page, slot| {
            id = PageHeader::read(page.bytes()).map_or(id, |header| header.page);
            reference(&path.leaf, &self.stores, partition, (page, usize::from(slot.0)), Vec::new())
        });
        let found = found.map_err(|error| self.table.sql_error(error))?.transpose();
        found.map_err(|damage| self.table.sql_error(index.hobt().damaged(id, damage)))
    }
}

/// A row that a path leads to now but did not for the snapshot.
#[derive(Clone, Debug)]
pub(super) struct CameIn {
    pub(super) at: RowAt,
    /// For a unique index, the row that the entry leads to for the snapshot.
    pub(super) instead_of: Option<RowAt>,
}

impl CameIn {
    fn new(at: RowAt) -> CameIn {
        CameIn { at, instead_of: None }
    }
}

/// The row of a table that an entry of an index leaf refers to, by its slot. The entry is in the index's partition
/// `partition`, `stores` are the table's heaps or trees, and `key` is a buffer for a key.
///
/// # Errors
/// The entry refers to nothing.
pub(super) fn reference(
    leaf: &IndexLeaf,
    stores: &[RowStore],
    partition: usize,
    (page, slot): (&RowPage<'_>, usize),
    key: Vec<u8>,
) -> Result<RowAt, PageDamage> {
    reference_of(leaf, stores, partition, &|column| page.value(column, slot), key)
}

/// The row that an entry with these values refers to; see [`reference`].
fn reference_of<'e>(
    leaf: &IndexLeaf,
    stores: &[RowStore],
    partition: usize,
    value: &dyn Fn(usize) -> Result<ColumnValue<'e>, PageDamage>,
    mut key: Vec<u8>,
) -> Result<RowAt, PageDamage> {
    let broken = |rule| PageDamage::Structure { rule };
    let partition = match leaf.base_partition {
        Some(column) => {
            let number = value(column)?.and_then(|bytes| bytes.try_into().ok()).map(i32::from_le_bytes);
            let number = number.and_then(|number| usize::try_from(number).ok());
            number.ok_or_else(|| broken("the partition of a row"))?
        }
        None if stores.len() == 1 => 0,
        None => partition,
    };
    match stores.get(partition).ok_or_else(|| broken("the partition of a row"))? {
        RowStore::Heap(_) => {
            let id = value(leaf.reference[0])?.and_then(|bytes| bytes.try_into().ok());
            let id = id.map(i64::from_le_bytes).ok_or_else(|| broken("the reference of a row"))?;
            let narrow = u32::try_from(partition).expect("at most 15,000 partitions");
            let RowPlace { page, slot, .. } = RowPlace::of_row_id(narrow, id);
            Ok(RowAt::Heap { partition, page, slot })
        }
        RowStore::Tree(tree) => {
            let values = leaf.reference.iter().map(|&column| value(column));
            key.clear();
            let encoded = tree.key().encode_prefix(&values.collect::<Result<Vec<_>, _>>()?, &mut key);
            encoded.map_err(|_| broken("the reference of a row"))?;
            Ok(RowAt::Tree { partition, key })
        }
    }
}
