//! How far statements are, as another session sees it, and what a cancelled load leaves behind.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use hobt::{Instance, InstanceSettings, Session, SqlError};
use hobt_base::number;

use crate::client::{PATIENCE, answer, instance_with, number, ok, used, wait_until};

/// Rows of the table that statements take long for.
const ROWS: u64 = 100_000;
/// Rows of the file that is loaded.
const FILE_ROWS: u64 = 200_000;

/// Runs a statement in a session of its own, and returns each `percent_complete` that another session sees of it.
fn percents(instance: &Instance, statement: &str) -> Vec<f64> {
    let (mut session, mut looks_on) = (used(instance), used(instance));
    let id = number(&mut session, "SELECT @@SPID");
    let query = format!(
        "SELECT CAST(percent_complete AS float), estimated_completion_time FROM sys.dm_exec_requests \
         WHERE session_id = {id}"
    );
    let mut seen = Vec::new();
    std::thread::scope(|scope| {
        let running = scope.spawn(move || answer(&mut session, statement).1);
        let begun = std::time::Instant::now();
        while !running.is_finished() {
            assert!(begun.elapsed() < PATIENCE, "{statement} never ends");
            for row in ok(&mut looks_on, &query) {
                assert!(row[1].parse::<i64>().expect("milliseconds") >= 0, "{row:?}");
                seen.push(row[0].parse().expect("a percentage"));
            }
        }
        assert_eq!(running.join().expect("no panic"), None, "{statement}");
    });
    seen
}

#[test]
fn percent_complete_grows_while_statements_run() {
    let rows = format!(
        "SELECT value AS id, value % 97 AS part, REPLICATE('x', 50) AS text INTO t FROM GENERATE_SERIES(1, {ROWS})"
    );
    let (_folder, instance) = instance_with(&rows);
    let statements = [
        "SELECT * INTO copied FROM t",
        "SELECT * INTO filtered FROM t WHERE part > 5 ORDER BY part, id",
        "SELECT TOP (1000000) value AS id INTO made FROM GENERATE_SERIES(1, 1000000)",
        "CREATE TABLE into_tree (id int PRIMARY KEY, part int INDEX by_part, text varchar(50)); \
         INSERT into_tree SELECT id, part, text FROM t",
        "INSERT into_tree SELECT id + 1000000, part, text FROM t",
        "CREATE INDEX by_part ON t (part, id)",
        "DBCC CHECKTABLE ('t') WITH NO_INFOMSGS",
        "DBCC CHECKDB WITH NO_INFOMSGS",
        "ALTER INDEX by_part ON t REBUILD",
        "UPDATE t SET part = part + 1",
        "UPDATE STATISTICS t WITH FULLSCAN",
        "CREATE EXTERNAL TABLE written WITH (LOCATION = 'written.csv') AS SELECT * FROM t",
        "DELETE t WHERE id % 2 = 0",
    ];
    for statement in statements {
        let seen = percents(&instance, statement);
        assert!(seen.iter().all(|percent| (0.0..=100.0).contains(percent)), "{statement}: {seen:?}");
        assert!(seen.is_sorted(), "{statement}: {seen:?}");
        assert!(seen.iter().any(|percent| *percent > 0.0 && *percent < 100.0), "{statement}: {seen:?}");
    }
}

#[test]
fn a_statement_of_few_rows_says_nothing_of_how_far_it_is() {
    let (_folder, instance) = instance_with("CREATE TABLE t (id int); INSERT t VALUES (1), (2)");
    let mut session = used(&instance);
    ok(&mut session, "SELECT * INTO copied FROM t");
    ok(&mut session, "INSERT t SELECT id FROM copied");
    assert!(!session.progress().is_known());
    ok(&mut session, "UPDATE t SET id = id + 1");
    assert!(!session.progress().is_known());
}

/// A file of numbered rows.
fn write_rows(path: &Path, rows: u64) {
    let mut text = String::new();
    (0..rows).for_each(|row| writeln!(text, "{row},{},a text of row {row}", row * 7 % rows).expect("memory"));
    std::fs::write(path, text).expect("a file");
}

/// An instance whose files of rows are in its folder.
fn instance_with_file() -> (tempfile::TempDir, Instance) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_rows(&folder.path().join("rows.csv"), FILE_ROWS);
    let rows_folder = Some(folder.path().to_path_buf());
    let settings = InstanceSettings { rows_folder, ..InstanceSettings::default() };
    let instance = Instance::open_with(folder.path().join("data"), settings).expect("an instance");
    instance.session().expect("a session").run("CREATE DATABASE d").expect("a database");
    (folder, instance)
}

