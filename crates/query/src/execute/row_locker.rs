//! A table's rows locked one by one as they are read, and read again where somebody has changed them; and those that others have
//! put into a tree meanwhile.

use std::collections::HashSet;
use std::sync::Arc;

use hobt_access::{BTree, KeyOfRange, KeyRange, KeysOfRange, RowStore};
use hobt_base::{PageId, SqlError};
use hobt_catalog::{IndexKind, Table};
use hobt_engine::{RowAt, current_row};
use hobt_page::{PageDamage, PageHeader, RowPage};
use hobt_txn::locks::{LockMode, LockResource};
use hobt_txn::{RowLocks, Snapshot};
use hobt_types::Value;

use super::row_lock::{lock_error, snapshot_conflict};
use super::seek_exec::damaged;
use super::statement::StatementRun;
use crate::access_path::{AccessPath, SeekPath};
use crate::source::{HeapTable, RowReading};

/// What locks a table's rows, and reads them again.
pub(super) struct RowLocker {
    table: Arc<HeapTable>,
    run: Arc<StatementRun>,
    reading: RowReading,
    path: AccessPath,
    stores: Vec<RowStore>,
    /// `None` where the table is locked as a whole.
    locks: Option<Arc<RowLocks>>,
    view: Option<Arc<Snapshot>>,
    /// Rows that were not as they were seen, where the path may come to a row by more than one way.
    met: HashSet<RowAt>,
}

/// What becomes of a row.
pub(super) enum Locked {
    /// It is as it was seen.
    AsSeen,
    /// It is somebody else's, or gone.
    LeftOut,
    /// It has these values now, and lies there.
    Changed(Vec<Value>, RowAt),
}

impl RowLocker {
    /// For a scan or seek that reaches its rows by `path`.
    ///
    /// # Errors
    /// The table cannot be opened.
    pub(super) fn new(
        table: &Arc<HeapTable>,
        run: &Arc<StatementRun>,
        reading: RowReading,
        path: &AccessPath,
    ) -> Result<RowLocker, SqlError> {
        let stores = table.stores()?;
        let hobt = stores[0].hobt();
        let locks = run.context.row_locks(hobt.storage().database_tag(), hobt.id());
        // Of the same moment as the scan's, or older: then a row is looked at once more for nothing.
        let view = run.context.view();
        let (table, run, path) = (Arc::clone(table), Arc::clone(run), path.clone());
        Ok(RowLocker { table, run, reading, path, stores, locks, view, met: HashSet::new() })
    }

    /// The table.
    pub(super) fn table(&self) -> &Table {
        self.table.table()
    }

    fn is_changed(&self, at: &RowAt) -> bool {
        let Some(view) = &self.view else { return false };
        let hobt = self.stores[at.partition()].hobt();
        let versions = hobt.storage().versions();
        match at {
            RowAt::Heap { page, slot, .. } => versions.is_changed(*page, *slot, view),
            RowAt::Tree { key, .. } => versions.is_key_changed(hobt.id(), key, view),
        }
    }

    /// Locks the ranges that are read, if no row may come into them: every key in them, and the first behind. Looks again until
    /// it meets no key that it has not locked; who puts one there meanwhile is waited for.
    ///
    /// # Errors
    /// 1205, 1222, 3617; a page is damaged or cannot be read.
    pub(super) fn lock_ranges(&self) -> Result<(), SqlError> {
        let (Some(mode), Some(locks)) = (self.reading.range, &self.locks) else { return Ok(()) };
        match &self.path {
            AccessPath::Scan { partitions } => {
                let mut trees = partitions.iter().filter_map(|place| self.stores[*place].tree());
                trees.try_for_each(|tree| self.lock_range(locks, tree, &KeyRange::all(), (mode, false)))
            }
            AccessPath::Seek(path) => {
                let is_unique = self.table().indexes[path.index].options.is_unique;
                let mut ranges =
                    path.trees.iter().flat_map(|(_, tree)| path.ranges.iter().map(move |range| (tree, range)));
                ranges.try_for_each(|(tree, range)| self.lock_range(locks, tree, range, (mode, is_unique)))
            }
        }
    }

