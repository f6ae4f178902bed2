//! Loops over a page's arrays at the width of the machine's vector registers.
//!
//! The processor's instructions are detected at run time (crate `pulp`), because the binary is built for every x86-64:
//! with that baseline alone the compiler builds a 64-bit comparison from a dozen 32-bit ones.

use pulp::Arch;

/// Elements that a loop processes at once; a multiple of every register's.
const LANES: usize = 8;

/// Values whose tests make one word of bits.
const BLOCK: usize = 64;

/// The loops, for this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernels {
    arch: Arch,
}

/// A page's 64-bit integers, as stored.
type Words<'a> = &'a [[u8; 8]];

#[inline(always)]
fn word(bytes: [u8; 8]) -> i64 {
    i64::from_le_bytes(bytes)
}

impl Kernels {
    /// The loops for this machine.
    pub(super) fn new() -> Kernels {
        Kernels { arch: Arch::new() }
    }

    /// The greatest value.
    pub(super) fn max(self, words: Words<'_>) -> Option<i64> {
        self.arch.dispatch(
            #[inline(always)]
            || {
                let (chunks, rest) = words.as_chunks::<LANES>();
                let mut best = [i64::MIN; LANES];
                for chunk in chunks {
                    for lane in 0..LANES {
                        best[lane] = best[lane].max(word(chunk[lane]));
                    }
                }
                let best = best.into_iter().chain(rest.iter().map(|&bytes| word(bytes))).max();
                best.filter(|_| !words.is_empty())
            },
        )
    }

    /// The least value.
    pub(super) fn min(self, words: Words<'_>) -> Option<i64> {
        self.arch.dispatch(
            #[inline(always)]
            || {
                let (chunks, rest) = words.as_chunks::<LANES>();
                let mut best = [i64::MAX; LANES];
                for chunk in chunks {
                    for lane in 0..LANES {
                        best[lane] = best[lane].min(word(chunk[lane]));
                    }
                }
                let best = best.into_iter().chain(rest.iter().map(|&bytes| word(bytes))).min();
                best.filter(|_| !words.is_empty())
            },
        )
    }

    /// The exact sum of at most a page's values. High and low halves are added separately, and neither sum can
    /// overflow.
    pub(super) fn sum(self, words: Words<'_>) -> i128 {
        self.arch.dispatch(
            #[inline(always)]
            || {
                let (chunks, rest) = words.as_chunks::<LANES>();
                let (mut high, mut low) = ([0i64; LANES], [0u64; LANES]);
                for chunk in chunks {
                    for lane in 0..LANES {
                        let value = word(chunk[lane]);
                        high[lane] += i64::from((value >> 32) as i32);
                        low[lane] += value.cast_unsigned() & 0xFFFF_FFFF;
                    }
                }
                let vector = (i128::from(high.iter().sum::<i64>()) << 32) + i128::from(low.iter().sum::<u64>());
                vector + rest.iter().map(|&bytes| i128::from(word(bytes))).sum::<i128>()
            },
        )
    }

    /// The greatest `left + right`, row by row, and whether one of the sums overflowed.
    pub(super) fn max_of_sums(self, left: Words<'_>, right: Words<'_>) -> (Option<i64>, bool) {
        self.arch.dispatch(
            #[inline(always)]
            || {
                let ((left, left_rest), (right, right_rest)) = (left.as_chunks::<LANES>(), right.as_chunks::<LANES>());
                let (mut best, mut outside) = ([i64::MIN; LANES], [0i64; LANES]);
                for (a, b) in left.iter().zip(right) {
                    for lane in 0..LANES {
                        let (a, b) = (word(a[lane]), word(b[lane]));
                        let sum = a.wrapping_add(b);
                        outside[lane] |= (a ^ sum) & (b ^ sum);
                        best[lane] = best[lane].max(sum);
                    }
                }
                let mut overflowed = outside.iter().any(|&bits| bits < 0);
                let mut best = best.into_iter().max().filter(|_| !left.is_empty());
                for (&a, &b) in left_rest.iter().zip(right_rest) {
                    let (sum, outside) = word(a).overflowing_add(word(b));
                    overflowed |= outside;
                    best = best.max(Some(sum));
                }
                (best, overflowed)
            },
        )
    }

    /// The greatest of 32-bit values.
    pub(super) fn max_narrow(self, values: &[[u8; 4]]) -> Option<i64> {
        self.arch.dispatch(
            #[inline(always)]
            || values.iter().map(|&bytes| i32::from_le_bytes(bytes)).max().map(i64::from),
        )
    }

    /// The least of 32-bit values.
    pub(super) fn min_narrow(self, values: &[[u8; 4]]) -> Option<i64> {
        self.arch.dispatch(
            #[inline(always)]
            || values.iter().map(|&bytes| i32::from_le_bytes(bytes)).min().map(i64::from),
        )
    }

    /// The sum of at most a page's 32-bit values, which 64 bits hold.
    pub(super) fn sum_narrow(self, values: &[[u8; 4]]) -> i64 {
        self.arch.dispatch(
            #[inline(always)]
            || values.iter().map(|&bytes| i64::from(i32::from_le_bytes(bytes))).sum(),
        )
    }

