//! The operator whose estimate was most wrong.
//!
//! An estimate is of the rows that an operator gives without filters that joins above push down to it. So what these
//! left out is counted in, up to the join that made the filter.

use super::{Detail, PlanColumn, PlanExpr, PlanNode};

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

/// How many times as many rows there were as was thought, or as few; `None` if it has not run, or if joins' filters
/// left so much out that nobody knows.
pub fn error_of(node: &PlanNode) -> Option<f64> {
    node.actual.as_ref().filter(|actual| actual.executions() > 0)?;
    // Less than one row cannot be told from one.
    let (estimated, rows) = (node.estimate.rows.max(1.0), unfiltered(node)?.max(1.0));
    Some((estimated / rows).max(rows / estimated))
}

/// Rows that an operator would have given if joins above had pushed no filter down to it or below it; `None` if that
/// cannot be told.
fn unfiltered(node: &PlanNode) -> Option<f64> {
    let Some(actual) = &node.actual else { return Some(0.0) };
    let rows = actual.rows() as f64;
    if matches!(node.detail, Detail::Read { .. }) {
        let (filtered, skipped, passed) = (actual.filtered as f64, actual.skipped as f64, actual.passed as f64);
        let read = actual.rows_read() as f64;
        if filtered + skipped == 0.0 || node.predicate.is_none() {
            return Some(rows + filtered + skipped);
        }
        // Rows that are left out are taken to fulfil the condition as often as others.
        let kept = |passed: f64| rows + filtered * rows / passed;
        return (passed > 0.0 && read > 0.0).then(|| kept(passed) * (1.0 + skipped / read));
    }
    if !is_filtered(node) {
        return Some(rows);
    }
    let times = |input: &PlanNode| {
        let given = input.actual.as_ref().map_or(0, |actual| actual.rows()) as f64;
        let all = unfiltered(input)?;
        if all == given { Some(1.0) } else { (given > 0.0).then(|| all / given) }
    };
    node.children.iter().map(times).try_fold(rows, |rows, times| Some(rows * times?))
}

/// Whether rows below an operator were left out by a filter of a join above it.
fn is_filtered(node: &PlanNode) -> bool {
    let all = node.all();
    let is_made = |bitmap: &PlanColumn| all.iter().any(|node| node.defined.iter().any(|(made, _)| made == bitmap));
    let is_open = |probe: &PlanExpr| match probe {
        PlanExpr::Function { arguments, .. } => {
            matches!(arguments.first(), Some(PlanExpr::Column(bitmap)) if !is_made(bitmap))
        }
        _ => false,
    };
    let leaves_out = |node: &&&PlanNode| node.actual.as_ref().is_some_and(|done| done.filtered + done.skipped > 0);
    all.iter().filter(leaves_out).any(|node| node.probes.iter().any(is_open))
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

    /// A scan of whose rows a join's filter has left some out.
    fn scan(estimated: f64, rows: u64, filtered: u64) -> PlanNode {
        let mut scan = node(estimated, rows, vec![]);
        let (is_ordered, is_backward, looks_up, partitions) = (false, false, false, None);
        scan.detail = Detail::Read { seek: Vec::new(), is_ordered, is_backward, looks_up, partitions };
        let arguments = vec![PlanExpr::Column(PlanColumn::made("Bitmap1001"))];
        scan.probes = vec![PlanExpr::Function { name: "PROBE".to_owned(), arguments }];
        let actual = scan.actual.as_mut().expect("it has run");
        (actual.filtered, actual.passed) = (filtered, rows);
        actual.workers[0].rows_read = Some(rows + filtered);
        scan
    }

    #[test]
    fn what_joins_filters_left_out_is_no_error() {
        // An operator between the scan and the join has as many times as few rows.
        let mut join = node(400.0, 446, vec![node(1.0, 1, vec![]), node(2500.0, 223, vec![scan(5000.0, 446, 4600)])]);
        join.defined = vec![(PlanColumn::made("Bitmap1001"), None)];
        assert_eq!(worst_estimate(&join), None);
        // The join's own rows are what its estimate is of.
        join.estimate.rows = 4460.0;
        assert_eq!(worst_estimate(&join).map(|(node, error)| (node.children.len(), error)), Some((2, 10.0)));
        // What is wrong without the filter stays so.
        assert_eq!(error_of(&scan(5000.0, 446, 54)), Some(10.0));
        // Of 1,000 rows that the filter let pass 100 fulfilled the condition, so of all 10,000 there would be 1,000.
        let mut conditional = scan(1000.0, 1000, 9000);
        conditional.predicate = Some(PlanExpr::Constant("1".to_owned()));
        conditional.actual.as_mut().expect("it has run").workers[0].rows = 100;
        assert_eq!(error_of(&conditional), Some(1.0));
        conditional.actual.as_mut().expect("it has run").skipped = 10_000;
        assert_eq!(error_of(&conditional), Some(2.0));
        conditional.actual.as_mut().expect("it has run").passed = 0;
        assert_eq!(error_of(&conditional), None);
    }

    #[test]
    fn none_is_shown_where_all_were_about_right() {
        assert_eq!(worst_estimate(&node(100.0, 150, vec![node(0.2, 0, vec![])])), None);
        let mut never_run = node(1.0, 900, vec![]);
        never_run.actual = None;
        assert_eq!(worst_estimate(&never_run), None);
    }
}
