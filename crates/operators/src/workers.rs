//! Workers: the threads that run a statement's plan, and the accounting of their time.
//!
//! A statement borrows a group of as many threads as its degree of parallelism and returns it at the end. Idle groups
//! are kept. All tasks of the plan run on these threads and nowhere else, so processor time never exceeds the degree
//! times the elapsed time, whatever the plan spawns. A worker is either running or parked. Its thread's processor clock
//! measures the first, and the park hooks measure and name the second:
//!
//! * `PAGEIOLATCH_SH` while a scan of the statement waits for its reads,
//! * `ASYNC_NETWORK_IO` while the client does not take rows,
//! * `CXPACKET` while this worker has nothing to do and another has (one worker alone: `CXCONSUMER`).
//!
//! A worker that blocks without parking, for a latch or a page, records that wait itself, as any thread does.
//!
//! Time on the run queue outside parks comes from the scheduler's statistics and is `SOS_SCHEDULER_YIELD`. The clock is
//! read only when a worker parks and when it wakes.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak, mpsc};
use std::time::{Duration, Instant};

use hobt_base::{SqlError, errors};
use hobt_functions::watch::{Watch, WatchGuard, current, set_watch};
use hobt_instruments::processor::{self, RunQueueClock};
use hobt_instruments::waits::{self, StatementCountersGuard, Wait};
use hobt_instruments::{WaitCounters, WaitType, schedule};
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::runtime::{Builder, Runtime};

use super::one_thread;
use super::own_thread::for_workers;
use hobt_table::PendingReasons;

thread_local! {
    static WORKER: RefCell<Option<(Weak<Group>, usize)>> = const { RefCell::new(None) };
    static COUNTERS: RefCell<Option<StatementCountersGuard>> = const { RefCell::new(None) };
    static WATCH: RefCell<Option<WatchGuard>> = const { RefCell::new(None) };
    static GENERATION: Cell<u64> = const { Cell::new(0) };
    /// This thread's total of waits at its last wake-up.
    static WAITED_BEFORE: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// The times of the workers of one plan.
#[derive(Clone, Debug, Default)]
pub struct WorkerReport {
    /// For each worker.
    times: Vec<WorkerTime>,
    /// From the start to the end of the plan.
    elapsed: Duration,
}

impl WorkerReport {
    /// Processor time of all workers.
    pub fn cpu_total(&self) -> Duration {
        self.times.iter().map(|time| time.cpu).sum()
    }

    /// How many workers there were.
    pub fn workers(&self) -> usize {
        self.times.len()
    }

    /// Workers × elapsed: the sum of the workers' processor time, waits and unexplained time.
    pub fn time_total(&self) -> Duration {
        self.elapsed * u32::try_from(self.times.len()).unwrap_or(u32::MAX)
    }

    /// The rest of workers × elapsed after processor time, waits and the run queue.
    fn unexplained(&self) -> Duration {
        self.times.iter().map(|time| self.elapsed.saturating_sub(time.explained())).sum()
    }
}

/// The parts of one worker's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct WorkerTime {
    cpu: Duration,
    parked: Duration,
    /// Waits that the worker recorded itself.
    waited: Duration,
    /// Ready to run but not running.
    run_queue: Duration,
}

impl WorkerTime {
    /// A worker's times in `elapsed`, by its counters.
    fn of(elapsed: Duration, cpu: Duration, parked: Duration, waited: Duration, queue: Duration) -> WorkerTime {
        // The scheduler's delay after a wake-up is already part of the wait. Only time that is neither wait nor
        // processor time can be delay of a worker that was ready to continue.
        let run_queue = queue.min(elapsed.saturating_sub(cpu + parked + waited));
        WorkerTime { cpu, parked, waited, run_queue }
    }

    fn explained(&self) -> Duration {
        self.cpu + self.parked + self.waited + self.run_queue
    }
}

#[derive(Debug, Default)]
struct Worker {
    /// The time on the group's clock, in nanoseconds, since which the worker is parked; 0 while it runs.
    parked_since: AtomicU64,
    parked_ns: AtomicU64,
    /// Waits that the worker recorded itself while it was not parked.
    waited_ns: AtomicU64,
    cpu_ns: AtomicU64,
    /// Read when a statement begins and ends, by the statement's thread.
    run_queue: OnceLock<RunQueueClock>,
}

