//! Redo of single pages, apart from their database: what a restore of pages does with each piece of the log.
//!
//! A page has its copy from a backup. Every change behind the copy's own position is made again, as redo does, by the
//! layout that the log gave last for its HOBT. Layouts are kept with the pages, because the log comes in pieces: a
//! record that describes a HOBT may be in an earlier piece than the change that needs it.
//!
//! What is not in the log cannot be redone. A load may fill the pages of a run that it has allocated past the log. So a
//! page of a run that was allocated behind the page's position counts as *missing*, until the log has the whole page or
//! a backup of the log brings a copy. Where the log names each run that loads fill past it, a missing page of any other
//! run was never written: it has no content that could be lost.
//!
//! Left to others: where copies and records come from, and where the pages go (crate `engine`).

use std::collections::BTreeMap;
use std::sync::Arc;

use hobt_base::{EXTENT_PAGES, HobtId, Lsn, PAGE_SIZE, PageId};
use hobt_log::Record;
use hobt_page::{EncodingReader, INTERVAL_PAGES, MAP_PAGE_IN_INTERVAL, PageBytes, PageHeader, RowLayout, seal};

use crate::AccessError;
use crate::log_record::{ChangeRecord, StorageRecord, Undo, kind};
use crate::redo::{page_of_change, redo_changes, stand_alone};
use crate::undo::not_decoded;

/// Pages that are brought up to date by the log, and the layouts that this needs.
#[derive(Default)]
pub struct RolledPages {
    pages: BTreeMap<PageId, RolledPage>,
    /// The last description of each HOBT: the record's payload, and the layout in it.
    layouts: BTreeMap<HobtId, (Vec<u8>, Arc<RowLayout>)>,
}

struct RolledPage {
    bytes: Box<PageBytes>,
    /// The record that allocated its run, if its content since is not known. 0 if it is.
    missing_since: Lsn,
    /// The log names the run since: a load fills it past the log.
    is_loaded: bool,
}

impl RolledPage {
    /// Its content is known again.
    fn set_known(&mut self) {
        (self.missing_since, self.is_loaded) = (Lsn(0), false);
    }
}

impl std::fmt::Debug for RolledPages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RolledPages").field("pages", &self.pages.len()).finish_non_exhaustive()
    }
}

impl RolledPages {
    /// Takes a page as a backup of the data has it, in place of an earlier copy.
    pub fn put(&mut self, id: PageId, bytes: Box<PageBytes>) {
        self.pages.insert(id, RolledPage { bytes, missing_since: Lsn(0), is_loaded: false });
    }

    /// Takes a page as a backup of the log has it that a load has filled past the log, if it is newer.
    pub fn offer(&mut self, id: PageId, bytes: &PageBytes) {
        let Some(page) = self.pages.get_mut(&id) else { return };
        if PageHeader::lsn_of(bytes) > PageHeader::lsn_of(&page.bytes) {
            page.bytes.copy_from_slice(bytes);
            if PageHeader::lsn_of(bytes) >= page.missing_since {
                page.set_known();
            }
        }
    }

    /// Takes the pages of another one, whose layouts are of a later position. If both have a page, that of the other
    /// one is taken if it `wins`.
    pub fn add(&mut self, other: RolledPages, wins: bool) {
        for (id, page) in other.pages {
            if wins || !self.pages.contains_key(&id) {
                self.pages.insert(id, page);
            }
        }
    }

    /// Whether it has this page.
    pub fn has(&self, id: PageId) -> bool {
        self.pages.contains_key(&id)
    }

    /// The pages, in order.
    pub fn ids(&self) -> impl Iterator<Item = PageId> {
        self.pages.keys().copied()
    }

    /// A page whose content the log does not have, if there is one. `names_loads` tells whether the log names every run
    /// that loads have filled past it.
    pub fn missing(&self, names_loads: bool) -> Option<PageId> {
        let is_lost = |page: &RolledPage| page.missing_since > Lsn(0) && (page.is_loaded || !names_loads);
        self.pages.iter().find(|(_, page)| is_lost(page)).map(|(id, _)| *id)
    }

    /// A page with its checksum, as it goes to its file.
    pub fn sealed(&self, id: PageId) -> Option<Box<PageBytes>> {
        let mut bytes = self.pages.get(&id)?.bytes.clone();
        // A page that was never formatted is all zeros, and has no checksum.
        if bytes.iter().any(|byte| *byte != 0) {
            seal(&mut bytes);
        }
        Some(bytes)
    }

