//! `ascending`: the cost of a star query on the day that was loaded last night, depending on what the statistics know
//! about it, and the cost of loading a day with maintained statistics.

mod cases;
mod shown;
mod tables;

use serde_json::{Map, json};

use super::Experiment;
use crate::error::{LabError, Result};
use crate::figures::{amount, median, median_interval, seconds, thousands};
use crate::laboratory::Laboratory;
use crate::limits::LimitSettings;
use crate::measure::measure;
use crate::report::{Case, Grid, Mark, Report, SHORT_S, too_few_rows, too_short};
use cases::{FRESH, OWN_CASE, STALE};
use tables::{CUSTOMERS, DAYS, FREE_DAY, FREE_PARTITION, OLD, OWN, Years, build, build_implant, load};

pub(super) struct AscendingExperiment;

/// Rows of a day in the text.
const WANTED_ROWS: u64 = 524_790;
/// Below this many rows per day, starting and planning a query take longer than its joins.
const ROWS_MIN: u64 = 100_000;
/// Below this many seconds, the end of a load takes longer than its rows.
const LOAD_S_MIN: f64 = 0.1;
/// Approximate bytes of a row of the fact table on its page.
const ROW_BYTES: u64 = 120;
/// Days on disk for each day that a query reads: two tables in each of two databases.
const DAYS_ON_DISK: u64 = 4 * (DAYS + 2);
/// Pairs of loads per round.
const LOADS: usize = 4;
const LOAD_OWN: &str = "load_maintained";
const LOAD_OLD: &str = "load_unmaintained";

/// How far an estimate from maintained statistics, and the query's time, may be off; how much slower the old plan must
/// be, so that the experiment can fail; and the allowed cost of maintaining statistics.
const ESTIMATE_OFF: f64 = 1.1;
const OWN_OVER_FRESH: f64 = 1.1;
const STALE_OVER_FRESH: f64 = 5.0;
const LOAD_COST: f64 = 1.03;

impl Experiment for AscendingExperiment {
    fn name(&self) -> &'static str {
        "ascending"
    }

    fn question(&self) -> &'static str {
        "What does a star query cost on the day that was loaded last night, by what the statistics know of it, and what \
         does it cost to keep them?"
    }

    fn run(&self, lab: &mut Laboratory) -> Result<Report> {
        let rows = lab.rows_for(WANTED_ROWS, ROW_BYTES, DAYS_ON_DISK)?;
        let repeat = lab.options().repeat.max(1);
        let home = lab.database()?.name().to_owned();
        let steps = 2 + repeat * (5 * Years::BOTH.len() + LOADS);
        lab.progress().expect(LimitSettings::steps_beside() + steps as u64);
        let ran = self.measure(lab, rows, repeat);
        let drop = format!("USE [{home}]; DROP DATABASE IF EXISTS [{OLD}]; DROP DATABASE IF EXISTS [{OWN}]");
        let left = lab.run(&drop);
        let report = ran?;
        left?;
        Ok(report)
    }
}

