//! The header of each log file: the log to which it belongs, and its division into segments.
//!
//! ```text
//!  0 checksum u32 | 4 magic "HLF3" | 8 log u64 | 16 version of this header u64
//! 24 file's place u32 | 28 entries u32 | 32 life u64 | 40 redo start u64 | 48 files of the log u32
//! 52 id being removed u16 | 54 file's id u16 | 56 keep u64 | 64 retain u64 | 72 growth u64 | 80 largest size u64
//! 88 name length u16 | 90 name UTF-8
//! 476 block u32 | 480 start u64 | 488 read from u64
//! 496 entries of 16 bytes: bytes of a segment u64 | segments u64
//! 4032 chain u64 | 4040 floor u64 | 4048 fork 16 bytes | 4064 time i64 | 4072 base u64
//! ```
//! Two copies, 4 KiB each, are written in turn; the newer sound one is valid. Segments follow one another from 8 KiB
//! on, in the order of the entries. These fields are valid only in the first file's header, whose place is 0: life,
//! redo start, read from (where the end of the log is searched, and analysis begins), block (where a block at or before
//! that position lies in its segment, in units of 4 KiB), keep (the first record that is still needed, by a transaction
//! that may have to be undone), retain (the first that still exists, for a backup of the log), the number of files, the
//! file being removed, start (the position where the log began when it was created), and what backups need
//! ([`ChainState`]).

use hobt_base::{Lsn, crc32c};
use hobt_disk::{AlignedBuffer, DiskFile};

use crate::block::BLOCK_UNIT;
use crate::chain_state::ChainState;
use crate::{LogError, RecoveryStart, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};

const MAGIC: [u8; 4] = *b"HLF3";
const NAME: usize = 88;
/// The longest name, in bytes: 128 characters of at most three bytes.
const NAME_BYTES_MAX: usize = 384;
const BLOCK: usize = 476;
const START: usize = 480;
const READ_FROM: usize = 488;
const ENTRIES: usize = 496;
/// The most changes of the segment size as a file grows.
const ENTRIES_MAX: usize = (CHAIN - ENTRIES) / 16;
const CHAIN: usize = BLOCK_UNIT - 64;
const FLOOR: usize = CHAIN + 8;
const FORK: usize = FLOOR + 8;
const TIME: usize = FORK + 16;
const BASE: usize = TIME + 8;
const _: () = assert!(NAME + 2 + NAME_BYTES_MAX <= BLOCK && READ_FROM + 8 == ENTRIES && BASE + 8 <= BLOCK_UNIT);
/// The offset of the first segment of a file. Before it is the header; after it are records or zeros.
pub const SEGMENTS_START: u64 = 2 * BLOCK_UNIT as u64;

/// A number of segments of one size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Division {
    pub(crate) segment_bytes: u64,
    pub(crate) segments: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FileHeader {
    pub(crate) log: u64,
    pub(crate) version: u64,
    /// The number of files before it; 0 for the first.
    pub(crate) place: u32,
    pub(crate) id: u16,
    pub(crate) files: u32,
    /// The id of the file being removed; 0 for none.
    pub(crate) removing: u16,
    pub(crate) life: u64,
    pub(crate) redo_start: Lsn,
    pub(crate) read_from: Lsn,
    /// The first byte of a block at or before `read_from` in its segment.
    pub(crate) read_from_offset: u64,
    pub(crate) keep: Lsn,
    pub(crate) retain: Lsn,
    /// The position where the log began when it was created.
    pub(crate) start: Lsn,
    pub(crate) chain: ChainState,
    pub(crate) growth_bytes: u64,
    pub(crate) bytes_max: u64,
    pub(crate) name: String,
    pub(crate) divisions: Vec<Division>,
}

impl FileHeader {
    /// The required size of the file in bytes.
    pub(crate) fn file_bytes(&self) -> u64 {
        SEGMENTS_START + self.divisions.iter().map(|one| one.segment_bytes * one.segments).sum::<u64>()
    }

    /// Where recovery begins.
    pub(crate) fn recovery_start(&self) -> RecoveryStart {
        RecoveryStart { redo: self.redo_start, read_from: self.read_from, keep: self.keep }
    }

    /// Adds segments after the others.
    pub(crate) fn divide(&mut self, segment_bytes: u64, segments: u64) {
        match self.divisions.last_mut() {
            Some(last) if last.segment_bytes == segment_bytes => last.segments += segments,
            _ => self.divisions.push(Division { segment_bytes, segments }),
        }
    }

