//! User errors, through the program: every mistake ends in its error, and none in a panic or a damaged database.

use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::client::{PATIENCE, wait_until};

/// A folder with an instance that is open only while a batch runs.
struct Folder(tempfile::TempDir);

impl Folder {
    /// With a database `d` in `d.mdf`.
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().expect("a temporary folder"));
        folder.succeeds("CREATE DATABASE d");
        folder
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("data")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hobt"));
        command.arg("sql").arg("--data").arg(self.path()).args(["-W", "-b"]);
        command
    }

    fn run(&self, batch: &str) -> (Output, String) {
        let output = self.command().args(["-Q", batch]).stdin(Stdio::null()).output().expect("the program");
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(!text.contains("panicked"), "{batch}\n{text}");
        (output, text)
    }

    fn succeeds(&self, batch: &str) -> String {
        let (output, text) = self.run(batch);
        assert!(output.status.success(), "{batch}\n{text}");
        text
    }

    /// Runs a batch in `d` that must fail with this error. Returns its output.
    fn fails(&self, number: i32, batch: &str) -> String {
        let (output, text) = self.run(&format!("USE d; {batch}"));
        assert_eq!(output.status.code(), Some(1), "{batch}\n{text}");
        assert!(text.contains(&format!("Msg {number}, ")), "{number} was expected: {batch}\n{text}");
        text
    }

    /// Whether a query in `d` prints a line with this value.
    fn shows(&self, query: &str, value: &str) {
        let text = self.succeeds(&format!("USE d; {query}"));
        assert!(text.lines().any(|line| line.trim() == value), "{value} was expected: {query}\n{text}");
    }
}

/// A program that reads batches from a pipe.
struct Running {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Running {
    fn start(folder: &Folder) -> Running {
        Running::of(folder.command())
    }

    fn of(mut command: Command) -> Running {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Running { child, lines }
    }

    fn send(&mut self, text: &str) {
        let input = self.child.stdin.as_mut().expect("a pipe");
        input.write_all(text.as_bytes()).and_then(|()| input.flush()).expect("the program reads");
    }

    /// Waits until a line is printed.
    fn wait_for_line(&mut self, wanted: &str) {
        let mut line = String::new();
        while line.trim() != wanted {
            line.clear();
            assert_ne!(self.lines.read_line(&mut line).expect("a line"), 0, "the program ended before '{wanted}'");
        }
    }

    fn signal(&self, name: &str) {
        let kill = Command::new("sh").args(["-c", &format!("kill -{name} {}", self.child.id())]).status();
        assert!(kill.expect("a shell").success());
    }

