//! The rows of statistics objects.

use super::field::{Field, Timestamp};
use super::rows::system_row;
use super::{FieldDefinition, SystemRow, SystemTable, Value};

system_row! {
    /// A statistics object; the text of a filter is a long value.
    StatisticsRow, SystemTable::Statistics => {
        /// The table.
        table: i32 = "id",
        /// Its number; indexes of the table use the same numbers.
        statistics: i32 = "statsid",
        /// Its name.
        name: String = "name",
        /// 0 of an index, 1 created for a query, 2 created by a user.
        origin: u8 = "origin",
        /// The ids of its columns, four bytes each, little-endian.
        columns: Vec<u8> = "cols",
        /// 1 incremental, 2 not updated automatically, 4 filtered.
        status: i32 = "status",
        /// When it was last updated.
        updated: Option<Timestamp> = "updated",
        /// Rows of the table at that time.
        unfiltered_rows: i64 = "unfilteredrows",
        /// Rows that were changed since then.
        modified: i64 = "modified",
        /// The fraction of the table that an update is to read, in millionths; 0 if none was requested.
        sample: i32 = "sample",
    }
}

system_row! {
    /// A piece of what was gathered for a partition.
    StatisticsPartRow, SystemTable::StatisticsParts => {
        /// The table.
        table: i32 = "id",
        /// The statistics object.
        statistics: i32 = "statsid",
        /// The partition of the heap or clustered index; 0 is the whole table.
        hobt: i64 = "rowsetid",
        /// The piece's place, from 0.
        piece: i32 = "valnum",
        /// Its bytes.
        image: Vec<u8> = "imageval",
    }
}
