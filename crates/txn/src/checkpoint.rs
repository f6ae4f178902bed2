//! What a checkpoint writes down of the open transactions, so that recovery can begin at the checkpoint.
//!
//! Left to others: what an entry is ([`TransactionEntry`]), the rest of a checkpoint (crates `access` and `engine`).

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hobt_base::Lsn;
use hobt_log::{LogError, NewRecord, Reservation, RoomFor, record_bytes};

use crate::chain::{ENTRY_RECORD, Figures, TransactionLog, Written};
use crate::transaction_table::TransactionEntry;

/// The most bytes of entries of the transaction table that a checkpoint writes down.
const ENTRIES_BYTES_MAX: u64 = 1 << 20;
const ENTRIES_BYTES_MORE: u64 = 4 << 10;

impl TransactionLog {
    /// Writes down the entries of the transaction table, for a checkpoint that began at `begun`: of the open
    /// transactions that are older. Entries that are too large, and those for which the log has no room, are left out.
    /// Returns the position from which recovery has to read: `begun`, or an earlier one for the sake of an entry that
    /// is not written down. The records are not durable yet.
    ///
    /// # Errors
    /// The log has failed.
    pub fn write_down_open(&self, begun: Lsn) -> Result<Lsn, LogError> {
        // Those that are not in the list begin later, or have appended their last record.
        let older = self.begun_before(begun);
        let mut used = HashSet::new();
        let room = Reservation::default();
        let needed = |(begin, id, figures): &(Lsn, u64, Arc<Figures>)| {
            let entry = self.entry(*id, *begin, &figures.written.lock(), figures)?;
            Some(record_bytes(entry.encode().len()) as u64)
        };
        let bytes = older.iter().filter_map(needed).sum::<u64>().min(ENTRIES_BYTES_MAX);
        // A little more: they may get something until they are locked again. The room of the checkpoint stays free.
        if bytes > 0 {
            match self.log().reserve_for(RoomFor::Later, &room, bytes + ENTRIES_BYTES_MORE, 0) {
                Ok(()) | Err(LogError::Full { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let mut read_from = begun;
        for (begin, id, figures) in older {
            let written = figures.written.lock();
            if written.has_ended || written.last == Lsn(0) {
                continue;
            }
            let entry = self.entry(id, begin, &written, &figures);
            let payload = entry.as_ref().map(TransactionEntry::encode);
            let payload = payload.filter(|payload| record_bytes(payload.len()) as u64 <= room.bytes());
            let Some(payload) = payload else {
                read_from = read_from.min(begin);
                continue;
            };
            used.extend(entry.iter().flat_map(|entry| &entry.state.hobts).copied());
            let record = NewRecord { kind: ENTRY_RECORD, transaction: 0, previous: Lsn(0), payload: &payload };
            // Under the transaction's lock: no record of its own comes in between.
            self.log().append_always(&record, &room)?;
        }
        self.log().release(&room);
        if read_from == begun {
            self.described.lock().retain(|hobt, lsn| *lsn >= begun || used.contains(hobt));
        }
        Ok(read_from)
    }

    /// The open transactions that began before `begun`, the oldest first.
    fn begun_before(&self, begun: Lsn) -> Vec<(Lsn, u64, Arc<Figures>)> {
        let open = self.open.lock();
        let older = open.iter().filter(|(_, open)| open.begin < begun);
        let mut older: Vec<_> = older.map(|(id, open)| (open.begin, *id, Arc::clone(&open.figures))).collect();
        drop(open);
        older.sort_unstable_by_key(|(begin, id, _)| (*begin, *id));
        older
    }

    /// The entry of an open transaction; `None` if it is too large, or needs none.
    fn entry(&self, transaction: u64, begin: Lsn, written: &Written, figures: &Figures) -> Option<TransactionEntry> {
        if written.has_ended || written.last == Lsn(0) {
            return None;
        }
        let state = written.state.get()?.clone();
        let described = self.described.lock();
        let described = state.hobts.iter().map(|hobt| described.get(hobt).copied().unwrap_or_default()).collect();
        let needed = [&figures.spent, &figures.lacking].map(|bytes| bytes.load(Ordering::Relaxed));
        let undo_bytes = figures.reservation.bytes() + needed.iter().sum::<u64>();
        Some(TransactionEntry { transaction, begin, last: written.last, undo_bytes, state, described })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicU64;

    use hobt_base::{FileId, HobtId, PageId};
    use hobt_disk::{Disk, DiskFile, OpenOptions, SimulatedConfig, SimulatedDisk};
    use hobt_log::{Log, LogFile};

    use super::*;
    use crate::transaction_table::{ITEMS_MAX, RecordEffect};
    use crate::{END_RECORD, LogChain};

    const RING_BYTES: usize = 1 << 20;

    /// A log of 16 MiB that does not grow.
    fn log() -> (Arc<dyn DiskFile>, Arc<TransactionLog>) {
        let disk = SimulatedDisk::start(SimulatedConfig::default()).expect("a disk in memory");
        let options = OpenOptions { create_new: true, ..OpenOptions::default() };
        let file = disk.open(Path::new("/log.ldf"), options).expect("a new file");
        let plan = LogFile {
            disk: Arc::clone(&file),
            id: 2,
            name: "log".to_owned(),
            bytes: 16 << 20,
            growth_bytes: 0,
            bytes_max: 16 << 20,
        };
        (file, TransactionLog::new(Arc::new(Log::create(&[plan], 77, RING_BYTES).expect("made"))))
    }

    fn begin_checkpoint(log: &TransactionLog) -> Lsn {
        let record = NewRecord { kind: 22, transaction: 0, previous: Lsn(0), payload: &[] };
        log.log().begin_epoch(&record).expect("appended").lsn
    }

    fn write(chain: &LogChain, effect: &RecordEffect) -> Lsn {
        chain.reserve(1000).expect("room");
        chain.append(30, &[7; 100], effect).expect("appended").lsn
    }

    /// The entries behind `begun`, as recovery reads them.
    fn entries(file: Arc<dyn DiskFile>, log: &TransactionLog, begun: Lsn) -> Vec<TransactionEntry> {
        log.log().flush_for(RoomFor::Checkpoint, Lsn(log.log().end().0 - 1)).expect("durable");
        let (_log, recovered) = Log::open(&[file], RING_BYTES).expect("a sound log");
        let mut entries = Vec::new();
        let read = recovered.for_each(begun, &mut |record| {
            if record.kind == ENTRY_RECORD {
                entries.push(TransactionEntry::decode(&record.payload).expect("an entry"));
            }
            Ok::<(), LogError>(())
        });
        read.expect("readable");
        entries
    }

    /// Of open transactions that are older than the checkpoint, and of no others.
    #[test]
    fn what_is_open_and_older_is_written_down() {
        let (file, log) = log();
        let chains: Vec<Arc<LogChain>> = (0..4).map(|_| log.begin_structure()).collect();
        let hobt = HobtId(5 << 16);
        log.note_description(hobt, Lsn(4096));
        let extents = (PageId::new(FileId(1), 8), 1);
        write(&chains[0], &RecordEffect { hobt, ..RecordEffect::default() });
        let structure = write(&chains[0], &RecordEffect { is_structure: true, ..RecordEffect::default() });
        let pending = write(&chains[0], &RecordEffect { defers: Some(extents), ..RecordEffect::default() });
        write(&chains[1], &RecordEffect::default());
        write(&chains[2], &RecordEffect { commits: true, ..RecordEffect::default() });
        let begun = begin_checkpoint(&log);
        let last = write(&chains[0], &RecordEffect { compensates: Some(structure), ..RecordEffect::default() });
        chains[1].append(END_RECORD, &[], &RecordEffect::default()).expect("appended");
        let younger = log.begin_structure();
        write(&younger, &RecordEffect::default());
        assert_eq!(log.write_down_open(begun).expect("room"), begun);
        let reserved = chains[0].reservation().bytes();
        let entries = entries(file, &log, begun);
        assert_eq!(entries.iter().map(|one| one.transaction).collect::<Vec<_>>(), [chains[0].id(), chains[2].id()]);
        let [first, committed] = &entries[..] else { panic!("two") };
        assert_eq!((first.last, first.undo_bytes), (last, reserved));
        assert_eq!(
            (first.state.hobts.iter().collect::<Vec<_>>(), &first.described[..]),
            (vec![&hobt], &[Lsn(4096)][..])
        );
        assert_eq!(first.state.structure.iter().collect::<Vec<_>>(), [(&structure, &true)]);
        assert_eq!(first.state.pending.iter().collect::<Vec<_>>(), [(&pending, &extents)]);
        assert!(!first.state.committed && committed.state.is_done());
    }

    /// A transaction with too much to be written down is left out, and so is every one in a full log: recovery reads
    /// their records. Nothing is reserved afterwards.
    #[test]
    fn what_is_not_written_down_is_read() {
        for is_full in [false, true] {
            let (file, log) = log();
            begin_checkpoint(&log);
            let large = log.begin_structure();
            let from = log.log().epoch().begin;
            let small = log.begin_structure();
            write(&small, &RecordEffect::default());
            for _ in 0..if is_full { 1 } else { ITEMS_MAX + 1 } {
                write(&large, &RecordEffect { is_structure: true, ..RecordEffect::default() });
            }
            if is_full {
                while small.reserve(4096).is_ok() {}
                let room = Reservation::default();
                while log.log().reserve_for(RoomFor::Later, &room, 64, 0).is_ok() {}
            }
            let begun = begin_checkpoint(&log);
            let reserved = log.log().reserved_bytes();
            assert_eq!(log.write_down_open(begun).expect("no error"), from);
            assert_eq!(log.log().reserved_bytes(), reserved);
            let expected = if is_full { vec![] } else { vec![small.id()] };
            let entries = entries(file, &log, begun);
            assert_eq!(entries.iter().map(|one| one.transaction).collect::<Vec<_>>(), expected);
        }
    }

    /// A checkpoint is due once recovery would have to redo more than its bound, in a transaction as in a rollback,
    /// which reserves nothing. Images hardly count. It is asked for once, until one has ended or was postponed.
    #[test]
    fn a_checkpoint_is_due_when_recovery_would_take_too_long() {
        const BOUND: u64 = 1 << 20;
        let (_file, log) = log();
        let due = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&due);
        log.on_checkpoint_due(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        log.bound_recovery(BOUND);
        let chain = log.begin_structure();
        // Appends records until a checkpoint is asked for, at most this many bytes. Returns the bytes.
        let append = |image: bool, bytes_max: u64| {
            let (before, from) = (due.load(Ordering::Relaxed), log.log().end().0);
            while due.load(Ordering::Relaxed) == before && log.log().end().0 < from + bytes_max {
                chain.append_in(log.log().epoch(), 30, &[7; 8192], &RecordEffect::default()).expect("appended");
                if image {
                    log.note_image(8192);
                }
            }
            log.log().end().0 - from
        };
        let first = append(false, 2 * BOUND);
        assert!((BOUND..BOUND + 10_000).contains(&first) && due.load(Ordering::Relaxed) == 1, "{first}");
        append(false, BOUND / 2);
        assert_eq!(due.load(Ordering::Relaxed), 1, "it was asked for");
        log.checkpoint_postponed();
        assert!(append(false, BOUND) < BOUND / 4, "a little later");
        log.checkpoint_begun(begin_checkpoint(&log));
        log.checkpoint_ended();
        let images = append(true, 6 * BOUND);
        assert_eq!((images / BOUND, due.load(Ordering::Relaxed)), (6, 2), "images");
        assert!(append(false, BOUND) < BOUND / 2, "and a little more");
        log.checkpoint_begun(begin_checkpoint(&log));
        log.bound_recovery(u64::MAX);
        log.checkpoint_ended();
        append(false, 2 * BOUND);
        assert_eq!(due.load(Ordering::Relaxed), 3, "without a bound only room counts");
    }
}