    /// Waits for the end. Returns the exit code and the output.
    fn end(mut self) -> (Option<i32>, String) {
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                break status;
            }
            assert!(started.elapsed() < PATIENCE, "the program does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        let mut text = String::new();
        self.lines.read_to_string(&mut text).expect("text");
        (status.code(), text)
    }
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

/// A `SELECT` of ten to the power of `digits` rows: numbers and a filler.
fn many_rows(digits: usize, into: &str) -> String {
    let ten = "(VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9))";
    let tables: Vec<String> = (0..digits).map(|digit| format!("{ten} AS t{digit}(n)")).collect();
    let number: Vec<String> =
        (0..digits).map(|digit| format!("t{digit}.n * CAST({} AS bigint)", 10_u64.pow(digit as u32))).collect();
    format!(
        "SELECT {} AS n, 'some text to fill the pages with, so that the file has to grow' AS filling INTO {into} FROM {}",
        number.join(" + "),
        tables.join(" CROSS JOIN ")
    )
}

#[test]
fn unknown_names_are_named() {
    let folder = Folder::new();
    assert!(folder.fails(208, "SELECT * FROM nosuch").contains("'nosuch'"));
    folder.succeeds("USE d; CREATE TABLE t (a int)");
    assert!(folder.fails(207, "SELECT b FROM t").contains("'b'"));
    assert!(folder.fails(208, "SELECT * FROM master.dbo.nosuch").contains("'master.dbo.nosuch'"));
    folder.fails(911, "USE nosuch");
    folder.fails(2812, "EXEC nosuch");
}

#[test]
fn an_overflow_in_a_generator_leaves_no_table() {
    let folder = Folder::new();
    let ten = "(VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9))";
    let text = folder.run(&format!(
        "USE d; SELECT CAST(a.n * 1000 + b.n * 10000 AS smallint) AS c INTO t FROM {ten} AS a(n) CROSS JOIN {ten} AS b(n)"
    ));
    assert_eq!(text.0.status.code(), Some(1), "{}", text.1);
    assert!(text.1.contains("Msg 220, ") || text.1.contains("Msg 8115, "), "{}", text.1);
    folder.shows("SELECT COUNT(*) FROM sys.tables", "0");
    folder.succeeds("USE d; SELECT 1 AS c INTO t");
}

#[test]
fn partition_functions_take_values_in_order_and_once() {
    let folder = Folder::new();
    folder.fails(7708, "CREATE PARTITION FUNCTION f (int) AS RANGE RIGHT FOR VALUES (1, 2, 2)");
    folder.shows("SELECT COUNT(*) FROM sys.partition_functions", "0");
    // Unordered values are sorted, with a warning.
    let text = folder.succeeds("USE d; CREATE PARTITION FUNCTION f (int) AS RANGE RIGHT FOR VALUES (3, 1, 2)");
    assert!(text.contains("sorted"), "{text}");
    folder.shows("SELECT $PARTITION.f(2)", "3");
}

#[test]
fn files_lie_where_they_may_and_belong_to_one_database() {
    let folder = Folder::new();
    let create = |path: &str| format!("CREATE DATABASE e ON (NAME = e, FILENAME = '{path}')");
    for outside in ["/nonexistent/e.mdf", "/etc/e.mdf", "../e.mdf", "a/../../e.mdf"] {
        let text = folder.fails(5123, &create(outside));
        assert!(text.contains("allowed folders"), "{text}");
    }
    let text = folder.fails(1834, &create("d.mdf"));
    assert!(text.contains("'d'"), "{text}");
    fs::write(folder.path().join("mine.mdf"), "not a database").expect("a file");
    folder.fails(5170, &create("mine.mdf"));
    assert_eq!(fs::read(folder.path().join("mine.mdf")).expect("the file"), b"not a database");
    folder.fails(5123, "ALTER DATABASE d ADD FILE (NAME = d2, FILENAME = '/nonexistent/d2.ndf')");
    assert!(folder.succeeds("SELECT name FROM sys.databases").lines().all(|line| line.trim() != "e"));
}

/// Runs a batch with a limit of the shell's `ulimit`.
fn run_limited(folder: &Folder, limit: &str, batch: &str) -> (Output, String) {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit {limit} && exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_hobt"), "sql", "--data"]);
    let output =
        command.arg(folder.path()).args(["--memory", "128", "-W", "-b", "-Q", batch]).stdin(Stdio::null()).output();
    let output = output.expect("a shell");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains("panicked"), "{limit}: {batch}\n{text}");
    (output, text)
}

#[cfg(target_os = "linux")]
#[test]
fn too_little_address_space_for_the_workers_is_an_error_and_no_hang() {
    let folder = Folder::new();
    folder.succeeds("USE d; CREATE TABLE t (a int); INSERT t SELECT value FROM GENERATE_SERIES(1, 100000)");
    let mut refused = 0;
    let enough = (300..3000).step_by(25).find(|megabytes| {
        let limit = format!("-v {megabytes}000");
        let (output, text) = run_limited(&folder, &limit, "SELECT COUNT(*) FROM d.dbo.t OPTION (MAXDOP 8)");
        refused += usize::from(text.contains("Msg 8642, "));
        // Before the instance is open there may be no memory to say anything with.
        let early = ["Msg 5120, ", "memory allocation", "cannot be", "no thread can be started"];
        let is_early = early.iter().any(|words| text.contains(words));
        assert!(output.status.success() || is_early || text.contains("Msg 8642, "), "{limit}: {text}");
        output.status.success()
    });
    assert!(enough.is_some() && refused > 0, "{enough:?}, refused {refused} times");
}

#[test]
fn a_limit_of_open_files_is_named_and_leaves_nothing() {
    let folder = Folder::new();
    let adding = "ALTER DATABASE d ADD FILE (NAME = f, FILENAME = 'f.ndf', SIZE = 1MB)";
    for (batch, file) in [("CREATE DATABASE e", "e.mdf"), (adding, "f.ndf")] {
        // With fewer than six, the program itself cannot be loaded on some systems.
        let mut refused = [0, 0];
        let limits = 6..64;
        let enough = limits.into_iter().find(|limit| {
            let (output, text) = run_limited(&folder, &format!("-n {limit}"), batch);
            if output.status.success() {
                return true;
            }
            // If this test has inherited open files, the program cannot even read the folder before it starts.
            let is_early = text.contains("cannot be read");
            // 5120 when the instance starts, 5123 when the statement runs.
            let number = [5120, 5123].iter().position(|number| text.contains(&format!("Msg {number}, ")));
            refused[number.or(is_early.then_some(0)).unwrap_or_else(|| panic!("{limit}: {text}"))] += 1;
            let is_explained = is_early || text.contains("ulimit -n");
            assert!(text.contains("Too many open files") && is_explained, "{limit}: {text}");
            assert!(!folder.path().join(file).exists(), "{limit}: {text}");
            false
        });
        assert!(enough.is_some() && refused[0] > 0 && refused[1] > 0, "{enough:?} {refused:?}");
        folder.shows("SELECT COUNT(*) FROM sys.databases WHERE state_desc <> 'ONLINE'", "0");
    }
    folder.shows("SELECT COUNT(*) FROM sys.database_files WHERE name = 'f'", "1");
}

#[test]
fn a_size_beyond_the_limit_of_files_is_named_and_leaves_nothing() {
    let folder = Folder::new();
    let adding = "ALTER DATABASE d ADD FILE (NAME = f, FILENAME = 'f.ndf', SIZE = 100MB)";
    let creating = "CREATE DATABASE e ON (NAME = f, FILENAME = 'f.ndf', SIZE = 100MB)";
    for batch in [adding, creating] {
        // In blocks of 512 or 1024 bytes, depending on the shell.
        let (output, text) = run_limited(&folder, "-f 50000", batch);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("Msg 5149, ") && text.contains("File too large"), "{text}");
        assert!(text.contains("f.ndf") && text.contains("ulimit -f"), "{text}");
        assert!(!folder.path().join("f.ndf").exists(), "{text}");
    }
    folder.succeeds(adding);
}

