//! The copy file: what it has, how it is written and opened.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use hobt_base::crc32c;
use parking_lot::{Mutex, RwLock};

use super::view::FormerView;
use crate::buffer::AlignedBuffer;
use crate::disk::{Disk, DiskFile, OpenOptions};
use crate::error::{DiskError, Operation, Result};
use crate::overlay::{BLOCK_BYTES, BlockMap, Source, parts_of};

const BLOCK: u64 = BLOCK_BYTES as u64;
const MAGIC: &[u8; 16] = b"hobt former 1\n\0\0";
const BATCH_MAGIC: &[u8; 8] = b"former b";
/// The blocks of a batch, at most: 8 MiB.
const BATCH_MAX: usize = 1024;
/// Bytes that are written back by one transfer, at most.
const STRETCH_BYTES: usize = 1 << 20;
/// Where the numbers of a batch begin in its first block.
const NUMBERS_AT: usize = 64;
const _: () = assert!(NUMBERS_AT + BATCH_MAX * 4 < BLOCK_BYTES - 4, "the numbers of a batch and its checksum fit");

/// What the header of a copy file says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FormerIdentity {
    /// The guid of the database of the file.
    pub owner: [u8; 16],
    /// Which of the owner's files.
    pub file: u16,
    /// Tells apart copies of the same file.
    pub salt: u64,
    /// The blocks that the file had at the moment.
    pub blocks: u64,
}

/// The former blocks of a file, in a copy file.
pub struct FormerBlocks {
    file: Arc<dyn DiskFile>,
    disk: Arc<dyn Disk>,
    path: PathBuf,
    identity: FormerIdentity,
    map: RwLock<BlockMap>,
    writing: Mutex<Writing>,
    /// Why the moment is lost.
    lost: OnceLock<String>,
    /// The copy file of a lost moment is gone, durably: from then on blocks are overwritten.
    gone: OnceLock<()>,
    /// It is dropped: nothing more is copied.
    retired: OnceLock<()>,
}

impl std::fmt::Debug for FormerBlocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FormerBlocks").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Where the next batch goes.
struct Writing {
    /// In blocks of the copy file.
    next: u64,
    /// The number of the next batch.
    number: u64,
}

fn put(block: &mut [u8], at: usize, bytes: &[u8]) {
    block[at..at + bytes.len()].copy_from_slice(bytes);
}

fn u64_at(block: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(block[at..at + 8].try_into().expect("eight bytes"))
}

fn u32_at(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"))
}

/// Puts a checksum of the rest at the end of a block.
fn seal(block: &mut [u8]) {
    let (rest, end) = block.split_at_mut(BLOCK_BYTES - 4);
    end.copy_from_slice(&crc32c(rest).to_le_bytes());
}

fn is_sealed(block: &[u8]) -> bool {
    crc32c(&block[..BLOCK_BYTES - 4]) == u32_at(block, BLOCK_BYTES - 4)
}

impl FormerIdentity {
    /// What the header of the file at a path says; `None` if it is no copy file.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    pub fn at(disk: &dyn Disk, path: &Path) -> Result<Option<FormerIdentity>> {
        let file = disk.open(path, OpenOptions { create_new: false, read_only: true, direct: true })?;
        if file.size()? < BLOCK {
            return Ok(None);
        }
        let mut first = AlignedBuffer::new(BLOCK_BYTES)?;
        file.read_at(&mut first, 0)?;
        Ok(FormerIdentity::read(&first))
    }

    fn write(&self, block: &mut [u8]) {
        put(block, 0, MAGIC);
        put(block, 16, &self.owner);
        put(block, 32, &self.salt.to_le_bytes());
        put(block, 40, &self.blocks.to_le_bytes());
        put(block, 48, &self.file.to_le_bytes());
        seal(block);
    }

    fn read(block: &[u8]) -> Option<FormerIdentity> {
        (block.starts_with(MAGIC) && is_sealed(block)).then(|| FormerIdentity {
            owner: block[16..32].try_into().expect("sixteen bytes"),
            salt: u64_at(block, 32),
            blocks: u64_at(block, 40),
            file: u16::from_le_bytes([block[48], block[49]]),
        })
    }
}

