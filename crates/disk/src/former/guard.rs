//! The file in front of one whose former blocks may be wanted.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{RwLock, RwLockWriteGuard};

use super::FormerBlocks;
use crate::disk::DiskFile;
use crate::error::Result;
use crate::overlay::{BLOCK_BYTES, complete};
use crate::queue::{Direction, Request};
use crate::statistics::FileStatistics;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// A file whose blocks are copied before they are overwritten, for each copy that does not have them yet.
pub struct CopyGuard {
    inner: Arc<dyn DiskFile>,
    /// Held shared by every write.
    copies: RwLock<Vec<Arc<FormerBlocks>>>,
}

impl std::fmt::Debug for CopyGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CopyGuard").field("path", &self.inner.path()).finish_non_exhaustive()
    }
}

/// Exclusive use of a guard: while it lives, every write to the file waits.
pub struct HeldGuard<'a> {
    copies: RwLockWriteGuard<'a, Vec<Arc<FormerBlocks>>>,
}

impl std::fmt::Debug for HeldGuard<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeldGuard").field("copies", &self.copies.len()).finish()
    }
}

impl HeldGuard<'_> {
    /// From now on what is overwritten is copied before.
    pub fn arm(&mut self, copy: Arc<FormerBlocks>) {
        self.copies.retain(|other| !other.is_over() && !Arc::ptr_eq(other, &copy));
        self.copies.push(copy);
    }
}

/// The blocks that a range of bytes touches.
fn blocks_of(offset: u64, bytes: usize) -> Range<u64> {
    offset / BLOCK..offset.saturating_add(bytes as u64).div_ceil(BLOCK)
}

impl CopyGuard {
    /// A guard in front of a file, with no copies.
    pub fn new(inner: Arc<dyn DiskFile>) -> Arc<CopyGuard> {
        Arc::new(CopyGuard { inner, copies: RwLock::default() })
    }

    /// Keeps writes out until the result is dropped. Waits for those under way, apart from submitted ones.
    pub fn hold(&self) -> HeldGuard<'_> {
        HeldGuard { copies: self.copies.write() }
    }

    fn save(&self, copies: &[Arc<FormerBlocks>], ranges: &[Range<u64>]) -> Result<()> {
        copies.iter().try_for_each(|copy| copy.save(&*self.inner, ranges))
    }
}

impl DiskFile for CopyGuard {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn is_direct(&self) -> bool {
        self.inner.is_direct()
    }

    fn size(&self) -> Result<u64> {
        self.inner.size()
    }

    fn device_free_bytes(&self) -> Result<u64> {
        self.inner.device_free_bytes()
    }

    fn set_size(&self, bytes: u64) -> Result<()> {
        let copies = self.copies.read();
        if !copies.is_empty() {
            let before = self.inner.size()?;
            let cut_off = bytes / BLOCK..before.div_ceil(BLOCK);
            self.save(&copies, std::slice::from_ref(&cut_off))?;
        }
        self.inner.set_size(bytes)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        let copies = self.copies.read();
        self.save(&copies, std::slice::from_ref(&blocks_of(offset, buffer.len())))?;
        self.inner.write_at(buffer, offset)
    }

    fn write_durable_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        let copies = self.copies.read();
        self.save(&copies, std::slice::from_ref(&blocks_of(offset, buffer.len())))?;
        self.inner.write_durable_at(buffer, offset)
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn try_lock_exclusive(&self) -> Result<()> {
        self.inner.try_lock_exclusive()
    }

    fn try_lock_shared(&self) -> Result<()> {
        self.inner.try_lock_shared()
    }

    fn submit(&self, request: Request) {
        if request.direction == Direction::Read {
            return self.inner.submit(request);
        }
        let copies = self.copies.read();
        let blocks = blocks_of(request.offset, request.buffer.len());
        match self.save(&copies, std::slice::from_ref(&blocks)) {
            Ok(()) => self.inner.submit(request),
            Err(error) => complete(request, Err(error)),
        }
    }

    fn statistics(&self) -> &FileStatistics {
        self.inner.statistics()
    }

    fn wants_notice(&self) -> bool {
        self.copies.read().iter().any(|copy| !copy.is_over())
    }

    fn notice(&self, ranges: &[Range<u64>]) -> Result<()> {
        let blocks: Vec<Range<u64>> =
            ranges.iter().map(|range| range.start / BLOCK..range.end.div_ceil(BLOCK)).collect();
        let copies = self.copies.read();
        self.save(&copies, &blocks)
    }
}
