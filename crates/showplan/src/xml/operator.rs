//! Operators as XML.

use super::element::Element;
use super::milliseconds;
use super::scalar::{
    column, columns, expression, object, order_by, scalar, seek_predicate, seek_predicates, some_columns,
};
use crate::text::lacks_join_predicate;
use crate::{Actual, Detail, Exchange, PlanColumn, PlanExpr, PlanNode, WorkerActual};

/// An operator with all operators below it.
pub(super) fn rel_op(node: &PlanNode) -> Element {
    let estimate = node.estimate;
    let mode = if matches!(node.detail, Detail::Change { .. }) { "Row" } else { "Batch" };
    let element = Element::new("RelOp")
        .attribute("AvgRowSize", estimate.row_bytes.round())
        .attribute("EstimateCPU", estimate.cpu)
        .attribute("EstimateIO", estimate.io)
        .attribute("EstimateRebinds", (estimate.executions - 1.0).max(0.0))
        .attribute("EstimateRewinds", 0)
        .attribute("EstimatedExecutionMode", mode)
        .attribute("EstimateRows", estimate.rows_at_once())
        .optional("EstimatedRowsRead", estimate.rows_read.map(|rows| rows / estimate.executions.max(1.0)))
        .attribute("LogicalOp", node.logical)
        .attribute("NodeId", node.id)
        .attribute("Parallel", node.is_parallel)
        .optional("Partitioned", is_partitioned(node).then_some(true))
        .attribute("PhysicalOp", node.physical)
        .optional("IsAdaptive", is_adaptive(node).then_some(true))
        .optional("AdaptiveThresholdRows", threshold(node))
        .attribute("EstimatedTotalSubtreeCost", estimate.subtree)
        .optional("TableCardinality", estimate.table_rows)
        .optional("EstimatedJoinType", node.is_thought_to_look_up().map(join_type));
    element
        .child(columns("OutputList", &node.output))
        .children(warnings(node))
        .children(node.actual.as_ref().and_then(|actual| run_time(node, actual, mode)))
        .child(particular(node))
}

fn is_partitioned(node: &PlanNode) -> bool {
    matches!(node.detail, Detail::Read { partitions: Some(_), .. })
}

fn is_adaptive(node: &PlanNode) -> bool {
    matches!(node.detail, Detail::AdaptiveJoin { .. })
}

/// SQL Server's name for the method that an adaptive join chose.
fn join_type(looks_up: bool) -> &'static str {
    if looks_up { "Nested Loops" } else { "Hash Match" }
}

fn threshold(node: &PlanNode) -> Option<f64> {
    match node.detail {
        Detail::AdaptiveJoin { threshold, .. } => Some(threshold),
        _ => None,
    }
}

fn warnings(node: &PlanNode) -> Option<Element> {
    let actual = node.actual.as_ref().filter(|actual| actual.spills > 0);
    let lacks = lacks_join_predicate(node);
    if actual.is_none() && !lacks {
        return None;
    }
    let pages = |actual: &Actual| actual.spilled_bytes.div_ceil(8192);
    let spill = actual.map(|actual| {
        let element = Element::new("SpillToTempDb").attribute("SpillLevel", actual.spill_level);
        element.attribute("SpilledThreadCount", actual.spilled_workers)
    });
    let name = match node.detail {
        Detail::Sort { .. } => "SortSpillDetails",
        _ => "HashSpillDetails",
    };
    let details = actual.map(|actual| {
        Element::new(name).attribute("WritesToTempDb", pages(actual)).attribute("ReadsFromTempDb", pages(actual))
    });
    let element = Element::new("Warnings").optional("NoJoinPredicate", lacks.then_some(true));
    if actual.is_none() {
        // The schema requires at least one child here.
        return Some(element.child(columns("ColumnsWithNoStatistics", &[])));
    }
    Some(element.children(spill).children(details))
}

