//! Readers and writers of a tree in threads of their own.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hobt_access::scan::{Scan, ScanWorker};
use hobt_access::{BTree, Direction, KeyRange, RowStore, TreeSeek};
use hobt_base::SplitMix64;
use hobt_txn::Transactions;

use super::show::{OneByOne, Walk, seen_by, settings};
use crate::btree::{create, findings, shapes};
use crate::versions::{end, statement};
use crate::world::{FileSize, Row, World, image};

const OWNERS: u32 = 3;
const ROWS_EACH: usize = 300;

/// A row that has the number of its owner's transaction that made it.
fn stamped(random: &mut SplitMix64, key: u32, transaction: u32) -> Row {
    let text = format!("{transaction:05}{}", "x".repeat(random.below(120) as usize));
    vec![Some(text.into_bytes()), Some(key.to_le_bytes().to_vec())]
}

/// Each transaction writes its number to all rows of its owner and replaces some of them by others, whose keys differ.
fn write_for(world: &World, all: &Arc<Transactions>, tree: &Arc<BTree>, owner: u32) {
    let mut random = SplitMix64::new(owner.into());
    let mut keys: Vec<u32> = Vec::new();
    for transaction in 1..=25 {
        let context = statement(world, all);
        let mut after = keys.clone();
        let leave = if transaction == 1 { 0 } else { 40 };
        for _ in 0..leave {
            let key = after.swap_remove(random.below(after.len() as u64) as usize);
            let key = tree.key_of(&image(&stamped(&mut random, key, 0))).expect("short");
            assert!(tree.delete(&context, &key).expect("readable"), "its own row");
        }
        for &key in &after {
            let row = stamped(&mut random, key, transaction);
            assert!(tree.replace(&context, &image(&row)).expect("room"), "its own row");
        }
        while after.len() < ROWS_EACH {
            let key = random.below(1_000_000) as u32 / OWNERS * OWNERS + owner;
            if !after.contains(&key) && !keys.contains(&key) {
                tree.insert(&context, &image(&stamped(&mut random, key, transaction))).expect("a new key");
                after.push(key);
            }
        }
        let commits = random.below(4) > 0 || transaction == 1;
        end(&context, commits);
        if commits {
            keys = after;
        }
    }
}

/// A reader sees the rows of one transaction of each owner, not older than what was seen before.
fn assert_is_whole(rows: &[Row], newest: &mut [Option<Vec<u8>>]) {
    let mut keys = HashSet::new();
    for row in rows {
        assert!(keys.insert(row[1].clone()), "each once");
    }
    for owner in 0..OWNERS {
        let key_of = |row: &Row| u32::from_le_bytes(row[1].as_deref().expect("a key").try_into().expect("four bytes"));
        let own: Vec<&Row> = rows.iter().filter(|row| key_of(row) % OWNERS == owner).collect();
        let stamps: HashSet<Vec<u8>> = own.iter().map(|row| row[0].as_ref().expect("a text")[..5].to_vec()).collect();
        let newest = &mut newest[owner as usize];
        if own.is_empty() {
            assert!(newest.is_none(), "its rows were there");
            continue;
        }
        assert_eq!(own.len(), ROWS_EACH, "all rows of one transaction");
        assert_eq!(stamps.len(), 1, "one transaction");
        let stamp = stamps.into_iter().next();
        assert!(stamp >= *newest, "not an older one than before");
        *newest = stamp;
    }
}

