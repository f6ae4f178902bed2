//! Scripts of concurrent sessions at whose end the process dies. Each has once lost data, invented data, or left a
//! database that could not be used.
//!
//! A script runs in a process of its own, which aborts: memory is lost, as with SIGKILL. Then the instance is started
//! and checked, twice. `HOBT_TIMES` sets how often each script runs (default once). The moments at which its sessions
//! meet differ each time. `HOBT_PLANT` names a deliberate bug (`hobt_instruments::planted`) for them. A failure keeps
//! its folder. Instances that are killed while they are created are a part of `crashes`.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use hobt::{Instance, Session};
use hobt_base::SplitMix64;

use crate::client::{answer, number, ok, panic_text, session_in, setting};
use crate::crashes::plant_what_is_asked;

/// The script that a process runs, its folder, and the moment at which its sessions meet.
const ORDERS: &str = "HOBT_ABORTED";
const SIGABRT: i32 = 6;
/// 9002: the log is full.
const LOG_FULL: i32 = 9002;
/// Transactions that are open when the log becomes full.
const OPEN: i64 = 600;

/// Moments are numbers below this.
const MOMENTS: u64 = 200;

/// A script that depends on a moment, and the required state of its database afterwards.
struct Script {
    name: &'static str,
    run: fn(&Path, u64),
    holds: fn(&Instance),
}

const SCRIPTS: [Script; 5] = [
    Script {
        name: "a transaction of two rows is rolled back beside a checkpoint",
        run: |folder, moment| {
            roll_back_beside_checkpoint(folder, moment, "UPDATE small SET v = -1; INSERT small VALUES (3, -1)")
        },
        holds: is_as_before,
    },
    Script {
        name: "a transaction of many rows is rolled back beside a checkpoint",
        run: |folder, moment| roll_back_beside_checkpoint(folder, moment, "UPDATE other SET v = -1, pad = 'u'"),
        holds: is_as_before,
    },
    Script {
        name: "a table is dropped beside a checkpoint",
        run: drop_beside_checkpoint,
        holds: |instance| {
            let mut session = session_in(instance, "d");
            assert_eq!(ok(&mut session, "SELECT OBJECT_ID('other')"), [["NULL"]]);
        },
    },
    Script {
        name: "a database that decided for another is dropped",
        run: drop_of_a_decider,
        holds: |instance| {
            let mut session = session_in(instance, "d");
            assert_eq!(number(&mut session, "SELECT COUNT(*) FROM crossed WHERE i = 7"), 1, "it was acknowledged");
            assert_eq!(ok(&mut session, "SELECT DB_ID('a')"), [["NULL"]]);
        },
    },
    Script {
        name: "transactions commit while the log is full",
        run: commit_in_a_full_log,
        holds: |instance| {
            let mut session = session_in(instance, "d");
            assert_eq!(number(&mut session, "SELECT COUNT(*) FROM t"), OPEN, "those were acknowledged");
            assert_eq!(number(&mut session, "SELECT COUNT(*) FROM big"), 0, "that was rolled back");
        },
    },
];

fn made(folder: &Path, statements: &str) -> Instance {
    let instance = Instance::open(folder).expect("an instance");
    ok(&mut instance.session().expect("a session"), "CREATE DATABASE d");
    ok(&mut session_in(&instance, "d"), statements);
    instance
}

/// Two rows, 20,000 others, and a table that takes a checkpoint a while to write.
const TABLES: &str = "CREATE TABLE small (id int NOT NULL PRIMARY KEY, v int NOT NULL);
    INSERT small VALUES (1, 1), (2, 2);
    CREATE TABLE other (id int NOT NULL PRIMARY KEY, v int NOT NULL, pad varchar(40) NOT NULL);
    INSERT other SELECT value, value, 'p' FROM GENERATE_SERIES(1, 20000);
    CREATE TABLE large (id int NOT NULL, v int NOT NULL, pad char(800) NOT NULL);
    INSERT large SELECT value, 0, 'p' FROM GENERATE_SERIES(1, 40000);
    CHECKPOINT";

fn is_as_before(instance: &Instance) {
    let mut session = session_in(instance, "d");
    assert_eq!(ok(&mut session, "SELECT id, v FROM small ORDER BY id"), [["1", "1"], ["2", "2"]]);
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM other WHERE id = v AND pad = 'p'"), 20_000);
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM large WHERE v = 1"), 40_000, "that was acknowledged");
}

/// Runs a checkpoint, and a statement `moment` milliseconds after its beginning. Aborts when both have ended.
fn beside_checkpoint(instance: &Instance, mut session: Session, moment: u64, statement: &str) -> ! {
    let mut checkpoints = session_in(instance, "d");
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(move || ok(&mut checkpoints, "CHECKPOINT"));
        ok(&mut session, &format!("WAITFOR DELAY '00:00:00.{moment:03}'; {statement}"));
        checkpoint.join().expect("the checkpoint");
    });
    std::process::abort()
}

fn roll_back_beside_checkpoint(folder: &Path, moment: u64, change: &str) {
    let instance = made(folder, TABLES);
    let mut writer = session_in(&instance, "d");
    ok(&mut writer, &format!("BEGIN TRANSACTION; {change}"));
    ok(&mut session_in(&instance, "d"), "UPDATE large SET v = 1");
    beside_checkpoint(&instance, writer, moment, "ROLLBACK");
}

