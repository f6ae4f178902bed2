//! The signals that ask a program to end. A thread waits for them and takes one after the other.
//!
//! After [`EndSignals::hold`] they do not end the process. [`EndSignals::forever`] returns each signal that came, also
//! those that came before the call. Of several of one kind that came together it returns one.
//!
//! [`fail_on_file_size_limit`] makes a write beyond the file size limit an error. Otherwise it would end the program.
//!
//! Done elsewhere: what a signal means to the program. Handlers, and the pipe from them to a thread, are those of crate
//! `signal-hook`. It restarts system calls that a handler interrupts, where the system can.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use signal_hook::iterator::Signals;

/// A signal that asks a program to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndSignal {
    /// `SIGINT`: the user pressed Ctrl-C.
    Interrupt,
    /// `SIGTERM`: the system or an administrator ends the program.
    Terminate,
    /// `SIGHUP`: the terminal is gone.
    HangUp,
}

impl EndSignal {
    const ALL: [EndSignal; 3] = [EndSignal::Interrupt, EndSignal::Terminate, EndSignal::HangUp];

    const fn number(self) -> libc::c_int {
        match self {
            EndSignal::Interrupt => libc::SIGINT,
            EndSignal::Terminate => libc::SIGTERM,
            EndSignal::HangUp => libc::SIGHUP,
        }
    }

    /// The exit code of a program that ends because of the signal: 128 plus the signal's number, as in shells.
    pub const fn exit_code(self) -> u8 {
        match self {
            EndSignal::Interrupt => 130,
            EndSignal::Terminate => 143,
            EndSignal::HangUp => 129,
        }
    }

    /// Whether the program was started so that it outlives the signal, as by `nohup`.
    fn is_ignored(self) -> bool {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: `action` is valid for writes of a sigaction; a null new action only asks for the old one.
        let result = unsafe { libc::sigaction(self.number(), ptr::null(), action.as_mut_ptr()) };
        // SAFETY: a sigaction is made of integers and an optional function, for which zero is a valid value.
        let action = unsafe { action.assume_init() };
        result == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// The signals, handled by the program.
#[derive(Debug)]
pub struct EndSignals(Signals);

impl EndSignals {
    /// After this the signals do not end the process but wait for [`EndSignals::forever`]. A hang-up stays ignored if
    /// it was ignored. The signals never get their usual effect back, even when this is dropped.
    ///
    /// # Errors
    /// The system's: no handle is left for the pipe from handler to thread, or the system allows no handlers.
    pub fn hold() -> io::Result<EndSignals> {
        let held = EndSignal::ALL.into_iter().filter(|signal| *signal != EndSignal::HangUp || !signal.is_ignored());
        Signals::new(held.map(EndSignal::number)).map(EndSignals)
    }

    /// The signals in the order in which they arrive. Blocks until there is one, and never ends.
    pub fn forever(&mut self) -> impl Iterator<Item = EndSignal> + '_ {
        let signal_of = |number| EndSignal::ALL.into_iter().find(|signal| signal.number() == number);
        self.0.forever().filter_map(signal_of)
    }
}

/// After this a write beyond the process's limit of file sizes (`ulimit -f`) fails, as one to a full disk does.
/// Otherwise `SIGXFSZ` would end the process.
pub fn fail_on_file_size_limit() {
    // SAFETY: ignoring a signal installs no handler; SIGXFSZ is a signal that may be ignored.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_signal_waits_and_says_which_it_is() {
        let mut signals = EndSignals::hold().expect("handlers");
        for signal in [EndSignal::Terminate, EndSignal::Interrupt] {
            // SAFETY: raising a signal touches no memory; it is held, and so does not end the process.
            assert_eq!(unsafe { libc::raise(signal.number()) }, 0);
            assert_eq!(signals.forever().next(), Some(signal));
        }
    }

    #[test]
    fn exit_codes_are_those_of_shells() {
        for signal in EndSignal::ALL {
            assert_eq!(i32::from(signal.exit_code()), 128 + signal.number());
        }
    }
}
