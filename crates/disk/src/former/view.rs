//! A file as it was, for readers.

use std::path::Path;
use std::sync::Arc;

use super::FormerBlocks;
use crate::buffer::{AlignedBuffer, IoBuffer};
use crate::disk::DiskFile;
use crate::error::{DiskError, Operation, Result};
use crate::overlay::{BLOCK_BYTES, Part, Source, complete, gather, parts_of};
use crate::queue::{Direction, Request};
use crate::statistics::FileStatistics;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// A file as it was at the moment of a copy. It cannot be written to.
pub(super) struct FormerView {
    former: Arc<FormerBlocks>,
    now: Arc<dyn DiskFile>,
}

impl FormerView {
    pub(super) fn new(former: Arc<FormerBlocks>, now: Arc<dyn DiskFile>) -> FormerView {
        FormerView { former, now }
    }

    fn bytes(&self) -> u64 {
        self.former.identity().blocks * BLOCK
    }

    fn parts(&self, offset: u64, bytes: usize) -> Result<Vec<Part>> {
        let size = self.bytes();
        if offset.checked_add(bytes as u64).is_none_or(|end| end > size) {
            let path = self.now.path().to_path_buf();
            let transferred = size.saturating_sub(offset);
            return Err(DiskError::OutOfRange { path, offset, length: bytes as u64, transferred });
        }
        Ok(parts_of(&self.former.map().read(), size, offset, bytes))
    }

    fn refused(&self, operation: Operation, why: &str) -> DiskError {
        let source = std::io::Error::new(std::io::ErrorKind::ReadOnlyFilesystem, why.to_owned());
        DiskError::new(operation, self.now.path(), None, source)
    }

    /// Whether what was read is of the moment.
    fn check(&self) -> Result<()> {
        match self.former.lost() {
            Some(why) => Err(self.refused(Operation::Read, &format!("a copy of it has failed: {why}"))),
            None => Ok(()),
        }
    }
}

/// Reads again what was overwritten in the file, and so copied, while it was read. `into` gets the bytes of a range of
/// the read, from its first byte on.
fn read_again(
    former: &FormerBlocks,
    parts: &[Part],
    (offset, bytes): (u64, usize),
    into: &mut dyn FnMut(usize, &[u8]),
) -> Result<()> {
    let is_now = |at: u64| {
        let mut from = offset;
        let found = parts.iter().find(|part| {
            from += part.bytes as u64;
            at < from
        });
        found.is_some_and(|part| part.source == Source::Base)
    };
    let end = offset + bytes as u64;
    for block in offset / BLOCK..end.div_ceil(BLOCK) {
        let at = (block * BLOCK).max(offset);
        let slot = former.map().read().get(block).filter(|_| is_now(at));
        if let Some(slot) = slot {
            let mut copy = AlignedBuffer::new(BLOCK_BYTES)?;
            former.file().read_at(&mut copy, u64::from(slot) * BLOCK)?;
            let upto = ((block + 1) * BLOCK).min(end);
            let within = (at - block * BLOCK) as usize;
            into((at - offset) as usize, &copy[within..within + (upto - at) as usize]);
        }
    }
    Ok(())
}

impl DiskFile for FormerView {
    fn path(&self) -> &Path {
        self.former.path()
    }

    fn is_direct(&self) -> bool {
        self.now.is_direct() || self.former.file().is_direct()
    }

    fn size(&self) -> Result<u64> {
        Ok(self.bytes())
    }

    fn device_free_bytes(&self) -> Result<u64> {
        self.former.file().device_free_bytes()
    }

    fn set_size(&self, _bytes: u64) -> Result<()> {
        Err(self.refused(Operation::SetSize, "it is what a file was"))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let parts = self.parts(offset, buffer.len())?;
        let mut from = 0;
        for part in &parts {
            let piece = &mut buffer[from..from + part.bytes];
            match part.source {
                Source::Base => self.now.read_at(piece, part.offset)?,
                Source::Store => self.former.file().read_at(piece, part.offset)?,
                Source::Zeros => piece.fill(0),
            }
            from += part.bytes;
        }
        let range = (offset, buffer.len());
        read_again(&self.former, &parts, range, &mut |at, bytes| buffer[at..at + bytes.len()].copy_from_slice(bytes))?;
        self.check()
    }

    fn write_at(&self, _buffer: &[u8], _offset: u64) -> Result<()> {
        Err(self.refused(Operation::Write, "it is what a file was"))
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn try_lock_exclusive(&self) -> Result<()> {
        Ok(())
    }

    fn try_lock_shared(&self) -> Result<()> {
        Ok(())
    }

    fn submit(&self, request: Request) {
        let range = (request.offset, request.buffer.len());
        let parts = match (request.direction, self.parts(range.0, range.1)) {
            (Direction::Read, Ok(parts)) => parts,
            (Direction::Read, Err(error)) => return complete(request, Err(error)),
            (Direction::Write, _) => {
                let refused = self.refused(Operation::Write, "it is what a file was");
                return complete(request, Err(refused));
            }
        };
        let (former, read) = (Arc::clone(&self.former), parts.clone());
        let lost = self.now.path().to_path_buf();
        let at_end = move |buffer: &mut IoBuffer| {
            read_again(&former, &read, range, &mut |at, bytes| buffer.put(at, bytes))?;
            match former.lost() {
                None => Ok(()),
                Some(why) => {
                    let source = std::io::Error::other(format!("a copy of it has failed: {why}"));
                    Err(DiskError::new(Operation::Read, &lost, None, source))
                }
            }
        };
        gather(request, &parts, &self.now, self.former.file(), Box::new(at_end));
    }

    fn statistics(&self) -> &FileStatistics {
        self.now.statistics()
    }
}
