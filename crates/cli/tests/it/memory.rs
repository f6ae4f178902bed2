//! Little memory: what does not fit fails or spills, and long-running work can be cancelled.

use std::time::{Duration, Instant};

use arrow::array::AsArray;
use hobt::{Event, Flow, InstanceSettings, Session, SqlError};

use crate::client::{answer, number};

/// A session of an instance with this many megabytes, in a database of its own.
fn open(megabytes: u64) -> (tempfile::TempDir, hobt::Instance, Session) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let settings = InstanceSettings { memory_bytes: Some(megabytes << 20), ..InstanceSettings::default() };
    let instance = hobt::Instance::open_with(folder.path(), settings).expect("an instance");
    let mut session = instance.session().expect("a session");
    session.run("CREATE DATABASE d").expect("a database");
    session.run("USE d").expect("the database");
    (folder, instance, session)
}

fn error_of(session: &mut Session, batch: &str) -> SqlError {
    session.run(batch).map(drop).expect_err(batch)
}

/// Creates table `n` with this many rows of at least 200 bytes: `id`, and `w`, which is different in all rows.
fn make_wide_rows(session: &mut Session, rows: u32) {
    let insert = format!(
        "SELECT CAST(value AS int) id, REPLICATE(CHAR(65 + value % 26), 200) + CAST(value AS varchar(10)) w
         INTO n FROM GENERATE_SERIES(1, {rows})"
    );
    session.run(&insert).expect("rows that fit");
}

const DIGITS: &str = "(VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9))";

/// Rows `a.n` to `d.n`, 10,000 of them.
fn ten_thousand() -> String {
    format!("{DIGITS} a(n) CROSS JOIN {DIGITS} b(n) CROSS JOIN {DIGITS} c(n) CROSS JOIN {DIGITS} d(n)")
}

#[test]
fn texts_beyond_the_memory_are_701_and_leave_it_as_it_was() {
    let (_folder, _instance, mut session) = open(128);
    let rows = ten_thousand();
    let grown = format!(
        "SELECT MAX(LEN(REPLICATE(CAST('x' AS varchar(max)), 60000 + a.n))),
         MAX(LEN(REPLACE(REPLICATE('a', 8000), 'a', REPLICATE(CAST('b' AS varchar(max)), 8) + CHAR(65 + b.n))))
         FROM {rows}"
    );
    for batch in [
        "SELECT LEN(REPLICATE(CAST('x' AS varchar(max)), 2147483647))",
        "DECLARE @s varchar(max) = REPLICATE(CAST('x' AS varchar(max)), 1000000); WHILE 1 = 1 SET @s = @s + @s",
        "DECLARE @s varchar(max) = 'x'; WHILE 1 = 1 SET @s = CONCAT(@s, @s, '')",
        "DECLARE @s varchar(max) = 'ab'; WHILE 1 = 1 SET @s = REPLACE(@s, 'b', 'bb' + @s)",
        &grown,
    ] {
        assert_eq!(error_of(&mut session, batch).number, 701, "{batch}");
    }
    // Its memory is free again.
    session.run("SELECT LEN(REPLICATE(CAST('x' AS varchar(max)), 8000000))").expect("there is room");
}

#[test]
fn a_sort_of_more_than_the_memory_goes_to_disk() {
    let (_folder, _instance, mut session) = open(128);
    let rows = ten_thousand();
    let insert = format!(
        "CREATE TABLE t (k int NOT NULL, s varchar(120) NOT NULL);
         INSERT INTO t WITH (TABLOCK) SELECT (7919 * (a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n)) % 100003,
         REPLICATE(CHAR(65 + a.n), 60 + 6 * b.n) FROM {rows} CROSS JOIN {DIGITS} e(n)"
    );
    session.run(&insert).expect("100,000 rows");
    for dop in [1, 2] {
        let sorted = format!("SELECT k, s FROM t ORDER BY s, k OFFSET 99990 ROWS OPTION (MAXDOP {dop})");
        session.run(&sorted).expect(&sorted);
    }
}

