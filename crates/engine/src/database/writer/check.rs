//! Checks that every nonclustered index has exactly the rows of its table: for `DBCC CHECKTABLE`.
//!
//! The entry of every row of the base is looked up in the index. Entries of different rows have different keys. So if
//! an index has more entries than were found, some belong to no row.

use std::sync::Arc;

use hobt_access::{AccessError, Cursor, Direction, KeyRange, RowStore};
use hobt_base::PageId;
use hobt_page::{PageDamage, RowImage};
use hobt_txn::StatementContext;

use super::{IndexWriter, RowAt, TableWriter, WriteError, whole_row};

/// How an index and its table differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexMismatch {
    /// The index's place in the table.
    pub index: usize,
    /// Rows of the table that the index does not have, or has with other values: 8951.
    pub missing: u64,
    /// Entries of the index that belong to no row of the table: 8952.
    pub extra: u64,
}

impl TableWriter {
    /// Compares the nonclustered indexes with the table's rows, and returns those that differ. The table must not be
    /// changed meanwhile.
    ///
    /// # Errors
    /// A page is damaged or cannot be read, or `is_cancelled` returned true ([`AccessError::Cancelled`]).
    pub fn check_indexes(
        &self,
        is_cancelled: &dyn Fn() -> bool,
    ) -> std::result::Result<Vec<IndexMismatch>, AccessError> {
        let mut found = vec![0u64; self.indexes.len()];
        let mut missing = vec![0u64; self.indexes.len()];
        if self.indexes.is_empty() {
            return Ok(Vec::new());
        }
        for partition in 0..self.base.len() {
            self.for_each_place(partition, is_cancelled, &mut |at| {
                let row = self.read(at)?;
                for (place, index) in self.indexes.iter().enumerate() {
                    let (partition, entry) = self.entry(index, at, &row)?;
                    match self.has_entry(&index.trees[partition], &entry)? {
                        Some(true) => found[place] += 1,
                        Some(false) => {
                            found[place] += 1;
                            missing[place] += 1;
                        }
                        None => missing[place] += 1,
                    }
                }
                Ok(())
            })?;
        }
        let differences = self.indexes.iter().enumerate().map(|(place, index)| {
            let entries: u64 = index.trees.iter().map(|tree| tree.hobt().row_count()).sum();
            IndexMismatch { index: index.place, missing: missing[place], extra: entries.saturating_sub(found[place]) }
        });
        Ok(differences.filter(|difference| difference.missing + difference.extra > 0).collect())
    }

    /// Passes the live rows of a partition, complete and with their locations, to `visit` until it returns false. No
    /// latch is held meanwhile, and the table must not be changed.
    ///
    /// # Errors
    /// A page is damaged or cannot be read.
    pub fn for_each_row(
        &self,
        partition: usize,
        visit: &mut dyn FnMut(&RowAt, &RowImage) -> bool,
    ) -> std::result::Result<(), AccessError> {
        let mut goes_on = true;
        self.for_each_place(partition, &|| false, &mut |at| {
            if goes_on {
                goes_on = visit(at, &self.read(at)?);
            }
            Ok(())
        })
    }

    /// The entry of a row in a nonclustered index, given by its place in the table, and the index's partition where it
    /// belongs; `None` if there is no such index, or it is disabled.
    ///
    /// # Errors
    /// The value of a partitioning column is damaged.
    pub fn index_entry(
        &self,
        place: usize,
        at: &RowAt,
        row: &RowImage,
    ) -> std::result::Result<Option<(usize, RowImage)>, AccessError> {
        let index = self.indexes.iter().find(|index| index.place == place);
        let entry = index.map(|index| self.entry(index, at, row)).transpose();
        entry.map_err(|error| self.storage_error(error))
    }

