//! What happens: statements of several sessions, each on tables of its own, and what an administrator does.

use std::path::PathBuf;
use std::sync::Arc;

use hobt_base::{ObjectId, SessionId, SqlError, number};
use hobt_catalog::Growth;
use hobt_engine::{DatabaseDefinition, DatabaseUse, DelayedDurability, EngineError, FileDefinition, LogDescription};
use hobt_txn::StatementContext;

use crate::build::load_heap;
use crate::definitions;
use crate::model::{Delayed, Objects, Row, State, Table, differences_of_rows};
use crate::rows::{self, OpenTable, image};
use crate::simulation::{DATABASES, Open, Simulation, Step, Stop, session_prefix, small_file, small_log};

/// Names of tables that a session has in a database, at most.
const TABLES_MAX: usize = 4;
/// Rows of a table above which no more are inserted.
const ROWS_MAX: usize = 1500;

/// Files that are added to logs, at most.
const LOG_FILES_MAX: u32 = 4;

/// What one action of a statement does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Insert,
    InsertLarge,
    Delete,
    Update,
    Load,
    Truncate,
    Create,
    Drop,
    AddIndex,
    DropIndex,
    Rebuild,
    AlterColumns,
    Constraint,
    Split,
    Merge,
    TruncatePartition,
    Switch,
    Sequence,
}

/// By their weights.
const ACTIONS: [(Action, usize); 18] = [
    (Action::Insert, 40),
    (Action::InsertLarge, 8),
    (Action::Delete, 18),
    (Action::Update, 14),
    (Action::Load, 16),
    (Action::Truncate, 4),
    (Action::Create, 9),
    (Action::Drop, 5),
    (Action::AddIndex, 9),
    (Action::DropIndex, 4),
    (Action::Rebuild, 3),
    (Action::AlterColumns, 6),
    (Action::Constraint, 4),
    (Action::Split, 5),
    (Action::Merge, 3),
    (Action::TruncatePartition, 3),
    (Action::Switch, 6),
    (Action::Sequence, 6),
];

/// Why an action did not come to its end.
pub(crate) enum Wrong {
    Engine(EngineError),
    Model(String),
}

impl From<EngineError> for Wrong {
    fn from(error: EngineError) -> Wrong {
        Wrong::Engine(error)
    }
}

/// The lock of a table that no other session uses.
pub(crate) fn unlocked(_table: ObjectId) -> Result<(), SqlError> {
    Ok(())
}

impl Simulation {
    /// One step of the script.
    pub(crate) fn step(&mut self) -> Step<()> {
        match self.below(100) {
            0..5 => self.checkpoint(),
            5..8 => self.write_dirty_pages(),
            8..11 => {
                self.instance().pool().drop_clean_buffers(None);
                Ok(())
            }
            11..13 => self.other_database(),
            13..14 => self.add_file(),
            18..19 => self.change_log_files(),
            14..16 => self.reopen(),
            16..18 => self.flush_log(),
            _ => self.session_step(),
        }
    }

    fn checkpoint(&mut self) -> Step<()> {
        self.note("CHECKPOINT".to_owned());
        let done = self.instance().checkpoint();
        done.map_err(|error| self.stop("CHECKPOINT", &error))
    }

    /// Writes pages without a checkpoint, those of open transactions too.
    fn write_dirty_pages(&mut self) -> Step<()> {
        let index = self.below(DATABASES.len());
        let database = self.database(index)?;
        self.note(format!("dirty pages of {} are written", DATABASES[index]));
        let done = database.storage().flush().map_err(|error| database.storage_error(error));
        done.map_err(|error| self.stop("writing pages", &error))
    }

    /// Makes the commits of a database durable that are not.
    fn flush_log(&mut self) -> Step<()> {
        let index = self.below(DATABASES.len());
        self.note(format!("sp_flush_log in {}", DATABASES[index]));
        let database = self.database(index)?;
        database.flush_log().map_err(|error| self.stop("sp_flush_log", &error))?;
        self.delayed[index].clear();
        Ok(())
    }

