//! `GROUP BY`: the aggregation, and rewriting the expressions above it in terms of its columns.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DataFusionError, ScalarValue};
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{Aggregate, BinaryExpr, Expr, GroupingSet, LogicalPlan, Operator, Projection, Subquery};
use hobt_base::{Position, SqlError, errors};
use hobt_functions::aggregate::AggregateKind;
use hobt_tsql::ast::{Expression, GroupBy, GroupByModifier, GroupingItem};
use hobt_types::Collation;

use super::bound::BoundExpr;
use super::comparison::key;
use super::scope::Scope;
use super::{Binder, Clause, Site, shared};
use crate::aggregate_call::{plain_call, wrapped};
use hobt_udf::{Kernel, Operation, external, has_sort_key, sql_error_of};

/// The most grouping sets of one `GROUP BY`, as in SQL Server.
const SETS_LIMIT: usize = 4096;

/// An aggregation: its plan, and the columns that stand for expressions of its input.
pub(super) struct Groups {
    pub(super) plan: LogicalPlan,
    /// Whether it has grouping sets, so that every key can be NULL.
    pub(super) has_sets: bool,
    /// Expressions over the input, each with the expression that stands for it.
    outputs: Vec<(Expr, Expr)>,
    /// The columns of the aggregates.
    aggregates: Vec<Column>,
}

/// The expressions of a `GROUP BY`, and the grouping sets over them.
struct Sets {
    keys: Vec<BoundExpr>,
    /// Indexes into `keys`; `None` without grouping sets.
    sets: Option<Vec<Vec<usize>>>,
}

/// Whether rows are grouped by several sets of keys, or by one that is written as a set.
pub(super) fn has_sets(group_by: &GroupBy) -> bool {
    let is_set = |item: &GroupingItem| !matches!(item, GroupingItem::Value(_) | GroupingItem::Composite(_));
    group_by.modifier.is_some() || group_by.items.iter().any(is_set)
}