fn run_time(node: &PlanNode, actual: &Actual, mode: &'static str) -> Option<Element> {
    let joined = match node.detail {
        Detail::AdaptiveJoin { looked_up: Some(looked_up), .. } => Some(join_type(looked_up)),
        _ => None,
    };
    let of_worker = |worker: &WorkerActual| {
        let reads = worker.reads;
        Element::new("RunTimeCountersPerThread")
            .attribute("Thread", worker.worker)
            .attribute("ActualRows", worker.rows)
            .optional("ActualRowsRead", worker.rows_read)
            .optional("Batches", worker.batches)
            .attribute("ActualEndOfScans", worker.executions)
            .attribute("ActualExecutions", worker.executions)
            .attribute("ActualExecutionMode", mode)
            .optional("ActualElapsedms", worker.elapsed.map(milliseconds))
            .attribute("ActualCPUms", milliseconds(worker.cpu))
            .optional("ActualScans", reads.map(|_| worker.executions))
            .optional("ActualLogicalReads", reads.map(|reads| reads.logical))
            .optional("ActualPhysicalReads", reads.map(|reads| reads.physical))
            .optional("ActualReadAheads", reads.map(|reads| reads.read_ahead))
            .optional("ActualLocallyAggregatedRows", worker.rows_aggregated)
            .optional("ActualJoinType", joined)
    };
    let element = Element::new("RunTimeInformation").children(actual.workers.iter().map(of_worker));
    (!actual.workers.is_empty()).then_some(element)
}

/// The element of the operator's kind, with the operators below it.
fn particular(node: &PlanNode) -> Element {
    let below = || node.children.iter().map(rel_op);
    let begun = |name| Element::new(name).child(defined_values(node));
    match &node.detail {
        Detail::Read { .. } => read(node),
        Detail::HashJoin { .. }
        | Detail::AdaptiveJoin { .. }
        | Detail::NestedLoops { .. }
        | Detail::MergeJoin { .. } => join(node).children(below()),
        Detail::HashAggregate { groups } => {
            begun("Hash").children(some_columns("HashKeysBuild", groups)).children(below())
        }
        Detail::StreamAggregate { groups } => {
            begun("StreamAggregate").children(some_columns("GroupBy", groups)).children(below())
        }
        Detail::Sort { by, top } => {
            let rows = top.map(|rows| i32::try_from(rows).unwrap_or(i32::MAX));
            let element = begun(if top.is_some() { "TopSort" } else { "Sort" }).attribute("Distinct", false);
            element.optional("Rows", rows).child(order_by(by)).children(below())
        }
        Detail::Top { rows, offset } => top(node, *rows, *offset).children(below()),
        Detail::Parallelism { exchange, keys, by } => {
            let kind = match exchange {
                Exchange::Hash => Some("Hash"),
                Exchange::RoundRobin => Some("RoundRobin"),
                Exchange::Range => Some("Range"),
                Exchange::Gather => None,
            };
            begun("Parallelism")
                .optional("PartitioningType", kind)
                .children(some_columns("PartitionColumns", keys))
                .children((!by.is_empty()).then(|| order_by(by)))
                .children(below())
        }
        Detail::Change { indexes } => {
            let objects = node.object.iter().chain(indexes).map(object);
            begun("Update").attribute("DMLRequestSort", false).children(objects).children(below())
        }
        Detail::ConstantScan { .. } => begun("ConstantScan"),
        Detail::TableFunction => begun("TableValuedFunction").children(node.object.as_ref().map(object)),
        Detail::Filter => {
            let always = PlanExpr::Constant("(1)".to_owned());
            let predicate = expression("Predicate", node.predicate.as_ref().unwrap_or(&always));
            begun("Filter").attribute("StartupExpression", false).children(below()).child(predicate)
        }
        Detail::ComputeScalar => begun("ComputeScalar").children(below()),
        Detail::Concatenation => begun("Concat").children(below()),
        Detail::Spool { seek } => begun("Spool").children(seek_predicate(seek)).children(below()),
        Detail::Sequence => begun("Sequence").children(below()),
        Detail::Window { .. } => begun("WindowAggregate").children(below()),
        Detail::Generic(_) => begun("Generic").children(below()),
    }
}

