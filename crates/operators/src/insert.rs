//! Writing rows into a table.
//!
//! A few rows go one at a time into the heap's last page ([`insert_rows`]); more go through bulk loaders (`load`).
//! Values are checked first: NULL (515), length (2628). `char` and `binary` values are padded (`column`).

pub(crate) mod column;
mod load;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::Schema;
use hobt_access::{AccessError, BTree, Hobt, RowStore};
use hobt_base::{SqlError, errors};
use hobt_catalog::{
    Index, IndexKind, PartitionFunction, Table, TableColumn, row_image, value_from_bytes, value_to_bytes,
};
use hobt_engine::{DatabaseUse, Instance, TableWriter, WriteError};
use hobt_functions::{array_value, batch_of_values, cast_array, value_to_array};
use hobt_page::{INDEX_KEY_BYTES_MAX, RowImage};
use hobt_txn::{RowLocks, StatementContext};
use hobt_types::{MaxLength, SqlType, Value};

use super::row_lock::{lock_error, snapshot_conflict};
use crate::new_keys::NewKeys;
use hobt_table::{CheckRule, RowRules, StatementRun, Writes, access_error, written_table_name};

pub use load::{Inserted, insert_batches, insert_held, insert_plan, insert_select};

/// The table that rows go into.
#[derive(Clone)]
pub struct WriteTarget {
    database: DatabaseUse,
    writer: TableWriter,
    /// The heaps of its partitions if rows may be loaded into them, because there are no indexes to maintain.
    heaps: Option<Vec<Arc<Hobt>>>,
    partitioning: Option<(usize, Arc<PartitionFunction>)>,
    name: String,
    /// `schema.table`.
    object: String,
    /// The statement that writes, as messages name it.
    statement: &'static str,
    /// The table's computed columns and constraints; `None` if it has none, or if rows are only moved.
    rules: Option<Arc<RowRules>>,
    /// Collects the values of its foreign keys, if it has any; never without `rules`.
    new_keys: Option<Arc<NewKeys>>,
}

impl std::fmt::Debug for WriteTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteTarget").field("table", &self.table().name).finish_non_exhaustive()
    }
}

/// 1946 for SQL Server's limit.
pub(super) fn key_too_long(index: &Index, bytes: usize) -> SqlError {
    let kind = if index.kind == IndexKind::Clustered { "clustered" } else { "nonclustered" };
    errors::KEY_TOO_LONG.with([
        &bytes,
        &index.name.as_deref().unwrap_or(""),
        &hobt_engine::key_bytes_max(index.kind),
        &kind,
    ])
}

/// 1946 for the limit of a page.
pub(super) fn entry_too_long(index: &Index, bytes: usize) -> SqlError {
    errors::ENTRY_TOO_LONG.with([&bytes, &index.name.as_deref().unwrap_or(""), &INDEX_KEY_BYTES_MAX])
}

impl WriteTarget {
    /// A table of `database`. `partitioning` is the partitioning column's position and the function, if the table is on
    /// a scheme.
    ///
    /// # Errors
    /// One of its heaps cannot be opened.
    pub fn new(
        database: DatabaseUse,
        table: Arc<Table>,
        schema_name: &str,
        partitioning: Option<(usize, Arc<PartitionFunction>)>,
    ) -> Result<WriteTarget, SqlError> {
        let name = format!("{}.{schema_name}.{}", database.name(), table.name);
        let writer = TableWriter::open(&database, &database.snapshot(), table);
        let writer = writer.map_err(|error| error.to_sql_error())?;
        let heaps = writer.heaps();
        let object = format!("{schema_name}.{}", written_table_name(&writer.table().name));
        Ok(WriteTarget {
            database,
            writer,
            heaps,
            partitioning,
            name,
            object,
            statement: "INSERT",
            rules: None,
            new_keys: None,
        })
    }

