//! Sessions, requests, operators, schedulers and counters.

use std::sync::Arc;
use std::time::Duration;

use hobt_access::DataFile;
use hobt_base::{DatabaseId, PAGE_SIZE};
use hobt_engine::{
    DatabaseUse, ExtensionStatistics, LogDescription, RECOVERED_SESSION, RecoveringDatabase, UndoneTransaction,
    time_of_day,
};
use hobt_instruments::processor;
use hobt_interpreter::{TableReads, ViewContext, sql_handle};
use hobt_operators::WORKER_THREAD;
use hobt_planner::running_plan;
use hobt_table::{OperatorProfile, StatementRun};
use hobt_tsql::ast::{IsolationLevel, SwitchOption};
use hobt_types::Value;

use crate::registry::Connected;
use crate::value::{NULL, datetime, int, milliseconds, padded, row};
use crate::{Definition, Rows, Sources};

pub(super) static VIEWS: &[Definition] = &[
    Definition::sys(
        "dm_exec_sessions",
        "session_id smallint!, login_time datetime!, host_name nvarchar(128), program_name nvarchar(128), \
         host_process_id int, client_version int, client_interface_name nvarchar(32), security_id varbinary(85)!, \
         login_name nvarchar(128)!, nt_domain nvarchar(128), nt_user_name nvarchar(128), status nvarchar(30)!, \
         context_info varbinary(128), cpu_time int!, memory_usage int!, total_scheduled_time int!, \
         total_elapsed_time int!, endpoint_id int!, last_request_start_time datetime!, last_request_end_time datetime, \
         reads bigint!, writes bigint!, logical_reads bigint!, is_user_process bit!, text_size int!, \
         language nvarchar(128), date_format nvarchar(3), date_first smallint!, quoted_identifier bit!, arithabort bit!, \
         ansi_null_dflt_on bit!, ansi_defaults bit!, ansi_warnings bit!, ansi_padding bit!, ansi_nulls bit!, \
         concat_null_yields_null bit!, transaction_isolation_level smallint!, lock_timeout int!, deadlock_priority int!, \
         row_count bigint!, prev_error int!, original_security_id varbinary(85)!, original_login_name nvarchar(128)!, \
         last_successful_logon datetime, last_unsuccessful_logon datetime, unsuccessful_logons bigint, group_id int!, \
         database_id smallint!, authenticating_database_id int, open_transaction_count int!",
        |sources, _, _| Ok(sources.registry.all().iter().map(|session| session_row(sources, session)).collect()),
    ),
    Definition::sys(
        "dm_exec_requests",
        "session_id smallint!, request_id int!, start_time datetime!, status nvarchar(30)!, command nvarchar(32)!, \
         sql_handle varbinary(64), statement_start_offset int, statement_end_offset int, plan_handle varbinary(64), \
         database_id smallint!, user_id int!, connection_id uniqueidentifier, blocking_session_id smallint, \
         wait_type nvarchar(60), wait_time int!, last_wait_type nvarchar(60)!, wait_resource nvarchar(256)!, \
         open_transaction_count int!, open_resultset_count int!, transaction_id bigint!, context_info varbinary(128), \
         percent_complete real!, estimated_completion_time bigint!, cpu_time int!, total_elapsed_time int!, \
         scheduler_id int, task_address varbinary(8), reads bigint!, writes bigint!, logical_reads bigint!, \
         text_size int!, language nvarchar(128), date_format nvarchar(3), date_first smallint!, quoted_identifier bit!, \
         arithabort bit!, ansi_null_dflt_on bit!, ansi_defaults bit!, ansi_warnings bit!, ansi_padding bit!, \
         ansi_nulls bit!, concat_null_yields_null bit!, transaction_isolation_level smallint!, lock_timeout int!, \
         deadlock_priority int!, row_count bigint!, prev_error int!, nest_level int!, granted_query_memory int!, \
         executing_managed_code bit!, group_id int!, query_hash varbinary(8), query_plan_hash varbinary(8), \
         statement_sql_handle varbinary(64), statement_context_id bigint, dop int!, parallel_worker_count int, \
         external_script_request_id uniqueidentifier",
        requests,
    ),
    Definition::sys(
        "hobt_sql_texts",
        "sql_handle varbinary(64)!, dbid smallint, objectid int, number smallint, encrypted bit!, text nvarchar(max)",
        sql_texts,
    ),
    Definition::sys(
        "dm_exec_query_profiles",
        "session_id smallint, request_id int, sql_handle varbinary(64), plan_handle varbinary(64), \
         physical_operator_name nvarchar(256), node_id int, thread_id int, task_address varbinary(8), row_count bigint, \
         rewind_count bigint, rebind_count bigint, end_of_scan_count bigint, estimate_row_count bigint, \
         first_active_time bigint, last_active_time bigint, open_time bigint, first_row_time bigint, \
         last_row_time bigint, close_time bigint, elapsed_time_ms bigint, cpu_time_ms bigint, database_id smallint, \
         object_id int, index_id int, scan_count bigint, logical_read_count bigint, physical_read_count bigint, \
         read_ahead_count bigint, write_page_count bigint, lob_logical_read_count bigint, \
         lob_physical_read_count bigint, lob_read_ahead_count bigint, segment_read_count int, segment_skip_count int, \
         actual_read_row_count bigint, estimated_read_row_count bigint, page_server_read_count bigint, \
         hobt_table_name nvarchar(128), hobt_grant_count bigint, hobt_is_running bit",
        query_profiles,
    ),
    Definition::sys(
        "hobt_query_filters",
        "session_id smallint!, node_id int, physical_operator_name nvarchar(256)!, table_name nvarchar(128)!, \
         filter_name nvarchar(128)!, filter_source nvarchar(60)!, filter_kind nvarchar(60), rows_removed bigint!, pages_removed bigint!, \
         pages_skipped bigint!",
        query_filters,
    ),
    Definition::sys(
        "dm_os_waiting_tasks",
        "waiting_task_address varbinary(8)!, session_id smallint, exec_context_id int, wait_duration_ms bigint, \
         wait_type nvarchar(60), resource_address varbinary(8), blocking_task_address varbinary(8), \
         blocking_session_id smallint, blocking_exec_context_id int, resource_description nvarchar(3072)",
        waiting_tasks,
    ),
    Definition::sys(
        "dm_os_schedulers",
        "scheduler_address varbinary(8)!, parent_node_id int!, scheduler_id int!, cpu_id smallint!, status nvarchar(60)!, \
         is_online bit!, is_idle bit!, preemptive_switches_count int!, context_switches_count int!, \
         idle_switches_count int!, current_tasks_count int!, runnable_tasks_count int!, current_workers_count int!, \
         active_workers_count int!, work_queue_count bigint!, pending_disk_io_count int!, load_factor int!, \
         yield_count int!, last_timer_activity bigint!, failed_to_create_worker bit!",
        schedulers,
    ),
    Definition::sys(
        "dm_os_sys_info",
        "cpu_ticks bigint!, ms_ticks bigint!, cpu_count int!, hyperthread_ratio int!, physical_memory_kb bigint!, \
         virtual_memory_kb bigint!, committed_kb bigint!, committed_target_kb bigint!, stack_size_in_bytes int!, \
         os_quantum bigint!, os_error_mode int!, os_priority_class int, max_workers_count int!, scheduler_count int!, \
         scheduler_total_count int!, deadlock_monitor_serial_number int!, sqlserver_start_time_ms_ticks bigint!, \
         sqlserver_start_time datetime!, affinity_type int!, affinity_type_desc nvarchar(60)!, \
         process_kernel_time_ms bigint!, process_user_time_ms bigint!, time_source int!, time_source_desc nvarchar(60)!",
        sys_info,
    ),
    Definition::sys(
        "dm_os_performance_counters",
        "object_name nchar(128)!, counter_name nchar(128)!, instance_name nchar(128), cntr_value bigint!, cntr_type int!",
        performance_counters,
    ),
];

