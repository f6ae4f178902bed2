//! Appending, flushing, freeing.
//!
//! Access: any thread appends (the ring is made of atomics). The holder of `writer` takes records from the ring and
//! writes blocks. Only it advances `durable` and fills free room; segments are freed, added and removed elsewhere too.
//! Any thread may set `failed`, which is never reset. `segments` is held briefly, and for the durable write of a file's
//! header, but never while a file is filled. Lock order: `checkpointing`, `writer`, `growing`, `segments`,
//! `marks`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use hobt_base::Lsn;
use hobt_disk::{AlignedBuffer, DiskFile};
use hobt_instruments::rank::{self, Rank, Ranked};
use hobt_instruments::schedule::{self, Mutex};
use hobt_instruments::{Wait, WaitType};

use crate::block::{BLOCK_BYTES_MAX, BLOCK_HEADER_BYTES, BLOCK_UNIT, BlockHeader, block_bytes, seal};
use crate::marks::Marks;
use crate::reader::SegmentPlace;
use crate::record::{NewRecord, PAYLOAD_BYTES_MAX, Record, record_bytes};
use crate::ring::{EpochNumber, Place, Ring};
use crate::room::{Reservation, Room, RoomFor, loss};
use crate::segments::{Segments, create_file};
use crate::truncation::NO_BACKUP;
use crate::waiters::Waiters;
use crate::{LSN_FIRST, LogError, LogFile, RecoveryStart};

/// The smallest ring: it must have room for the longest record and a block.
const RING_BYTES_MIN: usize = 1 << 20;

/// The time between the beginnings of two checkpoints, as a writer reads it before it appends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Epoch {
    pub(crate) number: EpochNumber,
    /// Where the last checkpoint began. A page whose last change is before it needs an image at its next change.
    pub begin: Lsn,
}

/// The positions of a record that was appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Appended {
    /// Its position.
    pub lsn: Lsn,
    /// The position after it.
    pub end: Lsn,
}

/// Why a record was not appended.
#[derive(Debug)]
pub enum AppendError {
    /// A checkpoint has begun since the epoch was read. Build the record again for the new epoch, and append that.
    EpochChanged,
    /// The log has failed.
    Failed(LogError),
}

/// What a log has done since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LogStatistics {
    /// Blocks written, each by one flush.
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
    /// Its number in the order of segments; `None` if it is free.
    pub sequence: Option<u64>,
    /// The position of its first record; `None` if it is free.
    pub first: Option<Lsn>,
}

/// Bits of a life's number that count the openings of a log. The bits above tell successive logs at this place apart.
const LIVES_BITS: u32 = 32;

/// The state of the thread that flushes.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) log: u64,
    pub(crate) life: u64,
    /// `None` before the very first block.
    pub(crate) segment: Option<Filling>,
    /// The number of the next block.
    pub(crate) number: u64,
    pub(crate) previous_checksum: u32,
    pub(crate) buffer: AlignedBuffer,
}

