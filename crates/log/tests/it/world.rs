//! Logs on a simulated disk.

use std::path::Path;
use std::sync::Arc;

use hobt_base::Lsn;
use hobt_disk::{Disk, DiskFile, Fault, FaultKind, OpenOptions, Operation, SimulatedConfig, SimulatedDisk};
use hobt_log::{Log, LogError, LogFile, NewRecord, Record, Recovered, Reservation, record_bytes};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const RING_BYTES: usize = 1 << 20;

pub(crate) struct World {
    pub(crate) disk: Arc<SimulatedDisk>,
    /// For each file its size, growth and maximum in bytes.
    pub(crate) sizes: Vec<(u64, u64, u64)>,
}

impl World {
    pub(crate) fn new(sizes: &[(u64, u64, u64)]) -> World {
        let disk = SimulatedDisk::start(SimulatedConfig::default()).expect("a disk in memory");
        World { disk, sizes: sizes.to_vec() }
    }

    pub(crate) fn file(&self, index: usize, create_new: bool) -> Arc<dyn DiskFile> {
        let options = OpenOptions { create_new, direct: true, ..OpenOptions::default() };
        self.disk.open(Path::new(&format!("/{index}.ldf")), options).expect("a file")
    }

    pub(crate) fn files(&self, create_new: bool) -> Vec<LogFile> {
        let file = |(index, &(bytes, growth_bytes, bytes_max)): (usize, &(u64, u64, u64))| LogFile {
            disk: self.file(index, create_new),
            id: index as u16 + 2,
            name: format!("log{index}"),
            bytes,
            growth_bytes,
            bytes_max,
        };
        self.sizes.iter().enumerate().map(file).collect()
    }

    /// The files in their current state.
    pub(crate) fn disks(&self) -> Vec<Arc<dyn DiskFile>> {
        (0..self.sizes.len()).map(|index| self.file(index, false)).collect()
    }

    /// A new log, whose files survive every crash.
    pub(crate) fn create(&self) -> Log {
        let log = Log::create(&self.files(true), 77, RING_BYTES).expect("room for a log");
        self.disk.sync_directory(Path::new("/")).expect("the root");
        log
    }

    pub(crate) fn open(&self) -> Result<(Log, Recovered), LogError> {
        Log::open(&self.disks(), RING_BYTES)
    }
}

/// After `after` operations of a kind, all further ones fail.
pub(crate) fn broken(operation: Operation, after: u64) -> Fault {
    Fault { forever: true, ..Fault::once(operation, after, FaultKind::Error(5)) }
}

/// A record's payload, which identifies the record.
pub(crate) fn payload(number: u64, length: usize) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend((0..length).map(|at| (number as usize * 31 + at) as u8));
    bytes
}

pub(crate) fn append(log: &Log, number: u64, length: usize) -> Lsn {
    append_reserved(log, &Reservation::default(), number, length)
}

pub(crate) fn append_reserved(log: &Log, reservation: &Reservation, number: u64, length: usize) -> Lsn {
    let payload = payload(number, length);
    let record = NewRecord { kind: 1, transaction: number, previous: Lsn(0), payload: &payload };
    let appended = log.append_always(&record, reservation).expect("the log is well");
    assert_eq!(appended.end.0 - appended.lsn.0, record_bytes(payload.len()) as u64);
    appended.lsn
}

/// All records from `from` on. Checks that each is what `append` made for its number.
pub(crate) fn read(recovered: &Recovered, from: Lsn) -> Result<Vec<Record>, LogError> {
    let mut records: Vec<Record> = Vec::new();
    recovered.for_each(from, &mut |record| -> Result<(), LogError> {
        if let Some(last) = records.last() {
            assert!(last.end <= record.lsn, "in order");
        }
        if record.kind == 1 {
            assert_eq!(record.payload, payload(record.transaction, record.payload.len() - 8));
        }
        records.push(record);
        Ok(())
    })?;
    Ok(records)
}

pub(crate) fn numbers(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.transaction).collect()
}
