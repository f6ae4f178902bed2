//! Rows of files whose records a format file, or bcp's native format, describes.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use hobt_base::SqlError;

use crate::encoding::CodePage;
use crate::read::{BatchReader, FileRows, ReadRequest, next_batch};
use crate::record::{Cut as RecordCut, FieldSpan};
use crate::record_columns::RecordBlock;
use crate::record_form::RecordForm;
use crate::schema::{FileColumn, file_schema};
use crate::stretches::{Bounds, Stretch, Stretches};
use crate::text::batch::{BatchBuilder, BlockFaults, RowPlace};

/// Rows of a batch, at most.
const BATCH_ROWS: usize = 4096;

/// The rows of such files, which workers share.
pub(crate) struct RecordRows {
    request: ReadRequest,
    form: RecordForm,
    projection: Vec<usize>,
    schema: SchemaRef,
    stretches: Stretches,
}

impl RecordRows {
    pub(crate) fn new(request: ReadRequest, form: RecordForm, projection: Vec<usize>) -> RecordRows {
        let columns: Vec<FileColumn> = projection.iter().map(|&place| request.columns[place].clone()).collect();
        let bounds = Bounds { last_row: request.last_row, row_bytes_max: request.row_bytes_max };
        let stretches = Stretches::new(
            request.files.clone(),
            (CodePage::Utf8, false),
            Box::new(form.clone()),
            bounds,
            Arc::clone(&request.progress),
        );
        RecordRows { schema: file_schema(&columns), request, form, projection, stretches }
    }
}

impl FileRows for RecordRows {
    fn reader(self: Arc<Self>) -> Box<dyn BatchReader> {
        Box::new(RecordReader { rows: self, current: None, spans: Vec::new() })
    }
}

/// One worker's reading.
struct RecordReader {
    rows: Arc<RecordRows>,
    /// A stretch, and where its next record begins.
    current: Option<(Stretch, usize)>,
    spans: Vec<FieldSpan>,
}

impl BatchReader for RecordReader {
    fn next(&mut self, most: usize) -> Result<Option<RecordBatch>, SqlError> {
        let (rows, spans) = (&self.rows, &mut self.spans);
        let take = || Ok(rows.stretches.next()?.map(|stretch| (stretch, 0)));
        next_batch(&mut self.current, take, |(stretch, at)| rows.batch(stretch, at, spans, most))
    }
}

impl RecordRows {
    /// The next rows of a stretch; `None` at its end.
    fn batch(
        &self,
        stretch: &mut Stretch,
        at: &mut usize,
        spans: &mut Vec<FieldSpan>,
        most: usize,
    ) -> Result<Option<RecordBatch>, SqlError> {
        if *at >= stretch.bytes.len() {
            return Ok(None);
        }
        let most = BATCH_ROWS.min(self.request.batch_rows).min(most);
        let mut places = Vec::with_capacity(most);
        let mut seen = 0;
        spans.clear();
        while *at < stretch.bytes.len() && seen < most {
            let (row, start, before) = (stretch.first_row, *at, spans.len());
            let cut = self.form.layout.split(&stretch.bytes, start, true, spans).map_err(|fault| fault.error(row))?;
            let RecordCut::Record { end } = cut else { return Err(SqlError::internal("a record without an end")) };
            *at = end;
            stretch.first_row += 1;
            seen += 1;
            if row < self.request.first_row || row > self.request.last_row {
                spans.truncate(before);
            } else {
                places.push(RowPlace { row, start, end });
            }
        }
        let block = RecordBlock { bytes: &stretch.bytes, spans, form: &self.form };
        let mut faults = BlockFaults::default();
        let mut arrays = Vec::with_capacity(self.projection.len());
        for &place in &self.projection {
            arrays.push(block.array(&self.request.columns[place], place, &mut faults)?);
        }
        let builder = BatchBuilder {
            request: &self.request,
            projection: &self.projection,
            schema: &self.schema,
            file: self.stretches.file(stretch.file),
        };
        // Records have no lines.
        let line = |place: &RowPlace| place.row;
        builder.without_faults(arrays, &places, (&BlockFaults::default(), &faults), (&stretch.bytes, line)).map(Some)
    }
}
