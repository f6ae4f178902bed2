//! The type of a `COLUMN` of an XML format file.
//!
//! Text and binary have the length that the column says, else the one that its field says, else the longest that a row
//! holds; `max` if more is said, or if the field has a length of eight bytes in front and no limit.

use std::fmt::Write as _;

use hobt_base::SqlError;
use hobt_types::{MAX_BYTES_IN_ROW, MaxLength, SqlType};
use roxmltree::Node;

use super::xml::{Reader, XSI_NAMESPACE};
use super::{FileField, HostType, RowsetColumn};

/// A type by its name, without length, precision and scale.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// `SQLCHAR`, …
    Char,
    VarChar,
    NChar,
    NVarChar,
    Binary,
    VarBinary,
    /// The old types of long values, which are `max` in hobt.
    Text,
    NText,
    Image,
    Decimal,
    Time,
    DateTime2,
    /// What its name says wholly.
    Plain(SqlType),
}

/// Names of types. A kind is written under its first.
const KINDS: [(&str, Kind); 29] = [
    ("SQLCHAR", Kind::Char),
    ("SQLVARYCHAR", Kind::VarChar),
    ("SQLNCHAR", Kind::NChar),
    ("SQLNVARCHAR", Kind::NVarChar),
    ("SQLBINARY", Kind::Binary),
    ("SQLVARYBIN", Kind::VarBinary),
    ("SQLTEXT", Kind::Text),
    ("SQLNTEXT", Kind::NText),
    ("SQLIMAGE", Kind::Image),
    ("CharLOB", Kind::Text),
    ("NCharLOB", Kind::NText),
    ("SQLDECIMAL", Kind::Decimal),
    ("SQLNUMERIC", Kind::Decimal),
    ("SQLTIME", Kind::Time),
    ("SQLDATETIME2", Kind::DateTime2),
    ("SQLBIT", Kind::Plain(SqlType::Bit)),
    ("SQLTINYINT", Kind::Plain(SqlType::TinyInt)),
    ("SQLSMALLINT", Kind::Plain(SqlType::SmallInt)),
    ("SQLINT", Kind::Plain(SqlType::Int)),
    ("SQLBIGINT", Kind::Plain(SqlType::BigInt)),
    ("SQLFLT4", Kind::Plain(SqlType::Real)),
    ("SQLFLT8", Kind::Plain(SqlType::Float)),
    ("SQLMONEY", Kind::Plain(SqlType::Money)),
    ("SQLMONEY4", Kind::Plain(SqlType::SmallMoney)),
    ("SQLDATE", Kind::Plain(SqlType::Date)),
    ("SQLDATETIME", Kind::Plain(SqlType::DateTime)),
    ("SQLDATETIM4", Kind::Plain(SqlType::SmallDateTime)),
    ("SQLDATETIM8", Kind::Plain(SqlType::DateTime)),
    ("SQLUNIQUEID", Kind::Plain(SqlType::UniqueIdentifier)),
];

impl Kind {
    /// The type of text or binary of this kind with so many units, or as the field says.
    fn sized(self, units: Option<u32>, field: &FileField) -> Option<SqlType> {
        let is_national = matches!(self, Kind::NChar | Kind::NVarChar);
        let limit = if is_national { MAX_BYTES_IN_ROW / 2 } else { MAX_BYTES_IN_ROW };
        let of_field = match field.host {
            HostType::NChar => field.length / 2,
            _ => field.length,
        };
        let said = units.or((of_field > 0).then_some(of_field));
        let length = match said {
            None if field.prefix_length == 8 => MaxLength::Max,
            None => MaxLength::Limited(limit),
            Some(units) => match u16::try_from(units) {
                Ok(units) if units <= limit => MaxLength::Limited(units),
                _ => MaxLength::Max,
            },
        };
        // A type of fixed length without one is of varying length.
        let fixed = said.and(match length {
            MaxLength::Limited(units) => Some(units),
            MaxLength::Max => None,
        });
        Some(match (self, fixed) {
            (Kind::Char, Some(units)) => SqlType::Char(units),
            (Kind::NChar, Some(units)) => SqlType::NChar(units),
            (Kind::Binary, Some(units)) => SqlType::Binary(units),
            (Kind::Char | Kind::VarChar, _) => SqlType::VarChar(length),
            (Kind::NChar | Kind::NVarChar, _) => SqlType::NVarChar(length),
            (Kind::Binary | Kind::VarBinary, _) => SqlType::VarBinary(length),
            _ => return None,
        })
    }

    fn is_sized(self) -> bool {
        matches!(self, Kind::Char | Kind::VarChar | Kind::NChar | Kind::NVarChar | Kind::Binary | Kind::VarBinary)
    }

