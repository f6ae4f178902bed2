//! A block, which one flush writes: a header, whole records, zeros up to the next sector.
//!
//! ```text
//!  0 checksum u32 (CRC-32C of what follows, up to the last record) | 4 magic "HLB1"
//!  8 log u64 | 16 life u64 | 24 segment u64 | 32 number u64
//! 40 first position u64 | 48 bytes of records u32 | 52 checksum of the block before u32
//! 56 reserved u64
//! ```
//! A block contains its log's id, the life of the log that wrote it (one more at each opening), its segment's number in
//! the order of segments, and its own number. So nothing that was left on the disk from elsewhere or from earlier is
//! mistaken for it.

use hobt_base::{Lsn, crc32c};

/// Bytes of a block's header.
pub(crate) const BLOCK_HEADER_BYTES: usize = 64;
/// The unit of block lengths: the largest sector of any device.
pub(crate) const BLOCK_UNIT: usize = 4096;
/// The longest block.
pub(crate) const BLOCK_BYTES_MAX: usize = 512 << 10;

const MAGIC: [u8; 4] = *b"HLB1";

/// A block's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockHeader {
    pub(crate) log: u64,
    pub(crate) life: u64,
    pub(crate) segment: u64,
    pub(crate) number: u64,
    pub(crate) first: Lsn,
    pub(crate) record_bytes: u32,
    pub(crate) previous_checksum: u32,
}

impl BlockHeader {
    /// The position after the block's records.
    pub(crate) fn end(&self) -> Lsn {
        Lsn(self.first.0 + u64::from(self.record_bytes))
    }

    /// Bytes of the whole block.
    pub(crate) const fn block_bytes(&self) -> usize {
        block_bytes(self.record_bytes as usize)
    }

    /// Reads the header at the front of `bytes`, which may be anything; `None` if there is none. The checksum is not
    /// checked.
    pub(crate) fn read(bytes: &[u8]) -> Option<BlockHeader> {
        let u32_at = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        if bytes.get(4..8)? != MAGIC {
            return None;
        }
        let header = BlockHeader {
            log: u64_at(8)?,
            life: u64_at(16)?,
            segment: u64_at(24)?,
            number: u64_at(32)?,
            first: Lsn(u64_at(40)?),
            record_bytes: u32_at(48)?,
            previous_checksum: u32_at(52)?,
        };
        let sound = header.record_bytes as usize <= BLOCK_BYTES_MAX - BLOCK_HEADER_BYTES
            && header.record_bytes.is_multiple_of(8)
            && header.first.0.is_multiple_of(8)
            && header.first.0.checked_add(u64::from(header.record_bytes)).is_some();
        sound.then_some(header)
    }
}

/// Bytes of a block with this many bytes of records.
pub(crate) const fn block_bytes(record_bytes: usize) -> usize {
    (BLOCK_HEADER_BYTES + record_bytes).next_multiple_of(BLOCK_UNIT)
}

/// Completes a block whose records are in place: writes the header and clears the rest. Returns its checksum.
pub(crate) fn seal(block: &mut [u8], header: &BlockHeader) -> u32 {
    let used = BLOCK_HEADER_BYTES + header.record_bytes as usize;
    block[used..].fill(0);
    block[4..8].copy_from_slice(&MAGIC);
    block[8..16].copy_from_slice(&header.log.to_le_bytes());
    block[16..24].copy_from_slice(&header.life.to_le_bytes());
    block[24..32].copy_from_slice(&header.segment.to_le_bytes());
    block[32..40].copy_from_slice(&header.number.to_le_bytes());
    block[40..48].copy_from_slice(&header.first.0.to_le_bytes());
    block[48..52].copy_from_slice(&header.record_bytes.to_le_bytes());
    block[52..56].copy_from_slice(&header.previous_checksum.to_le_bytes());
    block[56..64].fill(0);
    let checksum = crc32c(&block[4..used]);
    block[..4].copy_from_slice(&checksum.to_le_bytes());
    checksum
}

/// The checksum of the block with this header, if it is right.
pub(crate) fn verify(block: &[u8], header: &BlockHeader) -> Option<u32> {
    let used = block.get(..BLOCK_HEADER_BYTES + header.record_bytes as usize)?;
    let stored = u32::from_le_bytes(used[..4].try_into().expect("four bytes"));
    (crc32c(&used[4..]) == stored).then_some(stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_of_a_block_is_found() {
        let records = 304;
        let mut block = vec![0; block_bytes(records)];
        block[BLOCK_HEADER_BYTES..BLOCK_HEADER_BYTES + records].fill(0xA5);
        let header = BlockHeader {
            log: 1,
            life: 2,
            segment: 3,
            number: 4,
            first: Lsn(8),
            record_bytes: records as u32,
            previous_checksum: 5,
        };
        let checksum = seal(&mut block, &header);
        assert_eq!(BlockHeader::read(&block), Some(header));
        assert_eq!(verify(&block, &header), Some(checksum));
        for bit in 0..(BLOCK_HEADER_BYTES + records) * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            let read = BlockHeader::read(&block);
            assert!(read.is_none_or(|read| verify(&block, &read).is_none()), "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_header_that_claims_too_much_is_none() {
        let mut block = vec![0; BLOCK_UNIT];
        let header = BlockHeader {
            log: 1,
            life: 1,
            segment: 1,
            number: 1,
            first: Lsn(u64::MAX - 7),
            record_bytes: 104,
            previous_checksum: 0,
        };
        seal(&mut block, &header);
        assert_eq!(BlockHeader::read(&block), None);
        let long = BlockHeader { first: Lsn(8), record_bytes: BLOCK_BYTES_MAX as u32, ..header };
        seal(&mut block, &BlockHeader { record_bytes: 8, ..long });
        block[48..52].copy_from_slice(&long.record_bytes.to_le_bytes());
        assert_eq!(BlockHeader::read(&block), None);
    }
}
