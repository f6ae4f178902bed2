//! What transactions write into one database's log, and which transactions are open there.
//!
//! [`TransactionLog`] is a log with the list of the transactions that write into it: a checkpoint asks it how far back
//! recovery would have to read. A [`LogChain`] is one transaction in one log. Its records are linked backwards.
//! [`LogChains`] are the chains of one transaction, at most one a database, each begun at its first change there.
//!
//! Left to others: the content of records (crate `access`), except those that prepare or end a transaction
//! ([`decision`](crate::decision) for transactions over several databases).

use hobt_instruments::planted::{self, Bug};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hobt_base::{DatabaseId, HobtId, Lsn};
use hobt_instruments::rank::{Rank, Ranked};
use hobt_instruments::schedule::{self, Mutex, Place};
use hobt_instruments::{Wait, WaitType};
use hobt_log::{
    AppendError, Appended, Epoch, Log, LogError, NewRecord, Reservation, RoomFor, TruncationWait, record_bytes,
};

use crate::commit_time::{LogMark, commit_now};
use crate::decision::{
    CommitError, Decisions, PREPARE_BYTES, Settlements, commit_across, decision_bytes, read_prepare,
};
use crate::global_transaction::DatabaseGuid;
use crate::locks::LockOwner;
use crate::transaction_table::{KeptState, RecordEffect, TransactionState};
use crate::undo::{Positions, UndoRecords};

/// The kind of a commit record: it makes a transaction's changes durable.
pub const COMMIT_RECORD: u8 = 1;
/// The kind of a transaction's last record, the end record: nothing of it is left to be done or undone.
pub const END_RECORD: u8 = 2;

/// The kind of a prepare record: the transaction will do as another database's log decides.
pub const PREPARE_RECORD: u8 = 3;
/// The kind of the record by which a checkpoint keeps a decision that participants may still ask for.
pub const DECISION_RECORD: u8 = 4;
/// The kind of the record by which a checkpoint writes down an entry of the transaction table
/// ([`TransactionEntry`](crate::TransactionEntry)).
pub const ENTRY_RECORD: u8 = 5;
/// The kind of the record of a mark ([`LogMark`]), before the commit record of its transaction.
pub const MARK_RECORD: u8 = 6;

/// The storage's own transactions are numbered from here. Stamps of users' transactions stay below.
const STRUCTURE_TRANSACTION_FIRST: u64 = 1 << 63;

/// When a commit may return before it is durable.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u8)]
pub enum DelayedDurability {
    /// Never.
    #[default]
    Disabled,
    /// If the transaction asks for it.
    Allowed,
    /// Always, except for transactions over several databases.
    Forced,
}

impl DelayedDurability {
    /// Every one, by its number in `sys.databases`.
    pub const ALL: [DelayedDurability; 3] =
        [DelayedDurability::Disabled, DelayedDurability::Allowed, DelayedDurability::Forced];

    /// `delayed_durability` of `sys.databases`.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// `delayed_durability_desc` of `sys.databases`.
    pub const fn name(self) -> &'static str {
        match self {
            DelayedDurability::Disabled => "DISABLED",
            DelayedDurability::Allowed => "ALLOWED",
            DelayedDurability::Forced => "FORCED",
        }
    }
}

/// The low bits of the numbers of the storage's own transactions, which count them. The bits above are the life of the
/// log. A crash inside a recovery leaves such transactions of two lives in one log, and the numbers tell them apart.
const STRUCTURE_COUNT_BITS: u32 = 40;

/// Bytes of the records that end a user's transaction: prepare, commit and end records. A commit that names many
/// databases reserves more than this.
const ENDING_BYTES: u64 = 512;
/// The number of other databases that a commit record of that size can name.
const ENDING_PARTICIPANTS: usize = 16;
const _: () = assert!(
    (record_bytes(PREPARE_BYTES) + record_bytes(decision_bytes(ENDING_PARTICIPANTS)) + record_bytes(0)) as u64
        <= ENDING_BYTES
);
/// The pause between two attempts to flush a commit that a full log already contains.
const FULL_PAUSE: Duration = Duration::from_millis(10);
/// Bytes of log that are used before a postponed checkpoint, one that found no room, is asked for again.
const POSTPONED_BYTES: u64 = 64 << 10;

/// How many bytes of other records take recovery as long as an image of this many bytes, about.
pub const fn counted_bytes(image: u64) -> u64 {
    image / 8
}

/// Bytes of unflushed records from which on a delayed commit flushes them: the size of SQL Server's log block.
const DELAYED_BYTES_MAX: u64 = 60 << 10;

