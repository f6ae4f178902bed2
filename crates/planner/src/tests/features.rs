//! The meaning of queries: the rows of each construct.

use super::world::{World, query_of};
use hobt_binder::{BindOptions, Binder};
use hobt_types::{MaxLength, SqlType, Value};

fn world() -> World {
    let mut world = World::new();
    world.table(
        "emp (id int NOT NULL, name varchar(20), dept int, pay decimal(9, 2), hired date)",
        "(1, 'Ann', 10, 100.50, '2020-01-01'), (2, 'bob', 10, 200, '2020-02-01'), (3, 'BOB ', 20, 300, '2021-01-01'), \
         (4, 'Cid', NULL, NULL, NULL), (5, NULL, 30, 50, '2019-05-05')",
    );
    world.table("dept (id int NOT NULL, title nvarchar(20) NOT NULL)", "(10, N'Sales'), (20, N'Ops'), (40, N'Void')");
    world.table("nums (n bigint, t tinyint, f float, m money)", "(1, 1, 0.5, 1.25), (NULL, 2, 1.5, 2), (3, 3, 2.5, 3)");
    world
}

#[track_caller]
fn check(world: &World, sql: &str, expected: &[&str]) {
    assert_eq!(world.rows(sql), expected, "{sql}");
}

#[track_caller]
fn check_any(world: &World, sql: &str, expected: &[&str]) {
    let mut expected: Vec<&str> = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(world.sorted_rows(sql), expected, "{sql}");
}

#[test]
fn select_list_and_where() {
    let world = world();
    check(&world, "SELECT 1, 'a' + 'b', 7 / 2, 7 % 4, -2, 1.5 * 2", &["1|ab|3|3|-2|3.0"]);
    check(&world, "SELECT id FROM emp WHERE name = 'BOB' ORDER BY id", &["2", "3"]);
    check(&world, "SELECT id AS x, y = id * 2 FROM emp WHERE id BETWEEN 2 AND 3 ORDER BY x DESC", &["3|6", "2|4"]);
    check(&world, "SELECT id FROM emp WHERE name LIKE 'b%' ORDER BY 1", &["2", "3"]);
    check(&world, "SELECT id FROM emp WHERE dept IS NULL OR NOT (dept <> 10) ORDER BY id", &["1", "2", "4"]);
    check(&world, "SELECT id FROM emp WHERE dept NOT IN (10, 30)", &["3"]);
    check(&world, "SELECT id FROM emp WHERE dept NOT IN (10, NULL)", &[]);
    check(&world, "SELECT id FROM emp WHERE name IN ('ann', 'CID') ORDER BY id", &["1", "4"]);
    check(&world, "SELECT id FROM emp WHERE dept IS DISTINCT FROM 10 ORDER BY id", &["3", "4", "5"]);
    check(&world, "SELECT id FROM emp WHERE hired >= '2020-02-01' ORDER BY id", &["2", "3"]);
    check(&world, "SELECT e.* FROM dbo.dept e WHERE e.id = 40", &["40|Void"]);
    check(&world, "SELECT dbo.dept.title FROM dbo.dept WHERE dept.id = 40", &["Void"]);
    check(&world, "SELECT id, id FROM dept WHERE id = 10 ORDER BY id", &["10|10"]);
}

#[test]
fn expressions_of_choice() {
    let world = world();
    check(
        &world,
        "SELECT CASE dept WHEN 10 THEN 'ten' WHEN 20 THEN 'twenty' ELSE 'other' END FROM emp ORDER BY id",
        &["ten", "ten", "twenty", "other", "other"],
    );
    check(
        &world,
        "SELECT CASE WHEN id > 4 THEN 1.5 WHEN id > 3 THEN 1 END FROM emp ORDER BY id DESC",
        &["1.5", "1.0", "NULL", "NULL", "NULL"],
    );
    check(&world, "SELECT IIF(id = 1, name, 'no') FROM emp WHERE id < 3 ORDER BY id", &["Ann", "no"]);
    check(&world, "SELECT COALESCE(dept, 0), ISNULL(pay, 1), NULLIF(id, 4) FROM emp WHERE id = 4", &["0|1.00|NULL"]);
    check(&world, "SELECT CHOOSE(2, 'a', 'b'), CHOOSE(3, 'a', 'b')", &["b|NULL"]);
    // A branch that is not taken raises no error.
    check(
        &world,
        "SELECT CASE WHEN id = 1 THEN 0 ELSE 10 / (id - 1) END FROM emp WHERE id < 3 ORDER BY id",
        &["0", "10"],
    );
    check(
        &world,
        "SELECT TRY_CAST('x' AS int), TRY_CONVERT(int, '7'), CONVERT(varchar(10), hired, 112) FROM emp WHERE id = 1",
        &["NULL|7|20200101"],
    );
}

