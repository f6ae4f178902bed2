//! Copies pages and log into a backup set.
//!
//! A page may be written while it is copied. What was read is checked, and read again if it is torn; if it stays so, it
//! is taken from the pool. What changes after it was copied is in the log that is copied last, as for a page that a
//! crash has left on disk.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use hobt_access::DataFile;
use hobt_backup::{BlockBuffer, BlockKind, Content, PAYLOAD_BYTES_MAX, SetWriter};
use hobt_base::{EXTENT_PAGES, Lsn, PAGE_SIZE, PageId, SqlError, errors};
use hobt_instruments::processor::lower_thread_priority;
use hobt_instruments::schedule::Mutex;
use hobt_instruments::{Wait, WaitType};
use hobt_log::{Log, LogReader, Record};
use hobt_page::{PageBytes, seal, verify};

use super::beside::SharedDevices;
use super::error::of_write;
use crate::error::{EngineError, Result};
use crate::instance::workers::{Others, work_together};

/// Extents that are read at once.
const PIECE_EXTENTS: u32 = 16;
const _: () = assert!(PIECE_EXTENTS as usize * EXTENT_PAGES as usize * PAGE_SIZE <= PAYLOAD_BYTES_MAX);
/// How often a page that is torn is read again: it is being written, which takes no longer than a few reads.
const READS_MAX: usize = 8;

/// Pages of one file that are copied at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// The place of the file.
    file: usize,
    first: u32,
    pages: u32,
}

impl Piece {
    /// Bytes of its pages.
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.pages) * PAGE_SIZE as u64
    }
}

/// Cuts runs of extents of a file into pieces.
pub(super) fn pieces_of(file: usize, runs: &[(u32, u32)]) -> impl Iterator<Item = Piece> {
    runs.iter().flat_map(move |(first, count)| {
        let (first, end) = (*first, first + count);
        (first..end).step_by(PIECE_EXTENTS as usize).map(move |from| {
            let extents = PIECE_EXTENTS.min(end - from);
            Piece { file, first: from * EXTENT_PAGES, pages: extents * EXTENT_PAGES }
        })
    })
}

/// Told how many bytes are copied, of how many.
pub type ObserveBackup<'a> = &'a dyn Fn(u64, u64) -> std::result::Result<(), SqlError>;

/// A backup set that pages are copied into.
pub(super) struct Copying<'a> {
    pub(super) set: &'a SetWriter,
    pub(super) files: &'a [Arc<DataFile>],
    pub(super) database: &'a str,
    pub(super) database_tag: u32,
    /// A damaged page ends the backup: `CHECKSUM` without `CONTINUE_AFTER_ERROR`.
    pub(super) refuses_damage: bool,
    /// How many threads copy.
    pub(super) workers: usize,
    /// Whether they compress what they copy.
    pub(super) compresses: bool,
    pub(super) observe: ObserveBackup<'a>,
    /// Bytes copied so far, and in all.
    pub(super) done: AtomicU64,
    pub(super) all: AtomicU64,
    /// For each file the pages in the backup.
    pub(super) saved: Vec<AtomicU64>,
    pub(super) damaged: Mutex<BTreeSet<(usize, u32)>>,
}

impl Copying<'_> {
    /// Copies pieces, in any order. This thread reports the progress, and is one of the workers. Workers that compress
    /// have a lower priority than sessions: then this thread, which could not raise its own again, waits for them.
    pub(super) fn copy(&self, pass: u32, pieces: &[Piece]) -> Result<()> {
        let to = self.set.files();
        let devices = self.files.iter().map(|file| file.disk()).chain(&to);
        let is_over = AtomicBool::new(false);
        let worker = Worker {
            devices: SharedDevices::of(devices.map(|file| file.statistics().device())),
            set: self.set,
            files: self.files,
            database: self.database,
            tag: self.database_tag,
            refuses: self.refuses_damage,
            pass,
            pieces,
            next: AtomicUsize::new(0),
            is_over: &is_over,
            done: &self.done,
            saved: &self.saved,
            damaged: &self.damaged,
        };
        let compresses = self.compresses;
        // The number of the first other thread.
        let first = usize::from(!compresses || self.workers == 1);
        let others = first..self.workers.min(first + pieces.len());
        let work = |thread| {
            if compresses {
                lower_thread_priority();
            }
            worker.run(thread, &mut || Ok(()))
        };
        let own = |others: &Others| match compresses && others.count > 0 {
            true => others.wait(WaitType::BackupThread, &mut || self.report()),
            false => worker.run(0, &mut || self.report()),
        };
        work_together(("backup", others), &is_over, work, own)
    }

    /// Tells the observer how far it is.
    pub(super) fn report(&self) -> Result<()> {
        let (done, all) = (self.done.load(Ordering::Relaxed), self.all.load(Ordering::Relaxed));
        (self.observe)(done.min(all), all).map_err(EngineError::Statement)
    }

    /// Copies the log from `from` to `until`, which must be durable and kept. Shows each record to `visit`.
    pub(super) fn copy_log(&self, log: &Arc<Log>, from: Lsn, until: Lsn, visit: &mut dyn FnMut(&Record)) -> Result<()> {
        let mut reader = LogReader::forwards(log);
        let mut buffer = BlockBuffer::new().map_err(of_write)?;
        let (mut first, mut filled) = (from, 0);
        let mut at = from;
        while at < until {
            let bytes = reader.bytes_from(at)?;
            let wanted = bytes.len().min(usize::try_from(until.0 - at.0).unwrap_or(usize::MAX));
            if filled + wanted > PAYLOAD_BYTES_MAX {
                self.put_log(&mut buffer, first, filled)?;
                (first, filled) = (at, 0);
            }
            buffer.payload_mut(filled + wanted)[filled..].copy_from_slice(&bytes[..wanted]);
            let seen = hobt_log::for_each_saved(&bytes[..wanted], at, &mut |record| {
                visit(record);
                true
            });
            seen.map_err(|lsn| {
                EngineError::from(hobt_access::AccessError::LogFailed(format!("there is no record at {lsn}")))
            })?;
            filled += wanted;
            at = Lsn(at.0 + wanted as u64);
        }
        if filled > 0 {
            self.put_log(&mut buffer, first, filled)?;
        }
        Ok(())
    }

    fn put_log(&self, buffer: &mut BlockBuffer, first: Lsn, bytes: usize) -> Result<()> {
        let content = Content { file: 0, pass: 0, first: first.0, count: bytes as u64 };
        let packed = self.set.pack(buffer, bytes).map_err(of_write)?;
        self.set.put(BlockKind::Log, content, packed).map_err(of_write)?;
        self.done.fetch_add(bytes as u64, Ordering::Relaxed);
        self.report()
    }
}

