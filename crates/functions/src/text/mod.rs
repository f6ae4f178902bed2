//! Text functions: parts, case, search, building, code points; and SQL Server's bytes of text.
//!
//! Positions and lengths count UTF-16 units, as in SQL Server without an `_SC` collation.

mod build;
pub(crate) mod code_page;
mod part;
mod search;
mod split;
#[cfg(test)]
mod tests;

use hobt_base::SqlError;
use hobt_types::{MaxLength, SqlType};

use crate::error::{invalid_argument, invalid_argument_name};
use crate::function::{ArgType, FunctionDef};
use crate::type_rules::{declared_length, text_width};

pub(crate) use build::concatenate;
pub use split::{split, split_ordinals};

pub(crate) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("LEN", (1, 1), int, part::len),
    FunctionDef::new("DATALENGTH", (1, 1), int, part::datalength),
    FunctionDef::new("SUBSTRING", (3, 3), substring_type, part::substring),
    FunctionDef::new("LEFT", (2, 2), first_varying, part::left),
    FunctionDef::new("RIGHT", (2, 2), first_varying, part::right),
    FunctionDef::new("UPPER", (1, 1), first_varying, part::upper),
    FunctionDef::new("LOWER", (1, 1), first_varying, part::lower),
    FunctionDef::new("LTRIM", (1, 2), first_varying, |call| part::trim(call, true, false)),
    FunctionDef::new("RTRIM", (1, 2), first_varying, |call| part::trim(call, false, true)),
    FunctionDef::new("TRIM", (1, 2), |args| of_characters(args, "trim"), |call| part::trim(call, true, true)),
    FunctionDef::new("REVERSE", (1, 1), first_varying, part::reverse),
    FunctionDef::new("REPLACE", (3, 3), longest_of_first, build::replace),
    FunctionDef::new("REPLICATE", (2, 2), longest_of_first, build::replicate),
    FunctionDef::new("STUFF", (4, 4), stuff_type, build::stuff),
    FunctionDef::new("TRANSLATE", (3, 3), |args| of_characters(args, "translate"), build::translate),
    FunctionDef::new("SPACE", (1, 1), |_| Ok(SqlType::VarChar(MaxLength::Limited(8000))), build::space),
    FunctionDef::new("STR", (1, 3), |_| Ok(SqlType::VarChar(MaxLength::Limited(8000))), build::str_of_float),
    FunctionDef::new("CHAR", (1, 1), |_| Ok(SqlType::Char(1)), build::char_of_code),
    FunctionDef::new("NCHAR", (1, 1), |_| Ok(SqlType::NChar(1)), build::nchar_of_code),
    FunctionDef::new("CONCAT", (2, 254), concat_type, build::concat),
    FunctionDef::new("CONCAT_WS", (3, 254), concat_type, build::concat_ws),
    FunctionDef::new("QUOTENAME", (1, 2), |_| Ok(SqlType::NVarChar(MaxLength::Limited(258))), build::quotename),
    FunctionDef::new("ASCII", (1, 1), |_| Ok(SqlType::Int), search::ascii),
    FunctionDef::new("UNICODE", (1, 1), |_| Ok(SqlType::Int), search::unicode),
    FunctionDef::new("CHARINDEX", (2, 3), second_int, search::charindex),
    FunctionDef::new("PATINDEX", (2, 2), second_int, search::patindex),
];

/// `int`, or `bigint` if the argument at `index` is of a `max` type.
fn int_of(args: &[ArgType], index: usize) -> SqlType {
    match args.get(index).and_then(|arg| declared_length(arg.sql_type)) {
        Some(MaxLength::Max) => SqlType::BigInt,
        _ => SqlType::Int,
    }
}

fn int(args: &[ArgType]) -> Result<SqlType, SqlError> {
    Ok(int_of(args, 0))
}

fn second_int(args: &[ArgType]) -> Result<SqlType, SqlError> {
    Ok(int_of(args, 1))
}

fn first(args: &[ArgType]) -> SqlType {
    args.first().map_or(SqlType::VarChar(MaxLength::Limited(1)), |arg| arg.sql_type)
}

