//! Merged histograms against one of all rows.

use std::collections::BTreeMap;

use hobt_base::SplitMix64;

use super::*;

fn key(number: u64) -> [u8; 9] {
    let mut key = [1; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

fn of(values: &BTreeMap<u64, u64>, nulls: u64) -> Histogram {
    let mut builder = HistogramBuilder::new();
    if nulls > 0 {
        builder.push(&[0], None, nulls as f64);
    }
    for (number, rows) in values {
        builder.push(&key(*number), Some(&number.to_le_bytes()), *rows as f64);
    }
    builder.finish()
}

/// Merges parts. Returns their sum as well.
fn merge(parts: &[BTreeMap<u64, u64>]) -> (Histogram, BTreeMap<u64, u64>) {
    let histograms: Vec<Histogram> = parts.iter().map(|part| of(part, 5)).collect();
    let mut truth = BTreeMap::new();
    for (number, rows) in parts.iter().flatten() {
        *truth.entry(*number).or_default() += rows;
    }
    let histogram = merged(&histograms.iter().collect::<Vec<_>>());
    Histogram::new(histogram.steps().to_vec()).expect("a histogram");
    let rows = truth.values().sum::<u64>() as f64;
    assert_eq!(histogram.nulls(), 5.0 * parts.len() as f64);
    assert!((histogram.rows() - histogram.nulls() - rows).abs() <= rows * 1e-6, "{} {rows}", histogram.rows());
    let ends = [truth.first_key_value(), truth.last_key_value()].map(|end| key(*end.expect("rows").0).to_vec());
    assert_eq!([histogram.min(), histogram.max()].map(|step| step.expect("rows").key.clone()), ends);
    (histogram, truth)
}

/// The largest error of ranges, as a share of all rows.
fn worst(histogram: &Histogram, truth: &BTreeMap<u64, u64>) -> f64 {
    let rows = truth.values().sum::<u64>() as f64;
    let (mut below, mut worst) = (0, 0.0_f64);
    for (number, equal) in truth {
        let estimate = histogram.rows_between(None, Some((&key(*number), false)));
        worst = worst.max((estimate - below as f64).abs() / rows);
        below += equal;
    }
    worst
}

#[test]
fn few_values_stay_exact_whatever_the_parts_share() {
    let mut random = SplitMix64::new(1);
    for _ in 0..50 {
        let domain = 1 + random.below(190);
        let parts: Vec<BTreeMap<u64, u64>> = (0..1 + random.below(20))
            .map(|_| (0..1 + random.below(domain)).map(|_| (random.below(domain) * 77, 1 + random.below(50))).collect())
            .collect();
        let (histogram, truth) = merge(&parts);
        for (number, rows) in &truth {
            assert_eq!(histogram.rows_equal(&key(*number)), Some(*rows as f64));
        }
        assert_eq!(histogram.distinct(), truth.len() as f64 + 1.0);
    }
}

#[test]
fn nothing_and_one_merge_into_themselves() {
    assert!(merged(&[]).is_empty());
    assert!(merged(&[&Histogram::default(), &Histogram::default()]).is_empty());
    let one = of(&(0..500).map(|number| (number, 1)).collect(), 3);
    assert_eq!(merged(&[&one, &Histogram::default()]), one);
    let nulls = of(&BTreeMap::new(), 4);
    assert_eq!(merged(&[&nulls, &nulls]).rows(), 8.0);
    assert_eq!(merged(&[&nulls, &one]).nulls(), 7.0);
}

#[test]
fn partitions_of_an_ascending_key_add_up() {
    let parts: Vec<BTreeMap<u64, u64>> =
        (0..100).map(|part| (0..1000).map(|number| (part * 1000 + number, 1 + number % 3)).collect()).collect();
    let (histogram, truth) = merge(&parts);
    assert!(worst(&histogram, &truth) < 0.01, "{}", worst(&histogram, &truth));
    assert!((histogram.distinct() / truth.len() as f64 - 1.0).abs() < 0.02, "{}", histogram.distinct());
    // One day a partition: every day is known.
    let days: Vec<BTreeMap<u64, u64>> = (0..150).map(|day| BTreeMap::from([(20_260_000 + day, 900 + day)])).collect();
    let (histogram, truth) = merge(&days);
    for (day, rows) in &truth {
        assert_eq!(histogram.rows_equal(&key(*day)), Some(*rows as f64));
    }
}

#[test]
fn partitions_that_overlap_add_up() {
    let mut random = SplitMix64::new(2);
    for (part_count, domain) in [(4, 3_000), (50, 3_000), (30, 1 << 40), (200, 1 << 40), (150, 3_000)] {
        let parts: Vec<BTreeMap<u64, u64>> = (0..part_count)
            .map(|_| {
                let mut part = BTreeMap::new();
                (0..3_000).for_each(|_| *part.entry(random.below(domain)).or_default() += 1);
                // A value that is frequent everywhere, and one that is frequent only here.
                part.insert(domain / 2, 400);
                part.insert(random.below(domain), 300);
                part
            })
            .collect();
        let (histogram, truth) = merge(&parts);
        let error = worst(&histogram, &truth);
        assert!(error < 0.012, "{error}");
        let frequent = histogram.rows_equal(&key(domain / 2)).expect("inside");
        let rows = truth[&(domain / 2)] as f64;
        assert!((frequent / rows - 1.0).abs() < 0.05, "{frequent} for {rows}");
        let most = parts.iter().map(BTreeMap::len).max().unwrap_or(0) as f64;
        let sum = parts.iter().map(BTreeMap::len).sum::<usize>() as f64;
        let bounds = most * 0.7..=sum + 1.0;
        assert!(bounds.contains(&histogram.distinct()), "{} not in {bounds:?}", histogram.distinct());
        let known = histogram.with_distinct(truth.len() as f64);
        let average = truth.values().sum::<u64>() as f64 / truth.len() as f64;
        let mut estimates: Vec<f64> =
            truth.keys().step_by(7).map(|number| known.rows_equal(&key(*number)).expect("inside")).collect();
        estimates.sort_by(f64::total_cmp);
        let middle = estimates[estimates.len() / 2];
        assert!((0.7..1.4).contains(&(middle / average)), "{middle} for {average}");
    }
}

/// Keys of different lengths whose common prefix is longer than a position can distinguish.
#[test]
fn keys_that_differ_late_are_kept_apart() {
    let text =
        |number: u64| format!("\u{1}the same beginning {number:06}{}", "x".repeat(number as usize % 3)).into_bytes();
    let parts: Vec<Histogram> = (0..10)
        .map(|part| {
            let mut builder = HistogramBuilder::new();
            for number in (part..3000).step_by(10) {
                builder.push(&text(number), Some(b"text"), 2.0);
            }
            builder.finish()
        })
        .collect();
    let histogram = merged(&parts.iter().collect::<Vec<_>>());
    Histogram::new(histogram.steps().to_vec()).expect("a histogram");
    assert!((histogram.rows() - 6000.0).abs() < 1e-6);
    let below = histogram.rows_between(None, Some((&text(1500), false)));
    assert!((below - 3000.0).abs() < 60.0, "{below}");
}

#[test]
fn many_histograms_that_are_alike_merge_into_one_of_as_many_steps() {
    let part: BTreeMap<u64, u64> = (0..10_000).map(|number| (number, 1)).collect();
    for part_count in [100, 600] {
        let (histogram, truth) = merge(&vec![part.clone(); part_count]);
        assert!(histogram.steps().len() > 150, "{part_count}: {} steps", histogram.steps().len());
        assert!(worst(&histogram, &truth) < 0.01, "{part_count}: {}", worst(&histogram, &truth));
    }
}
