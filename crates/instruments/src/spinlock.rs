//! A spinlock for critical sections of a few instructions.
//!
//! Test-and-test-and-set: a waiter reads until the lock looks free and only then writes. Between reads it pauses, twice
//! as long each time. After the longest pause it yields the processor, and after several yields it sleeps, because the
//! holder may have been preempted. Nothing is recorded unless the first try fails. On request ([`backoff_stacks`])
//! back-offs are recorded with the call stacks of the waiter and the holder.

use crate::backoff_stacks::{self, Asked};
use crate::names::SpinlockName;
use crate::primitives::{AtomicBool, sleep, spin_loop, yield_now};
use crate::schedule::{self, Place};
use crate::spinlocks;
use crate::waits::nanoseconds;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

// A model check explores each pause.
const PAUSES_MAX: u64 = if cfg!(feature = "model") { 1 } else { 512 };
const YIELDS_BEFORE_SLEEP: u64 = if cfg!(feature = "model") { 1 } else { 16 };
/// How long a waiter sleeps, as in SQL Server's back-off, when yielding has not helped: the holder was preempted, and
/// threads that only yield would be run again and again instead of it. The sleep is that of `primitives`, so that a
/// model check sees it.
const BACKOFF_SLEEP: Duration = Duration::from_micros(50);

/// A spinlock around a value. Not reentrant, not fair, and not for sections that may block.
pub struct Spinlock<T: ?Sized> {
    name: SpinlockName,
    held: AtomicBool,
    asked: Asked,
    value: UnsafeCell<T>,
}

// SAFETY: the lock hands the value to one thread at a time, which is what `T: Send` allows; no reference to the value
// is ever in two threads at once, so `T: Sync` is not needed.
unsafe impl<T: ?Sized + Send> Sync for Spinlock<T> {}

impl<T> Spinlock<T> {
    /// An open lock whose collisions count for `name`.
    pub const fn new(name: SpinlockName, value: T) -> Spinlock<T> {
        Spinlock { name, held: AtomicBool::new(false), asked: Asked::new(), value: UnsafeCell::new(value) }
    }

    /// The value, without a lock.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Spinlock<T> {
    /// Exclusive access; spins, then yields, then sleeps while another thread has it.
    #[inline]
    pub fn lock(&self) -> SpinlockGuard<'_, T> {
        schedule::point(Place::Lock);
        if !self.acquire() {
            self.lock_slow();
        }
        SpinlockGuard { lock: self, not_send: std::marker::PhantomData }
    }

    /// Exclusive access if it is available at once.
    #[inline]
    pub fn try_lock(&self) -> Option<SpinlockGuard<'_, T>> {
        self.acquire().then(|| SpinlockGuard { lock: self, not_send: std::marker::PhantomData })
    }

    /// The value; exclusive access is proven by the borrow.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    #[inline]
    fn acquire(&self) -> bool {
        self.held.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn lock_slow(&self) {
        let (mut spins, mut backoffs, mut slept) = (0, 0, Duration::ZERO);
        let mut pauses = 1;
        let mut asked = None;
        loop {
            for _ in 0..pauses {
                spin_loop();
            }
            spins += pauses;
            schedule::wait(Place::Lock);
            if !self.held.load(Ordering::Relaxed) && self.acquire() {
                break;
            }
            if pauses < PAUSES_MAX {
                pauses *= 2;
                continue;
            }
            backoffs += 1;
            if backoffs == 1 && backoff_stacks::are_wanted() {
                asked = Some(self.asked.ask(self.name));
            }
            #[cfg(test)]
            crate::handshake::waits();
            if backoffs <= YIELDS_BEFORE_SLEEP {
                yield_now();
            } else {
                let since = Instant::now();
                sleep(BACKOFF_SLEEP);
                slept += since.elapsed();
            }
        }
        spinlocks::record(self.name, spins, nanoseconds(slept), backoffs);
        if let Some(own) = asked {
            self.asked.has_lock(self.name, own);
        }
    }
}

impl<T: ?Sized> std::fmt::Debug for Spinlock<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spinlock").field("name", &self.name).field("held", &self.held).finish_non_exhaustive()
    }
}

