//! `extension`: what the buffer pool extension does for lookups by key, with the data on a slow disk and the extension
//! on a fast device.
//!
//! Both devices are modelled. The table is four times as large as the pool, and the extension twice as large as the
//! table. Lookups draw their keys evenly, so without an extension three quarters of them wait for the disk. After a
//! scan of the whole table they are measured again: scans neither use nor fill the extension.

use std::path::Path;
use std::time::Duration;

use hobt_base::PAGE_SIZE;
use hobt_disk::{DeviceModel, DiskKind, SimulatedConfig};
use hobt_engine::InstanceSettings;
use serde_json::{Map, json};

use super::Experiment;
use crate::error::{LabError, Result};
use crate::figures::{amount, thousands};
use crate::laboratory::{Laboratory, RunOptions};
use crate::limits::LimitSettings;
use crate::report::{Case, Grid, Mark, Report, SHORT_S, too_short};

pub(super) struct ExtensionExperiment;

/// Rows of the table, two a page: 32 MB.
const WANTED_ROWS: u64 = 8_000;
const ROW_BYTES: u64 = PAGE_SIZE as u64 / 2;
/// The table over the pool, and the extension over the table.
const TABLE_OVER_POOL: u64 = 4;
const EXTENSION_OVER_TABLE: u64 = 2;
/// Lookups of a repetition.
const LOOKUPS: u64 = 500;
/// The folder of the fast device.
const FAST: &str = "fast";
/// The time of a seek of the slow disk.
const SEEK: Duration = Duration::from_millis(2);

const CASES: [(&str, &str); 3] = [
    ("pool_alone", "lookups by key, three quarters of them from the slow disk"),
    ("extension", "lookups by key with an extension on the fast device"),
    ("extension_after_scan", "lookups by key with the extension, each time after a scan of the whole table"),
];

impl Experiment for ExtensionExperiment {
    fn name(&self) -> &'static str {
        "extension"
    }

    fn question(&self) -> &'static str {
        "What does a buffer pool extension on a fast device do for lookups in a table on a slow disk, four times as large \
         as the pool?"
    }

    fn run(&self, lab: &mut Laboratory) -> Result<Report> {
        let rows = lab.rows_for(WANTED_ROWS, ROW_BYTES, 1)?.min(WANTED_ROWS);
        let repeat = lab.options().repeat.max(1);
        // The table is built, and the extension is filled.
        lab.progress().expect(2 + (CASES.len() * repeat) as u64 + LimitSettings::steps_beside());
        let limits = lab.limits(rows * ROW_BYTES)?;
        let folder = lab.folder().join("modelled-slow-disk");
        let mut modelled = open_modelled(lab, &folder, rows)?;
        build(&mut modelled, rows)?;
        let mut cases: Vec<Case> = CASES
            .iter()
            .map(|(name, meaning)| {
                let statement = lookups(rows, 1);
                Case { meaning: (*meaning).to_owned(), rows, ..Case::new(*name, statement) }
            })
            .collect();
        measure(&mut modelled, &mut cases[0], rows, repeat, false)?;
        let bytes = rows * ROW_BYTES * EXTENSION_OVER_TABLE;
        modelled.run(&format!(
            "ALTER SERVER CONFIGURATION SET BUFFER POOL EXTENSION ON (FILENAME = '{FAST}/pages.bpe', SIZE = {} KB)",
            bytes / 1024
        ))?;
        modelled.progress().step("filling the extension");
        (0..2).try_for_each(|_| modelled.run(&in_order(rows)).map(drop))?;
        measure(&mut modelled, &mut cases[1], rows, repeat, false)?;
        measure(&mut modelled, &mut cases[2], rows, repeat, true)?;
        modelled.close()?;
        // The files were in memory: the folder is empty.
        std::fs::remove_dir(&folder).map_err(LabError::io(format!("removing {}", folder.display())))?;
        let mut settings = Map::new();
        settings.insert("rows".to_owned(), json!(rows));
        settings.insert("repeat".to_owned(), json!(repeat));
        settings.insert("lookups".to_owned(), json!(LOOKUPS));
        settings.insert("seek_ms".to_owned(), json!(SEEK.as_secs_f64() * 1e3));
        Ok(Report {
            tables: vec![grid(&cases)],
            marks: marks(&cases),
            cases,
            notes: vec![
                "ran on models of a disk of 2 ms a seek and of a flash card; the machine's own disk has no part in it"
                    .to_owned(),
            ],
            ..self.report(lab, limits, settings)
        })
    }
}

