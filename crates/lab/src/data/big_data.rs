//! `BigData`: every customer once per number 1, 2, 3 …, and the storage forms of the table.
//!
//! Columns and values are the text's (seed 000); the statements are our own. Partitioned forms have one partition for
//! each value of Col1 or, in a sweep, for a range of Col2.

use super::CUSTOMERS;

/// The ten columns that the texts' scan counts.
pub const COUNTED_COLUMNS: usize = 10;

/// The number of repetitions that gives at least `rows` rows; at least 1.
pub fn repeats_for(rows: u64) -> u64 {
    rows.div_ceil(CUSTOMERS).max(1)
}

/// The number of rows in a table created for at least `rows` rows.
pub fn rows_for(rows: u64) -> u64 {
    repeats_for(rows) * CUSTOMERS
}

/// The `SELECT … INTO` that creates `target` from `customers`, with `repeats` rows for each customer.
pub fn select_into(target: &str, customers: &str, repeats: u64) -> String {
    let line = |modulus: u64| format!("CASE n.id % {modulus} WHEN 1 THEN c.AddressLine1 ELSE c.AddressLine2 END");
    format!(
        "WITH n AS (
    SELECT TOP ({repeats}) ROW_NUMBER() OVER (ORDER BY many.one) AS id
    FROM (SELECT 1 AS one FROM master.dbo.syscolumns) AS many CROSS JOIN master.dbo.syscolumns AS times
)
SELECT n.id % 24 AS Col1, n.id + 1 AS Col2, n.id + 2 AS Col3, n.id + 3 AS Col4, n.id + 4 AS Col5,
       {} AS Col6,
       {} AS Col7,
       c.FirstName AS Col8, c.MiddleName AS Col9, c.LastName AS Col10, c.CustomerAlternateKey AS Col11
INTO {target}
FROM n CROSS JOIN {customers} AS c",
        line(2),
        line(7),
    )
}

const COLUMNS: [(&str, &str); 11] = [
    ("Col1", "bigint"),
    ("Col2", "bigint"),
    ("Col3", "bigint"),
    ("Col4", "bigint"),
    ("Col5", "bigint"),
    ("Col6", "nvarchar(120)"),
    ("Col7", "nvarchar(120)"),
    ("Col8", "nvarchar(50)"),
    ("Col9", "nvarchar(50)"),
    ("Col10", "nvarchar(50)"),
    ("Col11", "nvarchar(15)"),
];

/// `CREATE TABLE` with BigData's columns; `place` is what follows the columns (`ON scheme(Col1)`), or empty.
pub fn create_table(name: &str, nullable: bool, place: &str) -> String {
    let null = if nullable { "NULL" } else { "NOT NULL" };
    let columns: Vec<String> = COLUMNS.iter().map(|(column, kind)| format!("{column} {kind} {null}")).collect();
    format!("CREATE TABLE {name} ({}) {place}", columns.join(", "))
}

/// A clustered index on the partitioning column, as in the text, with the table's partitions.
pub fn create_clustered_index(table: &str, place: &str) -> String {
    format!("CREATE CLUSTERED INDEX CIX_Col1 ON {table} (Col1) {place}")
}

/// Copies the rows of another table into a table with BigData's columns, in parallel. For a table without NULLs, NULLs
/// become `X`, as in the text.
pub fn copy_into(target: &str, source: &str, nullable: bool) -> String {
    let column = |(name, kind): &(&str, &str)| match (nullable, *kind) {
        (true, _) | (false, "bigint") => (*name).to_owned(),
        (false, _) => format!("ISNULL({name}, N'X')"),
    };
    let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    let values: Vec<String> = COLUMNS.iter().map(column).collect();
    format!(
        "INSERT INTO {target} WITH (TABLOCK) ({}) SELECT {} FROM {source} WITH (NOLOCK)",
        names.join(", "),
        values.join(", "),
    )
}

/// Function and scheme for one partition for each of Col1's 24 values, in `filegroup`.
pub fn create_24_partitions(name: &str, filegroup: &str) -> [String; 2] {
    partitioned_by(name, filegroup, &(1..24).collect::<Vec<u64>>())
}

/// Function and scheme for `partitions` equal ranges of Col2, whose values are 2 to `repeats` + 1.
pub fn create_range_partitions(name: &str, filegroup: &str, partitions: u64, repeats: u64) -> [String; 2] {
    // With fewer values than partitions, the last partitions stay empty.
    let width = repeats.div_ceil(partitions).max(1);
    partitioned_by(name, filegroup, &(1..partitions).map(|place| 2 + place * width).collect::<Vec<u64>>())
}

fn partitioned_by(name: &str, filegroup: &str, boundaries: &[u64]) -> [String; 2] {
    let boundaries: Vec<String> = boundaries.iter().map(u64::to_string).collect();
    [
        format!(
            "CREATE PARTITION FUNCTION {name}_function (bigint) AS RANGE RIGHT FOR VALUES ({})",
            boundaries.join(", ")
        ),
        format!("CREATE PARTITION SCHEME {name}_scheme AS PARTITION {name}_function ALL TO ([{filegroup}])"),
    ]
}

/// The texts' scan: counts of ten columns.
pub fn count_ten(table: &str) -> String {
    let counts: Vec<String> = (1..=COUNTED_COLUMNS).map(|column| format!("COUNT_BIG(Col{column})")).collect();
    format!("SELECT {} FROM {table} WITH (NOLOCK)", counts.join(", "))
}

/// A scan that reads the values.
pub fn max_and_sum(table: &str) -> String {
    format!(
        "SELECT MAX(Col1 + Col2), MAX(Col5), MAX(LEN(Col6)), MAX(Col8), SUM(CAST(Col3 AS bigint)) \
         FROM {table} WITH (NOLOCK)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_size_is_fifty_thousand_repeats() {
        assert_eq!(repeats_for(924_200_000), 50_000);
        assert_eq!(repeats_for(0), 1);
        assert_eq!(repeats_for(18_485), 2);
    }

    #[test]
    fn partitions_are_as_many_as_asked_for() {
        for partitions in [2, 24, 96] {
            let [function, _] = create_range_partitions("p", "PRIMARY", partitions, 5);
            assert_eq!(function.matches(',').count() as u64, partitions - 2);
        }
        assert!(create_24_partitions("p", "PRIMARY")[0].ends_with("22, 23)"));
    }

    #[test]
    fn only_text_columns_need_a_value_for_null() {
        let text = copy_into("a", "b", false);
        assert_eq!(text.matches("ISNULL").count(), 6);
        assert!(!copy_into("a", "b", true).contains("ISNULL"));
    }
}