/// Exclusive access, until dropped. Stays on its thread.
#[must_use = "the lock is released when this is dropped"]
pub struct SpinlockGuard<'a, T: ?Sized> {
    lock: &'a Spinlock<T>,
    not_send: std::marker::PhantomData<*const ()>,
}

impl<T: ?Sized> Deref for SpinlockGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard exists, so this thread holds the lock and no other guard does; the value lives as long as
        // the lock that the guard borrows.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for SpinlockGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and the guard is borrowed exclusively, so no reference from `deref` is alive.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for SpinlockGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.held.store(false, Ordering::Release);
        if backoff_stacks::are_wanted() {
            self.lock.asked.answer(self.lock.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Spinlock;
    use crate::names::SpinlockName;
    use crate::{backoff_stacks, handshake, spinlocks};
    use std::sync::mpsc;

    fn row(name: SpinlockName) -> spinlocks::SpinlockRow {
        spinlocks::snapshot().into_iter().find(|row| row.name == name).expect("every name has a row")
    }

    #[test]
    fn increments_under_the_lock_are_not_lost() {
        let lock = Spinlock::new(SpinlockName::Mutex, 0_u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        *lock.lock() += 1;
                    }
                });
            }
        });
        assert_eq!(lock.into_inner(), 80_000);
    }

    #[test]
    fn only_a_collision_is_counted() {
        let _turn = crate::waits::tests::shared();
        let lock = Spinlock::new(SpinlockName::XdesMgr, ());
        for _ in 0..100 {
            drop(lock.lock());
        }
        assert_eq!(row(SpinlockName::XdesMgr).collisions, 0);
        let guard = lock.lock();
        assert!(lock.try_lock().is_none());
        let (tell, waiting) = mpsc::channel();
        std::thread::scope(|scope| {
            // The guard stays on its thread.
            let lock = &lock;
            scope.spawn(move || {
                handshake::tell_when_waiting(tell);
                drop(lock.lock());
            });
            waiting.recv().expect("the lock is held");
            drop(guard);
        });
        let counted = row(SpinlockName::XdesMgr);
        assert_eq!(counted.collisions, 1);
        assert!(counted.spins > 0 && counted.backoffs > 0);
        spinlocks::clear();
        assert_eq!(row(SpinlockName::XdesMgr).collisions, 0);
    }

    /// A function of its own, so that its name identifies the holder in the stack.
    #[inline(never)]
    fn hold_until_waited_for(lock: &Spinlock<()>, waiting: &mpsc::Receiver<()>) {
        let guard = lock.lock();
        waiting.recv().expect("the lock is held");
        drop(std::hint::black_box(guard));
    }

    #[inline(never)]
    fn wait_for(lock: &Spinlock<()>) {
        drop(std::hint::black_box(lock.lock()));
    }

    #[test]
    fn stacks_of_back_offs_are_taken_on_request_alone() {
        let _turn = crate::waits::tests::shared();
        let lock = Spinlock::new(SpinlockName::LogFlushQueue, ());
        let of_lock = || -> Vec<_> {
            let all = backoff_stacks::snapshot().into_iter();
            all.filter(|stacks| stacks.name == SpinlockName::LogFlushQueue).collect()
        };
        for is_wanted in [false, true] {
            backoff_stacks::set_wanted(is_wanted);
            let (tell, waiting) = mpsc::channel();
            std::thread::scope(|scope| {
                let lock = &lock;
                let held = scope.spawn(move || hold_until_waited_for(lock, &waiting));
                while !lock.held.load(std::sync::atomic::Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                scope.spawn(move || {
                    handshake::tell_when_waiting(tell);
                    wait_for(lock);
                });
                held.join().expect("no panic");
            });
            backoff_stacks::set_wanted(false);
            let stacks = of_lock();
            assert_eq!(stacks.len(), usize::from(is_wanted), "{stacks:?}");
            for one in stacks {
                assert_eq!(one.count, 1);
                assert!(one.waiter.contains("wait_for"), "{}", one.waiter);
                let holder = one.holder.expect("the holder lets go of it behind the question");
                assert!(holder.contains("hold_until_waited_for"), "{holder}");
            }
        }
    }
}