#[test]
fn wide_rows_are_sorted_in_as_little_memory() {
    let (_folder, _instance, mut session) = open(128);
    let insert = "CREATE TABLE t (k int NOT NULL, s varchar(3000) NOT NULL);
         INSERT INTO t WITH (TABLOCK) SELECT (7919 * n) % 100003, REPLICATE(CHAR(65 + n % 26), n % 3000)
         FROM (SELECT CAST(value AS int) n FROM GENERATE_SERIES(1, 40000)) series";
    session.run(insert).expect("60 megabytes");
    let made = "(SELECT k, REPLICATE(LEFT(s, 1), 2000) AS s FROM t) made";
    for (rows, dop) in [("t", 1), ("t WHERE k >= 0", 2), (made, 2), ("t", 4)] {
        let sorted = format!("SELECT k, s FROM {rows} ORDER BY s, k OFFSET 39990 ROWS OPTION (MAXDOP {dop})");
        session.run(&sorted).expect(&sorted);
    }
}

#[test]
fn a_large_top_of_wide_rows_is_sorted_in_little_memory() {
    let (_folder, _instance, mut session) = open(128);
    make_wide_rows(&mut session, 100_000);
    for (top, dop) in [(10, 2), (20_000, 1), (20_000, 2), (90_000, 2)] {
        let batch = format!(
            "DECLARE @count int, @least varchar(300), @expected varchar(300)
             SELECT @count = COUNT(*), @least = MIN(w) FROM (SELECT TOP {top} w FROM n ORDER BY w DESC, id) x
             SELECT @expected = w FROM n ORDER BY w DESC, id OFFSET {top} - 1 ROWS FETCH NEXT 1 ROW ONLY
             IF @count <> {top} OR @least <> @expected THROW 50001, 'other rows', 1"
        );
        session.run(&format!("EXEC sp_configure 'max degree of parallelism', {dop} RECONFIGURE")).expect("a setting");
        session.run(&batch).expect(&batch);
    }
}

/// A grouping must not deadlock if its workers exchange more than there is room for.
#[test]
fn a_grouping_of_wide_texts_ends() {
    let (_folder, _instance, mut session) = open(64);
    make_wide_rows(&mut session, 60_000);
    let cancel = session.cancel_handle();
    let (done, ended) = std::sync::mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        // Generous: it takes seconds in an unoptimised build.
        if ended.recv_timeout(Duration::from_secs(120)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            cancel.cancel();
        }
    });
    for dop in [2, 4, 2, 4] {
        let batch = format!("SELECT COUNT(*) FROM (SELECT w, COUNT(*) c FROM n GROUP BY w) x OPTION (MAXDOP {dop})");
        session.run(&batch).expect(&batch);
    }
    drop(done);
    watchdog.join().expect("no panic");
}

#[test]
fn operators_get_on_with_the_least_that_they_ask_for() {
    let (_folder, _instance, mut session) = open(256);
    make_wide_rows(&mut session, 60_000);
    let queries = [
        "SELECT id, w FROM n ORDER BY w DESC, id OFFSET 59990 ROWS",
        "SELECT COUNT(*), SUM(c) FROM (SELECT w, COUNT(*) c FROM n GROUP BY w) x",
        "SELECT COUNT(*), MIN(a.id) FROM n a JOIN n b ON a.w = b.w",
        "SELECT COUNT(*), SUM(r) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY LEFT(w, 1) ORDER BY w) r FROM n) x",
        "SELECT COUNT(*) FROM (SELECT w FROM n EXCEPT SELECT w + 'x' FROM n) x",
    ];
    for query in queries {
        let free = answer(&mut session, query);
        for dop in [1, 2] {
            let least = format!("{query} OPTION (MAXDOP {dop}, MAX_GRANT_PERCENT = 0)");
            assert_eq!(answer(&mut session, &least), free, "{least}");
        }
    }
    let spilled = "SELECT COUNT(*) FROM sys.dm_exec_query_stats s CROSS APPLY sys.dm_exec_sql_text(s.sql_handle) t
        WHERE t.text LIKE '%ORDER BY w DESC%MAX_GRANT_PERCENT = 0%' AND s.max_spills > 0
        AND s.max_grant_kb < s.max_ideal_grant_kb + 1";
    assert_eq!(answer(&mut session, spilled), answer(&mut session, "SELECT 2"), "the sorts went to disk");
}

