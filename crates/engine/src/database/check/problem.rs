//! The problems that a check can find, with SQL Server's numbers and texts.

use hobt_access::{Finding, TreeFault};
use hobt_base::{FileId, HobtId, ObjectId, PageId, SqlError, number};
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
            let text = format!(
                "Page {page}, slot {slot} in {object}: column \"{column}\" value is out of range for data type \
                 \"{sql_type}\"; {}. Update the column to a legal value.",
                place_of(database, *page)
            );
            SqlError::new(number::CHECK_VALUE, text)
        }
        Problem::Partition { page, slot, found, expected } => {
            let text = format!(
                "Table error: {object}. The row in page {page}, slot {slot} should be on partition number {expected} but \
                 was found in partition number {found}; {}. {ADVICE}",
                place_of(database, *page)
            );
            SqlError::new(number::CHECK_PARTITION, text)
        }
        Problem::Header { file, page, reason } => {
            let page = PageId::new(*file, *page);
            let text = format!(
                "Table error: {object}, page {page}. Test ({reason}) failed; {}. Its other copy serves.",
                place_of(database, page)
            );
            SqlError::new(number::CHECK_PAGE_TEST, text)
        }
        Problem::Row(row) => {
            let text = format!(
                "Check Catalog: page {}, slot {} of system table '{}': {}; {}. It is not heeded: update the statistics, \
                 or reseed the identity column.",
                row.page,
                row.slot,
                row.table.name(),
                row.reason,
                place_of(database, row.page)
            );
            SqlError::new(number::CHECK_CATALOG, text)
        }
        Problem::Catalog { reason } => {
            SqlError::new(number::CHECK_CATALOG, format!("Check Catalog: {reason}. {ADVICE}"))
        }
    }
}

/// 8951 or 8952.
fn index_sql_error(found: &Found, index: &str, rows: u64, is_missing: bool) -> SqlError {
    let (table, table_id, index_id) =
        found.owner.as_ref().map_or(("", ObjectId::default(), 0), |owner| (&owner.name, owner.object, owner.index));
    let (number, what) = match is_missing {
        true => (
            number::CHECK_INDEX_ROW_MISSING,
            format!(
                "{rows} data rows do not have a matching index row in the index '{index}' (ID {index_id}). Possible \
                 missing or invalid keys"
            ),
        ),
        false => (
            number::CHECK_INDEX_ROW_EXTRA,
            format!(
                "{rows} index rows in index '{index}' (ID {index_id}) do not match any data row. Possible extra or \
                 invalid keys"
            ),
        ),
    };
    let text =
        format!("Table error: table '{table}' (ID {table_id}). {what}. Build the index anew: ALTER INDEX … REBUILD.");
    SqlError::new(number, text)
}

/// The error number and text for a page of a tree that contradicts the others.
fn tree_fault(page: PageId, fault: TreeFault) -> (i32, String) {
    match fault {
        TreeFault::KeyOrder => (number::CHECK_KEY_ORDER, format!("Keys out of order on page {page}")),
        TreeFault::OutsideParent => (
            number::CHECK_KEY_OUTSIDE_PARENT,
            format!("A key value on page {page} is not between the key values in its parent"),
        ),
        TreeFault::Level { parent } => (
            number::CHECK_LEVEL,
            format!("B-tree level mismatch, page {page} does not match the level from parent {parent}"),
        ),
        TreeFault::TwoParents { parent } => {
            (number::CHECK_TWO_PARENTS, format!("B-tree page {page} has two parent nodes, of which {parent} is one"))
        }
        TreeFault::ForeignChild { parent } => (
            number::CHECK_CHILD_NOT_FOUND,
            format!("Index node page {parent} refers to child page {page}, which is none of the index"),
        ),
        TreeFault::NextLeaf { next } => (
            number::CHECK_CHAIN,
            format!("B-tree chain linkage mismatch. {page}->next = {next}, which is not the leaf with the next keys"),
        ),
        TreeFault::Unreached => {
            (number::CHECK_PAGE_NO_PARENT, format!("Page {page} is missing references from parent (unknown) nodes"))
        }
    }
}