    /// The segment size for `bytes` more of room, at most `bytes`: an eighth of it, or the size of the last segments
    /// when there is no space for another entry. `None` if no segment fits.
    pub(crate) fn segment_bytes_for(&self, bytes: u64) -> Option<u64> {
        let size = match self.divisions.last() {
            Some(last) if self.divisions.len() == ENTRIES_MAX => last.segment_bytes,
            _ => {
                let eighth = (bytes / 8).next_power_of_two().clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
                eighth.min(bytes / SEGMENT_BYTES_MIN * SEGMENT_BYTES_MIN)
            }
        };
        (size > 0 && size <= bytes).then_some(size)
    }

    /// Writes both copies, one after the other, durably: for contents that must survive the loss of one copy.
    pub(crate) fn write_both(&mut self, disk: &dyn DiskFile) -> Result<(), LogError> {
        self.write(disk)?;
        self.write(disk)
    }

    /// Writes the header over the older copy, durably.
    pub(crate) fn write(&mut self, disk: &dyn DiskFile) -> Result<(), LogError> {
        self.version += 1;
        let mut page = AlignedBuffer::new(BLOCK_UNIT)?;
        self.encode(&mut page);
        disk.write_durable_at(&page, self.version % 2 * BLOCK_UNIT as u64)?;
        Ok(())
    }

    /// Writes the header's bytes into a page of zeros.
    pub(crate) fn encode(&self, page: &mut [u8]) {
        page[4..8].copy_from_slice(&MAGIC);
        page[8..16].copy_from_slice(&self.log.to_le_bytes());
        page[16..24].copy_from_slice(&self.version.to_le_bytes());
        page[24..28].copy_from_slice(&self.place.to_le_bytes());
        let count = u32::try_from(self.divisions.len()).expect("at most ENTRIES_MAX");
        page[28..32].copy_from_slice(&count.to_le_bytes());
        page[32..40].copy_from_slice(&self.life.to_le_bytes());
        page[40..48].copy_from_slice(&self.redo_start.0.to_le_bytes());
        page[48..52].copy_from_slice(&self.files.to_le_bytes());
        page[52..54].copy_from_slice(&self.removing.to_le_bytes());
        page[54..56].copy_from_slice(&self.id.to_le_bytes());
        page[56..64].copy_from_slice(&self.keep.0.to_le_bytes());
        page[64..72].copy_from_slice(&self.retain.0.to_le_bytes());
        let block = u32::try_from(self.read_from_offset / BLOCK_UNIT as u64).expect("within a segment");
        page[BLOCK..BLOCK + 4].copy_from_slice(&block.to_le_bytes());
        page[START..START + 8].copy_from_slice(&self.start.0.to_le_bytes());
        page[READ_FROM..READ_FROM + 8].copy_from_slice(&self.read_from.0.to_le_bytes());
        page[CHAIN..CHAIN + 8].copy_from_slice(&self.chain.from.0.to_le_bytes());
        page[FLOOR..FLOOR + 8].copy_from_slice(&self.chain.floor.0.to_le_bytes());
        page[FORK..FORK + 16].copy_from_slice(&self.chain.fork);
        page[TIME..TIME + 8].copy_from_slice(&self.chain.time.to_le_bytes());
        page[BASE..BASE + 8].copy_from_slice(&self.chain.base.to_le_bytes());
        page[72..80].copy_from_slice(&self.growth_bytes.to_le_bytes());
        page[80..88].copy_from_slice(&self.bytes_max.to_le_bytes());
        assert!(self.name.len() <= NAME_BYTES_MAX, "names are limited to 128 characters before they come here");
        let name_bytes = u16::try_from(self.name.len()).expect("at most NAME_BYTES_MAX");
        page[NAME..NAME + 2].copy_from_slice(&name_bytes.to_le_bytes());
        page[NAME + 2..NAME + 2 + self.name.len()].copy_from_slice(self.name.as_bytes());
        for (division, entry) in self.divisions.iter().zip(page[ENTRIES..].chunks_exact_mut(16)) {
            entry[..8].copy_from_slice(&division.segment_bytes.to_le_bytes());
            entry[8..].copy_from_slice(&division.segments.to_le_bytes());
        }
        let checksum = crc32c(&page[4..]);
        page[..4].copy_from_slice(&checksum.to_le_bytes());
    }