    /// Makes a database or drops one.
    fn other_database(&mut self) -> Step<()> {
        let instance = self.instance();
        if let Some(name) = self.others.listed.first().cloned().filter(|_| self.others.listed.len() > 1) {
            self.note(format!("DROP DATABASE {name}"));
            self.others.doubtful = Some(name.clone());
            instance.drop_database(&name).map_err(|error| self.stop("DROP DATABASE", &error))?;
            self.others.listed.remove(&name);
        } else {
            self.others.made += 1;
            let name = format!("other{}", self.others.made);
            self.note(format!("CREATE DATABASE {name}"));
            self.others.doubtful = Some(name.clone());
            let definition = DatabaseDefinition {
                name: name.clone(),
                primary: vec![small_file(&name)],
                log: vec![small_log(&name)],
                ..DatabaseDefinition::default()
            };
            instance.create_database(&definition).map_err(|error| self.stop("CREATE DATABASE", &error))?;
            self.others.listed.insert(name);
        }
        self.others.doubtful = None;
        Ok(())
    }

    fn add_file(&mut self) -> Step<()> {
        if self.files_added == 3 {
            return Ok(());
        }
        self.files_added += 1;
        let index = self.below(DATABASES.len());
        let name = format!("more{}", self.files_added);
        let database = self.database(index)?;
        self.note(format!("ALTER DATABASE {} ADD FILE {name}", DATABASES[index]));
        let file = FileDefinition {
            path: Some(PathBuf::from(format!("{name}.ndf"))),
            name: Some(name),
            size_pages: Some(64),
            growth: Some(Growth::Pages(64)),
            max_pages: None,
        };
        let added = self.instance().add_files(&database, None, &[file]);
        added.map(drop).map_err(|error| self.stop("ADD FILE", &error))
    }

    /// Adds a file to a log, or removes one that is not used.
    fn change_log_files(&mut self) -> Step<()> {
        let index = self.below(DATABASES.len());
        let database = self.database(index)?;
        let log = LogDescription::of(database.storage()).expect("it has a log");
        if log.files.len() > 2 {
            let at = 1 + self.below(log.files.len() - 1);
            let name = log.files[at].name.clone();
            self.note(format!("ALTER DATABASE {} REMOVE FILE {name}", DATABASES[index]));
            return match self.instance().remove_file(&database, &name) {
                Err(EngineError::Statement(error)) if error.number == number::FILE_NOT_EMPTY => Ok(()),
                removed => removed.map_err(|error| self.stop("REMOVE FILE", &error)),
            };
        }
        if self.log_files_added == LOG_FILES_MAX {
            return Ok(());
        }
        self.log_files_added += 1;
        let name = format!("log{}", self.log_files_added);
        self.note(format!("ALTER DATABASE {} ADD LOG FILE {name}", DATABASES[index]));
        let file = FileDefinition {
            path: Some(PathBuf::from(format!("{name}.ldf"))),
            name: Some(name),
            size_pages: Some(512),
            growth: Some(Growth::None),
            max_pages: None,
        };
        let added = self.instance().add_log_files(&database, &[file]);
        added.map(drop).map_err(|error| self.stop("ADD LOG FILE", &error))
    }

    /// Ends all transactions, one way or the other.
    pub(crate) fn end_transactions(&mut self) -> Step<()> {
        for session in 0..self.sessions.len() {
            if self.sessions[session].open.is_some() {
                let commits = self.chance(50);
                self.end_transaction(session, commits)?;
            }
        }
        Ok(())
    }

    /// Closes the instance and starts it again, or looks what is in it.
    fn reopen(&mut self) -> Step<()> {
        self.end_transactions()?;
        self.note("looks around".to_owned());
        self.verify_alive()
    }

    fn session_step(&mut self) -> Step<()> {
        let session = self.below(self.sessions.len());
        if self.sessions[session].open.is_none() {
            if self.chance(45) { self.begin_transaction(session) } else { self.autocommit(session) }
        } else {
            match self.below(100) {
                0..62 => self.statement_in_transaction(session),
                62..84 => self.end_transaction(session, true),
                84..90 => self.end_transaction(session, false),
                90..95 => self.save(session),
                _ => self.roll_back_to(session),
            }
        }
    }

    fn begin_transaction(&mut self, session: usize) -> Step<()> {
        let begun = self.instance().begin_transaction(session_id(session));
        let transaction = begun.map_err(|error| self.stop("BEGIN TRANSACTION", &error))?;
        let working = self.sessions[session].truth.committed.clone();
        self.note(format!("s{session}: BEGIN TRANSACTION"));
        self.sessions[session].open = Some(Open { transaction, working, savepoints: Vec::new() });
        Ok(())
    }

