//! Single records of a log that is in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hobt_base::{Lsn, SplitMix64};
use hobt_disk::Operation;
use hobt_log::{LogReader, Record};

use crate::world::{MIB, World, append, broken, payload};

fn check(record: &Record, number: u64) {
    assert_eq!((record.transaction, &record.payload), (number, &payload(number, record.payload.len() - 8)));
}

#[test]
fn every_record_is_read_wherever_it_is_also_in_the_next_life() {
    let world = World::new(&[(24 * MIB, 0, 24 * MIB), (24 * MIB, 0, 24 * MIB)]);
    let log = Arc::new(world.create());
    let mut reader = LogReader::new(&log);
    let mut random = SplitMix64::new(5);
    let mut places = Vec::new();
    for number in 0..6000 {
        let length = if random.below(50) == 0 { 100_000 } else { random.below(400) as usize };
        places.push(append(&log, number, length));
        if random.below(3) == 0 {
            log.flush_past(places[number as usize]).expect("a disk without faults");
        }
        let back = random.below(40).min(number);
        let one = number - back;
        check(&reader.record(places[one as usize]).expect("it is there"), one);
    }
    for number in (0..6000).rev() {
        check(&reader.record(places[number as usize]).expect("it is there"), number);
    }
    log.flush_past(places[5999]).expect("a disk without faults");
    drop((reader, log));
    let (log, _) = world.open().expect("a sound log");
    let mut reader = LogReader::new(&Arc::new(log));
    for number in (0..6000).rev().step_by(7) {
        check(&reader.record(places[number as usize]).expect("it is there"), number);
    }
}

#[test]
fn records_are_read_while_others_append_and_flush() {
    const WRITERS: u64 = 3;
    const RECORDS: u64 = 3000;
    let world = World::new(&[(32 * MIB, 0, 32 * MIB)]);
    let log = Arc::new(world.create());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                log.flush_past(Lsn(log.end().0 - 8)).ok();
            }
        });
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let log = &log;
                scope.spawn(move || {
                    let mut reader = LogReader::new(log);
                    let mut random = SplitMix64::new(writer);
                    let mut places = Vec::new();
                    for index in 0..RECORDS {
                        let number = writer * RECORDS + index;
                        places.push(append(log, number, random.below(600) as usize));
                        let one = index - random.below(4).min(index);
                        check(&reader.record(places[one as usize]).expect("it is there"), writer * RECORDS + one);
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let world = World::new(&[(8 * MIB, 0, 8 * MIB)]);
    let log = Arc::new(world.create());
    let mut reader = LogReader::new(&log);
    let first = append(&log, 1, 10);
    reader.record(Lsn(first.0 + 800)).expect_err("it is behind the end");
    log.flush_past(first).expect("a disk without faults");
    reader.record(Lsn(8)).expect_err("it is before the log");
    reader.record(Lsn(first.0 + 8)).expect_err("it is in the midst of a record");
    world.disk.inject(broken(Operation::Read, 0));
    // What was read with the block is still known.
    check(&reader.record(first).expect("in the buffer"), 1);
    LogReader::new(&log).record(first).expect_err("the device does not read");
}
