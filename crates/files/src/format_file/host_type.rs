//! The types that bytes of a data file have.

use hobt_types::SqlType;

/// The type of a field's bytes, as format files name it. hobt has no `SQLDATETIMEOFFSET`, `SQLVARIANT`, `SQLUDT`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HostType {
    /// `SQLCHAR`: characters of a code page.
    Char,
    /// `SQLNCHAR`: UTF-16, little-endian.
    NChar,
    /// `SQLBINARY`
    Binary,
    /// `SQLBIT`
    Bit,
    /// `SQLTINYINT`
    TinyInt,
    /// `SQLSMALLINT`
    SmallInt,
    /// `SQLINT`
    Int,
    /// `SQLBIGINT`
    BigInt,
    /// `SQLFLT4`
    Real,
    /// `SQLFLT8`
    Float,
    /// `SQLMONEY`
    Money,
    /// `SQLMONEY4`
    SmallMoney,
    /// `SQLDECIMAL`
    Decimal,
    /// `SQLNUMERIC`: as `SQLDECIMAL`.
    Numeric,
    /// `SQLDATETIME`
    DateTime,
    /// `SQLDATETIM4`
    SmallDateTime,
    /// `SQLDATE`
    Date,
    /// `SQLTIME`
    Time,
    /// `SQLDATETIME2`
    DateTime2,
    /// `SQLUNIQUEID`
    UniqueIdentifier,
}

/// Every type with its name, its bytes (0 if they vary), and other names that it has in older files and in XML.
const NAMES: [(HostType, &str, usize, &[&str]); 20] = [
    (HostType::Char, "SQLCHAR", 0, &["SQLVARYCHAR", "SQLVARCHAR", "SQLTEXT", "CHARLOB"]),
    (HostType::NChar, "SQLNCHAR", 0, &["SQLNVARCHAR", "SQLNTEXT", "NCHARLOB"]),
    (HostType::Binary, "SQLBINARY", 0, &["SQLVARYBIN", "SQLVARBINARY", "SQLIMAGE"]),
    (HostType::Bit, "SQLBIT", 1, &[]),
    (HostType::TinyInt, "SQLTINYINT", 1, &[]),
    (HostType::SmallInt, "SQLSMALLINT", 2, &[]),
    (HostType::Int, "SQLINT", 4, &[]),
    (HostType::BigInt, "SQLBIGINT", 8, &[]),
    (HostType::Real, "SQLFLT4", 4, &[]),
    (HostType::Float, "SQLFLT8", 8, &[]),
    (HostType::Money, "SQLMONEY", 8, &[]),
    (HostType::SmallMoney, "SQLMONEY4", 4, &[]),
    (HostType::Decimal, "SQLDECIMAL", 19, &[]),
    (HostType::Numeric, "SQLNUMERIC", 19, &[]),
    (HostType::DateTime, "SQLDATETIME", 8, &["SQLDATETIM8"]),
    (HostType::SmallDateTime, "SQLDATETIM4", 4, &[]),
    (HostType::Date, "SQLDATE", 3, &[]),
    (HostType::Time, "SQLTIME", 5, &[]),
    (HostType::DateTime2, "SQLDATETIME2", 8, &[]),
    (HostType::UniqueIdentifier, "SQLUNIQUEID", 16, &[]),
];

impl HostType {
    fn entry(self) -> &'static (HostType, &'static str, usize, &'static [&'static str]) {
        &NAMES[self as usize]
    }

    /// The type with a name, in any case of letters.
    pub fn from_name(name: &str) -> Option<HostType> {
        let is_it = |other: &&str| other.eq_ignore_ascii_case(name);
        NAMES.iter().find(|(_, main, _, others)| is_it(main) || others.iter().any(is_it)).map(|entry| entry.0)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.entry().1
    }

    /// The bytes of each value; `None` for text and binary.
    pub fn bytes(self) -> Option<usize> {
        Some(self.entry().2).filter(|bytes| *bytes > 0)
    }

    /// `SQLCHAR`, `SQLNCHAR`.
    pub fn is_text(self) -> bool {
        matches!(self, HostType::Char | HostType::NChar)
    }

    /// The type in which bcp writes a column in native format; text as UTF-16 if `wide`.
    pub fn of(sql_type: SqlType, wide: bool) -> HostType {
        match sql_type {
            SqlType::Bit => HostType::Bit,
            SqlType::TinyInt => HostType::TinyInt,
            SqlType::SmallInt => HostType::SmallInt,
            SqlType::Int => HostType::Int,
            SqlType::BigInt => HostType::BigInt,
            SqlType::Decimal { .. } => HostType::Decimal,
            SqlType::SmallMoney => HostType::SmallMoney,
            SqlType::Money => HostType::Money,
            SqlType::Real => HostType::Real,
            SqlType::Float => HostType::Float,
            SqlType::Date => HostType::Date,
            SqlType::Time { .. } => HostType::Time,
            SqlType::SmallDateTime => HostType::SmallDateTime,
            SqlType::DateTime => HostType::DateTime,
            SqlType::DateTime2 { .. } => HostType::DateTime2,
            SqlType::Char(_) | SqlType::VarChar(_) if !wide => HostType::Char,
            SqlType::Char(_) | SqlType::VarChar(_) | SqlType::NChar(_) | SqlType::NVarChar(_) => HostType::NChar,
            SqlType::Binary(_) | SqlType::VarBinary(_) => HostType::Binary,
            SqlType::UniqueIdentifier => HostType::UniqueIdentifier,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_is_found_by_each_of_its_names() {
        for (place, (host, name, _, others)) in NAMES.iter().enumerate() {
            assert_eq!(*host as usize, place);
            for name in others.iter().chain([name]) {
                assert_eq!(HostType::from_name(&name.to_ascii_lowercase()), Some(*host));
            }
        }
        assert_eq!(HostType::from_name("SQLVARIANT"), None);
    }
}
