//! Views whose rows are computed by a program: the interface between a session's views and queries.
//!
//! The crate `views` defines the views' names, columns and rows. This module defines only their shape, and how their
//! rows enter a plan. Rows are computed when the scan is planned, so a statement sees a single state of a view.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use hobt_base::{ObjectId, SessionId, SqlError};
use hobt_binder::SourceColumn;
use hobt_engine::DatabaseUse;
use hobt_functions::{batch_of_values, carrier};
use hobt_operators::ResourceSemaphore;
use hobt_types::{SqlType, Value};

/// A column of a system view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ViewColumn {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub sql_type: SqlType,
    /// Whether NULL can occur.
    pub nullable: bool,
}

/// The data that a view's rows may depend on.
#[derive(Clone, Debug)]
pub struct ViewContext {
    /// The database in which the view was named: `master.sys.tables` shows the tables of `master`.
    pub database: DatabaseUse,
    /// The session that reads it.
    pub session: SessionId,
    /// The memory of all operators.
    pub semaphore: ResourceSemaphore,
}

/// Computes a view's rows, each with a value for every column, from the arguments of a table-valued function.
pub type ViewRows = Arc<dyn Fn(&ViewContext, &[Value]) -> Result<Vec<Vec<Value>>, SqlError> + Send + Sync>;

/// A view, or a table-valued function if it has parameters.
#[derive(Clone)]
pub struct SystemView {
    /// Its columns.
    pub columns: Arc<[ViewColumn]>,
    /// The types of its parameters. Empty for a view. All accept NULL (and `DEFAULT`, which is NULL).
    pub parameters: Vec<SqlType>,
    /// Its rows.
    pub rows: ViewRows,
}

impl fmt::Debug for SystemView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemView").field("columns", &self.columns).finish_non_exhaustive()
    }
}

/// The system views of an instance.
pub trait SystemViews: Send + Sync {
    /// The view with this schema (`sys`, `INFORMATION_SCHEMA`, `dbo`) and name, both ignoring case.
    fn view(&self, schema: &str, name: &str) -> Option<SystemView>;

    /// The definition of an inline function with this schema and name, both ignoring case.
    fn inline_function(&self, schema: &str, name: &str) -> Option<&'static str>;

    /// The id of a view, which is negative. `None` if there is none.
    fn view_id(&self, schema: &str, name: &str) -> Option<ObjectId>;

    /// The schema and name of the view with this id.
    fn view_name(&self, id: ObjectId) -> Option<(&'static str, &'static str)>;
}

impl SystemView {
    /// The carriers of the columns.
    pub fn schema(&self) -> SchemaRef {
        let field = |column: &ViewColumn| Field::new(column.name, carrier(column.sql_type), column.nullable);
        Arc::new(Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()))
    }

    /// The columns, for the binder.
    pub(super) fn source_columns(&self) -> Vec<SourceColumn> {
        let column = |column: &ViewColumn| SourceColumn {
            name: column.name.to_owned(),
            sql_type: column.sql_type,
            nullable: column.nullable,
            collation: column.sql_type.is_text().then(Default::default),
        };
        self.columns.iter().map(column).collect()
    }

    /// The rows as one batch of carriers.
    ///
    /// # Errors
    /// Those of computing the rows, and an internal error for a row that does not have the view's shape.
    pub fn batch(&self, context: &ViewContext, arguments: &[Value]) -> Result<RecordBatch, SqlError> {
        let rows = (self.rows)(context, arguments)?;
        let types: Vec<SqlType> = self.columns.iter().map(|column| column.sql_type).collect();
        batch_of_values(self.schema(), &types, &rows)
    }
}
