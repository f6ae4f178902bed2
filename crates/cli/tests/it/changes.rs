//! `UPDATE`, `DELETE` and `MERGE` against a model of the rows, and the effect of a statement that does not reach its
//! end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use hobt::{Event, Flow, Instance, InstanceSettings, Session, SqlError};
use hobt_base::SplitMix64;

fn open(settings: InstanceSettings) -> (tempfile::TempDir, Instance, Session) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let instance = Instance::open_with(folder.path(), settings).expect("an instance");
    let mut session = instance.session().expect("a session");
    session.run("CREATE DATABASE d").expect("a database");
    session.run("USE d").expect("the database");
    (folder, instance, session)
}

/// The rows of the last result set, as texts. `stop` cancels after the first rows.
fn rows(session: &mut Session, batch: &str, stop: bool) -> Result<Vec<Vec<String>>, SqlError> {
    let (mut found, mut columns, mut failed) = (Vec::new(), Vec::new(), None);
    session.execute(batch, &mut |event: Event| {
        match event {
            Event::ResultSet(begun) => {
                columns = begun;
                found.clear();
            }
            Event::Rows(batch) => {
                for row in 0..batch.num_rows() {
                    let cells = (0..batch.num_columns()).map(|column| {
                        let text = hobt::cell_text(&columns, &batch, row, column).expect("a text");
                        text.unwrap_or_else(|| "NULL".to_owned())
                    });
                    found.push(cells.collect());
                }
                if stop {
                    return Flow::Stop;
                }
            }
            Event::Error(error) => failed = failed.take().or(Some(error)),
            _ => {}
        }
        Flow::Continue
    });
    failed.map_or(Ok(found), Err)
}

/// The placeholder for a statement's `OUTPUT`.
const OUTPUT: &str = "<output>";

/// The expected contents of the table: key to group and text.
type Model = BTreeMap<i64, (i64, Option<String>)>;

fn check(session: &mut Session, model: &Model, after: &str) {
    let found = rows(session, "SELECT k, g, s FROM t ORDER BY k", false).expect("the rows");
    let expected: Vec<Vec<String>> = model
        .iter()
        .map(|(k, (g, s))| vec![k.to_string(), g.to_string(), s.clone().unwrap_or_else(|| "NULL".to_owned())])
        .collect();
    assert_eq!(found, expected, "after {after}");
    let count = rows(session, "SELECT SUM(rows) FROM sys.partitions WHERE object_id = OBJECT_ID('t')", false);
    assert_eq!(count.expect("the count"), [[model.len().to_string()]], "after {after}");
}

/// A statement with a placeholder for `OUTPUT`, and the model after it.
fn random_change(random: &mut SplitMix64, model: &mut Model, next: &mut i64, step: i64) -> String {
    let by = 2 + random.below(5) as i64;
    let rest = random.below(by as u64) as i64;
    let meant: Vec<i64> = model.keys().copied().filter(|k| k % by == rest).collect();
    match random.below(8) {
        0 | 1 => {
            let first = *next;
            *next += 40;
            model.extend((first..*next).map(|k| (k, (k % 7, Some(format!("row {k}"))))));
            format!(
                "INSERT INTO t {OUTPUT} SELECT value, value % 7, CONCAT('row ', value) FROM GENERATE_SERIES({first}, {})",
                *next - 1
            )
        }
        2 => {
            meant.iter().for_each(|k| model.get_mut(k).expect("a row").0 += by);
            format!("UPDATE t SET g += {by} {OUTPUT} WHERE k % {by} = {rest}")
        }
        3 => {
            // Keys, and so partitions, move to where no row is; texts grow.
            let (near, far) = (100_000, 100_000 * (step + 1));
            for k in meant.iter().filter(|k| **k < near) {
                let (g, s) = model.remove(k).expect("a row");
                model.insert(k + far, (g, s.map(|s| s + "+")));
            }
            format!("UPDATE t SET k = k + {far}, s = s + '+' {OUTPUT} WHERE k % {by} = {rest} AND k < {near}")
        }
        4 => {
            meant.iter().for_each(|k| model.get_mut(k).expect("a row").1 = Some(by.to_string()));
            format!(
                "UPDATE a SET s = v.s {OUTPUT} FROM t AS a JOIN (VALUES ({rest}, '{by}'), ({rest}, '{by}')) AS v (r, s) \
                 ON a.k % {by} = v.r"
            )
        }
        5 => {
            meant.iter().for_each(|k| drop(model.remove(k)));
            format!("DELETE FROM t {OUTPUT} WHERE k % {by} = {rest}")
        }
        6 => {
            let gone: Vec<i64> = model.keys().copied().take(10).collect();
            gone.iter().for_each(|k| drop(model.remove(k)));
            format!(
                "WITH c AS (SELECT k, ROW_NUMBER() OVER (ORDER BY k) AS n FROM t) DELETE FROM c {OUTPUT} WHERE n <= 10"
            )
        }
        _ => {
            let (first, last) = (*next - 20, *next + 10);
            *next = last;
            for k in first..last {
                model.entry(k).and_modify(|row| row.0 = -k).or_insert((k, None));
            }
            format!(
                "MERGE t USING (SELECT value AS k FROM GENERATE_SERIES({first}, {})) AS s ON s.k = t.k \
                 WHEN MATCHED THEN UPDATE SET g = -s.k WHEN NOT MATCHED THEN INSERT (k, g) VALUES (s.k, s.k) \
                 {OUTPUT};",
                last - 1
            )
        }
    }
}

