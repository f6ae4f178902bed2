//! Memory that a statement holds for rows, as far as they do not go to disk.

use std::sync::Arc;

use hobt_table::StatementRun;

/// The part (1/n) of an instance's memory that one collection of rows may take before it goes to disk. A statement has
/// a few of them, and others run beside it.
const SHARE: u64 = 32;

/// Memory charged to a statement's account; returned when it is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    run: Arc<StatementRun>,
    bytes: u64,
    bytes_max: u64,
}

impl Charge {
    /// Nothing yet.
    pub(crate) fn new(run: &Arc<StatementRun>) -> Charge {
        Charge { run: Arc::clone(run), bytes: 0, bytes_max: Charge::share(run) }
    }

    /// What one collection of rows may take, in bytes.
    pub(crate) fn share(run: &StatementRun) -> u64 {
        run.instance.memory().limit() / SHARE
    }

    /// Takes `bytes` more. Returns `false`, with nothing taken, if they exceed the share or the memory that is left.
    pub(crate) fn grow(&mut self, bytes: u64) -> bool {
        let fits = self.bytes + bytes <= self.bytes_max && self.run.context.memory().grow(bytes).is_ok();
        if fits {
            self.bytes += bytes;
        }
        fits
    }

    /// Takes `bytes` more in any case: they are in use.
    pub(crate) fn overdraw(&mut self, bytes: u64) {
        self.run.context.memory().overdraw(bytes);
        self.bytes += bytes;
    }

    /// The bytes taken.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns `bytes` of them.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        self.run.context.memory().shrink(bytes);
        self.bytes -= bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.run.context.memory().shrink(self.bytes);
    }
}
