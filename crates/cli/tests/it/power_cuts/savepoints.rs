//! A transaction with 10,000 nested savepoints, concurrent with readers of every isolation level.
//!
//! Uncommitted values are negative, so a reader that sees one is detected by the minimum. A committed state is
//! identified by four sums. A reader must have read a state that was committed at some time during the read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};

use hobt::Session;
use hobt_base::SplitMix64;

use super::World;
use crate::client;

/// The number of savepoints that exist at once.
const DEPTH: usize = 10_000;
/// The number of savepoints between two moments at which the transaction may roll back.
const STEPS: i64 = 500;
/// The number of changing rows of each table.
const ROWS: i64 = 200;
/// A row that never changes, and its value.
const STILL: (i64, i64) = (9_000_005, 77);
/// The number of reads by a reader during each `STEPS` savepoints.
const READS: u64 = 1;
/// The allowed bytes of memory per savepoint and the change after it.
const SAVEPOINT_BYTES_MAX: u64 = 4_000;

const SUMS: &str = "SELECT CONCAT(COUNT_BIG(*), ' ', COALESCE(SUM(CAST(v AS bigint)), 0), ' ', \
                    COALESCE(SUM(CAST(id AS bigint) * v), 0), ' ', COALESCE(MIN(v), 0)) FROM ";
/// The access paths to the tables. The first two are for the heap.
const PATHS: [&str; 4] = ["h", "h WITH (INDEX (h_v))", "c", "c WITH (INDEX (c_v))"];
const LEVELS: [(&str, &str); 5] = [
    ("READ COMMITTED", ", READCOMMITTEDLOCK"),
    ("READ COMMITTED", ""),
    ("REPEATABLE READ", ""),
    ("SNAPSHOT", ""),
    ("SERIALIZABLE", ""),
];

fn setup() -> String {
    format!(
        "ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON; \
         CREATE TABLE h (id int NOT NULL, v int NOT NULL); CREATE INDEX h_id ON h (id); CREATE INDEX h_v ON h (v) INCLUDE (id); \
         CREATE TABLE c (id int NOT NULL PRIMARY KEY, v int NOT NULL); CREATE INDEX c_v ON c (v); \
         INSERT h SELECT value, value FROM GENERATE_SERIES(1, {ROWS}); INSERT h VALUES ({}, {}); \
         INSERT c SELECT id, v FROM h",
        STILL.0, STILL.1
    )
}

/// The change after savepoint `@i`: of rows of the tree, or a row inserted into the heap. Rarely a row of the heap is
/// changed or deleted, which takes a plan each time.
fn steps(from: i64, to: i64) -> String {
    format!(
        "SET NOCOUNT ON; DECLARE @i int = {from}, @row int, @name varchar(32); \
         WHILE @i < {to} BEGIN \
         SET @name = CONCAT('s', @i); SAVE TRANSACTION @name; SET @row = 1 + (@i * 37 + @i / 500) % {ROWS}; \
         IF @i % 500 = 0 UPDATE h SET v = -@i WHERE id = @row \
         ELSE IF @i % 500 = 250 DELETE h WHERE id = @row \
         ELSE IF @i % 4 = 0 INSERT h VALUES (10000 + @i, -@i) \
         ELSE IF @i % 8 = 2 INSERT c VALUES (10000 + @i, -@i) \
         ELSE IF @i % 16 = 3 DELETE c WHERE id = 9999 + @i \
         ELSE IF @i % 16 = 11 DELETE c WHERE id = @row \
         ELSE UPDATE c SET v = -@i WHERE id = @row; \
         SET @i += 1 END"
    )
}

/// The state of a row before a change: the table, the row's id, and its value if it existed.
type PutAway = (usize, i64, Option<i64>);

/// The rows of both tables, the heap's first.
#[derive(Clone, Default)]
struct Model {
    tables: [BTreeMap<i64, i64>; 2],
    /// For each existing savepoint, its number and the row state that its change replaced.
    savepoints: Vec<(i64, Option<PutAway>)>,
}

