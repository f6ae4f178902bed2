//! The operation at which the power fails, and the trace of all operations.

use crate::error::Operation;
use std::io;
use std::path::Path;

/// Counts the operations of a disk, and knows the one at which the power fails.
#[derive(Debug)]
pub(crate) struct Power {
    changes: u64,
    /// By the operation's discriminant.
    counts: [u64; OPERATIONS],
    trace: u64,
    /// The number of the last change, and the seed of what it leaves.
    cut: Option<(u64, u64)>,
    is_off: bool,
}

/// FNV-1a, which needs no state but its sum.
const TRACE_START: u64 = 0xcbf2_9ce4_8422_2325;
const TRACE_STEP: u64 = 0x0000_0100_0000_01b3;

const OPERATIONS: usize = Operation::Remove as usize + 1;

fn is_change(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::Open
            | Operation::Write
            | Operation::Sync
            | Operation::SetSize
            | Operation::Remove
            | Operation::Directory
    )
}

impl Power {
    pub(crate) fn new() -> Power {
        Power { changes: 0, counts: [0; OPERATIONS], trace: TRACE_START, cut: None, is_off: false }
    }

    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    pub(crate) fn count(&self, operation: Operation) -> u64 {
        self.counts[operation as usize]
    }

    pub(crate) fn trace(&self) -> u64 {
        self.trace
    }

    pub(crate) fn is_off(&self) -> bool {
        self.is_off
    }

    pub(crate) fn cut_at(&mut self, change: u64, seed: u64) {
        self.cut = Some((change, seed));
    }

    pub(crate) fn off(&mut self) {
        self.is_off = true;
        self.cut = None;
    }

    pub(crate) fn on(&mut self) {
        self.is_off = false;
        self.cut = None;
    }

    /// Counts an operation that begins. Returns a seed for the crash if the power fails during the operation.
    pub(crate) fn pass(
        &mut self,
        operation: Operation,
        path: &Path,
        offset: u64,
        length: u64,
    ) -> io::Result<Option<u64>> {
        if self.is_off {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        let mut add = |byte: u8| self.trace = (self.trace ^ u64::from(byte)).wrapping_mul(TRACE_STEP);
        path.as_os_str().as_encoded_bytes().iter().for_each(|&byte| add(byte));
        [operation as u64, offset, length].iter().flat_map(|number| number.to_le_bytes()).for_each(add);
        self.counts[operation as usize] += 1;
        if !is_change(operation) {
            return Ok(None);
        }
        self.changes += 1;
        let Some((_, seed)) = self.cut.filter(|(change, _)| self.changes >= *change) else { return Ok(None) };
        self.cut = None;
        self.is_off = true;
        Ok(Some(seed))
    }
}
