//! The lives of an instance: it starts, sessions and administrators work in it concurrently, the power fails or not,
//! and what is there afterwards is compared with what they were told.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hobt_base::SplitMix64;
use hobt_disk::{Disk, SimulatedConfig, SimulatedDisk};
use hobt_engine::{Instance, InstanceSettings};
use hobt_instruments::schedule::{Alarm, Ended, Habit, Place, Schedule};
use hobt_session::{CancelHandle, Server, Session, SessionOptions};

use crate::chance;
use crate::history::{Done, History, Key, Outcome, Value};
use crate::judge::{self, Rows};
use crate::others::{self, Act, Other, passing};
use crate::script::{Author, Script, TableName};
use crate::session::{Client, SharedHistory, ask};
use crate::tables::{ROWS, Shape, fill, is_pad_of};
use crate::{Options, Report};

/// The permanent databases.
pub(crate) const DATABASES: [&str; 2] = ["alpha", "beta"];
pub(crate) const FOLDER: &str = "/sim";
/// A day in 2027 in units of 100 ns since 1970, around which the clocks of lives are set; and the length of a day.
const DATE: i64 = 1_800_000_000 * 10_000_000;
const DAY: i64 = 86_400 * 10_000_000;
/// The difference of the seed that [`Cast::tighten`] uses.
const FILLS_UP: u64 = 0xF111_0F11;
const POOL_PAGES: [u64; 3] = [96, 160, 1024];
/// The tokens of different lives do not overlap.
const TOKENS_OF_A_LIFE: i64 = 100_000;

/// What happens in one life, except the order of events.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) scripts: Vec<Script>,
    pub(crate) others: Vec<Vec<Act>>,
    schedule: u64,
    habit: Habit,
    /// When the power fails.
    crash: Option<Alarm>,
    /// For each interrupted start after this life, the number of disk changes until the power fails again.
    crashes_in_recovery: Vec<u64>,
    closes: bool,
    /// The number of locks of a partition after which a statement requests one of the table.
    escalates_after: u32,
    /// Free bytes on the disk; unlimited if `None`.
    disk_free: Option<u64>,
    /// 100 ns since 1970, and a jump of the clock after a number of points.
    date: i64,
    jump: Option<(u64, i64)>,
}

/// A world without the order of events: the part that can be reduced.
#[derive(Clone, Debug)]
pub(crate) struct Cast {
    pub(crate) tables: Vec<TableName>,
    pub(crate) lives: Vec<Life>,
    pool_pages: u64,
    /// The bytes of memory from which on versions go to disk.
    version_bytes: Option<u64>,
    /// The bytes of memory for the pages that snapshots keep.
    rebuilt_bytes: Option<u64>,
    locks_reads: [bool; DATABASES.len()],
    delays: [&'static str; DATABASES.len()],
    recovery: [&'static str; DATABASES.len()],
    /// The maximum size of each database's log in KB; unlimited if `None`.
    log_kb_max: [Option<u64>; DATABASES.len()],
}

/// A part of a cast that can be left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cut {
    LastLife,
    Crash(usize),
    Session(usize, usize),
    Other(usize, usize),
    Transaction(usize, usize, usize),
    Act(usize, usize, usize),
    Statement(usize, usize, usize, usize),
}

impl Cast {
    /// Draws the cast of a seed.
    pub(crate) fn draw(seed: u64, options: &Options) -> Cast {
        let mut random = SplitMix64::new(seed);
        let mut below = |bound: u64| usize::try_from(random.below(bound)).expect("few");
        let mut tables = Vec::new();
        for number in 0..2 + below(2) {
            let database = below(DATABASES.len() as u64);
            let name = format!("{}.dbo.t{number}", DATABASES[database]);
            tables.push(TableName { name, database, shape: Shape::ALL[below(Shape::ALL.len() as u64)] });
        }
        let pool_pages = POOL_PAGES[below(POOL_PAGES.len() as u64)];
        // Not drawn, so that a seed is the world that it was before there were versions on disk.
        let version_bytes = [None, Some(0), Some(1_000), Some(4_000)][usize::try_from(seed % 4).expect("few")];
        // Nor this. With kept pages, versions are not looked for again.
        let rebuilt_bytes = [Some(0), None, Some(0), Some(20_000)][usize::try_from(seed / 4 % 4).expect("few")];
        let locks_reads = DATABASES.map(|_| below(3) == 0);
        let delays = DATABASES.map(|_| ["DISABLED", "DISABLED", "ALLOWED", "FORCED"][below(4)]);
        let recovery = DATABASES.map(|_| ["SIMPLE", "SIMPLE", "FULL"][below(3)]);
        let log_kb_max = DATABASES.map(|_| (below(6) == 0).then(|| [1024, 1536][below(2)]));
        let lives = 1 + random.below(options.lives.max(1));
        let lives = (0..lives).map(|life| Cast::life(&mut random, options, &tables, life)).collect();
        let mut cast =
            Cast { tables, lives, pool_pages, version_bytes, rebuilt_bytes, locks_reads, delays, recovery, log_kb_max };
        if options.fills_up {
            cast.tighten(seed);
        }
        cast
    }

