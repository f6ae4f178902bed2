//! Summaries of a gatherer against the rows.

use std::collections::BTreeMap;

use hobt_base::SplitMix64;

use super::*;
use crate::statistics::STEPS_MAX;
use crate::{Collation, KeyColumn, MaxLength, SqlType};

pub(super) fn column(sql_type: SqlType) -> KeyColumn {
    KeyColumn::new(sql_type, Collation::Latin1GeneralCiAs, false, true).expect("a key's type")
}

fn gatherer(types: &[SqlType]) -> Gatherer {
    Gatherer::new(GatherColumns::new(types.iter().map(|sql_type| column(*sql_type)).collect()))
}

fn int_key(number: i32) -> Vec<u8> {
    let mut key = Vec::new();
    histogram_key(&column(SqlType::Int), Some(&number.to_le_bytes()), &mut key).expect("an int");
    key
}

/// Gathers ints in order. Returns their counts as well.
fn ints(numbers: impl Iterator<Item = i32>) -> (Summary, BTreeMap<i32, u64>) {
    let mut gatherer = gatherer(&[SqlType::Int]);
    let mut truth = BTreeMap::new();
    for number in numbers {
        gatherer.add(&[Some(&number.to_le_bytes())]).expect("an int");
        *truth.entry(number).or_default() += 1;
    }
    (gatherer.finish(), truth)
}

/// Checks what holds for every summary of ints. `tolerance` is the allowed error of a range, as a share of all rows.
fn check(summary: &Summary, truth: &BTreeMap<i32, u64>, tolerance: f64) {
    let rows = truth.values().sum::<u64>() as f64;
    assert_eq!((summary.rows, summary.sampled_rows), (rows, rows));
    let histogram = &summary.histogram;
    Histogram::new(histogram.steps().to_vec()).expect("a histogram");
    assert!((histogram.rows() - rows).abs() <= rows * 1e-9, "{} for {rows}", histogram.rows());
    let ends = [truth.first_key_value(), truth.last_key_value()].map(|end| end.map(|(number, _)| int_key(*number)));
    assert_eq!([histogram.min(), histogram.max()].map(|step| step.map(|step| step.key.clone())), ends);
    let distinct = summary.distinct(1);
    assert!((distinct / truth.len() as f64 - 1.0).abs() < 0.025, "{distinct} for {}", truth.len());
    let (mut below, every) = (0, truth.len().div_ceil(500));
    for (at, (number, equal)) in truth.iter().enumerate() {
        if at % every == 0 {
            let estimate = histogram.rows_between(None, Some((&int_key(*number), false)));
            assert!((estimate - below as f64).abs() <= rows * tolerance, "{estimate} for {below} below {number}");
        }
        below += equal;
    }
}

fn uniform(seed: u64, count: usize, bound: u64) -> impl Iterator<Item = i32> {
    let mut random = SplitMix64::new(seed);
    (0..count).map(move |_| random.below(bound) as i32 - (bound / 2) as i32)
}

/// Numbers from 1 on, with number k about as frequent as 1 / k, spread over the key's range.
fn zipf(seed: u64, count: usize, bound: u64) -> impl Iterator<Item = i32> {
    let mut random = SplitMix64::new(seed);
    (0..count).map(move |_| {
        let chance = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        ((bound as f64).powf(chance) as i32).wrapping_mul(0x9E37_79B1_u32 as i32)
    })
}

#[test]
fn few_rows_and_few_values_are_exact() {
    for (count, bound) in [(1, 1), (50, 10), (3_000, 1), (3_000, 200), (400_000, 150)] {
        let (summary, truth) = ints(uniform(count as u64, count, bound));
        check(&summary, &truth, if count > 100_000 { 0.01 } else { 1e-9 });
        assert_eq!(summary.distinct(1), truth.len() as f64);
        for (number, rows) in &truth {
            let estimate = summary.histogram.rows_equal(&int_key(*number)).expect("a step");
            let tolerance = if count > 100_000 { 0.15 } else { 1e-9 };
            assert!((estimate / *rows as f64 - 1.0).abs() < tolerance, "{estimate} for {rows}");
        }
        assert_eq!(summary.density(1), 1.0 / truth.len() as f64);
        assert_eq!(summary.average_bytes(1), 4.0);
    }
}

