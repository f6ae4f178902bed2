//! Files on devices of different speed, and pages beside the pool.

use std::path::Path;
use std::time::Duration;

use hobt::{Instance, InstanceSettings, Session};
use hobt_disk::{DeviceModel, DiskKind, Fault, FaultKind, Operation, SimulatedConfig};

use crate::client::{error, number, ok};

/// A device of so many megabytes a second, without any other cost.
fn megabytes_a_second(rate: u64) -> DeviceModel {
    DeviceModel {
        latency: Duration::ZERO,
        overhead: Duration::ZERO,
        bytes_per_second: rate * 1_000_000,
        ..DeviceModel::fast_card()
    }
}

/// An instance in memory whose folder `slow` lies on a device of a quarter of the other's speed.
fn on_two_devices(folder: &Path) -> Instance {
    let config = SimulatedConfig {
        device: Some(megabytes_a_second(2_000)),
        devices: vec![(folder.join("slow"), megabytes_a_second(500))],
        track_unsynced: false,
        ..SimulatedConfig::default()
    };
    let settings = InstanceSettings {
        disk: DiskKind::Simulated(config),
        memory_bytes: Some(256 << 20),
        ..InstanceSettings::default()
    };
    Instance::open_with(folder, settings).expect("an instance")
}

/// Used extents of a file of database `d`.
fn used_extents(session: &mut Session, file: i32) -> i64 {
    let rows = ok(session, "DBCC SHOWFILESTATS WITH NO_INFOMSGS");
    let row = rows.iter().find(|row| row[0] == file.to_string()).expect("the file");
    row[3].parse().expect("a number")
}

#[test]
fn weighted_fill_divides_a_table_as_its_devices_are_fast() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let instance = on_two_devices(folder.path());
    let mut session = instance.session().expect("a session");
    ok(
        &mut session,
        "CREATE DATABASE d ON PRIMARY (NAME = d, FILENAME = 'd.mdf'), FILEGROUP f DEFAULT
         (NAME = f1, FILENAME = 'f1.ndf', SIZE = 8MB, FILEGROWTH = 8MB),
         (NAME = f2, FILENAME = 'slow/f2.ndf', SIZE = 8MB, FILEGROWTH = 8MB)",
    );
    ok(&mut session, "USE d; ALTER DATABASE d SET HOBT_FILL = THROUGHPUT");
    assert_eq!(ok(&mut session, "SELECT hobt_fill_desc FROM sys.databases WHERE name = 'd'"), [["THROUGHPUT"]]);
    let load = |session: &mut Session, table: &str| {
        let rows = "SELECT value AS n, REPLICATE('x', 3900) AS t";
        ok(session, &format!("{rows} INTO {table} FROM GENERATE_SERIES(1, 12000)"));
    };
    // Not measured yet: both files get the same.
    load(&mut session, "a");
    assert_eq!(number(&mut session, "SELECT COUNT(DISTINCT device_number) FROM sys.hobt_file_shares"), 2);
    let before = [3, 4].map(|file| used_extents(&mut session, file));
    load(&mut session, "b");
    let [fast, slow] = [3, 4].map(|file| used_extents(&mut session, file) - before[file as usize - 3]);
    let part = slow as f64 / (fast + slow) as f64;
    assert!((0.15..0.25).contains(&part), "{slow} of {} extents are on the slow device", fast + slow);
    let shares = "SELECT ROUND(SUM(share), 6) FROM sys.hobt_file_shares WHERE database_id = DB_ID() AND file_id > 2";
    assert_eq!(ok(&mut session, shares), [["1"]]);
    assert_eq!(error(&mut session, "ALTER DATABASE d SET HOBT_FILL = SPEED"), 102);
    ok(&mut session, "ALTER DATABASE d SET HOBT_FILL = FREE_SPACE");
    assert_eq!(ok(&mut session, "SELECT hobt_fill_desc FROM sys.databases WHERE name = 'd'"), [["FREE_SPACE"]]);
}

const CONFIGURATION: &str = "SELECT state, state_description, current_size_in_kb / 1024, CASE WHEN hobt_failure IS NULL \
    THEN 'works' ELSE 'failed' END FROM sys.dm_os_buffer_pool_extension_configuration";

