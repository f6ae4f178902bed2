//! Aggregates of all rows of a partition up to the current one, as windows need them: one value for each row.
//!
//! ```text
//!   row         0     1     2     3     4     5
//!   restarts    x                 x                 a partition begins
//!   ends              x     x           x           the last row of a frame
//!   value of   0–1   0–1   0–2   3–4   3–4    –     row 5 has its value when its frame has ended
//! ```
//! One state goes on from array to array. It costs a row its addition or comparison, and a frame its result. The
//! results and their errors are those of the accumulators beside this file: exact numbers are added in 128 bits, and
//! checked against the type of the result where a frame ends.
//!
//! Not here: where partitions begin and frames end; frames that do not begin with their partition.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayAccessor, ArrayRef, ArrowNumericType, ArrowPrimitiveType, AsArray, BooleanBufferBuilder, Float64Array,
    Int32Array, Int64Array, PrimitiveArray, UInt64Array, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, interleave, take};
use arrow::datatypes::{
    ArrowNativeTypeOp, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    UInt8Type,
};
use hobt_base::SqlError;
use hobt_types::{Collation, SqlType, one_zero};

use super::{Aggregate, AggregateKind, argument, is_floating};
use crate::arithmetic::money_limit;
use crate::carrier::{carrier, not_the_carrier};
use crate::decimal::{divide_wide, fits};
use crate::error::{from_arrow, overflow};

/// What the rows of an array belong to.
#[derive(Clone, Copy, Debug)]
pub struct Frames<'f> {
    /// For each row whether it is the first of a partition.
    pub restarts: &'f [bool],
    /// For each row whether it is the last of a frame.
    pub ends: &'f [bool],
}

