//! `hobt sql` and `hobt lab` on the command line: their output, the client's own commands, and errors that are reported
//! before anything is created.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// The result of a run of the program.
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Runs the program in a folder, where its instance is `data`.
fn hobt(folder: &Path, arguments: &[&str], input: &str) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hobt"));
    command.args(arguments).current_dir(folder).env_remove("hobt_test").stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program");
    // A program that ends without reading its input is not a failure of the test.
    let _written = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("the program ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let ended = Ended { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) };
    assert!(!ended.err.contains("panicked"), "{arguments:?}\n{}", ended.err);
    ended
}

fn sql(folder: &Path, arguments: &[&str], input: &str) -> Ended {
    hobt(folder, &[&["sql", "--data", "data", "-W", "-h", "-1"], arguments].concat(), input)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// The lines of a text that are neither blank nor row counts.
fn values(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('(')).collect()
}

/// What a statement has printed is shown while the next one runs.
#[test]
fn output_does_not_wait_for_the_end_of_the_batch() {
    let folder = folder();
    let batch = "SELECT 1 AS a; PRINT 'now'; RAISERROR('soon', 10, 1) WITH NOWAIT; WAITFOR DELAY '01:00:00'";
    let mut command = Command::new(env!("CARGO_BIN_EXE_hobt"));
    command.args(["sql", "--data", "data", "-W", "-h", "-1", "-Q", batch]).current_dir(folder.path());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the program");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let seen: Vec<String> = lines.map(|line| line.expect("text")).filter(|line| !line.is_empty()).take(4).collect();
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    assert_eq!(seen, ["1", "(1 row affected)", "now", "soon"]);
}

#[test]
fn json_is_whole_when_a_statement_fails() {
    let folder = folder();
    let json_of = |batch: &str| -> Vec<Value> {
        let ended = sql(folder.path(), &["--format", "json", "-Q", batch], "");
        let values = serde_json::Deserializer::from_str(&ended.out).into_iter();
        values.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{batch}: {error}\n{}", ended.out))
    };
    assert_eq!(json_of("SELECT 1/0 AS a"), [json!([])]);
    assert_eq!(json_of("SELECT 1 AS a; SELECT 2 AS b, 3"), [json!([{"a": 1}]), json!([{"b": 2, "column2": 3}])]);
    // Rows may be sent before the error.
    let text = "SELECT TOP 9000 10 / (5000 - ROW_NUMBER() OVER (ORDER BY a.object_id)) AS a FROM sys.all_objects AS a \
                CROSS JOIN sys.all_objects AS b";
    assert_eq!(json_of(&format!("{text}; SELECT 7 AS c")).last(), Some(&json!([{"c": 7}])));
}

#[test]
fn csv_tells_result_sets_and_columns_apart() {
    let folder = folder();
    let ended =
        sql(folder.path(), &["--format", "csv", "-Q", "SELECT 1 AS a, 2\nSELECT 'x,y' AS b\nGO\nSELECT '' AS c"], "");
    assert_eq!(ended.out, "a,column2\n1,2\n\nb\n\"x,y\"\n\nc\n\"\"\n");
}

#[test]
fn quit_leaves_a_script_and_what_was_not_run_stays_so() {
    let folder = folder();
    for (script, wanted) in [
        ("SELECT 1 a\nGO\nquit\nSELECT 2 b\nGO\n", &["1"][..]),
        ("SELECT 1 a\nGO\nSELECT 3\nEXIT\nGO\n", &["1"]),
        ("SELECT 1 a\nGO\nSELECT 3\n:exit()\nSELECT 2\nGO\n", &["1", "3"]),
        ("SELECT 1 a\nreset\nSELECT 2\nGO\n", &["2"]),
        ("PRINT 'a\nquit\nb'\n/*\nquit\n*/\nGO\nSELECT 4\n", &["a", "quit", "b", "4"]),
    ] {
        let ended = sql(folder.path(), &[], script);
        assert_eq!((ended.code, values(&ended.out)), (Some(0), wanted.to_vec()), "{script}\n{}", ended.err);
        fs::write(folder.path().join("script.sql"), script).expect("a file");
        assert_eq!(values(&sql(folder.path(), &["-i", "script.sql"], "").out), wanted, "{script}");
    }
}

