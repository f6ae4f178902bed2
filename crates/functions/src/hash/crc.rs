//! CRC-16, CRC-32 and CRC-32C: by table, and bit by bit as in the original publication.
//!
//! | function | polynomial, reflected | start and end | `123456789` |
//! |---|---|---|---|
//! | `hobt_crc16` | A001 | 0 (CRC-16/ARC) | BB3D |
//! | `hobt_crc32` | EDB88320 | all ones (ISO 3309) | CBF43926 |
//! | `hobt_crc32c` | 82F63B78 | all ones (Castagnoli) | E3069283 |
//!
//! Four tables process four bytes at once ("slicing by 4": Kounavis and Berry, 2005). Longer values go to crate
//! `crc-fast`, which uses the processor's instructions and has a higher fixed cost than the tables.

use arrow::datatypes::Int32Type;
use crc_fast::CrcAlgorithm;
use pulp::Arch;

use super::column::Algorithm;

/// The number of bytes from which on `crc-fast` is faster than the tables.
const LONG: usize = 32;

/// A CRC of at most 32 bits, reflected.
struct Crc {
    polynomial: u32,
    /// The initial remainder, which is also combined with the result.
    ones: u32,
    tables: [[u32; 256]; 4],
    long: CrcAlgorithm,
}

static CRC16: Crc = Crc::new(0xA001, 0, CrcAlgorithm::Crc16Arc);
static CRC32: Crc = Crc::new(0xEDB8_8320, u32::MAX, CrcAlgorithm::Crc32IsoHdlc);
static CRC32C: Crc = Crc::new(0x82F6_3B78, u32::MAX, CrcAlgorithm::Crc32Iscsi);

/// The remainder after the eight bits of a byte, computed one by one.
const fn eight_bits(mut remainder: u32, polynomial: u32) -> u32 {
    let mut bit = 0;
    while bit < 8 {
        let odd = remainder & 1 == 1;
        remainder >>= 1;
        if odd {
            remainder ^= polynomial;
        }
        bit += 1;
    }
    remainder
}

impl Crc {
    const fn new(polynomial: u32, ones: u32, long: CrcAlgorithm) -> Crc {
        let mut tables = [[0; 256]; 4];
        let mut byte = 0;
        while byte < 256 {
            tables[0][byte] = eight_bits(byte as u32, polynomial);
            byte += 1;
        }
        let mut table = 1;
        while table < 4 {
            let mut byte = 0;
            while byte < 256 {
                let before: u32 = tables[table - 1][byte];
                tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xFF) as usize];
                byte += 1;
            }
            table += 1;
        }
        Crc { polynomial, ones, tables, long }
    }

    /// The remainder after four bytes, given as a little-endian `word`.
    #[inline(always)]
    fn four_bytes(&self, remainder: u32, word: u32) -> u32 {
        let [first, second, third, fourth] = (remainder ^ word).to_le_bytes();
        let [last, one_behind, two_behind, three_behind] = &self.tables;
        three_behind[usize::from(first)]
            ^ two_behind[usize::from(second)]
            ^ one_behind[usize::from(third)]
            ^ last[usize::from(fourth)]
    }

    /// The bits as a signed number.
    fn of_bytes(&self, bytes: &[u8]) -> i32 {
        if bytes.len() >= LONG {
            // At most 32 bits, by the algorithm.
            return (crc_fast::checksum(self.long, bytes) as u32).cast_signed();
        }
        let (words, rest) = bytes.as_chunks::<4>();
        let remainder =
            words.iter().fold(self.ones, |remainder, word| self.four_bytes(remainder, u32::from_le_bytes(*word)));
        let one_byte = |remainder: u32, byte: &u8| {
            (remainder >> 8) ^ self.tables[0][usize::from(remainder.to_le_bytes()[0] ^ byte)]
        };
        (rest.iter().fold(remainder, one_byte) ^ self.ones).cast_signed()
    }

    fn of_int(&self, value: i32) -> i32 {
        (self.four_bytes(self.ones, value.cast_unsigned().swap_bytes()) ^ self.ones).cast_signed()
    }

    fn of_bigint(&self, value: i64) -> i32 {
        let [high, low] = halves(value);
        (self.four_bytes(self.four_bytes(self.ones, high), low) ^ self.ones).cast_signed()
    }

    /// Computed without tables.
    fn bit_by_bit(&self, bytes: &[u8]) -> i32 {
        let one_byte = |remainder: u32, byte: &u8| eight_bits(remainder ^ u32::from(*byte), self.polynomial);
        (bytes.iter().fold(self.ones, one_byte) ^ self.ones).cast_signed()
    }
}

