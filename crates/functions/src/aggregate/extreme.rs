//! `MIN` and `MAX`: by value for numbers and times, by collation for text, by bytes for binary and guids.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNumericType, AsArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, PrimitiveArray,
    StringViewArray,
};
use arrow::datatypes::{
    ArrowNativeTypeOp, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    UInt8Type,
};
use hobt_base::SqlError;
use hobt_types::{Collation, SqlType};
use pulp::Arch;

use super::groups::{Groups, Held};
use super::{Aggregate, AggregateKind, Emit, GroupsAccumulator, argument, each_row};
use crate::ascii::views::INLINE_BYTES_MAX;
use crate::carrier::{carrier, not_the_carrier};
use crate::error::from_arrow;

pub(super) fn accumulator(aggregate: &Aggregate) -> Result<Box<dyn GroupsAccumulator>, SqlError> {
    Ok(match carrier(aggregate.input) {
        DataType::UInt8 => Box::new(Primitive::<UInt8Type>::new(aggregate)),
        DataType::Int16 => Box::new(Primitive::<Int16Type>::new(aggregate)),
        DataType::Int32 => Box::new(Primitive::<Int32Type>::new(aggregate)),
        DataType::Int64 => Box::new(Primitive::<Int64Type>::new(aggregate)),
        DataType::Date32 => Box::new(Primitive::<Date32Type>::new(aggregate)),
        DataType::Float32 => Box::new(Primitive::<Float32Type>::new(aggregate)),
        DataType::Float64 => Box::new(Primitive::<Float64Type>::new(aggregate)),
        DataType::Decimal128(..) => Box::new(Primitive::<Decimal128Type>::new(aggregate)),
        DataType::Utf8View => Box::new(Text::new(aggregate)),
        _ => Box::new(Bytes::new(aggregate)),
    })
}

/// The order of a value that replaces the one held.
pub(super) const fn wanted(kind: AggregateKind) -> Ordering {
    match kind {
        AggregateKind::Max => Ordering::Greater,
        _ => Ordering::Less,
    }
}

struct Primitive<T: ArrowNumericType> {
    best: Groups<Option<T::Native>>,
    wanted: Ordering,
    input: SqlType,
}

impl<T: ArrowNumericType> Primitive<T>
where
    T::Native: Held,
{
    fn new(aggregate: &Aggregate) -> Primitive<T> {
        Primitive { best: Groups::default(), wanted: wanted(aggregate.kind), input: aggregate.input }
    }

    fn offer(&mut self, group: usize, value: T::Native) {
        let best = &mut self.best.as_mut_slice()[group];
        if best.is_none_or(|held| value.compare(held) == self.wanted) {
            *best = Some(value);
        }
    }
}

