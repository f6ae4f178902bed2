//! The contents of a clone: the definitions and statistics of another database, without its rows.
//!
//! Everything keeps its ids except HOBTs and filegroups. The row and page counts of the source's partitions are
//! recorded: views show them, and estimates use them ([`Database::expected_counts`]).

use std::collections::HashMap;
use std::sync::Arc;

use hobt_base::{FilegroupId, HobtId, errors};
use hobt_catalog::{
    DataSpace, DatabaseSnapshot, IndexUsage, PartitionScheme, SequencePosition, SnapshotChange, Statistics,
    StatisticsOrigin, StatisticsPart, Table,
};
use hobt_txn::StatementContext;

use super::pending::{Name, Sharing};
use super::{Change, Database};
use crate::error::{EngineError, Result};

impl Database {
    /// Copies the definitions of `source` into this database, which is new and has its filegroups.
    ///
    /// # Errors
    /// 1105 or a device's error, after which the statement must be rolled back.
    pub(crate) fn copy_definitions(
        self: &Arc<Database>,
        ctx: &StatementContext,
        source: &Database,
        with_statistics: bool,
    ) -> Result<()> {
        let names = [Name::Schemas, Name::Filegroups].map(|name| (name, Sharing::Exclusive));
        let change = self.begin(ctx, names.into())?;
        let copied = source.snapshot();
        let filegroups = filegroups_of(&copied, &self.snapshot_of(ctx))?;
        self.copy_spaces(ctx, &change, &copied, &filegroups)?;
        let mut tables: Vec<&Arc<Table>> = copied.tables.values().filter(|table| !table.is_system).collect();
        tables.sort_by_key(|table| table.id);
        for table in tables {
            let made = self.copy_table(ctx, &change, table, &filegroups)?;
            for (index, new) in table.indexes.iter().zip(&made.indexes) {
                self.copy_shown_counts(ctx, (&made, new), (source, index))?;
            }
            if with_statistics {
                self.copy_statistics(ctx, &change, source, (table, &made))?;
            }
        }
        for module in copied.modules.values() {
            self.write_rows(ctx, |heaps, rows| heaps.insert_module(rows, module))?;
            change.add(SnapshotChange::AddModule(Arc::clone(module)));
        }
        for sequence in copied.sequences.values() {
            let known = source.heaps.sequence_position(sequence.id).map_err(|error| source.catalog_error(error))?;
            let first = SequencePosition { next: sequence.start, used: false, exhausted: false };
            let position = known.unwrap_or(first);
            self.write_rows(ctx, |heaps, rows| heaps.insert_sequence(rows, sequence, position))?;
            change.add(SnapshotChange::AddSequence(Arc::clone(sequence)));
        }
        Ok(())
    }

    /// Schemas, partition functions and partition schemes.
    fn copy_spaces(
        self: &Arc<Database>,
        ctx: &StatementContext,
        change: &Change,
        copied: &DatabaseSnapshot,
        filegroups: &HashMap<FilegroupId, FilegroupId>,
    ) -> Result<()> {
        let own = self.snapshot_of(ctx);
        for schema in copied.schemas.iter().filter(|schema| own.schema_by_id(schema.id).is_none()) {
            self.write_rows(ctx, |heaps, rows| heaps.insert_schema(rows, schema))?;
            change.add(SnapshotChange::AddSchema(schema.clone()));
        }
        for function in &copied.partition_functions {
            self.write_rows(ctx, |heaps, rows| heaps.insert_partition_function(rows, function))?;
            change.add(SnapshotChange::AddPartitionFunction(Arc::clone(function)));
        }
        for scheme in &copied.partition_schemes {
            let moved = |filegroup: &FilegroupId| filegroups.get(filegroup).copied().unwrap_or(FilegroupId(1));
            let made = Arc::new(PartitionScheme {
                filegroups: scheme.filegroups.iter().map(moved).collect(),
                next_used: scheme.next_used.as_ref().map(moved),
                ..PartitionScheme::clone(scheme)
            });
            self.write_rows(ctx, |heaps, rows| heaps.insert_partition_scheme(rows, &made))?;
            change.add(SnapshotChange::AddPartitionScheme(made));
        }
        Ok(())
    }

    fn copy_table(
        self: &Arc<Database>,
        ctx: &StatementContext,
        change: &Change,
        table: &Table,
        filegroups: &HashMap<FilegroupId, FilegroupId>,
    ) -> Result<Arc<Table>> {
        let mut copy = table.clone();
        for index in &mut copy.indexes {
            index.partitions.clear();
            index.usage = IndexUsage::default();
            if let DataSpace::Filegroup(filegroup) = &mut index.data_space {
                *filegroup = filegroups.get(filegroup).copied().unwrap_or(FilegroupId(1));
            }
        }
        let snapshot = self.snapshot_of(ctx);
        let made = Arc::new(self.create_stores(ctx, &snapshot, copy)?);
        self.write_rows(ctx, |heaps, rows| heaps.insert_table(rows, &made))?;
        change.add(SnapshotChange::AddTable(Arc::clone(&made)));
        Ok(made)
    }

    /// Copies what the source knows of a table's columns now, by partition.
    fn copy_statistics(
        self: &Arc<Database>,
        ctx: &StatementContext,
        change: &Change,
        source: &Database,
        (table, made): (&Table, &Table),
    ) -> Result<()> {
        let hobts = |table: &Table| -> Vec<HobtId> {
            table.base_index().partitions.iter().map(|partition| partition.hobt).collect()
        };
        let (old, new) = (hobts(table), hobts(made));
        for statistics in source.snapshot().statistics_of(table) {
            // What belongs to the whole table, and not to a single partition, stays so.
            let whole = (HobtId(0), HobtId(0));
            let all = std::iter::once(whole).chain(old.iter().copied().zip(new.iter().copied()));
            let known = all.map(|(from, to)| (to, Arc::new(source.part_now(&statistics, from))));
            let known = known.filter(|(_, summary)| summary.rows > 0.0);
            let parts: Vec<StatisticsPart> = known.map(|(hobt, summary)| StatisticsPart { hobt, summary }).collect();
            if parts.is_empty() && statistics.origin == StatisticsOrigin::Index {
                continue;
            }
            let modified = i64::try_from(source.statistics_state(&statistics, &old).modifications).unwrap_or(i64::MAX);
            let copy = Statistics { parts, modified, ..Statistics::clone(&statistics) };
            self.put_statistics(ctx, change, copy)?;
        }
        Ok(())
    }
}

/// Maps the filegroups of the source to those of the clone, which have the same names.
fn filegroups_of(source: &DatabaseSnapshot, own: &DatabaseSnapshot) -> Result<HashMap<FilegroupId, FilegroupId>> {
    let pair = |filegroup: &hobt_catalog::Filegroup| {
        let found = own
            .filegroup(&filegroup.name)
            .ok_or_else(|| EngineError::Statement(errors::INVALID_DATA_SPACE.with([&filegroup.name])))?;
        Ok((filegroup.id, found.id))
    };
    source.filegroups.iter().map(pair).collect()
}
