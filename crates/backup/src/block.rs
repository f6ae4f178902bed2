//! A block of a backup file.
//!
//! ```text
//!  0 checksum u32 (CRC-32C of bytes 4..96 and the payload as stored) | 4 magic "HBK1"
//!  8 version u16 | 10 kind u8 | 11 encoding u8 (0 as it is, 1 zstd) | 12 stored bytes u32 | 16 payload bytes u32
//! 20 backup set u32 | 24 own position in the file u64 | 32 media set 16 bytes
//! 48 ordinal in the backup set and file u64 | 56 link u64
//! 64 file u16 | 66 stripe u16 | 68 pass u32 | 72 first u64 | 80 count u64 | 88 reserved u64
//! 96 zeros
//! 4096 payload as stored, zeros up to the next 4 KiB
//! ```
//! All numbers are little-endian. `link` of a begin block is the position of the end block, 0 until that is written.
//! `file`, `pass`, `first` and `count` describe the content: pages `first..first + count` of a data file, copied in a
//! pass (a later one holds for the same page), or log records from position `first` on (`count` bytes).

use std::path::Path;

use hobt_base::crc32c;
use hobt_disk::{AlignedBuffer, DiskFile};
use hobt_instruments::{Wait, WaitType};

use crate::BackupError;
use crate::facts::Guid;
use crate::read_ahead::Pieces;

/// Bytes of a block before its payload, and the unit of its length.
pub(crate) const UNIT: usize = 4096;
/// The longest payload.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// The longest block.
pub(crate) const BLOCK_BYTES_MAX: usize = UNIT + PAYLOAD_BYTES_MAX;
/// Bytes of memory for a block: so long that huge pages back it, and a transfer has few segments.
const BUFFER_BYTES: usize = 2 << 20;
const _: () = assert!(BLOCK_BYTES_MAX <= BUFFER_BYTES);
/// The version that this build writes, and the latest that it reads.
pub(crate) const VERSION: u16 = 1;

const MAGIC: [u8; 4] = *b"HBK1";
const FIELDS_END: usize = 96;
/// The level of zstd: the fastest one that is not worse than others at it.
const ZSTD_LEVEL: i32 = 1;

/// What a block is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum BlockKind {
    /// The first block of a file: the media set.
    Label = 1,
    /// The first block of a backup set.
    Begin = 2,
    /// Pages of a data file.
    Data = 3,
    /// Records of the log.
    Log = 4,
    /// The last block of a backup set.
    End = 5,
}

impl BlockKind {
    fn from_byte(byte: u8) -> Option<BlockKind> {
        [BlockKind::Label, BlockKind::Begin, BlockKind::Data, BlockKind::Log, BlockKind::End]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// What the payload of a block is of.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Content {
    /// A data file's id; 0 for the log.
    pub file: u16,
    /// A block of a later pass holds for the same page.
    pub pass: u32,
    /// The first page, or the position of the first record.
    pub first: u64,
    /// Pages, or bytes of records.
    pub count: u64,
}

/// A block's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockHeader {
    pub(crate) kind: BlockKind,
    pub(crate) is_compressed: bool,
    pub(crate) stored: u32,
    pub(crate) payload: u32,
    pub(crate) set: u32,
    pub(crate) position: u64,
    pub(crate) media: Guid,
    pub(crate) ordinal: u64,
    pub(crate) link: u64,
    pub(crate) stripe: u16,
    pub(crate) content: Content,
}

/// Why there is no block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoBlock {
    /// The bytes are none.
    Other,
    /// A later version wrote it.
    Version(u16),
}

impl BlockHeader {
    /// Bytes of the whole block.
    pub(crate) fn block_bytes(&self) -> u64 {
        block_bytes(self.stored as usize) as u64
    }

