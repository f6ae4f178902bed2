//! Crash recovery: analysis, redo, undo.
//!
//! 1. *Analysis* reads the log from the last checkpoint on. It finds which transactions did not end, the deferred
//!    actions of committed ones, each HOBT's run list and row layout, and by how many rows its count differs from the
//!    one last saved. What earlier records of a transaction say, the checkpoint has written down, or analysis begins at
//!    an earlier position (`docs/design/0045-time-to-open.md`).
//! 2. *Redo* applies, from the last checkpoint on, every change to a page whose own position is older
//!    ([`redo`](crate::redo)). Before that, recovery asks for the outcome of each transaction that was prepared to do
//!    as another database decides: it committed or it did not.
//! 3. *Undo* undoes the changes of open transactions, the latest first, and logs each step as the compensation of a
//!    record, so that a recovery after a crash continues where this one was. Then the deferred actions of committed
//!    transactions are done. Transactions that have changed only rows of users' heaps and trees can be undone later,
//!    while the database is in use ([`recover_to_open`]); they share no HOBT with those that are undone here.
//!
//! The changes are made by the functions that made them before the crash ([`Storage::change`], [`Hobt`]). Nothing else
//! may use the database meanwhile.
//!
//! Left to others: the headers of files, the catalog (crate `engine`), the checkpoint that ends the recovery.

use hobt_instruments::planted::{self, Bug};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hobt_base::{EXTENT_PAGES, FileId, HobtId, Lsn, PAGE_SIZE, PageId, Stamp};
use hobt_log::{LogReader, Record, Recovered};
use hobt_page::{EncodingDamage, PageChange, PageDamage, RowLayout};
use hobt_txn::{
    COMMIT_RECORD, DECISION_RECORD, END_RECORD, ENTRY_RECORD, GlobalTransaction, LogChain, MARK_RECORD, PREPARE_RECORD,
    RecordEffect, RecoveredDecision, TransactionEntry, TransactionLog, TransactionState, counted_bytes,
    decision_in_commit, read_commit, read_decision, read_prepare,
};

use crate::btree::UNDO_SPLIT_BYTES_FIRST;
use crate::btree::{BTree, TreeKey};
use crate::change::{HEAD_BYTES, IMAGE_BYTES, Identity};
use crate::left_open::{OpenTransaction, UndoEstimate, bytes_without_image};
use crate::log_record::{ChangeRecord, HobtRecord, StorageRecord, Undo};
use crate::redo::redo;
use crate::storage::Allocated;
use crate::undo::{ChangedRow, not_decoded};
use crate::{AccessError, Hobt, RowStore, Storage};

/// The result of a recovery.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RecoverySummary {
    /// Records that were read.
    pub records: u64,
    /// Changes that were applied again.
    pub redone: u64,
    /// Damaged pages that were repaired.
    pub repaired: u64,
    /// Transactions that were open, and were undone.
    pub undone_transactions: u64,
    /// Records that were undone.
    pub undone: u64,
    /// Transactions that were open, and are still to be undone.
    pub left_open: u64,
    /// The largest number of a user's transaction in the log.
    pub newest: Stamp,
    /// The largest HOBT id in the log.
    pub newest_hobt: HobtId,
    /// Bytes of records that analysis has read; of images as many as count ([`counted_bytes`]).
    pub redo_bytes: u64,
    /// How long analysis and redo took.
    pub redo_time: Duration,
}

/// What recovery does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecoveryPhase {
    /// It finds out what is to be done.
    Analysis,
    /// It applies changes again.
    Redo,
    /// It undoes open transactions that cannot be undone later.
    Undo,
}

impl RecoveryPhase {
    /// Its number: 1, 2 or 3.
    pub const fn number(self) -> u8 {
        match self {
            RecoveryPhase::Analysis => 1,
            RecoveryPhase::Redo => 2,
            RecoveryPhase::Undo => 3,
        }
    }
}

/// Told how many bytes of log are done, of how many, in a phase.
pub type ReportProgress<'a> = &'a dyn Fn(RecoveryPhase, u64, u64);

/// Bytes of log after which progress is reported.
const REPORT_BYTES: u64 = 256 << 10;

