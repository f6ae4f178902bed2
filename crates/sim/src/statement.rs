//! Statements of a session: each is some actions on its tables, kept or undone together.

use std::sync::Arc;

use hobt_base::{ObjectId, SqlError};
use hobt_catalog::DatabaseSnapshot;
use hobt_engine::{DatabaseUse, EngineError, TableChange};
use hobt_txn::StatementContext;

use crate::build::{fill, load_heap};
use crate::check::shape_of;
use crate::definitions;
use crate::model::{Objects, Row, Rows, Shape, State, Table, differences_of_rows};
use crate::rows::{self, OpenTable, image};
use crate::simulation::{DATABASES, Simulation, Step, Stop, session_prefix};

/// The maximum number of tables that a session has in a database.
const TABLES_MAX: usize = 4;
/// The number of rows of a table above which no more are inserted.
const ROWS_MAX: usize = 1500;

/// One action of a statement.
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

/// The actions with their weights.
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

/// Why an action did not complete.
pub(crate) enum Wrong {
    Engine(EngineError),
    Model(String),
}

impl From<EngineError> for Wrong {
    fn from(error: EngineError) -> Wrong {
        Wrong::Engine(error)
    }
}

/// Takes the lock of a table, which no other session uses.
pub(crate) fn unlocked(_table: ObjectId) -> Result<(), SqlError> {
    Ok(())
}

/// The table of an action, and the statement that the action is part of.
#[derive(Clone, Copy)]
pub(crate) struct Target<'t> {
    pub(crate) database: &'t DatabaseUse,
    pub(crate) ctx: &'t Arc<StatementContext>,
    pub(crate) name: &'t str,
}

impl<'t> Target<'t> {
    /// Like this target, for another table.
    pub(crate) fn of(self, name: &'t str) -> Target<'t> {
        Target { name, ..self }
    }

    /// The table's schema and name.
    pub(crate) fn path(self) -> (&'static str, &'t str) {
        ("dbo", self.name)
    }

    /// Opens the table as the statement sees it.
    pub(crate) fn open(self) -> Result<OpenTable<'t>, Wrong> {
        let snapshot = self.database.snapshot_of(self.ctx);
        Ok(OpenTable::new(self.database, &snapshot, self.listed(&snapshot)?)?)
    }

    /// The table's current definition in the catalog.
    pub(crate) fn shape(self) -> Result<Shape, Wrong> {
        let snapshot = self.database.snapshot_of(self.ctx);
        Ok(shape_of(&snapshot, self.listed(&snapshot)?))
    }

    fn listed(self, snapshot: &DatabaseSnapshot) -> Result<&Arc<hobt_catalog::Table>, Wrong> {
        let table = snapshot.table(1, self.name);
        table.ok_or_else(|| Wrong::Model(format!("table {} is not in the catalog", self.name)))
    }

    /// Fills the new storage of the table, and ends the change.
    pub(crate) fn finish(self, changed: TableChange, rows: &Rows) -> Result<(), Wrong> {
        fill(self.database, self.ctx, &changed, rows)?;
        Ok(self.database.finish_table_change(self.ctx, changed).map(drop)?)
    }

    /// Like [`Target::finish`]; then the model takes over the table's definition in the catalog.
    pub(crate) fn finish_as_listed(self, changed: TableChange, model: &mut Table) -> Result<(), Wrong> {
        self.finish(changed, &model.rows)?;
        model.shape = self.shape()?;
        Ok(())
    }
}

