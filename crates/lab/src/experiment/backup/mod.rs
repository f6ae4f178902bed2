//! `backup`: how fast are backups and restores against what the disk reads and writes at once, by stripes and by
//! compression, and what does a backup cost a load beside it?
//!
//! A backup reads and writes the same device at the same time. So the limit beside each case is measured as that: as
//! many bytes as the case moves, read from one file and written to another (`limits/disk.rs`), in the same repetition.
//! The database is the experiment's own, LINEITEM in a heap. It and all files are removed at the end, and what the
//! history of backups has of them.
//!
//! `timed` runs backups and restores, `beside` a load with and without backups beside it; `places` says where all lies.

mod beside;
mod places;
mod timed;

use std::fs;

use hobt_engine::HistoryEntry;
use serde_json::{Map, json};

use self::beside::Beside;
use self::places::{DATABASE, FOLDER, RESTORED};
use self::timed::{Changes, Full, Restore, Timed};
use super::Experiment;
use super::load::files::{FileKind, Parts};
use super::together::longest_wait;
use crate::data;
use crate::error::{LabError, Result};
use crate::figures::{amount, median, median_interval, seconds, thousands};
use crate::laboratory::Laboratory;
use crate::limits::LimitSettings;
use crate::limits::disk::DiskProbe;
use crate::report::{Case, Grid, Mark, Report};

pub(super) struct BackupExperiment;

/// Rows, if not specified: those of scale factor 1/3.
const WANTED_ROWS: u64 = 2_000_000;
/// Approximate bytes of a row in a table, a file or a backup.
const ROW_BYTES: u64 = 150;
/// The rows once in each: the table, the table that is loaded, its file, two backups that are kept and one that is
/// written, the restored database, and the two files of the limit.
const TIMES_ON_DISK: u64 = 9;
/// The smallest scale factor of the rows.
const SCALE_MIN: f64 = 0.000_5;
/// The part of the limit that a backup and a restore are to reach.
const OVER_LIMIT: f64 = 0.9;
/// Of a smaller backup, in bytes, begin and end take too large a part.
const BACKUP_BYTES_MIN: u64 = 200_000_000;

impl Experiment for BackupExperiment {
    fn name(&self) -> &'static str {
        "backup"
    }

    fn question(&self) -> &'static str {
        "How fast are a backup and a restore against what the disk reads and writes at once, by stripes and compression, \
         and what does a backup cost a load beside it?"
    }

    fn run(&self, lab: &mut Laboratory) -> Result<Report> {
        let rows = lab.rows_for(WANTED_ROWS, ROW_BYTES, TIMES_ON_DISK)?;
        let repeat = lab.options().repeat.max(1);
        let home = lab.database()?.name().to_owned();
        let of_repetition = Beside::ALL.len() + Full::ALL.len() + Changes::ALL.len() + 1 + Restore::ALL.len();
        // The table, the file to load, and the file that the limit reads.
        lab.progress().expect(settings(rows, repeat).steps() + 3 + (of_repetition * repeat) as u64);
        let ran = self.measure(lab, rows, repeat);
        let left = clean_up(lab, &home);
        let report = ran?;
        left?;
        Ok(report)
    }
}

fn settings(rows: u64, repeat: usize) -> LimitSettings {
    LimitSettings::beside(rows * ROW_BYTES, repeat.min(3)).with_copies()
}

impl BackupExperiment {
    fn measure(&self, lab: &mut Laboratory, rows: u64, repeat: usize) -> Result<Report> {
        let limits = lab.limits_with(settings(rows, repeat))?;
        let scale = (rows as f64 / data::LINEITEM_ROWS).max(SCALE_MIN);
        let rows = build(lab, rows, scale)?;
        lab.progress().step("writing a file to load");
        let file = Parts::write(lab, FileKind::Csv, scale, 1)?;
        let loads = beside::measure(lab, &file, repeat);
        file.remove()?;
        let loads = loads?;
        lab.progress().step("writing the file that the limit reads");
        let probe = lab.disk_probe(rows * ROW_BYTES)?;
        let mut timed = timed(lab, &probe, rows, repeat)?;
        drop(probe);
        let megabytes = timed.first().map_or(0, Case::bytes) / 1_000_000;
        let notes = notes(limits.disk_is_direct, megabytes);
        let tables = vec![grid(&timed), beside::grid(&loads)];
        let marks = marks(&timed);
        timed.extend(loads);
        let mut settings = Map::new();
        settings.insert("rows".to_owned(), json!(rows));
        settings.insert("repeat".to_owned(), json!(repeat));
        Ok(Report { tables, marks, cases: timed, notes, ..self.report(lab, limits, settings) })
    }
}

/// Creates the database with its table, and makes it the current one. Returns the number of rows.
fn build(lab: &mut Laboratory, rows: u64, scale: f64) -> Result<u64> {
    let drop = |name: &str| format!("DROP DATABASE IF EXISTS [{name}]");
    lab.run(&format!("USE master; {}; {}", drop(DATABASE), drop(RESTORED)))?;
    // Room for the table and for what is loaded beside it, so that no file grows while the clock runs.
    let megabytes = (2 * rows * ROW_BYTES).div_ceil(1 << 20) + 16;
    lab.run(&format!(
        "CREATE DATABASE [{DATABASE}] ON (NAME = {DATABASE}, FILENAME = '{DATABASE}.mdf', SIZE = {megabytes}MB) \
         LOG ON (NAME = {DATABASE}_log, FILENAME = '{DATABASE}.ldf')"
    ))?;
    lab.run(&format!("ALTER DATABASE [{DATABASE}] SET RECOVERY SIMPLE; USE [{DATABASE}]"))?;
    let folder = lab.folder().join(FOLDER);
    fs::create_dir_all(&folder).map_err(LabError::io(format!("creating {}", folder.display())))?;
    lab.ensure_line_item(scale)
}

