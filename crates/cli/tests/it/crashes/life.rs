//! A life of an instance, in a process of its own that will not end cleanly: concurrent sessions on shared tables.
//!
//! The seed determines the number of writing sessions, the proportion and the duration of rolled back transactions, the
//! distance of checkpoints, and whether databases are created and dropped, tables are loaded, and readers are active.
//! It does not determine the order of events.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use hobt::disk::DiskKind;
use hobt::{Event, Flow, Instance, InstanceSettings, STACK_BYTES, Session};
use hobt_base::SplitMix64;
use hobt_disk::{RecordingDisk, open_disk};

use super::journal::{Known, Notes, Presence};
use super::tables::{Changes, LEDGER, create, looped, setup};
use crate::client;

/// Errors that a session may receive because of other sessions; they roll back its transaction. 1205 deadlock, 3960
/// snapshot conflict, 3961 a definition changed under a snapshot, 1222 lock timeout.
const EXPECTED: [i32; 4] = [1205, 3960, 3961, 1222];

/// The parameters of a life.
pub(super) struct Orders {
    pub(super) folder: PathBuf,
    pub(super) journal: PathBuf,
    /// The file for the trace. The life is recorded if it is set.
    pub(super) trace: Option<PathBuf>,
    pub(super) seed: u64,
    /// The number of this life, with which its transactions' numbers begin.
    pub(super) number: i64,
    /// Whether it only starts and recovers.
    pub(super) only_starts: bool,
    /// The greatest duration. 0: it is set up and closed.
    pub(super) milliseconds: u64,
}

/// The output of a life's process before it opens the instance.
pub(super) const BEGINS: &str = "begins";
/// Transactions, committed or not, after which a recorded life ends.
const RECORDED_MAX: u64 = 300;
/// Longer than any operation of the sessions on the slowest machine: beyond it they are deadlocked.
pub(super) const STUCK: Duration = Duration::from_secs(120);
/// After its duration, a life ends normally if something was done within this time.
const QUIET: Duration = Duration::from_secs(5);

/// The properties of a life, drawn from the seed.
struct Character {
    writers: u64,
    rollbacks_percent: u64,
    pause_ms: u64,
    checkpoint_pause_ms: u64,
    has_databases: bool,
    has_loads: bool,
    has_readers: bool,
    /// The number of transactions, of eight in loops, that pause before they end.
    paused_of_eight: u64,
}

impl Character {
    fn draw(random: &mut SplitMix64, is_recorded: bool) -> Character {
        // A cut can be at a position that a kill hardly ever hits.
        if random.below(if is_recorded { 2 } else { 4 }) == 0 {
            return Character::draw_quiet(random);
        }
        Character {
            writers: [1, 2, 4, 6, 8, 10][usize::try_from(random.below(6)).expect("few")],
            rollbacks_percent: [5, 20, 60][usize::try_from(random.below(3)).expect("few")],
            pause_ms: [0, 3, 20, 60][usize::try_from(random.below(4)).expect("few")],
            checkpoint_pause_ms: [0, 2, 20, 100][usize::try_from(random.below(4)).expect("few")],
            has_databases: random.below(2) == 0,
            has_loads: random.below(2) == 0,
            has_readers: random.below(2) == 0,
            paused_of_eight: 1,
        }
    }

    /// Few commits, so that the log is seldom flushed: records that no commit waits for stay in memory for long.
    /// Rollbacks last about as long as a checkpoint, so when it ends their records may only be in memory.
    fn draw_quiet(random: &mut SplitMix64) -> Character {
        Character {
            writers: 1 + random.below(4),
            rollbacks_percent: 90 + 10 * random.below(2),
            pause_ms: [10, 20, 40][usize::try_from(random.below(3)).expect("few")],
            checkpoint_pause_ms: 2 * random.below(2),
            has_databases: random.below(8) == 0,
            has_loads: random.below(8) == 0,
            has_readers: random.below(4) == 0,
            paused_of_eight: 8,
        }
    }
}

/// The numbers of a life's sessions are below this.
const SESSIONS: usize = 16;

/// The numbers of transactions that a session has begun, and of those acknowledged, committed or rolled back.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Counts {
    begun: u64,
    ended: u64,
}

