//! The free extents of a file, in memory: one bit an extent, and hints where a search may start.
//!
//! A search wants a run of some length and takes the first run that is at least as long as the largest power of two in
//! that length. If there is none, it tries the next smaller power, down to one extent. For each power a hint gives the
//! earliest extent at which such a run can begin, so that a file of millions of extents is not searched from its start
//! for each allocation. Hints rise as extents are taken. When extents are freed, the hints fall for the lengths that
//! become possible.

use hobt_base::EXTENT_PAGES;
use hobt_page::EXTENTS_PER_MAP;

/// Powers of two of run lengths: 1, 2, 4 … 32,768 extents.
const CLASSES: usize = 16;
/// The longest of these lengths.
const LENGTH_MAX: u32 = 1 << (CLASSES - 1);

/// The extents are not in the expected state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StateDiffers;

/// Which extents of a file are free.
#[derive(Debug)]
pub(crate) struct FreeExtents {
    /// One bit an extent, 1 for allocated.
    bits: Vec<u64>,
    size_pages: u32,
    free: u32,
    /// No run of `1 << class` free extents begins before this extent.
    hints: [u32; CLASSES],
}

impl FreeExtents {
    /// The extents of a file of this size, all free except those that are kept for allocation pages.
    pub(crate) fn new(size_pages: u32) -> FreeExtents {
        let mut free = FreeExtents { bits: Vec::new(), size_pages: 0, free: 0, hints: [0; CLASSES] };
        free.resize(size_pages);
        free
    }

    /// The file's size in pages.
    pub(crate) fn size_pages(&self) -> u32 {
        self.size_pages
    }

    /// The number of whole extents in the file.
    pub(crate) fn extents(&self) -> u32 {
        self.size_pages / EXTENT_PAGES
    }

    /// The number of free extents.
    pub(crate) fn free(&self) -> u32 {
        self.free
    }

    /// Adds the extents up to `size_pages`. The first extents of new intervals are allocated.
    pub(crate) fn resize(&mut self, size_pages: u32) {
        let (old, new) = (self.extents(), size_pages / EXTENT_PAGES);
        self.bits.resize((new as usize).div_ceil(64), 0);
        self.free += new - old;
        self.size_pages = size_pages;
        self.lower_hints(old, new - old);
        let mut extent = old.div_ceil(EXTENTS_PER_MAP) * EXTENTS_PER_MAP;
        while extent < new {
            self.set(extent, 1, true).expect("new extents are free");
            extent += EXTENTS_PER_MAP;
        }
    }

    pub(crate) fn is_allocated(&self, extent: u32) -> bool {
        self.bits[(extent / 64) as usize] >> (extent % 64) & 1 == 1
    }

    /// Whether all these extents are in the file and in this state.
    pub(crate) fn are(&self, first: u32, count: u32, allocated: bool) -> bool {
        let Some(end) = first.checked_add(count).filter(|end| *end <= self.extents()) else { return false };
        let state = if allocated { u64::MAX } else { 0 };
        words(first, end).all(|(word, mask)| (self.bits[word] ^ state) & mask == 0)
    }

    /// Whether these extents can belong to a HOBT: in the file, allocated, and without an allocation page.
    pub(crate) fn can_be_owned(&self, first: u32, count: u32) -> bool {
        let reserved = u64::from(first).next_multiple_of(u64::from(EXTENTS_PER_MAP));
        self.are(first, count, true) && reserved >= u64::from(first) + u64::from(count)
    }

    /// Changes the state of extents.
    ///
    /// # Errors
    /// One of them is in that state already, or not in the file: it has two owners, or a page that says so is damaged.
    /// Nothing was changed.
    pub(crate) fn set(&mut self, first: u32, count: u32, allocated: bool) -> Result<(), StateDiffers> {
        if !self.are(first, count, !allocated) {
            return Err(StateDiffers);
        }
        words(first, first + count).for_each(|(word, mask)| self.bits[word] ^= mask);
        if allocated {
            self.free -= count;
        } else {
            self.free += count;
            self.lower_hints(first, count);
        }
        Ok(())
    }

