//! A statement as far as its joins know it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::Result;
use hobt_base::SqlError;

use super::statement::StatementRun;
use crate::wrap::external;

/// Tells a join when to stop, and counts what it puts into files.
#[derive(Clone)]
pub(super) struct Stop {
    is_over: Arc<dyn Fn() -> bool + Send + Sync>,
    splits: Arc<AtomicU64>,
}

impl Stop {
    /// That of a statement.
    pub(super) fn of(run: &Arc<StatementRun>) -> Stop {
        let (splits, run) = (Arc::clone(run.join_splits()), Arc::clone(run));
        Stop::when(splits, move || run.is_cancelled())
    }

    /// One that counts in `splits` and tells to stop when `is_over`.
    pub(super) fn when(splits: Arc<AtomicU64>, is_over: impl Fn() -> bool + Send + Sync + 'static) -> Stop {
        Stop { is_over: Arc::new(is_over), splits }
    }

    /// One that never does, and of whose counts nobody hears.
    pub(super) fn never() -> Stop {
        Stop::when(Arc::default(), || false)
    }

    /// # Errors
    /// 3617: the statement was cancelled.
    pub(super) fn check(&self) -> Result<()> {
        if (self.is_over)() { Err(external(SqlError::cancelled())) } else { Ok(()) }
    }

    /// Counts that both sides of a join go into files.
    pub(super) fn count_split(&self) {
        self.splits.fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stop")
    }
}
