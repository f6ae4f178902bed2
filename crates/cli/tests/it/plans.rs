//! Plans in the formats that clients read: the columns of `SHOWPLAN_ALL` and `STATISTICS PROFILE`, XML in Microsoft's
//! showplan schema, the entries of `sys.dm_exec_query_stats`, the tree and the page of `hobt sql`.
//!
//! The schema itself is not shipped. [`SHAPES`] contains its rules for the elements in use. With
//! `HOBT_SHOWPLAN_XSD=FILE`, `xmllint` also validates every document against the file.

use std::collections::HashMap;
use std::process::Command;

use hobt::{Event, Flow, Instance, ResultColumn, Session};

use self::Occurs::{Any, Maybe, Once};

fn world() -> (tempfile::TempDir, Instance, Session) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let instance = Instance::open(folder.path()).expect("an instance");
    let mut session = instance.session().expect("a session");
    for batch in [
        "CREATE DATABASE d",
        "USE d",
        "CREATE TABLE t (id int NOT NULL CONSTRAINT pk PRIMARY KEY, a int NOT NULL, b varchar(20) NULL)",
        "CREATE INDEX ia ON t (a); CREATE TABLE h (x int NOT NULL, y int NULL, z varchar(10)); CREATE INDEX iz ON h (z)",
        "INSERT INTO t SELECT value, value % 100, 'n' FROM GENERATE_SERIES(1, 5000)",
        "INSERT INTO h SELECT value, value % 10, 'z' + CAST(value AS varchar(8)) FROM GENERATE_SERIES(1, 2000)",
        "CREATE PROCEDURE p @x int AS IF @x > 1 SELECT y FROM h WHERE x = @x ELSE DELETE FROM h",
    ] {
        session.run(batch).unwrap_or_else(|error| panic!("{batch}: {error}"));
    }
    (folder, instance, session)
}

/// A result set: the names of its columns, and its rows as text.
type ResultSet = (Vec<String>, Vec<Vec<Option<String>>>);

/// The result sets of a batch that must not fail.
fn sets(session: &mut Session, batch: &str) -> Vec<ResultSet> {
    let mut columns: Vec<ResultColumn> = Vec::new();
    let mut sets: Vec<ResultSet> = Vec::new();
    session.execute(batch, &mut |event: Event| {
        match event {
            Event::ResultSet(of) => {
                sets.push((of.iter().map(|column| column.name.clone()).collect(), Vec::new()));
                columns = of;
            }
            Event::Rows(rows) => {
                let cell = |row, column| hobt::cell_text(&columns, &rows, row, column).expect("a text");
                let all = (0..rows.num_rows()).map(|row| (0..columns.len()).map(|at| cell(row, at)).collect());
                sets.last_mut().expect("a result set has begun").1.extend(all);
            }
            Event::Error(error) => panic!("{batch}: {error}"),
            _ => {}
        }
        Flow::Continue
    });
    sets
}

/// The documents that a batch sends.
fn documents(session: &mut Session, batch: &str) -> Vec<String> {
    let is_plan = |set: &ResultSet| set.0 == ["Microsoft SQL Server 2005 XML Showplan"];
    let plans = sets(session, batch).into_iter().filter(is_plan);
    plans.map(|(_, rows)| rows[0][0].clone().expect("a document")).collect()
}

const COLUMNS: [&str; 18] = [
    "StmtText",
    "StmtId",
    "NodeId",
    "Parent",
    "PhysicalOp",
    "LogicalOp",
    "Argument",
    "DefinedValues",
    "EstimateRows",
    "EstimateIO",
    "EstimateCPU",
    "AvgRowSize",
    "TotalSubtreeCost",
    "OutputList",
    "Warnings",
    "Type",
    "Parallel",
    "EstimateExecutions",
];

#[test]
fn showplan_all_is_one_tree_of_the_batch_and_runs_nothing() {
    let (_folder, instance, mut session) = world();
    session.run("SET SHOWPLAN_ALL ON").expect("an option");
    let batch = "EXEC p 3; UPDATE t SET a = 0; SELECT h.x FROM h JOIN t ON t.id = h.x; CREATE TABLE q (a int)";
    let shown = sets(&mut session, batch);
    let [(names, rows)] = shown.as_slice() else { panic!("one result set: {shown:?}") };
    assert_eq!(names, &COLUMNS);
    let number = |row: &[Option<String>], at: usize| row[at].as_deref().and_then(|text| text.parse::<usize>().ok());
    let mut kinds = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        assert_eq!(number(row, 2), Some(at + 1), "nodes are numbered through: {row:?}");
        let parent = number(row, 3).expect("a parent");
        assert!(parent <= at, "a parent stands before: {row:?}");
        let is_operator = row[15].as_deref() == Some("PLAN_ROW");
        assert_eq!(is_operator, row[4].is_some() && row[5].is_some() && row[17].is_some(), "{row:?}");
        if is_operator {
            assert_eq!(number(&rows[parent - 1], 1), number(row, 1), "an operator is its statement's: {row:?}");
        } else {
            kinds.push(row[15].clone().expect("a type"));
        }
    }
    assert_eq!(kinds, ["EXECUTE PROC", "COND", "SELECT", "DELETE", "UPDATE", "SELECT", "CREATE TABLE"]);
    session.run("SET SHOWPLAN_ALL OFF").expect("an option");
    let left = sets(&mut session, "SELECT (SELECT COUNT(*) FROM h), (SELECT MAX(a) FROM t), OBJECT_ID('q')");
    assert_eq!(left[0].1, [[Some("2000".to_owned()), Some("99".to_owned()), None]]);
    drop(session);
    instance.close().expect("a clean end");
}

#[test]
fn statistics_profile_counts_what_operators_did() {
    let (_folder, _instance, mut session) = world();
    session.run("SET STATISTICS PROFILE ON").expect("an option");
    let shown = sets(&mut session, "SELECT x FROM h WHERE y < 3 OPTION (MAXDOP 1)");
    let [_, (names, rows)] = shown.as_slice() else { panic!("rows and their plan: {shown:?}") };
    assert_eq!(names[..2], ["Rows", "Executes"]);
    assert_eq!(names[2..], COLUMNS);
    let counted: Vec<(Option<&str>, Option<&str>)> =
        rows.iter().map(|row| (row[6].as_deref(), row[0].as_deref())).collect();
    assert_eq!(counted, [(None, Some("600")), (Some("Table Scan"), Some("600"))]);
    // A statement that changes rows has a plan and no rows of its own.
    let shown =
        sets(&mut session, "UPDATE h SET y = 1 WHERE x <= 7 OPTION (MAXDOP 1); INSERT INTO h (x) VALUES (1), (2)");
    let first = |set: &ResultSet| set.1.iter().map(|row| row[0].clone().unwrap_or_default()).collect::<Vec<_>>();
    assert_eq!(shown.iter().map(first).collect::<Vec<_>>(), [vec!["7"; 4], vec!["2"; 3]]);
    // The rows of a view are computed before its plan; its operators ran nevertheless.
    let shown = sets(&mut session, "SELECT name FROM sys.schemas WHERE schema_id = 1");
    assert!(shown[1].1.iter().all(|row| row[1].as_deref() == Some("1")), "{shown:?}");
    assert_eq!(shown[1].1.iter().map(|row| row[0].as_deref()).next(), Some(Some("1")));
    // Each statement of a procedure has its own plan; the call has none.
    assert_eq!(sets(&mut session, "EXEC p 5").len(), 2);
}