/// A sort counts the texts of a batch once for each batch that it forms from it, so a source's batches must not be
/// longer than the plan's. The recursive query and the list of values do not form their batches themselves.
#[test]
fn what_reads_no_table_is_sorted_with_the_least_that_is_asked_for() {
    let (_folder, _instance, mut session) = open(96);
    let table = "CREATE TABLE x (tid bigint NOT NULL, v int NOT NULL, pad varchar(400) NULL);
        CREATE CLUSTERED INDEX cl ON x (v, tid)";
    session.run(table).expect(table);
    let insert = "INSERT x WITH (TABLOCK) SELECT 5, value, REPLICATE('w', value % 300) FROM GENERATE_SERIES(1, 50000)";
    let values: Vec<String> = (0..1000).map(|value| format!("('{value:0300}')")).collect();
    let values = values.join(", ");
    let batches = [
        format!("{insert} OPTION (MAX_GRANT_PERCENT = 0)"),
        "SELECT REPLICATE('w', value % 300) w, value FROM GENERATE_SERIES(1, 50000) ORDER BY w DESC, value OFFSET 49990 \
         ROWS OPTION (MAX_GRANT_PERCENT = 0)"
            .to_owned(),
        "WITH r AS (SELECT 1 AS n, REPLICATE('r', 300) AS w UNION ALL SELECT n + 1, REPLICATE(CHAR(97 + n % 26), 300) \
         FROM r WHERE n < 5000) SELECT w, n FROM r ORDER BY w, n OFFSET 4990 ROWS OPTION (MAXRECURSION 0, \
         MAX_GRANT_PERCENT = 0)"
            .to_owned(),
        format!(
            "SELECT w + x.v FROM (VALUES {values}) AS y(w) CROSS JOIN (VALUES ('a'), ('b'), ('c')) AS x(v) ORDER BY 1 \
             OFFSET 2990 ROWS OPTION (MAX_GRANT_PERCENT = 0)"
        ),
    ];
    for batch in batches {
        session.run(&batch).unwrap_or_else(|error| panic!("{error}: {}", batch.chars().take(300).collect::<String>()));
    }
}

#[test]
fn who_is_alone_may_have_all_of_a_small_memory() {
    let (_folder, _instance, mut session) = open(96);
    make_wide_rows(&mut session, 120_000);
    for query in ["SELECT w, id, COUNT(*) c FROM n GROUP BY w, id", "SELECT DISTINCT w, id FROM n"] {
        let counted = format!("SELECT COUNT(*) FROM ({query}) x");
        let all = answer(&mut session, "SELECT COUNT(*) FROM n");
        for dop in [1, 2] {
            let counted = format!("{counted} OPTION (MAXDOP {dop})");
            assert_eq!(answer(&mut session, &counted), all, "{counted}");
        }
    }
}

#[test]
fn a_sort_above_a_join_by_ranges_goes_to_disk() {
    let (_folder, _instance, mut session) = open(64);
    let tables =
        "SELECT CAST(value AS int) id, REPLICATE('f', 200 + value % 20) f INTO l FROM GENERATE_SERIES(1, 30000);
        SELECT CAST(value AS int) x, REPLICATE('g', 200 + value % 20) f INTO p FROM GENERATE_SERIES(1, 30000)";
    session.run(tables).expect(tables);
    let sorted =
        "SELECT l.id, l.f lf, p.f pf INTO made FROM l JOIN p ON p.x BETWEEN l.id AND l.id + 0 ORDER BY l.f, p.f";
    session.run(sorted).expect(sorted);
    assert_eq!(answer(&mut session, "SELECT COUNT(*) FROM made"), answer(&mut session, "SELECT 30000"));
}

