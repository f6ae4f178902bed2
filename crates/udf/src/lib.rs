//! Wraps crate `functions` for DataFusion: scalar kernels, aggregates, and the conversion of errors.
//!
//! Leaves to others: which function a call means and the types of its arguments (`binder`).

mod aggregate;
mod distinct;
mod error;
mod next_value;
mod ordered;
mod scalar;
mod single_value;
mod sort_key;
mod two_steps;
mod window;

pub use aggregate::SqlAggregate;
pub use error::{REFUSED, external, sql_error_of};
pub use next_value::{NextValues, TakeValues};
pub use ordered::OrderedStringAgg;
pub use scalar::{Kernel, Operation, RowFunction};
pub use single_value::SingleValue;
pub use sort_key::{column_order, has_sort_key};
pub use two_steps::{OfStates, StateOf};
