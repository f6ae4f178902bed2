//! Automatic creation and update of statistics for the columns of a query that is about to be planned.
//!
//! This runs before the query, in a transaction of its own, and only outside a user transaction: locks or a claim of
//! the user transaction would conflict. What cannot be done at once is skipped, and the query is planned without it.
//! With `AUTO_UPDATE_STATISTICS_ASYNC`, stale statistics are queued for an update (`statistics_queue`), and the query
//! uses them as they are.

use std::sync::Arc;

use hobt_base::{HobtId, number};
use hobt_catalog::{Statistics, StatisticsOrigin, Table};
use hobt_engine::{DatabaseUse, StatisticsDefinition, statistics_columns};

use super::ddl::statistics::of_index::is_partitioned;
use super::failure::Failure;
use super::statistics_queue::StatisticsUpdate;
use crate::interpreter::Interpreter;
use crate::place::Place;
use hobt_table::WantedColumn;

/// Smaller tables get no automatic statistics: no plan gains from them ...
const ROWS_MIN: u64 = 500;
/// ... unless the query also reads a table of at least this many rows. Then a condition on the small table may
/// determine which part of the large one is read.
const LARGE_ROWS: u64 = 10_000;

/// The work to be done for a column.
pub(super) enum Work {
    Create {
        column: usize,
    },
    Update(Arc<Statistics>),
    /// Updates in the background: the query does not wait.
    UpdateBehind(Arc<Statistics>),
}

impl Interpreter<'_> {
    /// Creates and updates the statistics that a plan wants for columns. Returns whether any changed.
    ///
    /// # Errors
    /// If the statement was cancelled.
    pub(super) fn make_statistics(&mut self, all: Vec<WantedColumn>) -> Result<bool, Failure> {
        let of = |wanted: &WantedColumn| {
            let heap = wanted.heap();
            (heap.database().clone(), Arc::clone(heap.table()), wanted.column)
        };
        let works = self.due_statistics(all.iter().map(of).collect());
        if works.is_empty() {
            return Ok(false);
        }
        self.is_gathering = true;
        let done = works.into_iter().try_fold(false, |done, (database, table, work)| {
            match self.do_work(&database, &table, work) {
                Ok(()) => Ok(true),
                Err(failure) if failure.error.number == number::CANCELED => Err(failure),
                // The query is also correct without statistics. If the table is damaged, the query itself reports it.
                Err(_) => Ok(done),
            }
        });
        self.is_gathering = false;
        done
    }

    /// What is to be done about statistics of columns before a query that wants them is planned. What is to be updated
    /// behind it is queued.
    pub(super) fn due_statistics(
        &self,
        wanted: Vec<(DatabaseUse, Arc<Table>, usize)>,
    ) -> Vec<(DatabaseUse, Arc<Table>, Work)> {
        if self.is_gathering {
            return Vec::new();
        }
        let rows = |(database, table, _): &(DatabaseUse, Arc<Table>, usize)| {
            database.row_count(table.base_index().partitions.iter().map(|partition| partition.hobt)).unwrap_or(0)
        };
        let largest = wanted.iter().map(rows).max().unwrap_or(0);
        let rows_min = if largest >= LARGE_ROWS { 1 } else { ROWS_MIN };
        let mut works = Vec::new();
        for (database, table, column) in wanted {
            match work_for(&database, &table, column, rows_min) {
                Some(Work::UpdateBehind(statistics)) => self.environment.statistics.push(StatisticsUpdate {
                    database: database.id(),
                    table: table.id,
                    statistics: statistics.id,
                }),
                Some(work) if self.state.transaction.is_none() => works.push((database, table, work)),
                _ => {}
            }
        }
        works
    }

    fn do_work(&mut self, database: &DatabaseUse, table: &Arc<Table>, work: Work) -> Result<(), Failure> {
        let snapshot = database.snapshot();
        let schema = snapshot.schema_by_id(table.schema).map_or("dbo", |schema| schema.name.as_str()).to_owned();
        let place = Place { database: database.clone(), schema, name: table.name.clone() };
        match work {
            Work::Update(statistics) | Work::UpdateBehind(statistics) => {
                self.definitions().update_unasked(&place, table, &statistics, None)
            }
            Work::Create { column } => {
                let definition = StatisticsDefinition {
                    name: automatic_name(table, column),
                    columns: vec![column],
                    filter: None,
                    origin: StatisticsOrigin::Automatic,
                    is_incremental: database.options().statistics.is_incremental && is_partitioned(table),
                    no_recompute: false,
                    auto_drop: false,
                    sample_millionths: 0,
                };
                let of_index = Statistics::new(table, 0, &definition.name, StatisticsOrigin::Automatic, &[column]);
                self.definitions().update_unasked(&place, table, &of_index, Some(&definition))
            }
        }
    }
}

/// The name of automatic statistics as in SQL Server: `_WA_Sys_` and the ids of column and table in hexadecimal digits.
fn automatic_name(table: &Table, column: usize) -> String {
    format!("_WA_Sys_{:08X}_{:08X}", table.columns[column].id, table.id.0)
}

/// The work needed for a column of a table with at least `rows_min` rows.
fn work_for(database: &DatabaseUse, table: &Arc<Table>, column: usize, rows_min: u64) -> Option<Work> {
    let options = database.options();
    let definition = table.columns.get(column)?;
    if table.is_system || options.is_read_only || statistics_columns(table, &[column]).is_none() {
        return None;
    }
    let hobts: Vec<HobtId> = table.base_index().partitions.iter().map(|partition| partition.hobt).collect();
    let rows = database.row_count(hobts.iter().copied()).unwrap_or(0);
    if rows < rows_min {
        return None;
    }
    let all = database.snapshot().statistics_of(table);
    let of_column = all.iter().filter(|each| each.filter.is_none() && each.columns.first() == Some(&definition.id));
    let known: Vec<&Arc<Statistics>> = of_column.collect();
    if known.is_empty() {
        return options.statistics.creates.then_some(Work::Create { column });
    }
    let is_maintained = options.statistics.is_maintained;
    if !options.statistics.updates || known.iter().any(|each| each.no_recompute) {
        return None;
    }
    let newest = known.into_iter().max_by_key(|each| each.updated)?;
    let state = database.statistics_state(newest, &hobts);
    let known_rows = state.summary.rows;
    let is_stale = match is_maintained {
        // Stale if rows were inserted or deleted uncounted (before a crash, or while nothing was maintained), or if so
        // many rows were deleted that the histogram says too little.
        true => (known_rows - rows as f64).abs() > 0.2 * rows as f64 || state.deleted_rows > 500.0 + 0.2 * known_rows,
        false => state.modifications as f64 > update_threshold(known_rows),
    };
    let work = if options.statistics.updates_async { Work::UpdateBehind } else { Work::Update };
    is_stale.then(|| work(Arc::clone(newest)))
}

/// The number of changes after which statistics over `rows` rows are stale, as in SQL Server since 2016 (Microsoft:
/// "Statistics", AUTO_UPDATE_STATISTICS).
pub(super) fn update_threshold(rows: f64) -> f64 {
    if rows <= 500.0 { 500.0 } else { (500.0 + 0.2 * rows).min((1000.0 * rows).sqrt()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_tables_are_out_of_date_sooner() {
        assert_eq!(update_threshold(0.0), 500.0);
        assert_eq!(update_threshold(1000.0), 700.0);
        assert_eq!(update_threshold(2_000_000.0).round(), 44_721.0);
    }
}