    /// Leaves little room in the logs or on the disk, and makes administrators take all of it.
    fn tighten(&mut self, seed: u64) {
        let mut random = SplitMix64::new(seed ^ FILLS_UP);
        let below = |random: &mut SplitMix64, bound: u64| usize::try_from(random.below(bound)).expect("few");
        // A log has at least 4 MB.
        self.log_kb_max = DATABASES.map(|_| Some([4096, 5120][below(&mut random, 2)]));
        for life in &mut self.lives {
            life.disk_free = (random.below(3) == 0).then(|| random.below(3 << 20));
            for acts in &mut life.others {
                for _ in 0..random.below(3) {
                    let at = below(&mut random, acts.len() as u64 + 1);
                    acts.insert(at, Act::FillUp(below(&mut random, DATABASES.len() as u64)));
                }
            }
        }
    }

    fn life(random: &mut SplitMix64, options: &Options, tables: &[TableName], life: u64) -> Life {
        let token = i64::try_from(life + 1).expect("few") * TOKENS_OF_A_LIFE;
        let mut author = Author { random: SplitMix64::new(random.next_u64()), tables, token };
        let sessions = 2 + random.below(options.sessions.saturating_sub(1).max(1));
        let mut count = || 1 + random.below(options.transactions.max(1));
        let scripts: Vec<Script> = (0..sessions).map(|_| author.script(count())).collect();
        let others = others::draw(random, tables, life);
        let habit = match random.below(4) {
            0 => Habit::OneOf(2),
            1 => Habit::OneOf(15),
            2 => Habit::OneOf(120),
            _ => Habit::Priorities(400),
        };
        let reach = [1_000, 5_000, 20_000][usize::try_from(random.below(3)).expect("few")];
        let crash = (options.crashes && random.below(100) < 65).then(|| {
            let mut one_of = |count: u64| usize::try_from(random.below(count)).expect("few");
            let (place, of) = match one_of(7) {
                0 | 1 => (Some(Place::LogFlush), 20),
                2 | 3 => (Some(Place::Visibility), 10),
                4 => (Some(Place::Transition), 3),
                _ => (None, reach),
            };
            let hold = if place.is_some() { [0, 100, 1_000, 5_000][one_of(4)] } else { 0 };
            Alarm { points: 1 + random.below(of), place, hold }
        });
        let mut crashes_in_recovery = Vec::new();
        while options.crashes && crashes_in_recovery.len() < 10 && random.below(100) < 30 {
            crashes_in_recovery.push(1 + random.below(60));
        }
        let (schedule, closes) = (random.next_u64(), random.below(3) == 0);
        let escalates_after = if random.below(4) == 0 { 4 } else { u32::MAX };
        let disk_free = (random.below(8) == 0).then(|| random.below(3 << 20));
        let mut days = || (i64::try_from(random.below(61)).expect("few") - 30) * DAY;
        let (date, by) = (DATE + days(), days());
        let jump = (random.below(3) == 0).then(|| (random.below(3_000), by));
        let others = others.into();
        Life {
            scripts,
            others,
            schedule,
            habit,
            crash,
            crashes_in_recovery,
            closes,
            escalates_after,
            disk_free,
            date,
            jump,
        }
    }

