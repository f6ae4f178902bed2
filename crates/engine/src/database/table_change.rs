//! Changes of a table's definition: indexes are added, dropped, or rebuilt.
//!
//! ```text
//! begin    claim the table's name, take Sch-M, make the new definition, with empty storage for what is new
//! build    the caller fills what is new (crate `interpreter`, which can sort)
//! finish   rewrite the catalog's rows; storage that no definition names is freed at commit
//! ```
//! All of it is undone if the statement is undone.

use std::collections::HashSet;
use std::sync::Arc;

use hobt_access::RowStore;
use hobt_base::{HobtId, IndexId, SqlError, errors};
use hobt_catalog::{
    DataSpace, DatabaseSnapshot, Index, IndexKind, IndexOptions, SnapshotChange, StatisticsPart, Table,
};
use hobt_instruments::schedule::Mutex;
use hobt_txn::StatementContext;
use hobt_types::statistics::Summary;

use super::claim::LockTable;
use super::index::index_named;
use super::statistics::Gathered;
use super::{Change, Database};
use crate::definition::IndexDefinition;
use crate::error::{EngineError, Result, cannot_drop, no_such_object};

/// Makes a new definition from an old one, with warnings.
pub(super) type Define<'a> = dyn FnMut(&DatabaseSnapshot, &Table) -> Result<(Table, Vec<SqlError>)> + 'a;

/// A change of a table's definition in progress.
pub struct TableChange {
    change: Change,
    old: Arc<Table>,
    new: Arc<Table>,
    warnings: Vec<SqlError>,
    /// Statistics of indexes that were built.
    gathered: Mutex<Gathered>,
}

impl std::fmt::Debug for TableChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableChange").field("table", &self.old.name).finish_non_exhaustive()
    }
}

impl TableChange {
    /// The old definition, whose storage has the rows.
    pub fn old(&self) -> &Arc<Table> {
        &self.old
    }

    /// The new definition.
    pub fn new_table(&self) -> &Arc<Table> {
        &self.new
    }

    /// Records the statistics gathered while an index was built: by the index's place, and by its partition (from 0).
    pub fn gathered(&self, index: usize, summaries: Vec<(usize, Summary)>) {
        let (base, own) = (self.new.base_index(), &self.new.indexes[index]);
        let is_aligned = base.partitions.len() == own.partitions.len();
        let parts = match is_aligned {
            true => {
                let part = |(partition, summary): (usize, Summary)| StatisticsPart {
                    hobt: base.partitions[partition].hobt,
                    summary: Arc::new(summary),
                };
                summaries.into_iter().map(part).collect()
            }
            false => {
                let all: Vec<&Summary> = summaries.iter().map(|(_, summary)| summary).collect();
                vec![StatisticsPart { hobt: HobtId(0), summary: Arc::new(Summary::merged(&all)) }]
            }
        };
        self.gathered.lock().insert(index, parts);
    }

    /// Messages about the definition.
    pub fn warnings(&self) -> &[SqlError] {
        &self.warnings
    }

    /// The new definition's indexes that have partitions to be filled, by their places, the heap or clustered index
    /// first; for each the places of those partitions.
    pub fn to_build(&self) -> Vec<(usize, Vec<usize>)> {
        let there = hobts_of(&self.old);
        let new_partitions = |index: &Index| {
            let is_new = |at: &usize| !there.contains(&index.partitions[*at].hobt);
            (0..index.partitions.len()).filter(is_new).collect::<Vec<usize>>()
        };
        let indexes = self.new.indexes.iter().enumerate();
        indexes.map(|(at, index)| (at, new_partitions(index))).filter(|(_, parts)| !parts.is_empty()).collect()
    }
}

fn hobts_of(table: &Table) -> HashSet<HobtId> {
    table.indexes.iter().flat_map(|index| &index.partitions).map(|partition| partition.hobt).collect()
}

