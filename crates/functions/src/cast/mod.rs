//! `CAST`, `CONVERT` and implicit conversion, from carrier to carrier.
use arrow::array::ArrayRef;
use hobt_base::SqlError;
use hobt_types::SqlType;

/// Converts every value of `array` from `from` to `to`; `style` is the third argument of `CONVERT`; with `try_cast` a
/// value that does not convert gives NULL instead of an error.
///
/// # Errors
/// 245, 8114, 8115, 220, 241, 242, 8169 and others for the first value that does not convert; 529 when the pair is not
/// allowed.
pub fn cast_array(
    _array: &ArrayRef,
    from: SqlType,
    to: SqlType,
    _style: Option<i32>,
    _try_cast: bool,
) -> Result<ArrayRef, SqlError> {
    Err(SqlError::not_supported(format!("CAST({from} AS {to})")))
}
