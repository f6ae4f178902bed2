//! The tables of the experiment: a fact table of ten days and one more, partitioned by day. There are two of them in
//! each of two databases: one with statistics as of their last update, one with maintained statistics.

use crate::error::{LabError, Result};
use crate::laboratory::Laboratory;

/// The database with old statistics.
pub(super) const OLD: &str = "hobt_lab_ascending_old";
/// The database with maintained statistics.
pub(super) const OWN: &str = "hobt_lab_ascending_own";

/// The number of days present when statistics were updated.
pub(super) const DAYS: u64 = 10;
/// Customers of the dimension, as in the text.
pub(super) const CUSTOMERS: u64 = 100_000;
/// The first day, the day loaded last night, and a day that is not loaded yet.
pub(super) const FIRST_DAY: u64 = 20_010_101;
pub(super) const NEW_DAY: u64 = FIRST_DAY + DAYS;
pub(super) const FREE_DAY: u64 = NEW_DAY + 1;
/// The partition of the day that is not loaded. The first partition ends where the first day begins.
pub(super) const FREE_PARTITION: u64 = FREE_DAY - FIRST_DAY + 2;

/// How the partition function fits the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Years {
    /// Each day has a partition.
    Agree,
    /// The function ends a year before the data begin, so all rows are in the last partition.
    AsPrinted,
}

impl Years {
    pub(super) const BOTH: [Years; 2] = [Years::Agree, Years::AsPrinted];

    /// The fact table.
    pub(super) fn fact(self) -> &'static str {
        match self {
            Years::Agree => "fact",
            Years::AsPrinted => "fact_printed",
        }
    }

    /// The name of a case with these years.
    pub(super) fn case(self, name: &str) -> String {
        match self {
            Years::Agree => name.to_owned(),
            Years::AsPrinted => format!("{name}_printed"),
        }
    }

    fn first_bound(self) -> u64 {
        match self {
            Years::Agree => FIRST_DAY,
            Years::AsPrinted => FIRST_DAY - 10_000,
        }
    }

    fn definitions(self) -> [String; 4] {
        let (fact, first) = (self.fact(), self.first_bound());
        let bounds: Vec<String> = (first..first + 14).map(|day| day.to_string()).collect();
        [
            format!("CREATE PARTITION FUNCTION pf_{fact} (int) AS RANGE RIGHT FOR VALUES ({})", bounds.join(", ")),
            format!("CREATE PARTITION SCHEME ps_{fact} AS PARTITION pf_{fact} ALL TO ([PRIMARY])"),
            format!(
                "CREATE TABLE dbo.{fact} (date_sk int NOT NULL, customer_sk int NOT NULL, \
                 payload char(80) NOT NULL DEFAULT REPLICATE('X', 80), measure money NULL)"
            ),
            format!("CREATE CLUSTERED INDEX by_day ON dbo.{fact} (date_sk) ON ps_{fact} (date_sk)"),
        ]
    }
}

/// The star query of a day: the purchases of customers by shoe size.
pub(super) fn query(years: Years, day: u64) -> String {
    format!(
        "SELECT c.shoe_size, SUM(f.measure) FROM dbo.{} f JOIN dbo.customer c ON f.customer_sk = c.customer_sk \
         WHERE f.date_sk = {day} AND c.shoe_size = 43 GROUP BY c.shoe_size",
        years.fact()
    )
}

/// The nightly load of a day. All days have the same rows, so that all answers are the same.
pub(super) fn load(years: Years, day: u64) -> String {
    format!(
        "INSERT INTO dbo.{} (date_sk, customer_sk, measure) SELECT {day}, customer_sk, measure FROM dbo.one_day",
        years.fact()
    )
}