/// A batch with every operator.
const BATCH: &str = "SELECT * FROM t WHERE id = 5;
SELECT a, COUNT(*) AS n, AVG(id) AS m FROM t WHERE b = 'n<&\"3' GROUP BY a ORDER BY n DESC;
SELECT h.x, t.b FROM h JOIN t ON t.id = h.x WHERE h.y < 3 ORDER BY h.x;
SELECT h.x FROM h JOIN t ON t.id = h.x OPTION (LOOP JOIN);
SELECT h.x FROM h LEFT JOIN t ON t.a = h.x AND t.b > h.z OPTION (HASH JOIN);
SELECT COUNT(*) FROM t JOIN h ON h.x BETWEEN t.a AND t.a + 2 AND h.y < t.id;
SELECT h.x, t.id FROM h LEFT JOIN t ON t.id > h.x AND t.id <= h.y OPTION (LOOP JOIN);
SELECT TOP (5) * FROM t ORDER BY b;
SELECT TOP (5) x FROM h;
SELECT COUNT(*), MAX(x), MIN(x) FROM h;
SELECT * FROM h WHERE z = 'z77';
SELECT b FROM t WITH (INDEX (ia)) WHERE a BETWEEN 3 AND 4;
SELECT x FROM h UNION ALL SELECT id FROM t;
SELECT SUM(x) OVER (PARTITION BY y ORDER BY x) FROM h;
SELECT h.x FROM h WHERE h.x NOT IN (SELECT a FROM t);
SELECT h.x FROM h CROSS JOIN (SELECT TOP (3) id FROM t) AS s;
SELECT x FROM h WHERE x = (SELECT MAX(id) FROM t);
SELECT value FROM GENERATE_SERIES(1, 3);
SELECT CASE WHEN x > 3 THEN 'a' WHEN y IS NULL THEN 'b' END, -x, CAST(x AS varchar(9)), LEN(z) FROM h;
SELECT name FROM sys.tables;
SELECT 1;
WITH r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r;
UPDATE t SET a = a + 1 WHERE id BETWEEN 10 AND 20;
DELETE FROM h WHERE x = 3;
MERGE h USING t ON t.id = h.x WHEN MATCHED THEN UPDATE SET y = t.a WHEN NOT MATCHED THEN INSERT (x) VALUES (t.id);
INSERT INTO h VALUES (1, 2, 'a'), (2, 3, 'b');
INSERT INTO t SELECT id + 10000, a, b FROM t WHERE id < 50;
DECLARE @i int = 3; SET @i = @i + 1; PRINT @i;
IF EXISTS (SELECT 1 FROM h WHERE y = 3) SELECT x FROM h WHERE x = @i ELSE DELETE FROM h;
EXEC p 3;
SELECT x INTO #q FROM h";

/// A star: facts of all keys, and of one kind out of few. The rows of both joins follow from statistics, including
/// those of the table with five rows, and each condition counts once.
#[test]
fn plans_say_what_joins_were_thought_to_give_and_what_they_gave() {
    let (_folder, _instance, mut session) = world();
    for batch in [
        "CREATE TABLE facts (k int NOT NULL, n int NOT NULL); CREATE TABLE members (k int NOT NULL, kind int NOT NULL)",
        "CREATE TABLE kinds (kind int NOT NULL, name varchar(10) NOT NULL)",
        "INSERT INTO facts SELECT value % 1000, value FROM GENERATE_SERIES(1, 20000)",
        "INSERT INTO members SELECT value, value % 5 FROM GENERATE_SERIES(0, 999)",
        "INSERT INTO kinds SELECT value, 'kind ' + CAST(value AS varchar(5)) FROM GENERATE_SERIES(0, 4)",
        "SET STATISTICS PROFILE ON",
    ] {
        sets(&mut session, batch);
    }
    // With a filter pushed down, a join below another returns only the rows that the upper one needs.
    let hint = "OPTION (USE HINT('HOBT_DISABLE_JOIN_FILTER'))";
    let mut joins = |from: &str| -> Vec<(f64, f64)> {
        let found = sets(&mut session, &format!("SELECT SUM(f.n) FROM {from} {hint}"));
        let (columns, rows) = found.last().expect("the plan");
        let at = |name: &str| columns.iter().position(|column| column == name).expect("a column");
        let value = |row: &[Option<String>], name| row[at(name)].as_deref().and_then(|text| text.parse().ok());
        let joins = rows.iter().filter(|row| row[at("LogicalOp")].as_deref() == Some("Inner Join"));
        joins.map(|row| (value(row, "EstimateRows").expect("one"), value(row, "Rows").expect("one"))).collect()
    };
    let star = "facts f JOIN members m ON m.k = f.k JOIN kinds d ON d.kind = m.kind WHERE d.name = 'kind 3'";
    for (from, count, given) in [
        (star, 2, 4000.0),
        ("facts f JOIN members m ON m.k = f.k WHERE m.kind = 3", 1, 4000.0),
        ("facts f JOIN members m ON m.k = f.k WHERE m.kind IN (1, 3)", 1, 8000.0),
    ] {
        let found = joins(from);
        assert_eq!((found.len(), found[0].1), (count, given), "{from}");
        for (estimated, rows) in found {
            let wrong = (estimated / rows).max(rows / estimated);
            assert!(wrong < 1.3, "{from}: {estimated} thought, {rows} there");
        }
    }
}

#[test]
fn plans_as_xml_have_the_shape_of_the_schema() {
    let (_folder, _instance, mut session) = world();
    session.run("SET SHOWPLAN_XML ON").expect("an option");
    let estimated = documents(&mut session, BATCH);
    assert_eq!(estimated.len(), 1, "a batch is one document");
    session.run("SET SHOWPLAN_XML OFF").expect("an option");
    session.run("SET STATISTICS XML ON").expect("an option");
    let actual = documents(&mut session, BATCH);
    assert!(actual.len() > 20, "each statement that has a plan is a document: {}", actual.len());
    for document in estimated.iter().chain(&actual) {
        check(document);
    }
    for name in [
        "AdaptiveJoin",
        "NestedLoops",
        "Hash",
        "StreamAggregate",
        "Sort",
        "TopSort",
        "Top",
        "IndexScan",
        "TableScan",
        "Concat",
        "ComputeScalar",
        "ConstantScan",
        "WindowAggregate",
        "Update",
        "Sequence",
        "StmtCond",
        "TableValuedFunction",
        "StoredProc",
        "Spool",
    ] {
        assert!(estimated[0].contains(&format!("<{name} ")) || estimated[0].contains(&format!("<{name}>")), "{name}");
    }
    assert!(!estimated[0].contains("RunTimeInformation"));
    // The rows of a view are computed before its plan, and are not counted.
    for document in actual.iter().filter(|document| !document.contains("sys.tables")) {
        assert!(document.contains("RunTimeCountersPerThread"), "{document}");
    }
    let scan =
        actual.iter().find(|document| document.contains("ActualRowsRead=\"2000\"")).expect("a scan that filters");
    assert!(scan.contains("ActualLogicalReads="), "{scan}");
}

#[test]
fn a_joins_filter_is_shown_where_it_is_made_and_where_rows_are_left_out_by_it() {
    let (_folder, _instance, mut session) = world();
    let query = "SELECT h.y FROM t JOIN h ON h.x = t.id WHERE t.a = 7 OPTION (HASH JOIN, MAXDOP 1)";
    let [estimated, actual] = ["SHOWPLAN_XML", "STATISTICS XML"].map(|option| {
        session.run(&format!("SET {option} ON")).expect("an option");
        let mut shown = documents(&mut session, query);
        session.run(&format!("SET {option} OFF")).expect("an option");
        shown.remove(0)
    });
    for document in [&estimated, &actual] {
        check(document);
        assert!(document.contains("<Hash BitmapCreator=\"true\">"), "{document}");
        assert!(document.contains("PROBE([Bitmap1001],[d].[dbo].[h].[x])"), "{document}");
        assert!(document.contains("<Intrinsic FunctionName=\"PROBE\">"), "{document}");
    }
    assert!(actual.contains("ActualRows=\"20\" ActualRowsRead=\"2000\""), "{actual}");
    // With a condition on the table itself, which removes rows too.
    session.run("SET STATISTICS XML ON").expect("an option");
    let both = "SELECT h.y FROM t JOIN h ON h.x = t.id WHERE t.a = 7 AND LEN(h.z) > 4 OPTION (HASH JOIN, MAXDOP 1)";
    let both = documents(&mut session, both).remove(0);
    check(&both);
    assert!(both.contains("len([d].[dbo].[h].[z])&gt;(4) AND PROBE("), "{both}");
    // If turned off, it is absent.
    let off = documents(&mut session, &query.replace("MAXDOP 1", "MAXDOP 1, QUERYTRACEON 30003")).remove(0);
    assert!(!off.contains("PROBE") && !off.contains("BitmapCreator"), "{off}");
}

