//! Disk operations that fail, each in its turn: no panic, and after a start everything acknowledged is there.

use std::sync::atomic::{AtomicUsize, Ordering};

use hobt_disk::{Fault, FaultKind, Operation};
use hobt_sim::{OPERATIONS, Options, simulate};

const SCRIPTS: u64 = 20;
/// The number of faults of each script that are tried if not all are. They are the same everywhere, so that a run has
/// the same result on a fast machine and on a slow one.
const ROUNDS: usize = 2;
const EIO: i32 = 5;
const EINTR: i32 = 4;
const ENOSPC: i32 = 28;

/// A short script in one life, with these faults.
fn script(faults: Vec<Fault>) -> Options {
    Options { steps: 25, lives: 1, faults, lies: Vec::new(), crashes: false, ..Options::default() }
}

/// How an operation can fail.
fn kinds(operation: Operation) -> &'static [FaultKind] {
    match operation {
        Operation::Write => {
            &[FaultKind::Error(EIO), FaultKind::Error(ENOSPC), FaultKind::Error(EINTR), FaultKind::Short]
        }
        Operation::Read => &[FaultKind::Error(EIO), FaultKind::Short],
        Operation::SetSize => &[FaultKind::Error(EIO), FaultKind::Error(ENOSPC)],
        _ => &[FaultKind::Error(EIO)],
    }
}

/// All faults of a script with these numbers of operations.
fn faults_of(counts: [u64; OPERATIONS.len()]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (operation, count) in OPERATIONS.into_iter().zip(counts) {
        for after in 0..count {
            for &kind in kinds(operation) {
                for forever in [false, true] {
                    // An operation that is retried while it fails would never end.
                    if !(forever && kind == FaultKind::Error(EINTR)) {
                        faults.push(Fault { forever, ..Fault::once(operation, after, kind) });
                    }
                }
            }
        }
    }
    faults
}

/// Tries all of them with `HOBT_FAULTS=all`, otherwise a few of each script.
#[test]
fn an_operation_that_fails_loses_nothing_wherever_it_is() {
    let all = std::env::var("HOBT_FAULTS").is_ok_and(|text| text == "all");
    let scripts: Vec<(u64, Vec<Fault>)> = (0..SCRIPTS)
        .map(|seed| {
            let report = simulate(seed, &script(Vec::new())).unwrap_or_else(|failure| panic!("{failure}"));
            (seed, faults_of(report.operations))
        })
        .collect();
    // A stride that shares no factor with most counts reaches every kind of fault eventually.
    let longest = scripts.iter().map(|(_, faults)| faults.len()).max().unwrap_or(0);
    let to_do: Vec<(u64, Fault)> = (0..if all { longest } else { ROUNDS })
        .flat_map(|round| scripts.iter().map(move |(seed, faults)| (round, *seed, faults)))
        .filter(|(round, _, faults)| *round < faults.len())
        .map(|(round, seed, faults)| (seed, faults[(round * 7919) % faults.len()].clone()))
        .collect();
    let next = AtomicUsize::new(0);
    let take = || {
        let at = next.fetch_add(1, Ordering::Relaxed);
        if at > 0 && at.is_multiple_of(1000) {
            println!("{at} of {} faults", to_do.len());
        }
        to_do.get(at)
    };
    let work = || {
        let (mut errors, mut failures) = (0, Vec::new());
        while let Some((seed, fault)) = take() {
            match simulate(*seed, &script(vec![fault.clone()])) {
                Ok(report) => errors += report.errors,
                Err(failure) => {
                    println!("{failure}\nwith {fault:?}");
                    failures.push((*seed, fault));
                }
            }
        }
        (errors, failures)
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (errors, failures): (Vec<u64>, Vec<Vec<_>>) = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("a simulation reports its panics")).unzip()
    });
    let (errors, failures) = (errors.iter().sum::<u64>(), failures.concat());
    println!("{} faults in {SCRIPTS} scripts, {errors} errors", to_do.len());
    assert!(failures.is_empty(), "{failures:?}");
    assert!(to_do.len() >= 10 && errors > 5, "{} faults, {errors} errors", to_do.len());
}

/// Seeds and faults that once showed a bug, named by the bug.
#[test]
fn what_was_mended_stays_mended() {
    let read_once = Fault::once(Operation::Read, 41, FaultKind::Error(EIO));
    let syncs_from = Fault { forever: true, ..Fault::once(Operation::Sync, 38, FaultKind::Error(EIO)) };
    let write_once = Fault::once(Operation::Write, 14, FaultKind::Error(EIO));
    let writes_from = Fault { forever: true, ..Fault::once(Operation::Write, 43, FaultKind::Error(EIO)) };
    let full_once = Fault::once(Operation::Write, 10, FaultKind::Error(ENOSPC));
    let sync_once = Fault::once(Operation::Sync, 10, FaultKind::Error(EIO));
    for (seed, fault, was) in [
        (11, read_once, "a count that a checkpoint had not saved was taken for saved"),
        (5, full_once, "a checkpoint wrote to the log of files that said they were clean"),
        (7, sync_once, "a database was clean that knew a file of which master had taken leave"),
        (1, write_once, "a file that could not be added was listed, and gone"),
        (17, syncs_from, "a file that was added by a commit nobody was sure of was gone"),
        (17, writes_from, "master listed a database whose files were gone"),
    ] {
        if let Err(failure) = simulate(seed, &script(vec![fault])) {
            panic!("{was} again?\n{failure}");
        }
    }
}
