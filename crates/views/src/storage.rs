//! The storage of rows: filegroups, partitions and their sizes.

use hobt_base::{HobtId, SqlError, number};
use hobt_catalog::{DataSpace, Index, PartitionCounts};
use hobt_engine::DatabaseUse;
use hobt_interpreter::ViewContext;
use hobt_types::Value;

use crate::catalog::sorted_tables;
use crate::value::{NULL, datetime, row, text_of};
use crate::{Definition, Rows, Sources};

pub(super) static VIEWS: &[Definition] = &[
    Definition::sys(
        "filegroups",
        "name sysname!, data_space_id int!, type char(2)!, type_desc nvarchar(60), is_default bit, is_system bit, \
         filegroup_guid uniqueidentifier, log_filegroup_id int, is_read_only bit, is_autogrow_all_files bit",
        |_, context, _| {
            let snapshot = context.database.snapshot();
            let rows = snapshot.filegroups.iter().map(|group| {
                row![&group.name, group.id.0, "FG", "ROWS_FILEGROUP", group.is_default, false, NULL, NULL, false, false]
            });
            Ok(rows.collect())
        },
    ),
    Definition::sys("data_spaces", DATA_SPACE, data_spaces),
    Definition::sys(
        "partition_functions",
        "name sysname!, function_id int!, type char(2)!, type_desc nvarchar(60), fanout int!, \
         boundary_value_on_right bit!, is_system bit!, create_date datetime!, modify_date datetime!",
        |_, context, _| {
            let snapshot = context.database.snapshot();
            let rows = snapshot.partition_functions.iter().map(|function| {
                let created = datetime(snapshot.created);
                row![
                    &function.name,
                    function.id,
                    "R ",
                    "RANGE",
                    function.partition_count(),
                    function.range_right,
                    false,
                    created.clone(),
                    created
                ]
            });
            Ok(rows.collect())
        },
    ),
    Definition::sys(
        "partition_parameters",
        "function_id int!, parameter_id int!, system_type_id tinyint!, max_length smallint!, precision tinyint!, \
         scale tinyint!, collation_name sysname, user_type_id int!",
        |_, context, _| {
            let snapshot = context.database.snapshot();
            let rows = snapshot.partition_functions.iter().map(|function| {
                let parameter = function.parameter;
                row![
                    function.id,
                    1,
                    parameter.system_type_id(),
                    parameter.max_length_bytes(),
                    parameter.precision(),
                    parameter.scale(),
                    function.collation.map(|collation| collation.name()),
                    i32::from(parameter.system_type_id())
                ]
            });
            Ok(rows.collect())
        },
    ),
    Definition::sys(
        "partition_range_values",
        "function_id int!, boundary_id int!, parameter_id int!, value nvarchar(4000)",
        |_, context, _| {
            let snapshot = context.database.snapshot();
            let mut rows = Vec::new();
            for function in &snapshot.partition_functions {
                for (boundary, id) in function.boundaries.iter().zip(1..) {
                    rows.push(row![function.id, id, 1, text_of(boundary, function.parameter)]);
                }
            }
            Ok(rows)
        },
    ),
    Definition::sys(
        "partition_schemes",
        "name sysname!, data_space_id int!, type char(2)!, type_desc nvarchar(60), is_default bit, is_system bit, \
         function_id int!",
        |_, context, _| {
            let snapshot = context.database.snapshot();
            let rows = snapshot
                .partition_schemes
                .iter()
                .map(|scheme| row![&scheme.name, scheme.id, "PS", "PARTITION_SCHEME", false, false, scheme.function]);
            Ok(rows.collect())
        },
    ),
    Definition::sys(
        "destination_data_spaces",
        "partition_scheme_id int!, destination_id int!, data_space_id int!",
        |_, context, _| {
            let snapshot = context.database.snapshot();
            let mut rows = Vec::new();
            for scheme in &snapshot.partition_schemes {
                for (group, id) in scheme.filegroups.iter().chain(&scheme.next_used).zip(1..) {
                    rows.push(row![scheme.id, id, group.0]);
                }
            }
            Ok(rows)
        },
    ),
    Definition::sys(
        "partitions",
        "partition_id bigint!, object_id int!, index_id int!, partition_number int!, hobt_id bigint!, rows bigint, \
         filestream_filegroup_id smallint!, data_compression tinyint!, data_compression_desc nvarchar(60)",
        partitions,
    ),
    Definition::sys(
        "allocation_units",
        "allocation_unit_id bigint!, type tinyint!, type_desc nvarchar(60), container_id bigint!, data_space_id int, \
         total_pages bigint!, used_pages bigint!, data_pages bigint!",
        allocation_units,
    ),
    Definition::sys(
        "dm_db_partition_stats",
        "partition_id bigint, object_id int!, index_id int!, partition_number int!, in_row_data_page_count bigint, \
         in_row_used_page_count bigint, in_row_reserved_page_count bigint, lob_used_page_count bigint, \
         lob_reserved_page_count bigint, row_overflow_used_page_count bigint, row_overflow_reserved_page_count bigint, \
         used_page_count bigint, reserved_page_count bigint, row_count bigint",
        partition_stats,
    ),
];

