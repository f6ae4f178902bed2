//! The 22 queries of TPC-H over empty tables and over a few rows: each binds, plans and runs.

use super::world::World;

const SCHEMA: &str = include_str!("../../../../tests/tpch/schema.sql");

const QUERIES: [&str; 22] = [
    include_str!("../../../../tests/tpch/q01.sql"),
    include_str!("../../../../tests/tpch/q02.sql"),
    include_str!("../../../../tests/tpch/q03.sql"),
    include_str!("../../../../tests/tpch/q04.sql"),
    include_str!("../../../../tests/tpch/q05.sql"),
    include_str!("../../../../tests/tpch/q06.sql"),
    include_str!("../../../../tests/tpch/q07.sql"),
    include_str!("../../../../tests/tpch/q08.sql"),
    include_str!("../../../../tests/tpch/q09.sql"),
    include_str!("../../../../tests/tpch/q10.sql"),
    include_str!("../../../../tests/tpch/q11.sql"),
    include_str!("../../../../tests/tpch/q12.sql"),
    include_str!("../../../../tests/tpch/q13.sql"),
    include_str!("../../../../tests/tpch/q14.sql"),
    include_str!("../../../../tests/tpch/q15.sql"),
    include_str!("../../../../tests/tpch/q16.sql"),
    include_str!("../../../../tests/tpch/q17.sql"),
    include_str!("../../../../tests/tpch/q18.sql"),
    include_str!("../../../../tests/tpch/q19.sql"),
    include_str!("../../../../tests/tpch/q20.sql"),
    include_str!("../../../../tests/tpch/q21.sql"),
    include_str!("../../../../tests/tpch/q22.sql"),
];

fn world() -> World {
    let mut world = World::new();
    for batch in hobt_tsql::split_batches(SCHEMA) {
        world.create(&batch.text);
    }
    world
}

#[test]
fn every_query_runs_over_empty_tables() {
    let world = world();
    let mut failures = Vec::new();
    for (place, sql) in QUERIES.iter().enumerate() {
        if let Err(error) = world.try_rows(sql) {
            failures.push(format!("Q{}: {} {error}", place + 1, error.header()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn joins_on_equal_keys_are_hash_joins() {
    let world = world();
    for (place, sql) in QUERIES.iter().enumerate() {
        let plan = world.explain(sql).unwrap();
        // Only the scalar comparisons of Q11, Q15 and Q22 are not equalities.
        let is_allowed = matches!(place + 1, 11 | 15 | 22);
        assert!(is_allowed || !plan.contains("NestedLoopJoin"), "Q{}\n{plan}", place + 1);
    }
}