    /// Whether one of the bytes is an upper-case letter of ASCII.
    pub(super) fn has_upper_case(self, bytes: &[u8]) -> bool {
        self.arch.dispatch(
            #[inline(always)]
            || bytes.iter().fold(false, |found, byte| found | byte.is_ascii_uppercase()),
        )
    }

    /// Appends to `slots` the places of the values that pass. How many pass, and which, cannot be predicted, so there
    /// is a branch only for each that does.
    #[inline(always)]
    pub(super) fn select<T: Copy>(self, values: &[T], passes: impl Fn(T) -> bool, slots: &mut Vec<usize>) {
        self.arch.dispatch(
            #[inline(always)]
            || {
                for (block, values) in values.chunks(BLOCK).enumerate() {
                    let mut flags = [0u8; BLOCK];
                    for (flag, &value) in flags.iter_mut().zip(values) {
                        *flag = u8::from(passes(value));
                    }
                    let mut bits = bits_of(&flags);
                    while bits != 0 {
                        slots.push(block * BLOCK + bits.trailing_zeros() as usize);
                        bits &= bits - 1;
                    }
                }
            },
        );
    }

    /// The length of the longest value by a column's end offsets, and whether the offsets never decrease.
    pub(super) fn longest(self, ends: &[[u8; 2]]) -> (u16, bool) {
        let Some(&first) = ends.first() else { return (0, true) };
        self.arch.dispatch(
            #[inline(always)]
            || {
                let (mut longest, mut fallen) = (u16::from_le_bytes(first), 0u16);
                for (&start, &end) in ends.iter().zip(&ends[1..]) {
                    let (start, end) = (u16::from_le_bytes(start), u16::from_le_bytes(end));
                    longest = longest.max(end.wrapping_sub(start));
                    fallen |= start.saturating_sub(end);
                }
                (longest, fallen == 0)
            },
        )
    }
}

/// A bit for each byte, which is 0 or 1.
#[inline(always)]
fn bits_of(flags: &[u8; BLOCK]) -> u64 {
    // The product has the byte's lowest bits, in order, in its highest byte.
    let byte = |eight: &[u8; 8]| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    let (eights, _) = flags.as_chunks::<8>();
    eights.iter().enumerate().fold(0, |bits, (place, eight)| bits | byte(eight) << (8 * place))
}

#[cfg(test)]
mod tests {
    use hobt_base::SplitMix64;

    use super::*;

    #[test]
    fn loops_agree_with_the_plain_ones() {
        let kernels = Kernels::new();
        let mut random = SplitMix64::new(11);
        for length in 0..70 {
            let values: Vec<i64> = (0..length).map(|_| random.next_u64().cast_signed() >> random.below(64)).collect();
            let other: Vec<i64> = values.iter().map(|_| random.next_u64().cast_signed() >> random.below(64)).collect();
            let bytes: Vec<[u8; 8]> = values.iter().map(|value| value.to_le_bytes()).collect();
            let other_bytes: Vec<[u8; 8]> = other.iter().map(|value| value.to_le_bytes()).collect();
            assert_eq!(kernels.max(&bytes), values.iter().copied().max());
            assert_eq!(kernels.min(&bytes), values.iter().copied().min());
            assert_eq!(kernels.sum(&bytes), values.iter().map(|&value| i128::from(value)).sum());
            let sums: Vec<(i64, bool)> = values.iter().zip(&other).map(|(a, &b)| a.overflowing_add(b)).collect();
            let expected = (sums.iter().map(|sum| sum.0).max(), sums.iter().any(|sum| sum.1));
            assert_eq!(kernels.max_of_sums(&bytes, &other_bytes), expected);
        }
    }

    #[test]
    fn narrow_loops_agree_with_the_plain_ones() {
        let kernels = Kernels::new();
        let mut random = SplitMix64::new(12);
        for length in 0..70 {
            let values: Vec<i32> = (0..length).map(|_| random.next_u64() as i32).collect();
            let bytes: Vec<[u8; 4]> = values.iter().map(|value| value.to_le_bytes()).collect();
            assert_eq!(kernels.max_narrow(&bytes), values.iter().copied().max().map(i64::from));
            assert_eq!(kernels.min_narrow(&bytes), values.iter().copied().min().map(i64::from));
            assert_eq!(kernels.sum_narrow(&bytes), values.iter().map(|&value| i64::from(value)).sum::<i64>());
        }
    }

    #[test]
    fn the_values_that_pass_are_selected_in_order() {
        let kernels = Kernels::new();
        let mut random = SplitMix64::new(5);
        for length in [0, 1, 7, 8, 63, 64, 65, 200] {
            let values: Vec<u64> = (0..length).map(|_| random.below(4)).collect();
            let mut slots = vec![9];
            kernels.select(&values, |value| value == 1, &mut slots);
            let passing = values.iter().enumerate().filter(|(_, value)| **value == 1).map(|(slot, _)| slot);
            assert_eq!(slots, std::iter::once(9).chain(passing).collect::<Vec<_>>());
        }
    }

    #[test]
    fn ends_that_fall_are_seen() {
        let kernels = Kernels::new();
        let ends = |places: &[u16]| places.iter().map(|place| place.to_le_bytes()).collect::<Vec<_>>();
        assert_eq!(kernels.longest(&ends(&[])), (0, true));
        assert_eq!(kernels.longest(&ends(&[7, 7, 10, 30])), (20, true));
        assert!(!kernels.longest(&ends(&[7, 6])).1);
    }
}