    fn lock_range(
        &self,
        locks: &RowLocks,
        tree: &Arc<BTree>,
        range: &KeyRange,
        (mode, is_unique): (LockMode, bool),
    ) -> Result<(), SqlError> {
        let is_cancelled = || self.run.is_cancelled();
        let alone = match mode {
            LockMode::RangeSharedShared => LockMode::Shared,
            LockMode::RangeSharedUpdate => LockMode::Update,
            _ => LockMode::Exclusive,
        };
        locks.locks_ranges_of(tree.hobt().range_lockers());
        let mut found = Vec::new();
        loop {
            let mut is_new = false;
            let mut keys = KeysOfRange::new(Arc::clone(tree), range, is_unique);
            while keys.next(&mut found).map_err(|error| self.table.sql_error(error))? {
                for KeyOfRange { key, is_all } in found.drain(..) {
                    let mode = if is_all { alone } else { mode };
                    let locked = locks.lock_key(tree.hobt().id(), key, mode, &is_cancelled);
                    is_new |= locked.map_err(|error| lock_error(self.run.context.session(), error))?;
                    locks.escalate_if_due();
                }
                if is_cancelled() {
                    return Err(SqlError::cancelled());
                }
            }
            if !is_new {
                return Ok(());
            }
        }
    }

    /// Whether a row that does not fulfil the conditions as it was seen is to be looked at: somebody is changing it.
    pub(super) fn may_come_to_be_wanted(&self, at: &RowAt) -> bool {
        !self.reading.skips_locked && !self.reading.is_of_snapshot && self.is_changed(at)
    }

    /// Where a row went that has left its place.
    fn moved_to(&self, at: &RowAt) -> Option<RowAt> {
        let RowAt::Heap { partition, page, slot } = at else { return None };
        let versions = self.stores[*partition].hobt().storage().versions();
        let (page, slot) = versions.moved_to(*page, *slot, self.view.as_ref()?)?;
        Some(RowAt::Heap { partition: *partition, page, slot })
    }

    /// Locks a row, waiting for those in the way; `false` if it is to be left out.
    fn lock(&self, at: &RowAt, taken: &mut Vec<LockResource>) -> Result<bool, SqlError> {
        let Some(locks) = &self.locks else { return Ok(true) };
        let hobt = self.stores[at.partition()].hobt().id();
        if self.reading.skips_locked {
            return Ok(locks.try_lock(hobt, at.id(), self.reading.mode, taken));
        }
        let locked = locks.lock(hobt, at.id(), self.reading.mode, &|| self.run.is_cancelled(), taken);
        locked.map_err(|error| lock_error(self.run.context.session(), error))?;
        Ok(true)
    }

    /// Locks a row, and looks at it again if somebody has changed it. What `taken` has is to be released, unless it is kept.
    pub(super) fn row(&mut self, mut at: RowAt, taken: &mut Vec<LockResource>) -> Result<Locked, SqlError> {
        if !self.reading.is_kept && self.reading.mode == LockMode::Shared && !self.is_changed(&at) {
            return Ok(Locked::AsSeen);
        }
        if !self.lock(&at, taken)? {
            return Ok(Locked::LeftOut);
        }
        if !self.is_changed(&at) {
            return Ok(Locked::AsSeen);
        }
        if self.reading.is_of_snapshot {
            return Err(snapshot_conflict(self.table.database(), &self.table.table().name));
        }
        if self.is_met_twice() && !self.met.insert(at.clone()) {
            return Ok(Locked::LeftOut);
        }
        loop {
            if let Some(values) = self.values(&at)? {
                return Ok(Locked::Changed(values, at));
            }
            match self.moved_to(&at) {
                Some(to) => at = to,
                None => return Ok(Locked::LeftOut),
            }
            if !self.lock(&at, taken)? {
                return Ok(Locked::LeftOut);
            }
        }
    }

    /// The values of a row as they stand; `None` if it is gone.
    pub(super) fn values(&self, at: &RowAt) -> Result<Option<Vec<Value>>, SqlError> {
        current_row(self.table(), &self.stores, at).map_err(|error| self.table.sql_error(error))
    }

