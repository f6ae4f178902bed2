//! What estimates take a variable to be: its value, another one, or none that anybody knows.
//!
//! A plan is made with the values that variables have. Where SQL Server's estimates do not know them (a variable of the
//! batch, `OPTIMIZE FOR`), the literal says so in its metadata, which the optimiser passes on to the table that has the
//! condition. What is computed of such literals alone is computed before the optimiser does it and forgets them.
//!
//! ```text
//!   WHERE k = @v + 1       @v is 3, unknown      =>   k = 4 (unknown)
//!                          @v is 3, for 10       =>   k = 4 (for 11)
//! ```

use std::sync::Arc;

use arrow::datatypes::Schema;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use arrow::row::{RowConverter, SortField};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{ColumnarValue, Expr, LogicalPlan};
use datafusion::physical_expr::create_physical_expr;

use super::marks::without_harmful;

/// The name of the entry of a literal's metadata.
const KEY: &str = "hobt_assumed";
/// Its text where nobody knows the value; else the value's bytes in hexadecimal digits.
const UNKNOWN: &str = "unknown";

/// What estimates take a literal to be where that is not its value.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Mark {
    /// Any value.
    Unknown,
    /// Another one of its type.
    Value(ScalarValue),
}

/// A literal that estimates take to be `assumed`, or anything.
pub(crate) fn marked(value: ScalarValue, assumed: Option<&ScalarValue>) -> Expr {
    let text = assumed.and_then(written).unwrap_or_else(|| UNKNOWN.to_owned());
    let metadata = FieldMetadata::from(std::collections::BTreeMap::from([(KEY.to_owned(), text)]));
    Expr::Literal(value, Some(metadata))
}

/// What estimates take a literal to be; `None` for one that is what it is.
pub(crate) fn mark_of(expr: &Expr) -> Option<Mark> {
    let Expr::Literal(value, Some(metadata)) = expr else { return None };
    let text = metadata.inner().get(KEY)?;
    Some(read(value, text).map_or(Mark::Unknown, Mark::Value))
}