    /// All parts that can be left out, the larger ones first.
    pub(crate) fn cuts(&self) -> Vec<Cut> {
        let mut cuts = vec![Cut::LastLife];
        for (life, of_life) in self.lives.iter().enumerate().rev() {
            cuts.push(Cut::Crash(life));
            cuts.extend((0..of_life.scripts.len()).map(|session| Cut::Session(life, session)));
            cuts.extend((0..of_life.others.len()).map(|other| Cut::Other(life, other)));
            for (session, script) in of_life.scripts.iter().enumerate() {
                cuts.extend((0..script.len()).rev().map(|at| Cut::Transaction(life, session, at)));
            }
            for (other, acts) in of_life.others.iter().enumerate() {
                cuts.extend((0..acts.len()).rev().map(|at| Cut::Act(life, other, at)));
            }
            for (session, script) in of_life.scripts.iter().enumerate() {
                for (at, transaction) in script.iter().enumerate().rev() {
                    let statements = (0..transaction.statements.len()).rev();
                    cuts.extend(statements.map(|statement| Cut::Statement(life, session, at, statement)));
                }
            }
        }
        cuts
    }

    /// The cast without a part; `None` if it does not have that part any more.
    pub(crate) fn without(&self, cut: &Cut) -> Option<Cast> {
        let mut cast = self.clone();
        match *cut {
            Cut::LastLife => {
                cast.lives.pop()?;
                if cast.lives.is_empty() {
                    return None;
                }
            }
            Cut::Crash(life) => {
                let life = cast.lives.get_mut(life)?;
                if life.crashes_in_recovery.is_empty() {
                    life.crash.take()?;
                } else {
                    life.crashes_in_recovery.pop();
                }
            }
            Cut::Session(life, session) => take_all(cast.lives.get_mut(life)?.scripts.get_mut(session)?)?,
            Cut::Other(life, other) => take_all(cast.lives.get_mut(life)?.others.get_mut(other)?)?,
            Cut::Transaction(life, session, at) => {
                take_one(cast.lives.get_mut(life)?.scripts.get_mut(session)?, at)?;
            }
            Cut::Act(life, other, at) => take_one(cast.lives.get_mut(life)?.others.get_mut(other)?, at)?,
            Cut::Statement(life, session, at, statement) => {
                let transaction = cast.lives.get_mut(life)?.scripts.get_mut(session)?.get_mut(at)?;
                take_one(&mut transaction.statements, statement)?;
            }
        }
        Some(cast)
    }
}

fn take_all<T>(from: &mut Vec<T>) -> Option<()> {
    (!from.is_empty()).then(|| from.clear())
}

fn take_one<T>(from: &mut Vec<T>, at: usize) -> Option<()> {
    (at < from.len()).then(|| drop(from.remove(at)))
}

/// What the actors of a life share.
pub(crate) struct Shared {
    pub(crate) disk: Arc<SimulatedDisk>,
    pub(crate) tables: Vec<TableName>,
    /// For each database, whether READ COMMITTED locks what it reads.
    pub(crate) locks_reads: [bool; DATABASES.len()],
    pub(crate) history: SharedHistory,
    /// Whether logs or the disk may be full.
    pub(crate) is_tight: bool,
    pub(crate) server: Arc<Server>,
    /// Temporary databases, and tokens of transactions over them.
    pub(crate) passing: Mutex<Passing>,
}

#[derive(Clone, Default, Debug)]
pub(crate) struct Passing {
    pub(crate) listed: BTreeSet<u64>,
    /// Databases being created or dropped.
    pub(crate) doubtful: BTreeSet<u64>,
    /// The tokens of acknowledged transactions, by temporary and permanent database.
    pub(crate) tokens: BTreeMap<(u64, usize), BTreeSet<i64>>,
}

pub(crate) struct World {
    seed: u64,
    options: Options,
    cast: Cast,
    disk: Arc<SimulatedDisk>,
    rows: Rows,
    passing: Passing,
    numbers: BTreeSet<(usize, bool, i64)>,
    report: Report,
    log: Vec<String>,
    /// A step that ran alone could not continue, and was ended by a power loss that is not a crash.
    is_stuck: Arc<AtomicBool>,
}

type Step<T> = Result<T, String>;

/// Why a start did not complete.
enum Stop {
    Crash,
    Bug(String),
}

impl World {
    pub(crate) fn new(seed: u64, options: &Options, cast: &Cast) -> World {
        let disk = SimulatedDisk::start(SimulatedConfig::default()).expect("a disk in memory without a device");
        let (rows, passing, log) = (Rows::new(), Passing::default(), Vec::new());
        let (options, cast, report) = (options.clone(), cast.clone(), Report::default());
        let is_stuck = Arc::default();
        World { seed, options, cast, disk, rows, passing, numbers: BTreeSet::new(), report, log, is_stuck }
    }

