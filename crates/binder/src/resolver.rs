//! The binder's interface to the session: the meaning of names, the values of variables, the results of system
//! functions.

use std::sync::Arc;

use datafusion::logical_expr::TableSource;
use hobt_base::SqlError;
use hobt_catalog::PartitionFunction;
use hobt_engine::DatabaseUse;
use hobt_functions::FunctionContext;
use hobt_tsql::ast::{FileSource, Identifier, ObjectName, TableHint, VariableName};
use hobt_types::{Collation, SqlType, TypedValue};

use hobt_table::{Assumed, ScanSample};
use hobt_udf::{NextValues, RowFunction};

/// The properties of one scan of a table in the text, other than its name.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScanHints<'a> {
    /// `WITH (…)`.
    pub hints: &'a [TableHint],
    /// Whether the scan must return the positions of the rows, so that they can be changed. The provider of a stored
    /// table then has one more column, the last; other providers ignore this.
    pub places: bool,
    /// `TABLESAMPLE`.
    pub sample: Option<ScanSample>,
}

/// A column of a table or function.
#[derive(Clone, PartialEq, Debug)]
pub struct SourceColumn {
    /// Its name.
    pub name: String,
    /// Its type; the source's column has this type's carrier.
    pub sql_type: SqlType,
    /// Whether it can be NULL.
    pub nullable: bool,
    /// The collation of a text column.
    pub collation: Option<Collation>,
}

/// The object that a name denotes.
#[derive(Clone)]
pub enum Resolved {
    /// An object that can be scanned.
    Table {
        /// Its rows; the schema's columns are `columns` in their carriers.
        source: Arc<dyn TableSource>,
        /// Its columns in the source's order.
        columns: Vec<SourceColumn>,
    },
    /// A view.
    View {
        /// The text of its `CREATE VIEW`.
        definition: String,
        /// The database that it lives in, if that is not the resolver's own; the names in its text are resolved there.
        database: Option<DatabaseUse>,
    },
    /// An inline table-valued function.
    InlineFunction {
        /// The text of its `CREATE FUNCTION`.
        definition: String,
        /// As for a view.
        database: Option<DatabaseUse>,
    },
}

/// A function that the session evaluates, row by row.
#[derive(Clone)]
pub struct SystemFunction {
    /// The type of its result.
    pub result: SqlType,
    /// Evaluates it on values of the argument types that were asked for.
    pub evaluate: RowFunction,
    /// Whether the result is the same for the whole statement if all arguments are constants, so that it is evaluated
    /// once.
    pub is_constant: bool,
}

/// The names that a query can use.
pub trait NameResolver {
    /// Resolves a table, view or synonym in `FROM`.
    ///
    /// # Errors
    /// 208 for an unknown name.
    fn resolve(&self, name: &ObjectName, hints: &ScanHints<'_>) -> Result<Resolved, SqlError>;

    /// Resolves a table-valued function in `FROM`. An argument that is not constant is `None`.
    ///
    /// # Errors
    /// 208 for an unknown name.
    fn resolve_function(&self, name: &ObjectName, arguments: &[Option<TypedValue>]) -> Result<Resolved, SqlError>;

    /// Resolves a table variable in `FROM`.
    ///
    /// # Errors
    /// 1087 for a variable that is not declared.
    fn resolve_variable_table(&self, name: &VariableName, hints: &ScanHints<'_>) -> Result<Resolved, SqlError>;

    /// Finds files as a source of rows. `types` are those of the columns that the source lists.
    ///
    /// # Errors
    /// A file does not exist or may not be read, or an option has no meaning.
    fn resolve_files(&self, files: &FileSource, types: &[SqlType]) -> Result<Resolved, SqlError>;

    /// Finds a partition function, for `$PARTITION`.
    ///
    /// # Errors
    /// 208 for an unknown name.
    fn partition_function(
        &self,
        database: Option<&Identifier>,
        name: &Identifier,
    ) -> Result<Arc<PartitionFunction>, SqlError>;

    /// The value of a variable, whose name begins with `@`; `None` if it is not declared.
    fn variable(&self, name: &str) -> Option<TypedValue>;

    /// What estimates assume for a variable instead of its value.
    ///
    /// # Errors
    /// If a hint gives a value that is not of the variable's type.
    fn assumed(&self, _name: &str) -> Result<Option<Assumed>, SqlError> {
        Ok(None)
    }

    /// The value of a global variable, whose name begins with `@@`; `None` if there is none.
    fn global_variable(&self, name: &str) -> Option<TypedValue>;

    /// Finds a function of the session: `DB_NAME`, `OBJECT_ID`, `SERVERPROPERTY`, `SUSER_SNAME`. Niladic functions
    /// (`CURRENT_USER`) are found by their names too.
    ///
    /// # Errors
    /// 174 or 189 for a wrong number of arguments.
    fn system_function(&self, name: &str, arguments: &[SqlType]) -> Result<Option<SystemFunction>, SqlError>;

    /// The values of a sequence, for the rows of a query.
    ///
    /// # Errors
    /// 208 for an unknown name; 11726 for an object that is not a sequence; the error of a lock request that fails.
    fn next_values(&self, sequence: &ObjectName) -> Result<NextValues, SqlError>;

    /// The value of a sequence for the row that is being built. It is the same for each call for one row.
    ///
    /// # Errors
    /// As [`NameResolver::next_values`]; 11728 if the sequence is exhausted.
    fn next_row_value(&self, sequence: &ObjectName) -> Result<TypedValue, SqlError>;

    /// The context of date and random functions.
    fn function_context(&self) -> Arc<FunctionContext>;

    /// This resolver for a module of `database`: names without a database are resolved there, and functions like
    /// `DB_NAME` return it.
    fn in_database(&self, database: &DatabaseUse) -> Box<dyn NameResolver + '_>;
}
