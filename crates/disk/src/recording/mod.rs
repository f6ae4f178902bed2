//! A disk that wraps another one and records its changes: what was written where, when each write ended, what was
//! synced, which names were created and removed, and marks that the program adds.
//!
//! ```text
//!   the engine ──► RecordingDisk ──► any disk          trace:  …, Write, Mark, Done, Sync, Done, …
//!                       │                                                        ▲ cut
//!                       └──► Trace ──► Replay ──► a folder as a loss of power there could have left it
//! ```
//!
//! For tests of what a real process leaves on disk. Reads are not recorded. The test puts it between an instance and
//! its disk. No setting, argument or environment variable does so.
//!
//! Done elsewhere: what the marks mean, and whether an instance can start from what is left.

mod replay;
#[cfg(test)]
mod tests;
mod trace;

pub use replay::Replay;
pub use trace::Trace;

use crate::buffer::{AlignedBuffer, IoBuffer, SECTOR_SIZE};
use crate::disk::{Disk, DiskFile, OpenOptions};
use crate::error::{DiskError, Operation, Result};
use crate::queue::{CompletionQueue, Direction, Request};
use crate::statistics::FileStatistics;
use crate::throughput::Throughput;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trace::{Kind, TraceWriter};

/// The most bytes of one event that records a file's initial contents.
const CONTENT_BYTES: usize = 256 << 10;

/// File numbers by name.
#[derive(Debug, Default)]
struct Names {
    numbers: BTreeMap<PathBuf, u64>,
    next: u64,
}

impl Names {
    fn add(&mut self, path: &Path) -> u64 {
        self.next += 1;
        self.numbers.insert(path.to_path_buf(), self.next);
        self.next
    }
}

/// A disk whose changes are recorded.
pub struct RecordingDisk {
    inner: Arc<dyn Disk>,
    trace: Arc<TraceWriter>,
    names: Mutex<Names>,
}

impl std::fmt::Debug for RecordingDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordingDisk").field("kind", &self.inner.kind()).finish_non_exhaustive()
    }
}

impl RecordingDisk {
    /// Records the changes of `inner` into the file `trace`, starting with the contents of `folder`, which need not
    /// exist. These contents count as durable. No other program may change the folder meanwhile, and nothing outside it
    /// may be changed through the disk.
    ///
    /// # Errors
    /// The trace cannot be written, or the folder cannot be read.
    pub fn start(inner: Arc<dyn Disk>, folder: &Path, trace: &Path) -> Result<Arc<RecordingDisk>> {
        let failed = |error| DiskError::new(Operation::Start, trace, None, error);
        let trace = Arc::new(TraceWriter::create(trace).map_err(failed)?);
        trace.append(Kind::Root, [0; 3], &[folder.as_os_str().as_bytes()]);
        let disk = RecordingDisk { inner, trace, names: Mutex::default() };
        if disk.inner.exists(folder) {
            disk.record_folder(folder)?;
        }
        Ok(Arc::new(disk))
    }

    /// Records a note between the operations requested before and after it.
    pub fn mark(&self, note: &[u8]) {
        self.trace.append(Kind::Mark, [0; 3], &[note]);
    }

    /// Writes the trace so far to the system. Later events are still recorded.
    ///
    /// # Errors
    /// The trace could not be written. It ends there.
    pub fn finish(&self) -> io::Result<()> {
        self.trace.finish()
    }

    fn record_folder(&self, folder: &Path) -> Result<()> {
        self.trace.append(Kind::Directory, [0; 3], &[folder.as_os_str().as_bytes()]);
        for path in self.inner.list(folder)? {
            match self.inner.list(&path) {
                Ok(_) => self.record_folder(&path)?,
                Err(_) => self.record_file(&path)?,
            }
        }
        Ok(())
    }

    fn record_file(&self, path: &Path) -> Result<()> {
        let file = self.inner.open(path, OpenOptions { read_only: true, ..OpenOptions::default() })?;
        let size = file.size()?;
        let number = self.names.lock().add(path);
        self.trace.append(Kind::File, [number, size, 0], &[path.as_os_str().as_bytes()]);
        let zeros = vec![0; CONTENT_BYTES];
        let mut buffer = AlignedBuffer::new(CONTENT_BYTES)?;
        for offset in (0..size).step_by(CONTENT_BYTES) {
            let length = usize::try_from(size - offset).unwrap_or(usize::MAX).min(CONTENT_BYTES);
            let part = &mut buffer[..length];
            file.read_at(part, offset)?;
            if *part != zeros[..length] {
                self.trace.append(Kind::Content, [number, offset, 0], &[part]);
            }
        }
        Ok(())
    }

    fn record_name(&self, kind: Kind, path: &Path) {
        self.trace.append(kind, [0; 3], &[path.as_os_str().as_bytes()]);
    }
}

