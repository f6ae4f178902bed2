//! `hobt demo`: starts with an empty folder and produces a report of how fast this machine scans, and why.
//!
//! Builds `DimCustomer`, `LINEITEM` and `BigData`, stores BigData in every supported form, scans each form cold and
//! warm, and compares the results with the machine's limits.

use std::path::{Path, PathBuf};

use hobt_engine::InstanceSettings;
use serde_json::{Map, json};

use crate::error::Result;
use crate::experiment::{
    Experiment, FormTables, Plan, clustered_plan, ensure_clustered, plan_steps, run_plans, scan_marks, scan_notes,
    scan_plans,
};
use crate::figures::{seconds, thousands};
use crate::folder::DataFolder;
use crate::laboratory::{Laboratory, RunOptions};
use crate::limits::LimitSettings;
use crate::progress::Progress;
use crate::report::{Case, Grid, Report};
use crate::run::{run_in, write_report};

/// The folder that the demo uses when none is named.
pub const DEMO_FOLDER: &str = "hobt-demo";

/// Rows of BigData on a machine with enough room: all forms are built and scanned in less than two minutes on two
/// cores, and each form is larger than a gigabyte.
const WANTED_ROWS: u64 = 13_000_000;

const ROW_BYTES: u64 = 100;

/// The size of the tables in multiples of BigData: its forms, the sort that one of them needs, and LINEITEM with its
/// wider rows.
const TABLES: u64 = 8;

/// TPC-H's queries 1 and 6: name, meaning, text.
const QUERIES: [(&str, &str, &str); 2] = [
    (
        "line_item_query_1",
        "TPC-H's query 1: eight aggregates of nearly all rows of LINEITEM",
        include_str!("../../../tests/tpch/q01.sql"),
    ),
    (
        "line_item_query_6",
        "TPC-H's query 6: a sum of the few rows that pass its conditions",
        include_str!("../../../tests/tpch/q06.sql"),
    ),
];

/// The demo's options.
#[derive(Clone, PartialEq, Debug)]
pub struct DemoOptions {
    /// The folder for the data.
    pub data: PathBuf,
    /// Whether the data are kept.
    pub keep: bool,
    /// The folder for the report.
    pub out: PathBuf,
    /// Rows of BigData. Chosen from memory and free disk if absent.
    pub rows: Option<u64>,
    /// Repetitions of each scan.
    pub repeat: usize,
}

impl Default for DemoOptions {
    fn default() -> DemoOptions {
        DemoOptions { data: PathBuf::from(DEMO_FOLDER), keep: false, out: PathBuf::from("."), rows: None, repeat: 2 }
    }
}

/// The results of the demo.
#[derive(Debug)]
pub struct DemoResult {
    /// The report.
    pub report: Report,
    /// The page.
    pub page: PathBuf,
    /// The report as JSON.
    pub json: PathBuf,
    /// The data's folder, if it is kept.
    pub kept: Option<PathBuf>,
}

/// Runs the demo. Blocks.
///
/// # Errors
/// If the folder is not empty and not the laboratory's, the disk is too small, or a statement failed.
pub fn run_demo(options: &DemoOptions, progress: Progress) -> Result<DemoResult> {
    let folder = DataFolder::fresh(&options.data, options.keep)?;
    let run = RunOptions { rows: options.rows, repeat: options.repeat, ..RunOptions::default() };
    let report = run_in(folder.path(), &Demo, InstanceSettings::default(), run, progress)?;
    let [page, json] = write_report(&report, &options.out, "hobt-demo")?;
    let kept = options.keep.then(|| folder.path().to_path_buf());
    Ok(DemoResult { report, page: absolute(&page), json: absolute(&json), kept })
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

struct Demo;

impl Experiment for Demo {
    fn name(&self) -> &'static str {
        "demo"
    }

    fn question(&self) -> &'static str {
        "What does a scan reach on this machine, and where does the time go?"
    }

    fn compares_rates(&self) -> bool {
        true
    }

    fn run(&self, lab: &mut Laboratory) -> Result<Report> {
        let repeat = lab.options().repeat;
        let wanted = lab.rows_for(WANTED_ROWS, ROW_BYTES, TABLES)?;
        let plan_count = scan_plans(&FormTables { rows: wanted }).len() + 1 + QUERIES.len();
        // The last tables are the clustered index and LINEITEM.
        let tables = FormTables::STEPS + 2;
        lab.progress().expect(LimitSettings::steps_beside() + tables + plan_steps(plan_count, repeat));
        let limits = lab.limits(wanted * ROW_BYTES)?;
        let forms = FormTables::ensure(lab, wanted)?;
        ensure_clustered(lab, forms.rows)?;
        let scale = (forms.rows as f64 / WANTED_ROWS as f64).clamp(0.001, 1.0);
        let line_items = lab.ensure_line_item(scale)?;
        let mut plans = scan_plans(&forms);
        plans.push(clustered_plan(forms.rows));
        for (name, meaning, query) in QUERIES {
            plans.push(Plan::new(name, meaning, "LINEITEM", query.trim_end().to_owned(), line_items));
        }
        let cases = run_plans(lab, &plans, repeat)?;
        let mut settings = Map::new();
        settings.insert("rows".to_owned(), json!(forms.rows));
        settings.insert("line_item_scale_factor".to_owned(), json!(scale));
        settings.insert("repeat".to_owned(), json!(repeat));
        let mut notes = scan_notes(&cases);
        if lab.machine().build == "debug" {
            notes.push("this is a debug build: its times say nothing about hobt".to_owned());
        }
        Ok(Report {
            marks: scan_marks(&cases),
            tables: vec![builds(lab)],
            cases: cases.into_iter().map(without_comments).collect(),
            notes,
            ..self.report(lab, limits, settings)
        })
    }
}

/// The times to build the tables.
fn builds(lab: &Laboratory) -> Grid {
    let mut grid = Grid::new("Building the tables, until they are safe on disk", &["table", "rows", "time", "rows/s"]);
    for build in lab.builds() {
        let per_second = thousands((build.rows as f64 / build.seconds.max(1e-9)).round() as u64);
        grid.rows.push(vec![build.table.clone(), thousands(build.rows), seconds(build.seconds), per_second]);
    }
    grid
}

/// A case with its statement's text, without comment lines.
fn without_comments(mut case: Case) -> Case {
    let lines: Vec<&str> = case.statement.lines().filter(|line| !line.starts_with("--")).collect();
    case.statement = lines.join("\n");
    case
}

impl DemoResult {
    /// Closing text: where to look, and what to try next.
    pub fn closing_words(&self) -> String {
        let mut text = format!(
            "The report is in {}\nand as JSON in {}\n\nTry next:\n  hobt lab list\n  hobt lab run scan\n  hobt lab run cores\n",
            self.page.display(),
            self.json.display()
        );
        if let Some(folder) = &self.kept {
            text.push_str(&format!("  hobt sql --data {}\n", folder.display()));
        }
        text
    }
}