/// The work done by the sessions of a life.
#[derive(Default)]
struct Progress {
    counts: Mutex<[Counts; SESSIONS]>,
    changed: Condvar,
}

impl Progress {
    fn counts(&self) -> MutexGuard<'_, [Counts; SESSIONS]> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line about a transaction to the journal. The transaction's number determines the session.
    fn note(&self, transaction: &str, count: impl Fn(&mut Counts)) {
        let number: usize = transaction.parse().expect("a transaction's number");
        count(&mut self.counts()[number / 100_000 % 100]);
        self.changed.notify_all();
    }
}

/// The data shared by all threads of a life.
struct Life {
    instance: Instance,
    notes: Notes,
    stop: AtomicBool,
    progress: Progress,
    character: Character,
    number: i64,
    /// The databases that earlier lives have created and not dropped.
    there: Vec<String>,
}

/// Settings of a small instance.
pub(super) fn settings() -> InstanceSettings {
    InstanceSettings {
        memory_bytes: Some(192 << 20),
        pool_bytes: Some(8 << 20),
        log_ring_bytes: Some(1 << 20),
        ..InstanceSettings::default()
    }
}

/// Runs until it is killed, or for the given duration.
pub(super) fn live(orders: &Orders) {
    eprintln!("{BEGINS}");
    let (instance, notes, disk) = open(orders);
    let known = Known::of(&std::fs::read_to_string(&orders.journal).unwrap_or_default());
    let mut session = instance.session().expect("a session");
    if orders.only_starts {
        // Each is recovered when it is used.
        for row in client::ok(&mut session, "SELECT name FROM sys.databases") {
            client::ok(&mut session, &format!("USE {}", row[0]));
        }
    } else {
        if !known.is_set_up {
            // Left by a life that was interrupted while it created them.
            client::ok(&mut session, "DROP DATABASE IF EXISTS a, b");
            ["a", "b"].iter().flat_map(|name| setup(name)).for_each(|batch| drop(client::ok(&mut session, &batch)));
            notes.note("setup");
        }
        drop(session);
        if orders.milliseconds == 0 {
            instance.close().expect("a clean end");
        } else {
            run(instance, notes, orders, &known);
        }
    }
    if let Some(disk) = disk {
        disk.finish().expect("the trace");
    }
    // As if it were killed: nothing is closed.
    std::process::exit(0);
}

fn open(orders: &Orders) -> (Instance, Notes, Option<Arc<RecordingDisk>>) {
    match &orders.trace {
        None => {
            let instance = Instance::open_with(&orders.folder, settings()).expect("the instance opens");
            (instance, Notes::to_file(&orders.journal), None)
        }
        Some(trace) => {
            let inner = open_disk(DiskKind::Auto).expect("a disk");
            let disk = RecordingDisk::start(inner, &orders.folder, trace).expect("the trace begins");
            let instance = Instance::open_on(disk.clone(), &orders.folder, settings()).expect("the instance opens");
            (instance, Notes::Trace(Arc::clone(&disk)), Some(disk))
        }
    }
}

/// The work of one thread of a life.
type Part = fn(&Life, i64, SplitMix64);

fn run(instance: Instance, notes: Notes, orders: &Orders, known: &Known) {
    let mut random = SplitMix64::new(orders.seed);
    let character = Character::draw(&mut random, orders.trace.is_some());
    let mut parts: Vec<Part> = vec![checkpoints];
    parts.extend(
        (0..character.writers).map(|place| if place % 3 == 2 { write as Part } else { write_in_loops as Part }),
    );
    parts.extend(character.has_databases.then_some(databases as Part));
    parts.extend(character.has_loads.then_some(loads as Part));
    parts.extend(character.has_readers.then_some(read as Part));
    let there =
        known.databases.iter().filter(|(name, presence)| **presence == Presence::There && name.starts_with('x'));
    let there = there.map(|(name, _)| name.clone()).collect();
    let (stop, progress) = (AtomicBool::new(false), Progress::default());
    let life = Arc::new(Life { instance, notes, stop, progress, character, number: orders.number, there });
    for (place, part) in (1..).zip(parts) {
        let (life, random) = (Arc::clone(&life), SplitMix64::new(random.next_u64()));
        let thread = Builder::new().stack_size(STACK_BYTES).spawn(move || part(&life, place, random));
        thread.expect("a thread");
    }
    let most = if orders.trace.is_some() { 1 + random.below(RECORDED_MAX) } else { u64::MAX };
    wait_for_end(&life, Duration::from_millis(orders.milliseconds), most);
    life.stop.store(true, Ordering::Relaxed);
}

