//! Files of rows in statements: `OPENROWSET (BULK …)`, `BULK INSERT`, `COPY INTO`.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;

use hobt::{Event, Flow, Instance, InstanceSettings, Session};

/// An instance whose files of rows are in the folder, with a session.
struct World {
    folder: tempfile::TempDir,
    session: Session,
    _instance: Instance,
}

/// What a batch sends: rows with `|` between their values, and the numbers of errors and of messages that have one.
#[derive(Default, PartialEq, Debug)]
struct Answer {
    rows: Vec<String>,
    errors: Vec<String>,
    messages: Vec<String>,
    count: Option<u64>,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let rows = folder.path().join("rows");
        fs::create_dir(&rows).expect("a folder");
        let settings =
            InstanceSettings { memory_bytes: Some(128 << 20), rows_folder: Some(rows), ..InstanceSettings::default() };
        let instance = Instance::open_with(folder.path().join("data"), settings).expect("an instance");
        let session = instance.session().expect("a session");
        World { folder, session, _instance: instance }
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).expect("a file");
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("rows").join(name)
    }

    fn run(&mut self, batch: &str) -> Answer {
        let mut answer = Answer::default();
        let mut columns = Vec::new();
        self.session.execute(batch, &mut |event: Event| {
            match event {
                Event::ResultSet(found) => columns = found,
                Event::Rows(rows) => {
                    for row in 0..rows.num_rows() {
                        let cell = |column| hobt::cell_text(&columns, &rows, row, column).expect("a text");
                        let cells: Vec<String> =
                            (0..rows.num_columns()).map(|column| cell(column).unwrap_or("NULL".to_owned())).collect();
                        answer.rows.push(cells.join("|"));
                    }
                }
                Event::Error(error) => answer.errors.push(format!("{} {}", error.number, error.message)),
                Event::Message(message) if message.number != 0 => {
                    answer.messages.push(format!("{} {}", message.number, message.text));
                }
                Event::Done { row_count: Some(count), .. } => answer.count = Some(count),
                _ => {}
            }
            Flow::Continue
        });
        answer
    }

    /// The rows of a batch without errors.
    fn rows(&mut self, batch: &str) -> Vec<String> {
        let answer = self.run(batch);
        assert_eq!(answer.errors, [""; 0], "{batch}");
        answer.rows
    }

    /// The one error of a batch.
    fn error(&mut self, batch: &str) -> String {
        let answer = self.run(batch);
        assert_eq!(answer.errors.len(), 1, "{batch}\n{answer:?}");
        answer.errors[0].clone()
    }
}

#[test]
fn a_csv_file_is_read_where_it_lies_with_names_and_types_of_its_own() {
    let mut world = World::new();
    world.write("a.csv", "id,name,day\r\n1,\"Ada, L\",2020-01-31\r\n2,\"say \"\"x\"\"\",\r\n3,\"\",2020-02-02");
    let rows = world.rows("SELECT * FROM OPENROWSET(BULK 'a.csv', FORMAT = 'CSV') AS r");
    assert_eq!(rows, ["1|Ada, L|2020-01-31", "2|say \"x\"|NULL", "3||2020-02-02"]);
    let rows = world.rows("SELECT COUNT(*), MAX(day) FROM OPENROWSET(BULK 'a.csv', FORMAT = 'CSV') AS r WHERE id < 3");
    assert_eq!(rows, ["2|2020-01-31"]);
    let rows = world.rows(
        "SELECT r.n, r.b FROM OPENROWSET(BULK N'a.csv', FORMAT = 'CSV', FIRSTROW = 2, LASTROW = 3) \
         WITH (n varchar(20) 2, b bigint 1) AS r",
    );
    assert_eq!(rows, ["Ada, L|1", "say \"x\"|2"]);
    let rows = world.rows("SELECT x, y, z FROM OPENROWSET(BULK 'a.csv', FORMAT = 'CSV', LASTROW = 2) AS r (x, y, z)");
    assert_eq!(rows, ["1|Ada, L|2020-01-31"]);
    let error = world.error("SELECT * FROM OPENROWSET(BULK 'none.csv', FORMAT = 'CSV') AS r");
    assert!(error.starts_with("4860 "), "{error}");
}