impl Model {
    fn put(&mut self, table: usize, id: i64, value: Option<i64>) -> Option<i64> {
        match value {
            Some(value) => self.tables[table].insert(id, value),
            None => self.tables[table].remove(&id),
        }
    }

    /// As [`steps`].
    fn step(&mut self, i: i64) {
        let row = 1 + (i * 37 + i / 500) % ROWS;
        let (table, id, value) = match (i % 500, i % 4, i % 8, i % 16) {
            (0, ..) => (0, row, self.tables[0].get(&row).map(|_| -i)),
            (250, ..) => (0, row, None),
            (_, 0, ..) => (0, 10_000 + i, Some(-i)),
            (_, _, 2, _) => (1, 10_000 + i, Some(-i)),
            (_, _, _, 3) => (1, 9_999 + i, None),
            (_, _, _, 11) => (1, row, None),
            _ => (1, row, self.tables[1].get(&row).map(|_| -i)),
        };
        let before = self.put(table, id, value);
        self.savepoints.push((i, Some((table, id, before))));
    }

    /// Rolls back to the savepoint at an index, which is kept. Returns its name.
    fn back_to(&mut self, place: usize) -> String {
        while self.savepoints.len() > place {
            let (number, change) = self.savepoints.pop().expect("more than that");
            if let Some((table, id, before)) = change {
                self.put(table, id, before);
            }
            if self.savepoints.len() == place {
                self.savepoints.push((number, None));
                return format!("s{number}");
            }
        }
        unreachable!("there is a savepoint at {place}")
    }

    fn back_to_all(&mut self) {
        if !self.savepoints.is_empty() {
            self.back_to(0);
        }
        self.savepoints.clear();
    }

    fn commit(&mut self) {
        self.savepoints.clear();
        self.tables.iter_mut().flat_map(BTreeMap::values_mut).for_each(|value| *value = value.abs());
    }

    /// The expected result of each of [`PATHS`].
    fn sums(&self) -> [String; 4] {
        let [heap, tree] = self.tables.each_ref().map(|rows| {
            let products: i64 = rows.iter().map(|(id, value)| id * value).sum();
            let least = rows.values().min().copied().unwrap_or(0);
            format!("{} {} {products} {least}", rows.len(), rows.values().sum::<i64>())
        });
        [heap.clone(), heap, tree.clone(), tree]
    }
}

/// The readers' knowledge of the writer.
#[derive(Default)]
struct Shared {
    /// The committed states. While `phase` is odd, the last one is still being committed.
    states: Mutex<Vec<[String; 4]>>,
    /// Twice the number of commits, plus one while a commit is running.
    phase: AtomicUsize,
    /// The number of [`STEPS`] begun, and whether there are no more.
    begun: Mutex<(u64, bool)>,
    wakes: Condvar,
    /// The number of reads of each level.
    granted: [AtomicU64; LEVELS.len()],
}

impl Shared {
    fn begin_steps(&self, is_last: bool) {
        let mut begun = self.begun.lock().expect("no panic");
        *begun = (begun.0 + 1, is_last);
        self.wakes.notify_all();
    }

    /// Waits for steps after `seen`. `None` after the last.
    fn wait(&self, seen: u64) -> Option<u64> {
        let mut begun = self.begun.lock().expect("no panic");
        while begun.0 == seen && !begun.1 {
            begun = self.wakes.wait(begun).expect("no panic");
        }
        (!begun.1).then_some(begun.0)
    }

    /// Whether a result was committed at some time since `phase`.
    fn is_committed(&self, phase: usize, path: usize, found: &str) -> bool {
        let until = self.phase.load(Ordering::SeqCst).div_ceil(2);
        self.states.lock().expect("no panic")[phase / 2..=until].iter().any(|state| state[path] == found)
    }
}

