//! An open file of a simulated disk.

use super::content::Content;
use super::device::{Device, Transfer};
use super::faults::FaultKind;
use super::{Inode, LOCKED, World};
use crate::buffer::{IoBuffer, SECTOR_SIZE};
use crate::disk::{DiskFile, OpenOptions};
use crate::error::{DiskError, Operation, Poison, Result};
use crate::queue::{Completion, Direction, Request};
use crate::statistics::{FileStatistics, TransferTimes};
use crate::transfer::{Progress, Step, check_alignment};
use hobt_instruments::schedule::{self, Place};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// An open file.
#[derive(Debug)]
pub(crate) struct SimulatedFile {
    shared: Arc<Shared>,
}

/// The part of a file handle that transfers under way share.
#[derive(Debug)]
struct Shared {
    world: Arc<World>,
    inode: Arc<Inode>,
    path: PathBuf,
    options: OpenOptions,
    /// The index of its device.
    device: usize,
    generation: u64,
    poison: Poison,
    /// What this handle has of the locks of its inode: nothing, a share, or all of it.
    lock: AtomicU32,
    statistics: FileStatistics,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A crash has released the lock, and another handle may have taken it since.
        let lock = *self.lock.get_mut();
        if lock > 0 && self.world.generation() == self.generation {
            self.inode.locks.fetch_sub(lock, Ordering::SeqCst);
        }
    }
}

impl SimulatedFile {
    /// Takes the lock of the file, or a share of it, unless this handle has one.
    fn lock(&self, wanted: u32) -> Result<()> {
        let shared = &self.shared;
        if shared.lock.load(Ordering::SeqCst) > 0 {
            return Ok(());
        }
        let taken =
            |locks: u32| if locks == 0 || (wanted == 1 && locks < LOCKED) { Some(locks + wanted) } else { None };
        let locked = shared.inode.locks.fetch_update(Ordering::SeqCst, Ordering::SeqCst, taken);
        locked.map_err(|_| DiskError::Locked { path: shared.path.clone() })?;
        if !shared.world.names_inode(&shared.path, &shared.inode) {
            shared.inode.locks.fetch_sub(wanted, Ordering::SeqCst);
            return Err(DiskError::NotFound { path: shared.path.clone() });
        }
        shared.lock.store(wanted, Ordering::SeqCst);
        Ok(())
    }

    fn resize(&self, bytes: u64) -> Result<()> {
        schedule::point(Place::Disk);
        let shared = &self.shared;
        let failed = |error| DiskError::new(Operation::SetSize, &shared.path, None, error);
        shared.check_alive().map_err(failed)?;
        if let Some(FaultKind::Error(number)) = shared.world.fault(Operation::SetSize, &shared.path) {
            return Err(shared.error(Operation::SetSize, number));
        }
        if shared.options.read_only {
            return Err(shared.error(Operation::SetSize, libc::EBADF));
        }
        let set = || {
            let mut content = shared.inode.content.lock();
            shared.world.account(content.size(), bytes)?;
            content.set_size(bytes);
            Ok(())
        };
        shared.world.powered(Operation::SetSize, &shared.path, bytes..bytes, set).map_err(failed)
    }

    pub(super) fn new(world: Arc<World>, inode: Arc<Inode>, path: &Path, options: OpenOptions) -> SimulatedFile {
        let generation = world.generation();
        let device = world.device_of(path);
        let statistics = FileStatistics::new(Arc::clone(&world.devices[device].statistics));
        SimulatedFile {
            shared: Arc::new(Shared {
                world,
                inode,
                path: path.to_path_buf(),
                options,
                device,
                generation,
                poison: Poison::default(),
                lock: AtomicU32::new(0),
                statistics,
            }),
        }
    }
}

impl Shared {
    fn error(&self, operation: Operation, number: i32) -> DiskError {
        DiskError::new(operation, &self.path, None, io::Error::from_raw_os_error(number))
    }