    /// The newer sound copy of a file's header.
    ///
    /// # Errors
    /// The file cannot be read, or neither copy is sound.
    pub(crate) fn read(disk: &dyn DiskFile) -> Result<FileHeader, LogError> {
        let mut newest: Option<FileHeader> = None;
        let size = disk.size()?;
        for copy in 0..2 {
            let offset = copy * BLOCK_UNIT as u64;
            if offset + BLOCK_UNIT as u64 > size {
                continue;
            }
            let mut page = AlignedBuffer::new(BLOCK_UNIT)?;
            disk.read_at(&mut page, offset)?;
            if let Some(header) = FileHeader::parse(&page).filter(|header| header.version % 2 == copy)
                && newest.as_ref().is_none_or(|newest| newest.version < header.version)
            {
                newest = Some(header);
            }
        }
        newest.ok_or_else(|| LogError::damaged(disk, 0, "its header is not that of a log file"))
    }

    /// The header in a page of [`BLOCK_UNIT`] bytes, which may be anything; `None` if there is none.
    pub(crate) fn parse(page: &[u8]) -> Option<FileHeader> {
        let u16_at = |at: usize| u16::from_le_bytes(page[at..at + 2].try_into().expect("two bytes"));
        let u32_at = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"));
        let entries = u32_at(28) as usize;
        if page[4..8] != MAGIC || u32_at(0) != crc32c(&page[4..]) || entries == 0 || entries > ENTRIES_MAX {
            return None;
        }
        let (redo_start, read_from, keep, retain) = (u64_at(40), u64_at(READ_FROM), u64_at(56), u64_at(64));
        let name_bytes = usize::from(u16_at(NAME));
        let is_in_order = retain <= keep && keep <= read_from && read_from <= redo_start;
        if !is_in_order || !redo_start.is_multiple_of(8) || name_bytes > NAME_BYTES_MAX {
            return None;
        }
        let name = std::str::from_utf8(&page[NAME + 2..NAME + 2 + name_bytes]).ok()?.to_owned();
        let division = |index: usize| Division {
            segment_bytes: u64_at(ENTRIES + index * 16),
            segments: u64_at(ENTRIES + index * 16 + 8),
        };
        let divisions: Vec<Division> = (0..entries).map(division).collect();
        let mut bytes = SEGMENTS_START;
        for division in &divisions {
            let size = division.segment_bytes;
            let sound = (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&size)
                && size.is_multiple_of(BLOCK_UNIT as u64)
                && division.segments > 0;
            bytes = bytes.checked_add(size.checked_mul(division.segments)?).filter(|_| sound)?;
        }
        Some(FileHeader {
            log: u64_at(8),
            version: u64_at(16),
            place: u32_at(24),
            id: u16_at(54),
            files: u32_at(48),
            removing: u16_at(52),
            life: u64_at(32),
            redo_start: Lsn(redo_start),
            read_from: Lsn(read_from),
            read_from_offset: u64::from(u32_at(BLOCK)) * BLOCK_UNIT as u64,
            keep: Lsn(keep),
            retain: Lsn(retain),
            start: Lsn(u64_at(START)),
            chain: ChainState {
                from: Lsn(u64_at(CHAIN)),
                floor: Lsn(u64_at(FLOOR)),
                fork: page[FORK..FORK + 16].try_into().ok()?,
                time: u64_at(TIME).cast_signed(),
                base: u64_at(BASE),
            },
            growth_bytes: u64_at(72),
            bytes_max: u64_at(80),
            name,
            divisions,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hobt_disk::{Disk, OpenOptions, SimulatedConfig, SimulatedDisk};

    use super::*;

    #[test]
    fn a_header_whose_file_has_no_segments_is_refused() {
        let disk = SimulatedDisk::start(SimulatedConfig::default()).expect("a disk in memory");
        let options = OpenOptions { create_new: true, ..OpenOptions::default() };
        let file = disk.open(Path::new("/log.ldf"), options).expect("a new file");
        let mut header = FileHeader {
            log: 1,
            version: 0,
            place: 0,
            id: 2,
            files: 1,
            removing: 0,
            life: 1,
            redo_start: Lsn(8),
            read_from: Lsn(8),
            read_from_offset: 0,
            keep: Lsn(8),
            retain: Lsn(8),
            start: Lsn(8),
            chain: ChainState::default(),
            growth_bytes: 0,
            bytes_max: 0,
            name: "log".to_owned(),
            divisions: vec![Division { segment_bytes: SEGMENT_BYTES_MIN, segments: 4 }],
        };
        file.set_size(header.file_bytes()).expect("room");
        header.write_both(&*file).expect("written");
        assert_eq!(FileHeader::read(&*file).expect("sound"), header);
        header.divisions[0].segments = 0;
        header.write_both(&*file).expect("written");
        assert!(FileHeader::read(&*file).is_err());
    }
}