#[test]
fn files_are_read_where_they_are_named() {
    let folder = folder();
    fs::write(folder.path().join("outer.sql"), "\u{feff}SELECT 1\n:r \"$(place)/in ner.sql\"\nGO\nSELECT 3\n")
        .expect("a file");
    fs::create_dir(folder.path().join("sub")).expect("a folder");
    fs::write(folder.path().join("sub/in ner.sql"), "SELECT 2").expect("a file");
    let ended = sql(folder.path(), &["-v", "place=sub"], ":r outer.sql\nSELECT 4\nGO\n");
    assert_eq!((ended.code, values(&ended.out)), (Some(0), vec!["1", "2", "3", "4"]), "{}", ended.err);
    let ended = sql(folder.path(), &[], "SELECT 1\nGO\n:r nope.sql\nSELECT 2\nGO\n");
    assert_eq!((ended.code, values(&ended.out)), (Some(1), vec!["1"]));
    assert!(ended.err.contains("nope.sql"), "{}", ended.err);
    fs::write(folder.path().join("self.sql"), ":r self.sql\n").expect("a file");
    let ended = sql(folder.path(), &["-i", "self.sql"], "");
    assert!(ended.code == Some(1) && ended.err.contains("deep"), "{}", ended.err);
}

#[test]
fn files_of_two_byte_units_are_read_and_other_encodings_refused() {
    let folder = folder();
    let place = folder.path().join("script.sql");
    let script: Vec<u16> = "\u{feff}SELECT N'h\u{e4}t \u{1f980}'\r\nGO\r\nSELECT 2".encode_utf16().collect();
    for unit in [u16::to_le_bytes as fn(u16) -> [u8; 2], u16::to_be_bytes] {
        fs::write(&place, script.iter().copied().flat_map(unit).collect::<Vec<u8>>()).expect("a file");
        let ended = sql(folder.path(), &["-i", "script.sql"], "");
        assert_eq!((ended.code, values(&ended.out)), (Some(0), vec!["h\u{e4}t \u{1f980}", "2"]), "{}", ended.err);
    }
    for (bytes, says) in [(&b"SELECT 1\n\nSELECT 'h\xe4t'\n"[..], "line 3"), (b"\xff\xfeS\0E", "UTF-16")] {
        fs::write(&place, bytes).expect("a file");
        let ended = sql(folder.path(), &["-i", "script.sql"], "");
        assert!(ended.code == Some(1) && ended.err.contains(says) && ended.err.contains("UTF-8"), "{}", ended.err);
    }
}

#[test]
fn variables_stand_for_their_values() {
    let folder = folder();
    let script = ":setvar col name\nSELECT '$(col) $(Other)'\n:setvar col \"two words\"\nGO\nSELECT '$(col)'\nGO\n";
    let ended = sql(folder.path(), &["-v", "other=x"], script);
    assert_eq!((ended.code, values(&ended.out)), (Some(0), vec!["two words x", "two words"]), "{}", ended.err);
    // A variable set to nothing is not set, and the batch must not run with a gap in it.
    for script in
        ["SELECT '$(hobt_test)'\nGO\nSELECT 2\n", ":setvar hobt_test 1\n:setvar hobt_test\nSELECT $(hobt_test)\n"]
    {
        let ended = sql(folder.path(), &[], script);
        assert_eq!((ended.code, values(&ended.out)), (Some(1), vec![]), "{}", ended.err);
        assert!(ended.err.contains("hobt_test"), "{}", ended.err);
    }
    let ended = sql(folder.path(), &["-x", "-Q", "SELECT '$(hobt_test)'"], "");
    assert_eq!(values(&ended.out), ["$(hobt_test)"]);
}

