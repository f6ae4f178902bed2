//! Transactions of several statements: `BEGIN`, `COMMIT`, `ROLLBACK` and `SAVE TRANSACTION`, and implicit transactions.
//!
//! ```text
//!   autocommit          BEGIN TRAN            1 (XACT_STATE() = 1)      an error that dooms, in TRY    -1
//!   @@TRANCOUNT = 0   ─────────────►   COMMIT, or ROLLBACK, ends it   ───────────────────────►   only ROLLBACK ends it
//! ```
//!
//! An open transaction belongs to the session and outlives batches. Its statements share its stamp and its locks. A
//! statement that fails is undone alone. The transaction ends by `COMMIT`, repeated as often as it was begun, by
//! `ROLLBACK`, by an error that aborts the batch (`failure`), or with the session. Table variables are not part of it:
//! their contents survive a rollback, so statements that change them run outside it.
//!
//! Undo and locks are in the crate `txn`; which errors doom a transaction is in `failure`, where they are caught in
//! `run`.

use std::sync::{Arc, OnceLock};

use hobt_access::AccessError;
use hobt_base::{Position, SqlError, Stamp, errors};
use hobt_engine::{Database, DatabaseUse, EngineError};
use hobt_instruments::schedule::Mutex;
use hobt_tsql::ast::{IsolationLevel, StatementKind, SwitchOption, TransactionName};
use hobt_txn::{Savepoint, StatementContext, Transaction};

use super::environment::Environment;
use super::failure::Failure;
use super::frame::Frame;
use super::state::SessionState;
use super::statement_kind::{begins_transaction, changes_what_is_read, forbidden_in_transaction, is_write};
use crate::interpreter::{Interpreter, Outcome};
use crate::open_transaction::{DroppedTables, NamedSavepoint, OpenTransaction, SharedTransaction};

/// The longest name of a transaction or savepoint, in characters.
const MAX_NAME: usize = 32;

impl SessionState {
    /// `@@TRANCOUNT`.
    pub fn transaction_count(&self) -> usize {
        self.transaction.as_ref().map_or(0, |open| open.count)
    }

    /// `XACT_STATE()`: 1 for a transaction that can be committed, -1 for one that cannot, 0 without a transaction.
    pub fn transaction_state(&self) -> i64 {
        self.transaction.as_ref().map_or(0, |open| if open.is_doomed { -1 } else { 1 })
    }

    /// The transaction whose locks and snapshot outlast the statement of `context`: the open transaction, even if the
    /// statement runs outside it, or the statement's own.
    pub(super) fn lasting_transaction<'a>(&'a self, context: &'a StatementContext) -> &'a Arc<Transaction> {
        self.transaction.as_ref().map_or(context.transaction(), OpenTransaction::transaction)
    }

    /// The transaction whose uncommitted objects the session sees.
    pub(super) fn viewer(&self) -> Option<Stamp> {
        self.transaction.as_ref().map(|open| open.transaction().stamp())
    }
}

/// Ends a session: rolls back what it has not committed and drops its temporary tables.
pub fn end_session(environment: &Environment, state: &mut SessionState) {
    // If a database became SUSPECT, the next use of it reports that.
    let _ended = roll_back_session(environment, state);
    super::run::drop_temporary_tables(environment, state);
}

/// Rolls back the transaction of a session that runs nothing, if it has one.
///
/// # Errors
/// 926 if it could not be undone.
pub fn roll_back_session(environment: &Environment, state: &mut SessionState) -> Result<(), SqlError> {
    for stored in roll_back(environment, state, &mut [])? {
        // A name that cannot be written, so that the table is dropped when the session ends.
        state.temporary_tables.insert(format!("{stored} "), stored);
    }
    Ok(())
}

/// Rolls back. Returns the temporary tables of ended calls that the rollback has restored.
fn roll_back(
    environment: &Environment,
    state: &mut SessionState,
    frames: &mut [Frame],
) -> Result<Vec<String>, SqlError> {
    let Some(open) = state.transaction.take() else { return Ok(Vec::new()) };
    let ended = open.shared.end(&environment.instance, false);
    environment.sessions.transaction_is(state.id, None);
    let mut tables = open.temporary_tables;
    let restored = restore_names(environment, state, frames, &mut tables, 0);
    ended.and(restored)
}