    pub(crate) fn take_log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        if self.options.keeps_log {
            let text = text();
            self.log.push(text);
        }
    }

    /// All lives of the instance.
    pub(crate) fn run(&mut self) -> Step<Report> {
        let mut server = self.alone(World::begin)?;
        for number in 0..self.cast.lives.len() {
            let life = self.cast.lives[number].clone();
            self.note(|| format!("-- life {number}: {:?}, crash: {:?}", life.habit, life.crash));
            server = self.live(server, &life)?;
        }
        self.alone(|_| server.instance().close()).map_err(|error| format!("the last close: {error}"))?;
        drop(server);
        self.report.trace = self.report.trace.rotate_left(11) ^ self.disk.trace();
        Ok(self.report)
    }

    /// Runs `act` as the only actor of a schedule: on one thread, and in simulated time.
    fn alone<T: Send>(&mut self, act: impl FnOnce(&mut World) -> T + Send) -> T {
        let seed = self.seed ^ self.report.starts.rotate_right(16);
        let (disk, is_stuck) = (Arc::clone(&self.disk), Arc::clone(&self.is_stuck));
        let mut done = None;
        let to = &mut done;
        let act = move || {
            chance::draw_from(seed);
            *to = Some(act(self));
        };
        let schedule = Schedule::new(seed, Habit::OneOf(u64::MAX)).on_stuck(move || {
            eprintln!("seed {seed}: nobody else runs, and it cannot go on");
            is_stuck.store(true, Ordering::Relaxed);
            disk.lose_power(seed);
        });
        let (_, mut ended) = schedule.run(vec![("world".to_owned(), Box::new(act))]);
        match (done, ended.pop()) {
            (Some(done), _) => done,
            (None, Some(Ended::Panicked(text))) => panic!("{text}"),
            (None, ended) => panic!("it did not end: {ended:?}"),
        }
    }

    fn open(&self) -> Result<Arc<Server>, String> {
        let settings = InstanceSettings {
            memory_bytes: Some(128 << 20),
            pool_bytes: Some(self.cast.pool_pages * 8192),
            version_bytes: self.cast.version_bytes,
            rebuilt_bytes: self.cast.rebuilt_bytes,
            log_ring_bytes: Some(1 << 20),
            checkpoints_by_hand: true,
            // No thread is left that could undo it.
            undo_behind_from_bytes: Some(u64::MAX),
            ..InstanceSettings::default()
        };
        let disk: Arc<dyn Disk> = Arc::clone(&self.disk) as Arc<dyn Disk>;
        let instance = Instance::open_on(disk, Path::new(FOLDER), settings).map_err(|error| error.to_string())?;
        // The streams of a parallel plan end in the order of a hash map, whose keys depend on addresses and the clock.
        instance.change_runtime(|runtime| runtime.max_degree_of_parallelism = 1);
        Server::new(instance).map_err(|error| error.to_string())
    }

    fn session(server: &Arc<Server>) -> Step<Session> {
        server.session(&SessionOptions::default()).map_err(|error| format!("a session: {error}"))
    }