/// A join, without its inputs.
fn join(node: &PlanNode) -> Element {
    let begun = |name| Element::new(name).child(defined_values(node));
    let rest = |residual: &Option<PlanExpr>, name| residual.as_ref().map(|residual| expression(name, residual));
    match &node.detail {
        Detail::HashJoin { build, probe, residual } => begun("Hash")
            .optional("BitmapCreator", (!node.defined.is_empty()).then_some(true))
            .children(some_columns("HashKeysBuild", build))
            .children(some_columns("HashKeysProbe", probe))
            .children(rest(residual, "ProbeResidual")),
        Detail::AdaptiveJoin { build, probe, outer, residual, .. } => begun("AdaptiveJoin")
            .optional("BitmapCreator", (!node.defined.is_empty()).then_some(true))
            .attribute("Optimized", false)
            .children(some_columns("HashKeysBuild", build))
            .children(some_columns("HashKeysProbe", probe))
            .children(rest(residual, "ProbeResidual"))
            .children(some_columns("OuterReferences", outer)),
        Detail::MergeJoin { left, right, residual } => begun("Merge")
            .attribute("ManyToMany", true)
            .child(columns("InnerSideJoinColumns", right))
            .child(columns("OuterSideJoinColumns", left))
            .children(rest(residual, "Residual")),
        Detail::NestedLoops { outer } => begun("NestedLoops")
            .attribute("Optimized", false)
            .children(rest(&node.predicate, "Predicate"))
            .children(some_columns("OuterReferences", outer)),
        _ => begun("Generic"),
    }
}

/// A `Top`, without its input.
fn top(node: &PlanNode, rows: Option<u64>, offset: u64) -> Element {
    let constant = |rows: u64| PlanExpr::Constant(format!("({rows})"));
    Element::new("Top")
        .attribute("RowCount", false)
        .attribute("IsPercent", false)
        .attribute("WithTies", false)
        .child(defined_values(node))
        .children((offset > 0).then(|| expression("OffsetExpression", &constant(offset))))
        .children(rows.map(|rows| expression("TopExpression", &constant(rows))))
}

fn defined_values(node: &PlanNode) -> Element {
    let one = |(made, expr): &(PlanColumn, Option<PlanExpr>)| {
        Element::new("DefinedValue").child(column(made)).children(expr.as_ref().map(scalar))
    };
    Element::new("DefinedValues").children(node.defined.iter().map(one))
}

fn read(node: &PlanNode) -> Element {
    let Detail::Read { seek, is_ordered, is_backward, looks_up, .. } = &node.detail else {
        return Element::new("Generic");
    };
    let predicate = node.condition().map(|condition| expression("Predicate", &condition));
    let is_heap = node.object.as_ref().is_none_or(|object| object.index.is_none());
    if is_heap && !looks_up {
        return Element::new("TableScan")
            .attribute("Ordered", false)
            .attribute("ForcedIndex", false)
            .attribute("ForceScan", false)
            .attribute("NoExpandHint", false)
            .attribute("Storage", "RowStore")
            .child(defined_values(node))
            .children(node.object.as_ref().map(object))
            .children(predicate);
    }
    let direction = is_ordered.then_some(if *is_backward { "BACKWARD" } else { "FORWARD" });
    Element::new("IndexScan")
        .optional("Lookup", looks_up.then_some(true))
        .attribute("Ordered", is_ordered)
        .optional("ScanDirection", direction)
        .attribute("ForcedIndex", false)
        .attribute("ForceSeek", false)
        .attribute("ForceScan", false)
        .attribute("NoExpandHint", false)
        .attribute("Storage", "RowStore")
        .child(defined_values(node))
        .children(node.object.as_ref().map(object))
        .children(seek_predicates(seek))
        .children(predicate)
}