/// Creates a database with both fact tables and `rows` rows per day. `options` are set before any table exists.
/// `before_night` is run for each fact table when ten days are loaded and the new one is not.
///
/// # Errors
/// If a statement failed, or a table does not have the expected rows.
pub(super) fn build(
    lab: &mut Laboratory,
    (database, rows): (&str, u64),
    options: &[String],
    before_night: &dyn Fn(Years) -> Vec<String>,
) -> Result<()> {
    lab.run(&format!("USE master; DROP DATABASE IF EXISTS [{database}]; CREATE DATABASE [{database}]"))?;
    lab.run(&format!("USE [{database}]"))?;
    for option in options {
        lab.run(option)?;
    }
    // 48,271 and 7,919 are primes: customers appear unordered and about equally often, like random ones.
    lab.run(&format!(
        "SELECT ISNULL(CAST(value * 48271 % {CUSTOMERS} AS int), 0) AS customer_sk, \
         CAST(value * 7919 % 1000000 AS money) / 1000 AS measure INTO dbo.one_day \
         FROM GENERATE_SERIES(CAST(1 AS bigint), CAST({rows} AS bigint))"
    ))?;
    lab.run("CREATE TABLE dbo.customer (customer_sk int NOT NULL, shoe_size int NOT NULL)")?;
    lab.run("CREATE UNIQUE CLUSTERED INDEX by_customer ON dbo.customer (customer_sk)")?;
    lab.run(&format!(
        "INSERT INTO dbo.customer SELECT CAST(value AS int), CAST(36 + value % 15 AS int) \
         FROM GENERATE_SERIES(0, {})",
        CUSTOMERS - 1
    ))?;
    for years in Years::BOTH {
        for definition in years.definitions() {
            lab.run(&definition)?;
        }
        lab.run(&format!(
            "INSERT INTO dbo.{} (date_sk, customer_sk, measure) \
             SELECT CAST({FIRST_DAY} + d.value AS int), o.customer_sk, o.measure \
             FROM GENERATE_SERIES(0, {}) d CROSS JOIN dbo.one_day o",
            years.fact(),
            DAYS - 1
        ))?;
        for batch in before_night(years) {
            lab.run(&batch)?;
        }
        lab.run(&load(years, NEW_DAY))?;
        let (found, wanted) = (lab.row_count(years.fact())?, rows * (DAYS + 1));
        if found != wanted {
            let fact = years.fact();
            return Err(LabError::Wrong(format!("the table {fact} was to have {wanted} rows and has {found}")));
        }
    }
    lab.run("CHECKPOINT")?;
    Ok(())
}

/// Creates the table whose histogram is put into the fact tables: two values per year from 1950 on that are not days,
/// and a row count that is set, not counted. Its pages are not all read, so the set count is used.
///
/// # Errors
/// If a statement failed.
pub(super) fn build_implant(lab: &mut Laboratory) -> Result<()> {
    for batch in [
        "CREATE TABLE dbo.implant (date_sk int NOT NULL, payload char(1000) NOT NULL DEFAULT 'X')",
        "CREATE CLUSTERED INDEX by_day ON dbo.implant (date_sk)",
        "INSERT INTO dbo.implant (date_sk) SELECT CAST((1950 + y.value) * 10000 + h.value * 5000 AS int) \
         FROM GENERATE_SERIES(0, 99) y CROSS JOIN GENERATE_SERIES(0, 1) h CROSS JOIN GENERATE_SERIES(1, 100) r",
        "UPDATE STATISTICS dbo.implant WITH ROWCOUNT = 199000000",
        "UPDATE STATISTICS dbo.implant WITH SAMPLE 99 PERCENT",
    ] {
        lab.run(batch)?;
    }
    Ok(())
}

/// The statistics of a table's clustered index as a stream, written as a T-SQL constant.
///
/// # Errors
/// If the statement failed or returned nothing.
pub(super) fn stream_of(lab: &mut Laboratory, table: &str) -> Result<String> {
    let answer = lab.run(&format!("DBCC SHOW_STATISTICS ('dbo.{table}', 'by_day') WITH STATS_STREAM"))?;
    let rows = answer.rows();
    let stream = rows.first().and_then(|row| row.first().cloned().flatten());
    let stream = stream.ok_or_else(|| LabError::Wrong(format!("the statistics of {table} gave no stream")))?;
    Ok(format!("0x{}", stream.trim_start_matches("0x")))
}

/// Pages of a table, according to the catalog.
///
/// # Errors
/// If the statement failed or returned nothing.
pub(super) fn pages_of(lab: &mut Laboratory, table: &str) -> Result<u64> {
    let answer = lab.run(&format!(
        "SELECT SUM(in_row_data_page_count) FROM sys.dm_db_partition_stats \
         WHERE object_id = OBJECT_ID('dbo.{table}') AND index_id < 2"
    ))?;
    answer.count().ok_or_else(|| LabError::Wrong(format!("the pages of {table} are not told")))
}