#[test]
fn random_changes_leave_what_a_model_has() {
    for seed in 0..2 {
        let (_folder, _instance, mut session) = open(InstanceSettings::default());
        session.run("CREATE PARTITION FUNCTION pf (int) AS RANGE RIGHT FOR VALUES (200, 100000, 100200)").expect("it");
        session.run("CREATE PARTITION SCHEME ps AS PARTITION pf ALL TO ([PRIMARY])").expect("the scheme");
        session.run("CREATE TABLE t (k int NOT NULL, g int NOT NULL, s varchar(200) NULL) ON ps (k)").expect("a table");
        let (mut random, mut model, mut next) = (SplitMix64::new(seed), Model::new(), 100);
        for step in 0..60 {
            let before = model.clone();
            let change = random_change(&mut random, &mut model, &mut next, step);
            let after = format!("step {step} of seed {seed}: {change}");
            if random.below(4) > 0 {
                session.run(&change.replace(OUTPUT, "")).expect(&after);
            } else {
                // `OUTPUT` fails after the last change: nothing must have happened, unless there were no rows.
                let table = if change.starts_with("INSERT") { "inserted" } else { "deleted" };
                let failing = change.replace(OUTPUT, &format!("OUTPUT 1 / (ISNULL({table}.k, 0) * 0)"));
                if let Err(error) = session.run(&failing) {
                    assert_eq!(error.number, 8134, "{after}");
                }
                model = before;
            }
            check(&mut session, &model, &after);
        }
    }
}

#[test]
fn a_change_whose_client_wants_no_more_is_undone() {
    let (_folder, _instance, mut session) = open(InstanceSettings::default());
    session.run("SELECT value AS k, 0 AS g INTO t FROM GENERATE_SERIES(1, 20000)").expect("rows");
    for change in [
        "UPDATE t SET g = 1, k = -k OUTPUT inserted.k",
        "DELETE FROM t OUTPUT deleted.k WHERE k > 10",
        "INSERT INTO t OUTPUT inserted.k SELECT k, 2 FROM t",
        "MERGE t USING (SELECT 5 AS k) AS s ON s.k = t.k WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET g = 3 OUTPUT $action;",
    ] {
        assert_eq!(rows(&mut session, change, true).map(drop), Ok(()), "{change}");
        let left = rows(&mut session, "SELECT COUNT(*), MIN(k), SUM(k), MAX(g) FROM t", false).expect("the rows");
        assert_eq!(left, [["20000", "1", "200010000", "0"]], "{change}");
    }
}

/// An instance with little memory: a collection of rows takes 2 MB of it before it goes to disk.
fn open_small() -> (tempfile::TempDir, Instance, Session) {
    open(InstanceSettings { memory_bytes: Some(64 << 20), ..InstanceSettings::default() })
}

