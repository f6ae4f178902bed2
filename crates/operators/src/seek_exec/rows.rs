//! The rows of a seek: taken from an index's leaves, or looked up from there in the table.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use hobt_access::scan::{ColumnVector, RowPlace};
use hobt_access::{AccessError, BTree, Hobt, LargeValues, RowStore, SeekLeaf, TreeSeek, ValueReader};
use hobt_base::{PageId, SlotId, SqlError};
use hobt_catalog::IndexKind;
use hobt_engine::RowAt;
use hobt_page::{PageDamage, RowPage, ValuePointer};
use hobt_txn::IoCounts;

use super::SeekExec;
use crate::join_filter::SeekSieve;
use crate::path_rows::reference;
use crate::places::PlaceBuilder;
use crate::scan_exec::{batch_of, column_vector, fitting, reads_pointers};
use hobt_table::{OperatorProfile, SeekPath, StatementRun, TableRead};

/// Builds a batch of rows.
pub(super) struct RowBuilder {
    run: Arc<StatementRun>,
    counts: Arc<IoCounts>,
    reads_uncommitted: bool,
    path: Arc<SeekPath>,
    /// The table's heaps or trees, if rows are looked up there.
    base: Vec<RowStore>,
    /// A vector for each column, with the column's position in the table.
    columns: Vec<(usize, ColumnVector)>,
    /// The index of the position column in a batch, and the rows' positions.
    places: Option<(usize, PlaceBuilder)>,
    pub(super) rows: usize,
    /// Rows of leaves that were read.
    pub(super) read: u64,
    /// The filters that leave rows out, if any.
    sieve: Option<SeekSieve>,
    /// The wanted rows of the current leaf, and the first of them that was not taken.
    slots: Vec<usize>,
    next: usize,
    /// Bytes of texts and binaries after which a batch ends. One leaf's rows may exceed it, or one row's values.
    bytes_max: usize,
    key: Vec<u8>,
}

impl RowBuilder {
    pub(super) fn new(
        exec: &SeekExec,
        run: &Arc<StatementRun>,
        counts: Arc<IoCounts>,
        profile: &OperatorProfile,
        bytes_max: usize,
    ) -> Result<RowBuilder, SqlError> {
        let table = exec.table.table();
        let path = Arc::clone(&exec.path);
        let is_clustered = table.indexes[path.index].kind == IndexKind::Clustered;
        let base = if path.covers && !is_clustered { Vec::new() } else { exec.table.stores()? };
        let stored = exec.projection.iter().filter(|&&column| column < table.columns.len());
        let vector = |&column: &usize| {
            let at = if path.covers { path.leaf_column(column).unwrap_or(column) } else { column };
            (column, column_vector(at, table.columns[column].sql_type))
        };
        let places = exec.projection.iter().position(|&column| column >= table.columns.len());
        let sieve = SeekSieve::new(&exec.table, |column| path.leaf_column(column), &exec.filters, profile);
        Ok(RowBuilder {
            run: Arc::clone(run),
            counts,
            reads_uncommitted: exec.table.scan_settings().reads_uncommitted,
            columns: stored.map(vector).collect(),
            base,
            path,
            places: places.map(|at| (at, PlaceBuilder::of(table))),
            rows: 0,
            read: 0,
            sieve,
            slots: Vec::new(),
            next: 0,
            bytes_max,
            key: Vec::new(),
        })
    }

    /// Adds the rows of a seek's current leaf, up to `most` and until the batch is full.
    pub(super) fn take_leaf(&mut self, partition: usize, seek: &TreeSeek, most: usize) -> Result<(), AccessError> {
        let leaf = seek.leaf();
        let damaged = |damage| seek.tree().hobt().damaged(leaf.id, damage);
        (self.next, self.read) = (0, self.read + self.slots_of(&leaf).map_err(damaged)?);
        if let Some(sieve) = &mut self.sieve {
            sieve.retain(&leaf.page, &mut self.slots);
        }
        self.take_rest(partition, seek, most)
    }

    /// Whether the current leaf has rows that are still to be taken.
    pub(super) fn has_rest(&self) -> bool {
        self.next < self.slots.len()
    }

    /// Adds such rows, up to `most` and until the batch is full.
    pub(super) fn take_rest(&mut self, partition: usize, seek: &TreeSeek, most: usize) -> Result<(), AccessError> {
        let slots = std::mem::take(&mut self.slots);
        let taken = self.take_some(partition, seek, &slots, most);
        self.slots = slots;
        taken
    }

    fn take_some(
        &mut self,
        partition: usize,
        seek: &TreeSeek,
        slots: &[usize],
        most: usize,
    ) -> Result<(), AccessError> {
        let end = self.rows.saturating_add(most);
        if !self.path.covers {
            // The statement may not see the row that an entry leads to.
            while self.next < slots.len() && self.rows < end && !self.is_full() {
                self.next += 1;
                self.follow(partition, seek, slots[self.next - 1])?;
            }
            return Ok(());
        }
        let leaf = seek.leaf();
        let columns = || self.columns.iter().map(|(_, column)| column);
        let mut wanted = &slots[self.next..slots.len().min(self.next.saturating_add(most))];
        if reads_pointers(&leaf.page, columns()) {
            let taken = fitting(&leaf.page, columns(), wanted, self.bytes_max);
            wanted = &wanted[..taken.map_err(|damage| seek.tree().hobt().damaged(leaf.id, damage))?];
        }
        self.next += wanted.len();
        self.take_slots(partition, seek, wanted)
    }

