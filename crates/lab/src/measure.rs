//! Measurement of one statement: its elapsed time, processor time, waits and reads.

use std::collections::BTreeMap;
use std::time::Duration;

use hobt_base::PAGE_SIZE;
use hobt_disk::TransferSnapshot;
use hobt_instruments::processor::steal_time;
use hobt_session::StatementStatistics;

use crate::error::{LabError, Result};
use crate::laboratory::Laboratory;

/// The name, among the waits, of processor time that the hypervisor gave to others. The system counts it in ticks of 10
/// ms, so a run of a few ticks says little.
const STOLEN: &str = "HOBT_STOLEN";

/// The cost of one run of a statement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) elapsed_s: f64,
    pub(crate) cpu_s: f64,
    /// Time of all threads: the statement's own without waiting for its workers, and the workers'.
    pub(crate) threads_s: f64,
    pub(crate) workers: usize,
    pub(crate) waits_ms: BTreeMap<String, f64>,
    pub(crate) latch_waits: BTreeMap<String, u64>,
    pub(crate) rows_per_worker: Vec<u64>,
    pub(crate) logical_pages: u64,
    /// Pages that were waited for, and pages read ahead.
    pub(crate) physical_pages: u64,
    pub(crate) read_ahead_pages: u64,
    pub(crate) reads: u64,
    pub(crate) read_bytes: u64,
    pub(crate) read_latency_s: f64,
    /// Number of reads, by the lower bound of their size class.
    pub(crate) reads_by_size: BTreeMap<u64, u64>,
    /// The only row of the answer, as text.
    pub(crate) answer: Vec<Option<String>>,
}

impl Measured {
    /// Bytes of the pages accessed.
    pub(crate) fn bytes(&self) -> u64 {
        self.logical_pages * PAGE_SIZE as u64
    }

    /// Whether every page was in the pool.
    pub(crate) fn is_warm(&self) -> bool {
        self.physical_pages + self.read_ahead_pages == 0
    }

    /// The part of the threads' time that is neither CPU nor named waits, in percent. Negative if these overlap.
    pub(crate) fn unexplained_percent(&self) -> f64 {
        if self.threads_s > 0.0 { self.unexplained_s() / self.threads_s * 100.0 } else { 0.0 }
    }

    /// [`Measured::unexplained_percent`] in seconds.
    pub(crate) fn unexplained_s(&self) -> f64 {
        self.threads_s - self.cpu_s - self.waits_ms.values().sum::<f64>() / 1e3
    }