    fn check_alive(&self) -> io::Result<()> {
        if self.world.generation() == self.generation { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EIO)) }
    }

    fn check_writable(&self) -> Result<()> {
        self.poison.check(&self.path)
    }

    fn misaligned(&self, direction: Direction, offset: u64, aligned: bool) -> Option<DiskError> {
        if self.options.direct { check_alignment(direction, &self.path, offset, aligned) } else { None }
    }

    /// Identifies the file for the device.
    fn identity(&self) -> usize {
        Arc::as_ptr(&self.inode).addr()
    }

    /// Bytes of the next part of a transfer, or the error of its fault.
    fn part_length(&self, fault: Option<FaultKind>, length: usize) -> io::Result<usize> {
        match fault {
            Some(FaultKind::Error(number)) => Err(io::Error::from_raw_os_error(number)),
            Some(FaultKind::Short) => Ok(length.min((length / 2).next_multiple_of(SECTOR_SIZE).max(SECTOR_SIZE))),
            Some(FaultKind::Ignored) | None => Ok(length),
        }
    }

    fn read_part(&self, target: &mut [u8], offset: u64) -> io::Result<usize> {
        self.check_alive()?;
        let length = self.part_length(self.world.fault(Operation::Read, &self.path), target.len())?;
        self.world.powered(Operation::Read, &self.path, offset..offset + length as u64, || {
            Ok(self.inode.content.lock().read(offset, &mut target[..length]))
        })
    }

    fn write_part(&self, source: &[u8], offset: u64) -> io::Result<usize> {
        if self.options.read_only {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        self.check_alive()?;
        let fault = self.world.fault(Operation::Write, &self.path);
        let length = self.part_length(fault, source.len())?;
        if fault == Some(FaultKind::Ignored) {
            return Ok(length);
        }
        let end = offset.checked_add(length as u64).ok_or_else(|| io::Error::from_raw_os_error(libc::EFBIG))?;
        self.world.powered(Operation::Write, &self.path, offset..end, || {
            let mut content = self.inode.content.lock();
            let before = content.size();
            self.world.account(before, before.max(end))?;
            content.write(offset, &source[..length]);
            Ok(length)
        })
    }

    /// Calls `make_durable`, unless the power fails before.
    fn sync_with(&self, make_durable: impl FnOnce(&mut Content)) -> Result<()> {
        self.check_writable()?;
        let since = Instant::now();
        let synced = self.sync_now(make_durable);
        self.statistics.synced(since.elapsed());
        let synced = synced.map_err(|error| DiskError::new(Operation::Sync, &self.path, None, error));
        synced.inspect_err(|error| self.poison.set(error))
    }

    fn sync_now(&self, make_durable: impl FnOnce(&mut Content)) -> io::Result<()> {
        let fault = self.world.fault(Operation::Sync, &self.path);
        self.check_alive()?;
        match fault {
            Some(FaultKind::Error(number)) => return Err(io::Error::from_raw_os_error(number)),
            Some(FaultKind::Ignored) => return Ok(()),
            Some(FaultKind::Short) | None => {}
        }
        self.world.powered_sync(Operation::Sync, &self.path, || {
            make_durable(&mut self.inode.content.lock());
            Ok(())
        })
    }

    /// Executes all parts of a transfer. `part` executes one, from a byte of the memory to a position in the file.
    fn transfer(
        &self,
        direction: Direction,
        offset: u64,
        length: usize,
        mut part: impl FnMut(usize, u64) -> io::Result<usize>,
    ) -> Result<()> {
        let mut progress = Progress::new(direction, offset, length, self.options.direct);
        loop {
            let moved = part(progress.done, progress.position());
            match progress.advance(&self.path, moved) {
                Step::Done => return Ok(()),
                Step::Continue => {}
                Step::Failed(error) => return Err(error),
            }
        }
    }

    /// Counts a transfer, and poisons the file if it was a failed write.
    fn finish(&self, direction: Direction, length: usize, begun: Instant, latency: Duration, result: &Result<()>) {
        let times = TransferTimes { latency, queued: Duration::ZERO };
        self.statistics.end(direction, length, begun, times, result.is_ok());
        match result {
            Ok(()) => self.world.throughput.add(direction, length as u64),
            Err(error) if direction == Direction::Write => self.poison.set(error),
            Err(_) => {}
        }
    }

    fn device(&self) -> Option<&Device> {
        self.world.devices[self.device].device.as_ref()
    }

    fn as_transfer(&self, direction: Direction, offset: u64, length: usize, submitted: Instant) -> Transfer {
        Transfer { file: self.identity(), direction, offset, bytes: length as u64, submitted }
    }

    /// Waits on the calling thread for as long as the device needs. Returns how long that was by its model.
    fn pass(&self, direction: Direction, offset: u64, length: usize, submitted: Instant) -> Option<Duration> {
        let done = self.device()?.pass(self.as_transfer(direction, offset, length, submitted));
        self.statistics.device().record(direction, length as u64, submitted, done);
        Some(done.saturating_duration_since(submitted))
    }

    /// Transfers a request's bytes.
    fn run(&self, direction: Direction, offset: u64, buffer: &mut IoBuffer) -> Result<()> {
        let length = buffer.len();
        let mut pieces = Vec::new();
        self.transfer(direction, offset, length, |done, position| {
            buffer.pieces(done, &mut pieces);
            let piece = &pieces[0];
            match direction {
                Direction::Read => {
                    // SAFETY: the piece lies in the request's buffer, which the request owns or for which the caller of
                    // `PinnedSlice::new` vouched until the completion is popped, which is pushed later than this.
                    let target = unsafe { std::slice::from_raw_parts_mut(piece.iov_base.cast::<u8>(), piece.iov_len) };
                    self.read_part(target, position)
                }
                Direction::Write => {
                    // SAFETY: as above; a write only reads the memory.
                    let source = unsafe { std::slice::from_raw_parts(piece.iov_base.cast::<u8>(), piece.iov_len) };
                    self.write_part(source, position)
                }
            }
        })
    }

    /// Executes a request and delivers its completion. `done` is when the device was done with it, if it has a model.
    fn complete(self: Arc<Shared>, request: Request, submitted: Instant, done: Option<Instant>) {
        let Request { direction, offset, mut buffer, tag, queue } = request;
        let length = buffer.len();
        let refused = if direction == Direction::Write { self.check_writable().err() } else { None };
        let refused = refused.or_else(|| self.misaligned(direction, offset, buffer.is_aligned()));
        let result = match refused {
            Some(error) => {
                self.statistics.end(direction, length, submitted, TransferTimes::default(), false);
                Err(error)
            }
            None => {
                let result = if length == 0 { Ok(()) } else { self.run(direction, offset, &mut buffer) };
                let latency = done.unwrap_or_else(Instant::now).saturating_duration_since(submitted);
                self.finish(direction, length, submitted, latency, &result);
                result
            }
        };
        drop(self);
        queue.push(Completion { direction, offset, buffer, tag, latency: submitted.elapsed(), result });
    }
}

