//! No session sees what its level forbids, nothing acknowledged is lost, and nothing else is there.

use std::time::{Duration, Instant};

use hobt_interleave::{Options, Report, shrink, simulate};

/// The number of seeds that are run, the same on any machine, unless `HOBT_INTERLEAVE_SECONDS` sets a duration.
const SEEDS: u64 = 100;
const SEEDS_THAT_FILL_UP: u64 = 20;
/// The number of tries to reduce a failure.
const TRIES: u64 = 60;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// The text of a failure, reduced and with what was run.
fn told(seed: u64, text: &str) -> String {
    match shrink(seed, &Options::default(), TRIES) {
        Some((failure, _)) => format!("{failure}\nHOBT_SEED={seed} replays it; before it was cut down: {text}"),
        None => format!("seed {seed}: {text}\nand not again: something beside the seed decides"),
    }
}

#[test]
fn what_sessions_see_beside_each_other_is_what_their_levels_promise() {
    let _alone = crate::alone();
    if let Some(seed) = setting("HOBT_SEED") {
        match simulate(seed, &Options::default()) {
            Ok(report) => println!("seed {seed}: {report:?}"),
            Err(failure) => panic!("{}", told(seed, &failure.text)),
        }
        return;
    }
    let time = setting("HOBT_INTERLEAVE_SECONDS").map(Duration::from_secs);
    let (since, mut total, mut seeds) = (Instant::now(), Report::default(), 0);
    while time.map_or(seeds < SEEDS, |time| seeds < 3 || since.elapsed() < time) {
        match simulate(seeds, &Options::default()) {
            Ok(report) => total.add(&report),
            Err(failure) => panic!("{}", told(seeds, &failure.text)),
        }
        seeds += 1;
    }
    println!("{seeds} seeds: {total:?}");
    assert!(total.switches > 100 * seeds, "actors do run beside each other: {total:?}");
    assert!(total.commits > 2 * seeds && total.reads > 2 * seeds && total.writes > seeds, "{total:?}");
}

/// A log that may not grow and a disk that is nearly full refuse new changes, and lose nothing.
#[test]
fn worlds_whose_logs_and_disks_are_full_lose_nothing() {
    let _alone = crate::alone();
    let options = Options { fills_up: true, ..Options::default() };
    let mut total = Report::default();
    for seed in 0..SEEDS_THAT_FILL_UP {
        total.add(&simulate(seed, &options).unwrap_or_else(|failure| panic!("{failure}\n--seed {seed} --fill-up yes")));
    }
    assert!(total.full > SEEDS_THAT_FILL_UP, "there is no room for some statements: {total:?}");
}

#[test]
fn a_seed_does_the_same_again() {
    let _alone = crate::alone();
    for seed in 9_000..9_004 {
        let run = || simulate(seed, &Options::default()).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(run(), run(), "seed {seed}");
    }
}
