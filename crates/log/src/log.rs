//! Appending, flushing, freeing.
//!
//! Who may touch what: anybody appends (the ring is made of atomics). Whoever holds `writer` takes records out of the
//! ring and writes blocks; `durable`, `failed` and what is free change under it alone, or grow. `segments` is held for
//! moments and for the durable write of a file's header, never while a file is filled. Order of locks: `checkpointing`,
//! `writer`, `growing`, `segments`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use hobt_base::Lsn;
use hobt_disk::{AlignedBuffer, DiskFile};
use hobt_sync::{Wait, WaitType};
use parking_lot::Mutex;

use crate::block::{BLOCK_BYTES_MAX, BLOCK_HEADER_BYTES, BLOCK_UNIT, BlockHeader, block_bytes, seal};
use crate::record::{NewRecord, PAYLOAD_BYTES_MAX, record_bytes};
use crate::ring::{EpochNumber, Place, Ring};
use crate::segments::{Segments, create_file};
use crate::truncation::NO_BACKUP;
use crate::waiters::Waiters;
use crate::{LSN_FIRST, LogError, LogFile, SEGMENT_BYTES_MIN};

/// The smallest ring: it must take the longest record, and a block beside it.
const RING_BYTES_MIN: usize = 1 << 20;

/// The time between the beginnings of two checkpoints, as a writer sees it before it appends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Epoch {
    pub(crate) number: EpochNumber,
    /// Where the last checkpoint began. A page whose last change lies before it needs an image at its next.
    pub begin: Lsn,
}

/// Where a record came to lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Appended {
    /// Its position.
    pub lsn: Lsn,
    /// The position behind it.
    pub end: Lsn,
}

/// Why a record was not appended.
#[derive(Debug)]
pub enum AppendError {
    /// A checkpoint has begun since the epoch was looked at. Look again at what the record must hold, and append that.
    EpochChanged,
    /// The log has failed.
    Failed(LogError),
}

/// What a log has done since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LogStatistics {
    /// Blocks written, each of them one flush.
    pub flushes: u64,
    /// Bytes of these blocks.
    pub flushed_bytes: u64,
    /// Bytes of the records in them.
    pub record_bytes: u64,
    /// Appends that waited for room in the ring.
    pub ring_waits: u64,
}

/// A segment as `DBCC LOGINFO` lists it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentRow {
    /// Its file's id.
    pub file: u16,
    /// Its first byte in the file.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// Its place in the order of segments; `None` if it is free.
    pub sequence: Option<u64>,
    /// The position of its first record; `None` if it is free.
    pub first: Option<Lsn>,
}

/// Bytes of the log that a transaction may still need: for what it is about to append, and for undoing what it has
/// appended. It belongs to one log, which it is given back to by [`Log::release`].
#[derive(Debug, Default)]
pub struct Reservation {
    bytes: AtomicU64,
}

impl Reservation {
    /// How many bytes are reserved.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Takes up to so many bytes out; how many it had.
    fn take(&self, bytes: u64) -> u64 {
        let take = |had: u64| Some(had - bytes.min(had));
        let had = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        had.map_or(0, |had| bytes.min(had))
    }
}

/// Bits of a life's number that count the openings of a log; above them is which log in this place it is.
const LIVES_BITS: u32 = 32;

/// What the thread that flushes works with.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) log: u64,
    pub(crate) life: u64,
    /// None before the first block.
    pub(crate) segment: Option<Filling>,
    /// The number of the next block.
    pub(crate) number: u64,
    pub(crate) previous_checksum: u32,
    pub(crate) buffer: AlignedBuffer,
}

/// The segment that is being filled.
pub(crate) struct Filling {
    disk: Arc<dyn DiskFile>,
    sequence: u64,
    offset: u64,
    bytes: u64,
    used: u64,
}

impl std::fmt::Debug for Filling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Filling").field("sequence", &self.sequence).field("used", &self.used).finish_non_exhaustive()
    }
}