impl Binder<'_> {
    /// Groups a plan.
    pub(super) fn aggregation(
        &self,
        plan: LogicalPlan,
        group_by: Option<&GroupBy>,
        aggregates: Vec<(Expr, Column)>,
        groupings: Vec<(Expr, Column, Position)>,
        site: Site<'_>,
    ) -> Result<Groups, SqlError> {
        let site = Site { collector: None, ..site };
        let Sets { keys, sets } = match group_by {
            Some(group_by) => self.sets(group_by, site)?,
            None => Sets { keys: vec![], sets: None },
        };
        let (plan, key_columns) = self.project_keys(plan, &keys)?;
        let mut calls: Vec<Expr> = Vec::with_capacity(aggregates.len());
        let mut columns = Vec::with_capacity(aggregates.len());
        for (call, column) in aggregates {
            calls.push(call.alias(&column.name));
            columns.push(column);
        }
        let has_sets = sets.is_some();
        let order = bit_order(sets.as_deref().unwrap_or_default());
        let bit = |place: usize| {
            let behind = order.iter().rev().position(|known| *known == place);
            let shift = behind.and_then(|behind| u32::try_from(behind).ok()).unwrap_or(0);
            let id = Expr::Column(Column::new_unqualified(Aggregate::INTERNAL_GROUPING_ID));
            Kernel::call(Operation::GroupingBit { shift }, vec![id], Position::default())
        };
        let mut outputs = Vec::with_capacity(keys.len() + groupings.len());
        for (place, bound) in keys.iter().enumerate() {
            let mut output = Expr::Column(key_columns[place].clone());
            if has_sort_key(bound.sql_type) {
                // The group's value is the least of the values with equal keys.
                let (least, _) = wrapped(AggregateKind::Min, bound.sql_type, Collation::Latin1GeneralBin2)?;
                let column = Column::new_unqualified(self.fresh("text"));
                calls.push(plain_call(least, vec![bound.expr.clone()]).alias(&column.name));
                output = Expr::Column(column);
                if has_sets {
                    let zero = Expr::Literal(ScalarValue::UInt8(Some(0)), None);
                    let grouped = BinaryExpr::new(Box::new(bit(place)), Operator::Eq, Box::new(zero));
                    let branch = (Box::new(Expr::BinaryExpr(grouped)), Box::new(output));
                    output = Expr::Case(Case::new(None, vec![branch], None));
                }
            }
            outputs.push((bound.expr.clone(), output));
        }
        for (argument, column, position) in groupings {
            let place = keys
                .iter()
                .position(|bound| bound.expr == argument)
                .ok_or_else(|| errors::GROUPING_ARGUMENT.error().at(position))?;
            let value = match has_sets {
                true => bit(place),
                false => Expr::Literal(ScalarValue::UInt8(Some(0)), None),
            };
            outputs.push((Expr::Column(column), value));
        }
        let group_expr: Vec<Expr> = match sets {
            None => key_columns.into_iter().map(Expr::Column).collect(),
            Some(sets) => {
                let set = |places: Vec<usize>| {
                    places.into_iter().map(|place| Expr::Column(key_columns[place].clone())).collect()
                };
                vec![Expr::GroupingSet(GroupingSet::GroupingSets(sets.into_iter().map(set).collect()))]
            }
        };
        if group_expr.is_empty() && calls.is_empty() {
            // HAVING without GROUP BY and aggregates: one group without columns.
            let (count, _) = wrapped(AggregateKind::Count, hobt_types::SqlType::Int, Collation::default())?;
            let one = Expr::Literal(ScalarValue::Int32(Some(1)), None);
            calls.push(plain_call(count, vec![one]).alias(self.fresh("rows")));
        }
        let plan = LogicalPlan::Aggregate(Aggregate::try_new(shared(plan), group_expr, calls).map_err(sql_error_of)?);
        Ok(Groups { plan, has_sets, outputs, aggregates: columns })
    }

    /// Makes every key a column.
    fn project_keys(&self, plan: LogicalPlan, keys: &[BoundExpr]) -> Result<(LogicalPlan, Vec<Column>), SqlError> {
        let mut added = Vec::new();
        let mut columns = Vec::with_capacity(keys.len());
        for bound in keys {
            match key(bound) {
                Expr::Column(column) => columns.push(column),
                other => {
                    let name = self.fresh("key");
                    added.push(other.alias(&name));
                    columns.push(Column::new_unqualified(name));
                }
            }
        }
        if added.is_empty() {
            return Ok((plan, columns));
        }
        let all = plan.schema().columns().into_iter().map(Expr::Column).chain(added).collect();
        let projection = Projection::try_new(all, shared(plan)).map_err(sql_error_of)?;
        Ok((LogicalPlan::Projection(projection), columns))
    }

    fn sets(&self, group_by: &GroupBy, site: Site<'_>) -> Result<Sets, SqlError> {
        let mut keys: Vec<BoundExpr> = Vec::new();
        let mut product: Vec<Vec<usize>> = vec![vec![]];
        for item in &group_by.items {
            let sets = self.item_sets(item, &mut keys, site)?;
            let mut next = Vec::with_capacity(product.len() * sets.len());
            for left in &product {
                for right in &sets {
                    next.push(joined(left, right));
                }
            }
            product = next;
            check_count(product.len(), group_by.span.position)?;
        }
        match group_by.modifier {
            Some(GroupByModifier::Rollup) => {
                let all: Vec<Vec<usize>> = (0..keys.len()).map(|place| vec![place]).collect();
                product = rollup(&all);
            }
            Some(GroupByModifier::Cube) => {
                let all: Vec<Vec<usize>> = (0..keys.len()).map(|place| vec![place]).collect();
                check_cube(all.len(), group_by.span.position)?;
                product = cube(&all);
            }
            None => {}
        }
        // Only empty sets: one group of all rows, which in DataFusion is an aggregate without GROUP BY.
        let has_sets = has_sets(group_by) && !(keys.is_empty() && product.len() == 1);
        Ok(Sets { keys, sets: has_sets.then_some(product) })
    }

    /// The sets that one item stands for, as indexes into `keys`.
    fn item_sets(
        &self,
        item: &GroupingItem,
        keys: &mut Vec<BoundExpr>,
        site: Site<'_>,
    ) -> Result<Vec<Vec<usize>>, SqlError> {
        Ok(match item {
            GroupingItem::Value(value) => vec![vec![self.group_key(value, keys, site)?]],
            GroupingItem::Composite(values) => {
                let places = values.iter().map(|value| self.group_key(value, keys, site));
                vec![places.collect::<Result<_, _>>()?]
            }
            GroupingItem::Rollup(items) => rollup(&self.single_sets(items, keys, site)?),
            GroupingItem::Cube(items) => {
                check_cube(items.len(), site_position(items))?;
                cube(&self.single_sets(items, keys, site)?)
            }
            GroupingItem::Sets(items) => {
                let mut sets = Vec::new();
                for item in items {
                    sets.extend(self.item_sets(item, keys, site)?);
                }
                sets
            }
        })
    }

    /// The items of a `ROLLUP` or `CUBE`, each as one set.
    fn single_sets(
        &self,
        items: &[GroupingItem],
        keys: &mut Vec<BoundExpr>,
        site: Site<'_>,
    ) -> Result<Vec<Vec<usize>>, SqlError> {
        let mut single = Vec::with_capacity(items.len());
        for item in items {
            single.extend(self.item_sets(item, keys, site)?);
        }
        Ok(single)
    }

    fn group_key(&self, value: &Expression, keys: &mut Vec<BoundExpr>, site: Site<'_>) -> Result<usize, SqlError> {
        let mut bound = self.expression(value, site)?;
        if bound.foldable {
            bound = self.unfolded(|| self.expression(value, site))?;
        }
        if !bound.expr.any_column_refs() {
            return Err(errors::GROUP_BY_OUTER_REFERENCE.error().at(bound.position));
        }
        if let Some(place) = keys.iter().position(|known| known.expr == bound.expr) {
            return Ok(place);
        }
        keys.push(bound);
        Ok(keys.len() - 1)
    }
}