impl Database {
    /// Begins a change of a table's definition: claims the table's name, locks it with `lock`, and creates the storage
    /// that the definition made by `define` lacks.
    ///
    /// # Errors
    /// 1088, 2801; what `lock` and `define` return; 1105 or a device's error, after which the statement must be rolled
    /// back.
    pub(super) fn begin_table_change(
        self: &Arc<Database>,
        ctx: &StatementContext,
        (schema, name): (&str, &str),
        lock: &mut LockTable<'_>,
        define: &mut Define<'_>,
    ) -> Result<TableChange> {
        let missing = || EngineError::Statement(no_such_object(name));
        let schema = self.snapshot_of(ctx).schema_id(schema).ok_or_else(missing)?;
        let (change, old) = self.claim_locked(ctx, schema, name, lock, &|_| missing())?;
        let snapshot = self.snapshot_of(ctx);
        let (planned, warnings) = define(&snapshot, &old)?;
        let new = Arc::new(self.create_stores(ctx, &snapshot, planned)?);
        Ok(TableChange { change, old, new, warnings, gathered: Mutex::default() })
    }

    /// Drops a statistics object of a table that is being changed. While the table is locked no other statement works
    /// in it, so the claim on its statistics is not needed. Another statement may hold that claim while it waits for
    /// the table's lock.
    ///
    /// # Errors
    /// A device's error, after which the statement must be rolled back.
    pub fn drop_statistics_within(&self, ctx: &StatementContext, changed: &TableChange, id: i32) -> Result<()> {
        let table = changed.old.id;
        self.write_rows(ctx, |system, rows| system.delete_statistics(rows, table, id))?;
        changed.change.add(SnapshotChange::RemoveStatistics(table, id));
        Ok(())
    }

    /// Ends a change: the new definition applies as soon as the statement has committed, and to the statement itself at
    /// once.
    ///
    /// # Errors
    /// A device's error, after which the statement must be rolled back.
    pub fn finish_table_change(
        self: &Arc<Database>,
        ctx: &StatementContext,
        changed: TableChange,
    ) -> Result<Arc<Table>> {
        let TableChange { change, old, new, gathered, .. } = changed;
        let kept = hobts_of(&new);
        let gone = old.indexes.iter().flat_map(|index| &index.partitions).filter(|part| !kept.contains(&part.hobt));
        let gone = gone.map(|partition| self.store(partition.hobt)).collect::<Result<Vec<RowStore>>>()?;
        let written = Arc::clone(&new);
        let loses_identity = old.identity_column().is_some() && new.identity_column().is_none();
        let snapshot = self.snapshot_of(ctx);
        self.write_rows(ctx, |system, rows| {
            if loses_identity {
                system.set_identity_position(rows, written.id, None)?;
            }
            system.delete_lost_statistics(rows, &snapshot, &written)?;
            system.delete_table(rows, written.id)?;
            system.insert_table(rows, &written)
        })?;
        self.drop_stores(ctx, &gone)?;
        change.add(SnapshotChange::AddTable(Arc::clone(&new)));
        self.carry_statistics(ctx, &change, &snapshot, (&old, &new), gathered.into_inner())?;
        Ok(new)
    }

    /// `CREATE INDEX`, `ALTER TABLE … ADD PRIMARY KEY | UNIQUE`.
    ///
    /// # Errors
    /// As of any change of a definition: 1088, 2801, 1105, what `lock` returns; 1902, 1904, 1908, 1909, 1911, 1913,
    /// 1919, 1779, 1944, 2714, 8111, 10601.
    pub fn begin_create_index(
        self: &Arc<Database>,
        ctx: &StatementContext,
        table: (&str, &str),
        definition: &IndexDefinition,
        lock: &mut LockTable<'_>,
    ) -> Result<TableChange> {
        self.begin_table_change(ctx, table, lock, &mut |snapshot, old| {
            let (true, Some(name)) = (definition.drops_existing, &definition.name) else {
                return self.plan_indexes(snapshot, old.clone(), std::slice::from_ref(definition));
            };
            let existing = index_named(old, name)?;
            let base = without_index(old, existing.id);
            let (mut planned, warnings) = self.plan_indexes(snapshot, base, std::slice::from_ref(definition))?;
            let made = planned.indexes.iter_mut().find(|index| index.name.as_ref() == Some(name));
            take_place_of(made.expect("planned above"), existing)?;
            planned.indexes[1..].sort_by_key(|index| index.id);
            Ok((planned, warnings))
        })
    }

