//! The steps of a statement's progress: the rows that its plan reads, and those that it writes.
//!
//! ```text
//!   rows stream into a loader         one part: rows read
//!   rows are sorted, grouped or held  rows read, then rows written
//!   files are read                    bytes read (crate `files` counts them), then rows written
//! ```
//! A plan of few rows is not followed: each of its batches costs one load of a flag here. A statement that knows its
//! own steps (`CREATE INDEX`) sets their number, and the rows that scans read are counted as some of them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use hobt_txn::{Progress, ProgressUnit};

/// A plan that reads and writes fewer rows than this ends too soon to be looked at.
const ROWS_MIN: f64 = 50_000.0;
/// The cost of changing one row, which writes a log record, in rows that a scan reads.
const CHANGE_COST: f64 = 20.0;
/// The cost of reading one row of a file, in rows that a scan reads.
const FILE_COST: f64 = 4.0;
/// A plan that gives this many rows for one that it reads makes them itself: a series, a join of all with all.
const MADE_MIN: f64 = 4.0;

/// How rows are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writes {
    /// Not at all: they go to a client, or to the statement.
    Nowhere,
    /// Into pages of their own, by loaders and builders of trees.
    InBulk,
    /// One after the other.
    OneByOne,
}

/// The rows of a plan, as estimates say.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlanRows {
    /// Rows that it reads from tables.
    pub read: f64,
    /// Rows that it gives.
    pub given: f64,
    /// Rows that it reads from files.
    pub of_files: f64,
    /// Whether the last row that it reads comes before the first that it gives.
    pub are_held: bool,
}

impl PlanRows {
    /// Rows that are written, as rows that a scan reads would cost. Those that are written while others are read cost
    /// nothing of their own.
    fn written_cost(&self, writes: Writes) -> f64 {
        match writes {
            Writes::Nowhere => 0.0,
            Writes::InBulk if !self.are_held => 0.0,
            Writes::InBulk => self.given,
            Writes::OneByOne => self.given * CHANGE_COST,
        }
    }

    /// Whether a plan makes most of its rows itself, so that those that it reads say little.
    fn makes_rows(&self, writes: Writes) -> bool {
        writes == Writes::InBulk && !self.are_held && self.of_files == 0.0 && self.given > MADE_MIN * self.read
    }
}

/// What of a statement counts as steps.
#[derive(Default)]
pub(super) struct Steps {
    progress: OnceLock<Arc<Progress>>,
    /// Whether another than the plan has set the number of steps.
    is_set: AtomicBool,
    /// Whether rows that scans read are steps.
    counts_read: AtomicBool,
    /// Whether rows that are written are steps.
    counts_written: AtomicBool,
    /// Whether the first row that is written begins another part.
    awaits_written: AtomicBool,
    /// Rows that are about to be written, as estimated.
    expected: AtomicU64,
    /// The share of the whole that is done when the plan's rows are written, as the bits of an `f64`.
    share: AtomicU64,
}

impl Steps {
    /// Counts the rows that scans read among steps whose number is set.
    pub(super) fn count_scanned(&self, progress: &Arc<Progress>) {
        self.is_set.store(true, Ordering::Relaxed);
        self.counts_written.store(false, Ordering::Relaxed);
        self.awaits_written.store(false, Ordering::Relaxed);
        self.progress.get_or_init(|| Arc::clone(progress));
        self.counts_read.store(true, Ordering::Relaxed);
    }

    /// Begins to follow a plan, whose part of the whole ends at `share`.
    pub(super) fn follow(&self, progress: &Arc<Progress>, rows: PlanRows, writes: Writes, share: f64) {
        let (read, written) = (rows.read + rows.of_files * FILE_COST, rows.written_cost(writes));
        let makes_rows = rows.makes_rows(writes);
        let all = if makes_rows { rows.given } else { read + written };
        let is_first = self.progress.get().is_none();
        if self.is_set.load(Ordering::Relaxed) || is_first && all < ROWS_MIN {
            return;
        }
        let of_reads = if makes_rows { 1.0 } else { read / all.max(1.0) };
        // Statistics may have been gathered for the plan.
        let is_begun = progress.is_known();
        let done = if is_begun { progress.percent() / 100.0 } else { 0.0 };
        let until = done + (share - done).max(0.0) * of_reads;
        let steps = if makes_rows { rows.given } else { rows.read } as u64;
        match (is_first, is_begun) {
            // Another plan of the same statement.
            (false, _) => progress.begin_part(share, all as u64),
            // The files add their bytes when they are opened.
            (true, _) if rows.of_files > 0.0 => progress.ends_at(until),
            (true, true) => progress.begin_part(until, steps),
            (true, false) => {
                progress.set(0, steps);
                progress.ends_at(until);
            }
        }
        if rows.of_files == 0.0 {
            progress.count_in(ProgressUnit::Rows);
        }
        let _known = self.progress.set(Arc::clone(progress));
        self.expected.store(rows.given as u64, Ordering::Relaxed);
        self.share.store(share.to_bits(), Ordering::Relaxed);
        self.counts_read.store(rows.of_files == 0.0 && !makes_rows, Ordering::Relaxed);
        self.counts_written.store(makes_rows, Ordering::Relaxed);
        self.awaits_written.store(is_first && written > 0.0, Ordering::Relaxed);
    }

