//! The rows that a call returns for a table: `INSERT … EXEC`.
//!
//! Result sets may have other types than the table, each its own. Their rows are converted as they come, so that all of
//! them are held together, on disk if they are many. Those that come before a statement fails are kept, as a client
//! keeps them. A value that cannot be converted is no error of the call: it fails the `INSERT`, after the call.

use std::sync::Arc;

use arrow::array::Array;
use arrow::compute::concat_batches;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use hobt_base::SqlError;
use hobt_functions::{array_value, batch_of_values, carrier};
use hobt_operators::HeldBatches;
use hobt_table::StatementRun;
use hobt_types::{SqlType, TypedValue, Value};

use super::event::{Event, ResultColumn};
use super::failure::Failure;
use crate::insert_target::{Target, column_count};
use crate::interpreter::Interpreter;

/// From so many rows or bytes on, a batch is held by itself. Smaller ones are put together until they are as many: a
/// loop may send a row at a time.
const HELD_ROWS: usize = 1024;
const HELD_BYTES: usize = 64 << 10;

/// Collects result sets for a table instead of sending them to the client.
#[derive(Debug)]
pub(crate) struct Capture {
    /// Holds the rows. It is another statement than the `INSERT`, which begins when the call has ended.
    run: Arc<StatementRun>,
    /// `@@TRANCOUNT` when the call began.
    pub(crate) transaction_count: usize,
    /// The types of the columns that get the values.
    types: Vec<SqlType>,
    schema: SchemaRef,
    /// The types of the current result set.
    current: Vec<SqlType>,
    held: HeldBatches,
    small: Vec<RecordBatch>,
    small_rows: usize,
    small_bytes: usize,
    /// The first value that could not be converted. No rows are kept from there on.
    failed: Option<Failure>,
}

/// The rows of a call, whose columns have these types.
pub(super) struct Captured {
    pub(super) types: Vec<SqlType>,
    pub(super) rows: HeldBatches,
}

impl Capture {
    /// Collects rows for the listed columns of `target`, which the statement `run` holds.
    pub(crate) fn new(run: &Arc<StatementRun>, target: &Target, transaction_count: usize) -> Capture {
        let columns = &target.columns().columns;
        let field = |column: &hobt_binder::TargetColumn| Field::new(&column.name, carrier(column.sql_type), true);
        Capture {
            run: Arc::clone(run),
            transaction_count,
            types: columns.iter().map(|column| column.sql_type).collect(),
            schema: Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>())),
            current: Vec::new(),
            held: HeldBatches::new(run),
            small: Vec::new(),
            small_rows: 0,
            small_bytes: 0,
            failed: None,
        }
    }

    /// Begins a result set.
    ///
    /// # Errors
    /// 213 for a wrong number of columns; this ends the batch, not only the call.
    pub(crate) fn begin(&mut self, columns: &[ResultColumn]) -> Result<(), Failure> {
        if columns.len() != self.types.len() {
            return Err(Failure { dooms: true, ..Failure::of_batch(column_count()) });
        }
        self.current = columns.iter().map(|column| column.sql_type).collect();
        Ok(())
    }

    /// All rows.
    ///
    /// # Errors
    /// Those of a value that could not be converted; 5123, 1105 and 823 of a spill file.
    pub(super) fn into_rows(mut self) -> Result<Captured, Failure> {
        self.put_together()?;
        match self.failed {
            Some(failed) => Err(failed),
            None => Ok(Captured { types: self.types, rows: self.held }),
        }
    }

    /// A batch of the current result set in the table's types.
    fn converted(&self, interpreter: &Interpreter<'_>, batch: &RecordBatch) -> Result<RecordBatch, Failure> {
        let row = |row: usize| interpreter.converted_row(&self.run, (batch, row), &self.current, &self.types);
        let rows = (0..batch.num_rows()).map(row).collect::<Result<Vec<_>, _>>()?;
        Ok(batch_of_values(Arc::clone(&self.schema), &self.types, &rows)?)
    }

    fn keep(&mut self, batch: RecordBatch) -> Result<(), SqlError> {
        self.small_rows += batch.num_rows();
        self.small_bytes += batch.columns().iter().map(|column| column.get_array_memory_size()).sum::<usize>();
        self.small.push(batch);
        if self.small_rows >= HELD_ROWS || self.small_bytes >= HELD_BYTES { self.put_together() } else { Ok(()) }
    }

    /// Holds the small batches as one.
    fn put_together(&mut self) -> Result<(), SqlError> {
        let small = std::mem::take(&mut self.small);
        (self.small_rows, self.small_bytes) = (0, 0);
        let together = concat_batches(&self.schema, small.iter());
        self.held.keep(together.map_err(|error| SqlError::internal(error.to_string()))?)
    }
}

impl Interpreter<'_> {
    /// Begins a result set: for the client, or for the table of an `INSERT … EXEC`.
    ///
    /// # Errors
    /// As [`Capture::begin`]; the client accepts no more.
    pub(super) fn begin_result_set(&mut self, columns: Vec<ResultColumn>) -> Result<(), Failure> {
        match &mut self.capture {
            Some(capture) => capture.begin(&columns),
            None => self.send(Event::ResultSet(columns)),
        }
    }

    /// Gives a batch of the current result set to the client, or keeps it for the table.
    ///
    /// # Errors
    /// 5123, 1105 and 823 of a spill file; the client accepts no more.
    pub(super) fn give_rows(&mut self, batch: RecordBatch) -> Result<(), Failure> {
        let Some(mut capture) = self.capture.take() else { return self.send(Event::Rows(batch)) };
        let mut kept = Ok(());
        if capture.failed.is_none() {
            match capture.converted(self, &batch) {
                Ok(batch) => kept = capture.keep(batch),
                Err(failed) => capture.failed = Some(failed),
            }
        }
        self.capture = Some(capture);
        Ok(kept?)
    }

    /// Ends a result set of `rows` rows. A table needs no word of it.
    ///
    /// # Errors
    /// The client accepts no more.
    pub(super) fn end_result_set(&mut self, rows: u64) -> Result<(), Failure> {
        if self.capture.is_some() { Ok(()) } else { self.send(Event::ResultSetDone { rows }) }
    }

    /// A row of a batch, whose columns have the types `from`, in the types `to`, as an insert stores them.
    ///
    /// # Errors
    /// A value cannot be converted.
    pub(super) fn converted_row(
        &self,
        run: &Arc<StatementRun>,
        (batch, row): (&RecordBatch, usize),
        from: &[SqlType],
        to: &[SqlType],
    ) -> Result<Vec<Value>, Failure> {
        let columns = batch.columns().iter().zip(from).zip(to);
        let values = columns.map(|((array, from), to)| {
            let value = array_value(array.as_ref(), row, *from)?;
            self.stored_value(run, TypedValue { sql_type: *from, value }, *to)
        });
        values.collect()
    }
}
