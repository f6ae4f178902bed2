//! Many threads in one tree.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use hobt_access::{BTree, Direction, KeyRange};
use hobt_base::SplitMix64;

use super::{Shape, create, findings, rows_of, shapes, world};
use crate::world::{Row, image};

const WRITERS: u32 = 4;
const ROWS: u32 = 4000;

/// The `index`-th row of a writer; all keys differ.
fn row(shape: &Shape, writer: u32, index: u32) -> Row {
    // Some writers' keys ascend, the others' jump.
    let number = index * WRITERS + writer;
    let key = if writer.is_multiple_of(2) { number } else { number.wrapping_mul(2_654_435_761) | 1 << 31 };
    let mut row = shape.row(&mut SplitMix64::new(number.into()), 1, 40);
    row[1] = Some(key.to_le_bytes().to_vec());
    row
}

fn keys_of(tree: &BTree, shape: &Shape, done: &[u32]) -> Vec<Vec<u8>> {
    let rows = (0u32..).zip(done).flat_map(|(writer, &count)| (0..count).map(move |index| row(shape, writer, index)));
    let mut keys: Vec<Vec<u8>> = rows.map(|row| tree.key_of(&image(&row)).expect("short")).collect();
    keys.sort_unstable();
    keys
}

/// Rows inserted before a scan began are seen by it once and in order, whatever splits meanwhile.
#[test]
fn scans_see_what_was_there_while_others_insert_and_split() {
    let shape = &shapes()[0];
    let world = world();
    let tree = create(&world, &shape.description());
    let done: [AtomicU32; WRITERS as usize] = Default::default();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (tree, world, done) = (Arc::clone(&tree), &world, &done);
                scope.spawn(move || {
                    let context = world.context();
                    for index in 0..ROWS {
                        tree.insert(&context, &image(&row(shape, writer, index))).expect("a new key");
                        done[writer as usize].store(index + 1, Ordering::Release);
                    }
                    context.commit().expect("nothing fails");
                })
            })
            .collect();
        for direction in [Direction::Forward, Direction::Backward] {
            let (tree, done, is_over) = (Arc::clone(&tree), &done, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Acquire) {
                    let before: Vec<u32> = done.iter().map(|done| done.load(Ordering::Acquire)).collect();
                    let mut rows = rows_of(&tree, KeyRange::all(), direction).expect("readable");
                    if direction == Direction::Backward {
                        rows.reverse();
                    }
                    assert!(rows.is_sorted_by(|one, next| one.0 < next.0), "{direction:?}: each once, in order");
                    let mut seen = rows.iter().map(|(key, _)| key);
                    for key in keys_of(&tree, shape, &before) {
                        assert!(seen.any(|seen| *seen == key), "{direction:?}: a row that was there is seen");
                    }
                }
            });
        }
        writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
        is_over.store(true, Ordering::Release);
    });
    assert_eq!(findings(&world, &tree), []);
    let keys: Vec<Vec<u8>> = rows_of(&tree, KeyRange::all(), Direction::Forward)
        .expect("readable")
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    assert!(keys == keys_of(&tree, shape, &[ROWS; WRITERS as usize]));
}

/// Threads that undo, delete and insert the same keys in turn. At the end each key has one row or none, as the threads'
/// results together tell.
#[test]
fn threads_that_undo_leave_the_rows_of_those_that_commit() {
    let shape = &shapes()[0];
    let world = world();
    let tree = create(&world, &shape.description());
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (tree, world) = (Arc::clone(&tree), &world);
            scope.spawn(move || {
                for round in 0..40 {
                    let context = world.context();
                    for index in 0..50 {
                        let row = row(shape, writer, index + 50 * (round / 2));
                        tree.insert(&context, &image(&row)).expect("a new key");
                    }
                    if round % 2 == 0 {
                        context.roll_back().expect("what was inserted is taken away");
                    } else {
                        context.commit().expect("nothing fails");
                    }
                }
            });
        }
    });
    assert_eq!(findings(&world, &tree), []);
    let keys: Vec<Vec<u8>> = rows_of(&tree, KeyRange::all(), Direction::Forward)
        .expect("readable")
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    assert!(keys == keys_of(&tree, shape, &[1000; WRITERS as usize]));
}
