//! A log from its creation through many openings.

use std::sync::Arc;

use hobt_base::Lsn;
use hobt_disk::DiskFile;
use hobt_log::{AppendError, LSN_FIRST, Log, LogError, LogReader, NewRecord, RecoveryStart, Reservation};

use crate::world::{MIB, RING_BYTES, World, append, numbers, read};

const ONE_FILE: [(u64, u64, u64); 1] = [(8 * MIB, 0, 8 * MIB)];

#[test]
fn an_empty_log_is_opened_empty() {
    let world = World::new(&ONE_FILE);
    drop(world.create());
    for _ in 0..3 {
        let (log, recovered) = world.open().expect("an empty log");
        assert_eq!((recovered.start.redo, recovered.end, log.end()), (LSN_FIRST, LSN_FIRST, LSN_FIRST));
        assert!(read(&recovered, LSN_FIRST).expect("readable").is_empty());
    }
}

#[test]
fn what_was_flushed_is_read_again_and_the_log_goes_on_behind_it() {
    let world = World::new(&ONE_FILE);
    let mut log = Arc::new(world.create());
    let mut expected = Vec::new();
    for life in 0..6 {
        let mut last = LSN_FIRST;
        for number in life * 100..life * 100 + 50 {
            last = append(&log, number, (number * 97 % 3000) as usize);
            expected.push(number);
            if number % 7 == 0 {
                log.flush_past(last).expect("a disk without faults");
            }
        }
        log.flush_past(last).expect("a disk without faults");
        assert!(log.durable() > last);
        drop(log);
        let (next, recovered) = world.open().expect("a sound log");
        log = Arc::new(next);
        let mut reader = LogReader::new(&log);
        let records = read(&recovered, LSN_FIRST).expect("readable");
        assert_eq!(numbers(&records), expected);
        assert_eq!(records.last().expect("some").end, recovered.end);
        for record in &records {
            assert_eq!(&reader.record(record.lsn).expect("there"), record);
        }
    }
}

#[test]
fn what_is_no_record_of_the_log_is_not_found() {
    let world = World::new(&ONE_FILE);
    let log = world.create();
    let lsn = append(&log, 1, 100);
    log.flush_past(lsn).expect("a disk without faults");
    drop(log);
    let (log, recovered) = world.open().expect("a sound log");
    let mut reader = LogReader::new(&Arc::new(log));
    for wrong in [Lsn(0), Lsn(lsn.0 + 8), recovered.end, Lsn(u64::MAX)] {
        assert!(matches!(reader.record(wrong), Err(LogError::NotThere { .. })));
    }
}

#[test]
fn segments_go_round_and_a_small_log_takes_any_amount() {
    let world = World::new(&[(4 * MIB, 0, 4 * MIB), (4 * MIB, 0, 4 * MIB)]);
    let mut log = world.create();
    let (mut number, mut both_used) = (0, false);
    for _ in 0..20 {
        let mut lsns = Vec::new();
        for _ in 0..5500 {
            number += 1;
            lsns.push(append(&log, number, 1000));
            if number % 50 == 0 {
                log.flush_past(lsns[lsns.len() - 1]).expect("there is a free segment");
            }
        }
        let redo_start = lsns[lsns.len() - 10];
        log.flush_past(lsns[lsns.len() - 1]).expect("there is a free segment");
        log.set_recovery_start(RecoveryStart::at(redo_start)).expect("a disk without faults");
        both_used |= log.segments().iter().any(|row| row.file == 3 && row.sequence.is_some());
        drop(log);
        let (next, recovered) = world.open().expect("a sound log");
        assert_eq!(recovered.start.redo, redo_start);
        assert_eq!(
            numbers(&read(&recovered, redo_start).expect("readable")),
            (number - 9..=number).collect::<Vec<_>>()
        );
        log = next;
    }
    assert!(both_used);
}

