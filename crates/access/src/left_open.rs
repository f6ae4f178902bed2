//! Transactions that a crash has left open and whose undo can wait until the database is open: they have changed
//! nothing but rows of users' heaps and trees. `docs/design/0044-undo-behind-the-opening.md`.
//!
//! Such an undo needs room in the log that the work of others must leave to it. [`UndoEstimate`] adds up, while
//! recovery reads a transaction's records, what a running transaction would have reserved by now: a record for each
//! row, the image of each page (a checkpoint begins at the opening), and splits of leaves that rows must fit into
//! again.
//!
//! Left to others: the locks that keep others away, the thread (crate `engine`), the walk (crate `txn`).

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use hobt_base::{HobtId, Lsn, PAGE_SIZE, PageId};
use hobt_log::Record;
use hobt_page::PageChange;
use hobt_txn::LogChain;

use crate::btree::undo_split_bytes;
use crate::change::{IMAGE_BYTES, row_undo_bytes};
use crate::log_record::{ChangeRecord, Undo};
use crate::recovery::KnownHobt;
use crate::undo::ChangedStores;
use crate::{RowStore, Storage};

/// A transaction that a crash has left open and that has changed only rows of users' heaps and trees.
#[derive(Debug)]
pub struct OpenTransaction {
    pub(crate) storage: Arc<Storage>,
    pub(crate) chain: Arc<LogChain>,
    pub(crate) hobts: BTreeSet<HobtId>,
    pub(crate) undo_bytes: u64,
    /// What recovery reserves for an undo with the log to itself.
    pub(crate) undo_bytes_alone: u64,
}

impl OpenTransaction {
    /// The heaps and trees that it has changed. Some may not exist any more: what was changed there is undone.
    pub fn hobts(&self) -> impl Iterator<Item = HobtId> {
        self.hobts.iter().copied()
    }

    /// About how many bytes of log its undo appends, at most.
    pub fn undo_bytes(&self) -> u64 {
        self.undo_bytes
    }

    /// Reserves room in their log, so that all of them can be undone while others work. Returns whether there is room;
    /// if not, nothing is reserved.
    pub fn reserve(all: &[OpenTransaction]) -> bool {
        let each: Vec<_> = all.iter().map(|open| (&*open.chain, open.undo_bytes)).collect();
        LogChain::reserve_behind_opening(&each)
    }

    /// Reserves what its undo appends when it has the log to itself, as far as there is room.
    pub fn reserve_alone(&self) {
        self.chain.log().log().release(self.chain.reservation());
        self.chain.reserve_up_to(self.undo_bytes_alone);
    }

    /// Its chain, to be undone in these heaps and trees: those of [`OpenTransaction::hobts`] that exist.
    pub fn undone_in(self, stores: Vec<RowStore>) -> Arc<LogChain> {
        ChangedStores::note_recovered(&self.storage, &self.chain, stores);
        self.chain
    }
}

/// Bytes of records after which the sum is noted.
const STRETCH_BYTES: u64 = 64 << 10;

/// What the undo of the changes of rows will append that a transaction has made and not undone.
#[derive(Debug, Default)]
pub(crate) struct UndoEstimate {
    /// What a checkpoint has written down, without what was undone of that since.
    base_bytes: u64,
    /// Where it was written down.
    base_at: Lsn,
    bytes: u64,
    /// Pages whose images are in the sum.
    pages: HashSet<PageId>,
    /// Leaves with rows that got shorter.
    leaves: HashSet<PageId>,
    /// Sums at earlier positions: a rollback that was under way, or of a savepoint, returns to one of them.
    stretches: Vec<Stretch>,
}

/// A part of a transaction's records.
#[derive(Debug)]
struct Stretch {
    from: Lsn,
    /// The sum before it.
    bytes_before: u64,
    /// What was added to the sets in it.
    pages: Vec<PageId>,
    leaves: Vec<PageId>,
}

impl UndoEstimate {
    /// The sum that a checkpoint has written down at `at`.
    pub(crate) fn from(at: Lsn, bytes: u64) -> UndoEstimate {
        UndoEstimate { base_bytes: bytes, base_at: at, ..UndoEstimate::default() }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.base_bytes + self.bytes
    }

    /// Adds the change of a row.
    pub(crate) fn add(&mut self, record: &Record, change: &ChangeRecord, hobt: Option<&KnownHobt>) {
        let is_due = self.stretches.last().is_none_or(|last| record.lsn.0 >= last.from.0 + STRETCH_BYTES);
        if is_due {
            let (pages, leaves) = Default::default();
            self.stretches.push(Stretch { from: record.lsn, bytes_before: self.bytes, pages, leaves });
        }
        let stretch = self.stretches.last_mut().expect("there is one now");
        self.bytes += row_undo_bytes(change.undo_bytes) as u64;
        if self.pages.insert(change.page) {
            stretch.pages.push(change.page);
            self.bytes += IMAGE_BYTES as u64;
        }
        let room = hobt.map_or(0, |hobt| room_given_up(change, hobt));
        if room > 0 {
            let is_first = self.leaves.insert(change.page);
            if is_first {
                stretch.leaves.push(change.page);
            }
            self.bytes += undo_split_bytes(room, is_first) as u64;
        }
    }