/// The log of one database.
pub struct Log {
    id: u64,
    life: u64,
    ring: Ring,
    /// Where the last checkpoint began, with its epoch, as the ring's tail has them.
    begin: AtomicU64,
    checkpointing: Mutex<()>,
    pub(crate) growing: Mutex<()>,
    writer: Mutex<Writer>,
    pub(crate) segments: Mutex<Segments>,
    /// From where on backups need the log.
    pub(crate) backup: AtomicU64,
    waiters: Waiters,
    durable: AtomicU64,
    /// Bytes of the log's files that hold nothing needed: free segments, and the rest of the one that is being filled.
    pub(crate) free_bytes: AtomicU64,
    /// Bytes of all reservations.
    reserved_bytes: AtomicU64,
    /// Bytes of the largest segment: so many are left for recovery, which begins a segment of its own.
    pub(crate) recovery_bytes: AtomicU64,
    failed: OnceLock<String>,
    flushes: AtomicU64,
    flushed_bytes: AtomicU64,
    record_bytes: AtomicU64,
    ring_waits: AtomicU64,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("end", &self.end()).field("durable", &self.durable()).finish_non_exhaustive()
    }
}

impl Log {
    /// Makes a new log over whatever is in the files. `id` names it: no two logs of one machine should have the same.
    /// `ring_bytes` is how much may be appended and not flushed, a power of two of at least a mebibyte.
    ///
    /// # Errors
    /// A file cannot be written.
    ///
    /// # Panics
    /// When there is no file, or the ring is smaller.
    pub fn create(files: &[LogFile], id: u64, ring_bytes: usize) -> Result<Log, LogError> {
        Log::create_at(LSN_FIRST, 0, files, id, ring_bytes)
    }

    /// The same for a log whose first record is to be at `start`, a multiple of 8: where another ended that is gone, so
    /// that what has positions of that one is older than all in this. `making` is a number that no log before had in
    /// this place, 0 for the first: so nobody takes a life of this log for one of those ([`Log::has_lived`]).
    ///
    /// # Errors
    /// As [`Log::create`].
    ///
    /// # Panics
    /// As [`Log::create`], and when `start` is no such position.
    pub fn create_at(start: Lsn, making: u32, files: &[LogFile], id: u64, ring_bytes: usize) -> Result<Log, LogError> {
        let life = u64::from(making) << LIVES_BITS;
        assert!(start >= LSN_FIRST && start.0.is_multiple_of(8), "a log begins at {start}");
        assert!(!files.is_empty(), "a log has a file");
        let count = u32::try_from(files.len()).expect("fewer files than ids");
        let open: Result<Vec<_>, LogError> =
            (0..).zip(files).map(|(place, file)| create_file(file, (id, life), (place, count), start)).collect();
        let writer = Writer {
            log: id,
            life,
            segment: None,
            number: 1,
            previous_checksum: 0,
            buffer: AlignedBuffer::new(BLOCK_BYTES_MAX)?,
        };
        Ok(Log::start(Segments::new(open?), writer, start, start, ring_bytes))
    }

    pub(crate) fn start(segments: Segments, writer: Writer, begin: Lsn, end: Lsn, ring_bytes: usize) -> Log {
        assert!(ring_bytes >= RING_BYTES_MIN, "a ring of {ring_bytes} bytes");
        let ring = Ring::new(ring_bytes, end.0);
        Log {
            id: writer.log,
            life: writer.life,
            begin: AtomicU64::new(Ring::packed(ring.epoch(), begin.0)),
            ring,
            checkpointing: Mutex::default(),
            growing: Mutex::default(),
            writer: Mutex::new(writer),
            recovery_bytes: AtomicU64::new(segments.largest_bytes()),
            free_bytes: AtomicU64::new(segments.free_bytes()),
            segments: Mutex::new(segments),
            backup: AtomicU64::new(NO_BACKUP),
            waiters: Waiters::default(),
            durable: AtomicU64::new(end.0),
            reserved_bytes: AtomicU64::new(0),
            failed: OnceLock::new(),
            flushes: AtomicU64::new(0),
            flushed_bytes: AtomicU64::new(0),
            record_bytes: AtomicU64::new(0),
            ring_waits: AtomicU64::new(0),
        }
    }

