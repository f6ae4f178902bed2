//! The rows of statistics objects.

use super::field::{Field, Timestamp};
use super::rows::system_row;
use super::{FieldDefinition, SystemRow, SystemTable, Value};

system_row! {
    /// A statistics object; the text of a filter is a long value.
    StatisticsRow, SystemTable::Statistics => {
        /// The table.
        table: i32 = "id",
        /// Its number, among those of the table's indexes.
        statistics: i32 = "statsid",
        /// Its name.
        name: String = "name",
        /// 0 an index's, 1 made for a query, 2 asked for.
        origin: u8 = "origin",
        /// The ids of its columns, four bytes each, the lowest first.
        columns: Vec<u8> = "cols",
        /// 1 incremental, 2 not updated unasked, 4 filtered.
        status: i32 = "status",
        /// When it was updated last.
        updated: Option<Timestamp> = "updated",
        /// Rows of the table at that time.
        unfiltered_rows: i64 = "unfilteredrows",
        /// Rows that were changed since then.
        modified: i64 = "modified",
        /// The part of the table that an update is to read, in millionths; 0 where none was asked for.
        sample: i32 = "sample",
    }
}

system_row! {
    /// A piece of what was gathered of a partition.
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
