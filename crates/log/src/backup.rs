//! The part of a log that backups need, what its oldest segment waits for, and records that are saved and put back.
//!
//! A backup holds the log ([`Log::hold`]) and copies its bytes
//! ([`LogReader::bytes_from`](crate::LogReader::bytes_from)). A restore makes a log that begins where the saved one did
//! ([`Log::create_at`](crate::Log::create_at)) and appends the bytes ([`Log::append_saved`]), so that every record has
//! the position that it had.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hobt_base::Lsn;

use crate::chain_state::ChainState;
use crate::record::{NOTHING, NewRecord, RECORD_HEADER_BYTES, length_of, read_record};
use crate::room::{Reservation, RoomFor};
use crate::truncation::{NO_BACKUP, TruncationWait, wait_of};
use crate::{Log, LogError, Record, RecoveryStart};

/// Keeps the records of a log from a position on, until it is dropped.
#[derive(Debug)]
pub struct LogHold {
    log: Arc<Log>,
    from: Lsn,
}

impl LogHold {
    /// The first position that is kept.
    pub fn from(&self) -> Lsn {
        self.from
    }
}

impl Drop for LogHold {
    fn drop(&mut self) {
        let mut holds = self.log.holds.lock();
        if let Some(place) = holds.iter().position(|from| *from == self.from) {
            holds.swap_remove(place);
        }
    }
}

impl Log {
    /// What its oldest segment waits for. `oldest` is the first position that an open transaction may need.
    pub fn truncation_wait(&self, oldest: Option<Lsn>) -> TruncationWait {
        let firsts = self.segments().iter().filter_map(|segment| segment.first).collect();
        wait_of(firsts, self.first_held(), self.needed_by_backup(), oldest)
    }