#[test]
fn a_script_says_whether_errors_end_it() {
    let folder = folder();
    let run = |arguments: &[&str], script: &str| {
        let ended = sql(folder.path(), arguments, script);
        let values = values(&ended.out).into_iter().filter(|line| line.parse::<i32>().is_ok()).map(str::to_owned);
        (ended.code, values.collect::<Vec<String>>())
    };
    let failing = "SELECT 1/0\nGO\nSELECT 2\nGO\n";
    assert_eq!(run(&[], failing), (Some(0), vec!["2".to_owned()]));
    assert_eq!(run(&["-b"], failing), (Some(1), vec![]));
    assert_eq!(run(&[], &format!(":on error exit\n{failing}")), (Some(1), vec![]));
    assert_eq!(run(&["-b"], &format!(":On Error Ignore\n{failing}")), (Some(0), vec!["2".to_owned()]));
    // An error before the command has no effect.
    let forgiven = format!("{failing}:on error exit\nGO\nSELECT 3\nGO\n");
    assert_eq!(run(&[], &forgiven), (Some(0), vec!["2".to_owned(), "3".to_owned()]));
}

#[test]
fn an_unknown_command_is_named_and_ends_a_script() {
    let folder = folder();
    for line in [":out x.txt", ":connect there", "!!ls"] {
        let ended = sql(folder.path(), &[], &format!("SELECT 1\nGO\n{line}\nSELECT 2\nGO\n"));
        assert_eq!((ended.code, values(&ended.out)), (Some(1), vec!["1"]), "{line}");
        assert!(ended.err.contains("is not known") && ended.err.contains(":setvar"), "{}", ended.err);
    }
}

#[test]
fn shortcuts_with_a_dot_do_what_their_long_forms_do() {
    let folder = folder();
    let path = folder.path();
    fs::write(path.join("in.csv"), "id,name\n1,Ada\n2,Bob\n").expect("a file");
    fs::write(path.join("more.sql"), "SELECT 'read';\nGO\nSELECT 'and its last batch'").expect("a file");
    let script = ".import in.csv people\n.tables\n.tables nobody%\n.schema people\n.databases\n.read more.sql\n\
                  .export \"SELECT id FROM people ORDER BY id\" out.csv\nSELECT 1 AS a\n.tables\nGO\n.quit\nSELECT 9\nGO\n";
    let ended = sql(path, &[], script);
    let out = values(&ended.out);
    for wanted in ["dbo.people base table", "master ONLINE", "read", "and its last batch"] {
        assert_eq!(out.iter().filter(|line| **line == wanted).count(), 1, "{wanted}: {} {}", ended.out, ended.err);
    }
    assert!(out.iter().any(|line| line.starts_with("2 rows, ")), "{}", ended.out);
    assert!(
        out.iter().any(|line| line.starts_with("name nvarchar") || line.starts_with("name varchar")),
        "{}",
        ended.out
    );
    assert!(ended.out.contains("near '.'") || ended.out.contains("Msg 102"), "in a batch it is T-SQL: {}", ended.out);
    assert!(!out.contains(&"9") && ended.code == Some(0), "{}", ended.out);
    assert_eq!(fs::read_to_string(path.join("out.csv")).expect("the file"), "id\n1\n2\n");
    let settings = "SET XACT_ABORT OFF\nGO\n.import in.csv people\nSELECT @@OPTIONS & 16384\nGO\n";
    assert!(values(&sql(path, &[], settings).out).contains(&"0"), "an import changes no setting");
    for (line, wanted) in [(".foo", ".import FILE"), (".import none.csv t", "none.csv"), (".export", "FILE")] {
        let ended = sql(path, &[], &format!("SELECT 1\nGO\n{line}\nSELECT 2\nGO\n"));
        assert!(ended.err.contains(wanted), "{line}: {}", ended.err);
    }
    assert_eq!(sql(path, &[], ".foo\n").code, Some(1), "a script does not go on");
}

