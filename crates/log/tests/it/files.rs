//! Files that join and leave a log, and what is kept for a backup.

use std::sync::Arc;

use hobt_base::Lsn;
use hobt_disk::DiskFile;
use hobt_log::{LSN_FIRST, Log, LogError, LogFile, NewLogFile, RecoveryStart, Reservation, TruncationWait, Unlisted};

use crate::world::{MIB, RING_BYTES, World, append, append_reserved, numbers, read};

fn new_file(world: &World, log: &Log, index: usize, id: u16) -> NewLogFile {
    new_file_that_grows(world, log, (index, id), 0)
}

fn new_file_that_grows(world: &World, log: &Log, (index, id): (usize, u16), growth_bytes: u64) -> NewLogFile {
    let (disk, bytes_max) = (world.file(index, true), 4 * MIB + 2 * growth_bytes);
    let file = LogFile { disk, id, name: format!("f{id}"), bytes: 4 * MIB, growth_bytes, bytes_max };
    NewLogFile::make(log, &file).expect("room")
}

fn ids(log: &Log) -> Vec<u16> {
    log.files().iter().map(|file| file.id).collect()
}

fn disks(world: &World, indexes: &[usize]) -> Vec<Arc<dyn DiskFile>> {
    indexes.iter().map(|index| world.file(*index, false)).collect()
}

/// Appends and flushes records until the log is full. Returns their number.
fn fill(log: &Log) -> (u64, LogError) {
    let reservation = Reservation::default();
    for count in 0.. {
        if let Err(error) = log.reserve(&reservation, 9032) {
            return (count, error);
        }
        let lsn = append_reserved(log, &reservation, count, 9000);
        log.flush_past(lsn).expect("a disk without faults");
    }
    unreachable!("a log that does not grow is full some time")
}

#[test]
fn a_file_that_joins_takes_records_when_those_before_it_are_used() {
    let world = World::new(&[(4 * MIB, 0, 4 * MIB)]);
    let log = world.create();
    let (before, full) = fill(&log);
    assert!(matches!(full, LogError::Full { wait: TruncationWait::Checkpoint, .. }), "{full}");
    log.join(new_file(&world, &log, 1, 5)).expect("joined");
    assert_eq!(ids(&log), [2, 5]);
    let (more, _) = fill(&log);
    assert!(more > before / 2, "{before} records, then {more}");
    assert!(log.segments().iter().any(|segment| segment.file == 5 && segment.sequence.is_some()));
    drop(log);
    assert!(matches!(Log::open(&disks(&world, &[0]), RING_BYTES), Err(LogError::Damaged { .. })), "one is missing");
    let (log, recovered) = Log::open(&disks(&world, &[0, 1]), RING_BYTES).expect("a sound log");
    let found = numbers(&read(&recovered, LSN_FIRST).expect("readable"));
    assert_eq!(found, (0..before).chain(0..more).collect::<Vec<_>>());
    let names: Vec<_> = log.files().into_iter().map(|file| (file.id, file.name, file.bytes_max)).collect();
    assert_eq!(names, [(2, "log0".to_owned(), 4 * MIB), (5, "f5".to_owned(), 4 * MIB)]);
}

#[test]
fn a_file_that_was_listed_and_did_not_join_joins_at_the_next_opening() {
    let world = World::new(&[(4 * MIB, 0, 4 * MIB)]);
    let log = world.create();
    drop(new_file(&world, &log, 1, 5));
    drop(log);
    for _ in 0..2 {
        let (log, _) = Log::open(&disks(&world, &[0, 1]), RING_BYTES).expect("a sound log");
        assert_eq!(ids(&log), [2, 5]);
    }
    assert!(matches!(Log::open(&disks(&world, &[0]), RING_BYTES), Err(LogError::Damaged { .. })), "it has joined");
}

#[test]
fn an_unused_file_leaves_and_a_used_one_does_not() {
    let world = World::new(&[(4 * MIB, 0, 4 * MIB)]);
    let log = world.create();
    log.join(new_file(&world, &log, 1, 5)).expect("joined");
    log.join(new_file(&world, &log, 2, 6)).expect("joined");
    let in_use = |id| matches!(log.remove_file::<LogError>(id, || Unlisted::Done), Err(LogError::FileInUse { .. }));
    assert!(in_use(2) && in_use(9), "the first one, and one that is not there");
    let free = log.free_bytes();
    let refused = log.remove_file(5, || Unlisted::Failed(LogError::FileInUse { why: "a test says so" }));
    assert!(refused.is_err());
    assert_eq!((ids(&log), log.free_bytes()), (vec![2, 5, 6], free), "nothing has changed");
    log.remove_file::<LogError>(5, || Unlisted::Done).expect("it holds nothing");
    assert_eq!(ids(&log), [2, 6]);
    assert_eq!(log.segments().iter().filter(|segment| segment.file == 6).count(), 4);
    let (count, _) = fill(&log);
    assert!(in_use(6), "it has records by now");
    let last = append(&log, count, 10);
    log.flush_past(last).expect("a disk without faults");
    drop(log);
    let (log, recovered) = Log::open(&disks(&world, &[0, 2]), RING_BYTES).expect("a sound log");
    assert_eq!(read(&recovered, LSN_FIRST).expect("readable").len() as u64, count + 1);
    assert_eq!(ids(&log), [2, 6]);
}

