//! Indexes, their columns, the constraints that they enforce, and statistics of their trees.

use hobt_access::{RowStore, TreeFigures};
use hobt_base::{DatabaseId, SqlError, errors, number};
use hobt_catalog::{DataSpace, Index, IndexKind, KeyConstraint, Partition, Table};
use hobt_engine::DatabaseUse;
use hobt_interpreter::ViewContext;
use hobt_types::{MaxLength, SqlType, Value};

use crate::catalog::{object, sorted_tables};
use crate::value::{NULL, milliseconds_of, row};
use crate::{Definition, Rows, Sources};

/// Gets each partition of an index, with the values that identify it.
type ShowPartition<'a> = dyn FnMut(&DatabaseUse, &Index, &RowStore, Vec<Value>) -> Result<(), SqlError> + 'a;

pub(super) static VIEWS: &[Definition] = &[
    Definition::sys(
        "indexes",
        "object_id int!, name sysname, index_id int!, type tinyint!, type_desc nvarchar(60), is_unique bit, \
         data_space_id int, ignore_dup_key bit, is_primary_key bit, is_unique_constraint bit, fill_factor tinyint!, \
         is_padded bit, is_disabled bit, is_hypothetical bit, is_ignored_in_optimization bit, allow_row_locks bit, \
         allow_page_locks bit, has_filter bit, filter_definition nvarchar(max), compression_delay int, \
         suppress_dup_key_messages bit, auto_created bit, optimize_for_sequential_key bit",
        indexes,
    ),
    Definition::sys(
        "index_columns",
        "object_id int!, index_id int!, index_column_id int!, column_id int!, key_ordinal tinyint!, \
         partition_ordinal tinyint!, is_descending_key bit, is_included_column bit, column_store_order_ordinal tinyint!",
        index_columns,
    ),
    Definition::sys(
        "key_constraints",
        "name sysname!, object_id int!, principal_id int, schema_id int!, parent_object_id int!, type char(2), \
         type_desc nvarchar(60), create_date datetime!, modify_date datetime!, is_ms_shipped bit!, is_published bit!, \
         is_schema_published bit!, unique_index_id int, is_system_named bit!, is_enforced bit!",
        key_constraints,
    ),
    Definition::function(
        "dm_db_index_physical_stats",
        &[SqlType::SmallInt, SqlType::Int, SqlType::Int, SqlType::Int, SqlType::NVarChar(MaxLength::Limited(20))],
        "database_id smallint, object_id int, index_id int, partition_number int, index_type_desc nvarchar(60), \
         alloc_unit_type_desc nvarchar(60), index_depth tinyint, index_level tinyint, avg_fragmentation_in_percent float, \
         fragment_count bigint, avg_fragment_size_in_pages float, page_count bigint, \
         avg_page_space_used_in_percent float, record_count bigint, ghost_record_count bigint, \
         version_ghost_record_count bigint, min_record_size_in_bytes int, max_record_size_in_bytes int, \
         avg_record_size_in_bytes float, forwarded_record_count bigint, compressed_page_count bigint, hobt_id bigint!",
        physical_stats,
    ),
    Definition::function(
        "dm_db_index_operational_stats",
        &[SqlType::SmallInt, SqlType::Int, SqlType::Int, SqlType::Int],
        "database_id smallint!, object_id int!, index_id int!, partition_number int!, hobt_id bigint!, \
         leaf_insert_count bigint!, leaf_delete_count bigint!, leaf_update_count bigint!, leaf_ghost_count bigint!, \
         leaf_allocation_count bigint!, nonleaf_allocation_count bigint!, leaf_page_merge_count bigint!, \
         range_scan_count bigint!, row_lock_count bigint!, row_lock_wait_count bigint!, row_lock_wait_in_ms bigint!, \
         page_lock_count bigint!, page_lock_wait_count bigint!, page_lock_wait_in_ms bigint!, \
         index_lock_promotion_attempt_count bigint!, index_lock_promotion_count bigint!, page_latch_wait_count bigint!, \
         page_latch_wait_in_ms bigint!, page_io_latch_wait_count bigint!, page_io_latch_wait_in_ms bigint!, \
         tree_page_latch_wait_count bigint!, tree_page_latch_wait_in_ms bigint!, tree_page_io_latch_wait_count bigint!, \
         tree_page_io_latch_wait_in_ms bigint!",
        operational_stats,
    ),
];

