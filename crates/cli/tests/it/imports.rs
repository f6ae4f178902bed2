//! `hobt import` and `.import`: what is known before there is an instance, what is refused, and what an open
//! transaction sees.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs the program in a folder. Returns whether it succeeded, and all that it said.
fn hobt(folder: &Path, arguments: &[&str], input: &str) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hobt"));
    command.args(arguments).current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program");
    // A program that ends without reading its input is not a failure of the test.
    let _written = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("the program ends");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!said.contains("panicked"), "{arguments:?}\n{said}");
    (output.status.success(), said)
}

fn import(folder: &Path, arguments: &[&str]) -> (bool, String) {
    hobt(folder, &[&["import", "--data", "data"], arguments].concat(), "")
}

/// The lines that a script prints, without blank ones and row counts.
fn sql(folder: &Path, script: &str) -> Vec<String> {
    let (_, said) = hobt(folder, &["sql", "--data", "data", "-W", "-h", "-1"], script);
    let lines = said.lines().map(|line| line.trim().to_owned());
    lines.filter(|line| !line.is_empty() && !line.starts_with('(')).collect()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("a.csv"), "id,name\n1,Ada\n2,Bob\n").expect("a file");
    fs::write(folder.path().join("array.json"), "[{\"id\": 1}, {\"id\": 2}]\n").expect("a file");
    fs::write(folder.path().join("b.jsonl"), "{\"id\": 1, \"name\": \"caf\u{e9}\"}\n").expect("a file");
    folder
}

#[test]
fn a_mistake_is_known_before_an_instance_is_made() {
    let folder = folder();
    let path = folder.path();
    let fifo = Command::new("mkfifo").arg(path.join("pipe.csv")).status().expect("mkfifo");
    assert!(fifo.success());
    for (arguments, wanted) in [
        (&["none.csv", "t"][..], "none.csv"),
        (&["-", "t"], "pipe"),
        (&["pipe.csv", "t"], "it is a pipe or a device"),
        (&["/dev/zero", "t"], "it is a pipe or a device"),
        (&["/proc/kmsg", "t"], "the system makes up"),
        (&["--types", "id", "a.csv", "t"], "--types"),
        (&["--types", "nothing int", "a.csv", "t"], "the column 'nothing'"),
        (&["--types", "id int, ID bigint", "a.csv", "t"], "'ID' twice"),
        (&["a.csv", "#t"], "#t would be gone"),
        (&["array.json", "t"], "line by line"),
        (&["--format", "xls", "a.csv", "t"], "'xls'"),
        (&["--encoding", "klingon", "a.csv", "t"], "klingon"),
        (&["--delimiter", "", "a.csv", "t"], "--delimiter"),
        (&["--delimiter", ";", "b.jsonl", "t"], "--delimiter is for files of CSV alone"),
        (&["--no-header", "b.jsonl", "t"], "--no-header is for files of CSV alone"),
    ] {
        let (done, said) = import(path, arguments);
        assert!(!done && said.contains(wanted), "{arguments:?}: {said}");
        assert!(!path.join("data").exists(), "{arguments:?}");
    }
    let (done, said) = import(path, &["--dry-run", "a.csv", "t"]);
    assert!(done && said.contains("The table is new:") && !path.join("data").exists(), "{said}");
}

