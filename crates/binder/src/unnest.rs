//! Correlated subqueries that DataFusion's rules do not handle: with `TOP`, comparisons other than equality under an
//! aggregate, windows, unions, correlation over several levels.
//!
//! The method is that of Neumann and Kemper, "Unnesting Arbitrary Queries" (BTW 2015). The distinct values of the
//! columns that the subquery reads from outside, its domain, are joined into the subquery where it reads them, and
//! carried up through every operator. The result is joined to the outer query on those columns. Subqueries that
//! DataFusion handles itself are left to it, because its plans for simple equality read no column twice.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, NullEquality, Result as PlanResult, ScalarValue};
use datafusion::functions_window::row_number;
use datafusion::logical_expr::expr::{Alias, Case};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, ExprSchemable, Filter, GroupingSet, Join, JoinConstraint, Limit,
    LogicalPlan, Operator, Projection, Sort, SortExpr, Subquery, Window, WindowFunctionDefinition,
};
use hobt_base::SqlError;
use hobt_functions::aggregate::AggregateKind;
use hobt_types::{Collation, SqlType};

use super::condition::balanced;
use super::extent::check_plan;
use super::from::join;
use super::set_operation::union;
use super::window::{ranking, window_plan};
use super::{Binder, shared};
use crate::aggregate_call::{plain_call, wrapped};
use crate::subquery_expr::subquery_of;
use hobt_udf::sql_error_of;

