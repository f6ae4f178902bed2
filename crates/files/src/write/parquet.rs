//! Rows as Parquet: one row group for each part, encoded column by column.
//!
//! | SQL type | Arrow type in the file | Parquet |
//! |---|---|---|
//! | `bit` | `Boolean` | `BOOLEAN` |
//! | `tinyint`, `smallint`, `int`, `bigint` | `UInt8`, `Int16`, `Int32`, `Int64` | `INT32`, `INT64` with their widths |
//! | `decimal`, `money`, `smallmoney` | `Decimal128` | `DECIMAL` |
//! | `real`, `float` | `Float32`, `Float64` | `FLOAT`, `DOUBLE` |
//! | `date` | `Date32` | `DATE` |
//! | `time(0..6)`, `time(7)` | `Time64`, µs or ns | `TIME` |
//! | `smalldatetime`, `datetime`, `datetime2(0..6)` | `Timestamp`, µs, no zone | `TIMESTAMP` |
//! | `datetime2(7)` | `Timestamp`, ns, no zone | `TIMESTAMP`, see [`Timestamps`] |
//! | text | `Utf8` | `STRING` |
//! | binary | `Binary` | `BYTE_ARRAY` |
//! | `uniqueidentifier` | `FixedSizeBinary(16)` | `UUID`, in the order of its text |
//!
//! Each field has its SQL type as metadata `hobt.sql_type`, in the Arrow schema that the file contains.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, FixedSizeBinaryBuilder, PrimitiveArray, Time64MicrosecondArray,
    Time64NanosecondArray, TimestampMicrosecondArray, TimestampNanosecondArray,
};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit, UInt8Type};
use arrow::record_batch::RecordBatch;
use hobt_functions::carrier::carrier;
use hobt_types::SqlType;
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowRowGroupWriterFactory, ArrowWriter, ArrowWriterOptions, compute_leaves,
};
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{SchemaDescriptor, Type};

use super::column::Column;
use super::error::{Result, WriteError};
use super::new_file::NewFile;
use super::numbers::guid_in_text_order;
use super::pipeline::{Encoder, Part, Target};

/// The metadata key of a field's SQL type.
pub const SQL_TYPE_KEY: &str = "hobt.sql_type";

/// How fine the timestamps of `datetime2(7)` are. Parquet has no unit of 100 ns.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Timestamps {
    /// Nanoseconds: all digits, for the years 1677 to 2262 alone. A value outside of them is an error.
    #[default]
    Exact,
    /// Microseconds: all years, without the seventh digit.
    Microseconds,
}

/// The type of a column in the file.
fn stored_type(sql_type: SqlType, timestamps: Timestamps) -> DataType {
    match sql_type {
        SqlType::Bit => DataType::Boolean,
        SqlType::Time { scale: 7 } => DataType::Time64(TimeUnit::Nanosecond),
        SqlType::Time { .. } => DataType::Time64(TimeUnit::Microsecond),
        SqlType::DateTime2 { scale: 7 } if timestamps == Timestamps::Exact => {
            DataType::Timestamp(TimeUnit::Nanosecond, None)
        }
        SqlType::SmallDateTime | SqlType::DateTime | SqlType::DateTime2 { .. } => {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        }
        // The file says Utf8 and Binary, which all readers know. The arrays of the carrier are written as such.
        other => match carrier(other) {
            DataType::Utf8View => DataType::Utf8,
            DataType::BinaryView => DataType::Binary,
            same => same,
        },
    }
}

fn field(column: &Column, timestamps: Timestamps) -> Field {
    let metadata = [(SQL_TYPE_KEY.to_owned(), column.sql_type.to_string())].into();
    Field::new(&column.name, stored_type(column.sql_type, timestamps), column.nullable).with_metadata(metadata)
}

/// The schema of the file: as Arrow's types have it, with guids as UUIDs.
fn descriptor(schema: &Schema, columns: &[Column]) -> std::result::Result<SchemaDescriptor, ParquetError> {
    let converted = ArrowSchemaConverter::new().convert(schema)?;
    let typed = |(column, plain): (&Column, &Arc<Type>)| {
        if column.sql_type != SqlType::UniqueIdentifier {
            return Ok(Arc::clone(plain));
        }
        let repetition = if column.nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let uuid = Type::primitive_type_builder(&column.name, PhysicalType::FIXED_LEN_BYTE_ARRAY).with_length(16);
        Ok(Arc::new(uuid.with_repetition(repetition).with_logical_type(Some(LogicalType::Uuid)).build()?))
    };
    let root = converted.root_schema();
    let fields = columns.iter().zip(root.get_fields()).map(typed).collect::<std::result::Result<_, ParquetError>>()?;
    Ok(SchemaDescriptor::new(Arc::new(Type::group_type_builder(root.name()).with_fields(fields).build()?)))
}

/// Begins a file: what encodes its row groups, and what appends them.
pub(super) fn begin(
    file: NewFile,
    columns: Vec<Column>,
    timestamps: Timestamps,
) -> Result<(ParquetEncoder, ParquetTarget)> {
    let path = file.path().to_path_buf();
    let fields: Vec<Field> = columns.iter().map(|column| field(column, timestamps)).collect();
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_created_by(format!("hobt {}", env!("CARGO_PKG_VERSION")))
        .build();
    let parts = descriptor(&schema, &columns).and_then(|descriptor| {
        let options = ArrowWriterOptions::new().with_properties(properties).with_parquet_schema(descriptor);
        ArrowWriter::try_new_with_options(file, Arc::clone(&schema), options)?.into_serialized_writer()
    });
    let (writer, factory) = parts.map_err(WriteError::parquet(&path))?;
    Ok((ParquetEncoder { schema, columns, factory }, ParquetTarget { writer, path }))
}

