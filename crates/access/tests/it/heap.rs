//! Heaps against a model, through commits, undo, faults and reopening.

use std::collections::BTreeMap;
use std::sync::Arc;

use hobt_access::{AccessError, Hobt, LoadedRuns, StorageSettings};
use hobt_base::{EXTENT_PAGES, FileId, HobtId, PageId, SlotId, SplitMix64};
use hobt_disk::{Fault, FaultKind, Operation};
use hobt_page::{
    ColumnLayout, POINTER_BYTES, PageChange, PageHeader, RUNS_PER_PAGE, RowLayout, Run, RunContents, RunListPage, apply,
};
use hobt_txn::StatementContext;
use hobt_types::PhysicalType;

use crate::world::{FileSize, GROUP, Row, World, file_of, image, random_row, rows_in, sorted, table};

type Model = BTreeMap<(PageId, u16), Row>;

/// One statement of random changes; the model as it would be after it.
fn statement(
    world: &World,
    hobt: &Arc<Hobt>,
    context: &Arc<StatementContext>,
    random: &mut SplitMix64,
    model: &Model,
) -> Result<Option<Model>, AccessError> {
    let mut after = model.clone();
    let mut loads = false;
    for _ in 0..1 + random.below(3) {
        match random.below(8) {
            0 => {
                hobt.truncate(context)?;
                after.clear();
                loads = false;
            }
            1 => {
                let count = random.below(400) as usize;
                let rows: Vec<Row> = (0..count).map(|_| random_row(random, hobt.row_layout(), 200)).collect();
                world.load(hobt, context, &rows, &mut || 100)?;
                loads = true;
            }
            2 | 3 if !loads => {
                let victims: Vec<(PageId, u16)> = after.keys().filter(|_| random.below(5) == 0).copied().collect();
                for (page, slot) in victims {
                    hobt.delete(context, page, SlotId(slot))?;
                    after.remove(&(page, slot));
                }
            }
            _ => {
                for _ in 0..random.below(300) {
                    let row = random_row(random, hobt.row_layout(), 200);
                    let (page, slot) = hobt.insert(context, &image(&row))?;
                    assert!(after.insert((page, slot.0), row).is_none(), "a slot of its own");
                }
            }
        }
    }
    Ok((!loads).then_some(after))
}

/// The model read back from the heap: RIDs and rows.
fn read_model(hobt: &Hobt) -> Model {
    let mut model = Model::new();
    hobt.for_each_row(&mut |id, slot, page| {
        let columns = page.row_layout().columns().len();
        let row = (0..columns).map(|column| page.value(column, slot).expect("sound").map(<[u8]>::to_vec)).collect();
        model.insert((id, slot as u16), row);
        Ok(())
    })
    .expect("readable");
    model
}

#[test]
fn a_heap_is_its_model_through_commits_undo_and_reopening() {
    for seed in 0..12 {
        let mut random = SplitMix64::new(seed);
        let mut world = World::new(1024, &[FileSize { pages: 64, growth_pages: 64, max_pages: 0 }; 2]);
        let mut hobt = world.create(&table());
        let mut model = Model::new();
        for _ in 0..25 {
            let (runs, free) = (hobt.runs(), world.free_extents());
            let sizes: Vec<u32> = world.storage.files().iter().map(|file| file.size_pages()).collect();
            let context = world.context();
            let after = statement(&world, &hobt, &context, &mut random, &model).expect("no faults");
            if random.below(3) == 0 {
                context.roll_back().expect("no faults");
                assert_eq!(hobt.runs(), runs, "the runs are as before");
                let grown: u32 = world
                    .storage
                    .files()
                    .iter()
                    .zip(&sizes)
                    .map(|(file, before)| (file.size_pages() - before) / EXTENT_PAGES)
                    .sum();
                assert_eq!(world.free_extents(), free + grown, "no extent is lost");
            } else {
                context.commit().expect("no faults");
                model = after.unwrap_or_else(|| read_model(&hobt));
            }
            assert_eq!(read_model(&hobt), model, "seed {seed}");
            world.assert_sound(&[&hobt]);
            if random.below(5) == 0 {
                hobt.save_counts().expect("saved");
                let list = hobt.run_list();
                world.reopen();
                hobt = world.open(&table(), list);
                assert_eq!(hobt.row_count(), model.len() as u64);
            }
        }
    }
}

