//! Two reports of one experiment side by side: the ratios of their medians, case by case.

use std::path::Path;

use serde_json::Value;

use super::table::Grid;
use crate::error::{LabError, Result};
use crate::figures::{amount, median_interval, seconds};

/// Figures that are near zero in a good run, so that their ratios say nothing.
const WITHOUT_RATIO: [&str; 2] = ["unexplained_percent_repetitions", "warm_physical_reads"];

/// Reads two reports and prints the ratio, second over first, of every median that is in both, and between which values
/// it lies by the repetitions of both. Cases that are in only one are listed below.
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
    let mut grid = Grid::new(title, &["case", "figure", "first", "second", "ratio", "lies between"]);
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

/// A figure of a report: its value, and between which two values it lies.
struct Figure {
    value: f64,
    between: Option<(f64, f64)>,
}

impl Figure {
    fn lone(value: &Value) -> Option<Figure> {
        Some(Figure { value: value.as_f64()?, between: None })
    }

    /// The median of a case's repetitions. With six or more it lies in their interval of 95 %; with fewer, between the
    /// least and the greatest.
    fn median(case: &Value, key: &str) -> Option<Figure> {
        let value = case[format!("{key}_median").as_str()].as_f64()?;
        let repetitions = case[key].as_array().map(Vec::as_slice).unwrap_or_default();
        let values: Vec<f64> = repetitions.iter().filter_map(Value::as_f64).collect();
        let range = || {
            let least = values.iter().copied().reduce(f64::min)?;
            Some((least, values.iter().copied().reduce(f64::max)?)).filter(|_| values.len() > 1)
        };
        let between = median_interval(&values).map(|interval| (interval.low, interval.high)).or_else(range);
        Some(Figure { value, between })
    }
}

fn row(grid: &mut Grid, case: &str, name: &str, one: Option<Figure>, other: Option<Figure>) {
    if let (Some(one), Some(other)) = (one, other)
        && one.value > 0.0
    {
        // Rates end in `_mb_s` and `_gb_s`.
        let is_time = name.ends_with("_s") && !name.ends_with("b_s");
        let shown = if is_time { seconds } else { amount };
        let ratio = format!("{:.3}", other.value / one.value);
        let between = one.between.zip(other.between).filter(|(one, _)| one.0 > 0.0);
        let between = between
            .map_or_else(|| "-".to_owned(), |(one, other)| format!("{:.3} to {:.3}", other.0 / one.1, other.1 / one.0));
        grid.rows.push(vec![case.to_owned(), name.to_owned(), shown(one.value), shown(other.value), ratio, between]);
    }
}

fn limits(one: &Value, other: &Value, grid: &mut Grid) {
    for key in ["disk_read_mb_s", "memory_read_gb_s_1_core", "memory_read_gb_s_all_cores"] {
        let of = |report: &Value| Figure::lone(&report["limits"][key]);
        row(grid, "the machine", key, of(one), of(other));
    }
}

fn medians(name: &str, case: &Value, twin: &Value, grid: &mut Grid) {
    let Some(object) = case.as_object() else { return };
    let figures = object.keys().filter_map(|key| key.strip_suffix("_median"));
    for figure in figures.filter(|figure| !WITHOUT_RATIO.contains(figure)) {
        row(grid, name, figure, Figure::median(case, figure), Figure::median(twin, figure));
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
    fn a_ratio_lies_between_what_the_repetitions_allow_and_noise_has_none() {
        let report = |times: &str, median: f64| {
            format!(
                r#"{{"experiment":"scan","cases":[{{"name":"a","cold_s":{times},"cold_s_median":{median},
                "unexplained_percent_repetitions_median":-0.3}}]}}"#
            )
        };
        let (one, other) =
            (file("few", &report("[1.0, 2.0, 4.0]", 2.0)), file("more", &report("[2.0, 3.0, 8.0]", 3.0)));
        let text = compare(&one, &other).expect("both are reports");
        assert!(text.contains("1.500") && text.contains("0.500 to 8.000"), "{text}");
        assert!(!text.contains("unexplained"), "{text}");
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
