//! The result of a condition or an expression over one column, found by evaluating it on values in the histogram and on
//! numbers between them.
//!
//! ```text
//!   histogram      1 ────── 100 ────── 200 ──── …      and NULL
//!   tried          1  7  31  64  100  118  153  …      each for its share of the rows
//! ```
//! If an expression rises or falls with its column (`YEAR(d)`, `CAST(t AS date)`, `c / 10 + 1`), its comparison with a
//! constant is a range of the column. The ends of the range are searched for, and the histogram gives the rows between
//! them. No knowledge of particular functions is needed: whether an expression rises is observed.
//!
//! Numbers between two steps are values of the column only if the column is dense. In a sparse column (days as
//! `20240131`, times that are all midnight) they may behave differently from the column's values; then the steps
//! decide.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, Int16Array, Int32Array, Int64Array,
    UInt8Array, new_null_array,
};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use arrow::row::{RowConverter, SortField};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use hobt_base::SplitMix64;
use hobt_catalog::{value_from_bytes, value_to_bytes};
use hobt_engine::{statistics_columns, statistics_type};
use hobt_functions::date::holds_moment;
use hobt_functions::{carrier, value_to_array};
use hobt_types::statistics::{Summary, histogram_key};
use hobt_types::{SqlType, Value};

use super::assumed::{estimated_constants, is_of_others};
use super::group_sizes::GroupSizes;
use super::relation::ColumnRows;
use super::share::Knowledge;
use super::table::{TableKnowledge, is_cut};
use super::wanted::WantedColumn;
use hobt_udf::{Kernel, Operation};

/// About how many numbers between steps are evaluated.
const TRIED: usize = 1024;
/// How many numbers a round of the search for an end evaluates.
const SEARCHED: i128 = 32;
/// The most constants of a list for each of which the ends are searched. A longer list is evaluated as a whole.
const LISTED_MAX: usize = 16;
/// How many values are computed at once. Limits how long the cancellation of a statement is delayed.
const AT_ONCE: usize = 128;
/// The least fraction of the numbers between two steps that must be values for the range to count as dense.
const DENSE: f64 = 0.9;

/// The column's name in the expressions that are evaluated.
const NAME: &str = "c";

/// The share of rows with a value for which a condition is true, and the share of the NULL rows (0 or 1).
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct ShareOfValues {
    pub(super) of_values: f64,
    pub(super) of_null: f64,
}

impl ShareOfValues {
    /// The share of all rows if `null_share` of them are NULL.
    pub(super) fn in_rows(self, null_share: f64) -> f64 {
        (1.0 - null_share) * self.of_values + null_share * self.of_null
    }
}

impl WantedColumn {
    /// The share of the column's rows for which a condition over one column, taken as this one, is true. With `tries`
    /// the condition is evaluated on values, otherwise it is read from the histogram as values and ranges.
    pub(super) fn share(&self, condition: &Expr, tries: bool) -> Option<ShareOfValues> {
        let heap = self.heap();
        let knowledge = TableKnowledge::whole(heap);
        let name = heap.table().columns.get(self.column)?.name.as_str();
        let condition = renamed(condition, name)?;
        match tries {
            true => knowledge.share_by_trying(self.column, &condition),
            false => knowledge.share_by_reading(self.column, &condition),
        }
    }

    /// The number of rows in the groups of the column's values, if `rows` rows are left.
    pub(super) fn group_sizes(&self, rows: f64) -> Option<GroupSizes> {
        let knowledge = TableKnowledge::whole(self.heap());
        let summary = knowledge.summary(self.column).filter(|known| !known.histogram.steps().iter().any(is_cut))?;
        GroupSizes::of_values(&summary.histogram, (rows / knowledge.rows.max(1.0)).min(1.0))
    }

    /// What is known of the values of an expression over one column, taken as this one.
    pub(super) fn tried(&self, expr: &Expr) -> Option<ColumnRows> {
        TableKnowledge::whole(self.heap()).made_by(self.column, expr)
    }
}

