//! How long single rows hold the page that they are inserted into. This limits inserts that all meet on one page.
//!
//! Off by default (the laboratory switches it on), because two clock readings cost much beside a row.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use crate::slots;
use crate::waits::nanoseconds;

static COUNTED: AtomicBool = AtomicBool::new(false);

/// Switches the counting of holds on or off, as at start. For the whole process.
pub fn set_counted(on: bool) {
    COUNTED.store(on, Relaxed);
}

/// Exclusive holds since the start, while they were counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Holds {
    /// Their number.
    pub count: u64,
    /// Their total time, including time without a processor.
    pub time_ns: u64,
}

/// The holds counted since the start.
pub fn snapshot() -> Holds {
    let (count, time_ns) = slots::row_page_holds();
    Holds { count, time_ns }
}

/// One hold of a page's latch. Make it before the latch is requested, so that it is dropped after the guard, and begin
/// it once the latch is held.
#[derive(Debug, Default)]
#[must_use = "the hold ends when this is dropped"]
pub struct Hold(Option<Instant>);

impl Hold {
    /// A hold that has not begun.
    pub const fn new() -> Hold {
        Hold(None)
    }

    /// The latch is held from now on.
    #[inline]
    pub fn begin(&mut self) {
        if COUNTED.load(Relaxed) {
            self.0 = Some(Instant::now());
        }
    }

    /// The latch was released.
    #[inline]
    pub fn end(&mut self) {
        if let Some(since) = self.0.take() {
            let held_ns = nanoseconds(since.elapsed());
            slots::with_slot(|slot| slot.row_page_holds.add(held_ns));
        }
    }
}

impl Drop for Hold {
    #[inline]
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_counts_once_and_only_when_asked() {
        let before = snapshot();
        let mut hold = Hold::new();
        hold.begin();
        drop(hold);
        assert_eq!(snapshot(), before, "nobody asked");
        set_counted(true);
        drop(Hold::new());
        assert_eq!(snapshot(), before, "it never began");
        let mut hold = Hold::new();
        hold.begin();
        hold.end();
        drop(hold);
        set_counted(false);
        let after = snapshot();
        assert_eq!(after.count, before.count + 1);
        assert!(after.time_ns >= before.time_ns);
    }
}
