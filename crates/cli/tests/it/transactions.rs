//! Transactions of concurrent sessions: what others see of them, how long they hold locks, and what ends them.

use hobt::{Event, Flow, Instance, Session, SqlError};

use crate::client::{instance_with, number};

/// An instance with a database `d` and the tables `a` and `b` of one column.
fn open() -> (tempfile::TempDir, Instance) {
    instance_with("CREATE TABLE a (n int NOT NULL); CREATE TABLE b (n int NOT NULL)")
}

/// A session that does not wait for locks.
fn session(instance: &Instance) -> Session {
    let mut session = instance.session().expect("a session");
    session.run("USE d; SET LOCK_TIMEOUT 0").expect("the database");
    session
}

fn error(session: &mut Session, batch: &str) -> i32 {
    session.run(batch).expect_err(batch).number
}

/// The messages of a batch.
fn messages(session: &mut Session, batch: &str) -> Result<Vec<String>, SqlError> {
    let (mut texts, mut failed) = (Vec::new(), None);
    session.execute(batch, &mut |event| {
        match event {
            Event::Message(message) => texts.push(message.text),
            Event::Error(error) => failed = Some(error),
            _ => {}
        }
        Flow::Continue
    });
    failed.map_or(Ok(texts), Err)
}

/// `@@SPID`.
fn id(session: &mut Session) -> i64 {
    number(session, "SELECT @@SPID")
}

/// The error number for a lock that is not available.
const LOCKED: i32 = 1222;

#[test]
fn what_is_made_in_a_transaction_is_seen_by_others_when_it_is_committed() {
    let (_folder, instance) = open();
    let (mut one, mut other) = (session(&instance), session(&instance));
    one.run("BEGIN TRAN; CREATE TABLE made (n int); INSERT made VALUES (1)").expect("a table");
    one.run("EXEC ('CREATE SCHEMA s'); EXEC ('CREATE VIEW v AS SELECT n FROM made')").expect("objects");
    assert_eq!(number(&mut one, "SELECT n FROM v"), 1);
    assert_eq!(error(&mut other, "SELECT n FROM made"), 208);
    assert_eq!(error(&mut other, "SELECT n FROM v"), 208);
    let objects = "SELECT COUNT(*) FROM sys.objects WHERE name IN ('made', 'v')";
    assert_eq!((number(&mut one, objects), number(&mut other, objects)), (2, 0));
    let id = "SELECT COALESCE(OBJECT_ID('made'), 0)";
    assert_ne!((number(&mut one, id), number(&mut other, id)).0, 0);
    assert_eq!(number(&mut other, id), 0);
    one.run("COMMIT").expect("committed");
    assert_eq!(number(&mut other, "SELECT n FROM v"), 1);
    one.run("BEGIN TRAN; DROP VIEW v; DROP TABLE made").expect("dropped");
    assert_eq!(error(&mut one, "SELECT n FROM made"), 208);
    assert_eq!(error(&mut other, "SELECT n FROM made"), LOCKED);
    one.run("ROLLBACK").expect("undone");
    assert_eq!(number(&mut other, "SELECT n FROM v"), 1);
}

