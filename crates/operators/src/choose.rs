//! `CASE` whose branches cost little: computed for all rows, and then chosen from.
//!
//! DataFusion evaluates a branch for the rows that take it: it copies these rows of each column out, and the results of
//! the branches together again. For a column, a constant or a sum that costs several times what the branch does. An
//! error of a row that does not take the branch must not be one of the statement, so if a branch fails, the batch is
//! evaluated DataFusion's way.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Datum, PrimitiveArray, RecordBatch, Scalar,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{
    ArrowNativeType, DataType, Date32Type, Decimal128Type, FieldRef, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, Schema, UInt8Type,
};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, Column, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use hobt_base::SqlError;
use hobt_functions::BinaryOperator;
use hobt_udf::{Kernel, Operation, sql_error_of};

/// Replaces the `CASE` expressions of projections and aggregates by those that choose.
///
/// # Errors
/// A node rejects its new expressions.
pub fn choosing(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
    let made = plan.transform_up(|node| {
        if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            return project(projection, &node);
        }
        match node.downcast_ref::<AggregateExec>() {
            Some(aggregation) => aggregate(aggregation, &node),
            None => Ok(Transformed::no(node)),
        }
    });
    made.data().map_err(sql_error_of)
}

type Node = Transformed<Arc<dyn ExecutionPlan>>;

