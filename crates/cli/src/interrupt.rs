//! Signals: Ctrl-C, and what a system sends to end a program.
//!
//! The running batch is cancelled, which undoes its statement. A terminal goes on after Ctrl-C, unless it is
//! interrupted once more before the batch has ended; a script ends, and so does everything when the system asks for it.
//! Whatever ends the program, the instance is closed first, so that no database has to be recovered, and the exit code
//! says which signal it was. A third signal ends the program at once.

use std::fmt::Display;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hobt_base::number;
use hobt_instruments::signals::{EndSignal, EndSignals};
use hobt_session::{CancelHandle, stop_all_sessions};

use hobt::Instance;

/// Signals during one piece of work that end the program at once.
const AT_ONCE: u32 = 3;

/// Where the batches come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// A terminal, whose user wants to go on after a batch was cancelled.
    Terminal,
    /// An argument, a file, a pipe.
    Script,
}

/// What the main thread does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// It waits for input.
    Idle,
    /// A batch runs, or the laboratory.
    Running,
    /// It closes the instance.
    Closing,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// Signals since the batch began.
    count: u32,
    /// The signal that the program ends for.
    ends: Option<EndSignal>,
}

/// The signals of a sub-command.
#[derive(Clone, Debug)]
pub(crate) struct Interrupts {
    state: Arc<Mutex<State>>,
    /// The signals until they are watched for; none if the system does not let the program have them.
    held: Arc<Mutex<Option<EndSignals>>>,
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is locked is whole between any two statements on it.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Interrupts {
    /// Takes the signals over; they wait until they are watched for. If the system does not allow it, they end the
    /// program as usual.
    pub(crate) fn hold() -> Interrupts {
        let held = EndSignals::hold();
        if let Err(error) = &held {
            eprintln!("Ctrl-C will not cancel statements: {error}");
        }
        let state = State { phase: Phase::Idle, count: 0, ends: None };
        Interrupts { state: Arc::new(Mutex::new(state)), held: Arc::new(Mutex::new(held.ok())) }
    }

    /// Watches over a session's batches.
    pub(crate) fn watch(&self, cancel: CancelHandle, instance: &Instance, source: Source) {
        let instance = instance.clone();
        self.watch_with(move |state, signal| {
            if state.phase == Phase::Idle {
                // No batch begins any more: that needs the state, which is not given back.
                close_and_exit(&instance, signal);
            }
            cancel.cancel();
            source == Source::Script || state.count > 1 || signal != EndSignal::Interrupt
        });
    }

    /// Watches over the laboratory, whose statements fail from the first signal on; it closes its instances itself.
    pub(crate) fn watch_laboratory(&self) {
        self.begin();
        self.watch_with(|_, _| {
            // What it measures without a statement goes on for a while.
            eprintln!("Ending: the running statement is cancelled and the instance closed.");
            true
        });
    }

    /// Takes the signals on a thread of its own; `ends` cancels what runs and says whether the program is to end.
    fn watch_with(&self, ends: impl Fn(&State, EndSignal) -> bool + Send + 'static) {
        let Some(mut signals) = lock(&self.held).take() else { return };
        let shared = Arc::clone(&self.state);
        let watch = move || {
            for signal in signals.forever() {
                let mut state = lock(&shared);
                state.count += 1;
                if state.count >= AT_ONCE {
                    eprintln!(
                        "Ended without closing the instance: databases that were changed are recovered at the next start."
                    );
                    std::process::exit(signal.exit_code().into());
                }
                if ends(&state, signal) {
                    state.ends.get_or_insert(signal);
                    stop_all_sessions();
                }
            }
        };
        // Without the thread, no signal would end the program.
        if let Err(error) = std::thread::Builder::new().name("signals".to_owned()).spawn(watch) {
            eprintln!("hobt: the thread for signals cannot be started: {error}");
            std::process::exit(1);
        }
    }

    /// A batch begins, which [`hobt::Session::expect_batch`] has announced.
    pub(crate) fn begin(&self) {
        let mut state = lock(&self.state);
        state.count = 0;
        state.phase = Phase::Running;
    }

    /// The batch has ended.
    pub(crate) fn end(&self) {
        lock(&self.state).phase = Phase::Idle;
    }

    /// All batches have ended; the instance is about to be closed.
    pub(crate) fn close(&self) {
        lock(&self.state).phase = Phase::Closing;
    }

    /// Whether the last batch was interrupted.
    pub(crate) fn happened(&self) -> bool {
        lock(&self.state).count > 0
    }

    /// The exit code of a program that is to end because of a signal.
    pub(crate) fn exit_code(&self) -> Option<ExitCode> {
        lock(&self.state).ends.map(|signal| ExitCode::from(signal.exit_code()))
    }

    /// Reports an error, whose number it has if it is of a statement, unless it is the cancellation that a signal asked
    /// for. A signal decides over the exit code.
    pub(crate) fn failed(&self, number: Option<i32>, error: &dyn Display) -> ExitCode {
        let ended = self.exit_code();
        if ended.is_none() || number != Some(number::CANCELED) {
            eprintln!("{error}");
        }
        ended.unwrap_or(ExitCode::FAILURE)
    }
}

/// Ends the program while the main thread waits for input.
fn close_and_exit(instance: &Instance, signal: EndSignal) -> ! {
    let ended = instance.server().end_open_transactions();
    match ended.and_then(|()| instance.clone().close()) {
        Ok(()) => std::process::exit(signal.exit_code().into()),
        Err(error) => {
            eprintln!("{}\n{error}", error.header());
            std::process::exit(1);
        }
    }
}