/// Drops the databases, and removes the files of backups and what the history has of them.
fn clean_up(lab: &mut Laboratory, home: &str) -> Result<()> {
    lab.run(&format!("USE [{home}]; DROP DATABASE IF EXISTS [{RESTORED}]; DROP DATABASE IF EXISTS [{DATABASE}]"))?;
    let is_own = |entry: &HistoryEntry| match entry {
        HistoryEntry::Backup { facts, .. } => facts.database == DATABASE,
        HistoryEntry::Restore { database, .. } => database == RESTORED || database == DATABASE,
    };
    let doing = "cleaning the history of backups";
    let history = lab.instance().backup_history().map_err(|error| LabError::sql(doing, error))?;
    let own: Vec<i32> = history.iter().filter(|(_, entry)| is_own(entry)).map(|(number, _)| *number).collect();
    lab.instance().delete_backup_history(&own).map_err(|error| LabError::sql(doing, error))?;
    let folder = lab.folder().join(FOLDER);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(LabError::io(format!("removing {}", folder.display())))?;
    }
    Ok(())
}

/// Runs the backups and restores.
fn timed(lab: &mut Laboratory, probe: &DiskProbe, rows: u64, repeat: usize) -> Result<Vec<Case>> {
    // From the first full backup on, the log is kept for its own backup.
    lab.run(&format!("ALTER DATABASE [{DATABASE}] SET RECOVERY FULL"))?;
    let mut timed = Timed::new(probe, rows, repeat);
    for repetition in 0..repeat {
        timed.fulls(lab, repetition)?;
        timed.changes(lab, repetition)?;
        timed.restores(lab, repetition)?;
    }
    Ok(timed.into_cases())
}

fn grid(cases: &[Case]) -> Grid {
    let headers = [
        "case",
        "MB/s",
        "of the limit",
        "waits most for",
        "elapsed",
        "CPU",
        "GB/h",
        "limit MB/s",
        "MB",
        "MB in the files",
    ];
    let mut grid = Grid::new("Backups and restores, by bytes of the database", &headers);
    for case in cases {
        let figure = |key: &str| case.median(key).unwrap_or(0.0);
        grid.rows.push(vec![
            case.name.clone(),
            amount(figure("mb_s")),
            format!("{:.0} %", figure("over_limit") * 100.0),
            longest_wait(case),
            seconds(figure("elapsed_s")),
            seconds(figure("process_cpu_s")),
            thousands(figure("gb_an_hour") as u64),
            amount(figure("limit_mb_s")),
            amount(case.bytes() as f64 / 1e6),
            amount(figure("stored_mb")),
        ]);
    }
    grid
}

/// Why a mark is not judged, if too little was backed up.
fn too_few_bytes(bytes: u64) -> Option<String> {
    let megabytes = |bytes: u64| amount(bytes as f64 / 1e6);
    (bytes < BACKUP_BYTES_MIN).then(|| format!("{} MB, needs {} MB", megabytes(bytes), megabytes(BACKUP_BYTES_MIN)))
}

fn marks(cases: &[Case]) -> Vec<Mark> {
    let mark = |name: &str, case: &str| {
        let case = cases.iter().find(|found| found.name == case)?;
        let ratios = case.values("over_limit");
        Some(Mark {
            name: name.to_owned(),
            value: median(ratios)?,
            bound: OVER_LIMIT,
            at_least: true,
            of: None,
            too_small: too_few_bytes(case.bytes()),
            interval: median_interval(ratios),
        })
    };
    [
        mark("backup to one file over reading and writing at once", "full_1"),
        mark("restore from one file over reading and writing at once", "restore"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn notes(is_direct: bool, megabytes: u64) -> Vec<String> {
    let mut notes = vec![
        "the limit of a case reads and writes as many bytes as the case, with both under way at once in large transfers \
         past the system's cache, and a sync at the end; that of verify reads alone"
            .to_owned(),
        format!(
            "what was written a moment ago may come from a cache of the device or of the host: where that is larger than \
             {} MB, cases and limits read faster than the medium does",
            thousands(megabytes)
        ),
    ];
    if !is_direct {
        let text = "the file system has no transfers past its cache: cases and limits are of memory, and not of a disk";
        notes.push(text.to_owned());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marks_can_fail_and_small_backups_are_not_judged() {
        let case = |name: &str, ratio: f64, bytes: u64| {
            let mut case = Case::new(name, "BACKUP");
            case.push("over_limit", ratio);
            case.set_bytes(bytes);
            case
        };
        let met = |ratio: f64, bytes: u64| {
            let cases = [case("full_1", ratio, bytes), case("restore", ratio, bytes)];
            marks(&cases).iter().map(Mark::is_met).collect::<Vec<_>>()
        };
        assert_eq!(met(0.9, BACKUP_BYTES_MIN), [Some(true), Some(true)]);
        assert_eq!(met(0.5, BACKUP_BYTES_MIN), [Some(false), Some(false)]);
        assert_eq!(met(0.5, BACKUP_BYTES_MIN - 1), [None, None]);
    }
}
