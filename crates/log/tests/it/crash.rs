//! Seeded tests: random work, a power failure at a random operation, and what is there afterwards.

use hobt_base::{Lsn, SplitMix64};
use hobt_disk::Operation;
use hobt_log::{LSN_FIRST, Log, NewRecord, RecoveryStart, Reservation, record_bytes};

use crate::world::{MIB, World, broken, numbers, payload, read};

/// What is known of a log from outside.
#[derive(Default)]
struct Model {
    /// All records ever appended in the lives that count, with their positions.
    appended: Vec<(u64, Lsn)>,
    /// How many of them were acknowledged as durable.
    durable: usize,
    redo_start: Option<Lsn>,
}

impl Model {
    /// Checks what was found after a crash, and continues from there.
    fn check(&mut self, found: &[u64], seed: u64, life: u64) {
        let from = self.redo_start.unwrap_or(LSN_FIRST);
        let expected: Vec<u64> =
            self.appended.iter().filter(|(_, lsn)| *lsn >= from).map(|(number, _)| *number).collect();
        let before = self.appended.len() - expected.len();
        let durable = self.durable.saturating_sub(before);
        assert!(found.len() >= durable, "seed {seed}, life {life}: {durable} were durable, {} found", found.len());
        assert!(
            expected.starts_with(found),
            "seed {seed}, life {life}: what is found is a beginning of what was appended"
        );
        self.appended.truncate(before + found.len());
        self.durable = self.appended.len();
    }
}

/// Works until the disk fails or the steps are done.
fn work(log: &Log, random: &mut SplitMix64, model: &mut Model, next: &mut u64) {
    for _ in 0..random.below(60) {
        match random.below(10) {
            0..=5 => {
                let length = if random.below(20) == 0 { random.below(100_000) } else { random.below(600) } as usize;
                let bytes = payload(*next, length);
                let record = NewRecord { kind: 1, transaction: *next, previous: Lsn(0), payload: &bytes };
                let reservation = Reservation::default();
                if log.reserve(&reservation, record_bytes(bytes.len()) as u64).is_err() {
                    return;
                }
                let Ok(appended) = log.append_always(&record, &reservation) else { return };
                model.appended.push((*next, appended.lsn));
                *next += 1;
            }
            6..=8 => {
                let Some(&(_, lsn)) = model.appended.last() else { continue };
                if log.flush_past(lsn).is_err() {
                    return;
                }
                model.durable = model.appended.len();
            }
            _ => {
                let start = model.durable.saturating_sub(1 + random.below(20) as usize);
                let Some(&(_, lsn)) = model.appended.get(start).filter(|_| model.durable > 0) else { continue };
                if model.redo_start.is_some_and(|before| before > lsn) {
                    continue;
                }
                // If this fails, it may or may not be written; the opened log shows which.
                if log.set_recovery_start(RecoveryStart::at(lsn)).is_err() {
                    return;
                }
                model.redo_start = Some(lsn);
            }
        }
    }
}

fn run(seed: u64) {
    let mut random = SplitMix64::new(seed);
    let sizes: &[(u64, u64, u64)] = match random.below(3) {
        0 => &[(5 * MIB, 0, 5 * MIB)],
        1 => &[(4 * MIB, MIB, 16 * MIB)],
        _ => &[(4 * MIB, MIB, 8 * MIB), (4 * MIB, 0, 4 * MIB)],
    };
    let world = World::new(sizes);
    let mut log = world.create();
    let (mut model, mut next) = (Model::default(), 1);
    for life in 0..4 {
        if random.below(3) == 0 {
            let operation = if random.below(2) == 0 { Operation::Write } else { Operation::Sync };
            world.disk.inject(broken(operation, random.below(12)));
        }
        work(&log, &mut random, &mut model, &mut next);
        drop(log);
        world.disk.crash(random.next_u64());
        world.disk.clear_faults();
        // An opening may be interrupted by a crash as well.
        while random.below(3) == 0 {
            world.disk.inject(broken(Operation::Write, random.below(3)));
            drop(world.open());
            world.disk.crash(random.next_u64());
            world.disk.clear_faults();
        }
        let (opened, recovered) =
            world.open().unwrap_or_else(|error| panic!("seed {seed}, life {life}: the log is not opened: {error}"));
        let known = model.redo_start.unwrap_or(LSN_FIRST);
        assert!(recovered.start.redo >= known, "seed {seed}: recovery begins where it was said to");
        if recovered.start.redo > known {
            model.redo_start = Some(recovered.start.redo);
        }
        let from = model.redo_start.unwrap_or(LSN_FIRST);
        model.check(&numbers(&read(&recovered, from).expect("what was found is readable")), seed, life);
        assert_eq!(opened.end(), recovered.end);
        log = opened;
    }
}

/// Runs `HOBT_LOG_SEEDS` seeds from `HOBT_SEED` on; by default a few.
#[test]
fn after_a_crash_the_log_is_what_was_appended_up_to_some_place_behind_all_that_was_durable() {
    let from_environment =
        |name: &str, or: u64| std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(or);
    let first = from_environment("HOBT_SEED", 0);
    for seed in first..first + from_environment("HOBT_LOG_SEEDS", 150) {
        run(seed);
    }
}
