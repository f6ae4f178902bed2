//! Concurrent sessions: what one sees of another's statements, and that no session waits forever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use hobt::{Event, Flow, Instance, Session};
use hobt_base::{ObjectId, SessionId};

use crate::client::{answer, instance_with, number};

/// An instance with a database `d` and the tables `a` and `b` of one column.
fn open() -> (tempfile::TempDir, Instance) {
    instance_with("CREATE TABLE a (n int NOT NULL); CREATE TABLE b (n int NOT NULL)")
}

fn session(instance: &Instance) -> Session {
    let mut session = instance.session().expect("a session");
    session.run("USE d").expect("the database");
    session
}

/// Numbers from 0 to 999.
const THOUSAND: &str = "(SELECT x.n + 10 * y.n + 100 * z.n AS n FROM \
    (VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)) x(n) CROSS JOIN \
    (VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)) y(n) CROSS JOIN \
    (VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)) z(n)) AS thousand";

#[test]
fn nobody_sees_rows_that_are_about_to_be_undone() {
    let (_folder, instance) = open();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = session(&instance);
            for _ in 0..30 {
                let insert = format!("INSERT INTO a SELECT CASE n WHEN 999 THEN NULL ELSE n END FROM {THOUSAND}");
                assert_eq!(writer.run(&insert).expect_err("a NULL").number, 515);
                writer.run("INSERT INTO a SELECT 1 UNION ALL SELECT 1/0").expect_err("a division");
            }
            done.store(true, Ordering::SeqCst);
        });
        let mut reader = session(&instance);
        while !done.load(Ordering::SeqCst) {
            assert_eq!(number(&mut reader, "SELECT COUNT(*) FROM a"), 0);
        }
    });
}

#[test]
fn an_older_transaction_does_not_show_what_a_newer_one_has_not_committed() {
    let (_folder, instance) = open();
    let (mut older, mut newer, mut reader) = (session(&instance), session(&instance), session(&instance));
    older.run("BEGIN TRANSACTION; INSERT INTO b VALUES (1)").expect("begun");
    newer.run("BEGIN TRANSACTION; INSERT INTO a VALUES (1)").expect("begun");
    older.run("INSERT INTO a VALUES (2); COMMIT").expect("committed");
    assert_eq!(number(&mut reader, "SELECT SUM(n) FROM a"), 2);
    older.run("BEGIN TRANSACTION; INSERT INTO a VALUES (4); ROLLBACK").expect("rolled back");
    assert_eq!(number(&mut reader, "SELECT SUM(n) FROM a"), 2);
    newer.run("COMMIT").expect("committed");
    assert_eq!(number(&mut reader, "SELECT SUM(n) FROM a"), 3);
}

#[test]
fn inserts_from_each_others_tables_wait_one_for_the_other() {
    let (_folder, instance) = open();
    session(&instance).run("INSERT INTO a VALUES (1); INSERT INTO b VALUES (1)").expect("rows");
    std::thread::scope(|scope| {
        for (target, source) in [("a", "b"), ("b", "a"), ("a", "a")] {
            let instance = &instance;
            scope.spawn(move || {
                let mut session = session(instance);
                for _ in 0..60 {
                    let insert = format!("INSERT INTO {target} SELECT TOP 1 n FROM {source}");
                    session.run(&insert).expect("neither a deadlock nor an error");
                }
            });
        }
    });
    let mut reader = session(&instance);
    assert_eq!(number(&mut reader, "SELECT COUNT(*) FROM a") + number(&mut reader, "SELECT COUNT(*) FROM b"), 182);
}

#[test]
fn of_statements_that_wait_for_each_other_one_fails_and_says_so() {
    let (_folder, instance) = open();
    session(&instance).run("INSERT INTO a VALUES (1); INSERT INTO b VALUES (1)").expect("rows");
    // A value that needs a query is read while the target is already locked.
    std::thread::scope(|scope| {
        for (target, source) in [("a", "b"), ("b", "a")] {
            let instance = &instance;
            scope.spawn(move || {
                let mut session = session(instance);
                for _ in 0..60 {
                    let insert = format!("INSERT INTO {target} VALUES ((SELECT MAX(n) FROM {source}))");
                    if let Err(error) = session.run(&insert) {
                        assert_eq!((error.number, error.severity), (1205, 13), "{error}");
                    }
                }
            });
        }
    });
}

