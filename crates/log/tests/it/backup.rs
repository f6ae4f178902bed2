//! Records that are copied out of a log, and a log made of them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hobt_base::{Lsn, SplitMix64};
use hobt_disk::Disk;
use hobt_log::{ChainState, Log, LogReader, NewRecord, Record, RecoveryStart, Reservation, for_each_saved};

use crate::world::{MIB, RING_BYTES, World, append, read};

/// The bytes of a log from one position to another, in pieces.
fn copied(log: &Arc<Log>, from: Lsn, until: Lsn) -> Vec<Vec<u8>> {
    let mut reader = LogReader::forwards(log);
    let (mut at, mut pieces) = (from, Vec::new());
    while at < until {
        let bytes = reader.bytes_from(at).expect("kept");
        let wanted = bytes.len().min((until.0 - at.0) as usize);
        pieces.push(bytes[..wanted].to_vec());
        at = Lsn(at.0 + wanted as u64);
    }
    pieces
}

/// A log made of the saved records of another has each of them where it was, over restarts and in several pieces, those
/// that only fill space included.
#[test]
fn a_log_made_of_saved_records_has_them_where_they_were() {
    let world = World::new(&[(24 * MIB, 0, 24 * MIB)]);
    let log = Arc::new(world.create());
    let mut random = SplitMix64::new(8);
    let mut places = Vec::new();
    for number in 0..4000 {
        let length = if random.below(80) == 0 { 90_000 } else { random.below(300) as usize };
        let stale = log.epoch();
        if random.below(20) == 0 {
            let begin = NewRecord { kind: 9, transaction: 0, previous: Lsn(0), payload: &[] };
            log.begin_epoch(&begin).expect("appended");
            let late = NewRecord { kind: 1, transaction: 5, previous: Lsn(0), payload: &[7; 100] };
            assert!(log.append(stale, &late, &Reservation::default()).is_err(), "its space is filled with nothing");
        }
        places.push(append(&log, number, length));
        if random.below(4) == 0 {
            log.flush_past(places[number as usize]).expect("a disk without faults");
        }
    }
    log.flush_past(Lsn(log.end().0 - 1)).expect("a disk without faults");
    let (from, end) = (places[100], log.end());
    let pieces = copied(&log, from, end);
    let mut visited = 0;
    let mut at = from;
    for piece in &pieces {
        at = for_each_saved(piece, at, &mut |_| {
            visited += 1;
            true
        })
        .expect("records");
    }
    assert_eq!(at, end);
    assert!(visited >= 3900);
    let other = World::new(&[(8 * MIB, 8 * MIB, 64 * MIB)]);
    let made = Log::create_at((from, 7), &other.files(true), 99, RING_BYTES, &AtomicBool::new(false)).expect("made");
    other.disk.sync_directory(std::path::Path::new("/")).expect("the root");
    let half = pieces.len() / 2;
    pieces[..half].iter().for_each(|piece| made.append_saved(piece).expect("room"));
    let chain = ChainState { from: Lsn(16), floor: end, fork: [4; 16], time: -7, base: 9 };
    made.set_chain(chain).expect("written");
    drop(made);
    let (made, _) = other.open().expect("sound");
    assert_eq!(made.chain(), Some(chain));
    pieces[half..].iter().for_each(|piece| made.append_saved(piece).expect("room"));
    assert_eq!(made.end(), end);
    made.set_recovery_start(RecoveryStart { redo: places[200], read_from: places[150], keep: places[120] })
        .expect("in order");
    drop(made);
    let records = |log: &World| -> Vec<Record> { read(&log.open().expect("sound").1, places[150]).expect("records") };
    let before = records(&world);
    assert_eq!(records(&other), before);
    assert_eq!(before.iter().filter(|record| record.kind == 1).count(), 4000 - 150);
}

/// What is no whole record is refused, and what comes before it is there.
#[test]
fn bytes_that_are_no_records_are_refused() {
    let world = World::new(&[(8 * MIB, 0, 8 * MIB)]);
    let log = Arc::new(world.create());
    let first = append(&log, 1, 100);
    let second = append(&log, 2, 100);
    log.flush_past(second).expect("a disk without faults");
    let bytes = copied(&log, first, log.end()).concat();
    for cut in 0..bytes.len() {
        let other = World::new(&[(8 * MIB, 0, 8 * MIB)]);
        let made =
            Log::create_at((first, 1), &other.files(true), 99, RING_BYTES, &AtomicBool::new(false)).expect("made");
        let whole = if cut >= (second.0 - first.0) as usize { second } else { first };
        let is_between = cut == 0 || first.0 + cut as u64 == second.0;
        assert_eq!(made.append_saved(&bytes[..cut]).is_ok(), is_between, "{cut}");
        assert_eq!((made.end(), made.durable()), (whole, whole), "{cut}");
        if cut % 40 != 0 {
            continue;
        }
        let mut flipped = bytes.clone();
        flipped[cut % 8] ^= 0x80;
        let _refused_or_not = made.append_saved(&flipped);
    }
}

/// What a backup holds is kept over checkpoints, and given up after it at the next one.
#[test]
fn a_hold_keeps_the_log() {
    let world = World::new(&[(8 * MIB, 0, 8 * MIB)]);
    let log = Arc::new(world.create());
    let first = append(&log, 1, 100);
    log.flush_past(first).expect("a disk without faults");
    let (hold, start) = log.hold().expect("open");
    assert_eq!((hold.from(), start.keep), (first, first));
    let used = |log: &Log| log.segments().iter().filter(|segment| segment.sequence.is_some()).count();
    let mut last = first;
    for number in 2..40 {
        last = append(&log, number, 100_000);
        log.flush_past(last).expect("room");
        log.set_recovery_start(RecoveryStart::at(last)).expect("written");
    }
    assert!(used(&log) > 2);
    assert_eq!(log.truncation_wait(None), hobt_log::TruncationWait::ActiveBackup);
    assert!(!copied(&log, first, log.end()).is_empty());
    drop(hold);
    log.set_recovery_start(RecoveryStart::at(last)).expect("written");
    assert_eq!(used(&log), 1);
}