    /// Which log it is, as [`Log::create`] was told.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether a life is one of this log, and not of one that was in its place before and is gone.
    pub fn has_lived(&self, life: u64) -> bool {
        life >> LIVES_BITS == self.life >> LIVES_BITS
    }

    /// Which life of the log it is: one more at each opening.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// The epoch that an append is about to be made in.
    pub fn epoch(&self) -> Epoch {
        let (number, begin) = Ring::unpacked(self.begin.load(Ordering::Acquire));
        Epoch { number, begin: Lsn(begin) }
    }

    /// Appends a record, which is not durable yet, and takes its bytes from the reservation. Blocks while the ring is
    /// full (`LOGBUFFER`).
    ///
    /// # Errors
    /// A checkpoint has begun since `epoch` was looked at, or the log has failed.
    ///
    /// # Panics
    /// When the payload is longer than [`PAYLOAD_BYTES_MAX`] or the kind is 0.
    pub fn append(
        &self,
        epoch: Epoch,
        record: &NewRecord<'_>,
        reservation: &Reservation,
    ) -> Result<Appended, AppendError> {
        check_record(record);
        self.check().map_err(AppendError::Failed)?;
        let (place, number) = self.ring.take(record_bytes(record.payload.len()));
        let is_current = number == epoch.number;
        self.put(place, record, is_current).map_err(AppendError::Failed)?;
        if is_current { Ok(self.appended(place, reservation)) } else { Err(AppendError::EpochChanged) }
    }

    /// Appends a record that is the same in every epoch: one that changes no page.
    ///
    /// # Errors
    /// The log has failed.
    ///
    /// # Panics
    /// As [`Log::append`].
    pub fn append_always(&self, record: &NewRecord<'_>, reservation: &Reservation) -> Result<Appended, LogError> {
        check_record(record);
        self.check()?;
        let (place, _) = self.ring.take(record_bytes(record.payload.len()));
        self.put(place, record, true)?;
        Ok(self.appended(place, reservation))
    }

    /// Appends the first record of a new epoch: the beginning of a checkpoint. Every record behind it is appended by
    /// somebody who knows of it.
    ///
    /// # Errors
    /// The log has failed.
    ///
    /// # Panics
    /// As [`Log::append`].
    pub fn begin_epoch(&self, record: &NewRecord<'_>) -> Result<Appended, LogError> {
        check_record(record);
        let _alone = self.checkpointing.lock();
        self.check()?;
        let (place, number) = self.ring.take_in_next_epoch(record_bytes(record.payload.len()));
        // Who appends in between is told that its epoch is over, and looks again until it is told of this one.
        self.begin.store(Ring::packed(number, place.start), Ordering::Release);
        self.put(place, record, true)?;
        Ok(self.appended(place, &Reservation::default()))
    }

    /// Takes a record that has come to its place from the reservation.
    fn appended(&self, place: Place, reservation: &Reservation) -> Appended {
        self.reserved_bytes.fetch_sub(reservation.take(place.end - place.start), Ordering::Relaxed);
        Appended { lsn: Lsn(place.start), end: Lsn(place.end) }
    }

    fn put(&self, place: Place, record: &NewRecord<'_>, wanted: bool) -> Result<(), LogError> {
        let mut copied = self.ring.copied();
        if !self.ring.has_room(place, copied) {
            self.ring_waits.fetch_add(1, Ordering::Relaxed);
            let _wait = Wait::begin_working(WaitType::LogBuffer);
            // What lies before is published, or is by somebody who waits here too and comes first. Whoever moves
            // `copied` on makes what lies before it durable.
            while !self.ring.has_room(place, copied) {
                // The place is taken: if nothing comes there, nothing behind it can be written.
                self.flush_or_wait(Lsn(copied)).inspect_err(|error| self.fail(error))?;
                copied = self.ring.copied();
            }
        }
        if wanted {
            self.ring.publish(place, record)
        } else {
            self.ring.publish_nothing(place)
        }
        Ok(())
    }

