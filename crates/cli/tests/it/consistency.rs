//! `DBCC CHECKDB` and the log views: no findings for an intact database, findings for a damaged one.

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use hobt::{Event, Flow, Instance, Message, Session, SqlError};
use hobt_base::SplitMix64;

/// The results of a batch: messages, errors, and the rows of its last result set.
#[derive(Default)]
struct Sent {
    messages: Vec<Message>,
    errors: Vec<SqlError>,
    rows: Vec<Vec<String>>,
}

fn send(session: &mut Session, batch: &str) -> Sent {
    let (mut sent, mut columns) = (Sent::default(), Vec::new());
    session.execute(batch, &mut |event: Event| {
        match event {
            Event::ResultSet(begun) => {
                columns = begun;
                sent.rows.clear();
            }
            Event::Rows(batch) => sent.rows.extend((0..batch.num_rows()).map(|row| {
                let cell = |column| hobt::cell_text(&columns, &batch, row, column).expect("a text");
                (0..batch.num_columns()).map(|column| cell(column).unwrap_or_else(|| "NULL".to_owned())).collect()
            })),
            Event::Message(message) => sent.messages.push(message),
            Event::Error(error) => sent.errors.push(error),
            _ => {}
        }
        Flow::Continue
    });
    sent
}

fn value<T: std::str::FromStr>(session: &mut Session, query: &str) -> T {
    let sent = send(session, query);
    assert_eq!(sent.errors, [], "{query}");
    sent.rows[0][0].parse().unwrap_or_else(|_| panic!("a number of {query}: {:?}", sent.rows))
}

fn assert_clean(session: &mut Session, after: &str) {
    let sent = send(session, "DBCC CHECKDB ('d')");
    assert_eq!(sent.errors, [], "after {after}");
    let texts: Vec<&str> = sent.messages.iter().map(|message| message.text.as_str()).collect();
    let result = "CHECKDB found 0 allocation errors and 0 consistency errors in database 'd'.";
    assert!(texts.contains(&result), "after {after}: {texts:?}");
}

/// Flips a bit in the middle of a page.
fn flip(path: &Path, page: u64) {
    let mut file = OpenOptions::new().read(true).write(true).open(path).expect("the file");
    let mut byte = [0];
    let at = SeekFrom::Start(page * 8192 + 4000);
    file.seek(at).expect("inside");
    file.read_exact(&mut byte).expect("inside");
    file.seek(at).expect("inside");
    file.write_all(&[byte[0] ^ 0x10]).expect("inside");
}

#[test]
fn a_flipped_bit_is_found_and_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let instance = Instance::open(folder.path()).expect("an instance");
    let mut session = instance.session().expect("a session");
    session.run("CREATE DATABASE d ON (NAME = d, FILENAME = 'd.mdf')").expect("a database");
    let make = "USE d; CREATE TABLE whole (i int); INSERT whole VALUES (1); CREATE TABLE t (i int, s varchar(200)); \
                INSERT t SELECT value, REPLICATE('x', 100) FROM GENERATE_SERIES(1, 500)";
    session.run(make).expect("a table");
    assert_clean(&mut session, "the load");
    let page: u64 = send(
        &mut session,
        "SELECT MAX(page_id) FROM sys.dm_os_buffer_descriptors AS b WHERE database_id = DB_ID() AND row_count > 30",
    )
    .rows[0][0]
        .parse()
        .expect("a page of t");
    drop(session);
    instance.close().expect("closed");
    flip(&folder.path().join("d.mdf"), page);

    let instance = Instance::open(folder.path()).expect("an instance");
    let mut session = instance.session().expect("a session");
    session.run("USE d").expect("the catalog is whole");
    for check in ["DBCC CHECKDB", "DBCC CHECKTABLE ('dbo.t') WITH NO_INFOMSGS, ALL_ERRORMSGS"] {
        let sent = send(&mut session, check);
        let numbers: Vec<i32> = sent.errors.iter().map(|error| error.number).collect();
        assert!(numbers.contains(&8928), "{check}: {:?}", sent.errors);
        let found = sent.errors.iter().find(|error| error.number == 8928).expect("asserted above");
        assert_eq!(found.severity, 16);
        for part in [&format!("(1:{page})"), "checksum", "d.mdf", "copy"] {
            assert!(found.message.contains(part), "{found} names {part}");
        }
        assert!(sent.messages.iter().any(|message| message.number == 8990 && message.text.contains("'t'")));
    }
    assert_eq!(send(&mut session, "DBCC CHECKTABLE (whole)").errors, []);
    assert_eq!(send(&mut session, "DBCC CHECKALLOC").errors, [], "the extents are as they were");
    assert_eq!(send(&mut session, "DBCC CHECKTABLE (missing)").errors[0].number, 2501);
}