    /// Gives the target another name in messages: that of a table variable.
    #[must_use]
    pub fn called(self, name: String) -> WriteTarget {
        WriteTarget { object: format!("dbo.{name}"), name, ..self }
    }

    /// Sets the statement that messages name; `INSERT` without this.
    #[must_use]
    pub fn written_by(self, statement: &'static str) -> WriteTarget {
        WriteTarget { statement, ..self }
    }

    /// Adds the rules that rows are checked against, and what collects the values of foreign keys.
    #[must_use]
    pub fn ruled_by(self, rules: RowRules, new_keys: Option<NewKeys>) -> WriteTarget {
        let new_keys = new_keys.map(Arc::new);
        WriteTarget { rules: (!rules.is_empty() || new_keys.is_some()).then(|| Arc::new(rules)), new_keys, ..self }
    }

    /// The values of its foreign keys that were written, if it has foreign keys.
    pub fn new_keys(&self) -> Option<&NewKeys> {
        self.new_keys.as_deref()
    }

    /// Whether rows are checked against constraints or have computed columns.
    pub fn has_rules(&self) -> bool {
        self.rules.is_some()
    }

    /// The statement that writes, as messages name it.
    pub fn statement(&self) -> &'static str {
        self.statement
    }

    /// All columns of rows, as the table stores them, computed from the columns that are not computed. `changed` are
    /// the columns that change, `None` for new rows.
    ///
    /// # Errors
    /// 515, 547, 2628, 8115 and errors of computed columns.
    pub fn completed(
        &self,
        mut columns: Vec<ArrayRef>,
        rows: usize,
        changed: Option<&[usize]>,
    ) -> Result<Vec<ArrayRef>, SqlError> {
        let Some(rules) = &self.rules else { return Ok(columns) };
        let definitions = &self.table().columns;
        for (definition, array) in definitions.iter().zip(&mut columns).filter(|(column, _)| column.computed.is_none())
        {
            *array = column::stored(self, definition, array)?;
        }
        let mut changed = changed.map(<[usize]>::to_vec);
        for (place, array) in rules.computed(&columns, rows)? {
            columns[place] = column::stored(self, &definitions[place], &array)?;
            changed.iter_mut().for_each(|changed| changed.push(place));
        }
        rules.check(&columns, rows, changed.as_deref(), |rule| violation(self, rule))?;
        if let Some(new_keys) = &self.new_keys {
            new_keys.note(&columns, changed.as_deref())?;
        }
        Ok(columns)
    }

    /// Checks rows that the table already has against its check constraints.
    ///
    /// # Errors
    /// 547.
    pub fn held_against_checks(&self, batch: &RecordBatch) -> Result<(), SqlError> {
        match &self.rules {
            Some(rules) => rules.check(batch.columns(), batch.num_rows(), None, |rule| violation(self, rule)),
            None => Ok(()),
        }
    }

    /// New rows with their computed columns, checked against the constraints.
    ///
    /// # Errors
    /// As [`WriteTarget::completed`].
    pub fn completed_batch(&self, batch: &RecordBatch) -> Result<RecordBatch, SqlError> {
        if self.rules.is_none() {
            return Ok(batch.clone());
        }
        let columns = self.completed(batch.columns().to_vec(), batch.num_rows(), None)?;
        let fields =
            batch.schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect::<Vec<_>>();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
            .map_err(|error| SqlError::internal(error.to_string()))
    }

    /// Counts an update of the table's indexes: of all if rows are inserted or deleted, else of those with the columns
    /// `changed`, by their positions.
    pub fn note_update(&self, instance: &Instance, changed: Option<&[usize]>) {
        if instance.counts_index_use() {
            self.writer.note_update(changed);
        }
    }

    /// The table's database.
    pub fn database(&self) -> &DatabaseUse {
        &self.database
    }

    /// `schema.table`, as messages print it, or `@table`.
    pub fn name_in_database(&self) -> &str {
        self.name.strip_prefix(self.database.name()).and_then(|name| name.strip_prefix('.')).unwrap_or(&self.name)
    }

    /// How a statement locks its rows; `None` if it has locked the table as a whole.
    pub fn row_locks(&self, run: &StatementRun) -> Option<Arc<RowLocks>> {
        let hobt = self.writer.base()[0].hobt();
        run.context.row_locks(hobt.storage().database_tag(), hobt.id())
    }

    /// Whether rows may be loaded into it without locks on single rows: the table is locked as a whole, or can be at
    /// once.
    fn may_load(&self, run: &StatementRun) -> bool {
        self.heaps.is_some() && self.is_locked_whole(run)
    }

    /// Whether the table is locked as a whole, which is tried without waiting.
    fn is_locked_whole(&self, run: &StatementRun) -> bool {
        self.row_locks(run).is_none_or(|locks| locks.lock_table_to_load())
    }

    /// Marks the rows as only moved: they are in the statistics already.
    #[must_use]
    pub fn moving(self) -> WriteTarget {
        WriteTarget { writer: self.writer.without_notes(), ..self }
    }

    /// How rows of a query are likely to be written, if there are many.
    pub fn writes(&self) -> Writes {
        if self.heaps.is_some() || self.is_empty() { Writes::InBulk } else { Writes::OneByOne }
    }

    /// How many indexes are likely to be built from many rows of a query, behind those rows.
    pub fn built_behind(&self) -> usize {
        let others = self.table().indexes.iter().skip(1).filter(|index| !index.options.is_disabled).count();
        if others > 0 && self.is_empty() { others } else { 0 }
    }

    /// The writer that changes its rows.
    pub fn writer(&self) -> &TableWriter {
        &self.writer
    }

    /// Whether none of its trees has ever had rows, nor its heap, so that they can be built from rows that come.
    fn is_empty(&self) -> bool {
        let is_new = |tree: &Arc<BTree>| tree.is_new().unwrap_or(false);
        let is_empty = |store: &RowStore| store.tree().map_or_else(|| store.hobt().row_count() == 0, is_new);
        let mut indexes = self.table().indexes.iter();
        indexes.all(|index| !index.options.ignores_duplicates)
            && self.writer.base().iter().all(is_empty)
            && self.writer.index_trees().all(is_new)
    }

    /// The heap or clustered index alone: the other indexes are built behind it.
    fn base_alone(&self) -> WriteTarget {
        let writer = self.writer.clone().without_indexes();
        WriteTarget { heaps: writer.heaps(), writer, ..self.clone() }
    }

    /// The heaps into which rows may be loaded.
    fn heaps(&self) -> &[Arc<Hobt>] {
        self.heaps.as_deref().expect("rows are loaded into tables without indexes alone")
    }

    /// The error for the user if rows were not written.
    pub fn write_error(&self, error: WriteError) -> SqlError {
        match error {
            WriteError::Storage(error) => self.sql_error(error),
            WriteError::Lock(session, error) => lock_error(session, error),
            WriteError::Duplicate { index, key } => self.duplicate(index, &key),
            WriteError::SnapshotConflict => snapshot_conflict(&self.database, &self.object),
            WriteError::KeyTooLong { index, bytes } => key_too_long(&self.table().indexes[index], bytes),
            WriteError::EntryTooLong { index, bytes } => entry_too_long(&self.table().indexes[index], bytes),
        }
    }

    /// 1505.
    pub(super) fn duplicate_in_build(&self, index: &Index, key: &[Value]) -> SqlError {
        let columns = &self.table().columns;
        let shown = index.key.iter().zip(key).map(|(part, value)| shown_value(columns[part.column].sql_type, value));
        errors::DUPLICATE_KEY_BUILD.with([
            &self.object,
            &index.name.as_deref().unwrap_or(""),
            &(shown.collect::<Vec<_>>().join(", ")),
        ])
    }

    /// 2601 or 2627.
    pub(super) fn duplicate(&self, index: usize, key: &[Value]) -> SqlError {
        let table = self.table();
        let index = &table.indexes[index];
        let shown =
            index.key.iter().zip(key).map(|(part, value)| shown_value(table.columns[part.column].sql_type, value));
        let shown = shown.collect::<Vec<_>>().join(", ");
        let (object, name) = (&self.object, index.name.as_deref().unwrap_or(""));
        match index.constraint {
            Some(constraint) => {
                let kind = if constraint.is_primary { "PRIMARY KEY" } else { "UNIQUE KEY" };
                errors::DUPLICATE_KEY_CONSTRAINT.with([&kind, &name, &object, &shown])
            }
            None => errors::DUPLICATE_KEY_INDEX.with([&object, &name, &shown]),
        }
    }

    /// The partition of a row of these values.
    pub(super) fn partition_of_row(&self, values: &[Value]) -> usize {
        self.partitioning.as_ref().map_or(0, |(place, _)| self.partition_of(&values[*place]))
    }

    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        self.writer.table()
    }

    /// `database.schema.table`, as messages print it, or `@table`.
    pub fn full_name(&self) -> &str {
        &self.name
    }

    pub(super) fn sql_error(&self, error: AccessError) -> SqlError {
        access_error(&self.database, error)
    }

    /// The partition that a value of the partitioning column belongs to.
    fn partition_of(&self, value: &Value) -> usize {
        self.partitioning.as_ref().map_or(0, |(_, function)| function.partition_of(value))
    }
}