#[test]
fn nothing_is_undone_in_pages_that_cannot_be_trusted() {
    let world = World::new(256, &[file_of(8 * 200)]);
    let hobt = world.create(&table());
    let mut random = SplitMix64::new(7);
    let context = world.context();
    let mut insert = || hobt.insert(&context, &image(&random_row(&mut random, hobt.row_layout(), 200))).expect("room");
    let places = [insert(), insert()];
    hobt.delete(&context, places[1].0, places[1].1).expect("it is there");
    let before = read_model(&hobt);
    world.storage.mark_broken("an undo failed");
    let error = context.roll_back().expect_err("recovery does it");
    assert!(error.to_string().contains("an undo failed"), "{error}");
    assert_eq!(read_model(&hobt), before);
}

#[test]
fn undo_of_insert_after_truncate_brings_the_old_rows_back() {
    let world = World::new(256, &[file_of(8 * 200)]);
    let hobt = world.create(&table());
    let mut random = SplitMix64::new(5);
    let fill = |context: &Arc<StatementContext>, random: &mut SplitMix64| {
        for _ in 0..300 {
            hobt.insert(context, &image(&random_row(random, hobt.row_layout(), 200))).expect("room");
        }
    };
    let context = world.context();
    fill(&context, &mut random);
    context.commit().expect("committed");
    let (before, runs) = (rows_in(&hobt), hobt.runs());
    let context = world.context();
    hobt.truncate(&context).expect("truncated");
    fill(&context, &mut random);
    context.roll_back().expect("undone");
    assert_eq!(rows_in(&hobt), before);
    assert_eq!(hobt.runs(), runs);
    world.assert_sound(&[&hobt]);
    let context = world.context();
    hobt.truncate(&context).expect("truncated");
    context.commit().expect("committed");
    assert_eq!(hobt.reserved_pages(), u64::from(EXTENT_PAGES));
    assert_eq!(hobt.used_pages(), 1, "the first extent's pages are free for rows again");
}

/// Runs of one extent that are on no list yet, each with one empty page that is never read.
fn bare_runs(world: &World, context: &StatementContext, count: usize) -> Vec<LoadedRuns> {
    let runs = (0..count).map(|_| {
        let (first, extents) = world.allocate(1).expect("room");
        let storage = Arc::clone(&world.storage);
        context.on_undo(move || storage.free(first, extents).map_err(|error| hobt_txn::UndoError(error.to_string())));
        LoadedRuns {
            runs: vec![Run { first, page_count: EXTENT_PAGES, used: 0, skip: 0, contents: RunContents::Rows }],
            rows: 0,
        }
    });
    runs.collect()
}

#[test]
fn run_lists_of_many_pages_survive_undo_truncation_and_reopening() {
    let mut world = World::new(256, &[file_of(8 * 4000)]);
    let mut hobt = world.create(&table());
    for count in [1, RUNS_PER_PAGE - 3, 3, 2 * RUNS_PER_PAGE, RUNS_PER_PAGE + 1] {
        let (runs, free) = (hobt.runs(), world.free_extents());
        for undo in [true, false] {
            let context = world.context();
            hobt.publish(&context, bare_runs(&world, &context, count)).expect("room");
            world.assert_sound(&[&hobt]);
            if undo {
                context.roll_back().expect("undone");
                assert_eq!((hobt.runs(), world.free_extents()), (runs.clone(), free));
            } else {
                context.commit().expect("committed");
            }
            world.assert_sound(&[&hobt]);
        }
        let runs = hobt.runs();
        world.reopen();
        hobt = world.open(&table(), hobt.run_list());
        assert_eq!(hobt.runs(), runs);
    }
    for undo in [true, false] {
        let (runs, free) = (hobt.runs(), world.free_extents());
        let context = world.context();
        hobt.truncate(&context).expect("truncated");
        hobt.publish(&context, bare_runs(&world, &context, RUNS_PER_PAGE + 5)).expect("room");
        if undo {
            context.roll_back().expect("undone");
            assert_eq!((hobt.runs(), world.free_extents()), (runs, free));
        } else {
            context.commit().expect("committed");
        }
        world.assert_sound(&[&hobt]);
    }
    let context = world.context();
    hobt.drop_storage(&context).expect("noted");
    context.commit().expect("committed");
    world.assert_sound(&[]);
}

