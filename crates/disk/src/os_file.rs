//! An open file of the operating system and its transfers under way: sizes, locks, alignment, accounting, and the
//! effects of a failed write. The [backends](crate::os_disk::Backend) issue the transfers.

use crate::buffer::{IoBuffer, SECTOR_SIZE};
use crate::device_statistics::Devices;
use crate::disk::OpenOptions;
use crate::error::{DiskError, Operation, Poison, Result};
use crate::os_disk::free_bytes;
use crate::queue::{Completion, CompletionQueue, Direction, Request};
use crate::statistics::{FileStatistics, TransferTimes};
use crate::throughput::Throughput;
use crate::transfer::{Progress, Step, check_alignment};
use hobt_instruments::{Wait, WaitType};
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// When a transfer on the calling thread counts as complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// When memory or the system has the bytes.
    Taken,
    /// When they are durable, if the file system supports writes that wait for that.
    Durable,
}

/// The most pieces that one system call takes.
const PIECES_MAX: usize = 1024;

/// An open file of the operating system.
#[derive(Debug)]
pub(crate) struct OsFile {
    file: File,
    path: PathBuf,
    direct: bool,
    poison: Poison,
    /// The file system or the operating system has no write that waits for the device.
    lacks_durable_writes: AtomicBool,
    statistics: FileStatistics,
    throughput: Arc<Throughput>,
}

