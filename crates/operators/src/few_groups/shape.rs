//! What a partial aggregation groups by and computes, taken apart.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Result, ScalarValue, internal_datafusion_err};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use hobt_functions::aggregate::AggregateKind;
use hobt_functions::sort_keys::sort_keys;
use hobt_types::Collation;
use hobt_udf::{Kernel, Operation, SqlAggregate, external};

use crate::columns::substituted;
use crate::key_codes::Codes;
use crate::role::{Passing, Role, role};

/// A partial aggregation over groups.
pub(crate) struct Shape {
    /// What the rows come from: the input, or that of a projection over it.
    source: Arc<dyn ExecutionPlan>,
    /// The projection, if it is computed here.
    projection: Option<Arc<dyn ExecutionPlan>>,
    /// The columns of the projection, in which texts stand for their keys.
    columns: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) keys: Vec<Key>,
    pub(crate) sets: Vec<Set>,
    pub(crate) calls: Vec<Call>,
    schema: SchemaRef,
}

/// A column to group by.
pub(crate) struct Key {
    expr: Arc<dyn PhysicalExpr>,
    /// The type of the values that are grouped.
    data_type: DataType,
    /// The collation under whose keys texts are grouped, if texts stand for their keys.
    collation: Option<Collation>,
    /// The type of the column that is given.
    given: DataType,
}

/// The keys of one grouping set.
pub(crate) struct Set {
    /// The keys that are in it, by their places.
    pub(crate) keys: Vec<usize>,
    /// The number of the set, if there is more than one.
    pub(crate) number: Option<ScalarValue>,
}

/// An aggregate.
pub(crate) struct Call {
    pub(crate) function: Arc<AggregateFunctionExpr>,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    filter: Option<Arc<dyn PhysicalExpr>>,
    /// The key whose text it gives, in the sets that have it: the least of texts that are all the same.
    pub(crate) text_of: Option<usize>,
}

impl Shape {
    /// The parts of an aggregation; `None` if it is not taken here.
    pub(crate) fn of(aggregation: &AggregateExec) -> Option<Shape> {
        let groups = aggregation.group_expr();
        let is_plain = *aggregation.mode() == AggregateMode::Partial
            && *aggregation.input_order_mode() == InputOrderMode::Linear
            && aggregation.limit_options().is_none();
        if !is_plain {
            return None;
        }
        let input = shown(aggregation.input());
        let projection = input.downcast_ref::<ProjectionExec>();
        let mut columns: Vec<Arc<dyn PhysicalExpr>> =
            projection.iter().flat_map(|projection| projection.expr()).map(|item| Arc::clone(&item.expr)).collect();
        let mut calls = aggregation
            .aggr_expr()
            .iter()
            .zip(aggregation.filter_expr())
            .map(|(function, filter)| Call::of(function, filter))
            .collect::<Option<Vec<_>>>()?;
        let (schema, input_schema) = (aggregation.schema(), input.schema());
        let mut keys = Vec::with_capacity(groups.expr().len());
        for (place, (expr, _)) in groups.expr().iter().enumerate() {
            let given = schema.field(place).data_type().clone();
            let text = text_below(expr, &columns).filter(|(at, _, _)| is_only_key(*at, aggregation));
            let key = match text {
                Some((at, text, collation)) => {
                    columns[at] = text;
                    Key { expr: Arc::clone(expr), data_type: DataType::Utf8View, collation: Some(collation), given }
                }
                None => {
                    let data_type = expr.data_type(&input_schema).ok()?;
                    Key { expr: Arc::clone(expr), data_type, collation: None, given }
                }
            };
            Codes::of(&key.data_type)?;
            keys.push(key);
        }
        for call in &mut calls {
            call.text_of = call.key_of_least_text(&keys, &columns);
        }
        let sets = sets_of(aggregation)?;
        let source = projection.map_or(input, ProjectionExec::input);
        let projection = projection.map(|_| Arc::clone(input));
        Some(Shape { source: Arc::clone(source), projection, columns, keys, sets, calls, schema })
    }

    /// The operator whose rows are read.
    pub(crate) fn source(&self) -> &Arc<dyn ExecutionPlan> {
        &self.source
    }

    /// The projection between the source and the aggregation, if there is one.
    pub(crate) fn projection(&self) -> Option<&Arc<dyn ExecutionPlan>> {
        self.projection.as_ref()
    }

    /// The columns of the states.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// An expression of a key or an aggregate as one over the columns of the source.
    pub(crate) fn over_source(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
        match self.projection {
            Some(_) => substituted(expr, &|at| self.columns.get(at).cloned()),
            None => Some(Arc::clone(expr)),
        }
    }

    /// The rows of the source as the keys and aggregates read them.
    pub(crate) fn projected(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        if self.projection.is_none() {
            return Ok(batch.clone());
        }
        let rows = batch.num_rows();
        let arrays = self.columns.iter().map(|expr| expr.evaluate(batch)?.into_array(rows));
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        let fields = arrays.iter().enumerate().map(|(place, array)| {
            // The names are not asked for.
            arrow::datatypes::Field::new(place.to_string(), array.data_type().clone(), true)
        });
        let schema = Arc::new(arrow::datatypes::Schema::new(fields.collect::<Vec<_>>()));
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }
}

/// The text whose sort key a column of the projection is: the column's place, the text and the collation.
fn text_below(
    key: &Arc<dyn PhysicalExpr>,
    columns: &[Arc<dyn PhysicalExpr>],
) -> Option<(usize, Arc<dyn PhysicalExpr>, Collation)> {
    let at = key.downcast_ref::<Column>()?.index();
    let call = columns.get(at)?.downcast_ref::<ScalarFunctionExpr>()?;
    let Operation::SortKey(collation) = call.fun().inner().downcast_ref::<Kernel>()?.operation() else { return None };
    Some((at, Arc::clone(call.args().first()?), *collation))
}

