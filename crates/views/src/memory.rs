//! Memory: clerks, the buffer pool's pages, memory grants of statements' operators.

use hobt_base::PAGE_SIZE;
use hobt_engine::{ExtensionDescription, time_of_day};
use hobt_operators::SemaphoreShown;
use hobt_page::PageType;
use hobt_types::Value;

use crate::execution::text_handle;
use crate::storage::allocation_unit_id;
use crate::value::{NULL, datetime, int, row};
use crate::{Definition, Sources};

pub(super) static VIEWS: &[Definition] = &[
    Definition::sys(
        "dm_os_memory_clerks",
        "memory_clerk_address varbinary(8)!, type nvarchar(60)!, name nvarchar(256)!, memory_node_id smallint!, \
         pages_kb bigint!, virtual_memory_reserved_kb bigint!, virtual_memory_committed_kb bigint!, \
         awe_allocated_kb bigint!, shared_memory_reserved_kb bigint!, shared_memory_committed_kb bigint!, \
         page_size_in_bytes bigint!, page_allocator_address varbinary(8), host_address varbinary(8), \
         parent_memory_broker_type nvarchar(60)",
        |sources, _, _| Ok(memory_clerks(sources)),
    ),
    Definition::sys(
        "dm_os_buffer_descriptors",
        "database_id int, file_id int, page_id int, page_level int, allocation_unit_id bigint, page_type nvarchar(60), \
         row_count int, free_space_in_bytes int, is_modified bit, numa_node int, read_microsec bigint, \
         is_in_bpool_extension bit",
        |sources, _, _| {
            let mut rows: Vec<Vec<Value>> = Vec::new();
            rows.extend(sources.instance.pool().descriptors().map(|page| {
                let kind = page.page_type.map(PageType::name);
                let is_large_value = page.page_type == Some(PageType::LargeValue);
                let unit = page.hobt.map(|hobt| allocation_unit_id(hobt, is_large_value));
                row![
                    page.database.0,
                    page.page.file.0,
                    i64::from(page.page.number as i32),
                    page.level,
                    unit,
                    kind,
                    page.row_count,
                    NULL,
                    page.dirty,
                    0,
                    NULL,
                    false
                ]
            }));
            // What a copy has inside is on the extension's device.
            sources.instance.pool().visit_extension(|database, page| {
                let number = i64::from(page.number as i32);
                let mut row = row![database.0, page.file.0, number, NULL, NULL, NULL, NULL, NULL];
                row.extend(row![false, 0, NULL, true]);
                rows.push(row);
            });
            Ok(rows)
        },
    ),
    Definition::sys(
        "dm_os_buffer_pool_extension_configuration",
        "path nvarchar(256), file_id int!, state int!, state_description nvarchar(60), current_size_in_kb bigint!, \
         hobt_pages bigint!, hobt_copies bigint!, hobt_pages_read bigint!, hobt_pages_written bigint!, \
         hobt_pages_skipped bigint!, hobt_pages_evicted bigint!, hobt_pages_damaged bigint!, \
         hobt_failure nvarchar(4000)",
        |sources, _, _| Ok(vec![extension(sources)]),
    ),
    Definition::sys(
        "dm_exec_query_memory_grants",
        "session_id smallint, request_id int, scheduler_id int, dop smallint, request_time datetime, \
         grant_time datetime, requested_memory_kb bigint, granted_memory_kb bigint, required_memory_kb bigint, \
         used_memory_kb bigint, max_used_memory_kb bigint, query_cost float, timeout_sec int, \
         resource_semaphore_id smallint, queue_id smallint, wait_order int, is_next_candidate bit, wait_time_ms bigint, \
         plan_handle varbinary(64), sql_handle varbinary(64), group_id int, pool_id int, is_small bit, \
         ideal_memory_kb bigint",
        |sources, _, _| Ok(memory_grants(sources)),
    ),
    Definition::sys(
        "dm_exec_query_resource_semaphores",
        "resource_semaphore_id smallint!, target_memory_kb bigint, max_target_memory_kb bigint, total_memory_kb bigint, \
         available_memory_kb bigint, granted_memory_kb bigint, used_memory_kb bigint, grantee_count int, \
         waiter_count int, timeout_error_count bigint, forced_grant_count bigint, pool_id int!",
        |_, context, _| Ok(vec![semaphore(context.semaphore.shown())]),
    ),
];

