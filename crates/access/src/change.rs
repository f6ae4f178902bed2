//! The one way to change a page: apply the change, append it to the log, stamp the record's position on the page.
//!
//! Every change of a database's page goes through [`Storage::change`], which calls [`hobt_page::apply`], as recovery
//! does. Room in the log is reserved before: a change that cannot be logged is not made.
//!
//! The caller says whether a change is undone ([`Logged`]):
//!
//! * A change of a transaction ([`Logged::of`]) is undone with it, by the [`Undo`] in its record.
//! * A structure change ([`Logged::structure`]) is never undone: each one leaves the pages consistent on its own.
//! * A compensation ([`Logged::compensating`]) undoes the record that it names, and is never undone.
//!
//! Pages that are consistent only together are changed by [`Storage::change_together`], with one record.
//!
//! A database without a log (`tempdb`, and tests) changes its pages in the same way, without logging.

use hobt_instruments::planted::{self, Bug};
use hobt_instruments::rank::Rank;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hobt_base::{FilegroupId, HobtId, Lsn, PAGE_SIZE, PageId};
use hobt_log::{AppendError, Appended, Epoch, NewRecord, Reservation, record_bytes};
use hobt_page::{PageBytes, PageChange, PageDamage, PageHeader, PageType, RowLayout, apply};
use hobt_txn::{LogChain, RecordEffect, StatementContext, TransactionLog};

use crate::btree::TreeKey;
use crate::log_record::{ChangeHead, HobtRecord, Undo, encode_together, encode_undone, kind};
use crate::{AccessError, Storage};

/// The largest size of a record without its change: its head, and the two records that end a transaction.
pub(crate) const HEAD_BYTES: usize = 160;
/// The size of the head of a change's record that has an undo, without the undo.
const HEAD_BYTES_MIN: usize = 17;
/// The size of the head of a record that undoes the change of a row.
const COMPENSATION_HEAD_BYTES: usize = 23;
/// The largest size of a writer's stamp in a change.
const WRITER_BYTES: usize = 10;
/// The largest size of a change that only sets a bit of a row, or removes the last row.
const BIT_CHANGE_BYTES: usize = 16;
/// The payload of the record that extents are to be freed, and what a change of bits has beside them.
const FREE_PAYLOAD_BYTES: usize = 32;
/// The largest size of an image of a page.
pub(crate) const IMAGE_BYTES: usize = hobt_base::PAGE_SIZE + 64;

/// The largest size of the record that saves a HOBT's count of rows: the first since a checkpoint is an image of the
/// page.
pub(crate) const COUNT_RECORD_BYTES: usize = IMAGE_BYTES + HEAD_BYTES + CHANGE_BYTES;

/// How a change is logged, and what it is for.
#[derive(Clone, Copy)]
pub(crate) struct Logged<'a> {
    chain: Option<&'a Arc<LogChain>>,
    commits: bool,
    compensates: Option<Lsn>,
    /// Whether that record is of a change of a row.
    is_of_row: bool,
    freed: Option<(PageId, u32)>,
    undo: Option<&'a Undo>,
    counts: bool,
    rows: i8,
    /// Its room in the log was reserved before.
    is_reserved: bool,
    /// The chain whose reservation it uses, if it belongs to no transaction.
    payer: Option<&'a Arc<LogChain>>,
}