    /// Called when extents have become free: with their neighbours they make a run, in which shorter runs may begin a
    /// little before them.
    fn lower_hints(&mut self, first: u32, count: u32) {
        let start = self.run_start(first, first.saturating_sub(LENGTH_MAX));
        let stop = self.next_allocated(first + count, (first + count).saturating_add(LENGTH_MAX).min(self.extents()));
        for (class, hint) in self.hints.iter_mut().enumerate() {
            let length = 1 << class;
            if length <= stop - start {
                *hint = (*hint).min(first.saturating_sub(length - 1).max(start));
            }
        }
    }

    /// The first of the free extents directly before `from`, searched down to `least`.
    fn run_start(&self, from: u32, least: u32) -> u32 {
        let mut extent = from;
        while extent > least {
            let below = (extent - 1) % 64 + 1;
            let free = (self.bits[((extent - 1) / 64) as usize] << (64 - below)).leading_zeros().min(below);
            extent -= free;
            if free < below {
                break;
            }
        }
        extent.max(least)
    }

    /// The first free extent from `from` on.
    fn next_free(&self, from: u32) -> Option<u32> {
        let end = self.extents();
        let mut extent = from;
        while extent < end {
            let rest = self.bits[(extent / 64) as usize] >> (extent % 64);
            let taken = rest.trailing_ones().min(64 - extent % 64);
            extent += taken;
            if taken == 0 {
                return Some(extent);
            }
        }
        None
    }

    /// The first allocated extent from `from` on, or `limit` if that comes first.
    fn next_allocated(&self, from: u32, limit: u32) -> u32 {
        let mut extent = from;
        while extent < limit {
            let rest = self.bits[(extent / 64) as usize] >> (extent % 64);
            if rest != 0 {
                return (extent + rest.trailing_zeros()).min(limit);
            }
            extent += 64 - extent % 64;
        }
        limit
    }

    /// The runs of allocated extents, in order: the first one, and how many.
    pub(crate) fn allocated_runs(&self) -> Vec<(u32, u32)> {
        let (mut runs, mut from, end) = (Vec::new(), 0, self.extents());
        while from < end {
            let first = self.next_allocated(from, end);
            let stop = self.next_free(first).unwrap_or(end).min(end);
            if first < stop {
                runs.push((first, stop - first));
            }
            from = stop.max(first);
        }
        runs
    }

    /// Allocates up to `wanted` extents in one piece: the first piece that has at least the largest power of two, up to
    /// `wanted`, that is free in one piece. `None` if no extent is free.
    pub(crate) fn take(&mut self, wanted: u32) -> Option<(u32, u32)> {
        let end = self.extents();
        let largest = (wanted.max(1).ilog2() as usize).min(CLASSES - 1);
        for class in (0..=largest).rev().filter(|_| self.free > 0) {
            let mut from = self.hints[class];
            while let Some(first) = self.next_free(from) {
                let stop = self.next_allocated(first, first.saturating_add(wanted).min(end));
                if stop - first >= 1 << class {
                    self.hints[class] = first;
                    self.set(first, stop - first, true).expect("found free");
                    return Some((first, stop - first));
                }
                from = stop;
            }
            self.hints[class] = end;
        }
        None
    }
}

/// The words of the extents `first..end`, each with the mask of their bits.
fn words(first: u32, end: u32) -> impl Iterator<Item = (usize, u64)> {
    let mut extent = first;
    std::iter::from_fn(move || {
        let length = (64 - extent % 64).min(end.saturating_sub(extent));
        let item = (length > 0).then(|| ((extent / 64) as usize, u64::MAX >> (64 - length) << (extent % 64)));
        extent += length;
        item
    })
}

#[cfg(test)]
mod tests {
    use hobt_base::SplitMix64;
    use hobt_page::INTERVAL_PAGES;

    use super::*;

    #[test]
    fn free_extents_are_found_in_one_piece_and_counted() {
        let mut free = FreeExtents::new(EXTENT_PAGES * 300);
        assert_eq!(free.free(), 299, "the first extent holds the maps");
        assert_eq!(free.take(100), Some((1, 100)));
        assert_eq!(free.take(150), Some((101, 150)));
        free.set(50, 10, false).expect("taken above");
        assert_eq!(free.take(20), Some((251, 20)), "a longer piece is preferred to a nearer one");
        assert_eq!(free.take(100), Some((271, 29)), "the longest that is left");
        assert_eq!(free.take(100), Some((50, 10)));
        assert_eq!(free.take(1), None);
        free.resize(EXTENT_PAGES * 301);
        assert_eq!(free.take(5), Some((300, 1)));
    }