impl Simulation {
    /// Runs a statement and ends it. Returns the session's tables afterwards, or `None` if it failed; some statements
    /// are made to fail.
    pub(crate) fn statement(
        &mut self,
        session: usize,
        ctx: &Arc<StatementContext>,
        mut state: State,
    ) -> Step<Option<State>> {
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
            return self.create_table(session, Target { database, ctx, name: &name }, objects);
        }
        let at = self.below(objects.tables.len());
        let name = objects.tables.keys().nth(at).expect("below their number").clone();
        let rows = objects.tables[&name].rows.len();
        self.note(format!("s{session}: {action:?} {}.{name} ({rows} rows)", database.name()));
        let is_referenced = objects.is_referenced(&name);
        let target = Target { database, ctx, name: &name };
        match action {
            Action::Drop | Action::Truncate | Action::TruncatePartition if is_referenced => {
                return definitions::is_refused(target, action);
            }
            Action::Drop => return definitions::drop_table(target, objects),
            Action::Truncate => {
                database.truncate_table(ctx, "dbo", &name, &mut unlocked)?;
                objects.tables.get_mut(&name).expect("it was chosen from them").rows.clear();
                return Ok(());
            }
            Action::Switch => return self.switch(target, objects, free),
            Action::Constraint => return self.constraint(target, objects),
            _ => {}
        }
        let model = objects.tables.get_mut(&name).expect("it was chosen from them");
        match action {
            Action::AddIndex => self.add_index(target, model),
            Action::DropIndex => self.drop_index(target, model, is_referenced),
            Action::Rebuild => self.rebuild(target, model),
            Action::AlterColumns => self.alter_columns(target, model),
            Action::Split => self.split(target, model),
            Action::Merge => self.merge(target, model),
            Action::TruncatePartition => self.truncate_partition(target, model),
            Action::Insert => {
                let count = 1 + self.below(40);
                self.insert(target, model, count, 300)
            }
            Action::InsertLarge => {
                let count = 1 + self.below(2);
                self.insert(target, model, count, 40_000)
            }
            Action::Load => self.load(target, model),
            _ => self.delete(target, model, action == Action::Update),
        }
    }

    /// A new key and a row for it, with the columns that a table has.
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

    fn insert(&mut self, target: Target<'_>, model: &mut Table, count: usize, bytes_max: usize) -> Result<(), Wrong> {
        if model.rows.len() > ROWS_MAX {
            return Ok(());
        }
        let open = target.open()?;
        for _ in 0..count {
            let (key, row) = self.new_row(model, bytes_max);
            open.insert(target.ctx, key, &row)?;
            model.rows.insert(key, row);
        }
        Ok(())
    }

    /// Loads rows in bulk, or one by one if there are indexes.
    fn load(&mut self, target: Target<'_>, model: &mut Table) -> Result<(), Wrong> {
        if model.rows.len() > ROWS_MAX {
            return Ok(());
        }
        let open = target.open()?;
        let count = [0, 3, 60, 500][self.below(4)];
        let bytes_max = if self.chance(10) { 12_000 } else { 250 };
        let Some(heaps) = open.writer().heaps() else {
            return self.insert(target, model, count / 5, bytes_max);
        };
        let count = if bytes_max > 250 { count / 10 } else { count };
        let loaded: Vec<(i32, Row)> = (0..count).map(|_| self.new_row(model, bytes_max)).collect();
        let batch_rows = 1 + self.below(200);
        for (partition, heap) in heaps.iter().enumerate() {
            let own = loaded.iter().filter(|(key, _)| open.partition_of(*key) == partition);
            let images: Vec<_> = own.map(|(key, row)| image(open.table(), *key, row)).collect();
            load_heap(target.database, heap, target.ctx, &images, batch_rows)?;
        }
        model.rows.extend(loaded);
        Ok(())
    }

    /// Deletes some rows; with `replaces` updates them instead.
    fn delete(&mut self, target: Target<'_>, model: &mut Table, replaces: bool) -> Result<(), Wrong> {
        let open = target.open()?;
        let (found, places) = open.read()?;
        if let Some(text) = differences_of_rows(&model.rows, &found) {
            return Err(Wrong::Model(format!(
                "{} {} read amid a transaction: {text}",
                target.database.name(),
                target.name
            )));
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
                // Some rows get another key, and so may move in a tree, or to another partition.
                let (other, row) = self.new_row(model, 300);
                let new = if self.chance(20) { other } else { key };
                updates.push((places[&key].clone(), new, row.clone()));
                model.rows.remove(&key);
                model.rows.insert(new, row);
            }
            open.replace(target.ctx, updates)?;
        } else {
            for key in keys {
                open.delete(target.ctx, &places[&key])?;
                model.rows.remove(&key);
            }
        }
        Ok(())
    }
}
