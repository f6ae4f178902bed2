//! `inserts`: the INSERT challenge. Many connections insert single rows in a loop. Which key does a row have, and does
//! it matter?
//!
//! Each connection runs its loop inside the server, in transactions of a thousand rows or with a commit for every row,
//! into a table with a clustered primary key. For comparison, the best rate of the device for a single writer is
//! measured: durable writes of 4 KiB, one after the other. The other changes in the text (locks, files, defaults, the
//! loop as printed, the heap) run once per run; `--sweep` combines them with every key and number of connections.

mod challenge;
mod key;

use std::time::Instant;

use hobt_access::Operations;
use hobt_base::PAGE_SIZE;
use hobt_disk::{AlignedBuffer, OpenOptions};
use serde_json::{Map, json};

use self::challenge::{Challenge, FILES, TRANSACTION_ROWS, Variant, plain, variants};
use self::key::{SEQUENCE, keys};
use super::Experiment;
use super::together::{Counters, longest_wait, run_together};
use crate::connection::Connection;
use crate::error::{LabError, Result};
use crate::figures::{median, median_interval, thousands};
use crate::laboratory::Laboratory;
use crate::limits::LimitSettings;
use crate::report::{Case, Grid, Mark, Report, too_few_rows};

pub(super) struct InsertsExperiment;

/// Rows per case, if not specified.
const WANTED_ROWS: u64 = 64_000;
/// Approximate bytes of a row on its page. Pages split by random keys are half empty.
const ROW_BYTES: u64 = 320;
/// A case that takes this many seconds is not repeated: a single connection waits for the device at each row.
const LONG_S: f64 = 10.0;
/// The case that is repeated nevertheless, because each of its runs is compared with durable writes.
const OF_PAIRS: &str = "newid_1_auto";
/// The number of durable writes in the loop for comparison.
const DURABLE_WRITES: u32 = 500;
const DURABLE_BYTES: usize = 4096;

impl Experiment for InsertsExperiment {
    fn name(&self) -> &'static str {
        "inserts"
    }

    fn question(&self) -> &'static str {
        "How many rows a second do many connections insert one by one, by key, and what do they wait for?"
    }

    fn run(&self, lab: &mut Laboratory) -> Result<Report> {
        let keys = keys();
        let rows = lab.rows_for(WANTED_ROWS, ROW_BYTES, keys.len() as u64)?;
        let repeat = lab.options().repeat.max(1);
        let (plain, variants) = wanted(plain(&keys), variants(&keys, lab.options().sweep), &lab.options().cases)?;
        let steps = plain.len() * repeat + variants.len();
        lab.progress().expect(steps as u64 + 1 + LimitSettings::steps_beside());
        let limits = lab.limits(rows * ROW_BYTES)?;
        for files in FILES {
            ensure_filegroup(lab, files)?;
        }
        let new_case = |it: &Challenge<'_>| Case { rows, ..Case::new(it.name(), it.statement(1, rows)) };
        let mut cases: Vec<Case> = plain.iter().map(new_case).collect();
        let mut durable = Vec::new();
        for repetition in 0..repeat {
            for (challenge, case) in plain.iter().zip(&mut cases) {
                lab.progress().step(&format!("{}, {} of {repeat}", challenge.name(), repetition + 1));
                let so_far: f64 = case.values("elapsed_s").iter().sum();
                if so_far < LONG_S || case.name == OF_PAIRS {
                    run_challenge(lab, challenge, rows, case)?;
                }
            }
            if repetition == 0 {
                lab.progress().step("durable writes, one after the other");
            }
            durable.push(durable_writes_per_s(lab)?);
        }
        for challenge in &variants {
            lab.progress().step(&challenge.name());
            let mut case = new_case(challenge);
            run_challenge(lab, challenge, rows, &mut case)?;
            cases.push(case);
        }
        let marks = marks(&cases, &durable, rows);
        let tables = vec![grid(&cases)];
        let mut settings = Map::new();
        settings.insert("rows".to_owned(), json!(rows));
        settings.insert("repeat".to_owned(), json!(repeat));
        settings.insert("sweep".to_owned(), json!(lab.options().sweep));
        settings.insert("transaction_rows".to_owned(), json!(TRANSACTION_ROWS));
        settings.insert("durable_4k_writes_per_s".to_owned(), json!(durable));
        Ok(Report {
            cases,
            marks,
            tables,
            notes: vec![
                "the text inserted 160,000,000 rows by 64 clients; compare rates, not times".to_owned(),
                "the text's server of 48 cores was over 100 times slower with ascending keys than with random ones: \
                 its connections waited for the last page's latch"
                    .to_owned(),
            ],
            ..self.report(lab, limits, settings)
        })
    }
}

