//! `locks`: which locks a query acquires, the cost of each granularity, and when many small locks escalate to a large
//! one.
//!
//! The granularities are measured on the lock manager alone, which every statement uses: a transaction locks all rows
//! of a table one by one, or its pages, its partitions or the table, and releases everything.

mod graph;
mod switch;

use std::time::Instant;

use hobt_base::{DatabaseId, FileId, HobtId, ObjectId, PageId, SessionId, Stamp};
use hobt_instruments::InstructionCounter;
use hobt_txn::locks::{KeyHash, LockManager, LockMode, LockOwner, LockOwnerKind, LockResource};
use serde_json::{Map, json};

use super::Experiment;
use super::together::{Counters, longest_wait};
use crate::error::{LabError, Result};
use crate::figures::{amount, thousands};
use crate::laboratory::Laboratory;
use crate::limits::LimitSettings;
use crate::report::{Case, Grid, Report};

pub(super) struct LocksExperiment;

/// Rows locked per case, if not specified.
const WANTED_ROWS: u64 = 100_000;
/// Escalation begins at 5,000 locks of a HOBT, and the table has two.
const ROWS_MIN: u64 = 12_000;
/// Approximate bytes of a row on its page, so that a page has 80 rows.
const ROW_BYTES: u64 = 100;
const ROWS_OF_A_PAGE: u64 = 80;
const PARTITIONS: u64 = 2;
/// Rows of the first partition, which is also its greatest id.
const FIRST_PARTITION_ROWS: u64 = 1_000;
const TABLE: &str = "LocksOfTwo";
const DATABASE: &str = "hobt_lab_locks";

/// The unit of locking.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Granularity {
    Row,
    Page,
    Hobt,
    Table,
}

const GRANULARITIES: [(&str, Granularity); 4] = [
    ("granularity_row", Granularity::Row),
    ("granularity_page", Granularity::Page),
    ("granularity_hobt", Granularity::Hobt),
    ("granularity_table", Granularity::Table),
];

/// The values of `LOCK_ESCALATION`.
const ESCALATIONS: [&str; 3] = ["TABLE", "AUTO", "DISABLE"];

impl Experiment for LocksExperiment {
    fn name(&self) -> &'static str {
        "locks"
    }

    fn question(&self) -> &'static str {
        "Which locks does a query of five rows take, and what do locks on rows, pages, partitions and tables cost?"
    }

    fn run(&self, lab: &mut Laboratory) -> Result<Report> {
        let rows = lab.rows_for(WANTED_ROWS, ROW_BYTES, 1)?.max(ROWS_MIN);
        let repeat = lab.options().repeat.max(1);
        let measured = (GRANULARITIES.len() + ESCALATIONS.len() + 1) * repeat;
        lab.progress().expect(LimitSettings::steps_beside() + 3 + measured as u64);
        let home = lab.database()?.name().to_owned();
        lab.progress().step(&format!("building {TABLE}, {} rows", thousands(rows)));
        let built = build(lab, rows);
        let ran = built.and_then(|()| self.measure(lab, rows, repeat));
        // Do not leave behind a database without row versions.
        let left = lab.run(&format!("USE [{home}]; DROP DATABASE IF EXISTS [{DATABASE}]"));
        let report = ran?;
        left?;
        Ok(report)
    }
}

impl LocksExperiment {
    fn measure(&self, lab: &mut Laboratory, rows: u64, repeat: usize) -> Result<Report> {
        let limits = lab.limits(rows * ROW_BYTES)?;
        let (mut tables, mut graphs) = (Vec::new(), Map::new());
        for query in graph::QUERIES {
            lab.progress().step(&format!("{} of five rows, step by step", query.0));
            let (grid, locks) = graph::take(lab, TABLE, query)?;
            tables.push(grid);
            graphs.insert(query.0.to_lowercase(), locks);
        }
        let instructions = InstructionCounter::of_this_thread();
        let mut cases: Vec<Case> = GRANULARITIES
            .iter()
            .map(|(name, _)| Case { rows, ..Case::new(*name, format!("X on all {rows} rows of {PARTITIONS} HOBTs")) })
            .collect();
        let mut escalations: Vec<Case> = ESCALATIONS
            .iter()
            .map(|how| Case {
                rows,
                ..Case::new(
                    format!("escalation_{}", how.to_lowercase()),
                    format!("UPDATE dbo.{TABLE} SET changed = changed + 1"),
                )
            })
            .collect();
        let mut switching = Case {
            rows,
            ..Case::new("switch_beside_readers", format!("ALTER TABLE dbo.{TABLE} SWITCH PARTITION 1, and back"))
        };
        for repetition in 0..repeat {
            for ((name, granularity), case) in GRANULARITIES.iter().zip(&mut cases) {
                lab.progress().step(&format!("{name}, {} of {repeat}", repetition + 1));
                lock_all(*granularity, rows, instructions.as_ref(), case);
            }
            for (how, case) in ESCALATIONS.iter().zip(&mut escalations) {
                lab.progress().step(&format!("{}, {} of {repeat}", case.name, repetition + 1));
                escalate(lab, how, rows, case)?;
            }
            lab.progress().step(&format!("{}, {} of {repeat}", switching.name, repetition + 1));
            switch::beside_readers(lab, TABLE, rows, FIRST_PARTITION_ROWS, &mut switching)?;
        }
        tables.extend([granularity_grid(&cases), escalation_grid(&escalations), switch_grid(&switching)]);
        cases.extend(escalations);
        cases.push(switching);
        let mut settings = Map::new();
        settings.insert("rows".to_owned(), json!(rows));
        settings.insert("repeat".to_owned(), json!(repeat));
        settings.insert("rows_of_a_page".to_owned(), json!(ROWS_OF_A_PAGE));
        settings.insert("instructions_are_counted".to_owned(), json!(instructions.is_some()));
        settings.insert("lock_graph".to_owned(), graphs.into());
        let mut notes = vec![
            "READ_COMMITTED_SNAPSHOT is off; the queries of five rows run under REPEATABLE READ, which keeps locks"
                .to_owned(),
        ];
        if instructions.is_none() {
            notes.push("the system does not count instructions here: granularities are told in nanoseconds".to_owned());
        }
        Ok(Report { tables, cases, notes, ..self.report(lab, limits, settings) })
    }
}

