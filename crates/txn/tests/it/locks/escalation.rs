//! Many small locks in exchange for one large one.

use hobt_base::HobtId;
use hobt_txn::locks::{
    Escalation, FIRST_ATTEMPT, GrantKind, KeyHash, LockManager, LockMode, LockResource, NEXT_ATTEMPT,
};

use super::{DATABASE, HOBT, key, lock, now, owner, table};

/// Locks keys until the manager says that it is time to escalate. Returns how many.
fn lock_until_due(
    locks: &LockManager,
    owner: &std::sync::Arc<hobt_txn::locks::LockOwner>,
    mode: LockMode,
    first: u64,
) -> u64 {
    let due = |number| locks.try_lock(owner, key(number), mode).expect("nobody else").escalation_due;
    (first..).find(|number| due(*number)).expect("it is due some day") - first + 1
}

#[test]
fn readers_get_the_table_shared_and_need_no_rows_any_more() {
    let locks = LockManager::default();
    let (reader, other) = (owner(51), owner(52));
    lock(&locks, &reader, table(1), LockMode::IntentShared).expect("free");
    assert_eq!(lock_until_due(&locks, &reader, LockMode::RangeSharedShared, 0), u64::from(FIRST_ATTEMPT));
    lock(&locks, &other, table(1), LockMode::IntentShared).expect("goes together");
    let done = locks.escalate(&reader, DATABASE, &[HOBT], table(1));
    assert_eq!(done, Escalation::Done(LockMode::Shared, FIRST_ATTEMPT as usize));
    assert_eq!(reader.held(), [table(1)]);
    assert_eq!((locks.rows().len(), locks.mode_held(&reader, &table(1))), (2, Some(LockMode::Shared)));
    assert_eq!(now(&locks, &reader, key(9_999), LockMode::Shared), Some(GrantKind::Covered));
    assert!(!locks.release(&reader, &key(9_999)), "there is nothing to let go of");
    assert_eq!(now(&locks, &reader, key(1), LockMode::Exclusive), Some(GrantKind::New), "S does not cover X");
    let elsewhere = LockResource::Key(DATABASE, HobtId(78), KeyHash::END);
    assert_eq!(now(&locks, &reader, elsewhere, LockMode::Shared), Some(GrantKind::New), "another HOBT");
    assert_eq!(now(&locks, &other, table(1), LockMode::IntentExclusive), None);
    locks.release_all(&reader);
    assert_eq!(now(&locks, &reader, key(9_999), LockMode::Shared), Some(GrantKind::New), "it covers no more");
}

#[test]
fn one_change_among_them_asks_for_everything() {
    let locks = LockManager::default();
    let writer = owner(51);
    lock(&locks, &writer, table(1), LockMode::IntentExclusive).expect("free");
    lock_until_due(&locks, &writer, LockMode::Shared, 0);
    lock(&locks, &writer, key(3), LockMode::Exclusive).expect("free");
    let done = locks.escalate(&writer, DATABASE, &[HOBT], table(1));
    assert_eq!(done, Escalation::Done(LockMode::Exclusive, FIRST_ATTEMPT as usize));
    assert_eq!(now(&locks, &writer, key(1), LockMode::Exclusive), Some(GrantKind::Covered));
    assert_eq!(writer.held(), [table(1)]);
}

#[test]
fn a_refused_escalation_changes_nothing_and_is_tried_again_later() {
    let locks = LockManager::default();
    let (writer, other) = (owner(51), owner(52));
    lock(&locks, &writer, table(1), LockMode::IntentExclusive).expect("free");
    lock(&locks, &other, table(1), LockMode::IntentShared).expect("goes together");
    let count = lock_until_due(&locks, &writer, LockMode::Exclusive, 0);
    let rows = locks.rows().len();
    assert_eq!(locks.escalate(&writer, DATABASE, &[HOBT], table(1)), Escalation::Refused);
    assert_eq!((locks.rows().len(), locks.mode_held(&writer, &table(1))), (rows, Some(LockMode::IntentExclusive)));
    assert_eq!(locks.waits(), []);
    assert_eq!(lock_until_due(&locks, &writer, LockMode::Exclusive, count), u64::from(NEXT_ATTEMPT));
    locks.release_all(&other);
    let small = (FIRST_ATTEMPT + NEXT_ATTEMPT) as usize;
    let done = locks.escalate(&writer, DATABASE, &[HOBT], table(1));
    assert_eq!(done, Escalation::Done(LockMode::Exclusive, small));
    locks.release_all(&writer);
    assert_eq!(locks.rows(), []);
}