#[test]
fn a_long_text_function_ends_when_it_is_cancelled() {
    let (_folder, _instance, mut session) = open(512);
    // Each row takes about a second: 2,000 characters of the pattern at each of a million positions. No operator of
    // this plan checks for cancellation; only the function does.
    let batch = "DECLARE @s varchar(max) = REPLICATE(CAST('a' AS varchar(max)), 1000000);
                 SELECT n FROM (VALUES (1),(2),(3),(4),(5),(6),(7),(8),(9),(10)) v(n)
                 WHERE @s LIKE '%[a]' + REPLICATE('a', 2000) + CHAR(97 + n) + '%'";
    let cancel = session.cancel_handle();
    let mut failed = None;
    let mut began = None;
    session.execute(batch, &mut |event: Event| {
        match event {
            // The query is planned, and its workers begin.
            Event::ResultSet(_) => {
                began = Some(Instant::now());
                cancel.cancel();
            }
            Event::Error(error) => failed = Some(error),
            _ => {}
        }
        Flow::Continue
    });
    assert_eq!(failed.expect("an error").number, SqlError::cancelled().number);
    let took = began.expect("a result set").elapsed();
    // Generous: without the check it takes minutes in an unoptimised build.
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[test]
fn a_hash_join_of_more_than_the_memory_goes_to_disk() {
    let (_folder, instance, mut session) = open(96);
    make_wide_rows(&mut session, 250_000);
    session
        .run(
            "SELECT id % 300000 + 7 AS id, CASE WHEN id % 10 = 0 THEN NULL ELSE id * 2 END AS k, w INTO m FROM n;
             SELECT 5 AS k, id, w INTO one FROM n WHERE id <= 120000",
        )
        .expect("rows that fit");
    let files = || instance.server().instance().spills().transfers().writes.bytes;
    let before = files();
    let mut answers = |query: &str| -> Vec<u64> {
        let (rows, failed) = answer(&mut session, query);
        assert!(failed.is_none(), "{failed:?}: {query}");
        rows.concat().into_iter().map(|cell| cell.and_then(|text| text.parse().ok()).expect("a number")).collect()
    };
    // Nine in ten of the 250,000 even numbers up to 500,000 are in `m`. The other side has the numbers up to 250,000.
    let show = "COUNT_BIG(*), COUNT_BIG(a.id), COUNT_BIG(b.id), SUM(CAST(LEN(a.w) + LEN(b.w) AS bigint))";
    for (dop, kind, expected) in [
        (1, "JOIN", [112_500, 112_500, 112_500]),
        (2, "LEFT JOIN", [250_000, 250_000, 112_500]),
        (1, "RIGHT JOIN", [250_000, 112_500, 250_000]),
        (2, "FULL JOIN", [387_500, 250_000, 250_000]),
    ] {
        let query = format!("SELECT {show} FROM n a {kind} m b ON a.id = b.k OPTION (HASH JOIN, MAXDOP {dop})");
        assert_eq!(answers(&query)[..3], expected, "{query}");
    }
    let semi = "SELECT COUNT_BIG(*), SUM(CAST(LEN(w) AS bigint)) FROM n WHERE";
    let is_there = answers(&format!("{semi} EXISTS (SELECT * FROM m WHERE m.k = n.id)"));
    let is_not = answers(&format!("{semi} NOT EXISTS (SELECT * FROM m WHERE m.k = n.id)"));
    assert_eq!((is_there[0], is_not[0]), (112_500, 137_500));
    assert!(files() - before > 100 << 20, "{} bytes were put on disk", files() - before);
    // One key has all rows of the build side.
    let skewed = "SELECT COUNT_BIG(*), COUNT_BIG(b.w) FROM (VALUES (5), (6)) a(k) LEFT JOIN one b ON a.k = b.k";
    assert_eq!(answers(skewed), [120_001, 120_000]);
}

#[test]
fn a_join_by_ranges_of_more_than_the_memory_goes_to_disk() {
    let (_folder, instance, mut session) = open(96);
    make_wide_rows(&mut session, 250_000);
    session
        .run("SELECT id % 300000 + 7 AS id, CASE WHEN id % 10 = 0 THEN NULL ELSE id * 2 END AS k, w INTO m FROM n")
        .expect("rows that fit");
    let files = || instance.server().instance().spills().transfers().writes.bytes;
    let before = files();
    // The number of pairs is the number of equal values, as for the hash join.
    let show = "COUNT_BIG(*), COUNT_BIG(a.id), COUNT_BIG(b.id), SUM(CAST(LEN(a.w) + LEN(b.w) AS bigint))";
    for (dop, kind, expected) in
        [(2, "JOIN", [112_500, 112_500, 112_500]), (2, "FULL JOIN", [387_500, 250_000, 250_000])]
    {
        let query = format!("SELECT {show} FROM n a {kind} m b ON a.id BETWEEN b.k AND b.k OPTION (MAXDOP {dop})");
        let (rows, failed) = answer(&mut session, &query);
        assert!(failed.is_none(), "{failed:?}: {query}");
        let found: Vec<u64> = rows.concat()[..3].iter().flatten().filter_map(|text| text.parse().ok()).collect();
        assert_eq!(found, expected, "{query}");
    }
    assert!(files() - before > 50 << 20, "{} bytes were put on disk", files() - before);
}

#[test]
fn distinct_values_of_more_than_the_memory_are_counted() {
    let (_folder, instance, mut session) = open(96);
    make_wide_rows(&mut session, 200_000);
    let files = || instance.server().instance().spills().transfers().writes.bytes;
    let before = files();
    for (query, expected) in [
        ("SELECT COUNT(DISTINCT w), COUNT(*) FROM n", "SELECT 200000, 200000"),
        ("SELECT COUNT(DISTINCT w), SUM(DISTINCT CAST(id AS bigint)) FROM n", "SELECT 200000, 20000100000"),
        (
            "SELECT MIN(c), MAX(c), SUM(s) FROM (SELECT id % 1000 g, COUNT(DISTINCT w) c, SUM(CAST(id AS bigint)) s
             FROM n GROUP BY id % 1000) x",
            "SELECT 200, 200, 20000100000",
        ),
        (
            "SELECT COUNT(*), SUM(c) FROM (SELECT id, COUNT(DISTINCT w + 'x') c FROM n GROUP BY id) x",
            "SELECT 200000, 200000",
        ),
    ] {
        for dop in [1, 2] {
            let counted = format!("{query} OPTION (MAXDOP {dop})");
            assert_eq!(answer(&mut session, &counted), answer(&mut session, expected), "{counted}");
        }
    }
    assert!(files() - before > 100 << 20, "{} bytes were put on disk", files() - before);
}

