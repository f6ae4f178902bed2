//! Seeded tests of transactions in a small log that does not grow. What was begun can be ended: a commit or a rollback
//! always finds room, so does a checkpoint, and so does recovery, however often it is interrupted.

use std::collections::BTreeMap;

use hobt_base::{Lsn, SplitMix64};
use hobt_log::{Log, LogError, NewRecord, RecoveryStart, Reservation, RoomFor, record_bytes};

use crate::world::{MIB, World};

const COMMIT: &[u8] = &[1; 8];
/// The records of a transaction's end: its commit, if there is one, and a record that nothing is left to be done.
const END_BYTES: u64 = 2 * record_bytes(COMMIT.len()) as u64;

/// The changes of a transaction, and which of them have been undone.
#[derive(Default)]
struct Open {
    reservation: Reservation,
    /// For each record its payload's length, its position, and the position of the record that undoes it.
    changes: Vec<(usize, Lsn, Option<Lsn>)>,
    committed: Option<Lsn>,
    ended: Option<Lsn>,
}

struct Run {
    seed: u64,
    random: SplitMix64,
    world: World,
    open: BTreeMap<u64, Open>,
    next: u64,
    /// How often new work was refused.
    refused: u64,
}

fn is_full<T>(result: &Result<T, LogError>) -> bool {
    matches!(result, Err(LogError::Full { .. }))
}

impl Run {
    fn append(&self, log: &Log, number: u64, length: usize, reservation: &Reservation) -> Lsn {
        let payload = vec![number as u8 | 1; length];
        let record = NewRecord { kind: 1, transaction: number, previous: Lsn(0), payload: &payload };
        log.append_always(&record, reservation).unwrap_or_else(|error| panic!("seed {}: {error}", self.seed)).lsn
    }

    /// Flushes as if to write a page, which could also be done later.
    fn may_flush(&mut self, log: &Log) {
        if self.random.below(4) == 0 {
            let flushed = log.flush_past(Lsn(log.end().0 - 1));
            assert!(flushed.is_ok() || is_full(&flushed), "seed {}: {flushed:?}", self.seed);
        }
    }

    fn change(&mut self, log: &Log) {
        let is_new = self.open.is_empty() || self.random.below(3) == 0;
        let number = if is_new { self.next } else { self.some_open() };
        self.next += u64::from(is_new);
        let length = match self.random.below(30) {
            0 => self.random.below(60_000),
            1..=5 => self.random.below(9000),
            _ => self.random.below(300),
        } as usize;
        let open = self.open.entry(number).or_default();
        let (ends, flushes) = if open.changes.is_empty() { (END_BYTES, 1) } else { (0, 0) };
        let bytes = 2 * record_bytes(length) as u64 + ends;
        let reserved = log.reserve_for(RoomFor::Work, &open.reservation, bytes, flushes);
        if is_full(&reserved) {
            self.refused += 1;
            if is_new {
                self.open.remove(&number);
            }
            return;
        }
        reserved.unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
        let reservation = std::mem::take(&mut self.open.get_mut(&number).expect("it is open").reservation);
        let lsn = self.append(log, number, length, &reservation);
        let open = self.open.get_mut(&number).expect("it is open");
        open.reservation = reservation;
        open.changes.push((length, lsn, None));
        self.may_flush(log);
    }

    fn some_open(&mut self) -> u64 {
        let place = self.random.below(self.open.len() as u64) as usize;
        *self.open.keys().nth(place).expect("as many are open")
    }

    /// A commit whose flush is not shared. With `is_killed`, stops before the transaction's last record.
    fn commit(&mut self, log: &Log, number: u64, is_killed: bool) {
        let mut open = self.open.remove(&number).expect("it is open");
        let lsn = self.append(log, number, COMMIT.len(), &open.reservation);
        open.committed = Some(lsn);
        let flushed = log.flush_for(RoomFor::End(&open.reservation), lsn);
        flushed.unwrap_or_else(|error| panic!("seed {}: a commit: {error}", self.seed));
        if is_killed {
            self.open.insert(number, open);
            return;
        }
        self.append(log, number, 0, &open.reservation);
        log.release(&open.reservation);
    }

    fn roll_back(&mut self, log: &Log, number: u64, is_killed: bool) {
        let mut open = self.open.remove(&number).expect("it is open");
        let last = if is_killed { self.random.below(1 + open.changes.len() as u64) as usize } else { 0 };
        for place in (last..open.changes.len()).rev() {
            let (length, _, undone) = open.changes[place];
            if undone.is_none() {
                open.changes[place].2 = Some(self.append(log, number, length, &open.reservation));
                self.may_flush(log);
            }
        }
        if is_killed {
            self.open.insert(number, open);
            return;
        }
        open.ended = Some(self.append(log, number, 0, &open.reservation));
        log.release(&open.reservation);
        // Kept until its end is durable.
        open.reservation = Reservation::default();
        self.open.insert(number, open);
    }

