//! The share of rows that a condition of any form leaves, estimated from what is known of the rows.
//!
//! What histograms say ([`Knowledge::share_of`]) comes first. Otherwise the condition is estimated from its parts. SQL
//! Server's guesses come last.

use arrow::datatypes::DataType;
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};
use hobt_functions::like::{Pattern, PatternRest, escape_character};
use hobt_types::Collation;

use super::assumed::{Mark, mark_of};
use super::relation::ColumnRows;
use super::together;
use hobt_udf::{Kernel, Operation};

/// The share that a condition leaves if nothing is known of it.
pub(crate) const UNKNOWN_CONDITION: f64 = 0.3;
/// The share that a `LIKE` leaves if no histogram helps: SQL Server's guess.
const LIKE_CONDITION: f64 = 0.1;
/// The share that a `BETWEEN` leaves if nothing is known of it: SQL Server's guess.
const BETWEEN_CONDITION: f64 = 0.09;

/// The only column in an expression; `None` if it has none or several.
pub(super) fn only_column(expr: &Expr) -> Option<&Column> {
    let mut columns = expr.column_refs().into_iter();
    columns.next().filter(|_| columns.next().is_none())
}

/// What is known of some rows.
pub trait Knowledge {
    /// What is known of the values of an expression over the rows.
    fn expression(&self, expr: &Expr) -> ColumnRows;

    /// The share of the rows for which a condition is true, if histograms give it as values and ranges.
    fn share_of(&self, condition: &Expr) -> Option<f64>;

    /// As [`Self::share_of`], for a condition over one column, by evaluating it on values of the column.
    fn share_tried(&self, condition: &Expr) -> Option<f64>;

    /// The share of the rows whose text begins with `beginning`, or with `is_all` is equal to it, under a collation.
    /// `None` if nothing is known of the text.
    fn share_of_text(&self, text: &Expr, beginning: &str, is_all: bool, collation: Collation) -> Option<f64>;
}

/// The share of rows for which a condition is true, according to `known`.
pub(crate) fn share_by(condition: &Expr, known: &dyn Knowledge) -> f64 {
    let tried = || if has_parts(condition) { None } else { known.share_tried(condition) };
    let share = known.share_of(condition).or_else(tried).unwrap_or_else(|| share_of_parts(condition, known));
    share.clamp(0.0, 1.0)
}

/// The shares of rows for which each of several conditions, joined by AND, is true. Conditions that compare the same
/// expression are combined into one share: exclusions by `<>`, and the two ends of a range.
pub(crate) fn shares_by<'e>(conditions: &[&'e Expr], known: &dyn Knowledge) -> Vec<f64> {
    let mut shares = Vec::with_capacity(conditions.len());
    let mut compared: Vec<(&'e Expr, Compared)> = Vec::new();
    for condition in conditions {
        let share = share_by(condition, known);
        let candidates = compared_exprs(condition);
        let same = |expr: &Expr| compared.iter().position(|(other, _)| *other == expr);
        let known_one = candidates.iter().find_map(|(expr, op)| Some((same(expr)?, *op)));
        let (at, op) = match (known_one, candidates.first()) {
            (Some(found), _) => found,
            (None, Some((expr, op))) => {
                compared.push((expr, Compared { above: None, below: None, left_out: 0.0 }));
                (compared.len() - 1, *op)
            }
            (None, None) => {
                shares.push(share);
                continue;
            }
        };
        let (expr, one) = &mut compared[at];
        let least = |known: Option<f64>| Some(known.map_or(share, |known| known.min(share)));
        match op {
            Operator::NotEq => one.left_out += (known.expression(expr).not_null() - share).max(0.0),
            Operator::Gt | Operator::GtEq => one.above = least(one.above),
            _ => one.below = least(one.below),
        }
    }
    let together = |(expr, Compared { above, below, left_out }): (&Expr, Compared)| {
        let not_null = known.expression(expr).not_null();
        let inside = match (above, below) {
            // What is above the one and below the other. Two guesses say nothing about their combination.
            (Some(above), Some(below)) if above != below || above != UNKNOWN_CONDITION => above + below - not_null,
            (Some(above), Some(below)) => above * below.sqrt(),
            (one, other) => one.or(other).unwrap_or(not_null).min(not_null),
        };
        (inside - left_out).max(0.0)
    };
    shares.extend(compared.into_iter().map(together));
    shares
}

/// The combined comparisons of one expression.
struct Compared {
    /// The smallest share above a lower end.
    above: Option<f64>,
    below: Option<f64>,
    /// The share of the values that are excluded.
    left_out: f64,
}

/// The expressions that a condition compares: by `<>` with a constant, or for a range with anything. Both sides of the
/// comparison count.
fn compared_exprs(condition: &Expr) -> Vec<(&Expr, Operator)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return Vec::new() };
    let is_constant = |expr: &Expr| matches!(expr, Expr::Literal(..));
    let is_range = matches!(op, Operator::Gt | Operator::GtEq | Operator::Lt | Operator::LtEq);
    let is_other = *op == Operator::NotEq && (is_constant(left) || is_constant(right));
    if !is_range && !is_other {
        return Vec::new();
    }
    let sides = [(&**left, Some(*op)), (&**right, op.swap())];
    sides.into_iter().filter(|(expr, _)| !is_constant(expr)).filter_map(|(expr, op)| Some((expr, op?))).collect()
}