#[test]
fn rows_that_two_places_of_a_plan_read_wait_on_disk() {
    let (_folder, instance, mut session) = open(96);
    make_wide_rows(&mut session, 200_000);
    let files = || instance.server().instance().spills().transfers().writes.bytes;
    let groups = "SELECT w, COUNT(*) AS many, MAX(id) AS id FROM n GROUP BY w";
    let expected = answer(&mut session, "SELECT 200000, 20000100000, 0, 200000");
    for (dop, flag, least_mb) in [(1, 30_006, 30), (2, 30_006, 30), (2, 30_005, 0)] {
        let before = files();
        let query = format!(
            "SELECT COUNT(*), SUM(CAST(a.id AS bigint)), SUM(ABS(a.id - b.id)), SUM(b.many)
             FROM ({groups}) AS a JOIN ({groups}) AS b ON b.w = a.w OPTION (MAXDOP {dop}, QUERYTRACEON {flag})"
        );
        assert_eq!(answer(&mut session, &query), expected, "{query}");
        assert!(files() - before >= least_mb << 20, "{} bytes were put on disk", files() - before);
    }
}

#[test]
fn a_partition_of_more_than_the_memory_waits_on_disk_for_its_windows() {
    let (_folder, instance, mut session) = open(96);
    make_wide_rows(&mut session, 200_000);
    let files = || instance.server().instance().spills().transfers().writes.bytes;
    let before = files();
    for dop in [1, 2] {
        let query = format!(
            "SELECT COUNT(*), MIN(s), MAX(s), SUM(CAST(LEN(w) AS bigint)) FROM (SELECT w, SUM(CAST(id AS bigint)) OVER () s
             FROM n) x OPTION (MAXDOP {dop})"
        );
        let expected = "SELECT 200000, 20000100000, 20000100000, SUM(CAST(LEN(w) AS bigint)) FROM n";
        assert_eq!(answer(&mut session, &query), answer(&mut session, expected), "{query}");
    }
    // The rows, of which only `id` is read, were written twice.
    assert!(files() - before > 80 << 20, "{} bytes were put on disk", files() - before);
}

