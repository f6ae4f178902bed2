//! Appending, flushing, freeing.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use hobt_base::Lsn;
use hobt_disk::AlignedBuffer;
use hobt_sync::{Wait, WaitType};
use parking_lot::Mutex;

use crate::block::{BLOCK_BYTES_MAX, BLOCK_HEADER_BYTES, BLOCK_UNIT, BlockHeader, block_bytes, seal};
use crate::record::{NewRecord, PAYLOAD_BYTES_MAX, record_bytes};
use crate::ring::{EpochNumber, Place, Ring};
use crate::segments::{Segments, create_file};
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
    /// Its file's place among the log's files.
    pub file: usize,
    /// Its first byte in the file.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// Its place in the order of segments; `None` if it is free.
    pub sequence: Option<u64>,
    /// The position of its first record; `None` if it is free.
    pub first: Option<Lsn>,
}

/// What the thread that flushes works with.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) log: u64,
    pub(crate) life: u64,
    /// The segment that is being filled, with how many bytes of it are; none before the first block.
    pub(crate) segment: Option<(usize, u64)>,
    /// The number of the next block.
    pub(crate) number: u64,
    pub(crate) previous_checksum: u32,
    pub(crate) buffer: AlignedBuffer,
}

/// The log of one database.
pub struct Log {
    ring: Ring,
    /// The epoch in force with the position of its beginning, as the ring's tail has them.
    begin: Mutex<Epoch>,
    writer: Mutex<Writer>,
    segments: Mutex<Segments>,
    waiters: Waiters,
    durable: AtomicU64,
    /// Bytes of the log's files that hold nothing needed: free segments, and the rest of the one that is being filled.
    free_bytes: AtomicU64,
    /// Bytes that are kept for records of transactions that may have to be undone.
    reserved_bytes: AtomicU64,
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
        assert!(!files.is_empty(), "a log has a file");
        let count = u32::try_from(files.len()).expect("fewer files than ids");
        let open: Result<Vec<_>, LogError> =
            (0..).zip(files).map(|(index, file)| create_file(file, id, index, count)).collect();
        let writer = Writer {
            log: id,
            life: 0,
            segment: None,
            number: 1,
            previous_checksum: 0,
            buffer: AlignedBuffer::new(BLOCK_BYTES_MAX)?,
        };
        Ok(Log::start(Segments::new(open?), writer, LSN_FIRST, LSN_FIRST, ring_bytes))
    }

    pub(crate) fn start(segments: Segments, writer: Writer, begin: Lsn, end: Lsn, ring_bytes: usize) -> Log {
        assert!(ring_bytes >= RING_BYTES_MIN, "a ring of {ring_bytes} bytes");
        let ring = Ring::new(ring_bytes, end.0);
        let begin = Epoch { number: ring.epoch(), begin };
        Log {
            ring,
            begin: Mutex::new(begin),
            writer: Mutex::new(writer),
            free_bytes: AtomicU64::new(segments.free_bytes()),
            segments: Mutex::new(segments),
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

    /// The epoch that an append is about to be made in.
    pub fn epoch(&self) -> Epoch {
        *self.begin.lock()
    }

    /// Appends a record, which is not durable yet. Blocks while the ring is full (`LOGBUFFER`).
    ///
    /// # Errors
    /// A checkpoint has begun since `epoch` was looked at, or the log has failed.
    ///
    /// # Panics
    /// When the payload is longer than [`PAYLOAD_BYTES_MAX`] or the kind is 0.
    pub fn append(&self, epoch: Epoch, record: &NewRecord<'_>) -> Result<Appended, AppendError> {
        check_record(record);
        self.check().map_err(AppendError::Failed)?;
        let (place, number) = self.ring.take(record_bytes(record.payload.len()));
        let is_current = number == epoch.number;
        self.put(place, record, is_current).map_err(AppendError::Failed)?;
        if is_current { Ok(appended(place)) } else { Err(AppendError::EpochChanged) }
    }

    /// Appends a record that is the same in every epoch: one that changes no page.
    ///
    /// # Errors
    /// The log has failed.
    ///
    /// # Panics
    /// As [`Log::append`].
    pub fn append_always(&self, record: &NewRecord<'_>) -> Result<Appended, LogError> {
        check_record(record);
        self.check()?;
        let (place, _) = self.ring.take(record_bytes(record.payload.len()));
        self.put(place, record, true)?;
        Ok(appended(place))
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
        self.check()?;
        let mut begin = self.begin.lock();
        let (place, number) = self.ring.take_in_next_epoch(record_bytes(record.payload.len()));
        *begin = Epoch { number, begin: Lsn(place.start) };
        drop(begin);
        self.put(place, record, true)?;
        Ok(appended(place))
    }

    fn put(&self, place: Place, record: &NewRecord<'_>, wanted: bool) -> Result<(), LogError> {
        if !self.ring.has_room(place) {
            self.ring_waits.fetch_add(1, Ordering::Relaxed);
            let _wait = Wait::begin(WaitType::LogBuffer);
            // What lies before is published, or is by somebody who waits here too and comes first.
            while !self.ring.has_room(place) {
                self.flush_or_wait(Lsn(self.ring.copied()))?;
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
    /// The log fails, or has failed before.
    pub fn flush_past(&self, lsn: Lsn) -> Result<(), LogError> {
        if self.durable() > lsn {
            return Ok(());
        }
        let _wait = Wait::begin(WaitType::WriteLog);
        while self.durable() <= lsn {
            self.flush_or_wait(lsn)?;
        }
        Ok(())
    }

    /// Writes a block if nobody else does; waits otherwise, until `lsn` is durable or there is a block to write.
    fn flush_or_wait(&self, lsn: Lsn) -> Result<(), LogError> {
        self.check()?;
        let Some(mut writer) = self.writer.try_lock() else {
            let must_wait = || self.durable() <= lsn && self.failed.get().is_none() && self.writer.is_locked();
            self.waiters.wait(lsn.0, must_wait);
            return Ok(());
        };
        let written = self.write_block(&mut writer);
        drop(writer);
        match written {
            Ok(written) => {
                self.waiters.wake(self.durable().0);
                if !written {
                    // The next record has its place and is being copied.
                    std::thread::yield_now();
                }
                Ok(())
            }
            Err(error) => {
                self.failed.get_or_init(|| error.to_string());
                self.waiters.wake_all();
                Err(error)
            }
        }
    }

    /// Writes what is published, as much as one block takes; `false` if there is nothing.
    fn write_block(&self, writer: &mut Writer) -> Result<bool, LogError> {
        let first = self.ring.copied();
        let mut bytes = 0;
        if let Some((segment, used)) = writer.segment {
            let room = usize::try_from(self.segments.lock().all[segment].bytes - used).unwrap_or(usize::MAX);
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
        let (segment, used) = writer.segment.expect("begun above");
        let (disk, offset, sequence) = {
            let segments = self.segments.lock();
            let one = segments.all[segment];
            let contents = one.contents.expect("a segment that is being filled");
            (segments.disk(segment).clone(), one.offset, contents.sequence)
        };
        let header = BlockHeader {
            log: writer.log,
            life: writer.life,
            segment: sequence,
            number: writer.number,
            first: Lsn(first),
            record_bytes: u32::try_from(bytes).expect("at most BLOCK_BYTES_MAX"),
            previous_checksum: writer.previous_checksum,
        };
        let length = block_bytes(bytes);
        let block = &mut writer.buffer[..length];
        let checksum = seal(block, &header);
        disk.write_durable_at(block, offset + used)?;
        writer.previous_checksum = checksum;
        writer.number += 1;
        writer.segment = Some((segment, used + length as u64));
        self.free_bytes.fetch_sub(length as u64, Ordering::Relaxed);
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.flushed_bytes.fetch_add(length as u64, Ordering::Relaxed);
        self.record_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.durable.store(first + bytes as u64, Ordering::Release);
        Ok(true)
    }

    fn next_segment(&self, writer: &mut Writer, first: Lsn) -> Result<(), LogError> {
        let mut segments = self.segments.lock();
        if let Some((segment, used)) = writer.segment {
            self.free_bytes.fetch_sub(segments.all[segment].bytes - used, Ordering::Relaxed);
            writer.segment = None;
        }
        let begun = match segments.begin(first) {
            Some(begun) => begun,
            None => {
                self.grow(&mut segments)?;
                segments.begin(first).expect("there are new ones")
            }
        };
        writer.segment = Some((begun, 0));
        Ok(())
    }

    fn grow(&self, segments: &mut Segments) -> Result<(), LogError> {
        let before = segments.free_bytes();
        segments.grow()?;
        self.free_bytes.fetch_add(segments.free_bytes() - before, Ordering::Relaxed);
        Ok(())
    }

    /// Makes sure that `bytes` of records and, should they have to be undone, `undo_bytes` more can still be written, and
    /// keeps the latter until [`Log::release`]. Grows the log if it must.
    ///
    /// # Errors
    /// [`LogError::Full`], or the log has failed.
    pub fn reserve(&self, bytes: u64, undo_bytes: u64) -> Result<(), LogError> {
        self.check()?;
        let reserved = self.reserved_bytes.fetch_add(undo_bytes, Ordering::Relaxed) + undo_bytes;
        if self.has_free(bytes + reserved) {
            return Ok(());
        }
        let mut segments = self.segments.lock();
        while !self.has_free(bytes + reserved) {
            if let Err(error) = self.grow(&mut segments) {
                self.release(undo_bytes);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Whether so many bytes of records find room. What is in the ring is not on the disk yet.
    fn has_free(&self, bytes: u64) -> bool {
        // The end of a segment, headers and padding of blocks, and the commits of those that are let through.
        const SLACK: u64 = 2 * SEGMENT_BYTES_MIN;
        let unwritten = self.ring.end() - self.ring.copied();
        self.free_bytes.load(Ordering::Relaxed) >= (bytes + unwritten) * 5 / 4 + SLACK
    }

    /// Gives back what [`Log::reserve`] kept.
    pub fn release(&self, undo_bytes: u64) {
        self.reserved_bytes.fetch_sub(undo_bytes, Ordering::Relaxed);
    }

    /// Says, durably, where recovery is to begin from now on, and frees the segments all of whose records lie before
    /// `keep`, which is not behind `redo_start`.
    ///
    /// # Errors
    /// The header of the first file cannot be written.
    ///
    /// # Panics
    /// When `keep` is behind `redo_start`.
    pub fn set_redo_start(&self, redo_start: Lsn, keep: Lsn) -> Result<(), LogError> {
        assert!(keep <= redo_start, "recovery reads from {redo_start} on");
        self.check()?;
        let mut segments = self.segments.lock();
        let first = &mut segments.files[0];
        first.header.redo_start = redo_start;
        let disk = first.disk.clone();
        if let Err(error) = first.header.write(&*disk) {
            self.failed.get_or_init(|| error.to_string());
            return Err(error);
        }
        let before = segments.free_bytes();
        segments.free_before(keep);
        self.free_bytes.fetch_add(segments.free_bytes() - before, Ordering::Relaxed);
        Ok(())
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
            file: one.file,
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

fn appended(place: Place) -> Appended {
    Appended { lsn: Lsn(place.start), end: Lsn(place.end) }
}

fn check_record(record: &NewRecord<'_>) {
    assert!(record.kind != crate::record::NOTHING, "kind 0 is the log's own");
    assert!(record.payload.len() <= PAYLOAD_BYTES_MAX, "a payload of {} bytes", record.payload.len());
}