    /// Makes a checkpoint as a database does: ended transactions are durable before the log forgets them.
    fn checkpoint(&mut self, log: &Log) -> Result<(), LogError> {
        let own = Reservation::default();
        log.reserve_for(RoomFor::Checkpoint, &own, record_bytes(0) as u64, 0)?;
        let record = NewRecord { kind: 2, transaction: 0, previous: Lsn(0), payload: &[] };
        let begun = log.begin_epoch(&record)?.lsn;
        log.release(&own);
        self.may_flush(log);
        log.flush_for(RoomFor::Checkpoint, Lsn(log.end().0 - 1))?;
        self.open.retain(|_, open| open.ended.is_none());
        let oldest = self.open.values().filter_map(|open| open.changes.first()).map(|(_, lsn, _)| *lsn).min();
        let keep = oldest.map_or(begun, |oldest| oldest.min(begun));
        log.set_recovery_start(RecoveryStart { keep, ..RecoveryStart::at(begun) })
    }

    /// Removes what a crash has lost of the transactions.
    fn lose(&mut self, end: Lsn) {
        self.open.retain(|_, open| {
            let is_there = |lsn: Option<Lsn>| lsn.filter(|lsn| *lsn < end);
            open.changes.retain(|(_, lsn, _)| *lsn < end);
            open.changes.iter_mut().for_each(|(_, _, undone)| *undone = is_there(*undone));
            open.reservation = Reservation::default();
            (open.committed, open.ended) = (is_there(open.committed), is_there(open.ended));
            open.committed.is_none() && open.ended.is_none() && !open.changes.is_empty()
        });
    }

    fn recover(&mut self) -> Log {
        let mut cuts = self.random.below(4);
        loop {
            let (log, recovered) =
                self.world.open().unwrap_or_else(|error| panic!("seed {}: no log: {error}", self.seed));
            self.lose(recovered.end);
            assert!(log.has_room_to_end(), "seed {}: an opening takes no room", self.seed);
            for open in self.open.values_mut() {
                let undone = open.changes.iter().filter(|(_, _, undone)| undone.is_none());
                let bytes = undone.map(|(length, _, _)| record_bytes(*length) as u64).sum::<u64>() + END_BYTES;
                log.reserve_up_to(&open.reservation, bytes);
                assert_eq!(open.reservation.bytes(), bytes, "seed {}: room for all that is open", self.seed);
            }
            let losers: Vec<u64> = self.open.keys().copied().collect();
            let cut = if cuts > 0 { self.random.below(1 + losers.len() as u64) as usize } else { losers.len() };
            for (place, number) in losers.iter().enumerate().take(cut + 1) {
                self.roll_back(&log, *number, place == cut);
                assert!(log.has_room_to_end(), "seed {}: room to undo {number}", self.seed);
            }
            if cuts > 0 {
                cuts -= 1;
                self.may_flush(&log);
                drop(log);
                self.world.disk.crash(self.random.next_u64());
                continue;
            }
            self.checkpoint(&log).unwrap_or_else(|error| panic!("seed {}: recovery's checkpoint: {error}", self.seed));
            log.recovery_ended();
            assert!(self.open.is_empty());
            self.take_work(&log);
            return log;
        }
    }

    /// While nothing is open, a checkpoint makes room for work.
    fn take_work(&self, log: &Log) {
        let reservation = Reservation::default();
        log.reserve(&reservation, MIB / 4).unwrap_or_else(|error| panic!("seed {}: no room: {error}", self.seed));
        log.release(&reservation);
    }

