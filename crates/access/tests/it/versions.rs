//! What readers see while others write: rows as they were committed at the reader's first read.

use std::sync::Arc;

use hobt_access::scan::{Scan, ScanSettings};
use hobt_access::{Hobt, RowStore};
use hobt_base::{PageId, SessionId, SlotId, SplitMix64};
use hobt_txn::{IoCounts, StatementContext, StatementContextSettings, Transactions};

use crate::world::{Collect, Row, World, file_of, image, loaded, random_row, run_worker, sorted, table};

/// A statement in the list of running transactions that reads versions.
pub(crate) fn statement(world: &World, all: &Arc<Transactions>) -> Arc<StatementContext> {
    let running = all.begin();
    let settings = StatementContextSettings {
        session: SessionId(51),
        stamp: running.stamp(),
        degree_of_parallelism: 2,
        memory: Arc::clone(&world.budget),
    };
    let context = StatementContext::new(&settings, Arc::default());
    context.transaction().set_running(running);
    context.read_versions(None);
    context
}

fn insert(hobt: &Arc<Hobt>, context: &StatementContext, rows: &[Row]) -> Vec<(PageId, SlotId)> {
    rows.iter().map(|row| hobt.insert(context, &image(row)).expect("room")).collect()
}

/// The rows that a statement's scan shows.
fn scanned(hobt: &Arc<Hobt>, context: &Arc<StatementContext>) -> Vec<Row> {
    let scan =
        Scan::new(&[RowStore::Heap(Arc::clone(hobt))], 1, ScanSettings::default(), Arc::clone(context), Arc::default());
    let mut rows = Collect::default();
    run_worker(&scan.expect("a scan"), &mut rows).expect("no faults");
    rows.rows
}

/// A row by its RID as a statement sees it.
fn looked_up(hobt: &Hobt, context: &StatementContext, place: (PageId, SlotId)) -> Option<Row> {
    let counts = IoCounts::default();
    let row = hobt.row_visible(place, (context, false), &counts, |_, page, slot| {
        let value = |column| page.value(column, slot.0.into()).expect("a value in its row").map(<[u8]>::to_vec);
        (0..page.row_layout().columns().len()).map(value).collect::<Row>()
    });
    assert_eq!(loaded(&counts.logical_reads), 1);
    row.expect("readable")
}

pub(crate) fn end(context: &StatementContext, commits: bool) {
    if commits { context.commit() } else { context.roll_back() }.expect("it ends");
    context.let_go();
}

#[test]
fn a_reader_sees_what_was_committed_when_it_first_looked() {
    for seed in 0..40 {
        let mut random = SplitMix64::new(seed);
        let world = World::new(512, &[file_of(8 * 400)]);
        let all: Arc<Transactions> = Arc::default();
        let hobt = world.create(&table());
        let mut rows = |count: u64| -> Vec<Row> { (0..count).map(|_| random_row(&mut random, &table(), 30)).collect() };
        let (old, new, other) = (rows(300), rows(200), rows(50));
        let first = statement(&world, &all);
        let places = insert(&hobt, &first, &old);
        end(&first, true);
        let before = statement(&world, &all);
        assert!(before.view().is_some());
        // One commits, one is undone, one goes on. Each deletes some rows of the first.
        let (commits, undone, open) = (statement(&world, &all), statement(&world, &all), statement(&world, &all));
        let mut left: Vec<Row> = old.clone();
        for (step, (page, slot)) in places.iter().enumerate() {
            match step % 7 {
                1 => {
                    hobt.delete(&commits, *page, *slot).expect("deleted");
                    left.retain(|row| *row != old[step]);
                }
                3 => hobt.delete(&undone, *page, *slot).expect("deleted"),
                5 => hobt.delete(&open, *page, *slot).expect("deleted"),
                _ => {}
            }
        }
        insert(&hobt, &commits, &new);
        insert(&hobt, &undone, &other);
        insert(&hobt, &open, &other);
        let see = |context: &Arc<StatementContext>| sorted(scanned(&hobt, context));
        for _ in 0..2 {
            assert!(see(&before) == sorted(old.clone()), "seed {seed}: as it was");
            for (place, row) in places.iter().zip(&old) {
                assert_eq!(looked_up(&hobt, &before, *place).as_ref(), Some(row), "seed {seed}: a row as it was");
            }
        }
        end(&undone, false);
        end(&commits, true);
        assert!(see(&before) == sorted(old.clone()), "seed {seed}: still as it was");
        let after = statement(&world, &all);
        left.extend(new.iter().cloned());
        assert!(see(&after) == sorted(left.clone()), "seed {seed}: what committed");
        end(&open, false);
        for (step, (place, row)) in places.iter().zip(&old).enumerate() {
            let seen = (step % 7 != 1).then_some(row);
            assert_eq!(looked_up(&hobt, &after, *place).as_ref(), seen, "seed {seed}: a row, or that it is gone");
        }
        let last = *places.last().expect("rows");
        assert_eq!(looked_up(&hobt, &after, (last.0, SlotId(9999))), None, "no such slot");
        assert!(see(&after) == sorted(left), "seed {seed}: what committed, again");
        for context in [before, after] {
            end(&context, true);
            drop(context);
        }
        assert!(world.storage.versions().is_empty(), "seed {seed}: nobody needs versions any more");
        assert_eq!(all.running_count(), 0);
    }
}

