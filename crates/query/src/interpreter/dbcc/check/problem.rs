//! What a check finds wrong, and how SQL Server numbers and words it.

use hobt_access::Finding;
use hobt_base::{HobtId, ObjectId, SqlError, number};
use hobt_engine::DatabaseUse;
use hobt_page::PageDamage;

/// What is wrong.
#[derive(Clone, PartialEq)]
pub(super) enum Problem {
    /// Pages, extents or counts contradict each other.
    Storage(Finding),
    /// Rows of the table that an index does not have: 8951.
    Missing { index: String, rows: u64 },
    /// Rows of an index that the table does not have: 8952.
    Extra { index: String, rows: u64 },
}

/// A finding, and the table that it is in.
#[derive(Clone, PartialEq)]
pub(super) struct Found {
    pub(super) problem: Problem,
    /// Object id, index id and partition id, and the object's name.
    pub(super) owner: Option<(ObjectId, i32, HobtId, String)>,
}

impl Found {
    /// Whether the extents are wrong, rather than what is in them.
    pub(super) fn is_of_allocation(&self) -> bool {
        match &self.problem {
            Problem::Storage(finding) => !matches!(finding, Finding::Page { .. } | Finding::RowCount { .. }),
            Problem::Missing { .. } | Problem::Extra { .. } => false,
        }
    }
}

/// Findings that are no table's.
pub(super) fn unowned(findings: Vec<Finding>) -> Vec<Found> {
    findings.into_iter().map(|finding| Found { problem: Problem::Storage(finding), owner: None }).collect()
}

/// Errors of allocation, and all others.
pub(super) fn counts<'a>(found: impl Iterator<Item = &'a Found>) -> (usize, usize) {
    let (allocation, consistency): (Vec<_>, Vec<_>) = found.partition(|found| found.is_of_allocation());
    (allocation.len(), consistency.len())
}

/// What can be done about a damaged page or extent.
const ADVICE: &str = "Copy what can still be read into another table; or stop the instance and put back a copy of the \
                      database's files.";

/// A problem as SQL Server numbers it.
pub(super) fn sql_error(found: &Found, database: &DatabaseUse) -> SqlError {
    match &found.problem {
        Problem::Storage(finding) => storage_sql_error(found, finding, database),
        Problem::Missing { index, rows } | Problem::Extra { index, rows } => {
            let (table, table_id, index_id) = found
                .owner
                .as_ref()
                .map_or(("", ObjectId::default(), 0), |(object, index, _, name)| (name.as_str(), *object, *index));
            let (number, what) = match &found.problem {
                Problem::Missing { .. } => (
                    number::CHECK_INDEX_ROW_MISSING,
                    format!(
                        "{rows} data rows do not have a matching index row in the index '{index}' (ID {index_id}). \
                         Possible missing or invalid keys"
                    ),
                ),
                _ => (
                    number::CHECK_INDEX_ROW_EXTRA,
                    format!(
                        "{rows} index rows in index '{index}' (ID {index_id}) do not match any data row. Possible extra \
                         or invalid keys"
                    ),
                ),
            };
            let text = format!(
                "Table error: table '{table}' (ID {table_id}). {what}. Build the index anew: ALTER INDEX … REBUILD."
            );
            SqlError::new(number, text)
        }
    }
}

/// A finding of storage as SQL Server numbers it.
fn storage_sql_error(found: &Found, finding: &Finding, database: &DatabaseUse) -> SqlError {
    let object = found.owner.as_ref().map_or_else(
        || "Database error".to_owned(),
        |(object, index, partition, _)| {
            format!("Object ID {object}, index ID {index}, partition ID {partition} (type In-row data)")
        },
    );
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
            let name = found.owner.as_ref().map_or("", |(.., name)| name);
            let text = format!(
                "The In-row data ROWS count for object \"{name}\", {object}, is incorrect: {counted} are counted, \
                 {rows} are in its pages. If pages are damaged, those rows are among them."
            );
            (number::CHECK_ROW_COUNT, text)
        }
        Finding::Page { page, damage } => {
            let file = database.storage().file(page.file);
            let path = file.map_or_else(|_| "?".to_owned(), |file| file.path().display().to_string());
            let place = format!("file '{path}', byte {:#018x}", page.byte_offset());
            let (number, what) = match damage {
                PageDamage::Address { found } => (
                    number::CHECK_WRONG_PAGE_ID,
                    format!(
                        "page ID {page} contains an incorrect page ID in its page header. The PageId in the page \
                         header = {found}"
                    ),
                ),
                PageDamage::Structure { .. } | PageDamage::Type { .. } => (
                    number::CHECK_PAGE_NOT_SEEN,
                    format!("page {page} was not seen. The page is invalid or has an incorrect owner in its header"),
                ),
                _ => (number::CHECK_PAGE_NOT_PROCESSED, format!("Page {page} could not be processed")),
            };
            (number, format!("{object}: {what}: {damage}; {place}. {ADVICE}"))
        }
    };
    SqlError::new(number, text)
}
