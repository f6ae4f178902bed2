//! `updates`: how many single rows per second can be updated by key, evenly and with a few hot keys?
//!
//! Each connection runs its loop inside the server and commits each update. With an ascending key, the hot rows are
//! neighbours on a few pages. With a hashed key, they are scattered. A skewed connection chooses the key of rank k with
//! a probability near 1 / (k · ln n), which is Zipf's law: the rank is n to the power of a uniform number.

use serde_json::{Map, json};

use super::Experiment;
use super::together::{Counters, longest_wait, run_together};
use crate::connection::Connection;
use crate::error::{LabError, Result};
use crate::figures::thousands;
use crate::laboratory::Laboratory;
use crate::limits::LimitSettings;
use crate::report::{Case, Grid, Report};

pub(super) struct UpdatesExperiment;

/// Updates per case, if not specified.
const WANTED_UPDATES: u64 = 32_000;
/// Rows of each table.
const TABLE_ROWS: u64 = 10_000;
/// Approximate bytes of a row on its page.
const ROW_BYTES: u64 = 160;
/// The numbers of concurrent connections.
const CONNECTIONS: [usize; 4] = [1, 2, 8, 64];

/// The key of the row with rank `@k`.
struct Key {
    name: &'static str,
    of_rank: &'static str,
}

const KEYS: [Key; 2] = [
    Key { name: "identity", of_rank: "@k" },
    // An odd factor maps 32 bits one to one onto 32 bits.
    Key { name: "hash", of_rank: "@k * CAST(2654435761 AS bigint) % CAST(4294967296 AS bigint)" },
];

/// The distribution of updates over the ranks.
struct Distribution {
    name: &'static str,
    rank: &'static str,
}

const DISTRIBUTIONS: [Distribution; 2] = [
    Distribution { name: "uniform", rank: "1 + CAST(RAND() * @n AS bigint)" },
    Distribution { name: "zipf", rank: "CAST(POWER(CAST(@n AS float), RAND()) AS bigint)" },
];

struct Updates {
    key: &'static Key,
    distribution: &'static Distribution,
    connections: usize,
}

impl Updates {
    fn name(&self) -> String {
        format!("{}_{}_{}", self.key.name, self.distribution.name, self.connections)
    }

    fn table(&self) -> String {
        format!("Updates_{}", self.key.name)
    }

    /// The loop of a connection. Its numbers are the same in every run.
    fn statement(&self, connection: usize, updates: u64) -> String {
        format!(
            "SET NOCOUNT ON; DECLARE @i bigint = 0, @n bigint = {TABLE_ROWS}, @k bigint, @key bigint, \
             @seed float = RAND({connection}); \
             WHILE @i < {updates} BEGIN SET @i += 1; SET @k = {}; SET @key = {}; \
             UPDATE dbo.{} SET changed = changed + 1 WHERE id = @key END",
            self.distribution.rank,
            self.key.of_rank,
            self.table()
        )
    }
}

fn cases() -> Vec<Updates> {
    let keyed = KEYS.iter().flat_map(|key| DISTRIBUTIONS.iter().map(move |distribution| (key, distribution)));
    keyed
        .flat_map(|(key, distribution)| CONNECTIONS.map(|connections| Updates { key, distribution, connections }))
        .collect()
}

impl Experiment for UpdatesExperiment {
    fn name(&self) -> &'static str {
        "updates"
    }

    fn question(&self) -> &'static str {
        "How many rows a second do connections update by key, evenly and where a few keys are hot?"
    }

    fn run(&self, lab: &mut Laboratory) -> Result<Report> {
        let updates = lab.rows_for(WANTED_UPDATES, ROW_BYTES, KEYS.len() as u64)?;
        let repeat = lab.options().repeat.max(1);
        let all = cases();
        lab.progress().expect(LimitSettings::steps_beside() + (all.len() * repeat + KEYS.len()) as u64);
        for key in &KEYS {
            lab.progress().step(&format!("building Updates_{}", key.name));
            build(lab, key)?;
        }
        let limits = lab.limits(TABLE_ROWS * ROW_BYTES)?;
        let new_case = |it: &Updates| Case { rows: updates, ..Case::new(it.name(), it.statement(1, updates)) };
        let mut cases: Vec<Case> = all.iter().map(new_case).collect();
        for repetition in 0..repeat {
            for (updating, case) in all.iter().zip(&mut cases) {
                lab.progress().step(&format!("{}, {} of {repeat}", case.name, repetition + 1));
                run_case(lab, updating, updates, case)?;
            }
        }
        let mut settings = Map::new();
        settings.insert("updates".to_owned(), json!(updates));
        settings.insert("table_rows".to_owned(), json!(TABLE_ROWS));
        settings.insert("repeat".to_owned(), json!(repeat));
        Ok(Report {
            tables: vec![grid(&cases)],
            cases,
            notes: vec!["every update is committed by itself".to_owned()],
            ..self.report(lab, limits, settings)
        })
    }
}

