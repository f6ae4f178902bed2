//! How evenly a function spreads keys: over 65,536 ranges of `int` by the chi-square test, and over partitions.

use hobt_base::SplitMix64;
use serde_json::json;

use super::functions::{FUNCTIONS, Function, KeyType};
use crate::connection::Answer;
use crate::error::{LabError, Result};
use crate::laboratory::Laboratory;
use crate::report::Case;

/// Ranges of `int`, each with the same number of values.
pub(super) const RANGES: u64 = 65_536;
/// The value that chi-square of random values does not exceed in 999 of 1,000 tries: three standard deviations above
/// its 65,535 degrees of freedom.
pub(super) const EVEN: f64 = 66_621.0;
/// The tested numbers of partitions.
pub(super) const PARTITIONS: [u64; 2] = [24, 96];

/// The keys: columns of the table of keys.
pub(super) const KEYS: [(&str, KeyType); 4] =
    [("sequential", KeyType::Int), ("strided", KeyType::Int), ("yyyymmdd", KeyType::Int), ("string", KeyType::Text)];

/// The statements that create and fill the table of keys.
pub(super) fn keys_table(rows: u64) -> [String; 2] {
    let columns = "sequential int NOT NULL, strided int NOT NULL, yyyymmdd int NOT NULL, string nvarchar(20) NOT NULL";
    let day = "DATEADD(DAY, value, CAST('1900-01-01' AS date))";
    [
        format!("CREATE TABLE dbo.HashKeys ({columns})"),
        format!(
            "INSERT dbo.HashKeys WITH (TABLOCK) SELECT value, value * 1000, CAST(CONVERT(char(8), {day}, 112) AS int), {} \
             FROM GENERATE_SERIES(1, {rows})",
            name_of("value")
        ),
    ]
}

/// A customer's name, by number.
pub(super) fn name_of(number: &str) -> String {
    format!("CONCAT(N'Customer#', RIGHT(CONCAT(N'00000000', {number}), 9))")
}

/// The tested functions, each with the keys that it accepts.
pub(super) fn pairs() -> impl Iterator<Item = (&'static Function, &'static str, KeyType)> {
    FUNCTIONS.iter().flat_map(|function| {
        KEYS.iter().filter(|&&(key, of)| function.spread(key, of).is_some()).map(move |&(key, of)| (function, key, of))
    })
}

/// The case of a function and a key.
pub(super) fn case_name(function: &str, key: &str) -> String {
    format!("spread_{function}_{key}")
}

/// Measures the spread of one column of the keys.
///
/// # Errors
/// If a statement failed.
pub(super) fn spread(lab: &mut Laboratory, function: &Function, (key, of): (&str, KeyType), rows: u64) -> Result<Case> {
    let name = case_name(function.name, key);
    let expressions = function.spread(key, of).zip(function.timed(key, of));
    let (hash, plain) = expressions.ok_or_else(|| LabError::Wrong(format!("{name} has no expression")))?;
    // The int shifted by 2³¹, so that a division gives the range.
    let range = format!("(CAST({hash} AS bigint) + CAST(2147483648 AS bigint)) / {RANGES}");
    let counted = |group: &str| {
        format!(
            "SELECT COUNT(*), SUM(CAST(n AS bigint) * n), MAX(n), MIN(n), SUM(CAST(n AS bigint)) FROM (SELECT COUNT(*) AS n FROM \
             (SELECT {group} AS g FROM dbo.HashKeys) AS k GROUP BY g) AS c"
        )
    };
    let statement = counted(&range);
    let [filled, squares, fullest, _, counted_rows] = figures(&lab.run(&statement)?)?;
    let mut case = Case { rows, ..Case::new(name, statement) };
    if counted_rows != rows as f64 {
        return Err(LabError::Wrong(format!("{} spread {counted_rows} of {rows} rows", case.name)));
    }
    put(&mut case, "chi_square", chi_square(squares, rows));
    put(&mut case, "ranges_filled", filled);
    put(&mut case, "rows_of_fullest_range", fullest);
    for partitions in PARTITIONS {
        let partition = format!("ABS({plain} % {partitions})");
        let [filled, squares, fullest, ..] = figures(&lab.run(&counted(&partition))?)?;
        let even = rows as f64 / partitions as f64;
        put(&mut case, &format!("partitions_filled_of_{partitions}"), filled);
        put(&mut case, &format!("fullest_over_even_of_{partitions}"), fullest / even);
        let spread = (squares / partitions as f64 - even * even).max(0.0).sqrt();
        put(&mut case, &format!("deviation_over_even_of_{partitions}"), spread / even);
    }
    Ok(case)
}

