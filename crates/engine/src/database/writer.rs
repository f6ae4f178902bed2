//! Changes a table's rows, in all of its indexes.
//!
//! The base, which is the heap or the clustered index, is changed first, then every nonclustered index that the change
//! affects. An update removes the old entries of all its rows before it inserts any new one, so that it may pass keys
//! from row to row. The transaction that changes a row has locked it; the current version is read.
//!
//! The parts: a row and its location (`row`), entries of nonclustered indexes (`entry`), locks of their keys
//! (`key_lock`), checks that indexes agree with their table (`check`).

mod check;
mod entry;
mod key_lock;
mod row;

use hobt_instruments::planted::{self, Bug};
use std::sync::Arc;

use hobt_access::{AccessError, BTree, BTreeError, Hobt, RowStore};
use hobt_base::{HobtId, PageId, SessionId};
use hobt_catalog::{DatabaseSnapshot, Index, IndexUse, IndexUser, LeafColumn, Table, value_from_bytes};
use hobt_page::{PageDamage, RowImage};
use hobt_txn::locks::LockError;
use hobt_txn::{Snapshot, StatementContext};
use hobt_types::Value;

use super::Database;
use super::index::may_exceed_key_bytes;
use super::statistics::RowChangeNotes;
use crate::error::Result;

pub use check::IndexMismatch;
use entry::IndexWriter;
use key_lock::{Key, insert_locked};
use row::with_uniqueifier;
pub use row::{RowAt, RowUpdate, uniqueifier_of_key, whole_row};

/// Why rows were not changed. The statement is to be undone, except for a duplicate that an insert may skip.
#[derive(Debug)]
pub enum WriteError {
    /// A unique index has a row with this key: 2601 or 2627.
    Duplicate {
        /// The index's place in the table.
        index: usize,
        /// The values of its key.
        key: Vec<Value>,
    },
    /// The key is longer than SQL Server's indexes allow: 1946.
    KeyTooLong {
        /// The index's place in the table.
        index: usize,
        /// Bytes of the key as SQL Server counts them.
        bytes: usize,
    },
    /// The key, including that of the clustered index if it contains it, is longer than fits in a page: 1946.
    EntryTooLong {
        /// The index's place in the table.
        index: usize,
        /// Bytes of the normalised key.
        bytes: usize,
    },
    /// At the transaction's snapshot a unique index had a row with this key, and another transaction has since deleted
    /// it or changed its key: 3960.
    SnapshotConflict,
    /// A lock of a key was not granted to a session.
    Lock(SessionId, LockError),
    /// Anything else.
    Storage(AccessError),
}

/// The result of a write.
type Written<T> = std::result::Result<T, WriteError>;

impl From<AccessError> for WriteError {
    fn from(error: AccessError) -> WriteError {
        WriteError::Storage(error)
    }
}

/// The indexes of a table, opened to be changed.
#[derive(Clone, Debug)]
pub struct TableWriter {
    table: Arc<Table>,
    base: Arc<[RowStore]>,
    indexes: Arc<[IndexWriter]>,
    /// For each of the table's indexes, whether a key may be longer than it allows.
    exceeding: Arc<[bool]>,
    /// Where changes are recorded for statistics.
    notes: Option<RowChangeNotes>,
}

/// What an update has taken out of a row's indexes and is to put in again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TakenOut {
    /// Where the row is now, if it is already in the base.
    pub now: Option<RowAt>,
    /// For each index besides the base, whether the row's entry was taken out.
    pub entries: Vec<bool>,
}

impl TableWriter {
    /// Opens a table's indexes.
    ///
    /// # Errors
    /// One is gone (208) or damaged.
    pub fn open(database: &Database, snapshot: &DatabaseSnapshot, table: Arc<Table>) -> Result<TableWriter> {
        let writer = TableWriter::open_with(&|hobt| database.store(hobt), snapshot, table)?;
        let notes = database.row_change_notes(snapshot, &writer.table);
        Ok(TableWriter { notes, ..writer })
    }

