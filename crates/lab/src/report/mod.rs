//! The results of an experiment: as a table, as JSON, as a page.

mod case;
mod chart;
mod compare;
mod html;
mod summary;
mod table;

use hobt_showplan::counted;
use serde_json::{Map, Value, json};

use crate::figures::{MedianInterval, amount, seconds, thousands};
use crate::limits::Limits;
use crate::machine::Machine;
use crate::occasion::Occasion;
pub use case::Case;
pub(crate) use case::{Condition, SHORT_S};
pub use compare::compare;
use summary::Shares;
use table::{FIRM_SPACE, paragraph};
pub use table::{Grid, terminal_width};

/// Why a mark is not judged, if its experiment had fewer rows than needed.
pub(crate) fn too_few_rows(rows: u64, needed: u64) -> Option<String> {
    (rows < needed).then(|| format!("{} rows, needs {}", thousands(rows), thousands(needed)))
}

/// Why a mark is not judged, if the runs took less time than needed for a judgement.
pub(crate) fn too_short(taken_s: f64, needed_s: f64) -> Option<String> {
    (taken_s < needed_s).then(|| format!("runs of {}, needs {}", seconds(taken_s), seconds(needed_s)))
}

/// A figure with a bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Its name.
    pub name: String,
    /// The measured value.
    pub value: f64,
    /// What the value must reach.
    pub bound: f64,
    /// Whether the value must be at least the bound, or at most.
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
    /// Whether the value reaches the bound.
    pub fn is_reached(&self) -> bool {
        if self.at_least { self.value >= self.bound } else { self.value <= self.bound }
    }

    /// Whether the mark is met. `None` if that is not known: too little was measured, or the bound lies inside the
    /// interval of the true median.
    pub fn is_met(&self) -> Option<bool> {
        match self.is_reached() {
            _ if self.too_small.is_some() => None,
            _ if self.interval.is_some_and(|interval| interval.low < self.bound && self.bound < interval.high) => None,
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
    /// When and by which command.
    pub occasion: Occasion,
    /// That machine's limits.
    pub limits: Limits,
    /// The settings of the run.
    pub settings: Map<String, Value>,
    /// Whether its cases are compared by bytes per second instead of time.
    pub compares_rates: bool,
    /// The answer to its question, in sentences. They begin the headline.
    pub findings: Vec<String>,
    /// The cases.
    pub cases: Vec<Case>,
    /// Figures with bounds.
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
                let relation = if mark.at_least { "at_least" } else { "at_most" };
                let mut object =
                    json!({ "name": mark.name, "value": mark.value, relation: mark.bound, "met": mark.is_met() });
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
            "headline": self.headline(),
            "occasion": self.occasion,
            "machine": self.machine,
            "limits": self.limits,
            "disk_mb_s": self.disk_mb_s(),
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

    /// The report for the terminal of the standard output. Without a terminal, the width is not limited.
    pub fn to_text(&self) -> String {
        self.to_text_within(terminal_width().unwrap_or(usize::MAX))
    }

    /// The report for a width in characters: question, headline, tables, limits, marks, notes, and how it was made.
    pub fn to_text_within(&self, limit: usize) -> String {
        let mut text = paragraph("", &format!("{}: {}", self.experiment, self.question), limit);
        text.push('\n');
        for sentence in self.headline() {
            text.push_str(&paragraph("", &sentence, limit));
        }
        text.push('\n');
        for grid in self.grids() {
            text.push_str(&grid.to_text_within(limit));
            text.push('\n');
        }
        let machine =
            self.machine_gives().iter().map(|(name, figure)| format!("{name} {figure}")).collect::<Vec<_>>().join(", ");
        text.push_str(&paragraph("", &format!("this machine gives: {machine}"), limit));
        for mark in &self.marks {
            text.push_str(&paragraph("mark: ", &format!("{}: {}", mark_text(mark), verdict(mark)), limit));
        }
        for note in self.all_notes() {
            text.push_str(&paragraph("note: ", &note, limit));
        }
        text.push_str(&paragraph("made: ", &self.made(), limit));
        text.push_str(&paragraph("by: ", &self.occasion.command, limit));
        text
    }

    /// All tables. Those of the cases come first if there are timed cases.
    pub(crate) fn grids(&self) -> Vec<Grid> {
        let of_cases = [self.case_grid(), self.time_grid(), self.text_grid(), self.meaning_grid()];
        let of_cases = of_cases.into_iter().filter(|grid| !grid.rows.is_empty());
        of_cases.chain(self.tables.iter().cloned()).collect()
    }

    /// The results in the texts, compared with the results here.
    fn text_grid(&self) -> Grid {
        let mut grid = Grid::new("What the texts found", &["case", "here, cold", "here, MB/s", "the text"]);
        grid.prose = vec![3];
        grid.least_wanted = vec![1];
        for case in &self.cases {
            let Some(text) = case.text else { continue };
            let (time, rate) = (case.median("cold_s").map(seconds), case.cold_mb_s().map(amount));
            grid.rows.push(vec![case.name.clone(), or_dash(time), or_dash(rate), text.to_owned()]);
        }
        grid
    }

    /// What the cases are, in words.
    fn meaning_grid(&self) -> Grid {
        let mut grid = Grid::new("The cases", &["case", "what it is"]);
        grid.prose = vec![1];
        let explained = self.cases.iter().filter(|case| !case.meaning.is_empty());
        grid.rows = explained.map(|case| vec![case.name.clone(), case.meaning.clone()]).collect();
        grid
    }

    fn timed_cases(&self) -> impl Iterator<Item = &Case> {
        self.cases.iter().filter(|case| case.main().count() > 0)
    }

    /// Times and rates of all cases, the most important first.
    fn case_grid(&self) -> Grid {
        let headers = ["case", "cold", "cold MB/s", "of the disk", "warm", "warm GB/s", "CPU", "MB", "rows"];
        let mut grid = Grid::new("Times and rates", &headers);
        for case in self.timed_cases() {
            let warm_gb_s = case.warm_gb_s().filter(|_| self.compares_rates);
            grid.rows.push(vec![
                case.name.clone(),
                or_dash(case.median("cold_s").map(seconds)),
                or_dash(case.cold_mb_s().map(amount)),
                or_dash(self.over_disk(case).map(|ratio| format!("{:.0} %", ratio * 100.0))),
                or_dash(case.median("warm_s").map(seconds)),
                or_dash(warm_gb_s.map(amount)),
                or_dash(case.median("cpu_s").map(seconds)),
                amount(case.bytes() as f64 / 1e6),
                thousands(case.rows),
            ]);
        }
        grid.leave_out_where(|cell| cell == "-");
        let least_wanted = ["MB", "rows", "warm GB/s", "CPU"];
        grid.least_wanted =
            least_wanted.iter().filter_map(|name| grid.headers.iter().position(|header| header == name)).collect();
        grid
    }

    /// Where the threads' time of all cases went.
    fn time_grid(&self) -> Grid {
        let title = "Where the threads' time went, in percent; the rest is unexplained (below zero where a thread computes while it waits)";
        let mut grid = Grid::new(title, &["case", "CPU", "longest waits", "rest"]);
        grid.prose = vec![2];
        for case in self.timed_cases() {
            let Some(shares) = Shares::of([case]) else { continue };
            let (named, others) = shares.named_and_others();
            let item = |name: &str, share: f64| format!("{name}{FIRM_SPACE}{share:.0}");
            let mut waits: Vec<String> = named.iter().map(|(name, share)| item(name, *share)).collect();
            waits.extend((others >= 0.5).then(|| item("others", others)));
            let rest = format!("{:.1}", tenths(shares.unexplained));
            grid.rows.push(vec![case.name.clone(), format!("{:.0}", shares.cpu), waits.join(", "), rest]);
        }
        grid
    }

    /// What the machine gives: names and figures.
    fn machine_gives(&self) -> Vec<(String, String)> {
        let limits = &self.limits;
        let direct = if limits.disk_is_direct { "" } else { " (through the system's cache: no disk's rate)" };
        let all = counted(self.machine.processors as u64, "core");
        let copied = limits
            .disk_copy_mb_s
            .map(|rate| ("disk read and written at once".to_owned(), format!("{} MB/s of each", amount(rate))));
        let of_disk = [
            (format!("sequential disk read{direct}"), format!("{} MB/s", amount(self.disk_mb_s()))),
            ("sequential disk write".to_owned(), format!("{} MB/s", amount(limits.disk_write_mb_s))),
        ];
        let others = [
            ("disk flushes".to_owned(), format!("{} /s", amount(limits.disk_flushes_per_s))),
            ("memory read by one core".to_owned(), format!("{} GB/s", amount(limits.memory_read_gb_s_1_core))),
            (format!("memory read by all {all}"), format!("{} GB/s", amount(limits.memory_read_gb_s_all_cores))),
        ];
        of_disk.into_iter().chain(copied).chain(others).collect()
    }
}

fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

/// Rounds a figure to one decimal. A result of zero has no sign.
fn tenths(figure: f64) -> f64 {
    (figure * 10.0).round() / 10.0 + 0.0
}

/// Whether a mark is met, in words.
fn verdict(mark: &Mark) -> String {
    match (mark.is_met(), &mark.too_small) {
        (Some(true), _) => "met".to_owned(),
        (Some(false), _) => "NOT MET".to_owned(),
        (None, Some(why)) => format!("not judged: {why}"),
        (None, None) if mark.is_reached() => "met by the median, not decided".to_owned(),
        (None, None) => "missed by the median, not decided".to_owned(),
    }
}

/// A mark in one line, without its verdict.
fn mark_text(mark: &Mark) -> String {
    let relation = if mark.at_least { "at least" } else { "at most" };
    let of = mark.of.as_ref().map_or_else(String::new, |of| format!(" ({of})"));
    let interval = mark.interval.map_or_else(String::new, |interval| {
        format!(" (95 % interval of {} measurements: {:.3} to {:.3})", interval.count, interval.low, interval.high)
    });
    format!("{}{of} = {:.3}{interval}, {relation} {}", mark.name, mark.value, mark.bound)
}
