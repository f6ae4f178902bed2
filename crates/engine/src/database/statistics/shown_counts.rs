//! Row and page counts shown for partitions in place of the actual ones, to users and to estimates: in a clone those of
//! its source, in any database those set by `UPDATE STATISTICS … WITH ROWCOUNT, PAGECOUNT`. Rows inserted and deleted
//! count on from there, as in SQL Server. A partition that is truncated or rebuilt shows its actual counts.

use std::collections::HashMap;
use std::sync::Arc;

use hobt_access::{Hobt, RowStore};
use hobt_base::{HobtId, IndexId};
use hobt_catalog::{CountsBeside, Index, PartitionCounts, Table};
use hobt_txn::StatementContext;

use super::super::Database;
use crate::error::Result;

/// The maximum number of rows or pages that can be set: sums of them, and their bytes, do not overflow.
pub const SAID_MAX: u64 = 1_000_000_000_000_000;

/// Counts that a user sets for a table, in place of the actual ones.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SaidCounts {
    /// `ROWCOUNT`: rows of the table, and so of each of its indexes.
    pub rows: Option<u64>,
    /// `PAGECOUNT`: pages of rows.
    pub pages: Option<u64>,
    /// The indexes whose pages those are; the heap or clustered index if empty.
    pub indexes: Vec<IndexId>,
}

/// The actual counts of a heap or B+tree.
fn counts_of(hobt: &Hobt) -> PartitionCounts {
    let (lob_used_pages, lob_reserved_pages) = hobt.large_value_pages();
    PartitionCounts {
        rows: hobt.row_count(),
        data_pages: hobt.data_pages(),
        // The counts are read one after the other, while loads may be running.
        used_pages: hobt.used_pages().max(lob_used_pages),
        reserved_pages: hobt.reserved_pages().max(lob_reserved_pages),
        lob_used_pages,
        lob_reserved_pages,
    }
}

/// The differences by which an index's partitions show `shown` instead of `there`, their actual counts.
fn besides(index: &Index, there: &[PartitionCounts], shown: &[PartitionCounts]) -> Vec<(HobtId, CountsBeside)> {
    let besides = there.iter().zip(shown).map(|(there, shown)| CountsBeside::between(*there, *shown));
    index.partitions.iter().map(|partition| partition.hobt).zip(besides).collect()
}

/// Divides a number among partitions in proportion to their actual counts; evenly if these are all 0.
fn shares(total: u64, weights: &[u64]) -> Vec<u64> {
    let all: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    let weight = |weight: u64| if all == 0 { 1 } else { u128::from(weight) };
    let sum = if all == 0 { weights.len() as u128 } else { all };
    let (mut reached, mut given) = (0, 0);
    let share = |each: &u64| {
        reached += weight(*each);
        // At most `total`, as `reached` is at most `sum`.
        let up_to = (u128::from(total) * reached / sum) as u64;
        let share = up_to - given;
        given = up_to;
        share
    };
    weights.iter().map(share).collect()
}

impl Database {
    /// The counts that users and estimates are shown for a partition.
    pub fn expected_counts(&self, store: &RowStore) -> PartitionCounts {
        self.shown(store.hobt(), counts_of(store.hobt()))
    }

    /// The rows of [`Database::expected_counts`], without reading page counts.
    pub fn expected_rows(&self, store: &RowStore) -> u64 {
        let rows = store.hobt().row_count();
        self.shown(store.hobt(), PartitionCounts { rows, ..PartitionCounts::default() }).rows
    }

    /// The pages of rows of [`Database::expected_counts`].
    pub fn expected_data_pages(&self, store: &RowStore) -> u64 {
        let data_pages = store.hobt().data_pages();
        self.shown(store.hobt(), PartitionCounts { data_pages, ..PartitionCounts::default() }).data_pages
    }

    fn shown(&self, hobt: &Hobt, there: PartitionCounts) -> PartitionCounts {
        match self.shown_counts.read().get(&hobt.id()) {
            Some(beside) => beside.shown(there),
            None => there,
        }
    }

    /// Whether the counts shown for a partition differ from the actual ones.
    pub fn is_expected_otherwise(&self, hobt: HobtId) -> bool {
        let shown = self.shown_counts.read();
        !shown.is_empty() && shown.get(&hobt).is_some_and(CountsBeside::changes_rows)
    }

