//! What tests ask of a session, and how they read its answers.

use hobt::{Event, Flow, Instance, Session, SqlError};

/// A new instance with a database `d`, in which `statements` have run.
pub(crate) fn instance_with(statements: &str) -> (tempfile::TempDir, Instance) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let instance = Instance::open(folder.path()).expect("an instance");
    let mut session = instance.session().expect("a session");
    session.run("CREATE DATABASE d").expect("a database");
    session.run(&format!("USE d; {statements}")).expect("what the tests need");
    (folder, instance)
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

/// The number in the first column of the last row that a query sends, which is to fail at nothing.
pub(crate) fn number(session: &mut Session, query: &str) -> i64 {
    let (rows, failed) = answer(session, query);
    assert_eq!(failed, None, "{query}");
    let first = rows.last().and_then(|row| row[0].as_deref()).expect("a row, and no NULL");
    first.parse().expect("a number")
}
