//! Tables as a statement reads them: access paths, estimates, and the statement's own data.
//!
//! A [`TableRead`] is a table with its hints, its row locks and the statement that reads it. `access_path` chooses how
//! its rows are reached, `cardinality` estimates how many there are, `statement` holds what all operators of one
//! statement share.
//!
//! Leaves to others: which table a name means (`hobt-binder`, `hobt-interpreter`), the operators that read it
//! (`hobt-operators`), and the plan around them (`hobt-planner`).

mod access_path;
mod cardinality;
mod change;
mod computed_rows;
mod file_read;
mod join_way;
mod kept_table;
mod row_rules;
mod series;
mod statement;
mod streamed_rows;
mod table_read;
mod temporary_name;
mod unseen_rows;

pub use access_path::{
    AccessHint, AccessPath, Closed, ColumnPredicate, Comparand, JoinedBound, JoinedBy, JoinedColumn, KeyForm, Limit,
    Lookup, Missing, SeekPath, Test, TextCondition, Wanted, choose, choose_to_lock, covers, equal_texts, for_each_key,
    has_number, is_number, is_one_value, missing_to, no_plan_for_hints, no_seek, number_keys, partitions_read,
    predicates, read_predicates, text_conditions, wanted_keys, wanted_partitions,
};
pub use cardinality::FilterPart;
pub use cardinality::GroupSizes;
pub use cardinality::{
    Assumed, Assumptions, ColumnRows, Correlation, Equated, Joining, Knowledge, LeafEstimate, Meeting, NameCounts,
    ParameterValues, Parameters, Reference, Relation, RowWidth, TEXT_BYTES, TableKnowledge, UNKNOWN_ROWS, WantedColumn,
    distinct_left, ends_of, evaluated, filter_parts, fold_assumed, is_inner, is_marked, literal_value, marked,
    parameter, parameters_in, parameters_of, references_between, relation_of, same_value, sources_of, wanted_columns,
    with_parameters, with_values, with_values_of,
};
pub use change::{ChangeKind, PERCENT_PARTS, RowLimit};
pub use computed_rows::{ComputeRows, RowSource, computed_rows, rows_in_memory};
pub use file_read::FileRead;
pub use join_way::JoinWay;
pub use kept_table::{KeptColumn, KeptEstimate, KeptRelation, KeptTable};
pub use row_rules::{CheckRule, ComputedRule, RowRules};
pub use series::{Series, series_rows};
pub use statement::Running;
pub use statement::{
    FilterCounts, FilterProfile, MemoryFigures, OperatorProfile, PendingReasons, PlanRows, RunSettings, StatementRun,
    WorkerClock, WorkerProfile, Writes, Writing,
};
pub use streamed_rows::{BatchReading, OpenBatches, streamed_rows};
pub use table_read::{
    RowReading, ScanSample, TableRead, access_error, clustered_disabled, declared_width, place_type, scanned_width,
    table_schema,
};
pub use temporary_name::{temporary_name, written_table_name};
pub use unseen_rows::{UnseenRows, UnseenUse};
