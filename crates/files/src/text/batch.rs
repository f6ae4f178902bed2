//! A batch of rows, without those that cannot be read.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use hobt_base::SqlError;

use super::columns::{Block, BlockTexts, ColumnOfTexts};
use super::stretch_text::StretchText;
use crate::read::ReadRequest;
use crate::rejected::{Fault, FaultKind, shown};

/// What is wrong with rows of a batch: the column's place among those of the request, and the value. Each row has its
/// first fault.
#[derive(Default)]
pub(crate) struct BlockFaults {
    by_row: BTreeMap<usize, (usize, FaultKind, String)>,
}

impl BlockFaults {
    pub(crate) fn add(&mut self, row: usize, column: usize, kind: FaultKind, value: &str) {
        self.by_row.entry(row).or_insert_with(|| (column, kind, shown(value)));
    }

    /// `row: column kind value` of each.
    #[cfg(test)]
    pub(crate) fn described(&self) -> Vec<String> {
        let described = |(row, (column, kind, value)): (&usize, &(usize, FaultKind, String))| {
            format!("{row}: {column} {kind:?} {value}")
        };
        self.by_row.iter().map(described).collect()
    }
}

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
            arrays.push(ColumnOfTexts { texts: BlockTexts { block, field }, column, place }.array(&mut of_values)?);
        }
        let mut lines = stretch.lines();
        let line = |row: &RowPlace| lines.at(row.start);
        self.without_faults(arrays, rows, (&of_rows, &of_values), (stretch.text.as_bytes(), line))
    }

    /// The batch of those rows that have no fault. The others are rejected: `bytes` are those in which they stand, and
    /// `line_of` says on which line.
    ///
    /// # Errors
    /// Too many rows cannot be read.
    pub(crate) fn without_faults(
        &self,
        arrays: Vec<ArrayRef>,
        rows: &[RowPlace],
        (of_rows, of_values): (&BlockFaults, &BlockFaults),
        (bytes, mut line_of): (&[u8], impl FnMut(&RowPlace) -> u64),
    ) -> Result<RecordBatch, SqlError> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(self.schema), arrays, &options).map_err(internal)?;
        if of_rows.by_row.is_empty() && of_values.by_row.is_empty() {
            return Ok(batch);
        }
        for (at, row) in rows.iter().enumerate() {
            if let Some(fault) = self.fault(at, row, (of_rows, of_values), &mut line_of) {
                self.request.rejections.add(fault, &bytes[row.start..row.end])?;
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
        row: &RowPlace,
        (of_rows, of_values): (&BlockFaults, &BlockFaults),
        line_of: &mut impl FnMut(&RowPlace) -> u64,
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
            line: line_of(row),
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
