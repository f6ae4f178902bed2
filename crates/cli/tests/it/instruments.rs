//! The views' figures for reads, workers, memory and spilled rows agree with what happened.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

use hobt::{Event, Flow, Instance, InstanceSettings, Item, Session, StatementStatistics};

use crate::client::{number, wait_until};

/// An instance with a pool of 4 MB and a database `d`. It is filled, closed and opened again.
fn reopened(fill: &str) -> (tempfile::TempDir, Instance) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let open = || {
        let (memory_bytes, pool_bytes) = (Some(128 << 20), Some(4 << 20));
        let settings = InstanceSettings { memory_bytes, pool_bytes, ..InstanceSettings::default() };
        Instance::open_with(folder.path(), settings).expect("an instance")
    };
    let instance = open();
    let mut session = instance.session().expect("a session");
    session.run("CREATE DATABASE d").expect("a database");
    session.run(&format!("USE d; {fill}")).expect(fill);
    drop(session);
    instance.close().expect("closed");
    let instance = open();
    (folder, instance)
}

fn session(instance: &Instance) -> Session {
    let mut session = instance.session().expect("a session");
    session.run("USE d").expect("the database");
    session
}

/// Tables of 10 MB: `t` is a heap with rows of 500 bytes, `c` a clustered index with such rows, `p` is partitioned, `l`
/// has long values.
const TABLES: &str = "SELECT CAST(value AS int) id, REPLICATE(CHAR(65 + value % 26), 490) s INTO t
    FROM GENERATE_SERIES(1, 20000);
    CREATE TABLE c (id int NOT NULL PRIMARY KEY, s varchar(500) NOT NULL);
    INSERT INTO c WITH (TABLOCK) SELECT id, s FROM t;
    CREATE PARTITION FUNCTION f (int) AS RANGE RIGHT FOR VALUES (5000, 10000, 15000);
    CREATE PARTITION SCHEME f AS PARTITION f ALL TO ([PRIMARY]);
    CREATE TABLE p (id int NOT NULL, s varchar(500) NOT NULL) ON f (id);
    INSERT INTO p WITH (TABLOCK) SELECT id, s FROM t;
    CREATE TABLE l (id int NOT NULL, s varchar(max) NOT NULL);
    INSERT INTO l SELECT id, REPLICATE(CAST(s AS varchar(max)), 100) FROM t WHERE id <= 40";

/// The cost of a statement.
fn cost(session: &mut Session, batch: &str) -> StatementStatistics {
    let costs = session.query(batch).filter_map(|item| match item {
        Item::Statistics(cost) => Some(cost),
        Item::Error(error) => panic!("{batch}: {error}"),
        _ => None,
    });
    *costs.last().unwrap_or_else(|| panic!("{batch} cost nothing"))
}

#[test]
fn statistics_io_and_the_size_histogram_agree_to_the_byte() {
    let (_folder, instance) = reopened(TABLES);
    let (mut reader, mut viewer) = (session(&instance), session(&instance));
    // Statistics created for a query are written into the catalog, whose pages do not belong to a table of the query.
    viewer.run("ALTER DATABASE d SET AUTO_CREATE_STATISTICS OFF").expect("an option");
    let counted = "SELECT CAST(SUM(bytes) AS bigint) FROM sys.hobt_io_histogram
        WHERE database_id = DB_ID() AND file_id = 1 AND operation = 'read' AND measure = 'bytes'";
    let by_file = "SELECT num_of_bytes_read FROM sys.dm_io_virtual_file_stats(DB_ID(), 1)";
    let statements = [
        "SELECT COUNT(id), MAX(s) FROM t",
        "SELECT COUNT(id), MAX(s) FROM t OPTION (QUERYTRACEON 652)",
        "SELECT COUNT(*) FROM t WHERE s LIKE '%Q%' OPTION (MAXDOP 1)",
        "SELECT COUNT(id), MAX(s) FROM p",
        "SELECT COUNT(id), MAX(s) FROM c",
        "SELECT COUNT(id), MAX(s) FROM c OPTION (QUERYTRACEON 652)",
        "SELECT MAX(s) FROM c WHERE id IN (1, 700, 10000, 19999)",
        "SELECT MAX(LEN(s)) FROM l",
        "SELECT MAX(LEN(s)) FROM l OPTION (QUERYTRACEON 652)",
    ];
    for statement in statements {
        // The first run opens the table. In the second it is already open.
        for run in 1..=2 {
            viewer.run("DBCC DROPCLEANBUFFERS").expect("a cold pool");
            let before = number(&mut viewer, counted);
            let reads = cost(&mut reader, statement).reads;
            let pages: u64 = reads.iter().map(|reads| reads.physical + reads.read_ahead + reads.lob_physical).sum();
            let bytes = number(&mut viewer, counted) - before;
            assert_eq!(bytes, i64::try_from(pages * 8192).expect("few"), "run {run} of {statement}: {reads:?}");
            assert!(pages > 0, "{statement}");
        }
    }
    assert_eq!(number(&mut viewer, counted), number(&mut viewer, by_file));
}