#[test]
fn a_join_that_looks_up_names_the_columns_of_its_outer_side() {
    let (_folder, _instance, mut session) = world();
    session.run("SET SHOWPLAN_ALL ON").expect("an option");
    let mut first = |query: &str| {
        let shown = sets(&mut session, query).remove(0).1;
        let joins = |row: &&Vec<Option<String>>| {
            matches!(row[4].as_deref(), Some("Nested Loops" | "Adaptive Join")) && row[0].as_deref().is_some()
        };
        shown.iter().find(joins).and_then(|row| row[0].clone()).unwrap_or_else(|| panic!("no such join: {shown:?}"))
    };
    for (query, is_outer) in [
        (
            "SELECT t.b FROM t JOIN h ON t.id = h.x OPTION (LOOP JOIN, MAXDOP 1)",
            "Inner Join, OUTER REFERENCES:([d].[dbo].[h].[x])",
        ),
        (
            "SELECT t.b FROM h JOIN t ON t.id = h.x OPTION (LOOP JOIN, MAXDOP 1)",
            "Inner Join, OUTER REFERENCES:([d].[dbo].[h].[x])",
        ),
        (
            "SELECT h.y FROM h LEFT JOIN t ON t.id = h.x OPTION (LOOP JOIN, MAXDOP 1)",
            "Left Outer Join, OUTER REFERENCES:([d].[dbo].[h].[x])",
        ),
        (
            "SELECT h.y FROM t RIGHT JOIN h ON t.id = h.x OPTION (LOOP JOIN, MAXDOP 1)",
            "Left Outer Join, OUTER REFERENCES:([d].[dbo].[h].[x])",
        ),
        (
            "SELECT t.b FROM t JOIN h ON t.id = h.x WHERE h.z = 'z7' OPTION (MAXDOP 1)",
            "HASH:([d].[dbo].[h].[x])=([d].[dbo].[t].[id])",
        ),
        (
            "SELECT t.b FROM h JOIN t ON t.id = h.x WHERE h.z = 'z7' OPTION (MAXDOP 1)",
            "HASH:([d].[dbo].[h].[x])=([d].[dbo].[t].[id])",
        ),
    ] {
        let found = first(query);
        assert!(found.contains(is_outer), "{query}: {found}");
    }
}

#[test]
fn a_scan_is_expected_to_read_the_rows_of_its_partitions_whatever_its_condition_leaves() {
    let (_folder, _instance, mut session) = world();
    for batch in [
        "CREATE PARTITION FUNCTION f (int) AS RANGE RIGHT FOR VALUES (1001)",
        "CREATE PARTITION SCHEME s AS PARTITION f ALL TO ([PRIMARY])",
        "CREATE TABLE p2 (x int NOT NULL, y int NOT NULL) ON s (x)",
        "INSERT INTO p2 SELECT value, value % 50 FROM GENERATE_SERIES(1, 1300)",
        "SET SHOWPLAN_XML ON",
    ] {
        session.run(batch).unwrap_or_else(|error| panic!("{batch}: {error}"));
    }
    for (query, read) in [
        ("SELECT x FROM h WHERE y = 3 OPTION (MAXDOP 1)", 2000),
        ("SELECT x FROM h OPTION (MAXDOP 1)", 2000),
        ("SELECT x FROM p2 WHERE y = 3 OPTION (MAXDOP 1)", 1300),
        ("SELECT x FROM p2 WHERE y = 3 AND x >= 1001 OPTION (MAXDOP 1)", 300),
    ] {
        let document = documents(&mut session, query).remove(0);
        check(&document);
        assert!(document.contains(&format!("EstimatedRowsRead=\"{read}\"")), "{query}: {document}");
    }
}

#[test]
fn plans_of_several_workers_say_what_each_did() {
    let (_folder, _instance, mut session) = world();
    session.run("SET STATISTICS XML ON").expect("an option");
    let [document] = &documents(&mut session, "SELECT y, COUNT(*) FROM h GROUP BY y OPTION (MAXDOP 2)")[..] else {
        panic!("one document")
    };
    check(document);
    if document.contains("DegreeOfParallelism=\"2\"") {
        assert!(document.contains("Thread=\"2\"") && document.contains("PhysicalOp=\"Parallelism\""), "{document}");
    }
}

#[test]
fn loops_say_how_often_they_sought_and_hash_joins_what_they_joined() {
    let (_folder, _instance, mut session) = world();
    for batch in [
        "CREATE STATISTICS s ON h (y) WITH FULLSCAN",
        "ALTER DATABASE d SET HOBT_STATISTICS_MAINTENANCE = OFF, AUTO_UPDATE_STATISTICS OFF",
        "INSERT INTO h SELECT value * 2, 99, 'new' FROM GENERATE_SERIES(1, 700)",
    ] {
        session.run(batch).unwrap_or_else(|error| panic!("{batch}: {error}"));
    }
    let query = "SELECT h.x, t.b FROM h JOIN t ON t.id = h.x WHERE h.y = 99 AND t.a < 50";
    session.run("SET STATISTICS PROFILE ON").expect("an option");
    // For each operator: rows, number of executions, name, and estimated rows.
    let mut counted = |query: &str| -> Vec<[String; 4]> {
        let shown = sets(&mut session, query);
        let cells = |row: &Vec<Option<String>>| [0, 1, 6, 10].map(|at| row[at].clone().unwrap_or_default());
        shown[1].1.iter().map(cells).collect()
    };
    let loops = counted(&format!("{query} OPTION (MAXDOP 1)"));
    let is = |row: &&[String; 4], name: &str| row[2] == name;
    let join = loops.iter().find(|row| is(row, "Nested Loops")).expect("loops");
    assert_eq!([join[0].as_str(), join[1].as_str(), join[3].as_str()], ["350", "1", "1"]);
    let seek = loops.iter().find(|row| is(row, "Clustered Index Seek")).expect("a seek");
    assert_eq!([seek[0].as_str(), seek[1].as_str()], ["350", "700"]);
    let hashed = counted(&format!("{query} OPTION (HASH JOIN, MAXDOP 1)"));
    let join = hashed.iter().find(|row| is(row, "Hash Match")).expect("a hash join");
    assert_eq!([join[0].as_str(), join[1].as_str()], ["350", "1"]);
    session.run("SET STATISTICS PROFILE OFF; SET STATISTICS XML ON").expect("options");
    for document in &documents(&mut session, &format!("{query}; {query} OPTION (MAXDOP 1)")) {
        check(document);
        assert!(document.contains("PhysicalOp=\"Nested Loops\""), "{document}");
        assert!(document.contains("ActualRowsRead=\"700\"") || document.contains("Thread=\"2\""), "{document}");
    }
    session.run("ALTER DATABASE d SET HOBT_STATISTICS_MAINTENANCE = ON; UPDATE STATISTICS h").expect("kept ones");
    let [document] = &documents(&mut session, &format!("{query} OPTION (MAXDOP 1)"))[..] else {
        panic!("one document")
    };
    assert!(document.contains("ActualJoinType=\"Hash Match\""), "{document}");
}

