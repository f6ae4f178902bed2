//! Concurrent statements on many connections, and what the engine counted meanwhile.

use std::collections::BTreeMap;
use std::time::Instant;

use hobt_instruments::latches::LatchRow;
use hobt_instruments::spinlocks::SpinlockRow;
use hobt_instruments::waits::WaitRow;
use serde_json::{Map, Value, json};

use crate::connection::Connection;
use crate::error::Result;
use crate::laboratory::Laboratory;
use crate::report::Case;

/// Waits below this many milliseconds are not shown.
const SHOWN_MS: f64 = 0.05;

/// Runs `statement(1)` on the first connection, `statement(2)` on the second and so on, concurrently. Returns the
/// seconds until the last has ended, and each one's own time. Blocks.
///
/// # Errors
/// The error of the first statement that failed, once all have ended.
pub(super) fn run_together(
    connections: &mut [Connection],
    statement: impl Fn(usize) -> String,
) -> Result<(f64, Vec<f64>)> {
    let statements: Vec<String> = (1..=connections.len()).map(statement).collect();
    let since = Instant::now();
    let ended: Vec<Result<f64>> = std::thread::scope(|scope| {
        let run = |(connection, statement): (&mut Connection, &String)| {
            connection.run(statement).map(|answer| answer.elapsed.as_secs_f64())
        };
        let running: Vec<_> =
            connections.iter_mut().zip(&statements).map(|pair| scope.spawn(move || run(pair))).collect();
        running.into_iter().map(|thread| thread.join().expect("a session does not panic")).collect()
    });
    let elapsed = since.elapsed().as_secs_f64();
    Ok((elapsed, ended.into_iter().collect::<Result<_>>()?))
}

/// The statistics of the process, and the flushes of the laboratory's log, at one moment.
pub(super) struct Counters {
    waits: Vec<WaitRow>,
    latches: Vec<LatchRow>,
    spinlocks: Vec<SpinlockRow>,
    flushes: u64,
}

/// What was counted between two moments.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    /// Milliseconds by wait type.
    pub(super) waits_ms: BTreeMap<&'static str, f64>,
    /// Waits by latch class.
    pub(super) latch_waits: BTreeMap<&'static str, u64>,
    /// Milliseconds by latch class.
    pub(super) latch_waits_ms: BTreeMap<&'static str, f64>,
    /// Collisions, spins and back-offs by spinlock.
    pub(super) spinlocks: BTreeMap<&'static str, [u64; 3]>,
    /// Flushes of the log.
    pub(super) flushes: u64,
}

impl Counters {
    /// The current values.
    ///
    /// # Errors
    /// If the laboratory's database no longer exists.
    pub(super) fn now(lab: &Laboratory) -> Result<Counters> {
        let log = lab.database()?.storage().log().map(|log| log.log().statistics().flushes);
        Ok(Counters {
            waits: hobt_instruments::waits::snapshot(),
            latches: hobt_instruments::latches::snapshot(),
            spinlocks: hobt_instruments::spinlocks::snapshot(),
            flushes: log.unwrap_or(0),
        })
    }

    /// The increase since then. If the statistics were cleared in between, the increase counts as zero.
    ///
    /// # Errors
    /// If the laboratory's database no longer exists.
    pub(super) fn since(&self, lab: &Laboratory) -> Result<Counted> {
        let now = Counters::now(lab)?;
        let mut counted = Counted { flushes: now.flushes.saturating_sub(self.flushes), ..Counted::default() };
        let milliseconds = |now: u64, before: u64| now.saturating_sub(before) as f64 / 1e6;
        // Every snapshot has the same rows in the same order.
        for (now, before) in now.waits.iter().zip(&self.waits) {
            let time = milliseconds(now.wait_time_ns, before.wait_time_ns);
            if time >= SHOWN_MS {
                counted.waits_ms.insert(now.wait_type.name(), time);
            }
        }
        for (now, before) in now.latches.iter().zip(&self.latches) {
            let waits = now.waiting_requests_count.saturating_sub(before.waiting_requests_count);
            if waits > 0 {
                counted.latch_waits.insert(now.latch_class.name(), waits);
                let time = milliseconds(now.wait_time_ns, before.wait_time_ns);
                counted.latch_waits_ms.insert(now.latch_class.name(), time);
            }
        }
        for (now, before) in now.spinlocks.iter().zip(&self.spinlocks) {
            let collisions = now.collisions.saturating_sub(before.collisions);
            if collisions > 0 {
                let (spins, backoffs) = (now.spins.saturating_sub(before.spins), now.backoffs - before.backoffs);
                counted.spinlocks.insert(now.name.name(), [collisions, spins, backoffs]);
            }
        }
        Ok(counted)
    }
}

impl Counted {
    /// Stores waits, latches and spinlocks in a case, replacing those of an earlier repetition.
    pub(super) fn put_into(&self, case: &mut Case) {
        let spinlocks: Map<String, Value> = self
            .spinlocks
            .iter()
            .map(|(name, [collisions, spins, backoffs])| {
                ((*name).to_owned(), json!({ "collisions": collisions, "spins": spins, "backoffs": backoffs }))
            })
            .collect();
        case.figures.insert("waits_ms".to_owned(), json!(self.waits_ms));
        case.figures.insert("latch_waits".to_owned(), json!(self.latch_waits));
        case.figures.insert("latch_waits_ms".to_owned(), json!(self.latch_waits_ms));
        case.figures.insert("spinlocks".to_owned(), Value::Object(spinlocks));
        case.push("spins", self.spinlocks.values().map(|counts| counts[1] as f64).sum());
        case.push("backoffs", self.spinlocks.values().map(|counts| counts[2] as f64).sum());
    }
}

/// The wait with the most time in a case, as a table shows it.
pub(super) fn longest_wait(case: &Case) -> String {
    let waits = case.figures.get("waits_ms").and_then(Value::as_object);
    let time = |value: &Value| value.as_f64().unwrap_or(0.0);
    let longest = waits.and_then(|waits| waits.iter().max_by(|one, other| time(one.1).total_cmp(&time(other.1))));
    longest.map_or_else(|| "-".to_owned(), |(name, ms)| format!("{name} {} ms", crate::figures::amount(time(ms))))
}
