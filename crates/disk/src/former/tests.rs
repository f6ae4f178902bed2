//! A file goes on showing what it was, whatever is written over it, and across crashes. What cannot be shown any more
//! is lost, and never shown wrongly. Snapshots of databases over it: crate `engine`.

use std::path::Path;
use std::sync::Arc;

use hobt_base::SplitMix64;

use super::{CopyGuard, FormerBlocks, FormerIdentity};
use crate::buffer::{AlignedBuffer, IoBuffer};
use crate::disk::{Disk, DiskFile, OpenOptions};
use crate::error::{DiskError, Operation, Result};
use crate::overlay::BLOCK_BYTES;
use crate::queue::{CompletionQueue, Direction, Request};
use crate::simulated::{Fault, FaultKind, SimulatedConfig, SimulatedDisk};

const FILE: &str = "/data";
const COPY: &str = "/copy";

fn simulated() -> Arc<SimulatedDisk> {
    SimulatedDisk::start(SimulatedConfig::default()).expect("a disk")
}

fn any(disk: &Arc<SimulatedDisk>) -> Arc<dyn Disk> {
    Arc::clone(disk) as Arc<dyn Disk>
}

fn open(disk: &SimulatedDisk, create_new: bool) -> Arc<dyn DiskFile> {
    disk.open(Path::new(FILE), OpenOptions { create_new, read_only: false, direct: true }).expect("opened")
}

fn reopened(disk: &Arc<SimulatedDisk>, path: &str) -> Result<Option<Arc<FormerBlocks>>> {
    FormerBlocks::open(&any(disk), Path::new(path), |file| file.try_lock_exclusive())
}

fn filled(blocks: usize, with: u8) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::new(blocks * BLOCK_BYTES).expect("memory");
    buffer.fill(with);
    buffer
}

fn identity(blocks: u64, salt: u64) -> FormerIdentity {
    FormerIdentity { owner: [7; 16], file: 1, salt, blocks }
}

/// A durable file of so many blocks, each with its number in every byte.
fn file(disk: &SimulatedDisk, blocks: usize) -> Arc<dyn DiskFile> {
    let file = open(disk, true);
    for block in 0..blocks {
        file.write_at(&filled(1, block as u8 + 1), (block * BLOCK_BYTES) as u64).expect("written");
    }
    file.sync().expect("durable");
    disk.sync_directory(Path::new("/")).expect("durable");
    file
}

fn read(file: &dyn DiskFile, blocks: std::ops::Range<usize>) -> Vec<u8> {
    let mut buffer = filled(blocks.len(), 0xee);
    file.read_at(&mut buffer, (blocks.start * BLOCK_BYTES) as u64).expect("read");
    let queue = CompletionQueue::new();
    let (offset, own) = ((blocks.start * BLOCK_BYTES) as u64, IoBuffer::Owned(filled(blocks.len(), 0xdd)));
    file.submit(Request { direction: Direction::Read, offset, buffer: own, tag: 3, queue: Arc::clone(&queue) });
    let done = queue.wait_pop().expect("a completion");
    done.result.expect("read");
    assert!(done.buffer.into_owned().expect("its own")[..] == buffer[..], "both ways of reading bring the same");
    buffer.to_vec()
}

fn assert_former(view: &dyn DiskFile, blocks: usize, what: &str) {
    assert_eq!(view.size().expect("a size"), (blocks * BLOCK_BYTES) as u64);
    for (block, bytes) in read(view, 0..blocks).chunks(BLOCK_BYTES).enumerate() {
        assert!(bytes.iter().all(|byte| *byte == block as u8 + 1), "{what}: block {block} is {}", bytes[0]);
    }
}

/// Whatever is written, cut off and crashed, the file can be read as it was, also after the copy is opened again.
#[test]
fn a_file_stays_what_it_was() {
    for seed in 0..20 {
        let mut random = SplitMix64::new(seed);
        let mut below = |bound: usize| random.below(bound as u64) as usize;
        let disk = simulated();
        let blocks = 20 + below(60);
        let mut guard = CopyGuard::new(file(&disk, blocks));
        let mut copy = FormerBlocks::create(&any(&disk), Path::new(COPY), identity(blocks as u64, seed)).expect("made");
        disk.sync_directory(Path::new("/")).expect("durable");
        guard.hold().arm(Arc::clone(&copy));
        for step in 0..40_u8 {
            let from = below(blocks + 5);
            let buffer = filled(1 + below(8), step.wrapping_mul(3));
            let offset = (from * BLOCK_BYTES) as u64;
            match below(7) {
                0 => {
                    let queue = CompletionQueue::new();
                    let (direction, buffer) = (Direction::Write, IoBuffer::Owned(buffer));
                    guard.submit(Request { direction, offset, buffer, tag: 1, queue: Arc::clone(&queue) });
                    queue.wait_pop().expect("a completion").result.expect("written");
                }
                1 => guard.write_durable_at(&buffer, offset).expect("written"),
                2 => {
                    let end = offset + buffer.len() as u64;
                    guard.notice(std::slice::from_ref(&(offset..end))).expect("copied");
                    guard.write_at(&buffer, offset).expect("written");
                }
                3 => guard.sync().expect("durable"),
                4 if below(4) == 0 => {
                    guard.set_size(offset).expect("resized");
                    guard.set_size((blocks * BLOCK_BYTES) as u64).expect("resized");
                }
                5 if below(3) == 0 => {
                    disk.crash(seed * 100 + u64::from(step));
                    drop((guard, copy));
                    guard = CopyGuard::new(open(&disk, false));
                    copy = reopened(&disk, COPY).expect("opened").expect("a copy file");
                    assert_eq!(copy.identity(), identity(blocks as u64, seed));
                    guard.hold().arm(Arc::clone(&copy));
                }
                _ => guard.write_at(&buffer, offset).expect("written"),
            }
            let now = disk.open(Path::new(FILE), OpenOptions { direct: true, ..OpenOptions::default() });
            let view = copy.view(now.expect("opened"));
            assert_former(&*view, blocks, &format!("{seed} {step}"));
        }
        copy.write_back(&*guard).expect("written back");
        assert_former(&*copy.view(open(&disk, false)), blocks, "written back");
        assert_eq!(guard.size().expect("known"), (blocks * BLOCK_BYTES) as u64, "its former size, too");
        assert_former(&*guard, blocks, "itself");
    }
}