/// Adjusts the session's names of temporary tables to what a rollback left in `tempdb`. Of the tables dropped by name,
/// those after the first `dropped` have been restored. Returns the restored tables that no name refers to any more.
fn restore_names(
    environment: &Environment,
    state: &mut SessionState,
    frames: &mut [Frame],
    tables: &mut DroppedTables,
    dropped: usize,
) -> Result<Vec<String>, SqlError> {
    let back = tables.by_name.split_off(dropped.min(tables.by_name.len()));
    let nothing_is_named = |frame: &Frame| frame.temporary_of_caller.as_ref().is_none_or(|names| names.is_empty());
    if state.temporary_tables.is_empty()
        && back.is_empty()
        && tables.with_calls.is_empty()
        && frames.iter().all(nothing_is_named)
    {
        return Ok(Vec::new());
    }
    let tempdb = environment.instance.tempdb().map_err(SqlError::from)?.seen_by(state.viewer());
    let snapshot = tempdb.snapshot();
    let schema = snapshot.schema_id("dbo");
    let is_there = |stored: &str| schema.is_some_and(|schema| snapshot.table(schema, stored).is_some());
    state.temporary_tables.retain(|_, stored| is_there(stored));
    for names in frames.iter_mut().filter_map(|frame| frame.temporary_of_caller.as_mut()) {
        names.retain(|_, stored| is_there(stored));
    }
    // If a name was dropped several times, it means the table that was dropped first.
    for table in back.into_iter().rev().filter(|table| is_there(&table.stored)) {
        if table.depth > 0 && table.depth >= frames.len() {
            tables.with_calls.push(table.stored);
            continue;
        }
        for names in frames.iter_mut().skip(table.depth + 1).filter_map(|frame| frame.temporary_of_caller.as_mut()) {
            names.insert(table.lower.clone(), table.stored.clone());
        }
        state.temporary_tables.insert(table.lower, table.stored);
    }
    // A name that meant a table of this call now means the caller's table.
    if let Some(names) = frames.last().and_then(|frame| frame.temporary_of_caller.as_ref()) {
        for (lower, stored) in names {
            state.temporary_tables.entry(lower.clone()).or_insert_with(|| stored.clone());
        }
    }
    let (again, gone) = std::mem::take(&mut tables.with_calls).into_iter().partition(|stored| is_there(stored));
    tables.with_calls = gone;
    Ok(again)
}

/// The explicit transaction of the session, as a batch begins, saves and ends it.
pub(super) struct Transactions<'b, 's> {
    batch: &'b mut Interpreter<'s>,
}

impl<'s> Interpreter<'s> {
    /// The session's explicit transaction.
    pub(super) fn transactions(&mut self) -> Transactions<'_, 's> {
        Transactions { batch: self }
    }
}

impl Interpreter<'_> {
    /// The session's database, as its open transaction sees it.
    pub(super) fn database(&self) -> DatabaseUse {
        self.state.database.clone().seen_by(self.state.viewer())
    }

    /// Reports the transaction to the list of sessions, for the views.
    fn note_transaction(&self) {
        let open = self.state.transaction.as_ref().map(|open| (Arc::clone(&open.shared), open.count));
        self.environment.sessions.transaction_is(self.state.id, open);
    }
}

impl Transactions<'_, '_> {
    /// Checks that a statement may run in the transaction's state. Begins a transaction if the session has implicit
    /// transactions on.
    ///
    /// # Errors
    /// 3930 for a change in a doomed transaction; 3964 for a change of definitions under `SNAPSHOT`; 226, 574 and 3021
    /// for statements that cannot be rolled back; 6005.
    pub(super) fn enter_transaction(&mut self, kind: &StatementKind, position: Position) -> Result<(), Failure> {
        let is_implicit = self.batch.state.options.switch(SwitchOption::ImplicitTransactions);
        if is_implicit && self.batch.state.transaction.is_none() && begins_transaction(kind) {
            self.open_transaction(None)?;
        }
        let Some(open) = &self.batch.state.transaction else { return Ok(()) };
        if open.is_doomed && (is_write(kind) || matches!(kind, StatementKind::SaveTransaction { .. })) {
            return Err(errors::TRANSACTION_DOOMED.error().at(position).into());
        }
        // Even if the level has changed, the transaction uses the same snapshot when the level becomes `SNAPSHOT`
        // again.
        let is_snapshot =
            self.batch.state.options.isolation == IsolationLevel::Snapshot || open.has_begun_in_snapshot();
        if is_snapshot && changes_what_is_read(kind) {
            return Err(errors::SNAPSHOT_DEFINITION.error().at(position).into());
        }
        match forbidden_in_transaction(kind) {
            Some(error) => Err(error.at(position).into()),
            None => Ok(()),
        }
    }