/// The cases of both lists with one of the names. All if there are no names.
fn wanted<'k>(
    mut plain: Vec<Challenge<'k>>,
    mut variants: Vec<Challenge<'k>>,
    names: &[String],
) -> Result<(Vec<Challenge<'k>>, Vec<Challenge<'k>>)> {
    let is_there = |name: &String| plain.iter().chain(&variants).any(|case| case.name() == *name);
    if let Some(name) = names.iter().find(|name| !is_there(name)) {
        let known: Vec<String> = plain.iter().chain(&variants).map(Challenge::name).collect();
        return Err(LabError::Input(format!("there is no case {name}. Known are {}.", known.join(", "))));
    }
    if !names.is_empty() {
        plain.retain(|case| names.contains(&case.name()));
        variants.retain(|case| names.contains(&case.name()));
    }
    Ok((plain, variants))
}

/// Creates a filegroup with this many files, unless it exists.
fn ensure_filegroup(lab: &mut Laboratory, files: u32) -> Result<()> {
    let name = format!("INSERTS_{files}");
    if lab.run(&format!("SELECT COUNT(*) FROM sys.filegroups WHERE name = '{name}'"))?.count() != Some(0) {
        return Ok(());
    }
    let database = lab.database()?.name().to_owned();
    let list: Vec<String> = (1..=files)
        .map(|file| {
            format!(
                "(NAME = N'{name}_{file:02}', FILENAME = N'{database}_{name}_{file:02}.ndf', SIZE = 2MB, \
                 FILEGROWTH = 1MB)"
            )
        })
        .collect();
    lab.run(&format!("ALTER DATABASE [{database}] ADD FILEGROUP {name}"))?;
    lab.run(&format!("ALTER DATABASE [{database}] ADD FILE {} TO FILEGROUP {name}", list.join(", ")))?;
    Ok(())
}

/// Runs a case once, on an empty table.
fn run_challenge(lab: &mut Laboratory, challenge: &Challenge<'_>, rows: u64, case: &mut Case) -> Result<()> {
    let table = challenge.table();
    lab.run(&format!(
        "DROP TABLE IF EXISTS dbo.{table}; DROP SEQUENCE IF EXISTS dbo.{SEQUENCE}; \
         CREATE SEQUENCE dbo.{SEQUENCE} AS bigint START WITH 1 CACHE 10000"
    ))?;
    lab.run(&challenge.create())?;
    let each = (rows / challenge.connections as u64).max(1);
    let mut connections: Vec<Connection> = (0..challenge.connections).map(|_| lab.connect()).collect::<Result<_>>()?;
    let before = (Counters::now(lab)?, hobt_instruments::holds::snapshot());
    hobt_instruments::holds::set_counted(challenge.variant == Variant::Hold);
    let ran = run_together(&mut connections, |server| challenge.statement(server, each));
    hobt_instruments::holds::set_counted(false);
    let (elapsed, seconds) = ran?;
    let (counted, held) = (before.0.since(lab)?, hobt_instruments::holds::snapshot());
    let inserted = each * challenge.connections as u64;
    let found = lab.row_count(&table)?;
    if found != inserted {
        return Err(LabError::Wrong(format!("{} inserted {inserted} rows and left {found}", challenge.name())));
    }
    let commits = challenge.commits(each) * challenge.connections as u64;
    case.push("elapsed_s", elapsed);
    case.push("rows_per_s", inserted as f64 / elapsed);
    case.push("flushes_per_commit", counted.flushes as f64 / commits as f64);
    case.push("first_connection_s", seconds.iter().copied().fold(f64::INFINITY, f64::min));
    case.push("last_connection_s", seconds.iter().copied().fold(0.0, f64::max));
    let operations = operations(lab, &table)?;
    let pages = operations.leaf_allocations + operations.nonleaf_allocations;
    case.push("pages_added", pages as f64);
    // A heap's pages are added at its end.
    case.push("page_splits", if challenge.variant == Variant::Heap { 0.0 } else { pages as f64 });
    if challenge.variant == Variant::Hold {
        case.push("exclusive_hold_ns_per_row", (held.time_ns - before.1.time_ns) as f64 / inserted as f64);
    }
    case.figures.insert("connection_s".to_owned(), json!(seconds));
    counted.put_into(case);
    Ok(())
}

