//! Wait accounting, latches, spinlocks and per-worker counters: what every blocked nanosecond is booked to.
//!
//! - [`waits`], [`latches`], [`spinlocks`]: statistics under SQL Server's names. They are written on slow paths only:
//!   a thread that does not wait reads no clock and writes no counter.
//! - [`Latch`] and [`Spinlock`]: the locks that feed them.
//! - [`backoff_stacks`]: where spinlocks are waited for and held, on request.
//! - [`Sharded`], [`Counter`]: values and counters that many workers change without sharing a cache line.
//! - [`PerHobt`]: what was counted of each heap and tree.
//! - [`holds`]: how long single rows hold their page, counted when somebody asks.
//! - [`time_of_day_coarse`]: the time for those who look at it often and not closely.
//! - [`primitives`]: what locks are made of, which model checks exchange.
//! - [`schedule`]: which of several threads goes on, by a seed, for simulators.
//! - [`planted`]: bugs on purpose, for those who prove that they would be found.
//! - [`processor`]: what a thread consumed, what it waited for a processor, and what the hypervisor took.
//! - [`signals`]: what the system sends to end the program.
//!
//! How the statistics stay cheap: each thread owns a slot of counters in its own cache lines and is their only writer,
//! so that adding is a load and a store. Readers add up all slots. A slot outlives its thread, keeps its counts and
//! goes to the next thread that starts. Clearing does not touch the counters: it remembers a baseline that is
//! subtracted.
//!
//! Left to others: which latch protects what, page latches (the buffer pool's state words), locks of transactions.

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
pub use time_of_day::time_of_day_coarse;
pub use waits::{Wait, WaitCounters, nanoseconds};
