//! The types that a column, a variable or an expression can have.

use std::fmt;

/// The longest value that is kept in its row, in bytes as the user counts them.
pub const MAX_BYTES_IN_ROW: u16 = 8000;

/// The declared length of a variable-length type: `varchar(20)` or `varchar(max)`.
///
/// Characters (UTF-16 code units) for `nchar` and `nvarchar`, bytes for the others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MaxLength {
    /// A limit: 1 to 8000 (4000 for the national types).
    Limited(u16),
    /// `max`: up to 2³¹ − 1 bytes.
    Max,
}

/// A SQL type, with the parameters that a declaration gives it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SqlType {
    /// `bit`
    Bit,
    /// `tinyint`, unsigned
    TinyInt,
    /// `smallint`
    SmallInt,
    /// `int`
    Int,
    /// `bigint`
    BigInt,
    /// `decimal(p, s)`, `numeric(p, s)`; 1 ≤ p ≤ 38, s ≤ p
    Decimal {
        /// Digits in all.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// `smallmoney`: four decimal places in 32 bits
    SmallMoney,
    /// `money`: four decimal places in 64 bits
    Money,
    /// `real`, `float(1..24)`
    Real,
    /// `float`, `float(25..53)`
    Float,
    /// `date`
    Date,
    /// `time(s)`, 0 ≤ s ≤ 7
    Time {
        /// Digits after the second.
        scale: u8,
    },
    /// `smalldatetime`: to the minute
    SmallDateTime,
    /// `datetime`: to 1/300 s, kept rounded to .000, .003 or .007
    DateTime,
    /// `datetime2(s)`, 0 ≤ s ≤ 7
    DateTime2 {
        /// Digits after the second.
        scale: u8,
    },
    /// `char(n)`, padded with spaces
    Char(u16),
    /// `varchar(n | max)`
    VarChar(MaxLength),
    /// `nchar(n)`, padded with spaces
    NChar(u16),
    /// `nvarchar(n | max)`
    NVarChar(MaxLength),
    /// `binary(n)`, padded with zero bytes
    Binary(u16),
    /// `varbinary(n | max)`
    VarBinary(MaxLength),
    /// `uniqueidentifier`
    UniqueIdentifier,
}

/// The form of a type in a page: a fixed-length array element or variable-length bytes.
///
/// | SQL type | physical | content |
/// |---|---|---|
/// | `bit`, `tinyint` | `Fixed1` | unsigned |
/// | `smallint` | `Fixed2` | signed |
/// | `int` | `Fixed4` | signed |
/// | `date` | `Fixed4` | days since 1970-01-01 |
/// | `smallmoney` | `Fixed4` | ten-thousandths |
/// | `decimal(1..9)` | `Fixed4` | unscaled |
/// | `real` | `Fixed4` | IEEE 754 |
/// | `bigint` | `Fixed8` | signed |
/// | `decimal(10..18)` | `Fixed8` | unscaled |
/// | `money` | `Fixed8` | ten-thousandths |
/// | `float` | `Fixed8` | IEEE 754 |
/// | `time` | `Fixed8` | 100 ns since midnight |
/// | `smalldatetime`, `datetime`, `datetime2` | `Fixed8` | 100 ns since 1970-01-01, signed |
/// | `decimal(19..38)` | `Fixed16` | unscaled |
/// | `uniqueidentifier` | `Fixed16` | bytes in SQL Server's sort order |
/// | text | `Variable` | UTF-8; `char` and `nchar` with their padding |
/// | binary | `Variable` | the bytes; `binary` with its padding |
///
/// All numbers are little-endian.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PhysicalType {
    /// One byte.
    Fixed1,
    /// Two bytes.
    Fixed2,
    /// Four bytes.
    Fixed4,
    /// Eight bytes.
    Fixed8,
    /// Sixteen bytes.
    Fixed16,
    /// An offset and bytes.
    Variable,
}

impl PhysicalType {
    /// Bytes of a fixed-length value; `None` for `Variable`.
    pub const fn width(self) -> Option<usize> {
        match self {
            PhysicalType::Fixed1 => Some(1),
            PhysicalType::Fixed2 => Some(2),
            PhysicalType::Fixed4 => Some(4),
            PhysicalType::Fixed8 => Some(8),
            PhysicalType::Fixed16 => Some(16),
            PhysicalType::Variable => None,
        }
    }
}

