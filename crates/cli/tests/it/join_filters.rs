//! A query with join filters returns the same rows as without them.

use hobt::{Instance, Session};
use hobt_base::SplitMix64;

use crate::client::{number, pick, rows, setting};

/// The rows of a batch, sorted, or the first error.
fn sorted(session: &mut Session, batch: &str) -> Result<Vec<Vec<String>>, String> {
    let mut rows = rows(session, batch).map_err(|error| format!("{}: {}", error.number, error.message))?;
    rows.sort_unstable();
    Ok(rows)
}

/// The tables: `f` has some pages of rows, `g` and `h` have few rows. All have the columns `i s b t n d u` and no key.
fn tables(seed: u64) -> Vec<String> {
    let columns = |rows: u32, spread: u64| {
        format!(
            "SELECT value AS id, CASE WHEN value % 11 = 0 THEN NULL ELSE value * 7 % {spread} - 3 END AS i,
             CAST(value * 3 % {spread} AS smallint) AS s, CAST(value % {spread} AS bigint) * 1000000007 AS b,
             CAST(CASE WHEN value % 13 <> 0 THEN 'Key' + CAST(value * 5 % {spread} AS varchar(9)) END AS varchar(20)) AS t,
             CAST(value % {spread} AS decimal(20, 3)) / 8 AS n,
             DATEADD(day, value % {spread}, CAST('20240101' AS date)) AS d,
             CAST(CAST(value % {spread} AS binary(16)) AS uniqueidentifier) AS u, REPLICATE('x', value % 40) AS filler
             FROM GENERATE_SERIES(1, {rows})"
        )
    };
    let into = |table: &str, rows, spread| columns(rows, spread).replacen(" FROM ", &format!(" INTO {table} FROM "), 1);
    let mut batches = vec![into("g", 300, 250), into("h", 40, 90)];
    match seed % 4 {
        0 => batches.push(into("f", 6000, 900)),
        1 => batches.extend([into("f", 6000, 900), "CREATE CLUSTERED INDEX c ON f (i)".to_owned()]),
        2 => batches.extend([into("f", 6000, 900), "CREATE CLUSTERED INDEX c ON f (b DESC, i)".to_owned()]),
        _ => batches.extend([
            "CREATE PARTITION FUNCTION pf (int) AS RANGE LEFT FOR VALUES (0, 100, 300, 301, 800)".to_owned(),
            "CREATE PARTITION SCHEME ps AS PARTITION pf ALL TO ([PRIMARY])".to_owned(),
            "CREATE TABLE f (id int, i int NULL, s smallint, b bigint, t varchar(20), n decimal(29, 11), d date,
             u uniqueidentifier, filler varchar(40)) ON ps (i)"
                .to_owned(),
            format!("INSERT f {}", columns(6000, 900)),
        ]),
    }
    if seed % 3 == 1 {
        // Rows of `f` are looked up before it is known that there are too many.
        batches.extend(["g", "h"].map(|table| format!("CREATE CLUSTERED INDEX c ON {table} (i)")));
    }
    batches.push("DELETE f WHERE id % 17 = 5".to_owned());
    batches
}

fn condition(random: &mut SplitMix64, of: &str) -> String {
    let number = random.below(250);
    match random.below(7) {
        0 => format!("{of}.s % {} = 1", 2 + number % 40),
        1 => format!("{of}.t LIKE '%{}'", number % 30),
        2 => format!("{of}.i BETWEEN {number} AND {}", number + random.below(60)),
        3 => format!("{of}.id < {number}"),
        4 => format!("{of}.n > {}.5", number % 32),
        5 => format!("({of}.i IS NULL OR {of}.s = {number})"),
        _ => "1 = 1".to_owned(),
    }
}

/// The join condition of two sources.
fn equation(random: &mut SplitMix64, left: &str, right: &str) -> String {
    let one = |random: &mut SplitMix64| {
        let column = pick(random, &["i", "s", "b", "t", "n", "d", "u", "i", "i"]);
        match random.below(8) {
            0 => format!("{left}.s = {right}.i"),
            1 => format!("{left}.i = {right}.b / 1000000007"),
            2 => format!("{left}.n = {right}.i"),
            3 => format!(
                "({left}.{column} = {right}.{column} OR ({left}.{column} IS NULL AND {right}.{column} IS NULL))"
            ),
            _ => format!("{left}.{column} = {right}.{column}"),
        }
    };
    match random.below(4) {
        0 => format!("{} AND {}", one(random), one(random)),
        1 => format!("{} AND {left}.id <> {right}.id", one(random)),
        _ => one(random),
    }
}