/// The two halves of a number's big-endian bytes, as little-endian words.
#[inline(always)]
pub(super) fn halves(value: i64) -> [u32; 2] {
    // Truncating casts that select the two halves.
    let value = value.cast_unsigned();
    [((value >> 32) as u32).swap_bytes(), (value as u32).swap_bytes()]
}

macro_rules! by_table {
    ($crc:ident) => {
        Algorithm {
            bytes: |bytes, _| $crc.of_bytes(bytes),
            ints: |_, values, _| values.iter().map(|value| $crc.of_int(*value)).collect(),
            bigints: |_, values, _| values.iter().map(|value| $crc.of_bigint(*value)).collect(),
        }
    };
}

macro_rules! bit_by_bit {
    ($crc:ident) => {
        Algorithm {
            bytes: |bytes, _| $crc.bit_by_bit(bytes),
            ints: |_: Arch, values, _| values.iter().map(|value| $crc.bit_by_bit(&value.to_be_bytes())).collect(),
            bigints: |_: Arch, values, _| values.iter().map(|value| $crc.bit_by_bit(&value.to_be_bytes())).collect(),
        }
    };
}

pub(super) static CRC16_TABLE: Algorithm<Int32Type> = by_table!(CRC16);
pub(super) static CRC32_TABLE: Algorithm<Int32Type> = by_table!(CRC32);
pub(super) static CRC32C_TABLE: Algorithm<Int32Type> = by_table!(CRC32C);
pub(super) static CRC16_BITWISE: Algorithm<Int32Type> = bit_by_bit!(CRC16);
pub(super) static CRC32_BITWISE: Algorithm<Int32Type> = bit_by_bit!(CRC32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_values_are_the_published_ones() {
        // The catalogue of parametrised CRC algorithmsgives these values for the nine digits.
        for (crc, check) in [(&CRC16, 0xBB3D), (&CRC32, 0xCBF4_3926), (&CRC32C, 0xE306_9283)] {
            assert_eq!(crc.of_bytes(b"123456789").cast_unsigned(), check);
            assert_eq!(crc.bit_by_bit(b"123456789").cast_unsigned(), check);
        }
        // RFC 3720, appendix B.4: 32 bytes of zeros, of ones, ascending.
        assert_eq!(CRC32C.of_bytes(&[0; 32]).cast_unsigned(), 0x8A91_36AA);
        assert_eq!(CRC32C.of_bytes(&[0xFF; 32]).cast_unsigned(), 0x62A8_AB43);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(CRC32C.of_bytes(&ascending).cast_unsigned(), 0x46DD_794E);
    }

    #[test]
    fn tables_bits_and_instructions_agree_at_every_length() {
        let bytes: Vec<u8> = (0..100u8).map(|byte| byte.wrapping_mul(37) ^ 0x5A).collect();
        for crc in [&CRC16, &CRC32, &CRC32C] {
            for length in 0..bytes.len() {
                assert_eq!(crc.of_bytes(&bytes[..length]), crc.bit_by_bit(&bytes[..length]), "{length} bytes");
            }
            for value in [0, 1, -1, i64::from(i32::MIN), i64::MAX, 0x0123_4567_89AB_CDEF] {
                assert_eq!(crc.of_bigint(value), crc.bit_by_bit(&value.to_be_bytes()));
                let low = value as i32;
                assert_eq!(crc.of_int(low), crc.bit_by_bit(&low.to_be_bytes()));
            }
        }
    }
}