#[derive(Debug, Default)]
struct Idle {
    parked: usize,
}

/// The statement that a group's workers work for.
#[derive(Debug)]
struct Statement {
    counters: Arc<WaitCounters>,
    pending: Arc<PendingReasons>,
    /// The watch of the thread that runs the statement.
    watch: Option<Arc<dyn Watch>>,
}

#[derive(Debug)]
struct Group {
    clock: Instant,
    workers: Vec<Worker>,
    next_worker: AtomicUsize,
    /// Rises with every statement, so that a worker notices that its counters are another statement's.
    generation: AtomicU64,
    statement: Mutex<Option<Statement>>,
    started_ns: AtomicU64,
    idle: Mutex<Idle>,
    all_idle: Condvar,
}

impl Group {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    fn reason(&self) -> Option<WaitType> {
        let statement = self.statement.lock();
        let for_work = if self.workers.len() > 1 { WaitType::CxPacket } else { WaitType::CxConsumer };
        Some(statement.as_ref()?.pending.wait_type().unwrap_or(for_work))
    }

    fn park(&self, index: usize) {
        let worker = &self.workers[index];
        worker.cpu_ns.store(nanos(processor::thread_cpu_time()), Ordering::Relaxed);
        worker.waited_ns.fetch_add(nanos(waits::of_this_thread() - WAITED_BEFORE.get()), Ordering::Relaxed);
        let now = self.now_ns();
        if hobt_instruments::accounting() {
            worker.parked_since.store(now, Ordering::Release);
        }
        let mut idle = self.idle.lock();
        idle.parked += 1;
        if idle.parked == self.workers.len() {
            self.all_idle.notify_all();
        }
    }

    fn unpark(&self, index: usize) {
        self.idle.lock().parked -= 1;
        let worker = &self.workers[index];
        let now = self.now_ns();
        let since = worker.parked_since.swap(0, Ordering::Acquire);
        let generation = self.generation.load(Ordering::Acquire);
        if GENERATION.replace(generation) != generation {
            let statement = self.statement.lock();
            let counters = statement.as_ref().map(|statement| Arc::clone(&statement.counters));
            let watch = statement.as_ref().and_then(|statement| statement.watch.clone());
            drop(statement);
            // The old guard must be dropped before the new one is made: each restores the value that it replaced.
            COUNTERS.with(|guard| drop(guard.borrow_mut().take()));
            COUNTERS.with(|guard| *guard.borrow_mut() = Some(waits::set_statement_counters(counters)));
            WATCH.with(|guard| drop(guard.borrow_mut().take()));
            WATCH.with(|guard| *guard.borrow_mut() = Some(set_watch(watch)));
        }
        self.end_park(worker, since, now);
        WAITED_BEFORE.set(waits::of_this_thread());
    }

    /// Records the part of a park that lies within the running statement, in the counters that this thread has set.
    fn end_park(&self, worker: &Worker, since: u64, now: u64) {
        if since == 0 {
            return;
        }
        if let Some(wait_type) = self.reason() {
            let waited = now.saturating_sub(since.max(self.started_ns.load(Ordering::Acquire)));
            worker.parked_ns.fetch_add(waited, Ordering::Relaxed);
            waits::record_of_other(wait_type, Duration::from_nanos(waited), Duration::ZERO);
        }
    }

    fn is_idle(&self) -> bool {
        self.idle.lock().parked == self.workers.len()
    }