fn open_modelled(lab: &Laboratory, folder: &Path, rows: u64) -> Result<Laboratory> {
    let doing = || format!("creating {}", folder.display());
    std::fs::create_dir_all(folder).map_err(LabError::io(doing()))?;
    let resolved = folder.canonicalize().map_err(LabError::io(doing()))?;
    let config = SimulatedConfig {
        device: Some(DeviceModel { seek: SEEK, ..DeviceModel::slow_disk() }),
        devices: vec![(resolved.join(FAST), DeviceModel::fast_card())],
        track_unsynced: false,
        ..SimulatedConfig::default()
    };
    let settings = InstanceSettings {
        disk: DiskKind::Simulated(config),
        pool_bytes: Some(rows * ROW_BYTES / TABLE_OVER_POOL),
        ..InstanceSettings::default()
    };
    let options = RunOptions { rows: Some(rows), ..lab.options().clone() };
    Laboratory::open(folder, settings, options, lab.progress().clone())
}

/// A table with a key, two rows a page.
fn build(lab: &mut Laboratory, rows: u64) -> Result<()> {
    lab.progress().step("building Pages");
    lab.run(
        "CREATE TABLE dbo.Pages (id int NOT NULL CONSTRAINT PK_Pages PRIMARY KEY CLUSTERED, n int NOT NULL, \
         filler char(3900) NOT NULL)",
    )?;
    lab.run(&format!(
        "INSERT INTO dbo.Pages WITH (TABLOCK) (id, n, filler) SELECT value, value * 2, 'a' FROM GENERATE_SERIES(1, {rows})"
    ))?;
    lab.run("CHECKPOINT")?;
    Ok(())
}

/// Looks up all rows in the order of their keys. Returns the number of wrong ones.
fn in_order(rows: u64) -> String {
    format!(
        "SET NOCOUNT ON; DECLARE @i int = 0, @n int, @wrong int = 0; WHILE @i < {rows} BEGIN SET @i += 1; \
         SELECT @n = n FROM dbo.Pages WHERE id = @i; IF @n <> @i * 2 SET @wrong += 1 END; SELECT @wrong"
    )
}

/// Looks up rows by keys drawn evenly, the same for the same seed. Returns the number of wrong ones.
fn lookups(rows: u64, seed: usize) -> String {
    format!(
        "SET NOCOUNT ON; DECLARE @i int = 0, @k int, @n int, @wrong int = 0, @seed float = RAND({seed}); \
         WHILE @i < {LOOKUPS} BEGIN SET @i += 1; SET @k = 1 + CAST(RAND() * {rows} AS int); \
         SELECT @n = n FROM dbo.Pages WHERE id = @k; IF @n <> @k * 2 SET @wrong += 1 END; SELECT @wrong"
    )
}

fn measure(lab: &mut Laboratory, case: &mut Case, rows: u64, repeat: usize, after_scan: bool) -> Result<()> {
    for repetition in 1..=repeat {
        lab.progress().step(&format!("{}, {repetition} of {repeat}", case.name));
        if after_scan {
            lab.run("SELECT COUNT_BIG(*), MAX(filler) FROM dbo.Pages WITH (INDEX (0))")?;
        }
        let read = |lab: &Laboratory| {
            let pool = lab.instance().pool();
            (pool.statistics().page_misses, pool.extension_statistics().map_or(0, |all| all.pages_read))
        };
        let before = read(lab);
        let answer = lab.run(&lookups(rows, repetition))?;
        let after = read(lab);
        if answer.count() != Some(0) {
            return Err(LabError::Wrong(format!("{}: {:?} lookups gave a wrong row", case.name, answer.count())));
        }
        let seconds = answer.elapsed.as_secs_f64();
        case.push("elapsed_s", seconds);
        case.push("lookups_per_s", LOOKUPS as f64 / seconds);
        let (misses, copies) = (after.0 - before.0, after.1 - before.1);
        case.push("from_extension", copies as f64);
        case.push("from_disk", misses.saturating_sub(copies) as f64);
    }
    Ok(())
}

fn grid(cases: &[Case]) -> Grid {
    let headers = ["case", "lookups/s", "pages from the disk", "pages from the extension"];
    let mut grid = Grid::new(format!("{LOOKUPS} lookups by key"), &headers);
    for case in cases {
        let figure = |key: &str| case.median(key).unwrap_or(0.0);
        grid.rows.push(vec![
            case.name.clone(),
            amount(figure("lookups_per_s")),
            thousands(figure("from_disk") as u64),
            thousands(figure("from_extension") as u64),
        ]);
    }
    grid
}

fn marks(cases: &[Case]) -> Vec<Mark> {
    let mark = |name: &str, one: &Case, other: &Case, bound: f64| {
        let rate = |case: &Case| case.median("lookups_per_s");
        Some(Mark {
            name: name.to_owned(),
            value: rate(one)? / rate(other)?,
            bound,
            at_least: true,
            of: None,
            too_small: too_short(one.median("elapsed_s")?, SHORT_S),
            interval: None,
        })
    };
    [
        mark("lookups with the extension over those without", &cases[1], &cases[0], 2.0),
        mark("lookups after scans over those before", &cases[2], &cases[1], 0.5),
    ]
    .into_iter()
    .flatten()
    .collect()
}