#[test]
fn an_append_learns_of_a_checkpoint_and_its_place_says_nothing() {
    let world = World::new(&ONE_FILE);
    let log = world.create();
    let old = log.epoch();
    assert_eq!(old.begin, LSN_FIRST);
    let record = |kind| NewRecord { kind, transaction: 5, previous: Lsn(0), payload: &[1, 2, 3] };
    let free = Reservation::default();
    let before = log.append(old, &record(2), &free).expect("the epoch in force");
    let begin = log.begin_epoch(&record(3)).expect("the log is well");
    assert!(matches!(log.append(old, &record(4), &free), Err(AppendError::EpochChanged)));
    let new = log.epoch();
    assert_eq!(new.begin, begin.lsn);
    let after = log.append(new, &record(5), &free).expect("the epoch in force");
    log.flush_past(after.lsn).expect("a disk without faults");
    drop(log);
    let (_log, recovered) = world.open().expect("a sound log");
    let kinds: Vec<(u8, Lsn)> =
        read(&recovered, LSN_FIRST).expect("readable").iter().map(|record| (record.kind, record.lsn)).collect();
    assert_eq!(kinds, [(2, before.lsn), (3, begin.lsn), (5, after.lsn)]);
}

/// Flips a bit of a file.
fn damage(file: &dyn DiskFile, offset: u64) {
    let mut sector = hobt_disk::AlignedBuffer::new(512).expect("memory");
    let start = offset / 512 * 512;
    file.read_at(&mut sector, start).expect("in the file");
    sector[(offset - start) as usize] ^= 4;
    file.write_at(&sector, start).expect("in the file");
}

#[test]
fn a_damaged_block_in_the_middle_is_refused_and_one_at_the_end_is_the_end() {
    let world = World::new(&ONE_FILE);
    let log = world.create();
    for number in 0..5 {
        let lsn = append(&log, number, 100);
        log.flush_past(lsn).expect("a disk without faults");
    }
    drop(log);
    let file = world.file(0, false);
    // Blocks of one unit follow one another from the beginning of the first segment.
    let block = |number: u64| 8192 + number * 4096;
    damage(&*file, block(4) + 80);
    let (_, recovered) = world.open().expect("a torn end is one");
    assert_eq!(numbers(&read(&recovered, LSN_FIRST).expect("readable")), [0, 1, 2, 3]);
    damage(&*file, block(1) + 80);
    match world.open().expect_err("a gap") {
        LogError::Damaged { offset, .. } => assert_eq!(offset, block(1)),
        other => panic!("{other}"),
    }
}

#[test]
fn a_damaged_first_block_of_a_later_segment_is_refused() {
    let world = World::new(&ONE_FILE);
    let log = world.create();
    let mut number = 0;
    while log.segments().iter().filter(|row| row.sequence.is_some()).count() < 2 {
        let lsn = append(&log, number, 50_000);
        log.flush_past(lsn).expect("a disk without faults");
        number += 1;
    }
    let second = log.segments().into_iter().find(|row| row.sequence == Some(2)).expect("begun");
    let lsn = append(&log, number, 100);
    log.flush_past(lsn).expect("a disk without faults");
    drop(log);
    let file = world.file(0, false);
    for inside in [8, 24, 25, 32, 33, 40, 41, 47, 52, 70, 40_000] {
        damage(&*file, second.offset + inside);
        assert!(matches!(world.open(), Err(LogError::Damaged { .. })), "byte {inside}");
        damage(&*file, second.offset + inside);
    }
    world.open().expect("whole again");
}

/// Whether recovery reads what undo may need, or begins behind it.
#[test]
fn what_undo_may_need_is_kept_and_found_over_crashes() {
    for reads_all in [true, false] {
        undo_may_need(reads_all);
    }
}