    /// Notes that all changes of rows from the record at `lsn` on are undone, by one that appended `bytes`. Up to a
    /// stretch of those before stays in the sum once more than it should.
    pub(crate) fn undone_from(&mut self, lsn: Lsn, bytes: u64) {
        if lsn < self.base_at {
            // As a reservation is used up.
            self.base_bytes = self.base_bytes.saturating_sub(bytes);
        }
        while let Some(last) = self.stretches.pop_if(|last| last.from >= lsn) {
            self.bytes = last.bytes_before;
            for page in &last.pages {
                self.pages.remove(page);
            }
            for leaf in &last.leaves {
                self.leaves.remove(leaf);
            }
        }
    }
}

/// Bytes of a record of a change. Of an image those that it does not have: the page needs one more after a checkpoint.
pub(crate) fn bytes_without_image(record: &Record, change: &ChangeRecord) -> u64 {
    let image = if let PageChange::Image { .. } = change.change { PAGE_SIZE as u64 } else { 0 };
    (record.end.0 - record.lsn.0).saturating_sub(image)
}

/// By how many bytes a row of a tree got shorter.
fn room_given_up(change: &ChangeRecord, hobt: &KnownHobt) -> usize {
    let (Some(Undo::ReplaceKey { key, row }), Some(tree_key)) = (&change.undo, &hobt.key) else { return 0 };
    let before = row.variable_bytes(&hobt.rows);
    let now = match &change.change {
        PageChange::ReplaceRow { row, .. } => row.variable_bytes(&hobt.rows),
        // Nothing of a row that is not found is there.
        PageChange::Image { bytes } if before > 0 => {
            tree_key.row_of(bytes, &hobt.rows, key).ok().flatten().map_or(0, |row| row.variable_bytes(&hobt.rows))
        }
        _ => before,
    };
    before.saturating_sub(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hobt_base::SlotId;

    /// An insert in `page`, whose record takes `bytes` of log.
    fn add(estimate: &mut UndoEstimate, lsn: u64, bytes: u64, page: u32) {
        let (page, slot) = (PageId { number: page, ..PageId::default() }, SlotId(0));
        let record = Record {
            lsn: Lsn(lsn),
            end: Lsn(lsn + bytes),
            kind: 0,
            transaction: 7,
            previous: Lsn(0),
            payload: Vec::new(),
        };
        let change = ChangeRecord {
            page,
            hobt: HobtId(1),
            commits: false,
            compensates: None,
            freed: None,
            undo: Some(Undo::RemoveRow { slot }),
            undo_bytes: 3,
            counts: false,
            rows: 1,
            change: PageChange::SetDeleted { slot, deleted: true, writer: hobt_base::Stamp(7) },
        };
        estimate.add(&record, &change, None);
    }

    /// The sum never falls below what is left to undo, and exceeds it by a stretch and its pages at most.
    #[test]
    fn what_is_undone_leaves_the_sum() {
        const RECORD: u64 = 1 << 10;
        let least = |records: u64| records * row_undo_bytes(3) as u64 + records.div_ceil(8) * IMAGE_BYTES as u64;
        let mut estimate = UndoEstimate::default();
        let page_of = |at: u64| u32::try_from(at / 8).expect("few");
        (0..1000).for_each(|at| add(&mut estimate, (at + 1) * RECORD, RECORD, page_of(at)));
        assert_eq!(estimate.bytes(), least(1000));
        for left in (0..1000).rev() {
            estimate.undone_from(Lsn((left + 1) * RECORD), RECORD);
            let more = estimate.bytes() - least(left);
            assert!(more <= least(STRETCH_BYTES / RECORD + 8), "{left}: {more}");
        }
        assert_eq!(estimate.bytes(), 0);
        // Of what a checkpoint has written down, what is undone uses as much as it appends.
        let mut written = UndoEstimate::from(Lsn(2000 * RECORD), 10 * RECORD);
        add(&mut written, 2001 * RECORD, RECORD, 1);
        written.undone_from(Lsn(2001 * RECORD), RECORD);
        assert_eq!(written.bytes(), 10 * RECORD);
        written.undone_from(Lsn(1999 * RECORD), RECORD);
        assert_eq!(written.bytes(), 9 * RECORD);
        // Pages that are changed again are counted again.
        (0..1000).for_each(|at| add(&mut estimate, (at + 3000) * RECORD, RECORD, page_of(at)));
        assert_eq!(estimate.bytes(), least(1000));
    }
}