    pub(super) fn begin_transaction(
        &mut self,
        name: Option<&TransactionName>,
        mark: Option<&str>,
        position: Position,
    ) -> Result<Outcome, Failure> {
        let name = self.transaction_name(name)?;
        if mark.is_some() && name.is_none() {
            return Err(errors::MARK_WITHOUT_NAME.error().at(position).into());
        }
        match &mut self.batch.state.transaction {
            Some(open) => open.count += 1,
            None => self.open_transaction(name.clone()).map_err(|error| error.at(position))?,
        }
        if let (Some(open), Some(name), Some(mark)) = (&self.batch.state.transaction, &name, mark) {
            let marked = open.transaction().set_mark(name, mark).map_err(AccessError::from).map_err(EngineError::from);
            marked.map_err(|error| SqlError::from(error).at(position))?;
        }
        self.batch.note_transaction();
        Ok(Outcome::QUIET)
    }

    fn open_transaction(&mut self, name: Option<String>) -> Result<(), SqlError> {
        let transaction =
            self.batch.environment.instance.begin_transaction(self.batch.state.id).map_err(SqlError::from)?;
        transaction.report_undo_to(&self.batch.state.progress);
        let shared = Arc::new(SharedTransaction { transaction, databases: Mutex::default(), name });
        self.batch.state.transaction = Some(OpenTransaction {
            shared,
            count: 1,
            is_doomed: false,
            savepoints: Vec::new(),
            temporary_tables: DroppedTables::default(),
            began_in_snapshot: OnceLock::new(),
            changed_in_tempdb: Mutex::default(),
        });
        self.batch.note_transaction();
        Ok(())
    }

    /// `COMMIT`. The name is ignored. Only the outermost `COMMIT` can request delayed durability.
    pub(super) fn commit_transaction(&mut self, delays: bool, position: Position) -> Result<Outcome, Failure> {
        let count_before_call = self.batch.capture.as_ref().map(|capture| capture.transaction_count);
        let Some(open) = &mut self.batch.state.transaction else {
            return Err(errors::COMMIT_WITHOUT_BEGIN.error().at(position).into());
        };
        if open.is_doomed {
            return Err(errors::TRANSACTION_DOOMED.error().at(position).into());
        }
        if count_before_call.is_some_and(|before| open.count <= before) {
            return Err(errors::COMMIT_IN_INSERT_EXEC.error().at(position).into());
        }
        if open.count > 1 {
            open.count -= 1;
            self.batch.note_transaction();
            return Ok(Outcome::QUIET);
        }
        if delays {
            open.transaction().delay_durability();
        }
        self.commit_open().map_err(|error| error.at(position))?;
        Ok(Outcome::QUIET)
    }

    fn commit_open(&mut self) -> Result<(), SqlError> {
        let Some(open) = self.batch.state.transaction.take() else { return Ok(()) };
        let ended = open.shared.end(&self.batch.environment.instance, true);
        self.batch.note_transaction();
        ended
    }

    pub(super) fn rollback_transaction(
        &mut self,
        name: Option<&TransactionName>,
        position: Position,
    ) -> Result<Outcome, Failure> {
        let name = self.transaction_name(name)?;
        let Some(open) = &self.batch.state.transaction else {
            return Err(errors::ROLLBACK_WITHOUT_BEGIN.error().at(position).into());
        };
        if let Some(name) = &name {
            if let Some(index) = open.savepoints.iter().rposition(|savepoint| savepoint.name == *name) {
                self.rollback_to(index, position)?;
                return Ok(Outcome::QUIET);
            }
            if open.shared.name() != Some(name) {
                return Err(errors::NO_SUCH_SAVEPOINT.with([&name]).at(position).into());
            }
        }
        if self.batch.capture.is_some() {
            return Err(Failure::of_batch(errors::ROLLBACK_IN_INSERT_EXEC.error().at(position)));
        }
        self.roll_back_open().map_err(|error| error.at(position))?;
        Ok(Outcome::QUIET)
    }

    fn rollback_to(&mut self, index: usize, position: Position) -> Result<(), Failure> {
        let Some(open) = &mut self.batch.state.transaction else { return Ok(()) };
        if open.is_doomed {
            return Err(errors::DOOMED_TO_SAVEPOINT.error().at(position).into());
        }
        open.savepoints.truncate(index + 1);
        let NamedSavepoint { place, dropped, .. } = &open.savepoints[index];
        let (place, dropped) = (place.clone(), *dropped);
        Ok(self.undo_to(&place, dropped)?)
    }

