//! I/O by blocking system calls on a pool of threads: for systems without io_uring, and kernels that refuse it.
//!
//! Threads are started when a request finds none idle, up to a limit, and stay until the disk and its files are gone.

use crate::error::{DiskError, Operation};
use crate::os_disk::Backend;
use crate::os_file::Flight;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;

/// The most transfers that are with the device at once.
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

/// The backend, owned together by the disk and its files. When the last of them is dropped, the threads finish the
/// waiting requests and end.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    shared: Arc<Shared>,
}

impl Backend for Threads {
    fn kind(&self) -> &'static str {
        "threads"
    }

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
}

impl Threads {
    /// Called when the system gives no thread. Existing threads will serve the request; if there are none, it fails.
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

impl Drop for Threads {
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
