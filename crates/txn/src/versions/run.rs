//! The versions of a generation on disk: sorted by place, in blocks, and never changed.
//!
//! ```text
//!   file    block, block, ...
//!   block   CRC-32C, then entries: bytes shared with the place before, length of the rest, the rest of the place,
//!           length of the versions, the versions
//! ```
//!
//! In memory are the first place of each block, and the blocks that were read last: workers of a scan, and look-ups,
//! are at several places of a run.

use std::sync::Arc;

use hobt_base::crc32c;
use hobt_instruments::schedule::Mutex;
use hobt_page::{EncodingDamage, EncodingReader, put_number};

use super::space::{SpaceError, VersionError, VersionFile, VersionSpace};

/// The bytes of a block, unless one entry is longer. Unit tests have runs of few entries in many blocks.
const BLOCK_BYTES: usize = if cfg!(test) { 100 } else { 32 << 10 };
/// The bytes that are written at once.
const WRITE_BYTES: usize = 1 << 20;
const CHECKSUM_BYTES: usize = 4;
/// One of so many blocks of a run stays in memory when it was read, within these bounds.
const BLOCKS_FOR_CACHED: usize = 64;
const CACHED_MIN: usize = 2;
const CACHED_MAX: usize = 8;

/// Where a block lies.
#[derive(Debug)]
struct BlockAt {
    offset: u64,
    bytes: u32,
    /// The end of its first place in [`Run::places`].
    place_end: u32,
}

/// A block in memory.
#[derive(Debug)]
struct Block {
    /// The places, one after the other.
    places: Vec<u8>,
    bytes: Vec<u8>,
    /// For each entry, the end of its place, and the range of its versions in `bytes`.
    entries: Vec<(u32, u32, u32)>,
}

impl Block {
    fn decode(bytes: Vec<u8>) -> Result<Block, EncodingDamage> {
        let mut reader = EncodingReader::new(&bytes[CHECKSUM_BYTES..]);
        let (mut places, mut entries): (Vec<u8>, Vec<(u32, u32, u32)>) = (Vec::new(), Vec::new());
        let damage = EncodingDamage { rule: "a length" };
        let narrow = |length: usize| u32::try_from(length).map_err(|_| damage);
        let (mut before, mut left) = (0..0, bytes.len() - CHECKSUM_BYTES);
        while left > 0 {
            let shared = usize::try_from(reader.number()?).map_err(|_| damage)?;
            let rest = usize::try_from(reader.number()?).map_err(|_| damage)?;
            let rest = reader.bytes(rest)?;
            let start = places.len();
            let same = before.start..before.start + shared;
            if same.end > before.end {
                return Err(damage);
            }
            places.extend_from_within(same);
            places.extend_from_slice(rest);
            before = start..places.len();
            let length = usize::try_from(reader.number()?).map_err(|_| damage)?;
            reader.bytes(length)?;
            left = reader.left();
            let end = bytes.len() - left;
            entries.push((narrow(places.len())?, narrow(end - length)?, narrow(end)?));
        }
        Ok(Block { places, bytes, entries })
    }

    fn place(&self, entry: usize) -> &[u8] {
        let start = entry.checked_sub(1).map_or(0, |before| self.entries[before].0);
        &self.places[start as usize..self.entries[entry].0 as usize]
    }

    fn versions(&self, entry: usize) -> &[u8] {
        let (_, start, end) = self.entries[entry];
        &self.bytes[start as usize..end as usize]
    }

    /// The first entry from a place on.
    fn first_from(&self, place: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.entries.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.place(middle) < place { low = middle + 1 } else { high = middle }
        }
        low
    }
}

/// A sorted file of versions.
#[derive(Debug)]
pub(super) struct Run {
    file: Box<dyn VersionFile>,
    /// The first places of the blocks, one after the other.
    places: Vec<u8>,
    blocks: Vec<BlockAt>,
    last_place: Vec<u8>,
    /// The blocks that were read last, the last one first.
    cached: Mutex<Vec<(usize, Arc<Block>)>>,
    /// The bytes of the file.
    pub(super) file_bytes: u64,
    /// The number of pages and keys.
    pub(super) entries: u64,
}

impl Run {
    fn first_place(&self, block: usize) -> &[u8] {
        let start = block.checked_sub(1).map_or(0, |before| self.blocks[before].place_end);
        &self.places[start as usize..self.blocks[block].place_end as usize]
    }