#[test]
fn a_copy_of_a_header_that_was_mended_at_the_start_is_told_of() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let open = || Instance::open(folder.path()).expect("an instance");
    let instance = open();
    let mut session = instance.session().expect("a session");
    session.run("CREATE DATABASE d ON (NAME = d, FILENAME = 'd.mdf', SIZE = 8MB)").expect("a database");
    drop(session);
    instance.close().expect("closed");
    for page in [0, 1, 5, 6] {
        flip(&folder.path().join("d.mdf"), page);
        let instance = open();
        let mut session = instance.session().expect("a session");
        let sent = send(&mut session, "USE d; DBCC CHECKDB");
        assert_eq!(sent.errors, [], "the other copy serves");
        let texts: Vec<&str> = sent.messages.iter().map(|message| message.text.as_str()).collect();
        let told: Vec<&&str> = texts.iter().filter(|text| text.contains("written anew")).collect();
        assert_eq!(told.len(), 1, "{texts:?}");
        for part in [&format!("(1:{page})"), "checksum", "d.mdf"] {
            assert!(told[0].contains(part), "{told:?} names {part}");
        }
        drop(session);
        instance.close().expect("closed");
        let instance = open();
        let sent = send(&mut instance.session().expect("a session"), "USE d; DBCC CHECKDB");
        assert!(sent.messages.iter().all(|message| !message.text.contains("written anew")), "it is whole since");
        instance.close().expect("closed");
    }
}

/// Marks an extent of a file as allocated, with a correct checksum.
fn leak(path: &Path, extent: usize) {
    const MAP: u64 = 2 * 8192;
    const HEADER_BYTES: usize = 64;
    let mut file = OpenOptions::new().read(true).write(true).open(path).expect("the file");
    let mut page = [0; 8192];
    file.seek(SeekFrom::Start(MAP)).expect("inside");
    file.read_exact(&mut page).expect("inside");
    page[HEADER_BYTES + extent / 8] |= 1 << (extent % 8);
    let checksum = hobt_base::crc32c(&page[4..]).to_le_bytes();
    page[..4].copy_from_slice(&checksum);
    file.seek(SeekFrom::Start(MAP)).expect("inside");
    file.write_all(&page).expect("inside");
}

#[test]
fn an_extent_that_nothing_owns_is_found() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let instance = Instance::open(folder.path()).expect("an instance");
    let mut session = instance.session().expect("a session");
    session.run("CREATE DATABASE d ON (NAME = d, FILENAME = 'd.mdf', SIZE = 8MB)").expect("a database");
    drop(session);
    instance.close().expect("closed");
    leak(&folder.path().join("d.mdf"), 100);

    let instance = Instance::open(folder.path()).expect("an instance");
    let mut session = instance.session().expect("a session");
    for check in ["DBCC CHECKDB (d)", "DBCC CHECKALLOC (d)"] {
        let sent = send(&mut session, check);
        let numbers: Vec<i32> = sent.errors.iter().map(|error| error.number).collect();
        assert_eq!(numbers, [8905], "{check}: {:?}", sent.errors);
        assert!(sent.errors[0].message.contains("(1:800)"), "{}", sent.errors[0]);
        let told = |message: &Message| message.number == 8989 && message.text.contains("1 allocation errors");
        assert!(sent.messages.iter().any(told), "{:?}", sent.messages);
    }
    // An open transaction may be creating it.
    let mut writer = instance.session().expect("a session");
    writer.run("USE d; BEGIN TRANSACTION; CREATE TABLE t (i int)").expect("a table");
    let sent = send(&mut session, "DBCC CHECKDB (d)");
    assert_eq!(sent.errors, []);
    assert!(sent.messages.iter().any(|message| message.text.contains("open transactions")), "{:?}", sent.messages);
}

