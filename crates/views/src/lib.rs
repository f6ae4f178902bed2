//! SQL Server's views: their names, columns and rows.
//!
//! A view is one entry of a table: schema, name, columns as text, parameters, and a function that produces its rows.
//! The columns are in SQL Server's order, with its names and types (`sql_variant` is `nvarchar`). Columns that do not
//! apply to hobt are left out at the end, never renamed. Source: Microsoft's public documentation of each view.
//!
//! No other crate knows the names and columns of `sys.*` and of the dynamic management views. Their rows come from the
//! crates that keep the counters, and from the [`Registry`]: the connected sessions and what they run.

mod backups;
mod catalog;
mod columns;
mod compatibility;
mod constraints;
mod databases;
mod execution;
mod external;
mod functions;
mod index_usage;
mod indexes;
mod information_schema;
mod io;
mod locks;
mod log;
mod memory;
mod plans;
mod processes;
mod registry;
mod sequences;
mod settings;
mod statistics;
mod storage;
mod transactions;
mod value;
mod waits;

use std::sync::Arc;

use hobt_base::{ObjectId, SqlError};
use hobt_engine::{Instance, time_of_day};
use hobt_interpreter::{MSDB, PlanStore, SystemView, SystemViews, ViewColumn, ViewContext};
use hobt_types::{SqlType, Value};

pub use registry::{Registry, SessionOptions, is_stopped, stop_all_sessions};

/// The rows of a view.
pub(crate) type Rows = Result<Vec<Vec<Value>>, SqlError>;

/// Produces the rows of a view.
type MakeRows = fn(&Sources, &ViewContext, &[Value]) -> Rows;

/// The definition of one view.
pub(crate) struct Definition {
    schema: &'static str,
    name: &'static str,
    /// `name type!, …`; `!` is NOT NULL.
    columns: &'static str,
    parameters: &'static [SqlType],
    rows: MakeRows,
}

impl Definition {
    /// A view of schema `sys`.
    pub(crate) const fn sys(name: &'static str, columns: &'static str, rows: MakeRows) -> Definition {
        Definition { schema: "sys", name, columns, parameters: &[], rows }
    }

    /// A view of another schema.
    pub(crate) const fn of(
        schema: &'static str,
        name: &'static str,
        columns: &'static str,
        rows: MakeRows,
    ) -> Definition {
        Definition { schema, name, columns, parameters: &[], rows }
    }

    /// A table-valued function of schema `sys`.
    pub(crate) const fn function(
        name: &'static str,
        parameters: &'static [SqlType],
        columns: &'static str,
        rows: MakeRows,
    ) -> Definition {
        Definition { schema: "sys", name, columns, parameters, rows }
    }
}

/// The sources of rows.
#[derive(Clone)]
pub(crate) struct Sources {
    pub(crate) instance: Arc<Instance>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) plans: Arc<PlanStore>,
    pub(crate) views: Arc<Vec<Known>>,
    /// When the server started, 100 ns since 1970-01-01 UTC.
    pub(crate) started: i64,
}

impl Sources {
    /// The views that every database has: all but those of `msdb`.
    pub(crate) fn of_databases(&self) -> impl Iterator<Item = &Known> {
        self.views.iter().filter(|view| view.schema != MSDB)
    }
}

/// A view with its columns parsed.
pub(crate) struct Known {
    pub(crate) id: i32,
    pub(crate) schema: &'static str,
    pub(crate) name: &'static str,
    pub(crate) columns: Arc<[ViewColumn]>,
    pub(crate) is_function: bool,
    parameters: &'static [SqlType],
    rows: MakeRows,
}

/// All views of an instance.
pub struct Views {
    sources: Sources,
}

/// The definitions of views, by subject.
static DEFINITIONS: &[&[Definition]] = &[
    backups::VIEWS,
    catalog::VIEWS,
    compatibility::VIEWS,
    constraints::VIEWS,
    databases::VIEWS,
    execution::VIEWS,
    external::VIEWS,
    index_usage::VIEWS,
    indexes::VIEWS,
    information_schema::VIEWS,
    io::VIEWS,
    locks::VIEWS,
    log::VIEWS,
    memory::VIEWS,
    plans::VIEWS,
    processes::VIEWS,
    sequences::VIEWS,
    settings::VIEWS,
    statistics::VIEWS,
    storage::VIEWS,
    transactions::VIEWS,
    waits::VIEWS,
];

impl Views {
    /// The views of `instance`, whose sessions are listed by `registry` and whose plans are kept by `plans`.
    pub fn new(instance: Arc<Instance>, registry: Arc<Registry>, plans: Arc<PlanStore>) -> Views {
        Views { sources: Sources { instance, registry, plans, views: Arc::new(known_views()), started: time_of_day() } }
    }

    fn find(&self, schema: &str, name: &str) -> Option<&Known> {
        let views = &self.sources.views;
        views.iter().find(|view| view.name.eq_ignore_ascii_case(name) && view.schema.eq_ignore_ascii_case(schema))
    }
}

fn known_views() -> Vec<Known> {
    let read = |(definition, id): (&Definition, i32)| Known {
        id: -id,
        schema: definition.schema,
        name: definition.name,
        columns: columns::read(definition.columns),
        is_function: !definition.parameters.is_empty(),
        parameters: definition.parameters,
        rows: definition.rows,
    };
    DEFINITIONS.iter().copied().flatten().zip(101..).map(read).collect()
}

impl SystemViews for Views {
    fn view(&self, schema: &str, name: &str) -> Option<SystemView> {
        let known = self.find(schema, name)?;
        let (rows, sources) = (known.rows, self.sources.clone());
        Some(SystemView {
            columns: Arc::clone(&known.columns),
            parameters: known.parameters.to_vec(),
            rows: Arc::new(move |context, arguments| rows(&sources, context, arguments)),
        })
    }

    fn inline_function(&self, schema: &str, name: &str) -> Option<&'static str> {
        let found = functions::FUNCTIONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.filter(|_| schema.eq_ignore_ascii_case("sys")).map(|(_, text)| *text)
    }

    fn view_id(&self, schema: &str, name: &str) -> Option<ObjectId> {
        // The views of `msdb` are objects of no database.
        self.find(schema, name).filter(|view| view.schema != MSDB).map(|view| ObjectId(view.id))
    }

    fn view_name(&self, id: ObjectId) -> Option<(&'static str, &'static str)> {
        self.sources.views.iter().find(|view| view.id == id.0).map(|view| (view.schema, view.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_and_columns_are_unique() {
        let mut names = HashSet::new();
        for view in known_views() {
            assert!(names.insert((view.schema, view.name.to_lowercase())), "{} is there twice", view.name);
            let mut columns = HashSet::new();
            for column in view.columns.iter() {
                assert!(columns.insert(column.name.to_lowercase()), "{}.{}", view.name, column.name);
            }
        }
    }

    #[test]
    fn the_square_of_the_columns_is_enough_for_the_generator() {
        let columns: usize = known_views().iter().map(|view| view.columns.len()).sum();
        assert!(columns > 300, "{columns}");
    }
}
