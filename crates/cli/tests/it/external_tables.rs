//! External tables: files that a query's rows are written to, files that are read as a table, and what is refused.

use std::fs;
use std::path::Path;

use hobt::{Instance, InstanceSettings, Session};
use hobt_base::number;

use crate::client::{answer, error, ok, used, wait_until};

/// A session of an instance whose files of rows lie in a folder beside its own, with a table of awkward values.
fn session() -> (tempfile::TempDir, Instance, Session) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let instance = opened(folder.path());
    instance.session().expect("a session").run("CREATE DATABASE d").expect("a database");
    let mut session = used(&instance);
    ok(
        &mut session,
        "CREATE TABLE t (id int NOT NULL, [a name] nvarchar(20), price decimal(9, 2), born date, at datetime2(7), \
         part float, bytes varbinary(10), small bit, kind varchar(10) COLLATE Latin1_General_BIN2);
         INSERT t VALUES (1, N'a, \"b\"|ß', 1.50, '2020-01-31', '2020-01-31 23:59:59.1234567', 0.1, 0x00FF, 1, 'A'),
            (2, N'', -0.05, NULL, NULL, -1e300, 0x, 0, ''), (3, NULL, NULL, '0001-01-01', '1999-01-01', NULL, NULL, NULL, NULL)",
    );
    (folder, instance, session)
}

fn opened(folder: &Path) -> Instance {
    let settings = InstanceSettings { rows_folder: Some(folder.to_path_buf()), ..InstanceSettings::default() };
    Instance::open_with(folder.join("data"), settings).expect("an instance")
}

/// All names below a folder but those of the instance, in order.
fn files(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(folder).expect("below it").to_str().expect("UTF-8").to_owned();
            if name != "data" {
                names.push(name);
                if path.is_dir() {
                    folders.push(path);
                }
            }
        }
    }
    names.sort();
    names
}

/// The tables' rows are the same, with their types.
fn assert_same(session: &mut Session, left: &str, right: &str) {
    let of = |name: &str| {
        format!(
            "SELECT c.name, TYPE_NAME(c.system_type_id), c.max_length, c.precision, c.scale, c.collation_name, \
             c.is_nullable FROM sys.columns AS c WHERE c.object_id = OBJECT_ID('{name}', 'U') ORDER BY c.column_id"
        )
    };
    let columns = ok(session, &of(left));
    assert!(!columns.is_empty(), "{left}");
    assert_eq!(columns, ok(session, &of(right)));
    for (one, other) in [(left, right), (right, left)] {
        let more = ok(session, &format!("SELECT * FROM {one} EXCEPT SELECT * FROM {other}"));
        assert_eq!(more, [[""; 0]; 0], "{one} and {other}");
    }
    let count = |name: &str| format!("SELECT COUNT(*) FROM {name}");
    assert_eq!(ok(session, &count(left)), ok(session, &count(right)));
}

