//! Helpers for tests: run batches in a session and read the answers.

use std::any::Any;
use std::time::{Duration, Instant};

use hobt::{Event, Flow, Instance, Session, SqlError};
use hobt_base::SplitMix64;

/// A new instance with a database `d`, in which `statements` have run.
pub(crate) fn instance_with(statements: &str) -> (tempfile::TempDir, Instance) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let instance = Instance::open(folder.path()).expect("an instance");
    let mut session = instance.session().expect("a session");
    session.run("CREATE DATABASE d").expect("a database");
    session.run(&format!("USE d; {statements}")).expect("what the tests need");
    (folder, instance)
}

/// A session in a database.
pub(crate) fn session_in(instance: &Instance, database: &str) -> Session {
    let mut session = instance.session().expect("a session");
    session.run(&format!("USE {database}")).expect("the database");
    session
}

/// A session in the database of [`instance_with`].
pub(crate) fn used(instance: &Instance) -> Session {
    session_in(instance, "d")
}

/// All rows that a batch sends, as texts, and the first error.
pub(crate) fn answer(session: &mut Session, batch: &str) -> (Vec<Vec<Option<String>>>, Option<SqlError>) {
    let (mut rows, mut columns, mut failed) = (Vec::new(), Vec::new(), None);
    session.execute(batch, &mut |event: Event| {
        match event {
            Event::ResultSet(begun) => columns = begun,
            Event::Rows(batch) => {
                for row in 0..batch.num_rows() {
                    let cell = |column| hobt::cell_text(&columns, &batch, row, column).expect("a text");
                    rows.push((0..columns.len()).map(cell).collect());
                }
            }
            Event::Error(error) => failed = failed.take().or(Some(error)),
            _ => {}
        }
        Flow::Continue
    });
    (rows, failed)
}

/// All rows that a batch sends, as texts with `NULL` for none, or the first error.
pub(crate) fn rows(session: &mut Session, batch: &str) -> Result<Vec<Vec<String>>, SqlError> {
    let (rows, failed) = answer(session, batch);
    let text = |cell: Option<String>| cell.unwrap_or("NULL".to_owned());
    match failed {
        Some(error) => Err(error),
        None => Ok(rows.into_iter().map(|row| row.into_iter().map(text).collect()).collect()),
    }
}

/// Like [`rows`], for a batch that must not fail.
pub(crate) fn ok(session: &mut Session, batch: &str) -> Vec<Vec<String>> {
    rows(session, batch).unwrap_or_else(|error| panic!("{}: {}\n{batch}", error.number, error.message))
}

/// The number of the first error of a batch that must fail.
pub(crate) fn error(session: &mut Session, batch: &str) -> i32 {
    answer(session, batch).1.unwrap_or_else(|| panic!("no error of {batch}")).number
}

/// The number in the first column of the last row of a query that must not fail.
pub(crate) fn number(session: &mut Session, query: &str) -> i64 {
    let (rows, failed) = answer(session, query);
    assert_eq!(failed, None, "{query}");
    let first = rows.last().and_then(|row| row[0].as_deref()).expect("a row, and no NULL");
    first.parse().expect("a number")
}

/// The number of rows that a statistics object of a table was gathered from.
pub(crate) fn statistics_rows(session: &mut Session, table: &str, name: &str) -> i64 {
    let query = format!(
        "SELECT p.rows FROM sys.stats AS s CROSS APPLY sys.dm_db_stats_properties(s.object_id, s.stats_id) AS p
         WHERE s.object_id = OBJECT_ID('{table}') AND s.name = '{name}'"
    );
    number(session, &query)
}

/// One of these texts.
pub(crate) fn pick<'a>(random: &mut SplitMix64, from: &[&'a str]) -> &'a str {
    from[usize::try_from(random.below(from.len() as u64)).expect("few")]
}

/// The number in an environment variable: a number of seeds, or the first seed. Any other text fails the test: with the
/// default instead, a mistyped seed would replay another run.
pub(crate) fn setting(name: &str, default: u64) -> u64 {
    let number = |text: String| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}"));
    std::env::var(name).map_or(default, number)
}

/// The time after which a test counts as stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until a condition holds of something that cannot wake a waiter: a process, a file, a view. No test depends on
/// the pause between two looks; it leaves the processors to what is waited for.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    const PAUSE: Duration = Duration::from_millis(5);
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "{what} never happens");
        std::thread::sleep(PAUSE);
    }
}

/// The message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?")
}
