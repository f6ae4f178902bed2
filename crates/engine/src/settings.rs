//! The settings an instance is started with, and those that can be changed while it runs.

use std::collections::BTreeSet;
use std::path::PathBuf;

use hobt_access::StorageSettings;
use hobt_access::scan::DealerKind;
use hobt_disk::DiskKind;

use crate::recovery_progress::RecoveryObserver;

/// Trace flag 652: no read-ahead.
pub const TRACE_NO_READ_AHEAD: i32 = 652;
/// Trace flag 2330: uses of indexes, and of missing indexes, are not counted.
pub const TRACE_NO_INDEX_STATISTICS: i32 = 2330;

/// Trace flag 3656: call stacks of spinlock back-offs are recorded, in the whole process.
pub const TRACE_BACKOFF_STACKS: i32 = 3656;

/// The settings an instance is started with. `Default` has the values for a user who specifies nothing.
#[derive(Clone, Debug, Default)]
pub struct InstanceSettings {
    /// The memory budget in bytes; half of the machine's (or the container's) memory if absent.
    pub memory_bytes: Option<u64>,
    /// The buffer pool's part of it in bytes; 60 % if absent.
    pub pool_bytes: Option<u64>,
    /// Bytes of memory from which on row versions go to disk; an eighth of the budget if absent.
    pub version_bytes: Option<u64>,
    /// Bytes of memory that snapshots may take for pages with changes undone; a sixteenth of the budget if absent.
    pub rebuilt_bytes: Option<u64>,
    /// The kind of disk below the files.
    pub disk: DiskKind,
    /// `-E`: allocation runs start at 4 MiB and reach 64.
    pub long_runs: bool,
    /// Folders that database files may lie in, beside the instance's own.
    pub allowed_folders: Vec<PathBuf>,
    /// The folder in which relative names of files of rows begin (`BULK INSERT`, exports), and which is allowed for
    /// them; the instance's own if absent.
    pub rows_folder: Option<PathBuf>,
    /// Trace flags that are on from the start (`-T`).
    pub trace_flags: Vec<i32>,
    /// How many bytes may be appended to a database's log and not yet flushed; 4 MiB if absent.
    pub log_ring_bytes: Option<usize>,
    /// Leaves checkpoints, and the flushes of commits with delayed durability, to the caller: no thread runs them when
    /// the log asks for them. For simulations, in which nothing may happen by itself.
    pub checkpoints_by_hand: bool,
    /// The bytes of log that the undo of what a crash has left open takes, from which on it goes on behind the opening
    /// of a database; 16 MiB if absent. Below, and where the log has no room for it beside other work, the database
    /// opens when all is undone. With `checkpoints_by_hand` it is left to `Database::undo_by_hand`.
    pub undo_behind_from_bytes: Option<u64>,
    /// Told how far the recovery of a database is, if that takes more than two seconds.
    pub on_recovery: Option<RecoveryObserver>,
}

impl InstanceSettings {
    /// How runs of pages grow.
    pub fn storage(&self) -> StorageSettings {
        if self.long_runs {
            StorageSettings { run_extents_first: 64, run_extents_max: 1024 }
        } else {
            StorageSettings::default()
        }
    }
}

/// What is presumed of a transaction over several databases if no database knows whether it was committed: SQL Server's
/// option `in-doubt xact resolution`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum InDoubtResolution {
    /// Its database cannot be recovered (945) until the deciding database can be asked.
    #[default]
    NoPresumption,
    /// It was committed.
    PresumeCommit,
    /// It was rolled back.
    PresumeAbort,
}

impl InDoubtResolution {
    /// All of them, by their number in `sys.configurations`.
    pub const ALL: [InDoubtResolution; 3] =
        [InDoubtResolution::NoPresumption, InDoubtResolution::PresumeCommit, InDoubtResolution::PresumeAbort];
}

/// What can be changed while an instance runs. A statement reads it once, when it starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuntimeSettings {
    /// Bytes of one read of a scan; a multiple of 8 KiB.
    pub read_bytes: u32,
    /// Reads in flight of one scan, over all its workers.
    pub queue_depth: u32,
    /// Whether scans read ahead; off under trace flag 652.
    pub read_ahead: bool,
    /// What deals page ranges to the workers of a scan.
    pub dealer: DealerKind,
    /// The most workers of a statement; 0 for as many as there are processors.
    pub max_degree_of_parallelism: u32,
    /// Processors that workers run on, one bit each; 0 for all.
    pub affinity_mask: u64,
    /// What is presumed of a transaction whose outcome no database knows.
    pub in_doubt_resolution: InDoubtResolution,
    /// Whether uses of indexes, and of missing indexes, are counted; off under trace flag 2330.
    pub counts_index_use: bool,
    /// Trace flags that are on globally.
    pub trace_flags: BTreeSet<i32>,
}

impl RuntimeSettings {
    /// The settings in force at the start.
    pub(crate) fn at_start(settings: &InstanceSettings) -> RuntimeSettings {
        let trace_flags: BTreeSet<i32> = settings.trace_flags.iter().copied().collect();
        RuntimeSettings {
            read_bytes: 512 << 10,
            queue_depth: 32,
            read_ahead: !trace_flags.contains(&TRACE_NO_READ_AHEAD),
            dealer: DealerKind::Atomic,
            max_degree_of_parallelism: 0,
            affinity_mask: 0,
            in_doubt_resolution: InDoubtResolution::default(),
            counts_index_use: !trace_flags.contains(&TRACE_NO_INDEX_STATISTICS),
            trace_flags,
        }
    }

    /// Applies the settings that affect the whole process.
    pub(crate) fn switch_process(&self) {
        hobt_instruments::backoff_stacks::set_wanted(self.trace_flags.contains(&TRACE_BACKOFF_STACKS));
    }

    /// Switches a global trace flag and the setting that depends on it.
    pub fn set_trace_flag(&mut self, flag: i32, on: bool) {
        if on {
            self.trace_flags.insert(flag);
        } else {
            self.trace_flags.remove(&flag);
        }
        match flag {
            TRACE_NO_READ_AHEAD => self.read_ahead = !on,
            TRACE_NO_INDEX_STATISTICS => self.counts_index_use = !on,
            _ => {}
        }
    }
}

/// The memory that this process may expect, in bytes: the machine's, or the container's if that is less. 4 GiB if the
/// system does not report it.
pub(crate) fn machine_memory() -> u64 {
    const UNKNOWN: u64 = 4 << 30;
    let container = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let container = container.and_then(|text| text.trim().parse().ok()).unwrap_or(u64::MAX);
    linux_memory().or_else(sysctl_memory).unwrap_or(UNKNOWN).min(container)
}

/// Linux reports it in a file.
fn linux_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// macOS reports it through a program.
fn sysctl_memory() -> Option<u64> {
    let output = std::process::Command::new("/usr/sbin/sysctl").args(["-n", "hw.memsize"]).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_flags_switch_what_hangs_on_them_at_start_and_later() {
        let settings = InstanceSettings { trace_flags: vec![652, 1117, 2330], ..InstanceSettings::default() };
        let mut runtime = RuntimeSettings::at_start(&settings);
        assert!(!runtime.read_ahead);
        runtime.set_trace_flag(652, false);
        assert!(runtime.read_ahead);
        assert!(!runtime.counts_index_use);
        runtime.set_trace_flag(2330, false);
        assert!(runtime.counts_index_use);
        assert_eq!(runtime.trace_flags, BTreeSet::from([1117]));
    }

    #[test]
    fn a_machine_has_memory() {
        assert!(machine_memory() > 64 << 20);
    }
}