#[test]
fn operators_used_no_more_than_their_statement_and_most_of_it() {
    let (_folder, _instance, mut session) = world();
    session.run("CREATE TABLE n (id int NOT NULL PRIMARY KEY, s varchar(50) NOT NULL)").expect("a table");
    session.collect_plans(true);
    let statements = [
        "INSERT INTO n SELECT value, CONCAT('row ', value) FROM GENERATE_SERIES(1, 20000)",
        "UPDATE n SET s = REVERSE(s) WHERE id <= 15000",
        "SELECT COUNT(*), MAX(n.s) FROM t INNER LOOP JOIN n ON n.id = t.id",
        "SELECT MAX(n.s) FROM t INNER LOOP JOIN n ON n.id = t.a OPTION (MAXDOP 1)",
        "SELECT TOP (5) s FROM n ORDER BY s DESC",
        "SELECT id, s INTO m FROM n",
        "DELETE FROM n WHERE id % 3 > 0",
    ];
    let (mut all, mut used) = (0.0, 0.0);
    for statement in statements {
        let mut costs = Vec::new();
        session.execute(statement, &mut |event: Event| {
            match event {
                Event::Statistics(cost) => costs.push(*cost),
                Event::Error(error) => panic!("{statement}: {error}"),
                _ => {}
            }
            Flow::Continue
        });
        let cost = costs.pop().expect("a cost");
        let root = cost.plan.as_ref().and_then(|plan| plan.root.as_ref()).expect("a plan");
        let operators: f64 = root.all().into_iter().filter_map(|node| node.actual.as_ref()).map(cpu_of).sum();
        let running = cost.cpu.saturating_sub(cost.compile_cpu).as_secs_f64();
        // DataFusion's operators count elapsed time for each uninterrupted piece of work.
        assert!(operators <= 2.0 * running + 0.05, "{statement}: {operators} of {running}: {root:?}");
        let change = root.actual.as_ref().filter(|_| statement.starts_with(['I', 'U', 'D'])).map(cpu_of);
        assert!(change.is_none_or(|change| change >= 0.3 * running), "{statement}: {change:?} of {running}");
        (all, used) = (all + running, used + operators.min(running));
    }
    assert!(used >= 0.4 * all, "{used} of {all} seconds");
}

fn cpu_of(actual: &hobt::plan::Actual) -> f64 {
    actual.cpu().as_secs_f64()
}

#[test]
fn the_page_of_plans_must_have_a_place_before_anything_runs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sql = |batch: &str, page: &str| {
        let page = folder.path().join(page);
        let mut command = Command::new(env!("CARGO_BIN_EXE_hobt"));
        command.args(["sql", "--data"]).arg(folder.path().join("data")).args(["-Q", batch, "--plan", "--plan-page"]);
        command.arg(&page).output().expect("hobt runs")
    };
    let refused = sql("CREATE DATABASE d", "none/plans.html");
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("plans.html cannot be written"), "{said}");
    // Nothing has run, otherwise the database would exist.
    let long = "x".repeat(300);
    let written =
        sql(&format!("CREATE DATABASE d; SELECT * FROM (VALUES (1), (2)) v(a) WHERE '{long}' + STR(a) > ''"), "p.html");
    let text = String::from_utf8_lossy(&written.stdout).into_owned();
    assert!(written.status.success(), "{text}");
    assert!(!text.contains('…') && text.contains(&format!("'{long}'+")), "{text}");
    assert!(folder.path().join("p.html").exists());
}

#[test]
fn plans_and_their_cost_are_kept_until_they_are_freed() {
    let (_folder, _instance, mut session) = world();
    let text = "SELECT x FROM h WHERE y = 4 OPTION (MAXDOP 1)";
    for _ in 0..3 {
        session.run(text).expect("a query");
    }
    session.run("SELECT x FROM h WHERE y = 5 OPTION (MAXDOP 1)").expect("the same but for a constant");
    let stats = "SELECT execution_count, total_rows, max_rows, min_rows, last_dop, SUBSTRING(s.text, 1, 400) AS text,
        CASE WHEN total_elapsed_time >= max_elapsed_time THEN 1 END AS adds_up, COUNT(*) OVER (PARTITION BY query_hash) AS alike,
        q.query_plan
        FROM sys.dm_exec_query_stats AS t CROSS APPLY sys.dm_exec_sql_text(t.sql_handle) AS s
        OUTER APPLY sys.dm_exec_text_query_plan(t.plan_handle, t.statement_start_offset, t.statement_end_offset) AS q
        WHERE s.text LIKE 'SELECT x FROM h WHERE y%'";
    let kept = sets(&mut session, stats).remove(0).1;
    let of_text = kept.iter().find(|row| row[5].as_deref() == Some(text)).expect("the statement");
    let figures: Vec<&str> = of_text.iter().take(8).map(|value| value.as_deref().unwrap_or("NULL")).collect();
    assert_eq!(figures, ["3", "600", "200", "200", "1", text, "1", "2"]);
    let plan = of_text[8].as_deref().expect("its plan: it ran more than once");
    check(plan);
    assert!(plan.contains("QueryPlanHash=") && plan.contains("PhysicalOp=\"Table Scan\""), "{plan}");
    let cached = "SELECT c.usecounts, c.objtype, p.dbid FROM sys.dm_exec_cached_plans AS c
        CROSS APPLY sys.dm_exec_sql_text(c.plan_handle) AS s CROSS APPLY sys.dm_exec_query_plan(c.plan_handle) AS p
        WHERE s.text LIKE 'SELECT x FROM h WHERE y = 4%'";
    let cached = sets(&mut session, cached).remove(0).1;
    assert_eq!(cached[0][..2], [Some("3".to_owned()), Some("Adhoc".to_owned())]);
    // In a loop, a statement runs without a plan from the second time on, and is counted nevertheless.
    session
        .run("DECLARE @i int = 0; WHILE @i < 50 BEGIN UPDATE t SET a = 5 WHERE id = @i; SET @i += 1 END")
        .expect("a loop");
    let counts = "SELECT execution_count, hobt_direct_count FROM sys.dm_exec_query_stats AS t
        CROSS APPLY sys.dm_exec_sql_text(t.sql_handle) AS s WHERE s.text LIKE 'DECLARE @i%'";
    assert_eq!(sets(&mut session, counts).remove(0).1, [[Some("50".to_owned()), Some("49".to_owned())]]);
    session.run("DBCC FREEPROCCACHE").expect("a command");
    assert!(sets(&mut session, stats).remove(0).1.is_empty());
}