impl DiskFile for SimulatedFile {
    fn path(&self) -> &Path {
        &self.shared.path
    }

    fn is_direct(&self) -> bool {
        self.shared.options.direct
    }

    fn size(&self) -> Result<u64> {
        self.shared.check_alive().map_err(|error| DiskError::new(Operation::Stat, &self.shared.path, None, error))?;
        Ok(self.shared.inode.content.lock().size())
    }

    fn device_free_bytes(&self) -> Result<u64> {
        Ok(self.shared.world.free_bytes())
    }

    fn set_size(&self, bytes: u64) -> Result<()> {
        self.shared.check_writable()?;
        self.resize(bytes)
    }

    fn cut(&self, bytes: u64) -> Result<()> {
        if bytes >= self.size()? {
            return Ok(());
        }
        self.resize(bytes)
    }

    fn reserve(&self, bytes: u64) -> Result<bool> {
        if self.size()? < bytes {
            self.set_size(bytes)?;
        }
        Ok(true)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        schedule::point(Place::Disk);
        let shared = &self.shared;
        let aligned = buffer.as_ptr().addr().is_multiple_of(SECTOR_SIZE) && buffer.len().is_multiple_of(SECTOR_SIZE);
        if let Some(error) = shared.misaligned(Direction::Read, offset, aligned) {
            return Err(error);
        }
        let (since, length) = (Instant::now(), buffer.len());
        shared.statistics.begin(Direction::Read, length, since);
        let modelled = shared.pass(Direction::Read, offset, length, since);
        let result = shared.transfer(Direction::Read, offset, length, |done, position| {
            shared.read_part(&mut buffer[done..], position)
        });
        shared.finish(Direction::Read, length, since, modelled.unwrap_or_else(|| since.elapsed()), &result);
        result
    }

    fn write_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        schedule::point(Place::Disk);
        let shared = &self.shared;
        shared.check_writable()?;
        let aligned = buffer.as_ptr().addr().is_multiple_of(SECTOR_SIZE) && buffer.len().is_multiple_of(SECTOR_SIZE);
        if let Some(error) = shared.misaligned(Direction::Write, offset, aligned) {
            return Err(error);
        }
        let (since, length) = (Instant::now(), buffer.len());
        shared.statistics.begin(Direction::Write, length, since);
        let modelled = shared.pass(Direction::Write, offset, length, since);
        let result = shared
            .transfer(Direction::Write, offset, length, |done, position| shared.write_part(&buffer[done..], position));
        shared.finish(Direction::Write, length, since, modelled.unwrap_or_else(|| since.elapsed()), &result);
        result
    }

    fn write_durable_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        self.write_at(buffer, offset)?;
        schedule::point(Place::Disk);
        self.shared.sync_with(|content| content.sync_range(offset, buffer.len() as u64))
    }

    fn sync(&self) -> Result<()> {
        schedule::point(Place::Disk);
        self.shared.sync_with(Content::sync)
    }

    fn try_lock_exclusive(&self) -> Result<()> {
        self.lock(LOCKED)
    }

    fn try_lock_shared(&self) -> Result<()> {
        self.lock(1)
    }

    fn submit(&self, request: Request) {
        schedule::point(Place::Disk);
        let shared = self.shared.clone();
        request.queue.expect_one();
        let (direction, length, submitted) = (request.direction, request.buffer.len(), Instant::now());
        shared.statistics.begin(direction, length, submitted);
        match self.shared.device() {
            None => shared.complete(request, submitted, None),
            Some(device) => {
                let transfer = shared.as_transfer(direction, request.offset, length, submitted);
                let action = Box::new(move |done| shared.complete(request, submitted, Some(done)));
                let done = device.schedule(transfer, action);
                self.shared.statistics.device().record(direction, length as u64, submitted, done);
            }
        }
    }

    fn statistics(&self) -> &FileStatistics {
        &self.shared.statistics
    }
}
