//! Whatever index a statement goes by, it finds what a scan of the table finds, in the order that it asks for.

use hobt::{Instance, Session};
use hobt_base::SplitMix64;

use crate::client::answer;

/// The rows that a batch sends, or the first error.
fn rows(session: &mut Session, batch: &str) -> Result<Vec<Vec<String>>, String> {
    let (rows, failed) = answer(session, batch);
    match failed {
        Some(error) => Err(format!("{}: {}", error.number, error.message)),
        None => Ok(rows
            .into_iter()
            .map(|row| row.into_iter().map(|cell| cell.unwrap_or("NULL".to_owned())).collect())
            .collect()),
    }
}

fn ok(session: &mut Session, batch: &str) -> Vec<Vec<String>> {
    rows(session, batch).unwrap_or_else(|error| panic!("{error}\n{batch}"))
}

fn pick<'a>(random: &mut SplitMix64, from: &[&'a str]) -> &'a str {
    from[usize::try_from(random.below(from.len() as u64)).expect("few")]
}

/// A literal of a column's kind, with a liking for those that are there, for the edges, and for NULL.
fn literal(random: &mut SplitMix64, column: &str) -> String {
    let number = random.below(60);
    match column {
        "i" => pick(random, &["0", "7", "29", "-1", "2147483647", "3000000000", "NULL", "15", "30"]).to_owned(),
        "s" => pick(random, &["3", "-1", "40000", "-40000", "9", "NULL"]).to_owned(),
        "t" => format!("{}'{}{}'", pick(random, &["", "N"]), pick(random, &["a", "B", "", "zz", "Ab "]), number % 4),
        "d" => format!("'2024-01-{:02}'", 1 + number % 28),
        "n" => format!("{}.{}", number % 7, number % 10),
        "b" => pick(random, &["0x", "0x00", "0x01", "0x0100", "0xFF", "0x0102"]).to_owned(),
        _ => format!("{number}"),
    }
}

fn condition(random: &mut SplitMix64) -> String {
    let column = pick(random, &["i", "s", "t", "d", "n", "b", "i", "t"]);
    let operator = pick(random, &["=", "<", "<=", ">", ">=", "="]);
    match random.below(8) {
        0 => format!("{column} BETWEEN {} AND {}", literal(random, column), literal(random, column)),
        1 => {
            let values: Vec<String> = (0..1 + random.below(4)).map(|_| literal(random, column)).collect();
            format!("{column} IN ({})", values.join(", "))
        }
        2 => format!("{column} IS NULL"),
        3 => format!("({column} = {} OR {column} = {})", literal(random, column), literal(random, column)),
        4 => format!("{} {operator} {column}", literal(random, column)),
        _ => format!("{column} {operator} {}", literal(random, column)),
    }
}

/// Statements that make the table, each time with other indexes.
fn indexes(seed: u64) -> &'static [&'static str] {
    match seed % 4 {
        0 => &["CREATE UNIQUE CLUSTERED INDEX c ON t (id)", "CREATE INDEX x ON t (i, t DESC) INCLUDE (n)"],
        1 => &["CREATE CLUSTERED INDEX c ON t (t DESC, i)", "CREATE INDEX x ON t (s)", "CREATE INDEX y ON t (d DESC)"],
        2 => &["CREATE INDEX x ON t (i DESC)", "CREATE INDEX y ON t (b, n)", "CREATE INDEX z ON t (t)"],
        _ => &[
            "CREATE CLUSTERED INDEX c ON t (i, id) ON ps (i)",
            "CREATE INDEX x ON t (n, i)",
            "CREATE UNIQUE INDEX u ON t (id) ON [PRIMARY]",
        ],
    }
}

const MAKE: &str = "CREATE TABLE t (id int NOT NULL, i int NULL, s smallint NULL, t varchar(12) NULL, d date NULL, \
     n decimal(9, 2) NULL, b varbinary(4) NULL);
     INSERT t SELECT value, NULLIF(value % 31, 3), NULLIF(value % 17, 5), \
         CASE WHEN value % 13 = 0 THEN NULL ELSE CHAR(97 + value % 5) + CAST(value % 4 AS varchar(4)) END, \
         DATEADD(day, value % 40, '2023-12-20'), NULLIF(value % 70, 1) / 10.0, \
         CASE value % 6 WHEN 0 THEN NULL WHEN 1 THEN 0x WHEN 2 THEN 0x01 WHEN 3 THEN 0x0100 WHEN 4 THEN 0x00 ELSE 0x0102 END \
     FROM GENERATE_SERIES(1, 900)";

#[test]
fn an_index_finds_what_a_scan_finds() {
    let folder = tempfile::tempdir().expect("a folder");
    let instance = Instance::open(folder.path()).expect("opened");
    let mut session = instance.session().expect("a session");
    ok(&mut session, "CREATE DATABASE d");
    ok(&mut session, "USE d; CREATE PARTITION FUNCTION pf (int) AS RANGE RIGHT FOR VALUES (5, 10, 20)");
    ok(&mut session, "CREATE PARTITION SCHEME ps AS PARTITION pf ALL TO ([PRIMARY])");
    let mut random = SplitMix64::new(20);
    for seed in 0..4 {
        ok(&mut session, "DROP TABLE IF EXISTS t");
        ok(&mut session, MAKE);
        for index in indexes(seed) {
            ok(&mut session, index);
        }
        // What the trees hold is not only what was built.
        ok(&mut session, "UPDATE t SET i = i + 1, t = t + 'x' WHERE id % 9 = 2; DELETE t WHERE id % 11 = 4");
        ok(&mut session, "INSERT t SELECT id + 1000, i, s, t, d, n, b FROM t WHERE id % 5 = 1");
        for _ in 0..16 {
            let count = 1 + random.below(3);
            let conditions: Vec<String> = (0..count).map(|_| condition(&mut random)).collect();
            let conditions = conditions.join(" AND ");
            let column = pick(&mut random, &["id", "i", "n", "d, id", "t"]);
            let found = |session: &mut Session, hint: &str| {
                let mut found = ok(session, &format!("SELECT id, {column} FROM t {hint} WHERE {conditions}"));
                found.sort();
                found
            };
            let scanned = found(&mut session, "WITH (FORCESCAN)");
            assert_eq!(found(&mut session, ""), scanned, "{conditions}, indexes {seed}");
            let hint = format!("WITH (INDEX({}))", pick(&mut random, &["x", "x", "0"]));
            assert_eq!(found(&mut session, &hint), scanned, "{conditions}, {hint}, indexes {seed}");
            // The same order, if it is one of all rows.
            let direction = pick(&mut random, &["", "DESC"]);
            let by = pick(&mut random, &["i", "s", "d", "n", "id", "i DESC, id", "t"]);
            let top = pick(&mut random, &["", "TOP 5", "TOP 50"]);
            let ordered = |session: &mut Session, hint: &str| {
                let query = format!(
                    "SELECT {top} {by_column} FROM t {hint} WHERE {conditions} ORDER BY {by} {direction}",
                    by_column = by.replace(" DESC", "")
                );
                ok(session, &query)
            };
            let scanned = ordered(&mut session, "WITH (FORCESCAN)");
            assert_eq!(ordered(&mut session, ""), scanned, "{conditions}, by {by} {direction} {top}, indexes {seed}");
        }
        let all = |session: &mut Session, hint: &str| {
            ok(session, &format!("SELECT TOP 40 i, id FROM t {hint} ORDER BY i, id"))
        };
        assert_eq!(all(&mut session, ""), all(&mut session, "WITH (FORCESCAN)"), "indexes {seed}");
    }
}