/// Half of the rows have their sum only when all of these are read.
#[test]
fn rows_that_wait_for_the_end_of_their_frame_wait_on_disk() {
    let (_folder, _instance, mut session) = open(96);
    make_wide_rows(&mut session, 200_000);
    for dop in [1, 2] {
        let query = format!(
            "SELECT COUNT(*), MIN(s), MAX(s), SUM(CAST(LEN(w) AS bigint)) FROM
             (SELECT w, SUM(CAST(id AS bigint)) OVER (ORDER BY id % 2) s FROM n) x OPTION (MAXDOP {dop})"
        );
        let expected = "SELECT 200000, 10000100000, 20000100000, SUM(CAST(LEN(w) AS bigint)) FROM n";
        assert_eq!(answer(&mut session, &query), answer(&mut session, expected), "{query}");
    }
}

/// What a window keeps of texts is counted by their length.
#[test]
fn texts_that_a_window_keeps_beyond_the_memory_are_701() {
    let (_folder, _instance, mut session) = open(96);
    make_wide_rows(&mut session, 300_000);
    let frame = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING";
    for function in [
        format!("LAST_VALUE(w) OVER (ORDER BY id {frame})"),
        "MAX(w) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND 299999 FOLLOWING)".to_owned(),
    ] {
        let query = format!("SELECT COUNT(*), MAX(x) FROM (SELECT {function} x FROM n) y");
        assert_eq!(error_of(&mut session, &query).number, 701, "{query}");
    }
    assert_eq!(answer(&mut session, "SELECT COUNT(*) FROM n"), answer(&mut session, "SELECT 300000"));
}

/// Rows that are much shorter than their columns may be are sorted in memory or on disk, whatever there is of it: texts
/// that several batches share count once.
#[test]
fn short_rows_of_wide_columns_are_sorted_in_any_memory() {
    for megabytes in [128, 384, 512, 600] {
        let (_folder, _instance, mut session) = open(megabytes);
        session
            .run(
                "CREATE TABLE t (id int PRIMARY KEY, a int, s varchar(400), m varchar(40));
                 CREATE TABLE x (id int PRIMARY KEY, a int, s varchar(400), m varchar(max));
                 INSERT t SELECT value, value % 1000, REPLICATE('x', 34), NULL FROM GENERATE_SERIES(1, 150000);
                 INSERT x SELECT value, value % 1000, REPLICATE('x', 34), NULL FROM GENERATE_SERIES(1, 60000);
                 ALTER TABLE x ADD d int NOT NULL DEFAULT 5",
            )
            .unwrap_or_else(|error| panic!("{megabytes} MB: {error:?}"));
        for (query, expected) in [
            ("SELECT SUM(d) FROM x", "SELECT 300000"),
            ("SELECT COUNT(*), MAX(id) FROM t WHERE LEN(s) = 34 AND m IS NULL", "SELECT 150000, 150000"),
        ] {
            assert_eq!(answer(&mut session, query), answer(&mut session, expected), "{megabytes} MB: {query}");
        }
    }
}

