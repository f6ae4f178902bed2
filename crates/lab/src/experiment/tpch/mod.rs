//! `tpch`: the 22 queries of TPC-H, with the join order that hobt chooses and with the written one, and how well the
//! rows of their joins are estimated.
//!
//! `OPTION (FORCE ORDER)` turns off hobt's rule for join orders and nothing else. DataFusion then joins the sources in
//! the written order, skipping those that no equation joins yet, and chooses the side with fewer bytes to keep by the
//! same statistics. This is what "DataFusion's own order" means here.

mod joins;

use hobt_showplan::PlanNode;
use serde_json::{Map, json};

use super::{Experiment, Plan, plan_steps, run_plans};
use crate::data::tpch_queries;
use crate::error::{LabError, Result};
use crate::figures::{amount, float_percentile, median, median_interval};
use crate::laboratory::{Laboratory, SCALE_BYTES, TPCH_STEPS};
use crate::limits::LimitSettings;
use crate::machine;
use crate::report::{Case, Grid, Mark, Report, SHORT_S, too_short};
use joins::{JoinRows, joins_of};

pub(super) struct TpchExperiment;

/// The scale factor on a machine with enough room.
const WANTED_SCALE: f64 = 1.0;

const WRITTEN: &str = "_force_order";
const FORCE_ORDER: &str = "\nOPTION (FORCE ORDER)";
/// With this hint, joins below others return all of their rows, not only those that the joins above need.
const NO_FILTERS: &str = "\nOPTION (USE HINT('HOBT_DISABLE_JOIN_FILTER'))";

/// A query and its plans.
struct Query {
    name: String,
    text: String,
    /// Whether its plan in the written order is the same.
    is_same: bool,
    joins: Vec<JoinRows>,
}

impl Experiment for TpchExperiment {
    fn name(&self) -> &'static str {
        "tpch"
    }

    fn question(&self) -> &'static str {
        "Is any of TPC-H's queries slower in hobt's join order than in DataFusion's own, and how well are rows of joins \
         estimated?"
    }

    fn run(&self, lab: &mut Laboratory) -> Result<Report> {
        let scale = scale_for(lab)?;
        let wanted = wanted_queries(scale, &lab.options().cases)?;
        let repeat = lab.options().repeat.max(1);
        let steps = TPCH_STEPS + LimitSettings::steps_beside() + wanted.len() as u64;
        lab.progress().expect(steps + plan_steps(2 * wanted.len(), repeat));
        lab.ensure_tpch(scale)?;
        let limits = lab.limits((scale * SCALE_BYTES) as u64)?;
        let queries = explored(lab, wanted)?;
        let mut cases = run_plans(lab, &plans(&queries), repeat)?;
        note_joins(&queries, &mut cases);
        let mut settings = Map::new();
        settings.insert("scale".to_owned(), json!(scale));
        settings.insert("repeat".to_owned(), json!(repeat));
        let errors: Vec<f64> = queries.iter().flat_map(|query| &query.joins).map(|join| join.q_error).collect();
        settings.insert("joins".to_owned(), json!(errors.len()));
        settings.insert("join_q_error_median".to_owned(), json!(median(&errors)));
        settings.insert("join_q_error_p95".to_owned(), json!(float_percentile(&errors, 95)));
        settings.insert("join_q_error_max".to_owned(), json!(float_percentile(&errors, 100)));
        Ok(Report {
            notes: notes(&queries, &cases, &errors),
            tables: vec![by_query(&queries, &cases)],
            marks: mark(&queries, &cases).into_iter().collect(),
            cases,
            ..self.report(lab, limits, settings)
        })
    }
}

/// The scale factor given by the user, or one that the pool and the free disk can hold.
fn scale_for(lab: &Laboratory) -> Result<f64> {
    if let Some(scale) = lab.options().scale {
        return Ok(scale);
    }
    let by_pool = lab.pool_fit_bytes() as f64 / SCALE_BYTES;
    let by_disk = machine::free_disk(lab.folder())? as f64 / 2.0 / SCALE_BYTES;
    let fitting = WANTED_SCALE.min(by_pool).min(by_disk);
    Ok(((fitting * 100.0).floor() / 100.0).max(0.01))
}

