//! The order of writing statements, and the time of day.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use hobt_base::Stamp;

/// Hands out stamps, each larger than all before; one per instance.
#[derive(Debug, Default)]
pub(crate) struct StampClock(AtomicU64);

impl StampClock {
    /// A stamp that nobody has yet.
    pub(crate) fn next(&self) -> Stamp {
        Stamp(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// The latest stamp that was handed out.
    pub(crate) fn latest(&self) -> Stamp {
        Stamp(self.0.load(Ordering::Relaxed))
    }

    /// All later stamps are above `stamp`.
    pub(crate) fn raise_above(&self, stamp: Stamp) {
        self.0.fetch_max(stamp.0, Ordering::Relaxed);
    }
}

/// The time of day: 100 ns since 1970-01-01 UTC; 0 before that.
pub(crate) fn time_of_day() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos() / 100).unwrap_or(i64::MAX)
}
