//! Values that do not fit their rows: against a model through every change of a heap, and with their pages broken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hobt_access::scan::{
    AggregateValue, Aggregator, ColumnKind, ColumnVector, PageVisitor, Scan, ScanAggregate, ScanExpression,
    ScanSettings, ShownPage, VectorData,
};
use hobt_access::{AccessError, Hobt, LargeValues, RowStore, StorageSettings, ValueReader};
use hobt_base::{FileId, HobtId, PageId, SlotId, SplitMix64};
use hobt_disk::{Fault, FaultKind, Operation};
use hobt_page::{
    LargeValuePage, PIECE_BYTES_MAX, PageChange, PageHeader, RunContents, StoredValue, ValuePointer, apply,
};
use hobt_txn::IoCounts;
use hobt_types::Collation;

use crate::world::{
    FileSize, GROUP, Row, TAG, World, file_of, image, loaded, random_row, rows_in, run_worker, scan, sorted, table,
};

const GROWING: FileSize = FileSize { pages: 64, growth_pages: 512, max_pages: 0 };

fn bytes(random: &mut SplitMix64, length: usize) -> Vec<u8> {
    let first = random.next_u64();
    (0..length as u64).map(|at| b'a' + (first.wrapping_add(at * at / 7) % 26) as u8).collect()
}

/// Mostly short values, some that leave their row, now and then one of megabytes.
fn mixed_row(random: &mut SplitMix64) -> Row {
    let mut row = random_row(random, &table(), 60);
    for column in [1, 3] {
        let length = match random.below(40) {
            0 => random.below(3 << 20) as usize,
            1..4 => random.below(60_000) as usize,
            4..8 => 8000 + random.below(300) as usize,
            8..12 => 3000 + random.below(3000) as usize,
            12 => PIECE_BYTES_MAX * (1 + random.below(3) as usize),
            _ => continue,
        };
        row[column] = Some(bytes(random, length));
    }
    row
}

#[test]
fn a_value_that_was_rolled_back_while_it_is_read_uncommitted_has_moved() {
    let world = World::new(256, &[file_of(8 * 200)]);
    let hobt = world.create(&table());
    let mut random = SplitMix64::new(3);
    let mut row = random_row(&mut random, &table(), 60);
    row[3] = Some(bytes(&mut random, 20_000));
    let writer = world.context();
    let (page, slot) = hobt.insert(&writer, &image(&row)).expect("room");
    let stored = hobt.row(page, slot).expect("it is there");
    let StoredValue::Pointer(pointer) = stored.stored(3) else { panic!("a value on pages of its own") };
    let (context, counts) = (world.context(), IoCounts::default());
    let reader = |uncommitted_since| Some(ValueReader { context: &context, counts: &counts, uncommitted_since });
    let since = Some(hobt.retired());
    assert_eq!(hobt.large_value(&pointer, reader(since)).expect("it is there"), row[3].clone().expect("a value"));
    writer.roll_back().expect("undone");
    let moved = hobt.large_value(&pointer, reader(since)).expect_err("its pages are free");
    assert!(matches!(moved, AccessError::DataMoved), "{moved}");
    let damaged = hobt.large_value(&pointer, reader(None)).expect_err("a committed value does not go");
    assert!(matches!(damaged, AccessError::Damaged { .. }), "{damaged}");
}

