//! The lock manager under threads: which request is granted, in which order, and that none is forgotten.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use hobt_base::{DatabaseId, HobtId, ObjectId, SessionId, Stamp};
use hobt_txn::locks::{
    Grant, GrantKind, KeyHash, LockError, LockManager, LockMode, LockOwner, LockOwnerKind, LockResource, LockStatus,
    Patience,
};

mod deadlock;
mod escalation;
mod random;

const DATABASE: DatabaseId = DatabaseId(5);
const HOBT: HobtId = HobtId(77);

fn owner(session: i32) -> Arc<LockOwner> {
    let id = session.unsigned_abs().into();
    LockOwner::new(SessionId(session), LockOwnerKind::Transaction(id), Stamp(id))
}

fn table(number: i32) -> LockResource {
    LockResource::Object(DATABASE, ObjectId(number))
}

fn key(number: u64) -> LockResource {
    LockResource::Key(DATABASE, HOBT, KeyHash::of(&number.to_be_bytes()))
}

fn lock(
    locks: &LockManager,
    owner: &Arc<LockOwner>,
    resource: LockResource,
    mode: LockMode,
) -> Result<Grant, LockError> {
    locks.lock(owner, resource, mode, Patience::default(), &|| false)
}

fn now(locks: &LockManager, owner: &Arc<LockOwner>, resource: LockResource, mode: LockMode) -> Option<GrantKind> {
    locks.try_lock(owner, resource, mode).map(|grant| grant.kind)
}

fn waiting(locks: &LockManager) -> usize {
    locks.waits().len()
}

fn wait_for_waiters(locks: &LockManager, count: usize) {
    while waiting(locks) < count {
        std::thread::yield_now();
    }
}

/// A thread that waits for a lock, and releases everything of its owner when it has got the lock or failed.
fn waits(
    locks: &Arc<LockManager>,
    owner: &Arc<LockOwner>,
    resource: LockResource,
    mode: LockMode,
    deadlock_priority: i8,
) -> JoinHandle<Result<Grant, LockError>> {
    let before = waiting(locks);
    let (other, own) = (Arc::clone(locks), Arc::clone(owner));
    let thread = std::thread::spawn(move || {
        let patience = Patience { deadlock_priority, ..Patience::default() };
        let taken = other.lock(&own, resource, mode, patience, &|| false);
        other.release_all(&own);
        taken
    });
    wait_for_waiters(locks, before + 1);
    thread
}

fn ended(thread: JoinHandle<Result<Grant, LockError>>) -> Result<GrantKind, LockError> {
    thread.join().expect("no panic").map(|grant| grant.kind)
}

#[test]
fn modes_that_exclude_each_other_are_not_held_by_two() {
    let locks = LockManager::default();
    for held in LockMode::ALL {
        for wanted in LockMode::ALL {
            let both_are = |of: fn(LockMode) -> bool| of(held) && of(wanted);
            let resource = match both_are(LockMode::is_for_keys) {
                true => key(1),
                false if both_are(|mode| !mode.is_range()) => table(1),
                false => continue,
            };
            let (one, other) = (owner(51), owner(52));
            assert_eq!(now(&locks, &one, resource, held), Some(GrantKind::New));
            let granted = now(&locks, &other, resource, wanted).is_some();
            assert_eq!(granted, held.is_compatible(wanted), "{wanted} beside {held}");
            locks.release_all(&one);
            locks.release_all(&other);
        }
    }
    assert_eq!(locks.rows(), []);
}

#[test]
fn an_owner_holds_a_resource_once_in_the_strongest_mode_until_it_let_go_as_often_as_it_asked() {
    let locks = LockManager::default();
    let (one, other) = (owner(51), owner(52));
    assert_eq!(now(&locks, &one, table(1), LockMode::IntentExclusive), Some(GrantKind::New));
    assert_eq!(now(&locks, &one, key(1), LockMode::Exclusive), Some(GrantKind::New));
    assert_eq!(now(&locks, &one, table(1), LockMode::IntentShared), Some(GrantKind::Again));
    assert_eq!(now(&locks, &one, table(1), LockMode::Shared), Some(GrantKind::Converted));
    assert_eq!(locks.mode_held(&one, &table(1)), Some(LockMode::SharedIntentExclusive));
    assert_eq!(one.held(), [table(1), key(1)]);
    let row = locks.rows().into_iter().find(|row| row.resource == table(1)).expect("it is held");
    assert_eq!((row.reference_count, row.mode.name(), row.status.name()), (3, "SIX", "GRANT"));
    for _ in 0..2 {
        assert!(locks.release(&one, &table(1)));
        assert_eq!(now(&locks, &other, table(1), LockMode::IntentExclusive), None);
    }
    assert!(locks.release(&one, &table(1)));
    assert!(!locks.release(&one, &table(1)), "it is gone");
    assert_eq!(now(&locks, &other, table(1), LockMode::IntentExclusive), Some(GrantKind::New));
    assert_eq!(one.held(), [key(1)]);
    locks.release_all(&one);
    locks.release_all(&other);
    assert_eq!((locks.rows(), one.held_count()), (Vec::new(), 0));
}

