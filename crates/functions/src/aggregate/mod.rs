//! Aggregates as accumulators over groups, in a form that a query engine can wrap.
//!
//! An accumulator holds the states of many groups, numbered from 0. An ungrouped aggregate has one group and uses
//! [`GroupsAccumulator::update_all`], which reads whole arrays. Workers exchange states as arrays of
//! [`Aggregate::state_types`].

mod count;
mod extreme;
mod groups;
mod running;
mod string_agg;
mod sum;
#[cfg(test)]
mod tests;
mod variance;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use hobt_base::{SqlError, errors};
use hobt_types::{Collation, MaxLength, SqlType};

pub use running::{Frames, RunningAggregate};
pub use string_agg::string_agg_too_long;

use crate::carrier::carrier;
use crate::type_rules::declared_length;

/// An aggregate function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AggregateKind {
    /// `COUNT(x)`: an `int`. `COUNT(*)` is `COUNT` of anything that is not NULL.
    Count,
    /// `COUNT_BIG(x)`
    CountBig,
    /// `SUM`
    Sum,
    /// `AVG`
    Avg,
    /// `MIN`
    Min,
    /// `MAX`
    Max,
    /// `STDEV`
    Stdev,
    /// `STDEVP`
    StdevP,
    /// `VAR`
    Var,
    /// `VARP`
    VarP,
    /// `CHECKSUM_AGG`
    ChecksumAgg,
    /// `STRING_AGG`; the separator is the second value column
    StringAgg,
}

/// An aggregate over a type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Aggregate {
    /// The function.
    pub kind: AggregateKind,
    /// The type of its argument.
    pub input: SqlType,
    /// The type of its result.
    pub result: SqlType,
    /// The collation under which text compares in `MIN` and `MAX`.
    pub collation: Collation,
}

/// The groups that a call removes from an accumulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Emit {
    /// All groups.
    All,
    /// This number of groups from the start; the others are renumbered from 0.
    First(usize),
}

/// The states of many groups.
pub trait GroupsAccumulator: Send {
    /// Adds rows: `values` are the argument columns, `groups` each row's group, below `total_groups`. If there is a
    /// `filter`, only rows where it is true count.
    ///
    /// # Errors
    /// 8115 on overflow.
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<(), SqlError>;

    /// Adds all rows to group 0.
    ///
    /// # Errors
    /// As [`GroupsAccumulator::update_batch`].
    fn update_all(&mut self, values: &[ArrayRef]) -> Result<(), SqlError> {
        let groups = vec![0; argument(values)?.len()];
        self.update_batch(values, &groups, None, 1)
    }

    /// Adds states returned by [`GroupsAccumulator::state`] of another accumulator, row by row. A state that is a
    /// result is added like a value.
    ///
    /// # Errors
    /// As [`GroupsAccumulator::update_batch`].
    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<(), SqlError> {
        self.update_batch(states, groups, filter, total_groups)
    }

    /// Removes groups and returns their results. [`Emit::All`] returns one value for each group.
    ///
    /// # Errors
    /// 8115 on overflow.
    fn evaluate(&mut self, emit: Emit) -> Result<ArrayRef, SqlError>;

    /// Removes groups and returns their states: the results, unless more is needed to continue.
    ///
    /// # Errors
    /// As [`GroupsAccumulator::evaluate`].
    fn state(&mut self, emit: Emit) -> Result<Vec<ArrayRef>, SqlError> {
        Ok(vec![self.evaluate(emit)?])
    }

    /// The heap memory held, in bytes.
    fn size(&self) -> usize;
}

impl Aggregate {
    /// The aggregate of an argument type, with its result type.
    ///
    /// # Errors
    /// 8117 if the function does not take the argument's type.
    pub fn new(kind: AggregateKind, input: SqlType, collation: Collation) -> Result<Aggregate, SqlError> {
        let result = result_type(kind, input)?;
        Ok(Aggregate { kind, input, result, collation })
    }

    /// The Arrow types of one state.
    pub fn state_types(&self) -> Vec<DataType> {
        match self.kind {
            AggregateKind::Count | AggregateKind::CountBig => vec![DataType::Int64],
            AggregateKind::Sum | AggregateKind::Avg => {
                let sum = if is_floating(self.input) { DataType::Float64 } else { DataType::Decimal128(38, 0) };
                vec![sum, DataType::Int64]
            }
            AggregateKind::Min | AggregateKind::Max => vec![carrier(self.input)],
            AggregateKind::Stdev | AggregateKind::StdevP | AggregateKind::Var | AggregateKind::VarP => {
                vec![DataType::Int64, DataType::Float64, DataType::Float64]
            }
            AggregateKind::ChecksumAgg => vec![DataType::Int32],
            AggregateKind::StringAgg => vec![DataType::Utf8View, DataType::Utf8View],
        }
    }