    /// Waits until every worker is parked. While the guard is held, no worker can report that it is awake: a worker
    /// that the runtime has woken late records no part of its park while the guard is held.
    fn wait_until_idle(&self) -> MutexGuard<'_, Idle> {
        let mut idle = self.idle.lock();
        while idle.parked < self.workers.len() {
            self.all_idle.wait_for(&mut idle, Duration::from_millis(20));
        }
        idle
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn with_worker(act: impl FnOnce(&Group, usize)) {
    WORKER.with(|worker| {
        if let Some((group, index)) = &*worker.borrow()
            && let Some(group) = group.upgrade()
        {
            act(&group, *index);
        }
    });
}

/// A group of workers with its runtime.
struct Team {
    runtime: Runtime,
    group: Arc<Group>,
}

impl Team {
    fn new(size: usize, affinity: &[usize]) -> Result<Team, SqlError> {
        let group = Arc::new(Group {
            clock: Instant::now(),
            workers: (0..size).map(|_| Worker::default()).collect(),
            next_worker: AtomicUsize::new(0),
            generation: AtomicU64::new(0),
            statement: Mutex::new(None),
            started_ns: AtomicU64::new(0),
            idle: Mutex::default(),
            all_idle: Condvar::new(),
        });
        let advice = if size > 1 { ", or lower MAXDOP" } else { "" };
        let refused = |error: io::Error| errors::THREADS_REFUSED.with([&error, &advice]);
        // One group at a time, so that no other takes the room that was found.
        static STARTING: Mutex<()> = Mutex::new(());
        let _alone = STARTING.lock();
        check_threads(size).map_err(refused)?;
        let joining = Arc::downgrade(&group);
        let affinity = affinity.to_vec();
        let runtime = Builder::new_multi_thread()
            .worker_threads(size)
            .thread_name(WORKER_THREAD)
            .thread_stack_size(STACK_BYTES)
            .on_thread_start(move || {
                let Some(group) = joining.upgrade() else { return };
                let index = group.next_worker.fetch_add(1, Ordering::Relaxed);
                // Threads beyond the workers are the runtime's own, for blocking calls. They are not accounted for.
                if let Some(worker) = group.workers.get(index) {
                    if let Some(clock) = RunQueueClock::of_this_thread() {
                        let _the_first = worker.run_queue.set(clock);
                    }
                    WORKER.with(|worker| *worker.borrow_mut() = Some((Weak::clone(&joining), index)));
                    if !affinity.is_empty() {
                        // A processor that went offline is no reason to reject a query.
                        let _stays_unbound = processor::set_thread_affinity(&affinity);
                    }
                }
            })
            .on_thread_park(|| with_worker(|group, index| group.park(index)))
            .on_thread_unpark(|| with_worker(|group, index| group.unpark(index)))
            .build()
            .map_err(refused)?;
        Ok(Team { runtime, group })
    }
}

/// Starts more threads than a group has, each with room for its heap, and ends them: tokio's runtime hangs where the
/// system refuses one of its threads, because it waits for those that it has started, which wait for work.
fn check_threads(count: usize) -> io::Result<()> {
    /// For what the runtime itself takes.
    const SPARE_THREADS: usize = 2;
    /// The allocator takes addresses for a thread at its first allocation, and to align them twice as many.
    const HEAP_BYTES: usize = 32 << 20;
    let gate = Mutex::new(());
    let (told, answers) = mpsc::channel();
    std::thread::scope(|scope| {
        // Until all have what they need, none ends.
        let _closed = gate.lock();
        for _ in 0..count + SPARE_THREADS {
            let (gate, told) = (&gate, told.clone());
            std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, move || {
                let mut heap = Vec::<u8>::new();
                let _nobody_listens_after_a_failure = told.send(heap.try_reserve_exact(HEAP_BYTES));
                drop(gate.lock());
            })?;
        }
        let mut answers = answers.iter().take(count + SPARE_THREADS);
        answers.try_for_each(|answer| answer.map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory)))
    })
}

/// How many workers, and the processors that they are bound to.
type TeamKind = (usize, Vec<usize>);

/// Idle groups by kind, for later statements.
#[derive(Default)]
pub struct WorkerPool {
    idle: Mutex<HashMap<TeamKind, Vec<Team>>>,
}

impl std::fmt::Debug for WorkerPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerPool").finish_non_exhaustive()
    }
}

/// A worker's stack size: expressions as deep as the parser allows are evaluated by recursion. Untouched pages cost
/// nothing.
const STACK_BYTES: usize = 16 << 20;

/// The name of a worker's thread.
pub const WORKER_THREAD: &str = "hobt-worker";

/// How many idle groups of one kind are kept.
const KEPT: usize = 8;