const DATA_SPACE: &str = "name sysname!, data_space_id int!, type char(2)!, type_desc nvarchar(60), is_default bit, \
    is_system bit";

/// The bit that the id of a partition's long-value unit has in addition to the partition's.
const LOB_UNIT: u64 = 1 << 62;

/// The id of a heap's or B+tree's allocation unit: that of its rows, or that of its long values.
pub(super) fn allocation_unit_id(hobt: HobtId, of_large_values: bool) -> u64 {
    if of_large_values { hobt.0 | LOB_UNIT } else { hobt.0 }
}

/// The id of a filegroup or scheme.
pub(super) fn data_space_id(space: &DataSpace) -> i64 {
    match space {
        DataSpace::Filegroup(filegroup) => i64::from(filegroup.0),
        DataSpace::Scheme { scheme, .. } => i64::from(*scheme),
    }
}

fn data_spaces(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let snapshot = context.database.snapshot();
    let groups = snapshot
        .filegroups
        .iter()
        .map(|group| row![&group.name, group.id.0, "FG", "ROWS_FILEGROUP", group.is_default, false]);
    let schemes = snapshot
        .partition_schemes
        .iter()
        .map(|scheme| row![&scheme.name, scheme.id, "PS", "PARTITION_SCHEME", false, false]);
    Ok(groups.chain(schemes).collect())
}

/// The sizes of all existing partitions of an index.
pub(super) fn index_sizes(database: &DatabaseUse, index: &Index) -> Result<PartitionCounts, SqlError> {
    let mut sum = PartitionCounts::default();
    for partition in &index.partitions {
        sum = sum.plus(sizes(database, partition.hobt)?.unwrap_or_default());
    }
    Ok(sum)
}

/// The sizes of a partition; `None` if its table was dropped since the snapshot was taken.
fn sizes(database: &DatabaseUse, hobt: hobt_base::HobtId) -> Result<Option<PartitionCounts>, SqlError> {
    let store = match database.store_to_read(hobt).map_err(|error| error.to_sql_error()) {
        Ok(store) => store,
        Err(error) if error.number == number::INVALID_OBJECT => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(database.database().expected_counts(&store)))
}

/// The pages without those of long values, which have pages of their own.
fn in_rows(pages: u64, lob_pages: u64) -> u64 {
    pages.saturating_sub(lob_pages)
}

/// Produces rows for each partition of each index.
fn for_each_partition<R: IntoIterator<Item = Vec<Value>>>(
    context: &ViewContext,
    make: impl Fn(i32, &Index, &hobt_catalog::Partition, PartitionCounts) -> R,
) -> Rows {
    let snapshot = context.database.snapshot();
    let mut rows = Vec::new();
    for table in sorted_tables(&snapshot) {
        for index in &table.indexes {
            for partition in &index.partitions {
                if let Some(sizes) = sizes(&context.database, partition.hobt)? {
                    rows.extend(make(table.id.0, index, partition, sizes));
                }
            }
        }
    }
    Ok(rows)
}

fn partitions(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    for_each_partition(context, |table, index, partition, sizes| {
        [row![partition.hobt.0, table, index.id.0, partition.number.0, partition.hobt.0, sizes.rows, 0, 0, "NONE"]]
    })
}

fn allocation_units(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    for_each_partition(context, |_, _, partition, sizes| {
        let id = partition.hobt.0;
        let rows = row![
            allocation_unit_id(partition.hobt, false),
            1,
            "IN_ROW_DATA",
            id,
            partition.filegroup.0,
            in_rows(sizes.reserved_pages, sizes.lob_reserved_pages),
            in_rows(sizes.used_pages, sizes.lob_used_pages),
            sizes.data_pages
        ];
        let lob = row![
            allocation_unit_id(partition.hobt, true),
            2,
            "LOB_DATA",
            id,
            partition.filegroup.0,
            sizes.lob_reserved_pages,
            sizes.lob_used_pages,
            sizes.lob_used_pages
        ];
        std::iter::once(rows).chain((sizes.lob_reserved_pages > 0).then_some(lob))
    })
}

fn partition_stats(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    for_each_partition(context, |table, index, partition, sizes| {
        [row![
            partition.hobt.0,
            table,
            index.id.0,
            partition.number.0,
            sizes.data_pages,
            in_rows(sizes.used_pages, sizes.lob_used_pages),
            in_rows(sizes.reserved_pages, sizes.lob_reserved_pages),
            sizes.lob_used_pages,
            sizes.lob_reserved_pages,
            0,
            0,
            sizes.used_pages,
            sizes.reserved_pages,
            sizes.rows
        ]]
    })
}
