//! Table locks under threads: who gets them, in which order, and that nobody is forgotten.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use hobt_base::{DatabaseId, ObjectId, SessionId, SplitMix64};
use hobt_txn::{LockError, LockMode, ObjectLock, ObjectLocks, Patience};

mod deadlock;
mod locks;

const TABLE: (DatabaseId, ObjectId) = (DatabaseId(5), ObjectId(1000));
const MODES: [LockMode; 4] =
    [LockMode::SchemaStability, LockMode::Shared, LockMode::Exclusive, LockMode::SchemaModification];

fn lock(
    locks: &Arc<ObjectLocks>,
    session: i32,
    mode: LockMode,
    timeout: Option<Duration>,
) -> Result<ObjectLock, LockError> {
    locks.lock(TABLE, SessionId(session), mode, Patience { timeout, ..Patience::default() }, &|| false)
}

fn now(locks: &Arc<ObjectLocks>, session: i32, mode: LockMode) -> Result<ObjectLock, LockError> {
    lock(locks, session, mode, Some(Duration::ZERO))
}

fn wait_for_waiters(locks: &ObjectLocks, count: usize) {
    while locks.rows().iter().filter(|(.., granted)| !granted).count() < count {
        std::thread::yield_now();
    }
}

#[test]
fn modes_go_together_as_in_sql_server() {
    // Sch-S with all but Sch-M, S with S and Sch-S, X with Sch-S alone, Sch-M with nothing.
    let together = [
        [true, true, true, false],
        [true, true, false, false],
        [true, false, false, false],
        [false, false, false, false],
    ];
    for (held, row) in MODES.iter().zip(together) {
        for (wanted, goes) in MODES.iter().zip(row) {
            let locks = Arc::new(ObjectLocks::default());
            let _held = now(&locks, 51, *held).expect("free");
            assert_eq!(now(&locks, 52, *wanted).is_ok(), goes, "{} beside {}", wanted.name(), held.name());
            assert!(now(&locks, 51, *wanted).is_ok(), "a session does not wait for itself");
        }
    }
}

#[test]
fn readers_that_come_later_do_not_pass_a_writer() {
    let locks = Arc::new(ObjectLocks::default());
    let reader = now(&locks, 51, LockMode::Shared).expect("free");
    let order = Arc::new(parking_lot::Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for (place, (session, mode)) in
            [(52, LockMode::Exclusive), (53, LockMode::Shared), (54, LockMode::Exclusive)].into_iter().enumerate()
        {
            let (locks, order) = (Arc::clone(&locks), Arc::clone(&order));
            let waiting = Arc::clone(&locks);
            scope.spawn(move || {
                let held = lock(&locks, session, mode, None).expect("granted in its turn");
                order.lock().push(session);
                drop(held);
            });
            wait_for_waiters(&waiting, place + 1);
        }
        assert!(now(&locks, 55, LockMode::Shared).is_err(), "a writer waits before");
        assert!(now(&locks, 55, LockMode::SchemaStability).is_ok(), "compatible with all who wait");
        drop(reader);
    });
    assert_eq!(*order.lock(), [52, 53, 54]);
    assert_eq!(locks.rows(), []);
}

#[test]
fn a_waiter_that_gives_up_lets_those_behind_it_through() {
    for cancel in [true, false] {
        let locks = Arc::new(ObjectLocks::default());
        let reader = now(&locks, 51, LockMode::Shared).expect("free");
        let cancelled = AtomicBool::new(false);
        let (granted, got) = mpsc::channel();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let timeout = (!cancel).then_some(Duration::from_millis(80));
                let patience = Patience { timeout, ..Patience::default() };
                locks
                    .lock(TABLE, SessionId(52), LockMode::Exclusive, patience, &|| cancelled.load(Ordering::Relaxed))
                    .map(drop)
            });
            if cancel {
                wait_for_waiters(&locks, 1);
            }
            let behind = Arc::clone(&locks);
            scope.spawn(move || {
                let held = lock(&behind, 53, LockMode::Shared, None);
                granted.send(held.is_ok()).expect("somebody listens");
            });
            cancelled.store(cancel, Ordering::Relaxed);
            let expected = if cancel { LockError::Cancelled } else { LockError::Timeout };
            assert_eq!(writer.join().expect("no panic"), Err(expected));
            assert_eq!(got.recv_timeout(Duration::from_secs(30)), Ok(true), "while the reader still holds its lock");
        });
        drop(reader);
        assert_eq!(locks.rows(), []);
    }
}

#[test]
fn a_timeout_too_long_for_the_clock_is_none() {
    let locks = Arc::new(ObjectLocks::default());
    let held = now(&locks, 51, LockMode::Exclusive).expect("free");
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| lock(&locks, 52, LockMode::Shared, Some(Duration::MAX)).map(drop));
        wait_for_waiters(&locks, 1);
        drop(held);
        assert_eq!(waiter.join().expect("no panic"), Ok(()));
    });
}

/// Eight threads of random modes: the holders always go together, and every request is granted in the end.
#[test]
fn nobody_is_forgotten_and_nobody_holds_what_excludes_another() {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let locks = Arc::new(ObjectLocks::default());
        let (readers, writers, granted) = (AtomicI64::new(0), AtomicI64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for session in 0..8i32 {
                let (locks, readers, writers, granted) = (&locks, &readers, &writers, &granted);
                scope.spawn(move || {
                    let mut random = SplitMix64::new(session.unsigned_abs().into());
                    for _ in 0..400 {
                        let mode = MODES[random.below(4) as usize];
                        let held = lock(locks, 60 + session, mode, None).expect("granted in its turn");
                        let excludes = matches!(mode, LockMode::Exclusive | LockMode::SchemaModification);
                        let mine = if excludes { writers } else { readers };
                        if mode != LockMode::SchemaStability {
                            mine.fetch_add(1, Ordering::SeqCst);
                            let (reading, writing) = (readers.load(Ordering::SeqCst), writers.load(Ordering::SeqCst));
                            assert!(writing == 0 || (writing == 1 && reading == 0), "{writing} and {reading}");
                            std::thread::yield_now();
                            mine.fetch_sub(1, Ordering::SeqCst);
                        }
                        granted.fetch_add(1, Ordering::Relaxed);
                        drop(held);
                    }
                });
            }
        });
        assert_eq!((granted.into_inner(), locks.rows()), (8 * 400, Vec::new()));
        let _nobody_waits_any_more = done.send(());
    });
    match ended.recv_timeout(Duration::from_secs(60)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("a request is never granted"),
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => thread.join().expect("no panic"),
    }
}
