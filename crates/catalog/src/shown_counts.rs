//! Row and page counts shown for partitions in place of the actual ones. A clone of a database shows the counts of its
//! source, and `UPDATE STATISTICS … WITH ROWCOUNT, PAGECOUNT` sets them for any table.
//!
//! For each index they are one long value of the table, in which each partition is identified by its HOBT. So a
//! partition that is rebuilt loses its shown counts.

use std::collections::HashMap;

use hobt_base::{HobtId, ObjectId};
use hobt_txn::StatementContext;

use crate::error::{CatalogError, damaged};
use crate::heaps::SystemHeaps;
use crate::long_value::{LongValues, ValueClass};
use crate::schema::{DatabaseSnapshot, Index, Table};
use crate::system::SystemTable;

/// The number of counts of one partition.
const COUNTS: usize = 6;
/// The size of one partition's entry in bytes: its HOBT and its counts.
const ENTRY_BYTES: usize = 8 + 8 * COUNTS;

/// Rows and pages of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PartitionCounts {
    /// Rows.
    pub rows: u64,
    /// Pages of rows.
    pub data_pages: u64,
    /// All pages that are in use, including those of long values.
    pub used_pages: u64,
    /// All pages that are allocated.
    pub reserved_pages: u64,
    /// Pages of long values that are in use.
    pub lob_used_pages: u64,
    /// Pages that are allocated for long values.
    pub lob_reserved_pages: u64,
}

impl PartitionCounts {
    fn numbers(self) -> [u64; COUNTS] {
        let PartitionCounts { rows, data_pages, used_pages, reserved_pages, lob_used_pages, lob_reserved_pages } = self;
        [rows, data_pages, used_pages, reserved_pages, lob_used_pages, lob_reserved_pages]
    }

    fn of_numbers(numbers: [u64; COUNTS]) -> PartitionCounts {
        let [rows, data_pages, used_pages, reserved_pages, lob_used_pages, lob_reserved_pages] = numbers;
        PartitionCounts { rows, data_pages, used_pages, reserved_pages, lob_used_pages, lob_reserved_pages }
    }

    /// The sum of these and those of another partition.
    #[must_use]
    pub fn plus(self, other: PartitionCounts) -> PartitionCounts {
        let (own, other) = (self.numbers(), other.numbers());
        PartitionCounts::of_numbers(std::array::from_fn(|at| own[at].saturating_add(other[at])))
    }
}

/// The difference between the counts shown for a partition and the actual ones. It stays the same while rows are
/// inserted and deleted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CountsBeside([i64; COUNTS]);

impl CountsBeside {
    /// The difference by which `wanted` is shown when `counts` are the actual counts.
    pub fn between(counts: PartitionCounts, wanted: PartitionCounts) -> CountsBeside {
        let (counts, wanted) = (counts.numbers(), wanted.numbers());
        let distance = |at: usize| i128::from(wanted[at]) - i128::from(counts[at]);
        let clamped = |wide: i128| i64::try_from(wide).unwrap_or(if wide < 0 { i64::MIN } else { i64::MAX });
        CountsBeside(std::array::from_fn(|at| clamped(distance(at))))
    }

    /// The counts shown when `counts` are the actual counts.
    #[must_use]
    pub fn shown(&self, counts: PartitionCounts) -> PartitionCounts {
        let counts = counts.numbers();
        PartitionCounts::of_numbers(std::array::from_fn(|at| counts[at].saturating_add_signed(self.0[at])))
    }

    /// Whether the row count shown differs from the actual one.
    pub fn changes_rows(&self) -> bool {
        self.0[0] != 0
    }

    /// Whether the counts shown are the actual ones.
    pub fn is_nothing(&self) -> bool {
        *self == CountsBeside::default()
    }

    fn write(&self, hobt: HobtId, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&hobt.0.to_le_bytes());
        self.0.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    }

    fn read(entry: &[u8; ENTRY_BYTES]) -> (HobtId, CountsBeside) {
        let numbers = entry.as_chunks::<8>().0;
        let beside = std::array::from_fn(|at| i64::from_le_bytes(numbers[at + 1]));
        (HobtId(u64::from_le_bytes(numbers[0])), CountsBeside(beside))
    }
}

