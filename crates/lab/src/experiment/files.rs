//! `files`: what several files do to a cold scan, on one device and on two of different speed, and how the files are
//! filled.
//!
//! On this machine's disk all files share one device. Two devices are modelled: a card, and a disk of a third of its
//! speed, as the text's card and its two more disks are about. The text weights the card by hand: six files there and
//! one on the disks. Weighted fill measures the devices instead. The tables that it divides are built last, because
//! only reads of the others say how fast the devices are.

use std::path::Path;

use hobt_disk::{DeviceModel, DiskKind, SimulatedConfig};
use hobt_engine::InstanceSettings;
use serde_json::{Map, json};

use super::scan::ROW_BYTES;
use super::{Experiment, Plan, plan_steps, run_plans};
use crate::data::big_data;
use crate::error::{LabError, Result};
use crate::figures::amount;
use crate::laboratory::{BIG_DATA_STEPS, Laboratory, RunOptions};
use crate::limits::LimitSettings;
use crate::report::{Case, Grid, Mark, Report, SHORT_S, too_short};

pub(super) struct FilesExperiment;

/// A gigabyte.
const WANTED_ROWS: u64 = 10_000_000;
/// Rows on the modelled devices, which lie in memory: 110 MB.
const MODELLED_ROWS: u64 = 1_200_000;
/// Megabytes per second of the modelled devices.
const CARD_MB_S: u64 = 300;
const DISK_MB_S: u64 = 100;
/// The folder of the slower device.
const SLOW: &str = "slow";
/// The most scans that measure the devices before tables are divided by them.
const MEASURING_SCANS: usize = 50;

/// The files of a table.
struct Layout {
    name: &'static str,
    meaning: &'static str,
    /// Files in the instance's folder, and in that of the slower device.
    files: usize,
    slow_files: usize,
    text: Option<&'static str>,
}

const fn layout(name: &'static str, meaning: &'static str, files: usize, slow_files: usize) -> Layout {
    Layout { name, meaning, files, slow_files, text: None }
}

/// On this machine's disk.
const HERE: [Layout; 3] = [
    layout("one_file", "one file on this machine's disk", 1, 0),
    Layout {
        text: Some("a second file made the scan slower: 36.9 s against 31.2 s"),
        ..layout("two_files", "two files on this machine's disk", 2, 0)
    },
    layout("seven_files", "seven files on this machine's disk", 7, 0),
];

/// On the modelled devices, filled by free space.
const PROPORTIONAL: [Layout; 3] = [
    Layout { text: Some("3,000 MB/s, 55 s"), ..layout("card_alone", "one file on the card", 1, 0) },
    layout("two_equal", "a file on the card and an equal one on the disk, filled by free space", 1, 1),
    Layout {
        text: Some("two more disks: 3,300 MB/s, 46 s"),
        ..layout("six_and_one", "six files on the card and one on the disk, filled by free space", 6, 1)
    },
];

/// On the modelled devices, filled by throughput.
const WEIGHTED: [Layout; 2] = [
    layout("two_weighted", "a file on the card and an equal one on the disk, filled by throughput", 1, 1),
    layout("six_and_one_weighted", "six files on the card and one on the disk, filled by throughput", 6, 1),
];

impl Layout {
    fn table(&self) -> String {
        format!("Files_{}", self.name)
    }

    fn plan(&self, rows: u64, has_disk: bool) -> Plan {
        let (table, statement) = (self.table(), big_data::count_ten(&format!("dbo.{}", self.table())));
        let plan = Plan { text: self.text, warm: false, ..Plan::new(self.name, self.meaning, &table, statement, rows) };
        if has_disk { plan } else { Plan { table: None, ..plan } }
    }

