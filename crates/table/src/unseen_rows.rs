//! Rows of a statement's target that other transactions are changing, as one run of its query meets them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use hobt_access::AccessError;
use hobt_base::SqlError;
use hobt_engine::RowAt;
use parking_lot::Mutex;

use super::TableRead;
use crate::StatementRun;

/// About how many bytes a noted row takes.
const MET_BYTES: u64 = 96;

/// How rows of a statement's target that other transactions are changing are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum UnseenUse {
    /// Not at all: the table is not the target.
    #[default]
    None,
    /// They are output in their current state, beside the snapshot's rows.
    Shown,
    /// They are only noted: all of them matter.
    Noted,
}

/// Rows of a statement's target that other transactions are changing, as far as one run of its query has met them.
#[derive(Debug, Default)]
pub struct UnseenRows {
    usage: Mutex<UnseenUse>,
    /// Whether the plan reads such rows.
    is_watched: AtomicBool,
    met: Mutex<HashSet<RowAt>>,
}

impl UnseenRows {
    /// Sets how they are used, before the query is planned.
    pub fn use_so(&self, usage: UnseenUse) {
        *self.usage.lock() = usage;
    }

    /// How they are used.
    pub fn usage(&self) -> UnseenUse {
        *self.usage.lock()
    }

    /// Notes that there are such rows, and that the plan reads them.
    pub fn watch(&self) {
        self.is_watched.store(true, Ordering::Relaxed);
    }

    /// Whether there may be such rows.
    pub fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    /// Whether a row is one of them.
    pub fn has_met(&self, row: &RowAt) -> bool {
        self.is_watched() && self.met.lock().contains(row)
    }

    /// The rows that were met.
    pub fn met(&self) -> Vec<RowAt> {
        self.met.lock().iter().cloned().collect()
    }

    /// Notes rows. Their memory is charged to the statement until its end.
    ///
    /// # Errors
    /// 701.
    pub fn meet(&self, run: &StatementRun, table: &TableRead, rows: &[RowAt]) -> Result<(), SqlError> {
        let grown = run.context.memory().grow(rows.len() as u64 * MET_BYTES);
        grown.map_err(|error| table.sql_error(AccessError::OutOfMemory(error)))?;
        self.met.lock().extend(rows.iter().cloned());
        Ok(())
    }
}
