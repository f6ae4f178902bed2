//! `ALTER TABLE … SWITCH`: moving partitions between tables.
//!
//! A switch moves no row. Heaps and trees of the source become the target's, and the target's empty ones become the
//! source's. So the tables must agree in everything that determines how rows are stored (`agreement`), and the rows
//! must be valid for the target's partition. If the definitions do not prove that, the rows are checked.

mod agreement;

use std::sync::Arc;

use hobt_base::errors;
use hobt_catalog::{
    DataSpace, DatabaseSnapshot, Index, PartitionFunction, SnapshotChange, Table, name_equals, value_from_bytes,
};
use hobt_txn::StatementContext;

use super::claim::{LockTable, until_locked};
use super::pending::{Name, Sharing};
use super::{Change, Database, TableWriter};
use crate::error::{EngineError, Result};

/// One side of a switch.
#[derive(Clone, Debug)]
pub struct SwitchSide {
    /// The table's schema.
    pub schema: String,
    /// The table.
    pub name: String,
    /// The partition, from 1, if one was named.
    pub partition: Option<i64>,
}

/// A side with its table resolved.
struct Side<'t> {
    table: &'t Table,
    /// The place of its partition, from 0.
    partition: usize,
}

impl Database {
    /// `ALTER TABLE source SWITCH [PARTITION x] TO target [PARTITION y]`.
    ///
    /// # Errors
    /// 4902, 4904, 4905, 4911, 4913, 4914, 4938, 4940, 4942 to 4947, 4950, 4953, 4955, 4958, 4960, 4965 to 4975, 4982,
    /// 4985, 7733; what `lock` returns; a device's error, after which the statement must be rolled back.
    pub fn switch_partition(
        self: &Arc<Database>,
        ctx: &StatementContext,
        source: &SwitchSide,
        target: &SwitchSide,
        lock: &mut LockTable<'_>,
    ) -> Result<()> {
        let (change, from, to) = self.claim_two_locked(ctx, source, target, lock)?;
        let snapshot = self.snapshot_of(ctx);
        let from_side = Side { table: &from, partition: partition_of(&from, source.partition)? };
        let to_side = Side { table: &to, partition: partition_of(&to, target.partition)? };
        agreement::check_columns(&from, &to)?;
        agreement::check_constraints(&snapshot, &from, &to)?;
        let pairs = index_pairs(&snapshot, &from_side, &to_side)?;
        self.check_empty(&to_side)?;
        self.check_rows_fit(&snapshot, &from_side, &to_side)?;
        let (mut new_from, mut new_to) = (Table::clone(&from), Table::clone(&to));
        // Pages of a table have its current layout version or an earlier one.
        let version = from.layout_version.max(to.layout_version);
        (new_from.layout_version, new_to.layout_version) = (version, version);
        for (at, other) in pairs {
            let own = &mut new_from.indexes[at].partitions[from_side.partition];
            let others = &mut new_to.indexes[other].partitions[to_side.partition];
            std::mem::swap(&mut own.hobt, &mut others.hobt);
            std::mem::swap(&mut own.run_list, &mut others.run_list);
        }
        let hobt = from.base_index().partitions[from_side.partition].hobt;
        let (new_from, new_to) = (Arc::new(new_from), Arc::new(new_to));
        let written = [Arc::clone(&new_from), Arc::clone(&new_to)];
        self.write_rows(ctx, |system, rows| {
            written.iter().try_for_each(|table| system.delete_table(rows, table.id))?;
            written.iter().try_for_each(|table| system.insert_table(rows, table))
        })?;
        change.add(SnapshotChange::AddTable(new_from));
        change.add(SnapshotChange::AddTable(new_to));
        self.switch_statistics(ctx, &change, &snapshot, (&from, &to), hobt)?;
        Ok(())
    }