/// The segment to which blocks are being written.
pub(crate) struct Filling {
    pub(crate) disk: Arc<dyn DiskFile>,
    pub(crate) sequence: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) used: u64,
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
    pub(crate) ring: Ring,
    /// Where the last checkpoint began, with its epoch, packed like the ring's tail.
    begin: AtomicU64,
    checkpointing: Ranked<Mutex<()>>,
    pub(crate) growing: Ranked<Mutex<()>>,
    writer: Ranked<Mutex<Writer>>,
    pub(crate) segments: Ranked<Mutex<Segments>>,
    /// Where blocks lie in the segments that are not free. Apart from these, which are held while headers are written.
    marks: Ranked<Mutex<Marks>>,
    /// The first position that backups need.
    pub(crate) backup: AtomicU64,
    /// The first positions that running backups need.
    pub(crate) holds: Mutex<Vec<Lsn>>,
    waiters: Waiters,
    durable: AtomicU64,
    pub(crate) room: Room,
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
    /// Creates a new log and overwrites the files. `id` identifies it: no two logs of one machine should share one.
    /// `ring_bytes` limits the bytes that are appended and not flushed; it is a power of two of at least a mebibyte.
    ///
    /// # Errors
    /// A file cannot be written.
    ///
    /// # Panics
    /// When there is no file, or the ring is smaller.
    pub fn create(files: &[LogFile], id: u64, ring_bytes: usize) -> Result<Log, LogError> {
        Log::create_at((LSN_FIRST, 0), files, id, ring_bytes, &AtomicBool::new(false))
    }

    /// Creates a new log whose first record is to be at `start`, a multiple of 8. If an earlier log is lost, `start`
    /// lies after its end, so that the positions which pages have from that log are older than all of this one.
    /// `making` is a number that no earlier log at this place had, 0 for the first: it distinguishes the lives of this
    /// log from theirs ([`Log::has_lived`]). Once it `is_over`, the caller gives the files up, and they are not filled
    /// any further.
    ///
    /// # Errors
    /// As [`Log::create`].
    ///
    /// # Panics
    /// As [`Log::create`], and when `start` is not such a position.
    pub fn create_at(
        (start, making): (Lsn, u32),
        files: &[LogFile],
        id: u64,
        ring_bytes: usize,
        is_over: &AtomicBool,
    ) -> Result<Log, LogError> {
        let life = u64::from(making) << LIVES_BITS;
        assert!(start >= LSN_FIRST && start.0.is_multiple_of(8), "a log begins at {start}");
        assert!(!files.is_empty(), "a log has a file");
        let count = u32::try_from(files.len()).expect("fewer files than ids");
        let open: Result<Vec<_>, LogError> = (0..)
            .zip(files)
            .map(|(place, file)| create_file(file, (id, life), (place, count), start, is_over))
            .collect();
        let writer = Writer {
            log: id,
            life,
            segment: None,
            number: 1,
            previous_checksum: 0,
            buffer: AlignedBuffer::new(BLOCK_BYTES_MAX)?,
        };
        let log = Log::start((Segments::new(open?), Marks::default()), writer, start, start, ring_bytes);
        log.recovery_ended();
        Ok(log)
    }

    /// A log in recovery, until [`Log::recovery_ended`].
    pub(crate) fn start(
        (segments, marks): (Segments, Marks),
        writer: Writer,
        begin: Lsn,
        end: Lsn,
        ring_bytes: usize,
    ) -> Log {
        assert!(ring_bytes >= RING_BYTES_MIN, "a ring of {ring_bytes} bytes");
        let ring = Ring::new(ring_bytes, end.0);
        let rest = writer.segment.as_ref().map(|filling| filling.bytes - filling.used);
        let room = Room::new(&segments, rest, true);
        Log {
            id: writer.log,
            life: writer.life,
            begin: AtomicU64::new(Ring::packed(ring.epoch(), begin.0)),
            ring,
            checkpointing: Ranked::new(Rank::LogEpoch, Mutex::default()),
            growing: Ranked::new(Rank::LogGrowth, Mutex::default()),
            writer: Ranked::new(Rank::LogWriter, Mutex::new(writer)),
            room,
            segments: Ranked::new(Rank::LogSegments, Mutex::new(segments)),
            marks: Ranked::new(Rank::LogMarks, Mutex::new(marks)),
            backup: AtomicU64::new(NO_BACKUP),
            holds: Mutex::default(),
            waiters: Waiters::default(),
            durable: AtomicU64::new(end.0),
            failed: OnceLock::new(),
            flushes: AtomicU64::new(0),
            flushed_bytes: AtomicU64::new(0),
            record_bytes: AtomicU64::new(0),
            ring_waits: AtomicU64::new(0),
        }
    }

    /// The id that [`Log::create`] was given.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether `life` is a life of this log up to now. False for lives of earlier logs at this place, and for later
    /// lives, which a copy of this log may have had.
    pub fn has_lived(&self, life: u64) -> bool {
        life >> LIVES_BITS == self.life >> LIVES_BITS && life <= self.life
    }

    /// The number of the log's current life. Each opening adds one.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// The current epoch, in which the next append is made.
    pub fn epoch(&self) -> Epoch {
        let (number, begin) = Ring::unpacked(self.begin.load(Ordering::Acquire));
        Epoch { number, begin: Lsn(begin) }
    }

    /// Appends a record, which is not durable yet, and takes its bytes from the reservation. Blocks while the ring is
    /// full (`LOGBUFFER`).
    ///
    /// # Errors
    /// A checkpoint has begun since `epoch` was read, or the log has failed.
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

    /// Appends a record that is valid in every epoch, because it changes no page.
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

    /// Appends the first record of a new epoch: the beginning of a checkpoint. The writers of all records after it know
    /// of the new epoch.
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
        // A writer that appends in between learns that its epoch is over, and reads again until it gets the new one.
        self.begin.store(Ring::packed(number, place.start), Ordering::Release);
        self.put(place, record, true)?;
        Ok(self.appended(place, &Reservation::default()))
    }

    /// Takes an appended record out of the reservation.
    fn appended(&self, place: Place, reservation: &Reservation) -> Appended {
        self.room.appended(reservation, place.end - place.start);
        Appended { lsn: Lsn(place.start), end: Lsn(place.end) }
    }

    pub(crate) fn put(&self, place: Place, record: &NewRecord<'_>, wanted: bool) -> Result<(), LogError> {
        let mut copied = self.ring.copied();
        if !self.ring.has_room(place, copied) {
            self.ring_waits.fetch_add(1, Ordering::Relaxed);
            let _wait = Wait::begin_working(WaitType::LogBuffer);
            // The records before this one are published, or will be by threads that wait here too and come first. The
            // thread that advances `copied` makes the records before it durable. They are nearly a full ring, so unless
            // the flush is cut short it costs no more than was reserved.
            let before = Lsn(place.start - 1);
            while !self.ring.has_room(place, copied) {
                // The space is taken. If no record is put there, nothing after it can be written.
                if let Err(error) = self.flush_or_wait(Lsn(copied), before, RoomFor::Later)
                    // Another thread may have flushed nearly all of it.
                    && !(matches!(error, LogError::Full { .. }) && self.ring.has_room(place, self.ring.copied()))
                {
                    self.fail(&error);
                    return Err(error);
                }
                copied = self.ring.copied();
            }
        }
        schedule::point(schedule::Place::LogAppend);
        if wanted {
            self.ring.publish(place, record)
        } else {
            self.ring.publish_nothing(place)
        }
        Ok(())
    }

    /// Waits until the record at `lsn` is durable, and all before it. Blocks (`WRITELOG`).
    ///
    /// # Errors
    /// There is no record at `lsn` yet. The log fails, or has failed before. The log is full; this does not end it, and
    /// the call can be repeated once there is room, or more to flush at once.
    pub fn flush_past(&self, lsn: Lsn) -> Result<(), LogError> {
        self.flush_for(RoomFor::Later, lsn)
    }

    /// As [`Log::flush_past`]. `room_for` says how much of the room the flush may use.
    ///
    /// # Errors
    /// As [`Log::flush_past`]. A caller with a reserved flush finds the log full only if more was appended than was
    /// reserved.
    pub fn flush_for(&self, room_for: RoomFor<'_>, lsn: Lsn) -> Result<(), LogError> {
        if self.durable() > lsn {
            return Ok(());
        }
        let end = self.end();
        if lsn >= end {
            return Err(LogError::NotThere { lsn, end });
        }
        let _wait = Wait::begin_working(WaitType::WriteLog);
        while self.durable() <= lsn {
            self.flush_or_wait(lsn, lsn, room_for)?;
        }
        Ok(())
    }

    /// Writes a block if no other thread does. Otherwise waits until `lsn` is durable or there is a block to write. If
    /// room is short, the block must reach past `wanted`, or be long.
    fn flush_or_wait(&self, lsn: Lsn, wanted: Lsn, room_for: RoomFor<'_>) -> Result<(), LogError> {
        rank::check(Rank::LogWriter);
        schedule::point(schedule::Place::LogFlush);
        let Some(mut writer) = self.writer.try_lock() else {
            let must_wait = || self.durable() <= lsn && self.failed.get().is_none() && self.writer.is_locked();
            self.waiters.wait(lsn.0, must_wait);
            return self.check();
        };
        schedule::point(schedule::Place::LogFlush);
        // Checked under the lock: an earlier holder may have failed, and nothing may be written after a block that is
        // missing.
        let written = self.check().and_then(|()| self.write_block(&mut writer, wanted, room_for));
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
            // The next record has its space and is being copied.
            if !schedule::wait(schedule::Place::LogFlush) {
                std::thread::yield_now();
            }
        }
        written.map(drop)
    }

    /// Writes the published records, as many as fit one block. `false` if there are none, or not enough yet.
    fn write_block(&self, writer: &mut Writer, wanted: Lsn, room_for: RoomFor<'_>) -> Result<bool, LogError> {
        let first = self.ring.copied();
        let room = writer.segment.as_ref().map_or(0, |filling| filling.bytes - filling.used);
        let room = usize::try_from(room).unwrap_or(usize::MAX).min(BLOCK_BYTES_MAX);
        let (mut bytes, mut is_cut) = self.ring.published(room.saturating_sub(BLOCK_HEADER_BYTES));
        // The next record does not fit the rest of the segment.
        let is_next = is_cut && bytes == 0;
        if is_next || room < BLOCK_UNIT {
            (bytes, is_cut) = self.ring.published(BLOCK_BYTES_MAX - BLOCK_HEADER_BYTES);
        }
        if bytes == 0 {
            return Ok(false);
        }
        // The cost of a cut was never counted as room.
        let loss = if is_cut { 0 } else { loss(bytes as u64) };
        let paid = loop {
            if let Some(paid) = self.payment(room_for, loss) {
                break paid;
            }
            if first + (bytes as u64) <= wanted.0 {
                // The record at `wanted` comes with those before it, which are being copied.
                return Ok(false);
            }
            self.grow()?;
        };
        if is_next || room < BLOCK_UNIT {
            self.next_segment(writer, Lsn(first)).inspect_err(|_| self.put_back(&paid, room_for))?;
        }
        let copied = self.ring.copy_out(&mut writer.buffer[BLOCK_HEADER_BYTES..BLOCK_HEADER_BYTES + bytes]);
        debug_assert_eq!(copied, bytes, "what is published stays so");
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
        // Before it counts as durable: a reader looks for it here then.
        self.marks.lock().note(filling.sequence, Lsn(first), filling.used);
        filling.used += length as u64;
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.flushed_bytes.fetch_add(length as u64, Ordering::Relaxed);
        self.record_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        // The free room decreases first: in between, the block counts twice, rather than not at all.
        self.room.written(length as u64);
        self.settle(&paid);
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
            self.room.filled(left.bytes - left.used);
        }
        Ok(())
    }

    /// Grows one of the files by its own step. Blocks while the new part is filled with zeros.
    ///
    /// # Errors
    /// [`LogError::Full`] when no file may grow or the device has no room. An error of the device, which also makes the
    /// log fail.
    pub(crate) fn grow(&self) -> Result<(), LogError> {
        let free = self.free_bytes();
        let _alone = self.growing.lock();
        if self.free_bytes() > free {
            // Another thread has just grown it.
            return Ok(());
        }
        let mut reason = "its files may not grow any more: add a log file (ALTER DATABASE … ADD LOG FILE)";
        let growths = self.segments.lock().growth();
        for mut growth in growths {
            match growth.make_what_fits() {
                Ok(()) => {
                    let mut segments = self.segments.lock();
                    self.check()?;
                    let before = segments.free();
                    segments.take_growth(&growth).inspect_err(|error| self.fail(error))?;
                    self.room.follow(before, segments.free());
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

    /// Records durably where recovery is to begin. Segments whose records are all before `start.keep` become free,
    /// unless a backup needs them.
    ///
    /// # Errors
    /// The header of the first file cannot be written.
    ///
    /// # Panics
    /// When the positions are not in order, or `start.redo` is not durable yet: the log could then not be opened.
    pub fn set_recovery_start(&self, start: RecoveryStart) -> Result<(), LogError> {
        let RecoveryStart { redo, read_from, keep } = start;
        assert!(keep <= read_from && read_from <= redo && redo < self.durable(), "recovery reads from {redo} on");
        self.write_recovery_start(start)
    }

    pub(crate) fn write_recovery_start(&self, start: RecoveryStart) -> Result<(), LogError> {
        let mut segments = self.segments.lock();
        self.check()?;
        let mut marks = self.marks.lock();
        let offset = segments.block_before(&marks, start.read_from);
        let first = &mut segments.files[0];
        let kept = self.needed_by_backup().min(self.first_held());
        let retain = kept.max(first.header.retain).min(start.keep);
        (first.header.redo_start, first.header.keep, first.header.retain) = (start.redo, start.keep, retain);
        (first.header.read_from, first.header.read_from_offset) = (start.read_from, offset);
        let disk = Arc::clone(&first.disk);
        first.header.write(&*disk).inspect_err(|error| self.fail(error))?;
        let before = segments.free();
        segments.free_before(retain, &mut marks);
        self.room.follow(before, segments.free());
        Ok(())
    }

    /// The log accepts nothing more. Waiters are woken.
    pub(crate) fn fail(&self, error: &LogError) {
        self.failed.get_or_init(|| error.to_string());
        self.waiters.wake_all();
    }

    /// Ends the log's life as a failure does, for an external reason: it accepts nothing more until it is opened again.
    pub fn end_life(&self, reason: &str) {
        self.failed.get_or_init(|| reason.to_owned());
        self.waiters.wake_all();
    }

    /// Releases its files. It accepts nothing more, and records that are not durable yet are lost.
    pub fn close(&self) {
        self.failed.get_or_init(|| "it was closed".to_owned());
        self.waiters.wake_all();
        self.writer.lock().segment = None;
        self.segments.lock().close();
    }

    /// The record at `lsn` if it is in the ring; `None` if it was written, or is being written at this moment.
    pub(crate) fn record_in_ring(&self, lsn: Lsn) -> Option<Record> {
        self.ring.read(lsn)
    }

    /// Where the record at `lsn` is to be looked for. See [`Segments::place_of`].
    pub(crate) fn place_of(&self, lsn: Lsn, slack: u64) -> Option<SegmentPlace> {
        self.segments.lock().place_of(&self.marks.lock(), lsn, slack)
    }

    /// Notes where blocks of a segment were found, if the segment still holds what is needed.
    pub(crate) fn note_found(&self, sequence: u64, found: impl Iterator<Item = (Lsn, u64)>) {
        let segments = self.segments.lock();
        if segments.all.iter().any(|one| one.contents.is_some_and(|contents| contents.sequence == sequence)) {
            let mut marks = self.marks.lock();
            found.for_each(|(first, offset)| marks.note(sequence, first, offset));
        }
    }

    /// The position after the last record.
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

    /// Where recovery would begin. `None` for a log that was closed.
    pub fn recovery_start(&self) -> Option<RecoveryStart> {
        let segments = self.segments.lock();
        segments.files.first().map(|first| first.header.recovery_start())
    }

    /// What it has done since it was opened.
    pub fn statistics(&self) -> LogStatistics {
        LogStatistics {
            flushes: self.flushes.load(Ordering::Relaxed),
            flushed_bytes: self.flushed_bytes.load(Ordering::Relaxed),
            record_bytes: self.record_bytes.load(Ordering::Relaxed),
            ring_waits: self.ring_waits.load(Ordering::Relaxed),
        }
    }

    /// Its segments, in the order of files and offsets.
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

    /// Checks that it still accepts records.
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