#[test]
fn what_is_changed_is_locked_until_the_transaction_ends_and_what_is_read_is_not() {
    let (_folder, instance) = open();
    let (mut one, mut other) = (session(&instance), session(&instance));
    one.run("BEGIN TRAN; SELECT n FROM a; INSERT b VALUES (1)").expect("a transaction");
    other.run("INSERT a VALUES (1)").expect("nobody reads any more");
    for query in [
        "SELECT n FROM b WITH (READCOMMITTEDLOCK)",
        "INSERT b WITH (TABLOCK) SELECT 2",
        "UPDATE b WITH (TABLOCK) SET n = 2",
        "TRUNCATE TABLE b",
        "DROP TABLE b",
    ] {
        assert_eq!(error(&mut other, query), LOCKED, "{query}");
    }
    assert_eq!(number(&mut other, "SELECT COUNT(*) FROM b"), 0, "a reader does not wait, and sees what is committed");
    assert_eq!(number(&mut other, "SELECT COUNT(*) FROM b WITH (NOLOCK)"), 1);
    one.run("SAVE TRAN s; INSERT b VALUES (3); ROLLBACK TRAN s").expect("a savepoint");
    assert_eq!(error(&mut other, "SELECT n FROM b WITH (READCOMMITTEDLOCK)"), LOCKED);
    other.run("INSERT b VALUES (4); DELETE a WHERE n = 4").expect("rows that come do not wait for each other");
    one.run("COMMIT").expect("committed");
    assert_eq!(number(&mut other, "SELECT COUNT(*) FROM b"), 2);
    other.run("BEGIN TRAN; INSERT b VALUES (5)").expect("a row");
    assert_eq!((number(&mut one, "SELECT MAX(n) FROM b"), number(&mut other, "SELECT MAX(n) FROM b")), (4, 5));
    other.run("ROLLBACK").expect("undone");

    for ends in ["COMMIT", "ROLLBACK"] {
        one.run("BEGIN TRAN; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT n FROM a").expect("read");
        one.run("SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SELECT n FROM b WITH (HOLDLOCK)").expect("read");
        assert_eq!(number(&mut other, "SELECT COUNT(*) FROM a"), 1);
        assert_eq!(error(&mut other, "UPDATE a SET n = 2"), LOCKED);
        assert_eq!(error(&mut other, "INSERT b VALUES (2)"), LOCKED);
        one.run(ends).expect("ended");
        assert_eq!(number(&mut other, "SELECT COUNT(*) FROM sys.dm_tran_locks WHERE resource_type = 'OBJECT'"), 0);
    }

    one.run("BEGIN TRAN; SELECT n FROM a WITH (UPDLOCK)").expect("read");
    assert_eq!(number(&mut other, "SELECT COUNT(*) FROM a"), 1);
    assert_eq!(error(&mut other, "SELECT n FROM a WITH (UPDLOCK)"), LOCKED);
    one.run("ROLLBACK").expect("ended");
    other.run("INSERT a VALUES (3); INSERT b VALUES (3)").expect("nothing is locked");
}

#[test]
fn the_end_of_a_session_rolls_back() {
    let (_folder, instance) = open();
    let (mut one, mut other) = (session(&instance), session(&instance));
    one.run("CREATE TABLE #t (n int); BEGIN TRAN; DROP TABLE #t; CREATE TABLE #u (n int)").expect("a transaction");
    one.run("INSERT a VALUES (1); CREATE TABLE made (n int); SELECT 1 AS n INTO too").expect("changes");
    assert_eq!(number(&mut other, "SELECT COUNT(*) FROM sys.dm_tran_session_transactions"), 1);
    drop(one);
    assert_eq!(number(&mut other, "SELECT COUNT(*) FROM a"), 0);
    assert_eq!(number(&mut other, "SELECT COUNT(*) FROM sys.tables WHERE name IN ('made', 'too')"), 0);
    assert_eq!(number(&mut other, "SELECT COUNT(*) FROM tempdb.sys.tables"), 0);
    assert_eq!(number(&mut other, "SELECT COUNT(*) FROM sys.dm_tran_session_transactions"), 0);
}

#[test]
fn an_instance_is_not_closed_under_a_transaction() {
    let (folder, instance) = open();
    let mut one = session(&instance);
    one.run("BEGIN TRAN; INSERT a VALUES (1)").expect("a transaction");
    let engine = instance.server().instance();
    assert_eq!(engine.close().expect_err("a transaction is open").to_sql_error().number, 3702);
    one.run("INSERT a VALUES (2); COMMIT").expect("it goes on");
    drop(one);
    instance.close().expect("closed");
    let instance = Instance::open(folder.path()).expect("an instance");
    assert_eq!(number(&mut session(&instance), "SELECT COUNT(*) FROM a"), 2);
}

#[test]
fn a_session_that_is_killed_loses_its_transaction_at_once() {
    let (_folder, instance) = open();
    let (mut one, mut other) = (session(&instance), session(&instance));
    let kill = format!("KILL {}", id(&mut one));
    one.run("BEGIN TRAN; INSERT a VALUES (1)").expect("a transaction");
    assert_eq!(error(&mut other, "SELECT n FROM a WITH (READCOMMITTEDLOCK)"), LOCKED);
    other.run(&kill).expect("killed");
    assert_eq!(number(&mut other, "SELECT COUNT(*) FROM a"), 0);
    assert_eq!(error(&mut one, "COMMIT"), 596);
    drop(one);

    let mut one = session(&instance);
    let kill = format!("KILL {}", id(&mut one));
    let waiting = format!(
        "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE command = 'WAITFOR' AND session_id = {}",
        id(&mut one)
    );
    let running = std::thread::spawn(move || {
        let ended = one.run("BEGIN TRAN; INSERT a VALUES (1); WAITFOR DELAY '01:00:00'; INSERT a VALUES (2)");
        (one, ended)
    });
    while number(&mut other, &waiting) == 0 {
        std::thread::yield_now();
    }
    other.run(&kill).expect("killed");
    let (one, ended) = running.join().expect("no panic");
    assert_eq!(ended.expect_err("cancelled").number, 3617);
    assert_eq!(number(&mut other, "SELECT COUNT(*) FROM a"), 0);
    drop(one);
}