#[test]
fn the_log_grows_by_other_files_while_a_file_is_taken_off_the_list() {
    let world = World::new(&[(4 * MIB, 0, 4 * MIB)]);
    let log = world.create();
    log.join(new_file_that_grows(&world, &log, (1, 5), 4 * MIB)).expect("joined");
    log.join(new_file_that_grows(&world, &log, (2, 6), 4 * MIB)).expect("joined");
    let (count, returned) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let unlist = || {
            // The list is in another database, whose checkpoint may wait for this log to grow.
            scope.spawn(|| count.send(fill(&log).0));
            let count = returned.recv_timeout(std::time::Duration::from_secs(60));
            let second = log.remove_file::<LogError>(6, || Unlisted::Done);
            assert!(matches!(second, Err(LogError::FileInUse { .. })), "one at a time");
            count.expect("the log grows")
        };
        let mut filled = 0;
        let unlist = || {
            filled = unlist();
            Unlisted::Done
        };
        log.remove_file::<LogError>(5, unlist).expect("it is not used meanwhile");
        assert!(filled > 8 * MIB / 9032, "{filled} records: two files of 4 MiB have room for fewer");
    });
    let (more, _) = fill(&log);
    assert_eq!((more, ids(&log)), (0, vec![2, 6]));
    drop(log);
    let (_, recovered) = Log::open(&disks(&world, &[0, 2]), RING_BYTES).expect("a sound log");
    assert!(read(&recovered, LSN_FIRST).expect("readable").len() as u64 > 8 * MIB / 9032);
}

#[test]
fn a_removal_that_is_cut_off_is_done_or_not_by_whether_the_file_is_listed() {
    for is_listed in [true, false] {
        let world = World::new(&[(4 * MIB, 0, 4 * MIB)]);
        let log = world.create();
        log.join(new_file(&world, &log, 1, 5)).expect("joined");
        // The process ends in the middle of the removal.
        let cut = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            log.remove_file::<LogError>(5, || panic!("the end"))
        }));
        assert!(cut.is_err());
        drop(log);
        let given: &[usize] = if is_listed { &[0, 1] } else { &[0] };
        for _ in 0..2 {
            let (log, _) = Log::open(&disks(&world, given), RING_BYTES).expect("a sound log");
            assert_eq!(ids(&log), if is_listed { vec![2, 5] } else { vec![2] });
        }
    }
}

#[test]
fn what_a_backup_needs_is_kept_over_checkpoints_and_openings_until_it_is_backed_up() {
    let world = World::new(&[(8 * MIB, 0, 8 * MIB)]);
    let mut log = world.create();
    log.keep_for_backup(true);
    let used = |log: &Log| log.segments().iter().filter(|segment| segment.sequence.is_some()).count();
    let mut last = Lsn(0);
    for number in 0..300 {
        last = append(&log, number, 9000);
        log.flush_past(last).expect("a disk without faults");
    }
    assert!(used(&log) > 2);
    for _ in 0..2 {
        let before = used(&log);
        log.set_recovery_start(RecoveryStart::at(last)).expect("a disk without faults");
        assert_eq!(used(&log), before, "nothing is free");
        assert_eq!(log.truncation_wait(None), TruncationWait::LogBackup);
        drop(log);
        let (opened, recovered) = world.open().expect("a sound log");
        assert_eq!(
            (recovered.start.keep, used(&opened)),
            (last, before),
            "recovery reads the end alone, and all is there"
        );
        opened.recovery_ended();
        opened.keep_for_backup(true);
        log = opened;
        last = append(&log, 900, 10);
        log.flush_past(last).expect("a disk without faults");
    }
    let (_, full) = fill(&log);
    assert!(matches!(full, LogError::Full { wait: TruncationWait::LogBackup, .. }), "{full}");
    last = append(&log, 902, 10);
    log.flush_past(last).expect("room was kept");
    log.set_recovery_start(RecoveryStart::at(last)).expect("a disk without faults");
    log.backed_up(last).expect("a disk without faults");
    assert_ne!(log.truncation_wait(None), TruncationWait::LogBackup);
    // Without backups only recovery determines what is kept.
    log.keep_for_backup(false);
    last = append(&log, 901, 10);
    log.flush_past(last).expect("room was kept");
    log.set_recovery_start(RecoveryStart::at(last)).expect("a disk without faults");
    assert_eq!(used(&log), 1);
    assert_eq!(log.truncation_wait(None), TruncationWait::Nothing);
}
