//! Wait accounting, latches, spinlocks and per-worker counters: where every blocked nanosecond is recorded.
//!
//! - [`waits`], [`latches`], [`spinlocks`]: statistics under SQL Server's names. They are written on slow paths only:
//!   a thread that does not wait reads no clock and writes no counter.
//! - [`Latch`] and [`Spinlock`]: the locks that feed them.
//! - [`backoff_stacks`]: call stacks of waiters for spinlocks and of their holders, on request.
//! - [`Sharded`], [`Counter`]: values and counters that many workers change without sharing a cache line.
//! - [`PerHobt`]: counts for each heap and tree.
//! - [`holds`]: how long single rows hold their page, counted on request.
//! - [`time_of_day_coarse`]: the time for code that reads it often and does not need it exactly.
//! - [`primitives`]: the primitives that locks are built from, which model checks replace.
//! - [`rank`]: the order in which locks may be taken, checked in debug builds.
//! - [`schedule`]: a seeded scheduler of several threads, for simulators.
//! - [`planted`]: bugs on purpose, for tests that prove that such bugs are found.
//! - [`processor`]: processor time that a thread consumed or waited for, and what the hypervisor took.
//! - [`signals`]: the signals by which the system ends the program.
//!
//! How the statistics stay cheap: each thread owns a slot of counters in its own cache lines and is their only writer,
//! so that adding is a load and a store. Readers add up all slots. A slot outlives its thread, keeps its counts and is
//! reused by the next thread that starts. Clearing does not touch the counters: it stores a baseline that is
//! subtracted.
//!
//! Done elsewhere: which latch protects what, page latches (the buffer pool's state words), locks of transactions.

pub mod backoff_stacks;
mod counter;
#[cfg(test)]
mod handshake;
pub mod holds;
mod instructions;
mod latch;
pub mod latches;
mod names;
mod per_hobt;
pub mod planted;
pub mod primitives;
pub mod processor;
pub mod rank;
pub mod schedule;
mod sharded;
pub mod signals;
mod slots;
mod spinlock;
pub mod spinlocks;
mod time_of_day;
pub mod waits;

pub use counter::Counter;
pub use instructions::InstructionCounter;
pub use latch::{Latch, LatchReadGuard, LatchWriteGuard};
pub use names::{LatchClass, SpinlockName, WaitType};
pub use per_hobt::PerHobt;
pub use sharded::Sharded;
pub use slots::{accounting, set_accounting};
pub use spinlock::{Spinlock, SpinlockGuard};
pub use time_of_day::{time_of_day, time_of_day_coarse};
pub use waits::{Wait, WaitCounters, nanoseconds};