    /// Creates the filegroup and the table, with the rows of BigData.
    fn ensure(&self, lab: &mut Laboratory, rows: u64) -> Result<()> {
        let (database, table) = (lab.database()?.name().to_owned(), self.table());
        let group = format!("FG_{}", self.name);
        if lab.run(&format!("SELECT COUNT(*) FROM sys.filegroups WHERE name = '{group}'"))?.count() == Some(0) {
            let all = self.files + self.slow_files;
            // Half as much again as the table needs if it is divided evenly, so that no file grows then.
            let megabytes = (rows * ROW_BYTES * 3 / 2 / all as u64).div_ceil(1 << 20) + 8;
            let file = |number: usize| {
                let folder = if number < self.files { String::new() } else { format!("{SLOW}/") };
                let name = format!("{database}_{}_{number}", self.name);
                format!("(NAME = N'{name}', FILENAME = N'{folder}{name}.ndf', SIZE = {megabytes}MB)")
            };
            let files: Vec<String> = (0..all).map(file).collect();
            lab.run(&format!("ALTER DATABASE [{database}] ADD FILEGROUP [{group}]"))?;
            lab.run(&format!("ALTER DATABASE [{database}] ADD FILE {} TO FILEGROUP [{group}]", files.join(", ")))?;
        }
        let target = format!("dbo.{table}");
        let build = [
            big_data::create_table(&target, true, &format!("ON [{group}]")),
            big_data::copy_into(&target, "dbo.BigData", true),
        ];
        lab.ensure_table(&table, rows, &build)
    }
}

impl Experiment for FilesExperiment {
    fn name(&self) -> &'static str {
        "files"
    }

    fn question(&self) -> &'static str {
        "What do more files do to a cold scan, on one device and on two of different speed, filled by free space or by \
         throughput?"
    }

    fn compares_rates(&self) -> bool {
        true
    }

    fn run(&self, lab: &mut Laboratory) -> Result<Report> {
        let wanted = lab.rows_for(WANTED_ROWS, ROW_BYTES, HERE.len() as u64 + 1)?;
        let repeat = lab.options().repeat;
        let layouts = HERE.len() + PROPORTIONAL.len() + WEIGHTED.len();
        // One step measures the modelled devices.
        let tables = 2 * BIG_DATA_STEPS + layouts as u64 + 1;
        lab.progress().expect(tables + LimitSettings::steps_beside() + plan_steps(layouts, repeat));
        let rows = lab.ensure_big_data(wanted)?;
        for layout in &HERE {
            layout.ensure(lab, rows)?;
        }
        let limits = lab.limits(rows * ROW_BYTES)?;
        let plans: Vec<Plan> = HERE.iter().map(|layout| layout.plan(rows, true)).collect();
        let mut cases = run_plans(lab, &plans, repeat)?;
        cases.extend(on_two_devices(lab, rows.min(MODELLED_ROWS))?);
        let mut settings = Map::new();
        settings.insert("rows".to_owned(), json!(rows));
        settings.insert("repeat".to_owned(), json!(repeat));
        settings.insert("card_mb_s".to_owned(), json!(CARD_MB_S));
        settings.insert("disk_mb_s".to_owned(), json!(DISK_MB_S));
        Ok(Report {
            tables: vec![shares(&cases)],
            marks: marks(&cases),
            cases,
            notes: vec![format!(
                "card_alone, two_… and six_and_one… ran on models of a card of {CARD_MB_S} MB/s and a disk of {DISK_MB_S} \
                 MB/s, with fewer rows: compare them with each other only"
            )],
            ..self.report(lab, limits, settings)
        })
    }
}

/// A device of so many megabytes per second.
fn device(megabytes_per_second: u64) -> DeviceModel {
    DeviceModel { bytes_per_second: megabytes_per_second * 1_000_000, ..DeviceModel::fast_card() }
}

/// An instance in memory whose folder `slow` lies on a device of its own.
fn open_modelled(lab: &Laboratory, folder: &Path, rows: u64) -> Result<Laboratory> {
    let doing = || format!("creating {}", folder.display());
    std::fs::create_dir_all(folder).map_err(LabError::io(doing()))?;
    let resolved = folder.canonicalize().map_err(LabError::io(doing()))?;
    let config = SimulatedConfig {
        device: Some(device(CARD_MB_S)),
        devices: vec![(resolved.join(SLOW), device(DISK_MB_S))],
        track_unsynced: false,
        ..SimulatedConfig::default()
    };
    let settings = InstanceSettings { disk: DiskKind::Simulated(config), ..InstanceSettings::default() };
    let options = RunOptions { rows: Some(rows), sweep: false, ..lab.options().clone() };
    Laboratory::open(folder, settings, options, lab.progress().clone())
}