/// The expression with its column renamed.
fn renamed(expr: &Expr, name: &str) -> Option<Expr> {
    let done = expr.clone().transform(|part| {
        Ok(match part {
            Expr::Column(_) => Transformed::yes(Expr::Column(Column::from_name(name))),
            other => Transformed::no(other),
        })
    });
    done.ok().map(|done| done.data)
}

/// Whether an expression can be computed at planning time, with the same value whenever it is computed.
fn is_computable(expr: &Expr) -> bool {
    !expr.exists(|part| Ok(is_of_others(part) || is_volatile(part))).unwrap_or(true)
}

fn is_volatile(part: &Expr) -> bool {
    match part {
        // Its value is that of its argument, whatever the optimiser is told about it.
        Expr::ScalarFunction(call) => {
            let operation = call.func.inner().downcast_ref::<Kernel>().map(Kernel::operation);
            !matches!(operation, Some(Operation::Nullable(_))) && part.is_volatile_node()
        }
        other => other.is_volatile_node(),
    }
}

/// An expression over the one column, ready to be evaluated on values.
struct Ready {
    schema: Arc<Schema>,
    physical: Arc<dyn PhysicalExpr>,
}

impl Ready {
    fn of(expr: &Expr, data_type: &DataType) -> Option<Ready> {
        let schema = Schema::new(vec![Field::new(NAME, data_type.clone(), true)]);
        let described = DFSchema::try_from(schema.clone()).ok()?;
        let (properties, planning) = (ExecutionProps::new(), PhysicalPlanningContext::default());
        let physical = create_physical_expr(expr, &described, &properties, &planning).ok()?;
        Some(Ready { schema: Arc::new(schema), physical })
    }

    fn computed(&self, values: ArrayRef) -> Option<ArrayRef> {
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![values]).ok()?;
        self.physical.evaluate(&batch).ok()?.into_array(batch.num_rows()).ok()
    }
}

/// For which values a condition is true, from its results.
fn truths(made: &ArrayRef) -> Option<Vec<bool>> {
    let array: &BooleanArray = made.as_boolean_opt()?;
    Some((0..array.len()).map(|row| !array.is_null(row) && array.value(row)).collect())
}

/// A number that orders like the value: the internal representation of a number, a date or a time.
fn number_of(value: &Value) -> Option<i128> {
    match value {
        Value::Int(number) => Some(i128::from(*number)),
        Value::Decimal(number) => Some(*number),
        _ => None,
    }
}

/// Numbers of [`number_of`] as an array of the type's values.
fn values_of(numbers: &[i128], sql_type: SqlType) -> Option<ArrayRef> {
    fn narrow<T: TryFrom<i128>>(numbers: &[i128]) -> Option<Vec<T>> {
        numbers.iter().map(|number| T::try_from(*number).ok()).collect()
    }
    Some(match carrier(sql_type) {
        DataType::UInt8 => Arc::new(UInt8Array::from(narrow::<u8>(numbers)?)),
        DataType::Int16 => Arc::new(Int16Array::from(narrow::<i16>(numbers)?)),
        DataType::Int32 => Arc::new(Int32Array::from(narrow::<i32>(numbers)?)),
        DataType::Int64 => Arc::new(Int64Array::from(narrow::<i64>(numbers)?)),
        DataType::Date32 => Arc::new(Date32Array::from(narrow::<i32>(numbers)?)),
        DataType::Decimal128(precision, scale) => {
            Arc::new(Decimal128Array::from(numbers.to_vec()).with_precision_and_scale(precision, scale).ok()?)
        }
        _ => return None,
    })
}

fn joined(arrays: Vec<ArrayRef>) -> Option<ArrayRef> {
    let parts: Vec<&dyn Array> = arrays.iter().map(|array| &**array as &dyn Array).collect();
    concat(&parts).ok()
}

/// The values of a column to evaluate, in order, without NULL.
struct Tried<'s> {
    /// Whether this many more values may be computed.
    may_try: &'s dyn Fn(usize) -> bool,
    summary: &'s Summary,
    sql_type: SqlType,
    values: ArrayRef,
    /// The values as numbers; `None` if they have no numbers.
    numbers: Option<Vec<i128>>,
    ranges: Vec<Range>,
}

