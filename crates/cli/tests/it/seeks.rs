//! For any index that a statement uses, it finds the same rows as a table scan, in the requested order.

use hobt::{Instance, Session};
use hobt_base::SplitMix64;

use crate::client::{ok, pick};

/// A literal of a column's type, often one of the existing values, an edge value or NULL.
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

/// Statements that create the table with indexes that depend on the seed.
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

fn create_database(session: &mut Session) {
    ok(session, "CREATE DATABASE d");
    ok(session, "USE d; CREATE PARTITION FUNCTION pf (int) AS RANGE RIGHT FOR VALUES (5, 10, 20)");
    ok(session, "CREATE PARTITION SCHEME ps AS PARTITION pf ALL TO ([PRIMARY])");
}

/// Recreates `t` with the indexes of `seed`, and changes its rows, so that the trees contain more than what was built.
fn make_table(session: &mut Session, seed: u64) {
    ok(session, "DROP TABLE IF EXISTS t");
    ok(session, MAKE);
    for index in indexes(seed) {
        ok(session, index);
    }
    ok(session, "UPDATE t SET i = i + 1, t = t + 'x' WHERE id % 9 = 2; DELETE t WHERE id % 11 = 4");
    ok(session, "INSERT t SELECT id + 1000, i, s, t, d, n, b FROM t WHERE id % 5 = 1");
}

#[test]
fn an_index_finds_what_a_scan_finds() {
    let folder = tempfile::tempdir().expect("a folder");
    let instance = Instance::open(folder.path()).expect("opened");
    let mut session = instance.session().expect("a session");
    create_database(&mut session);
    let mut random = SplitMix64::new(20);
    for seed in 0..4 {
        make_table(&mut session, seed);
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
            // The order must be the same, if it is a total order.
            let direction = pick(&mut random, &["", "DESC"]);
            let by = pick(&mut random, &["i", "s", "d", "n", "id", "i DESC, id", "t", "t, i"]);
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
            let extremes = |session: &mut Session, hint: &str| {
                let (least, greatest) =
                    (by.split([' ', ',']).next().unwrap_or(by), column.split(',').next().unwrap_or(column));
                let filter = if count == 1 { String::new() } else { format!("WHERE {conditions}") };
                ok(session, &format!("SELECT MIN({least}), MAX({greatest}), MAX({least}) FROM t {hint} {filter}"))
            };
            let scanned = extremes(&mut session, "WITH (FORCESCAN)");
            assert_eq!(extremes(&mut session, ""), scanned, "{conditions}, ends of {by} and {column}, indexes {seed}");
        }
        let all = |session: &mut Session, hint: &str| {
            ok(session, &format!("SELECT TOP 40 i, id FROM t {hint} ORDER BY i, id"))
        };
        assert_eq!(all(&mut session, ""), all(&mut session, "WITH (FORCESCAN)"), "indexes {seed}");
    }
}

/// Statements that create the tables of a join.
const MAKE_JOINED: &str = "CREATE TABLE a (id int NOT NULL, i bigint NULL, s smallint NULL, t nvarchar(20) NULL, n decimal(12, 4) NULL);
     INSERT a SELECT value, NULLIF(value % 45, 3), NULLIF(value % 23, 5), \
         CASE WHEN value % 7 = 0 THEN NULL WHEN value % 7 = 1 THEN N'B3' ELSE CHAR(96 + value % 6) + CAST(value % 5 AS varchar(4)) END, \
         NULLIF(value % 90, 1) / 20.0 \
     FROM GENERATE_SERIES(1, 60)";