/// Reads until there are no more steps.
fn read(shared: &Shared, mut session: Session, level: usize) {
    let (name, hint) = LEVELS[level];
    let mut random = SplitMix64::new(level as u64);
    client::ok(
        &mut session,
        &format!("SET TRANSACTION ISOLATION LEVEL {name}; SET LOCK_TIMEOUT 2; SET DEADLOCK_PRIORITY LOW"),
    );
    let mut seen = 0;
    while let Some(begun) = shared.wait(seen) {
        seen = begun;
        for _ in 0..READS {
            let read = match (name, random.below(2)) {
                ("SNAPSHOT", _) => read_one_moment(shared, &mut session),
                (_, 0) => read_row(&mut session, hint, random.below(2) == 0),
                _ => {
                    let path = usize::try_from(random.below(4)).expect("few");
                    read_all(shared, &mut session, level, path)
                }
            };
            shared.granted[level].fetch_add(u64::from(read), Ordering::Relaxed);
        }
    }
}

/// The only value of a query. `None` if it waits too long for a lock.
fn value(session: &mut Session, query: &str) -> Option<String> {
    match client::rows(session, query) {
        Ok(rows) => Some(rows[0][0].clone()),
        Err(error) => {
            assert!([1222, 1205].contains(&error.number), "{query}: {error}");
            None
        }
    }
}

fn hinted(path: &str, hint: &str) -> String {
    match (hint.strip_prefix(", "), path.strip_suffix(')')) {
        (None, _) => path.to_owned(),
        (Some(_), Some(path)) => format!("{path}{hint})"),
        (Some(hint), None) => format!("{path} WITH ({hint})"),
    }
}

fn read_row(session: &mut Session, hint: &str, of_heap: bool) -> bool {
    let table = hinted(if of_heap { "h" } else { "c" }, hint);
    let found = value(session, &format!("SELECT v FROM {table} WHERE id = {}", STILL.0));
    assert!(found.as_ref().is_none_or(|found| *found == STILL.1.to_string()), "{found:?}");
    found.is_some()
}

fn read_all(shared: &Shared, session: &mut Session, level: usize, path: usize) -> bool {
    let query = format!("{SUMS}{}", hinted(PATHS[path], LEVELS[level].1));
    let phase = shared.phase.load(Ordering::SeqCst);
    let Some(found) = value(session, &query) else { return false };
    assert!(!found.contains('-'), "{:?} sees what was not committed: {query}: {found}", LEVELS[level]);
    // Rows that are locked one after the other may belong to different states.
    if level == 1 || LEVELS[level].0 == "SERIALIZABLE" {
        assert!(shared.is_committed(phase, path, &found), "{:?}: {query}: {found}", LEVELS[level]);
    }
    true
}

/// All reads of a transaction under a snapshot must be of one moment.
fn read_one_moment(shared: &Shared, session: &mut Session) -> bool {
    let phase = shared.phase.load(Ordering::SeqCst);
    client::ok(session, "BEGIN TRANSACTION");
    let mut read = || PATHS.map(|path| value(session, &format!("{SUMS}{path}")).expect("it waits for nobody"));
    let found = [read(), read()];
    client::ok(session, "COMMIT");
    assert_eq!(found[0], found[1], "a snapshot changes");
    let states = shared.states.lock().expect("no panic");
    let until = shared.phase.load(Ordering::SeqCst).div_ceil(2);
    assert!(states[phase / 2..=until].contains(&found[0]), "{found:?} is none of {states:?}");
    true
}

/// The writing transactions, concurrent with the readers.
struct Writer<'w> {
    world: &'w World,
    shared: &'w Shared,
    session: Session,
    model: Model,
    random: SplitMix64,
    /// The number of the next savepoint.
    next: i64,
    used_max: u64,
}