fn project(projection: &ProjectionExec, node: &Arc<dyn ExecutionPlan>) -> Result<Node> {
    let mut has_changed = false;
    let exprs = projection.expr().iter().map(|item| {
        let made = chosen(&item.expr)?;
        has_changed |= made.transformed;
        Ok(ProjectionExpr { expr: made.data, alias: item.alias.clone() })
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    Ok(match has_changed {
        true => Transformed::yes(Arc::new(ProjectionExec::try_new(exprs, Arc::clone(projection.input()))?)),
        false => Transformed::no(Arc::clone(node)),
    })
}

fn aggregate(aggregation: &AggregateExec, node: &Arc<dyn ExecutionPlan>) -> Result<Node> {
    let mut has_changed = false;
    let calls = aggregation.aggr_expr().iter().map(|call| {
        let all = call.all_expressions();
        let made = all.args.iter().map(chosen).collect::<Result<Vec<_>>>()?;
        if !made.iter().any(|argument| argument.transformed) {
            return Ok(Arc::clone(call));
        }
        let arguments = made.into_iter().map(|argument| argument.data).collect();
        has_changed = true;
        let call: Option<AggregateFunctionExpr> = call.with_new_expressions(arguments, all.order_by_exprs);
        call.map(Arc::new).ok_or_else(|| internal_datafusion_err!("an aggregate over other arguments"))
    });
    let calls = calls.collect::<Result<Vec<_>>>()?;
    Ok(match has_changed {
        true => Transformed::yes(Arc::new(aggregation.with_new_aggr_exprs(calls))),
        false => Transformed::no(Arc::clone(node)),
    })
}

/// An expression with the `CASE`s in it that choose.
fn chosen(expr: &Arc<dyn PhysicalExpr>) -> Result<Transformed<Arc<dyn PhysicalExpr>>> {
    Arc::clone(expr).transform_up(|node| {
        Ok(match node.downcast_ref::<CaseExpr>().is_some_and(can_choose) {
            true => Transformed::yes(Arc::new(ChooseExpr { case: node }) as Arc<dyn PhysicalExpr>),
            false => Transformed::no(node),
        })
    })
}

/// Whether the branches of a `CASE` cost little. Its first condition is asked of all rows anyway.
fn can_choose(case: &CaseExpr) -> bool {
    let branches = case.when_then_expr();
    // A first condition that gives another value each time must not be asked twice.
    let is_steady = |expr: &Arc<dyn PhysicalExpr>| !expr.exists(|part| Ok(part.is_volatile_node())).unwrap_or(true);
    case.expr().is_none()
        && branches.first().is_some_and(|(when, _)| is_steady(when))
        && branches.iter().skip(1).all(|(when, _)| is_light(when))
        && branches.iter().all(|(_, then)| is_light(then))
        && case.else_expr().is_none_or(is_light)
}

/// Whether an expression costs little more than to read its columns.
fn is_light(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let is_light_itself = if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        call.fun().inner().downcast_ref::<Kernel>().is_some_and(|kernel| is_light_kernel(kernel.operation()))
    } else {
        expr.is::<Column>()
            || expr.is::<Literal>()
            || expr.is::<BinaryExpr>()
            || expr.is::<NotExpr>()
            || expr.is::<IsNullExpr>()
            || expr.is::<IsNotNullExpr>()
            || expr.is::<ChooseExpr>()
    };
    is_light_itself && expr.children().into_iter().all(is_light)
}

fn is_light_kernel(operation: &Operation) -> bool {
    match operation {
        // A division would fail in rows that the condition keeps from it.
        Operation::Binary { operator, left, right, .. } => {
            let is_sum = matches!(operator, BinaryOperator::Add | BinaryOperator::Subtract | BinaryOperator::Multiply);
            is_sum && left.is_numeric() && right.is_numeric()
        }
        Operation::Cast { from, to, attempt: false, .. } => from.is_numeric() && to.is_numeric(),
        Operation::Negate(_) | Operation::BitNot(_) | Operation::Nullable(_) | Operation::Junction { .. } => true,
        _ => false,
    }
}

/// A `CASE` that computes all branches for all rows.
#[derive(Debug)]
pub struct ChooseExpr {
    /// The [`CaseExpr`].
    case: Arc<dyn PhysicalExpr>,
}

impl ChooseExpr {
    /// DataFusion's expression.
    pub fn case(&self) -> &Arc<dyn PhysicalExpr> {
        &self.case
    }

    fn choose(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        let case: &CaseExpr =
            self.case.downcast_ref().ok_or_else(|| internal_datafusion_err!("a choice without a CASE"))?;
        let rows = batch.num_rows();
        let mut result = match case.else_expr() {
            Some(otherwise) => otherwise.evaluate(batch)?,
            None => ColumnarValue::Scalar(datafusion::common::ScalarValue::try_new_null(
                &case.data_type(batch.schema_ref())?,
            )?),
        };
        // The last branch first, so that earlier ones take their rows from it.
        for (when, then) in case.when_then_expr().iter().rev() {
            let condition = when.evaluate(batch)?.into_array(rows)?;
            let condition = condition.as_boolean_opt().ok_or_else(|| internal_datafusion_err!("no condition"))?;
            result = ColumnarValue::Array(select(condition, &then.evaluate(batch)?, &result)?);
        }
        result.into_array(rows)
    }
}

impl PartialEq for ChooseExpr {
    fn eq(&self, other: &ChooseExpr) -> bool {
        self.case.eq(&other.case)
    }
}

impl Eq for ChooseExpr {}

impl Hash for ChooseExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.case.hash(state);
    }
}

impl fmt::Display for ChooseExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.case.fmt(f)
    }
}

impl PhysicalExpr for ChooseExpr {
    fn data_type(&self, input: &Schema) -> Result<DataType> {
        self.case.data_type(input)
    }

    fn nullable(&self, input: &Schema) -> Result<bool> {
        self.case.nullable(input)
    }

