//! Aggregates of crate `functions` as aggregates of DataFusion.

use std::hash::Hash;

use arrow::array::{Array, ArrayRef, BooleanArray, new_empty_array};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility};
use hobt_base::SqlError;
use hobt_functions::aggregate::{Aggregate, AggregateKind, Emit, GroupsAccumulator as Groups};
use hobt_functions::carrier;

use super::distinct::{DistinctAccumulator, distinct_state_fields};
use super::external;
use super::window::WindowAccumulator;

/// An aggregate of crate `functions`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct SqlAggregate {
    aggregate: Aggregate,
    signature: Signature,
}

impl SqlAggregate {
    /// Wraps `aggregate`.
    pub fn new(aggregate: Aggregate) -> SqlAggregate {
        SqlAggregate { aggregate, signature: Signature::user_defined(Volatility::Immutable) }
    }

    /// The wrapped aggregate.
    pub fn aggregate(&self) -> &Aggregate {
        &self.aggregate
    }

    /// Whether it counts.
    pub fn is_count(&self) -> bool {
        matches!(self.aggregate.kind, AggregateKind::Count | AggregateKind::CountBig)
    }
}

/// The types of the columns that an aggregate takes.
fn argument_types(args: &AccumulatorArgs<'_>) -> Vec<DataType> {
    args.expr_fields.iter().map(|field| field.data_type().clone()).collect()
}

impl AggregateUDFImpl for SqlAggregate {
    fn name(&self) -> &str {
        match self.aggregate.kind {
            AggregateKind::Count => "count",
            AggregateKind::CountBig => "count_big",
            AggregateKind::Sum => "sum",
            AggregateKind::Avg => "avg",
            AggregateKind::Min => "min",
            AggregateKind::Max => "max",
            AggregateKind::Stdev => "stdev",
            AggregateKind::StdevP => "stdevp",
            AggregateKind::Var => "var",
            AggregateKind::VarP => "varp",
            AggregateKind::ChecksumAgg => "checksum_agg",
            AggregateKind::StringAgg => "string_agg",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(arg_types.to_vec())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(carrier(self.aggregate.result))
    }

    fn is_nullable(&self) -> bool {
        !self.is_count()
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        match self.is_count() {
            true => ScalarValue::new_zero(data_type),
            false => ScalarValue::try_from(data_type),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let types = argument_types(&args);
        let inner = OneGroup::open(self.aggregate, &types)?;
        if args.is_distinct {
            return Ok(Box::new(DistinctAccumulator::new(inner, types)?));
        }
        Ok(Box::new(inner))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(WindowAccumulator::new(self.aggregate, argument_types(&args))))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if args.is_distinct {
            return Ok(distinct_state_fields(args.name));
        }
        let fields = self.aggregate.state_types().into_iter().enumerate();
        Ok(fields
            .map(|(place, data_type)| Field::new(format!("{}[{place}]", args.name), data_type, true).into())
            .collect())
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let inner = self.aggregate.accumulator().map_err(external)?;
        Ok(Box::new(ManyGroups { aggregate: self.aggregate, inner }))
    }
}

/// An accumulator over all groups.
struct ManyGroups {
    aggregate: Aggregate,
    inner: Box<dyn Groups>,
}

pub(super) fn emit(emit_to: EmitTo) -> Emit {
    match emit_to {
        EmitTo::All => Emit::All,
        EmitTo::First(count) => Emit::First(count),
    }
}

impl GroupsAccumulator for ManyGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.inner.update_batch(values, group_indices, opt_filter, total_num_groups).map_err(external)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.inner.merge_batch(values, group_indices, None, total_num_groups).map_err(external)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.inner.evaluate(emit(emit_to)).map_err(external)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit(emit_to)).map_err(external)
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = values.first().map_or(0, |array| array.len());
        let groups: Vec<usize> = (0..rows).collect();
        let mut fresh = self.aggregate.accumulator().map_err(external)?;
        fresh.update_batch(values, &groups, opt_filter, rows).map_err(external)?;
        fresh.state(Emit::All).map_err(external)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}

/// An accumulator of one group, which can be evaluated repeatedly.
pub(super) struct OneGroup {
    aggregate: Aggregate,
    inner: Box<dyn Groups>,
}

impl std::fmt::Debug for OneGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OneGroup({:?})", self.aggregate.kind)
    }
}

/// A [`OneGroup`] that can be shared between threads, as DataFusion requires of an accumulator. Only
/// [`Accumulator::size`] takes a shared reference, so the mutex is never contended.
#[derive(Debug)]
pub(super) struct SharedOneGroup(parking_lot::Mutex<OneGroup>);

impl OneGroup {
    /// An accumulator whose only group has seen no row.
    pub(super) fn open(aggregate: Aggregate, types: &[DataType]) -> Result<SharedOneGroup> {
        let mut inner = aggregate.accumulator().map_err(external)?;
        let nothing: Vec<ArrayRef> = types.iter().map(new_empty_array).collect();
        inner.update_batch(&nothing, &[], None, 1).map_err(external)?;
        Ok(SharedOneGroup(parking_lot::Mutex::new(OneGroup { aggregate, inner })))
    }

    /// An accumulator whose only group has seen no state.
    pub(super) fn of_no_state(aggregate: Aggregate) -> Result<SharedOneGroup> {
        let mut inner = aggregate.accumulator().map_err(external)?;
        let nothing: Vec<ArrayRef> = aggregate.state_types().iter().map(new_empty_array).collect();
        inner.merge_batch(&nothing, &[], None, 1).map_err(external)?;
        Ok(SharedOneGroup(parking_lot::Mutex::new(OneGroup { aggregate, inner })))
    }

    /// The state, which the accumulator keeps.
    fn state(&mut self) -> Result<Vec<ArrayRef>, SqlError> {
        let states = self.inner.state(Emit::All)?;
        let mut fresh = self.aggregate.accumulator()?;
        fresh.merge_batch(&states, &[0], None, 1)?;
        self.inner = fresh;
        Ok(states)
    }

    fn evaluate(&mut self) -> Result<ArrayRef, SqlError> {
        let states = self.inner.state(Emit::All)?;
        let mut asked = self.aggregate.accumulator()?;
        asked.merge_batch(&states, &[0], None, 1)?;
        self.inner = self.aggregate.accumulator()?;
        self.inner.merge_batch(&states, &[0], None, 1)?;
        asked.evaluate(Emit::All)
    }
}

impl Accumulator for SharedOneGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.get_mut().inner.update_all(values).map_err(external)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states.first().map_or(0, |array| array.len());
        self.0.get_mut().inner.merge_batch(states, &vec![0; rows], None, 1).map_err(external)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let states = self.0.get_mut().state().map_err(external)?;
        states.iter().map(|array| ScalarValue::try_from_array(array, 0)).collect()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let array = self.0.get_mut().evaluate().map_err(external)?;
        ScalarValue::try_from_array(&array, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.0.lock().inner.size()
    }
}
