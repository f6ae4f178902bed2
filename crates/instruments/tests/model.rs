//! The spinlock and the latch under every schedule that shuttle makes, including those that preempt the holder of one.
//! `HOBT_MODEL` sets the number of schedules (default 1,000). A failure prints the schedule, which `shuttle::replay`
//! runs again.
//!
//! A test binary of its own, because the feature `model` replaces the primitives that the locks are built from.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hobt_instruments::primitives::yield_now;
use hobt_instruments::{Latch, LatchClass, Spinlock, SpinlockName};
use shuttle::thread;

const THREADS: u32 = 3;
const ROUNDS: u32 = 2;

/// Half of the schedules are random. In the other half few thread switches decide (PCT), which keeps a thread waiting
/// for long.
fn explore(test: impl Fn() + Send + Sync + Clone + 'static) {
    let schedules = std::env::var("HOBT_MODEL").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000);
    shuttle::check_random(test.clone(), schedules / 2);
    shuttle::check_pct(test, schedules / 2, 3);
}

/// Which threads are inside: writers in the upper half, readers in the lower. Not one of shuttle's primitives, so it
/// adds no schedules.
#[derive(Default)]
struct Inside(AtomicU32);

impl Inside {
    const WRITER: u32 = 1 << 16;

    /// Enters, yields the processor, and leaves.
    fn visit(&self, weight: u32) {
        let before = self.0.fetch_add(weight, Ordering::Relaxed);
        let is_alone = if weight == Inside::WRITER { before == 0 } else { before < Inside::WRITER };
        assert!(is_alone, "two are inside: {before:x}, and one of {weight:x} comes");
        yield_now();
        self.0.fetch_sub(weight, Ordering::Relaxed);
    }
}

#[test]
fn a_spinlock_has_one_holder_and_everybody_gets_it() {
    explore(|| {
        let (lock, inside) = (Arc::new(Spinlock::new(SpinlockName::Mutex, 0_u32)), Arc::<Inside>::default());
        let threads: Vec<_> = (0..THREADS)
            .map(|index| {
                let (lock, inside) = (Arc::clone(&lock), Arc::clone(&inside));
                thread::spawn(move || {
                    for _ in 0..ROUNDS {
                        let mut value = match lock.try_lock().filter(|_| index == 0) {
                            Some(guard) => guard,
                            None => lock.lock(),
                        };
                        let read = *value;
                        inside.visit(Inside::WRITER);
                        *value = read + 1;
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        assert_eq!(*lock.lock(), THREADS * ROUNDS, "no increment is lost");
    });
}

#[test]
fn a_latch_has_one_writer_or_readers_and_everybody_gets_it() {
    explore(|| {
        let latch = Arc::new(Latch::new(LatchClass::TraceController, (0_u32, 0_u32)));
        let inside = Arc::<Inside>::default();
        let writers = (0..2).map(|_| {
            let (latch, inside) = (Arc::clone(&latch), Arc::clone(&inside));
            thread::spawn(move || {
                for _ in 0..ROUNDS {
                    let mut pair = latch.write();
                    pair.0 += 1;
                    inside.visit(Inside::WRITER);
                    pair.1 += 1;
                }
            })
        });
        let readers = (0..2).map(|index| {
            let (latch, inside) = (Arc::clone(&latch), Arc::clone(&inside));
            thread::spawn(move || {
                for _ in 0..ROUNDS {
                    let pair = match index {
                        0 => Some(latch.read()),
                        _ => latch.try_read(),
                    };
                    let Some(pair) = pair else { continue };
                    inside.visit(1);
                    assert_eq!(pair.0, pair.1, "a reader sees no half of a change");
                }
            })
        });
        let threads: Vec<_> = writers.chain(readers).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        assert_eq!(*latch.read(), (2 * ROUNDS, 2 * ROUNDS));
    });
}
