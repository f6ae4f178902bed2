//! `DBCC CHECKDB`, `CHECKTABLE` and `CHECKALLOC`: whether pages, extents and counts agree.
//!
//! Every checked table is locked with `S`, so no writer is active in it. Tables are locked in the order of their ids
//! and unlocked at the end. Unlocked objects (the catalog's own tables, tables that other transactions are creating)
//! may change during the check. A finding in them counts only if it is found again, or if the log did not grow
//! meanwhile. Extents without an owner may belong to open transactions, so they are not reported while there are any.
//!
//! Pages are read through the buffer pool, so damage on disk only is found once the page is no longer in memory.
//!
//! The checks themselves are in `hobt_engine::DatabaseCheck`. There are no repairs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hobt_access::{AccessError, Finding};
use hobt_base::{Lsn, ObjectId, Position, SqlError, errors};
use hobt_catalog::Table;
pub(super) use hobt_engine::CheckScope as Scope;
use hobt_engine::{
    CheckedTable as Summary, DatabaseCheck, DatabaseUse, EngineError, Found, Problem, problem_counts as counts,
};
use hobt_txn::StatementContext;
use hobt_txn::locks::{HeldLock, LockMode};
use hobt_types::Value;

use super::no_such_table;
use crate::dbcc::Maintenance;
use crate::event::Message;
use crate::failure::Failure;
use crate::system_functions::parse_name;

/// How often an unlocked object is checked: a finding must occur every time.
const PASSES: usize = 4;
/// The pause between two passes, in which other transactions can proceed.
const BETWEEN_PASSES: Duration = Duration::from_millis(100);

/// The name of the command with this scope.
fn command_of(scope: Scope) -> &'static str {
    match scope {
        Scope::Database => "CHECKDB",
        Scope::Allocation => "CHECKALLOC",
    }
}

/// Checks the argument after the name. An index or `NOINDEX` has no effect. A repair is rejected, so that a check is
/// not mistaken for one.
fn check_second(argument: Option<&Value>, command: &str, position: Position) -> Result<(), SqlError> {
    let Some(Value::Text(word)) = argument else { return Ok(()) };
    let word = word.to_uppercase();
    if word == "NOINDEX" {
        return Ok(());
    }
    let error = match word.starts_with("REPAIR_") {
        true => SqlError::not_supported(format!("DBCC {command} with {word}")),
        false => errors::DBCC_PARAMETER.with([&2]),
    };
    Err(error.at(position))
}

impl Maintenance<'_, '_> {
    /// `CHECKDB` and `CHECKALLOC` of the current database, or of the one in the argument. Returns the number of
    /// problems.
    pub(super) fn check_database(
        &mut self,
        arguments: &[Value],
        scope: Scope,
        says: bool,
        position: Position,
    ) -> Result<usize, Failure> {
        check_second(arguments.get(1), command_of(scope), position)?;
        let database = self.database_to_check(arguments.first(), command_of(scope), position)?;
        self.batch.in_context(&database, |this, context| {
            let locks = this.maintenance().lock_all(context, &database)?;
            let checked = this.maintenance().check_locked(&database, scope, says, position);
            drop(locks);
            checked
        })
    }

    pub(super) fn database_to_check(
        &self,
        argument: Option<&Value>,
        command: &str,
        position: Position,
    ) -> Result<DatabaseUse, Failure> {
        let wrong = || errors::DBCC_DATABASE_ARGUMENT.with([&command]).at(position);
        let instance = &self.batch.environment.instance;
        let database = match argument {
            None | Some(Value::Int(0)) => return Ok(self.batch.state.database.clone()),
            Some(Value::Text(name)) => instance.database(name),
            Some(Value::Int(id)) => {
                instance.database_by_id(hobt_base::DatabaseId(u16::try_from(*id).map_err(|_| wrong())?))
            }
            Some(_) => return Err(wrong().into()),
        };
        let database = database.map_err(|error: EngineError| error.to_sql_error().at(position))?;
        Ok(database.seen_by(self.batch.state.viewer()))
    }

