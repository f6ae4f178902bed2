//! Statements that wait for each other: one fails, at once, and the others go on.

use std::sync::Arc;
use std::thread::JoinHandle;

use hobt_base::{DatabaseId, ObjectId, SessionId};
use hobt_txn::{LockError, LockMode, ObjectLock, ObjectLocks, Patience};

use super::wait_for_waiters;

fn take(
    locks: &Arc<ObjectLocks>,
    table: i32,
    session: i32,
    mode: LockMode,
    priority: i8,
) -> Result<ObjectLock, LockError> {
    let patience = Patience { deadlock_priority: priority, ..Patience::default() };
    locks.lock((DatabaseId(5), ObjectId(table)), SessionId(session), mode, patience, &|| false)
}

/// A thread of `session` that waits for a lock and lets go of everything that it held when it has it, or has failed.
fn waits(
    locks: &Arc<ObjectLocks>,
    table: i32,
    session: i32,
    mode: LockMode,
    priority: i8,
    held: ObjectLock,
) -> JoinHandle<Result<(), LockError>> {
    let before = locks.rows().iter().filter(|(.., granted)| !granted).count();
    let other = Arc::clone(locks);
    let thread = std::thread::spawn(move || {
        let taken = take(&other, table, session, mode, priority).map(drop);
        drop(held);
        taken
    });
    wait_for_waiters(locks, before + 1);
    thread
}

#[test]
fn of_two_that_wait_for_each_other_the_later_fails() {
    let locks = Arc::new(ObjectLocks::default());
    let first = take(&locks, 1, 51, LockMode::Exclusive, 0).expect("free");
    let second = take(&locks, 2, 52, LockMode::Exclusive, 0).expect("free");
    let patient = waits(&locks, 2, 51, LockMode::Shared, 0, first);
    assert_eq!(take(&locks, 1, 52, LockMode::Shared, 0).map(drop), Err(LockError::Deadlock));
    drop(second);
    assert_eq!(patient.join().expect("no panic"), Ok(()));
    assert_eq!(locks.rows(), []);
}

#[test]
fn a_lower_priority_fails_before_a_later_request() {
    let locks = Arc::new(ObjectLocks::default());
    let first = take(&locks, 1, 51, LockMode::Exclusive, -5).expect("free");
    let second = take(&locks, 2, 52, LockMode::Exclusive, 0).expect("free");
    let cheap = waits(&locks, 2, 51, LockMode::Shared, -5, first);
    take(&locks, 1, 52, LockMode::Shared, 0).map(drop).expect("the other one fails");
    drop(second);
    assert_eq!(cheap.join().expect("no panic"), Err(LockError::Deadlock));
    assert_eq!(locks.rows(), []);
}

#[test]
fn a_circle_through_the_line_of_waiters_is_found() {
    // 53 waits behind 52, which waits for 51's reading; 51 waits for 53: no two of them exclude each other directly.
    let locks = Arc::new(ObjectLocks::default());
    let read = take(&locks, 1, 51, LockMode::Shared, 0).expect("free");
    let other = take(&locks, 2, 53, LockMode::Exclusive, 0).expect("free");
    let nothing = take(&locks, 3, 52, LockMode::Shared, 0).expect("free");
    let writer = waits(&locks, 1, 52, LockMode::Exclusive, 0, nothing);
    let behind = waits(&locks, 1, 53, LockMode::Shared, 0, other);
    assert_eq!(take(&locks, 2, 51, LockMode::Shared, 0).map(drop), Err(LockError::Deadlock));
    drop(read);
    assert_eq!(writer.join().expect("no panic"), Ok(()));
    assert_eq!(behind.join().expect("no panic"), Ok(()));
    assert_eq!(locks.rows(), []);
}

#[test]
fn two_readers_that_both_want_to_write_do_not_wait_for_ever() {
    let locks = Arc::new(ObjectLocks::default());
    let first = take(&locks, 1, 51, LockMode::Shared, 0).expect("free");
    let second = take(&locks, 1, 52, LockMode::Shared, 0).expect("shared");
    let patient = waits(&locks, 1, 51, LockMode::Exclusive, 0, first);
    assert_eq!(take(&locks, 1, 52, LockMode::Exclusive, 0).map(drop), Err(LockError::Deadlock));
    drop(second);
    assert_eq!(patient.join().expect("no panic"), Ok(()));
}

#[test]
fn a_chain_is_no_circle() {
    let locks = Arc::new(ObjectLocks::default());
    let first = take(&locks, 1, 51, LockMode::Exclusive, 0).expect("free");
    let second = take(&locks, 2, 52, LockMode::Exclusive, 0).expect("free");
    let third = take(&locks, 3, 53, LockMode::Exclusive, 0).expect("free");
    let two = waits(&locks, 1, 52, LockMode::Shared, 0, second);
    let three = waits(&locks, 2, 53, LockMode::Shared, 0, third);
    drop(first);
    assert_eq!(two.join().expect("no panic"), Ok(()));
    assert_eq!(three.join().expect("no panic"), Ok(()));
}