    /// Opens a table's indexes for reading only: the database stays clean, and nothing is recorded for statistics.
    ///
    /// # Errors
    /// As [`TableWriter::open`].
    pub fn open_to_read(database: &Database, snapshot: &DatabaseSnapshot, table: Arc<Table>) -> Result<TableWriter> {
        TableWriter::open_with(&|hobt| database.store_to_read(hobt), snapshot, table)
    }

    fn open_with(
        store: &dyn Fn(HobtId) -> Result<RowStore>,
        snapshot: &DatabaseSnapshot,
        table: Arc<Table>,
    ) -> Result<TableWriter> {
        let open =
            |index: &Index| index.partitions.iter().map(|partition| store(partition.hobt)).collect::<Result<Vec<_>>>();
        let base = open(table.base_index())?.into();
        let mut indexes = Vec::new();
        for (place, index) in table.indexes.iter().enumerate().skip(1).filter(|(_, index)| !index.options.is_disabled) {
            let leaf = table.index_leaf(index).expect("a nonclustered index has leaves");
            let trees = open(index)?;
            let trees = trees.iter().map(|store| Arc::clone(store.tree().expect("a nonclustered index is a tree")));
            let is_apart = !table.is_aligned(index) || table.base_index().partitions.len() == 1;
            let partitioning = snapshot.partitioning_of(&index.data_space).filter(|_| is_apart);
            let partitioning = partitioning.map(|(column, function)| (column, Arc::clone(function)));
            indexes.push(IndexWriter { place, leaf, trees: trees.collect(), partitioning });
        }
        let exceeding = table.indexes.iter().map(|index| may_exceed_key_bytes(&table, index)).collect();
        Ok(TableWriter { table, base, indexes: indexes.into(), exceeding, notes: None })
    }

    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The heaps or trees of the table's rows, one for each partition.
    pub fn base(&self) -> &[RowStore] {
        &self.base
    }

    /// Like this writer, but records nothing for statistics.
    #[must_use]
    pub fn without_notes(self) -> TableWriter {
        TableWriter { notes: None, ..self }
    }

    /// Where rows that do not go through this writer one by one are recorded for statistics; `None` if the table has
    /// none.
    pub fn notes(&self) -> Option<&RowChangeNotes> {
        self.notes.as_ref()
    }

    /// Counts an update of the indexes by a statement: of all indexes, or of those that contain one of the columns
    /// `changed`, given by their places in the table.
    pub fn note_update(&self, changed: Option<&[usize]>) {
        let (table, base) = (&self.table, self.table.base_index());
        let is_moved = |columns: &[usize]| base.key.iter().any(|part| columns.contains(&part.column));
        base.usage.note(IndexUse::Update, IndexUser::User);
        for index in &*self.indexes {
            let has = |column: &LeafColumn| match (column, changed) {
                (LeafColumn::Table(place), Some(columns)) => columns.contains(place),
                _ => false,
            };
            if changed.is_none_or(|columns| is_moved(columns) || index.leaf.columns.iter().any(has)) {
                table.indexes[index.place].usage.note(IndexUse::Update, IndexUser::User);
            }
        }
    }

    /// Like this writer, but maintains the heap or clustered index alone: the others are built behind it.
    #[must_use]
    pub fn without_indexes(self) -> TableWriter {
        TableWriter { indexes: Arc::default(), ..self }
    }

    /// The trees of the indexes that it maintains besides the heap or clustered index.
    pub fn index_trees(&self) -> impl Iterator<Item = &Arc<BTree>> {
        self.indexes.iter().flat_map(|index| &index.trees)
    }

    /// Whether there are indexes besides the heap or clustered index.
    pub fn has_indexes(&self) -> bool {
        !self.indexes.is_empty()
    }

    /// The heaps, if rows may be loaded directly, because there is no index to maintain.
    pub fn heaps(&self) -> Option<Vec<Arc<Hobt>>> {
        if self.has_indexes() {
            return None;
        }
        self.base.iter().map(|store| store.tree().is_none().then(|| Arc::clone(store.hobt()))).collect()
    }