#[test]
fn mistyped_names_make_nothing() {
    let folder = folder();
    let path = folder.path();
    fs::write(path.join("README.md"), "text").expect("a file");
    fs::create_dir(path.join("photos")).expect("a folder");
    fs::write(path.join("photos/one.jpg"), "").expect("a file");
    for (arguments, wanted) in [
        (&["-i", "nope.sql"][..], "nope.sql cannot be read"),
        (&["-i", "photos"], "it is a folder"),
        (&["--data", "README.md"], "is a file"),
        (&["--data", "photos"], "is no instance"),
        (&["--data", "typo", "-d", "Sales"], "no database 'Sales'"),
        (&["--memory", "0"], "128"),
        (&["--memory", "64"], "Give 128 or more"),
        (&["--memory", "127"], "128"),
        (&["-T", "99999"], "32767"),
        (&["-T", "0"], "32767"),
        (&["-v", "=x"], "NAME=VALUE"),
    ] {
        let ended = hobt(path, &[&["sql"], arguments].concat(), "SELECT 1\nGO\n");
        assert!(ended.code.is_some_and(|code| code != 0), "{arguments:?}");
        assert!(ended.err.contains(wanted), "{arguments:?}: {}", ended.err);
        assert!(!path.join("hobt-data").exists(), "{arguments:?} made an instance");
    }
    assert_eq!(fs::read_dir(path.join("photos")).expect("there").count(), 1);
    let ended = hobt(path, &["why", "--data", "typo", "-Q", "SELECT 1"], "");
    assert!(ended.code == Some(1) && ended.err.contains("no instance"), "{}", ended.err);
    assert!(!path.join("typo").exists(), "what asks about data makes none");
    for arguments in [&["why", "-Q", "SELECT 1"][..], &["lab", "fixtures"], &["lab", "run", "limits"], &["lab", "size"]]
    {
        let ended = hobt(path, &[arguments, &["--data", "photos"]].concat(), "");
        assert!(ended.code == Some(1) && ended.err.contains("is no instance"), "{arguments:?}: {}", ended.err);
    }
}

#[test]
fn a_new_instance_is_announced_and_an_old_one_is_not() {
    let folder = folder();
    let first = sql(folder.path(), &["-Q", "SELECT 1"], "");
    assert!(first.err.contains("A new instance is created in ") && first.err.contains("data"), "{}", first.err);
    assert_eq!(sql(folder.path(), &["-Q", "SELECT 1"], "").err, "");
}

/// Flags that would have no effect are rejected before anything is created.
#[test]
fn the_laboratory_refuses_flags_that_mean_nothing_to_what_it_runs() {
    let folder = folder();
    for (arguments, wanted) in [
        (&["run", "scan", "--case", "heap"][..], "--case means nothing to scan"),
        (&["run", "limits", "--sweep"], "--sweep means nothing to limits"),
        (&["size", "--text", "--disks", "3"], "cannot be used with"),
    ] {
        let ended = hobt(folder.path(), &[&["lab"], arguments].concat(), "");
        assert!(ended.code.is_some_and(|code| code != 0) && ended.err.contains(wanted), "{arguments:?}: {}", ended.err);
    }
    assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 0);
}

#[test]
fn without_a_terminal_each_step_is_a_line() {
    let folder = folder();
    let ended = hobt(folder.path(), &["lab", "run", "limits", "--rows", "1000", "--repeat", "1", "--out", "out"], "");
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let steps: Vec<&str> = ended.err.lines().filter(|line| line.starts_with('[')).collect();
    for (index, step) in steps.iter().enumerate() {
        assert!(step.contains(&format!(" s] {}/{} ", index + 1, steps.len())), "{step}");
    }
    assert!(steps.len() > 10, "{}", ended.err);
    let page = fs::read_to_string(folder.path().join("out/limits.html")).expect("the page");
    assert!(!page.contains("Statements"), "there are none");
}