impl Writer<'_> {
    fn used(&self) -> u64 {
        self.world.instance().server().instance().memory().used()
    }

    fn steps(&mut self) {
        self.shared.begin_steps(false);
        client::ok(&mut self.session, &steps(self.next, self.next + STEPS));
        (self.next..self.next + STEPS).for_each(|i| self.model.step(i));
        self.next += STEPS;
        self.used_max = self.used_max.max(self.used());
    }

    /// Rolls back to a savepoint, and checks that the tables are as they were then.
    fn back_to(&mut self, place: usize) {
        let name = self.model.back_to(place);
        client::ok(&mut self.session, &format!("ROLLBACK TRANSACTION {name}"));
        self.assert_own(&name);
    }

    fn assert_own(&mut self, after: &str) {
        for (path, expected) in PATHS.iter().zip(self.model.sums()) {
            assert_eq!(client::ok(&mut self.session, &format!("{SUMS}{path}")), [[expected]], "{path} after {after}");
        }
    }

    /// Creates savepoints up to a depth, sometimes rolling back to an inner one.
    fn deepen(&mut self, depth: usize) {
        client::ok(&mut self.session, "IF @@TRANCOUNT = 0 BEGIN TRANSACTION");
        while self.model.savepoints.len() < depth {
            self.steps();
            if self.random.below(4) == 0 {
                let inner = usize::try_from(1 + self.random.below(60)).expect("few");
                self.back_to(self.model.savepoints.len() - inner);
            }
        }
    }

    fn commit(&mut self) {
        client::ok(&mut self.session, "UPDATE h SET v = -v WHERE v < 0; UPDATE c SET v = -v WHERE v < 0");
        self.model.commit();
        self.shared.states.lock().expect("no panic").push(self.model.sums());
        self.shared.phase.fetch_add(1, Ordering::SeqCst);
        self.shared.begin_steps(false);
        client::ok(&mut self.session, "COMMIT");
        self.shared.phase.fetch_add(1, Ordering::SeqCst);
        self.assert_own("the commit");
    }

    /// A commit, a full rollback, and a transaction that is left open.
    fn live(&mut self) {
        let before = self.used();
        self.deepen(DEPTH);
        let depth = self.model.savepoints.len() as u64;
        println!("{depth} savepoints, {} bytes for each", self.used_max.saturating_sub(before) / depth);
        assert!(self.used_max < before + depth * SAVEPOINT_BYTES_MAX, "{} of {before} bytes", self.used_max);
        for place in [DEPTH - 1, DEPTH / 10 * 9, DEPTH / 2] {
            self.back_to(place);
        }
        self.steps();
        self.back_to(DEPTH / 20);
        self.steps();
        self.commit();
        self.deepen(DEPTH / 10);
        self.back_to(0);
        self.steps();
        self.model.back_to_all();
        self.shared.begin_steps(false);
        client::ok(&mut self.session, "ROLLBACK");
        self.assert_own("the rollback");
        self.deepen(DEPTH / 5);
    }
}

#[test]
fn ten_thousand_savepoints_are_seen_by_nobody_and_end_as_they_should() {
    let mut world = World::new();
    let mut session = world.session();
    setup().split("; ").for_each(|batch| drop(client::ok(&mut session, batch)));
    client::ok(&mut session, "SET DEADLOCK_PRIORITY HIGH");
    let mut model = Model::default();
    let rows = (1..=ROWS).map(|id| (id, id)).chain([STILL]);
    model.tables = [rows.clone().collect(), rows.collect()];
    let shared = Shared::default();
    shared.states.lock().expect("no panic").push(model.sums());
    let sessions: Vec<Session> = LEVELS.iter().map(|_| world.session()).collect();
    let (mut writer, shared) = (
        Writer { world: &world, shared: &shared, session, model, random: SplitMix64::new(1), next: 1, used_max: 0 },
        &shared,
    );
    std::thread::scope(|scope| {
        for (level, session) in sessions.into_iter().enumerate() {
            scope.spawn(move || read(shared, session, level));
        }
        let lived = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| writer.live()));
        shared.begin_steps(true);
        lived.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    let granted = shared.granted.each_ref().map(|count| count.load(Ordering::Relaxed));
    println!("{} savepoints, reads of each level: {granted:?}", writer.next);
    assert!(granted.iter().all(|count| *count > 0), "{granted:?}");
    let Writer { session, mut model, .. } = writer;
    // Commits of other transactions make the log of the open transaction durable.
    client::ok(&mut world.session(), "CREATE TABLE told (n int NOT NULL)");
    world.disk.lose_power(1);
    drop(session);
    world.lose_power(1);
    world.start_again("an open transaction of many savepoints");
    model.back_to_all();
    let mut session = world.session();
    for (path, expected) in PATHS.iter().zip(model.sums()) {
        assert_eq!(client::ok(&mut session, &format!("{SUMS}{path}")), [[expected]], "{path} after the start");
    }
}
