//! Results of definitions besides their first error: the second error, warnings, files on disk. Also reseeded identity
//! columns across a crash.

use hobt::{Event, Flow, Instance, Message, Session, SqlError};

fn open() -> (tempfile::TempDir, Instance, Session) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let instance = Instance::open(folder.path()).expect("an instance");
    let mut session = instance.session().expect("a session");
    session.run("CREATE DATABASE d").expect("a database");
    session.run("USE d").expect("its use");
    (folder, instance, session)
}

/// The results of a batch: errors and messages.
fn send(session: &mut Session, batch: &str) -> (Vec<SqlError>, Vec<Message>) {
    let (mut errors, mut messages) = (Vec::new(), Vec::new());
    session.execute(batch, &mut |event: Event| {
        match event {
            Event::Message(message) => messages.push(message),
            Event::Error(error) => errors.push(error),
            _ => {}
        }
        Flow::Continue
    });
    (errors, messages)
}

/// The numbers of a batch's errors, and of its messages.
fn numbers(session: &mut Session, batch: &str) -> (Vec<i32>, Vec<i32>) {
    let (errors, messages) = send(session, batch);
    let errors = errors.iter().map(|error| error.number).collect();
    (errors, messages.iter().map(|message| message.number).collect())
}

#[test]
fn a_definition_that_fails_says_what_could_not_be_done() {
    let (_folder, instance, mut session) = open();
    session.run("CREATE TABLE t (a int NULL, b int NULL, CONSTRAINT ck CHECK (b > 0))").expect("a table");
    session.run("INSERT t VALUES (1, 1), (1, 2)").expect("rows");
    for (batch, errors, messages) in [
        ("CREATE UNIQUE INDEX ix ON t (a)", vec![1505], vec![3621]),
        ("ALTER TABLE t ADD CONSTRAINT uq UNIQUE (a)", vec![1505, 1750], vec![3621]),
        ("ALTER TABLE t ADD PRIMARY KEY (a)", vec![8111, 1750], vec![]),
        ("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES t (b)", vec![1776, 1750], vec![]),
        ("ALTER TABLE t ADD CONSTRAINT ck CHECK (a > 0)", vec![2714, 1750], vec![]),
        ("CREATE TABLE t (a int)", vec![2714], vec![]),
        ("CREATE TABLE u (a int NULL PRIMARY KEY)", vec![8111, 1750], vec![]),
        ("ALTER TABLE t DROP COLUMN b", vec![5074, 4922], vec![]),
        ("ALTER TABLE t ALTER COLUMN b bigint", vec![5074, 4922], vec![]),
        ("ALTER TABLE t DROP CONSTRAINT nosuch", vec![3728, 3727], vec![]),
    ] {
        assert_eq!(numbers(&mut session, batch), (errors, messages), "{batch}");
    }
    let (errors, _) = send(&mut session, "\n\nALTER TABLE t DROP COLUMN b");
    assert_eq!(errors[1].message, "ALTER TABLE DROP COLUMN b failed because one or more objects access this column.");
    assert_eq!(errors.iter().map(|error| error.position.expect("a place").line).collect::<Vec<_>>(), [3, 3]);
    drop(session);
    instance.close().expect("a clean end");
}

#[test]
fn long_keys_are_warned_of_also_where_a_table_is_made() {
    let (_folder, instance, mut session) = open();
    let batch =
        "CREATE TABLE t (k varchar(901) NOT NULL PRIMARY KEY, a varchar(1701) NULL UNIQUE, b varchar(1700) UNIQUE)";
    let (errors, messages) = send(&mut session, batch);
    assert_eq!(errors, []);
    assert_eq!(messages.iter().map(|message| (message.number, message.severity)).collect::<Vec<_>>(), [(1945, 10); 2]);
    assert!(messages[0].text.contains("for a clustered index is 900 bytes"), "{}", messages[0].text);
    assert_eq!(numbers(&mut session, "CREATE INDEX ix ON t (a)"), (vec![], vec![1945]));
    assert_eq!(numbers(&mut session, "ALTER TABLE t ADD UNIQUE (a)"), (vec![], vec![1945]));
    drop(session);
    instance.close().expect("a clean end");
}

