//! The cost of an uncontended latch beside that of the lock that it is built from: `cargo run --release --example
//! latch_cost`.

use hobt_instruments::{Latch, LatchClass};
use std::hint::black_box;
use std::time::Instant;

const PAIRS: u32 = 5_000_000;

/// Nanoseconds of one call, the best of several rounds.
fn best_of(mut pair: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let since = Instant::now();
        for _ in 0..PAIRS {
            pair();
        }
        best = best.min(since.elapsed().as_secs_f64() * 1e9 / f64::from(PAIRS));
    }
    best
}

fn main() {
    let lock = parking_lot::RwLock::new(0_u64);
    let latch = Latch::new(LatchClass::Buffer, 0_u64);
    let lock_write = best_of(|| *black_box(&lock).write() += 1);
    let latch_write = best_of(|| *black_box(&latch).write() += 1);
    let mut sum = 0_u64;
    let lock_read = best_of(|| sum = sum.wrapping_add(black_box(*black_box(&lock).read())));
    let latch_read = best_of(|| sum = sum.wrapping_add(black_box(*black_box(&latch).read())));
    println!("write: lock {lock_write:.2} ns, latch {latch_write:.2} ns, ratio {:.3}", latch_write / lock_write);
    println!(
        "read:  lock {lock_read:.2} ns, latch {latch_read:.2} ns, ratio {:.3} (sum {sum})",
        latch_read / lock_read
    );
}
