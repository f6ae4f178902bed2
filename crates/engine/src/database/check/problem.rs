//! The problems that a check can find, with SQL Server's numbers and texts.

use hobt_access::{Finding, TreeFault};
use hobt_base::{FileId, HobtId, ObjectId, PageId, SqlError, errors};
use hobt_catalog::DamagedRow;
use hobt_page::PageDamage;
use hobt_types::SqlType;

use crate::database::Database;

/// What is wrong.
#[derive(Clone, PartialEq, Debug)]
pub enum Problem {
    /// Pages, extents or counts contradict each other.
    Storage(Finding),
    /// Rows of the table that an index does not have: 8951.
    Missing {
        /// The index.
        index: String,
        /// How many rows.
        rows: u64,
    },
    /// Rows of an index that the table does not have: 8952.
    Extra {
        /// The index.
        index: String,
        /// How many rows.
        rows: u64,
    },
    /// A value that its type does not allow: 2570.
    Value {
        /// The row's page.
        page: PageId,
        /// Its slot.
        slot: usize,
        /// The column.
        column: String,
        /// Its type.
        sql_type: SqlType,
    },
    /// A row that belongs in another partition, counted from 1: 8984.
    Partition {
        /// The row's page.
        page: PageId,
        /// Its slot.
        slot: usize,
        /// The partition it is in.
        found: usize,
        /// The partition it belongs in.
        expected: usize,
    },
    /// A copy of a file's header or of the boot page: 8939.
    Header {
        /// The file.
        file: FileId,
        /// The copy's page.
        page: u32,
        /// What is wrong with it.
        reason: String,
    },
    /// A row of a system table has an impossible value: 8992.
    Row(DamagedRow),
    /// The system tables contradict each other: 8992.
    Catalog {
        /// The rule, and what breaks it.
        reason: String,
    },
}

/// The heap or tree that a problem is in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The table.
    pub object: ObjectId,
    /// The index.
    pub index: i32,
    /// The partition.
    pub hobt: HobtId,
    /// The table's name.
    pub name: String,
}

/// A problem and its owner.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// What is wrong.
    pub problem: Problem,
    /// `None` if it belongs to no table.
    pub owner: Option<Owner>,
}

impl Found {
    /// Whether the problem is in the allocation of extents, rather than in their contents.
    pub fn is_of_allocation(&self) -> bool {
        match &self.problem {
            Problem::Storage(finding) => !matches!(
                finding,
                Finding::Page { .. } | Finding::RowCount { .. } | Finding::Tree { .. } | Finding::SharedValue { .. }
            ),
            _ => false,
        }
    }

    /// The problem as SQL Server's error.
    pub fn to_sql_error(&self, database: &Database) -> SqlError {
        sql_error(self, database)
    }
}

/// Findings that belong to no table.
pub(super) fn unowned(findings: Vec<Finding>) -> Vec<Found> {
    findings.into_iter().map(|finding| Found { problem: Problem::Storage(finding), owner: None }).collect()
}

/// The number of allocation errors, and of all others.
pub fn problem_counts<'a>(found: impl Iterator<Item = &'a Found>) -> (usize, usize) {
    let (allocation, consistency): (Vec<_>, Vec<_>) = found.partition(|found| found.is_of_allocation());
    (allocation.len(), consistency.len())
}

/// Advice for a damaged page or extent.
const ADVICE: &str = "Copy what can still be read into another table; or stop the instance and put back a copy of the \
                      database's files.";

/// The location of a page.
pub(super) fn place_of(database: &Database, page: PageId) -> String {
    let file = database.storage().file(page.file);
    let path = file.map_or_else(|_| "?".to_owned(), |file| file.path().display().to_string());
    format!("file '{path}', byte {:#018x}", page.byte_offset())
}

/// A problem as SQL Server's error.
fn sql_error(found: &Found, database: &Database) -> SqlError {
    let object = found.owner.as_ref().map_or_else(
        || "Object ID 0".to_owned(),
        |Owner { object, index, hobt, .. }| {
            format!("Object ID {object}, index ID {index}, partition ID {hobt} (type In-row data)")
        },
    );
    match &found.problem {
        Problem::Storage(finding) => storage_sql_error(found, finding, database, &object),
        Problem::Missing { index, rows } => index_sql_error(found, index, *rows, true),
        Problem::Extra { index, rows } => index_sql_error(found, index, *rows, false),
        Problem::Value { page, slot, column, sql_type } => {
            errors::CHECK_VALUE.with([&page, &slot, &object, &column, &sql_type, &place_of(database, *page)])
        }
        Problem::Partition { page, slot, found, expected } => errors::CHECK_PARTITION.with([
            &object,
            &page,
            &slot,
            &expected,
            &found,
            &place_of(database, *page),
            &ADVICE,
        ]),
        Problem::Header { file, page, reason } => {
            let page = PageId::new(*file, *page);
            errors::CHECK_PAGE_TEST.with([&object, &page, &reason, &place_of(database, page)])
        }
        Problem::Row(row) => errors::CHECK_CATALOG_ROW.with([
            &row.page,
            &row.slot,
            &row.table.name(),
            &row.reason,
            &place_of(database, row.page),
        ]),
        Problem::Catalog { reason } => errors::CHECK_CATALOG.with([&reason, &ADVICE]),
    }
}

