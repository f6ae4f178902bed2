//! Times of the thread that runs a statement: it binds, plans, changes rows, sends them and commits. Its workers' time
//! is counted separately (`workers`). While it waits for them, the thread has no time of its own.

use std::cell::{Cell, OnceCell};
use std::time::{Duration, Instant};

use hobt_instruments::processor::{self, RunQueueClock};
use hobt_instruments::{WaitType, schedule, waits};

/// The least time without the processor in the client's code that counts as a wait for the client.
const SHORTEST_WAIT: Duration = Duration::from_micros(20);

thread_local! {
    /// The time that this thread has waited for workers since its start, and the part of its run-queue delay in those
    /// waits.
    static FOR_WORKERS: Cell<(Duration, Duration)> = const { Cell::new((Duration::ZERO, Duration::ZERO)) };
    static RUN_QUEUE: OnceCell<Option<RunQueueClock>> = const { OnceCell::new() };
}

/// Runs `wait`, which waits for workers, and counts its time as such. Blocks as it does.
pub(super) fn for_workers<T>(wait: impl FnOnce() -> T) -> T {
    let before = Clocks::read();
    let result = wait();
    let passed = before.passed();
    let (waited, queue) = FOR_WORKERS.get();
    FOR_WORKERS.set((waited + passed.elapsed.saturating_sub(passed.cpu), queue + passed.run_queue));
    result
}

/// Runs `send`, which hands something to the client, whose code may run on this thread. Its computing is processor time
/// of the statement; its waiting counts as `ASYNC_NETWORK_IO`. Blocks as it does.
pub(super) fn for_client<T>(send: impl FnOnce() -> T) -> T {
    let before = Clocks::read();
    let result = send();
    let Passed { elapsed, cpu, run_queue } = before.passed();
    let blocked = elapsed.saturating_sub(cpu + run_queue);
    if blocked >= SHORTEST_WAIT {
        waits::record(WaitType::AsyncNetworkIo, blocked, Duration::ZERO);
    }
    result
}

/// The clocks of this thread at one moment.
#[derive(Debug)]
struct Clocks {
    since: Instant,
    cpu: Duration,
    run_queue: Duration,
}

/// The differences since then.
struct Passed {
    elapsed: Duration,
    cpu: Duration,
    run_queue: Duration,
}

impl Clocks {
    fn read() -> Clocks {
        Clocks { since: schedule::now(), cpu: processor::thread_cpu_time(), run_queue: run_queue() }
    }

    fn passed(&self) -> Passed {
        let cpu = processor::thread_cpu_time().saturating_sub(self.cpu);
        let run_queue = run_queue().saturating_sub(self.run_queue);
        Passed { elapsed: schedule::now().saturating_duration_since(self.since), cpu, run_queue }
    }
}

fn run_queue() -> Duration {
    RUN_QUEUE.with(|clock| {
        let clock = clock.get_or_init(RunQueueClock::of_this_thread);
        clock.as_ref().and_then(RunQueueClock::read).unwrap_or_default()
    })
}

/// The clocks of this thread when a statement began.
#[derive(Debug)]
pub struct OwnThread {
    clocks: Clocks,
    waited: Duration,
    for_workers: (Duration, Duration),
}

/// What a thread did for a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnTime {
    /// By the wall clock.
    pub elapsed: Duration,
    /// The part of that in which it did not wait for its workers.
    pub own: Duration,
    /// Processor time.
    pub cpu: Duration,
}

impl OwnThread {
    /// Begins a statement on this thread.
    pub fn begin() -> OwnThread {
        OwnThread { clocks: Clocks::read(), waited: waits::of_this_thread(), for_workers: FOR_WORKERS.get() }
    }

    /// Ends it, on the same thread. Time for which the thread was ready to run but did not is booked as
    /// `SOS_SCHEDULER_YIELD`, also to the statement's counters if they are still set.
    pub fn end(&self) -> OwnTime {
        let Passed { elapsed, cpu, run_queue } = self.clocks.passed();
        let (for_workers, queue_there) = FOR_WORKERS.get();
        let own = elapsed.saturating_sub(for_workers.saturating_sub(self.for_workers.0));
        let waited = waits::of_this_thread().saturating_sub(self.waited);
        let left = own.saturating_sub(cpu + waited);
        // The run-queue delay after a wake-up is already part of the wait.
        let queue = run_queue.saturating_sub(queue_there.saturating_sub(self.for_workers.1)).min(left);
        if !queue.is_zero() {
            waits::record(WaitType::SosSchedulerYield, queue, queue);
        }
        // Booked for the whole instance only: in a statement's own figures it is the remainder after the named waits.
        let _not_the_statement = waits::set_statement_counters(None);
        waits::record(WaitType::Unexplained, left - queue, Duration::ZERO);
        OwnTime { elapsed, own, cpu }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// Waits for another thread, which begins only when this one is about to wait.
    fn wait_for_another() {
        let (begin, has_begun) = channel();
        let (end, has_ended) = channel();
        let other = std::thread::spawn(move || {
            has_begun.recv().expect("it waits");
            end.send(()).expect("it waits still");
        });
        begin.send(()).expect("the other is there");
        has_ended.recv().expect("the other ends");
        other.join().expect("no panic");
    }

    #[test]
    fn what_workers_are_waited_for_is_no_time_of_the_thread() {
        let before = FOR_WORKERS.get().0;
        let clock = OwnThread::begin();
        for_workers(wait_for_another);
        let (time, waited) = (clock.end(), FOR_WORKERS.get().0 - before);
        assert!(!waited.is_zero() && time.own == time.elapsed - waited, "{time:?}, waited {waited:?}");
    }

    #[test]
    fn what_others_are_waited_for_is_time_of_the_thread() {
        let clock = OwnThread::begin();
        wait_for_another();
        let time = clock.end();
        assert!(time.own == time.elapsed && time.cpu <= time.own, "{time:?}");
    }

    #[test]
    fn a_statement_within_another_leaves_the_outer_its_own_time() {
        let before = FOR_WORKERS.get().0;
        let outer = OwnThread::begin();
        let inner = OwnThread::begin();
        for_workers(wait_for_another);
        let inner = inner.end();
        let (outer, waited) = (outer.end(), FOR_WORKERS.get().0 - before);
        assert!(outer.elapsed >= inner.elapsed && outer.own >= inner.own, "{outer:?} around {inner:?}");
        assert!(outer.own == outer.elapsed - waited && inner.own == inner.elapsed - waited, "{waited:?}");
    }
}
