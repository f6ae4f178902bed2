//! `limits`: the machine's limits, without a database.

use serde_json::{Map, json};

use super::Experiment;
use crate::error::Result;
use crate::figures::{amount, thousands};
use crate::laboratory::Laboratory;
use crate::limits::{LimitSettings, ReadLimit};
use crate::report::{Case, Grid, Report};

pub(super) struct LimitsExperiment;

impl Experiment for LimitsExperiment {
    fn name(&self) -> &'static str {
        "limits"
    }

    fn question(&self) -> &'static str {
        "What does this machine give: its disk by order and size of reads, its flushes, its memory by cores?"
    }

    fn compares_rates(&self) -> bool {
        true
    }

    fn run(&self, lab: &mut Laboratory) -> Result<Report> {
        let mut wanted = LimitSettings::thorough(lab.options().repeat);
        if let Some(rows) = lab.options().rows {
            // The option that makes other experiments small makes this one small too.
            wanted.file_bytes = wanted.file_bytes.min(rows.saturating_mul(100).max(8 << 20));
            wanted.memory_bytes = wanted.memory_bytes.min(wanted.file_bytes * 2);
        }
        lab.progress().expect(wanted.steps());
        let limits = lab.limits_with(wanted)?;
        let mut grid = Grid::new(
            "Reads past every cache",
            &[
                "order",
                "KiB a read",
                "at once",
                "MB/s",
                "half within us",
                "95 % within us",
                "99 % within us",
                "slowest us",
            ],
        );
        grid.rows = limits.disk_reads.iter().map(grid_row).collect();
        let mut settings = Map::new();
        settings.insert("repeat".to_owned(), json!(wanted.repetitions));
        settings.insert("file_bytes".to_owned(), json!(limits.disk_file_bytes));
        settings.insert("memory_bytes".to_owned(), json!(limits.memory_bytes));
        let mut notes = Vec::new();
        if limits.memory_bytes < 2 << 30 {
            notes.push(
                "less than 2 GiB of memory were read: a large processor cache may answer in its place".to_owned(),
            );
        }
        Ok(Report {
            cases: limits.disk_reads.iter().map(case_of).collect(),
            tables: vec![grid],
            notes,
            ..self.report(lab, limits, settings)
        })
    }
}

fn grid_row(limit: &ReadLimit) -> Vec<String> {
    vec![
        limit.order.to_owned(),
        limit.read_kib.to_string(),
        limit.queue_depth.to_string(),
        amount(limit.mb_s),
        thousands(limit.latency_us_p50),
        thousands(limit.latency_us_p95),
        thousands(limit.latency_us_p99),
        thousands(limit.latency_us_max),
    ]
}

fn case_of(limit: &ReadLimit) -> Case {
    let name = format!("{}_{}_kib_depth_{}", limit.order, limit.read_kib, limit.queue_depth);
    let mut case = Case::new(name, "");
    for rate in &limit.mb_s_repetitions {
        case.push("cold_mb_s", *rate);
    }
    for (key, value) in [
        ("latency_us_p50", limit.latency_us_p50),
        ("latency_us_p95", limit.latency_us_p95),
        ("latency_us_p99", limit.latency_us_p99),
        ("latency_us_max", limit.latency_us_max),
    ] {
        case.figures.insert(key.to_owned(), json!(value));
    }
    case
}