/// `KILL … WITH STATUSONLY` kills nothing.
#[test]
fn how_far_a_rollback_is_can_be_asked() {
    const NOT_IN_PROGRESS: i32 = 6120;
    const NO_SUCH_SESSION: i32 = 6106;
    let (_folder, instance) = open();
    let (mut one, mut other) = (session(&instance), session(&instance));
    let ask = format!("KILL {} WITH STATUSONLY", id(&mut one));
    assert_eq!(error(&mut one, &ask), NOT_IN_PROGRESS);
    assert_eq!(error(&mut other, &ask), NOT_IN_PROGRESS);
    assert_eq!(error(&mut other, "KILL 32000 WITH STATUSONLY"), NO_SUCH_SESSION);
    one.run("CREATE TABLE k (i int PRIMARY KEY, n int); INSERT k SELECT value, 1 FROM GENERATE_SERIES(1, 20000)")
        .expect("many rows");
    one.run("BEGIN TRAN; UPDATE k SET n = 2").expect("many changes");
    let thread = std::thread::spawn(move || (one.run("ROLLBACK").map(drop), one));
    let mut reports = Vec::new();
    while !thread.is_finished() {
        match messages(&mut other, &ask) {
            Ok(texts) => reports.extend(texts),
            Err(error) => assert_eq!(error.number, NOT_IN_PROGRESS),
        }
    }
    let (ended, _one) = thread.join().expect("no panic");
    ended.expect("rolled back");
    let is_of_rollback =
        |text: &String| text.contains("transaction rollback in progress. Estimated rollback completion: ");
    assert!(!reports.is_empty() && reports.iter().all(is_of_rollback), "{reports:?}");
    assert_eq!(error(&mut other, &ask), NOT_IN_PROGRESS);
}

#[test]
fn a_statement_that_is_cancelled_leaves_its_transaction_open() {
    let (_folder, instance) = open();
    let (mut one, mut other) = (session(&instance), session(&instance));
    let waiting = format!("SELECT COUNT(*) FROM sys.dm_os_waiting_tasks WHERE session_id = {}", id(&mut one));
    for (abort, expected) in [("OFF", 1), ("ON", 0)] {
        other.run("BEGIN TRAN; INSERT b VALUES (1)").expect("a transaction");
        one.run(&format!("SET LOCK_TIMEOUT -1; SET XACT_ABORT {abort}; BEGIN TRAN; INSERT a VALUES (1)"))
            .expect("a transaction");
        let handle = one.cancel_handle();
        let running = std::thread::spawn(move || {
            let ended = one.run("INSERT a VALUES (2), ((SELECT MAX(n) FROM b WITH (READCOMMITTEDLOCK)))");
            (one, ended)
        });
        while number(&mut other, &waiting) == 0 {
            std::thread::yield_now();
        }
        handle.cancel();
        let (back, ended) = running.join().expect("no panic");
        one = back;
        assert_eq!(ended.expect_err("cancelled").number, 3617);
        assert_eq!(number(&mut one, "SELECT @@TRANCOUNT"), expected, "XACT_ABORT {abort}");
        one.run("IF @@TRANCOUNT > 0 COMMIT").expect("committed");
        other.run("ROLLBACK").expect("undone");
    }
    assert_eq!(number(&mut other, "SELECT COUNT(*) FROM a"), 1);
}

#[test]
fn the_victim_of_a_deadlock_loses_its_transaction_and_the_other_goes_on() {
    let (_folder, instance) = open();
    let sessions = ["a", "b"].map(|first| {
        let mut session = session(&instance);
        session
            .run(&format!("SET LOCK_TIMEOUT -1; BEGIN TRAN; INSERT {first} WITH (TABLOCK) SELECT 1"))
            .expect("a transaction");
        session
    });
    let ends: Vec<bool> = std::thread::scope(|scope| {
        let runs = sessions.into_iter().zip(["b", "a"]).map(|(mut session, second)| {
            scope.spawn(move || {
                let ended = session.run(&format!("INSERT {second} WITH (TABLOCK) SELECT 2"));
                let count = number(&mut session, "SELECT @@TRANCOUNT");
                match ended {
                    Ok(()) => {
                        assert_eq!(count, 1);
                        session.run("COMMIT").expect("committed");
                        true
                    }
                    Err(error) => {
                        assert_eq!((error.number, error.severity, count), (1205, 13, 0), "{error}");
                        false
                    }
                }
            })
        });
        let runs: Vec<_> = runs.collect();
        runs.into_iter().map(|run| run.join().expect("no panic")).collect()
    });
    assert_ne!(ends[0], ends[1], "one of the two is the victim");
    let mut reader = session(&instance);
    assert_eq!(number(&mut reader, "SELECT (SELECT COUNT(*) FROM a) + (SELECT COUNT(*) FROM b)"), 2);
}