/// `type` and `type_desc` of an index.
fn index_type(index: &Index) -> (u8, &'static str) {
    match index.kind {
        IndexKind::Heap => (0, "HEAP"),
        IndexKind::Clustered => (1, "CLUSTERED"),
        IndexKind::Nonclustered => (2, "NONCLUSTERED"),
    }
}

fn indexes(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let snapshot = context.database.snapshot();
    let mut rows = Vec::new();
    for table in sorted_tables(&snapshot) {
        for index in &table.indexes {
            let (kind, description) = index_type(index);
            let options = &index.options;
            let keeps = |is_primary| index.constraint.is_some_and(|constraint| constraint.is_primary == is_primary);
            rows.push(row![
                table.id.0,
                index.name.clone(),
                index.id.0,
                kind,
                description,
                options.is_unique,
                super::storage::data_space_id(&index.data_space),
                options.ignores_duplicates,
                keeps(true),
                keeps(false),
                options.fill_factor,
                options.is_padded,
                options.is_disabled,
                false,
                false,
                options.allows_row_locks,
                options.allows_page_locks,
                false,
                NULL,
                NULL,
                false,
                false,
                options.is_sequential
            ]);
        }
    }
    Ok(rows)
}

fn index_columns(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let snapshot = context.database.snapshot();
    let mut rows = Vec::new();
    for table in sorted_tables(&snapshot) {
        for index in &table.indexes {
            let partitioning = match index.data_space {
                DataSpace::Scheme { column, .. } => Some(column),
                DataSpace::Filegroup(_) => None,
            };
            let mut next = 1;
            let mut add = |column: usize, key_ordinal: usize, descending: bool, included: bool| {
                rows.push(row![
                    table.id.0,
                    index.id.0,
                    next,
                    table.columns[column].id,
                    key_ordinal,
                    i32::from(partitioning == Some(column)),
                    descending,
                    included,
                    0
                ]);
                next += 1;
            };
            for (part, ordinal) in index.key.iter().zip(1..) {
                add(part.column, ordinal, part.is_descending, false);
            }
            for &column in &index.included {
                add(column, 0, false, true);
            }
            let is_there =
                |column: &usize| index.key.iter().any(|part| part.column == *column) || index.included.contains(column);
            if let Some(column) = partitioning.filter(|column| !is_there(column)) {
                add(column, 0, false, false);
            }
        }
    }
    Ok(rows)
}

/// The indexes of a table that enforce a constraint, with their names and constraints.
pub(super) fn keys(table: &Table) -> impl Iterator<Item = (&str, &Index, KeyConstraint)> {
    table.indexes.iter().filter_map(|index| Some((index.name.as_deref()?, index, index.constraint?)))
}

/// `type` of `sys.objects`.
pub(super) fn key_letters(constraint: KeyConstraint) -> &'static str {
    if constraint.is_primary { "PK" } else { "UQ" }
}

fn key_constraints(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let snapshot = context.database.snapshot();
    let mut rows = Vec::new();
    for table in sorted_tables(&snapshot) {
        for (name, index, constraint) in keys(table) {
            let letters = key_letters(constraint);
            let mut row = object(name, constraint.id.0, table.schema, table.id.0, letters, table.created, false);
            row.extend(row![index.id.0, constraint.is_system_named, true]);
            rows.push(row);
        }
    }
    Ok(rows)
}

/// The scan mode of `sys.dm_db_index_physical_stats`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Limited,
    Sampled,
    Detailed,
}

/// The arguments of `sys.dm_db_index_physical_stats`; `None` means all.
struct Wanted {
    database: Option<i64>,
    object: Option<i64>,
    index: Option<i64>,
    partition: Option<i64>,
    mode: Mode,
}

