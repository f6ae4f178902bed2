//! Properties of wait accounting. The statistics are the process's, so each test uses its own wait types. The tests
//! that clear statistics or switch accounting off exclude the others.

use super::*;
use crate::names::WaitType;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Held exclusively by tests that clear statistics or switch accounting off.
static TURNS: RwLock<()> = RwLock::new(());

/// Held by a test that needs accounting on and nothing cleared meanwhile.
pub(crate) fn shared() -> RwLockReadGuard<'static, ()> {
    TURNS.read()
}

fn exclusive() -> RwLockWriteGuard<'static, ()> {
    TURNS.write()
}

fn row(wait_type: WaitType) -> WaitRow {
    snapshot()[wait_type.index()]
}

#[test]
fn waits_of_many_threads_add_up_after_the_threads_have_ended() {
    let _turn = shared();
    let before = row(WaitType::WriteLog);
    let threads: Vec<_> = (1..=8_u64)
        .map(|n| {
            std::thread::spawn(move || {
                for _ in 0..1_000 {
                    record(WaitType::WriteLog, Duration::from_micros(n), Duration::from_nanos(n));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("the thread ends"));
    let after = row(WaitType::WriteLog);
    assert_eq!(after.waiting_tasks_count - before.waiting_tasks_count, 8_000);
    assert_eq!(after.wait_time_ns - before.wait_time_ns, 36_000_000);
    assert_eq!(after.signal_wait_time_ns - before.signal_wait_time_ns, 36_000);
    assert_eq!(after.max_wait_time_ns, 8_000);
    // 1 µs; 2 and 3; 4 to 7; 8.
    assert_eq!(after.histogram[1..5], [1_000, 2_000, 4_000, 1_000]);
}

#[test]
fn a_thread_that_works_while_it_waits_is_not_counted_twice() {
    let _turn = shared();
    let (waited, worked, since) = (of_this_thread(), thread_cpu_time(), Instant::now());
    let wait = Wait::begin_working(WaitType::CxConsumer);
    while thread_cpu_time() - worked < Duration::from_millis(5) {}
    drop(wait);
    let (waited, worked) = (of_this_thread() - waited, thread_cpu_time() - worked);
    let elapsed = since.elapsed();
    assert!(waited + Duration::from_millis(5) <= elapsed, "{waited:?} waited and {worked:?} worked in {elapsed:?}");
}

#[test]
fn a_thread_knows_the_time_of_its_own_waits_and_of_no_others() {
    let _turn = shared();
    let before = of_this_thread();
    record(WaitType::CxPacket, Duration::from_micros(3), Duration::ZERO);
    let others = std::thread::spawn(|| {
        let before = of_this_thread();
        record(WaitType::CxPacket, Duration::from_micros(5), Duration::ZERO);
        of_this_thread() - before
    });
    assert_eq!(others.join().expect("the thread ends"), Duration::from_micros(5));
    assert_eq!(of_this_thread() - before, Duration::from_micros(3));
}

#[test]
fn clearing_subtracts_what_was_and_resets_the_maximum() {
    let _turn = exclusive();
    record(WaitType::LogBuffer, Duration::from_millis(5), Duration::ZERO);
    assert!(row(WaitType::LogBuffer).waiting_tasks_count > 0);
    clear();
    let cleared = row(WaitType::LogBuffer);
    assert_eq!((cleared.waiting_tasks_count, cleared.wait_time_ns, cleared.max_wait_time_ns), (0, 0, 0));
    assert_eq!(cleared.histogram, [0; HISTOGRAM_BUCKETS]);
    record(WaitType::LogBuffer, Duration::from_micros(7), Duration::ZERO);
    let after = row(WaitType::LogBuffer);
    assert_eq!((after.waiting_tasks_count, after.wait_time_ns, after.max_wait_time_ns), (1, 7_000, 7_000));
}

#[test]
fn a_clear_amid_recording_never_yields_more_than_was_recorded() {
    let _turn = exclusive();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let recorder = scope.spawn(|| {
            for _ in 0..20_000 {
                record(WaitType::ThreadPool, Duration::from_nanos(3), Duration::ZERO);
            }
            done.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        while !done.load(std::sync::atomic::Ordering::SeqCst) {
            clear();
            let seen = row(WaitType::ThreadPool);
            assert!(seen.waiting_tasks_count <= 20_000, "{seen:?}");
            assert!(seen.wait_time_ns <= 60_000, "{seen:?}");
        }
        recorder.join().expect("the recorder ends");
    });
}

#[test]
fn a_statements_waits_count_for_it_and_for_the_instance() {
    let _turn = shared();
    let before = row(WaitType::ResourceSemaphore);
    let (outer, inner) = (Arc::new(WaitCounters::new()), Arc::new(WaitCounters::new()));
    let guard = set_statement_counters(Some(outer.clone()));
    record(WaitType::ResourceSemaphore, Duration::from_nanos(10), Duration::ZERO);
    {
        let _guard = set_statement_counters(Some(inner.clone()));
        record(WaitType::ResourceSemaphore, Duration::from_nanos(32), Duration::from_nanos(2));
    }
    record(WaitType::ResourceSemaphore, Duration::from_nanos(20), Duration::ZERO);
    drop(guard);
    record(WaitType::ResourceSemaphore, Duration::from_nanos(1), Duration::ZERO);
    assert_eq!((outer.total(), inner.total()), (Duration::from_nanos(30), Duration::from_nanos(32)));
    assert_eq!(inner.last_wait_type(), Some(WaitType::ResourceSemaphore));
    outer.absorb(&inner);
    let rows = outer.rows();
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].waiting_tasks_count, rows[0].wait_time_ns, rows[0].max_wait_time_ns), (3, 62, 32));
    assert_eq!(row(WaitType::ResourceSemaphore).wait_time_ns - before.wait_time_ns, 63);
}

#[test]
fn a_guard_records_on_drop_unless_cancelled_or_switched_off() {
    let _turn = exclusive();
    let before = row(WaitType::WaitFor).waiting_tasks_count;
    drop(Wait::begin(WaitType::WaitFor));
    Wait::begin(WaitType::WaitFor).cancel();
    crate::set_accounting(false);
    drop(Wait::begin(WaitType::WaitFor));
    record(WaitType::WaitFor, Duration::from_secs(1), Duration::ZERO);
    crate::set_accounting(true);
    assert_eq!(row(WaitType::WaitFor).waiting_tasks_count - before, 1);
}

#[test]
fn threads_in_a_row_use_one_slot() {
    let _turn = shared();
    let before = slots::slot_count();
    for _ in 0..50 {
        std::thread::spawn(|| record(WaitType::SleepTask, Duration::from_nanos(1), Duration::ZERO))
            .join()
            .expect("the thread ends");
    }
    // Other tests run beside this one and may take slots of their own, but not fifty.
    assert!(slots::slot_count() < before + 50);
}

#[test]
fn buckets_are_powers_of_two_of_microseconds() {
    assert_eq!([0, 1, 2, 3, 4, 1_023, 1_024].map(bucket_of), [0, 1, 2, 2, 3, 10, 11]);
    assert_eq!(bucket_of(u64::MAX), HISTOGRAM_BUCKETS - 1);
}