#[test]
fn uniform_values_are_estimated_in_ranges_and_one_by_one() {
    for (seed, count, bound) in [(1, 60_000, 50_000), (2, 300_000, 20_000), (3, 300_000, 1 << 31)] {
        let (summary, truth) = ints(uniform(seed, count, bound));
        check(&summary, &truth, 0.01);
        let average = count as f64 / truth.len() as f64;
        let mut factors: Vec<f64> = truth
            .keys()
            .step_by(97)
            .map(|number| summary.histogram.rows_equal(&int_key(*number)).expect("inside") / average)
            .collect();
        factors.sort_by(f64::total_cmp);
        let middle = factors[factors.len() / 2];
        assert!((0.85..1.15).contains(&middle), "{middle} for {bound}");
    }
}

#[test]
fn frequent_values_of_a_skewed_column_are_known() {
    for seed in 0..3 {
        let (summary, truth) = ints(zipf(seed, 300_000, 100_000));
        check(&summary, &truth, 0.012);
        let mut frequent: Vec<(&i32, &u64)> = truth.iter().collect();
        frequent.sort_by_key(|(_, rows)| std::cmp::Reverse(**rows));
        for (number, rows) in &frequent[..40] {
            let estimate = summary.histogram.rows_equal(&int_key(**number)).expect("inside");
            let factor = estimate / **rows as f64;
            assert!((0.8..1.25).contains(&factor), "{estimate} for {rows}");
        }
    }
}

#[test]
fn ascending_keys_and_periods_do_not_deceive_the_sample() {
    let (summary, truth) = ints(0..400_000);
    check(&summary, &truth, 0.005);
    // One day after the other, a thousand rows each: every day is within a tenth.
    let (summary, truth) = ints((0..400_000).map(|row| row / 1000));
    check(&summary, &truth, 0.005);
    for day in truth.keys() {
        let estimate = summary.histogram.rows_equal(&int_key(*day)).expect("inside");
        assert!((900.0..1100.0).contains(&estimate), "{estimate} on day {day}");
    }
    // A period that is a power of two, like the sample's blocks.
    let (summary, truth) = ints((0..600_000).map(|row| row % 64));
    check(&summary, &truth, 0.01);
    assert_eq!(summary.histogram.steps().len(), 64);
}

#[test]
fn nulls_are_counted_and_are_one_value() {
    let mut all_null = gatherer(&[SqlType::Int]);
    for _ in 0..1000 {
        all_null.add(&[None]).expect("NULL");
    }
    let summary = all_null.finish();
    assert_eq!((summary.rows, summary.histogram.nulls(), summary.distinct(1)), (1000.0, 1000.0, 1.0));
    assert_eq!((summary.histogram.steps().len(), summary.average_bytes(1)), (1, 0.0));
    let mut mixed = gatherer(&[SqlType::Int]);
    for row in 0..300_000_i32 {
        let value = row.to_le_bytes();
        mixed.add(&[(row % 3 != 0).then_some(&value[..])]).expect("an int or NULL");
    }
    let summary = mixed.finish();
    assert_eq!(summary.histogram.nulls(), 100_000.0);
    assert!((summary.histogram.rows() - 300_000.0).abs() < 1e-3);
    assert_eq!(summary.histogram.min().map(|step| &step.key), Some(&int_key(1)));
    let nothing = gatherer(&[SqlType::Int]).finish();
    assert_eq!(nothing, Summary::empty(1));
    assert_eq!((nothing.density(1), nothing.average_bytes(1), nothing.distinct(7)), (0.0, 0.0, 0.0));
}

