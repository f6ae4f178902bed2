//! `INSERT … EXEC`: inserts the result sets of a call into a table.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use hobt_base::{SqlError, number};
use hobt_functions::array_value;
use hobt_tsql::ast::{Execute, Insert};
use hobt_types::TypedValue;

use super::Write;
use super::target::column_count;
use crate::event::ResultColumn;
use crate::failure::Failure;
use crate::run::Interpreter;
use hobt_table::StatementRun;

/// Collects result sets for a table instead of sending them to the client: `INSERT … EXEC`.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    /// The required number of columns of each result set.
    width: usize,
    rows: Vec<Vec<TypedValue>>,
    batches: Vec<RecordBatch>,
}

impl Capture {
    /// Adds a batch of the current result set.
    pub(crate) fn push(&mut self, batch: RecordBatch) {
        self.batches.push(batch);
    }

    /// Ends the result set.
    ///
    /// # Errors
    /// 213 for a wrong number of columns; this ends the batch, not only the call.
    pub(crate) fn end(&mut self, columns: Vec<ResultColumn>) -> Result<(), Failure> {
        if columns.len() != self.width {
            return Err(Failure { dooms: true, ..Failure::of_batch(column_count()) });
        }
        for batch in std::mem::take(&mut self.batches) {
            for row in 0..batch.num_rows() {
                let values = batch.columns().iter().zip(&columns).map(|(array, column)| {
                    let value = array_value(array.as_ref(), row, column.sql_type)?;
                    Ok(TypedValue { sql_type: column.sql_type, value })
                });
                self.rows.push(values.collect::<Result<_, SqlError>>()?);
            }
        }
        Ok(())
    }
}

impl Interpreter<'_> {
    pub(super) fn captured_rows(
        &mut self,
        call: &Execute,
        width: usize,
        caught_here: bool,
    ) -> Result<Vec<Vec<TypedValue>>, Failure> {
        if self.capture.is_some() {
            let text = "An INSERT EXEC statement cannot be nested.";
            return Err(SqlError::new(number::NESTED_INSERT_EXEC, text).at(call.span.position).into());
        }
        self.capture = Some(Capture { width, ..Capture::default() });
        self.insert_exec_count = Some(self.state.transaction_count());
        let result = self.execute(call, caught_here);
        self.insert_exec_count = None;
        let capture = self.capture.take().unwrap_or_default();
        result.map(|_| capture.rows)
    }

    pub(super) fn insert_captured(
        &mut self,
        run: &Arc<StatementRun>,
        insert: &Insert,
        write: &Write,
        captured: Vec<Vec<TypedValue>>,
    ) -> Result<u64, Failure> {
        let target = &write.target;
        let mut rows = Vec::with_capacity(captured.len());
        for row in captured {
            self.sequences.borrow_mut().next_row();
            let mut values = Vec::with_capacity(row.len());
            for (given, column) in row.into_iter().zip(&target.columns().columns) {
                values.push(self.stored_value(run, given, column.sql_type)?);
            }
            rows.push(self.whole_row(run, target, values)?);
        }
        self.insert_whole(run, insert, write, rows)
    }
}
