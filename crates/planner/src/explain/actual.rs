//! Run-time figures of operators, from the counters that they keep.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::metrics::MetricValue;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use hobt_operators::{PortionsCpu, SPILL_LEVEL};
use hobt_showplan::{Actual, WorkerActual};
use hobt_table::OperatorProfile;

/// The counters of a DataFusion operator; `None` if it keeps none.
pub(super) fn of_metrics(plan: &Arc<dyn ExecutionPlan>) -> Option<Actual> {
    let metrics = plan.metrics()?;
    let partitions = plan.output_partitioning().partition_count();
    let mut workers: BTreeMap<usize, WorkerActual> = BTreeMap::new();
    let (mut spills, mut spilled_bytes, mut spill_level) = (0, 0, 0);
    let mut spilling = BTreeSet::new();
    let mut times: BTreeMap<usize, (Option<i64>, Option<i64>)> = BTreeMap::new();
    for metric in metrics.iter() {
        let partition = metric.partition().unwrap_or(0).min(partitions.saturating_sub(1));
        let worker = workers.entry(partition).or_default();
        match metric.value() {
            MetricValue::OutputRows(rows) => worker.rows += rows.value() as u64,
            MetricValue::OutputBatches(batches) => *worker.batches.get_or_insert(0) += batches.value() as u64,
            MetricValue::ElapsedCompute(time) => worker.cpu += Duration::from_nanos(time.value() as u64),
            MetricValue::SpillCount(count) => {
                spills += count.value() as u64;
                spilling.extend((count.value() > 0).then_some(partition));
            }
            MetricValue::Gauge { name, gauge } if name == SPILL_LEVEL => {
                spill_level = spill_level.max(gauge.value() as u64);
            }
            MetricValue::SpilledBytes(bytes) => spilled_bytes += bytes.value() as u64,
            MetricValue::StartTimestamp(time) => {
                times.entry(partition).or_default().0 = time.value().and_then(|time| time.timestamp_nanos_opt());
            }
            MetricValue::EndTimestamp(time) => {
                times.entry(partition).or_default().1 = time.value().and_then(|time| time.timestamp_nanos_opt());
            }
            _ => {}
        }
    }
    for (partition, worker) in &mut workers {
        worker.worker = number(*partition, partitions);
        worker.executions = 1;
        if let Some((Some(start), Some(end))) = times.get(partition) {
            worker.elapsed = Some(Duration::from_nanos(end.saturating_sub(*start).max(0).unsigned_abs()));
        }
    }
    Some(Actual {
        workers: workers.into_values().collect(),
        spills,
        spilled_bytes,
        spilled_workers: spilling.len() as u64,
        // An operator without spill levels writes its rows to disk once.
        spill_level: spill_level.max(u64::from(spills > 0)),
        ..Actual::default()
    })
}

/// The counters of an operator that reads a table, and what filters of joins left out. `page_rows` is the rows per
/// page.
pub(super) fn of_reads(profile: Option<&Arc<OperatorProfile>>, page_rows: f64) -> Option<Actual> {
    let mut filters = profile?.filters();
    filters.retain(|filter| filter.is_of_join);
    let pages: u64 = filters.iter().map(|filter| filter.skipped_pages).sum();
    let filtered = filters.iter().map(|filter| filter.rows).sum();
    let actual = of_profile(profile)?;
    Some(Actual { filtered, passed: actual.rows(), skipped: (pages as f64 * page_rows) as u64, ..actual })
}

/// The counters of one of hobt's own operators; `None` if it has not begun.
pub(super) fn of_profile(profile: Option<&Arc<OperatorProfile>>) -> Option<Actual> {
    let workers = profile?.workers();
    let count = workers.len();
    let worker = |(at, worker): (usize, &hobt_table::WorkerProfile)| WorkerActual {
        worker: number(at, count),
        rows: worker.rows,
        rows_read: Some(worker.rows_read).filter(|read| *read > worker.rows),
        executions: 1,
        cpu: worker.cpu,
        elapsed: Some(worker.elapsed).filter(|elapsed| !elapsed.is_zero()),
        reads: worker.reads,
        ..WorkerActual::default()
    };
    Some(Actual { workers: workers.iter().enumerate().map(worker).collect(), ..Actual::default() })
}

