//! The time of day.

/// The time of day in units of 100 ns since 1970-01-01 UTC; 0 before that.
pub fn time_of_day() -> i64 {
    crate::schedule::date().unwrap_or_else(exactly)
}

/// The time of day at the cost of a few loads, in units of 100 ns since 1970-01-01 UTC: as of the kernel's last tick,
/// usually 4 ms ago at most. Exact where the system has no such clock.
#[cfg(target_os = "linux")]
#[inline]
pub fn time_of_day_coarse() -> i64 {
    if let Some(date) = crate::schedule::date() {
        return date;
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of this frame, which the call fills.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &mut time) };
    if result != 0 {
        return exactly();
    }
    // On some platforms the fields are narrower.
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion, reason = "the fields' types differ by platform")]
    let (seconds, nanoseconds) = (i64::from(time.tv_sec), i64::from(time.tv_nsec));
    seconds * 10_000_000 + nanoseconds / 100
}

/// The time of day in units of 100 ns since 1970-01-01 UTC.
#[cfg(not(target_os = "linux"))]
pub fn time_of_day_coarse() -> i64 {
    exactly()
}

fn exactly() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos() / 100).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{exactly, time_of_day_coarse};

    #[test]
    fn it_is_never_ahead_of_the_exact_time_and_not_long_behind() {
        const SECOND: i64 = 10_000_000;
        let before = exactly();
        let coarse = time_of_day_coarse();
        let after = exactly();
        assert!(coarse <= after, "{coarse} is later than {after}");
        assert!(before - coarse < SECOND, "{coarse} is long before {before}");
    }
}