#[test]
fn statements_by_key_that_differ_in_constants_are_one_from_the_second_on() {
    let (_folder, _instance, mut session) = world();
    for id in 1..=20 {
        let found = sets(&mut session, &format!("SELECT a, b FROM t WHERE id = {id}")).remove(0);
        assert_eq!(found.1, [[Some(id.to_string()), Some("n".to_owned())]]);
        session.run(&format!("UPDATE t SET b = 'u{id}' WHERE id = {id}")).expect("an update by key");
        session.run(&format!("INSERT t VALUES ({}, 7, 'new{id}')", 6000 + id)).expect("an insert of values");
    }
    let counts = "SELECT s.text, c.objtype, c.usecounts, q.hobt_direct_count, q.statement_start_offset / 2 AS start
        FROM sys.dm_exec_query_stats AS q JOIN sys.dm_exec_cached_plans AS c ON c.plan_handle = q.plan_handle
        CROSS APPLY sys.dm_exec_sql_text(q.sql_handle) AS s
        WHERE s.text LIKE '%FROM t WHERE id = %' OR s.text LIKE '%UPDATE t SET b%' OR s.text LIKE '%INSERT t VALUES (%'
        ORDER BY c.objtype, s.text";
    let found = sets(&mut session, counts).remove(0).1;
    let shown: Vec<String> =
        found.iter().map(|row| row.iter().flatten().cloned().collect::<Vec<_>>().join("|")).collect();
    let expected = [
        "INSERT t VALUES (6001, 7, 'new1')|Adhoc|1|0|0",
        "SELECT a, b FROM t WHERE id = 1|Adhoc|1|0|0",
        "UPDATE t SET b = 'u1' WHERE id = 1|Adhoc|1|0|0",
        "(@1 int)SELECT a, b FROM t WHERE id = @1|Prepared|19|19|8",
        "(@1 int,@2 int,@3 varchar(8000))INSERT t VALUES (@1, @2, @3)|Prepared|19|19|32",
        "(@1 varchar(8000),@2 int)UPDATE t SET b = @1 WHERE id = @2|Prepared|19|19|25",
    ];
    assert_eq!(shown, expected);
    let sum = "SELECT COUNT(*), MIN(b), MAX(b) FROM t WHERE id <= 20 OR id > 6000";
    let values = ["40", "new1", "u9"].map(|value| Some(value.to_owned()));
    assert_eq!(sets(&mut session, sum).remove(0).1, [values]);
}

#[test]
fn with_forced_parameterization_statements_that_differ_in_constants_are_one() {
    let (_folder, _instance, mut session) = world();
    session.run("ALTER DATABASE d SET PARAMETERIZATION FORCED").expect("an option");
    for value in [1, 2, 3, 1] {
        let found = sets(&mut session, &format!("SELECT COUNT(*) FROM h WHERE y = {value} AND z <> 'z'")).remove(0);
        assert_eq!(found.1, [[Some("200".to_owned())]]);
    }
    let counts = "SELECT s.text, c.objtype, q.execution_count FROM sys.dm_exec_query_stats AS q
        JOIN sys.dm_exec_cached_plans AS c ON c.plan_handle = q.plan_handle
        CROSS APPLY sys.dm_exec_sql_text(q.sql_handle) AS s WHERE s.text LIKE '%COUNT(*) FROM h%y =%z <>%'
        AND s.text NOT LIKE '%dm_exec%'";
    let text = "(@1 int,@2 varchar(8000))SELECT COUNT(*) FROM h WHERE y = @1 AND z <> @2";
    let one = [text, "Prepared", "4"].map(|value| Some(value.to_owned()));
    assert_eq!(sets(&mut session, counts).remove(0).1, [one]);
    session.run("ALTER DATABASE d SET PARAMETERIZATION SIMPLE").expect("an option");
    sets(&mut session, "SELECT COUNT(*) FROM h WHERE y = 4 AND z <> 'z'");
    assert_eq!(sets(&mut session, counts).remove(0).1.len(), 2, "texts are their own again");
}

#[test]
fn the_plan_of_a_running_statement_can_be_seen() {
    let (_folder, instance, mut session) = world();
    let mut viewer = instance.session().expect("a session");
    let mut seen = None;
    session.execute("SELECT x, z FROM h WHERE y < 9 OPTION (MAXDOP 1)", &mut |event: Event| {
        if let (Event::Rows(_), None) = (&event, &seen) {
            let running = "SELECT p.query_plan FROM sys.dm_exec_requests AS r \
                           CROSS APPLY sys.dm_exec_query_statistics_xml(r.session_id) AS p";
            // On another thread: this one belongs to the statement.
            let found = std::thread::scope(|scope| scope.spawn(|| sets(&mut viewer, running).remove(0).1).join());
            seen = Some(found.expect("no panic"));
        }
        Flow::Continue
    });
    let seen = seen.expect("it had rows");
    let [row] = seen.as_slice() else { panic!("one statement runs: {seen:?}") };
    let document = row[0].as_deref().expect("its plan");
    check(document);
    assert!(document.contains("ActualRows=") && document.contains("[y]&lt;(9)"), "{document}");
    assert!(sets(&mut viewer, "SELECT * FROM sys.hobt_running_plans").remove(0).1.is_empty(), "nothing runs any more");
}

/// The operators of a document: the number, name and estimated rows of each.
fn operators_of(document: &str) -> HashMap<u64, (String, f64)> {
    let attribute = |element: &str, name: &str| {
        let from = element.find(&format!(" {name}=\"")).expect("it has it") + name.len() + 3;
        element[from..].split('"').next().expect("a value").to_owned()
    };
    let elements = document.split("<RelOp ").skip(1).map(|rest| format!(" {}", rest.split('>').next().unwrap_or("")));
    let read = |element: String| {
        let number = attribute(&element, "NodeId").parse().expect("a number");
        let rows = attribute(&element, "EstimateRows").parse().expect("a number");
        (number, (attribute(&element, "PhysicalOp"), rows))
    };
    elements.map(read).collect()
}

/// Each counted operator is in the plan under the number that the views show: for a finished statement, and for a
/// running one.
#[test]
fn views_of_operators_have_the_numbers_of_the_plan() {
    let (_folder, instance, mut session) = world();
    let mut viewer = instance.session().expect("a session");
    session.run("CREATE TABLE t2 (id int NOT NULL PRIMARY KEY, a int)").expect("a table");
    let spid = sets(&mut session, "SELECT @@SPID").remove(0).1[0][0].clone().expect("a number");
    let view = format!(
        "SELECT DISTINCT node_id, physical_operator_name FROM sys.dm_exec_query_profiles WHERE session_id = {spid}"
    );
    let filters =
        format!("SELECT node_id, table_name, filter_source FROM sys.hobt_query_filters WHERE session_id = {spid}");
    let mut found = std::collections::BTreeSet::new();
    for query in [
        "SELECT COUNT(*) FROM h AS a JOIN h AS b ON a.x = b.x JOIN t ON t.id = b.y WHERE a.y < 3 AND b.x < 1000",
        "SELECT t.b FROM h JOIN t ON t.id = h.x WHERE h.z = 'z7'",
        "SELECT t.b FROM h JOIN t ON t.id = h.x WHERE h.x < 1500 ORDER BY t.b OPTION (LOOP JOIN)",
        "SELECT TOP (3) t.b FROM h JOIN t WITH (INDEX (ia)) ON t.a = h.x AND t.b = 'n' WHERE h.x < 5",
        "SELECT COUNT(*) FROM h LEFT JOIN t ON t.id > h.x AND t.id <= h.y OPTION (LOOP JOIN)",
        "SELECT x, (SELECT MAX(b) FROM t) FROM h WHERE x IN (SELECT a FROM t WHERE id > 17)",
        "INSERT INTO t2 SELECT id, a FROM t WHERE a = 7 AND id NOT IN (SELECT id FROM t2)",
        "UPDATE t2 SET a = 3 FROM t2 JOIN t ON t.id = t2.id WHERE t.a = 7",
        "SELECT COUNT(*), MIN(a) FROM t WHERE id + 0 > 3",
        "SELECT COUNT(*) FROM t",
        "DELETE FROM t2 WHERE id = 7",
    ] {
        for workers in [1, 2] {
            let query = match query.split_once(" OPTION (") {
                Some((query, hint)) => format!("{query} OPTION (MAXDOP {workers}, {hint}"),
                None => format!("{query} OPTION (MAXDOP {workers})"),
            };
            session.run("SET SHOWPLAN_XML ON").expect("an option");
            let plan = operators_of(&documents(&mut session, &query)[0]);
            session.run("SET SHOWPLAN_XML OFF").expect("an option");
            session.run(&query).unwrap_or_else(|error| panic!("{query}: {error}"));
            let counted = sets(&mut viewer, &view).remove(0).1;
            let of = |row: &Vec<Option<String>>| row[0].as_deref().map(|node| node.parse::<u64>().expect("a number"));
            for row in counted.iter().chain(&sets(&mut viewer, &filters).remove(0).1) {
                let node = of(row).unwrap_or_else(|| panic!("{query}: {row:?}"));
                assert!(plan.contains_key(&node), "{query}: {row:?} of {plan:?}");
            }
            for row in &counted {
                let name = row[1].as_deref().expect("a name");
                assert_eq!(plan[&of(row).expect("a number")].0, name, "{query}: {row:?} of {plan:?}");
                found.insert(name.to_owned());
            }
            assert!(!counted.is_empty(), "{query}");
        }
    }
    let wanted =
        ["Adaptive Join", "Clustered Index Scan", "Clustered Index Seek", "Index Seek", "Nested Loops", "Table Scan"];
    assert!(wanted.iter().all(|name| found.contains(*name)), "{found:?}");
    // Conditions exclude rows too, and are shown.
    let sources = |session: &mut Session, viewer: &mut Session, query: &str| -> Vec<String> {
        sets(session, query);
        let rows = sets(viewer, &filters).remove(0).1;
        rows.into_iter()
            .map(|row| format!("{} {}", row[1].as_deref().unwrap_or(""), row[2].as_deref().unwrap_or("")))
            .collect()
    };
    let query = "SELECT h.y FROM t JOIN h ON h.x = t.id WHERE t.a = 7 AND h.y < 9 OPTION (HASH JOIN, MAXDOP 1)";
    let mut both = sources(&mut session, &mut viewer, query);
    both.retain(|source| source.starts_with("h "));
    both.sort();
    assert_eq!(both, ["h condition", "h join"]);
    // While it runs, the estimates are those of the plan too.
    let running = format!(
        "SELECT node_id, physical_operator_name, SUM(estimate_row_count) FROM sys.dm_exec_query_profiles
         WHERE session_id = {spid} GROUP BY node_id, physical_operator_name"
    );
    let query = "SELECT h.x, z FROM h JOIN t ON t.id = h.x WHERE h.y < 9 ORDER BY z OPTION (HASH JOIN, MAXDOP 1)";
    session.run("SET SHOWPLAN_XML ON").expect("an option");
    let plan = operators_of(&documents(&mut session, query)[0]);
    session.run("SET SHOWPLAN_XML OFF").expect("an option");
    let mut seen = Vec::new();
    session.execute(query, &mut |event: Event| {
        if let (Event::Rows(_), true) = (&event, seen.is_empty()) {
            let found = std::thread::scope(|scope| scope.spawn(|| sets(&mut viewer, &running).remove(0).1).join());
            seen = found.expect("no panic");
        }
        Flow::Continue
    });
    assert_eq!(seen.len(), 2, "{seen:?}");
    for row in &seen {
        let [node, name, rows] = [0, 1, 2].map(|at| row[at].as_deref().expect("a value"));
        let (operator, expected) = &plan[&node.parse::<u64>().expect("a number")];
        assert_eq!((operator.as_str(), format!("{expected:.0}").as_str()), (name, rows));
    }
}

