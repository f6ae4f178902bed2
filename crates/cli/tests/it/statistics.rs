//! Statistics: across restarts, copied between tables, while rows are inserted and deleted, and their effect on plans.

use hobt::{Instance, Session};

use crate::client::{answer, error, instance_with, ok, statistics_rows, used};

fn number(session: &mut Session, batch: &str) -> f64 {
    let rows = ok(session, batch);
    rows[0][0].parse().unwrap_or_else(|_| panic!("{rows:?} of {batch}"))
}

/// The steps of the histogram of a table's first index: key and rows.
fn steps(session: &mut Session, table: &str) -> Vec<Vec<String>> {
    ok(
        session,
        &format!(
            "SELECT range_high_key, CAST(equal_rows AS int) FROM sys.dm_db_stats_histogram(OBJECT_ID('{table}'), 1)
             ORDER BY step_number"
        ),
    )
}

/// The estimated rows of a query's plan.
fn estimate(session: &mut Session, query: &str) -> f64 {
    ok(session, "SET SHOWPLAN_ALL ON");
    let plan = ok(session, query);
    ok(session, "SET SHOWPLAN_ALL OFF");
    let first = plan.iter().find(|row| row[15] == "PLAN_ROW").unwrap_or_else(|| panic!("no plan of {query}: {plan:?}"));
    first[8].parse().unwrap_or_else(|_| panic!("{first:?}"))
}

const FACT: &str = "
    CREATE PARTITION FUNCTION pf (int) AS RANGE RIGHT FOR VALUES (20010103, 20010105, 20010107);
    CREATE PARTITION SCHEME ps AS PARTITION pf ALL TO ([PRIMARY]);
    CREATE TABLE fact (d int NOT NULL, c int NOT NULL);
    CREATE CLUSTERED INDEX cx ON fact (d) ON ps (d);
    INSERT INTO fact SELECT 20010101 + value % 6, value % 500 FROM GENERATE_SERIES(1, 6000);";

#[test]
fn what_inserts_left_behind_is_there_after_a_restart_and_so_is_the_count_of_changes() {
    let (folder, instance) = instance_with(FACT);
    let before = {
        let mut session = used(&instance);
        ok(&mut session, "CREATE STATISTICS s ON fact (c, d)");
        ok(&mut session, "INSERT INTO fact SELECT 20010107, value FROM GENERATE_SERIES(1, 700)");
        ok(&mut session, "DELETE FROM fact WHERE d = 20010101");
        let before = steps(&mut session, "fact");
        drop(session);
        instance.close().expect("it closes");
        before
    };
    assert_eq!(before.last(), Some(&vec!["20010107".to_owned(), "700".to_owned()]));
    assert_eq!(before.first(), Some(&vec!["20010102".to_owned(), "1000".to_owned()]));
    let instance = Instance::open(folder.path()).expect("it opens again");
    let mut session = used(&instance);
    assert_eq!(steps(&mut session, "fact"), before);
    let counters = ok(
        &mut session,
        "SELECT s.name, p.rows, p.modification_counter FROM sys.stats AS s
         CROSS APPLY sys.dm_db_stats_properties(s.object_id, s.stats_id) AS p WHERE s.object_id = OBJECT_ID('fact')
         ORDER BY s.stats_id",
    );
    assert_eq!(counters, [["cx", "5700", "7700"], ["s", "5700", "1700"]]);
    ok(&mut session, "INSERT INTO fact VALUES (20010108, 1)");
    assert_eq!(steps(&mut session, "fact").last(), Some(&vec!["20010108".to_owned(), "1".to_owned()]));
}