/// Runs a batch that puts at least `least` KB on disk, and returns the rows of its last result set.
fn spills(instance: &Instance, session: &mut Session, least: u64, batch: &str) -> Vec<Vec<String>> {
    let written = || instance.server().instance().spills().transfers().writes.bytes;
    let before = written();
    let found = rows(session, batch, false).unwrap_or_else(|error| panic!("{batch}: {error}"));
    let kilobytes = (written() - before) >> 10;
    assert!(kilobytes >= least, "{kilobytes} KB were put on disk: {batch}");
    assert_eq!(instance.server().instance().spills().size_bytes(), 0, "no file is left: {batch}");
    found
}

#[test]
fn a_change_of_more_than_the_memory_goes_to_disk() {
    let (_folder, instance, mut session) = open_small();
    session
        .run("SELECT CAST(value AS int) AS k, CAST('' AS varchar(2000)) AS s INTO t FROM GENERATE_SERIES(1, 20000)")
        .expect("rows");
    let counted = "SELECT @@ROWCOUNT, COUNT(*), SUM(CAST(k AS bigint)), MIN(LEN(s)), MAX(LEN(s)) FROM t";
    let update = format!("UPDATE t SET k = k + 1, s = REPLICATE('x', 900 + k % 100); {counted}");
    let found = spills(&instance, &mut session, 35_000, &update);
    assert_eq!(found, [["20000", "20000", "200030000", "900", "999"]], "the values, from the rows as they were");
    let found = rows(&mut session, "SELECT COUNT(*) FROM t WHERE LEN(s) <> 900 + (k - 1) % 100", false).expect("rows");
    assert_eq!(found, [["0"]]);
    session.run("UPDATE TOP (1000) t SET k = -k").expect("a piece of it");
    // The deleted texts of 18 MB are held, and come out after the last change.
    let delete = "DELETE FROM t OUTPUT deleted.k, deleted.s WHERE k > 0";
    let found = spills(&instance, &mut session, 17_000, delete);
    assert_eq!(found.len(), 19_000);
    assert!(found.iter().all(|row| row[1].len() >= 900 && row[1].bytes().all(|byte| byte == b'x')));
    let found = rows(&mut session, counted, false).expect("the rows");
    assert_eq!(found[0][1], "1000");
}

#[test]
fn a_row_that_a_join_brings_again_is_changed_once_with_many_rows_too() {
    let (_folder, instance, mut session) = open_small();
    for key in ["", " PRIMARY KEY"] {
        session.run(&format!("CREATE TABLE t (k int NOT NULL{key}, n int NOT NULL, s varchar(80) NULL)")).expect("it");
        session.run("INSERT INTO t WITH (TABLOCK) SELECT value, 0, '' FROM GENERATE_SERIES(1, 40000)").expect("rows");
        // More positions than the set of those seen has room for. The copies of a row come far from each other.
        let join = "t JOIN (SELECT value % 40000 + 1 AS k, value / 40000 AS v FROM GENERATE_SERIES(0, 119999)) AS s \
                    ON s.k = t.k";
        let update = format!("UPDATE t SET n = n + 1, s = CONCAT('copy ', s.v) FROM {join}; SELECT @@ROWCOUNT");
        assert_eq!(spills(&instance, &mut session, 2000, &update), [["40000"]], "{key}");
        let found = rows(&mut session, "SELECT COUNT(*), MIN(n), MAX(n), MIN(LEN(s)) FROM t", false).expect("rows");
        assert_eq!(found, [["40000", "1", "1", "6"]], "{key}");
        let top = format!("UPDATE TOP (35000) t SET n = n + 1 FROM {join}; SELECT @@ROWCOUNT, SUM(n), MAX(n) FROM t");
        assert_eq!(spills(&instance, &mut session, 500, &top), [["35000", "75000", "2"]], "{key}");
        let delete = format!("DELETE t FROM {join} WHERE s.k > 100; SELECT @@ROWCOUNT, COUNT(*) FROM t");
        assert_eq!(spills(&instance, &mut session, 500, &delete), [["39900", "100"]], "{key}");
        session.run("DROP TABLE t").expect("it");
    }
}

