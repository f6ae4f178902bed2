//! For tests: a thread says that it has found a lock taken, so that who holds the lock knows that it is waited for.

use std::cell::Cell;
use std::sync::mpsc::Sender;

thread_local! {
    static TELL: Cell<Option<Sender<()>>> = const { Cell::new(None) };
}

/// This thread sends as soon as it waits for the first time. When it ends without a wait, the channel breaks.
pub(crate) fn tell_when_waiting(tell: Sender<()>) {
    TELL.set(Some(tell));
}

/// Called where a first try has failed.
pub(crate) fn waits() {
    if let Some(tell) = TELL.take() {
        // Who does not listen any more does not want to know.
        let _ = tell.send(());
    }
}
