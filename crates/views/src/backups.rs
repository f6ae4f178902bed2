//! The history of backups and restores, which SQL Server keeps in `msdb`. Here `master` keeps it, and these views show
//! it under the names that it has there.

use hobt_engine::{Guid, HistoryEntry, MediaLabel, SetFacts};
use hobt_interpreter::MSDB;
use hobt_types::{Collation, Value};

use crate::value::{NULL, datetime, row};
use crate::{Definition, Rows, Sources};

pub(super) static VIEWS: &[Definition] = &[
    Definition::of(
        MSDB,
        "backupset",
        "backup_set_id int!, backup_set_uuid uniqueidentifier!, media_set_id int!, first_family_number tinyint, \
         first_media_number smallint, last_family_number tinyint, last_media_number smallint, \
         catalog_family_number tinyint, catalog_media_number smallint, position int, expiration_date datetime, \
         software_vendor_id int, name nvarchar(128), description nvarchar(255), user_name nvarchar(128), \
         software_major_version tinyint, software_minor_version tinyint, software_build_version smallint, \
         time_zone smallint, mtf_minor_version tinyint, first_lsn numeric, last_lsn numeric, checkpoint_lsn numeric, \
         database_backup_lsn numeric, database_creation_date datetime, backup_start_date datetime, \
         backup_finish_date datetime, type char(1), sort_order smallint, code_page smallint, \
         compatibility_level tinyint, database_version int, backup_size numeric, database_name nvarchar(128), \
         server_name nvarchar(128), machine_name nvarchar(128), flags int, unicode_locale int, \
         unicode_compare_style int, collation_name nvarchar(128), is_password_protected bit, \
         recovery_model nvarchar(60), has_bulk_logged_data bit, is_snapshot bit, is_readonly bit, is_single_user bit, \
         has_backup_checksums bit, is_damaged bit, begins_log_chain bit, has_incomplete_metadata bit, \
         is_force_offline bit, is_copy_only bit, first_recovery_fork_guid uniqueidentifier, fork_point_lsn numeric, \
         last_recovery_fork_guid uniqueidentifier, database_guid uniqueidentifier, family_guid uniqueidentifier, \
         differential_base_lsn numeric, differential_base_guid uniqueidentifier, compressed_backup_size numeric, \
         key_algorithm nvarchar(32), encryptor_thumbprint varbinary(20), encryptor_type nvarchar(32)",
        |sources, _, _| Ok(backups(sources)?.iter().map(set).collect()),
    ),
    Definition::of(
        MSDB,
        "backupmediaset",
        "media_set_id int!, media_uuid uniqueidentifier, media_family_count tinyint, name nvarchar(128), \
         description nvarchar(255), software_name nvarchar(128), software_vendor_id int, MTF_major_version tinyint, \
         mirror_count tinyint, is_password_protected bit, is_compressed bit, is_encrypted bit",
        |sources, _, _| {
            let mut seen = Vec::new();
            let backups = backups(sources)?;
            let first = backups.iter().filter(|backup| {
                let is_new = !seen.contains(&backup.media);
                seen.push(backup.media);
                is_new
            });
            let rows = first.map(|backup| {
                let label = &backup.label;
                let (media, stripes) = (Value::Guid(label.media.0), label.stripes);
                row![
                    backup.media,
                    media,
                    stripes,
                    text(&label.name),
                    text(&label.description),
                    text(&label.software),
                    0,
                    1,
                    1,
                    false,
                    backup.facts.is_compressed,
                    false
                ]
            });
            Ok(rows.collect())
        },
    ),
    Definition::of(
        MSDB,
        "backupmediafamily",
        "media_set_id int!, family_sequence_number tinyint!, media_family_id uniqueidentifier, media_count int, \
         logical_device_name nvarchar(128), physical_device_name nvarchar(260), device_type tinyint, \
         physical_block_size int, mirror tinyint!",
        |sources, _, _| {
            let mut rows: Vec<Vec<Value>> = Vec::new();
            for backup in backups(sources)? {
                for (number, path) in (1..).zip(&backup.paths) {
                    let media = Value::Guid(backup.label.media.0);
                    let row = row![backup.media, number, media, 1, NULL, path.clone(), 2, 4096, 0];
                    if !rows.contains(&row) {
                        rows.push(row);
                    }
                }
            }
            Ok(rows)
        },
    ),
    Definition::of(
        MSDB,
        "backupfile",
        "backup_set_id int!, first_family_number tinyint, first_media_number smallint, filegroup_name nvarchar(128), \
         page_size int, file_number numeric!, backed_up_page_count numeric, file_type char(1), \
         source_file_block_size numeric, file_size numeric, logical_name nvarchar(128), \
         physical_drive nvarchar(260), physical_name nvarchar(260), state tinyint, state_desc nvarchar(64), \
         create_lsn numeric, drop_lsn numeric, file_guid uniqueidentifier, read_only_lsn numeric, \
         read_write_lsn numeric, differential_base_lsn numeric, differential_base_guid uniqueidentifier, \
         backup_size numeric, filegroup_guid uniqueidentifier, is_readonly bit, is_present bit",
        |sources, _, _| Ok(backups(sources)?.iter().flat_map(files).collect()),
    ),
    Definition::of(
        MSDB,
        "restorehistory",
        "restore_history_id int!, restore_date datetime, destination_database_name nvarchar(128), \
         user_name nvarchar(128), backup_set_id int, restore_type char(1), replace bit, recovery bit, restart bit, \
         stop_at datetime, device_count tinyint, stop_at_mark_name nvarchar(128), stop_before bit",
        restores,
    ),
    Definition::of(
        MSDB,
        "restorefile",
        "restore_history_id int!, file_number numeric, destination_phys_drive nvarchar(260), \
         destination_phys_name nvarchar(260)",
        |sources, _, _| {
            let mut rows = Vec::new();
            for (id, entry) in history(sources)? {
                if let HistoryEntry::Restore { files, .. } = entry {
                    rows.extend((1..).zip(files).map(|(number, (_, path))| row![id, decimal(number), NULL, path]));
                }
            }
            Ok(rows)
        },
    ),
];