    /// The number of rows set for a table, if it differs from the actual one.
    pub fn said_rows(&self, table: &Table) -> Option<u64> {
        let partitions = &table.base_index().partitions;
        if !partitions.iter().any(|partition| self.is_expected_otherwise(partition.hobt)) {
            return None;
        }
        let stores = partitions.iter().filter_map(|partition| self.store_to_read(partition.hobt).ok());
        Some(stores.map(|store| self.expected_rows(&store)).fold(0, u64::saturating_add))
    }

    /// Reads the counts that were set before the database was opened.
    pub(in super::super) fn read_shown_counts(&self) -> Result<()> {
        let counts = self.heaps.shown_counts(&self.snapshot()).map_err(|error| self.catalog_error(error))?;
        *self.shown_counts.write() = counts;
        Ok(())
    }

    /// Sets the row and page counts of a table. What is absent stays unchanged. The counts are divided among partitions
    /// in proportion to the actual ones.
    ///
    /// # Errors
    /// 1088 the table is gone; a device's error, after which the statement must be rolled back.
    pub fn say_counts(self: &Arc<Database>, ctx: &StatementContext, table: &Table, said: &SaidCounts) -> Result<()> {
        let (_change, table) = self.claim_statistics(ctx, table)?;
        let base = table.base_index().id;
        let is_named = |id: IndexId| if said.indexes.is_empty() { id == base } else { said.indexes.contains(&id) };
        for index in &table.indexes {
            let pages = said.pages.filter(|_| is_named(index.id));
            if said.rows.is_none() && pages.is_none() {
                continue;
            }
            let stores = index.partitions.iter().map(|partition| self.store_to_read(partition.hobt));
            let stores = stores.collect::<Result<Vec<RowStore>>>()?;
            let there: Vec<PartitionCounts> = stores.iter().map(|store| counts_of(store.hobt())).collect();
            let mut shown: Vec<PartitionCounts> = stores.iter().map(|store| self.expected_counts(store)).collect();
            let weights = |of: fn(&PartitionCounts) -> u64| there.iter().map(of).collect::<Vec<u64>>();
            if let Some(rows) = said.rows {
                let shares = shares(rows.min(SAID_MAX), &weights(|counts| counts.rows));
                shown.iter_mut().zip(shares).for_each(|(shown, rows)| shown.rows = rows);
            }
            if let Some(pages) = pages {
                let shares = shares(pages.min(SAID_MAX), &weights(|counts| counts.data_pages));
                for (shown, pages) in shown.iter_mut().zip(shares) {
                    // Pages that are not row pages are added as before.
                    let beside = |all: u64| pages.saturating_add(all.saturating_sub(shown.data_pages));
                    (shown.used_pages, shown.reserved_pages) = (beside(shown.used_pages), beside(shown.reserved_pages));
                    shown.data_pages = pages;
                }
            }
            let all = besides(index, &there, &shown);
            self.write_rows(ctx, |system, rows| system.put_shown_counts(rows, &table, index, &all))?;
            self.set_shown(ctx, all);
        }
        Ok(())
    }

    /// Makes an index of a table, or all, show their actual page counts, and with `rows` the actual row counts.
    ///
    /// # Errors
    /// As [`Database::say_counts`].
    pub fn end_said_counts(
        self: &Arc<Database>,
        ctx: &StatementContext,
        table: &Table,
        index: Option<IndexId>,
        rows: bool,
    ) -> Result<()> {
        let is_said = |index: &Index| {
            let shown = self.shown_counts.read();
            index.partitions.iter().any(|partition| shown.contains_key(&partition.hobt))
        };
        if !table.indexes.iter().any(is_said) {
            return Ok(());
        }
        let (_change, table) = self.claim_statistics(ctx, table)?;
        let is_wanted = |each: &&Index| index.is_none_or(|id| id == each.id) && is_said(each);
        for index in table.indexes.iter().filter(is_wanted) {
            let stores = index.partitions.iter().map(|partition| self.store_to_read(partition.hobt));
            let stores = stores.collect::<Result<Vec<RowStore>>>()?;
            let there: Vec<PartitionCounts> = stores.iter().map(|store| counts_of(store.hobt())).collect();
            let shown_of = |(store, there): (&RowStore, &PartitionCounts)| match rows {
                true => *there,
                false => PartitionCounts { rows: self.expected_rows(store), ..*there },
            };
            let shown: Vec<PartitionCounts> = stores.iter().zip(&there).map(shown_of).collect();
            let all = besides(index, &there, &shown);
            self.write_rows(ctx, |system, rows| system.put_shown_counts(rows, &table, index, &all))?;
            self.set_shown(ctx, all);
        }
        Ok(())
    }