#[test]
fn what_is_written_is_read_again_in_every_format() {
    let (folder, instance, mut session) = session();
    ok(
        &mut session,
        "CREATE EXTERNAL FILE FORMAT piped WITH (FORMAT_TYPE = DELIMITEDTEXT, FORMAT_OPTIONS (FIELD_TERMINATOR = '|', \
         STRING_DELIMITER = '\"', FIRST_ROW = 2, USE_TYPE_DEFAULT = FALSE), DATA_COMPRESSION = \
         'org.apache.hadoop.io.compress.GzipCodec')",
    );
    ok(&mut session, "CREATE EXTERNAL FILE FORMAT columnar WITH (FORMAT_TYPE = PARQUET)");
    let written = [
        ("LOCATION = 'one.csv'", "one.csv"),
        ("LOCATION = 'two.csv', FORMAT = 'CSV', HEADER_ROW = TRUE, FIELDTERMINATOR = ';'", "two.csv"),
        ("LOCATION = 'three.tsv.zst'", "three.tsv.zst"),
        ("LOCATION = 'four.jsonl'", "four.jsonl"),
        ("LOCATION = 'five.parquet'", "five.parquet"),
        ("LOCATION = 'six', FORMAT = 'PARQUET'", "six/part-1.parquet"),
        ("LOCATION = 'seven/eight/', FILE_FORMAT = piped", "seven/eight/part-1.csv.gz"),
        ("LOCATION = 'nine', FILE_FORMAT = [columnar], REJECT_TYPE = VALUE, REJECT_VALUE = 0", "nine/part-1.parquet"),
        ("LOCATION = 'ten', FORMAT = 'JSONL', DATA_COMPRESSION = GZIP", "ten/part-1.jsonl.gz"),
    ];
    for (at, (options, file)) in written.iter().enumerate() {
        ok(&mut session, &format!("CREATE EXTERNAL TABLE dbo.e{at} WITH ({options}) AS SELECT * FROM t"));
        assert!(folder.path().join(file).is_file(), "{options}: {:?}", files(folder.path()));
        assert_same(&mut session, &format!("e{at}"), "t");
    }
    let two = fs::read_to_string(folder.path().join("two.csv")).expect("text");
    assert!(two.starts_with("id;a name;price;"), "{two}");
    // The definitions are in the catalog, and paths in them do not depend on where relative ones begin.
    drop(session);
    instance.close().expect("closed");
    let settings =
        InstanceSettings { allowed_folders: vec![folder.path().to_path_buf()], ..InstanceSettings::default() };
    let instance = Instance::open_with(folder.path().join("data"), settings).expect("an instance");
    let mut session = used(&instance);
    for at in 0..written.len() {
        assert_same(&mut session, &format!("d.dbo.e{at}"), "t");
    }
}

#[test]
fn more_rows_than_a_part_are_written_and_read() {
    let (_folder, _instance, mut session) = session();
    let query = "SELECT value AS id, REPLICATE('x', value % 50) AS text FROM GENERATE_SERIES(1, 300000)";
    for file in ["many.csv", "many.parquet"] {
        ok(&mut session, &format!("CREATE EXTERNAL TABLE many WITH (LOCATION = '{file}') AS {query}"));
        let sums = "SELECT COUNT(*), SUM(CAST(id AS bigint)), SUM(LEN(text))";
        let wanted = ok(&mut session, &format!("{sums} FROM ({query}) AS q"));
        assert_eq!(ok(&mut session, &format!("{sums} FROM many")), wanted, "{file}");
        ok(&mut session, "DROP EXTERNAL TABLE many");
    }
}

#[test]
fn names_of_columns_come_from_the_list_or_from_the_query() {
    let (_folder, _instance, mut session) = session();
    ok(&mut session, "CREATE EXTERNAL TABLE e (x, [y z]) WITH (LOCATION = 'e.jsonl') AS SELECT 1, N'two'");
    assert_eq!(ok(&mut session, "SELECT [y z], x FROM e"), [["two", "1"]]);
    let refused = [
        ("(x) WITH (LOCATION = 'f.csv') AS SELECT 1, 2", 8158),
        ("(x, y, z) WITH (LOCATION = 'f.csv') AS SELECT 1, 2", 8159),
        ("(x, X) WITH (LOCATION = 'f.csv') AS SELECT 1, 2", 2705),
        ("(x int) WITH (LOCATION = 'f.csv') AS SELECT 1", 102),
        ("WITH (LOCATION = 'f.csv') AS SELECT 1", 1038),
    ];
    for (create, wanted) in refused {
        assert_eq!(error(&mut session, &format!("CREATE EXTERNAL TABLE f {create}")), wanted, "{create}");
    }
}