    /// The last block that begins at or before a place, or the first one.
    fn block_of(&self, place: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.blocks.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.first_place(middle) <= place { low = middle + 1 } else { high = middle }
        }
        low.saturating_sub(1)
    }

    /// Whether it may have something from `low` on and below `high`.
    pub(super) fn may_have(&self, low: &[u8], high: Option<&[u8]>) -> bool {
        !self.blocks.is_empty()
            && self.last_place.as_slice() >= low
            && high.is_none_or(|high| self.first_place(0) < high)
    }

    /// The first place of the block behind the one that may have `place`; `None` if there is none.
    pub(super) fn next_block(&self, place: &[u8]) -> Option<&[u8]> {
        let next = self.block_of(place) + 1;
        (next < self.blocks.len()).then(|| self.first_place(next))
    }

    fn block(&self, number: usize) -> Result<Arc<Block>, VersionError> {
        {
            let mut cached = self.cached.lock();
            if let Some(at) = cached.iter().position(|(known, _)| *known == number) {
                cached[..=at].rotate_right(1);
                return Ok(Arc::clone(&cached[0].1));
            }
        }
        let block = self.read_block(number)?;
        let mut cached = self.cached.lock();
        // Another thread may have read it meanwhile.
        if cached.iter().all(|(known, _)| *known != number) {
            cached.truncate(self.cached_max() - 1);
            cached.insert(0, (number, Arc::clone(&block)));
        }
        Ok(block)
    }

    /// The number of blocks that stay in memory.
    fn cached_max(&self) -> usize {
        (self.blocks.len() / BLOCKS_FOR_CACHED).clamp(CACHED_MIN, CACHED_MAX)
    }

    /// Reads a block from the file.
    fn read_block(&self, number: usize) -> Result<Arc<Block>, VersionError> {
        let at = &self.blocks[number];
        let mut bytes = vec![0; at.bytes as usize];
        self.file.read_at(&mut bytes, at.offset)?;
        let sum = u32::from_le_bytes(*bytes.first_chunk().expect("a checksum"));
        if sum != crc32c(&bytes[CHECKSUM_BYTES..]) {
            return Err(VersionError::Unreadable(format!("the checksum of the block at offset {}", at.offset)));
        }
        let block = Block::decode(bytes).map_err(|EncodingDamage { rule }| {
            VersionError::Unreadable(format!("{rule}, in the block at offset {}", at.offset))
        })?;
        Ok(Arc::new(block))
    }

    /// Shows the entries from `low` on and below `high` in the order of their places, until `show` returns `false`.
    /// Blocks.
    pub(super) fn each(
        &self,
        low: &[u8],
        high: Option<&[u8]>,
        mut show: impl FnMut(&[u8], &[u8]) -> Result<bool, VersionError>,
    ) -> Result<(), VersionError> {
        if !self.may_have(low, high) {
            return Ok(());
        }
        for number in self.block_of(low)..self.blocks.len() {
            let block = self.block(number)?;
            for entry in block.first_from(low)..block.entries.len() {
                let place = block.place(entry);
                if high.is_some_and(|high| place >= high) || !show(place, block.versions(entry))? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The versions at a place. Blocks.
    pub(super) fn find(&self, place: &[u8]) -> Result<Option<Vec<u8>>, VersionError> {
        if !self.may_have(place, None) {
            return Ok(None);
        }
        let block = self.block(self.block_of(place))?;
        let at = block.first_from(place);
        Ok((at < block.entries.len() && block.place(at) == place).then(|| block.versions(at).to_vec()))
    }

    /// Bytes of memory that it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        // A block with its entries is less than three times its bytes.
        let cached = 3 * self.file_bytes.min((self.cached_max() * BLOCK_BYTES) as u64) as usize;
        self.places.capacity() + self.blocks.capacity() * size_of::<BlockAt>() + cached
    }
}

/// A walk over all entries of a run, in the order of their places.
pub(super) struct Cursor<'r> {
    run: &'r Run,
    /// The current block, and the entry in it; `None` at the end.
    at: Option<(usize, Arc<Block>, usize)>,
}

