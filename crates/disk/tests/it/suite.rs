//! Properties that hold on every backend.

use crate::Place;
use hobt_base::SplitMix64;
use hobt_disk::{
    AlignedBuffer, CompletionQueue, Direction, DiskError, DiskFile, IoBuffer, OpenOptions, Operation, PinnedSlice,
    Request,
};
use hobt_instruments::WaitCounters;
use hobt_instruments::waits::set_statement_counters;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

pub(crate) fn filled(len: usize, byte: u8) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::new(len).expect("memory");
    buffer.fill(byte);
    buffer
}

pub(crate) fn submit(
    file: &dyn DiskFile,
    queue: &Arc<CompletionQueue>,
    direction: Direction,
    offset: u64,
    buffer: AlignedBuffer,
    tag: u64,
) {
    file.submit(Request { direction, offset, buffer: IoBuffer::Owned(buffer), tag, queue: queue.clone() });
}

fn read(file: &dyn DiskFile, offset: u64, len: usize) -> AlignedBuffer {
    let mut buffer = filled(len, 0xEE);
    file.read_at(&mut buffer, offset).expect("the read works");
    buffer
}

pub(crate) fn names_come_and_go(place: &Place) {
    let (disk, path) = (&place.disk, place.folder.join("a"));
    let writable = OpenOptions { direct: true, ..OpenOptions::default() };
    assert!(matches!(disk.open(&path, writable), Err(DiskError::NotFound { .. })));
    drop(place.create("a", true));
    let again = disk.open(&path, OpenOptions { create_new: true, ..writable });
    assert!(matches!(again, Err(DiskError::AlreadyExists { .. })));
    assert!(disk.exists(&path) && disk.exists(&place.folder));
    disk.create_directory(&place.folder.join("deep/er")).expect("created");
    assert_eq!(disk.list(&place.folder).expect("listed"), [path.clone(), place.folder.join("deep")]);
    disk.sync_directory(&place.folder).expect("synced");
    assert!(disk.free_space(&place.folder).expect("known") > 0);
    disk.remove(&path).expect("removed");
    assert!(!disk.exists(&path));
    assert!(matches!(disk.remove(&path), Err(DiskError::NotFound { .. })));
}

pub(crate) fn sizes_are_allocated_and_cut(place: &Place) {
    let file = place.create("a", true);
    file.set_size(1 << 20).expect("grown");
    assert_eq!(file.size().expect("known"), 1 << 20);
    assert!(read(&*file, 0, 1 << 20).iter().all(|&byte| byte == 0));
    file.write_at(&filled(8192, 5), 8192).expect("written");
    file.set_size(12_288).expect("cut");
    file.set_size(65_536).expect("grown again");
    let bytes = read(&*file, 0, 65_536);
    assert!(bytes[8192..12_288].iter().all(|&byte| byte == 5));
    assert!(bytes[12_288..].iter().all(|&byte| byte == 0), "what was cut off does not come back");
    // No device has so much space. The file must stay unchanged.
    if place.disk.kind() != "simulated" {
        let error = file.set_size(1 << 60).expect_err("no disk is so large");
        assert!(matches!(error, DiskError::NoSpace { .. }), "{error}");
        assert_eq!(file.size().expect("known"), 65_536);
        file.write_at(&filled(512, 6), 0).expect("a file that could not grow is not poisoned");
    }
    file.sync().expect("synced");
}

