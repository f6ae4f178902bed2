//! What estimates know about variables and parameters, and how hints change that, read from `SHOWPLAN_ALL`. Also merge
//! joins.

use hobt::{Instance, Session};
use hobt_base::SplitMix64;

use crate::client::{answer, instance_with, pick};

/// 10,000 rows: `v` is 0 in 9,000 of them, and one of 1,000 other values in each of the rest.
const SKEWED: &str = "
    CREATE TABLE t (id int NOT NULL CONSTRAINT pk PRIMARY KEY, v int NOT NULL, s varchar(20) NOT NULL, d date NOT NULL);
    INSERT INTO t SELECT value, IIF(value <= 9000, 0, value - 9000), IIF(value <= 9000, 'many', CONCAT('s', value)),
        DATEADD(DAY, value % 100, '20200101')
    FROM GENERATE_SERIES(1, 10000);
    CREATE STATISTICS sv ON t (v); CREATE STATISTICS ss ON t (s); CREATE STATISTICS sd ON t (d);";

/// The rows for an average value of `v`: all rows divided by the distinct values.
const AVERAGE: f64 = 10_000.0 / 1_001.0;

fn session_of(instance: &Instance) -> Session {
    let mut session = instance.session().expect("a session");
    session.run("USE d").expect("the database");
    session.run("EXEC sp_configure 'max degree of parallelism', 1; RECONFIGURE").expect("an option");
    session
}

/// The estimated rows of the operator that reads the table, in the last statement of a batch.
fn expected(session: &mut Session, batch: &str) -> f64 {
    session.run("SET SHOWPLAN_ALL ON").expect("an option");
    let (rows, failed) = answer(session, batch);
    session.run("SET SHOWPLAN_ALL OFF").expect("an option");
    assert_eq!(failed, None, "{batch}");
    let is_read = |row: &&Vec<Option<String>>| {
        row[4].as_deref().is_some_and(|operator| operator.contains("Scan") || operator.contains("Seek"))
    };
    let last = rows.iter().rfind(is_read).unwrap_or_else(|| panic!("no table is read: {rows:?}"));
    last[8].as_deref().and_then(|rows| rows.parse().ok()).expect("a number of rows")
}

fn check(session: &mut Session, batch: &str, rows: f64) {
    let found = expected(session, batch);
    // Distinct values are counted by a sketch, and rows are whole numbers.
    assert!((found / rows - 1.0).abs() < 0.15, "{found} in place of {rows}: {batch}");
}

#[test]
fn estimates_know_no_variable_of_the_batch_unless_it_is_compiled_for_it() {
    let (_folder, instance) = instance_with(SKEWED);
    let session = &mut session_of(&instance);
    let query = |rest: &str| format!("DECLARE @v int = 0; SELECT s FROM t WHERE v = @v {rest}");
    check(session, "SELECT s FROM t WHERE v = 0", 9000.0);
    check(session, &query(""), AVERAGE);
    check(session, &query("OPTION (RECOMPILE)"), 9000.0);
    check(session, &query("OPTION (OPTIMIZE FOR (@v = 5))"), 1.0);
    check(session, &query("OPTION (OPTIMIZE FOR (@v = 0))"), 9000.0);
    check(session, &query("OPTION (OPTIMIZE FOR (@v UNKNOWN), RECOMPILE)"), AVERAGE);
    check(session, &query("OPTION (OPTIMIZE FOR UNKNOWN, RECOMPILE)"), AVERAGE);
    check(session, &query("OPTION (OPTIMIZE FOR UNKNOWN, OPTIMIZE FOR (@v = 0))"), 9000.0);
    check(session, "DECLARE @v int = 0; SELECT s FROM t WHERE v > @v", 3000.0);
    let both = 10_000.0 * 0.3 * 0.3_f64.sqrt();
    check(session, "DECLARE @a int = 1, @b int = 2; SELECT s FROM t WHERE v BETWEEN @a AND @b", both);
    check(session, "DECLARE @a int = 1, @b int = 2; SELECT s FROM t WHERE v IN (@a, @b)", 2.0 * AVERAGE);
}

#[test]
fn what_is_computed_of_a_variable_is_as_unknown() {
    let (_folder, instance) = instance_with(SKEWED);
    let session = &mut session_of(&instance);
    check(session, "DECLARE @v smallint = 0; SELECT s FROM t WHERE v = @v * 2", AVERAGE);
    check(session, "DECLARE @v int = 0; SELECT s FROM t WHERE v = @v * 2 OPTION (RECOMPILE)", 9000.0);
    check(session, "DECLARE @v int = 0; SELECT s FROM t WHERE v = @v + 1 OPTION (OPTIMIZE FOR (@v = -1))", 9000.0);
    check(session, "DECLARE @s nvarchar(20) = N'many'; SELECT v FROM t WHERE s = @s", AVERAGE);
    check(
        session,
        "DECLARE @s varchar(20) = 'x'; SELECT v FROM t WHERE s = @s OPTION (OPTIMIZE FOR (@s = 'many'))",
        9000.0,
    );
    check(session, "DECLARE @d date = '20200101'; SELECT v FROM t WHERE d >= DATEADD(DAY, -1, @d)", 3000.0);
    check(
        session,
        "DECLARE @d date = '20190101'; SELECT v FROM t WHERE d < DATEADD(DAY, 1, @d) OPTION (OPTIMIZE FOR (@d = '20200110'))",
        1000.0,
    );
}

