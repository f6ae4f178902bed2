//! A load of a file into a heap, alone and while one backup after the other runs.

use std::sync::atomic::{AtomicBool, Ordering};

use super::super::load::files::Parts;
use super::super::together::{Counters, longest_wait};
use super::places::{DATABASE, devices, remove};
use crate::connection::{Answer, Connection};
use crate::data;
use crate::error::{LabError, Result};
use crate::figures::{amount, seconds, thousands};
use crate::laboratory::Laboratory;
use crate::report::{Case, Grid};

/// The table that is loaded.
const TABLE: &str = "Loaded";

/// What runs beside the load.
pub(super) struct Beside {
    name: &'static str,
    meaning: &'static str,
    /// The options of the backups, if any run.
    backups: Option<&'static str>,
}

impl Beside {
    pub(super) const ALL: [Beside; 3] = [
        Beside { name: "load_alone", meaning: "a load of a CSV file into a heap", backups: None },
        Beside {
            name: "load_beside_backup",
            meaning: "the load while full backups to one file run, one after the other",
            backups: Some("FORMAT"),
        },
        Beside {
            name: "load_beside_compressed",
            meaning: "the load while compressed full backups to one file run, one after the other",
            backups: Some("FORMAT, COMPRESSION"),
        },
    ];
}

/// Runs all of them, each `repeat` times, under the recovery model `SIMPLE`. The loss is that of the same repetition.
pub(super) fn measure(lab: &mut Laboratory, file: &Parts, repeat: usize) -> Result<Vec<Case>> {
    let statement = file.statement(TABLE, 0, 1);
    let new_case = |beside: &Beside| {
        let mut case = Case { meaning: beside.meaning.to_owned(), ..Case::new(beside.name, statement.clone()) };
        case.rows = file.rows;
        case.set_bytes(file.bytes);
        case
    };
    let mut cases: Vec<Case> = Beside::ALL.iter().map(new_case).collect();
    for repetition in 0..repeat {
        let mut order: Vec<usize> = (0..cases.len()).collect();
        if repetition % 2 == 1 {
            order.reverse();
        }
        for place in order {
            lab.progress().step(&format!("{}, {} of {repeat}", cases[place].name, repetition + 1));
            run(lab, &Beside::ALL[place], file, &statement, &mut cases[place])?;
        }
        let rate = |case: &Case| case.values("rows_per_s").last().copied().unwrap_or(0.0);
        let alone = rate(&cases[0]);
        for case in &mut cases[1..] {
            let loss = (1.0 - rate(case) / alone.max(1e-9)) * 100.0;
            case.push("loss_percent", loss);
        }
    }
    lab.run(&format!("DROP TABLE IF EXISTS dbo.{TABLE}"))?;
    Ok(cases)
}

fn run(lab: &mut Laboratory, beside: &Beside, file: &Parts, statement: &str, case: &mut Case) -> Result<()> {
    lab.run(&format!("DROP TABLE IF EXISTS dbo.{TABLE}"))?;
    lab.run(&data::CREATE_LINEITEM.replace("dbo.LINEITEM", &format!("dbo.{TABLE}")))?;
    lab.run("CHECKPOINT")?;
    let (devices, files) = devices(lab, beside.name, 1);
    let backup = beside.backups.map(|options| format!("BACKUP DATABASE [{DATABASE}] TO {devices} WITH {options}"));
    let (mut loader, mut saver) = (lab.connect()?, lab.connect()?);
    let before = Counters::now(lab)?;
    let cpu_before = hobt_instruments::processor::process_cpu_time();
    let (loaded, backups) = match &backup {
        None => (loader.run(statement)?, 0),
        Some(backup) => load_beside((&mut loader, statement), (&mut saver, backup))?,
    };
    let cpu = hobt_instruments::processor::process_cpu_time().saturating_sub(cpu_before).as_secs_f64();
    let counted = before.since(lab)?;
    drop((loader, saver));
    if backup.is_some() {
        remove(&files)?;
    }
    let found = lab.row_count(TABLE)?;
    if found != file.rows {
        return Err(LabError::Wrong(format!("{} loaded {found} rows of {}", case.name, file.rows)));
    }
    let elapsed = loaded.elapsed.as_secs_f64().max(1e-9);
    case.push("elapsed_s", elapsed);
    case.push("rows_per_s", file.rows as f64 / elapsed);
    case.push("gb_an_hour", file.bytes as f64 / 1e9 / elapsed * 3600.0);
    case.push("process_cpu_s", cpu);
    case.push("backups", backups as f64);
    counted.put_into(case);
    Ok(())
}

/// Runs a load, and backups until it has ended. Returns the load's answer, and how many backups were made.
fn load_beside(
    (loader, load): (&mut Connection, &str),
    (saver, backup): (&mut Connection, &str),
) -> Result<(Answer, u64)> {
    let is_loaded = AtomicBool::new(false);
    let (loaded, saved) = std::thread::scope(|scope| {
        let saving = scope.spawn(|| {
            let mut backups = 0;
            loop {
                saver.run(backup)?;
                backups += 1;
                if is_loaded.load(Ordering::Acquire) {
                    return Ok::<u64, LabError>(backups);
                }
            }
        });
        let loaded = loader.run(load);
        is_loaded.store(true, Ordering::Release);
        (loaded, saving.join().expect("a session does not panic"))
    });
    Ok((loaded?, saved?))
}

pub(super) fn grid(cases: &[Case]) -> Grid {
    let headers = ["case", "rows/s", "loss", "waits most for", "GB/h", "elapsed", "backups", "CPU"];
    let mut grid = Grid::new("A load of LINEITEM from CSV, alone and beside backups", &headers);
    for case in cases {
        let figure = |key: &str| case.median(key).unwrap_or(0.0);
        grid.rows.push(vec![
            case.name.clone(),
            thousands(figure("rows_per_s").round() as u64),
            case.median("loss_percent").map_or_else(|| "-".to_owned(), |loss| format!("{loss:.0} %")),
            longest_wait(case),
            amount(figure("gb_an_hour")),
            seconds(figure("elapsed_s")),
            amount(figure("backups")),
            seconds(figure("process_cpu_s")),
        ]);
    }
    grid
}
