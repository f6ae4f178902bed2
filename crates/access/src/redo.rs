//! Redo: every change to a page whose own position is older is applied again, in the order of the log.
//!
//! If a page does not pass its checks and its first change since the checkpoint is an image, the page becomes the
//! image.
//!
//! Pages do not depend on each other, so they are divided among workers by their numbers. This thread reads the log and
//! deals the records; each worker decodes and applies what concerns its pages, in order. A short log is redone by this
//! thread alone.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZero;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use hobt_base::{EXTENT_PAGES, FileId, HobtId, Lsn, PageId};
use hobt_buffer::{BufferError, ExclusiveGuard};
use hobt_instruments::planted::{self, Bug};
use hobt_log::{Record, Recovered};
use hobt_page::{PageBytes, PageChange, PageDamage, PageHeader, PageType, RowLayout, apply};

use crate::log_record::{StorageRecord, Undo, kind};
use crate::recovery::{KnownHobt, Progress};
use crate::undo::not_decoded;
use crate::{AccessError, DataFile, Storage};

/// The most workers.
const WORKERS_MAX: usize = 8;
/// Bytes of log from which on there is more than one: below, threads cost more than they save.
const DIVIDED_FROM_BYTES: u64 = 8 << 20;
/// Bytes of records that are dealt at once: 30 images of pages, or a thousand changes of rows.
const BATCH_BYTES: usize = 256 << 10;
/// Batches that wait for a worker. With the one in work and the one that is being dealt, a worker's records take
/// 2.5 MiB, and one record more for each batch.
const WAITING_MAX: usize = 8;

/// What redo has done.
#[derive(Default)]
pub(crate) struct Redone {
    /// Changes that were applied again.
    pub(crate) changes: u64,
    /// Damaged pages that were repaired.
    pub(crate) repaired: u64,
    /// Pages that stayed damaged: their extents may be free in the end.
    pub(crate) broken: BTreeSet<PageId>,
}

/// Redoes the changes of all records. `hobts` has the layouts of their rows.
///
/// # Errors
/// A file cannot be read or written, the log has a malformed record, or a change does not fit its page.
pub(crate) fn redo(
    storage: &Arc<Storage>,
    recovered: &Recovered,
    hobts: &HashMap<HobtId, KnownHobt>,
    progress: &mut Progress<'_>,
) -> Result<Redone, AccessError> {
    let bytes = recovered.end.0 - recovered.start.redo.0;
    let workers = match bytes < DIVIDED_FROM_BYTES {
        true => 1,
        false => std::thread::available_parallelism().map_or(1, NonZero::get).min(WORKERS_MAX),
    };
    redo_by(workers, storage, recovered, hobts, progress)
}

fn redo_by(
    workers: usize,
    storage: &Arc<Storage>,
    recovered: &Recovered,
    hobts: &HashMap<HobtId, KnownHobt>,
    progress: &mut Progress<'_>,
) -> Result<Redone, AccessError> {
    let worker = |number| Worker { storage, hobts, number, workers, redone: Redone::default() };
    if workers == 1 {
        let mut alone = worker(0);
        recovered.for_each(recovered.start.redo, &mut |record| {
            progress.note(record.lsn);
            alone.redo(&record)
        })?;
        return Ok(alone.redone);
    }
    std::thread::scope(|scope| {
        let mut dealer = Dealer::default();
        let mut running = Vec::new();
        for number in 0..workers {
            let (sender, receiver) = sync_channel(WAITING_MAX);
            let worker = worker(number);
            let started =
                std::thread::Builder::new().name("redo".to_owned()).spawn_scoped(scope, || worker.run(receiver));
            let Ok(started) = started else {
                // The system refuses threads. Those that were started end without records.
                drop(dealer);
                return redo_by(1, storage, recovered, hobts, progress);
            };
            running.push(started);
            dealer.hands.push(Hand { sender, batch: Vec::new(), bytes: 0 });
        }
        let dealt = recovered.for_each(recovered.start.redo, &mut |record| {
            progress.note(record.lsn);
            dealer.deal(record)
        });
        let dealt = dealt.and_then(|()| dealer.finish());
        drop(dealer);
        let mut redone = Redone::default();
        let mut failed: Option<(Lsn, AccessError)> = None;
        for worker in running {
            match worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
                Ok(one) => {
                    redone.changes += one.changes;
                    redone.repaired += one.repaired;
                    redone.broken.extend(one.broken);
                }
                // The first one in the log, as without workers.
                Err(error) => failed = failed.into_iter().chain([error]).min_by_key(|(lsn, _)| *lsn),
            }
        }
        // If dealing has ended because a worker had, the error of that worker is the reason.
        match failed {
            Some((_, error)) => Err(error),
            None => dealt.map(|()| redone),
        }
    })
}