/// The log of one database, with the transactions that write into it.
pub struct TransactionLog {
    log: Arc<Log>,
    /// 0 for the log of no database.
    database: DatabaseId,
    pub(crate) guid: DatabaseGuid,
    pub(crate) decisions: Decisions,
    pub(crate) settlements: Arc<Settlements>,
    pub(crate) open: Ranked<Mutex<HashMap<u64, Open>>>,
    /// By HOBT: the last record that describes it.
    pub(crate) described: Mutex<HashMap<HobtId, Lsn>>,
    /// How many users' transactions have begun to write.
    begun: AtomicU64,
    next_structure: AtomicU64,
    /// A checkpoint is due when the log has fewer free bytes; 0 while one is asked for.
    due_below_bytes: AtomicU64,
    /// Also when the log ends behind this position, images not counted: recovery would take too long.
    due_behind: AtomicU64,
    /// Bytes of records that recovery may have to redo, without images.
    redo_bytes_max: AtomicU64,
    /// Where the last checkpoint began, images not counted.
    begun_at: AtomicU64,
    /// Bytes of images that do not count.
    uncounted_bytes: AtomicU64,
    on_due: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// A [`DelayedDurability`].
    delays: AtomicU8,
    /// `on_delayed` was called, and no flush has begun since.
    flush_is_due: AtomicBool,
    on_delayed: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// The flush reserved for commits that have returned before it: one for all of them.
    late: Reservation,
    /// Whether transactions that end are left to recovery.
    leaves_ends: AtomicBool,
}

/// A transaction that has not ended.
pub(crate) struct Open {
    /// All its records are at or after this position: the beginning of an epoch, or for a resumed transaction the one
    /// that recovery has given.
    pub(crate) begin: Lsn,
    pub(crate) figures: Arc<Figures>,
}

/// The end of a transaction's records.
#[derive(Default)]
pub(crate) struct Written {
    /// The last record; 0 if there is none.
    pub(crate) last: Lsn,
    /// It is an end record.
    pub(crate) has_ended: bool,
    /// What recovery would have to know.
    pub(crate) state: KeptState,
}

/// What a transaction has written and may still write, readable by other threads.
pub(crate) struct Figures {
    /// Locked while the next record is appended, so that the chain is in the order of the log.
    pub(crate) written: Ranked<Mutex<Written>>,
    records: AtomicU64,
    bytes: AtomicU64,
    pub(crate) reservation: Reservation,
    /// Bytes that its undo has appended beside its own records because a checkpoint had begun. It needs as much again
    /// after the next one.
    pub(crate) spent: AtomicU64,
    /// Bytes that its undo needs beside what is reserved: recovery found no room for them.
    pub(crate) lacking: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
}

impl Default for Figures {
    fn default() -> Figures {
        Figures {
            written: Ranked::new(Rank::LastRecord, Mutex::default()),
            records: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            reservation: Reservation::default(),
            spent: AtomicU64::new(0),
            lacking: AtomicU64::new(0),
            first: AtomicU64::new(0),
            last: AtomicU64::new(0),
        }
    }
}

impl Figures {
    /// Counts a record. Not called by two threads at once.
    fn count(&self, appended: Appended, payload: &[u8]) {
        if self.records.fetch_add(1, Ordering::Relaxed) == 0 && self.first.load(Ordering::Relaxed) == 0 {
            self.first.store(appended.lsn.0, Ordering::Relaxed);
        }
        self.bytes.fetch_add(record_bytes(payload.len()) as u64, Ordering::Relaxed);
        self.last.store(appended.lsn.0, Ordering::Relaxed);
    }
}

/// What an open transaction has written into a log, as `sys.dm_tran_database_transactions` shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenChain {
    /// The transaction's number.
    pub transaction: u64,
    /// Records.
    pub records: u64,
    /// Bytes of these records.
    pub bytes: u64,
    /// Bytes that it may still need, for its undo above all.
    pub reserved_bytes: u64,
    /// The position of its first record; 0 if it has none.
    pub first: Lsn,
    /// The position of its last record; 0 if it has none.
    pub last: Lsn,
}

impl fmt::Debug for TransactionLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionLog").field("log", &self.log).finish_non_exhaustive()
    }
}

impl TransactionLog {
    /// Appends no end record from now on: the pages cannot be trusted, so nothing says any more that a transaction is
    /// undone. Recovery undoes those that have neither committed nor ended.
    pub fn leave_ends_to_recovery(&self) {
        self.leaves_ends.store(true, Ordering::Release);
    }

    /// A log without transactions that belongs to no database: it takes no part in a transaction over several
    /// databases.
    pub fn new(log: Arc<Log>) -> Arc<TransactionLog> {
        TransactionLog::of_database(log, DatabaseId(0), [0; 16], Arc::default())
    }

    /// The log of a database, without transactions yet. Of the databases that a transaction changed, the one of lowest
    /// id is the coordinator. `settlements` are the instance's.
    pub fn of_database(
        log: Arc<Log>,
        database: DatabaseId,
        guid: DatabaseGuid,
        settlements: Arc<Settlements>,
    ) -> Arc<TransactionLog> {
        let due_below_bytes = AtomicU64::new(log.free_bytes() / 2);
        let begun_at = log.epoch().begin.0;
        // One recovery never meets more lives, or more transactions in a life, than these bits can count.
        let lives = if planted::has(Bug::StructuresNumberedAnew) { 0 } else { log.life() << STRUCTURE_COUNT_BITS };
        let next_structure = AtomicU64::new(STRUCTURE_TRANSACTION_FIRST | lives);
        Arc::new(TransactionLog {
            log,
            database,
            guid,
            settlements,
            decisions: Decisions::default(),
            due_below_bytes,
            due_behind: AtomicU64::new(u64::MAX),
            redo_bytes_max: AtomicU64::new(u64::MAX),
            begun_at: AtomicU64::new(begun_at),
            uncounted_bytes: AtomicU64::new(0),
            on_due: OnceLock::new(),
            delays: AtomicU8::new(DelayedDurability::default() as u8),
            flush_is_due: AtomicBool::new(false),
            on_delayed: OnceLock::new(),
            open: Ranked::new(Rank::OpenTransactions, Mutex::default()),
            described: Mutex::default(),
            begun: AtomicU64::new(0),
            next_structure,
            late: Reservation::default(),
            leaves_ends: AtomicBool::new(false),
        })
    }

