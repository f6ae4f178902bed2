//! A clone's estimates equal those of its source, before and after a restart, although it has no rows.

use hobt::{Instance, Session};

use crate::client::{answer, instance_with, session_in};

const WORLD: &str = "
    CREATE PARTITION FUNCTION pf (int) AS RANGE RIGHT FOR VALUES (20, 40, 60);
    CREATE PARTITION SCHEME ps AS PARTITION pf ALL TO ([PRIMARY]);
    CREATE TABLE fact (id int NOT NULL, p int NOT NULL, v int NOT NULL, pad char(100) NOT NULL DEFAULT 'x');
    CREATE CLUSTERED INDEX cx ON fact (p) ON ps (p);
    CREATE INDEX iv ON fact (v) ON ps (p);
    CREATE TABLE heap (k int NOT NULL, w int NOT NULL, pad char(200) NOT NULL DEFAULT 'y');
    CREATE TABLE small (k int NOT NULL CONSTRAINT pk PRIMARY KEY, n int NOT NULL);
    INSERT INTO fact (id, p, v) SELECT value, value % 80, value % 1000 FROM GENERATE_SERIES(1, 16000);
    INSERT INTO heap (k, w) SELECT value, value % 7 FROM GENERATE_SERIES(1, 5000);
    INSERT INTO small SELECT value, value % 3 FROM GENERATE_SERIES(1, 100);
    CREATE STATISTICS sw ON heap (w);
    INSERT INTO heap (k, w) SELECT value, 2 FROM GENERATE_SERIES(5001, 6000);";

const QUERIES: [&str; 9] = [
    "SELECT id FROM fact WHERE p = 5",
    "SELECT id FROM fact WHERE p BETWEEN 10 AND 30",
    "SELECT id FROM fact WHERE p = 3",
    "SELECT p FROM fact WHERE v = 77",
    "SELECT id FROM fact WHERE v = 77 AND p > 50",
    "DECLARE @p int = 5; SELECT id FROM fact WHERE p = @p",
    "SELECT pad FROM heap WHERE w = 2",
    "SELECT h.pad FROM heap AS h JOIN small AS s ON s.k = h.k WHERE s.n = 1",
    "SELECT w, COUNT(*) FROM heap GROUP BY w",
];

/// The name and the estimated rows of each operator of a query's plan.
fn operators(session: &mut Session, query: &str) -> Vec<(String, f64)> {
    session.run("SET SHOWPLAN_ALL ON").expect("an option");
    let (rows, failed) = answer(session, query);
    session.run("SET SHOWPLAN_ALL OFF").expect("an option");
    assert_eq!(failed, None, "{query}");
    rows.into_iter().filter_map(|row| Some((row[4].clone()?, row[8].as_deref()?.parse().ok()?))).collect()
}

#[test]
fn plans_and_estimates_of_a_clone_are_those_of_its_source() {
    let (folder, instance) = instance_with(WORLD);
    let mut session = session_in(&instance, "d");
    // Create the statistics that the queries need first.
    let first: Vec<_> = QUERIES.iter().map(|query| operators(&mut session, query)).collect();
    let before: Vec<_> = QUERIES.iter().map(|query| operators(&mut session, query)).collect();
    assert_eq!(first.len(), before.len());
    session.run("DBCC CLONEDATABASE (d, c)").expect("a clone");
    let check = |instance: &Instance| {
        let mut clone = session_in(instance, "c");
        for (query, expected) in QUERIES.iter().zip(&before) {
            let found = operators(&mut clone, query);
            // For index ranges the source also reads the tree, which is empty in the clone.
            let is_near = |(left, right): (&(String, f64), &(String, f64))| {
                left.0 == right.0 && (left.1 - right.1).abs() <= 1.0 + 0.1 * right.1
            };
            assert!(
                found.len() == expected.len() && found.iter().zip(expected).all(is_near),
                "{query}: {found:?} in place of {expected:?}"
            );
        }
        let (rows, _) = answer(&mut clone, "SELECT COUNT(*) FROM fact");
        assert_eq!(rows, [[Some("0".to_owned())]]);
    };
    check(&instance);
    drop(session);
    instance.close().expect("it closes");
    let instance = Instance::open(folder.path()).expect("it opens again");
    check(&instance);
    // An index that is rebuilt in the clone shows its real contents, permanently.
    let counts = |instance: &Instance| {
        let text =
            "SELECT SUM(CASE index_id WHEN 1 THEN rows ELSE 0 END), SUM(CASE index_id WHEN 2 THEN rows ELSE 0 END)
                    FROM sys.partitions WHERE object_id = OBJECT_ID('fact')";
        let (rows, failed) = answer(&mut session_in(instance, "c"), text);
        assert_eq!(failed, None);
        rows.concat().into_iter().map(|count| count.expect("a count")).collect::<Vec<String>>()
    };
    assert_eq!(counts(&instance), ["16000", "16000"]);
    session_in(&instance, "c")
        .run("ALTER DATABASE c SET READ_WRITE; ALTER INDEX iv ON fact REBUILD")
        .expect("an index");
    assert_eq!(counts(&instance), ["16000", "0"]);
    instance.close().expect("it closes");
    let instance = Instance::open(folder.path()).expect("it opens again");
    assert_eq!(counts(&instance), ["16000", "0"]);
    let mut session = session_in(&instance, "master");
    session.run("DROP DATABASE c").expect("a clone goes");
    let left = std::fs::read_dir(folder.path()).expect("a folder").filter_map(|entry| entry.ok());
    let name = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    assert!(!left.map(name).any(|name| name.starts_with("d_") && name != "d_log.ldf"), "a clone leaves no files");
}
