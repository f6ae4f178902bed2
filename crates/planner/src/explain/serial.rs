//! Shows a plan that runs on one worker. An operator that gathers the rows of partitions exchanges nothing there, and
//! is not shown.

use hobt_access::scan::WorkerReads;

use hobt_showplan::{Actual, Detail, PlanNode, WorkerActual};

/// The plan as one worker runs it.
pub(super) fn on_one_worker(mut node: PlanNode) -> PlanNode {
    node.children = std::mem::take(&mut node.children).into_iter().map(on_one_worker).collect();
    if matches!(node.detail, Detail::Parallelism { .. })
        && let Some(input) = node.children.pop()
    {
        return input;
    }
    node.is_parallel = false;
    node.actual = node.actual.map(together);
    node
}

/// The figures of all partitions, added up to those of one worker.
fn together(actual: Actual) -> Actual {
    let workers = actual.workers.into_iter().reduce(|all, one| WorkerActual {
        worker: 0,
        rows: all.rows + one.rows,
        rows_read: sum(all.rows_read, one.rows_read),
        rows_aggregated: sum(all.rows_aggregated, one.rows_aggregated),
        batches: sum(all.batches, one.batches),
        // An operator that begins once counts one execution, however many partitions it has.
        executions: if one.executions > 1 {
            all.executions + one.executions
        } else {
            all.executions.max(one.executions)
        },
        cpu: all.cpu + one.cpu,
        elapsed: all.elapsed.max(one.elapsed),
        reads: read_by_both(all.reads, one.reads),
    });
    let one = |worker: WorkerActual| WorkerActual { worker: 0, ..worker };
    let spilled_workers = actual.spilled_workers.min(1);
    Actual { workers: workers.map(one).into_iter().collect(), spilled_workers, ..actual }
}

fn read_by_both(one: Option<WorkerReads>, other: Option<WorkerReads>) -> Option<WorkerReads> {
    let (Some(one), Some(other)) = (one, other) else { return one.or(other) };
    Some(WorkerReads {
        logical: one.logical + other.logical,
        physical: one.physical + other.physical,
        read_ahead: one.read_ahead + other.read_ahead,
    })
}

fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        (one, other) => one.or(other),
    }
}