    /// The log.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Sets the callback for a checkpoint that is due: once half of what was free is used, or recovery would have to
    /// redo more than it may ([`TransactionLog::bound_recovery`]). A transaction that may hold pages calls it, so it
    /// must not wait for a page.
    pub fn on_checkpoint_due(&self, tell: impl Fn() + Send + Sync + 'static) {
        // The first callback stays: a second one would get the same calls.
        let _first = self.on_due.set(Box::new(tell));
    }

    /// Called when a checkpoint has ended, successfully or not: the next is due once half of what is free now is used,
    /// or recovery would have to redo more than it may.
    pub fn checkpoint_ended(&self) {
        self.set_due_behind();
        self.due_below_bytes.store(self.log.free_bytes() / 2, Ordering::Relaxed);
    }

    /// Called when a checkpoint has begun at `begun`.
    pub fn checkpoint_begun(&self, begun: Lsn) {
        self.begun_at.store(self.without_images(begun), Ordering::Relaxed);
    }

    /// Sets how many bytes of records recovery may have to redo; `u64::MAX` for any number. A checkpoint is due when
    /// there are more. Images count little: to redo one is to copy it ([`counted_bytes`]).
    pub fn bound_recovery(&self, redo_bytes_max: u64) {
        self.redo_bytes_max.store(redo_bytes_max, Ordering::Relaxed);
        self.set_due_behind();
    }

    /// Notes that a record of `bytes` bytes is the image of a page.
    pub fn note_image(&self, bytes: usize) {
        let bytes = bytes as u64;
        self.uncounted_bytes.fetch_add(bytes - counted_bytes(bytes), Ordering::Relaxed);
    }

    fn without_images(&self, lsn: Lsn) -> u64 {
        lsn.0.saturating_sub(self.uncounted_bytes.load(Ordering::Relaxed))
    }

    fn set_due_behind(&self) {
        let due = self.begun_at.load(Ordering::Relaxed).saturating_add(self.redo_bytes_max.load(Ordering::Relaxed));
        // A checkpoint that takes longer than the next one may wait is not followed by that at once.
        self.due_behind.store(due.max(self.without_images(self.log.end()) + POSTPONED_BYTES), Ordering::Relaxed);
    }

    /// Called when a checkpoint found no room, which may be there later: it will be asked for again.
    pub fn checkpoint_postponed(&self) {
        // 0 would mean that one was asked for.
        let due = self.log.free_bytes().saturating_sub(POSTPONED_BYTES).max(1);
        self.set_due_behind();
        self.due_below_bytes.store(due, Ordering::Relaxed);
    }

    fn tell_if_due(&self) {
        let due = self.due_below_bytes.load(Ordering::Relaxed);
        if self.log.free_bytes() < due {
            self.ask_for_checkpoint(due);
        }
    }

    /// Called when a record was appended that ends here.
    fn tell_if_behind(&self, end: Lsn) {
        if self.without_images(end) > self.due_behind.load(Ordering::Relaxed) {
            self.ask_for_checkpoint(self.due_below_bytes.load(Ordering::Relaxed));
        }
    }

