//! Batches of rows from Parquet files. Workers take row groups one after the other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{filter_record_batch, is_null, not};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use hobt_base::{SqlError, errors};
use hobt_types::SqlType;
use parking_lot::Mutex;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection, RowSelector,
};

use super::bytes::ParquetBytes;
use super::convert::{ConvertError, convert};
use super::prune::wanted_groups;
use super::types::load;
use crate::read::{BatchReader, FileRows, ReadRequest, next_batch};
use crate::rejected::{Fault, FaultKind};
use crate::schema::{FileColumn, file_schema};

/// What of a Parquet file is decoded for one turn of a worker.
struct Piece {
    file: OpenFile,
    group: usize,
    /// The number of the group's first row in its file, from 1.
    first_row: u64,
    rows: u64,
}

#[derive(Clone)]
struct OpenFile {
    bytes: ParquetBytes,
    metadata: ArrowReaderMetadata,
    wanted: Arc<Vec<bool>>,
    /// The file's columns of the request's columns: files may have them in different orders.
    fields: Arc<Vec<usize>>,
    next_row: u64,
}

/// The rows of Parquet files, which workers share.
pub(crate) struct ParquetRows {
    request: ReadRequest,
    /// The columns that are read, by their places among all.
    projection: Vec<usize>,
    schema: SchemaRef,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next_file: usize,
    open: Option<OpenFile>,
    next_group: usize,
}

/// Calls the decoder. It may meet a damaged file by a panic, which becomes an error.
pub(super) fn guarded<T>(
    bytes: &ParquetBytes,
    decode: impl FnOnce() -> parquet::errors::Result<T>,
) -> Result<T, SqlError> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(decoded) => decoded.map_err(|error| bytes.damaged(&error)),
        Err(_) => Err(errors::BULK_PARQUET_DAMAGED.with([&bytes.path.display(), &"it cannot be decoded"])),
    }
}

impl ParquetRows {
    pub(crate) fn new(request: ReadRequest, projection: Vec<usize>) -> ParquetRows {
        let columns: Vec<FileColumn> = projection.iter().map(|&place| request.columns[place].clone()).collect();
        ParquetRows { schema: file_schema(&columns), request, projection, state: Mutex::default() }
    }

    /// The next row group; `None` at the end of the last file.
    fn next_piece(&self) -> Result<Option<Piece>, SqlError> {
        let mut state = self.state.lock();
        loop {
            if state.open.is_none() {
                let Some(path) = self.request.files.get(state.next_file) else { return Ok(None) };
                state.next_file += 1;
                let bytes = ParquetBytes::open(path, &self.request.progress)?;
                let metadata = load(&bytes)?;
                let fields = Arc::new(self.fields_of(&bytes, &metadata)?);
                let types = self.request.columns.iter().map(|column| column.sql_type);
                let columns: Vec<(usize, SqlType)> = fields.iter().copied().zip(types).collect();
                let wanted = Arc::new(wanted_groups(&metadata, &self.request.conditions, &columns));
                state.open = Some(OpenFile { bytes, metadata, wanted, fields, next_row: 1 });
                state.next_group = 0;
            }
            let group = state.next_group;
            let last_row = self.request.last_row;
            let Some(open) = state.open.as_mut() else { return Ok(None) };
            let groups = open.metadata.metadata().row_groups();
            if group >= groups.len() || open.next_row > last_row {
                open.bytes.check_unchanged()?;
                state.open = None;
                continue;
            }
            let (first_row, rows) = (open.next_row, groups[group].num_rows().max(0).unsigned_abs());
            open.next_row += rows;
            let is_wanted = open.wanted[group] && open.next_row > self.request.first_row && rows > 0;
            let file = open.clone();
            state.next_group += 1;
            if is_wanted {
                return Ok(Some(Piece { file, group, first_row, rows }));
            }
        }
    }

    /// Which of a file's columns the request's are: by the name that the first file has for them, or else by their
    /// place.
    fn fields_of(&self, bytes: &ParquetBytes, metadata: &ArrowReaderMetadata) -> Result<Vec<usize>, SqlError> {
        let fields = metadata.schema().fields();
        let place = |column: &FileColumn| {
            let found = match &column.path {
                Some(name) => fields
                    .iter()
                    .position(|field| field.name() == name)
                    .or_else(|| fields.iter().position(|field| field.name().eq_ignore_ascii_case(name))),
                None => (column.field < fields.len()).then_some(column.field),
            };
            found.ok_or_else(|| errors::BULK_PARQUET_COLUMN.with([&bytes.path.display(), &column.name]))
        };
        self.request.columns.iter().map(place).collect()
    }