impl OsFile {
    pub(crate) fn open(
        path: &Path,
        options: OpenOptions,
        throughput: &Arc<Throughput>,
        devices: &Devices,
    ) -> Result<OsFile> {
        let _wait = Wait::begin(WaitType::PreemptiveCreateFile);
        let (file, direct) = refuse_special_file(path)
            .and_then(|()| open_file(path, options))
            .map_err(|error| DiskError::new(Operation::Open, path, None, error))?;
        let number = file.metadata().map(|metadata| metadata.dev());
        let number = number.map_err(|error| DiskError::new(Operation::Stat, path, None, error))?;
        Ok(OsFile {
            file,
            path: path.to_path_buf(),
            direct,
            poison: Poison::default(),
            lacks_durable_writes: AtomicBool::new(false),
            statistics: FileStatistics::new(devices.device(number)),
            throughput: throughput.clone(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    pub(crate) fn statistics(&self) -> &FileStatistics {
        &self.statistics
    }

    pub(crate) fn raw_fd(&self) -> i32 {
        self.file.as_raw_fd()
    }

    fn error(&self, operation: Operation, source: io::Error) -> DiskError {
        DiskError::new(operation, &self.path, None, source)
    }

    pub(crate) fn size(&self) -> Result<u64> {
        self.file.metadata().map(|metadata| metadata.len()).map_err(|error| self.error(Operation::Stat, error))
    }

    pub(crate) fn device_free_bytes(&self) -> Result<u64> {
        let _wait = Wait::begin(WaitType::PreemptiveGetDiskFreeSpace);
        free_bytes(&self.path).map_err(|error| self.error(Operation::Stat, error))
    }

    pub(crate) fn set_size(&self, bytes: u64) -> Result<()> {
        self.check_writable()?;
        let _wait = Wait::begin(WaitType::PreemptiveFileOps);
        let before = self.size()?;
        if bytes <= before {
            return self.file.set_len(bytes).map_err(|error| self.error(Operation::SetSize, error));
        }
        allocate(&self.file, before, bytes).map_err(|error| self.not_grown(before, error))
    }

    /// Truncates the file, also after a failed write.
    pub(crate) fn cut(&self, bytes: u64) -> Result<()> {
        let _wait = Wait::begin(WaitType::PreemptiveFileOps);
        if bytes >= self.size()? {
            return Ok(());
        }
        self.file.set_len(bytes).map_err(|error| self.error(Operation::SetSize, error))
    }

    /// As [`OsFile::set_size`], if the file system does not write the zeroes.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<bool> {
        self.check_writable()?;
        let _wait = Wait::begin(WaitType::PreemptiveFileOps);
        let before = self.size()?;
        if bytes <= before {
            return Ok(true);
        }
        reserve(&self.file, before, bytes).map_err(|error| self.not_grown(before, error))
    }

    fn not_grown(&self, before: u64, error: io::Error) -> DiskError {
        // Frees what was allocated before the device was full. If that fails too, the first error says more.
        let _ = self.file.set_len(before);
        self.error(Operation::SetSize, error)
    }

    pub(crate) fn sync(&self) -> Result<()> {
        self.check_writable()?;
        let _wait = Wait::begin(WaitType::PreemptiveFlushFileBuffers);
        self.sync_unbooked()
    }

    /// Like `sync`, but records no wait: the caller records its own.
    fn sync_unbooked(&self) -> Result<()> {
        self.check_writable()?;
        let since = Instant::now();
        let result = self.file.sync_data();
        self.statistics.synced(since.elapsed());
        // Never repeated: after a failure the kernel may have dropped the pages and would then report success.
        result.map_err(|error| self.error(Operation::Sync, error)).inspect_err(|error| self.poison.set(error))
    }

    pub(crate) fn try_lock_exclusive(&self) -> Result<()> {
        self.locked(self.file.try_lock())
    }

    pub(crate) fn try_lock_shared(&self) -> Result<()> {
        self.locked(self.file.try_lock_shared())
    }

    fn locked(&self, locked: std::result::Result<(), TryLockError>) -> Result<()> {
        locked.map_err(|error| match error {
            TryLockError::WouldBlock => DiskError::Locked { path: self.path.clone() },
            TryLockError::Error(error) => self.error(Operation::Lock, error),
        })?;
        // Who had it locked before may have removed it.
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let named = fs::metadata(&self.path).map(identity);
        let own = self.file.metadata().map(identity).map_err(|error| self.error(Operation::Lock, error))?;
        if named.is_ok_and(|named| named == own) {
            return Ok(());
        }
        let _unlocked = self.file.unlock();
        Err(DiskError::NotFound { path: self.path.clone() })
    }

    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: the piece is the buffer, which is borrowed exclusively for the whole call.
        unsafe { self.transfer_one(Direction::Read, Until::Taken, piece, offset) }
    }

    pub(crate) fn write_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        self.check_writable()?;
        let piece = libc::iovec { iov_base: buffer.as_ptr().cast_mut().cast(), iov_len: buffer.len() };
        // SAFETY: the piece is the buffer, which is borrowed for the whole call and only read by a write.
        unsafe { self.transfer_one(Direction::Write, Until::Taken, piece, offset) }
    }

    /// Writes and waits for the device in one call. If the file system or the operating system does not support that,
    /// writes and then syncs.
    pub(crate) fn write_durable_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        self.check_writable()?;
        let piece = libc::iovec { iov_base: buffer.as_ptr().cast_mut().cast(), iov_len: buffer.len() };
        // SAFETY: the piece is the buffer, which is borrowed for the whole call and only read by a write.
        unsafe { self.transfer_one(Direction::Write, Until::Durable, piece, offset) }?;
        // If durable writes are missing, as known before or found out by this call, the write was an ordinary one.
        if self.lacks_durable_writes.load(Ordering::Relaxed) { self.sync_unbooked() } else { Ok(()) }
    }

