//! What a clone of a database keeps of the rows that it does not have: how many its source had, in how many pages.
//!
//! Of each index one long value of the table: three numbers for each of its partitions, in their order.

use std::collections::HashMap;

use hobt_base::{HobtId, ObjectId};
use hobt_txn::StatementContext;

use crate::error::{CatalogError, damaged};
use crate::heaps::SystemHeaps;
use crate::long_value::{LongValues, ValueClass};
use crate::schema::{DatabaseSnapshot, Index, Table};
use crate::system::SystemTable;

/// Bytes of one partition's numbers.
const ENTRY_BYTES: usize = 24;

/// Rows and pages of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PartitionCounts {
    /// Rows.
    pub rows: u64,
    /// Pages of rows.
    pub data_pages: u64,
    /// All pages that are in use, those of long values among them.
    pub used_pages: u64,
}

impl PartitionCounts {
    fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        for (place, number) in bytes.chunks_exact_mut(8).zip([self.rows, self.data_pages, self.used_pages]) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> PartitionCounts {
        let mut numbers = bytes.chunks_exact(8).map(|part| part.try_into().map_or(0, u64::from_le_bytes));
        let mut next = || numbers.next().unwrap_or(0);
        PartitionCounts { rows: next(), data_pages: next(), used_pages: next() }
    }
}

impl SystemHeaps {
    /// Writes the counts of an index's partitions, in their order.
    ///
    /// # Errors
    /// As of any insert.
    pub fn insert_clone_counts(
        &self,
        ctx: &StatementContext,
        table: &Table,
        index: &Index,
        counts: &[PartitionCounts],
    ) -> Result<(), CatalogError> {
        let bytes: Vec<u8> = counts.iter().flat_map(|counts| counts.to_bytes()).collect();
        self.insert_long(ctx, ValueClass::CloneCounts, table.id.0, index.id.0, Some(&bytes))
    }

    /// Deletes the counts of a table.
    ///
    /// # Errors
    /// As of any delete.
    pub fn delete_clone_counts(&self, ctx: &StatementContext, table: ObjectId) -> Result<(), CatalogError> {
        self.delete_long(ctx, ValueClass::CloneCounts, table.0)
    }

    /// The counts of all partitions that have some. Reads all long values.
    ///
    /// # Errors
    /// A page cannot be read, or a value is damaged.
    pub fn clone_counts(&self, snapshot: &DatabaseSnapshot) -> Result<HashMap<HobtId, PartitionCounts>, CatalogError> {
        let mut long = LongValues::read(self)?;
        let mut all = HashMap::new();
        for table in snapshot.tables.values().filter(|table| !table.is_system) {
            for index in &table.indexes {
                let Some(bytes) = long.take(ValueClass::CloneCounts, table.id.0, index.id.0).flatten() else {
                    continue;
                };
                if !bytes.len().is_multiple_of(ENTRY_BYTES) {
                    let what = format!("the counts of index {} of table {} are cut short", index.id.0, table.id);
                    return Err(damaged(SystemTable::Values, what));
                }
                let counts = bytes.chunks_exact(ENTRY_BYTES).map(PartitionCounts::from_bytes);
                all.extend(index.partitions.iter().map(|partition| partition.hobt).zip(counts));
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_come_back_from_their_bytes() {
        let counts = PartitionCounts { rows: u64::MAX, data_pages: 7, used_pages: 1 << 40 };
        assert_eq!(PartitionCounts::from_bytes(&counts.to_bytes()), counts);
        assert_eq!(PartitionCounts::from_bytes(&[]), PartitionCounts::default());
    }
}