/// An instance with a pool of 4 MiB over an indexed table of about 16 MiB, on a simulated disk with these faults.
fn small_pool(folder: &Path, faults: Vec<Fault>) -> (Instance, Session) {
    let config = SimulatedConfig { track_unsynced: false, faults, ..SimulatedConfig::default() };
    let settings = InstanceSettings {
        disk: DiskKind::Simulated(config),
        memory_bytes: Some(256 << 20),
        pool_bytes: Some(4 << 20),
        ..InstanceSettings::default()
    };
    let instance = Instance::open_with(folder, settings).expect("an instance");
    let mut session = instance.session().expect("a session");
    ok(
        &mut session,
        "CREATE DATABASE d; USE d; CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL, filler char(3900) NOT NULL)
         INSERT INTO t SELECT value, value * 2, 'a' FROM GENERATE_SERIES(1, 4000)",
    );
    (instance, session)
}

/// Reads rows by key, from 1 to 4,000, and checks their sum.
fn look_up_all(session: &mut Session) {
    let sum = number(
        session,
        "DECLARE @i int = 0, @s bigint = 0, @n int WHILE @i < 4000 BEGIN SET @i += 1
         SELECT @n = n FROM t WHERE id = @i SET @s += @n END SELECT @s",
    );
    assert_eq!(sum, 4000 * 4001);
}

#[test]
fn the_extension_serves_lookups_and_is_seen_in_its_views() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (_instance, mut session) = small_pool(folder.path(), Vec::new());
    assert_eq!(ok(&mut session, CONFIGURATION), [["0", "BUFFER POOL EXTENSION DISABLED", "0", "works"]]);
    let clerk = "SELECT COALESCE(SUM(pages_kb), 0) FROM sys.dm_os_memory_clerks WHERE name = 'Buffer pool extension'";
    assert_eq!(number(&mut session, clerk), 0);
    ok(&mut session, "ALTER SERVER CONFIGURATION SET BUFFER POOL EXTENSION ON (FILENAME = 'fast/x.bpe', SIZE = 32 MB)");
    assert_eq!(ok(&mut session, CONFIGURATION), [["5", "BUFFER POOL EXTENSION ENABLED", "32", "works"]]);
    assert!(number(&mut session, clerk) > 0);
    (0..3).for_each(|_| look_up_all(&mut session));
    let copies =
        number(&mut session, "SELECT COUNT(*) FROM sys.dm_os_buffer_descriptors WHERE is_in_bpool_extension = 1");
    let read = "SELECT hobt_pages_read FROM sys.dm_os_buffer_pool_extension_configuration";
    let pages_read = number(&mut session, read);
    assert!(copies > 1000 && pages_read > 1000, "{copies} copies, {pages_read} pages read");
    let counted =
        "SELECT cntr_value FROM sys.dm_os_performance_counters WHERE counter_name = 'Extension page reads/sec'";
    assert!(number(&mut session, counted) >= pages_read);
    // A change is seen, and a scan uses none of the copies.
    ok(&mut session, "UPDATE t SET n = n + 1; UPDATE t SET n = n - 1");
    look_up_all(&mut session);
    let before = number(&mut session, read);
    assert_eq!(number(&mut session, "SELECT SUM(CAST(n AS bigint)) FROM t WITH (TABLOCK)"), 4000 * 4001);
    assert!(number(&mut session, read) - before < 1000, "a scan reads from the data file");
    assert_eq!(ok(&mut session, "DBCC CHECKTABLE ('t') WITH NO_INFOMSGS"), [[""; 0]; 0]);
    ok(&mut session, "DBCC DROPCLEANBUFFERS WITH NO_INFOMSGS");
    assert_eq!(
        number(&mut session, "SELECT COUNT(*) FROM sys.dm_os_buffer_descriptors WHERE is_in_bpool_extension = 1"),
        0
    );
    ok(&mut session, "ALTER SERVER CONFIGURATION SET BUFFER POOL EXTENSION OFF");
    assert_eq!(number(&mut session, clerk), 0);
    look_up_all(&mut session);
}