/// What a join keeps, and the keys that it collects for the scan of its other side, leave groupings and sorts below it
/// what they need.
#[test]
fn groupings_and_sorts_below_a_join_find_memory() {
    let (_folder, _instance, mut session) = open(128);
    session
        .run(
            "SELECT CAST(value AS int) k, CAST(value * 7 % 800011 AS int) r INTO a FROM GENERATE_SERIES(1, 800000);
             SELECT k, r, 'b' + CAST(k AS varchar(10)) s INTO b FROM a",
        )
        .expect("rows that fit");
    for (query, expected) in [
        ("SELECT COUNT(*) FROM (SELECT k, r FROM a EXCEPT SELECT k, r FROM b WHERE k % 4 > 0) x", "SELECT 200000"),
        ("SELECT COUNT(*) FROM (SELECT k, r FROM a INTERSECT SELECT k, r FROM b) x", "SELECT 800000"),
        (
            "SELECT COUNT(*), MAX(LEN(y.s)) FROM a CROSS APPLY (SELECT TOP 1 s FROM b WHERE b.r = a.r ORDER BY k) y",
            "SELECT 800000, 7",
        ),
    ] {
        assert_eq!(answer(&mut session, query), answer(&mut session, expected), "{query}");
    }
}

/// Texts and binary values of the longest batch of a query's rows, in bytes.
fn longest_batch(session: &mut Session, query: &str) -> usize {
    let (mut longest, mut failed) = (0, None);
    session.execute(query, &mut |event| {
        match event {
            Event::Rows(batch) => {
                let bytes = |column: &arrow::array::ArrayRef| {
                    let buffers = column.as_binary_view_opt().map(|values| values.data_buffers());
                    buffers.map_or(0, |buffers| buffers.iter().map(arrow::buffer::Buffer::len).sum::<usize>())
                };
                longest = longest.max(batch.columns().iter().map(bytes).sum());
            }
            Event::Error(error) => failed = Some(error),
            _ => {}
        }
        Flow::Continue
    });
    assert_eq!(failed, None, "{query}");
    longest
}

/// However many rows one page has, a batch has few of them if their values are long.
#[test]
fn a_page_of_rows_with_long_values_comes_in_several_batches() {
    let (_folder, _instance, mut session) = open(128);
    session
        .run(
            "CREATE TABLE h (k int, g int, v varbinary(max));
             CREATE TABLE c (k int PRIMARY KEY, g int, v varbinary(max), INDEX g (g));
             INSERT h SELECT value, value % 100, CAST(REPLICATE(CAST('b' AS varchar(max)), 200000) AS varbinary(max))
             FROM GENERATE_SERIES(1, 200);
             INSERT c SELECT * FROM h",
        )
        .expect("rows on few pages");
    for query in [
        "SELECT k, v FROM h",
        "SELECT k, v FROM h WHERE g < 90",
        "SELECT k, v FROM c",
        "SELECT k, v FROM c WHERE k BETWEEN 2 AND 190 ORDER BY k DESC",
        "SELECT k, v FROM c WITH (INDEX(g)) WHERE g < 90",
        "SELECT n.value, c.v FROM GENERATE_SERIES(1, 200) n INNER LOOP JOIN c ON c.k = n.value",
        "SELECT n.value, c.v FROM GENERATE_SERIES(1, 2) n INNER LOOP JOIN c ON c.k > n.value",
    ] {
        let longest = longest_batch(&mut session, query);
        assert!((200_000..6_000_000).contains(&longest), "{query}: {longest} bytes");
        let summed =
            format!("SELECT COUNT(*), SUM(DATALENGTH(v)) / COUNT(*) FROM ({query}) x").replace(" ORDER BY k DESC", "");
        let counted = answer(&mut session, &summed).0;
        assert_eq!(counted[0][1].as_deref(), Some("200000"), "{query}: {counted:?}");
    }
}

