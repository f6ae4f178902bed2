//! The embedding interface: streams, cancellation, views, errors, and what is left behind.

use hobt::{Event, Flow, Instance, Item, Query, Session, SqlError};

/// An instance in a folder of its own, with a database `db` in use.
fn open() -> (tempfile::TempDir, Instance, Session) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let instance = Instance::open(folder.path()).expect("an instance");
    let mut session = instance.session().expect("a session");
    session.run("CREATE DATABASE db").expect("a database");
    session.run("USE db").expect("its use");
    (folder, instance, session)
}

/// The rows of the last result set, and the errors.
fn texts(session: &mut Session, batch: &str) -> (Vec<Vec<String>>, Vec<SqlError>) {
    let (mut rows, mut errors, mut columns) = (Vec::new(), Vec::new(), Vec::new());
    session.execute(batch, &mut |event: Event| {
        match event {
            Event::ResultSet(begun) => {
                columns = begun;
                rows.clear();
            }
            Event::Rows(batch) => {
                for row in 0..batch.num_rows() {
                    let cell = |column| hobt::cell_text(&columns, &batch, row, column).expect("a text");
                    rows.push((0..columns.len()).map(|c| cell(c).unwrap_or_else(|| "NULL".to_owned())).collect());
                }
            }
            Event::Error(error) => errors.push(error),
            _ => {}
        }
        Flow::Continue
    });
    (rows, errors)
}

fn value(session: &mut Session, batch: &str) -> String {
    let (rows, errors) = texts(session, batch);
    assert_eq!(errors, [], "{batch}");
    rows.first().and_then(|row| row.first()).cloned().unwrap_or_else(|| panic!("{batch} gave no row"))
}

#[test]
fn a_query_streams_batches_messages_and_statistics() {
    let (_folder, instance, mut session) = open();
    session.run("CREATE TABLE t (a int NOT NULL, b bit NULL)").expect("a table");
    session.run("INSERT INTO t VALUES (1, 1), (2, NULL)").expect("rows");
    let items: Vec<Item> = session.query("SELECT a, b FROM t ORDER BY a; PRINT 'done'").collect();
    let batches: Vec<_> =
        items.iter().filter_map(|item| if let Item::Batch(batch) = item { Some(batch) } else { None }).collect();
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
    assert_eq!(batches[0].schema().field(1).data_type().to_string(), "Boolean");
    assert!(items.iter().any(|item| matches!(item, Item::Message(message) if message.text == "done")));
    assert!(items.iter().any(|item| matches!(item, Item::Statistics(_))));
    drop(session);
    instance.close().expect("a clean end");
}

/// A batch that waits for the rest of the day, so it never ends by itself in a test.
const ENDLESS: &str = "WAITFOR DELAY '23:59:59'; SELECT 1 AS one INTO t";

fn numbers(query: Query<'_>) -> Vec<i32> {
    query.filter_map(|item| if let Item::Error(error) = item { Some(error.number) } else { None }).collect()
}

#[test]
fn a_batch_is_cancelled_from_another_thread_and_leaves_nothing() {
    let (_folder, _instance, mut session) = open();
    let query = session.query(ENDLESS);
    let cancel = query.cancel_handle();
    let canceller = std::thread::spawn(move || cancel.cancel());
    assert_eq!(numbers(query), [3617]);
    canceller.join().expect("the other thread");
    assert_eq!(value(&mut session, "SELECT COUNT(*) FROM sys.tables"), "0");
}

#[test]
fn who_cancels_before_the_batch_has_begun_is_heard() {
    let (_folder, instance, mut session) = open();
    for _ in 0..50 {
        let query = session.query(ENDLESS);
        query.cancel_handle().cancel();
        assert_eq!(numbers(query), [3617]);
        drop(session.query(ENDLESS));
        // The cancelled batch is over: the next batch runs.
        assert_eq!(value(&mut session, "SELECT COUNT(*) FROM sys.tables"), "0");
    }
    let handle = session.cancel_handle();
    handle.cancel();
    assert_eq!(value(&mut session, "SELECT 1"), "1", "without a batch nothing is cancelled");
    for _ in 0..20 {
        let mut victim = instance.session().expect("a session");
        let id = value(&mut victim, "SELECT @@SPID");
        let query = victim.query(ENDLESS);
        session.run(&format!("KILL {id}")).expect("the session is there");
        let ended = numbers(query);
        assert!(ended == [3617] || ended == [596], "{ended:?}");
        assert_eq!(numbers(victim.query("SELECT 1")), [596]);
    }
}