#[test]
fn result_types() {
    let world = world();
    assert_eq!(
        world.types(
            "SELECT COUNT(*), COUNT_BIG(*), SUM(id), SUM(n), AVG(pay), MAX(name), SUM(m), SUM(t), AVG(f) FROM emp, nums"
        ),
        "int bigint int bigint decimal(38,6) varchar(20) money int float"
    );
    assert_eq!(
        world.types("SELECT 1, 2147483648, 1.50, 1e3, 'abc', N'é', 0x01, $1"),
        "int decimal(10,0) decimal(3,2) float varchar(3) nvarchar(1) varbinary(1) money"
    );
    assert_eq!(world.types("SELECT pay * (1 - pay), id + pay FROM emp"), "decimal(20,4) decimal(13,2)");
    assert_eq!(
        world.types("SELECT ROW_NUMBER() OVER (ORDER BY id), LAG(name) OVER (ORDER BY id) FROM emp"),
        "bigint varchar(20)"
    );
    assert_eq!(
        world.types("SELECT CASE WHEN id = 1 THEN NULL ELSE hired END, name + 'x' FROM emp"),
        "date varchar(21)"
    );
    assert_eq!(world.types("SELECT NULL AS x UNION ALL SELECT 'ab'"), "varchar(2)");
}

#[test]
fn joins() {
    let world = world();
    check(
        &world,
        "SELECT e.id, d.title FROM emp e JOIN dept d ON e.dept = d.id ORDER BY e.id",
        &["1|Sales", "2|Sales", "3|Ops"],
    );
    check(
        &world,
        "SELECT e.id, d.title FROM emp e LEFT JOIN dept d ON e.dept = d.id AND d.id = 10 ORDER BY e.id",
        &["1|Sales", "2|Sales", "3|NULL", "4|NULL", "5|NULL"],
    );
    check(
        &world,
        "SELECT e.id, d.id FROM emp e RIGHT JOIN dept d ON e.dept = d.id ORDER BY d.id, e.id",
        &["1|10", "2|10", "3|20", "NULL|40"],
    );
    check_any(
        &world,
        "SELECT e.id, d.id FROM emp e FULL JOIN dept d ON e.dept = d.id WHERE e.id IS NULL OR d.id IS NULL",
        &["4|NULL", "5|NULL", "NULL|40"],
    );
    check(&world, "SELECT COUNT(*) FROM emp CROSS JOIN dept", &["15"]);
    check(&world, "SELECT COUNT(*) FROM emp a, emp b WHERE a.name = b.name", &["6"]);
    check(&world, "SELECT a.id, b.id FROM emp a JOIN emp b ON a.name = b.name AND a.id < b.id", &["2|3"]);
}

#[test]
fn groups() {
    let world = world();
    check(
        &world,
        "SELECT dept, COUNT(*), SUM(pay) FROM emp GROUP BY dept ORDER BY dept",
        &["NULL|1|NULL", "10|2|300.50", "20|1|300.00", "30|1|50.00"],
    );
    check(&world, "SELECT COUNT(*), COUNT(dept), COUNT(DISTINCT dept), COUNT(DISTINCT name) FROM emp", &["5|4|3|3"]);
    check(&world, "SELECT SUM(DISTINCT dept), MIN(name), MAX(name) FROM emp", &["60|Ann|Cid"]);
    check(
        &world,
        "SELECT UPPER(name), COUNT(*) FROM emp GROUP BY name ORDER BY name",
        &["NULL|1", "ANN|1", "BOB |2", "CID|1"],
    );
    check(
        &world,
        "SELECT YEAR(hired) + 1 FROM emp WHERE hired IS NOT NULL GROUP BY YEAR(hired) HAVING COUNT(*) = 1 ORDER BY 1",
        &["2020", "2022"],
    );
    check(&world, "SELECT COUNT(*), SUM(id) FROM emp WHERE id > 100", &["0|NULL"]);
    check(&world, "SELECT COUNT(*) FROM emp WHERE id > 100 GROUP BY dept", &[]);
    check(&world, "SELECT 1 FROM emp HAVING COUNT(*) > 4", &["1"]);
    check(&world, "SELECT dept FROM emp GROUP BY dept ORDER BY COUNT(*) DESC, dept DESC", &["10", "30", "20", "NULL"]);
}

#[test]
fn texts_joined() {
    let world = world();
    check(
        &world,
        "SELECT STRING_AGG(name, ', ') WITHIN GROUP (ORDER BY pay DESC) FROM emp WHERE id < 4",
        &["BOB , bob, Ann"],
    );
    check(
        &world,
        "SELECT dept, STRING_AGG(name, '') WITHIN GROUP (ORDER BY name) FROM emp WHERE dept < 30 GROUP BY dept ORDER BY 1",
        &["10|Annbob", "20|BOB "],
    );
    check(&world, "SELECT STRING_AGG(name, ',') FROM emp WHERE id = 1", &["Ann"]);
    assert_eq!(world.error("SELECT SUM(id) WITHIN GROUP (ORDER BY id) FROM emp").number, 10757);
}