#[test]
fn estimates_know_what_parameters_were_given() {
    let (_folder, instance) = instance_with(SKEWED);
    let session = &mut session_of(&instance);
    session.run("CREATE PROCEDURE p @v int AS SELECT s FROM t WHERE v = @v").expect("a procedure");
    session.run("CREATE PROCEDURE q @v int AS SET @v = 5; SELECT s FROM t WHERE v = @v").expect("a procedure");
    session
        .run("CREATE PROCEDURE r @v int AS SET @v = 5; SELECT s FROM t WHERE v = @v OPTION (RECOMPILE)")
        .expect("a procedure");
    session.run("CREATE PROCEDURE l @v int AS DECLARE @w int = @v; SELECT s FROM t WHERE v = @w").expect("a procedure");
    check(session, "EXEC p 0", 9000.0);
    check(session, "EXEC p 5", 1.0);
    check(session, "EXEC q 0", 9000.0);
    check(session, "EXEC r 0", 1.0);
    check(session, "EXEC l 0", AVERAGE);
    let text = |rest: &str| format!("EXEC sp_executesql N'SELECT s FROM t WHERE v = @v {rest}', N'@v int', @v = 0");
    check(session, &text(""), 9000.0);
    check(session, &text("OPTION (USE HINT(''DISABLE_PARAMETER_SNIFFING''))"), AVERAGE);
    check(session, &text("OPTION (QUERYTRACEON 4136)"), AVERAGE);
    check(session, &text("OPTION (OPTIMIZE FOR UNKNOWN)"), AVERAGE);
}

#[test]
fn rows_are_right_whatever_was_assumed() {
    let (_folder, instance) = instance_with(SKEWED);
    let session = &mut session_of(&instance);
    session.run("CREATE INDEX iv ON t (v) INCLUDE (s)").expect("an index");
    for option in ["", "OPTION (OPTIMIZE FOR (@v = 0))", "OPTION (OPTIMIZE FOR (@v = 5000))", "OPTION (RECOMPILE)"] {
        for (value, rows) in [("0", "9000"), ("7", "1"), ("-1", "0"), ("NULL", "0")] {
            let batch = format!("DECLARE @v int = {value}; SELECT COUNT(s) FROM t WHERE v = @v {option}");
            assert_eq!(answer(session, &batch).0, [[Some(rows.to_owned())]], "{batch}");
        }
    }
    // The value of a variable is unknown, so the estimate is that of an average value. The seek uses the actual value.
    check(session, "DECLARE @v int = 0; SELECT s FROM t WHERE v = @v", AVERAGE);
}

#[test]
fn a_hint_says_how_conditions_go_together() {
    let (_folder, instance) = instance_with(SKEWED);
    let session = &mut session_of(&instance);
    let query = |name: &str| format!("SELECT id FROM t WHERE v = 0 AND d = '20200101' OPTION (USE HINT('{name}'))");
    check(session, &query("ASSUME_FULL_INDEPENDENCE_FOR_FILTER_ESTIMATES"), 90.0);
    check(session, &query("ASSUME_PARTIAL_CORRELATION_FOR_FILTER_ESTIMATES"), 100.0 * 0.9_f64.sqrt());
    check(session, &query("assume_min_selectivity_for_filter_estimates"), 100.0);
}

#[test]
fn a_merge_join_is_shown_as_one_and_takes_an_order_that_is_there() {
    let (_folder, instance) = instance_with(SKEWED);
    let session = &mut session_of(&instance);
    let mut operators = |query: &str| {
        session.run("SET SHOWPLAN_ALL ON").expect("an option");
        let (rows, failed) = answer(session, query);
        session.run("SET SHOWPLAN_ALL OFF").expect("an option");
        assert_eq!(failed, None, "{query}");
        rows.into_iter().filter_map(|row| row[4].clone()).collect::<Vec<String>>()
    };
    let count = |found: &[String], name: &str| found.iter().filter(|operator| *operator == name).count();
    let found = operators("SELECT a.v FROM t a JOIN t b ON a.id = b.id OPTION (MERGE JOIN)");
    assert_eq!((count(&found, "Merge Join"), count(&found, "Sort")), (1, 0), "{found:?}");
    let found = operators("SELECT a.v FROM t a LEFT MERGE JOIN t b ON a.id = b.v");
    assert_eq!((count(&found, "Merge Join"), count(&found, "Sort")), (1, 1), "{found:?}");
    let found =
        operators("SELECT a.v FROM t a JOIN t b ON a.id = b.id WHERE a.v IN (SELECT id FROM t) OPTION (MERGE JOIN)");
    assert_eq!(count(&found, "Merge Join"), 2, "{found:?}");
    let found = operators("SELECT a.v FROM t a INNER MERGE JOIN t b ON a.id = b.id INNER HASH JOIN t c ON b.v = c.v");
    assert_eq!((count(&found, "Merge Join"), count(&found, "Hash Match")), (1, 1), "{found:?}");
}