/// A step, and the values below it, above the previous step.
struct Range {
    /// The indexes of the values inside; empty for the first step.
    inside: std::ops::Range<usize>,
    /// The index of the step itself.
    step: usize,
    range_rows: f64,
    equal_rows: f64,
    is_dense: bool,
}

impl<'s> Tried<'s> {
    /// `None` for a histogram without values, or of a type whose values cannot be restored from it.
    fn of(summary: &'s Summary, sql_type: SqlType, may_try: &'s dyn Fn(usize) -> bool) -> Option<Tried<'s>> {
        let steps: Vec<_> = summary.histogram.steps().iter().filter(|step| step.value.is_some()).collect();
        let kept_as = statistics_type(sql_type);
        let values: Vec<Value> = steps
            .iter()
            .map(|step| value_from_bytes(kept_as, step.value.as_deref()).ok())
            .collect::<Option<Vec<Value>>>()?;
        // A stream may contain values that no table could hold, and on which functions might fail.
        let is_held = |value: &Value| !matches!(value, Value::Int(number) if !holds_moment(sql_type, *number));
        if values.is_empty() || !values.iter().all(is_held) {
            return None;
        }
        let numbers: Option<Vec<i128>> = values.iter().map(number_of).collect();
        let each = (TRIED / values.len()).max(4);
        let mut random = SplitMix64::new(values.len() as u64);
        let (mut all, mut ranges) = (Vec::new(), Vec::with_capacity(steps.len()));
        for (at, step) in steps.iter().enumerate() {
            let before = all.len();
            let mut is_dense = false;
            if let Some(numbers) = numbers.as_ref().filter(|_| at > 0 && step.range_rows > 0.0) {
                let (low, high) = (numbers[at - 1], numbers[at]);
                let width = high.saturating_sub(low).saturating_sub(1).max(0);
                is_dense = step.distinct_range_rows >= DENSE * width as f64;
                all.extend(numbers_between(low, width, each, &mut random));
            }
            let inside = before..all.len();
            all.push(numbers.as_ref().map_or(0, |numbers| numbers[at]));
            let (range_rows, equal_rows) = (step.range_rows, step.equal_rows);
            ranges.push(Range { inside, step: all.len() - 1, range_rows, equal_rows, is_dense });
        }
        let (values, numbers) = match numbers {
            Some(_) => (values_of(&all, sql_type)?, Some(all)),
            None => {
                let arrays = values.iter().map(|value| value_to_array(value, sql_type).ok());
                (joined(arrays.collect::<Option<Vec<ArrayRef>>>()?)?, None)
            }
        };
        Some(Tried { may_try, summary, sql_type, values, numbers, ranges })
    }

    /// The results of an expression on values.
    fn computed(&self, expr: &Expr, values: &ArrayRef) -> Option<ArrayRef> {
        let ready = Ready::of(expr, values.data_type())?;
        let parts = (0..values.len()).step_by(AT_ONCE).map(|from| {
            let part = values.slice(from, AT_ONCE.min(values.len() - from));
            (self.may_try)(part.len()).then(|| ready.computed(part))?
        });
        joined(parts.collect::<Option<Vec<ArrayRef>>>()?)
    }

    /// For which of the values a condition is true.
    fn truths(&self, condition: &Expr, values: &ArrayRef) -> Option<Vec<bool>> {
        truths(&self.computed(condition, values)?)
    }

    /// Whether the values include every value of the column.
    fn is_all(&self) -> bool {
        let is_all = |range: &Range| range.range_rows <= 0.0 || (range.is_dense && self.has_all_inside(range));
        self.ranges.iter().all(is_all)
    }

    fn has_all_inside(&self, range: &Range) -> bool {
        let Some(numbers) = &self.numbers else { return false };
        let Some(before) = range.inside.start.checked_sub(1) else { return false };
        let width = numbers[range.step].saturating_sub(numbers[before]).saturating_sub(1);
        usize::try_from(width) == Ok(range.inside.len())
    }

    /// The number of rows for which a condition is true, from its results on the values.
    fn rows_of(&self, truths: &[bool]) -> f64 {
        let is_true = |at: usize| f64::from(u8::from(truths[at]));
        let (mut rows, mut by_numbers, mut by_steps, mut open) = (0.0, 0.0, 0.0, 0.0);
        for (at, range) in self.ranges.iter().enumerate() {
            rows += range.equal_rows * is_true(range.step);
            if range.range_rows <= 0.0 {
                continue;
            }
            let before = at.checked_sub(1).map_or(range.step, |before| self.ranges[before].step);
            let of_ends = range.range_rows * (is_true(before) + is_true(range.step)) / 2.0;
            let count = range.inside.len() as f64;
            let of_inside = range.range_rows * range.inside.clone().map(is_true).sum::<f64>() / count.max(1.0);
            match (range.is_dense, range.inside.is_empty()) {
                (true, false) => rows += of_inside,
                (_, true) => rows += of_ends,
                (false, false) => {
                    open += range.range_rows;
                    by_numbers += of_inside;
                    by_steps += of_ends;
                }
            }
        }
        let is_alike = |numbers: f64, steps: f64| {
            let count = self.ranges.len() as f64;
            let by_chance = (numbers * (1.0 - numbers)).max(steps * (1.0 - steps)).max(0.0);
            (numbers - steps).abs() <= 4.0 * (by_chance / count).sqrt() + 2.0 / count
        };
        rows + if open > 0.0 && is_alike(by_numbers / open, by_steps / open) { by_numbers } else { by_steps }
    }

    /// The share of all rows for which a condition is true.
    fn share(&self, condition: &Expr) -> Option<ShareOfValues> {
        let of_null = self.truths(condition, &new_null_array(self.values.data_type(), 1))?[0];
        let values = (self.summary.rows - self.summary.histogram.nulls()).max(1.0);
        let rows = match self.as_range(condition) {
            Some(rows) => rows,
            None => {
                let truths = self.truths(condition, &self.values)?;
                let rows = self.rows_of(&truths);
                // A condition that no evaluated value satisfies is rare; some value that was not evaluated may satisfy
                // it.
                let is_unseen = rows <= 0.0 && !self.is_all();
                if is_unseen { self.least_rows().min(values) } else { rows }
            }
        };
        Some(ShareOfValues { of_values: (rows / values).clamp(0.0, 1.0), of_null: f64::from(u8::from(of_null)) })
    }

    /// The rows of one value, or half of the rows that an evaluated value stands for.
    fn least_rows(&self) -> f64 {
        let of_value = self.summary.rows * self.summary.density(1);
        of_value.max(self.summary.rows / (4 * self.values.len().max(1)) as f64)
    }

    /// The rows of a comparison of an expression that rises or falls with the column, as a range.
    fn as_range(&self, condition: &Expr) -> Option<f64> {
        match condition {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let (expr, op, constant) = match (&**left, &**right) {
                    (expr, Expr::Literal(..)) => (expr, *op, right),
                    (Expr::Literal(..), expr) => (expr, op.swap()?, left),
                    _ => return None,
                };
                self.compared(expr, &[(op, constant)])
            }
            Expr::InList(InList { expr, list, negated: false }) if list.len() <= LISTED_MAX => {
                let each: Vec<(Operator, &Expr)> = list.iter().map(|value| (Operator::Eq, value)).collect();
                self.compared(expr, &each)
            }
            _ => None,
        }
    }

    /// The rows for which one of several mutually exclusive comparisons of an expression holds.
    fn compared(&self, expr: &Expr, comparisons: &[(Operator, &Expr)]) -> Option<f64> {
        let numbers = self.numbers.as_ref()?;
        let direction = self.direction(expr)?;
        let (reached, passed) = match direction {
            Direction::Rises => (Operator::GtEq, Operator::Gt),
            Direction::Falls => (Operator::LtEq, Operator::Lt),
        };
        let mut rows = 0.0;
        for (op, constant) in comparisons {
            let end = |op: Operator| {
                let condition = compare(expr, op, constant);
                self.first(numbers, &condition)
            };
            let (first, behind) = (end(reached)?, end(passed)?);
            let (low, high) = match (*op, direction) {
                (Operator::Eq, _) => (first, behind),
                (Operator::GtEq, Direction::Rises) | (Operator::LtEq, Direction::Falls) => (first, End::Beyond),
                (Operator::Gt, Direction::Rises) | (Operator::Lt, Direction::Falls) => (behind, End::Beyond),
                (Operator::Lt, Direction::Rises) | (Operator::Gt, Direction::Falls) => (End::First, first),
                (Operator::LtEq, Direction::Rises) | (Operator::GtEq, Direction::Falls) => (End::First, behind),
                _ => return None,
            };
            rows += self.rows_between(low, high)?;
        }
        Some(rows)
    }

    /// Whether an expression rises or falls with the column, as far as it was evaluated.
    fn direction(&self, expr: &Expr) -> Option<Direction> {
        let made = self.computed(expr, &self.values)?;
        if made.null_count() > 0 {
            return None;
        }
        let converter = RowConverter::new(vec![SortField::new(made.data_type().clone())]).ok()?;
        let rows = converter.convert_columns(&[made]).ok()?;
        let pairs = || (1..rows.num_rows()).map(|at| (rows.row(at - 1), rows.row(at)));
        if pairs().all(|(before, after)| before <= after) {
            return Some(Direction::Rises);
        }
        pairs().all(|(before, after)| before >= after).then_some(Direction::Falls)
    }

    /// The first number for which a condition holds, if the condition holds for all later ones too.
    fn first(&self, numbers: &[i128], condition: &Expr) -> Option<End> {
        let holds = self.truths(condition, &self.values)?;
        let at = holds.partition_point(|holds| !holds);
        match at {
            0 => return Some(End::First),
            at if at == numbers.len() => return Some(End::Beyond),
            _ => {}
        }
        let (mut below, mut first) = (numbers[at - 1], numbers[at]);
        while first.saturating_sub(below) > 1 {
            let stride = (first.saturating_sub(below) / SEARCHED).max(1);
            let between: Vec<i128> = (1..SEARCHED).map(|at| below + at * stride).filter(|at| *at < first).collect();
            let holds = self.truths(condition, &values_of(&between, self.sql_type)?)?;
            let at = holds.partition_point(|holds| !holds);
            below = if at > 0 { between[at - 1] } else { below };
            first = between.get(at).copied().unwrap_or(first);
        }
        Some(End::At(first))
    }

    fn rows_between(&self, low: End, high: End) -> Option<f64> {
        let key = |end: End| match end {
            End::At(number) => self.key(number).map(Some),
            End::First | End::Beyond => Some(None),
        };
        if low == End::Beyond || high == End::First {
            return Some(0.0);
        }
        let (low, high) = (key(low)?, key(high)?);
        let histogram = &self.summary.histogram;
        Some(histogram.rows_between(low.as_deref().map(|key| (key, true)), high.as_deref().map(|key| (key, false))))
    }

    /// The key of a number in the histogram.
    fn key(&self, number: i128) -> Option<Vec<u8>> {
        let value = match self.sql_type {
            SqlType::Decimal { .. } => Value::Decimal(number),
            _ => Value::Int(i64::try_from(number).ok()?),
        };
        let stored = value_to_bytes(self.sql_type, &value).ok()?;
        let column = hobt_types::KeyColumn::new(self.sql_type, hobt_types::Collation::default(), true, false)?;
        let mut key = Vec::new();
        histogram_key(&column, stored.as_deref(), &mut key).ok()?;
        Some(key)
    }

    /// The number of distinct values of an expression, and whether it is NULL for NULL.
    fn made_by(&self, expr: &Expr) -> Option<(f64, bool)> {
        let of_null = self.computed(expr, &new_null_array(self.values.data_type(), 1))?;
        let made = self.computed(expr, &self.values)?;
        let converter = RowConverter::new(vec![SortField::new(made.data_type().clone())]).ok()?;
        let rows = converter.convert_columns(&[made]).ok()?;
        let count = |places: &mut dyn Iterator<Item = usize>| {
            let mut seen = 0_usize;
            let values: HashSet<_> = places.inspect(|_| seen += 1).map(|at| rows.row(at)).collect();
            let different = values.len() as f64;
            (different, seen as f64)
        };
        let (of_steps, steps) = count(&mut self.ranges.iter().map(|range| range.step));
        let (of_all, all) = count(&mut (0..rows.num_rows()));
        let is_sparse = self.ranges.iter().any(|range| !range.inside.is_empty() && !range.is_dense);
        let (different, tried) = match is_sparse && of_steps * 4.0 <= steps {
            true => (of_steps, steps),
            false => (of_all, all),
        };
        let whole = self.summary.distinct(1).max(1.0);
        // If most of the evaluated values have results of their own, so have the others.
        let distinct = if different * 2.0 <= tried || self.is_all() { different } else { different / tried * whole };
        Some((distinct.min(whole.max(different)), of_null.is_null(0)))
    }
}