fn put(case: &mut Case, key: &str, value: f64) {
    case.figures.insert(key.to_owned(), json!(value));
}

/// The first row as numbers.
fn figures(answer: &Answer) -> Result<[f64; 5]> {
    let row = answer.rows().into_iter().next().unwrap_or_default();
    let numbers: Option<Vec<f64>> = row.iter().map(|cell| cell.as_deref()?.parse().ok()).collect();
    numbers
        .and_then(|numbers| numbers.try_into().ok())
        .ok_or_else(|| LabError::Wrong(format!("counting ranges gave {row:?}")))
}

/// Chi-square of counts over all ranges, empty ones too, from the sum of their squares.
fn chi_square(squares: f64, rows: u64) -> f64 {
    // The sum of (n - e)² / e over all ranges, where the n add up to the number of rows, and e is rows divided by
    // ranges.
    let expected = rows as f64 / RANGES as f64;
    squares / expected - rows as f64
}

/// Chi-square of random numbers, of one seed.
pub(super) fn of_random(rows: u64) -> f64 {
    let mut random = SplitMix64::new(20_111_106);
    let mut counts = vec![0u64; usize::try_from(RANGES).expect("a small number")];
    for _ in 0..rows {
        counts[usize::try_from(random.next_u64() % RANGES).expect("below the ranges")] += 1;
    }
    chi_square(counts.iter().map(|count| (count * count) as f64).sum(), rows)
}

/// The rows in each partition into which `sp_hobt_hash_distribute` puts the keys, from `sys.partitions`.
///
/// # Errors
/// If a statement failed.
pub(super) fn distributed(lab: &mut Laboratory, key: &str, partitions: u64) -> Result<Vec<f64>> {
    let table = format!("HashKeys_{key}_{partitions}");
    let scheme = format!("hash_{partitions}_{table}");
    let drop = format!(
        "DROP TABLE IF EXISTS dbo.{table}; \
         IF EXISTS (SELECT 1 FROM sys.partition_schemes WHERE name = '{scheme}') DROP PARTITION SCHEME {scheme}; \
         IF EXISTS (SELECT 1 FROM sys.partition_functions WHERE name = '{scheme}') DROP PARTITION FUNCTION {scheme}"
    );
    lab.run(&drop)?;
    lab.run(&format!("SELECT {key} INTO dbo.{table} FROM dbo.HashKeys"))?;
    let answer = lab.run(&format!(
        "EXEC sys.sp_hobt_hash_distribute @table = N'dbo.{table}', @column = N'{key}', @partitions = {partitions}"
    ))?;
    let rows = answer.rows().iter().map(|row| row.get(1)?.as_deref()?.parse().ok()).collect::<Option<Vec<f64>>>();
    lab.run(&drop)?;
    rows.filter(|rows| rows.len() as u64 == partitions)
        .ok_or_else(|| LabError::Wrong(format!("{table} was to have {partitions} partitions")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chi_square_of_a_remainder_is_the_texts() {
        // 1,000,000 = 15 · 65,536 + 16,960.
        let squares = 16_960.0 * 256.0 + 48_576.0 * 225.0;
        assert_eq!(chi_square(squares, 1_000_000).round(), 824.0);
    }

    #[test]
    fn random_numbers_are_even_and_one_range_is_not() {
        assert!(of_random(1_000_000) <= EVEN);
        assert!(chi_square(1e12, 1_000_000) > EVEN);
    }
}