#[test]
fn long_strings_count_by_their_beginning_in_the_histogram_alone() {
    let types = [SqlType::VarChar(MaxLength::Limited(8000))];
    let mut gatherer = gatherer(&types);
    // The cut is within an umlaut.
    let beginning = format!("{}ü", "x".repeat(399));
    for row in 0..2_000 {
        let text = format!("{beginning}{row:0>width$}", width = 8000 - beginning.len());
        assert_eq!(histogram_value(&column(types[0]), text.as_bytes()).len(), 399);
        gatherer.add(&[Some(text.as_bytes())]).expect("text");
        gatherer.add(&[Some(b"short")]).expect("text");
    }
    let summary = gatherer.finish();
    assert_eq!(summary.histogram.steps().len(), 2);
    assert!((summary.distinct(1) / 2001.0 - 1.0).abs() < 0.025);
    // The umlaut has two bytes there and one in a code page.
    assert_eq!(summary.average_bytes(1), (7999.0 + 5.0) / 2.0);
    assert!(summary.histogram.steps().iter().all(|step| step.value.as_ref().is_none_or(|value| value.len() <= 400)));
}

#[test]
fn each_prefix_has_its_distinct_count_and_length() {
    let types = [SqlType::Int, SqlType::VarChar(MaxLength::Limited(20)), SqlType::BigInt];
    let mut gatherer = gatherer(&types);
    for row in 0..50_000_i64 {
        let (number, text) = ((row % 10) as i32, format!("name {:02}", row % 70));
        let values = [Some(&number.to_le_bytes()[..]), Some(text.as_bytes()), Some(&row.to_le_bytes()[..])];
        gatherer.add(&values).expect("a row");
        // An equal row again, and then one with only the first columns equal.
        gatherer.add(&values).expect("a row");
        gatherer.add(&[values[0], values[1], None]).expect("a row");
    }
    let summary = gatherer.finish();
    assert_eq!((summary.distinct(1), summary.distinct(2)), (10.0, 70.0));
    assert!((summary.distinct(3) / 50_070.0 - 1.0).abs() < 0.025, "{}", summary.distinct(3));
    assert_eq!([1, 2].map(|prefix| summary.average_bytes(prefix)), [4.0, 11.0]);
    assert!((summary.average_bytes(3) - (11.0 + 16.0 / 3.0)).abs() < 1e-9);
}

#[test]
fn what_is_no_value_is_refused_and_not_counted() {
    let mut numbers = gatherer(&[SqlType::Int]);
    let mut rows = gatherer(&[SqlType::Int, SqlType::VarChar(MaxLength::Limited(5))]);
    for _ in 0..3 {
        assert_eq!(numbers.add(&[Some(&[1, 2, 3])]), Err(KeyError::Width));
        numbers.add(&[Some(&[1, 2, 3, 4])]).expect("an int");
        assert_eq!(rows.add(&[Some(&[1, 2, 3, 4]), Some(&[0xFF])]), Err(KeyError::Text));
        rows.add(&[Some(&[1, 2, 3, 4]), Some(b"a")]).expect("a row");
    }
    assert_eq!((numbers.rows(), rows.rows()), (3, 3));
    let [numbers, rows] = [numbers, rows].map(Gatherer::finish);
    assert_eq!((numbers.histogram.rows(), numbers.distinct(1)), (3.0, 1.0));
    assert_eq!((rows.histogram.rows(), rows.distinct(2)), (3.0, 1.0));
}

/// The fast path of number columns and the general one give equal results.
#[test]
fn one_column_of_numbers_is_seen_as_the_first_of_two() {
    let types = [
        SqlType::SmallInt,
        SqlType::Int,
        SqlType::BigInt,
        SqlType::Decimal { precision: 9, scale: 2 },
        SqlType::Money,
        SqlType::Date,
        SqlType::DateTime2 { scale: 7 },
    ];
    for (seed, sql_type) in (0..).zip(types) {
        let mut random = SplitMix64::new(seed);
        let width = sql_type.physical().width().expect("fixed");
        let (mut one, mut two) = (gatherer(&[sql_type]), gatherer(&[sql_type, SqlType::Int]));
        for _ in 0..5_000 {
            let bytes = (random.below(600) as i64 - 300).to_le_bytes();
            let value = (random.below(10) > 0).then(|| &bytes[..width.min(8)]);
            one.add(&[value]).expect("a number");
            two.add(&[value, None]).expect("a number");
        }
        let [one, two] = [one, two].map(Gatherer::finish);
        assert_eq!(one.histogram, two.histogram, "{sql_type:?}");
        assert_eq!(one.prefixes[0], two.prefixes[0], "{sql_type:?}");
    }
}