#[test]
fn rows_with_long_values_are_their_model_through_every_change() {
    for seed in 0..6 {
        let mut random = SplitMix64::new(seed);
        let mut world = World::new(4096, &[file_of(8 * 1500); 2]);
        let mut hobt = world.create(&table());
        let mut model: Vec<Row> = Vec::new();
        for _ in 0..14 {
            let (runs, free) = (hobt.runs(), world.free_extents());
            let context = world.context();
            let mut after = model.clone();
            match random.below(8) {
                0 => {
                    hobt.truncate(&context).expect("no faults");
                    after.clear();
                    let row = mixed_row(&mut random);
                    hobt.insert(&context, &image(&row)).expect("room");
                    after.push(row);
                }
                1 | 2 => {
                    let rows: Vec<Row> = (0..random.below(60)).map(|_| mixed_row(&mut random)).collect();
                    let batch = 1 + random.below(40) as usize;
                    world.load(&hobt, &context, &rows, &mut || batch).expect("room");
                    after.extend(rows);
                }
                3 => {
                    let mut victims = Vec::new();
                    hobt.for_each_row(&mut |id, slot, _| {
                        victims.extend((random.below(4) == 0).then_some((id, SlotId(slot as u16))));
                        Ok(())
                    })
                    .expect("readable");
                    victims.into_iter().try_for_each(|(page, slot)| hobt.delete(&context, page, slot)).expect("there");
                    after = rows_in(&hobt);
                }
                _ => {
                    for _ in 0..random.below(30) {
                        let row = mixed_row(&mut random);
                        hobt.insert(&context, &image(&row)).expect("room");
                        after.push(row);
                    }
                }
            }
            if random.below(3) == 0 {
                context.roll_back().expect("no faults");
                assert!(hobt.runs() == runs, "seed {seed}: the runs are as before");
                assert_eq!(world.free_extents(), free, "no extent is lost");
            } else {
                context.commit().expect("no faults");
                model = after;
            }
            model = sorted(model);
            assert!(sorted(rows_in(&hobt)) == model, "seed {seed}");
            world.assert_sound(&[&hobt]);
            if random.below(4) == 0 {
                hobt.save_counts().expect("saved");
                let list = hobt.run_list();
                world.reopen();
                hobt = world.open(&table(), list);
                assert_eq!(hobt.row_count(), model.len() as u64);
            }
            let seen = scan(&world, &[Arc::clone(&hobt)], 2, ScanSettings::default()).expect("no faults");
            assert!(sorted(seen.rows) == model, "seed {seed}");
            assert_eq!(seen.pages, hobt.data_pages(), "pages of values are not shown");
        }
        let context = world.context();
        hobt.drop_storage(&context).expect("noted");
        context.commit().expect("no faults");
        world.assert_sound(&[]);
    }
}

/// A heap with one long value in column 3, and its pointer.
fn one_long(world: &World, length: usize) -> (Arc<Hobt>, Row, ValuePointer) {
    let hobt = world.create(&table());
    let mut random = SplitMix64::new(length as u64);
    let mut row = random_row(&mut random, &table(), 10);
    row[3] = Some(bytes(&mut random, length));
    let context = world.context();
    hobt.insert(&context, &image(&row)).expect("room");
    context.commit().expect("committed");
    let pointer = pointer_of(&hobt);
    (hobt, row, pointer)
}

fn pointer_of(hobt: &Hobt) -> ValuePointer {
    let mut pointer = None;
    hobt.for_each_row(&mut |_, slot, page| {
        if let Ok(StoredValue::Pointer(found)) = page.stored(3, slot) {
            pointer = Some(found);
        }
        Ok(())
    })
    .expect("readable");
    pointer.expect("a value on pages of its own")
}

fn header_of(world: &World, id: PageId) -> PageHeader {
    let file = world.storage.file(id.file).expect("a file");
    PageHeader::read(&file.pool_file().read(id.number).expect("readable")).expect("a header")
}

fn change(world: &World, id: PageId, change: &PageChange) {
    let file = world.storage.file(id.file).expect("a file");
    let mut page = file.pool_file().write(id.number).expect("readable");
    apply(&mut page, None, change).expect("sound");
}

