//! `inserts`: the INSERT challenge. Many connections insert single rows in a loop; what is a row's key, and does it matter?
//!
//! Each connection runs its loop inside the server, in transactions of a thousand rows or with a commit for every row. Beside
//! them stands what the device gives at best to a lone writer: durable writes of 4 KiB, one after the other.
//!
//! Left to later: keys that need what tables do not have yet, and the clustered index that makes keys matter.

use std::time::Instant;

use hobt_base::PAGE_SIZE;
use hobt_disk::{AlignedBuffer, OpenOptions};
use serde_json::{Map, json};

use super::Experiment;
use crate::connection::Connection;
use crate::error::{LabError, Result};
use crate::figures::{amount, median, median_interval, thousands};
use crate::laboratory::Laboratory;
use crate::limits::LimitSettings;
use crate::report::{Case, Grid, Mark, Report};

pub(super) struct InsertsExperiment;

/// Rows of a case if nobody says how many.
const WANTED_ROWS: u64 = 64_000;
/// Bytes of a row on its page, about.
const ROW_BYTES: u64 = 160;
/// Rows of a transaction, in the cases that have some.
const TRANSACTION_ROWS: u64 = 1_000;
/// How many connections insert at once.
const CONNECTIONS: [usize; 4] = [1, 2, 8, 64];
/// Durable writes of the loop that stands beside.
const DURABLE_WRITES: u32 = 500;
const DURABLE_BYTES: usize = 4096;

/// How a row's key comes to be.
struct Key {
    name: &'static str,
    column: &'static str,
    value: &'static str,
}

const KEYS: [Key; 3] = [
    Key { name: "newid", column: "uniqueidentifier NOT NULL", value: "NEWID()" },
    Key { name: "session", column: "bigint NOT NULL", value: "@@SPID * CAST(1000000000 AS bigint) + @i" },
    Key { name: "appserver", column: "bigint NOT NULL", value: "@server * CAST(1000000000 AS bigint) + @i" },
];

/// One case.
struct Challenge<'a> {
    key: &'a Key,
    connections: usize,
    in_transactions: bool,
}

impl Challenge<'_> {
    fn name(&self) -> String {
        format!("{}_{}_{}", self.key.name, self.connections, if self.in_transactions { "tx" } else { "auto" })
    }

    fn table(&self) -> String {
        format!("Inserts_{}", self.key.name)
    }

    fn create(&self) -> String {
        format!(
            "CREATE TABLE dbo.{} (c1 {}, c2 datetime NOT NULL, c3 char(111) NOT NULL, c4 int NOT NULL, c5 int NOT NULL, \
             c6 bigint NOT NULL)",
            self.table(),
            self.key.column
        )
    }

    /// The loop of connection `server`, of `rows` rows.
    fn statement(&self, server: usize, rows: u64) -> String {
        let insert = format!(
            "INSERT dbo.{} (c1, c2, c3, c4, c5, c6) VALUES ({}, GETDATE(), 'a', 1, 2, 42)",
            self.table(),
            self.key.value
        );
        let body = match self.in_transactions {
            false => insert,
            true => format!(
                "IF @i % {TRANSACTION_ROWS} = 1 BEGIN TRAN; {insert}; \
                 IF @i % {TRANSACTION_ROWS} = 0 OR @i = {rows} COMMIT"
            ),
        };
        format!(
            "SET NOCOUNT ON; DECLARE @i bigint = 0, @server bigint = {server}; \
             WHILE @i < {rows} BEGIN SET @i += 1; {body} END"
        )
    }
}

impl Experiment for InsertsExperiment {
    fn name(&self) -> &'static str {
        "inserts"
    }

    fn question(&self) -> &'static str {
        "How many rows a second do many connections insert one by one, and what do they wait for?"
    }

    fn run(&self, lab: &mut Laboratory) -> Result<Report> {
        let rows = lab.rows_for(WANTED_ROWS, ROW_BYTES, KEYS.len() as u64)?;
        let repeat = lab.options().repeat.max(1);
        let challenges: Vec<Challenge<'_>> = KEYS
            .iter()
            .flat_map(|key| CONNECTIONS.map(|connections| (key, connections)))
            .flat_map(|(key, connections)| {
                [false, true].map(|in_transactions| Challenge { key, connections, in_transactions })
            })
            .collect();
        lab.progress().expect((challenges.len() * repeat) as u64 + 1 + LimitSettings::steps_beside());
        let limits = lab.limits(rows * ROW_BYTES)?;
        let mut cases: Vec<Case> =
            challenges.iter().map(|it| Case { rows, ..Case::new(it.name(), it.statement(1, rows)) }).collect();
        let mut durable = Vec::new();
        for repetition in 0..repeat {
            for (challenge, case) in challenges.iter().zip(&mut cases) {
                lab.progress().step(&format!("{}, {} of {repeat}", challenge.name(), repetition + 1));
                run_challenge(lab, challenge, rows, case)?;
            }
            if repetition == 0 {
                lab.progress().step("durable writes, one after the other");
            }
            durable.push(durable_writes_per_s(lab)?);
        }
        let marks = marks(&cases, &durable, rows);
        let tables = vec![grid(&cases)];
        let mut settings = Map::new();
        settings.insert("rows".to_owned(), json!(rows));
        settings.insert("repeat".to_owned(), json!(repeat));
        settings.insert("transaction_rows".to_owned(), json!(TRANSACTION_ROWS));
        settings.insert("durable_4k_writes_per_s".to_owned(), json!(durable));
        Ok(Report {
            experiment: self.name().to_owned(),
            question: self.question().to_owned(),
            machine: lab.machine(),
            limits,
            settings,
            cases,
            marks,
            tables,
            notes: vec![
                "the text inserted 160,000,000 rows by 64 clients; compare rates, not times".to_owned(),
                "the tables are heaps: a key does not say where its row goes".to_owned(),
            ],
        })
    }
}