#[test]
fn threads_that_read_see_whole_transactions_of_threads_that_write() {
    let shape = &shapes()[0];
    let world = World::new(60, &[FileSize { pages: 64, growth_pages: 64, max_pages: 0 }]);
    let all: Arc<Transactions> = Arc::default();
    let tree = create(&world, &shape.description());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..OWNERS)
            .map(|owner| {
                let (tree, world, all) = (&tree, &world, &all);
                scope.spawn(move || write_for(world, all, tree, owner))
            })
            .collect();
        let (walked, over) = (&tree, &is_over);
        scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                let context = statement(&world, &all);
                walked.reorganize(&context, 90, &mut |_, _| {}).expect("readable");
                end(&context, true);
            }
        });
        for reader in 0..3 {
            let (tree, world, all, is_over) = (&tree, &world, &all, &is_over);
            scope.spawn(move || {
                let mut random = SplitMix64::new(100 + reader);
                let mut newest = vec![None; OWNERS as usize];
                while !is_over.load(Ordering::Acquire) {
                    let context = statement(world, all);
                    let settings = settings(&mut random);
                    let rows = match reader {
                        0 => Walk::begin(tree, &context, settings).finish(),
                        1 => {
                            // Two workers in turn.
                            let stores = [RowStore::Tree(Arc::clone(tree))];
                            let scan = Scan::new(&stores, 2, settings, Arc::clone(&context), Arc::default());
                            let scan = scan.expect("a scan");
                            let mut walks = [(); 2].map(|()| Walk {
                                worker: ScanWorker::new(Arc::clone(&scan)),
                                rows: OneByOne::default(),
                            });
                            while walks.iter_mut().map(|walk| walk.go_on(1)).fold(false, |more, one| more | one) {}
                            walks.into_iter().flat_map(Walk::finish).collect()
                        }
                        _ => {
                            let direction = if random.below(2) == 0 { Direction::Forward } else { Direction::Backward };
                            let ranges = [KeyRange::all()];
                            let (tree, own) = (Arc::clone(tree), Arc::clone(&context));
                            let mut seek = TreeSeek::new(tree, ranges, direction, settings, own, Arc::default());
                            let seen = seen_by(&mut seek, u64::MAX).0;
                            assert!(seen.is_sorted_by(|one, next| match direction {
                                Direction::Forward => one.0 < next.0,
                                Direction::Backward => one.0 > next.0,
                            }));
                            seen.into_iter().map(|(_, row)| row).collect()
                        }
                    };
                    assert_is_whole(&rows, &mut newest);
                    end(&context, true);
                }
            });
        }
        writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
        is_over.store(true, Ordering::Release);
    });
    assert!(world.storage.versions().is_empty());
    assert_eq!(findings(&world, &tree), []);
    assert_eq!(tree.hobt().row_count(), u64::from(OWNERS) * ROWS_EACH as u64);
}

/// A reader of uncommitted rows sees all rows that were there when it began, each once, however the leaves are split.
#[test]
fn threads_that_read_uncommitted_rows_miss_none_that_stay() {
    let shape = &shapes()[0];
    let world = World::new(60, &[FileSize { pages: 64, growth_pages: 64, max_pages: 0 }]);
    let tree = create(&world, &shape.description());
    let row = |key: u32| -> Row { vec![Some(vec![b'r'; 60]), Some(key.to_le_bytes().to_vec())] };
    let context = world.context();
    for key in 0..1000 {
        tree.insert(&context, &image(&row(1000 * key))).expect("a new key");
    }
    context.commit().expect("nothing fails");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut random = SplitMix64::new(1);
            for _ in 0..8 {
                let context = world.context();
                for _ in 0..800 {
                    let key = random.below(1_000_000) as u32;
                    // Some keys exist already.
                    let _is_new = tree.insert(&context, &image(&row(key)));
                }
                context.commit().expect("nothing fails");
            }
        });
        let (walked, over) = (&tree, &is_over);
        scope.spawn(|| {
            let all: Arc<Transactions> = Arc::default();
            while !over.load(Ordering::Acquire) {
                let context = statement(&world, &all);
                walked.reorganize(&context, 90, &mut |_, _| {}).expect("readable");
                end(&context, true);
            }
        });
        for reader in 0..2 {
            let (tree, world, is_over) = (&tree, &world, &is_over);
            scope.spawn(move || {
                let mut random = SplitMix64::new(100 + reader);
                while !is_over.load(Ordering::Acquire) {
                    let (context, settings) = (world.context(), settings(&mut random));
                    let rows = if reader == 0 {
                        Walk::begin(tree, &context, settings).finish()
                    } else {
                        let (tree, ranges) = (Arc::clone(tree), [KeyRange::all()]);
                        let seek = TreeSeek::new(tree, ranges, Direction::Backward, settings, context, Arc::default());
                        seen_by(&mut { seek }, u64::MAX).0.into_iter().map(|(_, row)| row).collect()
                    };
                    let keys: HashSet<&[u8]> = rows.iter().map(|row| row[1].as_deref().expect("a key")).collect();
                    assert_eq!(keys.len(), rows.len(), "each once");
                    assert!((0..1000u32).all(|key| keys.contains(&(1000 * key).to_le_bytes()[..])), "all that stay");
                }
            });
        }
        writer.join().expect("no panic");
        is_over.store(true, Ordering::Release);
    });
    let operations = tree.hobt().operations();
    assert_eq!(operations.leaf_inserts, tree.hobt().row_count());
    let leaves = tree.figures().expect("sound").pages[0];
    assert_eq!(operations.leaf_allocations + 1 - operations.leaf_merges, leaves);
    assert!(operations.range_scans > 0 && operations.leaf_ghosts == 0);
}
