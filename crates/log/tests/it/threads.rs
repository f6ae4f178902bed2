//! Many writers at once.

use std::sync::atomic::{AtomicU64, Ordering};

use hobt_base::Lsn;
use hobt_log::{AppendError, LSN_FIRST, NewRecord, Reservation};

use crate::world::{MIB, World, append, numbers, read};

#[test]
fn every_writer_finds_its_records_durable_and_all_are_there_in_order() {
    const WRITERS: u64 = 6;
    const RECORDS: u64 = 400;
    let world = World::new(&[(16 * MIB, 0, 16 * MIB)]);
    let log = world.create();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let log = &log;
            scope.spawn(move || {
                for number in 0..RECORDS {
                    let lsn = append(log, writer * RECORDS + number, (number * 13 % 2500) as usize);
                    if number % 3 == 0 {
                        log.flush_past(lsn).expect("a disk without faults");
                        assert!(log.durable() > lsn);
                    }
                }
            });
        }
    });
    log.flush_past(Lsn(log.end().0 - 8)).expect("a disk without faults");
    assert_eq!(log.statistics().record_bytes, log.end().0 - LSN_FIRST.0);
    drop(log);
    let (_log, recovered) = world.open().expect("a sound log");
    let found = numbers(&read(&recovered, LSN_FIRST).expect("readable"));
    for writer in 0..WRITERS {
        let own: Vec<u64> = found.iter().copied().filter(|number| number / RECORDS == writer).collect();
        assert_eq!(own, (writer * RECORDS..(writer + 1) * RECORDS).collect::<Vec<_>>());
    }
    assert_eq!(found.len() as u64, WRITERS * RECORDS);
}

#[test]
fn a_full_ring_is_emptied_by_those_who_wait_for_room() {
    let world = World::new(&[(64 * MIB, 0, 64 * MIB)]);
    let log = world.create();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let log = &log;
            scope.spawn(move || {
                for number in 0..100 {
                    append(log, writer * 100 + number, 100_000);
                }
            });
        }
    });
    assert!(log.statistics().ring_waits > 0);
    log.flush_past(Lsn(log.end().0 - 8)).expect("a disk without faults");
    drop(log);
    let (_log, recovered) = world.open().expect("a sound log");
    assert_eq!(read(&recovered, LSN_FIRST).expect("readable").len(), 400);
}

#[test]
fn no_record_behind_a_checkpoint_is_from_an_epoch_before_it() {
    let world = World::new(&[(16 * MIB, 0, 16 * MIB)]);
    let log = world.create();
    let begun = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    let epoch = log.epoch();
                    // The record contains the epoch's beginning that its writer knew.
                    let payload = epoch.begin.0.to_le_bytes();
                    let record = NewRecord { kind: 2, transaction: 0, previous: Lsn(0), payload: &payload };
                    match log.append(epoch, &record, &Reservation::default()) {
                        Ok(appended) => assert!(appended.lsn > epoch.begin || epoch.begin == LSN_FIRST),
                        Err(AppendError::EpochChanged) => {}
                        Err(AppendError::Failed(error)) => panic!("{error}"),
                    }
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..100 {
                let record = NewRecord { kind: 3, transaction: 0, previous: Lsn(0), payload: &[] };
                log.begin_epoch(&record).expect("the log is well");
                begun.fetch_add(1, Ordering::Relaxed);
                std::thread::yield_now();
            }
        });
    });
    log.flush_past(Lsn(log.end().0 - 8)).expect("a disk without faults");
    drop(log);
    let (_log, recovered) = world.open().expect("a sound log");
    let mut last_begin = LSN_FIRST;
    let mut checkpoints = 0;
    for record in read(&recovered, LSN_FIRST).expect("readable") {
        if record.kind == 3 {
            last_begin = record.lsn;
            checkpoints += 1;
        } else {
            let known = u64::from_le_bytes(record.payload.try_into().expect("eight bytes"));
            assert_eq!(Lsn(known), last_begin);
        }
    }
    assert_eq!(checkpoints, begun.into_inner());
}

#[test]
fn many_that_reserve_at_once_all_find_room_for_what_they_got() {
    let world = World::new(&[(8 * MIB, 0, 8 * MIB)]);
    let log = world.create();
    let refused = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for writer in 0..8u64 {
            let (log, refused) = (&log, &refused);
            scope.spawn(move || {
                for number in 0..200 {
                    let reservation = Reservation::default();
                    if log.reserve(&reservation, 2 * 5000).is_err() {
                        refused.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    let payload = [writer as u8; 4900];
                    let record = NewRecord { kind: 2, transaction: number, previous: Lsn(0), payload: &payload };
                    for _ in 0..2 {
                        let lsn = log.append_always(&record, &reservation).expect("reserved").lsn;
                        log.flush_past(lsn).expect("reserved");
                    }
                    log.release(&reservation);
                }
            });
        }
    });
    assert!(refused.into_inner() > 0, "16 megabytes do not fit");
    log.check().expect("the log is well");
    drop(log);
    let (log, _recovered) = world.open().expect("a sound log");
    let lsn = append(&log, 1, 100_000);
    log.flush_past(lsn).expect("recovery always has a segment");
}
