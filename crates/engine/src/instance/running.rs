//! Counts the running statements and says whether another may begin. One word has both, so that closing and beginning
//! are atomic.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bit that says that the instance is closed or closing. The bits below it count statements.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// The statements of an instance that have not ended.
#[derive(Debug, Default)]
pub(super) struct Running(AtomicUsize);

/// The result of an attempt to close.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Close {
    /// No statement runs, and none begins any more.
    Closed,
    /// It was closed before.
    WasClosed,
    /// This number of statements run.
    Running(usize),
}

impl Running {
    /// Counts a statement until the result is dropped; `None` if the instance is closed or closing.
    pub(super) fn begin(running: &Arc<Running>) -> Option<Begun> {
        let step = |count: usize| (count & CLOSED == 0).then_some(count + 1);
        running.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, step).ok()?;
        Some(Begun(Arc::clone(running)))
    }

    /// Closes if no statement runs. Otherwise nothing changes.
    pub(super) fn close(&self) -> Close {
        match self.0.compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Close::Closed,
            Err(count) if count & CLOSED != 0 => Close::WasClosed,
            Err(count) => Close::Running(count),
        }
    }

    /// Closes even if statements run.
    pub(super) fn close_whatever_runs(&self) -> Close {
        match self.0.fetch_or(CLOSED, Ordering::AcqRel) {
            0 => Close::Closed,
            count if count & CLOSED != 0 => Close::WasClosed,
            count => Close::Running(count),
        }
    }
}

/// A statement that has not ended.
#[derive(Debug)]
pub(super) struct Begun(Arc<Running>);

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_waits_for_no_statement_and_admits_none() {
        let running = Arc::new(Running::default());
        let (one, other) = (Running::begin(&running), Running::begin(&running));
        assert_eq!(running.close(), Close::Running(2));
        drop(one);
        let third = Running::begin(&running);
        assert!(third.is_some(), "a refused close changes nothing");
        drop((other, third));
        assert_eq!(running.close(), Close::Closed);
        assert!(Running::begin(&running).is_none());
        assert_eq!(running.close(), Close::WasClosed);
        assert_eq!(running.close_whatever_runs(), Close::WasClosed);
    }

    #[test]
    fn the_last_owner_closes_whatever_runs() {
        let running = Arc::new(Running::default());
        let one = Running::begin(&running);
        assert_eq!(running.close_whatever_runs(), Close::Running(1));
        assert!(Running::begin(&running).is_none());
        drop(one);
        assert_eq!(running.close_whatever_runs(), Close::WasClosed);
    }
}