#[test]
fn flags_that_do_nothing_are_refused_and_only_a_missing_table_is_a_new_one() {
    let folder = folder();
    let path = folder.path();
    assert!(import(path, &["a.csv", "t"]).0);
    fs::write(path.join("c.tbl"), "3|Cy\n").expect("a file");
    let (done, said) = import(path, &["--no-header", "c.tbl", "t"]);
    assert!(done, "{said}");
    for (arguments, wanted) in [
        (&["--types", "id bigint", "a.csv", "t"][..], "--types is for a new table"),
        (&["a.csv", "sys.tables"], "no column"),
        (&["a.csv", "t t t"], "Msg 102"),
    ] {
        let (done, said) = import(path, arguments);
        assert!(!done && said.contains(wanted) && !said.contains("is new"), "{arguments:?}: {said}");
    }
    let (done, said) = import(path, &["--dry-run", "a.csv", "t"]);
    assert!(done && !said.contains("is new"), "{said}");
    assert_eq!(sql(path, "SELECT COUNT(*) FROM t\nGO\n"), ["3"]);
    fs::write(path.join("latin.jsonl"), b"{\"name\": \"caf\xe9\"}\n").expect("a file");
    let (done, said) = import(path, &["--encoding", "1252", "latin.jsonl", "latin"]);
    assert!(done, "{said}");
    assert_eq!(sql(path, "SELECT name FROM latin\nGO\n"), ["caf\u{e9}"]);
    assert!(hobt(path, &["export", "--data", "data", "t", "out.parquet"], "").0);
    let (done, said) = import(path, &["--encoding", "1252", "out.parquet", "p"]);
    assert!(!done && said.contains("--encoding is for files of text alone"), "{said}");
    let (done, said) = hobt(path, &["export", "--data", "data", "dbo....t", "more.csv"], "");
    assert!(!done && said.contains("5 parts"), "{said}");
}

/// Fields are told apart by their places, so files with other headers are not taken for one another.
#[test]
fn files_with_other_headers_are_imported_one_after_the_other() {
    let folder = folder();
    let path = folder.path();
    for (file, text) in [("b.csv", "ID,Name\n3,Cy\n"), ("swapped.csv", "name,id\nDi,4\n"), ("bare.csv", "5,Eve\n")] {
        fs::write(path.join(file), text).expect("a file");
    }
    for (other, wanted) in [("swapped.csv", "name, id"), ("bare.csv", "5, Eve"), ("b.jsonl", "two kinds")] {
        let (done, said) = import(path, &["a.csv", other, "t"]);
        assert!(!done && said.contains(wanted) && !path.join("data").exists(), "{other}: {said}");
    }
    let (done, said) = import(path, &["a.csv", "b.csv", "t"]);
    assert!(done, "{said}");
    assert!(import(path, &["swapped.csv", "t"]).0);
    assert_eq!(sql(path, "SELECT CONCAT(id, ' ', name) FROM t ORDER BY id\nGO\n"), ["1 Ada", "2 Bob", "3 Cy", "4 Di"]);
}

#[test]
fn an_import_in_a_transaction_leaves_it_open() {
    let folder = folder();
    let path = folder.path();
    fs::write(path.join("wrong.csv"), "id,name\n1,x\nx,y\n").expect("a file");
    let script = "CREATE TABLE t (id int, name varchar(20)); BEGIN TRANSACTION; INSERT t VALUES (0, 'before')\nGO\n\
                  .import a.csv t\n\
                  .import --max-errors 0 wrong.csv t\n\
                  .import --max-errors 0 --types \"id int\" wrong.csv fresh\n\
                  .import a.csv made\n\
                  SELECT @@TRANCOUNT, XACT_STATE(), (SELECT COUNT(*) FROM t), OBJECT_ID('fresh'), (SELECT COUNT(*) FROM made)\nGO\n\
                  COMMIT; SELECT COUNT(*), @@OPTIONS & 16384 FROM t\nGO\n";
    let lines = sql(path, script);
    assert!(lines.contains(&"1 1 3 NULL 2".to_owned()), "{lines:?}");
    assert!(lines.contains(&"3 0".to_owned()), "the settings are as they were: {lines:?}");
    // Outside of one it is a transaction of its own.
    let script = ".import --max-errors 0 --types \"id int\" wrong.csv fresh\n\
                  SELECT @@TRANCOUNT, OBJECT_ID('fresh')\nGO\n";
    assert!(sql(path, script).contains(&"0 NULL".to_owned()));
}