/// How the first marked literal of an expression is marked.
pub(super) fn mark_text(expr: &Expr) -> Option<String> {
    let mut found = None;
    let _never_fails = expr.apply(|part| {
        if let Expr::Literal(_, Some(metadata)) = part {
            found = metadata.inner().get(KEY).cloned();
        }
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}

/// A literal without its mark; anything else as it is.
pub(super) fn unmarked(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::Literal(value, Some(metadata)) if metadata.inner().contains_key(KEY) => {
            Transformed::yes(Expr::Literal(value, None))
        }
        other => Transformed::no(other),
    }
}

/// Whether an expression has a literal that is not what estimates take it to be.
pub(crate) fn is_marked(expr: &Expr) -> bool {
    expr.exists(|part| Ok(mark_of(part).is_some())).unwrap_or(false)
}

fn converter(value: &ScalarValue) -> Option<RowConverter> {
    RowConverter::new(vec![SortField::new(value.data_type())]).ok()
}

fn written(value: &ScalarValue) -> Option<String> {
    let rows = converter(value)?.convert_columns(&[value.to_array().ok()?]).ok()?;
    Some(rows.row(0).as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The value that [`written`] wrote, of the type of `like`.
fn read(like: &ScalarValue, text: &str) -> Option<ScalarValue> {
    let digits = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(digits).collect();
    let converter = converter(like)?;
    let parser = converter.parser();
    let bytes = bytes?;
    let columns = converter.convert_rows([parser.parse(&bytes)]).ok()?;
    ScalarValue::try_from_array(columns.first()?, 0).ok()
}

/// A plan with what its conditions compute of marked literals alone computed, and without marks where these would
/// change answers; `None` where there is no mark.
///
/// # Errors
/// A plan that refuses its conditions.
pub(crate) fn fold_assumed(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let mut is_any = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            is_any |= is_marked(expr);
            Ok(if is_any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    if !is_any {
        return Ok(None);
    }
    let made = plan.clone().transform_down_with_subqueries(|node| {
        if !matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Join(_)) {
            return Ok(Transformed::no(node));
        }
        node.map_expressions(|condition| match is_marked(&condition) {
            true => condition.transform_down(|part| Ok(folded(part))),
            false => Ok(Transformed::no(condition)),
        })
    })?;
    without_harmful(made.data).map(Some)
}

/// A constant in the place of what is computed of constants one of which is marked.
fn folded(expr: Expr) -> Transformed<Expr> {
    if matches!(expr, Expr::Literal(..)) || is_condition(&expr) || !is_constant(&expr) || !is_marked(&expr) {
        return Transformed::no(expr);
    }
    let Some(value) = evaluated(&expr) else { return Transformed::no(expr) };
    Transformed::new(marked(value, assumed_value(&expr).as_ref()), true, TreeNodeRecursion::Jump)
}

/// Whether it is true or false, and no value that something is compared with.
fn is_condition(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Not(_) | Expr::IsNull(_) | Expr::IsNotNull(_) | Expr::InList(_) | Expr::Between(_) | Expr::Like(_)
    ) || matches!(expr, Expr::BinaryExpr(binary) if binary.op.is_logic_operator() || binary.op.negate().is_some())
}

/// Whether a value is made of other rows than the one that is looked at.
pub(super) fn is_of_others(part: &Expr) -> bool {
    matches!(
        part,
        Expr::OuterReferenceColumn(..)
            | Expr::ScalarSubquery(_)
            | Expr::Exists(_)
            | Expr::InSubquery(_)
            | Expr::SetComparison(_)
            | Expr::AggregateFunction(_)
            | Expr::WindowFunction(_)
    )
}

fn is_constant(expr: &Expr) -> bool {
    let is_open = |part: &Expr| matches!(part, Expr::Column(_)) || is_of_others(part);
    !expr.is_volatile() && !expr.exists(|part| Ok(is_open(part))).unwrap_or(true)
}

/// What an expression over constants is if each is what estimates take it to be; `None` where they know nothing of one.
fn assumed_value(expr: &Expr) -> Option<ScalarValue> {
    evaluated(&estimated_constants(expr)?)
}

/// An expression with each constant as estimates take it to be; `None` where they know nothing of one.
pub(super) fn estimated_constants(expr: &Expr) -> Option<Expr> {
    let mut is_known = true;
    let replaced = expr.clone().transform_up(|part| {
        Ok(match mark_of(&part) {
            Some(Mark::Value(value)) => Transformed::yes(Expr::Literal(value, None)),
            Some(Mark::Unknown) => {
                is_known = false;
                Transformed::no(part)
            }
            None => Transformed::no(part),
        })
    });
    replaced.ok().map(|replaced| replaced.data).filter(|_| is_known)
}

/// The value of an expression over constants; `None` where it has none, for then the error belongs to the run.
pub(crate) fn evaluated(expr: &Expr) -> Option<ScalarValue> {
    let (empty, properties) = (DFSchema::empty(), ExecutionProps::new());
    let physical = create_physical_expr(expr, &empty, &properties, &PhysicalPlanningContext::default()).ok()?;
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).ok()?;
    match physical.evaluate(&row).ok()? {
        ColumnarValue::Scalar(value) => Some(value),
        ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_keeps_the_value_whatever_its_type() {
        for value in [
            ScalarValue::Int32(Some(-7)),
            ScalarValue::Int64(None),
            ScalarValue::Decimal128(Some(1234), 10, 2),
            ScalarValue::BinaryView(Some(vec![0, 255, 3])),
            ScalarValue::Utf8View(Some("a'b".to_owned())),
            ScalarValue::Float64(Some(0.5)),
        ] {
            let like = ScalarValue::try_new_null(&value.data_type()).expect("a null of it");
            assert_eq!(mark_of(&marked(like.clone(), Some(&value))), Some(Mark::Value(value)));
            assert_eq!(mark_of(&marked(like.clone(), None)), Some(Mark::Unknown));
            assert_eq!(mark_of(&Expr::Literal(like, None)), None);
        }
    }

    #[test]
    fn what_is_computed_of_a_marked_constant_is_marked() {
        let number = |value: i64| ScalarValue::Int64(Some(value));
        let sum = marked(number(3), Some(&number(10))) + Expr::Literal(number(1), None);
        assert_eq!(folded(sum).data, marked(number(4), Some(&number(11))));
        let unknown = marked(number(3), None) + marked(number(1), Some(&number(2)));
        assert_eq!(folded(unknown).data, marked(number(4), None));
    }
}