#[test]
fn a_merge_of_more_than_the_memory_goes_to_disk_and_takes_no_row_twice() {
    let (_folder, instance, mut session) = open_small();
    for key in ["", " PRIMARY KEY"] {
        session.run(&format!("CREATE TABLE t (k int NOT NULL{key}, n int NOT NULL, s varchar(80) NULL)")).expect("it");
        session.run("INSERT INTO t WITH (TABLOCK) SELECT value, 0, '' FROM GENERATE_SERIES(1, 30000)").expect("rows");
        let merge = |rest: &str| {
            format!(
                "MERGE t USING (SELECT CAST(value AS int) AS k FROM GENERATE_SERIES(10001, 45000) {rest}) AS s \
                 ON s.k = t.k WHEN MATCHED THEN UPDATE SET n = t.n + 1, s = CONCAT(REPLICATE('y', 70), t.k) \
                 WHEN NOT MATCHED BY SOURCE THEN DELETE \
                 WHEN NOT MATCHED THEN INSERT (k, n, s) VALUES (s.k, 7, CONCAT(REPLICATE('z', 70), s.k))"
            )
        };
        let twice = session.run(&format!("{};", merge("UNION ALL SELECT 29999"))).expect_err("a row that comes twice");
        assert_eq!(twice.number, 8672, "{key}");
        let before = rows(&mut session, "SELECT COUNT(*), SUM(n), MAX(s) FROM t", false).expect("the rows");
        assert_eq!(before, [["30000", "0", ""]], "{key}");
        let merged = format!("{}; SELECT @@ROWCOUNT, n, MIN(s), COUNT(*) FROM t GROUP BY n ORDER BY n", merge(""));
        let found = spills(&instance, &mut session, 2000, &merged);
        let (y, z) = (format!("{}10001", "y".repeat(70)), format!("{}30001", "z".repeat(70)));
        let expected = [["45000", "1", &y, "20000"], ["45000", "7", &z, "15000"]];
        assert_eq!(found, expected, "{key}");
        let wrong = "SELECT COUNT(*) FROM t WHERE s <> CONCAT(REPLICATE(IIF(n = 1, 'y', 'z'), 70), k)";
        assert_eq!(rows(&mut session, wrong, false).expect("the rows"), [["0"]], "{key}");
        session.run("DROP TABLE t").expect("it");
    }
}

#[test]
fn keys_pass_from_row_to_row_in_a_change_of_more_than_the_memory() {
    let (_folder, instance, mut session) = open_small();
    for table in [
        "CREATE TABLE t (k int NOT NULL PRIMARY KEY, u int NOT NULL UNIQUE, n int NOT NULL, s varchar(200) NOT NULL)",
        "CREATE TABLE t (k int NOT NULL, u int NOT NULL UNIQUE, n int NOT NULL INDEX by_n, s varchar(200) NOT NULL)",
    ] {
        session.run(table).expect(table);
        let made = "INSERT INTO t SELECT value, -value, value % 10, REPLICATE('x', 50) FROM GENERATE_SERIES(1, 15000)";
        session.run(made).expect("rows");
        let shift = "UPDATE t SET k = k + 1, u = u - 1, n = n + 1, s = CONCAT(REPLICATE('y', 150), k); \
                     SELECT @@ROWCOUNT, COUNT(*), MIN(k), MAX(k), MIN(u), MAX(u), SUM(n), MIN(s) FROM t";
        let found = spills(&instance, &mut session, 3000, shift);
        let y = format!("{}1", "y".repeat(150));
        assert_eq!(found, [["15000", "15000", "2", "15001", "-15001", "-2", "82500", &y]], "{table}");
        let sought = "SELECT k FROM t WHERE u = -7; DBCC CHECKTABLE ('t') WITH NO_INFOMSGS";
        assert_eq!(rows(&mut session, sought, false).expect("no error of the check"), [["7"]], "{table}");
        let error = session
            .run("UPDATE t SET u = u / 2, s = CONCAT(REPLICATE('z', 180), k)")
            .expect_err("two rows of each key");
        assert_eq!(error.number, 2627, "{table}");
        let left = rows(&mut session, "SELECT MIN(s), SUM(k + u), COUNT(*) FROM t", false).expect("the rows");
        assert_eq!(left, [[y.as_str(), "0", "15000"]], "{table}");
        session.run("DROP TABLE t").expect("it");
    }
}

