//! `tests/slt/*.slt`, each file in an instance of its own. All records of all files run. The test fails if any record
//! fails.
//!
//! `HOBT_SLT=name` runs the files whose names contain `name`.

use std::fmt;
use std::path::{Path, PathBuf};

use hobt::{Event, Flow, Instance, ResultColumn, Session, SqlError};
use sqllogictest::{DB, DBOutput, DefaultColumnType, Record, Runner};

/// An error as a client prints it. The runner matches its pattern against this.
#[derive(Debug)]
struct Printed(String);

impl fmt::Display for Printed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Printed {}

struct Connection(Session);

/// The results of a batch that a record uses.
#[derive(Default)]
struct Collected {
    columns: Vec<ResultColumn>,
    rows: Vec<Vec<String>>,
    count: u64,
    has_rows: bool,
    error: Option<SqlError>,
}

impl Collected {
    fn take(&mut self, event: Event) -> Result<(), SqlError> {
        match event {
            Event::ResultSet(columns) => {
                self.columns = columns;
                self.rows.clear();
                self.has_rows = true;
            }
            Event::Rows(batch) => {
                for row in 0..batch.num_rows() {
                    let cells = (0..batch.num_columns()).map(|column| {
                        let text = hobt::cell_text(&self.columns, &batch, row, column)?;
                        Ok(match text {
                            None => "NULL".to_owned(),
                            Some(text) if text.is_empty() => "(empty)".to_owned(),
                            Some(text) => text,
                        })
                    });
                    self.rows.push(cells.collect::<Result<_, SqlError>>()?);
                }
            }
            Event::Done { row_count: Some(count), .. } => self.count = count,
            Event::Error(error) => {
                self.error.get_or_insert(error);
            }
            _ => {}
        }
        Ok(())
    }
}

impl DB for Connection {
    type Error = Printed;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Printed> {
        let mut collected = Collected::default();
        let session = &mut self.0;
        // The runner calls from inside an executor, where a batch must not block.
        std::thread::scope(|scope| {
            let run = scope.spawn(|| {
                session.execute(sql, &mut |event: Event| {
                    if let Err(error) = collected.take(event) {
                        collected.error.get_or_insert(error);
                    }
                    Flow::Continue
                });
            });
            run.join().expect("a batch does not panic");
        });
        if let Some(error) = collected.error {
            return Err(Printed(format!("{}\n{error}", error.header())));
        }
        Ok(match collected.has_rows {
            true => {
                DBOutput::Rows { types: vec![DefaultColumnType::Any; collected.columns.len()], rows: collected.rows }
            }
            false => DBOutput::StatementComplete(collected.count),
        })
    }

    fn engine_name(&self) -> &str {
        "hobt"
    }
}

/// Runs a file. Returns the failures and the number of records.
fn run_file(path: &Path) -> (Vec<String>, usize) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let instance = Instance::open(folder.path()).expect("an instance");
    let mut session = instance.session().expect("a session");
    session.run("CREATE DATABASE slt").expect("a database");
    session.run("USE slt").expect("its use");
    // An alternative path for the same scripts: `HOBT_TRACE_FLAGS="30002"`.
    if let Ok(flags) = std::env::var("HOBT_TRACE_FLAGS") {
        session.run(&format!("DBCC TRACEON ({flags})")).expect("trace flags");
    }
    let mut connection = Some(Connection(session));
    let mut runner = Runner::new(move || {
        let connection = connection.take();
        async move { connection.ok_or_else(|| Printed("a second connection".to_owned())) }
    });
    let records = sqllogictest::parse_file::<DefaultColumnType>(path).expect("a file that parses");
    let mut failures = Vec::new();
    let mut count = 0;
    for record in records {
        if matches!(record, Record::Statement { .. } | Record::Query { .. }) {
            count += 1;
        }
        if let Err(error) = runner.run(record) {
            failures.push(error.display(false).to_string());
        }
    }
    drop(runner);
    instance.close().expect("a clean end");
    (failures, count)
}

#[test]
fn every_script_gives_what_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/slt");
    let wanted = std::env::var("HOBT_SLT").unwrap_or_default();
    let entries = std::fs::read_dir(&folder).expect("the folder of scripts");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "slt"));
    files.retain(|path| path.to_string_lossy().contains(&wanted));
    files.sort();
    assert!(!files.is_empty(), "no scripts in {}", folder.display());
    let mut failed = 0;
    for path in files {
        let (failures, count) = run_file(&path);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        println!("{name}: {} of {count} records", count - failures.len().min(count));
        for failure in &failures {
            println!("{failure}\n");
        }
        failed += failures.len();
    }
    assert_eq!(failed, 0, "records failed");
}