#[test]
fn rows_that_cannot_be_read_are_left_out_and_named_until_there_are_too_many() {
    let mut world = World::new();
    world.rows("CREATE TABLE t (id int NOT NULL, name varchar(5), price decimal(5, 2), day date)");
    world.write(
        "bad.csv",
        "1,a,1.5,2020-01-01\nx,b,1,2020-01-01\n3,c\n4,toolong,1,2020-01-01\n5,e,1,2020-13-01\n,f,1,2020-01-01\n\
         7,g,12345,2020-01-01\n8,\"h\"h,1,2020-01-01\n9,i,1,2020-01-01,more\n10,j,2,2020-01-01\n",
    );
    let answer = world.run("BULK INSERT t FROM 'bad.csv' WITH (FORMAT = 'CSV', ERRORFILE = 'bad.rows')");
    assert_eq!((answer.errors.len(), answer.count), (0, Some(2)), "{answer:?}");
    let numbers: Vec<&str> = answer.messages.iter().map(|text| &text[..4]).collect();
    assert_eq!(numbers, ["4864", "4879", "4863", "4864", "4869", "4867", "4879", "4879", "4865"]);
    let name = |at: usize, part: &str| assert!(answer.messages[at].contains(part), "{}", answer.messages[at]);
    name(0, "row 2, column 1 (id): 'x'");
    name(1, "row 3, column 3");
    name(2, "row 4, column 2 (name): 'toolong'");
    name(8, "8 row(s)");
    assert_eq!(world.rows("SELECT id FROM t ORDER BY id"), ["1", "10"]);
    let rejected = fs::read_to_string(world.path("bad.rows")).expect("rejected rows");
    assert!(rejected.starts_with("x,b,1,2020-01-01\n3,c\n"), "{rejected}");
    assert_eq!(rejected.lines().count(), 8);
    let told = fs::read_to_string(world.path("bad.rows.Error.Txt")).expect("messages");
    assert_eq!(told.lines().count(), 8, "{told}");
    let error = world.error("BULK INSERT t FROM 'bad.csv' WITH (FORMAT = 'CSV', ERRORFILE = 'bad.rows')");
    assert!(error.starts_with("4861 "), "the file exists: {error}");
    let error = world.error("BULK INSERT t FROM 'bad.csv' WITH (FORMAT = 'CSV', MAXERRORS = 3)");
    assert!(error.starts_with("4865 ") && error.contains("(3)"), "{error}");
    let error = world.error("BULK INSERT t FROM 'bad.csv' WITH (FORMAT = 'CSV', MAXERRORS = 0)");
    assert!(error.starts_with("4864 ") && error.contains("row 2"), "{error}");
    assert_eq!(world.rows("SELECT COUNT(*) FROM t"), ["2"], "a load that fails leaves nothing");
}

#[test]
fn terminators_quotes_and_encodings_are_what_options_say() {
    let mut world = World::new();
    world.rows("CREATE TABLE t (a int, b nvarchar(20))");
    world.write("tab.txt", "1\tone\n2\t\"two\"\n");
    world.rows("BULK INSERT t FROM 'tab.txt'");
    assert_eq!(world.rows("SELECT * FROM t"), ["1|one", "2|\"two\""], "text without FORMAT has no quotes");
    world.rows("TRUNCATE TABLE t");
    world.write("pipe.tbl", "1|one|\n2|tw\no|\n");
    world.rows("BULK INSERT t FROM 'pipe.tbl' WITH (FIELDTERMINATOR = '|', ROWTERMINATOR = '|\\n')");
    assert_eq!(world.rows("SELECT * FROM t"), ["1|one", "2|tw\no"]);
    world.rows("TRUNCATE TABLE t");
    world.write("latin.csv", b"1,caf\xE9\n");
    let error = world.error("BULK INSERT t FROM 'latin.csv' WITH (FORMAT = 'CSV')");
    assert!(error.starts_with("4864 ") && error.contains("CODEPAGE"), "{error}");
    world.rows("BULK INSERT t FROM 'latin.csv' WITH (FORMAT = 'CSV', CODEPAGE = '1252')");
    let wide: Vec<u8> = "\u{FEFF}2,caf\u{E9} \u{1F600}\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    world.write("wide.csv", wide);
    world.rows("BULK INSERT t FROM 'wide.csv' WITH (FORMAT = 'CSV', DATAFILETYPE = 'widechar')");
    world.write("bytes.txt", "3\u{1}x\u{2}4\u{1}y\u{2}");
    world.rows("BULK INSERT t FROM 'bytes.txt' WITH (FIELDTERMINATOR = '0x01', ROWTERMINATOR = '0x02')");
    world.write("quote.csv", "5,'a,''b'\n");
    world.rows("BULK INSERT t FROM 'quote.csv' WITH (FORMAT = 'CSV', FIELDQUOTE = '''')");
    assert_eq!(world.rows("SELECT * FROM t ORDER BY a"), ["1|café", "2|café 😀", "3|x", "4|y", "5|a,'b"]);
    let error = world.error("BULK INSERT t FROM 'quote.csv' WITH (FORMAT = 'CSV', FIELDQUOTE = '12')");
    assert!(error.starts_with("102 "), "{error}");
    let error = world.error("BULK INSERT t FROM 'quote.csv' WITH (FORMAT = 'CSV', FIRE_TRIGGERS)");
    assert!(error.starts_with("40517 "), "{error}");
}