/// The system tables are written anew beside queries that read them: what these see is whole.
#[test]
fn updates_of_statistics_beside_readers_of_system_tables_leave_neither_room_nor_gaps() {
    let (_folder, instance) = instance_with(FACT);
    let mut reader = used(&instance);
    let pages = |session: &mut Session| {
        number(session, "SELECT SUM(used_page_count) FROM sys.dm_db_partition_stats WHERE object_id < 100")
    };
    std::thread::scope(|scope| {
        let updates = scope.spawn(|| {
            let mut session = used(&instance);
            let mut update = |times: usize| {
                for _ in 0..times {
                    ok(&mut session, "UPDATE STATISTICS fact; CREATE TABLE t (a int, b int, c int); DROP TABLE t");
                }
                pages(&mut session)
            };
            (update(30), update(60))
        });
        while !updates.is_finished() {
            assert_eq!(ok(&mut reader, "SELECT COUNT(*) FROM sys.sysschobjs WHERE name = 'fact'"), [["1"]]);
        }
        let (before, after) = updates.join().expect("no panic");
        assert!(after < 2.0 * before + 100.0, "{before} pages, then {after}");
    });
}

#[test]
fn a_partition_takes_its_statistics_along() {
    let (_folder, instance) = instance_with(FACT);
    let mut session = used(&instance);
    ok(
        &mut session,
        "CREATE TABLE staging (d int NOT NULL CHECK (d >= 20010107), c int NOT NULL);
         CREATE CLUSTERED INDEX cx ON staging (d);
         INSERT INTO staging SELECT 20010107, value FROM GENERATE_SERIES(1, 300);
         ALTER TABLE staging SWITCH TO fact PARTITION 4",
    );
    assert_eq!(steps(&mut session, "fact").last(), Some(&vec!["20010107".to_owned(), "300".to_owned()]));
    assert!(steps(&mut session, "staging").is_empty());
    ok(&mut session, "TRUNCATE TABLE fact WITH (PARTITIONS (1))");
    assert_eq!(steps(&mut session, "fact").first(), Some(&vec!["20010103".to_owned(), "1000".to_owned()]));
    ok(&mut session, "CREATE CLUSTERED INDEX cx ON fact (d, c) WITH (DROP_EXISTING = ON) ON ps (d)");
    assert_eq!(steps(&mut session, "fact").len(), 5);
}

#[test]
fn a_partition_that_goes_and_comes_back_is_known_once_and_the_database_opens_again() {
    let (folder, instance) = instance_with(FACT);
    {
        let mut session = used(&instance);
        ok(
            &mut session,
            "CREATE TABLE other (d int NOT NULL, c int NOT NULL);
             CREATE CLUSTERED INDEX cx ON other (d) ON ps (d);
             ALTER TABLE fact SWITCH PARTITION 2 TO other PARTITION 2;
             ALTER TABLE other SWITCH PARTITION 2 TO fact PARTITION 2",
        );
        assert_eq!(steps(&mut session, "fact").len(), 6);
        assert!(steps(&mut session, "other").is_empty());
    }
    instance.close().expect("it closes");
    let instance = Instance::open(folder.path()).expect("it opens again");
    let mut session = used(&instance);
    assert_eq!(number(&mut session, "SELECT rows FROM sys.dm_db_stats_properties(OBJECT_ID('fact'), 1)"), 6000.0);
}

/// Creates a table `a` with 2,000 rows, and returns the statistics of its index as a stream.
fn stream_of_a(session: &mut Session) -> String {
    ok(
        session,
        "CREATE TABLE a (x int NOT NULL); CREATE CLUSTERED INDEX cx ON a (x);
         INSERT INTO a SELECT value % 20 FROM GENERATE_SERIES(1, 2000)",
    );
    ok(session, "DBCC SHOW_STATISTICS ('a', cx) WITH STATS_STREAM")[0][0].clone()
}

