//! Histograms of values with known rows, against these rows.

use hobt_base::SplitMix64;

use super::*;

fn key(number: u64) -> [u8; 9] {
    let mut key = [1; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

fn built(rows: &[(u64, f64)]) -> Histogram {
    let mut builder = HistogramBuilder::new();
    for (number, rows) in rows {
        builder.push(&key(*number), Some(&number.to_le_bytes()), *rows);
    }
    builder.finish()
}

fn check(histogram: &Histogram, truth: &[(u64, f64)]) {
    assert!(histogram.steps().len() <= STEPS_MAX);
    Histogram::new(histogram.steps().to_vec()).expect("a histogram");
    let rows: f64 = truth.iter().map(|(_, rows)| rows).sum();
    assert!((histogram.rows() - rows).abs() <= rows * 1e-9);
    assert!((histogram.distinct() - truth.len() as f64).abs() < 1e-6);
    let ends = (truth[0].0.to_le_bytes(), truth[truth.len() - 1].0.to_le_bytes());
    assert_eq!(histogram.min().and_then(|step| step.value.as_deref()), Some(&ends.0[..]));
    assert_eq!(histogram.max().and_then(|step| step.value.as_deref()), Some(&ends.1[..]));
}

/// Counts from 0 to `bound` that are mostly small.
fn skewed(random: &mut SplitMix64, bound: u64) -> f64 {
    let chance = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    (bound as f64).powf(chance * chance).floor()
}

#[test]
fn two_hundred_values_are_kept_exactly() {
    let mut random = SplitMix64::new(3);
    for count in [1, 2, 100, 199, 200] {
        let mut number = 0;
        let truth: Vec<(u64, f64)> = (0..count)
            .map(|_| {
                number += 1 + random.below(1000);
                (number, skewed(&mut random, 1_000_000))
            })
            .collect();
        let histogram = built(&truth);
        check(&histogram, &truth);
        for (number, rows) in &truth {
            assert_eq!(histogram.rows_equal(&key(*number)), Some(*rows));
        }
    }
}

#[test]
fn nulls_have_a_step_of_their_own_and_equal_keys_add_up() {
    let mut builder = HistogramBuilder::new();
    builder.push(&[0], None, 3.0);
    builder.push(&[0], None, 4.0);
    for number in 0..1000 {
        builder.push(&key(number), Some(&[1]), 1.0);
        builder.push(&key(number), Some(&[1]), 1.0);
    }
    let histogram = builder.finish();
    assert_eq!((histogram.nulls(), histogram.rows(), histogram.distinct()), (7.0, 2007.0, 1001.0));
    assert_eq!(histogram.steps().len(), STEPS_MAX);
    assert!(HistogramBuilder::new().finish().is_empty());
}

#[test]
fn frequent_values_stay_steps_and_ranges_stay_small() {
    for seed in 0..8 {
        let mut random = SplitMix64::new(seed);
        let mut number = 0;
        let truth: Vec<(u64, f64)> = (0..20_000)
            .map(|at| {
                number += 1 + random.below(9);
                (number, if at % 400 == 7 { 5_000.0 } else { 1.0 + random.below(10) as f64 })
            })
            .collect();
        let histogram = built(&truth);
        check(&histogram, &truth);
        let rows = histogram.rows();
        for (number, rows) in truth.iter().filter(|(_, rows)| *rows >= 5_000.0) {
            assert_eq!(histogram.rows_equal(&key(*number)), Some(*rows));
        }
        let widest = histogram.steps().iter().map(|step| step.range_rows).fold(0.0, f64::max);
        assert!(widest < rows / 40.0, "{widest} of {rows}");
        let mut below = 0.0;
        for (number, equal) in &truth {
            let estimate = histogram.rows_between(None, Some((&key(*number), false)));
            assert!((estimate - below).abs() < rows * 0.01, "{estimate} for {below}");
            below += equal;
        }
    }
}

#[test]
fn memory_does_not_grow() {
    let mut builder = HistogramBuilder::new();
    for number in 0..100_000 {
        builder.push(&key(number), Some(&[7; 100]), 1.0);
        assert!(builder.held.len() <= HELD_MAX && builder.bytes.len() <= HELD_MAX * 109);
    }
    let histogram = builder.finish();
    let widest = histogram.steps().iter().map(|step| step.range_rows).fold(0.0, f64::max);
    assert!(widest <= 3.0 * 100_000.0 / STEPS_MAX as f64, "{widest}");
}

/// Of texts that are cut, a collation sorts the whole otherwise than the parts.
#[test]
fn keys_that_do_not_ascend_lose_no_rows() {
    let mut random = SplitMix64::new(5);
    let mut builder = HistogramBuilder::new();
    let mut rows = 0.0;
    for number in 0..5000_u64 {
        let number = number + random.below(40);
        rows += 2.0;
        builder.push(&key(number), Some(&number.to_le_bytes()), 2.0);
    }
    let histogram = builder.finish();
    assert!(histogram.steps().is_sorted_by(|one, next| one.key < next.key));
    Histogram::new(histogram.steps().to_vec()).expect("a histogram");
    assert!((histogram.rows() - rows).abs() < 1e-6);
}
