//! Merged and scaled summaries against the whole.

use std::sync::Arc;

use hobt_base::SplitMix64;

use super::*;
use crate::statistics::Gatherer;
use crate::{Collation, KeyColumn, SqlType};

fn gathered(rows: impl Iterator<Item = (i64, i64)>) -> Summary {
    let columns: Arc<[KeyColumn]> =
        (0..2).filter_map(|_| KeyColumn::new(SqlType::BigInt, Collation::Latin1GeneralCiAs, true, false)).collect();
    let mut gatherer = Gatherer::new(columns);
    for (first, second) in rows {
        gatherer.add(&[Some(&first.to_le_bytes()), Some(&second.to_le_bytes())]).expect("numbers");
    }
    gatherer.finish()
}

fn near(estimate: f64, truth: f64, tolerance: f64) {
    assert!((estimate / truth - 1.0).abs() <= tolerance, "{estimate} for {truth}");
}

#[test]
fn partitions_merge_into_the_table() {
    let parts: Vec<Summary> = (0..100).map(|part| gathered((0..1000).map(|row| (part * 1000 + row, row)))).collect();
    let whole = Summary::merged(&parts.iter().collect::<Vec<_>>());
    assert_eq!((whole.rows, whole.sampled_rows, whole.prefixes.len()), (100_000.0, 100_000.0, 2));
    near(whole.distinct(1), 100_000.0, 0.02);
    near(whole.distinct(2), 100_000.0, 0.02);
    near(whole.histogram.distinct(), 100_000.0, 0.02);
    near(whole.histogram.rows(), 100_000.0, 1e-6);
    assert_eq!(whole.average_bytes(2), 16.0);
    // Values that occur in every partition are counted once.
    let parts: Vec<Summary> = (0..100).map(|_| gathered((0..1000).map(|row| (row, row / 2)))).collect();
    let whole = Summary::merged(&parts.iter().collect::<Vec<_>>());
    near(whole.distinct(1), 1000.0, 0.02);
    near(whole.histogram.distinct(), 1000.0, 0.02);
    near(whole.density(1), 0.001, 0.03);
    let key = &whole.histogram.steps()[77].key;
    near(whole.histogram.rows_equal(key).expect("a step"), 100.0, 0.05);
}

#[test]
fn nothing_merges_into_nothing() {
    assert_eq!(Summary::merged(&[]), Summary::default());
    let empty = Summary::empty(2);
    assert_eq!(Summary::merged(&[&empty, &empty]), empty);
    let some = gathered((0..10).map(|row| (row, row)));
    assert_eq!(Summary::merged(&[&empty, &some]), some);
}

#[test]
fn a_sample_tells_of_the_whole() {
    let mut random = SplitMix64::new(9);
    let (rows, sampled) = (1_000_000, 20_000);
    // The number of different values in a column of the whole, and the allowed error of the estimate.
    for (domain, tolerance) in [(1, 0.0), (10, 0.0), (500, 0.01), (5_000, 0.06), (20_000, 0.1)] {
        let sample = gathered((0..sampled).map(|_| (random.below(domain) as i64, 0)));
        let whole = sample.scaled_to(rows as f64);
        assert_eq!((whole.rows, whole.sampled_rows), (rows as f64, sampled as f64));
        near(whole.histogram.rows(), rows as f64, 1e-6);
        near(whole.distinct(1), domain as f64, tolerance + 0.02);
        assert_eq!(whole.average_bytes(2), 16.0);
    }
    // A key column: every value of the sample was seen once, so every row has its own.
    let mut taken = 0;
    let sample = gathered((0..sampled).map(|_| {
        taken += 1 + random.below(99) as i64;
        (taken, 0)
    }));
    let whole = sample.scaled_to(rows as f64);
    near(whole.distinct(1), rows as f64, 0.05);
    near(whole.histogram.rows(), rows as f64, 1e-6);
    assert!(whole.histogram.steps().iter().all(|step| step.equal_rows < 1.2), "no value has many rows");
    // Samples of partitions, scaled, then merged.
    let parts: Vec<Summary> = (0..20)
        .map(|part| gathered((0..2_000).map(|row| (part * 1_000_000 + row * 31, 0))).scaled_to(50_000.0))
        .collect();
    let whole = Summary::merged(&parts.iter().collect::<Vec<_>>());
    assert_eq!((whole.rows, whole.sampled_rows), (1_000_000.0, 40_000.0));
    near(whole.distinct(1), 1_000_000.0, 0.05);
}

#[test]
fn an_empty_sample_and_the_whole_are_not_scaled() {
    assert_eq!(Summary::empty(1).scaled_to(100.0).histogram.rows(), 0.0);
    let summary = gathered((0..10).map(|row| (row, row)));
    assert_eq!(summary.scaled_to(10.0), summary);
}

#[test]
fn rows_that_nobody_has_seen_lie_between_the_values_of_the_sample() {
    let sample = gathered((0..2_000).map(|row| (row % 20 * 10, 0)));
    let whole = sample.said_to_have(1_000_000.0);
    assert_eq!(whole.rows, 1_000_000.0);
    near(whole.histogram.rows(), 1_000_000.0, 1e-9);
    for (seen, said) in sample.histogram.steps().iter().zip(whole.histogram.steps()) {
        assert_eq!(seen.equal_rows, said.equal_rows, "what was seen stays as frequent");
    }
    for step in &whole.histogram.steps()[1..] {
        near(step.range_rows, 998_000.0 / 19.0, 1e-9);
        near(step.distinct_range_rows, 1.0, 0.01);
    }
    near(whole.distinct(1), 39.0, 0.02);
    assert_eq!(sample.said_to_have(10.0), sample, "what pages show is there");
    assert_eq!(Summary::empty(1).said_to_have(10.0), Summary::empty(1));
    let one = gathered((0..5).map(|_| (7, 0))).said_to_have(f64::MAX);
    near(one.histogram.rows(), 1e18, 1e-9);
}
