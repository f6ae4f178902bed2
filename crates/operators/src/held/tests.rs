//! Held batches and distinct rows against what they are told, with memory for some of them, and for none.

use std::collections::HashSet;

use arrow::array::{Decimal128Array, Int64Array, StringViewArray};
use arrow::compute::{concat_batches, filter_record_batch};
use hobt_access::scan::RowPlace;
use hobt_base::{FileId, PageId, SessionId, SlotId, SplitMix64};
use hobt_engine::{Instance, InstanceSettings};
use hobt_table::RunSettings;
use hobt_txn::MemoryAccount;

use super::*;

/// Runs a test with a statement of an instance with 64 MB, of which a collection takes 2 MB.
pub(crate) fn with_run(name: &str, test: impl FnOnce(&Instance, &Arc<StatementRun>)) {
    let folder = std::env::temp_dir().join(format!("hobt-held-{name}-{}", std::process::id()));
    let settings = InstanceSettings { memory_bytes: Some(64 << 20), ..InstanceSettings::default() };
    let instance = Arc::new(Instance::open(&folder, settings).expect("an instance"));
    instance.spills().prepare().expect("a folder");
    let run = StatementRun::new(&instance, SessionId(51), None, Arc::default(), RunSettings::default());
    let run = run.expect("a statement");
    test(&instance, &run);
    assert_eq!((run.context.memory().held(), instance.spills().size_bytes()), (0, 0), "all is given back");
    run.end(true).expect("it ends");
    drop(run);
    Arc::into_inner(instance).expect("nobody else has it").close().expect("closed");
    std::fs::remove_dir_all(&folder).expect("removed");
}

/// A batch with a number and a text of each row, of which some are NULL.
pub(crate) fn batch_of(random: &mut SplitMix64, rows: usize) -> RecordBatch {
    let numbers: Int64Array = (0..rows).map(|_| Some(random.below(1 << 40) as i64).filter(|n| n % 7 > 0)).collect();
    let texts: StringViewArray =
        (0..rows).map(|_| Some("x".repeat(random.below(60) as usize)).filter(|text| text.len() % 5 > 0)).collect();
    let columns: [(&str, ArrayRef, bool); 2] = [("n", Arc::new(numbers), true), ("s", Arc::new(texts), true)];
    RecordBatch::try_from_iter_with_nullable(columns).expect("a batch")
}

#[test]
fn batches_come_back_as_they_were_kept() {
    with_run("batches", |_, run| {
        let mut random = SplitMix64::new(1);
        for (count, is_large) in [(0, false), (5, false), (120, true)] {
            let kept: Vec<RecordBatch> = (0..count)
                .map(|_| {
                    let rows = 1 + random.below(2000) as usize;
                    let batch = batch_of(&mut random, rows);
                    // What a batch does not have must not come back with it.
                    batch.slice(rows / 3, rows - rows / 3)
                })
                .collect();
            let mut held = HeldBatches::new(run);
            for batch in &kept {
                held.keep(batch.clone()).expect("kept");
                held.keep(batch.slice(0, 0)).expect("nothing is kept");
            }
            assert_eq!(held.is_on_disk(), is_large, "{count}");
            assert_eq!(run.context.memory().held() == 0, is_large || count == 0, "what is on disk takes no memory");
            let rows: usize = kept.iter().map(RecordBatch::num_rows).sum();
            assert_eq!(held.row_count(), rows as u64);
            for _ in 0..2 {
                let given = held.batches().expect("batches").collect::<Result<Vec<_>, _>>().expect("read");
                assert!(given == kept, "{count}");
            }
            held.cut(rows as u64 / 2);
            let given = held.into_batches().expect("batches").collect::<Result<Vec<_>, _>>().expect("read");
            if let Some(first) = kept.first() {
                let all = |batches: &[RecordBatch]| concat_batches(&first.schema(), batches).expect("one batch");
                assert!(all(&given) == all(&kept).slice(0, rows / 2), "{count}");
            }
        }
    });
}

/// The position of a heap's row by a number.
fn place(number: u64) -> RowPlace {
    let page = PageId::new(FileId(1), u32::try_from(number / 100).expect("a page"));
    RowPlace { partition: 0, page, slot: SlotId(u16::try_from(number % 100).expect("a slot")) }
}