#[test]
fn a_statement_that_fails_leaves_no_file_no_folder_and_no_table() {
    let (folder, _instance, mut session) = session();
    let before = files(folder.path());
    let failing = "SELECT 1 / (value - 200000) AS a FROM GENERATE_SERIES(1, 200000)";
    for location in ["a.csv", "b/c/d"] {
        let options = format!("LOCATION = '{location}', FORMAT = 'CSV'");
        let create = format!("CREATE EXTERNAL TABLE e WITH ({options}) AS {failing}");
        assert_eq!(error(&mut session, &create), 8134, "{location}");
        assert_eq!(files(folder.path()), before, "{location}");
        assert_eq!(error(&mut session, "SELECT * FROM e"), 208);
        let create = format!("CREATE EXTERNAL TABLE t WITH ({options}) AS SELECT 1 AS a");
        assert_eq!(error(&mut session, &create), 2714, "{location}");
        assert_eq!(files(folder.path()), before, "{location}");
    }
    let create = "CREATE EXTERNAL TABLE e WITH (LOCATION = 'e/f', FORMAT = 'CSV') AS SELECT value AS a FROM \
                  GENERATE_SERIES(1, 100000000)";
    let (progress, cancel) = (session.progress(), session.cancel_handle());
    let failed = std::thread::scope(|scope| {
        let running = scope.spawn(|| answer(&mut session, create).1);
        wait_until("rows that are written", || progress.percent() > 0.0);
        assert_ne!(files(folder.path()), before, "a file grows");
        cancel.cancel();
        running.join().expect("no panic")
    });
    assert_eq!(failed.map(|error| error.number), Some(number::CANCELED));
    assert_eq!(files(folder.path()), before);
    assert_eq!(error(&mut session, "SELECT * FROM e"), 208);
}

#[test]
fn nothing_is_replaced_and_a_drop_leaves_the_files() {
    let (folder, _instance, mut session) = session();
    ok(&mut session, "CREATE EXTERNAL TABLE e WITH (LOCATION = 'out', FORMAT = 'CSV') AS SELECT 1 AS a");
    ok(&mut session, "CREATE EXTERNAL TABLE f WITH (LOCATION = 'f.csv') AS SELECT 1 AS a");
    fs::create_dir(folder.path().join("empty")).expect("a folder");
    fs::write(folder.path().join("plain"), "text").expect("a file");
    ok(&mut session, "DROP EXTERNAL TABLE e, f");
    ok(&mut session, "DROP EXTERNAL TABLE IF EXISTS e");
    assert_eq!(error(&mut session, "DROP EXTERNAL TABLE e"), 3701);
    assert_eq!(files(folder.path()), ["empty", "f.csv", "out", "out/part-1.csv", "plain"]);
    let refused = [
        ("out", 15842),
        ("f.csv", 15842),
        ("plain", 15840),
        ("o*t", 15841),
        ("plain/more", 15856),
        ("../beside.csv", 4861),
        ("../beside", 4861),
        ("data/hobt.lock", 4861),
    ];
    for (location, wanted) in refused {
        let create = format!("CREATE EXTERNAL TABLE e WITH (LOCATION = '{location}', FORMAT = 'CSV') AS SELECT 1 AS a");
        assert_eq!(error(&mut session, &create), wanted, "{location}");
    }
    assert_eq!(files(folder.path()), ["empty", "f.csv", "out", "out/part-1.csv", "plain"]);
    ok(&mut session, "CREATE EXTERNAL TABLE e WITH (LOCATION = 'empty', FORMAT = 'CSV') AS SELECT 1 AS a");
}

#[test]
fn a_file_is_not_written_in_a_transaction_that_could_roll_back() {
    let (folder, _instance, mut session) = session();
    let create = "CREATE EXTERNAL TABLE e WITH (LOCATION = 'e.csv') AS SELECT 1 AS a";
    assert_eq!(error(&mut session, &format!("BEGIN TRANSACTION; {create}")), 226);
    ok(&mut session, "IF @@TRANCOUNT > 0 ROLLBACK");
    assert_eq!(files(folder.path()), [""; 0]);
    // A definition over files that are there is one like any other.
    fs::write(folder.path().join("e.csv"), "1\n").expect("a file");
    ok(&mut session, "BEGIN TRANSACTION; CREATE EXTERNAL TABLE e (a int) WITH (LOCATION = 'e.csv'); SELECT * FROM e");
    ok(&mut session, "ROLLBACK");
    assert_eq!(error(&mut session, "SELECT * FROM e"), 208);
}