    /// Creates the instance with its databases and tables.
    fn begin(&mut self) -> Step<Arc<Server>> {
        let server = self.open()?;
        self.report.starts += 1;
        let mut session = World::session(&server)?;
        // Frees the id of `first` for a temporary database, which then coordinates transactions over it and the others.
        let mut batches = vec!["CREATE DATABASE first".to_owned()];
        for (at, name) in DATABASES.iter().enumerate() {
            let log_max = self.cast.log_kb_max[at].map_or("UNLIMITED".to_owned(), |size| format!("{size}KB"));
            batches.push(format!(
                "CREATE DATABASE {name} ON (NAME = {name}, SIZE = 2MB, FILEGROWTH = 512KB) LOG ON (NAME = {name}_log, SIZE = \
                 1MB, MAXSIZE = {log_max}, FILEGROWTH = 512KB)"
            ));
            let versions = if self.cast.locks_reads[at] { "OFF" } else { "ON" };
            batches.push(format!("ALTER DATABASE {name} SET ALLOW_SNAPSHOT_ISOLATION ON"));
            batches.push(format!("ALTER DATABASE {name} SET READ_COMMITTED_SNAPSHOT {versions}"));
            batches.push(format!("ALTER DATABASE {name} SET DELAYED_DURABILITY = {}", self.cast.delays[at]));
            batches.push(format!("ALTER DATABASE {name} SET RECOVERY {}", self.cast.recovery[at]));
            batches.push(format!("ALTER DATABASE {name} SET AUTO_CREATE_STATISTICS OFF, AUTO_UPDATE_STATISTICS OFF"));
            batches.push(format!("CREATE TABLE {name}.dbo.side (tok bigint NOT NULL, pad varchar(900) NOT NULL)"));
            if self.options.fills_up {
                batches.push(format!("CREATE TABLE {name}.dbo.big (v varchar(max) NOT NULL)"));
            }
            batches.push(format!("USE {name}; CREATE SEQUENCE numbers AS bigint START WITH 1 CACHE 4"));
            batches.push(format!("CREATE TABLE {name}.dbo.numbered (n int IDENTITY NOT NULL, one int NOT NULL)"));
            batches.push(format!("CREATE TABLE {name}.dbo.crossed (passing int NOT NULL, tok bigint NOT NULL)"));
        }
        for table in &self.cast.tables {
            let (database, own) = table.name.split_once(".dbo.").expect("a name with a database");
            batches.push(format!("USE {database}; {}", table.shape.create(own)));
            batches.push(fill(&table.name));
            batches.extend(table.shape.create_children(own).map(|text| format!("USE {database}; {text}")));
        }
        batches.push("USE master; DROP DATABASE first".to_owned());
        // Makes the initial state durable, whatever the commits of the databases are.
        batches.extend(DATABASES.map(|name| format!("EXEC {name}.sys.sp_flush_log")));
        for batch in batches {
            if let Some(error) = ask(&mut session, &batch).error {
                return Err(format!("the world's beginning: error {}: {}\n{batch}", error.number, error.message));
            }
        }
        let first = Value { token: 0, balance: crate::tables::BALANCE };
        let all = (0..self.cast.tables.len()).flat_map(|table| (0..ROWS).map(move |rid| (table, rid)));
        self.rows = all.map(|key| (key, first)).collect();
        Ok(server)
    }

    /// One life, and the start after it.
    fn live(&mut self, server: Arc<Server>, life: &Life) -> Step<Arc<Server>> {
        let numbers = std::mem::take(&mut self.numbers);
        let history = History { keeps_log: self.options.keeps_log, numbers, ..History::default() };
        let shared = Shared {
            disk: Arc::clone(&self.disk),
            tables: self.cast.tables.clone(),
            locks_reads: self.cast.locks_reads,
            history: Arc::new(Mutex::new(history)),
            is_tight: life.disk_free.is_some() || self.cast.log_kb_max.iter().any(Option::is_some),
            server: Arc::clone(&server),
            passing: Mutex::new(self.passing.clone()),
        };
        self.disk.leave_free(life.disk_free);
        let ran = self.act(&shared, life);
        self.disk.leave_free(None);
        let mut history = std::mem::take(&mut *shared.history.lock().unwrap_or_else(PoisonError::into_inner));
        self.passing = shared.passing.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.log.append(&mut history.log);
        drop(shared);
        ran?;
        if let Some(wrong) = history.wrong.take() {
            return Err(wrong);
        }
        self.numbers = std::mem::take(&mut history.numbers);
        // After a start the existing rows determine the next identity value.
        self.numbers.retain(|(_, is_identity, _)| !is_identity);
        let before = std::mem::take(&mut self.rows);
        let has_crashed = self.disk.is_off();
        if has_crashed {
            self.report.crashes += 1;
            self.note(|| "-- the power failed".to_owned());
        } else {
            let found = self.alone(|world| world.look(&server));
            let found = found.map_err(|stop| format!("while it lives: {}", stop.text()))?;
            judge::settle(&history, &before, &found, &BTreeSet::new())?;
            if life.closes {
                self.note(|| "-- it is closed".to_owned());
                self.alone(|_| server.instance().close()).map_err(|error| format!("the close: {error}"))?;
            } else {
                self.note(|| "-- the power fails, and nothing is under way".to_owned());
                self.disk.crash(life.schedule);
            }
        }
        server.end_background();
        drop(server);
        let (server, found) = self.start_again(life)?;
        let may_be_lost = if has_crashed || !life.closes { self.may_be_lost(&history) } else { BTreeSet::new() };
        let is_there = judge::settle(&history, &before, &found, &may_be_lost)?;
        for (number, done) in history.transactions.iter_mut().enumerate() {
            if done.outcome == Outcome::InDoubt && !self.delays(done) {
                let kept = is_there.get(&number).copied().unwrap_or(true);
                done.outcome = if kept { Outcome::Committed } else { Outcome::RolledBack };
            }
        }
        judge::judge(&history, &before)?;
        self.count(&history);
        self.rows = found;
        Ok(server)
    }

