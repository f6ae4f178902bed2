//! How a statement reads a table: derived from its hints, the session's isolation level and the database's options.
//!
//! A hint takes precedence over the session's setting, and a lock hint over the isolation level.
//! `docs/design/0021-row-locks-and-isolation.md` describes the result for each level.

use hobt_base::{SqlError, errors};
use hobt_catalog::{Index, IndexKind, Table};
use hobt_engine::{DatabaseUse, IsolationOption};
use hobt_tsql::ast::{IsolationLevel, TableHint};
use hobt_txn::locks::LockMode;

use hobt_table::RowReading;

/// How a scan reads its table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reading {
    /// The lock mode of the table.
    pub(super) mode: LockMode,
    /// Whether the lock is held until the transaction ends.
    pub(super) is_kept: bool,
    /// Whether the statement fails instead of waiting for a lock: `NOWAIT`.
    pub(super) waits_for_nobody: bool,
    /// Whether pages are locked instead of rows: `PAGLOCK`.
    pub(super) locks_pages: bool,
    pub(super) rows: Rows,
}

/// Which rows a scan returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rows {
    /// The current rows, committed or not.
    Present,
    /// The rows committed when the statement began to read. The scan waits for no writer.
    OfStatement,
    /// The rows committed when the transaction began to read.
    OfTransaction,
    /// Each row is locked, and then its current version is returned.
    Locked(RowReading),
}

/// The isolation of one scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Isolation {
    ReadUncommitted,
    /// `READ COMMITTED` in a database that reads versions.
    Versions,
    /// `READ COMMITTED` under locks.
    ReadCommittedLock,
    RepeatableRead,
    Serializable,
    Snapshot,
}

impl Isolation {
    fn of(hints: &[TableHint], session: IsolationLevel, database: &DatabaseUse) -> Isolation {
        let has = |wanted: &TableHint| hints.contains(wanted);
        let committed = match database.isolation().has(IsolationOption::ReadCommittedSnapshot) {
            true => Isolation::Versions,
            false => Isolation::ReadCommittedLock,
        };
        if has(&TableHint::NoLock) || has(&TableHint::ReadUncommitted) {
            Isolation::ReadUncommitted
        } else if has(&TableHint::Serializable) || has(&TableHint::HoldLock) {
            Isolation::Serializable
        } else if has(&TableHint::RepeatableRead) {
            Isolation::RepeatableRead
        } else if has(&TableHint::ReadCommittedLock) {
            Isolation::ReadCommittedLock
        } else if has(&TableHint::ReadCommitted) {
            committed
        } else if has(&TableHint::Snapshot) {
            Isolation::Snapshot
        } else {
            match session {
                IsolationLevel::ReadUncommitted => Isolation::ReadUncommitted,
                IsolationLevel::ReadCommitted => committed,
                IsolationLevel::RepeatableRead => Isolation::RepeatableRead,
                IsolationLevel::Serializable => Isolation::Serializable,
                IsolationLevel::Snapshot => Isolation::Snapshot,
            }
        }
    }

    /// Whether locks on rows read are held until the transaction ends.
    fn keeps_locks(self) -> bool {
        matches!(self, Isolation::RepeatableRead | Isolation::Serializable)
    }
}

