//! Conditions.
//!
//! `NOT` is pushed down to the comparisons. So every subquery stands where it matters only whether its condition is
//! true: a row is kept, or a branch taken, only if the condition is true, and unknown counts as false. So a subquery's
//! condition needs only two values, and `NOT IN` tests for NULL explicitly.

use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use hobt_base::{Position, SqlError};
use hobt_tsql::ast::{Condition, Expression};
use hobt_types::{MaxLength, SqlType};

use super::bound::BoundExpr;
use super::comparison::{compare, engine_operator, key};
use super::convert::{implicit, unify};
use super::extent::check_list;
use super::folding::{self, Operands};
use super::in_order::in_order;
use super::{Binder, Site};
use crate::subquery_expr::has_subquery;
use hobt_udf::{Kernel, Operation};

/// An `AND` or `OR` with more operands than this is evaluated by one kernel, not as a tree.
const WIDE: usize = 64;

/// Operands joined by one operator, in a balanced tree.
pub(super) fn balanced(mut operands: Vec<Expr>, operator: Operator) -> Option<Expr> {
    while operands.len() > 1 {
        let mut next = Vec::with_capacity(operands.len().div_ceil(2));
        let mut pairs = operands.into_iter();
        while let Some(left) = pairs.next() {
            next.push(match pairs.next() {
                Some(right) => Expr::BinaryExpr(BinaryExpr::new(Box::new(left), operator, Box::new(right))),
                None => left,
            });
        }
        operands = next;
    }
    operands.pop()
}

fn negate_if(expr: Expr, negated: bool) -> Expr {
    if negated { folding::negated(expr) } else { expr }
}

/// Operands joined by `AND` or `OR`, however many there are.
///
/// # Errors
/// Error 8631; an internal error if there is no operand.
fn joined(mut operands: Vec<Expr>, operator: Operator, position: Position) -> Result<Expr, SqlError> {
    // DataFusion splits a long chain and rebuilds it as a tree as deep as the chain is long. Operands that it must turn
    // into joins stay visible to it.
    if operands.len() > WIDE {
        let is_seen = |part: &Expr| part.contains_outer() || has_subquery(part);
        let (seen, mut plain): (Vec<Expr>, Vec<Expr>) = operands.into_iter().partition(is_seen);
        let all = operator == Operator::And;
        let kernel = |part: &[Expr]| Kernel::call(Operation::Junction { all }, part.to_vec(), position);
        while plain.len() > WIDE {
            plain = plain.chunks(WIDE).map(kernel).collect();
        }
        check_list(seen.len())?;
        plain.extend(seen);
        operands = plain;
    }
    balanced(operands, operator).ok_or_else(|| SqlError::internal("a condition without operands"))
}