#[test]
fn conditions_outside_queries() {
    let world = world();
    let binder = Binder::new(&world, BindOptions::default());
    let truth = |text: &str| {
        let sql = format!("IF {text} SELECT 1");
        let mut batch = hobt_tsql::parse_batch(&sql).unwrap();
        let hobt_tsql::ast::StatementKind::If { branches, .. } = batch.statements.remove(0).kind else {
            panic!("not an IF: {sql}")
        };
        let bound = binder.bind_condition(&branches[0].condition, Default::default()).unwrap();
        if !Binder::needs_query(&bound) {
            return binder.evaluate(&bound).unwrap();
        }
        let rows = world.collect(&binder.bind_scalar_query(bound).unwrap()).unwrap();
        let batch = rows.iter().find(|batch| batch.num_rows() == 1).unwrap();
        hobt_functions::array_value(batch.column(0).as_ref(), 0, SqlType::Bit).unwrap()
    };
    assert_eq!(truth("1 < 2 AND 'a' = 'A'"), Value::Int(1));
    assert_eq!(truth("NULL = 1 OR NOT (NULL = 1)"), Value::Int(0));
    assert_eq!(truth("EXISTS (SELECT * FROM emp WHERE id = 3)"), Value::Int(1));
    assert_eq!(truth("NOT EXISTS (SELECT * FROM emp)"), Value::Int(0));
    assert_eq!(truth("5 IN (SELECT id FROM emp) AND 2 > (SELECT MIN(id) FROM emp)"), Value::Int(1));
    assert_eq!(truth("7 NOT IN (SELECT dept FROM emp)"), Value::Int(0));
}

#[test]
fn grouping_sets() {
    let world = world();
    check(
        &world,
        "SELECT dept, name, COUNT(*), GROUPING(dept), GROUPING_ID(dept, name) FROM emp WHERE dept < 30 \
         GROUP BY ROLLUP (dept, name) ORDER BY GROUPING_ID(dept, name), dept, name",
        &["10|Ann|1|0|0", "10|bob|1|0|0", "20|BOB |1|0|0", "10|NULL|2|0|1", "20|NULL|1|0|1", "NULL|NULL|3|1|3"],
    );
    check(&world, "SELECT COUNT(*) FROM (SELECT dept, id FROM emp GROUP BY CUBE (dept, id)) x (a, b)", &["15"]);
    check(
        &world,
        "SELECT dept, SUM(id) FROM emp GROUP BY GROUPING SETS ((dept), ()) ORDER BY GROUPING(dept), dept",
        &["NULL|4", "10|3", "20|3", "30|5", "NULL|15"],
    );
    check(
        &world,
        "SELECT dept, COUNT(*) FROM emp GROUP BY dept WITH ROLLUP ORDER BY GROUPING(dept), dept",
        &["NULL|1", "10|2", "20|1", "30|1", "NULL|5"],
    );
}

#[test]
fn windows() {
    let world = world();
    check(
        &world,
        "SELECT id, ROW_NUMBER() OVER (PARTITION BY dept ORDER BY id DESC), SUM(id) OVER (ORDER BY id), \
         COUNT(*) OVER (PARTITION BY dept) FROM emp ORDER BY id",
        &["1|2|1|2", "2|1|3|2", "3|1|6|1", "4|1|10|1", "5|1|15|1"],
    );
    check(
        &world,
        "SELECT RANK() OVER (ORDER BY name), DENSE_RANK() OVER (ORDER BY name), NTILE(2) OVER (ORDER BY id) FROM emp ORDER BY id",
        &["2|2|1", "3|3|1", "3|3|1", "5|4|2", "1|1|2"],
    );
    check(
        &world,
        "SELECT LAG(id) OVER (ORDER BY id), LEAD(id, 2, -1) OVER (ORDER BY id), FIRST_VALUE(id) OVER (ORDER BY id DESC) FROM emp ORDER BY id",
        &["NULL|3|5", "1|4|5", "2|5|5", "3|-1|5", "4|-1|5"],
    );
    check(
        &world,
        "SELECT SUM(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM emp ORDER BY id",
        &["3", "6", "9", "12", "9"],
    );
    check(
        &world,
        "SELECT LAST_VALUE(id) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) FROM emp",
        &["5", "5", "5", "5", "5"],
    );
    check(
        &world,
        "SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (ORDER BY (SELECT NULL)) AS n FROM emp) x WHERE n <= 3",
        &["3"],
    );
    check(
        &world,
        "SELECT dept, SUM(SUM(id)) OVER (ORDER BY dept) FROM emp GROUP BY dept ORDER BY dept",
        &["NULL|4", "10|7", "20|10", "30|15"],
    );
    check(
        &world,
        "SELECT MAX(name) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM emp ORDER BY id",
        &["Ann", "bob", "bob", "Cid", "Cid"],
    );
}