    /// Transfers one piece of memory on the calling thread and counts it. [`Until::Durable`] is allowed only for
    /// writes.
    ///
    /// # Safety
    /// The piece must be valid during the call, for writing if the direction is `Read`, and not written by other code.
    unsafe fn transfer_one(&self, direction: Direction, until: Until, piece: libc::iovec, offset: u64) -> Result<()> {
        debug_assert!(direction == Direction::Write || until == Until::Taken, "a read has nothing to make durable");
        let aligned = piece.iov_base.addr().is_multiple_of(SECTOR_SIZE) && piece.iov_len.is_multiple_of(SECTOR_SIZE);
        if let Some(error) = self.misaligned(direction, offset, aligned) {
            return Err(error);
        }
        let since = Instant::now();
        self.statistics.begin(direction, piece.iov_len, since);
        let mut progress = Progress::new(direction, offset, piece.iov_len, self.direct);
        let result = loop {
            let rest = libc::iovec {
                iov_base: piece.iov_base.wrapping_byte_add(progress.done),
                iov_len: piece.iov_len - progress.done,
            };
            // SAFETY: `rest` lies within the piece, which the caller vouches for.
            let moved = unsafe {
                if until == Until::Durable && !self.lacks_durable_writes.load(Ordering::Relaxed) {
                    self.write_durably(rest, progress.position())
                } else {
                    self.call(direction, &[rest], progress.position())
                }
            };
            match progress.advance(&self.path, moved) {
                Step::Done => break Ok(()),
                Step::Continue => {}
                Step::Failed(error) => break Err(error),
            }
        };
        let times = TransferTimes { latency: since.elapsed(), queued: Duration::ZERO };
        self.finish(direction, progress.length, since, times, &result);
        result
    }

    /// One `preadv` or `pwritev`.
    ///
    /// # Safety
    /// The pieces must be valid during the call, for writing if the direction is `Read`, and not written by other code.
    unsafe fn call(&self, direction: Direction, pieces: &[libc::iovec], offset: u64) -> io::Result<usize> {
        let offset = libc::off_t::try_from(offset).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let count = i32::try_from(pieces.len().min(PIECES_MAX)).expect("at most PIECES_MAX");
        // SAFETY: the descriptor is open as long as `self`; `count` pieces are there, and valid as the caller promises.
        let moved = unsafe {
            match direction {
                Direction::Read => libc::preadv(self.raw_fd(), pieces.as_ptr(), count, offset),
                Direction::Write => libc::pwritev(self.raw_fd(), pieces.as_ptr(), count, offset),
            }
        };
        usize::try_from(moved).map_err(|_| io::Error::last_os_error())
    }

    /// One `pwritev2` that returns when the bytes are durable. If that is not supported, records this and writes
    /// nothing.
    ///
    /// # Safety
    /// The piece must be valid during the call and not written by other code.
    #[cfg(target_os = "linux")]
    unsafe fn write_durably(&self, piece: libc::iovec, offset: u64) -> io::Result<usize> {
        let offset = libc::off_t::try_from(offset).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: the descriptor is open as long as `self`; the piece is valid as the caller promises.
        let moved = unsafe { libc::pwritev2(self.raw_fd(), &raw const piece, 1, offset, libc::RWF_DSYNC) };
        usize::try_from(moved).map_err(|_| {
            let error = io::Error::last_os_error();
            if !matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL)) {
                return error;
            }
            self.lacks_durable_writes.store(true, Ordering::Relaxed);
            // As if interrupted by a signal: the caller tries again, now with an ordinary write.
            io::Error::from_raw_os_error(libc::EINTR)
        })
    }

    #[cfg(not(target_os = "linux"))]
    unsafe fn write_durably(&self, _: libc::iovec, _: u64) -> io::Result<usize> {
        self.lacks_durable_writes.store(true, Ordering::Relaxed);
        Err(io::Error::from_raw_os_error(libc::EINTR))
    }

    fn misaligned(&self, direction: Direction, offset: u64, aligned: bool) -> Option<DiskError> {
        if self.direct { check_alignment(direction, &self.path, offset, aligned) } else { None }
    }

    fn check_writable(&self) -> Result<()> {
        self.poison.check(&self.path)
    }

    /// Counts a completed transfer, and poisons the file if it was a failed write.
    fn finish(&self, direction: Direction, length: usize, begun: Instant, times: TransferTimes, result: &Result<()>) {
        self.statistics.end(direction, length, begun, times, result.is_ok());
        match result {
            Ok(()) => self.throughput.add(direction, length as u64),
            Err(error) if direction == Direction::Write => self.poison.set(error),
            Err(_) => {}
        }
    }
}