pub(super) fn database_id(sources: &Sources, name: &str) -> u16 {
    sources.instance.database(name).map_or(1, |database| database.id().0)
}

/// The columns from `text_size` to `prev_error`, which sessions and requests share.
fn settings(session: &Connected) -> Vec<Value> {
    let options = &session.options;
    let no_limit = i64::from(i32::MAX);
    let wait_ms = |timeout| i64::try_from(milliseconds(timeout)).unwrap_or(no_limit).min(no_limit);
    row![
        if options.text_size < 0 { no_limit } else { options.text_size },
        &options.language,
        &options.date_format,
        i64::from(options.date_first),
        options.switch(SwitchOption::QuotedIdentifier),
        options.switch(SwitchOption::ArithAbort),
        options.switch(SwitchOption::AnsiNullDefaultOn),
        options.switch(SwitchOption::AnsiDefaults),
        options.switch(SwitchOption::AnsiWarnings),
        options.switch(SwitchOption::AnsiPadding),
        options.switch(SwitchOption::AnsiNulls),
        options.switch(SwitchOption::ConcatNullYieldsNull),
        match options.isolation {
            IsolationLevel::ReadUncommitted => 1,
            IsolationLevel::ReadCommitted => 2,
            IsolationLevel::RepeatableRead => 3,
            IsolationLevel::Serializable => 4,
            IsolationLevel::Snapshot => 5,
        },
        options.lock_timeout.map_or(-1, wait_ms),
        i64::from(options.deadlock_priority),
        session.row_count,
        0
    ]
}

