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
const fn wanted(kind: AggregateKind) -> Ordering {
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

struct Text {
    best: Groups<Option<String>>,
    wanted: Ordering,
    collation: Collation,
}

impl Text {
    fn new(aggregate: &Aggregate) -> Text {
        Text { best: Groups::default(), wanted: wanted(aggregate.kind), collation: aggregate.collation }
    }

    fn offer(&mut self, group: usize, text: &str) {
        match self.best.get(group) {
            Some(held) if self.collation.compare(text, held) != self.wanted => {}
            _ => self.best.change(group, |best| {
                let held = best.get_or_insert_default();
                held.clear();
                held.push_str(text);
            }),
        }
    }

    /// The first bytes of the held text as a number; see [`Collation::prefix_weight`].
    fn held_prefix(&self) -> Option<u32> {
        let held = self.best.get(0).as_ref()?.as_bytes();
        let mut prefix = [0; 4];
        let length = held.len().min(4);
        prefix[..length].copy_from_slice(&held[..length]);
        self.collation.prefix_weight(prefix, length)
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
        self.best.resize(total_groups);
        let array = argument(values)?;
        let typed = texts(array)?;
        each_row(groups, filter, array.nulls(), |row, group| self.offer(group, typed.value(row)));
        Ok(())
    }

    /// Nearly every value loses by its first four bytes, which are in the view. Only the others are compared.
    fn update_all(&mut self, values: &[ArrayRef]) -> Result<(), SqlError> {
        self.best.resize(1);
        let array = argument(values)?;
        let typed = texts(array)?;
        let mut held = self.held_prefix();
        let mut last_view = None;
        for (row, view) in typed.views().iter().enumerate() {
            if last_view == Some(*view) {
                continue;
            }
            let [.., a, b, c, d] = (*view as u64).to_le_bytes();
            if let (Some(held), Some(own)) = (held, self.collation.prefix_weight([a, b, c, d], *view as u32 as usize))
                && own != held
                && own.cmp(&held) != self.wanted
            {
                continue;
            }
            if typed.is_null(row) {
                continue;
            }
            // Equal views of one array are equal texts.
            last_view = Some(*view);
            self.offer(0, typed.value(row));
            held = self.held_prefix();
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: Emit) -> Result<ArrayRef, SqlError> {
        Ok(Arc::new(self.best.take(emit).into_iter().collect::<StringViewArray>()))
    }

    fn size(&self) -> usize {
        self.best.size()
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