impl WorkerPool {
    /// Runs `drive` with `size` workers bound to the processors `affinity` (none: unbound). `drive` gets a handle to
    /// spawn on. It blocks this thread until the work is done, and all tasks that it spawned must have ended by then.
    ///
    /// # Errors
    /// Threads cannot be started, or the error of `drive`.
    pub fn run<T>(
        &self,
        size: usize,
        affinity: &[usize],
        counters: &Arc<WaitCounters>,
        pending: &Arc<PendingReasons>,
        drive: impl FnOnce(&tokio::runtime::Handle) -> Result<T, SqlError>,
    ) -> (Result<T, SqlError>, WorkerReport) {
        if schedule::is_actor() {
            return (one_thread::run(drive), WorkerReport::default());
        }
        let key = (size, affinity.to_vec());
        let kept = self.idle.lock().get_mut(&key).and_then(Vec::pop);
        let team = match kept.map_or_else(|| Team::new(size, affinity), Ok) {
            Ok(team) => team,
            Err(error) => return (Err(error), WorkerReport::default()),
        };
        let group = &team.group;
        let _booked_here = waits::set_statement_counters(Some(Arc::clone(counters)));
        let idle = {
            // A new group's threads begin by parking.
            let _starting = (!group.is_idle()).then(|| Wait::begin_working(WaitType::ThreadPool));
            group.wait_until_idle()
        };
        let before = readings(group);
        for worker in &group.workers {
            worker.parked_ns.store(0, Ordering::Relaxed);
            worker.waited_ns.store(0, Ordering::Relaxed);
        }
        *group.statement.lock() =
            Some(Statement { counters: Arc::clone(counters), pending: Arc::clone(pending), watch: current() });
        let started = group.now_ns();
        group.started_ns.store(started, Ordering::Release);
        group.generation.fetch_add(1, Ordering::Release);
        drop(idle);
        let result = drive(team.runtime.handle());
        let idle = if group.is_idle() { group.wait_until_idle() } else { for_workers(|| group.wait_until_idle()) };
        let ended = group.now_ns();
        for worker in &group.workers {
            group.end_park(worker, worker.parked_since.load(Ordering::Acquire), ended);
        }
        *group.statement.lock() = None;
        drop(idle);
        let report = report(group, &before, Duration::from_nanos(ended - started));
        for delay in report.times.iter().map(|time| time.run_queue).filter(|delay| !delay.is_zero()) {
            waits::record_of_other(WaitType::SosSchedulerYield, delay, delay);
        }
        {
            // Recorded for the whole instance only: in a statement's own figures it is the remainder after the named
            // waits.
            let _not_the_statement = waits::set_statement_counters(None);
            waits::record_of_other(WaitType::Unexplained, report.unexplained(), Duration::ZERO);
        }
        let mut idle = self.idle.lock();
        let teams = idle.entry(key).or_default();
        if teams.len() < KEPT {
            teams.push(team);
        } else {
            drop(idle);
            team.runtime.shutdown_background();
        }
        (result, report)
    }
}

/// The clocks of a worker's thread.
#[derive(Clone, Copy)]
struct Clocks {
    cpu: Duration,
    run_queue: Duration,
}

fn readings(group: &Group) -> Vec<Clocks> {
    let clocks = |worker: &Worker| Clocks {
        cpu: Duration::from_nanos(worker.cpu_ns.load(Ordering::Relaxed)),
        run_queue: worker.run_queue.get().and_then(RunQueueClock::read).unwrap_or_default(),
    };
    group.workers.iter().map(clocks).collect()
}

