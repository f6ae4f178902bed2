//! Description of the machine that a result was measured on.

use std::path::Path;

use serde::Serialize;

use crate::error::{LabError, Result};

/// What a reader must know about a machine before comparing its figures with another machine's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// The processor's name, as reported by the system.
    pub processor: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// Bytes of memory; 0 if unknown.
    pub memory_bytes: u64,
    /// Operating system and architecture.
    pub system: String,
    /// The implementation of page transfers: `io_uring`, `threads`, `simulated`.
    pub disk_kind: String,
    /// hobt's version.
    pub version: String,
    /// `release` or `debug`. Only release figures are worth comparing.
    pub build: String,
}

impl Machine {
    /// This machine, with a disk of this kind.
    pub(crate) fn this(disk_kind: &str) -> Machine {
        Machine {
            processor: processor_name().unwrap_or_else(|| "unknown".to_owned()),
            processors: hobt_instruments::processor::processor_count(),
            memory_bytes: meminfo("MemTotal:").unwrap_or(0),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            disk_kind: disk_kind.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
        }
    }
}

fn processor_name() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn meminfo(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Bytes of memory that a process can take now without causing swapping; 4 GiB if unknown.
pub(crate) fn free_memory() -> u64 {
    let container = |name: &str| -> Option<u64> { std::fs::read_to_string(name).ok()?.trim().parse().ok() };
    let container_free = container("/sys/fs/cgroup/memory.max")
        .map(|max| max.saturating_sub(container("/sys/fs/cgroup/memory.current").unwrap_or(0)));
    meminfo("MemAvailable:").unwrap_or(4 << 30).min(container_free.unwrap_or(u64::MAX))
}

/// Free bytes on the device of a folder, which must exist.
///
/// # Errors
/// If the system does not report them.
pub(crate) fn free_disk(folder: &Path) -> Result<u64> {
    let disk = hobt_disk::open_disk(hobt_disk::DiskKind::Threads).map_err(LabError::Disk)?;
    Ok(disk.free_space(folder)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_processor_memory_and_a_disk() {
        let machine = Machine::this("threads");
        assert!(machine.processors >= 1);
        assert!(free_memory() > 0);
        assert!(free_disk(&std::env::temp_dir()).expect("it is there") > 0);
    }
}
