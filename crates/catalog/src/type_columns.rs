//! A SQL type as the four columns that system tables store for it.

use hobt_types::{MAX_BYTES_IN_ROW, MaxLength, SqlType};

/// `xtype`, `length`, `prec`, `scale`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TypeColumns {
    pub(crate) type_id: u8,
    pub(crate) length: i16,
    pub(crate) precision: u8,
    pub(crate) scale: u8,
}

const MAX: i16 = -1;

impl TypeColumns {
    pub(crate) fn of(sql_type: SqlType) -> TypeColumns {
        let limited = |length: u16| i16::try_from(length).expect("a declared length is at most 8000");
        let length = match sql_type {
            SqlType::Char(length) | SqlType::NChar(length) | SqlType::Binary(length) => limited(length),
            SqlType::VarChar(length) | SqlType::NVarChar(length) | SqlType::VarBinary(length) => match length {
                MaxLength::Limited(length) => limited(length),
                MaxLength::Max => MAX,
            },
            _ => 0,
        };
        let (precision, scale) = match sql_type {
            SqlType::Decimal { precision, scale } => (precision, scale),
            SqlType::Time { scale } | SqlType::DateTime2 { scale } => (0, scale),
            _ => (0, 0),
        };
        TypeColumns { type_id: sql_type.system_type_id(), length, precision, scale }
    }

    /// The type; `None` if no type has these properties.
    pub(crate) fn sql_type(self) -> Option<SqlType> {
        let length = || u16::try_from(self.length).ok().filter(|length| (1..=MAX_BYTES_IN_ROW).contains(length));
        let max_length = || if self.length == MAX { Some(MaxLength::Max) } else { length().map(MaxLength::Limited) };
        let scale = (self.scale <= 7).then_some(self.scale);
        let sql_type = match self.type_id {
            36 => SqlType::UniqueIdentifier,
            40 => SqlType::Date,
            41 => SqlType::Time { scale: scale? },
            42 => SqlType::DateTime2 { scale: scale? },
            48 => SqlType::TinyInt,
            52 => SqlType::SmallInt,
            56 => SqlType::Int,
            58 => SqlType::SmallDateTime,
            59 => SqlType::Real,
            60 => SqlType::Money,
            61 => SqlType::DateTime,
            62 => SqlType::Float,
            104 => SqlType::Bit,
            106 if (1..=38).contains(&self.precision) && self.scale <= self.precision => {
                SqlType::Decimal { precision: self.precision, scale: self.scale }
            }
            122 => SqlType::SmallMoney,
            127 => SqlType::BigInt,
            165 => SqlType::VarBinary(max_length()?),
            167 => SqlType::VarChar(max_length()?),
            173 => SqlType::Binary(length()?),
            175 => SqlType::Char(length()?),
            231 => SqlType::NVarChar(max_length()?),
            239 => SqlType::NChar(length()?),
            _ => return None,
        };
        (TypeColumns::of(sql_type) == self).then_some(sql_type)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_comes_back() {
        for sql_type in [
            SqlType::Bit,
            SqlType::TinyInt,
            SqlType::SmallInt,
            SqlType::Int,
            SqlType::BigInt,
            SqlType::Decimal { precision: 38, scale: 38 },
            SqlType::SmallMoney,
            SqlType::Money,
            SqlType::Real,
            SqlType::Float,
            SqlType::Date,
            SqlType::Time { scale: 0 },
            SqlType::SmallDateTime,
            SqlType::DateTime,
            SqlType::DateTime2 { scale: 7 },
            SqlType::Char(8000),
            SqlType::VarChar(MaxLength::Limited(1)),
            SqlType::VarChar(MaxLength::Max),
            SqlType::NChar(4000),
            SqlType::NVarChar(MaxLength::Max),
            SqlType::Binary(3),
            SqlType::VarBinary(MaxLength::Limited(8000)),
            SqlType::UniqueIdentifier,
        ] {
            assert_eq!(TypeColumns::of(sql_type).sql_type(), Some(sql_type));
        }
    }

    #[test]
    fn impossible_properties_are_no_type() {
        let int = TypeColumns::of(SqlType::Int);
        for wrong in [
            TypeColumns { type_id: 0, ..int },
            TypeColumns { length: 4, ..int },
            TypeColumns { type_id: 106, precision: 39, ..int },
            TypeColumns { type_id: 167, length: -2, ..int },
            TypeColumns { type_id: 175, length: -1, ..int },
            TypeColumns { type_id: 41, scale: 8, ..int },
        ] {
            assert_eq!(wrong.sql_type(), None, "{wrong:?}");
        }
    }
}