#[test]
fn a_database_is_whole_after_random_work() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let instance = Instance::open(folder.path()).expect("an instance");
    let mut session = instance.session().expect("a session");
    session.run("CREATE DATABASE d").expect("a database");
    session.run("USE d").expect("the database");
    let mut random = SplitMix64::new(20_26);
    let mut made = 0;
    session.run("CREATE TABLE t (k int, s varchar(max))").expect("a table");
    for step in 0..60 {
        let batch = match random.below(9) {
            0 => format!(
                "INSERT t SELECT value, REPLICATE('a', value % 300) FROM GENERATE_SERIES(1, {})",
                random.below(3000)
            ),
            1 => "INSERT t VALUES (7, REPLICATE(CAST('b' AS varchar(max)), 30000))".to_owned(),
            2 => format!("DELETE t WHERE k % 5 = {}", random.below(5)),
            3 => format!("UPDATE t SET s = REPLICATE('c', 200) WHERE k % 7 = {}", random.below(7)),
            4 => "BEGIN TRANSACTION; INSERT t WITH (TABLOCK) SELECT k, s FROM t WHERE k < 100; ROLLBACK".to_owned(),
            5 => "TRUNCATE TABLE t".to_owned(),
            6 => {
                made += 1;
                format!("SELECT * INTO t{made} FROM t")
            }
            7 if made > 0 => format!("DROP TABLE IF EXISTS t{}", 1 + random.below(made)),
            _ => "BEGIN TRANSACTION; DROP TABLE t; ROLLBACK; CHECKPOINT".to_owned(),
        };
        session.run(&batch).unwrap_or_else(|error| panic!("{batch}: {error}"));
        if step % 10 == 9 {
            assert_clean(&mut session, &format!("step {step}: {batch}"));
        }
    }
    drop(session);
    instance.close().expect("closed");
    let instance = Instance::open(folder.path()).expect("an instance");
    assert_clean(&mut instance.session().expect("a session"), "a restart");
}

#[test]
fn what_a_transaction_has_under_way_is_no_error() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let instance = Instance::open(folder.path()).expect("an instance");
    let (mut writer, mut checker) = (instance.session().expect("a session"), instance.session().expect("a session"));
    writer.run("CREATE DATABASE d").expect("a database");
    writer.run("USE d; CREATE TABLE t (i int); INSERT t VALUES (1)").expect("a table");
    writer.run("BEGIN TRANSACTION; SELECT value INTO n FROM GENERATE_SERIES(1, 5000)").expect("a new table");
    assert_clean(&mut checker, "a table that another transaction makes");
    writer.run("INSERT t SELECT value FROM GENERATE_SERIES(1, 5000)").expect("rows");
    // The writer's table is locked. The writer's own check sees its rows.
    let timeout = send(&mut checker, "SET LOCK_TIMEOUT 0; DBCC CHECKDB (d)");
    assert_eq!(timeout.errors[0].number, 1222);
    assert_clean(&mut writer, "the transaction's own changes");
    writer.run("DROP TABLE t; TRUNCATE TABLE n").expect("gone");
    assert_clean(&mut writer, "the transaction's own drop");
    writer.run("ROLLBACK").expect("rolled back");
    assert_clean(&mut checker, "the roll-back");
}

/// Runs random statements until stopped. Their results do not matter, except errors that indicate damage.
fn work(mut session: Session, seed: u64, stop: &AtomicBool) {
    let mut random = SplitMix64::new(seed);
    session.run("USE d; SET LOCK_TIMEOUT 50").expect("the database");
    let mut step = 0;
    while !stop.load(Ordering::Relaxed) {
        step += 1;
        let name = format!("w{seed}_{}", random.below(3));
        let batch = match random.below(8) {
            0 => format!("SELECT value AS i INTO {name} FROM GENERATE_SERIES(1, {})", random.below(3000)),
            1 => format!("DROP TABLE IF EXISTS {name}"),
            2 => "INSERT t SELECT value FROM GENERATE_SERIES(1, 2000)".to_owned(),
            3 => format!("DELETE t WHERE i % 3 = {}", random.below(3)),
            4 => format!("BEGIN TRANSACTION; CREATE TABLE {name} (i int); INSERT {name} VALUES (1); ROLLBACK"),
            5 => "SELECT value AS i INTO #t FROM GENERATE_SERIES(1, 2000); DROP TABLE #t".to_owned(),
            6 => "TRUNCATE TABLE t".to_owned(),
            _ => "INSERT t VALUES (1), (2), (3)".to_owned(),
        };
        for error in send(&mut session, &batch).errors {
            assert!(error.severity < 17, "step {step}: {batch}: {error}");
        }
        send(&mut session, "IF @@TRANCOUNT > 0 ROLLBACK");
    }
}