/// Reports the progress of a walk through the log, forwards or backwards.
pub(crate) struct Progress<'a> {
    report: ReportProgress<'a>,
    phase: RecoveryPhase,
    /// Where the walk begins, and where it ends.
    from: Lsn,
    until: Lsn,
    reported: u64,
}

impl Progress<'_> {
    fn new(report: ReportProgress<'_>, phase: RecoveryPhase, from: Lsn, until: Lsn) -> Progress<'_> {
        Progress { report, phase, from, until, reported: 0 }
    }

    /// Notes that the walk is at `lsn`.
    pub(crate) fn note(&mut self, lsn: Lsn) {
        let done = lsn.0.abs_diff(self.from.0);
        if done >= self.reported + REPORT_BYTES {
            self.reported = done;
            (self.report)(self.phase, done, self.until.0.abs_diff(self.from.0));
        }
    }
}

/// What analysis knows of a transaction.
#[derive(Debug)]
struct Known {
    /// All that its undo needs is at or behind this position.
    begin: Lsn,
    last: Lsn,
    state: TransactionState,
    /// Estimated bytes of log that its undo appends.
    undo_bytes: u64,
    /// Pages that it changed before the start of redo, which its undo logs whole.
    old_pages: HashSet<PageId>,
    /// What the undo of its rows appends if others work meanwhile.
    estimate: UndoEstimate,
}

impl Known {
    /// A transaction of which nothing is known but that a record behind `begin` is its last so far.
    fn of(begin: Lsn, record: &Record) -> Known {
        Known {
            begin,
            last: record.lsn,
            state: TransactionState::default(),
            undo_bytes: 0,
            old_pages: HashSet::new(),
            estimate: UndoEstimate::default(),
        }
    }

    /// A transaction that a checkpoint has written down at `at`.
    fn written_down(at: Lsn, entry: TransactionEntry) -> Known {
        Known {
            begin: entry.begin,
            last: entry.last,
            state: entry.state,
            undo_bytes: entry.undo_bytes,
            old_pages: HashSet::new(),
            estimate: UndoEstimate::from(at, entry.undo_bytes),
        }
    }

    /// Whether it has changed rows of the HOBTs that `is_users` accepts, and nothing else.
    fn has_only_rows(&self, id: u64, is_users: &dyn Fn(HobtId) -> bool) -> bool {
        !TransactionLog::is_structure(id)
            && self.state.prepared.is_none()
            && self.state.structure.is_empty()
            && self.state.pending.is_empty()
            && !self.state.hobts.is_empty()
            && self.state.hobts.iter().all(|hobt| is_users(*hobt))
    }
}

/// Tells whether the coordinator decided to commit a transaction that was prepared here; the error is why that is not
/// known.
pub type AskCoordinator<'a> = &'a dyn Fn(&GlobalTransaction) -> Result<bool, String>;

/// The decisions that other databases may still ask for, from the log of a database that needs no recovery.
///
/// # Errors
/// The log cannot be read, or has a malformed record.
pub fn recovered_decisions(recovered: &Recovered) -> Result<Vec<RecoveredDecision>, AccessError> {
    let mut decisions = Vec::new();
    recovered.for_each(recovered.start.read_from, &mut |record| {
        decisions.extend(decision_of(&record)?);
        Ok::<(), AccessError>(())
    })?;
    Ok(decisions)
}

fn decision_of(record: &Record) -> Result<Option<RecoveredDecision>, AccessError> {
    let read = match record.kind {
        COMMIT_RECORD if !decision_in_commit(&record.payload).is_empty() => {
            read_commit(record.transaction, &record.payload)
        }
        DECISION_RECORD => read_decision(&record.payload),
        _ => return Ok(None),
    };
    let damage = EncodingDamage { rule: "a decision over several databases" };
    read.map(Some).ok_or_else(|| not_decoded(record, damage))
}

/// Like [`recover_to_open`], with nothing left to undo.
///
/// # Errors
/// As [`recover_to_open`].
///
/// # Panics
/// As [`recover_to_open`].
pub fn recover(
    storage: &Arc<Storage>,
    recovered: &Recovered,
    ask: AskCoordinator<'_>,
) -> Result<RecoverySummary, AccessError> {
    recover_to_open(storage, recovered, ask, &|_| false, &|_, _, _| {}).map(|(summary, _)| summary)
}

