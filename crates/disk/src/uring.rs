//! I/O through the kernel's submission and completion rings.
//!
//! ```text
//!   any thread ──► arrived ── submission mutex ──► submission ring ──► kernel ──► completion ring ──► its thread
//!                                    │ full?                                                              │
//!                                    └──► overflow list ◄──── submits as entries come free ───────────────┘
//! ```
//!
//! A thread that finds the submission mutex held leaves its flight in `arrived`, and the holder of the mutex looks
//! there again after its release. So no thread that submits waits while another is in the kernel, which may take 0.1 ms
//! for a large read.
//!
//! Invariant: the kernel has at most `ENTRIES` flights, so neither ring ever overflows.
//!
//! Invariant: a flight that the kernel has is owned by its user data (a leaked `Box`). It becomes a `Box` again exactly
//! once, when the completion thread takes its entry.
//!
//! Invariant: only the completion thread accesses the completion ring. The submission ring is accessed under the mutex.
//!
//! Invariant: after each release of the submission mutex, the thread calls `hand_over`, or an entry is with the kernel
//! whose completion makes the completion thread call it. So no flight stays in `arrived`.
//!
//! No callback (waker, drop of a file or a queue) runs with the mutex held.

use crate::error::{DiskError, Operation, Result};
use crate::os_disk::Backend;
use crate::os_file::Flight;
use crate::queue::Direction;
use io_uring::{IoUring, opcode, squeue, types};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The most flights that the kernel has at once.
const ENTRIES: u32 = 256;

/// How often in a row a thread gives others' flights to the kernel before it leaves the rest to the completion thread.
const ROUNDS_MAX: usize = 3;

/// User data of an entry that only wakes the completion thread; no `Box` lies at address 0.
const WAKE: u64 = 0;

#[derive(Debug, Default)]
struct Submission {
    /// Flights for which the rings have no room, oldest first.
    overflow: VecDeque<Box<Flight>>,
    /// Entries that the kernel has.
    in_kernel: u32,
    /// No handle is left. The completion thread ends when nothing is in flight.
    closing: bool,
}

struct Shared {
    ring: IoUring,
    /// New flights, oldest first.
    arrived: Mutex<VecDeque<Box<Flight>>>,
    submission: Mutex<Submission>,
}

impl Shared {
    /// Gives flights that have arrived to the kernel, unless another thread is about to.
    fn hand_over(&self) {
        for round in 0..=ROUNDS_MAX {
            if self.arrived.lock().is_empty() {
                return;
            }
            let Some(mut submission) = self.submission.try_lock() else { return };
            if round < ROUNDS_MAX {
                submission.overflow.append(&mut self.arrived.lock());
                self.fill(&mut submission);
            } else {
                self.wake(&mut submission);
            }
        }
    }

    /// Makes the completion thread look again. If the kernel has no room, a completion is about to do that anyway.
    fn wake(&self, submission: &mut Submission) {
        if submission.in_kernel < ENTRIES {
            let entry = opcode::Nop::new().build().user_data(WAKE);
            // SAFETY: the entry points to nothing.
            unsafe { self.push(&entry) };
            submission.in_kernel += 1;
            self.enter();
        }
    }

    /// Moves flights from the overflow list to the kernel.
    fn fill(&self, submission: &mut Submission) {
        let mut pushed = 0;
        while submission.in_kernel < ENTRIES {
            let Some(mut flight) = submission.overflow.pop_front() else { break };
            flight.issue();
            let entry = entry_of(&flight).user_data(Box::into_raw(flight).expose_provenance() as u64);
            // SAFETY: what the entry points to is owned by the flight, which stays where it is until its completion is
            // taken.
            unsafe { self.push(&entry) };
            submission.in_kernel += 1;
            pushed += 1;
        }
        if pushed > 0 {
            self.enter();
        }
    }

    /// Puts an entry on the submission ring. The submission mutex must be held.
    ///
    /// # Safety
    /// What the entry points to must stay valid until its completion is taken.
    unsafe fn push(&self, entry: &squeue::Entry) {
        // SAFETY: the mutex is held, so this is the only submission queue in use; the caller vouches for the entry.
        let result = unsafe { self.ring.submission_shared().push(entry) };
        result.expect("fewer entries are under way than the ring has");
    }

