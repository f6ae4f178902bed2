//! `INSERT … EXEC`: inserts the result sets of a call into a table.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use hobt_base::{SqlError, errors};
use hobt_functions::{array_value, batch_of_values};
use hobt_operators::{HeldBatches, insert_held};
use hobt_table::StatementRun;
use hobt_tsql::ast::{Execute, Insert};
use hobt_types::{SqlType, TypedValue, Value};

use super::Write;
use super::values::GivenIdentities;
use crate::capture::{Capture, Captured};
use crate::failure::Failure;
use crate::insert_target::{Target, column_count};
use crate::interpreter::Interpreter;
use crate::stored_table::{nullable_schema, stored_batch};

impl Interpreter<'_> {
    /// The rows that a call returns for the listed columns of a table, held by the statement `run`.
    pub(super) fn captured_rows(
        &mut self,
        run: &Arc<StatementRun>,
        call: &Execute,
        target: &Target,
        caught_here: bool,
    ) -> Result<Captured, Failure> {
        if self.capture.is_some() {
            return Err(errors::NESTED_INSERT_EXEC.error().at(call.span.position).into());
        }
        self.capture = Some(Capture::new(run, target, self.state.transaction_count()));
        let result = self.execute(call, caught_here);
        let Some(capture) = self.capture.take() else {
            return Err(SqlError::internal("a call without its capture").into());
        };
        result?;
        capture.into_rows()
    }

    pub(super) fn insert_captured(
        &mut self,
        run: &Arc<StatementRun>,
        insert: &Insert,
        write: &Write,
        captured: Captured,
    ) -> Result<u64, Failure> {
        let (target, table) = (&write.target, write.store.table());
        // The call may have changed the table's columns.
        if captured.types.len() != target.listed().len() {
            return Err(Failure::of_batch(column_count()));
        }
        let types: Vec<SqlType> = table.columns.iter().map(|column| column.sql_type).collect();
        let mut left = self.rows_wanted(run, insert, captured.rows.row_count())?;
        let mut given = GivenIdentities::default();
        let mut whole = HeldBatches::new(run);
        for batch in captured.rows.into_batches()? {
            if left == 0 {
                break;
            }
            if run.is_cancelled() {
                return Err(SqlError::cancelled().into());
            }
            let batch = batch?;
            let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(batch.num_rows());
            left -= wanted as u64;
            let rows = (0..wanted).map(|row| self.captured_row(run, target, (&batch, row), &captured.types));
            let rows = rows.collect::<Result<Vec<_>, _>>()?;
            given.note(target, &rows);
            let batch = batch_of_values(nullable_schema(table), &types, &rows)?;
            whole.keep(if write.sink.is_some() { stored_batch(&write.store, &batch)? } else { batch })?;
        }
        self.note_given(&given);
        let rows = insert_held(run, &write.store, whole.row_count(), whole.batches()?)?;
        if let Some(sink) = &write.sink {
            self.put_out_inserted(run, sink, whole.batches()?)?;
        }
        self.reseed_by(run, target, &given)?;
        Ok(rows)
    }

    /// A row of the table, from one that the call has returned.
    fn captured_row(
        &mut self,
        run: &Arc<StatementRun>,
        target: &Target,
        (batch, row): (&RecordBatch, usize),
        types: &[SqlType],
    ) -> Result<Vec<Value>, Failure> {
        self.sequences.borrow_mut().next_row();
        let columns = batch.columns().iter().zip(types).zip(&target.columns().columns);
        let values = columns.map(|((array, from), column)| {
            let value = array_value(array.as_ref(), row, *from)?;
            if *from == column.sql_type {
                return Ok(value);
            }
            self.stored_value(run, TypedValue { sql_type: *from, value }, column.sql_type)
        });
        let values = values.collect::<Result<Vec<_>, Failure>>()?;
        self.whole_row(run, target, values)
    }
}
