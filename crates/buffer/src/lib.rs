//! The buffer pool: frames, guards, eviction, read-ahead.
//!
//! Frames are 8 KiB pieces of one permanent mapping. A registered file has one 64-bit state word per page. It says
//! where the page is, how it is latched and whether it is dirty (`state.rs` lists which access each state allows).
//! There is no hash table: finding a resident page is one load of its state word.
//!
//! Three methods of access to a page:
//! * guards ([`PoolFile::read`], [`PoolFile::write`], [`PoolFile::create`]): block, read what is missing, hold a latch;
//! * optimistic copies ([`PoolFile::optimistic_words`], [`PageRun`]): no latch, no wait, no reference to page bytes;
//! * loads ([`PoolFile::start_load`]): a scan's asynchronous reads straight into frames.
//!
//! A scan that reads past the pool into buffers of its own calls [`PoolFile::state_snapshot`] before its read and
//! [`PoolFile::changed_since`] after it. The second says which pages it must fetch from the pool instead.
//!
//! Done elsewhere: what a page means (`hobt-page`), how bytes reach a device (`hobt-disk`), which pages are allocated
//! and how long a file is (`hobt-access`), and when to checkpoint.
//!
//! The public surface in short:
//!
//! ```text
//! BufferPool::new(PoolSettings { bytes }) -> Result<Arc<BufferPool>, BufferError>
//!   .register_file(PoolFileDescription { database, database_tag, file, disk, log }) -> Arc<PoolFile>
//!   .unregister_file(&PoolFile, Dirty::Refuse | Dirty::Discard) -> Result<(), BufferError>
//!   .flush_file(&PoolFile) -> Result<u64 pages, BufferError>       .flush_all()
//!   .drop_clean_buffers(Option<DatabaseId>) -> u64 frames
//!   .start_extension(disk, bytes) .stop_extension() .extension_statistics() .visit_extension(visit)
//!   .add_load_owner(Weak<dyn LoadOwner>)                             asked to publish while a thread waits
//!   .statistics() -> PoolStatistics                                  .descriptors() -> impl Iterator<PageDescriptor>
//!
//! PoolFile (Arc; guards borrow it, so that a hit costs no reference count)
//!   .id() .database() .pool()
//!   .read(number) -> Result<SharedGuard<'_>, BufferError>            Deref<Target = PageBytes>, Send
//!   .read_with(number, ReadOptions { ahead, counts, once }) -> as `read`
//!   .write(number) / .write_with(number, options) -> Result<ExclusiveGuard<'_>, BufferError>   DerefMut marks dirty
//!   .create(number) -> Result<ExclusiveGuard<'_>, BufferError>       zeroed, dirty, nothing is read
//!   .try_read(number) -> TryRead<'_>::{Guard(SharedGuard), NotResident, Busy}   does not count as use
//!   .optimistic_words(number, first_word, &mut [u64]) -> Optimistic::{Ok, NotResident, Busy}
//!   .prefetch(number, first_byte, bytes)
//!   .page_run(first, count) -> PageRun<'_>                           these three for a range, cheaper
//!   .start_load(first, count, &Arc<CompletionQueue>, tag) -> Result<PendingLoad, BufferError>
//!   .state_snapshot(first, count) -> StateSnapshot
//!   .changed_since(&StateSnapshot, &mut Vec<u32>)                    pages to take from the pool instead
//!   .discard(first, count) -> Result<(), BufferError>                forget freed pages without writing them
//!
//! PendingLoad
//!   .reads() -> usize             submitted disk reads, each of which completes once with `tag`
//!   .loading() -> &[u32]          pages that this load brings
//!   .elsewhere() -> &[u32]        pages that another load has in progress: read them through `read` later
//!   .complete(&mut self, completion) -> Result<Vec<u32> damaged, BufferError>
//!   .finish(self, completions) -> Result<LoadOutcome { damaged }, BufferError>
//!
//! BufferError::{Damaged { database, page, what }, Disk(DiskError), NoFrames,
//!   OutOfRange { page, pages }, InUse, Dirty, Closed, Memory}
//! ReadCounts { logical, physical, read_ahead }: AtomicU64 each, added to by reads that are given one
//! ```

#![deny(unsafe_op_in_unsafe_fn)]

#[deny(unsafe_code)]
mod clock;
#[deny(unsafe_code)]
mod error;
#[deny(unsafe_code)]
mod extended;
#[deny(unsafe_code)]
mod extension;
#[deny(unsafe_code)]
mod file;
mod frames;
#[deny(unsafe_code)]
mod load;
#[deny(unsafe_code)]
mod load_owner;
#[deny(unsafe_code)]
mod page_waits;
mod parking;
#[deny(unsafe_code)]
mod pool;
#[deny(unsafe_code)]
mod run;
#[deny(unsafe_code)]
mod snapshot;
#[deny(unsafe_code)]
mod state;
#[deny(unsafe_code)]
mod statistics;
#[deny(unsafe_code)]
mod write_back;
#[deny(unsafe_code)]
mod written;

pub use error::BufferError;
pub use extension::ExtensionStatistics;
pub use file::{PoolFile, ReadCounts, ReadOptions, TryRead};
pub use frames::{ExclusiveGuard, Optimistic, PAGE_WORDS, SharedGuard};
pub use load::{LOAD_PAGES_MAX, LoadOutcome, PendingLoad};
pub use load_owner::LoadOwner;
pub use page_waits::{HobtPageWaits, WaitTotal};
pub use pool::{BufferPool, Dirty, PoolFileDescription, PoolSettings};
pub use run::PageRun;
pub use snapshot::StateSnapshot;
pub use statistics::{PageDescriptor, PoolFileStatistics, PoolStatistics};
pub use written::WrittenExtents;
