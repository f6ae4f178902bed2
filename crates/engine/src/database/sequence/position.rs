//! Computes what follows a value of a sequence.

use hobt_base::errors;
use hobt_catalog::{Sequence, SequencePosition};

use crate::error::{EngineError, Result};

/// The state of a sequence, as `sys.sequences` shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequenceState {
    /// The last value that was taken; the first value if none was.
    pub current: i128,
    /// Whether a value was ever taken.
    pub used: bool,
    /// Whether no value follows the last one.
    pub exhausted: bool,
}

/// A range of values that were taken together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequenceRange {
    /// Its first value.
    pub first: i128,
    /// Its last value.
    pub last: i128,
    /// How often the sequence restarted inside the range.
    pub cycles: u64,
}

/// 11728.
fn is_exhausted(name: &str) -> EngineError {
    EngineError::Statement(errors::SEQUENCE_EXHAUSTED.with([&name]))
}

/// The value at which a sequence restarts.
fn beginning(sequence: &Sequence) -> i128 {
    if sequence.increment > 0 { sequence.minimum } else { sequence.maximum }
}

/// The number of values from `next` on, including it.
pub(super) fn values_from(sequence: &Sequence, next: i128) -> u128 {
    let limit = if sequence.increment > 0 { sequence.maximum } else { sequence.minimum };
    next.abs_diff(limit) / sequence.increment.unsigned_abs() + 1
}

/// The value `steps` after `from`, which lies between the sequence's bounds.
pub(super) fn value_at(sequence: &Sequence, from: i128, steps: u64) -> i128 {
    // The product may overflow an `i128`; the result does not.
    from.wrapping_add(sequence.increment.wrapping_mul(i128::from(steps)))
}

/// The position of a sequence after `count` values from `next` on. At least that many values must exist.
pub(super) fn position_behind(sequence: &Sequence, next: i128, count: u64) -> SequencePosition {
    let last = value_at(sequence, next, count - 1);
    match values_from(sequence, last) {
        1 if sequence.cycles => SequencePosition { next: beginning(sequence), used: true, exhausted: false },
        1 => SequencePosition { next: last, used: true, exhausted: true },
        _ => SequencePosition { next: last + sequence.increment, used: true, exhausted: false },
    }
}

/// The next value of a sequence.
pub(super) fn next_value(sequence: &Sequence, position: SequencePosition) -> Result<i128> {
    match position.exhausted {
        false => Ok(position.next),
        // An `ALTER` has added `CYCLE`.
        true if sequence.cycles => Ok(beginning(sequence)),
        true => Err(is_exhausted(&sequence.name)),
    }
}

/// `count` values from a position on.
pub(super) fn range_of(sequence: &Sequence, position: SequencePosition, count: u64) -> Result<SequenceRange> {
    let first = next_value(sequence, position)?;
    let here = values_from(sequence, first);
    let count = u128::from(count);
    if count <= here {
        let last = value_at(sequence, first, u64::try_from(count - 1).unwrap_or(u64::MAX));
        return Ok(SequenceRange { first, last, cycles: 0 });
    }
    if !sequence.cycles {
        return Err(EngineError::Statement(errors::SEQUENCE_RANGE.with([&sequence.name])));
    }
    let rest = count - here - 1;
    let round = values_from(sequence, beginning(sequence));
    let steps = u64::try_from(rest % round).unwrap_or(u64::MAX);
    let cycles = u64::try_from(rest / round + 1).unwrap_or(u64::MAX);
    Ok(SequenceRange { first, last: value_at(sequence, beginning(sequence), steps), cycles })
}

/// The position at which an altered sequence continues.
pub(super) fn position_after(sequence: &Sequence, state: SequenceState) -> Result<SequencePosition> {
    let current = state.current;
    if !(sequence.minimum..=sequence.maximum).contains(&current) {
        return Err(EngineError::Statement(errors::SEQUENCE_CURRENT.with([&current, &sequence.name])));
    }
    Ok(match state.used {
        true => position_behind(sequence, current, 1),
        false => SequencePosition { next: current, used: false, exhausted: false },
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::sequence;
    use super::*;

    fn at(next: i128) -> SequencePosition {
        SequencePosition { next, used: true, exhausted: false }
    }

    #[test]
    fn the_last_value_is_followed_by_none_or_the_first() {
        assert_eq!(values_from(&sequence(3, 1, 10, false), 4), 3);
        assert_eq!(values_from(&sequence(-3, 1, 10, false), 10), 4);
        let behind = position_behind(&sequence(3, 1, 10, false), 4, 3);
        assert_eq!((behind.next, behind.exhausted), (10, true));
        assert_eq!(position_behind(&sequence(3, 1, 10, true), 4, 3), at(1));
        assert_eq!(position_behind(&sequence(-4, 1, 10, true), 6, 2), at(10));
        assert_eq!(position_behind(&sequence(1, 1, 10, false), 4, 3), at(7));
    }

    /// The distance between the bounds of `decimal(38)` exceeds an `i128`.
    #[test]
    fn steps_over_the_whole_of_the_widest_type_are_taken() {
        let (end, step) = (10_i128.pow(38) - 1, 10_i128.pow(30));
        let (up, down) = (sequence(step, -end, end, false), sequence(-step, -end, end, false));
        let steps = u64::try_from(values_from(&up, -end) - 1).expect("not many");
        assert_eq!(steps, 199_999_999);
        let range = |sequence, next| range_of(sequence, at(next), steps + 1).ok().map(|range| range.last);
        assert_eq!(range(&up, -end), Some(end - step + 2));
        assert_eq!(range(&down, end), range(&up, -end).map(|last| -last));
    }

    #[test]
    fn a_range_goes_round_as_often_as_it_must() {
        let range = |cycles, next, count| range_of(&sequence(1, 1, 5, cycles), at(next), count).ok();
        let of = |first, last, cycles| Some(SequenceRange { first, last, cycles });
        assert_eq!(range(false, 2, 4), of(2, 5, 0));
        assert_eq!(range(false, 2, 5), None);
        assert_eq!(range(true, 2, 5), of(2, 1, 1));
        assert_eq!(range(true, 2, 9), of(2, 5, 1));
        assert_eq!(range(true, 2, 10), of(2, 1, 2));
    }
}