    /// Whether a row can be met in two places of the path: one where it was, and one where it is.
    fn is_met_twice(&self) -> bool {
        matches!(&self.path, AccessPath::Seek(path) if self.table().indexes[path.index].kind == IndexKind::Nonclustered)
    }

    /// The row is shown, or not: its lock stays, or goes.
    pub(super) fn done(&self, is_shown: bool, taken: &[LockResource]) {
        let Some(locks) = &self.locks else { return };
        if is_shown && self.reading.is_kept {
            locks.escalate_if_due();
        } else if !taken.is_empty() {
            locks.release(taken);
        }
    }

    /// Where rows of a tree are that have come into the path since the snapshot, or are about to.
    ///
    /// # Errors
    /// A page is damaged or cannot be read.
    pub(super) fn inserted_since(&self) -> Result<Vec<RowAt>, SqlError> {
        let Some(view) = self.view.as_deref().filter(|_| !self.reading.is_of_snapshot && self.locks.is_some()) else {
            return Ok(Vec::new());
        };
        let mut rows = Vec::new();
        match &self.path {
            AccessPath::Scan { partitions } => {
                let trees = partitions.iter().filter_map(|place| Some((*place, self.stores[*place].tree()?)));
                trees.for_each(|(place, tree)| rows.extend(inserted_into(place, tree, &KeyRange::all(), view)));
            }
            AccessPath::Seek(path) => {
                for (place, tree) in &path.trees {
                    for range in &path.ranges {
                        let came = inserted_into(*place, tree, range, view);
                        match self.is_met_twice() {
                            true => came.map(|entry| self.row_of_entry(path, tree, &entry)).try_for_each(|row| {
                                rows.extend(row?);
                                Ok::<_, SqlError>(())
                            })?,
                            false => rows.extend(came),
                        }
                    }
                }
            }
        }
        Ok(rows)
    }

    /// The row of the table to which an entry of an index refers; `None` if the entry is gone, or the table is a heap.
    fn row_of_entry(&self, path: &SeekPath, index: &BTree, entry: &RowAt) -> Result<Option<RowAt>, SqlError> {
        let RowAt::Tree { partition, key } = entry else { return Ok(None) };
        let mut id = PageId::default();
        let found = index.find(key, |page, slot| {
            id = PageHeader::read(page.bytes()).map_or(id, |header| header.page);
            self.reference(path, *partition, page, usize::from(slot.0))
        });
        let found = found.map_err(|error| self.table.sql_error(error))?.transpose();
        found.map(Option::flatten).map_err(|damage| self.table.sql_error(damaged(index.hobt(), id, damage)))
    }

    /// To which row the entry in a slot of an index's leaf refers.
    fn reference(
        &self,
        path: &SeekPath,
        partition: usize,
        page: &RowPage<'_>,
        slot: usize,
    ) -> Result<Option<RowAt>, PageDamage> {
        let broken = |rule| PageDamage::Structure { rule };
        let partition = match path.leaf.base_partition {
            Some(column) => {
                let number = page.value(column, slot)?.and_then(|bytes| bytes.try_into().ok()).map(i32::from_le_bytes);
                let number = number.and_then(|number| usize::try_from(number).ok());
                number.ok_or_else(|| broken("the partition of a row"))?
            }
            None if self.stores.len() == 1 => 0,
            None => partition,
        };
        let store = self.stores.get(partition).ok_or_else(|| broken("the partition of a row"))?;
        let Some(tree) = store.tree() else { return Ok(None) };
        let values = path.leaf.reference.iter().map(|&column| page.value(column, slot));
        let mut key = Vec::new();
        let encoded = tree.key().encode_prefix(&values.collect::<Result<Vec<_>, _>>()?, &mut key);
        encoded.map_err(|_| broken("the reference of a row"))?;
        Ok(Some(RowAt::Tree { partition, key }))
    }
}

/// The places of keys that have come into a range of a tree.
fn inserted_into(
    partition: usize,
    tree: &BTree,
    range: &KeyRange,
    view: &Snapshot,
) -> impl Iterator<Item = RowAt> + use<> {
    tree.unseen_inserts(range, view).into_iter().map(move |key| RowAt::Tree { partition, key: key.to_vec() })
}
