//! I/O by blocking system calls on a pool of threads: for systems without io_uring, and kernels that refuse it.
//!
//! Threads are started when a request finds none idle, up to a limit, and stay until the disk and its files are gone.

use crate::disk::{Disk, DiskFile, OpenOptions};
use crate::error::{DiskError, Operation, Result};
use crate::os_file::{Flight, OsFile, names};
use crate::queue::Request;
use crate::statistics::FileStatistics;
use crate::throughput::Throughput;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// As many transfers are with the device at once.
const THREADS_MAX: usize = 32;

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Box<Flight>>,
    threads: usize,
    idle: usize,
    closing: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
}

/// The pool's owner: when the last one goes, the threads finish what is waiting and end.
#[derive(Debug, Default)]
struct Pool {
    shared: Arc<Shared>,
}

impl Pool {
    fn submit(&self, flight: Box<Flight>) {
        let mut state = self.shared.state.lock();
        state.waiting.push_back(flight);
        if state.idle >= state.waiting.len() || state.threads == THREADS_MAX {
            drop(state);
            self.shared.work.notify_one();
            return;
        }
        state.threads += 1;
        drop(state);
        let shared = self.shared.clone();
        let started = std::thread::Builder::new().name("hobt-io".into()).spawn(move || shared.work());
        if let Err(error) = started {
            self.without_thread(error);
        }
    }

    /// The system gives no thread. Those that are there will get to the request; without any, it fails.
    #[cold]
    fn without_thread(&self, error: std::io::Error) {
        let mut state = self.shared.state.lock();
        state.threads -= 1;
        let abandoned = if state.threads == 0 { std::mem::take(&mut state.waiting) } else { VecDeque::new() };
        drop(state);
        let number = error.raw_os_error().unwrap_or(libc::EAGAIN);
        for flight in abandoned {
            let source = std::io::Error::from_raw_os_error(number);
            let error = DiskError::new(Operation::Start, flight.file.path(), Some(flight.progress.offset), source);
            flight.complete(Err(error));
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.state.lock().closing = true;
        self.shared.work.notify_all();
    }
}

impl Shared {
    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(mut flight) = state.waiting.pop_front() {
                drop(state);
                let result = flight.run();
                flight.complete(result);
                state = self.state.lock();
            } else if state.closing {
                state.threads -= 1;
                return;
            } else {
                state.idle += 1;
                self.work.wait(&mut state);
                state.idle -= 1;
            }
        }
    }
}

/// The disk of this backend.
#[derive(Debug)]
pub(crate) struct ThreadsDisk {
    pool: Arc<Pool>,
    throughput: Arc<Throughput>,
}

impl ThreadsDisk {
    pub(crate) fn start() -> ThreadsDisk {
        ThreadsDisk { pool: Arc::default(), throughput: Arc::new(Throughput::new()) }
    }
}

impl Disk for ThreadsDisk {
    fn kind(&self) -> &'static str {
        "threads"
    }

    fn open(&self, path: &Path, options: OpenOptions) -> Result<Arc<dyn DiskFile>> {
        let file = Arc::new(OsFile::open(path, options, &self.throughput)?);
        Ok(Arc::new(ThreadsFile { file, pool: self.pool.clone() }))
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        names::create_directory(path)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        names::remove(path)
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn list(&self, path: &Path) -> Result<Vec<PathBuf>> {
        names::list(path)
    }

    fn sync_directory(&self, path: &Path) -> Result<()> {
        names::sync_directory(path)
    }

    fn free_space(&self, path: &Path) -> Result<u64> {
        names::free_space(path)
    }

    fn throughput(&self) -> &Throughput {
        &self.throughput
    }
}

#[derive(Debug)]
struct ThreadsFile {
    file: Arc<OsFile>,
    pool: Arc<Pool>,
}

impl DiskFile for ThreadsFile {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn is_direct(&self) -> bool {
        self.file.is_direct()
    }

    fn size(&self) -> Result<u64> {
        self.file.size()
    }

    fn set_size(&self, bytes: u64) -> Result<()> {
        self.file.set_size(bytes)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        self.file.write_at(buffer, offset)
    }

    fn sync(&self) -> Result<()> {
        self.file.sync()
    }

    fn try_lock_exclusive(&self) -> Result<()> {
        self.file.try_lock_exclusive()
    }

    fn submit(&self, request: Request) {
        if let Some(flight) = Flight::start(&self.file, request) {
            self.pool.submit(flight);
        }
    }

    fn statistics(&self) -> &FileStatistics {
        self.file.statistics()
    }
}
