//! `ALTER PARTITION FUNCTION … SPLIT | MERGE RANGE`, `ALTER PARTITION SCHEME … NEXT USED`.
//!
//! A new boundary adds one partition to every index on a scheme of the function: the one with the new value, in the
//! filegroup that is next used. A removed boundary removes the partition of its value. Rows that then belong elsewhere
//! are moved one by one, in all indexes. If there are none, only the partition that is split is read. Indexes
//! partitioned differently from their table store each row's partition in the table, and are filled anew.

use std::sync::Arc;

use hobt_access::RowStore;
use hobt_base::{HobtId, ObjectId, PartitionNumber, SqlError, errors};
use hobt_catalog::{
    DataSpace, DatabaseSnapshot, Partition, PartitionFunction, PartitionScheme, SnapshotChange, Table, compare_values,
    value_from_bytes,
};
use hobt_txn::StatementContext;
use hobt_types::Value;

use super::claim::{CLAIM_ATTEMPTS, LockTable, changed_again};
use super::partition::{PARTITIONS_MAX, invalid_object, value_is_of};
use super::pending::{Claim, Name, Sharing};
use super::place::filegroup_named;
use super::{Change, Database, TableWriter, WriteError};
use crate::error::{EngineError, Result};

/// How the partitions of a function change.
#[derive(Clone, Copy)]
struct Cut {
    /// Whether a partition is added.
    is_split: bool,
    /// The place of the partition that is added (in the new order) or removed (in the old order).
    place: usize,
    /// The place of its neighbour, from or to which rows move: in the new order for a split, otherwise in the old
    /// order.
    beside: usize,
}

impl Database {
    /// `ALTER PARTITION FUNCTION name () SPLIT RANGE (value)`, or `MERGE RANGE (value)`; the value is of the function's
    /// type.
    ///
    /// # Errors
    /// 208 the function does not exist, 7705, 7707 no filegroup is next used, 7715 the boundary does not exist, 7719,
    /// 7721 the boundary exists already; what `lock` returns; a device's error, after which the statement must be
    /// rolled back.
    pub fn alter_partition_function(
        self: &Arc<Database>,
        ctx: &StatementContext,
        name: &str,
        value: &Value,
        is_split: bool,
        lock: &mut LockTable<'_>,
    ) -> Result<()> {
        let (change, snapshot, tables) = self.claim_function(ctx, name, lock)?;
        let old = Arc::clone(snapshot.partition_function(name).ok_or_else(|| invalid_object(name))?);
        value_is_of(&old, value)?;
        let (new, cut) = if is_split { split(&old, value)? } else { merge(&old, value)? };
        let mut changes =
            vec![SnapshotChange::RemovePartitionFunction(old.id), SnapshotChange::AddPartitionFunction(Arc::new(new))];
        let schemes: Vec<Arc<PartitionScheme>> =
            snapshot.partition_schemes.iter().filter(|scheme| scheme.function == old.id).map(Arc::clone).collect();
        for scheme in &schemes {
            changes.push(SnapshotChange::RemovePartitionScheme(scheme.id));
            changes.push(SnapshotChange::AddPartitionScheme(Arc::new(cut_scheme(scheme, cut, &old.name)?)));
        }
        let mut after = DatabaseSnapshot::clone(&snapshot);
        changes.iter().for_each(|change| after.apply(change));
        let mut written = Vec::with_capacity(tables.len());
        for table in &tables {
            written.push(Arc::new(self.cut_table(ctx, (&snapshot, &after), table, &schemes, cut)?));
        }
        self.write_rows(ctx, |system, rows| {
            system.delete_partition_function(rows, old.id)?;
            schemes.iter().try_for_each(|scheme| system.delete_partition_scheme(rows, scheme.id))?;
            for change in &changes {
                match change {
                    SnapshotChange::AddPartitionFunction(function) => {
                        system.insert_partition_function(rows, function)?
                    }
                    SnapshotChange::AddPartitionScheme(scheme) => system.insert_partition_scheme(rows, scheme)?,
                    _ => {}
                }
            }
            for table in &written {
                system.delete_table(rows, table.id)?;
                system.insert_table(rows, table)?;
            }
            Ok(())
        })?;
        let kept = |hobt: HobtId| written.iter().any(|table| hobts_of(table).any(|known| known == hobt));
        let gone = tables.iter().flat_map(|table| hobts_of(table)).filter(|hobt| !kept(*hobt));
        let gone = gone.map(|hobt| self.store(hobt)).collect::<Result<Vec<RowStore>>>()?;
        self.drop_stores(ctx, &gone)?;
        changes.into_iter().for_each(|one| change.add(one));
        written.into_iter().for_each(|table| change.add(SnapshotChange::AddTable(table)));
        Ok(())
    }