/// Makes changes of a record in a page again, in order. `layout` is that of the rows of their HOBT.
pub(crate) fn redo_changes(
    page: &mut PageBytes,
    layout: Option<&RowLayout>,
    changes: &[PageChange],
) -> Result<(), PageDamage> {
    for change in changes {
        let rows = layout.filter(|_| match change {
            PageChange::Format { header } => header.page_type == PageType::Row,
            _ => true,
        });
        change.check(page, rows)?;
        if apply(page, rows, change)?.is_none() {
            return Err(PageDamage::Structure { rule: "a change that had room once and has none now" });
        }
    }
    Ok(())
}

/// Whether the first of these changes determines the page's whole content.
pub(crate) fn stand_alone(changes: &[PageChange]) -> bool {
    matches!(changes.first(), Some(PageChange::Format { .. } | PageChange::Image { .. }))
}

/// The page of a record of [`kind::CHANGE`], without decoding the rest; a page of no file if there is none.
pub(crate) fn page_of_change(record: &Record) -> PageId {
    // The page is behind the flags.
    let bytes = record.payload.get(1..7).and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
    let [file, high, a, b, c, d] = bytes.unwrap_or_default();
    PageId::new(FileId(u16::from_le_bytes([file, high])), u32::from_le_bytes([a, b, c, d]))
}

/// The worker that has a page.
fn worker_of(page: PageId, workers: usize) -> usize {
    // Neighbouring pages have different workers: rows that are inserted in order change one page after the other.
    (page.number as usize).wrapping_add(page.file.0.into()) % workers
}

/// Records for one worker, in order.
type Batch = Vec<Arc<Record>>;

/// Deals records to the workers.
#[derive(Default)]
struct Dealer {
    /// One for each worker.
    hands: Vec<Hand>,
}

/// Where the records of a worker go, and those that are to go next.
struct Hand {
    sender: SyncSender<Batch>,
    batch: Batch,
    /// Of the batch.
    bytes: usize,
}

impl Dealer {
    fn deal(&mut self, record: Record) -> Result<(), AccessError> {
        let workers = self.hands.len();
        match record.kind {
            kind::CHANGE => {
                let page = page_of_change(&record);
                self.give(worker_of(page, workers), Arc::new(record))
            }
            // Its pages may have several workers.
            kind::TOGETHER => {
                let record = Arc::new(record);
                (0..workers).try_for_each(|worker| self.give(worker, Arc::clone(&record)))
            }
            _ => Ok(()),
        }
    }

    fn give(&mut self, worker: usize, record: Arc<Record>) -> Result<(), AccessError> {
        let hand = &mut self.hands[worker];
        hand.bytes += size_of::<Record>() + record.payload.len();
        hand.batch.push(record);
        if hand.bytes < BATCH_BYTES { Ok(()) } else { hand.send() }
    }

    fn finish(&mut self) -> Result<(), AccessError> {
        self.hands.iter_mut().try_for_each(Hand::send)
    }
}

