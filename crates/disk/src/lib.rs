//! Files and asynchronous direct I/O: io_uring, a thread pool, a simulated faulty disk.
//!
//! ```text
//!            Disk ── open ──► DiskFile ── read_at, write_at, sync, set_size (block the caller)
//!                                 │
//!                              submit(Request{ buffer, tag, queue })  never blocks
//!                                 ▼
//!            kernel ring | threads | simulated device ──► CompletionQueue ──► Completion{ buffer, tag, result }
//! ```
//!
//! - A transfer is whole or an error: short transfers, `EINTR` and `EAGAIN` are continued inside.
//! - A failed write or sync poisons its file: later ones fail at once, nothing is retried ([`DiskError::Poisoned`]).
//! - [`RecordingDisk`] wraps another disk and records its changes. A [`Replay`] of the record makes the folder that a
//!   loss of power at any moment could leave. A program must construct it by name: no setting switches it on.
//! - A [`CopyGuard`] copies what is overwritten in a file, which can so be read as it was ([`FormerBlocks`]).
//! - An [`Overlay`] takes what is written to other files, which stay as they are.
//! - Every transfer counts in its file's [`FileStatistics`] and in its disk's [`Throughput`], a large one in its
//!   [device's rate](DeviceStatistics) too.
//!
//! Done elsewhere: what a page is, what is cached, and the wait type of a transfer. This crate records only the waits
//! of system calls that are not transfers (`PREEMPTIVE_OS_…` for open, remove, grow, sync). The caller that waits for a
//! read or a write knows whether that is a `PAGEIOLATCH_SH` or a `WRITE_COMPLETION`.

mod buffer;
mod device_statistics;
mod disk;
mod error;
mod former;
pub mod open_files;
mod os_disk;
mod os_file;
mod overlay;
mod queue;
mod recording;
mod simulated;
mod statistics;
mod threads;
mod throughput;
mod transfer;
#[cfg(target_os = "linux")]
mod uring;

pub use buffer::{ALIGNMENT, AlignedBuffer, BufferCache, IoBuffer, PinnedSlice, SECTOR_SIZE};
pub use device_statistics::{DeviceRate, DeviceStatistics, LARGE_BYTES};
pub use disk::{Disk, DiskFile, DiskKind, OpenOptions, SIMULATED, open_disk};
pub use error::{DiskError, Operation, Result};
pub use former::{CopyGuard, FormerBlocks, FormerIdentity, HeldGuard};
pub use overlay::{BLOCK_BYTES as OVERLAY_BLOCK_BYTES, Overlay};
pub use queue::{Completion, CompletionQueue, Direction, Request};
pub use recording::{RecordingDisk, Replay, Trace};
pub use simulated::{DeviceCache, DeviceModel, Fault, FaultKind, SimulatedConfig, SimulatedDisk};
pub use statistics::{FileSnapshot, FileStatistics, SizeCount, TransferSnapshot};
pub use throughput::{Throughput, ThroughputSample};
