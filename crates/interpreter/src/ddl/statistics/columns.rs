//! Statistics objects that conflict with a change of a column: user-created ones reject the change, the others are
//! dropped with the column.

use std::sync::Arc;

use hobt_base::{Position, SqlError, errors};
use hobt_catalog::{Statistics, StatisticsOrigin, Table};
use hobt_engine::TableChange;
use hobt_tsql::ast::Identifier;

use crate::ddl::Definitions;
use crate::ddl::alter_table::Altering;
use crate::failure::Failure;

/// Whether a change of a column drops a statistics object instead of being rejected.
fn goes_along(statistics: &Statistics) -> bool {
    statistics.origin == StatisticsOrigin::Automatic || statistics.auto_drop
}

impl Definitions<'_, '_> {
    /// Drops the statistics that are dropped automatically with a column. The table is locked, and its column is about
    /// to be dropped or changed.
    ///
    /// # Errors
    /// 5074 if user-created statistics contain the column or have a filter that reads it; those of any change of a
    /// definition.
    pub(in crate::ddl) fn free_of_statistics(
        &mut self,
        altering: &Altering<'_>,
        changed: &TableChange,
        column: &Identifier,
    ) -> Result<(), Failure> {
        let table = &**changed.old();
        let context = &altering.run.context;
        let database = altering.place.database.database();
        let id = table.column_named(&column.value).map(|place| table.columns[place].id);
        let mut dropped = Vec::new();
        for statistics in altering.place.database.snapshot_of(context).statistics_of(table) {
            let is_own = statistics.origin == StatisticsOrigin::Index;
            let is_of_column = id.is_some_and(|id| statistics.columns.contains(&id));
            if is_own || !(is_of_column || self.filter_reads(table, &statistics, &column.value)?) {
                continue;
            }
            if !goes_along(&statistics) {
                return Err(is_needed(&statistics.name, &column.value, column.position).into());
            }
            dropped.push(statistics);
        }
        for statistics in dropped {
            let dropped = database.drop_statistics_within(context, changed, statistics.id);
            dropped.map_err(|error| error.to_sql_error().at(column.position))?;
        }
        Ok(())
    }

    fn filter_reads(&self, table: &Table, statistics: &Statistics, column: &str) -> Result<bool, Failure> {
        let Some(filter) = &statistics.filter else { return Ok(false) };
        self.checked(|binder| binder.condition_reads(table, filter, column))
    }

    /// Whether the filter of any of a table's statistics objects reads a column.
    ///
    /// # Errors
    /// Those of binding the filters, which were bound when they were defined.
    pub(in crate::ddl) fn is_read_by_filters(
        &self,
        table: &Table,
        known: &[Arc<Statistics>],
        column: &str,
    ) -> Result<bool, Failure> {
        for statistics in known {
            if self.filter_reads(table, statistics, column)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// 5074.
fn is_needed(name: &str, column: &str, position: Position) -> SqlError {
    errors::COLUMN_NEEDED.with([&"statistics", &name, &column]).at(position)
}