#[test]
fn subqueries() {
    let world = world();
    check(&world, "SELECT id FROM emp WHERE pay > (SELECT AVG(pay) FROM emp) ORDER BY id", &["2", "3"]);
    check(
        &world,
        "SELECT id FROM emp e WHERE pay = (SELECT MAX(pay) FROM emp i WHERE i.dept = e.dept) ORDER BY id",
        &["2", "3", "5"],
    );
    check(
        &world,
        "SELECT d.id, (SELECT COUNT(*) FROM emp e WHERE e.dept = d.id) FROM dept d ORDER BY d.id",
        &["10|2", "20|1", "40|0"],
    );
    check(
        &world,
        "SELECT d.id, (SELECT e.name FROM emp e WHERE e.id * 10 = d.id) FROM dept d ORDER BY d.id",
        &["10|Ann", "20|bob", "40|Cid"],
    );
    check(
        &world,
        "SELECT id FROM dept d WHERE EXISTS (SELECT * FROM emp e WHERE e.dept = d.id) ORDER BY id",
        &["10", "20"],
    );
    check(&world, "SELECT id FROM dept d WHERE NOT EXISTS (SELECT 1 FROM emp e WHERE e.dept = d.id)", &["40"]);
    check(&world, "SELECT id FROM dept WHERE id IN (SELECT dept FROM emp) ORDER BY id", &["10", "20"]);
    check(&world, "SELECT id FROM dept WHERE id NOT IN (SELECT dept FROM emp)", &[]);
    check(&world, "SELECT id FROM dept WHERE id NOT IN (SELECT dept FROM emp WHERE dept IS NOT NULL)", &["40"]);
    check(&world, "SELECT id FROM dept WHERE id = 20 OR id NOT IN (SELECT dept FROM emp)", &["20"]);
    check(
        &world,
        "SELECT id FROM emp e WHERE dept NOT IN (SELECT d.id FROM dept d WHERE d.id = e.dept) ORDER BY id",
        &["4", "5"],
    );
    check(&world, "SELECT id FROM emp WHERE id >= ALL (SELECT id FROM emp)", &["5"]);
    check(&world, "SELECT id FROM emp WHERE id < ANY (SELECT e.id FROM emp e WHERE e.id < 3) ORDER BY id", &["1"]);
    check(
        &world,
        "SELECT CASE WHEN EXISTS (SELECT 1 FROM emp e WHERE e.dept = d.id) THEN 'y' ELSE 'n' END FROM dept d ORDER BY id",
        &["y", "y", "n"],
    );
    check(
        &world,
        "SELECT id FROM emp e WHERE EXISTS (SELECT 1 FROM emp i WHERE i.name = e.name AND i.id <> e.id) ORDER BY id",
        &["2", "3"],
    );
    check(
        &world,
        "SELECT id, (SELECT COUNT(*) FROM emp i WHERE i.name = e.name) FROM emp e ORDER BY id",
        &["1|1", "2|2", "3|2", "4|1", "5|0"],
    );
    check(
        &world,
        "SELECT dept, (SELECT title FROM dept d WHERE d.id = e.dept) FROM emp e WHERE dept < 30 GROUP BY dept ORDER BY dept",
        &["10|Sales", "20|Ops"],
    );
}

#[test]
fn top_and_offset() {
    let world = world();
    check(&world, "SELECT TOP (2) id FROM emp ORDER BY id DESC", &["5", "4"]);
    check(&world, "SELECT TOP 50 PERCENT id FROM emp ORDER BY id", &["1", "2", "3"]);
    check(&world, "SELECT TOP (3) WITH TIES name FROM emp ORDER BY name", &["NULL", "Ann", "bob", "BOB "]);
    check(&world, "SELECT id FROM emp ORDER BY id OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY", &["2", "3"]);
    check(&world, "SELECT id FROM emp ORDER BY id OFFSET 3 ROWS", &["4", "5"]);
    check(&world, "SELECT name FROM emp ORDER BY name DESC, id DESC", &["Cid", "BOB ", "bob", "Ann", "NULL"]);
    check(&world, "SELECT id FROM emp ORDER BY dept, pay DESC", &["4", "2", "1", "3", "5"]);
    check(&world, "SELECT TOP (1) d.title FROM emp e JOIN dept d ON d.id = e.dept ORDER BY e.pay DESC", &["Ops"]);
}