    /// Asks for a checkpoint, unless one was asked for already. `due_below_bytes` is 0 then, so that none is due.
    fn ask_for_checkpoint(&self, due: u64) {
        if due != 0
            && self.due_below_bytes.compare_exchange(due, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            && let Some(tell) = self.on_due.get()
        {
            tell();
        }
    }

    /// Sets when commits may return before they are durable, from the next commit on.
    pub fn set_delayed_durability(&self, delays: DelayedDurability) {
        self.delays.store(delays as u8, Ordering::Relaxed);
    }

    /// Sets the callback for a commit that returned before it is durable. It must have [`TransactionLog::flush`] called
    /// soon, and is not called again until then. Without a callback such commits become durable with the next commit
    /// that waits, or once many bytes are unflushed.
    pub fn on_delayed_commit(&self, tell: impl Fn() + Send + Sync + 'static) {
        // The first callback stays: a second one would get the same calls.
        let _first = self.on_delayed.set(Box::new(tell));
    }

    /// Returns when every record appended before the call is durable. Blocks (`WRITELOG`).
    ///
    /// # Errors
    /// The log has failed, or is full.
    pub fn flush(&self) -> Result<(), LogError> {
        // Before the end is read: a later commit calls `on_delayed` again.
        self.flush_is_due.store(false, Ordering::SeqCst);
        self.log.flush_for(RoomFor::End(&self.late), Lsn(self.log.end().0 - 1))
    }

    /// Reserves room for a record with a payload of `bytes`, for a change that belongs to no transaction.
    ///
    /// # Errors
    /// As [`LogChain::reserve`].
    pub fn reserve(&self, reservation: &Reservation, bytes: usize) -> Result<(), LogError> {
        self.reserve_for(RoomFor::Work, reservation, record_bytes(bytes) as u64, 0)
    }

    /// Reserves room for a checkpoint's record with a payload of `bytes`. It may use room that other work may not,
    /// because the checkpoint may free more.
    ///
    /// # Errors
    /// As [`LogChain::reserve`].
    pub fn reserve_for_checkpoint(&self, reservation: &Reservation, bytes: usize) -> Result<(), LogError> {
        self.reserve_for(RoomFor::Checkpoint, reservation, record_bytes(bytes) as u64, 0)
    }

    /// Reserves what undoing the open transactions will append again once the next checkpoint has begun. To be called
    /// before it begins.
    ///
    /// # Errors
    /// [`LogError::Full`]: the checkpoint is to be made when a transaction that is being undone has ended. Or the log
    /// has failed.
    pub fn reserve_for_undo_behind_checkpoint(&self) -> Result<(), LogError> {
        let spent: u64 = self.open.lock().values().map(|open| open.figures.spent.load(Ordering::Relaxed)).sum();
        if spent == 0 {
            return Ok(());
        }
        // Not under the lock: other transactions begin and end while the log grows.
        let reserved = Reservation::default();
        self.log.reserve_for(RoomFor::Checkpoint, &reserved, spent, 0)?;
        // Under the lock: a transaction that leaves the list releases all that is reserved for it.
        for Open { figures, .. } in self.open.lock().values() {
            let spent = figures.spent.swap(0, Ordering::Relaxed);
            let moved = self.log.move_reserved(&reserved, &figures.reservation, spent);
            // What was spent since the sum was taken fits into what new work leaves free (`LEEWAY_BYTES` of the log),
            // and is reserved before the next checkpoint.
            figures.spent.fetch_add(spent - moved, Ordering::Relaxed);
        }
        self.log.release(&reserved);
        Ok(())
    }

    fn reserve_for(
        &self,
        room_for: RoomFor<'_>,
        reservation: &Reservation,
        bytes: u64,
        flushes: u64,
    ) -> Result<(), LogError> {
        let reserved = self.log.reserve_for(room_for, reservation, bytes, flushes);
        reserved.map_err(|error| match error {
            LogError::Full { reason, .. } => {
                let oldest = self.oldest();
                let wait = match self.log.truncation_wait(oldest) {
                    // No segment is needed, but open transactions have reserved the room, mostly for their undo.
                    TruncationWait::Nothing if oldest.is_some() => TruncationWait::ActiveTransaction,
                    wait => wait,
                };
                LogError::Full { wait, reason }
            }
            other => other,
        })
    }

    fn delays(&self, is_asked: bool) -> bool {
        let delays = self.delays.load(Ordering::Relaxed);
        delays == DelayedDurability::Forced as u8 || (is_asked && delays == DelayedDurability::Allowed as u8)
    }

    /// Called when a commit whose record ends at `commit.end` returns before it is durable. All such commits share one
    /// reserved flush.
    fn delayed(&self, commit: Appended, reservation: &Reservation) -> Result<(), LogError> {
        if commit.end.0 - self.log.durable().0.min(commit.end.0) >= DELAYED_BYTES_MAX {
            return self.flush_end(reservation, commit.lsn);
        }
        if self.late.flushes() == 0 {
            self.log.move_reserved_flush(reservation, &self.late);
        }
        if !self.flush_is_due.swap(true, Ordering::SeqCst)
            && let Some(tell) = self.on_delayed.get()
        {
            tell();
        }
        Ok(())
    }

    /// Flushes the record of a transaction's end. `reservation` has a flush for it. If there is no room all the same,
    /// it waits for some (`LOGMGR_RESERVE_APPEND`): the record cannot be undone.
    ///
    /// # Errors
    /// The log has failed.
    pub(crate) fn flush_end(&self, reservation: &Reservation, lsn: Lsn) -> Result<(), LogError> {
        loop {
            match self.log.flush_for(RoomFor::End(reservation), lsn) {
                Err(LogError::Full { .. }) => {}
                flushed => return flushed,
            }
            self.ask_for_checkpoint(self.due_below_bytes.load(Ordering::Relaxed));
            let _wait = Wait::begin_working(WaitType::LogMgrReserveAppend);
            if !schedule::wait(Place::LogFlush) {
                // A checkpoint, a backup, a larger MAXSIZE or space on the disk makes room, and no one event covers all
                // of these. The commit is in the log and cannot be undone. A log that fails or is closed ends the wait.
                std::thread::sleep(FULL_PAUSE);
            }
        }
    }

    /// The number of transactions that have written and not ended.
    pub fn open_count(&self) -> usize {
        self.open.lock().len()
    }

    /// The number of users' transactions that have begun to write since the log was opened.
    pub fn begun_count(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// The users' transactions that have written and not ended, in the order of their numbers.
    pub fn open_chains(&self) -> Vec<OpenChain> {
        let read = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let open = self.open.lock();
        let users = open.iter().filter(|(id, _)| !TransactionLog::is_structure(**id));
        let mut chains: Vec<OpenChain> = users
            .map(|(id, open)| OpenChain {
                transaction: *id,
                records: read(&open.figures.records),
                bytes: read(&open.figures.bytes),
                reserved_bytes: open.figures.reservation.bytes(),
                first: Lsn(read(&open.figures.first)),
                last: Lsn(read(&open.figures.last)),
            })
            .collect();
        chains.sort_unstable_by_key(|chain| chain.transaction);
        chains
    }

    /// The position from which recovery would have to read for the open transactions' sake; `None` if there are none.
    /// To be called after a checkpoint has begun its epoch: a transaction that is not in the list then writes behind
    /// that point. A transaction leaves the list when its last record is appended, not when that record is durable. A
    /// checkpoint therefore relies on [`TransactionLog::needed_from`] instead.
    pub fn oldest(&self) -> Option<Lsn> {
        if planted::has(Bug::OldestByLastRecord) {
            let last = |open: &Open| Lsn(open.figures.last.load(Ordering::Relaxed).max(open.begin.0));
            return self.open.lock().values().map(last).min();
        }
        self.open.lock().values().map(|open| open.begin).min()
    }

    /// The position before which recovery needs no record, whenever the crash comes: [`TransactionLog::oldest`],
    /// returned once the end records of all transactions that have left the list are durable. Without that flush a
    /// crash could bring back a transaction that has ended, with only the last of its records to undo it by. Blocks
    /// (`WRITELOG`).
    ///
    /// # Errors
    /// The log has failed, or is full.
    pub fn needed_from(&self) -> Result<Option<Lsn>, LogError> {
        // In this order: a transaction that left the list before it is read has appended its last record before the
        // end is read.
        let oldest = self.oldest();
        self.log.flush_for(RoomFor::Checkpoint, Lsn(self.log.end().0 - 1))?;
        Ok(oldest)
    }

    /// Notes the last record that describes a HOBT. Called before any change that relies on it is appended.
    pub fn note_description(&self, hobt: HobtId, lsn: Lsn) {
        self.described.lock().insert(hobt, lsn);
    }

    /// Begins the chain of the transaction `id`, a user's.
    fn begin(self: &Arc<TransactionLog>, id: u64, lock_owner: &Arc<LockOwner>) -> Arc<LogChain> {
        assert!(id > 0 && id < STRUCTURE_TRANSACTION_FIRST, "a user's transaction is numbered by its stamp");
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.begin_as(id, None, Some(Arc::clone(lock_owner)))
    }

    /// Begins a transaction of the storage's own, for a change of several pages that is kept or undone on its own.
    pub fn begin_structure(self: &Arc<TransactionLog>) -> Arc<LogChain> {
        self.begin_structure_for(None)
    }

    /// Like [`TransactionLog::begin_structure`], for what the undo of a transaction needs. It uses room that `payer`
    /// has reserved for its undo, as far as there is any, and returns what is left of it.
    pub fn begin_structure_for(self: &Arc<TransactionLog>, payer: Option<&Arc<LogChain>>) -> Arc<LogChain> {
        self.begin_as(self.next_structure.fetch_add(1, Ordering::Relaxed), payer.cloned(), None)
    }

    /// Continues the transaction `id` that a crash left open, whose last record is at `last` and all records at or
    /// behind `begin`. Its undo appends about `bytes`, which are reserved as far as there is room, so that flushes that
    /// can be delayed do not use that room.
    pub fn resume(
        self: &Arc<TransactionLog>,
        id: u64,
        (begin, last): (Lsn, Lsn),
        state: TransactionState,
        bytes: u64,
    ) -> Arc<LogChain> {
        let chain = self.begin_as(id, None, None);
        chain.reserve_up_to(bytes);
        chain.has_ending_reserve.store(true, Ordering::Relaxed);
        chain.figures.first.store(begin.0, Ordering::Relaxed);
        chain.figures.last.store(last.0, Ordering::Relaxed);
        self.open.lock().insert(id, Open { begin, figures: Arc::clone(&chain.figures) });
        *chain.figures.written.lock() = Written { last, has_ended: false, state: KeptState::new(state) };
        chain
    }

    /// Whether a transaction is one of the storage's own.
    pub fn is_structure(id: u64) -> bool {
        id >= STRUCTURE_TRANSACTION_FIRST
    }

    fn begin_as(
        self: &Arc<TransactionLog>,
        id: u64,
        payer: Option<Arc<LogChain>>,
        lock_owner: Option<Arc<LockOwner>>,
    ) -> Arc<LogChain> {
        let figures: Arc<Figures> = Arc::default();
        // The epoch is read before anything is appended, so it is that of the first record or an earlier one.
        let open = Open { begin: self.log.epoch().begin, figures: Arc::clone(&figures) };
        self.open.lock().insert(id, open);
        Arc::new(LogChain {
            owner: Arc::clone(self),
            id,
            payer,
            has_undo_reserve: AtomicBool::new(false),
            has_ending_reserve: AtomicBool::new(false),
            mark_bytes: AtomicU64::new(0),
            touched: Mutex::default(),
            figures,
            undoes: OnceLock::new(),
            last_of_rows: AtomicU64::new(0),
            lock_owner,
        })
    }
}

/// The records of one transaction in one log.
pub struct LogChain {
    owner: Arc<TransactionLog>,
    id: u64,
    /// The chain whose reservation it uses first.
    payer: Option<Arc<LogChain>>,
    /// Whether [`LogChain::reserve_once_for_undo`] has reserved.
    has_undo_reserve: AtomicBool,
    /// Whether the room for its end records is reserved.
    has_ending_reserve: AtomicBool,
    /// What the first record reserves for the transaction's mark.
    mark_bytes: AtomicU64,
    /// What was passed to [`LogChain::note_touched`], as a bitmap: one word for each 64 consecutive numbers.
    touched: Mutex<HashMap<u64, u64>>,
    figures: Arc<Figures>,
    /// How its rows are undone. Set with the first change of a row.
    undoes: OnceLock<Arc<dyn UndoRecords>>,
    /// The last record of a change of a row, or of its undo; 0 if there is none.
    last_of_rows: AtomicU64,
    /// The owner of the transaction's locks. It counts log bytes: the victim of a deadlock is the one that has written
    /// least.
    lock_owner: Option<Arc<LockOwner>>,
}

/// The word that has the bit of a number, and that bit.
fn touched_bit(what: u64) -> (u64, u64) {
    (what / 64, 1 << (what % 64))
}

impl fmt::Debug for LogChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogChain").field("id", &self.id).finish_non_exhaustive()
    }
}