/// Recovers a database whose files are open ([`Storage::open_file_to_recover`]) and whose log has just been opened.
/// `ask` is called before anything is written. Afterwards the log has the decisions that other databases may ask for.
///
/// Leaves transactions open that have changed only rows of HOBTs that `is_users` accepts, and returns them. Nothing
/// else may use these HOBTs until they are undone. `report` is called now and then by this thread.
///
/// # Errors
/// [`AccessError::Undecided`]: the coordinator of a transaction cannot be asked. A file cannot be read or written, the
/// log has a malformed record, or a page is damaged that the log cannot repair.
///
/// # Panics
/// The database has no log.
pub fn recover_to_open(
    storage: &Arc<Storage>,
    recovered: &Recovered,
    ask: AskCoordinator<'_>,
    is_users: &dyn Fn(HobtId) -> bool,
    report: ReportProgress<'_>,
) -> Result<(RecoverySummary, Vec<OpenTransaction>), AccessError> {
    let log = storage.log().expect("a database that is recovered has a log");
    let mut recovery = Recovery {
        storage,
        log,
        recovered,
        report,
        transactions: BTreeMap::new(),
        hobts: HashMap::new(),
        described: HashMap::new(),
        opened: HashMap::new(),
        row_changes: BTreeMap::new(),
        file_pages: HashMap::new(),
        broken: BTreeSet::new(),
        images: 0,
        decisions: Vec::new(),
        summary: RecoverySummary::default(),
    };
    let since = Instant::now();
    recovery.analyse()?;
    if cfg!(debug_assertions) {
        recovery.check_states();
    }
    recovery.decide(ask)?;
    recovery.size_files()?;
    recovery.redo()?;
    let (read, images) = (recovered.end.0 - recovered.start.read_from.0, recovery.images * PAGE_SIZE as u64);
    recovery.summary.redo_bytes = read.saturating_sub(images) + counted_bytes(images);
    recovery.summary.redo_time = since.elapsed();
    for file in storage.files() {
        file.read_maps()?;
    }
    let left = recovery.leave_open(is_users);
    recovery.undo()?;
    recovery.finish_committed()?;
    recovery.refuse_broken()?;
    recovery.save_counts()?;
    let left: Vec<OpenTransaction> = left.into_iter().map(|(id, known)| recovery.resume(id, known)).collect();
    recovery.summary.left_open = left.len() as u64;
    log.recover_decisions(recovery.decisions);
    Ok((recovery.summary, left))
}

struct Recovery<'a> {
    storage: &'a Arc<Storage>,
    log: &'a Arc<TransactionLog>,
    recovered: &'a Recovered,
    report: ReportProgress<'a>,
    transactions: BTreeMap<u64, Known>,
    hobts: HashMap<HobtId, KnownHobt>,
    /// The records that describe HOBTs of which analysis may have read none, as a checkpoint has written them down.
    described: HashMap<HobtId, Lsn>,
    /// The heaps and trees of which single rows are undone.
    opened: HashMap<HobtId, RowStore>,
    /// By HOBT: by how many rows its count differs from the one last saved.
    row_changes: BTreeMap<HobtId, i64>,
    file_pages: HashMap<FileId, u32>,
    /// Pages that are damaged so far: a later record may rewrite them, or their extents may be free in the end.
    broken: BTreeSet<PageId>,
    /// Images of pages that analysis has read.
    images: u64,
    /// Decisions of this database for other databases.
    decisions: Vec<RecoveredDecision>,
    summary: RecoverySummary,
}

#[derive(Debug)]
pub(crate) struct KnownHobt {
    run_list: PageId,
    filegroup: hobt_base::FilegroupId,
    layout_version: u32,
    pub(crate) key: Option<Arc<TreeKey>>,
    pub(crate) rows: Arc<RowLayout>,
    /// The record that describes it, and its bytes.
    lsn: Lsn,
    record_bytes: u64,
}

impl KnownHobt {
    fn of(record: &Record, hobt: HobtRecord) -> KnownHobt {
        KnownHobt {
            run_list: hobt.run_list,
            filegroup: hobt.filegroup,
            layout_version: hobt.layout_version,
            key: hobt.key.map(Arc::new),
            rows: Arc::new(hobt.rows),
            lsn: record.lsn,
            record_bytes: record.end.0 - record.lsn.0,
        }
    }
}