#[test]
fn sets_of_rows() {
    let world = world();
    check_any(&world, "SELECT DISTINCT dept FROM emp", &["10", "20", "30", "NULL"]);
    assert_eq!(world.rows("SELECT DISTINCT name FROM emp").len(), 4);
    check(&world, "SELECT DISTINCT name FROM emp WHERE id IN (2, 3) ORDER BY name", &["BOB "]);
    check(&world, "SELECT id FROM dept UNION SELECT dept FROM emp ORDER BY id", &["NULL", "10", "20", "30", "40"]);
    check(
        &world,
        "SELECT COUNT(*) FROM (SELECT id FROM dept UNION ALL SELECT dept FROM emp UNION ALL SELECT 1) x",
        &["9"],
    );
    check(&world, "SELECT id FROM dept INTERSECT SELECT dept FROM emp ORDER BY id", &["10", "20"]);
    check(&world, "SELECT id FROM dept EXCEPT SELECT dept FROM emp", &["40"]);
    check(&world, "SELECT dept FROM emp INTERSECT SELECT NULL", &["NULL"]);
    check(&world, "SELECT name FROM emp WHERE id = 2 INTERSECT SELECT 'BOB'", &["bob"]);
    check(&world, "SELECT 1.5 AS x UNION ALL SELECT 2 ORDER BY x", &["1.5", "2.0"]);
    check(&world, "SELECT name FROM emp WHERE id = 1 UNION SELECT N'ANN'", &["ANN"]);
}

#[test]
fn derived_tables_and_ctes() {
    let world = world();
    check(&world, "SELECT x.a + 1 FROM (SELECT id AS a FROM emp) x WHERE x.a = 5", &["6"]);
    check(&world, "SELECT b, a FROM (VALUES (1, 'x'), (2, NULL)) v (a, b) ORDER BY a DESC", &["NULL|2", "x|1"]);
    check(
        &world,
        "WITH a AS (SELECT id, dept FROM emp), b (n) AS (SELECT COUNT(*) FROM a) SELECT n, (SELECT COUNT(*) FROM a x JOIN a y ON x.id = y.id) FROM b",
        &["5|5"],
    );
    check(
        &world,
        "WITH r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT SUM(n), COUNT(*) FROM r",
        &["15|5"],
    );
    assert_eq!(
        world.error("WITH r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT COUNT(*) FROM r").number,
        530
    );
}

#[test]
fn views_functions_and_apply() {
    let mut world = world();
    world.create("CREATE VIEW rich (who, how_much) AS SELECT name, pay FROM emp WHERE pay > 150");
    world.create("CREATE FUNCTION of_dept (@d int, @least decimal(9, 2) = 0) RETURNS TABLE AS RETURN (SELECT id, pay FROM emp WHERE dept = @d AND pay >= @least)");
    check(&world, "SELECT who FROM dbo.rich ORDER BY how_much", &["bob", "BOB "]);
    check(&world, "SELECT id FROM dbo.of_dept(10, DEFAULT) ORDER BY id", &["1", "2"]);
    check(&world, "SELECT id FROM of_dept('10', 150) f", &["2"]);
    check(
        &world,
        "SELECT d.id, f.id FROM dept d CROSS APPLY of_dept(d.id, 0) f ORDER BY 1, 2",
        &["10|1", "10|2", "20|3"],
    );
    check(
        &world,
        "SELECT d.id, x.n FROM dept d CROSS APPLY (SELECT COUNT(*) AS n FROM emp e WHERE e.dept = d.id) x ORDER BY 1",
        &["10|2", "20|1", "40|0"],
    );
    check(
        &world,
        "SELECT d.id, x.id FROM dept d OUTER APPLY (SELECT e.id FROM emp e WHERE e.dept = d.id) x ORDER BY 1, 2",
        &["10|1", "10|2", "20|3", "40|NULL"],
    );
    check(
        &world,
        "SELECT e.id, v.k, v.x FROM emp e CROSS APPLY (VALUES ('a', e.id), ('b', e.id * 10)) v (k, x) WHERE e.id < 3 ORDER BY 1, 2",
        &["1|a|1", "1|b|10", "2|a|2", "2|b|20"],
    );
    check(
        &world,
        "SELECT x.twice FROM dept d CROSS APPLY (SELECT d.id * 2 AS twice) x ORDER BY 1",
        &["20", "40", "80"],
    );
    check(&world, "SELECT COUNT(*) FROM dept CROSS APPLY (SELECT TOP (2) id FROM emp ORDER BY id) x", &["6"]);
}

#[test]
fn a_known_value_orders_nothing() {
    let world = world();
    let sql = "SELECT TOP 4 id = ROW_NUMBER() OVER (ORDER BY a) FROM (SELECT a = 1 FROM emp) x CROSS JOIN emp y";
    check(&world, sql, &["1", "2", "3", "4"]);
    let plan = world.explain(sql).unwrap();
    assert!(!plan.contains("SortExec") && plan.contains("BoundedWindowAggExec"), "{plan}");
    check(
        &world,
        "SELECT x.a, COUNT(*) FROM emp e LEFT JOIN (SELECT id, a = 1 FROM dept) x ON x.id = e.dept GROUP BY x.a ORDER BY 1",
        &["NULL|2", "1|3"],
    );
}