fn drop_beside_checkpoint(folder: &Path, moment: u64) {
    let instance = made(folder, TABLES);
    let mut dropper = session_in(&instance, "d");
    ok(&mut dropper, "UPDATE large SET v = 1");
    beside_checkpoint(&instance, dropper, moment, "DROP TABLE other");
}

/// Does not depend on the moment.
fn drop_of_a_decider(folder: &Path, _moment: u64) {
    let instance = Instance::open(folder).expect("an instance");
    let mut session = instance.session().expect("a session");
    // The database created first decides.
    ok(
        &mut session,
        "CREATE DATABASE a; CREATE DATABASE d; CREATE TABLE a.dbo.crossed (i int); CREATE TABLE d.dbo.crossed (i int)",
    );
    ok(
        &mut session,
        "CHECKPOINT; BEGIN TRANSACTION; INSERT a.dbo.crossed VALUES (7); INSERT d.dbo.crossed VALUES (7); COMMIT",
    );
    ok(&mut session, "DROP DATABASE a");
    std::process::abort()
}

/// A checkpoint follows after this many commits; it may find no room.
fn commit_in_a_full_log(folder: &Path, moment: u64) {
    let instance = Instance::open(folder).expect("an instance");
    let log = "CREATE DATABASE d LOG ON (NAME = d_log, SIZE = 20MB, FILEGROWTH = 0)";
    ok(&mut instance.session().expect("a session"), log);
    let mut big = session_in(&instance, "d");
    ok(&mut big, "CREATE TABLE t (id int NOT NULL PRIMARY KEY); CREATE TABLE big (v char(2000) NOT NULL)");
    let begin = |id: i64| {
        let mut session = session_in(&instance, "d");
        ok(&mut session, &format!("BEGIN TRANSACTION; INSERT t VALUES ({id})"));
        session
    };
    let mut sessions: Vec<Session> = (1..=OPEN).map(begin).collect();
    ok(&mut big, "BEGIN TRANSACTION");
    for statement in ["INSERT big SELECT 'b' FROM GENERATE_SERIES(1, 100)", "INSERT big VALUES ('b')"] {
        let failed = std::iter::repeat_with(|| answer(&mut big, statement).1).find_map(|error| error);
        assert_eq!(failed.map(|error| error.number), Some(LOG_FULL));
    }
    for (at, session) in (0..).zip(&mut sessions) {
        if at == moment {
            let refused = answer(&mut session_in(&instance, "d"), "CHECKPOINT").1;
            assert!(refused.is_none_or(|error| error.number == LOG_FULL), "a checkpoint in a full log");
        }
        ok(session, "COMMIT");
    }
    ok(&mut big, "IF @@TRANCOUNT > 0 ROLLBACK");
    std::process::abort()
}

#[test]
fn a_script_in_a_process_of_its_own() {
    // Without orders there is nothing to do.
    let Ok(orders) = std::env::var(ORDERS) else { return };
    let words: Vec<&str> = orders.split('|').collect();
    plant_what_is_asked();
    let place: usize = words[0].parse().expect("a script");
    (SCRIPTS[place].run)(Path::new(words[1]), words[2].parse().expect("a moment"));
}

/// Starts the instance, checks it, and closes it.
fn look(script: &Script, folder: &Path) {
    let instance = Instance::open(folder).expect("it starts");
    let mut session = instance.session().expect("a session");
    let states = ok(&mut session, "SELECT name FROM sys.databases WHERE state_desc <> 'ONLINE'");
    assert!(states.is_empty(), "{states:?}");
    for row in ok(&mut session, "SELECT name FROM sys.databases WHERE name <> 'tempdb'") {
        ok(&mut session, &format!("DBCC CHECKDB ({}) WITH NO_INFOMSGS", row[0]));
    }
    (script.holds)(&instance);
    drop(session);
    instance.close().expect("it ends");
}

#[test]
fn what_was_acknowledged_is_there_and_what_was_not_is_not() {
    let mut random = SplitMix64::new(setting("HOBT_SEED", 1));
    for _ in 0..setting("HOBT_TIMES", 1) {
        for (place, script) in SCRIPTS.iter().enumerate() {
            let folder = tempfile::tempdir().expect("a temporary folder").keep();
            let moment = random.below(MOMENTS);
            let told = format!("{}, moment {moment}, kept: {}", script.name, folder.display());
            let mut command = Command::new(std::env::current_exe().expect("this program"));
            command.args(["aborted::a_script_in_a_process_of_its_own", "--exact", "--nocapture"]);
            command.env(ORDERS, format!("{place}|{}|{moment}", folder.display())).stdin(Stdio::null());
            let output = command.output().expect("the program");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.signal() == Some(SIGABRT) && said.is_empty(), "{told}: {}: {said}", output.status);
            let looked = std::panic::catch_unwind(|| {
                look(script, &folder);
                look(script, &folder);
            });
            if let Err(panic) = looked {
                panic!("{told}: {}", panic_text(&*panic));
            }
            std::fs::remove_dir_all(&folder).expect("the folder");
        }
    }
}
