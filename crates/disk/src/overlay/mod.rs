//! A file over another one: what is written goes to a third file, and the other one stays as it is.
//!
//! ```text
//!   reads ──► OverlayFile ── block in the map? ── yes ──► the overlay's file, at the block's slot
//!                                  │
//!                                  └── no ──► the base, or zeros behind its end
//!   writes ─► OverlayFile ──► the overlay's file; a block that is written first gets the next slot
//! ```
//!
//! One [`Overlay`] takes the blocks of several files, each with a map of its own. A block has [`BLOCK_BYTES`]; a write
//! of a part of one copies the rest of it from the base. Slots follow one another in the order of first writes and are
//! not used again.
//!
//! An overlay is for one opening: the maps are in memory only, and nothing is made durable. Each opening of the
//! files makes it anew. A map takes four bytes for each block of a piece of 64 that has a written one, and
//! eight bytes for each piece: at most 1/2048 of the size of its file, and 1/65536 of it.
//!
//! Left to others: what the first slot of the file says (the caller's), when an overlay is made and dropped.

mod gather;
mod map;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::buffer::{AlignedBuffer, IoBuffer};
use crate::disk::DiskFile;
use crate::error::{DiskError, Operation, Poison, Result};
use crate::queue::{Completion, Direction, Request};
use crate::statistics::FileStatistics;
pub(crate) use gather::gather;
pub(crate) use map::BlockMap;

/// The bytes of a block, and of a slot.
pub const BLOCK_BYTES: usize = 8192;
const BLOCK: u64 = BLOCK_BYTES as u64;

/// A file that takes what is written to other files.
pub struct Overlay {
    store: Arc<Store>,
}

impl std::fmt::Debug for Overlay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Overlay").field("path", &self.store.file.path()).finish_non_exhaustive()
    }
}

/// The file of an overlay.
struct Store {
    file: Arc<dyn DiskFile>,
    /// The next slot. The first one is the caller's.
    next: AtomicU64,
    /// The first write that failed.
    poison: Poison,
}

impl Overlay {
    /// An overlay whose blocks go to `file`, from the second slot on. What the file has there does not matter.
    pub fn new(file: Arc<dyn DiskFile>) -> Overlay {
        Overlay { store: Arc::new(Store { file, next: AtomicU64::new(1), poison: Poison::default() }) }
    }

    /// A file that reads as `base` until it is written to. `base` must not change while the result is in use.
    ///
    /// # Errors
    /// The size of `base` cannot be read.
    pub fn over(&self, base: Arc<dyn DiskFile>) -> Result<Arc<dyn DiskFile>> {
        let size = base.size()?;
        let state = RwLock::new(State { size, base_bytes: size, map: BlockMap::default() });
        Ok(Arc::new(OverlayFile { store: Arc::clone(&self.store), base, state, first_writes: Mutex::new(()) }))
    }

    /// Blocks that were written.
    pub fn blocks(&self) -> u64 {
        self.store.next.load(Ordering::Relaxed) - 1
    }
}

/// What is known of a file.
#[derive(Debug)]
struct State {
    /// Bytes in the file.
    size: u64,
    /// The bytes of the base that still count: it may have been cut short in between.
    base_bytes: u64,
    map: BlockMap,
}

/// Where a part of a file lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The file beneath.
    Base,
    /// The file with the blocks of the map.
    Store,
    /// Nowhere.
    Zeros,
}

/// A part of a transfer that lies in one place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) source: Source,
    /// The first byte there.
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
}

impl State {
    fn parts(&self, offset: u64, bytes: usize) -> Vec<Part> {
        parts_of(&self.map, self.base_bytes, offset, bytes)
    }
}

/// The parts of a range of a file, in order: blocks of the map, the first `base_bytes` of the file beneath, zeros.
pub(crate) fn parts_of(map: &BlockMap, base_bytes: u64, offset: u64, bytes: usize) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let end = offset + bytes as u64;
    let mut at = offset;
    while at < end {
        let block = at / BLOCK;
        let upto = ((block + 1) * BLOCK).min(end);
        let (source, from, upto) = match map.get(block) {
            Some(slot) => (Source::Store, u64::from(slot) * BLOCK + at % BLOCK, upto),
            None if at < base_bytes => (Source::Base, at, upto.min(base_bytes)),
            None => (Source::Zeros, at, upto),
        };
        let bytes = (upto - at) as usize;
        match parts.last_mut() {
            Some(last) if last.source == source && last.offset + last.bytes as u64 == from => last.bytes += bytes,
            _ => parts.push(Part { source, offset: from, bytes }),
        }
        at = upto;
    }
    parts
}

