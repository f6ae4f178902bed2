//! What a replay of recorded operations may leave, and what it may not.

use super::trace::{Kind, TraceWriter};
use super::{RecordingDisk, Replay, Trace};
use crate::buffer::AlignedBuffer;
use crate::disk::{Disk, DiskKind, OpenOptions, open_disk};
use crate::queue::{CompletionQueue, Direction, Request};
use crate::{DiskFile, IoBuffer};
use hobt_base::SplitMix64;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder that is removed at the end.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("hobt-trace-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).expect("a folder");
        Place(folder)
    }

    fn trace(&self) -> PathBuf {
        self.0.join("trace")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

/// The folder of traces that are written by hand.
const ROOT: &str = "/recorded";

/// Writes a trace by hand: a file "f" of `size` durable bytes, all 1, and the events of `events`.
fn by_hand(place: &Place, size: usize, events: impl FnOnce(&TraceWriter)) -> Trace {
    let trace = TraceWriter::create(&place.trace()).expect("a trace");
    trace.append(Kind::Root, [0; 3], &[ROOT.as_bytes()]);
    trace.append(Kind::File, [1, size as u64, 0], &[Path::new(ROOT).join("f").as_os_str().as_bytes()]);
    trace.append(Kind::Content, [1, 0, 0], &[&vec![1; size]]);
    events(&trace);
    trace.finish().expect("written");
    Trace::read(&place.trace()).expect("a trace")
}

fn write(trace: &TraceWriter, offset: u64, bytes: &[u8], is_durable: bool) -> u64 {
    trace.append(Kind::Write, [1, offset, u64::from(is_durable)], &[bytes])
}

fn end(trace: &TraceWriter, number: u64) {
    trace.append(Kind::Done, [number, 0, 0], &[]);
}

/// The possible contents of file "f" after a crash at the end of the trace, over many seeds; `None` where it is
/// missing.
fn outcomes(place: &Place, trace: &Trace) -> BTreeSet<Option<Vec<u8>>> {
    let mut replay = Replay::new(trace);
    replay.run_to(trace.len());
    let crash = |seed| {
        let target = place.0.join("crashed");
        replay.crash(&mut SplitMix64::new(seed), &target).expect("a folder");
        let content = std::fs::read(target.join("f")).ok();
        std::fs::remove_dir_all(target).expect("removed");
        content
    };
    (0..200).map(crash).collect()
}

/// The first byte of each sector.
fn sectors(content: &Option<Vec<u8>>) -> Vec<u8> {
    content.as_ref().expect("the file is there").chunks(512).map(|sector| sector[0]).collect()
}

#[test]
fn a_sync_makes_durable_what_had_ended_when_it_began() {
    let place = Place::new();
    let trace = by_hand(&place, 1536, |trace| {
        let first = write(trace, 0, &[2; 512], false);
        let second = write(trace, 512, &[3; 512], false);
        end(trace, first);
        let sync = trace.append(Kind::Sync, [1, 0, 0], &[]);
        end(trace, second);
        let third = write(trace, 1024, &[4; 512], false);
        end(trace, third);
        end(trace, sync);
    });
    let seen: BTreeSet<Vec<u8>> = outcomes(&place, &trace).iter().map(sectors).collect();
    assert_eq!(seen, BTreeSet::from([vec![2, 1, 1], vec![2, 3, 1], vec![2, 1, 4], vec![2, 3, 4]]));
}

#[test]
fn a_sync_that_has_not_ended_makes_nothing_durable() {
    let place = Place::new();
    let trace = by_hand(&place, 512, |trace| {
        let number = write(trace, 0, &[2; 512], false);
        end(trace, number);
        trace.append(Kind::Sync, [1, 0, 0], &[]);
    });
    assert!(outcomes(&place, &trace).contains(&Some(vec![1; 512])));
}

#[test]
fn a_durable_write_makes_its_own_bytes_durable_and_no_others() {
    let place = Place::new();
    let trace = by_hand(&place, 1024, |trace| {
        let number = write(trace, 0, &[2; 1024], false);
        end(trace, number);
        let number = write(trace, 512, &[3; 512], true);
        end(trace, number);
    });
    let seen: BTreeSet<Vec<u8>> = outcomes(&place, &trace).iter().map(sectors).collect();
    assert_eq!(seen, BTreeSet::from([vec![1, 3], vec![2, 3]]));
}

#[test]
fn a_write_in_flight_is_found_in_any_sectors() {
    let place = Place::new();
    let trace = by_hand(&place, 1024, |trace| {
        write(trace, 0, &[2; 1024], true);
    });
    let seen: BTreeSet<Vec<u8>> = outcomes(&place, &trace).iter().map(sectors).collect();
    assert_eq!(seen, BTreeSet::from([vec![1, 1], vec![1, 2], vec![2, 1], vec![2, 2]]));
}

#[test]
fn a_size_is_the_old_one_or_the_new_one_until_a_sync() {
    let place = Place::new();
    let lengths = |is_synced: bool| -> BTreeSet<usize> {
        let trace = by_hand(&place, 512, |trace| {
            trace.append(Kind::Resized, [1, 2048, 0], &[]);
            if is_synced {
                let number = trace.append(Kind::Sync, [1, 0, 0], &[]);
                end(trace, number);
            }
        });
        outcomes(&place, &trace).iter().map(|content| content.as_ref().expect("it is there").len()).collect()
    };
    assert_eq!(lengths(false), BTreeSet::from([512, 2048]));
    assert_eq!(lengths(true), BTreeSet::from([2048]));
}

#[test]
fn a_name_is_certain_when_its_folder_was_synced() {
    let place = Place::new();
    let names = |is_synced: bool| -> BTreeSet<bool> {
        let trace = by_hand(&place, 512, |trace| {
            trace.append(Kind::Removed, [0; 3], &[Path::new(ROOT).join("f").as_os_str().as_bytes()]);
            if is_synced {
                let number = trace.append(Kind::SyncDirectory, [0; 3], &[ROOT.as_bytes()]);
                end(trace, number);
            }
        });
        outcomes(&place, &trace).iter().map(Option::is_some).collect()
    };
    assert_eq!(names(false), BTreeSet::from([false, true]));
    assert_eq!(names(true), BTreeSet::from([false]));
}

#[test]
fn places_are_those_behind_what_is_true_from_then_on() {
    let place = Place::new();
    let trace = by_hand(&place, 1024, |trace| {
        // Events 3 to 8: only the second is durable on top of the earlier durable contents.
        for is_durable in [true, true, false] {
            let number = write(trace, 0, &[2; 512], is_durable);
            end(trace, number);
        }
        // Events 9 to 13; the second sync has not ended.
        let number = trace.append(Kind::Sync, [1, 0, 0], &[]);
        end(trace, number);
        trace.append(Kind::Sync, [1, 0, 0], &[]);
        trace.append(Kind::Mark, [0; 3], &[b"done 1"]);
        trace.append(Kind::Mark, [0; 3], &[b"undone 2"]);
    });
    assert_eq!(trace.rewritten_places(), [7]);
    assert_eq!(trace.synced_places(), [11]);
    assert_eq!(trace.marked_places(b"done "), [13]);
}

/// A trace of real files, cut where all was synced, gives identical files for any seed.
#[test]
fn what_was_recorded_and_synced_is_there_again() {
    let place = Place::new();
    let folder = place.0.join("data");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("before"), vec![7; 70_000]).expect("a file");
    let inner = open_disk(DiskKind::Auto).expect("a disk");
    let disk = RecordingDisk::start(inner, &folder, &place.trace()).expect("a trace");
    disk.create_directory(&folder.join("inside")).expect("a folder");
    let options = OpenOptions { create_new: true, direct: true, ..OpenOptions::default() };
    let file = disk.open(&folder.join("inside/f"), options).expect("a file");
    file.set_size(64 << 10).expect("its size");
    random_writes(&*file);
    file.sync().expect("synced");
    disk.sync_directory(&folder.join("inside")).expect("synced");
    disk.mark(b"all is there");
    disk.finish().expect("written");
    let trace = Trace::read(&place.trace()).expect("a trace");
    assert_eq!(trace.marks(trace.len()).collect::<Vec<_>>(), [b"all is there"]);
    assert_eq!(trace.durable_places().len(), 2 + 10);
    let mut replay = Replay::new(&trace);
    replay.run_to(trace.len());
    for seed in 0..20 {
        let target = place.0.join("crashed");
        replay.crash(&mut SplitMix64::new(seed), &target).expect("a folder");
        for name in ["before", "inside/f"] {
            let there = std::fs::read(target.join(name)).expect("the file");
            assert!(there == std::fs::read(folder.join(name)).expect("the file"), "{name}, seed {seed}");
        }
        std::fs::remove_dir_all(target).expect("removed");
    }
}

/// Forty writes, ten of them durable, ten submitted.
fn random_writes(file: &dyn DiskFile) {
    let (mut random, queue) = (SplitMix64::new(3), CompletionQueue::new());
    for round in 0..40_u8 {
        let sectors = 1 + usize::try_from(random.below(8)).expect("few");
        let offset = random.below(100) * 512;
        let mut buffer = AlignedBuffer::new(sectors * 512).expect("memory");
        buffer.fill(round + 1);
        match round % 4 {
            0 => file.write_durable_at(&buffer, offset).expect("written"),
            1 => {
                let buffer = IoBuffer::Owned(buffer);
                file.submit(Request { direction: Direction::Write, offset, buffer, tag: 1, queue: queue.clone() });
                queue.wait_pop().expect("in flight").result.expect("written");
            }
            _ => file.write_at(&buffer, offset).expect("written"),
        }
    }
}
