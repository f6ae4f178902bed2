//! The simulator of concurrent sessions. One seed decides what several sessions do in T-SQL, which of them continues at
//! each point where a thread may lose the processor, and when the power fails. Then it checks what each session may
//! have seen, and what is there afterwards.
//!
//! ```text
//!   seed ──► scripts (script.rs) ──► sessions ─┐   schedule (hobt_instruments::schedule)
//!                                  checkpoints ─┼──► one instance on a simulated disk ──✂──► start, recovery
//!                                  definitions ─┘            │                                   │
//!                                                 history (history.rs) ──► judge (judge.rs) ◄────┘
//! ```
//!
//! * Each read is checked against the guarantees of its level: committed values of one moment (READ COMMITTED with
//!   versions, SNAPSHOT), rows that stay (REPEATABLE READ), and no others that appear (SERIALIZABLE).
//! * Each change reports what it found in its row, so lost updates and writes over uncommitted rows are detected.
//! * After each life, with a power failure or without, the tables contain what was committed, complete transactions of
//!   those that were in progress, and nothing else. Indexes agree with the tables, `DBCC CHECKDB` finds nothing, and
//!   every database is there.
//!
//! The interpreter, the planner, locks, versions, the log, the buffer pool and recovery are those of the product. The
//! disk is [`hobt_disk::SimulatedDisk`]. Statements run on their session's own thread. A failure is reduced to the
//! statements that it needs ([`shrink`]).
//!
//! Not here: faults of the disk, and scripts of many more definitions, one after the other (crate `hobt-sim`); parallel
//! plans; real devices and threads (the tests of crate `cli`). Memory models weaker than one step at a time are not
//! tried: the model checks do that (`hobt-instruments`, `hobt-txn`).

mod chance;
mod history;
mod judge;
mod others;
mod script;
mod session;
mod tables;
mod world;

pub use hobt_sim::failure::{self, Failure};

/// The parameters of a simulation.
#[derive(Clone, Debug)]
pub struct Options {
    /// Sessions that run transactions.
    pub sessions: u64,
    /// The maximum number of transactions of a session in one life.
    pub transactions: u64,
    /// The maximum number of lives of the instance.
    pub lives: u64,
    /// Whether the power fails.
    pub crashes: bool,
    /// Whether logs and the disk have little room, and all of it is in use for a while.
    pub fills_up: bool,
    /// Whether what was run is kept for the text of a failure.
    pub keeps_log: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { sessions: 4, transactions: 4, lives: 3, crashes: true, fills_up: false, keeps_log: false }
    }
}

/// The results of a simulation.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Report {
    /// A checksum of everything that happened: equal for equal seeds.
    pub trace: u64,
    /// Points where another actor could have continued.
    pub points: u64,
    /// How often another actor did.
    pub switches: u64,
    /// Batches.
    pub statements: u64,
    /// Transactions that committed.
    pub commits: u64,
    /// Transactions in progress when the power failed.
    pub doubtful: u64,
    /// Reads that were checked.
    pub reads: u64,
    /// Changes of rows that were checked.
    pub writes: u64,
    /// Deadlock victims.
    pub deadlocks: u64,
    /// Snapshot conflicts.
    pub conflicts: u64,
    /// Statements that found no room in the log or on the disk.
    pub full: u64,
    /// Starts of the instance.
    pub starts: u64,
    /// Power failures while sessions ran.
    pub crashes: u64,
    /// Power failures while the instance started.
    pub crashes_in_recovery: u64,
}

impl Report {
    /// Adds the counts of another report; the trace is not changed.
    pub fn add(&mut self, other: &Report) {
        let Report { trace: _, points, switches, statements, commits, doubtful, reads, writes, deadlocks, .. } = *other;
        self.points += points;
        self.switches += switches;
        self.statements += statements;
        self.commits += commits;
        self.doubtful += doubtful;
        self.reads += reads;
        self.writes += writes;
        self.deadlocks += deadlocks;
        self.conflicts += other.conflicts;
        self.full += other.full;
        self.starts += other.starts;
        self.crashes += other.crashes;
        self.crashes_in_recovery += other.crashes_in_recovery;
    }
}

/// Runs the world of a seed.
///
/// # Errors
/// A violation was found; a panic counts as one.
pub fn simulate(seed: u64, options: &Options) -> Result<Report, Failure> {
    let cast = world::Cast::draw(seed, options);
    run(seed, options, &cast)
}

fn run(seed: u64, options: &Options, cast: &world::Cast) -> Result<Report, Failure> {
    hobt_instruments::schedule::pretend_processors(PROCESSORS);
    let bug = hobt_instruments::planted::planted();
    let live = || {
        let _planted = hobt_instruments::planted::plant(bug);
        chance::draw_from(seed);
        let mut world = world::World::new(seed, options, cast);
        let outcome = failure::caught(|| world.run());
        outcome.map_err(|text| Failure { seed, text, log: world.take_log() })
    };
    // A thread of its own, so that no thread state of an earlier world is there.
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
        let thread = builder.spawn_scoped(scope, live).expect("the system has threads");
        thread.join().expect("panics are caught")
    })
}

/// The number of processors in the worlds: how counters are divided, and so what happens, depends on it.
const PROCESSORS: usize = 2;

/// A world's thread runs whole statements, as its actors do.
const STACK_BYTES: usize = 16 << 20;

/// Reduces the scripts of a failing seed for as long as they fail. Returns what is left, and the number of tries. A
/// failure other than the first one counts as well.
pub fn shrink(seed: u64, options: &Options, tries_max: u64) -> Option<(Failure, u64)> {
    let mut cast = world::Cast::draw(seed, options);
    let quiet = Options { keeps_log: false, ..options.clone() };
    let mut tries = 0;
    let mut fails = |cast: &world::Cast| {
        tries += 1;
        run(seed, &quiet, cast).is_err()
    };
    if !fails(&cast) {
        return None;
    }
    let mut has_shrunk = true;
    let mut spent = 0;
    while has_shrunk && spent < tries_max {
        has_shrunk = false;
        for cut in cast.cuts() {
            spent += 1;
            if spent >= tries_max {
                break;
            }
            if let Some(smaller) = cast.without(&cut)
                && fails(&smaller)
            {
                cast = smaller;
                has_shrunk = true;
            }
        }
    }
    let loud = Options { keeps_log: true, ..options.clone() };
    run(seed, &loud, &cast).err().map(|failure| (failure, tries))
}
