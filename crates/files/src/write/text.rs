//! Formats whose file is one row behind the other: rows of a part of the file into bytes, compressed if wanted.
//!
//! Each part is compressed by itself, so that all workers compress: gzip's members and zstd's frames may stand one
//! behind the other, and are one file to all that read them.

use std::io::Write;

use arrow::record_batch::RecordBatch;
use flate2::write::GzEncoder;

use super::buffer::Buffer;
use super::cells::{CELL_BYTES, CellForm, Cells};
use super::column::Column;
use super::error::{Result, WriteError};
use super::new_file::NewFile;
use super::pipeline::{Encoder, Part, Target};
use crate::compression::Compression;

/// gzip's own default is 6; 4 costs half of its time and a twentieth more bytes.
const GZIP_LEVEL: u32 = 4;
/// zstd's own default.
const ZSTD_LEVEL: i32 = 3;

/// What a format writes around values.
pub(super) trait RowForm: CellForm + Send + Sync + 'static {
    /// Bytes of a row beside its values, at most.
    fn row_bytes(&self, columns: &[Column]) -> usize;
    /// What stands before all rows. Makes room itself, and so does [`RowForm::end_file`].
    fn begin_file(&self, columns: &[Column], out: &mut Buffer);
    /// What stands before a row; `is_first` in the file.
    fn begin_row(&self, is_first: bool, out: &mut Buffer);
    /// What stands before the value of the column of that index.
    fn before_value(&self, column: usize, out: &mut Buffer);
    /// What stands behind a row.
    fn end_row(&self, out: &mut Buffer);
    /// What stands behind all rows.
    fn end_file(&self, out: &mut Buffer);
}

/// Appends the rows of a batch in carriers. `is_first` says that no row of the file stands before them.
pub(super) fn append_rows<F: RowForm>(
    form: &F,
    columns: &[Column],
    batch: &RecordBatch,
    is_first: bool,
    out: &mut Buffer,
) -> Result<()> {
    if batch.num_columns() != columns.len() {
        return Err(WriteError::internal(format!("{} columns for {}", batch.num_columns(), columns.len())));
    }
    let pairs = columns.iter().zip(batch.columns());
    let cells: Vec<Cells<'_>> =
        pairs.map(|(column, array)| Cells::of(array, column.sql_type)).collect::<Result<_>>()?;
    let row_bytes = form.row_bytes(columns) + CELL_BYTES * columns.len();
    out.set_margin(row_bytes);
    for row in 0..batch.num_rows() {
        out.reserve(0);
        form.begin_row(is_first && row == 0, out);
        for (index, cells) in cells.iter().enumerate() {
            form.before_value(index, out);
            cells.append(row, form, out);
        }
        form.end_row(out);
    }
    Ok(())
}

/// Makes the bytes of parts.
#[derive(Debug)]
pub(super) struct TextEncoder<F> {
    pub(super) form: F,
    pub(super) columns: Vec<Column>,
    pub(super) compression: Compression,
}

impl<F: RowForm> Encoder for TextEncoder<F> {
    type Piece = TextPiece;

    fn encode(&self, part: &Part, spare: Option<TextPiece>) -> Result<TextPiece> {
        let mut piece = spare.unwrap_or_default();
        piece.plain.clear();
        piece.compressed.clear();
        let out = &mut piece.plain;
        if part.number == 0 {
            self.form.begin_file(&self.columns, out);
        }
        for (index, batch) in part.batches.iter().enumerate() {
            append_rows(&self.form, &self.columns, batch, part.number == 0 && index == 0, out)?;
        }
        if part.is_last {
            self.form.end_file(out);
        }
        piece.is_compressed = self.compression != Compression::None;
        let compressed = std::mem::take(&mut piece.compressed);
        let result = match self.compression {
            Compression::None => return Ok(piece),
            Compression::Gzip => {
                let mut encoder = GzEncoder::new(compressed, flate2::Compression::new(GZIP_LEVEL));
                encoder.write_all(piece.plain.as_slice()).and_then(|()| encoder.finish())
            }
            Compression::Zstd => zstd::Encoder::new(compressed, ZSTD_LEVEL).and_then(|mut encoder| {
                encoder.include_checksum(true)?;
                encoder.write_all(piece.plain.as_slice())?;
                encoder.finish()
            }),
        };
        // They write into memory, which does not fail.
        piece.compressed = result.map_err(WriteError::internal)?;
        Ok(piece)
    }
}

/// The bytes of a part.
#[derive(Debug, Default)]
pub(super) struct TextPiece {
    plain: Buffer,
    compressed: Vec<u8>,
    is_compressed: bool,
}

/// Writes pieces to the file.
#[derive(Debug)]
pub(super) struct TextTarget(pub(super) NewFile);

impl Target for TextTarget {
    type Piece = TextPiece;

    fn append(&mut self, piece: TextPiece) -> Result<Option<TextPiece>> {
        let bytes = if piece.is_compressed { &piece.compressed } else { piece.plain.as_slice() };
        self.0.write_all(bytes).map_err(WriteError::io(self.0.path()))?;
        Ok(Some(piece))
    }

    fn complete(self) -> Result<NewFile> {
        Ok(self.0)
    }
}