impl SystemHeaps {
    /// Replaces the counts shown for an index's partitions. Partitions that are not named show their actual counts.
    ///
    /// # Errors
    /// As of any insert and delete.
    pub fn put_shown_counts(
        &self,
        ctx: &StatementContext,
        table: &Table,
        index: &Index,
        shown: &[(HobtId, CountsBeside)],
    ) -> Result<(), CatalogError> {
        self.delete_long_part(ctx, ValueClass::ShownCounts, table.id.0, index.id.0)?;
        self.insert_shown_counts(ctx, table, index, shown)
    }

    /// Writes the counts shown for an index that has none yet.
    ///
    /// # Errors
    /// As of any insert.
    pub fn insert_shown_counts(
        &self,
        ctx: &StatementContext,
        table: &Table,
        index: &Index,
        shown: &[(HobtId, CountsBeside)],
    ) -> Result<(), CatalogError> {
        let mut bytes = Vec::new();
        let told = shown.iter().filter(|(_, beside)| !beside.is_nothing());
        told.for_each(|(hobt, beside)| beside.write(*hobt, &mut bytes));
        if bytes.is_empty() {
            return Ok(());
        }
        self.insert_long(ctx, ValueClass::ShownCounts, table.id.0, index.id.0, Some(&bytes))
    }

    /// Deletes the counts shown for a table's partitions.
    ///
    /// # Errors
    /// As of any delete.
    pub fn delete_shown_counts(&self, ctx: &StatementContext, table: ObjectId) -> Result<(), CatalogError> {
        self.delete_long(ctx, ValueClass::ShownCounts, table.0)
    }

    /// All differences between shown and actual counts, by partition. Reads all long values.
    ///
    /// # Errors
    /// A page cannot be read, or a value is damaged.
    pub fn shown_counts(&self, snapshot: &DatabaseSnapshot) -> Result<HashMap<HobtId, CountsBeside>, CatalogError> {
        let mut long = LongValues::read(self)?;
        let mut all = HashMap::new();
        for table in snapshot.tables.values().filter(|table| !table.is_system) {
            for index in &table.indexes {
                let Some(bytes) = long.take(ValueClass::ShownCounts, table.id.0, index.id.0).flatten() else {
                    continue;
                };
                let (entries, rest) = bytes.as_chunks::<ENTRY_BYTES>();
                if !rest.is_empty() {
                    let what = format!("the counts of index {} of table {} are cut short", index.id.0, table.id);
                    return Err(damaged(SystemTable::Values, what));
                }
                let is_own = |hobt: HobtId| index.partitions.iter().any(|partition| partition.hobt == hobt);
                all.extend(entries.iter().map(CountsBeside::read).filter(|(hobt, _)| is_own(*hobt)));
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_comes_back_from_its_bytes() {
        let there = PartitionCounts { rows: 9, data_pages: 3, used_pages: 4, ..PartitionCounts::default() };
        let wanted = PartitionCounts { rows: 1 << 40, data_pages: 1, reserved_pages: 8, ..there };
        let beside = CountsBeside::between(there, wanted);
        let mut bytes = Vec::new();
        beside.write(HobtId(77), &mut bytes);
        let (entries, rest) = bytes.as_chunks();
        assert!(rest.is_empty());
        assert_eq!(entries.iter().map(CountsBeside::read).collect::<Vec<_>>(), [(HobtId(77), beside)]);
        assert_eq!(beside.shown(there), wanted);
        assert!(beside.changes_rows() && !beside.is_nothing());
        assert!(CountsBeside::between(there, there).is_nothing());
    }

    #[test]
    fn rows_that_come_and_go_are_counted_beside_what_was_said() {
        let of = |rows: u64| PartitionCounts { rows, ..PartitionCounts::default() };
        let beside = CountsBeside::between(of(10), of(4));
        assert_eq!(beside.shown(of(12)), of(6));
        assert_eq!(beside.shown(of(5)), of(0), "there are never less than none");
        let most = CountsBeside::between(of(0), of(u64::MAX));
        assert!(most.shown(of(u64::MAX)).rows > 1 << 62);
    }
}
