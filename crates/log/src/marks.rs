//! A sparse index of the log's blocks, by which a single record is found: some positions of each segment. From there on
//! the headers of the blocks lead to the wanted one.

use std::collections::BTreeMap;

use hobt_base::Lsn;

/// Positions that are kept of a segment, at most. With more blocks than this, every second one is kept, and so on.
const MARKS_MAX: usize = 1024;

/// The marks of one segment.
#[derive(Clone, Debug)]
struct SegmentMarks {
    /// How many blocks lie between two marks.
    every: u64,
    /// Blocks so far.
    blocks: u64,
    /// The first record of a block, and the block's first byte in the segment.
    places: Vec<(Lsn, u64)>,
}

impl SegmentMarks {
    fn note(&mut self, first: Lsn, offset: u64) {
        if self.blocks.is_multiple_of(self.every) {
            if self.places.len() == MARKS_MAX {
                let mut place = 0;
                self.places.retain(|_| {
                    place += 1;
                    place % 2 == 1
                });
                self.every *= 2;
            }
            if self.blocks.is_multiple_of(self.every) {
                self.places.push((first, offset));
            }
        }
        self.blocks += 1;
    }
}

/// The marks of all segments that are not free, by their number in the order of segments.
#[derive(Clone, Default, Debug)]
pub(crate) struct Marks(BTreeMap<u64, SegmentMarks>);

impl Marks {
    /// Notes a block that was written behind all others of its segment.
    pub(crate) fn note(&mut self, segment: u64, first: Lsn, offset: u64) {
        let new = || SegmentMarks { every: 1, blocks: 0, places: Vec::new() };
        self.0.entry(segment).or_insert_with(new).note(first, offset);
    }

    /// The first byte, in its segment, of a known block at or before the one that has `lsn`: the first one of those
    /// that lie within `slack` bytes before the last.
    pub(crate) fn before(&self, segment: u64, lsn: Lsn, slack: u64) -> u64 {
        let places = self.0.get(&segment).map_or(&[][..], |marks| &marks.places);
        let end = places.partition_point(|(first, _)| *first <= lsn);
        let Some((_, last)) = places[..end].last() else { return 0 };
        let begin = places[..end].partition_point(|(_, offset)| offset + slack < *last);
        places[begin].1
    }

    /// Forgets a segment that is free.
    pub(crate) fn forget(&mut self, segment: u64) {
        self.0.remove(&segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_at_or_before_every_block_and_few_are_kept() {
        let mut marks = Marks::default();
        for block in 0..10_000 {
            marks.note(3, Lsn(1_000 + block * 8), block * 4096);
        }
        assert!(marks.0[&3].places.len() <= MARKS_MAX);
        for block in 0..10_000 {
            let offset = marks.before(3, Lsn(1_000 + block * 8 + 7), 0);
            assert!(offset <= block * 4096 && block * 4096 - offset < 16 * 4096, "block {block}: {offset}");
        }
        let earlier = marks.before(3, Lsn(1_000 + 5_000 * 8), 1 << 20);
        assert!((5_000 * 4096 - (1 << 20) - 16 * 4096..5_000 * 4096 - (1 << 20) + 16 * 4096).contains(&earlier));
        assert_eq!(marks.before(4, Lsn(5), 0), 0);
        marks.forget(3);
        assert_eq!(marks.before(3, Lsn(90_000), 0), 0);
    }
}
