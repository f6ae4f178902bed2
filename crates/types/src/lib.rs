//! SQL types and their physical form, values, comparison and collation keys.
//!
//! A [`SqlType`] is what a user declares; pages and access methods know only its [`PhysicalType`]. A [`Value`] is one
//! value of any type, used where rows are few: catalog rows, defaults, partition boundaries, variables. Columns of many
//! rows travel as vectors (crate `access`) and Arrow arrays (crate `table`). A [`KeyColumn`] encodes values as the
//! bytes that indexes compare.
//!
//! The module [`statistics`] estimates how many rows and how many different values a column has, from gathered data.
//!
//! Done elsewhere: arithmetic, casts and text forms, and the Arrow type of each SQL type (crate `functions`).

mod collation;
mod key;
mod sql_type;
pub mod statistics;
mod value;

pub use collation::{Collation, CollationKey};
pub use key::{KeyColumn, KeyError, shortest_separator};
pub use sql_type::{MAX_BYTES_IN_ROW, MaxLength, PhysicalType, SqlType};
pub use value::{TypedValue, Value, one_zero};
