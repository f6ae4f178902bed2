//! Locks of a statement's tables: find the tables, lock them, and check that the names still mean them.
//!
//! A statement resolves names before it holds locks, so a name may change its meaning until the lock is granted. Names
//! are resolved again until nothing has changed. Below the table's lock, rows are locked one by one (`row_locks`).

use std::sync::Arc;
use std::time::Duration;

use hobt_base::{SqlError, errors};
use hobt_engine::IsolationOption;
use hobt_tsql::ast::IsolationLevel;
use hobt_txn::locks::LockMode;

use super::failure::Failure;
use super::names::UsedTable;
use super::reading::{begun_otherwise, changed_since, is_private, opened_since, snapshot_not_allowed};
use crate::interpreter::Interpreter;
use crate::open_transaction::OpenTransaction;
use crate::plans::standing::Standing;
use hobt_binder::{BindOptions, Binder};
use hobt_table::StatementRun;

/// How often a statement is bound again because a table changed before its lock was granted.
pub(super) const BIND_ATTEMPTS: usize = 20;

impl Interpreter<'_> {
    /// Binds, and locks the tables that the bound statement uses. Also tells what that statement stands on.
    pub(super) fn bind_and_lock<B>(
        &mut self,
        run: &Arc<StatementRun>,
        options: BindOptions,
        bind: &dyn Fn(&Binder<'_>) -> Result<B, SqlError>,
    ) -> Result<(B, Standing), Failure> {
        self.until_locked(run, |this| {
            let names = this.names(run);
            names.note_own_database();
            let bound = bind(&Binder::new(&names, options)).map_err(Failure::of_binding)?;
            let standing = names.standing();
            Ok(((bound, standing), names.into_used()))
        })
    }

    /// Calls `find` for the tables that a statement uses, and locks them, until the names still mean the locked tables.
    /// All tables are locked in one step and in a fixed order, so two statements that read each other's tables do not
    /// deadlock.
    ///
    /// # Errors
    /// 2801 if the tables keep changing; those of `find`; 1205, 1222, 3617; 3951, 3952, 3957 and 3961 under `SNAPSHOT`.
    pub(super) fn until_locked<F>(
        &mut self,
        run: &Arc<StatementRun>,
        mut find: impl FnMut(&mut Self) -> Result<(F, Vec<UsedTable>), Failure>,
    ) -> Result<F, Failure> {
        for _ in 0..BIND_ATTEMPTS {
            let (found, used) = find(self)?;
            if self.lock_tables(run, used)? {
                return Ok(found);
            }
        }
        Err(definition_changed().into())
    }

    /// Locks tables until the statement ends, or until its transaction ends if they are changed or the reader keeps its
    /// locks. Each table is locked once, in a mode that covers all requested modes, and in the same order for all
    /// statements. `false` if one of them is a different table by now; then nothing is locked.
    fn lock_tables(&self, run: &Arc<StatementRun>, mut used: Vec<UsedTable>) -> Result<bool, Failure> {
        let resource = |used: &UsedTable| (used.database.id(), used.table.id);
        used.sort_by_key(resource);
        let (mut kept, mut brief) = (Vec::new(), Vec::new());
        // If a statement runs outside the open transaction, locks that it keeps belong to that transaction.
        let open = self.state.transaction.as_ref().map(OpenTransaction::transaction);
        for same in used.chunk_by(|one, other| resource(one) == resource(other)) {
            let (database, table) = (&same[0].database, same[0].table.id);
            run.uses_database(database);
            let mode = mode_of(same);
            let timeout = self.lock_timeout(same);
            if same.iter().any(|used| used.is_kept) {
                if let (Some(open), true) = (&self.state.transaction, run.context.is_in_transaction()) {
                    open.changes_in_tempdb(&same[0].table.name);
                }
                let owner = open.map_or(run.context.lock_owner(), |open| open.lock_owner());
                kept.push(self.lock_for(owner, database, table, mode, timeout)?);
            } else {
                brief.push(self.lock_for(run.context.lock_owner(), database, table, mode, timeout)?);
            }
        }
        let current = used.iter().all(is_current);
        if current {
            self.check_snapshot(run, &used)?;
            for same in used.chunk_by(|one, other| resource(one) == resource(other)) {
                self.list_row_locks(&run.context, same);
            }
            run.hold_locks_for_statement(brief);
            match open {
                Some(open) => open.hold(kept),
                None => run.hold_locks(kept),
            }
        }
        Ok(current)
    }

    /// The lock timeout for a table. `same` are all uses of the table in the statement.
    pub(super) fn lock_timeout(&self, same: &[UsedTable]) -> Option<Duration> {
        match same.iter().any(|used| used.waits_for_nobody) {
            true => Some(Duration::ZERO),
            false => self.state.options.lock_timeout,
        }
    }

    /// Checks that the locked tables may be used under the current isolation level.
    fn check_snapshot(&self, run: &Arc<StatementRun>, used: &[UsedTable]) -> Result<(), SqlError> {
        let is_snapshot = self.state.options.isolation == IsolationLevel::Snapshot;
        let mut shared = used.iter().filter(|used| !is_private(&used.database, &used.table)).peekable();
        let Some(first) = shared.peek() else { return Ok(()) };
        let began_otherwise = match &self.state.transaction {
            Some(open) => !open.began_in_snapshot(is_snapshot) && is_snapshot,
            None => false,
        };
        if began_otherwise {
            return Err(begun_otherwise(&first.database));
        }
        for used in shared {
            // A table that a statement changes is not read as of the snapshot, but the snapshot's restrictions apply to
            // it too.
            let is_of_snapshot = used.is_of_snapshot || (is_snapshot && used.is_kept);
            if !is_of_snapshot {
                continue;
            }
            if !used.database.isolation().has(IsolationOption::AllowSnapshot) {
                return Err(snapshot_not_allowed(&used.database));
            }
            let seen = self.state.lasting_transaction(&run.context).snapshot(run.context.is_in_transaction());
            let Some(seen) = seen else { continue };
            if !used.database.has_seen_definition(used.table.id, &seen) {
                return Err(changed_since(&used.database));
            }
            if !used.database.was_open(&seen) {
                return Err(opened_since(&used.database));
            }
        }
        Ok(())
    }
}

/// The error if a statement's tables changed faster than it could be compiled.
pub(super) fn definition_changed() -> SqlError {
    errors::TABLE_DEFINITION_CHANGED.error()
}

/// The lock mode of a table. `same` are all uses of the table in the statement.
pub(super) fn mode_of(same: &[UsedTable]) -> LockMode {
    same.iter().fold(same[0].mode, |mode, used| mode.combined(used.mode))
}

/// Whether the locked table is still the catalog's current one.
fn is_current(used: &UsedTable) -> bool {
    used.database.snapshot().tables.get(&used.table.id).is_some_and(|table| Arc::ptr_eq(table, &used.table))
}
