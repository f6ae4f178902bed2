//! Hand-written histograms, and the estimates that they must give.

use super::*;

fn key(number: u32) -> Vec<u8> {
    let mut key = vec![0x01];
    key.extend_from_slice(&(number ^ 0x8000_0000).to_be_bytes());
    key
}

fn step(number: u32, range_rows: f64, distinct_range_rows: f64, equal_rows: f64) -> Step {
    Step { key: key(number), value: Some(number.to_le_bytes().to_vec()), range_rows, equal_rows, distinct_range_rows }
}

fn null(rows: f64) -> Step {
    Step { key: vec![0], value: None, range_rows: 0.0, equal_rows: rows, distinct_range_rows: 0.0 }
}

/// 12 NULLs, 5 of 3, 14 of 4 to 6 (2 values), 9 of 7, 120 of 8 to 19 (12 values), 40 of 20.
fn sample() -> Histogram {
    let steps = vec![null(12.0), step(3, 0.0, 0.0, 5.0), step(7, 14.0, 2.0, 9.0), step(20, 120.0, 12.0, 40.0)];
    Histogram::new(steps).expect("a histogram")
}

#[test]
fn a_histogram_knows_its_rows_and_ends() {
    let histogram = sample();
    assert_eq!(histogram.rows(), 200.0);
    assert_eq!(histogram.nulls(), 12.0);
    assert_eq!(histogram.distinct(), 18.0);
    assert_eq!(histogram.min().map(|step| &step.key), Some(&key(3)));
    assert_eq!(histogram.max().map(|step| &step.key), Some(&key(20)));
    let only_nulls = Histogram::new(vec![null(3.0)]).expect("a histogram");
    assert_eq!((only_nulls.rows(), only_nulls.min(), only_nulls.max()), (3.0, None, None));
    let nothing = Histogram::default();
    assert_eq!((nothing.rows(), nothing.nulls(), nothing.rows_between(None, None)), (0.0, 0.0, 0.0));
    assert_eq!(nothing.rows_equal(&key(1)), None);
}

#[test]
fn one_key_has_its_steps_rows_or_its_ranges_average() {
    let histogram = sample();
    assert_eq!(histogram.rows_equal(&key(7)), Some(9.0));
    assert_eq!(histogram.rows_equal(&key(5)), Some(7.0));
    assert_eq!(histogram.rows_equal(&key(8)), Some(10.0));
    assert_eq!(histogram.rows_equal(&key(2)), None);
    assert_eq!(histogram.rows_equal(&key(21)), None);
    assert_eq!(histogram.rows_equal(&[0]), Some(12.0));
}

#[test]
fn ranges_of_dense_numbers_are_exact() {
    let histogram = sample();
    let between = |low: Option<(u32, bool)>, high: Option<(u32, bool)>| {
        let [low, high] = [low, high].map(|end| end.map(|(number, inclusive)| (key(number), inclusive)));
        let [low, high] = [&low, &high].map(|end| end.as_ref().map(|(key, inclusive)| (key.as_slice(), *inclusive)));
        (histogram.rows_between(low, high), histogram.distinct_between(low, high))
    };
    let is_near = |(rows, distinct): (f64, f64), rows_wanted: f64, distinct_wanted: f64| {
        assert!((rows - rows_wanted).abs() < 1e-6 && (distinct - distinct_wanted).abs() < 1e-6, "{rows} {distinct}");
    };
    is_near(between(None, None), 188.0, 17.0);
    is_near(between(Some((3, true)), Some((20, true))), 188.0, 17.0);
    is_near(between(Some((3, false)), Some((20, false))), 143.0, 15.0);
    is_near(between(Some((10, true)), Some((12, true))), 30.0, 3.0);
    is_near(between(Some((10, false)), Some((12, false))), 10.0, 1.0);
    is_near(between(Some((10, true)), Some((10, true))), 10.0, 1.0);
    is_near(between(Some((19, true)), None), 50.0, 2.0);
    is_near(between(None, Some((8, false))), 28.0, 4.0);
    is_near(between(Some((12, true)), Some((10, true))), 0.0, 0.0);
    is_near(between(Some((20, false)), None), 0.0, 0.0);
    is_near(between(None, Some((3, false))), 0.0, 0.0);
    is_near(between(Some((0, true)), Some((1000, true))), 188.0, 17.0);
}

#[test]
fn steps_that_cannot_be_are_refused() {
    let refused = |steps: Vec<Step>| Histogram::new(steps).expect_err("refused");
    assert_eq!(refused(vec![step(2, 0.0, 0.0, 1.0), step(1, 0.0, 0.0, 1.0)]), StatisticsDamage::Order);
    assert_eq!(refused(vec![step(2, 0.0, 0.0, 1.0), step(2, 0.0, 0.0, 1.0)]), StatisticsDamage::Order);
    let mut late_null = step(2, 0.0, 0.0, 1.0);
    late_null.value = None;
    assert_eq!(refused(vec![step(1, 0.0, 0.0, 1.0), late_null]), StatisticsDamage::Order);
    for number in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
        assert_eq!(refused(vec![step(2, number, 0.0, 1.0)]), StatisticsDamage::Number);
        assert_eq!(refused(vec![step(2, 0.0, number, 1.0)]), StatisticsDamage::Number);
        assert_eq!(refused(vec![step(2, 0.0, 0.0, number)]), StatisticsDamage::Number);
    }
    let many = (0..=STEPS_MAX as u32).map(|number| step(number, 0.0, 0.0, 1.0)).collect();
    assert_eq!(refused(many), StatisticsDamage::Count);
}

#[test]
fn deleted_rows_are_gone_and_no_more() {
    let histogram = sample();
    assert_eq!(histogram.subtract(&Histogram::default()), histogram);
    assert!(histogram.subtract(&histogram).is_empty());
    let deleted = Histogram::new(vec![null(2.0), step(5, 0.0, 0.0, 7.0), step(20, 60.0, 6.0, 50.0)]).expect("steps");
    let left = histogram.subtract(&deleted);
    assert_eq!(left.nulls(), 10.0);
    assert_eq!(left.rows_equal(&key(20)), Some(0.0));
    assert_eq!(left.rows_equal(&key(3)), Some(5.0));
    let rest = left.rows_between(Some((&key(7), false)), Some((&key(20), false)));
    assert!((60.0..90.0).contains(&rest), "{rest}");
}

#[test]
fn scaling_keeps_shares_and_values() {
    let histogram = sample();
    let twice = histogram.scaled(2.0);
    assert_eq!((twice.rows(), twice.distinct()), (400.0, 18.0));
    let tenth = histogram.scaled(0.05);
    assert!((tenth.rows() - 10.0).abs() < 1e-9);
    assert!(tenth.steps().iter().all(|step| step.distinct_range_rows <= step.range_rows));
}

#[test]
fn better_known_distinct_counts_are_shared_among_the_ranges() {
    let near =
        |histogram: Histogram, wanted: f64| assert!((histogram.distinct() - wanted).abs() < 1e-6, "{histogram:?}");
    near(sample().with_distinct(18.0), 18.0);
    near(sample().with_distinct(32.0), 32.0);
    // The first range has 14 rows, so it cannot have more values.
    near(sample().with_distinct(130.0), 130.0);
    near(sample().with_distinct(1e9), 138.0);
    near(sample().with_distinct(0.0), 6.0);
    assert!(Histogram::default().with_distinct(5.0).is_empty());
    let unknown = Histogram::new(vec![step(1, 0.0, 0.0, 1.0), step(9, 100.0, 0.0, 1.0)]).expect("steps");
    near(unknown.with_distinct(12.0), 12.0);
}
