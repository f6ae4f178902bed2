//! `load`: the ETL record. How many gigabytes an hour come from files into a table, by form of the file, form of the
//! table and number of streams, and what keeps more from coming?
//!
//! A stream is a session that loads its share of the files with one worker. The files of all cases
//! have the same rows: LINEITEM, in as many parts as there are processors.

pub(super) mod files;

use serde_json::{Map, json};

use self::files::{FileKind, Parts};
use super::Experiment;
use super::together::{Counters, longest_wait, run_together};
use crate::connection::Connection;
use crate::data;
use crate::error::{LabError, Result};
use crate::figures::thousands;
use crate::laboratory::Laboratory;
use crate::limits::LimitSettings;
use crate::report::{Case, Grid, Report};

pub(super) struct LoadExperiment;

/// Rows, if not specified: those of scale factor 1/3.
const WANTED_ROWS: u64 = 2_000_000;
/// Approximate bytes of a row in a table, a CSV file and a native file together.
const ROW_BYTES: u64 = 400;
/// The table that is loaded.
const TABLE: &str = "Loaded";

/// A form of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Heap,
    /// By year of shipment.
    PartitionedHeap,
    ClusteredIndex,
    HeapWithIndex,
}

impl Form {
    const ALL: [Form; 4] = [Form::Heap, Form::PartitionedHeap, Form::ClusteredIndex, Form::HeapWithIndex];

    fn name(self) -> &'static str {
        match self {
            Form::Heap => "heap",
            Form::PartitionedHeap => "partitioned_heap",
            Form::ClusteredIndex => "clustered",
            Form::HeapWithIndex => "heap_with_index",
        }
    }

    /// The statements that make an empty table of this form.
    fn create(self) -> Vec<String> {
        let mut batches = vec![
            format!("DROP TABLE IF EXISTS dbo.{TABLE}"),
            "IF EXISTS (SELECT * FROM sys.partition_schemes WHERE name = 'LoadedByYear') DROP PARTITION SCHEME LoadedByYear"
                .to_owned(),
            "IF EXISTS (SELECT * FROM sys.partition_functions WHERE name = 'LoadedByYear') DROP PARTITION FUNCTION \
             LoadedByYear"
                .to_owned(),
        ];
        let table = data::CREATE_LINEITEM.replace("dbo.LINEITEM", &format!("dbo.{TABLE}"));
        match self {
            Form::Heap => batches.push(table),
            Form::PartitionedHeap => {
                let years: Vec<String> = (1993..=1998).map(|year| format!("'{year}-01-01'")).collect();
                batches.push(format!(
                    "CREATE PARTITION FUNCTION LoadedByYear (date) AS RANGE RIGHT FOR VALUES ({})",
                    years.join(", ")
                ));
                batches.push(
                    "CREATE PARTITION SCHEME LoadedByYear AS PARTITION LoadedByYear ALL TO ([PRIMARY])".to_owned(),
                );
                batches.push(format!("{table} ON LoadedByYear (l_shipdate)"));
            }
            Form::ClusteredIndex => {
                batches.push(table);
                batches.push(format!("CREATE CLUSTERED INDEX CX ON dbo.{TABLE} (l_orderkey, l_linenumber)"));
            }
            Form::HeapWithIndex => {
                batches.push(table);
                batches.push(format!("CREATE INDEX IX ON dbo.{TABLE} (l_partkey)"));
            }
        }
        batches
    }
}

/// One case.
#[derive(Clone, Copy, Debug)]
struct Load {
    kind: FileKind,
    form: Form,
    streams: usize,
}

impl Load {
    fn name(&self) -> String {
        format!("{}_{}_{}", self.kind.name(), self.form.name(), self.streams)
    }
}

/// All kinds of files by every number of streams into a heap, and CSV by one stream into every other form. Loads into
/// one table at once need a heap without indexes.
fn loads(processors: usize) -> Vec<Load> {
    let into_heap = FileKind::ALL
        .into_iter()
        .flat_map(|kind| (1..=processors).map(move |streams| Load { kind, form: Form::Heap, streams }));
    let into_others = Form::ALL.into_iter().skip(1).map(|form| Load { kind: FileKind::Csv, form, streams: 1 });
    into_heap.chain(into_others).collect()
}

