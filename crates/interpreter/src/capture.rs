//! The result sets of a call, collected for a table.

use std::sync::Arc;

use arrow::compute::concat_batches;
use arrow::datatypes::{Field, Schema};
use arrow::record_batch::RecordBatch;
use hobt_base::SqlError;
use hobt_operators::HeldBatches;
use hobt_table::StatementRun;
use hobt_types::SqlType;

use super::event::ResultColumn;
use super::failure::Failure;
use crate::insert_target::column_count;

/// Result sets of so many rows or bytes are held by themselves. Smaller ones become one batch, up to this: a loop has
/// many, of a row each.
const ALONE_ROWS: u64 = 1024;
const ALONE_BYTES: u64 = 64 << 10;
const TOGETHER: usize = 256;

/// Collects result sets for a table instead of sending them to the client: `INSERT … EXEC`.
#[derive(Debug)]
pub(crate) struct Capture {
    /// Holds the rows.
    run: Arc<StatementRun>,
    /// The required number of columns of each result set.
    width: usize,
    /// `@@TRANCOUNT` when the call began.
    pub(crate) transaction_count: usize,
    sets: Vec<CapturedRows>,
    /// The batches of the current result set.
    current: HeldBatches,
}

/// The rows of a result set, or of several small ones whose columns have the same types.
#[derive(Debug)]
pub(crate) struct CapturedRows {
    pub(crate) types: Vec<SqlType>,
    pub(crate) held: HeldBatches,
    /// Batches that are still to be put together; `None` if the rows are of one result set.
    small: Option<Vec<RecordBatch>>,
}

impl Capture {
    /// Collects result sets of `width` columns, whose rows the statement `run` holds.
    pub(crate) fn new(run: &Arc<StatementRun>, width: usize, transaction_count: usize) -> Capture {
        let (run, current) = (Arc::clone(run), HeldBatches::new(run));
        Capture { run, width, transaction_count, sets: Vec::new(), current }
    }

    /// Adds a batch of the current result set.
    ///
    /// # Errors
    /// 5123, 1105 and 823 of a spill file.
    pub(crate) fn push(&mut self, batch: RecordBatch) -> Result<(), SqlError> {
        self.current.keep(batch)
    }

    /// Ends the result set.
    ///
    /// # Errors
    /// 213 for a wrong number of columns; this ends the batch, not only the call. As [`Capture::push`].
    pub(crate) fn end(&mut self, columns: &[ResultColumn]) -> Result<(), Failure> {
        if columns.len() != self.width {
            return Err(Failure { dooms: true, ..Failure::of_batch(column_count()) });
        }
        let ended = std::mem::replace(&mut self.current, HeldBatches::new(&self.run));
        if ended.row_count() == 0 {
            return Ok(());
        }
        let types: Vec<SqlType> = columns.iter().map(|column| column.sql_type).collect();
        if ended.row_count() >= ALONE_ROWS || ended.bytes() >= ALONE_BYTES || ended.is_on_disk() {
            self.sets.push(CapturedRows { types, held: ended, small: None });
            return Ok(());
        }
        if self.sets.last().is_none_or(|last| last.types != types || last.small.is_none()) {
            let held = HeldBatches::new(&self.run);
            self.sets.push(CapturedRows { types, held, small: Some(Vec::new()) });
        }
        let last = self.sets.last_mut().expect("made above");
        last.small.get_or_insert_default().extend(ended.into_batches()?.collect::<Result<Vec<_>, _>>()?);
        if last.small.as_ref().is_some_and(|small| small.len() >= TOGETHER) { Ok(last.put_together()?) } else { Ok(()) }
    }

    /// All rows, in their order.
    ///
    /// # Errors
    /// As [`Capture::push`].
    pub(crate) fn into_rows(mut self) -> Result<Vec<CapturedRows>, SqlError> {
        self.sets.iter_mut().try_for_each(CapturedRows::put_together)?;
        Ok(self.sets)
    }
}

impl CapturedRows {
    /// Holds the small batches as one.
    fn put_together(&mut self) -> Result<(), SqlError> {
        let Some(small) = self.small.as_mut().filter(|small| !small.is_empty()) else { return Ok(()) };
        // Result sets differ in names and in what can be NULL.
        let fields = small[0]
            .schema()
            .fields()
            .iter()
            .map(|field| Field::new(field.name(), field.data_type().clone(), true))
            .collect::<Vec<_>>();
        let together = concat_batches(&Arc::new(Schema::new(fields)), small.iter());
        small.clear();
        self.held.keep(together.map_err(|error| SqlError::internal(error.to_string()))?)
    }
}