/// Encodes row groups.
pub(super) struct ParquetEncoder {
    schema: SchemaRef,
    columns: Vec<Column>,
    factory: ArrowRowGroupWriterFactory,
}

impl ParquetEncoder {
    fn row_group(&self, number: usize, batches: &[RecordBatch]) -> Result<Vec<ArrowColumnChunk>> {
        // Columns are flat, so each has one writer.
        let writers = self.factory.create_column_writers(number).map_err(WriteError::internal)?;
        let mut chunks = Vec::with_capacity(writers.len());
        for (index, mut writer) in writers.into_iter().enumerate() {
            let (column, field) = (&self.columns[index], self.schema.field(index));
            for batch in batches {
                let array = batch.columns().get(index).ok_or_else(|| WriteError::internal("a batch lacks columns"))?;
                let stored = stored_array(array, column, field.data_type())?;
                for leaf in compute_leaves(field, &stored).map_err(WriteError::internal)? {
                    writer.write(&leaf).map_err(WriteError::internal)?;
                }
            }
            chunks.push(writer.close().map_err(WriteError::internal)?);
        }
        Ok(chunks)
    }
}

impl Encoder for ParquetEncoder {
    type Piece = Vec<ArrowColumnChunk>;

    fn encode(&self, part: &Part, _: Option<Self::Piece>) -> Result<Self::Piece> {
        // A group without rows would be one more than needed.
        if part.batches.is_empty() { Ok(Vec::new()) } else { self.row_group(part.number, &part.batches) }
    }
}

/// Appends row groups to the file.
pub(super) struct ParquetTarget {
    writer: SerializedFileWriter<NewFile>,
    path: std::path::PathBuf,
}

impl Target for ParquetTarget {
    type Piece = Vec<ArrowColumnChunk>;

    fn append(&mut self, piece: Self::Piece) -> Result<Option<Self::Piece>> {
        if piece.is_empty() {
            return Ok(None);
        }
        let mut group = self.writer.next_row_group().map_err(WriteError::parquet(&self.path))?;
        for chunk in piece {
            chunk.append_to_row_group(&mut group).map_err(WriteError::parquet(&self.path))?;
        }
        group.close().map_err(WriteError::parquet(&self.path))?;
        Ok(None)
    }

    fn complete(self) -> Result<NewFile> {
        self.writer.into_inner().map_err(WriteError::parquet(&self.path))
    }
}

/// An array in carriers as the file has it.
fn stored_array(array: &ArrayRef, column: &Column, stored: &DataType) -> Result<ArrayRef> {
    let broken = || {
        let found = array.data_type();
        WriteError::internal(format!("an array of {found} stands where {} is expected", column.sql_type))
    };
    let nulls = || array.nulls().cloned();
    let ticks = || array.as_primitive_opt::<Int64Type>().ok_or_else(broken);
    Ok(match stored {
        DataType::Boolean => {
            let values = array.as_primitive_opt::<UInt8Type>().ok_or_else(broken)?.values();
            let bits = BooleanBuffer::collect_bool(values.len(), |row| values[row] != 0);
            Arc::new(BooleanArray::new(bits, nulls()))
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            Arc::new(ticks()?.unary::<_, _>(microseconds) as Time64MicrosecondArray)
        }
        DataType::Time64(_) => {
            Arc::new(ticks()?.unary::<_, _>(|ticks| ticks.wrapping_mul(100)) as Time64NanosecondArray)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Arc::new(ticks()?.unary::<_, _>(microseconds) as TimestampMicrosecondArray)
        }
        DataType::Timestamp(..) => Arc::new(nanoseconds(ticks()?, column)?),
        DataType::FixedSizeBinary(_) => {
            let sorted = array.as_fixed_size_binary_opt().ok_or_else(broken)?;
            let mut guids = FixedSizeBinaryBuilder::with_capacity(sorted.len(), 16);
            for row in 0..sorted.len() {
                if sorted.is_null(row) {
                    guids.append_null();
                } else {
                    let bytes = sorted.value(row).try_into().map_err(|_| broken())?;
                    guids.append_value(guid_in_text_order(bytes)).map_err(WriteError::internal)?;
                }
            }
            Arc::new(guids.finish())
        }
        _ => Arc::clone(array),
    })
}

/// Microseconds of units of 100 ns, rounded down.
fn microseconds(ticks: i64) -> i64 {
    ticks.div_euclid(10)
}

/// The nanoseconds of moments in units of 100 ns.
///
/// # Errors
/// If one lies outside of what 64 bits of nanoseconds reach.
fn nanoseconds(ticks: &PrimitiveArray<Int64Type>, column: &Column) -> Result<TimestampNanosecondArray> {
    type Nanoseconds = arrow::datatypes::TimestampNanosecondType;
    ticks.try_unary::<_, Nanoseconds, WriteError>(|ticks| {
        ticks.checked_mul(100).ok_or_else(|| {
            WriteError::Unfit(format!(
                "column {} has {}, and nanoseconds in Parquet reach from 1677-09-22 to 2262-04-11. Microseconds reach \
                 all years and have no seventh digit",
                column.name,
                moment_text(ticks)
            ))
        })
    })
}

fn moment_text(ticks: i64) -> String {
    let mut out = super::buffer::Buffer::default();
    out.reserve(super::cells::CELL_BYTES);
    super::numbers::moment(&mut out, ticks, 7, b' ');
    String::from_utf8_lossy(out.as_slice()).into_owned()
}