/// An aggregate whose state goes on from row to row.
pub trait RunningAggregate: Send {
    /// Adds rows, of which `values` are the argument columns. Returns a value for each row up to the last one that ends
    /// a frame: that of the first frame that ends at the row or behind it.
    ///
    /// # Errors
    /// 8115 if the value of a frame overflows.
    ///
    /// # Panics
    /// The frames are of another number of rows.
    fn run(&mut self, values: &[ArrayRef], frames: Frames<'_>) -> Result<ArrayRef, SqlError>;

    /// The heap memory held, in bytes.
    fn size(&self) -> usize {
        0
    }
}

impl Aggregate {
    /// The aggregate over rows that come in the order of a window; `None` if it is not one of those that are computed
    /// so.
    pub fn running(&self) -> Option<Box<dyn RunningAggregate>> {
        Some(match self.kind {
            AggregateKind::Count | AggregateKind::CountBig => Box::new(Count { result: self.result, count: 0 }),
            AggregateKind::Sum | AggregateKind::Avg if is_floating(self.input) => {
                Box::new(FloatSum { aggregate: *self, sum: Sum::default() })
            }
            AggregateKind::Sum | AggregateKind::Avg => Box::new(ExactSum { aggregate: *self, sum: Sum::default() }),
            AggregateKind::Min | AggregateKind::Max => return extreme(self),
            _ => return None,
        })
    }
}

/// Adds the rows that are not NULL to `state`, and takes the value of each frame: `None` is NULL.
fn each_frame<S: Default, V: Copy + Default>(
    frames: Frames<'_>,
    nulls: Option<&NullBuffer>,
    state: &mut S,
    mut add: impl FnMut(&mut S, usize),
    mut value: impl FnMut(&S) -> Option<V>,
) -> (Vec<V>, Option<NullBuffer>) {
    assert_eq!(frames.restarts.len(), frames.ends.len(), "both are of the same rows");
    let mut values = Vec::with_capacity(frames.ends.len());
    // A frame contains its last row, so it has a value if no row is NULL.
    let mut valid = nulls.map(|nulls| BooleanBufferBuilder::new(nulls.len()));
    for (row, (is_first, is_last)) in frames.restarts.iter().zip(frames.ends).enumerate() {
        if *is_first {
            *state = S::default();
        }
        if nulls.is_none_or(|nulls| nulls.is_valid(row)) {
            add(state, row);
        }
        if *is_last {
            let value = value(state);
            if let Some(valid) = &mut valid {
                valid.append_n(row + 1 - values.len(), value.is_some());
            }
            let value = value.unwrap_or_default();
            if values.len() == row {
                values.push(value);
            } else {
                values.resize(row + 1, value);
            }
        }
    }
    (values, valid.map(|mut valid| NullBuffer::new(valid.finish())))
}

/// The order of a value that replaces the one held.
const fn wanted(kind: AggregateKind) -> Ordering {
    match kind {
        AggregateKind::Max => Ordering::Greater,
        _ => Ordering::Less,
    }
}

/// The argument of an aggregate, one value for each row of the frames.
fn column<'v>(values: &'v [ArrayRef], frames: Frames<'_>) -> Result<&'v ArrayRef, SqlError> {
    let array = argument(values)?;
    assert_eq!(array.len(), frames.ends.len(), "a flag for each row");
    Ok(array)
}

fn typed<T: ArrowPrimitiveType>(array: &ArrayRef, sql_type: SqlType) -> Result<&PrimitiveArray<T>, SqlError> {
    array.as_primitive_opt::<T>().ok_or_else(|| not_the_carrier(array, sql_type))
}

/// `COUNT` and `COUNT_BIG`.
struct Count {
    result: SqlType,
    count: i64,
}

impl RunningAggregate for Count {
    fn run(&mut self, values: &[ArrayRef], frames: Frames<'_>) -> Result<ArrayRef, SqlError> {
        let array = column(values, frames)?;
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        let (counts, _) = each_frame(frames, nulls, &mut self.count, |count, _| *count += 1, |count| Some(*count));
        if self.result == SqlType::BigInt {
            return Ok(Arc::new(Int64Array::from(counts)));
        }
        let narrow: Result<Vec<i32>, _> = counts.into_iter().map(i32::try_from).collect();
        Ok(Arc::new(Int32Array::from(narrow.map_err(|_| overflow(SqlType::Int))?)))
    }
}

/// A sum and the number of its values.
#[derive(Clone, Copy, Default)]
struct Sum<N> {
    sum: N,
    count: i64,
}

impl Sum<i128> {
    /// The sum, or the mean with `up` more decimal places; `None` above 128 bits.
    fn finish(&self, up: Option<u8>) -> Option<i128> {
        up.map_or(Some(self.sum), |up| divide_wide(self.sum, i128::from(self.count), up))
    }
}

/// `SUM` and `AVG` of exact numbers.
struct ExactSum {
    aggregate: Aggregate,
    sum: Sum<i128>,
}

impl ExactSum {
    /// The results as the carrier `R` of the aggregate's result; `narrow` gives none for a value that is out of its
    /// range.
    fn run_as<T, R>(
        &mut self,
        array: &ArrayRef,
        frames: Frames<'_>,
        narrow: impl Fn(i128) -> Option<R::Native>,
    ) -> Result<ArrayRef, SqlError>
    where
        T: ArrowPrimitiveType,
        R: ArrowPrimitiveType,
        i128: From<T::Native>,
    {
        let Aggregate { kind, input, result, .. } = self.aggregate;
        let array = typed::<T>(array, input)?;
        let (numbers, nulls) = (array.values(), array.nulls());
        let up = (kind == AggregateKind::Avg).then(|| result.scale().saturating_sub(input.scale()));
        let (mut wraps, mut is_out_of_range) = (false, false);
        let (values, nulls) = each_frame(
            frames,
            nulls,
            &mut self.sum,
            |state, row| {
                let (sum, is_over) = state.sum.overflowing_add(i128::from(numbers[row]));
                wraps |= is_over;
                *state = Sum { sum, count: state.count + 1 };
            },
            |state| {
                if state.count == 0 {
                    return None;
                }
                let value = state.finish(up).and_then(&narrow);
                is_out_of_range |= value.is_none();
                Some(value.unwrap_or_default())
            },
        );
        if wraps || is_out_of_range {
            return Err(overflow(result));
        }
        Ok(Arc::new(PrimitiveArray::<R>::new(values.into(), nulls).with_data_type(carrier(result))))
    }

