//! Conversion of rows between the model and the tables of an instance.

use std::collections::BTreeMap;
use std::sync::Arc;

use hobt_base::{SqlError, number};
use hobt_catalog::{DatabaseSnapshot, PartitionFunction, Table};
use hobt_engine::{Database, EngineError, RowAt, RowUpdate, TableWriter, WriteError};
use hobt_page::RowImage;
use hobt_txn::StatementContext;
use hobt_types::{SqlType, Value};

use crate::model::{Row, Rows};

/// The locations of a table's rows.
pub(crate) type Places = BTreeMap<i32, RowAt>;

/// Bytes that identify the row they belong to.
pub(crate) fn payload(key: i32, length: usize) -> Arc<[u8]> {
    let mut state = u64::from(key.cast_unsigned()).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ length as u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes.into()
}

/// A table opened for reading and changing.
pub(crate) struct OpenTable<'d> {
    database: &'d Database,
    writer: TableWriter,
    function: Option<Arc<PartitionFunction>>,
}

impl<'d> OpenTable<'d> {
    pub(crate) fn new(
        database: &'d Database,
        snapshot: &DatabaseSnapshot,
        table: &Arc<Table>,
    ) -> Result<OpenTable<'d>, EngineError> {
        let writer = TableWriter::open(database, snapshot, Arc::clone(table))?;
        Ok(OpenTable::of(database, snapshot, writer))
    }

    /// Like [`OpenTable::new`], for reading only: the database stays clean.
    pub(crate) fn to_read(
        database: &'d Database,
        snapshot: &DatabaseSnapshot,
        table: &Arc<Table>,
    ) -> Result<OpenTable<'d>, EngineError> {
        let writer = TableWriter::open_to_read(database, snapshot, Arc::clone(table))?;
        Ok(OpenTable::of(database, snapshot, writer))
    }

    fn of(database: &'d Database, snapshot: &DatabaseSnapshot, writer: TableWriter) -> OpenTable<'d> {
        let function = function_of(snapshot, writer.table());
        OpenTable { database, writer, function }
    }

    pub(crate) fn writer(&self) -> &TableWriter {
        &self.writer
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        self.writer.table()
    }

    /// The partition that a row with this key belongs to.
    pub(crate) fn partition_of(&self, key: i32) -> usize {
        self.function.as_ref().map_or(0, |function| function.partition_of(&Value::Int(i64::from(key))))
    }

    pub(crate) fn insert(&self, ctx: &StatementContext, key: i32, row: &Row) -> Result<(), EngineError> {
        let inserted = self.writer.insert(ctx, self.partition_of(key), &image(self.table(), key, row));
        inserted.map(drop).map_err(|error| refused(self.database, error))
    }

    pub(crate) fn delete(&self, ctx: &StatementContext, at: &RowAt) -> Result<(), EngineError> {
        self.writer.delete(ctx, at).map_err(|error| refused(self.database, error))
    }

    /// Replaces rows by others.
    pub(crate) fn replace(&self, ctx: &StatementContext, rows: Vec<(RowAt, i32, Row)>) -> Result<(), EngineError> {
        let update = |(at, key, row): (RowAt, i32, Row)| RowUpdate {
            at,
            partition: self.partition_of(key),
            row: image(self.table(), key, &row),
        };
        let updates: Vec<RowUpdate> = rows.into_iter().map(update).collect();
        self.writer.update(ctx, &updates, &mut || false).map_err(|error| refused(self.database, error))
    }

    /// All rows, with their locations.
    ///
    /// # Errors
    /// A page cannot be read, or a row has no key, a key that exists already, or is in the wrong partition.
    pub(crate) fn read(&self) -> Result<(Rows, Places), EngineError> {
        let (mut rows, mut places, mut wrong) = (Rows::new(), Places::new(), None);
        for partition in 0..self.writer.base().len() {
            let read = self.writer.for_each_row(partition, &mut |at, stored| {
                match row_of(self.table(), stored) {
                    Some((key, row)) => {
                        if self.partition_of(key) != partition {
                            wrong = Some(format!("row {key} is in partition {partition}"));
                        }
                        places.insert(key, at.clone());
                        if rows.insert(key, row).is_some() {
                            wrong = Some(format!("row {key} is there twice"));
                        }
                    }
                    None => wrong = Some(format!("a row without a key at {at:?}")),
                }
                true
            });
            read.map_err(|error| self.database.storage_error(error))?;
        }
        match wrong {
            None => Ok((rows, places)),
            Some(text) => Err(EngineError::from(SqlError::raised(number::IO_ERROR, 24, 1, text))),
        }
    }
}

/// The partition function of a table; `None` if it is not partitioned.
pub(crate) fn function_of(snapshot: &DatabaseSnapshot, table: &Table) -> Option<Arc<PartitionFunction>> {
    snapshot.partitioning_of(&table.base_index().data_space).map(|(_, function)| Arc::clone(function))
}

/// No other session changes a session's tables, and no key comes twice, so every refusal is damage.
pub(crate) fn refused(database: &Database, error: WriteError) -> EngineError {
    match error {
        WriteError::Storage(error) => database.storage_error(error),
        other => EngineError::from(SqlError::raised(number::IO_ERROR, 24, 1, format!("{other:?}"))),
    }
}

/// The stored bytes of a row's value in a column.
fn value(column: &str, sql_type: SqlType, key: i32, row: &Row) -> Option<Vec<u8>> {
    match column {
        "id" => Some(key.to_le_bytes().to_vec()),
        "number" if sql_type == SqlType::Int => {
            row.number.map(|number| i32::try_from(number).expect("three times a key").to_le_bytes().to_vec())
        }
        "number" => row.number.map(|number| number.to_le_bytes().to_vec()),
        "extra" => row.extra.map(|extra| extra.to_le_bytes().to_vec()),
        _ => row.payload.as_ref().map(|payload| payload.to_vec()),
    }
}

/// A row as a table stores it, without hidden columns.
pub(crate) fn image(table: &Table, key: i32, row: &Row) -> RowImage {
    let values: Vec<_> = table.columns.iter().map(|column| value(&column.name, column.sql_type, key, row)).collect();
    RowImage::new(values.iter().map(Option::as_deref))
}

/// The key and the row in a stored row; `None` if there is no key.
fn row_of(table: &Table, stored: &RowImage) -> Option<(i32, Row)> {
    let mut key = None;
    let mut row = Row { number: None, payload: None, extra: None };
    let int = |bytes: &[u8]| <[u8; 4]>::try_from(bytes).ok().map(i32::from_le_bytes);
    for (place, column) in table.columns.iter().enumerate() {
        let Some(bytes) = stored.value(place) else { continue };
        match column.name.as_str() {
            "id" => key = int(bytes),
            "number" if column.sql_type == SqlType::Int => row.number = int(bytes).map(i64::from),
            "number" => row.number = bytes.try_into().ok().map(i64::from_le_bytes),
            "extra" => row.extra = int(bytes),
            _ => row.payload = Some(bytes.into()),
        }
    }
    Some((key?, row))
}