#[test]
fn a_database_named_like_a_path_leaves_nothing() {
    let (folder, instance, mut session) = open();
    let names = || {
        let found = std::fs::read_dir(folder.path()).expect("the folder");
        let mut names: Vec<_> = found.map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    for batch in [
        "CREATE DATABASE [bad/name]",
        r"CREATE DATABASE [bad\name]",
        "CREATE DATABASE fine ON (NAME = [bad/data])",
        "CREATE DATABASE fine LOG ON (NAME = [bad/log])",
    ] {
        assert_eq!(numbers(&mut session, batch).0, [5105, 1802], "{batch}");
        assert_eq!(names(), before, "{batch}");
    }
    session.run("CREATE DATABASE [name with.dots]").expect("made");
    session.run("DROP DATABASE [name with.dots]").expect("dropped");
    assert_eq!(names(), before);
    drop(session);
    instance.close().expect("a clean end");
}

#[test]
fn errors_of_a_call_name_the_procedure() {
    let (_folder, instance, mut session) = open();
    session.run("CREATE PROCEDURE p @a int AS BEGIN TRANSACTION").expect("a procedure");
    for (batch, number) in [("EXECUTE dbo.p", 201), ("EXECUTE dbo.p 1", 266)] {
        let (errors, _) = send(&mut session, batch);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert_eq!((errors[0].number, errors[0].procedure.as_deref()), (number, Some("p")), "{batch}");
        assert_eq!(errors[0].place(), "Procedure p, Line 0", "{batch}");
    }
    session.run("ROLLBACK").expect("rolled back");
    drop(session);
    instance.close().expect("a clean end");
}

fn next(session: &mut Session) -> i64 {
    let mut found = None;
    session.execute("INSERT t (v) OUTPUT inserted.id VALUES (1)", &mut |event: Event| {
        if let Event::Rows(batch) = event {
            let column = batch.column(0).as_any().downcast_ref::<arrow::array::Int32Array>().expect("an int");
            found = Some(i64::from(column.value(0)));
        }
        Flow::Continue
    });
    found.expect("a row")
}

#[test]
fn what_checkident_set_outlives_the_instance() {
    let (folder, instance, mut session) = open();
    session.run("CREATE TABLE t (id int IDENTITY(1, 1), v int)").expect("a table");
    session.run("INSERT t (v) VALUES (1), (2), (3)").expect("rows");
    let (errors, messages) = send(&mut session, "DBCC CHECKIDENT (t)");
    assert_eq!(errors, []);
    let text = "Checking identity information: current identity value '3', current column value '3'.";
    assert_eq!((messages[0].number, messages[0].text.as_str(), messages[1].number), (7998, text, 2528));
    let (_, messages) = send(&mut session, "DBCC CHECKIDENT (t, RESEED, 5000)");
    assert_eq!(messages[0].text, "Checking identity information: current identity value '3'.");
    session
        .run("SET IDENTITY_INSERT t ON; INSERT t (id, v) VALUES (90000, 1); SET IDENTITY_INSERT t OFF")
        .expect("set");
    session.run("DBCC CHECKIDENT (t, RESEED, 5000)").expect("set");
    drop(session);
    instance.close().expect("a clean end");

    let instance = Instance::open(folder.path()).expect("an instance");
    let mut session = instance.session().expect("a session");
    session.run("USE d").expect("its use");
    assert_eq!(next(&mut session), 5001, "the rows would say 90001");
    assert_eq!(next(&mut session), 5002);
    drop(session);
    instance.close().expect("a clean end");

    let instance = Instance::open(folder.path()).expect("an instance");
    let mut session = instance.session().expect("a session");
    session.run("USE d").expect("its use");
    let after = next(&mut session);
    assert!((5003..=6100).contains(&after), "no value comes twice, and few are left out: {after}");
    drop(session);
    instance.close().expect("a clean end");
}
