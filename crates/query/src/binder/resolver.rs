//! What the binder asks the session: what a name means, what a variable holds, what a system function answers.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use hobt_base::SqlError;
use hobt_catalog::PartitionFunction;
use hobt_engine::DatabaseUse;
use hobt_functions::FunctionContext;
use hobt_tsql::ast::{Identifier, ObjectName, TableHint, VariableName};
use hobt_types::{Collation, SqlType, TypedValue};

use super::bound::Assumed;
use crate::wrap::{NextValues, RowFunction};

/// What the text says about one scan of a table, beyond its name.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScanHints<'a> {
    /// `WITH (…)`.
    pub hints: &'a [TableHint],
    /// Whether the rows shall say where they lie, so that they can be changed. The provider of a stored table then has
    /// one more column, the last; any other takes no notice.
    pub places: bool,
    /// `TABLESAMPLE`.
    pub sample: Option<ScanSample>,
}

/// The part of a table that `TABLESAMPLE` asks for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ScanSample {
    /// Percent of the pages, or as many as hold so many rows.
    pub amount: f64,
    /// Whether `amount` counts rows.
    pub is_rows: bool,
    /// `REPEATABLE`.
    pub seed: Option<i64>,
}

/// A column of a table or function.
#[derive(Clone, PartialEq, Debug)]
pub struct SourceColumn {
    /// Its name.
    pub name: String,
    /// Its type; the provider's column has this type's carrier.
    pub sql_type: SqlType,
    /// Whether it can be NULL.
    pub nullable: bool,
    /// The collation of a text column.
    pub collation: Option<Collation>,
}

/// What an object's name means.
#[derive(Clone, Debug)]
pub enum Resolved {
    /// Something that is scanned.
    Table {
        /// Its rows; the schema's columns are `columns` in their carriers.
        provider: Arc<dyn TableProvider>,
        /// Its columns in the provider's order.
        columns: Vec<SourceColumn>,
    },
    /// A view.
    View {
        /// The text of its `CREATE VIEW`.
        definition: String,
        /// Where it lives, when that is not the resolver's own database: its text means what it means there.
        database: Option<DatabaseUse>,
    },
    /// An inline table-valued function.
    InlineFunction {
        /// The text of its `CREATE FUNCTION`.
        definition: String,
        /// As with a view.
        database: Option<DatabaseUse>,
    },
}

/// A function that the session answers, row by row.
#[derive(Clone)]
pub struct SystemFunction {
    /// The type of its result.
    pub result: SqlType,
    /// Its evaluation, from values of the argument types that were asked for.
    pub evaluate: RowFunction,
    /// Whether the answer holds for the whole statement when all arguments are constants, so that it is asked once.
    pub is_constant: bool,
}

/// The names that a query can use.
pub trait NameResolver {
    /// A table, view or synonym in `FROM`.
    ///
    /// # Errors
    /// 208 for a name that means nothing.
    fn resolve(&self, name: &ObjectName, hints: &ScanHints<'_>) -> Result<Resolved, SqlError>;

    /// A table-valued function in `FROM`; `arguments` are `None` where they are not constant.
    ///
    /// # Errors
    /// 208 for a name that means nothing.
    fn resolve_function(&self, name: &ObjectName, arguments: &[Option<TypedValue>]) -> Result<Resolved, SqlError>;

    /// A table variable in `FROM`.
    ///
    /// # Errors
    /// 1087 for a variable that is not declared.
    fn resolve_variable_table(&self, name: &VariableName, hints: &ScanHints<'_>) -> Result<Resolved, SqlError>;

    /// A partition function, for `$PARTITION`.
    ///
    /// # Errors
    /// 208 for a name that means nothing.
    fn partition_function(
        &self,
        database: Option<&Identifier>,
        name: &Identifier,
    ) -> Result<Arc<PartitionFunction>, SqlError>;

    /// The value of a variable, whose name begins with `@`; `None` when it is not declared.
    fn variable(&self, name: &str) -> Option<TypedValue>;

    /// What estimates take a variable to be, where that is not its value.
    ///
    /// # Errors
    /// The value that a hint gives is none of the variable's type.
    fn assumed(&self, _name: &str) -> Result<Option<Assumed>, SqlError> {
        Ok(None)
    }

    /// The value of a global variable, whose name begins with `@@`; `None` when there is none.
    fn global_variable(&self, name: &str) -> Option<TypedValue>;

    /// A function of the session: `DB_NAME`, `OBJECT_ID`, `SERVERPROPERTY`, `SUSER_SNAME`. Niladic functions
    /// (`CURRENT_USER`) are asked for under their names too.
    ///
    /// # Errors
    /// 174 or 189 for a wrong number of arguments.
    fn system_function(&self, name: &str, arguments: &[SqlType]) -> Result<Option<SystemFunction>, SqlError>;

    /// The values of a sequence, for the rows of a query.
    ///
    /// # Errors
    /// 208 for a name that means nothing, 11726 for what is no sequence; what a lock that is waited for ends with.
    fn next_values(&self, sequence: &ObjectName) -> Result<NextValues, SqlError>;

    /// The value of a sequence for the row that is being made: the same as often as one row asks for it.
    ///
    /// # Errors
    /// As [`NameResolver::next_values`]; 11728 where there is none any more.
    fn next_row_value(&self, sequence: &ObjectName) -> Result<TypedValue, SqlError>;

    /// What date and random functions read.
    fn function_context(&self) -> Arc<FunctionContext>;

    /// The same names as a module of `database` sees them: what says no database lies there, and functions like
    /// `DB_NAME` answer for it.
    fn in_database(&self, database: &DatabaseUse) -> Box<dyn NameResolver + '_>;
}
