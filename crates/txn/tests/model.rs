//! The lock table under every schedule that shuttle makes: locks granted at one time are compatible, every deadlock is
//! broken, and every waiter is woken. `HOBT_MODEL` is the number of schedules (1,000 without). A failure prints the
//! schedule, which `shuttle::replay` runs again. A lost wake-up leaves all threads asleep, which shuttle reports.
//!
//! A test binary of its own: the feature `model` exchanges the primitives that the lock table is made of.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hobt_base::{DatabaseId, HobtId, ObjectId, SessionId, Stamp};
use hobt_txn::locks::{KeyHash, LockError, LockManager, LockMode, LockOwner, LockOwnerKind, LockResource, Patience};
use shuttle::rand::Rng;
use shuttle::thread;

const THREADS: u16 = 3;

fn explore(test: impl Fn() + Send + Sync + Clone + 'static) {
    let schedules = std::env::var("HOBT_MODEL").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000);
    shuttle::check_random(test.clone(), schedules / 2);
    shuttle::check_pct(test, schedules / 2, 3);
}

fn owner(number: u16) -> Arc<LockOwner> {
    let stamp = Stamp(u64::from(number) + 1);
    LockOwner::new(SessionId(51 + i32::from(number)), LockOwnerKind::Transaction(stamp.0), stamp)
}

fn key(number: u8) -> LockResource {
    LockResource::Key(DatabaseId(5), HobtId(9), KeyHash::of(&[number]))
}

/// The locks that threads hold, each noted after it was granted.
#[derive(Default)]
struct Book(Mutex<Vec<(u16, LockResource, LockMode)>>);

impl Book {
    fn granted(&self, number: u16, resource: LockResource, mode: LockMode) {
        let mut held = self.0.lock().expect("no panic");
        for (other, _, of) in held.iter().filter(|(other, at, _)| *other != number && *at == resource) {
            assert!(mode.is_compatible(*of), "{number} has {mode} of {resource} while {other} has {of}");
        }
        held.push((number, resource, mode));
    }

    /// To be called before the locks are released.
    fn lets_go(&self, number: u16) {
        self.0.lock().expect("no panic").retain(|(owner, ..)| *owner != number);
    }
}

/// Transactions that lock keys and a table in orders of their own, some to read and some to change. They convert locks,
/// give up or become victims, and end.
#[test]
fn what_is_granted_goes_together_and_everybody_comes_to_an_end() {
    const MODES: [LockMode; 6] = [
        LockMode::Shared,
        LockMode::Update,
        LockMode::Exclusive,
        LockMode::RangeSharedShared,
        LockMode::RangeInsertNull,
        LockMode::RangeSharedUpdate,
    ];
    explore(|| {
        let (manager, book) = (Arc::<LockManager>::default(), Arc::<Book>::default());
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let (manager, book) = (Arc::clone(&manager), Arc::clone(&book));
                thread::spawn(move || {
                    let owner = owner(number);
                    let mut random = shuttle::rand::thread_rng();
                    for _ in 0..3 {
                        let (resource, mode) = match random.gen_range(0..4) {
                            0 => {
                                let table = LockResource::Object(DatabaseId(5), ObjectId(7));
                                (
                                    table,
                                    [LockMode::IntentShared, LockMode::IntentExclusive, LockMode::Shared]
                                        [random.gen_range(0..3)],
                                )
                            }
                            _ => (key(random.gen_range(0..2)), MODES[random.gen_range(0..MODES.len())]),
                        };
                        // A patient thread sleeps until it is woken. An impatient one is asked whether to go on.
                        let is_patient = random.gen_range(0..3) > 0;
                        let timeout = (!is_patient).then_some(Duration::from_millis(5));
                        let patience = Patience { timeout, ..Patience::default() };
                        let gives_up = || !is_patient && shuttle::rand::thread_rng().gen_range(0..3) == 0;
                        match manager.lock(&owner, resource, mode, patience, &gives_up) {
                            Ok(_) => book.granted(number, resource, mode),
                            Err(LockError::Timeout | LockError::Cancelled) => assert!(!is_patient),
                            Err(LockError::Deadlock) => break,
                        }
                    }
                    book.lets_go(number);
                    manager.release_all(&owner);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        assert!(manager.rows().is_empty() && manager.waits().is_empty(), "nothing is left");
    });
}

/// A circle of all owners: one fails, and the others are granted what they want.
#[test]
fn a_circle_has_one_victim() {
    explore(|| {
        let manager = Arc::<LockManager>::default();
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let manager = Arc::clone(&manager);
                thread::spawn(move || {
                    let owner = owner(number);
                    let is_patient = Patience::default();
                    let lock = |number: u16| {
                        let number = u8::try_from(number % THREADS).expect("few");
                        manager.lock(&owner, key(number), LockMode::Exclusive, is_patient, &|| false)
                    };
                    let is_victim = lock(number).and_then(|_| lock(number + 1)) == Err(LockError::Deadlock);
                    manager.release_all(&owner);
                    is_victim
                })
            })
            .collect();
        let victims =
            threads.into_iter().map(|thread| thread.join().expect("no panic")).filter(|is_victim| *is_victim).count();
        assert_eq!(victims as u64, manager.deadlock_count());
        assert!(victims <= 1, "one that goes makes way for the others");
        assert!(manager.rows().is_empty());
    });
}