    /// All rows are read, and those to be written come now: `rows`, or as many as estimated.
    pub(super) fn begin_writing(&self, rows: Option<u64>) {
        let Some(progress) = self.progress.get().filter(|_| !self.is_set.load(Ordering::Relaxed)) else { return };
        self.awaits_written.store(false, Ordering::Relaxed);
        self.counts_read.store(false, Ordering::Relaxed);
        let share = f64::from_bits(self.share.load(Ordering::Relaxed));
        progress.begin_part(share, rows.unwrap_or_else(|| self.expected.load(Ordering::Relaxed)));
        progress.count_in(ProgressUnit::Rows);
        self.counts_written.store(true, Ordering::Relaxed);
    }

    /// Rows were read.
    pub(super) fn read(&self, rows: u64) {
        if self.counts_read.load(Ordering::Relaxed) {
            self.progress.get().iter().for_each(|progress| progress.add(rows));
        }
    }

    /// Rows were written.
    pub(super) fn written(&self, rows: u64) {
        if self.awaits_written.load(Ordering::Relaxed) && self.awaits_written.swap(false, Ordering::Relaxed) {
            self.begin_writing(None);
        }
        if self.counts_written.load(Ordering::Relaxed) {
            self.progress.get().iter().for_each(|progress| progress.add(rows));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(rows: PlanRows, writes: Writes) -> (Steps, Arc<Progress>) {
        let (steps, progress) = (Steps::default(), Arc::<Progress>::default());
        steps.follow(&progress, rows, writes, 1.0);
        (steps, progress)
    }

    const MANY: PlanRows = PlanRows { read: 1e6, given: 1e6, of_files: 0.0, are_held: true };

    #[test]
    fn a_small_plan_is_not_followed() {
        let (steps, progress) = followed(PlanRows { read: 100.0, given: 100.0, ..MANY }, Writes::OneByOne);
        steps.read(50);
        steps.written(50);
        assert!(progress.percent().abs() < 1e-9);
    }

    #[test]
    fn rows_that_are_held_are_read_and_then_written() {
        let (steps, progress) = followed(MANY, Writes::InBulk);
        steps.read(500_000);
        assert!((progress.percent() - 25.0).abs() < 1e-6);
        steps.read(500_000);
        assert!((progress.percent() - 50.0).abs() < 1e-6);
        steps.written(500_000);
        assert!((progress.percent() - 75.0).abs() < 1e-6);
        let (steps, progress) = followed(MANY, Writes::OneByOne);
        steps.read(1_000_000);
        assert!(progress.percent() < 5.0, "changes take longer than reads");
        steps.begin_writing(Some(10));
        steps.written(5);
        assert!((50.0..60.0).contains(&progress.percent()));
    }

    #[test]
    fn rows_that_stream_into_a_loader_are_counted_once() {
        let (steps, progress) = followed(PlanRows { are_held: false, ..MANY }, Writes::InBulk);
        steps.read(500_000);
        steps.written(500_000);
        assert!((progress.percent() - 50.0).abs() < 1e-6);
        let (steps, progress) = followed(PlanRows { are_held: false, read: 10.0, ..MANY }, Writes::InBulk);
        steps.read(10);
        steps.written(250_000);
        assert!((progress.percent() - 25.0).abs() < 1e-6, "rows that the plan makes are counted as they are written");
    }

    #[test]
    fn what_was_done_for_the_plan_stays_done() {
        let (_gathering, progress) = followed(MANY, Writes::Nowhere);
        progress.ends_at(0.25);
        progress.add(1_000_000);
        let steps = Steps::default();
        steps.follow(&progress, PlanRows { are_held: false, ..MANY }, Writes::InBulk, 1.0);
        assert!((progress.percent() - 25.0).abs() < 1e-6);
        steps.read(500_000);
        assert!((progress.percent() - 62.5).abs() < 1e-6);
    }

    #[test]
    fn set_steps_are_not_the_plans_to_change() {
        let (steps, progress) = (Steps::default(), Arc::<Progress>::default());
        progress.set(0, 100);
        steps.count_scanned(&progress);
        steps.follow(&progress, MANY, Writes::InBulk, 1.0);
        steps.read(50);
        steps.written(50);
        steps.begin_writing(Some(50));
        assert!((progress.percent() - 50.0).abs() < 1e-6);
    }
}
