//! `LIKE` under a collation.
use arrow::array::BooleanArray;
use hobt_base::SqlError;
use hobt_types::Collation;

use crate::column::Column;

/// `text LIKE pattern [ESCAPE escape]`; all in the text carrier. NULL where any of the three is NULL.
///
/// # Errors
/// 506 when the escape is not one character.
pub fn like(
    _text: &Column,
    _pattern: &Column,
    _escape: Option<&Column>,
    _collation: Collation,
    _rows: usize,
) -> Result<BooleanArray, SqlError> {
    Err(SqlError::not_supported("LIKE"))
}
