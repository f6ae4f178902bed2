//! `reader`: what does a reader under `SNAPSHOT` cost that stays open while others update?
//!
//! A connection opens a transaction and keeps it. Others update rows by keys drawn at random, each in a transaction of
//! its own. The open reader and one that has just begun read alike, in turn: rows by key, and the whole table; in each
//! round while the updates go on, and again when they are made. The open reader sees every row as it was at first,
//! which is checked.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, json};

use super::Experiment;
use super::together::run_together;
use crate::connection::Connection;
use crate::error::{LabError, Result};
use crate::figures::thousands;
use crate::laboratory::Laboratory;
use crate::limits::LimitSettings;
use crate::report::{Case, Grid, Report};

pub(super) struct ReaderExperiment;

/// Updates in all, if not specified.
const WANTED_UPDATES: u64 = 200_000;
/// Rows of the table.
const TABLE_ROWS: u64 = 100_000;
/// Approximate bytes of a row on its page.
const ROW_BYTES: u64 = 160;
/// Connections that update.
const WRITERS: usize = 4;
/// The updates are made in so many rounds. The readers are measured in each.
const ROUNDS: u64 = 4;
/// Rows that are read by key in one loop.
const LOOKUPS: u64 = 100;

/// How often both readers are measured when the updates of a round are made.
const SAMPLES: u64 = 5;

/// When the readers are measured.
#[derive(Clone, Copy)]
enum When {
    /// While others update.
    Beside,
    /// When the updates are made.
    After,
}

/// What is read.
#[derive(Clone, Copy)]
enum What {
    ByKey,
    Whole,
}

/// The figure of a reader: rows by key in a second, or milliseconds for the whole table.
fn figure(when: When, is_new: bool, what: What) -> &'static str {
    match (when, is_new, what) {
        (When::Beside, true, What::ByKey) => "beside_new_lookups_per_s",
        (When::Beside, true, What::Whole) => "beside_new_scan_ms",
        (When::Beside, false, What::ByKey) => "beside_open_lookups_per_s",
        (When::Beside, false, What::Whole) => "beside_open_scan_ms",
        (When::After, true, What::ByKey) => "after_new_lookups_per_s",
        (When::After, true, What::Whole) => "after_new_scan_ms",
        (When::After, false, What::ByKey) => "after_open_lookups_per_s",
        (When::After, false, What::Whole) => "after_open_scan_ms",
    }
}

/// A loop that reads rows by key. Its keys are the same in every run.
fn lookups() -> String {
    format!(
        "SET NOCOUNT ON; DECLARE @i int = 0, @s bigint, @seed float = RAND(7); \
         WHILE @i < {LOOKUPS} BEGIN SET @i += 1; \
         SELECT @s = changed FROM dbo.Kept WHERE id = 1 + CAST(RAND() * {TABLE_ROWS} AS bigint) END"
    )
}

/// The loop of a connection that updates. Its keys are the same in every run.
fn updates(connection: usize, round: u64, count: u64) -> String {
    format!(
        "SET NOCOUNT ON; DECLARE @i bigint = 0, @seed float = RAND({}); WHILE @i < {count} BEGIN SET @i += 1; \
         UPDATE dbo.Kept SET changed = changed + 1 WHERE id = 1 + CAST(RAND() * {TABLE_ROWS} AS bigint) END",
        round * 100 + connection as u64
    )
}

const SUM: &str = "SELECT SUM(changed) FROM dbo.Kept";

impl Experiment for ReaderExperiment {
    fn name(&self) -> &'static str {
        "reader"
    }

    fn question(&self) -> &'static str {
        "What does a reader cost that stays open under SNAPSHOT while others update?"
    }

    fn run(&self, lab: &mut Laboratory) -> Result<Report> {
        let wanted = lab.rows_for(WANTED_UPDATES, ROW_BYTES, 1)?;
        lab.progress().expect(LimitSettings::steps_beside() + ROUNDS + 1);
        lab.progress().step("building Kept");
        build(lab)?;
        let limits = lab.limits(TABLE_ROWS * ROW_BYTES)?;
        let mut open = lab.connect()?;
        open.run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRANSACTION; SELECT COUNT(*) FROM dbo.Kept")?;
        let each = (wanted / ROUNDS / WRITERS as u64).max(1);
        let mut cases = Vec::new();
        for round in 1..=ROUNDS {
            lab.progress().step(&format!("round {round} of {ROUNDS}"));
            cases.push(run_round(lab, &mut open, round, each)?);
        }
        let sum = open.run(SUM)?.count();
        if sum != Some(0) {
            return Err(LabError::Wrong(format!("the open reader was to see no update and sees {sum:?}")));
        }
        open.run("COMMIT")?;
        let made = lab.run(SUM)?.count();
        if made != Some(each * WRITERS as u64 * ROUNDS) {
            return Err(LabError::Wrong(format!("{} updates were made and {made:?} are there", each * ROUNDS)));
        }
        let mut settings = Map::new();
        settings.insert("updates".to_owned(), json!(each * WRITERS as u64 * ROUNDS));
        settings.insert("table_rows".to_owned(), json!(TABLE_ROWS));
        let notes = vec![
            format!("{WRITERS} connections update; every update is committed by itself"),
            "the new reader begins a transaction for each measurement".to_owned(),
            "where a figure is missing, the updates were made before it was read: more --rows make them longer"
                .to_owned(),
        ];
        Ok(Report { tables: vec![grid(&cases)], cases, notes, ..self.report(lab, limits, settings) })
    }
}

