//! The program is killed repeatedly during its work: what it had acknowledged is kept, and nothing is there partially.
//!
//! Acknowledgements are recorded outside the program: each batch prints a number when it has committed, and printed
//! numbers count. `HOBT_KILLS` sets the number of kills (default 20).

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use hobt_base::SplitMix64;

use crate::client::setting;

/// After this time no further life is begun.
const TIME_MAX: Duration = Duration::from_secs(45);
/// More than the slowest machine needs for a batch.
const STUCK: Duration = Duration::from_secs(120);
/// The file for the program's errors.
const ERRORS: &str = "stderr";
/// Batches per life, more than it has time for.
const BATCHES: i64 = 20_000;

fn start(folder: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hobt"));
    command.args(["sql", "--data", "data", "-d", "shop", "-W", "-h", "-1"]).current_dir(folder);
    let errors = std::fs::File::options().create(true).append(true).open(folder.join(ERRORS)).expect("a file");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
    command.spawn().expect("the program")
}

/// Kills a program that is still running and has written no errors. A program that ended by itself fails the test.
fn kill(mut child: Child, folder: &Path) {
    let by_itself = child.try_wait().expect("its state");
    child.kill().expect("it is there, or has ended");
    child.wait().expect("it has ended");
    let errors = std::fs::read_to_string(folder.join(ERRORS)).expect("what it said");
    assert!(by_itself.is_none() && errors.is_empty(), "the program ended: {by_itself:?}, and said: {errors}");
}

/// Runs batches to their end. Returns their output.
fn sql(folder: &Path, database: &str, input: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hobt"));
    command.args(["sql", "--data", "data", "-d", database, "-W", "-h", "-1", "-b", "-Q", input]).current_dir(folder);
    let output = command.output().expect("the program");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !errors.contains("panicked"), "{input}\n{text}\n{errors}");
    text
}

/// The text of a batch, which ends by printing its number.
fn batch(number: i64, random: &mut SplitMix64) -> String {
    let work = match random.below(13) {
        // Both rows or none.
        0..=2 => format!(
            "BEGIN TRANSACTION; INSERT journal VALUES ({number}); INSERT twin VALUES ({number}); COMMIT TRANSACTION;"
        ),
        3 => format!(
            "BEGIN TRANSACTION; INSERT twin VALUES (-1); INSERT journal VALUES (-1); ROLLBACK TRANSACTION; \
             BEGIN TRANSACTION; INSERT journal VALUES ({number}); INSERT twin VALUES ({number}); COMMIT;"
        ),
        4 => format!(
            "BEGIN TRANSACTION; DELETE scratch WHERE id % 3 = 0; UPDATE scratch SET id = id + 1 WHERE id % 5 = 0; \
             INSERT journal VALUES ({number}); INSERT twin VALUES ({number}); COMMIT;"
        ),
        5 => format!(
            "BEGIN TRANSACTION; TRUNCATE TABLE scratch; INSERT journal VALUES ({number}); \
             INSERT twin VALUES ({number}); COMMIT;"
        ),
        6 => format!(
            "IF OBJECT_ID('copy') IS NOT NULL DROP TABLE copy; SELECT * INTO copy FROM scratch; \
             BEGIN TRANSACTION; INSERT journal VALUES ({number}); INSERT twin VALUES ({number}); COMMIT;"
        ),
        7 => format!(
            "INSERT scratch SELECT object_id, REPLICATE('x', 200) FROM sys.all_objects; CHECKPOINT; \
             BEGIN TRANSACTION; INSERT journal VALUES ({number}); INSERT twin VALUES ({number}); COMMIT;"
        ),
        8 => format!(
            "DROP INDEX IF EXISTS by_id ON scratch; CREATE INDEX by_id ON scratch (id DESC) INCLUDE (text); \
             BEGIN TRANSACTION; INSERT journal VALUES ({number}); INSERT twin VALUES ({number}); COMMIT;"
        ),
        9 => format!(
            "BEGIN TRANSACTION; ALTER INDEX ALL ON scratch REBUILD; UPDATE scratch SET id = id + 1 WHERE id % 7 = 0; \
             INSERT journal VALUES ({number}); INSERT twin VALUES ({number}); COMMIT;"
        ),
        _ => format!(
            "INSERT scratch VALUES ({number}, REPLICATE('y', 300)); BEGIN TRANSACTION; \
             INSERT journal VALUES ({number}); INSERT twin VALUES ({number}); COMMIT;"
        ),
    };
    format!("SET NOCOUNT ON; {work} PRINT 'done {number}';\nGO\n")
}

