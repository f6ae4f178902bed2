//! What estimates know of variables and parameters, and what hints change of it, read off `SHOWPLAN_ALL`; and joins
//! that are merged.

use hobt::{Instance, Session};

use crate::client::{answer, instance_with};

/// 10,000 rows: `v` is 0 in 9,000 of them and one of 1,000 other values in one each.
const SKEWED: &str = "
    CREATE TABLE t (id int NOT NULL CONSTRAINT pk PRIMARY KEY, v int NOT NULL, s varchar(20) NOT NULL, d date NOT NULL);
    INSERT INTO t SELECT value, IIF(value <= 9000, 0, value - 9000), IIF(value <= 9000, 'many', CONCAT('s', value)),
        DATEADD(DAY, value % 100, '20200101')
    FROM GENERATE_SERIES(1, 10000);
    CREATE STATISTICS sv ON t (v); CREATE STATISTICS ss ON t (s); CREATE STATISTICS sd ON t (d);";

/// What an average value of `v` has: rows over different values.
const AVERAGE: f64 = 10_000.0 / 1_001.0;

fn session_of(instance: &Instance) -> Session {
    let mut session = instance.session().expect("a session");
    session.run("USE d").expect("the database");
    session.run("EXEC sp_configure 'max degree of parallelism', 1; RECONFIGURE").expect("an option");
    session
}

/// The rows that are expected of the operator that reads the table, in the last statement of a batch.
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
    // Different values are counted by a sketch, and rows are whole.
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
    // What nobody knows is sought as often as an average value is worth it, with the value that is there.
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