    /// Makes the partitions of an index of a new table show the counts shown for those of another index.
    pub(in super::super) fn copy_shown_counts(
        self: &Arc<Database>,
        ctx: &StatementContext,
        (table, index): (&Table, &Index),
        (source, of_source): (&Database, &Index),
    ) -> Result<()> {
        // A partition that has gone meanwhile has no counts.
        let counts = |database: &Database, index: &Index| -> Vec<PartitionCounts> {
            let of = |hobt| database.store_to_read(hobt).map(|store| database.expected_counts(&store));
            index.partitions.iter().map(|partition| of(partition.hobt).unwrap_or_default()).collect()
        };
        let all = besides(index, &counts(self, index), &counts(source, of_source));
        self.write_rows(ctx, |system, rows| system.insert_shown_counts(rows, table, index, &all))?;
        self.set_shown(ctx, all);
        Ok(())
    }

    /// Makes partitions show their actual counts: their rows are gone.
    pub(in super::super) fn forget_shown_counts(
        self: &Arc<Database>,
        ctx: &StatementContext,
        table: &Table,
        hobts: &[HobtId],
    ) -> Result<()> {
        for index in &table.indexes {
            let partitions = index.partitions.iter().map(|partition| partition.hobt);
            let known: Vec<(HobtId, CountsBeside)> = {
                let shown = self.shown_counts.read();
                partitions.filter_map(|hobt| Some((hobt, *shown.get(&hobt)?))).collect()
            };
            let is_gone = |hobt: &HobtId| hobts.contains(hobt);
            if !known.iter().any(|(hobt, _)| is_gone(hobt)) {
                continue;
            }
            let left = |(hobt, beside): (HobtId, CountsBeside)| {
                (hobt, if is_gone(&hobt) { CountsBeside::default() } else { beside })
            };
            let left: Vec<(HobtId, CountsBeside)> = known.into_iter().map(left).collect();
            self.write_rows(ctx, |system, rows| system.put_shown_counts(rows, table, index, &left))?;
            self.set_shown(ctx, left);
        }
        Ok(())
    }

    /// Effective at once, as for row counts: the statement's own transaction sees it, and an undo reverts it.
    fn set_shown(self: &Arc<Database>, ctx: &StatementContext, new: Vec<(HobtId, CountsBeside)>) {
        let before = put(&mut self.shown_counts.write(), new);
        let database = Arc::clone(self);
        ctx.on_undo(move || {
            put(&mut database.shown_counts.write(), before);
            Ok(())
        });
    }
}

/// Replaces what is shown for partitions, and returns the old values.
fn put(all: &mut HashMap<HobtId, CountsBeside>, new: Vec<(HobtId, CountsBeside)>) -> Vec<(HobtId, CountsBeside)> {
    let mut before = Vec::with_capacity(new.len());
    for (hobt, beside) in new {
        let old = if beside.is_nothing() { all.remove(&hobt) } else { all.insert(hobt, beside) };
        before.push((hobt, old.unwrap_or_default()));
    }
    before
}

#[cfg(test)]
mod tests {
    use super::shares;

    #[test]
    fn shares_make_up_the_whole() {
        assert_eq!(shares(10, &[0, 0, 0]), [3, 3, 4]);
        assert_eq!(shares(10, &[1, 3, 0, 1]), [2, 6, 0, 2]);
        assert_eq!(shares(0, &[5, 5]), [0, 0]);
        assert_eq!(shares(7, &[]), [0; 0]);
        let great = shares(super::SAID_MAX, &[u64::MAX, 1, u64::MAX]);
        assert_eq!(great.iter().sum::<u64>(), super::SAID_MAX);
    }
}
