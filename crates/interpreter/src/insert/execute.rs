//! `INSERT … EXEC`: inserts the result sets of a call into a table.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use hobt_base::{SqlError, errors};
use hobt_functions::batch_of_values;
use hobt_operators::{HeldBatches, insert_held};
use hobt_table::StatementRun;
use hobt_tsql::ast::{Execute, Insert};
use hobt_types::SqlType;

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
        let target = &write.target;
        // The call may have changed the table's columns.
        if captured.types.len() != target.listed().len() {
            return Err(Failure::of_batch(column_count()));
        }
        let wanted = self.rows_wanted(run, insert, captured.rows.row_count())?;
        let types = captured.types;
        let mut rows = captured.rows;
        rows.cut(wanted);
        let (mut given, mut failed) = (GivenIdentities::default(), None);
        let whole = rows.into_batches()?.map(|batch| {
            let whole = self.captured_batch(run, write, &batch?, &types, &mut given);
            whole.map_err(|failure| failed.insert(failure).error.clone())
        });
        let inserted = match &write.sink {
            None => insert_held(run, &write.store, wanted, whole).map_err(Failure::from),
            Some(sink) => {
                let mut held = HeldBatches::new(run);
                let kept = whole.into_iter().try_for_each(|batch| held.keep(stored_batch(&write.store, &batch?)?));
                kept.and_then(|()| insert_held(run, &write.store, held.row_count(), held.batches()?))
                    .map_err(Failure::from)
                    .and_then(|rows| self.put_out_inserted(run, sink, held.batches()?).map(|()| rows))
            }
        };
        // What the rows' own failure says goes beyond its error.
        let inserted = inserted.map_err(|failure| failed.unwrap_or(failure))?;
        self.note_given(&given);
        self.reseed_by(run, target, &given)?;
        Ok(inserted)
    }

    /// Rows of the table, from those that the call has returned.
    fn captured_batch(
        &mut self,
        run: &Arc<StatementRun>,
        write: &Write,
        batch: &RecordBatch,
        from: &[SqlType],
        given: &mut GivenIdentities,
    ) -> Result<RecordBatch, Failure> {
        if run.is_cancelled() {
            return Err(SqlError::cancelled().into());
        }
        let (target, table) = (&write.target, write.store.table());
        let listed: Vec<SqlType> = target.columns().columns.iter().map(|column| column.sql_type).collect();
        let mut rows = Vec::with_capacity(batch.num_rows());
        for row in 0..batch.num_rows() {
            self.sequences.borrow_mut().next_row();
            let values = self.converted_row(run, (batch, row), from, &listed)?;
            rows.push(self.whole_row(run, target, values)?);
        }
        given.note(target, &rows);
        let types: Vec<SqlType> = table.columns.iter().map(|column| column.sql_type).collect();
        Ok(batch_of_values(nullable_schema(table), &types, &rows)?)
    }
}