#[test]
fn who_makes_what_another_transaction_made_waits_for_its_end() {
    let (_folder, instance) = open();
    for (ends, expected) in [("ROLLBACK", None), ("COMMIT", Some(2714))] {
        let (mut one, mut other) = (session(&instance), session(&instance));
        one.run("BEGIN TRAN; CREATE TABLE made (n int)").expect("a table");
        let making = std::thread::spawn(move || other.run("CREATE TABLE made (m int); DROP TABLE made"));
        one.run(ends).expect("ended");
        let made = making.join().expect("no panic");
        assert_eq!(made.err().map(|error| error.number), expected, "{ends}");
    }
}

#[test]
fn a_circle_of_a_name_and_a_lock_ends() {
    let (_folder, instance) = open();
    let (mut one, mut other) = (session(&instance), session(&instance));
    one.run("SET LOCK_TIMEOUT -1; BEGIN TRAN; CREATE TABLE made (n int)").expect("a table");
    let reading = format!(
        "SELECT COUNT(*) FROM sys.dm_tran_locks WHERE request_mode = 'S' AND request_session_id = {}",
        id(&mut other)
    );
    let making = std::thread::spawn(move || other.run("SELECT n INTO made FROM a WITH (TABLOCK)"));
    while number(&mut one, &reading) == 0 {
        std::thread::yield_now();
    }
    // The reader waits for the name, and this session waits for the reader.
    one.run("INSERT a VALUES (1)").expect("the reader gives up");
    assert_eq!(making.join().expect("no panic").expect_err("the name is not to be had").number, LOCKED);
    one.run("COMMIT").expect("committed");
}

#[test]
fn dbcc_opentran_names_the_oldest_transaction_of_the_database() {
    let (_folder, instance) = open();
    let (mut one, mut other) = (session(&instance), session(&instance));
    let opentran = |session: &mut Session| {
        let mut said = Vec::new();
        session.execute("DBCC OPENTRAN WITH NO_INFOMSGS", &mut |event: Event| {
            if let Event::Message(message) = event {
                said.push(message.text);
            }
            Flow::Continue
        });
        said.join("")
    };
    one.run("BEGIN TRAN long_one").expect("a transaction");
    assert_eq!(opentran(&mut other), "No active open transactions.");
    one.run("INSERT a VALUES (1)").expect("a row");
    other.run("BEGIN TRAN; INSERT b VALUES (1)").expect("a row");
    let text = opentran(&mut other);
    assert!(text.contains("database 'd'") && text.contains("long_one"), "{text}");
    assert!(text.contains(&format!("SPID (server process ID): {}", id(&mut one))), "{text}");
    one.run("COMMIT").expect("committed");
    assert!(opentran(&mut one).contains("user_transaction"));
}

