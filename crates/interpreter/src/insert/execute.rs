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
use crate::capture::{Capture, CapturedRows};
use crate::failure::Failure;
use crate::insert_target::Target;
use crate::interpreter::Interpreter;
use crate::stored_table::{nullable_schema, stored_batch};

impl Interpreter<'_> {
    /// The rows that a call returns, held by the statement `run`.
    pub(super) fn captured_rows(
        &mut self,
        run: &Arc<StatementRun>,
        call: &Execute,
        width: usize,
        caught_here: bool,
    ) -> Result<Vec<CapturedRows>, Failure> {
        if self.capture.is_some() {
            return Err(errors::NESTED_INSERT_EXEC.error().at(call.span.position).into());
        }
        self.capture = Some(Capture::new(run, width, self.state.transaction_count()));
        let result = self.execute(call, caught_here);
        let Some(capture) = self.capture.take() else {
            return Err(SqlError::internal("a call without its capture").into());
        };
        result?;
        Ok(capture.into_rows()?)
    }

    pub(super) fn insert_captured(
        &mut self,
        run: &Arc<StatementRun>,
        insert: &Insert,
        write: &Write,
        captured: Vec<CapturedRows>,
    ) -> Result<u64, Failure> {
        let (target, table) = (&write.target, write.store.table());
        let types: Vec<SqlType> = table.columns.iter().map(|column| column.sql_type).collect();
        let mut left = self.rows_wanted(run, insert, captured.iter().map(|set| set.held.row_count()).sum())?;
        let mut given = GivenIdentities::default();
        let mut whole = HeldBatches::new(run);
        for set in captured {
            for batch in set.held.into_batches()? {
                let batch = batch?;
                let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(batch.num_rows());
                left -= wanted as u64;
                let rows = (0..wanted).map(|row| self.captured_row(run, target, (&batch, row), &set.types));
                let rows = rows.collect::<Result<Vec<_>, _>>()?;
                given.note(target, &rows);
                let batch = batch_of_values(nullable_schema(table), &types, &rows)?;
                whole.keep(if write.sink.is_some() { stored_batch(&write.store, &batch)? } else { batch })?;
            }
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
        let values = columns.map(|((array, sql_type), column)| {
            let value = array_value(array.as_ref(), row, *sql_type)?;
            self.stored_value(run, TypedValue { sql_type: *sql_type, value }, column.sql_type)
        });
        let values = values.collect::<Result<Vec<_>, Failure>>()?;
        self.whole_row(run, target, values)
    }
}
