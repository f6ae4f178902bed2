//! `REORGANIZE`: a tree keeps its rows, takes less space, and has its leaves in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hobt_access::{AccessError, BTree, Direction, KeyRange, Reorganized};
use hobt_base::SplitMix64;
use hobt_txn::{StatementContext, Transactions};

use super::readers::{Walk, settings};
use super::{Model, Shape, assert_is_model, build, change, create, findings, rows_of, shapes};
use crate::versions::{end, statement};
use crate::world::{FileSize, Row, World, image, sorted};

fn reorganize(tree: &BTree, context: &StatementContext, fill: u8) -> Reorganized {
    let mut last = (0, 1);
    let result = tree.reorganize(context, fill, &mut |done, all| {
        assert!(done <= all && all > 0, "{done} of {all}");
        last = (done, all);
    });
    assert_eq!(last.0, last.1, "a walk that is done is done whole");
    result.expect("readable")
}

/// A tree whose rows were inserted in random order, and most of which were deleted.
fn sparse(world: &World, all: &Arc<Transactions>, shape: &Shape, seed: u64, count: u64) -> (Arc<BTree>, Model) {
    let mut random = SplitMix64::new(seed);
    let tree = create(world, &shape.description());
    let mut model = Model::new();
    let context = statement(world, all);
    for _ in 0..count {
        let row = shape.row(&mut random, 30_000, 150);
        let key = tree.key_of(&image(&row)).expect("short");
        if tree.insert(&context, &image(&row)).is_ok() {
            model.insert(key, row);
        }
    }
    end(&context, true);
    let context = statement(world, all);
    let gone: Vec<Vec<u8>> = model.keys().filter(|_| random.below(3) > 0).cloned().collect();
    for key in gone {
        assert!(tree.delete(&context, &key).expect("readable"));
        model.remove(&key);
    }
    end(&context, true);
    (tree, model)
}

fn world() -> World {
    World::new(1024, &[FileSize { pages: 64, growth_pages: 64, max_pages: 0 }; 2])
}

#[test]
fn a_sparse_tree_becomes_dense_and_its_leaves_lie_in_order() {
    for (seed, shape) in (0u64..).zip(shapes()) {
        for fill in [0, 70] {
            let what = format!("shape {seed}, fill factor {fill}");
            let (world, all) = (world(), Arc::default());
            let (tree, model) = sparse(&world, &all, &shape, seed, 6000);
            let before = tree.figures().expect("sound");
            let reserved = tree.hobt().reserved_pages();
            let context = statement(&world, &all);
            let done = reorganize(&tree, &context, fill);
            end(&context, true);
            assert_is_model(&world, &tree, &model, &what);
            let after = tree.figures().expect("sound");
            assert!(done.merged > 0 && done.freed > 0 && done.moved > 0, "{what}: {done:?}");
            assert_eq!(after.pages[0] + done.merged, before.pages[0], "{what}");
            assert_eq!(after.ghosts, 0, "{what}: nobody needs them");
            assert_eq!(after.free, 0, "{what}: {done:?}");
            assert!(fill > 0 || after.fill() > 0.8, "{what}: {} of {}", after.fill(), before.fill());
            assert!(fill == 0 || after.fill() < 0.71, "{what}: {}", after.fill());
            // Pages above the leaves and ends of runs are between leaves.
            let runs = tree.hobt().runs().len() as u64;
            let above: u64 = after.pages[1..].iter().sum();
            assert!(after.fragments <= runs + above, "{what}: {} of {:?}", after.fragments, after.pages);
            assert!(tree.hobt().reserved_pages() < reserved, "{what}: extents are given back");
            assert_eq!(tree.hobt().operations().leaf_merges, done.merged);
            // Nothing is left to be done.
            let context = statement(&world, &all);
            assert_eq!(reorganize(&tree, &context, fill), Reorganized::default(), "{what}");
            end(&context, true);
            // Pages that were given back are used again.
            let context = statement(&world, &all);
            let (mut random, mut model) = (SplitMix64::new(7), model);
            for _ in 0..3000 {
                let row = shape.row(&mut random, 30_000, 150);
                change(&tree, &context, &mut random, &mut model, row).expect("room");
            }
            end(&context, true);
            assert_is_model(&world, &tree, &model, &what);
        }
    }
}

#[test]
fn a_tree_that_is_in_order_is_left_alone() {
    let (world, all, shape) = (world(), Arc::default(), &shapes()[0]);
    let tree = create(&world, &shape.description());
    let row = |key: u32| -> Row { vec![Some(vec![b'r'; 60]), Some(key.to_le_bytes().to_vec())] };
    let rows: Vec<Row> = (0..20_000).map(row).collect();
    let context = statement(&world, &all);
    build(&tree, &context, &rows, (1000, 0)).expect("room");
    end(&context, true);
    let context = statement(&world, &all);
    assert_eq!(reorganize(&tree, &context, 0), Reorganized::default());
    // One leaf out of place is not worth moving all leaves after it.
    tree.delete(&context, &tree.key_of(&image(&rows[50])).expect("short")).expect("readable");
    for key in [50, 1_000_000] {
        tree.insert(&context, &image(&vec![Some(vec![b'l'; 150]), Some(row(key)[1].clone().expect("a key"))]))
            .expect("a new key");
    }
    end(&context, true);
    let context = statement(&world, &all);
    let done = reorganize(&tree, &context, 0);
    assert_eq!((done.moved, done.freed), (0, 0));
    end(&context, true);
    assert_eq!(findings(&world, &tree), []);
}

