//! The results of an experiment: as a table, as JSON, as a page.

mod case;
mod chart;
mod compare;
mod html;
mod table;

use serde_json::{Map, Value, json};

use crate::figures::{MedianInterval, amount, seconds, thousands};
use crate::limits::Limits;
use crate::machine::Machine;
pub use case::Case;
pub(crate) use case::{Condition, SHORT_S};
pub use compare::compare;
pub use table::{Grid, terminal_width};

/// Why a mark is not judged, if its experiment had fewer rows than needed.
pub(crate) fn too_few_rows(rows: u64, needed: u64) -> Option<String> {
    (rows < needed).then(|| format!("{} rows, needs {}", thousands(rows), thousands(needed)))
}

/// Why a mark is not judged, if the runs took less time than needed for a judgement.
pub(crate) fn too_short(taken_s: f64, needed_s: f64) -> Option<String> {
    (taken_s < needed_s).then(|| format!("runs of {}, needs {}", seconds(taken_s), seconds(needed_s)))
}

/// A figure with a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Its name.
    pub name: String,
    /// The measured value.
    pub value: f64,
    /// The target.
    pub aim: f64,
    /// Whether the value must be at least the target, or at most.
    pub at_least: bool,
    /// If the value is one of many: its case and run.
    pub of: Option<String>,
    /// If too little was measured for a judgement: what was measured, and what is needed.
    pub too_small: Option<String>,
    /// If the value is a median: the number of measurements, and the two between which the true median lies with a
    /// confidence of 95 %.
    pub interval: Option<MedianInterval>,
}

impl Mark {
    /// Whether the value reaches the target.
    pub fn is_reached(&self) -> bool {
        if self.at_least { self.value >= self.aim } else { self.value <= self.aim }
    }

    /// Whether the mark is met. `None` if that is not known: too little was measured, or the target lies inside the
    /// interval of the true median.
    pub fn is_met(&self) -> Option<bool> {
        match self.is_reached() {
            _ if self.too_small.is_some() => None,
            _ if self.interval.is_some_and(|interval| interval.low < self.aim && self.aim < interval.high) => None,
            reached => Some(reached),
        }
    }
}

/// The results of an experiment.
#[derive(Clone, Debug)]
pub struct Report {
    /// The experiment's name.
    pub experiment: String,
    /// Its question.
    pub question: String,
    /// The machine that it ran on.
    pub machine: Machine,
    /// That machine's limits.
    pub limits: Limits,
    /// The settings of the run.
    pub settings: Map<String, Value>,
    /// Whether its cases are compared by bytes per second instead of time.
    pub compares_rates: bool,
    /// The cases.
    pub cases: Vec<Case>,
    /// Figures with targets.
    pub marks: Vec<Mark>,
    /// Tables in addition to that of all cases.
    pub tables: Vec<Grid>,
    /// Notes that a reader must know.
    pub notes: Vec<String>,
}

impl Report {
    /// The report as one JSON object.
    pub fn to_json(&self) -> Value {
        let marks: Vec<Value> = self
            .marks
            .iter()
            .map(|mark| {
                let aim = if mark.at_least { "at_least" } else { "at_most" };
                let mut object = json!({ "name": mark.name, "value": mark.value, aim: mark.aim, "met": mark.is_met() });
                if let Some(of) = &mark.of {
                    object["of"] = json!(of);
                }
                if let Some(why) = &mark.too_small {
                    object["not_judged"] = json!(why);
                }
                if let Some(interval) = mark.interval {
                    object["measurements"] = json!(interval.count);
                    object["interval_95_percent"] = json!([interval.low, interval.high]);
                }
                object
            })
            .collect();
        json!({
            "experiment": self.experiment,
            "question": self.question,
            "machine": self.machine,
            "limits": self.limits,
            "settings": self.settings,
            "cases": self.cases.iter().map(Case::to_json).collect::<Vec<_>>(),
            "marks": marks,
            "notes": self.notes,
        })
    }

    /// The report as a self-contained page.
    pub fn to_html(&self) -> String {
        html::page(self)
    }