#[test]
fn a_stream_carries_a_histogram_to_another_table_of_the_same_type_and_no_other() {
    let (_folder, instance) = instance_with("");
    let mut session = used(&instance);
    ok(
        &mut session,
        "CREATE TABLE b (x int NOT NULL, t varchar(10)); CREATE CLUSTERED INDEX cx ON b (x); CREATE STATISTICS st ON b (t);",
    );
    let stream = stream_of_a(&mut session);
    assert!(stream.starts_with("0x01000000"), "{stream}");
    ok(&mut session, &format!("UPDATE STATISTICS b cx WITH STATS_STREAM = {stream}"));
    assert_eq!(steps(&mut session, "b"), steps(&mut session, "a"));
    assert_eq!(error(&mut session, &format!("UPDATE STATISTICS b st WITH STATS_STREAM = {stream}")), 9105);
    for length in [2, 3, 10, 40, stream.len() / 4 * 2, stream.len() - 2] {
        let cut = &stream[..length.max(4)];
        assert_eq!(error(&mut session, &format!("UPDATE STATISTICS b cx WITH STATS_STREAM = {cut}")), 9105, "{length}");
    }
    let middle = stream.len() / 2;
    let changed = if stream.as_bytes()[middle] == b'0' { '1' } else { '0' };
    let changed = format!("{}{changed}{}", &stream[..middle], &stream[middle + 1..]);
    assert_eq!(error(&mut session, &format!("UPDATE STATISTICS b cx WITH STATS_STREAM = {changed}")), 9105);
    assert_eq!(steps(&mut session, "b"), steps(&mut session, "a"), "what was refused changed nothing");
}

#[test]
fn a_stream_is_loaded_beside_counts_and_where_statistics_are_made() {
    let (_folder, instance) = instance_with("");
    let mut session = used(&instance);
    ok(
        &mut session,
        "CREATE TABLE b (x int NOT NULL, t varchar(10));
         CREATE STATISTICS s1 ON b (x); CREATE STATISTICS s2 ON b (x); CREATE STATISTICS s3 ON b (x)",
    );
    let stream = stream_of_a(&mut session);
    let counts = |session: &mut Session| {
        let shown = &ok(session, "DBCC SHOW_STATISTICS ('b', s1) WITH STATS_STREAM")[0];
        (shown[1].clone(), shown[2].clone())
    };
    for (name, options) in [
        ("s1", format!("STATS_STREAM = {stream}, ROWCOUNT = 70000, PAGECOUNT = 300")),
        ("s2", format!("ROWCOUNT = 80000, STATS_STREAM = {stream}")),
        ("s3", format!("PAGECOUNT = 400, STATS_STREAM = {stream}, ROWCOUNT = 90000")),
    ] {
        ok(&mut session, &format!("UPDATE STATISTICS b ({name}) WITH {options}"));
        assert_eq!(statistics_rows(&mut session, "b", name), 2000, "{options}");
    }
    assert_eq!(counts(&mut session), ("90000".to_owned(), "400".to_owned()));
    let cut = &stream[..stream.len() - 2];
    assert_eq!(error(&mut session, &format!("UPDATE STATISTICS b (s1) WITH ROWCOUNT = 5, STATS_STREAM = {cut}")), 9105);
    assert_eq!(counts(&mut session), ("90000".to_owned(), "400".to_owned()), "what was refused set nothing");

    ok(&mut session, &format!("CREATE STATISTICS s4 ON b (x) WITH STATS_STREAM = {stream}"));
    assert_eq!(statistics_rows(&mut session, "b", "s4"), 2000);
    for statement in [
        format!("CREATE STATISTICS s5 ON b (t) WITH STATS_STREAM = {stream}"),
        format!("CREATE STATISTICS s5 ON b (x) WITH STATS_STREAM = {cut}"),
    ] {
        assert_eq!(error(&mut session, &statement), 9105);
    }
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM sys.stats WHERE name = 's5'"), 0.0);
}

/// The partitions of the table `fact`: index, partition, rows, and pages of rows.
fn shown(session: &mut Session) -> Vec<Vec<String>> {
    ok(
        session,
        "SELECT index_id, partition_number, row_count, in_row_data_page_count FROM sys.dm_db_partition_stats
         WHERE object_id = OBJECT_ID('fact') ORDER BY 1, 2",
    )
}

