//! The storage's log records.
//!
//! ```text
//! change   flags u8 | page | hobt u64 | [compensates u64] | [freed: first page | extents u32]
//!          | [undo length u16 | undo] | the page's change, to the end
//! note     undo
//! undone   compensates u64 | hobt u64 | rows i64
//! free     first page | extents u32
//! hobt     hobt u64 | run list's page | filegroup u16 | layout version u32 | key | layout, to the end
//! together hobt u64 | parts u8 | for each: page | changes u8 | for each: length u32 | the page's change
//! grow     file u16 | pages u32
//! loading  for each run: first page | extents u32
//! page:    file u16 | number u32
//! ```
//! All numbers are little-endian. The log's checksum guards the bytes: bytes that do not decode all the same are of
//! another version. If a page was not changed since the last checkpoint, its record has an image of the page in place
//! of the change. The image has the same effect and needs no earlier state, so a page write torn by a crash is
//! repaired.
//!
//! The undo of a change is described in its record on its own, because other transactions may have changed the page
//! since: a heap's row is undone by its RID, a B+tree's row by its key, extents by their bits.
//!
//! Changes of one `together` record are of one structure: all are there or none is. They are never undone.

use hobt_base::{FileId, FilegroupId, HobtId, Lsn, PageId, SlotId, Stamp};
use hobt_page::{EncodingDamage, EncodingReader, PageBytes, PageChange, RowImage, RowLayout};

use hobt_txn::RecordEffect;

use crate::btree::TreeKey;

/// Kinds of the storage's records. The others end a transaction.
pub(crate) mod kind {
    pub(crate) const CHANGE: u8 = 16;
    pub(crate) const NOTE: u8 = 17;
    pub(crate) const UNDONE: u8 = 18;
    pub(crate) const PENDING_FREE: u8 = 19;
    pub(crate) const HOBT: u8 = 20;
    pub(crate) const GROW: u8 = 21;
    pub(crate) const CHECKPOINT: u8 = 22;
    pub(crate) const TOGETHER: u8 = 23;
    pub(crate) const LOADING: u8 = 24;
}

mod flag {
    /// The change commits its transaction.
    pub(super) const COMMITS: u8 = 1;
    pub(super) const COMPENSATES: u8 = 2;
    pub(super) const UNDO: u8 = 4;
    /// The row count of a HOBT is saved: it includes the rows of earlier records.
    pub(super) const COUNTS: u8 = 8;
    pub(super) const ROW_MORE: u8 = 16;
    pub(super) const ROW_LESS: u8 = 32;
    /// The change frees extents whose freeing a committed transaction had deferred.
    pub(super) const FREES: u8 = 64;
    pub(super) const ALL: u8 = 127;
}

/// How a logged change is undone.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Undo {
    /// A row was inserted into a slot of the record's page.
    RemoveRow { slot: SlotId },
    /// A row of the record's page was deleted.
    RestoreRow { slot: SlotId },
    /// A run was allocated.
    FreeRun { first: PageId, extents: u32 },
    /// Loaded runs are about to be added to a heap that has `runs` runs, and will then have `until`.
    Unpublish { hobt: HobtId, runs: u32, until: u32, rows: u64 },
    /// A heap is about to be truncated: the first page of its run list, and its number of rows.
    Untruncate { hobt: HobtId, rows: u64, list_page: Box<PageBytes> },
    /// A row with this key was inserted into the B+tree.
    RemoveKey { key: Vec<u8> },
    /// The row with this key was deleted.
    RestoreKey { key: Vec<u8> },
    /// The row with this key, deleted or not, was replaced: the old row.
    ReplaceKey { key: Vec<u8>, row: RowImage },
    /// The record's page was rewritten by a statement that has the HOBT for itself: the old page.
    RestorePage { bytes: Box<PageBytes> },
    /// A row in a slot of the record's page was replaced: the old row.
    PutBack { slot: SlotId, row: RowImage },
    /// A HOBT was created, with one run. Runs added since, which are structure, are freed with it.
    Uncreate { hobt: HobtId },
}