/// Random transfers, many in flight, none overlapping another in flight, against a model in memory.
pub(crate) fn what_is_written_is_read(place: &Place) {
    const SLOT: usize = 64 << 10;
    const SLOTS: usize = 48;
    for direct in [true, false] {
        let mut random = SplitMix64::new(7);
        let file = place.create(if direct { "direct" } else { "cached" }, direct);
        file.set_size((SLOT * SLOTS) as u64).expect("grown");
        let mut model = vec![0_u8; SLOT * SLOTS];
        let queue = CompletionQueue::new();
        let mut below = |bound: usize| usize::try_from(random.below(bound as u64)).expect("small");
        for round in 0..12_u8 {
            for slot in 0..SLOTS {
                let first = below(SLOT / 512);
                let sectors = 1 + below(SLOT / 512 - first);
                let start = slot * SLOT + first * 512;
                let range = start..start + sectors * 512;
                let direction = if below(2) == 0 { Direction::Read } else { Direction::Write };
                let byte = round.wrapping_mul(48).wrapping_add(u8::try_from(slot).expect("small"));
                if direction == Direction::Write {
                    model[range.clone()].fill(byte);
                }
                submit(&*file, &queue, direction, start as u64, filled(range.len(), byte), slot as u64);
            }
            let mut seen = [false; SLOTS];
            while let Some(completion) = queue.wait_pop() {
                completion.result.expect("the transfer works");
                let slot = usize::try_from(completion.tag).expect("small");
                assert!(!std::mem::replace(&mut seen[slot], true), "a tag came twice");
                let start = usize::try_from(completion.offset).expect("small");
                let buffer = completion.buffer.into_owned().expect("owned");
                assert!(buffer[..] == model[start..start + buffer.len()], "{:?} at {start}", completion.direction);
            }
            assert_eq!(seen, [true; SLOTS]);
        }
        assert!(read(&*file, 0, SLOT * SLOTS)[..] == model[..]);
    }
}

/// What was written durably is there for the next handle. The transfer is counted, and no wait is recorded for it.
pub(crate) fn durable_writes_are_there_after_opening_anew(place: &Place) {
    for direct in [true, false] {
        let file = place.create(if direct { "direct" } else { "cached" }, direct);
        let waits = Arc::new(WaitCounters::new());
        let booked_here = set_statement_counters(Some(waits.clone()));
        file.write_durable_at(&filled(65_536, 1), 0).expect("a file grows by writing");
        file.write_durable_at(&filled(4096, 2), 8192).expect("written over");
        file.write_at(&filled(512, 3), 512).expect("written");
        drop(booked_here);
        assert!(waits.rows().is_empty(), "{:?}", waits.rows());
        let writes = file.statistics().snapshot().writes;
        assert_eq!((writes.count, writes.bytes, writes.errors), (3, 65_536 + 4096 + 512, 0));
        let path = file.path().to_path_buf();
        drop(file);
        let again = place.disk.open(&path, OpenOptions { direct, ..OpenOptions::default() }).expect("opens");
        assert_eq!(again.size().expect("known"), 65_536);
        let mut expected = vec![1; 65_536];
        expected[8192..12_288].fill(2);
        expected[512..1024].fill(3);
        assert!(read(&*again, 0, 65_536)[..] == expected[..]);
    }
}

pub(crate) fn requests_beyond_the_rings_size_all_complete(place: &Place) {
    let file = place.create("a", true);
    file.set_size(2000 * 4096).expect("grown");
    let queue = CompletionQueue::new();
    for n in 0..2000_u64 {
        submit(&*file, &queue, Direction::Write, n * 4096, filled(4096, u8::try_from(n % 251).expect("small")), n);
    }
    let mut tags: Vec<u64> = Vec::new();
    while let Some(completion) = queue.wait_pop() {
        completion.result.expect("written");
        tags.push(completion.tag);
    }
    tags.sort_unstable();
    assert!(tags.into_iter().eq(0..2000));
    for n in [0, 250, 251, 1999] {
        let expected = u8::try_from(n % 251).expect("small");
        assert!(read(&*file, n * 4096, 4096).iter().all(|&byte| byte == expected));
    }
}