impl Recovery<'_> {
    fn analyse(&mut self) -> Result<(), AccessError> {
        let recovered = self.recovered;
        let from = recovered.start.read_from;
        let mut progress = Progress::new(self.report, RecoveryPhase::Analysis, from, recovered.end);
        recovered.for_each(from, &mut |record| {
            progress.note(record.lsn);
            self.analyse_record(&record)
        })
    }

    fn analyse_record(&mut self, record: &Record) -> Result<(), AccessError> {
        self.summary.records += 1;
        let id = record.transaction;
        if id != 0 {
            if !TransactionLog::is_structure(id) {
                self.summary.newest = self.summary.newest.max(Stamp(id));
            }
            let begin = self.recovered.start.read_from;
            let known = self.transactions.entry(id).or_insert_with(|| Known::of(begin, record));
            known.last = record.lsn;
        }
        self.decisions.extend(decision_of(record)?);
        match record.kind {
            DECISION_RECORD | MARK_RECORD => {}
            PREPARE_RECORD => {
                let damage = EncodingDamage { rule: "the preparation of a transaction" };
                let prepared = read_prepare(id, &record.payload).ok_or_else(|| not_decoded(record, damage))?;
                self.transactions.entry(id).and_modify(|known| known.state.prepared = Some(prepared));
            }
            COMMIT_RECORD => self.apply(record, &RecordEffect { commits: true, ..RecordEffect::default() }),
            END_RECORD => drop(self.transactions.remove(&id)),
            ENTRY_RECORD => {
                let damage = EncodingDamage { rule: "an entry of the transaction table" };
                self.take_over(
                    record,
                    TransactionEntry::decode(&record.payload).ok_or_else(|| not_decoded(record, damage))?,
                );
            }
            _ => {
                let decoded = StorageRecord::decode(record.kind, &record.payload);
                let decoded = decoded.map_err(|damage| not_decoded(record, damage))?;
                let unknown = EncodingDamage { rule: "the kind of a record" };
                self.analyse_storage(record, decoded.ok_or_else(|| not_decoded(record, unknown))?);
            }
        }
        Ok(())
    }

    /// Checks that what is known of each transaction is what all its records say, also those that analysis has not
    /// read. A record that cannot be read ends it: its transaction's undo will report that, if it gets there.
    fn check_states(&self) {
        let mut reader = LogReader::new(self.log.log());
        'transactions: for (id, known) in &self.transactions {
            let (mut effects, mut next, mut prepared) = (Vec::new(), known.last, None);
            while next != Lsn(0) {
                let Ok(record) = reader.record(next) else { continue 'transactions };
                assert_eq!(record.transaction, *id, "the chain of {id} at {next}");
                assert!(next >= known.begin, "a record of {id} at {next}, before {}", known.begin);
                match record.kind {
                    COMMIT_RECORD => effects.push((next, RecordEffect { commits: true, ..RecordEffect::default() })),
                    PREPARE_RECORD => prepared = read_prepare(*id, &record.payload),
                    kind => {
                        let decoded = StorageRecord::decode(kind, &record.payload).ok().flatten();
                        let Some(decoded) = decoded else { continue 'transactions };
                        effects.push((next, decoded.effect()));
                    }
                }
                next = record.previous;
            }
            let mut state = TransactionState { prepared, ..TransactionState::default() };
            effects.iter().rev().for_each(|(lsn, effect)| state.apply(*lsn, effect));
            assert_eq!(known.state, state, "what is known of transaction {id}");
        }
    }

    /// Finds out the outcome of transactions that other databases decide.
    fn decide(&mut self, ask: AskCoordinator<'_>) -> Result<(), AccessError> {
        for known in self.transactions.values_mut().filter(|known| !known.state.committed) {
            if let Some(prepared) = &known.state.prepared {
                known.state.committed = ask(prepared).map_err(AccessError::Undecided)?;
            }
        }
        Ok(())
    }

    /// Notes what a record says of its transaction. Of one that has committed, only the deferred actions are still to
    /// be done, if there are any.
    fn apply(&mut self, record: &Record, effect: &RecordEffect) {
        if let Some(known) = self.transactions.get_mut(&record.transaction) {
            known.state.apply(record.lsn, effect);
            if effect.commits && known.state.is_done() {
                self.transactions.remove(&record.transaction);
            }
        }
    }

    /// Replaces what is known of a transaction by what a checkpoint has written down.
    fn take_over(&mut self, record: &Record, entry: TransactionEntry) {
        let id = entry.transaction;
        if !TransactionLog::is_structure(id) {
            self.summary.newest = self.summary.newest.max(Stamp(id));
        }
        for (hobt, lsn) in entry.state.hobts.iter().zip(&entry.described) {
            self.described.insert(*hobt, *lsn);
        }
        match entry.state.is_done() {
            true => drop(self.transactions.remove(&id)),
            false => drop(self.transactions.insert(id, Known::written_down(record.lsn, entry))),
        }
    }

    fn analyse_storage(&mut self, record: &Record, decoded: StorageRecord) {
        let effect = decoded.effect();
        match decoded {
            StorageRecord::Change(change) => {
                if change.counts {
                    self.row_changes.insert(change.hobt, 0);
                }
                self.count(record, change.hobt, change.rows.into());
                if let Some(lsn) = change.compensates {
                    self.note_undone_rows(record, lsn, &change);
                }
                self.expect_undo(record, &change);
                self.images += u64::from(matches!(change.change, PageChange::Image { .. }));
            }
            StorageRecord::Note(Undo::Unpublish { hobt, rows, .. }) => self.count(record, hobt, rows.cast_signed()),
            StorageRecord::Note(Undo::Untruncate { hobt, rows, .. }) => self.count(record, hobt, -rows.cast_signed()),
            StorageRecord::Note(_) | StorageRecord::PendingFree { .. } => {}
            StorageRecord::Checkpoint | StorageRecord::Loading(_) | StorageRecord::Together { .. } => {}
            StorageRecord::Undone { hobt, rows, .. } => self.count(record, hobt, rows),
            StorageRecord::Hobt(hobt) => {
                self.summary.newest_hobt = self.summary.newest_hobt.max(hobt.hobt);
                self.hobts.insert(hobt.hobt, KnownHobt::of(record, *hobt));
            }
            StorageRecord::Grow { file, pages } => {
                self.file_pages.insert(file, pages);
            }
        }
        self.apply(record, &effect);
    }

    /// Counts rows that were inserted or deleted since the last checkpoint began. That checkpoint saved the count of
    /// every HOBT that had changed before.
    fn count(&mut self, record: &Record, hobt: HobtId, rows: i64) {
        if rows != 0 && record.lsn >= self.recovered.start.redo {
            *self.row_changes.entry(hobt).or_default() += rows;
        }
    }

    /// Notes that a change of a page has undone that of the record at `lsn`. If this is of a row, all rows since are
    /// undone.
    fn note_undone_rows(&mut self, record: &Record, lsn: Lsn, change: &ChangeRecord) {
        let known = self.transactions.get_mut(&record.transaction);
        if let Some(known) = known.filter(|known| !known.state.structure.contains_key(&lsn)) {
            known.estimate.undone_from(lsn, bytes_without_image(record, change));
        }
    }

    /// Adds up what the undo of a change will append, in case its transaction did not commit.
    fn expect_undo(&mut self, record: &Record, change: &ChangeRecord) {
        let is_old = record.lsn < self.recovered.start.redo;
        let known = self.transactions.get_mut(&record.transaction).filter(|_| change.undo.is_some());
        let Some(known) = known else { return };
        if change.undo.as_ref().is_some_and(Undo::is_of_row) {
            known.estimate.add(record, change, self.hobts.get(&change.hobt));
        }
        known.undo_bytes += (record.end.0 - record.lsn.0).min(PAGE_SIZE as u64) + HEAD_BYTES as u64;
        if is_old && known.old_pages.insert(change.page) {
            known.undo_bytes += IMAGE_BYTES as u64;
        }
    }

    /// Restores the size of each file.
    fn size_files(&self) -> Result<(), AccessError> {
        for file in self.storage.files() {
            let described = file.size_pages();
            let pages = self.file_pages.get(&file.id()).copied().unwrap_or(0).max(described);
            let bytes = u64::from(pages) * PAGE_SIZE as u64;
            // The file system may have lost a growth that the log has; the content of these pages is in the log too.
            if file.disk().size()? < bytes {
                file.disk().set_size(bytes)?;
            }
            file.set_size_pages(pages);
        }
        Ok(())
    }

    fn redo(&mut self) -> Result<(), AccessError> {
        let (from, end) = (self.recovered.start.redo, self.recovered.end);
        let mut progress = Progress::new(self.report, RecoveryPhase::Redo, from, end);
        let redone = redo(self.storage, self.recovered, &self.hobts, &mut progress)?;
        (self.summary.redone, self.summary.repaired) = (redone.changes, redone.repaired);
        self.broken = redone.broken;
        Ok(())
    }

    /// Takes out the open transactions that can be undone later.
    fn leave_open(&mut self, is_users: &dyn Fn(HobtId) -> bool) -> BTreeMap<u64, Known> {
        let has_only_rows = |id: &u64, known: &mut Known| !known.state.committed && known.has_only_rows(*id, is_users);
        let mut left: BTreeMap<u64, Known> = self.transactions.extract_if(.., has_only_rows).collect();
        loop {
            let here = self.transactions.values().filter(|known| !known.state.committed);
            let hobts: BTreeSet<HobtId> = here.flat_map(|known| &known.state.hobts).copied().collect();
            let is_shared = |_: &u64, known: &mut Known| !known.state.hobts.is_disjoint(&hobts);
            let shared: Vec<(u64, Known)> = left.extract_if(.., is_shared).collect();
            if shared.is_empty() {
                return left;
            }
            self.transactions.extend(shared);
        }
    }

    /// Continues a transaction that is undone later.
    fn resume(&self, id: u64, known: Known) -> OpenTransaction {
        let chain = self.log.resume(id, (known.begin, known.last), known.state.clone(), 0);
        // There the walk begins. It finds the last change of a row, and what is undone already.
        chain.note_row(known.last);
        let hobts = known.state.hobts;
        // A later checkpoint writes down where they are described.
        for hobt in &hobts {
            let read = self.hobts.get(hobt).map(|known| known.lsn);
            if let Some(lsn) = read.or_else(|| self.described.get(hobt).copied()) {
                self.log.note_description(*hobt, lsn);
            }
        }
        let described = hobts.iter().filter_map(|hobt| self.hobts.get(hobt));
        let described: u64 = described.map(|hobt| hobt.record_bytes).sum();
        OpenTransaction {
            storage: Arc::clone(self.storage),
            chain,
            hobts,
            undo_bytes: known.estimate.bytes() + described + (UNDO_SPLIT_BYTES_FIRST + HEAD_BYTES) as u64,
            undo_bytes_alone: known.undo_bytes,
        }
    }

    /// Reads the descriptions of HOBTs that transactions have changed before analysis began to read.
    fn read_descriptions(&mut self) -> Result<(), AccessError> {
        let mut reader = LogReader::new(self.log.log());
        let hobts = self.transactions.values().flat_map(|known| &known.state.hobts);
        let unread: BTreeSet<HobtId> = hobts.filter(|hobt| !self.hobts.contains_key(hobt)).copied().collect();
        for hobt in unread {
            let Some(lsn) = self.described.get(&hobt).copied().filter(|lsn| *lsn > Lsn(0)) else { continue };
            let record = reader.record(lsn)?;
            let decoded = StorageRecord::decode(record.kind, &record.payload);
            match decoded.map_err(|damage| not_decoded(&record, damage))? {
                Some(StorageRecord::Hobt(described)) if described.hobt == hobt => {
                    self.hobts.insert(hobt, KnownHobt::of(&record, *described));
                }
                _ => return Err(not_decoded(&record, EncodingDamage { rule: "the description of a HOBT" })),
            }
        }
        Ok(())
    }

    /// Undoes the changes of open transactions, over all of them the latest first.
    fn undo(&mut self) -> Result<(), AccessError> {
        self.read_descriptions()?;
        let losers: Vec<u64> =
            self.transactions.iter().filter(|(_, known)| !known.state.committed).map(|(id, _)| *id).collect();
        let mut chains = HashMap::new();
        // By the position of the next record to undo.
        let mut next: BTreeMap<Lsn, u64> = BTreeMap::new();
        for id in losers {
            let known = &self.transactions[&id];
            let written = (known.begin, known.last);
            chains.insert(id, self.log.resume(id, written, known.state.clone(), known.undo_bytes));
            next.insert(known.last, id);
            self.summary.undone_transactions += 1;
        }
        let mut reader = LogReader::new(self.log.log());
        let top = next.last_key_value().map_or(Lsn(0), |(lsn, _)| *lsn);
        let bottom = self.transactions.values().map(|known| known.begin).min().unwrap_or(top);
        let mut progress = Progress::new(self.report, RecoveryPhase::Undo, top, bottom.min(top));
        // By transaction: the first record of those whose changes of rows are undone, up to the current position.
        let mut undone_from: HashMap<u64, Lsn> = HashMap::new();
        while let Some((lsn, id)) = next.pop_last() {
            progress.note(lsn);
            let record = reader.record(lsn)?;
            let from = undone_from.get(&id).copied();
            let found = self.undo_record(&chains[&id], &record, from)?;
            let from = found.or(from).filter(|from| *from < lsn);
            let previous = match from {
                // Between them only structure is left to undo.
                Some(from) => {
                    let mut between = self.transactions[&id].state.structure.range(from..lsn).rev();
                    between.find(|(_, is_undone)| !**is_undone).map_or(from, |(lsn, _)| *lsn)
                }
                None => record.previous,
            };
            match from {
                Some(from) => undone_from.insert(id, from),
                None => undone_from.remove(&id),
            };
            if previous == Lsn(0) {
                chains[&id].end()?;
                self.transactions.remove(&id);
            } else {
                next.insert(previous, id);
            }
        }
        Ok(())
    }

    /// Undoes the change of a record. Changes of rows are undone already from the record at `undone_from` on. Returns
    /// the position from which they are, if the record says so.
    fn undo_record(
        &mut self,
        chain: &Arc<LogChain>,
        record: &Record,
        undone_from: Option<Lsn>,
    ) -> Result<Option<Lsn>, AccessError> {
        let (lsn, undoes_twice) = (record.lsn, planted::has(Bug::UndoneTwice));
        let decoded = StorageRecord::decode(record.kind, &record.payload);
        let (undo, page, hobt) = match decoded.map_err(|damage| not_decoded(record, damage))? {
            Some(StorageRecord::Change(change)) => match (change.compensates, change.undo) {
                (Some(first), _) => {
                    let is_structure = self.known_structure(record.transaction, first).is_some();
                    return Ok(Some(first).filter(|_| !is_structure && !undoes_twice));
                }
                (None, Some(undo)) => (undo, change.page, change.hobt),
                (None, None) => return Ok(None),
            },
            Some(StorageRecord::Note(undo)) => (undo, PageId::default(), HobtId(0)),
            _ => return Ok(None),
        };
        let is_undone = match undo.is_of_row() {
            true => undone_from.is_some_and(|from| from <= lsn),
            false => self.known_structure(record.transaction, lsn) == Some(true),
        };
        if is_undone && !undoes_twice {
            return Ok(None);
        }
        self.summary.undone += 1;
        match undo {
            Undo::FreeRun { first, extents } => {
                self.storage.free_undone(Some(chain), &Allocated { first, extents, lsn })?;
            }
            Undo::Unpublish { hobt, runs, until, rows } => {
                *self.row_changes.entry(hobt).or_default() -= rows.cast_signed();
                self.close_hobt(hobt);
                self.open_hobt(hobt)?.unpublish(chain, lsn, runs as usize..until as usize, rows)?;
            }
            Undo::Untruncate { hobt, rows, list_page } => {
                *self.row_changes.entry(hobt).or_default() += rows.cast_signed();
                self.close_hobt(hobt);
                self.open_hobt(hobt)?.untruncate(chain, lsn, list_page, rows)?;
            }
            Undo::Uncreate { hobt } => {
                self.close_hobt(hobt);
                self.open_hobt(hobt)?.uncreate_again(chain, lsn)?;
            }
            Undo::RestorePage { bytes } => {
                self.close_hobt(hobt);
                self.open_hobt(hobt)?.restore_page(Some(chain), lsn, page, bytes)?;
            }
            undo => {
                let row = ChangedRow::of(undo, page, lsn).expect("every other undo is of a row");
                self.undo_row(chain, hobt, &row)?;
            }
        }
        Ok(None)
    }

    /// Whether the change of a record is undone, if it is of no row.
    fn known_structure(&self, transaction: u64, lsn: Lsn) -> Option<bool> {
        self.transactions.get(&transaction)?.state.structure.get(&lsn).copied()
    }

    fn undo_row(&mut self, chain: &Arc<LogChain>, hobt: HobtId, row: &ChangedRow) -> Result<(), AccessError> {
        if row.is_undo_skipped() {
            return Ok(());
        }
        *self.row_changes.entry(hobt).or_default() -= row.rows();
        let store = self.opened_for_rows(hobt)?;
        row.undo_after_crash(&store, chain)
    }

    /// Drops the in-memory state of a HOBT whose runs are about to change.
    fn close_hobt(&mut self, hobt: HobtId) {
        self.opened.remove(&hobt);
    }

    /// A heap or tree of which single rows are undone. Its run list is not used.
    fn opened_for_rows(&mut self, hobt: HobtId) -> Result<RowStore, AccessError> {
        if let Some(opened) = self.opened.get(&hobt) {
            return Ok(opened.clone());
        }
        let is_tree = self.hobts.get(&hobt).is_some_and(|known| known.key.is_some());
        let opened = self.open_hobt(hobt)?;
        let store = if is_tree { RowStore::Tree(BTree::of_hobt(opened)?) } else { RowStore::Heap(opened) };
        self.opened.insert(hobt, store.clone());
        Ok(store)
    }

    /// The HOBT with its run list at this moment of the undo.
    fn open_hobt(&self, id: HobtId) -> Result<Arc<Hobt>, AccessError> {
        let known = self.hobts.get(&id).ok_or_else(|| {
            AccessError::LogFailed(format!("the log does not say what the rows of HOBT {id} look like"))
        })?;
        let identity =
            Identity::new(id, known.run_list, known.filegroup, Arc::clone(&known.rows), known.layout_version);
        Hobt::open_to_undo(self.storage, identity.with_key(known.key.clone()))
    }

    /// Does the deferred actions of committed transactions.
    fn finish_committed(&mut self) -> Result<(), AccessError> {
        for (id, known) in std::mem::take(&mut self.transactions) {
            let chain = self.log.resume(id, (known.begin, known.last), known.state.clone(), 0);
            if known.state.prepared.is_some() {
                // Committed here too, so that the coordinator is not asked again. If it had a commit record, it now has
                // two.
                chain.append(COMMIT_RECORD, &[], &RecordEffect::default())?;
            }
            for (first, extents) in known.state.pending.into_values() {
                // A file that was removed was empty.
                let Ok(file) = self.storage.file(first.file) else { continue };
                if file.is_allocated(first.number / EXTENT_PAGES) {
                    self.storage.free_pending(Some(&chain), first, extents)?;
                }
            }
            chain.end()?;
        }
        Ok(())
    }

    /// Refuses pages that stayed damaged, if they are allocated.
    fn refuse_broken(&self) -> Result<(), AccessError> {
        for &id in &self.broken {
            let file = self.storage.file(id.file)?;
            if file.is_allocated(id.number / EXTENT_PAGES) {
                let rule = "a page that is damaged and of which the log has no image";
                return Err(self.storage.damaged(id, PageDamage::Structure { rule }));
            }
        }
        Ok(())
    }

    /// Saves the number of rows of each HOBT that still exists.
    fn save_counts(&mut self) -> Result<(), AccessError> {
        for (&id, &rows) in self.row_changes.iter().filter(|(_, rows)| **rows != 0) {
            let Some(known) = self.hobts.get(&id) else { continue };
            // A dropped HOBT may have been in a file that was removed since.
            let Ok(file) = self.storage.file(known.run_list.file) else { continue };
            if !file.is_allocated(known.run_list.number / EXTENT_PAGES) {
                continue;
            }
            match self.open_hobt(id) {
                Ok(hobt) => hobt.add_to_count(rows)?,
                // The pages of a dropped HOBT may have another use by now.
                Err(AccessError::Damaged { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
