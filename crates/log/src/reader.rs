//! Reads single records of a log that is in use: a rollback follows the records of its transaction backwards.
//!
//! A record that is not written yet is read from the ring, all others from their blocks. The reader keeps the blocks
//! that it has read last, because a transaction's records lie close to each other.

use std::ops::Range;
use std::sync::Arc;

use hobt_base::Lsn;
use hobt_disk::{AlignedBuffer, DiskFile};
use hobt_instruments::{Wait, WaitType};

use crate::block::{BLOCK_BYTES_MAX, BLOCK_HEADER_BYTES, BlockHeader, verify};
use crate::record::{NOTHING, Record, read_record};
use crate::{Log, LogError};

/// Bytes of earlier blocks that are read with a block: the next record to be read is probably in one of them.
const BEFORE_BYTES: u64 = 256 << 10;

/// Reads records of one log.
pub struct LogReader {
    log: Arc<Log>,
    /// How many bytes of blocks before the wanted one are read with it.
    slack: u64,
    /// Neighbouring blocks of one segment. `None` until a block is read: most rollbacks find their records in the ring.
    buffer: Option<AlignedBuffer>,
    /// The file that they were read from, and where they begin in it.
    source: Option<(Arc<dyn DiskFile>, u64)>,
    /// The blocks that lie whole in the buffer, in order.
    blocks: Vec<BufferedBlock>,
}

impl std::fmt::Debug for LogReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogReader").field("log", &self.log).finish_non_exhaustive()
    }
}

struct BufferedBlock {
    header: BlockHeader,
    at: usize,
    is_verified: bool,
}

impl BufferedBlock {
    fn has(&self, lsn: Lsn) -> bool {
        (self.header.first..self.header.end()).contains(&lsn)
    }

    fn records(&self) -> Range<usize> {
        let begin = self.at + BLOCK_HEADER_BYTES;
        begin..begin + self.header.record_bytes as usize
    }
}

/// Where a segment lies, and where in it to look for a record.
pub(crate) struct SegmentPlace {
    pub(crate) disk: Arc<dyn DiskFile>,
    /// Its number in the order of segments.
    pub(crate) sequence: u64,
    /// Its first byte in the file.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// A block at or before the record's, by its first byte in the segment.
    pub(crate) from: u64,
}

impl LogReader {
    /// A reader of `log`.
    pub fn new(log: &Arc<Log>) -> LogReader {
        LogReader { log: Arc::clone(log), slack: BEFORE_BYTES, buffer: None, source: None, blocks: Vec::new() }
    }

    /// A reader of `log` that reads it forwards.
    pub fn forwards(log: &Arc<Log>) -> LogReader {
        LogReader { slack: 0, ..LogReader::new(log) }
    }

    /// The bytes of all records from the one at `lsn` to the end of its block. They are durable, and kept
    /// ([`Log::hold`]). Blocks while they are read (`IO_COMPLETION`).
    ///
    /// # Errors
    /// There is no memory for its buffer, the file cannot be read, the block is damaged, or no durable record is at
    /// `lsn`.
    pub fn bytes_from(&mut self, lsn: Lsn) -> Result<&[u8], LogError> {
        if self.log.durable() <= lsn {
            return Err(self.missing(lsn));
        }
        let place = match self.place_of(lsn) {
            Some(place) => place,
            None => self.read_block(lsn)?,
        };
        self.verify(place)?;
        let records = self.blocks[place].records();
        let at = records.start + (lsn.0 - self.blocks[place].header.first.0) as usize;
        Ok(&self.buffer()[at..records.end])
    }

    /// The record at `lsn`, which was appended and is still needed: its transaction is open. Blocks while it is read
    /// (`IO_COMPLETION`), or while a flush is writing it (`WRITELOG`).
    ///
    /// # Errors
    /// There is no memory for its buffer. The file cannot be read, the block is damaged, the log has failed before the
    /// record was written, or there is no record at `lsn`.
    pub fn record(&mut self, lsn: Lsn) -> Result<Record, LogError> {
        while self.log.durable() <= lsn {
            if let Some(record) = self.log.record_in_ring(lsn) {
                return Ok(record);
            }
            match self.log.flush_past(lsn) {
                // The flush that writes it has ended just now, and what is behind it found no room.
                Err(LogError::Full { .. }) => {}
                flushed => flushed?,
            }
        }
        let place = match self.place_of(lsn) {
            Some(place) => place,
            None => self.read_block(lsn)?,
        };
        self.verify(place)?;
        let records = self.blocks[place].records();
        let at = records.start + (lsn.0 - self.blocks[place].header.first.0) as usize;
        let record = read_record(&self.buffer()[at..records.end], lsn).filter(|record| record.kind != NOTHING);
        record.ok_or_else(|| self.missing(lsn))
    }

