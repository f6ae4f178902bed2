//! `DBCC CHECKDB`, `CHECKTABLE` and `CHECKALLOC`: whether pages, extents and counts agree.
//!
//! Every table that is checked is locked with `S`, so that no writer of it is under way; the tables are locked in the
//! order of their ids and let go of at the end. What is not locked (the catalog's own tables, tables that others are
//! making) may change meanwhile: a finding there counts only if it is found again, or if the log stood still all the
//! while. Extents that nothing owns are those of open transactions as long as there are any, and are not reported then.
//!
//! Pages are read through the buffer pool: what is damaged on disk alone is found once the page is no longer in memory.
//!
//! Leaves to others: how it is found out (`hobt_access::AllocationCheck`), repairs, of which there are none.

mod problem;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hobt_access::{AccessError, AllocationCheck, Finding, RowStore};
use hobt_base::{HobtId, Lsn, ObjectId, Position, SqlError, number};
use hobt_catalog::Table;
use hobt_engine::{DatabaseUse, EngineError, TableWriter};
use hobt_txn::StatementContext;
use hobt_txn::locks::{HeldLock, LockMode};
use hobt_types::Value;

use super::super::event::Message;
use super::super::failure::Failure;
use super::super::run::Interpreter;
use super::super::system_functions::parse_name;
use super::no_such_table;
use problem::{Found, Problem, counts, sql_error, unowned};

/// How often a finding in what is not locked must be found again.
const PASSES: usize = 4;
/// How long others get between two passes.
const BETWEEN_PASSES: Duration = Duration::from_millis(100);

/// What is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Everything.
    Database,
    /// Extents alone.
    Allocation,
}

impl Scope {
    fn command(self) -> &'static str {
        match self {
            Scope::Database => "CHECKDB",
            Scope::Allocation => "CHECKALLOC",
        }
    }
}

/// A heap or tree to check.
struct Part {
    index: i32,
    hobt: HobtId,
    /// Whether its rows are the table's.
    is_base: bool,
}

/// How a table came off.
struct Summary {
    rows: u64,
    pages: u64,
}

/// What stands behind the name: an index, or `NOINDEX`, changes nothing. Who asks for a repair must not take a check
/// for one.
fn check_second(argument: Option<&Value>, command: &str, position: Position) -> Result<(), SqlError> {
    let Some(Value::Text(word)) = argument else { return Ok(()) };
    let word = word.to_uppercase();
    if word == "NOINDEX" {
        return Ok(());
    }
    let error = match word.starts_with("REPAIR_") {
        true => SqlError::not_supported(format!("DBCC {command} with {word}")),
        false => SqlError::new(number::DBCC_ARGUMENT, "Parameter 2 is incorrect for this DBCC statement."),
    };
    Err(error.at(position))
}