#[test]
fn an_announcement_costs_one_sync_and_copies_once() {
    let disk = simulated();
    let guard = CopyGuard::new(file(&disk, 64));
    let copy = FormerBlocks::create(&any(&disk), Path::new(COPY), identity(64, 1)).expect("made");
    assert!(!guard.wants_notice());
    guard.hold().arm(Arc::clone(&copy));
    assert!(guard.wants_notice());
    let syncs = || disk.operations(crate::Operation::Sync);
    let before = syncs();
    let block = BLOCK_BYTES as u64;
    guard.notice(&[0..8 * block, 16 * block..40 * block]).expect("copied");
    assert_eq!(syncs(), before + 1);
    for at in (0..8).chain(16..40) {
        guard.write_at(&filled(1, 200), at * block).expect("written");
    }
    assert_eq!(syncs(), before + 1, "copied before");
    guard.write_at(&filled(1, 200), 50 * block).expect("written");
    assert_eq!(syncs(), before + 2);
    copy.retire();
    assert!(!guard.wants_notice());
    guard.write_at(&filled(1, 200), 60 * block).expect("written");
    assert_eq!(syncs(), before + 2);
}

/// A copy that fails gives the moment up, for good, and the file goes on.
#[test]
fn a_full_disk_loses_the_moment_and_not_the_file() {
    let disk = simulated();
    let guard = CopyGuard::new(file(&disk, 8));
    let copy = FormerBlocks::create(&any(&disk), Path::new(COPY), identity(8, 1)).expect("made");
    guard.hold().arm(Arc::clone(&copy));
    guard.write_at(&filled(1, 100), 0).expect("written");
    disk.leave_free(Some(0));
    guard.write_at(&filled(1, 100), BLOCK_BYTES as u64).expect("the file has room");
    assert!(copy.lost().is_some() && !disk.exists(Path::new(COPY)));
    let view = copy.view(open(&disk, false));
    assert!(view.read_at(&mut filled(1, 0), 0).is_err());
    assert!(matches!(reopened(&disk, COPY), Err(DiskError::NotFound { .. })));
}

/// Nothing is overwritten as long as a copy file that lacks it could be taken for complete after a crash.
#[test]
fn a_copy_file_that_stays_keeps_the_file_from_being_overwritten() {
    let disk = simulated();
    let guard = CopyGuard::new(file(&disk, 8));
    let copy = FormerBlocks::create(&any(&disk), Path::new(COPY), identity(8, 1)).expect("made");
    guard.hold().arm(Arc::clone(&copy));
    disk.leave_free(Some(0));
    let once = Fault::once(Operation::Remove, 0, FaultKind::Error(5));
    disk.inject(Fault { path_contains: "copy".into(), ..once });
    guard.write_at(&filled(1, 100), 0).expect_err("the copy file is there");
    assert!(copy.lost().is_some() && !copy.is_over() && disk.exists(Path::new(COPY)));
    assert_eq!(read(&*open(&disk, false), 0..1), vec![1; BLOCK_BYTES], "not overwritten");
    guard.write_at(&filled(1, 100), 0).expect("the copy file is gone now");
    assert!(copy.is_over() && !disk.exists(Path::new(COPY)));
    copy.write_back(&*guard).expect_err("it is lost");
}

/// A batch that others follow was durable: damage there is not taken for the end of the file.
#[test]
fn a_damaged_batch_in_the_middle_is_no_end() {
    let disk = simulated();
    let guard = CopyGuard::new(file(&disk, 8));
    let copy = FormerBlocks::create(&any(&disk), Path::new(COPY), identity(8, 1)).expect("made");
    guard.hold().arm(copy);
    for block in 0..3 {
        guard.write_at(&filled(1, 100), block * BLOCK_BYTES as u64).expect("written");
    }
    drop(guard);
    let damage = |block: u64| {
        let file = disk.open(Path::new(COPY), OpenOptions { direct: true, ..OpenOptions::default() }).expect("opened");
        file.write_at(&filled(1, 9), block * BLOCK_BYTES as u64).expect("written");
    };
    // A header and a batch of two blocks each.
    damage(5);
    let opened = reopened(&disk, COPY).expect("read").expect("the last may be damaged");
    assert_eq!(opened.missing(std::slice::from_ref(&(0..3))), [2]);
    drop(opened);
    damage(1);
    assert!(reopened(&disk, COPY).expect("read").is_none());
}

#[test]
fn what_is_no_copy_file_is_none() {
    let disk = simulated();
    drop(file(&disk, 4));
    assert!(reopened(&disk, FILE).expect("read").is_none());
    let exists = FormerBlocks::create(&any(&disk), Path::new(FILE), identity(1, 1));
    assert!(matches!(exists, Err(DiskError::AlreadyExists { .. })));
}
