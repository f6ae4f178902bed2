//! The simulator of sessions beside each other: one seed decides what several sessions do in T-SQL, which of them goes
//! on at each place where a thread may lose the processor, and when the power fails; then it is checked what each of
//! them may have seen, and what is there afterwards.
//!
//! ```text
//!   seed ──► scripts (script.rs) ──► sessions ─┐   schedule (hobt_sync::schedule)
//!                                  checkpoints ─┼──► one instance on a simulated disk ──✂──► start, recovery
//!                                  definitions ─┘            │                                   │
//!                                                 history (history.rs) ──► judge (judge.rs) ◄────┘
//! ```
//!
//! * Each read is held against what its level promises: committed values of one moment (READ COMMITTED with versions,
//!   SNAPSHOT), rows that stay (REPEATABLE READ), and no others that come (SERIALIZABLE).
//! * Each change says what it found in its row, so lost updates and writes over uncommitted rows show.
//! * After each life, with a power failure or without, the tables hold what was committed, whole transactions of what
//!   was under way, and nothing else; indexes agree with them, `DBCC CHECKDB` finds nothing, every database is there.
//!
//! The interpreter, the planner, locks, versions, the log, the buffer pool and recovery are those of the product; the
//! disk is [`hobt_disk::SimulatedDisk`]. Statements run on their session's own thread. A failure is cut down to the
//! statements that it needs ([`shrink`]).
//!
//! Leaves to others: faults of the disk, and scripts of many more definitions, one after the other (crate `hobt-sim`);
//! parallel plans; real devices and threads (the tests of crate `hobt`). Memory models weaker than one step at a time
//! are not tried: those are the model checks' (`hobt-sync`, `hobt-txn`).

mod chance;
mod history;
mod judge;
mod others;
mod script;
mod session;
mod tables;
mod world;

pub use hobt_sim::failure::{self, Failure};

/// What a simulation is like.
#[derive(Clone, Debug)]
pub struct Options {
    /// Sessions that run transactions.
    pub sessions: u64,
    /// Transactions of a session in one life, at most.
    pub transactions: u64,
    /// Lives of the instance, at most.
    pub lives: u64,
    /// Whether the power fails.
    pub crashes: bool,
    /// Whether logs and the disk have little room, and all of it is taken for a while.
    pub fills_up: bool,
    /// Whether what was run is kept for a failure's text.
    pub keeps_log: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { sessions: 4, transactions: 4, lives: 3, crashes: true, fills_up: false, keeps_log: false }
    }
}

/// What a simulation did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Report {
    /// A sum over all that happened: equal for equal seeds.
    pub trace: u64,
    /// Places where another actor could have gone on.
    pub points: u64,
    /// How often another one did.
    pub switches: u64,
    /// Batches.
    pub statements: u64,
    /// Transactions that committed.
    pub commits: u64,
    /// Those that were under way when the power failed.
    pub doubtful: u64,
    /// Reads that were judged.
    pub reads: u64,
    /// Changes of rows that were judged.
    pub writes: u64,
    /// Deadlocks' victims.
    pub deadlocks: u64,
    /// Conflicts of snapshots.
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
    /// Adds another's counts; the trace stays.
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
/// What must not be was found; a panic is one of these things.
pub fn simulate(seed: u64, options: &Options) -> Result<Report, Failure> {
    let cast = world::Cast::draw(seed, options);
    run(seed, options, &cast)
}

fn run(seed: u64, options: &Options, cast: &world::Cast) -> Result<Report, Failure> {
    hobt_sync::schedule::pretend_processors(PROCESSORS);
    let bug = hobt_sync::planted::planted();
    let live = || {
        let _planted = hobt_sync::planted::plant(bug);
        chance::draw_from(seed);
        let mut world = world::World::new(seed, options, cast);
        let outcome = failure::caught(|| world.run());
        outcome.map_err(|text| Failure { seed, text, log: world.take_log() })
    };
    // A thread of its own, so that nothing that an earlier world has left to its thread is there.
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
        let thread = builder.spawn_scoped(scope, live).expect("the system has threads");
        thread.join().expect("panics are caught")
    })
}

/// What a machine of the worlds has: how counters are divided, and so what happens, depends on it.
const PROCESSORS: usize = 2;

/// A world's thread runs whole statements, as its actors do.
const STACK_BYTES: usize = 16 << 20;

/// Cuts the scripts of a seed that fails down, as long as they fail; what is left, and how often it was tried. Another
/// failure than the first counts as well.
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