/// The outer columns that a plan and the subqueries in it read.
fn outer_columns(plan: &LogicalPlan) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    let visited = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                if let Expr::OuterReferenceColumn(_, column) = part
                    && !columns.contains(column)
                {
                    columns.push(column.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    debug_assert!(visited.is_ok());
    columns
}

/// Whether a conjunct is of the form that DataFusion can pull out from under an aggregate: a column equal to an outer
/// expression.
fn is_simple_equality(conjunct: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = conjunct else { return false };
    let is_side = |own: &Expr, other: &Expr| matches!(own, Expr::Column(_)) && !other.any_column_refs();
    is_side(left, right) || is_side(right, left)
}

/// Whether DataFusion's own rules cannot turn the subquery into a join.
pub(super) fn is_beyond_engine(plan: &LogicalPlan, is_exists: bool) -> bool {
    beyond(plan, is_exists, false)
}

fn beyond(plan: &LogicalPlan, is_exists: bool, aggregated: bool) -> bool {
    if outer_columns(plan).is_empty() {
        return false;
    }
    // A nested subquery that reads columns from outside this one.
    let mut reads_through = false;
    let visited = plan.apply_expressions(|expr| {
        expr.apply(|part| {
            let inner = match part {
                Expr::ScalarSubquery(subquery) => Some(subquery),
                Expr::Exists(exists) => Some(&exists.subquery),
                Expr::InSubquery(within) => Some(&within.subquery),
                _ => None,
            };
            let known = plan.inputs();
            reads_through |= inner.is_some_and(|inner| {
                outer_columns(&inner.subquery)
                    .iter()
                    .any(|column| !known.iter().any(|input| input.schema().has_column(column)))
            });
            Ok(TreeNodeRecursion::Continue)
        })
    });
    if reads_through || visited.is_err() {
        return true;
    }
    match plan {
        LogicalPlan::Projection(node) => {
            node.expr.iter().any(Expr::contains_outer) || beyond(&node.input, is_exists, aggregated)
        }
        LogicalPlan::Filter(node) => {
            let correlated = split_conjunction(&node.predicate).into_iter().filter(|part| part.contains_outer());
            let taken = correlated.into_iter().all(|part| !aggregated || is_simple_equality(part));
            // A condition on an aggregate decides whether its row for empty input is returned.
            !taken || is_aggregate(&node.input) || beyond(&node.input, is_exists, aggregated)
        }
        LogicalPlan::Aggregate(node) => {
            let plain = node.group_expr.iter().chain(&node.aggr_expr).all(|expr| !expr.contains_outer());
            let computes = !node.aggr_expr.is_empty();
            // A grouping without keys has a row where no row is read, which a join on what the rows have would lose.
            let loses = has_empty_set(node) || (is_exists && has_value_of_nothing(node));
            // A row for each group becomes several if it is grouped by what it is compared by too.
            let merges = computes || !is_exists;
            !plain || loses || (aggregated && computes) || beyond(&node.input, is_exists, aggregated || merges)
        }
        LogicalPlan::Distinct(Distinct::All(input)) => beyond(input, is_exists, aggregated || !is_exists),
        LogicalPlan::Limit(node) if is_exists && node.skip.is_none() => beyond(&node.input, is_exists, aggregated),
        LogicalPlan::Join(node) if node.join_type == JoinType::Inner => {
            node.filter.as_ref().is_some_and(Expr::contains_outer)
                || !gives_what_it_compares(&node.left)
                || !gives_what_it_compares(&node.right)
                || beyond(&node.left, is_exists, aggregated)
                || beyond(&node.right, is_exists, aggregated)
        }
        LogicalPlan::Join(node) if node.join_type == JoinType::Left => {
            node.filter.as_ref().is_some_and(Expr::contains_outer)
                || !outer_columns(&node.right).is_empty()
                || !gives_what_it_compares(&node.left)
                || beyond(&node.left, is_exists, aggregated)
        }
        _ => true,
    }
}

/// Whether a side of a join returns all columns that it compares with outer expressions. DataFusion pulls these
/// comparisons out of the side and adds the columns that they need to its projections, but does not update the join.
fn gives_what_it_compares(side: &LogicalPlan) -> bool {
    let mut gives = true;
    let visited = side.apply(|node| {
        if let LogicalPlan::Filter(filter) = node {
            let mut compared = split_conjunction(&filter.predicate).into_iter().filter(|part| part.contains_outer());
            gives &= compared.all(|part| part.column_refs().iter().all(|column| side.schema().has_column(column)));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    visited.is_ok() && gives
}

/// Whether a plan has a row for each outer row whatever it reads, since it aggregates all that it reads for it.
pub(super) fn aggregates_all(plan: &LogicalPlan) -> bool {
    plan.exists(|node| match node {
        LogicalPlan::Aggregate(node) => Ok(node.group_expr.is_empty() && !outer_columns(&node.input).is_empty()),
        _ => Ok(false),
    })
    .unwrap_or(true)
}

/// Whether an aggregation without keys gives a value, and not NULL, for no rows.
fn has_value_of_nothing(node: &Aggregate) -> bool {
    let has_value = |call: &Expr| !default_of(call, &node.input).is_ok_and(|value| value.is_null());
    node.group_expr.is_empty() && node.aggr_expr.iter().any(has_value)
}

fn has_empty_set(aggregate: &Aggregate) -> bool {
    sets_of(aggregate).is_some_and(|sets| sets.iter().any(Vec::is_empty))
}

/// The grouping sets of an aggregation, if it has any.
fn sets_of(aggregate: &Aggregate) -> Option<&[Vec<Expr>]> {
    match aggregate.group_expr.as_slice() {
        [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => Some(sets),
        _ => None,
    }
}

fn is_aggregate(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(node) => is_aggregate(&node.input),
        LogicalPlan::Aggregate(node) => node.group_expr.is_empty(),
        _ => false,
    }
}

/// The distinct values of the columns that a subquery reads from the enclosing plan.
struct Domain<'p> {
    outer: &'p LogicalPlan,
    columns: Vec<Column>,
}

impl Domain<'_> {
    fn is_read_by(&self, plan: &LogicalPlan) -> bool {
        outer_columns(plan).iter().any(|column| self.columns.contains(column))
    }

    /// Rewrites an expression of the subquery for a plan that has the domain's columns under the names in `own`.
    fn localize(&self, expr: Expr, own: &[Column]) -> Result<Expr, SqlError> {
        expr.transform_down(|node| self.replace(node, own)).map(|done| done.data).map_err(sql_error_of)
    }

    fn own_of<'c>(&self, column: &Column, own: &'c [Column]) -> Option<&'c Column> {
        self.columns.iter().position(|known| known == column).and_then(|place| own.get(place))
    }

    fn replace(&self, node: Expr, own: &[Column]) -> PlanResult<Transformed<Expr>> {
        Ok(match node {
            Expr::OuterReferenceColumn(field, column) => match self.own_of(&column, own) {
                Some(known) => Transformed::yes(Expr::Column(known.clone())),
                None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
            },
            Expr::ScalarSubquery(subquery) => Transformed::yes(Expr::ScalarSubquery(self.inside(subquery, own)?)),
            Expr::Exists(mut exists) => {
                exists.subquery = self.inside(exists.subquery, own)?;
                Transformed::yes(Expr::Exists(exists))
            }
            Expr::InSubquery(mut within) => {
                within.subquery = self.inside(within.subquery, own)?;
                Transformed::yes(Expr::InSubquery(within))
            }
            other => Transformed::no(other),
        })
    }

    /// A nested subquery, rewritten to read the domain from the plan that now encloses it.
    fn inside(&self, subquery: Subquery, own: &[Column]) -> PlanResult<Subquery> {
        let plan = subquery.subquery.as_ref().clone().transform_down_with_subqueries(|plan| {
            plan.map_expressions(|expr| {
                expr.transform_down(|node| {
                    Ok(match node {
                        Expr::OuterReferenceColumn(field, column) => match self.own_of(&column, own) {
                            Some(known) => Transformed::yes(Expr::OuterReferenceColumn(field, known.clone())),
                            None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
                        },
                        other => Transformed::no(other),
                    })
                })
            })
        })?;
        Ok(subquery_of(plan.data))
    }
}