/// Like [`of_profile`], for seeks that begin once for each row of an outer side.
pub(super) fn of_seeks(profile: &Arc<OperatorProfile>) -> Actual {
    let mut actual = of_profile(Some(profile)).unwrap_or_default();
    for (worker, done) in actual.workers.iter_mut().zip(profile.workers()) {
        (worker.executions, worker.rows_read) = (done.grants, Some(done.rows_read));
    }
    actual
}

/// The figures of an index join over all portions of its outer side's rows. `first` is the counters of the first
/// portion's plan, `loops` the rows of all portions, `sought_cpu` the processor time shown for the first portion's
/// seeks. Seeks of later portions count with the join.
pub(super) fn of_portions(
    first: Actual,
    loops: Option<&Arc<OperatorProfile>>,
    cpu: PortionsCpu,
    sought_cpu: Duration,
    looked_up: Option<bool>,
) -> Actual {
    let mut actual = first;
    if let Some(of_all) = of_profile(loops) {
        for (worker, all) in actual.workers.iter_mut().zip(of_all.workers) {
            worker.rows = all.rows;
        }
    }
    let later = cpu.running.saturating_sub(sought_cpu + actual.cpu());
    if let Some(worker) = actual.workers.first_mut() {
        worker.cpu += cpu.making;
        if looked_up == Some(true) {
            worker.cpu += later;
        }
    }
    actual
}

/// The figures of one thread that gathers all rows of `below`.
pub(super) fn gathered(below: &Actual) -> Actual {
    constant(below.rows())
}

/// The figures of one worker that gave `rows` rows.
pub(super) fn constant(rows: u64) -> Actual {
    let worker = WorkerActual { rows, executions: 1, ..WorkerActual::default() };
    Actual { workers: vec![worker], ..Actual::default() }
}

/// The figures of an operator that never began.
pub(super) fn none_at_all() -> Actual {
    Actual { workers: vec![WorkerActual::default()], ..Actual::default() }
}

/// The number of a worker: 0 if there is only one partition.
fn number(partition: usize, partitions: usize) -> usize {
    if partitions > 1 { partition + 1 } else { 0 }
}

/// Adds the processor time of an operator that is not shown to the one below it.
pub(super) fn add_cpu(below: &mut Actual, own: &Actual) {
    for worker in &own.workers {
        let same = below.workers.iter().position(|known| known.worker == worker.worker).unwrap_or(0);
        if let Some(known) = below.workers.get_mut(same) {
            known.cpu += worker.cpu;
        }
    }
}

/// Moves the row counts of a condition into the operator whose rows it tested.
pub(super) fn keep_of(read: &mut Actual, kept: &Actual) {
    for worker in &mut read.workers {
        worker.rows_read = Some(worker.rows_read.unwrap_or(worker.rows));
        let same = kept.workers.iter().find(|kept| kept.worker == worker.worker);
        worker.rows = same.map_or(0, |kept| kept.rows);
        worker.cpu += same.map_or(Duration::ZERO, |kept| kept.cpu);
        worker.batches = same.and_then(|kept| kept.batches);
    }
    let known = |worker: usize| read.workers.iter().any(|read| read.worker == worker);
    let strays: u64 = kept.workers.iter().filter(|kept| !known(kept.worker)).map(|kept| kept.rows).sum();
    if let Some(first) = read.workers.first_mut() {
        first.rows += strays;
    }
}

/// The figures of an operator that passes on all rows of another.
pub(super) fn passed_on(given: Actual) -> Actual {
    let worker = |one: WorkerActual| WorkerActual {
        worker: one.worker,
        rows: one.rows,
        executions: one.executions,
        ..WorkerActual::default()
    };
    Actual { workers: given.workers.into_iter().map(worker).collect(), ..Actual::default() }
}