impl Interpreter<'_> {
    /// `CHECKDB` and `CHECKALLOC`, of the current database or the one that the argument names; gives how many
    /// problems there are.
    pub(super) fn check_database(
        &mut self,
        arguments: &[Value],
        scope: Scope,
        says: bool,
        position: Position,
    ) -> Result<usize, Failure> {
        check_second(arguments.get(1), scope.command(), position)?;
        let database = self.database_to_check(arguments.first(), scope.command(), position)?;
        self.in_context(&database, |this, context| {
            let locks = this.lock_all(context, &database)?;
            let checked = this.check_locked(&database, scope, says, position);
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
        let wrong = || {
            let text = format!("DBCC {command} takes a database: its name, its id, or 0 for the current one.");
            SqlError::new(number::DBCC_ARGUMENT, text).at(position)
        };
        let instance = &self.environment.instance;
        let database = match argument {
            None | Some(Value::Int(0)) => return Ok(self.state.database.clone()),
            Some(Value::Text(name)) => instance.database(name),
            Some(Value::Int(id)) => {
                instance.database_by_id(hobt_base::DatabaseId(u16::try_from(*id).map_err(|_| wrong())?))
            }
            Some(_) => return Err(wrong().into()),
        };
        let database = database.map_err(|error: EngineError| error.to_sql_error().at(position))?;
        Ok(database.seen_by(self.state.viewer()))
    }

    /// Locks every table of users, and those that have come by the time the last lock is granted.
    fn lock_all(&self, context: &StatementContext, database: &DatabaseUse) -> Result<Vec<HeldLock>, Failure> {
        let mut held: BTreeMap<ObjectId, HeldLock> = BTreeMap::new();
        loop {
            let mut missing: Vec<ObjectId> = tables(database).into_values().map(|table| table.id).collect();
            missing.retain(|table| !held.contains_key(table));
            if missing.is_empty() {
                return Ok(held.into_values().collect());
            }
            for table in missing {
                held.insert(table, self.lock(context, database, table, LockMode::Shared)?);
            }
        }
    }

    /// Checks a database whose tables are locked, and says what came of it.
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
            self.wait_interruptibly(BETWEEN_PASSES)?;
            let next = self.pass(database, scope)?;
            pass.found.retain(|found| next.found.contains(found));
            certain = next.is_certain;
            pass.is_incomplete |= next.is_incomplete;
        }
        let before = pass.found.len();
        if !certain {
            pass.found.retain(|found| !matches!(found.problem, Problem::Storage(Finding::Unowned { .. })));
        }
        let left_out = before - pass.found.len();
        if says {
            self.say(position, number::DBCC_RESULTS, format!("DBCC results for '{}'.", database.name()))?;
        }
        let owned = pass.found.iter().filter(|found| found.owner.is_none());
        let (allocation, consistency) = counts(owned.clone());
        let alone: Vec<Found> = owned.cloned().collect();
        for found in &alone {
            self.report(sql_error(found, database).at(position));
        }
        if says && !alone.is_empty() {
            let text = format!(
                "{} found {allocation} allocation errors and {consistency} consistency errors not associated with any \
                 single object.",
                scope.command()
            );
            self.say(position, number::CHECK_ERRORS_OF_NO_OBJECT, text)?;
        }
        for (table, summary) in &pass.tables {
            self.table_results(database, table, summary.as_ref(), &pass.found, scope.command(), says, position)?;
        }
        if says && left_out > 0 {
            let text = format!(
                "{left_out} extents are allocated to what open transactions are making or dropping, and were not \
                 checked for an owner. Run DBCC {} again when none is open.",
                scope.command()
            );
            self.send_message(Message::plain(position.line, text))?;
        }
        let (allocation, consistency) = counts(pass.found.iter());
        if says || !pass.found.is_empty() {
            let text = format!(
                "{} found {allocation} allocation errors and {consistency} consistency errors in database '{}'.",
                scope.command(),
                database.name()
            );
            self.say(position, number::CHECK_RESULT, text)?;
        }
        Ok(pass.found.len())
    }

    /// `CHECKTABLE ('table')`.
    pub(super) fn check_table(&mut self, arguments: &[Value], says: bool, position: Position) -> Result<(), Failure> {
        let Some(Value::Text(name)) = arguments.first() else {
            let text = "DBCC CHECKTABLE takes the name of a table.";
            return Err(SqlError::new(number::DBCC_ARGUMENT, text).at(position).into());
        };
        check_second(arguments.get(1), "CHECKTABLE", position)?;
        let unknown = || no_such_table(name).at(position);
        let place = self.place(&parse_name(name).ok_or_else(unknown)?)?;
        let database = place.database.clone();
        self.in_context(&database, |this, context| {
            let mut lock = None;
            let table = loop {
                let snapshot = database.snapshot();
                let schema = snapshot.schema_id(&place.schema).ok_or_else(unknown)?;
                let found = snapshot.table(schema, &place.name).ok_or_else(unknown)?;
                if lock.as_ref().is_some_and(|(id, _)| *id == found.id) {
                    break Arc::clone(found);
                }
                // What was locked before has another's name by now.
                let id = found.id;
                lock = Some((id, this.lock(context, &database, id, LockMode::Shared)?));
            };
            let (mut found, summary) = this.look_at_table(&database, &table)?;
            // The catalog's own tables change while they are locked.
            for _ in 1..PASSES {
                if found.is_empty() || !table.is_system {
                    break;
                }
                this.wait_interruptibly(BETWEEN_PASSES)?;
                let (again, _) = this.look_at_table(&database, &table)?;
                found.retain(|found| again.contains(found));
            }
            this.table_results(&database, &table, summary.as_ref(), &found, "CHECKTABLE", says, position)
        })
    }

    /// Looks at a table once.
    fn look_at_table(
        &self,
        database: &DatabaseUse,
        table: &Arc<Table>,
    ) -> Result<(Vec<Found>, Option<Summary>), Failure> {
        let mut check = self.new_check(database)?;
        // Of the maps; they are no matter of one table.
        check.take_findings();
        let mut found = Vec::new();
        let summary = self.check_stores(&mut check, database, table, Scope::Database, &mut found)?;
        Ok((found, summary))
    }

    fn new_check(&self, database: &DatabaseUse) -> Result<AllocationCheck, Failure> {
        let check = AllocationCheck::new(database.storage()).map_err(|error| failure(database, error))?;
        Ok(check.until(Arc::clone(&self.cancelled)))
    }

    /// Looks at the whole database once.
    fn pass(&self, database: &DatabaseUse, scope: Scope) -> Result<Pass, Failure> {
        let before = at_rest(database);
        let mut check = self.new_check(database)?;
        let mut found: Vec<Found> = unowned(check.take_findings());
        let mut listed = Vec::new();
        let mut is_incomplete = false;
        let progress = Arc::clone(&self.state.progress);
        let all = tables(database);
        progress.set(0, all.values().map(|table| pages_of(database, table)).sum());
        for table in all.into_values() {
            let summary = self.check_stores(&mut check, database, &table, scope, &mut found)?;
            progress.add(pages_of(database, &table));
            is_incomplete |= summary.is_none();
            listed.push((table, summary));
        }
        // A run list that could not be read says nothing of what its table owns.
        is_incomplete |= found.iter().any(|found| matches!(found.problem, Problem::Storage(Finding::RunList { .. })));
        let rest = check.finish();
        if !is_incomplete {
            found.extend(unowned(rest));
        }
        let is_certain = before.is_some() && before == at_rest(database);
        Ok(Pass { found, tables: listed, is_certain, is_incomplete })
    }

    /// Checks the heaps and trees of a table; `None` if one could not be opened.
    fn check_stores(
        &self,
        check: &mut AllocationCheck,
        database: &DatabaseUse,
        table: &Arc<Table>,
        scope: Scope,
        found: &mut Vec<Found>,
    ) -> Result<Option<Summary>, Failure> {
        let mut summary = Some(Summary { rows: 0, pages: 0 });
        let before = found.len();
        for part in parts(table) {
            let owner = (table.id, part.index, part.hobt, table.name.clone());
            let store: RowStore = match database.store_to_read(part.hobt) {
                Ok(store) => store,
                Err(EngineError::Storage { error: AccessError::Damaged { page, damage, .. }, .. }) => {
                    let problem = Problem::Storage(Finding::Page { page, damage });
                    found.push(Found { problem, owner: Some(owner) });
                    summary = None;
                    continue;
                }
                Err(error) => match error.to_sql_error() {
                    // One that came after the locks were taken, and has gone.
                    dropped if dropped.number == number::INVALID_OBJECT => {
                        summary = None;
                        continue;
                    }
                    error => return Err(error.into()),
                },
            };
            let checked = match (scope, &store) {
                (Scope::Database, RowStore::Heap(heap)) => check.add_hobt(heap),
                (Scope::Database, RowStore::Tree(tree)) => check.add_tree(tree),
                (Scope::Allocation, store) => check.add_extents(store.hobt()),
            };
            checked.map_err(|error| failure(database, error))?;
            let findings = check.take_findings().into_iter();
            found.extend(
                findings.map(|finding| Found { problem: Problem::Storage(finding), owner: Some(owner.clone()) }),
            );
            if let (Some(summary), true) = (&mut summary, part.is_base) {
                summary.rows += store.hobt().row_count();
                summary.pages += store.hobt().data_pages();
            }
        }
        // Where pages are damaged, what is in them is not compared.
        if scope == Scope::Database && summary.is_some() && found.len() == before && table.indexes.len() > 1 {
            self.compare_indexes(database, table, found)?;
        }
        Ok(summary)
    }

    /// Compares every nonclustered index with the rows of its table.
    fn compare_indexes(
        &self,
        database: &DatabaseUse,
        table: &Arc<Table>,
        found: &mut Vec<Found>,
    ) -> Result<(), Failure> {
        let writer = TableWriter::open_to_read(database, &database.snapshot(), Arc::clone(table));
        let writer = writer.map_err(|error| error.to_sql_error())?;
        let is_cancelled = || self.cancelled.load(Ordering::Relaxed);
        for difference in writer.check_indexes(&is_cancelled).map_err(|error| failure(database, error))? {
            let index = &table.indexes[difference.index];
            let name = index.name.clone().unwrap_or_default();
            let hobt = index.partitions.first().map_or_else(HobtId::default, |partition| partition.hobt);
            let owner = Some((table.id, index.id.0, hobt, table.name.clone()));
            if difference.missing > 0 {
                let problem = Problem::Missing { index: name.clone(), rows: difference.missing };
                found.push(Found { problem, owner: owner.clone() });
            }
            if difference.extra > 0 {
                found.push(Found { problem: Problem::Extra { index: name, rows: difference.extra }, owner });
            }
        }
        Ok(())
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
        let mine = |found: &&Found| found.owner.as_ref().is_some_and(|(object, ..)| *object == table.id);
        if says {
            let text = format!("DBCC results for '{}'.", table.name);
            self.say(position, number::DBCC_RESULTS, text)?;
        }
        for found in found.iter().filter(mine) {
            self.report(sql_error(found, database).at(position));
        }
        if says && let Some(summary) = summary {
            let text =
                format!("There are {} rows in {} pages for object \"{}\".", summary.rows, summary.pages, table.name);
            self.say(position, number::CHECK_ROWS, text)?;
        }
        let (allocation, consistency) = counts(found.iter().filter(mine));
        if allocation + consistency > 0 {
            let text = format!(
                "{command} found {allocation} allocation errors and {consistency} consistency errors in table '{}' \
                 (object ID {}).",
                table.name, table.id
            );
            self.say(position, number::CHECK_TABLE_RESULT, text)?;
        }
        Ok(())
    }

    fn say(&mut self, position: Position, number: i32, text: String) -> Result<(), Failure> {
        self.send_message(Message::numbered(number, position.line, text))
    }
}