impl Experiment for LoadExperiment {
    fn name(&self) -> &'static str {
        "load"
    }

    fn question(&self) -> &'static str {
        "How many gigabytes an hour come from files into a table, by one stream and by many, and what keeps more from \
         coming?"
    }

    fn run(&self, lab: &mut Laboratory) -> Result<Report> {
        let rows = lab.rows_for(WANTED_ROWS, ROW_BYTES, 2)?;
        let processors = hobt_instruments::processor::processor_count().min(16);
        let repeat = lab.options().repeat.max(1);
        let all = loads(processors);
        let files_steps = FileKind::ALL.len() as u64;
        lab.progress().expect(LimitSettings::steps_beside() + files_steps + (all.len() * repeat) as u64);
        let scale = rows as f64 / data::LINEITEM_ROWS;
        let mut parts = Vec::new();
        for kind in FileKind::ALL {
            lab.progress().step(&format!("writing {processors} files of {}", kind.name()));
            parts.push(Parts::write(lab, kind, scale, processors)?);
        }
        let limits = lab.limits(rows * ROW_BYTES / 3)?;
        let mut cases: Vec<Case> = Vec::with_capacity(all.len());
        for load in &all {
            let statement = parts_of(&parts, load.kind).statement(TABLE, 0, load.streams);
            let mut case = Case { rows: parts_of(&parts, load.kind).rows, ..Case::new(load.name(), statement) };
            case.set_bytes(parts_of(&parts, load.kind).bytes);
            cases.push(case);
        }
        lab.run("EXEC sp_configure 'max degree of parallelism', 1")?;
        let measured = measure(lab, &all, &parts, &mut cases, repeat);
        lab.run("EXEC sp_configure 'max degree of parallelism', 0")?;
        measured?;
        parts.iter().try_for_each(Parts::remove)?;
        let mut settings = Map::new();
        settings.insert("rows".to_owned(), json!(parts.first().map_or(0, |parts| parts.rows)));
        settings.insert("files".to_owned(), json!(processors));
        settings.insert("repeat".to_owned(), json!(repeat));
        let notes = vec![
            "a stream is a session with one worker; the clock runs until the last has committed, which syncs its pages"
                .to_owned(),
            "GB an hour are gigabytes of the files".to_owned(),
        ];
        Ok(Report { tables: vec![grid(&cases)], cases, notes, ..self.report(lab, limits, settings) })
    }
}

fn parts_of(parts: &[Parts], kind: FileKind) -> &Parts {
    parts.iter().find(|parts| parts.kind == kind).expect("files of every kind were written")
}

fn measure(lab: &mut Laboratory, loads: &[Load], parts: &[Parts], cases: &mut [Case], repeat: usize) -> Result<()> {
    for repetition in 0..repeat {
        for (load, case) in loads.iter().zip(&mut *cases) {
            lab.progress().step(&format!("{}, {} of {repeat}", case.name, repetition + 1));
            run_case(lab, load, parts_of(parts, load.kind), case)?;
        }
    }
    lab.run(&format!("DROP TABLE IF EXISTS dbo.{TABLE}"))?;
    Ok(())
}

fn run_case(lab: &mut Laboratory, load: &Load, parts: &Parts, case: &mut Case) -> Result<()> {
    for batch in load.form.create() {
        lab.run(&batch)?;
    }
    lab.run("CHECKPOINT")?;
    let mut connections: Vec<Connection> = (0..load.streams).map(|_| lab.connect()).collect::<Result<_>>()?;
    let before = Counters::now(lab)?;
    let cpu_before = hobt_instruments::processor::process_cpu_time();
    let (elapsed, _) = run_together(&mut connections, |stream| parts.statement(TABLE, stream - 1, load.streams))?;
    let cpu = hobt_instruments::processor::process_cpu_time().saturating_sub(cpu_before).as_secs_f64();
    let counters = before.since(lab)?;
    let found = lab.row_count(TABLE)?;
    if found != parts.rows {
        return Err(LabError::Wrong(format!("{} loaded {found} rows of {}", case.name, parts.rows)));
    }
    let gigabytes = parts.bytes as f64 / 1e9;
    case.push("elapsed_s", elapsed);
    case.push("gb_an_hour", gigabytes / elapsed * 3600.0);
    case.push("gb_an_hour_a_core", gigabytes / cpu.max(1e-9) * 3600.0);
    case.push("rows_per_s", parts.rows as f64 / elapsed);
    case.push("process_cpu_s", cpu);
    counters.put_into(case);
    Ok(())
}

fn grid(cases: &[Case]) -> Grid {
    let headers = ["case", "GB/h", "GB/h of a busy core", "rows/s", "elapsed s", "CPU s", "waits most for"];
    let mut grid = Grid::new("Loads of LINEITEM, by file, table and streams", &headers);
    for case in cases {
        let figure = |key: &str| case.median(key).unwrap_or(0.0);
        grid.rows.push(vec![
            case.name.clone(),
            format!("{:.0}", figure("gb_an_hour")),
            format!("{:.0}", figure("gb_an_hour_a_core")),
            thousands(figure("rows_per_s").round() as u64),
            format!("{:.2}", figure("elapsed_s")),
            format!("{:.2}", figure("process_cpu_s")),
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
    fn every_case_has_a_name_of_its_own() {
        let all = loads(3);
        let names: HashSet<String> = all.iter().map(Load::name).collect();
        assert_eq!(names.len(), all.len());
    }
}