/// A `SELECT` from `a` that holds rows and the table's lock until the sender is dropped.
fn hold_reading(instance: &Instance) -> (Sender<()>, JoinHandle<()>) {
    let (go_on, going) = channel::<()>();
    let (began, begun) = channel();
    let mut session = session(instance);
    let reader = std::thread::spawn(move || {
        let ended = session.execute("SELECT n FROM a WITH (READCOMMITTEDLOCK, TABLOCK)", &mut |event: Event| {
            if let Event::Rows(_) = event {
                began.send(()).expect("the test waits");
                let _until_it_is_dropped = going.recv();
            }
            Flow::Continue
        });
        assert!(ended, "nobody takes the table away");
    });
    begun.recv().expect("rows come");
    (go_on, reader)
}

#[test]
fn the_views_show_who_waits_for_whom() {
    let (_folder, instance) = open();
    session(&instance).run("INSERT INTO a VALUES (1)").expect("a row");
    let (release, reader) = hold_reading(&instance);
    let mut writer = session(&instance);
    let waiting = number(&mut writer, "SELECT @@SPID");
    let writing = std::thread::spawn(move || writer.run("INSERT INTO a VALUES (2)"));
    let locks = instance.server().instance().locks();
    while locks.waits().is_empty() {
        std::thread::yield_now();
    }
    let mut third = session(&instance);
    let object = number(&mut third, "SELECT OBJECT_ID('a')");
    let lock =
        format!("FROM sys.dm_tran_locks WHERE resource_type = 'OBJECT' AND resource_associated_entity_id = {object}");
    let granted = format!("SELECT request_session_id {lock} AND request_mode = 'S' AND request_status = 'GRANT'");
    let holder = number(&mut third, &granted);
    let wanted = format!("SELECT request_session_id {lock} AND request_mode = 'IX' AND request_status = 'WAIT'");
    assert_eq!(number(&mut third, &wanted), waiting);
    for view in ["dm_os_waiting_tasks", "dm_exec_requests"] {
        let of_writer = format!("WHERE session_id = {waiting} AND wait_type = 'LCK_M_IX'");
        let blocker = format!("SELECT blocking_session_id FROM sys.{view} {of_writer}");
        assert_eq!(number(&mut third, &blocker), holder, "{view}");
    }
    let processes = format!("SELECT blocked FROM master..sysprocesses WHERE spid = {waiting} AND status = 'suspended'");
    assert_eq!(number(&mut third, &processes), holder);
    for (procedure, column) in [("sp_who", 5), ("sp_who2", 4)] {
        let (rows, failed) = answer(&mut third, &format!("EXEC {procedure} '{waiting}'"));
        assert_eq!(failed, None, "{procedure}");
        let blockers: Vec<_> = rows.iter().map(|row| row[column].as_deref().unwrap_or_default().trim()).collect();
        assert_eq!(blockers, [holder.to_string()], "{procedure}");
    }
    let resource = format!(
        "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE session_id = {waiting} \
         AND wait_resource = CONCAT('OBJECT: ', DB_ID(), ':', {object}, ':0')"
    );
    assert_eq!(number(&mut third, &resource), 1);
    drop(release);
    reader.join().expect("it read on");
    writing.join().expect("no panic").expect("the reader has gone");
    assert_eq!(number(&mut third, "SELECT COUNT(*) FROM sys.dm_tran_locks WHERE resource_type = 'OBJECT'"), 0);
}

