//! Entries of rows in nonclustered indexes.

use std::sync::Arc;

use hobt_access::BTree;
use hobt_access::scan::RowPlace;
use hobt_catalog::{IndexLeaf, LeafColumn, PartitionFunction, value_from_bytes};
use hobt_page::{PageDamage, RowImage};
use hobt_txn::StatementContext;

use super::super::index::{key_bytes_max, key_value_bytes};
use super::key_lock::{Key, insert_locked, lock_key};
use super::row::{RowAt, uniqueifier_of_key};
use super::{TableWriter, WriteError, Written};

/// A nonclustered index.
#[derive(Debug)]
pub(super) struct IndexWriter {
    /// Its place in the table.
    pub(super) place: usize,
    pub(super) leaf: IndexLeaf,
    pub(super) trees: Vec<Arc<BTree>>,
    /// The column of the table by which it is partitioned; `None` if it is partitioned as the table.
    pub(super) partitioning: Option<(usize, Arc<PartitionFunction>)>,
}

impl TableWriter {
    /// Whether the entry in an index differs for the new row.
    pub(super) fn touches(
        &self,
        index: &IndexWriter,
        old: &RowImage,
        new: &RowImage,
        from: &RowAt,
        now: Option<&RowAt>,
    ) -> bool {
        now != Some(from)
            || index.leaf.columns.iter().any(|column| match column {
                LeafColumn::Table(place) => old.value(*place) != new.value(*place),
                LeafColumn::Uniqueifier | LeafColumn::RowId | LeafColumn::BasePartition => false,
            })
            || index.partitioning.as_ref().is_some_and(|(place, _)| old.value(*place) != new.value(*place))
    }

    /// The entry of a row in an index, and the index's partition that it is in.
    pub(super) fn entry(&self, index: &IndexWriter, at: &RowAt, row: &RowImage) -> Written<(usize, RowImage)> {
        let row_id = match at {
            RowAt::Heap { page, slot, .. } => Some(RowPlace::row_id(*page, *slot).to_le_bytes()),
            RowAt::Tree { .. } => None,
        };
        let uniqueifier = match at {
            RowAt::Tree { key, .. } if !self.table.base_index().options.is_unique => uniqueifier_of_key(key),
            _ => None,
        };
        let uniqueifier = uniqueifier.map(i32::to_le_bytes);
        let base_partition = u32::try_from(at.partition()).expect("at most 15,000 partitions").to_le_bytes();
        let values = index.leaf.columns.iter().map(|column| match column {
            LeafColumn::Table(place) => row.value(*place),
            LeafColumn::Uniqueifier => uniqueifier.as_ref().map(<[u8; 4]>::as_slice),
            LeafColumn::RowId => row_id.as_ref().map(<[u8; 8]>::as_slice),
            LeafColumn::BasePartition => Some(base_partition.as_slice()),
        });
        let entry = RowImage::new(values);
        let partition = match &index.partitioning {
            None if index.trees.len() == 1 => 0,
            None => at.partition(),
            Some((place, function)) => {
                let sql_type = self.table.columns[*place].sql_type;
                let damage = PageDamage::Structure { rule: "the value of a partitioning column" };
                let value = value_from_bytes(sql_type, row.value(*place));
                let value = value.map_err(|_| {
                    let hobt = self.base[at.partition()].hobt();
                    self.damaged(hobt, hobt.run_list(), damage)
                })?;
                function.partition_of(&value)
            }
        };
        Ok((partition, entry))
    }

    pub(super) fn insert_entry(
        &self,
        ctx: &StatementContext,
        index: &IndexWriter,
        at: &RowAt,
        row: &RowImage,
    ) -> Written<()> {
        self.check_key_bytes(index.place, row)?;
        let (partition, entry) = self.entry(index, at, row)?;
        let tree = &index.trees[partition];
        let refusal = |error| self.refusal(error, index.place, row);
        let key = self.locks_keys_of(index).then(|| tree.key_of(&entry)).transpose().map_err(refusal)?;
        let key = key.as_deref().map(|bytes| Key { bytes, is_unique: true });
        insert_locked(ctx, tree, key, &entry)?.map_err(refusal)
    }

    /// 1946.
    pub(super) fn check_key_bytes(&self, place: usize, row: &RowImage) -> Written<()> {
        let index = &self.table.indexes[place];
        if !self.exceeding[place] {
            return Ok(());
        }
        let parts = index.key.iter().map(|part| part.column);
        let bytes: usize =
            parts.map(|column| key_value_bytes(self.table.columns[column].sql_type, row.value(column))).sum();
        match bytes > key_bytes_max(index.kind) {
            true => Err(WriteError::KeyTooLong { index: place, bytes }),
            false => Ok(()),
        }
    }

    /// Whether the key of an entry is locked separately: only in a unique index. In other indexes the key contains the
    /// reference to the row, and so is locked with the row.
    fn locks_keys_of(&self, index: &IndexWriter) -> bool {
        self.table.indexes[index.place].options.is_unique
    }

    pub(super) fn delete_entry(
        &self,
        ctx: &StatementContext,
        index: &IndexWriter,
        at: &RowAt,
        row: &RowImage,
    ) -> Written<()> {
        let (partition, entry) = self.entry(index, at, row)?;
        let tree = &index.trees[partition];
        let key = tree.key_of(&entry).map_err(|error| self.refusal(error, index.place, row))?;
        if self.locks_keys_of(index) {
            lock_key(ctx, tree, &key)?;
        }
        if tree.delete(ctx, &key)? {
            return Ok(());
        }
        let damage = PageDamage::Structure { rule: "a row of the table that a nonclustered index does not have" };
        Err(self.damaged(tree.hobt(), tree.root(), damage))
    }
}