/// A file over another one.
struct OverlayFile {
    store: Arc<Store>,
    base: Arc<dyn DiskFile>,
    state: RwLock<State>,
    /// Held while blocks get their slots, so that two writers of one block do not both copy the rest of it.
    first_writes: Mutex<()>,
}

impl OverlayFile {
    /// The parts of a range that is read.
    fn parts(&self, offset: u64, bytes: usize) -> Result<Vec<Part>> {
        let state = self.state.read();
        let is_inside = offset.checked_add(bytes as u64).is_some_and(|end| end <= state.size);
        if is_inside { Ok(state.parts(offset, bytes)) } else { Err(self.out_of_range(offset, bytes, state.size)) }
    }

    fn out_of_range(&self, offset: u64, bytes: usize, size: u64) -> DiskError {
        let path = self.base.path().to_path_buf();
        DiskError::OutOfRange { path, offset, length: bytes as u64, transferred: size.saturating_sub(offset) }
    }

    /// Writes to one block, or to several that lie in a row in the overlay's file.
    fn write_to_store(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.store.file.write_at(bytes, offset).inspect_err(|error| self.store.poison.set(error))
    }

    /// Writes a range of which some blocks have no slot yet. The caller holds `first_writes`.
    fn write_first(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let parts = self.state.read().parts(offset, bytes.len());
        let mut at = offset;
        for part in parts {
            let from = (at - offset) as usize;
            let piece = &bytes[from..from + part.bytes];
            match part.source {
                Source::Store => self.write_to_store(piece, part.offset)?,
                // What is not there is zero.
                Source::Zeros if piece.iter().all(|byte| *byte == 0) => {}
                Source::Base | Source::Zeros => self.write_new(piece, at)?,
            }
            at += part.bytes as u64;
        }
        Ok(())
    }

    /// Writes a range whose blocks have no slots yet: the parts of blocks at its ends, and the whole ones between.
    fn write_new(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let end = offset + bytes.len() as u64;
        let mut at = offset;
        while at < end {
            let block = at / BLOCK;
            let from = (at - offset) as usize;
            let is_whole = at.is_multiple_of(BLOCK) && end - at >= BLOCK;
            let upto = if is_whole { end / BLOCK * BLOCK } else { ((block + 1) * BLOCK).min(end) };
            let piece = &bytes[from..from + (upto - at) as usize];
            if is_whole {
                self.give_slots(block, piece)?;
            } else if self.state.read().map.get(block).is_some() {
                // The end of the base divides the block, and its first part has just been written.
                let parts = self.state.read().parts(at, piece.len());
                parts.first().map_or(Ok(()), |part| self.write_to_store(piece, part.offset))?;
            } else {
                let mut whole = self.read_block(block)?;
                let within = (at % BLOCK) as usize;
                whole[within..within + piece.len()].copy_from_slice(piece);
                self.give_slots(block, &whole)?;
            }
            at = upto;
        }
        Ok(())
    }

    /// A block as it is without the overlay.
    fn read_block(&self, block: u64) -> Result<AlignedBuffer> {
        let mut whole = AlignedBuffer::new(BLOCK_BYTES)?;
        let from = block * BLOCK;
        let there = self.state.read().base_bytes.saturating_sub(from).min(BLOCK) as usize;
        if there > 0 {
            self.base.read_at(&mut whole[..there], from)?;
        }
        Ok(whole)
    }

    /// Writes whole blocks to new slots, and puts them into the map when they are there.
    fn give_slots(&self, first: u64, blocks: &[u8]) -> Result<()> {
        let count = (blocks.len() / BLOCK_BYTES) as u64;
        let slot = self.store.next.fetch_add(count, Ordering::Relaxed);
        let full = || {
            let text = "an overlay has at most 32 TiB";
            let source = std::io::Error::new(std::io::ErrorKind::FileTooLarge, text);
            DiskError::new(Operation::Write, self.store.file.path(), None, source)
        };
        let last = u32::try_from(slot + count).map_err(|_| full())?;
        self.write_to_store(blocks, slot * BLOCK)?;
        let mut state = self.state.write();
        for (block, slot) in (first..).zip(last - count as u32..last) {
            state.map.set(block, slot);
        }
        Ok(())
    }

