//! Undo of row changes from their records: at run time for a transaction's rollback, after a crash for recovery.
//!
//! A record of a row's change has its undo ([`Undo`]). [`ChangedRow`] makes it undone in the heap or tree that the row
//! is in. A rollback takes these from [`ChangedStores`], which the transaction fills as it changes rows: it also knows
//! those that it has created or dropped itself, and their earlier state if a definition has changed them since. Those
//! of a transaction that is undone behind the opening of its database are all known before.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use hobt_base::{HobtId, Lsn, PageId, Stamp};
use hobt_instruments::planted::{self, Bug};
use hobt_instruments::rank::{Rank, Ranked};
use hobt_instruments::schedule::RwLock;
use hobt_log::Record;
use hobt_page::{EncodingDamage, PageDamage};
use hobt_txn::{LogChain, StatementContext, UndoError, UndoRecords, UndoRow, Undone};

use crate::btree::KeyChange;
use crate::hobt::{Replaced, RowChange};
use crate::log_record::{ChangeRecord, StorageRecord, Undo};
use crate::{AccessError, Hobt, RowStore, Storage};

/// A change of a row, with the position of its record.
pub(crate) enum ChangedRow {
    Heap(RowChange),
    Replaced(Replaced),
    Tree(Lsn, KeyChange),
}

impl ChangedRow {
    /// The change of the record at `lsn`, which changed `page`; `None` if it is not of a row.
    pub(crate) fn of(undo: Undo, page: PageId, lsn: Lsn) -> Option<ChangedRow> {
        let in_heap = |slot, was_inserted| ChangedRow::Heap(RowChange { page, slot, was_inserted, lsn });
        let changed = match undo {
            Undo::RemoveRow { slot } => in_heap(slot, true),
            Undo::RestoreRow { slot } => in_heap(slot, false),
            Undo::PutBack { slot, row } => ChangedRow::Replaced(Replaced { page, slot, row, lsn }),
            Undo::RemoveKey { key } => ChangedRow::Tree(lsn, KeyChange::Inserted { key }),
            Undo::RestoreKey { key } => ChangedRow::Tree(lsn, KeyChange::Deleted { key }),
            Undo::ReplaceKey { key, row } => ChangedRow::Tree(lsn, KeyChange::Replaced { key, row }),
            Undo::FreeRun { .. }
            | Undo::Unpublish { .. }
            | Undo::Untruncate { .. }
            | Undo::RestorePage { .. }
            | Undo::Uncreate { .. } => return None,
        };
        Some(changed)
    }

    /// By how many rows the change increased the count.
    pub(crate) fn rows(&self) -> i64 {
        match self {
            ChangedRow::Heap(change) => {
                if change.was_inserted {
                    1
                } else {
                    -1
                }
            }
            ChangedRow::Replaced(_) => 0,
            ChangedRow::Tree(_, change) => change.rows(),
        }
    }

    /// Undoes the change, which `writer` made in `store`, and logs that in `chain`. Blocks on latches.
    ///
    /// # Errors
    /// A page is damaged or cannot be read, or the log has failed. The store is then not as it was.
    pub(crate) fn undo(&self, store: &RowStore, chain: &Arc<LogChain>, writer: Stamp) -> Result<(), AccessError> {
        match (self, store) {
            (ChangedRow::Heap(done), RowStore::Heap(hobt)) => hobt.undo_row(Some(chain), done, writer),
            (ChangedRow::Replaced(done), RowStore::Heap(hobt)) => hobt.put_back(Some(chain), done, writer),
            (ChangedRow::Tree(lsn, done), RowStore::Tree(tree)) => tree.undo_change(Some(chain), *lsn, done, writer),
            (ChangedRow::Heap(_) | ChangedRow::Replaced(_), RowStore::Tree(_))
            | (ChangedRow::Tree(..), RowStore::Heap(_)) => {
                let hobt = store.hobt();
                let rule = "a record of a heap's row that names a tree, or the other way round";
                Err(hobt.damaged(hobt.run_list(), PageDamage::Structure { rule }))
            }
        }
    }
}