    /// Sets whether records are kept until they have been backed up ([`Log::backed_up`]), from the end of the last
    /// backup on, or from the oldest that still exists. Otherwise they are kept only as long as recovery needs them.
    pub fn keep_for_backup(&self, keeps: bool) {
        let mut segments = self.segments.lock();
        let now = segments.files.first_mut().map_or(NO_BACKUP, |first| {
            if !keeps {
                // What is not kept now would be a hole in a chain. The next write of the header has it.
                first.header.chain.from = Lsn(0);
            }
            first.header.chain.from.max(first.header.retain).0
        });
        drop(segments);
        // If records are kept already, that stays; records that are gone cannot be kept.
        let _kept = self.backup.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |from| {
            Some(if keeps { from.min(now) } else { NO_BACKUP })
        });
    }

    /// Everything before `until` is in a backup of the log, or not needed by one. Durable when it returns. After a
    /// crash before it returns, more than that is kept.
    ///
    /// # Errors
    /// The header of the first file cannot be written.
    pub fn backed_up(&self, until: Lsn) -> Result<(), LogError> {
        self.backup.store(until.0, Ordering::Relaxed);
        if let Some(first) = self.segments.lock().files.first_mut() {
            first.header.chain.from = until;
        }
        match self.recovery_start() {
            Some(start) => self.write_recovery_start(start),
            None => self.check(),
        }
    }

    /// The first position that a backup of the log needs.
    pub fn needed_by_backup(&self) -> Lsn {
        Lsn(self.backup.load(Ordering::Relaxed))
    }

    /// Whether records are kept until they have been backed up.
    pub fn is_kept_for_backup(&self) -> bool {
        self.backup.load(Ordering::Relaxed) != NO_BACKUP
    }

    /// The first position whose record still exists.
    pub fn retained_from(&self) -> Lsn {
        self.segments.lock().files.first().map_or(Lsn(NO_BACKUP), |first| first.header.retain)
    }

    /// What its header says of its backups; `None` for a log that was closed.
    pub fn chain(&self) -> Option<ChainState> {
        self.segments.lock().files.first().map(|first| first.header.chain)
    }

    /// Changes what its header says of its backups, durably.
    ///
    /// # Errors
    /// The header of the first file cannot be written.
    pub fn set_chain(&self, chain: ChainState) -> Result<(), LogError> {
        let mut segments = self.segments.lock();
        self.check()?;
        let Some(first) = segments.files.first_mut() else { return self.check() };
        first.header.chain = chain;
        let disk = Arc::clone(&first.disk);
        first.header.write_both(&*disk).inspect_err(|error| self.fail(error))
    }

    /// Keeps all records that recovery would need if it began now, until the result is dropped. Returns where it would
    /// begin; `None` for a log that was closed.
    pub fn hold(self: &Arc<Log>) -> Option<(LogHold, RecoveryStart)> {
        // Under the lock under which records are given up.
        let segments = self.segments.lock();
        let start = segments.files.first()?.header.recovery_start();
        self.holds.lock().push(start.keep);
        Some((LogHold { log: Arc::clone(self), from: start.keep }, start))
    }

    /// Keeps all records from where a backup of the log has to begin, until the result is dropped. `None` for a log
    /// that was closed.
    pub fn hold_for_backup(self: &Arc<Log>) -> Option<LogHold> {
        let segments = self.segments.lock();
        let retain = segments.files.first()?.header.retain;
        let from = Lsn(self.backup.load(Ordering::Relaxed)).max(retain).min(self.durable());
        self.holds.lock().push(from);
        Some(LogHold { log: Arc::clone(self), from })
    }

    pub(crate) fn first_held(&self) -> Lsn {
        self.holds.lock().iter().copied().min().unwrap_or(Lsn(NO_BACKUP))
    }

    /// Appends whole records that were copied from another log, whose first one was at this log's end there. They are
    /// durable when it returns. Blocks.
    ///
    /// # Errors
    /// `bytes` are no whole records: those before the damage are appended. The log has failed, or is full.
    pub fn append_saved(&self, bytes: &[u8]) -> Result<(), LogError> {
        let mut rest = bytes;
        while let Some(length) = saved_length(rest) {
            self.check()?;
            let (record, behind) = rest.split_at(length);
            let (place, _) = self.ring.take(length);
            match read_record(record, Lsn(place.start)) {
                Some(Record { kind, transaction, previous, payload, .. }) if kind != NOTHING => {
                    self.put(place, &NewRecord { kind, transaction, previous, payload: &payload }, true)?;
                }
                _ => self.put(
                    place,
                    &NewRecord { kind: NOTHING, transaction: 0, previous: Lsn(0), payload: &[] },
                    false,
                )?,
            }
            self.room.appended(&Reservation::default(), length as u64);
            rest = behind;
        }
        if rest.len() < bytes.len() {
            self.flush_for(RoomFor::Checkpoint, Lsn(self.end().0 - 1))?;
        }
        match rest {
            [] => Ok(()),
            _ => Err(LogError::NotThere { lsn: self.end(), end: self.end() }),
        }
    }
}

/// The length of the record at the front of `bytes`; `None` if there is no whole one.
fn saved_length(bytes: &[u8]) -> Option<usize> {
    let word = u64::from_le_bytes(*bytes.first_chunk::<8>()?);
    let length = length_of(word);
    (length >= RECORD_HEADER_BYTES && read_record(bytes, Lsn(0)).is_some()).then_some(length)
}

/// Calls `visit` for each record in `bytes`, which were copied from a log where the first one is at `first`, except
/// those that only fill space, until it returns `false`. Returns the position behind the last record that was visited
/// with `true`; or of the one that was not.
///
/// # Errors
/// The position of what is no record.
pub fn for_each_saved(bytes: &[u8], first: Lsn, visit: &mut dyn FnMut(&Record) -> bool) -> Result<Lsn, Lsn> {
    let (mut rest, mut at) = (bytes, first);
    while !rest.is_empty() {
        let record = read_record(rest, at).ok_or(at)?;
        if record.kind != NOTHING && !visit(&record) {
            return Ok(at);
        }
        rest = &rest[(record.end.0 - at.0) as usize..];
        at = record.end;
    }
    Ok(at)
}
