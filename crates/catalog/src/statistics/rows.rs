//! Statistics objects in the rows of system tables.

use std::collections::HashMap;
use std::sync::Arc;

use hobt_base::{HobtId, ObjectId};
use hobt_txn::StatementContext;
use hobt_types::statistics::{decode, encode};

use super::{Statistics, StatisticsOrigin, StatisticsPart, is_current};
use crate::error::{CatalogError, damaged};
use crate::heaps::SystemHeaps;
use crate::long_value::{LongValues, ValueClass};
use crate::schema::{DatabaseSnapshot, Table};
use crate::system::{StatisticsPartRow, StatisticsRow, SystemTable, Timestamp};

/// The size in bytes of a part's piece in one row: with the row's other columns it fits a page.
const PIECE_BYTES: usize = 7000;

const INCREMENTAL: i32 = 1;
const NO_RECOMPUTE: i32 = 2;
const FILTERED: i32 = 4;
const AUTO_DROP: i32 = 8;

const ORIGINS: [StatisticsOrigin; 3] = [StatisticsOrigin::Index, StatisticsOrigin::Automatic, StatisticsOrigin::User];

impl Statistics {
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