    fn life(&mut self, log: &Log) {
        // Mostly commits, mostly rollbacks, or neither until the log is full.
        let ends = [1, 10, 40][self.random.below(3) as usize];
        for _ in 0..self.random.below(6000) {
            let is_over = self.random.below(60) < ends;
            match self.random.below(200) {
                0 => {
                    let made = self.checkpoint(log);
                    assert!(made.is_ok() || (is_full(&made) && !self.open.is_empty()), "seed {}: {made:?}", self.seed);
                }
                1..=150 if is_over && self.open.values().any(|open| open.ended.is_none()) => {
                    let number = self.some_open();
                    if self.open[&number].ended.is_none() {
                        if self.random.below(2) == 0 {
                            self.commit(log, number, false);
                        } else {
                            self.roll_back(log, number, false);
                        }
                    }
                }
                _ => {
                    self.open.retain(|_, open| open.ended.is_none_or(|lsn| lsn >= log.durable()));
                    if self.open.values().all(|open| open.ended.is_none()) {
                        self.change(log);
                    } else {
                        let flushed = log.flush_past(Lsn(log.end().0 - 1));
                        assert!(flushed.is_ok() || is_full(&flushed), "seed {}: {flushed:?}", self.seed);
                        if flushed.is_err() {
                            // Drops ended transactions: only their own records remain relevant.
                            self.open.retain(|_, open| open.ended.is_none());
                        }
                    }
                }
            }
            assert!(log.has_room_to_end(), "seed {}: room to end {} transactions", self.seed, self.open.len());
        }
        // Commits all of them, one after the other, as when every session of a full log ends.
        if self.random.below(2) == 0 {
            self.open.retain(|_, open| open.ended.is_none());
            while !self.open.is_empty() {
                let number = self.some_open();
                self.commit(log, number, false);
                assert!(log.has_room_to_end(), "seed {}", self.seed);
            }
            let made = self.checkpoint(log);
            made.unwrap_or_else(|error| panic!("seed {}: with nothing open: {error}", self.seed));
            self.take_work(log);
        } else if !self.open.is_empty() {
            // The crash happens in the middle of a transaction's end.
            let number = self.some_open();
            if self.open[&number].ended.is_none() {
                if self.random.below(2) == 0 {
                    self.commit(log, number, true);
                } else {
                    self.roll_back(log, number, true);
                }
            }
        }
    }
}

fn run(seed: u64) -> u64 {
    let mut random = SplitMix64::new(seed);
    let sizes: &[(u64, u64, u64)] = match random.below(3) {
        0 => &[(4 * MIB, 0, 4 * MIB)],
        1 => &[(8 * MIB, 0, 8 * MIB)],
        _ => &[(4 * MIB, 0, 4 * MIB), (4 * MIB, 0, 4 * MIB)],
    };
    let world = World::new(sizes);
    let mut log = world.create();
    let mut run = Run { seed, random, world, open: BTreeMap::new(), next: 1, refused: 0 };
    for _ in 0..3 {
        run.life(&log);
        drop(log);
        run.world.disk.crash(run.random.next_u64());
        log = run.recover();
    }
    run.refused
}

/// Runs `HOBT_LOG_SEEDS` seeds from `HOBT_SEED` on; by default a few.
#[test]
fn what_was_begun_can_be_ended_in_a_full_log_and_after_a_crash() {
    let from_environment =
        |name: &str, or: u64| std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(or);
    let first = from_environment("HOBT_SEED", 0);
    let refused: u64 = (first..first + from_environment("HOBT_LOG_SEEDS", 24)).map(run).sum();
    assert!(refused > 0, "the log was never full");
}

#[test]
fn each_of_many_commits_finds_its_block_in_a_full_log() {
    let world = World::new(&[(8 * MIB, 0, 8 * MIB)]);
    let log = world.create();
    let record = NewRecord { kind: 1, transaction: 1, previous: Lsn(0), payload: &[1; 40] };
    let bytes = record_bytes(record.payload.len()) as u64;
    // Small transactions, and a large one that uses the rest.
    let small: Vec<Reservation> = (0..600).map(|_| Reservation::default()).collect();
    for reservation in &small {
        log.reserve_for(RoomFor::Work, reservation, 3 * bytes, 1).expect("room for 600");
        log.append_always(&record, reservation).expect("reserved");
    }
    let large = Reservation::default();
    let mut count = 0;
    while log.reserve(&large, 2 * bytes).is_ok() {
        let lsn = log.append_always(&record, &large).expect("reserved").lsn;
        count += 1;
        if count % 100 == 0 {
            log.flush_past(lsn).expect("there is room yet");
        }
    }
    for reservation in &small {
        let lsn = log.append_always(&record, reservation).expect("reserved").lsn;
        log.flush_for(RoomFor::End(reservation), lsn).expect("its own block");
        log.release(reservation);
    }
    drop(log);
    // The changes of the large one are undone.
    let (log, _) = world.open().expect("a sound log");
    for _ in 0..count {
        log.append_always(&record, &Reservation::default()).expect("the log is well");
    }
    log.flush_for(RoomFor::Checkpoint, Lsn(log.end().0 - 1)).expect("room was kept");
}
