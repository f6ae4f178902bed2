//! Tables as DataFusion sees them.
//!
//! Leaves to others: which table a name means (`interpreter`), how it is read (`execute`).

mod heap_table;
mod series;

pub use heap_table::{HeapTable, RowReading, table_schema};
pub(crate) use heap_table::{access_error, clustered_disabled, declared_width, place_type, scanned_width};
pub use series::Series;
pub(crate) use series::series_rows;
