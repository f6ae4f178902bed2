//! How far a statement is: `percent_complete` of `sys.dm_exec_requests`.
//!
//! The work of a statement has steps, or parts that have steps of their own:
//! ```text
//!   one part      set(0, all)                     done / all
//!   two parts     set(0, read); ends_at(0.2)      0 % to 20 % while rows are read
//!                 begin_part(1.0, write)          from there to 100 % while rows are written
//! ```
//! The number of a part's steps may be an estimate. So a statement of parts is never said to be at 100 %, and
//! [`Progress::percent`] does not go back while a statement runs.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What times are counted from.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// What a statement whose steps are estimated is said to have done at most, since it has not ended.
const ESTIMATE_MAX: f64 = 0.99;

/// What the steps are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProgressUnit {
    /// Anything else.
    Steps,
    /// Rows.
    Rows,
    /// Bytes of files.
    Bytes,
    /// Pages.
    Pages,
}

/// Steps done and steps in all of the running part. A statement whose number of steps is unknown has 0 in all.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    all: AtomicU64,
    /// When the steps began, in nanoseconds.
    since_ns: AtomicU64,
    /// The share of the whole that was done when the part began, as the bits of an `f64`.
    base: AtomicU64,
    /// The share of the whole that is left when the part ends, likewise.
    rest: AtomicU64,
    /// The greatest share that was shown, likewise. Bits of numbers that are not negative are in the numbers' order.
    shown: AtomicU64,
    unit: AtomicU8,
    is_estimate: AtomicBool,
    is_undo: AtomicBool,
}

/// How long the rest takes at the rate of the `percent` that took `elapsed`; 0 before anything is done.
pub fn time_left(percent: f64, elapsed: Duration) -> Duration {
    if percent > 0.0 { elapsed.mul_f64((100.0 - percent) / percent) } else { Duration::ZERO }
}

