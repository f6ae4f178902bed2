//! Which rows of an outer side are in the output: with their partners, or by whether they have one.

use arrow::array::{BooleanArray, UInt32Array};
use datafusion::common::{JoinSide, JoinType};

/// What a join outputs for the rows of its outer side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shows {
    /// Each row with its partners.
    Pairs,
    /// Pairs, and rows without a partner too.
    All,
    /// Rows that have a partner, once.
    Partnered,
    /// Rows that have none.
    Alone,
    /// All rows, and whether they have a partner.
    Marked,
}

impl Shows {
    /// What a kind of join outputs of the side opposite to `inner`; `None` if it outputs rows of `inner` without
    /// partners.
    pub fn of(join_type: JoinType, inner: JoinSide) -> Option<Shows> {
        let by_left = inner == JoinSide::Right;
        match join_type {
            JoinType::Inner => Some(Shows::Pairs),
            JoinType::Left => by_left.then_some(Shows::All),
            JoinType::Right => (!by_left).then_some(Shows::All),
            JoinType::LeftSemi => by_left.then_some(Shows::Partnered),
            JoinType::RightSemi => (!by_left).then_some(Shows::Partnered),
            JoinType::LeftAnti => by_left.then_some(Shows::Alone),
            JoinType::RightAnti => (!by_left).then_some(Shows::Alone),
            JoinType::LeftMark => by_left.then_some(Shows::Marked),
            JoinType::RightMark => (!by_left).then_some(Shows::Marked),
            JoinType::Full => None,
        }
    }

    /// The kind of join with this output whose outer side is the left one.
    pub(super) fn join_type(self) -> JoinType {
        match self {
            Shows::Pairs => JoinType::Inner,
            Shows::All => JoinType::Left,
            Shows::Partnered => JoinType::LeftSemi,
            Shows::Alone => JoinType::LeftAnti,
            Shows::Marked => JoinType::LeftMark,
        }
    }

    /// Whether a row's second partner makes no difference.
    pub(super) fn needs_one(self) -> bool {
        matches!(self, Shows::Partnered | Shows::Alone | Shows::Marked)
    }
}

/// The rows of a batch of the outer side: which have had partners, and how many have been output.
pub(super) struct Partners {
    has: Vec<bool>,
    shown: usize,
}

/// The next rows of the output.
pub(super) struct Shown {
    /// Positions of the outer side's rows.
    pub outer: UInt32Array,
    /// Positions of the inner side's rows, NULL for none; `None` if these are the rows at hand, unchanged.
    pub(super) inner: Option<UInt32Array>,
    /// Whether the rows have partners, if that is output.
    pub(super) marks: BooleanArray,
}

impl Partners {
    pub(super) fn new(rows: usize) -> Partners {
        Partners { has: vec![false; rows], shown: 0 }
    }

    /// Whether a row has had a partner.
    pub(super) fn has(&self, row: usize) -> bool {
        self.has.get(row).is_some_and(|has| *has)
    }

    /// The rows to output when the next partners have come. The partners belong to the outer rows `of`, in ascending
    /// order. All partners of the first `complete` rows have come.
    pub(super) fn shown(&mut self, shows: Shows, of: &UInt32Array, complete: usize) -> Shown {
        of.values().iter().for_each(|row| self.has[*row as usize] = true);
        let none = BooleanArray::from(Vec::<bool>::new());
        let rows = self.shown..complete.max(self.shown);
        self.shown = rows.end;
        let number = |row: usize| u32::try_from(row).expect("a batch is not as long");
        if shows == Shows::Pairs {
            return Shown { outer: of.clone(), inner: None, marks: none };
        }
        if shows == Shows::All {
            let (mut outer, mut inner) = (Vec::with_capacity(of.len()), Vec::with_capacity(of.len()));
            let mut pairs = (0..).zip(of.values().iter().copied()).peekable();
            for row in rows {
                if !self.has[row] {
                    outer.push(number(row));
                    inner.push(None);
                }
                while let Some((at, of)) = pairs.next_if(|(_, of)| *of <= number(row)) {
                    outer.push(of);
                    inner.push(Some(at));
                }
            }
            for (at, of) in pairs {
                outer.push(of);
                inner.push(Some(at));
            }
            return Shown { outer: outer.into(), inner: Some(inner.into()), marks: none };
        }
        let is_shown = |row: &usize| match shows {
            Shows::Partnered => self.has[*row],
            Shows::Alone => !self.has[*row],
            _ => true,
        };
        let outer: Vec<u32> = rows.filter(is_shown).map(number).collect();
        let marks = outer.iter().map(|row| Some(self.has[*row as usize])).collect();
        Shown { outer: outer.into(), inner: None, marks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of the outer side, and of the inner one.
    type Rows = (Vec<u32>, Option<Vec<Option<u32>>>);

    /// The output for partners that come in two parts, where row 2 has partners in both.
    fn both(shows: Shows) -> Vec<Rows> {
        let mut partners = Partners::new(5);
        let parts = [(vec![1, 2], 2), (vec![2, 2, 4], 5)];
        let shown = parts.map(|(of, complete)| partners.shown(shows, &of.into(), complete));
        shown.map(|shown| (shown.outer.values().to_vec(), shown.inner.map(|inner| inner.iter().collect()))).into()
    }

    #[test]
    fn rows_come_in_the_outer_order_and_once() {
        assert_eq!(both(Shows::Pairs), [(vec![1, 2], None), (vec![2, 2, 4], None)]);
        assert_eq!(
            both(Shows::All),
            [
                (vec![0, 1, 2], Some(vec![None, Some(0), Some(1)])),
                (vec![2, 2, 3, 4], Some(vec![Some(0), Some(1), None, Some(2)])),
            ]
        );
        assert_eq!(both(Shows::Partnered), [(vec![1], None), (vec![2, 4], None)]);
        assert_eq!(both(Shows::Alone), [(vec![0], None), (vec![3], None)]);
        assert_eq!(both(Shows::Marked), [(vec![0, 1], None), (vec![2, 3, 4], None)]);
    }
}
