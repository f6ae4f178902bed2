//! Logs and devices without room.

use hobt_base::Lsn;
use hobt_disk::{Fault, FaultKind, Operation, SimulatedConfig, SimulatedDisk};
use hobt_log::{LSN_FIRST, LogError, NewRecord, RecoveryStart, Reservation, record_bytes};

use crate::world::{MIB, World, append, append_reserved, broken, numbers, payload, read};

#[test]
fn a_full_log_refuses_new_work_and_keeps_room_for_undoing_what_began() {
    let world = World::new(&[(8 * MIB, 0, 8 * MIB)]);
    let log = world.create();
    let reservation = Reservation::default();
    let payload = payload(0, 2000);
    let record = NewRecord { kind: 1, transaction: 0, previous: Lsn(0), payload: &payload };
    let bytes = record_bytes(payload.len()) as u64;
    let mut count = 0;
    let full = loop {
        // The record, and the one that will undo it.
        if let Err(error) = log.reserve(&reservation, 2 * bytes) {
            break error;
        }
        log.append_always(&record, &reservation).expect("reserved");
        count += 1;
    };
    assert!(matches!(full, LogError::Full { .. }), "{full}");
    assert!(count > 1000, "a good part of the log is used: {count} records");
    // Everything is undone, and some of it is flushed.
    for undone in 0..count {
        let lsn = log.append_always(&record, &reservation).expect("reserved").lsn;
        if undone % 20 == 0 {
            log.flush_past(lsn).expect("room was kept");
        }
    }
    log.release(&reservation);
    let last = append(&log, 1, 10);
    log.flush_past(last).expect("room was kept");
    assert!(matches!(log.reserve(&reservation, MIB), Err(LogError::Full { .. })));
    // With its beginning free, it accepts work again.
    log.set_recovery_start(RecoveryStart::at(last)).expect("a disk without faults");
    log.reserve(&reservation, MIB).expect("there is room again");
    drop(log);
    let (log, recovered) = world.open().expect("a sound log");
    assert_eq!(numbers(&read(&recovered, last).expect("readable")), [1]);
    log.reserve(&Reservation::default(), MIB).expect("there is room");
}

#[test]
fn a_log_grows_as_it_may_and_all_of_it_is_found_again() {
    let world = World::new(&[(4 * MIB, 2 * MIB, 9 * MIB), (4 * MIB, 16 * MIB, 40 * MIB)]);
    let log = world.create();
    let mut count = 0;
    let reservation = Reservation::default();
    while log.reserve(&reservation, 9032).is_ok() {
        let lsn = append_reserved(&log, &reservation, count, 9000);
        count += 1;
        if count % 100 == 0 {
            log.flush_past(lsn).expect("a disk without faults");
        }
    }
    log.flush_past(Lsn(log.end().0 - 8)).expect("room was kept");
    let bytes = log.file_bytes();
    assert!((36 * MIB..=49 * MIB).contains(&bytes), "{bytes}");
    drop(log);
    let (log, recovered) = world.open().expect("a sound log");
    assert_eq!(read(&recovered, LSN_FIRST).expect("readable").len() as u64, count);
    assert_eq!(log.file_bytes(), bytes);
}

#[test]
fn a_device_without_room_is_a_full_log() {
    let mut world = World::new(&[(4 * MIB, 4 * MIB, 100 * MIB)]);
    world.disk = SimulatedDisk::start(SimulatedConfig { capacity_bytes: 10 * MIB, ..SimulatedConfig::default() })
        .expect("a disk in memory");
    let log = world.create();
    let reservation = Reservation::default();
    let mut count = 0;
    let error = loop {
        if let Err(error) = log.reserve(&reservation, 9032) {
            break error;
        }
        append_reserved(&log, &reservation, count, 9000);
        count += 1;
    };
    assert!(matches!(error, LogError::Full { .. }), "{error}");
    log.flush_past(Lsn(log.end().0 - 8)).expect("what was appended has its room");
    drop(log);
    let (_log, recovered) = world.open().expect("a sound log");
    assert_eq!(read(&recovered, LSN_FIRST).expect("readable").len() as u64, count);
}

#[test]
fn a_failed_write_ends_the_log_until_it_is_opened_again() {
    for operation in [Operation::Write, Operation::Sync] {
        let world = World::new(&[(8 * MIB, 0, 8 * MIB)]);
        let log = world.create();
        let first = append(&log, 1, 100);
        log.flush_past(first).expect("a disk without faults");
        world.disk.inject(Fault::once(operation, 0, FaultKind::Error(5)));
        let second = append(&log, 2, 100);
        assert!(log.flush_past(second).is_err());
        // Still failed, although the device works again.
        assert!(matches!(log.flush_past(second), Err(LogError::Failed { .. })));
        assert!(matches!(log.reserve(&Reservation::default(), 1), Err(LogError::Failed { .. })));
        assert!(matches!(log.set_recovery_start(RecoveryStart::at(first)), Err(LogError::Failed { .. })));
        log.flush_past(first).expect("that was durable before");
        drop(log);
        let (_log, recovered) = world.open().expect("a sound log");
        let found = numbers(&read(&recovered, LSN_FIRST).expect("readable"));
        assert!(found == [1] || found == [1, 2], "{found:?}");
    }
}

#[test]
fn waiters_of_a_failed_flush_all_hear_of_it() {
    let world = World::new(&[(8 * MIB, 0, 8 * MIB)]);
    let log = world.create();
    world.disk.inject(broken(Operation::Sync, 3));
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let log = &log;
            scope.spawn(move || {
                let mut number = 0;
                loop {
                    let payload = [writer; 16];
                    let record = NewRecord { kind: 2, transaction: number, previous: Lsn(0), payload: &payload };
                    let Ok(appended) = log.append_always(&record, &Reservation::default()) else { break };
                    if log.flush_past(appended.lsn).is_err() {
                        break;
                    }
                    number += 1;
                }
            });
        }
    });
    assert!(log.check().is_err());
}
