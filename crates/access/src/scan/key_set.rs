//! A set of keys with a quick test for keys that are not in it: the filter of a join.
//!
//! ```text
//!   12 keys from 3 to 900           a bit for each number from 3 to 900
//!   1,000 keys from 7 to 10^15      between 7 and 10^15, and four bits of one word of a Bloom filter
//!   more keys than are kept         between the least and the greatest
//! ```
//! Keys are 64-bit numbers: integers, days and ticks as they are, anything else by a hash of its bytes. The test says
//! yes to every key of the set, and to few others.

use super::kernels::Kernels;

/// The largest bitmap for the numbers between the least and the greatest key: 4 MiB.
const BITS_MAX: u64 = 1 << 25;
/// A bitmap is worth it up to so many numbers for each key.
const NUMBERS_A_KEY: u64 = 256;
/// A bitmap of up to this size is worth it for any keys: 128 KiB, which a core's second-level cache holds. A bit is
/// cheaper to test than the position in a Bloom filter is to compute, and no key passes that is not in the set.
const BITS_LEAST: u64 = 1 << 20;
/// Bits of a Bloom filter for each key: about one key in fifty passes that is not in the set.
const BLOOM_BITS_A_KEY: usize = 16;
/// Up to so many keys are listed one by one.
const LIST_MAX: usize = 1024;

/// A set of numbers, with a test that rejects most other numbers.
#[derive(Clone, Debug)]
pub struct KeySet {
    low: i64,
    high: i64,
    members: Members,
    /// The keys, if they are few.
    list: Option<Vec<i64>>,
}

#[derive(Clone, Debug)]
enum Members {
    /// All numbers between the bounds.
    All,
    /// A bit for each number from the low bound on.
    Bits(Vec<u64>),
    /// Four bits of a word for each key.
    Bloom(Vec<u64>),
}

impl KeySet {
    /// The set of these keys.
    pub fn of(keys: &[i64]) -> KeySet {
        let (low, high) = keys.iter().fold((i64::MAX, i64::MIN), |(low, high), &key| (low.min(key), high.max(key)));
        if keys.is_empty() {
            return KeySet { low, high, members: Members::All, list: Some(Vec::new()) };
        }
        let span = high.abs_diff(low);
        let worth_it = (keys.len() as u64).saturating_mul(NUMBERS_A_KEY).clamp(BITS_LEAST, BITS_MAX);
        let members = if span < worth_it { bits_of(keys, low, span) } else { bloom_of(keys) };
        KeySet { low, high, members, list: list_of(keys) }
    }

    /// All keys between two, inclusive.
    pub fn between(low: i64, high: i64) -> KeySet {
        KeySet { low, high, members: Members::All, list: None }
    }

    /// Removes what is not in `other`, if both are ranges. Otherwise returns `false`.
    pub fn narrow(&mut self, other: &KeySet) -> bool {
        let are_ranges = matches!((&self.members, &other.members), (Members::All, Members::All))
            && self.list.is_none()
            && other.list.is_none();
        if are_ranges {
            (self.low, self.high) = (self.low.max(other.low), self.high.min(other.high));
        }
        are_ranges
    }

    /// The least and the greatest key; `None` if there is none.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        (self.low <= self.high).then_some((self.low, self.high))
    }

    /// The keys in order without duplicates, if they are few.
    pub fn list(&self) -> Option<&[i64]> {
        self.list.as_deref()
    }

    /// Whether no other number passes.
    pub fn is_exact(&self) -> bool {
        !matches!(self.members, Members::Bloom(_))
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        let words = match &self.members {
            Members::All => 0,
            Members::Bits(words) | Members::Bloom(words) => words.len(),
        };
        8 * (words + self.list.as_ref().map_or(0, Vec::len))
    }

    /// How it tests, in a word.
    pub fn kind(&self) -> &'static str {
        match (&self.members, self.bounds()) {
            (_, None) => "empty",
            (Members::All, _) => "range",
            (Members::Bits(_), _) => "bitmap",
            (Members::Bloom(_), _) => "Bloom",
        }
    }

    /// `false` if the key is not in the set.
    #[inline]
    pub fn may_have(&self, key: i64) -> bool {
        if key < self.low || key > self.high {
            return false;
        }
        match &self.members {
            Members::All => true,
            Members::Bits(words) => has_bit(words, key.abs_diff(self.low)),
            Members::Bloom(words) => has_bloom(words, key),
        }
    }

    /// Appends to `slots` the positions of the values that may be in the set.
    pub(super) fn select<N: PageNumber>(&self, values: &[N::Bytes], kernels: Kernels, slots: &mut Vec<usize>) {
        let (low, high) = (self.low, self.high);
        if low > high {
            return;
        }
        // One comparison: a key below wraps round to a number far above.
        let span = high.wrapping_sub(low).cast_unsigned();
        let is_between = |key: i64| key.wrapping_sub(low).cast_unsigned() <= span;
        match &self.members {
            Members::All => {
                // In the column's own width, where twice as many are compared at once.
                let Some((low, span)) = N::range(low, high) else { return };
                kernels.select(
                    values,
                    #[inline(always)]
                    |value| N::is_between(value, low, span),
                    slots,
                );
            }
            Members::Bits(words) => {
                // A key below wraps round to a number for which there is no word.
                kernels.select(
                    values,
                    #[inline(always)]
                    |value| has_bit(words, N::key(value).wrapping_sub(low).cast_unsigned()),
                    slots,
                );
            }
            Members::Bloom(words) => {
                kernels.select(
                    values,
                    #[inline(always)]
                    |value| is_between(N::key(value)) & has_bloom(words, N::key(value)),
                    slots,
                );
            }
        }
    }
}

