//! The tables: facts of every common type, and a small dimension. They are those of `bench/peers/operators.py`, by the
//! same formulas.

use crate::error::Result;
use crate::laboratory::Laboratory;

pub(super) const FACTS: &str = "OperatorFact";
const DIMENSION: &str = "OperatorDimension";

/// Approximate bytes of a fact on its page, for choosing a size.
pub(super) const ROW_BYTES: u64 = 100;
/// Rows of the dimension. A tenth of its keys occurs among the facts.
const MEMBERS: u64 = 10 * KEYS;
/// Different keys of the facts, short texts, long texts.
const KEYS: u64 = 1_000;
const CITIES: u64 = 300;
const WORDS: u64 = 1_000_000;
/// A prime above any number of rows, so that every `u` differs.
const PRIME: u64 = 2_147_483_647;

/// The columns of the facts with their types.
pub(super) const FACT_COLUMNS: [(&str, &str); 10] = [
    ("id", "bigint NOT NULL"),
    ("k", "int NOT NULL"),
    ("u", "int NOT NULL"),
    ("city", "varchar(30) NOT NULL"),
    ("word", "varchar(30) NOT NULL"),
    ("d", "date NOT NULL"),
    ("amount", "decimal(12, 2) NOT NULL"),
    ("price", "float NOT NULL"),
    ("digits", "varchar(12) NOT NULL"),
    ("note", "varchar(60) NULL"),
];

/// Steps of [`ensure`].
pub(super) const STEPS: u64 = 2;

/// Creates both tables.
pub(super) fn ensure(lab: &mut Laboratory, rows: u64) -> Result<()> {
    let columns: Vec<String> = FACT_COLUMNS.iter().map(|(name, of)| format!("{name} {of}")).collect();
    // The multipliers have no divisor in common with what is divided by, so that values appear unordered and equally
    // often.
    let facts = [
        format!("CREATE TABLE dbo.{FACTS} ({})", columns.join(", ")),
        format!(
            "INSERT dbo.{FACTS} WITH (TABLOCK) SELECT value, CAST(value * 48271 % {KEYS} AS int), \
             CAST(value * 7919 % {PRIME} AS int), CONCAT('City of ', value * 7919 % {CITIES}), \
             CONCAT('w', value * 104729 % {WORDS}, 'x'), \
             DATEADD(day, CAST(value * 31337 % 3650 AS int), CAST('2015-01-01' AS date)), \
             CAST(CAST(value * 1299709 % 1000000 AS decimal(12, 2)) / 100 AS decimal(12, 2)), \
             CAST(value * 15485863 % 100000 AS float) / 7, CAST(value * 32452843 % 10000000 AS varchar(12)), \
             CASE WHEN value % 50 = 0 THEN NULL \
             WHEN value % 97 = 3 THEN CONCAT('a note with a needle in it ', value % 1013) \
             ELSE CONCAT('a note without it, number ', value % 1013) END \
             FROM GENERATE_SERIES(CAST(1 AS bigint), CAST({rows} AS bigint))"
        ),
    ];
    lab.ensure_table(FACTS, rows, &facts)?;
    let members = [
        format!("CREATE TABLE dbo.{DIMENSION} (k int NOT NULL, grp int NOT NULL, city varchar(30) NOT NULL)"),
        format!(
            "INSERT dbo.{DIMENSION} SELECT value, value % 100, CONCAT('City of ', value) \
             FROM GENERATE_SERIES(0, {})",
            MEMBERS - 1
        ),
    ];
    lab.ensure_table(DIMENSION, MEMBERS, &members)
}

/// The statement that looks at every value of these columns of the facts and does as little as possible with it: the
/// greatest number, the greatest length of a text. Without columns it counts.
pub(super) fn scan_of(columns: &[&str]) -> String {
    let of_column = |column: &&str| {
        let is_text = FACT_COLUMNS.iter().any(|(name, of)| name == column && of.starts_with("varchar"));
        if is_text { format!("MAX(LEN({column}))") } else { format!("MAX({column})") }
    };
    let aggregates: Vec<String> = columns.iter().map(of_column).collect();
    let aggregates = if aggregates.is_empty() { "COUNT(*)".to_owned() } else { aggregates.join(", ") };
    format!("SELECT {aggregates} FROM {FACTS}")
}