/// A statement that waits for a table may find another table with that name afterwards, which may have readers too.
#[test]
fn a_table_that_was_made_anew_is_not_dropped_or_emptied_without_its_lock() {
    for statement in ["DROP TABLE a", "DROP TABLE IF EXISTS a", "TRUNCATE TABLE a"] {
        let (_folder, instance) = open();
        session(&instance).run("INSERT INTO a VALUES (1)").expect("a row");
        let engine = instance.server().instance();
        let database = engine.database("d").expect("the database");
        let id = || {
            let snapshot = database.snapshot();
            snapshot.table(1, "a").expect("the table").id
        };
        let waits_for = |table: ObjectId| {
            let waits = engine.locks().waits();
            waits.iter().any(|wait| wait.resource.associated_entity() == i64::from(table.0))
        };
        let old = id();
        let (release_old, old_reader) = hold_reading(&instance);
        let changing = {
            let mut session = session(&instance);
            std::thread::spawn(move || session.run(statement))
        };
        while !waits_for(old) {
            std::thread::yield_now();
        }
        // As a program could do that uses the engine directly: the waiting statement has no claim on the name.
        let ctx = engine.statement_context(SessionId(99), 1, Arc::default()).expect("it is open");
        database.drop_table(&ctx, "dbo", "a", &mut |_| Ok(())).expect("dropped");
        engine.end_statement(&ctx, true, &[&database]).expect("committed");
        session(&instance).run("CREATE TABLE a (n int NOT NULL); INSERT INTO a VALUES (2)").expect("made anew");
        let new = id();
        let (release_new, new_reader) = hold_reading(&instance);
        drop(release_old);
        old_reader.join().expect("it read on");
        while !waits_for(new) {
            assert!(!changing.is_finished(), "{statement}: it did not wait for the reader");
            std::thread::yield_now();
        }
        drop(release_new);
        new_reader.join().expect("it read on");
        changing.join().expect("no panic").expect("the lock is there");
        let left = database.snapshot().table(1, "a").map(|table| table.id);
        assert_eq!(left, statement.starts_with("TRUNCATE").then_some(new), "{statement}");
    }
}

#[test]
fn options_without_an_effect_are_refused_and_the_others_have_theirs() {
    let (_folder, instance) = open();
    let mut session = session(&instance);
    for refused in [
        "SET DATEFORMAT dmy",
        "SET DATEFIRST 1",
        "SET ANSI_NULLS OFF",
        "SET ANSI_WARNINGS OFF",
        "SET CONCAT_NULL_YIELDS_NULL OFF",
        "SET QUOTED_IDENTIFIER OFF",
        "SET QUERY_GOVERNOR_COST_LIMIT 10",
    ] {
        let error = session.run(refused).expect_err(refused);
        assert!(error.message.contains("not supported"), "{refused}: {error}");
        let word = refused.split_whitespace().nth(usize::from(refused.starts_with("SET"))).expect("a word");
        assert!(error.message.contains(word), "{refused}: {error}");
    }
    session
        .run("SET DATEFORMAT mdy; SET DATEFIRST 7; SET ANSI_NULLS ON; SET TEXTSIZE 2147483647; SET ANSI_WARNINGS ON")
        .expect("the defaults");
    session.run(&format!("INSERT INTO a SELECT n FROM {THOUSAND}")).expect("rows");
    session.run("SET ROWCOUNT 5").expect("a limit");
    session.run("INSERT INTO b SELECT n FROM a").expect("five rows");
    session.run("SET ROWCOUNT 0").expect("no limit");
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM b"), 5);
    assert_eq!(number(&mut session, "SELECT @@DATEFIRST"), 7);
}

#[test]
fn a_join_that_would_take_for_ever_is_cancelled() {
    let (_folder, instance) = open();
    let mut session = session(&instance);
    session.run(&format!("INSERT INTO a SELECT n FROM {THOUSAND}")).expect("rows");
    session.run("INSERT INTO b SELECT x.n FROM a AS x CROSS JOIN a AS y").expect("rows");
    for forever in [
        "SELECT COUNT(*) FROM b, b AS c, b AS d",
        "SELECT COUNT(*) FROM b JOIN b AS c ON b.n + c.n < 0 JOIN b AS d ON c.n + d.n < 0",
        "SELECT COUNT(*) FROM b JOIN b AS c ON b.n % 2 = c.n % 2 AND b.n + c.n < 0",
    ] {
        let handle = session.cancel_handle();
        let (ended, end) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let canceller = scope.spawn(move || {
                // The query is cancelled repeatedly, because the begin of its join cannot be observed.
                let mut times = 0;
                while end.recv_timeout(std::time::Duration::from_millis(200)).is_err() {
                    handle.cancel();
                    times += 1;
                    assert!(times < 300, "{forever} goes on");
                }
            });
            let error = session.run(forever).expect_err("cancelled");
            assert!(error.message.contains("cancel"), "{error:?}");
            ended.send(()).expect("the canceller waits");
            canceller.join().expect("it ended in time");
        });
    }
}