/// The attributes of adaptive joins in a document are consistent with their inputs.
fn check_adaptive(document: &str) -> usize {
    let attribute = |element: &str, name: &str| {
        let from = element.find(&format!(" {name}=\""))? + name.len() + 3;
        element[from..].split('"').next().map(str::to_owned)
    };
    let (mut open, mut found) = (Vec::<(String, Vec<String>)>::new(), 0);
    for part in document.split('<').skip(1) {
        if part.starts_with("RelOp ") {
            let tag = part.split('>').next().unwrap_or("").to_owned();
            if let Some((_, inputs)) = open.last_mut() {
                inputs.push(tag.clone());
            }
            open.push((tag, Vec::new()));
        } else if part.starts_with("/RelOp>") {
            let (tag, inputs) = open.pop().expect("one is open");
            if attribute(&tag, "PhysicalOp").as_deref() != Some("Adaptive Join") {
                continue;
            }
            found += 1;
            let number = |tag: &str, name: &str| attribute(tag, name).and_then(|text| text.parse::<f64>().ok());
            let [outer, hashed, sought] = &inputs[..] else { panic!("three inputs: {document}") };
            let is_small = number(outer, "EstimateRows") <= number(&tag, "AdaptiveThresholdRows");
            let thought = attribute(&tag, "EstimatedJoinType");
            assert_eq!(
                thought.as_deref(),
                Some(if is_small { "Nested Loops" } else { "Hash Match" }),
                "{tag}\n{outer}"
            );
            let cost = |tag: &str| number(tag, "EstimatedTotalSubtreeCost").expect("a cost");
            let chosen = if is_small { sought } else { hashed };
            let own = number(&tag, "EstimateCPU").unwrap_or(0.0) + number(&tag, "EstimateIO").unwrap_or(0.0);
            let sum = own + cost(outer) + cost(chosen);
            assert!((cost(&tag) - sum).abs() < 1e-9 * sum, "{tag}\n{inputs:?}");
        }
    }
    found
}

#[test]
fn plans_name_the_statistics_that_estimates_were_made_by() {
    let (_folder, _instance, mut session) = world();
    session.run("CREATE STATISTICS of_y ON h (y) WITH FULLSCAN; CREATE STATISTICS of_b ON t (b)").expect("statistics");
    session.run("INSERT INTO h VALUES (1, 1, 'a'), (2, 2, 'b'), (3, NULL, NULL)").expect("rows");
    let query = "SELECT x FROM h WHERE y = 3 OPTION (MAXDOP 1)";
    session.run("SET SHOWPLAN_XML ON").expect("an option");
    let estimated = documents(&mut session, query).remove(0);
    session.run("SET SHOWPLAN_XML OFF").expect("an option");
    session.run("SET STATISTICS XML ON").expect("an option");
    let actual = documents(&mut session, query).remove(0);
    session.run("SET STATISTICS XML OFF").expect("an option");
    for document in [&estimated, &actual] {
        check(document);
        let read: Vec<&str> = document.split("<StatisticsInfo ").skip(1).collect();
        let [read] = read[..] else { panic!("one of them: {document}") };
        let begin = "Database=\"[d]\" Schema=\"[dbo]\" Table=\"[h]\" Statistics=\"[of_y]\" ModificationCount=\"3\"";
        assert!(read.starts_with(begin) && read.contains("LastUpdate=\"20"), "{read}");
    }
    // Reading all rows needs no statistics.
    session.run("SET SHOWPLAN_XML ON").expect("an option");
    let all = documents(&mut session, "SELECT x FROM h OPTION (MAXDOP 1)").remove(0);
    assert!(!all.contains("StatisticsInfo"), "{all}");
}

