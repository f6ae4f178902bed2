//! What changes of rows left behind for statistics, folded into what the catalog keeps when a database is closed, so
//! that the next start knows it. Not at checkpoints: nobody is to be in the way of who changes tables meanwhile.

use std::sync::Arc;

use hobt_base::HobtId;
use hobt_catalog::{SnapshotChange, Statistics, StatisticsPart, Table};
use hobt_txn::StatementContext;

use super::super::Database;
use super::super::pending::{Name, Sharing};
use super::live::LeftParts;
use super::part::Together;
use crate::error::{EngineError, Result};

impl Database {
    /// Folds what was left behind into the bases, object by object; those at which somebody is at work wait for the
    /// next time.
    ///
    /// # Errors
    /// A device's error: the database is then suspect. Or the log is full, and what is not folded yet stays as it was.
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
            // Who is in the way has the next time.
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
        // What was known before the claim may be gone.
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

/// A statistics object whose parts have what was left behind of them.
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