/// What a thread that copies needs.
struct Worker<'a> {
    devices: SharedDevices,
    set: &'a SetWriter,
    files: &'a [Arc<DataFile>],
    database: &'a str,
    tag: u32,
    refuses: bool,
    pass: u32,
    pieces: &'a [Piece],
    /// The next piece.
    next: AtomicUsize,
    /// No further piece is begun.
    is_over: &'a AtomicBool,
    done: &'a AtomicU64,
    saved: &'a [AtomicU64],
    damaged: &'a Mutex<BTreeSet<(usize, u32)>>,
}

impl Worker<'_> {
    /// Copies pieces as the thread of this number.
    fn run(&self, thread: usize, report: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let mut buffer = BlockBuffer::new().map_err(of_write)?;
        loop {
            self.devices.step_back(thread, self.is_over);
            if self.is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            let Some(piece) = self.pieces.get(self.next.fetch_add(1, Ordering::Relaxed)) else { return Ok(()) };
            self.copy_piece(piece, &mut buffer)?;
            self.done.fetch_add(piece.bytes(), Ordering::Relaxed);
            self.saved[piece.file].fetch_add(piece.pages.into(), Ordering::Relaxed);
            report()?;
        }
    }

    fn copy_piece(&self, piece: &Piece, buffer: &mut BlockBuffer) -> Result<()> {
        let file = &self.files[piece.file];
        let bytes = piece.pages as usize * PAGE_SIZE;
        let payload = buffer.payload_mut(bytes);
        let offset = PageId::new(file.id(), piece.first).byte_offset();
        let (wait, transfer) = (Wait::begin(WaitType::BackupIo), self.devices.transfer());
        file.disk().read_at(payload, offset)?;
        drop((wait, transfer));
        for (page, number) in payload.as_chunks_mut::<PAGE_SIZE>().0.iter_mut().zip(piece.first..) {
            let id = PageId::new(file.id(), number);
            if verify(page, id, self.tag).is_err() && !self.read_again(file, page, id)? {
                if self.refuses {
                    let (database, path) = (self.database, file.path().display());
                    return Err(EngineError::Statement(errors::BACKUP_PAGE_DAMAGED.with([&database, &id, &path])));
                }
                self.damaged.lock().insert((piece.file, number));
            }
        }
        let content =
            Content { file: file.id().0, pass: self.pass, first: piece.first.into(), count: piece.pages.into() };
        let packed = self.set.pack(buffer, bytes).map_err(of_write)?;
        let _transfer = self.devices.transfer();
        self.set.put(BlockKind::Data, content, packed).map_err(of_write)
    }

    /// Reads a page that was torn. Returns whether it is whole now.
    fn read_again(&self, file: &DataFile, page: &mut PageBytes, id: PageId) -> Result<bool> {
        let mut sector = hobt_disk::AlignedBuffer::new(PAGE_SIZE)?;
        for _ in 0..READS_MAX {
            file.disk().read_at(&mut sector, id.byte_offset())?;
            page.copy_from_slice(&sector);
            if verify(page, id, self.tag).is_ok() {
                return Ok(true);
            }
        }
        // The pool has it, or finds the same.
        let Ok(held) = file.pool_file().read(id.number) else { return Ok(false) };
        page.copy_from_slice(&held[..]);
        drop(held);
        seal(page);
        Ok(verify(page, id, self.tag).is_ok())
    }
}