#[test]
fn rows_with_long_values_are_sorted_loaded_and_indexed_in_little_memory() {
    let (_folder, _instance, mut session) = open(256);
    session
        .run(
            "CREATE TABLE h (k int, v varbinary(max));
             INSERT h SELECT value * 104729 % 29971,
                             CAST(REPLICATE(CAST('b' AS varchar(max)), 10000) AS varbinary(max)) + CAST(value AS binary(4))
             FROM GENERATE_SERIES(1, 4000)",
        )
        .expect("40 MB");
    for statement in [
        "SELECT TOP (2000000000) * INTO s FROM h ORDER BY k OPTION (MAXDOP 2)",
        "SELECT k, v, ROW_NUMBER() OVER (ORDER BY k) n, SUM(k) OVER (PARTITION BY k % 10 ORDER BY k) t INTO w FROM h",
        "CREATE TABLE c (k int, v varbinary(max)); CREATE CLUSTERED INDEX k ON c (k); INSERT c SELECT * FROM h",
        "CREATE CLUSTERED INDEX k ON s (k)",
        "CREATE INDEX v ON h (k) INCLUDE (v)",
        "UPDATE h SET v = v + 0x01, k = k + 1",
    ] {
        session.run(statement).unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
    let sums = "SELECT SUM(CAST(k AS bigint)), SUM(DATALENGTH(v)), COUNT(DISTINCT SUBSTRING(v, 10001, 4)) FROM";
    let expected = answer(&mut session, &format!("{sums} (SELECT k - 1 k, SUBSTRING(v, 1, 10004) v FROM h) x"));
    assert_eq!(expected.0[0][1].as_deref(), Some("40016000"));
    for table in ["s", "w", "c", "c WITH (INDEX(k))"] {
        assert_eq!(answer(&mut session, &format!("{sums} {table}")), expected, "{table}");
    }
}

/// A sort above a window gets batches that hold the buffers of many others.
#[test]
fn sorts_above_windows_of_wide_rows_find_memory() {
    for megabytes in [256, 512] {
        let (_folder, _instance, mut session) = open(megabytes);
        session
            .run(
                "CREATE TABLE d (k int, id int, v varchar(8000), c char(2000));
                 INSERT d SELECT value * 7919 % 10007, value, REPLICATE(CHAR(65 + value % 26), 5900),
                                 CAST(value % 100 AS varchar(10)) FROM GENERATE_SERIES(1, 10000)",
            )
            .expect("80 MB");
        for select in [
            "SELECT ROW_NUMBER() OVER (PARTITION BY c ORDER BY k) r,
                    SUM(k) OVER (ORDER BY k ROWS UNBOUNDED PRECEDING) s, d.* INTO e FROM d OPTION (MAXDOP 1)",
            "SELECT TOP (2000000000) ROW_NUMBER() OVER (PARTITION BY c ORDER BY k) r, d.* INTO e FROM d ORDER BY v, id",
        ] {
            session.run(select).unwrap_or_else(|error| panic!("{megabytes} MB: {select}: {error:?}"));
            let sums = "SELECT COUNT(*), SUM(r), SUM(LEN(v)) FROM e";
            assert_eq!(answer(&mut session, sums), answer(&mut session, "SELECT 10000, 505000, 59000000"), "{select}");
            session.run("DROP TABLE e").expect("dropped");
        }
    }
}

/// The result of a call that goes into a table waits on disk.
#[test]
fn what_a_call_returns_for_an_insert_waits_on_disk() {
    let (_folder, _instance, mut session) = open(128);
    let written = "SELECT num_of_bytes_written FROM sys.dm_io_virtual_file_stats(2, 1)";
    let before = number(&mut session, written);
    session
        .run(
            "CREATE TABLE t (id bigint, s varchar(300));
             INSERT t EXEC ('SELECT value, REPLICATE(CHAR(65 + value % 26), 200) FROM GENERATE_SERIES(1, 200000)')",
        )
        .expect("40 MB");
    let kept = number(&mut session, written) - before;
    assert!(kept > 40_000_000, "{kept} bytes in spill files");
    let sums = answer(&mut session, "SELECT COUNT(*), SUM(id), SUM(LEN(s)), COUNT(DISTINCT s) FROM t");
    assert_eq!(sums, answer(&mut session, "SELECT 200000, 20000100000, 40000000, 26"));
}
