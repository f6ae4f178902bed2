//! The lives of an instance: it starts, is checked, runs the script, and dies.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use hobt_base::SplitMix64;
use hobt_catalog::Growth;
use hobt_disk::{Disk, Operation, SimulatedConfig, SimulatedDisk};
use hobt_engine::{
    DatabaseDefinition, DatabaseUse, DelayedDurability, EngineError, FileDefinition, Instance, InstanceSettings,
    RecoveryModel,
};
use hobt_txn::{Savepoint, Transaction};

use crate::check::{CheckError, allocation, contents};
use crate::model::{Delayed, Objects, State, Truth, settle};
use crate::{Options, Report};

/// Kinds of operations that can fail.
pub const OPERATIONS: [Operation; 7] = [
    Operation::Open,
    Operation::Read,
    Operation::Write,
    Operation::Sync,
    Operation::SetSize,
    Operation::Remove,
    Operation::Directory,
];

const FOLDER: &str = "/sim";
/// The databases that the script works in.
pub(crate) const DATABASES: [&str; 2] = ["alpha", "beta"];
const SESSIONS: usize = 3;
const EVENTS_MAX: usize = 60;
/// The number of disk errors after which the instance is stopped.
const ERRORS_MAX: u64 = 6;
const POOL_BYTES: [u64; 4] = [16 * 8192, 24 * 8192, 64 * 8192, 1 << 20];

/// Why a life ended.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The power failed.
    Crash,
    /// An operation failed as requested, and the instance cannot continue.
    Error,
    /// A violation.
    Bug(String),
}

pub(crate) type Step<T> = Result<T, Stop>;

/// A session, which owns tables and may have an open transaction.
pub(crate) struct Session {
    pub(crate) truth: Truth,
    pub(crate) open: Option<Open>,
}

/// An open transaction of several statements.
pub(crate) struct Open {
    pub(crate) transaction: Arc<Transaction>,
    pub(crate) working: State,
    pub(crate) savepoints: Vec<(Savepoint, State)>,
}

/// The databases other than the two, which the script creates and drops.
#[derive(Default)]
pub(crate) struct Others {
    pub(crate) listed: BTreeSet<String>,
    /// A database that was being created or dropped.
    pub(crate) doubtful: Option<String>,
    pub(crate) made: u32,
}

pub(crate) struct Simulation {
    pub(crate) options: Options,
    pub(crate) disk: Arc<SimulatedDisk>,
    pub(crate) random: SplitMix64,
    pub(crate) instance: Option<Arc<Instance>>,
    pub(crate) sessions: Vec<Session>,
    /// For each database the commits that were acknowledged and may not be durable yet, in order.
    pub(crate) delayed: Vec<Vec<Delayed>>,
    /// For each database, whether commits may return before they are durable.
    pub(crate) durability: [DelayedDurability; DATABASES.len()],
    pub(crate) others: Others,
    pub(crate) next_key: i32,
    pub(crate) files_added: u32,
    pub(crate) log_files_added: u32,
    pub(crate) sequences_made: u32,
    /// The last value taken of each sequence whose creation is committed.
    pub(crate) sequence_values: BTreeMap<String, i128>,
    pub(crate) report: Report,
    settings: InstanceSettings,
    events: VecDeque<String>,
    /// Whether the engine has reported an error since it was started.
    has_failed: bool,
}

/// A small file that grows in small steps.
pub(crate) fn small_file(name: &str) -> FileDefinition {
    FileDefinition {
        name: Some(name.to_owned()),
        size_pages: Some(256),
        growth: Some(Growth::Pages(64)),
        ..FileDefinition::default()
    }
}

/// The smallest log, which grows by one segment.
pub(crate) fn small_log(database: &str) -> FileDefinition {
    FileDefinition {
        name: Some(format!("{database}_log")),
        size_pages: Some(512),
        growth: Some(Growth::Pages(128)),
        ..FileDefinition::default()
    }
}

impl Simulation {
    pub(crate) fn new(seed: u64, options: &Options) -> Simulation {
        let mut random = SplitMix64::new(seed);
        let disk = SimulatedDisk::start(SimulatedConfig::default()).expect("a disk in memory without a device");
        let pool_bytes = POOL_BYTES[usize::try_from(random.below(POOL_BYTES.len() as u64)).expect("small")];
        let settings = InstanceSettings {
            memory_bytes: Some(64 << 20),
            pool_bytes: Some(pool_bytes),
            log_ring_bytes: Some(1 << 20),
            checkpoints_by_hand: true,
            undo_behind_from_bytes: Some(if options.undoes_behind { 0 } else { u64::MAX }),
            ..InstanceSettings::default()
        };
        Simulation {
            options: options.clone(),
            disk,
            random,
            instance: None,
            sessions: (0..SESSIONS).map(|_| Session { truth: Truth::new(DATABASES.len()), open: None }).collect(),
            delayed: DATABASES.map(|_| Vec::new()).into(),
            durability: DATABASES.map(|_| DelayedDurability::Disabled),
            others: Others::default(),
            next_key: 1,
            files_added: 0,
            log_files_added: 0,
            sequences_made: 0,
            sequence_values: BTreeMap::new(),
            report: Report::default(),
            settings,
            events: VecDeque::new(),
            has_failed: false,
        }
    }

