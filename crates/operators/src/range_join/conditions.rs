//! Splits a join's condition: the value by which the build side is sorted, the bounds that each row of the probe side
//! sets for its partners, and the residual condition for each pair.
//!
//! ```text
//!   p.x >= b.lo AND p.x <= b.hi AND f(b, p)     sorted by b.lo: those up to p.x; of these b.hi from p.x on; f remains
//!   b.x >= p.lo AND b.x < p.hi                  sorted by b.x: those between p.lo and p.hi
//!   b.x < p.y                                   sorted by b.x: those below p.y
//! ```

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::{JoinSide, Result};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::utils::{collect_columns, conjunction, split_conjunction};
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::joins::utils::JoinFilter;

use super::keys::KeyForm;
use crate::columns::substituted;

type Expr = Arc<dyn PhysicalExpr>;

/// The side of a bound on which values are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// At the bound or above.
    Above,
    /// At the bound or below.
    Below,
}

/// A bound of one side's values, set by each row of the other side.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The bounded value, over the columns of its side.
    pub key: Expr,
    /// On which side of the value the key lies.
    pub way: Way,
    /// The bound, over the columns of the other side.
    pub value: Expr,
    /// Whether values equal to the bound are included.
    pub includes: bool,
}

impl Bound {
    /// How the bounded value is compared with the bound.
    pub fn operator(&self) -> Operator {
        match (self.way, self.includes) {
            (Way::Above, true) => Operator::GtEq,
            (Way::Above, false) => Operator::Gt,
            (Way::Below, true) => Operator::LtEq,
            (Way::Below, false) => Operator::Lt,
        }
    }
}

/// How partners are found.
#[derive(Clone, Debug)]
pub(super) struct Ranges {
    /// The value by which the build side is sorted.
    pub(super) key: Expr,
    /// Its bounds, at least one.
    pub(super) low: Option<Bound>,
    pub(super) high: Option<Bound>,
    /// A bound of another value of the build side.
    pub(super) other: Option<Bound>,
    /// The condition still to be tested for each pair.
    pub(super) residual: Option<JoinFilter>,
}

/// The bounds that a join's condition sets for values of its side `bounded`. Also returns the parts of the condition
/// that set none, over the columns of `filter`.
///
/// # Errors
/// An expression without a type.
pub fn bounds_of(
    filter: &JoinFilter,
    expression: &Expr,
    bounded: JoinSide,
    (left, right): (&SchemaRef, &SchemaRef),
) -> Result<(Vec<Bound>, Vec<Expr>)> {
    let (mut bounds, mut rest) = (Vec::new(), Vec::new());
    for part in split_conjunction(expression) {
        let found = match comparison(filter, part, (left, right)) {
            Some((one, op, other)) => match one.0 {
                side if side == bounded => bounds_by(one.1, op, other.1),
                _ => bounds_by(other.1, swapped(op), one.1),
            },
            None => Vec::new(),
        };
        let (own, their) = if bounded == JoinSide::Left { (left, right) } else { (right, left) };
        let is_of_use = |bound: &Bound| -> Result<bool> {
            let key_type = bound.key.data_type(own)?;
            Ok(key_type == bound.value.data_type(their)? && KeyForm::of(&key_type).is_some())
        };
        match found.first().map(is_of_use).transpose()? {
            Some(true) => bounds.extend(found),
            _ => rest.push(Arc::clone(part)),
        }
    }
    Ok((bounds, rest))
}

/// `key op value` as bounds of `key`.
fn bounds_by(key: Expr, op: Operator, value: Expr) -> Vec<Bound> {
    let bound = |way, includes| Bound { key: Arc::clone(&key), way, value: Arc::clone(&value), includes };
    match op {
        Operator::Gt => vec![bound(Way::Above, false)],
        Operator::GtEq => vec![bound(Way::Above, true)],
        Operator::Lt => vec![bound(Way::Below, false)],
        Operator::LtEq => vec![bound(Way::Below, true)],
        Operator::Eq => vec![bound(Way::Above, true), bound(Way::Below, true)],
        _ => Vec::new(),
    }
}

fn swapped(op: Operator) -> Operator {
    op.swap().unwrap_or(op)
}

/// An expression over one side.
type OfSide = (JoinSide, Expr);

