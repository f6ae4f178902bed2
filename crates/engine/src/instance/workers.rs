//! Threads that do one piece of work together, beside the session's own: those of backups and restores.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use hobt_instruments::schedule::Mutex;
use hobt_instruments::{Wait, WaitType};

use crate::error::Result;

/// The time between two reports of a thread that waits for others.
const REPORT_EVERY: Duration = Duration::from_millis(50);

/// Sets a flag on drop.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The other threads, as the session's own sees them.
pub(super) struct Others {
    /// How many there are.
    pub(super) count: usize,
    /// Nothing is sent. A thread has the other end until it ends.
    ended: mpsc::Receiver<Infallible>,
}

impl Others {
    /// Blocks until all have ended, and reports meanwhile. An error of the report ends it early.
    pub(super) fn wait(&self, wait_type: WaitType, report: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        loop {
            let wait = Wait::begin(wait_type);
            let Err(waited) = self.ended.recv_timeout(REPORT_EVERY);
            drop(wait);
            report()?;
            if waited == mpsc::RecvTimeoutError::Disconnected {
                return Ok(());
            }
        }
    }
}

/// Runs `work` on threads of this name, each with one of the numbers, and `own` on this thread. Returns when all have
/// ended, with the first error. `is_over` is set when the first of them ends, whether nothing was left to begin, or by
/// an error or a panic. A thread that cannot be started is done without.
pub(super) fn work_together(
    (name, numbers): (&str, Range<usize>),
    is_over: &AtomicBool,
    work: impl Fn(usize) -> Result<()> + Sync,
    own: impl FnOnce(&Others) -> Result<()>,
) -> Result<()> {
    let (at_work, ended) = mpsc::channel();
    // Those that follow may be consequences of the first.
    let first = Mutex::new(None);
    let note = |done: Result<()>| {
        if let Err(error) = done {
            first.lock().get_or_insert(error);
        }
    };
    std::thread::scope(|scope| {
        let started: Vec<_> = numbers
            .filter_map(|number| {
                let (work, note, at_work) = (&work, &note, at_work.clone());
                let run = move || {
                    let _at_work: mpsc::Sender<Infallible> = at_work;
                    let _over = SetOnDrop(is_over);
                    note(work(number));
                };
                std::thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, run).ok()
            })
            .collect();
        drop(at_work);
        {
            let _over = SetOnDrop(is_over);
            note(own(&Others { count: started.len(), ended }));
        }
        for one in started {
            one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    first.into_inner().map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// All threads work, and what one of them ends ends for all.
    #[test]
    fn the_first_end_is_seen_by_all() {
        let (is_over, ran) = (AtomicBool::new(false), AtomicUsize::new(0));
        let until_over = || {
            while !is_over.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        };
        let work = |number: usize| {
            ran.fetch_add(1, Ordering::Relaxed);
            if number != 3 {
                until_over();
            }
            Ok(())
        };
        let own = |others: &Others| {
            assert_eq!(others.count, 4);
            until_over();
            others.wait(WaitType::BackupThread, &mut || Ok(()))
        };
        work_together(("worker", 1..5), &is_over, work, own).expect("no error");
        assert_eq!(ran.into_inner(), 4);
    }

    /// A panic of a thread ends the work, and goes on in the session's.
    #[test]
    fn a_panic_ends_the_work() {
        let is_over = AtomicBool::new(false);
        let work = |number: usize| {
            assert_ne!(number, 1, "as wanted");
            Ok(())
        };
        let own = |_: &Others| {
            while !is_over.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            Ok(())
        };
        let run = || work_together(("worker", 1..2), &is_over, work, own);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
    }
}
