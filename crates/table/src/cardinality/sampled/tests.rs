//! The estimates from evaluating expressions on values of a histogram, compared with the actual rows. The rows are made
//! here; the tests of tables cover which conditions are evaluated.

use std::cell::Cell;

use datafusion::logical_expr::lit;
use hobt_types::statistics::{GatherColumns, SortedGatherer};
use hobt_types::{Collation, KeyColumn};

use super::*;

/// A summary of ints, given in their order with the rows of each.
fn known(values: impl Iterator<Item = (i32, f64)>, nulls: f64) -> Summary {
    let column = KeyColumn::new(SqlType::Int, Collation::default(), true, false).expect("an int has keys");
    let mut gatherer = SortedGatherer::new(GatherColumns::new(vec![column]));
    if nulls > 0.0 {
        gatherer.add(&[None], nulls).expect("NULL");
    }
    for (value, rows) in values {
        gatherer.add(&[Some(&value.to_le_bytes())], rows).expect("an int");
    }
    gatherer.finish()
}

fn c() -> Expr {
    Expr::Column(Column::from_name(NAME))
}

/// The estimated number of rows for which a condition is true.
fn rows(summary: &Summary, condition: &Expr) -> f64 {
    let tried = Tried::of(summary, SqlType::Int, &|_| true).expect("it has values");
    tried.share(condition).expect("it can be computed").in_rows(summary.histogram.nulls() / summary.rows) * summary.rows
}

fn is_about(thought: f64, there: f64, factor: f64) -> bool {
    (thought.max(1.0) / there.max(1.0)).max(there.max(1.0) / thought.max(1.0)) <= factor
}

#[test]
fn few_values_are_all_tried() {
    let summary = known((1..=100).map(|value| (value, f64::from(value % 7 + 1))), 50.0);
    for (divisor, rest) in [(2, 0), (3, 1), (10, 7), (50, 49)] {
        let condition = (c() % lit(divisor)).eq(lit(rest));
        let there: f64 = (1..=100).filter(|value| value % divisor == rest).map(|value| f64::from(value % 7 + 1)).sum();
        assert!((rows(&summary, &condition) - there).abs() < 0.5, "% {divisor} = {rest}");
    }
    assert_eq!(rows(&summary, &c().is_null()).round(), 50.0);
}

#[test]
fn of_many_dense_numbers_some_between_the_steps_are_tried() {
    let summary = known((0..100_000).map(|value| (value, 3.0)), 0.0);
    assert!(summary.histogram.steps().len() <= 200);
    for divisor in [2, 7, 10, 64] {
        let condition = (c() % lit(divisor)).eq(lit(1));
        let there = 300_000.0 / f64::from(divisor);
        assert!(is_about(rows(&summary, &condition), there, 1.8), "{divisor}: {}", rows(&summary, &condition));
    }
}

#[test]
fn what_rises_or_falls_is_a_range_to_the_last_row() {
    let summary = known((0..100_000).map(|value| (value, 1.0)), 0.0);
    for (condition, there) in [
        ((c() / lit(10)).eq(lit(777)), 10.0),
        ((c() + lit(5)).lt(lit(1005)), 1000.0),
        ((lit(1000) - c()).gt_eq(lit(0)), 1001.0),
        ((lit(1000) - c()).eq(lit(-5)), 1.0),
        (lit(500).gt(c() * lit(2)), 250.0),
        ((c() / lit(10)).in_list(vec![lit(1), lit(5)], false), 20.0),
        ((c() / lit(10)).gt(lit(20_000)), 0.0),
    ] {
        let thought = rows(&summary, &condition);
        assert!((thought - there).abs() <= 0.01 * there + 1.0, "{condition}: {thought} for {there}");
    }
}

#[test]
fn no_more_values_are_tried_than_may_be() {
    let summary = known((0..100_000).map(|value| (value, 1.0)), 0.0);
    let condition = (c() / lit(10)).eq(lit(777));
    let left = Cell::new(usize::MAX);
    let may_try = |values: usize| left.get().checked_sub(values).inspect(|rest| left.set(*rest)).is_some();
    let tried = Tried::of(&summary, SqlType::Int, &may_try).expect("it has values");
    let whole = tried.share(&condition).expect("it can be computed");
    let needed = usize::MAX - left.get();
    assert!((1024..8192).contains(&needed), "{needed}");
    left.set(needed);
    assert_eq!(tried.share(&condition), Some(whole));
    assert_eq!(left.get(), 0);
    left.set(needed - 1);
    assert_eq!(tried.share(&condition), None);
    // A list costs no more if it has many constants.
    left.set(usize::MAX);
    let list = (0..5000).map(|value| lit(value * 3)).collect();
    assert!(tried.share(&(c() / lit(10)).in_list(list, false)).is_some());
    assert!(usize::MAX - left.get() < 8192);
}

#[test]
fn where_numbers_between_the_steps_are_no_values_the_steps_decide() {
    // Days as numbers: none leaves a remainder above 28 when divided by 100.
    let days =
        (2000..2040).flat_map(|year| (1..=12).flat_map(move |month| (1..=28).map(move |day| (year, month, day))));
    let summary = known(days.map(|(year, month, day)| (year * 10_000 + month * 100 + day, 1.0)), 0.0);
    let condition = (c() % lit(100)).lt_eq(lit(28));
    assert!(rows(&summary, &condition) > 0.95 * summary.rows, "{}", rows(&summary, &condition));
    let of_year = (c() / lit(10_000)).eq(lit(2013));
    assert!(is_about(rows(&summary, &of_year), 336.0, 1.4), "{}", rows(&summary, &of_year));
}

#[test]
fn what_no_value_tried_fulfils_is_a_few_rows() {
    let summary = known((0..100_000).map(|value| (value, 1.0)), 0.0);
    let condition = (c() * c() % lit(9973)).eq(lit(5));
    let thought = rows(&summary, &condition);
    assert!((1.0..500.0).contains(&thought), "{thought}");
}

#[test]
fn an_expression_has_as_many_values_as_are_seen_of_it() {
    let summary = known((0..100_000).map(|value| (value, 1.0)), 10.0);
    let tried = Tried::of(&summary, SqlType::Int, &|_| true).expect("it has values");
    let made = |expr: Expr| tried.made_by(&expr).expect("it can be computed");
    assert_eq!(made(c() % lit(10)), (10.0, true));
    assert_eq!(made(c().is_null()).0, 1.0);
    let (most, _) = made(c() * lit(3));
    assert!((most / 100_000.0 - 1.0).abs() < 0.05, "{most}");
    assert!(!made(c().is_null()).1, "IS NULL is never NULL");
}