    fn run_over<T: ArrowPrimitiveType>(&mut self, array: &ArrayRef, frames: Frames<'_>) -> Result<ArrayRef, SqlError>
    where
        i128: From<T::Native>,
    {
        match self.aggregate.result {
            SqlType::Int => self.run_as::<T, Int32Type>(array, frames, |value| i32::try_from(value).ok()),
            SqlType::BigInt => self.run_as::<T, Int64Type>(array, frames, |value| i64::try_from(value).ok()),
            SqlType::Decimal { precision, .. } => {
                self.run_as::<T, Decimal128Type>(array, frames, |value| fits(value, precision).then_some(value))
            }
            money => {
                let (most, _) = money_limit(money);
                let good = |value: i128| (value <= most && value >= -most - 1).then_some(value);
                self.run_as::<T, Decimal128Type>(array, frames, good)
            }
        }
    }
}

impl RunningAggregate for ExactSum {
    fn run(&mut self, values: &[ArrayRef], frames: Frames<'_>) -> Result<ArrayRef, SqlError> {
        let array = column(values, frames)?;
        match carrier(self.aggregate.input) {
            DataType::UInt8 => self.run_over::<UInt8Type>(array, frames),
            DataType::Int16 => self.run_over::<Int16Type>(array, frames),
            DataType::Int32 => self.run_over::<Int32Type>(array, frames),
            DataType::Int64 => self.run_over::<Int64Type>(array, frames),
            _ => self.run_over::<Decimal128Type>(array, frames),
        }
    }
}

/// `SUM` and `AVG` of floats, added in the order of the rows.
struct FloatSum {
    aggregate: Aggregate,
    sum: Sum<f64>,
}

impl RunningAggregate for FloatSum {
    fn run(&mut self, values: &[ArrayRef], frames: Frames<'_>) -> Result<ArrayRef, SqlError> {
        let array = cast(column(values, frames)?, &DataType::Float64).map_err(from_arrow)?;
        let array = typed::<Float64Type>(&array, self.aggregate.input)?;
        let numbers = array.values();
        let is_mean = self.aggregate.kind == AggregateKind::Avg;
        let mut is_finite = true;
        let (values, nulls) = each_frame(
            frames,
            array.nulls(),
            &mut self.sum,
            |state, row| *state = Sum { sum: state.sum + numbers[row], count: state.count + 1 },
            |state| {
                let value = if is_mean { one_zero(state.sum / state.count.max(1) as f64) } else { state.sum };
                is_finite &= value.is_finite();
                (state.count > 0).then_some(value)
            },
        );
        if !is_finite {
            return Err(overflow(self.aggregate.result));
        }
        Ok(Arc::new(Float64Array::new(values.into(), nulls)))
    }
}

fn extreme(aggregate: &Aggregate) -> Option<Box<dyn RunningAggregate>> {
    Some(match carrier(aggregate.input) {
        DataType::UInt8 => Box::new(Extreme::<UInt8Type>::new(aggregate)),
        DataType::Int16 => Box::new(Extreme::<Int16Type>::new(aggregate)),
        DataType::Int32 => Box::new(Extreme::<Int32Type>::new(aggregate)),
        DataType::Int64 => Box::new(Extreme::<Int64Type>::new(aggregate)),
        DataType::Date32 => Box::new(Extreme::<Date32Type>::new(aggregate)),
        DataType::Float32 => Box::new(Extreme::<Float32Type>::new(aggregate)),
        DataType::Float64 => Box::new(Extreme::<Float64Type>::new(aggregate)),
        DataType::Decimal128(..) => Box::new(Extreme::<Decimal128Type>::new(aggregate)),
        DataType::Utf8View | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            Box::new(ExtremeBytes { aggregate: *aggregate, best: None })
        }
        _ => return None,
    })
}

/// `MIN` and `MAX` of numbers and times.
struct Extreme<T: ArrowNumericType> {
    aggregate: Aggregate,
    best: Option<T::Native>,
}

impl<T: ArrowNumericType> Extreme<T> {
    fn new(aggregate: &Aggregate) -> Extreme<T> {
        Extreme { aggregate: *aggregate, best: None }
    }
}

impl<T: ArrowNumericType> RunningAggregate for Extreme<T>
where
    T::Native: ArrowNativeTypeOp,
{
    fn run(&mut self, values: &[ArrayRef], frames: Frames<'_>) -> Result<ArrayRef, SqlError> {
        let array = typed::<T>(column(values, frames)?, self.aggregate.input)?;
        let (numbers, wanted) = (array.values(), wanted(self.aggregate.kind));
        let offer = |best: &mut Option<T::Native>, row: usize| {
            let value = numbers[row];
            if best.is_none_or(|best| value.compare(best) == wanted) {
                *best = Some(value);
            }
        };
        let (values, nulls) = each_frame(frames, array.nulls(), &mut self.best, offer, |best| *best);
        let result = PrimitiveArray::<T>::new(values.into(), nulls);
        Ok(Arc::new(result.with_data_type(carrier(self.aggregate.result))))
    }
}

/// `MIN` and `MAX` of texts by their collation, of binary values and guids by their bytes.
struct ExtremeBytes {
    aggregate: Aggregate,
    /// An array of the best value so far.
    best: Option<ArrayRef>,
}

/// An array and a row of it.
type Place = (usize, usize);

/// Arrays from which [`ExtremeBytes`] takes values: the argument, the best value before it, and NULL.
const ARGUMENT: usize = 0;
const BEFORE: usize = 1;
const NULL: usize = 2;

impl ExtremeBytes {
    /// The places of the frames' values, and that of the best value behind the last row.
    fn places<A: ArrayAccessor>(
        &self,
        values: A,
        before: Option<A>,
        frames: Frames<'_>,
        compare: impl Fn(A::Item, A::Item) -> Ordering,
    ) -> (Vec<Place>, Option<Place>)
    where
        A::Item: Copy,
    {
        let wanted = wanted(self.aggregate.kind);
        let mut best = before.map(|before| ((BEFORE, 0), before.value(0)));
        let offer = |best: &mut Option<(Place, A::Item)>, row: usize| {
            let value = values.value(row);
            if best.is_none_or(|(_, best)| compare(value, best) == wanted) {
                *best = Some(((ARGUMENT, row), value));
            }
        };
        let place = |best: &Option<(Place, A::Item)>| best.map(|(place, _)| place);
        let found = |best: &_| Some(place(best).unwrap_or((NULL, 0)));
        let (places, _) = each_frame(frames, values.nulls(), &mut best, offer, found);
        (places, place(&best))
    }

