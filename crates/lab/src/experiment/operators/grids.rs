//! The experiment's tables.

use std::collections::BTreeMap;

use super::shown::Work;
use crate::figures::{amount, seconds};
use crate::report::{Case, Grid};

/// The figure with the ratio of a query's time to that of its scan.
pub(super) const OVER_SCAN: &str = "over_scan";
/// Operators below this share of the time, in percent, are not named.
const NAMED_PERCENT: f64 = 1.0;

/// Each query beside the scan of its columns and the memory.
pub(super) fn beside_scans(cases: &[Case]) -> Grid {
    let headers = ["query", "query / reading", "query takes", "reading takes", "million rows/s", "GB/s", "of memory"];
    let mut grid = Grid::new("Each query against reading its columns", &headers);
    grid.least_wanted = vec![4, 5];
    for case in cases {
        let time = |key: &str| case.median(key).map_or_else(|| "-".to_owned(), seconds);
        let shown = |key: &str, of: f64| case.figure(key).map_or_else(|| "-".to_owned(), |value| amount(value / of));
        grid.rows.push(vec![
            case.name.clone(),
            shown(OVER_SCAN, 1.0),
            time("warm_s"),
            time("scan_s"),
            shown("rows_per_s", 1e6),
            shown("pages_gb_s", 1.0),
            format!("{} %", shown("of_memory_percent", 1.0)),
        ]);
    }
    grid
}

/// The operators of each query, from the one that takes most.
pub(super) fn by_query(cases: &[Case], work: &[Work]) -> Grid {
    let title = "Where the CPU time of a run goes by its plan, in percent";
    let headers = ["query", "planning", "operators", "which operators", "without time"];
    let mut grid = Grid::new(title, &headers);
    grid.prose = vec![3, 4];
    for (case, work) in cases.iter().zip(work) {
        let named = work.operators.iter().map(|operator| (operator.full_name(), work.percent(operator.time_s)));
        let cell = |(name, percent): (String, f64)| format!("{name} {percent:.0}");
        let operators: Vec<String> = longest(named).into_iter().map(cell).collect();
        grid.rows.push(vec![
            case.name.clone(),
            format!("{:.0}", work.percent(work.planning_s)),
            format!("{:.0}", work.explained_percent()),
            operators.join(", "),
            work.untimed().join(", "),
        ]);
    }
    grid
}

/// The operators of all queries together.
pub(super) fn by_operator(work: &[Work]) -> Grid {
    let mut grid = Grid::new("All queries together, by operator", &["operator", "time", "percent", "queries"]);
    let whole: f64 = work.iter().map(|work| work.cpu_s).sum();
    // Where the clock counted too much in one query, what is missing in another is missing nevertheless.
    let missing = work.iter().map(|work| work.cpu_s - work.planning_s - work.operators_s()).filter(|time| *time > 0.0);
    let missing: f64 = missing.sum();
    let all = work.iter().flat_map(|work| &work.operators).map(|operator| (operator.name.clone(), operator.time_s));
    let mut times: Vec<(String, f64)> = summed(all).into_iter().collect();
    times.sort_by(|a, b| b.1.total_cmp(&a.1));
    let planning: f64 = work.iter().map(|work| work.planning_s).sum();
    let percent = |time: f64| format!("{:.1}", time / whole.max(1e-9) * 100.0);
    for (name, time) in times.into_iter().filter(|(_, time)| *time > 0.0) {
        let has = |work: &&Work| work.operators.iter().any(|operator| operator.name == name);
        let queries = work.iter().filter(has).count();
        grid.rows.push(vec![name, seconds(time), percent(time), queries.to_string()]);
    }
    for (name, time) in [("planning", planning), ("neither of these", missing)] {
        grid.rows.push(vec![name.to_owned(), seconds(time), percent(time), work.len().to_string()]);
    }
    grid
}

/// The times of equal names, added up.
fn summed(times: impl Iterator<Item = (String, f64)>) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    for (name, time) in times {
        *sums.entry(name).or_default() += time;
    }
    sums
}

/// The shares of equal names together, those worth naming, from the longest.
fn longest(shares: impl Iterator<Item = (String, f64)>) -> Vec<(String, f64)> {
    let mut named: Vec<(String, f64)> = summed(shares).into_iter().collect();
    named.retain(|(_, percent)| *percent >= NAMED_PERCENT);
    named.sort_by(|a, b| b.1.total_cmp(&a.1));
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_of_one_name_count_together_and_the_longest_comes_first() {
        let shares = [("Sort", 10.0), ("Table Scan", 30.0), ("Filter", 0.4), ("Sort", 25.0)];
        let named = longest(shares.into_iter().map(|(name, share)| (name.to_owned(), share)));
        assert_eq!(named, [("Sort".to_owned(), 35.0), ("Table Scan".to_owned(), 30.0)]);
    }
}
