//! Interrupts: Ctrl-C, and what a system sends to end a program.
//!
//! The running batch is cancelled, which undoes its statement. A script then ends; a terminal goes on, unless it is
//! interrupted once more before the batch has ended. Whatever ends the program, the instance is closed first, so that no
//! database is SUSPECT. Only who insists a third time ends the program at once. The signals are not told apart: all end
//! with the exit code of an interrupt.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use hobt_base::number;
use hobt_session::CancelHandle;

use crate::instance::Instance;

/// What the program ends with when it was interrupted.
const EXIT_INTERRUPTED: u8 = 130;
/// Interrupts of one batch that end the program at once.
const AT_ONCE: u32 = 3;
/// How often a program that ends tries again to cancel what runs.
const RETRY: Duration = Duration::from_millis(20);

/// Who gives the batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// Somebody at a terminal, who wants to go on after a batch was cancelled.
    Terminal,
    /// An argument, a file, a pipe.
    Script,
}

#[derive(Debug, Default)]
struct Shared {
    /// Interrupts since the batch began.
    count: AtomicU32,
    /// Whether a batch runs.
    runs: AtomicBool,
    /// Whether the program is to end.
    ends: AtomicBool,
}

/// The interrupts of a session's batches.
#[derive(Clone, Debug)]
pub(super) struct Interrupts {
    shared: Arc<Shared>,
}

impl Interrupts {
    /// Takes the signals over. Where the system does not allow it, they end the program as usual.
    pub(super) fn watch(cancel: CancelHandle, instance: &Instance, source: Source) -> Interrupts {
        let shared = Arc::new(Shared::default());
        let seen = Arc::clone(&shared);
        let instance = instance.clone();
        let set = ctrlc::set_handler(move || interrupted(&seen, &cancel, &instance, source));
        if let Err(error) = set {
            eprintln!("Ctrl-C will not cancel statements: {error}");
        }
        Interrupts { shared }
    }

    /// A batch begins.
    pub(super) fn begin(&self) {
        self.shared.count.store(0, Ordering::SeqCst);
        self.shared.runs.store(true, Ordering::SeqCst);
    }

    /// The batch has ended.
    pub(super) fn end(&self) {
        self.shared.runs.store(false, Ordering::SeqCst);
    }

    /// Whether the last batch was interrupted.
    pub(super) fn happened(&self) -> bool {
        self.shared.count.load(Ordering::SeqCst) > 0
    }

    /// The exit code of a program that is to end because of an interrupt.
    pub(super) fn exit_code(&self) -> Option<ExitCode> {
        self.shared.ends.load(Ordering::SeqCst).then(|| ExitCode::from(EXIT_INTERRUPTED))
    }
}

/// One interrupt. Runs on a thread of its own.
fn interrupted(shared: &Arc<Shared>, cancel: &CancelHandle, instance: &Instance, source: Source) {
    let count = shared.count.fetch_add(1, Ordering::SeqCst) + 1;
    if !shared.runs.load(Ordering::SeqCst) {
        close_and_exit(cancel, instance);
    }
    if count >= AT_ONCE {
        eprintln!("Ended without closing the instance: databases that were changed are SUSPECT at the next start.");
        std::process::exit(EXIT_INTERRUPTED.into());
    }
    cancel.cancel();
    if source == Source::Script || count > 1 {
        shared.ends.store(true, Ordering::SeqCst);
        let (shared, cancel) = (Arc::clone(shared), cancel.clone());
        // A batch that was about to begin forgets that it was cancelled.
        std::thread::spawn(move || {
            while shared.runs.load(Ordering::SeqCst) {
                cancel.cancel();
                std::thread::sleep(RETRY);
            }
        });
    }
}

/// Ends the program while nothing runs, or next to nothing: the main thread waits for input.
fn close_and_exit(cancel: &CancelHandle, instance: &Instance) -> ! {
    loop {
        match instance.clone().close() {
            Ok(()) => std::process::exit(EXIT_INTERRUPTED.into()),
            // A batch began meanwhile.
            Err(error) if error.number == number::DATABASE_IN_USE => {
                cancel.cancel();
                std::thread::sleep(RETRY);
            }
            Err(error) => {
                eprintln!("{}\n{error}", error.header());
                std::process::exit(1);
            }
        }
    }
}
