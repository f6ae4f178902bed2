//! Planted bugs: a simulator that does not find them proves nothing.

use hobt_disk::{Fault, FaultKind, Operation};
use hobt_instruments::planted::{Bug, plant};
use hobt_sim::{Options, simulate};

const SEEDS: u64 = 300;

/// The first seed that finds something.
fn found(options: &Options) -> Option<u64> {
    (0..SEEDS).find(|&seed| simulate(seed, options).is_err())
}

/// A log file whose device reports a flush as done without doing it.
#[test]
fn a_flush_that_is_left_out_is_found() {
    let lie = Fault {
        path_contains: "_log.ldf".to_owned(),
        forever: true,
        ..Fault::once(Operation::Sync, 0, FaultKind::Ignored)
    };
    let options = Options { lies: vec![lie], ..Options::default() };
    let seed = found(&options).expect("a lost flush is found");
    println!("found by seed {seed}");
}

#[test]
fn a_page_image_that_is_left_out_is_found() {
    let _planted = plant(Some(Bug::NoImages));
    let seed = found(&Options::default()).expect("a missing image is found");
    println!("found by seed {seed}");
}

#[test]
fn an_undo_that_is_skipped_is_found() {
    let _planted = plant(Some(Bug::NoRowUndo));
    let seed = found(&Options::default()).expect("a skipped undo is found");
    println!("found by seed {seed}");
}