fn site_position(items: &[GroupingItem]) -> Position {
    match items.first() {
        Some(GroupingItem::Value(value)) => value.position(),
        _ => Position::default(),
    }
}

fn too_many() -> SqlError {
    errors::TOO_MANY_GROUPING_SETS.with([&SETS_LIMIT])
}

fn check_count(count: usize, position: Position) -> Result<(), SqlError> {
    if count > SETS_LIMIT { Err(too_many().at(position)) } else { Ok(()) }
}

fn check_cube(items: usize, position: Position) -> Result<(), SqlError> {
    if items > 12 { Err(too_many().at(position)) } else { Ok(()) }
}

fn joined(left: &[usize], right: &[usize]) -> Vec<usize> {
    let mut all = left.to_vec();
    all.extend(right.iter().copied().filter(|place| !left.contains(place)));
    all
}

/// The places of keys in the order in which sets first have them, which is the order of the bits of a set's number from
/// the highest.
fn bit_order(sets: &[Vec<usize>]) -> Vec<usize> {
    let mut order = Vec::new();
    for place in sets.iter().flatten() {
        if !order.contains(place) {
            order.push(*place);
        }
    }
    order
}

/// All items, all but the last, …, none.
fn rollup(items: &[Vec<usize>]) -> Vec<Vec<usize>> {
    (0..=items.len()).rev().map(|count| items[..count].iter().fold(vec![], |all, item| joined(&all, item))).collect()
}

/// Every subset of the items.
fn cube(items: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let subset = |bits: usize| {
        let chosen = items.iter().enumerate().filter(move |(place, _)| bits & (1 << place) != 0);
        chosen.fold(vec![], |all: Vec<usize>, (_, item)| joined(&all, item))
    };
    (0..1usize << items.len()).rev().map(subset).collect()
}

impl Groups {
    /// Rewrites an expression over the input in terms of the aggregation's columns.
    ///
    /// # Errors
    /// 8120, 8121, 8127 by `clause` for a column that is neither grouped nor aggregated.
    pub(super) fn rewrite(
        &self,
        expr: Expr,
        scope: &Scope,
        clause: Clause,
        position: Position,
    ) -> Result<Expr, SqlError> {
        expr.transform_down(|node| self.replace(node, scope, clause))
            .map(|transformed| transformed.data)
            .map_err(|error| sql_error_of(error).at(position))
    }

    fn replace(&self, node: Expr, scope: &Scope, clause: Clause) -> datafusion::common::Result<Transformed<Expr>> {
        if let Some((_, output)) = self.outputs.iter().find(|(input, _)| *input == node) {
            return Ok(Transformed::new(output.clone(), true, TreeNodeRecursion::Jump));
        }
        match node {
            Expr::Column(column) if !self.aggregates.contains(&column) => match scope.display_name(&column) {
                Some(name) => Err(external(ungrouped(&name, clause))),
                None => Ok(Transformed::no(Expr::Column(column))),
            },
            Expr::ScalarSubquery(subquery) => Ok(Transformed::yes(Expr::ScalarSubquery(self.inside(subquery)?))),
            Expr::Exists(mut exists) => {
                exists.subquery = self.inside(exists.subquery)?;
                Ok(Transformed::yes(Expr::Exists(exists)))
            }
            Expr::InSubquery(mut within) => {
                within.subquery = self.inside(within.subquery)?;
                Ok(Transformed::yes(Expr::InSubquery(within)))
            }
            other => Ok(Transformed::no(other)),
        }
    }

    /// A subquery with its outer columns replaced by those of the aggregation.
    fn inside(&self, subquery: Subquery) -> Result<Subquery, DataFusionError> {
        if subquery.outer_ref_columns.is_empty() {
            return Ok(subquery);
        }
        let replaced = subquery.subquery.as_ref().clone().transform_down_with_subqueries(|plan| {
            plan.map_expressions(|expr| {
                expr.transform_down(|node| {
                    let Expr::OuterReferenceColumn(field, column) = &node else { return Ok(Transformed::no(node)) };
                    let input = Expr::Column(column.clone());
                    let output = self.outputs.iter().find(|(known, _)| *known == input).map(|(_, output)| output);
                    match output {
                        Some(Expr::Column(grouped)) => {
                            Ok(Transformed::yes(Expr::OuterReferenceColumn(field.clone(), grouped.clone())))
                        }
                        _ => Ok(Transformed::no(node)),
                    }
                })
            })
        })?;
        Ok(crate::subquery_expr::subquery_of(replaced.data))
    }
}

fn ungrouped(name: &str, clause: Clause) -> SqlError {
    match clause {
        Clause::Having => errors::NOT_IN_GROUP_BY_HAVING.with([&name]),
        Clause::OrderBy => errors::NOT_IN_GROUP_BY_ORDER.with([&name]),
        _ => errors::NOT_IN_GROUP_BY.with([&name]),
    }
}