#[test]
fn counts_that_were_said_last_over_restarts_until_a_partition_is_made_anew() {
    let (folder, instance) = instance_with(FACT);
    let mut session = used(&instance);
    ok(&mut session, "CREATE INDEX ic ON fact (c) ON ps (d)");
    let rows = |shown: &[Vec<String>], index: &str| -> Vec<u64> {
        shown.iter().filter(|row| row[0] == index).map(|row| row[2].parse().expect("rows")).collect()
    };
    let before = shown(&mut session);
    assert_eq!(rows(&before, "1"), [2000, 2000, 2000, 0]);
    ok(&mut session, "UPDATE STATISTICS fact WITH ROWCOUNT = 9000001, PAGECOUNT = 60000");
    let said = shown(&mut session);
    assert_eq!(rows(&said, "1"), [3000000, 3000000, 3000001, 0], "as the rows are divided");
    assert_eq!(rows(&said, "2"), rows(&said, "1"));
    assert!(estimate(&mut session, "SELECT * FROM fact WHERE c > -1") > 8_000_000.0);
    drop(session);
    instance.close().expect("it closes");
    let instance = Instance::open(folder.path()).expect("it opens again");
    let mut session = used(&instance);
    assert_eq!(shown(&mut session), said);
    // The id of the index is the same, its partitions are not.
    ok(&mut session, "DROP INDEX ic ON fact; CREATE INDEX ic ON fact (c) ON ps (d)");
    assert_eq!(rows(&shown(&mut session), "2"), rows(&before, "2"));
    drop(session);
    instance.close().expect("it closes");
    let instance = Instance::open(folder.path()).expect("it opens again");
    let mut session = used(&instance);
    let left = shown(&mut session);
    assert_eq!((rows(&left, "1"), rows(&left, "2")), (rows(&said, "1"), rows(&before, "2")));
    ok(&mut session, "DELETE FROM fact WHERE d = 20010101; UPDATE STATISTICS fact WITH ROWCOUNT = 5000");
    assert_eq!(rows(&shown(&mut session), "1"), [1000, 2000, 2000, 0]);
    assert_eq!(error(&mut session, "UPDATE STATISTICS fact WITH ROWCOUNT = -1"), 102);
}

#[test]
fn procedures_say_what_is_wrong_by_the_numbers_of_sql_server() {
    let (_folder, instance) = instance_with("CREATE TABLE bare (a int NOT NULL)");
    let mut session = used(&instance);
    for (batch, number) in [
        ("EXEC sp_helpstats 'nope'", 15009),
        ("EXEC sp_autostats 'nope'", 15009),
        ("EXEC sp_helpindex 'nope'", 15009),
        ("EXEC sp_autostats 'bare', 'maybe'", 17000),
        ("EXEC sp_autostats 'bare', 'ON', 'nope'", 15323),
        ("EXEC sp_updatestats 'x'", 14138),
        ("EXEC sp_helpstats 'bare', 'x'", 14138),
        ("RAISERROR(15001, 16, 1)", 18054),
    ] {
        assert_eq!(error(&mut session, batch), number, "{batch}");
    }
    let message = |session: &mut Session, batch: &str| {
        let mut messages = Vec::new();
        session.execute(batch, &mut |event| {
            if let hobt::Event::Message(message) = event {
                messages.push((message.number, message.text));
            }
            hobt::Flow::Continue
        });
        messages
    };
    let none = "This object does not have any statistics.";
    assert_eq!(message(&mut session, "EXEC sp_helpstats 'bare'"), [(15574, none.to_owned())]);
    for _ in 0..20 {
        let settings = ok(&mut session, "EXEC sp_autostats 'bare'");
        assert_eq!(settings, [["  Automatic update statistics: ON"], ["  Automatic create statistics: ON"]]);
    }
}

#[test]
fn what_goes_with_a_column_is_gone_after_a_restart_and_the_rest_knows_whether_it_may_go() {
    let (folder, instance) = instance_with(
        "CREATE TABLE t (a int NOT NULL, b int NULL, c int NULL);
         INSERT INTO t SELECT value, value % 10, value % 7 FROM GENERATE_SERIES(1, 1000);
         CREATE STATISTICS goes ON t (b) WHERE c > 3 WITH AUTO_DROP = ON;
         CREATE STATISTICS stays ON t (a) WITH AUTO_DROP = ON",
    );
    {
        let mut session = used(&instance);
        ok(&mut session, "SELECT COUNT(*) FROM t WHERE c = 3");
        assert_eq!(number(&mut session, "SELECT COUNT(*) FROM sys.stats WHERE object_id = OBJECT_ID('t')"), 3.0);
        ok(&mut session, "BEGIN TRANSACTION; ALTER TABLE t ALTER COLUMN c bigint; ROLLBACK");
        assert_eq!(number(&mut session, "SELECT COUNT(*) FROM sys.stats WHERE object_id = OBJECT_ID('t')"), 3.0);
        ok(&mut session, "ALTER TABLE t ALTER COLUMN c bigint");
    }
    instance.close().expect("it closes");
    let instance = Instance::open(folder.path()).expect("it opens again");
    let mut session = used(&instance);
    let left = "SELECT name, auto_drop FROM sys.stats WHERE object_id = OBJECT_ID('t')";
    assert_eq!(ok(&mut session, left), [["stays", "1"]]);
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM t WHERE c = 3"), 143.0);
}