impl Wanted {
    /// # Errors
    /// 2573 the database does not exist, 2591 the mode is invalid.
    fn of(arguments: &[Value]) -> Result<Wanted, SqlError> {
        // NULL and 0 mean all. For indexes 0 is the heap, and -1 means all.
        let given = |at: usize, all: i64| match arguments.get(at) {
            Some(Value::Int(number)) if *number != all => Some(*number),
            _ => None,
        };
        let mode = match arguments.get(4) {
            None | Some(Value::Null) => Mode::Limited,
            Some(Value::Text(text)) => match text.to_uppercase().as_str() {
                "" | "DEFAULT" | "LIMITED" => Mode::Limited,
                "SAMPLED" => Mode::Sampled,
                "DETAILED" => Mode::Detailed,
                other => return Err(invalid_mode(other)),
            },
            Some(_) => return Err(invalid_mode("?")),
        };
        Ok(Wanted { database: given(0, 0), object: given(1, 0), index: given(2, -1), partition: given(3, 0), mode })
    }

    fn has(&self, table: &Table, index: &Index, partition: &Partition) -> bool {
        let is = |wanted: Option<i64>, id: i64| wanted.is_none_or(|wanted| wanted == id);
        is(self.object, i64::from(table.id.0))
            && is(self.index, i64::from(index.id.0))
            && is(self.partition, i64::from(partition.number.0))
    }
}

fn invalid_mode(given: &str) -> SqlError {
    errors::INVALID_STATISTICS_MODE.with([&given])
}

/// Visits the databases that are open, or the one with this id.
///
/// # Errors
/// 2573 the database does not exist; what `look` returns.
pub(super) fn for_each_database(
    sources: &Sources,
    context: &ViewContext,
    wanted: Option<i64>,
    look: &mut dyn FnMut(&DatabaseUse) -> Result<(), SqlError>,
) -> Result<(), SqlError> {
    match wanted {
        Some(id) if id == i64::from(context.database.id().0) => look(&context.database),
        Some(id) => {
            let missing = || errors::DATABASE_ID_NOT_FOUND.with([&id]);
            let id = DatabaseId(u16::try_from(id).map_err(|_| missing())?);
            look(&sources.instance.database_by_id(id).map_err(|_| missing())?)
        }
        None => sources.instance.databases().into_iter().try_for_each(|database| {
            match sources.instance.database_by_id(database.id) {
                Ok(used) if used.id() == context.database.id() => look(&context.database),
                Ok(used) => look(&used),
                // A database that is offline or gone is skipped.
                Err(_) => Ok(()),
            }
        }),
    }
}

/// Visits the requested heaps and trees, each with its database, object, index and partition.
fn for_each_store(
    sources: &Sources,
    context: &ViewContext,
    wanted: &Wanted,
    show: &mut ShowPartition<'_>,
) -> Result<(), SqlError> {
    let mut look = |database: &DatabaseUse| -> Result<(), SqlError> {
        let snapshot = database.snapshot();
        for table in sorted_tables(&snapshot).into_iter().filter(|table| !table.is_system) {
            for index in &table.indexes {
                for partition in index.partitions.iter().filter(|partition| wanted.has(table, index, partition)) {
                    let store = match database.store_to_read(partition.hobt).map_err(|error| error.to_sql_error()) {
                        Ok(store) => store,
                        // Dropped since the snapshot was taken.
                        Err(error) if error.number == number::INVALID_OBJECT => continue,
                        Err(error) => return Err(error),
                    };
                    show(database, index, &store, row![database.id().0, table.id.0, index.id.0, partition.number.0])?;
                }
            }
        }
        Ok(())
    };
    for_each_database(sources, context, wanted.database, &mut look)
}

fn operational_stats(sources: &Sources, context: &ViewContext, arguments: &[Value]) -> Rows {
    let mut rows = Vec::new();
    for_each_store(sources, context, &Wanted::of(arguments)?, &mut |database, _, store, mut row| {
        let hobt = store.hobt();
        let counts = hobt.operations();
        let locks = sources.instance.locks().hobt_locks(database.id(), hobt.id());
        let waits = database.storage().pool().page_waits(database.id(), hobt.id());
        row.extend(row![
            hobt.id().0,
            counts.leaf_inserts,
            counts.leaf_deletes,
            counts.leaf_updates,
            counts.leaf_ghosts,
            counts.leaf_allocations,
            counts.nonleaf_allocations,
            counts.leaf_merges,
            counts.range_scans,
            locks.rows.count,
            locks.rows.waits,
            milliseconds_of(locks.rows.wait_ns),
            locks.pages.count,
            locks.pages.waits,
            milliseconds_of(locks.pages.wait_ns),
            locks.promotion_attempts,
            locks.promotions
        ]);
        for total in [waits.latch, waits.io, waits.tree_latch, waits.tree_io] {
            row.extend(row![total.count, milliseconds_of(total.ns)]);
        }
        rows.push(row);
        Ok(())
    })?;
    Ok(rows)
}

