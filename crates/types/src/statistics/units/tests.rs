//! Counts of units against tables of which they are a sample. Whole tables, with rows, are in `gather/units/tests.rs`.

use hobt_base::SplitMix64;

use super::*;
use crate::statistics::hash_key;

fn hash(value: u64) -> u64 {
    hash_key(&value.to_le_bytes())
}

/// Counts of these units.
fn counted(units: impl Iterator<Item = Vec<u64>>) -> UnitCounts {
    let mut counts = UnitCounts::default();
    for (unit, values) in (1..).zip(units) {
        values.into_iter().for_each(|value| counts.add(hash(value), unit));
    }
    counts
}

#[test]
fn a_value_counts_once_in_a_unit_however_often_it_is_there() {
    let counts = counted([vec![1, 2, 1, 1], vec![2, 2, 3], vec![3]].into_iter());
    let units = |value| counts.values[&hash(value)].units;
    assert_eq!([units(1), units(2), units(3)], [1, 2, 2]);
}

#[test]
fn memory_is_bounded_and_merged_counts_are_those_of_all_units() {
    let mut random = SplitMix64::new(3);
    let units: Vec<Vec<u64>> = (0..200).map(|_| (0..1000).map(|_| random.below(100_000)).collect()).collect();
    let all = counted(units.iter().cloned());
    let mut merged = counted(units[..80].iter().cloned());
    merged.merge(&counted(units[80..].iter().cloned()));
    let sorted = |counts: &UnitCounts| {
        let mut sorted: Vec<(u64, u32)> = counts.values.iter().map(|(hash, seen)| (*hash, seen.units)).collect();
        sorted.sort_unstable();
        sorted
    };
    assert_eq!(sorted(&merged), sorted(&all));
    assert!(all.values.len() <= VALUES_MAX && all.values.len() > VALUES_MAX / 4, "{}", all.values.len());
}

#[test]
fn nothing_and_all_do_not_grow() {
    assert_eq!(UnitCounts::default().growth(0.1), 1.0);
    assert_eq!(UnitCounts::default().spread(0.1).units_of(1.0, 0.1).round(), 1.0);
    let all = counted((0..50).map(|unit| vec![unit, unit + 1]));
    assert_eq!(all.growth(1.0), 1.0);
}

#[test]
fn what_is_in_one_unit_each_grows_as_the_table_and_what_is_everywhere_does_not() {
    let unique = counted((0..100).map(|unit| (unit * 50..(unit + 1) * 50).collect()));
    assert!((unique.growth(0.05) - 20.0).abs() < 1e-9, "{}", unique.growth(0.05));
    let everywhere = counted((0..100).map(|_| (0..50).collect()));
    assert_eq!(everywhere.growth(0.05), 1.0);
}

#[test]
fn the_units_of_a_value_are_its_own_if_values_differ_and_the_average_if_not() {
    let even = Spread { average: 10.0, variation: 0.0 };
    assert!((even.units_of(3.0, 0.01) - 10.0).abs() < 2.0, "{}", even.units_of(3.0, 0.01));
    let skewed = Spread { average: 10.0, variation: 100.0 };
    assert!((skewed.units_of(300.0, 0.1) - 3000.0).abs() < 100.0, "{}", skewed.units_of(300.0, 0.1));
    assert!(skewed.units_of(1.0, 0.01) <= 10.0, "{}", skewed.units_of(1.0, 0.01));
}

#[test]
fn a_frequent_value_is_not_taken_for_one_of_many_rare_ones() {
    let unique = Spread { average: 1.0, variation: 0.0 };
    assert_eq!(unique.units_of(60.0, 0.1), 600.0);
    assert!((unique.units_of(2.0, 0.1) - 1.0).abs() < 0.01, "{}", unique.units_of(2.0, 0.1));
}