impl AscendingExperiment {
    fn measure(&self, lab: &mut Laboratory, rows: u64, repeat: usize) -> Result<Report> {
        let limits = lab.limits(rows * ROW_BYTES)?;
        let shown = thousands(rows);
        lab.progress().step(&format!("building {OWN}, {shown} rows a day"));
        build(lab, (OWN, rows), &[], &|_| Vec::new())?;
        lab.progress().step(&format!("building {OLD}, {shown} rows a day"));
        let options =
            format!("ALTER DATABASE [{OLD}] SET HOBT_STATISTICS_MAINTENANCE = OFF, AUTO_UPDATE_STATISTICS OFF");
        let updates = |years: Years| {
            let update = |table: &str| format!("UPDATE STATISTICS dbo.{table} WITH FULLSCAN");
            vec![update(years.fact()), update("customer")]
        };
        build(lab, (OLD, rows), &[options], &updates)?;
        build_implant(lab)?;
        let mut asked = cases::all(lab, rows)?;
        let mut loads = [LOAD_OWN, LOAD_OLD].map(|name| Case { rows, ..Case::new(name, load(Years::Agree, FREE_DAY)) });
        let mut first: Option<Vec<Option<String>>> = None;
        for round in 0..repeat {
            let mut order: Vec<usize> = (0..asked.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for place in order {
                let (asked, case) = &mut asked[place];
                lab.progress().step(&format!("{}, {} of {repeat}", case.name, round + 1));
                let answer = asked.run(lab, case)?;
                // All days have the same rows.
                let known = first.get_or_insert_with(|| answer.clone());
                if *known != answer {
                    return Err(LabError::Wrong(format!("{} answered {answer:?}, others {known:?}", case.name)));
                }
            }
            for pair in 0..LOADS {
                lab.progress().step(&format!("a day is loaded, {} of {}", round * LOADS + pair + 1, repeat * LOADS));
                load_pair(lab, &mut loads, (round + pair) % 2 == 1)?;
            }
        }
        let cases: Vec<Case> = asked.into_iter().map(|(_, case)| case).chain(loads).collect();
        let mut settings = Map::new();
        for (key, value) in [("rows", rows), ("days", DAYS), ("customers", CUSTOMERS), ("repeat", repeat as u64)] {
            settings.insert(key.to_owned(), json!(value));
        }
        Ok(Report {
            notes: notes(&cases),
            tables: vec![plan_grid(&cases)],
            marks: marks(&cases),
            cases,
            ..self.report(lab, limits, settings)
        })
    }
}

/// Loads a day with and without maintained statistics, in one order or the other, and removes it again.
fn load_pair(lab: &mut Laboratory, [own, old]: &mut [Case; 2], old_first: bool) -> Result<()> {
    let mut one = |database: &str, case: &mut Case| -> Result<()> {
        lab.run(&format!("USE [{database}]"))?;
        lab.run("CHECKPOINT")?;
        let measured = measure(lab, &load(Years::Agree, FREE_DAY))?;
        case.push("load_cpu_s", measured.cpu_s);
        case.add_warm(measured);
        let fact = Years::Agree.fact();
        lab.run(&format!("TRUNCATE TABLE dbo.{fact} WITH (PARTITIONS ({FREE_PARTITION}))")).map(|_| ())
    };
    if old_first {
        one(OLD, old)?;
        return one(OWN, own);
    }
    one(OWN, own)?;
    one(OLD, old)
}

fn case_of<'c>(cases: &'c [Case], name: &str) -> Option<&'c Case> {
    cases.iter().find(|case| case.name == name)
}

fn figure(case: &Case, key: &str) -> Option<f64> {
    case.figures.get(key)?.as_f64()
}

fn plan(case: &Case) -> Option<&str> {
    case.figures.get("plan")?.as_str()
}

/// The ratio of one case's times to another's, for each round.
fn ratios(cases: &[Case], (name, other): (&str, &str), series: &str) -> Vec<f64> {
    let values = |name| case_of(cases, name).map_or(&[][..], |case| case.values(series));
    values(name).iter().zip(values(other)).map(|(one, other)| one / other.max(1e-9)).collect()
}

fn notes(cases: &[Case]) -> Vec<String> {
    let is_short = cases.iter().filter_map(|case| case.median("warm_s")).any(|warm| warm < SHORT_S);
    let short = "runs took less than 10 ms: more rows a day (--rows) give figures to rely on";
    is_short.then(|| short.to_owned()).into_iter().collect()
}

fn plan_grid(cases: &[Case]) -> Grid {
    let headers = ["case", "estimated rows", "actual rows", "plan", "workers", "warm", "over fresh"];
    let mut grid = Grid::new("By what is known of the day", &headers);
    for years in Years::BOTH {
        let fresh = years.case(FRESH);
        for case in cases.iter().filter(|case| case.statement.contains(&format!("dbo.{} ", years.fact()))) {
            let Some(plan) = plan(case) else { continue };
            let rows = |key| figure(case, key).map_or_else(|| "-".to_owned(), |rows| thousands(rows.round() as u64));
            let over = median(&ratios(cases, (&case.name, &fresh), "warm_of_round_s"));
            grid.rows.push(vec![
                case.name.clone(),
                rows("estimated_rows"),
                rows("actual_rows"),
                plan.to_owned(),
                case.main().last.workers.to_string(),
                case.median("warm_s").map_or_else(|| "-".to_owned(), seconds),
                over.map_or_else(|| "-".to_owned(), amount),
            ]);
        }
    }
    grid
}