/// Whether a column of the input is one key, and nothing else.
fn is_only_key(at: usize, aggregation: &AggregateExec) -> bool {
    let reads = |expr: &Arc<dyn PhysicalExpr>| collect_columns(expr).iter().any(|column| column.index() == at);
    let keys = aggregation.group_expr().expr().iter().filter(|(expr, _)| reads(expr)).count();
    let mut arguments = aggregation.aggr_expr().iter().flat_map(|call| call.expressions());
    keys == 1 && !arguments.any(|expr| reads(&expr)) && !aggregation.filter_expr().iter().flatten().any(reads)
}

/// The grouping sets; `None` if one of them is there twice.
/// The plan whose order is hidden, or the plan.
fn shown(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    match (role(plan.as_ref()), plan.children().first()) {
        (Role::Passes(Passing::Hides(_)), Some(input)) => input,
        _ => plan,
    }
}

fn sets_of(aggregation: &AggregateExec) -> Option<Vec<Set>> {
    let groups = aggregation.group_expr();
    let all = groups.groups();
    if all.iter().enumerate().any(|(place, set)| all[..place].contains(set)) {
        return None;
    }
    let number_type =
        (!groups.is_single()).then(|| aggregation.schema().field(groups.expr().len()).data_type().clone());
    let set = |is_null: &Vec<bool>| {
        let keys = is_null.iter().enumerate().filter(|(_, is_null)| !**is_null).map(|(place, _)| place).collect();
        // As DataFusion numbers them: a bit for each key, which is set if the key is not in the set.
        let number = is_null.iter().fold(0u64, |number, is_null| number << 1 | u64::from(*is_null));
        let number = number_type.as_ref().map(|to| ScalarValue::UInt64(Some(number)).cast_to(to));
        Some(Set { keys, number: number.transpose().ok()? })
    };
    all.iter().map(set).collect::<Option<Vec<_>>>().filter(|sets| !sets.is_empty())
}

impl Set {
    /// Whether it is one group of all rows, which is there without rows too: `()` in `ROLLUP` and the like.
    pub(crate) fn is_of_all_rows(&self) -> bool {
        self.keys.is_empty()
    }
}

impl Key {
    /// The expression that is grouped by, over the input.
    pub(crate) fn expr(&self) -> &Arc<dyn PhysicalExpr> {
        &self.expr
    }

    /// A table of codes for its values.
    pub(crate) fn codes(&self) -> Result<Codes> {
        Codes::of(&self.data_type).ok_or_else(|| internal_datafusion_err!("keys of {}", self.data_type))
    }

    /// Its values in a batch.
    pub(crate) fn values(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        self.expr.evaluate(batch)?.into_array(batch.num_rows())
    }

    /// The type of the column that is given.
    pub(crate) fn given(&self) -> &DataType {
        &self.given
    }

    /// What stands in the column that is given for values: themselves, or the keys of texts.
    pub(crate) fn shown(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let Some(collation) = self.collation else { return Ok(Arc::clone(values)) };
        let texts = values.as_string_view_opt().ok_or_else(|| internal_datafusion_err!("a text to group by"))?;
        Ok(Arc::new(sort_keys(texts, collation).map_err(external)?))
    }
}

impl Call {
    fn of(function: &Arc<AggregateFunctionExpr>, filter: &Option<Arc<dyn PhysicalExpr>>) -> Option<Call> {
        let is_plain = function.groups_accumulator_supported()
            && !function.is_distinct()
            && function.order_bys().is_empty()
            && !function.ignore_nulls();
        is_plain.then(|| Call {
            function: Arc::clone(function),
            arguments: function.expressions(),
            filter: filter.clone(),
            text_of: None,
        })
    }

    /// Whether some rows do not count.
    pub(crate) fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    /// Its argument, if it has one.
    pub(crate) fn argument(&self) -> Option<&Arc<dyn PhysicalExpr>> {
        if let [argument] = self.arguments.as_slice() { Some(argument) } else { None }
    }

    /// The key that is the text of which it gives the least in the order of code points.
    fn key_of_least_text(&self, keys: &[Key], columns: &[Arc<dyn PhysicalExpr>]) -> Option<usize> {
        let aggregate = self.function.fun().inner().downcast_ref::<SqlAggregate>()?.aggregate();
        let is_least = aggregate.kind == AggregateKind::Min && aggregate.collation == Collation::Latin1GeneralBin2;
        let [argument] = self.arguments.as_slice() else { return None };
        if !is_least || self.filter.is_some() {
            return None;
        }
        let column_of = |expr: &Arc<dyn PhysicalExpr>| {
            let at = expr.downcast_ref::<Column>()?.index();
            columns.get(at).cloned()
        };
        let text = column_of(argument)?;
        keys.iter().position(|key| key.collation.is_some() && column_of(&key.expr).is_some_and(|known| known.eq(&text)))
    }

    /// Its arguments in a batch, and which rows count.
    pub(crate) fn read(&self, batch: &RecordBatch) -> Result<(Vec<ArrayRef>, Option<BooleanArray>)> {
        let rows = batch.num_rows();
        let arrays = self.arguments.iter().map(|expr| expr.evaluate(batch)?.into_array(rows));
        let filter = self.filter.as_ref().map(|filter| filter.evaluate(batch)?.into_array(rows)).transpose()?;
        let filter = filter.map(|filter| filter.as_boolean().clone());
        Ok((arrays.collect::<Result<_>>()?, filter))
    }
}
