//! A column of values for a kernel: one value per row, or one value for all rows.
//!
//! A kernel that gets a constant can prepare it once (compile a pattern, parse a number). Other kernels read through
//! [`Column::row`].

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array};
use hobt_base::SqlError;

use crate::error::from_arrow;

/// The values of one operand.
#[derive(Clone, Debug)]
pub enum Column {
    /// One element per row.
    Array(ArrayRef),
    /// An array of exactly one element, the value of every row.
    Scalar(ArrayRef),
}

impl Column {
    /// The array; it has one element if this is a constant.
    pub fn array(&self) -> &ArrayRef {
        match self {
            Column::Array(array) | Column::Scalar(array) => array,
        }
    }

    /// Whether one element is the value of every row.
    pub fn is_scalar(&self) -> bool {
        matches!(self, Column::Scalar(_))
    }

    /// The index of the element for `row`.
    pub fn row(&self, row: usize) -> usize {
        match self {
            Column::Array(_) => row,
            Column::Scalar(_) => 0,
        }
    }

    /// Whether the value of `row` is NULL.
    pub fn is_null(&self, row: usize) -> bool {
        self.array().is_null(self.row(row))
    }

    /// A column of the same form with another array of the same length.
    #[must_use]
    pub fn with_array(&self, array: ArrayRef) -> Column {
        match self {
            Column::Array(_) => Column::Array(array),
            Column::Scalar(_) => Column::Scalar(array),
        }
    }

    /// One element per row; a constant is repeated `rows` times.
    ///
    /// # Errors
    /// An internal error if Arrow refuses.
    pub fn to_array(&self, rows: usize) -> Result<ArrayRef, SqlError> {
        match self {
            Column::Array(array) => Ok(Arc::clone(array)),
            Column::Scalar(array) => {
                let repeat = UInt32Array::from_value(0, rows);
                arrow::compute::take(array, &repeat, None).map_err(from_arrow)
            }
        }
    }
}
