//! Threads that lock and release at random: holders are always compatible, and every thread finishes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use hobt_base::SplitMix64;
use hobt_txn::locks::{LockError, LockManager, LockMode, LockOwner, LockResource, Patience};

use super::{key, owner, table};

const THREADS: usize = 8;
const RESOURCES: usize = 5;

/// What each thread's owner holds of each resource: 0, or the mode's number. A thread notes a lock after it is granted,
/// and removes the note before it releases the lock. So two notes that exclude each other were two locks at the same
/// time.
type Holders = [[AtomicU8; THREADS]; RESOURCES];

struct Worker<'a> {
    number: usize,
    /// How many consecutive threads are of one session, each with an owner of its own.
    per_session: usize,
    resources: &'a [LockResource; RESOURCES],
    locks: &'a LockManager,
    owner: Arc<LockOwner>,
    holders: &'a Holders,
    /// How often it asked for each resource.
    counts: [u32; RESOURCES],
    random: SplitMix64,
    /// How often it was a deadlock's victim.
    victim: u64,
}

impl Worker<'_> {
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.random.below(bound as u64)).expect("small")
    }

    fn note(&self, resource: usize) {
        let held = self.locks.mode_held(&self.owner, &self.resources[resource]);
        let held = held.expect("it was granted");
        let notes = &self.holders[resource];
        notes[self.number].store(held as u8, Ordering::SeqCst);
        let session = self.number / self.per_session;
        for (thread, note) in notes.iter().enumerate().filter(|(thread, _)| thread / self.per_session != session) {
            let other = LockMode::ALL.into_iter().find(|mode| *mode as u8 == note.load(Ordering::SeqCst));
            let goes = other.is_none_or(|other| other.is_compatible(held));
            assert!(goes, "{held} of thread {} beside {other:?} of thread {thread}", self.number);
        }
    }

    fn release(&mut self, resource: usize) {
        self.counts[resource] -= 1;
        if self.counts[resource] == 0 {
            self.holders[resource][self.number].store(0, Ordering::SeqCst);
        }
        assert!(self.locks.release(&self.owner, &self.resources[resource]));
    }

    fn release_all(&mut self) {
        self.counts = [0; RESOURCES];
        for notes in self.holders {
            notes[self.number].store(0, Ordering::SeqCst);
        }
        self.locks.release_all(&self.owner);
        assert_eq!(self.owner.held_count(), 0);
    }

    fn step(&mut self, modes: &[LockMode]) {
        let (resource, action) = (self.below(RESOURCES), self.below(10));
        if action == 0 {
            return self.release_all();
        }
        if action < 4 && self.counts[resource] > 0 {
            return self.release(resource);
        }
        let mode = modes[self.below(modes.len())];
        // One attempt without waiting, one with a short timeout, two that wait for ever.
        let timeout = [Some(Duration::ZERO), Some(Duration::from_micros(300)), None, None][self.below(4)];
        let patience = Patience { timeout, deadlock_priority: 0 };
        match self.locks.lock(&self.owner, self.resources[resource], mode, patience, &|| false) {
            Ok(_) => {
                self.counts[resource] += 1;
                self.note(resource);
            }
            Err(LockError::Timeout) => assert!(timeout.is_some()),
            Err(LockError::Deadlock) => {
                self.victim += 1;
                self.release_all();
            }
            Err(LockError::Cancelled) => panic!("nobody cancelled"),
        }
        if self.below(8) == 0 {
            std::thread::yield_now();
        }
    }
}

fn run(seed: u64, per_session: usize, resources: [LockResource; RESOURCES], modes: Vec<LockMode>) {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let locks = LockManager::default();
        let holders: Holders = Default::default();
        let victims = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for number in 0..THREADS {
                let (locks, holders, victims, resources, modes) = (&locks, &holders, &victims, &resources, &modes);
                scope.spawn(move || {
                    let session = i32::try_from(number / per_session).expect("small") + 60;
                    let random = SplitMix64::new(seed + number as u64);
                    let (owner, counts) = (owner(session), [0; RESOURCES]);
                    let mut worker =
                        Worker { number, per_session, resources, locks, owner, holders, counts, random, victim: 0 };
                    for _ in 0..800 {
                        worker.step(modes);
                    }
                    worker.release_all();
                    victims.fetch_add(worker.victim, Ordering::Relaxed);
                });
            }
        });
        assert_eq!((locks.rows(), locks.waits()), (Vec::new(), Vec::new()));
        assert_eq!(victims.into_inner(), locks.deadlock_count(), "one victim for each deadlock");
        for graph in locks.deadlocks() {
            assert!(graph.processes.len() > 1, "nobody waits for itself");
            assert_eq!(graph.processes.iter().filter(|process| process.is_victim).count(), 1);
        }
        let _nobody_waits_any_more = done.send(());
    });
    match ended.recv_timeout(Duration::from_secs(120)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("a request is never granted (seed {seed})"),
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => thread.join().expect("no panic"),
    }
}

#[test]
fn holders_of_rows_go_together_and_everybody_comes_to_an_end() {
    let keys = [1, 2, 3, 4, 5].map(key);
    for seed in 0..4 {
        run(seed * 1_000, 1, keys, vec![LockMode::Shared, LockMode::Update, LockMode::Exclusive]);
    }
}

#[test]
fn holders_of_ranges_go_together_and_everybody_comes_to_an_end() {
    let modes: Vec<LockMode> = LockMode::ALL.into_iter().filter(|mode| mode.is_for_keys()).collect();
    for seed in 0..4 {
        run(seed * 1_000 + 7, 1, [1, 2, 3, 4, 5].map(key), modes.clone());
    }
}

#[test]
fn holders_of_tables_go_together_and_everybody_comes_to_an_end() {
    let modes: Vec<LockMode> = LockMode::ALL.into_iter().filter(|mode| !mode.is_range()).collect();
    for seed in 0..4 {
        run(seed * 1_000 + 9, 1, [1, 2, 3, 4, 5].map(table), modes.clone());
    }
}

/// Owners of one session hold locks that exclude each other, pass waiters, and close circles by granted locks.
#[test]
fn sessions_of_several_workers_come_to_an_end() {
    let modes: Vec<LockMode> = LockMode::ALL.into_iter().filter(|mode| !mode.is_range()).collect();
    for seed in 0..4 {
        run(seed * 1_000 + 3, 2, [1, 2, 3, 4, 5].map(table), modes.clone());
    }
}
