//! The experiment's tables: speed, ranges, partitions, the quadrant.

use serde_json::Value;

use super::functions::FUNCTIONS;
use super::speed::NS;
use super::spread::{EVEN, KEYS, PARTITIONS, case_name};
use crate::figures::{amount, median, thousands};
use crate::report::{Case, Grid};

const NONE: &str = "-";

fn case<'a>(cases: &'a [Case], name: &str) -> Option<&'a Case> {
    cases.iter().find(|case| case.name == name)
}

fn figure(cases: &[Case], name: &str, key: &str) -> Option<f64> {
    case(cases, name)?.figures.get(key).and_then(Value::as_f64)
}

fn shown(value: Option<f64>) -> String {
    // Negative if the scan took longer than a function that costs nothing.
    value.map_or_else(
        || NONE.to_owned(),
        |value| format!("{}{}", if value < 0.0 { "-" } else { "" }, amount(value.abs())),
    )
}

/// The first chart.
pub(super) fn speed(cases: &[Case]) -> Grid {
    let headers = ["function", "ns an int", "beyond no_hash", "ns a string", "beyond no_hash", "the text"];
    let mut grid = Grid::new("Nanoseconds a value, the scan subtracted, MAXDOP 1", &headers);
    grid.prose = vec![5];
    grid.least_wanted = vec![5, 4, 2];
    let ns = |name: String| case(cases, &name).and_then(|case| case.median(NS));
    let nothing = (ns("int_no_hash".to_owned()), ns("string_no_hash".to_owned()));
    let beyond = |value: Option<f64>, nothing: Option<f64>| shown(value.zip(nothing).map(|(value, base)| value - base));
    for function in &FUNCTIONS {
        let (int, string) = (ns(format!("int_{}", function.name)), ns(format!("string_{}", function.name)));
        if int.is_none() && string.is_none() {
            continue;
        }
        grid.rows.push(vec![
            function.name.to_owned(),
            shown(int),
            beyond(int, nothing.0),
            shown(string),
            beyond(string, nothing.1),
            function.text.unwrap_or(NONE).to_owned(),
        ]);
    }
    for name in ["loop_xxhash3", "loop_xxhash3_kept"] {
        let text = "no query: a loop over the crate".to_owned();
        let none = || NONE.to_owned();
        grid.rows.push(vec![name.to_owned(), shown(ns(name.to_owned())), none(), none(), none(), text]);
    }
    grid
}

/// The second chart.
pub(super) fn ranges(cases: &[Case], random: f64) -> Grid {
    let mut headers = vec!["function"];
    headers.extend(KEYS.iter().map(|(key, _)| *key));
    headers.push("ranges filled, at least");
    let mut grid = Grid::new(format!("Chi-square over 65,536 ranges, at most {} where even", amount(EVEN)), &headers);
    for function in FUNCTIONS.iter() {
        let of = |key: &str, what: &str| figure(cases, &case_name(function.name, key), what);
        if KEYS.iter().all(|(key, _)| of(key, "chi_square").is_none()) {
            continue;
        }
        let mut row = vec![function.name.to_owned()];
        row.extend(KEYS.iter().map(|(key, _)| shown(of(key, "chi_square"))));
        let filled = KEYS.iter().filter_map(|(key, _)| of(key, "ranges_filled")).min_by(f64::total_cmp);
        row.push(filled.map_or_else(|| NONE.to_owned(), |filled| thousands(filled as u64)));
        grid.rows.push(row);
    }
    let mut row = vec!["random numbers".to_owned(), amount(random)];
    row.resize(headers.len(), NONE.to_owned());
    grid.rows.push(row);
    grid
}

/// The ratio of the fullest partition to an even share, by key and number of partitions.
pub(super) fn partitions(cases: &[Case]) -> Grid {
    let mut headers = vec!["function".to_owned()];
    for (key, _) in KEYS {
        headers.extend(PARTITIONS.iter().map(|partitions| format!("{key}, {partitions}")));
    }
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let mut grid = Grid::new("The fullest partition over an even share, ABS(hash % partitions)", &headers);
    for function in FUNCTIONS.iter() {
        let mut row = vec![function.name.to_owned()];
        for (key, _) in KEYS {
            for partitions in PARTITIONS {
                let value =
                    figure(cases, &case_name(function.name, key), &format!("fullest_over_even_of_{partitions}"));
                row.push(value.map_or_else(|| NONE.to_owned(), |value| format!("{value:.3}")));
            }
        }
        if row[1..].iter().any(|cell| cell != NONE) {
            grid.rows.push(row);
        }
    }
    grid
}

/// The text's quadrant: fast is a tenth of MD5 or less, good is even for all keys.
pub(super) fn quadrant(timed: &[Case], spread: &[Case]) -> Grid {
    let mut grid = Grid::new("The quadrant: speed over ints, spread over all keys", &["function", "place", "because"]);
    grid.prose = vec![1, 2];
    let ns = |name: &str| case(timed, &format!("int_{name}")).and_then(|case| case.median(NS));
    let Some(fast) = ns("md5").map(|md5| md5 / 10.0) else { return grid };
    for function in FUNCTIONS.iter() {
        let chi = |key: &str| figure(spread, &case_name(function.name, key), "chi_square");
        let worst =
            KEYS.iter().filter_map(|(key, _)| chi(key).map(|chi| (chi, *key))).max_by(|a, b| a.0.total_cmp(&b.0));
        let (Some(speed), Some((chi, key))) = (ns(function.name), worst) else { continue };
        let place = match (speed <= fast, chi <= EVEN) {
            _ if speed < 0.0 => "not judged: the scan took longer",
            (true, true) => "leader: fast and even",
            (true, false) => "challenger: fast, uneven",
            (false, true) => "slow, even",
            (false, false) => "slow and uneven",
        };
        let because = format!("{} ns; chi-square {} on {key} keys", shown(Some(speed)), amount(chi));
        grid.rows.push(vec![function.name.to_owned(), place.to_owned(), because]);
    }
    grid
}

/// The contents of `sys.partitions` after the procedure.
pub(super) fn distributed(tables: &[(&str, u64, Vec<f64>)]) -> Grid {
    let headers = ["keys", "partitions", "rows, fewest", "rows, middle", "rows, most", "most over even"];
    let mut grid = Grid::new("sp_hobt_hash_distribute with hobt_xxhash3, by sys.partitions", &headers);
    for (key, partitions, rows) in tables {
        let (least, most) =
            rows.iter().fold((f64::MAX, 0.0_f64), |(least, most), rows| (least.min(*rows), most.max(*rows)));
        let even = rows.iter().sum::<f64>() / *partitions as f64;
        let whole = |value: f64| thousands(value.round() as u64);
        grid.rows.push(vec![
            (*key).to_owned(),
            partitions.to_string(),
            whole(least),
            whole(median(rows).unwrap_or(0.0)),
            whole(most),
            format!("{:.3}", most / even.max(1e-9)),
        ]);
    }
    grid
}