impl Reading {
    /// Determines how a scan with these hints reads a table. `changes`: the scan finds the rows that its statement
    /// changes. `is_whole`: the scan is known to read the whole table.
    pub(super) fn of(
        hints: &[TableHint],
        changes: bool,
        session: IsolationLevel,
        (database, table): (&DatabaseUse, &Table),
        is_whole: bool,
    ) -> Reading {
        let has = |wanted: TableHint| hints.contains(&wanted);
        let isolation = Isolation::of(hints, session, database);
        let (waits_for_nobody, locks_pages) = (has(TableHint::NoWait), has(TableHint::PagLock));
        let reading = |mode, is_kept, rows| Reading { mode, is_kept, waits_for_nobody, locks_pages, rows };
        let is_private = is_private(database, table);
        let skips_locked = has(TableHint::ReadPast);
        let locked = |mode, is_kept| {
            let is_of_snapshot = isolation == Isolation::Snapshot;
            Rows::Locked(RowReading { mode, is_kept, skips_locked, is_of_snapshot, range: None })
        };
        let in_ranges = |mode, range| {
            let range = Some(range);
            Rows::Locked(RowReading { mode, is_kept: true, skips_locked, is_of_snapshot: false, range })
        };
        // A heap has no key ranges, so its gaps are only covered by a lock on the whole table.
        let has_ranges = isolation == Isolation::Serializable && table.is_clustered() && !is_private;
        // But a scan may use a nonclustered index of the heap, and then the ranges lie between the index entries. A
        // statement that changes rows still locks the whole heap: if two transactions first searched by an index
        // whether to change anything, their ranges would block each other's changes.
        let is_index = |index: &Index| index.kind == IndexKind::Nonclustered && !index.options.is_disabled;
        let may_have_ranges = has_ranges || (!is_private && table.indexes.iter().any(is_index));
        if changes {
            let mode = match mode_of_change(hints, database, table) {
                LockMode::IntentExclusive if isolation == Isolation::Serializable && !has_ranges => {
                    LockMode::SharedIntentExclusive
                }
                mode => mode,
            };
            let rows = match isolation {
                _ if is_private => Rows::Present,
                Isolation::Snapshot => Rows::OfTransaction,
                _ if mode == LockMode::Exclusive => Rows::Present,
                _ if has_ranges => in_ranges(LockMode::Exclusive, LockMode::RangeSharedUpdate),
                _ if skips_locked => locked(LockMode::Exclusive, true),
                _ => Rows::OfStatement,
            };
            return reading(mode, true, rows);
        }
        let row_mode = if has(TableHint::XLock) {
            LockMode::Exclusive
        } else if has(TableHint::UpdLock) {
            LockMode::Update
        } else {
            LockMode::Shared
        };
        let (is_kept, locks_more) = (isolation.keeps_locks(), row_mode != LockMode::Shared);
        if has(TableHint::TabLockX) {
            return reading(LockMode::Exclusive, true, Rows::Present);
        }
        if has(TableHint::TabLock) || (isolation == Isolation::Serializable && locks_more && !has_ranges) {
            return reading(row_mode, is_kept || locks_more, Rows::Present);
        }
        if locks_more && has_ranges {
            let range = match row_mode {
                LockMode::Exclusive => LockMode::RangeExclusiveExclusive,
                _ => LockMode::RangeSharedUpdate,
            };
            return reading(LockMode::IntentExclusive, true, in_ranges(row_mode, range));
        }
        if locks_more && !is_private {
            return reading(LockMode::IntentExclusive, true, locked(row_mode, true));
        }
        match isolation {
            Isolation::ReadUncommitted => reading(LockMode::SchemaStability, false, Rows::Present),
            // No other session changes the table, so its current rows are the visible ones.
            Isolation::Snapshot if is_private => reading(LockMode::SchemaStability, false, Rows::Present),
            Isolation::Snapshot => reading(LockMode::SchemaStability, false, Rows::OfTransaction),
            _ if is_private => reading(LockMode::SchemaStability, false, Rows::OfStatement),
            Isolation::Serializable if may_have_ranges && !is_whole => {
                reading(LockMode::IntentShared, true, in_ranges(LockMode::Shared, LockMode::RangeSharedShared))
            }
            Isolation::Serializable => reading(LockMode::Shared, true, Rows::Present),
            Isolation::Versions if !skips_locked => reading(LockMode::SchemaStability, false, Rows::OfStatement),
            Isolation::Versions | Isolation::ReadCommittedLock | Isolation::RepeatableRead => {
                reading(LockMode::IntentShared, is_kept, locked(LockMode::Shared, is_kept))
            }
        }
    }
}

/// The mode in which a statement with these hints locks a table that it changes.
pub(super) fn mode_of_change(hints: &[TableHint], database: &DatabaseUse, table: &Table) -> LockMode {
    let wants_table = hints.contains(&TableHint::TabLock) || hints.contains(&TableHint::TabLockX);
    if wants_table || is_private(database, table) { LockMode::Exclusive } else { LockMode::IntentExclusive }
}

/// Whether a table is visible to one session only: a temporary table that is not global, or a table variable.
pub(super) fn is_private(database: &DatabaseUse, table: &Table) -> bool {
    table.name.starts_with('#') && !table.name.starts_with("##") && database.name() == "tempdb"
}

/// Checks that a table with the hint `READPAST` may be read so: rows must be locked one by one, without key ranges.
///
/// # Errors
/// 650.
pub(super) fn check_readpast(
    hints: &[TableHint],
    changes: bool,
    session: IsolationLevel,
    database: &DatabaseUse,
) -> Result<(), SqlError> {
    let locks = changes || [TableHint::UpdLock, TableHint::XLock].iter().any(|hint| hints.contains(hint));
    let is_allowed = match Isolation::of(hints, session, database) {
        Isolation::Versions | Isolation::ReadCommittedLock | Isolation::RepeatableRead => true,
        Isolation::ReadUncommitted | Isolation::Snapshot => locks,
        Isolation::Serializable => false,
    };
    if is_allowed || !hints.contains(&TableHint::ReadPast) {
        return Ok(());
    }
    Err(errors::READPAST_NOT_ALLOWED.error())
}

/// 3952.
pub(super) fn snapshot_not_allowed(database: &DatabaseUse) -> SqlError {
    errors::SNAPSHOT_NOT_ALLOWED.with([&database.name()])
}

/// 3957.
pub(super) fn opened_since(database: &DatabaseUse) -> SqlError {
    errors::SNAPSHOT_OF_CLOSED.with([&database.name()])
}

/// 3951.
pub(super) fn begun_otherwise(database: &DatabaseUse) -> SqlError {
    errors::SNAPSHOT_BEGUN_OTHERWISE.with([&database.name()])
}

/// 3961.
pub(super) fn changed_since(database: &DatabaseUse) -> SqlError {
    errors::SNAPSHOT_DEFINITION_CHANGED.with([&database.name()])
}
