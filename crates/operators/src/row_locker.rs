//! Locks a table's rows one by one as they are read, and reads them again if another transaction has changed them. Also
//! finds the rows that other transactions have inserted meanwhile.

use std::collections::HashSet;
use std::sync::Arc;

use hobt_access::{BTree, KeyOfRange, KeyRange, KeysOfRange};
use hobt_base::{SqlError, Stamp, number};
use hobt_catalog::Table;
use hobt_engine::RowAt;
use hobt_instruments::planted::{self, Bug};
use hobt_txn::RowLocks;
use hobt_txn::locks::{LockMode, LockResource};
use hobt_types::Value;

use super::path_rows::PathRows;
use super::row_lock::{lock_error, snapshot_conflict};
use hobt_table::{AccessPath, RowReading, StatementRun, TableRead};

/// Locks a table's rows, and reads them again.
pub(super) struct RowLocker {
    table: Arc<TableRead>,
    run: Arc<StatementRun>,
    reading: RowReading,
    rows: PathRows,
    /// `None` if the table is locked as a whole.
    locks: Option<Arc<RowLocks>>,
    /// Current positions of rows that had changed since they were read. The path may reach a row more than once.
    met: HashSet<RowAt>,
    /// Rows that were gone when they were to be locked. They may come back.
    gone: HashSet<RowAt>,
    /// Old positions of rows that had changed when they were to be locked, if locks are not kept. A unique key that led
    /// there may lead to another row by now.
    changed: HashSet<RowAt>,
}

/// The result for a row.
pub(super) enum Locked {
    /// It is unchanged.
    AsSeen,
    /// Another transaction has locked it, or it was returned as changed before.
    LeftOut,
    /// It is gone. `waited`: a transaction that had locked it was waited for, and may have moved it meanwhile.
    Gone { waited: bool },
    /// Its current values and position.
    Changed(Vec<Value>, RowAt),
}

/// What is at a row's position before it is locked.
pub(super) enum Unlocked {
    /// A row, which may be gone or changed once it is locked.
    Row(Vec<Value>),
    /// No row.
    Gone,
    /// Unknown: it could not be read.
    Unknown,
}

impl RowLocker {
    /// For a scan or seek that reaches its rows by `path`.
    ///
    /// # Errors
    /// The table cannot be opened.
    pub(super) fn new(
        table: &Arc<TableRead>,
        run: &Arc<StatementRun>,
        reading: RowReading,
        path: &AccessPath,
    ) -> Result<RowLocker, SqlError> {
        // As old as the scan's snapshot, or older; then a row may be read again without need.
        let rows = PathRows::new(table, path, run.context.view())?;
        let hobt = rows.stores()[0].hobt();
        let locks = run.context.row_locks(hobt.storage().database_tag(), hobt.id());
        let (table, run) = (Arc::clone(table), Arc::clone(run));
        let [met, gone, changed] = [(); 3].map(|()| HashSet::new());
        Ok(RowLocker { table, run, reading, rows, locks, met, gone, changed })
    }

    /// The table.
    pub(super) fn table(&self) -> &Table {
        self.table.table()
    }

    /// Locks the ranges that are read, if no row may be inserted into them: every key in them, and the first one after.
    /// Repeats until it meets no key that it has not locked; a transaction that inserts one meanwhile is waited for.
    ///
    /// # Errors
    /// 1205, 1222, 3617; a page is damaged or cannot be read.
    pub(super) fn lock_ranges(&self) -> Result<(), SqlError> {
        let (Some(mode), Some(locks)) = (self.reading.range, &self.locks) else { return Ok(()) };
        match self.rows.path() {
            AccessPath::Scan { partitions } => {
                let mut trees = partitions.iter().filter_map(|place| self.rows.stores()[*place].tree());
                trees.try_for_each(|tree| self.lock_range(locks, tree, &KeyRange::all(), (mode, false)))
            }
            AccessPath::Seek(path) => {
                let is_unique = self.table().indexes[path.index].options.is_unique;
                let mut ranges =
                    path.trees.iter().flat_map(|(_, tree)| path.ranges.iter().map(move |range| (tree, range)));
                ranges.try_for_each(|(tree, range)| self.lock_range(locks, tree, range, (mode, is_unique)))
            }
        }
    }