impl<'a> Logged<'a> {
    /// A change that is never undone.
    pub(crate) fn structure() -> Logged<'static> {
        Logged {
            chain: None,
            commits: false,
            compensates: None,
            is_of_row: false,
            freed: None,
            undo: None,
            counts: false,
            rows: 0,
            is_reserved: false,
            payer: None,
        }
    }

    /// A change that is never undone, made as part of what `with` belongs to: it uses the same reservation.
    pub(crate) fn structure_of(with: Logged<'a>) -> Logged<'a> {
        Logged { payer: with.chain.or(with.payer), ..Logged::structure() }
    }

    /// A change of a transaction; `None` in a database without a log.
    pub(crate) fn of(chain: Option<&'a Arc<LogChain>>) -> Logged<'a> {
        Logged { chain, ..Logged::structure() }
    }

    /// Adds how it is undone.
    pub(crate) fn undone_by(self, undo: &'a Undo) -> Logged<'a> {
        Logged { undo: Some(undo), ..self }
    }

    /// Makes it a compensation: it undoes the record at `lsn`.
    pub(crate) fn compensating(self, lsn: Lsn) -> Logged<'a> {
        Logged { compensates: Some(lsn), is_reserved: true, ..self }
    }

    /// Makes it a compensation of the change of a row that has its record at `lsn`.
    pub(crate) fn undoing_row(self, lsn: Lsn) -> Logged<'a> {
        Logged { is_of_row: true, ..self.compensating(lsn) }
    }

    /// It frees extents whose freeing its transaction, which has committed, had deferred.
    pub(crate) fn freeing(self, first: PageId, extents: u32) -> Logged<'a> {
        Logged { freed: Some((first, extents)), is_reserved: true, ..self }
    }

    /// Its room was reserved with the note that it belongs to.
    pub(crate) fn reserved(self) -> Logged<'a> {
        Logged { is_reserved: true, ..self }
    }

    /// It commits its transaction, one of the storage's own.
    pub(crate) fn committing(self) -> Logged<'a> {
        Logged { commits: true, ..self }
    }

    /// It saves the HOBT's count of rows.
    pub(crate) fn counting(self) -> Logged<'a> {
        Logged { counts: true, ..self }
    }

    /// What its record says to recovery if it changes a page of `hobt`.
    fn effect(&self, hobt: HobtId) -> RecordEffect {
        RecordEffect {
            hobt: if self.undo.is_some() { hobt } else { HobtId(0) },
            is_structure: self.undo.is_some_and(|undo| !undo.is_of_row()),
            compensates: self.compensates.filter(|_| !self.is_of_row),
            defers: None,
            frees: self.freed,
            commits: self.commits,
        }
    }

    /// It increases the HOBT's number of rows by one, or decreases it.
    pub(crate) fn rows(self, rows: i8) -> Logged<'a> {
        Logged { rows, ..self }
    }
}

/// A change that was made.
#[derive(Debug)]
pub(crate) struct Changed {
    /// The position of its record; 0 in a database without a log.
    pub(crate) lsn: Lsn,
}

/// The description of a HOBT that recovery needs. The log has it once between two checkpoints if the HOBT changes.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) id: HobtId,
    pub(crate) run_list: PageId,
    pub(crate) filegroup: FilegroupId,
    pub(crate) rows: Arc<RowLayout>,
    pub(crate) layout_version: u32,
    /// `None` for a heap.
    pub(crate) key: Option<Arc<TreeKey>>,
    /// The beginning of the epoch in which the log has it.
    logged_in: AtomicU64,
    /// Bytes of its record in the log; 0 while that is not known.
    record_bytes: AtomicU64,
}

impl Identity {
    pub(crate) fn new(
        id: HobtId,
        run_list: PageId,
        filegroup: FilegroupId,
        rows: Arc<RowLayout>,
        layout_version: u32,
    ) -> Identity {
        Identity {
            id,
            run_list,
            filegroup,
            rows,
            layout_version,
            key: None,
            logged_in: AtomicU64::new(0),
            record_bytes: AtomicU64::new(0),
        }
    }

    /// Makes it the identity of a B+tree.
    pub(crate) fn with_key(self, key: Option<Arc<TreeKey>>) -> Identity {
        Identity { key, ..self }
    }

    /// The place of its runs' latch in the order of locks: the pages of a tree are latched before it, those of a heap
    /// behind it.
    pub(crate) fn state_rank(&self) -> Rank {
        if self.key.is_some() { Rank::TreeState } else { Rank::HeapState }
    }

    /// The layout, if `change` needs one.
    fn rows_for(&self, change: &PageChange) -> Option<&RowLayout> {
        match change {
            PageChange::Format { header } => (header.page_type == PageType::Row).then_some(&*self.rows),
            _ => Some(&*self.rows),
        }
    }

    fn record(&self) -> Vec<u8> {
        let key = self.key.as_deref();
        HobtRecord::encode(self.id, self.run_list, self.filegroup, self.layout_version, key, &self.rows)
    }

