//! Checks that the values of rows are valid for their types, and that rows are in the partition where they belong.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hobt_access::{AccessError, Hobt, LargeValues, RowStore};
use hobt_base::PageId;
use hobt_catalog::{IndexKind, LeafColumn, PartitionFunction, Table, check_value_bytes, value_from_bytes};
use hobt_page::{PageHeader, PageType, RowPage, StoredValue};
use hobt_types::SqlType;

use super::{DatabaseCheck, Owner, Problem};
use crate::error::Result;

/// A column of the rows of a heap or index.
struct StoredColumn {
    name: String,
    sql_type: SqlType,
}

/// Decides in which partition rows belong.
struct Belonging {
    column: usize,
    function: Arc<PartitionFunction>,
    /// The partition that is checked, from 0.
    partition: usize,
}

/// The columns of the rows of one of a table's heaps or indexes.
fn stored_columns(table: &Table, place: usize) -> Vec<StoredColumn> {
    let index = &table.indexes[place];
    let Some(leaf) = table.index_leaf(index).filter(|_| index.kind != IndexKind::Heap) else {
        let columns = table.columns.iter();
        return columns.map(|column| StoredColumn { name: column.name.clone(), sql_type: column.sql_type }).collect();
    };
    let column = |column: &LeafColumn| StoredColumn {
        name: match column {
            LeafColumn::Table(place) => table.columns[*place].name.clone(),
            hidden => format!("{hidden:?}"),
        },
        sql_type: column.sql_type(table),
    };
    leaf.columns.iter().map(column).collect()
}

impl DatabaseCheck<'_> {
    /// Checks the rows of one partition of an index, given by the index's `place` and the partition's number. Damaged
    /// pages are skipped: they were reported before.
    pub(super) fn values(
        &mut self,
        table: &Table,
        (place, partition): (usize, usize),
        store: &RowStore,
        owner: &Owner,
    ) -> Result<()> {
        let columns = stored_columns(table, place);
        let index = &table.indexes[place];
        let belonging = self.snapshot.partitioning_of(&index.data_space).filter(|_| place == 0);
        let belonging = belonging.map(|(column, function)| {
            let function = Arc::clone(function);
            Belonging { column, function, partition }
        });
        let hobt = store.hobt();
        for run in hobt.runs() {
            for number in run.row_pages() {
                if self.cancelled.load(Ordering::Relaxed) {
                    return Err(self.database.storage_error(AccessError::Cancelled));
                }
                self.progress.add(1);
                let id = PageId::new(run.first.file, number);
                for problem in self.page_values(hobt, id, &columns, belonging.as_ref())? {
                    self.note(problem, owner);
                }
            }
        }
        Ok(())
    }

    /// The problems in the rows of a page: the first bad value of each column, and the first row of another partition.
    fn page_values(
        &self,
        hobt: &Arc<Hobt>,
        id: PageId,
        columns: &[StoredColumn],
        belonging: Option<&Belonging>,
    ) -> Result<Vec<Problem>> {
        let failed = |error| self.database.storage_error(error);
        let file = hobt.storage().file(id.file).map_err(failed)?;
        let Ok(bytes) = file.pool_file().read(id.number) else { return Ok(Vec::new()) };
        // A copy: values on pages of their own are read without a latch on the page of the row.
        let bytes = Box::new(*bytes);
        if PageHeader::read(&bytes).is_ok_and(|header| header.page_type != PageType::Row) {
            return Ok(Vec::new());
        }
        let Ok(page) = RowPage::open(&bytes, hobt.row_layout()) else { return Ok(Vec::new()) };
        let live = || (0..page.row_count()).filter(|&slot| !page.is_deleted(slot));
        let mut problems = Vec::new();
        for (column, described) in columns.iter().enumerate().take(hobt.row_layout().columns().len()) {
            for slot in live() {
                let is_legal = match page.stored(column, slot) {
                    Ok(StoredValue::InRow(bytes)) => check_value_bytes(described.sql_type, bytes).is_ok(),
                    Ok(StoredValue::Pointer(pointer)) => match hobt.fetch(&pointer) {
                        Ok(bytes) => check_value_bytes(described.sql_type, &bytes).is_ok(),
                        Err(error @ AccessError::Disk(_)) => return Err(failed(error)),
                        Err(_) => true,
                    },
                    Ok(StoredValue::Null) | Err(_) => true,
                };
                if !is_legal {
                    let (column, sql_type) = (described.name.clone(), described.sql_type);
                    problems.push(Problem::Value { page: id, slot, column, sql_type });
                    break;
                }
            }
        }
        let misplaced = belonging.and_then(|belonging| misplaced_row(&page, columns, belonging, live()));
        problems.extend(misplaced.map(|(slot, expected)| Problem::Partition {
            page: id,
            slot,
            found: belonging.map_or(0, |belonging| belonging.partition + 1),
            expected: expected + 1,
        }));
        Ok(problems)
    }
}

/// The first row of a page that belongs in another partition, and the number of that partition, from 0.
fn misplaced_row(
    page: &RowPage<'_>,
    columns: &[StoredColumn],
    belonging: &Belonging,
    mut slots: impl Iterator<Item = usize>,
) -> Option<(usize, usize)> {
    let sql_type = columns.get(belonging.column)?.sql_type;
    slots.find_map(|slot| {
        let value = value_from_bytes(sql_type, page.value(belonging.column, slot).ok()?).ok()?;
        let expected = belonging.function.partition_of(&value);
        (expected != belonging.partition).then_some((slot, expected))
    })
}