    /// The current row of the clustered index with this normalised key, with its long values; `None` if there is none.
    ///
    /// # Errors
    /// A page is damaged or cannot be read.
    pub fn find(&self, partition: usize, key: &[u8]) -> Written<Option<RowImage>> {
        let hobt = self.base[partition].hobt();
        let mut page_of_row = PageId::default();
        let found = self.tree(partition).find(key, |page, slot| {
            page_of_row = hobt_page::PageHeader::read(page.bytes()).map_or(page_of_row, |header| header.page);
            page.row_image(usize::from(slot.0))
        })?;
        let Some(found) = found else { return Ok(None) };
        let row = found.map_err(|damage| self.damaged(hobt, page_of_row, damage))?;
        Ok(Some(whole_row(hobt, row)?))
    }

    /// Whether a row was changed by a transaction that is invisible to a snapshot.
    ///
    /// # Errors
    /// Versions cannot be read, or were given up.
    pub fn is_changed(&self, at: &RowAt, snapshot: &Snapshot) -> std::result::Result<bool, AccessError> {
        let hobt = self.base[at.partition()].hobt();
        let versions = hobt.storage().versions();
        Ok(match at {
            RowAt::Heap { page, slot, .. } => versions.is_changed(hobt.at(*page), *slot, snapshot)?,
            RowAt::Tree { key, .. } => versions.is_key_changed(hobt.id(), key, snapshot)?,
        })
    }

    /// Inserts a row, whose values are the table's columns in order. Returns its location.
    ///
    /// # Errors
    /// [`WriteError`]. If the row is a duplicate, nothing of it is kept.
    pub fn insert(&self, ctx: &StatementContext, partition: usize, row: &RowImage) -> Written<RowAt> {
        let at = self.insert_base(ctx, partition, row)?;
        for (done, index) in self.indexes.iter().enumerate() {
            if let Err(error) = self.insert_entry(ctx, index, &at, row) {
                if matches!(
                    error,
                    WriteError::Duplicate { .. } | WriteError::KeyTooLong { .. } | WriteError::EntryTooLong { .. }
                ) {
                    // Removes what is inserted of the row, for a statement that only skips it.
                    self.delete_base(ctx, &at)?;
                    for index in &self.indexes[..done] {
                        self.delete_entry(ctx, index, &at, row)?;
                    }
                }
                return Err(error);
            }
        }
        if let Some(notes) = &self.notes {
            notes.note(ctx, |changes| changes.inserted(partition, |column| row.value(column)));
        }
        Ok(at)
    }

    /// Deletes a row.
    ///
    /// # Errors
    /// A page is damaged or cannot be read, or the log is full.
    pub fn delete(&self, ctx: &StatementContext, at: &RowAt) -> Written<()> {
        if self.has_indexes() || self.notes.is_some() {
            let old = self.read(at)?;
            for index in &*self.indexes {
                self.delete_entry(ctx, index, at, &old)?;
            }
            if let Some(notes) = &self.notes {
                notes.note(ctx, |changes| changes.deleted(at.partition(), |column| old.value(column)));
            }
        }
        self.delete_base(ctx, at)
    }

    /// Updates rows.
    ///
    /// # Errors
    /// [`WriteError`]; the statement must be rolled back.
    pub fn update(
        &self,
        ctx: &StatementContext,
        updates: &[RowUpdate],
        is_cancelled: &mut dyn FnMut() -> bool,
    ) -> Written<()> {
        if !self.has_indexes() && !self.table.is_clustered() {
            for update in updates {
                if let Some(notes) = &self.notes {
                    let old = self.read(&update.at)?;
                    note_update(notes, ctx, update, &old);
                }
                self.replace_in_heap(ctx, update)?;
                if is_cancelled() {
                    return Ok(());
                }
            }
            return Ok(());
        }
        let mut taken_out = Vec::with_capacity(updates.len());
        for update in updates {
            if is_cancelled() {
                return Ok(());
            }
            taken_out.push(self.take_out(ctx, update)?);
        }
        for (update, taken_out) in updates.iter().zip(taken_out) {
            if is_cancelled() {
                return Ok(());
            }
            self.put_in(ctx, update, taken_out)?;
        }
        Ok(())
    }

