//! `operators`: forty ordinary queries, each against reading its columns, against the memory, and by the operators of
//! its plan.
//!
//! A query has a scan beside it that looks at each value of the columns that the query reads, and does as little as
//! possible with it: `MAX` of a number, `MAX(LEN(…))` of a text. What a query takes beyond its scan is the work of its
//! operators. It can take less: a condition on one column spares the values of another.
//!
//! Where an operator's time goes is read from a run after the timed ones. The comparison with other engines on the same
//! data is in `bench/peers`.

mod grids;
mod queries;
mod shown;
mod tables;

use hobt_showplan::Fnv;
use serde_json::{Map, json};

use super::{Experiment, Plan, plan_steps, run_plans};
use crate::connection::Answer;
use crate::error::{LabError, Result};
use crate::figures::{amount, median};
use crate::laboratory::Laboratory;
use crate::limits::LimitSettings;
use crate::report::{Case, Report, SHORT_S};
use grids::OVER_SCAN;
use queries::{QUERIES, Query};
use shown::Work;

pub(super) struct OperatorsExperiment;

/// Rows of the facts on a machine with enough room: as many as the comparison with other engines has.
const WANTED_ROWS: u64 = 10_000_000;

impl Experiment for OperatorsExperiment {
    fn name(&self) -> &'static str {
        "operators"
    }

    fn question(&self) -> &'static str {
        "What do forty ordinary queries take against reading their columns, and in which operators does the time go?"
    }

    fn run(&self, lab: &mut Laboratory) -> Result<Report> {
        let wanted = wanted_queries(&lab.options().cases)?;
        let rows = lab.rows_for(WANTED_ROWS, tables::ROW_BYTES, 1)?;
        let repeat = lab.options().repeat.max(1);
        let plans = plans(&wanted, rows);
        let steps = tables::STEPS + LimitSettings::steps_beside() + wanted.len() as u64;
        lab.progress().expect(steps + plan_steps(plans.len(), repeat));
        tables::ensure(lab, rows)?;
        let limits = lab.limits(rows * tables::ROW_BYTES)?;
        let timed = run_plans(lab, &plans, repeat)?;
        let mut cases = beside_scans(&wanted, timed, limits.memory_read_gb_s_all_cores);
        let work = explored(lab, &mut cases)?;
        let mut settings = Map::new();
        settings.insert("rows".to_owned(), json!(rows));
        settings.insert("repeat".to_owned(), json!(repeat));
        Ok(Report {
            findings: finding(&cases).into_iter().collect(),
            tables: vec![grids::beside_scans(&cases), grids::by_query(&cases, &work), grids::by_operator(&work)],
            notes: notes(&cases),
            cases,
            ..self.report(lab, limits, settings)
        })
    }
}

/// The requested queries. All if no name is given.
fn wanted_queries(names: &[String]) -> Result<Vec<Query>> {
    if let Some(unknown) = names.iter().find(|wanted| QUERIES.iter().all(|query| query.name != *wanted)) {
        let known: Vec<&str> = QUERIES.iter().map(|query| query.name).collect();
        return Err(LabError::Input(format!("there is no case {unknown}. Known are {}.", known.join(", "))));
    }
    let is_wanted = |query: &&Query| names.is_empty() || names.iter().any(|name| name == query.name);
    Ok(QUERIES.iter().filter(is_wanted).copied().collect())
}

/// The queries, and behind them the scans, one for each set of columns. All are warm.
fn plans(wanted: &[Query], rows: u64) -> Vec<Plan> {
    let plan = |name: String, statement: String| Plan {
        table: None,
        cold: false,
        ..Plan::new(name, "", tables::FACTS, statement, rows)
    };
    let mut plans: Vec<Plan> =
        wanted.iter().map(|query| plan(query.name.to_owned(), query.statement.to_owned())).collect();
    for query in wanted {
        let scan = tables::scan_of(query.columns);
        if plans[wanted.len()..].iter().all(|known| known.statement != scan) {
            plans.push(plan(format!("the scan of {}", query.name), scan));
        }
    }
    plans
}

