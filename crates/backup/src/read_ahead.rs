//! Reads a stretch of a file in order, ahead of what is asked for: in long parts, several of them under way at once. So
//! a device is busy while blocks are checked and used, and no header is waited for.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use hobt_disk::{AlignedBuffer, CompletionQueue, Direction, DiskFile, IoBuffer, Request};
use hobt_instruments::{Wait, WaitType};
use parking_lot::Mutex;

use crate::BackupError;
use crate::block::{BLOCK_BYTES_MAX, UNIT};

/// Bytes of a part, at most. Memory of this length is backed by huge pages, so a transfer has few segments.
const PART_BYTES_MAX: u64 = 2 << 20;
/// Bytes of a part of a file that is one of many stripes.
const PART_BYTES_MIN: u64 = 128 << 10;
/// Bytes of all stripes together that are under way, or there and not asked for yet.
const WINDOWS_BYTES: u64 = 16 << 20;

/// Memory that is used again for the next part.
type Pool = Arc<Mutex<Vec<AlignedBuffer>>>;

/// A part in memory. Its memory goes back to the pool on drop.
struct Part {
    buffer: Option<AlignedBuffer>,
    pool: Pool,
}

impl Part {
    fn bytes(&self) -> &[u8] {
        self.buffer.as_deref().unwrap_or_default()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.pool.lock().extend(self.buffer.take());
    }
}

/// Where the reading of a part is.
enum State {
    UnderWay,
    Here(Arc<Part>),
    /// It cannot be read as a whole.
    Failed,
}

/// Bytes of a file that lie in one part or in several.
pub(crate) struct Pieces {
    parts: Vec<(Arc<Part>, Range<usize>)>,
}

impl Pieces {
    /// Copies them to `target`, which is as long as all of them.
    pub(crate) fn copy_to(&self, mut target: &mut [u8]) {
        for (part, range) in &self.parts {
            let (own, rest) = target.split_at_mut(range.len());
            own.copy_from_slice(&part.bytes()[range.clone()]);
            target = rest;
        }
    }
}

/// A stretch of a file that is read in order.
pub(crate) struct ReadAhead {
    file: Arc<dyn DiskFile>,
    /// Where the first part of the window begins.
    front: u64,
    end: u64,
    window: VecDeque<State>,
    part_bytes: u64,
    parts_max: usize,
    queue: Arc<CompletionQueue>,
    pool: Pool,
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        // The file stays open, and locked, as long as one of its reads is under way.
        self.queue.drain();
    }
}

impl ReadAhead {
    /// Reads `stretch` of a file that is one of `stripes`. The first reads begin when something is asked for.
    pub(crate) fn new(file: &Arc<dyn DiskFile>, stretch: Range<u64>, stripes: usize) -> ReadAhead {
        let of_stripe = WINDOWS_BYTES / stripes.max(1) as u64;
        let part_bytes = (of_stripe / 2).clamp(PART_BYTES_MIN, PART_BYTES_MAX).next_multiple_of(UNIT as u64);
        // A block may begin in one part and end in another one, and something is read meanwhile.
        let parts_min = (BLOCK_BYTES_MAX as u64).div_ceil(part_bytes) + 1;
        let parts_max = (of_stripe / part_bytes).max(parts_min) as usize;
        ReadAhead {
            file: Arc::clone(file),
            front: stretch.start,
            end: stretch.end,
            window: VecDeque::new(),
            part_bytes,
            parts_max,
            queue: CompletionQueue::new(),
            pool: Pool::default(),
        }
    }