/// A change of a page, as logged.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ChangeRecord {
    pub(crate) page: PageId,
    /// 0 for pages of the file itself.
    pub(crate) hobt: HobtId,
    pub(crate) commits: bool,
    /// The record that the change undoes.
    pub(crate) compensates: Option<Lsn>,
    /// Extents whose freeing a committed transaction had deferred: the first page, and how many.
    pub(crate) freed: Option<(PageId, u32)>,
    pub(crate) undo: Option<Undo>,
    /// The size of `undo` in the record.
    pub(crate) undo_bytes: usize,
    pub(crate) counts: bool,
    /// By how many rows the change increases the HOBT's count: 1, 0 or -1.
    pub(crate) rows: i8,
    pub(crate) change: PageChange,
}

/// The layout of a HOBT's rows, and where the HOBT is stored.
#[derive(Debug)]
pub(crate) struct HobtRecord {
    pub(crate) hobt: HobtId,
    pub(crate) run_list: PageId,
    pub(crate) filegroup: FilegroupId,
    pub(crate) layout_version: u32,
    /// `None` for a heap.
    pub(crate) key: Option<TreeKey>,
    pub(crate) rows: RowLayout,
}

/// A decoded record of the storage.
#[derive(Debug)]
pub(crate) enum StorageRecord {
    Change(Box<ChangeRecord>),
    Note(Undo),
    Undone {
        compensates: Lsn,
        hobt: HobtId,
        rows: i64,
    },
    PendingFree {
        first: PageId,
        extents: u32,
    },
    Hobt(Box<HobtRecord>),
    Grow {
        file: FileId,
        pages: u32,
    },
    Checkpoint,
    /// Runs that loads fill past the log: a backup of the log has to copy them.
    Loading(Vec<(PageId, u32)>),
    /// Changes of a HOBT's pages.
    Together {
        hobt: HobtId,
        parts: Vec<(PageId, Vec<PageChange>)>,
    },
}

/// The runs that a record names which loads fill past the log: first pages and extents. Empty for every other record.
///
/// # Errors
/// The bytes are no such list.
pub fn runs_loaded_by(record: &hobt_log::Record) -> Result<Vec<(PageId, u32)>, EncodingDamage> {
    if record.kind != kind::LOADING {
        return Ok(Vec::new());
    }
    match StorageRecord::decode(record.kind, &record.payload)? {
        Some(StorageRecord::Loading(runs)) => Ok(runs),
        _ => Ok(Vec::new()),
    }
}

fn decode_loading(from: &mut EncodingReader<'_>) -> Result<Vec<(PageId, u32)>, EncodingDamage> {
    let mut runs = Vec::new();
    while !from.is_empty() {
        runs.push((from.page_id()?, from.u32()?));
    }
    Ok(runs)
}

/// The payload of a record of [`kind::LOADING`].
pub(crate) fn encode_loading(runs: &[(PageId, u32)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (first, extents) in runs {
        put_page(&mut out, *first);
        out.extend_from_slice(&extents.to_le_bytes());
    }
    out
}

fn put_page(out: &mut Vec<u8>, page: PageId) {
    out.extend_from_slice(&page.file.0.to_le_bytes());
    out.extend_from_slice(&page.number.to_le_bytes());
}

/// The bytes of a change's record without those of the change, which follow to the end.
pub(crate) struct ChangeHead<'a> {
    pub(crate) page: PageId,
    pub(crate) hobt: HobtId,
    pub(crate) commits: bool,
    pub(crate) compensates: Option<Lsn>,
    pub(crate) freed: Option<(PageId, u32)>,
    pub(crate) undo: Option<&'a Undo>,
    pub(crate) counts: bool,
    pub(crate) rows: i8,
}

