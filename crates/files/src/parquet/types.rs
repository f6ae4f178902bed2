//! The SQL types of a Parquet file's columns.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, TimeUnit};
use hobt_base::SqlError;
use hobt_types::{MaxLength, SqlType};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};

use super::bytes::ParquetBytes;

/// The key under which hobt notes a column's SQL type in the files that it writes.
const SQL_TYPE: &str = "hobt.sql_type";

/// A column of a Parquet file.
#[derive(Clone, PartialEq, Debug)]
pub struct ParquetColumn {
    /// Its name.
    pub name: String,
    /// The SQL type that holds its values.
    pub sql_type: SqlType,
}

/// What a Parquet file's footer says.
#[derive(Clone, PartialEq, Debug)]
pub struct ParquetSchema {
    /// The columns, in order.
    pub columns: Vec<ParquetColumn>,
    /// Rows.
    pub rows: u64,
}

/// The columns and rows of a Parquet file. Blocks on the file.
///
/// # Errors
/// 4860, 4861; 4862 for a file that is no Parquet or is damaged.
pub fn parquet_schema(path: &Path) -> Result<ParquetSchema, SqlError> {
    let bytes = ParquetBytes::open(path, &Arc::default())?;
    let metadata = load(&bytes)?;
    let rows = metadata.metadata().file_metadata().num_rows().max(0).unsigned_abs();
    let column = |field: &Arc<Field>| ParquetColumn { name: field.name().clone(), sql_type: sql_type_of(field) };
    Ok(ParquetSchema { columns: metadata.schema().fields().iter().map(column).collect(), rows })
}

/// The footer of a file.
pub(super) fn load(bytes: &ParquetBytes) -> Result<ArrowReaderMetadata, SqlError> {
    let load = || ArrowReaderMetadata::load(bytes, ArrowReaderOptions::new());
    super::reader::guarded(bytes, load)
}

/// The SQL type that holds the values of a column: what hobt has noted in the file, or else the narrowest for its type.
/// Lists, maps and structures are texts of JSON.
pub(super) fn sql_type_of(field: &Field) -> SqlType {
    field.metadata().get(SQL_TYPE).and_then(|declared| declared_type(declared)).unwrap_or(natural(field.data_type()))
}

/// The narrowest SQL type that holds all values of an Arrow type.
pub(super) fn natural(data_type: &DataType) -> SqlType {
    match data_type {
        DataType::Boolean => SqlType::Bit,
        DataType::UInt8 => SqlType::TinyInt,
        DataType::Int8 | DataType::Int16 => SqlType::SmallInt,
        DataType::UInt16 | DataType::Int32 => SqlType::Int,
        DataType::UInt32 | DataType::Int64 => SqlType::BigInt,
        DataType::UInt64 => SqlType::Decimal { precision: 20, scale: 0 },
        DataType::Float16 | DataType::Float32 => SqlType::Real,
        DataType::Float64 => SqlType::Float,
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => decimal(*precision, *scale),
        DataType::Date32 | DataType::Date64 => SqlType::Date,
        DataType::Time32(TimeUnit::Second) => SqlType::Time { scale: 0 },
        DataType::Time32(_) => SqlType::Time { scale: 3 },
        DataType::Time64(TimeUnit::Microsecond) => SqlType::Time { scale: 6 },
        DataType::Time64(_) => SqlType::Time { scale: 7 },
        DataType::Timestamp(TimeUnit::Second, _) => SqlType::DateTime2 { scale: 0 },
        DataType::Timestamp(TimeUnit::Millisecond, _) => SqlType::DateTime2 { scale: 3 },
        DataType::Timestamp(TimeUnit::Microsecond, _) => SqlType::DateTime2 { scale: 6 },
        DataType::Timestamp(TimeUnit::Nanosecond, _) => SqlType::DateTime2 { scale: 7 },
        DataType::FixedSizeBinary(length) => match u16::try_from(*length) {
            Ok(length @ 1..=8000) => SqlType::Binary(length),
            _ => SqlType::VarBinary(MaxLength::Max),
        },
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => SqlType::VarBinary(MaxLength::Max),
        DataType::Dictionary(_, values) => natural(values),
        _ => SqlType::NVarChar(MaxLength::Max),
    }
}

