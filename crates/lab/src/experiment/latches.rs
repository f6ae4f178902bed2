//! `latches`: the cost of a latch, a spinlock and an atomic counter, alone and with a growing number of threads.
//!
//! Each thread adds to one number, all equally often. Waits are counted where the engine counts them: the latch under
//! `TRACE_CONTROLLER`, the spinlock under `MUTEX`, which nothing else uses. The views must be consistent: the classes
//! of `sys.dm_os_latch_stats` except `BUFFER` must add up to the waits for `LATCH_SH` and `LATCH_EX`.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use hobt_instruments::{Counter, Latch, LatchClass, Spinlock, SpinlockName};
use serde_json::{Map, json};

use super::Experiment;
use super::together::{Counted, Counters, longest_wait};
use crate::error::{LabError, Result};
use crate::figures::{amount, median, thousands};
use crate::laboratory::Laboratory;
use crate::limits::LimitSettings;
use crate::report::{Case, Grid, Mark, Report, too_short};

pub(super) struct LatchesExperiment;

/// Additions per case, over all threads, if not specified.
const WANTED_ADDITIONS: u64 = 4_000_000;
/// More threads than processors show how a preempted holder affects the waiters.
const THREADS_MIN: usize = 4;
/// In `latch_shared`, one in this many calls adds. The others read.
const READS_FOR_A_WRITE: u64 = 100;

/// The number that threads add to, once for each guard.
struct Numbers {
    latch: Latch<u64>,
    spinlock: Spinlock<u64>,
    atomic: AtomicU64,
    sharded: Counter,
}

impl Numbers {
    fn new() -> Numbers {
        Numbers {
            latch: Latch::new(LatchClass::TraceController, 0),
            spinlock: Spinlock::new(SpinlockName::Mutex, 0),
            atomic: AtomicU64::new(0),
            sharded: Counter::new(),
        }
    }
}

/// The guard of the number.
struct Guard {
    name: &'static str,
    what: &'static str,
    /// One call. The argument is its index within the thread.
    add: fn(&Numbers, u64),
    /// The sum of what was added.
    sum: fn(&Numbers) -> u64,
    /// How many of a number of calls add.
    additions: fn(u64) -> u64,
}

const GUARDS: [Guard; 5] = [
    Guard {
        name: "latch",
        what: "a latch, exclusive",
        add: |numbers, _| *numbers.latch.write() += 1,
        sum: |numbers| *numbers.latch.read(),
        additions: |calls| calls,
    },
    Guard {
        name: "latch_shared",
        what: "a latch, shared, and exclusive every 100th time",
        add: |numbers, at| {
            if at.is_multiple_of(READS_FOR_A_WRITE) {
                *numbers.latch.write() += 1;
            } else {
                black_box(*numbers.latch.read());
            }
        },
        sum: |numbers| *numbers.latch.read(),
        additions: |calls| calls.div_ceil(READS_FOR_A_WRITE),
    },
    Guard {
        name: "spinlock",
        what: "a spinlock",
        add: |numbers, _| *numbers.spinlock.lock() += 1,
        sum: |numbers| *numbers.spinlock.lock(),
        additions: |calls| calls,
    },
    Guard {
        name: "atomic",
        what: "an atomic addition",
        add: |numbers, _| {
            numbers.atomic.fetch_add(1, Relaxed);
        },
        sum: |numbers| numbers.atomic.load(Relaxed),
        additions: |calls| calls,
    },
    Guard {
        name: "sharded_counter",
        what: "a counter with a cache line for each processor",
        add: |numbers, _| numbers.sharded.add(1),
        sum: |numbers| numbers.sharded.sum(),
        additions: |calls| calls,
    },
];

impl Experiment for LatchesExperiment {
    fn name(&self) -> &'static str {
        "latches"
    }

    fn question(&self) -> &'static str {
        "What do a latch, a spinlock and an atomic counter cost under ever more threads, and do the views count it?"
    }

    fn run(&self, lab: &mut Laboratory) -> Result<Report> {
        let additions = lab.options().rows.unwrap_or(WANTED_ADDITIONS).max(1);
        let repeat = lab.options().repeat.max(1);
        let processors = hobt_instruments::processor::processor_count();
        let threads: Vec<usize> = (1..=processors.max(THREADS_MIN)).collect();
        let of_all = || GUARDS.iter().flat_map(|guard| threads.iter().map(move |&threads| (guard, threads)));
        let count = of_all().count();
        lab.progress().expect(LimitSettings::steps_beside() + (count * repeat) as u64);
        let limits = lab.limits(0)?;
        let mut cases: Vec<Case> = of_all()
            .map(|(guard, threads)| Case {
                rows: additions,
                ..Case::new(format!("{}_{threads}", guard.name), format!("{}, {threads} threads", guard.what))
            })
            .collect();
        let before = Counters::now(lab)?;
        for repetition in 0..repeat {
            for ((guard, threads), case) in of_all().zip(&mut cases) {
                lab.progress().step(&format!("{}, {} of {repeat}", case.name, repetition + 1));
                run_case(lab, guard, threads, additions, case)?;
            }
        }
        let all = before.since(lab)?;
        let mut settings = Map::new();
        settings.insert("additions".to_owned(), json!(additions));
        settings.insert("repeat".to_owned(), json!(repeat));
        let (of_latches, of_waits) = latch_milliseconds(&all);
        settings.insert("dm_os_latch_stats_ms".to_owned(), json!(of_latches));
        settings.insert("latch_wait_types_ms".to_owned(), json!(of_waits));
        Ok(Report {
            marks: marks(&cases, of_latches, of_waits, additions),
            tables: vec![grid(&cases)],
            cases,
            notes: vec![
                "an atomic addition neither waits nor spins: no view can show it".to_owned(),
                format!(
                    "{processors} processors: with more threads, the holder that a thread waits for may not be running"
                ),
            ],
            ..self.report(lab, limits, settings)
        })
    }
}

