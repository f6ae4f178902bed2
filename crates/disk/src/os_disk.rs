//! The disk of the operating system: file names, and files over any backend that transfers their bytes.
//!
//! ```text
//!   OsDisk<Backend> ── open ──► OpenFile<Backend> ── read_at, write_at, sync, … ──► OsFile: the caller's system calls
//!                                     │
//!                                  submit ──► Flight ──► Backend: a ring or threads
//! ```
//!
//! Disk and files are generic over the backend, so a request costs only the one dynamic call of [`DiskFile`].

use crate::device_statistics::Devices;
use crate::disk::{Disk, DiskFile, OpenOptions};
use crate::error::{DiskError, Operation, Result};
use crate::os_file::{Flight, OsFile};
use crate::queue::Request;
use crate::statistics::FileStatistics;
use crate::throughput::Throughput;
use hobt_instruments::{Wait, WaitType};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Issues the transfers of a disk. It ends by itself after the disk and its files are dropped.
pub(crate) trait Backend: Send + Sync + 'static {
    /// As [`Disk::kind`].
    fn kind(&self) -> &'static str;

    /// Takes a flight and completes it later. Does not wait for the transfer.
    fn submit(&self, flight: Box<Flight>);
}

/// The disk of the operating system.
#[derive(Debug)]
pub(crate) struct OsDisk<B> {
    backend: Arc<B>,
    throughput: Arc<Throughput>,
    devices: Devices,
}

impl<B: Backend> OsDisk<B> {
    pub(crate) fn new(backend: B) -> OsDisk<B> {
        OsDisk { backend: Arc::new(backend), throughput: Arc::new(Throughput::new()), devices: Devices::default() }
    }
}

impl<B: Backend> Disk for OsDisk<B> {
    fn kind(&self) -> &'static str {
        self.backend.kind()
    }

    fn open(&self, path: &Path, options: OpenOptions) -> Result<Arc<dyn DiskFile>> {
        let file = Arc::new(OsFile::open(path, options, &self.throughput, &self.devices)?);
        Ok(Arc::new(OpenFile { file, backend: self.backend.clone() }))
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        let missing: Vec<&Path> =
            path.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists()).collect();
        // A folder is an entry of the one above it, which is durable when that one is synced.
        let sync_above = |made: &Path| match made.parent().filter(|above| !above.as_os_str().is_empty()) {
            Some(above) => fs::File::open(above)?.sync_all(),
            None => fs::File::open(".")?.sync_all(),
        };
        let create = || {
            fs::create_dir_all(path)?;
            if missing.is_empty() {
                // A killed process may have created the folder before its entry was durable. Or the folder is old, and
                // the one above it cannot be read or synced.
                let is_fixed = |kind| {
                    matches!(
                        kind,
                        io::ErrorKind::PermissionDenied
                            | io::ErrorKind::InvalidInput
                            | io::ErrorKind::Unsupported
                            | io::ErrorKind::ReadOnlyFilesystem
                    )
                };
                return sync_above(path).or_else(|error| if is_fixed(error.kind()) { Ok(()) } else { Err(error) });
            }
            // The topmost first.
            missing.iter().rev().try_for_each(|made| sync_above(made))
        };
        create().map_err(|error| DiskError::new(Operation::Directory, path, None, error))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let _wait = Wait::begin(WaitType::PreemptiveDeleteFile);
        fs::remove_file(path).map_err(|error| DiskError::new(Operation::Remove, path, None, error))
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn list(&self, path: &Path) -> Result<Vec<PathBuf>> {
        let entries = || fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>();
        let mut paths = entries().map_err(|error| DiskError::new(Operation::Directory, path, None, error))?;
        paths.sort_unstable();
        Ok(paths)
    }

    fn sync_directory(&self, path: &Path) -> Result<()> {
        let _wait = Wait::begin(WaitType::PreemptiveFlushFileBuffers);
        let sync = || fs::File::open(path)?.sync_all();
        sync().map_err(|error| DiskError::new(Operation::Directory, path, None, error))
    }

    fn free_space(&self, path: &Path) -> Result<u64> {
        let _wait = Wait::begin(WaitType::PreemptiveGetDiskFreeSpace);
        free_bytes(path).map_err(|error| DiskError::new(Operation::Stat, path, None, error))
    }

    fn throughput(&self) -> &Throughput {
        &self.throughput
    }
}

/// Bytes that are free for this user on the device of a file or folder.
pub(crate) fn free_bytes(path: &Path) -> io::Result<u64> {
    let name = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: statvfs is a struct of integers, for which zero is a valid value.
    let mut answer: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `name` ends in a zero byte and `answer` is valid for writing; both outlive the call.
    if unsafe { libc::statvfs(name.as_ptr(), &mut answer) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // The types differ between systems: 64 bits on Linux, 32 bits for blocks on macOS.
    #[allow(clippy::useless_conversion, reason = "not useless on macOS")]
    Ok(u64::from(answer.f_bavail).saturating_mul(u64::from(answer.f_frsize)))
}

/// A file handle. Flights share the [`OsFile`], which is closed when the last of them is dropped.
#[derive(Debug)]
struct OpenFile<B> {
    file: Arc<OsFile>,
    backend: Arc<B>,
}

impl<B: Backend> DiskFile for OpenFile<B> {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn is_direct(&self) -> bool {
        self.file.is_direct()
    }

    fn size(&self) -> Result<u64> {
        self.file.size()
    }

    fn device_free_bytes(&self) -> Result<u64> {
        self.file.device_free_bytes()
    }

    fn set_size(&self, bytes: u64) -> Result<()> {
        self.file.set_size(bytes)
    }

    fn cut(&self, bytes: u64) -> Result<()> {
        self.file.cut(bytes)
    }

    fn reserve(&self, bytes: u64) -> Result<bool> {
        self.file.reserve(bytes)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        self.file.write_at(buffer, offset)
    }

    fn write_durable_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        self.file.write_durable_at(buffer, offset)
    }

    fn sync(&self) -> Result<()> {
        self.file.sync()
    }

    fn try_lock_exclusive(&self) -> Result<()> {
        self.file.try_lock_exclusive()
    }

    fn try_lock_shared(&self) -> Result<()> {
        self.file.try_lock_shared()
    }

    fn submit(&self, request: Request) {
        if let Some(flight) = Flight::start(&self.file, request) {
            self.backend.submit(flight);
        }
    }

    fn statistics(&self) -> &FileStatistics {
        self.file.statistics()
    }
}
