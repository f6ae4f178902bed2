//! Which operations fail, and how.

use crate::error::Operation;
use std::path::Path;

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// It does nothing and reports this error number (`libc::EIO`, `ENOSPC`, …). The transfer repeats `EINTR` and
    /// `EAGAIN`.
    Error(i32),
    /// It transfers half of what was requested (whole sectors, at least one) and reports that. Transfers only.
    Short,
    /// It does nothing and reports success: a device that lies. Writes and syncs only.
    Ignored,
}

/// An operation that fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The operation that counts. Each part of a transfer counts as one operation.
    pub operation: Operation,
    /// The files that count: those whose path contains this text. All if it is empty.
    pub path_contains: String,
    /// How many operations succeed first.
    pub after: u64,
    /// How it fails.
    pub kind: FaultKind,
    /// Whether all later operations fail too.
    pub forever: bool,
}

impl Fault {
    /// A fault of only the `after + 1`-th operation, on any file.
    pub fn once(operation: Operation, after: u64, kind: FaultKind) -> Fault {
        Fault { operation, path_contains: String::new(), after, kind, forever: false }
    }
}

/// The faults of a disk, each with the number of operations that it has let pass.
#[derive(Debug)]
pub(crate) struct Faults {
    pending: Vec<(Fault, u64)>,
}

impl Faults {
    pub(crate) fn new(faults: Vec<Fault>) -> Faults {
        Faults { pending: faults.into_iter().map(|fault| (fault, 0)).collect() }
    }

    pub(crate) fn add(&mut self, fault: Fault) {
        self.pending.push((fault, 0));
    }

    pub(crate) fn clear(&mut self) {
        self.pending.clear();
    }

    /// Counts an operation for every fault that it matches. Returns how it fails, by the first fault that is due.
    pub(crate) fn next(&mut self, operation: Operation, path: &Path) -> Option<FaultKind> {
        let mut due = None;
        let path = path.to_string_lossy();
        self.pending.retain_mut(|(fault, seen)| {
            if fault.operation != operation || !path.contains(&fault.path_contains) {
                return true;
            }
            *seen += 1;
            if *seen <= fault.after || due.is_some() {
                return true;
            }
            due = Some(fault.kind);
            fault.forever
        });
        due
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, FaultKind, Faults};
    use crate::error::Operation;
    use std::path::Path;

    #[test]
    fn a_fault_comes_at_its_operation_once_or_for_ever() {
        let once = Fault::once(Operation::Write, 2, FaultKind::Short);
        let mut faults = Faults::new(vec![once.clone()]);
        let path = Path::new("/a/log.ldf");
        let outcomes: Vec<_> = (0..5).map(|_| faults.next(Operation::Write, path).is_some()).collect();
        assert_eq!(outcomes, [false, false, true, false, false]);
        faults.add(Fault { forever: true, path_contains: ".ldf".into(), ..once });
        let outcomes: Vec<_> = (0..5).map(|_| faults.next(Operation::Write, path).is_some()).collect();
        assert_eq!(outcomes, [false, false, true, true, true]);
        assert_eq!(faults.next(Operation::Read, path), None);
        assert_eq!(faults.next(Operation::Write, Path::new("/a/data.mdf")), None);
    }
}
