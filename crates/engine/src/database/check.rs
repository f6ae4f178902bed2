//! Consistency checks of a database, for `DBCC CHECKDB` and its like, tests and simulation.
//!
//! A check begins with what belongs to no table: the copies of headers and of the boot page, the allocation maps, the
//! rules of the system tables. Then tables are passed to it one by one. It checks the extents, pages and trees of each
//! heap and index (`hobt_access::AllocationCheck`). If nothing was wrong with them, it checks the values of their rows
//! and the partition that each row is in (`values`), then whether every nonclustered index has the rows of its table.
//! At the end it reports what is allocated and belongs to no table passed.
//!
//! Nothing may change what is checked during a check. Otherwise its findings count only if a second check confirms
//! them.
//!
//! Not here: locks and repetitions (crate `interpreter`). There are no repairs.

mod headers;
mod problem;
mod values;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hobt_access::{AccessError, AllocationCheck, Finding, RowStore};
use hobt_base::{HobtId, number};
use hobt_catalog::{CatalogError, DatabaseSnapshot, Index, Table};
use hobt_txn::{Progress, ProgressUnit};

use super::{Database, TableWriter};
use crate::error::{EngineError, Result};

use problem::unowned;
pub use problem::{Found, Owner, Problem, problem_counts};

/// What it costs to find the rows of a page in another index, as readings of a page.
const COMPARISON_STEPS: u64 = 8;

/// What is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckScope {
    /// Everything.
    Database,
    /// Extents only.
    Allocation,
}

/// The size of a table that was checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CheckedTable {
    /// Its rows.
    pub rows: u64,
    /// The pages that hold them.
    pub pages: u64,
}

/// A check in progress.
#[derive(Debug)]
pub struct DatabaseCheck<'a> {
    database: &'a Database,
    snapshot: Arc<DatabaseSnapshot>,
    allocation: AllocationCheck,
    scope: CheckScope,
    cancelled: Arc<AtomicBool>,
    progress: Arc<Progress>,
    found: Vec<Found>,
    is_incomplete: bool,
}

