//! Memory: clerks, the buffer pool's pages.

use hobt_base::PAGE_SIZE;
use hobt_page::PageType;

use super::Definition;
use super::value::{NULL, row};

pub(super) static VIEWS: &[Definition] = &[
    Definition::sys(
        "dm_os_memory_clerks",
        "memory_clerk_address varbinary(8)!, type nvarchar(60)!, name nvarchar(256)!, memory_node_id smallint!, \
         pages_kb bigint!, virtual_memory_reserved_kb bigint!, virtual_memory_committed_kb bigint!, \
         awe_allocated_kb bigint!, shared_memory_reserved_kb bigint!, shared_memory_committed_kb bigint!, \
         page_size_in_bytes bigint!, page_allocator_address varbinary(8), host_address varbinary(8), \
         parent_memory_broker_type nvarchar(60)",
        |sources, _, _| {
            let pool = sources.instance.pool().statistics();
            let budget = sources.instance.memory();
            let page = PAGE_SIZE as u64;
            let frames_kb = pool.frames * page / 1024;
            let words_kb = pool.state_word_bytes / 1024;
            let versions_kb = sources.instance.kept_version_bytes() / 1024;
            let others_kb = (budget.used() / 1024).saturating_sub(frames_kb + words_kb + versions_kb);
            let clerks = [
                ("MEMORYCLERK_SQLBUFFERPOOL", "Default", (pool.frames - pool.free) * page / 1024, frames_kb),
                ("MEMORYCLERK_SQLSTORENG", "State words", words_kb, words_kb),
                ("MEMORYCLERK_SQLSTORENG", "Row versions", versions_kb, versions_kb),
                ("MEMORYCLERK_SQLQUERYEXEC", "Statements", others_kb, others_kb),
            ];
            let rows = clerks.into_iter().zip(1_u8..).map(|((kind, name, used, reserved), address)| {
                row![
                    hobt_types::Value::Binary(vec![0, 0, 0, 0, 0, 0, 0, address]),
                    kind,
                    name,
                    0,
                    used,
                    reserved,
                    reserved,
                    0,
                    0,
                    0,
                    page,
                    NULL,
                    NULL,
                    NULL
                ]
            });
            Ok(rows.collect())
        },
    ),
    Definition::sys(
        "dm_os_buffer_descriptors",
        "database_id int, file_id int, page_id int, page_level int, allocation_unit_id bigint, page_type nvarchar(60), \
         row_count int, free_space_in_bytes int, is_modified bit, numa_node int, read_microsec bigint, \
         is_in_bpool_extension bit",
        |sources, _, _| {
            let rows = sources.instance.pool().descriptors().map(|page| {
                let kind = page.page_type.map(PageType::name);
                row![
                    page.database.0,
                    page.page.file.0,
                    i64::from(page.page.number as i32),
                    0,
                    NULL,
                    kind,
                    page.row_count,
                    NULL,
                    page.dirty,
                    0,
                    NULL,
                    false
                ]
            });
            Ok(rows.collect())
        },
    ),
];
