//! TRUNCATE TABLE, of all rows or of some partitions'.

use std::sync::Arc;

use hobt_access::RowStore;
use hobt_base::{HobtId, ObjectId, errors};
use hobt_catalog::{DataSpace, DatabaseSnapshot, Table};
use hobt_txn::StatementContext;

use super::claim::LockTable;
use super::{Change, Database};
use crate::error::{EngineError, Result};

impl Database {
    /// Removes all rows of a table and returns its id. The extents are free when the statement has committed.
    ///
    /// # Errors
    /// 4701, 4712, 2801 it was recreated again and again; what `lock` returns; a device's error, after which the
    /// statement must be rolled back.
    pub fn truncate_table(
        self: &Arc<Database>,
        ctx: &StatementContext,
        schema: &str,
        name: &str,
        lock: &mut LockTable<'_>,
    ) -> Result<ObjectId> {
        let (_change, table) = self.claim_to_truncate(ctx, (schema, name), lock)?;
        let partitions = table.indexes.iter().flat_map(|index| &index.partitions);
        self.truncate_stores(ctx, &table, partitions.map(|partition| partition.hobt), true)
    }

    /// `TRUNCATE TABLE … WITH (PARTITIONS (…))`: removes the rows of some partitions and returns the table's id. The
    /// partitions are given as inclusive ranges, from 1.
    ///
    /// # Errors
    /// As [`Database::truncate_table`]; 3756 an index is partitioned differently, 7722 the partition does not exist,
    /// 7729 the table is not partitioned.
    pub fn truncate_partitions(
        self: &Arc<Database>,
        ctx: &StatementContext,
        table: (&str, &str),
        ranges: &[(i64, i64)],
        lock: &mut LockTable<'_>,
    ) -> Result<ObjectId> {
        let (_change, table) = self.claim_to_truncate(ctx, table, lock)?;
        check_aligned(&table)?;
        let wanted = partitions_in(&table, ranges)?;
        let partitions = table.indexes.iter().flat_map(|index| index.partitions.iter().zip(&wanted));
        let hobts = partitions.filter(|(_, is_wanted)| **is_wanted).map(|(partition, _)| partition.hobt);
        self.truncate_stores(ctx, &table, hobts, false)
    }

    /// 4701, 4712.
    fn claim_to_truncate(
        self: &Arc<Database>,
        ctx: &StatementContext,
        (schema, name): (&str, &str),
        lock: &mut LockTable<'_>,
    ) -> Result<(Change, Arc<Table>)> {
        let missing = || EngineError::Statement(errors::CANNOT_TRUNCATE.with([&name]));
        let schema = self.snapshot_of(ctx).schema_id(schema).ok_or_else(missing)?;
        let claimed = self.claim_locked(ctx, schema, name, lock, &|_| missing())?;
        check_not_referenced(&self.snapshot_of(ctx), &claimed.1)?;
        Ok(claimed)
    }

    fn truncate_stores(
        self: &Arc<Database>,
        ctx: &StatementContext,
        table: &Table,
        hobts: impl Iterator<Item = HobtId>,
        is_whole: bool,
    ) -> Result<ObjectId> {
        let hobts: Vec<HobtId> = hobts.collect();
        let stores = hobts.iter().map(|hobt| self.store(*hobt)).collect::<Result<Vec<RowStore>>>()?;
        for store in stores {
            let truncated = match store {
                RowStore::Heap(heap) => heap.truncate(ctx),
                RowStore::Tree(tree) => tree.truncate(ctx),
            };
            truncated.map_err(|error| self.storage_error(error))?;
        }
        self.forget_shown_counts(ctx, table, &hobts)?;
        // Statistics of the table as a whole, which belong to no single partition.
        let known = hobts.iter().copied().chain(is_whole.then_some(HobtId(0)));
        let hobts: Vec<HobtId> = known.collect();
        // The rows have left no versions.
        let statistics: Vec<i32> = self.snapshot_of(ctx).statistics_of(table).iter().map(|each| each.id).collect();
        let (database, id, changer) = (Arc::clone(self), table.id, ctx.stamp());
        ctx.on_commit(move || {
            database.definitions.changed_table(id, changer, &database.shared.clock);
            database.live_statistics.truncated(id, statistics.iter().copied(), &hobts);
            Ok(())
        });
        Ok(id)
    }
}

/// 4712.
fn check_not_referenced(snapshot: &DatabaseSnapshot, table: &Table) -> Result<()> {
    if super::foreign_key::first_reference(snapshot, table, None).is_none() {
        return Ok(());
    }
    Err(EngineError::Statement(errors::TRUNCATE_REFERENCED.with([&table.name])))
}

/// Checks that a table is partitioned, and each of its indexes in the same way. Errors: 3756, 7729.
fn check_aligned(table: &Table) -> Result<()> {
    let (base, name) = (table.base_index(), &table.name);
    if matches!(base.data_space, DataSpace::Filegroup(_)) {
        return Err(EngineError::Statement(errors::NOT_PARTITIONED.with([&name])));
    }
    let Some(index) = table.nonclustered().find(|index| index.data_space != base.data_space) else { return Ok(()) };
    Err(EngineError::Statement(errors::TRUNCATE_NOT_ALIGNED.with([&index.name.as_deref().unwrap_or(""), &name])))
}

/// For each partition of a table, whether it is in one of the ranges. The ranges are inclusive, from 1.
///
/// # Errors
/// 7722 a range names a partition that does not exist.
pub fn partitions_in(table: &Table, ranges: &[(i64, i64)]) -> Result<Vec<bool>> {
    let count = table.base_index().partitions.len();
    let place = |number: i64| {
        let place =
            usize::try_from(number).ok().and_then(|number| number.checked_sub(1)).filter(|place| *place < count);
        place.ok_or_else(|| EngineError::Statement(errors::NO_SUCH_PARTITION.with([&number, &table.name, &count])))
    };
    let mut wanted = vec![false; count];
    for &(first, last) in ranges {
        let (first, last) = (place(first)?, place(last)?);
        wanted[first..(last + 1).max(first)].fill(true);
    }
    Ok(wanted)
}