    /// Reads the header at the front of `bytes`, which may be anything. The checksum is not checked.
    pub(crate) fn read(bytes: &[u8]) -> Result<BlockHeader, NoBlock> {
        let Some(fields) = bytes.first_chunk::<FIELDS_END>().filter(|fields| fields[4..8] == MAGIC) else {
            return Err(NoBlock::Other);
        };
        let u16_at = |at: usize| u16::from_le_bytes([fields[at], fields[at + 1]]);
        let u32_at = |at: usize| u32::from_le_bytes(fields[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(fields[at..at + 8].try_into().expect("eight bytes"));
        let version = u16_at(8);
        if version > VERSION {
            return Err(NoBlock::Version(version));
        }
        let kind = BlockKind::from_byte(fields[10]).ok_or(NoBlock::Other)?;
        let header = BlockHeader {
            kind,
            is_compressed: fields[11] == 1,
            stored: u32_at(12),
            payload: u32_at(16),
            set: u32_at(20),
            position: u64_at(24),
            media: Guid(fields[32..48].try_into().expect("sixteen bytes")),
            ordinal: u64_at(48),
            link: u64_at(56),
            stripe: u16_at(66),
            content: Content { file: u16_at(64), pass: u32_at(68), first: u64_at(72), count: u64_at(80) },
        };
        let is_sound = version > 0
            && fields[11] <= 1
            && header.stored as usize <= PAYLOAD_BYTES_MAX
            && header.payload as usize <= PAYLOAD_BYTES_MAX
            && (header.is_compressed || header.stored == header.payload)
            && header.position.is_multiple_of(UNIT as u64)
            && header.position.checked_add(2 * BLOCK_BYTES_MAX as u64).is_some();
        if is_sound { Ok(header) } else { Err(NoBlock::Other) }
    }

    fn write(&self, bytes: &mut [u8]) {
        bytes[..UNIT].fill(0);
        bytes[4..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[10] = self.kind as u8;
        bytes[11] = u8::from(self.is_compressed);
        bytes[12..16].copy_from_slice(&self.stored.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.payload.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.set.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.position.to_le_bytes());
        bytes[32..48].copy_from_slice(&self.media.0);
        bytes[48..56].copy_from_slice(&self.ordinal.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.link.to_le_bytes());
        bytes[64..66].copy_from_slice(&self.content.file.to_le_bytes());
        bytes[66..68].copy_from_slice(&self.stripe.to_le_bytes());
        bytes[68..72].copy_from_slice(&self.content.pass.to_le_bytes());
        bytes[72..80].copy_from_slice(&self.content.first.to_le_bytes());
        bytes[80..88].copy_from_slice(&self.content.count.to_le_bytes());
    }
}

/// Bytes of a block with so many bytes stored.
fn block_bytes(stored: usize) -> usize {
    UNIT + stored.next_multiple_of(UNIT)
}

/// The checksum of a block: of its fields, and of the payload, which is computed on its own before the fields are
/// known.
fn checksum_of(fields: &[u8], payload_checksum: u32) -> u32 {
    let mut all = [0; FIELDS_END];
    all[..FIELDS_END - 4].copy_from_slice(&fields[4..FIELDS_END]);
    all[FIELDS_END - 4..].copy_from_slice(&payload_checksum.to_le_bytes());
    crc32c(&all)
}

/// Memory for one block. Used again for the next one.
pub struct BlockBuffer {
    block: AlignedBuffer,
    /// Where payloads are compressed to; made when the first one is.
    packed: Option<AlignedBuffer>,
}

impl std::fmt::Debug for BlockBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockBuffer").finish_non_exhaustive()
    }
}

/// A payload that is ready to be written, and its checksum.
pub struct Packed<'a> {
    bytes: &'a mut AlignedBuffer,
    stored: u32,
    payload: u32,
    is_compressed: bool,
    checksum: u32,
}

impl std::fmt::Debug for Packed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packed").field("payload", &self.payload).finish_non_exhaustive()
    }
}

