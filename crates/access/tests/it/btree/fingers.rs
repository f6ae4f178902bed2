//! Threads return to the leaf of their last search: wherever its rows have gone meanwhile, each key is found.

use std::sync::{Arc, mpsc};

use hobt_base::SplitMix64;
use hobt_txn::Transactions;

use super::{Model, assert_is_model, change, create, shapes, world};
use crate::versions::{end, statement};

const THREADS: usize = 3;
const KEYS: u64 = 3000;

type Turn<'s> = Box<dyn FnOnce() + Send + 's>;

/// Threads take turns, so that the model is known; what each remembers of the tree comes from before the others' turns.
#[test]
fn keys_are_found_whatever_other_threads_did_to_the_leaf_of_the_last_search() {
    let shape = &shapes()[0];
    for seed in 0..6 {
        let mut random = SplitMix64::new(seed);
        let (world, all) = (world(), Transactions::default());
        let (world, all) = (&world, &Arc::new(all));
        let tree = create(world, &shape.description());
        let mut model = Model::new();
        std::thread::scope(|scope| {
            let (told, done) = mpsc::channel();
            let threads: Vec<mpsc::Sender<Turn<'_>>> = (0..THREADS)
                .map(|_| {
                    let ((sender, turns), told) = (mpsc::channel::<Turn<'_>>(), told.clone());
                    scope.spawn(move || {
                        turns.iter().for_each(|turn| {
                            turn();
                            told.send(()).expect("the test waits");
                        });
                    });
                    sender
                })
                .collect();
            drop(told);
            for turn in 0..250 {
                let thread = &threads[random.below(THREADS as u64) as usize];
                let (what, mut dice) = (random.below(40), SplitMix64::new(1000 * seed + turn));
                let (sender, after) = mpsc::channel();
                let (tree, before) = (&tree, model.clone());
                let act = move || {
                    let context = statement(world, all);
                    let mut model = before.clone();
                    match what {
                        0 => {
                            tree.truncate(&context).expect("readable");
                            model.clear();
                        }
                        1..=3 => drop(tree.reorganize(&context, 100, &mut |_, _| {}).expect("readable")),
                        _ => {
                            // Neighbouring keys in turn, as a statement changes them.
                            let first = dice.below(KEYS);
                            for number in first..first + 1 + dice.below(60) {
                                let mut row = shape.row(&mut dice, 1, 150);
                                row[1] = Some((number as u32).to_le_bytes().to_vec());
                                change(tree, &context, &mut dice, &mut model, row).expect("room");
                            }
                        }
                    }
                    let is_kept = what > 0 && dice.below(4) > 0 || what == 0 && dice.below(2) == 0;
                    end(&context, is_kept);
                    sender.send(if is_kept { model } else { before }).expect("the test waits");
                };
                thread.send(Box::new(act)).expect("the thread waits");
                model = after.recv().expect("no panic");
                done.recv().expect("no panic");
                if turn % 25 == 0 {
                    assert_is_model(world, tree, &model, &format!("seed {seed}, turn {turn}"));
                }
            }
            drop(threads);
        });
        assert_is_model(world, &tree, &model, &format!("seed {seed}"));
    }
}
