//! A seeded scheduler that decides which thread runs next, for tests of concurrent threads.
//!
//! With the feature `schedule`, which only the simulators switch on, threads can be *actors* of a schedule. One actor
//! runs at a time. At each [`point`], where a thread may lose the processor, the schedule draws whether another actor
//! goes on. An actor that cannot go on before another has done something calls [`wait`]. So one number decides the
//! order of all interactions of the actors, and repeats it:
//!
//! ```text
//!   actor 0   ──point──point──────────────────point──wait┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄─point──
//!   actor 1                   ──point──point─                    ──point──
//!   actor 2                                          ──point──end
//! ```
//!
//! [`Mutex`], [`RwLock`] and [`Condvar`] are `parking_lot`'s without the feature. With it, and on an actor's thread,
//! they have a point before each acquisition, and an actor that finds them held waits by the schedule. Actors may be
//! preempted while they hold one, as threads are.
//!
//! Time is the schedule's too ([`now`]): a microsecond a point. While all actors wait, the clock advances until the
//! first timed wait ends.
//!
//! On threads that are not actors, and without the feature, all of this does nothing. Done elsewhere: what the actors
//! do, and whether the results that they see are allowed (crate `hobt-interleave`).

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

/// Where an actor is when it calls the schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Place {
    /// Before a mutex, a reader-writer lock or a spinlock is acquired.
    Lock = 1,
    /// Before a page is latched.
    PageLatch,
    /// Behind the release of a page's latch.
    PageRelease,
    /// Between reserving a record's space in the log and copying the record.
    LogAppend,
    /// Before and after the right to write a block of the log is requested, or while another thread writes one.
    LogFlush,
    /// Before an operation of the disk.
    Disk,
    /// While waiting for a transaction's lock.
    TransactionLock,
    /// Before and after a transaction's changes are published to readers.
    Visibility,
    /// Between the log record of a file's growth and the publication of the new size.
    Growth,
    /// After the drop of a database, or another change of what can be used.
    Transition,
    /// Before a batch or a statement.
    Statement,
    /// While searching for frames of the buffer pool.
    Frames,
    /// While another thread does something short.
    Moment,
}

#[cfg(feature = "schedule")]
impl Place {
    /// Whether something becomes durable or visible here that other threads rely on.
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

    /// Lets other actors run when this one cannot go on. `false` on a thread that is not an actor, which waits by its
    /// own means.
    #[inline(always)]
    pub fn wait(_place: Place) -> bool {
        false
    }

    /// The number of the actor that the calling thread is.
    #[inline(always)]
    pub fn actor() -> Option<usize> {
        None
    }

    /// Whether the calling thread is an actor.
    #[inline(always)]
    pub fn is_actor() -> bool {
        false
    }

    /// The limit of something: `usual`, as there is no schedule.
    #[inline(always)]
    pub fn bound(usual: u32) -> u32 {
        usual
    }

    /// The schedule's date: there is none.
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