    /// Writes from the memory of a request, on the calling thread.
    fn write_request(&self, buffer: &mut IoBuffer, offset: u64) -> Result<()> {
        let mut pieces = Vec::new();
        buffer.pieces(0, &mut pieces);
        let mut at = offset;
        for piece in &pieces {
            // SAFETY: the piece lies in the request's buffer, which the caller borrows exclusively, or for which the
            // caller of `PinnedSlice::new` vouched until the completion is popped, which is pushed later than this.
            let bytes = unsafe { std::slice::from_raw_parts(piece.iov_base.cast::<u8>().cast_const(), piece.iov_len) };
            self.write_at(bytes, at)?;
            at += piece.iov_len as u64;
        }
        Ok(())
    }
}

impl DiskFile for OverlayFile {
    fn path(&self) -> &Path {
        self.base.path()
    }

    fn is_direct(&self) -> bool {
        self.base.is_direct() || self.store.file.is_direct()
    }

    fn size(&self) -> Result<u64> {
        Ok(self.state.read().size)
    }

    fn device_free_bytes(&self) -> Result<u64> {
        self.store.file.device_free_bytes()
    }

    fn set_size(&self, bytes: u64) -> Result<()> {
        let _alone = self.first_writes.lock();
        self.store.poison.check(self.store.file.path())?;
        let (block, within) = (bytes / BLOCK, (bytes % BLOCK) as usize);
        let slot = {
            let state = self.state.read();
            if within > 0 && bytes < state.size { state.map.get(block) } else { None }
        };
        if let Some(slot) = slot {
            let zeros = AlignedBuffer::new(BLOCK_BYTES)?;
            self.write_to_store(&zeros[within..], u64::from(slot) * BLOCK + within as u64)?;
        }
        let mut state = self.state.write();
        // What is cut off reads as zeros if the file grows again.
        state.base_bytes = state.base_bytes.min(bytes);
        if bytes < state.size {
            state.map.cut(bytes.div_ceil(BLOCK));
        }
        state.size = bytes;
        Ok(())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let mut rest = buffer;
        for part in self.parts(offset, rest.len())? {
            let (piece, behind) = std::mem::take(&mut rest).split_at_mut(part.bytes);
            match part.source {
                Source::Base => self.base.read_at(piece, part.offset)?,
                Source::Store => self.store.file.read_at(piece, part.offset)?,
                Source::Zeros => piece.fill(0),
            }
            rest = behind;
        }
        Ok(())
    }

    fn write_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        self.store.poison.check(self.store.file.path())?;
        let end = offset.checked_add(buffer.len() as u64).ok_or_else(|| self.out_of_range(offset, buffer.len(), 0))?;
        let parts = self.state.read().parts(offset, buffer.len());
        if parts.iter().all(|part| part.source == Source::Store) {
            let mut from = 0;
            for part in parts {
                self.write_to_store(&buffer[from..from + part.bytes], part.offset)?;
                from += part.bytes;
            }
        } else {
            let _alone = self.first_writes.lock();
            self.write_first(buffer, offset)?;
        }
        if end > self.state.read().size {
            let mut state = self.state.write();
            state.size = state.size.max(end);
        }
        Ok(())
    }

    fn write_durable_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        self.write_at(buffer, offset)
    }

    fn sync(&self) -> Result<()> {
        // After a crash the overlay is made anew.
        self.store.poison.check(self.store.file.path())
    }

    fn try_lock_exclusive(&self) -> Result<()> {
        self.base.try_lock_exclusive()
    }

    fn try_lock_shared(&self) -> Result<()> {
        self.base.try_lock_shared()
    }

    fn submit(&self, request: Request) {
        match request.direction {
            Direction::Read => match self.parts(request.offset, request.buffer.len()) {
                Ok(parts) if matches!(parts[..], [Part { source: Source::Base, .. }]) => self.base.submit(request),
                Ok(parts) => gather(request, &parts, &self.base, &self.store.file, Box::new(|_| Ok(()))),
                Err(error) => complete(request, Err(error)),
            },
            // Writers of databases over an overlay write on their own threads; this is for other callers.
            Direction::Write => {
                let mut request = request;
                let written = self.write_request(&mut request.buffer, request.offset);
                complete(request, written);
            }
        }
    }

    fn statistics(&self) -> &FileStatistics {
        // What goes to the overlay's file counts there.
        self.base.statistics()
    }
}

/// Delivers the completion of a request that was executed already.
pub(crate) fn complete(request: Request, result: Result<()>) {
    let Request { direction, offset, buffer, tag, queue } = request;
    queue.expect_one();
    queue.push(Completion { direction, offset, buffer, tag, latency: std::time::Duration::ZERO, result });
}