#[test]
fn a_session_does_not_wait_for_itself_whichever_of_its_owners_asks() {
    let locks = Arc::new(LockManager::default());
    let transaction = owner(51);
    let session = LockOwner::new(SessionId(51), LockOwnerKind::Session, Stamp(0));
    assert!(now(&locks, &session, table(1), LockMode::Shared).is_some());
    // A request waits for the session, and would block the session's own request if that had to stand in line.
    let writer = owner(52);
    let writing = waits(&locks, &writer, table(1), LockMode::Exclusive, 0);
    assert!(now(&locks, &transaction, table(1), LockMode::Exclusive).is_some());
    let kinds: Vec<&str> = locks.rows().iter().map(|row| row.owner.name()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "SESSION").count(), 1);
    locks.release_all(&session);
    assert_eq!(waiting(&locks), 1, "the transaction has its own");
    locks.release_all(&transaction);
    assert_eq!(ended(writing), Ok(GrantKind::New));
}

#[test]
fn readers_that_come_later_do_not_pass_a_writer() {
    let locks = Arc::new(LockManager::default());
    let reader = owner(51);
    lock(&locks, &reader, table(1), LockMode::Shared).expect("free");
    let writer = owner(52);
    let writing = waits(&locks, &writer, table(1), LockMode::Exclusive, 0);
    for session in 100..200 {
        let later = owner(session);
        assert_eq!(now(&locks, &later, table(1), LockMode::Shared), None, "a writer waits before");
        assert!(now(&locks, &later, table(1), LockMode::SchemaStability).is_some(), "compatible with all who wait");
        locks.release_all(&later);
    }
    let behind = owner(53);
    let reading = waits(&locks, &behind, table(1), LockMode::Shared, 0);
    let blockers: Vec<(i32, Vec<SessionId>)> =
        locks.waits().into_iter().map(|wait| (wait.session.0, wait.blockers)).collect();
    assert!(blockers.contains(&(52, vec![SessionId(51)])) && blockers.contains(&(53, vec![SessionId(52)])));
    locks.release_all(&reader);
    assert_eq!((ended(writing), ended(reading)), (Ok(GrantKind::New), Ok(GrantKind::New)));
    assert_eq!(locks.rows(), []);
}

#[test]
fn who_lets_go_grants_as_far_as_the_line_goes_together() {
    let locks = Arc::new(LockManager::default());
    let writer = owner(51);
    lock(&locks, &writer, key(1), LockMode::Exclusive).expect("free");
    let line: Vec<Arc<LockOwner>> = (52..56).map(owner).collect();
    let modes = [LockMode::Shared, LockMode::Update, LockMode::Exclusive, LockMode::Shared];
    let (go_on, going) = mpsc::channel::<()>();
    let going = Arc::new(parking_lot::Mutex::new(going));
    let threads: Vec<_> = line
        .iter()
        .zip(modes)
        .enumerate()
        .map(|(place, (waiter, mode))| {
            let (other, waiter, hold) = (Arc::clone(&locks), Arc::clone(waiter), Arc::clone(&going));
            let thread = std::thread::spawn(move || {
                lock(&other, &waiter, key(1), mode).expect("granted in its turn");
                let _until_it_may = hold.lock().recv();
                other.release_all(&waiter);
            });
            wait_for_waiters(&locks, place + 1);
            thread
        })
        .collect();
    locks.release_all(&writer);
    let status = |session| {
        let row = locks.rows().into_iter().find(|row| row.session.0 == session).expect("it asked");
        row.status
    };
    assert_eq!([52, 53, 54, 55].map(status), {
        use LockStatus::{Granted, Waiting};
        [Granted, Granted, Waiting, Waiting]
    });
    for _ in 0..4 {
        go_on.send(()).expect("somebody waits");
    }
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    assert_eq!(locks.rows(), []);
}

#[test]
fn conversions_go_before_the_line() {
    let locks = Arc::new(LockManager::default());
    let (one, other, writer) = (owner(51), owner(52), owner(53));
    lock(&locks, &one, key(1), LockMode::Update).expect("free");
    lock(&locks, &other, key(1), LockMode::Shared).expect("goes together");
    let writing = waits(&locks, &writer, key(1), LockMode::Exclusive, 0);
    let converting = waits(&locks, &one, key(1), LockMode::Exclusive, 0);
    let rows = locks.rows();
    let of_one: Vec<_> = rows.iter().filter(|row| row.session.0 == 51).map(|row| (row.status, row.mode)).collect();
    let expected = [(LockStatus::Granted, LockMode::Update), (LockStatus::Converting, LockMode::Exclusive)];
    assert_eq!(of_one, expected);
    assert_eq!(now(&locks, &owner(54), key(1), LockMode::Shared), None, "it would starve the conversion");
    locks.release_all(&other);
    assert_eq!(ended(converting), Ok(GrantKind::Converted));
    assert_eq!(ended(writing), Ok(GrantKind::New));
}