impl ChangedRow {
    /// Like [`ChangedRow::undo`], for a transaction that a crash has left open. Its stamp stays the newest writer of
    /// its pages: every reader sees what has that stamp.
    ///
    /// # Errors
    /// As [`ChangedRow::undo`].
    pub(crate) fn undo_after_crash(&self, store: &RowStore, chain: &Arc<LogChain>) -> Result<(), AccessError> {
        if self.is_undo_skipped() { Ok(()) } else { self.undo(store, chain, Stamp(0)) }
    }

    /// Whether a planted bug keeps recovery from undoing it.
    pub(crate) fn is_undo_skipped(&self) -> bool {
        match self {
            ChangedRow::Heap(_) => planted::has(Bug::NoRowUndo),
            ChangedRow::Replaced(_) => false,
            ChangedRow::Tree(..) => planted::has(Bug::NoKeyUndo),
        }
    }
}

/// Undoes changes of rows in a database without a log, from what was noted of them.
struct NotedRows(RowStore);

/// Notes what undoes a change of a row of `hobt`, which is the heap or tree that `store` returns, if its database has
/// no log: elsewhere the row's record has it. `page` is the row's in a heap.
pub(crate) fn note_without_log(
    context: &StatementContext,
    hobt: &Arc<Hobt>,
    store: impl FnOnce() -> RowStore,
    (page, undo): (PageId, &Undo),
) {
    if hobt.storage().log().is_none() {
        // By address: when a definition has changed, earlier changes are undone in what was there then.
        let address = Arc::as_ptr(hobt) as usize;
        context.note_row_undo(address, || Arc::new(NotedRows(store())), |out| undo.encode_of(page, out));
    }
}

impl UndoRow for NotedRows {
    fn undo_row(&self, undo: &[u8], writer: Stamp) -> Result<(), UndoError> {
        let storage = self.0.hobt().storage();
        storage.undo(|| {
            let damaged = |damage: EncodingDamage| AccessError::LogFailed(format!("a noted undo: {damage}"));
            let (page, undo) = Undo::decode_of(undo).map_err(damaged)?;
            match (ChangedRow::of(undo, page, Lsn(0)), &self.0) {
                (Some(ChangedRow::Heap(done)), RowStore::Heap(hobt)) => hobt.undo_row(None, &done, writer),
                (Some(ChangedRow::Replaced(done)), RowStore::Heap(hobt)) => hobt.put_back(None, &done, writer),
                (Some(ChangedRow::Tree(lsn, done)), RowStore::Tree(tree)) => tree.undo_change(None, lsn, &done, writer),
                _ => Err(damaged(EncodingDamage { rule: "a heap's for a tree, or the other way round" })),
            }
        })
    }

    fn refuse(&self, why: &str) -> UndoError {
        self.0.hobt().storage().mark_broken(why);
        UndoError(why.to_owned())
    }
}

/// The heaps and trees in which a transaction has changed rows, in one database.
pub(crate) struct ChangedStores {
    storage: Arc<Storage>,
    by_id: Ranked<RwLock<HashMap<HobtId, RowStore>>>,
    /// A crash has left the transaction open: it has no versions.
    is_recovered: bool,
}

impl ChangedStores {
    fn undoing(storage: &Arc<Storage>, by_id: HashMap<HobtId, RowStore>, is_recovered: bool) -> Arc<dyn UndoRecords> {
        let by_id = Ranked::new(Rank::ChangedStores, RwLock::new(by_id));
        Arc::new(ChangedStores { storage: Arc::clone(storage), by_id, is_recovered })
    }

    /// Makes the chain of a transaction that a crash has left open undo its rows in `stores`.
    pub(crate) fn note_recovered(storage: &Arc<Storage>, chain: &Arc<LogChain>, stores: Vec<RowStore>) {
        let by_id = stores.into_iter().map(|store| (store.hobt().id(), store)).collect();
        chain.undoes_by(|| ChangedStores::undoing(storage, by_id, true));
    }