#[test]
fn a_change_whose_rows_find_no_room_on_disk_is_1105_and_changes_nothing() {
    let folder = Folder::new();
    folder.succeeds("SELECT CAST(value AS int) AS k, 'x' AS s INTO d.dbo.narrow FROM GENERATE_SERIES(1, 40000)");
    folder.succeeds("ALTER TABLE d.dbo.narrow ALTER COLUMN s varchar(5000) NULL");
    for change in [
        "UPDATE d.dbo.narrow SET s = CONCAT(REPLICATE('y', 4000), k)",
        "MERGE d.dbo.narrow AS t USING (VALUES (0)) AS s (k) ON s.k = t.k \
         WHEN NOT MATCHED BY SOURCE THEN UPDATE SET s = CONCAT(REPLICATE('y', 4000), t.k);",
    ] {
        // In blocks of 512 or 1024 bytes, depending on the shell. The rows are held in a file of 160 MB and more.
        let (output, text) = run_limited(&folder, "-f 120000", change);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("Msg 1105, ") && text.contains("'tempdb'"), "{text}");
        folder.shows("SELECT MAX(s) FROM d.dbo.narrow", "x");
    }
    assert_eq!(fs::read_dir(folder.path().join("tempdb")).map_or(0, Iterator::count), 0, "no file is left");
}

#[test]
fn a_folder_for_spilling_that_cannot_be_used_is_named_at_the_start() {
    let folder = Folder::new();
    let spilling = folder.path().join("tempdb");
    let refused = || {
        let (output, text) = folder.run("SELECT 1");
        assert_eq!(output.status.code(), Some(1), "{text}");
        let place = spilling.to_str().expect("text");
        assert!(text.contains("Msg 5123, ") && text.contains(place) && text.contains("account"), "{text}");
    };
    fs::remove_dir_all(&spilling).expect("removed");
    fs::write(&spilling, "").expect("a file in the folder's place");
    refused();
    fs::remove_file(&spilling).expect("removed");
    // A folder in which even an administrator cannot create anything.
    #[cfg(target_os = "linux")]
    {
        std::os::unix::fs::symlink("/proc", &spilling).expect("a link");
        refused();
        fs::remove_file(&spilling).expect("removed");
    }
    folder.succeeds("SELECT 1");
}