    /// The report for a terminal: question, tables, limits, marks, notes.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}: {}\n\n", self.experiment, self.question);
        for grid in self.grids() {
            text.push_str(&grid.to_text());
            text.push('\n');
        }
        text.push_str(&self.limits_line());
        for mark in &self.marks {
            text.push_str(&format!("mark: {}\n", mark_text(mark)));
        }
        let case_notes =
            self.cases.iter().flat_map(|case| case.notes.iter().map(|note| format!("{}: {note}", case.name)));
        for note in self.notes.iter().cloned().chain(case_notes) {
            text.push_str(&format!("note: {note}\n"));
        }
        text
    }

    /// All tables. That of the cases comes first if there are timed cases.
    pub(crate) fn grids(&self) -> Vec<Grid> {
        let timed = self.cases.iter().any(|case| case.main().count() > 0);
        let cases = timed.then(|| self.case_grid());
        cases.into_iter().chain(self.text_grid()).chain(self.tables.iter().cloned()).collect()
    }

    /// The results in the texts, compared with the results here. `None` if the texts have none.
    fn text_grid(&self) -> Option<Grid> {
        let mut grid = Grid::new("What the texts found", &["case", "here, cold", "the text"]);
        grid.prose = vec![2];
        grid.least_wanted = vec![1];
        for case in &self.cases {
            let Some(text) = case.text else { continue };
            let here = match (case.median("cold_s"), case.median("cold_mb_s")) {
                (Some(time), Some(rate)) => format!("{}, {} MB/s", seconds(time), amount(rate)),
                _ => "-".to_owned(),
            };
            grid.rows.push(vec![case.name.clone(), here, text.to_owned()]);
        }
        (!grid.rows.is_empty()).then_some(grid)
    }

    /// The table of all cases.
    fn case_grid(&self) -> Grid {
        let headers = [
            "case",
            "rows",
            "MB",
            "cold",
            "cold MB/s",
            "of the disk",
            "warm",
            "warm GB/s",
            "CPU",
            "longest wait",
            "unexplained",
        ];
        let mut grid = Grid::new("", &headers);
        for case in self.cases.iter().filter(|case| case.main().count() > 0) {
            let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
            let warm_s = case.median("warm_s").filter(|_| self.compares_rates);
            let warm_gb_s = warm_s.map(|warm| case.bytes() as f64 / 1e9 / warm.max(1e-9));
            let unexplained = case.main().unexplained();
            grid.rows.push(vec![
                case.name.clone(),
                thousands(case.rows),
                amount(case.bytes() as f64 / 1e6),
                or_dash(case.median("cold_s").map(seconds)),
                or_dash(case.median("cold_mb_s").map(amount)),
                or_dash(case.median("cold_over_disk").map(|ratio| format!("{:.0} %", ratio * 100.0))),
                or_dash(case.median("warm_s").map(seconds)),
                or_dash(warm_gb_s.map(amount)),
                or_dash(case.median("cpu_s").map(seconds)),
                or_dash(case.top_wait().map(|(name, time)| format!("{name} {} ms", amount(time)))),
                or_dash(unexplained.map(|percent| format!("{:.1} %", tenths(percent)))),
            ]);
        }
        grid.leave_out_where(|cell| cell == "-");
        let least_wanted =
            ["longest wait", "MB", "rows", "CPU", "warm GB/s", "unexplained", "cold MB/s", "of the disk"];
        grid.least_wanted =
            least_wanted.iter().filter_map(|name| grid.headers.iter().position(|header| header == name)).collect();
        grid
    }

    pub(crate) fn limits_line(&self) -> String {
        let limits = &self.limits;
        let direct = if limits.disk_is_direct { "" } else { " (through the system's cache: no disk's rate)" };
        format!(
            "this machine gives: disk {} MB/s read{direct}, {} MB/s write, {} flushes/s; memory {} GB/s on one core, \
             {} GB/s on all {}\n",
            amount(limits.disk_read_mb_s),
            amount(limits.disk_write_mb_s),
            amount(limits.disk_flushes_per_s),
            amount(limits.memory_read_gb_s_1_core),
            amount(limits.memory_read_gb_s_all_cores),
            self.machine.processors,
        )
    }
}

/// Rounds a figure to one decimal. A result of zero has no sign.
fn tenths(figure: f64) -> f64 {
    (figure * 10.0).round() / 10.0 + 0.0
}

/// A mark in one line, without the line end.
fn mark_text(mark: &Mark) -> String {
    let relation = if mark.at_least { "at least" } else { "at most" };
    let verdict = match (mark.is_met(), &mark.too_small) {
        (Some(true), _) => "met".to_owned(),
        (Some(false), _) => "NOT MET".to_owned(),
        (None, Some(why)) => format!("not judged: {why}"),
        (None, None) if mark.is_reached() => "met by the median, not decided".to_owned(),
        (None, None) => "missed by the median, not decided".to_owned(),
    };
    let of = mark.of.as_ref().map_or_else(String::new, |of| format!(" ({of})"));
    let interval = mark.interval.map_or_else(String::new, |interval| {
        format!(" ({:.3} to {:.3}, 95 % of {} measurements)", interval.low, interval.high, interval.count)
    });
    format!("{}{of} = {:.3}{interval}, {relation} {}: {verdict}", mark.name, mark.value, mark.aim)
}