    /// Bytes of its record in the log.
    pub(crate) fn record_bytes(&self) -> usize {
        let known = self.record_bytes.load(Ordering::Relaxed);
        if known > 0 {
            return known as usize;
        }
        let bytes = record_bytes(self.record().len());
        self.record_bytes.store(bytes as u64, Ordering::Relaxed);
        bytes
    }

    fn is_logged_in(&self, epoch: Epoch) -> bool {
        self.logged_in.load(Ordering::Acquire) == epoch.begin.0
    }

    /// Makes sure that the log has it in this epoch. The record uses the room of `reservation`. Returns the size of the
    /// record, if one was appended.
    fn log(&self, log: &TransactionLog, epoch: Epoch, reservation: &Reservation) -> Result<Option<usize>, AppendError> {
        if self.is_logged_in(epoch) {
            return Ok(None);
        }
        let payload = self.record();
        let appended = append_structure(log, epoch, kind::HOBT, &payload, reservation)?;
        log.note_description(self.id, appended.lsn);
        self.logged_in.store(epoch.begin.0, Ordering::Release);
        Ok(Some(record_bytes(payload.len())))
    }
}

/// Appends a record that belongs to no transaction.
fn append_structure(
    log: &TransactionLog,
    epoch: Epoch,
    kind: u8,
    payload: &[u8],
    reservation: &Reservation,
) -> Result<Appended, AppendError> {
    let record = NewRecord { kind, transaction: 0, previous: Lsn(0), payload };
    log.log().append(epoch, &record, reservation)
}

/// Room for the record of a change of one row, the usual case.
const CHANGE_BYTES: usize = 512;

/// The sizes of a change's payload and of the undo in it.
#[derive(Clone, Copy)]
struct PayloadBytes {
    all: usize,
    undo: usize,
}

impl PayloadBytes {
    /// The largest size of the record that undoes the change, without an image of the page.
    fn of_undo(self, undo: &Undo) -> usize {
        if undo.is_of_row() { row_undo_bytes(self.undo) } else { self.all + HEAD_BYTES }
    }
}

/// The largest size of the record that undoes the change of a row, without an image of the page. `undo_bytes` is the
/// size of the undo in the change's record.
pub(crate) fn row_undo_bytes(undo_bytes: usize) -> usize {
    // It restores what the undo names, or sets a bit. The undo names no writer: a number of varying length.
    record_bytes(COMPENSATION_HEAD_BYTES + (undo_bytes + WRITER_BYTES).max(BIT_CHANGE_BYTES))
}

/// Bytes of log that a change of a page and its undo take together, without the header of the first record, and what
/// the transaction touches with it for the first time.
///
/// When it is undone, the page may have to be logged whole, and its HOBT be described, because a checkpoint has begun
/// in between. That is reserved once for each page and HOBT that the transaction changes.
fn bytes_needed(
    payload: PayloadBytes,
    id: PageId,
    hobt: Option<&Identity>,
    (epoch, is_long): (Epoch, bool),
    logged: &Logged<'_>,
) -> (usize, [Option<u64>; 2]) {
    let mut bytes = payload.all + if is_long { IMAGE_BYTES } else { 0 };
    bytes += hobt.filter(|hobt| !hobt.is_logged_in(epoch)).map_or(0, Identity::record_bytes);
    let (Some(chain), Some(undo)) = (logged.chain, logged.undo) else { return (bytes, [None; 2]) };
    bytes += payload.of_undo(undo);
    let page = page_key(id);
    if !chain.is_untouched(page) {
        // Nor is its HOBT.
        return (bytes, [None; 2]);
    }
    let described = hobt.filter(|hobt| chain.is_untouched(HOBT_KEY | hobt.id.0));
    bytes += IMAGE_BYTES + described.map_or(0, Identity::record_bytes);
    (bytes, [Some(page), described.map(|hobt| HOBT_KEY | hobt.id.0)])
}

/// The numbers of pages for [`LogChain::note_touched`]. Those of HOBTs have the highest bit set.
pub(crate) fn page_key(id: PageId) -> u64 {
    u64::from(id.file.0) << 32 | u64::from(id.number)
}

const HOBT_KEY: u64 = 1 << 63;

