//! An aggregate in two steps, each an aggregate of a grouping of its own.
//!
//! ```text
//!   rows ── StateOf ──► a state for each finer group ── OfStates ──► the result for each group
//! ```
//! A state is a struct of what the accumulator needs to go on ([`Aggregate::state_types`]), so the result is the one
//! that a single grouping has: a sum is checked against its type at the end, and an average is divided once.

use std::hash::Hash;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StructArray};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature};
use hobt_base::SqlError;
use hobt_functions::aggregate::{Aggregate, AggregateKind, GroupsAccumulator as Groups};

use super::SqlAggregate;
use super::aggregate::{OneGroup, SharedOneGroup, emit};
use super::external;

/// The first step: an aggregate whose result is its state.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct StateOf(SqlAggregate);

/// The second step: an aggregate of states.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct OfStates(SqlAggregate);

impl StateOf {
    /// The first step of an aggregate.
    pub fn new(aggregate: Aggregate) -> StateOf {
        StateOf(SqlAggregate::new(aggregate))
    }
}

impl OfStates {
    /// The second step of an aggregate.
    pub fn new(aggregate: Aggregate) -> OfStates {
        OfStates(SqlAggregate::new(aggregate))
    }
}

/// The columns of a state.
fn fields(aggregate: &Aggregate) -> Fields {
    let types = aggregate.state_types().into_iter().enumerate();
    types.map(|(place, data_type)| Field::new(format!("{place}"), data_type, true)).collect()
}

fn state_fields(aggregate: &Aggregate, name: &str) -> Vec<FieldRef> {
    let types = aggregate.state_types().into_iter().enumerate();
    types.map(|(place, data_type)| Field::new(format!("{name}[{place}]"), data_type, true).into()).collect()
}

/// The columns of a column of states.
fn columns(values: &[ArrayRef]) -> Result<&[ArrayRef]> {
    let states = values.first().and_then(|states| states.as_struct_opt());
    states.map(StructArray::columns).ok_or_else(|| external(SqlError::internal("an aggregate of states has none")))
}

impl AggregateUDFImpl for StateOf {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(arg_types.to_vec())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Struct(fields(self.0.aggregate())))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let types: Vec<DataType> = args.expr_fields.iter().map(|field| field.data_type().clone()).collect();
        let inner = OneGroup::open(*self.0.aggregate(), &types)?;
        Ok(Box::new(OneState { inner, fields: fields(self.0.aggregate()) }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(state_fields(self.0.aggregate(), args.name))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let aggregate = *self.0.aggregate();
        let inner = aggregate.accumulator().map_err(external)?;
        Ok(Box::new(ManyStates { aggregate, inner, takes_states: false }))
    }
}

impl AggregateUDFImpl for OfStates {
    /// States of counts are added up.
    fn name(&self) -> &str {
        match self.0.aggregate().kind {
            AggregateKind::Count | AggregateKind::CountBig => "sum",
            _ => self.0.name(),
        }
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(arg_types.to_vec())
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.0.return_type(arg_types)
    }

    fn is_nullable(&self) -> bool {
        self.0.is_nullable()
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.0.default_value(data_type)
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(OneOfStates(OneGroup::of_no_state(*self.0.aggregate())?)))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(state_fields(self.0.aggregate(), args.name))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let aggregate = *self.0.aggregate();
        let inner = aggregate.accumulator().map_err(external)?;
        Ok(Box::new(ManyStates { aggregate, inner, takes_states: true }))
    }
}

/// Either step, over all groups.
struct ManyStates {
    aggregate: Aggregate,
    inner: Box<dyn Groups>,
    /// Whether it is the second step, which takes states and gives results.
    takes_states: bool,
}

impl GroupsAccumulator for ManyStates {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        match self.takes_states {
            true => self.inner.merge_batch(columns(values)?, group_indices, opt_filter, total_num_groups),
            false => self.inner.update_batch(values, group_indices, opt_filter, total_num_groups),
        }
        .map_err(external)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.inner.merge_batch(values, group_indices, None, total_num_groups).map_err(external)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        if self.takes_states {
            return self.inner.evaluate(emit(emit_to)).map_err(external);
        }
        let states = self.inner.state(emit(emit_to)).map_err(external)?;
        Ok(Arc::new(StructArray::try_new(fields(&self.aggregate), states, None)?))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit(emit_to)).map_err(external)
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = values.first().map_or(0, |array| array.len());
        let groups: Vec<usize> = (0..rows).collect();
        let inner = self.aggregate.accumulator().map_err(external)?;
        let mut fresh = ManyStates { aggregate: self.aggregate, inner, takes_states: self.takes_states };
        fresh.update_batch(values, &groups, opt_filter, rows)?;
        fresh.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}

/// The first step, over one group.
#[derive(Debug)]
struct OneState {
    inner: SharedOneGroup,
    fields: Fields,
}

impl Accumulator for OneState {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let states = self.inner.state()?.iter().map(ScalarValue::to_array).collect::<Result<Vec<_>>>()?;
        let state = StructArray::try_new(self.fields.clone(), states, None)?;
        Ok(ScalarValue::Struct(Arc::new(state)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }
}

/// The second step, over one group.
#[derive(Debug)]
struct OneOfStates(SharedOneGroup);

impl Accumulator for OneOfStates {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(columns(values)?)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.evaluate()
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}
