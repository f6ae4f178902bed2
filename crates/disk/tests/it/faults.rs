//! Faults and crashes of the simulated disk, and what a file does after them.

use crate::suite::{filled, submit};
use hobt_disk::{
    CompletionQueue, DeviceModel, Direction, Disk, DiskError, DiskFile, Fault, FaultKind, OpenOptions, Operation,
    SimulatedConfig, SimulatedDisk,
};
use std::path::Path;
use std::sync::Arc;

const NEW: OpenOptions = OpenOptions { create_new: true, read_only: false, direct: true };

fn start(config: SimulatedConfig) -> (Arc<SimulatedDisk>, Arc<dyn DiskFile>) {
    let disk = SimulatedDisk::start(config).expect("starts");
    let file = disk.open(Path::new("/a"), NEW).expect("created");
    (disk, file)
}

#[test]
fn an_injected_error_reaches_the_request_that_met_it() {
    for device in [None, Some(DeviceModel::fast_card())] {
        let (disk, file) = start(SimulatedConfig { device, ..SimulatedConfig::default() });
        file.set_size(1 << 20).expect("grown");
        disk.inject(Fault::once(Operation::Read, 5, FaultKind::Error(libc::EIO)));
        let queues = [CompletionQueue::new(), CompletionQueue::new()];
        for n in 0..10 {
            let queue = &queues[usize::try_from(n % 2).expect("small")];
            submit(&*file, queue, Direction::Read, n * 4096, filled(4096, 0), n);
        }
        let mut failed = Vec::new();
        for queue in &queues {
            while let Some(completion) = queue.wait_pop() {
                if let Err(error) = completion.result {
                    assert_eq!(error.os_error(), Some(libc::EIO));
                    assert!(matches!(error, DiskError::Io { offset: Some(offset), .. } if offset == completion.offset));
                    failed.push(completion.tag);
                }
            }
        }
        assert_eq!(failed, [5], "the device serves in order, so the sixth read fails");
        let reads = file.statistics().snapshot().reads;
        assert_eq!((reads.count, reads.errors), (9, 1));
    }
}

#[test]
fn interrupted_and_short_transfers_are_continued() {
    let (disk, file) = start(SimulatedConfig::default());
    for kind in [FaultKind::Short, FaultKind::Error(libc::EINTR), FaultKind::Error(libc::EAGAIN), FaultKind::Short] {
        disk.inject(Fault::once(Operation::Write, 0, kind));
        disk.inject(Fault::once(Operation::Read, 1, kind));
    }
    let mut source = filled(65_536, 0);
    for (n, sector) in source.chunks_mut(512).enumerate() {
        sector.fill(u8::try_from(n).expect("128 sectors"));
    }
    let expected = source.to_vec();
    let queue = CompletionQueue::new();
    submit(&*file, &queue, Direction::Write, 512, source, 0);
    queue.wait_pop().expect("in flight").result.expect("written");
    submit(&*file, &queue, Direction::Read, 512, filled(65_536, 0), 0);
    let read = queue.wait_pop().expect("in flight");
    read.result.expect("read");
    assert!(read.buffer.into_owned().expect("owned")[..] == expected[..]);
    let mut target = filled(65_536, 0);
    file.read_at(&mut target, 512).expect("read");
    assert!(target[..] == expected[..]);
    assert_eq!(file.statistics().snapshot().writes.bytes, 65_536);
}