    fn begin(&self, piece: Piece) -> Result<Current, SqlError> {
        let OpenFile { bytes, metadata, fields, .. } = piece.file;
        let roots = self.projection.iter().map(|&place| fields[place]);
        let mask = ProjectionMask::roots(metadata.parquet_schema(), roots);
        let selection = self.selection(piece.first_row, piece.rows);
        let reader = guarded(&bytes, || {
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(bytes.clone(), metadata.clone())
                .with_projection(mask)
                .with_row_groups(vec![piece.group])
                .with_batch_size(self.request.batch_rows);
            match selection {
                Some(selection) => builder.with_row_selection(selection).build(),
                None => builder.build(),
            }
        })?;
        let next_row = piece.first_row.max(self.request.first_row);
        Ok(Current { bytes, metadata, fields, reader, next_row })
    }

    /// The rows of a group that `FIRSTROW` and `LASTROW` leave; `None` for all.
    fn selection(&self, first: u64, rows: u64) -> Option<RowSelection> {
        let skipped = self.request.first_row.saturating_sub(first).min(rows);
        let until = rows.min(self.request.last_row.saturating_sub(first).saturating_add(1));
        let kept = until.saturating_sub(skipped);
        let count = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
        (kept < rows).then(|| vec![RowSelector::skip(count(skipped)), RowSelector::select(count(kept))].into())
    }
}

impl FileRows for ParquetRows {
    fn reader(self: Arc<Self>) -> Box<dyn BatchReader> {
        Box::new(ParquetReader { rows: self, current: None })
    }
}

/// One worker's reading.
struct ParquetReader {
    rows: Arc<ParquetRows>,
    current: Option<Current>,
}

/// A row group that is being decoded.
struct Current {
    bytes: ParquetBytes,
    metadata: ArrowReaderMetadata,
    fields: Arc<Vec<usize>>,
    reader: ParquetRecordBatchReader,
    next_row: u64,
}

impl BatchReader for ParquetReader {
    fn next(&mut self, _most: usize) -> Result<Option<RecordBatch>, SqlError> {
        let rows = &self.rows;
        let take = || rows.next_piece()?.map(|piece| rows.begin(piece)).transpose();
        next_batch(&mut self.current, take, |current| {
            let bytes = current.bytes.clone();
            let next = guarded(&bytes, || current.reader.next().transpose().map_err(Into::into))?;
            next.map(|batch| rows.converted(current, &batch)).transpose()
        })
    }
}

impl ParquetRows {
    /// A batch of the file as one of the request's columns. Rows with a value that their column does not take are left
    /// out, and noted.
    fn converted(&self, current: &mut Current, batch: &RecordBatch) -> Result<RecordBatch, SqlError> {
        let first_row = current.next_row;
        current.next_row += batch.num_rows() as u64;
        let mut left = batch.clone();
        let mut numbers: Vec<u64> = (first_row..current.next_row).collect();
        'again: loop {
            let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.projection.len());
            for &place in &self.projection {
                let column = &self.request.columns[place];
                let field = &current.metadata.schema().fields()[current.fields[place]];
                // A file's columns come in its own order.
                let array = left
                    .column_by_name(field.name())
                    .ok_or_else(|| errors::BULK_PARQUET_COLUMN.with([&current.bytes.path.display(), &column.name]))?;
                let (wrong, kind) = match convert(array, field, column.sql_type) {
                    Ok(converted) if column.nullable || converted.null_count() == 0 => {
                        arrays.push(converted);
                        continue;
                    }
                    Ok(converted) => (is_null(&converted).map_err(internal)?, FaultKind::Null),
                    Err(ConvertError::Row(row, kind)) => {
                        (BooleanArray::from_iter((0..left.num_rows()).map(|other| Some(other == row))), kind)
                    }
                    Err(ConvertError::Sql(error)) => {
                        let path = current.bytes.path.display();
                        return Err(errors::BULK_PARQUET_CONVERSION.with([&column.name, &path, &error.message]));
                    }
                };
                for (row, number) in numbers.iter().enumerate() {
                    if wrong.value(row) {
                        self.reject(current, (*number, kind), column)?;
                    }
                }
                let kept = not(&wrong).map_err(internal)?;
                let mut row_kept = kept.values().iter();
                numbers.retain(|_| row_kept.next().unwrap_or(false));
                left = filter_record_batch(&left, &kept).map_err(internal)?;
                continue 'again;
            }
            let options = RecordBatchOptions::new().with_row_count(Some(left.num_rows()));
            return RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options).map_err(internal);
        }
    }

    fn reject(&self, current: &Current, (row, kind): (u64, FaultKind), column: &FileColumn) -> Result<(), SqlError> {
        let fault = Fault {
            file: current.bytes.path.as_ref().clone(),
            row,
            line: row,
            column: column.field + 1,
            name: column.name.clone(),
            type_name: column.sql_type.to_string(),
            kind,
            value: "…".to_owned(),
        };
        self.request.rejections.add(fault, b"")
    }
}

fn internal(error: ArrowError) -> SqlError {
    SqlError::internal(error.to_string())
}