    /// Whether the batch has enough bytes.
    pub(super) fn is_full(&self) -> bool {
        self.columns.iter().map(|(_, column)| column.value_bytes()).sum::<usize>() >= self.bytes_max
    }

    /// Finds the live rows of a leaf; returns how many.
    fn slots_of(&mut self, leaf: &SeekLeaf<'_>) -> Result<u64, PageDamage> {
        self.slots.clear();
        leaf.append_live(&mut self.slots)?;
        Ok(self.slots.len() as u64)
    }

    fn take_slots(&mut self, partition: usize, seek: &TreeSeek, slots: &[usize]) -> Result<(), AccessError> {
        let leaf = seek.leaf();
        let values = seek.large_values();
        for (_, column) in &mut self.columns {
            column.append_slots(leaf.id, &leaf.page, slots, &values)?;
        }
        if let Some((_, PlaceBuilder::Keys(keys))) = &mut self.places {
            keys.append_slots(partition, seek.tree(), leaf.id, &leaf.page, slots)?;
        }
        self.rows += slots.len();
        Ok(())
    }

    /// Adds the row of the table that an entry refers to, if the statement sees it.
    fn follow(&mut self, partition: usize, seek: &TreeSeek, slot: usize) -> Result<(), AccessError> {
        let leaf = seek.leaf();
        let key = std::mem::take(&mut self.key);
        let at = reference(&self.path.leaf, &self.base, partition, (&leaf.page, slot), key);
        let at = at.map_err(|damage| seek.tree().hobt().damaged(leaf.id, damage))?;
        match (&self.base[at.partition()].clone(), at) {
            (RowStore::Tree(tree), RowAt::Tree { partition, key }) => {
                let done = self.follow_to_tree(partition, tree, &key);
                self.key = key;
                done
            }
            (RowStore::Heap(heap), RowAt::Heap { partition, page, slot }) => {
                self.follow_to_heap(partition, heap, (page, slot))
            }
            _ => unreachable!("a reference is of its store's kind"),
        }
    }

    fn follow_to_heap(
        &mut self,
        partition: usize,
        heap: &Arc<Hobt>,
        (page, slot): (PageId, SlotId),
    ) -> Result<(), AccessError> {
        let partition = u32::try_from(partition).expect("at most 15,000 partitions");
        let run = Arc::clone(&self.run);
        let counts = Arc::clone(&self.counts);
        let reading = (&*run.context, self.reads_uncommitted);
        let uncommitted_since = self.reads_uncommitted.then(|| heap.retired());
        let values = BaseValues { hobt: heap, run: &run, counts: &counts, uncommitted_since };
        let shown = heap.row_visible((page, slot), reading, &counts, |id, page, slot| {
            self.take_row(id, page, usize::from(slot.0), &values)
        })?;
        let Some(taken) = shown else { return Ok(()) };
        taken?;
        if let Some((_, PlaceBuilder::Numbers(numbers))) = &mut self.places {
            numbers.numbers.push(RowPlace { partition, page, slot }.number());
        }
        Ok(())
    }

    fn follow_to_tree(&mut self, partition: usize, tree: &Arc<BTree>, key: &[u8]) -> Result<(), AccessError> {
        let run = Arc::clone(&self.run);
        let counts = Arc::clone(&self.counts);
        let reading = (&*run.context, self.reads_uncommitted);
        let uncommitted_since = self.reads_uncommitted.then(|| tree.hobt().retired());
        let values = BaseValues { hobt: tree.hobt(), run: &run, counts: &counts, uncommitted_since };
        let shown = tree.find_visible(key, reading, &counts, |id, page, slot| {
            let slot = usize::from(slot.0);
            self.take_row(id, page, slot, &values)?;
            match &mut self.places {
                Some((_, PlaceBuilder::Keys(keys))) => keys.append_slots(partition, tree, id, page, &[slot]),
                _ => Ok(()),
            }
        })?;
        shown.unwrap_or(Ok(()))
    }

    fn take_row(
        &mut self,
        id: PageId,
        page: &RowPage<'_>,
        slot: usize,
        values: &dyn LargeValues,
    ) -> Result<(), AccessError> {
        for (_, column) in &mut self.columns {
            column.append_slots(id, page, &[slot], values)?;
        }
        self.rows += 1;
        Ok(())
    }

    /// Publishes the counters of what was left out.
    pub(super) fn publish(&mut self) {
        self.sieve.iter_mut().for_each(SeekSieve::publish);
    }

    pub(super) fn take_batch(&mut self, table: &TableRead, schema: &SchemaRef) -> Result<RecordBatch> {
        let next = self.columns.iter().map(|(column, vector)| (*column, vector.next())).collect();
        let columns = std::mem::replace(&mut self.columns, next);
        let rows = std::mem::take(&mut self.rows);
        batch_of(table.table(), schema, columns.into_iter(), self.places.as_mut(), rows)
    }
}

/// Reads values of a table's rows that are on separate pages.
struct BaseValues<'a> {
    hobt: &'a Arc<Hobt>,
    run: &'a StatementRun,
    counts: &'a IoCounts,
    uncommitted_since: Option<u64>,
}

impl LargeValues for BaseValues<'_> {
    fn fetch(&self, pointer: &ValuePointer) -> Result<Vec<u8>, AccessError> {
        let (context, uncommitted_since) = (&*self.run.context, self.uncommitted_since);
        let reader = ValueReader { context, counts: self.counts, uncommitted_since };
        self.hobt.large_value(pointer, Some(reader))
    }

    fn damaged(&self, page: PageId, damage: PageDamage) -> AccessError {
        self.hobt.damaged(page, damage)
    }
}
