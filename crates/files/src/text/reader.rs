//! Batches of rows from text files.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use hobt_base::{SqlError, errors};

use super::batch::{BatchBuilder, BlockFaults, RowPlace};
use super::columns::Block;
use super::fields::{Field, Fields, RowFault, RowShape, STRETCH_BYTES_MAX};
use super::layout::TextLayout;
use super::stretch_text::StretchText;
use crate::read::{BatchReader, FileRows, ReadRequest, next_batch};
use crate::rejected::FaultKind;
use crate::schema::{FileColumn, file_schema};
use crate::stretches::{Bounds, Stretches};

/// Fields of a batch, at most: so many keep their positions in the processor's cache.
const FIELDS_MAX: usize = 64 << 10;

/// The rows of text files, which workers share.
pub(crate) struct TextRows {
    request: ReadRequest,
    layout: TextLayout,
    stretches: Stretches,
    /// The columns that are read, by their places among all.
    projection: Vec<usize>,
    /// Their fields.
    fields: Vec<usize>,
    schema: SchemaRef,
    shape: RowShape,
}

impl TextRows {
    pub(crate) fn new(request: ReadRequest, layout: TextLayout, projection: Vec<usize>) -> TextRows {
        let columns: Vec<FileColumn> = projection.iter().map(|&place| request.columns[place].clone()).collect();
        let bounds =
            Bounds { last_row: request.last_row, row_bytes_max: request.row_bytes_max.min(STRETCH_BYTES_MAX / 2) };
        let stretches = Stretches::new(
            request.files.clone(),
            (request.code_page, true),
            Box::new(layout.clone()),
            bounds,
            Arc::clone(&request.progress),
        );
        let least = request.columns.iter().map(|column| column.field + 1).max().unwrap_or(0);
        let least = request.fields.unwrap_or(least);
        let wanted = columns.iter().map(|column| column.field + 1).max().unwrap_or(0);
        let shape = RowShape { wanted, least, is_exact: request.fields.is_some() };
        let fields = columns.iter().map(|column| column.field).collect();
        TextRows { schema: file_schema(&columns), request, layout, stretches, projection, fields, shape }
    }
}

impl FileRows for TextRows {
    fn reader(self: Arc<Self>) -> Box<dyn BatchReader> {
        Box::new(TextReader { rows: self, current: None, fields: Vec::new() })
    }
}

/// One worker's reading.
struct TextReader {
    rows: Arc<TextRows>,
    current: Option<StretchText>,
    fields: Vec<Field>,
}

impl BatchReader for TextReader {
    fn next(&mut self, most: usize) -> Result<Option<RecordBatch>, SqlError> {
        let (rows, fields) = (&self.rows, &mut self.fields);
        next_batch(&mut self.current, || rows.take(), |current| rows.batch(current, fields, most))
    }
}

impl TextRows {
    fn take(&self) -> Result<Option<StretchText>, SqlError> {
        let Some(stretch) = self.stretches.next()? else { return Ok(None) };
        let path = self.stretches.file(stretch.file).clone();
        StretchText::of(stretch, self.request.code_page, &self.layout, &path).map(Some)
    }

    /// The next rows of a stretch; `None` at its end.
    fn batch(
        &self,
        current: &mut StretchText,
        fields: &mut Vec<Field>,
        most: usize,
    ) -> Result<Option<RecordBatch>, SqlError> {
        let mut reading = Fields::new(&self.layout, current.text.as_bytes(), current.at, self.shape);
        while current.row < self.request.first_row {
            if !reading.skip() {
                return Ok(None);
            }
            current.row += 1;
        }
        let most = (FIELDS_MAX / self.shape.wanted.max(1)).clamp(1, self.request.batch_rows.min(most).max(1));
        fields.clear();
        let mut rows: Vec<RowPlace> = Vec::with_capacity(most);
        let mut faults = BlockFaults::default();
        while rows.len() < most && current.row <= self.request.last_row {
            let start = reading.position();
            let before = fields.len();
            let Some(read) = reading.next_row(fields) else { break };
            if read == Err(RowFault::Few(1)) && is_blank(&current.text[start..reading.position()]) {
                // An empty line has no row, and counts as one.
                fields.truncate(before);
                current.row += 1;
                continue;
            }
            if let Err(fault) = read {
                self.note_fault(fault, &mut faults, rows.len(), (current, start))?;
            }
            rows.push(RowPlace { row: current.row, start, end: reading.position() });
            current.row += 1;
        }
        current.at = reading.position();
        if rows.is_empty() {
            return Ok(None);
        }
        let text = &current.text;
        let width = self.shape.wanted.max(1);
        // A row without a wanted field still counts.
        fields.resize(rows.len() * width, Field::default());
        let block = Block { text, is_ascii: current.is_ascii, fields, width, quote: self.layout.quote };
        let builder = BatchBuilder {
            request: &self.request,
            projection: &self.projection,
            schema: &self.schema,
            file: self.stretches.file(current.file),
        };
        builder.build(&block, (&self.fields, &rows), faults, current).map(Some)
    }

    /// Notes what is wrong with a row's fields.
    ///
    /// # Errors
    /// 4866 for a quote that is not closed: the rest of the file is in it.
    fn note_fault(
        &self,
        fault: RowFault,
        faults: &mut BlockFaults,
        row: usize,
        (current, start): (&StretchText, usize),
    ) -> Result<(), SqlError> {
        let (field, kind) = match fault {
            RowFault::Few(count) => (count, FaultKind::Few),
            RowFault::Many => (self.shape.least, FaultKind::Many),
            RowFault::AfterQuote(field) => (field, FaultKind::AfterQuote),
            RowFault::Unclosed(field) => {
                let line = current.line(start);
                let path = self.stretches.file(current.file).display();
                return Err(errors::BULK_QUOTE_NOT_CLOSED.with([&(field + 1), &current.row, &line, &path]));
            }
        };
        faults.add(row, field, kind, "");
        Ok(())
    }
}

/// Whether a row is an empty line.
fn is_blank(row: &str) -> bool {
    row.bytes().all(|byte| matches!(byte, b'\r' | b'\n'))
}
