//! `INSERT … EXEC`: inserts the result sets of a call into a table.

use std::sync::Arc;

use hobt_base::{SqlError, errors};
use hobt_tsql::ast::{Execute, Insert};
use hobt_types::TypedValue;

use super::Write;
use crate::capture::Capture;
use crate::failure::Failure;
use crate::interpreter::Interpreter;
use hobt_table::StatementRun;

impl Interpreter<'_> {
    pub(super) fn captured_rows(
        &mut self,
        call: &Execute,
        width: usize,
        caught_here: bool,
    ) -> Result<Vec<Vec<TypedValue>>, Failure> {
        if self.capture.is_some() {
            return Err(errors::NESTED_INSERT_EXEC.error().at(call.span.position).into());
        }
        self.capture = Some(Capture::new(width, self.state.transaction_count()));
        let result = self.execute(call, caught_here);
        let Some(capture) = self.capture.take() else {
            return Err(SqlError::internal("a call without its capture").into());
        };
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
