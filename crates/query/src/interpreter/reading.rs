//! How a statement reads a table: what its hints, the session's isolation level and the database's options come to.
//!
//! A hint says more than the session, and a lock that a hint asks for more than the level. What that means for each level
//! stands in `docs/design/0021-row-locks-and-isolation.md`.

use hobt_base::{SqlError, number};
use hobt_catalog::Table;
use hobt_engine::{DatabaseUse, IsolationOption};
use hobt_tsql::ast::{IsolationLevel, TableHint};
use hobt_txn::locks::LockMode;

/// How a scan reads its table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reading {
    /// How it locks the table.
    pub(super) mode: LockMode,
    /// Whether the lock stays until the transaction has ended.
    pub(super) is_kept: bool,
    /// Whether it fails where it would have to wait for a lock: `NOWAIT`.
    pub(super) waits_for_nobody: bool,
    /// Whether pages are locked in place of rows: `PAGLOCK`.
    pub(super) locks_pages: bool,
    pub(super) rows: Rows,
}

/// Which rows a scan shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rows {
    /// Those that stand in the table, committed or not.
    Present,
    /// Those that were committed when the statement first looked; it waits for no writer.
    OfStatement,
    /// Those that were committed when the transaction first looked.
    OfTransaction,
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

    /// Whether what was read is locked until the transaction has ended.
    fn keeps_locks(self) -> bool {
        matches!(self, Isolation::RepeatableRead | Isolation::Serializable)
    }
}

impl Reading {
    /// How a scan with these hints reads a table; `changes`: it finds the rows that its statement changes.
    pub(super) fn of(
        hints: &[TableHint],
        changes: bool,
        session: IsolationLevel,
        (database, table): (&DatabaseUse, &Table),
    ) -> Reading {
        let has = |wanted: TableHint| hints.contains(&wanted);
        let isolation = Isolation::of(hints, session, database);
        let (waits_for_nobody, locks_pages) = (has(TableHint::NoWait), has(TableHint::PagLock));
        let reading = |mode, is_kept, rows| Reading { mode, is_kept, waits_for_nobody, locks_pages, rows };
        if changes {
            let mode = match mode_of_change(hints, database, table) {
                // Of a heap, all is what lies between its rows.
                LockMode::IntentExclusive if isolation == Isolation::Serializable => LockMode::SharedIntentExclusive,
                mode => mode,
            };
            let rows = match isolation {
                _ if is_private(database, table) => Rows::Present,
                Isolation::Snapshot => Rows::OfTransaction,
                _ if mode == LockMode::Exclusive => Rows::Present,
                _ => Rows::OfStatement,
            };
            return reading(mode, true, rows);
        }
        if has(TableHint::TabLockX) || has(TableHint::XLock) {
            return reading(LockMode::Exclusive, true, Rows::Present);
        }
        if has(TableHint::UpdLock) {
            return reading(LockMode::Update, true, Rows::Present);
        }
        if has(TableHint::TabLock) {
            return reading(LockMode::Shared, isolation.keeps_locks(), Rows::Present);
        }
        match isolation {
            Isolation::ReadUncommitted => reading(LockMode::SchemaStability, false, Rows::Present),
            Isolation::Versions => reading(LockMode::SchemaStability, false, Rows::OfStatement),
            // Nobody else changes it: what stands there is what is seen.
            Isolation::Snapshot if is_private(database, table) => {
                reading(LockMode::SchemaStability, false, Rows::Present)
            }
            Isolation::Snapshot => reading(LockMode::SchemaStability, false, Rows::OfTransaction),
            Isolation::ReadCommittedLock => reading(LockMode::Shared, false, Rows::Present),
            Isolation::RepeatableRead | Isolation::Serializable => reading(LockMode::Shared, true, Rows::Present),
        }
    }
}

/// How a statement locks a table that it changes, by the hints that it has for it.
pub(super) fn mode_of_change(hints: &[TableHint], database: &DatabaseUse, table: &Table) -> LockMode {
    let wants_table = hints.contains(&TableHint::TabLock) || hints.contains(&TableHint::TabLockX);
    if wants_table || is_private(database, table) { LockMode::Exclusive } else { LockMode::IntentExclusive }
}

/// Whether a table is known to one session alone: a temporary table that is not global, or a table variable.
pub(super) fn is_private(database: &DatabaseUse, table: &Table) -> bool {
    table.name.starts_with('#') && !table.name.starts_with("##") && database.name() == "tempdb"
}

/// 3952.
pub(super) fn snapshot_not_allowed(database: &DatabaseUse) -> SqlError {
    let text = format!(
        "Snapshot isolation transaction failed accessing database '{}' because snapshot isolation is not allowed in this \
         database. Use ALTER DATABASE to allow snapshot isolation.",
        database.name()
    );
    SqlError::new(number::SNAPSHOT_NOT_ALLOWED, text)
}

/// 3951.
pub(super) fn begun_otherwise(database: &DatabaseUse) -> SqlError {
    let text = format!(
        "Transaction failed in database '{}' because the statement was run under snapshot isolation but the transaction did \
         not start in snapshot isolation. You cannot change the isolation level of the transaction to snapshot after the \
         transaction has started unless the transaction was originally started under snapshot isolation level.",
        database.name()
    );
    SqlError::new(number::SNAPSHOT_BEGUN_OTHERWISE, text)
}

/// 3961.
pub(super) fn changed_since(database: &DatabaseUse) -> SqlError {
    let text = format!(
        "Snapshot isolation transaction failed in database '{}' because the object accessed by the statement has been \
         modified by a DDL statement in another concurrent transaction since the start of this transaction. It is disallowed \
         because the metadata is not versioned. A concurrent update to metadata can lead to inconsistency if mixed with \
         snapshot isolation.",
        database.name()
    );
    SqlError::new(number::SNAPSHOT_DEFINITION_CHANGED, text)
}

/// 3960.
pub(super) fn conflict(database: &DatabaseUse, table: &str) -> SqlError {
    let text = format!(
        "Snapshot isolation transaction aborted due to update conflict. You cannot use snapshot isolation to access table \
         '{table}' directly or indirectly in database '{}' to update, delete, or insert the row that has been modified or \
         deleted by another transaction. Retry the transaction or change the isolation level for the update/delete statement.",
        database.name()
    );
    SqlError { state: 2, ..SqlError::new(number::SNAPSHOT_CONFLICT, text) }
}
