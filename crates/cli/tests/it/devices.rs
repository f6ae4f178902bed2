//! Files on devices of different speed, and pages beside the pool.

use std::path::Path;
use std::time::Duration;

use hobt::{Instance, InstanceSettings, Session};
use hobt_disk::{DeviceModel, DiskKind, SimulatedConfig};

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
