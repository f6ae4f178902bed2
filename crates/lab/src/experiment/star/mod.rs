//! `star`: the cost of joining a fact table to a dimension, depending on how much of the dimension is selected, with
//! and without the filter that the join passes to the scan of the fact table. Also whether the order in which a star
//! query is written matters (`orders`).

mod orders;

use serde_json::{Map, json};

use super::{Experiment, Plan, plan_steps, run_plans};
use crate::error::Result;
use crate::figures::{amount, median, median_interval};
use crate::laboratory::Laboratory;
use crate::limits::LimitSettings;
use crate::report::{Case, Condition, Grid, Mark, Report, SHORT_S};

pub(super) struct StarExperiment;

/// Rows of the fact table on a machine with enough room.
const WANTED_ROWS: u64 = 20_000_000;
/// Approximate bytes of a row of the fact table on its page, for choosing a size.
const ROW_BYTES: u64 = 100;
/// Rows of the dimension.
const MEMBERS: u64 = 100_000;
/// Grades of the dimension, each with the same number of members.
const GRADES: u64 = 10_000;
const FACTS: &str = "StarFact";
const DIMENSION: &str = "StarDimension";

/// The selected parts of the dimension: the name, and its number of grades.
const PARTS: [(&str, u64); 8] = [
    ("0_01_percent", 1),
    ("0_1_percent", 10),
    ("1_percent", 100),
    ("5_percent", 500),
    ("10_percent", 1000),
    ("25_percent", 2500),
    ("50_percent", 5000),
    ("100_percent", GRADES),
];
/// The part that the mark is for, the required gain of a filter there, and the part where a filter excludes nothing.
const MARKED: &str = "1_percent";
const GAIN: f64 = 3.0;
const ALL: &str = "100_percent";
const COST: f64 = 1.05;

/// With this hint, joins pass no filters to scans.
const NO_FILTER: &str = " OPTION (USE HINT('HOBT_DISABLE_JOIN_FILTER'))";

/// The sum over the facts of a part of the dimension.
fn query(grades: u64, has_filter: bool) -> String {
    let hint = if has_filter { "" } else { NO_FILTER };
    format!(
        "SELECT COUNT_BIG(*), SUM(f.Amount), SUM(CAST(f.Quantity AS bigint)), MAX(f.Remark) FROM dbo.{FACTS} f \
         JOIN dbo.{DIMENSION} d ON d.Id = f.Member WHERE d.Grade < {grades}{hint}"
    )
}

fn case_name(part: &str, has_filter: bool) -> String {
    format!("{}_{part}", if has_filter { "filter" } else { "no_filter" })
}

/// A warm case. Not all of its pages are read, and the disk is not in question.
fn plan_of(name: String, statement: String, rows: u64) -> Plan {
    Plan { table: None, cold: false, ..Plan::new(name, "", FACTS, statement, rows) }
}

/// Both queries for each part, in pairs.
fn plans(rows: u64) -> Vec<Plan> {
    let plan = |part: &str, grades, has_filter| plan_of(case_name(part, has_filter), query(grades, has_filter), rows);
    PARTS.iter().flat_map(|(part, grades)| [true, false].map(|has_filter| plan(part, *grades, has_filter))).collect()
}

/// Creates both tables. Two steps. A member's facts are spread over the table.
fn ensure(lab: &mut Laboratory, rows: u64) -> Result<()> {
    // 7,919 and 48,271 are primes, so that grades and members appear unordered and equally often.
    let dimension = format!(
        "SELECT value AS Id, CAST(value * 7919 % {GRADES} AS int) AS Grade, \
         CAST(CONCAT('Member ', value) AS varchar(40)) AS Name INTO dbo.{DIMENSION} \
         FROM GENERATE_SERIES(0, {})",
        MEMBERS - 1
    );
    lab.ensure_table(DIMENSION, MEMBERS, &[dimension])?;
    let facts = format!(
        "SELECT value AS Id, CAST(value * 48271 % {MEMBERS} AS int) AS Member, CAST(value % 1000 AS int) AS Quantity, \
         value % 100000 AS Amount, CAST(value % 365 AS smallint) AS Day, \
         CAST(CONCAT('remark on what was sold, number ', value % 5000) AS varchar(60)) AS Remark \
         INTO dbo.{FACTS} FROM GENERATE_SERIES(CAST(1 AS bigint), CAST({rows} AS bigint))"
    );
    lab.ensure_table(FACTS, rows, &[facts])
}

