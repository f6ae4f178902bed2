//! What was begun in a log that becomes full is ended: whatever a transaction has done before, its rollback puts
//! everything back, and the database stays in use.

use hobt::Session;

use crate::client::{error, instance_with, number, ok, rows, used};

/// 9002: the log is full.
const LOG_FULL: i32 = 9002;

/// What the table holds that the transactions change.
const KEPT: i64 = 60_000;

/// Inserts into the indexed table; `{}` is the number of the attempt.
const INTO_TREE: &str = "INSERT t SELECT {} * 1000000 + value, value * 5 % 1000, REPLICATE('x', 34), NULL
    FROM GENERATE_SERIES(1, 12000)";
/// Loads rows into the heap.
const INTO_HEAP: &str =
    "INSERT h SELECT {} * 1000000 + value, value % 1000, REPLICATE('x', 60) FROM GENERATE_SERIES(1, 12000)";
/// Inserts rows into the heap one by one.
const FEW_INTO_HEAP: &str =
    "INSERT h SELECT {} * 1000000 + value, value % 1000, REPLICATE('x', 60) FROM GENERATE_SERIES(1, 900)";
/// Inserts into one of the tables that a transaction has made. Only the first insert into a table loads it.
const INTO_MANY: &str = "INSERT many{} SELECT value + (SELECT COUNT(*) FROM many{}), REPLICATE('x', 60)
    FROM GENERATE_SERIES(1, 1000)";

/// What a transaction does before it fills the log, and the statement with which it does so. Runs that this takes are
/// given back by the undo of what was done before.
const CASES: [(&str, &str, &str); 10] = [
    ("nothing", "", INTO_TREE),
    ("an index is rebuilt", "ALTER INDEX ix ON t REBUILD", INTO_TREE),
    ("all indexes are rebuilt", "ALTER INDEX ALL ON t REBUILD", INTO_TREE),
    ("an index is created", "CREATE INDEX other ON t (s, a)", INTO_TREE),
    ("a table is truncated", "TRUNCATE TABLE t", INTO_TREE),
    (
        "a table is dropped and made again",
        "DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, a int, s varchar(400), m varchar(max));
         CREATE INDEX ix ON t (a) INCLUDE (s)",
        INTO_TREE,
    ),
    (
        "many tables are made",
        "DECLARE @i int = 0, @make varchar(200); WHILE @i < 61 BEGIN
           SET @i += 1; SET @make = CONCAT('CREATE TABLE many', @i, ' (id int PRIMARY KEY, s varchar(100))');
           EXEC (@make) END",
        INTO_MANY,
    ),
    ("a heap is truncated", "TRUNCATE TABLE h", INTO_HEAP),
    (
        "a heap is loaded",
        "INSERT h SELECT -value, value % 1000, REPLICATE('x', 60) FROM GENERATE_SERIES(1, 12000)",
        FEW_INTO_HEAP,
    ),
    (
        "heaps are made",
        "DECLARE @i int = 0, @make varchar(200); WHILE @i < 61 BEGIN
           SET @i += 1; SET @make = CONCAT('CREATE TABLE many', @i, ' (id int, s varchar(100))'); EXEC (@make) END",
        INTO_MANY,
    ),
];

fn counts(session: &mut Session) -> [i64; 3] {
    ["COUNT(*) FROM t", "COUNT(*) FROM t WITH (INDEX (ix))", "COUNT(*) FROM h"]
        .map(|what| number(session, &format!("SELECT {what}")))
}

/// A transaction runs `first`, and then `insert` until the log is full. If asked, small changes use up what room is
/// left, and a checkpoint makes images of pages necessary again. Then it is rolled back.
fn fills_the_log(session: &mut Session, (name, first, insert): (&str, &str, &str), is_filled_up: bool) {
    ok(session, "CHECKPOINT; BEGIN TRANSACTION");
    ok(session, first);
    let mut attempt = 0;
    let failed = loop {
        attempt += 1;
        if let Err(error) = rows(session, &insert.replace("{}", &(attempt % 60 + 1).to_string())) {
            break error;
        }
    };
    assert_eq!(failed.number, LOG_FULL, "{name}, attempt {attempt}: {}", failed.message);
    if is_filled_up {
        for rows_changed in [100, 1] {
            while rows(session, &format!("UPDATE TOP ({rows_changed}) small SET a += 1")).is_ok() {}
        }
        let _postponed = rows(session, "CHECKPOINT");
    }
    ok(session, "ROLLBACK");
}

