//! Statistics objects: their definitions, and what the last update gathered. `rows` stores both.
//!
//! A statistics object is identified by its table and a number; indexes of the table use the same numbers. Every index
//! has a statistics object automatically: its row is written at its first update, and its name and columns are the
//! index's, whatever its row says.
//!
//! What was gathered is in *parts*, one for each partition of the table's heap or clustered index, identified by its
//! HOBT. A part with HOBT 0 describes the whole table, as a `STATS_STREAM` supplies it. Parts with HOBTs that the table
//! no longer has are ignored. Changes since then are kept elsewhere (crate `engine`).

pub(crate) mod rows;

use std::sync::Arc;

use hobt_base::{HobtId, ObjectId};
use hobt_types::statistics::Summary;

use crate::schema::{DatabaseSnapshot, Index, IndexKind, Table, name_equals};

pub(crate) use rows::of_row;

/// Why a statistics object exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatisticsOrigin {
    /// It belongs to an index.
    Index,
    /// It was created for a query.
    Automatic,
    /// `CREATE STATISTICS`.
    User,
}

/// What was gathered for one partition.
#[derive(Clone, Debug)]
pub struct StatisticsPart {
    /// The partition of the heap or clustered index; 0 is the whole table.
    pub hobt: HobtId,
    /// A summary of its rows.
    pub summary: Arc<Summary>,
}

/// A statistics object.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// The table.
    pub table: ObjectId,
    /// `stats_id`: the index's id, or an id that no index has.
    pub id: i32,
    /// Its name.
    pub name: String,
    /// Why it exists.
    pub origin: StatisticsOrigin,
    /// The ids of its columns, in key order; at least one.
    pub columns: Vec<i32>,
    /// `WHERE`: the condition as written.
    pub filter: Option<String>,
    /// `INCREMENTAL = ON`: it is updated partition by partition, where a partition has changed.
    pub is_incremental: bool,
    /// `NORECOMPUTE`: it is not updated automatically.
    pub no_recompute: bool,
    /// `AUTO_DROP = ON`: it is dropped if it would prevent a change of a column.
    pub auto_drop: bool,
    /// When it was updated: 100 ns since 1970-01-01 UTC.
    pub updated: Option<i64>,
    /// Rows of the table at that time, before any filter.
    pub unfiltered_rows: i64,
    /// Rows whose leading column was inserted, deleted or changed since then, as far as that is stored.
    pub modified: i64,
    /// `PERSIST_SAMPLE_PERCENT`, in millionths of the table; 0 without.
    pub sample_millionths: i32,
    /// What was gathered, by partition.
    pub parts: Vec<StatisticsPart>,
}

impl Statistics {
    /// A statistics object never updated, over columns given by their places in the table.
    ///
    /// # Panics
    /// If a column is not in the table.
    pub fn new(table: &Table, id: i32, name: &str, origin: StatisticsOrigin, columns: &[usize]) -> Statistics {
        Statistics {
            table: table.id,
            id,
            name: name.to_owned(),
            origin,
            columns: columns.iter().map(|column| table.columns[*column].id).collect(),
            filter: None,
            is_incremental: false,
            no_recompute: false,
            auto_drop: false,
            updated: None,
            unfiltered_rows: 0,
            modified: 0,
            sample_millionths: 0,
            parts: Vec::new(),
        }
    }

    /// The statistics object of an index of a table, never updated.
    ///
    /// # Panics
    /// If the index is a heap.
    pub fn of_index(table: &Table, index: &Index) -> Statistics {
        let columns = Statistics::columns_of_index(table, index);
        let name = index.name.as_deref().expect("an index has a name");
        Statistics::new(table, index.id.0, name, StatisticsOrigin::Index, &columns)
    }

    /// The columns of an index's statistics, by their places in the table: those of its key and, if a nonclustered
    /// index is not unique, those of the clustered index's key that distinguish its entries, as in SQL Server.
    pub fn columns_of_index(table: &Table, index: &Index) -> Vec<usize> {
        let mut columns: Vec<usize> = index.key.iter().map(|part| part.column).collect();
        if index.kind == IndexKind::Nonclustered && !index.options.is_unique {
            for part in &table.base_index().key {
                if !columns.contains(&part.column) {
                    columns.push(part.column);
                }
            }
        }
        columns
    }

    /// The number of columns that it was created for: for an index those of its key.
    pub fn own_column_count(&self, table: &Table) -> usize {
        let index = table.indexes.iter().find(|index| index.id.0 == self.id);
        match index.filter(|_| self.origin == StatisticsOrigin::Index) {
            Some(index) => index.key.len().min(self.columns.len()),
            None => self.columns.len(),
        }
    }

    /// The places of its columns in the table; `None` if one is gone.
    pub fn columns_in(&self, table: &Table) -> Option<Vec<usize>> {
        let place = |id: &i32| table.columns.iter().position(|column| column.id == *id);
        self.columns.iter().map(place).collect()
    }

    /// What was gathered for a partition.
    pub fn part(&self, hobt: HobtId) -> Option<&Arc<Summary>> {
        self.parts.iter().find(|part| part.hobt == hobt).map(|part| &part.summary)
    }
}

impl DatabaseSnapshot {
    /// The statistics objects of a table, never updated ones included: its indexes' first, in the order of their ids.
    pub fn statistics_of(&self, table: &Table) -> Vec<Arc<Statistics>> {
        let stored = self.statistics.get(&table.id).map(Vec::as_slice).unwrap_or_default();
        let of_index = |index: &Index| {
            let own = Statistics::of_index(table, index);
            let found = stored.iter().find(|each| each.id == own.id && each.origin == StatisticsOrigin::Index);
            match found {
                Some(found) if found.columns == own.columns && found.name == own.name => Arc::clone(found),
                // The index was renamed, or rebuilt with another key: what was gathered for other columns is ignored.
                Some(found) if found.columns == own.columns => {
                    Arc::new(Statistics { name: own.name, ..Statistics::clone(found) })
                }
                _ => Arc::new(own),
            }
        };
        let mut all: Vec<_> = table.indexes.iter().filter(|index| !index.key.is_empty()).map(of_index).collect();
        all.extend(stored.iter().filter(|each| each.origin != StatisticsOrigin::Index).cloned());
        all.sort_by_key(|statistics| statistics.id);
        all
    }

    /// A statistics object of a table by its name.
    pub fn statistics_named(&self, table: &Table, name: &str) -> Option<Arc<Statistics>> {
        self.statistics_of(table).into_iter().find(|each| name_equals(&each.name, name))
    }

    /// Replaces the statistics object with the same number, or removes it if `None`.
    pub(crate) fn set_statistics(&mut self, table: ObjectId, id: i32, statistics: Option<Arc<Statistics>>) {
        let all = self.statistics.entry(table).or_default();
        all.retain(|each| each.id != id);
        all.extend(statistics);
        if all.is_empty() {
            self.statistics.remove(&table);
        }
    }

    /// Drops the statistics of indexes that a table no longer has, and those over columns that are gone.
    pub(crate) fn keep_statistics_of(&mut self, table: &Table) {
        let Some(all) = self.statistics.get_mut(&table.id) else { return };
        all.retain(|each| each.columns_in(table).is_some() && is_current(table, each));
        if all.is_empty() {
            self.statistics.remove(&table.id);
        }
    }
}

/// Whether the index of a statistics object still exists; true if it belongs to no index.
fn is_current(table: &Table, statistics: &Statistics) -> bool {
    statistics.origin != StatisticsOrigin::Index
        || table.indexes.iter().any(|index| index.id.0 == statistics.id && !index.key.is_empty())
}
