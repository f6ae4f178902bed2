//! Nothing acknowledged is lost, and nothing else is there.

use std::time::{Duration, Instant};

use hobt_sim::{Options, Report, simulate};

/// The number of seeds that are run if there is time.
const SEEDS: u64 = 2000;
/// The number of seconds after which no further seed is begun, unless `HOBT_SIM_SECONDS` sets it.
const SECONDS: u64 = 45;
/// The minimum number of seeds that must be run in that time.
const SEEDS_MIN: u64 = 20;

fn seconds() -> u64 {
    std::env::var("HOBT_SIM_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS)
}

/// The seed in `HOBT_SEED`, which is then the only one to run.
fn only_seed() -> Option<u64> {
    std::env::var("HOBT_SEED").ok().and_then(|text| text.parse().ok())
}

#[test]
fn no_crash_loses_what_was_acknowledged_or_leaves_what_was_not() {
    if let Some(seed) = only_seed() {
        match simulate(seed, &Options::default()) {
            Ok(report) => println!("seed {seed}: {report:?}"),
            Err(failure) => panic!("{failure}"),
        }
        return;
    }
    let (since, time) = (Instant::now(), Duration::from_secs(seconds()));
    let (mut total, mut seeds) = (Report::default(), 0);
    while seeds < SEEDS && since.elapsed() < time {
        match simulate(seeds, &Options::default()) {
            Ok(report) => total.add(&report),
            Err(failure) => panic!("{failure}\nHOBT_SEED={} replays it", failure.seed),
        }
        seeds += 1;
    }
    println!("{seeds} seeds: {total:?}");
    assert!(seeds >= SEEDS_MIN * seconds() / SECONDS, "{seeds} seeds in {time:?}");
    assert!(total.crashes > seeds && total.crashes_in_recovery > seeds / 4, "it does crash: {total:?}");
    assert!(total.commits_across > seeds / 4 && total.commits_delayed > seeds, "{total:?}");
    // A small number of seeds may happen to remove no file.
    assert!(seeds < SEEDS_MIN || total.files_removed > seeds / 10, "{total:?}");
    assert!(total.commits > 5 * seeds && total.doubtful > 0 && total.rows_checked > 100 * seeds, "{total:?}");
}

/// Undos go on behind the opening, and are interrupted.
#[test]
fn no_interrupted_undo_loses_what_was_acknowledged_or_leaves_what_was_not() {
    let options = Options { undoes_behind: true, ..Options::default() };
    let (since, time) = (Instant::now(), Duration::from_secs(seconds() / 2));
    let (mut total, mut seeds) = (Report::default(), 0);
    // On a slow machine a few more than there is time for: a small number of seeds may happen to interrupt none.
    while seeds < SEEDS && (since.elapsed() < time || (total.undos_interrupted == 0 && seeds < SEEDS_MIN)) {
        let seed = only_seed().unwrap_or(1_000_000 + seeds);
        match simulate(seed, &options) {
            Ok(report) => total.add(&report),
            Err(failure) => panic!("{failure}\nHOBT_SEED={} replays it", failure.seed),
        }
        seeds += 1;
    }
    println!("{seeds} seeds: {total:?}");
    assert!(only_seed().is_some() || total.undos_interrupted > seeds / 50, "{seeds} seeds: {total:?}");
}

/// With copies of pages beside a small pool, nothing that is read is older than what was written.
#[test]
fn no_copy_beside_the_pool_brings_back_what_was_before() {
    let options = Options { is_extended: true, ..Options::default() };
    let (since, time) = (Instant::now(), Duration::from_secs(seconds() / 2));
    let (mut total, mut seeds) = (Report::default(), 0);
    while seeds < SEEDS && since.elapsed() < time {
        let seed = only_seed().unwrap_or(2_000_000 + seeds);
        match simulate(seed, &options) {
            Ok(report) => total.add(&report),
            Err(failure) => panic!("{failure}\nHOBT_SEED={} replays it", failure.seed),
        }
        seeds += 1;
    }
    println!("{seeds} seeds: {total:?}");
    assert!(only_seed().is_some() || total.pages_from_extension > 10 * seeds, "{seeds} seeds: {total:?}");
}

/// Seeds and options that once showed a bug, named by the bug.
#[test]
fn what_was_mended_stays_mended() {
    for (seed, was) in [
        (44, "a row count that a truncation's undo brought back"),
        (121, "runs of a table whose transaction was cut off"),
        (26, "an added file without an allocation map"),
        (27, "an added file that looked older than the others"),
        (549, "a load over extents whose freeing was not durable"),
    ] {
        if let Err(failure) = simulate(seed, &Options::default()) {
            panic!("{was} again?\n{failure}");
        }
    }
}

#[test]
fn the_same_seed_does_the_same() {
    for seed in 5000..5012 {
        let run = || simulate(seed, &Options::default()).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(run(), run(), "seed {seed}");
    }
}