    fn places_in(&self, array: &ArrayRef, frames: Frames<'_>) -> Result<(Vec<Place>, Option<Place>), SqlError> {
        let before = self.best.as_ref();
        if let Some(texts) = array.as_string_view_opt() {
            let collation = self.aggregate.collation;
            let before = before.and_then(|before| before.as_string_view_opt());
            return Ok(self.places(texts, before, frames, |left, right| compare(collation, left, right)));
        }
        if let Some(guids) = array.as_fixed_size_binary_opt() {
            let before = before.and_then(|before| before.as_fixed_size_binary_opt());
            return Ok(self.places(guids, before, frames, Ord::cmp));
        }
        let binary = array.as_binary_view_opt().ok_or_else(|| not_the_carrier(array, self.aggregate.input))?;
        Ok(self.places(binary, before.and_then(|before| before.as_binary_view_opt()), frames, Ord::cmp))
    }
}

/// The order of two texts, by their first bytes if these decide.
fn compare(collation: Collation, left: &str, right: &str) -> Ordering {
    let weight = |text: &str| {
        let mut prefix = [0; 4];
        let length = text.len().min(4);
        prefix[..length].copy_from_slice(&text.as_bytes()[..length]);
        collation.prefix_weight(prefix, text.len())
    };
    match (weight(left), weight(right)) {
        (Some(left), Some(right)) if left != right => left.cmp(&right),
        _ => collation.compare(left, right),
    }
}

impl RunningAggregate for ExtremeBytes {
    fn run(&mut self, values: &[ArrayRef], frames: Frames<'_>) -> Result<ArrayRef, SqlError> {
        let array = column(values, frames)?;
        let (places, best) = self.places_in(array, frames)?;
        let null = new_null_array(array.data_type(), 1);
        let before = self.best.as_ref().unwrap_or(&null);
        let result = interleave(&[array, before, &null], &places).map_err(from_arrow)?;
        match best {
            None => self.best = None,
            Some((ARGUMENT, row)) => {
                let best = take(array, &UInt64Array::from(vec![row as u64]), None).map_err(from_arrow)?;
                self.best = Some(alone(best));
            }
            Some(_) => {}
        }
        Ok(result)
    }