    /// Submits all entries on the submission ring to the kernel. The submission mutex must be held.
    fn enter(&self) {
        loop {
            match self.ring.submit() {
                // SAFETY: the mutex is held, so this is the only submission queue in use.
                Ok(_) if unsafe { self.ring.submission_shared().is_empty() } => return,
                Ok(_) => {}
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // The kernel has no memory for requests at the moment. Requests in flight will free some.
                    Some(libc::EAGAIN | libc::EBUSY | libc::ENOMEM) => std::thread::sleep(Duration::from_micros(100)),
                    _ => panic!("the kernel refuses entries of this process's own ring: {error}"),
                },
            }
        }
    }

    /// Runs the completion thread.
    fn work(&self) {
        let mut taken = Vec::with_capacity(ENTRIES as usize);
        let mut again = Vec::new();
        let mut complete = Vec::new();
        loop {
            self.wait();
            // SAFETY: only this thread touches the completion queue.
            taken.extend(unsafe { self.ring.completion_shared() }.map(|entry| (entry.user_data(), entry.result())));
            let entries = u32::try_from(taken.len()).expect("the ring is small");
            for (user_data, result) in taken.drain(..).filter(|(user_data, _)| *user_data != WAKE) {
                let address = usize::try_from(user_data).expect("io_uring systems have 64-bit addresses");
                // SAFETY: user data other than WAKE is a flight leaked by `fill`; the kernel returns each entry once.
                let mut flight = unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut::<Flight>(address)) };
                let moved = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
                match flight.advance(moved) {
                    Some(result) => complete.push((flight, result)),
                    None => again.push(flight),
                }
            }
            let mut submission = self.submission.lock();
            submission.in_kernel -= entries;
            for flight in again.drain(..) {
                submission.overflow.push_front(flight);
            }
            self.fill(&mut submission);
            drop(submission);
            // Before new flights: their owners wait for them.
            for (flight, result) in complete.drain(..) {
                flight.complete(result);
            }
            if self.has_ended() {
                return;
            }
            self.hand_over();
        }
    }

    /// Whether no handle is left, and nothing is under way.
    fn has_ended(&self) -> bool {
        let submission = self.submission.lock();
        let is_idle = submission.in_kernel == 0 && submission.overflow.is_empty() && self.arrived.lock().is_empty();
        submission.closing && is_idle
    }

    /// Blocks until the completion ring has an entry.
    fn wait(&self) {
        /// Return only when `min_complete` entries are there.
        const IORING_ENTER_GETEVENTS: u32 = 1;
        loop {
            // SAFETY: only this thread touches the completion queue.
            if !unsafe { self.ring.completion_shared() }.is_empty() {
                return;
            }
            // SAFETY: nothing is submitted and no argument is passed, so the kernel reads no memory of ours.
            let entered = unsafe { self.ring.submitter().enter::<libc::sigset_t>(0, 1, IORING_ENTER_GETEVENTS, None) };
            if let Err(error) = entered {
                match error.raw_os_error() {
                    Some(libc::EINTR | libc::EAGAIN | libc::EBUSY) => {}
                    _ => panic!("the kernel refuses to wait on this process's own ring: {error}"),
                }
            }
        }
    }
}

/// The kernel's request for the rest of a flight.
fn entry_of(flight: &Flight) -> squeue::Entry {
    let fd = types::Fd(flight.file.raw_fd());
    let offset = flight.progress.position();
    if let [piece] = &flight.pieces[..] {
        // A longer piece is transferred in parts.
        let length = u32::try_from(piece.iov_len.min(1 << 30)).expect("at most 2^30");
        return match flight.progress.direction {
            Direction::Read => opcode::Read::new(fd, piece.iov_base.cast(), length).offset(offset).build(),
            Direction::Write => opcode::Write::new(fd, piece.iov_base.cast(), length).offset(offset).build(),
        };
    }
    let count = u32::try_from(flight.pieces.len()).expect("the pieces of one call are few");
    match flight.progress.direction {
        Direction::Read => opcode::Readv::new(fd, flight.pieces.as_ptr(), count).offset(offset).build(),
        Direction::Write => opcode::Writev::new(fd, flight.pieces.as_ptr(), count).offset(offset).build(),
    }
}

/// The backend, owned together by the disk and its files. When the last of them is dropped, the completion thread
/// finishes the flights in progress and ends. The drop does not wait for it, because it may happen on that thread.
pub(crate) struct Uring {
    shared: Arc<Shared>,
}

impl Uring {
    /// # Errors
    /// `Io` if the kernel has no io_uring or forbids it (containers), or no thread can be started.
    pub(crate) fn start() -> Result<Uring> {
        let refused = |error| DiskError::new(Operation::Start, Path::new("io_uring"), None, error);
        let ring = IoUring::new(ENTRIES).map_err(refused)?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe).map_err(refused)?;
        let needed =
            [opcode::Read::CODE, opcode::Write::CODE, opcode::Readv::CODE, opcode::Writev::CODE, opcode::Nop::CODE];
        if !needed.iter().all(|&code| probe.is_supported(code)) {
            return Err(refused(io::Error::from_raw_os_error(libc::ENOSYS)));
        }
        let shared = Arc::new(Shared { ring, arrived: Mutex::default(), submission: Mutex::default() });
        let worker = shared.clone();
        let started = std::thread::Builder::new().name("hobt-ring".into()).spawn(move || worker.work());
        started.map_err(refused)?;
        Ok(Uring { shared })
    }
}

impl Backend for Uring {
    fn kind(&self) -> &'static str {
        "io_uring"
    }

    /// Takes the flight, which the kernel gets when it has room.
    fn submit(&self, flight: Box<Flight>) {
        self.shared.arrived.lock().push_back(flight);
        self.shared.hand_over();
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        let mut submission = self.shared.submission.lock();
        submission.closing = true;
        self.shared.wake(&mut submission);
    }
}
