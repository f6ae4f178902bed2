//! The statistics objects that a statement's estimates have read.

use std::sync::Arc;

use hobt_base::{DatabaseId, HobtId};
use hobt_catalog::{Statistics, Table};
use hobt_engine::DatabaseUse;
use hobt_functions::{format_value, value_to_array};
use hobt_types::{SqlType, Value};
use parking_lot::Mutex;

use crate::TableRead;
use hobt_showplan::{StatisticsRead, TableName};

/// The statistics objects read so far, each once.
#[derive(Default)]
pub(super) struct NotedStatistics(Mutex<Vec<Noted>>);

struct Noted {
    database: DatabaseUse,
    table: Arc<Table>,
    statistics: Arc<Statistics>,
}

impl NotedStatistics {
    /// Notes that an estimate reads statistics of a table.
    pub(super) fn note(&self, heap: &TableRead, statistics: &Arc<Statistics>) {
        self.note_of(heap.database(), heap.table(), statistics);
    }

    /// As [`NotedStatistics::note`], of this table.
    pub(super) fn note_of(&self, database: &DatabaseUse, table: &Arc<Table>, statistics: &Arc<Statistics>) {
        let is_it = |known: &Noted| {
            known.statistics.id == statistics.id && known.table.id == table.id && known.database.id() == database.id()
        };
        let mut noted = self.0.lock();
        if !noted.iter().any(is_it) {
            noted.push(Noted {
                database: database.clone(),
                table: Arc::clone(table),
                statistics: Arc::clone(statistics),
            });
        }
    }

    /// The statistics objects, without a use of their databases.
    pub(super) fn noted(&self) -> Vec<(DatabaseId, Arc<Table>, Arc<Statistics>)> {
        let noted = self.0.lock();
        let of = |each: &Noted| (each.database.id(), Arc::clone(&each.table), Arc::clone(&each.statistics));
        noted.iter().map(of).collect()
    }

    /// The statistics objects with their figures, ordered by name.
    pub(super) fn shown(&self) -> Vec<StatisticsRead> {
        let mut shown: Vec<StatisticsRead> = self.0.lock().iter().map(Noted::shown).collect();
        shown.sort_by(|a, b| {
            (&a.table.database, &a.table.table, &a.name).cmp(&(&b.table.database, &b.table.table, &b.name))
        });
        shown
    }
}

/// A time, 100 ns since 1970-01-01 UTC, in the format of XML.
fn moment(time: i64) -> Option<String> {
    let sql_type = SqlType::DateTime2 { scale: 7 };
    let array = value_to_array(&Value::Int(time), sql_type).ok()?;
    Some(format_value(&array, 0, sql_type).ok()?.replace(' ', "T"))
}

impl Noted {
    fn shown(&self) -> StatisticsRead {
        let snapshot = self.database.snapshot();
        let schema = snapshot.schema_by_id(self.table.schema).map_or("dbo", |schema| schema.name.as_str()).to_owned();
        let hobts: Vec<HobtId> = self.table.base_index().partitions.iter().map(|partition| partition.hobt).collect();
        let state = self.database.database().statistics_state(&self.statistics, &hobts);
        let summary = &state.summary;
        let sampled = if summary.rows > 0.0 { 100.0 * summary.sampled_rows / summary.rows } else { 0.0 };
        StatisticsRead {
            table: TableName { database: self.database.name().to_owned(), schema, table: self.table.name.clone() },
            name: self.statistics.name.clone(),
            modifications: state.modifications,
            sampling_percent: sampled.clamp(0.0, 100.0),
            updated: self.statistics.updated.and_then(moment),
        }
    }
}