#[test]
fn a_folder_is_open_in_one_process() {
    let folder = Folder::new();
    let mut first = Running::start(&folder);
    first.send("PRINT 'open'\nGO\n");
    first.wait_for_line("open");
    let (output, text) = folder.run("SELECT 1");
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("another process"), "{text}");
    first.send("USE d; CREATE TABLE t (a int)\nGO\n");
    drop(first.child.stdin.take());
    assert_eq!(first.end().0, Some(0));
    folder.shows("SELECT COUNT(*) FROM t", "0");
}

#[test]
fn a_flipped_bit_is_reported_with_its_page_and_file() {
    let folder = Folder::new();
    folder.succeeds("USE d; CREATE TABLE t (a varchar(40)); INSERT INTO t VALUES ('one'), ('a marker to find again')");
    let path = folder.path().join("d.mdf");
    let mut bytes = fs::read(&path).expect("the file");
    let marker = b"a marker to find again";
    let at = bytes.windows(marker.len()).position(|window| window == marker).expect("the row");
    bytes[at] ^= 1;
    fs::write(&path, &bytes).expect("written");
    let text = folder.fails(824, "SELECT * FROM t");
    assert!(text.contains("d.mdf") && text.contains(&format!("1:{}", at / 8192)), "{text}");
    folder.fails(824, "SELECT COUNT(a) FROM t");
    // Undamaged objects can be used.
    folder.succeeds("USE d; CREATE TABLE u (a int); INSERT INTO u VALUES (1)");
    folder.shows("SELECT a FROM u", "1");
}

#[test]
fn a_table_whose_list_of_runs_is_damaged_does_not_vanish_from_the_views() {
    let folder = Folder::new();
    folder.succeeds("USE d; CREATE TABLE t (a varchar(40)); INSERT INTO t VALUES ('a marker to find again')");
    let path = folder.path().join("d.mdf");
    let mut bytes = fs::read(&path).expect("the file");
    let marker = b"a marker to find again";
    let at = bytes.windows(marker.len()).position(|window| window == marker).expect("the row");
    // The list of runs is on the first page of the first run, the rows are on the next page.
    let list = (at / 8192 - 1) * 8192;
    bytes[list + 100] ^= 1;
    fs::write(&path, &bytes).expect("written");
    for view in ["partitions", "allocation_units", "dm_db_partition_stats", "sysindexes"] {
        let text = folder.fails(824, &format!("SELECT * FROM sys.{view}"));
        assert!(text.contains("d.mdf"), "{text}");
    }
    folder.shows("SELECT name FROM sys.tables", "t");
}

#[test]
fn a_file_cut_short_is_refused_or_reported() {
    for keep in [0, 100, 8192, 3 * 8192 + 17, 40 * 8192] {
        let folder = Folder::new();
        folder.succeeds(&format!("USE d; {}", many_rows(4, "t")));
        let file = fs::OpenOptions::new().write(true).open(folder.path().join("d.mdf")).expect("the file");
        file.set_len(keep).expect("cut");
        drop(file);
        let (output, text) = folder.run("USE d; SELECT COUNT(filling), SUM(n) FROM t");
        assert_eq!(output.status.code(), Some(1), "{keep}: {text}");
        let known = [823, 824, 926, 945, 5173].iter().any(|number| text.contains(&format!("Msg {number}, ")));
        assert!(known && text.contains("d.mdf"), "{keep}: {text}");
        // The instance itself works.
        folder.succeeds("CREATE DATABASE e");
    }
}

#[test]
fn maxdop_is_limited_to_the_processors_and_to_its_bounds() {
    let folder = Folder::new();
    folder.succeeds(&format!("USE d; {}", many_rows(4, "t")));
    for dop in ["0", "1", "1000", "32767"] {
        folder.shows(&format!("SELECT COUNT(*) FROM t OPTION (MAXDOP {dop})"), "10000");
    }
    for dop in ["32768", "-1", "x", "99999999999999999999"] {
        let (output, text) = folder.run(&format!("USE d; SELECT COUNT(*) FROM t OPTION (MAXDOP {dop})"));
        assert_eq!(output.status.code(), Some(1), "{dop}: {text}");
    }
}

/// Starts a `SELECT … INTO` that would run for hours. Returns once it is writing.
fn start_endless_load(folder: &Folder) -> Running {
    let file = folder.path().join("d.mdf");
    let before = length(&file);
    let mut running = Running::start(folder);
    running.send(&format!("USE d;\n{}\nGO\n", many_rows(9, "t")));
    wait_until("a growing file", || length(&file) > before + (24 << 20));
    running
}

