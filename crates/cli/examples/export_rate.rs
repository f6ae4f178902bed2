//! Times the export of a query, again and again, in one process, so that the buffer pool is warm from the second time
//! on.
//!
//! ```text
//! cargo run --release -p hobt-cli --example export_rate -- DATA DATABASE QUERY FILE [RUNS]
//! ```
//!
//! The ending of `FILE` says the format, as for `hobt export`; the file is replaced each time. Without `RUNS` each line
//! of the standard input, whatever is in it, makes one run, until the input ends: so another program can take turns
//! with it (`bench/peers`). Prints the seconds, rows, bytes and MB/s of each run.

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

use hobt::{Event, Flow, Instance, Session, SessionOptions};
use hobt_files::write::{Column, CsvOptions, FileWriter, Format, JsonShape, Timestamps, WriteOptions, Written};
use hobt_files::{FileKind, FileName};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [data, database, query, file, rest @ ..] = arguments.as_slice() else {
        return Err("arguments: DATA DATABASE QUERY FILE [RUNS]".into());
    };
    let file = Path::new(file);
    let instance = Instance::open(data)?;
    let mut session =
        instance.session_with(&SessionOptions { database: database.clone(), ..SessionOptions::default() })?;
    let runs: Option<usize> = rest.first().map(|runs| runs.parse()).transpose()?;
    match runs {
        Some(runs) => (0..runs).try_for_each(|_| timed(&mut session, query, file))?,
        None => io::stdin()
            .lines()
            .try_for_each(|line| line.map(drop).map_err(Into::into).and_then(|()| timed(&mut session, query, file)))?,
    }
    drop(session);
    Ok(instance.close()?)
}

/// Exports once and prints what it took.
fn timed(session: &mut Session, query: &str, file: &Path) -> Result<()> {
    let begun = Instant::now();
    let written = export(session, query, file)?;
    let seconds = begun.elapsed().as_secs_f64();
    let rate = written.bytes as f64 / 1e6 / seconds;
    println!("{seconds:.4} s, {} rows, {} bytes, {rate:.0} MB/s", written.rows, written.bytes);
    Ok(io::stdout().flush()?)
}

fn export(session: &mut Session, query: &str, file: &Path) -> Result<Written> {
    let name = FileName::of(file);
    let format = match name.known_kind(file)? {
        FileKind::Csv => Format::Csv(CsvOptions::default()),
        FileKind::Tsv => Format::Csv(CsvOptions { delimiter: "\t".to_owned(), ..CsvOptions::default() }),
        FileKind::Psv => Format::Csv(CsvOptions { delimiter: "|".to_owned(), ..CsvOptions::default() }),
        FileKind::Json => Format::Json(JsonShape::Array),
        FileKind::JsonLines => Format::Json(JsonShape::Lines),
        FileKind::Parquet => Format::Parquet(Timestamps::Exact),
    };
    let options = WriteOptions { compression: name.compression, replaces: true, ..WriteOptions::new(format) };
    let (mut writer, mut failed) = (None, None);
    session.execute(query, &mut |event: Event| match event {
        Event::ResultSet(columns) => {
            let column = |column: hobt::ResultColumn| Column {
                name: column.name,
                sql_type: column.sql_type,
                nullable: column.nullable,
            };
            let columns = columns.into_iter().map(column).collect();
            keep(FileWriter::create(file, columns, &options).map(|created| writer = Some(created)), &mut failed)
        }
        Event::Rows(batch) => keep(writer.as_mut().map_or(Ok(()), |writer| writer.write(batch)), &mut failed),
        Event::Error(error) => keep(Err(error), &mut failed),
        _ => Flow::Continue,
    });
    match (failed, writer) {
        (Some(error), _) => Err(error),
        (None, Some(writer)) => Ok(writer.finish()?.publish()?),
        (None, None) => Err("the query has no result set".into()),
    }
}

/// Keeps the first error, which stops the batch.
fn keep<E: Error + 'static>(result: std::result::Result<(), E>, failed: &mut Option<Box<dyn Error>>) -> Flow {
    match result {
        Ok(()) => Flow::Continue,
        Err(error) => {
            failed.get_or_insert(error.into());
            Flow::Stop
        }
    }
}