impl ChangeHead<'_> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut flags = 0;
        for (is_set, bit) in [
            (self.commits, flag::COMMITS),
            (self.compensates.is_some(), flag::COMPENSATES),
            (self.undo.is_some(), flag::UNDO),
            (self.counts, flag::COUNTS),
            (self.rows > 0, flag::ROW_MORE),
            (self.rows < 0, flag::ROW_LESS),
            (self.freed.is_some(), flag::FREES),
        ] {
            flags |= if is_set { bit } else { 0 };
        }
        out.push(flags);
        put_page(out, self.page);
        out.extend_from_slice(&self.hobt.0.to_le_bytes());
        if let Some(lsn) = self.compensates {
            out.extend_from_slice(&lsn.0.to_le_bytes());
        }
        if let Some((first, extents)) = self.freed {
            put_page(out, first);
            out.extend_from_slice(&extents.to_le_bytes());
        }
        if let Some(undo) = self.undo {
            let at = out.len();
            out.extend_from_slice(&[0; 2]);
            undo.encode(out);
            let length = u16::try_from(out.len() - at - 2).expect("an undo is at most a page and a little");
            out[at..at + 2].copy_from_slice(&length.to_le_bytes());
        }
    }
}

impl Undo {
    /// Whether it undoes the change of a row: from its record, at run time as in recovery. All else is undone by an
    /// action of the statement at run time.
    pub(crate) fn is_of_row(&self) -> bool {
        match self {
            Undo::RemoveRow { .. }
            | Undo::RestoreRow { .. }
            | Undo::PutBack { .. }
            | Undo::RemoveKey { .. }
            | Undo::RestoreKey { .. }
            | Undo::ReplaceKey { .. } => true,
            Undo::FreeRun { .. }
            | Undo::Unpublish { .. }
            | Undo::Untruncate { .. }
            | Undo::RestorePage { .. }
            | Undo::Uncreate { .. } => false,
        }
    }

    /// The HOBT that it names; `None` if it changes that of its record, or none.
    pub(crate) fn hobt(&self) -> Option<HobtId> {
        match self {
            Undo::Unpublish { hobt, .. } | Undo::Untruncate { hobt, .. } | Undo::Uncreate { hobt } => Some(*hobt),
            _ => None,
        }
    }