/// The buffer pool extension. One whose device has failed is disabled, and says why.
fn extension(sources: &Sources) -> Vec<Value> {
    let Some(ExtensionDescription { path, bytes, statistics: all }) = sources.instance.buffer_pool_extension() else {
        let mut row = row![NULL, 0, 0, "BUFFER POOL EXTENSION DISABLED", 0];
        row.extend(row![0, 0, 0, 0, 0, 0, 0, NULL]);
        return row;
    };
    let (state, description) = match all.failed {
        None => (5, "BUFFER POOL EXTENSION ENABLED"),
        Some(_) => (0, "BUFFER POOL EXTENSION DISABLED"),
    };
    let mut row = row![path.display().to_string(), 1, state, description, int(bytes / 1024)];
    row.extend(row![int(u64::from(all.pages)), int(u64::from(all.copies)), all.pages_read, all.pages_written]);
    row.extend(row![all.pages_skipped, all.pages_evicted, all.pages_damaged, all.failed]);
    row
}

/// A row for each statement whose operators keep rows: those that run, and those that wait for their memory grant, in
/// order of arrival.
fn memory_grants(sources: &Sources) -> Vec<Vec<Value>> {
    let kilobytes = |bytes: u64| int(bytes.div_ceil(1024));
    let mut asked: Vec<_> = sources
        .registry
        .all()
        .into_iter()
        .filter_map(|session| {
            let request = session.request.as_ref()?;
            let run = request.run.upgrade()?;
            Some((run.memory()?, session.id.0, run.degree(), text_handle(&request.text)))
        })
        .collect();
    asked.sort_by_key(|(memory, ..)| memory.asked_at);
    let mut waiting = 0..;
    let grants = asked.into_iter().map(|(memory, session, degree, text)| {
        let place = if memory.granted_at.is_none() { waiting.next() } else { None };
        let granted = memory.granted_at.map(|_| kilobytes(memory.granted));
        // In 100 ns.
        let waited = place.map(|_| (time_of_day() - memory.asked_at).max(0) / 10_000);
        let mut row = row![session, 0, NULL, int(degree as u64), datetime(memory.asked_at)];
        row.extend(row![memory.granted_at.map(datetime), kilobytes(memory.ideal), granted, kilobytes(memory.least)]);
        let held = memory.granted_at.map(|_| [memory.held, memory.held_most].map(kilobytes));
        row.extend(row![held.map(|held| held[0]), held.map(|held| held[1]), NULL, NULL]);
        row.extend(row![0, place.map(|_| 0), place, place.map(|place| place == 0), waited]);
        row.extend(row![NULL, text, 1, 1, false, kilobytes(memory.ideal)]);
        row
    });
    grants.collect()
}

/// All statements wait in one queue, the small ones too, without a timeout.
fn semaphore(shown: SemaphoreShown) -> Vec<Value> {
    let kilobytes = |bytes: u64| int(bytes / 1024);
    let SemaphoreShown { total, available, granted, used, grantees, waiters, forced } = shown;
    let mut row = row![0, kilobytes(total), kilobytes(total), kilobytes(total), kilobytes(available)];
    row.extend(row![kilobytes(granted), kilobytes(used)]);
    row.extend(row![grantees, waiters, 0, forced, 1]);
    row
}

/// A row for each account name. Their pages add up to the memory that the instance uses: `committed_kb` of
/// `sys.dm_os_sys_info`.
fn memory_clerks(sources: &Sources) -> Vec<Vec<Value>> {
    let pool = sources.instance.pool().statistics();
    let mut clerks = Vec::new();
    for (name, bytes) in sources.instance.memory().clerks() {
        let kind = match name {
            "Buffer pool" => {
                let pages = (pool.frames - pool.free) * PAGE_SIZE as u64;
                clerks.push(("MEMORYCLERK_SQLBUFFERPOOL", "Default", pages));
                clerks.push(("MEMORYCLERK_SQLBUFFERPOOL", "Free pages", bytes.saturating_sub(pages)));
                continue;
            }
            "Buffer pool extension" => "MEMORYCLERK_SQLBUFFERPOOL",
            "Row versions" | "Rebuilt pages" => "MEMORYCLERK_SQLSTORENG",
            "Transactions" => "MEMORYCLERK_XACT",
            "Operators" => "MEMORYCLERK_SQLQERESERVATIONS",
            _ => "MEMORYCLERK_SQLQUERYEXEC",
        };
        clerks.push((kind, name, bytes));
    }
    clerks.push(("MEMORYCLERK_SQLSTORENG", "State words of pages", pool.state_word_bytes));
    let row = |((kind, name, bytes), address): ((&str, &str, u64), u8)| {
        let address = Value::Binary(vec![0, 0, 0, 0, 0, 0, 0, address]);
        // The columns for memory reserved or committed other than in pages are 0, because it would be added to the
        // pages.
        let mut row = row![address, kind, name, 0, bytes.div_ceil(1024), 0, 0, 0, 0, 0, PAGE_SIZE];
        row.extend(std::iter::repeat_n(NULL, 3));
        row
    };
    clerks.into_iter().zip(1..).map(row).collect()
}

/// The memory that the instance uses, in bytes.
pub(super) fn used_bytes(sources: &Sources) -> u64 {
    sources.instance.memory().used() + sources.instance.pool().statistics().state_word_bytes
}
