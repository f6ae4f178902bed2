//! The time of day.

use std::time::{SystemTime, UNIX_EPOCH};

/// The time of day: 100 ns since 1970-01-01 UTC; 0 before that.
pub fn time_of_day() -> i64 {
    if let Some(date) = hobt_instruments::schedule::date() {
        return date;
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos() / 100).unwrap_or(i64::MAX)
}