impl BlockBuffer {
    /// Memory for the longest block.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new() -> Result<BlockBuffer, BackupError> {
        Ok(BlockBuffer { block: AlignedBuffer::new(BUFFER_BYTES)?, packed: None })
    }

    /// Room for a payload of so many bytes, aligned for direct transfers.
    ///
    /// # Panics
    /// When there are more than [`PAYLOAD_BYTES_MAX`].
    pub fn payload_mut(&mut self, bytes: usize) -> &mut [u8] {
        self.block.set_len(BLOCK_BYTES_MAX);
        &mut self.block[UNIT..UNIT + bytes]
    }

    /// Completes the payload of `bytes` bytes: compresses it if that is wanted and makes it shorter.
    pub(crate) fn pack(&mut self, bytes: usize, compresses: bool) -> Result<Packed<'_>, BackupError> {
        assert!(bytes <= PAYLOAD_BYTES_MAX, "a payload of {bytes} bytes");
        let payload = u32::try_from(bytes).expect("at most PAYLOAD_BYTES_MAX");
        self.block.set_len(BLOCK_BYTES_MAX);
        let mut compressed = None;
        if compresses && bytes > UNIT {
            if self.packed.is_none() {
                self.packed = Some(AlignedBuffer::new(BUFFER_BYTES)?);
            }
            let packed = self.packed.as_mut().expect("made above");
            packed.set_len(BLOCK_BYTES_MAX);
            // A unit less at least, or it is not worth it: what does not fit is an error.
            let room = &mut packed[UNIT..bytes.next_multiple_of(UNIT)];
            let source = &self.block[UNIT..UNIT + bytes];
            compressed = zstd::bulk::compress_to_buffer(source, room, ZSTD_LEVEL).ok();
        }
        let is_compressed = compressed.is_some();
        let stored = compressed.unwrap_or(bytes);
        let block = match &mut self.packed {
            Some(packed) if is_compressed => packed,
            _ => &mut self.block,
        };
        let length = block_bytes(stored);
        block[UNIT + stored..length].fill(0);
        let checksum = crc32c(&block[UNIT..UNIT + stored]);
        block.set_len(length);
        let stored = u32::try_from(stored).expect("at most PAYLOAD_BYTES_MAX");
        Ok(Packed { bytes: block, stored, payload, is_compressed, checksum })
    }

    /// Reads the block at `position`, whose header and checksum must be right, with its payload as it was before it
    /// was compressed.
    pub(crate) fn read(&mut self, file: &dyn DiskFile, position: u64) -> Result<(BlockHeader, &[u8]), BackupError> {
        let header = read_header(file, position, &mut self.block)?;
        self.read_known(file, &header).map(|payload| (header, payload))
    }

    /// Reads the block that has this header, at once. Its checksum must be right.
    pub(crate) fn read_known(&mut self, file: &dyn DiskFile, header: &BlockHeader) -> Result<&[u8], BackupError> {
        let position = header.position;
        self.block.set_len(header.block_bytes() as usize);
        let wait = Wait::begin(WaitType::BackupIo);
        file.read_at(&mut self.block, position).map_err(|error| cut_short(error, file, position))?;
        drop(wait);
        self.unpack(file, header)
    }

    /// Takes the block that has this header from memory that it was read to. Its checksum must be right.
    pub(crate) fn take_known(
        &mut self,
        file: &dyn DiskFile,
        header: &BlockHeader,
        pieces: &Pieces,
    ) -> Result<&[u8], BackupError> {
        self.block.set_len(header.block_bytes() as usize);
        pieces.copy_to(&mut self.block);
        self.unpack(file, header)
    }

    /// Checks the block that is in memory, and returns its payload as it was before it was compressed.
    fn unpack(&mut self, file: &dyn DiskFile, header: &BlockHeader) -> Result<&[u8], BackupError> {
        let damaged = |what| BackupError::damaged(file.path(), header.position, what);
        let (stored, payload) = (header.stored as usize, header.payload as usize);
        if BlockHeader::read(&self.block) != Ok(*header) {
            return Err(damaged("a block has changed"));
        }
        let claimed = u32::from_le_bytes(self.block[..4].try_into().expect("four bytes"));
        if claimed != checksum_of(&self.block[..FIELDS_END], crc32c(&self.block[UNIT..UNIT + stored])) {
            return Err(damaged("the checksum of a block is wrong"));
        }
        if !header.is_compressed {
            return Ok(&self.block[UNIT..UNIT + payload]);
        }
        if self.packed.is_none() {
            self.packed = Some(AlignedBuffer::new(BUFFER_BYTES)?);
        }
        let packed = self.packed.as_mut().expect("made above");
        packed.set_len(BLOCK_BYTES_MAX);
        let room = &mut packed[UNIT..UNIT + payload];
        match zstd::bulk::decompress_to_buffer(&self.block[UNIT..UNIT + stored], room) {
            Ok(bytes) if bytes == payload => Ok(&packed[UNIT..UNIT + payload]),
            _ => Err(damaged("a payload cannot be decompressed")),
        }
    }
}

impl Packed<'_> {
    /// Bytes of the whole block.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Bytes of the payload before it was compressed.
    pub(crate) fn payload_bytes(&self) -> u64 {
        self.payload.into()
    }

    /// Writes the block with these fields; those of the payload are its own.
    pub(crate) fn write(self, file: &dyn DiskFile, header: BlockHeader) -> Result<(), BackupError> {
        let (stored, payload, is_compressed) = (self.stored, self.payload, self.is_compressed);
        let header = BlockHeader { stored, payload, is_compressed, ..header };
        header.write(self.bytes);
        let checksum = checksum_of(&self.bytes[..FIELDS_END], self.checksum);
        self.bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        let _wait = Wait::begin(WaitType::BackupIo);
        Ok(file.write_at(self.bytes, header.position)?)
    }
}

/// Reads the header of the block at `position` into a buffer. The checksum is not checked.
pub(crate) fn read_header(
    file: &dyn DiskFile,
    position: u64,
    buffer: &mut AlignedBuffer,
) -> Result<BlockHeader, BackupError> {
    buffer.set_len(UNIT);
    let wait = Wait::begin(WaitType::BackupIo);
    file.read_at(buffer, position).map_err(|error| cut_short(error, file, position))?;
    drop(wait);
    header_in(buffer, file, position)
}

/// The header in the first bytes of the block at `position`. The checksum is not checked.
pub(crate) fn header_in(bytes: &[u8], file: &dyn DiskFile, position: u64) -> Result<BlockHeader, BackupError> {
    let header = BlockHeader::read(bytes).map_err(|none| no_block(none, file.path(), position))?;
    if header.position != position {
        return Err(BackupError::damaged(file.path(), position, "a block lies where another one belongs"));
    }
    Ok(header)
}

fn no_block(none: NoBlock, path: &Path, position: u64) -> BackupError {
    match none {
        NoBlock::Other => BackupError::damaged(path, position, "there is no block"),
        NoBlock::Version(found) => BackupError::Version { path: path.to_path_buf(), found, known: VERSION },
    }
}

/// A file that ends within a block is damaged; any other error is of the device.
fn cut_short(error: hobt_disk::DiskError, file: &dyn DiskFile, position: u64) -> BackupError {
    match error {
        hobt_disk::DiskError::OutOfRange { .. } => BackupError::damaged(file.path(), position, "the file ends here"),
        error => BackupError::Disk(error),
    }
}
