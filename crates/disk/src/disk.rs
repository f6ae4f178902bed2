//! The two traits through which storage accesses files, and the choice of their implementation.

use crate::error::Result;
use crate::os_disk::OsDisk;
use crate::queue::Request;
use crate::simulated::{SimulatedConfig, SimulatedDisk};
use crate::statistics::FileStatistics;
use crate::threads::Threads;
use crate::throughput::Throughput;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of a disk whose files exist only in memory.
pub const SIMULATED: &str = "simulated";

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// The file must not exist and is created. Otherwise it must exist.
    pub create_new: bool,
    /// Writes will fail.
    pub read_only: bool,
    /// Whether to bypass the system's page cache (`O_DIRECT`; `F_NOCACHE` on macOS). If the file system refuses that,
    /// the file is opened through the cache, and [`DiskFile::is_direct`] returns false.
    pub direct: bool,
}

/// A file system or a simulation of one. Its methods block on metadata. Transfers are done by its files.
pub trait Disk: Send + Sync {
    /// `io_uring`, `threads` or [`SIMULATED`].
    fn kind(&self) -> &'static str;

    /// Opens or creates a file.
    ///
    /// # Errors
    /// `NotFound`, `AlreadyExists`, `NoSpace`, `Io`.
    fn open(&self, path: &Path, options: OpenOptions) -> Result<Arc<dyn DiskFile>>;

    /// Creates a folder and those above it that are missing, durably. Does nothing if it exists.
    ///
    /// # Errors
    /// `NoSpace`, `Io`.
    fn create_directory(&self, path: &Path) -> Result<()>;

    /// Removes a file. Open handles keep its contents.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Whether there is a file or a folder of this name.
    fn exists(&self, path: &Path) -> bool;

    /// The files and folders in a folder, sorted by name.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    fn list(&self, path: &Path) -> Result<Vec<PathBuf>>;

    /// Makes the creation and removal of files in this folder durable.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    fn sync_directory(&self, path: &Path) -> Result<()>;

    /// Bytes that are free for this user on the device that holds `path`.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    fn free_space(&self, path: &Path) -> Result<u64>;

    /// The bytes that all files of this disk transferred, over time.
    fn throughput(&self) -> &Throughput;
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// The path by which it was opened.
    fn path(&self) -> &Path;

    /// Whether transfers bypass the system's page cache, and so must be aligned to sectors.
    fn is_direct(&self) -> bool;

    /// Bytes in the file.
    ///
    /// # Errors
    /// `Io`.
    fn size(&self) -> Result<u64>;

    /// Bytes that are free for this user on the file's device.
    ///
    /// # Errors
    /// `Io`.
    fn device_free_bytes(&self) -> Result<u64>;

    /// Grows the file with allocated zeroes, or truncates it. Blocks. If growing fails, the file is unchanged.
    ///
    /// # Errors
    /// `NoSpace`, `Poisoned`, `Io`.
    fn set_size(&self, bytes: u64) -> Result<()>;

    /// Grows the file with allocated zeroes if the file system does so without writing them. Returns whether it did;
    /// otherwise the file is unchanged.
    ///
    /// # Errors
    /// As [`DiskFile::set_size`].
    fn reserve(&self, _bytes: u64) -> Result<bool> {
        Ok(false)
    }

    /// Truncates the file to the part of which the caller knows that it is whole, also after a failed write.
    ///
    /// # Errors
    /// `Io`.
    fn cut(&self, bytes: u64) -> Result<()> {
        if bytes >= self.size()? { Ok(()) } else { self.set_size(bytes) }
    }

    /// Fills `buffer` from `offset` on. Blocks. Records no wait: the caller knows what it waits for.
    ///
    /// # Errors
    /// `OutOfRange` when the file ends before the buffer is full, `Io`.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<()>;

    /// Writes `buffer` from `offset` on, and grows the file if it ends before. Blocks. Records no wait.
    ///
    /// # Errors
    /// `NoSpace`, `Poisoned`, `Io`. Each of them poisons the file.
    fn write_at(&self, buffer: &[u8], offset: u64) -> Result<()>;