fn run_case(lab: &Laboratory, guard: &Guard, threads: usize, additions: u64, case: &mut Case) -> Result<()> {
    let numbers = Numbers::new();
    let each = (additions / threads as u64).max(1);
    let before = Counters::now(lab)?;
    let ready = Barrier::new(threads);
    let since = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    ready.wait();
                    let since = Instant::now();
                    (0..each).for_each(|at| (guard.add)(&numbers, at));
                    since
                })
            })
            .collect();
        let begun = running.into_iter().map(|thread| thread.join().expect("adding does not panic"));
        begun.min().expect("one thread at least")
    });
    let elapsed = since.elapsed();
    let counted = before.since(lab)?;
    let (found, wanted) = ((guard.sum)(&numbers), (guard.additions)(each) * threads as u64);
    if found != wanted {
        return Err(LabError::Wrong(format!("{} counted {found} of {wanted} additions", case.name)));
    }
    let operations = (each * threads as u64) as f64;
    case.push("ns_per_operation", elapsed.as_nanos() as f64 / operations);
    case.push("operations_per_s", operations / elapsed.as_secs_f64().max(1e-9));
    let class = LatchClass::TraceController.name();
    case.push("waits", counted.latch_waits.get(class).copied().unwrap_or(0) as f64);
    let [collisions, _, _] = counted.spinlocks.get(SpinlockName::Mutex.name()).copied().unwrap_or_default();
    case.push("collisions", collisions as f64);
    counted.put_into(case);
    Ok(())
}

/// Milliseconds of the latch classes other than buffers, and of the wait types that they must add up to.
fn latch_milliseconds(counted: &Counted) -> (f64, f64) {
    let of_classes = counted.latch_waits_ms.iter().filter(|(class, _)| **class != LatchClass::Buffer.name());
    let of_types = counted.waits_ms.iter().filter(|(wait, _)| wait.starts_with("LATCH_"));
    (of_classes.map(|(_, time)| time).sum(), of_types.map(|(_, time)| time).sum())
}

fn marks(cases: &[Case], of_latches: f64, of_waits: f64, additions: u64) -> Vec<Mark> {
    let mut marks = Vec::new();
    // Waits below a tenth of a millisecond are not reported.
    if of_waits > 0.1 {
        marks.push(Mark {
            name: "latch classes but BUFFER over LATCH_ waits, off by percent".to_owned(),
            value: (of_latches / of_waits - 1.0).abs() * 100.0,
            bound: 1.0,
            at_least: false,
            of: None,
            too_small: too_short(of_waits / 1e3, 0.01),
            interval: None,
        });
    }
    let one = |name: &str| cases.iter().find(|case| case.name == name).and_then(|case| case.median("ns_per_operation"));
    if let (Some(latch), Some(atomic)) = (one("latch_1"), one("atomic_1")) {
        let values = [latch / atomic];
        marks.extend(median(&values).map(|value| Mark {
            name: "a latch that nobody holds over an atomic addition".to_owned(),
            value,
            bound: 5.0,
            at_least: false,
            of: None,
            too_small: (additions < 100_000).then(|| format!("{} operations, needs 100,000", thousands(additions))),
            interval: None,
        }));
    }
    marks
}

fn grid(cases: &[Case]) -> Grid {
    let headers =
        ["case", "ns/operation", "operations/s", "waits", "collisions", "spins", "back-offs", "waits most for"];
    let mut grid = Grid::new("One number, by what guards it and how many threads add to it", &headers);
    grid.least_wanted = vec![2, 4];
    for case in cases {
        let figure = |key: &str| case.median(key).unwrap_or(0.0);
        let whole = |key: &str| thousands(figure(key).round() as u64);
        grid.rows.push(vec![
            case.name.clone(),
            amount(figure("ns_per_operation")),
            whole("operations_per_s"),
            whole("waits"),
            whole("collisions"),
            whole("spins"),
            whole("backoffs"),
            longest_wait(case),
        ]);
    }
    grid
}
