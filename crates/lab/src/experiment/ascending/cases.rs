//! The cases: which statistics, which day, and what is run before and after.

use serde_json::json;

use super::shown::ShownPlan;
use super::tables::{FIRST_DAY, NEW_DAY, OLD, OWN, Years, pages_of, query, stream_of};
use crate::error::{LabError, Result};
use crate::figures::median;
use crate::laboratory::Laboratory;
use crate::measure::{measure, measure_warm};
use crate::report::Case;

/// Warm runs of a case in a round.
const RUNS: usize = 3;

/// A case's query and its environment.
pub(super) struct Asked {
    pub(super) years: Years,
    database: &'static str,
    day: u64,
    /// Batches that create its statistics, and batches that restore the previous state.
    begin: Vec<String>,
    end: Vec<String>,
}

/// The names of the cases, without their years.
pub(super) const FRESH: &str = "fresh";
pub(super) const STALE: &str = "stale_2008";
pub(super) const OWN_CASE: &str = "self_maintained";

/// All cases, with what is timed. The session's database is the one with old statistics. The streams are those of its
/// tables.
///
/// # Errors
/// If the statistics cannot be read.
pub(super) fn all(lab: &mut Laboratory, rows: u64) -> Result<Vec<(Asked, Case)>> {
    let implant = stream_of(lab, "implant")?;
    let mut cases = Vec::new();
    for years in Years::BOTH {
        let fact = years.fact();
        let (own, pages) = (stream_of(lab, fact)?, pages_of(lab, fact)?);
        let with = |what: String| format!("UPDATE STATISTICS dbo.{fact} by_day WITH {what}");
        let stream = |stream: &str| with(format!("STATS_STREAM = {stream}"));
        let none = || (Vec::new(), Vec::new());
        let flag = (vec!["DBCC TRACEON (2389)".to_owned()], vec!["DBCC TRACEOFF (2389)".to_owned()]);
        let transplant = (
            vec![stream(&implant), with("PAGECOUNT = 200000000".to_owned())],
            vec![stream(&own), with(format!("PAGECOUNT = {pages}"))],
        );
        for (name, database, day, (begin, end)) in [
            (FRESH, OLD, FIRST_DAY, none()),
            (STALE, OLD, NEW_DAY, none()),
            ("tf2389", OLD, NEW_DAY, flag),
            ("transplant", OLD, NEW_DAY, transplant),
            (OWN_CASE, OWN, NEW_DAY, none()),
        ] {
            let case = Case { rows, ..Case::new(years.case(name), query(years, day)) };
            cases.push((Asked { years, database, day, begin, end }, case));
        }
    }
    Ok(cases)
}

impl Asked {
    /// Runs the query in its database, and adds the result to the case. The answer is the query's only row.
    ///
    /// # Errors
    /// If a statement failed, or the engine shows no plan.
    pub(super) fn run(&self, lab: &mut Laboratory, case: &mut Case) -> Result<Vec<Option<String>>> {
        lab.run(&format!("USE [{}]", self.database))?;
        let begun = self.begin.iter().try_for_each(|batch| lab.run(batch).map(|_| ()));
        let ran = begun.and_then(|()| self.measure(lab, case));
        // Restores the state that this case has found for the next one, even if this one has failed.
        let ended = self.end.iter().try_for_each(|batch| lab.run(batch).map(|_| ()));
        let answer = ran?;
        ended?;
        Ok(answer)
    }

    fn measure(&self, lab: &mut Laboratory, case: &mut Case) -> Result<Vec<Option<String>>> {
        let statement = query(self.years, self.day);
        let plan = plan_of(lab, &statement)?;
        let mut times = Vec::with_capacity(RUNS);
        let mut answer = measure_warm(lab, &statement)?.answer;
        for _ in 0..RUNS {
            let measured = measure(lab, &statement)?;
            times.push(measured.elapsed_s);
            answer.clone_from(&measured.answer);
            case.add_warm(measured);
        }
        case.push("warm_of_round_s", median(&times).unwrap_or(f64::NAN));
        let actual = rows_read(lab, self.years.fact())?;
        self.note_plan(case, &plan, actual)?;
        Ok(answer)
    }

    /// Adds the engine's description of the plan to the case.
    fn note_plan(&self, case: &mut Case, plan: &ShownPlan, actual: u64) -> Result<()> {
        let fact = self.years.fact();
        let wrong = |what: &str| LabError::Wrong(format!("the plan of {} {what}", case.name));
        let read = plan.read_of(fact).ok_or_else(|| wrong("does not read the fact table"))?;
        let join = plan.join().ok_or_else(|| wrong("does not join"))?;
        let operators: Vec<&str> = plan.operators.iter().map(|operator| operator.physical.as_str()).collect();
        let figures = [
            ("estimated_rows", json!(read.estimated_rows)),
            ("actual_rows", json!(actual)),
            ("plan", json!(join)),
            ("operators", json!(operators)),
        ];
        for (key, value) in figures {
            let before = case.figures.insert(key.to_owned(), value.clone());
            if before.is_some_and(|before| before != value) {
                case.note(format!("{key} was not the same in each round"));
            }
        }
        Ok(())
    }
}

/// The plan of a statement that has run.
fn plan_of(lab: &mut Laboratory, statement: &str) -> Result<ShownPlan> {
    let answer = lab.run(&format!("SET STATISTICS XML ON; {statement}; SET STATISTICS XML OFF"))?;
    let rows = answer.rows();
    let xml = rows.first().and_then(|row| row.first().cloned().flatten()).unwrap_or_default();
    Ok(ShownPlan::of(&xml))
}

/// Rows of a table that the session's last statement has read.
fn rows_read(lab: &mut Laboratory, table: &str) -> Result<u64> {
    let answer = lab.run(&format!(
        "SELECT SUM(actual_read_row_count) FROM sys.dm_exec_query_profiles \
         WHERE session_id = @@SPID AND object_id = OBJECT_ID('dbo.{table}')"
    ))?;
    answer.count().ok_or_else(|| LabError::Wrong(format!("nobody says how many rows of {table} were read")))
}
