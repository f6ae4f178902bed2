//! Bulk loads: a published load has the appended rows, a failed load leaves nothing behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hobt_access::scan::ScanSettings;
use hobt_access::{AccessError, Loader};
use hobt_base::SplitMix64;
use hobt_disk::{DeviceModel, Fault, FaultKind, Operation, SimulatedConfig};
use hobt_page::{ColumnLayout, RowLayout};
use hobt_types::PhysicalType;

use crate::world::{FileSize, Row, World, append, file_of, random_row, rows_in, scan, sorted, table};

fn layouts() -> Vec<Arc<RowLayout>> {
    let column = |physical, nullable| ColumnLayout { physical, nullable };
    vec![
        table(),
        Arc::new(RowLayout::new(vec![column(PhysicalType::Fixed4, false)])),
        Arc::new(RowLayout::new(vec![column(PhysicalType::Fixed1, true)])),
        Arc::new(RowLayout::new(vec![column(PhysicalType::Variable, false), column(PhysicalType::Variable, true)])),
    ]
}

#[test]
fn what_is_loaded_is_what_a_scan_sees() {
    for (case, layout) in layouts().into_iter().enumerate() {
        for (batch, text_max) in [(1u64, 20), (7, 300), (700, 2500), (20_000, 100)] {
            let mut world = World::new(512, &[FileSize { pages: 64, growth_pages: 512, max_pages: 0 }; 2]);
            let mut random = SplitMix64::new(batch + case as u64);
            let mut rows: Vec<Row> = (0..if batch == 20_000 { 30_000 } else { 1500 })
                .map(|_| random_row(&mut random, &layout, text_max))
                .collect();
            if let Some(column) = layout.columns().iter().position(|column| column.physical.width().is_none()) {
                // As large as a page, without another long value.
                let mut wide: Row = rows[0].clone();
                wide.iter_mut().zip(layout.columns()).for_each(|(value, described)| {
                    if described.physical.width().is_none() {
                        *value = Some(Vec::new());
                    }
                });
                let count = layout.columns().len();
                let room = 8192 - layout.page_bytes_bound(1, 0);
                wide[column] = Some(vec![b'w'; room]);
                rows.insert(0, wide.clone());
                rows.insert(count * 30, wide.clone());
                rows.push(wide);
            }
            let hobt = world.create(&layout);
            let context = world.context();
            let mut sizes = SplitMix64::new(batch);
            world.load(&hobt, &context, &rows, &mut || 1 + sizes.below(batch) as usize).expect("room");
            assert_eq!(context.memory().held(), 0, "the loader's buffers are given back");
            context.commit().expect("committed");
            world.assert_sound(&[&hobt]);
            assert_eq!(rows_in(&hobt), rows, "a loader keeps the order");
            hobt.save_counts().expect("saved");
            let list = hobt.run_list();
            world.reopen();
            if case == 0 {
                let hobt = world.open(&layout, list);
                let seen = scan(&world, &[hobt], 2, ScanSettings::default()).expect("no faults");
                assert_eq!(sorted(seen.rows), sorted(rows));
            }
        }
    }
}

#[test]
fn an_empty_batch_changes_nothing_wherever_it_comes() {
    let world = World::new(64, &[file_of(8 * 20)]);
    let layout = table();
    let hobt = world.create(&layout);
    let context = world.context();
    let mut loader = Loader::new(Arc::clone(&hobt), Arc::clone(&context));
    let row = random_row(&mut SplitMix64::new(2), &layout, 10);
    append(&mut loader, &layout, &[]).expect("nothing to do");
    append(&mut loader, &layout, std::slice::from_ref(&row)).expect("room");
    append(&mut loader, &layout, &[]).expect("nothing to do");
    hobt.publish(&context, vec![loader.finish().expect("written")]).expect("published");
    context.commit().expect("committed");
    assert_eq!(rows_in(&hobt), [row]);
}