#[test]
fn a_waiter_that_gives_up_lets_those_behind_it_through_and_keeps_what_it_has() {
    for cancel in [true, false] {
        let locks = Arc::new(LockManager::default());
        let (reader, writer, behind) = (owner(51), owner(52), owner(53));
        lock(&locks, &reader, table(1), LockMode::Shared).expect("free");
        lock(&locks, &writer, table(1), LockMode::IntentShared).expect("goes together");
        let cancelled = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                let timeout = (!cancel).then_some(Duration::from_millis(80));
                let patience = Patience { timeout, ..Patience::default() };
                let is_cancelled = || cancelled.load(Ordering::Relaxed);
                locks.lock(&writer, table(1), LockMode::Exclusive, patience, &is_cancelled)
            });
            if cancel {
                wait_for_waiters(&locks, 1);
            }
            let reading = scope.spawn(|| lock(&locks, &behind, table(1), LockMode::Shared));
            cancelled.store(cancel, Ordering::Relaxed);
            let expected = if cancel { LockError::Cancelled } else { LockError::Timeout };
            assert_eq!(writing.join().expect("no panic"), Err(expected));
            reading.join().expect("no panic").expect("granted while the first reader still has its lock");
        });
        assert_eq!(locks.mode_held(&writer, &table(1)), Some(LockMode::IntentShared));
        [&reader, &writer, &behind].into_iter().for_each(|owner| locks.release_all(owner));
        assert_eq!((locks.rows(), locks.waits()), (Vec::new(), Vec::new()));
    }
}

#[test]
fn without_patience_nobody_waits_and_a_timeout_too_long_for_the_clock_is_none() {
    let locks = Arc::new(LockManager::default());
    let (holder, other) = (owner(51), owner(52));
    lock(&locks, &holder, table(1), LockMode::Exclusive).expect("free");
    let patience = |timeout| Patience { timeout: Some(timeout), ..Patience::default() };
    let refused = locks.lock(&other, table(1), LockMode::Shared, patience(Duration::ZERO), &|| panic!("no wait"));
    assert_eq!(refused, Err(LockError::Timeout));
    let patient = patience(Duration::MAX);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| locks.lock(&other, table(1), LockMode::Shared, patient, &|| false));
        wait_for_waiters(&locks, 1);
        locks.release_all(&holder);
        assert!(waiter.join().expect("no panic").expect("granted").waited);
    });
}

#[test]
fn a_wait_that_panics_leaves_nothing_behind() {
    let locks = Arc::new(LockManager::default());
    let (holder, waiter) = (owner(51), owner(52));
    lock(&locks, &holder, table(1), LockMode::Exclusive).expect("free");
    let other = Arc::clone(&locks);
    let thread = std::thread::spawn(move || {
        other.lock(&waiter, table(1), LockMode::Shared, Patience::default(), &|| panic!("asked"))
    });
    assert!(thread.join().is_err());
    assert_eq!((locks.rows().len(), locks.waits()), (1, Vec::new()));
}

#[test]
fn many_locks_of_one_owner_are_kept_and_let_go_of() {
    let locks = LockManager::default();
    let (one, other) = (owner(51), owner(52));
    for number in 0..50_000 {
        assert_eq!(now(&locks, &one, key(number), LockMode::Update), Some(GrantKind::New));
    }
    assert_eq!((locks.rows().len(), one.held_count()), (50_000, 50_000));
    assert_eq!(now(&locks, &other, key(49_999), LockMode::Exclusive), None);
    locks.release_all(&one);
    assert_eq!(locks.rows(), []);
    assert!(now(&locks, &other, key(49_999), LockMode::Exclusive).is_some());
}

#[test]
fn a_held_lock_goes_with_its_guard() {
    let locks = Arc::new(LockManager::default());
    let (one, other) = (owner(51), owner(52));
    let held = locks.hold(&one, table(1), LockMode::Exclusive, Patience::default(), &|| false).expect("free");
    assert_eq!(now(&locks, &other, table(1), LockMode::SchemaStability), Some(GrantKind::New));
    assert_eq!(now(&locks, &other, table(1), LockMode::Shared), None);
    drop(held);
    assert_eq!(now(&locks, &other, table(1), LockMode::Shared), Some(GrantKind::Converted));
}

#[test]
fn names_that_programs_agree_on_are_shown_as_long_as_somebody_locks_them() {
    let locks = LockManager::default();
    let one = owner(51);
    let name = "a name that is longer than thirty-two characters";
    let resource = locks.application(DATABASE, 0, name);
    assert_eq!(resource, locks.application(DATABASE, 0, name));
    assert_ne!(resource, locks.application(DATABASE, 0, "A name"));
    assert_ne!(resource, locks.application(DatabaseId(6), 0, name));
    assert!(now(&locks, &one, resource, LockMode::Exclusive).is_some());
    for number in 0..1_000 {
        locks.application(DATABASE, 0, &format!("never locked {number}"));
    }
    let rows = locks.rows();
    assert!(rows[0].description.starts_with("0:[a name that is longer than thirt]:("), "{}", rows[0].description);
}