impl Disk for RecordingDisk {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn open(&self, path: &Path, options: OpenOptions) -> Result<Arc<dyn DiskFile>> {
        // Held during the operation, so that the events of a name are in the order of its changes.
        let mut names = self.names.lock();
        let inner = self.inner.open(path, options)?;
        let known = names.numbers.get(path).copied().filter(|_| !options.create_new);
        let number = known.unwrap_or_else(|| {
            let number = names.add(path);
            self.trace.append(Kind::Created, [number, 0, 0], &[path.as_os_str().as_bytes()]);
            number
        });
        Ok(Arc::new(RecordingFile { inner, trace: Arc::clone(&self.trace), number }))
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        self.inner.create_directory(path).inspect(|()| self.record_name(Kind::Directory, path))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let mut names = self.names.lock();
        self.inner.remove(path)?;
        names.numbers.remove(path);
        self.record_name(Kind::Removed, path);
        Ok(())
    }

    fn exists(&self, path: &Path) -> bool {
        self.inner.exists(path)
    }

    fn list(&self, path: &Path) -> Result<Vec<PathBuf>> {
        self.inner.list(path)
    }

    fn sync_directory(&self, path: &Path) -> Result<()> {
        let number = self.trace.append(Kind::SyncDirectory, [0; 3], &[path.as_os_str().as_bytes()]);
        let synced = self.inner.sync_directory(path);
        done(&self.trace, number, synced)
    }

    fn free_space(&self, path: &Path) -> Result<u64> {
        self.inner.free_space(path)
    }

    fn throughput(&self) -> &Throughput {
        self.inner.throughput()
    }
}

/// Records that the operation of event `number` has ended, if it succeeded.
fn done(trace: &TraceWriter, number: u64, result: Result<()>) -> Result<()> {
    result.inspect(|()| {
        trace.append(Kind::Done, [number, 0, 0], &[]);
    })
}

/// A file whose changes are recorded.
struct RecordingFile {
    inner: Arc<dyn DiskFile>,
    trace: Arc<TraceWriter>,
    number: u64,
}

impl RecordingFile {
    fn begin_write(&self, offset: u64, is_durable: bool, pieces: &[&[u8]]) -> u64 {
        self.trace.append(Kind::Write, [self.number, offset, u64::from(is_durable)], pieces)
    }

    /// Records a write that is submitted, and returns the event's number.
    fn begin_submitted(&self, offset: u64, buffer: &mut IoBuffer) -> u64 {
        let mut pieces = Vec::new();
        buffer.pieces(0, &mut pieces);
        let slice = |piece: &libc::iovec| {
            // SAFETY: the piece lies in the request's buffer, which this call borrows through its request, or for which
            // the caller of `PinnedSlice::new` vouched until the completion is popped, which cannot be before the
            // request was submitted; nothing writes it meanwhile, and it is read here and in the same call only.
            unsafe { std::slice::from_raw_parts(piece.iov_base.cast::<u8>().cast_const(), piece.iov_len) }
        };
        let slices: Vec<&[u8]> = pieces.iter().map(slice).collect();
        self.begin_write(offset, false, &slices)
    }
}

impl DiskFile for RecordingFile {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn is_direct(&self) -> bool {
        self.inner.is_direct()
    }

    fn size(&self) -> Result<u64> {
        self.inner.size()
    }

    fn device_free_bytes(&self) -> Result<u64> {
        self.inner.device_free_bytes()
    }

    fn set_size(&self, bytes: u64) -> Result<()> {
        self.inner.set_size(bytes).inspect(|()| {
            self.trace.append(Kind::Resized, [self.number, bytes, 0], &[]);
        })
    }

    fn cut(&self, bytes: u64) -> Result<()> {
        if bytes >= self.size()? {
            return Ok(());
        }
        self.inner.cut(bytes).inspect(|()| {
            self.trace.append(Kind::Resized, [self.number, bytes, 0], &[]);
        })
    }

    fn reserve(&self, bytes: u64) -> Result<bool> {
        if self.size()? < bytes {
            self.set_size(bytes)?;
        }
        Ok(true)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        let number = self.begin_write(offset, false, &[buffer]);
        done(&self.trace, number, self.inner.write_at(buffer, offset))
    }

    fn write_durable_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        let number = self.begin_write(offset, true, &[buffer]);
        done(&self.trace, number, self.inner.write_durable_at(buffer, offset))
    }

    fn sync(&self) -> Result<()> {
        let number = self.trace.append(Kind::Sync, [self.number, 0, 0], &[]);
        done(&self.trace, number, self.inner.sync())
    }

    fn try_lock_exclusive(&self) -> Result<()> {
        self.inner.try_lock_exclusive()
    }

    fn try_lock_shared(&self) -> Result<()> {
        self.inner.try_lock_shared()
    }

    fn submit(&self, mut request: Request) {
        if request.direction == Direction::Write {
            let number = self.begin_submitted(request.offset, &mut request.buffer);
            let (trace, consumer) = (Arc::clone(&self.trace), Arc::clone(&request.queue));
            consumer.expect_one();
            request.queue = CompletionQueue::relaying(move |completion| {
                if completion.result.is_ok() {
                    trace.append(Kind::Done, [number, 0, 0], &[]);
                }
                consumer.push(completion);
            });
        }
        self.inner.submit(request);
    }

    fn statistics(&self) -> &FileStatistics {
        self.inner.statistics()
    }
}

/// The sector that contains a byte.
fn sector_of(offset: u64) -> u64 {
    offset / SECTOR_SIZE as u64
}