#[test]
fn a_statement_that_meets_a_disk_error_leaves_no_trace() {
    let mut failed = 0;
    for operation in [Operation::Read, Operation::SetSize] {
        for after in 0..14 {
            let world = World::new(48, &[FileSize { pages: 8 * 60, growth_pages: 64, max_pages: 0 }]);
            world.storage.set_settings(StorageSettings { run_extents_first: 1, run_extents_max: 1 });
            let hobt = world.create(&table());
            let mut random = SplitMix64::new(after);
            let context = world.context();
            hobt.publish(&context, bare_runs(&world, &context, 40)).expect("room");
            for _ in 0..100 {
                hobt.insert(&context, &image(&random_row(&mut random, hobt.row_layout(), 100))).expect("room");
            }
            context.commit().expect("committed");
            world.make_cold();
            let (before, runs, free) = (rows_in(&hobt), hobt.runs(), world.free_extents());
            world.make_cold();
            let simulated = world.simulated.as_ref().expect("simulated");
            simulated.inject(Fault::once(operation, after, FaultKind::Error(5)));
            let context = world.context();
            let count = hobt.row_count();
            let result = (0..900).try_for_each(|round| {
                if round % 20 == 0 {
                    // Cold pages again, so that every kind of page is read from disk.
                    world.make_cold();
                }
                hobt.insert(&context, &image(&random_row(&mut random, hobt.row_layout(), 1500))).map(drop)
            });
            simulated.clear_faults();
            failed += usize::from(result.is_err());
            context.roll_back().expect("the disk is well again");
            assert_eq!((rows_in(&hobt), hobt.runs()), (before, runs), "{operation} {after}");
            assert_eq!(hobt.row_count(), count);
            world.assert_sound(&[&hobt]);
            if operation == Operation::Read {
                assert!(world.free_extents() >= free);
            }
        }
    }
    assert!(failed > 10, "the faults were met: {failed}");
}

/// The catalog's tables have many writers at a time, each of which may fail.
#[test]
fn statements_that_change_one_heap_at_once_undo_their_own_rows_alone() {
    for seed in 0..30 {
        let mut random = SplitMix64::new(seed);
        let world = World::new(256, &[file_of(8 * 400)]);
        let hobt = world.create(&table());
        let mut model: BTreeMap<(PageId, u16), (usize, Row)> = BTreeMap::new();
        let mut contexts: Vec<_> = (0..4).map(|_| Some(world.context())).collect();
        let mut kept = Vec::new();
        for _ in 0..600 {
            let writer = random.below(4) as usize;
            let Some(context) = &contexts[writer] else { continue };
            match random.below(60) {
                0 => {
                    let context = contexts[writer].take().expect("it runs");
                    if random.below(2) == 0 {
                        context.commit().expect("committed");
                        let own = model.values().filter(|(owner, _)| *owner == writer);
                        kept.extend(own.map(|(_, row)| row.clone()));
                    } else {
                        context.roll_back().expect("undone");
                    }
                    model.retain(|_, (owner, _)| *owner != writer);
                }
                1..8 => {
                    let own = model.iter().find(|(_, (owner, _))| *owner == writer).map(|(place, _)| *place);
                    if let Some((page, slot)) = own {
                        hobt.delete(context, page, SlotId(slot)).expect("there");
                        model.remove(&(page, slot));
                    }
                }
                _ => {
                    let row = random_row(&mut random, hobt.row_layout(), 300);
                    let (page, slot) = hobt.insert(context, &image(&row)).expect("room");
                    model.insert((page, slot.0), (writer, row));
                }
            }
        }
        contexts.iter().flatten().try_for_each(|context| context.roll_back()).expect("undone");
        assert_eq!(sorted(rows_in(&hobt)), sorted(kept), "seed {seed}");
        world.assert_sound(&[&hobt]);
    }
}

/// Cold pages, except for the allocation map: the read of the run list is what fails.
fn cold_but_for_the_map(world: &World) {
    world.make_cold();
    let (first, extents) = world.allocate(1).expect("room");
    world.storage.free(first, extents).expect("freed");
}

