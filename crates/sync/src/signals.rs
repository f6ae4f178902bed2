//! The signals that ask a program to end, taken one after the other by a thread that waits for them.
//!
//! [`hold`] keeps them from ending the process. Threads inherit that from the one that starts them, so it is called while
//! there is one thread. [`wait`] takes the next signal, and one that came before it as well: the system keeps one of each
//! kind.
//!
//! [`fail_on_file_size_limit`] makes an error of what would end the program in the middle of a write.
//!
//! Left to others: what a signal means to the program.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// A signal that asks a program to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndSignal {
    /// `SIGINT`: somebody pressed Ctrl-C.
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

    /// The exit code of a program that ends because of the signal: 128 and its number, as shells say it.
    pub const fn exit_code(self) -> u8 {
        match self {
            EndSignal::Interrupt => 130,
            EndSignal::Terminate => 143,
            EndSignal::HangUp => 129,
        }
    }

    /// Whether whoever started the program wants it to outlive the signal, as `nohup` does.
    fn is_ignored(self) -> bool {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: `action` is valid for writes of a sigaction; a null new action only asks for the old one.
        let result = unsafe { libc::sigaction(self.number(), ptr::null(), action.as_mut_ptr()) };
        // SAFETY: a sigaction is made of integers and an optional function, for which zero is a valid value.
        let action = unsafe { action.assume_init() };
        result == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// The signals that are held. A hang-up stays ignored where it was.
fn held() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `set` is valid for writes of a sigset_t, which sigemptyset makes whole.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: sigemptyset has made it whole.
    let mut set = unsafe { set.assume_init() };
    for signal in EndSignal::ALL {
        if signal != EndSignal::HangUp || !signal.is_ignored() {
            // SAFETY: `set` is a whole sigset_t and the number that of a signal.
            unsafe { libc::sigaddset(&mut set, signal.number()) };
        }
    }
    set
}

/// From here on the signals do not end the process but wait for [`wait`]: on this thread and on those that it starts.
///
/// # Errors
/// The system's.
pub fn hold() -> io::Result<()> {
    let set = held();
    // SAFETY: `set` is a whole sigset_t; the old mask is not asked for.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// The next signal. Blocks until there is one. Every thread must have them held ([`hold`]).
///
/// # Errors
/// The system's.
pub fn wait() -> io::Result<EndSignal> {
    let set = held();
    loop {
        let mut number = 0;
        // SAFETY: `set` is a whole sigset_t and `number` valid for writes.
        match unsafe { libc::sigwait(&set, &mut number) } {
            0 => {}
            libc::EINTR => continue,
            error => return Err(io::Error::from_raw_os_error(error)),
        }
        if let Some(signal) = EndSignal::ALL.into_iter().find(|signal| signal.number() == number) {
            return Ok(signal);
        }
    }
}

/// From here on a write beyond the process's limit of file sizes (`ulimit -f`) fails, as one to a full disk does, in place
/// of ending the process by `SIGXFSZ`.
pub fn fail_on_file_size_limit() {
    // SAFETY: ignoring a signal installs no handler; SIGXFSZ is a signal that may be ignored.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_signal_waits_and_says_which_it_is() {
        let taker = std::thread::spawn(|| {
            hold().expect("a mask");
            for signal in [EndSignal::Terminate, EndSignal::Interrupt] {
                // SAFETY: the signal goes to this thread, which has just blocked it.
                assert_eq!(unsafe { libc::raise(signal.number()) }, 0);
                assert_eq!(wait().expect("a signal"), signal);
            }
        });
        taker.join().expect("the thread");
    }

    #[test]
    fn exit_codes_are_those_of_shells() {
        for signal in EndSignal::ALL {
            assert_eq!(i32::from(signal.exit_code()), 128 + signal.number());
        }
    }
}