#[test]
fn defaults_identities_and_computed_columns_are_filled_as_in_sql_server() {
    let mut world = World::new();
    world.rows(
        "CREATE TABLE t (id int IDENTITY(10, 5), a int DEFAULT 7, b AS a * 2, c varchar(10) NOT NULL DEFAULT 'x')",
    );
    world.write("a.csv", "1,,\n2,3,c\n");
    world.rows("BULK INSERT t FROM 'a.csv' WITH (FORMAT = 'CSV')");
    assert_eq!(world.rows("SELECT * FROM t ORDER BY id"), ["10|7|14|x", "15|3|6|c"]);
    world.write("b.csv", "100,,c\n");
    world.rows("BULK INSERT t FROM 'b.csv' WITH (FORMAT = 'CSV', KEEPIDENTITY, KEEPNULLS, TABLOCK)");
    assert_eq!(world.rows("SELECT * FROM t WHERE id = 100"), ["100|NULL|NULL|c"]);
    assert_eq!(world.rows("INSERT t (c) VALUES ('z'); SELECT MAX(id) FROM t"), ["105"]);
    // The default has a type of higher rank than the column, whose texts are no numbers.
    world.rows("CREATE TABLE d (a varchar(10) DEFAULT 5, b date DEFAULT '2020-01-31', c decimal(5, 1) DEFAULT 1.25)");
    world.write("d.csv", "x,,\n,2021-01-31,2.5\n");
    world.rows("BULK INSERT d FROM 'd.csv' WITH (FORMAT = 'CSV')");
    assert_eq!(world.rows("SELECT * FROM d ORDER BY b"), ["x|2020-01-31|1.3", "5|2021-01-31|2.5"]);
    // One that is too long for its column is an error, as in an INSERT.
    world.rows("CREATE TABLE long (a varchar(3) DEFAULT 'abcdef', b int)");
    world.write("long.csv", ",1\n");
    assert!(world.error("BULK INSERT long FROM 'long.csv' WITH (FORMAT = 'CSV')").starts_with("2628 "));
    world.rows("CREATE TABLE k (a int PRIMARY KEY, b int CHECK (b > 0))");
    world.write("k.csv", "3,1\n1,2\n2,3\n");
    world.rows("BULK INSERT k FROM 'k.csv' WITH (FORMAT = 'CSV')");
    assert_eq!(world.rows("SELECT a, b FROM k"), ["1|2", "2|3", "3|1"]);
    world.write("l.csv", "4,0\n");
    assert!(world.error("BULK INSERT k FROM 'l.csv' WITH (FORMAT = 'CSV')").starts_with("547 "));
}