    pub(crate) fn take_events(&mut self) -> Vec<String> {
        self.events.drain(..).collect()
    }

    pub(crate) fn note(&mut self, text: String) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(format!("[{}] {text}", self.disk.changes()));
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.random.below(bound as u64)).expect("below a usize")
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.random.below(100) < percent
    }

    /// Classifies an error of the engine.
    pub(crate) fn stop(&mut self, what: &str, error: &EngineError) -> Stop {
        if self.disk.is_off() {
            return Stop::Crash;
        }
        self.note(format!("{what}: {error}"));
        self.has_failed = true;
        if self.options.faults.is_empty() { Stop::Bug(format!("{what}: {error}")) } else { Stop::Error }
    }

    pub(crate) fn instance(&self) -> Arc<Instance> {
        Arc::clone(self.instance.as_ref().expect("a life has an instance"))
    }

    pub(crate) fn database(&mut self, index: usize) -> Step<DatabaseUse> {
        let database = self.instance().database(DATABASES[index]);
        database.map_err(|error| self.stop("USE", &error))
    }

    /// All lives of the instance.
    pub(crate) fn run(&mut self) -> Result<Report, String> {
        self.begin_world().map_err(|stop| format!("the first start: {stop:?}"))?;
        let before = OPERATIONS.map(|operation| self.disk.operations(operation));
        let faults = self.options.faults.iter().chain(&self.options.lies);
        faults.cloned().for_each(|fault| self.disk.inject(fault));
        let lives = 1 + self.random.below(self.options.lives.max(1));
        for life in 0..lives {
            self.note(format!("life {life}"));
            self.cut_power_within(&[15, 80, 400, 2000]);
            let ended = match self.live() {
                Ok(()) => self.end_of_life(),
                Err(stop) => Err(stop),
            };
            self.count_operations(before);
            match ended {
                Ok(()) | Err(Stop::Error) => {}
                Err(Stop::Crash) => {
                    self.note("the power failed".to_owned());
                    self.report.crashes += 1;
                }
                Err(Stop::Bug(text)) => return Err(text),
            }
            self.die();
            if !self.options.faults.is_empty() {
                self.disk.clear_faults();
            }
            self.start_again()?;
        }
        self.rest()
    }

    /// Closes the last life, and checks once more.
    fn rest(&mut self) -> Result<Report, String> {
        self.disk.power_on();
        self.end_transactions().map_err(|stop| format!("at the end: {stop:?}"))?;
        self.instance().close().map_err(|error| format!("the last close: {error}"))?;
        self.die();
        self.start().map_err(|stop| format!("the last start: {stop:?}"))?;
        self.die();
        let counts = [self.report.commits, self.report.rows_checked, self.report.statements, self.report.errors];
        self.report.trace = counts.iter().fold(self.disk.trace(), |sum, count| sum.rotate_left(9) ^ count);
        Ok(self.report)
    }

    fn count_operations(&mut self, before: [u64; OPERATIONS.len()]) {
        for (at, operation) in OPERATIONS.into_iter().enumerate() {
            self.report.operations[at] = self.disk.operations(operation) - before[at];
        }
    }

    /// Creates the instance and its databases, without faults.
    fn begin_world(&mut self) -> Step<()> {
        self.open_instance()?;
        for name in DATABASES {
            let definition = DatabaseDefinition {
                name: name.to_owned(),
                primary: vec![small_file(name)],
                log: vec![small_log(name)],
                ..DatabaseDefinition::default()
            };
            let made = self.instance().create_database(&definition);
            made.map_err(|error| self.stop("CREATE DATABASE", &error))?;
        }
        for index in 0..DATABASES.len() {
            let delays = DelayedDurability::ALL[self.below(DelayedDurability::ALL.len())];
            let database = self.database(index)?;
            let model = RecoveryModel::ALL[self.below(RecoveryModel::ALL.len())];
            let set = self.instance().set_options(&database, |options| {
                (options.delayed_durability, options.recovery_model) = (delays, model);
            });
            set.map_err(|error| self.stop("ALTER DATABASE", &error))?;
            if self.chance(30) {
                let backed_up = self.instance().database_was_backed_up(&database);
                backed_up.map_err(|error| self.stop("a backup", &error))?;
            }
            self.durability[index] = delays;
        }
        Ok(())
    }

    fn open_instance(&mut self) -> Step<()> {
        let disk: Arc<dyn Disk> = Arc::clone(&self.disk) as Arc<dyn Disk>;
        match Instance::open_on(disk, Path::new(FOLDER), self.settings.clone()) {
            Ok(instance) => {
                self.report.starts += 1;
                if self.options.is_extended {
                    let bytes = 4 * self.settings.pool_bytes.unwrap_or_default().max(512 << 10);
                    // Where the power fails just now, the next operation says so.
                    let _is_no_part_of_the_script = instance.start_buffer_pool_extension(Path::new("x.bpe"), bytes);
                }
                (self.instance, self.has_failed) = (Some(instance), false);
                Ok(())
            }
            Err(error) => Err(self.stop("the start", &error)),
        }
    }

    /// Makes the power fail soon, later, or not in this life.
    fn cut_power_within(&mut self, reaches: &[u64]) {
        if self.options.crashes && self.options.faults.is_empty() {
            let reach = reaches[self.below(reaches.len())];
            let at = self.disk.changes() + 1 + self.random.below(reach);
            let seed = self.random.next_u64();
            self.disk.crash_at(at, seed);
        }
    }

    fn live(&mut self) -> Step<()> {
        let (mut steps, errors) = (0, self.report.errors);
        while steps < self.options.steps && self.report.errors < errors + ERRORS_MAX {
            steps += 1;
            match self.step() {
                Err(Stop::Error) => {
                    self.report.errors += 1;
                    if self.is_stuck() {
                        return Err(Stop::Error);
                    }
                }
                other => other?,
            }
            if self.disk.is_off() {
                return Err(Stop::Crash);
            }
        }
        Ok(())
    }

    /// Whether a commit is in doubt, or a database is unusable: only a new start can tell the outcome.
    fn is_stuck(&self) -> bool {
        self.sessions.iter().any(|session| session.truth.doubtful.is_some())
            || self.others.doubtful.is_some()
            || DATABASES.iter().any(|name| self.instance().database(name).is_err())
    }

    /// The power has not failed in this life: it fails now, or the instance is closed, or dropped without a close.
    fn end_of_life(&mut self) -> Step<()> {
        self.disk.power_on();
        match self.below(3) {
            0 => {
                self.note("closes".to_owned());
                self.end_transactions()?;
                let closed = self.instance().close();
                closed.map_err(|error| self.stop("the close", &error))
            }
            1 if self.options.crashes && self.options.faults.is_empty() => {
                let seed = self.random.next_u64();
                self.disk.crash(seed);
                Err(Stop::Crash)
            }
            _ => {
                self.note("is let go of".to_owned());
                Ok(())
            }
        }
    }

    /// Drops everything in memory.
    fn die(&mut self) {
        for session in &mut self.sessions {
            session.open = None;
        }
        let extension = self.instance.as_ref().and_then(|instance| instance.pool().extension_statistics());
        self.report.pages_from_extension += extension.map_or(0, |extension| extension.pages_read);
        self.instance = None;
    }

    /// Starts until it succeeds, with power failures in between.
    fn start_again(&mut self) -> Result<(), String> {
        for attempt in 0.. {
            self.disk.power_on();
            if attempt < 4 && self.chance(40) {
                self.cut_power_within(&[5, 20, 100]);
            }
            match self.start() {
                Ok(()) => break,
                Err(Stop::Crash) => {
                    self.note("the power failed in recovery".to_owned());
                    self.report.crashes_in_recovery += 1;
                    self.die();
                }
                Err(Stop::Error) => return Err("a start failed without a fault".to_owned()),
                Err(Stop::Bug(text)) => return Err(text),
            }
        }
        self.disk.power_on();
        Ok(())
    }

    /// Starts the instance, recovers its databases and checks their contents.
    fn start(&mut self) -> Step<()> {
        self.note("starts".to_owned());
        // From here on only a crash may make something fail.
        let faults = std::mem::take(&mut self.options.faults);
        let started = self.open_instance().and_then(|()| self.undo_behind()).and_then(|()| self.verify());
        self.options.faults = faults;
        started
    }

    /// Undoes what the last life has left open, with interruptions.
    fn undo_behind(&mut self) -> Step<()> {
        let mut index = 0;
        while self.options.undoes_behind && index < DATABASES.len() {
            let database = self.database(index)?;
            let left = Cell::new(self.random.below(12));
            let goes_on = || {
                let some = left.get() > 0;
                left.set(left.get().saturating_sub(1));
                some
            };
            database.undo_by_hand(&goes_on);
            let is_open = !database.transactions_undone().is_empty();
            if is_open && self.chance(30) {
                database.checkpoint().map_err(|error| self.stop("CHECKPOINT", &error))?;
            }
            if is_open && self.chance(60) {
                self.report.undos_interrupted += 1;
                drop(database);
                if self.chance(50) {
                    self.note("the power fails in an undo".to_owned());
                    let seed = self.random.next_u64();
                    self.disk.crash(seed);
                    return Err(Stop::Crash);
                }
                self.note("closes in an undo".to_owned());
                let closed = self.instance().close();
                closed.map_err(|error| self.stop("the close", &error))?;
                self.die();
                self.open_instance()?;
                continue;
            }
            database.wait_for_undo().map_err(|error| self.stop("an undo", &error))?;
            index += 1;
        }
        Ok(())
    }

    fn verify(&mut self) -> Step<()> {
        self.verify_databases()?;
        let rows = self.look_into_all(true)?;
        self.report.rows_checked += rows;
        for session in &mut self.sessions {
            session.truth.doubtful = None;
        }
        self.delayed.iter_mut().for_each(Vec::clear);
        Ok(())
    }

    /// Checks the contents; no transaction may be open.
    pub(crate) fn verify_alive(&mut self) -> Step<()> {
        self.look_into_all(false).map(drop)
    }

    /// Checks all databases at once, because a transaction may have changed several. Returns the number of rows.
    fn look_into_all(&mut self, has_started: bool) -> Step<u64> {
        let mut found = Vec::new();
        // Recovery may reach either one first, and ask the other what became of a transaction.
        let first = self.below(DATABASES.len());
        self.database(first)?;
        for (index, name) in DATABASES.into_iter().enumerate() {
            let database = self.database(index)?;
            let checked = allocation(&database, self.has_failed).and_then(|()| contents(&database));
            found.push(checked.map_err(|error| self.check_failed(name, error))?);
        }
        let tables = found.iter().flat_map(|objects| objects.tables.values());
        let rows = tables.map(|table| table.rows.len() as u64).sum();
        self.settle(found, has_started)?;
        Ok(rows)
    }

    fn check_failed(&mut self, name: &str, error: CheckError) -> Stop {
        match error {
            CheckError::Engine(error) => self.stop(&format!("reading {name}"), &error),
            CheckError::Found(_) if self.disk.is_off() => Stop::Crash,
            CheckError::Found(text) => Stop::Bug(format!("{name}: {text}")),
        }
    }

    fn settle(&mut self, mut found: Vec<Objects>, has_started: bool) -> Step<()> {
        let theirs = |session: usize| {
            let prefix = session_prefix(session);
            let of_session = |objects: &mut Objects| Objects {
                tables: objects.tables.extract_if(.., |name, _| name.starts_with(&prefix)).collect(),
                sequences: objects.sequences.extract_if(.., |name| name.starts_with(&prefix)).collect(),
            };
            State(found.iter_mut().map(of_session).collect())
        };
        let states: Vec<State> = (0..SESSIONS).map(theirs).collect();
        let is_anything = |(objects, _): &(&Objects, &str)| **objects != Objects::default();
        if let Some((objects, database)) = found.iter().zip(DATABASES).find(is_anything) {
            let (tables, sequences) = (objects.tables.keys(), &objects.sequences);
            return Err(Stop::Bug(format!("{database}: tables {tables:?} and sequences {sequences:?} are nobody's")));
        }
        let mut truths: Vec<&mut Truth> = self.sessions.iter_mut().map(|session| &mut session.truth).collect();
        // A running instance has everything that it has acknowledged.
        let delayed = if has_started { &self.delayed[..] } else { &DATABASES.map(|_| Vec::new()) };
        settle(&mut truths, delayed, states).map_err(Stop::Bug)
    }

    fn verify_databases(&mut self) -> Step<()> {
        let found: BTreeSet<String> = self.instance().databases().into_iter().map(|database| database.name).collect();
        let fixed = ["master", "tempdb"].iter().chain(&DATABASES).map(|&name| name.to_owned());
        let mut expected: BTreeSet<String> = fixed.chain(self.others.listed.iter().cloned()).collect();
        if let Some(doubtful) = &self.others.doubtful {
            // From now on its state is the one found.
            if found.contains(doubtful) {
                expected.insert(doubtful.clone());
                self.others.listed.insert(doubtful.clone());
            } else {
                expected.remove(doubtful);
                self.others.listed.remove(doubtful);
            }
        }
        if found != expected {
            return Err(Stop::Bug(format!("the databases are {found:?} and should be {expected:?}")));
        }
        for name in self.others.listed.clone() {
            let opened = self.instance().database(&name);
            opened.map_err(|error| self.stop(&format!("opening {name}"), &error))?;
        }
        self.others.doubtful = None;
        Ok(())
    }
}

/// The prefix of the names of a session's tables.
pub(crate) fn session_prefix(session: usize) -> String {
    format!("s{session}_")
}
