//! What a bound statement stands on: the objects, variables and settings that it had its meaning from.
//!
//! A plan that is kept may be used again as long as all of this is what it was. Objects are compared by the databases'
//! snapshots, of which every change of a definition or of statistics makes a new one.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use hobt_base::DatabaseId;
use hobt_catalog::{DatabaseSnapshot, Table};
use hobt_engine::DatabaseUse;
use hobt_tsql::ast::TableHint;
use hobt_types::{TypedValue, Value};

use crate::interpreter::Interpreter;
use crate::names::UsedTable;
use crate::reading::{Reading, is_private};
use crate::state::SetOptions;
use hobt_table::StatementRun;

/// What binding has asked for.
#[derive(Default, Debug)]
pub(crate) struct Standing {
    databases: Vec<SeenDatabase>,
    variables: Vec<SeenVariable>,
    reads: Vec<SeenTable>,
    /// Whether something belongs to this execution alone: rows of a view, a file, a sequence.
    is_of_one_run: bool,
}

/// A database in which names were looked up. The snapshot is not kept alive; its address is not used again while this
/// points to it.
#[derive(Debug)]
struct SeenDatabase {
    id: DatabaseId,
    name: String,
    snapshot: Weak<DatabaseSnapshot>,
}

/// A variable whose value is in the plan.
#[derive(PartialEq, Debug)]
struct SeenVariable {
    name: String,
    value: Option<TypedValue>,
    /// The value that the parameter was given, from which estimates may be made.
    passed: Option<Value>,
}

/// A table that is read, and how.
#[derive(Debug)]
struct SeenTable {
    database: DatabaseId,
    table: Arc<Table>,
    hints: Vec<TableHint>,
    places: bool,
    reading: Reading,
}

impl Standing {
    /// Notes a database in which a name is looked up.
    pub(crate) fn note_database(&mut self, database: &DatabaseUse) {
        if self.databases.iter().all(|known| known.id != database.id()) {
            let snapshot = database.snapshot();
            // What the transaction itself has changed is of no other execution, unless it commits; then it is a new one.
            self.is_of_one_run |= !Arc::ptr_eq(&snapshot, &database.database().snapshot());
            let (name, snapshot) = (database.name().to_owned(), Arc::downgrade(&snapshot));
            self.databases.push(SeenDatabase { id: database.id(), name, snapshot });
        }
    }

    /// Notes a variable that is read.
    pub(crate) fn note_variable(&mut self, name: &str, value: Option<&TypedValue>, passed: Option<&Value>) {
        let seen = SeenVariable { name: name.to_owned(), value: value.cloned(), passed: passed.cloned() };
        if !self.variables.contains(&seen) {
            self.variables.push(seen);
        }
    }

    /// Notes a table that is read.
    pub(crate) fn note_read(
        &mut self,
        (database, table): (&DatabaseUse, &Arc<Table>),
        (hints, places): (&[TableHint], bool),
        reading: Reading,
    ) {
        // Another session calls another table by this name.
        self.is_of_one_run |= is_private(database, table);
        let (database, table, hints) = (database.id(), Arc::clone(table), hints.to_vec());
        self.reads.push(SeenTable { database, table, hints, places, reading });
    }

    /// Notes that something belongs to this execution alone.
    pub(crate) fn note_one_run(&mut self) {
        self.is_of_one_run = true;
    }

    /// The bytes of the variables' values.
    pub(crate) fn bytes_of_variables(&self) -> u64 {
        let of = |value: &Value| match value {
            Value::Text(text) => text.len() as u64,
            Value::Binary(bytes) => bytes.len() as u64,
            _ => 16,
        };
        let of_variable = |seen: &SeenVariable| {
            seen.value.as_ref().map_or(0, |typed| of(&typed.value)) + seen.passed.as_ref().map_or(0, of)
        };
        self.variables.iter().map(of_variable).sum()
    }

    /// Whether the variables have the values of another execution.
    pub(crate) fn has_values_of(&self, other: &Standing) -> bool {
        self.variables == other.variables
    }

    /// Whether another execution may have the same meaning.
    pub(crate) fn may_be_kept(&self) -> bool {
        !self.is_of_one_run
    }
}

/// The settings that a plan depends on.
#[derive(PartialEq, Debug)]
pub(crate) struct PlanSettings {
    options: SetOptions,
    trace_flags: BTreeSet<i32>,
    /// The database of names without one.
    database: DatabaseId,
}

/// Why a kept plan is not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unfit {
    /// Another execution may use it.
    Now,
    /// What it stands on is no more.
    ForEver,
}

impl Interpreter<'_> {
    /// The settings that the running statement's plan depends on.
    pub(crate) fn plan_settings(&self, run: &StatementRun) -> PlanSettings {
        PlanSettings {
            options: self.state.options.of_plans(),
            trace_flags: run.trace_flags().clone(),
            database: self.state.database.id(),
        }
    }

    /// The databases in which a plan's names were looked up, if they are what they were.
    pub(crate) fn databases_of(&self, standing: &Standing) -> Result<Vec<DatabaseUse>, Unfit> {
        let same = |seen: &SeenDatabase| {
            let database = match self.state.database.id() == seen.id {
                true => self.state.database.clone(),
                false => self.environment.instance.database_by_id(seen.id).map_err(|_| Unfit::ForEver)?,
            };
            if database.name() != seen.name || !std::ptr::eq(Arc::as_ptr(&database.snapshot()), seen.snapshot.as_ptr())
            {
                return Err(Unfit::ForEver);
            }
            let database = database.seen_by(self.state.viewer());
            // The transaction has changed definitions itself.
            let is_it = std::ptr::eq(Arc::as_ptr(&database.snapshot()), seen.snapshot.as_ptr());
            is_it.then_some(database).ok_or(Unfit::Now)
        };
        standing.databases.iter().map(same).collect()
    }

    /// Whether the variables have the values that are in a plan.
    pub(crate) fn has_variables_of(&self, standing: &Standing) -> bool {
        let frame = self.frame();
        standing.variables.iter().all(|seen| {
            frame.get(&seen.name) == seen.value.as_ref() && frame.passed(&seen.name) == seen.passed.as_ref()
        })
    }

    /// The tables that a plan reads, as they have to be locked; `None` if they would be read in another way now.
    /// `databases` are those of [`Interpreter::databases_of`].
    pub(crate) fn used_again(
        &self,
        standing: &Standing,
        databases: &[DatabaseUse],
        run: &StatementRun,
    ) -> Option<Vec<UsedTable>> {
        let isolation = self.state.options.isolation;
        let mut used = Vec::with_capacity(standing.reads.len());
        for seen in &standing.reads {
            let database = databases.iter().find(|database| database.id() == seen.database)?;
            let reading = Reading::of(&seen.hints, seen.places, isolation, (database, &seen.table), false);
            if reading != seen.reading {
                return None;
            }
            used.push(UsedTable::read(database.clone(), Arc::clone(&seen.table), reading));
        }
        standing.reads.iter().for_each(|seen| self.begin_reading(run, seen.reading.rows));
        Some(used)
    }
}