impl<'a> DatabaseCheck<'a> {
    /// Begins a check of a whole database, whose tables are those of `snapshot`.
    ///
    /// # Errors
    /// A page cannot be read at all (damage is a finding), or `cancelled` was set.
    pub fn begin(
        database: &'a Database,
        snapshot: Arc<DatabaseSnapshot>,
        scope: CheckScope,
        cancelled: Arc<AtomicBool>,
    ) -> Result<DatabaseCheck<'a>> {
        let mut check = DatabaseCheck::of_tables(database, snapshot, cancelled)?;
        check.scope = scope;
        check.found = unowned(check.allocation.take_findings());
        if scope == CheckScope::Database {
            check.found.extend(database.check_headers()?);
            if let Err(broken) = check.snapshot.check() {
                check.found.push(Found { problem: Problem::Catalog { reason: broken.to_string() }, owner: None });
            }
            match database.heaps.check_rows(&check.snapshot) {
                Ok(rows) => {
                    check.found.extend(rows.into_iter().map(|row| Found { problem: Problem::Row(row), owner: None }))
                }
                // The damaged page is reported with its table.
                Err(CatalogError::Access(AccessError::Damaged { .. })) => {}
                Err(CatalogError::Access(error)) => return Err(database.storage_error(error)),
                Err(error) => {
                    check.found.push(Found { problem: Problem::Catalog { reason: error.to_string() }, owner: None });
                }
            }
        }
        Ok(check)
    }

    /// Begins a check of single tables only.
    ///
    /// # Errors
    /// As [`DatabaseCheck::begin`].
    pub fn of_tables(
        database: &'a Database,
        snapshot: Arc<DatabaseSnapshot>,
        cancelled: Arc<AtomicBool>,
    ) -> Result<DatabaseCheck<'a>> {
        let allocation = AllocationCheck::new(database.storage()).map_err(|error| database.storage_error(error))?;
        let allocation = allocation.until(Arc::clone(&cancelled)).stamped_by(Arc::clone(&database.shared.clock));
        let (scope, found) = (CheckScope::Database, Vec::new());
        let (progress, is_incomplete) = (Arc::default(), false);
        Ok(DatabaseCheck { database, snapshot, allocation, scope, cancelled, progress, found, is_incomplete })
    }

    /// Counts the check of these tables' pages and rows in `progress`, which begins now.
    pub fn count<'t>(&mut self, progress: &Arc<Progress>, tables: impl IntoIterator<Item = &'t Arc<Table>>) {
        progress.set(0, tables.into_iter().map(|table| self.steps_of(table)).sum());
        if self.scope == CheckScope::Database {
            progress.count_in(ProgressUnit::Pages);
        }
        self.progress = Arc::clone(progress);
        self.allocation.count_in(progress);
    }

    /// The steps of a table's check. Heaps and trees that cannot be opened have none.
    fn steps_of(&self, table: &Table) -> u64 {
        if self.scope == CheckScope::Allocation {
            return 1;
        }
        let stores = |index: &Index| {
            let stores =
                index.partitions.iter().filter_map(|partition| self.database.store_to_read(partition.hobt).ok());
            stores.collect::<Vec<_>>()
        };
        let of_pages = |store: RowStore| {
            let readings = if store.tree().is_some() { 3 } else { 2 };
            readings * store.hobt().used_pages()
        };
        let of_indexes: u64 = table.indexes.iter().flat_map(&stores).map(of_pages).sum();
        let compared = table.indexes.len().saturating_sub(1) as u64 * COMPARISON_STEPS;
        let rows = stores(table.base_index()).iter().map(|store| store.hobt().data_pages()).sum::<u64>();
        of_indexes + compared * rows
    }

    /// Takes the findings so far that were not taken yet.
    pub fn take_found(&mut self) -> Vec<Found> {
        // Findings of the maps, which belong to no single table.
        self.allocation.take_findings();
        std::mem::take(&mut self.found)
    }

    /// Checks the heaps and trees of a table; `None` if one could not be opened.
    ///
    /// # Errors
    /// As [`DatabaseCheck::begin`].
    pub fn table(&mut self, table: &Arc<Table>) -> Result<Option<CheckedTable>> {
        let before = self.found.len();
        let mut checked = Some(CheckedTable::default());
        for (place, index) in table.indexes.iter().enumerate() {
            for (number, partition) in index.partitions.iter().enumerate() {
                let owner =
                    Owner { object: table.id, index: index.id.0, hobt: partition.hobt, name: table.name.clone() };
                let Some(store) = self.open(partition.hobt, &owner)? else {
                    checked = None;
                    continue;
                };
                self.store(&store, &owner)?;
                if self.scope == CheckScope::Database {
                    self.values(table, (place, number), &store, &owner)?;
                }
                if let (Some(checked), 0) = (&mut checked, place) {
                    checked.rows += store.hobt().row_count();
                    checked.pages += store.hobt().data_pages();
                }
            }
        }
        self.is_incomplete |= checked.is_none();
        if self.scope == CheckScope::Allocation {
            self.progress.add(1);
        }
        // The contents of damaged pages are not compared.
        let is_sound = checked.is_some() && self.found.len() == before;
        if self.scope == CheckScope::Database && is_sound && table.indexes.len() > 1 {
            self.compare_indexes(table)?;
        }
        Ok(checked)
    }

    /// Opens a heap or tree; `None` if it is damaged, which is recorded, or gone.
    fn open(&mut self, hobt: HobtId, owner: &Owner) -> Result<Option<RowStore>> {
        match self.database.store_to_read(hobt) {
            Ok(store) => Ok(Some(store)),
            Err(EngineError::Storage { error: AccessError::Damaged { page, damage, .. }, .. }) => {
                self.note(Problem::Storage(Finding::Page { page, damage }), owner);
                Ok(None)
            }
            // It was created after the locks were taken, and is gone again.
            Err(error) if error.to_sql_error().number == number::INVALID_OBJECT => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn store(&mut self, store: &RowStore, owner: &Owner) -> Result<()> {
        let checked = match (self.scope, store) {
            (CheckScope::Database, RowStore::Heap(heap)) => self.allocation.add_hobt(heap),
            (CheckScope::Database, RowStore::Tree(tree)) => self.allocation.add_tree(tree),
            (CheckScope::Allocation, store) => self.allocation.add_extents(store.hobt()),
        };
        checked.map_err(|error| self.database.storage_error(error))?;
        for finding in self.allocation.take_findings() {
            self.note(Problem::Storage(finding), owner);
        }
        Ok(())
    }

    /// Compares every nonclustered index with the rows of its table.
    fn compare_indexes(&mut self, table: &Arc<Table>) -> Result<()> {
        let writer = TableWriter::open_to_read(self.database, &self.snapshot, Arc::clone(table))?;
        let owner = |place: usize| {
            let index = &table.indexes[place];
            let hobt = index.partitions.first().map_or_else(HobtId::default, |partition| partition.hobt);
            Owner { object: table.id, index: index.id.0, hobt, name: table.name.clone() }
        };
        let steps = table.indexes.len().saturating_sub(1) as u64 * COMPARISON_STEPS;
        let each_page = || {
            self.progress.add(steps);
            self.cancelled.load(Ordering::Relaxed)
        };
        let differences = match writer.check_indexes(&each_page) {
            Ok(differences) => differences,
            Err(AccessError::Damaged { page, damage, .. }) => {
                self.note(Problem::Storage(Finding::Page { page, damage }), &owner(0));
                return Ok(());
            }
            Err(error) => return Err(self.database.storage_error(error)),
        };
        for difference in differences {
            let index = table.indexes[difference.index].name.clone().unwrap_or_default();
            if difference.missing > 0 {
                let problem = Problem::Missing { index: index.clone(), rows: difference.missing };
                self.note(problem, &owner(difference.index));
            }
            if difference.extra > 0 {
                self.note(Problem::Extra { index, rows: difference.extra }, &owner(difference.index));
            }
        }
        Ok(())
    }

    fn note(&mut self, problem: Problem, owner: &Owner) {
        self.found.push(Found { problem, owner: Some(owner.clone()) });
    }

    /// Ends the check: the findings not taken yet, and whether the owner of every allocated extent is known.
    pub fn finish(mut self) -> (Vec<Found>, bool) {
        // A run list that could not be read does not tell what its table owns.
        let is_unread = |found: &Found| matches!(found.problem, Problem::Storage(Finding::RunList { .. }));
        let is_complete = !self.is_incomplete && !self.found.iter().any(is_unread);
        let rest = self.allocation.finish();
        if is_complete {
            self.found.extend(unowned(rest));
        }
        (self.found, is_complete)
    }
}

impl Database {
    /// Checks everything of a database that nothing changes meanwhile. Returns what `DBCC CHECKDB` finds.
    ///
    /// # Errors
    /// A page cannot be read at all (damage is a finding), or the database cannot be used.
    pub fn check(&self) -> Result<Vec<Found>> {
        let snapshot = self.snapshot();
        let mut check = DatabaseCheck::begin(self, Arc::clone(&snapshot), CheckScope::Database, Arc::default())?;
        let mut tables: Vec<&Arc<Table>> = snapshot.tables.values().collect();
        tables.sort_unstable_by_key(|table| table.id);
        for table in tables {
            check.table(table)?;
        }
        Ok(check.finish().0)
    }
}