    /// The first half of an update: puts a row's new values into the base, unless they belong elsewhere in a tree, and
    /// removes the old entries that differ from the new ones.
    ///
    /// # Errors
    /// As [`TableWriter::update`].
    pub fn take_out(&self, ctx: &StatementContext, update: &RowUpdate) -> Written<TakenOut> {
        let old = self.read(&update.at)?;
        if let Some(notes) = &self.notes {
            note_update(notes, ctx, update, &old);
        }
        let now = self.move_or_replace(ctx, update, &old)?;
        let mut entries = Vec::with_capacity(self.indexes.len());
        for index in &*self.indexes {
            let is_touched = self.touches(index, &old, &update.row, &update.at, now.as_ref());
            if is_touched && !planted::has(Bug::EntryLeft) {
                self.delete_entry(ctx, index, &update.at, &old)?;
            }
            entries.push(is_touched);
        }
        Ok(TakenOut { now, entries })
    }

    /// The second half of an update, after the first half of all rows that a statement updates: inserts what was taken
    /// out.
    ///
    /// # Errors
    /// As [`TableWriter::update`].
    pub fn put_in(&self, ctx: &StatementContext, update: &RowUpdate, taken_out: TakenOut) -> Written<()> {
        let now = match taken_out.now {
            Some(now) => now,
            None => self.insert_base(ctx, update.partition, &update.row)?,
        };
        for (index, _) in self.indexes.iter().zip(taken_out.entries).filter(|(_, is_touched)| *is_touched) {
            self.insert_entry(ctx, index, &now, &update.row)?;
        }
        Ok(())
    }

    /// Whether an update of these columns, or of unknown ones, may give a row a key that another row has before the
    /// update. If not, its rows can be updated in groups, one group after the other.
    pub fn passes_keys(&self, changed: Option<&[usize]>) -> bool {
        let is_changed =
            |index: &Index| changed.is_none_or(|changed| index.key.iter().any(|part| changed.contains(&part.column)));
        let (table, base) = (&self.table, self.table.base_index());
        let unique =
            self.indexes.iter().map(|index| &table.indexes[index.place]).filter(|index| index.options.is_unique);
        table.is_clustered() && is_changed(base) || unique.into_iter().any(is_changed)
    }

    /// Puts a row's new values into the base. If the new key belongs elsewhere in a tree, only removes the old row,
    /// because another row may have to be removed from that key first. Returns the row's location if it is in the base.
    fn move_or_replace(&self, ctx: &StatementContext, update: &RowUpdate, old: &RowImage) -> Written<Option<RowAt>> {
        let RowAt::Tree { partition, key } = &update.at else {
            return Ok(Some(self.replace_in_heap(ctx, update)?));
        };
        let tree = self.tree(*partition);
        let row = match self.uniqueifier_of(old) {
            Some(uniqueifier) => with_uniqueifier(&update.row, uniqueifier),
            None => update.row.clone(),
        };
        let new_key = tree.key_of(&row).map_err(|error| self.refusal(error, 0, &update.row))?;
        if *partition == update.partition && new_key == *key {
            let replaced = tree.replace(ctx, &row).map_err(|error| self.refusal(error, 0, &update.row))?;
            return if replaced { Ok(Some(update.at.clone())) } else { Err(self.missing(*partition)) };
        }
        self.delete_base(ctx, &update.at)?;
        Ok(None)
    }

    fn replace_in_heap(&self, ctx: &StatementContext, update: &RowUpdate) -> Written<RowAt> {
        let RowAt::Heap { partition, page, slot } = update.at else { unreachable!("a heap's rows have places") };
        if partition == update.partition {
            let (page, slot) = self.base[partition].hobt().replace(ctx, page, slot, &update.row)?;
            return Ok(RowAt::Heap { partition, page, slot });
        }
        self.base[partition].hobt().delete(ctx, page, slot)?;
        self.insert_base(ctx, update.partition, &update.row)
    }

    fn tree(&self, partition: usize) -> &Arc<BTree> {
        self.base[partition].tree().expect("a clustered index is a tree")
    }

    /// The value of the uniqueifier column of a base row, if it has one.
    fn uniqueifier_of(&self, row: &RowImage) -> Option<i32> {
        let hidden = row.value(self.table.columns.len().min(row.column_count() - 1))?;
        (row.column_count() > self.table.columns.len())
            .then(|| i32::from_le_bytes(hidden.try_into().expect("an int has four bytes")))
    }

