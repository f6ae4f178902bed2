//! Finds the operator with the worst estimate.
//!
//! An estimate is of the rows that an operator gives without the filters that joins above push down to it. So the rows
//! that filters left out are added, up to the join that made the filter. An estimate also assumes that the operator
//! runs to its end, and as often as estimated. So an operator that was executed more often is expected to give more
//! rows. One that was stopped early is not wrong because it gave fewer.

use std::collections::BTreeSet;

use super::{Detail, PlanColumn, PlanExpr, PlanNode};

/// The least factor of an error that is shown.
const NOTABLE: f64 = 2.0;

/// An operator that has run, with its estimate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Judged {
    /// The estimated rows, for the actual number of executions.
    pub expected: f64,
    /// Rows that it gave, or would have given without filters of joins above.
    pub rows: f64,
    /// The factor between the two, whichever is larger; 1 or more.
    pub times: f64,
}

impl Judged {
    /// Compares with a range: any number of rows from `expected.0` to `expected.1` is right.
    fn of(expected: (f64, f64), rows: f64) -> Judged {
        // Less than one row counts as one.
        let (low, high, given) = (expected.0.max(1.0), expected.1.max(1.0), rows.max(1.0));
        let expected = rows.max(expected.0).min(expected.1);
        Judged { expected, rows, times: (low / given).max(given / high).max(1.0) }
    }
}

/// The operator with the worst row estimate, and its error; `None` if no estimate was wrong by a factor of two. Of
/// several with equal errors it is the lowest one, where the error begins.
pub fn worst_estimate(root: &PlanNode) -> Option<(&PlanNode, Judged)> {
    let mut worst: Option<(&PlanNode, Judged)> = None;
    for (node, judged) in root.all().into_iter().zip(judge(root)) {
        let Some(judged) = judged.filter(|judged| judged.times >= NOTABLE) else { continue };
        // Later nodes are further down, or beside.
        if worst.is_none_or(|(_, known)| judged.times >= known.times * 0.999) {
            worst = Some((node, judged));
        }
    }
    worst
}

/// The error of each operator's estimate, in the order of their numbers; `None` for one that has not run, or for which
/// it is not known what it would have given.
pub fn judge(root: &PlanNode) -> Vec<Option<Judged>> {
    let mut judged = Vec::new();
    judge_below(root, Place::default(), &mut judged);
    judged
}

/// The factor between an operator's actual and estimated rows, whichever is larger, regardless of the operators above
/// it. `None` if it has not run, or if joins' filters left so much out that it cannot be told.
pub fn error_of(node: &PlanNode) -> Option<f64> {
    judged(node, Place::default()).map(|judged| judged.times)
}

/// The context of an operator, from the operators above it.
#[derive(Clone, Copy, Default)]
struct Place {
    /// Whether the operators above may not have read all of its rows.
    may_stop: bool,
    /// For the inner side of loops: the number of outer rows, each of which may have started it.
    outer_rows: Option<u64>,
}

fn judge_below(node: &PlanNode, place: Place, all: &mut Vec<Option<Judged>>) {
    all.push(judged(node, place));
    for (at, child) in node.children.iter().enumerate() {
        judge_below(child, place.of_child(node, at), all);
    }
}