    fn save(&mut self, session: usize) -> Step<()> {
        self.note(format!("s{session}: SAVE TRANSACTION"));
        let open = self.sessions[session].open.as_mut().expect("the caller has looked");
        open.savepoints.push((open.transaction.savepoint(), open.working.clone()));
        Ok(())
    }

    fn roll_back_to(&mut self, session: usize) -> Step<()> {
        let instance = self.instance();
        let uses = self.uses()?;
        let databases: Vec<_> = uses.iter().map(|database| &***database).collect();
        let open = self.sessions[session].open.as_mut().expect("the caller has looked");
        let Some((place, state)) = open.savepoints.last().cloned() else { return Ok(()) };
        open.working = state;
        let done = instance.roll_back_to(&open.transaction, place, &databases);
        self.note(format!("s{session}: ROLLBACK TRANSACTION to the savepoint"));
        done.map_err(|error| self.stop("ROLLBACK to a savepoint", &error))
    }

    fn end_transaction(&mut self, session: usize, commits: bool) -> Step<()> {
        self.note(format!("s{session}: {}", if commits { "COMMIT" } else { "ROLLBACK" }));
        let instance = self.instance();
        let uses = self.uses()?;
        let databases: Vec<_> = uses.iter().map(|database| &***database).collect();
        let open = self.sessions[session].open.take().expect("the caller has looked");
        let is_across = open.working.changed_from(&self.sessions[session].truth.committed) > 1;
        let delays = commits && self.chance(40);
        if delays {
            open.transaction.delay_durability();
        }
        if commits {
            self.sessions[session].truth.doubtful = Some(open.working);
            self.report.doubtful += 1;
        }
        let ended = instance.end_transaction(&open.transaction, commits, &databases);
        ended.map_err(|error| self.stop("the end of a transaction", &error))?;
        if commits {
            self.report.commits_across += u64::from(is_across);
            self.acknowledge(session, delays);
        }
        Ok(())
    }

    /// The commit of a session's transaction is acknowledged: it is durable, with all before it in its databases, unless
    /// its one database let it be delayed.
    fn acknowledge(&mut self, session: usize, asks_for_delay: bool) {
        let truth = &mut self.sessions[session].truth;
        let now = truth.doubtful.take().expect("it was in doubt until now");
        let before = std::mem::replace(&mut truth.committed, now);
        let committed = &truth.committed;
        let changed: Vec<usize> = (0..DATABASES.len()).filter(|at| before.0[*at] != committed.0[*at]).collect();
        for &index in &changed {
            let delays = match self.durability[index] {
                DelayedDurability::Disabled => false,
                DelayedDurability::Allowed => asks_for_delay,
                DelayedDurability::Forced => true,
            };
            if delays && changed.len() == 1 {
                self.delayed[index].push(Delayed { session, before: before.0[index].clone() });
                self.report.commits_delayed += 1;
            } else {
                self.delayed[index].clear();
            }
        }
        self.report.commits += 1;
        self.report.doubtful -= 1;
    }

    /// Both databases, if both can be used.
    fn uses(&mut self) -> Step<Vec<DatabaseUse>> {
        (0..DATABASES.len()).map(|index| self.database(index)).collect()
    }

    fn statement_in_transaction(&mut self, session: usize) -> Step<()> {
        let instance = self.instance();
        let open = self.sessions[session].open.as_ref().expect("the caller has looked");
        let ctx = instance.statement_of(&open.transaction, session_id(session), 1, Arc::default());
        let before = open.working.clone();
        let outcome = self.statement(session, &ctx, before)?;
        if let Some(working) = outcome {
            self.sessions[session].open.as_mut().expect("it is open still").working = working;
        }
        Ok(())
    }

    fn autocommit(&mut self, session: usize) -> Step<()> {
        let begun = self.instance().statement_context(session_id(session), 1, Arc::default());
        let ctx = begun.map_err(|error| self.stop("a statement", &error))?;
        let before = self.sessions[session].truth.committed.clone();
        self.statement(session, &ctx, before)?;
        Ok(())
    }

