//! `hobt lab size`: how many of each part on the path from disk to processor keep the cores busy, and which part is the
//! first bottleneck.
//!
//! The calculation is that of the first text: the number of cores times the consumption of a core must arrive, so each
//! part of the path (disks, adapters, bus) must carry that rate. Rates are in megabytes (10⁶ bytes) per second.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::data::big_data;
use crate::error::{LabError, Result};
use crate::figures::{amount, median, thousands};
use crate::laboratory::{BIG_DATA_STEPS, Laboratory};
use crate::limits::LimitSettings;
use crate::measure::measure_warm;
use crate::report::Grid;

/// The configuration of a server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizePlan {
    /// The consumption of one core.
    pub core_mb_s: f64,
    /// The source of that rate.
    pub core_source: String,
    /// Cores.
    pub cores: u32,
    /// The path, from the disks to the processor.
    pub path: Vec<PathPart>,
}

/// A kind of part on the path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathPart {
    /// What it is.
    pub name: String,
    /// The rate that one of them carries.
    pub mb_s: f64,
    /// How many there are. `None` asks how many are needed.
    pub count: Option<u32>,
}

/// The result for one part of the path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartSize {
    /// What it is.
    pub name: String,
    /// The rate that one of them carries.
    pub mb_s: f64,
    /// The number needed to feed all cores.
    pub needed: u32,
    /// The number that exists, if given.
    pub count: Option<u32>,
    /// The total rate that they carry, if their number is given.
    pub carries_mb_s: Option<f64>,
    /// The number of cores kept busy by that rate.
    pub cores_fed: Option<f64>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeAnswer {
    /// The configuration.
    pub plan: SizePlan,
    /// The consumption of all cores.
    pub demand_mb_s: f64,
    /// Each part of the path.
    pub parts: Vec<PartSize>,
    /// The first bottleneck, and what it lacks.
    pub starves_first: String,
}

impl SizePlan {
    /// The first text's server: twelve cores of 347 MB/s, disks of 120 MB/s, dual-port adapters of 3,200 MB/s.
    pub fn of_the_text() -> SizePlan {
        let part = |name: &str, mb_s| PathPart { name: name.to_owned(), mb_s, count: None };
        SizePlan {
            core_mb_s: 347.0,
            core_source: "the text: a Westmere core".to_owned(),
            cores: 12,
            path: vec![part("disk (15,000 rpm SAS)", 120.0), part("adapter (dual-port 16 Gb)", 3_200.0)],
        }
    }

    /// Computes the answer.
    ///
    /// # Errors
    /// If a rate or a number is not above zero.
    pub fn answer(self) -> Result<SizeAnswer> {
        let positive = |what: &str, value: f64| match value > 0.0 && value.is_finite() {
            true => Ok(()),
            false => Err(LabError::Input(format!("{what} must be above 0 MB/s"))),
        };
        positive("what a core consumes", self.core_mb_s)?;
        if self.cores == 0 {
            return Err(LabError::Input("there must be a core to keep busy: --cores must be above 0".to_owned()));
        }
        let demand_mb_s = self.core_mb_s * f64::from(self.cores);
        let mut parts = Vec::new();
        for part in &self.path {
            positive(&format!("the rate of a {}", part.name), part.mb_s)?;
            let carries_mb_s = part.count.map(|count| part.mb_s * f64::from(count));
            parts.push(PartSize {
                name: part.name.clone(),
                mb_s: part.mb_s,
                needed: (demand_mb_s / part.mb_s).ceil().min(f64::from(u32::MAX)) as u32,
                count: part.count,
                carries_mb_s,
                cores_fed: carries_mb_s.map(|rate| rate / self.core_mb_s),
            });
        }
        let starves_first = starves_first(&parts, demand_mb_s, self.cores);
        Ok(SizeAnswer { plan: self, demand_mb_s, parts, starves_first })
    }
}

/// The consumption of a core of this machine and the rate of its disk, in megabytes per second. Blocks for seconds.
///
/// # Errors
/// If the data cannot be created, or the disk cannot be measured.
pub fn measure_rates(lab: &mut Laboratory) -> Result<(f64, f64)> {
    const FILE_BYTES: u64 = 256 << 20;
    lab.progress().expect(BIG_DATA_STEPS + LimitSettings::steps_beside());
    let core = measure_core_rate(lab)?;
    Ok((core, lab.limits(FILE_BYTES)?.disk_read_mb_s))
}