impl Binder<'_> {
    /// Binds a condition of which only "true" counts.
    pub(super) fn condition(&self, condition: &Condition, site: Site<'_>) -> Result<Expr, SqlError> {
        self.truth(condition, false, true, site)
    }

    /// Binds the condition of a branch (`CASE`, `IIF`), of which only "true" counts too. It is not a conjunct of its
    /// clause: no join may drop the rows for which it is not true.
    pub(super) fn branch_condition(&self, condition: &Condition, site: Site<'_>) -> Result<Expr, SqlError> {
        self.truth(condition, false, false, site)
    }

    /// Binds `condition`, or its negation; `top` if it is a conjunct of its clause.
    fn truth(&self, condition: &Condition, negated: bool, top: bool, site: Site<'_>) -> Result<Expr, SqlError> {
        let bound = self.within(|| self.any_truth(condition, negated, top, site))?;
        Ok(folding::known(&bound).map_or(bound, folding::truth))
    }

    fn any_truth(&self, condition: &Condition, negated: bool, top: bool, site: Site<'_>) -> Result<Expr, SqlError> {
        match condition {
            Condition::And { operands } => self.junction(operands, !negated, negated, top, site, condition.position()),
            Condition::Or { operands } => self.junction(operands, negated, negated, top, site, condition.position()),
            Condition::Not { operand, .. } => self.truth(operand, !negated, top, site),
            Condition::Comparison { left, operator, right, span } => {
                let (left, right) = (self.expression(left, site)?, self.expression(right, site)?);
                compare(left, engine_operator(*operator, negated), right, span.position)
            }
            Condition::Between { operand, low, high, negated: not, span } => {
                let operand = self.expression(operand, site)?;
                let (low, high) = (self.expression(low, site)?, self.expression(high, site)?);
                let outside = negated != *not;
                let (above, below, join) = if outside {
                    (Operator::Lt, Operator::Gt, Operator::Or)
                } else {
                    (Operator::GtEq, Operator::LtEq, Operator::And)
                };
                let low = compare(operand.clone(), above, low, span.position)?;
                let high = compare(operand, below, high, span.position)?;
                Ok(match folding::junction(vec![low, high], !outside) {
                    Ok(open) => joined(open, join, span.position)?,
                    Err(value) => folding::truth(value),
                })
            }
            Condition::InList { operand, items, negated: not, span } => {
                self.in_list(operand, items, negated != *not, span.position, site)
            }
            Condition::Like { operand, pattern, escape, negated: not, span } => {
                let like = self.like(operand, pattern, escape.as_deref(), span.position, site)?;
                Ok(negate_if(like, negated != *not))
            }
            Condition::IsNull { operand, negated: not, .. } => {
                let operand = self.expression(operand, site)?;
                let operands = Operands::of([&operand]);
                let operand = Box::new(operand.expr);
                let condition = if negated != *not { Expr::IsNotNull(operand) } else { Expr::IsNull(operand) };
                Ok(folding::test(condition, operands))
            }
            Condition::IsDistinct { left, right, negated: not, span } => {
                let (left, right) = (self.expression(left, site)?, self.expression(right, site)?);
                let operator = if negated != *not { Operator::IsNotDistinctFrom } else { Operator::IsDistinctFrom };
                compare(left, operator, right, span.position)
            }
            Condition::Exists { query, span } => self.exists(query, negated, span.position, site),
            Condition::InQuery { operand, query, negated: not, span } => {
                self.in_query(operand, query, negated != *not, top, span.position, site)
            }
            Condition::Quantified { left, operator, quantifier, query, span } => {
                self.quantified(left, (*operator, *quantifier, negated), query, span.position, site)
            }
        }
    }

    fn junction(
        &self,
        operands: &[Condition],
        conjunction: bool,
        negated: bool,
        top: bool,
        site: Site<'_>,
        position: Position,
    ) -> Result<Expr, SqlError> {
        let operator = if conjunction { Operator::And } else { Operator::Or };
        let operands = operands.iter().map(|operand| self.truth(operand, negated, top && conjunction, site));
        match folding::junction(operands.collect::<Result<Vec<_>, _>>()?, conjunction) {
            Ok(open) => joined(in_order(open, conjunction, site.scope), operator, position),
            Err(value) => Ok(folding::truth(value)),
        }
    }

    /// `x [NOT] IN (y, …)`
    fn in_list(
        &self,
        operand: &Expression,
        items: &[Expression],
        negated: bool,
        position: Position,
        site: Site<'_>,
    ) -> Result<Expr, SqlError> {
        let operand = self.expression(operand, site)?;
        let mut all = vec![operand];
        for item in items {
            all.push(self.expression(item, site)?);
        }
        let has_decimal = all.iter().any(|item| matches!(item.sql_type, SqlType::Decimal { .. }));
        if has_decimal {
            let narrow = |item: BoundExpr| match item.constant {
                super::bound::Constant::Integer => super::convert::narrow_integer(item),
                _ => Ok(item),
            };
            all = all.into_iter().map(narrow).collect::<Result<_, _>>()?;
        }
        let (mut items, _) = unify(all, "equal to").map_err(|error| error.at(position))?;
        let operand = items.remove(0);
        let items = match folding::list(&operand, items, negated) {
            Ok(items) => items,
            Err(value) => return Ok(folding::truth(value)),
        };
        let keys = items.iter().map(key);
        let operand = key(&operand);
        let in_list = |list| Expr::InList(InList::new(Box::new(operand.clone()), list, false));
        let is_known = |item: &Expr| matches!(item, Expr::Literal(value, _) if !value.is_null());
        let (known, others): (Vec<Expr>, Vec<Expr>) = match operand.is_volatile() {
            true => (keys.collect(), Vec::new()),
            false => keys.partition(is_known),
        };
        // The simplifier intersects and subtracts the lists of one operand as sets, which is correct only for
        // constants.
        let list = (!known.is_empty()).then(|| in_list(known));
        let all = list.into_iter().chain(others.into_iter().map(|other| operand.clone().eq(other))).collect();
        let any = joined(all, Operator::Or, position)?;
        Ok(if negated { Expr::Not(Box::new(any)) } else { any })
    }

    /// `x LIKE pattern [ESCAPE c]`
    fn like(
        &self,
        operand: &Expression,
        pattern: &Expression,
        escape: Option<&Expression>,
        position: Position,
        site: Site<'_>,
    ) -> Result<Expr, SqlError> {
        let as_text = |bound: BoundExpr| match bound.sql_type.is_text() {
            true => Ok(bound),
            false => implicit(bound, SqlType::VarChar(MaxLength::Limited(8000))),
        };
        let operand = as_text(self.expression(operand, site)?)?;
        let pattern = as_text(self.expression(pattern, site)?)?;
        let collation = operand.collation.meet(pattern.collation, "like").map_err(|error| error.at(position))?;
        let mut arguments = vec![operand, pattern];
        if let Some(escape) = escape {
            arguments.push(as_text(self.expression(escape, site)?)?);
        }
        let operands = Operands::of(&arguments);
        let arguments = arguments.into_iter().map(|argument| argument.expr).collect();
        let like = Kernel::call(Operation::Like(collation.collation), arguments, position);
        Ok(folding::comparison(like, operands))
    }
}
