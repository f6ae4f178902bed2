//! The logs of databases: files, segments, space; and what transactions have written to them.

use hobt_base::{Lsn, PAGE_SIZE};
use hobt_engine::{DatabaseUse, LogDescription, time_of_day};
use hobt_interpreter::ViewContext;
use hobt_types::{SqlType, Value};

use crate::value::{NULL, datetime, row};
use crate::{Definition, Rows, Sources};

/// Bytes of a megabyte.
const MEGABYTE: f64 = 1_048_576.0;

pub(super) static VIEWS: &[Definition] = &[
    Definition::function(
        "dm_db_log_info",
        &[SqlType::Int],
        "database_id int!, file_id smallint!, vlf_begin_offset bigint!, vlf_size_mb float!, \
         vlf_sequence_number bigint!, vlf_active bit!, vlf_status int!, vlf_parity tinyint!, \
         vlf_first_lsn nvarchar(48), vlf_create_lsn nvarchar(48), vlf_encryptor_thumbprint varbinary(20)",
        log_info,
    ),
    Definition::function(
        "dm_db_log_stats",
        &[SqlType::Int],
        "database_id int!, recovery_model nvarchar(60)!, log_min_lsn nvarchar(24)!, log_end_lsn nvarchar(24)!, \
         current_vlf_sequence_number bigint!, current_vlf_size_mb float!, total_vlf_count bigint!, \
         total_log_size_mb float!, active_vlf_count bigint!, active_log_size_mb float!, \
         log_truncation_holdup_reason nvarchar(60)!, log_backup_time datetime, log_backup_lsn nvarchar(24), \
         log_since_last_log_backup_mb float, log_checkpoint_lsn nvarchar(24)!, \
         log_since_last_checkpoint_mb float!, log_recovery_lsn nvarchar(24)!, log_recovery_size_mb float!, \
         recovery_vlf_count bigint!",
        log_stats,
    ),
    Definition::sys(
        "dm_db_log_space_usage",
        "database_id int!, total_log_size_in_bytes bigint!, used_log_space_in_bytes bigint!, \
         used_log_space_in_percent real!, log_space_in_bytes_since_last_backup bigint",
        |_, context, _| {
            let rows = LogDescription::of(context.database.storage()).map(|log| {
                let percent = f64::from(log.used_percent() as f32);
                row![context.database.id().0, log.file_bytes, log.used_bytes, percent, NULL]
            });
            Ok(rows.into_iter().collect())
        },
    ),
    Definition::sys(
        "dm_tran_database_transactions",
        "transaction_id bigint!, database_id int!, database_transaction_begin_time datetime, \
         database_transaction_type int!, database_transaction_state int!, database_transaction_status int!, \
         database_transaction_status2 int!, database_transaction_log_record_count bigint!, \
         database_transaction_replicate_record_count int!, database_transaction_log_bytes_used bigint!, \
         database_transaction_log_bytes_reserved bigint!, database_transaction_log_bytes_used_system int!, \
         database_transaction_log_bytes_reserved_system int!, database_transaction_begin_lsn numeric, \
         database_transaction_last_lsn numeric, database_transaction_most_recent_savepoint_lsn numeric, \
         database_transaction_commit_lsn numeric, database_transaction_last_rollback_lsn numeric, \
         database_transaction_next_undo_lsn numeric",
        database_transactions,
    ),
    Definition::sys(
        "dm_tran_version_store_space_usage",
        "database_id int!, reserved_page_count bigint!, reserved_space_kb bigint!",
        |sources, _, _| {
            let rows = open_databases(sources).into_iter().map(|database| {
                let (memory, disk) = database.storage().versions().usage();
                row![database.id().0, (memory + disk).div_ceil(PAGE_SIZE as u64), (memory + disk).div_ceil(1024)]
            });
            Ok(rows.collect())
        },
    ),
    Definition::sys(
        "dm_tran_active_snapshot_database_transactions",
        "transaction_id bigint!, transaction_sequence_num bigint!, commit_sequence_num bigint, session_id int!, \
         is_snapshot bit!, first_snapshot_sequence_num bigint, max_version_chain_traversed int!, \
         average_version_chain_traversed real!, elapsed_time_seconds bigint!",
        |sources, _, _| {
            let sessions = sources.registry.all();
            let rows = sessions.iter().filter_map(|session| {
                let open = session.transaction.as_ref()?;
                let (id, seconds) = (open.transaction.id(), (time_of_day() - open.begun) / 10_000_000);
                Some(row![id, id, NULL, session.id.0, open.transaction.has_snapshot(), NULL, 0, 0.0, seconds])
            });
            Ok(rows.collect())
        },
    ),
];

