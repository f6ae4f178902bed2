//! `CASE` and its short forms: `IIF`, `COALESCE`, `NULLIF`, `ISNULL`, `CHOOSE`.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{Expr, Operator};
use hobt_base::{Position, SqlError, errors};
use hobt_tsql::ast::{Condition, Expression, SearchedWhen, SimpleWhen};
use hobt_types::{SqlType, Value};

use super::bound::{BoundExpr, Constant};
use super::comparison::compare;
use super::convert::{implicit, unify};
use super::folding::{self, Operands, Shape};
use super::{Binder, Site};

/// 1 if a condition is true, 0 otherwise.
pub(super) fn bit_of(condition: Expr, position: Position) -> BoundExpr {
    let bit = |value| Box::new(Expr::Literal(ScalarValue::UInt8(Some(value)), None));
    let expr = Expr::Case(Case::new(None, vec![(Box::new(condition), bit(1))], Some(bit(0))));
    BoundExpr::new(expr, SqlType::Bit, false, position)
}

/// `CASE WHEN c THEN r … ELSE e END`, with the results converted to their common type.
fn searched(
    conditions: Vec<Expr>,
    mut results: Vec<BoundExpr>,
    otherwise: Option<BoundExpr>,
    position: Position,
) -> Result<BoundExpr, SqlError> {
    let has_else = otherwise.is_some();
    results.extend(otherwise);
    if results.iter().all(BoundExpr::is_untyped_null) {
        return Err(errors::CASE_OF_NULLS.error().at(position));
    }
    let (mut results, sql_type) = unify(results, "CASE").map_err(|error| error.at(position))?;
    let nullable = !has_else || results.iter().any(|result| result.nullable);
    let collation = results.iter().find(|result| result.sql_type.is_text()).map(|result| result.collation);
    let otherwise = if has_else { results.pop() } else { None };
    let shape = Shape { sql_type, nullable, collation: collation.unwrap_or_default(), position };
    folding::choice(conditions, results, otherwise, shape)
}

/// Whether a value is not NULL, or with `known` false, whether it is NULL.
fn is_known(bound: &BoundExpr, known: bool) -> Expr {
    let operand = Box::new(bound.expr.clone());
    let condition = if known { Expr::IsNotNull(operand) } else { Expr::IsNull(operand) };
    folding::test(condition, Operands::of([bound]))
}