    /// Redoes what a record has changed in these pages. Records come in the order of the log, from where analysis
    /// begins for the first copy; those that a page has already change nothing.
    ///
    /// # Errors
    /// The record is malformed, or does not fit its page.
    pub fn redo(&mut self, record: &Record) -> Result<(), AccessError> {
        let is_map = |id: PageId| id.number % INTERVAL_PAGES == MAP_PAGE_IN_INTERVAL;
        let is_wanted = match record.kind {
            kind::CHANGE => {
                let id = page_of_change(record);
                is_map(id) || self.pages.contains_key(&id)
            }
            kind::HOBT | kind::TOGETHER | kind::LOADING => true,
            _ => false,
        };
        if !is_wanted {
            return Ok(());
        }
        let decoded = StorageRecord::decode(record.kind, &record.payload);
        match decoded.map_err(|damage| not_decoded(record, damage))? {
            Some(StorageRecord::Hobt(hobt)) => {
                self.layouts.insert(hobt.hobt, (record.payload.clone(), Arc::new(hobt.rows)));
                Ok(())
            }
            Some(StorageRecord::Change(change)) => self.redo_change(record.lsn, &change),
            Some(StorageRecord::Loading(runs)) => {
                for (first, extents) in runs {
                    self.in_run_mut(first, extents).for_each(|page| page.is_loaded = page.missing_since > Lsn(0));
                }
                Ok(())
            }
            Some(StorageRecord::Together { hobt, parts }) => {
                parts.iter().try_for_each(|(page, changes)| self.redo_page(record.lsn, *page, hobt, changes))
            }
            _ => Ok(()),
        }
    }

    fn redo_change(&mut self, lsn: Lsn, change: &ChangeRecord) -> Result<(), AccessError> {
        if let Some(Undo::FreeRun { first, extents }) = change.undo {
            for page in self.in_run_mut(first, extents).filter(|page| PageHeader::lsn_of(&page.bytes) < lsn) {
                (page.missing_since, page.is_loaded) = (lsn, false);
            }
        }
        self.redo_page(lsn, change.page, change.hobt, std::slice::from_ref(&change.change))
    }

    fn redo_page(
        &mut self,
        lsn: Lsn,
        id: PageId,
        hobt: HobtId,
        changes: &[hobt_page::PageChange],
    ) -> Result<(), AccessError> {
        let Some(page) = self.pages.get_mut(&id) else { return Ok(()) };
        let stands_alone = stand_alone(changes);
        if PageHeader::lsn_of(&page.bytes) >= lsn || (page.missing_since > Lsn(0) && !stands_alone) {
            return Ok(());
        }
        let layout = self.layouts.get(&hobt).map(|(_, layout)| &**layout);
        let damaged = |damage| AccessError::Damaged { file: String::new(), page: id, damage };
        redo_changes(&mut page.bytes, layout, changes).map_err(damaged)?;
        PageHeader::stamp_lsn(&mut page.bytes, lsn);
        if stands_alone {
            page.set_known();
        }
        Ok(())
    }

    /// Those of a run.
    fn in_run_mut(&mut self, first: PageId, extents: u32) -> impl Iterator<Item = &mut RolledPage> {
        let end = PageId::new(first.file, first.number.saturating_add(extents.saturating_mul(EXTENT_PAGES)));
        self.pages.range_mut(first..end).map(|(_, page)| page)
    }

    /// Everything as bytes, for [`RolledPages::decode`].
    ///
    /// ```text
    /// pages u32 | for each: file u16 | number u32 | missing since u64 | is loaded u8 | the page
    /// layouts u32 | for each: bytes u32 | the payload of the record
    /// ```
    pub fn encode(&self) -> Vec<u8> {
        let count = |number: usize| u32::try_from(number).expect("pages and HOBTs of one database").to_le_bytes();
        let mut out = Vec::with_capacity(self.pages.len() * (PAGE_SIZE + 15) + 8);
        out.extend_from_slice(&count(self.pages.len()));
        for (id, page) in &self.pages {
            out.extend_from_slice(&id.file.0.to_le_bytes());
            out.extend_from_slice(&id.number.to_le_bytes());
            out.extend_from_slice(&page.missing_since.0.to_le_bytes());
            out.push(u8::from(page.is_loaded));
            out.extend_from_slice(&page.bytes[..]);
        }
        out.extend_from_slice(&count(self.layouts.len()));
        for (payload, _) in self.layouts.values() {
            out.extend_from_slice(&count(payload.len()));
            out.extend_from_slice(payload);
        }
        out
    }

