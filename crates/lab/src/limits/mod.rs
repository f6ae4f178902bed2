//! The machine's limits, measured without a database, with which results are compared.
//!
//! Every figure is the median of its repetitions. The disk is read past the page cache, in the folder of the
//! experiment's data. The memory that is read is much larger than the processor's caches if there is enough memory.

pub(crate) mod disk;
pub(crate) mod memory;

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::error::Result;
use crate::machine;
pub use disk::ReadLimit;
use disk::{DiskProbe, ReadMode};
use memory::MemoryProbe;

/// How thoroughly the limits are measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitSettings {
    /// Size of the file; reduced if the disk has less than four times that free.
    pub file_bytes: u64,
    /// Size of the memory; reduced if less than twice that is free.
    pub memory_bytes: u64,
    /// Repetitions of each figure.
    pub repetitions: usize,
    /// Whether reads of all sizes are measured, or only large ones.
    pub all_sizes: bool,
    /// Whether reading and writing at the same time is measured.
    pub copies: bool,
}

impl LimitSettings {
    /// Settings for `hobt lab run limits`.
    pub fn thorough(repetitions: usize) -> LimitSettings {
        LimitSettings { file_bytes: 1 << 30, memory_bytes: 2 << 30, repetitions, all_sizes: true, copies: true }
    }

    /// Settings for measuring as a part of another experiment, on tables of about `bytes`.
    pub fn beside(bytes: u64, repetitions: usize) -> LimitSettings {
        LimitSettings {
            file_bytes: bytes.clamp(16 << 20, 512 << 20),
            memory_bytes: bytes.clamp(16 << 20, 2 << 30),
            repetitions,
            all_sizes: false,
            copies: false,
        }
    }

    /// Also measures reading and writing at once.
    pub fn with_copies(self) -> LimitSettings {
        LimitSettings { copies: true, ..self }
    }

    /// The number of steps that [`Limits::measure`] reports with [`LimitSettings::beside`].
    pub fn steps_beside() -> u64 {
        LimitSettings::beside(0, 1).steps()
    }

    /// The sizes and depths of sequential reads.
    fn sequential_modes(&self) -> Vec<ReadMode> {
        let mut modes = disk::LARGE_READS.to_vec();
        if self.all_sizes {
            modes.extend(READ_SIZES_KIB.iter().map(|size| (*size, 32)));
            modes.sort_unstable();
            modes.dedup();
        }
        modes
    }

    /// The sizes and depths of random reads.
    fn random_modes(&self) -> &'static [ReadMode] {
        if self.all_sizes { &[(8, 1), (8, 32), (64, 32), (512, 32)] } else { &[] }
    }

    /// The number of steps that [`Limits::measure`] reports.
    pub fn steps(&self) -> u64 {
        const OTHER_STEPS: usize = 3;
        let reads = self.sequential_modes().len() + self.random_modes().len();
        (OTHER_STEPS + reads + usize::from(self.copies)) as u64
    }
}

/// The machine's limits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limits {
    /// Sequential direct reads: the best of the measured sizes and depths.
    pub disk_read_mb_s: f64,
    /// Size of those reads.
    pub disk_read_kib: usize,
    /// Depth of those reads.
    pub disk_read_depth: usize,
    /// Sequential direct writes of 512 KiB, synced at the end.
    pub disk_write_mb_s: f64,
    /// Megabytes per second that are read from one file and as many that are written to another at the same time, in
    /// large direct transfers with a sync at the end. `None` if it was not measured.
    pub disk_copy_mb_s: Option<f64>,
    /// Writes of 4 KiB, one at a time, each synced.
    pub disk_flushes_per_s: f64,
    /// Whether the disk was read past the page cache. If not, its rates are not those of the disk.
    pub disk_is_direct: bool,
    /// Size of the file.
    pub disk_file_bytes: u64,
    /// Memory read by one thread.
    pub memory_read_gb_s_1_core: f64,
    /// Memory read by as many threads as there are processors.
    pub memory_read_gb_s_all_cores: f64,
    /// Size of the memory that was read.
    pub memory_bytes: u64,
    /// Reads by order and size, with their latencies.
    pub disk_reads: Vec<ReadLimit>,
}