fn report(group: &Group, before: &[Clocks], elapsed: Duration) -> WorkerReport {
    let mut times = Vec::with_capacity(before.len());
    for ((worker, after), before) in group.workers.iter().zip(readings(group)).zip(before) {
        let cpu = after.cpu.saturating_sub(before.cpu);
        let parked = Duration::from_nanos(worker.parked_ns.load(Ordering::Relaxed));
        let waited = Duration::from_nanos(worker.waited_ns.load(Ordering::Relaxed));
        let run_queue = after.run_queue.saturating_sub(before.run_queue);
        times.push(WorkerTime::of(elapsed, cpu, parked, waited, run_queue));
    }
    WorkerReport { times, elapsed }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses processor time; returns how much.
    fn spin() -> Duration {
        let start = processor::thread_cpu_time();
        let used = || processor::thread_cpu_time() - start;
        while used() < Duration::from_millis(1) {
            std::hint::spin_loop();
        }
        used()
    }

    #[test]
    fn every_park_is_booked_once_and_every_worker_accounts_for_what_it_ran() {
        let pool = WorkerPool::default();
        for tasks in (0..4).cycle().take(200) {
            let counters = Arc::new(WaitCounters::new());
            let (result, report) = pool.run(2, &[], &counters, &Arc::default(), |handle| {
                let tasks: Vec<_> = (0..tasks).map(|_| handle.spawn(async { spin() })).collect();
                let used = |task: tokio::task::JoinHandle<Duration>| {
                    handle.block_on(task).map_err(|error| SqlError::internal(error.to_string()))
                };
                tasks.into_iter().map(used).sum::<Result<Duration, SqlError>>()
            });
            let used = result.expect("no error");
            assert!(report.cpu_total() >= used, "{used:?} used, {report:?}");
            for time in &report.times {
                assert!(time.parked <= report.elapsed && time.run_queue <= report.elapsed, "{report:?}");
            }
            let rows = counters.rows();
            // The first statement's own thread waits until the group's threads have started.
            let of_workers = rows.iter().filter(|row| row.wait_type != WaitType::ThreadPool);
            let booked = Duration::from_nanos(of_workers.map(|row| row.wait_time_ns).sum());
            let named: Duration = report.times.iter().map(|time| time.parked + time.run_queue).sum();
            assert_eq!(booked, named, "{report:?}");
            // Each worker parked at least once, at the end, because it had no work.
            let parks = rows.iter().find(|row| row.wait_type == WaitType::CxPacket).expect("both were parked");
            assert!(parks.waiting_tasks_count >= 2, "{parks:?}");
        }
    }

    #[test]
    fn no_time_of_a_worker_is_counted_twice() {
        let us = Duration::from_micros;
        let unexplained = |elapsed, time| WorkerReport { times: vec![time], elapsed }.unexplained();
        let time = WorkerTime::of(us(100), us(40), us(20), us(25), us(10));
        assert_eq!(time, WorkerTime { cpu: us(40), parked: us(20), waited: us(25), run_queue: us(10) });
        assert_eq!(unexplained(us(100), time), us(5));
        // After the wake-up from a wait the worker was on the run queue; that time is part of the wait.
        let time = WorkerTime::of(us(100), us(40), us(20), us(35), us(10));
        assert_eq!(time, WorkerTime { cpu: us(40), parked: us(20), waited: us(35), run_queue: us(5) });
        assert_eq!(unexplained(us(100), time), us(0));
        // The worker spun before it slept, so its processor time and its wait overlap.
        let time = WorkerTime::of(us(100), us(70), us(20), us(15), us(1));
        assert_eq!(time, WorkerTime { cpu: us(70), parked: us(20), waited: us(15), run_queue: us(0) });
        assert_eq!(unexplained(us(100), time), us(0));
    }

    #[test]
    fn what_a_worker_booked_itself_is_its_wait_and_no_park_is() {
        const WAITS: u64 = 5;
        let pool = WorkerPool::default();
        let wait = Duration::from_nanos(1);
        for tasks in (0..WAITS).cycle().take(50) {
            let counters = Arc::new(WaitCounters::new());
            let (result, report) = pool.run(1, &[], &counters, &Arc::default(), |handle| {
                let task = handle.spawn(async move {
                    for _ in 0..tasks {
                        waits::record(WaitType::LatchSh, wait, Duration::ZERO);
                        // Here the worker parks.
                        let (sender, receiver) = tokio::sync::oneshot::channel();
                        std::thread::spawn(move || sender.send(()));
                        assert_eq!(receiver.await, Ok(()));
                    }
                });
                handle.block_on(task).map_err(|error| SqlError::internal(error.to_string()))
            });
            result.expect("no error");
            assert_eq!(report.times[0].waited, wait * u32::try_from(tasks).expect("few"), "{report:?}");
        }
    }
}