fn decimal(precision: u8, scale: i8) -> SqlType {
    match u8::try_from(scale) {
        Ok(scale) if precision <= 38 && scale <= precision => SqlType::Decimal { precision: precision.max(1), scale },
        // A scale below 0 has zeros before the point; beyond 38 digits some may not fit, which is an error there.
        _ => SqlType::Decimal { precision: 38, scale: u8::try_from(scale).unwrap_or(0).min(38) },
    }
}

/// The type of a declaration as `SqlType` prints it: `decimal(9,2)`.
fn declared_type(text: &str) -> Option<SqlType> {
    let (name, arguments) = text.strip_suffix(')').and_then(|text| text.split_once('(')).unwrap_or((text, ""));
    let mut numbers = arguments.split(',').filter(|number| !number.is_empty());
    let first = numbers.next();
    let number = || first.and_then(|number| number.trim().parse::<u16>().ok());
    let scale = || first.and_then(|number| number.trim().parse::<u8>().ok()).filter(|scale| *scale <= 7);
    let length = |most: u16| match first {
        Some("max") => Some(MaxLength::Max),
        _ => number().filter(|length| (1..=most).contains(length)).map(MaxLength::Limited),
    };
    Some(match name {
        "bit" => SqlType::Bit,
        "tinyint" => SqlType::TinyInt,
        "smallint" => SqlType::SmallInt,
        "int" => SqlType::Int,
        "bigint" => SqlType::BigInt,
        "smallmoney" => SqlType::SmallMoney,
        "money" => SqlType::Money,
        "real" => SqlType::Real,
        "float" => SqlType::Float,
        "date" => SqlType::Date,
        "smalldatetime" => SqlType::SmallDateTime,
        "datetime" => SqlType::DateTime,
        "uniqueidentifier" => SqlType::UniqueIdentifier,
        "decimal" => {
            let precision = number().and_then(|number| u8::try_from(number).ok()).filter(|p| (1..=38).contains(p))?;
            let scale = numbers.next()?.trim().parse::<u8>().ok().filter(|scale| *scale <= precision)?;
            SqlType::Decimal { precision, scale }
        }
        "time" => SqlType::Time { scale: scale()? },
        "datetime2" => SqlType::DateTime2 { scale: scale()? },
        "char" => SqlType::Char(number().filter(|length| (1..=8000).contains(length))?),
        "nchar" => SqlType::NChar(number().filter(|length| (1..=4000).contains(length))?),
        "binary" => SqlType::Binary(number().filter(|length| (1..=8000).contains(length))?),
        "varchar" => SqlType::VarChar(length(8000)?),
        "nvarchar" => SqlType::NVarChar(length(4000)?),
        "varbinary" => SqlType::VarBinary(length(8000)?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declaration_is_read_back() {
        let types = [
            SqlType::Bit,
            SqlType::BigInt,
            SqlType::Decimal { precision: 38, scale: 4 },
            SqlType::Money,
            SqlType::Time { scale: 7 },
            SqlType::DateTime2 { scale: 0 },
            SqlType::DateTime,
            SqlType::Char(8000),
            SqlType::VarChar(MaxLength::Max),
            SqlType::NVarChar(MaxLength::Limited(17)),
            SqlType::VarBinary(MaxLength::Limited(8000)),
            SqlType::UniqueIdentifier,
        ];
        for sql_type in types {
            assert_eq!(declared_type(&sql_type.to_string()), Some(sql_type));
        }
        for wrong in ["decimal(39,0)", "decimal(5,6)", "varchar(9000)", "time(8)", "int4", "char", "decimal(", ""] {
            assert_eq!(declared_type(wrong), None, "{wrong}");
        }
    }
}
