//! Statistics objects: creating, updating and dropping them.
//!
//! ```text
//! rows ──► changes (few_rows) ──commit──► live (part, accumulated) ──close──► fold ──► the catalog
//!                                          ▲ requests         carry: partitions are rebuilt, moved
//! ```

mod accumulated;
mod asked;
mod carry;
mod changes;
mod few_rows;
mod fold;
mod live;
mod part;
mod shown_counts;

use std::sync::Arc;

use hobt_base::{ObjectId, errors};
use hobt_catalog::{SnapshotChange, Statistics, StatisticsOrigin, Table, name_equals};
use hobt_txn::StatementContext;

use super::pending::{Name, Sharing};
use super::{Change, Database};
use crate::definition::check_name;
use crate::error::{EngineError, Result, no_such_object, no_such_statistics};

pub use asked::StatisticsState;
pub(crate) use carry::Gathered;
pub use changes::{RowChangeNotes, RowChanges, statistics_columns, statistics_type};
pub(crate) use live::LiveStatistics;
pub use shown_counts::{SAID_MAX, SaidCounts};

/// The maximum number of columns of a statistics object.
const COLUMNS_MAX: usize = 64;

/// `CREATE STATISTICS`, everything resolved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatisticsDefinition {
    /// Its name.
    pub name: String,
    /// The places of its columns in the table.
    pub columns: Vec<usize>,
    /// `WHERE`: the condition as written.
    pub filter: Option<String>,
    /// Why it was created: never for an index.
    pub origin: StatisticsOrigin,
    /// `INCREMENTAL = ON`.
    pub is_incremental: bool,
    /// `NORECOMPUTE`.
    pub no_recompute: bool,
    /// `AUTO_DROP = ON`.
    pub auto_drop: bool,
    /// `PERSIST_SAMPLE_PERCENT`, in millionths; 0 without.
    pub sample_millionths: i32,
}

fn check_columns(table: &Table, definition: &StatisticsDefinition) -> Result<()> {
    let (name, columns) = (&definition.name, &definition.columns);
    if columns.len() > COLUMNS_MAX {
        return Err(EngineError::Statement(errors::TOO_MANY_STATISTICS_COLUMNS.with([
            &name,
            &table.name,
            &columns.len(),
            &COLUMNS_MAX,
        ])));
    }
    let twice = columns.iter().zip(1..).find(|(column, rest)| columns[*rest..].contains(column));
    let Some((column, _)) = twice else { return Ok(()) };
    let column = &table.columns[*column].name;
    Err(EngineError::Statement(errors::STATISTICS_COLUMN_TWICE.with([&column])))
}

impl Database {
    /// Claims the statistics of a table and finds the table.
    fn claim_statistics(self: &Arc<Database>, ctx: &StatementContext, table: &Table) -> Result<(Change, Arc<Table>)> {
        let change = self.begin(ctx, vec![(Name::Statistics(table.id), Sharing::Exclusive)])?;
        let found = self.snapshot_of(ctx).tables.get(&table.id).cloned();
        let found = found
            .filter(|found| !found.is_system)
            .ok_or_else(|| EngineError::Statement(no_such_object(&table.name)))?;
        Ok((change, found))
    }

    /// Creates a statistics object, for which nothing is gathered yet.
    ///
    /// # Errors
    /// 103 or 1013 for the name; 1088 the table is gone, 1904, 1909, 1927; a device's error, after which the statement
    /// must be rolled back.
    ///
    /// # Panics
    /// If a column is not in the table.
    pub fn create_statistics(
        self: &Arc<Database>,
        ctx: &StatementContext,
        table: &Table,
        definition: &StatisticsDefinition,
    ) -> Result<Arc<Statistics>> {
        check_name(&definition.name)?;
        check_columns(table, definition)?;
        let (change, found) = self.claim_statistics(ctx, table)?;
        let snapshot = self.snapshot_of(ctx);
        let known = snapshot.statistics_of(&found);
        let name = &definition.name;
        if known.iter().any(|each| name_equals(&each.name, name)) {
            return Err(EngineError::Statement(errors::STATISTICS_EXIST.with([&found.name, &name])));
        }
        let of_indexes = found.indexes.iter().map(|index| index.id.0);
        let taken = known.iter().map(|each| each.id).chain(of_indexes).max().unwrap_or(0);
        let statistics = Statistics {
            filter: definition.filter.clone(),
            is_incremental: definition.is_incremental,
            no_recompute: definition.no_recompute,
            auto_drop: definition.auto_drop,
            sample_millionths: definition.sample_millionths,
            ..Statistics::new(table, taken.max(1) + 1, name, definition.origin, &definition.columns)
        };
        self.put_statistics(ctx, &change, statistics)
    }

    /// Whether no transaction is changing a table's statistics, so that a change of them would not have to wait.
    pub fn statistics_are_free(&self, table: ObjectId) -> bool {
        self.pending.is_free(&Name::Statistics(table))
    }

    /// Replaces the contents of a statistics object by what was gathered or set.
    ///
    /// # Errors
    /// 1088 the table is gone, 2767 the statistics are gone; a device's error, after which the statement must be rolled
    /// back.
    pub fn set_statistics(
        self: &Arc<Database>,
        ctx: &StatementContext,
        table: &Table,
        statistics: Statistics,
    ) -> Result<Arc<Statistics>> {
        let (change, found) = self.claim_statistics(ctx, table)?;
        let known = self.snapshot_of(ctx).statistics_of(&found);
        let same = known.iter().any(|each| each.id == statistics.id && each.columns == statistics.columns);
        if !same {
            return Err(EngineError::Statement(no_such_statistics(&statistics.name)));
        }
        self.put_statistics(ctx, &change, statistics)
    }

    pub(super) fn put_statistics(
        self: &Arc<Database>,
        ctx: &StatementContext,
        change: &Change,
        statistics: Statistics,
    ) -> Result<Arc<Statistics>> {
        let statistics = Arc::new(statistics);
        self.write_rows(ctx, |system, rows| system.put_statistics(rows, &statistics))?;
        change.add(SnapshotChange::SetStatistics(Arc::clone(&statistics)));
        Ok(statistics)
    }

    /// Drops a statistics object of a table.
    ///
    /// # Errors
    /// 3701 it does not exist, 3739 it belongs to an index; a device's error, after which the statement must be rolled
    /// back.
    pub fn drop_statistics(self: &Arc<Database>, ctx: &StatementContext, table: &Table, name: &str) -> Result<()> {
        let (change, found) = self.claim_statistics(ctx, table)?;
        let full = format!("{}.{name}", found.name);
        let missing = || EngineError::Statement(errors::DROP_DOES_NOT_EXIST.with([&"statistics", &full]));
        let statistics = self.snapshot_of(ctx).statistics_named(&found, name).ok_or_else(missing)?;
        if statistics.origin == StatisticsOrigin::Index {
            return Err(EngineError::Statement(errors::NOT_STATISTICS.with([&full])));
        }
        let id = statistics.id;
        self.write_rows(ctx, |system, rows| system.delete_statistics(rows, found.id, id))?;
        change.add(SnapshotChange::RemoveStatistics(found.id, id));
        Ok(())
    }
}