fn now_ns() -> u64 {
    u64::try_from(ORIGIN.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

impl Progress {
    /// Sets how far it is. Without steps done it begins now, in one part.
    pub fn set(&self, done: u64, all: u64) {
        if done == 0 {
            self.since_ns.store(now_ns(), Ordering::Relaxed);
            self.base.store(0, Ordering::Relaxed);
            self.rest.store(0, Ordering::Relaxed);
            self.is_estimate.store(false, Ordering::Relaxed);
            self.count_in(ProgressUnit::Steps);
        }
        self.done.store(done, Ordering::Relaxed);
        self.all.store(all, Ordering::Relaxed);
        if done == 0 {
            self.shown.store(0, Ordering::Release);
        }
    }

    /// Says what the steps of the running part are.
    pub fn count_in(&self, unit: ProgressUnit) {
        self.unit.store(unit as u8, Ordering::Relaxed);
    }

    /// Steps a second in the running part, and what they are; `None` before the first is done.
    pub fn rate(&self) -> Option<(f64, ProgressUnit)> {
        let unit = match self.unit.load(Ordering::Relaxed) {
            unit if unit == ProgressUnit::Rows as u8 => ProgressUnit::Rows,
            unit if unit == ProgressUnit::Bytes as u8 => ProgressUnit::Bytes,
            unit if unit == ProgressUnit::Pages as u8 => ProgressUnit::Pages,
            _ => ProgressUnit::Steps,
        };
        let done = self.done.load(Ordering::Relaxed) as f64;
        let seconds = self.elapsed().as_secs_f64();
        (done > 0.0 && seconds > 0.0).then(|| (done / seconds, unit))
    }

    /// Whether the number of steps is known, or was estimated.
    pub fn is_known(&self) -> bool {
        self.all.load(Ordering::Relaxed) > 0
    }

    /// The time since the running part began.
    fn elapsed(&self) -> Duration {
        Duration::from_nanos(now_ns().saturating_sub(self.since_ns.load(Ordering::Relaxed)))
    }

    /// Says that other parts follow: this share of the whole is done when the steps of the running part are.
    pub fn ends_at(&self, share: f64) {
        self.is_estimate.store(true, Ordering::Relaxed);
        self.rest.store((1.0 - share.clamp(0.0, 1.0)).to_bits(), Ordering::Relaxed);
    }

    /// Begins another part, of `all` steps, when no steps of the last one are added any more. What was done stays done,
    /// and this share of the whole is done when the steps of the part are.
    pub fn begin_part(&self, share: f64, all: u64) {
        // First: a part that was thought to be the whole is an estimate now, and does not end at 100 %.
        self.is_estimate.store(true, Ordering::Relaxed);
        let base = self.share();
        // A view reads these in the opposite order, so that between two of them it shows no more than what is done.
        self.done.store(0, Ordering::Release);
        self.all.store(all.max(1), Ordering::Release);
        self.rest.store((1.0 - share.clamp(base, 1.0)).to_bits(), Ordering::Release);
        self.since_ns.store(now_ns(), Ordering::Relaxed);
        self.base.store(base.to_bits(), Ordering::Release);
    }

    /// Begins to undo in `all` steps.
    pub(crate) fn begin_undo(&self, all: u64) {
        self.set(0, all);
        self.is_undo.store(true, Ordering::Relaxed);
    }

    /// Nothing is undone any more.
    pub(crate) fn end_undo(&self) {
        self.is_undo.store(false, Ordering::Relaxed);
    }

    /// Whether changes are being undone.
    pub fn is_undo(&self) -> bool {
        self.is_undo.load(Ordering::Relaxed)
    }

    /// How long the steps that are left take at the rate of those of the running part.
    pub fn left(&self) -> Duration {
        let base = f64::from_bits(self.base.load(Ordering::Acquire));
        let share = self.share();
        // What came before the part took its time at another rate.
        let of_part = (share - base) / (1.0 - base);
        time_left(100.0 * of_part.clamp(0.0, 1.0), self.elapsed())
    }

    /// Adds steps to be done.
    pub fn expect(&self, more: u64) {
        self.all.fetch_add(more, Ordering::Relaxed);
    }

    /// Adds steps that were done.
    pub fn add(&self, done: u64) {
        self.done.fetch_add(done, Ordering::Relaxed);
    }

    /// Per cent of the steps; 0 where there are none. Does not go back while the statement runs.
    pub fn percent(&self) -> f64 {
        let share = self.share().to_bits();
        100.0 * f64::from_bits(self.shown.fetch_max(share, Ordering::Relaxed).max(share))
    }

    /// The share of the whole that is done.
    fn share(&self) -> f64 {
        let base = f64::from_bits(self.base.load(Ordering::Acquire));
        let rest = f64::from_bits(self.rest.load(Ordering::Acquire));
        let all = self.all.load(Ordering::Acquire);
        let done = self.done.load(Ordering::Relaxed);
        // Steps are far below 2^52.
        let of_part = if all == 0 { 0.0 } else { done.min(all) as f64 / all as f64 };
        let share = base + (1.0 - rest - base).max(0.0) * of_part;
        if self.is_estimate.load(Ordering::Relaxed) { share.min(ESTIMATE_MAX) } else { share.min(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::fence;

    use super::*;

    #[test]
    fn parts_share_the_whole_and_none_goes_back() {
        let progress = Progress::default();
        progress.set(0, 100);
        progress.ends_at(0.5);
        progress.add(50);
        assert!((progress.percent() - 25.0).abs() < 1e-9);
        progress.begin_part(1.0, 10);
        assert!((progress.percent() - 25.0).abs() < 1e-9, "what was done stays done");
        progress.add(5);
        assert!((progress.percent() - 62.5).abs() < 1e-9);
        progress.add(100);
        assert!((progress.percent() - 99.0).abs() < 1e-9, "an estimate that was too low says nothing of the end");
        progress.begin_part(1.0, 10);
        assert!((progress.percent() - 99.0).abs() < 1e-9);
        progress.set(0, 4);
        progress.add(4);
        assert!((progress.percent() - 100.0).abs() < 1e-9, "counted steps have an end");
        progress.begin_part(1.0, 10);
        progress.add(1);
        assert!(progress.left() < Duration::MAX, "a part behind one that was thought to be the last");
        progress.set(0, 0);
        assert!(progress.percent().abs() < 1e-9);
    }

    /// What is shown is the most that was ever seen. So a share that is too large for a moment would stay.
    #[test]
    fn a_view_that_looks_on_never_sees_more_than_what_is_done() {
        let progress = Progress::default();
        progress.set(0, 1000);
        progress.ends_at(0.4);
        // What is done, or will be with the next step. Stored before the step, and read after the share.
        let done = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let looks_on = scope.spawn(|| {
                let mut ended = false;
                while !ended {
                    let share = progress.share();
                    fence(Ordering::SeqCst);
                    let most = f64::from_bits(done.load(Ordering::Relaxed));
                    assert!(share <= most + 1e-9, "{share} of {most}");
                    ended = share >= 0.989;
                }
            });
            let mut base = 0.0;
            for (end, next) in [(0.4, 0.6), (0.6, 0.8), (0.8, 1.0), (1.0, 1.0)] {
                for step in 1..=100 {
                    done.store(f64::to_bits(base + (end - base) * f64::from(step) / 100.0), Ordering::Relaxed);
                    fence(Ordering::SeqCst);
                    progress.add(10);
                }
                base = end;
                if end < 1.0 {
                    progress.begin_part(next, 1000);
                }
            }
            looks_on.join().expect("it is never more");
        });
    }
}