    /// Returns when the record at `lsn` is durable, and all before it. Blocks (`WRITELOG`).
    ///
    /// # Errors
    /// There is no record at `lsn` yet; the log fails or has failed before; it is full, which does not end it: once
    /// there is room it can be tried again.
    pub fn flush_past(&self, lsn: Lsn) -> Result<(), LogError> {
        if self.durable() > lsn {
            return Ok(());
        }
        let end = self.end();
        if lsn >= end {
            return Err(LogError::NotThere { lsn, end });
        }
        let _wait = Wait::begin_working(WaitType::WriteLog);
        while self.durable() <= lsn {
            self.flush_or_wait(lsn)?;
        }
        Ok(())
    }

    /// Writes a block if nobody else does; waits otherwise, until `lsn` is durable or there is a block to write.
    fn flush_or_wait(&self, lsn: Lsn) -> Result<(), LogError> {
        let Some(mut writer) = self.writer.try_lock() else {
            let must_wait = || self.durable() <= lsn && self.failed.get().is_none() && self.writer.is_locked();
            self.waiters.wait(lsn.0, must_wait);
            return self.check();
        };
        // Under the lock: whoever had it before may have failed, and nothing may be written behind a block that is
        // missing.
        let written = self.check().and_then(|()| self.write_block(&mut writer));
        if let Err(error) = &written
            && !matches!(error, LogError::Full { .. } | LogError::Failed { .. })
        {
            self.failed.get_or_init(|| error.to_string());
        }
        drop(writer);
        match &written {
            Ok(_) => self.waiters.wake(self.durable().0),
            Err(_) => self.waiters.wake_all(),
        }
        if matches!(written, Ok(false)) {
            // The next record has its place and is being copied.
            std::thread::yield_now();
        }
        written.map(drop)
    }

    /// Writes what is published, as much as one block takes; `false` if there is nothing.
    fn write_block(&self, writer: &mut Writer) -> Result<bool, LogError> {
        let first = self.ring.copied();
        let mut bytes = 0;
        if let Some(filling) = &writer.segment {
            let room = usize::try_from(filling.bytes - filling.used).unwrap_or(usize::MAX);
            if room >= BLOCK_UNIT {
                let target = BLOCK_HEADER_BYTES..room.min(BLOCK_BYTES_MAX);
                bytes = self.ring.copy_out(&mut writer.buffer[target]);
            }
        }
        if bytes == 0 {
            if !self.ring.has_published() {
                return Ok(false);
            }
            // The record in front does not fit what is left of the segment.
            self.next_segment(writer, Lsn(first))?;
            bytes = self.ring.copy_out(&mut writer.buffer[BLOCK_HEADER_BYTES..]);
        }
        let filling = writer.segment.as_mut().expect("begun above");
        let header = BlockHeader {
            log: writer.log,
            life: writer.life,
            segment: filling.sequence,
            number: writer.number,
            first: Lsn(first),
            record_bytes: u32::try_from(bytes).expect("at most BLOCK_BYTES_MAX"),
            previous_checksum: writer.previous_checksum,
        };
        let length = block_bytes(bytes);
        let block = &mut writer.buffer[..length];
        let checksum = seal(block, &header);
        filling.disk.write_durable_at(block, filling.offset + filling.used)?;
        writer.previous_checksum = checksum;
        writer.number += 1;
        filling.used += length as u64;
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.flushed_bytes.fetch_add(length as u64, Ordering::Relaxed);
        self.record_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        // What is free falls first: between the two the block counts twice, and not nowhere.
        self.free_bytes.fetch_sub(length as u64, Ordering::Relaxed);
        self.durable.store(first + bytes as u64, Ordering::Release);
        Ok(true)
    }