/// A backup of the history.
struct Listed {
    /// The number of its entry.
    id: i32,
    /// The number of the first entry with its media set.
    media: i32,
    facts: Box<SetFacts>,
    label: MediaLabel,
    position: u32,
    paths: Vec<String>,
}

fn history(sources: &Sources) -> Result<Vec<(i32, HistoryEntry)>, hobt_base::SqlError> {
    Ok(sources.instance.backup_history()?)
}

fn backups(sources: &Sources) -> Result<Vec<Listed>, hobt_base::SqlError> {
    let mut listed: Vec<Listed> = Vec::new();
    for (id, entry) in history(sources)? {
        if let HistoryEntry::Backup { facts, label, position, paths } = entry {
            let media = listed.iter().find(|known| known.label.media == label.media).map_or(id, |known| known.media);
            listed.push(Listed { id, media, facts, label, position, paths });
        }
    }
    Ok(listed)
}

fn text(value: &str) -> Value {
    if value.is_empty() { NULL } else { Value::Text(value.to_owned()) }
}

fn decimal(value: u64) -> Value {
    Value::Decimal(value.into())
}

fn guid(value: Guid) -> Value {
    if value.0 == [0; 16] { NULL } else { Value::Guid(value.0) }
}

fn set(backup: &Listed) -> Vec<Value> {
    let facts = &backup.facts;
    let stripes = backup.label.stripes;
    let is_based = facts.base_first > 0;
    let mut row = row![
        backup.id,
        guid(facts.guid),
        backup.media,
        1,
        1,
        stripes,
        1,
        1,
        1,
        backup.position,
        NULL,
        0,
        text(&facts.name),
        text(&facts.description),
        text(&facts.user),
        0,
        0,
        0,
        0,
        0,
        decimal(facts.first),
        decimal(facts.last),
        decimal(facts.redo),
        decimal(facts.database_backup),
        datetime(facts.database_created),
        datetime(facts.started),
        datetime(facts.finished),
        facts.kind.letter(),
        0,
        0,
        160,
        1,
        decimal(facts.bytes),
        text(&facts.database),
        text(&facts.server),
        text(&facts.machine)
    ];
    row.extend(row![
        facts.flags(),
        1033,
        0,
        Collation::default().name(),
        false,
        text(&facts.recovery_model),
        facts.has_bulk,
        false,
        false,
        false,
        facts.has_checksums,
        facts.is_damaged,
        facts.begins_log_chain(),
        false,
        facts.is_tail,
        facts.is_copy_only,
        guid(facts.fork),
        NULL,
        guid(facts.fork),
        guid(facts.database_guid),
        guid(facts.database_guid),
        if is_based { decimal(facts.base_first) } else { NULL },
        guid(facts.base),
        decimal(facts.stored_bytes),
        NULL,
        NULL,
        NULL
    ]);
    row
}

fn files(backup: &Listed) -> Vec<Vec<Value>> {
    let page = hobt_base::PAGE_SIZE as u64;
    let row = |group: Value, id: u16, pages: u64, kind: &str, bytes: u64, name: &str, path: &str| {
        row![
            backup.id,
            1,
            1,
            group,
            8192,
            decimal(id.into()),
            decimal(pages),
            kind,
            decimal(4096),
            decimal(bytes),
            name,
            NULL,
            path,
            0,
            "ONLINE",
            decimal(0),
            decimal(0),
            NULL,
            decimal(0),
            decimal(0),
            NULL,
            NULL,
            decimal(pages.saturating_mul(page)),
            NULL,
            false,
            true
        ]
    };
    let data = backup.facts.files.iter().map(|file| {
        let bytes = u64::from(file.pages) * page;
        row(text(&file.filegroup_name), file.id, file.pages_saved, "D", bytes, &file.name, &file.path)
    });
    let logs = backup.facts.logs.iter().map(|log| row(NULL, log.id, 0, "L", log.bytes, &log.name, &log.path));
    data.chain(logs).collect()
}

fn restores(sources: &Sources, _: &hobt_interpreter::ViewContext, _: &[Value]) -> Rows {
    let backups = backups(sources)?;
    let mut rows = Vec::new();
    for (id, entry) in history(sources)? {
        let HistoryEntry::Restore {
            at,
            database,
            user,
            kind,
            set,
            replaces,
            recovers,
            stop_at,
            stop_at_mark,
            stops_before_mark,
            ..
        } = entry
        else {
            continue;
        };
        let backup = backups.iter().find(|backup| backup.facts.guid == set);
        rows.push(row![
            id,
            datetime(at),
            database,
            text(&user),
            backup.map(|backup| backup.id),
            kind,
            replaces,
            recovers,
            false,
            stop_at.map(datetime),
            backup.map(|backup| backup.label.stripes),
            stop_at_mark,
            stops_before_mark
        ]);
    }
    Ok(rows)
}
