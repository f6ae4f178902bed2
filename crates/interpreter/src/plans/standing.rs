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

use crate::reading::{Reading, is_private};
use crate::state::SetOptions;

/// What binding has asked for.
#[derive(Default, Debug)]
pub(crate) struct Standing {
    pub(super) databases: Vec<SeenDatabase>,
    pub(super) variables: Vec<SeenVariable>,
    pub(super) reads: Vec<SeenTable>,
    /// Whether something belongs to this execution alone: rows of a view, a file, a sequence.
    pub(super) is_of_one_run: bool,
}

/// A database in which names were looked up. The snapshot is not kept alive; its address is not used again while this
/// points to it.
#[derive(Debug)]
pub(super) struct SeenDatabase {
    pub(super) id: DatabaseId,
    pub(super) name: String,
    pub(super) snapshot: Weak<DatabaseSnapshot>,
}

/// A variable whose value is in the plan.
#[derive(PartialEq, Debug)]
pub(super) struct SeenVariable {
    pub(super) name: String,
    pub(super) value: Option<TypedValue>,
    /// The value that the parameter was given, from which estimates may be made.
    pub(super) passed: Option<Value>,
    /// How often it was read.
    pub(super) reads: usize,
}

/// A table that is read, and how.
#[derive(Debug)]
pub(super) struct SeenTable {
    pub(super) database: DatabaseId,
    pub(super) table: Arc<Table>,
    pub(super) hints: Vec<TableHint>,
    pub(super) places: bool,
    pub(super) reading: Reading,
}

impl Standing {
    /// Notes a database in which a name is looked up.
    pub(crate) fn note_database(&mut self, database: &DatabaseUse) {
        if self.databases.iter().all(|known| known.id != database.id()) {
            let snapshot = database.snapshot();
            // What the transaction itself has changed is of no other execution, unless it commits; then it is a new
            // one.
            self.is_of_one_run |= !Arc::ptr_eq(&snapshot, &database.database().snapshot());
            let (name, snapshot) = (database.name().to_owned(), Arc::downgrade(&snapshot));
            self.databases.push(SeenDatabase { id: database.id(), name, snapshot });
        }
    }

    /// Notes a variable that is read.
    pub(crate) fn note_variable(&mut self, name: &str, value: Option<&TypedValue>, passed: Option<&Value>) {
        // However it is spelled, it is one variable.
        let name = name.to_lowercase();
        let is_it = |known: &&mut SeenVariable| {
            known.name == name && known.value.as_ref() == value && known.passed.as_ref() == passed
        };
        match self.variables.iter_mut().find(is_it) {
            Some(known) => known.reads += 1,
            None => {
                let (value, passed) = (value.cloned(), passed.cloned());
                self.variables.push(SeenVariable { name, value, passed, reads: 1 });
            }
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
    pub(super) options: SetOptions,
    pub(super) trace_flags: BTreeSet<i32>,
    /// The database of names without one.
    pub(super) database: DatabaseId,
}
