//! Stops a kernel while it runs: if its statement was cancelled, or the memory is used up.
//!
//! A kernel works on a whole batch. One that builds or searches long texts may run for minutes and turn kilobytes into
//! gigabytes. So each thread that runs kernels is told the statement that it works for ([`set_watch`]), and such
//! kernels count the bytes that they read and build (`Meter`). Without a statement nothing is limited.
//!
//! The result of a kernel is charged only while it is built: the consumer of the batch charges for what it keeps.

use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::Arc;

use hobt_base::{SqlError, errors};

/// The statement that a thread works for.
pub trait Watch: Debug + Send + Sync {
    /// Whether it was cancelled.
    fn is_cancelled(&self) -> bool;

    /// Reserves memory for it, which is released by [`Watch::shrink`].
    ///
    /// # Errors
    /// 701: less than that is left; nothing is reserved then.
    fn grow(&self, bytes: u64) -> Result<(), SqlError>;

    /// Releases memory.
    fn shrink(&self, bytes: u64);
}

thread_local! {
    static WATCH: RefCell<Option<Arc<dyn Watch>>> = const { RefCell::new(None) };
}

/// Ends the effect of [`set_watch`].
#[derive(Debug)]
pub struct WatchGuard {
    before: Option<Arc<dyn Watch>>,
}

/// Sets the statement that this thread works for, until the guard is dropped.
#[must_use = "it lasts as long as the guard"]
pub fn set_watch(watch: Option<Arc<dyn Watch>>) -> WatchGuard {
    WatchGuard { before: WATCH.replace(watch) }
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        let before = self.before.take();
        // A guard may be dropped at the thread's end, when the thread-local that it restores is gone already.
        let _replaced = WATCH.try_with(|watch| watch.replace(before));
    }
}

/// 701, with the number of bytes requested.
pub fn out_of_memory(bytes: u64) -> SqlError {
    errors::VALUE_MEMORY.with([&bytes])
}

/// The statement that this thread works for.
pub fn current() -> Option<Arc<dyn Watch>> {
    WATCH.with_borrow(Clone::clone)
}

/// Memory of a statement, released when this is dropped.
#[derive(Debug)]
pub struct Charge {
    watch: Option<Arc<dyn Watch>>,
    bytes: u64,
}

impl Charge {
    /// Nothing yet, for this thread's statement.
    pub fn new() -> Charge {
        Charge { watch: current(), bytes: 0 }
    }

    /// Reserves more.
    ///
    /// # Errors
    /// 701: less than that is left; nothing is reserved then.
    pub fn grow(&mut self, bytes: u64) -> Result<(), SqlError> {
        if let Some(watch) = &self.watch {
            watch.grow(bytes)?;
            self.bytes += bytes;
        }
        Ok(())
    }

    /// Releases up to `bytes` of what it has.
    pub fn shrink(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        if let Some(watch) = &self.watch {
            watch.shrink(bytes);
        }
    }
}

impl Default for Charge {
    fn default() -> Charge {
        Charge::new()
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

/// 7119.
pub(crate) fn value_too_long() -> SqlError {
    errors::VALUE_TOO_LARGE.error()
}

/// The maximum length of a value in bytes.
pub(crate) const VALUE_BYTES_MAX: usize = 0x7FFF_FFFF;
/// The number of bytes processed between two checks for cancellation.
const CHECK_BYTES: usize = 1 << 20;
/// The increment in which memory is reserved. Smaller batches are not charged.
const GROW_BYTES: u64 = 1 << 20;

/// Counts the work of one kernel on one batch.
#[derive(Debug)]
pub(crate) struct Meter {
    taken: Charge,
    unchecked: usize,
    built: u64,
}

impl Meter {
    /// A meter for this thread's statement.
    pub(crate) fn new() -> Meter {
        Meter { taken: Charge::new(), unchecked: 0, built: 0 }
    }

    /// Records that `bytes` more were read, or a similar amount of work was done.
    ///
    /// # Errors
    /// The statement was cancelled.
    pub(crate) fn step(&mut self, bytes: usize) -> Result<(), SqlError> {
        self.unchecked += bytes + 1;
        if self.unchecked < CHECK_BYTES {
            return Ok(());
        }
        self.unchecked = 0;
        match &self.taken.watch {
            Some(watch) if watch.is_cancelled() => Err(SqlError::cancelled()),
            _ => Ok(()),
        }
    }

    /// Records that `bytes` more are about to be built.
    ///
    /// # Errors
    /// 701; the statement was cancelled.
    pub(crate) fn build(&mut self, bytes: usize) -> Result<(), SqlError> {
        self.step(bytes)?;
        self.built = self.built.saturating_add(bytes as u64);
        if self.built < GROW_BYTES || self.built <= self.taken.bytes {
            return Ok(());
        }
        self.taken.grow((self.built - self.taken.bytes).next_multiple_of(GROW_BYTES))
    }

    /// Records that one value of `bytes` is about to be built, besides its element in the result.
    ///
    /// # Errors
    /// 7119 if the value is longer than allowed, 701 if there is no memory for it; the statement was cancelled.
    pub(crate) fn value(&mut self, bytes: usize) -> Result<(), SqlError> {
        if bytes > VALUE_BYTES_MAX {
            return Err(value_too_long());
        }
        self.step(bytes)?;
        let more = bytes as u64;
        if more >= GROW_BYTES {
            self.taken.grow(more)?;
            self.taken.shrink(more);
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use crate::watch::*;
    use hobt_base::number;

    /// A statement with this amount of memory.
    #[derive(Debug)]
    pub(crate) struct Limited {
        pub(crate) cancelled: AtomicBool,
        pub(crate) left: AtomicU64,
    }

    impl Limited {
        pub(crate) fn new(bytes: u64) -> Arc<Limited> {
            Arc::new(Limited { cancelled: AtomicBool::new(false), left: AtomicU64::new(bytes) })
        }
    }

    impl Watch for Limited {
        fn is_cancelled(&self) -> bool {
            self.cancelled.load(Ordering::Relaxed)
        }

        fn grow(&self, bytes: u64) -> Result<(), SqlError> {
            let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
            taken.map(drop).map_err(|_| out_of_memory(bytes))
        }

        fn shrink(&self, bytes: u64) {
            self.left.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    #[test]
    fn what_a_batch_builds_is_taken_and_given_back() {
        let statement = Limited::new(4 << 20);
        let guard = set_watch(Some(Arc::clone(&statement) as Arc<dyn Watch>));
        let mut meter = Meter::new();
        for _ in 0..64 {
            meter.build(60_000).expect("there is room");
        }
        assert!(statement.left.load(Ordering::Relaxed) < 1 << 20);
        assert_eq!(meter.build(1 << 20).expect_err("no room").number, number::OUT_OF_MEMORY);
        drop(meter);
        assert_eq!(statement.left.load(Ordering::Relaxed), 4 << 20);
        assert_eq!(Meter::new().value(5 << 20).expect_err("no room").number, number::OUT_OF_MEMORY);
        assert_eq!(Meter::new().value(1 << 31).expect_err("too long").number, 7119);
        statement.cancelled.store(true, Ordering::Relaxed);
        assert_eq!(Meter::new().step(2 << 20).expect_err("cancelled").number, number::CANCELED);
        drop(guard);
        Meter::new().build(64 << 20).expect("nobody limits");
    }
}