#[test]
fn batches_are_transactions_of_their_own_unless_one_is_open() {
    let mut world = World::new();
    world.rows("CREATE TABLE t (a int)");
    let mut text: String = (1..=2500).map(|number| format!("{number}\n")).collect();
    text.push_str("x\n");
    world.write("a.csv", &text);
    let load = "BULK INSERT t FROM 'a.csv' WITH (FORMAT = 'CSV', BATCHSIZE = 1000, MAXERRORS = 0)";
    let error = world.error(load);
    assert!(error.starts_with("4864 ") && error.contains("row 2501"), "{error}");
    assert_eq!(world.rows("SELECT COUNT(*) FROM t"), ["2000"], "batches that are committed stay");
    world.rows("TRUNCATE TABLE t");
    let answer = world.run(&load.replace("MAXERRORS = 0", "MAXERRORS = 1"));
    assert_eq!((answer.count, answer.messages.len()), (Some(2500), 2), "{answer:?}");
    assert_eq!(world.rows("SELECT COUNT(*), SUM(a) FROM t"), ["2500|3126250"]);
    world.rows("TRUNCATE TABLE t; BEGIN TRANSACTION");
    world.error(load);
    world.rows("IF @@TRANCOUNT > 0 ROLLBACK");
    assert_eq!(world.rows("SELECT COUNT(*) FROM t"), ["0"]);
}

