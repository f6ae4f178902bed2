//! A file over another one reads and writes as a copy of it does, and the other one stays as it is. Standbys over it:
//! crate `engine`.

use std::path::Path;
use std::sync::Arc;

use hobt_base::SplitMix64;

use super::{BLOCK_BYTES, Overlay};
use crate::buffer::{AlignedBuffer, IoBuffer, SECTOR_SIZE};
use crate::disk::{Disk, DiskFile, OpenOptions};
use crate::error::DiskError;
use crate::queue::{CompletionQueue, Direction, Request};
use crate::simulated::{SimulatedConfig, SimulatedDisk};

const UNIT: usize = 4096;

fn file(disk: &SimulatedDisk, name: &str) -> Arc<dyn DiskFile> {
    let options = OpenOptions { create_new: true, read_only: false, direct: true };
    disk.open(Path::new(name), options).expect("made")
}

fn filled(bytes: usize, with: u8) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::new(bytes).expect("memory");
    buffer.fill(with);
    buffer
}

/// A base of so many units, each with its number in every byte.
fn base(disk: &SimulatedDisk, units: usize) -> Arc<dyn DiskFile> {
    let base = file(disk, "/base");
    for unit in 0..units {
        base.write_at(&filled(UNIT, unit as u8 + 1), (unit * UNIT) as u64).expect("written");
    }
    base
}

fn contents(file: &dyn DiskFile) -> Vec<u8> {
    let bytes = usize::try_from(file.size().expect("a size")).expect("a small file");
    if bytes == 0 {
        return Vec::new();
    }
    let mut buffer = AlignedBuffer::new(bytes).expect("memory");
    file.read_at(&mut buffer, 0).expect("read");
    buffer.to_vec()
}

fn submit(file: &dyn DiskFile, direction: Direction, offset: u64, buffer: AlignedBuffer) -> AlignedBuffer {
    let queue = CompletionQueue::new();
    let buffer = IoBuffer::Owned(buffer);
    file.submit(Request { direction, offset, buffer, tag: 7, queue: Arc::clone(&queue) });
    let done = queue.wait_pop().expect("a completion");
    assert_eq!((done.tag, done.offset, done.direction), (7, offset, direction));
    done.result.expect("transferred");
    done.buffer.into_owned().expect("its own buffer")
}

/// Whatever is written, cut off and read, a file over another one is what a file of its own would be, and the base and
/// what another file has in the overlay stay as they are.
#[test]
fn a_file_over_another_is_like_a_copy_of_it() {
    for seed in 0..40 {
        let mut random = SplitMix64::new(seed);
        let mut below = |bound: usize| random.below(bound as u64) as usize;
        let disk = SimulatedDisk::start(SimulatedConfig::default()).expect("a disk");
        let units = below(64);
        let base = base(&disk, units);
        let before = contents(&*base);
        let overlay = Overlay::new(file(&disk, "/overlay"));
        let over = overlay.over(Arc::clone(&base)).expect("over");
        let other = overlay.over(Arc::clone(&base)).expect("over");
        let mut model = before.clone();
        for step in 0..120_u8 {
            match below(8) {
                0 => {
                    let bytes = below(80) * UNIT;
                    over.set_size(bytes as u64).expect("resized");
                    model.resize(bytes, 0);
                }
                1..=3 => {
                    let (from, bytes) = (below(70) * UNIT, (1 + below(12)) * UNIT);
                    // Zeros behind the end need no slot.
                    let buffer = filled(bytes, if below(4) == 0 { 0 } else { step.wrapping_add(100) });
                    model.resize(model.len().max(from + bytes), 0);
                    model[from..from + bytes].copy_from_slice(&buffer);
                    match below(3) {
                        0 => drop(submit(&*over, Direction::Write, from as u64, buffer)),
                        1 => over.write_durable_at(&buffer, from as u64).expect("written"),
                        _ => over.write_at(&buffer, from as u64).expect("written"),
                    }
                }
                4 => {
                    let buffer = filled(UNIT, step);
                    other.write_at(&buffer, (below(70) * UNIT) as u64).expect("written");
                }
                _ if model.is_empty() => {}
                _ => {
                    let sectors = model.len() / SECTOR_SIZE;
                    let from = below(sectors);
                    let bytes = (1 + below(sectors - from)) * SECTOR_SIZE;
                    let from = from * SECTOR_SIZE;
                    let read = submit(&*over, Direction::Read, from as u64, filled(bytes, 0xee));
                    assert!(read[..] == model[from..from + bytes], "{seed}: {bytes} bytes at {from} after {step}");
                }
            }
            assert_eq!(over.size().expect("a size"), model.len() as u64);
        }
        over.sync().expect("nothing to make durable");
        assert!(contents(&*over) == model, "{seed}");
        assert!(contents(&*base) == before, "{seed}: the base has changed");
    }
}

#[test]
fn a_read_behind_the_end_fails_and_writes_of_one_block_take_one_slot() {
    let disk = SimulatedDisk::start(SimulatedConfig::default()).expect("a disk");
    let overlay = Overlay::new(file(&disk, "/overlay"));
    let over = overlay.over(base(&disk, 4)).expect("over");
    for _ in 0..5 {
        over.write_at(&filled(UNIT, 9), UNIT as u64).expect("written");
    }
    assert_eq!(overlay.blocks(), 1);
    over.write_at(&filled(64 * BLOCK_BYTES, 0), 1 << 20).expect("written");
    assert_eq!(overlay.blocks(), 1, "zeros behind the base take no room");
    let end = over.size().expect("a size");
    assert_eq!(end, (1 << 20) + 64 * BLOCK_BYTES as u64);
    let read = over.read_at(&mut filled(2 * UNIT, 0), end - UNIT as u64);
    assert!(matches!(read, Err(DiskError::OutOfRange { .. })), "{read:?}");
}

#[test]
fn after_a_failed_write_nothing_more_is_written() {
    let disk = SimulatedDisk::start(SimulatedConfig::default()).expect("a disk");
    let overlay = Overlay::new(file(&disk, "/overlay"));
    let over = overlay.over(base(&disk, 4)).expect("over");
    disk.leave_free(Some(0));
    let full = over.write_at(&filled(UNIT, 9), 0);
    assert!(matches!(full, Err(DiskError::NoSpace { .. })), "{full:?}");
    disk.leave_free(None);
    assert!(matches!(over.sync(), Err(DiskError::Poisoned { .. })));
    assert!(matches!(over.write_at(&filled(UNIT, 9), 0), Err(DiskError::Poisoned { .. })));
    assert_eq!(contents(&*over)[..UNIT], filled(UNIT, 1)[..], "what was there is there");
}
