//! What a statement that changes a table needs of its definition: where its rows are stored, and in which form.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use hobt_base::SqlError;
use hobt_catalog::{ForeignKey, Table};
use hobt_engine::DatabaseUse;
use hobt_operators::{WriteTarget, stored_columns};
use hobt_table::{clustered_disabled, table_schema};

/// The enabled foreign keys of a table.
pub(super) fn foreign_keys_of(table: &Table) -> Vec<&ForeignKey> {
    table.constraints.foreign_keys.iter().filter(|key| !key.head.is_disabled).collect()
}

/// The positions of columns, by their ids.
pub(super) fn places_of(table: &Table, ids: &[i32]) -> Vec<usize> {
    ids.iter().filter_map(|id| table.columns.iter().position(|column| column.id == *id)).collect()
}

/// Whether a table's definition has rules for each row: computed columns, CHECK constraints or foreign keys.
pub(super) fn has_rules(table: &Table) -> bool {
    table.columns.iter().any(|column| column.computed.is_some())
        || table.constraints.checks.iter().any(|check| !check.head.is_disabled)
        || !foreign_keys_of(table).is_empty()
}

/// The heaps and indexes of a table.
///
/// # Errors
/// 8655 if the clustered index is disabled.
pub(super) fn store_of(database: DatabaseUse, table: Arc<Table>) -> Result<WriteTarget, SqlError> {
    if table.base_index().options.is_disabled {
        return Err(clustered_disabled(&table));
    }
    target_of(database, table)
}

/// Like [`store_of`], for a table whose clustered index may be disabled.
pub(super) fn target_of(database: DatabaseUse, table: Arc<Table>) -> Result<WriteTarget, SqlError> {
    let snapshot = database.snapshot();
    let partitioning = snapshot.partitioning_of(&table.base_index().data_space);
    let partitioning = partitioning.map(|(column, function)| (column, Arc::clone(function)));
    let schema = snapshot.schema_by_id(table.schema).map_or("dbo", |schema| schema.name.as_str()).to_owned();
    WriteTarget::new(database, table, &schema, partitioning)
}

/// A table's columns in their carriers. Any of them may be NULL before it is checked.
pub(super) fn nullable_schema(table: &Table) -> SchemaRef {
    let fields =
        table_schema(table).fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect::<Vec<_>>();
    Arc::new(Schema::new(fields))
}

/// Complete rows of a table, in stored form.
pub(super) fn stored_batch(store: &WriteTarget, batch: &RecordBatch) -> Result<RecordBatch, SqlError> {
    if store.has_rules() {
        let columns = store.completed(batch.columns().to_vec(), batch.num_rows(), None)?;
        return whole_batch(store, columns);
    }
    let columns = stored_columns(store, batch.columns().iter().cloned().enumerate().collect())?;
    whole_batch(store, columns.into_iter().map(|(_, array)| array).collect())
}

/// Complete rows of a table, from its columns.
pub(super) fn whole_batch(store: &WriteTarget, columns: Vec<ArrayRef>) -> Result<RecordBatch, SqlError> {
    RecordBatch::try_new(nullable_schema(store.table()), columns).map_err(|error| SqlError::internal(error.to_string()))
}

/// The rows of a batch with further columns behind its own.
pub(super) fn with_columns(
    batch: &RecordBatch,
    further: impl Iterator<Item = ArrayRef>,
) -> Result<RecordBatch, SqlError> {
    let mut fields: Vec<FieldRef> = batch.schema().fields().iter().cloned().collect();
    let mut columns = batch.columns().to_vec();
    for (at, array) in further.enumerate() {
        fields.push(Arc::new(Field::new(format!("new_{at}"), array.data_type().clone(), true)));
        columns.push(array);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(|error| SqlError::internal(error.to_string()))
}
