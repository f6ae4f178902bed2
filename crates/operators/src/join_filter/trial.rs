//! Whether a filter is worth testing. It is tried on some rows, rests if nearly all of them passed, and is tried again.
//!
//! Rows may lie in an order that a filter follows. In a fact table that was loaded day by day, a filter on some days
//! lets all rows of one stretch pass and none of the next. So no filter is dropped for good. The cost of a filter that
//! never leaves a row out is bounded, since each rest is twice as long as the one before, up to a limit.

/// Rows after which it is decided whether a filter is worth testing.
const TRIAL_ROWS: u64 = 1 << 16;
/// Rows that are not tested during a filter's first rest, and during its longest.
const REST_MIN: u64 = 4 * TRIAL_ROWS;
const REST_MAX: u64 = 64 * TRIAL_ROWS;

/// The trial state of one filter of one worker.
#[derive(Debug)]
pub(super) struct Trial {
    /// Rows tested, and rows passed, in this trial.
    seen: u64,
    passed: u64,
    /// Rows left of the current rest.
    resting: u64,
    /// Rows of the next rest.
    rest: u64,
}

impl Default for Trial {
    fn default() -> Trial {
        Trial { seen: 0, passed: 0, resting: 0, rest: REST_MIN }
    }
}

impl Trial {
    /// Whether the filter rests.
    pub(super) fn rests(&self) -> bool {
        self.resting > 0
    }

    /// Whether the filter is tested on the next rows; if not, they count towards its rest.
    pub(super) fn is_asked(&mut self, rows: u64) -> bool {
        let rests = self.rests();
        self.resting = self.resting.saturating_sub(rows);
        !rests
    }

    /// Notes that `passed` of `seen` rows have passed. A filter rests if more than `part` of each `of` rows pass.
    pub(super) fn note(&mut self, seen: u64, passed: u64, (part, of): (u64, u64)) {
        (self.seen, self.passed) = (self.seen + seen, self.passed + passed);
        if self.seen < TRIAL_ROWS || self.rests() {
            return;
        }
        if self.passed * of > self.seen * part {
            self.resting = self.rest;
            self.rest = (self.rest * 2).min(REST_MAX);
        } else {
            self.rest = REST_MIN;
        }
        (self.seen, self.passed) = (0, 0);
    }

    /// Ends testing for good: the filter cannot be tested.
    pub(super) fn end(&mut self) {
        self.resting = u64::MAX;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offers pages of 100 rows, each of which `passed` rows pass; returns how many pages were tested.
    fn ask(trial: &mut Trial, pages: u64, passed: u64) -> u64 {
        let mut asked = 0;
        for _ in 0..pages {
            if trial.is_asked(100) {
                asked += 1;
                trial.note(100, passed, (9, 10));
            }
        }
        asked
    }

    #[test]
    fn what_leaves_rows_out_is_always_asked() {
        assert_eq!(ask(&mut Trial::default(), 100_000, 80), 100_000);
    }

    #[test]
    fn what_never_leaves_one_out_is_asked_ever_less() {
        let mut trial = Trial::default();
        let (first, second) = (ask(&mut trial, 100_000, 100), ask(&mut trial, 100_000, 100));
        assert!(first < 15_000 && second < first, "{first}, {second}");
    }

    #[test]
    fn what_begins_to_leave_rows_out_is_asked_again() {
        let mut trial = Trial::default();
        ask(&mut trial, 2000, 100);
        assert!(trial.rests());
        let asked = ask(&mut trial, 10_000, 0);
        assert!(asked > 6000, "{asked}");
        assert_eq!(ask(&mut trial, 1000, 0), 1000);
    }

    #[test]
    fn what_cannot_tell_is_never_asked_again() {
        let mut trial = Trial::default();
        trial.end();
        assert_eq!(ask(&mut trial, 100_000, 0), 0);
    }
}