#[test]
fn many_stretches_by_many_workers_give_every_row_once_with_its_number() {
    let mut world = World::new();
    world.rows("CREATE TABLE t (a bigint, b varchar(60))");
    let mut file = fs::File::create(world.path("big.csv")).expect("a file");
    let mut out = std::io::BufWriter::new(&mut file);
    for number in 0..200_000 {
        let text =
            if number % 3 == 0 { "\"a quoted text,\nover two \"\"lines\"\"\"" } else { "a plain text of some length" };
        writeln!(out, "{number},{text}").expect("written");
    }
    writeln!(out, "x,y").expect("written");
    drop(out);
    let answer = world.run("BULK INSERT t FROM 'big.csv' WITH (FORMAT = 'CSV', TABLOCK)");
    assert_eq!(answer.count, Some(200_000), "{answer:?}");
    assert!(answer.messages[0].contains("row 200001,") && answer.messages[0].contains("Line 266668 "), "{answer:?}");
    let sums = "SELECT COUNT(*), SUM(a), COUNT(DISTINCT a), SUM(CASE WHEN b LIKE '%,%' THEN 1 END) FROM t";
    assert_eq!(world.rows(sums), ["200000|19999900000|200000|66667"]);
    for (name, compressed) in [
        ("big.csv.gz", gzip(&fs::read(world.path("big.csv")).expect("read"))),
        ("big.csv.zst", zstd::encode_all(&fs::read(world.path("big.csv")).expect("read")[..], 1).expect("zstd")),
    ] {
        world.write(name, compressed);
        world.rows(&format!("TRUNCATE TABLE t; BULK INSERT t FROM '{name}' WITH (FORMAT = 'CSV', TABLOCK)"));
        assert_eq!(world.rows(sums), ["200000|19999900000|200000|66667"], "{name}");
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("compressed");
    encoder.finish().expect("compressed")
}

#[test]
fn several_files_are_named_by_lists_folders_and_patterns() {
    let mut world = World::new();
    fs::create_dir_all(world.path("f/g")).expect("folders");
    for (name, text) in [("f/a.csv", "1\n"), ("f/b.csv", "2\n"), ("f/g/c.csv", "3\n"), ("f/.hidden.csv", "9\n")] {
        world.write(name, text);
    }
    let mut sum = |files: &str| {
        world.rows(&format!("SELECT SUM(a) FROM OPENROWSET(BULK {files}, FORMAT = 'CSV') WITH (a int) r"))
    };
    assert_eq!(sum("('f/a.csv', 'f/g/c.csv')"), ["4"]);
    assert_eq!(sum("'f/*.csv'"), ["3"]);
    assert_eq!(sum("'f/**/*.csv'"), ["6"]);
    assert_eq!(sum("'f'"), ["3"]);
    assert_eq!(sum("'f/[b-c].csv'"), ["2"]);
    world.rows("CREATE TABLE t (a int)");
    world.rows("COPY INTO t FROM 'f/a.csv', 'f/b.csv' WITH (FILE_TYPE = 'CSV')");
    assert_eq!(world.rows("SELECT SUM(a) FROM t"), ["3"]);
    assert!(world.error("SELECT * FROM OPENROWSET(BULK 'f/*.x', FORMAT = 'CSV') r").starts_with("4860 "));
}

/// The numbers of a list pick fields, and what they do not pick is no field too many. Without numbers it is.
#[test]
fn a_list_picks_fields_by_their_numbers() {
    let mut world = World::new();
    world.write("abc.csv", "1,2,3\n4,5,6\n");
    world.rows("CREATE TABLE t (a int, b int)");
    world.rows("COPY INTO t (a 1, b 2) FROM 'abc.csv' WITH (FILE_TYPE = 'CSV')");
    world.rows("COPY INTO t (b 1) FROM 'abc.csv' WITH (FILE_TYPE = 'CSV')");
    assert_eq!(world.rows("SELECT a, b FROM t ORDER BY a, b"), ["NULL|1", "NULL|4", "1|2", "4|5"]);
    assert!(world.error("COPY INTO t (a, b) FROM 'abc.csv' WITH (FILE_TYPE = 'CSV', MAXERRORS = 0)").contains("row 1"));
    assert!(world.error("COPY INTO t FROM 'abc.csv' WITH (FILE_TYPE = 'CSV', MAXERRORS = 0)").contains("row 1"));
}

#[test]
fn json_lines_are_read_by_names_and_paths() {
    let mut world = World::new();
    world.write(
        "a.jsonl",
        "{\"id\":1,\"name\":\"A\\u00e9\\n\",\"at\":{\"x\":{\"y\":5}},\"tags\":[1,\"b\"],\"ok\":true}\n\n\
         {\"id\":2,\"name\":null,\"extra\":1.5}\nnot json\n{\"id\":\"x\"}\n",
    );
    let answer = world.run("SELECT id, name, tags, ok, extra FROM OPENROWSET(BULK 'a.jsonl', FORMAT = 'JSON') AS r");
    assert_eq!(answer.rows, ["1|Aé\n|[1,\"b\"]|1|NULL", "2|NULL|NULL|NULL|1.5", "x|NULL|NULL|NULL|NULL"]);
    assert!(answer.messages[0].starts_with("4879 ") && answer.messages[0].contains("row 4"), "{answer:?}");
    let answer = world.run(
        "SELECT id, deep FROM OPENROWSET(BULK 'a.jsonl') WITH (id int, deep int '$.at.x.y', LASTROW varchar(1)) AS r",
    );
    assert_eq!(answer.rows, ["1|5", "2|NULL"], "{answer:?}");
    assert_eq!(answer.messages.len(), 3, "{answer:?}");
    world.rows("CREATE TABLE t (name nvarchar(10), id int DEFAULT 9)");
    world.write("b.json", "[\n{\"id\":1,\"name\":\"\"},\n{\"name\":\"z\"}\n]\n");
    world.rows("BULK INSERT t FROM 'b.json' WITH (FORMAT = 'JSON')");
    assert_eq!(world.rows("SELECT id, name FROM t ORDER BY id"), ["1|", "9|z"]);
}

#[test]
fn no_path_leaves_the_allowed_folders() {
    let mut world = World::new();
    world.write("a.csv", "1\n");
    fs::write(world.folder.path().join("secret.csv"), "1\n").expect("a file");
    symlink(world.folder.path().join("secret.csv"), world.path("link.csv")).expect("a link");
    symlink(world.folder.path(), world.path("up")).expect("a link");
    fs::create_dir(world.path("sub")).expect("a folder");
    symlink(world.folder.path().join("secret.csv"), world.path("sub/x.csv")).expect("a link");
    for path in [
        "../secret.csv",
        "link.csv",
        "up/secret.csv",
        "sub/../../secret.csv",
        "sub/*.csv",
        "sub",
        "*/../../secret.csv",
        "u*/secret.csv",
        "/etc/passwd",
        "/etc/pass*",
        "/proc/self/environ",
        "..",
        "../*.csv",
    ] {
        let error =
            world.error(&format!("SELECT * FROM OPENROWSET(BULK '{path}', FORMAT = 'CSV') WITH (a varchar(max)) r"));
        assert!(error.starts_with("4861 ") || error.starts_with("4860 "), "{path}: {error}");
    }
    let error = world.error("BULK INSERT master.dbo.t FROM 'a.csv' WITH (ERRORFILE = '../out.err')");
    assert!(error.starts_with("208 ") || error.starts_with("4861 "), "{error}");
    assert!(!Path::new(&world.folder.path().join("out.err")).exists());
}