    /// Locks every user table, including those created before the last lock is granted.
    fn lock_all(&self, context: &StatementContext, database: &DatabaseUse) -> Result<Vec<HeldLock>, Failure> {
        let mut held: BTreeMap<ObjectId, HeldLock> = BTreeMap::new();
        loop {
            let mut missing: Vec<ObjectId> = tables(database).into_values().map(|table| table.id).collect();
            missing.retain(|table| !held.contains_key(table));
            if missing.is_empty() {
                return Ok(held.into_values().collect());
            }
            for table in missing {
                held.insert(table, self.batch.lock(context, database, table, LockMode::Shared)?);
            }
        }
    }

    /// Checks a database whose tables are locked, and reports the result.
    fn check_locked(
        &mut self,
        database: &DatabaseUse,
        scope: Scope,
        says: bool,
        position: Position,
    ) -> Result<usize, Failure> {
        let mut pass = self.pass(database, scope)?;
        let mut certain = pass.is_certain;
        for _ in 1..PASSES {
            if certain || pass.found.is_empty() {
                break;
            }
            self.batch.wait_interruptibly(BETWEEN_PASSES)?;
            let next = self.pass(database, scope)?;
            pass.found.retain(|found| next.found.contains(found));
            certain = next.is_certain;
        }
        let before = pass.found.len();
        if !certain {
            pass.found.retain(|found| !matches!(found.problem, Problem::Storage(Finding::Unowned { .. })));
        }
        let left_out = before - pass.found.len();
        if says {
            self.say(position, errors::DBCC_RESULTS.with([&database.name()]))?;
        }
        let owned = pass.found.iter().filter(|found| found.owner.is_none());
        let (allocation, consistency) = counts(owned.clone());
        let alone: Vec<Found> = owned.cloned().collect();
        for found in &alone {
            self.batch.report(found.to_sql_error(database).at(position));
        }
        if says && !alone.is_empty() {
            self.say(
                position,
                errors::CHECK_ERRORS_OF_NO_OBJECT.with([&command_of(scope), &allocation, &consistency]),
            )?;
        }
        for (table, summary) in &pass.tables {
            self.table_results(database, table, summary.as_ref(), &pass.found, command_of(scope), says, position)?;
        }
        if says && left_out > 0 {
            let text = format!(
                "{left_out} extents are allocated to what open transactions are making or dropping, and were not \
                 checked for an owner. Run DBCC {} again when none is open.",
                command_of(scope)
            );
            self.batch.send_message(Message::plain(position.line, text))?;
        }
        if says && scope == Scope::Database {
            for text in database.mended_copies() {
                self.batch
                    .send_message(Message::plain(position.line, format!("When the database was opened: {text}")))?;
            }
        }
        let (allocation, consistency) = counts(pass.found.iter());
        if says || !pass.found.is_empty() {
            self.say(
                position,
                errors::CHECK_RESULT.with([&command_of(scope), &allocation, &consistency, &database.name()]),
            )?;
        }
        Ok(pass.found.len())
    }

    /// `CHECKTABLE ('table')`.
    pub(super) fn check_table(&mut self, arguments: &[Value], says: bool, position: Position) -> Result<(), Failure> {
        let Some(Value::Text(name)) = arguments.first() else {
            return Err(errors::CHECKTABLE_ARGUMENT.error().at(position).into());
        };
        check_second(arguments.get(1), "CHECKTABLE", position)?;
        let unknown = || no_such_table(name).at(position);
        let place = self.batch.place(&parse_name(name).ok_or_else(unknown)?)?;
        let database = place.database.clone();
        self.batch.in_context(&database, |this, context| {
            let mut lock = None;
            let table = loop {
                let snapshot = database.snapshot();
                let schema = snapshot.schema_id(&place.schema).ok_or_else(unknown)?;
                let found = snapshot.table(schema, &place.name).ok_or_else(unknown)?;
                if lock.as_ref().is_some_and(|(id, _)| *id == found.id) {
                    break Arc::clone(found);
                }
                // The name now means another table than the one locked before.
                let id = found.id;
                lock = Some((id, this.lock(context, &database, id, LockMode::Shared)?));
            };
            let (mut found, summary) = this.maintenance().look_at_table(&database, &table)?;
            // The catalog's own tables change while they are locked.
            for _ in 1..PASSES {
                if found.is_empty() || !table.is_system {
                    break;
                }
                this.wait_interruptibly(BETWEEN_PASSES)?;
                let (again, _) = this.maintenance().look_at_table(&database, &table)?;
                found.retain(|found| again.contains(found));
            }
            this.maintenance().table_results(&database, &table, summary.as_ref(), &found, "CHECKTABLE", says, position)
        })
    }