/// The numbers of a table.
fn numbers(folder: &Path, table: &str) -> Vec<i64> {
    let text = sql(folder, "shop", &format!("SET NOCOUNT ON; SELECT id FROM {table} ORDER BY id"));
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

/// Feeds batches from `first` on, and kills the program at some moment. Returns the numbers that it acknowledged, in
/// order, and the number after the last batch that it was given.
fn live_and_die(folder: &Path, first: i64, random: &mut SplitMix64) -> (Vec<i64>, i64) {
    let mut child = start(folder);
    let mut input = child.stdin.take().expect("a pipe");
    let output = child.stdout.take().expect("a pipe");
    let batches: Vec<String> = (first..first + BATCHES).map(|number| batch(number, random)).collect();
    let feeder = std::thread::spawn(move || {
        // The thread ends when the pipe breaks.
        let _broken = batches.iter().try_for_each(|batch| input.write_all(batch.as_bytes()));
    });
    let kill_after = Duration::from_millis(20 + random.below(700));
    let wanted = usize::try_from(random.below(4)).expect("small");
    let (sender, receiver) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = String::new();
        // The last line may be incomplete.
        while output.read_line(&mut line).is_ok() && line.ends_with('\n') {
            let whole = std::mem::take(&mut line);
            if !whole.trim().is_empty() && sender.send(whole).is_err() {
                return;
            }
        }
    });
    // Any other line is the text of an error.
    let number = |line: String| {
        let number = line.trim().strip_prefix("done ").and_then(|number| number.parse::<i64>().ok());
        number.unwrap_or_else(|| panic!("the program said: {line}"))
    };
    // Nothing is asserted before the kill: a test that panics would leave the program running.
    let (mut lines, mut is_stuck) = (Vec::new(), false);
    // It has started once it has acknowledged something; some are killed before.
    while lines.len() < wanted && !is_stuck {
        match receiver.recv_timeout(STUCK) {
            Ok(line) => lines.push(line),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => is_stuck = true,
        }
    }
    let deadline = Instant::now() + kill_after;
    while let Ok(line) = receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        lines.push(line);
    }
    kill(child, folder);
    assert!(!is_stuck, "stuck: no batch has ended for {} s", STUCK.as_secs());
    let acknowledged = lines.into_iter().chain(receiver.iter()).map(number).collect();
    reader.join().expect("the reader");
    feeder.join().expect("the feeder");
    (acknowledged, first + BATCHES)
}

#[test]
fn a_killed_program_has_lost_nothing_that_it_acknowledged() {
    let kills = setting("HOBT_KILLS", 20);
    let is_long = std::env::var_os("HOBT_KILLS").is_some();
    let mut random = SplitMix64::new(setting("HOBT_SEED", 1));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    sql(folder, "master", "CREATE DATABASE shop");
    let tables = "CREATE TABLE journal (id bigint NOT NULL PRIMARY KEY NONCLUSTERED); CREATE TABLE twin (id bigint NOT NULL); \
                  CREATE TABLE scratch (id bigint NOT NULL, text varchar(400)); CREATE INDEX by_id ON scratch (id); \
                  CREATE INDEX by_text ON scratch (text DESC, id)";
    sql(folder, "shop", tables);
    let (mut all, mut next, mut done) = (BTreeSet::new(), 1, 0);
    let since = Instant::now();
    while done < kills && (is_long || since.elapsed() < TIME_MAX) {
        let first = next;
        let (acknowledged, behind) = live_and_die(folder, first, &mut random);
        next = behind;
        done += 1;
        let last = acknowledged.last().copied().unwrap_or(first - 1);
        assert_eq!(acknowledged, (first..=last).collect::<Vec<_>>(), "all batches succeed, one after the other");
        all.extend(acknowledged);
        // This start recovers. Sometimes it is killed too.
        if random.below(3) == 0 {
            let child = start(folder);
            // No event tells at which step recovery is: a random moment is intended here.
            std::thread::sleep(Duration::from_millis(random.below(60)));
            kill(child, folder);
        }
        let (journal, twin) = (numbers(folder, "journal"), numbers(folder, "twin"));
        assert_eq!(journal, twin, "kill {done}: a transaction is there by half");
        // Pages, extents and indexes must agree: an error ends the program with another code.
        sql(folder, "shop", "DBCC CHECKDB WITH NO_INFOMSGS");
        // The batch in progress may have been committed without being acknowledged.
        let found: BTreeSet<i64> = journal.iter().copied().collect();
        assert_eq!(found.len(), journal.len(), "kill {done}: a row is there twice");
        let lost: Vec<_> = all.difference(&found).collect();
        assert!(lost.is_empty(), "kill {done}: acknowledged and lost: {lost:?}");
        let surplus: Vec<i64> = found.difference(&all).copied().collect();
        assert!(surplus.iter().all(|&number| number > last) && surplus.len() <= 64, "kill {done}: {surplus:?}");
        // From now on it is known to exist.
        all = found;
    }
    println!("{done} kills, {} commits acknowledged", all.len());
    assert!(done >= 5 && !all.is_empty(), "{done} kills");
}
