//! Statistics when a table's definition changes. Those of an index that was built were gathered during the build. For a
//! heap or clustered index that was rebuilt, the statistics of its old partitions are carried over.

use std::collections::HashMap;
use std::sync::Arc;

use hobt_base::{HobtId, ObjectId};
use hobt_catalog::{DatabaseSnapshot, SnapshotChange, Statistics, StatisticsPart, Table};
use hobt_txn::StatementContext;
use hobt_types::statistics::Summary;

use super::super::{Change, Database};
use super::changes::statistics_columns;
use crate::error::Result;
use hobt_instruments::time_of_day;

/// What was gathered of indexes that were built, by the indexes' places in the table.
pub(crate) type Gathered = HashMap<usize, Vec<StatisticsPart>>;

impl Database {
    /// Writes the statistics of a changed table that differ from the old ones.
    ///
    /// # Errors
    /// A device's error, after which the statement must be rolled back.
    pub(in super::super) fn carry_statistics(
        self: &Arc<Database>,
        ctx: &StatementContext,
        change: &Change,
        snapshot: &DatabaseSnapshot,
        (old, new): (&Table, &Table),
        mut gathered: Gathered,
    ) -> Result<()> {
        let known = snapshot.statistics_of(old);
        let mut changed = Vec::new();
        for (place, index) in new.indexes.iter().enumerate() {
            let Some(parts) = gathered.remove(&place) else { continue };
            let before = known.iter().find(|each| each.id == index.id.0);
            let rows: f64 = parts.iter().map(|part| part.summary.rows).sum();
            let is_incremental = before.is_some_and(|before| before.is_incremental);
            let no_recompute = before.is_some_and(|before| before.no_recompute);
            let (updated, unfiltered_rows) = (Some(time_of_day()), rows as i64);
            let own = Statistics::of_index(new, index);
            changed.push(Statistics { updated, unfiltered_rows, is_incremental, no_recompute, parts, ..own });
        }
        let moved = moved_partitions(old, new);
        let keys = |table: &Table, each: &Statistics| statistics_columns(table, &each.columns_in(table)?);
        for statistics in known.iter().filter(|each| each.columns_in(new).is_some()) {
            if changed.iter().any(|other: &Statistics| other.id == statistics.id) {
                continue;
            }
            // Statistics of values of another type are useless.
            if keys(old, statistics) != keys(new, statistics) {
                let (updated, modified, parts) = (None, 0, Vec::new());
                changed.push(Statistics { updated, modified, parts, ..Statistics::clone(statistics) });
                continue;
            }
            let parts = if moved.is_empty() { Vec::new() } else { self.carried_parts(statistics, old, &moved) };
            if !parts.is_empty() {
                changed.push(Statistics { parts, ..Statistics::clone(statistics) });
            }
        }
        for statistics in changed {
            let statistics = Arc::new(statistics);
            self.write_rows(ctx, |system, rows| system.put_statistics(rows, &statistics))?;
            let (table, id) = (statistics.table, statistics.id);
            change.add(SnapshotChange::SetStatistics(statistics));
            let live = Arc::clone(&self.live_statistics);
            ctx.on_commit(move || {
                live.forget(table, Some(id));
                Ok(())
            });
        }
        Ok(())
    }

    /// Carries statistics to a table that gets a partition, `hobt`, from another table, as far as both have statistics
    /// of the same columns.
    ///
    /// # Errors
    /// A device's error, after which the statement must be rolled back.
    pub(in super::super) fn switch_statistics(
        self: &Arc<Database>,
        ctx: &StatementContext,
        change: &Change,
        snapshot: &DatabaseSnapshot,
        (from, to): (&Table, &Table),
        hobt: HobtId,
    ) -> Result<()> {
        let known = snapshot.statistics_of(from);
        for statistics in snapshot.statistics_of(to) {
            // Both tables have the same columns in the same order.
            let places = |each: &Statistics, table: &Table| each.columns_in(table).filter(|_| each.filter.is_none());
            let wanted = places(&statistics, to);
            let source = known.iter().find(|each| wanted.is_some() && places(each, from) == wanted);
            let Some(source) = source else { continue };
            let summary = Arc::new(self.part_now(source, hobt));
            if summary.rows <= 0.0 {
                continue;
            }
            let mut switched = Statistics::clone(&statistics);
            switched.modified = switched.modified.saturating_add(summary.rows as i64);
            switched.parts.retain(|part| part.hobt != hobt);
            switched.parts.push(StatisticsPart { hobt, summary });
            let switched = Arc::new(switched);
            self.write_rows(ctx, |system, rows| system.put_statistics(rows, &switched))?;
            change.add(SnapshotChange::SetStatistics(switched));
            self.forget_part_at_commit(ctx, to.id, statistics.id, hobt);
        }
        for source in known.iter().filter(|source| source.part(hobt).is_some()) {
            let mut left = Statistics::clone(source);
            left.parts.retain(|part| part.hobt != hobt);
            let left = Arc::new(left);
            self.write_rows(ctx, |system, rows| system.put_statistics(rows, &left))?;
            change.add(SnapshotChange::SetStatistics(left));
        }
        known.iter().for_each(|source| self.forget_part_at_commit(ctx, from.id, source.id, hobt));
        Ok(())
    }

    /// Drops the changes recorded for a partition at commit: by then they are part of its statistics, or of another
    /// table's.
    fn forget_part_at_commit(&self, ctx: &StatementContext, table: ObjectId, id: i32, hobt: HobtId) {
        let live = Arc::clone(&self.live_statistics);
        ctx.on_commit(move || {
            live.forget_part(table, id, hobt);
            Ok(())
        });
    }

    /// The parts of a statistics object, with the changes since, by the HOBTs that the partitions have now.
    fn carried_parts(
        &self,
        statistics: &Statistics,
        old: &Table,
        moved: &HashMap<HobtId, Option<HobtId>>,
    ) -> Vec<StatisticsPart> {
        let mut parts = Vec::new();
        // What does not belong to a single partition any more.
        let mut rest: Vec<Arc<Summary>> = statistics.part(HobtId(0)).cloned().into_iter().collect();
        for partition in &old.base_index().partitions {
            let summary = Arc::new(self.part_now(statistics, partition.hobt));
            match moved.get(&partition.hobt) {
                _ if summary.rows <= 0.0 => {}
                Some(None) => rest.push(summary),
                Some(Some(hobt)) => parts.push(StatisticsPart { hobt: *hobt, summary }),
                None => parts.push(StatisticsPart { hobt: partition.hobt, summary }),
            }
        }
        if !rest.is_empty() {
            let all: Vec<&Summary> = rest.iter().map(|summary| &**summary).collect();
            parts.push(StatisticsPart { hobt: HobtId(0), summary: Arc::new(Summary::merged(&all)) });
        }
        parts
    }
}

/// The HOBTs of the heap or clustered index that are gone, each with the one that its rows moved to; `None` if the
/// partitioning has changed, so that its rows may be in any.
fn moved_partitions(old: &Table, new: &Table) -> HashMap<HobtId, Option<HobtId>> {
    let (before, after) = (old.base_index(), new.base_index());
    let is_alike = before.data_space == after.data_space && before.partitions.len() == after.partitions.len();
    let is_gone = |hobt: HobtId| after.partitions.iter().all(|partition| partition.hobt != hobt);
    let gone = before.partitions.iter().enumerate().filter(|(_, partition)| is_gone(partition.hobt));
    gone.map(|(place, partition)| (partition.hobt, is_alike.then(|| after.partitions[place].hobt))).collect()
}