/// The first argument's type with a varying length. Other types become `varchar`. Microsoft's pages on `LEFT`, `RIGHT`,
/// `REVERSE` and their like: binary is converted too, and so is not preserved.
fn first_varying(args: &[ArgType]) -> Result<SqlType, SqlError> {
    Ok(match first(args) {
        SqlType::NChar(n) => SqlType::NVarChar(MaxLength::Limited(n)),
        text @ (SqlType::VarChar(_) | SqlType::NVarChar(_)) => text,
        other => SqlType::VarChar(match declared_length(other) {
            Some(length) => length,
            None => MaxLength::Limited(text_width(other)),
        }),
    })
}

/// `SUBSTRING`: text and binary, of a varying length.
///
/// # Errors
/// 8116 for another type and for the literal `NULL`.
fn substring_type(args: &[ArgType]) -> Result<SqlType, SqlError> {
    match (args.first(), first(args)) {
        (Some(arg), _) if arg.is_null_literal() => Err(invalid_argument_name("NULL", 1, "substring")),
        (_, SqlType::Binary(n)) => Ok(SqlType::VarBinary(MaxLength::Limited(n))),
        (_, binary @ SqlType::VarBinary(_)) => Ok(binary),
        (_, text) if text.is_text() => first_varying(args),
        (_, other) => Err(invalid_argument(other, 1, "substring")),
    }
}

/// The type of a function whose arguments are all of a character type.
///
/// # Errors
/// 8116 for another type.
fn of_characters(args: &[ArgType], function: &str) -> Result<SqlType, SqlError> {
    let is_other = |arg: &ArgType| !arg.sql_type.is_text() && !arg.is_null_literal();
    match args.iter().enumerate().find(|(_, arg)| is_other(arg)) {
        Some((place, arg)) => Err(invalid_argument(arg.sql_type, place + 1, function)),
        None => first_varying(args),
    }
}

/// `STUFF`: binary if both the value and the replacement are, otherwise text.
fn stuff_type(args: &[ArgType]) -> Result<SqlType, SqlError> {
    let is_binary = |arg: &ArgType| arg.sql_type.is_binary();
    match (args.first(), args.get(3)) {
        (Some(value), Some(other)) if is_binary(value) && (is_binary(other) || other.is_null_literal()) => {
            Ok(SqlType::VarBinary(match declared_length(value.sql_type) {
                Some(MaxLength::Max) => MaxLength::Max,
                _ => MaxLength::Limited(8000),
            }))
        }
        _ => longest_of_first(args),
    }
}

/// Text of the first argument's kind, with the maximum length of that kind other than `max`.
fn longest_of_first(args: &[ArgType]) -> Result<SqlType, SqlError> {
    let national = args.iter().any(|arg| arg.sql_type.is_national());
    let is_max = declared_length(first(args)) == Some(MaxLength::Max);
    Ok(match (national, is_max) {
        (true, true) => SqlType::NVarChar(MaxLength::Max),
        (true, false) => SqlType::NVarChar(MaxLength::Limited(4000)),
        (false, true) => SqlType::VarChar(MaxLength::Max),
        (false, false) => SqlType::VarChar(MaxLength::Limited(8000)),
    })
}

/// The sum of the lengths of all arguments; national if one of them is.
fn concat_type(args: &[ArgType]) -> Result<SqlType, SqlError> {
    let national = args.iter().any(|arg| arg.sql_type.is_national());
    if args.iter().any(|arg| declared_length(arg.sql_type) == Some(MaxLength::Max)) {
        return Ok(if national { SqlType::NVarChar(MaxLength::Max) } else { SqlType::VarChar(MaxLength::Max) });
    }
    let limit: u16 = if national { 4000 } else { 8000 };
    let total: u32 = args.iter().map(|arg| u32::from(text_width(arg.sql_type))).sum();
    let length = MaxLength::Limited(u16::try_from(total).unwrap_or(limit).clamp(1, limit));
    Ok(if national { SqlType::NVarChar(length) } else { SqlType::VarChar(length) })
}