#[test]
fn foreign_keys_of_a_change_of_more_than_the_memory_are_checked_and_followed() {
    let (_folder, instance, mut session) = open_small();
    let key = "REPLICATE('k', 100) + CAST(value AS varchar(10))";
    let tables = format!(
        "CREATE TABLE p (k varchar(120) NOT NULL PRIMARY KEY, n int NOT NULL); \
         CREATE TABLE c (n int NOT NULL, k varchar(120) NULL REFERENCES p (k) ON DELETE CASCADE); \
         INSERT INTO p SELECT {key}, value FROM GENERATE_SERIES(1, 20000); \
         INSERT INTO c SELECT value, NULL FROM GENERATE_SERIES(1, 20000)"
    );
    session.run(&tables).expect("tables");
    let error = session.run("UPDATE c SET k = REPLICATE('k', 100) + CAST(n + 1 AS varchar(10))").expect_err("no 20001");
    assert_eq!(error.number, 547, "{error}");
    let valid = "UPDATE c SET k = REPLICATE('k', 100) + CAST(n AS varchar(10)); SELECT COUNT(k) FROM c";
    assert_eq!(spills(&instance, &mut session, 4000, valid), [["20000"]]);
    let followed = "DELETE FROM p WHERE n > 100; SELECT @@ROWCOUNT, COUNT(*), MAX(n) FROM c";
    assert_eq!(spills(&instance, &mut session, 4000, followed), [["19900", "100", "100"]]);
}

#[test]
fn all_rows_of_a_large_change_are_locked_where_locks_do_not_escalate() {
    let (_folder, instance, mut session) = open_small();
    session.run("CREATE TABLE t (k int NOT NULL PRIMARY KEY)").expect("a table");
    session.run("INSERT INTO t WITH (TABLOCK) SELECT value FROM GENERATE_SERIES(1, 60000)").expect("rows");
    session.run("ALTER TABLE t SET (LOCK_ESCALATION = DISABLE)").expect("it");
    session.run("BEGIN TRANSACTION; DELETE FROM t WHERE k <> 35000").expect("more rows than are locked in one order");
    let mut other = instance.session().expect("a session");
    other.run("USE d; SET LOCK_TIMEOUT 0").expect("the database");
    for k in [1, 34_999, 35_001, 59_999, 60_000] {
        let read = format!("SELECT k FROM t WITH (READCOMMITTEDLOCK) WHERE k = {k}");
        assert_eq!(rows(&mut other, &read, false).expect_err("it is being deleted").number, 1222, "{k}");
    }
    let kept = rows(&mut other, "SELECT k FROM t WITH (READCOMMITTEDLOCK) WHERE k = 35000", false);
    assert_eq!(kept.expect("a row that is not locked"), [["35000"]]);
    session.run("COMMIT").expect("it");
    assert_eq!(rows(&mut other, "SELECT k FROM t", false).expect("the row"), [["35000"]]);
}

#[test]
fn sessions_that_change_one_row_lose_nothing_of_each_other() {
    const SESSIONS: usize = 3;
    const ROUNDS: usize = 40;
    let (_folder, instance, mut session) = open(InstanceSettings::default());
    session.run("CREATE TABLE t (k int NOT NULL, g int NOT NULL); INSERT INTO t VALUES (1, 0), (2, 0)").expect("rows");
    session.run("CREATE TABLE i (id int IDENTITY, at int NOT NULL)").expect("a table");
    std::thread::scope(|scope| {
        for _ in 0..SESSIONS {
            scope.spawn(|| {
                let mut session = instance.session().expect("a session");
                session.run("USE d").expect("the database");
                for round in 0..ROUNDS {
                    let change = match round % 4 {
                        0 => "UPDATE t SET g += 1 WHERE k = 1",
                        1 => "UPDATE a SET g = b.g + 1 FROM t AS a JOIN t AS b ON b.k = a.k WHERE a.k = 1",
                        2 => "WITH c AS (SELECT g FROM t WHERE k = 1) UPDATE c SET g = g + 1",
                        _ => {
                            "MERGE t USING (SELECT 1 AS k) AS s ON s.k = t.k WHEN MATCHED THEN UPDATE SET g = t.g + 1;"
                        }
                    };
                    session.run(change).expect(change);
                    session.run("INSERT INTO i (at) VALUES (1)").expect("a row");
                }
            });
        }
    });
    let changed = (SESSIONS * ROUNDS).to_string();
    let left = rows(&mut session, "SELECT COUNT(*), MAX(g), MIN(g) FROM t", false).expect("the rows");
    assert_eq!(left, [["2", changed.as_str(), "0"]]);
    let numbers = rows(&mut session, "SELECT COUNT(*), COUNT(DISTINCT id) FROM i", false).expect("the rows");
    assert_eq!(numbers, [[changed.as_str(), changed.as_str()]]);
}

