//! Finds rows of one order that reach far enough in another: a tree of the maxima of all stretches of numbers.
//!
//! ```text
//!              7
//!          ┌───┴───┐
//!          5       7          from position 2 on, at least 4:  1 is skipped, 7 is found
//!        ┌─┴─┐   ┌─┴─┐
//!        5   2   1   7
//! ```

use std::ops::Range;

/// Numbers by position, with the maximum of every stretch whose length is a power of two.
#[derive(Clone, Debug)]
pub(super) struct Reach {
    /// The root is at 1. The children of a node are at twice its index and the next; the numbers begin at `leaves`.
    tree: Vec<u32>,
    leaves: usize,
    count: usize,
}

impl Reach {
    /// Bytes that a tree of `count` numbers takes.
    pub(super) fn bytes(count: usize) -> usize {
        2 * count.max(1).next_power_of_two() * size_of::<u32>()
    }

    pub(super) fn new(numbers: &[u32]) -> Reach {
        let leaves = numbers.len().max(1).next_power_of_two();
        let mut tree = vec![0; 2 * leaves];
        tree[leaves..leaves + numbers.len()].copy_from_slice(numbers);
        for at in (1..leaves).rev() {
            tree[at] = tree[2 * at].max(tree[2 * at + 1]);
        }
        Reach { tree, leaves, count: numbers.len() }
    }

    /// The first position from `from` on whose number is at least `least`, which is not 0.
    pub(super) fn next(&self, from: usize, least: u32) -> Option<usize> {
        debug_assert!(least > 0, "all reach so far");
        if from >= self.count {
            return None;
        }
        let mut at = self.leaves + from;
        while self.tree[at] < least {
            // Go to the next stretch to the right that is not below one already tested.
            while at & 1 == 1 {
                at >>= 1;
            }
            if at == 0 {
                return None;
            }
            at += 1;
        }
        while at < self.leaves {
            at *= 2;
            if self.tree[at] < least {
                at += 1;
            }
        }
        Some(at - self.leaves)
    }

    /// The last position before `to` whose number is at least `least`, which is not 0.
    pub(super) fn next_back(&self, to: usize, least: u32) -> Option<usize> {
        debug_assert!(least > 0, "all reach so far");
        debug_assert!(to <= self.count, "places end before");
        let mut at = self.leaves + to.checked_sub(1)?;
        while self.tree[at] < least {
            // Go to the next stretch to the left that is not below one already tested.
            while at & 1 == 0 {
                at >>= 1;
            }
            if at == 1 {
                return None;
            }
            at -= 1;
        }
        while at < self.leaves {
            at = 2 * at + 1;
            if self.tree[at] < least {
                at -= 1;
            }
        }
        Some(at - self.leaves)
    }

    /// A position in a stretch whose number is at least `least`, which is not 0. Shortens the stretch to what is still
    /// to be searched. `from_end`: searches from its end, for stretches that begin far from rows that reach far enough.
    pub(super) fn take(&self, stretch: &mut Range<usize>, least: u32, from_end: bool) -> Option<usize> {
        let found = match (Range::is_empty(stretch), from_end) {
            (true, _) => None,
            (_, true) => self.next_back(stretch.end, least).filter(|place| *place >= stretch.start),
            (_, false) => self.next(stretch.start, least).filter(|place| *place < stretch.end),
        };
        *stretch = match (found, from_end) {
            (None, _) => stretch.end..stretch.end,
            (Some(place), true) => stretch.start..place,
            (Some(place), false) => place + 1..stretch.end,
        };
        found
    }

    /// Removes the number of a position.
    pub(super) fn remove(&mut self, place: usize) {
        let mut at = self.leaves + place;
        self.tree[at] = 0;
        while at > 1 {
            at >>= 1;
            self.tree[at] = self.tree[2 * at].max(self.tree[2 * at + 1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use hobt_base::SplitMix64;

    use super::Reach;

    #[test]
    fn it_finds_what_a_walk_finds() {
        let mut random = SplitMix64::new(7);
        for count in [0, 1, 2, 3, 7, 8, 9, 100] {
            let mut numbers: Vec<u32> = (0..count).map(|_| random.below(20) as u32).collect();
            let mut reach = Reach::new(&numbers);
            for _ in 0..300 {
                let (from, least) = (random.below(count + 3) as usize, 1 + random.below(21) as u32);
                let walked = (from..numbers.len()).find(|place| numbers[*place] >= least);
                assert_eq!(reach.next(from, least), walked, "{numbers:?} from {from} at least {least}");
                let to = from.min(numbers.len());
                let back = (0..to).rev().find(|place| numbers[*place] >= least);
                assert_eq!(reach.next_back(to, least), back, "{numbers:?} up to {to} at least {least}");
                if let Some(place) = walked.filter(|_| random.below(20) == 0) {
                    numbers[place] = 0;
                    reach.remove(place);
                }
            }
        }
    }
}
