//! `hobt export`, and `hobt sql` with formats of files: what is in the files, mistakes, and interruptions.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Decimal128Type, Int32Type};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::client::wait_until;

/// A folder with an instance whose database `d` has the table `dbo.t`.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let batch = "CREATE DATABASE d; EXEC ('USE d; CREATE TABLE dbo.t (id int NOT NULL, name nvarchar(20), price decimal(9, 2), \
                 born date); INSERT INTO dbo.t VALUES (1, N''a, \"b\"'', 1.50, ''2020-01-31''), (2, N'''', -0.05, NULL), \
                 (3, NULL, NULL, ''0001-01-01'')')";
    let output = hobt(folder.path(), &["sql", "-Q", batch]);
    assert!(output.status.success(), "{}", text(&output));
    folder
}

/// Runs a sub-command on the instance in `data`.
fn hobt(folder: &Path, arguments: &[&str]) -> Output {
    let (command, rest) = arguments.split_first().expect("a sub-command");
    let mut program = Command::new(env!("CARGO_BIN_EXE_hobt"));
    program.args([command, "--data", "data"]).args(rest).current_dir(folder).stdin(Stdio::null());
    let output = program.output().expect("the program");
    assert!(!text(&output).contains("panicked"), "{}", text(&output));
    output
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn export(folder: &Path, arguments: &[&str]) -> String {
    let output = hobt(folder, &[&["export", "-d", "d"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}\n{}", text(&output));
    text(&output)
}

/// The message of an export that fails.
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = hobt(folder, &[&["export", "-d", "d"], arguments].concat());
    assert!(!output.status.success(), "{arguments:?}\n{}", text(&output));
    text(&output)
}

/// The names in a folder beside the instance.
fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
    let mut names: Vec<String> = names.filter(|name| name != "data").collect();
    names.sort();
    names
}

#[test]
fn a_table_goes_into_each_format() {
    let folder = folder();
    let folder = folder.path();
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("text");
    let said = export(folder, &["dbo.t", "t.csv"]);
    assert!(said.starts_with("3 rows, 0.0 MB in "), "{said}");
    assert_eq!(
        read("t.csv"),
        "id,name,price,born\n1,\"a, \"\"b\"\"\",1.50,2020-01-31\n2,\"\",-0.05,\n3,,,0001-01-01\n"
    );
    export(folder, &["[dbo].[t]", "t.tsv", "--no-header", "--row-terminator", r"\r\n"]);
    assert_eq!(read("t.tsv").lines().next(), Some("1\t\"a, \"\"b\"\"\"\t1.50\t2020-01-31"));
    export(folder, &["SELECT id, name FROM t ORDER BY id DESC", "t.jsonl"]);
    let lines = "{\"id\":3,\"name\":null}\n{\"id\":2,\"name\":\"\"}\n{\"id\":1,\"name\":\"a, \\\"b\\\"\"}\n";
    assert_eq!(read("t.jsonl"), lines);
    export(folder, &["SELECT TOP 1 id, price FROM t ORDER BY id", "t.json"]);
    assert_eq!(read("t.json"), "[\n{\"id\":1,\"price\":1.50}\n]\n");
    export(folder, &["SELECT id, 7 FROM t WHERE id = 1", "file", "--format", "csv", "--delimiter", "|"]);
    assert_eq!(read("file"), "id|column2\n1|7\n");
    export(folder, &["t", "t.csv.gz"]);
    assert_eq!(fs::read(folder.join("t.csv.gz")).expect("a file")[..2], [0x1F, 0x8B]);
    assert_eq!(files(folder), ["file", "t.csv", "t.csv.gz", "t.json", "t.jsonl", "t.tsv"]);
}

#[test]
fn parquet_has_the_types_of_the_query() {
    let folder = folder();
    let folder = folder.path();
    export(folder, &["SELECT * FROM t ORDER BY id", "t.parquet"]);
    let query = "USE d; SELECT * FROM t ORDER BY id";
    let output = hobt(folder, &["sql", "-Q", query, "--format", "parquet", "-o", "u.parquet"]);
    assert!(output.status.success(), "{}", text(&output));
    for name in ["t.parquet", "u.parquet"] {
        let file = File::open(folder.join(name)).expect("a file");
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("Parquet");
        let fields = reader.schema().fields();
        let types: Vec<(&str, &DataType, &str, bool)> = fields
            .iter()
            .map(|field| {
                (
                    field.name().as_str(),
                    field.data_type(),
                    field.metadata()["hobt.sql_type"].as_str(),
                    field.is_nullable(),
                )
            })
            .collect();
        let wanted = [
            ("id", &DataType::Int32, "int", false),
            ("name", &DataType::Utf8, "nvarchar(20)", true),
            ("price", &DataType::Decimal128(9, 2), "decimal(9,2)", true),
            ("born", &DataType::Date32, "date", true),
        ];
        assert_eq!(types, wanted);
        let batch = reader.build().expect("a reader").next().expect("rows").expect("rows");
        assert_eq!(batch.column(0).as_primitive::<Int32Type>().values().to_vec(), [1, 2, 3]);
        let names: Vec<Option<&str>> = batch.column(1).as_string::<i32>().iter().collect();
        assert_eq!(names, [Some("a, \"b\""), Some(""), None]);
        let prices: Vec<Option<i128>> = batch.column(2).as_primitive::<Decimal128Type>().iter().collect();
        assert_eq!(prices, [Some(150), Some(-5), None]);
    }
}

#[test]
fn json_lines_of_several_result_sets_follow_each_other() {
    let folder = folder();
    let output = hobt(folder.path(), &["sql", "-Q", "SELECT 1 AS a; SELECT N'x' AS b, 2.50", "--format", "jsonl"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "{\"a\":1}\n{\"b\":\"x\",\"column2\":2.50}\n");
}

#[test]
fn mistakes_are_explained_and_leave_nothing() {
    let folder = folder();
    let folder = folder.path();
    fs::write(folder.join("old.csv"), "old").expect("a file");
    for (arguments, wanted) in [
        (&["t", "t.xls"][..], "t.xls does not say what it is"),
        (&["t", "t.parquet.gz"], "compressed inside"),
        (&["t", "old.csv"], "--force replaces it"),
        (&["t", "none/t.csv"], "there is no folder none"),
        (&["t", "data", "--format", "csv"], "data is a folder"),
        (&["t", "t.parquet", "--no-header"], "--no-header is for CSV files alone"),
        (&["t", "t.csv", "--delimiter", "1"], "the delimiter has no letter"),
        (&["t", "t.csv", "--delimiter", r"\q"], "the delimiter has no letter"),
        (&["t", "t.csv", "--delimiter", "0xZZ"], "0x is followed by"),
        (&["dbo.missing", "t.csv"], "Invalid object name 'dbo.missing'"),
        (&["SELECT 1/0 AS a", "t.csv"], "Msg 8134"),
        (&["SELECT id, id FROM t", "t.parquet"], "column 2 has the name id, as one before it"),
        (&["SELECT id, 1 FROM t", "t.jsonl"], "column 2 has no name"),
        (&["SELECT 1 AS a; SELECT 2 AS a", "t.csv"], "more than one result set"),
        (&["PRINT 'x'", "t.csv"], "it has no query"),
        (&["SELECT CAST('9999-12-31' AS datetime2) AS a", "t.parquet"], "column a has 9999-12-31"),
    ] {
        let said = refused(folder, arguments);
        assert!(said.contains(wanted), "{arguments:?}: {said}");
        assert_eq!(files(folder), ["old.csv"], "{arguments:?}");
    }
    let output = hobt(folder, &["export", "t", "t.csv"]);
    assert!(text(&output).contains("looked up in the database master"), "{}", text(&output));
    let output = hobt(folder, &["sql", "-Q", "SELECT 1 AS a", "--format", "parquet"]);
    assert!(!output.status.success() && text(&output).contains("name it with -o"), "{}", text(&output));
    let batch = ["sql", "-Q", "SELECT 1 AS a; SELECT 1/0", "--format", "parquet", "-o", "t.parquet"];
    assert!(!hobt(folder, &batch).status.success());
    assert_eq!(files(folder), ["old.csv"]);
    assert_eq!(fs::read_to_string(folder.join("old.csv")).expect("text"), "old");
    export(folder, &["SELECT CAST('9999-12-31' AS datetime2) AS a", "t.parquet", "--microseconds"]);
    export(folder, &["SELECT 1 AS a", "old.csv", "--force"]);
    assert_eq!(fs::read_to_string(folder.join("old.csv")).expect("text"), "a\n1\n");
}

#[test]
fn an_interrupted_export_leaves_nothing() {
    let folder = folder();
    let folder = folder.path();
    for (name, signal, code) in [("t.csv", "INT", 130), ("t.parquet", "TERM", 143)] {
        let endless = "SELECT a.value AS a, b.value AS b FROM GENERATE_SERIES(1, 1000000) AS a CROSS JOIN \
                       GENERATE_SERIES(1, 1000000) AS b";
        let mut program = Command::new(env!("CARGO_BIN_EXE_hobt"));
        program.args(["export", "--data", "data", endless, name]).current_dir(folder).stdin(Stdio::null());
        let mut child = program.stderr(Stdio::null()).spawn().expect("the program");
        wait_until("the file grows", || {
            let grows = |entry: fs::DirEntry| entry.metadata().is_ok_and(|found| found.is_file() && found.len() > 4);
            fs::read_dir(folder).expect("a folder").flatten().any(grows)
        });
        assert_ne!(files(folder), [name], "it has no name yet");
        let kill = Command::new("sh").args(["-c", &format!("kill -{signal} {}", child.id())]).status();
        assert!(kill.expect("a shell").success());
        assert_eq!(child.wait().expect("it ends").code(), Some(code));
        assert_eq!(files(folder), Vec::<String>::new());
    }
}
