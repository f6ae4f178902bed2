//! Which ungrouped aggregates are computed inside the scan.

use std::any::Any;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use hobt_access::scan::ScanAggregate;
use hobt_functions::aggregate::{Aggregate, AggregateKind};

use hobt_operators::{
    AggregateScanExec, ScanBelow, ScanExec, exact_tests, scan_below, scan_column, scan_number, substituted,
};
use hobt_udf::SqlAggregate;

/// Moves aggregates into the scan below them.
#[derive(Debug, Default)]
pub struct AggregateScanRule;

impl PhysicalOptimizerRule for AggregateScanRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|node| {
            Ok(match fuse(&node) {
                Some(fused) => Transformed::new(Arc::new(fused), true, TreeNodeRecursion::Jump),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    crate::named_rule!("hobt_aggregate_scan");
}

/// The fused operator for `node`, if it is an aggregate that the scan can compute.
fn fuse(node: &Arc<dyn ExecutionPlan>) -> Option<AggregateScanExec> {
    let aggregate = node.downcast_ref::<AggregateExec>()?;
    let finish = match aggregate.mode() {
        AggregateMode::Partial => false,
        AggregateMode::Single => true,
        _ => return None,
    };
    // Several empty grouping sets give a row each.
    let plain = aggregate.group_expr().is_true_no_grouping() && aggregate.filter_expr().iter().all(Option::is_none);
    if !plain || aggregate.aggr_expr().is_empty() {
        return None;
    }
    let ScanBelow { scan, columns, filter } = scan_below(aggregate.input())?;
    let source = scan.downcast_ref::<ScanExec>().filter(|source| !source.table().hint().forces_seek())?;
    let mut kinds = Vec::new();
    let mut definitions = Vec::new();
    for expr in aggregate.aggr_expr() {
        let function: &dyn Any = expr.fun().inner().as_ref();
        let definition = *function.downcast_ref::<SqlAggregate>()?.aggregate();
        let arguments = expr.expressions();
        if expr.is_distinct() || arguments.len() != 1 {
            return None;
        }
        kinds.push(scan_aggregate(&definition, &arguments[0], &columns, source)?);
        definitions.push(definition);
    }
    // A filter keeps whole pages from being added at once.
    if filter.is_some() && !kinds.iter().all(ScanAggregate::takes_slots) {
        return None;
    }
    let fused = AggregateScanExec::new(Arc::clone(&scan), kinds, definitions, finish, node.schema());
    match &filter {
        Some(filter) => fused.filtered(Arc::clone(filter), exact_tests),
        None => Some(fused),
    }
}

fn scan_aggregate(
    definition: &Aggregate,
    argument: &Arc<dyn PhysicalExpr>,
    columns: &[Arc<dyn PhysicalExpr>],
    scan: &ScanExec,
) -> Option<ScanAggregate> {
    let argument = substituted(argument, &|at| columns.get(at).cloned())?;
    let column = scan_column(&argument, scan);
    let text = definition.input.is_text();
    Some(match definition.kind {
        AggregateKind::Count | AggregateKind::CountBig => match (column, argument.downcast_ref::<Literal>()) {
            (Some(column), _) => ScanAggregate::CountColumn(column),
            (None, Some(literal)) if !literal.value().is_null() => ScanAggregate::CountRows,
            _ => return None,
        },
        AggregateKind::Min if text => ScanAggregate::MinText(column?, definition.collation),
        AggregateKind::Max if text => ScanAggregate::MaxText(column?, definition.collation),
        AggregateKind::Min => ScanAggregate::Min(scan_number(definition.input, &argument, scan)?),
        AggregateKind::Max => ScanAggregate::Max(scan_number(definition.input, &argument, scan)?),
        AggregateKind::Sum => ScanAggregate::Sum(scan_number(definition.input, &argument, scan)?),
        _ => return None,
    })
}
