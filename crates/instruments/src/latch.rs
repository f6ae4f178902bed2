//! A reader-writer latch that records how long its users had to wait.
//!
//! It is `parking_lot`'s lock with a try in front: the clock is read only when the try fails. A panic does not poison
//! it. It is not reentrant. Writers are preferred over new readers, so a thread must not read-latch twice.

use crate::latches;
use crate::names::{LatchClass, WaitType};
use crate::primitives::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::slots;
use crate::waits;
use std::time::{Duration, Instant};

/// Shared access, until dropped.
pub type LatchReadGuard<'a, T> = RwLockReadGuard<'a, T>;
/// Exclusive access, until dropped.
pub type LatchWriteGuard<'a, T> = RwLockWriteGuard<'a, T>;

/// A reader-writer latch around a value. A wait counts as `LATCH_SH` or `LATCH_EX` and for the latch's class.
#[derive(Debug)]
pub struct Latch<T: ?Sized> {
    class: LatchClass,
    lock: RwLock<T>,
}

impl<T> Latch<T> {
    /// An open latch.
    pub const fn new(class: LatchClass, value: T) -> Latch<T> {
        Latch { class, lock: RwLock::new(value) }
    }

    /// The value, without a latch.
    pub fn into_inner(self) -> T {
        self.lock.into_inner()
    }
}

impl<T: ?Sized> Latch<T> {
    /// Shared access; blocks while another thread has exclusive access.
    #[inline]
    pub fn read(&self) -> LatchReadGuard<'_, T> {
        match self.lock.try_read() {
            Some(guard) => guard,
            None => self.read_slow(),
        }
    }

    /// Exclusive access; blocks while another thread has any.
    #[inline]
    pub fn write(&self) -> LatchWriteGuard<'_, T> {
        match self.lock.try_write() {
            Some(guard) => guard,
            None => self.write_slow(),
        }
    }

    /// Shared access if it is available without waiting.
    #[inline]
    pub fn try_read(&self) -> Option<LatchReadGuard<'_, T>> {
        self.lock.try_read()
    }

    /// Exclusive access if it is available without waiting.
    #[inline]
    pub fn try_write(&self) -> Option<LatchWriteGuard<'_, T>> {
        self.lock.try_write()
    }

    /// The value; exclusive access is proven by the borrow.
    pub fn get_mut(&mut self) -> &mut T {
        self.lock.get_mut()
    }

    /// The class that this latch's waits count for.
    pub fn class(&self) -> LatchClass {
        self.class
    }

    #[cold]
    fn read_slow(&self) -> LatchReadGuard<'_, T> {
        let since = slots::accounting().then(Instant::now);
        #[cfg(test)]
        crate::handshake::waits();
        let guard = self.lock.read();
        self.record(WaitType::LatchSh, since);
        guard
    }

    #[cold]
    fn write_slow(&self) -> LatchWriteGuard<'_, T> {
        let since = slots::accounting().then(Instant::now);
        #[cfg(test)]
        crate::handshake::waits();
        let guard = self.lock.write();
        self.record(WaitType::LatchEx, since);
        guard
    }

    fn record(&self, wait_type: WaitType, since: Option<Instant>) {
        if let Some(since) = since {
            let wait = since.elapsed();
            waits::record(wait_type, wait, Duration::ZERO);
            latches::record(self.class, wait);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Latch;
    use crate::names::LatchClass;
    use crate::{handshake, latches, waits};
    use std::sync::mpsc;

    fn waits_of(class: LatchClass) -> latches::LatchRow {
        latches::snapshot().into_iter().find(|row| row.latch_class == class).expect("every class has a row")
    }

    #[test]
    fn writers_exclude_each_other_and_readers() {
        let latch = Latch::new(LatchClass::TraceController, (0_u64, 0_u64));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        let mut pair = latch.write();
                        pair.0 += 1;
                        pair.1 += 1;
                        drop(pair);
                        let pair = latch.read();
                        assert_eq!(pair.0, pair.1);
                    }
                });
            }
        });
        assert_eq!(latch.into_inner(), (20_000, 20_000));
    }

    #[test]
    fn an_uncontended_latch_records_nothing_and_a_contended_one_its_wait() {
        let _turn = waits::tests::shared();
        let latch = Latch::new(LatchClass::AllocCreateRingBuffer, 0);
        for _ in 0..100 {
            *latch.write() += 1;
            assert!(*latch.read() > 0);
        }
        assert_eq!(waits_of(LatchClass::AllocCreateRingBuffer).waiting_requests_count, 0);
        let counters = std::sync::Arc::new(waits::WaitCounters::new());
        let (tell, waiting) = mpsc::channel();
        std::thread::scope(|scope| {
            let held = latch.write();
            let waiter = scope.spawn(|| {
                let _guard = waits::set_statement_counters(Some(counters.clone()));
                handshake::tell_when_waiting(tell);
                drop(latch.read());
            });
            waiting.recv().expect("the latch is held");
            drop(held);
            waiter.join().expect("the waiter ends");
        });
        let row = waits_of(LatchClass::AllocCreateRingBuffer);
        assert_eq!(row.waiting_requests_count, 1);
        assert!(row.wait_time_ns > 0 && row.max_wait_time_ns == row.wait_time_ns);
        let rows = counters.rows();
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].wait_type.name(), rows[0].waiting_tasks_count), ("LATCH_SH", 1));
        assert_eq!(rows[0].wait_time_ns, row.wait_time_ns);
    }
}