    /// Checks a table once.
    fn look_at_table(
        &self,
        database: &DatabaseUse,
        table: &Arc<Table>,
    ) -> Result<(Vec<Found>, Option<Summary>), Failure> {
        let check = DatabaseCheck::of_tables(database, database.snapshot(), Arc::clone(&self.batch.cancelled));
        let mut check = check.map_err(failure)?;
        check.count(&self.batch.state.progress, [table]);
        let summary = check.table(table).map_err(failure)?;
        Ok((check.take_found(), summary))
    }

    /// Checks the whole database once.
    fn pass(&self, database: &DatabaseUse, scope: Scope) -> Result<Pass, Failure> {
        let before = at_rest(database);
        let check = DatabaseCheck::begin(database, database.snapshot(), scope, Arc::clone(&self.batch.cancelled));
        let mut check = check.map_err(failure)?;
        let mut listed = Vec::new();
        let all = tables(database);
        check.count(&self.batch.state.progress, all.values());
        for table in all.into_values() {
            let summary = check.table(&table).map_err(failure)?;
            listed.push((table, summary));
        }
        let (found, _) = check.finish();
        let is_certain = before.is_some() && before == at_rest(database);
        Ok(Pass { found, tables: listed, is_certain })
    }

    #[expect(clippy::too_many_arguments, reason = "what one table's part of the report is made of")]
    fn table_results(
        &mut self,
        database: &DatabaseUse,
        table: &Table,
        summary: Option<&Summary>,
        found: &[Found],
        command: &str,
        says: bool,
        position: Position,
    ) -> Result<(), Failure> {
        let mine = |found: &&Found| found.owner.as_ref().is_some_and(|owner| owner.object == table.id);
        if says {
            self.say(position, errors::DBCC_RESULTS.with([&table.name]))?;
        }
        for found in found.iter().filter(mine) {
            self.batch.report(found.to_sql_error(database).at(position));
        }
        if says && let Some(summary) = summary {
            self.say(position, errors::CHECK_ROWS.with([&summary.rows, &summary.pages, &table.name]))?;
        }
        let (allocation, consistency) = counts(found.iter().filter(mine));
        if allocation + consistency > 0 {
            self.say(
                position,
                errors::CHECK_TABLE_RESULT.with([&command, &allocation, &consistency, &table.name, &table.id]),
            )?;
        }
        Ok(())
    }

    fn say(&mut self, position: Position, message: SqlError) -> Result<(), Failure> {
        self.batch.send_message(Message::of(position.line, message))
    }
}

/// The result of one pass over a database.
struct Pass {
    found: Vec<Found>,
    /// By object id. Without a summary if a heap could not be opened.
    tables: Vec<(Arc<Table>, Option<Summary>)>,
    /// Whether nothing changed during the pass and no transaction is open, so that the findings are certain.
    is_certain: bool,
}

/// The committed tables and those visible to the session's own transaction, by id. A table that this transaction has
/// dropped exists until it commits.
pub(super) fn tables(database: &DatabaseUse) -> BTreeMap<ObjectId, Arc<Table>> {
    let (committed, seen) = (database.database().snapshot(), database.snapshot());
    committed.tables.iter().chain(&seen.tables).map(|(id, table)| (*id, Arc::clone(table))).collect()
}

/// The end of the log if no transaction is open. `None` also for a database without a log.
fn at_rest(database: &DatabaseUse) -> Option<Lsn> {
    let log = database.storage().log()?;
    let end = log.log().end();
    (log.open_count() == 0).then_some(end)
}

fn failure(error: EngineError) -> Failure {
    match error {
        EngineError::Storage { error: AccessError::Cancelled, .. } => Failure::cancelled(),
        error => error.to_sql_error().into(),
    }
}