    fn buffer(&self) -> &[u8] {
        self.buffer.as_deref().unwrap_or_default()
    }

    fn place_of(&self, lsn: Lsn) -> Option<usize> {
        let place = self.blocks.partition_point(|block| block.header.end() <= lsn);
        self.blocks.get(place).filter(|block| block.has(lsn)).map(|_| place)
    }

    fn missing(&self, lsn: Lsn) -> LogError {
        LogError::NotThere { lsn, end: self.log.end() }
    }

    /// Reads the block of a record, and its neighbours as far as they fit the buffer. Returns its place in `blocks`.
    fn read_block(&mut self, lsn: Lsn) -> Result<usize, LogError> {
        let segment = self.log.place_of(lsn, self.slack).ok_or_else(|| self.missing(lsn))?;
        let mut from = segment.from;
        if self.buffer.is_none() {
            self.buffer = Some(AlignedBuffer::new(BLOCK_BYTES_MAX)?);
        }
        loop {
            self.blocks.clear();
            // Behind this position a block may be in the midst of being written.
            let durable = self.log.durable();
            let bytes = usize::try_from(segment.bytes - from).unwrap_or(usize::MAX).min(BLOCK_BYTES_MAX);
            self.source = Some((Arc::clone(&segment.disk), segment.offset + from));
            if let Some(buffer) = self.buffer.as_mut().filter(|_| bytes > 0) {
                let _wait = Wait::begin_working(WaitType::IoCompletion);
                buffer.set_len(bytes);
                segment.disk.read_at(buffer, segment.offset + from)?;
            }
            let end = self.find_blocks(durable, segment.sequence);
            // Of the part that recovery has not read, the log has no marks yet. The next look-up of a record before
            // this one begins here.
            let found = self.blocks.iter().map(|block| (block.header.first, from + block.at as u64));
            self.log.note_found(segment.sequence, found);
            if let Some(place) = self.place_of(lsn) {
                return Ok(place);
            }
            // Where there is a block at all it fits the buffer.
            if bytes == 0 || end == 0 || self.blocks.last().is_none_or(|last| last.header.first > lsn) {
                let what = "a block that holds a record of an open transaction is not there";
                return Err(LogError::damaged(&*segment.disk, segment.offset + from, what));
            }
            from += end as u64;
        }
    }

    /// Notes the blocks before `durable` that lie whole in the buffer. Returns the first byte behind them.
    fn find_blocks(&mut self, durable: Lsn, segment: u64) -> usize {
        let mut at = 0;
        while let Some(header) = self.buffer().get(at..).and_then(BlockHeader::read) {
            let follows = self
                .blocks
                .last()
                .is_none_or(|last| header.number == last.header.number + 1 && header.first == last.header.end());
            if !follows
                || header.log != self.log.id()
                || header.segment != segment
                || header.end() > durable
                || at + header.block_bytes() > self.buffer().len()
            {
                break;
            }
            self.blocks.push(BufferedBlock { header, at, is_verified: false });
            at += header.block_bytes();
        }
        at
    }

    /// Checks the checksum of a block, once.
    fn verify(&mut self, place: usize) -> Result<(), LogError> {
        let block = &self.blocks[place];
        if block.is_verified || verify(&self.buffer()[block.at..], &block.header).is_some() {
            self.blocks[place].is_verified = true;
            return Ok(());
        }
        let at = block.at as u64;
        self.blocks.clear();
        let (disk, offset) = self.source.as_ref().expect("blocks were read from a file");
        Err(LogError::damaged(&**disk, offset + at, "a block has changed since it was written"))
    }
}