impl Place {
    fn of_child(self, node: &PlanNode, at: usize) -> Place {
        let rows =
            |child: usize| node.children.get(child).and_then(|child| child.actual.as_ref()).map(|done| done.rows());
        let same = |may_stop| Place { may_stop, ..self };
        match &node.detail {
            Detail::Top { .. } => same(true),
            // These operators read all of their input before they give a row.
            Detail::Sort { .. } | Detail::HashAggregate { .. } | Detail::Change { .. } => same(false),
            Detail::StreamAggregate { groups } if groups.is_empty() => same(false),
            Detail::Sequence if at + 1 < node.children.len() => same(false),
            Detail::HashJoin { .. } | Detail::AdaptiveJoin { .. } if at == 0 => same(false),
            // No row joins an empty side, so the other may not be read.
            Detail::HashJoin { .. } | Detail::AdaptiveJoin { .. } => same(self.may_stop || rows(0) == Some(0)),
            // A merge ends with the side that ends first, unless it outputs rows without partners.
            Detail::MergeJoin { .. } => same(match (node.logical, at) {
                ("Left Outer Join" | "Left Anti Semi Join", 0) | ("Right Outer Join" | "Right Anti Semi Join", 1) => {
                    self.may_stop
                }
                ("Full Outer Join", _) => self.may_stop,
                _ => true,
            }),
            Detail::NestedLoops { outer } if at == 1 && !outer.is_empty() => Place {
                // Other joins need only an outer row's first partner, or also expect outer rows without one.
                may_stop: self.may_stop || node.logical != "Inner Join",
                outer_rows: Some(rows(0).unwrap_or(0)),
            },
            _ => self,
        }
    }
}

fn judged(node: &PlanNode, place: Place) -> Option<Judged> {
    let executions = node.actual.as_ref().map(super::Actual::executions).filter(|executions| *executions > 0)?;
    let mut times_begun = 1.0;
    if let Some(outer_rows) = place.outer_rows {
        // A lookup for all outer rows together is estimated to give what the join gives, and is judged there.
        if executions != outer_rows {
            return None;
        }
        times_begun = executions as f64 / node.estimate.executions.max(1.0);
    }
    let (fewest, most) = given_by_workers(node);
    let expected = node.estimate.rows * times_begun;
    let judged = Judged::of((expected * fewest, expected * most), unfiltered(node)?);
    (!place.may_stop || judged.rows >= judged.expected.max(1.0)).then_some(judged)
}

/// The factors on an estimate for the fewest and the most rows that all workers together give: each worker gives its
/// own first rows, or its own groups.
fn given_by_workers(node: &PlanNode) -> (f64, f64) {
    let workers = node.actual.as_ref().map_or(1, |actual| actual.workers.len().max(1)) as f64;
    match (&node.detail, node.children.as_slice()) {
        (Detail::Top { .. } | Detail::Sort { top: Some(_), .. }, _) => (1.0, workers),
        (Detail::HashAggregate { .. }, _) if node.logical == "Partial Aggregate" => (1.0 / workers, 1.0),
        // These give the rows that they take.
        (Detail::Parallelism { .. } | Detail::ComputeScalar | Detail::Sort { .. }, [input]) => given_by_workers(input),
        _ => (1.0, 1.0),
    }
}

/// The rows that an operator would have given if joins above had pushed no filter to it or below it; `None` if that
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
        // Rows that were left out are assumed to fulfil the condition as often as others.
        let kept = |passed: f64| rows + filtered * rows / passed;
        return (passed > 0.0 && read > 0.0).then(|| kept(passed) * (1.0 + skipped / read));
    }
    if open_bitmaps(node).is_empty() {
        return Some(rows);
    }
    let times = |input: &PlanNode| {
        let given = input.actual.as_ref().map_or(0, |actual| actual.rows()) as f64;
        let all = unfiltered(input)?;
        if all == given { Some(1.0) } else { (given > 0.0).then(|| all / given) }
    };
    match (node.logical, node.children.as_slice()) {
        // Rows left out of the other side do not reduce the output.
        ("Left Outer Join" | "Left Semi Join" | "Left Anti Semi Join", [shown, ..])
        | ("Right Outer Join" | "Right Semi Join" | "Right Anti Semi Join", [_, shown]) => Some(rows * times(shown)?),
        // Rows that one filter leaves out of both sides would have joined each other.
        (_, [left, right]) if !open_bitmaps(left).is_disjoint(&open_bitmaps(right)) => {
            Some(rows * times(left)?.max(times(right)?))
        }
        (_, inputs) => inputs.iter().map(times).try_fold(rows, |rows, times| Some(rows * times?)),
    }
}

