//! `UNION`, `EXCEPT`, `INTERSECT`, `DISTINCT`: whole rows are compared, and NULL equals NULL.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, JoinType, NullEquality};
use datafusion::logical_expr::{
    Aggregate, Distinct, EmptyRelation, Expr, Join, JoinConstraint, LogicalPlan, Projection, Union,
};
use hobt_base::{Position, SqlError, errors};
use hobt_functions::aggregate::AggregateKind;
use hobt_tsql::ast::{QueryBody, SetOperationStep, SetOperator};
use hobt_types::Collation;

use super::bound::BoundExpr;
use super::comparison::key;
use super::convert::unify;
use super::extent::check_plan;
use super::scope::Names;
use super::values::constant_rows;
use super::{Binder, shared};
use crate::aggregate_call::{plain_call, wrapped};
use crate::body::{Body, BodyColumn};
use crate::subquery_expr::has_subquery;
use hobt_udf::{has_sort_key, sql_error_of};

impl Binder<'_> {
    /// A chain of set operators, in as flat a plan as possible.
    pub(super) fn set_operation(
        &self,
        first: &QueryBody,
        rest: &[SetOperationStep],
        names: &Names<'_>,
        position: Position,
    ) -> Result<Body, SqlError> {
        let body = self.within(|| {
            let mut left = self.operand(first, names, position)?;
            let mut steps = rest;
            while let Some(step) = steps.first() {
                let run = run_of(steps);
                let mut sides = Vec::with_capacity(run + 1);
                sides.push(left);
                for step in &steps[..run] {
                    sides.push(self.operand(&step.operand, names, step.span.position)?);
                }
                left = self.combine(sides, steps[run - 1].operator, step.span.position)?;
                steps = &steps[run..];
            }
            Ok(left)
        })?;
        check_plan(&body.plan).map_err(|error| error.at(position))?;
        Ok(body)
    }

    fn combine(&self, mut sides: Vec<Body>, operator: SetOperator, position: Position) -> Result<Body, SqlError> {
        let into = sides.iter().find_map(|side| side.into.clone());
        if let Some(place) = sides.iter().find_map(|side| side.assigns) {
            return Err(errors::ASSIGNMENT_IN_SET_OPERATION.error().at(place));
        }
        let sources = std::mem::take(&mut sides[0].sources);
        let (plans, columns) = self.unified(sides, operator, position)?;
        let plan = match operator {
            SetOperator::UnionAll => union(plans)?,
            SetOperator::Union => self.distinct(union(plans)?, &columns)?,
            SetOperator::Except => {
                // The rows that none of the other sides has.
                let mut plans = plans.into_iter();
                let first = plans.next().ok_or_else(lost_side)?;
                let others: Vec<LogicalPlan> = plans.collect();
                let others = if others.len() == 1 { others.into_iter().next() } else { Some(union(others)?) };
                self.semi_join(first, others.ok_or_else(lost_side)?, &columns, JoinType::LeftAnti)?
            }
            SetOperator::Intersect => self.intersection(plans, &columns)?,
        };
        Ok(Body { into, sources, ..Body::of(plan, columns) })
    }

    /// The sides, converted to the same types and internal names.
    fn unified(
        &self,
        sides: Vec<Body>,
        operator: SetOperator,
        position: Position,
    ) -> Result<(Vec<LogicalPlan>, Vec<BodyColumn>), SqlError> {
        let count = sides[0].columns.len();
        if sides.iter().any(|side| side.columns.len() != count) {
            return Err(errors::SET_OPERATION_COLUMNS.error().at(position));
        }
        let word = match operator {
            SetOperator::Union => "UNION",
            SetOperator::UnionAll => "UNION ALL",
            SetOperator::Except => "EXCEPT",
            SetOperator::Intersect => "INTERSECT",
        };
        let mut exprs: Vec<Vec<Expr>> = sides.iter().map(|_| Vec::with_capacity(count)).collect();
        let mut columns = Vec::with_capacity(count);
        for place in 0..count {
            let all: Vec<BoundExpr> = sides.iter().map(|side| side.columns[place].bound(position)).collect();
            let untyped_null = all.iter().all(BoundExpr::is_untyped_null);
            let nullable = match operator {
                SetOperator::Except => all[0].nullable,
                _ => all.iter().any(|side| side.nullable),
            };
            let (all, sql_type) = unify(all, word).map_err(|error| error.at(position))?;
            let name = self.fresh(sides[0].columns[place].name.as_deref().unwrap_or("expr"));
            let collation = all[0].collation;
            for (side, bound) in exprs.iter_mut().zip(all) {
                side.push(bound.expr.alias(&name));
            }
            columns.push(BodyColumn {
                name: sides[0].columns[place].name.clone(),
                column: Column::new_unqualified(name),
                sql_type,
                nullable,
                collation,
                untyped_null,
                literal: None,
            });
        }
        let plans = sides.into_iter().zip(exprs).map(|(side, exprs)| {
            Projection::try_new(exprs, shared(side.plan)).map(LogicalPlan::Projection).map_err(sql_error_of)
        });
        Ok((plans.collect::<Result<_, _>>()?, columns))
    }

    /// Rows without their duplicates. Of several values with equal keys, the least by its bytes is kept.
    pub(super) fn distinct(&self, plan: LogicalPlan, columns: &[BodyColumn]) -> Result<LogicalPlan, SqlError> {
        if !columns.iter().any(|column| has_sort_key(column.sql_type)) {
            return Ok(LogicalPlan::Distinct(Distinct::All(shared(plan))));
        }
        let (plan, keys) = self.with_keys(plan, columns)?;
        let mut calls = Vec::new();
        let mut outputs = Vec::with_capacity(columns.len());
        for column in columns {
            if has_sort_key(column.sql_type) {
                let (least, _) = wrapped(AggregateKind::Min, column.sql_type, Collation::Latin1GeneralBin2)?;
                let name = self.fresh("text");
                calls.push(plain_call(least, vec![Expr::Column(column.column.clone())]).alias(&name));
                outputs.push(Expr::Column(Column::new_unqualified(name)).alias(&column.column.name));
            } else {
                outputs.push(Expr::Column(column.column.clone()));
            }
        }
        let keys = keys.into_iter().map(Expr::Column).collect();
        let grouped = LogicalPlan::Aggregate(Aggregate::try_new(shared(plan), keys, calls).map_err(sql_error_of)?);
        Ok(LogicalPlan::Projection(Projection::try_new(outputs, shared(grouped)).map_err(sql_error_of)?))
    }

    /// The plan with a key column beside each column that has one, and the columns by which rows compare.
    fn with_keys(&self, plan: LogicalPlan, columns: &[BodyColumn]) -> Result<(LogicalPlan, Vec<Column>), SqlError> {
        let mut exprs: Vec<Expr> = columns.iter().map(|column| Expr::Column(column.column.clone())).collect();
        let mut keys = Vec::with_capacity(columns.len());
        for column in columns {
            if has_sort_key(column.sql_type) {
                let name = self.fresh("key");
                exprs.push(key(&column.bound(Position::default())).alias(&name));
                keys.push(Column::new_unqualified(name));
            } else {
                keys.push(column.column.clone());
            }
        }
        if exprs.len() == columns.len() {
            return Ok((plan, keys));
        }
        Ok((LogicalPlan::Projection(Projection::try_new(exprs, shared(plan)).map_err(sql_error_of)?), keys))
    }

    /// The distinct rows that all sides have. Sides are joined in pairs, and the results in pairs again, so that many
    /// of them make no deep plan.
    fn intersection(&self, mut plans: Vec<LogicalPlan>, columns: &[BodyColumn]) -> Result<LogicalPlan, SqlError> {
        while plans.len() > 1 {
            let mut next = Vec::with_capacity(plans.len().div_ceil(2));
            let mut pairs = plans.into_iter();
            while let Some(left) = pairs.next() {
                next.push(match pairs.next() {
                    Some(right) => self.semi_join(left, right, columns, JoinType::LeftSemi)?,
                    None => left,
                });
            }
            plans = next;
        }
        plans.pop().ok_or_else(lost_side)
    }

    /// The distinct rows of the left side that have, or do not have, an equal row on the right.
    fn semi_join(
        &self,
        left: LogicalPlan,
        right: LogicalPlan,
        columns: &[BodyColumn],
        join_type: JoinType,
    ) -> Result<LogicalPlan, SqlError> {
        let left = self.distinct(left, columns)?;
        let (left, left_keys) = self.with_keys(left, columns)?;
        let (right, renamed) = self.renamed(right, columns)?;
        let (right, right_keys) = self.with_keys(right, &renamed)?;
        let on = left_keys.into_iter().zip(right_keys).map(|(a, b)| (Expr::Column(a), Expr::Column(b))).collect();
        let join = Join::try_new(
            shared(left),
            shared(right),
            on,
            None,
            join_type,
            JoinConstraint::On,
            NullEquality::NullEqualsNull,
            false,
        )
        .map_err(sql_error_of)?;
        let outputs = columns.iter().map(|column| Expr::Column(column.column.clone())).collect();
        let plan = LogicalPlan::Join(join);
        Ok(LogicalPlan::Projection(Projection::try_new(outputs, shared(plan)).map_err(sql_error_of)?))
    }

    /// The rows under fresh internal names.
    pub(super) fn renamed(
        &self,
        plan: LogicalPlan,
        columns: &[BodyColumn],
    ) -> Result<(LogicalPlan, Vec<BodyColumn>), SqlError> {
        let mut exprs = Vec::with_capacity(columns.len());
        let mut renamed = Vec::with_capacity(columns.len());
        for column in columns {
            let name = self.fresh(column.name.as_deref().unwrap_or("expr"));
            exprs.push(Expr::Column(column.column.clone()).alias(&name));
            renamed.push(BodyColumn { column: Column::new_unqualified(name), ..column.clone() });
        }
        let plan = Projection::try_new(exprs, shared(plan)).map_err(sql_error_of)?;
        Ok((LogicalPlan::Projection(plan), renamed))
    }
}