#[test]
fn a_load_that_fails_at_any_operation_leaves_all_extents_free() {
    let mut failed = 0;
    for (operation, counts) in [(Operation::Write, 0..8), (Operation::SetSize, 0..4), (Operation::Read, 0..4)] {
        for after in counts {
            let config = SimulatedConfig { device: Some(DeviceModel::fast_card()), ..SimulatedConfig::default() };
            let world = World::with(config, 64, &[FileSize { pages: 8 * 4, growth_pages: 128, max_pages: 0 }; 2]);
            let hobt = world.create(&table());
            world.make_cold();
            let mut random = SplitMix64::new(after);
            let rows: Vec<Row> = (0..6000).map(|_| random_row(&mut random, &table(), 200)).collect();
            let simulated = world.simulated.as_ref().expect("simulated");
            simulated.inject(Fault::once(operation, after, FaultKind::Error(5)));
            let context = world.context();
            let result = world.load(&hobt, &context, &rows, &mut || 500);
            simulated.clear_faults();
            assert_eq!(context.memory().held(), 0);
            failed += usize::from(result.is_err());
            if result.is_ok() {
                context.commit().expect("committed");
                world.assert_sound(&[&hobt]);
                continue;
            }
            // A file whose write failed refuses later ones, so only pages in the pool can be read.
            context.roll_back().expect("the maps are resident");
            assert_eq!(hobt.row_count(), 0);
            world.assert_sound(&[&hobt]);
        }
    }
    assert!(failed > 8, "{failed}");
}

#[test]
fn a_load_that_failed_does_not_finish() {
    let world = World::new(64, &[file_of(8 * 20)]);
    let column = ColumnLayout { physical: PhysicalType::Variable, nullable: true };
    let layout = Arc::new(RowLayout::new(vec![column; 400]));
    let hobt = world.create(&layout);
    let free = world.free_extents();
    let context = world.context();
    let mut loader = Loader::new(Arc::clone(&hobt), Arc::clone(&context));
    let mut rows: Vec<Row> = vec![vec![Some(vec![1; 10]); 400]; 20];
    rows[15] = vec![Some(vec![0; 24]); 400];
    assert!(matches!(append(&mut loader, &layout, &rows), Err(AccessError::RowTooLarge { bytes }) if bytes > 9000));
    assert!(append(&mut loader, &layout, &rows[..10]).is_err(), "rows are missing");
    assert!(loader.finish().is_err(), "rows are missing");
    context.roll_back().expect("undone");
    assert_eq!(world.free_extents(), free);
    world.assert_sound(&[&hobt]);
}

#[test]
fn a_cancelled_load_stops_and_leaves_nothing() {
    let world = World::new(64, &[file_of(8 * 40)]);
    let layout = table();
    let hobt = world.create(&layout);
    let cancelled = Arc::new(AtomicBool::new(false));
    let context = world.cancellable(Arc::clone(&cancelled));
    let mut loader = Loader::new(Arc::clone(&hobt), Arc::clone(&context));
    let rows: Vec<Row> = (0..500).map(|_| random_row(&mut SplitMix64::new(2), &layout, 100)).collect();
    append(&mut loader, &layout, &rows).expect("room");
    cancelled.store(true, Ordering::Relaxed);
    assert!(matches!(append(&mut loader, &layout, &rows), Err(AccessError::Cancelled)));
    drop(loader);
    context.roll_back().expect("undone");
    world.assert_sound(&[&hobt]);
}

#[test]
fn a_load_without_memory_or_room_fails_as_such() {
    let world = World::new(64, &[file_of(8 * 3)]);
    let layout = table();
    let hobt = world.create(&layout);
    let rows: Vec<Row> = (0..3000).map(|_| random_row(&mut SplitMix64::new(2), &layout, 100)).collect();
    let context = world.context();
    let error = world.load(&hobt, &context, &rows, &mut || 400).expect_err("three extents");
    assert!(matches!(error, AccessError::FilegroupFull { .. }), "{error}");
    context.roll_back().expect("undone");
    let hog = world.context();
    hog.memory().grow(world.budget.limit() - 1000).expect("all but a little");
    let context = world.context();
    let error = world.load(&hobt, &context, &rows, &mut || 400).expect_err("no memory");
    assert!(matches!(error, AccessError::OutOfMemory(_)), "{error}");
    context.roll_back().expect("undone");
    world.assert_sound(&[&hobt]);
}