/// The operations on the only partition of a table.
fn operations(lab: &Laboratory, table: &str) -> Result<Operations> {
    let database = lab.database()?;
    let snapshot = database.snapshot();
    let found = snapshot.tables.values().find(|it| !it.is_system && it.name.eq_ignore_ascii_case(table));
    let partition = found.and_then(|table| table.base_index().partitions.first());
    let partition = partition.ok_or_else(|| LabError::Wrong(format!("there is no table {table}")))?;
    let hobt = database.hobt_to_read(partition.hobt);
    Ok(hobt.map_err(|error| LabError::sql(format!("looking at {table}"), error))?.operations())
}

/// Durable writes of 4 KiB per second into an existing file, one after the other.
fn durable_writes_per_s(lab: &Laboratory) -> Result<f64> {
    let path = lab.folder().join("durable_writes.tmp");
    let disk = lab.instance().disk();
    let file = disk.open(&path, OpenOptions { create_new: true, read_only: false, direct: true })?;
    let bytes = DURABLE_BYTES * DURABLE_WRITES as usize;
    let mut zeros = AlignedBuffer::new(bytes.next_multiple_of(PAGE_SIZE))?;
    zeros.fill(1);
    let measured = file.write_at(&zeros, 0).and_then(|()| file.sync()).and_then(|()| {
        let since = Instant::now();
        for write in 0..DURABLE_WRITES {
            file.write_durable_at(&zeros[..DURABLE_BYTES], u64::from(write) * DURABLE_BYTES as u64)?;
        }
        Ok(f64::from(DURABLE_WRITES) / since.elapsed().as_secs_f64())
    });
    drop(file);
    disk.remove(&path)?;
    Ok(measured?)
}

fn marks(cases: &[Case], durable: &[f64], rows: u64) -> Vec<Mark> {
    let case = |name: &str| cases.iter().find(|case| case.name == name);
    // A few seconds of inserts are significant.
    let too_small = too_few_rows(rows, 20_000);
    let mut marks = Vec::new();
    if let Some(one) = case(OF_PAIRS) {
        let ratios: Vec<f64> =
            one.values("rows_per_s").iter().zip(durable).map(|(rows, writes)| rows / writes).collect();
        marks.extend(median(&ratios).map(|value| Mark {
            name: "one connection's commits over durable 4 KiB writes".to_owned(),
            value,
            bound: 0.95,
            at_least: true,
            of: None,
            too_small: too_small.clone(),
            interval: median_interval(&ratios),
        }));
    }
    for key in keys() {
        let name = format!("{}_64_auto", key.name);
        marks.extend(case(&name).and_then(|case| case.median("flushes_per_commit")).map(|value| Mark {
            name: "flushes a commit of 64 connections".to_owned(),
            value,
            bound: 0.1,
            at_least: false,
            of: Some(name.clone()),
            too_small: too_small.clone(),
            interval: None,
        }));
    }
    marks
}

fn grid(cases: &[Case]) -> Grid {
    let headers = [
        "case",
        "rows/s",
        "flushes/commit",
        "first connection s",
        "last connection s",
        "page splits",
        "spins",
        "page held ns/row",
        "waits most for",
    ];
    let mut grid = Grid::new("Rows a second, by key, connections and transactions", &headers);
    grid.least_wanted = vec![3, 6, 7, 5];
    for case in cases {
        let figure = |key: &str| case.median(key).unwrap_or(0.0);
        let hold = case.median("exclusive_hold_ns_per_row");
        grid.rows.push(vec![
            case.name.clone(),
            thousands(figure("rows_per_s").round() as u64),
            format!("{:.3}", figure("flushes_per_commit")),
            format!("{:.2}", figure("first_connection_s")),
            format!("{:.2}", figure("last_connection_s")),
            thousands(figure("page_splits") as u64),
            thousands(figure("spins") as u64),
            hold.map_or_else(|| "-".to_owned(), |hold| thousands(hold.round() as u64)),
            longest_wait(case),
        ]);
    }
    grid
}