    fn next_segment(&self, writer: &mut Writer, first: Lsn) -> Result<(), LogError> {
        let begun = loop {
            let mut segments = self.segments.lock();
            self.check()?;
            if let Some((segment, sequence)) = segments.begin(first) {
                let disk = Arc::clone(&segments.files[segment.file].disk);
                break Filling { disk, sequence, offset: segment.offset, bytes: segment.bytes, used: 0 };
            }
            drop(segments);
            self.grow()?;
        };
        if let Some(left) = writer.segment.replace(begun) {
            self.free_bytes.fetch_sub(left.bytes - left.used, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Grows one of the files by its own step. Blocks for as long as it takes to fill that with zeros.
    ///
    /// # Errors
    /// No file may grow or the device has no room ([`LogError::Full`]), or the device fails, and the log with it.
    fn grow(&self) -> Result<(), LogError> {
        let free = self.free_bytes();
        let _alone = self.growing.lock();
        if self.free_bytes() > free {
            // Somebody else has just grown it.
            return Ok(());
        }
        let mut reason = "its files may not grow: add a log file, or let them grow";
        let growths = self.segments.lock().growth();
        for growth in growths {
            match growth.make() {
                Ok(()) => {
                    let mut segments = self.segments.lock();
                    self.check()?;
                    let before = segments.free_bytes();
                    segments.take_growth(&growth).inspect_err(|error| self.fail(error))?;
                    self.recovery_bytes.store(segments.largest_bytes(), Ordering::Relaxed);
                    self.free_bytes.fetch_add(segments.free_bytes() - before, Ordering::Relaxed);
                    return Ok(());
                }
                Err(LogError::Disk(hobt_disk::DiskError::NoSpace { .. })) => {
                    reason = "the disk of its files has no room left";
                }
                Err(error) => {
                    self.fail(&error);
                    return Err(error);
                }
            }
        }
        Err(LogError::Full { wait: self.truncation_wait(None), reason })
    }

    /// Makes sure that `bytes` more of records can be appended and flushed, whatever others do meanwhile: those that
    /// are about to be appended, and those that would undo them. Grows the log if it must.
    ///
    /// # Errors
    /// [`LogError::Full`], or the log has failed.
    pub fn reserve(&self, reservation: &Reservation, bytes: u64) -> Result<(), LogError> {
        self.check()?;
        self.reserved_bytes.fetch_add(bytes, Ordering::Relaxed);
        while !self.has_room() {
            if let Err(error) = self.grow() {
                self.reserved_bytes.fetch_sub(bytes, Ordering::Relaxed);
                return Err(error);
            }
        }
        reservation.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Whether what is reserved finds room. What is in the ring is not on the disk yet.
    pub(crate) fn has_room(&self) -> bool {
        // The ends of segments that no record fits any more, and the padding of flushes that bring little.
        const SLACK: u64 = SEGMENT_BYTES_MIN;
        // In this order: the end of the log is never before what was durable a moment ago.
        let durable = self.durable().0;
        let unwritten = self.ring.end() - durable;
        let reserved = self.reserved_bytes.load(Ordering::Relaxed);
        // Blocks have headers and padding; a quarter more is what they cost when they are not very short.
        let needed = (reserved + unwritten) / 4 * 5 + SLACK + self.recovery_bytes.load(Ordering::Relaxed);
        self.free_bytes.load(Ordering::Relaxed) >= needed
    }

    /// Moves up to `bytes` of what one reservation has left to another; how many those were. What is reserved in all
    /// stays.
    pub fn move_reserved(&self, from: &Reservation, to: &Reservation, bytes: u64) -> u64 {
        let moved = from.take(bytes);
        to.bytes.fetch_add(moved, Ordering::Relaxed);
        moved
    }

    /// Gives back what is left of a reservation: the transaction has ended.
    pub fn release(&self, reservation: &Reservation) {
        let left = reservation.bytes.swap(0, Ordering::Relaxed);
        self.reserved_bytes.fetch_sub(left, Ordering::Relaxed);
    }

    /// Says, durably, where recovery is to begin from now on, and that it needs no record before `keep`: segments all
    /// of whose records lie before that are free.
    ///
    /// # Errors
    /// The header of the first file cannot be written.
    ///
    /// # Panics
    /// When `keep` is behind `redo_start`, or that is not durable yet: the log could not be opened any more.
    pub fn set_redo_start(&self, redo_start: Lsn, keep: Lsn) -> Result<(), LogError> {
        assert!(keep <= redo_start && redo_start < self.durable(), "recovery reads from {redo_start} on");
        self.set_recovery_start(redo_start, keep)
    }

    pub(crate) fn set_recovery_start(&self, redo_start: Lsn, keep: Lsn) -> Result<(), LogError> {
        let mut segments = self.segments.lock();
        self.check()?;
        let first = &mut segments.files[0];
        let retain = self.needed_by_backup().max(first.header.retain).min(keep);
        (first.header.redo_start, first.header.keep, first.header.retain) = (redo_start, keep, retain);
        let disk = Arc::clone(&first.disk);
        first.header.write(&*disk).inspect_err(|error| self.fail(error))?;
        let before = segments.free_bytes();
        segments.free_before(retain);
        self.free_bytes.fetch_add(segments.free_bytes() - before, Ordering::Relaxed);
        Ok(())
    }

    /// The log takes nothing more; who waits hears of it.
    pub(crate) fn fail(&self, error: &LogError) {
        self.failed.get_or_init(|| error.to_string());
        self.waiters.wake_all();
    }

    /// Ends the log's life as a failure does, for a reason that lies elsewhere: it takes nothing more until it is
    /// opened again.
    pub fn end_life(&self, reason: &str) {
        self.failed.get_or_init(|| reason.to_owned());
        self.waiters.wake_all();
    }

    /// Lets go of its files: it takes nothing more, and what is not durable yet is lost.
    pub fn close(&self) {
        self.failed.get_or_init(|| "it was closed".to_owned());
        self.waiters.wake_all();
        self.writer.lock().segment = None;
        self.segments.lock().close();
    }

    /// The position behind the last record.
    pub fn end(&self) -> Lsn {
        Lsn(self.ring.end())
    }

    /// The position up to which everything is durable.
    pub fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// Bytes of the log's files.
    pub fn file_bytes(&self) -> u64 {
        self.segments.lock().files.iter().map(|file| file.header.file_bytes()).sum()
    }

    /// Where recovery begins to redo, and the first position that the log keeps, which an open transaction may need.
    /// `None` for a log that was closed.
    pub fn recovery_start(&self) -> Option<(Lsn, Lsn)> {
        let segments = self.segments.lock();
        segments.files.first().map(|first| (first.header.redo_start, first.header.keep))
    }

    /// Bytes that transactions have reserved and not used yet.
    pub fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of them that hold nothing needed.
    pub fn free_bytes(&self) -> u64 {
        self.free_bytes.load(Ordering::Relaxed)
    }

    /// What it has done.
    pub fn statistics(&self) -> LogStatistics {
        LogStatistics {
            flushes: self.flushes.load(Ordering::Relaxed),
            flushed_bytes: self.flushed_bytes.load(Ordering::Relaxed),
            record_bytes: self.record_bytes.load(Ordering::Relaxed),
            ring_waits: self.ring_waits.load(Ordering::Relaxed),
        }
    }

    /// Its segments, in the order of files and places.
    pub fn segments(&self) -> Vec<SegmentRow> {
        let segments = self.segments.lock();
        let row = |one: &crate::segments::Segment| SegmentRow {
            file: segments.files[one.file].header.id,
            offset: one.offset,
            bytes: one.bytes,
            sequence: one.contents.map(|contents| contents.sequence),
            first: one.contents.map(|contents| contents.first),
        };
        segments.all.iter().map(row).collect()
    }

    /// Whether it takes records still.
    ///
    /// # Errors
    /// It has failed.
    pub fn check(&self) -> Result<(), LogError> {
        match self.failed.get() {
            Some(reason) => Err(LogError::Failed { reason: reason.clone() }),
            None => Ok(()),
        }
    }
}

fn check_record(record: &NewRecord<'_>) {
    assert!(record.kind != crate::record::NOTHING, "kind 0 is the log's own");
    assert!(record.payload.len() <= PAYLOAD_BYTES_MAX, "a payload of {} bytes", record.payload.len());
}