#[test]
fn a_run_that_does_not_come_onto_the_list_is_given_back() {
    for runs in [0, RUNS_PER_PAGE - 1] {
        for after in 0..3 {
            let world = World::new(256, &[file_of(8 * 1000)]);
            let hobt = world.create(&table());
            let context = world.context();
            let mut row = random_row(&mut SplitMix64::new(1), &table(), 10);
            row[3] = Some(vec![b'x'; 7000]);
            if runs > 0 {
                let mut loaded = bare_runs(&world, &context, runs);
                // The last run is full, and none of its pages is read.
                let last = &mut loaded[runs - 1].runs[0];
                (last.used, last.skip) = (EXTENT_PAGES, EXTENT_PAGES as u16);
                hobt.publish(&context, loaded).expect("room");
            } else {
                for _ in 1..EXTENT_PAGES {
                    hobt.insert(&context, &image(&row)).expect("a page each");
                }
            }
            context.commit().expect("committed");
            let (before, free) = (hobt.runs(), world.free_extents());
            cold_but_for_the_map(&world);
            let simulated = world.simulated.as_ref().expect("simulated");
            simulated.inject(Fault::once(Operation::Read, after, FaultKind::Error(5)));
            let context = world.context();
            let inserted = hobt.insert(&context, &image(&row));
            simulated.clear_faults();
            // The reads are of a full tail page and the run list, or of the run list alone.
            let reads = if runs > 0 { 1 } else { 2 };
            assert_eq!(inserted.is_err(), after < reads, "{runs} {after}");
            if inserted.is_err() {
                assert_eq!((hobt.runs(), world.free_extents()), (before.clone(), free), "before any undo");
            }
            world.assert_sound(&[&hobt]);
            context.roll_back().expect("undone");
            assert_eq!((hobt.runs(), world.free_extents()), (before, free));
            world.assert_sound(&[&hobt]);
        }
    }
}

#[test]
fn a_row_larger_than_a_page_is_refused_and_takes_nothing() {
    let world = World::new(64, &[file_of(8 * 20)]);
    let column = ColumnLayout { physical: PhysicalType::Variable, nullable: true };
    let layout = Arc::new(RowLayout::new(vec![column; 400]));
    let hobt = world.create(&layout);
    let mut row: Row = vec![Some(vec![b'x'; POINTER_BYTES]); 400];
    let (runs, free) = (hobt.runs(), world.free_extents());
    let context = world.context();
    assert!(matches!(hobt.insert(&context, &image(&row)), Err(AccessError::RowTooLarge { .. })));
    assert_eq!((hobt.runs(), world.free_extents()), (runs, free));
    row[..200].fill(None);
    hobt.insert(&context, &image(&row)).expect("a page of its own");
    context.commit().expect("committed");
    assert_eq!(rows_in(&hobt), [row]);
}

/// A checkpoint names the heaps first and writes their counts later; the heap may be dropped in between.
#[test]
fn a_heap_that_is_gone_writes_into_nobody_elses_page() {
    let world = World::new(256, &[file_of(8 * 200)]);
    let hobt = world.create(&table());
    let context = world.context();
    let mut random = SplitMix64::new(1);
    hobt.insert(&context, &image(&random_row(&mut random, &table(), 20))).expect("room");
    context.commit().expect("committed");
    let undone = world.context();
    let never = Hobt::create(&world.storage, HobtId(78), GROUP, table(), 3, &undone).expect("room");
    undone.roll_back().expect("undone");
    let context = world.context();
    hobt.drop_storage(&context).expect("noted");
    context.commit().expect("committed");
    // The extents of both now belong to a third heap.
    let context = world.context();
    let wide = Arc::new(RowLayout::new(vec![ColumnLayout { physical: PhysicalType::Fixed8, nullable: false }]));
    let owner = Hobt::create(&world.storage, HobtId(79), GROUP, wide, 3, &context).expect("room");
    let (first, _) = world.allocate(1).expect("room");
    context.commit().expect("committed");
    let (mine, gone) = ([owner.run_list(), first], [hobt.run_list(), never.run_list()]);
    assert!(gone.iter().all(|page| mine.contains(page)), "{mine:?} {gone:?}");
    let bytes = |page: PageId| {
        let file = world.storage.file(page.file).expect("the file");
        *file.pool_file().read(page.number).expect("readable")
    };
    let before = (bytes(owner.run_list()), bytes(first));
    for gone in [&hobt, &never] {
        gone.save_counts().expect("nothing to save");
    }
    assert!(before == (bytes(owner.run_list()), bytes(first)), "a page of another heap was written");
    let context = world.context();
    let row = image(&random_row(&mut random, &table(), 20));
    assert!(matches!(hobt.insert(&context, &row), Err(AccessError::Closed(_))), "the table was dropped");
    assert!(matches!(hobt.truncate(&context), Err(AccessError::Closed(_))));
    assert!(matches!(hobt.publish(&context, Vec::new()), Err(AccessError::Closed(_))));
}