/// A query that joins `a` with `t`, with placeholders for the hints of `t` and for the join method.
fn join(random: &mut SplitMix64) -> String {
    let equation = |random: &mut SplitMix64| {
        pick(
            random,
            &[
                "t.i = a.i",
                "t.id = a.id",
                "t.s = a.s",
                "t.t = a.t",
                "t.n = a.n",
                "t.i = a.s",
                "a.id = t.i",
                "t.n = a.id",
            ],
        )
    };
    let mut on = equation(random).to_owned();
    for _ in 0..random.below(3) {
        let more = match random.below(5) {
            0 => condition(random)
                .split(' ')
                .map(|word| if is_column(word) { format!("t.{word}") } else { word.to_owned() })
                .collect::<Vec<_>>()
                .join(" "),
            1 => "t.d > DATEADD(day, a.s, '2023-12-22')".to_owned(),
            2 => "t.id % 3 <> a.id % 3".to_owned(),
            _ => equation(random).to_owned(),
        };
        if !more.contains('(') || more.contains("DATEADD") {
            on = format!("{on} AND {more}");
        }
    }
    let outer = pick(random, &["", "WHERE a.id < 9", "WHERE a.id % 5 = 2", "WHERE a.s = 7"]);
    let and = if outer.is_empty() { "WHERE" } else { "AND" };
    match random.below(9) {
        0 | 1 => format!("SELECT a.id, t.id, t.n FROM a INNER{{way}} JOIN t{{hint}} ON {on} {outer}"),
        2 | 3 => format!("SELECT a.id, t.id, t.t FROM a LEFT{{way}} JOIN t{{hint}} ON {on} {outer}"),
        4 => format!("SELECT a.id, 0 FROM a {outer} {and} EXISTS (SELECT * FROM t{{hint}} WHERE {on})"),
        5 => format!("SELECT a.id, 0 FROM a {outer} {and} NOT EXISTS (SELECT * FROM t{{hint}} WHERE {on})"),
        6 => format!("SELECT t.id, 0 FROM t{{hint}} WHERE EXISTS (SELECT * FROM a {outer} {and} {on})"),
        7 => format!(
            "SELECT a.id, (SELECT SUM(t.id) FROM t{{hint}} WHERE {equation}) FROM a {outer}",
            equation = equation(random)
        ),
        _ => format!(
            "SELECT a.id, x.id FROM a CROSS APPLY (SELECT TOP (2) t.id FROM t{{hint}} WHERE {equation} ORDER BY t.id DESC) x {outer}",
            equation = equation(random)
        ),
    }
}

fn is_column(word: &str) -> bool {
    ["i", "s", "t", "d", "n", "b"].contains(&word)
}

#[test]
fn a_join_by_an_index_finds_what_a_hash_join_finds() {
    let folder = tempfile::tempdir().expect("a folder");
    let instance = Instance::open(folder.path()).expect("opened");
    let mut session = instance.session().expect("a session");
    create_database(&mut session);
    ok(&mut session, MAKE_JOINED);
    let mut random = SplitMix64::new(21);
    let mut looked_up = 0;
    for seed in 0..4 {
        make_table(&mut session, seed);
        for _ in 0..9 {
            let query = join(&mut random);
            let found = |session: &mut Session, hint: &str, way: &str, option: &str| {
                let text = query.replace("{hint}", hint).replace("{way}", way);
                let mut found = ok(session, &format!("{text} {option}"));
                found.sort();
                found
            };
            let hashed = found(&mut session, " WITH (FORCESCAN)", "", "");
            assert_eq!(found(&mut session, "", "", "OPTION (LOOP JOIN)"), hashed, "{query}, indexes {seed}, loops");
            let operators =
                "SELECT COUNT(*) FROM sys.dm_exec_query_profiles WHERE physical_operator_name = 'Nested Loops'";
            looked_up += usize::from(ok(&mut session, operators)[0][0] != "0");
            assert_eq!(found(&mut session, "", "", ""), hashed, "{query}, indexes {seed}");
            assert_eq!(found(&mut session, "", " LOOP", ""), hashed, "{query}, indexes {seed}, LOOP");
            assert_eq!(found(&mut session, "", "", "OPTION (HASH JOIN)"), hashed, "{query}, indexes {seed}, HASH");
            let locked = found(&mut session, " WITH (REPEATABLEREAD)", "", "OPTION (LOOP JOIN)");
            assert_eq!(locked, hashed, "{query}, indexes {seed}, under locks");
        }
    }
    assert!(looked_up > 16, "{looked_up} joins were looked up");
}