    /// Inserts the entries of all rows into the empty nonclustered indexes at these places of the table.
    ///
    /// # Errors
    /// [`WriteError`].
    pub(crate) fn fill_indexes(&self, ctx: &StatementContext, places: &[usize]) -> std::result::Result<(), WriteError> {
        let wanted: Vec<&IndexWriter> = self.indexes.iter().filter(|index| places.contains(&index.place)).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        for partition in 0..self.base.len() {
            let mut refused = None;
            self.for_each_row(partition, &mut |at, row| {
                let filled = wanted.iter().try_for_each(|index| self.insert_entry(ctx, index, at, row));
                refused = filled.err();
                refused.is_none() && !ctx.is_cancelled()
            })?;
            if let Some(error) = refused {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Moves the rows of a partition for which `moves` returns true to another partition.
    ///
    /// # Errors
    /// [`WriteError`].
    pub(crate) fn move_rows(
        &self,
        ctx: &StatementContext,
        (from, to): (usize, usize),
        moves: &dyn Fn(&RowImage) -> bool,
    ) -> std::result::Result<(), WriteError> {
        let mut places = Vec::new();
        self.for_each_row(from, &mut |at, row| {
            if moves(row) {
                places.push(at.clone());
            }
            !ctx.is_cancelled()
        })?;
        for at in places {
            if ctx.is_cancelled() {
                return Err(WriteError::Storage(AccessError::Cancelled));
            }
            let row = self.read(&at)?;
            // Hidden columns do not belong to the table.
            let own = (0..self.table.columns.len()).map(|column| row.value(column));
            let own = RowImage::new(own);
            self.delete(ctx, &at)?;
            self.insert(ctx, to, &own)?;
        }
        Ok(())
    }

    /// Whether a tree has an entry; `Some(false)` if it has one with this key and other values, `None` if it has none.
    fn has_entry(&self, tree: &hobt_access::BTree, entry: &RowImage) -> std::result::Result<Option<bool>, AccessError> {
        let Ok(key) = tree.key_of(entry) else { return Ok(None) };
        let stored = tree.find(&key, |page, slot| page.row_image(usize::from(slot.0)))?;
        let Some(stored) = stored else { return Ok(None) };
        let stored = stored.map_err(|damage| self.damage_of(tree.hobt(), tree.root(), damage))?;
        let stored = whole_row(tree.hobt(), stored)?;
        Ok(Some((0..entry.column_count()).all(|column| stored.value(column) == entry.value(column))))
    }

    /// Visits the location of every live row of a partition. No latch is held meanwhile.
    fn for_each_place(
        &self,
        partition: usize,
        is_cancelled: &dyn Fn() -> bool,
        visit: &mut dyn FnMut(&RowAt) -> std::result::Result<(), WriteError>,
    ) -> std::result::Result<(), AccessError> {
        let mut visit_all = |places: Vec<RowAt>| {
            if is_cancelled() {
                return Err(AccessError::Cancelled);
            }
            places.iter().try_for_each(&mut *visit).map_err(|error| self.storage_error(error))
        };
        match &self.base[partition] {
            RowStore::Heap(heap) => {
                let mut pages: Vec<PageId> = Vec::new();
                for run in heap.runs() {
                    pages.extend(run.row_pages().map(|number| PageId::new(run.first.file, number)));
                }
                for page in pages {
                    let slots = heap.live_slots(page)?;
                    visit_all(slots.into_iter().map(|slot| RowAt::Heap { partition, page, slot }).collect())?;
                }
                Ok(())
            }
            RowStore::Tree(tree) => {
                let mut cursor = Cursor::new(Arc::clone(tree), KeyRange::all(), Direction::Forward);
                loop {
                    let mut places = Vec::new();
                    let more = cursor.next_leaf(&mut |id, page, positions| {
                        for position in positions {
                            let mut key = Vec::new();
                            let live = page.slot_at(position).and_then(|slot| {
                                tree.key_of_slot(page, slot, &mut key).map(|()| !page.is_deleted(slot))
                            });
                            if live.map_err(|damage| self.damage_of(tree.hobt(), id, damage))? {
                                places.push(RowAt::Tree { partition, key });
                            }
                        }
                        Ok(())
                    })?;
                    visit_all(places)?;
                    if !more {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn damage_of(&self, hobt: &hobt_access::Hobt, page: PageId, damage: PageDamage) -> AccessError {
        self.storage_error(self.damaged(hobt, page, damage))
    }

    /// The storage error behind a write error. No keys are inserted here.
    fn storage_error(&self, error: WriteError) -> AccessError {
        match error {
            WriteError::Storage(error) => error,
            WriteError::Duplicate { .. }
            | WriteError::SnapshotConflict
            | WriteError::KeyTooLong { .. }
            | WriteError::EntryTooLong { .. }
            | WriteError::Lock(..) => {
                let hobt = self.base[0].hobt();
                let rule = "a row whose key is too long for an index";
                hobt.damaged(hobt.run_list(), PageDamage::Structure { rule })
            }
        }
    }
}