/// Runs a batch and cancels it when `is_due`. Returns its error.
fn cancelled(session: &mut Session, batch: &str, mut is_due: impl FnMut(f64) -> bool) -> Option<SqlError> {
    let (progress, cancel) = (session.progress(), session.cancel_handle());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| answer(session, batch).1);
        wait_until("the moment to cancel", || is_due(progress.percent()) || running.is_finished());
        cancel.cancel();
        running.join().expect("no panic")
    })
}

#[test]
fn a_cancelled_load_leaves_the_table_as_it_was() {
    let (_folder, instance) = instance_with_file();
    let mut session = used(&instance);
    let columns = "id int NOT NULL, other int, text varchar(40)";
    let tables = [
        ("heap", format!("CREATE TABLE heap ({columns})")),
        ("tree", format!("CREATE TABLE tree ({columns}, PRIMARY KEY (id))")),
        ("indexed", format!("CREATE TABLE indexed ({columns}, INDEX by_other (other))")),
    ];
    for (table, create) in tables {
        for before in ["", "INSERT %t VALUES (-1, -1, 'old'), (-2, -2, 'old')"] {
            ok(&mut session, &create);
            ok(&mut session, &before.replace("%t", table));
            let load = format!("BULK INSERT {table} FROM 'rows.csv' WITH (FORMAT = 'CSV', TABLOCK)");
            let error = cancelled(&mut session, &load, |percent| percent > 5.0);
            assert_eq!(error.map(|error| error.number), Some(number::CANCELED), "{load}");
            let sum = ok(&mut session, &format!("SELECT COUNT(*), SUM(other) FROM {table}"));
            let wanted = if before.is_empty() { ["0", "NULL"] } else { ["2", "-3"] };
            assert_eq!(sum, [wanted], "{load}");
            ok(&mut session, &format!("DBCC CHECKTABLE ('{table}') WITH NO_INFOMSGS"));
            ok(&mut session, &format!("DROP TABLE {table}"));
        }
    }
    ok(&mut session, "DBCC CHECKDB WITH NO_INFOMSGS");
}

#[test]
fn a_cancelled_load_in_batches_keeps_the_batches_that_were_committed() {
    const BATCH: i64 = 10_000;
    let (_folder, instance) = instance_with_file();
    let (mut session, mut looks_on) = (used(&instance), used(&instance));
    ok(&mut session, "CREATE TABLE t (id int NOT NULL, other int, text varchar(40), INDEX by_other (other))");
    let load = format!("BULK INSERT t FROM 'rows.csv' WITH (FORMAT = 'CSV', BATCHSIZE = {BATCH})");
    let error = cancelled(&mut session, &load, |_| number(&mut looks_on, "SELECT COUNT(*) FROM t") > 0);
    assert_eq!(error.map(|error| error.number), Some(number::CANCELED));
    let rows = number(&mut session, "SELECT COUNT(*) FROM t");
    assert!(rows > 0 && rows % BATCH == 0 && rows < FILE_ROWS.cast_signed(), "{rows}");
    let through_index = number(&mut session, "SELECT COUNT(*) FROM t WITH (INDEX (by_other)) WHERE other >= 0");
    assert_eq!(through_index, rows);
    ok(&mut session, "DBCC CHECKDB WITH NO_INFOMSGS");
}

#[test]
fn an_interrupted_import_leaves_no_new_table() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_rows(&folder.path().join("rows.csv"), 3 * FILE_ROWS);
    let hobt = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hobt"));
        command.current_dir(folder.path()).stdin(Stdio::null());
        command
    };
    let mut child = hobt()
        .args(["import", "rows.csv", "fresh", "--data", "data", "-d", "master"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map(|line| line.expect("text"));
    // The load begins behind the list of the columns, of which there are three.
    lines.by_ref().find(|line| line.contains("is new")).expect("a new table");
    assert_eq!(lines.by_ref().take(3).count(), 3);
    let signal = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("a signal");
    assert!(signal.success());
    assert_eq!(lines.collect::<Vec<_>>(), [""; 0], "nothing is said to be loaded");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    let query = "SET NOCOUNT ON; SELECT COUNT(*) FROM sys.tables WHERE name = 'fresh'";
    let left = hobt().args(["sql", "--data", "data", "-W", "-h", "-1", "-Q", query]).output().expect("the program");
    assert_eq!(String::from_utf8_lossy(&left.stdout).trim(), "0");
}