impl SqlType {
    /// The form of this type's values in a page.
    pub const fn physical(self) -> PhysicalType {
        match self {
            SqlType::Bit | SqlType::TinyInt => PhysicalType::Fixed1,
            SqlType::SmallInt => PhysicalType::Fixed2,
            SqlType::Int | SqlType::Date | SqlType::SmallMoney | SqlType::Real => PhysicalType::Fixed4,
            SqlType::BigInt
            | SqlType::Money
            | SqlType::Float
            | SqlType::Time { .. }
            | SqlType::SmallDateTime
            | SqlType::DateTime
            | SqlType::DateTime2 { .. } => PhysicalType::Fixed8,
            SqlType::Decimal { precision, .. } => match precision {
                0..=9 => PhysicalType::Fixed4,
                10..=18 => PhysicalType::Fixed8,
                _ => PhysicalType::Fixed16,
            },
            SqlType::UniqueIdentifier => PhysicalType::Fixed16,
            SqlType::Char(_)
            | SqlType::VarChar(_)
            | SqlType::NChar(_)
            | SqlType::NVarChar(_)
            | SqlType::Binary(_)
            | SqlType::VarBinary(_) => PhysicalType::Variable,
        }
    }

    /// `char`, `varchar`, `nchar`, `nvarchar`.
    pub const fn is_text(self) -> bool {
        matches!(self, SqlType::Char(_) | SqlType::VarChar(_) | SqlType::NChar(_) | SqlType::NVarChar(_))
    }

    /// `nchar`, `nvarchar`.
    pub const fn is_national(self) -> bool {
        matches!(self, SqlType::NChar(_) | SqlType::NVarChar(_))
    }

    /// `binary`, `varbinary`.
    pub const fn is_binary(self) -> bool {
        matches!(self, SqlType::Binary(_) | SqlType::VarBinary(_))
    }

    /// `bit`, `tinyint`, `smallint`, `int`, `bigint`.
    pub const fn is_integer(self) -> bool {
        matches!(self, SqlType::Bit | SqlType::TinyInt | SqlType::SmallInt | SqlType::Int | SqlType::BigInt)
    }

    /// Integers, decimals, money and floating point.
    pub const fn is_numeric(self) -> bool {
        self.is_integer()
            || matches!(
                self,
                SqlType::Decimal { .. } | SqlType::Money | SqlType::SmallMoney | SqlType::Real | SqlType::Float
            )
    }

    /// `date`, `time`, `smalldatetime`, `datetime`, `datetime2`.
    pub const fn is_temporal(self) -> bool {
        matches!(
            self,
            SqlType::Date
                | SqlType::Time { .. }
                | SqlType::SmallDateTime
                | SqlType::DateTime
                | SqlType::DateTime2 { .. }
        )
    }

