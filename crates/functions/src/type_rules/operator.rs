//! The result types of operators.
//!
//! Decimal precision and scale follow Microsoft's "Precision, scale, and length": a result that needs more than 38
//! digits loses digits after the point, down to 6, before it loses digits before it.

use std::fmt;

use hobt_base::{SqlError, errors};
use hobt_types::{MaxLength, SqlType};

use super::{as_decimal, check_implicit, common_type, declared_length, precedence};

/// An operator with two operands and a result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BinaryOperator {
    /// `+`, also of text and of binary
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Modulo,
    /// `&`
    BitAnd,
    /// `|`
    BitOr,
    /// `^`
    BitXor,
}

impl BinaryOperator {
    /// Its name in messages: `add`, `'&'`.
    pub const fn message_name(self) -> &'static str {
        match self {
            BinaryOperator::Add => "add",
            BinaryOperator::Subtract => "subtract",
            BinaryOperator::Multiply => "multiply",
            BinaryOperator::Divide => "divide",
            BinaryOperator::Modulo => "modulo",
            BinaryOperator::BitAnd => "'&'",
            BinaryOperator::BitOr => "'|'",
            BinaryOperator::BitXor => "'^'",
        }
    }

    const fn is_bitwise(self) -> bool {
        matches!(self, BinaryOperator::BitAnd | BinaryOperator::BitOr | BinaryOperator::BitXor)
    }
}

impl fmt::Display for BinaryOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BinaryOperator::Add => "+",
            BinaryOperator::Subtract => "-",
            BinaryOperator::Multiply => "*",
            BinaryOperator::Divide => "/",
            BinaryOperator::Modulo => "%",
            BinaryOperator::BitAnd => "&",
            BinaryOperator::BitOr => "|",
            BinaryOperator::BitXor => "^",
        })
    }
}

/// 8117.
pub(crate) fn invalid_operand(sql_type: SqlType, operator: &str) -> SqlError {
    errors::INVALID_OPERAND_TYPE.with([&sql_type.name(), &operator])
}

/// 402.
fn incompatible(left: SqlType, right: SqlType, operator: BinaryOperator) -> SqlError {
    errors::INCOMPATIBLE_OPERANDS.with([&left.name(), &right.name(), &operator.message_name()])
}

/// The type of `left operator right`.
///
/// # Errors
/// 8117, 402, 206 or 257 with SQL Server's text.
pub fn binary_result(operator: BinaryOperator, left: SqlType, right: SqlType) -> Result<SqlType, SqlError> {
    if operator.is_bitwise() {
        return bitwise_result(operator, left, right);
    }
    if operator == BinaryOperator::Add && (left.is_text() || left.is_binary()) && (right.is_text() || right.is_binary())
    {
        return concatenation_result(left, right);
    }
    let (high, low) = if precedence(left) >= precedence(right) { (left, right) } else { (right, left) };
    if left.is_temporal() || right.is_temporal() {
        return temporal_result(operator, left, right);
    }
    if !high.is_numeric() {
        let texts_differ = left.is_text() && right.is_text() && left.name() != right.name();
        return Err(if texts_differ || (high == SqlType::UniqueIdentifier && low != high) {
            incompatible(left, right, operator)
        } else {
            invalid_operand(high, operator.message_name())
        });
    }
    if !low.is_numeric() {
        check_implicit(low, high)?;
    }
    if high == SqlType::Bit {
        return Err(invalid_operand(high, operator.message_name()));
    }
    numeric_result(operator, left, right, high)
}

/// The result if both are numbers, or one is text or binary that takes the other's type.
fn numeric_result(operator: BinaryOperator, left: SqlType, right: SqlType, high: SqlType) -> Result<SqlType, SqlError> {
    if operator == BinaryOperator::Modulo && matches!(high, SqlType::Real | SqlType::Float) {
        return Err(incompatible(left, right, operator));
    }
    if let SqlType::Decimal { precision, scale } = high {
        // Text with a decimal takes the decimal's own precision and scale.
        let own = (precision, scale);
        let left = as_decimal(left).unwrap_or(own);
        let right = as_decimal(right).unwrap_or(own);
        return Ok(decimal_result(operator, left, right));
    }
    Ok(high)
}

