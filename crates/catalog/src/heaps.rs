//! The heaps of the system tables: reading and writing their rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64};

use hobt_access::{Hobt, Storage};
use hobt_base::{FilegroupId, PageId, SlotId};
use hobt_instruments::rank::{Rank, Ranked};
use hobt_instruments::schedule::RwLock;
use hobt_page::{RowPage, SystemHobt};
use hobt_txn::StatementContext;
use hobt_types::Value;

use crate::error::{CatalogError, damaged};
use crate::schema::Table;
use crate::system::{SystemRow, SystemTable};
use crate::value_bytes::{row_image, value_from_bytes};

/// The layout version of system tables.
const LAYOUT_VERSION: u32 = 1;

/// The system tables' heaps of one database.
pub struct SystemHeaps {
    pub(crate) heaps: Vec<SystemHeap>,
    /// Held shared while rows are read, and exclusively while a heap is written anew.
    pub(crate) readers: Ranked<RwLock<()>>,
    /// The largest number of an entry of the history; 0 before the first one is added.
    pub(crate) last_in_history: AtomicI32,
}

/// The heap of a system table.
pub(crate) struct SystemHeap {
    pub(crate) table: SystemTable,
    pub(crate) hobt: Arc<Hobt>,
    /// Its pages when it was last found to be in use for more than half, or written anew; 0 before.
    pub(crate) settled_pages: AtomicU64,
}

impl SystemHeap {
    fn new(table: SystemTable, hobt: Arc<Hobt>) -> SystemHeap {
        SystemHeap { table, hobt, settled_pages: AtomicU64::new(0) }
    }
}

impl std::fmt::Debug for SystemHeaps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SystemHeaps").field("tables", &self.heaps.len()).finish()
    }
}

impl SystemHeaps {
    /// Creates the heaps of a new database in its primary filegroup.
    ///
    /// # Errors
    /// As of creating any heap; the statement's roll-back removes them again.
    pub fn create(
        storage: &Arc<Storage>,
        ctx: &StatementContext,
        is_master: bool,
    ) -> Result<SystemHeaps, CatalogError> {
        let mut heaps = Vec::new();
        for table in SystemTable::of_database(is_master) {
            let rows = Arc::new(Table::row_layout(&table.columns()));
            let hobt = Hobt::create(storage, table.hobt(), FilegroupId(1), rows, LAYOUT_VERSION, ctx)?;
            heaps.push(SystemHeap::new(table, hobt));
        }
        Ok(SystemHeaps::of(heaps))
    }

    /// Opens the heaps that a boot page lists.
    ///
    /// # Errors
    /// The list is from another version, or a heap cannot be read.
    pub fn open(storage: &Arc<Storage>, listed: &[SystemHobt], is_master: bool) -> Result<SystemHeaps, CatalogError> {
        let tables = SystemTable::of_database(is_master);
        let mut heaps = Vec::new();
        for (index, table) in tables.iter().enumerate() {
            let entry = listed.get(index).filter(|entry| entry.hobt == table.hobt());
            let entry = entry.ok_or_else(|| damaged(*table, "the boot page does not list it in its place"))?;
            let rows = Arc::new(Table::row_layout(&table.columns()));
            let hobt = Hobt::open(storage, table.hobt(), FilegroupId(1), rows, LAYOUT_VERSION, entry.run_list)?;
            heaps.push(SystemHeap::new(*table, hobt));
        }
        Ok(SystemHeaps::of(heaps))
    }

    fn of(heaps: Vec<SystemHeap>) -> SystemHeaps {
        SystemHeaps {
            heaps,
            readers: Ranked::new(Rank::SystemRows, RwLock::new(())),
            last_in_history: AtomicI32::new(0),
        }
    }

    /// The entries for the boot page.
    pub fn listed(&self) -> Vec<SystemHobt> {
        self.tables().map(|(table, hobt)| SystemHobt { hobt: table.hobt(), run_list: hobt.run_list() }).collect()
    }

    /// The system tables with their heaps.
    pub fn tables(&self) -> impl Iterator<Item = (SystemTable, &Arc<Hobt>)> {
        self.heaps.iter().map(|heap| (heap.table, &heap.hobt))
    }

