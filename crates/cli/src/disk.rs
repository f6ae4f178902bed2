//! What is behind an instance's files, on the command line.

use clap::Args;
use hobt_disk::{DiskKind, Fault, FaultKind, Operation, SIMULATED, SimulatedConfig};

/// The system's number for "input/output error".
const EIO: i32 = 5;
/// The system's number for "no space left on device".
const ENOSPC: i32 = 28;
/// What can be told to fail, and how it is written.
const OPERATIONS: [(&str, Operation); 6] = [
    ("read", Operation::Read),
    ("write", Operation::Write),
    ("sync", Operation::Sync),
    ("resize", Operation::SetSize),
    ("open", Operation::Open),
    ("lock", Operation::Lock),
];

/// What is behind the files, and what of it fails.
#[derive(Args, Clone, Debug)]
pub(crate) struct DiskArguments {
    /// What is behind the files: auto, io_uring, threads, or simulated, which is memory and gone at the end
    #[arg(long, value_name = "KIND", default_value = "auto",
          value_parser = ["auto", "io_uring", "threads", SIMULATED])]
    disk: String,
    /// What fails on a simulated disk: OPERATION[:GO-WELL-FIRST[:PART-OF-PATH]]; may be given several times
    ///
    /// Operations: read, write, sync, open and lock fail once; resize fails from then on, as on a full disk.
    #[arg(long = "fault", value_name = "FAULT", value_parser = parse_fault)]
    faults: Vec<Fault>,
}

impl DiskArguments {
    /// # Errors
    /// Faults of a disk that is not simulated.
    pub(crate) fn kind(&self) -> Result<DiskKind, String> {
        let kind = DiskKind::from_name(&self.disk).expect("the parser takes known names alone");
        match kind {
            DiskKind::Simulated(config) => {
                Ok(DiskKind::Simulated(SimulatedConfig { faults: self.faults.clone(), ..config }))
            }
            _ if !self.faults.is_empty() => Err(format!("--fault takes --disk {SIMULATED}.")),
            kind => Ok(kind),
        }
    }

    /// Whether nothing of the instance outlives the program.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.disk == SIMULATED
    }
}

fn parse_fault(text: &str) -> Result<Fault, String> {
    let mut parts = text.splitn(3, ':');
    let name = parts.next().expect("a split has a part");
    let Some((_, operation)) = OPERATIONS.into_iter().find(|(known, _)| *known == name) else {
        let known = OPERATIONS.map(|(known, _)| known).join(", ");
        return Err(format!("operations are {known}"));
    };
    let after = match parts.next() {
        Some(count) => count.parse().map_err(|_| format!("'{count}' is not how many operations go well first"))?,
        None => 0,
    };
    let path_contains = parts.next().unwrap_or_default().to_owned();
    let is_full = operation == Operation::SetSize;
    let kind = FaultKind::Error(if is_full { ENOSPC } else { EIO });
    Ok(Fault { operation, path_contains, after, kind, forever: is_full })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_with_what_they_leave_out() {
        let once = Fault::once(Operation::Read, 0, FaultKind::Error(EIO));
        assert_eq!(parse_fault("read"), Ok(once.clone()));
        assert_eq!(parse_fault("read:7"), Ok(Fault { after: 7, ..once.clone() }));
        let of_file = Fault { operation: Operation::Sync, path_contains: "a:b.mdf".to_owned(), ..once };
        assert_eq!(parse_fault("sync:0:a:b.mdf"), Ok(of_file));
        assert!(parse_fault("resize").is_ok_and(|fault| fault.forever && fault.kind == FaultKind::Error(ENOSPC)));
        for wrong in ["", "reads", "read:x", "read::d.mdf", "read:-1"] {
            assert!(parse_fault(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_real_disk_is_not_told_to_fail() {
        let arguments =
            |disk: &str| DiskArguments { disk: disk.to_owned(), faults: vec![parse_fault("sync").expect("known")] };
        assert!(arguments("threads").kind().is_err());
        assert!(matches!(arguments(SIMULATED).kind(), Ok(DiskKind::Simulated(config)) if config.faults.len() == 1));
    }
}
