//! Wait, latch and spinlock statistics.

use hobt_instruments::waits::WaitRow;
use hobt_instruments::{backoff_stacks, latches, spinlocks, waits};
use hobt_types::Value;

use crate::Definition;
use crate::value::{int, milliseconds_of, row};

pub(super) static VIEWS: &[Definition] = &[
    Definition::sys(
        "dm_os_wait_stats",
        "wait_type nvarchar(60)!, waiting_tasks_count bigint!, wait_time_ms bigint!, max_wait_time_ms bigint!, \
         signal_wait_time_ms bigint!",
        |_, _, _| Ok(waits::snapshot().iter().map(wait).collect()),
    ),
    Definition::sys(
        "dm_exec_session_wait_stats",
        "session_id smallint!, wait_type nvarchar(60)!, waiting_tasks_count bigint!, wait_time_ms bigint!, \
         max_wait_time_ms bigint!, signal_wait_time_ms bigint!",
        |sources, _, _| {
            let mut rows = Vec::new();
            for session in sources.registry.all() {
                for waited in session.waits.rows() {
                    let mut row = row![session.id.0];
                    row.extend(wait(&waited));
                    rows.push(row);
                }
            }
            Ok(rows)
        },
    ),
    Definition::sys(
        "dm_os_latch_stats",
        "latch_class nvarchar(60)!, waiting_requests_count bigint!, wait_time_ms bigint!, max_wait_time_ms bigint!",
        |_, _, _| {
            let rows = latches::snapshot().into_iter().map(|latch| {
                row![
                    latch.latch_class.name(),
                    latch.waiting_requests_count,
                    milliseconds_of(latch.wait_time_ns),
                    milliseconds_of(latch.max_wait_time_ns)
                ]
            });
            Ok(rows.collect())
        },
    ),
    Definition::sys(
        "dm_os_spinlock_stats",
        "name nvarchar(256)!, collisions bigint!, spins bigint!, spins_per_collision real!, sleep_time bigint!, \
         backoffs int!",
        |_, _, _| {
            let rows = spinlocks::snapshot().into_iter().map(|lock| {
                let ratio = if lock.collisions == 0 { 0.0 } else { lock.spins as f64 / lock.collisions as f64 };
                row![
                    lock.name.name(),
                    lock.collisions,
                    lock.spins,
                    f64::from(ratio as f32),
                    milliseconds_of(lock.sleep_time_ns),
                    int(lock.backoffs)
                ]
            });
            Ok(rows.collect())
        },
    ),
    Definition::sys(
        "hobt_spinlock_backoff_stacks",
        "name nvarchar(256)!, backoffs bigint!, backoff_stack nvarchar(max)!, holder_stack nvarchar(max)",
        |_, _, _| {
            let rows = backoff_stacks::snapshot().into_iter();
            Ok(rows.map(|stacks| row![stacks.name.name(), stacks.count, stacks.waiter, stacks.holder]).collect())
        },
    ),
    Definition::sys(
        "hobt_wait_histogram",
        "wait_type nvarchar(60)!, wait_time_us_from bigint!, wait_time_us_below bigint!, waiting_tasks_count bigint!",
        |_, _, _| {
            let mut rows = Vec::new();
            for waited in waits::snapshot() {
                for (bucket, count) in waited.histogram.iter().enumerate().filter(|(_, count)| **count > 0) {
                    let from = if bucket == 0 { 0 } else { 1_i64 << (bucket - 1) };
                    rows.push(row![waited.wait_type.name(), from, 1_i64 << bucket, *count]);
                }
            }
            Ok(rows)
        },
    ),
];

fn wait(waited: &WaitRow) -> Vec<Value> {
    row![
        waited.wait_type.name(),
        waited.waiting_tasks_count,
        milliseconds_of(waited.wait_time_ns),
        milliseconds_of(waited.max_wait_time_ns),
        milliseconds_of(waited.signal_wait_time_ns)
    ]
}