    /// What a note of it says to recovery.
    pub(crate) fn effect_of_note(&self) -> RecordEffect {
        let hobt = self.hobt().unwrap_or_default();
        RecordEffect { hobt, is_structure: !self.is_of_row(), ..RecordEffect::default() }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Undo::RemoveRow { slot } => {
                out.push(1);
                out.extend_from_slice(&slot.0.to_le_bytes());
            }
            Undo::RestoreRow { slot } => {
                out.push(2);
                out.extend_from_slice(&slot.0.to_le_bytes());
            }
            Undo::FreeRun { first, extents } => {
                out.push(3);
                put_page(out, *first);
                out.extend_from_slice(&extents.to_le_bytes());
            }
            Undo::Unpublish { hobt, runs, until, rows } => {
                out.push(4);
                out.extend_from_slice(&hobt.0.to_le_bytes());
                out.extend_from_slice(&runs.to_le_bytes());
                out.extend_from_slice(&until.to_le_bytes());
                out.extend_from_slice(&rows.to_le_bytes());
            }
            Undo::Untruncate { hobt, rows, list_page } => {
                out.push(5);
                out.extend_from_slice(&hobt.0.to_le_bytes());
                out.extend_from_slice(&rows.to_le_bytes());
                PageChange::Image { bytes: list_page.clone() }.encode(out);
            }
            Undo::RemoveKey { key } => {
                out.push(6);
                put_key(out, key);
            }
            Undo::RestoreKey { key } => {
                out.push(7);
                put_key(out, key);
            }
            Undo::ReplaceKey { key, row } => {
                out.push(8);
                put_key(out, key);
                PageChange::ReplaceRow { slot: SlotId(0), row: row.clone(), writer: Stamp(0) }.encode(out);
            }
            Undo::RestorePage { bytes } => {
                out.push(9);
                PageChange::Image { bytes: bytes.clone() }.encode(out);
            }
            Undo::PutBack { slot, row } => {
                out.push(11);
                PageChange::ReplaceRow { slot: *slot, row: row.clone(), writer: Stamp(0) }.encode(out);
            }
            Undo::Uncreate { hobt } => {
                out.push(10);
                out.extend_from_slice(&hobt.0.to_le_bytes());
            }
        }
    }

    /// Appends the undo with the page that it is of.
    pub(crate) fn encode_of(&self, page: PageId, out: &mut Vec<u8>) {
        put_page(out, page);
        self.encode(out);
    }

    /// What [`Undo::encode_of`] has appended.
    pub(crate) fn decode_of(bytes: &[u8]) -> Result<(PageId, Undo), EncodingDamage> {
        let mut from = EncodingReader::new(bytes);
        Ok((from.page_id()?, Undo::decode(&mut from)?))
    }

    fn decode(from: &mut EncodingReader<'_>) -> Result<Undo, EncodingDamage> {
        Ok(match from.u8()? {
            1 => Undo::RemoveRow { slot: SlotId(from.u16()?) },
            2 => Undo::RestoreRow { slot: SlotId(from.u16()?) },
            3 => Undo::FreeRun { first: from.page_id()?, extents: from.u32()? },
            4 => {
                Undo::Unpublish { hobt: HobtId(from.u64()?), runs: from.u32()?, until: from.u32()?, rows: from.u64()? }
            }
            5 => {
                let (hobt, rows) = (HobtId(from.u64()?), from.u64()?);
                let PageChange::Image { bytes: list_page } = PageChange::decode(from.rest())? else {
                    return Err(EncodingDamage { rule: "the image of a run list" });
                };
                Undo::Untruncate { hobt, rows, list_page }
            }
            6 => Undo::RemoveKey { key: read_key(from)? },
            7 => Undo::RestoreKey { key: read_key(from)? },
            8 => {
                let key = read_key(from)?;
                let PageChange::ReplaceRow { row, .. } = PageChange::decode(from.rest())? else {
                    return Err(EncodingDamage { rule: "the row that was replaced" });
                };
                Undo::ReplaceKey { key, row }
            }
            9 => {
                let PageChange::Image { bytes } = PageChange::decode(from.rest())? else {
                    return Err(EncodingDamage { rule: "the image of a page" });
                };
                Undo::RestorePage { bytes }
            }
            10 => Undo::Uncreate { hobt: HobtId(from.u64()?) },
            11 => {
                let PageChange::ReplaceRow { slot, row, .. } = PageChange::decode(from.rest())? else {
                    return Err(EncodingDamage { rule: "the row that was replaced" });
                };
                Undo::PutBack { slot, row }
            }
            _ => return Err(EncodingDamage { rule: "the kind of an undo" }),
        })
    }
}

impl HobtRecord {
    pub(crate) fn encode(
        hobt: HobtId,
        run_list: PageId,
        filegroup: FilegroupId,
        layout_version: u32,
        key: Option<&TreeKey>,
        rows: &RowLayout,
    ) -> Vec<u8> {
        let mut out = hobt.0.to_le_bytes().to_vec();
        put_page(&mut out, run_list);
        out.extend_from_slice(&filegroup.0.to_le_bytes());
        out.extend_from_slice(&layout_version.to_le_bytes());
        match key {
            Some(key) => key.encode(&mut out),
            None => out.push(0),
        }
        rows.encode(&mut out);
        out
    }
}

fn put_key(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(&u16::try_from(key.len()).expect("keys are shorter than a page").to_le_bytes());
    out.extend_from_slice(key);
}

