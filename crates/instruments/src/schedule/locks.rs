//! `parking_lot`'s locks. On an actor's thread, waits for them go through the schedule.

use std::time::Duration;

use parking_lot::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

use super::{Place, is_actor, now, point, wait};

/// Waits until `attempt` returns a guard, and returns it.
fn take<G>(attempt: impl Fn() -> Option<G>) -> G {
    point(Place::Lock);
    loop {
        if let Some(guard) = attempt() {
            return guard;
        }
        wait(Place::Lock);
    }
}

/// A mutex.
#[derive(Default, Debug)]
pub struct Mutex<T: ?Sized>(parking_lot::Mutex<T>);

impl<T> Mutex<T> {
    /// An open mutex.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(parking_lot::Mutex::new(value))
    }

    /// The value, without a lock.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Exclusive access. Blocks.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        if is_actor() { take(|| self.0.try_lock()) } else { self.0.lock() }
    }

    /// Exclusive access if it is available without waiting.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        point(Place::Lock);
        self.0.try_lock()
    }

    /// Exclusive access if it becomes available within `time`. An actor's time passes only while no other actor can go
    /// on.
    pub fn try_lock_for(&self, time: Duration) -> Option<MutexGuard<'_, T>> {
        if !is_actor() {
            return self.0.try_lock_for(time);
        }
        point(Place::Lock);
        let until = now() + time;
        loop {
            match self.0.try_lock() {
                None if now() < until => wait(Place::Lock),
                tried => return tried,
            };
        }
    }

    /// Whether it is held by a thread.
    pub fn is_locked(&self) -> bool {
        self.0.is_locked()
    }

    /// The value; exclusive access is proven by the borrow.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

/// A reader-writer lock.
#[derive(Default, Debug)]
pub struct RwLock<T: ?Sized>(parking_lot::RwLock<T>);

impl<T> RwLock<T> {
    /// An open lock.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(parking_lot::RwLock::new(value))
    }

    /// The value, without a lock.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Shared access. Blocks.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        if is_actor() { take(|| self.0.try_read()) } else { self.0.read() }
    }

    /// Exclusive access. Blocks.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        if is_actor() { take(|| self.0.try_write()) } else { self.0.write() }
    }

    /// Shared access if it is available without waiting.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        point(Place::Lock);
        self.0.try_read()
    }

    /// Exclusive access if it is available without waiting.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        point(Place::Lock);
        self.0.try_write()
    }

    /// The value; exclusive access is proven by the borrow.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

/// Unlocks the mutex, waits for a moment if `waits` says so, and locks it again. Locking again blocks the thread, so
/// this first waits until the mutex is free: another actor may have been preempted while it holds it.
fn let_others_go_on<T: ?Sized>(guard: &mut MutexGuard<'_, T>, waits: bool) {
    let mutex = MutexGuard::mutex(guard);
    MutexGuard::unlocked(guard, || {
        if waits {
            wait(Place::Moment);
        }
        while mutex.is_locked() {
            wait(Place::Lock);
        }
    });
}

/// A condition variable.
#[derive(Default, Debug)]
pub struct Condvar(parking_lot::Condvar);

impl Condvar {
    /// A condition variable without waiters.
    pub const fn new() -> Condvar {
        Condvar(parking_lot::Condvar::new())
    }

    /// Waits until notified. An actor may return without a notification.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        if is_actor() {
            let_others_go_on(guard, true);
        } else {
            self.0.wait(guard);
        }
    }

    /// Waits until notified, or for `time`. An actor may return before either.
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) {
        if is_actor() {
            let_others_go_on(guard, time > Duration::ZERO);
        } else {
            self.0.wait_for(guard, time);
        }
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }
}
