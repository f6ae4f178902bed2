//! Numbers for the distinct combinations of several codes, counted from 0: the groups.
//!
//! Codes are combined two by two. A pair is looked up in an array while that is small, and by a hash otherwise.
//!
//! ```text
//!   codes of (city, year, month)     city ─┐
//!                                    year ─┴─ link ─┐
//!                                    month ─────────┴─ link ──► group
//! ```

use super::codes::mix;

/// An array of pairs has at most so many places: 4 MiB.
const PLACES_MAX: usize = 1 << 20;
/// No pair has this place.
const NONE: u32 = u32::MAX;

/// The distinct pairs of a number and a code, each with a number.
#[derive(Default)]
pub(super) struct Link {
    /// The pairs by their numbers.
    pairs: Vec<(u32, u32)>,
    /// The numbers of pairs: at `first * width + second`.
    places: Vec<u32>,
    /// How many codes there is room for; a power of two.
    width: usize,
    /// The numbers of pairs by their hash, once there are too many places.
    slots: Vec<(u64, u32)>,
}

impl Link {
    /// How many pairs there are.
    pub(super) fn count(&self) -> usize {
        self.pairs.len()
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        8 * self.pairs.capacity() + 4 * self.places.len() + 16 * self.slots.len()
    }

    /// The pairs by their numbers.
    pub(super) fn pairs(&self) -> &[(u32, u32)] {
        &self.pairs
    }

    /// Replaces each of `numbers` by the number of its pair with the code beside it. Numbers are below `firsts`, codes
    /// below `seconds`.
    pub(super) fn read(&mut self, numbers: &mut [u32], codes: &[u32], firsts: usize, seconds: usize) {
        let width = seconds.next_power_of_two().max(self.width);
        if self.slots.is_empty() && width.saturating_mul(firsts) <= PLACES_MAX {
            self.widen(width, firsts);
            for (number, &code) in numbers.iter_mut().zip(codes) {
                let place = &mut self.places[*number as usize * width + code as usize];
                if *place == NONE {
                    *place = add(&mut self.pairs, (*number, code));
                }
                *number = *place;
            }
            return;
        }
        if self.slots.is_empty() {
            self.places = Vec::new();
            self.rehash();
        }
        for (number, &code) in numbers.iter_mut().zip(codes) {
            *number = self.hashed((*number, code));
        }
    }

    /// Makes room for codes and numbers.
    fn widen(&mut self, width: usize, firsts: usize) {
        if width == self.width {
            if self.places.len() < width * firsts {
                self.places.resize((width * firsts).next_power_of_two(), NONE);
            }
            return;
        }
        self.width = width;
        self.places = vec![NONE; (width * firsts).next_power_of_two()];
        for (number, &(first, second)) in (0..).zip(&self.pairs) {
            self.places[first as usize * width + second as usize] = number;
        }
    }

