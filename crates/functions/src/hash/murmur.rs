//! MurmurHash2 and MurmurHash3, the 32-bit ones for processors of 32 bits, as the text has them.
//!
//! Source: Austin Appleby's public-domain SMHasher; the tests check its verification values. No crate is used: those
//! that exist read through `std::io::Read` or are not maintained, and a column of integers needs its own loops anyway.

use arrow::datatypes::Int32Type;

use super::column::{Algorithm, each};
use super::crc::halves;

const M: u32 = 0x5BD1_E995;

#[inline(always)]
fn block2(hash: u32, word: u32) -> u32 {
    let word = word.wrapping_mul(M);
    let word = (word ^ word >> 24).wrapping_mul(M);
    hash.wrapping_mul(M) ^ word
}

#[inline(always)]
fn finish2(hash: u32) -> i32 {
    let hash = (hash ^ hash >> 13).wrapping_mul(M);
    (hash ^ hash >> 15).cast_signed()
}

fn murmur2(bytes: &[u8], seed: u32) -> i32 {
    // The length counts modulo 2³², as in the original.
    let (words, rest) = bytes.as_chunks::<4>();
    let hash = words.iter().fold(seed ^ bytes.len() as u32, |hash, word| block2(hash, u32::from_le_bytes(*word)));
    finish2(if rest.is_empty() { hash } else { (hash ^ tail(rest)).wrapping_mul(M) })
}

#[inline(always)]
fn block3(hash: u32, word: u32) -> u32 {
    (hash ^ scramble(word)).rotate_left(13).wrapping_mul(5).wrapping_add(0xE654_6B64)
}

#[inline(always)]
fn scramble(word: u32) -> u32 {
    word.wrapping_mul(0xCC9E_2D51).rotate_left(15).wrapping_mul(0x1B87_3593)
}

#[inline(always)]
fn finish3(hash: u32, length: u32) -> i32 {
    let hash = hash ^ length;
    let hash = (hash ^ hash >> 16).wrapping_mul(0x85EB_CA6B);
    let hash = (hash ^ hash >> 13).wrapping_mul(0xC2B2_AE35);
    (hash ^ hash >> 16).cast_signed()
}

fn murmur3(bytes: &[u8], seed: u32) -> i32 {
    let (words, rest) = bytes.as_chunks::<4>();
    let hash = words.iter().fold(seed, |hash, word| block3(hash, u32::from_le_bytes(*word)));
    // The length counts modulo 2³², as in the original.
    finish3(hash ^ scramble(tail(rest)), bytes.len() as u32)
}

/// The last bytes, at most three, as a little-endian number.
fn tail(rest: &[u8]) -> u32 {
    rest.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

#[inline(always)]
fn word(value: i32) -> u32 {
    value.cast_unsigned().swap_bytes()
}

/// A seed's low 32 bits.
fn low(seed: u64) -> u32 {
    seed as u32
}

pub(super) static MURMUR2: Algorithm<Int32Type> = Algorithm {
    bytes: |bytes, seed| murmur2(bytes, low(seed)),
    ints: |arch, values, seed| {
        let start = low(seed) ^ 4;
        each(
            arch,
            values,
            #[inline(always)]
            move |value| finish2(block2(start, word(value))),
        )
    },
    bigints: |arch, values, seed| {
        let start = low(seed) ^ 8;
        each(
            arch,
            values,
            #[inline(always)]
            move |value| finish2(halves(value).into_iter().fold(start, block2)),
        )
    },
};

pub(super) static MURMUR3: Algorithm<Int32Type> = Algorithm {
    bytes: |bytes, seed| murmur3(bytes, low(seed)),
    ints: |arch, values, seed| {
        let start = low(seed);
        each(
            arch,
            values,
            #[inline(always)]
            move |value| finish3(block3(start, word(value)), 4),
        )
    },
    bigints: |arch, values, seed| {
        let start = low(seed);
        each(
            arch,
            values,
            #[inline(always)]
            move |value| finish3(halves(value).into_iter().fold(start, block3), 8),
        )
    },
};

#[cfg(test)]
mod tests {
    use pulp::Arch;

    use super::*;

    /// SMHasher's verification value of a function: the hash of the hashes of `[]`, `[0]`, `[0, 1]`, … with seeds 256,
    /// 255, ….
    fn verification(hash: fn(&[u8], u32) -> i32) -> u32 {
        let bytes: Vec<u8> = (0..=255).collect();
        let hashes = (0..256u32).flat_map(|length| hash(&bytes[..length as usize], 256 - length).to_le_bytes());
        hash(&hashes.collect::<Vec<u8>>(), 0).cast_unsigned()
    }

    #[test]
    fn verification_values_are_smhashers() {
        assert_eq!(verification(murmur2), 0x2786_4C1E);
        assert_eq!(verification(murmur3), 0xB0F5_7EE3);
    }

    #[test]
    fn integers_hash_as_their_bytes() {
        let values: Vec<i64> = (0..70i64).map(|at| at.wrapping_mul(0x1234_5678_9ABC_DEF1) ^ at << 31).collect();
        let ints: Vec<i32> = values.iter().map(|value| *value as i32).collect();
        for algorithm in [&MURMUR2, &MURMUR3] {
            for seed in [0, 1, 0xFFFF_FFFF] {
                let by_bytes: Vec<i32> = ints.iter().map(|v| (algorithm.bytes)(&v.to_be_bytes(), seed)).collect();
                assert_eq!((algorithm.ints)(Arch::new(), &ints, seed), by_bytes);
                let by_bytes: Vec<i32> = values.iter().map(|v| (algorithm.bytes)(&v.to_be_bytes(), seed)).collect();
                assert_eq!((algorithm.bigints)(Arch::new(), &values, seed), by_bytes);
            }
        }
    }
}