#[test]
fn every_type_compares_sorts_groups_and_joins() {
    let mut world = World::new();
    world.table(
        "k (i int, b bit, t tinyint, s smallint, g bigint, d decimal(20, 3), m money, r real, f float, dt date, \
         tm time(3), d1 datetime, d2 datetime2(4), sd smalldatetime, c char(5), nc nchar(5), v varchar(9), bi binary(3), \
         vb varbinary(9), u uniqueidentifier)",
        "(1, 1, 1, 1, 1, 1.5, 1.5, 1.5, 1.5, '2020-01-01', '10:00', '2020-01-01 10:00', '2020-01-01 10:00', \
         '2020-01-01 10:00', 'a', N'a', 'a', 0x01, 0x01, '00000000-0000-0000-0000-000000000001'), \
         (2, 0, 2, 2, 2, 2.5, 2.5, 2.5, 2.5, '2020-01-02', '11:00', '2020-01-02 10:00', '2020-01-02 10:00', \
         '2020-01-02 10:00', 'B', N'B', 'B', 0x02, 0x02, '00000000-0000-0000-0000-000000000002'), \
         (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
         NULL, NULL)",
    );
    for column in
        ["b", "t", "s", "g", "d", "m", "r", "f", "dt", "tm", "d1", "d2", "sd", "c", "nc", "v", "bi", "vb", "u"]
    {
        let ascending = if column == "b" { ["3", "2", "1"] } else { ["3", "1", "2"] };
        check(&world, &format!("SELECT i FROM k ORDER BY {column}"), &ascending);
        check(&world, &format!("SELECT COUNT(*) FROM (SELECT {column} FROM k GROUP BY {column}) x"), &["3"]);
        check(&world, &format!("SELECT COUNT(DISTINCT {column}), COUNT({column}) FROM k"), &["2|2"]);
        check(&world, &format!("SELECT x.i FROM k x JOIN k y ON x.{column} = y.{column} ORDER BY 1"), &["1", "2"]);
        check(&world, &format!("SELECT COUNT(*) FROM (SELECT {column} FROM k UNION SELECT {column} FROM k) x"), &["3"]);
        check(&world, &format!("SELECT i FROM k WHERE {column} IN (SELECT {column} FROM k) ORDER BY 1"), &["1", "2"]);
        check(&world, &format!("SELECT i FROM k WHERE {column} = (SELECT y.{column} FROM k y WHERE y.i = 2)"), &["2"]);
        check(
            &world,
            &format!("SELECT COUNT(*) FROM (SELECT LAG({column}) OVER (ORDER BY i) AS x FROM k) y WHERE x IS NULL"),
            &["1"],
        );
        if column != "b" {
            check(&world, &format!("SELECT i FROM k WHERE {column} = (SELECT MAX({column}) FROM k)"), &["2"]);
            check(
                &world,
                &format!(
                    "SELECT COUNT(*) FROM (SELECT MIN({column}) OVER (ORDER BY i) AS x FROM k) y WHERE x IS NOT NULL"
                ),
                &["3"],
            );
        }
    }
}

