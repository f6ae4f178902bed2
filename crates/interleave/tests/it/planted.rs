//! Some of the planted bugs, which are found fast. `hobt-interleave --planted 2000` tries all of them.

use hobt_instruments::planted::{Bug, plant};
use hobt_interleave::{Options, simulate};

/// The first of a number of seeds that fails with a bug, and not without it.
fn found(bug: Bug, seeds: u64) -> Option<u64> {
    let _alone = crate::alone();
    let fails = |seed: u64, bug: Option<Bug>| {
        let _planted = plant(bug);
        simulate(seed, &Options::default()).is_err()
    };
    (0..seeds).find(|&seed| fails(seed, Some(bug)) && !fails(seed, None))
}

#[test]
fn a_commit_that_is_not_durable_is_found() {
    assert!(found(Bug::CommitNotDurable, 40).is_some());
}

#[test]
fn a_snapshot_that_does_not_know_who_runs_is_found() {
    assert!(found(Bug::SnapshotWithoutRunning, 40).is_some());
}

#[test]
fn a_row_that_is_deleted_without_a_version_is_found() {
    assert!(found(Bug::DeleteWithoutVersion, 40).is_some());
}