#[test]
fn tables_over_files_have_their_columns_or_those_that_are_listed() {
    let (folder, _instance, mut session) = session();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    write("a1.csv", "id,name\n1,one\n2,two\n");
    write("a2.csv", "id,name\n3,three\n");
    write("b.csv", "1|x\n2|\nthree|z\n");
    ok(&mut session, "CREATE EXTERNAL TABLE found WITH (LOCATION = 'a*.csv')");
    assert_eq!(ok(&mut session, "SELECT SUM(id), MAX(name) FROM found"), [["6", "two"]]);
    ok(
        &mut session,
        "CREATE EXTERNAL TABLE listed (name varchar(20) NOT NULL, id bigint) WITH (LOCATION = 'a1.csv', FORMAT = 'CSV', \
         HEADER_ROW = TRUE)",
    );
    assert_eq!(ok(&mut session, "SELECT name FROM listed WHERE id = 2"), [["two"]]);
    ok(&mut session, "CREATE EXTERNAL FILE FORMAT piped WITH (FORMAT_TYPE = DELIMITEDTEXT)");
    let over = |name: &str, columns: &str, more: &str| {
        format!("CREATE EXTERNAL TABLE {name} ({columns}) WITH (LOCATION = 'b.csv', FILE_FORMAT = piped{more})")
    };
    ok(&mut session, &over("strict", "id int, name varchar(10)", ""));
    assert_eq!(error(&mut session, "SELECT * FROM strict"), number::BULK_CONVERSION);
    ok(&mut session, &over("lenient", "id int, name varchar(10)", ", REJECT_TYPE = VALUE, REJECT_VALUE = 1"));
    assert_eq!(ok(&mut session, "SELECT id FROM lenient ORDER BY id"), [["1"], ["2"]]);
    ok(&mut session, &over("filled", "id varchar(10), name varchar(10) NOT NULL", ", REJECT_VALUE = 1"));
    assert_eq!(ok(&mut session, "SELECT id FROM filled WHERE name > '' ORDER BY id"), [["1"], ["three"]]);
    assert_eq!(ok(&mut session, "SELECT COUNT(*) FROM filled WHERE name IS NULL"), [["0"]], "it cannot be NULL");
    let refused = [
        ("WITH (LOCATION = 'none.csv')", 4860),
        ("WITH (LOCATION = '/etc/passwd')", 4861),
        ("(a int, A int) WITH (LOCATION = 'b.csv')", 2705),
        ("(a) WITH (LOCATION = 'b.csv')", 102),
        ("(a nothing) WITH (LOCATION = 'b.csv')", 243),
        ("(a int) WITH (FORMAT = 'CSV')", 46505),
        ("(a int) WITH (LOCATION = 'b.csv', FILE_FORMAT = none)", 46501),
        ("(a int) WITH (LOCATION = 'b.csv', FILE_FORMAT = piped, FORMAT = 'CSV')", 15879),
        ("(a int) WITH (LOCATION = 'b.csv', TABLOCK)", 46520),
        ("(a int) WITH (LOCATION = 'b.csv', DATA_SOURCE = d)", 40517),
    ];
    for (create, wanted) in refused {
        assert_eq!(error(&mut session, &format!("CREATE EXTERNAL TABLE e {create}")), wanted, "{create}");
    }
    // The files are looked at again by each statement.
    write("a2.csv", "id,name\n30,thirty\n40,forty\n");
    assert_eq!(ok(&mut session, "SELECT SUM(id) FROM found"), [["73"]]);
    fs::remove_file(folder.path().join("a1.csv")).expect("removed");
    fs::remove_file(folder.path().join("a2.csv")).expect("removed");
    assert_eq!(error(&mut session, "SELECT * FROM found"), 4860);
}