/// Whether the parts or the negation of a condition give a better estimate than evaluating it on values.
fn has_parts(condition: &Expr) -> bool {
    match condition {
        Expr::BinaryExpr(binary) => matches!(binary.op, Operator::And | Operator::NotEq),
        Expr::ScalarFunction(call) => matches!(
            call.func.inner().downcast_ref::<Kernel>().map(Kernel::operation),
            Some(Operation::Junction { all: true } | Operation::Like(_))
        ),
        Expr::InList(list) => list.negated,
        Expr::Column(_) | Expr::Not(_) | Expr::Literal(..) => true,
        _ => false,
    }
}

fn share_of_parts(condition: &Expr, known: &dyn Knowledge) -> f64 {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::And => together(shares_by(&split_conjunction(condition), known)),
            Operator::Or => either([share_by(left, known), share_by(right, known)].into_iter()),
            _ => share_of_comparison(left, *op, right, known),
        },
        Expr::ScalarFunction(call) => match call.func.inner().downcast_ref::<Kernel>().map(Kernel::operation) {
            Some(Operation::Junction { all: true }) => {
                together(shares_by(&call.args.iter().collect::<Vec<_>>(), known))
            }
            Some(Operation::Junction { all: false }) => either(call.args.iter().map(|part| share_by(part, known))),
            Some(Operation::Like(collation)) => share_by_like(condition, &call.args, *collation, known),
            _ => UNKNOWN_CONDITION,
        },
        Expr::Not(inner) => share_not(inner, known),
        Expr::IsTrue(inner) => share_by(inner, known),
        Expr::IsNotTrue(inner) => 1.0 - share_by(inner, known),
        Expr::IsFalse(inner) => share_not(inner, known),
        Expr::IsNotFalse(inner) => 1.0 - share_not(inner, known),
        Expr::IsUnknown(inner) => nulls_of(inner, known),
        Expr::IsNotUnknown(inner) => 1.0 - nulls_of(inner, known),
        Expr::Literal(ScalarValue::Boolean(Some(is_true)), _) => f64::from(u8::from(*is_true)),
        Expr::Literal(value, _) if value.is_null() => 0.0,
        Expr::IsNull(inner) => known.expression(inner).null_share,
        Expr::IsNotNull(inner) => 1.0 - known.expression(inner).null_share,
        Expr::InList(list) if list.negated => {
            share_not(&Expr::InList(InList { negated: false, ..list.clone() }), known)
        }
        Expr::InList(list) => {
            let operand = known.expression(&list.expr);
            (list.list.len() as f64 / operand.distinct.max(1.0)).min(1.0) * (1.0 - operand.null_share)
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let bound = |op, end: &Expr| share_by(&binary(expr, op, end), known);
            let (above, below) = (bound(Operator::GtEq, low), bound(Operator::LtEq, high));
            let inside = match known.share_of(&binary(expr, Operator::GtEq, low)) {
                Some(_) => above + below - (1.0 - known.expression(expr).null_share),
                None => BETWEEN_CONDITION,
            };
            let inside = inside.max(0.0);
            if *negated { 1.0 - known.expression(expr).null_share - inside } else { inside }
        }
        // Mark columns of joins.
        Expr::Column(_) => 0.5,
        _ => UNKNOWN_CONDITION,
    }
}

fn binary(left: &Expr, op: Operator, right: &Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr { left: Box::new(left.clone()), op, right: Box::new(right.clone()) })
}

