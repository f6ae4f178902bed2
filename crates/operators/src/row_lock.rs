//! Locks on rows that a statement has found and will change.

use std::sync::Arc;

use arrow::array::RecordBatch;
use hobt_base::{SessionId, SqlError, errors};
use hobt_engine::{DatabaseUse, RowAt};
use hobt_txn::locks::{LockError, LockMode, LockResource};

use super::held::Charge;
use super::insert::WriteTarget;
use super::places::Places;
use hobt_table::{StatementRun, UnseenRows};

/// Rows that a statement has found to change, as many as are locked in one order.
#[derive(Debug)]
pub struct FoundRows {
    rows: Vec<RowAt>,
    _charge: Charge,
}

/// About what a position takes, beside its key.
const PLACE_BYTES: u64 = 48;

impl FoundRows {
    /// The next rows of batches of [`super::ChangedRows`] or [`super::MergedRows`], as many as memory is for; none
    /// after the last. A row without a position is new.
    ///
    /// # Errors
    /// Those of the batches; the rows have no position column.
    pub fn next_of(
        run: &Arc<StatementRun>,
        batches: &mut dyn Iterator<Item = Result<RecordBatch, SqlError>>,
    ) -> Result<FoundRows, SqlError> {
        let (mut rows, mut charge) = (Vec::new(), Charge::new(run));
        for batch in batches {
            let batch = batch?;
            let places = Places::of(&batch)?;
            let mut bytes = 0;
            for row in (0..batch.num_rows()).filter(|row| places.is_somewhere(*row)) {
                let row = places.row(row)?;
                bytes += PLACE_BYTES + if let RowAt::Tree { key, .. } = &row { key.len() as u64 } else { 0 };
                rows.push(row);
            }
            if !charge.grow(bytes) {
                charge.overdraw(bytes);
                break;
            }
        }
        // In one order, so that two statements that change the same rows do not wait for each other.
        rows.sort_unstable();
        Ok(FoundRows { rows, _charge: charge })
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds `others` to them.
    pub fn add(&mut self, others: &[RowAt]) {
        self.rows.extend_from_slice(others);
        self.rows.sort_unstable();
        self.rows.dedup();
    }

    /// Whether another transaction is changing one of them.
    pub fn is_any_unseen(&self, unseen: &UnseenRows) -> bool {
        unseen.is_watched() && self.rows.iter().any(|row| unseen.has_met(row))
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
        for row in &self.rows {
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
        for row in &self.rows {
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