    fn lock_range(
        &self,
        locks: &RowLocks,
        tree: &Arc<BTree>,
        range: &KeyRange,
        (mode, is_unique): (LockMode, bool),
    ) -> Result<(), SqlError> {
        let is_cancelled = || self.run.is_cancelled();
        let alone = match mode {
            LockMode::RangeSharedShared => LockMode::Shared,
            LockMode::RangeSharedUpdate => LockMode::Update,
            _ => LockMode::Exclusive,
        };
        locks.locks_ranges_of(tree.hobt().range_lockers());
        let mut found = Vec::new();
        loop {
            let mut is_new = false;
            let mut keys = KeysOfRange::new(Arc::clone(tree), range, is_unique);
            while keys.next(&mut found).map_err(|error| self.table.sql_error(error))? {
                for KeyOfRange { key, is_all } in found.drain(..) {
                    let mode = if is_all { alone } else { mode };
                    let locked = locks.lock_key(tree.hobt().id(), key, mode, &is_cancelled);
                    is_new |= locked.map_err(|error| lock_error(self.run.context.session(), error))?;
                    locks.escalate_if_due();
                }
                if is_cancelled() {
                    return Err(SqlError::cancelled());
                }
            }
            if !is_new {
                return Ok(());
            }
        }
    }

    /// Whether a row that did not fulfil the conditions must be read again, because another transaction is changing it.
    ///
    /// # Errors
    /// Versions cannot be read, or were given up.
    pub(super) fn may_come_to_be_wanted(&self, at: &RowAt) -> Result<bool, SqlError> {
        Ok(!self.reading.skips_locked && !self.reading.is_of_snapshot && self.rows.is_changed(at)?)
    }

    /// Locks a row and waits for conflicting locks. Returns whether there were any; `None` if the row is to be left
    /// out.
    fn lock(&self, at: &RowAt, taken: &mut Vec<LockResource>) -> Result<Option<bool>, SqlError> {
        let Some(locks) = &self.locks else { return Ok(Some(false)) };
        let hobt = self.rows.stores()[at.partition()].hobt().id();
        if locks.try_lock(hobt, at.id(), self.reading.mode, taken) {
            return Ok(Some(false));
        }
        if self.reading.skips_locked {
            return Ok(None);
        }
        let locked = locks.lock(hobt, at.id(), self.reading.mode, &|| self.run.is_cancelled(), taken);
        locked.map_err(|error| lock_error(self.run.context.session(), error))?;
        Ok(Some(true))
    }

    /// Locks a row, and reads it again if another transaction has changed it. The caller passes `taken` to
    /// [`RowLocker::done`], which releases the locks unless the row is output and its locks are kept.
    pub(super) fn row(&mut self, mut at: RowAt, taken: &mut Vec<LockResource>) -> Result<Locked, SqlError> {
        if !self.reading.is_kept && self.reading.mode == LockMode::Shared && !self.rows.is_changed(&at)? {
            return Ok(Locked::AsSeen);
        }
        let Some(mut waited) = self.lock(&at, taken)? else { return Ok(Locked::LeftOut) };
        if !self.rows.is_changed(&at)? || planted::has(Bug::RowNotLookedAtAgain) {
            return Ok(Locked::AsSeen);
        }
        if self.reading.is_of_snapshot && !planted::has(Bug::SnapshotConflictsIgnored) {
            return Err(snapshot_conflict(self.table.database(), &self.table.table().name));
        }
        let seen_at = at.clone();
        loop {
            if let Some(values) = self.values(&at)? {
                let is_new = self.met.insert(at.clone());
                if !self.reading.is_kept {
                    self.changed.insert(seen_at);
                }
                return Ok(if is_new { Locked::Changed(values, at) } else { Locked::LeftOut });
            }
            match self.rows.moved_to(&at)? {
                Some(to) => at = to,
                None => {
                    self.gone.insert(seen_at);
                    return Ok(Locked::Gone { waited });
                }
            }
            let Some(more) = self.lock(&at, taken)? else { return Ok(Locked::LeftOut) };
            waited |= more;
        }
    }