/// The share for which at least one of several independent conditions is true.
fn either(shares: impl Iterator<Item = f64>) -> f64 {
    1.0 - shares.map(|share| 1.0 - share).product::<f64>()
}

fn share_of_comparison(left: &Expr, op: Operator, right: &Expr, known: &dyn Knowledge) -> f64 {
    let sides = || (known.expression(left), known.expression(right));
    if let Some(share) = share_of_counts(left, op, right, known) {
        return share;
    }
    match op {
        Operator::Eq => {
            let (left, right) = sides();
            left.not_null() * right.not_null() / left.distinct.max(right.distinct).max(1.0)
        }
        // NULL is equal only to NULL.
        Operator::IsNotDistinctFrom | Operator::IsDistinctFrom => {
            let (left_known, right_known) = sides();
            let both_null = left_known.null_share * right_known.null_share;
            let same = share_by(&binary(left, Operator::Eq, right), known) + both_null;
            if op == Operator::IsDistinctFrom { 1.0 - same } else { same }
        }
        Operator::NotEq => {
            let (left_known, right_known) = sides();
            let same = share_by(&binary(left, Operator::Eq, right), known);
            (left_known.not_null() * right_known.not_null() - same).max(0.0)
        }
        _ => UNKNOWN_CONDITION,
    }
}

/// The share of groups that a comparison of their count with a constant leaves.
fn share_of_counts(left: &Expr, op: Operator, right: &Expr, known: &dyn Knowledge) -> Option<f64> {
    let (counted, op, constant) = match (left, right) {
        (counted, Expr::Literal(value, _)) => (counted, op, value),
        (Expr::Literal(value, _), counted) => (counted, op.swap()?, value),
        _ => return None,
    };
    let sizes = known.expression(counted).counts?;
    match constant.cast_to(&DataType::Float64) {
        Ok(ScalarValue::Float64(Some(number))) => sizes.share(op, number),
        _ => None,
    }
}

/// The share of rows for which a condition is false: neither true nor unknown.
fn share_not(inner: &Expr, known: &dyn Knowledge) -> f64 {
    if let Expr::Not(inner) = inner {
        return share_by(inner, known);
    }
    (1.0 - nulls_of(inner, known) - share_by(inner, known)).max(0.0)
}

/// The share of rows for which a condition is unknown.
fn nulls_of(condition: &Expr, known: &dyn Knowledge) -> f64 {
    match condition {
        Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_) => 0.0,
        other => {
            let not_null = |column: &Column| known.expression(&Expr::Column(column.clone())).not_null();
            1.0 - other.column_refs().into_iter().map(not_null).product::<f64>()
        }
    }
}

/// The share that `text LIKE pattern [ESCAPE character]` leaves. `condition` is the whole condition, with the arguments
/// `args`.
fn share_by_like(condition: &Expr, args: &[Expr], collation: Collation, known: &dyn Knowledge) -> f64 {
    let text_of = |value: &ScalarValue| value.try_as_str().flatten().map(str::to_owned);
    let literal = |expr: &Expr| match (expr, mark_of(expr)) {
        (_, Some(Mark::Unknown)) => None,
        (_, Some(Mark::Value(assumed))) => text_of(&assumed),
        (Expr::Literal(value, _), None) => text_of(value),
        _ => None,
    };
    let [text, pattern, escape @ ..] = args else { return LIKE_CONDITION };
    let Some(pattern) = literal(pattern) else { return LIKE_CONDITION };
    let escape = escape.first().map(|escape| literal(escape).and_then(|escape| escape_character(&escape).ok()));
    // An invalid escape makes the statement fail, so nothing else can be estimated.
    let Some(escape) = escape.map_or(Some(None), |escape| escape.map(Some)) else { return LIKE_CONDITION };
    let (beginning, rest) = Pattern::new(&pattern, escape, collation).prefix();
    let tried = || known.share_tried(condition);
    let begins = |is_all: bool| known.share_of_text(text, &beginning, is_all, collation);
    match rest {
        PatternRest::Nothing => begins(true).unwrap_or_else(|| 1.0 / known.expression(text).distinct.max(1.0)),
        PatternRest::AnyText if beginning.is_empty() => 1.0 - known.expression(text).null_share,
        PatternRest::AnyText => begins(false).or_else(tried).unwrap_or(LIKE_CONDITION),
        PatternRest::More if beginning.is_empty() => tried().unwrap_or(LIKE_CONDITION),
        PatternRest::More => together(begins(false).into_iter().chain([LIKE_CONDITION]).collect()),
    }
}