/// Recreates a table: one row for each rank, not updated yet.
fn build(lab: &mut Laboratory, key: &Key) -> Result<()> {
    let table = format!("Updates_{}", key.name);
    lab.run(&format!("DROP TABLE IF EXISTS dbo.{table}"))?;
    lab.run(&format!(
        "CREATE TABLE dbo.{table} (id bigint NOT NULL, changed bigint NOT NULL, filler char(111) NOT NULL, \
         CONSTRAINT PK_{table} PRIMARY KEY CLUSTERED (id))"
    ))?;
    lab.run(&format!(
        "WITH ranks AS (SELECT TOP ({TABLE_ROWS}) ROW_NUMBER() OVER (ORDER BY a.one) AS k \
         FROM (SELECT 1 AS one FROM master.dbo.syscolumns) AS a CROSS JOIN master.dbo.syscolumns AS b) \
         INSERT INTO dbo.{table} WITH (TABLOCK) (id, changed, filler) SELECT {}, 0, 'a' FROM ranks",
        key.of_rank.replace("@k", "k")
    ))?;
    let rows = lab.row_count(&table)?;
    if rows != TABLE_ROWS {
        return Err(LabError::Wrong(format!("the table {table} was to have {TABLE_ROWS} rows and has {rows}")));
    }
    Ok(())
}

fn run_case(lab: &mut Laboratory, updating: &Updates, updates: u64, case: &mut Case) -> Result<()> {
    let table = updating.table();
    let changed = format!("SELECT SUM(changed) FROM dbo.{table}");
    let counted = |lab: &mut Laboratory| -> Result<u64> {
        lab.run(&changed)?.count().ok_or_else(|| LabError::Wrong(format!("summing {table} gave no number")))
    };
    let before_sum = counted(lab)?;
    let each = (updates / updating.connections as u64).max(1);
    let mut connections: Vec<Connection> = (0..updating.connections).map(|_| lab.connect()).collect::<Result<_>>()?;
    let before = Counters::now(lab)?;
    let (elapsed, seconds) = run_together(&mut connections, |connection| updating.statement(connection, each))?;
    let counters = before.since(lab)?;
    let made = each * updating.connections as u64;
    let found = counted(lab)? - before_sum;
    if found != made {
        return Err(LabError::Wrong(format!("{} made {made} updates and {found} are there", case.name)));
    }
    case.push("elapsed_s", elapsed);
    case.push("updates_per_s", made as f64 / elapsed);
    case.push("flushes_per_commit", counters.flushes as f64 / made as f64);
    case.push("first_connection_s", seconds.iter().copied().fold(f64::INFINITY, f64::min));
    case.push("last_connection_s", seconds.iter().copied().fold(0.0, f64::max));
    case.figures.insert("connection_s".to_owned(), json!(seconds));
    counters.put_into(case);
    Ok(())
}

fn grid(cases: &[Case]) -> Grid {
    let headers =
        ["case", "updates/s", "flushes/commit", "first connection s", "last connection s", "spins", "waits most for"];
    let mut grid = Grid::new("Updates a second, by key, distribution and connections", &headers);
    grid.least_wanted = vec![3, 5];
    for case in cases {
        let figure = |key: &str| case.median(key).unwrap_or(0.0);
        grid.rows.push(vec![
            case.name.clone(),
            thousands(figure("updates_per_s").round() as u64),
            format!("{:.3}", figure("flushes_per_commit")),
            format!("{:.2}", figure("first_connection_s")),
            format!("{:.2}", figure("last_connection_s")),
            thousands(figure("spins") as u64),
            longest_wait(case),
        ]);
    }
    grid
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn hashed_keys_differ() {
        let keys: HashSet<u64> = (1..=TABLE_ROWS).map(|rank| rank * 2_654_435_761 % (1 << 32)).collect();
        assert_eq!(keys.len() as u64, TABLE_ROWS);
    }

    #[test]
    fn every_case_has_a_name_of_its_own() {
        let names: HashSet<String> = cases().iter().map(Updates::name).collect();
        assert_eq!(names.len(), KEYS.len() * DISTRIBUTIONS.len() * CONNECTIONS.len());
    }
}