    fn return_field(&self, input: &Schema) -> Result<FieldRef> {
        self.case.return_field(input)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        match self.choose(batch) {
            Ok(array) => Ok(ColumnarValue::Array(array)),
            Err(_) => self.case.evaluate(batch),
        }
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.case.children()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(ChooseExpr { case: Arc::clone(&self.case).with_new_children(children)? }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.case.fmt_sql(f)
    }
}

/// The values of `then` where the condition is true, and of `otherwise` in the other rows.
fn select(condition: &BooleanArray, then: &ColumnarValue, otherwise: &ColumnarValue) -> Result<ArrayRef> {
    let is_true = match condition.nulls() {
        Some(nulls) => condition.values() & nulls.inner(),
        None => condition.values().clone(),
    };
    let typed: Option<ArrayRef> = match then.data_type() {
        DataType::UInt8 => of_numbers::<UInt8Type>(&is_true, then, otherwise),
        DataType::Int16 => of_numbers::<Int16Type>(&is_true, then, otherwise),
        DataType::Int32 => of_numbers::<Int32Type>(&is_true, then, otherwise),
        DataType::Int64 => of_numbers::<Int64Type>(&is_true, then, otherwise),
        DataType::Date32 => of_numbers::<Date32Type>(&is_true, then, otherwise),
        DataType::Float32 => of_numbers::<Float32Type>(&is_true, then, otherwise),
        DataType::Float64 => of_numbers::<Float64Type>(&is_true, then, otherwise),
        DataType::Decimal128(..) => of_numbers::<Decimal128Type>(&is_true, then, otherwise),
        _ => None,
    };
    if let Some(array) = typed {
        return Ok(array);
    }
    let condition = BooleanArray::new(is_true, None);
    let datum = |value: &ColumnarValue| -> Result<Box<dyn Datum>> {
        Ok(match value {
            ColumnarValue::Array(array) => Box::new(Arc::clone(array)),
            ColumnarValue::Scalar(scalar) => Box::new(Scalar::new(scalar.to_array()?)),
        })
    };
    Ok(arrow::compute::kernels::zip::zip(&condition, datum(then)?.as_ref(), datum(otherwise)?.as_ref())?)
}

/// One side of a choice: a value for each row, or one for all.
enum Side<N> {
    Rows(ArrayRef),
    One(Option<N>),
}

impl<N: ArrowNativeType> Side<N> {
    fn of<T: ArrowPrimitiveType<Native = N>>(value: &ColumnarValue) -> Option<Side<N>> {
        Some(match value {
            ColumnarValue::Array(array) => Side::Rows(Arc::clone(array)),
            ColumnarValue::Scalar(scalar) => {
                let array = scalar.to_array().ok()?;
                let array = array.as_primitive_opt::<T>()?;
                Side::One(array.is_valid(0).then(|| array.value(0)))
            }
        })
    }