#[test]
fn a_broken_chain_is_damage_and_never_followed_on() {
    let world = World::new(512, &[file_of(8 * 200)]);
    let (hobt, row, pointer) = one_long(&world, 5 * PIECE_BYTES_MAX + 100);
    assert_eq!(hobt.large_value(&pointer, None).expect("sound"), row[3].clone().expect("a value"));
    let page = |at: u32| PageId::new(pointer.first.file, pointer.first.number + at);
    let damaged = |pointer: &ValuePointer, at: PageId| match hobt.large_value(pointer, None) {
        Err(AccessError::Damaged { page, .. }) => assert_eq!(page, at),
        other => panic!("damage at {at}, not {:?}", other.map(|bytes| bytes.len())),
    };
    // A chain that returns to itself, leads elsewhere, ends early, or continues after its end.
    let nowhere = PageId::new(FileId(9), 8);
    let behind_the_file = PageId::new(FileId(1), 8 * 200);
    for (at, next, found_at) in [
        (3, page(1), page(1)),
        (3, page(3), page(3)),
        (2, PageId::default(), page(2)),
        (2, nowhere, nowhere),
        (2, behind_the_file, behind_the_file),
        (2, hobt.run_list(), hobt.run_list()),
        (5, page(0), page(5)),
    ] {
        let before = header_of(&world, page(at));
        change(&world, page(at), &PageChange::SetHeader { header: PageHeader { next, ..before } });
        damaged(&pointer, found_at);
        assert_ne!(world.findings(&[&hobt]), [], "a check finds it too");
        change(&world, page(at), &PageChange::SetHeader { header: before });
    }
    // A piece of another heap, and a shorter piece.
    let before = header_of(&world, page(4));
    for header in [PageHeader { hobt: HobtId(5), ..before }, PageHeader { row_count: 9, ..before }] {
        change(&world, page(4), &PageChange::SetHeader { header });
        damaged(&pointer, page(4));
        change(&world, page(4), &PageChange::SetHeader { header: before });
    }
    // Lengths that the chain does not have take no more memory than the chain.
    damaged(&ValuePointer { length: i32::MAX as usize, ..pointer }, page(5));
    damaged(&ValuePointer { length: pointer.length - PIECE_BYTES_MAX, ..pointer }, page(4));
    damaged(&ValuePointer { length: pointer.length - 1, ..pointer }, page(5));
    damaged(&ValuePointer { first: page(1), ..pointer }, page(1));
    // Other bytes under a sound page checksum.
    let (offset, body) = LargeValuePage::body(2, b"other");
    change(&world, page(2), &PageChange::Write { offset, bytes: body });
    damaged(&pointer, pointer.first);
}

struct Aggregate(Aggregator, Arc<Scan>);

impl PageVisitor for Aggregate {
    fn visit(&mut self, ShownPage { partition, page, .. }: ShownPage<'_, '_>) -> Result<(), AccessError> {
        self.0.add_page(page, None, &self.1.large_values(partition)).expect("sound");
        Ok(())
    }
}

struct Text(ColumnVector, Arc<Scan>);

impl PageVisitor for Text {
    fn visit(&mut self, ShownPage { partition, id, page, .. }: ShownPage<'_, '_>) -> Result<(), AccessError> {
        self.0.append_page(id, page, &self.1.large_values(partition))
    }
}