    /// A new accumulator without groups.
    ///
    /// # Errors
    /// An internal error for a pair that [`Aggregate::new`] refuses.
    pub fn accumulator(&self) -> Result<Box<dyn GroupsAccumulator>, SqlError> {
        Ok(match self.kind {
            AggregateKind::Count | AggregateKind::CountBig => Box::new(count::Count::new(self.result)),
            AggregateKind::Sum | AggregateKind::Avg if is_floating(self.input) => Box::new(sum::FloatSum::new(*self)),
            AggregateKind::Sum | AggregateKind::Avg => Box::new(sum::ExactSum::new(*self)),
            AggregateKind::Min | AggregateKind::Max => extreme::accumulator(self)?,
            AggregateKind::Stdev | AggregateKind::StdevP | AggregateKind::Var | AggregateKind::VarP => {
                Box::new(variance::Variance::new(*self))
            }
            AggregateKind::ChecksumAgg => Box::new(count::ChecksumAgg::default()),
            AggregateKind::StringAgg => Box::new(string_agg::StringAgg::new(*self)),
        })
    }
}

const fn is_floating(sql_type: SqlType) -> bool {
    matches!(sql_type, SqlType::Real | SqlType::Float)
}

/// The result types, from Microsoft's pages on the aggregates.
fn result_type(kind: AggregateKind, input: SqlType) -> Result<SqlType, SqlError> {
    use AggregateKind as A;
    let (name, valid) = match kind {
        A::Count => return Ok(SqlType::Int),
        A::CountBig => return Ok(SqlType::BigInt),
        A::Sum => ("sum", input.is_numeric() && input != SqlType::Bit),
        A::Avg => ("avg", input.is_numeric() && input != SqlType::Bit),
        A::Min => ("min", input != SqlType::Bit),
        A::Max => ("max", input != SqlType::Bit),
        A::Stdev => ("stdev", input.is_numeric() && input != SqlType::Bit),
        A::StdevP => ("stdevp", input.is_numeric() && input != SqlType::Bit),
        A::Var => ("var", input.is_numeric() && input != SqlType::Bit),
        A::VarP => ("varp", input.is_numeric() && input != SqlType::Bit),
        A::ChecksumAgg => ("checksum_agg", input.is_integer()),
        A::StringAgg => ("string_agg", !input.is_binary()),
    };
    if !valid {
        return Err(errors::INVALID_OPERAND_TYPE.with([&input.name(), &name]));
    }
    Ok(match (kind, input) {
        (A::Min | A::Max, _) => input,
        (A::Sum | A::Avg, SqlType::TinyInt | SqlType::SmallInt | SqlType::Int) => SqlType::Int,
        (A::Sum | A::Avg, SqlType::SmallMoney | SqlType::Money) => SqlType::Money,
        (A::Sum | A::Avg, SqlType::Real | SqlType::Float) => SqlType::Float,
        (A::Sum, SqlType::Decimal { scale, .. }) => SqlType::Decimal { precision: 38, scale },
        (A::Avg, SqlType::Decimal { scale, .. }) => SqlType::Decimal { precision: 38, scale: scale.max(6) },
        (A::Sum | A::Avg, _) => SqlType::BigInt,
        (A::ChecksumAgg, _) => SqlType::Int,
        (A::StringAgg, _) => match declared_length(input) {
            Some(MaxLength::Max) if input.is_national() => SqlType::NVarChar(MaxLength::Max),
            Some(MaxLength::Max) => SqlType::VarChar(MaxLength::Max),
            Some(_) if !input.is_national() => SqlType::VarChar(MaxLength::Limited(8000)),
            _ => SqlType::NVarChar(MaxLength::Limited(4000)),
        },
        _ => SqlType::Float,
    })
}

/// Calls `each` with every row that counts and its group.
fn each_row(
    groups: &[usize],
    filter: Option<&BooleanArray>,
    nulls: Option<&NullBuffer>,
    mut each: impl FnMut(usize, usize),
) {
    match (filter, nulls) {
        (None, None) => groups.iter().enumerate().for_each(|(row, group)| each(row, *group)),
        _ => {
            let counts = |row: usize| {
                filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
                    && nulls.is_none_or(|nulls| nulls.is_valid(row))
            };
            groups.iter().enumerate().filter(|(row, _)| counts(*row)).for_each(|(row, group)| each(row, *group));
        }
    }
}

/// The argument column.
fn argument(values: &[ArrayRef]) -> Result<&ArrayRef, SqlError> {
    values.first().ok_or_else(|| SqlError::internal("an aggregate without an argument"))
}
