//! Answers `MIN` and `MAX` of an index's first column from the row at one end of the index.
//!
//! ```text
//!   MIN(a), MAX(b)      Union ─┬─ 1 row of an index (a), from its front, behind NULL
//!                              └─ 1 row of an index (b), from its back
//! ```
//! The aggregates stay: they get these rows, of each partition, instead of all rows. With conditions, the index is the
//! one that the conditions seek in, if they fix each column before this one to a single value.

use std::any::Any;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions};
use hobt_access::Direction;
use hobt_catalog::IndexKind;
use hobt_functions::aggregate::{Aggregate, AggregateKind};

use super::ordered_scan::{above, has_filter, source_below};
use hobt_operators::{Leaf, ScanExec, SeekExec, trace};
use hobt_table::{JoinedColumn, KeyForm, SeekPath, is_one_value};
use hobt_udf::{SqlAggregate, external};

/// Answers `MIN` and `MAX` from the ends of indexes.
#[derive(Debug, Default)]
pub struct ExtremeSeekRule;

impl PhysicalOptimizerRule for ExtremeSeekRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|node| {
            let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(Transformed::no(node)) };
            let Some(ends) = ends(aggregate)? else { return Ok(Transformed::no(node)) };
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Ok(Transformed::yes(Arc::clone(&node).replace_children(vec![ends], options)?))
        })
        .data()
    }

    crate::named_rule!("hobt_extreme_seek");
}

/// The rows at the ends of indexes that an aggregate needs; `None` if it needs other rows.
fn ends(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let is_first = matches!(aggregate.mode(), AggregateMode::Partial | AggregateMode::Single);
    let is_plain = aggregate.group_expr().is_empty() && aggregate.filter_expr().iter().all(Option::is_none);
    if !is_first || !is_plain || aggregate.aggr_expr().is_empty() || source_below(aggregate.input()).is_none() {
        return Ok(None);
    }
    let (mut definitions, mut arguments) = (Vec::new(), Vec::new());
    for expr in aggregate.aggr_expr() {
        let function: &dyn Any = expr.fun().inner().as_ref();
        let Some(definition) = function.downcast_ref::<SqlAggregate>().map(|function| *function.aggregate()) else {
            return Ok(None);
        };
        if !matches!(definition.kind, AggregateKind::Min | AggregateKind::Max) {
            return Ok(None);
        }
        definitions.push(definition);
        arguments.push(expr.expressions().into_iter().next());
    }
    let arguments: Vec<Option<Arc<dyn PhysicalExpr>>> = arguments;
    let Some((leaf, columns)) = trace(aggregate.input(), arguments) else { return Ok(None) };
    let mut seeks: Vec<(Arc<SeekPath>, Direction)> = Vec::new();
    for (definition, column) in definitions.iter().zip(columns) {
        let Some(column) = column else { return Ok(None) };
        let Some((path, direction)) = end_of(&leaf, definition, column, has_filter(aggregate.input()))? else {
            return Ok(None);
        };
        if !seeks.iter().any(|(known, way)| known.index == path.index && *way == direction) {
            seeks.push((path, direction));
        }
    }
    let mut inputs = Vec::with_capacity(seeks.len());
    for (path, direction) in seeks {
        let (table, projection) = (Arc::clone(&leaf.table), leaf.projection.clone());
        let seek = SeekExec::in_direction(table, path, direction, projection, leaf.plan.schema());
        let limit = (!has_filter(aggregate.input())).then_some(1);
        let seek: Arc<dyn ExecutionPlan> = Arc::new(seek.knowing(Arc::clone(&leaf.predicates)).with_fetch(limit));
        let rows: Arc<dyn ExecutionPlan> = Arc::new(LocalLimitExec::new(above(aggregate.input(), &seek)?, 1));
        inputs.push(rows);
    }
    let all = if inputs.len() > 1 { UnionExec::try_new(inputs)? } else { inputs.remove(0) };
    let is_spread = all.output_partitioning().partition_count() > 1;
    Ok(Some(match aggregate.mode() {
        AggregateMode::Single if is_spread => Arc::new(CoalescePartitionsExec::new(all)),
        _ => all,
    }))
}

/// The seek to the end of an index where the least or greatest value of a column is, and the direction of reading.
fn end_of(
    leaf: &Leaf,
    definition: &Aggregate,
    column: JoinedColumn,
    has_filter: bool,
) -> Result<Option<(Arc<SeekPath>, Direction)>> {
    let table = leaf.table.table();
    let declared = &table.columns[column.column];
    if column.form == KeyForm::Compared || declared.collation.is_some_and(|known| known != definition.collation) {
        return Ok(None);
    }
    let direction = |is_descending: bool| match (definition.kind == AggregateKind::Min) != is_descending {
        true => Direction::Forward,
        false => Direction::Backward,
    };
    if let Some(seek) = leaf.seek() {
        let is_fixed = |column| leaf.predicates.iter().any(|predicate| is_one_value(predicate, column, table));
        let part = table.indexes[seek.path().index].key.iter().find(|part| !is_fixed(part.column));
        let part = part.filter(|part| part.column == column.column && !declared.nullable);
        return Ok(part.map(|part| (Arc::clone(seek.path()), direction(part.is_descending))));
    }
    let partitions = leaf.scan().map(ScanExec::partitions).filter(|_| !has_filter);
    let Some(partitions) = partitions else { return Ok(None) };
    for (at, index) in table.indexes.iter().enumerate().filter(|(_, index)| index.kind != IndexKind::Heap) {
        let may_be_read = leaf.table.hint().lets_read_all(at);
        let Some(part) = index.key.first().filter(|part| may_be_read && part.column == column.column) else {
            continue;
        };
        let path = SeekPath::whole(&leaf.table, at, &leaf.projection, partitions).map_err(external)?;
        let Some(path) = path else { continue };
        return Ok(Some((Arc::new(path.without_nulls()), direction(part.is_descending))));
    }
    Ok(None)
}