    /// Bytes of the stretch, which begin nowhere before those that were asked for last. Blocks until they are there.
    /// `None` if they are not all in the stretch, or cannot be read together with what lies around them.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn get(&mut self, wanted: Range<u64>) -> Result<Option<Pieces>, BackupError> {
        if wanted.start < self.front || wanted.end > self.end || wanted.is_empty() {
            return Ok(None);
        }
        while self.front + self.part_bytes <= wanted.start {
            if self.window.is_empty() {
                // Nothing has been read here yet.
                self.front = wanted.start;
                break;
            }
            // A read that is under way has memory. It is waited for, so that there is memory for the window alone, and
            // for parts that are still being copied from.
            let _left_behind = self.wait_for(0);
            self.window.pop_front();
            self.front += self.part_bytes;
        }
        self.fill()?;
        let last = ((wanted.end - 1 - self.front) / self.part_bytes) as usize;
        let mut parts = Vec::with_capacity(last + 1);
        for place in 0..=last {
            let Some(part) = self.wait_for(place) else { return Ok(None) };
            let begin = self.front + place as u64 * self.part_bytes;
            let from = wanted.start.max(begin) - begin;
            let until = wanted.end.min(begin + self.part_bytes) - begin;
            parts.push((part, from as usize..until as usize));
        }
        Ok(Some(Pieces { parts }))
    }

    /// Begins to read what comes next, as far as the window goes.
    fn fill(&mut self) -> Result<(), BackupError> {
        while self.window.len() < self.parts_max {
            let offset = self.front + self.window.len() as u64 * self.part_bytes;
            let Some(bytes) = self.end.checked_sub(offset).filter(|bytes| *bytes > 0) else { break };
            let bytes = usize::try_from(bytes.min(self.part_bytes)).expect("a part");
            let used = self.pool.lock().pop().filter(|buffer| buffer.capacity() >= bytes);
            let mut buffer = used.map_or_else(|| AlignedBuffer::new(bytes), Ok)?;
            buffer.set_len(bytes);
            self.window.push_back(State::UnderWay);
            self.file.submit(Request {
                direction: Direction::Read,
                offset,
                buffer: IoBuffer::Owned(buffer),
                tag: 0,
                queue: Arc::clone(&self.queue),
            });
        }
        Ok(())
    }

    /// The part at a place of the window.
    fn wait_for(&mut self, place: usize) -> Option<Arc<Part>> {
        loop {
            match self.window.get(place)? {
                State::Here(part) => return Some(Arc::clone(part)),
                State::Failed => return None,
                State::UnderWay => {}
            }
            let read = self.queue.try_pop().or_else(|| {
                let _wait = Wait::begin(WaitType::BackupIo);
                self.queue.wait_pop()
            })?;
            let part = Part { buffer: read.buffer.into_owned(), pool: Arc::clone(&self.pool) };
            let arrived = self.window.get_mut(((read.offset - self.front) / self.part_bytes) as usize)?;
            *arrived = if read.result.is_ok() { State::Here(Arc::new(part)) } else { State::Failed };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hobt_base::SplitMix64;
    use hobt_disk::{Disk, Fault, FaultKind, OpenOptions, Operation, SimulatedConfig, SimulatedDisk};

    use super::*;

    const FILE_BYTES: usize = 40 << 20;

    fn file() -> (Arc<SimulatedDisk>, Arc<dyn DiskFile>) {
        let disk = SimulatedDisk::start(SimulatedConfig::default()).expect("a disk in memory");
        let options = OpenOptions { create_new: true, direct: true, ..OpenOptions::default() };
        let file = disk.open(Path::new("/any.bak"), options).expect("a new file");
        let mut bytes = AlignedBuffer::new(FILE_BYTES).expect("memory");
        for (word, at) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(0_u64..) {
            *word = (at * 8).to_le_bytes();
        }
        file.write_at(&bytes, 0).expect("a disk without faults");
        (disk, file)
    }

    fn is_there(ahead: &mut ReadAhead, wanted: Range<u64>) -> bool {
        let mut bytes = vec![0; (wanted.end - wanted.start) as usize];
        let Some(pieces) = ahead.get(wanted.clone()).expect("memory") else { return false };
        pieces.copy_to(&mut bytes);
        let is_right = |(word, at): (&[u8; 8], u64)| u64::from_le_bytes(*word) == wanted.start + at * 8;
        assert!(bytes.as_chunks::<8>().0.iter().zip(0..).all(is_right), "{wanted:?}");
        true
    }

    /// Whatever is asked for in order is what the file has there, also where something is left out, and memory is used
    /// again.
    #[test]
    fn bytes_are_what_the_file_has_there() {
        let (_disk, file) = file();
        let mut random = SplitMix64::new(9);
        for stripes in [1, 3, 64] {
            let begin = random.below(9) * UNIT as u64;
            let end = (FILE_BYTES - UNIT) as u64;
            let mut ahead = ReadAhead::new(&file, begin..end, stripes);
            let mut at = begin;
            while at < end {
                let units = 1 + random.below(257);
                let until = (at + units * UNIT as u64).min(end);
                assert!(is_there(&mut ahead, at..until), "{at} to {until}");
                let is_far = random.below(20) == 0;
                at = if is_far { until + random.below(2000) * UNIT as u64 } else { until };
            }
            assert!(ahead.pool.lock().len() <= ahead.parts_max, "{} parts are kept", ahead.pool.lock().len());
        }
    }

    /// What lies outside of the stretch, before what was asked for last, or in a part that cannot be read is not there;
    /// what lies behind it is.
    #[test]
    fn what_cannot_be_read_is_left_out() {
        let (disk, file) = file();
        let mut ahead = ReadAhead::new(&file, 0..8 * PART_BYTES_MAX, 1);
        assert!(!is_there(&mut ahead, 8 * PART_BYTES_MAX - UNIT as u64..8 * PART_BYTES_MAX + UNIT as u64));
        disk.inject(Fault::once(Operation::Read, 1, FaultKind::Error(5)));
        assert!(is_there(&mut ahead, 0..UNIT as u64));
        assert!(!is_there(&mut ahead, PART_BYTES_MAX..PART_BYTES_MAX + UNIT as u64));
        assert!(is_there(&mut ahead, 2 * PART_BYTES_MAX..3 * PART_BYTES_MAX));
        assert!(!is_there(&mut ahead, 0..UNIT as u64));
    }
}