/// Runs a batch up to its first rows, and holds it there until the sender is dropped.
fn hold(instance: &Instance, batch: &str) -> (Sender<()>, JoinHandle<Session>) {
    let (begun, go_on, thread) = begin(instance, batch);
    begun.recv().expect("rows come");
    (go_on, thread)
}

/// A session that runs a batch and stops at its first rows until the sender is dropped. The receiver is notified of
/// these rows.
fn begin(instance: &Instance, batch: &str) -> (Receiver<()>, Sender<()>, JoinHandle<Session>) {
    let (mut session, batch) = (session(instance), batch.to_owned());
    let (has_begun, begun) = channel();
    let (go_on, held) = channel::<()>();
    let thread = std::thread::spawn(move || {
        session.execute(&batch, &mut |event: Event| {
            match event {
                Event::Rows(_) => {
                    has_begun.send(()).ok();
                    // Ends when the sender is dropped.
                    held.recv().ok();
                }
                Event::Error(error) => panic!("{error}"),
                _ => {}
            }
            Flow::Continue
        });
        session
    });
    (begun, go_on, thread)
}

#[test]
fn what_is_spilled_counts_as_tempdbs() {
    let (_folder, instance) = reopened(TABLES);
    let mut viewer = session(&instance);
    let size = "SELECT size * CAST(8192 AS bigint) FROM tempdb.sys.database_files WHERE file_id = 1";
    let on_disk = "SELECT size_on_disk_bytes FROM sys.dm_io_virtual_file_stats(2, 1)";
    let written = "SELECT num_of_bytes_written FROM sys.dm_io_virtual_file_stats(2, 1)";
    let read = "SELECT num_of_bytes_read FROM sys.dm_io_virtual_file_stats(2, 1)";
    let before = [size, on_disk, written, read].map(|query| number(&mut viewer, query));
    // 80 MB; a third of 124 MB is available to all operators that can spill.
    let sorted =
        "SELECT t.id, t.s FROM t CROSS JOIN (VALUES (1), (2), (3), (4), (5), (6), (7), (8)) x(n) ORDER BY s, id";
    let (release, reader) = hold(&instance, sorted);
    let during = [size, on_disk, written].map(|query| number(&mut viewer, query));
    let least = 10 << 20;
    for (during, before) in during.iter().zip(before) {
        assert!(*during > before + least, "{during} bytes, {before} before");
    }
    drop(release);
    reader.join().expect("no panic");
    let after = [size, on_disk, written, read].map(|query| number(&mut viewer, query));
    assert_eq!(after[..2], before[..2]);
    assert!(after[2] >= during[2] && after[3] > before[3] + least, "{after:?}");
    let waited = "SELECT waiting_tasks_count FROM sys.dm_os_wait_stats WHERE wait_type = 'IO_COMPLETION'";
    assert!(number(&mut viewer, waited) > 0);
}