    fn databases_of(&self, done: &Done) -> BTreeSet<usize> {
        done.writes.iter().map(|write| self.cast.tables[write.key.0].database).collect()
    }

    /// Whether a transaction's commit may return before it is durable.
    fn delays(&self, done: &Done) -> bool {
        let databases = self.databases_of(done);
        databases.len() == 1 && databases.iter().all(|database| self.delays_in(*database, done))
    }

    fn delays_in(&self, database: usize, done: &Done) -> bool {
        match self.cast.delays[database] {
            "FORCED" => true,
            "ALLOWED" => done.is_delayed,
            _ => false,
        }
    }

    fn may_be_lost(&self, history: &History) -> BTreeSet<usize> {
        judge::may_be_lost(history, &|done| self.databases_of(done), &|database, done| self.delays_in(database, done))
    }

    fn count(&mut self, history: &History) {
        let report = &mut self.report;
        report.statements += history.statements;
        report.deadlocks += history.deadlocks;
        report.conflicts += history.conflicts;
        report.full += history.full;
        for done in &history.transactions {
            report.commits += u64::from(done.outcome == Outcome::Committed);
            report.doubtful += u64::from(done.outcome == Outcome::InDoubt);
            report.reads += done.reads.len() as u64;
            report.writes += done.writes.len() as u64;
            report.trace = report.trace.rotate_left(3) ^ done.ended.unwrap_or(0) ^ done.begun << 20;
        }
    }

