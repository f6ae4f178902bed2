//! Row locks of a statement: which tables they apply to, and a check that the rows to change are still as they were
//! read.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use hobt_base::{SqlError, number};
use hobt_catalog::Table;
use hobt_engine::RowAt;
use hobt_instruments::planted::{self, Bug};
use hobt_tsql::ast::IsolationLevel;
use hobt_txn::locks::{LockMode, LockResource, Patience};
use hobt_txn::{EscalatesTo, RowLockSettings, RowLocks, StatementContext, Transaction};

use super::failure::Failure;
use super::names::UsedTable;
use super::reading::is_private;
use super::table_locks::mode_of;
use crate::interpreter::Interpreter;
use hobt_operators::{FoundRows, WriteTarget, snapshot_conflict};
use hobt_table::{StatementRun, UnseenRows, UnseenUse};

/// After this many rounds of finding rows, a statement that changes them locks the table.
const ROUNDS: usize = 5;

/// The rounds of a statement that finds rows, locks them, and repeats this if another transaction has changed one.
#[derive(Default)]
pub(super) struct Rounds {
    /// The query itself has locked the rows that it found, and returns their current versions.
    pub(super) are_locked: bool,
    count: usize,
    /// The locks taken by earlier rounds.
    earlier: Vec<LockResource>,
}

impl Interpreter<'_> {
    /// Registers row locks of the statement on a table, unless it has locked the whole table. `same` are all uses of
    /// the table in the statement.
    pub(super) fn list_row_locks(&self, context: &StatementContext, same: &[UsedTable]) {
        let UsedTable { database, table, .. } = &same[0];
        self.note_level(context);
        // A table that is locked as a whole, or not at all, needs no row locks.
        let is_intent = matches!(
            mode_of(same),
            LockMode::IntentShared
                | LockMode::IntentUpdate
                | LockMode::IntentExclusive
                | LockMode::SharedIntentUpdate
                | LockMode::SharedIntentExclusive
                | LockMode::UpdateIntentExclusive
                // A load beside others locks the partitions to publish its rows.
                | LockMode::BulkUpdate
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

    /// Marks a statement that changes rows as running under SNAPSHOT, if it does.
    pub(super) fn note_level(&self, context: &StatementContext) {
        if self.state.options.isolation == IsolationLevel::Snapshot {
            context.write_by_snapshot();
        }
    }

    /// Makes the statement lock rows of a table with `rows`, unless its transaction has locked the whole table: then no
    /// rows are locked.
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

    /// The settings for row locks on a table. `same` are all uses of the table in the statement.
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

    /// Interprets the end of a change's query: `true` if it ran to its end. An error may result from uncommitted rows
    /// that the query read and that never commit. Then the result is `false`, and the statement waits for all these
    /// rows.
    pub(super) fn query_ended(ended: Result<(), SqlError>, unseen: Option<&Arc<UnseenRows>>) -> Result<bool, SqlError> {
        const NOT_OF_ROWS: [i32; 4] = [number::OUT_OF_MEMORY, number::DEADLOCK, number::LOCK_TIMEOUT, number::CANCELED];
        match ended {
            Ok(()) => Ok(true),
            Err(error) if NOT_OF_ROWS.contains(&error.number) => Err(error),
            Err(_) if unseen.is_some_and(|unseen| !unseen.met().is_empty()) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Locks the rows that a statement has found to change. `false` if another transaction has changed one of them
    /// since the statement read it, or is changing one that the statement may need. Then the statement searches again,
    /// and keeps its locks meanwhile.
    ///
    /// # Errors
    /// 3960 under `SNAPSHOT`, which never searches twice; 1205, 1222, 3617.
    pub(super) fn lock_found_rows(
        &self,
        run: &Arc<StatementRun>,
        target: &WriteTarget,
        (batches, others): (&mut dyn Iterator<Item = Result<RecordBatch, SqlError>>, &Others<'_>),
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
        let mut others_waited_for = others.waited_for();
        let (mut waits, mut is_any_changed) = (!others_waited_for.is_empty(), false);
        loop {
            let mut found = FoundRows::next_of(run, batches)?;
            let is_last = found.is_empty();
            if !others_waited_for.is_empty() {
                found.add(&std::mem::take(&mut others_waited_for));
            }
            waits |= others.matter_if_found().is_some_and(|unseen| found.is_any_unseen(unseen));
            found.lock(run, target, &mut taken)?;
            is_any_changed = is_any_changed || found.is_any_changed(run, target)?;
            if is_last {
                break;
            }
        }
        let ignores_conflicts = is_snapshot && planted::has(Bug::SnapshotConflictsIgnored);
        if ignores_conflicts || (!waits && !is_any_changed) {
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

/// Rows of a change's target that other transactions are changing, by how its query used them.
pub(super) struct Others<'q> {
    pub(super) unseen: Option<&'q Arc<UnseenRows>>,
    /// Whether the query ran to its end.
    pub(super) has_ended: bool,
    /// Those of them that it does not change, but that its result depends on.
    pub(super) idle: Vec<RowAt>,
}

impl Others<'_> {
    /// The rows that the statement must wait for, beside those that it has found.
    fn waited_for(&self) -> Vec<RowAt> {
        match (self.unseen, self.matter_if_found()) {
            (_, Some(_)) => self.idle.clone(),
            (Some(unseen), None) => unseen.met(),
            (None, None) => Vec::new(),
        }
    }

    /// The rows, if the statement must wait for those of them that it has found.
    fn matter_if_found(&self) -> Option<&UnseenRows> {
        let unseen = self.unseen.filter(|unseen| self.has_ended && unseen.usage() != UnseenUse::Noted);
        unseen.map(|unseen| &**unseen)
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