/// Sessions move rows between groups, insert rows and roll back, while other statements increment the counter of all
/// rows in a group. In the end, the sum of the counters must equal the sum of the reported row counts.
#[test]
fn sessions_that_change_rows_which_others_make_meet_their_conditions_lose_nothing() {
    const SESSIONS: u64 = 3;
    const STEPS: usize = 25;
    let tables = [
        "CREATE TABLE t (k int NOT NULL, g int NOT NULL, n int NOT NULL)",
        "CREATE TABLE t (k int NOT NULL, g int NOT NULL, n int NOT NULL); CREATE INDEX by_g ON t (g)",
        "CREATE TABLE t (k int NOT NULL PRIMARY KEY, g int NOT NULL, n int NOT NULL); CREATE INDEX by_g ON t (g)",
    ];
    for (place, table) in tables.into_iter().enumerate() {
        let (_folder, instance, mut session) = open(InstanceSettings::default());
        session.run(table).expect("a table");
        session.run("INSERT INTO t SELECT value, value % 4, 0 FROM GENERATE_SERIES(1, 12)").expect("rows");
        let by_index = if place == 0 { "" } else { "WITH (INDEX (by_g))" };
        let counted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for number in 0..SESSIONS {
                let (counted, instance) = (&counted, &instance);
                scope.spawn(move || {
                    let mut random = SplitMix64::new(number + 10 * place as u64);
                    let mut session = instance.session().expect("a session");
                    session.run("USE d").expect("the database");
                    for step in 0..STEPS {
                        let (from, to) = (random.below(4), random.below(4));
                        let key = 1000 * (number + 1) + step as u64;
                        let count = match random.below(3) {
                            0 => format!("UPDATE t {by_index} SET n += 1 WHERE g = {from}; SET @n = @@ROWCOUNT;"),
                            1 => format!(
                                "UPDATE a SET n = a.n + 1 FROM t AS a JOIN (VALUES ({from}), ({to} + 10)) AS s (g) ON s.g = a.g; \
                                 SET @n = @@ROWCOUNT;"
                            ),
                            _ => format!(
                                "MERGE t USING (VALUES ({from})) AS s (g) ON s.g = t.g WHEN MATCHED THEN UPDATE SET n = t.n + 1; \
                                 SET @n = @@ROWCOUNT;"
                            ),
                        };
                        let around = match random.below(3) {
                            0 => format!("UPDATE TOP (1) t SET g = {to} WHERE g = {from};"),
                            1 => format!("INSERT INTO t VALUES ({key}, {to}, 0);"),
                            _ => format!("UPDATE t {by_index} SET g = {to} WHERE g = {from} AND k % 2 = 0;"),
                        };
                        let (end, is_kept) =
                            if random.below(3) == 0 { ("ROLLBACK", false) } else { ("COMMIT", true) };
                        let batch = format!(
                            "DECLARE @n int = 0; BEGIN TRANSACTION; {around} {count} {end}; SELECT @n"
                        );
                        match rows(&mut session, &batch, false) {
                            Ok(found) if is_kept => {
                                let rows: u64 = found[0][0].parse().expect("a number");
                                counted.fetch_add(rows, Ordering::Relaxed);
                            }
                            Ok(_) => {}
                            Err(error) => assert_eq!(error.number, 1205, "{batch}: {error}"),
                        }
                    }
                });
            }
        });
        let sum = rows(&mut session, "SELECT SUM(n) FROM t", false).expect("the rows");
        assert_eq!(sum, [[counted.into_inner().to_string()]], "{table}");
        if place > 0 {
            let by_both = "SELECT COUNT(*) FROM t WITH (INDEX (by_g)) WHERE g >= 0 UNION ALL SELECT COUNT(*) FROM t WITH (INDEX (0))";
            let counts = rows(&mut session, by_both, false).expect("the rows");
            assert_eq!(counts[0], counts[1], "the index has what the table has: {table}");
        }
    }
}
