//! Databases and their files.

use hobt_base::PAGE_SIZE;
use hobt_catalog::{DatabaseFile, Growth};
use hobt_engine::{DatabaseDescription, DatabaseUse, Instance, LogDescription, LogFileDescription};
use hobt_interpreter::ViewContext;
use hobt_types::{Collation, Value};

use crate::value::{NULL, datetime, int, row};
use crate::{Definition, Rows, Sources};

pub(super) static VIEWS: &[Definition] = &[
    Definition::sys(
        "databases",
        "name sysname!, database_id int!, source_database_id int, owner_sid varbinary(85), create_date datetime!, \
         compatibility_level tinyint!, collation_name sysname, user_access tinyint, user_access_desc nvarchar(60), \
         is_read_only bit, is_auto_close_on bit!, is_auto_shrink_on bit, state tinyint, state_desc nvarchar(60), \
         is_in_standby bit, is_cleanly_shutdown bit, is_supplemental_logging_enabled bit, \
         snapshot_isolation_state tinyint, snapshot_isolation_state_desc nvarchar(60), \
         is_read_committed_snapshot_on bit, recovery_model tinyint, recovery_model_desc nvarchar(60), \
         page_verify_option tinyint, page_verify_option_desc nvarchar(60), is_auto_create_stats_on bit, \
         is_auto_create_stats_incremental_on bit, is_auto_update_stats_on bit, is_auto_update_stats_async_on bit, \
         is_ansi_null_default_on bit, is_ansi_nulls_on bit, is_ansi_padding_on bit, is_ansi_warnings_on bit, \
         is_arithabort_on bit, is_concat_null_yields_null_on bit, is_numeric_roundabort_on bit, \
         is_quoted_identifier_on bit, is_recursive_triggers_on bit, is_cursor_close_on_commit_on bit, \
         is_local_cursor_default bit, is_fulltext_enabled bit, is_trustworthy_on bit, is_db_chaining_on bit, \
         is_parameterization_forced bit, is_master_key_encrypted_by_server bit!, is_query_store_on bit, \
         is_published bit!, is_subscribed bit!, is_merge_published bit!, is_distributor bit!, \
         is_sync_with_backup bit!, service_broker_guid uniqueidentifier!, is_broker_enabled bit!, \
         log_reuse_wait tinyint, log_reuse_wait_desc nvarchar(60), is_date_correlation_on bit!, is_cdc_enabled bit!, \
         is_encrypted bit, is_honor_broker_priority_on bit, replica_id uniqueidentifier, \
         group_database_id uniqueidentifier, resource_pool_id int, default_language_lcid smallint, \
         default_language_name nvarchar(128), containment tinyint, containment_desc nvarchar(60), \
         target_recovery_time_in_seconds int, delayed_durability int, delayed_durability_desc nvarchar(60), \
         is_memory_optimized_elevate_to_snapshot_on bit, hobt_is_stats_maintenance_on bit, hobt_fill_desc nvarchar(60)",
        |sources, _, _| Ok(sources.instance.databases().iter().map(database).collect()),
    ),
    Definition::sys("database_files", FILES, |sources, context, _| {
        Ok(files(&sources.instance, &context.database).into_iter().map(|(_, row)| row).collect())
    }),
    Definition::sys("master_files", MASTER_FILES, master_files),
];

const FILES: &str = "file_id int!, file_guid uniqueidentifier, type tinyint!, type_desc nvarchar(60), data_space_id int!, \
    name sysname!, physical_name nvarchar(260)!, state tinyint, state_desc nvarchar(60), size int!, max_size int!, \
    growth int!, is_media_read_only bit!, is_read_only bit!, is_sparse bit!, is_percent_growth bit!, \
    is_name_reserved bit!, create_lsn numeric, drop_lsn numeric, read_only_lsn numeric, read_write_lsn numeric, \
    differential_base_lsn numeric, differential_base_guid uniqueidentifier, differential_base_time datetime, \
    redo_start_lsn numeric, redo_start_fork_guid uniqueidentifier, redo_target_lsn numeric, \
    redo_target_fork_guid uniqueidentifier, backup_lsn numeric";

const MASTER_FILES: &str = "database_id int!, file_id int!, file_guid uniqueidentifier, type tinyint!, \
    type_desc nvarchar(60), data_space_id int!, name sysname!, physical_name nvarchar(260)!, state tinyint, \
    state_desc nvarchar(60), size int!, max_size int!, growth int!, is_media_read_only bit!, is_read_only bit!, \
    is_sparse bit!, is_percent_growth bit!, is_name_reserved bit!, create_lsn numeric, drop_lsn numeric, \
    read_only_lsn numeric, read_write_lsn numeric, differential_base_lsn numeric, \
    differential_base_guid uniqueidentifier, differential_base_time datetime, redo_start_lsn numeric, \
    redo_start_fork_guid uniqueidentifier, redo_target_lsn numeric, redo_target_fork_guid uniqueidentifier, \
    backup_lsn numeric";