/// Tables that differ in the order and types of their columns, and in whether there are NULLs.
const MERGED: &str = "
    CREATE TABLE m0 (x int, k int, s varchar(9), b bigint); CREATE TABLE m1 (k int, b bigint, x int, s varchar(9));
    CREATE TABLE m2 (b bigint NOT NULL, s varchar(9) NOT NULL, k int NOT NULL CONSTRAINT pm2 PRIMARY KEY, x int NOT NULL);
    CREATE TABLE m3 (s varchar(9) NOT NULL, x int NOT NULL, b bigint NOT NULL, k int NOT NULL);
    INSERT m0 SELECT value * 7 % 31, NULLIF(value * 5 % 37, 3), CONCAT('s', value % 9), value % 23 FROM GENERATE_SERIES(1, 90);
    INSERT m1 SELECT NULLIF(value * 3 % 41, 5), value % 19, NULLIF(value % 29, 0), CONCAT('s', value % 7)
    FROM GENERATE_SERIES(1, 70);
    INSERT m2 SELECT value % 17, CONCAT('s', value % 8), value, value * 11 % 43 FROM GENERATE_SERIES(1, 50);
    INSERT m3 SELECT CONCAT('s', value % 5), value % 27, value % 13, value * 2 % 47 FROM GENERATE_SERIES(1, 60);";

/// A query that joins two of them, up to the `OPTION`.
fn merged(random: &mut SplitMix64) -> String {
    let mut pick = |from: &[&str]| pick(random, from).to_owned();
    let (left, right) = (pick(&["m0", "m1", "m2", "m3"]), pick(&["m0", "m1", "m2", "m3"]));
    let equal = pick(&["a.k = b.k", "a.k = b.k", "a.k = b.x", "a.k = b.b", "a.k = b.k AND a.s = b.s", "a.s = b.s"]);
    let residuals = ["a.x < b.x", "a.b <> b.b", "a.x + b.b > 30", "a.s <= b.s", "a.k < b.b AND a.s <> b.s", "b.x > 9"];
    let on = if pick(&["", "", "", "no"]).is_empty() { format!("{equal} AND {}", pick(&residuals)) } else { equal };
    let of =
        |name: &str, pick: &mut dyn FnMut(&[&str]) -> String| format!("{name}.{}", pick(&["k", "k", "x", "s", "b"]));
    let (one, other) = (of("a", &mut pick), of("b", &mut pick));
    let lists = [
        "a.k, b.k".to_owned(),
        format!("{one}, {other}"),
        format!("{other}, {one}"),
        format!("{one}, a.k, b.k, {other}"),
        "a.k, b.x, a.x".to_owned(),
        one.clone(),
        other.clone(),
        format!("COUNT(*), MIN({one}), MAX({other})"),
    ];
    let list = pick(&lists.each_ref().map(String::as_str));
    let kind = pick(&["JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "semi"]);
    if kind != "semi" {
        return format!("SELECT {list} FROM {left} a {kind} {right} b ON {on}");
    }
    let is = pick(&["EXISTS", "NOT EXISTS", "a.x > 20 OR EXISTS", "a.x > 20 OR NOT EXISTS"]);
    format!("SELECT a.k, {one} FROM {left} a WHERE {is} (SELECT * FROM {right} b WHERE {on})")
}

#[test]
fn a_merge_gives_what_a_hash_table_gives() {
    let (_folder, instance) = instance_with(MERGED);
    let session = &mut session_of(&instance);
    let mut random = SplitMix64::new(55);
    for round in 0..240 {
        let (query, workers) = (merged(&mut random), 1 + round % 2 * 2);
        let mut rows_by = |way: &str| {
            let (mut rows, failed) = answer(session, &format!("{query} OPTION ({way} JOIN, MAXDOP {workers})"));
            assert_eq!(failed, None, "{query} by {way}");
            rows.sort_unstable();
            rows
        };
        let (by_merge, by_hash) = (rows_by("MERGE"), rows_by("HASH"));
        assert_eq!(by_merge, by_hash, "{query}");
    }
}