/// Where a record goes, and which reservation it uses.
struct Destination<'a> {
    log: &'a TransactionLog,
    /// The HOBT whose pages are changed.
    hobt: Option<&'a Identity>,
    /// The transaction that the record belongs to, and that has reserved room for it.
    chain: Option<&'a Arc<LogChain>>,
    /// The reservation to use if there is no chain.
    own: &'a Reservation,
    /// Whether `own` has more than this record takes, and keeps it.
    keeps_rest: bool,
}

/// The part of one page in changes that are made together.
pub(crate) struct Part<'a> {
    pub(crate) id: PageId,
    /// The page, held exclusively; each page has one part.
    pub(crate) page: &'a mut PageBytes,
    /// In the order in which they are made.
    pub(crate) changes: Vec<PageChange>,
}

/// Makes the changes of all parts, or none if a page has no room.
fn apply_parts(hobt: &Identity, parts: &mut [Part<'_>]) -> Result<bool, (PageId, PageDamage)> {
    let mut done: Vec<(usize, PageChange)> = Vec::new();
    let mut failed = None;
    'parts: for (index, part) in parts.iter_mut().enumerate() {
        for change in &part.changes {
            match apply(part.page, hobt.rows_for(change), change) {
                Ok(Some(undo)) => done.push((index, undo)),
                Ok(None) => failed = Some(Ok(false)),
                Err(damage) => failed = Some(Err((part.id, damage))),
            }
            if failed.is_some() {
                break 'parts;
            }
        }
    }
    let Some(failed) = failed else { return Ok(true) };
    for (index, undo) in done.iter().rev() {
        let part = &mut parts[*index];
        let undone = apply(part.page, hobt.rows_for(undo), undo);
        assert!(matches!(undone, Ok(Some(_))), "a change that was just made can be taken back");
    }
    failed
}

/// Reserves room for the record of a change, and for its undo. `stands_alone` tells whether it needs no image, and
/// `before` is the page's last position in the log. Room for a change that belongs to no transaction goes to `own`,
/// unless another chain pays.
///
/// # Errors
/// The log is full or has failed.
fn reserve(
    log: &Arc<TransactionLog>,
    (payload, stands_alone, before): (PayloadBytes, bool, Lsn),
    (id, hobt): (PageId, Option<&Identity>),
    logged: &Logged<'_>,
    (own, paid): (&Reservation, Option<(&Arc<LogChain>, &Reservation)>),
) -> Result<(), AccessError> {
    let epoch = log.log().epoch();
    let is_long = stands_alone || before < epoch.begin;
    let (bytes, touched) = bytes_needed(payload, id, hobt, (epoch, is_long), logged);
    match (logged.chain, paid) {
        (Some(chain), _) | (None, Some((chain, _))) => chain.reserve(bytes)?,
        (None, None) if logged.counts => log.reserve_for_checkpoint(own, bytes)?,
        (None, None) => log.reserve(own, bytes)?,
    }
    for (chain, what) in logged.chain.iter().flat_map(|chain| touched.iter().flatten().map(move |it| (chain, *it))) {
        chain.note_touched(what);
    }
    Ok(())
}

/// The largest size of the record that extents are to be freed, and of that of their bits without an image of the page.
pub(crate) fn free_bytes(extents: u32) -> usize {
    let bits = extents.div_ceil(8) as usize + 1;
    2 * record_bytes(HEAD_BYTES) + FREE_PAYLOAD_BYTES + bits
}

/// Whether a change determines the page's whole content.
fn stands_alone(change: &PageChange) -> bool {
    if planted::has(Bug::NoImages) {
        return true;
    }
    matches!(change, PageChange::Format { .. } | PageChange::Image { .. })
}

impl Storage {
    /// The statement's chain in this database's log; `None` if the database has none.
    pub(crate) fn chain_of(&self, context: &StatementContext) -> Option<Arc<LogChain>> {
        self.log().map(|log| context.log_chain(log))
    }