    /// What is at a row's position before it is locked. The transaction that inserted the row may roll back while the
    /// row is read, and its pages go out of use: damage counts only under the lock.
    pub(super) fn unlocked(&self, at: &RowAt) -> Result<Unlocked, SqlError> {
        match self.values(at) {
            Ok(values) => Ok(values.map_or(Unlocked::Gone, Unlocked::Row)),
            Err(error) if error.number == number::PAGE_DAMAGED => Ok(Unlocked::Unknown),
            Err(error) => Err(error),
        }
    }

    /// The current values of a row; `None` if it is gone.
    pub(super) fn values(&self, at: &RowAt) -> Result<Option<Vec<Value>>, SqlError> {
        self.rows.values(at)
    }

    /// Called when a row has been output, or not: its lock is kept or released.
    pub(super) fn done(&self, is_shown: bool, taken: &[LockResource]) {
        let Some(locks) = &self.locks else { return };
        if is_shown && self.reading.is_kept && !planted::has(Bug::ReadLocksReleased) {
            locks.escalate_if_due();
        } else if !taken.is_empty() {
            locks.release(taken);
        }
    }

    /// Positions of rows that were inserted into the path since the snapshot, are being inserted, or have come back. If
    /// locks are not kept, a row that took over a unique key is left out if the key's earlier row was output: a unique
    /// key gives one row.
    ///
    /// # Errors
    /// A page is damaged or cannot be read.
    pub(super) fn inserted_since(&self) -> Result<Vec<RowAt>, SqlError> {
        if self.reading.is_of_snapshot || self.locks.is_none() {
            return Ok(Vec::new());
        }
        let is_missing = |row: &RowAt| self.reading.is_kept || self.gone.contains(row) || self.changed.contains(row);
        let came = self.rows.inserted()?.into_iter();
        let came = came.filter(|came| came.instead_of.as_ref().is_none_or(is_missing));
        let mut rows: Vec<RowAt> = came.map(|came| came.at).collect();
        for row in &self.gone {
            if !matches!(self.unlocked(row)?, Unlocked::Gone) {
                rows.push(row.clone());
            }
        }
        Ok(rows)
    }

    /// Whether the path leads to rows by the keys of a unique nonclustered index. Such a key stays where it is,
    /// whatever row it leads to.
    pub(super) fn leads_by_unique_key(&self) -> bool {
        self.rows.by_entries().is_some_and(|path| self.table().indexes[path.index].options.is_unique)
    }

    /// The transaction that has written a row's current state, if the snapshot does not see it.
    ///
    /// # Errors
    /// As [`RowLocker::may_come_to_be_wanted`].
    pub(super) fn changed_by(&self, at: &RowAt) -> Result<Option<Stamp>, SqlError> {
        self.rows.changed_by(at)
    }

    /// Whether the search for rows goes on: `false` in a database that is refused, whose statements fail in the end.
    ///
    /// # Errors
    /// 3617: the statement was cancelled.
    pub(super) fn goes_on(&self) -> Result<bool, SqlError> {
        match self.run.is_cancelled() {
            true => Err(SqlError::cancelled()),
            false => Ok(self.rows.stores()[0].hobt().storage().broken().is_none()),
        }
    }

    /// Whether a row had changed since it was read, and was output or read again in its current state.
    pub(super) fn has_met(&self, at: &RowAt) -> bool {
        self.met.contains(at)
    }
}