    /// The heap of a table of this database.
    ///
    /// # Panics
    /// If the table is only in `master` and this is another database.
    pub fn heap(&self, table: SystemTable) -> &Arc<Hobt> {
        &self.system_heap(table).hobt
    }

    pub(crate) fn system_heap(&self, table: SystemTable) -> &SystemHeap {
        self.heaps.iter().find(|heap| heap.table == table).expect("a system table of this database")
    }

    /// All rows of a table, in the order of the heap.
    ///
    /// # Errors
    /// The heap cannot be read, or a row is damaged.
    pub fn rows<R: SystemRow>(&self) -> Result<Vec<R>, CatalogError> {
        let mut rows = Vec::new();
        self.visit(&mut |row: R, _, _| rows.push(row))?;
        Ok(rows)
    }

    /// Adds a row.
    ///
    /// # Errors
    /// As of any insert; the statement's roll-back undoes it.
    ///
    /// # Panics
    /// If a text is longer than its column. Callers check that before.
    pub fn insert<R: SystemRow>(&self, ctx: &StatementContext, row: &R) -> Result<(), CatalogError> {
        let image = row_image(R::FIELDS.iter().map(|field| field.sql_type), &row.to_values())
            .expect("a field's value is of its column's type");
        self.heap(R::TABLE).insert(ctx, &image)?;
        Ok(())
    }

    /// Deletes the rows that `matches` selects. Returns their number.
    ///
    /// # Errors
    /// As of reading, and of any delete; the statement's roll-back undoes it.
    pub fn delete<R: SystemRow>(
        &self,
        ctx: &StatementContext,
        mut matches: impl FnMut(&R) -> bool,
    ) -> Result<usize, CatalogError> {
        let mut places = Vec::new();
        self.visit(&mut |row: R, page, slot| {
            if matches(&row) {
                places.push((page, slot));
            }
        })?;
        let heap = self.heap(R::TABLE);
        for (page, slot) in &places {
            heap.delete(ctx, *page, *slot)?;
        }
        Ok(places.len())
    }

    /// Replaces the rows for which `change` returns another row. Returns their number.
    ///
    /// # Errors
    /// As of reading, and of any change; the statement's roll-back undoes it.
    ///
    /// # Panics
    /// As [`SystemHeaps::insert`].
    pub fn replace<R: SystemRow>(
        &self,
        ctx: &StatementContext,
        mut change: impl FnMut(&R) -> Option<R>,
    ) -> Result<usize, CatalogError> {
        let mut changed = Vec::new();
        self.visit(&mut |row: R, page, slot| {
            changed.extend(change(&row).map(|after| (page, slot, after)));
        })?;
        let heap = self.heap(R::TABLE);
        for (page, slot, row) in &changed {
            let image = row_image(R::FIELDS.iter().map(|field| field.sql_type), &row.to_values())
                .expect("a field's value is of its column's type");
            heap.replace(ctx, *page, *slot, &image)?;
        }
        Ok(changed.len())
    }

    /// Visits every row of a table, with its page and slot.
    pub(crate) fn visit<R: SystemRow>(&self, visit: &mut dyn FnMut(R, PageId, SlotId)) -> Result<(), CatalogError> {
        let _reading = self.readers.read();
        let mut broken = None;
        self.heap(R::TABLE).for_each_row(&mut |page, slot, view| {
            let slot_id = SlotId(u16::try_from(slot).expect("a page has fewer slots"));
            match read_row::<R>(view, slot) {
                Ok(row) => visit(row, page, slot_id),
                Err(what) => broken = broken.take().or(Some(format!("page {page}, slot {slot}: {what}"))),
            }
            Ok(())
        })?;
        broken.map_or(Ok(()), |what| Err(damaged(R::TABLE, what)))
    }
}

fn read_row<R: SystemRow>(view: &RowPage<'_>, slot: usize) -> Result<R, String> {
    let mut values: Vec<Value> = Vec::with_capacity(R::FIELDS.len());
    for (column, field) in R::FIELDS.iter().enumerate() {
        let bytes = view.value(column, slot).map_err(|damage| damage.to_string())?;
        let value = value_from_bytes(field.sql_type, bytes).map_err(|error| format!("{}: {error}", field.name))?;
        values.push(value);
    }
    R::from_values(values).ok_or_else(|| "a value is out of its range".to_owned())
}