fn session_row(sources: &Sources, session: &Connected) -> Vec<Value> {
    let status = if session.request.is_some() { "running" } else { "sleeping" };
    let sa = || Value::Binary(vec![1]);
    let elapsed = int(milliseconds(session.total.elapsed));
    let mut row = row![
        session.id.0,
        datetime(session.login_time),
        &session.host,
        &session.program,
        std::process::id(),
        7,
        "hobt",
        sa(),
        &session.login,
        "",
        "",
        status,
        NULL,
        int(milliseconds(session.total.cpu)),
        0,
        elapsed,
        elapsed,
        0,
        datetime(session.last_request_start),
        session.last_request_end.map(datetime),
        session.total.reads,
        0,
        session.total.logical_reads,
        true
    ];
    row.extend(settings(session));
    row.extend(row![
        sa(),
        &session.login,
        NULL,
        NULL,
        NULL,
        1,
        database_id(sources, &session.database),
        1,
        session.open_transaction_count()
    ]);
    row
}

/// The texts of running batches, and those of cached plans, each once. The latter are listed by the handles of their
/// plans too.
fn sql_texts(sources: &Sources, _: &ViewContext, _: &[Value]) -> Rows {
    let mut rows: Vec<Vec<Value>> = Vec::new();
    for session in sources.registry.all() {
        let Some(request) = &session.request else { continue };
        let handle = text_handle(&request.text);
        if !rows.iter().any(|row| row[0] == handle) {
            rows.push(row![handle, database_id(sources, &session.database), NULL, NULL, false, &request.text]);
        }
    }
    for plan in sources.plans.all() {
        for handle in [plan.sql_handle, plan.plan_handle].map(Value::Binary) {
            if !rows.iter().any(|row| row[0] == handle) {
                let object = Some(plan.procedure).filter(|id| *id != 0);
                rows.push(row![handle, plan.database.0, object, NULL, false, &*plan.text]);
            }
        }
    }
    Ok(rows)
}

/// What a session's statement waits for now.
#[derive(Default)]
pub(super) struct CurrentWait {
    pub(super) name: Option<&'static str>,
    /// The session that holds the lock.
    pub(super) blocker: i32,
    pub(super) milliseconds: u64,
    pub(super) resource: String,
}

