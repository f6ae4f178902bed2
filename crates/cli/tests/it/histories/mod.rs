//! Concurrent sessions of all isolation levels with random operations on the same few rows. What they saw is then
//! checked against the promises of each level ([0036](../../../../../docs/design/0036-histories.md)).
//!
//! ```text
//!   script.rs    the operations of a session, from a seed
//!   player.rs    runs them, and records the results, each between two moments of one clock
//!   versions.rs  the versions of each row in order: rows contain the list of their changes
//!   check.rs     checks what every statement saw
//!   ranges.rs    which rows a range of keys, or a part, must contain
//!   graph.rs     the dependencies between transactions
//! ```
//!
//! The checks: A transaction reads nothing that did not commit, was rolled back to a savepoint, or was changed again
//! before the commit. It sees what had been committed before. Rows that exist throughout are found exactly once. A
//! transaction sees its own changes, and none that it has rolled back. `REPEATABLE READ`, `SERIALIZABLE` and `SNAPSHOT`
//! see rows as they saw them before; the latter two see no new rows. The total of money that is only transferred is
//! constant at each moment. No committed change is lost. The reads of a statement under versions, or of a transaction
//! under `SNAPSHOT`, are of one moment. Writers, and readers that keep their locks, have a serial order. At the end,
//! indexes agree with their tables.
//!
//! `HOBT_HISTORY_SECONDS` sets the duration (default 15), `HOBT_SEED` the first round. A failure prints its round's
//! seed, which reproduces the scripts, but not the interleaving of threads.

mod check;
mod graph;
mod history;
mod own;
mod player;
mod ranges;
mod script;
mod tables;
mod versions;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use hobt::{Instance, Session};
use hobt_base::SplitMix64;

use crate::client::{answer, setting};
use history::{Row, Transaction};
use player::{Shared, play, row_of};
use tables::{FORMS, OF_DATABASE, RoundTable};

/// Sessions per round.
const SESSIONS: usize = 6;
/// Transactions per session.
const TRANSACTIONS: usize = 30;
/// Tables per round, so that transactions use several.
const TABLES: usize = 2;
/// At least one in this many transactions must commit.
const COMMITTED_ONE_OF: usize = 4;
/// The number of errors shown per round.
const SHOWN: usize = 3;

#[test]
fn what_sessions_see_beside_each_other_is_what_their_levels_promise() {
    let seconds = Duration::from_secs(setting("HOBT_HISTORY_SECONDS", 15));
    let first = setting("HOBT_SEED", 1);
    let began = Instant::now();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let instance = Instance::open(folder.path()).expect("an instance");
    for (database, versions) in [("locks", "OFF"), ("versions", "ON")] {
        let mut session = instance.session().expect("a session");
        session.run(&format!("CREATE DATABASE {database}")).expect("a database");
        let options = [format!("READ_COMMITTED_SNAPSHOT {versions}"), "ALLOW_SNAPSHOT_ISOLATION ON".to_owned()];
        for option in options {
            session.run(&format!("ALTER DATABASE {database} SET {option}")).expect("an option");
        }
        session.run(&format!("USE {database}")).expect("the database");
        OF_DATABASE.iter().for_each(|batch| session.run(batch).expect("a partition scheme"));
    }
    let (mut rounds, mut transactions, mut steps, mut asked, mut errors) = (0, 0, 0, 0, BTreeMap::new());
    while rounds == 0 || began.elapsed() < seconds {
        let seed = first + rounds;
        let (played, of_ranges) = round(&instance, seed);
        asked += of_ranges;
        transactions += played.iter().filter(|transaction| transaction.is_committed).count();
        steps += played.iter().map(|transaction| transaction.steps.len()).sum::<usize>();
        for error in played.iter().flat_map(|transaction| &transaction.steps).filter_map(|step| step.error) {
            *errors.entry(error).or_insert(0) += 1;
        }
        rounds += 1;
    }
    println!("{rounds} rounds, {transactions} committed transactions, {steps} statements in {:?}", began.elapsed());
    println!("rows asked of ranges: {asked}; errors by number: {errors:?}");
    assert!(asked > 0, "no range was asked for a row");
    // Sessions that only receive errors could not see anything wrong.
    let (planned, failed) = (rounds as usize * SESSIONS * TRANSACTIONS, errors.values().sum::<usize>());
    assert!(transactions * COMMITTED_ONE_OF >= planned && failed * 2 < steps, "{failed} of {steps} statements failed");
}

/// Runs a round and checks it.
fn round(instance: &Instance, seed: u64) -> (Vec<Transaction>, u64) {
    let mut random = SplitMix64::new(seed);
    let has_versions = random.next_u64().is_multiple_of(2);
    let database = if has_versions { "versions" } else { "locks" };
    let forms: BTreeSet<usize> =
        (0..TABLES).map(|_| usize::try_from(random.next_u64() % FORMS.len() as u64).expect("a few")).collect();
    let tables: Vec<RoundTable> = forms.iter().map(|form| RoundTable::new(seed, &FORMS[*form])).collect();
    let session = || {
        let mut session = instance.session().expect("a session");
        session.run(&format!("USE {database}")).expect("the database");
        session
    };
    let mut owner = session();
    for batch in tables.iter().flat_map(RoundTable::setup) {
        owner.run(&batch).unwrap_or_else(|error| panic!("{batch}: {error}"));
    }
    let shared = Shared {
        tables: &tables,
        has_versions,
        transactions: TRANSACTIONS,
        clock: AtomicU64::new(1),
        tokens: AtomicU32::new(1),
    };
    let transactions: Vec<Transaction> = std::thread::scope(|scope| {
        let begin = |thread: usize| {
            let (mut session, seed, shared) = (session(), random.next_u64(), &shared);
            if thread % 2 == 1 {
                // Statements by key run without a plan if possible.
                session.run("DBCC TRACEON (30002)").expect("a trace flag");
            }
            scope.spawn(move || play(shared, session, thread, seed))
        };
        let threads: Vec<_> = (0..SESSIONS).map(begin).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    let last: Vec<Vec<Row>> = tables.iter().map(|table| rows(&mut owner, &table.name)).collect();
    let (wrong, asked) = check::check(&transactions, &last);
    if !wrong.is_empty() {
        let named: Vec<String> = tables.iter().map(|table| format!("{:?}", table.setup())).collect();
        println!("\nround {seed}, database {database}, tables\n{}", named.join("\n"));
        for (text, involved) in wrong.iter().take(SHOWN) {
            println!("\nWRONG: {text}");
            let involved: BTreeSet<&usize> = involved.iter().collect();
            involved.into_iter().for_each(|at| println!("{}", transactions[*at]));
        }
        panic!("round {seed}: {} things are wrong, the first: {}", wrong.len(), wrong[0].0);
    }
    for table in &tables {
        let batch = format!("DBCC CHECKTABLE ({}) WITH NO_INFOMSGS", table.name);
        owner.run(&batch).unwrap_or_else(|error| panic!("round {seed}: {batch}: {error}"));
        owner.run(&format!("DROP TABLE {}", table.name)).expect("the table goes");
    }
    (transactions, asked)
}

/// The rows of a table.
fn rows(session: &mut Session, table: &str) -> Vec<Row> {
    let (rows, failed) = answer(session, &format!("SELECT id, k, p, bal, log FROM {table}"));
    assert_eq!(failed, None, "{table}");
    rows.iter().map(|cells| row_of(cells)).collect()
}