    /// Which rows have a value, by a bit for each; `None` if all have one.
    fn valid(&self, rows: usize) -> Option<BooleanBuffer> {
        match self {
            Side::Rows(array) => array.nulls().map(|nulls| nulls.inner().clone()),
            Side::One(None) => Some(BooleanBuffer::new_unset(rows)),
            Side::One(Some(_)) => None,
        }
    }
}

fn of_numbers<T: ArrowPrimitiveType>(
    is_true: &BooleanBuffer,
    then: &ColumnarValue,
    otherwise: &ColumnarValue,
) -> Option<ArrayRef> {
    let rows = is_true.len();
    let data_type = then.data_type();
    let (then, otherwise) = (Side::of::<T>(then)?, Side::of::<T>(otherwise)?);
    let values = match (&then, &otherwise) {
        (Side::Rows(a), Side::Rows(b)) => {
            let (a, b) = (a.as_primitive_opt::<T>()?.values(), b.as_primitive_opt::<T>()?.values());
            chosen_of(is_true, |row| a[row], |row| b[row])
        }
        (Side::Rows(a), Side::One(b)) => {
            let (a, b) = (a.as_primitive_opt::<T>()?.values(), b.unwrap_or_default());
            chosen_of(is_true, |row| a[row], |_| b)
        }
        (Side::One(a), Side::Rows(b)) => {
            let (a, b) = (a.unwrap_or_default(), b.as_primitive_opt::<T>()?.values());
            chosen_of(is_true, |_| a, |row| b[row])
        }
        (Side::One(a), Side::One(b)) => {
            let (a, b) = (a.unwrap_or_default(), b.unwrap_or_default());
            chosen_of(is_true, |_| a, |_| b)
        }
    };
    let nulls = match (then.valid(rows), otherwise.valid(rows)) {
        (None, None) => None,
        (a, b) => {
            let all = || BooleanBuffer::new_set(rows);
            let (a, b) = (a.unwrap_or_else(all), b.unwrap_or_else(all));
            Some(NullBuffer::new(&(is_true & &a) | &(&!is_true & &b)))
        }
    };
    let array = PrimitiveArray::<T>::new(values.into(), nulls.filter(|nulls| nulls.null_count() > 0));
    Some(Arc::new(array.with_data_type(data_type)))
}

/// One of two values for each bit, without a branch.
#[inline(always)]
fn chosen_of<N: Copy>(bits: &BooleanBuffer, a: impl Fn(usize) -> N, b: impl Fn(usize) -> N) -> Vec<N> {
    let rows = bits.len();
    let mut values = Vec::with_capacity(rows);
    let chunks = bits.bit_chunks();
    let words = chunks.iter().chain([chunks.remainder_bits()]);
    for (start, word) in (0..rows).step_by(64).zip(words) {
        let of_row = |row: usize| if word >> (row - start) & 1 == 1 { a(row) } else { b(row) };
        values.extend((start..rows.min(start + 64)).map(of_row));
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Array, StringViewArray};
    use arrow::datatypes::Field;
    use datafusion::common::ScalarValue;
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{case, lit};
    use hobt_base::SplitMix64;

    fn column(at: usize) -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new(&at.to_string(), at))
    }

    fn batch(random: &mut SplitMix64, rows: usize) -> RecordBatch {
        let mut number = |limit: u64| {
            let values = (0..rows).map(|_| (random.below(5) > 0).then(|| random.below(limit) as i32));
            Arc::new(values.collect::<Int32Array>()) as ArrayRef
        };
        let (a, b) = (number(10), number(1000));
        let texts: StringViewArray = b.as_primitive::<Int32Type>().iter().map(|v| v.map(|v| v.to_string())).collect();
        let fields = [("0", &DataType::Int32), ("1", &DataType::Int32), ("2", &DataType::Utf8View)];
        let fields = fields.map(|(name, data_type)| Field::new(name, data_type.clone(), true));
        RecordBatch::try_new(Arc::new(Schema::new(fields.to_vec())), vec![a, b, Arc::new(texts)]).unwrap()
    }

    #[test]
    fn a_choice_gives_what_case_gives() {
        let mut random = SplitMix64::new(4);
        let below = |at: usize, limit: i32| {
            Arc::new(BinaryExpr::new(column(at), Operator::Lt, lit(limit))) as Arc<dyn PhysicalExpr>
        };
        let null = || lit(ScalarValue::Int32(None));
        let cases = [
            (vec![(below(0, 5), column(1))], Some(lit(0))),
            (vec![(below(0, 5), lit(7))], Some(column(1))),
            (vec![(below(0, 3), column(1)), (below(1, 500), column(0)), (below(0, 8), lit(-1))], None),
            (vec![(below(0, 5), lit(1)), (below(0, 7), null())], Some(lit(2))),
            (vec![(below(0, 5), null())], Some(column(0))),
            (vec![(below(0, 5), column(2))], Some(lit(ScalarValue::Utf8View(Some("a long text, in a buffer".into()))))),
        ];
        for (branches, otherwise) in cases {
            let whole = case(None, branches, otherwise).unwrap();
            let choice = chosen(&whole).unwrap();
            assert!(choice.transformed);
            for rows in [0, 1, 63, 64, 65, 300] {
                let batch = batch(&mut random, rows);
                let expected = whole.evaluate(&batch).unwrap().into_array(rows).unwrap();
                let choice: &ChooseExpr = choice.data.downcast_ref().unwrap();
                assert_eq!(&choice.choose(&batch).unwrap(), &expected);
            }
        }
    }
}