/// The consumption of a core that reads values in memory: megabytes of pages per second of processor time, measured on
/// a small BigData.
fn measure_core_rate(lab: &mut Laboratory) -> Result<f64> {
    const ROWS: u64 = 1_000_000;
    const RUNS: usize = 3;
    let rows = lab.rows_for(ROWS, 100, 1)?;
    lab.ensure_big_data(rows)?;
    let statement = format!("{} OPTION (MAXDOP 1)", big_data::max_and_sum("dbo.BigData"));
    let mut rates = Vec::new();
    for _ in 0..RUNS {
        let measured = measure_warm(lab, &statement)?;
        rates.push(measured.bytes() as f64 / 1e6 / measured.cpu_s.max(1e-9));
    }
    median(&rates).ok_or_else(|| LabError::Wrong("a scan took no processor time".to_owned()))
}

/// The consumption of a core in a case of a report: megabytes per second of processor time. Without a name, the first
/// case with both figures.
///
/// # Errors
/// If the file is not a report, or has no such case with bytes and processor time.
pub fn core_rate_from_report(path: &Path, case: Option<&str>) -> Result<f64> {
    let text = std::fs::read_to_string(path).map_err(LabError::io(format!("reading {}", path.display())))?;
    let report: Value =
        serde_json::from_str(&text).map_err(|error| LabError::file(path, error.line(), error.to_string()))?;
    let cases = report["cases"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rate = |it: &Value| {
        let cpu_s = it["cpu_s_median"].as_f64().filter(|cpu| *cpu > 0.0)?;
        Some(it["bytes"].as_f64()? / 1e6 / cpu_s).filter(|rate| *rate > 0.0)
    };
    let named = |it: &&Value| case.is_none_or(|name| it["name"] == name);
    cases.iter().filter(named).find_map(rate).ok_or_else(|| {
        let which = case.map_or_else(|| "a case".to_owned(), |name| format!("a case {name}"));
        LabError::Input(format!("{} has not {which} with bytes and processor time", path.display()))
    })
}

fn starves_first(parts: &[PartSize], demand_mb_s: f64, cores: u32) -> String {
    let counted = parts.iter().filter_map(|part| Some((part, part.carries_mb_s?, part.cores_fed?)));
    match counted.min_by(|a, b| a.1.total_cmp(&b.1)) {
        None => format!(
            "nothing, if there are as many of each part as are needed: the path then carries {} MB/s",
            amount(demand_mb_s)
        ),
        Some((part, rate, fed)) if rate < demand_mb_s => {
            format!("the cores: {} carries {} MB/s and keeps {fed:.1} of {cores} cores busy", part.name, amount(rate))
        }
        Some((part, rate, _)) => format!(
            "the path: its narrowest part, {}, carries {} MB/s, the cores consume {}",
            part.name,
            amount(rate),
            amount(demand_mb_s)
        ),
    }
}

impl SizeAnswer {
    /// The answer as a table, followed by a sentence.
    pub fn to_text(&self) -> String {
        let mut grid = Grid::new("", &["part", "one carries MB/s", "needed", "there are", "they carry MB/s"]);
        for part in &self.parts {
            let count = part.count.map_or_else(|| "-".to_owned(), |count| thousands(count.into()));
            let carries = part.carries_mb_s.map_or_else(|| "-".to_owned(), amount);
            grid.rows.push(vec![part.name.clone(), amount(part.mb_s), thousands(part.needed.into()), count, carries]);
        }
        format!(
            "{} cores x {} MB/s ({}) = {} MB/s must arrive\n{}starves first: {}\n",
            self.plan.cores,
            amount(self.plan.core_mb_s),
            self.plan.core_source,
            thousands(self.demand_mb_s.round() as u64),
            grid.to_text(),
            self.starves_first,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_figures_come_out() {
        let answer = SizePlan::of_the_text().answer().expect("the text's figures are sound");
        assert_eq!(answer.demand_mb_s, 4_164.0);
        assert_eq!(answer.parts[0].needed, 35);
        assert_eq!(answer.parts[1].needed, 2);
        let text = answer.to_text();
        assert!(text.contains("4,164") && text.contains("35"), "{text}");
    }

    #[test]
    fn the_narrowest_part_starves_the_cores() {
        let mut plan = SizePlan::of_the_text();
        plan.path[0].count = Some(40);
        plan.path[1].count = Some(1);
        let answer = plan.clone().answer().expect("sound");
        assert!(answer.starves_first.starts_with("the cores: adapter"), "{}", answer.starves_first);
        plan.path[1].count = Some(2);
        let answer = plan.answer().expect("sound");
        assert!(answer.starves_first.starts_with("the path: its narrowest part, disk"), "{}", answer.starves_first);
    }

    #[test]
    fn rates_of_zero_are_refused() {
        let mut plan = SizePlan::of_the_text();
        plan.core_mb_s = 0.0;
        assert!(plan.answer().is_err());
        let mut plan = SizePlan::of_the_text();
        plan.path[0].mb_s = f64::NAN;
        assert!(plan.answer().is_err());
    }
}
