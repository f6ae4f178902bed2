//! Data types and collations from their syntax.

use hobt_base::{SqlError, errors};
use hobt_tsql::ast::{DataType, Identifier, TypeArgument};
use hobt_types::{Collation, MaxLength, SqlType};

/// Where a type is written: `CAST(x AS varchar)` has 30 characters where a declaration has 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypePlace {
    /// A column, variable or parameter.
    Declaration,
    /// `CAST` and `CONVERT`.
    Conversion,
}

/// The type that `written` denotes.
///
/// # Errors
/// 243 for an unknown type; 1001 and 2750 for lengths, precisions and scales out of range.
pub fn sql_type(written: &DataType, place: TypePlace) -> Result<SqlType, SqlError> {
    let position = written.name.position();
    read(written, place).map_err(|error| error.at(position))
}

/// The collation with a name; `DATABASE_DEFAULT` and `CATALOG_DEFAULT` are the default collation.
///
/// # Errors
/// Error 448.
pub(super) fn collation_named(name: &Identifier) -> Result<Collation, SqlError> {
    if ["database_default", "catalog_default"].iter().any(|default| name.value.eq_ignore_ascii_case(default)) {
        return Ok(Collation::default());
    }
    Collation::from_name(&name.value).ok_or_else(|| errors::INVALID_COLLATION.with([&name.value]).at(name.position))
}

/// The collation that a declaration of this type names; `None` if it names none.
///
/// # Errors
/// 447 if the type is not a text's, 448 for an unknown collation.
pub fn collation_of(sql_type: SqlType, written: Option<&Identifier>) -> Result<Option<Collation>, SqlError> {
    match written {
        Some(name) if !sql_type.is_text() => Err(errors::COLLATE_TYPE.with([&sql_type.name()]).at(name.position)),
        written => written.map(collation_named).transpose(),
    }
}

fn read(written: &DataType, place: TypePlace) -> Result<SqlType, SqlError> {
    let name = written.name.name.value.to_ascii_lowercase();
    let arguments = written.arguments.as_slice();
    let simple = |sql_type| if arguments.is_empty() { Ok(sql_type) } else { Err(no_arguments(&name)) };
    let default_length = if place == TypePlace::Conversion { 30 } else { 1 };
    match name.as_str() {
        "bit" => simple(SqlType::Bit),
        "tinyint" => simple(SqlType::TinyInt),
        "smallint" => simple(SqlType::SmallInt),
        "int" | "integer" => simple(SqlType::Int),
        "bigint" => simple(SqlType::BigInt),
        "money" => simple(SqlType::Money),
        "smallmoney" => simple(SqlType::SmallMoney),
        "real" => simple(SqlType::Real),
        "date" => simple(SqlType::Date),
        "datetime" => simple(SqlType::DateTime),
        "smalldatetime" => simple(SqlType::SmallDateTime),
        "uniqueidentifier" => simple(SqlType::UniqueIdentifier),
        "sysname" => simple(SqlType::NVarChar(MaxLength::Limited(128))),
        "decimal" | "dec" | "numeric" => decimal(&name, arguments),
        "float" => float(arguments),
        "time" => Ok(SqlType::Time { scale: scale(arguments)? }),
        "datetime2" => Ok(SqlType::DateTime2 { scale: scale(arguments)? }),
        "char" | "character" => Ok(SqlType::Char(fixed(&name, arguments, 8000, default_length)?)),
        "nchar" => Ok(SqlType::NChar(fixed(&name, arguments, 4000, default_length)?)),
        "binary" => Ok(SqlType::Binary(fixed(&name, arguments, 8000, default_length)?)),
        "varchar" => Ok(SqlType::VarChar(variable(&name, arguments, 8000, default_length)?)),
        "nvarchar" => Ok(SqlType::NVarChar(variable(&name, arguments, 4000, default_length)?)),
        "varbinary" => Ok(SqlType::VarBinary(variable(&name, arguments, 8000, default_length)?)),
        _ => Err(errors::UNKNOWN_TYPE.with([&written.name.name.value])),
    }
}

fn no_arguments(name: &str) -> SqlError {
    errors::TYPE_WITHOUT_WIDTH.with([&name])
}

fn decimal(name: &str, arguments: &[TypeArgument]) -> Result<SqlType, SqlError> {
    let (precision, scale) = match arguments {
        [] => (18, 0),
        [TypeArgument::Number(precision)] => (*precision, 0),
        [TypeArgument::Number(precision), TypeArgument::Number(scale)] => (*precision, *scale),
        _ => return Err(no_arguments(name)),
    };
    if !(1..=38).contains(&precision) {
        return Err(errors::PRECISION_TOO_LARGE.with([&precision]));
    }
    if !(0..=precision).contains(&scale) {
        return Err(errors::SCALE_RANGE.with([&scale, &precision]));
    }
    Ok(SqlType::Decimal { precision: u8::try_from(precision).unwrap_or(38), scale: u8::try_from(scale).unwrap_or(0) })
}

fn float(arguments: &[TypeArgument]) -> Result<SqlType, SqlError> {
    match arguments {
        [] | [TypeArgument::Number(25..=53)] => Ok(SqlType::Float),
        [TypeArgument::Number(1..=24)] => Ok(SqlType::Real),
        _ => Err(errors::FLOAT_PRECISION.error()),
    }
}

fn scale(arguments: &[TypeArgument]) -> Result<u8, SqlError> {
    match arguments {
        [] => Ok(7),
        [TypeArgument::Number(scale @ 0..=7)] => Ok(u8::try_from(*scale).unwrap_or(7)),
        _ => Err(errors::SCALE_INVALID.error()),
    }
}

fn bad_length(name: &str, most: i64) -> SqlError {
    errors::TYPE_LENGTH.with([&name, &most])
}

fn length(name: &str, value: i64, most: i64) -> Result<u16, SqlError> {
    if value > most {
        return Err(errors::TYPE_SIZE.with([&value, &name, &most]));
    }
    u16::try_from(value).ok().filter(|length| *length > 0).ok_or_else(|| bad_length(name, most))
}

fn fixed(name: &str, arguments: &[TypeArgument], most: i64, default: u16) -> Result<u16, SqlError> {
    match arguments {
        [] => Ok(default),
        [TypeArgument::Number(value)] => length(name, *value, most),
        _ => Err(bad_length(name, most)),
    }
}

fn variable(name: &str, arguments: &[TypeArgument], most: i64, default: u16) -> Result<MaxLength, SqlError> {
    match arguments {
        [TypeArgument::Max] => Ok(MaxLength::Max),
        other => Ok(MaxLength::Limited(fixed(name, other, most, default)?)),
    }
}
