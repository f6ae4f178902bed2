//! Rows that a statement locks one by one: which tables' they are, and that those which change are the ones that were seen.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use hobt_base::SqlError;
use hobt_catalog::Table;
use hobt_tsql::ast::IsolationLevel;
use hobt_txn::locks::{LockMode, LockResource, Patience};
use hobt_txn::{EscalatesTo, RowLockSettings, RowLocks, StatementContext, Transaction};

use super::failure::Failure;
use super::names::UsedTable;
use super::reading::is_private;
use super::run::Interpreter;
use super::table_locks::mode_of;
use crate::execute::{FoundRows, InsertTarget, StatementRun, snapshot_conflict, wait_for_inserts};

/// How often a statement that changes rows looks for them anew before it locks the table.
const ROUNDS: usize = 5;

/// The rounds of a statement that finds rows, locks them, and looks again if somebody has changed one.
#[derive(Default)]
pub(super) struct Rounds {
    /// The query has locked the rows that it found, and gives them as they stand.
    pub(super) are_locked: bool,
    count: usize,
    /// What earlier rounds have locked.
    earlier: Vec<LockResource>,
}

impl Interpreter<'_> {
    /// Notes that the statement locks rows of a table, if it has not locked the table as a whole; `same` are all its uses of it.
    pub(super) fn list_row_locks(&self, context: &StatementContext, same: &[UsedTable]) {
        let UsedTable { database, table, .. } = &same[0];
        // A table that is locked as a whole, or not at all, has no rows to be locked.
        let is_intent = matches!(
            mode_of(same),
            LockMode::IntentShared
                | LockMode::IntentUpdate
                | LockMode::IntentExclusive
                | LockMode::SharedIntentUpdate
                | LockMode::SharedIntentExclusive
                | LockMode::UpdateIntentExclusive
        );
        let database_tag = database.storage().database_tag();
        if !is_intent || context.row_locks(database_tag, table.base_index().partitions[0].hobt).is_some() {
            return;
        }
        let transaction = self.state.lasting_transaction(context);
        self.list_row_locks_of(context, transaction, LockResource::Object(database.id(), table.id), || {
            RowLocks::new(self.row_lock_settings(same), self.environment.instance.locks(), transaction)
        });
    }

    /// Has the statement lock the rows of a table as `rows` says, unless its transaction has locked the whole table: then it
    /// locks nothing in it.
    pub(super) fn list_row_locks_of(
        &self,
        context: &StatementContext,
        transaction: &Transaction,
        table: LockResource,
        rows: impl FnOnce() -> Arc<RowLocks>,
    ) {
        let held = self.environment.instance.locks().mode_held(transaction.lock_owner(), &table);
        if held != Some(LockMode::Exclusive) {
            context.lock_rows(rows());
        }
    }

    /// How rows of a table are locked; `same` are all uses that the statement makes of it.
    pub(super) fn row_lock_settings(&self, same: &[UsedTable]) -> RowLockSettings {
        let UsedTable { database, table, .. } = &same[0];
        let partitions = table.indexes.iter().flat_map(|index| &index.partitions);
        RowLockSettings {
            database: database.id(),
            database_tag: database.storage().database_tag(),
            object: table.id,
            escalates_to: escalates_to(table),
            hobts: partitions.map(|partition| partition.hobt).collect(),
            locks_pages: same.iter().any(|used| used.locks_pages),
            patience: Patience { timeout: self.lock_timeout(same), ..self.state.options.patience() },
        }
    }

    /// Waits for those who have inserted rows into heaps whose rows the statement locks as it reads them, and have not ended: what
    /// they leave is seen.
    ///
    /// # Errors
    /// 1205, 1222, 3617.
    pub(super) fn wait_for_inserts(&self, run: &StatementRun, used: &[UsedTable]) -> Result<(), SqlError> {
        for used in used.iter().filter(|used| used.waits_for_inserts && !used.table.is_clustered()) {
            let partitions = &used.table.base_index().partitions;
            let stores = partitions.iter().map(|partition| used.database.store_to_read(partition.hobt));
            let stores = stores.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_sql_error())?;
            wait_for_inserts(run, &stores)?;
        }
        Ok(())
    }

    /// Locks the rows that a statement has found to change. `false` if somebody has changed one of them since the statement
    /// looked: then it looks again, and keeps its locks meanwhile.
    ///
    /// # Errors
    /// 3960 under `SNAPSHOT`, where nothing is looked at twice; 1205, 1222, 3617.
    pub(super) fn lock_found_rows<'r>(
        &self,
        run: &StatementRun,
        target: &InsertTarget,
        batches: impl IntoIterator<Item = &'r RecordBatch>,
        rounds: &mut Rounds,
    ) -> Result<bool, Failure> {
        if rounds.are_locked {
            return Ok(true);
        }
        let (database, table) = (target.database(), target.table());
        let is_snapshot = self.state.options.isolation == IsolationLevel::Snapshot;
        if is_private(database, table) || (target.row_locks(run).is_none() && !is_snapshot) {
            return Ok(true);
        }
        let mut taken = Vec::new();
        let found = FoundRows::of(batches)?;
        found.lock(run, target, &mut taken)?;
        if !found.is_any_changed(run, target) {
            if let Some(locks) = target.row_locks(run) {
                locks.release(&rounds.earlier);
            }
            return Ok(true);
        }
        if is_snapshot {
            return Err(snapshot_conflict(database, target.name_in_database()).into());
        }
        rounds.earlier.append(&mut taken);
        rounds.count += 1;
        if rounds.count == ROUNDS {
            let transaction = self.state.lasting_transaction(&run.context);
            let timeout = self.state.options.lock_timeout;
            transaction.hold(self.lock_for(
                transaction.lock_owner(),
                database,
                table.id,
                LockMode::Exclusive,
                timeout,
            )?);
        }
        run.context.look_again();
        Ok(false)
    }
}

fn escalates_to(table: &Table) -> EscalatesTo {
    const DISABLE: u8 = 1;
    const AUTO: u8 = 2;
    match table.lock_escalation {
        DISABLE => EscalatesTo::Nothing,
        AUTO if table.base_index().partitions.len() > 1 => EscalatesTo::Hobt,
        _ => EscalatesTo::Table,
    }
}
