//! Rows of files whose records a format file, or bcp's native format, describes.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use hobt_base::SqlError;
use hobt_functions::{batch_of_values, convert_value};
use hobt_types::{MaxLength, SqlType, Value};

use crate::encoding::CodePage;
use crate::native::{ValueError, decode_as};
use crate::read::{BatchReader, FileRows, ReadRequest, next_batch};
use crate::record::{Cut as RecordCut, FieldSpan};
use crate::record_form::RecordForm;
use crate::rejected::{Fault, FaultKind, shown};
use crate::schema::{FileColumn, file_schema};
use crate::stretches::{Bounds, Stretch, Stretches};

/// Rows of a batch, at most.
const BATCH_ROWS: usize = 4096;

/// The rows of such files, which workers share.
pub(crate) struct RecordRows {
    request: ReadRequest,
    form: RecordForm,
    projection: Vec<usize>,
    types: Vec<SqlType>,
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
        let types = columns.iter().map(|column| column.sql_type).collect();
        RecordRows { schema: file_schema(&columns), request, form, projection, types, stretches }
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
        let mut rows: Vec<Vec<Value>> = Vec::with_capacity(most);
        let mut seen = 0;
        while *at < stretch.bytes.len() && seen < most {
            let (row, start) = (stretch.first_row, *at);
            let cut = self.form.layout.split(&stretch.bytes, start, true, spans).map_err(|fault| fault.error(row))?;
            let RecordCut::Record { end } = cut else { return Err(SqlError::internal("a record without an end")) };
            *at = end;
            stretch.first_row += 1;
            seen += 1;
            if row < self.request.first_row || row > self.request.last_row {
                continue;
            }
            match self.values(&stretch.bytes, spans) {
                Ok(values) => rows.push(values),
                Err((place, kind, value)) => {
                    let fault = self.fault(stretch, (row, place, kind), value);
                    self.request.rejections.add(fault, &stretch.bytes[start..end])?;
                }
            }
        }
        batch_of_values(Arc::clone(&self.schema), &self.types, &rows).map(Some)
    }

    fn fault(&self, stretch: &Stretch, (row, place, kind): (u64, usize, FaultKind), value: String) -> Fault {
        let column = &self.request.columns[place];
        Fault {
            file: self.stretches.file(stretch.file).clone(),
            row,
            // Records have no lines.
            line: row,
            column: column.field + 1,
            name: column.name.clone(),
            type_name: column.sql_type.to_string(),
            kind,
            value,
        }
    }

    /// The values of the columns that are read, or the column that has none and why.
    fn values(&self, bytes: &[u8], spans: &[FieldSpan]) -> Result<Vec<Value>, (usize, FaultKind, String)> {
        let mut values = Vec::with_capacity(self.projection.len());
        for &place in &self.projection {
            let column = &self.request.columns[place];
            let field = spans.get(column.field).and_then(|span| span.of(bytes));
            let value = match field {
                None => Value::Null,
                Some(field) => {
                    let wrong = |kind| (place, kind, shown(&String::from_utf8_lossy(&field[..field.len().min(120)])));
                    self.value(field, column).map_err(wrong)?
                }
            };
            if value.is_null() && !column.nullable {
                return Err((place, FaultKind::Null, String::new()));
            }
            values.push(value);
        }
        Ok(values)
    }

    fn value(&self, bytes: &[u8], column: &FileColumn) -> Result<Value, FaultKind> {
        let (host, encoding) = (self.form.layout.fields()[column.field].host(), self.form.encodings[column.field]);
        let value = decode_as(bytes, host, encoding, column.sql_type).map_err(|error| match error {
            ValueError::Mismatch => FaultKind::Invalid,
            ValueError::Truncation => FaultKind::TooLong,
            ValueError::Overflow => FaultKind::Overflow,
            ValueError::Null => FaultKind::Null,
        })?;
        match (&value, column.sql_type) {
            // Text of fixed length is padded; a code page may lack characters.
            (Value::Text(text), to) if matches!(to, SqlType::Char(_) | SqlType::NChar(_)) || !text.is_ascii() => {
                convert_value(&value, SqlType::NVarChar(MaxLength::Max), to).map_err(|_| FaultKind::Invalid)
            }
            (Value::Binary(_), to @ SqlType::Binary(_)) => {
                convert_value(&value, SqlType::VarBinary(MaxLength::Max), to).map_err(|_| FaultKind::Invalid)
            }
            _ => Ok(value),
        }
    }
}