/// What one look at a database has brought.
struct Pass {
    found: Vec<Found>,
    /// By object id; without a summary where a heap could not be opened.
    tables: Vec<(Arc<Table>, Option<Summary>)>,
    /// Nothing changed meanwhile and no transaction is open: what was found is so.
    is_certain: bool,
    /// Who owns what is not known of every table.
    is_incomplete: bool,
}

/// The tables that are committed and those that the session's own transaction sees, by id: what that one has dropped is
/// there until it commits.
pub(super) fn tables(database: &DatabaseUse) -> BTreeMap<ObjectId, Arc<Table>> {
    let (committed, seen) = (database.database().snapshot(), database.snapshot());
    committed.tables.iter().chain(&seen.tables).map(|(id, table)| (*id, Arc::clone(table))).collect()
}

/// The heaps and trees of a table.
fn parts(table: &Table) -> impl Iterator<Item = Part> {
    table.indexes.iter().enumerate().flat_map(|(at, index)| {
        let part = move |hobt| Part { index: index.id.0, hobt, is_base: at == 0 };
        index.partitions.iter().map(move |partition| part(partition.hobt))
    })
}

/// The pages of a table, as far as its heaps and trees can be opened: the steps of its check.
fn pages_of(database: &DatabaseUse, table: &Table) -> u64 {
    let stores = parts(table).filter_map(|part| database.store_to_read(part.hobt).ok());
    stores.map(|store| store.hobt().used_pages()).sum()
}

/// The end of the log, if no transaction is open; `None` also for a database without a log.
fn at_rest(database: &DatabaseUse) -> Option<Lsn> {
    let log = database.storage().log()?;
    let end = log.log().end();
    (log.open_count() == 0).then_some(end)
}

fn failure(database: &DatabaseUse, error: AccessError) -> Failure {
    match error {
        AccessError::Cancelled => Failure::cancelled(),
        error => database.storage_error(error).to_sql_error().into(),
    }
}