    /// Counts time that the hypervisor gave to others as a wait of its own. A thread that is not scheduled for that
    /// reason neither computes nor waits, so the time is limited to what the other waits leave unexplained.
    fn count_stolen(&mut self, stolen: Duration) {
        let counted_s = stolen.as_secs_f64().min(self.unexplained_s());
        if counted_s > 0.0 {
            self.waits_ms.insert(STOLEN.to_owned(), counted_s * 1e3);
        }
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// The reads of all files of the laboratory's database so far.
fn reads_so_far(lab: &Laboratory) -> Result<Vec<TransferSnapshot>> {
    let database = lab.database()?;
    Ok(database.storage().files().iter().map(|file| file.disk().statistics().snapshot().reads).collect())
}

fn latches_so_far() -> BTreeMap<&'static str, u64> {
    let rows = hobt_instruments::latches::snapshot();
    rows.into_iter().map(|row| (row.latch_class.name(), row.waiting_requests_count)).collect()
}

/// Runs a statement and measures it.
///
/// # Errors
/// The statement's error, or an error if the statement gave no figures.
pub(crate) fn measure(lab: &mut Laboratory, statement: &str) -> Result<Measured> {
    let (reads_before, latches_before) = (reads_so_far(lab)?, latches_so_far());
    let stolen_before = steal_time();
    let answer = lab.run(statement)?;
    let stolen = steal_time().zip(stolen_before).map(|(after, before)| after.saturating_sub(before));
    let (reads_after, latches_after) = (reads_so_far(lab)?, latches_so_far());
    let statistics = answer
        .statistics
        .as_ref()
        .ok_or_else(|| LabError::Wrong(format!("no figures came with the statement: {statement}")))?;
    let mut measured = of_statistics(statistics);
    measured.count_stolen(stolen.unwrap_or_default());
    measured.answer = answer.rows().into_iter().next().unwrap_or_default();
    for (class, count) in latches_after {
        let before = latches_before.get(class).copied().unwrap_or(0);
        // If the statistics were cleared in between, the later count is the smaller one.
        if let Some(waits @ 1..) = count.checked_sub(before) {
            measured.latch_waits.insert(class.to_owned(), waits);
        }
    }
    for (place, after) in reads_after.iter().enumerate() {
        let before = reads_before.get(place);
        measured.reads += after.count - before.map_or(0, |before| before.count);
        measured.read_bytes += after.bytes - before.map_or(0, |before| before.bytes);
        let stall_ns = after.stall_ns - before.map_or(0, |before| before.stall_ns);
        measured.read_latency_s += stall_ns as f64 / 1e9;
        for size in &after.sizes {
            let earlier = before.and_then(|before| before.sizes.iter().find(|it| it.bytes_min == size.bytes_min));
            let count = size.count - earlier.map_or(0, |earlier| earlier.count);
            if count > 0 {
                *measured.reads_by_size.entry(size.bytes_min).or_default() += count;
            }
        }
    }
    if measured.reads > 0 {
        measured.read_latency_s /= measured.reads as f64;
    }
    Ok(measured)
}

fn of_statistics(statistics: &StatementStatistics) -> Measured {
    let pages = |count: fn(&hobt_session::TableReads) -> u64| statistics.reads.iter().map(count).sum();
    Measured {
        elapsed_s: statistics.elapsed.as_secs_f64(),
        cpu_s: statistics.cpu.as_secs_f64(),
        threads_s: statistics.threads.total().as_secs_f64(),
        workers: statistics.threads.workers.max(1),
        waits_ms: statistics.waits.iter().map(|(name, _, time)| ((*name).to_owned(), milliseconds(*time))).collect(),
        rows_per_worker: statistics.rows_per_worker.clone(),
        logical_pages: pages(|reads| reads.logical),
        physical_pages: pages(|reads| reads.physical),
        read_ahead_pages: pages(|reads| reads.read_ahead),
        ..Measured::default()
    }
}

/// Runs a statement with none of its pages in memory.
///
/// # Errors
/// As for [`measure`].
pub(crate) fn measure_cold(lab: &mut Laboratory, statement: &str) -> Result<Measured> {
    lab.run("CHECKPOINT")?;
    lab.run("DBCC DROPCLEANBUFFERS")?;
    measure(lab, statement)
}

/// Runs a statement with all of its pages in memory. Reads them first if necessary. The result may still not be warm: a
/// table larger than the pool never is.
///
/// # Errors
/// As for [`measure`].
pub(crate) fn measure_warm(lab: &mut Laboratory, statement: &str) -> Result<Measured> {
    let first = measure(lab, statement)?;
    if first.is_warm() { Ok(first) } else { measure(lab, statement) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_explains_no_more_than_what_is_left() {
        let measured = |stolen_ms| {
            let waits_ms = BTreeMap::from([("PAGEIOLATCH_SH".to_owned(), 500.0)]);
            let mut measured = Measured { threads_s: 2.0, cpu_s: 1.2, waits_ms, ..Measured::default() };
            measured.count_stolen(Duration::from_millis(stolen_ms));
            measured
        };
        assert!((measured(0).unexplained_percent() - 15.0).abs() < 1e-9);
        assert!((measured(100).unexplained_percent() - 10.0).abs() < 1e-9);
        assert_eq!(measured(100).waits_ms[STOLEN], 100.0);
        assert!(measured(5_000).unexplained_percent().abs() < 1e-9, "others' processors are stolen from, too");
    }
}