/// Encodes changes that are made together.
pub(crate) fn encode_together(hobt: HobtId, parts: &[(PageId, &[PageChange])]) -> Vec<u8> {
    let mut out = hobt.0.to_le_bytes().to_vec();
    out.push(u8::try_from(parts.len()).expect("a few pages"));
    for (page, changes) in parts {
        put_page(&mut out, *page);
        out.push(u8::try_from(changes.len()).expect("a few changes"));
        for change in *changes {
            let at = out.len();
            out.extend_from_slice(&[0; 4]);
            change.encode(&mut out);
            let length = u32::try_from(out.len() - at - 4).expect("a page and a little");
            out[at..at + 4].copy_from_slice(&length.to_le_bytes());
        }
    }
    out
}

fn decode_together(from: &mut EncodingReader<'_>) -> Result<StorageRecord, EncodingDamage> {
    let hobt = HobtId(from.u64()?);
    let mut parts = Vec::new();
    for _ in 0..from.u8()? {
        let page = from.page_id()?;
        let mut changes = Vec::new();
        for _ in 0..from.u8()? {
            let length = usize::try_from(from.u32()?).map_err(|_| EncodingDamage { rule: "a record's length" })?;
            changes.push(PageChange::decode(from.bytes(length)?)?);
        }
        parts.push((page, changes));
    }
    Ok(StorageRecord::Together { hobt, parts })
}

pub(crate) fn encode_free(first: PageId, extents: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(10);
    put_page(&mut out, first);
    out.extend_from_slice(&extents.to_le_bytes());
    out
}

pub(crate) fn encode_grow(file: FileId, pages: u32) -> Vec<u8> {
    let mut out = file.0.to_le_bytes().to_vec();
    out.extend_from_slice(&pages.to_le_bytes());
    out
}

pub(crate) fn encode_undone(compensates: Lsn, hobt: HobtId, rows: i64) -> Vec<u8> {
    let mut out = compensates.0.to_le_bytes().to_vec();
    out.extend_from_slice(&hobt.0.to_le_bytes());
    out.extend_from_slice(&rows.to_le_bytes());
    out
}

impl ChangeRecord {
    fn effect(&self) -> RecordEffect {
        RecordEffect {
            hobt: if self.undo.is_some() { self.hobt } else { HobtId(0) },
            is_structure: self.undo.as_ref().is_some_and(|undo| !undo.is_of_row()),
            compensates: self.compensates,
            defers: None,
            frees: self.freed,
            commits: self.commits,
        }
    }
}

impl StorageRecord {
    /// What it says of its transaction to recovery.
    pub(crate) fn effect(&self) -> RecordEffect {
        let none = RecordEffect::default();
        match self {
            StorageRecord::Change(change) => change.effect(),
            StorageRecord::Note(undo) => undo.effect_of_note(),
            StorageRecord::Undone { compensates, .. } => RecordEffect { compensates: Some(*compensates), ..none },
            StorageRecord::PendingFree { first, extents } => RecordEffect { defers: Some((*first, *extents)), ..none },
            StorageRecord::Hobt(_)
            | StorageRecord::Grow { .. }
            | StorageRecord::Checkpoint
            | StorageRecord::Loading(_)
            | StorageRecord::Together { .. } => none,
        }
    }

