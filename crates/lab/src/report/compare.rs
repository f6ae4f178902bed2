//! Two reports of one experiment side by side: the ratios of their medians, case by case.

use std::path::Path;

use serde_json::Value;

use super::table::Grid;
use crate::error::{LabError, Result};
use crate::figures::{amount, seconds};

/// Reads two reports and prints the ratio, second over first, of every median that is in both. Cases that are in only
/// one are listed below.
///
/// # Errors
/// If a file cannot be read, is not a report, or the reports are of different experiments.
pub fn compare(first: &Path, second: &Path) -> Result<String> {
    let (one, other) = (read(first)?, read(second)?);
    let name = |report: &Value| report["experiment"].as_str().unwrap_or_default().to_owned();
    if name(&one) != name(&other) {
        return Err(LabError::Input(format!(
            "{} is of the experiment {} and {} of {}: only runs of one experiment can be compared",
            first.display(),
            name(&one),
            second.display(),
            name(&other)
        )));
    }
    let title = format!("{}: {} against {}", name(&one), second.display(), first.display());
    let mut grid = Grid::new(title, &["case", "figure", "first", "second", "ratio"]);
    // The two figures are left out before the ratio.
    grid.least_wanted = vec![2, 3];
    let (cases, others) = (cases(&one), cases(&other));
    let mut alone = Vec::new();
    limits(&one, &other, &mut grid);
    for (name, case) in &cases {
        match others.iter().find(|(it, _)| it == name) {
            Some((_, twin)) => medians(name, case, twin, &mut grid),
            None => alone.push(format!("only in the first: {name}\n")),
        }
    }
    let missing = others.iter().filter(|(name, _)| !cases.iter().any(|(it, _)| it == name));
    alone.extend(missing.map(|(name, _)| format!("only in the second: {name}\n")));
    Ok(grid.to_text() + &alone.concat() + &warnings(&one, &other))
}

fn read(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).map_err(LabError::io(format!("reading {}", path.display())))?;
    let report: Value =
        serde_json::from_str(&text).map_err(|error| LabError::file(path, error.line(), error.to_string()))?;
    if report["experiment"].is_string() && report["cases"].is_array() {
        return Ok(report);
    }
    Err(LabError::file(path, 1, "this is no report: it has no \"experiment\" or no \"cases\""))
}

fn cases(report: &Value) -> Vec<(String, &Value)> {
    let cases = report["cases"].as_array().map(Vec::as_slice).unwrap_or_default();
    cases.iter().filter_map(|case| Some((case["name"].as_str()?.to_owned(), case))).collect()
}

fn row(grid: &mut Grid, case: &str, figure: &str, one: Option<f64>, other: Option<f64>) {
    if let (Some(one), Some(other)) = (one, other)
        && one > 0.0
    {
        // Rates end in `_mb_s` and `_gb_s`.
        let is_time = figure.ends_with("_s") && !figure.ends_with("b_s");
        let shown = if is_time { seconds } else { amount };
        let ratio = format!("{:.3}", other / one);
        grid.rows.push(vec![case.to_owned(), figure.to_owned(), shown(one), shown(other), ratio]);
    }
}

fn limits(one: &Value, other: &Value, grid: &mut Grid) {
    for key in ["disk_read_mb_s", "memory_read_gb_s_1_core", "memory_read_gb_s_all_cores"] {
        row(grid, "the machine", key, one["limits"][key].as_f64(), other["limits"][key].as_f64());
    }
}

fn medians(name: &str, case: &Value, twin: &Value, grid: &mut Grid) {
    let Some(object) = case.as_object() else { return };
    for (key, value) in object {
        if let Some(figure) = key.strip_suffix("_median") {
            row(grid, name, figure, value.as_f64(), twin[key].as_f64());
        }
    }
}

/// Reasons to doubt the comparison.
fn warnings(one: &Value, other: &Value) -> String {
    let mut text = String::new();
    for report in [one, other] {
        if report["machine"]["build"] == "debug" {
            text.push_str("note: a report is of a debug build, whose times say nothing\n");
        }
    }
    if one["settings"]["rows"] != other["settings"]["rows"] {
        text.push_str("note: the runs had different numbers of rows: compare rates, not times\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("hobt-compare-{}-{name}.json", std::process::id()));
        std::fs::write(&path, text).expect("a temporary file");
        path
    }

    #[test]
    fn ratios_are_of_medians_and_lone_cases_are_named() {
        let one = file("one", r#"{"experiment":"scan","cases":[{"name":"a","cold_s_median":2.0},{"name":"b"}]}"#);
        let other = file("other", r#"{"experiment":"scan","cases":[{"name":"a","cold_s_median":3.0},{"name":"c"}]}"#);
        let text = compare(&one, &other).expect("both are reports");
        assert!(text.contains("1.500") && text.contains("only in the first: b"), "{text}");
        assert!(text.contains("only in the second: c"), "{text}");
        for path in [one, other] {
            std::fs::remove_file(path).expect("removed");
        }
    }

    #[test]
    fn short_times_are_milliseconds_and_rates_are_not() {
        let report = |time: f64| {
            format!(
                r#"{{"experiment":"scan","limits":{{"disk_read_mb_s":0.5}},
                "cases":[{{"name":"a","warm_s_median":{time},"cold_mb_s_median":0.25}}]}}"#
            )
        };
        let (one, other) = (file("short", &report(0.0042)), file("long", &report(2.1)));
        let text = compare(&one, &other).expect("both are reports");
        for wanted in ["4.20 ms", "2.100 s", " 0.50 ", " 0.25 ", " 500.000 "] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        for path in [one, other] {
            std::fs::remove_file(path).expect("removed");
        }
    }

    #[test]
    fn what_is_no_report_is_refused_with_its_place() {
        let good = file("good", r#"{"experiment":"scan","cases":[]}"#);
        for (name, text) in [("broken", "{\n\"a\": }"), ("other", "{}"), ("twin", r#"{"experiment":"io","cases":[]}"#)]
        {
            let bad = file(name, text);
            assert!(compare(&good, &bad).is_err(), "{name}");
            std::fs::remove_file(bad).expect("removed");
        }
        assert!(compare(&good, Path::new("/nowhere/there.json")).is_err());
        std::fs::remove_file(good).expect("removed");
    }
}