    /// `DROP INDEX`, or `ALTER TABLE … DROP CONSTRAINT` with `of_constraint`.
    ///
    /// # Errors
    /// As of any change of a definition: 1088, 2801, 1105, what `lock` returns; 3701 the index does not exist, 3723 it
    /// enforces a constraint, 3728 the constraint does not exist.
    pub fn begin_drop_index(
        self: &Arc<Database>,
        ctx: &StatementContext,
        table: (&str, &str),
        index: &str,
        of_constraint: bool,
        lock: &mut LockTable<'_>,
    ) -> Result<TableChange> {
        self.begin_table_change(ctx, table, lock, &mut |snapshot, old| {
            super::foreign_key::check_index_not_referenced(snapshot, old, index)?;
            let found = old.index_named(index);
            if of_constraint {
                let found = found.filter(|found| found.constraint.is_some());
                let found = found.ok_or_else(|| EngineError::Statement(errors::NO_SUCH_CONSTRAINT.with([&index])))?;
                return Ok((without_index(old, found.id), Vec::new()));
            }
            let found = found.ok_or_else(|| cannot_drop("index", &format!("{}.{index}", old.name)))?;
            if let Some(constraint) = found.constraint {
                let kind = if constraint.is_primary { "PRIMARY KEY" } else { "UNIQUE KEY" };
                return Err(EngineError::Statement(errors::INDEX_OF_CONSTRAINT.with([&old.name, &index, &kind])));
            }
            Ok((without_index(old, found.id), Vec::new()))
        })
    }

    /// `ALTER INDEX … REBUILD` and `ALTER TABLE … REBUILD`: the indexes that `which` picks, or one partition of them
    /// (from 0), get new storage, and the options that `options` returns for their current ones.
    ///
    /// # Errors
    /// As of any change of a definition: 1088, 2801, 1105, what `lock` returns; 2727 the index does not exist; 7722,
    /// 7729 the partition does not exist.
    pub fn begin_rebuild(
        self: &Arc<Database>,
        ctx: &StatementContext,
        table: (&str, &str),
        which: &IndexSelector,
        partition: Option<usize>,
        options: &dyn Fn(IndexOptions) -> IndexOptions,
        lock: &mut LockTable<'_>,
    ) -> Result<TableChange> {
        self.begin_table_change(ctx, table, lock, &mut |_, old| {
            let mut new = old.clone();
            let picked = which.pick(old)?;
            // Rows of a heap get new RIDs. Those of a clustered index keep their keys, including uniqueifiers.
            let moves_rows = picked.contains(&0) && !old.is_clustered();
            for at in 0..new.indexes.len() {
                let index = &mut new.indexes[at];
                let follows = moves_rows && at > 0 && !index.options.is_disabled;
                if !picked.contains(&at) && !follows {
                    continue;
                }
                if picked.contains(&at) {
                    index.options = IndexOptions { is_disabled: false, ..options(index.options) };
                }
                let is_whole = matches!(index.data_space, DataSpace::Filegroup(_));
                match partition.filter(|_| picked.contains(&at)) {
                    Some(number) if is_whole => {
                        return Err(no_such_partition(old, &old.indexes[at], number + 1));
                    }
                    None => index.partitions.clear(),
                    Some(number) if number < index.partitions.len() => {
                        let shape = new.indexes[at].clone();
                        let old_part = &shape.partitions[number];
                        let made = self.create_store(ctx, &new, &shape, old_part.filegroup, old_part.number)?;
                        new.indexes[at].partitions[number] = made;
                    }
                    Some(number) => return Err(no_such_partition(old, &old.indexes[at], number + 1)),
                }
            }
            Ok((new, Vec::new()))
        })
    }

