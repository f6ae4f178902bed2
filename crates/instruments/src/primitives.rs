//! The primitives that locks are built from: the standard library's, and the locks of [`schedule`](crate::schedule),
//! which are `parking_lot`'s unless a simulator decides the order of acquisition.
//!
//! With the feature `model`, which only tests switch on, they are shuttle's. Shuttle runs one thread at a time, and
//! before each operation of a primitive its scheduler chooses the thread that continues. So a test tries many orders
//! and can repeat one. The scheduler can act only at these primitives: a lock of another kind must not be held across
//! their operations.

#[cfg(not(feature = "model"))]
pub use crate::schedule::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(feature = "model"))]
pub use std::hint::spin_loop;
#[cfg(not(feature = "model"))]
pub use std::sync::atomic::{AtomicBool, AtomicU8};
#[cfg(not(feature = "model"))]
pub use std::thread::{Thread, current, park_timeout, sleep, yield_now};

#[cfg(feature = "model")]
pub use model::{Mutex, RwLock, park_timeout};
#[cfg(feature = "model")]
pub use shuttle::hint::spin_loop;
#[cfg(feature = "model")]
pub use shuttle::sync::atomic::{AtomicBool, AtomicU8};
#[cfg(feature = "model")]
pub use shuttle::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};
#[cfg(feature = "model")]
pub use shuttle::thread::{Thread, current, sleep, yield_now};

/// Shuttle's locks with the calls of `parking_lot`'s.
#[cfg(feature = "model")]
mod model {
    use std::sync::{PoisonError, TryLockError};
    use std::time::Duration;

    use super::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

    /// A thread that sleeps for as long as this sleeps until it is woken. One that sleeps for less checks the clock in
    /// between, as often as the scheduler decides. So a lost wake-up leaves all threads asleep, which ends the test.
    const LONG: Duration = Duration::from_millis(50);

    /// Sleeps until woken, or for a while.
    pub fn park_timeout(duration: Duration) {
        if duration >= LONG { shuttle::thread::park() } else { shuttle::thread::yield_now() }
    }

    /// A mutex.
    #[derive(Default, Debug)]
    pub struct Mutex<T: ?Sized>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        /// An open mutex.
        pub const fn new(value: T) -> Mutex<T> {
            Mutex(shuttle::sync::Mutex::new(value))
        }
    }

    impl<T: ?Sized> Mutex<T> {
        /// Exclusive access.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// A reader-writer lock.
    #[derive(Debug)]
    pub struct RwLock<T: ?Sized>(shuttle::sync::RwLock<T>);

    impl<T> RwLock<T> {
        /// An open lock.
        pub const fn new(value: T) -> RwLock<T> {
            RwLock(shuttle::sync::RwLock::new(value))
        }

        /// The value, without a lock.
        pub fn into_inner(self) -> T {
            self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// The result of a try.
    fn got<G>(tried: Result<G, TryLockError<G>>) -> Option<G> {
        match tried {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    impl<T: ?Sized> RwLock<T> {
        /// Shared access.
        pub fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(PoisonError::into_inner)
        }

        /// Exclusive access.
        pub fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().unwrap_or_else(PoisonError::into_inner)
        }

        /// Shared access if it is available without waiting.
        pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
            got(self.0.try_read())
        }

        /// Exclusive access if it is available without waiting.
        pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
            got(self.0.try_write())
        }

        /// The value; exclusive access is proven by the borrow.
        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
        }
    }
}
