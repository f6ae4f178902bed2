//! Keys that a statement has changed, as a table of the queries that check the references to them.

use std::sync::Arc;

use hobt_binder::{Resolved, SourceColumn};
use hobt_catalog::Table;
use hobt_operators::HeldBatches;
use hobt_table::RowSource;
use hobt_types::TypedValue;

/// Keys changed by a statement, as a table.
pub(super) struct ChangedKeys {
    pub(super) name: String,
    pub(super) source: RowSource,
    pub(super) columns: Vec<SourceColumn>,
    /// The old keys' values, by column, as variables that only these queries can name. Empty if there are many keys.
    pub(super) values: Vec<Vec<TypedValue>>,
    /// The keys' rows, as long as they can be read; `None` for those of a table.
    #[expect(dead_code, reason = "the memory of `source` stays charged, and its file exists, until this is dropped")]
    pub(super) held: Option<HeldBatches>,
}

/// Up to this many keys are looked up one by one. For more keys, the other table is scanned.
pub(super) const KEYS_MAX: usize = 1_000;

impl ChangedKeys {
    /// The variable name of a key's value, by column and index.
    pub(super) fn variable_name(&self, column: usize, at: usize) -> String {
        format!("@{}_{column}_{at}", self.name)
    }

    /// The value of the variable with this name.
    pub(super) fn variable(&self, name: &str) -> Option<&TypedValue> {
        let (column, at) = name.strip_prefix('@')?.strip_prefix(&*self.name)?.strip_prefix('_')?.split_once('_')?;
        self.values.get(column.parse::<usize>().ok()?)?.get(at.parse::<usize>().ok()?)
    }

    /// A condition that holds for the rows of another table whose `columns` form one of the keys, so that only these
    /// rows are found and locked.
    pub(super) fn one_of(&self, table: &Table, columns: &[usize], alias: &str) -> String {
        let of_column = |(column, (values, &place)): (usize, (&Vec<TypedValue>, &usize))| {
            let names: Vec<String> = (0..values.len()).map(|at| self.variable_name(column, at)).collect();
            let test = |names: &str| format!(" AND {alias}.{} IN ({names})", quote(&table.columns[place].name));
            if names.is_empty() { String::new() } else { test(&names.join(", ")) }
        };
        self.values.iter().zip(columns).enumerate().map(of_column).collect()
    }

    pub(super) fn resolved(&self) -> Resolved {
        Resolved::Table { source: Arc::clone(&self.source), columns: self.columns.clone() }
    }
}

/// A name in brackets.
pub(super) fn quote(name: &str) -> String {
    format!("[{}]", name.replace(']', "]]"))
}
