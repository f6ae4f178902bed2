//! Aggregates as accumulators over groups, in a shape that a query engine wraps.
//!
//! An accumulator holds the states of many groups, numbered from 0. An ungrouped aggregate is one group and uses
//! [`GroupsAccumulator::update_all`], which reads whole arrays at a time. States travel between workers as arrays of
//! [`Aggregate::state_types`].

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::DataType;
use hobt_base::SqlError;
use hobt_types::{Collation, SqlType};

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

/// Which groups a call takes out of an accumulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Emit {
    /// All groups.
    All,
    /// The first so many; the others are numbered anew from 0.
    First(usize),
}

/// The states of many groups.
pub trait GroupsAccumulator: Send {
    /// Takes in rows: `values` are the argument columns, `groups` each row's group, below `total_groups`. A row counts
    /// only where `filter` is true.
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

    /// Takes all rows into group 0.
    ///
    /// # Errors
    /// As [`GroupsAccumulator::update_batch`].
    fn update_all(&mut self, values: &[ArrayRef]) -> Result<(), SqlError>;

    /// Takes in states that [`GroupsAccumulator::state`] of another accumulator gave, row by row.
    ///
    /// # Errors
    /// As [`GroupsAccumulator::update_batch`].
    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<(), SqlError>;

    /// The results of the groups, which leave the accumulator. [`Emit::All`] gives as many values as groups were seen.
    ///
    /// # Errors
    /// 8115 on overflow.
    fn evaluate(&mut self, emit: Emit) -> Result<ArrayRef, SqlError>;

    /// The states of the groups, which leave the accumulator.
    ///
    /// # Errors
    /// As [`GroupsAccumulator::evaluate`].
    fn state(&mut self, emit: Emit) -> Result<Vec<ArrayRef>, SqlError>;

    /// Heap bytes held.
    fn size(&self) -> usize;
}

impl Aggregate {
    /// The aggregate of an argument type, with its result type.
    ///
    /// # Errors
    /// 8117 when the argument's type is not one that the function takes.
    pub fn new(kind: AggregateKind, input: SqlType, collation: Collation) -> Result<Aggregate, SqlError> {
        Ok(Aggregate { kind, input, result: input, collation })
    }

    /// The Arrow types of a state.
    pub fn state_types(&self) -> Vec<DataType> {
        vec![]
    }

    /// A new accumulator without groups.
    ///
    /// # Errors
    /// An internal error for a pair that [`Aggregate::new`] refuses.
    pub fn accumulator(&self) -> Result<Box<dyn GroupsAccumulator>, SqlError> {
        Err(SqlError::not_supported("aggregates"))
    }
}