    /// To be called before a transaction with the chain `chain` changes a row of `hobt`, which is the heap or tree that
    /// `store` returns.
    pub(crate) fn note(
        context: &StatementContext,
        chain: &Arc<LogChain>,
        hobt: &Arc<Hobt>,
        store: impl FnOnce() -> RowStore,
    ) {
        let undoes = chain.undoes_by(|| ChangedStores::undoing(hobt.storage(), HashMap::new(), false));
        let of_storage: &dyn Any = &**undoes;
        let stores: &ChangedStores = of_storage.downcast_ref().expect("a chain of this storage");
        let before = match stores.by_id.read().get(&hobt.id()) {
            Some(known) if Arc::ptr_eq(known.hobt(), hobt) => return,
            known => known.cloned(),
        };
        // A definition has changed since the transaction's earlier changes: they are undone in what was there then.
        // What is changed from now on is undone before that action.
        if let Some(before) = before {
            let undoes = Arc::clone(undoes);
            context.on_undo(move || {
                let of_storage: &dyn Any = &*undoes;
                let stores: &ChangedStores = of_storage.downcast_ref().expect("as before");
                stores.by_id.write().insert(before.hobt().id(), before);
                Ok(())
            });
        }
        stores.by_id.write().insert(hobt.id(), store());
    }

    fn undo_change(&self, chain: &Arc<LogChain>, lsn: Lsn, change: ChangeRecord) -> Result<Undone, AccessError> {
        if let Some(undone) = change.compensates {
            return Ok(if planted::has(Bug::UndoneTwice) { Undone::Record } else { Undone::Other(undone) });
        }
        let Some(row) = change.undo.and_then(|undo| ChangedRow::of(undo, change.page, lsn)) else {
            return Ok(Undone::Record);
        };
        let store = self.by_id.read().get(&change.hobt).cloned();
        let store = store.ok_or_else(|| {
            AccessError::LogFailed(format!(
                "a row of HOBT {} is to be undone that the transaction has no store of",
                change.hobt
            ))
        })?;
        let undone = match self.is_recovered {
            true => row.undo_after_crash(&store, chain),
            false => row.undo(&store, chain, Stamp(chain.id())),
        };
        undone.map(|()| Undone::Record)
    }
}

impl UndoRecords for ChangedStores {
    fn undo(&self, chain: &Arc<LogChain>, record: &Record) -> Result<Undone, UndoError> {
        let mut undone = Undone::Record;
        self.storage.undo(|| {
            if let Some(change) = change_of(record)? {
                undone = self.undo_change(chain, record.lsn, change)?;
            }
            Ok(())
        })?;
        Ok(undone)
    }

    fn is_of_row(&self, record: &Record) -> Result<bool, UndoError> {
        let change = change_of(record).map_err(|error| self.refuse(&error.to_string()))?;
        Ok(change.and_then(|change| change.undo).is_some_and(|undo| undo.is_of_row()))
    }

    fn refuse(&self, why: &str) -> UndoError {
        self.storage.mark_broken(why);
        UndoError(why.to_owned())
    }

    fn forget(&self) {
        let forgotten = std::mem::take(&mut *self.by_id.write());
        drop(forgotten);
    }
}

/// The change of a page that a record describes, if it describes one.
fn change_of(record: &Record) -> Result<Option<ChangeRecord>, AccessError> {
    match StorageRecord::decode(record.kind, &record.payload).map_err(|damage| not_decoded(record, damage))? {
        Some(StorageRecord::Change(change)) => Ok(Some(*change)),
        _ => Ok(None),
    }
}

/// The error for a record that is none of this version's.
pub(crate) fn not_decoded(record: &Record, damage: EncodingDamage) -> AccessError {
    AccessError::LogFailed(format!("the record at position {} is none that this version writes: {damage}", record.lsn))
}