/// Precision and scale of a decimal result.
fn decimal_result(operator: BinaryOperator, (p1, s1): (u8, u8), (p2, s2): (u8, u8)) -> SqlType {
    let (p1, s1, p2, s2) = (i32::from(p1), i32::from(s1), i32::from(p2), i32::from(s2));
    let (precision, scale) = match operator {
        BinaryOperator::Multiply => (p1 + p2 + 1, s1 + s2),
        BinaryOperator::Divide => {
            let scale = (s1 + p2 + 1).max(6);
            (p1 - s1 + s2 + scale, scale)
        }
        BinaryOperator::Modulo => ((p1 - s1).min(p2 - s2) + s1.max(s2), s1.max(s2)),
        _ => ((p1 - s1).max(p2 - s2) + s1.max(s2) + 1, s1.max(s2)),
    };
    let additive = !matches!(operator, BinaryOperator::Multiply | BinaryOperator::Divide);
    let (precision, scale) = if precision <= 38 {
        (precision, scale)
    } else if additive {
        // The whole part is kept: max(p1-s1, p2-s2) digits, the rest is scale.
        let whole = (p1 - s1).max(p2 - s2);
        (38, scale.min(38 - whole).max(0))
    } else {
        let whole = precision - scale;
        if whole < 32 { (38, scale.min(38 - whole)) } else { (38, scale.min(6)) }
    };
    SqlType::Decimal {
        precision: u8::try_from(precision.clamp(1, 38)).unwrap_or(38),
        scale: u8::try_from(scale.clamp(0, 38)).unwrap_or(0),
    }
}

/// `datetime` and `smalldatetime` are numbers of days and can be added and subtracted; the newer types cannot.
fn temporal_result(operator: BinaryOperator, left: SqlType, right: SqlType) -> Result<SqlType, SqlError> {
    let is_old = |sql_type| matches!(sql_type, SqlType::DateTime | SqlType::SmallDateTime);
    let newer = [left, right].into_iter().find(|side| side.is_temporal() && !is_old(*side));
    if let Some(newer) = newer {
        let other = if newer == left { right } else { left };
        return Err(if other.is_temporal() && other.name() == newer.name() {
            invalid_operand(newer, operator.message_name())
        } else if other.is_temporal() || other.is_text() {
            incompatible(left, right, operator)
        } else {
            super::type_clash(left, right)
        });
    }
    let high = if precedence(left) >= precedence(right) { left } else { right };
    match operator {
        BinaryOperator::Add | BinaryOperator::Subtract => {
            let low = if high == left { right } else { left };
            check_implicit(low, high)?;
            Ok(high)
        }
        _ => Err(invalid_operand(high, operator.message_name())),
    }
}

fn bitwise_result(operator: BinaryOperator, left: SqlType, right: SqlType) -> Result<SqlType, SqlError> {
    if left.is_integer() && right.is_integer() {
        return common_type(left, right);
    }
    match (left.is_integer(), right.is_integer()) {
        (true, false) if right.is_binary() || right.is_text() => Ok(left),
        (false, true) if left.is_binary() || left.is_text() => Ok(right),
        _ => Err(incompatible(left, right, operator)),
    }
}

/// `'a' + 'b'`: the sum of the lengths, up to the longest that is not `max`; national if one side is.
fn concatenation_result(left: SqlType, right: SqlType) -> Result<SqlType, SqlError> {
    if left.is_binary() != right.is_binary() {
        return Err(incompatible(left, right, BinaryOperator::Add));
    }
    let national = left.is_national() || right.is_national();
    let limit = if national { 4000 } else { 8000 };
    let length = match (declared_length(left), declared_length(right)) {
        (Some(MaxLength::Limited(a)), Some(MaxLength::Limited(b))) => {
            MaxLength::Limited(a.saturating_add(b).min(limit))
        }
        _ => MaxLength::Max,
    };
    Ok(match (left, right, length) {
        (SqlType::Char(_), SqlType::Char(_), MaxLength::Limited(n)) => SqlType::Char(n),
        (SqlType::NChar(_) | SqlType::Char(_), SqlType::NChar(_) | SqlType::Char(_), MaxLength::Limited(n)) => {
            SqlType::NChar(n)
        }
        (SqlType::Binary(_), SqlType::Binary(_), MaxLength::Limited(n)) => SqlType::Binary(n),
        _ if left.is_binary() => SqlType::VarBinary(length),
        _ if national => SqlType::NVarChar(length),
        _ => SqlType::VarChar(length),
    })
}

/// The type of `-operand`.
///
/// # Errors
/// 8117 if it is not a number, and for `bit`.
pub fn unary_minus_result(operand: SqlType) -> Result<SqlType, SqlError> {
    match operand {
        // A tinyint has no negative numbers: the documentation's rule makes it a smallint.
        SqlType::TinyInt => Ok(SqlType::SmallInt),
        SqlType::Bit => Err(invalid_operand(operand, "minus")),
        _ if operand.is_numeric() => Ok(operand),
        _ => Err(invalid_operand(operand, "minus")),
    }
}

/// The type of `~operand`.
///
/// # Errors
/// 8117 if it is not an integer.
pub fn bit_not_result(operand: SqlType) -> Result<SqlType, SqlError> {
    if operand.is_integer() { Ok(operand) } else { Err(invalid_operand(operand, "'~'")) }
}