#[test]
fn odd_columns_have_statistics_too() {
    let (_folder, instance) = instance_with("");
    let mut session = used(&instance);
    ok(
        &mut session,
        "CREATE TABLE o (n int NULL, one bit NOT NULL, long_text varchar(8000), big nvarchar(max), g uniqueidentifier, f float, m money);
         CREATE STATISTICS empty_n ON o (n);
         INSERT INTO o SELECT NULL, 1, REPLICATE(CHAR(65 + value % 20), 8000), REPLICATE(N'x', value % 9), NEWID(), value / 3.0, value
             FROM GENERATE_SERIES(1, 60);
         CREATE STATISTICS s1 ON o (one); CREATE STATISTICS s2 ON o (long_text); CREATE STATISTICS s3 ON o (big);
         CREATE STATISTICS s4 ON o (g, n, f); CREATE STATISTICS s5 ON o (f); CREATE STATISTICS s6 ON o (m)",
    );
    for (name, expected) in [("empty_n", 1), ("s1", 1), ("s2", 20), ("s3", 9), ("s4", 60), ("s5", 60), ("s6", 60)] {
        let steps = number(
            &mut session,
            &format!(
                "SELECT p.steps FROM sys.stats AS s CROSS APPLY sys.dm_db_stats_properties(s.object_id, s.stats_id) AS p
                 WHERE s.object_id = OBJECT_ID('o') AND s.name = '{name}'"
            ),
        );
        // A step may stand for a few values.
        assert!(steps <= f64::from(expected) && steps >= 1.0, "{name}: {steps}");
        ok(&mut session, &format!("DBCC SHOW_STATISTICS ('o', {name})"));
        ok(&mut session, &format!("UPDATE STATISTICS o {name} WITH SAMPLE 50 PERCENT"));
    }
    ok(&mut session, "DELETE FROM o");
    assert_eq!(
        number(&mut session, "SELECT SUM(rows) FROM sys.hobt_stats_properties WHERE object_id = OBJECT_ID('o')"),
        0.0
    );
}

#[test]
fn a_column_of_max_type_is_estimated_by_its_histogram_and_gets_one_unasked() {
    let (_folder, instance) = instance_with(
        "CREATE TABLE m (v varchar(max), b varbinary(max));
         INSERT INTO m SELECT IIF(value % 2 = 0, 'often', CONCAT('v', value)), CAST(value % 4 AS binary(4))
         FROM GENERATE_SERIES(1, 2000)",
    );
    let mut session = used(&instance);
    ok(&mut session, "SELECT COUNT(*) FROM m WHERE v = 'often' AND b = 0x01");
    let made = "SELECT COL_NAME(c.object_id, c.column_id) FROM sys.stats AS s JOIN sys.stats_columns AS c
                ON c.object_id = s.object_id AND c.stats_id = s.stats_id
                WHERE s.object_id = OBJECT_ID('m') AND s.auto_created = 1 ORDER BY 1";
    assert_eq!(ok(&mut session, made), [["b"], ["v"]]);
    assert_eq!(estimate(&mut session, "SELECT * FROM m WHERE v = 'often'"), 1000.0);
    assert_eq!(estimate(&mut session, "SELECT * FROM m WHERE v = 'v7'"), 1.0);
    assert_eq!(estimate(&mut session, "SELECT * FROM m WHERE b = 0x00000001"), 500.0);
}