/// After an interrupted load the database is intact, the table does not exist, and its space is free.
fn assert_nothing_is_left(folder: &Folder) {
    folder.shows("SELECT state_desc FROM sys.databases WHERE name = 'd'", "ONLINE");
    folder.shows("SELECT COUNT(*) FROM sys.tables", "0");
    let file = folder.path().join("d.mdf");
    let before = length(&file);
    folder.succeeds(&format!("USE d; {}", many_rows(5, "u")));
    assert_eq!(length(&file), before, "the space of the interrupted load is used again");
    folder.shows("SELECT COUNT(*) FROM u", "100000");
}

#[test]
fn an_interrupted_load_leaves_nothing() {
    for (signal, wanted) in [("INT", 130), ("TERM", 143)] {
        let folder = Folder::new();
        let running = start_endless_load(&folder);
        running.signal(signal);
        let (code, text) = running.end();
        assert_eq!(code, Some(wanted), "{text}");
        assert!(text.contains("Msg 3617, "), "{text}");
        assert_nothing_is_left(&folder);
    }
}

#[test]
fn who_insists_still_gets_a_whole_database() {
    let folder = Folder::new();
    let running = start_endless_load(&folder);
    running.signal("INT");
    running.signal("INT");
    let (code, text) = running.end();
    assert_eq!(code, Some(130), "{text}");
    assert_nothing_is_left(&folder);
}

#[test]
fn a_signal_between_batches_closes_the_instance() {
    let folder = Folder::new();
    let mut running = Running::start(&folder);
    running.send("USE d; CREATE TABLE t (a int); INSERT INTO t VALUES (7)\nGO\nPRINT 'done'\nGO\n");
    running.wait_for_line("done");
    running.signal("TERM");
    assert_eq!(running.end().0, Some(143));
    folder.shows("SELECT a FROM t", "7");
}

/// The prompt waits for input with a transaction open. That is rolled back, and the instance closed.
#[test]
fn a_signal_beside_an_open_transaction_closes_the_instance() {
    let folder = Folder::new();
    folder.succeeds("USE d; CREATE TABLE t (a int); INSERT INTO t VALUES (7)");
    for signal in ["TERM", "INT"] {
        let mut running = Running::start(&folder);
        running.send("USE d; BEGIN TRANSACTION; UPDATE t SET a = 8\nGO\nPRINT 'done'\nGO\n");
        running.wait_for_line("done");
        running.signal(signal);
        let (code, text) = running.end();
        assert_eq!(code, Some(if signal == "TERM" { 143 } else { 130 }), "{text}");
        folder.shows("SELECT a FROM t", "7");
    }
}

#[test]
fn an_interrupted_laboratory_leaves_a_whole_database() {
    for (signal, wanted) in [("INT", 130), ("TERM", 143)] {
        let folder = Folder(tempfile::tempdir().expect("a temporary folder"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_hobt"));
        // Enough rows for a minute, but not more than a disk has room for.
        command.args(["lab", "fixtures", "--rows", "40000000", "--data"]).arg(folder.path());
        let mut errors = tempfile::tempfile().expect("a temporary file");
        command.stderr(errors.try_clone().expect("a second handle"));
        let running = Running::of(command);
        let grown = || {
            let files = fs::read_dir(folder.path()).into_iter().flatten().flatten();
            files.map(|file| length(&file.path())).max().unwrap_or(0)
        };
        wait_until("a growing file", || grown() > 96 << 20);
        running.signal(signal);
        let (code, text) = running.end();
        assert_eq!(code, Some(wanted), "{text}");
        let mut said = String::new();
        errors.rewind().and_then(|()| errors.read_to_string(&mut said)).expect("the error stream");
        assert!(said.contains("Ending: ") && !said.contains("3617"), "what was asked for is no error: {said}");
        let states = "SELECT name, state_desc FROM sys.databases WHERE state_desc <> 'ONLINE'";
        let text = folder.succeeds(states);
        assert!(text.contains("(0 rows affected)"), "{text}");
        let text = folder.succeeds("SELECT name FROM AdventureWorksDW2014.sys.tables");
        assert!(text.contains("DimCustomer") && !text.contains("BigData"), "{text}");
    }
}
