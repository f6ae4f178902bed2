//! Reads a log's files in long stretches for recovery, the next one while this one is used, and keeps the first ones in
//! memory: recovery looks at most blocks three times (the search for the end, analysis, redo).

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use hobt_disk::{AlignedBuffer, CompletionQueue, Direction, DiskFile, IoBuffer, Request};

use crate::LogError;
use crate::block::BLOCK_UNIT;

/// Bytes of a stretch: of every file the first, the second and so on.
const STRETCH_BYTES: u64 = 2 << 20;
/// Bytes that are kept in memory.
const KEPT_BYTES_MAX: u64 = 64 << 20;

/// A stretch of a file: the file's place, and the number of the stretch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Stretch {
    file: usize,
    number: u64,
}

impl Stretch {
    /// The one that has this byte.
    pub(crate) fn of(file: usize, offset: u64) -> Stretch {
        Stretch { file, number: offset / STRETCH_BYTES }
    }

    /// The one behind it.
    pub(crate) fn next(self) -> Stretch {
        Stretch { number: self.number + 1, ..self }
    }

    fn offset(self) -> u64 {
        self.number * STRETCH_BYTES
    }
}

/// Bytes in memory that a part of the log was read into.
pub(crate) struct Bytes {
    buffer: Arc<AlignedBuffer>,
    range: Range<usize>,
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}

pub(crate) struct Stretches {
    files: Vec<Arc<dyn DiskFile>>,
    /// Bytes of each file.
    sizes: Vec<u64>,
    kept: HashMap<Stretch, Arc<AlignedBuffer>>,
    kept_bytes: u64,
    /// The two that were used last: a block may begin in one and end in the next.
    recent: [Option<(Stretch, Arc<AlignedBuffer>)>; 2],
    queue: Arc<CompletionQueue>,
    /// The one that is being read ahead.
    ahead: Option<Stretch>,
}

impl Drop for Stretches {
    fn drop(&mut self) {
        self.queue.drain();
    }
}

impl Stretches {
    pub(crate) fn new(files: &[Arc<dyn DiskFile>]) -> Result<Stretches, LogError> {
        let whole_units = |bytes: u64| bytes / BLOCK_UNIT as u64 * BLOCK_UNIT as u64;
        let sizes = files.iter().map(|file| file.size().map(whole_units)).collect::<Result<_, _>>()?;
        let (kept, recent) = Default::default();
        let queue = CompletionQueue::new();
        Ok(Stretches { files: files.to_vec(), sizes, kept, kept_bytes: 0, recent, queue, ahead: None })
    }

    /// Begins to read a stretch, unless it is there or another one is being read.
    pub(crate) fn read_ahead(&mut self, stretch: Stretch) -> Result<(), LogError> {
        let bytes = self.bytes_of(stretch);
        if self.ahead.is_some() || bytes == 0 || self.found(stretch).is_some() {
            return Ok(());
        }
        self.files[stretch.file].submit(Request {
            direction: Direction::Read,
            offset: stretch.offset(),
            buffer: IoBuffer::Owned(AlignedBuffer::new(bytes)?),
            tag: 0,
            queue: Arc::clone(&self.queue),
        });
        self.ahead = Some(stretch);
        Ok(())
    }

    /// A part of a file, which lies in at most two stretches. `None` if the file ends before it does.
    pub(crate) fn get(&mut self, file: usize, offset: u64, bytes: usize) -> Result<Option<Bytes>, LogError> {
        let end = offset + bytes as u64;
        if self.sizes.get(file).is_none_or(|size| end > *size) {
            return Ok(None);
        }
        let (first, last) = (Stretch::of(file, offset), Stretch::of(file, end - 1));
        let at = (offset - first.offset()) as usize;
        if first == last
            && let Some(buffer) = self.stretch(first)?
        {
            return Ok(Some(Bytes { buffer, range: at..at + bytes }));
        }
        let mut whole = AlignedBuffer::new(bytes)?;
        match (self.stretch(first)?, self.stretch(last)?) {
            (Some(begin), Some(end)) if first != last => {
                let (head, tail) = whole.split_at_mut(begin.len() - at);
                head.copy_from_slice(&begin[at..]);
                tail.copy_from_slice(&end[..tail.len()]);
            }
            // Something beside it cannot be read.
            _ => self.files[file].read_at(&mut whole, offset)?,
        }
        Ok(Some(Bytes { buffer: Arc::new(whole), range: 0..bytes }))
    }

    fn bytes_of(&self, stretch: Stretch) -> usize {
        let size = self.sizes.get(stretch.file).copied().unwrap_or(0);
        usize::try_from(size.saturating_sub(stretch.offset()).min(STRETCH_BYTES)).expect("a stretch")
    }

