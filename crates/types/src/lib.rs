//! SQL types and their physical form, values, comparison and collation keys.
//!
//! A [`SqlType`] is what a user declares; its [`PhysicalType`] is all that pages and access methods know of it. A
//! [`Value`] is one value of any type, used where rows are few: catalog rows, defaults, partition boundaries,
//! variables. Columns of many rows travel as vectors (crate `access`) and Arrow arrays (crate `query`). A [`KeyColumn`]
//! makes values into the bytes that indexes compare.
//!
//! The module [`statistics`] says how many rows and how many different values a column has, from what was seen of it.
//!
//! Leaves to others: arithmetic, casts and text forms (crate `functions`), the Arrow type of each (there too).

mod collation;
mod key;
mod sql_type;
pub mod statistics;
mod value;

pub use collation::{Collation, CollationKey};
pub use key::{KeyColumn, KeyError, shortest_separator};
pub use sql_type::{MAX_BYTES_IN_ROW, MaxLength, PhysicalType, SqlType};
pub use value::{TypedValue, Value, one_zero};