#[test]
fn correlation_of_every_kind() {
    let world = world();
    // Correlation by other comparisons than equality: a running total, and a count that is 0 if there are no rows.
    check(
        &world,
        "SELECT id, (SELECT SUM(i.id) FROM emp i WHERE i.id <= e.id), (SELECT COUNT(*) FROM emp i WHERE i.id < e.id) FROM emp e ORDER BY id",
        &["1|1|0", "2|3|1", "3|6|2", "4|10|3", "5|15|4"],
    );
    check(
        &world,
        "SELECT id FROM emp e WHERE 2 > (SELECT COUNT(*) FROM emp i WHERE i.pay > e.pay) AND pay > 0 ORDER BY id",
        &["2", "3"],
    );
    // TOP in a subquery and in an APPLY.
    check(
        &world,
        "SELECT d.id, (SELECT TOP (1) e.name FROM emp e WHERE e.dept = d.id ORDER BY e.pay DESC) FROM dept d ORDER BY 1",
        &["10|bob", "20|BOB ", "40|NULL"],
    );
    check(
        &world,
        "SELECT d.id, x.id FROM dept d CROSS APPLY (SELECT TOP (1) e.id FROM emp e WHERE e.dept = d.id ORDER BY e.pay DESC) x ORDER BY 1",
        &["10|2", "20|3"],
    );
    check(
        &world,
        "SELECT d.id, x.id FROM dept d OUTER APPLY (SELECT e.id FROM emp e WHERE e.dept = d.id ORDER BY e.id OFFSET 1 ROWS FETCH NEXT 1 ROWS ONLY) x ORDER BY 1",
        &["10|2", "20|NULL", "40|NULL"],
    );
    // A union, a window, a DISTINCT, a GROUP BY with HAVING.
    check(
        &world,
        "SELECT d.id, x.n FROM dept d CROSS APPLY (SELECT e.id AS n FROM emp e WHERE e.dept = d.id UNION ALL SELECT d.id) x WHERE d.id < 30 ORDER BY 1, 2",
        &["10|1", "10|2", "10|10", "20|3", "20|20"],
    );
    check(
        &world,
        "SELECT d.id, x.n FROM dept d CROSS APPLY (SELECT ROW_NUMBER() OVER (ORDER BY e.id DESC) AS n, e.id FROM emp e WHERE e.dept = d.id) x WHERE x.id = 1",
        &["10|2"],
    );
    check(
        &world,
        "SELECT d.id, x.n FROM dept d CROSS APPLY (SELECT DISTINCT e.dept AS n FROM emp e WHERE e.dept >= d.id) x ORDER BY 1, 2",
        &["10|10", "10|20", "10|30", "20|20", "20|30"],
    );
    check(
        &world,
        "SELECT d.id, x.m FROM dept d CROSS APPLY (SELECT COUNT(*) AS m FROM emp e WHERE e.dept = d.id HAVING COUNT(*) > 0) x ORDER BY 1",
        &["10|2", "20|1"],
    );
    // Correlation over two levels.
    check(
        &world,
        "SELECT d.id FROM dept d WHERE EXISTS (SELECT 1 FROM emp e WHERE e.dept = d.id AND e.pay = (SELECT MAX(i.pay) FROM emp i WHERE i.dept = d.id AND i.id >= e.id)) ORDER BY 1",
        &["10", "20"],
    );
    check(
        &world,
        "SELECT d.id, (SELECT COUNT(*) FROM emp e WHERE EXISTS (SELECT 1 FROM emp i WHERE i.id = e.id AND i.dept = d.id)) FROM dept d ORDER BY 1",
        &["10|2", "20|1", "40|0"],
    );
    check(
        &world,
        "SELECT COUNT(*) FROM emp a WHERE a.id >= ALL (SELECT i.id FROM emp i WHERE i.dept = a.dept)",
        &["4"],
    );
}

#[test]
fn what_a_group_has_compares_with_subqueries() {
    let world = world();
    check(&world, "SELECT dept FROM emp GROUP BY dept HAVING MAX(id) >= ALL (SELECT id FROM emp)", &["30"]);
    check(
        &world,
        "SELECT dept FROM emp GROUP BY dept HAVING MIN(pay) NOT IN (SELECT pay FROM emp WHERE id < 4) ORDER BY 1",
        &["30"],
    );
    check(
        &world,
        "SELECT id FROM emp e WHERE EXISTS (SELECT d.id FROM dept d WHERE d.id = e.dept EXCEPT SELECT 10)",
        &["3"],
    );
}

#[test]
fn long_and_deep_texts() {
    let thread = std::thread::Builder::new().stack_size(hobt_binder::STACK_BYTES).spawn(long_and_deep).unwrap();
    thread.join().unwrap();
}

fn long_and_deep() {
    let world = world();
    let depth = 70;
    let nested = format!("SELECT {}1{}", "(1 + ".repeat(depth), ")".repeat(depth));
    check(&world, &nested, &["71"]);
    let cases = format!("SELECT {}0{}", "CASE WHEN 1 = 1 THEN ".repeat(30), " END".repeat(30));
    check(&world, &cases, &["0"]);
    let conditions = (0..2000).map(|n| format!("id <> {}", n + 100)).collect::<Vec<_>>().join(" AND ");
    check(&world, &format!("SELECT COUNT(*) FROM emp WHERE {conditions}"), &["5"]);
    let items = (0..3000).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    check(&world, &format!("SELECT COUNT(*) FROM emp WHERE id IN ({items})"), &["5"]);
    let chain = vec!["id"; 250].join(" + ");
    check(&world, &format!("SELECT {chain} FROM emp WHERE id = 1"), &["250"]);
    assert_eq!(world.error(&format!("SELECT {} FROM emp", vec!["id"; 3000].join(" + "))).number, 8631);
    let union = vec!["SELECT 1 AS x"; 100].join(" UNION ALL ");
    check(&world, &format!("SELECT SUM(x) FROM ({union}) u"), &["100"]);
}