fn physical_stats(sources: &Sources, context: &ViewContext, arguments: &[Value]) -> Rows {
    let wanted = Wanted::of(arguments)?;
    let mut rows = Vec::new();
    for_each_store(sources, context, &wanted, &mut |database, index, store, mut place| {
        place.extend(row![type_of_stats(index)]);
        rows.extend(store_stats(database, store, &place, wanted.mode)?);
        Ok(())
    })?;
    Ok(rows)
}

fn type_of_stats(index: &Index) -> &'static str {
    match index.kind {
        IndexKind::Heap => "HEAP",
        IndexKind::Clustered => "CLUSTERED INDEX",
        IndexKind::Nonclustered => "NONCLUSTERED INDEX",
    }
}

/// The rows of one heap or tree: for a tree those of its leaves, and with `DETAILED` those of each level above.
fn store_stats(database: &DatabaseUse, store: &RowStore, place: &[Value], mode: Mode) -> Rows {
    let hobt = store.hobt();
    let mut rows = Vec::new();
    let mut add = |cells: Vec<Value>| {
        let mut row = place.to_vec();
        row.extend(cells);
        row.extend(row![hobt.id().0]);
        rows.push(row);
    };
    match store {
        RowStore::Heap(heap) => {
            let (pages, runs) = (heap.data_pages(), heap.runs().len() as u64);
            let detailed = mode != Mode::Limited;
            add(row![
                "IN_ROW_DATA",
                1,
                0,
                percent(runs.saturating_sub(1), pages.saturating_sub(1)),
                runs,
                ratio(pages, runs),
                pages,
                NULL,
                detailed.then(|| heap.row_count()),
                detailed.then_some(0),
                detailed.then_some(0),
                NULL,
                NULL,
                NULL,
                detailed.then_some(0),
                0
            ]);
        }
        RowStore::Tree(tree) => {
            let figures = tree.figures().map_err(|error| database.storage_error(error).to_sql_error())?;
            let levels = if mode == Mode::Detailed { figures.depth() } else { 1 };
            for level in 0..levels {
                add(level_cells(&figures, level, mode));
            }
        }
    }
    let (lob_used, _) = hobt.large_value_pages();
    if lob_used > 0 {
        add(row!["LOB_DATA", 1, 0, 0.0, NULL, NULL, lob_used, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL]);
    }
    Ok(rows)
}

/// The figures of one level of a tree.
fn level_cells(figures: &TreeFigures, level: usize, mode: Mode) -> Vec<Value> {
    let pages = figures.pages[level];
    if level > 0 {
        let below = figures.pages[level - 1];
        return row![
            "IN_ROW_DATA",
            figures.depth(),
            level,
            0.0,
            NULL,
            NULL,
            pages,
            NULL,
            below,
            0,
            0,
            NULL,
            NULL,
            NULL,
            NULL,
            0
        ];
    }
    let detailed = mode != Mode::Limited;
    let fragments = figures.fragments + 1;
    row![
        "IN_ROW_DATA",
        figures.depth(),
        0,
        figures.fragmentation() * 100.0,
        fragments,
        ratio(pages, fragments),
        pages,
        detailed.then(|| figures.fill() * 100.0),
        detailed.then_some(figures.rows),
        detailed.then_some(figures.ghosts),
        detailed.then_some(0),
        NULL,
        NULL,
        detailed.then(|| ratio(figures.leaf_bytes, (figures.rows + figures.ghosts).max(1))),
        NULL,
        0
    ]
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * ratio(part, whole.max(1))
}

/// Counts of pages and bytes are far below 2^52.
fn ratio(dividend: u64, divisor: u64) -> f64 {
    if divisor == 0 { 0.0 } else { dividend as f64 / divisor as f64 }
}