#[test]
fn a_session_that_waits_for_a_row_can_be_cancelled_and_killed_and_waits_no_longer_than_it_said() {
    let (_folder, instance) = open();
    let (mut one, mut other) = (session(&instance), session(&instance));
    one.run("CREATE TABLE k (i int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT k VALUES (1, 0), (2, 0)")
        .expect("rows");
    one.run("BEGIN TRAN; UPDATE k SET n = 1 WHERE i = 1").expect("a transaction");
    let change = "BEGIN TRAN; UPDATE k SET n = 2 WHERE i = 2; UPDATE k SET n = 2 WHERE i = 1";
    // A deadline that has passed, and one in the future.
    for timeout in [0, 20] {
        other.run(&format!("SET LOCK_TIMEOUT {timeout}")).expect("set");
        assert_eq!(error(&mut other, change), LOCKED);
        assert_eq!(number(&mut other, "SELECT @@TRANCOUNT"), 1, "the statement alone is undone");
        assert_eq!(number(&mut other, "SELECT COUNT(*) FROM k WHERE n = 2"), 1);
        other.run("ROLLBACK").expect("rolled back");
    }
    for is_killed in [false, true] {
        let mut waits = session(&instance);
        waits.run("SET LOCK_TIMEOUT -1").expect("it waits");
        let (waiting, cancel) = (id(&mut waits), waits.cancel_handle());
        let thread = std::thread::spawn(move || (waits.run(change).map(drop), waits));
        let for_row = format!(
            "SELECT COUNT(*) FROM sys.dm_tran_locks WHERE request_status = 'WAIT' AND resource_type = 'KEY' AND \
             request_session_id = {waiting}"
        );
        while number(&mut other, &for_row) == 0 {
            std::thread::yield_now();
        }
        match is_killed {
            true => other.run(&format!("KILL {waiting}")).map(drop).expect("killed"),
            false => cancel.cancel(),
        }
        let (ended, mut waits) = thread.join().expect("no panic");
        assert_eq!(ended.expect_err("it was cancelled").number, 3617);
        assert_eq!(number(&mut other, &for_row), 0, "it stands in no line any more");
        let left = if is_killed { 0 } else { 1 };
        let own = format!(
            "SELECT COUNT(*) FROM sys.dm_tran_locks WHERE resource_type = 'KEY' AND request_session_id = {waiting}"
        );
        if is_killed {
            assert_eq!(error(&mut waits, "SELECT 1"), 596);
        }
        assert_eq!(number(&mut other, &own), left, "a killed session's transaction is gone, another's is not");
        if !is_killed {
            waits.run("ROLLBACK").expect("rolled back");
        }
    }
    one.run("COMMIT").expect("committed");
    other.run("UPDATE k SET n = 3").expect("nobody is in the way");
    assert_eq!(number(&mut other, "SELECT COUNT(*) FROM k WHERE n = 3"), 2);
}

#[test]
fn a_transaction_under_snapshot_keeps_the_pages_that_it_has_rebuilt() {
    let (_folder, instance) = instance_with(
        "ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON;
         CREATE TABLE k (id int NOT NULL PRIMARY KEY, v int NOT NULL, text varchar(max) NOT NULL);
         INSERT k SELECT value, 1, REPLICATE(CAST('a' AS varchar(max)), 20000 * (value % 100 / 99)) \
         FROM GENERATE_SERIES(1, 3000)",
    );
    let (mut reader, mut writer) = (session(&instance), session(&instance));
    let mut viewer = session(&instance);
    let mut kept = || number(&mut viewer, "SELECT pages_kb FROM sys.dm_os_memory_clerks WHERE name = 'Rebuilt pages'");
    let change = "UPDATE k SET v += 1, text = REPLACE(text, 'a', 'bb')";
    reader.run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRAN; SELECT COUNT(*) FROM k").expect("a snapshot");
    writer.run(change).expect("changed");
    let seen = "SELECT SUM(v) + SUM(LEN(text)) + SUM(CASE WHEN text LIKE '%b%' THEN 1 ELSE 0 END) FROM k";
    let all = 3000 + 30 * 20_000;
    assert_eq!(kept(), 0);
    assert_eq!(number(&mut reader, "SELECT SUM(v) FROM k WHERE id BETWEEN 2 AND 5"), 4);
    assert_eq!(number(&mut reader, seen), all);
    let taken = kept();
    assert!(taken > 0);
    writer.run(change).expect("changed again");
    writer
        .run("DELETE k WHERE id % 3 = 0; INSERT k SELECT value, 7, 'c' FROM GENERATE_SERIES(3001, 4000)")
        .expect("both");
    assert_eq!(number(&mut reader, seen), all);
    let first = "SELECT TOP (1) id FROM (SELECT TOP (3000) id FROM k ORDER BY id DESC) AS every ORDER BY id";
    assert_eq!(number(&mut reader, first), 1);
    assert_eq!(number(&mut reader, "SELECT COUNT(*) FROM k WHERE id BETWEEN 2 AND 2999"), 2998);
    reader.run("SELECT id INTO #found FROM k").expect("a table of its own");
    assert!(kept() >= taken, "a change in tempdb is none here");
    // From here on it sees changes of its own, too.
    reader.run("SAVE TRAN s; INSERT k VALUES (5000, 10, 'aa')").expect("a row");
    assert_eq!(number(&mut reader, seen), all + 12);
    assert_eq!(kept(), 0);
    reader.run("ROLLBACK TRAN s").expect("undone");
    assert_eq!(number(&mut reader, seen), all);
    reader.run("COMMIT").expect("the end");
    reader.run("BEGIN TRAN; SELECT COUNT(*) FROM k").expect("another snapshot");
    writer.run("UPDATE k SET v = 0").expect("changed");
    reader.run(seen).expect("what was there");
    assert!(kept() > 0);
    reader.run("COMMIT").expect("the end");
    assert_eq!(kept(), 0);
}
