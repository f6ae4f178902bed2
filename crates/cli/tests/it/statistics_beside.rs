//! Statistics and concurrent sessions: changes of definitions, and updates that no query waits for.

use hobt::{Instance, Session};

use crate::client::{answer, error, instance_with, number, statistics_rows, used};

const TABLE: &str = "
    CREATE TABLE t (a int NOT NULL, b int NOT NULL); CREATE CLUSTERED INDEX cx ON t (a);
    INSERT INTO t SELECT value, value % 10 FROM GENERATE_SERIES(1, 2000); CREATE STATISTICS sb ON t (b);";

#[test]
fn nobody_changes_a_table_whose_statistics_an_open_transaction_has_changed() {
    for first in [
        "UPDATE STATISTICS t",
        "CREATE STATISTICS sc ON t (b, a)",
        "DROP STATISTICS t.sb",
        "EXEC sp_autostats 't', 'OFF'",
    ] {
        let (folder, instance) = instance_with(TABLE);
        let (mut one, mut other) = (used(&instance), used(&instance));
        one.run(&format!("BEGIN TRANSACTION; {first}")).expect("statistics");
        // It does not wait: the conflicting lock would last as long as the transaction.
        other.run("SET LOCK_TIMEOUT 0").expect("an option");
        for second in [
            "DROP TABLE t",
            "TRUNCATE TABLE t",
            "CREATE INDEX ib ON t (b)",
            "DROP INDEX cx ON t",
            "ALTER INDEX cx ON t REBUILD",
            "ALTER TABLE t ADD c int NOT NULL DEFAULT 1",
            "ALTER TABLE t DROP COLUMN b",
        ] {
            assert_eq!(error(&mut other, second), 1222, "{second} behind {first}");
        }
        assert_eq!(number(&mut other, "SELECT COUNT(*) FROM t WHERE b = 3"), 200, "reading waits for nobody");
        one.run("ROLLBACK").expect("what was done is undone");
        other.run("CREATE INDEX ib ON t (b); DROP INDEX ib ON t; DROP TABLE t").expect("nobody is in the way");
        assert_eq!(number(&mut other, "SELECT COUNT(*) FROM sys.stats WHERE name IN ('sb', 'sc', 'cx')"), 0);
        drop((one, other));
        instance.close().expect("it closes");
        let instance = Instance::open(folder.path()).expect("it opens again");
        assert_eq!(number(&mut used(&instance), "SELECT COUNT(*) FROM sys.stats WHERE name IN ('sb', 'sc', 'cx')"), 0);
    }
}

#[test]
fn ids_of_statistics_and_indexes_never_meet() {
    let (_folder, instance) = instance_with(TABLE);
    let (mut one, mut other) = (used(&instance), used(&instance));
    one.run("BEGIN TRANSACTION; CREATE STATISTICS sc ON t (b, a)").expect("statistics");
    other.run("SET LOCK_TIMEOUT 0").expect("an option");
    assert_eq!(error(&mut other, "CREATE INDEX ib ON t (b)"), 1222);
    one.run("COMMIT").expect("a commit");
    other.run("CREATE INDEX ib ON t (b)").expect("an index");
    let query = "SELECT COUNT(*) - COUNT(DISTINCT stats_id) FROM sys.stats WHERE object_id = OBJECT_ID('t')";
    assert_eq!(number(&mut other, query), 0);
    // And vice versa.
    one.run("BEGIN TRANSACTION; CREATE INDEX ic ON t (b, a)").expect("an index");
    assert_eq!(error(&mut other, "CREATE STATISTICS sd ON t (b)"), 1222);
    one.run("ROLLBACK").expect("undone");
    other.run("CREATE STATISTICS sd ON t (b)").expect("statistics");
    assert_eq!(number(&mut other, query), 0);
}

/// A table with very stale statistics, in a database that updates statistics in the background.
const BEHIND: &str = "
    ALTER DATABASE d SET HOBT_STATISTICS_MAINTENANCE = OFF;
    ALTER DATABASE d SET AUTO_UPDATE_STATISTICS_ASYNC ON;
    CREATE TABLE t (a int NOT NULL, pad char(50) NOT NULL DEFAULT 'x');
    INSERT INTO t (a) SELECT value FROM GENERATE_SERIES(1, 2000);
    CREATE STATISTICS s ON t (a) WITH FULLSCAN;
    INSERT INTO t (a) SELECT value FROM GENERATE_SERIES(2001, 9000);";

const CHANGES: &str = "SELECT p.modification_counter FROM sys.stats AS s
    CROSS APPLY sys.dm_db_stats_properties(s.object_id, s.stats_id) AS p WHERE s.name = 's'";