    /// What [`RolledPages::encode`] has written; `None` if the bytes are something else.
    pub fn decode(bytes: &[u8]) -> Option<RolledPages> {
        let mut from = EncodingReader::new(bytes);
        let mut rolled = RolledPages::default();
        for _ in 0..from.u32().ok()? {
            let (id, missing_since) = (from.page_id().ok()?, Lsn(from.u64().ok()?));
            let is_loaded = from.u8().ok()? != 0;
            let bytes: &PageBytes = from.bytes(PAGE_SIZE).ok()?.try_into().ok()?;
            rolled.pages.insert(id, RolledPage { bytes: Box::new(*bytes), missing_since, is_loaded });
        }
        for _ in 0..from.u32().ok()? {
            let length = from.u32().ok()? as usize;
            let payload = from.bytes(length).ok()?;
            match StorageRecord::decode(kind::HOBT, payload) {
                Ok(Some(StorageRecord::Hobt(hobt))) => {
                    rolled.layouts.insert(hobt.hobt, (payload.to_vec(), Arc::new(hobt.rows)));
                }
                _ => return None,
            }
        }
        from.is_empty().then_some(rolled)
    }
}

#[cfg(test)]
mod tests {
    use hobt_base::FileId;
    use hobt_page::{PageChange, PageType};

    use super::*;
    use crate::log_record::ChangeHead;

    fn id(number: u32) -> PageId {
        PageId::new(FileId(1), number)
    }

    fn record(lsn: u64, page: PageId, undo: Option<&Undo>, change: &PageChange) -> Record {
        let mut payload = Vec::new();
        let head = ChangeHead {
            page,
            hobt: HobtId(0),
            commits: false,
            compensates: None,
            freed: None,
            undo,
            counts: false,
            rows: 0,
        };
        head.encode(&mut payload);
        change.encode(&mut payload);
        Record { lsn: Lsn(lsn), end: Lsn(lsn + 8), kind: kind::CHANGE, transaction: 0, previous: Lsn(0), payload }
    }

    fn page(number: u32, lsn: u64) -> Box<PageBytes> {
        let mut bytes = Box::new([0; PAGE_SIZE]);
        PageHeader::new(PageType::LargeValue, id(number), 7, HobtId(5)).write(&mut bytes);
        PageHeader::stamp_lsn(&mut bytes, Lsn(lsn));
        bytes
    }

    fn write(byte: u8) -> PageChange {
        PageChange::Write { offset: 4000, bytes: vec![byte] }
    }

    /// Only what is behind a page's own position is done again, once, and it survives being written down.
    #[test]
    fn each_page_takes_what_is_behind_its_position() {
        let mut rolled = RolledPages::default();
        rolled.put(id(20), page(20, 50));
        rolled.put(id(21), page(21, 80));
        for lsn in [40, 60, 90] {
            rolled.redo(&record(lsn, id(20), None, &write(lsn as u8))).expect("fits");
            rolled.redo(&record(lsn, id(22), None, &write(1))).expect("not its page");
        }
        rolled.redo(&record(70, id(21), None, &write(70))).expect("older than the page");
        let again = RolledPages::decode(&rolled.encode()).expect("what was encoded");
        let byte = |number| again.sealed(id(number)).expect("a page")[4000];
        assert_eq!((byte(20), byte(21)), (90, 0));
        assert_eq!(again.ids().collect::<Vec<_>>(), [id(20), id(21)]);
        let cut = rolled.encode();
        assert!((0..cut.len()).step_by(97).all(|end| RolledPages::decode(&cut[..end]).is_none()));
    }

    /// A run is allocated behind the copy: what a load writes there may not be in the log. The whole page in the log,
    /// or a copy in a backup of the log, makes it known again.
    #[test]
    fn a_page_of_a_run_that_was_allocated_since_is_missing() {
        let map = id(MAP_PAGE_IN_INTERVAL);
        let undo = Undo::FreeRun { first: id(16), extents: 2 };
        let allocate = |lsn| record(lsn, map, Some(&undo), &write(1));
        let mut rolled = RolledPages::default();
        (16..19).for_each(|number| rolled.put(id(number), page(number, 50)));
        rolled.redo(&allocate(40)).expect("older than the copies");
        assert_eq!(rolled.missing(false), None);
        rolled.redo(&allocate(60)).expect("noted");
        assert_eq!((rolled.missing(false), rolled.missing(true)), (Some(id(16)), None));
        let payload = crate::log_record::encode_loading(&[(id(16), 2)]);
        let loading = Record { kind: kind::LOADING, payload, ..record(62, map, None, &write(1)) };
        rolled.redo(&loading).expect("noted");
        assert_eq!(rolled.missing(true), Some(id(16)), "a load has begun to fill it");
        rolled = RolledPages::decode(&rolled.encode()).expect("what was encoded");
        rolled.redo(&record(70, id(16), None, &write(9))).expect("nothing to change");
        assert_eq!(rolled.missing(true), Some(id(16)));
        rolled.redo(&record(80, id(16), None, &PageChange::Image { bytes: page(16, 50) })).expect("all of it");
        rolled.offer(id(17), &page(17, 60));
        rolled.offer(id(18), &page(18, 55));
        assert_eq!(rolled.missing(true), Some(id(18)), "the copy is of before");
    }
}