    /// Claims the names of two tables and finds the tables. They are locked by `lock`, in the order of their ids.
    fn claim_two_locked(
        self: &Arc<Database>,
        ctx: &StatementContext,
        source: &SwitchSide,
        target: &SwitchSide,
        lock: &mut LockTable<'_>,
    ) -> Result<(Change, Arc<Table>, Arc<Table>)> {
        let missing = |name: &str| EngineError::Statement(errors::SWITCH_NO_TABLE.with([&name]));
        let snapshot = self.snapshot_of(ctx);
        let schema_of = |side: &SwitchSide| snapshot.schema_id(&side.schema).ok_or_else(|| missing(&side.name));
        let (from_schema, to_schema) = (schema_of(source)?, schema_of(target)?);
        if from_schema == to_schema && name_equals(&source.name, &target.name) {
            return Err(EngineError::Statement(errors::SWITCH_SAME_TABLE.with([&source.name, &target.name])));
        }
        let names = format!("{}' or '{}", source.name, target.name);
        let (change, (from, to)) = until_locked(lock, &names, &mut || {
            let claim = |schema, side: &SwitchSide| (Name::object(schema, &side.name), Sharing::Exclusive);
            let change = self.begin(ctx, vec![claim(from_schema, source), claim(to_schema, target)])?;
            let snapshot = self.snapshot_of(ctx);
            let table = |schema, side: &SwitchSide| {
                let found = snapshot.table(schema, &side.name).filter(|table| !table.is_system);
                found.map(Arc::clone).ok_or_else(|| missing(&side.name))
            };
            let (from, to) = (table(from_schema, source)?, table(to_schema, target)?);
            let ids = vec![from.id, to.id];
            Ok((change, (from, to), ids))
        })?;
        Ok((change, from, to))
    }

    /// 4904, 4905.
    fn check_empty(&self, side: &Side<'_>) -> Result<()> {
        let Side { table, partition } = *side;
        let hobt = table.base_index().partitions[partition].hobt;
        if self.store(hobt)?.hobt().row_count() == 0 {
            return Ok(());
        }
        Err(match table.base_index().data_space {
            DataSpace::Scheme { .. } => {
                EngineError::Statement(errors::SWITCH_PARTITION_NOT_EMPTY.with([&(partition + 1), &table.name]))
            }
            DataSpace::Filegroup(_) => EngineError::Statement(errors::SWITCH_TABLE_NOT_EMPTY.with([&table.name])),
        })
    }

    /// 4953, 4973, 4982.
    fn check_rows_fit(&self, snapshot: &DatabaseSnapshot, from: &Side<'_>, to: &Side<'_>) -> Result<()> {
        let Some((column, function)) = partitioning(snapshot, to.table.base_index()) else { return Ok(()) };
        let own = partitioning(snapshot, from.table.base_index());
        if let Some((own, of)) = own {
            if own != column {
                return Err(EngineError::Statement(
                    errors::SWITCH_PARTITION_COLUMNS.with([&from.table.name, &to.table.name]),
                ));
            }
            if of.range_right == function.range_right && bounds(of, from.partition) == bounds(function, to.partition) {
                return Ok(());
            }
        }
        let sql_type = from.table.columns[column].sql_type;
        let writer = TableWriter::open_to_read(self, snapshot, Arc::new(from.table.clone()))?;
        let mut fits = true;
        let looked = writer.for_each_row(from.partition, &mut |_, row| {
            fits &= value_from_bytes(sql_type, row.value(column))
                .is_ok_and(|value| function.partition_of(&value) == to.partition);
            fits
        });
        looked.map_err(|error| self.storage_error(error))?;
        if fits {
            return Ok(());
        }
        if own.is_some() {
            return Err(EngineError::Statement(errors::SWITCH_NOT_SUBSET.with([
                &(from.partition + 1),
                &from.table.name,
                &(to.partition + 1),
                &to.table.name,
            ])));
        }
        Err(EngineError::Statement(errors::SWITCH_RANGE.with([&from.table.name, &(to.partition + 1), &to.table.name])))
    }
}

/// The column by which an index is partitioned, and the partition function.
fn partitioning<'s>(snapshot: &'s DatabaseSnapshot, index: &Index) -> Option<(usize, &'s Arc<PartitionFunction>)> {
    snapshot.partitioning_of(&index.data_space)
}

/// The lower and the upper boundary of a partition.
fn bounds(function: &PartitionFunction, partition: usize) -> (Option<&hobt_types::Value>, Option<&hobt_types::Value>) {
    let below = partition.checked_sub(1).and_then(|at| function.boundaries.get(at));
    (below, function.boundaries.get(partition))
}

