//! Tables as DataFusion sees them.
//!
//! Leaves to others: which table a name means (`interpreter`), how it is read (`execute`).

mod change;
mod join_way;
mod row_rules;
mod series;
mod table_read;
mod temporary_name;
mod unseen_rows;

pub(crate) use change::PERCENT_PARTS;
pub use change::{ChangeKind, RowLimit};
pub use join_way::JoinWay;
pub use row_rules::{CheckRule, ComputedRule, NewKeys, RowRules};
pub use series::Series;
pub(crate) use series::series_rows;
pub use table_read::{RowReading, ScanSample, TableRead, table_schema};
pub(crate) use table_read::{access_error, clustered_disabled, declared_width, place_type, scanned_width};
pub(crate) use temporary_name::{temporary_name, written_table_name};
pub use unseen_rows::{UnseenRows, UnseenUse};