    /// Applies `change` to a page that is held, and logs it. Returns `None`, with nothing changed, if the page has no
    /// room.
    ///
    /// # Errors
    /// The page is damaged; the log is full, and nothing is changed; the log has failed, and the database is broken.
    pub(crate) fn change(
        &self,
        page: &mut PageBytes,
        id: PageId,
        hobt: Option<&Identity>,
        change: &PageChange,
        logged: Logged<'_>,
    ) -> Result<Option<Changed>, AccessError> {
        let rows = hobt.and_then(|hobt| hobt.rows_for(change));
        let damaged = |damage| self.damaged(id, damage);
        let Some(log) = self.log() else {
            let undo = apply(page, rows, change).map_err(damaged)?;
            if undo.is_some() {
                PageHeader::clear_bulk(page);
            }
            return Ok(undo.map(|_| Changed { lsn: Lsn(0) }));
        };
        // A page that a bulk load built is not in the log, wherever its run was allocated.
        let before = if PageHeader::is_bulk(page) { Lsn(0) } else { PageHeader::lsn_of(page) };
        let head = ChangeHead {
            page: id,
            hobt: hobt.map_or(HobtId(0), |hobt| hobt.id),
            commits: logged.commits,
            compensates: logged.compensates,
            freed: logged.freed,
            undo: logged.undo,
            counts: logged.counts,
            rows: logged.rows,
        };
        let mut payload = Vec::with_capacity(CHANGE_BYTES);
        head.encode(&mut payload);
        let head_bytes = payload.len();
        change.encode(&mut payload);
        let own = Reservation::default();
        let paid = logged.payer.and_then(|payer| Some((payer, payer.paid_reservation()?)));
        if !logged.is_reserved {
            let stands_alone = stands_alone(change);
            let bytes = PayloadBytes { all: payload.len(), undo: head_bytes.saturating_sub(HEAD_BYTES_MIN) };
            reserve(log, (bytes, stands_alone, before), (id, hobt), &logged, (&own, paid))?;
        }
        // The change of an undo comes from the log, not from this page, so it is checked first.
        let fits = if logged.compensates.is_some() { change.check(page, rows) } else { Ok(()) };
        match fits.and_then(|()| apply(page, rows, change)) {
            Ok(Some(_)) => {}
            other => {
                log.log().release(&own);
                return other.map(|_| None).map_err(damaged);
            }
        }
        let mut has_image = false;
        let (keeps_rest, own) = (paid.is_some(), paid.map_or(&own, |(_, reservation)| reservation));
        let to = Destination { log, hobt, chain: logged.chain, own, keeps_rest };
        let effect = logged.effect(head.hobt);
        let appended = self.append(&to, (kind::CHANGE, &effect), &mut payload, &mut |epoch, payload| {
            if !has_image && !stands_alone(change) && before < epoch.begin {
                payload.truncate(head_bytes);
                PageHeader::clear_bulk(page);
                PageChange::Image { bytes: Box::new(*page) }.encode(payload);
                has_image = true;
            }
        })?;
        if has_image {
            log.note_image(PAGE_SIZE);
        }
        if let Some(chain) =
            logged.chain.filter(|_| has_image && (logged.compensates.is_some() || logged.freed.is_some()))
        {
            chain.note_spent(IMAGE_BYTES);
        }
        if let Some(chain) = logged.chain.filter(|_| logged.is_of_row || logged.undo.is_some_and(Undo::is_of_row)) {
            chain.note_row(appended.lsn);
        }
        PageHeader::stamp_lsn(page, appended.lsn);
        Ok(Some(Changed { lsn: appended.lsn }))
    }

    /// Appends the record of a change that pages have already, and releases the room that was reserved for it alone.
    /// Calls `look` in each epoch in which the record might be appended. `look` replaces changes by an image where one
    /// is needed.
    fn append(
        &self,
        to: &Destination<'_>,
        (kind, effect): (u8, &RecordEffect),
        payload: &mut Vec<u8>,
        look: &mut dyn FnMut(Epoch, &mut Vec<u8>),
    ) -> Result<Appended, AccessError> {
        loop {
            let epoch = to.log.log().epoch();
            look(epoch, payload);
            let room = to.chain.map_or(to.own, |chain| chain.reservation());
            let described = to.hobt.map_or(Ok(None), |hobt| hobt.log(to.log, epoch, room));
            if let (Ok(Some(bytes)), Some(chain)) = (&described, to.chain) {
                chain.note_spent(*bytes);
            }
            let appended = described.and_then(|_| match to.chain {
                Some(chain) => chain.append_in(epoch, kind, payload, effect),
                None => append_structure(to.log, epoch, kind, payload, to.own),
            });
            match appended {
                Ok(appended) => {
                    if !to.keeps_rest {
                        to.log.log().release(to.own);
                    }
                    return Ok(appended);
                }
                Err(AppendError::EpochChanged) => {}
                Err(AppendError::Failed(error)) => {
                    // The pages have a change that the log does not have.
                    self.mark_broken(&error.to_string());
                    return Err(error.into());
                }
            }
        }
    }

