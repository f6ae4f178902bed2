//! Random transactions with savepoints against a model: an undone change leaves the table as it was, on disk too.

use hobt::{Instance, Session};
use hobt_base::SplitMix64;

use crate::client::answer;

/// The numbers in the table. A negative one has a long value too.
type Model = Vec<i64>;

/// Bytes of a long value: more than two pages.
const LONG: i64 = 20_000;
/// The greatest number of rows.
const ROWS_MAX: usize = 4_000;

/// The last row of numbers that a batch sends, and the number of the first error.
fn run(session: &mut Session, batch: &str) -> (Vec<i64>, Option<i32>) {
    let (rows, failed) = answer(session, batch);
    let number = |cell: &Option<String>| cell.as_deref().expect("no NULL").parse().expect("a number");
    let last = rows.last().map(|row| row.iter().map(number).collect());
    (last.unwrap_or_default(), failed.map(|error| error.number))
}

fn check(session: &mut Session, model: &Model, depth: usize, after: &str) {
    let query = "SELECT COUNT(*), COALESCE(SUM(n), 0), COALESCE(SUM(CAST(n AS bigint) * n), 0), \
        COALESCE(SUM(CAST(LEN(body) AS bigint)), 0), \
        (SELECT SUM(rows) FROM sys.partitions WHERE object_id = OBJECT_ID('t')), @@TRANCOUNT FROM t";
    let count = i64::try_from(model.len()).expect("few rows");
    let long = LONG * i64::try_from(model.iter().filter(|n| **n < 0).count()).expect("few rows");
    let squares = model.iter().map(|n| n * n).sum();
    let expected = vec![count, model.iter().sum(), squares, long, count, i64::try_from(depth).expect("0 or 1")];
    assert_eq!(run(session, query), (expected, None), "after {after}");
}

/// A statement that changes the table, the error that it ends with, and the model after it.
fn change(random: &mut SplitMix64, model: &mut Model) -> (String, Option<i32>) {
    let below = |random: &mut SplitMix64, bound: u64| i64::try_from(random.below(bound)).expect("a small number");
    if model.len() > ROWS_MAX {
        model.clear();
        return ("TRUNCATE TABLE t".to_owned(), None);
    }
    let (by, rows) = (2 + below(random, 4), 1 + below(random, 1200));
    let rest = below(random, u64::try_from(by).expect("positive"));
    let meant = |n: &i64| *n >= 0 && n % by == rest;
    match random.below(12) {
        0 | 1 => {
            model.extend([rows, rows + 1]);
            (format!("INSERT t (n) VALUES ({rows}), ({rows} + 1)"), None)
        }
        2 => {
            model.push(-rows);
            (format!("INSERT t VALUES (-{rows}, REPLICATE(CAST('x' AS varchar(max)), {LONG}))"), None)
        }
        3 => {
            model.extend(1..=rows / 10 + 1);
            (format!("INSERT t (n) SELECT value FROM GENERATE_SERIES(1, {})", rows / 10 + 1), None)
        }
        4 | 5 => {
            model.extend(1..=rows);
            (format!("INSERT t WITH (TABLOCK) (n, body) SELECT value, NULL FROM GENERATE_SERIES(1, {rows})"), None)
        }
        6 => {
            model.retain(|n| !meant(n));
            (format!("DELETE t WHERE n >= 0 AND n % {by} = {rest}"), None)
        }
        7 => {
            model.iter_mut().filter(|n| meant(n)).for_each(|n| *n += 1);
            (format!("UPDATE t SET n = n + 1 WHERE n >= 0 AND n % {by} = {rest}"), None)
        }
        8 => {
            model.clear();
            ("TRUNCATE TABLE t".to_owned(), None)
        }
        9 => {
            model.clear();
            ("DROP TABLE t; CREATE TABLE t (n int NOT NULL, body varchar(max))".to_owned(), None)
        }
        10 => {
            let query = format!("SELECT 1 / (value - {rows}), NULL FROM GENERATE_SERIES(1, {rows})");
            (format!("INSERT t WITH (TABLOCK) (n, body) {query}"), Some(8134))
        }
        _ => (format!("INSERT t (n) VALUES ({rows}), (NULL)"), Some(515)),
    }
}

fn live(seed: u64) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let instance = Instance::open(folder.path()).expect("an instance");
    let mut session = instance.session().expect("a session");
    assert_eq!(run(&mut session, "CREATE DATABASE d").1, None);
    assert_eq!(run(&mut session, "USE d; CREATE TABLE t (n int NOT NULL, body varchar(max))").1, None);
    let (mut random, mut model) = (SplitMix64::new(seed), Model::new());
    // The states that a rollback can return to: of the transaction itself first, then of its savepoints.
    let mut places: Vec<Model> = Vec::new();
    for step in 0..80 {
        let (batch, error) = match (random.below(10), places.len()) {
            (0 | 1, 0) => {
                places.push(model.clone());
                ("BEGIN TRAN".to_owned(), None)
            }
            (0 | 1, depth) => {
                places.push(model.clone());
                (format!("SAVE TRAN s{depth}"), None)
            }
            (2, 2..) => {
                let place = 1 + usize::try_from(random.below(places.len() as u64 - 1)).expect("a place");
                places.truncate(place + 1);
                model.clone_from(&places[place]);
                (format!("ROLLBACK TRAN s{place}"), None)
            }
            (3, 1..) => {
                model.clone_from(&places[0]);
                places.clear();
                ("ROLLBACK".to_owned(), None)
            }
            (4, 1..) => {
                places.clear();
                ("COMMIT".to_owned(), None)
            }
            _ => change(&mut random, &mut model),
        };
        let after = format!("step {step} of seed {seed}: {batch}");
        assert_eq!(run(&mut session, &batch).1, error, "{after}");
        check(&mut session, &model, usize::from(!places.is_empty()), &after);
    }
    if let Some(begun) = places.first() {
        model.clone_from(begun);
    }
    // The end of the session rolls back its open transaction.
    drop(session);
    let mut session = instance.session().expect("a session");
    assert_eq!(run(&mut session, "USE d").1, None);
    check(&mut session, &model, 0, &format!("the session of seed {seed}"));
    drop(session);
    instance.close().expect("closed");
    let instance = Instance::open(folder.path()).expect("an instance");
    let mut session = instance.session().expect("a session");
    assert_eq!(run(&mut session, "USE d").1, None);
    check(&mut session, &model, 0, &format!("a restart of seed {seed}"));
}

#[test]
fn what_is_undone_leaves_the_table_as_it_was() {
    (1..=4).for_each(live);
}
