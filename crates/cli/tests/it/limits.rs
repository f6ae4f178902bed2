//! Deep or long texts: accepted ones fit on the stack of a batch, all others are rejected with an error.

use hobt::{Instance, Item, Session};

fn open() -> (tempfile::TempDir, Instance, Session) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let instance = Instance::open(folder.path()).expect("an instance");
    let mut session = instance.session().expect("a session");
    session.run("CREATE DATABASE d").expect("a database");
    session.run("USE d; CREATE TABLE t (a int NOT NULL, b varchar(10) NULL)").expect("a table");
    session.run("INSERT INTO t VALUES (1, 'x'), (2, 'y')").expect("rows");
    (folder, instance, session)
}

/// Runs a batch like an embedding program. Returns its first error.
fn error_of(session: &mut Session, batch: &str) -> Option<i32> {
    let mut items = session.query(batch);
    items.find_map(|item| if let Item::Error(error) = item { Some(error.number) } else { None })
}

/// A way to make a text deep or long: its name, its text for a size, a size that runs, and a size that fails with an
/// error. 0 skips one of them.
type Shape = (&'static str, fn(usize) -> String, usize, (usize, i32));

const SHAPES: &[Shape] = &[
    ("a chain", |n| format!("SELECT {} FROM t", list("a", n, " + ")), 250, (100_000, 8631)),
    ("a chain of texts", |n| format!("SELECT {} FROM t", list("b", n, " + ")), 250, (100_000, 8631)),
    ("chains in chains", |n| nested_chain(n, 250), 2, (78, 8631)),
    ("short chains in chains", |n| nested_chain(n, 5), 75, (0, 0)),
    ("joins", |n| format!("SELECT COUNT(*) FROM t{}", joins(n, 0)), 60, (20_000, 8631)),
    ("joins in joins", |n| format!("SELECT COUNT(*) FROM {}", nested_joins(n, 5)), 12, (79, 8631)),
    ("a list of sources", |n| format!("SELECT COUNT(*) FROM t{}", ", t AS x".repeat(n)), 0, (20_000, 8631)),
    ("applied queries", |n| format!("SELECT COUNT(*) FROM t{}", applies(n)), 3, (20_000, 8631)),
    ("unions", |n| format!("SELECT a FROM t{}", " UNION SELECT a FROM t".repeat(n)), 200, (0, 0)),
    ("unions of constants", |n| format!("SELECT 1{}", " UNION SELECT 2".repeat(n)), 1_000, (25_000, 8623)),
    ("exceptions", |n| format!("SELECT a FROM t{}", " EXCEPT SELECT a FROM t".repeat(n)), 200, (0, 0)),
    ("intersections", |n| format!("SELECT a FROM t{}", " INTERSECT SELECT a FROM t".repeat(n)), 100, (0, 0)),
    ("set operators in turn", in_turn, 30, (5_000, 8631)),
    ("queries in queries", |n| format!("{}t{}", "SELECT * FROM (".repeat(n), ") AS d".repeat(n)), 0, (78, 191)),
    ("conditions", |n| format!("SELECT a FROM t WHERE {}", list("a <> 7", n, " AND ")), 5_000, (40_000, 8632)),
    (
        "conditions beside a query",
        |n| format!("SELECT a FROM t WHERE EXISTS (SELECT 1) AND {}", list("a <> 7", n, " AND ")),
        5_000,
        (0, 0),
    ),
    (
        "queries in conditions",
        |n| format!("SELECT a FROM t WHERE {}", list("EXISTS (SELECT 1)", n, " OR ")),
        20,
        (5_000, 8631),
    ),
    ("windows", |n| format!("SELECT {} FROM t", windows(n)), 100, (1_000, 8631)),
    ("windows of one order", |n| format!("SELECT {} FROM t", sums(n, 45)), 5, (100, 8623)),
    ("choices", |n| format!("SELECT CASE {} END FROM t", "WHEN a = 7 THEN 1 ".repeat(n)), 2_000, (0, 0)),
    ("the first of many", |n| format!("SELECT {}b{} FROM t", "COALESCE(".repeat(n), ", b)".repeat(n)), 8, (40, 8632)),
    ("none of many", |n| format!("SELECT {}b{} FROM t", "NULLIF(".repeat(n), ", b)".repeat(n)), 6, (40, 8632)),
    ("names used twice", doubled, 5, (30, 8623)),
    ("constants", |n| format!("SELECT a FROM t WHERE a IN ({})", list("1", n, ", ")), 20_000, (0, 0)),
];

fn list(what: &str, count: usize, separator: &str) -> String {
    vec![what; count].join(separator)
}

/// `((a + a + …) + a + …) + a + …`
fn nested_chain(levels: usize, terms: usize) -> String {
    format!("SELECT {}a{} FROM t", "(".repeat(levels), format!("{})", " + a".repeat(terms)).repeat(levels))
}

fn joins(count: usize, level: usize) -> String {
    (0..count).map(|n| format!(" JOIN t AS t{level}_{n} ON t.a = t{level}_{n}.a")).collect()
}

fn nested_joins(levels: usize, count: usize) -> String {
    (0..levels).fold("t".to_owned(), |text, level| format!("({text}{})", joins(count, level)))
}

fn applies(count: usize) -> String {
    (0..count).map(|n| format!(" CROSS APPLY (SELECT TOP 1 x.a FROM t AS x WHERE x.a >= t.a) AS t{n}")).collect()
}

fn in_turn(count: usize) -> String {
    format!("SELECT a FROM t{}", " EXCEPT SELECT 7 UNION SELECT a FROM t".repeat(count))
}

fn windows(count: usize) -> String {
    (0..count).map(|n| format!("ROW_NUMBER() OVER (ORDER BY a + {n})")).collect::<Vec<_>>().join(", ")
}

/// A select list of `items`, each of which is the sum of so many windows.
fn sums(items: usize, windows: usize) -> String {
    let of_item = |item: usize| {
        let one = |n| format!("SUM(a + {}) OVER (ORDER BY a)", item * windows + n);
        (0..windows).map(one).collect::<Vec<_>>().join(" + ")
    };
    (0..items).map(of_item).collect::<Vec<_>>().join(", ")
}

/// Common table expressions, each of which reads the previous one twice.
fn doubled(count: usize) -> String {
    let step = |n: usize| format!(", c{n} AS (SELECT x.a FROM c{} AS x CROSS JOIN c{0} AS y)", n - 1);
    let steps: String = (1..=count).map(step).collect();
    format!("WITH c0 AS (SELECT a FROM t WHERE a = 1){steps} SELECT COUNT(*) FROM c{count}")
}

#[test]
fn what_is_too_deep_or_too_large_is_an_error_and_what_is_not_runs() {
    let (_folder, instance, mut session) = open();
    for (name, text, runs, (fails, number)) in SHAPES {
        let started = std::time::Instant::now();
        if *runs > 0 {
            assert_eq!(error_of(&mut session, &text(*runs)), None, "{name} {runs}");
        }
        let middle = started.elapsed();
        if *fails > 0 {
            assert_eq!(error_of(&mut session, &text(*fails)), Some(*number), "{name} {fails}");
        }
        println!("{name} {middle:?} {:?}", started.elapsed());
    }
    drop(session);
    instance.close().expect("a clean end");
}

#[test]
fn views_in_views_do_not_add_up_to_more_than_the_stack_holds() {
    let (_folder, _instance, mut session) = open();
    session.run("CREATE VIEW v0 AS SELECT a FROM t").expect("a view");
    let mut refused = None;
    for level in 1..30 {
        let text = format!("{}SELECT a FROM v{}{}", "SELECT * FROM (".repeat(35), level - 1, ") AS d".repeat(35));
        let error = error_of(&mut session, &format!("CREATE VIEW v{level} AS {text}"));
        if let Some(error) = error {
            refused = Some((level, error));
            break;
        }
    }
    assert!(matches!(refused, Some((3.., 8631))), "{refused:?}");
}

#[test]
fn a_long_batch_is_no_deep_one() {
    const BYTES: usize = 8 << 20;
    let (_folder, _instance, mut session) = open();
    let (comment, literal) = ("x".repeat(BYTES), "y".repeat(BYTES));
    let texts = [
        format!("/* {comment} */ INSERT INTO t VALUES (3, 'z')"),
        format!("IF LEN('{literal}') <> {BYTES} THROW 50001, 'another length', 1"),
        format!("DECLARE @n int{}", " SET @n = 1".repeat(50_000)),
    ];
    for text in texts {
        assert_eq!(error_of(&mut session, &text), None, "{} bytes", text.len());
    }
}

#[test]
fn sessions_are_as_many_as_are_opened() {
    let (_folder, instance, mut session) = open();
    let mut sessions: Vec<Session> = (0..1_000).map(|_| instance.session().expect("a session")).collect();
    for session in sessions.iter_mut().step_by(100) {
        session.run("USE d; INSERT INTO t VALUES (@@SPID, 'a session')").expect("a row");
    }
    let counted =
        "IF (SELECT COUNT(*) FROM sys.dm_exec_sessions WHERE is_user_process = 1) <> 1001 THROW 50001, 'lost', 1";
    assert_eq!(error_of(&mut session, counted), None);
    drop(sessions);
}