    /// The type's name without its parameters, as error messages print it.
    pub const fn name(self) -> &'static str {
        match self {
            SqlType::Bit => "bit",
            SqlType::TinyInt => "tinyint",
            SqlType::SmallInt => "smallint",
            SqlType::Int => "int",
            SqlType::BigInt => "bigint",
            SqlType::Decimal { .. } => "decimal",
            SqlType::SmallMoney => "smallmoney",
            SqlType::Money => "money",
            SqlType::Real => "real",
            SqlType::Float => "float",
            SqlType::Date => "date",
            SqlType::Time { .. } => "time",
            SqlType::SmallDateTime => "smalldatetime",
            SqlType::DateTime => "datetime",
            SqlType::DateTime2 { .. } => "datetime2",
            SqlType::Char(_) => "char",
            SqlType::VarChar(_) => "varchar",
            SqlType::NChar(_) => "nchar",
            SqlType::NVarChar(_) => "nvarchar",
            SqlType::Binary(_) => "binary",
            SqlType::VarBinary(_) => "varbinary",
            SqlType::UniqueIdentifier => "uniqueidentifier",
        }
    }

    /// SQL Server's `system_type_id`, as `sys.types` and `sys.columns` show it.
    pub const fn system_type_id(self) -> u8 {
        match self {
            SqlType::UniqueIdentifier => 36,
            SqlType::Date => 40,
            SqlType::Time { .. } => 41,
            SqlType::DateTime2 { .. } => 42,
            SqlType::TinyInt => 48,
            SqlType::SmallInt => 52,
            SqlType::Int => 56,
            SqlType::SmallDateTime => 58,
            SqlType::Real => 59,
            SqlType::Money => 60,
            SqlType::DateTime => 61,
            SqlType::Float => 62,
            SqlType::Bit => 104,
            SqlType::Decimal { .. } => 106,
            SqlType::SmallMoney => 122,
            SqlType::BigInt => 127,
            SqlType::VarBinary(_) => 165,
            SqlType::VarChar(_) => 167,
            SqlType::Binary(_) => 173,
            SqlType::Char(_) => 175,
            SqlType::NVarChar(_) => 231,
            SqlType::NChar(_) => 239,
        }
    }

    /// `max_length` of `sys.columns`: bytes, −1 for `max`.
    pub const fn max_length_bytes(self) -> i16 {
        match self {
            SqlType::Bit | SqlType::TinyInt => 1,
            SqlType::SmallInt => 2,
            SqlType::Date => 3,
            SqlType::Int | SqlType::SmallMoney | SqlType::SmallDateTime | SqlType::Real => 4,
            SqlType::BigInt | SqlType::Money | SqlType::DateTime | SqlType::Float => 8,
            SqlType::Time { scale } => match scale {
                0..=2 => 3,
                3..=4 => 4,
                _ => 5,
            },
            SqlType::DateTime2 { scale } => match scale {
                0..=2 => 6,
                3..=4 => 7,
                _ => 8,
            },
            SqlType::Decimal { precision, .. } => match precision {
                0..=9 => 5,
                10..=19 => 9,
                20..=28 => 13,
                _ => 17,
            },
            SqlType::UniqueIdentifier => 16,
            SqlType::Char(n) | SqlType::Binary(n) => n as i16,
            SqlType::NChar(n) => 2 * n as i16,
            SqlType::VarChar(length) | SqlType::VarBinary(length) => match length {
                MaxLength::Limited(n) => n as i16,
                MaxLength::Max => -1,
            },
            SqlType::NVarChar(length) => match length {
                MaxLength::Limited(n) => 2 * n as i16,
                MaxLength::Max => -1,
            },
        }
    }

    /// `precision` of `sys.columns`: decimal digits, 0 for types that are neither numbers nor times.
    pub const fn precision(self) -> u8 {
        match self {
            SqlType::Bit => 1,
            SqlType::TinyInt => 3,
            SqlType::SmallInt => 5,
            SqlType::Int | SqlType::SmallMoney | SqlType::Date => 10,
            SqlType::BigInt | SqlType::Money => 19,
            SqlType::Real => 24,
            SqlType::Float => 53,
            SqlType::Decimal { precision, .. } => precision,
            SqlType::SmallDateTime => 16,
            SqlType::DateTime => 23,
            SqlType::Time { scale } => {
                if scale == 0 {
                    8
                } else {
                    9 + scale
                }
            }
            SqlType::DateTime2 { scale } => {
                if scale == 0 {
                    19
                } else {
                    20 + scale
                }
            }
            _ => 0,
        }
    }

    /// `scale` of `sys.columns`.
    pub const fn scale(self) -> u8 {
        match self {
            SqlType::Decimal { scale, .. } | SqlType::Time { scale } | SqlType::DateTime2 { scale } => scale,
            SqlType::Money | SqlType::SmallMoney => 4,
            SqlType::DateTime => 3,
            _ => 0,
        }
    }
}

/// The declaration: `nvarchar(50)`, `decimal(15,2)`.
impl fmt::Display for SqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match *self {
            SqlType::Decimal { precision, scale } => write!(f, "({precision},{scale})"),
            SqlType::Time { scale } | SqlType::DateTime2 { scale } => write!(f, "({scale})"),
            SqlType::Char(n) | SqlType::NChar(n) | SqlType::Binary(n) => write!(f, "({n})"),
            SqlType::VarChar(length) | SqlType::NVarChar(length) | SqlType::VarBinary(length) => match length {
                MaxLength::Limited(n) => write!(f, "({n})"),
                MaxLength::Max => f.write_str("(max)"),
            },
            _ => Ok(()),
        }
    }
}