/// The requested queries, by name and text. All if no name is given.
fn wanted_queries(scale: f64, names: &[String]) -> Result<Vec<(String, String)>> {
    let mut all: Vec<(String, String)> = tpch_queries(scale).collect();
    if let Some(unknown) = names.iter().find(|wanted| all.iter().all(|(name, _)| name != *wanted)) {
        return Err(LabError::Input(format!("there is no case {unknown}. Known are q01 to q22.")));
    }
    if !names.is_empty() {
        all.retain(|(name, _)| names.contains(name));
    }
    Ok(all)
}

/// Runs each query before timing: its statistics are created, both orders are checked to give the same rows, and its
/// plans are kept. One step each.
fn explored(lab: &mut Laboratory, wanted: Vec<(String, String)>) -> Result<Vec<Query>> {
    lab.connection().collect_plans(true);
    let queries = wanted.into_iter().map(|(name, text)| explore(lab, name, text)).collect();
    lab.connection().collect_plans(false);
    queries
}

fn explore(lab: &mut Laboratory, name: String, text: String) -> Result<Query> {
    lab.progress().step(&format!("the plans of {name}"));
    let mut planned = |statement: &str| -> Result<(PlanNode, Vec<Vec<Option<String>>>)> {
        let answer = lab.run(statement)?;
        let shown = answer.statistics.as_ref().and_then(|statistics| statistics.plan.as_ref());
        let root = shown.and_then(|shown| shown.root.clone());
        let root = root.ok_or_else(|| LabError::Wrong(format!("no plan came with {name}")))?;
        let mut rows = answer.rows();
        rows.sort();
        Ok((root, rows))
    };
    let (chosen, rows) = planned(&format!("{text}{NO_FILTERS}"))?;
    // Both plans without filters, so that they differ only in their joins.
    let written = format!("{text}{}", NO_FILTERS.replace("(USE", "(FORCE ORDER, USE"));
    let (written, written_rows) = planned(&written)?;
    if rows != written_rows {
        return Err(LabError::Wrong(format!("{name} has other rows in the written order")));
    }
    let is_same = chosen.shape_hash() == written.shape_hash();
    Ok(Query { joins: joins_of(&chosen), name, text, is_same })
}

/// Both forms of each query, in pairs.
fn plans(queries: &[Query]) -> Vec<Plan> {
    let plan = |name: String, statement: String| Plan {
        table: None,
        cold: false,
        // The largest table is lineitem, whose number of rows comes from the scans.
        ..Plan::new(name, "", "lineitem", statement, 0)
    };
    let both = queries.iter().flat_map(|query| {
        let written = (format!("{}{WRITTEN}", query.name), format!("{}{FORCE_ORDER}", query.text));
        [(query.name.clone(), query.text.clone()), written]
    });
    both.map(|(name, statement)| plan(name, statement)).collect()
}

/// Adds the data on its joins to each query's case.
fn note_joins(queries: &[Query], cases: &mut [Case]) {
    for query in queries {
        let Some(case) = cases.iter_mut().find(|case| case.name == query.name) else { continue };
        let joins: Vec<_> = query.joins.iter().map(JoinRows::to_json).collect();
        case.figures.insert("joins".to_owned(), json!(joins));
        case.figures.insert("is_plan_of_force_order".to_owned(), json!(query.is_same));
    }
}

fn case_of<'c>(cases: &'c [Case], name: &str) -> Option<&'c Case> {
    cases.iter().find(|case| case.name == name)
}

/// The ratio of the time in hobt's order to that in the written one, for each round.
fn ratios(query: &Query, cases: &[Case]) -> Vec<f64> {
    let values = |name: &str| case_of(cases, name).map_or(&[][..], |case| case.values("warm_s"));
    let (chosen, written) = (values(&query.name), values(&format!("{}{WRITTEN}", query.name)));
    chosen.iter().zip(written).map(|(chosen, written)| chosen / written.max(1e-9)).collect()
}