    /// Decodes a record of `kind`, one of [`kind`]; `None` for other kinds.
    pub(crate) fn decode(kind: u8, payload: &[u8]) -> Result<Option<StorageRecord>, EncodingDamage> {
        let mut from = EncodingReader::new(payload);
        let record = match kind {
            kind::CHANGE => StorageRecord::Change(Box::new(ChangeRecord::decode(&mut from)?)),
            kind::NOTE => StorageRecord::Note(Undo::decode(&mut from)?),
            kind::UNDONE => StorageRecord::Undone {
                compensates: Lsn(from.u64()?),
                hobt: HobtId(from.u64()?),
                rows: from.u64()?.cast_signed(),
            },
            kind::PENDING_FREE => StorageRecord::PendingFree { first: from.page_id()?, extents: from.u32()? },
            kind::HOBT => StorageRecord::Hobt(Box::new(HobtRecord {
                hobt: HobtId(from.u64()?),
                run_list: from.page_id()?,
                filegroup: FilegroupId(from.u16()?),
                layout_version: from.u32()?,
                key: TreeKey::decode(&mut from)?,
                rows: RowLayout::decode(from.rest())?,
            })),
            kind::GROW => StorageRecord::Grow { file: FileId(from.u16()?), pages: from.u32()? },
            kind::CHECKPOINT => StorageRecord::Checkpoint,
            kind::TOGETHER => decode_together(&mut from)?,
            kind::LOADING => StorageRecord::Loading(decode_loading(&mut from)?),
            _ => return Ok(None),
        };
        if from.is_empty() { Ok(Some(record)) } else { Err(EncodingDamage { rule: "bytes behind a record's end" }) }
    }
}

impl ChangeRecord {
    fn decode(from: &mut EncodingReader<'_>) -> Result<ChangeRecord, EncodingDamage> {
        let flags = from.u8()?;
        let both = flag::ROW_MORE | flag::ROW_LESS;
        if flags & !flag::ALL != 0 || flags & both == both {
            return Err(EncodingDamage { rule: "the flags of a change" });
        }
        let is_set = |bit| flags & bit != 0;
        let (page, hobt) = (from.page_id()?, HobtId(from.u64()?));
        let compensates = if is_set(flag::COMPENSATES) { Some(Lsn(from.u64()?)) } else { None };
        let freed = if is_set(flag::FREES) { Some((from.page_id()?, from.u32()?)) } else { None };
        let undo_bytes = if is_set(flag::UNDO) { usize::from(from.u16()?) } else { 0 };
        let undo = match is_set(flag::UNDO) {
            true => {
                let mut own = EncodingReader::new(from.bytes(undo_bytes)?);
                let undo = Undo::decode(&mut own)?;
                if !own.is_empty() {
                    return Err(EncodingDamage { rule: "bytes behind an undo's end" });
                }
                Some(undo)
            }
            false => None,
        };
        Ok(ChangeRecord {
            page,
            hobt,
            commits: is_set(flag::COMMITS),
            compensates,
            freed,
            undo,
            undo_bytes,
            counts: is_set(flag::COUNTS),
            rows: i8::from(is_set(flag::ROW_MORE)) - i8::from(is_set(flag::ROW_LESS)),
            change: PageChange::decode(from.rest())?,
        })
    }
}