impl Binder<'_> {
    /// `CASE WHEN c THEN r … END`
    pub(super) fn searched_case(
        &self,
        branches: &[SearchedWhen],
        otherwise: Option<&Expression>,
        position: Position,
        site: Site<'_>,
    ) -> Result<BoundExpr, SqlError> {
        let mut conditions = Vec::with_capacity(branches.len());
        let mut results = Vec::with_capacity(branches.len());
        for branch in branches {
            conditions.push(self.branch_condition(&branch.when, site)?);
            results.push(self.expression(&branch.then, site)?);
        }
        let otherwise = otherwise.map(|value| self.expression(value, site)).transpose()?;
        searched(conditions, results, otherwise, position)
    }

    /// `CASE x WHEN v THEN r … END`
    pub(super) fn simple_case(
        &self,
        operand: &Expression,
        branches: &[SimpleWhen],
        otherwise: Option<&Expression>,
        position: Position,
        site: Site<'_>,
    ) -> Result<BoundExpr, SqlError> {
        let operand = self.expression(operand, site)?;
        let mut conditions = Vec::with_capacity(branches.len());
        let mut results = Vec::with_capacity(branches.len());
        for branch in branches {
            let value = self.expression(&branch.when, site)?;
            conditions.push(compare(operand.clone(), Operator::Eq, value, branch.when.position())?);
            results.push(self.expression(&branch.then, site)?);
        }
        let otherwise = otherwise.map(|value| self.expression(value, site)).transpose()?;
        searched(conditions, results, otherwise, position)
    }

    /// `IIF(c, x, y)`
    pub(super) fn iif(
        &self,
        condition: &Condition,
        then: &Expression,
        otherwise: &Expression,
        position: Position,
        site: Site<'_>,
    ) -> Result<BoundExpr, SqlError> {
        let condition = self.branch_condition(condition, site)?;
        let then = self.expression(then, site)?;
        let otherwise = self.expression(otherwise, site)?;
        searched(vec![condition], vec![then], Some(otherwise), position)
    }

    /// `COALESCE(x, …)`
    pub(super) fn coalesce(
        &self,
        arguments: &[Expression],
        position: Position,
        site: Site<'_>,
    ) -> Result<BoundExpr, SqlError> {
        let bound = arguments.iter().map(|argument| self.expression(argument, site));
        let bound: Vec<BoundExpr> = bound.collect::<Result<_, _>>()?;
        if bound.iter().all(BoundExpr::is_untyped_null) {
            return Err(errors::COALESCE_OF_NULLS.error().at(position));
        }
        let (mut bound, sql_type) = unify(bound, "COALESCE").map_err(|error| error.at(position))?;
        // As for a CASE; only ISNULL makes a column of SELECT INTO NOT NULL ("COALESCE", comparing COALESCE and
        // ISNULL).
        let nullable = bound.iter().any(|argument| argument.nullable);
        let collation = bound.first().map(|argument| argument.collation).unwrap_or_default();
        let Some(last) = bound.pop() else { return BoundExpr::null(position) };
        if bound.is_empty() {
            return Ok(last);
        }
        let conditions = bound.iter().map(|argument| is_known(argument, true)).collect();
        folding::choice(conditions, bound, Some(last), Shape { sql_type, nullable, collation, position })
    }

    /// `NULLIF(x, y)`
    pub(super) fn null_if(
        &self,
        left: &Expression,
        right: &Expression,
        position: Position,
        site: Site<'_>,
    ) -> Result<BoundExpr, SqlError> {
        let left = self.expression(left, site)?;
        if left.is_untyped_null() {
            return Err(errors::NULLIF_OF_NULL.error().at(position));
        }
        let right = self.expression(right, site)?;
        let equal = compare(left.clone(), Operator::Eq, right, position)?;
        let shape = Shape { sql_type: left.sql_type, nullable: true, collation: left.collation, position };
        folding::choice(vec![equal], vec![shape.null()?], Some(left), shape)
    }

    /// `ISNULL(x, y)`, of the type of `x`.
    pub(super) fn is_null_function(
        &self,
        value: BoundExpr,
        replacement: BoundExpr,
        position: Position,
    ) -> Result<BoundExpr, SqlError> {
        if value.is_untyped_null() {
            return Ok(BoundExpr { constant: Constant::No, ..replacement });
        }
        let (sql_type, collation) = (value.sql_type, value.collation);
        let nullable = value.nullable && replacement.nullable;
        let replacement = implicit(replacement, sql_type)?;
        let is_null = is_known(&value, false);
        let shape = Shape { sql_type, nullable, collation, position };
        folding::choice(vec![is_null], vec![replacement], Some(value), shape)
    }

    /// `CHOOSE(n, a, b, …)`
    pub(super) fn choose(
        &self,
        index: BoundExpr,
        values: Vec<BoundExpr>,
        position: Position,
    ) -> Result<BoundExpr, SqlError> {
        let index = implicit(index, SqlType::Int)?;
        let mut conditions = Vec::with_capacity(values.len());
        for place in 1..=values.len() {
            let place = i64::try_from(place).unwrap_or(i64::MAX);
            let place = BoundExpr::literal(Value::Int(place), SqlType::Int, position)?;
            let place = BoundExpr { foldable: true, ..place };
            conditions.push(compare(index.clone(), Operator::Eq, place, position)?);
        }
        searched(conditions, values, None, position)
    }
}