#[test]
fn a_failed_write_or_sync_poisons_the_file_and_nothing_else() {
    for operation in [Operation::Write, Operation::Sync] {
        let (disk, file) = start(SimulatedConfig::default());
        let other = disk.open(Path::new("/b"), NEW).expect("created");
        file.write_at(&filled(4096, 1), 0).expect("written");
        disk.inject(Fault { path_contains: "/a".into(), ..Fault::once(operation, 0, FaultKind::Error(libc::EIO)) });
        let failed = if operation == Operation::Write { file.write_at(&filled(512, 2), 0) } else { file.sync() };
        assert_eq!(failed.expect_err("injected").os_error(), Some(libc::EIO));
        // The fault was a single one. Now the file itself fails, at once and for good.
        assert!(matches!(file.sync(), Err(DiskError::Poisoned { .. })));
        assert!(matches!(file.write_at(&filled(512, 2), 0), Err(DiskError::Poisoned { .. })));
        assert!(matches!(file.set_size(8192), Err(DiskError::Poisoned { .. })));
        let queue = CompletionQueue::new();
        submit(&*file, &queue, Direction::Write, 0, filled(512, 2), 0);
        assert!(matches!(queue.wait_pop().expect("comes").result, Err(DiskError::Poisoned { .. })));
        file.read_at(&mut filled(4096, 0), 0).expect("reads go on");
        other.write_at(&filled(512, 2), 0).expect("another file is well");
        let again = disk.open(Path::new("/a"), OpenOptions::default()).expect("opens");
        again.write_at(&filled(512, 2), 0).expect("opened anew it is well");
    }
}

#[test]
fn a_full_disk_leaves_what_was_there() {
    let (disk, file) = start(SimulatedConfig { capacity_bytes: 100_000, ..SimulatedConfig::default() });
    file.set_size(65_536).expect("there is room");
    file.write_at(&filled(512, 4), 0).expect("written");
    assert!(matches!(file.set_size(131_072), Err(DiskError::NoSpace { .. })));
    assert_eq!(file.size().expect("known"), 65_536);
    let mut bytes = filled(512, 0);
    file.read_at(&mut bytes, 0).expect("read");
    assert!(bytes.iter().all(|&byte| byte == 4));
    assert_eq!(disk.free_space(Path::new("/")).expect("known"), 100_000 - 65_536);
    disk.remove(Path::new("/a")).expect("removed");
    assert_eq!(disk.free_space(Path::new("/")).expect("known"), 100_000);
}

#[test]
fn a_crash_loses_only_what_was_not_synced_and_the_same_seed_loses_the_same() {
    let run = |seed: u64| {
        let (disk, file) = start(SimulatedConfig::default());
        file.write_at(&filled(8192, 1), 0).expect("written");
        file.sync().expect("synced");
        disk.sync_directory(Path::new("/")).expect("synced");
        file.write_at(&filled(8192, 2), 4096).expect("written");
        file.try_lock_exclusive().expect("locked");
        drop(disk.open(Path::new("/b"), NEW).expect("created"));
        disk.crash(seed);
        assert!(file.read_at(&mut filled(512, 0), 0).is_err(), "a handle does not survive");
        let again = disk.open(Path::new("/a"), OpenOptions::default()).expect("its name was synced");
        again.try_lock_exclusive().expect("locks are gone");
        drop(file);
        let size = usize::try_from(again.size().expect("known")).expect("small");
        let mut bytes = filled(size, 9);
        again.read_at(&mut bytes, 0).expect("read");
        assert!(bytes[..4096].iter().all(|&byte| byte == 1));
        (bytes.to_vec(), disk.exists(Path::new("/b")))
    };
    let outcomes: Vec<_> = (0..40).map(run).collect();
    assert!(outcomes == (0..40).map(run).collect::<Vec<_>>());
    assert!(outcomes.iter().any(|(_, b)| *b) && outcomes.iter().any(|(_, b)| !*b));
    assert!(outcomes.iter().any(|(bytes, _)| bytes[4096..8192].contains(&1) && bytes[4096..8192].contains(&2)), "torn");
}

#[test]
fn a_crash_loses_nothing_that_was_written_durably() {
    for seed in 0..40 {
        let (disk, file) = start(SimulatedConfig::default());
        disk.sync_directory(Path::new("/")).expect("synced");
        file.write_durable_at(&filled(8192, 1), 0).expect("written");
        file.write_at(&filled(8192, 2), 8192).expect("written");
        disk.crash(seed);
        let again = disk.open(Path::new("/a"), OpenOptions::default()).expect("its name was synced");
        let mut bytes = filled(8192, 9);
        again.read_at(&mut bytes, 0).expect("the file is at least as long as what was durable");
        assert!(bytes.iter().all(|&byte| byte == 1), "seed {seed}");
    }
}