/// Sizes of sequential reads in KiB.
pub(crate) const READ_SIZES_KIB: [usize; 8] = [8, 16, 32, 64, 128, 256, 512, 1024];

impl Limits {
    /// Measures in `folder`, which must exist. Calls `step` with the name of each step. Blocks for seconds.
    ///
    /// # Errors
    /// If the folder cannot be written or read.
    pub fn measure(folder: &Path, settings: LimitSettings, mut step: impl FnMut(&str)) -> Result<Limits> {
        let file_bytes = settings.file_bytes.min(machine::free_disk(folder)? / 4);
        step("writing a file to measure the disk");
        let probe = DiskProbe::new(folder, file_bytes)?;
        let repetitions = settings.repetitions.max(1);
        let mut disk_reads = Vec::new();
        for (size, depth) in settings.sequential_modes() {
            step(&format!("reading in order, {size} KiB a read, {depth} at once"));
            disk_reads.push(probe.sequential(size, depth, repetitions)?);
        }
        let best = disk_reads.iter().max_by(|a, b| a.mb_s.total_cmp(&b.mb_s)).expect("something was measured");
        let (disk_read_mb_s, disk_read_kib, disk_read_depth) = (best.mb_s, best.read_kib, best.queue_depth);
        for &(size, depth) in settings.random_modes() {
            step(&format!("reading in random order, {size} KiB a read, {depth} at once"));
            let count = if depth == 1 { 1_000 } else { (128 << 10) / size };
            disk_reads.push(probe.random(size, depth, count.min(8_000), repetitions)?);
        }
        let mut disk_copy_mb_s = None;
        if settings.copies {
            step("reading one file and writing another at once");
            disk_copy_mb_s = Some(probe.copy_mb_s((disk_read_kib, disk_read_depth), repetitions)?);
        }
        step("syncing small writes");
        let flush_time = Duration::from_millis(if settings.all_sizes { 500 } else { 100 });
        let disk_flushes_per_s = probe.flushes_per_s(flush_time)?;
        step("reading memory");
        let memory_bytes = settings.memory_bytes.min(machine::free_memory() / 2);
        let memory = MemoryProbe::new(memory_bytes);
        let processors = hobt_instruments::processor::processor_count();
        let (one, all) = memory.one_and_many(processors, repetitions.max(3));
        Ok(Limits {
            disk_read_mb_s,
            disk_read_kib,
            disk_read_depth,
            disk_write_mb_s: probe.write_mb_s,
            disk_copy_mb_s,
            disk_flushes_per_s,
            disk_is_direct: probe.is_direct(),
            disk_file_bytes: file_bytes,
            memory_read_gb_s_1_core: one,
            memory_read_gb_s_all_cores: all,
            memory_bytes,
            disk_reads,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_positive_and_the_file_is_gone_afterwards() {
        let folder = std::env::temp_dir().join(format!("hobt-limits-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let settings =
            LimitSettings { file_bytes: 8 << 20, memory_bytes: 8 << 20, repetitions: 1, all_sizes: true, copies: true };
        let mut steps = 0;
        let limits = Limits::measure(&folder, settings, |_| steps += 1).expect("the temporary folder can be measured");
        assert_eq!(limits.disk_reads.len(), READ_SIZES_KIB.len() + 2 + 4);
        for limit in &limits.disk_reads {
            assert!(limit.mb_s > 0.0 && limit.latency_us_p50 <= limit.latency_us_p99, "{limit:?}");
            assert!(limit.latency_us_p99 <= limit.latency_us_max);
        }
        assert!(limits.disk_read_mb_s > 0.0 && limits.disk_write_mb_s > 0.0 && limits.disk_flushes_per_s > 0.0);
        assert!(limits.disk_copy_mb_s.is_some_and(|rate| rate.is_finite() && rate > 0.0));
        assert!(limits.memory_read_gb_s_1_core > 0.0 && limits.memory_read_gb_s_all_cores > 0.0);
        assert_eq!(steps, settings.steps());
        assert!(steps > READ_SIZES_KIB.len() as u64);
        assert_eq!(std::fs::read_dir(&folder).expect("there").count(), 0);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