#[test]
fn workers_of_a_running_query_show_their_rows_and_reads() {
    let (_folder, instance) = reopened(TABLES);
    let mut viewer = session(&instance);
    let object = number(&mut viewer, "SELECT OBJECT_ID('t')");
    // A query whose rows a client takes.
    let (release, reader) = hold(&instance, "SELECT id, s FROM t OPTION (MAXDOP 2)");
    let mut other = instance.session().expect("a session in another database");
    let running = format!(
        "SELECT COUNT(*) FROM sys.dm_exec_query_profiles
         WHERE hobt_is_running = 1 AND row_count > 0 AND object_id = {object} AND database_id = DB_ID('d')"
    );
    assert!(number(&mut other, &running) > 0);
    drop(release);
    reader.join().expect("no panic");
    // A query that has no row before its end. At the end, its workers' counts add up to all rows read.
    let aggregate = "DECLARE @i int = 0, @n int WHILE @i < 300 BEGIN SELECT @n = MAX(LEN(s)) FROM t; SET @i += 1 END";
    let mut session = session(&instance);
    let id = number(&mut session, "SELECT @@SPID");
    let thread = std::thread::spawn(move || {
        session.run(aggregate).expect(aggregate);
        session
    });
    let mut was_seen = false;
    while !thread.is_finished() && !was_seen {
        was_seen = number(&mut other, &format!("{running} AND session_id = {id} AND logical_read_count > 0")) > 0;
    }
    assert!(was_seen, "no worker of 300 scans showed a row before its end");
    let mut session = thread.join().expect("no panic");
    let reads = cost(&mut session, "SELECT MAX(LEN(s)) FROM t OPTION (MAXDOP 2)").reads;
    let of_workers = |column: &str| {
        format!("SELECT CAST(SUM({column}) AS bigint) FROM sys.dm_exec_query_profiles WHERE session_id = {id}")
    };
    let expected =
        [("row_count", 20000), ("logical_read_count", reads[0].logical), ("read_ahead_count", reads[0].read_ahead)];
    for (column, expected) in expected {
        assert_eq!(number(&mut other, &of_workers(column)), i64::try_from(expected).expect("few"), "{column}");
    }
}

#[test]
fn clerks_add_up_to_what_the_instance_uses() {
    let (_folder, instance) = reopened(TABLES);
    let mut viewer = session(&instance);
    let (release, reader) = hold(&instance, "SELECT id, s FROM t ORDER BY s, id");
    // The sort's workers go on for a moment, and the two views are read one after the other.
    let mut before = 0;
    wait_until("the same memory twice", || {
        let now = number(&mut viewer, "SELECT committed_kb FROM sys.dm_os_sys_info");
        now == std::mem::replace(&mut before, now)
    });
    // Each clerk is rounded up to kilobytes separately.
    let difference = number(
        &mut viewer,
        "SELECT (SELECT SUM(pages_kb) FROM sys.dm_os_memory_clerks) - (SELECT committed_kb FROM sys.dm_os_sys_info)",
    );
    let clerks = number(&mut viewer, "SELECT COUNT(*) FROM sys.dm_os_memory_clerks");
    assert!((-clerks..=clerks).contains(&difference), "{difference} KB with {clerks} clerks");
    let operators = "SELECT pages_kb FROM sys.dm_os_memory_clerks WHERE type = 'MEMORYCLERK_SQLQERESERVATIONS'";
    assert!(number(&mut viewer, operators) > 1024);
    drop(release);
    reader.join().expect("no panic");
}

#[test]
fn buffer_descriptors_say_whose_the_pages_are() {
    let (_folder, instance) = reopened("SELECT CAST(value AS int) id INTO small FROM GENERATE_SERIES(1, 20000)");
    let mut viewer = session(&instance);
    viewer.run("SELECT MAX(id) FROM small").expect("a scan through the pool");
    let cached = "SELECT COUNT(*) FROM sys.dm_os_buffer_descriptors b
        JOIN sys.allocation_units u ON u.allocation_unit_id = b.allocation_unit_id
        JOIN sys.partitions p ON p.hobt_id = u.container_id
        WHERE b.database_id = DB_ID() AND p.object_id = OBJECT_ID('small') AND b.page_type = 'DATA_PAGE'";
    let pages = "SELECT in_row_data_page_count FROM sys.dm_db_partition_stats WHERE object_id = OBJECT_ID('small')";
    assert_eq!(number(&mut viewer, cached), number(&mut viewer, pages));
}