    #[inline(always)]
    fn hashed(&mut self, pair: (u32, u32)) -> u32 {
        if 2 * self.pairs.len() >= self.slots.len() {
            self.rehash();
        }
        let (key, mask) = (key_of(pair), self.slots.len() - 1);
        let mut at = mix(key) as usize & mask;
        loop {
            let (known, number) = self.slots[at];
            if number == NONE {
                let number = add(&mut self.pairs, pair);
                self.slots[at] = (key, number);
                return number;
            }
            if known == key {
                return number;
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn rehash(&mut self) {
        let count = (4 * self.pairs.len()).max(1024).next_power_of_two();
        let mut slots = vec![(0, NONE); count];
        for (number, &pair) in (0..).zip(&self.pairs) {
            let mut at = mix(key_of(pair)) as usize & (count - 1);
            while slots[at].1 != NONE {
                at = (at + 1) & (count - 1);
            }
            slots[at] = (key_of(pair), number);
        }
        self.slots = slots;
    }
}

fn key_of((first, second): (u32, u32)) -> u64 {
    u64::from(first) << 32 | u64::from(second)
}

fn add(pairs: &mut Vec<(u32, u32)>, pair: (u32, u32)) -> u32 {
    // Groups are given up long before there are so many.
    let number = u32::try_from(pairs.len()).unwrap_or(NONE - 1);
    pairs.push(pair);
    number
}

/// The groups of one set of columns.
pub(crate) struct Chain {
    /// The columns, by their places.
    columns: Vec<usize>,
    /// The first combines the first column's codes with 0.
    links: Vec<Link>,
}

impl Chain {
    /// No groups yet, of these columns.
    pub(crate) fn of(columns: Vec<usize>) -> Chain {
        let links = columns.iter().map(|_| Link::default()).collect();
        Chain { columns, links }
    }

    /// The columns.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// How many groups there are.
    pub(crate) fn count(&self) -> usize {
        self.links.last().map_or(1, Link::count)
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.links.iter().map(Link::bytes).sum()
    }

    /// Replaces `groups` by the group of each of so many rows. `codes` are the codes of all columns, and `counts` how
    /// many each column has.
    pub(crate) fn read(&mut self, codes: &[Vec<u32>], counts: &[usize], rows: usize, groups: &mut Vec<u32>) {
        groups.clear();
        groups.resize(rows, 0);
        let mut firsts = 1;
        for (link, &column) in self.links.iter_mut().zip(&self.columns) {
            link.read(groups, &codes[column], firsts, counts[column]);
            firsts = link.count();
        }
    }

    /// The code of each group in each of the columns.
    pub(crate) fn codes(&self) -> Vec<Vec<u32>> {
        let mut numbers: Vec<u32> = (0..).take(self.count()).collect();
        let mut codes = vec![Vec::new(); self.columns.len()];
        for (link, codes) in self.links.iter().zip(&mut codes).rev() {
            let pairs = link.pairs();
            *codes = numbers.iter().map(|number| pairs[*number as usize].1).collect();
            numbers.iter_mut().for_each(|number| *number = pairs[*number as usize].0);
        }
        codes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hobt_base::SplitMix64;
    use std::collections::HashMap;

    #[test]
    fn rows_are_in_one_group_exactly_if_all_their_codes_are_equal() {
        let mut random = SplitMix64::new(2);
        for limits in [vec![5], vec![3, 4], vec![300, 1000, 5], vec![70_000, 70_000], vec![40_000, 2, 40_000]] {
            let mut chain = Chain::of((0..limits.len()).collect());
            let mut known: HashMap<Vec<u32>, u32> = HashMap::new();
            let mut groups = Vec::new();
            for round in 1..6 {
                let code = |limit: &u64, random: &mut SplitMix64| random.below((limit * round / 5).max(1)) as u32;
                let codes: Vec<Vec<u32>> =
                    limits.iter().map(|limit| (0..2000).map(|_| code(limit, &mut random)).collect()).collect();
                let counts: Vec<usize> = limits.iter().map(|limit| (limit * round / 5).max(1) as usize).collect();
                chain.read(&codes, &counts, 2000, &mut groups);
                for row in 0..2000 {
                    let key: Vec<u32> = codes.iter().map(|column| column[row]).collect();
                    let count = known.len() as u32;
                    assert_eq!(groups[row], *known.entry(key).or_insert(count));
                }
            }
            assert_eq!(chain.count(), known.len());
            let codes = chain.codes();
            for (key, group) in known {
                let shown: Vec<u32> = codes.iter().map(|column| column[group as usize]).collect();
                assert_eq!(shown, key);
            }
        }
    }

    #[test]
    fn no_columns_make_one_group() {
        let mut groups = Vec::new();
        let mut chain = Chain::of(Vec::new());
        chain.read(&[], &[], 3, &mut groups);
        assert_eq!((groups, chain.count(), chain.codes().len()), (vec![0, 0, 0], 1, 0));
    }
}