impl Hand {
    fn send(&mut self) -> Result<(), AccessError> {
        self.bytes = 0;
        let sent = self.sender.send(std::mem::take(&mut self.batch));
        sent.map_err(|_| AccessError::LogFailed("redo has ended".to_owned()))
    }
}

/// Redoes what concerns the pages of one worker.
struct Worker<'a> {
    storage: &'a Arc<Storage>,
    hobts: &'a HashMap<HobtId, KnownHobt>,
    number: usize,
    /// How many there are.
    workers: usize,
    redone: Redone,
}

impl Worker<'_> {
    fn run(mut self, receiver: Receiver<Batch>) -> Result<Redone, (Lsn, AccessError)> {
        for record in receiver.into_iter().flatten() {
            self.redo(&record).map_err(|error| (record.lsn, error))?;
        }
        Ok(self.redone)
    }

    fn redo(&mut self, record: &Record) -> Result<(), AccessError> {
        let decoded = StorageRecord::decode(record.kind, &record.payload);
        match decoded.map_err(|damage| not_decoded(record, damage))? {
            Some(StorageRecord::Change(change)) => {
                if let Some(Undo::FreeRun { first, extents }) = change.undo
                    && let Ok(file) = self.storage.file(first.file)
                {
                    // A load may have filled it past the log.
                    let in_file = file.size_pages().saturating_sub(first.number);
                    file.pool_file().written().note(first.number, extents.saturating_mul(EXTENT_PAGES).min(in_file));
                }
                self.redo_page(record, change.page, change.hobt, std::slice::from_ref(&change.change))
            }
            Some(StorageRecord::Together { hobt, parts }) => {
                let (number, workers) = (self.number, self.workers);
                let own = parts.iter().filter(|(page, _)| worker_of(*page, workers) == number);
                own.into_iter().try_for_each(|(page, changes)| self.redo_page(record, *page, hobt, changes))
            }
            _ => Ok(()),
        }
    }

    /// Redoes the changes of a record in one page, in order.
    fn redo_page(
        &mut self,
        record: &Record,
        id: PageId,
        hobt: HobtId,
        changes: &[PageChange],
    ) -> Result<(), AccessError> {
        // A file that was removed from the database since has no pages to redo.
        let Ok(file) = self.storage.file(id.file) else { return Ok(()) };
        if id.number >= file.size_pages() {
            return Err(self.storage.damaged(id, PageDamage::Structure { rule: "a page behind the end of its file" }));
        }
        // It may have been written before the crash: whether it was is not known any more.
        file.pool_file().written().note(id.number, 1);
        let stands_alone = stand_alone(changes);
        let Some(mut page) = self.page_to_redo(&file, id, stands_alone)? else { return Ok(()) };
        if PageHeader::lsn_of(&page) >= record.lsn || (planted::has(Bug::NoRedo) && !stands_alone) {
            return Ok(());
        }
        let layout = self.hobts.get(&hobt).map(|hobt| &*hobt.rows);
        redo_changes(&mut page, layout, changes).map_err(|damage| self.storage.damaged(id, damage))?;
        PageHeader::stamp_lsn(&mut page, record.lsn);
        self.redone.changes += 1;
        Ok(())
    }

    /// The page as it is on disk; `None` if it is damaged and this record does not determine its content.
    fn page_to_redo<'f>(
        &mut self,
        file: &'f DataFile,
        id: PageId,
        stands_alone: bool,
    ) -> Result<Option<ExclusiveGuard<'f>>, AccessError> {
        match file.pool_file().write(id.number) {
            Ok(page) => return Ok(Some(page)),
            Err(BufferError::Damaged { .. }) => {}
            Err(error) => return Err(AccessError::of_pool(error, file.name())),
        }
        if !stands_alone {
            self.redone.broken.insert(id);
            return Ok(None);
        }
        self.redone.broken.remove(&id);
        self.redone.repaired += 1;
        file.pool_file().create(id.number).map(Some).map_err(|error| AccessError::of_pool(error, file.name()))
    }
}
