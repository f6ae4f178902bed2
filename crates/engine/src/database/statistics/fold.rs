//! Folds committed row changes into the statistics in the catalog when a database is closed, so that the next start has
//! them. Checkpoints do not do this, so as not to delay transactions that change tables.

use std::sync::Arc;

use hobt_base::HobtId;
use hobt_catalog::{SnapshotChange, Statistics, StatisticsPart, Table};
use hobt_txn::StatementContext;

use super::super::Database;
use super::super::pending::{Name, Sharing};
use super::part::{LeftParts, Together};
use crate::error::{EngineError, Result};

impl Database {
    /// Folds the changes into the bases, object by object. Objects in use by a transaction wait for the next time.
    ///
    /// # Errors
    /// A device's error: the database is then suspect. Or the log is full: changes not folded yet stay as they were.
    pub(crate) fn fold_statistics(self: &Arc<Database>) -> Result<()> {
        if self.storage.broken().is_some() || self.options().is_read_only {
            return Ok(());
        }
        for (table, id) in self.live_statistics.changed() {
            let snapshot = self.snapshot();
            let Some(definition) = snapshot.tables.get(&table) else {
                self.live_statistics.forget(table, None);
                continue;
            };
            let found = snapshot.statistics_of(definition).into_iter().find(|each| each.id == id);
            match found {
                None => self.live_statistics.forget(table, Some(id)),
                Some(_) if !self.pending.is_free(&Name::Statistics(table)) => {}
                Some(statistics) => self.fold(definition, &statistics)?,
            }
        }
        Ok(())
    }

    fn fold(self: &Arc<Database>, table: &Table, statistics: &Arc<Statistics>) -> Result<()> {
        let ctx = self.shared.internal_context();
        let done = self.fold_in(&ctx, table, statistics);
        let ended = if done.is_ok() { ctx.commit() } else { ctx.roll_back() };
        if let Err(error) = ended {
            self.mark_suspect(&error.to_string());
        }
        match done {
            // An object that is in use is folded the next time.
            Err(EngineError::Statement(_)) => Ok(()),
            other => other,
        }
    }

    fn fold_in(
        self: &Arc<Database>,
        ctx: &StatementContext,
        table: &Table,
        statistics: &Arc<Statistics>,
    ) -> Result<()> {
        let change = self.begin(ctx, vec![(Name::Statistics(table.id), Sharing::Exclusive)])?;
        // The object may have been dropped before the claim.
        let snapshot = self.snapshot_of(ctx);
        let Some(table) = snapshot.tables.get(&table.id) else { return Ok(()) };
        let found = snapshot.statistics_of(table).into_iter().find(|each| each.id == statistics.id);
        let Some(statistics) = &found else { return Ok(()) };
        let left = self.live_statistics.take(ctx, table.id, statistics.id);
        let folded = folded(statistics, table, &left);
        let hobts: Vec<HobtId> = table.base_index().partitions.iter().map(|partition| partition.hobt).collect();
        let folded = Arc::new(folded);
        self.write_rows(ctx, |system, rows| system.put_statistics_beside(rows, &folded, statistics, &hobts))?;
        change.add(SnapshotChange::SetStatistics(folded));
        Ok(())
    }
}

/// A statistics object whose parts include the changes in `left`.
fn folded(statistics: &Statistics, table: &Table, left: &LeftParts) -> Statistics {
    let modified: u64 = left.values().map(|part| part.modifications).sum();
    let mut parts: Vec<StatisticsPart> = Vec::new();
    let hobts = table.base_index().partitions.iter().map(|partition| partition.hobt);
    for hobt in std::iter::once(HobtId(0)).chain(hobts) {
        let base = statistics.part(hobt);
        match left.get(&hobt).filter(|left| left.says_something()) {
            None => parts.extend(base.map(|summary| StatisticsPart { hobt, summary: Arc::clone(summary) })),
            Some(left) => {
                let together = Together::of_part(base.map(|base| &**base), Some(&**left));
                let summary = Arc::new(together.summary(statistics.columns.len()));
                parts.extend((summary.rows > 0.0).then_some(StatisticsPart { hobt, summary }));
            }
        }
    }
    Statistics { parts, modified: statistics.modified.saturating_add(modified.cast_signed()), ..statistics.clone() }
}