pub(crate) fn scattered_memory_is_one_transfer(place: &Place) {
    const PIECES: usize = 1500; // More than one system call takes.
    let file = place.create("a", true);
    let mut memory = AlignedBuffer::new(PIECES * 1024).expect("memory");
    for (n, piece) in memory.chunks_mut(1024).enumerate() {
        piece.fill(u8::try_from(n % 253).expect("small"));
    }
    let expected = memory.to_vec();
    let start = memory.as_mut_ptr();
    let queue = CompletionQueue::new();
    // The first half of each kilobyte, then the second halves.
    let order = || (0..PIECES).map(|n| n * 1024).chain((0..PIECES).map(|n| n * 1024 + 512));
    for direction in [Direction::Write, Direction::Read] {
        // SAFETY: `memory` lives to the end of the function and is not touched before the completion is popped below.
        let slices = order().map(|offset| unsafe { PinnedSlice::new(start.wrapping_add(offset), 512) }).collect();
        let buffer = IoBuffer::Pinned(slices);
        file.submit(Request { direction, offset: 4096, buffer, tag: 1, queue: queue.clone() });
        let completion = queue.wait_pop().expect("one is in flight");
        completion.result.expect("transferred");
        if direction == Direction::Write {
            let bytes = read(&*file, 4096, PIECES * 1024);
            for (sector, offset) in bytes.chunks(512).zip(order()) {
                assert!(sector == &expected[offset..offset + 512]);
            }
            memory.fill(0);
        }
    }
    assert!(memory[..] == expected[..]);
    let snapshot = file.statistics().snapshot();
    assert_eq!((snapshot.writes.count, snapshot.writes.bytes), (1, (PIECES * 1024) as u64));
}