    fn size(&self) -> usize {
        self.best.as_ref().map_or(0, |best| best.get_array_memory_size())
    }
}

/// Values without the bytes of others that share their buffers.
fn alone(values: ArrayRef) -> ArrayRef {
    if let Some(texts) = values.as_string_view_opt() {
        return Arc::new(texts.gc());
    }
    match values.as_binary_view_opt() {
        Some(binary) => Arc::new(binary.gc()),
        None => values,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{BinaryViewArray, StringViewArray, new_empty_array};
    use arrow::compute::concat;
    use hobt_base::SplitMix64;
    use hobt_types::MaxLength;

    use super::super::Emit;
    use super::*;

    /// What the accumulator makes of each frame, a value for each row.
    fn by_accumulator(aggregate: &Aggregate, values: &ArrayRef, frames: Frames<'_>) -> ArrayRef {
        let (mut results, mut begin, mut given) = (vec![new_empty_array(&carrier(aggregate.result))], 0, 0);
        for row in 0..values.len() {
            if frames.restarts[row] {
                begin = row;
            }
            if frames.ends[row] {
                let mut accumulator = aggregate.accumulator().expect("an accumulator");
                accumulator.update_all(&[values.slice(begin, row + 1 - begin)]).expect("rows");
                let result = accumulator.evaluate(Emit::All).expect("a result");
                let zeros = UInt64Array::from(vec![0; row + 1 - given]);
                results.push(take(&result, &zeros, None).expect("a value for each row"));
                given = row + 1;
            }
        }
        concat(&results.iter().map(AsRef::as_ref).collect::<Vec<_>>()).expect("one array")
    }

    #[test]
    fn values_are_those_of_the_accumulators_however_the_rows_are_cut() {
        use AggregateKind::{Avg, Count, CountBig, Max, Min, Sum};
        const ROWS: usize = 300;
        let mut random = SplitMix64::new(5);
        let numbers: Vec<Option<i64>> =
            (0..ROWS).map(|_| Some(random.below(1000) as i64 - 500).filter(|number| number % 4 > 0)).collect();
        let texts = numbers.iter().map(|number| number.map(|number| format!("Text {number} that is long, or not")));
        let texts: Vec<Option<String>> = texts.collect();
        let bytes: BinaryViewArray = texts.iter().map(|text| text.as_ref().map(String::as_bytes)).collect();
        let columns: [(SqlType, ArrayRef); 4] = [
            (SqlType::BigInt, Arc::new(Int64Array::from(numbers.clone()))),
            (SqlType::Float, Arc::new(numbers.iter().map(|n| n.map(|n| n as f64)).collect::<Float64Array>())),
            (SqlType::VarChar(MaxLength::Limited(50)), Arc::new(texts.iter().cloned().collect::<StringViewArray>())),
            (SqlType::VarBinary(MaxLength::Limited(50)), Arc::new(bytes)),
        ];
        let restarts: Vec<bool> = (0..ROWS).map(|row| row == 0 || random.below(20) == 0).collect();
        // A frame ends with its partition.
        let ends: Vec<bool> =
            (1..=ROWS).map(|next| restarts.get(next).is_none_or(|restart| *restart) || random.below(3) == 0).collect();
        for (input, values) in columns {
            for kind in [Count, CountBig, Sum, Avg, Min, Max] {
                let Ok(aggregate) = Aggregate::new(kind, input, Collation::Latin1GeneralCiAs) else { continue };
                let expected = by_accumulator(&aggregate, &values, Frames { restarts: &restarts, ends: &ends });
                let mut running = aggregate.running().expect("a running aggregate");
                let mut from = 0;
                while from < ROWS {
                    // A piece that ends within a frame gives the rows of the frames that have ended.
                    let rows = (1 + random.below(40) as usize).min(ROWS - from);
                    let frames = Frames { restarts: &restarts[from..from + rows], ends: &ends[from..from + rows] };
                    let found = running.run(&[values.slice(from, rows)], frames).expect("values");
                    let known = frames.ends.iter().rposition(|is_end| *is_end).map_or(0, |last| last + 1);
                    assert_eq!(found.as_ref(), expected.slice(from, known).as_ref(), "{kind:?} of {input} at {from}");
                    from += rows;
                }
            }
        }
    }
}