#[test]
fn aggregates_and_vectors_see_the_values_and_reads_are_counted() {
    let world = World::new(4096, &[GROWING]);
    let layout = table();
    let hobt = world.create(&layout);
    let mut random = SplitMix64::new(3);
    let mut rows: Vec<Row> = (0..300).map(|_| random_row(&mut random, &layout, 40)).collect();
    for (place, row) in rows.iter_mut().enumerate() {
        let length = if place % 10 == 0 { 20_000 + place } else { place % 13 };
        row[3] = Some(bytes(&mut random, length));
    }
    let context = world.context();
    let (single, many) = rows.split_at(150);
    for row in single {
        hobt.insert(&context, &image(row)).expect("room");
    }
    world.load(&hobt, &context, many, &mut || 40).expect("room");
    context.commit().expect("committed");
    world.make_cold();
    let counts = Arc::default();
    let of =
        |counts| Scan::new(&[RowStore::Heap(Arc::clone(&hobt))], 1, ScanSettings::default(), world.context(), counts);
    let text = |row: &Row| String::from_utf8(row[3].clone().expect("NOT NULL")).expect("ASCII");
    let length = ScanExpression::Length(3);
    let collation = Collation::Latin1GeneralCiAs;
    let wanted = vec![
        ScanAggregate::Max(length.clone()),
        ScanAggregate::Sum(length),
        ScanAggregate::MinText(3, collation),
        ScanAggregate::MaxText(3, collation),
    ];
    let one = of(Arc::clone(&counts)).expect("a scan");
    let mut aggregate = Aggregate(Aggregator::new(wanted), Arc::clone(&one));
    run_worker(&one, &mut aggregate).expect("no faults");
    let texts: Vec<String> = rows.iter().map(text).collect();
    let sum: usize = texts.iter().map(String::len).sum();
    let expected = [
        AggregateValue::Extreme(texts.iter().map(|text| text.len() as i64).max()),
        AggregateValue::Sum(sum as i128, 300),
        AggregateValue::Text(texts.iter().min_by(|a, b| collation.compare(a, b)).cloned()),
        AggregateValue::Text(texts.iter().max_by(|a, b| collation.compare(a, b)).cloned()),
    ];
    assert!(aggregate.0.into_values() == expected);
    let (lob_pages, _) = hobt.large_value_pages();
    assert_eq!(lob_pages, 30 * 3, "every tenth value has three pages");
    let counts: Arc<hobt_txn::IoCounts> = counts;
    assert_eq!(loaded(&counts.lob_physical_reads), lob_pages, "each page is read from disk once");
    assert!(loaded(&counts.lob_logical_reads) >= 3 * lob_pages, "and looked at by three aggregates or more");
    assert_eq!(loaded(&counts.logical_reads), hobt.data_pages());

    let two = of(Arc::default()).expect("a scan");
    let mut vector =
        Text(ColumnVector::new(3, layout.columns()[3].physical, ColumnKind::Native, false), Arc::clone(&two));
    run_worker(&two, &mut vector).expect("no faults");
    assert!(vector.0.value_bytes() > 30 * 20_000);
    let VectorData::Views { views, bytes, large, is_ascii } = &vector.0.data else { panic!("text has views") };
    assert!(is_ascii);
    let mut seen: Vec<Vec<u8>> = views
        .iter()
        .map(|view| {
            let (length, buffer, offset) = (*view as u32 as usize, (view >> 64) as u32 as usize, (view >> 96) as usize);
            if length <= 12 {
                return view.to_le_bytes()[4..4 + length].to_vec();
            }
            let from = if buffer == 0 { bytes } else { &large[buffer - 1] };
            from[offset..offset + length].to_vec()
        })
        .collect();
    let mut expected: Vec<Vec<u8>> = texts.into_iter().map(String::into_bytes).collect();
    seen.sort_unstable();
    expected.sort_unstable();
    assert!(seen == expected);
}

#[test]
fn a_statement_with_long_values_that_fails_leaves_no_trace() {
    let mut failed = 0;
    for (operation, counts) in [(Operation::Read, 0..6), (Operation::SetSize, 0..3)] {
        for after in counts {
            for by_load in [false, true] {
                let world = World::new(256, &[FileSize { pages: 8 * 10, growth_pages: 64, max_pages: 0 }]);
                world.storage.set_settings(StorageSettings { run_extents_first: 1, run_extents_max: 4 });
                let (hobt, row, _) = one_long(&world, 100_000);
                world.make_cold();
                let (runs, rows) = (hobt.runs(), rows_in(&hobt));
                world.make_cold();
                let mut random = SplitMix64::new(after);
                let more: Vec<Row> = (0..40).map(|_| mixed_row(&mut random)).collect();
                let simulated = world.simulated.as_ref().expect("simulated");
                simulated.inject(Fault::once(operation, after, FaultKind::Error(5)));
                let context = world.context();
                let result = if by_load {
                    world.load(&hobt, &context, &more, &mut || 7)
                } else {
                    more.iter().try_for_each(|row| hobt.insert(&context, &image(row)).map(drop))
                };
                simulated.clear_faults();
                failed += usize::from(result.is_err());
                context.roll_back().expect("the disk is well again");
                assert!(hobt.runs() == runs && rows_in(&hobt) == rows && rows == [row], "{operation} {after}");
                world.assert_sound(&[&hobt]);
            }
        }
    }
    assert!(failed > 6, "the faults were met: {failed}");
}

