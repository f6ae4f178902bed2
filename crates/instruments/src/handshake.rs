//! For tests: a thread reports that it has found a lock held, so that the holder knows that it is waited for.

use std::cell::Cell;
use std::sync::mpsc::Sender;

thread_local! {
    static TELL: Cell<Option<Sender<()>>> = const { Cell::new(None) };
}

/// This thread sends when it first waits. If it ends without a wait, the channel breaks.
pub(crate) fn tell_when_waiting(tell: Sender<()>) {
    TELL.set(Some(tell));
}

/// Called after a first try has failed.
pub(crate) fn waits() {
    if let Some(tell) = TELL.take() {
        // A receiver that is gone does not need the report.
        let _ = tell.send(());
    }
}