    #[test]
    fn a_new_interval_keeps_its_first_extent() {
        let mut free = FreeExtents::new(INTERVAL_PAGES);
        assert_eq!(free.free(), EXTENTS_PER_MAP - 1);
        free.resize(2 * INTERVAL_PAGES);
        assert_eq!(free.free(), 2 * EXTENTS_PER_MAP - 2);
        assert!(free.is_allocated(EXTENTS_PER_MAP));
    }

    /// The longest run of free extents, by looking at each.
    fn longest(free: &FreeExtents) -> u32 {
        let mut best = 0;
        let mut length = 0;
        for extent in 0..free.extents() {
            length = if free.is_allocated(extent) { 0 } else { length + 1 };
            best = best.max(length);
        }
        best
    }

    #[test]
    fn hints_never_hide_a_run() {
        for seed in 0..30 {
            let mut random = SplitMix64::new(seed);
            let mut free = FreeExtents::new(EXTENT_PAGES * 700);
            let mut taken: Vec<(u32, u32)> = Vec::new();
            for _ in 0..400 {
                if random.below(5) < 3 || taken.is_empty() {
                    let wanted = 1 + random.below(100) as u32;
                    let there = longest(&free);
                    let got = free.take(wanted);
                    assert_eq!(got.is_some(), there > 0);
                    if let Some((first, count)) = got {
                        assert!(count <= wanted);
                        let least = wanted.min(1 << wanted.min(there).ilog2());
                        assert!(count >= least, "{count} of {wanted} with {there} in one piece");
                        taken.push((first, count));
                    }
                } else {
                    let (first, count) = taken.swap_remove(random.below(taken.len() as u64) as usize);
                    free.set(first, count, false).expect("taken above");
                }
                let runs = free.allocated_runs();
                let in_runs: Vec<u32> = runs.iter().flat_map(|(first, count)| *first..first + count).collect();
                let allocated: Vec<u32> = (0..free.extents()).filter(|&extent| free.is_allocated(extent)).collect();
                assert_eq!(in_runs, allocated);
                assert!(runs.windows(2).all(|pair| pair[0].0 + pair[0].1 < pair[1].0), "apart");
                let free_now = (0..free.extents()).filter(|&extent| !free.is_allocated(extent)).count();
                assert_eq!(free.free() as usize, free_now);
            }
        }
    }

    #[test]
    fn a_state_that_is_there_already_is_refused_and_nothing_changed() {
        let mut free = FreeExtents::new(EXTENT_PAGES * 200);
        let (first, count) = free.take(130).expect("room");
        let before = free.free();
        for (wrong, length, allocated) in [
            (first + count - 1, 2, false),
            (first, 200, false),
            (u32::MAX - 1, 2, false),
            (150, u32::MAX, false),
            (first + count - 1, 2, true),
            (190, 20, true),
        ] {
            assert_eq!(free.set(wrong, length, allocated), Err(StateDiffers), "{wrong} {length}");
            assert!(free.are(first, count, true) && free.are(first + count, 200 - first - count, false));
        }
        assert_eq!(free.free(), before);
        free.set(first, count, false).expect("allocated");
        assert_eq!(free.set(first, count, false), Err(StateDiffers), "freed twice");
    }

    #[test]
    fn extents_of_allocation_pages_are_nobodys() {
        let mut free = FreeExtents::new(2 * INTERVAL_PAGES);
        while free.take(EXTENTS_PER_MAP).is_some() {}
        for (first, count, can) in [
            (0, 1, false),
            (0, 10, false),
            (1, EXTENTS_PER_MAP - 1, true),
            (1, EXTENTS_PER_MAP, false),
            (EXTENTS_PER_MAP, 1, false),
            (EXTENTS_PER_MAP + 1, EXTENTS_PER_MAP - 1, true),
            (EXTENTS_PER_MAP + 1, EXTENTS_PER_MAP, false),
            (u32::MAX, 2, false),
        ] {
            assert_eq!(free.can_be_owned(first, count), can, "{first} {count}");
        }
    }
}