impl FormerBlocks {
    /// Makes a copy file. It must not exist. The caller makes its name durable.
    ///
    /// # Errors
    /// `AlreadyExists`, `NoSpace`, `Io`; a file that was made is removed then.
    pub fn create(disk: &Arc<dyn Disk>, path: &Path, identity: FormerIdentity) -> Result<Arc<FormerBlocks>> {
        let file = disk.open(path, OpenOptions { create_new: true, read_only: false, direct: true })?;
        let made = file.try_lock_exclusive().and_then(|()| {
            let mut header = AlignedBuffer::new(BLOCK_BYTES)?;
            identity.write(&mut header);
            file.write_at(&header, 0)?;
            file.sync()
        });
        if let Err(error) = made {
            drop(file);
            // The first error is the one to report.
            let _gone = disk.remove(path);
            return Err(error);
        }
        Ok(FormerBlocks::over(disk, path, file, identity, (BlockMap::default(), 1, 1)))
    }

    fn over(
        disk: &Arc<dyn Disk>,
        path: &Path,
        file: Arc<dyn DiskFile>,
        identity: FormerIdentity,
        (map, next, number): (BlockMap, u64, u64),
    ) -> Arc<FormerBlocks> {
        Arc::new(FormerBlocks {
            file,
            disk: Arc::clone(disk),
            path: path.to_path_buf(),
            identity,
            map: RwLock::new(map),
            writing: Mutex::new(Writing { next, number }),
            lost: OnceLock::new(),
            gone: OnceLock::new(),
            retired: OnceLock::new(),
        })
    }

    /// Opens a copy file, which `lock` locks, and reads the first block of each batch. Blocks.
    ///
    /// # Errors
    /// `NotFound`, `Io`, those of `lock`; `Ok(None)` if it is no copy file, or a damaged one.
    pub fn open(
        disk: &Arc<dyn Disk>,
        path: &Path,
        lock: impl FnOnce(&dyn DiskFile) -> Result<()>,
    ) -> Result<Option<Arc<FormerBlocks>>> {
        let file = disk.open(path, OpenOptions { create_new: false, read_only: false, direct: true })?;
        lock(&*file)?;
        let size = file.size()?;
        if size < BLOCK {
            return Ok(None);
        }
        let mut first = AlignedBuffer::new(BLOCK_BYTES)?;
        file.read_at(&mut first, 0)?;
        let Some(identity) = FormerIdentity::read(&first) else { return Ok(None) };
        let Some(found) = (Walk { file: &*file, identity, size }).run(&mut first)? else { return Ok(None) };
        // What was read may not be durable yet: a program that was killed leaves it to the system.
        file.sync()?;
        Ok(Some(FormerBlocks::over(disk, path, file, identity, found)))
    }