impl Experiment for StarExperiment {
    fn name(&self) -> &'static str {
        "star"
    }

    fn question(&self) -> &'static str {
        "What does a join with a part of a dimension cost, and what is it worth that the join tells the scan of the \
         fact table which keys it wants? Does it matter in which order a star is written?"
    }

    fn run(&self, lab: &mut Laboratory) -> Result<Report> {
        let rows = lab.rows_for(WANTED_ROWS, ROW_BYTES, 1)?;
        let repeat = lab.options().repeat;
        let mut plans = plans(rows);
        plans.extend(orders::plans(rows));
        lab.progress().expect(3 + orders::STEPS + LimitSettings::steps_beside() + plan_steps(plans.len(), repeat));
        ensure(lab, rows)?;
        orders::ensure(lab)?;
        orders::check(lab)?;
        let limits = lab.limits(rows * ROW_BYTES)?;
        let cases = run_plans(lab, &plans, repeat)?;
        let mut settings = Map::new();
        settings.insert("rows".to_owned(), json!(rows));
        settings.insert("members".to_owned(), json!(MEMBERS));
        settings.insert("repeat".to_owned(), json!(repeat));
        Ok(Report {
            notes: notes(&cases),
            tables: vec![by_part(&cases), orders::grid(&cases)],
            marks: marks(&cases).into_iter().chain(orders::marks(&cases)).collect(),
            cases,
            ..self.report(lab, limits, settings)
        })
    }
}

fn notes(cases: &[Case]) -> Vec<String> {
    let is_short = cases.iter().filter_map(|case| case.median("warm_s")).any(|warm| warm < SHORT_S);
    let short = "runs took less than 10 ms: more rows (--rows) give figures to rely on";
    is_short.then(|| short.to_owned()).into_iter().collect()
}

fn case_of<'c>(cases: &'c [Case], part: &str, has_filter: bool) -> Option<&'c Case> {
    let name = case_name(part, has_filter);
    cases.iter().find(|case| case.name == name)
}

/// The ratio of a part's times without a filter to those with one, for each round.
fn gains(cases: &[Case], part: &str) -> Vec<f64> {
    let values = |has_filter| case_of(cases, part, has_filter).map_or(&[][..], |case| case.values("warm_s"));
    values(false).iter().zip(values(true)).map(|(without, with)| without / with.max(1e-9)).collect()
}

/// Why a case's runs are too small to be judged, if they are.
fn too_small(cases: &[Case], name: &str) -> Option<String> {
    cases.iter().find(|case| case.name == name)?.too_small(Condition::Warm)
}

fn by_part(cases: &[Case]) -> Grid {
    let mut grid = Grid::new("By the part of the dimension", &["part", "with filter s", "without s", "times faster"]);
    for (part, _) in PARTS {
        let time = |has_filter| case_of(cases, part, has_filter).and_then(|case| case.median("warm_s"));
        let shown = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), |time| format!("{time:.4}"));
        let gain = median(&gains(cases, part)).map_or_else(|| "-".to_owned(), amount);
        grid.rows.push(vec![
            part.replace("_percent", " %").replace('_', "."),
            shown(time(true)),
            shown(time(false)),
            gain,
        ]);
    }
    grid
}

fn marks(cases: &[Case]) -> Vec<Mark> {
    let small = |part: &str| [true, false].iter().find_map(|filter| too_small(cases, &case_name(part, *filter)));
    let mark = |name: &str, part: &str, values: &[f64], bound: f64, at_least: bool| {
        median(values).map(|value| Mark {
            name: name.to_owned(),
            value,
            bound,
            at_least,
            of: None,
            too_small: small(part),
            interval: median_interval(values),
        })
    };
    let of_all: Vec<f64> = gains(cases, ALL).iter().map(|gain| 1.0 / gain).collect();
    let gain = mark("without over with a pushed-down filter, 1 %", MARKED, &gains(cases, MARKED), GAIN, true);
    let cost = mark("with over without a filter that leaves nothing out", ALL, &of_all, COST, false);
    gain.into_iter().chain(cost).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_a_case_of_its_own_with_and_without_a_filter() {
        let plans = plans(1000);
        let mut names: Vec<&str> = plans.iter().map(|plan| plan.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 2 * PARTS.len());
        assert!(names.contains(&case_name(MARKED, true).as_str()) && names.contains(&case_name(ALL, false).as_str()));
        assert!(plans.iter().all(|plan| plan.statement.contains("USE HINT") == plan.name.starts_with("no_filter")));
    }
}