/// A key behind its length.
fn read_key(from: &mut EncodingReader<'_>) -> Result<Vec<u8>, EncodingDamage> {
    let length = usize::from(from.u16()?);
    from.bytes(length).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hobt_base::PAGE_SIZE;

    fn changes() -> Vec<(u8, Vec<u8>, StorageRecord)> {
        let page = PageId::new(FileId(3), 99);
        let mut list_page = Box::new([0; PAGE_SIZE]);
        list_page[77] = 7;
        let undos = [
            None,
            Some(Undo::RemoveRow { slot: SlotId(5) }),
            Some(Undo::RestoreRow { slot: SlotId(900) }),
            Some(Undo::FreeRun { first: page, extents: 12 }),
            Some(Undo::Unpublish { hobt: HobtId(7), runs: 3, until: 5, rows: 1 << 40 }),
            Some(Undo::Untruncate { hobt: HobtId(7), rows: 9, list_page: list_page.clone() }),
            Some(Undo::RemoveKey { key: vec![1, 2, 3] }),
            Some(Undo::RestoreKey { key: vec![9] }),
            Some(Undo::ReplaceKey { key: vec![7; 300], row: RowImage::new([Some(&[1, 2][..]), None]) }),
            Some(Undo::RestorePage { bytes: list_page }),
        ];
        let mut all = Vec::new();
        for (index, undo) in undos.into_iter().enumerate() {
            let change = PageChange::Write { offset: 200, bytes: vec![1, 2, 3] };
            let rows = [0, 1, -1][index % 3];
            let compensates = (index % 2 == 0).then_some(Lsn(index as u64 * 8));
            let (commits, counts) = (index == 4, index == 2);
            let (hobt, freed) = (HobtId(7), (index == 1).then_some((page, 3)));
            let head = ChangeHead { page, hobt, commits, compensates, freed, undo: undo.as_ref(), counts, rows };
            let mut bytes = Vec::new();
            head.encode(&mut bytes);
            change.encode(&mut bytes);
            let mut undo_bytes = 0;
            if let Some(undo) = &undo {
                let mut note = Vec::new();
                undo.encode(&mut note);
                undo_bytes = note.len();
                all.push((kind::NOTE, note, StorageRecord::Note(undo.clone())));
            }
            let record =
                ChangeRecord { page, hobt, commits, compensates, freed, undo, undo_bytes, counts, rows, change };
            all.push((kind::CHANGE, bytes, StorageRecord::Change(Box::new(record))));
        }
        all.push((kind::GROW, encode_grow(FileId(2), 8), StorageRecord::Grow { file: FileId(2), pages: 8 }));
        all.push((kind::PENDING_FREE, encode_free(page, 8), StorageRecord::PendingFree { first: page, extents: 8 }));
        let undone = StorageRecord::Undone { compensates: Lsn(64), hobt: HobtId(5), rows: -3 };
        all.push((kind::UNDONE, encode_undone(Lsn(64), HobtId(5), -3), undone));
        let write = |offset| PageChange::Write { offset, bytes: vec![5; 30] };
        let parts = vec![(page, vec![write(100), write(200)]), (PageId::new(FileId(1), 7), vec![write(300)])];
        let borrowed: Vec<_> = parts.iter().map(|(page, changes)| (*page, &changes[..])).collect();
        let bytes = encode_together(HobtId(5), &borrowed);
        all.push((kind::TOGETHER, bytes, StorageRecord::Together { hobt: HobtId(5), parts }));
        all
    }

    #[test]
    fn runs_that_are_loaded_come_back() {
        let runs = vec![(PageId::new(FileId(3), 80), 12), (PageId::new(FileId(1), 8), 1)];
        let record = |kind, payload| hobt_log::Record {
            lsn: Lsn(8),
            end: Lsn(80),
            kind,
            transaction: 0,
            previous: Lsn(0),
            payload,
        };
        let payload = encode_loading(&runs);
        assert_eq!(runs_loaded_by(&record(kind::LOADING, payload.clone())), Ok(runs));
        assert_eq!(runs_loaded_by(&record(kind::GROW, payload.clone())), Ok(Vec::new()));
        assert!(runs_loaded_by(&record(kind::LOADING, payload[..15].to_vec())).is_err());
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        for (kind, bytes, record) in changes() {
            let decoded = StorageRecord::decode(kind, &bytes).expect("it was encoded");
            assert_eq!(format!("{decoded:?}"), format!("{:?}", Some(record)));
        }
    }

    #[test]
    fn bytes_that_are_cut_or_longer_are_refused() {
        for (kind, bytes, _) in changes() {
            for cut in 0..bytes.len() {
                let cut_short = StorageRecord::decode(kind, &bytes[..cut]);
                // Bytes of a page's change may end anywhere.
                assert!(cut_short.is_err() || kind == super::kind::CHANGE, "{kind} at {cut}");
            }
            let mut longer = bytes.clone();
            longer.push(0);
            assert!(StorageRecord::decode(kind, &longer).is_err() || kind == super::kind::CHANGE, "{kind}");
        }
    }
}