    fn of(sql_type: SqlType) -> Kind {
        match sql_type {
            SqlType::VarChar(MaxLength::Max) => Kind::Text,
            SqlType::NVarChar(MaxLength::Max) => Kind::NText,
            SqlType::VarBinary(MaxLength::Max) => Kind::Image,
            SqlType::Char(_) => Kind::Char,
            SqlType::VarChar(_) => Kind::VarChar,
            SqlType::NChar(_) => Kind::NChar,
            SqlType::NVarChar(_) => Kind::NVarChar,
            SqlType::Binary(_) => Kind::Binary,
            SqlType::VarBinary(_) => Kind::VarBinary,
            SqlType::Decimal { .. } => Kind::Decimal,
            SqlType::Time { .. } => Kind::Time,
            SqlType::DateTime2 { .. } => Kind::DateTime2,
            plain => Kind::Plain(plain),
        }
    }

    /// The kind of varying length under which bcp writes values of `max` length.
    fn without_limit(self) -> Kind {
        match self {
            Kind::Text => Kind::VarChar,
            Kind::NText => Kind::NVarChar,
            Kind::Image => Kind::VarBinary,
            other => other,
        }
    }

    fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("SQLVARYBIN", |(name, _)| name)
    }
}

/// The type of a column that `field` fills. Without `xsi:type` it is text or binary, as its field is.
///
/// # Errors
/// 4857, 4858.
pub(super) fn read<'d>(reader: Reader<'d>, node: Node<'d, 'd>, field: &FileField) -> Result<SqlType, SqlError> {
    let kind = match (node.attribute((XSI_NAMESPACE, "type")), field.host) {
        (Some(name), _) => match KINDS.iter().find(|(known, _)| *known == name) {
            Some((_, kind)) => *kind,
            None => return Err(reader.bad_value(node, "type", name)),
        },
        (None, HostType::Char) => Kind::VarChar,
        (None, HostType::NChar) => Kind::NVarChar,
        (None, _) => Kind::VarBinary,
    };
    let own: &[&str] = match kind {
        _ if kind.is_sized() => &["LENGTH"],
        Kind::Decimal => &["PRECISION", "SCALE"],
        Kind::Time | Kind::DateTime2 => &["SCALE"],
        _ => &[],
    };
    let allowed: Vec<&str> = ["SOURCE", "NAME", "NULLABLE"].iter().chain(own).copied().collect();
    reader.check_attributes(node, &allowed)?;
    let scale = |default: u8, most: u8| match node.attribute("SCALE") {
        None => Ok(default.min(most)),
        Some(value) => match value.trim().parse::<u8>() {
            Ok(scale) if scale <= most => Ok(scale),
            _ => Err(reader.bad_value(node, "SCALE", value)),
        },
    };
    Ok(match kind {
        Kind::Plain(sql_type) => sql_type,
        Kind::Text => SqlType::VarChar(MaxLength::Max),
        Kind::NText => SqlType::NVarChar(MaxLength::Max),
        Kind::Image => SqlType::VarBinary(MaxLength::Max),
        Kind::Time => SqlType::Time { scale: scale(7, 7)? },
        Kind::DateTime2 => SqlType::DateTime2 { scale: scale(7, 7)? },
        Kind::Decimal => {
            let digits = reader.number(node, "PRECISION")?.unwrap_or(18);
            let precision = u8::try_from(digits).ok().filter(|digits| *digits <= 38);
            let precision = precision.ok_or_else(|| reader.bad_value(node, "PRECISION", &digits.to_string()))?;
            SqlType::Decimal { precision, scale: scale(0, precision)? }
        }
        sized => {
            let units = reader.number(node, "LENGTH")?;
            sized.sized(units, field).unwrap_or(SqlType::VarBinary(MaxLength::Max))
        }
    })
}

/// The attributes of a column behind its name, with a space in front of each.
pub(super) fn written(column: &RowsetColumn, field: &FileField) -> String {
    let mut kind = Kind::of(column.sql_type);
    let without_limit = kind.without_limit();
    if without_limit != kind && without_limit.sized(None, field) == Some(column.sql_type) {
        kind = without_limit;
    }
    let mut out = format!(" xsi:type=\"{}\"", kind.name());
    match column.sql_type {
        SqlType::Decimal { precision, scale } => {
            let _ = write!(out, " PRECISION=\"{precision}\" SCALE=\"{scale}\"");
        }
        SqlType::Time { scale } | SqlType::DateTime2 { scale } if scale != 7 => {
            let _ = write!(out, " SCALE=\"{scale}\"");
        }
        SqlType::Char(units)
        | SqlType::NChar(units)
        | SqlType::Binary(units)
        | SqlType::VarChar(MaxLength::Limited(units))
        | SqlType::NVarChar(MaxLength::Limited(units))
        | SqlType::VarBinary(MaxLength::Limited(units))
            if kind.sized(None, field) != Some(column.sql_type) =>
        {
            let _ = write!(out, " LENGTH=\"{units}\"");
        }
        _ => {}
    }
    if !column.nullable {
        out.push_str(" NULLABLE=\"NO\"");
    }
    out
}
