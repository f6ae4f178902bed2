//! The disks under an instance's files, and the paths where files may be, set by the program's arguments.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs a batch in the instance `data` of a folder. Returns its output.
fn run(folder: &Path, arguments: &[&str], batch: &str) -> (Output, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hobt"));
    command.args(["sql", "--data", "data", "-W", "-h", "-1", "-b"]).args(arguments).args(["-Q", batch]);
    let output = command.current_dir(folder).stdin(Stdio::null()).output().expect("the program");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains("panicked"), "{batch}\n{text}");
    (output, text)
}

fn succeeds(folder: &Path, arguments: &[&str], batch: &str) -> String {
    let (output, text) = run(folder, arguments, batch);
    assert!(output.status.success(), "{arguments:?} {batch}\n{text}");
    text
}

fn fails(folder: &Path, arguments: &[&str], number: i32, batch: &str) -> String {
    let (output, text) = run(folder, arguments, batch);
    assert_eq!(output.status.code(), Some(1), "{arguments:?} {batch}\n{text}");
    assert!(text.contains(&format!("Msg {number}, ")), "{number} was expected: {batch}\n{text}");
    text
}

fn has_line(text: &str, line: &str) -> bool {
    text.lines().any(|found| found.trim() == line)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

const DISK: &str = "SELECT value FROM sys.hobt_settings WHERE name = 'disk'";
/// A database, and a table of 80 KB in it.
const LOAD: &str =
    "CREATE DATABASE d; SELECT value AS n, REPLICATE('x', 80) AS t INTO d.dbo.t FROM GENERATE_SERIES(1, 1000)";

#[test]
fn the_disk_is_chosen_at_the_start_and_seen() {
    let folder = folder();
    let threads = succeeds(folder.path(), &["--disk", "threads"], &format!("{LOAD}; {DISK}"));
    assert!(has_line(&threads, "threads"), "{threads}");
    let auto = succeeds(folder.path(), &[], &format!("SELECT COUNT(*) FROM d.dbo.t; {DISK}"));
    assert!(has_line(&auto, "1000") && (has_line(&auto, "io_uring") || has_line(&auto, "threads")), "{auto}");
    let (output, text) = run(folder.path(), &["--disk", "threads", "--fault", "read"], "SELECT 1");
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("--disk simulated"), "{text}");
}

#[test]
fn a_simulated_disk_leaves_nothing_and_fails_as_told() {
    let folder = folder();
    let simulated = |faults: &[&'static str]| -> Vec<&'static str> {
        ["--disk", "simulated"].into_iter().chain(faults.iter().flat_map(|fault| ["--fault", fault])).collect()
    };
    let text = succeeds(folder.path(), &simulated(&[]), &format!("{LOAD}; SELECT COUNT(*) FROM d.dbo.t; {DISK}"));
    assert!(has_line(&text, "1000") && has_line(&text, "simulated") && text.contains("in memory alone"), "{text}");
    let read = format!("{LOAD}; CHECKPOINT; DBCC DROPCLEANBUFFERS; SELECT COUNT(t) FROM d.dbo.t");
    let cold = succeeds(folder.path(), &simulated(&[]), &read);
    assert!(has_line(&cold, "1000"), "{cold}");
    // Making the database reads the two maps of written extents.
    let failed = fails(folder.path(), &simulated(&["read:2:d.mdf"]), 823, &read);
    assert!(failed.contains("d.mdf"), "{failed}");
    // The 100 MB file meets a full disk, and is removed.
    let grown = "CREATE DATABASE d; ALTER DATABASE d ADD FILE (NAME = f, FILENAME = 'f.ndf', SIZE = 100MB)";
    fails(folder.path(), &simulated(&["resize:0:f.ndf"]), 5149, grown);
    let large = "CREATE DATABASE d; \
                 BEGIN TRY SELECT value AS n, REPLICATE('x', 4000) AS t INTO d.dbo.t FROM GENERATE_SERIES(1, 10000) \
                 END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH; \
                 SELECT COUNT(*) FROM d.sys.tables; CREATE TABLE d.dbo.u (a int); SELECT COUNT(*) FROM d.sys.tables";
    // The initial sizes fit; then no file can grow.
    let full = succeeds(folder.path(), &simulated(&["resize:2:d.mdf"]), large);
    assert_eq!(
        full.lines().map(str::trim).filter(|line| line.parse::<u32>().is_ok()).collect::<Vec<_>>(),
        ["1105", "0", "1"],
        "{full}"
    );
    assert!(fs::read_dir(folder.path()).expect("a folder").next().is_none(), "nothing is on the real disk");
}

#[test]
fn files_lie_outside_the_instance_where_that_was_allowed() {
    let folder = folder();
    let slow = folder.path().join("slow");
    fs::create_dir(&slow).expect("a folder");
    let create = format!(
        "CREATE DATABASE d ON (NAME = d, FILENAME = 'd.mdf'), FILEGROUP g (NAME = s, FILENAME = '{}', SIZE = 1MB)",
        slow.join("s.ndf").display()
    );
    let refused = fails(folder.path(), &[], 5123, &create);
    assert!(refused.contains("allowed folders") && refused.contains("--allow"), "{refused}");
    // A path relative to the user's folder.
    let made = succeeds(
        folder.path(),
        &["--allow", "slow"],
        &format!("{create}; SELECT value FROM sys.hobt_settings WHERE name = 'allowed folders'"),
    );
    assert!(made.contains(slow.to_str().expect("text")), "{made}");
    assert!(slow.join("s.ndf").exists());
    // Existing files are opened without being allowed again.
    succeeds(folder.path(), &[], "USE d; CREATE TABLE t (a int) ON g; INSERT t VALUES (1)");
    fails(
        folder.path(),
        &[],
        5123,
        &create.replace("DATABASE d", "DATABASE e").replace("d.mdf", "e.mdf").replace("s.ndf", "e.ndf"),
    );
}

#[test]
fn a_spill_that_fails_is_told_as_a_file_that_fails() {
    let folder = folder();
    let batch = "CREATE DATABASE d; \
                 SELECT value AS n, REPLICATE(N'x', 150) + CAST(value AS nvarchar(20)) AS t INTO d.dbo.t \
                 FROM GENERATE_SERIES(1, 150000); \
                 BEGIN TRY SELECT MAX(r) FROM (SELECT ROW_NUMBER() OVER (ORDER BY t DESC, n) AS r, t FROM d.dbo.t) x \
                 OPTION (MAXDOP 1) END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH; SELECT 2";
    let arguments = |fault| ["--disk", "simulated", "--fault", fault, "--memory", "128", "--pool", "8"];
    // As for a data file, no CATCH handles it.
    for fault in ["write:1:spill-", "read:0:spill-"] {
        let text = fails(folder.path(), &arguments(fault), 823, batch);
        assert!(text.contains("spill-"), "{text}");
    }
    let text = succeeds(folder.path(), &arguments("open:1:spill-"), batch);
    assert!(has_line(&text, "5123") && has_line(&text, "2"), "{text}");
}