/// Blocks until the time is over or `most` transactions are done, and until each session has ended its current
/// transaction. Sessions that do nothing for very long are reported as stuck: slowness is not an error, but a deadlock
/// is.
fn wait_for_end(life: &Life, longest: Duration, most: u64) {
    let (since, changed) = (Instant::now(), &life.progress.changed);
    let (mut done, mut last) = (0, since);
    let mut counts = life.progress.counts();
    while done < most && (since.elapsed() < longest || last.elapsed() >= QUIET) {
        let patience = STUCK.saturating_sub(last.elapsed());
        if patience.is_zero() {
            return note_hang(life, &format!("no transaction has ended, behind {done} that did"));
        }
        let left = longest.saturating_sub(since.elapsed());
        let wait = if left.is_zero() { patience } else { left.min(patience) };
        (counts, _) = changed.wait_timeout(counts, wait).unwrap_or_else(PoisonError::into_inner);
        let now = counts.iter().map(|counts| counts.ended).sum();
        if now > done {
            (done, last) = (now, Instant::now());
        }
    }
    let (before, last) = (*counts, Instant::now());
    let stays = |now: &[Counts; SESSIONS], at: usize| now[at].begun > now[at].ended && before[at] == now[at];
    while let Some(session) = (0..SESSIONS).find(|at| stays(&counts, *at)) {
        let patience = STUCK.saturating_sub(last.elapsed());
        if patience.is_zero() {
            return note_hang(life, &format!("session {session} is in its transaction, {:?}", before[session]));
        }
        (counts, _) = changed.wait_timeout(counts, patience).unwrap_or_else(PoisonError::into_inner);
    }
}

fn note_hang(life: &Life, what: &str) {
    life.note(&format!("wrong hang: for {} s {what}", STUCK.as_secs()));
}

impl Life {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn note(&self, line: &str) {
        self.notes.note(line);
        let mut words = line.split(' ');
        let (verb, transaction) = (words.next(), words.next().unwrap_or_default());
        match verb {
            Some("begin") => self.progress.note(transaction, |counts| counts.begun += 1),
            Some("done" | "undone") => self.progress.note(transaction, |counts| counts.ended += 1),
            _ => {}
        }
    }

    fn session(&self) -> Session {
        self.instance.session().expect("a session")
    }

    /// The number of a session's transaction.
    fn transaction(&self, session: i64, count: i64) -> i64 {
        (self.number * 100 + session) * 100_000 + count
    }

    fn pause(&self, random: &mut SplitMix64) -> String {
        match random.below(self.character.pause_ms + 1) {
            0 => String::new(),
            pause => format!("WAITFOR DELAY '00:00:00.{pause:03}'"),
        }
    }

    /// Runs a transaction and records it. Returns whether it was committed.
    fn transact(&self, session: &mut Session, tid: i64, databases: &[&str], body: &str, keeps: bool) -> bool {
        self.note(&format!("begin {tid} {}", databases.join(" ")));
        let end = if keeps { "COMMIT" } else { "ROLLBACK" };
        let text = format!("SET XACT_ABORT ON; BEGIN TRANSACTION;\n{body}{end} TRANSACTION");
        match client::answer(session, &text).1 {
            None if keeps => {
                self.note(&format!("done {tid}"));
                return true;
            }
            None => self.note(&format!("undone {tid}")),
            Some(error) if EXPECTED.contains(&error.number) => {
                // The error has rolled it back.
                self.note(&format!("undone {tid}"));
                self.expect(client::answer(session, "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION").1, "after an error");
            }
            Some(error) => {
                self.expect(Some(error), &text);
                self.expect(client::answer(session, "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION").1, "after an error");
            }
        }
        false
    }

    /// Records an error that a statement must not return.
    fn expect(&self, error: Option<hobt::SqlError>, text: &str) -> bool {
        if let Some(error) = &error {
            let said = format!("wrong {} {} of: {text}", error.number, error.message);
            self.note(&said.replace('\n', " "));
        }
        error.is_none()
    }
}