fn lost_side() -> SqlError {
    SqlError::internal("a set operator lost a side")
}

/// How many of the steps make one node of the plan: `UNION ALL`s, or everything up to the last `UNION`, since that
/// removes the duplicates of all of them; `EXCEPT`s; `INTERSECT`s.
fn run_of(steps: &[SetOperationStep]) -> usize {
    let same = |wanted: &[SetOperator]| steps.iter().take_while(|step| wanted.contains(&step.operator)).count();
    match steps.first().map(|step| step.operator) {
        Some(SetOperator::Except) => same(&[SetOperator::Except]),
        Some(SetOperator::Intersect) => same(&[SetOperator::Intersect]),
        _ => {
            let all = same(&[SetOperator::Union, SetOperator::UnionAll]);
            let last = steps[..all].iter().rposition(|step| step.operator == SetOperator::Union);
            last.map_or(all, |last| last + 1)
        }
    }
}

/// All rows of all plans. Rows of constants become one list, whose rows are returned in the order in which they are
/// written. The partitions of other unions are read in any order.
///
/// # Errors
/// 8623 if there are too many, whether constant or not.
pub(super) fn union(plans: Vec<LogicalPlan>) -> Result<LogicalPlan, SqlError> {
    let rows: Option<Vec<_>> = plans.iter().map(constant_row).collect();
    let inputs = plans.into_iter().map(shared).collect();
    let union = LogicalPlan::Union(Union::try_new(inputs).map_err(sql_error_of)?);
    let Some(rows) = rows else { return Ok(union) };
    check_plan(&union)?;
    let fields = union.schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    constant_rows(fields.collect(), rows)
}

/// The values of a plan that is a row of constants, converted to the types of the set operation; `None` for any other
/// plan.
fn constant_row(plan: &LogicalPlan) -> Option<Vec<Expr>> {
    let LogicalPlan::Projection(outputs) = plan else { return None };
    let LogicalPlan::Projection(values) = &*outputs.input else { return None };
    let LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, .. }) = &*values.input else { return None };
    if values.expr.iter().any(|value| value.contains_outer() || has_subquery(value)) {
        return None;
    }
    let columns = values.schema.columns();
    let in_place = |expr: &Expr| {
        let put = expr.clone().transform_up(|node| {
            let place = match &node {
                Expr::Column(column) => columns.iter().position(|known| known == column),
                _ => None,
            };
            Ok(match place {
                Some(place) => Transformed::yes(values.expr[place].clone().unalias()),
                None => Transformed::no(node),
            })
        });
        put.ok().map(|put| put.data.unalias())
    };
    outputs.expr.iter().map(in_place).collect()
}
