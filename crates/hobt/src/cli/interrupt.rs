//! Ctrl-C: once cancels the running batch, twice ends the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hobt_session::CancelHandle;

/// What the program ends with when it was interrupted.
const EXIT_INTERRUPTED: i32 = 130;

/// Counts interrupts of one batch.
#[derive(Clone, Debug)]
pub(super) struct Interrupts {
    count: Arc<AtomicU32>,
}

impl Interrupts {
    /// Takes Ctrl-C over. Where the system does not allow it, Ctrl-C ends the program as usual.
    pub(super) fn watch(cancel: CancelHandle) -> Interrupts {
        let interrupts = Interrupts { count: Arc::default() };
        let count = Arc::clone(&interrupts.count);
        let set = ctrlc::set_handler(move || {
            if count.fetch_add(1, Ordering::Relaxed) > 0 {
                std::process::exit(EXIT_INTERRUPTED);
            }
            cancel.cancel();
        });
        if let Err(error) = set {
            eprintln!("Ctrl-C will not cancel statements: {error}");
        }
        interrupts
    }

    /// Whether Ctrl-C was pressed since the last [`Interrupts::forget`].
    pub(super) fn happened(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// A new batch begins.
    pub(super) fn forget(&self) {
        self.count.store(0, Ordering::Relaxed);
    }
}