    /// `ALTER PARTITION SCHEME name NEXT USED [filegroup]`; without a filegroup none is next used.
    ///
    /// # Errors
    /// 208 the scheme or filegroup does not exist; a device's error, after which the statement must be rolled back.
    pub fn alter_partition_scheme(
        self: &Arc<Database>,
        ctx: &StatementContext,
        name: &str,
        filegroup: Option<&str>,
    ) -> Result<()> {
        let claims =
            vec![(Name::partition_scheme(name), Sharing::Exclusive), (Name::FilegroupsOfSchemes, Sharing::Shared)];
        let change = self.begin(ctx, claims)?;
        let snapshot = self.snapshot_of(ctx);
        let old = snapshot.partition_scheme(name).ok_or_else(|| invalid_object(name))?;
        let next_used = match filegroup {
            None => None,
            Some(filegroup) => Some(filegroup_named(&snapshot, filegroup).ok_or_else(|| invalid_object(filegroup))?),
        };
        let new = Arc::new(PartitionScheme { next_used, ..PartitionScheme::clone(old) });
        let written = Arc::clone(&new);
        self.write_rows(ctx, |system, rows| {
            system.delete_partition_scheme(rows, written.id)?;
            system.insert_partition_scheme(rows, &written)
        })?;
        change.add(SnapshotChange::RemovePartitionScheme(new.id));
        change.add(SnapshotChange::AddPartitionScheme(new));
        Ok(())
    }

    /// Claims a function, its schemes and the tables on them. The tables are locked by `lock` in the order of their
    /// ids.
    fn claim_function(
        self: &Arc<Database>,
        ctx: &StatementContext,
        name: &str,
        lock: &mut LockTable<'_>,
    ) -> Result<(Change, Arc<DatabaseSnapshot>, Vec<Arc<Table>>)> {
        let mut known = users_of(&self.snapshot_of(ctx), name)?;
        let mut locked: Option<Vec<ObjectId>> = None;
        for _ in 0..CLAIM_ATTEMPTS {
            let mut claims: Vec<Claim> = vec![(Name::partition_function(name), Sharing::Exclusive)];
            claims.extend(known.0.iter().map(|scheme| (Name::partition_scheme(scheme), Sharing::Exclusive)));
            claims.extend(known.1.iter().map(|table| (Name::object(table.schema, &table.name), Sharing::Exclusive)));
            let change = self.begin(ctx, claims)?;
            let snapshot = self.snapshot_of(ctx);
            let now = users_of(&snapshot, name)?;
            let ids: Vec<ObjectId> = now.1.iter().map(|table| table.id).collect();
            let is_same = now.0 == known.0 && known.1.iter().map(|table| table.id).eq(ids.iter().copied());
            if is_same && locked.as_ref() == Some(&ids) {
                return Ok((change, snapshot, now.1));
            }
            change.release();
            ids.iter().try_for_each(|id| lock(*id))?;
            locked = Some(ids);
            known = now;
        }
        Err(changed_again(name))
    }

    /// Changes the partitions of one table, and moves the rows that then belong elsewhere.
    fn cut_table(
        self: &Arc<Database>,
        ctx: &StatementContext,
        (before, after): (&DatabaseSnapshot, &DatabaseSnapshot),
        old: &Arc<Table>,
        schemes: &[Arc<PartitionScheme>],
        cut: Cut,
    ) -> Result<Table> {
        let is_cut = |space: &DataSpace| matches!(space, DataSpace::Scheme { scheme, .. } if schemes.iter().any(|known| known.id == *scheme));
        let base_space = old.base_index().data_space.clone();
        let base_is_cut = is_cut(&base_space);
        let mut new = Table::clone(old);
        let mut anew = Vec::new();
        for at in 0..new.indexes.len() {
            let index = &new.indexes[at];
            if index.options.is_disabled && at > 0 {
                continue;
            }
            if base_is_cut && index.data_space == base_space {
                let DataSpace::Scheme { scheme, .. } = base_space else { continue };
                if cut.is_split {
                    let shape = index.clone();
                    let filegroups = after.partition_scheme_by_id(scheme).map(|scheme| &scheme.filegroups);
                    let filegroup = filegroups.and_then(|filegroups| filegroups.get(cut.place)).copied();
                    let filegroup = filegroup.unwrap_or(shape.partitions[0].filegroup);
                    // The base comes first: its number of partitions determines what the entries of the others contain.
                    let number = PartitionNumber(u32::try_from(cut.place + 1).expect("at most 15,000 partitions"));
                    let made = self.create_store(ctx, &new, &shape, filegroup, number)?;
                    new.indexes[at].partitions.insert(cut.place, made);
                } else {
                    new.indexes[at].partitions.remove(cut.place);
                }
                renumber(&mut new.indexes[at].partitions);
            } else if base_is_cut || is_cut(&index.data_space) {
                new.indexes[at].partitions.clear();
                anew.push(at);
            }
        }
        let new = self.create_stores(ctx, after, new)?;
        let refused = |error: WriteError| match error {
            WriteError::Storage(error) => self.storage_error(error),
            other => SqlError::internal(format_args!("a row that was moved was refused: {other:?}")).into(),
        };
        if let (true, DataSpace::Scheme { column, .. }) = (base_is_cut, base_space) {
            // For a split the new definition has all partitions, for a merge the old one does.
            let (snapshot, mut table) = if cut.is_split { (after, new.clone()) } else { (before, Table::clone(old)) };
            let space = table.base_index().data_space.clone();
            let mut at = 0;
            table.indexes.retain(|index| {
                at += 1;
                at == 1 || index.data_space == space
            });
            let sql_type = table.columns[column].sql_type;
            let function = table_function(after, &space);
            let writer = TableWriter::open(self, snapshot, Arc::new(table))?;
            let moved = match (cut.is_split, function) {
                (true, Some(function)) => writer.move_rows(ctx, (cut.beside, cut.place), &|row| {
                    value_from_bytes(sql_type, row.value(column))
                        .is_ok_and(|value| function.partition_of(&value) == cut.place)
                }),
                _ => writer.move_rows(ctx, (cut.place, cut.beside), &|_| true),
            };
            moved.map_err(refused)?;
        }
        let writer = TableWriter::open(self, after, Arc::new(new.clone()))?;
        writer.fill_indexes(ctx, &anew).map_err(refused)?;
        Ok(new)
    }
}