    /// Runs a statement and ends it; what its session's tables are then, unless it failed, as some are told to.
    fn statement(&mut self, session: usize, ctx: &Arc<StatementContext>, mut state: State) -> Step<Option<State>> {
        self.report.statements += 1;
        let index = self.below(DATABASES.len());
        let database = self.database(index)?;
        let mut done = Ok(());
        for _ in 0..1 + self.below(3) {
            done = self.action(session, &database, ctx, &mut state.0[index]);
            if done.is_err() {
                break;
            }
        }
        if let Err(Wrong::Model(text)) = done {
            return Err(Stop::Bug(text));
        }
        let succeeded = done.is_ok() && !self.chance(12);
        let commits = succeeded && !ctx.is_in_transaction();
        if commits {
            self.sessions[session].truth.doubtful = Some(state.clone());
            self.report.doubtful += 1;
        }
        let failed = match done {
            Err(Wrong::Engine(error)) => Some(self.stop("a statement", &error)),
            _ => None,
        };
        if let Some(Stop::Crash | Stop::Bug(_)) = &failed {
            return Err(failed.expect("just seen"));
        }
        if !succeeded {
            self.note(format!("s{session}: the statement is undone"));
        }
        let ended = self.instance().end_statement(ctx, succeeded, &[&database]);
        ended.map_err(|error| self.stop("the end of a statement", &error))?;
        if commits {
            self.acknowledge(session, false);
        }
        match failed {
            Some(stop) => Err(stop),
            None => Ok(succeeded.then_some(state)),
        }
    }

    fn choose_action(&mut self) -> Action {
        let mut rest = self.below(ACTIONS.iter().map(|(_, weight)| weight).sum());
        for (action, weight) in ACTIONS {
            if rest < weight {
                return action;
            }
            rest -= weight;
        }
        unreachable!("the weights' sum was the bound")
    }

    fn action(
        &mut self,
        session: usize,
        database: &DatabaseUse,
        ctx: &Arc<StatementContext>,
        objects: &mut Objects,
    ) -> Result<(), Wrong> {
        let action = self.choose_action();
        let free = (0..TABLES_MAX)
            .map(|n| format!("{}{n}", session_prefix(session)))
            .find(|name| !objects.tables.contains_key(name));
        if action == Action::Sequence {
            return self.sequence(session, database, ctx, objects);
        }
        if objects.tables.is_empty() || action == Action::Create {
            let Some(name) = free else { return Ok(()) };
            return self.create_table(session, database, ctx, objects, &name);
        }
        let at = self.below(objects.tables.len());
        let name = objects.tables.keys().nth(at).expect("below their number").clone();
        let rows = objects.tables[&name].rows.len();
        self.note(format!("s{session}: {action:?} {}.{name} ({rows} rows)", database.name()));
        let is_referenced = objects.is_referenced(&name);
        match action {
            Action::Drop | Action::Truncate | Action::TruncatePartition if is_referenced => {
                return definitions::is_refused(database, ctx, &name, action);
            }
            Action::Drop => return definitions::drop_table(database, ctx, objects, &name),
            Action::Truncate => {
                database.truncate_table(ctx, "dbo", &name, &mut unlocked)?;
                objects.tables.get_mut(&name).expect("it was chosen from them").rows.clear();
                return Ok(());
            }
            Action::Switch => return self.switch(database, ctx, objects, free),
            Action::Constraint => return self.constraint(database, ctx, objects, &name),
            _ => {}
        }
        let model = objects.tables.get_mut(&name).expect("it was chosen from them");
        match action {
            Action::AddIndex => self.add_index(database, ctx, &name, model),
            Action::DropIndex => self.drop_index(database, ctx, &name, model, is_referenced),
            Action::Rebuild => self.rebuild(database, ctx, &name, model),
            Action::AlterColumns => self.alter_columns(database, ctx, &name, model),
            Action::Split => self.split(database, ctx, &name, model),
            Action::Merge => self.merge(database, ctx, &name, model),
            Action::TruncatePartition => self.truncate_partition(database, ctx, &name, model),
            Action::Insert => {
                let count = 1 + self.below(40);
                self.insert(database, ctx, &name, model, count, 300)
            }
            Action::InsertLarge => {
                let count = 1 + self.below(2);
                self.insert(database, ctx, &name, model, count, 40_000)
            }
            Action::Load => self.load(database, ctx, &name, model),
            _ => self.delete(database, ctx, &name, model, action == Action::Update),
        }
    }