#[test]
fn what_a_statement_writes_is_counted_in_pages() {
    let (_folder, _instance, mut session) = world();
    let statements = [
        "SELECT x, z INTO big FROM h CROSS JOIN (SELECT TOP (20) id FROM t) AS s",
        "UPDATE h SET y = 12345 WHERE x > 3",
        "SELECT MAX(x) FROM big",
    ];
    session.run("CHECKPOINT").expect("clean pages");
    for statement in statements {
        session.run(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    let mut written = |text: &str| -> u64 {
        let stats = format!(
            "SELECT total_logical_writes, last_logical_writes FROM sys.dm_exec_query_stats AS q
             CROSS APPLY sys.dm_exec_sql_text(q.sql_handle) AS s WHERE s.text = '{text}'"
        );
        let row = sets(&mut session, &stats).remove(0).1.remove(0);
        assert_eq!(row[0], row[1], "it ran once");
        row[0].as_deref().and_then(|pages| pages.parse().ok()).expect("a number")
    };
    let [load, update, read] = statements.map(&mut written);
    let pages = |session: &mut Session, table: &str| -> u64 {
        let query = format!(
            "SELECT SUM(used_page_count) FROM sys.dm_db_partition_stats WHERE object_id = OBJECT_ID('{table}') AND index_id < 2"
        );
        sets(session, &query).remove(0).1[0][0].as_deref().and_then(|text| text.parse().ok()).expect("a number")
    };
    let (big, h) = (pages(&mut session, "big"), pages(&mut session, "h"));
    assert!((big..big + 40).contains(&load), "{load} pages written of {big}");
    assert!((h - 1..h + 40).contains(&update), "{update} pages written of {h}");
    assert_eq!(read, 0);
}

#[test]
fn adaptive_joins_do_not_contradict_themselves() {
    let (_folder, _instance, mut session) = world();
    let queries = [
        ("SELECT t.b FROM h JOIN t ON t.id = h.x WHERE h.z = 'z7'", "Nested Loops"),
        ("SELECT t.b FROM t JOIN h ON t.id = h.x WHERE h.y < 5", "Hash Match"),
        ("SELECT t.b FROM h LEFT JOIN t ON t.id = h.x WHERE h.y < 2", "Hash Match"),
        ("SELECT t.b FROM t RIGHT JOIN h ON t.id = h.x WHERE h.z = 'z7'", "Nested Loops"),
    ];
    for (query, joined) in queries {
        for workers in [1, 2] {
            let query = format!("{query} OPTION (MAXDOP {workers})");
            session.run("SET SHOWPLAN_XML ON").expect("an option");
            let estimated = documents(&mut session, &query).remove(0);
            session.run("SET SHOWPLAN_XML OFF").expect("an option");
            session.run("SET STATISTICS XML ON").expect("an option");
            let actual = documents(&mut session, &query).remove(0);
            session.run("SET STATISTICS XML OFF").expect("an option");
            for document in [&estimated, &actual] {
                check(document);
                assert_eq!(check_adaptive(document), 1, "{query}: {document}");
                // The creator of the bitmap that a scan probes is marked.
                let creates = document.contains("<AdaptiveJoin BitmapCreator=\"true\"");
                assert_eq!(creates, document.contains("PROBE([Bitmap1001]"), "{document}");
                assert!(document.contains(&format!("EstimatedJoinType=\"{joined}\"")), "{query}: {document}");
            }
            let types: Vec<&str> = actual.split("ActualJoinType=\"").skip(1).collect();
            assert!(!types.is_empty() && types.iter().all(|rest| rest.starts_with(joined)), "{query}: {actual}");
            for counters in actual.split("<RunTimeCountersPerThread ").skip(1) {
                let counters = counters.split('>').next().unwrap_or("");
                assert!(counters.contains("ActualRows=\"0\"") || !counters.contains("Batches=\"0\""), "{counters}");
            }
        }
    }
}

/// How often a child occurs in its parent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Occurs {
    Once,
    Maybe,
    Any,
}

/// The schema's rules for an element: its children in order, and its required attributes. A `|` in a child's name
/// separates alternatives.
type Shape = (&'static str, &'static [(&'static str, Occurs)], &'static [&'static str]);

const OPERATORS: &str = "AdaptiveJoin|ComputeScalar|Concat|ConstantScan|Filter|Generic|Hash|IndexScan|Merge|NestedLoops|\
     Parallelism|Sequence|Sort|Spool|StreamAggregate|TableScan|TableValuedFunction|Top|TopSort|Update|WindowAggregate";
const SCALARS: &str = "Aggregate|Arithmetic|Compare|Const|Convert|Identifier|IF|Intrinsic|Logical";

const SHAPES: &[Shape] = &[
    ("ShowPlanXML", &[("BatchSequence", Once)], &["Version", "Build"]),
    ("BatchSequence", &[("Batch", Once)], &[]),
    ("Batch", &[("Statements", Once)], &[]),
    ("Statements", &[("StmtSimple|StmtCond", Any)], &[]),
    ("StmtSimple", &[("StatementSetOptions", Maybe), ("QueryPlan", Maybe), ("StoredProc", Maybe)], &["StatementText"]),
    ("StmtCond", &[("StatementSetOptions", Maybe), ("Condition", Once), ("Then", Once), ("Else", Maybe)], &[]),
    ("Condition", &[("QueryPlan|ScalarOperator", Maybe)], &[]),
    ("Then", &[("Statements|ScalarOperator", Once)], &[]),
    ("Else", &[("Statements|ScalarOperator", Once)], &[]),
    ("StoredProc", &[("Statements", Once)], &["ProcName"]),
    ("StatementSetOptions", &[], &["ANSI_NULLS", "QUOTED_IDENTIFIER"]),
    ("MemoryGrantInfo", &[], &["SerialRequiredMemory", "SerialDesiredMemory"]),
    (
        "QueryPlan",
        &[
            ("InternalInfo", Maybe),
            ("MemoryGrantInfo", Maybe),
            ("OptimizerStatsUsage", Maybe),
            ("WaitStats", Maybe),
            ("QueryTimeStats", Maybe),
            ("RelOp", Once),
        ],
        &["DegreeOfParallelism"],
    ),
    ("InternalInfo", &[], &["StatisticsMade", "StatisticsTime", "StatisticsCPU"]),
    ("OptimizerStatsUsage", &[("StatisticsInfo", Once), ("StatisticsInfo", Any)], &[]),
    ("StatisticsInfo", &[], &["Statistics", "ModificationCount", "SamplingPercent"]),
    ("WaitStats", &[("Wait", Any)], &[]),
    ("Wait", &[], &["WaitType", "WaitTimeMs", "WaitCount"]),
    ("QueryTimeStats", &[], &["CpuTime", "ElapsedTime"]),
    (
        "RelOp",
        &[("OutputList", Once), ("Warnings", Maybe), ("RunTimeInformation", Maybe), (OPERATORS, Once)],
        &[
            "AvgRowSize",
            "EstimateCPU",
            "EstimateIO",
            "EstimateRebinds",
            "EstimateRewinds",
            "EstimateRows",
            "LogicalOp",
            "NodeId",
            "Parallel",
            "PhysicalOp",
            "EstimatedTotalSubtreeCost",
        ],
    ),
    ("RunTimeInformation", &[("RunTimeCountersPerThread", Any)], &[]),
    ("RunTimeCountersPerThread", &[], &["Thread", "ActualRows", "ActualEndOfScans", "ActualExecutions"]),
    ("Warnings", &[("ColumnsWithNoStatistics|SpillToTempDb|SortSpillDetails|HashSpillDetails", Any)], &[]),
    ("ColumnReference", &[], &["Column"]),
    ("Object", &[], &[]),
    ("DefinedValues", &[("DefinedValue", Any)], &[]),
    ("DefinedValue", &[("ColumnReference", Once), ("ScalarOperator", Maybe)], &[]),
    ("ScalarOperator", &[(SCALARS, Once)], &[]),
    ("Identifier", &[("ColumnReference", Once)], &[]),
    ("Const", &[], &["ConstValue"]),
    ("Compare", &[("ScalarOperator", Once), ("ScalarOperator", Maybe)], &["CompareOp"]),
    ("Logical", &[("ScalarOperator", Any)], &["Operation"]),
    ("Arithmetic", &[("ScalarOperator", Once), ("ScalarOperator", Maybe)], &["Operation"]),
    ("Convert", &[("ScalarOperator", Once)], &["DataType", "Style", "Implicit"]),
    ("Intrinsic", &[("ScalarOperator", Any)], &["FunctionName"]),
    ("Aggregate", &[("ScalarOperator", Any)], &["AggType", "Distinct"]),
    ("IF", &[("Condition", Once), ("Then", Once), ("Else", Once)], &[]),
    ("TableScan", &[("DefinedValues", Maybe), ("Object", Once), ("Predicate", Maybe)], &["Ordered"]),
    (
        "IndexScan",
        &[("DefinedValues", Maybe), ("Object", Once), ("SeekPredicates", Maybe), ("Predicate", Maybe)],
        &["Ordered"],
    ),
    ("SeekPredicates", &[("SeekPredicateNew", Once)], &[]),
    ("SeekPredicateNew", &[("SeekKeys", Once)], &[]),
    ("SeekKeys", &[("Prefix", Maybe), ("StartRange", Maybe), ("EndRange", Maybe)], &[]),
    ("Prefix", &[("RangeColumns", Once), ("RangeExpressions", Once)], &["ScanType"]),
    ("StartRange", &[("RangeColumns", Once), ("RangeExpressions", Once)], &["ScanType"]),
    ("EndRange", &[("RangeColumns", Once), ("RangeExpressions", Once)], &["ScanType"]),
    ("RangeExpressions", &[("ScalarOperator", Any)], &[]),
    ("Predicate", &[("ScalarOperator", Once)], &[]),
    ("Filter", &[("DefinedValues", Maybe), ("RelOp", Once), ("Predicate", Once)], &["StartupExpression"]),
    ("ComputeScalar", &[("DefinedValues", Maybe), ("RelOp", Once)], &[]),
    ("Concat", &[("DefinedValues", Maybe), ("RelOp", Once), ("RelOp", Once), ("RelOp", Any)], &[]),
    ("Sequence", &[("DefinedValues", Maybe), ("RelOp", Once), ("RelOp", Once), ("RelOp", Any)], &[]),
    ("ConstantScan", &[("DefinedValues", Maybe)], &[]),
    ("Spool", &[("DefinedValues", Maybe), ("SeekPredicateNew", Maybe), ("RelOp", Maybe)], &[]),
    ("Generic", &[("DefinedValues", Maybe), ("RelOp", Any)], &[]),
    (
        "Hash",
        &[
            ("DefinedValues", Maybe),
            ("HashKeysBuild", Maybe),
            ("HashKeysProbe", Maybe),
            ("ProbeResidual", Maybe),
            ("RelOp", Once),
            ("RelOp", Maybe),
        ],
        &[],
    ),
    (
        "AdaptiveJoin",
        &[
            ("DefinedValues", Maybe),
            ("HashKeysBuild", Maybe),
            ("HashKeysProbe", Maybe),
            ("ProbeResidual", Maybe),
            ("OuterReferences", Maybe),
            ("RelOp", Once),
            ("RelOp", Once),
            ("RelOp", Once),
        ],
        &["Optimized"],
    ),
    (
        "NestedLoops",
        &[("DefinedValues", Maybe), ("Predicate", Maybe), ("OuterReferences", Maybe), ("RelOp", Once), ("RelOp", Once)],
        &["Optimized"],
    ),
    ("StreamAggregate", &[("DefinedValues", Maybe), ("GroupBy", Maybe), ("RelOp", Once)], &[]),
    ("Sort", &[("DefinedValues", Maybe), ("OrderBy", Once), ("RelOp", Once)], &["Distinct"]),
    ("TopSort", &[("DefinedValues", Maybe), ("OrderBy", Once), ("RelOp", Once)], &["Distinct", "Rows"]),
    ("OrderBy", &[("OrderByColumn", Any)], &[]),
    ("OrderByColumn", &[("ColumnReference", Once)], &["Ascending"]),
    ("Top", &[("DefinedValues", Maybe), ("OffsetExpression", Maybe), ("TopExpression", Maybe), ("RelOp", Once)], &[]),
    ("Parallelism", &[("DefinedValues", Maybe), ("PartitionColumns", Maybe), ("OrderBy", Maybe), ("RelOp", Once)], &[]),
    ("Update", &[("DefinedValues", Maybe), ("Object", Once), ("Object", Any), ("RelOp", Once)], &[]),
    ("TableValuedFunction", &[("DefinedValues", Maybe), ("Object", Maybe)], &[]),
    ("WindowAggregate", &[("DefinedValues", Maybe), ("RelOp", Once)], &[]),
];

/// Elements that contain a list of columns, and those that contain one expression.
const LISTS: [&str; 9] = [
    "OutputList",
    "HashKeysBuild",
    "HashKeysProbe",
    "OuterReferences",
    "GroupBy",
    "PartitionColumns",
    "RangeColumns",
    "ColumnsWithNoStatistics",
    "InnerSideJoinColumns",
];
const EXPRESSIONS: [&str; 3] = ["ProbeResidual", "OffsetExpression", "TopExpression"];

/// An element of a document.
#[derive(Default, Debug)]
struct Element {
    name: String,
    attributes: HashMap<String, String>,
    children: Vec<Element>,
}

/// The root element of a document. Supports only the XML that plans use.
fn parse(document: &str) -> Element {
    let mut open: Vec<Element> = vec![Element::default()];
    for tag in document.split('<').skip(1) {
        let (tag, behind) = tag.split_once('>').unwrap_or_else(|| panic!("a tag without an end: {tag}"));
        assert_eq!(behind, "", "text between elements");
        if let Some(name) = tag.strip_prefix('/') {
            let ended = open.pop().expect("an element is open");
            assert_eq!(ended.name, name);
            open.last_mut().expect("its parent").children.push(ended);
            continue;
        }
        let (tag, is_whole) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
        let mut element = Element { name: name.to_owned(), ..Element::default() };
        while let Some((attribute, behind)) = rest.split_once("=\"") {
            let (value, behind) = behind.split_once('"').expect("a value ends");
            let known = element.attributes.insert(attribute.trim().to_owned(), value.to_owned());
            assert!(known.is_none(), "{attribute} twice in {tag}");
            rest = behind;
        }
        assert_eq!(rest.trim(), "", "in {tag}");
        match is_whole {
            true => open.last_mut().expect("a parent").children.push(element),
            false => open.push(element),
        }
    }
    let mut root = open.pop().expect("the document");
    assert!(open.is_empty() && root.children.len() == 1, "one element that has ended");
    root.children.remove(0)
}

fn check(document: &str) {
    let root = parse(document);
    assert_eq!(root.name, "ShowPlanXML");
    assert_eq!(root.attributes["xmlns"], "http://schemas.microsoft.com/sqlserver/2004/07/showplan");
    check_element(&root, document);
    if let Ok(schema) = std::env::var("HOBT_SHOWPLAN_XSD") {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), document).expect("it can be written");
        let mut command = Command::new("xmllint");
        let output = command.args(["--noout", "--schema", &schema]).arg(file.path()).output().expect("xmllint");
        assert!(output.status.success(), "{}\n{document}", String::from_utf8_lossy(&output.stderr));
    }
}

fn check_element(element: &Element, document: &str) {
    let name = element.name.as_str();
    let list: &[(&str, Occurs)] = &[("ColumnReference", Any)];
    let expression: &[(&str, Occurs)] = &[("ScalarOperator", Once)];
    let (children, required) = match SHAPES.iter().find(|(known, ..)| *known == name) {
        Some((_, children, required)) => (*children, *required),
        None if LISTS.contains(&name) => (list, &[][..]),
        None if EXPRESSIONS.contains(&name) => (expression, &[][..]),
        None => panic!("{name} is not known: {document}"),
    };
    for attribute in required {
        assert!(element.attributes.contains_key(*attribute), "{name} without {attribute}: {document}");
    }
    let mut rest = element.children.iter().peekable();
    for (wanted, occurs) in children {
        let mut is = || rest.next_if(|child| wanted.split('|').any(|one| one.trim() == child.name)).is_some();
        match occurs {
            Once => assert!(is(), "{name} wants {wanted}: {document}"),
            Maybe => drop(is()),
            Any => while is() {},
        }
    }
    assert!(rest.peek().is_none(), "{name} does not have {:?} there: {document}", rest.peek());
    element.children.iter().for_each(|child| check_element(child, document));
}