#[test]
fn a_query_goes_by_old_statistics_and_has_them_updated_behind_it() {
    let (folder, instance) = instance_with(BEHIND);
    let mut session = used(&instance);
    assert_eq!(number(&mut session, CHANGES), 7000);
    session.run("SET SHOWPLAN_ALL ON").expect("an option");
    let (rows, failed) = answer(&mut session, "SELECT pad FROM t WHERE a > 5000");
    assert_eq!(failed, None);
    session.run("SET SHOWPLAN_ALL OFF").expect("an option");
    let expected: f64 = rows[0][8].as_deref().expect("rows").parse().expect("a number");
    assert!(expected < 100.0, "what was known says {expected} rows of 4,000");
    // An update begins by taking the changes so far, and publishes its result when it commits.
    let rows = "SELECT rows FROM sys.dm_db_stats_properties(OBJECT_ID('t'),
        (SELECT stats_id FROM sys.stats WHERE name = 's'))";
    let is_updated = (0..3000).any(|_| {
        session.run("WAITFOR DELAY '00:00:00.010'").expect("a wait");
        number(&mut session, rows) == 9000
    });
    assert!(is_updated, "nobody has updated them");
    assert_eq!(number(&mut session, CHANGES), 0);
    // Neither a database nor an instance waits for pending updates.
    session.run("INSERT INTO t (a) SELECT value FROM GENERATE_SERIES(9001, 30000)").expect("rows");
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM t WHERE a > 29000"), 1000);
    session.run("USE master; DROP DATABASE d").expect("nobody is in the way");
    drop(session);
    instance.close().expect("it closes");
    Instance::open(folder.path()).expect("it opens again").close().expect("it closes");
}

#[test]
fn an_instance_closes_whatever_is_to_be_updated() {
    for closes in [true, false] {
        let (folder, instance) = instance_with(BEHIND);
        let mut session = used(&instance);
        assert_eq!(number(&mut session, "SELECT COUNT(*) FROM t WHERE a > 5000"), 4000);
        drop(session);
        if closes {
            instance.close().expect("nothing is in the way");
        } else {
            drop(instance);
        }
        let instance = Instance::open(folder.path()).expect("it opens again");
        assert_eq!(number(&mut used(&instance), "SELECT COUNT(*) FROM t"), 9000);
    }
}

#[test]
fn a_stream_fits_statistics_whose_columns_have_its_types_all_of_them() {
    let (_folder, instance) = instance_with(
        "CREATE TABLE x (a int NOT NULL, b int NOT NULL); INSERT INTO x VALUES (1, 2), (3, 4); CREATE STATISTICS s ON x (a, b);
         CREATE TABLE y (a int NOT NULL, b varchar(20) NOT NULL); INSERT INTO y VALUES (1, '2'); CREATE STATISTICS s ON y (a, b);
         CREATE TABLE z (a int NOT NULL, b int NOT NULL); CREATE STATISTICS s ON z (a, b)",
    );
    let mut session = used(&instance);
    let (rows, failed) = answer(&mut session, "DBCC SHOW_STATISTICS ('x', s) WITH STATS_STREAM");
    assert_eq!(failed, None);
    let stream = rows[0][0].clone().expect("a stream");
    assert_eq!(error(&mut session, &format!("UPDATE STATISTICS y (s) WITH STATS_STREAM = {stream}")), 9105);
    session.run(&format!("UPDATE STATISTICS z (s) WITH STATS_STREAM = {stream}")).expect("it fits");
}

#[test]
fn what_an_update_has_seen_of_its_own_transaction_counts_once() {
    let (_folder, instance) = instance_with(TABLE);
    let mut session = used(&instance);
    let rows = |session: &mut Session, name: &str| statistics_rows(session, "t", name);
    let known = |session: &mut Session| {
        let query =
            "SELECT CAST(SUM(h.equal_rows + h.range_rows) AS int) FROM sys.dm_db_stats_histogram(OBJECT_ID('t'),
            (SELECT stats_id FROM sys.stats WHERE object_id = OBJECT_ID('t') AND name = 'sb')) AS h";
        number(session, query)
    };
    let insert =
        |from: i64, to: i64| format!("INSERT INTO t SELECT value, value % 10 FROM GENERATE_SERIES({from}, {to})");
    let run =
        |session: &mut Session, batch: &str| session.run(batch).unwrap_or_else(|error| panic!("{batch}: {error}"));
    run(
        &mut session,
        &format!(
            "BEGIN TRANSACTION; {}; DELETE FROM t WHERE a <= 100; UPDATE STATISTICS t (sb) WITH FULLSCAN; {}; COMMIT",
            insert(2001, 3000),
            insert(3001, 3050)
        ),
    );
    assert_eq!(known(&mut session), 2950);
    assert_eq!(rows(&mut session, "cx"), 2950, "statistics that were not updated are as new as the rows");
    // An undone update discards nothing.
    run(
        &mut session,
        &format!(
            "BEGIN TRANSACTION; {}; SAVE TRANSACTION s; UPDATE STATISTICS t (sb) WITH FULLSCAN; ROLLBACK TRANSACTION s; COMMIT",
            insert(3051, 3150)
        ),
    );
    assert_eq!(known(&mut session), 3050);
    run(
        &mut session,
        &format!("BEGIN TRANSACTION; {}; UPDATE STATISTICS t (sb) WITH FULLSCAN; ROLLBACK", insert(3151, 3250)),
    );
    assert_eq!(known(&mut session), 3050);
}