/// The place of the partition that was named. Errors: 4911, 4950.
fn partition_of(table: &Table, given: Option<i64>) -> Result<usize> {
    let base = table.base_index();
    let is_partitioned = matches!(base.data_space, DataSpace::Scheme { .. });
    match given {
        // If there is only one partition, a number is ignored.
        _ if !is_partitioned => Ok(0),
        None => Err(EngineError::Statement(errors::SWITCH_WITHOUT_NUMBER.with([&table.name]))),
        Some(number) => {
            let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
            let place = place.filter(|place| *place < base.partitions.len());
            place.ok_or_else(|| EngineError::Statement(errors::SWITCH_NO_PARTITION.with([&number, &table.name])))
        }
    }
}

/// Pairs of matching indexes of source and target. Errors: 4913, 4914, 4938, 4940, 4947, 7733.
fn index_pairs(snapshot: &DatabaseSnapshot, from: &Side<'_>, to: &Side<'_>) -> Result<Vec<(usize, usize)>> {
    for (side, other) in [(from, to), (to, from)] {
        let base = side.table.base_index();
        if base.options.is_disabled {
            return Err(EngineError::Statement(errors::SWITCH_DISABLED.with([&side.table.name])));
        }
        if side.table.is_clustered() && !other.table.is_clustered() {
            return Err(EngineError::Statement(errors::SWITCH_CLUSTERED.with([
                &side.table.name,
                &base.name.as_deref().unwrap_or(""),
                &other.table.name,
            ])));
        }
        if let Some(index) = side.table.nonclustered().find(|index| is_apart(base, index)) {
            let kind = |space: &DataSpace| if matches!(space, DataSpace::Scheme { .. }) { "" } else { "not " };
            return Err(EngineError::Statement(errors::SWITCH_NOT_ALIGNED.with([
                &side.table.name,
                &kind(&base.data_space),
                &index.name.as_deref().unwrap_or(""),
                &kind(&index.data_space),
            ])));
        }
    }
    let same = |one: &Index, other: &Index| {
        one.kind == other.kind
            && one.key == other.key
            && one.options.is_unique == other.options.is_unique
            && other.included == one.included
    };
    let kept = |table: &Table| -> Vec<usize> {
        let indexes = table.indexes.iter().enumerate();
        indexes.filter(|(_, index)| !index.options.is_disabled).map(|(at, _)| at).collect()
    };
    let mut left = kept(from.table);
    let mut pairs = Vec::with_capacity(left.len());
    let no_match = |index: &Index, lacking: &Table, having: &Table| {
        EngineError::Statement(errors::SWITCH_NO_INDEX.with([
            &lacking.name,
            &index.name.as_deref().unwrap_or(""),
            &having.name,
        ]))
    };
    for at in kept(to.table) {
        let wanted = &to.table.indexes[at];
        let found = left.iter().position(|&own| same(&from.table.indexes[own], wanted));
        let own = left.remove(found.ok_or_else(|| no_match(wanted, from.table, to.table))?);
        let (one, other) = (&from.table.indexes[own].partitions[from.partition], &wanted.partitions[to.partition]);
        if one.filegroup != other.filegroup {
            let name = |id| snapshot.filegroup_by_id(id).map_or("?", |filegroup| filegroup.name.as_str());
            return Err(EngineError::Statement(errors::SWITCH_FILEGROUP.with([
                &(from.partition + 1),
                &from.table.name,
                &name(one.filegroup),
                &(to.partition + 1),
                &to.table.name,
                &name(other.filegroup),
            ])));
        }
        pairs.push((own, at));
    }
    match left.first() {
        Some(&at) => Err(no_match(&from.table.indexes[at], to.table, from.table)),
        None => Ok(pairs),
    }
}

/// Whether an index is partitioned differently from its table.
fn is_apart(base: &Index, index: &Index) -> bool {
    match (&base.data_space, &index.data_space) {
        (DataSpace::Filegroup(_), DataSpace::Filegroup(_)) => false,
        (one, other) => one != other,
    }
}