#[test]
fn a_check_beside_writers_gives_no_false_alarm() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let instance = Instance::open(folder.path()).expect("an instance");
    let mut session = instance.session().expect("a session");
    session.run("CREATE DATABASE d").expect("a database");
    session.run("USE d; CREATE TABLE t (i int)").expect("a table");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 1..=3 {
            let (session, stop) = (instance.session().expect("a session"), &stop);
            scope.spawn(move || work(session, seed, stop));
        }
        for _ in 0..15 {
            for check in ["CHECKDB ('d')", "CHECKDB ('tempdb')", "CHECKDB ('master')", "CHECKALLOC (d)"] {
                let errors = send(&mut session, &format!("DBCC {check} WITH NO_INFOMSGS")).errors;
                if !errors.is_empty() {
                    stop.store(true, Ordering::Relaxed);
                }
                assert_eq!(errors, [], "{check}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_clean(&mut session, "the work");
}

#[test]
fn a_check_that_is_cancelled_lets_go_of_the_tables() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let instance = Instance::open(folder.path()).expect("an instance");
    let mut session = instance.session().expect("a session");
    session.run("CREATE DATABASE d").expect("a database");
    session.run("USE d; CREATE TABLE t (i int); INSERT t VALUES (1)").expect("a table");
    // The client stops at the first message, while the tables are locked.
    session.execute("DBCC CHECKDB", &mut |_: Event| Flow::Stop);
    let locks =
        "SELECT COUNT(*) FROM sys.dm_tran_locks WHERE resource_type = 'OBJECT' AND resource_database_id = DB_ID()";
    assert_eq!(value::<u64>(&mut session, locks), 0);
    let mut other = instance.session().expect("a session");
    other.run("SET LOCK_TIMEOUT 0; UPDATE d.dbo.t SET i = 2").expect("nobody holds the table");
}

#[test]
fn the_log_s_figures_move() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let instance = Instance::open(folder.path()).expect("an instance");
    let mut session = instance.session().expect("a session");
    session.run("CREATE DATABASE d").expect("a database");
    session.run("USE d; CREATE TABLE t (i int, s char(200))").expect("a table");
    let log_space = |session: &mut Session| {
        let rows = send(session, "DBCC SQLPERF (LOGSPACE)").rows;
        let row = rows.into_iter().find(|row| row[0] == "d").expect("a row of d");
        (row[1].parse::<f64>().expect("megabytes"), row[2].parse::<f64>().expect("percent"))
    };
    let counter = "SELECT cntr_value FROM sys.dm_os_performance_counters WHERE instance_name = 'd' AND counter_name = ";
    let used = "SELECT used_log_space_in_bytes FROM sys.dm_db_log_space_usage";
    let flushed = format!("{counter}'Log Bytes Flushed/sec'");
    let before = (log_space(&mut session), value::<u64>(&mut session, used), value::<u64>(&mut session, &flushed));
    assert!(before.0.0 >= 8.0 && before.0.1 < 100.0, "{before:?}");
    session.run("BEGIN TRANSACTION").expect("begun");
    for i in 0..300 {
        session.run(&format!("INSERT t VALUES ({i}, 'x')")).expect("a row");
    }
    let records: u64 = value(
        &mut session,
        "SELECT database_transaction_log_record_count FROM sys.dm_tran_database_transactions WHERE database_id = DB_ID()",
    );
    assert!(records >= 300, "{records} records");
    session.run("COMMIT").expect("committed");
    let after = (log_space(&mut session), value::<u64>(&mut session, used), value::<u64>(&mut session, &flushed));
    assert!(after.0.1 > before.0.1 && after.1 > before.1 && after.2 > before.2, "{before:?}, then {after:?}");
    let segments = send(&mut session, "DBCC LOGINFO").rows;
    let listed: usize = value(&mut session, "SELECT COUNT(*) FROM sys.dm_db_log_info(DB_ID())");
    assert!(segments.len() >= 4 && segments.len() == listed, "{segments:?}");
    assert!(segments.iter().any(|row| row[5] == "2") && segments.iter().any(|row| row[5] == "0"), "{segments:?}");
}

#[test]
fn a_log_that_is_missing_beside_clean_files_is_made_anew() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let close = |mut session: Session, instance: Instance, batch: &str| {
        session.run(batch).unwrap_or_else(|error| panic!("{batch}: {error}"));
        drop(session);
        instance.close().expect("closed");
    };
    let open = || {
        let instance = Instance::open(folder.path()).expect("an instance");
        (instance.session().expect("a session"), instance)
    };
    let (mut session, instance) = open();
    session.run("CREATE DATABASE d ON (NAME = d, FILENAME = 'd.mdf')").expect("a database");
    close(session, instance, "USE d; CREATE TABLE t (i int); INSERT t VALUES (1)");
    std::fs::remove_file(folder.path().join("d_log.ldf")).expect("removed");
    let (mut session, instance) = open();
    session.run("USE d; INSERT t VALUES (2)").expect("a row");
    assert_clean(&mut session, "the log was made anew");
    close(session, instance, "IF (SELECT SUM(i) FROM t) <> 3 THROW 50001, 'not the rows', 1");
    assert!(folder.path().join("d_log.ldf").exists());
}