#[test]
fn try_takes_errors_and_tells_about_them() {
    let (_folder, _instance, mut session) = open();
    let caught = "BEGIN TRY SELECT 1/0 END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH";
    assert_eq!(value(&mut session, caught), "8134");
    let nested = "BEGIN TRY EXEC('SELECT * FROM nosuch') END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH";
    assert_eq!(value(&mut session, nested), "208");
    let (_, errors) =
        texts(&mut session, "BEGIN TRY THROW 50001, 'mine', 3 END TRY BEGIN CATCH THROW END CATCH SELECT 1");
    assert_eq!(errors.len(), 1);
    assert_eq!((errors[0].number, errors[0].state), (50001, 3));
    let (_, errors) = texts(&mut session, "RAISERROR('%s has %d', 16, 1, 'x', 5)");
    assert_eq!(errors[0].message, "x has 5");
}

#[test]
fn procedures_take_and_return_values() {
    let (_folder, _instance, mut session) = open();
    session.run("CREATE PROCEDURE twice @x int, @y int = 10 OUTPUT AS SET @y = @x * 2; RETURN 7").expect("a procedure");
    let call = "DECLARE @r int, @y int; EXEC @r = twice 21, @y OUTPUT; SELECT CONCAT(@r, ':', @y)";
    assert_eq!(value(&mut session, call), "7:42");
    let text =
        "DECLARE @n int; EXEC sp_executesql N'SET @n = @m + 1', N'@m int, @n int OUTPUT', 4, @n OUTPUT; SELECT @n";
    assert_eq!(value(&mut session, text), "5");
    let (_, errors) = texts(&mut session, "EXEC twice");
    assert_eq!(errors[0].number, 201);
    session.run("CREATE TABLE t (a int NULL)").expect("a table");
    session.run("INSERT INTO t EXEC('SELECT 1 UNION ALL SELECT 2')").expect("rows of a call");
    assert_eq!(value(&mut session, "SELECT SUM(a) FROM t"), "3");
}

#[test]
fn identity_defaults_and_temporary_tables() {
    let (_folder, _instance, mut session) = open();
    session.run("CREATE TABLE t (id int IDENTITY(10, 5), a int NULL, b int NOT NULL DEFAULT 7)").expect("a table");
    session.run("INSERT INTO t (a) VALUES (1), (2)").expect("values");
    session.run("INSERT INTO t (a) SELECT 3").expect("a query");
    assert_eq!(value(&mut session, "SELECT CONCAT(MIN(id), ' ', MAX(id), ' ', SUM(b)) FROM t"), "10 20 21");
    session.run("CREATE TABLE #x (a int); INSERT INTO #x VALUES (5)").expect("a temporary table");
    assert_eq!(value(&mut session, "SELECT a FROM #x"), "5");
    assert_eq!(value(&mut session, "DECLARE @v TABLE (a int NULL); INSERT INTO @v VALUES (6); SELECT a FROM @v"), "6");
}

#[test]
fn every_view_can_be_read() {
    let (_folder, _instance, mut session) = open();
    session.run("CREATE TABLE t (a int NULL, b nvarchar(10) NULL DEFAULT N'x')").expect("a table");
    session.run("CREATE VIEW v AS SELECT a FROM t").expect("a view");
    let (rows, errors) = texts(
        &mut session,
        "SELECT SCHEMA_NAME(schema_id) + '.' + name FROM sys.system_objects WHERE type = 'V' ORDER BY 1",
    );
    assert_eq!(errors, []);
    assert!(rows.len() > 50, "{}", rows.len());
    for row in rows {
        let (_, errors) = texts(&mut session, &format!("SELECT * FROM {}", row[0]));
        assert_eq!(errors, [], "{}", row[0]);
    }
    // The data file and the log.
    let files = "SELECT COUNT(*) FROM sys.dm_io_virtual_file_stats(DB_ID(), NULL)";
    let expected = value(&mut session, "SELECT COUNT(*) FROM sys.database_files");
    assert_eq!(value(&mut session, files), expected);
    let many = value(&mut session, "SELECT COUNT(*) FROM master.dbo.syscolumns");
    assert!(many.parse::<u32>().expect("a number") > 300, "{many}");
}

