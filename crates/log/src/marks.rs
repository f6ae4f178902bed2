//! A sparse index of the log's blocks, by which a single record is found: some positions of each segment. From there on
//! the headers of the blocks lead to the wanted one. Blocks are noted as they are written, those of an earlier life
//! when they are read: by recovery, and by an undo that gets to what recovery has not read.

use std::collections::BTreeMap;

use hobt_base::Lsn;

use crate::block::BLOCK_UNIT;

/// Positions that are kept of a segment, at most. With more than this, those stay that are twice as far apart.
const MARKS_MAX: usize = 1024;

/// The marks of one segment.
#[derive(Clone, Default, Debug)]
struct SegmentMarks {
    /// The fewest bytes between two marks.
    spacing: u64,
    /// The first record of a block, and the block's first byte in the segment, in order.
    places: Vec<(Lsn, u64)>,
}

impl SegmentMarks {
    fn note(&mut self, first: Lsn, offset: u64) {
        let place = self.places.partition_point(|(_, known)| *known <= offset);
        let is_near = |place: usize| {
            self.places.get(place).is_some_and(|(_, known)| known.abs_diff(offset) < self.spacing.max(1))
        };
        if is_near(place) || (place > 0 && is_near(place - 1)) {
            return;
        }
        self.places.insert(place, (first, offset));
        while self.places.len() > MARKS_MAX {
            self.spacing = (2 * self.spacing).max(BLOCK_UNIT as u64);
            let mut last = None;
            self.places.retain(|(_, offset)| {
                let is_far = last.is_none_or(|last| *offset >= last + self.spacing);
                last = if is_far { Some(*offset) } else { last };
                is_far
            });
        }
    }
}

/// The marks of all segments that are not free, by their number in the order of segments.
#[derive(Clone, Default, Debug)]
pub(crate) struct Marks(BTreeMap<u64, SegmentMarks>);

impl Marks {
    /// Notes a block of a segment.
    pub(crate) fn note(&mut self, segment: u64, first: Lsn, offset: u64) {
        self.0.entry(segment).or_default().note(first, offset);
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
        // In any order: an undo finds them backwards.
        let mut found = Marks::default();
        (0..10_000).rev().for_each(|block| found.note(3, Lsn(1_000 + block * 8), block * 4096));
        assert!(found.0[&3].places.len() <= MARKS_MAX && found.0[&3].places.is_sorted());
        for block in 100..10_000 {
            let offset = found.before(3, Lsn(1_000 + block * 8 + 7), 0);
            assert!(offset <= block * 4096 && block * 4096 - offset < 48 * 4096, "block {block}: {offset}");
        }
        marks.forget(3);
        assert_eq!(marks.before(3, Lsn(90_000), 0), 0);
    }
}