/// Transactions in loops, many per second.
fn write_in_loops(life: &Life, place: i64, mut random: SplitMix64) {
    let mut session = life.session();
    let mut count = 0;
    while life.goes_on() {
        let databases = draw_databases(&mut random);
        let (transactions, pause) = (1 + random.below(60).cast_signed(), life.pause(&mut random));
        let voids = life.character.rollbacks_percent / 10;
        let tid = life.transaction(place, count);
        count += transactions;
        let pauses = (life.character.paused_of_eight, &*pause);
        let batch = looped(tid, transactions, databases, voids, pauses, &mut random);
        let (mut last, mut failed) = (None, None);
        session.execute(&batch, &mut |event: Event| {
            match event {
                Event::Message(message) => {
                    let mut words = message.text.split(' ');
                    let (verb, tid) = (words.next(), words.next());
                    last = tid.filter(|_| verb == Some("begin")).map(str::to_owned);
                    life.note(&message.text);
                }
                Event::Error(error) => failed = failed.take().or(Some(error)),
                _ => {}
            }
            Flow::Continue
        });
        match (failed, last) {
            (None, _) => {}
            (Some(error), Some(tid)) if EXPECTED.contains(&error.number) => life.note(&format!("undone {tid}")),
            (failed, _) => drop(life.expect(failed, &batch)),
        }
    }
}

fn draw_databases(random: &mut SplitMix64) -> &'static [&'static str] {
    match random.below(4) {
        0 => &["a", "b"],
        1 => &["b"],
        _ => &["a"],
    }
}

/// Transactions of statements that use a plan.
fn write(life: &Life, place: i64, mut random: SplitMix64) {
    let mut session = life.session();
    for count in 0.. {
        if !life.goes_on() {
            return;
        }
        let tid = life.transaction(place, count);
        let mut changes = Changes::new(tid);
        let databases = draw_databases(&mut random);
        let keeps = random.below(100) >= life.character.rollbacks_percent;
        changes.set_void(!keeps);
        for _ in 0..1 + random.below(4) {
            some_changes(life, &mut changes, databases, &mut random);
            if random.below(4) == 0 {
                changes.add("SAVE TRANSACTION s");
                changes.set_void(true);
                some_changes(life, &mut changes, databases, &mut random);
                changes.add("ROLLBACK TRANSACTION s");
                changes.set_void(!keeps);
            }
        }
        // A database is named in the journal only if it is changed.
        databases.iter().for_each(|database| changes.line(database, "e", "0", "0"));
        let level = match random.below(8) {
            0 => "SNAPSHOT",
            1 => "SERIALIZABLE",
            _ => "READ COMMITTED",
        };
        // A transaction under SNAPSHOT can only use databases that it names when it begins.
        let begin = format!("SET TRANSACTION ISOLATION LEVEL {level}");
        life.expect(client::answer(&mut session, &begin).1, &begin);
        life.transact(&mut session, tid, databases, &changes.into_text(), keeps);
    }
}

fn some_changes(life: &Life, changes: &mut Changes, databases: &[&str], random: &mut SplitMix64) {
    for database in databases {
        for _ in 0..1 + random.below(2) {
            match random.below(10) {
                0..=5 => changes.update(database, random),
                6..=7 => changes.insert(database, random),
                _ => changes.delete(database, random),
            }
        }
    }
    let pause = life.pause(random);
    if !pause.is_empty() {
        changes.add(&pause);
    }
}

/// Endless checkpoints.
fn checkpoints(life: &Life, _place: i64, mut random: SplitMix64) {
    let mut session = life.session();
    while life.goes_on() {
        let database = if random.below(3) == 0 { "b" } else { "a" };
        if life.expect(client::answer(&mut session, &format!("USE {database}; CHECKPOINT")).1, "CHECKPOINT") {
            life.note(&format!("checkpoint {database}"));
        }
        // A random pause, so that checkpoints and writers overlap differently in each life. Nothing is expected to be
        // done by then.
        std::thread::sleep(Duration::from_millis(random.below(life.character.checkpoint_pause_ms + 1)));
    }
}

