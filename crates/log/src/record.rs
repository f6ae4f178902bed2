//! The encoding of records in the log.
//!
//! ```text
//! 0 length u32 | 4 kind u8 | 5 padding u8 | 6 reserved u16
//! 8 transaction u64
//! 16 previous u64
//! 24 payload, and 0 to 7 bytes of padding
//! ```
//! All numbers are little-endian. The length includes everything, is a multiple of 8 and never 0. A word of zeros means
//! that no record has been published there yet.

use hobt_base::Lsn;

/// Bytes of a record before its payload.
pub const RECORD_HEADER_BYTES: usize = 24;
/// The longest payload.
pub const PAYLOAD_BYTES_MAX: usize = 128 << 10;

/// The kind of an empty record, which fills space that was reserved for another.
pub(crate) const NOTHING: u8 = 0;

/// A record to append.
#[derive(Clone, Copy, Debug)]
pub struct NewRecord<'a> {
    /// Its kind, which the log does not interpret. Not 0.
    pub kind: u8,
    /// The transaction that it belongs to; 0 for none.
    pub transaction: u64,
    /// The previous record of its transaction; 0 for none.
    pub previous: Lsn,
    /// Its contents, at most [`PAYLOAD_BYTES_MAX`] bytes.
    pub payload: &'a [u8],
}

/// A record read from the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Its position.
    pub lsn: Lsn,
    /// The position after it.
    pub end: Lsn,
    /// As it was appended.
    pub kind: u8,
    /// As it was appended.
    pub transaction: u64,
    /// As it was appended.
    pub previous: Lsn,
    /// As it was appended.
    pub payload: Vec<u8>,
}

/// Bytes of a record with a payload of this length.
pub const fn record_bytes(payload: usize) -> usize {
    (RECORD_HEADER_BYTES + payload).next_multiple_of(8)
}

/// The first word of a record.
pub(crate) fn first_word(kind: u8, payload: usize) -> u64 {
    let length = record_bytes(payload);
    let padding = length - RECORD_HEADER_BYTES - payload;
    let length = u32::try_from(length).expect("at most PAYLOAD_BYTES_MAX and a header");
    u64::from(length) | u64::from(kind) << 32 | (padding as u64) << 40
}

/// The length in a record's first word.
pub(crate) fn length_of(first_word: u64) -> usize {
    (first_word & u64::from(u32::MAX)) as usize
}

/// The record at the front of `bytes`, whose position is `lsn`. `None` if there is no complete, sound record.
pub(crate) fn read_record(bytes: &[u8], lsn: Lsn) -> Option<Record> {
    let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let first = word(0)?;
    let length = length_of(first);
    let padding = usize::from((first >> 40) as u8);
    let sound = length.is_multiple_of(8)
        && padding < 8
        && length >= RECORD_HEADER_BYTES + padding
        && length <= record_bytes(PAYLOAD_BYTES_MAX).min(bytes.len());
    if !sound {
        return None;
    }
    Some(Record {
        lsn,
        end: Lsn(lsn.0 + length as u64),
        kind: (first >> 32) as u8,
        transaction: word(8)?,
        previous: Lsn(word(16)?),
        payload: bytes.get(RECORD_HEADER_BYTES..length - padding)?.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_record_is_none() {
        for bytes in [&[][..], &[1; 7], &[0; 64], &[255; 64], &[8, 0, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(read_record(bytes, Lsn(8)), None);
        }
        // A length beyond the end, also by less than its padding.
        let mut bytes = [0; 40];
        bytes[..8].copy_from_slice(&first_word(1, 9).to_le_bytes());
        assert!(read_record(&bytes, Lsn(8)).is_some());
        for there in 0..40 {
            assert_eq!(read_record(&bytes[..there], Lsn(8)), None);
        }
    }
}