/// Rows with positions of which many come again, and with their numbers in order.
fn places(random: &mut SplitMix64, most: u64, batches: usize) -> Vec<RecordBatch> {
    let mut next = 0_i64;
    let mut batch = || {
        let rows = 1 + random.below(8000) as usize;
        let numbers: Vec<Option<i128>> = (0..rows)
            .map(|_| Some(random.below(most)).filter(|number| number % 50 > 0).map(|number| place(number).number()))
            .collect();
        let orders = Int64Array::from_iter_values(next..next + rows as i64);
        next += rows as i64;
        let numbers = Decimal128Array::from(numbers).with_precision_and_scale(38, 0).expect("numbers");
        let columns: [(&str, ArrayRef, bool); 2] = [("p", Arc::new(numbers), true), ("o", Arc::new(orders), true)];
        RecordBatch::try_from_iter_with_nullable(columns).expect("a batch")
    };
    (0..batches).map(|_| batch()).collect()
}

fn orders(batch: &RecordBatch) -> Vec<i64> {
    batch.column(1).as_primitive::<arrow::datatypes::Int64Type>().values().to_vec()
}

#[test]
fn the_first_row_of_each_position_is_found_with_little_memory() {
    with_run("distinct", |instance, run| {
        let mut random = SplitMix64::new(2);
        // The set takes 20,000 positions; a file of the last case is split again.
        for (most, batches, has_memory) in [(5000, 10, true), (100_000, 60, true), (600_000, 150, false)] {
            let taken = (!has_memory).then(|| {
                let account = MemoryAccount::new(instance.memory(), "a test");
                account.overdraw(64 << 20);
                account
            });
            let all = places(&mut random, most, batches);
            let (mut seen, mut expected, mut repeated) = (HashSet::new(), Vec::new(), 0);
            for batch in &all {
                let numbers = batch.column(0).as_primitive::<arrow::datatypes::Decimal128Type>();
                for (row, order) in orders(batch).into_iter().enumerate().filter(|(row, _)| numbers.is_valid(*row)) {
                    match seen.insert(numbers.value(row)) {
                        true => expected.push(order),
                        false => repeated += 1,
                    }
                }
            }
            let (mut distinct, mut found, mut twice) = (Distinct::new(run), Vec::new(), 0);
            for batch in &all {
                let is_new = distinct.take(batch, &mut |_| {
                    twice += 1;
                    Ok(())
                });
                let new = filter_record_batch(batch, &is_new.expect("taken")).expect("rows");
                found.extend(orders(&new));
            }
            let mut told_later = 0;
            let finished = distinct.finish(
                &mut |_| {
                    told_later += 1;
                    Ok(())
                },
                &mut |batch| {
                    found.extend(orders(&batch));
                    Ok(())
                },
            );
            finished.expect("finished");
            found.sort_unstable();
            assert!(found == expected, "{most}: {} of {} rows", found.len(), expected.len());
            assert_eq!(twice + told_later, repeated, "{most}: each row that comes again is told");
            drop(taken);
        }
    });
}

#[test]
fn rows_on_disk_that_come_from_all_over_the_table_are_sorted_by_their_positions() {
    with_run("order", |_, run| {
        let mut random = SplitMix64::new(3);
        // The last case is split twice: a file of 1 MB is sorted in memory.
        for (rows, is_sorted) in [(1000_u64, false), (300_000, true), (1_500_000, true)] {
            let mut numbers: Vec<u64> = (0..rows).collect();
            for at in (1..numbers.len()).rev() {
                numbers.swap(at, random.below(at as u64 + 1) as usize);
            }
            let mut held = HeldBatches::new(run);
            for part in numbers.chunks(4000) {
                let places = part.iter().map(|number| Some(place(*number).number())).collect::<Vec<_>>();
                let places = Decimal128Array::from(places).with_precision_and_scale(38, 0).expect("numbers");
                let texts: StringViewArray = part.iter().map(|number| Some(format!("text of row {number}"))).collect();
                let columns: [(&str, ArrayRef, bool); 2] =
                    [("p", Arc::new(places), true), ("s", Arc::new(texts), true)];
                held.keep_found(RecordBatch::try_from_iter_with_nullable(columns).expect("a batch")).expect("kept");
            }
            let held = held.in_place_order().expect("sorted");
            let mut found = Vec::new();
            for batch in held.into_batches().expect("batches") {
                let batch = batch.expect("read");
                let texts = batch.column(1).as_string_view();
                for (row, number) in
                    batch.column(0).as_primitive::<arrow::datatypes::Decimal128Type>().values().iter().enumerate()
                {
                    let at = RowPlace::of_number(*number);
                    let number = u64::from(at.page.number) * 100 + u64::from(at.slot.0);
                    assert_eq!(texts.value(row), format!("text of row {number}"), "values stay with their positions");
                    found.push(number);
                }
            }
            assert_eq!(found.is_sorted(), is_sorted, "{rows}");
            found.sort_unstable();
            assert!(found.into_iter().eq(0..rows), "{rows}: each row once");
        }
    });
}