/// Creates and drops databases, and changes several of them in one transaction.
fn databases(life: &Life, place: i64, mut random: SplitMix64) {
    let mut session = life.session();
    let mut there = life.there.clone();
    let (mut count, mut made) = (0, 0);
    while life.goes_on() {
        match random.below(6) {
            0 | 1 if there.len() < 3 => {
                made += 1;
                let name = format!("x{}_{made}", life.number);
                life.note(&format!("creating {name}"));
                let made = format!("USE {name}; {LEDGER}");
                let made = [create(&name), made, "USE master".to_owned()];
                if made.iter().all(|batch| life.expect(client::answer(&mut session, batch).1, batch)) {
                    life.note(&format!("created {name}"));
                    there.push(name);
                }
            }
            2 if there.len() > 1 => {
                // The oldest decides for the others.
                let name = there.remove(usize::try_from(random.below(2)).expect("two"));
                life.note(&format!("dropping {name}"));
                let drop = format!("DROP DATABASE {name}");
                if life.expect(client::answer(&mut session, &drop).1, &drop) {
                    life.note(&format!("dropped {name}"));
                }
            }
            _ if !there.is_empty() => {
                count += 1;
                let tid = life.transaction(place, count);
                let mut changes = Changes::new(tid);
                let keeps = random.below(4) > 0;
                changes.set_void(!keeps);
                let mut databases: Vec<&str> = there.iter().map(String::as_str).collect();
                if random.below(3) == 0 {
                    databases.push("a");
                }
                databases.iter().for_each(|database| changes.line(database, "e", "0", "0"));
                life.transact(&mut session, tid, &databases, &changes.into_text(), keeps);
            }
            _ => {}
        }
    }
}

/// Loads, creation and removal of tables, rebuilds of indexes.
fn loads(life: &Life, place: i64, mut random: SplitMix64) {
    let mut session = life.session();
    let mut tables: Vec<i64> = Vec::new();
    for count in 0.. {
        if !life.goes_on() {
            return;
        }
        let tid = life.transaction(place, count);
        let mut changes = Changes::new(tid);
        let keeps = random.below(100) >= life.character.rollbacks_percent;
        changes.set_void(!keeps);
        let (mut makes, mut drops) = (false, None);
        match random.below(9) {
            0..=2 => changes.load("a", &mut random),
            3..=4 => {
                changes.select_into("a", &mut random);
                makes = true;
            }
            5..=6 if !tables.is_empty() => {
                let place = usize::try_from(random.below(tables.len() as u64)).expect("few");
                changes.drop_table("a", tables[place]);
                drops = Some(place);
            }
            7 => changes.truncate("a"),
            _ => changes.index("a", &mut random),
        }
        let pause = life.pause(&mut random);
        if !pause.is_empty() {
            changes.add(&pause);
        }
        changes.line("a", "e", "0", "0");
        if life.transact(&mut session, tid, &["a"], &changes.into_text(), keeps) {
            tables.extend(makes.then_some(tid));
            if let Some(place) = drops {
                tables.remove(place);
            }
        }
    }
}

/// Readers under SNAPSHOT: the rows that they see must follow from the ledger that they see.
fn read(life: &Life, _place: i64, mut random: SplitMix64) {
    let mut session = life.session();
    while life.goes_on() {
        let table = ["h", "c", "p"][usize::try_from(random.below(3)).expect("few")];
        let database = if random.below(3) == 0 { "b" } else { "a" };
        let text = format!(
            "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRANSACTION;
             DECLARE @s bigint = (SELECT SUM(bal) FROM {database}.dbo.{table}), @n bigint;
             SELECT @n = SUM(n) FROM {database}.dbo.{table};
             SELECT @s - COALESCE(SUM(delta), 0), @n - COUNT(*) FROM {database}.dbo.ledger WHERE tbl = '{table}'; COMMIT"
        );
        match client::rows(&mut session, &text) {
            Ok(rows) if rows == [["0", "0"]] => {}
            Ok(rows) => life.note(&format!("wrong snapshot of {database}.{table}: {rows:?}")),
            Err(error) => {
                if !EXPECTED.contains(&error.number) {
                    life.expect(Some(error), &text);
                }
                client::answer(&mut session, "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION");
            }
        }
    }
}
