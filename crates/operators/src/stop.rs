//! The part of a statement that its joins use: cancellation, and a counter.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::Result;
use hobt_base::SqlError;

use hobt_table::StatementRun;
use hobt_udf::external;

/// Tells a join when to stop, and counts how often it puts rows into files.
#[derive(Clone)]
pub(super) struct Stop {
    is_over: Arc<dyn Fn() -> bool + Send + Sync>,
    splits: Arc<AtomicU64>,
}

impl Stop {
    /// For the joins of a statement.
    pub(super) fn of(run: &Arc<StatementRun>) -> Stop {
        let (splits, run) = (Arc::clone(run.join_splits()), Arc::clone(run));
        Stop::when(splits, move || run.is_cancelled())
    }

    /// Counts in `splits`, and tells joins to stop when `is_over` is true.
    pub(super) fn when(splits: Arc<AtomicU64>, is_over: impl Fn() -> bool + Send + Sync + 'static) -> Stop {
        Stop { is_over: Arc::new(is_over), splits }
    }

    /// Never tells joins to stop; its count is not read.
    pub(super) fn never() -> Stop {
        Stop::when(Arc::default(), || false)
    }

    /// # Errors
    /// 3617: the statement was cancelled.
    pub(super) fn check(&self) -> Result<()> {
        if (self.is_over)() { Err(external(SqlError::cancelled())) } else { Ok(()) }
    }

    /// Counts that both sides of a join are put into files.
    pub(super) fn count_split(&self) {
        self.splits.fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stop")
    }
}