pub(crate) fn the_end_of_the_file_is_an_error_of_its_own(place: &Place) {
    let file = place.create("a", true);
    file.set_size(10_000).expect("grown");
    let queue = CompletionQueue::new();
    for (offset, transferred) in [(0, 10_000), (8192, 1808), (16_384, 0)] {
        submit(&*file, &queue, Direction::Read, offset, filled(16_384, 0), 0);
        let asynchronous = queue.wait_pop().expect("in flight").result;
        let blocking = file.read_at(&mut filled(16_384, 0), offset);
        for result in [asynchronous, blocking] {
            match result {
                Err(DiskError::OutOfRange { transferred: found, length: 16_384, .. }) => assert_eq!(found, transferred),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(file.statistics().snapshot().reads.errors, 6);
    file.write_at(&filled(512, 1), 0).expect("a failed read poisons nothing");
}

pub(crate) fn misaligned_direct_transfers_are_refused(place: &Place) {
    let file = place.create("a", true);
    if !file.is_direct() {
        return;
    }
    let mut buffer = filled(4096, 1);
    assert!(matches!(file.write_at(&buffer[..100], 0), Err(DiskError::Io { .. })));
    assert!(matches!(file.read_at(&mut buffer[1..513], 0), Err(DiskError::Io { .. })));
    assert!(matches!(file.write_durable_at(&buffer[..100], 0), Err(DiskError::Io { .. })));
    assert!(matches!(file.write_durable_at(&buffer[1..513], 0), Err(DiskError::Io { .. })));
    assert!(matches!(file.write_durable_at(&buffer, 7), Err(DiskError::Io { offset: Some(7), .. })));
    let queue = CompletionQueue::new();
    submit(&*file, &queue, Direction::Write, 7, filled(512, 1), 0);
    assert!(matches!(queue.wait_pop().expect("it comes back").result, Err(DiskError::Io { offset: Some(7), .. })));
    file.write_at(&buffer, 0).expect("a refused write poisons nothing");
    file.write_durable_at(&buffer, 0).expect("nor does a refused durable one");
    assert_eq!(file.statistics().snapshot().in_flight, 0);
}

/// A read-only handle is a failure that every backend can produce.
pub(crate) fn a_failed_write_poisons_its_handle(place: &Place) {
    let writable = place.create("a", true);
    writable.write_at(&filled(4096, 7), 0).expect("written");
    let options = OpenOptions { read_only: true, direct: true, create_new: false };
    let file = place.disk.open(writable.path(), options).expect("opens");
    let queue = CompletionQueue::new();
    submit(&*file, &queue, Direction::Write, 0, filled(4096, 8), 0);
    let error = queue.wait_pop().expect("in flight").result.expect_err("it is read-only");
    assert!(matches!(error, DiskError::Io { offset: Some(0), .. }), "{error}");
    // A later caller learns of the failure.
    match file.write_at(&filled(4096, 8), 0) {
        Err(DiskError::Poisoned { cause, .. }) => assert_eq!(cause, error.to_string()),
        other => panic!("{other:?}"),
    }
    assert!(matches!(file.sync(), Err(DiskError::Poisoned { .. })));
    submit(&*file, &queue, Direction::Write, 0, filled(4096, 8), 0);
    assert!(matches!(queue.wait_pop().expect("comes").result, Err(DiskError::Poisoned { .. })));
    assert!(read(&*file, 0, 4096).iter().all(|&byte| byte == 7), "reads go on");
    writable.sync().expect("the other handle is well");
}

pub(crate) fn a_failed_durable_write_poisons_its_handle(place: &Place) {
    let writable = place.create("a", true);
    writable.write_durable_at(&filled(4096, 7), 0).expect("written");
    let options = OpenOptions { read_only: true, direct: true, create_new: false };
    let file = place.disk.open(writable.path(), options).expect("opens");
    let error = file.write_durable_at(&filled(4096, 8), 0).expect_err("it is read-only");
    assert!(matches!(error, DiskError::Io { operation: Operation::Write, offset: Some(0), .. }), "{error}");
    assert!(matches!(file.write_durable_at(&filled(4096, 8), 0), Err(DiskError::Poisoned { .. })));
    assert!(matches!(file.write_at(&filled(4096, 8), 0), Err(DiskError::Poisoned { .. })));
    assert!(matches!(file.sync(), Err(DiskError::Poisoned { .. })));
    let writes = file.statistics().snapshot().writes;
    assert_eq!((writes.count, writes.errors), (0, 1), "what is refused never began");
    assert!(read(&*file, 0, 4096).iter().all(|&byte| byte == 7), "reads go on");
    writable.write_durable_at(&filled(4096, 9), 0).expect("the other handle is well");
}

pub(crate) fn a_lock_is_held_until_the_file_is_dropped(place: &Place) {
    let first = place.create("a", true);
    first.try_lock_exclusive().expect("free");
    let second = place.disk.open(first.path(), OpenOptions::default()).expect("opens");
    assert!(matches!(second.try_lock_exclusive(), Err(DiskError::Locked { .. })));
    drop(first);
    second.try_lock_exclusive().expect("free again");
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) fn a_waker_is_woken_and_an_empty_queue_ends(place: &Place) {
    let file = place.create("a", true);
    let queue = CompletionQueue::new();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let mut context = Context::from_waker(&waker);
    assert!(matches!(queue.poll_pop(&mut context), Poll::Ready(None)));
    let mut pending = 0;
    for round in 0..50 {
        submit(&*file, &queue, Direction::Write, round * 4096, filled(4096, 1), round);
        loop {
            match queue.poll_pop(&mut context) {
                Poll::Ready(completion) => {
                    let completion = completion.expect("one was in flight");
                    assert_eq!((completion.tag, completion.result.is_ok()), (round, true));
                    break;
                }
                Poll::Pending => {
                    pending += 1;
                    while wakes.0.load(Ordering::SeqCst) < pending {
                        std::thread::yield_now();
                    }
                }
            }
        }
    }
    assert_eq!(wakes.0.load(Ordering::SeqCst), pending, "one wake for each time of waiting");
}

pub(crate) fn queue_file_and_disk_may_go_before_the_request(place: &Place) {
    for round in 0..20 {
        let file = place.create(&format!("f{round}"), true);
        let queue = CompletionQueue::new();
        for n in 0..8 {
            submit(&*file, &queue, Direction::Write, n * 65_536, filled(65_536, 3), n);
        }
        drop(file);
        if round % 2 == 0 {
            queue.drain();
            assert_eq!(queue.in_flight(), 0);
            let path = place.folder.join(format!("f{round}"));
            let again = place.disk.open(&path, OpenOptions::default()).expect("opens");
            assert!(read(&*again, 0, 8 * 65_536).iter().all(|&byte| byte == 3));
        }
    }
}

/// The kernel cancels requests of a thread that has ended. The caller must not see that.
pub(crate) fn submitters_may_end_before_their_requests(place: &Place) {
    let file = place.create("a", true);
    file.set_size(64 * 65_536).expect("grown");
    let queue = CompletionQueue::new();
    for thread in 0..8 {
        let (file, queue) = (file.clone(), queue.clone());
        std::thread::spawn(move || {
            for n in thread * 8..thread * 8 + 8 {
                submit(&*file, &queue, Direction::Write, n * 65_536, filled(65_536, 9), n);
            }
        })
        .join()
        .expect("the submitter ends");
    }
    let mut complete = 0;
    while let Some(completion) = queue.wait_pop() {
        completion.result.expect("written");
        complete += 1;
    }
    assert_eq!(complete, 64);
    assert!(read(&*file, 0, 64 * 65_536).iter().all(|&byte| byte == 9));
}

/// Each thread waits for its request before it makes the next, so none may be left with no thread to submit it.
pub(crate) fn many_threads_submit_at_once(place: &Place) {
    const THREADS: u64 = 3;
    const ROUNDS: u64 = 4000;
    let file = place.create("a", true);
    file.set_size(16 * 65_536).expect("grown");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let file = file.clone();
            scope.spawn(move || {
                let queue = CompletionQueue::new();
                for round in 0..ROUNDS {
                    let offset = thread * 65_536 + round % 16 * 4096;
                    let byte = (round % 251) as u8;
                    submit(&*file, &queue, Direction::Write, offset, filled(4096, byte), round);
                    queue.wait_pop().expect("a request is under way").result.expect("written");
                }
            });
        }
    });
    for place in 0..THREADS {
        assert!(
            read(&*file, place * 65_536 + (ROUNDS - 1) % 16 * 4096, 4096)
                .iter()
                .all(|&byte| byte == ((ROUNDS - 1) % 251) as u8)
        );
    }
}