    /// Changes several pages of a HOBT that are held, with one record: after a crash all of the changes are there or
    /// none. Never undone. Returns `None`, with nothing changed, if a page has no room.
    ///
    /// With a `chain` the record uses the room that its transaction has reserved: for changes that an undo needs.
    ///
    /// # Errors
    /// As [`Storage::change`].
    pub(crate) fn change_together(
        &self,
        hobt: &Identity,
        parts: &mut [Part<'_>],
        chain: Option<&Arc<LogChain>>,
    ) -> Result<Option<Lsn>, AccessError> {
        let damaged = |(id, damage)| self.damaged(id, damage);
        let Some(log) = self.log() else {
            let applied = apply_parts(hobt, parts).map_err(damaged)?;
            parts.iter_mut().filter(|_| applied).for_each(|part| PageHeader::clear_bulk(part.page));
            return Ok(applied.then_some(Lsn(0)));
        };
        let before: Vec<Lsn> = parts
            .iter()
            .map(|part| if PageHeader::is_bulk(part.page) { Lsn(0) } else { PageHeader::lsn_of(part.page) })
            .collect();
        let encode = |parts: &[Part<'_>]| {
            let borrowed: Vec<_> = parts.iter().map(|part| (part.id, &part.changes[..])).collect();
            encode_together(hobt.id, &borrowed)
        };
        let mut payload = encode(parts);
        let own = Reservation::default();
        if chain.is_none() {
            log.reserve(&own, payload.len() + parts.len() * IMAGE_BYTES + hobt.record_bytes())?;
        }
        match apply_parts(hobt, parts) {
            Ok(true) => {}
            other => {
                log.log().release(&own);
                return other.map(|_| None).map_err(damaged);
            }
        }
        let to = Destination { log, hobt: Some(hobt), chain, own: &own, keeps_rest: false };
        let kind = (kind::TOGETHER, &RecordEffect::default());
        let appended = self.append(&to, kind, &mut payload, &mut |epoch, payload| {
            let mut has_new_images = false;
            for (part, before) in parts.iter_mut().zip(&before) {
                if !part.changes.first().is_some_and(stands_alone) && *before < epoch.begin {
                    PageHeader::clear_bulk(part.page);
                    part.changes = vec![PageChange::Image { bytes: Box::new(*part.page) }];
                    log.note_image(PAGE_SIZE);
                    has_new_images = true;
                }
            }
            if has_new_images {
                *payload = encode(parts);
            }
        })?;
        parts.iter_mut().for_each(|part| PageHeader::stamp_lsn(part.page, appended.lsn));
        Ok(Some(appended.lsn))
    }

    /// Logs a page that a load has built in private memory. Returns the record's position, with which the page is to be
    /// stamped.
    ///
    /// # Errors
    /// The log is full or has failed.
    pub(crate) fn log_loaded(
        &self,
        hobt: &Identity,
        chain: &Arc<LogChain>,
        id: PageId,
        page: &PageBytes,
    ) -> Result<Lsn, AccessError> {
        let head = ChangeHead {
            page: id,
            hobt: hobt.id,
            commits: false,
            compensates: None,
            freed: None,
            undo: None,
            counts: false,
            rows: 0,
        };
        let mut payload = Vec::with_capacity(HEAD_BYTES + IMAGE_BYTES);
        head.encode(&mut payload);
        PageChange::Image { bytes: Box::new(*page) }.encode(&mut payload);
        chain.reserve(payload.len())?;
        chain.log().note_image(PAGE_SIZE);
        let own = &Reservation::default();
        let to = Destination { log: chain.log(), hobt: Some(hobt), chain: Some(chain), own, keeps_rest: false };
        Ok(self.append(&to, (kind::CHANGE, &RecordEffect::default()), &mut payload, &mut |_, _| {})?.lsn)
    }

    /// Logs a note of a change to several pages of a HOBT, before it is made. Does nothing in a database without a log.
    ///
    /// # Errors
    /// The log is full or has failed.
    pub(crate) fn note(&self, hobt: &Identity, chain: Option<&Arc<LogChain>>, undo: &Undo) -> Result<Lsn, AccessError> {
        let Some(chain) = chain else { return Ok(Lsn(0)) };
        let mut payload = Vec::new();
        undo.encode(&mut payload);
        // Its undo writes two pages of the run list at most.
        chain.reserve(payload.len() + 3 * (IMAGE_BYTES + HEAD_BYTES) + 2 * hobt.record_bytes())?;
        loop {
            // Recovery opens the HOBT, even if the note is the last record of it before a crash.
            let epoch = chain.log().log().epoch();
            let described = hobt.log(chain.log(), epoch, chain.reservation());
            match described.and_then(|_| chain.append_in(epoch, kind::NOTE, &payload, &undo.effect_of_note())) {
                Ok(appended) => return Ok(appended.lsn),
                Err(AppendError::EpochChanged) => {}
                Err(AppendError::Failed(error)) => return Err(error.into()),
            }
        }
    }

    /// Logs that the change of a [`Storage::note`] was undone, and by how many `rows` that changed the count.
    ///
    /// # Errors
    /// The log has failed.
    pub(crate) fn undone(
        &self,
        chain: Option<&Arc<LogChain>>,
        lsn: Lsn,
        hobt: HobtId,
        rows: i64,
    ) -> Result<(), AccessError> {
        let Some(chain) = chain else { return Ok(()) };
        let effect = RecordEffect { compensates: Some(lsn), ..RecordEffect::default() };
        chain.append(kind::UNDONE, &encode_undone(lsn, hobt, rows), &effect)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hobt_base::{FileId, SlotId, Stamp};
    use hobt_page::RowImage;

    fn head(compensates: Option<Lsn>, undo: Option<&Undo>) -> Vec<u8> {
        let (page, hobt) = (PageId::new(FileId(1), 9), HobtId(7));
        let head = ChangeHead { page, hobt, commits: false, compensates, freed: None, undo, counts: false, rows: -1 };
        let mut bytes = Vec::new();
        head.encode(&mut bytes);
        bytes
    }

    /// Whatever a row's change has written, the record of its undo fits into what was reserved with it.
    #[test]
    fn the_room_of_an_undo_holds_its_record() {
        let (slot, writer) = (SlotId(3), Stamp(u64::MAX));
        for length in (0..3000).step_by(7) {
            let (key, value) = (vec![5; length % 900], vec![6; length]);
            let row = RowImage::new([Some(&value[..]), None, Some(&key[..])]);
            let bit = |deleted| PageChange::SetDeleted { slot, deleted, writer };
            let back = PageChange::ReplaceRow { slot, row: row.clone(), writer };
            let undone = [
                (Undo::RemoveRow { slot }, PageChange::RemoveLastRow { writer }),
                (Undo::RemoveRow { slot }, bit(true)),
                (Undo::RestoreRow { slot }, bit(false)),
                (Undo::PutBack { slot, row: row.clone() }, back.clone()),
                (Undo::RemoveKey { key: key.clone() }, bit(true)),
                (Undo::RestoreKey { key: key.clone() }, bit(false)),
                (Undo::ReplaceKey { key, row }, back),
            ];
            for (undo, change) in undone {
                let reserved = row_undo_bytes(head(None, Some(&undo)).len() - HEAD_BYTES_MIN);
                let mut compensation = head(Some(Lsn(u64::MAX)), None);
                change.encode(&mut compensation);
                let needed = record_bytes(compensation.len());
                assert!(needed <= reserved, "{undo:?}: {needed} of {reserved} bytes");
                assert!(reserved <= needed + 32 + length % 900, "{undo:?}: {reserved} bytes for {needed}");
            }
        }
    }
}