#[test]
fn a_drawn_plan_blames_no_scan_for_what_a_joins_filter_left_out() {
    let folder = folder();
    let script =
        "CREATE TABLE #few (id int NOT NULL, a int NOT NULL); CREATE TABLE #many (x int NOT NULL, y int NOT NULL)
INSERT INTO #few SELECT value, value % 100 FROM GENERATE_SERIES(1, 2000)
INSERT INTO #many SELECT value % 2000, value FROM GENERATE_SERIES(1, 60000)
GO
:plan on
SELECT COUNT(*) FROM (SELECT m.x FROM #few f JOIN #many m ON m.x = f.id WHERE f.a = 7) s OPTION (HASH JOIN, MAXDOP 1)
SELECT COUNT(*) FROM (SELECT m.x FROM #few f JOIN #many m ON m.x = f.id WHERE f.a = 7) s OPTION (HASH JOIN, MAXDOP 2)
GO
";
    let ended = sql(folder.path(), &[], script);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.out.contains("59,400 of 60,000 rows removed by joins' filters"), "{}", ended.out);
    let plans = ended.out.split("(1 row affected)").skip(1);
    assert!(plans.clone().count() == 2 && plans.clone().all(|plan| !plan.contains("worst")), "{}", ended.out);
}

#[test]
fn plans_are_drawn_and_written_as_a_page() {
    let folder = folder();
    let script = "CREATE TABLE #t (a int NOT NULL)
INSERT INTO #t SELECT value FROM GENERATE_SERIES(1, 3000)
GO
SELECT COUNT(*) FROM #t WHERE a % 3000 = 7
GO
INSERT INTO #t SELECT CAST(value AS int) FROM STRING_SPLIT(REPLICATE('7,', 300) + '7', ',')
GO
:plan off
SELECT a FROM #t WHERE a = 1
GO
:plan again.html
SELECT MAX(a) FROM #t
GO
";
    let ended = sql(folder.path(), &["--plan", "--plan-page", "plans.html"], script);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.out.contains("Table Insert(OBJECT:([tempdb].[dbo].[#t"), "{}", ended.out);
    assert!(ended.out.contains("rows removed by the condition"), "{}", ended.out);
    assert!(ended.out.contains("the worst estimate"), "{}", ended.out);
    let page = |name: &str| fs::read_to_string(folder.path().join(name)).expect(name);
    let written = page("plans.html");
    assert!(written.contains("class=\"operator worst\"") && written.contains("GENERATE_SERIES(1, 3000)"), "{written}");
    assert!(!written.contains("WHERE a = 1") && page("again.html").contains("SELECT MAX(a) FROM #t"));
    // With this extension, Management Studio opens the file.
    let ended = sql(folder.path(), &["--plan-page", "p.sqlplan", "-Q", "SELECT COUNT(*) FROM sys.tables"], "");
    assert!(ended.code == Some(0) && page("p.sqlplan").starts_with("<ShowPlanXML "), "{}", ended.err);
    // A file that cannot be written is reported.
    let ended = sql(folder.path(), &["--plan-page", "missing/plans.html", "-Q", "SELECT COUNT(*) FROM sys.tables"], "");
    assert!(ended.code != Some(0) && ended.err.contains("missing/plans.html cannot be written"), "{}", ended.err);
}

#[cfg(unix)]
#[test]
fn nobody_who_reads_the_output_is_no_fault() {
    let folder = folder();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hobt"));
    command.args(["lab", "list"]).current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program");
    // The pipe is closed before the program has written into it, or after its first lines.
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(matches!(output.status.code(), Some(0 | 141)), "{:?}", output.status);
}