    /// Undoes the open transaction's changes since `place`, when it had dropped `dropped` temporary tables.
    fn undo_to(&mut self, place: &Savepoint, dropped: usize) -> Result<(), SqlError> {
        let Some(open) = &mut self.batch.state.transaction else { return Ok(()) };
        {
            let databases = open.shared.databases.lock();
            let named: Vec<&Database> = databases.iter().map(|database| &**database.database()).collect();
            let instance = &self.batch.environment.instance;
            instance.roll_back_to(&open.shared.transaction, place, &named).map_err(SqlError::from)?;
        }
        let mut tables = std::mem::take(&mut open.temporary_tables);
        let restored =
            restore_names(self.batch.environment, self.batch.state, &mut self.batch.frames, &mut tables, dropped);
        if let Some(open) = &mut self.batch.state.transaction {
            open.temporary_tables = tables;
        }
        self.batch.definitions().drop_tables_of_calls(&restored?)
    }

    /// Rolls back the open transaction, if there is one.
    pub(super) fn roll_back_open(&mut self) -> Result<(), SqlError> {
        let of_calls = roll_back(self.batch.environment, self.batch.state, &mut self.batch.frames)?;
        self.batch.definitions().drop_tables_of_calls(&of_calls)
    }

    pub(super) fn save_transaction(&mut self, name: &TransactionName, position: Position) -> Result<Outcome, Failure> {
        let name = self.transaction_name(Some(name))?.unwrap_or_default();
        let Some(open) = &mut self.batch.state.transaction else {
            return Err(errors::SAVE_WITHOUT_TRANSACTION.error().at(position).into());
        };
        let (place, dropped) = (open.transaction().set_savepoint(), open.temporary_tables.by_name.len());
        open.savepoints.push(NamedSavepoint { name, place, dropped });
        Ok(Outcome::QUIET)
    }

    fn transaction_name(&mut self, name: Option<&TransactionName>) -> Result<Option<String>, Failure> {
        Ok(match name {
            None => None,
            Some(TransactionName::Name(name)) => {
                if name.value.chars().count() > MAX_NAME {
                    let start: String = name.value.chars().take(MAX_NAME).collect();
                    let error = errors::IDENTIFIER_TOO_LONG.with([&start, &MAX_NAME]).at(name.position);
                    return Err(Failure::of_batch(error));
                }
                Some(name.value.clone())
            }
            Some(TransactionName::Variable(variable)) => {
                self.batch.variable_type(variable)?;
                let text = self.batch.text_value(&hobt_tsql::ast::Expression::Variable { name: variable.clone() })?;
                text.map(|text| text.chars().take(MAX_NAME).collect())
            }
        })
    }

    /// Dooms the open transaction: only `ROLLBACK` can end it.
    pub(super) fn doom_transaction(&mut self) {
        if let Some(open) = &mut self.batch.state.transaction {
            open.is_doomed = true;
        }
    }

    /// 3998: a doomed transaction does not outlive its batch.
    pub(super) fn end_doomed_transaction(&mut self) {
        if self.batch.state.transaction_state() >= 0 {
            return;
        }
        let error = errors::DOOMED_AT_END_OF_BATCH.error();
        self.batch.state.error = error.number;
        self.batch.report(error);
        if let Err(error) = self.roll_back_open() {
            self.batch.report(error);
        }
    }

    /// Runs `body`: the call of an `INSERT … EXEC` and the insertion of its result. Both are one statement, which is
    /// kept or undone as a whole.
    pub(super) fn in_insert_exec<R>(
        &mut self,
        body: impl FnOnce(&mut Interpreter<'_>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let begins = self.batch.state.transaction.is_none();
        if begins {
            self.open_transaction(None)?;
        }
        let begun = self.batch.state.transaction.as_ref().map(|open| {
            (open.transaction().stamp(), open.transaction().set_savepoint(), open.temporary_tables.by_name.len())
        });
        let result = body(self.batch);
        // An error that aborts the batch has already rolled the transaction back.
        if begun.as_ref().map(|(stamp, ..)| *stamp) != self.batch.state.viewer() {
            return result;
        }
        let ended = match (&result, begins, &begun) {
            (Ok(_), true, _) => self.commit_open(),
            (Ok(_), false, _) => Ok(()),
            (Err(_), true, _) => self.roll_back_open(),
            (Err(_), false, Some((_, place, dropped))) => self.undo_to(place, *dropped),
            (Err(_), false, None) => Ok(()),
        };
        ended?;
        result
    }
}
