//! Checkpoints during drops of databases and tables and during loads, with a power failure in between.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use hobt::Session;
use hobt_base::SplitMix64;

use super::World;
use crate::client;

const LIVES: u64 = 6;
/// Rows of a load: a few runs of extents.
const ROWS: u64 = 4_000;

/// The possible numbers of rows of each object after the power failure. `None` if it may not exist.
type Truth = BTreeMap<String, Vec<Option<u64>>>;

/// The work of a thread until the power fails, and its knowledge then.
struct Worker<'w> {
    world: &'w World,
    stop: &'w AtomicBool,
    random: SplitMix64,
    prefix: String,
    truth: Truth,
}

impl Worker<'_> {
    /// Runs a batch that changes `name` to `becomes`. Returns whether it was acknowledged.
    fn step(&mut self, session: &mut Session, batch: &str, name: &str, becomes: Option<u64>) -> bool {
        let known = self.truth.entry(name.to_owned()).or_insert_with(|| vec![None]);
        known.push(becomes);
        let failed = client::answer(session, batch).1;
        match &failed {
            None => *known = vec![becomes],
            Some(error) => assert!(self.world.disk.is_off(), "{batch}: {error}"),
        }
        failed.is_none() && !self.stop.load(Ordering::SeqCst)
    }

    fn rows(&mut self) -> u64 {
        1 + self.random.below(ROWS)
    }

    fn databases(&mut self) {
        let mut session = self.world.session_in("master");
        for number in 0.. {
            let (name, rows) = (format!("x{}_{number}", self.prefix), self.rows());
            let makes = format!("CREATE DATABASE {name} ON (NAME = f, FILENAME = '{name}.mdf', SIZE = 4MB)");
            let loads = format!(
                "SELECT value AS n, REPLICATE('x', 100) AS s INTO {name}.dbo.t FROM GENERATE_SERIES(1, {rows})"
            );
            let goes_on = self.step(&mut session, &makes, &name, Some(0))
                && self.step(&mut session, &loads, &name, Some(rows))
                && self.step(&mut session, &format!("USE {name}; CHECKPOINT; USE master"), &name, Some(rows))
                && (self.random.below(4) == 0
                    || self.step(&mut session, &format!("DROP DATABASE {name}"), &name, None));
            if !goes_on {
                return;
            }
        }
    }

    fn tables(&mut self) {
        let mut session = self.world.session();
        for number in 0.. {
            let (name, rows) = (format!("t{}_{number}", self.prefix), self.rows());
            let loads =
                format!("SELECT value AS n, REPLICATE('x', 100) AS s INTO {name} FROM GENERATE_SERIES(1, {rows})");
            let more = format!(
                "INSERT {name} WITH (TABLOCK) SELECT value, REPLICATE('y', 100) FROM GENERATE_SERIES(1, {rows})"
            );
            let goes_on = self.step(&mut session, &loads, &name, Some(rows))
                && self.step(&mut session, &more, &name, Some(2 * rows))
                && (self.random.below(4) == 0 || self.step(&mut session, &format!("DROP TABLE {name}"), &name, None));
            if !goes_on {
                return;
            }
        }
    }

    fn loads(&mut self) {
        let mut session = self.world.session();
        let (name, mut there) = (format!("loaded{}", self.prefix), 0);
        if !self.step(&mut session, &format!("CREATE TABLE {name} (n int, s varchar(100))"), &name, Some(0)) {
            return;
        }
        loop {
            let rows = self.rows();
            let load = format!(
                "INSERT {name} WITH (TABLOCK) SELECT value, REPLICATE('z', 100) FROM GENERATE_SERIES(1, {rows})"
            );
            there += rows;
            if !self.step(&mut session, &load, &name, Some(there)) {
                return;
            }
        }
    }

    fn checkpoints(&mut self) {
        let mut session = self.world.session();
        while !self.stop.load(Ordering::SeqCst) {
            if let Some(error) = client::answer(&mut session, "CHECKPOINT").1 {
                assert!(self.world.disk.is_off(), "CHECKPOINT: {error}");
                return;
            }
            (0..self.random.below(200)).for_each(|_| std::thread::yield_now());
        }
    }
}

type Part = fn(&mut Worker<'_>);

/// The number of rows of a database's table, or of a table.
fn rows_of(session: &mut Session, name: &str) -> Option<u64> {
    let count = |session: &mut Session, table: &str| client::number(session, &format!("SELECT COUNT(*) FROM {table}"));
    let is_there = |session: &mut Session, what: &str| client::number(session, &format!("SELECT COUNT({what})")) > 0;
    let found = match name.starts_with('x') {
        true if !is_there(session, &format!("DB_ID('{name}')")) => return None,
        true if !is_there(session, &format!("OBJECT_ID('{name}.dbo.t')")) => 0,
        true => count(session, &format!("{name}.dbo.t")),
        false if !is_there(session, &format!("OBJECT_ID('{name}')")) => return None,
        false => count(session, name),
    };
    Some(u64::try_from(found).expect("a count"))
}

#[test]
fn what_is_dropped_and_loaded_beside_checkpoints_is_there_as_acknowledged() {
    let mut world = World::new();
    let mut truth = Truth::new();
    for life in 1..=LIVES {
        let mut random = SplitMix64::new(life);
        let reach = 50 + random.below(1_500);
        let stop = AtomicBool::new(false);
        world.disk.crash_at(world.disk.changes() + reach, random.next_u64());
        let parts: [Part; 4] = [
            |worker| worker.databases(),
            |worker| worker.tables(),
            |worker| worker.loads(),
            |worker| worker.checkpoints(),
        ];
        let (shared, stop) = (&world, &stop);
        let known: Vec<Truth> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..)
                .zip(parts)
                .map(|(place, part)| {
                    let random = SplitMix64::new(random.next_u64());
                    let mut worker =
                        Worker { world: shared, stop, random, prefix: format!("{life}_{place}"), truth: Truth::new() };
                    scope.spawn(move || {
                        part(&mut worker);
                        worker.stop.store(true, Ordering::SeqCst);
                        worker.truth
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert!(world.disk.is_off(), "life {life}: work ends by the power failure alone");
        world.lose_power(life);
        let story = format!("life {life}, a cut behind {reach} operations");
        world.start_again(&story);
        truth.extend(known.into_iter().flatten());
        let mut session = world.session();
        for (name, known) in &mut truth {
            let found = rows_of(&mut session, name);
            assert!(known.contains(&found), "{story}: {name} has {found:?} rows, {known:?} are expected");
            *known = vec![found];
        }
        // Files of dropped databases must not reappear, and all others must exist.
        let others = client::ok(&mut session, "SELECT name FROM sys.databases WHERE name LIKE 'x%'");
        assert!(others.iter().all(|row| truth.get(&row[0]).is_some_and(|known| known[0].is_some())), "{story}");
    }
    let gone = truth.values().filter(|known| known[0].is_none()).count();
    println!("{} databases and tables, {gone} gone", truth.len());
    assert!(gone > 0 && gone < truth.len(), "{gone} of {} are gone", truth.len());
}
