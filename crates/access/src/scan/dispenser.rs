//! The page-range dispenser: which worker reads which pages.
//!
//! The ranges are cut when the scan starts, so a grant is one atomic add and never waits. They shrink towards the end:
//! a range is never more than a fraction of what is left for each worker, so the workers finish together. One list
//! serves all partitions.
//!
//! [`DealerKind::Latched`] deals as SQL Server 2008 to 2014 did, under the latch `ACCESS_METHODS_DATASET_PARENT`, so
//! that the latch's cost can be measured. It is there for the laboratory.

use std::sync::atomic::{AtomicUsize, Ordering};

use hobt_base::EXTENT_PAGES;
use hobt_instruments::{Latch, LatchClass};

/// How ranges are dealt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DealerKind {
    /// One atomic add a grant.
    #[default]
    Atomic,
    /// Under one latch, as in SQL Server 2008 to 2014; for the laboratory.
    Latched,
}

/// Contiguous pages of one file that one worker reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRange {
    /// The partition's index in the scan.
    pub partition: usize,
    /// The file's index among the database's files.
    pub file: usize,
    /// The first page.
    pub first: u32,
    /// How many; at least 1.
    pub count: u32,
    /// The index of the first page in the scan's list of a tree's leaves; unused in a heap.
    pub leaf: usize,
    /// How often pages of the HOBT had gone out of use when these were known to be in use.
    pub since: u64,
}

impl PageRange {
    /// The index of a page of the range in the scan's list of a tree's leaves.
    pub(super) fn leaf_of(&self, number: u32) -> usize {
        self.leaf + (number - self.first) as usize
    }

    /// The range without its first pages.
    pub(super) fn behind(&self, pages: u32) -> PageRange {
        let leaf = self.leaf + pages as usize;
        PageRange { first: self.first + pages, count: self.count - pages, leaf, ..*self }
    }
}

/// Deals page ranges to workers.
#[derive(Debug)]
pub struct Dispenser {
    ranges: Vec<PageRange>,
    next: AtomicUsize,
    latched: Option<Latch<usize>>,
}

/// A range is at most one part in so many of what is left, divided by the workers.
const SHARE: u64 = 4;

impl Dispenser {
    /// Cuts neighbouring pages into ranges of at most `unit` pages for `workers` workers.
    pub fn new(pages: &[PageRange], unit: u32, workers: usize, kind: DealerKind) -> Dispenser {
        let mut left: u64 = pages.iter().map(|range| u64::from(range.count)).sum();
        let mut ranges = Vec::with_capacity(usize::try_from(left / u64::from(unit)).unwrap_or(0) + pages.len());
        for whole in pages {
            let mut dealt = 0;
            while dealt < whole.count {
                let share = u32::try_from(left / (SHARE * workers as u64)).unwrap_or(u32::MAX);
                let size = (share / EXTENT_PAGES * EXTENT_PAGES).clamp(EXTENT_PAGES.min(unit), unit);
                let count = size.min(whole.count - dealt);
                let leaf = whole.leaf + dealt as usize;
                ranges.push(PageRange { first: whole.first + dealt, count, leaf, ..*whole });
                dealt += count;
                left -= u64::from(count);
            }
        }
        let latched = (kind == DealerKind::Latched).then(|| Latch::new(LatchClass::DatasetParent, 0));
        Dispenser { ranges, next: AtomicUsize::new(0), latched }
    }

    /// The next range, or `None` when all are dealt.
    pub fn grant(&self) -> Option<PageRange> {
        if let Some(latch) = &self.latched {
            let mut next = latch.write();
            let range = self.ranges.get(*next).copied();
            *next += usize::from(range.is_some());
            self.next.store(*next, Ordering::Relaxed);
            return range;
        }
        // A worker stops asking after its first `None`, so the counter does not run away.
        self.ranges.get(self.next.fetch_add(1, Ordering::Relaxed)).copied()
    }

    /// How many ranges are not dealt yet.
    pub fn remaining(&self) -> usize {
        self.ranges.len().saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// How many ranges there are in all.
    pub fn grant_count(&self) -> usize {
        self.ranges.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(partition: usize, file: usize, first: u32, count: u32) -> PageRange {
        PageRange { partition, file, first, count, leaf: 1000 * first as usize, since: 0 }
    }

    #[test]
    fn every_page_is_dealt_once_whatever_the_dealer() {
        for kind in [DealerKind::Atomic, DealerKind::Latched] {
            let runs = [run(0, 0, 9, 7), run(0, 0, 64, 1000), run(1, 1, 9, 2), run(1, 1, 800, 0)];
            let dispenser = Dispenser::new(&runs, 64, 2, kind);
            let seen: Vec<PageRange> = std::thread::scope(|scope| {
                let workers: Vec<_> = (0..2)
                    .map(|_| scope.spawn(|| std::iter::from_fn(|| dispenser.grant()).collect::<Vec<_>>()))
                    .collect();
                workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
            });
            assert!(seen.iter().all(|range| {
                let whole = runs.iter().rfind(|whole| whole.file == range.file && whole.first <= range.first);
                whole.is_some_and(|whole| range.leaf == whole.leaf_of(range.first))
            }));
            let mut pages: Vec<(usize, u32)> = seen
                .iter()
                .flat_map(|range| (range.first..range.first + range.count).map(|page| (range.file, page)))
                .collect();
            pages.sort_unstable();
            let mut expected: Vec<(usize, u32)> = (9..16).map(|page| (0, page)).collect();
            expected.extend((64..1064).map(|page| (0, page)));
            expected.extend((9..11).map(|page| (1, page)));
            assert_eq!(pages, expected);
        }
    }

    #[test]
    fn ranges_shrink_towards_the_end() {
        let dispenser = Dispenser::new(&[run(0, 0, 8, 4096)], 64, 2, DealerKind::Atomic);
        let counts: Vec<u32> = std::iter::from_fn(|| dispenser.grant()).map(|range| range.count).collect();
        assert_eq!(counts[0], 64);
        assert_eq!(*counts.last().expect("ranges"), EXTENT_PAGES);
        assert!(counts.windows(2).all(|pair| pair[0] >= pair[1]), "{counts:?}");
    }
}