impl LogChain {
    /// The transaction's number in the log.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The log that it writes into.
    pub fn log(&self) -> &Arc<TransactionLog> {
        &self.owner
    }

    /// Reserves room for records with payloads of `bytes` together, whatever other transactions do. The first call also
    /// reserves room for the transaction's end records.
    ///
    /// # Errors
    /// [`LogError::Full`], or the log has failed.
    pub fn reserve(&self, bytes: usize) -> Result<(), LogError> {
        self.owner.tell_if_due();
        let (ending, flushes) = match self.has_ending_reserve.load(Ordering::Relaxed) {
            true => (0, 0),
            // The end of a storage transaction is not flushed.
            false if TransactionLog::is_structure(self.id) => (record_bytes(0) as u64, 0),
            false => (ENDING_BYTES + self.mark_bytes.load(Ordering::Relaxed), 1),
        };
        let bytes = record_bytes(bytes) as u64 + ending;
        let (log, own) = (&self.owner.log, &self.figures.reservation);
        let paid = self.payer.as_ref().map_or(0, |payer| log.move_reserved(&payer.figures.reservation, own, bytes));
        if paid < bytes || flushes > 0 {
            // An undo may use the room that is kept from new work.
            let room_for = if self.payer.is_some() { RoomFor::Checkpoint } else { RoomFor::Work };
            self.owner.reserve_for(room_for, own, bytes - paid, flushes)?;
        }
        if ending > 0 {
            self.has_ending_reserve.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Reserves room for a commit record that names `participants` other databases.
    ///
    /// # Errors
    /// As [`LogChain::reserve`].
    pub(crate) fn reserve_decision(&self, participants: usize) -> Result<(), LogError> {
        match participants {
            0..=ENDING_PARTICIPANTS => Ok(()),
            more => self.reserve(decision_bytes(more)),
        }
    }

    /// Whether the transaction has not changed `what`, a page or a HOBT, yet. At the first change it reserves room for
    /// logging `what` as a whole: its undo has to do that if a checkpoint has begun in between.
    pub fn is_untouched(&self, what: u64) -> bool {
        let (word, bit) = touched_bit(what);
        self.touched.lock().get(&word).is_none_or(|bits| bits & bit == 0)
    }

    /// Notes that this room is reserved. A bit is kept until the transaction ends, which no memory account counts. That
    /// is a byte for two pages or fewer where neighbouring pages are changed, and 32 bytes for a page that lies alone.
    pub fn note_touched(&self, what: u64) {
        let (word, bit) = touched_bit(what);
        *self.touched.lock().entry(word).or_default() |= bit;
    }

    /// Notes that its undo has logged something as a whole, in `bytes` bytes, and would have to do so again after the
    /// next checkpoint. What a chain has paid for that undo is reserved again for that chain.
    pub fn note_spent(&self, bytes: usize) {
        let figures = self.payer.as_ref().map_or(&self.figures, |payer| &payer.figures);
        figures.spent.fetch_add(record_bytes(bytes) as u64, Ordering::Relaxed);
    }

    /// Reserves what the undos of these transactions, which recovery has found open in one log, will append while the
    /// database is in use. Returns whether there is room for all of them; if not, nothing is reserved.
    pub fn reserve_behind_opening(all: &[(&LogChain, u64)]) -> bool {
        let Some((first, _)) = all.first() else { return true };
        let each: Vec<_> = all.iter().map(|(chain, bytes)| (&chain.figures.reservation, *bytes)).collect();
        first.owner.log.reserve_behind_opening(&each)
    }

    /// Reserves what its undo will append when it has the log to itself, as far as there is room.
    pub fn reserve_up_to(&self, bytes: u64) {
        let reservation = &self.figures.reservation;
        self.owner.log.reserve_up_to(reservation, bytes);
        self.figures.lacking.store(bytes.saturating_sub(reservation.bytes()), Ordering::Relaxed);
    }

    /// Its first record; 0 if it has none.
    pub(crate) fn first(&self) -> Lsn {
        Lsn(self.figures.first.load(Ordering::Relaxed))
    }

    /// What it has reserved in the log.
    pub fn reservation(&self) -> &Reservation {
        &self.figures.reservation
    }

    /// How the rows of the transaction are undone; the first call sets it.
    pub fn undoes_by(&self, make: impl FnOnce() -> Arc<dyn UndoRecords>) -> &Arc<dyn UndoRecords> {
        self.undoes.get_or_init(make)
    }

    /// How the rows of the transaction are undone; `None` if it has changed none.
    pub(crate) fn undoes(&self) -> Option<&Arc<dyn UndoRecords>> {
        self.undoes.get()
    }

    /// Notes that the record at `lsn` is of a row's change or undo: a rollback need not look behind the last one.
    pub fn note_row(&self, lsn: Lsn) {
        self.last_of_rows.fetch_max(lsn.0, Ordering::Relaxed);
    }

    /// Nothing is to be undone any more.
    pub(crate) fn forget_undo(&self) {
        self.last_of_rows.store(0, Ordering::Relaxed);
        self.undoes.get().iter().for_each(|undoes| undoes.forget());
    }

    pub(crate) fn last_of_rows(&self) -> Lsn {
        Lsn(self.last_of_rows.load(Ordering::Relaxed))
    }

    /// Its last record; 0 if it has none.
    fn position(&self) -> Lsn {
        self.figures.written.lock().last
    }

    /// Whether it has written nothing: then it needs no end record.
    fn is_empty(&self) -> bool {
        self.position() == Lsn(0)
    }

    /// Its reservation, if it uses the room of another chain: for changes that are part of it and of no transaction.
    pub fn paid_reservation(&self) -> Option<&Reservation> {
        self.payer.is_some().then_some(&self.figures.reservation)
    }

    /// Reserves, once for the transaction, what an undo may need beside the records that it undoes.
    ///
    /// # Errors
    /// As [`LogChain::reserve`].
    pub fn reserve_once_for_undo(&self, bytes: usize) -> Result<(), LogError> {
        if !self.has_undo_reserve.load(Ordering::Relaxed) {
            self.reserve(bytes)?;
            self.has_undo_reserve.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn count(&self, appended: Appended, payload: &[u8]) {
        self.figures.count(appended, payload);
        if let Some(owner) = &self.lock_owner {
            owner.add_log_bytes(record_bytes(payload.len()) as u64);
        }
    }

    /// Appends a record that was prepared in `epoch` and has this effect. Blocks while the log's ring is full.
    ///
    /// # Errors
    /// A checkpoint has begun since `epoch` was read, or the log has failed.
    pub fn append_in(
        &self,
        epoch: Epoch,
        kind: u8,
        payload: &[u8],
        effect: &RecordEffect,
    ) -> Result<Appended, AppendError> {
        let mut written = self.figures.written.lock();
        let record = NewRecord { kind, transaction: self.id, previous: written.last, payload };
        let appended = self.owner.log.append(epoch, &record, &self.figures.reservation)?;
        written.last = appended.lsn;
        written.state.apply(appended.lsn, effect);
        self.count(appended, payload);
        drop(written);
        // A rollback reserves nothing.
        self.owner.tell_if_behind(appended.end);
        Ok(appended)
    }

    /// Appends a record that changes no page and has this effect, beside that of its kind. Blocks while the log's ring
    /// is full.
    ///
    /// # Errors
    /// The log has failed.
    pub fn append(&self, kind: u8, payload: &[u8], effect: &RecordEffect) -> Result<Appended, LogError> {
        let mut written = self.figures.written.lock();
        let record = NewRecord { kind, transaction: self.id, previous: written.last, payload };
        let appended = self.owner.log.append_always(&record, &self.figures.reservation)?;
        written.last = appended.lsn;
        match kind {
            PREPARE_RECORD => written.state.prepare(read_prepare(self.id, payload)),
            END_RECORD => written.has_ended = true,
            _ => {}
        }
        let commits = effect.commits || kind == COMMIT_RECORD;
        written.state.apply(appended.lsn, &RecordEffect { commits, ..*effect });
        self.count(appended, payload);
        Ok(appended)
    }

    /// Commits the transaction, whose only chain this is.
    fn commit(&self, asks_for_delay: bool) -> Result<(), LogError> {
        let appended = self.append(COMMIT_RECORD, &commit_now(), &RecordEffect::default())?;
        if planted::has(Bug::CommitNotDurable) {
            return Ok(());
        }
        if self.owner.delays(asks_for_delay) {
            self.owner.delayed(appended, &self.figures.reservation)
        } else {
            self.owner.flush_end(&self.figures.reservation, appended.lsn)
        }
    }

    /// Appends the transaction's end record, if it has written anything, and releases its reservation. Appends nothing
    /// if recovery is to do what is left ([`TransactionLog::leave_ends_to_recovery`]).
    ///
    /// # Errors
    /// The log has failed.
    pub fn end(&self) -> Result<(), LogError> {
        if self.owner.leaves_ends.load(Ordering::Acquire) {
            return Ok(());
        }
        let ended =
            if self.is_empty() { Ok(()) } else { self.append(END_RECORD, &[], &RecordEffect::default()).map(drop) };
        self.leave();
        ended
    }

    /// Removes the transaction from the list of those that recovery needs to know of. Its last record has been
    /// appended.
    pub fn leave(&self) {
        self.owner.open.lock().remove(&self.id);
        self.give_back();
    }

    fn give_back(&self) {
        match &self.payer {
            Some(payer) => {
                self.owner.log.move_reserved(&self.figures.reservation, &payer.figures.reservation, u64::MAX);
            }
            None => self.owner.log.release(&self.figures.reservation),
        }
    }
}

impl Drop for LogChain {
    fn drop(&mut self) {
        // A chain that was not ended stays in the list: recovery will undo it, and needs its records.
        self.give_back();
    }
}

/// The chains of one transaction, at most one a database.
#[derive(Debug, Default)]
pub struct LogChains {
    chains: Mutex<Vec<Arc<LogChain>>>,
    /// What a chain that is begun reserves for the transaction's mark, with its first record.
    mark_bytes: AtomicU64,
}

impl LogChains {
    /// The chain of the transaction `id` in `log`, begun if there is none yet. `lock_owner` owns the transaction's
    /// locks.
    pub fn of(&self, log: &Arc<TransactionLog>, id: u64, lock_owner: &Arc<LockOwner>) -> Arc<LogChain> {
        let mut chains = self.chains.lock();
        if let Some(chain) = chains.iter().find(|chain| Arc::ptr_eq(&chain.owner, log)) {
            return Arc::clone(chain);
        }
        let chain = log.begin(id, lock_owner);
        chain.mark_bytes.store(self.mark_bytes.load(Ordering::Relaxed), Ordering::Relaxed);
        chains.push(Arc::clone(&chain));
        chain
    }

    /// Reserves room for the transaction's mark in the logs of the databases that it has changed, and, with its first
    /// record there, of those that it will change. So its commit needs no room that may not be there.
    ///
    /// # Errors
    /// As [`LogChain::reserve`].
    pub(crate) fn reserve_mark(&self, mark: &LogMark) -> Result<(), LogError> {
        let bytes = mark.encode().len();
        self.mark_bytes.store(record_bytes(bytes) as u64, Ordering::Relaxed);
        self.all().iter().try_for_each(|chain| chain.reserve(bytes))
    }

    /// All chains, in the order in which they were begun.
    pub(crate) fn all(&self) -> Vec<Arc<LogChain>> {
        self.chains.lock().clone()
    }

    /// The last record of each chain, in the order in which they were begun.
    pub(crate) fn positions(&self) -> Positions {
        self.chains.lock().iter().map(|chain| chain.position()).collect()
    }

    /// Nothing is to be undone any more.
    pub(crate) fn forget_undo(&self) {
        self.all().iter().for_each(|chain| chain.forget_undo());
    }

    /// Notes a mark, for which there is room, in the logs of all databases that the transaction has changed, just
    /// before it commits.
    ///
    /// # Errors
    /// A log has failed.
    pub(crate) fn mark(&self, mark: &LogMark) -> Result<(), LogError> {
        let payload = mark.encode();
        for chain in self.all().iter().filter(|chain| !chain.is_empty()) {
            chain.append(MARK_RECORD, &payload, &RecordEffect::default())?;
        }
        Ok(())
    }

    /// Commits the transaction, in all databases or in none. Returns when that is durable, or before if the transaction
    /// asks for delay and its database allows it, or its database always delays. Blocks (`WRITELOG`).
    ///
    /// # Errors
    /// A log has failed. Either nothing is decided, and the transaction is to be undone, or recovery will decide.
    pub(crate) fn commit(&self, asks_for_delay: bool) -> Result<(), CommitError> {
        let mut chains = self.chains.lock().clone();
        chains.retain(|chain| !chain.is_empty());
        chains.sort_by_key(|chain| chain.owner.database);
        match &*chains {
            [] => Ok(()),
            [one] => one.commit(asks_for_delay).map_err(CommitError::InDoubt),
            [coordinator, participants @ ..] => commit_across(coordinator, participants),
        }
    }

    /// Ends the chains, after the commit actions have run or everything is undone. The transaction's next change begins
    /// new chains.
    ///
    /// # Errors
    /// A log has failed; all chains are ended all the same.
    pub fn end(&self) -> Result<(), LogError> {
        let chains = std::mem::take(&mut *self.chains.lock());
        let mut result = Ok(());
        for chain in chains {
            let ended = chain.end();
            if result.is_ok() {
                result = ended;
            }
        }
        result
    }
}