impl CurrentWait {
    pub(super) fn of(sources: &Sources, session: &Connected) -> CurrentWait {
        if let Some(lock) = sources.instance.locks().waits().into_iter().find(|wait| wait.session == session.id) {
            return CurrentWait {
                name: Some(lock.mode.wait_type().name()),
                blocker: lock.blockers.first().map_or(0, |blocker| blocker.0),
                milliseconds: milliseconds(lock.waited),
                resource: lock.resource.to_string(),
            };
        }
        let run = session.request.as_ref().and_then(|request| request.run.upgrade());
        let name = run.and_then(|run| run.pending.wait_type()).map(|wait| wait.name());
        CurrentWait { name, ..CurrentWait::default() }
    }
}

fn requests(sources: &Sources, _: &ViewContext, _: &[Value]) -> Rows {
    let mut rows = Vec::new();
    for session in sources.registry.all() {
        let Some(request) = &session.request else { continue };
        let run = request.run.upgrade();
        let last_wait = run.as_ref().and_then(|run| run.waits.last_wait_type()).map_or("", |wait| wait.name());
        let degree = run.as_ref().map_or(1, |run| run.degree());
        let cpu = run.as_ref().map_or_else(Default::default, |run| run.worker_cpu());
        let (logical, physical) = run.as_ref().map_or((0, 0), |run| TableReads::total(&TableReads::of(run)));
        let wait = CurrentWait::of(sources, &session);
        let percent = session.progress.percent();
        let remaining = milliseconds(session.progress.left());
        let mut row = row![
            session.id.0,
            0,
            datetime(request.start_time),
            if wait.name.is_some() { "suspended" } else { "running" },
            &request.command,
            text_handle(&request.text),
            0,
            -1,
            NULL,
            database_id(sources, &session.database),
            1,
            NULL,
            wait.blocker,
            wait.name,
            wait.milliseconds,
            last_wait,
            wait.resource,
            session.open_transaction_count(),
            1,
            session.transaction.as_ref().map_or(0, |open| open.transaction.id()),
            NULL,
            percent,
            remaining,
            int(milliseconds(cpu)),
            int(milliseconds(request.started.elapsed())),
            NULL,
            NULL,
            physical,
            0,
            logical
        ];
        row.extend(settings(&session));
        // In pages.
        let granted = run.as_ref().and_then(|run| run.memory()).map_or(0, |memory| memory.granted / PAGE_SIZE as u64);
        row.extend(row![
            0,
            int(granted),
            false,
            1,
            NULL,
            NULL,
            NULL,
            NULL,
            int(degree as u64),
            int(degree as u64),
            NULL
        ]);
        rows.push(row);
    }
    rows.extend(sources.instance.databases_recovering().iter().map(recovery_request));
    rows.extend(sources.instance.transactions_undone().iter().map(undo_request));
    Ok(rows)
}

/// The undo of a transaction behind the opening of its database, as a request of the session that has its locks.
fn undo_request(undone: &UndoneTransaction) -> Vec<Value> {
    let (elapsed, left) = (undone.elapsed(), undone.left());
    startup_request((undone.database, undone.since), Some(undone.transaction), undone.percent, (elapsed, left))
}

/// The recovery of a database, as a request of the same session.
fn recovery_request(recovering: &RecoveringDatabase) -> Vec<Value> {
    let elapsed =
        Duration::from_nanos(u64::try_from(time_of_day() - recovering.since).unwrap_or(0).saturating_mul(100));
    startup_request((recovering.database, recovering.since), None, recovering.percent, (elapsed, recovering.left))
}

/// A request of command `DB STARTUP`.
fn startup_request(
    (database, since): (DatabaseId, i64),
    transaction: Option<u64>,
    percent: f64,
    (elapsed, left): (Duration, Duration),
) -> Vec<Value> {
    let (elapsed_ms, remaining) = (milliseconds(elapsed), milliseconds(left));
    let mut row = row![
        RECOVERED_SESSION.0,
        0,
        datetime(since),
        "background",
        "DB STARTUP",
        NULL,
        NULL,
        NULL,
        NULL,
        database.0,
        1,
        NULL,
        0,
        NULL,
        0,
        "",
        "",
        1,
        0,
        transaction,
        NULL,
        percent,
        remaining,
        0,
        int(elapsed_ms),
        NULL,
        NULL,
        0,
        0,
        0
    ];
    // The settings of a session: a system session has none of its own.
    row.extend(row![4096, NULL, NULL, 7, true, false, true, false, true, true, true, true, 2, -1, 0, 0, 0]);
    row.extend(row![0, 0, false, 1, NULL, NULL, NULL, NULL, 1, 1, NULL]);
    row
}