impl Drop for OsFile {
    fn drop(&mut self) {
        // Closing the file would release the lock, but the kernel may keep the open file for a while after its last
        // transfer, and the lock with it. The next open would then find the file in use. Unlocking a file that was not
        // locked does no harm.
        let _is_closed_next = self.file.unlock();
    }
}

/// A request on its way through a backend. If it is dropped without [`Flight::complete`], its consumer waits for ever.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) file: Arc<OsFile>,
    pub(crate) progress: Progress,
    /// The pieces of memory still to be transferred; the kernel's requests point here.
    pub(crate) pieces: Vec<libc::iovec>,
    buffer: IoBuffer,
    tag: u64,
    queue: Arc<CompletionQueue>,
    submitted: Instant,
    issued: Option<Instant>,
}

// SAFETY: the raw pointers in `pieces` lead into `buffer`, which is `Send`.
unsafe impl Send for Flight {}

impl Flight {
    /// Accepts a request. `None` when it is already complete: empty, misaligned, or a write to a poisoned file.
    pub(crate) fn start(file: &Arc<OsFile>, request: Request) -> Option<Box<Flight>> {
        let Request { direction, offset, buffer, tag, queue } = request;
        queue.expect_one();
        let submitted = Instant::now();
        file.statistics.begin(direction, buffer.len(), submitted);
        let mut flight = Box::new(Flight {
            file: file.clone(),
            progress: Progress::new(direction, offset, buffer.len(), file.direct),
            pieces: Vec::with_capacity(1),
            buffer,
            tag,
            queue,
            submitted,
            issued: None,
        });
        let poisoned = if direction == Direction::Write { file.check_writable().err() } else { None };
        let refused = poisoned.or_else(|| file.misaligned(direction, offset, flight.buffer.is_aligned()));
        match refused {
            Some(error) => flight.refuse(error),
            None if flight.progress.length == 0 => flight.complete(Ok(())),
            None => {
                flight.prepare();
                return Some(flight);
            }
        }
        None
    }

    /// Computes the pieces that are still to be transferred.
    fn prepare(&mut self) {
        self.buffer.pieces(self.progress.done, &mut self.pieces);
        self.pieces.truncate(PIECES_MAX);
    }

    /// Records that the device has the request now.
    pub(crate) fn issue(&mut self) {
        self.issued.get_or_insert_with(Instant::now);
    }

    /// Takes the result of a system call for the rest. `None` when the flight must be issued again.
    pub(crate) fn advance(&mut self, moved: io::Result<usize>) -> Option<Result<()>> {
        match self.progress.advance(&self.file.path, moved) {
            Step::Done => Some(Ok(())),
            Step::Failed(error) => Some(Err(error)),
            Step::Continue => {
                self.prepare();
                None
            }
        }
    }

    /// Transfers everything on the calling thread.
    pub(crate) fn run(&mut self) -> Result<()> {
        self.issue();
        loop {
            // SAFETY: the pieces lead into the request's buffer, which the flight owns or for which the caller of
            // `PinnedSlice::new` vouched until the completion is popped; it is pushed only after this.
            let moved = unsafe { self.file.call(self.progress.direction, &self.pieces, self.progress.position()) };
            if let Some(result) = self.advance(moved) {
                return result;
            }
        }
    }

    /// Counts the flight and delivers its completion.
    pub(crate) fn complete(self, result: Result<()>) {
        let latency = self.submitted.elapsed();
        let queued = self.issued.map_or(Duration::ZERO, |issued| issued - self.submitted);
        let times = TransferTimes { latency, queued };
        self.file.finish(self.progress.direction, self.progress.length, self.submitted, times, &result);
        self.deliver(latency, result);
    }