    fn found(&self, stretch: Stretch) -> Option<&Arc<AlignedBuffer>> {
        let recent = self.recent.iter().flatten().find(|(known, _)| *known == stretch).map(|(_, buffer)| buffer);
        recent.or_else(|| self.kept.get(&stretch))
    }

    /// A stretch; `None` if it cannot be read as a whole.
    fn stretch(&mut self, stretch: Stretch) -> Result<Option<Arc<AlignedBuffer>>, LogError> {
        if let Some(found) = self.found(stretch) {
            return Ok(Some(Arc::clone(found)));
        }
        let Some(buffer) = self.read(stretch)? else { return Ok(None) };
        let buffer = Arc::new(buffer);
        if self.kept_bytes + buffer.len() as u64 <= KEPT_BYTES_MAX {
            self.kept_bytes += buffer.len() as u64;
            self.kept.insert(stretch, Arc::clone(&buffer));
        }
        self.recent.swap(0, 1);
        self.recent[0] = Some((stretch, Arc::clone(&buffer)));
        Ok(Some(buffer))
    }

    fn read(&mut self, stretch: Stretch) -> Result<Option<AlignedBuffer>, LogError> {
        if let Some(ahead) = self.ahead.take() {
            let read = self.queue.wait_pop();
            if ahead == stretch {
                let read = read.filter(|read| read.result.is_ok());
                return Ok(read.and_then(|read| read.buffer.into_owned()));
            }
        }
        let mut buffer = AlignedBuffer::new(self.bytes_of(stretch))?;
        let read = self.files[stretch.file].read_at(&mut buffer, stretch.offset());
        Ok(read.is_ok().then_some(buffer))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hobt_base::SplitMix64;
    use hobt_disk::{Disk, Fault, FaultKind, OpenOptions, Operation, SimulatedConfig, SimulatedDisk};

    use super::*;

    const FILE_BYTES: usize = 80 << 20;

    fn file() -> (Arc<SimulatedDisk>, Arc<dyn DiskFile>) {
        let disk = SimulatedDisk::start(SimulatedConfig::default()).expect("a disk in memory");
        let options = OpenOptions { create_new: true, ..OpenOptions::default() };
        let file = disk.open(Path::new("/log.ldf"), options).expect("a new file");
        let mut bytes = AlignedBuffer::new(FILE_BYTES).expect("memory");
        for (word, at) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(0_u64..) {
            *word = (at * 8).to_le_bytes();
        }
        file.write_at(&bytes, 0).expect("a disk without faults");
        (disk, file)
    }

    fn is_right(bytes: &[u8], offset: u64) -> bool {
        bytes.as_chunks::<8>().0.iter().zip(0..).all(|(word, at)| u64::from_le_bytes(*word) == offset + at * 8)
    }

    /// Any part is what the file has there, in whatever order parts are read, read ahead, and read again.
    #[test]
    fn every_part_is_what_the_file_has_there() {
        let (_disk, file) = file();
        let mut stretches = Stretches::new(&[file]).expect("a size");
        let mut random = SplitMix64::new(3);
        let mut at = 0;
        for round in 0..400 {
            let bytes = (random.below(128) + 1) * 4096;
            let offset = if round % 50 == 49 { random.below(FILE_BYTES as u64 / 4096) * 4096 } else { at };
            let read = stretches.get(0, offset, bytes as usize).expect("readable");
            at = if offset + bytes < FILE_BYTES as u64 { offset + bytes } else { 0 };
            assert_eq!(read.is_some(), offset + bytes <= FILE_BYTES as u64);
            assert!(read.is_none_or(|read| read.len() as u64 == bytes && is_right(&read, offset)));
            stretches.read_ahead(Stretch::of(0, at + random.below(2) * STRETCH_BYTES)).expect("memory");
            assert!(stretches.kept_bytes <= KEPT_BYTES_MAX);
        }
    }

    /// A part is read although something beside it cannot be, also if that was read ahead. A part that cannot be read
    /// is an error.
    #[test]
    fn only_what_cannot_be_read_is_an_error() {
        for is_ahead in [false, true] {
            let (disk, file) = file();
            let mut stretches = Stretches::new(&[file]).expect("a size");
            disk.inject(Fault::once(Operation::Read, 0, FaultKind::Error(5)));
            if is_ahead {
                stretches.read_ahead(Stretch::of(0, 0)).expect("memory");
            }
            let read = stretches.get(0, 8192, 8192).expect("readable").expect("within the file");
            assert!(is_right(&read, 8192));
            disk.inject(Fault { forever: true, ..Fault::once(Operation::Read, 0, FaultKind::Error(5)) });
            assert!(stretches.get(0, STRETCH_BYTES, 4096).is_err());
        }
    }
}