fn hobts_of(table: &Table) -> impl Iterator<Item = HobtId> {
    table.indexes.iter().flat_map(|index| &index.partitions).map(|partition| partition.hobt)
}

fn renumber(partitions: &mut [Partition]) {
    for (partition, number) in partitions.iter_mut().zip(1..) {
        partition.number = PartitionNumber(number);
    }
}

fn table_function<'s>(snapshot: &'s DatabaseSnapshot, space: &DataSpace) -> Option<&'s Arc<PartitionFunction>> {
    snapshot.partitioning_of(space).map(|(_, function)| function)
}

/// The schemes of a function by their names, and the tables with an index on one of them, by their ids.
fn users_of(snapshot: &DatabaseSnapshot, name: &str) -> Result<(Vec<String>, Vec<Arc<Table>>)> {
    let function = snapshot.partition_function(name).ok_or_else(|| invalid_object(name))?;
    let schemes: Vec<&Arc<PartitionScheme>> =
        snapshot.partition_schemes.iter().filter(|scheme| scheme.function == function.id).collect();
    let is_on = |table: &&Arc<Table>| {
        table.indexes.iter().any(|index| {
            matches!(index.data_space, DataSpace::Scheme { scheme, .. } if schemes.iter().any(|known| known.id == scheme))
        })
    };
    let mut tables: Vec<Arc<Table>> = snapshot.tables.values().filter(is_on).map(Arc::clone).collect();
    tables.sort_by_key(|table| table.id);
    Ok((schemes.into_iter().map(|scheme| scheme.name.clone()).collect(), tables))
}

/// 7719, 7721.
fn split(old: &PartitionFunction, value: &Value) -> Result<(PartitionFunction, Cut)> {
    let order = |boundary: &Value| compare_values(old.collation, boundary, value);
    if let Some(there) = old.boundaries.iter().position(|boundary| order(boundary).is_eq()) {
        return Err(EngineError::Statement(errors::BOUNDARY_EXISTS.with([&(there + 1)])));
    }
    if old.partition_count() >= PARTITIONS_MAX {
        return Err(EngineError::Statement(errors::TOO_MANY_PARTITIONS.with([&PARTITIONS_MAX])));
    }
    let at = old.boundaries.partition_point(|boundary| order(boundary).is_lt());
    let mut new = old.clone();
    new.boundaries.insert(at, value.clone());
    let (place, beside) = if old.range_right { (at + 1, at) } else { (at, at + 1) };
    Ok((new, Cut { is_split: true, place, beside }))
}

/// 7715.
fn merge(old: &PartitionFunction, value: &Value) -> Result<(PartitionFunction, Cut)> {
    let at = old.boundaries.iter().position(|boundary| compare_values(old.collation, boundary, value).is_eq());
    let at = at.ok_or_else(|| EngineError::Statement(errors::NO_SUCH_BOUNDARY.error()))?;
    let mut new = old.clone();
    new.boundaries.remove(at);
    let (place, beside) = if old.range_right { (at + 1, at) } else { (at, at + 1) };
    Ok((new, Cut { is_split: false, place, beside }))
}

/// 7707.
fn cut_scheme(scheme: &PartitionScheme, cut: Cut, function: &str) -> Result<PartitionScheme> {
    let mut new = scheme.clone();
    if !cut.is_split {
        new.filegroups.remove(cut.place);
        return Ok(new);
    }
    let Some(next) = new.next_used.take() else {
        return Err(EngineError::Statement(errors::PARTITION_SCHEME_NEXT_USED.with([&function, &scheme.name])));
    };
    new.filegroups.insert(cut.place, next);
    Ok(new)
}