/// How an expression changes with its column.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Direction {
    Rises,
    Falls,
}

/// An end of a range of numbers.
#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    /// Before all values in the histogram.
    First,
    At(i128),
    /// After all of them.
    Beyond,
}

fn compare(left: &Expr, op: Operator, right: &Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr { left: Box::new(left.clone()), op, right: Box::new(right.clone()) })
}

/// Numbers among the `width` numbers above `low`: all of them, or a random one from each of `count` equal parts.
fn numbers_between(low: i128, width: i128, count: usize, random: &mut SplitMix64) -> Vec<i128> {
    let wanted = count as i128;
    if width <= wanted {
        return (1..=width).map(|at| low + at).collect();
    }
    let part = width / wanted;
    (0..wanted).map(|at| low + 1 + at * part + i128::from(random.next_u64()) % part).collect()
}

impl TableKnowledge<'_> {
    /// Calls `act` with the values of a column and the expression, whose constants are replaced by what estimates
    /// assume. `None` if the expression cannot be computed, or nothing is known of the column.
    fn with_tried<R>(&self, column: usize, expr: &Expr, act: impl FnOnce(&Tried<'_>, &Expr) -> Option<R>) -> Option<R> {
        if !is_computable(expr) {
            return None;
        }
        let expr = renamed(&estimated_constants(expr)?, NAME)?;
        let sql_type = self.table().columns.get(column)?.sql_type;
        let summary = self.summary(column)?;
        let may_try = |values| self.heap().run().may_try(values);
        let tried = Tried::of(&summary, sql_type, &may_try)?;
        debug_assert_eq!(tried.values.data_type(), &carrier(sql_type), "values are in their carriers");
        act(&tried, &expr)
    }

    /// The share of the rows for which a condition over one column is true, by evaluating it.
    pub(super) fn share_by_trying(&self, column: usize, condition: &Expr) -> Option<ShareOfValues> {
        let summary = self.summary(column)?;
        let compute = || self.with_tried(column, condition, |tried, condition| tried.share(condition));
        self.heap().remembered().share((&summary, condition), compute)
    }

    /// As [`Self::share_by_trying`], from the values and ranges of the column's histogram.
    pub(super) fn share_by_reading(&self, column: usize, condition: &Expr) -> Option<ShareOfValues> {
        statistics_columns(self.table(), &[column])?;
        let of_rows = self.share_of(condition)?;
        let summary = self.summary(column)?;
        let nulls = summary.histogram.nulls() / summary.rows;
        let sql_type = self.table().columns.get(column)?.sql_type;
        let null = new_null_array(&carrier(sql_type), 1);
        let made = Ready::of(&renamed(condition, NAME)?, null.data_type())?.computed(null)?;
        let of_null = f64::from(u8::from(truths(&made)?[0]));
        let of_values = if nulls < 1.0 { (of_rows - nulls * of_null) / (1.0 - nulls) } else { 0.0 };
        Some(ShareOfValues { of_values: of_values.clamp(0.0, 1.0), of_null })
    }

    /// What is known of the values of an expression over one column.
    pub(super) fn made_by(&self, column: usize, expr: &Expr) -> Option<ColumnRows> {
        let compute = || {
            let (distinct, keeps_null) = self.with_tried(column, expr, |tried, expr| tried.made_by(expr))?;
            let nulls = self.column(column).null_share;
            Some(ColumnRows::of(distinct.max(1.0), if keeps_null { nulls } else { 0.0 }))
        };
        self.heap().remembered().made((&self.summary(column)?, expr), compute)
    }
}

#[cfg(test)]
mod tests;
