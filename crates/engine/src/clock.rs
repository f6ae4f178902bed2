//! The time of day, as commit records have it too.

pub use hobt_txn::time_of_day;