/// A handle that is the same for equal texts.
pub(super) fn text_handle(text: &str) -> Value {
    Value::Binary(sql_handle(text))
}

fn query_profiles(sources: &Sources, _: &ViewContext, _: &[Value]) -> Rows {
    let mut rows = Vec::new();
    for session in sources.registry.all() {
        let request = session.request.as_ref();
        let (operators, is_running) = operators_of(&session);
        let handle = || request.filter(|_| is_running).map(|request| text_handle(&request.text));
        for operator in &operators {
            let (workers, node) = (operator.workers(), operator.mark.number());
            let (estimated_rows, estimated_reads) = expected_of(operator, workers.len() as u64);
            for (worker, thread) in workers.iter().zip(1..) {
                let reads = worker.reads;
                let mut row = row![session.id.0, 0, handle(), NULL, operator.operator, node, thread, NULL, worker.rows];
                row.extend(row![0, 0, u8::from(!is_running), estimated_rows]);
                // The times of open, first row, last row and close are not recorded.
                row.extend(std::iter::repeat_n(NULL, 6));
                row.extend(row![
                    milliseconds(worker.elapsed),
                    milliseconds(worker.cpu),
                    operator.database.0,
                    operator.object.0,
                    i64::from(operator.index_id.0),
                    reads.map(|_| 1),
                    reads.map(|reads| reads.logical),
                    reads.map(|reads| reads.physical),
                    reads.map(|reads| reads.read_ahead),
                    0
                ]);
                row.extend(row![0, 0, 0, 0, 0, worker.rows_read, estimated_reads, 0]);
                row.extend(row![&operator.table, worker.grants, is_running]);
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

/// The estimates for each worker of an operator: rows that it returns, and rows that it reads for them. They are the
/// plan's, if the running plan was read; otherwise the operator's own.
fn expected_of(operator: &OperatorProfile, workers: u64) -> (Option<u64>, Option<u64>) {
    let (rows, reads) = operator.mark.expected();
    let of_worker = |rows: f64| (rows / workers.max(1) as f64).round() as u64;
    let own = operator.estimated_rows.map(|rows| rows / workers.max(1));
    (rows.map(of_worker).or(own), reads.map(of_worker).or(own))
}

fn query_filters(sources: &Sources, _: &ViewContext, _: &[Value]) -> Rows {
    let mut rows = Vec::new();
    for session in sources.registry.all() {
        for operator in &operators_of(&session).0 {
            for filter in operator.filters() {
                rows.push(row![
                    session.id.0,
                    operator.mark.number(),
                    operator.operator,
                    &operator.table,
                    &filter.name,
                    if filter.is_of_join { "join" } else { "condition" },
                    filter.kind,
                    filter.rows,
                    filter.pages,
                    filter.skipped_pages
                ]);
            }
        }
    }
    Ok(rows)
}

/// The operators of the statement that a session runs, or of its last one, and whether it is running.
fn operators_of(session: &Connected) -> (Vec<Arc<OperatorProfile>>, bool) {
    let running = session.request.as_ref().and_then(|request| request.run.upgrade());
    let counted = |run: Arc<StatementRun>| {
        // Reading the plan sets their numbers and estimates.
        drop(running_plan(&run));
        run.profiles()
    };
    let running = running.map(counted).filter(|operators| !operators.is_empty());
    let is_running = running.is_some();
    (running.unwrap_or_else(|| session.operators.clone()), is_running)
}

fn waiting_tasks(sources: &Sources, _: &ViewContext, _: &[Value]) -> Rows {
    let mut rows: Vec<Vec<Value>> = Vec::new();
    for session in sources.registry.all() {
        let run = session.request.as_ref().and_then(|request| request.run.upgrade());
        let Some(wait) = run.and_then(|run| run.pending.wait_type()) else { continue };
        rows.push(row![Value::Binary(vec![0; 8]), session.id.0, 0, NULL, wait.name(), NULL, NULL, NULL, NULL, NULL]);
    }
    for wait in sources.instance.locks().waits() {
        let (name, waited) = (wait.mode.wait_type().name(), milliseconds(wait.waited));
        let resource = wait.resource.waiting_description(wait.mode);
        for blocker in &wait.blockers {
            let address = || Value::Binary(vec![0; 8]);
            let session = wait.session.0;
            rows.push(row![address(), session, 0, waited, name, NULL, NULL, blocker.0, NULL, &resource]);
        }
    }
    Ok(rows)
}

/// A row for each processor. Workers are counted at the processor where their threads run or ran last.
fn schedulers(sources: &Sources, _: &ViewContext, _: &[Value]) -> Rows {
    let mask = sources.instance.runtime().affinity_mask;
    let threads = processor::threads_named(WORKER_THREAD);
    let rows = (0..processor::processor_count()).map(|processor| {
        let online = mask == 0 || processor < 64 && mask >> processor & 1 == 1;
        let status = if online { "VISIBLE ONLINE" } else { "VISIBLE OFFLINE" };
        let here = || threads.iter().filter(|thread| thread.processor == processor);
        let workers = int(here().count() as u64);
        let active = int(here().filter(|thread| thread.is_runnable).count() as u64);
        let number = int(processor as u64);
        let mut row = row![Value::Binary((processor as u64).to_be_bytes().to_vec()), 0, number, number, status, online];
        // One runs, the others wait for the processor.
        let runnable = (active - 1).max(0);
        row.extend(row![active == 0, 0, 0, 0, active, runnable, workers, active, 0, 0, active, 0, 0, false]);
        row
    });
    Ok(rows.collect())
}

fn sys_info(sources: &Sources, _: &ViewContext, _: &[Value]) -> Rows {
    let up_ms = u64::try_from((time_of_day() - sources.started) / 10_000).unwrap_or(0);
    let processors = int(processor::processor_count() as u64);
    let memory = sources.instance.memory();
    let affinity = sources.instance.runtime().affinity_mask;
    let cpu = milliseconds(processor::process_cpu_time());
    Ok(vec![row![
        up_ms,
        up_ms,
        processors,
        1,
        memory.limit() / 1024,
        memory.limit() / 1024,
        super::memory::used_bytes(sources).div_ceil(1024),
        memory.limit() / 1024,
        2_097_152,
        4,
        0,
        NULL,
        512,
        processors,
        processors,
        0,
        0,
        datetime(sources.started),
        if affinity == 0 { 2 } else { 1 },
        if affinity == 0 { "AUTO" } else { "MANUAL" },
        0,
        cpu,
        0,
        "QUERY_PERFORMANCE_COUNTER"
    ]])
}

/// A counter whose value is shown as it is.
const RAW: i64 = 65_792;
/// A counter that increases. Clients subtract two samples.
const BULK: i64 = 272_696_576;

fn performance_counters(sources: &Sources, _: &ViewContext, _: &[Value]) -> Rows {
    let pool = sources.instance.pool().statistics();
    let memory = sources.instance.memory();
    let used_kb = super::memory::used_bytes(sources).div_ceil(1024);
    let sessions = sources.registry.all().len() as u64;
    let page = PAGE_SIZE as u64;
    let buffer = "SQLServer:Buffer Manager";
    let extension = sources.instance.pool().extension_statistics();
    let extended = |count: fn(&ExtensionStatistics) -> u64| extension.as_ref().map_or(0, count);
    let counters = [
        (buffer, "Page lookups/sec", "", pool.page_hits + pool.page_misses, BULK),
        (buffer, "Page reads/sec", "", pool.page_misses + pool.pages_loaded, BULK),
        (buffer, "Readahead pages/sec", "", pool.pages_loaded, BULK),
        (buffer, "Page writes/sec", "", pool.pages_written, BULK),
        (buffer, "Database pages", "", pool.frames - pool.free, RAW),
        (buffer, "Target pages", "", pool.frames, RAW),
        (buffer, "Free pages", "", pool.free, RAW),
        (buffer, "Extension page reads/sec", "", extended(|all| all.pages_read), BULK),
        (buffer, "Extension page writes/sec", "", extended(|all| all.pages_written), BULK),
        (buffer, "Extension page evictions/sec", "", extended(|all| all.pages_evicted), BULK),
        (buffer, "Extension outstanding IO counter", "", extended(|all| all.writes), RAW),
        (buffer, "Extension allocated pages", "", extended(|all| u64::from(all.copies)), RAW),
        (buffer, "Extension free pages", "", extended(|all| u64::from(all.pages - all.copies)), RAW),
        ("SQLServer:Memory Manager", "Total Server Memory (KB)", "", used_kb, RAW),
        ("SQLServer:Memory Manager", "Target Server Memory (KB)", "", memory.limit() / 1024, RAW),
        ("SQLServer:Memory Manager", "Database Cache Memory (KB)", "", (pool.frames - pool.free) * page / 1024, RAW),
        ("SQLServer:General Statistics", "User Connections", "", sessions, RAW),
    ];
    let counter = |object: &str, counter: &str, instance: &str, value: u64, kind: i64| {
        row![padded(object, 128), padded(counter, 128), padded(instance, 128), value, kind]
    };
    let mut rows: Vec<Vec<Value>> = counters
        .into_iter()
        .map(|(object, name, instance, value, kind)| counter(object, name, instance, value, kind))
        .collect();
    let mut total = [0; DATABASE_COUNTERS.len()];
    let mut version_bytes = 0;
    for database in super::log::open_databases(sources) {
        let (memory, disk) = database.storage().versions().usage();
        version_bytes += memory + disk;
        let values = database_counters(sources, &database);
        for (((name, kind), value), total) in DATABASE_COUNTERS.into_iter().zip(values).zip(&mut total) {
            rows.push(counter(DATABASES, name, database.name(), value, kind));
            *total += value;
        }
    }
    for ((name, kind), value) in DATABASE_COUNTERS.into_iter().zip(total) {
        rows.push(counter(DATABASES, name, "_Total", value, kind));
    }
    let open = sources.registry.all().iter().filter(|session| session.transaction.is_some()).count() as u64;
    rows.push(counter("SQLServer:Transactions", "Transactions", "", open, RAW));
    rows.push(counter("SQLServer:Transactions", "Version Store Size (KB)", "", version_bytes.div_ceil(1024), RAW));
    Ok(rows)
}

/// The counter object that has an instance for each database.
const DATABASES: &str = "SQLServer:Databases";

/// The counters of a database, in the order of [`database_counters`].
const DATABASE_COUNTERS: [(&str, i64); 7] = [
    ("Data File(s) Size (KB)", RAW),
    ("Log File(s) Size (KB)", RAW),
    ("Log File(s) Used Size (KB)", RAW),
    ("Log Flushes/sec", BULK),
    ("Log Bytes Flushed/sec", BULK),
    ("Active Transactions", RAW),
    ("Transactions/sec", BULK),
];

fn database_counters(sources: &Sources, database: &DatabaseUse) -> [u64; DATABASE_COUNTERS.len()] {
    let pages = |file: &DataFile| u64::from(sources.instance.shown_pages(database.id(), file));
    let data_kb: u64 = database.storage().files().iter().map(|file| pages(file) * PAGE_SIZE as u64 / 1024).sum();
    let Some(log) = LogDescription::of(database.storage()) else { return [data_kb, 0, 0, 0, 0, 0, 0] };
    [
        data_kb,
        log.file_bytes / 1024,
        log.used_bytes / 1024,
        log.statistics.flushes,
        log.statistics.flushed_bytes,
        log.open_transactions,
        log.begun_transactions,
    ]
}