/// A source of rows of `f` or another table, with this name.
fn source(random: &mut SplitMix64, table: &str, name: &str) -> String {
    let filter = condition(random, "x");
    match random.below(6) {
        0 => format!("(SELECT x.* FROM {table} x WHERE {filter}) {name}"),
        1 => format!(
            "(SELECT MIN(id) id, i, s, b, t, n, d, u FROM {table} x WHERE {filter} GROUP BY i, s, b, t, n, d, u) {name}"
        ),
        2 => format!("(SELECT x.*, COUNT(*) OVER (PARTITION BY i) c FROM {table} x) {name}"),
        3 => format!(
            "(SELECT id, i, s, b, t, n, d, u FROM {table} x
              UNION ALL SELECT id, s, s, b, t, n, d, u FROM {table} x WHERE {filter}) {name}"
        ),
        _ => format!("{table} {name}"),
    }
}

fn query(random: &mut SplitMix64) -> String {
    let kinds =
        ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "INNER HASH JOIN", "LEFT HASH JOIN", "INNER LOOP JOIN"];
    let kind = pick(random, &kinds);
    let few = pick(random, &["g", "h"]);
    let (one, other) = (source(random, "f", "f"), source(random, few, "g"));
    let (one, other) = if random.below(2) == 0 { (one, other) } else { (other, one) };
    let on = equation(random, "f", "g");
    let (first, second) = (condition(random, "g"), condition(random, "f"));
    let show =
        "COUNT(*), COUNT(f.id), COUNT(g.id), SUM(CAST(f.id AS bigint)), SUM(CAST(g.id AS bigint)), MIN(f.t), MAX(g.t)";
    match random.below(7) {
        0 => format!(
            "SELECT COUNT(*), SUM(CAST(f.id AS bigint)) FROM {} WHERE EXISTS (SELECT * FROM {} WHERE {on} AND {first})",
            source(random, "f", "f"),
            source(random, "g", "g")
        ),
        1 => format!(
            "SELECT COUNT(*), SUM(CAST(g.id AS bigint)) FROM {}
             WHERE NOT EXISTS (SELECT * FROM {} WHERE {on} AND {second})",
            source(random, "g", "g"),
            source(random, "f", "f")
        ),
        2 => format!(
            "SELECT COUNT(*), SUM(CAST(f.id AS bigint)) FROM {} WHERE f.i {} (SELECT g.i FROM g WHERE {first})",
            source(random, "f", "f"),
            pick(random, &["IN", "NOT IN"])
        ),
        3 => format!(
            "SELECT COUNT(*), SUM(CAST(g.id AS bigint)) FROM {} WHERE g.i {} (SELECT f.i FROM f WHERE {second})",
            source(random, "g", "g"),
            pick(random, &["IN", "NOT IN"])
        ),
        4 => {
            let more = equation(random, "f", "k");
            let kind_of_more = pick(random, &["JOIN", "LEFT JOIN", "RIGHT JOIN"]);
            format!(
                "SELECT {show}, COUNT(k.id) FROM {one} {kind} {other} ON {on} {kind_of_more} {} ON {more}
                 WHERE {first}",
                source(random, "h", "k")
            )
        }
        _ => format!("SELECT {show} FROM {one} {kind} {other} ON {on} WHERE {first} AND {second}"),
    }
}

/// Runs `HOBT_FILTER_SEEDS` seeds, beginning with `HOBT_SEED`.
#[test]
fn a_join_gives_the_same_with_and_without_its_filter() {
    let (first, count) = (setting("HOBT_SEED", 0), setting("HOBT_FILTER_SEEDS", 4));
    let (mut removed, mut answered) = (0, 0);
    for seed in first..first + count {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let instance = Instance::open(folder.path()).expect("an instance");
        let mut session = instance.session().expect("a session");
        session.run("CREATE DATABASE d; USE d").expect("a database");
        for batch in tables(seed) {
            session.run(&batch).unwrap_or_else(|error| panic!("seed {seed}: {}\n{batch}", error.message));
        }
        let mut random = SplitMix64::new(seed);
        for _ in 0..60 {
            let query = query(&mut random);
            let dop = 1 + random.below(2);
            let with = sorted(&mut session, &format!("{query} OPTION (MAXDOP {dop})"));
            let left_out = "SELECT COALESCE(SUM(rows_removed + pages_skipped), 0)
                FROM sys.hobt_query_filters WHERE session_id = @@SPID";
            removed += number(&mut session, left_out).unsigned_abs();
            let hint = "USE HINT('HOBT_DISABLE_JOIN_FILTER')";
            let without = sorted(&mut session, &format!("{query} OPTION (MAXDOP {dop}, {hint})"));
            answered += u64::from(with.is_ok());
            assert_eq!(with, without, "seed {seed}\n{query}");
        }
    }
    assert!(answered > 40 * count, "{answered} queries of {} were answered", 60 * count);
    assert!(removed > 10_000 * count, "filters left out {removed} rows and pages: too few to say anything");
}