/// A comparison of a value of one side with one of the other.
fn comparison(filter: &JoinFilter, part: &Expr, sides: (&SchemaRef, &SchemaRef)) -> Option<(OfSide, Operator, OfSide)> {
    let compared = part.downcast_ref::<BinaryExpr>()?;
    let (one, other) = (of_side(filter, compared.left(), sides)?, of_side(filter, compared.right(), sides)?);
    let is_known = |expr: &Expr| expr.nullable(filter.schema()).is_ok_and(|nullable| !nullable);
    let op = match compared.op() {
        // Without NULLs, this is an equation.
        Operator::IsNotDistinctFrom if is_known(compared.left()) && is_known(compared.right()) => Operator::Eq,
        op @ (Operator::Gt | Operator::GtEq | Operator::Lt | Operator::LtEq | Operator::Eq) => *op,
        _ => return None,
    };
    (one.0 != other.0).then_some((one, op, other))
}

/// The side that has all columns of an expression over a filter's columns, and the expression over that side's columns.
fn of_side(filter: &JoinFilter, expr: &Expr, (left, right): (&SchemaRef, &SchemaRef)) -> Option<OfSide> {
    let indices = filter.column_indices();
    let side = indices.get(collect_columns(expr).iter().next()?.index())?.side;
    let schema = match side {
        JoinSide::Left => left,
        JoinSide::Right => right,
        JoinSide::None => return None,
    };
    let column = |at: usize| {
        let index = indices.get(at).filter(|index| index.side == side)?.index;
        Some(Arc::new(Column::new(schema.field(index).name(), index)) as Expr)
    };
    Some((side, substituted(expr, &column)?))
}

impl Ranges {
    /// How the partners of a row of the right side are found among the sorted rows of the left one; `None` if the
    /// condition sets no bound.
    ///
    /// # Errors
    /// As [`bounds_of`].
    pub(super) fn of(join: &NestedLoopJoinExec) -> Result<Option<Ranges>> {
        let Some(filter) = join.filter() else { return Ok(None) };
        let schemas = (join.left().schema(), join.right().schema());
        let sides = (&schemas.0, &schemas.1);
        // Each part is kept with its bounds, so that a part whose bounds are used is removed from the residual
        // condition.
        let mut parts: Vec<(Option<Expr>, Vec<Bound>)> = Vec::new();
        for part in split_conjunction(filter.expression()) {
            let (bounds, _) = bounds_of(filter, part, JoinSide::Left, sides)?;
            parts.push((Some(Arc::clone(part)), bounds));
        }
        let Some((key, low, high)) = best_key(&parts) else { return Ok(None) };
        let mut taken = Taken { low, high, other: None };
        for (part, bounds) in &mut parts {
            if !bounds.is_empty() && taken.holds_all_of(bounds, &key) {
                *part = None;
            }
        }
        let left: Vec<Expr> = parts.into_iter().filter_map(|(part, _)| part).collect();
        let residual = (!left.is_empty())
            .then(|| JoinFilter::new(conjunction(left), filter.column_indices().to_vec(), Arc::clone(filter.schema())));
        Ok(Some(Ranges { key, low: taken.low, high: taken.high, other: taken.other, residual }))
    }
}

/// The build side's value with the best bounds, on both sides if possible, and those bounds.
fn best_key(parts: &[(Option<Expr>, Vec<Bound>)]) -> Option<(Expr, Option<Bound>, Option<Bound>)> {
    let all = || parts.iter().flat_map(|(_, bounds)| bounds);
    let of_key = |key: &Expr, way: Way| all().find(|bound| bound.key.eq(key) && bound.way == way).cloned();
    let with_bounds =
        |bound: &Bound| (Arc::clone(&bound.key), of_key(&bound.key, Way::Above), of_key(&bound.key, Way::Below));
    let both = all().map(with_bounds).find(|(_, low, high)| low.is_some() && high.is_some());
    both.or_else(|| all().map(with_bounds).next())
}

/// The bounds that are used.
struct Taken {
    low: Option<Bound>,
    high: Option<Bound>,
    other: Option<Bound>,
}

impl Taken {
    /// Whether all of a part's bounds are used. A single bound of a value other than `key` is adopted if there is none
    /// yet.
    fn holds_all_of(&mut self, bounds: &[Bound], key: &Expr) -> bool {
        let is_same = |known: &Option<Bound>, bound: &Bound| {
            known.as_ref().is_some_and(|known| known.value.eq(&bound.value) && known.includes == bound.includes)
        };
        if bounds.iter().all(|bound| bound.key.eq(key)) {
            return bounds.iter().all(|bound| match bound.way {
                Way::Above => is_same(&self.low, bound),
                Way::Below => is_same(&self.high, bound),
            });
        }
        // With both bounds of the key, few rows are left.
        let is_free = self.other.is_none() && !(self.low.is_some() && self.high.is_some());
        match bounds {
            [bound] if is_free => {
                self.other = Some(bound.clone());
                true
            }
            _ => false,
        }
    }
}