impl<'r> Cursor<'r> {
    /// At the first entry. Blocks.
    pub(super) fn new(run: &'r Run) -> Result<Cursor<'r>, VersionError> {
        let mut cursor = Cursor { run, at: None };
        cursor.enter(0)?;
        Ok(cursor)
    }

    fn enter(&mut self, block: usize) -> Result<(), VersionError> {
        let is_one = block < self.run.blocks.len();
        self.at = if is_one { Some((block, self.run.read_block(block)?, 0)) } else { None };
        Ok(())
    }

    /// The place of the current entry; `None` at the end.
    pub(super) fn place(&self) -> Option<&[u8]> {
        self.at.as_ref().map(|(_, block, entry)| block.place(*entry))
    }

    /// The versions of the current entry.
    pub(super) fn versions(&self) -> &[u8] {
        self.at.as_ref().map_or(&[], |(_, block, entry)| block.versions(*entry))
    }

    /// Goes to the next entry. Blocks.
    pub(super) fn advance(&mut self) -> Result<(), VersionError> {
        let Some((number, block, entry)) = &mut self.at else { return Ok(()) };
        *entry += 1;
        if *entry < block.entries.len() {
            return Ok(());
        }
        let next = *number + 1;
        self.enter(next)
    }
}

/// Writes a run.
pub(super) struct RunWriter {
    file: Box<dyn VersionFile>,
    places: Vec<u8>,
    blocks: Vec<BlockAt>,
    /// The blocks that are not in the file yet.
    out: Vec<u8>,
    /// Where the current block begins in `out`.
    block_at: usize,
    written: u64,
    last_place: Vec<u8>,
    entries: u64,
}

impl RunWriter {
    /// Creates a file.
    pub(super) fn new(space: &Arc<dyn VersionSpace>) -> Result<RunWriter, SpaceError> {
        Ok(RunWriter {
            file: Arc::clone(space).create_file()?,
            places: Vec::new(),
            blocks: Vec::new(),
            out: Vec::with_capacity(WRITE_BYTES + BLOCK_BYTES),
            block_at: 0,
            written: 0,
            last_place: Vec::new(),
            entries: 0,
        })
    }

    /// Adds an entry, whose place is behind that of the last one. Blocks now and then.
    pub(super) fn add(&mut self, place: &[u8], versions: &[u8]) -> Result<(), SpaceError> {
        if self.out.len() - self.block_at >= BLOCK_BYTES {
            self.end_block()?;
        }
        let is_first = self.out.len() == self.block_at;
        if is_first {
            self.out.extend_from_slice(&[0; CHECKSUM_BYTES]);
            self.places.extend_from_slice(place);
        }
        let same = self.last_place.iter().zip(place).take_while(|(one, other)| one == other).count();
        let shared = if is_first { 0 } else { same };
        put_number(&mut self.out, shared as u64);
        put_number(&mut self.out, (place.len() - shared) as u64);
        self.out.extend_from_slice(&place[shared..]);
        put_number(&mut self.out, versions.len() as u64);
        self.out.extend_from_slice(versions);
        self.last_place.clear();
        self.last_place.extend_from_slice(place);
        self.entries += 1;
        Ok(())
    }

    fn end_block(&mut self) -> Result<(), SpaceError> {
        if self.out.len() == self.block_at {
            return Ok(());
        }
        let too_long = |_| SpaceError { message: "a block of row versions is too long".to_owned(), is_full: false };
        let sum = crc32c(&self.out[self.block_at + CHECKSUM_BYTES..]);
        self.out[self.block_at..][..CHECKSUM_BYTES].copy_from_slice(&sum.to_le_bytes());
        self.blocks.push(BlockAt {
            offset: self.written + self.block_at as u64,
            bytes: u32::try_from(self.out.len() - self.block_at).map_err(too_long)?,
            place_end: u32::try_from(self.places.len()).map_err(too_long)?,
        });
        self.block_at = self.out.len();
        if self.out.len() >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), SpaceError> {
        self.file.append(&self.out)?;
        self.written += self.out.len() as u64;
        self.out.clear();
        self.block_at = 0;
        Ok(())
    }

    /// Ends the file. Blocks.
    pub(super) fn finish(mut self) -> Result<Run, SpaceError> {
        self.end_block()?;
        self.write()?;
        self.places.shrink_to_fit();
        self.blocks.shrink_to_fit();
        Ok(Run {
            file: self.file,
            places: self.places,
            blocks: self.blocks,
            last_place: self.last_place,
            cached: Mutex::default(),
            file_bytes: self.written,
            entries: self.entries,
        })
    }
}