/// The queries' cases, with the figures of their scans and what both mean against the memory.
fn beside_scans(wanted: &[Query], mut timed: Vec<Case>, memory_gb_s: f64) -> Vec<Case> {
    let scans = timed.split_off(wanted.len());
    for (query, case) in wanted.iter().zip(&mut timed) {
        let statement = tables::scan_of(query.columns);
        let scan = scans.iter().find(|scan| scan.statement == statement).expect("each set of columns has a scan");
        for time in scan.values("warm_s") {
            case.push("scan_s", *time);
        }
        let (Some(time), Some(scan_time)) = (case.median("warm_s"), case.median("scan_s")) else { continue };
        let gb_s = case.bytes() as f64 / 1e9 / time.max(1e-9);
        for (key, value) in [
            ("columns", json!(query.columns)),
            ("scan_statement", json!(statement)),
            (OVER_SCAN, json!(time / scan_time.max(1e-9))),
            ("rows_per_s", json!(case.rows as f64 / time.max(1e-9))),
            ("pages_gb_s", json!(gb_s)),
            ("of_memory_percent", json!(gb_s / memory_gb_s * 100.0)),
        ] {
            case.figures.insert(key.to_owned(), value);
        }
    }
    timed
}

/// Runs each query once more, for its plan and its whole answer. One step each.
fn explored(lab: &mut Laboratory, cases: &mut [Case]) -> Result<Vec<Work>> {
    lab.connection().collect_plans(true);
    let work = cases.iter_mut().map(|case| explore(lab, case)).collect();
    lab.connection().collect_plans(false);
    work
}

fn explore(lab: &mut Laboratory, case: &mut Case) -> Result<Work> {
    lab.progress().step(&format!("the plan of {}", case.name));
    let answer = lab.run(&case.statement)?;
    let plan = answer.statistics.as_ref().and_then(|statistics| statistics.plan.as_ref());
    let work = plan.and_then(|plan| Work::of(plan));
    let work = work.ok_or_else(|| LabError::Wrong(format!("no plan came with {}", case.name)))?;
    note_answer(case, &answer)?;
    case.figures.insert("operators".to_owned(), work.to_json());
    case.figures.insert("operators_percent".to_owned(), json!(work.explained_percent()));
    case.figures.insert("planning_percent".to_owned(), json!(work.percent(work.planning_s)));
    case.figures.insert("spilled_bytes".to_owned(), json!(work.spilled_bytes));
    if work.spilled_bytes > 0 {
        let megabytes = amount(work.spilled_bytes as f64 / 1e6);
        case.note(format!("its operators wrote {megabytes} MB to the disk, because memory was short"));
    }
    case.drawn_plan = Some(work.drawn.clone());
    Ok(work)
}

/// Adds the first row of the answer, the number of its rows, and a hash of all of them, which is equal on all machines.
fn note_answer(case: &mut Case, answer: &Answer) -> Result<()> {
    let rows = answer.rows();
    let first = rows.first().cloned().unwrap_or_default();
    if first != case.warm.last.answer {
        let timed = &case.warm.last.answer;
        return Err(LabError::Wrong(format!("{} answered {timed:?} and later {first:?}", case.name)));
    }
    let mut hash = Fnv::default();
    for cell in rows.iter().flatten() {
        // A NULL differs from an empty text, and two cells from one that has both texts.
        hash.add(&[u8::from(cell.is_some())]);
        hash.add(cell.as_deref().unwrap_or_default().as_bytes());
        hash.add(&[0]);
    }
    case.figures.insert("answer".to_owned(), json!(first));
    case.figures.insert("answer_rows".to_owned(), json!(rows.len()));
    case.figures.insert("answer_hash".to_owned(), json!(format!("{:016x}", hash.value())));
    Ok(())
}