/// The histogram of a statistics object of a table, and its rows, sampled rows and distinct values.
fn histogram_of(session: &mut Session, table: &str, statistics: &str) -> Vec<Vec<String>> {
    let of = |what: &str, view: &str| {
        format!(
            "SELECT {what} FROM sys.stats AS s CROSS APPLY sys.{view}(s.object_id, s.stats_id) AS h
             WHERE s.object_id = OBJECT_ID('{table}') AND s.name = '{statistics}'"
        )
    };
    let mut rows = ok(session, &of("h.rows, h.rows_sampled, h.unfiltered_rows, h.steps", "dm_db_stats_properties"));
    let steps = "CAST(h.range_high_key AS nvarchar(100)), h.equal_rows, h.range_rows, h.distinct_range_rows";
    rows.extend(ok(session, &format!("{} ORDER BY h.step_number", of(steps, "dm_db_stats_histogram"))));
    rows
}

/// The name of the automatic statistics of a column.
fn automatic(session: &mut Session, table: &str, column: &str) -> String {
    let rows = ok(
        session,
        &format!(
            "SELECT s.name FROM sys.stats AS s JOIN sys.stats_columns AS c
             ON c.object_id = s.object_id AND c.stats_id = s.stats_id
             WHERE s.object_id = OBJECT_ID('{table}') AND s.auto_created = 1
             AND COL_NAME(c.object_id, c.column_id) = '{column}'"
        ),
    );
    assert_eq!(rows.len(), 1, "automatic statistics of {column}: {rows:?}");
    rows[0][0].clone()
}

#[test]
fn statistics_that_nobody_asked_for_say_of_a_small_table_what_a_full_scan_says() {
    let columns = "u int, few smallint NULL, m money NULL, f float NULL, d date NULL, n nvarchar(40) NULL,
        x varbinary(20) NULL, w varchar(5000) NULL, b bit NULL, z int NULL, o tinyint NOT NULL,
        v varchar(max) NULL, y varbinary(max) NULL";
    let rows =
        "SELECT value * 7919 % 5003, IIF(value % 9 = 0, NULL, value % 40), value % 100 / 8.0, value % 77 / 16.0e0,
        DATEADD(day, value % 900, '20200101'), IIF(value % 2 = 0, N'Ärger', N'ärger') + CAST(value % 30 AS nvarchar(9)),
        CAST(value % 60 AS binary(4)), REPLICATE(CHAR(65 + value % 20), value % 5000), value % 2, NULL, 4,
        REPLICATE(CAST(CHAR(65 + value % 20) AS varchar(max)), IIF(value % 50 = 0, 9000 + value % 7, value % 7)),
        CAST(value % 90 AS binary(4))
        FROM GENERATE_SERIES(1, 5000)";
    let (_folder, instance) = instance_with(&format!(
        "CREATE PARTITION FUNCTION pf (int) AS RANGE RIGHT FOR VALUES (1000, 2000, 4000);
         CREATE PARTITION SCHEME ps AS PARTITION pf ALL TO ([PRIMARY]);
         CREATE TABLE heap ({columns}); CREATE TABLE parts ({columns}) ON ps (u);
         CREATE TABLE tree ({columns}); CREATE CLUSTERED INDEX cx ON tree (few, u);"
    ));
    let mut session = used(&instance);
    for table in ["heap", "parts", "tree"] {
        // In a transaction no query makes statistics.
        let batch = format!("BEGIN TRAN; INSERT INTO {table} {rows}; DELETE FROM {table} WHERE u % 11 = 3; COMMIT");
        ok(&mut session, &batch);
        for (column, value) in [
            ("u", "5"),
            ("few", "5"),
            ("m", "5"),
            ("f", "5"),
            ("d", "'20200105'"),
            ("n", "N'ärger5'"),
            ("x", "0x05"),
            ("w", "'A'"),
            ("b", "1"),
            ("z", "5"),
            ("o", "5"),
            ("v", "'A'"),
            ("y", "0x05"),
        ] {
            // The clustered index's statistics are of its first column.
            if (table, column) == ("tree", "few") {
                continue;
            }
            ok(&mut session, &format!("SELECT COUNT(*) FROM {table} WHERE {column} = {value}"));
            let name = automatic(&mut session, table, column);
            let unasked = histogram_of(&mut session, table, &name);
            ok(&mut session, &format!("UPDATE STATISTICS {table} {name} WITH FULLSCAN"));
            assert_eq!(unasked, histogram_of(&mut session, table, &name), "{table}.{column}");
        }
    }
}