fn marks(cases: &[Case]) -> Vec<Mark> {
    let mut marks = Vec::new();
    for years in Years::BOTH {
        let (fresh, stale, own) = (years.case(FRESH), years.case(STALE), years.case(OWN_CASE));
        let (Some(of_fresh), Some(of_own)) = (case_of(cases, &fresh), case_of(cases, &own)) else { continue };
        let few = too_few_rows(of_fresh.rows, ROWS_MIN);
        let short = few.clone().or_else(|| too_short(of_fresh.median("warm_s")?, SHORT_S));
        let mut add = |name: String, values: &[f64], (bound, at_least, too_small): (f64, bool, &Option<String>)| {
            let too_small = too_small.clone();
            marks.extend(median(values).map(|value| {
                let interval = median_interval(values);
                Mark { name, value, bound, at_least, of: None, too_small, interval }
            }));
        };
        let estimate = figure(of_own, "estimated_rows").zip(figure(of_own, "actual_rows"));
        let off = estimate.map(|(expected, actual)| (expected / actual).max(actual / expected));
        let off: Vec<f64> = off.into_iter().collect();
        add(format!("{own}: estimate over truth, or the other way"), &off, (ESTIMATE_OFF, false, &few));
        let is_same = plan(of_own).is_some() && plan(of_own) == plan(of_fresh);
        add(format!("{own} has the plan of {fresh}"), &[f64::from(u8::from(is_same))], (1.0, true, &few));
        let times = ratios(cases, (&own, &fresh), "warm_of_round_s");
        add(format!("{own} over {fresh}"), &times, (OWN_OVER_FRESH, false, &short));
        let times = ratios(cases, (&stale, &fresh), "warm_of_round_s");
        add(format!("{stale} over {fresh}"), &times, (STALE_OVER_FRESH, true, &short));
    }
    let loads = ratios(cases, (LOAD_OWN, LOAD_OLD), "load_cpu_s");
    marks.extend(median(&loads).map(|value| Mark {
        name: "CPU of a load with statistics kept over without".to_owned(),
        value,
        bound: LOAD_COST,
        at_least: false,
        of: None,
        too_small: case_of(cases, LOAD_OLD).and_then(|case| {
            too_few_rows(case.rows, ROWS_MIN).or_else(|| too_short(case.median("warm_s")?, LOAD_S_MIN))
        }),
        interval: median_interval(&loads),
    }));
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str, rounds: &[f64], plan: &str, estimated: f64) -> Case {
        let mut case = Case::new(name, "SELECT 1");
        rounds.iter().for_each(|time| case.push("warm_of_round_s", *time));
        case.figures.insert("plan".to_owned(), json!(plan));
        case.figures.insert("estimated_rows".to_owned(), json!(estimated));
        case.figures.insert("actual_rows".to_owned(), json!(1000));
        case
    }

    #[test]
    fn the_marks_can_fail() {
        let good = [
            case(FRESH, &[1.0, 2.0, 4.0], "hash join", 1000.0),
            case(STALE, &[6.0, 20.0, 24.0], "nested loops", 1.0),
            case(OWN_CASE, &[1.0, 2.1, 4.0], "hash join", 950.0),
        ];
        let found = marks(&good);
        assert_eq!(found.iter().map(|mark| mark.value).collect::<Vec<_>>(), [1000.0 / 950.0, 1.0, 1.0, 6.0]);
        assert!(found.iter().all(Mark::is_reached));
        let bad = [
            case(FRESH, &[1.0], "hash join", 1000.0),
            case(STALE, &[1.0], "hash join", 1000.0),
            case(OWN_CASE, &[1.2], "nested loops", 1.0),
        ];
        assert!(marks(&bad).iter().all(|mark| !mark.is_reached()));
    }
}