#[test]
fn an_extension_of_a_wrong_size_or_place_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (_instance, mut session) = small_pool(folder.path(), Vec::new());
    let on = |size: &str, path: &str| {
        format!("ALTER SERVER CONFIGURATION SET BUFFER POOL EXTENSION ON (FILENAME = '{path}', SIZE = {size})")
    };
    for (number, size, path) in [
        (868, "4 MB", "x.bpe"),
        (864, "1 GB", "x.bpe"),
        (864, "9999999999 TB", "x.bpe"),
        (5170, "8 MB", "d.mdf"),
        (5123, "8 MB", "../x.bpe"),
        (102, "", "x.bpe"),
    ] {
        let refused = error(&mut session, &on(size, path));
        assert!(refused == number || (number == 5170 && refused == 1834), "{size} at {path}: {refused}");
        assert_eq!(ok(&mut session, CONFIGURATION)[0][0], "0");
    }
    ok(&mut session, "ALTER SERVER CONFIGURATION SET BUFFER POOL EXTENSION OFF");
    ok(&mut session, &on("8192 KB", "x.bpe"));
    assert_eq!(error(&mut session, &on("8 MB", "y.bpe")), 872);
    // Its name is free: it is removed while the file is in use.
    ok(&mut session, "ALTER SERVER CONFIGURATION SET BUFFER POOL EXTENSION OFF");
    ok(&mut session, &on("8 MB", "x.bpe"));
    look_up_all(&mut session);
}

#[test]
fn an_extension_whose_device_fails_is_off_and_says_why() {
    for operation in [Operation::Read, Operation::Write] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let fault = Fault { path_contains: "x.bpe".to_owned(), ..Fault::once(operation, 3, FaultKind::Error(5)) };
        let (instance, mut session) = small_pool(folder.path(), vec![fault]);
        let on = "ALTER SERVER CONFIGURATION SET BUFFER POOL EXTENSION ON (FILENAME = 'x.bpe', SIZE = 32 MB)";
        ok(&mut session, on);
        (0..3).for_each(|_| look_up_all(&mut session));
        assert_eq!(ok(&mut session, CONFIGURATION)[0][3], "failed");
        assert_eq!(ok(&mut session, CONFIGURATION)[0][0], "0");
        let why = ok(&mut session, "SELECT hobt_failure FROM sys.dm_os_buffer_pool_extension_configuration");
        assert!(why[0][0].contains("x.bpe"), "{why:?}");
        ok(&mut session, "UPDATE t SET n = n + 0");
        // A new one takes its place.
        ok(&mut session, on);
        (0..3).for_each(|_| look_up_all(&mut session));
        assert_eq!(ok(&mut session, CONFIGURATION)[0][3], "works");
        drop(session);
        instance.close().expect("closed");
    }
}

/// Two file systems of this machine: the operating system tells them apart, and a table lies on both.
#[cfg(target_os = "linux")]
#[test]
fn files_on_two_file_systems_lie_on_two_devices() {
    let (folder, other) = (tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")), tempfile::tempdir_in("/dev/shm"));
    let (folder, other) = (folder.expect("a folder"), other.expect("a folder in memory"));
    let settings = InstanceSettings {
        memory_bytes: Some(256 << 20),
        allowed_folders: vec![other.path().to_path_buf()],
        ..InstanceSettings::default()
    };
    let instance = Instance::open_with(folder.path(), settings).expect("an instance");
    let mut session = instance.session().expect("a session");
    let path = other.path().join("f2.ndf");
    ok(
        &mut session,
        &format!(
            "CREATE DATABASE d ON PRIMARY (NAME = d, FILENAME = 'd.mdf'), FILEGROUP f DEFAULT
             (NAME = f1, FILENAME = 'f1.ndf', SIZE = 8MB, FILEGROWTH = 8MB),
             (NAME = f2, FILENAME = '{}', SIZE = 8MB, FILEGROWTH = 8MB)
             ALTER DATABASE d SET HOBT_FILL = THROUGHPUT",
            path.display()
        ),
    );
    ok(&mut session, "USE d; SELECT value AS n, REPLICATE('x', 3900) AS t INTO a FROM GENERATE_SERIES(1, 12000)");
    let of_data = "FROM sys.hobt_file_shares WHERE database_id = DB_ID() AND file_id > 2";
    assert_eq!(number(&mut session, &format!("SELECT COUNT(DISTINCT device_number) {of_data}")), 2);
    let measured = number(&mut session, &format!("SELECT COUNT(*) {of_data} AND bytes_written > 0"));
    assert_eq!(measured, 2, "both were written and measured");
    for file in [3, 4] {
        assert!(used_extents(&mut session, file) > 100, "file {file}");
    }
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM a"), 12_000);
}
