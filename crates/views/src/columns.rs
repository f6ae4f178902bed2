//! The columns of a view, read from text: `name nvarchar(128)!, object_id int!`.

use std::sync::Arc;

use hobt_interpreter::ViewColumn;
use hobt_types::{MaxLength, SqlType};

/// Parses columns.
///
/// # Panics
/// If the text does not have this form: the texts are part of the program.
pub(super) fn read(text: &'static str) -> Arc<[ViewColumn]> {
    text.split(',').map(column).collect()
}

fn column(text: &'static str) -> ViewColumn {
    let (name, declared) = text.trim().split_once(' ').expect("a column has a name and a type");
    let (declared, nullable) = match declared.trim().strip_suffix('!') {
        Some(declared) => (declared, false),
        None => (declared.trim(), true),
    };
    ViewColumn { name, sql_type: sql_type(declared), nullable }
}

fn sql_type(declared: &str) -> SqlType {
    let (name, argument) = match declared.split_once('(') {
        Some((name, argument)) => (name, argument.trim_end_matches(')')),
        None => (declared, ""),
    };
    let number = || argument.parse::<u16>().expect("a length");
    let length = || if argument == "max" { MaxLength::Max } else { MaxLength::Limited(number()) };
    match name {
        "bit" => SqlType::Bit,
        "tinyint" => SqlType::TinyInt,
        "smallint" => SqlType::SmallInt,
        "int" => SqlType::Int,
        "bigint" => SqlType::BigInt,
        "real" => SqlType::Real,
        "float" => SqlType::Float,
        "datetime" => SqlType::DateTime,
        "datetime2" => SqlType::DateTime2 { scale: 7 },
        "numeric" => SqlType::Decimal { precision: 25, scale: 0 },
        "decimal" => SqlType::Decimal { precision: 38, scale: 0 },
        "uniqueidentifier" => SqlType::UniqueIdentifier,
        "sysname" => SqlType::NVarChar(MaxLength::Limited(128)),
        "nvarchar" => SqlType::NVarChar(length()),
        "varchar" => SqlType::VarChar(length()),
        "binary" => SqlType::Binary(number()),
        "varbinary" => SqlType::VarBinary(length()),
        "char" => SqlType::Char(number()),
        "nchar" => SqlType::NChar(number()),
        other => panic!("{other} is no type of a view's column"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_read_with_their_nullability() {
        let columns = read("name sysname!, value nvarchar(4000), bytes varbinary(max)");
        assert_eq!(columns[0].sql_type, SqlType::NVarChar(MaxLength::Limited(128)));
        assert!(!columns[0].nullable && columns[1].nullable);
        assert_eq!(columns[2].sql_type, SqlType::VarBinary(MaxLength::Max));
    }
}
