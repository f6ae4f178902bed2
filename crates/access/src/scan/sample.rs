//! A random sample of a table's pages, reproducible by its seed.
//!
//! Large tables are sampled by extents, so that the pages read are still contiguous; small tables by pages. Rows of one
//! page are seldom independent. If rows are stored in the order of a column, a sample says less of that column than its
//! number of rows suggests.

use hobt_base::EXTENT_PAGES;

use super::dispenser::PageRange;

/// Tables of at least so many pages are sampled by extents.
const PAGES_BY_EXTENT: u64 = 4096;

/// The sample of a table's pages that a scan reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageSample {
    /// How many of a million pages, on average.
    pub millionths: u32,
    /// The seed of the choice.
    pub seed: u64,
}

/// How many pages are taken or left out together.
pub(super) fn unit_pages(pages: &[PageRange]) -> u32 {
    let all: u64 = pages.iter().map(|range| u64::from(range.count)).sum();
    if all >= PAGES_BY_EXTENT { EXTENT_PAGES } else { 1 }
}

impl PageSample {
    fn takes(&self, file: usize, unit: u32) -> bool {
        // SplitMix64's last steps: all bits of the position and the seed count.
        let mut mixed = self.seed ^ (((file as u64) << 32) | u64::from(unit)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % 1_000_000 < u64::from(self.millionths)
    }

    /// The pages of these that are in the sample.
    pub(super) fn of(&self, pages: &[PageRange]) -> Vec<PageRange> {
        let unit_pages = unit_pages(pages);
        let mut chosen: Vec<PageRange> = Vec::new();
        for range in pages {
            let mut rest = *range;
            while rest.count > 0 {
                let unit = rest.first / unit_pages;
                let count = ((unit + 1) * unit_pages - rest.first).min(rest.count);
                if self.takes(rest.file, unit) {
                    chosen.push(PageRange { count, ..rest });
                }
                rest = rest.behind(count);
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(count: u32) -> Vec<PageRange> {
        vec![PageRange { partition: 0, file: 0, first: 9, count, leaf: 0, since: 0 }]
    }

    fn count(pages: &[PageRange]) -> u32 {
        pages.iter().map(|range| range.count).sum()
    }

    #[test]
    fn a_sample_has_about_its_share_and_each_page_once() {
        for total in [1000, 100_000] {
            let sample = PageSample { millionths: 100_000, seed: 7 };
            let chosen = sample.of(&pages(total));
            let share = f64::from(count(&chosen)) / f64::from(total);
            assert!((0.07..0.13).contains(&share), "{share} of {total}");
            assert!(chosen.windows(2).all(|pair| pair[0].first + pair[0].count <= pair[1].first));
            assert!(chosen.iter().all(|range| range.first >= 9 && range.first + range.count <= 9 + total));
            assert_eq!(chosen, sample.of(&pages(total)), "the same seed gives the same pages");
        }
    }

    #[test]
    fn all_and_none_are_samples_too() {
        assert_eq!(count(&PageSample { millionths: 1_000_000, seed: 1 }.of(&pages(5000))), 5000);
        assert_eq!(count(&PageSample { millionths: 0, seed: 1 }.of(&pages(5000))), 0);
    }
}