/// 8951 or 8952.
fn index_sql_error(found: &Found, index: &str, rows: u64, is_missing: bool) -> SqlError {
    let (table, table_id, index_id) =
        found.owner.as_ref().map_or(("", ObjectId::default(), 0), |owner| (&owner.name, owner.object, owner.index));
    let entry = if is_missing { errors::CHECK_INDEX_ROW_MISSING } else { errors::CHECK_INDEX_ROW_EXTRA };
    entry.with([&table, &table_id, &rows, &index, &index_id])
}

/// The error for a page of a tree that contradicts the others. `rest` is the rule, the place and the advice.
fn tree_fault(object: &str, page: PageId, fault: TreeFault, rest: &str) -> SqlError {
    match fault {
        TreeFault::KeyOrder => errors::CHECK_KEY_ORDER.with([&object, &page, &rest]),
        TreeFault::OutsideParent => errors::CHECK_KEY_OUTSIDE_PARENT.with([&object, &page, &rest]),
        TreeFault::Level { parent } => errors::CHECK_LEVEL.with([&object, &page, &parent, &rest]),
        TreeFault::TwoParents { parent } => errors::CHECK_TWO_PARENTS.with([&object, &page, &parent, &rest]),
        TreeFault::ForeignChild { parent } => errors::CHECK_CHILD_NOT_FOUND.with([&object, &parent, &page, &rest]),
        TreeFault::NextLeaf { next } => errors::CHECK_CHAIN.with([&object, &page, &next, &rest]),
        TreeFault::Unreached => errors::CHECK_PAGE_NO_PARENT.with([&object, &page, &rest]),
    }
}

/// The error for a page that is damaged by itself. `rest` is the damage, the place and the advice.
fn page_fault(object: &str, page: PageId, damage: &PageDamage, rest: &str) -> SqlError {
    let entry = match damage {
        PageDamage::Address { found } => return errors::CHECK_WRONG_PAGE_ID.with([&object, &page, found, &rest]),
        PageDamage::Structure { rule } if rule.contains("HOBT") => errors::CHECK_OTHER_OWNER,
        PageDamage::Type { .. } => errors::CHECK_PAGE_NOT_SEEN,
        PageDamage::Structure { .. } => errors::CHECK_PAGE_STRUCTURE,
        _ => errors::CHECK_PAGE_NOT_PROCESSED,
    };
    entry.with([&object, &page, &rest])
}

/// A storage finding as SQL Server's error.
fn storage_sql_error(found: &Found, finding: &Finding, database: &Database, object: &str) -> SqlError {
    let id = database.id();
    match finding {
        Finding::OwnedTwice { extent, .. } => errors::CHECK_EXTENT_TWICE.with([extent, &id, &ADVICE]),
        Finding::NotAllocated { extent, .. } => errors::CHECK_EXTENT_NOT_ALLOCATED.with([&object, extent, &ADVICE]),
        Finding::Unowned { extent } => errors::CHECK_EXTENT_UNOWNED.with([extent, &id]),
        Finding::MapDiffers { extent } => errors::CHECK_MAP.with([extent, &id]),
        Finding::FreeCount { file, counted, found } => errors::CHECK_FREE_COUNT.with([file, &id, counted, found]),
        Finding::RunList { rule, .. } => errors::CHECK_ALLOCATION_PAGE.with([&object, rule, &ADVICE]),
        Finding::RowCount { counted, found: rows, .. } => {
            let name = found.owner.as_ref().map_or("", |owner| &owner.name);
            errors::CHECK_ROW_COUNT.with([&name, &object, counted, rows])
        }
        Finding::Page { page, damage } => {
            let rest = format!("{damage}; {}. {ADVICE}", place_of(database, *page));
            page_fault(object, *page, damage, &rest)
        }
        Finding::Tree { page, fault } => {
            let rest = format!("{}; {}. {ADVICE}", fault.rule(), place_of(database, *page));
            tree_fault(object, *page, *fault, &rest)
        }
        Finding::SharedValue { page, row_page } => {
            errors::CHECK_VALUE_TWICE.with([&object, page, row_page, &place_of(database, *page), &ADVICE])
        }
    }
}