#[test]
fn statistics_that_nobody_asked_for_sample_a_large_table_however_its_rows_lie() {
    const ROWS: f64 = 1_000_000.0;
    let (_folder, instance) = instance_with(
        "SELECT CAST(value AS bigint) * 7654321 % 1000003 AS u, value / 50 AS c, value % 1000 AS g,
         CAST(value / 20 AS varchar(10)) AS t INTO big FROM GENERATE_SERIES(1, 1000000)",
    );
    let mut session = used(&instance);
    ok(&mut session, "SELECT COUNT(*) FROM big WHERE u = 5 AND c = 5 AND g = 5 AND t = '5'");
    for (column, distinct) in [("u", ROWS), ("c", ROWS / 50.0), ("g", 1000.0), ("t", ROWS / 20.0)] {
        let name = automatic(&mut session, "big", column);
        let unasked = histogram_of(&mut session, "big", &name);
        let numbers: Vec<f64> = unasked[0].iter().map(|text| text.parse().expect("a number")).collect();
        assert_eq!(numbers[0], ROWS, "rows by statistics of {column}");
        assert!((0.4 * ROWS..0.8 * ROWS).contains(&numbers[1]), "{} rows sampled of {column}", numbers[1]);
        let groups = estimate(&mut session, &format!("SELECT {column} FROM big GROUP BY {column}"));
        assert!((groups / distinct - 1.0).abs() < 0.1, "{groups} values of {column}");
        ok(&mut session, &format!("UPDATE STATISTICS big {name} WITH FULLSCAN"));
        assert_eq!(histogram_of(&mut session, "big", &name)[0][1], "1000000", "rows sampled of {column}");
    }
}

#[test]
fn the_beginning_of_a_pattern_is_estimated_as_a_range() {
    let (_folder, instance) = instance_with(
        "CREATE TABLE w (v varchar(30) NULL, n nvarchar(30) COLLATE Latin1_General_BIN2 NOT NULL);
         INSERT INTO w SELECT IIF(value % 10 = 0, NULL, CONCAT(CHAR(97 + value % 20), value % 3000)),
             CONCAT(CHAR(65 + value % 20), N'é%', value) FROM GENERATE_SERIES(1, 10000);
         CREATE STATISTICS v ON w (v) WITH FULLSCAN; CREATE STATISTICS n ON w (n) WITH FULLSCAN",
    );
    let mut session = used(&instance);
    for (condition, off) in [
        ("v LIKE 'c%'", 1.1),
        ("v LIKE N'C%'", 1.1),
        ("v LIKE 'c1%'", 1.5),
        ("v LIKE 'b2221'", 2.0),
        ("v LIKE '%'", 1.01),
        ("NOT v LIKE 'c%'", 1.15),
        ("v LIKE 'c%' OR v LIKE 'd%'", 1.15),
        ("n LIKE N'Bé!%%' ESCAPE '!'", 1.2),
        ("n LIKE N'b%'", 1.0),
        ("v LIKE 'zz%'", 1.0),
        // Patterns further inside a text, and collations other than the column's, are tested against the values in the
        // histogram.
        ("v LIKE '[c]%'", 2.0),
        ("v LIKE '%7'", 2.0),
        ("v NOT LIKE '%7'", 1.2),
        ("v LIKE '_1%'", 1.5),
        ("v LIKE 'c%' COLLATE Latin1_General_BIN2", 2.0),
    ] {
        let rows = number(&mut session, &format!("SELECT COUNT(*) FROM w WHERE {condition}")).max(1.0);
        let estimated = estimate(&mut session, &format!("SELECT * FROM w WHERE {condition}"));
        let ratio = (estimated / rows).max(rows / estimated);
        assert!(ratio <= off, "{condition}: {estimated} of {rows}");
    }
    let rare = estimate(&mut session, "SELECT * FROM w WHERE v LIKE '%c1'");
    assert!((1.0..100.0).contains(&rare), "{rare}");
    let (begins, narrower) = (
        estimate(&mut session, "SELECT * FROM w WHERE v LIKE 'c%'"),
        estimate(&mut session, "SELECT * FROM w WHERE v LIKE 'c%7'"),
    );
    assert!(narrower < begins, "{narrower} of {begins}");
}

