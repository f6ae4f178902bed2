//! `TARGET_RECOVERY_TIME`: how much log recovery may have to redo before a checkpoint is due.
//! `docs/design/0045-time-to-open.md`.
//!
//! The bound is in bytes of log, because that is what analysis and redo take their time by: each byte is read and each
//! change applied, whether its page was written or not. An image counts as an eighth of its bytes, because it is copied
//! and its page not read. How many bytes a second they do is known from the last recovery of the database, if that was
//! long enough to be measured.

use std::sync::atomic::{AtomicU64, Ordering};

use hobt_access::RecoverySummary;

use crate::options::TargetRecoveryTime;

/// Bytes a second where no recovery was measured.
const BYTES_PER_SECOND_DEFAULT: u64 = 64 << 20;
/// The fewest bytes of a recovery whose time says something.
const MEASURED_FROM_BYTES: u64 = 32 << 20;
/// The next recovery may be slower than the last one: other databases are recovered at the same time, more pages are
/// read, and the disk is cold.
const TIMES_SLOWER: u64 = 8;

/// Bytes of log that analysis and redo do in a second; 0 where that was not measured.
#[derive(Debug, Default)]
pub(super) struct RedoRate(AtomicU64);

impl RedoRate {
    /// The rate of a recovery.
    pub(super) fn of(summary: &RecoverySummary) -> RedoRate {
        let micros = u64::try_from(summary.redo_time.as_micros()).unwrap_or(u64::MAX).max(1);
        let is_measured = summary.redo_bytes >= MEASURED_FROM_BYTES;
        let rate = summary.redo_bytes.saturating_mul(1_000_000) / micros;
        RedoRate(AtomicU64::new(if is_measured { rate.max(1) } else { 0 }))
    }

    fn bytes_per_second(&self) -> u64 {
        match self.0.load(Ordering::Relaxed) {
            0 => BYTES_PER_SECOND_DEFAULT,
            measured => measured,
        }
    }

    /// How many bytes of log recovery may have to redo; `u64::MAX` for any number.
    pub(super) fn bytes_in(&self, target: TargetRecoveryTime) -> u64 {
        match target.seconds() {
            0 => u64::MAX,
            seconds => self.bytes_per_second().saturating_mul(seconds.into()) / TIMES_SLOWER,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn rate(redo_bytes: u64, seconds: u64) -> RedoRate {
        let redo_time = Duration::from_secs(seconds);
        RedoRate::of(&RecoverySummary { redo_bytes, redo_time, ..RecoverySummary::default() })
    }

    #[test]
    fn the_bound_grows_with_the_target_and_the_measured_rate() {
        let target = TargetRecoveryTime::of;
        let default = rate(0, 0).bytes_in(target(60));
        assert_eq!(default, 60 * BYTES_PER_SECOND_DEFAULT / TIMES_SLOWER);
        assert_eq!(rate(MEASURED_FROM_BYTES - 1, 1).bytes_in(target(60)), default, "too little to be measured");
        let measured = rate(1 << 30, 8);
        assert_eq!(measured.bytes_in(target(60)), (1 << 27) * 60 / TIMES_SLOWER);
        assert_eq!(measured.bytes_in(target(120)), 2 * measured.bytes_in(target(60)));
        assert_eq!(measured.bytes_in(target(0)), u64::MAX, "no target");
        assert!(rate(u64::MAX, 0).bytes_in(target(u32::MAX)) > 0 && rate(1 << 30, u64::MAX).bytes_in(target(1)) < 64);
    }
}
