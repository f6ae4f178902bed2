//! The memory bandwidth of this machine: a loop that adds up 64-bit words, on one thread and on many at once.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use crate::figures::median;

/// Memory that is written once and then read.
#[derive(Debug)]
pub(crate) struct MemoryProbe {
    words: Vec<u64>,
}

impl MemoryProbe {
    /// Allocates and writes `bytes` of memory.
    pub(crate) fn new(bytes: u64) -> MemoryProbe {
        let words = usize::try_from(bytes / 8).expect("a size that fits the address space").max(1024);
        MemoryProbe { words: (0..words as u64).collect() }
    }

    /// Gigabytes per second that `threads` threads read together, in one pass over all of the memory. Blocks.
    pub(crate) fn read_gb_s(&self, threads: usize) -> f64 {
        let start = Barrier::new(threads);
        let share = self.words.len().div_ceil(threads);
        let spans: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
            let readers: Vec<_> = self
                .words
                .chunks(share)
                .map(|part| {
                    let start = &start;
                    scope.spawn(move || {
                        start.wait();
                        let since = Instant::now();
                        black_box(sum(black_box(part)));
                        (since, Instant::now())
                    })
                })
                .collect();
            readers.into_iter().map(|reader| reader.join().expect("adding does not panic")).collect()
        });
        let first = spans.iter().map(|span| span.0).min().expect("there is a reader");
        let last = spans.iter().map(|span| span.1).max().expect("there is a reader");
        size_of_val(&self.words[..]) as f64 / 1e9 / (last - first).as_secs_f64().max(1e-9)
    }

    /// The medians of `repetitions` readings with one thread and with `threads` threads, measured alternately.
    pub(crate) fn one_and_many(&self, threads: usize, repetitions: usize) -> (f64, f64) {
        let (mut one, mut many) = (Vec::new(), Vec::new());
        for _ in 0..repetitions.max(1) {
            one.push(self.read_gb_s(1));
            many.push(self.read_gb_s(threads));
        }
        (median(&one).expect("a repetition"), median(&many).expect("a repetition"))
    }
}

/// Eight independent sums, so that the additions do not wait for each other.
fn sum(words: &[u64]) -> u64 {
    let mut sums = [0_u64; 8];
    let (blocks, rest) = words.as_chunks::<8>();
    for block in blocks {
        for (sum, word) in sums.iter_mut().zip(block) {
            *sum = sum.wrapping_add(*word);
        }
    }
    sums.iter().chain(rest).fold(0, |sum, word| sum.wrapping_add(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read() {
        let words: Vec<u64> = (1..=1_003).collect();
        assert_eq!(sum(&words), 1_003 * 1_004 / 2);
        assert_eq!(sum(&[]), 0);
    }

    #[test]
    fn rates_are_measured_for_any_number_of_threads() {
        let probe = MemoryProbe::new(1 << 20);
        for threads in [1, 2, 7] {
            let rate = probe.read_gb_s(threads);
            assert!(rate.is_finite() && rate > 0.0);
        }
    }
}
