//! How well the rows of joins are estimated, read from the plan of a statement that has run.

use hobt_showplan::{Detail, PlanNode, error_of};
use serde_json::{Value, json};

/// A join that has run.
#[derive(Clone, Debug)]
pub(super) struct JoinRows {
    /// Its number in the plan.
    node: usize,
    /// `Hash Match, Inner Join`.
    kind: String,
    estimated: f64,
    actual: u64,
    /// The ratio between actual and estimated rows, at least 1. Fewer than one row counts as one.
    pub(super) q_error: f64,
}

impl JoinRows {
    pub(super) fn to_json(&self) -> Value {
        json!({
            "node": self.node,
            "kind": self.kind,
            "estimated_rows": self.estimated,
            "actual_rows": self.actual,
            "q_error": self.q_error,
        })
    }

    /// `Hash Match, Inner Join: 5 thought, 1,000 there`.
    pub(super) fn text(&self) -> String {
        let rows = crate::figures::thousands;
        format!("{}: {} thought, {} there", self.kind, rows(self.estimated.round() as u64), rows(self.actual))
    }
}

/// The joins of a plan that have run, each before those below it.
pub(super) fn joins_of(root: &PlanNode) -> Vec<JoinRows> {
    let joins = root.all().into_iter().filter(|node| is_join(node));
    let rows = |node: &PlanNode| {
        Some(JoinRows {
            node: node.id,
            kind: format!("{}, {}", node.physical, node.logical),
            estimated: node.estimate.rows,
            actual: node.actual.as_ref()?.rows(),
            q_error: error_of(node)?,
        })
    };
    joins.filter_map(rows).collect()
}

fn is_join(node: &PlanNode) -> bool {
    matches!(
        node.detail,
        Detail::HashJoin { .. } | Detail::AdaptiveJoin { .. } | Detail::NestedLoops { .. } | Detail::MergeJoin { .. }
    )
}

#[cfg(test)]
mod tests {
    use hobt_showplan::{Actual, WorkerActual};

    use super::*;

    fn node(detail: Detail, estimated: f64, rows: Option<u64>, children: Vec<PlanNode>) -> PlanNode {
        let mut node = PlanNode::new("Hash Match", "Inner Join", detail);
        node.estimate.rows = estimated;
        node.actual = rows.map(|rows| {
            let worker = |rows| WorkerActual { rows, executions: 1, ..WorkerActual::default() };
            Actual { workers: vec![worker(rows / 2), worker(rows - rows / 2)], ..Actual::default() }
        });
        node.children = children;
        node
    }

    #[test]
    fn joins_that_ran_are_found_with_the_rows_of_all_workers() {
        let hash = || Detail::HashJoin { build: Vec::new(), probe: Vec::new(), residual: None };
        let spool = Detail::Spool { seek: Vec::new() };
        let below = vec![node(hash(), 10.0, Some(1_001), Vec::new()), node(spool, 1.0, Some(900), Vec::new())];
        let loops = Detail::NestedLoops { outer: Vec::new() };
        let tree = node(loops, 400.0, Some(100), vec![node(hash(), 7.0, None, below)]);
        let found: Vec<(u64, f64)> = joins_of(&tree).iter().map(|join| (join.actual, join.q_error)).collect();
        assert_eq!(found, [(100, 4.0), (1_001, 100.1)]);
    }
}
