//! Sessions that wait for each other: one fails, at once, and the others go on.

use std::sync::Arc;

use hobt_base::SessionId;
use hobt_txn::locks::{GrantKind, LockError, LockManager, LockMode, LockOwner, LockStatus};

use super::{ended, key, lock, now, owner, table, waiting, waits};

const X: LockMode = LockMode::Exclusive;
const S: LockMode = LockMode::Shared;

/// As many owners as keys. Each holds its own key.
fn each_holds_its_own(locks: &LockManager, count: i32) -> Vec<Arc<LockOwner>> {
    let owners: Vec<Arc<LockOwner>> = (0..count).map(|number| owner(51 + number)).collect();
    for (owner, number) in owners.iter().zip(0..) {
        lock(locks, owner, key(number), X).expect("free");
    }
    owners
}

fn victims(locks: &LockManager) -> Vec<i32> {
    let graphs = locks.deadlocks();
    let of = |graph: &hobt_txn::locks::DeadlockGraph| {
        assert_eq!(graph.processes.iter().filter(|process| process.is_victim).count(), 1);
        graph.victim().expect("there is one").session.0
    };
    graphs.iter().map(|graph| of(graph)).collect()
}

#[test]
fn of_two_that_wait_for_each_other_the_younger_fails() {
    for youngest_closes in [true, false] {
        let locks = Arc::new(LockManager::default());
        let owners = each_holds_its_own(&locks, 2);
        let (first, last) = if youngest_closes { (0, 1) } else { (1, 0) };
        let earlier = waits(&locks, &owners[first], key(last as u64), S, 0);
        let closes = lock(&locks, &owners[last], key(first as u64), S);
        locks.release_all(&owners[last]);
        let earlier = ended(earlier);
        let (younger, older) = if youngest_closes {
            (closes.map(|grant| grant.kind), earlier)
        } else {
            (earlier, closes.map(|grant| grant.kind))
        };
        assert_eq!((younger, older), (Err(LockError::Deadlock), Ok(GrantKind::New)));
        assert_eq!((victims(&locks), locks.rows()), (vec![52], Vec::new()));
    }
}

#[test]
fn the_lowest_priority_fails_then_the_one_that_has_written_least() {
    // Session, priority, bytes of log; the one that must fail.
    let cases =
        [([(0, 10), (-5, 900), (0, 0)], 52), ([(0, 10), (0, 900), (0, 11)], 51), ([(3, 0), (3, 0), (4, 0)], 52)];
    for (costs, victim) in cases {
        let locks = Arc::new(LockManager::default());
        let owners = each_holds_its_own(&locks, 3);
        for (owner, (_, bytes)) in owners.iter().zip(costs) {
            owner.add_log_bytes(bytes);
        }
        let one = waits(&locks, &owners[0], key(1), S, costs[0].0);
        let two = waits(&locks, &owners[1], key(2), S, costs[1].0);
        let (locks_of_three, third) = (Arc::clone(&locks), Arc::clone(&owners[2]));
        let three = std::thread::spawn(move || {
            let patience = hobt_txn::locks::Patience { deadlock_priority: costs[2].0, timeout: None };
            let taken = locks_of_three.lock(&third, key(0), S, patience, &|| false);
            locks_of_three.release_all(&third);
            taken
        });
        let results = [ended(one), ended(two), ended(three)];
        for (result, session) in results.into_iter().zip(51..) {
            let expected = if session == victim { Err(LockError::Deadlock) } else { Ok(GrantKind::New) };
            assert_eq!(result, expected, "{session} of {costs:?}");
        }
        assert_eq!((victims(&locks), locks.rows()), (vec![victim], Vec::new()));
    }
}

#[test]
fn a_circle_through_the_line_of_waiters_is_found() {
    // 53 waits behind 52, which waits for 51's reading; 51 waits for 53: no two of them exclude each other directly.
    let locks = Arc::new(LockManager::default());
    let (reader, writer, behind) = (owner(99), owner(52), owner(53));
    lock(&locks, &reader, table(1), S).expect("free");
    lock(&locks, &behind, table(2), X).expect("free");
    let writing = waits(&locks, &writer, table(1), X, 0);
    let reading = waits(&locks, &behind, table(1), S, 0);
    assert_eq!(lock(&locks, &reader, table(2), S).map(|_| ()), Err(LockError::Deadlock));
    locks.release_all(&reader);
    assert_eq!((ended(writing), ended(reading)), (Ok(GrantKind::New), Ok(GrantKind::New)));
    assert_eq!((victims(&locks), locks.rows()), (vec![99], Vec::new()));
}

#[test]
fn two_readers_that_both_want_to_write_do_not_wait_for_ever() {
    let locks = Arc::new(LockManager::default());
    let (one, other) = (owner(51), owner(52));
    lock(&locks, &one, key(1), S).expect("free");
    lock(&locks, &other, key(1), S).expect("shared");
    one.begin_statement(Some("UPDATE t SET a = 1".into()));
    other.begin_statement(Some("UPDATE t SET a = 2".into()));
    let patient = waits(&locks, &one, key(1), X, 0);
    assert_eq!(lock(&locks, &other, key(1), X).map(|_| ()), Err(LockError::Deadlock));
    locks.release_all(&other);
    assert_eq!(ended(patient), Ok(GrantKind::Converted));

    let graphs = locks.deadlocks();
    let [graph] = &graphs[..] else { panic!("one deadlock") };
    let mut processes: Vec<_> = graph
        .processes
        .iter()
        .map(|process| (process.session.0, process.is_victim, process.mode.name(), process.statement.as_deref()))
        .collect();
    processes.sort_unstable();
    let expected = [(51, false, "X", Some("UPDATE t SET a = 1")), (52, true, "X", Some("UPDATE t SET a = 2"))];
    assert_eq!(processes, expected);
    let [resource] = &graph.resources[..] else { panic!("one resource") };
    let requests: Vec<_> =
        resource.requests.iter().map(|request| (request.session.0, request.mode.name(), request.status)).collect();
    assert_eq!(resource.resource, key(1));
    for session in [51, 52] {
        assert!(requests.contains(&(session, "S", LockStatus::Granted)));
        assert!(requests.contains(&(session, "X", LockStatus::Converting)));
    }
}