/// Writers of one page begin, write and end in any order: no reader sees uncommitted rows, although the page names one
/// writer.
#[test]
fn a_page_with_several_writers_shows_what_committed() {
    for seed in 0..60 {
        let mut random = SplitMix64::new(seed);
        let world = World::new(128, &[file_of(8 * 40)]);
        let all: Arc<Transactions> = Arc::default();
        let hobt = world.create(&table());
        let mut committed: Vec<Row> = Vec::new();
        let mut open: Vec<(Arc<StatementContext>, Vec<Row>)> = Vec::new();
        for step in 0..60 {
            match random.below(4) {
                0 if open.len() < 4 => open.push((statement(&world, &all), Vec::new())),
                1 if !open.is_empty() => {
                    let (context, rows) = open.swap_remove(random.below(open.len() as u64) as usize);
                    let commits = random.below(2) == 0;
                    end(&context, commits);
                    committed.extend(rows.into_iter().filter(|_| commits));
                }
                _ if !open.is_empty() => {
                    let which = random.below(open.len() as u64) as usize;
                    let row = random_row(&mut random, &table(), 5);
                    insert(&hobt, &open[which].0, std::slice::from_ref(&row));
                    open[which].1.push(row);
                }
                _ => {}
            }
            let reader = statement(&world, &all);
            assert!(sorted(scanned(&hobt, &reader)) == sorted(committed.clone()), "seed {seed}, step {step}");
            end(&reader, true);
        }
    }
}

#[test]
fn loaded_pages_are_hidden_until_their_loader_has_ended() {
    let world = World::new(512, &[file_of(8 * 400)]);
    let all: Arc<Transactions> = Arc::default();
    let hobt = world.create(&table());
    let mut random = SplitMix64::new(3);
    let rows: Vec<Row> = (0..2000).map(|_| random_row(&mut random, &table(), 30)).collect();
    let (before, loader) = (statement(&world, &all), statement(&world, &all));
    assert!(before.view().is_some());
    world.load(&hobt, &loader, &rows, &mut || 500).expect("room");
    let beside = statement(&world, &all);
    assert!(scanned(&hobt, &beside).is_empty() && scanned(&hobt, &before).is_empty());
    assert_eq!(scanned(&hobt, &loader).len(), rows.len(), "its own");
    let run = hobt.runs().into_iter().rfind(|run| run.row_page_count() > 0).expect("a loaded run");
    let place = (PageId::new(run.first.file, run.row_pages().start), SlotId(0));
    assert!(looked_up(&hobt, &beside, place).is_none() && looked_up(&hobt, &loader, place).is_some());
    end(&loader, true);
    assert!(scanned(&hobt, &beside).is_empty(), "as when it first looked");
    // The first change of a loaded page, while a reader does not see its loader.
    let changer = statement(&world, &all);
    let (page, _) = insert(&hobt, &changer, &rows[..1])[0];
    let first =
        hobt.runs().iter().flat_map(|run| run.row_pages().map(|number| PageId::new(run.first.file, number))).next();
    hobt.delete(&changer, first.expect("a page"), SlotId(0)).expect("deleted");
    assert!(page.number > 0);
    assert_eq!(scanned(&hobt, &changer).len(), rows.len());
    assert!(scanned(&hobt, &beside).is_empty() && scanned(&hobt, &before).is_empty());
    let later = statement(&world, &all);
    assert_eq!(scanned(&hobt, &later).len(), rows.len(), "without what is not committed");
    end(&changer, false);
    assert_eq!(scanned(&hobt, &later).len(), rows.len());
    assert_eq!(hobt.row_count(), rows.len() as u64);
}

#[test]
fn rows_that_are_replaced_are_seen_as_they_were() {
    for seed in 0..40 {
        let mut random = SplitMix64::new(1000 + seed);
        let mut world = World::new(512, &[file_of(8 * 400)]);
        let all: Arc<Transactions> = Arc::default();
        let hobt = world.create(&table());
        let mut rows: Vec<Row> = (0..300).map(|_| random_row(&mut random, &table(), 40)).collect();
        let first = statement(&world, &all);
        let mut places = insert(&hobt, &first, &rows);
        end(&first, true);
        let mut moved = 0;
        for round in 0..6 {
            let before = statement(&world, &all);
            assert!(before.view().is_some());
            let changer = statement(&world, &all);
            let (mut new_rows, mut new_places) = (rows.clone(), places.clone());
            for _ in 0..60 {
                let which = random.below(300) as usize;
                let row = match random.below(3) {
                    0 => rows[which].clone(),
                    _ => random_row(&mut random, &table(), 40),
                };
                let (page, slot) = new_places[which];
                new_places[which] = hobt.replace(&changer, page, slot, &image(&row)).expect("room");
                moved += usize::from(new_places[which] != (page, slot));
                new_rows[which] = row;
            }
            assert!(sorted(scanned(&hobt, &before)) == sorted(rows.clone()), "seed {seed}: as they were");
            for (place, row) in places.iter().zip(&rows) {
                assert_eq!(looked_up(&hobt, &before, *place).as_ref(), Some(row), "seed {seed}: a row as it was");
            }
            assert!(sorted(scanned(&hobt, &changer)) == sorted(new_rows.clone()), "seed {seed}: its own");
            let commits = round % 2 == 0;
            end(&changer, commits);
            assert!(sorted(scanned(&hobt, &before)) == sorted(rows.clone()), "seed {seed}: still as they were");
            if commits {
                (rows, places) = (new_rows, new_places);
            }
            let after = statement(&world, &all);
            assert!(sorted(scanned(&hobt, &after)) == sorted(rows.clone()), "seed {seed}: what committed");
            end(&after, true);
            end(&before, true);
        }
        assert!(moved > 0, "some have to move");
        assert_eq!(hobt.row_count(), 300);
        world.assert_sound(&[&hobt]);
        hobt.save_counts().expect("written");
        let (list, layout) = (hobt.run_list(), table());
        drop(hobt);
        world.reopen();
        assert!(sorted(crate::world::rows_in(&world.open(&layout, list))) == sorted(rows), "seed {seed}: on disk");
    }
}