fn by_query(queries: &[Query], cases: &[Case]) -> Grid {
    let headers = ["query", "hobt's order s", "written s", "ratio", "plans", "joins", "q-error", "the worst"];
    let mut grid = Grid::new("By query", &headers);
    grid.prose = vec![4, 7];
    grid.least_wanted = vec![7, 5];
    for query in queries {
        let time = |name: &str| case_of(cases, name).and_then(|case| case.median("warm_s"));
        let shown = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), |time| format!("{time:.4}"));
        let worst = query.joins.iter().max_by(|a, b| a.q_error.total_cmp(&b.q_error));
        let ratio = median(&ratios(query, cases));
        grid.rows.push(vec![
            query.name.clone(),
            shown(time(&query.name)),
            shown(time(&format!("{}{WRITTEN}", query.name))),
            ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
            if query.is_same { "the same" } else { "two" }.to_owned(),
            query.joins.len().to_string(),
            worst.map_or_else(|| "-".to_owned(), |worst| amount(worst.q_error)),
            worst.map_or_else(String::new, JoinRows::text),
        ]);
    }
    grid
}

fn notes(queries: &[Query], cases: &[Case], errors: &[f64]) -> Vec<String> {
    let mut notes = Vec::new();
    if let (Some(middle), Some(most)) = (median(errors), float_percentile(errors, 95)) {
        notes.push(format!(
            "q-error of {} joins: median {}, 95th percentile {}",
            errors.len(),
            amount(middle),
            amount(most)
        ));
    }
    let same: Vec<&str> = queries.iter().filter(|query| query.is_same).map(|query| query.name.as_str()).collect();
    if !same.is_empty() {
        notes.push(format!("one plan in both orders, so that their ratios show the noise: {}", same.join(", ")));
    }
    if cases.iter().filter_map(|case| case.median("warm_s")).any(|warm| warm < SHORT_S) {
        notes.push("runs took less than 10 ms: a larger scale factor (--scale) gives figures to rely on".to_owned());
    }
    notes
}

/// The query with the most certain slowdown in hobt's order, of those with two different plans.
fn mark(queries: &[Query], cases: &[Case]) -> Option<Mark> {
    let judged = queries.iter().filter(|query| !query.is_same).filter_map(|query| {
        let ratios = ratios(query, cases);
        let interval = median_interval(&ratios);
        let value = median(&ratios)?;
        Some((interval.map_or(value, |interval| interval.low), value, interval, query))
    });
    let (_, value, interval, query) = judged.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let names = [query.name.clone(), format!("{}{WRITTEN}", query.name)];
    let times = names.iter().filter_map(|name| case_of(cases, name)?.median("warm_s"));
    Some(Mark {
        name: "hobt's join order over DataFusion's own, the slowest".to_owned(),
        value,
        bound: 1.0,
        at_least: false,
        of: Some(query.name.clone()),
        too_small: too_short(times.fold(f64::INFINITY, f64::min), SHORT_S),
        interval,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Measured;

    fn query(name: &str, is_same: bool) -> Query {
        Query { name: name.to_owned(), text: "SELECT 1".to_owned(), is_same, joins: Vec::new() }
    }

    fn case(name: String, seconds: &[f64]) -> Case {
        let mut case = Case::new(name, "SELECT 1");
        seconds.iter().for_each(|elapsed_s| case.add_warm(Measured { elapsed_s: *elapsed_s, ..Measured::default() }));
        case
    }

    #[test]
    fn the_mark_is_of_the_query_that_is_surely_slower_and_has_two_plans() {
        let queries = [query("q01", false), query("q02", false), query("q03", true)];
        // Half of the first query's pairs are much slower, all of the second's are a little slower, the third has one
        // plan.
        let times = [("q01", vec![1.0, 9.0, 0.9, 9.0, 9.0, 0.9]), ("q02", vec![1.2; 6]), ("q03", vec![50.0; 6])];
        let cases: Vec<Case> = times
            .iter()
            .flat_map(|(name, times)| [case((*name).to_owned(), times), case(format!("{name}{WRITTEN}"), &[1.0; 6])])
            .collect();
        let mark = mark(&queries, &cases).expect("two queries have two plans");
        assert_eq!((mark.of.as_deref(), mark.is_met()), (Some("q02"), Some(false)));
        assert!(by_query(&queries, &cases).rows[2].contains(&"the same".to_owned()));
    }

    #[test]
    fn queries_are_chosen_by_name() {
        let names = |wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
            wanted_queries(1.0, &wanted).map(|found| found.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).expect("all").len(), 22);
        assert_eq!(names(&["q05", "q21"]).expect("two"), ["q05", "q21"]);
        assert!(names(&["q23"]).expect_err("no such").to_string().contains("q01 to q22"));
    }
}