#[test]
fn statistics_are_printed_in_sql_servers_letters() {
    let (_folder, _instance, mut session) = open();
    session.run("CREATE TABLE t (a int NULL); INSERT INTO t VALUES (1)").expect("a table");
    session.run("SET STATISTICS IO, TIME ON").expect("an option");
    let items: Vec<Item> = session.query("SELECT COUNT(*) FROM t").collect();
    let texts: Vec<&str> = items
        .iter()
        .filter_map(|item| if let Item::Message(message) = item { Some(message.text.as_str()) } else { None })
        .collect();
    let reads = ", logical reads 1, physical reads 0, page server reads 0, read-ahead reads 0, page server read-ahead reads 0, ";
    // A parallel scan counts once per worker.
    assert!(texts.iter().any(|text| text.starts_with("Table 't'. Scan count ") && text.contains(reads)), "{texts:?}");
    assert!(texts.iter().any(|text| text.contains(" SQL Server Execution Times:\n   CPU time = ")), "{texts:?}");
    assert!(
        texts.iter().any(|text| text.starts_with("SQL Server parse and compile time: \n   CPU time = ")),
        "{texts:?}"
    );
}

/// The first sentences of the messages that a batch sends, and the number of costs.
fn sent(session: &mut Session, batch: &str) -> (Vec<String>, usize) {
    let (mut texts, mut costs) = (Vec::new(), 0);
    for item in session.query(batch) {
        match item {
            Item::Message(message) => texts.push(message.text.split('.').next().unwrap_or_default().to_owned()),
            Item::Statistics(_) => costs += 1,
            Item::Error(error) => panic!("{error}"),
            _ => {}
        }
    }
    (texts, costs)
}

#[test]
fn a_condition_has_a_cost_of_its_own() {
    let (_folder, _instance, mut session) = open();
    session.run("CREATE TABLE t (a int NULL); INSERT INTO t VALUES (1)").expect("a table");
    session.run("CREATE TABLE u (a int NULL); INSERT INTO u VALUES (1)").expect("a table");
    session.run("CREATE PROCEDURE p AS IF EXISTS (SELECT * FROM t) PRINT 1").expect("a procedure");
    session.run("CREATE PROCEDURE r AS RETURN (SELECT COUNT(*) FROM t)").expect("a procedure");
    session.run("SET STATISTICS IO ON").expect("an option");
    let reads = |of: &str| format!("Table '{of}'");
    let one = |texts: &[&str]| (texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>(), 1);
    assert_eq!(sent(&mut session, "IF EXISTS (SELECT * FROM t) PRINT 1"), one(&[&reads("t"), "1"]));
    assert_eq!(sent(&mut session, "EXEC p"), one(&[&reads("t"), "1"]));
    assert_eq!(sent(&mut session, "EXEC r"), one(&[&reads("t")]));
    // The statement behind it has its own.
    let (texts, costs) = sent(&mut session, "IF EXISTS (SELECT * FROM t) SELECT a FROM u WHERE a = 2");
    assert_eq!((texts, costs), (vec![reads("t"), reads("u")], 2));
}

#[test]
fn the_time_of_compiling_is_no_part_of_that_of_execution() {
    let (_folder, _instance, mut session) = open();
    session
        .run("CREATE TABLE t (a int NULL); INSERT INTO t SELECT value % 7 FROM GENERATE_SERIES(1, 100000)")
        .expect("rows");
    session.run("SET STATISTICS TIME ON").expect("an option");
    let begun = std::time::Instant::now();
    // Statistics of the column are created before the query is planned.
    let items: Vec<Item> = session.query("SELECT COUNT(*) FROM t WHERE a = 3").collect();
    let whole = begun.elapsed().as_millis();
    let milliseconds =
        |text: &str| -> Option<u128> { text.rsplit_once("elapsed time = ")?.1.strip_suffix(" ms.")?.parse().ok() };
    let shown: Vec<u128> = items
        .iter()
        .filter_map(|item| if let Item::Message(message) = item { milliseconds(&message.text) } else { None })
        .collect();
    assert!(shown.len() >= 2 && shown.iter().sum::<u128>() <= whole, "{shown:?} of {whole}");
}

#[test]
fn settings_are_changed_and_shown() {
    let (_folder, _instance, mut session) = open();
    session.run("EXEC sp_configure 'max degree of parallelism', 1").expect("a setting");
    let shown = "SELECT value_in_use FROM sys.configurations WHERE name = 'max degree of parallelism'";
    assert_eq!(value(&mut session, shown), "1");
    let (_, errors) = texts(&mut session, "EXEC sp_configure 'read size (KB)', 100");
    assert_eq!(errors[0].number, 15129);
    session.run("DBCC TRACEON(652, -1)").expect("a flag");
    assert_eq!(value(&mut session, "DBCC TRACESTATUS"), "652");
    session.run("DBCC SQLPERF('sys.dm_os_wait_stats', CLEAR)").expect("a reset");
}