    /// `ALTER INDEX … SET (…)` and `… DISABLE`: changes options, and no storage except that of a disabled nonclustered
    /// index, which is dropped.
    ///
    /// # Errors
    /// As of any change of a definition: 1088, 2801, 1105, what `lock` returns; 2727 the index does not exist.
    pub fn begin_index_options(
        self: &Arc<Database>,
        ctx: &StatementContext,
        table: (&str, &str),
        which: &IndexSelector,
        options: &dyn Fn(IndexOptions) -> IndexOptions,
        lock: &mut LockTable<'_>,
    ) -> Result<TableChange> {
        self.begin_table_change(ctx, table, lock, &mut |_, old| {
            let mut new = old.clone();
            for at in which.pick(old)? {
                let index = &mut new.indexes[at];
                index.options = options(index.options);
                if index.options.is_disabled && index.kind == IndexKind::Nonclustered {
                    index.partitions.clear();
                }
            }
            Ok((new, Vec::new()))
        })
    }
}

/// The indexes of a table that a statement names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IndexSelector {
    /// `ALL`.
    All,
    /// The index of this name.
    Named(String),
    /// The heap or clustered index.
    Base,
}

impl IndexSelector {
    /// The places of the selected indexes.
    ///
    /// # Errors
    /// 2727 the index does not exist.
    pub fn pick(&self, table: &Table) -> Result<Vec<usize>> {
        match self {
            IndexSelector::All => {
                let is_index = |at: &usize| table.indexes[*at].kind != IndexKind::Heap;
                Ok((0..table.indexes.len()).filter(is_index).collect())
            }
            IndexSelector::Base => Ok(vec![0]),
            IndexSelector::Named(name) => {
                let found = table
                    .index_named(name)
                    .ok_or_else(|| EngineError::Statement(errors::CANNOT_FIND_INDEX.with([&name])))?;
                let id = found.id;
                Ok((0..table.indexes.len()).filter(|&at| table.indexes[at].id == id).collect())
            }
        }
    }
}

/// The table without an index. Without its clustered index it becomes a heap in the same data space, and the other
/// indexes are rebuilt.
fn without_index(table: &Table, id: IndexId) -> Table {
    let mut indexes: Vec<Index> = table.indexes.clone();
    if table.base_index().id == id {
        indexes[0] = Index::heap(table.base_index().data_space.clone(), Vec::new());
        for other in &mut indexes[1..] {
            other.partitions.clear();
        }
    } else {
        indexes.retain(|index| index.id != id);
    }
    table.clone().with_indexes(indexes)
}

/// The partition at this place of an index, or all partitions if `None`.
///
/// # Errors
/// 7722 the index is not partitioned, 7729 it has no such partition.
pub fn partitions_named(table: &Table, index: &Index, partition: Option<usize>) -> Result<Vec<usize>> {
    let is_whole = matches!(index.data_space, DataSpace::Filegroup(_));
    match partition {
        None => Ok((0..index.partitions.len()).collect()),
        Some(number) if !is_whole && number < index.partitions.len() => Ok(vec![number]),
        Some(number) => Err(no_such_partition(table, index, number.saturating_add(1))),
    }
}

/// 7722, 7729.
fn no_such_partition(table: &Table, index: &Index, number: usize) -> EngineError {
    let name = index.name.as_deref().unwrap_or(&table.name);
    if matches!(index.data_space, DataSpace::Filegroup(_)) {
        return EngineError::Statement(errors::INDEX_NOT_PARTITIONED.with([&name]));
    }
    EngineError::Statement(errors::NO_SUCH_INDEX_PARTITION.with([&number, &name, &table.name, &index.partitions.len()]))
}

/// Gives an index the id and the constraint of the index that it replaces (`DROP_EXISTING`).
fn take_place_of(made: &mut Index, existing: &Index) -> Result<()> {
    let name = existing.name.as_deref().unwrap_or("");
    if existing.kind == IndexKind::Clustered && made.kind != IndexKind::Clustered {
        return Err(EngineError::Statement(errors::CLUSTERED_TO_NONCLUSTERED.error()));
    }
    if existing.constraint.is_some() {
        let is_same = made.options.is_unique && made.kind == existing.kind && made.key == existing.key;
        if !is_same || !made.included.is_empty() {
            return Err(EngineError::Statement(errors::NOT_THE_CONSTRAINT.with([&name])));
        }
    }
    made.constraint = existing.constraint;
    if made.kind == existing.kind {
        made.id = existing.id;
    }
    Ok(())
}
