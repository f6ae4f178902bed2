//! The value that estimates assume for a variable: its own value, another one, or an unknown one.
//!
//! A plan is made with the values that variables have. Where SQL Server's estimates do not use them (a variable of the
//! batch, `OPTIMIZE FOR`), the literal carries a mark in its metadata. The optimiser passes the metadata on to the
//! table that has the condition. Expressions over such literals alone are folded here, before the optimiser would fold
//! them and lose the marks.
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

/// The key of the entry in a literal's metadata.
const KEY: &str = "hobt_assumed";
/// The entry's text if the value is unknown; otherwise it is the value's bytes in hexadecimal digits.
const UNKNOWN: &str = "unknown";

/// What estimates assume for a literal instead of its value.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Mark {
    /// Any value.
    Unknown,
    /// Another value of its type.
    Value(ScalarValue),
}

/// A literal that estimates take for `assumed`, or for any value if that is `None`.
pub fn marked(value: ScalarValue, assumed: Option<&ScalarValue>) -> Expr {
    let text = assumed.and_then(written).unwrap_or_else(|| UNKNOWN.to_owned());
    let metadata = FieldMetadata::from(std::collections::BTreeMap::from([(KEY.to_owned(), text)]));
    Expr::Literal(value, Some(metadata))
}

/// What estimates assume for a literal; `None` if it is taken for its own value.
pub(crate) fn mark_of(expr: &Expr) -> Option<Mark> {
    let Expr::Literal(value, Some(metadata)) = expr else { return None };
    let text = metadata.inner().get(KEY)?;
    Some(read(value, text).map_or(Mark::Unknown, Mark::Value))
}

/// The mark text of the first marked literal in an expression.
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

/// A literal without its mark; any other expression unchanged.
pub(super) fn unmarked(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::Literal(value, Some(metadata)) if metadata.inner().contains_key(KEY) => {
            Transformed::yes(Expr::Literal(value, None))
        }
        other => Transformed::no(other),
    }
}

/// Whether an expression has a marked literal.
pub fn is_marked(expr: &Expr) -> bool {
    expr.exists(|part| Ok(mark_of(part).is_some())).unwrap_or(false)
}

fn converter(value: &ScalarValue) -> Option<RowConverter> {
    RowConverter::new(vec![SortField::new(value.data_type())]).ok()
}

fn written(value: &ScalarValue) -> Option<String> {
    let rows = converter(value)?.convert_columns(&[value.to_array().ok()?]).ok()?;
    Some(rows.row(0).as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Reads a value written by [`written`]; it has the type of `like`.
fn read(like: &ScalarValue, text: &str) -> Option<ScalarValue> {
    let digits = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(digits).collect();
    let converter = converter(like)?;
    let parser = converter.parser();
    let bytes = bytes?;
    let columns = converter.convert_rows([parser.parse(&bytes)]).ok()?;
    ScalarValue::try_from_array(columns.first()?, 0).ok()
}

/// A plan in which the conditions' expressions over marked literals alone are folded, and without any marks if these
/// would change results. `None` if the plan has no marks.
///
/// # Errors
/// If the plan rejects its changed conditions.
pub fn fold_assumed(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
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

/// Folds an expression over constants of which at least one is marked.
fn folded(expr: Expr) -> Transformed<Expr> {
    if matches!(expr, Expr::Literal(..)) || is_condition(&expr) || !is_constant(&expr) || !is_marked(&expr) {
        return Transformed::no(expr);
    }
    let Some(value) = evaluated(&expr) else { return Transformed::no(expr) };
    Transformed::new(marked(value, assumed_value(&expr).as_ref()), true, TreeNodeRecursion::Jump)
}

/// Whether an expression is a truth value, rather than a value to compare.
fn is_condition(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Not(_) | Expr::IsNull(_) | Expr::IsNotNull(_) | Expr::InList(_) | Expr::Between(_) | Expr::Like(_)
    ) || matches!(expr, Expr::BinaryExpr(binary) if binary.op.is_logic_operator() || binary.op.negate().is_some())
}

/// Whether a value depends on other rows than the current one.
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

/// The value of an expression over constants if each constant is what estimates assume; `None` if one is unknown.
fn assumed_value(expr: &Expr) -> Option<ScalarValue> {
    evaluated(&estimated_constants(expr)?)
}

/// An expression with each constant replaced by what estimates assume; `None` if one is unknown.
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

/// The value of an expression over constants; `None` if it fails, in which case the error is raised at run time.
pub fn evaluated(expr: &Expr) -> Option<ScalarValue> {
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