#[test]
fn a_chain_is_no_circle() {
    let locks = Arc::new(LockManager::default());
    let owners = each_holds_its_own(&locks, 3);
    let two = waits(&locks, &owners[1], key(0), S, 0);
    let three = waits(&locks, &owners[2], key(1), S, 0);
    locks.release_all(&owners[0]);
    assert_eq!((ended(two), ended(three)), (Ok(GrantKind::New), Ok(GrantKind::New)));
    assert_eq!(locks.deadlock_count(), 0);
}

#[test]
fn a_wait_that_closes_two_circles_ends_both() {
    // 51 and 52 both read key 9 and wait for key 3 of 53, which then wants to write key 9.
    let locks = Arc::new(LockManager::default());
    let (one, two, three) = (owner(61), owner(62), owner(53));
    lock(&locks, &three, key(3), X).expect("free");
    lock(&locks, &one, key(9), S).expect("free");
    lock(&locks, &two, key(9), S).expect("shared");
    let (first, second) = (waits(&locks, &one, key(3), S, 0), waits(&locks, &two, key(3), S, 0));
    lock(&locks, &three, key(9), X).expect("both others fail, who are younger");
    assert_eq!((ended(first), ended(second)), (Err(LockError::Deadlock), Err(LockError::Deadlock)));
    let mut failed = victims(&locks);
    failed.sort_unstable();
    assert_eq!((failed, locks.deadlock_count()), (vec![61, 62], 2));
}

#[test]
fn a_lock_that_a_worker_gets_while_another_waits_can_close_a_circle() {
    let locks = Arc::new(LockManager::default());
    let (session, writer, reader) = (owner(51), owner(52), owner(53));
    lock(&locks, &session, table(1), LockMode::IntentShared).expect("free");
    lock(&locks, &reader, table(1), LockMode::IntentExclusive).expect("goes together");
    lock(&locks, &writer, key(2), X).expect("free");
    let writing = waits(&locks, &writer, table(1), S, -1);
    let worker = waits(&locks, &session, key(2), S, 0);
    assert_eq!(locks.deadlock_count(), 0, "52 waits for 53 alone");
    // The other worker of 51 writes too, past 52 in line: now 52 waits for 51 as well.
    assert_eq!(now(&locks, &session, table(1), LockMode::IntentExclusive), Some(GrantKind::Converted));
    assert_eq!(ended(writing), Err(LockError::Deadlock));
    assert_eq!(ended(worker), Ok(GrantKind::New));
    locks.release_all(&reader);
}

#[test]
fn the_last_ten_graphs_are_kept() {
    let locks = Arc::new(LockManager::default());
    for round in 0..12 {
        let (one, two) = (owner(51), owner(100 + round));
        lock(&locks, &one, key(1), X).expect("free");
        lock(&locks, &two, key(2), X).expect("free");
        let waiter = waits(&locks, &one, key(2), X, 0);
        assert!(lock(&locks, &two, key(1), X).is_err());
        locks.release_all(&two);
        ended(waiter).expect("the other one failed");
    }
    assert_eq!(victims(&locks), (102..112).collect::<Vec<i32>>());
    assert_eq!(locks.deadlock_count(), 12);
}

/// Many circles at once: from whichever side a circle is found, one of each fails and the others are granted what they
/// want.
#[test]
fn rings_of_many_sessions_lose_one_each() {
    for size in [2, 3, 8_i32] {
        let locks = Arc::new(LockManager::default());
        let owners = each_holds_its_own(&locks, size);
        let failed: usize = std::thread::scope(|scope| {
            let ring: Vec<_> = owners
                .iter()
                .zip(1..)
                .map(|(owner, next)| {
                    let (locks, size) = (&locks, u64::from(size.unsigned_abs()));
                    scope.spawn(move || {
                        let failed = lock(locks, owner, key(next % size), S).is_err();
                        locks.release_all(owner);
                        usize::from(failed)
                    })
                })
                .collect();
            ring.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!((failed, locks.deadlock_count()), (1, 1), "a ring of {size}");
        assert_eq!((locks.rows(), waiting(&locks)), (Vec::new(), 0));
        let graph = &locks.deadlocks()[0];
        assert_eq!(graph.processes.len(), size.unsigned_abs() as usize);
        let waits_for_next = graph.processes.iter().zip(graph.processes.iter().cycle().skip(1));
        for (process, next) in waits_for_next {
            let resource = graph.resources.iter().find(|resource| resource.resource == process.waits_for);
            let holds = |session: SessionId| {
                let requests = &resource.expect("it is in the graph").requests;
                requests.iter().any(|request| request.session == session && request.status == LockStatus::Granted)
            };
            assert!(holds(next.session), "{process:?} waits for {next:?}");
        }
    }
}

#[test]
fn a_victim_that_waits_no_more_is_in_no_circle() {
    let locks = Arc::new(LockManager::default());
    let owners = each_holds_its_own(&locks, 2);
    let first = waits(&locks, &owners[1], key(0), S, 0);
    // The younger fails. Its lock is released only when its thread has run: until then 51 waits and is in no circle.
    lock(&locks, &owners[0], key(1), S).expect("the younger failed");
    assert_eq!(ended(first), Err(LockError::Deadlock));
    assert_eq!(locks.deadlock_count(), 1);
}
