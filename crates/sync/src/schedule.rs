//! Who runs next: a scheduler with a seed, for tests of what threads do beside each other.
//!
//! With the feature `schedule`, which the simulators alone switch on, threads can be *actors* of a schedule. One actor
//! runs at a time. At each [`point`], a place where a thread may lose the processor, the schedule draws whether another
//! one goes on; where an actor cannot go on before another has done something it calls [`wait`]. So one number decides
//! the order of everything that the actors do to each other, and the same number does it again:
//!
//! ```text
//!   actor 0   ──point──point──────────────────point──wait┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄─point──
//!   actor 1                   ──point──point─                    ──point──
//!   actor 2                                          ──point──end
//! ```
//!
//! [`Mutex`], [`RwLock`] and [`Condvar`] are `parking_lot`'s without the feature. With it, and on an actor's thread,
//! they have a point before each acquisition, and whoever finds them held waits by the schedule. Actors may be
//! preempted while they hold one, as threads are.
//!
//! Time is the schedule's, too ([`now`]): a microsecond a point, and where all actors wait, the clock goes on until the
//! first that only waits for a moment gives up.
//!
//! On threads that are no actors, and without the feature, all of this does nothing. Left to others: what the actors
//! are, and whether what they have seen may be (crate `hobt-interleave`).

#[cfg(feature = "schedule")]
mod actors;
#[cfg(feature = "schedule")]
mod locks;

#[cfg(not(feature = "schedule"))]
pub use off::{actor, bound, date, is_actor, now, point, wait};
#[cfg(not(feature = "schedule"))]
pub use parking_lot::{Condvar, Mutex, RwLock};
pub use parking_lot::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

#[cfg(feature = "schedule")]
pub(crate) use actors::pretended_processors;
#[cfg(feature = "schedule")]
pub use actors::{
    Alarm, Ended, Habit, Schedule, Trace, actor, bound, date, is_actor, now, outside, point, pretend_processors, wait,
};
#[cfg(feature = "schedule")]
pub use locks::{Condvar, Mutex, RwLock};

/// Where an actor is when the schedule is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Place {
    /// Before a mutex, a reader-writer lock or a spinlock is acquired.
    Lock = 1,
    /// Before a page is latched.
    PageLatch,
    /// Behind the release of a page's latch.
    PageRelease,
    /// Between a record's place in the log and its copy.
    LogAppend,
    /// Before the right to write a block of the log is asked for, and behind that; or while another writes one.
    LogFlush,
    /// Before an operation of the disk.
    Disk,
    /// While a transaction's lock is waited for.
    TransactionLock,
    /// Before a transaction's changes are published to readers, and behind that.
    Visibility,
    /// Between a file's growth in the log and the size that others see.
    Growth,
    /// Behind the drop of a database, or another change of what can be used.
    Transition,
    /// Before a batch or a statement.
    Statement,
    /// Where frames of the buffer pool are looked for.
    Frames,
    /// Where another does something that takes a moment.
    Moment,
}

#[cfg(feature = "schedule")]
impl Place {
    /// Whether something becomes durable or visible here, which others rely on from then on.
    fn is_decisive(self) -> bool {
        matches!(self, Place::LogFlush | Place::Visibility | Place::Growth)
    }
}

#[cfg(not(feature = "schedule"))]
mod off {
    use std::time::Instant;

    use super::Place;

    /// A place where an actor may lose the processor.
    #[inline(always)]
    pub fn point(_place: Place) {}

    /// Lets others go on where an actor cannot; `false` on a thread that is none, which waits in its own way.
    #[inline(always)]
    pub fn wait(_place: Place) -> bool {
        false
    }

    /// Which actor the calling thread is.
    #[inline(always)]
    pub fn actor() -> Option<usize> {
        None
    }

    /// Whether the calling thread is an actor.
    #[inline(always)]
    pub fn is_actor() -> bool {
        false
    }

    /// How much of something there may be.
    #[inline(always)]
    pub fn bound(usual: u32) -> u32 {
        usual
    }

    /// The date that a schedule says: there is none.
    #[inline(always)]
    pub fn date() -> Option<i64> {
        None
    }

    /// The time, for deadlines.
    #[inline(always)]
    pub fn now() -> Instant {
        Instant::now()
    }
}
