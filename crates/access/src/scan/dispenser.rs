//! The page-range dispenser, the text's card dealer: which worker reads which pages.
//!
//! The ranges are cut when the scan starts, so a grant is one atomic add and nobody ever waits. They shrink towards the
//! end: a range is never more than a fraction of what is left for each worker, so the workers finish together. One list
//! serves all partitions; a partition has no dealer of its own and needs none.
//!
//! [`DealerKind::Latched`] deals as SQL Server 2008 to 2014 did, under the latch `ACCESS_METHODS_DATASET_PARENT`, so
//! that the latch's cost can be seen; it is there for the laboratory.

use std::sync::atomic::{AtomicUsize, Ordering};

use hobt_base::EXTENT_PAGES;
use hobt_page::Run;
use hobt_sync::{Latch, LatchClass};

/// How ranges are dealt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DealerKind {
    /// One atomic add a grant.
    #[default]
    Atomic,
    /// Under one latch, as it was; for the laboratory.
    Latched,
}

/// Contiguous pages of one file that one worker reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRange {
    /// The partition's place in the scan.
    pub partition: usize,
    /// The file's place among the database's.
    pub file: usize,
    /// The first page.
    pub first: u32,
    /// How many; at least 1.
    pub count: u32,
}

/// Deals page ranges to workers.
#[derive(Debug)]
pub struct Dispenser {
    ranges: Vec<PageRange>,
    next: AtomicUsize,
    latched: Option<Latch<usize>>,
}

/// A range is at most this part of what is left, divided by the workers.
const SHARE: u64 = 4;

impl Dispenser {
    /// Cuts `runs` (partition, file, run) into ranges of at most `unit` pages for `workers` workers.
    pub fn new(runs: &[(usize, usize, Run)], unit: u32, workers: usize, kind: DealerKind) -> Dispenser {
        let mut left: u64 = runs.iter().map(|(_, _, run)| u64::from(run.row_page_count())).sum();
        let mut ranges = Vec::with_capacity(usize::try_from(left / u64::from(unit)).unwrap_or(0) + runs.len());
        for (partition, file, run) in runs {
            let pages = run.row_pages();
            let mut first = pages.start;
            while first < pages.end {
                let share = u32::try_from(left / (SHARE * workers as u64)).unwrap_or(u32::MAX);
                let size = (share / EXTENT_PAGES * EXTENT_PAGES).clamp(EXTENT_PAGES.min(unit), unit);
                let count = size.min(pages.end - first);
                ranges.push(PageRange { partition: *partition, file: *file, first, count });
                first += count;
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
    use hobt_base::{FileId, PageId};
    use hobt_page::RunContents;

    use super::*;

    fn run(first: u32, used: u32, skip: u16) -> Run {
        let page_count = used.next_multiple_of(EXTENT_PAGES);
        Run { first: PageId::new(FileId(1), first), page_count, used, skip, contents: RunContents::Rows }
    }

    #[test]
    fn every_page_is_dealt_once_whatever_the_dealer() {
        for kind in [DealerKind::Atomic, DealerKind::Latched] {
            let runs = [(0, 0, run(8, 8, 1)), (0, 0, run(64, 1000, 0)), (1, 1, run(8, 3, 1)), (1, 1, run(800, 0, 0))];
            let dispenser = Dispenser::new(&runs, 64, 2, kind);
            let seen: Vec<PageRange> = std::thread::scope(|scope| {
                let workers: Vec<_> = (0..2)
                    .map(|_| scope.spawn(|| std::iter::from_fn(|| dispenser.grant()).collect::<Vec<_>>()))
                    .collect();
                workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
            });
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
        let dispenser = Dispenser::new(&[(0, 0, run(8, 4096, 0))], 64, 2, DealerKind::Atomic);
        let counts: Vec<u32> = std::iter::from_fn(|| dispenser.grant()).map(|range| range.count).collect();
        assert_eq!(counts[0], 64);
        assert_eq!(*counts.last().expect("ranges"), EXTENT_PAGES);
        assert!(counts.windows(2).all(|pair| pair[0] >= pair[1]), "{counts:?}");
    }
}
