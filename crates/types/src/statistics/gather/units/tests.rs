//! Summaries of tables of which units were drawn, against all of their rows.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use hobt_base::SplitMix64;

use super::super::tests::column;
use super::*;
use crate::statistics::SortedGatherer;
use crate::{MaxLength, SqlType};

const ROWS: usize = 500_000;
/// The rows of an extent.
const UNIT_ROWS: usize = 800;
const SHARE: f64 = 0.1;

/// The stored value of a row.
type Stored = Option<Vec<u8>>;

fn int(number: u64) -> Stored {
    Some((number as i32).to_le_bytes().to_vec())
}

fn columns(sql_type: SqlType) -> GatherColumns {
    GatherColumns::new(vec![column(sql_type)])
}

/// The summary of a table from a sample of its units, by two gatherers as by two workers.
fn sampled(sql_type: SqlType, rows: &[Stored], share: f64, seed: u64) -> Summary {
    let mut random = SplitMix64::new(seed);
    let mut gatherers = [0, 1].map(|_| Gatherer::of_units(columns(sql_type), 1 << 13));
    for unit in rows.chunks(UNIT_ROWS) {
        if random.below(1000) as f64 >= share * 1000.0 {
            continue;
        }
        let gatherer = &mut gatherers[random.below(2) as usize];
        gatherer.begin_unit();
        gatherer.add_column(unit.iter().map(|value| value.as_deref()));
    }
    let [mut first, second] = gatherers;
    first.merge(second);
    first.finish_table(rows.len() as f64)
}

/// Checks the estimates of a table: of its distinct values, as a multiple of the true number, and of the rows of each
/// value that is a step, as a multiple too.
fn check(name: &str, rows: &[Stored], distinct: RangeInclusive<f64>, equal: RangeInclusive<f64>) {
    let mut truth: HashMap<&Stored, f64> = HashMap::new();
    rows.iter().for_each(|value| *truth.entry(value).or_default() += 1.0);
    for seed in 1..=2 {
        let summary = sampled(SqlType::Int, rows, SHARE, seed);
        assert_eq!(summary.rows, rows.len() as f64);
        assert!((summary.histogram.rows() / summary.rows - 1.0).abs() < 1e-6, "{name}: {}", summary.histogram.rows());
        let multiple = summary.distinct(1) / truth.len() as f64;
        assert!(distinct.contains(&multiple), "{name}: {multiple} of {} distinct values", truth.len());
        let mut multiples: Vec<f64> =
            summary.histogram.steps().iter().map(|step| step.equal_rows / truth[&step.value]).collect();
        multiples.sort_by(f64::total_cmp);
        let middle = &multiples[multiples.len() / 20..=(multiples.len() * 19 / 20).min(multiples.len() - 1)];
        let ends = [middle[0], middle[middle.len() - 1]];
        assert!(ends.iter().all(|multiple| equal.contains(multiple)), "{name}: {ends:?} of rows of steps");
    }
}

#[test]
fn distinct_values_and_steps_are_right_however_rows_lie() {
    let mut random = SplitMix64::new(5);
    let table = |value: &mut dyn FnMut(u64) -> u64| (0..ROWS as u64).map(|row| int(value(row))).collect::<Vec<_>>();
    check("unique", &table(&mut |row| row.wrapping_mul(0x9E37_79B1) & 0xFFFF_FFFF), 0.97..=1.03, 0.9..=1.2);
    check("ascending", &table(&mut |row| row), 0.97..=1.03, 0.9..=1.2);
    check("few", &table(&mut |_| random.below(100)), 1.0..=1.0, 0.6..=1.6);
    check("thousand", &table(&mut |_| random.below(1000)), 0.97..=1.03, 0.3..=2.4);
    check("50 rows together", &table(&mut |row| row / 50), 0.9..=1.2, 0.4..=2.5);
    check("1,000 rows together", &table(&mut |row| row / 1_000), 0.7..=1.4, 0.2..=3.0);
    check("5,000 rows together", &table(&mut |row| row / 5_000), 0.6..=1.5, 0.1..=3.0);
    check("ten rows each", &table(&mut |_| random.below(50_000)), 0.9..=1.1, 0.3..=3.0);
    check("two rows each", &table(&mut |row| row % 250_000), 0.7..=1.4, 0.3..=2.0);
    check("half alike, one in two", &table(&mut |row| if row % 2 == 0 { row } else { 1 }), 0.9..=1.1, 0.7..=1.3);
    let mut noise = SplitMix64::new(6);
    check(
        "skewed",
        &table(&mut |_| (f64::powf(2.0, noise.below(1 << 20) as f64 / 52_000.0)) as u64),
        0.5..=2.0,
        0.1..=10.0,
    );
}

#[test]
fn one_value_and_null_are_all_rows() {
    check("one value", &vec![int(7); ROWS], 1.0..=1.0, 0.999..=1.001);
    check("NULL", &vec![None; ROWS], 1.0..=1.0, 0.999..=1.001);
    let half: Vec<Stored> = (0..ROWS as u64).map(|row| if row % 2 == 0 { int(row % 10) } else { None }).collect();
    check("half NULL", &half, 1.0..=1.0, 0.8..=1.25);
}

#[test]
fn texts_are_counted_by_their_collation() {
    let text = |row: usize| {
        Some(format!("{} no. {}", if row.is_multiple_of(3) { "Order" } else { "ORDER" }, row / 40).into_bytes())
    };
    let rows: Vec<Stored> = (0..ROWS / 2).map(text).collect();
    let summary = sampled(SqlType::VarChar(MaxLength::Limited(40)), &rows, SHARE, 1);
    let multiple = summary.distinct(1) / (ROWS / 2 / 40) as f64;
    assert!((0.9..=1.1).contains(&multiple), "{multiple}");
}

#[test]
fn few_rows_that_are_all_are_as_exact_as_groups_in_order() {
    let mut random = SplitMix64::new(8);
    let mut numbers: Vec<i32> = (0..20_000).map(|_| random.below(15_000) as i32).collect();
    let mut gatherer = Gatherer::of_units(columns(SqlType::Int), SAMPLE_ROWS_MAX);
    for unit in numbers.chunks(UNIT_ROWS) {
        gatherer.begin_unit();
        unit.iter().for_each(|number| gatherer.add(&[Some(&number.to_le_bytes())]).expect("an int"));
    }
    numbers.sort_unstable();
    let mut sorted = SortedGatherer::new(columns(SqlType::Int));
    for equal in numbers.chunk_by(|left, right| left == right) {
        sorted.add(&[Some(&equal[0].to_le_bytes())], equal.len() as f64).expect("an int");
    }
    let (whole, truth) = (gatherer.finish_table(20_000.0), sorted.finish());
    assert_eq!(whole.distinct(1), truth.distinct(1));
    assert_eq!(whole.histogram, truth.histogram);
    assert_eq!((whole.rows, whole.sampled_rows), (truth.rows, truth.sampled_rows));
}