#[test]
fn locks_count_by_statement_and_only_while_they_are_held() {
    let locks = LockManager::default();
    let writer = owner(51);
    for number in 0..u64::from(FIRST_ATTEMPT) - 1 {
        lock(&locks, &writer, key(number), LockMode::Exclusive).expect("free");
    }
    writer.begin_statement(None);
    let held = u64::from(FIRST_ATTEMPT);
    for number in held..held + 10_000 {
        let grant = lock(&locks, &writer, key(number), LockMode::Shared).expect("free");
        assert!(!grant.escalation_due && locks.release(&writer, &key(number)), "one at a time");
    }
    assert_eq!(lock_until_due(&locks, &writer, LockMode::Exclusive, 50_000), u64::from(FIRST_ATTEMPT));
}

#[test]
fn a_partition_is_locked_alone_where_the_table_says_so() {
    let locks = LockManager::default();
    let (writer, other) = (owner(51), owner(52));
    let hobt = LockResource::Hobt(DATABASE, HOBT);
    for resource in [table(1), hobt] {
        lock(&locks, &writer, resource, LockMode::IntentExclusive).expect("free");
    }
    lock_until_due(&locks, &writer, LockMode::Exclusive, 0);
    let done = locks.escalate(&writer, DATABASE, &[HOBT], hobt);
    assert_eq!(done, Escalation::Done(LockMode::Exclusive, FIRST_ATTEMPT as usize));
    assert_eq!(writer.held(), [table(1), hobt]);
    assert!(now(&locks, &other, table(1), LockMode::IntentExclusive).is_some(), "the other partitions are free");
    assert_eq!(now(&locks, &other, hobt, LockMode::IntentShared), None);
}

#[test]
fn what_was_locked_of_a_hobt_and_waited_for_is_counted_when_it_is_let_go_of() {
    use hobt_base::{FileId, PageId, SlotId};
    use hobt_txn::locks::{HobtLocks, LockError, Patience};
    let locks = LockManager::default();
    let (writer, other) = (owner(51), owner(52));
    let page = PageId::new(FileId(1), 104);
    let (page, rid) = (LockResource::Page(DATABASE, HOBT, page), LockResource::Rid(DATABASE, HOBT, page, SlotId(3)));
    lock(&locks, &writer, table(1), LockMode::IntentExclusive).expect("free");
    lock(&locks, &writer, page, LockMode::IntentExclusive).expect("free");
    lock(&locks, &writer, rid, LockMode::Exclusive).expect("free");
    lock(&locks, &writer, rid, LockMode::Exclusive).expect("its own");
    writer.begin_statement(None);
    lock(&locks, &writer, key(1), LockMode::Exclusive).expect("free");
    assert!(locks.release(&writer, &key(1)));
    writer.begin_statement(None);
    let patience = Patience { timeout: Some(std::time::Duration::from_millis(1)), deadlock_priority: 0 };
    for resource in [page, rid, table(1)] {
        let refused = locks.lock(&other, resource, LockMode::Exclusive, patience, &|| false);
        assert_eq!(refused, Err(LockError::Timeout));
    }
    let counts = locks.hobt_locks(DATABASE, HOBT);
    assert_eq!((counts.rows.count, counts.pages.count), (0, 0), "nobody has let go of anything");
    assert_eq!((counts.rows.waits, counts.pages.waits), (1, 1), "a wait counts that ends in vain");
    locks.release_all(&writer);
    locks.release_all(&writer);
    let counts = locks.hobt_locks(DATABASE, HOBT);
    assert_eq!((counts.rows.count, counts.pages.count), (2, 1), "each once");
    locks.forget_hobts(|database, hobt| database == DATABASE && hobt == HOBT);
    assert_eq!(locks.hobt_locks(DATABASE, HOBT), HobtLocks::default());
}
