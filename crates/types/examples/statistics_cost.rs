//! The cost of statistics: gathering a row, of a load or of sampled pages, merging a thousand partitions, and the error
//! of their counts of different values.
//!
//!     cargo run --release -p hobt-types --example statistics_cost

use std::hint::black_box;
use std::time::Instant;

use hobt_base::SplitMix64;
use hobt_types::statistics::{DistinctSketch, GatherColumns, Gatherer, Summary, hash_key};
use hobt_types::{Collation, KeyColumn, MaxLength, SqlType};

const ROWS: u64 = 2_000_000;
const PARTITIONS: u64 = 1_000;
const RUNS: usize = 7;

fn columns(types: &[SqlType]) -> GatherColumns {
    let column = |sql_type: &SqlType| {
        KeyColumn::new(*sql_type, Collation::default(), true, false).expect("these types have keys")
    };
    GatherColumns::new(types.iter().map(column).collect())
}

/// A pseudo-random number that depends only on `number`.
fn mixed(number: u64) -> u64 {
    SplitMix64::new(number).next_u64()
}

/// The median of several runs, in seconds.
fn seconds(mut run: impl FnMut()) -> f64 {
    let mut taken: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64()
        })
        .collect();
    taken.sort_by(f64::total_cmp);
    taken[RUNS / 2]
}

fn gathering(what: &str, types: &[SqlType], row: impl Fn(u64) -> Vec<Vec<u8>>) {
    let columns = columns(types);
    let rows: Vec<Vec<Vec<u8>>> = (0..ROWS).map(row).collect();
    let rows: Vec<Vec<Option<&[u8]>>> =
        rows.iter().map(|row| row.iter().map(|value| Some(value.as_slice())).collect()).collect();
    let mut finish = 0.0;
    let all = seconds(|| {
        let mut gatherer = Gatherer::new(columns.clone());
        rows.iter().for_each(|values| gatherer.add(values).expect("values of the columns"));
        let start = Instant::now();
        black_box(gatherer.finish());
        finish = start.elapsed().as_secs_f64();
    });
    let nanoseconds = (all - finish) * 1e9 / ROWS as f64;
    println!("gather {what:<38} {nanoseconds:6.1} ns a row, {:5.1} ms for the summary", finish * 1e3);
}

/// Ints of extents of which a tenth was drawn.
fn gathering_units(what: &str, value: impl Fn(u64) -> u64) {
    const UNIT_ROWS: u64 = 1_600;
    let columns = columns(&[SqlType::Int]);
    let rows: Vec<[u8; 4]> = (0..ROWS)
        .map(|row| value(row / UNIT_ROWS * 10 * UNIT_ROWS + row % UNIT_ROWS) as i32)
        .map(i32::to_le_bytes)
        .collect();
    let (mut finish, mut distinct) = (0.0, 0.0);
    let all = seconds(|| {
        let mut gatherer = Gatherer::of_units(columns.clone(), usize::MAX);
        for unit in rows.chunks(UNIT_ROWS as usize) {
            gatherer.begin_unit();
            gatherer.add_column(unit.iter().map(|value| Some(value.as_slice())));
        }
        let start = Instant::now();
        distinct = gatherer.finish_table(10.0 * ROWS as f64).distinct(1);
        finish = start.elapsed().as_secs_f64();
    });
    let nanoseconds = (all - finish) * 1e9 / ROWS as f64;
    println!(
        "gather a tenth, {what:<29} {nanoseconds:6.1} ns a row, {:5.1} ms for the summary, {distinct:.0} different values",
        finish * 1e3
    );
}

fn merging(what: &str, value: impl Fn(u64, u64) -> u64) {
    let columns = columns(&[SqlType::BigInt]);
    let of_partition = |partition: u64| {
        let mut gatherer = Gatherer::new(columns.clone());
        for row in 0..2_000 {
            let value = (value(partition, row) >> 1) as i64;
            gatherer.add(&[Some(&value.to_le_bytes())]).expect("a bigint");
        }
        gatherer.finish()
    };
    let parts: Vec<Summary> = (0..PARTITIONS).map(of_partition).collect();
    let parts: Vec<&Summary> = parts.iter().collect();
    let taken = seconds(|| {
        black_box(Summary::merged(&parts));
    });
    let whole = Summary::merged(&parts);
    let (steps, distinct) = (whole.histogram.steps().len(), whole.distinct(1));
    println!("merge {PARTITIONS} {what:<36} {:6.2} ms, {steps} steps, {distinct:.0} different values", taken * 1e3);
}

fn counting() {
    for count in [1_000_u64, 10_000, 100_000, 1_000_000] {
        let mut off: Vec<f64> = (0..40)
            .map(|seed| {
                let mut sketch = DistinctSketch::default();
                (0..count).for_each(|number| sketch.add(hash_key(&(seed * count + number).to_le_bytes())));
                (sketch.estimate() / count as f64 - 1.0).abs() * 100.0
            })
            .collect();
        off.sort_by(f64::total_cmp);
        println!(
            "count {count:>9} different values: {:.2} % off in the median, {:.2} % at most of 40",
            off[20], off[39]
        );
    }
}

fn main() {
    let int = |number: u64| vec![(number as i32).to_le_bytes().to_vec()];
    gathering("ints in random order", &[SqlType::Int], |row| int(mixed(row)));
    gathering("ints in order", &[SqlType::Int], int);
    gathering("a day of 1,000 rows, the next day", &[SqlType::Int], |row| int(row / 1_000));
    gathering("two ints", &[SqlType::Int; 2], |row| [int(mixed(row) % 1_000), int(row)].concat());
    let text = SqlType::VarChar(MaxLength::Limited(30));
    gathering("texts of 18 characters", &[text], |row| {
        vec![format!("Customer#{:09}", mixed(row) % 1_000_000).into_bytes()]
    });
    gathering_units("ints in random order", mixed);
    gathering_units("a thousand values", |row| mixed(row) % 1_000);
    gathering_units("50 equal rows together", |row| row / 50);
    merging("partitions, a range each", |partition, row| (partition * 2_000 + row) << 1);
    merging("partitions, all over the same range", |partition, row| mixed(partition * 2_000 + row));
    counting();
}