#[test]
fn a_full_filegroup_and_a_cancelled_statement_stop_a_long_value() {
    let world = World::new(512, &[file_of(8 * 10)]);
    let hobt = world.create(&table());
    let free = world.free_extents();
    let mut row = random_row(&mut SplitMix64::new(1), &table(), 10);
    for by_load in [false, true] {
        row[3] = Some(vec![b'x'; 1 << 20]);
        let context = world.context();
        let result = if by_load {
            world.load(&hobt, &context, std::slice::from_ref(&row), &mut || 1)
        } else {
            hobt.insert(&context, &image(&row)).map(drop)
        };
        assert!(matches!(result, Err(AccessError::FilegroupFull { filegroup: GROUP, .. })), "{result:?}");
        context.roll_back().expect("undone");
        assert_eq!(world.free_extents(), free);
        row[3] = Some(vec![b'x'; 300_000]);
        let cancelled = Arc::new(AtomicBool::new(true));
        let context = world.cancellable(Arc::clone(&cancelled));
        let result = if by_load {
            world.load(&hobt, &context, std::slice::from_ref(&row), &mut || 1)
        } else {
            hobt.insert(&context, &image(&row)).map(drop)
        };
        assert!(matches!(result, Err(AccessError::Cancelled)), "{result:?}");
        cancelled.store(false, Ordering::Relaxed);
        context.roll_back().expect("undone");
        world.assert_sound(&[&hobt]);
    }
    let context = world.context();
    hobt.insert(&context, &image(&row)).expect("room now");
    context.commit().expect("committed");
    assert_eq!(rows_in(&hobt), [row]);
}

/// Statements that run side by side (as in the catalog), some of which are undone: the result is consistent.
#[test]
fn interleaved_statements_undo_their_own_values_alone() {
    for seed in 0..10 {
        let mut random = SplitMix64::new(seed);
        let world = World::new(1024, &[GROWING]);
        world.storage.set_settings(StorageSettings { run_extents_first: 1, run_extents_max: 1 });
        let hobt = world.create(&table());
        let contexts: Vec<_> = (0..3).map(|_| world.context()).collect();
        let mut written: Vec<Vec<Row>> = vec![Vec::new(); 3];
        for _ in 0..150 {
            let writer = random.below(3) as usize;
            let mut row = random_row(&mut random, &table(), 60);
            if random.below(2) == 0 {
                let length = random.below(40_000) as usize;
                row[3] = Some(bytes(&mut random, length));
            }
            hobt.insert(&contexts[writer], &image(&row)).expect("room");
            written[writer].push(row);
        }
        contexts[1].roll_back().expect("undone");
        contexts[0].commit().expect("committed");
        contexts[2].roll_back().expect("undone");
        assert!(sorted(rows_in(&hobt)) == sorted(std::mem::take(&mut written[0])), "seed {seed}");
        world.assert_sound(&[&hobt]);
    }
}

#[test]
fn a_page_of_values_is_marked_as_such() {
    let world = World::new(256, &[file_of(8 * 60)]);
    let (hobt, _, pointer) = one_long(&world, 30_000);
    let header = header_of(&world, pointer.first);
    assert_eq!((header.hobt, header.database_tag), (hobt.id(), TAG));
    let run = hobt.runs().into_iter().find(|run| run.contents == RunContents::LargeValues).expect("a run of its own");
    assert_eq!((run.first, run.used, run.row_page_count()), (pointer.first, 4, 0));
    assert_eq!(hobt.data_pages(), 1);
    assert_eq!(hobt.fetch(&pointer).expect("sound").len(), 30_000);
}
