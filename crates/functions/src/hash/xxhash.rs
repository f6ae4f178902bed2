//! xxHash3, 64 bits.
//!
//! Crate `xxhash-rust` hashes bytes. Columns of integers have their own loop, which the compiler vectorises: a value of
//! 4 to 8 bytes takes one of the algorithm's many paths, without a branch (the specification's "XXH3_len_4to8"). If
//! both halves of a word are equal, as for the four bytes of an `int`, the two rotations are 32-bit rotations. The
//! design page has the measurements (docs/design/0026-hash-functions.md).

use arrow::datatypes::Int64Type;

use super::column::{Algorithm, each};
use super::crc::halves;

/// Bytes 8 to 15 and 16 to 23 of the default secret, combined by exclusive or.
const FLIP: u64 = 0x1CAD_21F7_2C81_017C ^ 0xDB97_9083_E96D_D4DE;
const PRIME: u64 = 0x9FB2_1C65_1E98_DF25;

/// The value that a value's bits are combined with.
#[inline(always)]
fn flip(seed: u64) -> u64 {
    // The seed's low half is also in its high half, with reversed bytes.
    let seed = seed ^ u64::from((seed as u32).swap_bytes()) << 32;
    FLIP.wrapping_sub(seed)
}

#[inline(always)]
fn spread(bits: u64) -> u64 {
    bits ^ bits.rotate_left(49) ^ bits.rotate_left(24)
}

#[inline(always)]
fn finish(bits: u64, length: u64) -> i64 {
    let hash = bits.wrapping_mul(PRIME);
    let hash = (hash ^ (hash >> 35).wrapping_add(length)).wrapping_mul(PRIME);
    (hash ^ hash >> 28).cast_signed()
}

#[inline(always)]
fn of_int(value: i32, flip: u64) -> i64 {
    let word = value.cast_unsigned().swap_bytes();
    let word = u64::from(word ^ word.rotate_left(17) ^ word.rotate_left(24));
    // `spread` of the flipped word, whose two parts are both spread already.
    finish((word | word << 32) ^ flip, 4)
}

#[inline(always)]
fn of_bigint(value: i64, flip: u64) -> i64 {
    let [first, last] = halves(value);
    finish(spread((u64::from(first) << 32 | u64::from(last)) ^ flip), 8)
}

pub(super) static XXHASH3: Algorithm<Int64Type> = Algorithm {
    bytes: |bytes, seed| xxhash_rust::xxh3::xxh3_64_with_seed(bytes, seed).cast_signed(),
    ints: |arch, values, seed| {
        let flip = spread(flip(seed));
        each(
            arch,
            values,
            #[inline(always)]
            move |value| of_int(value, flip),
        )
    },
    bigints: |arch, values, seed| {
        let flip = flip(seed);
        each(
            arch,
            values,
            #[inline(always)]
            move |value| of_bigint(value, flip),
        )
    },
};

#[cfg(test)]
mod tests {
    use pulp::Arch;

    use super::*;

    #[test]
    fn integers_hash_as_the_crate_hashes_their_bytes() {
        let edges = [0, 1, -1, i64::MAX, i64::MIN, i64::from(i32::MAX), i64::from(i32::MIN)];
        let mixed = (1..1000i64).map(|at| at.wrapping_mul(0x1234_5678_9ABC_DEF1) ^ at << 29);
        let values: Vec<i64> = edges.into_iter().chain(mixed).collect();
        let ints: Vec<i32> = values.iter().map(|value| *value as i32).collect();
        for seed in [0, 1, 0x8000_0000, u64::MAX, 0x0123_4567_89AB_CDEF] {
            let by_bytes = |bytes: &[u8]| xxhash_rust::xxh3::xxh3_64_with_seed(bytes, seed).cast_signed();
            let expected: Vec<i64> = ints.iter().map(|value| by_bytes(&value.to_be_bytes())).collect();
            assert_eq!((XXHASH3.ints)(Arch::new(), &ints, seed), expected, "seed {seed}");
            let expected: Vec<i64> = values.iter().map(|value| by_bytes(&value.to_be_bytes())).collect();
            assert_eq!((XXHASH3.bigints)(Arch::new(), &values, seed), expected, "seed {seed}");
        }
    }

    #[test]
    fn published_values() {
        // The hash of the empty input, from the algorithm's own sanity checks.
        assert_eq!((XXHASH3.bytes)(b"", 0).cast_unsigned(), 0x2D06_8005_38D3_94C2);
    }
}