/// The error number and text for a page that is damaged by itself.
fn page_fault(page: PageId, damage: &PageDamage) -> (i32, String) {
    match damage {
        PageDamage::Address { found } => (
            number::CHECK_WRONG_PAGE_ID,
            format!(
                "page ID {page} contains an incorrect page ID in its page header. The PageId in the page header = \
                 {found}"
            ),
        ),
        PageDamage::Structure { rule } if rule.contains("HOBT") => (
            number::CHECK_PAGE_NOT_SEEN,
            format!("page {page} was not seen. The page is invalid or has an incorrect owner in its header"),
        ),
        PageDamage::Type { .. } => (
            number::CHECK_PAGE_NOT_SEEN,
            format!("page {page} was not seen. The page is invalid or has an incorrect type in its header"),
        ),
        PageDamage::Structure { .. } => (number::CHECK_PAGE_TEST, format!("page {page}. A test failed")),
        _ => (number::CHECK_PAGE_NOT_PROCESSED, format!("Page {page} could not be processed")),
    }
}

/// A storage finding as SQL Server's error.
fn storage_sql_error(found: &Found, finding: &Finding, database: &Database, object: &str) -> SqlError {
    let id = database.id();
    let (number, text) = match finding {
        Finding::OwnedTwice { extent, .. } => (
            number::CHECK_EXTENT_TWICE,
            format!("Extent {extent} in database ID {id} is allocated by more than one allocation object. {ADVICE}"),
        ),
        Finding::NotAllocated { extent, .. } => (
            number::CHECK_EXTENT_NOT_ALLOCATED,
            format!("{object}: extent {extent} is in its run list and not allocated in the allocation map. {ADVICE}"),
        ),
        Finding::Unowned { extent } => (
            number::CHECK_EXTENT_UNOWNED,
            format!(
                "Extent {extent} in database ID {id} is marked allocated in the allocation map, but no run list has \
                 it. Nothing is lost but its space."
            ),
        ),
        Finding::MapDiffers { extent } => (
            number::CHECK_MAP,
            format!(
                "The allocation map page for extent {extent} in database ID {id} and its copy in memory differ. Close \
                 the instance and open it again, then check again."
            ),
        ),
        Finding::FreeCount { file, counted, found } => (
            number::CHECK_MAP,
            format!(
                "File {file} in database ID {id} counts {counted} free extents, and its allocation map has {found}. \
                 Close the instance and open it again, then check again."
            ),
        ),
        Finding::RunList { rule, .. } => {
            (number::CHECK_ALLOCATION_PAGE, format!("{object}: its run list is wrong: {rule}. {ADVICE}"))
        }
        Finding::RowCount { counted, found: rows, .. } => {
            let name = found.owner.as_ref().map_or("", |owner| &owner.name);
            let text = format!(
                "The In-row data ROWS count for object \"{name}\", {object}, is incorrect: {counted} are counted, \
                 {rows} are in its pages. If pages are damaged, those rows are among them."
            );
            (number::CHECK_ROW_COUNT, text)
        }
        Finding::Page { page, damage } => {
            let (number, what) = page_fault(*page, damage);
            (number, format!("{object}: {what}: {damage}; {}. {ADVICE}", place_of(database, *page)))
        }
        Finding::Tree { page, fault } => {
            let (number, what) = tree_fault(*page, *fault);
            let place = place_of(database, *page);
            (number, format!("Table error: {object}. {what}: {}; {place}. {ADVICE}", fault.rule()))
        }
        Finding::SharedValue { page, row_page } => (
            number::CHECK_VALUE_TWICE,
            format!(
                "Table error: {object}. The off-row data node at page {page} is pointed to by page {row_page} and by \
                 another row; {}. {ADVICE}",
                place_of(database, *page)
            ),
        ),
    };
    SqlError::new(number, text)
}