/// A number as a page stores it.
pub(super) trait PageNumber {
    /// Its bytes.
    type Bytes: Copy;
    /// Of its width.
    type Number: Copy;

    /// Its key.
    fn key(bytes: Self::Bytes) -> i64;

    /// The least number of a range of keys, and how many further numbers are in it; `None` if the width has none of
    /// the range's keys.
    fn range(low: i64, high: i64) -> Option<(Self::Number, Self::Number)>;

    /// Whether it is in a range.
    fn is_between(bytes: Self::Bytes, low: Self::Number, span: Self::Number) -> bool;
}

macro_rules! page_number {
    ($name:ident, $number:ty, $unsigned:ty, $bytes:expr) => {
        pub(super) struct $name;

        impl PageNumber for $name {
            type Bytes = [u8; $bytes];
            type Number = $unsigned;

            #[inline(always)]
            fn key(bytes: [u8; $bytes]) -> i64 {
                i64::from(<$number>::from_le_bytes(bytes))
            }

            fn range(low: i64, high: i64) -> Option<($unsigned, $unsigned)> {
                let (least, greatest) = (i64::from(<$number>::MIN), i64::from(<$number>::MAX));
                let (low, high) = (low.max(least), high.min(greatest));
                // Both are numbers of the width, so the casts keep them.
                (low <= high).then_some((low as $unsigned, high.wrapping_sub(low) as $unsigned))
            }

            #[inline(always)]
            fn is_between(bytes: [u8; $bytes], low: $unsigned, span: $unsigned) -> bool {
                <$unsigned>::from_le_bytes(bytes).wrapping_sub(low) <= span
            }
        }
    };
}

page_number!(Byte, u8, u8, 1);
page_number!(Number16, i16, u16, 2);
page_number!(Number32, i32, u32, 4);
page_number!(Number64, i64, u64, 8);

/// The lower half of a value of sixteen bytes.
pub(super) struct LowerHalf;

impl PageNumber for LowerHalf {
    type Bytes = [u8; 16];
    type Number = u64;

    #[inline(always)]
    fn key(bytes: [u8; 16]) -> i64 {
        u128::from_le_bytes(bytes) as i64
    }

    fn range(low: i64, high: i64) -> Option<(u64, u64)> {
        Number64::range(low, high)
    }

    #[inline(always)]
    fn is_between(bytes: [u8; 16], low: u64, span: u64) -> bool {
        (u128::from_le_bytes(bytes) as u64).wrapping_sub(low) <= span
    }
}

fn bits_of(keys: &[i64], low: i64, span: u64) -> Members {
    // The span is less than the largest bitmap.
    let mut words = vec![0u64; (span / 64 + 1) as usize];
    for key in keys {
        let bit = key.abs_diff(low);
        words[(bit / 64) as usize] |= 1 << (bit % 64);
    }
    Members::Bits(words)
}

#[inline(always)]
fn has_bit(words: &[u64], bit: u64) -> bool {
    usize::try_from(bit / 64).ok().and_then(|word| words.get(word)).is_some_and(|word| word >> (bit % 64) & 1 == 1)
}

fn bloom_of(keys: &[i64]) -> Members {
    let mut words = vec![0u64; (keys.len() * BLOOM_BITS_A_KEY).div_ceil(64).next_power_of_two()];
    for key in keys {
        let (word, mask) = bloom_place(words.len(), *key);
        words[word] |= mask;
    }
    Members::Bloom(words)
}

#[inline(always)]
fn has_bloom(words: &[u64], key: i64) -> bool {
    let (word, mask) = bloom_place(words.len(), key);
    words[word] & mask == mask
}