    /// What its header says.
    pub fn identity(&self) -> FormerIdentity {
        self.identity
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Why the moment is lost, if it is.
    pub fn lost(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    /// Nothing more is copied: for a copy that is dropped. Blocks while something is being copied: afterwards the file
    /// at its path is left alone.
    pub fn retire(&self) {
        self.retired.get_or_init(|| ());
        let _none_is_under_way = self.writing.lock();
        self.release();
    }

    /// Gives back the room of the file, which is removed or about to be, and that of the map: guards keep the copy
    /// until their file is closed.
    fn release(&self) {
        // A file that keeps its room has it until it is closed.
        let _kept = self.file.set_size(0);
        *self.map.write() = BlockMap::default();
    }

    /// Whether nothing more is copied.
    pub fn is_over(&self) -> bool {
        self.gone.get().is_some() || self.retired.get().is_some()
    }

    /// The file as it was at the moment, over the file as it is now.
    pub fn view(self: &Arc<FormerBlocks>, now: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(FormerView::new(Arc::clone(self), now))
    }

    /// Writes all copied blocks back to the file, gives it the size that it had, and makes it durable. Blocks.
    ///
    /// # Errors
    /// Those of both files; the moment is lost.
    pub fn write_back(&self, now: &dyn DiskFile) -> Result<()> {
        if let Some(why) = self.lost() {
            let source = std::io::Error::other(why.to_owned());
            return Err(DiskError::new(Operation::Read, &self.path, None, source));
        }
        let (size, mut buffer) = (self.identity.blocks * BLOCK, AlignedBuffer::new(STRETCH_BYTES)?);
        for stretch in (0..size).step_by(STRETCH_BYTES) {
            let bytes = (size - stretch).min(STRETCH_BYTES as u64) as usize;
            let parts = parts_of(&self.map.read(), size, stretch, bytes);
            let mut at = stretch;
            for part in parts {
                if part.source == Source::Store {
                    self.file.read_at(&mut buffer[..part.bytes], part.offset)?;
                    now.write_at(&buffer[..part.bytes], at)?;
                }
                at += part.bytes as u64;
            }
        }
        // Pages behind the end would be found there by later growth, with positions in a log that is no more.
        now.set_size(size)?;
        now.sync()
    }

    pub(super) fn file(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }

    pub(super) fn map(&self) -> &RwLock<BlockMap> {
        &self.map
    }

    /// The blocks of a range that are not copied yet.
    pub(super) fn missing(&self, ranges: &[Range<u64>]) -> Vec<u64> {
        let map = self.map.read();
        let all = ranges.iter().flat_map(|range| range.start..range.end.min(self.identity.blocks));
        all.filter(|block| map.get(*block).is_none()).collect()
    }

    /// Copies the blocks of some ranges that are not copied yet. They are durable when it returns. Blocks.
    ///
    /// # Errors
    /// A copy has failed, and the copy file could not be removed: the blocks must not be overwritten.
    pub(super) fn save(&self, now: &dyn DiskFile, ranges: &[Range<u64>]) -> Result<()> {
        if self.is_over() || self.missing(ranges).is_empty() {
            return Ok(());
        }
        let mut writing = self.writing.lock();
        // Another thread may have copied them meanwhile, or failed.
        let missing = self.missing(ranges);
        if self.is_over() {
            return Ok(());
        }
        if self.lost().is_some() {
            return self.remove();
        }
        let saved = missing.chunks(BATCH_MAX).try_for_each(|blocks| self.save_batch(&mut writing, now, blocks));
        saved.or_else(|error| self.lose(&error))
    }

    fn save_batch(&self, writing: &mut Writing, now: &dyn DiskFile, blocks: &[u64]) -> Result<()> {
        let mut batch = AlignedBuffer::new((1 + blocks.len()) * BLOCK_BYTES)?;
        let (first, copies) = batch.split_at_mut(BLOCK_BYTES);
        let mut from = 0;
        while from < blocks.len() {
            let in_a_row =
                blocks[from..].iter().zip(blocks[from]..).take_while(|(block, next)| **block == *next).count();
            let into = &mut copies[from * BLOCK_BYTES..(from + in_a_row) * BLOCK_BYTES];
            now.read_at(into, blocks[from] * BLOCK)?;
            from += in_a_row;
        }
        put(first, 0, BATCH_MAGIC);
        put(first, 8, &self.identity.salt.to_le_bytes());
        put(first, 16, &writing.number.to_le_bytes());
        put(first, 24, &(blocks.len() as u32).to_le_bytes());
        put(first, 28, &crc32c(copies).to_le_bytes());
        for (block, at) in blocks.iter().zip((NUMBERS_AT..).step_by(4)) {
            let number = u32::try_from(*block).map_err(|_| self.too_large())?;
            put(first, at, &number.to_le_bytes());
        }
        seal(first);
        let slot = u32::try_from(writing.next + 1).map_err(|_| self.too_large())?;
        self.file.write_at(&batch, writing.next * BLOCK)?;
        self.file.sync()?;
        let mut map = self.map.write();
        for (block, slot) in blocks.iter().zip(slot..) {
            map.set(*block, slot);
        }
        writing.next += 1 + blocks.len() as u64;
        writing.number += 1;
        Ok(())
    }

    fn too_large(&self) -> DiskError {
        let source = std::io::Error::new(std::io::ErrorKind::FileTooLarge, "a copy file has at most 32 TiB");
        DiskError::new(Operation::Write, &self.path, None, source)
    }

    /// Gives the moment up, durably: the copy file is gone.
    fn lose(&self, why: &DiskError) -> Result<()> {
        self.lost.get_or_init(|| why.to_string());
        self.remove()
    }

    /// Removes the file of a lost moment. Until that is durable no block may be overwritten: after a crash the file
    /// would be taken for complete.
    fn remove(&self) -> Result<()> {
        if self.is_over() {
            return Ok(());
        }
        match self.disk.remove(&self.path) {
            Ok(()) | Err(DiskError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        self.path.parent().map_or(Ok(()), |folder| self.disk.sync_directory(folder))?;
        self.gone.get_or_init(|| ());
        self.release();
        Ok(())
    }
}

/// The search for the batches of a copy file.
struct Walk<'a> {
    file: &'a dyn DiskFile,
    identity: FormerIdentity,
    size: u64,
}

impl Walk<'_> {
    /// Returns the map, the block behind the last batch, and the number of the next one. `None` if a batch is damaged
    /// that others follow.
    fn run(&self, first: &mut AlignedBuffer) -> Result<Option<(BlockMap, u64, u64)>> {
        let mut map = BlockMap::default();
        let (mut at, mut number) = (1, 1);
        // Only of the last batch the blocks may not be there: its numbers wait until another one is found behind it.
        let mut last: Option<(u64, Vec<u32>, u32)> = None;
        while let Some((numbers, checksum)) = self.batch(at, number, first)? {
            if let Some((slot, numbers, _)) = last.take() {
                note(&mut map, slot, &numbers);
            }
            let next = at + 1 + numbers.len() as u64;
            last = Some((at + 1, numbers, checksum));
            (at, number) = (next, number + 1);
        }
        if let Some((slot, numbers, checksum)) = last {
            let mut copies = AlignedBuffer::new(numbers.len() * BLOCK_BYTES)?;
            self.file.read_at(&mut copies, slot * BLOCK)?;
            if crc32c(&copies) == checksum {
                note(&mut map, slot, &numbers);
            } else {
                // It was not durable when a crash came, and nothing was overwritten for it.
                (at, number) = (slot - 1, number - 1);
            }
        }
        let is_whole = !self.goes_on(at, number, first)?;
        Ok(is_whole.then_some((map, at, number)))
    }

    /// Whether batches follow the one that would be next: it was durable before they were begun.
    fn goes_on(&self, at: u64, number: u64, first: &mut AlignedBuffer) -> Result<bool> {
        let (end, most) = (self.size / BLOCK, at + 1 + BATCH_MAX as u64);
        if end > most {
            return Ok(true);
        }
        for block in at + 1..end {
            self.file.read_at(first, block * BLOCK)?;
            let is_batch = first.starts_with(BATCH_MAGIC) && is_sealed(first) && u64_at(first, 8) == self.identity.salt;
            if is_batch && u64_at(first, 16) > number {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The numbers and the checksum of the batch at a block; `None` if there is none.
    fn batch(&self, at: u64, number: u64, first: &mut AlignedBuffer) -> Result<Option<(Vec<u32>, u32)>> {
        if (at + 1) * BLOCK > self.size {
            return Ok(None);
        }
        self.file.read_at(first, at * BLOCK)?;
        let count = u32_at(first, 24) as usize;
        let is_one = first.starts_with(BATCH_MAGIC)
            && is_sealed(first)
            && u64_at(first, 8) == self.identity.salt
            && u64_at(first, 16) == number
            && (1..=BATCH_MAX).contains(&count)
            && (at + 1 + count as u64) * BLOCK <= self.size;
        if !is_one {
            return Ok(None);
        }
        let numbers: Vec<u32> = (0..count).map(|index| u32_at(first, NUMBERS_AT + index * 4)).collect();
        let are_inside = numbers.iter().all(|block| u64::from(*block) < self.identity.blocks);
        Ok(are_inside.then(|| (numbers, u32_at(first, 28))))
    }
}

fn note(map: &mut BlockMap, slot: u64, numbers: &[u32]) {
    for (block, slot) in numbers.iter().zip(slot..) {
        // Behind 32 TiB nothing is written.
        let Ok(slot) = u32::try_from(slot) else { return };
        map.set(u64::from(*block), slot);
    }
}