#[test]
fn statements_beyond_the_memory_wait_for_it_and_say_so() {
    let (_folder, instance) = reopened(TABLES);
    let mut viewer = session(&instance);
    let sorted = "SELECT id, s FROM t ORDER BY s, id";
    let waiters = "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE wait_type = 'RESOURCE_SEMAPHORE'";
    // As many concurrent sorts as fit on this machine: until one must wait.
    let mut held = Vec::new();
    let (go_on, waiter) = loop {
        let (begun, go_on, thread) = begin(&instance, sorted);
        let begins = loop {
            match begun.try_recv() {
                Ok(()) => break true,
                Err(TryRecvError::Disconnected) => panic!("it ended without rows"),
                Err(TryRecvError::Empty) if number(&mut viewer, waiters) > 0 => break false,
                Err(TryRecvError::Empty) => std::thread::yield_now(),
            }
        };
        match begins {
            true => held.push((go_on, thread)),
            false => break (go_on, thread),
        }
    };
    let id = number(
        &mut viewer,
        "SELECT CAST(session_id AS int) FROM sys.dm_os_waiting_tasks WHERE wait_type = 'RESOURCE_SEMAPHORE'",
    );
    let grants = |condition: &str| format!("SELECT COUNT(*) FROM sys.dm_exec_query_memory_grants WHERE {condition}");
    let waits = format!("session_id = {id} AND grant_time IS NULL AND granted_memory_kb IS NULL AND wait_order = 0");
    assert_eq!(number(&mut viewer, &grants(&waits)), 1);
    let runs = "grant_time >= request_time AND granted_memory_kb BETWEEN required_memory_kb AND ideal_memory_kb
        AND used_memory_kb BETWEEN 1 AND max_used_memory_kb";
    assert_eq!(number(&mut viewer, &grants(runs)), i64::try_from(held.len()).expect("few"));
    let semaphore = format!(
        "SELECT COUNT(*) FROM sys.dm_exec_query_resource_semaphores WHERE grantee_count = {} AND waiter_count = 1
         AND granted_memory_kb > 0 AND used_memory_kb > 0 AND granted_memory_kb <= total_memory_kb - available_memory_kb
         AND total_memory_kb <= target_memory_kb AND timeout_error_count = 0",
        held.len()
    );
    assert_eq!(number(&mut viewer, &semaphore), 1);
    drop(go_on);
    for (release, reader) in held {
        drop(release);
        reader.join().expect("no panic");
    }
    let _session = waiter.join().expect("no panic");
    let waited = format!(
        "SELECT COUNT(*) FROM sys.dm_exec_session_wait_stats
         WHERE session_id = {id} AND wait_type = 'RESOURCE_SEMAPHORE' AND waiting_tasks_count > 0"
    );
    assert_eq!(number(&mut viewer, &waited), 1);
    let idle = "SELECT COUNT(*) FROM sys.dm_exec_query_resource_semaphores
        WHERE grantee_count = 0 AND waiter_count = 0 AND granted_memory_kb = 0";
    assert_eq!(number(&mut viewer, idle), 1);
}