/// The filters of joins above an operator that left out rows below it, or in it.
fn open_bitmaps(node: &PlanNode) -> BTreeSet<&str> {
    let all = node.all();
    let is_made = |bitmap: &PlanColumn| all.iter().any(|node| node.defined.iter().any(|(made, _)| made == bitmap));
    let leaves_out = |node: &&&PlanNode| node.actual.as_ref().is_some_and(|done| done.filtered + done.skipped > 0);
    let probed = all.iter().filter(leaves_out).flat_map(|node| node.probes.iter()).filter_map(bitmap_of);
    probed.filter(|bitmap| !is_made(bitmap)).map(|bitmap| bitmap.name.as_str()).collect()
}

/// The bitmap of a probe.
fn bitmap_of(probe: &PlanExpr) -> Option<&PlanColumn> {
    let PlanExpr::Function { arguments, .. } = probe else { return None };
    match arguments.first() {
        Some(PlanExpr::Column(bitmap)) => Some(bitmap),
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{Actual, Detail, WorkerActual};

    /// An operator that has run.
    pub(crate) fn node(estimated: f64, rows: u64, children: Vec<PlanNode>) -> PlanNode {
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
        let (worst, judged) = worst_estimate(&tree).expect("one is wrong");
        assert_eq!((worst.id, judged), (1, Judged { expected: 10.0, rows: 1000.0, times: 100.0 }));
    }

    /// A scan of which a join's filter has left out some rows.
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
        // The operator between the scan and the join gives fewer rows by the same factor.
        let mut join = node(400.0, 446, vec![node(1.0, 1, vec![]), node(2500.0, 223, vec![scan(5000.0, 446, 4600)])]);
        join.defined = vec![(PlanColumn::made("Bitmap1001"), None)];
        assert_eq!(worst_estimate(&join), None);
        // The join's estimate is of its own rows.
        join.estimate.rows = 4460.0;
        assert_eq!(worst_estimate(&join).map(|(node, judged)| (node.children.len(), judged.times)), Some((2, 10.0)));
        // An estimate that is wrong without the filter stays wrong.
        assert_eq!(error_of(&scan(5000.0, 446, 54)), Some(10.0));
        // The filter let 1,000 rows pass, of which 100 fulfilled the condition. So 1,000 of all 10,000 would.
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

    /// An operator of which each worker has given a part of the rows.
    fn with(
        detail: Detail,
        logical: &'static str,
        (estimated, rows): (f64, &[u64]),
        children: Vec<PlanNode>,
    ) -> PlanNode {
        let mut node = node(estimated, 0, children);
        (node.detail, node.logical) = (detail, logical);
        let worker = |&rows: &u64| WorkerActual { rows, executions: 1, ..WorkerActual::default() };
        node.actual = Some(Actual { workers: rows.iter().map(worker).collect(), ..Actual::default() });
        node
    }

    #[test]
    fn what_each_worker_gives_is_not_what_one_was_expected_to() {
        let top = |rows: &[u64]| with(Detail::Top { rows: Some(5), offset: 0 }, "Top", (5.0, rows), vec![]);
        let sort = |rows: &[u64]| with(Detail::Sort { by: Vec::new(), top: Some(5) }, "TopN Sort", (5.0, rows), vec![]);
        assert_eq!(worst_estimate(&top(&[5, 5, 5, 5])), None);
        assert_eq!(worst_estimate(&sort(&[5, 5, 1, 5])), None);
        assert_eq!(error_of(&sort(&[10, 10, 10, 10])), Some(2.0));
        assert_eq!(error_of(&sort(&[1, 0, 0, 0])), Some(5.0));
        let groups = |rows: &[u64]| {
            with(Detail::HashAggregate { groups: Vec::new() }, "Partial Aggregate", (20.0, rows), vec![])
        };
        let exchange = Detail::Parallelism { exchange: crate::Exchange::Hash, keys: Vec::new(), by: Vec::new() };
        let spread = |rows: &[u64]| with(exchange.clone(), "Repartition Streams", (20.0, rows), vec![groups(rows)]);
        assert_eq!(worst_estimate(&spread(&[10, 0])), None);
        assert_eq!(worst_estimate(&spread(&[10, 10])), None);
        assert_eq!(
            worst_estimate(&spread(&[40, 40])).map(|(node, judged)| (node.logical, judged.times)),
            Some(("Partial Aggregate", 4.0))
        );
    }

    #[test]
    fn what_was_begun_more_often_is_expected_to_give_more() {
        let loops = |logical, outer: u64, given: u64, begun: u64| {
            let outer_refs = Detail::NestedLoops { outer: vec![PlanColumn::made("a")] };
            let mut seek = node(40.0, given, vec![]);
            seek.estimate.executions = 10.0;
            seek.actual.as_mut().expect("it has run").workers[0].executions = begun;
            with(outer_refs, logical, (given as f64, &[given]), vec![node(10.0, outer, vec![]), seek])
        };
        // Four rows for each of 1,000: the error is the outer side's.
        let wrong = |tree: &PlanNode| worst_estimate(tree).map(|(node, judged)| (node.estimate.rows, judged.times));
        assert_eq!(wrong(&loops("Inner Join", 1000, 4000, 1000)), Some((10.0, 100.0)));
        assert_eq!(wrong(&loops("Inner Join", 10, 4000, 10)), Some((40.0, 100.0)));
        assert_eq!(wrong(&loops("Inner Join", 10, 4, 10)), Some((40.0, 10.0)));
        // An outer join is expected to give rows without a partner.
        assert_eq!(wrong(&loops("Left Outer Join", 10, 0, 10)), None);
        // All rows were looked up together: an inner row with two partners was read once.
        assert_eq!(wrong(&loops("Inner Join", 10, 4, 1)), None);
    }

    #[test]
    fn who_was_not_asked_for_the_rest_is_not_wrong() {
        let top = |input: PlanNode| with(Detail::Top { rows: Some(5), offset: 0 }, "Top", (5.0, &[5]), vec![input]);
        assert_eq!(worst_estimate(&top(node(5000.0, 5, vec![]))), None);
        let sort =
            |input: PlanNode| with(Detail::Sort { by: Vec::new(), top: None }, "Sort", (5000.0, &[5]), vec![input]);
        let read_whole = top(sort(node(5000.0, 50, vec![])));
        assert_eq!(
            worst_estimate(&read_whole).map(|(node, judged)| (node.logical, judged.times)),
            Some(("Filter", 100.0))
        );
        assert!(worst_estimate(&top(node(5.0, 500, vec![]))).is_some(), "more than was thought is wrong all the same");
        let (build, probe, residual) = (Vec::new(), Vec::new(), None);
        let hash = Detail::HashJoin { build, probe, residual };
        let join = with(hash, "Inner Join", (0.0, &[0]), vec![node(1.0, 0, vec![]), node(5000.0, 0, vec![])]);
        assert_eq!(worst_estimate(&join), None);
    }

    #[test]
    fn what_a_filter_leaves_out_of_a_side_counts_as_the_join_shows_it() {
        let hash = || Detail::HashJoin { build: Vec::new(), probe: Vec::new(), residual: None };
        // A tenth of both sides is left.
        let sides = || vec![scan(1000.0, 100, 900), scan(1000.0, 100, 900)];
        let inner = with(hash(), "Inner Join", (1000.0, &[100]), sides());
        assert_eq!(worst_estimate(&inner), None);
        let outer = with(
            hash(),
            "Left Outer Join",
            (1000.0, &[1000]),
            vec![node(1000.0, 1000, vec![]), scan(1000.0, 100, 900)],
        );
        assert_eq!(worst_estimate(&outer), None);
    }
}