#[test]
fn variables_and_system_functions() {
    let mut world = world();
    world.set("@n", SqlType::Int, Value::Int(3));
    world.set("@s", SqlType::VarChar(MaxLength::Limited(10)), Value::Text("bob".into()));
    check(&world, "SELECT id FROM emp WHERE id = @N OR name = @s ORDER BY id", &["2", "3"]);
    check(&world, "SELECT TOP (@n) id FROM emp ORDER BY id", &["1", "2", "3"]);
    check(&world, "SELECT @@ROWCOUNT, DB_NAME(), OBJECT_NAME(id) FROM dept WHERE id = 10", &["7|world|object 10"]);
    check(
        &world,
        "SELECT $PARTITION.pf(id), COUNT(*) FROM dept GROUP BY $PARTITION.pf(id) ORDER BY 1",
        &["2|1", "3|2"],
    );
    assert!(!world.bind("SELECT GETDATE(), @n").unwrap().is_cacheable);
    assert!(!world.bind("SELECT @@ROWCOUNT").unwrap().is_cacheable);
    assert!(!world.bind("SELECT RAND(id) FROM emp").unwrap().is_cacheable);
    assert!(world.bind("SELECT @n").unwrap().is_cacheable);
    assert!(world.bind("SELECT id FROM emp").unwrap().is_cacheable);
    let query = query_of("SELECT @n = id, @s += name FROM emp WHERE id = 1");
    let bound = Binder::new(&world, BindOptions::default()).bind_assignments(&query).unwrap();
    assert!(bound.is_row_by_row);
    assert_eq!(bound.query.columns.len(), 2);
    let bind = |sql: &str| Binder::new(&world, BindOptions::default()).bind_assignments(&query_of(sql));
    assert!(!bind("SELECT @n = id, @s = name FROM emp WHERE id = @n").unwrap().is_row_by_row);
    for refused in [
        "SELECT @n = @n + (SELECT MAX(id) FROM dept WHERE id > @n) FROM emp",
        "SELECT @n = id, @s = CASE WHEN @n IN (SELECT id FROM dept) THEN 'x' END FROM emp",
        "SELECT DISTINCT @n = @n + id FROM emp",
        "SELECT @n = @n + id FROM emp ORDER BY 1",
        "SELECT @n = @n + SUM(@n) OVER () FROM emp",
        "SELECT @n = id, @s = CONVERT(varchar(10), hired, @n) FROM emp",
    ] {
        assert_eq!(bind(refused).expect_err(refused).number, 40517, "{refused}");
    }
}

#[test]
fn scalars_outside_queries() {
    let world = world();
    let binder = Binder::new(&world, BindOptions::default());
    let value = |text: &str| {
        let bound = binder.bind_scalar(&hobt_tsql::parse_expression(text).unwrap()).unwrap();
        binder.evaluate(&bound).unwrap()
    };
    assert_eq!(value("1 + 2 * 3"), Value::Int(7));
    assert_eq!(value("UPPER('a') + CAST(5 AS varchar(3))"), Value::Text("A5".into()));
    let bound = binder.bind_scalar(&hobt_tsql::parse_expression("(SELECT MAX(id) FROM emp)").unwrap()).unwrap();
    assert!(Binder::needs_query(&bound));
    let rows = world.collect(&binder.bind_scalar_query(bound).unwrap()).unwrap();
    assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
}

#[test]
fn collations() {
    let mut world = world();
    world.table("c (s varchar(9) COLLATE Latin1_General_BIN2, i varchar(9))", "('a', 'a'), ('A', 'A'), ('a ', 'b')");
    check(&world, "SELECT COUNT(*) FROM c WHERE s = 'a'", &["2"]);
    check(&world, "SELECT COUNT(*) FROM c WHERE i = 'a'", &["2"]);
    check(&world, "SELECT COUNT(*) FROM c WHERE i = 'a' COLLATE Latin1_General_BIN2", &["1"]);
    check(&world, "SELECT COUNT(DISTINCT s), COUNT(DISTINCT i) FROM c", &["2|2"]);
}

#[test]
fn rows_of_constants_are_one_list_in_their_order() {
    let mut world = World::new();
    world.set("@v", SqlType::VarChar(MaxLength::Limited(9)), Value::Text("v".into()));
    let lists = [
        ("SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3", vec!["1", "2", "3"]),
        ("SELECT 3, @v UNION ALL SELECT 2.5, 'w' + @v UNION ALL SELECT NULL, 'x'", vec!["3.0|v", "2.5|wv", "NULL|x"]),
        ("SELECT TOP (2) n FROM (SELECT 7 AS n UNION ALL SELECT 5 UNION ALL SELECT 6) AS d", vec!["7", "5"]),
    ];
    for (sql, rows) in lists {
        assert_eq!(world.rows(sql), rows, "{sql}");
        let plan = world.explain(sql).unwrap();
        assert!(!plan.contains("UnionExec"), "{sql}: partitions are read as they come\n{plan}");
    }
}