#[test]
fn changes_of_an_external_table_are_refused() {
    let (_folder, _instance, mut session) = session();
    ok(&mut session, "CREATE EXTERNAL TABLE e WITH (LOCATION = 'e.csv') AS SELECT 1 AS a");
    ok(&mut session, "CREATE EXTERNAL TABLE f WITH (LOCATION = 'f.csv') AS SELECT 1 AS a");
    let refused = [
        "INSERT e VALUES (1)",
        "INSERT dbo.e SELECT 1",
        "UPDATE e SET a = 2",
        "UPDATE x SET a = 2 FROM e AS x JOIN t ON t.id = x.a",
        "DELETE FROM e",
        "MERGE e USING t ON t.id = e.a WHEN MATCHED THEN DELETE;",
        "BULK INSERT e FROM 'f.csv'",
        "TRUNCATE TABLE e",
        "ALTER TABLE e ADD b int",
        "CREATE INDEX i ON e (a)",
        "CREATE STATISTICS s ON e (a)",
        "UPDATE STATISTICS e",
    ];
    for statement in refused {
        assert_eq!(error(&mut session, statement), 46519, "{statement}");
    }
    assert_eq!(error(&mut session, "SELECT * FROM e WITH (NOLOCK)"), 46915);
    assert_eq!(error(&mut session, "DROP TABLE e"), 3705);
    assert_eq!(error(&mut session, "DROP VIEW e"), 3701);
    assert_eq!(error(&mut session, "DROP EXTERNAL TABLE t"), 3701);
    assert_eq!(error(&mut session, "CREATE TABLE e (a int)"), 2714);
    assert_eq!(ok(&mut session, "SELECT a FROM e"), [["1"]]);
    // It is a table to those that read it.
    ok(&mut session, "CREATE VIEW v AS SELECT e.a, t.id FROM e JOIN t ON t.id = e.a");
    assert_eq!(ok(&mut session, "SELECT * FROM v"), [["1", "1"]]);
    ok(&mut session, "INSERT t (id) SELECT a + 10 FROM e; SELECT a INTO copied FROM e");
    ok(&mut session, "CREATE EXTERNAL TABLE g WITH (LOCATION = 'g.parquet') AS SELECT e.a FROM e, f");
    assert_eq!(ok(&mut session, "SELECT * FROM g"), [["1"]]);
}

#[test]
fn views_show_tables_and_formats() {
    let (folder, _instance, mut session) = session();
    ok(
        &mut session,
        "CREATE EXTERNAL FILE FORMAT f WITH (FORMAT_TYPE = DELIMITEDTEXT, FORMAT_OPTIONS (FIRST_ROW = 2, \
         STRING_DELIMITER = '''', ENCODING = 'UTF8'))",
    );
    assert_eq!(error(&mut session, "CREATE EXTERNAL FILE FORMAT F WITH (FORMAT_TYPE = PARQUET)"), 46502);
    assert_eq!(error(&mut session, "CREATE EXTERNAL FILE FORMAT g WITH (FORMAT_TYPE = ORC)"), 40517);
    assert_eq!(error(&mut session, "CREATE EXTERNAL FILE FORMAT g WITH (DATA_COMPRESSION = 'x')"), 46505);
    ok(&mut session, "CREATE TABLE f (a int); DROP TABLE f");
    ok(&mut session, "CREATE EXTERNAL TABLE e WITH (LOCATION = 'e', FILE_FORMAT = f) AS SELECT 1 AS a, 'x' AS b");
    let shown = ok(
        &mut session,
        "SELECT t.name, t.type, t.location, f.name, f.format_type, f.field_terminator, f.string_delimiter, f.first_row, \
         t.reject_value, t.max_column_id_used FROM sys.external_tables AS t \
         JOIN sys.external_file_formats AS f ON f.file_format_id = t.file_format_id",
    );
    let location = folder.path().canonicalize().expect("a path").join("e");
    let location = location.to_str().expect("UTF-8");
    assert_eq!(shown, [["e", "U ", location, "f", "DELIMITEDTEXT", "|", "'", "2", "0", "2"]]);
    for (query, wanted) in [
        ("SELECT type_desc FROM sys.objects WHERE name = 'e'", "USER_TABLE"),
        ("SELECT is_external FROM sys.tables WHERE name = 'e'", "1"),
        ("SELECT is_external FROM sys.tables WHERE name = 't'", "0"),
        ("SELECT OBJECTPROPERTY(OBJECT_ID('e', 'U'), 'IsUserTable')", "1"),
        ("SELECT table_type FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_NAME = 'e'", "BASE TABLE"),
        ("SELECT COUNT(*) FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = 'e'", "2"),
        ("SELECT COUNT(*) FROM sys.sql_modules", "0"),
        ("SELECT COUNT(*) FROM sys.objects WHERE name = 'f'", "0"),
    ] {
        assert_eq!(ok(&mut session, query), [[wanted]], "{query}");
    }
    // A table keeps what its format said.
    ok(&mut session, "DROP EXTERNAL FILE FORMAT f");
    assert_eq!(ok(&mut session, "SELECT * FROM e"), [["1", "x"]]);
    assert_eq!(ok(&mut session, "SELECT file_format_id FROM sys.external_tables"), [["NULL"]]);
}
