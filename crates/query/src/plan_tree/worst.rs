//! The operator whose estimate was most wrong.

use super::PlanNode;

/// How wrong an estimate may be before anybody is shown it.
const NOTABLE: f64 = 2.0;

/// The operator whose rows were most wrongly estimated, and how many times as many or as few there were; `None` if none
/// was off by a factor of two. Of several alike it is the one furthest down, where the error begins.
pub fn worst_estimate(root: &PlanNode) -> Option<(&PlanNode, f64)> {
    let mut worst: Option<(&PlanNode, f64)> = None;
    for node in root.all() {
        let Some(error) = error_of(node) else { continue };
        // What comes later is further down, or beside.
        if error >= NOTABLE && worst.is_none_or(|(_, known)| error >= known * 0.999) {
            worst = Some((node, error));
        }
    }
    worst
}

/// How many times as many rows there were as was thought, or as few; `None` if it has not run.
pub fn error_of(node: &PlanNode) -> Option<f64> {
    let actual = node.actual.as_ref().filter(|actual| actual.executions() > 0)?;
    // Less than one row cannot be told from one.
    let (estimated, rows) = (node.estimate.rows.max(1.0), (actual.rows() as f64).max(1.0));
    Some((estimated / rows).max(rows / estimated))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::plan_tree::{Actual, Detail, WorkerActual};

    /// A filter that has run.
    pub(in crate::plan_tree) fn node(estimated: f64, rows: u64, children: Vec<PlanNode>) -> PlanNode {
        let mut node = PlanNode::new("Filter", "Filter", Detail::Filter);
        node.estimate.rows = estimated;
        let worker = WorkerActual { rows, executions: 1, ..WorkerActual::default() };
        node.actual = Some(Actual { workers: vec![worker], ..Actual::default() });
        node.children = children;
        node
    }

    #[test]
    fn the_worst_is_found_where_the_error_begins() {
        let mut tree = node(10.0, 1000, vec![node(10.0, 1000, vec![node(500.0, 1000, vec![])]), node(7.0, 0, vec![])]);
        tree.finish();
        let (worst, error) = worst_estimate(&tree).expect("one is wrong");
        assert_eq!((worst.id, error), (1, 100.0));
    }

    #[test]
    fn none_is_shown_where_all_were_about_right() {
        assert_eq!(worst_estimate(&node(100.0, 150, vec![node(0.2, 0, vec![])])), None);
        let mut never_run = node(1.0, 900, vec![]);
        never_run.actual = None;
        assert_eq!(worst_estimate(&never_run), None);
    }
}
