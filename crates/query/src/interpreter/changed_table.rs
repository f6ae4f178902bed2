//! A table that a statement changes: its heaps and indexes, what its definition says of its rows, and those as it
//! stores them.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use hobt_base::SqlError;
use hobt_catalog::Table;
use hobt_engine::DatabaseUse;

use super::failure::Failure;
use super::foreign_key::{foreign_keys_of, places_of};
use super::run::Interpreter;
use crate::binder::{BindOptions, Binder};
use crate::execute::{NewKeys, RowRules, StatementRun, WriteTarget, stored_columns};
use crate::source::{clustered_disabled, table_schema};

impl Interpreter<'_> {
    /// A target with what its definition says of its rows.
    pub(super) fn ruled(&self, run: &Arc<StatementRun>, store: WriteTarget) -> Result<WriteTarget, Failure> {
        let table = store.table();
        let keys = foreign_keys_of(table);
        if !has_rules(table) {
            return Ok(store);
        }
        let names = self.names(run);
        let rules = Binder::new(&names, BindOptions::default()).bind_row_rules(table).map_err(Failure::of_binding)?;
        let new_keys = (!keys.is_empty()).then(|| {
            let places = keys.iter().map(|key| places_of(table, &key.columns)).collect();
            Arc::new(NewKeys::new(places))
        });
        Ok(store.ruled_by(RowRules { new_keys, ..rules }))
    }
}

/// Whether a table's definition says something of its rows that each is held against or made by: columns that are
/// computed, CHECK constraints, foreign keys.
pub(super) fn has_rules(table: &Table) -> bool {
    table.columns.iter().any(|column| column.computed.is_some())
        || table.constraints.checks.iter().any(|check| !check.head.is_disabled)
        || !foreign_keys_of(table).is_empty()
}

/// The heaps and indexes of a table.
///
/// # Errors
/// 8655 the clustered index is disabled.
pub(super) fn store_of(database: DatabaseUse, table: Arc<Table>) -> Result<WriteTarget, SqlError> {
    if table.base_index().options.is_disabled {
        return Err(clustered_disabled(&table));
    }
    target_of(database, table)
}

/// The same of a table whose clustered index may be disabled.
pub(super) fn target_of(database: DatabaseUse, table: Arc<Table>) -> Result<WriteTarget, SqlError> {
    let snapshot = database.snapshot();
    let partitioning = snapshot.partitioning_of(&table.base_index().data_space);
    let partitioning = partitioning.map(|(column, function)| (column, Arc::clone(function)));
    let schema = snapshot.schema_by_id(table.schema).map_or("dbo", |schema| schema.name.as_str()).to_owned();
    WriteTarget::new(database, table, &schema, partitioning)
}

/// A table's columns in their carriers, any of which may be NULL until it is checked.
pub(super) fn nullable_schema(table: &Table) -> SchemaRef {
    let fields =
        table_schema(table).fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect::<Vec<_>>();
    Arc::new(Schema::new(fields))
}

/// Rows of the whole table as it stores them.
pub(super) fn stored_batch(store: &WriteTarget, batch: &RecordBatch) -> Result<RecordBatch, SqlError> {
    if store.has_rules() {
        let columns = store.completed(batch.columns().to_vec(), batch.num_rows(), None)?;
        return whole_batch(store, columns);
    }
    let columns = stored_columns(store, batch.columns().iter().cloned().enumerate().collect())?;
    whole_batch(store, columns.into_iter().map(|(_, array)| array).collect())
}

/// Rows of the whole table from its columns.
pub(super) fn whole_batch(store: &WriteTarget, columns: Vec<ArrayRef>) -> Result<RecordBatch, SqlError> {
    RecordBatch::try_new(nullable_schema(store.table()), columns).map_err(|error| SqlError::internal(error.to_string()))
}