#[test]
fn statistics_are_updated_while_rows_come_and_the_table_goes() {
    let (_folder, instance) = instance_with(FACT);
    let mut session = used(&instance);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut session = used(&instance);
            for day in 0..20 {
                let insert = format!("INSERT INTO fact SELECT {}, value FROM GENERATE_SERIES(1, 400)", 20010110 + day);
                ok(&mut session, &insert);
            }
        });
        for _ in 0..10 {
            ok(&mut session, "UPDATE STATISTICS fact WITH FULLSCAN");
            ok(&mut session, "DBCC SHOW_STATISTICS ('fact', cx)");
        }
        writer.join().expect("no panic");
    });
    // A row inserted while the table was read may be counted twice or not at all until the next update.
    ok(&mut session, "UPDATE STATISTICS fact WITH FULLSCAN");
    let known = number(&mut session, "SELECT rows FROM sys.dm_db_stats_properties(OBJECT_ID('fact'), 1)");
    assert_eq!(known, 14_000.0);
    std::thread::scope(|scope| {
        let updater = scope.spawn(|| {
            let mut session = used(&instance);
            loop {
                if let Some(failed) = answer(&mut session, "UPDATE STATISTICS fact").1 {
                    return failed.number;
                }
            }
        });
        ok(&mut session, "DROP TABLE fact");
        let failed = updater.join().expect("no panic");
        assert!([1088, 208, 2767].contains(&failed), "{failed}");
    });
}

/// Random joins of up to six tables: any order of the sources, with and without FORCE ORDER, gives the same result.
#[test]
fn the_order_of_joins_changes_no_answer() {
    let (_folder, instance) = instance_with("");
    let mut session = used(&instance);
    for table in 0..6 {
        let rows = [2000, 300, 40, 7, 900, 100][table];
        ok(
            &mut session,
            &format!(
                "CREATE TABLE t{table} (k int NOT NULL, a int NULL, b varchar(10) NULL);
                 INSERT INTO t{table} SELECT value, NULLIF(value % {}, 3), CONCAT('V', value % {}) FROM GENERATE_SERIES(1, {rows})",
                11 + 7 * table,
                5 + table
            ),
        );
    }
    let mut random = hobt_base::SplitMix64::new(20_261_122);
    for round in 0..40 {
        let count = 2 + usize::try_from(random.below(5)).expect("few");
        let mut order: Vec<usize> = (0..count).collect();
        for at in (1..count).rev() {
            order.swap(at, usize::try_from(random.below(at as u64 + 1)).expect("few"));
        }
        let mut conditions = Vec::new();
        for table in 1..count {
            let other = random.below(table as u64);
            conditions.push(match random.below(4) {
                0 => format!("t{table}.b = t{other}.b AND t{table}.k < 50 AND t{other}.k < 60"),
                1 => format!("t{table}.a = t{other}.k"),
                2 => format!("t{table}.k = t{other}.k"),
                _ => format!("t{table}.k = t{other}.a AND t{table}.a <> t{other}.k"),
            });
        }
        let sources: Vec<String> = order.iter().map(|table| format!("t{table}")).collect();
        let select = "SELECT COUNT_BIG(*), SUM(CAST(t0.k AS bigint)), MIN(t1.b), SUM(CAST(t1.a AS bigint))";
        let written = format!("{select} FROM {} WHERE {}", sources.join(", "), conditions.join(" AND "));
        let free = ok(&mut session, &written);
        let kept = ok(&mut session, &format!("{written} OPTION (FORCE ORDER)"));
        assert_eq!(free, kept, "round {round}: {written}");
    }
}
