//! Locks on rows that a statement has found and will change.

use arrow::array::RecordBatch;
use hobt_base::{SessionId, SqlError, errors};
use hobt_engine::{DatabaseUse, RowAt};
use hobt_txn::locks::{LockError, LockMode, LockResource};

use super::insert::WriteTarget;
use super::places::Places;
use hobt_table::{StatementRun, UnseenRows};

/// The rows that a statement has found to change.
#[derive(Debug)]
pub struct FoundRows(Vec<RowAt>);

impl FoundRows {
    /// The rows of batches of [`super::ChangedRows`] or [`super::MergedRows`]; a row without a position is new.
    ///
    /// # Errors
    /// The rows have no position column.
    pub fn of<'r>(batches: impl IntoIterator<Item = &'r RecordBatch>) -> Result<FoundRows, SqlError> {
        let mut rows = Vec::new();
        for batch in batches {
            let places = Places::of(batch)?;
            for row in (0..batch.num_rows()).filter(|row| places.is_somewhere(*row)) {
                rows.push(places.row(row)?);
            }
        }
        // In one order, so that two statements that change the same rows do not wait for each other.
        rows.sort_unstable();
        Ok(FoundRows(rows))
    }

    /// These rows and `others`.
    #[must_use]
    pub fn and(self, others: &[RowAt]) -> FoundRows {
        let mut rows = self.0;
        rows.extend_from_slice(others);
        rows.sort_unstable();
        rows.dedup();
        FoundRows(rows)
    }

    /// Those of them, and of `idle` (other rows that the query's result depends on), that other transactions are
    /// changing.
    pub fn unseen(&self, idle: &[RowAt], unseen: &UnseenRows) -> Vec<RowAt> {
        match unseen.is_watched() {
            true => self.0.iter().chain(idle).filter(|row| unseen.has_met(row)).cloned().collect(),
            false => Vec::new(),
        }
    }

    /// Locks them exclusively, and notes the locks in `taken`. Blocks. Locks nothing if the table is locked as a whole.
    ///
    /// # Errors
    /// 1205, 1222, 3617.
    pub fn lock(
        &self,
        run: &StatementRun,
        target: &WriteTarget,
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

    /// Whether one of them was changed by a transaction that the statement does not see.
    ///
    /// # Errors
    /// Versions cannot be read, or were given up.
    pub fn is_any_changed(&self, run: &StatementRun, target: &WriteTarget) -> Result<bool, SqlError> {
        let Some(view) = run.context.view() else { return Ok(false) };
        for row in &self.0 {
            if target.writer().is_changed(row, &view).map_err(|error| target.sql_error(error))? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The error for the user of a session if a lock was not granted.
pub fn lock_error(session: SessionId, error: LockError) -> SqlError {
    match error {
        LockError::Cancelled => SqlError::cancelled(),
        LockError::Timeout => errors::LOCK_TIMEOUT.with([&error]),
        LockError::Deadlock => errors::DEADLOCK.with([&session]),
    }
}

/// 3960.
pub fn snapshot_conflict(database: &DatabaseUse, table: &str) -> SqlError {
    errors::SNAPSHOT_CONFLICT.with([&table, &database.name()])
}