/// Creates a database whose readers lock, and in it the table with two partitions: ids up to 1,000, and above.
fn build(lab: &mut Laboratory, rows: u64) -> Result<()> {
    lab.run(&format!("DROP DATABASE IF EXISTS [{DATABASE}]; CREATE DATABASE [{DATABASE}]"))?;
    for statement in [
        format!("ALTER DATABASE [{DATABASE}] SET READ_COMMITTED_SNAPSHOT OFF"),
        format!("USE [{DATABASE}]"),
        format!("CREATE PARTITION FUNCTION of_two (int) AS RANGE LEFT FOR VALUES ({FIRST_PARTITION_ROWS})"),
        "CREATE PARTITION SCHEME of_two_scheme AS PARTITION of_two ALL TO ([PRIMARY])".to_owned(),
        create(TABLE),
        create(switch::STAGING),
        format!("ALTER TABLE dbo.{TABLE} SET (LOCK_ESCALATION = AUTO)"),
        format!(
            "WITH numbers AS (SELECT TOP ({rows}) ROW_NUMBER() OVER (ORDER BY a.one) AS id \
             FROM (SELECT 1 AS one FROM master.dbo.syscolumns) AS a CROSS JOIN master.dbo.syscolumns AS b) \
             INSERT INTO dbo.{TABLE} WITH (TABLOCK) (id, changed, payload) SELECT CAST(id AS int), 0, 'x' FROM numbers"
        ),
    ] {
        lab.run(&statement)?;
    }
    let found = lab.row_count(TABLE)?;
    if found != rows {
        return Err(LabError::Wrong(format!("the table {TABLE} was to have {rows} rows and has {found}")));
    }
    Ok(())
}

fn create(table: &str) -> String {
    format!(
        "CREATE TABLE dbo.{table} (id int NOT NULL, changed int NOT NULL, payload char(84) NOT NULL, \
         CONSTRAINT PK_{table} PRIMARY KEY CLUSTERED (id)) ON of_two_scheme (id)"
    )
}