#[test]
fn a_rollback_in_a_full_log_puts_everything_back() {
    for case in CASES {
        let (folder, instance) = instance_with("");
        let mut session = used(&instance);
        let place = |name: &str| folder.path().join(name).display().to_string();
        let (data, log) = (place("small.mdf"), place("small.ldf"));
        ok(
            &mut session,
            &format!(
                "CREATE DATABASE small ON (NAME = small, FILENAME = '{data}', SIZE = 16MB)
                 LOG ON (NAME = small_log, FILENAME = '{log}', SIZE = 4MB, MAXSIZE = 12MB)"
            ),
        );
        ok(&mut session, "USE small");
        ok(
            &mut session,
            &format!(
                "CREATE TABLE t (id int PRIMARY KEY, a int, s varchar(400), m varchar(max));
                 CREATE INDEX ix ON t (a) INCLUDE (s);
                 CREATE TABLE small (id int, a int); INSERT small SELECT value, 0 FROM GENERATE_SERIES(1, 200);
                 CREATE TABLE h (id int, a int, s varchar(100));
                 INSERT t SELECT value, value % 1000, REPLICATE('k', 34), NULL FROM GENERATE_SERIES(1, {KEPT});
                 INSERT h SELECT value, value % 1000, REPLICATE('k', 34) FROM GENERATE_SERIES(1, {KEPT})"
            ),
        );
        for is_filled_up in [false, true] {
            fills_the_log(&mut session, case, is_filled_up);
            assert_eq!(counts(&mut session), [KEPT; 3], "{}", case.0);
            assert_eq!(number(&mut session, "SELECT COUNT(*) FROM sys.tables"), 3, "{}", case.0);
            ok(&mut session, "DBCC CHECKDB");
            ok(&mut session, "INSERT t VALUES (-1, 1, 'new', NULL); DELETE t WHERE id = -1");
            assert_eq!(error(&mut session, "INSERT t VALUES (1, 1, 'twice', NULL)"), 2627, "{}", case.0);
        }
    }
}

/// Keys that come back with shorter rows, over ghosts, and rows that get shorter beside rows that are inserted: a leaf
/// may have to be split by the undo, once and not for each of its rows.
#[test]
fn rows_that_get_shorter_reserve_a_split_for_each_leaf_and_not_for_each_row() {
    const RESERVED: &str = "SELECT database_transaction_log_bytes_reserved FROM sys.dm_tran_database_transactions
                            WHERE database_id = DB_ID() AND database_transaction_log_bytes_reserved > 0";
    let (_folder, instance) = instance_with(
        "CREATE TABLE t (id int PRIMARY KEY, a int, s varchar(40)); CREATE INDEX ix ON t (a) INCLUDE (s);
         INSERT t SELECT value, value, REPLICATE('k', 30) FROM GENERATE_SERIES(1, 4000)",
    );
    let mut session = used(&instance);
    let all = ok(&mut session, "SELECT COUNT(*), SUM(id), SUM(a), MIN(s), MAX(s) FROM t");
    for change in [
        "DELETE t WHERE id % 2 = 0; INSERT t SELECT value, value, 'short' FROM GENERATE_SERIES(2, 4000, 2)",
        "UPDATE t SET id = 4001 - id, s = 'short'",
        "DECLARE @i int = 0; WHILE @i < 500 BEGIN SET @i += 1;
         UPDATE t SET s = LEFT(s, 20) WHERE id = 1000 + @i; INSERT t VALUES (-@i, 1000 + @i, 'new') END",
        "MERGE t USING (SELECT value id FROM GENERATE_SERIES(1, 4000)) n ON t.id = n.id
         WHEN MATCHED AND n.id % 2 = 0 THEN DELETE;
         MERGE t USING (SELECT value id FROM GENERATE_SERIES(1, 4000)) n ON t.id = n.id
         WHEN MATCHED THEN UPDATE SET s = 'm' WHEN NOT MATCHED THEN INSERT VALUES (n.id, n.id, 'i');",
    ] {
        ok(&mut session, "BEGIN TRANSACTION");
        ok(&mut session, change);
        let reserved = number(&mut session, RESERVED);
        assert!(reserved < 12 << 20, "{reserved} bytes for {change}");
        ok(&mut session, "ROLLBACK");
        assert_eq!(ok(&mut session, "SELECT COUNT(*), SUM(id), SUM(a), MIN(s), MAX(s) FROM t"), all, "{change}");
    }
    ok(&mut session, "DBCC CHECKDB");
}
