//! Tables as DataFusion sees them.
//!
//! Leaves to others: which table a name means (`interpreter`), how it is read (`execute`).

mod heap_table;
mod series;

pub use heap_table::{HeapTable, table_schema};
pub(crate) use heap_table::{PLACE_TYPE, access_error, declared_width, scanned_width};
pub use series::Series;
