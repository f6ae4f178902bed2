//! Sequences and identity columns across sessions, and sequences across restarts and crashes: no value is used twice.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use hobt::Instance;

use crate::client::number;

const SESSIONS: i64 = 16;
const VALUES_EACH: i64 = 60;

/// A copy of the folder as a crash would leave it now.
fn image(of: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("a temporary folder");
    for entry in fs::read_dir(of).expect("a folder") {
        let entry = entry.expect("an entry");
        if entry.file_type().expect("a type").is_file() {
            fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("a copy");
        }
    }
    copy
}

#[test]
fn no_value_comes_twice_over_sessions_restarts_and_crashes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let instance = Instance::open(folder.path()).expect("an instance");
    let mut session = instance.session().expect("a session");
    session.run("CREATE DATABASE d").expect("a database");
    session
        .run("USE d; CREATE SEQUENCE s START WITH 1 CACHE 7; CREATE SEQUENCE slow START WITH 1 NO CACHE")
        .expect("sequences");
    let taken: Vec<i64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..SESSIONS)
            .map(|_| {
                scope.spawn(|| {
                    let mut session = instance.session().expect("a session");
                    session.run("USE d").expect("the database");
                    (0..VALUES_EACH).map(|_| number(&mut session, "SELECT NEXT VALUE FOR s")).collect::<Vec<_>>()
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a session's end")).collect()
    });
    let distinct: BTreeSet<i64> = taken.iter().copied().collect();
    assert_eq!(distinct.len(), taken.len(), "a value came twice");
    // While the instance runs, no value is lost.
    assert_eq!(distinct.last().copied(), Some(SESSIONS * VALUES_EACH));
    assert_eq!(number(&mut session, "SELECT NEXT VALUE FOR slow"), 1);
    let greatest = SESSIONS * VALUES_EACH;
    let next_in = |folder: &Path, sequence: &str| {
        let instance = Instance::open(folder).expect("an instance");
        let mut session = instance.session().expect("a session");
        session.run("USE d").expect("the database");
        let next = number(&mut session, &format!("SELECT NEXT VALUE FOR {sequence}"));
        drop(session);
        instance.close().expect("closed");
        next
    };
    let crashed = image(folder.path());
    let next = next_in(crashed.path(), "s");
    assert!(next > greatest && next <= greatest + 7, "{next} behind {greatest}");
    assert_eq!(next_in(crashed.path(), "slow"), 2, "without a cache nothing is lost");
    drop(session);
    instance.close().expect("closed");
    let first = next_in(folder.path(), "s");
    assert!(first > greatest && first <= greatest + 7, "{first} behind {greatest}");
    let second = next_in(folder.path(), "s");
    assert!(second > first && second <= first + 7, "{second} behind {first}");
}

#[test]
fn a_sequence_that_a_rollback_takes_away_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let instance = Instance::open(folder.path()).expect("an instance");
    let mut session = instance.session().expect("a session");
    session.run("CREATE DATABASE d; ").expect("a database");
    session.run("USE d; CREATE SEQUENCE kept START WITH 1").expect("a sequence");
    session.run("BEGIN TRANSACTION; CREATE SEQUENCE gone START WITH 1").expect("a sequence");
    assert_eq!(number(&mut session, "SELECT NEXT VALUE FOR gone"), 1);
    assert_eq!(number(&mut session, "SELECT NEXT VALUE FOR kept"), 1);
    // Values taken in a transaction stay taken, whatever becomes of the transaction.
    let crashed = image(folder.path());
    session.run("ROLLBACK").expect("undone");
    assert_eq!(number(&mut session, "SELECT NEXT VALUE FOR kept"), 2);
    assert_eq!(session.run("SELECT NEXT VALUE FOR gone").expect_err("gone").number, 208);
    drop(session);
    instance.close().expect("closed");
    let instance = Instance::open(crashed.path()).expect("an instance");
    let mut session = instance.session().expect("a session");
    session.run("USE d").expect("recovered");
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM sys.sequences"), 1);
    assert_eq!(number(&mut session, "SELECT NEXT VALUE FOR kept"), 51);
    drop(session);
    instance.close().expect("closed");
}

#[test]
fn the_rows_of_a_query_share_no_identity_value_with_those_of_others() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let instance = Instance::open(folder.path()).expect("an instance");
    let (mut one, mut other) = (instance.session().expect("a session"), instance.session().expect("a session"));
    one.run("CREATE DATABASE d").expect("a database");
    let tables = "USE d; CREATE TABLE t (id int IDENTITY PRIMARY KEY, v int NOT NULL); CREATE TABLE s (v int NOT NULL); \
                  INSERT s VALUES (1), (2)";
    one.run(tables).expect("tables");
    other.run("USE d; BEGIN TRANSACTION; UPDATE s SET v += 10").expect("rows that are waited for");
    let waiting = std::thread::spawn(move || {
        let insert = "INSERT t (v) SELECT v FROM s WITH (READCOMMITTEDLOCK)";
        number(&mut one, &format!("{insert}; SELECT CAST(SCOPE_IDENTITY() AS bigint)"))
    });
    while number(&mut other, "SELECT CAST(COUNT(*) AS bigint) FROM sys.dm_tran_locks WHERE request_status = 'WAIT'")
        == 0
    {
        std::thread::yield_now();
    }
    other.run("INSERT t (v) VALUES (0)").expect("a row in between");
    other.run("COMMIT").expect("an end");
    let last = waiting.join().expect("no panic");
    assert_eq!(number(&mut other, "SELECT CAST(COUNT(DISTINCT id) AS bigint) FROM t"), 3);
    assert_eq!(number(&mut other, "SELECT CAST(MAX(id) AS bigint) FROM t WHERE v > 10"), last);
    drop(other);
    instance.close().expect("closed");
}