#[test]
fn affinity_binds_the_workers_and_limits_their_number() {
    let (_folder, instance) = reopened(TABLES);
    let mut session = session(&instance);
    session.run("ALTER SERVER CONFIGURATION SET PROCESS AFFINITY CPU = 0").expect("a processor");
    let cost_of_one = cost(&mut session, "SELECT MAX(s) FROM t OPTION (MAXDOP 8)");
    assert_eq!((cost_of_one.degree_of_parallelism, cost_of_one.rows_per_worker.len()), (1, 1));
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM sys.dm_os_schedulers WHERE is_online = 1"), 1);
    #[cfg(target_os = "linux")]
    assert!(worker_masks().contains(&"0".to_owned()), "{:?}", worker_masks());
    session.run("ALTER SERVER CONFIGURATION SET PROCESS AFFINITY CPU = AUTO").expect("all");
    let all = number(&mut session, "SELECT COUNT(*) FROM sys.dm_os_schedulers");
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM sys.dm_os_schedulers WHERE is_online = 1"), all);
    let cost_of_all = cost(&mut session, "SELECT MAX(s) FROM t");
    assert_eq!(i64::try_from(cost_of_all.degree_of_parallelism).expect("few"), all);
    #[cfg(target_os = "linux")]
    assert!(number(&mut session, "SELECT SUM(current_workers_count) FROM sys.dm_os_schedulers") >= all);
    assert!(session.run("ALTER SERVER CONFIGURATION SET PROCESS AFFINITY CPU = 5000").is_err());
}

/// The processors on which the system lets each worker thread of this process run.
#[cfg(target_os = "linux")]
fn worker_masks() -> Vec<String> {
    let mut masks = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").expect("this process").flatten() {
        // A thread may end in the meantime.
        let Ok(status) = std::fs::read_to_string(task.path().join("status")) else { continue };
        let value = |name: &str| status.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()));
        if value("Name:").as_deref() == Some("hobt-worker") {
            masks.extend(value("Cpus_allowed_list:"));
        }
    }
    masks
}

#[test]
fn what_a_statement_cost_is_the_time_of_its_threads() {
    let (_folder, instance) = reopened(TABLES);
    let mut session = session(&instance);
    session.run("CREATE TABLE h (id int NOT NULL, s varchar(500) NOT NULL)").expect("a heap");
    let statements = [
        ("SELECT 1", 1),
        ("SELECT COUNT(id), MAX(s) FROM t", 64),
        // Statistics of the column are created first, by a nested statement.
        ("SELECT COUNT(*) FROM t WHERE s < 'C'", 64),
        ("SELECT COUNT(id), MAX(s) FROM t OPTION (MAXDOP 1)", 1),
        ("SELECT id, s FROM t", 64),
        ("INSERT INTO h WITH (TABLOCK) SELECT id, s FROM t", 64),
        ("INSERT INTO h SELECT id, s FROM t", 64),
        ("INSERT INTO c SELECT id + 100000, s FROM t", 64),
        ("UPDATE h SET id = id + 1", 64),
        ("UPDATE c SET s = REVERSE(s) WHERE id < 10000", 64),
        ("DELETE FROM h WHERE id % 3 > 0", 64),
    ];
    let (mut all, mut explained) = (0.0, 0.0);
    for (statement, most) in statements {
        let cost = cost(&mut session, statement);
        let threads = cost.threads;
        assert!((1..=most).contains(&threads.workers), "{statement}: {threads:?}");
        assert!(threads.own <= cost.elapsed, "{statement}: {cost:?}");
        // While the statement's own thread has no time, its workers have.
        assert!(threads.total() >= cost.elapsed, "{statement}: {cost:?}");
        let workers = u32::try_from(threads.workers).expect("few");
        assert!(threads.working <= cost.elapsed * workers, "{statement}: {cost:?}");
        let waits: f64 = cost.waits.iter().map(|(_, _, time)| time.as_secs_f64()).sum();
        let (whole, parts) = (threads.total().as_secs_f64(), cost.cpu.as_secs_f64() + waits);
        // A wait that begins by spinning also counts as processor time, and clocks are read one after the other.
        assert!(parts <= 1.2 * whole + 0.003, "{statement}: {parts} of {whole}: {cost:?}");
        (all, explained) = (all + whole, explained + parts.min(whole));
    }
    // Time taken by a hypervisor remains unexplained.
    assert!(explained >= 0.5 * all, "{explained} of {all} seconds");
}