#[test]
fn who_cancels_keeps_what_was_done() {
    let (world, all, shape) = (world(), Arc::default(), &shapes()[0]);
    let (tree, model) = sparse(&world, &all, shape, 3, 6000);
    let all_steps = {
        let mut steps = 0;
        let cancelled = Arc::new(AtomicBool::new(true));
        let context = world.cancellable(cancelled);
        let result = tree.reorganize(&context, 0, &mut |_, _| steps += 1);
        assert!(matches!(result, Err(AccessError::Cancelled)));
        assert_eq!(steps, 1, "the first step asks already");
        tree.figures().expect("sound").pages[0] * 2
    };
    let mut merged = 0;
    for stop_at in (20..all_steps).step_by(37) {
        let cancelled = Arc::new(AtomicBool::new(false));
        let context = world.cancellable(Arc::clone(&cancelled));
        let mut steps = 0;
        let _may_be_cancelled = tree.reorganize(&context, 0, &mut |_, _| {
            steps += 1;
            cancelled.store(steps >= stop_at, Ordering::Relaxed);
        });
        context.roll_back().expect("nothing to undo");
        assert_is_model(&world, &tree, &model, "cancelled");
        let now = tree.hobt().operations().leaf_merges;
        assert!(now >= merged, "what was done stays done");
        merged = now;
    }
    assert!(merged > 0);
}

/// A scan that began before leaves are merged and moved, and continues after that, shows each row once.
#[test]
fn scans_under_way_miss_nothing_and_see_nothing_twice() {
    for seed in 0..12 {
        let (world, all, shape) = (world(), Arc::default(), &shapes()[seed as usize % 4]);
        let (tree, model) = sparse(&world, &all, shape, seed, 3000);
        let expected = sorted(model.values().cloned().collect());
        let mut random = SplitMix64::new(seed);
        let readers = [(); 3].map(|()| statement(&world, &all));
        let mut walks: Vec<Walk> = Vec::new();
        for reader in &readers {
            let mut walk = Walk::begin(&tree, reader, settings(&mut random));
            walk.go_on(random.below(20));
            walks.push(walk);
        }
        let context = statement(&world, &all);
        let done = reorganize(&tree, &context, 0);
        assert_eq!(done.freed, 0, "scans may still read what is free");
        end(&context, true);
        if seed % 2 == 0 {
            world.make_cold();
        }
        for walk in walks {
            assert!(walk.finish() == expected, "seed {seed}");
        }
        readers.iter().for_each(|reader| end(reader, true));
        let context = statement(&world, &all);
        let done = reorganize(&tree, &context, 0);
        assert!(done.freed > 0, "seed {seed}: nobody reads them now");
        end(&context, true);
        assert_is_model(&world, &tree, &model, "at the end");
        let forward = rows_of(&tree, KeyRange::all(), Direction::Forward).expect("readable");
        assert_eq!(forward.len(), model.len());
    }
}

/// Rows of 1 KiB, so that each leaf has seven. The addresses of the pages follow from the order of the inserts.
#[test]
fn figures_are_those_of_a_tree_made_by_hand() {
    // One file, so that a page's number is its position.
    let world = World::new(1024, &[FileSize { pages: 64, growth_pages: 64, max_pages: 0 }]);
    let shape = &shapes()[3];
    let tree = create(&world, &shape.description());
    let insert = |number: u32| {
        let context = world.context();
        let row: Row =
            vec![Some(vec![b'r'; 1000]), Some(vec![0, 0]), Some(Vec::new()), Some(number.to_le_bytes().to_vec())];
        tree.insert(&context, &image(&row)).expect("a new key");
        context.commit().expect("nothing fails");
    };
    // The leaves in the order of keys, each by its address, as its neighbours name it.
    let leaves = || {
        let mut leaves = Vec::new();
        let mut cursor = hobt_access::Cursor::new(Arc::clone(&tree), KeyRange::all(), Direction::Forward);
        while cursor
            .next_leaf(&mut |id, _, _| {
                leaves.push(id.number);
                Ok(())
            })
            .expect("readable")
        {}
        leaves
    };
    let breaks = |leaves: &[u32]| leaves.windows(2).filter(|pair| pair[0] + 1 != pair[1]).count() as u64;
    (0..7).for_each(|number| insert(1000 * number));
    let one = tree.figures().expect("sound");
    assert_eq!((one.pages.as_slice(), one.fragments, one.rows), (&[1][..], 0, 7));
    // Ascending keys: each full leaf stays as it is, and the next one follows it.
    (7..42).for_each(|number| insert(1000 * number));
    let rising = tree.figures().expect("sound");
    assert_eq!((rising.pages.as_slice(), rising.rows), (&[6, 1][..], 42));
    assert_eq!(leaves().len(), 6);
    assert_eq!(rising.fragments, breaks(&leaves()));
    let before = leaves();
    // The second leaf is split: its upper half goes behind all other pages, and two leaves are no longer neighbours.
    insert(8500);
    let split = tree.figures().expect("sound");
    let after = leaves();
    assert_eq!(split.pages, [7, 1]);
    let new = after[2];
    assert!(new > before[5], "the new leaf is the last");
    assert_eq!([&after[..2], &after[3..]].concat(), before);
    let was_whole = u64::from(before[1] + 1 == before[2]);
    assert_eq!(split.fragments, rising.fragments + 1 + was_whole);
    let expected = split.fragments as f64 / 6.0;
    assert!((split.fragmentation() - expected).abs() < 1e-9, "of six steps from leaf to leaf");
}
