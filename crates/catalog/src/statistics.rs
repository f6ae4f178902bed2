//! Statistics objects: their definitions, what the last update gathered, and how both are stored.
//!
//! A statistics object is identified by its table and a number; indexes of the table use the same numbers. Every index
//! has a statistics object automatically: its row is written at its first update, and its name and columns are the
//! index's, whatever its row says.
//!
//! What was gathered is in *parts*, one for each partition of the table's heap or clustered index, identified by its
//! HOBT. A part with HOBT 0 describes the whole table, as a `STATS_STREAM` supplies it. Parts with HOBTs that the table
//! no longer has are ignored. Changes since then are kept elsewhere (crate `engine`).

use std::collections::HashMap;
use std::sync::Arc;

use hobt_base::{HobtId, ObjectId};
use hobt_txn::StatementContext;
use hobt_types::statistics::{Summary, decode, encode};

use crate::error::{CatalogError, damaged};
use crate::heaps::SystemHeaps;
use crate::long_value::{LongValues, ValueClass};
use crate::schema::{DatabaseSnapshot, Index, IndexKind, Table, name_equals};
use crate::system::{StatisticsPartRow, StatisticsRow, SystemTable, Timestamp};

/// The size in bytes of a part's piece in one row: with the row's other columns it fits a page.
const PIECE_BYTES: usize = 7000;

const INCREMENTAL: i32 = 1;
const NO_RECOMPUTE: i32 = 2;
const FILTERED: i32 = 4;
const AUTO_DROP: i32 = 8;

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

