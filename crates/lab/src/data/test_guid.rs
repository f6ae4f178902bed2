//! `TestGuid_HeapINSERT`: the table of seed 004 with seven rows per page: a `uniqueidentifier` and 1,000 characters.

/// The table's name.
pub const TABLE: &str = "dbo.TestGuid_HeapINSERT";

/// Rows of the text's table.
pub const ROWS_OF_THE_TEXT: u64 = 50_000_000;

/// Approximate bytes of a row, for choosing a size: seven rows per page.
pub const ROW_BYTES: u64 = 8_192 / 7;

/// The table's definition.
pub fn create_table() -> String {
    format!("CREATE TABLE {TABLE} (id uniqueidentifier NOT NULL DEFAULT NEWID(), expandrow char(1000) NOT NULL)")
}

/// Fills the table with the numbers 1 to `rows`, as text.
pub fn fill(rows: u64) -> String {
    format!(
        "INSERT INTO {TABLE} WITH (TABLOCK) (expandrow)
SELECT TOP ({rows}) CAST(ROW_NUMBER() OVER (ORDER BY a.one) AS char(1000))
FROM (SELECT 1 AS one FROM master.dbo.syscolumns) AS a
CROSS JOIN master.dbo.syscolumns AS b CROSS JOIN (SELECT TOP (100) 1 AS one FROM master.dbo.syscolumns) AS c"
    )
}

/// The scan that converts every row: its CPU time is what the text's cores share.
pub fn max_of_casts(hint: &str) -> String {
    format!("SELECT MAX(CAST(expandrow AS bigint)) FROM {TABLE} WITH (INDEX = 0) {hint}")
}

/// The scan that counts.
pub fn count(hint: &str) -> String {
    format!("SELECT COUNT(*) FROM {TABLE} WITH (INDEX = 0) {hint}")
}