    /// Like `complete`, for a request that was not begun: does not poison the file.
    fn refuse(self, error: DiskError) {
        let (direction, length) = (self.progress.direction, self.progress.length);
        self.file.statistics.end(direction, length, self.submitted, TransferTimes::default(), false);
        self.deliver(Duration::ZERO, Err(error));
    }

    fn deliver(self, latency: Duration, result: Result<()>) {
        let completion = Completion {
            direction: self.progress.direction,
            offset: self.progress.offset,
            buffer: self.buffer,
            tag: self.tag,
            latency,
            result,
        };
        // The file is released first: the consumer that pops the last completion may expect that no handle is left.
        drop(self.file);
        self.queue.push(completion);
    }
}

/// Refuses pipes: opening one waits until its other end is opened, and this wait cannot be cancelled. A missing file is
/// not an error here.
fn refuse_special_file(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;

    let Ok(kind) = fs::metadata(path).map(|metadata| metadata.file_type()) else { return Ok(()) };
    if kind.is_fifo() || kind.is_socket() || kind.is_char_device() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a pipe, a socket or a device of characters"));
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn open_file(path: &Path, options: OpenOptions) -> io::Result<(File, bool)> {
    use std::os::unix::fs::OpenOptionsExt;

    let mut open = fs::OpenOptions::new();
    open.read(true).write(!options.read_only || options.create_new).create_new(options.create_new);
    if options.direct {
        match open.clone().custom_flags(libc::O_DIRECT).open(path) {
            Ok(file) => return Ok((file, true)),
            // The file system does not support direct I/O. Some have created the file by then.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                if options.create_new && path.exists() {
                    fs::remove_file(path)?;
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok((open.open(path)?, false))
}

#[cfg(not(target_os = "linux"))]
fn open_file(path: &Path, options: OpenOptions) -> io::Result<(File, bool)> {
    let mut open = fs::OpenOptions::new();
    open.read(true).write(!options.read_only || options.create_new).create_new(options.create_new);
    let file = open.open(path)?;
    #[cfg(target_os = "macos")]
    if options.direct {
        // SAFETY: F_NOCACHE takes an int and changes a flag of the open descriptor. It asks for no alignment, and a
        // refusal leaves the cache on, which is only slower.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_NOCACHE, 1) };
    }
    Ok((file, false))
}

/// Grows a file from `before` to `bytes` so that its blocks are allocated.
fn allocate(file: &File, before: u64, bytes: u64) -> io::Result<()> {
    if reserve(file, before, bytes)? { Ok(()) } else { fill_with_zeroes(file, before, bytes) }
}

/// Grows a file from `before` to `bytes`, with blocks that count as zeroes. Returns whether the file system can do
/// that.
#[cfg(target_os = "linux")]
fn reserve(file: &File, before: u64, bytes: u64) -> io::Result<bool> {
    let too_large = |_| io::Error::from_raw_os_error(libc::EFBIG);
    let start = libc::off_t::try_from(before).map_err(too_large)?;
    let length = libc::off_t::try_from(bytes - before).map_err(too_large)?;
    loop {
        // SAFETY: fallocate touches no memory of ours; the descriptor is open as long as `file`.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, start, length) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => return Ok(false),
            _ => return Err(error),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(_: &File, _: u64, _: u64) -> io::Result<bool> {
    Ok(false)
}

/// Allocates by writing zeroes, for file systems that have no other method.
fn fill_with_zeroes(file: &File, before: u64, bytes: u64) -> io::Result<()> {
    use std::os::unix::fs::FileExt;

    const CHUNK: u64 = 1 << 20;
    // Writing starts at a sector boundary, so that it is possible with direct I/O. The rest of a sector begun before
    // reads as zeroes.
    let zeroes =
        crate::buffer::AlignedBuffer::new(CHUNK as usize).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    let mut position = before.next_multiple_of(SECTOR_SIZE as u64);
    while position < bytes {
        let chunk = CHUNK.min((bytes - position).next_multiple_of(SECTOR_SIZE as u64));
        let chunk = usize::try_from(chunk).expect("at most a chunk");
        file.write_all_at(&zeroes[..chunk], position)?;
        position += chunk as u64;
    }
    file.set_len(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::AlignedBuffer;
    use hobt_instruments::WaitCounters;
    use hobt_instruments::waits::set_statement_counters;

    /// The counts of the waits that `act` records on this thread, by type.
    fn waits_of(act: impl FnOnce()) -> Vec<(WaitType, u64)> {
        let waits = Arc::new(WaitCounters::new());
        let booked_here = set_statement_counters(Some(waits.clone()));
        act();
        drop(booked_here);
        waits.rows().iter().map(|row| (row.wait_type, row.waiting_tasks_count)).collect()
    }

    fn syncs(file: &OsFile) -> u64 {
        file.statistics().snapshot().syncs
    }

    #[test]
    fn without_durable_writes_a_write_and_a_sync_do_the_same_and_book_no_wait() {
        let path = std::env::temp_dir().join(format!("hobt-os-file-{}", std::process::id()));
        let options = OpenOptions { create_new: true, read_only: false, direct: true };
        let file = OsFile::open(&path, options, &Arc::new(Throughput::new()), &Devices::default()).expect("created");
        let mut buffer = AlignedBuffer::new(4096).expect("memory");
        buffer.fill(7);
        file.lacks_durable_writes.store(true, Ordering::Relaxed);
        let waits = waits_of(|| file.write_durable_at(&buffer, 4096).expect("written"));
        assert!(waits.is_empty(), "{waits:?}");
        assert_eq!((file.statistics().snapshot().writes.count, syncs(&file)), (1, 1));
        let waits = waits_of(|| file.sync().expect("synced"));
        assert_eq!(waits, [(WaitType::PreemptiveFlushFileBuffers, 1)]);
        drop(file);
        let read = fs::read(&path).expect("it is there");
        fs::remove_file(&path).expect("removed");
        assert!(read[..4096].iter().all(|&byte| byte == 0) && read[4096..] == buffer[..]);
    }

    /// As in the kernel while a transfer is not finished when the file is closed.
    #[test]
    fn a_lock_goes_with_the_file_although_somebody_still_has_it_open() {
        let path = std::env::temp_dir().join(format!("hobt-lock-{}", std::process::id()));
        let (throughput, devices) = (Arc::new(Throughput::new()), Devices::default());
        let options = OpenOptions { create_new: true, ..OpenOptions::default() };
        let file = OsFile::open(&path, options, &throughput, &devices);
        let file = file.expect("created");
        file.try_lock_exclusive().expect("nobody else has it");
        let still_open = file.file.try_clone().expect("another handle");
        let other = OsFile::open(&path, OpenOptions::default(), &throughput, &devices).expect("opens");
        assert!(matches!(other.try_lock_exclusive(), Err(DiskError::Locked { .. })));
        drop(file);
        other.try_lock_exclusive().expect("let go of");
        drop(still_open);
        fs::remove_file(&path).expect("removed");
    }

    /// `/proc/self/coredump_filter` is a file that can be written, but not durably, and cannot be synced either.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_without_durable_writes_is_found_out_by_the_first_and_then_synced() {
        let path = Path::new("/proc/self/coredump_filter");
        let throughput = Arc::new(Throughput::new());
        let file = OsFile::open(path, OpenOptions::default(), &throughput, &Devices::default()).expect("opens");
        let error = file.write_durable_at(b"0x3f", 0).expect_err("it cannot be synced");
        assert!(matches!(error, DiskError::Io { operation: Operation::Sync, .. }), "{error}");
        assert_eq!(fs::read(path).expect("readable"), b"0000003f\n");
        assert!(file.lacks_durable_writes.load(Ordering::Relaxed));
        assert_eq!((file.statistics().snapshot().writes.count, syncs(&file)), (1, 1));
        assert!(matches!(file.write_durable_at(b"0x33", 0), Err(DiskError::Poisoned { .. })));
    }
}
