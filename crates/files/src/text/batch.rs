//! A batch of a block's rows, without those that cannot be read.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use hobt_base::SqlError;

use super::columns::{Block, BlockColumn, BlockFaults};
use super::stretch_text::StretchText;
use crate::read::ReadRequest;
use crate::rejected::Fault;

/// Where a row stands in its file and its stretch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RowPlace {
    /// Its number in the file, from 1.
    pub(crate) row: u64,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Makes batches of one reading.
pub(crate) struct BatchBuilder<'r> {
    pub(crate) request: &'r ReadRequest,
    /// The columns that are read, by their places among the request's.
    pub(crate) projection: &'r [usize],
    pub(crate) schema: &'r SchemaRef,
    pub(crate) file: &'r Path,
}

impl BatchBuilder<'_> {
    /// The batch of `rows`, whose column `projection[i]` is the field `fields[i]` of the block. `of_rows` says which
    /// rows have wrong fields, by the field's number in the file. `stretch` is the text that the rows stand in, and the
    /// line on which it begins.
    ///
    /// # Errors
    /// Too many rows cannot be read.
    pub(crate) fn build(
        &self,
        block: &Block<'_>,
        (fields, rows): (&[usize], &[RowPlace]),
        of_rows: BlockFaults,
        stretch: &StretchText,
    ) -> Result<RecordBatch, SqlError> {
        // Rows whose fields are wrong have no values that could be wrong.
        let mut of_values = BlockFaults::default();
        let mut arrays = Vec::with_capacity(self.projection.len());
        for (&place, &field) in self.projection.iter().zip(fields) {
            let column = &self.request.columns[place];
            arrays.push(BlockColumn { block, column, place, field }.array(&mut of_values)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(self.schema), arrays, &options).map_err(internal)?;
        if of_rows.by_row.is_empty() && of_values.by_row.is_empty() {
            return Ok(batch);
        }
        for (at, row) in rows.iter().enumerate() {
            if let Some(fault) = self.fault(at, *row, (&of_rows, &of_values), stretch) {
                self.request.rejections.add(fault, &stretch.text.as_bytes()[row.start..row.end])?;
            }
        }
        let is_kept = |row| !of_rows.by_row.contains_key(&row) && !of_values.by_row.contains_key(&row);
        let kept = BooleanArray::from((0..rows.len()).map(is_kept).collect::<Vec<_>>());
        filter_record_batch(&batch, &kept).map_err(internal)
    }

    /// What is wrong with a row, if anything is.
    fn fault(
        &self,
        at: usize,
        row: RowPlace,
        (of_rows, of_values): (&BlockFaults, &BlockFaults),
        stretch: &StretchText,
    ) -> Option<Fault> {
        let (known, number, kind, value) = match (of_rows.by_row.get(&at), of_values.by_row.get(&at)) {
            (Some((field, kind, value)), _) => {
                (self.request.columns.iter().find(|column| column.field == *field), *field, kind, value)
            }
            (None, Some((place, kind, value))) => (self.request.columns.get(*place), *place, kind, value),
            (None, None) => return None,
        };
        Some(Fault {
            file: self.file.to_path_buf(),
            row: row.row,
            line: stretch.line(row.start),
            column: known.map_or(number, |column| column.field) + 1,
            name: known.map_or_else(|| (number + 1).to_string(), |column| column.name.clone()),
            type_name: known.map_or_else(String::new, |column| column.sql_type.to_string()),
            kind: *kind,
            value: value.clone(),
        })
    }
}

fn internal(error: arrow::error::ArrowError) -> SqlError {
    SqlError::internal(error.to_string())
}