#[test]
fn counts_are_written_into_the_heaps_own_run_list_alone() {
    let world = World::new(256, &[file_of(8 * 200)]);
    let hobt = world.create(&table());
    let id = hobt.run_list();
    let file = world.storage.file(id.file).expect("the file");
    let mut page = file.pool_file().write(id.number).expect("a frame");
    let mut header = PageHeader::read(&page).expect("a header");
    header.hobt = HobtId(78);
    apply(&mut page, None, &PageChange::SetHeader { header }).expect("any page");
    drop(page);
    let context = world.context();
    let row = image(&random_row(&mut SplitMix64::new(5), &table(), 20));
    hobt.insert(&context, &row).expect("the list is in memory");
    assert!(matches!(hobt.save_counts(), Err(AccessError::Damaged { page, .. }) if page == id));
}

/// A heap with some runs, reopened after `forge` changed its run list on the page; the error, if there is one.
fn forged(forge: impl FnOnce(&World, &mut Vec<Run>)) -> Option<AccessError> {
    let world = World::new(256, &[file_of(8 * 200)]);
    let hobt = world.create(&table());
    let context = world.context();
    hobt.publish(&context, bare_runs(&world, &context, 3)).expect("room");
    context.commit().expect("committed");
    let mut runs = hobt.runs();
    forge(&world, &mut runs);
    let id = hobt.run_list();
    let file = world.storage.file(id.file).expect("the file");
    let mut page = file.pool_file().write(id.number).expect("a frame");
    for (index, run) in runs.iter().enumerate() {
        let (offset, bytes) = RunListPage::entry_bytes(index, run);
        apply(&mut page, None, &PageChange::Write { offset, bytes }).expect("in the page");
    }
    drop(page);
    Hobt::open(&world.storage, HobtId(77), GROUP, table(), 3, id).err()
}

#[test]
fn a_run_list_of_extents_that_are_not_the_heaps_is_damage() {
    assert!(forged(|_, _| {}).is_none(), "as it was");
    type Forge = dyn Fn(&World, &mut Vec<Run>);
    let cases: [(&str, &Forge); 7] = [
        ("free extents", &|world, runs| world.storage.free(runs[2].first, 1).expect("freed")),
        ("extents behind those it has", &|_, runs| runs[3].page_count += EXTENT_PAGES),
        ("the file's header", &|_, runs| runs[2].first.number = 0),
        ("an extent twice", &|_, runs| runs[2] = runs[3]),
        ("pages behind the end of the file", &|_, runs| runs[3].page_count = 8 * 10_000),
        ("a file that is not there", &|_, runs| runs[2].first.file = FileId(9)),
        ("a first run of two extents", &|_, runs| runs[0].page_count = 2 * EXTENT_PAGES),
    ];
    for (what, forge) in cases {
        let error = forged(forge).unwrap_or_else(|| panic!("{what}: it opens"));
        assert!(matches!(error, AccessError::Damaged { .. }), "{what}: {error}");
    }
}

#[test]
fn extents_that_are_not_allocated_are_not_freed_and_break_the_storage_at_a_statements_end() {
    let world = World::new(256, &[file_of(8 * 200)]);
    let hobt = world.create(&table());
    let free = world.free_extents();
    for number in [0, 8 * 100] {
        let error = world.storage.free(PageId::new(hobt.run_list().file, number), 1).expect_err("nobody's");
        assert!(matches!(error, AccessError::Damaged { .. }), "{error}");
    }
    assert_eq!(world.free_extents(), free);
    assert_eq!(world.storage.broken(), None);
    world.assert_sound(&[&hobt]);
    let context = world.context();
    hobt.drop_storage(&context).expect("noted");
    world.storage.free(hobt.run_list(), 1).expect("by another, through a damaged list");
    context.commit().expect_err("freed already");
    assert!(world.storage.broken().is_some_and(|reason| reason.contains("not its own")));
}