    /// Writes `buffer` from `offset` on and returns when it is durable, with a single system call if there is one for
    /// that. Blocks. Records no wait.
    ///
    /// # Errors
    /// As [`DiskFile::write_at`] and [`DiskFile::sync`].
    fn write_durable_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        self.write_at(buffer, offset)?;
        self.sync()
    }

    /// Makes all writes that were complete before the call durable, the file's size included. Blocks.
    ///
    /// # Errors
    /// `Poisoned`, `Io`. Each of them poisons the file.
    fn sync(&self) -> Result<()>;

    /// Locks the whole file against other processes and other handles, until this handle is dropped. Does not block.
    ///
    /// # Errors
    /// `Locked`; `NotFound` when the path is no longer that of the file, which was removed meanwhile; `Io`.
    fn try_lock_exclusive(&self) -> Result<()>;

    /// Locks the whole file against [`DiskFile::try_lock_exclusive`] of others, until this handle is dropped. Others
    /// may share the lock. Does not block.
    ///
    /// # Errors
    /// As [`DiskFile::try_lock_exclusive`].
    fn try_lock_shared(&self) -> Result<()>;

    /// Starts a transfer. Does not block and does not fail: every outcome is a completion on the request's queue.
    fn submit(&self, request: Request);

    /// What was transferred through this handle.
    fn statistics(&self) -> &FileStatistics;

    /// Whether [`DiskFile::notice`] saves anything.
    fn wants_notice(&self) -> bool {
        false
    }

    /// Announces that ranges of bytes will be written soon. What has to be done before that is done for all of them at
    /// once, and not for each when it is written. Blocks.
    ///
    /// # Errors
    /// As [`DiskFile::write_at`] of these ranges.
    fn notice(&self, _ranges: &[Range<u64>]) -> Result<()> {
        Ok(())
    }
}

/// The implementation of a disk.
#[derive(Clone, Debug, Default)]
pub enum DiskKind {
    /// io_uring if the kernel allows it, otherwise threads.
    #[default]
    Auto,
    /// The kernel's submission and completion rings (Linux).
    IoUring,
    /// Blocking system calls on a pool of threads.
    Threads,
    /// Files in memory on a modelled device, with injected faults.
    Simulated(SimulatedConfig),
}

impl DiskKind {
    /// The kind of this name (`auto`, `io_uring`, `threads`, `simulated`: perfect, at memory speed), or `None`.
    pub fn from_name(name: &str) -> Option<DiskKind> {
        match name {
            "auto" => Some(DiskKind::Auto),
            "io_uring" => Some(DiskKind::IoUring),
            "threads" => Some(DiskKind::Threads),
            SIMULATED => Some(DiskKind::Simulated(SimulatedConfig::default())),
            _ => None,
        }
    }
}

/// Starts a disk of this kind. For `Auto`, [`Disk::kind`] of the result says which kind was chosen.
///
/// # Errors
/// `Io` when io_uring was requested and the kernel refuses it, or no thread can be started.
pub fn open_disk(kind: DiskKind) -> Result<Arc<dyn Disk>> {
    match kind {
        #[cfg(target_os = "linux")]
        DiskKind::Auto => match crate::uring::Uring::start() {
            Ok(ring) => Ok(Arc::new(OsDisk::new(ring))),
            Err(_) => Ok(Arc::new(OsDisk::new(Threads::default()))),
        },
        #[cfg(not(target_os = "linux"))]
        DiskKind::Auto => Ok(Arc::new(OsDisk::new(Threads::default()))),
        #[cfg(target_os = "linux")]
        DiskKind::IoUring => Ok(Arc::new(OsDisk::new(crate::uring::Uring::start()?))),
        #[cfg(not(target_os = "linux"))]
        DiskKind::IoUring => Err(crate::error::DiskError::new(
            crate::error::Operation::Start,
            Path::new("io_uring"),
            None,
            std::io::Error::new(std::io::ErrorKind::Unsupported, "io_uring is there on Linux alone"),
        )),
        DiskKind::Threads => Ok(Arc::new(OsDisk::new(Threads::default()))),
        DiskKind::Simulated(config) => Ok(SimulatedDisk::start(config)?),
    }
}