/// Locks all rows at one granularity in a lock manager of its own, and releases them.
fn lock_all(granularity: Granularity, rows: u64, instructions: Option<&InstructionCounter>, case: &mut Case) {
    let manager = LockManager::default();
    let owner = LockOwner::new(SessionId(51), LockOwnerKind::Transaction(1), Stamp(1));
    let (database, object) = (DatabaseId(5), ObjectId(1_000));
    let mut locks = 0_u64;
    let mut lock = |resource, mode| {
        let granted = manager.try_lock(&owner, resource, mode);
        assert!(granted.is_some(), "nobody else is there");
        locks += 1;
    };
    let counted = || instructions.and_then(InstructionCounter::read);
    let (before, since) = (counted(), Instant::now());
    let of_table = if granularity == Granularity::Table { LockMode::Exclusive } else { LockMode::IntentExclusive };
    lock(LockResource::Object(database, object), of_table);
    let in_partition = rows.div_ceil(PARTITIONS);
    for partition in 0..PARTITIONS {
        let hobt = HobtId(72_057_594_043_039_744 + partition);
        match granularity {
            Granularity::Table => break,
            Granularity::Hobt => {
                lock(LockResource::Hobt(database, hobt), LockMode::Exclusive);
                continue;
            }
            Granularity::Row | Granularity::Page => lock(LockResource::Hobt(database, hobt), LockMode::IntentExclusive),
        }
        for row in 0..in_partition.min(rows - partition * in_partition) {
            if row % ROWS_OF_A_PAGE == 0 {
                let number = u32::try_from(row / ROWS_OF_A_PAGE).expect("fewer pages than a file has");
                let page = PageId::new(FileId(1), number);
                let mode =
                    if granularity == Granularity::Page { LockMode::Exclusive } else { LockMode::IntentExclusive };
                lock(LockResource::Page(database, hobt, page), mode);
            }
            if granularity == Granularity::Row {
                let key = KeyHash::of(&row.to_be_bytes());
                lock(LockResource::Key(database, hobt, key), LockMode::Exclusive);
            }
        }
    }
    manager.release_all(&owner);
    let elapsed = since.elapsed();
    let executed = counted().zip(before).map(|(after, before)| after - before);
    case.push("ns_per_row", elapsed.as_nanos() as f64 / rows as f64);
    case.push("ns_per_lock", elapsed.as_nanos() as f64 / locks as f64);
    case.push("locks", locks as f64);
    if let Some(executed) = executed {
        case.push("instructions_per_row", executed as f64 / rows as f64);
        case.push("instructions_per_lock", executed as f64 / locks as f64);
    }
}

/// Changes all rows in a transaction, and reads its locks then.
fn escalate(lab: &mut Laboratory, how: &str, rows: u64, case: &mut Case) -> Result<()> {
    lab.run(&format!("ALTER TABLE dbo.{TABLE} SET (LOCK_ESCALATION = {how})"))?;
    let before = Counters::now(lab)?;
    let answer = lab.run(&format!(
        "SET NOCOUNT ON; BEGIN TRANSACTION; UPDATE dbo.{TABLE} WITH (ROWLOCK) SET changed = changed + 1"
    ))?;
    let counted = before.since(lab)?;
    let held = lab.run(
        "SELECT resource_type, request_mode, COUNT(*) FROM sys.dm_tran_locks \
         WHERE request_session_id = @@SPID AND request_owner_type = 'TRANSACTION' AND resource_database_id = DB_ID() \
         GROUP BY resource_type, request_mode ORDER BY 1, 2",
    );
    lab.run("ROLLBACK")?;
    let mut locks = Map::new();
    let mut all = 0;
    for row in held?.rows() {
        let [Some(kind), Some(mode), Some(count)] = &row[..] else { continue };
        let count: u64 = count.parse().unwrap_or(0);
        locks.insert(format!("{kind} {mode}"), json!(count));
        all += count;
    }
    case.push("elapsed_s", answer.elapsed.as_secs_f64());
    case.push("ns_per_row", answer.elapsed.as_nanos() as f64 / rows as f64);
    case.push("locks", all as f64);
    case.figures.insert("locks_held".to_owned(), locks.into());
    counted.put_into(case);
    Ok(())
}

fn granularity_grid(cases: &[Case]) -> Grid {
    let headers = ["granularity", "locks", "ns/row", "ns/lock", "instructions/row", "instructions/lock"];
    let mut grid = Grid::new("All rows of a table locked and let go of, by granularity", &headers);
    for case in cases {
        let figure = |key: &str| case.median(key).map_or_else(|| "-".to_owned(), amount);
        let locks = thousands(case.median("locks").unwrap_or(0.0) as u64);
        grid.rows.push(vec![
            case.name.clone(),
            locks,
            figure("ns_per_row"),
            figure("ns_per_lock"),
            figure("instructions_per_row"),
            figure("instructions_per_lock"),
        ]);
    }
    grid
}

fn escalation_grid(cases: &[Case]) -> Grid {
    let headers = ["case", "ns/row", "locks left", "which"];
    let mut grid = Grid::new("An update of all rows, by LOCK_ESCALATION", &headers);
    grid.prose = vec![3];
    for case in cases {
        let held = case.figures.get("locks_held").and_then(serde_json::Value::as_object);
        let which: Vec<String> = held.into_iter().flatten().map(|(name, count)| format!("{count} {name}")).collect();
        grid.rows.push(vec![
            case.name.clone(),
            amount(case.median("ns_per_row").unwrap_or(0.0)),
            thousands(case.median("locks").unwrap_or(0.0) as u64),
            which.join(", "),
        ]);
    }
    grid
}

fn switch_grid(case: &Case) -> Grid {
    let mut grid = Grid::new(
        "A partition switched out and back beside readers",
        &["case", "ms a switch", "ms a count beside it", "waits most for"],
    );
    let figure = |key: &str| case.median(key).map_or_else(|| "-".to_owned(), amount);
    grid.rows.push(vec![case.name.clone(), figure("switch_ms"), figure("count_ms"), longest_wait(case)]);
    grid
}