/// The word of a key, and its bits there. The number of words is a power of two.
#[inline(always)]
fn bloom_place(words: usize, key: i64) -> (usize, u64) {
    let mixed = mix(key.cast_unsigned());
    let mask = 1 << (mixed & 63) | 1 << (mixed >> 6 & 63) | 1 << (mixed >> 12 & 63) | 1 << (mixed >> 18 & 63);
    // The cut-off bits are not needed: the position is below the number of words.
    ((mixed >> 24) as usize & (words - 1), mask)
}

/// Mixes a number so that each bit depends on all bits: the finaliser of `SplitMix64` (Steele, Lea, Flood 2014).
#[inline(always)]
fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ number >> 31
}

/// The key that represents a byte string in a [`KeySet`].
pub fn key_of_bytes(bytes: &[u8]) -> i64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let start = bytes.len() as u64;
    let hash = words.iter().chain([&last]).fold(start, |hash, word| mix(hash ^ u64::from_le_bytes(*word)));
    hash.cast_signed()
}

fn list_of(keys: &[i64]) -> Option<Vec<i64>> {
    if keys.len() > 4 * LIST_MAX {
        return None;
    }
    let mut list = keys.to_vec();
    list.sort_unstable();
    list.dedup();
    (list.len() <= LIST_MAX).then_some(list)
}

#[cfg(test)]
mod tests {
    use hobt_base::SplitMix64;

    use super::*;

    fn slots_of(set: &KeySet, values: &[i64]) -> Vec<usize> {
        let bytes: Vec<[u8; 8]> = values.iter().map(|value| value.to_le_bytes()).collect();
        let mut slots = Vec::new();
        set.select::<Number64>(&bytes, Kernels::new(), &mut slots);
        slots
    }

    #[test]
    fn every_key_is_in_its_set_and_few_others_are() {
        let mut random = SplitMix64::new(5);
        for (count, span) in [(1, 1), (3, u64::MAX), (100, 1000), (5000, 1 << 20), (5000, u64::MAX), (4000, 1 << 40)] {
            let keys: Vec<i64> = (0..count).map(|_| random.below(span).cast_signed()).collect();
            let set = KeySet::of(&keys);
            assert!(keys.iter().all(|key| set.may_have(*key)), "{count} of {span} as {}", set.kind());
            let others: Vec<i64> = (0..10_000).map(|_| random.next_u64().cast_signed()).collect();
            let passed = others.iter().filter(|key| set.may_have(**key)).count();
            assert!(passed < 500, "{passed} of 10,000 by chance, {count} of {span} as {}", set.kind());
            let both: Vec<i64> = keys.iter().chain(&others).copied().collect();
            let expected: Vec<usize> = (0..both.len()).filter(|&at| set.may_have(both[at])).collect();
            assert_eq!(slots_of(&set, &both), expected);
        }
    }

    #[test]
    fn a_dense_set_is_exact_at_the_ends_of_the_numbers() {
        for keys in [[i64::MIN, i64::MIN + 2], [i64::MAX - 2, i64::MAX], [-1, 1]] {
            let set = KeySet::of(&keys);
            assert_eq!(set.kind(), "bitmap");
            for key in [i64::MIN, i64::MIN + 1, i64::MIN + 2, -1, 0, 1, i64::MAX - 2, i64::MAX - 1, i64::MAX] {
                assert_eq!(set.may_have(key), keys.contains(&key), "{key} in {keys:?}");
                assert_eq!(slots_of(&set, &[key]).len(), usize::from(keys.contains(&key)), "{key} in {keys:?}");
            }
        }
    }

    #[test]
    fn the_empty_set_has_nothing_and_a_range_what_is_between() {
        let empty = KeySet::of(&[]);
        assert_eq!((empty.bounds(), empty.may_have(0), slots_of(&empty, &[0, 1]).len()), (None, false, 0));
        let range = KeySet::between(-3, 5);
        assert_eq!(slots_of(&range, &[-4, -3, 0, 5, 6]), [1, 2, 3]);
        assert_eq!((range.bounds(), range.list()), (Some((-3, 5)), None));
        let mut narrower = range.clone();
        assert!(narrower.narrow(&KeySet::between(2, i64::MAX)));
        assert_eq!(narrower.bounds(), Some((2, 5)));
        assert!(!narrower.narrow(&KeySet::of(&[3])));
        assert!(narrower.narrow(&KeySet::between(9, 12)));
        assert_eq!((narrower.bounds(), slots_of(&narrower, &[2, 5, 7, 9]).len()), (None, 0));
        assert_eq!(KeySet::of(&[4, 2, 4]).list(), Some(&[2, 4][..]));
    }

    #[test]
    fn bytes_that_differ_have_other_keys() {
        let all = [&b""[..], b"\0", b"\0\0", b"a", b"aaaaaaaa", b"aaaaaaaa\0", b"aaaaaaab"];
        let mut keys: Vec<i64> = all.iter().map(|bytes| key_of_bytes(bytes)).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), all.len());
    }
}
