//! The speed of the disk without a database: direct reads and writes of one file, many at once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hobt_base::SplitMix64;
use hobt_disk::{
    AlignedBuffer, CompletionQueue, Direction, Disk, DiskFile, DiskKind, IoBuffer, OpenOptions, Request, open_disk,
};
use serde::Serialize;

use crate::error::{LabError, Result};
use crate::figures::{median, percentile};

/// A range of a file.
#[derive(Clone)]
pub(crate) struct Stretch {
    /// The file.
    pub(crate) file: Arc<dyn DiskFile>,
    /// The first byte.
    pub(crate) offset: u64,
    /// The number of bytes, a multiple of the sector size.
    pub(crate) bytes: u64,
}

/// The result of a series of transfers.
#[derive(Debug)]
pub(crate) struct Transfers {
    pub(crate) bytes: u64,
    pub(crate) elapsed: Duration,
    pub(crate) latencies_us: Vec<u64>,
}

impl Transfers {
    /// Megabytes (10⁶ bytes) per second.
    pub(crate) fn mb_s(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Transfers pieces `(file, offset, bytes)`, up to `depth` at once. Blocks until all are done.
///
/// # Errors
/// The error of the first transfer that failed.
pub(crate) fn transfer(
    direction: Direction,
    pieces: impl Iterator<Item = (Arc<dyn DiskFile>, u64, usize)>,
    buffer_bytes: usize,
    depth: usize,
) -> Result<Transfers> {
    transfer_by(direction, pieces, buffers(buffer_bytes, depth)?)
}

/// Buffers of transfers of so many bytes. They are filled before the clock starts, so that page faults of the first
/// read do not count as disk time, with bytes that no device can leave out or compress.
fn buffers(bytes: usize, depth: usize) -> Result<Vec<AlignedBuffer>> {
    let mut random = SplitMix64::new(bytes as u64);
    let mut buffers = Vec::new();
    for _ in 0..depth.max(1) {
        let mut buffer = AlignedBuffer::new(bytes.max(HUGE))?;
        buffer.fill(0);
        let (words, _) = buffer[..bytes].as_chunks_mut::<8>();
        words.iter_mut().for_each(|word| *word = random.next_u64().to_le_bytes());
        buffers.push(buffer);
    }
    Ok(buffers)
}

/// As [`transfer`], one at a time in each buffer.
fn transfer_by(
    direction: Direction,
    mut pieces: impl Iterator<Item = (Arc<dyn DiskFile>, u64, usize)>,
    buffers: Vec<AlignedBuffer>,
) -> Result<Transfers> {
    let queue = CompletionQueue::new();
    let mut submit = |mut buffer: AlignedBuffer| {
        if let Some((file, offset, bytes)) = pieces.next() {
            buffer.set_len(bytes);
            let (buffer, queue) = (IoBuffer::Owned(buffer), Arc::clone(&queue));
            file.submit(Request { direction, offset, buffer, tag: 0, queue });
        }
    };
    let since = Instant::now();
    buffers.into_iter().for_each(&mut submit);
    let (mut bytes, mut latencies_us, mut failed) = (0, Vec::new(), None);
    while let Some(completion) = queue.wait_pop() {
        match completion.result {
            Ok(()) => {
                bytes += completion.buffer.len() as u64;
                latencies_us.push(u64::try_from(completion.latency.as_micros()).unwrap_or(u64::MAX));
                if failed.is_none() {
                    submit(completion.buffer.into_owned().expect("the request owned its buffer"));
                }
            }
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    match failed {
        Some(error) => Err(LabError::Disk(error)),
        None => Ok(Transfers { bytes, elapsed: since.elapsed(), latencies_us }),
    }
}

/// Buffers of the threads that read together, `depth` in all: as many threads as there are processors.
fn buffers_of_readers(read_bytes: usize, depth: usize) -> Result<Vec<Vec<AlignedBuffer>>> {
    let readers = hobt_instruments::processor::processor_count().min(depth).max(1);
    (0..readers).map(|_| buffers(read_bytes, depth.div_ceil(readers))).collect()
}

/// Reads stretches from start to end in pieces of at most `read_bytes`, `depth` at once. The pieces are shared by as
/// many threads as there are processors, each taking the next piece, because on some disks one thread does not reach
/// the limit.
///
/// # Errors
/// The error of the first read that failed.
pub(crate) fn read_stretches(stretches: &[Stretch], read_bytes: usize, depth: usize) -> Result<Transfers> {
    read_by(stretches, read_bytes, buffers_of_readers(read_bytes, depth)?)
}

/// As [`read_stretches`], with a thread for each list of buffers.
fn read_by(stretches: &[Stretch], read_bytes: usize, buffers: Vec<Vec<AlignedBuffer>>) -> Result<Transfers> {
    let mut pieces = Vec::new();
    for stretch in stretches {
        let end = stretch.offset + stretch.bytes;
        for offset in (stretch.offset..end).step_by(read_bytes) {
            let bytes = usize::try_from(end - offset).unwrap_or(usize::MAX).min(read_bytes);
            pieces.push((Arc::clone(&stretch.file), offset, bytes));
        }
    }
    let (next, pieces) = (AtomicUsize::new(0), &pieces);
    let parts: Vec<Result<Transfers>> = std::thread::scope(|scope| {
        let next = &next;
        let threads: Vec<_> = buffers
            .into_iter()
            .map(|own| {
                scope.spawn(move || {
                    let mine = std::iter::from_fn(|| pieces.get(next.fetch_add(1, Ordering::Relaxed)).cloned());
                    transfer_by(Direction::Read, mine, own)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("reading does not panic")).collect()
    });
    let mut all = Transfers { bytes: 0, elapsed: Duration::ZERO, latencies_us: Vec::new() };
    for part in parts {
        let part = part?;
        all.elapsed = all.elapsed.max(part.elapsed);
        all.bytes += part.bytes;
        all.latencies_us.extend(part.latencies_us);
    }
    Ok(all)
}

/// A read rate for one size and order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReadLimit {
    /// `sequential` or `random`.
    pub order: &'static str,
    /// Size of a read.
    pub read_kib: usize,
    /// Reads in flight.
    pub queue_depth: usize,
    /// Megabytes per second: the median of the repetitions.
    pub mb_s: f64,
    /// Each repetition.
    pub mb_s_repetitions: Vec<f64>,
    /// The median latency.
    pub latency_us_p50: u64,
    /// The 95th percentile of the latency.
    pub latency_us_p95: u64,
    /// The 99th percentile of the latency.
    pub latency_us_p99: u64,
    /// The slowest read.
    pub latency_us_max: u64,
}

/// A file of the laboratory in the folder to be measured. It is removed when this is dropped.
pub(crate) struct DiskProbe {
    disk: Arc<dyn Disk>,
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    bytes: u64,
    /// Megabytes per second of writing the file.
    pub(crate) write_mb_s: f64,
}

/// The size of a write to the file.
const LARGE: usize = 512 << 10;

/// What transfers past the page cache are multiples of.
const SECTOR: u64 = 4 << 10;

/// Writes in flight.
const DEPTH: usize = 32;

/// The least size of a buffer, so that the system can back it with huge pages. A transfer then has few segments, as
/// with the buffer pool's memory, and the measured limit is that of the device and not of page lists.
const HUGE: usize = 4 << 20;

/// A way to read: the size of a read in KiB, and the reads in flight.
pub(crate) type ReadMode = (usize, usize);

/// Read modes of which one usually reaches a disk's limit. More reads in flight are not always faster.
pub(crate) const LARGE_READS: [ReadMode; 4] = [(128, 32), (256, 16), (512, 8), (512, 32)];

impl DiskProbe {
    /// Writes a file of `bytes` (rounded up to 1 MiB) past the page cache, and syncs it. Blocks.
    ///
    /// # Errors
    /// If the folder cannot be written, or the disk is full.
    pub(crate) fn new(folder: &Path, bytes: u64) -> Result<DiskProbe> {
        let bytes = bytes.next_multiple_of(1 << 20).max(4 << 20);
        let disk = open_disk(DiskKind::Auto)?;
        let path = folder.join(format!("limits-{}.probe", std::process::id()));
        // Left by an earlier process with the same id.
        if disk.exists(&path) {
            disk.remove(&path)?;
        }
        let options = OpenOptions { create_new: true, direct: true, read_only: false };
        let file = disk.open(&path, options)?;
        let mut probe = DiskProbe { disk, file, path, bytes, write_mb_s: 0.0 };
        probe.file.set_size(bytes)?;
        let since = Instant::now();
        let pieces = (0..bytes).step_by(LARGE).map(|offset| (Arc::clone(&probe.file), offset, LARGE));
        transfer(Direction::Write, pieces, LARGE, DEPTH)?;
        probe.file.sync()?;
        probe.write_mb_s = bytes as f64 / 1e6 / since.elapsed().as_secs_f64().max(1e-9);
        Ok(probe)
    }

    /// Whether reads bypass the page cache. If not, rates are those of memory.
    pub(crate) fn is_direct(&self) -> bool {
        self.file.is_direct()
    }

    /// Reads the whole file in order, `repetitions` times.
    ///
    /// # Errors
    /// If a read failed.
    pub(crate) fn sequential(&self, read_kib: usize, depth: usize, repetitions: usize) -> Result<ReadLimit> {
        let all = [Stretch { file: Arc::clone(&self.file), offset: 0, bytes: self.bytes }];
        let readings: Result<Vec<Transfers>> =
            (0..repetitions.max(1)).map(|_| read_stretches(&all, read_kib << 10, depth)).collect();
        Ok(limit_of("sequential", read_kib, depth, readings?))
    }

    /// Reads `count` positions of the file in random order.
    ///
    /// # Errors
    /// If a read failed.
    pub(crate) fn random(&self, read_kib: usize, depth: usize, count: usize, repetitions: usize) -> Result<ReadLimit> {
        let size = read_kib << 10;
        let places = (self.bytes / size as u64).max(1);
        let readings: Result<Vec<Transfers>> = (0..repetitions.max(1))
            .map(|seed| {
                let mut random = SplitMix64::new(seed as u64);
                let pieces = (0..count).map(|_| (Arc::clone(&self.file), random.below(places) * size as u64, size));
                transfer(Direction::Read, pieces, size, depth)
            })
            .collect();
        Ok(limit_of("random", read_kib, depth, readings?))
    }

    /// Reads `read` bytes of the file in order, from its start again where it ends, and at the same time writes
    /// `written` bytes into another file, which is synced and then removed. That is what a copy asks of a disk. Returns
    /// the time until both are done. Numbers of bytes are rounded up to sectors. Blocks.
    ///
    /// # Errors
    /// If a transfer failed, or the disk is full.
    pub(crate) fn copy(&self, read: u64, written: u64, (read_kib, depth): ReadMode) -> Result<Duration> {
        let (read, written) = (read.next_multiple_of(SECTOR), written.next_multiple_of(SECTOR));
        let starts = (0..read).step_by(usize::try_from(self.bytes).unwrap_or(usize::MAX));
        let stretch = |start| Stretch { file: Arc::clone(&self.file), offset: 0, bytes: self.bytes.min(read - start) };
        let stretches: Vec<Stretch> = starts.map(stretch).collect();
        let target = Target::new(Arc::clone(&self.disk), self.path.with_extension("copy"), written)?;
        let (reading, writing) = (buffers_of_readers(read_kib << 10, depth)?, buffers(LARGE, DEPTH)?);
        let since = Instant::now();
        let (was_read, was_written) = std::thread::scope(|scope| {
            let reader = scope.spawn(|| read_by(&stretches, read_kib << 10, reading));
            let was_written = target.write(written, writing);
            (reader.join().expect("reading does not panic"), was_written)
        });
        let elapsed = since.elapsed();
        was_read?;
        was_written?;
        Ok(elapsed)
    }

    /// Megabytes per second of [`DiskProbe::copy`], of the whole file: the median of the repetitions.
    ///
    /// # Errors
    /// As [`DiskProbe::copy`].
    pub(crate) fn copy_mb_s(&self, mode: ReadMode, repetitions: usize) -> Result<f64> {
        let rate = |_| {
            let elapsed = self.copy(self.bytes, self.bytes, mode)?;
            Ok(self.bytes as f64 / 1e6 / elapsed.as_secs_f64().max(1e-9))
        };
        let rates: Vec<f64> = (0..repetitions.max(1)).map(rate).collect::<Result<_>>()?;
        Ok(median(&rates).unwrap_or(0.0))
    }

    /// Writes 4 KiB and syncs, repeatedly, for about `time`. Returns syncs per second.
    ///
    /// # Errors
    /// If a write or sync failed.
    pub(crate) fn flushes_per_s(&self, time: Duration) -> Result<f64> {
        const BLOCK: usize = 4 << 10;
        let block = AlignedBuffer::new(BLOCK)?;
        let since = Instant::now();
        let mut flushes = 0_u64;
        while since.elapsed() < time || flushes == 0 {
            self.file.write_at(&block, flushes * BLOCK as u64 % self.bytes)?;
            self.file.sync()?;
            flushes += 1;
        }
        Ok(flushes as f64 / since.elapsed().as_secs_f64())
    }
}

impl Drop for DiskProbe {
    fn drop(&mut self) {
        // A failure is harmless: a process with the same id overwrites a file that is left.
        let _removed = self.disk.remove(&self.path);
    }
}

/// The file that a copy writes. It is removed when this is dropped.
struct Target {
    disk: Arc<dyn Disk>,
    file: Arc<dyn DiskFile>,
    path: PathBuf,
}

impl Target {
    /// A file with room for so many bytes.
    fn new(disk: Arc<dyn Disk>, path: PathBuf, bytes: u64) -> Result<Target> {
        // Left by an earlier process with the same id.
        if disk.exists(&path) {
            disk.remove(&path)?;
        }
        let file = disk.open(&path, OpenOptions { create_new: true, direct: true, read_only: false })?;
        let target = Target { disk, file, path };
        target.file.set_size(bytes)?;
        Ok(target)
    }

    fn write(&self, bytes: u64, buffers: Vec<AlignedBuffer>) -> Result<()> {
        let piece = |offset: u64| {
            let length = usize::try_from(bytes - offset).unwrap_or(usize::MAX).min(LARGE);
            (Arc::clone(&self.file), offset, length)
        };
        transfer_by(Direction::Write, (0..bytes).step_by(LARGE).map(piece), buffers)?;
        self.file.sync()?;
        Ok(())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // A failure is harmless, as for the probe itself.
        let _removed = self.disk.remove(&self.path);
    }
}

fn limit_of(order: &'static str, read_kib: usize, queue_depth: usize, readings: Vec<Transfers>) -> ReadLimit {
    let rates: Vec<f64> = readings.iter().map(Transfers::mb_s).collect();
    let mut latencies: Vec<u64> = readings.into_iter().flat_map(|reading| reading.latencies_us).collect();
    let mut at = |percent| percentile(&mut latencies, percent).unwrap_or(0);
    ReadLimit {
        order,
        read_kib,
        queue_depth,
        mb_s: median(&rates).unwrap_or(0.0),
        mb_s_repetitions: rates,
        latency_us_p50: at(50),
        latency_us_p95: at(95),
        latency_us_p99: at(99),
        latency_us_max: at(100),
    }
}