pub(crate) fn statistics_agree_to_the_byte(place: &Place) {
    let file = place.create("a", true);
    let queue = CompletionQueue::new();
    let sizes = [512, 8192, 8192, 65_536, 66_048, 524_288];
    for direction in [Direction::Write, Direction::Read] {
        for size in sizes {
            submit(&*file, &queue, direction, 0, filled(size, 1), 0);
            queue.drain();
        }
    }
    file.write_at(&filled(1024, 1), 0).expect("written");
    file.sync().expect("synced");
    let snapshot = file.statistics().snapshot();
    let total: u64 = sizes.iter().map(|&size| size as u64).sum();
    assert_eq!((snapshot.reads.count, snapshot.reads.bytes, snapshot.reads.errors), (6, total, 0));
    assert_eq!((snapshot.writes.count, snapshot.writes.bytes), (7, total + 1024));
    assert_eq!((snapshot.syncs, snapshot.in_flight), (1, 0));
    let classes: Vec<_> = snapshot.reads.sizes.iter().map(|size| (size.bytes_min, size.count, size.bytes)).collect();
    let expected = [(512, 1, 512), (8192, 2, 16_384), (65_536, 2, 131_584), (524_288, 1, 524_288)];
    assert_eq!(classes, expected);
    assert_eq!(snapshot.reads.latency_us.iter().sum::<u64>(), 6);
    assert!(
        snapshot.reads.stall_ns >= snapshot.reads.stall_max_ns && snapshot.reads.queued_ns <= snapshot.reads.stall_ns
    );
    let samples = place.disk.throughput().samples();
    assert_eq!(samples.iter().map(|sample| sample.bytes_read).sum::<u64>(), total);
    assert_eq!(samples.iter().map(|sample| sample.bytes_written).sum::<u64>(), total + 1024);
}