/// A column's value on its way into a row.
pub enum DirectValue<'a> {
    /// In the bytes of a page, already checked ([`WriteTarget::stored_bytes`]).
    Stored(Option<&'a [u8]>),
    /// Still to be checked.
    Value(Value),
}

impl WriteTarget {
    /// A column's value in the bytes of a page; `None` for NULL.
    ///
    /// # Errors
    /// 515, 2628.
    pub fn stored_bytes(&self, column: &TableColumn, value: &Value) -> Result<Option<Vec<u8>>, SqlError> {
        let checked = column::checked_value(self, column, value)?;
        value_to_bytes(column.sql_type, &checked).map_err(|error| SqlError::internal(error.to_string()))
    }

    /// A row of values, in the order of the table.
    ///
    /// # Errors
    /// 515, 2628.
    pub fn row_of(&self, values: &[DirectValue<'_>]) -> Result<RowImage, SqlError> {
        let mut owned = Vec::with_capacity(values.len());
        for (value, column) in values.iter().zip(&self.table().columns) {
            owned.push(match value {
                DirectValue::Stored(_) => None,
                DirectValue::Value(value) => self.stored_bytes(column, value)?,
            });
        }
        let bytes = values.iter().zip(&owned).map(|(value, owned)| match value {
            DirectValue::Stored(bytes) => *bytes,
            DirectValue::Value(_) => owned.as_deref(),
        });
        Ok(RowImage::new(bytes))
    }

    /// Writes a row into a table without rules and without indexes that ignore duplicates.
    ///
    /// # Errors
    /// 515, 2628, 2601, 2627, 511, 1105, 1205, 1222 and what storage returns.
    pub fn write_directly(&self, context: &StatementContext, values: &[DirectValue<'_>]) -> Result<(), SqlError> {
        if context.is_cancelled() {
            return Err(SqlError::cancelled());
        }
        let row = self.row_of(values)?;
        let partition = match &self.partitioning {
            None => 0,
            Some((place, _)) => {
                let value = value_from_bytes(self.table().columns[*place].sql_type, row.value(*place));
                self.partition_of(&value.map_err(|error| SqlError::internal(error.to_string()))?)
            }
        };
        self.writer.insert(context, partition, &row).map_err(|error| self.write_error(error))?;
        let hobt = self.writer.base()[0].hobt();
        let locks = context.row_locks(hobt.storage().database_tag(), hobt.id());
        locks.iter().for_each(|locks| locks.escalate_if_due());
        Ok(())
    }
}

/// A key's value as messages show it.
fn shown_value(sql_type: SqlType, value: &Value) -> String {
    const SHOWN: SqlType = SqlType::NVarChar(MaxLength::Limited(4000));
    if value.is_null() {
        return "<NULL>".to_owned();
    }
    let shown = value_to_array(value, sql_type).and_then(|array| cast_array(&array, sql_type, SHOWN, None, true));
    match shown.and_then(|array| array_value(&array, 0, SHOWN)) {
        Ok(Value::Text(text)) => text.trim_end().to_owned(),
        _ => "?".to_owned(),
    }
}

/// Writes rows one at a time: values in table order, already of the columns' types. Returns their number.
///
/// # Errors
/// 515, 2628, 511, 1105 and what storage returns.
pub fn insert_rows(run: &StatementRun, target: &WriteTarget, rows: &[Vec<Value>]) -> Result<u64, SqlError> {
    let Some(rules) = target.rules.as_ref().filter(|_| !rows.is_empty()) else {
        return write_rows(run, target, rows);
    };
    let types: Vec<SqlType> = target.table().columns.iter().map(|column| column.sql_type).collect();
    let batch = batch_of_values(Arc::clone(&rules.schema), &types, rows)?;
    write_rows(run, target, &rows_of(target, &target.completed_batch(&batch)?)?)
}

/// The values of a batch whose columns are the table's.
fn rows_of(target: &WriteTarget, batch: &RecordBatch) -> Result<Vec<Vec<Value>>, SqlError> {
    let row = |row: usize| {
        let columns = batch.columns().iter().zip(&target.table().columns);
        columns.map(|(array, column)| array_value(array, row, column.sql_type)).collect()
    };
    (0..batch.num_rows()).map(row).collect()
}

/// Writes rows that are complete.
fn write_rows(run: &StatementRun, target: &WriteTarget, rows: &[Vec<Value>]) -> Result<u64, SqlError> {
    let columns = &target.table().columns;
    let types = || columns.iter().map(|column| column.sql_type);
    let mut written = 0;
    let locks = target.row_locks(run);
    for values in rows {
        if run.is_cancelled() {
            return Err(SqlError::cancelled());
        }
        let checked: Result<Vec<Value>, SqlError> = columns
            .iter()
            .zip(values)
            .map(|(definition, value)| column::checked_value(target, definition, value))
            .collect();
        let checked = checked?;
        let partition = target.partition_of_row(&checked);
        let image = row_image(types(), &checked).map_err(|error| SqlError::internal(error.to_string()))?;
        match target.writer.insert(&run.context, partition, &image) {
            Ok(_) => written += 1,
            Err(WriteError::Duplicate { index, .. }) if target.table().indexes[index].options.ignores_duplicates => {
                run.leave_duplicate_out();
            }
            Err(error) => return Err(target.write_error(error)),
        }
        locks.iter().for_each(|locks| locks.escalate_if_due());
    }
    Ok(written)
}

/// Writes the rows of batches one at a time. Returns their number.
fn insert_one_by_one(
    run: &StatementRun,
    target: &WriteTarget,
    batches: impl IntoIterator<Item = Result<RecordBatch, SqlError>>,
) -> Result<u64, SqlError> {
    let mut written = 0;
    for batch in batches {
        let rows = write_rows(run, target, &rows_of(target, &target.completed_batch(&batch?)?)?)?;
        run.note_written(usize::try_from(rows).unwrap_or(usize::MAX));
        written += rows;
    }
    Ok(written)
}

/// 547.
fn violation(target: &WriteTarget, rule: &CheckRule) -> SqlError {
    let column = match rule.reads.as_slice() {
        [column] => format!(", column '{}'", target.table().columns[*column].name),
        _ => String::new(),
    };
    errors::CHECK_VIOLATION.with([
        &target.statement(),
        &rule.name,
        &target.database().name(),
        &target.name_in_database(),
        &column,
    ])
}