fn database(database: &DatabaseDescription) -> Vec<Value> {
    let tempdb = database.id.0 == 2;
    let (yes, no) = (true, false);
    let mut row = row![
        &database.name,
        database.id.0,
        database.source.map_or(NULL, |source| Value::Int(source.0.into())),
        Value::Binary(vec![1]),
        datetime(database.created),
        160,
        Collation::default().name(),
        0,
        "MULTI_USER",
        database.options.is_read_only,
        no,
        no,
        database.state.number(),
        database.state.name(),
        database.is_in_standby,
        no,
        no,
        u8::from(database.allows_snapshot),
        if database.allows_snapshot { "ON" } else { "OFF" },
        database.read_committed_snapshot,
        database.options.recovery_model.number(),
        database.options.recovery_model.name(),
        2,
        "CHECKSUM"
    ];
    let statistics = database.options.statistics;
    row.extend(row![statistics.creates, statistics.is_incremental, statistics.updates, statistics.updates_async]);
    row.extend(row![no, yes, yes, yes, yes, yes, no, yes, no, no, no, no, no, no]);
    row.extend(row![database.options.is_parameterization_forced, no, no, no, no, no, no, no]);
    row.extend(row![
        Value::Guid([0; 16]),
        no,
        database.log_reuse_wait.number(),
        database.log_reuse_wait.name(),
        no,
        no,
        no,
        no,
        NULL,
        NULL,
        if tempdb { NULL } else { Value::Int(1) },
        1033,
        "us_english",
        0,
        "NONE",
        i64::from(database.options.target_recovery_time.seconds()),
        database.options.delayed_durability.number(),
        database.options.delayed_durability.name(),
        no,
        statistics.is_maintained,
        database.options.fill.name()
    ]);
    row
}

/// The files of a database, with their ids; log files come last.
pub(super) fn files(instance: &Instance, database: &DatabaseUse) -> Vec<(u16, Vec<Value>)> {
    let snapshot = database.snapshot();
    let sizes = database.storage().files();
    let row = |file: &DatabaseFile| {
        let open = sizes.iter().find(|open| open.id() == file.id);
        let size = open.map_or(0, |open| instance.shown_pages(database.id(), open));
        let (growth, percent) = match file.growth {
            Growth::None => (0, false),
            Growth::Pages(pages) => (int(u64::from(pages)), false),
            Growth::Percent(percent) => (int(u64::from(percent)), true),
        };
        let maximum = file.max_pages.map_or(-1, |pages| int(u64::from(pages)));
        let mut row = row![
            file.id.0,
            NULL,
            0,
            "ROWS",
            file.filegroup.0,
            &file.name,
            file.path.display().to_string(),
            0,
            "ONLINE",
            int(u64::from(size)),
            maximum,
            growth,
            false,
            false,
            false,
            percent,
            false
        ];
        row.extend(std::iter::repeat_n(NULL, COLUMNS_OF_BACKUPS));
        (file.id.0, row)
    };
    let log = LogDescription::of(database.storage()).map_or_else(Vec::new, |log| log.files);
    snapshot.files.iter().map(row).chain(log.iter().map(log_file)).collect()
}

/// Columns about backups at the end of a file's row; there are no backups.
const COLUMNS_OF_BACKUPS: usize = 12;

fn log_file(file: &LogFileDescription) -> (u16, Vec<Value>) {
    let pages = |bytes: u64| int(bytes / PAGE_SIZE as u64);
    let mut row = row![
        file.id.0,
        NULL,
        1,
        "LOG",
        0,
        &file.name,
        file.path.display().to_string(),
        0,
        "ONLINE",
        pages(file.bytes),
        pages(file.bytes_max),
        pages(file.growth_bytes),
        false,
        false,
        false,
        false,
        false
    ];
    row.extend(std::iter::repeat_n(NULL, COLUMNS_OF_BACKUPS));
    (file.id.0, row)
}

fn master_files(sources: &Sources, _: &ViewContext, _: &[Value]) -> Rows {
    let mut rows = Vec::new();
    for description in sources.instance.databases() {
        let Ok(database) = sources.instance.database_by_id(description.id) else { continue };
        for (_, mut file) in files(&sources.instance, &database) {
            file.insert(0, Value::Int(i64::from(description.id.0)));
            rows.push(file);
        }
    }
    Ok(rows)
}