/// Runs a case once, on an empty table.
fn run_challenge(lab: &mut Laboratory, challenge: &Challenge<'_>, rows: u64, case: &mut Case) -> Result<()> {
    let table = challenge.table();
    lab.run(&format!("DROP TABLE IF EXISTS dbo.{table}; {}", challenge.create()))?;
    let each = (rows / challenge.connections as u64).max(1);
    let mut connections: Vec<Connection> = (0..challenge.connections).map(|_| lab.connect()).collect::<Result<_>>()?;
    let database = lab.database()?;
    let log = database.storage().log().map(|log| log.log().clone());
    let flushes = || log.as_ref().map_or(0, |log| log.statistics().flushes);
    let (waits_before, flushes_before) = (waits_ms(), flushes());
    let since = Instant::now();
    let ended: Vec<Result<f64>> = std::thread::scope(|scope| {
        let running: Vec<_> = (1..)
            .zip(&mut connections)
            .map(|(server, connection)| {
                let statement = challenge.statement(server, each);
                scope.spawn(move || connection.run(&statement).map(|answer| answer.elapsed.as_secs_f64()))
            })
            .collect();
        running.into_iter().map(|thread| thread.join().expect("a session does not panic")).collect()
    });
    let elapsed = since.elapsed().as_secs_f64();
    let flushed = (flushes() - flushes_before) as f64;
    let seconds: Vec<f64> = ended.into_iter().collect::<Result<_>>()?;
    let inserted = each * challenge.connections as u64;
    let counted = lab.row_count(&table)?;
    if counted != inserted {
        return Err(LabError::Wrong(format!("{} inserted {inserted} rows and left {counted}", challenge.name())));
    }
    let commits = match challenge.in_transactions {
        false => inserted,
        true => each.div_ceil(TRANSACTION_ROWS) * challenge.connections as u64,
    };
    case.push("elapsed_s", elapsed);
    case.push("rows_per_s", inserted as f64 / elapsed);
    case.push("flushes_per_commit", flushed / commits as f64);
    case.push("first_connection_s", seconds.iter().copied().fold(f64::INFINITY, f64::min));
    case.push("last_connection_s", seconds.iter().copied().fold(0.0, f64::max));
    let mut waits = waits_ms();
    for (name, time) in &mut waits {
        let before = waits_before.iter().find(|(known, _)| known == name).map_or(0.0, |(_, time)| *time);
        *time -= before;
    }
    waits.retain(|(_, time)| *time >= 0.05);
    waits.sort_by(|one, other| other.1.total_cmp(&one.1));
    case.figures
        .insert("waits_ms".to_owned(), json!(waits.iter().cloned().collect::<std::collections::BTreeMap<_, _>>()));
    Ok(())
}

/// Milliseconds of each wait type so far.
fn waits_ms() -> Vec<(String, f64)> {
    let rows = hobt_sync::waits::snapshot();
    rows.into_iter().map(|row| (row.wait_type.name().to_owned(), row.wait_time_ns as f64 / 1e6)).collect()
}

/// Durable writes of 4 KiB into a file that is there already, one after the other.
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
    // A few seconds of inserts say something.
    let too_small = rows < 20_000;
    let mut marks = Vec::new();
    if let Some(one) = case("newid_1_auto") {
        let ratios: Vec<f64> =
            one.values("rows_per_s").iter().zip(durable).map(|(rows, writes)| rows / writes).collect();
        marks.extend(median(&ratios).map(|value| Mark {
            name: "one connection's commits over durable 4 KiB writes".to_owned(),
            value,
            aim: 0.95,
            at_least: true,
            of: None,
            too_small,
            interval: median_interval(&ratios),
        }));
    }
    for key in &KEYS {
        let name = format!("{}_64_auto", key.name);
        marks.extend(case(&name).and_then(|case| case.median("flushes_per_commit")).map(|value| Mark {
            name: "flushes a commit of 64 connections".to_owned(),
            value,
            aim: 0.1,
            at_least: false,
            of: Some(name.clone()),
            too_small,
            interval: None,
        }));
    }
    marks
}

fn grid(cases: &[Case]) -> Grid {
    let headers = ["case", "rows/s", "flushes/commit", "first connection s", "last connection s", "waits most for"];
    let mut grid = Grid::new("Rows a second, by key, connections and transactions", &headers);
    for case in cases {
        let figure = |key: &str| case.median(key).unwrap_or(0.0);
        let waits = case.figures.get("waits_ms").and_then(serde_json::Value::as_object);
        let worst = waits.and_then(|waits| {
            let time = |value: &serde_json::Value| value.as_f64().unwrap_or(0.0);
            waits.iter().max_by(|one, other| time(one.1).total_cmp(&time(other.1)))
        });
        grid.rows.push(vec![
            case.name.clone(),
            thousands(figure("rows_per_s").round() as u64),
            format!("{:.3}", figure("flushes_per_commit")),
            format!("{:.2}", figure("first_connection_s")),
            format!("{:.2}", figure("last_connection_s")),
            worst.map_or_else(
                || "-".to_owned(),
                |(name, time)| format!("{name} {} ms", amount(time.as_f64().unwrap_or(0.0))),
            ),
        ]);
    }
    grid
}
