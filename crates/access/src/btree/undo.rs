//! Undo of row changes, by key: a split may have moved a row to another page since.
//!
//! An inserted row is deleted, and leaves a ghost. A deleted row is still a ghost and is revived. A replaced row gets
//! its old values back, for which its page may have to be split. At run time the rollback calls this, after a crash
//! recovery does.

use std::sync::Arc;

use hobt_base::{Lsn, SlotId, Stamp};
use hobt_page::{PageChange, PageHeader, RowImage};
use hobt_txn::LogChain;

use super::BTree;
use super::split::Wanted;
use crate::AccessError;
use crate::change::Logged;

/// A change of a row.
#[derive(Debug)]
pub(crate) enum KeyChange {
    Inserted {
        key: Vec<u8>,
    },
    Deleted {
        key: Vec<u8>,
    },
    /// The old row, deleted or not.
    Replaced {
        key: Vec<u8>,
        row: RowImage,
    },
}

impl KeyChange {
    fn key(&self) -> &[u8] {
        match self {
            KeyChange::Inserted { key } | KeyChange::Deleted { key } | KeyChange::Replaced { key, .. } => key,
        }
    }

    /// By how many rows it changed the count.
    pub(crate) fn rows(&self) -> i64 {
        match self {
            KeyChange::Inserted { .. } => 1,
            KeyChange::Deleted { .. } => -1,
            KeyChange::Replaced { .. } => 0,
        }
    }
}

impl BTree {
    /// Undoes the change of the record at `lsn`, made by `writer`.
    ///
    /// # Errors
    /// A page is damaged or cannot be read, or there is no room for the old row: the tree is then inconsistent.
    pub(crate) fn undo_change(
        &self,
        chain: Option<&Arc<LogChain>>,
        lsn: Lsn,
        done: &KeyChange,
        writer: Stamp,
    ) -> Result<(), AccessError> {
        while !self.try_undo(chain, lsn, done, writer)? {
            let KeyChange::Replaced { key, row } = done else { unreachable!("a bit has room") };
            let divided = self.split(self.write_path(key)?, Wanted { key, row }, chain, None)?;
            assert!(divided, "the whole path begins with room for an entry, or with the root");
        }
        Ok(())
    }

    /// Tries the undo; returns whether there was room.
    fn try_undo(
        &self,
        chain: Option<&Arc<LogChain>>,
        lsn: Lsn,
        done: &KeyChange,
        writer: Stamp,
    ) -> Result<bool, AccessError> {
        self.hobt.storage().versions().make_room_to_undo();
        let mut step = self.write_leaf(done.key())?;
        let view = self.leaf(step.id, &step.page)?;
        let Ok(position) = self.find_in(step.id, &view, done.key())? else {
            return Err(self.damaged(step.id, "a row that is to be undone"));
        };
        let index = view.slot_at(position).map_err(|damage| self.hobt.damaged(step.id, damage))?;
        let slot = SlotId(u16::try_from(index).expect("a slot of the page"));
        let is_deleted = view.is_deleted(index);
        let header = PageHeader::read(&step.page).map_err(|damage| self.hobt.damaged(step.id, damage))?;
        // The newest writer stays, see `newest_writer`.
        let newest = header.newest_writer;
        let (change, expected) = match done {
            KeyChange::Inserted { .. } => (PageChange::SetDeleted { slot, deleted: true, writer: newest }, Some(false)),
            KeyChange::Deleted { .. } => (PageChange::SetDeleted { slot, deleted: false, writer: newest }, Some(true)),
            KeyChange::Replaced { row, .. } => {
                (PageChange::ReplaceRow { slot, row: row.clone(), writer: newest }, None)
            }
        };
        if expected.is_some_and(|expected| expected != is_deleted) {
            return Err(self.damaged(step.id, "the deleted bit of a row that is to be undone"));
        }
        let rows = -done.rows();
        let _counting = self.hobt.begin_counting();
        let logged = Logged::of(chain).undoing_row(lsn).rows(i8::try_from(rows).expect("one row"));
        let changed = self.hobt.change(&mut step.page, step.id, &change, logged)?;
        if changed.is_some() {
            self.hobt.storage().versions().undone_key(writer, self.hobt.id(), done.key());
            self.hobt.count_rows(rows);
        }
        Ok(changed.is_some())
    }
}