/// A plan that carries the domain, and the names of the domain's columns in it.
type Carried = (LogicalPlan, Vec<Column>);

fn columns_of(columns: &[Column]) -> impl Iterator<Item = Expr> + '_ {
    columns.iter().map(|column| Expr::Column(column.clone()))
}

fn project(exprs: Vec<Expr>, plan: LogicalPlan) -> Result<LogicalPlan, SqlError> {
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, shared(plan)).map_err(sql_error_of)?))
}

/// A join on equal columns, in which NULL equals NULL.
fn join_on_columns(
    left: LogicalPlan,
    right: LogicalPlan,
    columns: (&[Column], &[Column]),
    join_type: JoinType,
) -> Result<LogicalPlan, SqlError> {
    let on = columns_of(columns.0).zip(columns_of(columns.1)).collect();
    let join = Join::try_new(
        shared(left),
        shared(right),
        on,
        None,
        join_type,
        JoinConstraint::On,
        NullEquality::NullEqualsNull,
        false,
    );
    Ok(LogicalPlan::Join(join.map_err(sql_error_of)?))
}

impl Binder<'_> {
    /// Joins the scalar subqueries that DataFusion cannot join to the plan, and replaces them in the expressions by its
    /// columns.
    pub(super) fn unnest_scalars(
        &self,
        plan: LogicalPlan,
        exprs: Vec<Expr>,
    ) -> Result<(LogicalPlan, Vec<Expr>), SqlError> {
        let mut plan = plan;
        let mut done = Vec::with_capacity(exprs.len());
        // `BETWEEN`, `COALESCE` and `NULLIF` have their operand twice.
        let mut known: Vec<Column> = Vec::new();
        for expr in exprs {
            if !crate::subquery_expr::has_subquery(&expr) {
                done.push(expr);
                continue;
            }
            let rewritten = expr.transform_down(|node| match node {
                Expr::ScalarSubquery(subquery) if is_beyond_engine(&subquery.subquery, false) => {
                    let value = subquery.subquery.schema().columns().into_iter().next();
                    if let Some(value) = value.as_ref().filter(|value| known.contains(value)) {
                        return Ok(Transformed::new(Expr::Column(value.clone()), true, TreeNodeRecursion::Jump));
                    }
                    let joined = self.unnest(plan.clone(), &subquery.subquery, JoinType::Left);
                    match (value, joined.map_err(hobt_udf::external)?) {
                        (Some(value), Some(joined)) => {
                            // Each one holds the plan twice.
                            check_plan(&joined).map_err(hobt_udf::external)?;
                            plan = joined;
                            known.push(value.clone());
                            Ok(Transformed::new(Expr::Column(value), true, TreeNodeRecursion::Jump))
                        }
                        _ => Ok(Transformed::new(Expr::ScalarSubquery(subquery), false, TreeNodeRecursion::Jump)),
                    }
                }
                other => Ok(Transformed::no(other)),
            });
            done.push(rewritten.map_err(sql_error_of)?.data);
        }
        Ok((plan, done))
    }

    /// Joins a subquery to the plan it reads: each row of the plan with the subquery's rows for it. `None` when the
    /// subquery does not read the plan.
    pub(super) fn unnest(
        &self,
        outer: LogicalPlan,
        subquery: &LogicalPlan,
        join_type: JoinType,
    ) -> Result<Option<LogicalPlan>, SqlError> {
        let mut columns = outer_columns(subquery);
        columns.retain(|column| outer.schema().has_column(column));
        if columns.is_empty() {
            return Ok(None);
        }
        let domain = Domain { outer: &outer, columns };
        let (plan, own) = self.carry(subquery, &domain)?;
        let columns = domain.columns.clone();
        join_on_columns(outer, plan, (&columns, &own), join_type).map(Some)
    }

    /// The domain under fresh names.
    fn domain(&self, domain: &Domain<'_>) -> Result<Carried, SqlError> {
        let mut exprs = Vec::with_capacity(domain.columns.len());
        let mut own = Vec::with_capacity(domain.columns.len());
        for column in &domain.columns {
            let name = self.fresh(&column.name);
            exprs.push(Expr::Column(column.clone()).alias(&name));
            own.push(Column::new_unqualified(name));
        }
        let values = project(exprs, domain.outer.clone())?;
        Ok((LogicalPlan::Distinct(Distinct::All(shared(values))), own))
    }

    /// The cross product of a plan and the domain.
    fn crossed(&self, plan: &LogicalPlan, domain: &Domain<'_>) -> Result<Carried, SqlError> {
        let (values, own) = self.domain(domain)?;
        Ok((join(values, plan.clone(), JoinType::Inner, None)?, own))
    }

    /// The plan's rows for each row of the domain.
    fn carry(&self, plan: &LogicalPlan, domain: &Domain<'_>) -> Result<Carried, SqlError> {
        if !domain.is_read_by(plan) {
            return self.crossed(plan, domain);
        }
        match plan {
            LogicalPlan::Projection(node) => {
                let (input, own) = self.carry(&node.input, domain)?;
                let exprs = node.expr.iter().map(|expr| domain.localize(expr.clone(), &own));
                let exprs = exprs.collect::<Result<Vec<_>, _>>()?;
                let (input, mut exprs) = self.unnest_scalars(input, exprs)?;
                exprs.extend(columns_of(&own));
                Ok((project(exprs, input)?, own))
            }
            LogicalPlan::Filter(node) => {
                let (input, own) = self.carry(&node.input, domain)?;
                let predicate = domain.localize(node.predicate.clone(), &own)?;
                Ok((self.filter(input, predicate)?, own))
            }
            LogicalPlan::Aggregate(node) => self.carry_aggregate(node, domain),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let (input, own) = self.carry(input, domain)?;
                Ok((LogicalPlan::Distinct(Distinct::All(shared(input))), own))
            }
            LogicalPlan::Sort(node) => self.carry(&node.input, domain),
            LogicalPlan::Limit(node) => self.carry_limit(node, domain),
            LogicalPlan::Window(node) => self.carry_window(node, domain),
            LogicalPlan::Union(node) => {
                let columns = node.schema.columns();
                let names: Vec<Column> =
                    domain.columns.iter().map(|column| Column::new_unqualified(self.fresh(&column.name))).collect();
                let mut inputs = Vec::with_capacity(node.inputs.len());
                for input in &node.inputs {
                    let (input, own) = self.carry(input, domain)?;
                    let renamed = columns_of(&own).zip(&names).map(|(column, name)| column.alias(&name.name));
                    let exprs = columns_of(&columns).chain(renamed).collect();
                    inputs.push(project(exprs, input)?);
                }
                Ok((union(inputs)?, names))
            }
            LogicalPlan::Join(node) => self.carry_join(node, domain),
            _ => Err(SqlError::not_supported("This form of correlated subquery or APPLY")),
        }
    }

    /// Grouping sets as the union of the single groupings, of which each knows what it gives for no rows.
    fn single_groupings(&self, node: &Aggregate, sets: &[Vec<Expr>]) -> Result<LogicalPlan, SqlError> {
        let keys: Vec<Expr> = match &node.group_expr[..] {
            [Expr::GroupingSet(all)] => all.distinct_expr().into_iter().cloned().collect(),
            _ => return Err(SqlError::internal("grouping sets that are none")),
        };
        let names: Vec<String> = node.schema.fields().iter().map(|_| self.fresh("set")).collect();
        let mut groupings = Vec::with_capacity(sets.len());
        for set in sets {
            let mut calls = node.aggr_expr.clone();
            if set.is_empty() && calls.is_empty() {
                let (count, _) = wrapped(AggregateKind::Count, SqlType::Int, Collation::default())?;
                let one = Expr::Literal(ScalarValue::Int32(Some(1)), None);
                calls.push(plain_call(count, vec![one]).alias(self.fresh("rows")));
            }
            let grouped = Aggregate::try_new(Arc::clone(&node.input), set.clone(), calls).map_err(sql_error_of)?;
            let is_missing = |key: &Expr| !set.contains(key);
            let number = keys.iter().fold(0u64, |number, key| number << 1 | u64::from(is_missing(key)));
            let columns = node.schema.iter().enumerate().map(|(place, (qualifier, field))| {
                let value = match keys.get(place) {
                    Some(key) if is_missing(key) => ScalarValue::try_from(field.data_type()),
                    None if place == keys.len() => ScalarValue::UInt64(Some(number)).cast_to(field.data_type()),
                    _ => return Ok(Expr::Column(Column::from((qualifier, field)))),
                };
                value.map(|value| Expr::Literal(value, None))
            });
            let columns = columns.zip(&names).map(|(column, name)| Ok(column.map_err(sql_error_of)?.alias(name)));
            groupings.push(project(columns.collect::<Result<_, SqlError>>()?, LogicalPlan::Aggregate(grouped))?);
        }
        let named = node.schema.iter().zip(&names).map(|((qualifier, field), name)| {
            Expr::Column(Column::new_unqualified(name)).alias_qualified(qualifier.cloned(), field.name())
        });
        let all = union(groupings)?;
        check_plan(&all)?;
        project(named.collect(), all)
    }

    fn carry_aggregate(&self, node: &Aggregate, domain: &Domain<'_>) -> Result<Carried, SqlError> {
        if let Some(sets) = sets_of(node) {
            return self.carry(&self.single_groupings(node, sets)?, domain);
        }
        let (input, own) = self.carry(&node.input, domain)?;
        let calls = node.aggr_expr.iter().map(|expr| domain.localize(expr.clone(), &own));
        let calls = calls.collect::<Result<Vec<_>, _>>()?;
        let keys: Vec<Expr> = node.group_expr.iter().cloned().chain(columns_of(&own)).collect();
        let grouped = Aggregate::try_new(shared(input), keys, calls).map_err(sql_error_of)?;
        let grouped = LogicalPlan::Aggregate(grouped);
        if !node.group_expr.is_empty() {
            return Ok((grouped, own));
        }
        // Without GROUP BY there is a row even for empty input, with the aggregate's value for no rows.
        let found = Column::new_unqualified(self.fresh("found"));
        let mark = Expr::Literal(ScalarValue::Boolean(Some(true)), None).alias(&found.name);
        let exprs = columns_of(&grouped.schema().columns()).chain([mark]).collect();
        let marked = project(exprs, grouped)?;
        let (values, names) = self.domain(domain)?;
        let padded = join_on_columns(values, marked, (&names, &own), JoinType::Left)?;
        let mut exprs: Vec<Expr> = columns_of(&names).collect();
        for (call, column) in node.aggr_expr.iter().zip(node.schema.columns()) {
            let value = Expr::Column(column.clone());
            let default = default_of(call, &node.input)?;
            if default.is_null() {
                exprs.push(value);
                continue;
            }
            let missing = Expr::IsNull(Box::new(Expr::Column(found.clone())));
            let branch = (Box::new(missing), Box::new(Expr::Literal(default, None)));
            exprs.push(Expr::Case(Case::new(None, vec![branch], Some(Box::new(value)))).alias(&column.name));
        }
        Ok((project(exprs, padded)?, names))
    }

    /// The first rows for each row of the domain.
    fn carry_limit(&self, node: &Limit, domain: &Domain<'_>) -> Result<Carried, SqlError> {
        let (input, order): (&LogicalPlan, Vec<SortExpr>) = match node.input.as_ref() {
            LogicalPlan::Sort(Sort { expr, input, .. }) => (input, expr.clone()),
            other => (other, vec![]),
        };
        let (input, own) = self.carry(input, domain)?;
        let count = |expr: &Option<Box<Expr>>| match expr.as_deref() {
            Some(Expr::Literal(ScalarValue::Int64(Some(count)), _)) => u64::try_from(*count).ok(),
            _ => None,
        };
        let skip = count(&node.skip).unwrap_or(0);
        let place = Column::new_unqualified(self.fresh("place"));
        let numbered = ranking(WindowFunctionDefinition::WindowUDF(row_number::row_number_udwf()), vec![], order);
        let numbered = partitioned(numbered, &own)?;
        let columns = input.schema().columns();
        let input = window_plan(input, vec![(numbered, place.clone())])?;
        let compare = |operator, bound: u64| {
            let bound = Expr::Literal(ScalarValue::UInt64(Some(bound)), None);
            let place = Expr::Column(place.clone());
            Expr::BinaryExpr(BinaryExpr::new(Box::new(place), operator, Box::new(bound)))
        };
        let mut bounds = vec![compare(Operator::Gt, skip)];
        bounds.extend(count(&node.fetch).map(|fetch| compare(Operator::LtEq, skip.saturating_add(fetch))));
        let Some(predicate) = balanced(bounds, Operator::And) else { return Ok((input, own)) };
        let kept = LogicalPlan::Filter(Filter::try_new(predicate, shared(input)).map_err(sql_error_of)?);
        Ok((project(columns_of(&columns).collect(), kept)?, own))
    }

    fn carry_window(&self, node: &Window, domain: &Domain<'_>) -> Result<Carried, SqlError> {
        let (input, own) = self.carry(&node.input, domain)?;
        let mut windows = Vec::with_capacity(node.window_expr.len());
        for expr in &node.window_expr {
            let Expr::Alias(Alias { expr, name, .. }) = domain.localize(expr.clone(), &own)? else {
                return Err(SqlError::internal("a window without a name"));
            };
            windows.push((partitioned(*expr, &own)?, Column::new_unqualified(name)));
        }
        Ok((window_plan(input, windows)?, own))
    }

    fn carry_join(&self, node: &Join, domain: &Domain<'_>) -> Result<Carried, SqlError> {
        let keeps_left = matches!(
            node.join_type,
            JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark
        );
        if !keeps_left {
            return Err(SqlError::not_supported("A correlated RIGHT or FULL JOIN"));
        }
        let (left, own) = self.carry(&node.left, domain)?;
        let mut filters = Vec::new();
        let right = if domain.is_read_by(&node.right) {
            let (right, other) = self.carry(&node.right, domain)?;
            for (a, b) in columns_of(&own).zip(columns_of(&other)) {
                let same = BinaryExpr::new(Box::new(a), Operator::IsNotDistinctFrom, Box::new(b));
                filters.push(Expr::BinaryExpr(same));
            }
            right
        } else {
            node.right.as_ref().clone()
        };
        if let Some(filter) = &node.filter {
            filters.push(domain.localize(filter.clone(), &own)?);
        }
        let join = Join::try_new(
            shared(left),
            shared(right),
            node.on.clone(),
            balanced(filters, Operator::And),
            node.join_type,
            node.join_constraint,
            node.null_equality,
            node.null_aware,
        );
        Ok((LogicalPlan::Join(join.map_err(sql_error_of)?), own))
    }
}

/// The value of an aggregate over no rows.
fn default_of(call: &Expr, input: &LogicalPlan) -> Result<ScalarValue, SqlError> {
    let call = match call {
        Expr::Alias(alias) => alias.expr.as_ref(),
        other => other,
    };
    let Expr::AggregateFunction(function) = call else { return Err(SqlError::internal("an aggregate that is none")) };
    let data_type = call.get_type(input.schema().as_ref()).map_err(sql_error_of)?;
    function.func.default_value(&data_type).map_err(sql_error_of)
}

/// A window function that is computed separately for each row of the domain.
fn partitioned(expr: Expr, own: &[Column]) -> Result<Expr, SqlError> {
    let Expr::WindowFunction(mut window) = expr else { return Err(SqlError::internal("a window that is none")) };
    window.params.partition_by.extend(columns_of(own));
    Ok(Expr::WindowFunction(window))
}