impl<T: ArrowNumericType> GroupsAccumulator for Primitive<T>
where
    T::Native: ArrowNativeTypeOp + Held,
{
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<(), SqlError> {
        self.best.resize(total_groups);
        let array = argument(values)?;
        let typed = array.as_primitive_opt::<T>().ok_or_else(|| not_the_carrier(array, self.input))?;
        each_row(groups, filter, array.nulls(), |row, group| self.offer(group, typed.value(row)));
        Ok(())
    }

    fn update_all(&mut self, values: &[ArrayRef]) -> Result<(), SqlError> {
        self.best.resize(1);
        let array = argument(values)?;
        let typed = array.as_primitive_opt::<T>().ok_or_else(|| not_the_carrier(array, self.input))?;
        let extreme = match (self.wanted, typed.null_count()) {
            (Ordering::Greater, 0) => extreme_of(typed.values(), |value, best| value.is_gt(best)),
            (_, 0) => extreme_of(typed.values(), |value, best| value.is_lt(best)),
            (Ordering::Greater, _) => arrow::compute::max(typed),
            (_, _) => arrow::compute::min(typed),
        };
        if let Some(value) = extreme {
            self.offer(0, value);
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: Emit) -> Result<ArrayRef, SqlError> {
        let array: PrimitiveArray<T> = self.best.take(emit).into_iter().collect();
        Ok(Arc::new(array.with_data_type(carrier(self.input))))
    }

    fn size(&self) -> usize {
        self.best.size()
    }
}

/// The value that `is_better` prefers to all others, at the machine's vector width: the baseline processors need a
/// dozen instructions to compare 64-bit integers.
fn extreme_of<N: ArrowNativeTypeOp>(values: &[N], is_better: impl Fn(N, N) -> bool) -> Option<N> {
    let (&first, rest) = values.split_first()?;
    let extreme = Arch::new().dispatch(
        #[inline(always)]
        || {
            rest.iter().fold(
                first,
                #[inline(always)]
                |best, &value| if is_better(value, best) { value } else { best },
            )
        },
    );
    Some(extreme)
}

/// The flag of a byte that does not decide alone which text comes first; see [`Collation::prefix_weight`].
const UNDECIDED: u16 = 1 << 8;

/// The order of single bytes under a collation.
struct ByteWeights([u16; 256]);

impl ByteWeights {
    fn new(collation: Collation) -> ByteWeights {
        let weight = |byte: usize| match collation.prefix_weight([byte as u8, 0, 0, 0], 1) {
            Some(number) => (number >> 24) as u16,
            None => UNDECIDED,
        };
        ByteWeights(std::array::from_fn(weight))
    }

    fn of(&self, byte: u8) -> u16 {
        self.0[usize::from(byte)]
    }

    /// [`Collation::prefix_weight`] of a view's text.
    fn of_view(&self, view: u128) -> Option<u32> {
        let bytes = ((view >> 32) as u32).to_le_bytes();
        let weights = bytes.map(|byte| self.of(byte));
        let [a, b, c, d] = weights;
        let number = u32::from_be_bytes(weights.map(|weight| weight as u8));
        // Zeros after the end of a short text have the weight 0, which they would have if they were decided.
        let flags = match view as u32 {
            0 => 0,
            1 => a,
            2 => a | b,
            3 => a | b | c,
            _ => a | b | c | d,
        };
        (flags < UNDECIDED).then_some(number)
    }

    /// The order of two texts, if one byte decides it: bytes before it are equal or differ in case only.
    fn compare(&self, left: &[u8], right: &[u8]) -> Option<Ordering> {
        let from = first_difference(left, right);
        for (left, right) in left[from..].iter().zip(&right[from..]) {
            let (left, right) = (self.of(*left), self.of(*right));
            if (left | right) >= UNDECIDED {
                return None;
            }
            if left != right {
                return Some(left.cmp(&right));
            }
        }
        None
    }
}

/// The first place where two texts differ, or the length of the shorter one.
fn first_difference(left: &[u8], right: &[u8]) -> usize {
    let (left_words, right_words) = (left.as_chunks::<8>().0, right.as_chunks::<8>().0);
    let words = left_words.iter().zip(right_words).take_while(|(left, right)| left == right).count();
    let rest = left[8 * words..].iter().zip(&right[8 * words..]);
    8 * words + rest.take_while(|(left, right)| left == right).count()
}

/// What is compared first of the text that a group holds.
#[derive(Clone, Copy)]
struct Glance {
    /// Its view if that holds all of it; else, and without a text, [`Glance::NONE`]'s.
    view: u128,
    /// See [`ByteWeights::of_view`]; `None` also without a text.
    prefix: Option<u32>,
}

impl Glance {
    /// No view has this length.
    const NONE: Glance = Glance { view: u128::MAX, prefix: None };
}

/// `MIN` and `MAX` of text. Nearly every value loses by its first four bytes, which are in its view, or is the held one
/// again. Only the others are compared.
struct Text {
    best: Groups<Option<String>>,
    /// One for each group.
    glances: Vec<Glance>,
    weights: ByteWeights,
    wanted: Ordering,
    collation: Collation,
}

impl Text {
    fn new(aggregate: &Aggregate) -> Text {
        let collation = aggregate.collation;
        Text {
            best: Groups::default(),
            glances: Vec::new(),
            weights: ByteWeights::new(collation),
            wanted: wanted(aggregate.kind),
            collation,
        }
    }

    fn resize(&mut self, groups: usize) {
        self.best.resize(groups);
        self.glances.resize(groups, Glance::NONE);
    }

    /// Whether the text of `view` is not to replace the held one, if the first bytes say so.
    fn loses(&self, held: Glance, view: u128) -> bool {
        if view == held.view {
            return true;
        }
        match (held.prefix, self.weights.of_view(view)) {
            (Some(held), Some(own)) if own != held => own.cmp(&held) != self.wanted,
            _ => false,
        }
    }

    /// Compares a text that does not lose at a glance, and holds it if it wins.
    fn offer(&mut self, group: usize, view: u128, text: &str) {
        if let Some(held) = self.best.get(group) {
            if held == text {
                return;
            }
            let decided = self.weights.compare(text.as_bytes(), held.as_bytes());
            if decided.unwrap_or_else(|| self.collation.compare(text, held)) != self.wanted {
                return;
            }
        }
        self.best.change(group, |best| {
            let held = best.get_or_insert_default();
            held.clear();
            held.push_str(text);
        });
        let is_inline = text.len() <= INLINE_BYTES_MAX;
        let view_held = if is_inline { view } else { Glance::NONE.view };
        self.glances[group] = Glance { view: view_held, prefix: self.weights.of_view(view) };
    }
}

fn texts(array: &ArrayRef) -> Result<&StringViewArray, SqlError> {
    array.as_string_view_opt().ok_or_else(|| SqlError::internal("MIN or MAX of text over another carrier"))
}

impl GroupsAccumulator for Text {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<(), SqlError> {
        self.resize(total_groups);
        let array = argument(values)?;
        let typed = texts(array)?;
        let views = typed.views();
        each_row(groups, filter, array.nulls(), |row, group| {
            if !self.loses(self.glances[group], views[row]) {
                self.offer(group, views[row], typed.value(row));
            }
        });
        Ok(())
    }

    fn update_all(&mut self, values: &[ArrayRef]) -> Result<(), SqlError> {
        self.resize(1);
        let array = argument(values)?;
        let typed = texts(array)?;
        let mut held = self.glances[0];
        let mut last_view = None;
        for (row, view) in typed.views().iter().enumerate() {
            // Equal views of one array are equal texts.
            if last_view == Some(*view) || self.loses(held, *view) || typed.is_null(row) {
                continue;
            }
            last_view = Some(*view);
            self.offer(0, *view, typed.value(row));
            held = self.glances[0];
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: Emit) -> Result<ArrayRef, SqlError> {
        match emit {
            Emit::All => self.glances = Vec::new(),
            Emit::First(count) => drop(self.glances.drain(..count.min(self.glances.len()))),
        }
        Ok(Arc::new(self.best.take(emit).into_iter().collect::<StringViewArray>()))
    }

    fn size(&self) -> usize {
        self.best.size() + self.glances.capacity() * size_of::<Glance>()
    }
}

struct Bytes {
    best: Groups<Option<Vec<u8>>>,
    wanted: Ordering,
    input: SqlType,
}

impl Bytes {
    fn new(aggregate: &Aggregate) -> Bytes {
        Bytes { best: Groups::default(), wanted: wanted(aggregate.kind), input: aggregate.input }
    }

    fn offer(&mut self, group: usize, value: &[u8]) {
        match self.best.get(group) {
            Some(held) if value.cmp(held.as_slice()) != self.wanted => {}
            _ => self.best.change(group, |best| {
                let held = best.get_or_insert_default();
                held.clear();
                held.extend_from_slice(value);
            }),
        }
    }
}

impl GroupsAccumulator for Bytes {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<(), SqlError> {
        self.best.resize(total_groups);
        let array = argument(values)?;
        if let Some(guids) = array.as_fixed_size_binary_opt() {
            each_row(groups, filter, array.nulls(), |row, group| self.offer(group, guids.value(row)));
        } else {
            let binary = array.as_binary_view_opt().ok_or_else(|| not_the_carrier(array, self.input))?;
            each_row(groups, filter, array.nulls(), |row, group| self.offer(group, binary.value(row)));
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: Emit) -> Result<ArrayRef, SqlError> {
        let best = self.best.take(emit);
        if self.input == SqlType::UniqueIdentifier {
            let guids = FixedSizeBinaryArray::try_from_sparse_iter_with_size(best.into_iter(), 16);
            return Ok(Arc::new(guids.map_err(from_arrow)?));
        }
        Ok(Arc::new(best.into_iter().collect::<BinaryViewArray>()))
    }

    fn size(&self) -> usize {
        self.best.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int32Array;
    use hobt_base::SplitMix64;
    use hobt_types::MaxLength;

    const COLLATIONS: [Collation; 3] =
        [Collation::Latin1GeneralCiAs, Collation::Latin1GeneralCsAs, Collation::Latin1GeneralBin2];

    fn text(random: &mut SplitMix64) -> String {
        let begin = ["", "a", "a text with the same beginning ", "été "][random.next_u64() as usize % 4];
        let characters = ['a', 'A', 'b', 'B', ' ', '-', '0', '\0', '\t', 'é', 'É', 'ß', '~', '漢'];
        let length = random.next_u64() as usize % 14;
        let rest = (0..length).map(|_| characters[random.next_u64() as usize % characters.len()]);
        begin.chars().chain(rest).collect()
    }

    #[test]
    fn weights_of_views_are_those_of_the_collation() {
        let mut random = SplitMix64::new(5);
        let texts: StringViewArray = (0..5000).map(|_| Some(text(&mut random))).collect();
        for collation in COLLATIONS {
            let weights = ByteWeights::new(collation);
            for (row, view) in texts.views().iter().enumerate() {
                let text = texts.value(row).as_bytes();
                let mut prefix = [0; 4];
                let length = text.len().min(4);
                prefix[..length].copy_from_slice(&text[..length]);
                assert_eq!(weights.of_view(*view), collation.prefix_weight(prefix, text.len()), "{text:?}");
            }
        }
    }

    #[test]
    fn a_byte_decides_as_the_collation_does() {
        let mut random = SplitMix64::new(6);
        for collation in COLLATIONS {
            let weights = ByteWeights::new(collation);
            for _ in 0..20_000 {
                let (left, right) = (text(&mut random), text(&mut random));
                if let Some(order) = weights.compare(left.as_bytes(), right.as_bytes()) {
                    assert_eq!(order, collation.compare(&left, &right), "{left:?} {right:?} under {collation}");
                }
            }
        }
    }

    #[test]
    fn the_extreme_text_is_the_one_that_comparing_all_finds() {
        let mut random = SplitMix64::new(8);
        let sql_type = SqlType::NVarChar(MaxLength::Limited(100));
        for round in 0..200 {
            let collation = COLLATIONS[round % 3];
            let kind = if round % 2 == 0 { AggregateKind::Min } else { AggregateKind::Max };
            let aggregate = Aggregate::new(kind, sql_type, collation).expect("an aggregate");
            let (mut whole, mut grouped) = (aggregate.accumulator().unwrap(), aggregate.accumulator().unwrap());
            let mut all: Vec<Option<String>> = Vec::new();
            for _ in 0..3 {
                let batch: Vec<Option<String>> = (0..40).map(|row| (row % 7 != 3).then(|| text(&mut random))).collect();
                let array: ArrayRef = Arc::new(batch.iter().cloned().collect::<StringViewArray>());
                all.extend(batch);
                whole.update_all(std::slice::from_ref(&array)).expect("no error");
                let groups: Vec<usize> = (0..40).map(|row| row % 5).collect();
                grouped.update_batch(std::slice::from_ref(&array), &groups, None, 5).expect("no error");
            }
            let wanted = wanted(kind);
            let extreme = |group: usize, groups: usize| {
                let texts = all.iter().skip(group).step_by(groups).flatten();
                texts.fold(None, |best: Option<&String>, text| match best {
                    Some(best) if collation.compare(text, best) != wanted => Some(best),
                    _ => Some(text),
                })
            };
            let expected: StringViewArray = [extreme(0, 1)].into_iter().collect();
            assert_eq!(whole.evaluate(Emit::All).unwrap().as_string_view(), &expected);
            let expected: StringViewArray = (0..5).map(|group| extreme(group, 5)).collect();
            let parts = [grouped.evaluate(Emit::First(2)).unwrap(), grouped.evaluate(Emit::All).unwrap()];
            let together = arrow::compute::concat(&[&parts[0], &parts[1]]).unwrap();
            assert_eq!(together.as_string_view(), &expected);
        }
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        let aggregate = Aggregate::new(AggregateKind::Min, sql_type, Collation::default()).expect("an aggregate");
        assert!(aggregate.accumulator().unwrap().update_all(&[numbers]).is_err());
    }
}