fn on_two_devices(lab: &Laboratory, rows: u64) -> Result<Vec<Case>> {
    let folder = lab.folder().join("modelled-two-devices");
    let mut modelled = open_modelled(lab, &folder, rows)?;
    let rows = modelled.ensure_big_data(rows)?;
    for layout in &PROPORTIONAL {
        layout.ensure(&mut modelled, rows)?;
    }
    measure_devices(&mut modelled)?;
    let database = modelled.database()?.name().to_owned();
    modelled.run(&format!("ALTER DATABASE [{database}] SET HOBT_FILL = THROUGHPUT"))?;
    for layout in &WEIGHTED {
        layout.ensure(&mut modelled, rows)?;
    }
    let layouts = || PROPORTIONAL.iter().chain(&WEIGHTED);
    let plans: Vec<Plan> = layouts().map(|layout| layout.plan(rows, false)).collect();
    let repeat = modelled.options().repeat;
    let mut cases = run_plans(&mut modelled, &plans, repeat)?;
    for (layout, case) in layouts().zip(&mut cases) {
        let part = slow_part(&modelled, &layout.table())?;
        case.figures.insert("on_the_disk_percent".to_owned(), json!(part * 100.0));
        case.figures.insert("possible_mb_s".to_owned(), json!(possible_mb_s(part)));
    }
    modelled.close()?;
    // The files were in memory: the folder is empty.
    std::fs::remove_dir(&folder).map_err(LabError::io(format!("removing {}", folder.display())))?;
    Ok(cases)
}

/// Scans a table on both devices, cold, until each device has read enough for its rate to count.
fn measure_devices(lab: &mut Laboratory) -> Result<()> {
    lab.progress().step("measuring the devices by scans");
    let scan = big_data::count_ten(&format!("dbo.{}", PROPORTIONAL[1].table()));
    let measured = "SELECT MIN(bytes_read) FROM sys.hobt_file_shares WHERE database_id = DB_ID()";
    for _ in 0..MEASURING_SCANS {
        lab.run("CHECKPOINT; DBCC DROPCLEANBUFFERS")?;
        lab.run(&scan)?;
        if lab.run(measured)?.count() >= Some(16 << 20) {
            return Ok(());
        }
    }
    Err(LabError::Wrong(format!("{MEASURING_SCANS} scans did not measure both devices")))
}

/// The part of a table's bytes that lies on the slower device.
fn slow_part(lab: &Laboratory, table: &str) -> Result<f64> {
    let stretches = lab.stretches(table)?;
    let is_slow = |path: &Path| path.parent().is_some_and(|folder| folder.ends_with(SLOW));
    let slow = stretches.iter().filter(|stretch| is_slow(stretch.file.path()));
    let sum: u64 = stretches.iter().map(|stretch| stretch.bytes).sum();
    Ok(slow.map(|stretch| stretch.bytes).sum::<u64>() as f64 / sum.max(1) as f64)
}

/// The rate at which both devices together read a table of which this part lies on the slower one.
fn possible_mb_s(slow_part: f64) -> f64 {
    1.0 / f64::max((1.0 - slow_part) / CARD_MB_S as f64, slow_part / DISK_MB_S as f64)
}

fn shares(cases: &[Case]) -> Grid {
    let headers = ["case", "on the disk, percent", "possible MB/s", "MB/s"];
    let mut grid = Grid::new("A table on two devices", &headers);
    for case in cases {
        let figure = |key: &str| case.figures.get(key).and_then(serde_json::Value::as_f64);
        let (Some(part), Some(possible)) = (figure("on_the_disk_percent"), figure("possible_mb_s")) else { continue };
        let rate = case.cold_mb_s().map_or_else(|| "-".to_owned(), amount);
        grid.rows.push(vec![case.name.clone(), amount(part), amount(possible), rate]);
    }
    grid
}

fn marks(cases: &[Case]) -> Vec<Mark> {
    let case = |name: &str| cases.iter().find(|case| case.name == name);
    let rate = |name: &str| case(name).and_then(Case::cold_mb_s);
    let mark = |name: &str, weighted: &str, other: &str, bound: f64| {
        Some(Mark {
            name: name.to_owned(),
            value: rate(weighted)? / rate(other)?,
            bound,
            at_least: true,
            of: None,
            too_small: too_short(case(weighted)?.median("cold_s")?, 5.0 * SHORT_S),
            interval: None,
        })
    };
    [
        mark("two files by throughput over two by free space, MB/s", "two_weighted", "two_equal", 1.5),
        mark("two files by throughput over six and one by hand, MB/s", "two_weighted", "six_and_one", 1.0),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_end_together_if_each_has_its_part() {
        assert!((possible_mb_s(0.25) - 400.0).abs() < 1e-9);
        assert!((possible_mb_s(0.5) - 200.0).abs() < 1e-9);
        assert!((possible_mb_s(0.0) - 300.0).abs() < 1e-9);
    }
}
