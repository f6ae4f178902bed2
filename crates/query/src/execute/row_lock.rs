//! Locks of rows that a statement has found or is about to load.

use arrow::array::RecordBatch;
use hobt_access::RowStore;
use hobt_base::{PageId, SessionId, SqlError, Stamp, number};
use hobt_engine::{DatabaseUse, RowAt};
use hobt_txn::RowId;
use hobt_txn::locks::{LockError, LockMode, LockResource};

use super::insert::InsertTarget;
use super::places::Places;
use super::statement::StatementRun;

/// The rows that a statement has found to change.
#[derive(Debug)]
pub struct FoundRows(Vec<RowAt>);

impl FoundRows {
    /// Those of batches of [`super::ChangedRows`] or [`super::MergedRows`]; a row that lies nowhere is new.
    ///
    /// # Errors
    /// Rows without their places.
    pub fn of<'r>(batches: impl IntoIterator<Item = &'r RecordBatch>) -> Result<FoundRows, SqlError> {
        let mut rows = Vec::new();
        for batch in batches {
            let places = Places::of(batch)?;
            for row in (0..batch.num_rows()).filter(|row| places.is_somewhere(*row)) {
                rows.push(places.row(row)?);
            }
        }
        // Two statements that change the same rows wait one for the other, not both.
        rows.sort_unstable();
        Ok(FoundRows(rows))
    }

    /// Locks them to be changed, and notes in `taken` what that took. Blocks. Nothing is locked where the table is locked as a
    /// whole.
    ///
    /// # Errors
    /// 1205, 1222, 3617.
    pub fn lock(
        &self,
        run: &StatementRun,
        target: &InsertTarget,
        taken: &mut Vec<LockResource>,
    ) -> Result<(), SqlError> {
        let Some(locks) = target.row_locks(run) else { return Ok(()) };
        locks.begin_round();
        for row in &self.0 {
            let hobt = target.writer().base()[row.partition()].hobt().id();
            let locked = locks.lock(hobt, row.id(), LockMode::Exclusive, &|| run.is_cancelled(), taken);
            locked.map_err(|error| lock_error(run.context.session(), error))?;
            locks.escalate_if_due();
        }
        Ok(())
    }

    /// Whether one of them was changed by somebody whom the statement does not see.
    pub fn is_any_changed(&self, run: &StatementRun, target: &InsertTarget) -> bool {
        run.context.view().is_some_and(|view| self.0.iter().any(|row| target.writer().is_changed(row, &view)))
    }
}

/// Waits for those who have inserted rows into heaps and have not ended, as far as the statement locks rows of them. What is
/// inserted meanwhile is not waited for. Blocks.
///
/// # Errors
/// 1205, 1222, 3617.
pub fn wait_for_inserts(run: &StatementRun, stores: &[RowStore]) -> Result<(), SqlError> {
    let Some(seen) = run.context.snapshot_now(Stamp::default()) else { return Ok(()) };
    let inserted = stores[0].hobt().storage().versions().unseen_inserts(&seen);
    if inserted.is_empty() {
        return Ok(());
    }
    for store in stores {
        let hobt = store.hobt();
        let Some(locks) = run.context.row_locks(hobt.storage().database_tag(), hobt.id()) else { continue };
        let runs = hobt.runs();
        let is_own =
            |page: PageId| runs.iter().any(|run| run.first.file == page.file && run.row_pages().contains(&page.number));
        for (page, slot) in inserted.iter().filter(|(page, _)| is_own(*page)) {
            let mut taken = Vec::new();
            let row = RowId::Heap(*page, *slot);
            let locked = locks.lock(hobt.id(), row, LockMode::Shared, &|| run.is_cancelled(), &mut taken);
            locks.release(&taken);
            locked.map_err(|error| lock_error(run.context.session(), error))?;
        }
    }
    Ok(())
}

/// A lock that was not granted, as the user of a session sees it.
pub fn lock_error(session: SessionId, error: LockError) -> SqlError {
    match error {
        LockError::Cancelled => SqlError::cancelled(),
        LockError::Timeout => SqlError::new(number::LOCK_TIMEOUT, error.to_string()),
        LockError::Deadlock => {
            let text = format!(
                "Transaction (Process ID {session}) was deadlocked on lock resources with another process and has been chosen \
                 as the deadlock victim. Rerun the transaction."
            );
            SqlError { severity: 13, state: 51, ..SqlError::new(number::DEADLOCK, text) }
        }
    }
}

/// 3960.
pub fn snapshot_conflict(database: &DatabaseUse, table: &str) -> SqlError {
    let text = format!(
        "Snapshot isolation transaction aborted due to update conflict. You cannot use snapshot isolation to access table \
         '{table}' directly or indirectly in database '{}' to update, delete, or insert the row that has been modified or \
         deleted by another transaction. Retry the transaction or change the isolation level for the update/delete statement.",
        database.name()
    );
    SqlError { state: 2, ..SqlError::new(number::SNAPSHOT_CONFLICT, text) }
}
