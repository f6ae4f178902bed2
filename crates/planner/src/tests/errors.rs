//! Refused statements, with SQL Server's error number and text.

use super::world::World;

fn world() -> World {
    let mut world = World::new();
    world.table("t (a int NOT NULL, b varchar(10), d date)", "(1, 'x', '2020-01-01'), (2, NULL, NULL)");
    world.table("u (a int, g uniqueidentifier)", "(1, CAST(NULL AS uniqueidentifier))");
    world.table("bin (s varchar(9) COLLATE Latin1_General_BIN2)", "('x')");
    world
}

fn check(world: &World, sql: &str, number: i32, message: &str) {
    let error = world.error(sql);
    assert_eq!((error.number, error.message.as_str()), (number, message), "{sql}");
}

#[test]
fn names_that_mean_nothing() {
    let world = world();
    check(&world, "SELECT c FROM t", 207, "Invalid column name 'c'.");
    check(&world, "SELECT t.c FROM t", 207, "Invalid column name 'c'.");
    check(&world, "SELECT x.a FROM t", 4104, "The multi-part identifier \"x.a\" could not be bound.");
    check(&world, "SELECT * FROM nowhere", 208, "Invalid object name 'nowhere'.");
    check(&world, "SELECT a FROM t, u", 209, "Ambiguous column name 'a'.");
    check(&world, "SELECT nothing(1)", 195, "'nothing' is not a recognized built-in function name.");
    check(&world, "SELECT @x", 137, "Must declare the scalar variable \"@x\".");
    let prefix = "The column prefix 'x' does not match with a table name or alias name used in the query.";
    check(&world, "SELECT x.* FROM t", 107, prefix);
    assert_eq!(world.error("SELECT 1\nFROM t WHERE\n  c = 1").position.unwrap().line, 3);
    assert_eq!(world.error("SELECT 1 FROM t, t").number, 1013);
}

#[test]
fn groups_and_aggregates() {
    let world = world();
    check(
        &world,
        "SELECT b, COUNT(*) FROM t",
        8120,
        "Column 't.b' is invalid in the select list because it is not contained in either an aggregate function or the \
         GROUP BY clause.",
    );
    assert_eq!(world.error("SELECT * FROM t GROUP BY a").number, 8120);
    assert_eq!(world.error("SELECT a FROM t GROUP BY a HAVING b = 'x'").number, 8121);
    assert_eq!(world.error("SELECT a FROM t GROUP BY a ORDER BY b").number, 8127);
    assert_eq!(world.error("SELECT a FROM t WHERE COUNT(*) > 1").number, 147);
    assert_eq!(world.error("SELECT SUM(COUNT(*)) FROM t").number, 130);
    assert_eq!(world.error("SELECT SUM(b) FROM t").number, 8117);
    assert_eq!(world.error("SELECT a FROM t WHERE ROW_NUMBER() OVER (ORDER BY a) = 1").number, 4108);
    assert_eq!(world.error("SELECT ROW_NUMBER() OVER (PARTITION BY a) FROM t").number, 4112);
    assert_eq!(world.error("SELECT 1 FROM t GROUP BY 1").number, 164);
}

#[test]
fn shapes_of_queries() {
    let world = world();
    assert_eq!(world.error("SELECT (SELECT a, b FROM t)").number, 116);
    assert_eq!(world.error("SELECT 1 UNION SELECT 1, 2").number, 205);
    assert_eq!(world.error(&format!("SELECT {}1", "1, ".repeat(4096))).number, 1056);
    assert_eq!(world.error("SELECT * FROM (SELECT 1) x").number, 8155);
    assert_eq!(world.error("SELECT * FROM (SELECT 1 AS a, 2 AS a) x").number, 8156);
    assert_eq!(world.error("SELECT * FROM (SELECT 1, 2) x (a)").number, 8158);
    assert_eq!(world.error("SELECT * FROM (SELECT 1) x (a, b)").number, 8159);
    assert_eq!(world.error("SELECT * FROM (SELECT a FROM t ORDER BY a) x").number, 1033);
    assert_eq!(world.error("SELECT a FROM t ORDER BY 2").number, 108);
    assert_eq!(world.error("SELECT DISTINCT a FROM t ORDER BY d").number, 145);
    assert_eq!(world.error("SELECT a FROM t UNION SELECT a FROM u ORDER BY a + 1").number, 104);
    assert_eq!(world.error("SELECT LEN()").number, 174);
    assert_eq!(world.error("SELECT *").number, 263);
}

#[test]
fn types_that_do_not_go_together() {
    let world = world();
    assert_eq!(world.error("SELECT 1 FROM t WHERE d = 1").number, 206);
    assert_eq!(world.error("SELECT a + d FROM t").number, 206);
    assert_eq!(world.error("SELECT 1 FROM t JOIN bin ON t.b = bin.s").number, 468);
    assert_eq!(world.error("SELECT CAST(d AS int) FROM t").number, 529);
    assert_eq!(world.error("SELECT CAST(1 AS nothing)").number, 243);
}

#[test]
fn errors_of_the_run() {
    let world = world();
    assert_eq!(world.error("SELECT a / (a - 1) FROM t").number, 8134);
    assert_eq!(world.error("SELECT CAST(b AS int) FROM t").number, 245);
    assert_eq!(world.error("SELECT 1 FROM t WHERE a = 'x'").number, 245);
    assert_eq!(world.error("SELECT a * 2000000000 FROM t").number, 8115);
    assert_eq!(world.error("SELECT (SELECT a FROM t)").number, 512);
    assert_eq!(world.error("SELECT (SELECT t.a FROM t WHERE t.a >= u.a) FROM u").number, 512);
}