/// Recreates the table: rows that are not updated yet.
fn build(lab: &mut Laboratory) -> Result<()> {
    lab.run("DROP TABLE IF EXISTS dbo.Kept")?;
    lab.run("ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON")?;
    lab.run(
        "CREATE TABLE dbo.Kept (id bigint NOT NULL, changed bigint NOT NULL, filler char(111) NOT NULL, \
         CONSTRAINT PK_Kept PRIMARY KEY CLUSTERED (id))",
    )?;
    lab.run(&format!(
        "INSERT INTO dbo.Kept (id, changed, filler) SELECT value, 0, 'a' FROM GENERATE_SERIES(1, {TABLE_ROWS})"
    ))?;
    let rows = lab.row_count("Kept")?;
    if rows != TABLE_ROWS {
        return Err(LabError::Wrong(format!("the table Kept was to have {TABLE_ROWS} rows and has {rows}")));
    }
    Ok(())
}

fn run_round(lab: &mut Laboratory, open: &mut Connection, round: u64, each: u64) -> Result<Case> {
    let mut writers: Vec<Connection> = (0..WRITERS).map(|_| lab.connect()).collect::<Result<_>>()?;
    let mut new = lab.connect()?;
    let made = each * WRITERS as u64;
    let mut case = Case { rows: made, ..Case::new(format!("after_{}", round * made), updates(1, round, each)) };
    let are_done = AtomicBool::new(false);
    let (elapsed, measured) = std::thread::scope(|scope| {
        let updating = scope.spawn(|| {
            let done = run_together(&mut writers, |connection| updates(connection, round, each));
            are_done.store(true, Ordering::Release);
            done
        });
        let mut beside = || -> Result<()> {
            while !are_done.load(Ordering::Acquire) {
                measure(&mut case, (When::Beside, &are_done), true, &mut new)?;
                measure(&mut case, (When::Beside, &are_done), false, open)?;
            }
            Ok(())
        };
        let measured = beside();
        (updating.join().expect("a session does not panic"), measured)
    });
    measured?;
    let never = AtomicBool::new(false);
    for _ in 0..SAMPLES {
        measure(&mut case, (When::After, &never), true, &mut new)?;
        measure(&mut case, (When::After, &never), false, open)?;
    }
    case.push("updates_per_s", made as f64 / elapsed?.0);
    let kept = "SELECT SUM(reserved_space_kb) / 1024 FROM sys.dm_tran_version_store_space_usage";
    case.push("version_store_mb", lab.run(kept)?.count().unwrap_or(0) as f64);
    Ok(case)
}

/// Measures a reader. What is not read before `is_over` is not counted.
fn measure(case: &mut Case, (when, is_over): (When, &AtomicBool), is_new: bool, reader: &mut Connection) -> Result<()> {
    if is_new {
        reader.run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRANSACTION; SELECT TOP (1) id FROM dbo.Kept")?;
    }
    let by_key = reader.run(&lookups())?.elapsed.as_secs_f64();
    if !is_over.load(Ordering::Acquire) {
        case.push(figure(when, is_new, What::ByKey), LOOKUPS as f64 / by_key);
    }
    let whole = reader.run(SUM)?.elapsed.as_secs_f64();
    if !is_over.load(Ordering::Acquire) {
        case.push(figure(when, is_new, What::Whole), whole * 1000.0);
    }
    if is_new {
        reader.run("COMMIT")?;
    }
    Ok(())
}

fn grid(cases: &[Case]) -> Grid {
    let headers = [
        "updates",
        "made/s",
        "versions MB",
        "readers",
        "lookups/s, new",
        "open",
        "ratio",
        "scan ms, new",
        "open",
        "ratio",
    ];
    let mut grid = Grid::new("A new reader and one that is open since before the updates", &headers);
    for case in cases {
        for when in [When::Beside, When::After] {
            let of = |what: What| [true, false].map(|is_new| case.median(figure(when, is_new, what)));
            let shown = |value: Option<f64>, places: usize| match value {
                Some(value) if places == 0 => thousands(value.round() as u64),
                Some(value) => format!("{value:.places$}"),
                None => "-".to_owned(),
            };
            let ratio = |slow: Option<f64>, fast: Option<f64>| slow.zip(fast).map(|(slow, fast)| slow / fast);
            let ([new_keys, open_keys], [new_scan, open_scan]) = (of(What::ByKey), of(What::Whole));
            let (name, made, readers) = match when {
                When::Beside => (case.name.clone(), shown(case.median("updates_per_s"), 0), "beside"),
                When::After => (String::new(), String::new(), "after"),
            };
            grid.rows.push(vec![
                name,
                made,
                shown(case.median("version_store_mb"), 0),
                readers.to_owned(),
                shown(new_keys, 0),
                shown(open_keys, 0),
                shown(ratio(new_keys, open_keys), 2),
                shown(new_scan, 1),
                shown(open_scan, 1),
                shown(ratio(open_scan, new_scan), 2),
            ]);
        }
    }
    grid
}
