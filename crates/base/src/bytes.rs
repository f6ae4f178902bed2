//! The order of byte strings, which is that of keys.

use std::cmp::Ordering;

/// Compares two slices, with the result of their own `cmp`. Keys mostly differ in their first word, which is compared
/// without a call.
#[inline]
pub fn compare_bytes(one: &[u8], other: &[u8]) -> Ordering {
    first_word(one).cmp(&first_word(other)).then_with(|| one.cmp(other))
}

/// The first eight bytes as a number. Missing bytes count as zeros, so a prefix is never greater.
#[inline]
fn first_word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => (0..8).fold(0, |word, place| word << 8 | u64::from(bytes.get(place).copied().unwrap_or(0))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;

    #[test]
    fn the_order_is_that_of_slices() {
        let mut random = SplitMix64::new(31);
        // Few different bytes, so that many have equal beginnings.
        let mut bytes =
            || -> Vec<u8> { (0..random.below(20)).map(|_| [0, 1, 0x80, 0xFF][random.below(4) as usize]).collect() };
        for _ in 0..10_000 {
            let (one, other) = (bytes(), bytes());
            assert_eq!(compare_bytes(&one, &other), one.cmp(&other), "{one:?} {other:?}");
            let longer = [&one[..], &other].concat();
            assert_eq!(compare_bytes(&one, &longer), one.cmp(&longer), "{one:?} {longer:?}");
        }
    }
}
