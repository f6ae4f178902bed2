//! For how long single rows hold the page that they come into: what limits inserts that all meet on one page.
//!
//! Off unless somebody asks (the laboratory does), because two looks at the clock are much beside a row.

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
    /// How many.
    pub count: u64,
    /// How long all together, time without a processor included.
    pub time_ns: u64,
}

/// What was counted since the start.
pub fn snapshot() -> Holds {
    let (count, time_ns) = slots::row_page_holds();
    Holds { count, time_ns }
}

/// One hold of a page's latch. To be made before the latch is asked for, so that it is dropped behind the guard, and
/// begun once the latch is there.
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

    /// The latch was let go of.
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