const ORIGINS: [StatisticsOrigin; 3] = [StatisticsOrigin::Index, StatisticsOrigin::Automatic, StatisticsOrigin::User];

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

    fn row(&self) -> StatisticsRow {
        let bits = [
            (self.is_incremental, INCREMENTAL),
            (self.no_recompute, NO_RECOMPUTE),
            (self.filter.is_some(), FILTERED),
            (self.auto_drop, AUTO_DROP),
        ];
        let origin = ORIGINS.iter().zip(0..).find_map(|(origin, number)| (*origin == self.origin).then_some(number));
        StatisticsRow {
            table: self.table.0,
            statistics: self.id,
            name: self.name.clone(),
            origin: origin.expect("every origin is listed"),
            columns: self.columns.iter().flat_map(|id| id.to_le_bytes()).collect(),
            status: bits.iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum(),
            updated: self.updated.map(Timestamp),
            unfiltered_rows: self.unfiltered_rows,
            modified: self.modified,
            sample: self.sample_millionths,
        }
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

impl SystemHeaps {
    /// Writes the rows of a statistics object, replacing its old rows.
    ///
    /// # Errors
    /// As of any insert and delete.
    pub fn put_statistics(&self, ctx: &StatementContext, statistics: &Statistics) -> Result<(), CatalogError> {
        self.delete_statistics(ctx, statistics.table, statistics.id)?;
        self.insert_statistics(ctx, statistics)?;
        statistics.parts.iter().try_for_each(|part| self.insert_part(ctx, statistics, part))
    }

    /// Writes the parts of a statistics object that differ from those in `before`. Deletes parts with other HOBTs than
    /// `hobts`, which are the table's.
    ///
    /// # Errors
    /// As of any insert and delete.
    pub fn put_statistics_beside(
        &self,
        ctx: &StatementContext,
        statistics: &Statistics,
        before: &Statistics,
        hobts: &[HobtId],
    ) -> Result<(), CatalogError> {
        let is_same = |hobt: HobtId| match (statistics.part(hobt), before.part(hobt)) {
            (Some(now), Some(then)) => Arc::ptr_eq(now, then),
            _ => false,
        };
        let is_kept = |hobt: HobtId| (hobt == HobtId(0) || hobts.contains(&hobt)) && is_same(hobt);
        self.delete_head(ctx, statistics.table, statistics.id)?;
        self.delete(ctx, |row: &StatisticsPartRow| {
            let is_own = row.table == statistics.table.0 && row.statistics == statistics.id;
            is_own && !is_kept(HobtId(row.hobt.cast_unsigned()))
        })?;
        self.insert_statistics(ctx, statistics)?;
        let changed = statistics.parts.iter().filter(|part| !is_kept(part.hobt));
        changed.into_iter().try_for_each(|part| self.insert_part(ctx, statistics, part))
    }

    fn insert_statistics(&self, ctx: &StatementContext, statistics: &Statistics) -> Result<(), CatalogError> {
        self.insert(ctx, &statistics.row())?;
        if let Some(filter) = &statistics.filter {
            let class = ValueClass::StatisticsFilter;
            self.insert_long(ctx, class, statistics.table.0, statistics.id, Some(filter.as_bytes()))?;
        }
        Ok(())
    }

    fn insert_part(
        &self,
        ctx: &StatementContext,
        statistics: &Statistics,
        part: &StatisticsPart,
    ) -> Result<(), CatalogError> {
        let mut image = Vec::new();
        encode(&part.summary, &mut image);
        let (table, id, hobt) = (statistics.table.0, statistics.id, part.hobt.0.cast_signed());
        for (piece, bytes) in (0..).zip(image.chunks(PIECE_BYTES)) {
            let image = bytes.to_vec();
            self.insert(ctx, &StatisticsPartRow { table, statistics: id, hobt, piece, image })?;
        }
        Ok(())
    }

    /// Deletes the rows of a statistics object, if it has any.
    ///
    /// # Errors
    /// As of any delete.
    pub fn delete_statistics(&self, ctx: &StatementContext, table: ObjectId, id: i32) -> Result<(), CatalogError> {
        self.delete_head(ctx, table, id)?;
        self.delete(ctx, |row: &StatisticsPartRow| row.table == table.0 && row.statistics == id).map(|_| ())
    }

    fn delete_head(&self, ctx: &StatementContext, table: ObjectId, id: i32) -> Result<(), CatalogError> {
        let mut filtered = false;
        self.delete(ctx, |row: &StatisticsRow| {
            let is_it = row.table == table.0 && row.statistics == id;
            filtered |= is_it && row.status & FILTERED != 0;
            is_it
        })?;
        if filtered {
            self.delete_long_part(ctx, ValueClass::StatisticsFilter, table.0, id)?;
        }
        Ok(())
    }

    /// Deletes the rows of all statistics objects of a table.
    ///
    /// # Errors
    /// As of any delete.
    pub fn delete_all_statistics(&self, ctx: &StatementContext, table: ObjectId) -> Result<(), CatalogError> {
        if self.delete(ctx, |row: &StatisticsRow| row.table == table.0)? == 0 {
            return Ok(());
        }
        self.delete_long(ctx, ValueClass::StatisticsFilter, table.0)?;
        self.delete(ctx, |row: &StatisticsPartRow| row.table == table.0).map(|_| ())
    }

    /// Deletes the rows of statistics objects of indexes and columns that a table's new definition no longer has. An
    /// index that gets the same number later must not find them.
    ///
    /// # Errors
    /// As of any delete.
    pub fn delete_lost_statistics(
        &self,
        ctx: &StatementContext,
        old: &DatabaseSnapshot,
        new: &Table,
    ) -> Result<(), CatalogError> {
        let stored = old.statistics.get(&new.id).map(Vec::as_slice).unwrap_or_default();
        let is_lost = |each: &&Arc<Statistics>| each.columns_in(new).is_none() || !is_current(new, each);
        stored.iter().filter(is_lost).try_for_each(|lost| self.delete_statistics(ctx, new.id, lost.id))
    }

    /// All statistics objects, by their tables. Those of tables and indexes that do not exist are ignored: rows of a
    /// table are rewritten with its definition, those of its statistics are not.
    pub(crate) fn load_statistics(
        &self,
        snapshot: &mut DatabaseSnapshot,
        long: &mut LongValues,
    ) -> Result<(), CatalogError> {
        let mut parts = assemble_parts(self.rows()?);
        for row in self.rows::<StatisticsRow>()? {
            let parts = parts.remove(&(row.table, row.statistics)).unwrap_or_default();
            // Statistics are only advice: those that are inconsistent, or of a dropped table, count as never gathered.
            let Ok(statistics) = of_row(row, parts, long) else { continue };
            let Some(table) = snapshot.tables.get(&statistics.table).cloned() else { continue };
            if statistics.columns_in(&table).is_some() && is_current(&table, &statistics) {
                snapshot.set_statistics(table.id, statistics.id, Some(Arc::new(statistics)));
            }
        }
        Ok(())
    }
}

pub(crate) fn of_row(
    row: StatisticsRow,
    parts: Vec<StatisticsPart>,
    long: &mut LongValues,
) -> Result<Statistics, CatalogError> {
    let wrong = |what: String| damaged(SystemTable::Statistics, format!("statistics '{}': {what}", row.name));
    let origin = ORIGINS.get(usize::from(row.origin)).ok_or_else(|| wrong(format!("origin {}", row.origin)))?;
    let (ids, rest) = row.columns.as_chunks::<4>();
    if ids.is_empty() || !rest.is_empty() || row.status & !(INCREMENTAL | NO_RECOMPUTE | FILTERED | AUTO_DROP) != 0 {
        return Err(wrong(format!("{} bytes of columns, status {}", row.columns.len(), row.status)));
    }
    let columns: Vec<i32> = ids.iter().map(|id| i32::from_le_bytes(*id)).collect();
    if parts.iter().any(|part| part.summary.prefixes.len() != columns.len()) {
        return Err(wrong("a part is of another number of columns".to_owned()));
    }
    let filter = (row.status & FILTERED != 0)
        .then(|| long.take_text(ValueClass::StatisticsFilter, row.table, row.statistics))
        .transpose()?;
    Ok(Statistics {
        table: ObjectId(row.table),
        id: row.statistics,
        name: row.name,
        origin: *origin,
        columns,
        filter,
        is_incremental: row.status & INCREMENTAL != 0,
        no_recompute: row.status & NO_RECOMPUTE != 0,
        auto_drop: row.status & AUTO_DROP != 0,
        updated: row.updated.map(|time| time.0),
        unfiltered_rows: row.unfiltered_rows.max(0),
        modified: row.modified.max(0),
        sample_millionths: row.sample.clamp(0, 1_000_000),
        parts,
    })
}

/// Assembles parts from their pieces, by table and statistics; leaves incomplete ones out.
pub(crate) fn assemble_parts(mut rows: Vec<StatisticsPartRow>) -> HashMap<(i32, i32), Vec<StatisticsPart>> {
    let key = |row: &StatisticsPartRow| (row.table, row.statistics, row.hobt);
    rows.sort_by_key(|row| (key(row), row.piece));
    let mut parts: HashMap<(i32, i32), Vec<StatisticsPart>> = HashMap::new();
    for pieces in rows.chunk_by(|left, right| key(left) == key(right)) {
        let (table, statistics, hobt) = key(&pieces[0]);
        if !pieces.iter().map(|row| row.piece).eq(0..i32::try_from(pieces.len()).unwrap_or(i32::MAX)) {
            continue;
        }
        let image: Vec<u8> = pieces.iter().flat_map(|row| row.image.iter().copied()).collect();
        let Ok(summary) = decode(&image) else { continue };
        let part = StatisticsPart { hobt: HobtId(hobt.cast_unsigned()), summary: Arc::new(summary) };
        parts.entry((table, statistics)).or_default().push(part);
    }
    parts
}