    fn insert_base(&self, ctx: &StatementContext, partition: usize, row: &RowImage) -> Written<RowAt> {
        let tree = match &self.base[partition] {
            RowStore::Heap(heap) => {
                let (page, slot) = heap.insert(ctx, row)?;
                return Ok(RowAt::Heap { partition, page, slot });
            }
            RowStore::Tree(tree) => tree,
        };
        self.check_key_bytes(0, row)?;
        if self.table.base_index().options.is_unique {
            let key = tree.key_of(row).map_err(|error| self.refusal(error, 0, row))?;
            insert_locked(ctx, tree, Some(Key { bytes: &key, is_unique: true }), row)?
                .map_err(|error| self.refusal(error, 0, row))?;
            return Ok(RowAt::Tree { partition, key });
        }
        loop {
            // An unused number, so that no lock of another transaction is waited for.
            let uniqueifier = tree.next_uniqueifier(row).map_err(|error| self.refusal(error, 0, row))?;
            let whole = with_uniqueifier(row, uniqueifier);
            let key = tree.key_of(&whole).map_err(|error| self.refusal(error, 0, row))?;
            match insert_locked(ctx, tree, Some(Key { bytes: &key, is_unique: false }), &whole)? {
                Ok(()) => return Ok(RowAt::Tree { partition, key }),
                // Another statement has taken it meanwhile.
                Err(BTreeError::Duplicate) => {}
                Err(other) => return Err(self.refusal(other, 0, row)),
            }
        }
    }

    fn delete_base(&self, ctx: &StatementContext, at: &RowAt) -> Written<()> {
        match at {
            RowAt::Heap { partition, page, slot } => Ok(self.base[*partition].hobt().delete(ctx, *page, *slot)?),
            RowAt::Tree { partition, key } => {
                let deleted = self.tree(*partition).delete(ctx, key)?;
                if deleted { Ok(()) } else { Err(self.missing(*partition)) }
            }
        }
    }

    /// All values of a row's current version; the base's hidden columns follow the table's.
    fn read(&self, at: &RowAt) -> Written<RowImage> {
        let partition = at.partition();
        let hobt = self.base[partition].hobt();
        match at {
            // Index columns may be stored on pages of their own.
            RowAt::Heap { page, slot, .. } => Ok(whole_row(hobt, hobt.row(*page, *slot)?)?),
            RowAt::Tree { key, .. } => self.find(partition, key)?.ok_or_else(|| self.missing(partition)),
        }
    }

    fn refusal(&self, error: BTreeError, index: usize, row: &RowImage) -> WriteError {
        match error {
            BTreeError::Duplicate => {
                let key = self.table.indexes[index].key.iter().map(|part| {
                    let sql_type = self.table.columns[part.column].sql_type;
                    value_from_bytes(sql_type, row.value(part.column)).unwrap_or(Value::Null)
                });
                WriteError::Duplicate { index, key: key.collect() }
            }
            BTreeError::KeyTooLong { bytes } => WriteError::EntryTooLong { index, bytes },
            BTreeError::RangeLocked { .. } => unreachable!("it is waited for where a row is inserted"),
            BTreeError::Storage(error) => WriteError::Storage(error),
        }
    }

    fn damaged(&self, hobt: &Hobt, page: PageId, damage: PageDamage) -> WriteError {
        WriteError::Storage(hobt.damaged(page, damage))
    }

    fn missing(&self, partition: usize) -> WriteError {
        let hobt = self.base[partition].hobt();
        let damage = PageDamage::Structure { rule: "a row that was found, and is locked, and is not there" };
        self.damaged(hobt, hobt.run_list(), damage)
    }
}

/// Records that a row has new values, and may be in another partition.
fn note_update(notes: &RowChangeNotes, ctx: &StatementContext, update: &RowUpdate, old: &RowImage) {
    let (from, to) = (update.at.partition(), update.partition);
    notes.note(ctx, |changes| {
        changes.updated((from, to), |column| old.value(column), |column| update.row.value(column));
    });
}