    /// Runs the sessions and administrators of a life concurrently.
    fn act(&mut self, shared: &Shared, life: &Life) -> Step<()> {
        let mut cancels: Vec<CancelHandle> = Vec::new();
        let mut actors: Vec<(String, Box<dyn FnOnce() + Send + '_>)> = Vec::new();
        for (number, script) in life.scripts.iter().enumerate() {
            let session = World::session(&shared.server)?;
            cancels.push(session.cancel_handle());
            let mut client = Client { number, shared, session };
            let seed = stream(life, actors.len());
            let act = move || {
                chance::draw_from(seed);
                client.run(script);
            };
            actors.push((format!("session {number}"), Box::new(act)));
        }
        for (number, acts) in life.others.iter().enumerate() {
            let session = World::session(&shared.server)?;
            cancels.push(session.cancel_handle());
            let mut other = Other { number, shared, session };
            let seed = stream(life, actors.len());
            let act = move || {
                chance::draw_from(seed);
                other.run(acts);
            };
            actors.push((format!("administrator {number}"), Box::new(act)));
        }
        let cancels = Arc::new(cancels);
        let mut schedule =
            Schedule::new(life.schedule, life.habit).bounded_by(life.escalates_after).dated(life.date, life.jump);
        if let Some(crash) = life.crash {
            let (disk, cancels, seed) = (Arc::clone(&self.disk), Arc::clone(&cancels), life.schedule);
            schedule = schedule.alarm_at(crash, move || {
                disk.lose_power(seed);
                cancels.iter().for_each(CancelHandle::cancel);
            });
        }
        let (disk, history, seed) = (Arc::clone(&self.disk), Arc::clone(&shared.history), self.seed);
        let instance = Arc::clone(shared.server.instance());
        let schedule = schedule.on_stuck(move || {
            tell_waits(&instance);
            history.lock().unwrap_or_else(PoisonError::into_inner).is_wrong("no session can go on".to_owned());
            eprintln!("seed {seed}: no session can go on");
            disk.lose_power(seed);
            cancels.iter().for_each(CancelHandle::cancel);
        });
        let (trace, ended) = schedule.run(actors);
        self.report.points += trace.points;
        self.report.switches += trace.switches;
        self.report.trace = self.report.trace.rotate_left(5) ^ trace.sum;
        for ended in ended {
            if let Ended::Panicked(text) = ended {
                return Err(format!("a panic: {text}"));
            }
        }
        Ok(())
    }

    /// Starts until it succeeds, with power failures in between.
    fn start_again(&mut self, life: &Life) -> Step<(Arc<Server>, Rows)> {
        let mut cuts = life.crashes_in_recovery.iter();
        loop {
            self.disk.power_on();
            if let Some(cut) = cuts.next() {
                self.disk.crash_at(self.disk.changes() + cut, life.schedule ^ cut);
            }
            self.note(|| "-- it starts".to_owned());
            match self.alone(World::start) {
                Ok(started) => {
                    self.disk.power_on();
                    return Ok(started);
                }
                Err(Stop::Bug(text)) => return Err(format!("behind a start: {text}")),
                Err(Stop::Crash) => {
                    self.note(|| "-- the power failed in recovery".to_owned());
                    self.report.crashes_in_recovery += 1;
                }
            }
        }
    }

    fn start(&mut self) -> Result<(Arc<Server>, Rows), Stop> {
        let server = self.open().map_err(|text| self.stop(format!("the start: {text}")))?;
        self.report.starts += 1;
        let found = self.look(&server)?;
        Ok((server, found))
    }

    /// Classifies a problem found by a start or by a check after it. If the power failed during recovery, a database
    /// may be unavailable, and the next start shows its state.
    fn stop(&self, text: String) -> Stop {
        match self.disk.is_off() {
            // It was stuck, and ended by switching off the power.
            _ if self.is_stuck.load(Ordering::Relaxed) => Stop::Bug(format!("it could not go on: {text}")),
            true => Stop::Crash,
            false => Stop::Bug(text),
        }
    }

    fn query(&self, session: &mut Session, batch: &str) -> Result<Vec<Vec<Option<String>>>, Stop> {
        let answer = ask(session, batch);
        match answer.error {
            None => Ok(answer.rows),
            Some(error) => Err(self.stop(format!("error {}: {} in {batch}", error.number, error.message))),
        }
    }

    /// Reads the contents of the tables, and checks their consistency.
    fn look(&mut self, server: &Arc<Server>) -> Result<Rows, Stop> {
        let mut session = World::session(server).map_err(|text| self.stop(text))?;
        self.look_at_databases(&mut session)?;
        let mut rows = Rows::new();
        for (number, table) in self.cast.tables.clone().iter().enumerate() {
            let base = self.rows_of(&mut session, number, &format!("SELECT rid, tok, bal, pad FROM {}", table.name))?;
            for index in table.shape.indexes() {
                let query = format!("SELECT rid, tok, bal, pad FROM {} WITH (INDEX({index}))", table.name);
                let by_index = self.rows_of(&mut session, number, &query)?;
                if by_index != base {
                    return Err(self.stop(format!("{}: {by_index:?} by index {index}, {base:?} without", table.name)));
                }
            }
            if table.shape == Shape::Switched {
                let out = self.query(&mut session, &format!("SELECT rid FROM {}_out", table.name))?;
                if !out.is_empty() {
                    return Err(self.stop(format!("rows of {} that were switched out: {out:?}", table.name)));
                }
            }
            if table.shape.create_children("").is_some() {
                let query = format!(
                    "SELECT c.rid FROM {0}_child AS c WHERE NOT EXISTS (SELECT * FROM {0} AS p WHERE p.rid = c.rid)",
                    table.name
                );
                let orphans = self.query(&mut session, &query)?;
                if !orphans.is_empty() {
                    return Err(self.stop(format!("children of {} without their row: {orphans:?}", table.name)));
                }
            }
            rows.extend(base);
        }
        for database in DATABASES {
            let twice = format!("SELECT n FROM {database}.dbo.numbered GROUP BY n HAVING COUNT(*) > 1");
            let twice = self.query(&mut session, &twice)?;
            if !twice.is_empty() {
                return Err(self.stop(format!("identity values of {database} that were given twice: {twice:?}")));
            }
            self.query(&mut session, &format!("DBCC CHECKDB ({database}) WITH NO_INFOMSGS"))?;
        }
        Ok(rows)
    }

    fn rows_of(&self, session: &mut Session, table: usize, query: &str) -> Result<BTreeMap<Key, Value>, Stop> {
        let mut found = BTreeMap::new();
        for row in self.query(session, query)? {
            let number = |at: usize| row.get(at)?.as_deref()?.parse::<i64>().ok();
            let (Some(rid), Some(token), Some(balance)) = (number(0), number(1), number(2)) else {
                return Err(self.stop(format!("a row is {row:?}: {query}")));
            };
            let pad = row.get(3).and_then(|cell| cell.as_deref()).unwrap_or_default();
            if !is_pad_of(token, pad) {
                return Err(self.stop(format!("row {rid} of token {token} has {} other bytes: {query}", pad.len())));
            }
            if found.insert((table, rid), Value { token, balance }).is_some() {
                return Err(self.stop(format!("row {rid} is there twice: {query}")));
            }
        }
        Ok(found)
    }

    /// Checks that the databases that should exist can be used, and agree on the transactions over them.
    fn look_at_databases(&mut self, session: &mut Session) -> Result<(), Stop> {
        let listed = self.query(session, "SELECT name, state_desc FROM sys.databases WHERE database_id > 4")?;
        let name = |row: &Vec<Option<String>>| row.first().cloned().flatten().unwrap_or_default();
        for row in &listed {
            if row.get(1).and_then(|state| state.as_deref()) == Some("OFFLINE") {
                self.query(session, &format!("ALTER DATABASE {} SET ONLINE", name(row)))?;
            }
        }
        let found: BTreeSet<String> = listed.iter().map(name).collect();
        for number in std::mem::take(&mut self.passing.doubtful) {
            // From now on its state is the one found.
            if found.contains(&passing(number)) {
                self.passing.listed.insert(number);
            } else {
                self.passing.listed.remove(&number);
            }
        }
        let own = self.passing.listed.iter().map(|number| passing(*number));
        let expected: BTreeSet<String> = DATABASES.iter().map(|&name| name.to_owned()).chain(own).collect();
        if found != expected {
            return Err(self.stop(format!("the databases are {found:?} and should be {expected:?}")));
        }
        for number in self.passing.listed.clone() {
            let there = format!("SELECT tok FROM {}.dbo.m ORDER BY tok", passing(number));
            let name = passing(number);
            // If the table was not created yet, nothing of it is anywhere.
            let made = self.query(session, &format!("SELECT OBJECT_ID('{name}.dbo.m')"))?;
            let is_made = made.first().is_some_and(|row| row.first().cloned().flatten().is_some());
            let there = if is_made { tokens(&self.query(session, &there)?) } else { BTreeSet::new() };
            for (stays, database) in DATABASES.iter().enumerate() {
                let query = format!("SELECT tok FROM {database}.dbo.crossed WHERE passing = {number} ORDER BY tok");
                let here = tokens(&self.query(session, &query)?);
                let own: BTreeSet<i64> = there
                    .iter()
                    .copied()
                    .filter(|token| token % 10 == i64::try_from(stays).expect("few") + 1)
                    .collect();
                let acknowledged = self.passing.tokens.get(&(number, stays)).cloned().unwrap_or_default();
                if here != own || !here.is_superset(&acknowledged) {
                    let text = format!(
                        "transactions over {name} and {database}: {own:?} there, {here:?} here, {acknowledged:?} \
                         acknowledged"
                    );
                    return Err(self.stop(text));
                }
            }
        }
        Ok(())
    }
}

/// Prints which sessions wait for which locks, and which locks are held on the same resources.
fn tell_waits(instance: &Instance) {
    let (waits, rows) = (instance.locks().waits(), instance.locks().rows());
    for wait in &waits {
        eprintln!("{:?} waits for {:?} in {:?}, behind {:?}", wait.session, wait.resource, wait.mode, wait.blockers);
    }
    for row in rows.iter().filter(|row| waits.iter().any(|wait| wait.resource == row.resource)) {
        eprintln!("{:?} ({:?}): {:?} {} of {:?}", row.session, row.owner, row.mode, row.status.name(), row.resource);
    }
}

/// The seed of an actor's random stream.
fn stream(life: &Life, actor: usize) -> u64 {
    life.schedule ^ (actor as u64 + 1).rotate_right(8)
}

fn tokens(rows: &[Vec<Option<String>>]) -> BTreeSet<i64> {
    rows.iter().filter_map(|row| row.first()?.as_deref()?.parse().ok()).collect()
}

impl Stop {
    fn text(self) -> String {
        match self {
            Stop::Crash => "the power failed where it should not".to_owned(),
            Stop::Bug(text) => text,
        }
    }
}
