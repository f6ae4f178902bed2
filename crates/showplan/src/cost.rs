//! Estimated costs of operators, in SQL Server's unit.
//!
//! A page read after another costs 0.00074, a row of a scan 0.0000011. These constants are known from SQL Server's
//! plans, so the figures look as people expect them, and the shares of a plan's operators are meaningful. They decide
//! nothing: the access path to a table is chosen by pages (`access_path`).

use super::{Detail, PlanNode};

/// The first page, and each further one.
const FIRST_PAGE: f64 = 0.003_125;
const NEXT_PAGE: f64 = 0.000_740_740_741;
/// A row that is read, hashed, compared, handed to another worker, computed with, written.
const ROW_READ: f64 = 0.000_001_1;
const ROW_HASHED: f64 = 0.000_005;
const ROW_COMPARED: f64 = 0.000_000_6;
const ROW_PASSED: f64 = 0.000_002_5;
const ROW_COMPUTED: f64 = 0.000_000_1;
const ROW_WRITTEN: f64 = 0.000_01;
/// Starting and ending the work of several workers.
const EXCHANGE: f64 = 0.028_5;

/// Sets the costs of an operator and of all below it.
pub(super) fn price(node: &mut PlanNode) {
    node.children.iter_mut().for_each(price);
    // Only one of the two branches of an adaptive join counts.
    let looks_up = node.is_thought_to_look_up();
    let inputs: Vec<&PlanNode> = match (looks_up, node.children.as_slice()) {
        (Some(looks_up), [outer, hashed, looked_up]) => vec![outer, if looks_up { looked_up } else { hashed }],
        (_, children) => children.iter().collect(),
    };
    let below: f64 = inputs.iter().map(|input| input.estimate.subtree).sum();
    let inputs: Vec<f64> = inputs.into_iter().map(|input| input.estimate.rows).collect();
    let taken: f64 = inputs.iter().sum();
    let rows = node.estimate.rows;
    let filter = if node.predicate.is_some() { ROW_COMPARED } else { 0.0 };
    node.estimate.io = match node.estimate.pages {
        pages if pages > 0.0 => FIRST_PAGE + (pages - 1.0).max(0.0) * NEXT_PAGE,
        _ => 0.0,
    };
    node.estimate.cpu = match &node.detail {
        Detail::Read { .. } => node.estimate.rows_read.unwrap_or(rows) * (ROW_READ + filter),
        Detail::AdaptiveJoin { .. } if looks_up == Some(true) => (taken + rows) * ROW_COMPARED,
        Detail::HashJoin { .. } | Detail::AdaptiveJoin { .. } | Detail::HashAggregate { .. } => {
            (taken + rows) * ROW_HASHED
        }
        Detail::NestedLoops { outer } if outer.is_empty() => inputs.iter().product::<f64>() * ROW_COMPARED,
        Detail::NestedLoops { .. } | Detail::MergeJoin { .. } => (taken + rows) * ROW_COMPARED,
        Detail::Sort { .. } => taken * taken.max(2.0).log2() * ROW_COMPARED,
        Detail::Spool { seek } if !seek.is_empty() => taken * taken.max(2.0).log2() * ROW_COMPARED,
        Detail::Parallelism { .. } => EXCHANGE + taken * ROW_PASSED,
        Detail::Change { indexes } => taken * ROW_WRITTEN * (1.0 + indexes.len() as f64),
        Detail::StreamAggregate { .. } | Detail::Window { .. } | Detail::Filter => taken * ROW_COMPARED,
        Detail::ConstantScan { .. } | Detail::TableFunction => rows * ROW_READ,
        _ => taken * ROW_COMPUTED,
    };
    node.estimate.subtree = node.estimate.io + node.estimate.cpu + below;
}