/// How the queries stand to their scans, in a sentence.
fn finding(cases: &[Case]) -> Option<String> {
    let mut ratios: Vec<(f64, &str)> =
        cases.iter().filter_map(|case| Some((case.figure(OVER_SCAN)?, case.name.as_str()))).collect();
    ratios.sort_by(|a, b| b.0.total_cmp(&a.0));
    let values: Vec<f64> = ratios.iter().map(|(ratio, _)| *ratio).collect();
    let middle = amount(median(&values)?);
    let named = |(ratio, name): &(f64, &str)| format!("{name} {}", amount(*ratio));
    Some(match ratios.as_slice() {
        [(_, name)] => format!("{name} takes {middle} times what reading its columns takes."),
        several => format!(
            "A query takes {middle} times what reading its columns takes, the median of {}. The most: {} times.",
            several.len(),
            several.iter().take(3).map(named).collect::<Vec<_>>().join(", ")
        ),
    })
}

fn notes(cases: &[Case]) -> Vec<String> {
    let mut notes = vec![
        "reading a query's columns is MAX of each number and MAX(LEN) of each text, over all facts; the dimension of \
         the joins and of union is not read with them"
            .to_owned(),
        "GB/s are of whole pages, whatever columns are read, and of memory is against all cores".to_owned(),
        "some operators measure their time by the clock, so on a busy machine they can have more than the CPU time; \
         others record none: then theirs is missing, or in that of the operator below"
            .to_owned(),
    ];
    let times = cases.iter().flat_map(|case| [case.median("warm_s"), case.median("scan_s")]);
    if times.flatten().any(|time| time < SHORT_S) {
        notes.push("runs took less than 10 ms: more rows (--rows) give figures to rely on".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Measured;

    fn wanted(names: &[&str]) -> Result<Vec<Query>> {
        wanted_queries(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn queries_are_chosen_by_name_and_share_their_scans() {
        assert_eq!(wanted(&[]).expect("all").len(), 40);
        assert!(wanted(&["sort"]).expect_err("no such").to_string().contains("no case sort. Known are count, "));
        let two = wanted(&["group_int", "join_all"]).expect("two");
        let plans = plans(&two, 1_000);
        assert_eq!(plans.len(), 3, "both read the same columns");
        assert_eq!(plans[2].statement, "SELECT MAX(k), MAX(amount) FROM OperatorFact");
        assert_eq!(tables::scan_of(&["city", "u"]), "SELECT MAX(LEN(city)), MAX(u) FROM OperatorFact");
        assert_eq!(tables::scan_of(&[]), "SELECT COUNT(*) FROM OperatorFact");
    }

    #[test]
    fn a_query_has_the_figures_of_the_scan_of_its_columns() {
        let two = wanted(&["equal", "distinct_int"]).expect("two");
        let mut timed: Vec<Case> = plans(&two, 1_000)
            .into_iter()
            .map(|plan| Case { rows: plan.rows, ..Case::new(plan.name, plan.statement) })
            .collect();
        let run = |elapsed_s: f64| Measured { elapsed_s, logical_pages: 100, ..Measured::default() };
        for (case, seconds) in timed.iter_mut().zip([0.5, 2.0, 0.25, 0.1]) {
            case.add_warm(run(seconds));
        }
        let cases = beside_scans(&two, timed, 10.0);
        assert_eq!(cases.len(), 2);
        assert_eq!((cases[0].figure(OVER_SCAN), cases[1].figure(OVER_SCAN)), (Some(2.0), Some(20.0)));
        assert_eq!((cases[1].figure("rows_per_s"), cases[1].values("scan_s")), (Some(500.0), &[0.1][..]));
        let of_memory = cases[0].figure("of_memory_percent").expect("a figure");
        assert!((of_memory - 819_200.0 / 1e9 / 0.5 / 10.0 * 100.0).abs() < 1e-12, "{of_memory}");
        assert_eq!(
            finding(&cases).expect("two ratios"),
            "A query takes 11.0 times what reading its columns takes, the median of 2. The most: distinct_int 20.0, \
             equal 2.00 times."
        );
        assert_eq!(finding(&cases[..1]).expect("a ratio"), "equal takes 2.00 times what reading its columns takes.");
    }
}
