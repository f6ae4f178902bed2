//! Read-ahead of pages for one reader, which then reads them through guards.
//!
//! Loads in progress are published before their owner waits for anything else, or by a thread that has waited for one
//! of the pages for a moment ([`LoadOwner`]).

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use hobt_base::PageId;
use hobt_buffer::{BufferPool, LoadOwner, PendingLoad, ReadCounts};
use hobt_disk::CompletionQueue;
use hobt_instruments::schedule::Mutex;
use hobt_instruments::{Wait, WaitType};
use hobt_txn::IoCounts;

use crate::Storage;

/// Adds the pool's counts to the counts with which a statement's table is charged.
pub(crate) fn add_reads(counts: &IoCounts, reads: &ReadCounts) {
    counts.logical_reads.fetch_add(reads.logical.load(Ordering::Relaxed), Ordering::Relaxed);
    counts.physical_reads.fetch_add(reads.physical.load(Ordering::Relaxed), Ordering::Relaxed);
    counts.read_ahead_reads.fetch_add(reads.read_ahead.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Loads of one reader that are in progress.
pub(crate) struct ReadAhead {
    shared: Arc<Shared>,
}

struct Shared(Mutex<Loads>);

struct Loads {
    /// Loads whose reads have not all completed.
    under_way: Vec<UnderWay>,
    queue: Arc<CompletionQueue>,
    next_tag: u64,
}

struct UnderWay {
    tag: u64,
    load: PendingLoad,
    missing: usize,
}

impl Loads {
    /// Waits for all loads and publishes their pages. A page whose read failed stays absent: a later read reports the
    /// error.
    fn settle(&mut self) {
        while !self.under_way.is_empty() {
            let wait = Wait::begin(WaitType::PageIoLatchSh);
            let completion = self.queue.wait_pop().expect("a load that is under way has a read in flight");
            drop(wait);
            let place = self.under_way.iter().position(|load| load.tag == completion.tag);
            let place = place.expect("a completion of a load that is under way");
            let one = &mut self.under_way[place];
            one.missing -= 1;
            let is_done = one.missing == 0;
            let _read_again = one.load.complete(completion);
            if is_done {
                drop(self.under_way.swap_remove(place));
            }
        }
    }
}

impl LoadOwner for Shared {
    fn publish_loads(&self) {
        if let Some(mut loads) = self.0.try_lock() {
            loads.settle();
        }
    }
}

impl ReadAhead {
    pub(crate) fn new(pool: &BufferPool) -> ReadAhead {
        let loads = Loads { under_way: Vec::new(), queue: CompletionQueue::new(), next_tag: 0 };
        let shared = Arc::new(Shared(Mutex::new(loads)));
        let owner: Weak<dyn LoadOwner> = Arc::downgrade(&shared) as Weak<dyn LoadOwner>;
        pool.add_load_owner(owner);
        ReadAhead { shared }
    }

    /// Starts to read those of these pages that are not resident; neighbours by one read. Does not block. Pages for
    /// which there is no frame now are left to later reads.
    pub(crate) fn start(&self, storage: &Storage, pages: &[PageId], counts: &IoCounts) {
        let mut loads = self.shared.0.lock();
        let is_next =
            |one: &PageId, next: &PageId| one.file == next.file && one.number.checked_add(1) == Some(next.number);
        for run in pages.chunk_by(is_next).flat_map(|run| run.chunks(hobt_buffer::LOAD_PAGES_MAX as usize)) {
            let Ok(file) = storage.file(run[0].file) else { continue };
            let tag = loads.next_tag;
            let count = u32::try_from(run.len()).expect("a chunk");
            let Ok(load) = file.pool_file().start_load(run[0].number, count, &loads.queue, tag) else { continue };
            counts.read_ahead_reads.fetch_add(load.loading().len() as u64, Ordering::Relaxed);
            if load.reads() > 0 {
                loads.next_tag += 1;
                let missing = load.reads();
                loads.under_way.push(UnderWay { tag, load, missing });
            }
        }
    }

    /// To be called before the owner waits for a page or a latch.
    pub(crate) fn settle(&self) {
        self.shared.0.lock().settle();
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        // Here and not when the last reference is dropped: that may be by a thread that calls `publish_loads`.
        self.settle();
    }
}