    /// A new key and a row of it, as far as a table has columns for it.
    fn new_row(&mut self, model: &Table, bytes_max: usize) -> (i32, Row) {
        let key = self.next_key;
        self.next_key += 1;
        let number = if self.chance(80) { Some(i64::from(key) * 3 % 1000) } else { None };
        let payload = if self.chance(85) {
            let length = self.below(bytes_max + 1);
            Some(rows::payload(key, length))
        } else {
            None
        };
        let extra = self.chance(50).then_some(key / 2);
        let has = |column| model.shape.has_column(column);
        let row = Row {
            number: number.filter(|_| has("number")),
            payload: payload.filter(|_| has("payload")),
            extra: extra.filter(|_| has("extra")),
        };
        (key, row)
    }

    fn insert(
        &mut self,
        database: &DatabaseUse,
        ctx: &StatementContext,
        name: &str,
        model: &mut Table,
        count: usize,
        bytes_max: usize,
    ) -> Result<(), Wrong> {
        if model.rows.len() > ROWS_MAX {
            return Ok(());
        }
        let open = open(database, ctx, name)?;
        for _ in 0..count {
            let (key, row) = self.new_row(model, bytes_max);
            open.insert(ctx, key, &row)?;
            model.rows.insert(key, row);
        }
        Ok(())
    }

    /// Loads rows in bulk; where there are indexes, one by one.
    fn load(
        &mut self,
        database: &DatabaseUse,
        ctx: &Arc<StatementContext>,
        name: &str,
        model: &mut Table,
    ) -> Result<(), Wrong> {
        if model.rows.len() > ROWS_MAX {
            return Ok(());
        }
        let open = open(database, ctx, name)?;
        let count = [0, 3, 60, 500][self.below(4)];
        let bytes_max = if self.chance(10) { 12_000 } else { 250 };
        let Some(heaps) = open.writer().heaps() else {
            return self.insert(database, ctx, name, model, count / 5, bytes_max);
        };
        let count = if bytes_max > 250 { count / 10 } else { count };
        let loaded: Vec<(i32, Row)> = (0..count).map(|_| self.new_row(model, bytes_max)).collect();
        let batch_rows = 1 + self.below(200);
        for (partition, heap) in heaps.iter().enumerate() {
            let own = loaded.iter().filter(|(key, _)| open.partition_of(*key) == partition);
            let images: Vec<_> = own.map(|(key, row)| image(open.table(), *key, row)).collect();
            load_heap(database, heap, ctx, &images, batch_rows)?;
        }
        model.rows.extend(loaded);
        Ok(())
    }

    /// Deletes some rows; as an update, it puts others into their places.
    fn delete(
        &mut self,
        database: &DatabaseUse,
        ctx: &StatementContext,
        name: &str,
        model: &mut Table,
        replaces: bool,
    ) -> Result<(), Wrong> {
        let open = open(database, ctx, name)?;
        let (found, places) = open.read()?;
        if let Some(text) = differences_of_rows(&model.rows, &found) {
            return Err(Wrong::Model(format!("{} {name} read amid a transaction: {text}", database.name())));
        }
        if model.rows.is_empty() {
            return Ok(());
        }
        let first = self.below(model.rows.len());
        let count = 1 + self.below(25);
        let keys: Vec<i32> = model.rows.keys().skip(first).take(count).copied().collect();
        if replaces {
            let mut updates = Vec::with_capacity(keys.len());
            for key in keys {
                // Some rows get another key, and so may go to another place of a tree, or to another partition.
                let (other, row) = self.new_row(model, 300);
                let new = if self.chance(20) { other } else { key };
                updates.push((places[&key].clone(), new, row.clone()));
                model.rows.remove(&key);
                model.rows.insert(new, row);
            }
            open.replace(ctx, updates)?;
        } else {
            for key in keys {
                open.delete(ctx, &places[&key])?;
                model.rows.remove(&key);
            }
        }
        Ok(())
    }
}

/// Opens a table as a statement sees it.
pub(crate) fn open<'d>(database: &'d DatabaseUse, ctx: &StatementContext, name: &str) -> Result<OpenTable<'d>, Wrong> {
    let snapshot = database.snapshot_of(ctx);
    let table = snapshot.table(1, name);
    let table = table.ok_or_else(|| Wrong::Model(format!("table {name} is not in the catalog")))?;
    Ok(OpenTable::new(database, &snapshot, table)?)
}

fn session_id(session: usize) -> SessionId {
    SessionId(51 + i32::try_from(session).expect("a few sessions"))
}