/// The usable databases. Opens those that are not open.
pub(super) fn open_databases(sources: &Sources) -> Vec<DatabaseUse> {
    let all = sources.instance.databases();
    all.iter().filter_map(|description| sources.instance.database_by_id(description.id).ok()).collect()
}

/// The databases that an argument names: all for NULL, the current one for 0.
fn asked(sources: &Sources, context: &ViewContext, arguments: &[Value]) -> Vec<DatabaseUse> {
    match arguments.first() {
        Some(Value::Int(0)) => vec![context.database.clone()],
        Some(Value::Int(id)) => {
            let id = u16::try_from(*id).map(hobt_base::DatabaseId);
            id.ok().and_then(|id| sources.instance.database_by_id(id).ok()).into_iter().collect()
        }
        _ => open_databases(sources),
    }
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / MEGABYTE
}

fn text(position: Lsn) -> String {
    position.to_string()
}

fn log_info(sources: &Sources, context: &ViewContext, arguments: &[Value]) -> Rows {
    let mut rows = Vec::new();
    for database in asked(sources, context, arguments) {
        let Some(log) = LogDescription::of(database.storage()) else { continue };
        for segment in &log.segments {
            let is_active = segment.sequence.is_some();
            rows.push(row![
                database.id().0,
                log.file_of(segment).0,
                segment.offset,
                megabytes(segment.bytes),
                segment.sequence.unwrap_or(0),
                is_active,
                if is_active { 2 } else { 0 },
                0,
                segment.first.map(text),
                NULL,
                NULL
            ]);
        }
    }
    Ok(rows)
}

fn log_stats(sources: &Sources, context: &ViewContext, arguments: &[Value]) -> Rows {
    let mut rows = Vec::new();
    for database in asked(sources, context, arguments) {
        let Some(log) = LogDescription::of(database.storage()) else { continue };
        let active: Vec<_> = log.segments.iter().filter(|segment| segment.sequence.is_some()).collect();
        // The segments whose successor begins after the position where recovery starts, and the last one.
        let before = active.iter().filter(|segment| segment.first.is_some_and(|first| first <= log.redo_start)).count();
        let recovered = active.len() - before.saturating_sub(1);
        let since = megabytes(log.end.0.saturating_sub(log.redo_start.0));
        let current = log.current();
        rows.push(row![
            database.id().0,
            database.options().recovery_model.name(),
            text(log.keep),
            text(log.end),
            current.and_then(|segment| segment.sequence).unwrap_or(0),
            megabytes(current.map_or(0, |segment| segment.bytes)),
            log.segments.len(),
            megabytes(log.file_bytes),
            active.len(),
            megabytes(log.used_bytes),
            log.reuse_wait.name(),
            NULL,
            NULL,
            NULL,
            text(log.redo_start),
            since,
            text(log.redo_start),
            since,
            recovered
        ]);
    }
    Ok(rows)
}

fn database_transactions(sources: &Sources, _: &ViewContext, _: &[Value]) -> Rows {
    /// `database_transaction_type` of a transaction that reads and writes.
    const READ_WRITE: i32 = 1;
    /// `database_transaction_state` of a transaction that has written log records.
    const HAS_LOGGED: i32 = 4;
    let sessions = sources.registry.all();
    let undone = sources.instance.transactions_undone();
    let begun = |id: u64| {
        let open = sessions.iter().filter_map(|session| session.transaction.as_ref());
        let of_sessions = open.filter(|open| open.transaction.id() == id).map(|open| open.begun);
        let of_recovery = undone.iter().filter(|undone| undone.transaction == id).map(|undone| undone.since);
        of_sessions.chain(of_recovery).next().map(datetime)
    };
    let lsn = |position: Lsn| if position == Lsn(0) { NULL } else { Value::Decimal(i128::from(position.0)) };
    let mut rows = Vec::new();
    for database in open_databases(sources) {
        let Some(log) = database.storage().log() else { continue };
        for chain in log.open_chains() {
            rows.push(row![
                chain.transaction,
                database.id().0,
                begun(chain.transaction),
                READ_WRITE,
                HAS_LOGGED,
                0,
                0,
                chain.records,
                0,
                chain.bytes,
                chain.reserved_bytes,
                0,
                0,
                lsn(chain.first),
                lsn(chain.last),
                NULL,
                NULL,
                NULL,
                lsn(chain.last)
            ]);
        }
    }
    Ok(rows)
}
