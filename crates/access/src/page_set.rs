//! A set of pages from the runs of a HOBT: a bit for each page of the runs, whether it is in the set or not.
//!
//! Runs of a damaged list may overlap: a page of two runs belongs to the one that begins last.

use std::ops::Range;

use hobt_base::{FileId, PageId};

/// A run of pages, with a bit for each that is in the set.
#[derive(Debug)]
struct Stretch {
    file: FileId,
    pages: Range<u32>,
    bits: Vec<u64>,
}

/// A set of pages of some runs.
#[derive(Debug)]
pub(crate) struct PageSet {
    /// In the order of their first pages.
    stretches: Vec<Stretch>,
    /// The length of the longest, in pages: the stretch of a page begins at most so far before it.
    longest: u32,
}

impl PageSet {
    /// An empty set for these runs.
    pub(crate) fn empty(runs: impl IntoIterator<Item = (FileId, Range<u32>)>) -> PageSet {
        let stretch =
            |(file, pages): (FileId, Range<u32>)| Stretch { file, bits: vec![0; pages.len().div_ceil(64)], pages };
        let mut stretches: Vec<Stretch> =
            runs.into_iter().filter(|(_, pages)| !pages.is_empty()).map(stretch).collect();
        stretches.sort_unstable_by_key(|stretch| (stretch.file, stretch.pages.start));
        let longest = stretches.iter().map(|stretch| stretch.pages.end - stretch.pages.start).max().unwrap_or(0);
        PageSet { stretches, longest }
    }

    /// The stretch with a page, and its bit there.
    fn find(&self, page: PageId) -> Option<(usize, u32)> {
        let behind =
            self.stretches.partition_point(|stretch| (stretch.file, stretch.pages.start) <= (page.file, page.number));
        let may_have =
            |stretch: &&Stretch| stretch.file == page.file && page.number - stretch.pages.start < self.longest.max(1);
        let before = self.stretches[..behind].iter().rev().take_while(may_have);
        let back = before.into_iter().position(|stretch| stretch.pages.contains(&page.number))?;
        let at = behind - 1 - back;
        Some((at, page.number - self.stretches[at].pages.start))
    }

    /// Whether a page is of the runs, in the set or not.
    pub(crate) fn is_of_runs(&self, page: PageId) -> bool {
        self.find(page).is_some()
    }

    /// Puts a page of the runs into the set; returns whether it was not in it.
    pub(crate) fn insert(&mut self, page: PageId) -> bool {
        let Some((at, place)) = self.find(page) else { return false };
        let word = &mut self.stretches[at].bits[place as usize / 64];
        let bit = 1 << (place % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// The pages of the runs that are not in the set, in order.
    pub(crate) fn others(&self) -> impl Iterator<Item = PageId> {
        self.stretches.iter().enumerate().flat_map(move |(at, stretch)| {
            let page = |place: u32| PageId::new(stretch.file, stretch.pages.start + place);
            let is_in = |place: u32| stretch.bits[place as usize / 64] & (1 << (place % 64)) != 0;
            // A page of two runs may be in the set by the other run's bit.
            let is_other = move |place: &u32| !is_in(*place) && self.find(page(*place)) == Some((at, *place));
            (0..stretch.pages.end - stretch.pages.start).filter(is_other).map(page)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hobt_base::SplitMix64;

    use super::*;

    #[test]
    fn it_is_a_set_of_the_pages_of_its_runs() {
        for seed in 0..50 {
            let mut random = SplitMix64::new(seed);
            let mut below = |bound: u64| u32::try_from(random.below(bound)).expect("small");
            let runs: Vec<(FileId, Range<u32>)> = (0..below(8))
                .map(|_| (FileId(1 + below(2) as u16), below(400), below(90)))
                .map(|(file, first, count)| (file, first..first + count))
                .collect();
            let all: BTreeSet<PageId> =
                runs.iter().flat_map(|(file, pages)| pages.clone().map(|number| PageId::new(*file, number))).collect();
            let mut set = PageSet::empty(runs.clone());
            let mut model = BTreeSet::new();
            for _ in 0..300 {
                let page = PageId::new(FileId(1 + below(3) as u16), below(500));
                assert_eq!(set.is_of_runs(page), all.contains(&page), "seed {seed}: {page}");
                assert_eq!(set.insert(page), all.contains(&page) && model.insert(page), "seed {seed}: {page}");
            }
            let others: BTreeSet<PageId> = set.others().collect();
            let expected: BTreeSet<PageId> = all.into_iter().filter(|page| !model.contains(page)).collect();
            assert_eq!(others, expected, "seed {seed}");
        }
    }
}