#[test]
fn gatherers_merge_into_what_one_would_have_seen() {
    for (left_count, right_count) in [(1_000, 2_000), (400_000, 500), (100_000, 100_000), (0, 10), (10, 0)] {
        let mut parts = [gatherer(&[SqlType::Int]), gatherer(&[SqlType::Int])];
        let mut truth = BTreeMap::new();
        for (at, count) in [left_count, right_count].into_iter().enumerate() {
            for number in uniform(at as u64, count, 3_000) {
                parts[at].add(&[Some(&number.to_le_bytes())]).expect("an int");
                *truth.entry(number).or_default() += 1;
            }
        }
        let [mut left, right] = parts;
        left.merge(right);
        assert_eq!(left.rows(), (left_count + right_count) as u64);
        check(&left.summary(), &truth, 0.012);
        // Rows may be added after a summary and after a merge.
        left.add(&[Some(&i32::MAX.to_le_bytes())]).expect("an int");
        *truth.entry(i32::MAX).or_default() += 1;
        check(&left.finish(), &truth, 0.012);
    }
}

#[test]
fn a_gatherer_holds_no_more_than_its_sample() {
    let mut gatherer = gatherer(&[SqlType::VarBinary(MaxLength::Limited(8000))]);
    let mut random = SplitMix64::new(5);
    for _ in 0..60_000 {
        let value: Vec<u8> = (0..60).flat_map(|_| (random.next_u64() | 1).to_le_bytes()).collect();
        gatherer.add(&[Some(&value)]).expect("bytes");
    }
    // 16 MiB of keys and values, in a buffer that doubles when it grows.
    assert!(gatherer.held_bytes() <= 33 << 20, "{}", gatherer.held_bytes());
    let summary = gatherer.finish();
    assert!(summary.histogram.steps().len() <= STEPS_MAX);
    assert!((summary.histogram.distinct() / 60_000.0 - 1.0).abs() < 0.025);
}

#[test]
fn a_small_sample_is_coarser_and_still_has_all_rows() {
    let columns = GatherColumns::new(vec![column(SqlType::Int)]);
    for sample_rows_max in [0, 1, 100, 8_192] {
        let mut gatherer = Gatherer::with_sample(columns.clone(), sample_rows_max);
        let mut truth = BTreeMap::new();
        for number in uniform(4, 50_000, 40_000) {
            gatherer.add(&[Some(&number.to_le_bytes())]).expect("an int");
            *truth.entry(number).or_default() += 1;
        }
        check(&gatherer.finish(), &truth, if sample_rows_max < 8_192 { 1.0 } else { 0.03 });
    }
}

#[test]
fn gatherers_of_a_few_rows_each_add_up_to_a_sample_of_all() {
    let columns = GatherColumns::new(vec![column(SqlType::Int)]);
    for rows_each in [1, 3, 100] {
        let mut all = Gatherer::with_sample(columns.clone(), 1_024);
        let mut truth = BTreeMap::new();
        let numbers: Vec<i32> = uniform(6, 30_000, 10_000).collect();
        for numbers in numbers.chunks(rows_each) {
            let mut few = Gatherer::with_sample(columns.clone(), 1_024);
            for number in numbers {
                few.add(&[Some(&number.to_le_bytes())]).expect("an int");
                *truth.entry(*number).or_default() += 1;
            }
            all.merge(few);
        }
        let taken: f64 = all.sample.sorted_values().iter().map(|row| row.rows).sum();
        let expected = all.rows() as f64 / (1_u64 << all.sample.level()) as f64;
        assert!((taken / expected - 1.0).abs() < 0.15, "{taken} of {expected} rows, {rows_each} at a time");
        check(&all.finish(), &truth, 0.2);
    }
}