fn undo_may_need(reads_all: bool) {
    let world = World::new(&ONE_FILE);
    let mut log = Arc::new(world.create());
    let kept = append(&log, 0, 100);
    let (mut last, mut all) = (kept, vec![kept]);
    for number in 1..60 {
        last = append(&log, number, 50_000);
        log.flush_past(last).expect("a disk without faults");
        all.push(last);
    }
    let read_from = if reads_all { kept } else { last };
    log.set_recovery_start(RecoveryStart { redo: last, read_from, keep: kept }).expect("a disk without faults");
    for life in 0..3 {
        drop(log);
        let (opened, recovered) = world.open().expect("a sound log");
        assert_eq!((recovered.start.redo, recovered.start.keep), (last, kept));
        let opened = Arc::new(opened);
        let mut reader = LogReader::new(&opened);
        for (number, lsn) in all.iter().enumerate().rev() {
            assert_eq!(reader.record(*lsn).expect("kept").transaction, number as u64);
        }
        let first = if reads_all { 0 } else { 59 };
        assert_eq!(numbers(&read(&recovered, read_from).expect("readable"))[0], first);
        assert_eq!(numbers(&read(&recovered, recovered.start.redo).expect("readable"))[0], 59);
        let lsn = append(&opened, 100 + life, 10_000);
        opened.flush_past(lsn).expect("a disk without faults");
        log = opened;
    }
}

#[test]
fn a_position_behind_the_end_is_refused_and_not_waited_for() {
    let log = World::new(&ONE_FILE).create();
    let lsn = append(&log, 1, 10);
    for wrong in [log.end(), Lsn(u64::MAX)] {
        assert!(matches!(log.flush_past(wrong), Err(LogError::NotThere { .. })));
    }
    log.flush_past(lsn).expect("there");
}

#[test]
fn damage_in_any_place_never_changes_what_is_read_in_silence() {
    let world = World::new(&[(4 * MIB, 0, 4 * MIB)]);
    let log = world.create();
    for number in 0..4 {
        let lsn = append(&log, number, 5000);
        log.flush_past(lsn).expect("a disk without faults");
    }
    drop(log);
    let file = world.file(0, false);
    // Headers, and blocks of two units each.
    for offset in (0..8192 + 4 * 8192).step_by(97) {
        damage(&*file, offset);
        match world.open() {
            Ok((_, recovered)) => {
                let found = numbers(&read(&recovered, LSN_FIRST).expect("readable"));
                // A gap is refused, so at most the last flush is missing. A flip in padding has no effect.
                assert!(found == [0, 1, 2, 3] || found == [0, 1, 2], "byte {offset}: {found:?}");
            }
            Err(LogError::Damaged { .. }) => {}
            Err(other) => panic!("byte {offset}: {other}"),
        }
        damage(&*file, offset);
    }
}

#[test]
fn files_of_another_log_cut_files_and_missing_files_are_refused() {
    let world = World::new(&[(4 * MIB, 0, 4 * MIB), (4 * MIB, 0, 4 * MIB)]);
    drop(world.create());
    let mut files = world.disks();
    assert!(matches!(Log::open(&files[..1], RING_BYTES), Err(LogError::Damaged { .. })), "one is missing");
    files.swap(0, 1);
    assert!(matches!(Log::open(&files, RING_BYTES), Err(LogError::Damaged { .. })), "in the wrong order");
    let other = World::new(&[(4 * MIB, 0, 4 * MIB), (4 * MIB, 0, 4 * MIB)]);
    drop(Log::create(&other.files(true), 78, RING_BYTES).expect("room for a log"));
    files.swap(0, 1);
    files[1] = other.disks().remove(1);
    assert!(matches!(Log::open(&files, RING_BYTES), Err(LogError::Damaged { .. })), "of another log");
    for bytes in [0, 100, 4096, 8192, MIB, 4 * MIB] {
        world.file(1, false).set_size(bytes).expect("shorter");
        assert!(matches!(world.open(), Err(LogError::Damaged { .. })), "cut to {bytes} bytes");
    }
}
