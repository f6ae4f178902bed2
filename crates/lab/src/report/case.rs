//! One case of an experiment: its measurements, with all repetitions and their medians.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::figures::{amount, median};
use crate::measure::Measured;

/// Scans of smaller tables, in bytes, say little about the machine, because starting and planning take too large a
/// part.
const SMALL_BYTES: u64 = 1_000_000_000;
/// Shorter runs, in seconds, say little.
pub(crate) const SHORT_S: f64 = 0.01;

/// The condition of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Condition {
    /// No page is in memory.
    Cold,
    /// All pages are in memory.
    Warm,
}

impl Condition {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Condition::Cold => "cold",
            Condition::Warm => "warm",
        }
    }
}

/// Repetitions under one condition, cold or warm.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    pub(crate) elapsed_s: Vec<f64>,
    pub(crate) cpu_s: Vec<f64>,
    pub(crate) unexplained_percent: Vec<f64>,
    /// Time of all threads.
    threads_s: Vec<f64>,
    unexplained_s: Vec<f64>,
    pub(crate) physical_pages: Vec<f64>,
    /// Sums over the repetitions.
    waits_ms: BTreeMap<String, f64>,
    latch_waits: BTreeMap<String, u64>,
    /// Whether waits are not recorded, so that nothing is known of what is unexplained.
    has_no_accounting: bool,
    /// The last repetition.
    pub(crate) last: Measured,
}

impl Runs {
    fn add(&mut self, measured: Measured) {
        self.elapsed_s.push(measured.elapsed_s);
        self.cpu_s.push(measured.cpu_s);
        self.threads_s.push(measured.threads_s);
        if !self.has_no_accounting {
            self.unexplained_percent.push(measured.unexplained_percent());
            self.unexplained_s.push(measured.unexplained_s());
        }
        self.physical_pages.push((measured.physical_pages + measured.read_ahead_pages) as f64);
        for (name, time) in &measured.waits_ms {
            *self.waits_ms.entry(name.clone()).or_default() += time;
        }
        for (class, count) in &measured.latch_waits {
            *self.latch_waits.entry(class.clone()).or_default() += count;
        }
        self.last = measured;
    }

    pub(crate) fn count(&self) -> usize {
        self.elapsed_s.len()
    }

    /// Waits for latches of a class in all repetitions.
    pub(crate) fn latch_waits(&self, class: &str) -> f64 {
        self.latch_waits.get(class).copied().unwrap_or(0) as f64
    }

    /// Average time of all threads per repetition, in seconds.
    pub(crate) fn mean_threads_s(&self) -> Option<f64> {
        mean(&self.threads_s)
    }

    /// Average processor time per repetition, in seconds.
    pub(crate) fn mean_cpu_s(&self) -> Option<f64> {
        mean(&self.cpu_s)
    }

    /// The part of the threads' time, over all repetitions, that is neither CPU nor waits, in percent. `None` without
    /// wait accounting.
    pub(crate) fn unexplained(&self) -> Option<f64> {
        let whole = self.threads_s.iter().sum::<f64>();
        (whole > 0.0 && !self.has_no_accounting).then(|| self.unexplained_s.iter().sum::<f64>() / whole * 100.0)
    }

    /// The greatest ratio of a run's CPU time to the time of its threads. More than 1 is impossible.
    fn cpu_over_threads(&self) -> f64 {
        let share = |(cpu, threads): (&f64, &f64)| if *threads > 0.0 { cpu / threads } else { 0.0 };
        self.cpu_s.iter().zip(&self.threads_s).map(share).fold(0.0, f64::max)
    }

    /// Average milliseconds of each wait type per repetition.
    pub(crate) fn mean_waits_ms(&self) -> BTreeMap<String, f64> {
        let count = self.count().max(1) as f64;
        self.waits_ms.iter().map(|(name, time)| (name.clone(), time / count)).collect()
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// One case.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// Its name, the same in every run.
    pub name: String,
    /// What it is, for a reader who does not know its name. Empty if the experiment's own tables say it.
    pub meaning: String,
    /// The statement that was timed.
    pub statement: String,
    /// Rows of the table.
    pub rows: u64,
    /// The result in the text, if it has a figure for this.
    pub text: Option<&'static str>,
    /// The plan as a tree, with the figures of a run, if the experiment collects it.
    pub drawn_plan: Option<String>,
    /// What a reader must know before using the figures.
    pub notes: Vec<String>,
    pub(crate) cold: Runs,
    pub(crate) warm: Runs,
    /// Further repetitions by key. A key ends in its unit.
    pub(crate) series: Vec<(&'static str, Vec<f64>)>,
    /// Further single figures.
    pub(crate) figures: Map<String, Value>,
    pub(crate) bytes: u64,
}

impl Case {
    /// A case that has not run yet.
    pub fn new(name: impl Into<String>, statement: impl Into<String>) -> Case {
        Case { name: name.into(), statement: statement.into(), ..Case::default() }
    }

    /// The case, if it runs without wait accounting.
    pub(crate) fn without_accounting(mut self) -> Case {
        for runs in [&mut self.cold, &mut self.warm] {
            runs.has_no_accounting = true;
        }
        self.note("its waits were not recorded, so where its time went is not known");
        self
    }

    /// Bytes of the pages that a run accesses.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn set_bytes(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    pub(crate) fn add_cold(&mut self, measured: Measured) {
        self.bytes = self.bytes.max(measured.bytes());
        let bytes = if measured.read_bytes > 0 { measured.read_bytes } else { measured.bytes() };
        self.push("cold_mb_s", bytes as f64 / 1e6 / measured.elapsed_s.max(1e-9));
        self.cold.add(measured);
    }

    pub(crate) fn add_warm(&mut self, measured: Measured) {
        self.bytes = self.bytes.max(measured.bytes());
        if !measured.is_warm() {
            self.note("not warm: the pool did not hold the table, so the warm figures are of reads from the disk");
        }
        self.warm.add(measured);
    }

    /// Adds a repetition to the series `key`.
    pub(crate) fn push(&mut self, key: &'static str, value: f64) {
        match self.series.iter_mut().find(|(name, _)| *name == key) {
            Some((_, values)) => values.push(value),
            None => self.series.push((key, vec![value])),
        }
    }

    pub(crate) fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// The repetitions of a series. Empty if there is none with this name.
    pub(crate) fn values(&self, key: &str) -> &[f64] {
        match key {
            "cold_s" => &self.cold.elapsed_s,
            "warm_s" => &self.warm.elapsed_s,
            "cpu_s" => &self.main_cpu().cpu_s,
            "cold_cpu_s" => &self.cold.cpu_s,
            _ => self.series.iter().find(|(name, _)| *name == key).map_or(&[], |(_, values)| values),
        }
    }

    /// A single figure that is a number.
    pub(crate) fn figure(&self, key: &str) -> Option<f64> {
        self.figures.get(key)?.as_f64()
    }

    /// The median of a series.
    pub fn median(&self, key: &str) -> Option<f64> {
        median(self.values(key))
    }

    /// The runs that represent the case's waits and reads: the cold ones if there are any.
    pub(crate) fn main(&self) -> &Runs {
        if self.cold.count() > 0 { &self.cold } else { &self.warm }
    }

    /// The runs that represent the case's CPU: the warm ones if there are any, because they only compute.
    fn main_cpu(&self) -> &Runs {
        if self.warm.count() > 0 { &self.warm } else { &self.cold }
    }

    /// The rate of cold runs, in megabytes of pages per second: of their median time, beside which it is shown. Of a
    /// case without times, the median of its rates.
    pub(crate) fn cold_mb_s(&self) -> Option<f64> {
        let of_time = self.median("cold_s").map(|time| self.bytes as f64 / 1e6 / time.max(1e-9));
        of_time.or_else(|| self.median("cold_mb_s"))
    }

    /// The rate of warm runs, in gigabytes of pages per second.
    pub(crate) fn warm_gb_s(&self) -> Option<f64> {
        Some(self.bytes as f64 / 1e9 / self.median("warm_s")?.max(1e-9))
    }

    /// The time that is neither CPU nor named waits, in percent.
    pub(crate) fn unexplained(&self) -> impl Iterator<Item = (Condition, f64)> {
        [(Condition::Cold, &self.cold), (Condition::Warm, &self.warm)]
            .into_iter()
            .filter_map(|(condition, runs)| Some((condition, runs.unexplained()?)))
    }

    /// Why the runs under this condition are too small to be judged, if they are.
    pub(crate) fn too_small(&self, condition: Condition) -> Option<String> {
        let runs = match condition {
            Condition::Cold => &self.cold,
            Condition::Warm => &self.warm,
        };
        if self.bytes < SMALL_BYTES {
            let megabytes = |bytes: u64| amount(bytes as f64 / 1e6);
            return Some(format!("{} MB, needs {} MB", megabytes(self.bytes), megabytes(SMALL_BYTES)));
        }
        super::too_short(median(&runs.elapsed_s)?, SHORT_S)
    }

    /// The greatest ratio of a run's CPU time to the time of its threads. More than 1 is impossible.
    pub(crate) fn cpu_over_capacity(&self) -> f64 {
        self.cold.cpu_over_threads().max(self.warm.cpu_over_threads())
    }

    /// The case as an object of the report.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("name".to_owned(), json!(self.name));
        object.insert("statement".to_owned(), json!(self.statement));
        object.insert("rows".to_owned(), json!(self.rows));
        object.insert("bytes".to_owned(), json!(self.bytes));
        object.insert("workers".to_owned(), json!(self.main().last.workers));
        let mut list = |key: &str, values: &[f64]| {
            object.insert(key.to_owned(), json!(values));
            object.insert(format!("{key}_median"), json!(median(values)));
        };
        for key in ["cold_s", "warm_s", "cold_mb_s", "cpu_s", "cold_cpu_s"] {
            list(key, self.values(key));
        }
        for (key, values) in self.series.iter().filter(|(key, _)| *key != "cold_mb_s") {
            list(key, values);
        }
        list("unexplained_percent_repetitions", &self.main().unexplained_percent);
        list("warm_physical_reads", &self.warm.physical_pages);
        let main = self.main();
        object.insert("unexplained_percent".to_owned(), json!(main.unexplained()));
        object.insert("waits_ms".to_owned(), json!(main.mean_waits_ms()));
        object.insert("latch_waits".to_owned(), json!(main.latch_waits));
        if self.cold.count() > 0 && self.warm.count() > 0 {
            object.insert("warm_waits_ms".to_owned(), json!(self.warm.mean_waits_ms()));
            object.insert("warm_latch_waits".to_owned(), json!(self.warm.latch_waits));
            object.insert("warm_unexplained_percent".to_owned(), json!(self.warm.unexplained()));
        }
        object.insert("rows_per_worker".to_owned(), json!(main.last.rows_per_worker));
        let sizes: Map<String, Value> =
            main.last.reads_by_size.iter().map(|(size, count)| (size.to_string(), json!(count))).collect();
        object.insert("reads_by_size".to_owned(), Value::Object(sizes));
        object.extend(self.figures.clone());
        if let Some(plan) = &self.drawn_plan {
            object.insert("drawn_plan".to_owned(), json!(plan));
        }
        object.insert("text".to_owned(), json!(self.text));
        object.insert("notes".to_owned(), json!(self.notes));
        Value::Object(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(elapsed_s: f64, read_ahead_pages: u64) -> Measured {
        Measured {
            elapsed_s,
            threads_s: 2.0 * elapsed_s,
            cpu_s: elapsed_s,
            workers: 2,
            logical_pages: 100,
            read_ahead_pages,
            waits_ms: [("PAGEIOLATCH_SH".to_owned(), elapsed_s * 500.0)].into(),
            ..Measured::default()
        }
    }

    #[test]
    fn every_required_key_is_there_even_without_runs() {
        let object = Case::new("heap", "SELECT 1").to_json();
        for key in [
            "name",
            "rows",
            "bytes",
            "cold_s",
            "warm_s",
            "cold_mb_s",
            "cpu_s",
            "cold_s_median",
            "warm_s_median",
            "cold_mb_s_median",
            "cpu_s_median",
            "waits_ms",
            "latch_waits",
            "rows_per_worker",
            "reads_by_size",
            "unexplained_percent",
        ] {
            assert!(object.get(key).is_some(), "{key}");
        }
    }

    #[test]
    fn medians_and_waits_are_of_the_repetitions() {
        let mut case = Case::new("heap", "SELECT 1");
        for elapsed in [1.0, 3.0, 2.0] {
            case.add_cold(measured(elapsed, 100));
            case.add_warm(measured(elapsed / 10.0, 0));
        }
        let object = case.to_json();
        assert_eq!(object["cold_s_median"], 2.0);
        assert_eq!(object["warm_s_median"], 0.2);
        assert_eq!(object["cpu_s_median"], 0.2);
        assert_eq!(object["bytes"], 819_200);
        assert_eq!(object["waits_ms"]["PAGEIOLATCH_SH"], 1_000.0);
        // Two workers: half of the time is CPU, a quarter is waits.
        assert_eq!(object["unexplained_percent"], 25.0);
        assert!(case.notes.is_empty());
    }

    #[test]
    fn what_is_unexplained_is_not_known_where_waits_were_not_recorded() {
        let mut case = Case::new("heap", "SELECT 1").without_accounting();
        case.add_cold(measured(1.0, 100));
        case.add_warm(measured(1.0, 0));
        assert_eq!(case.unexplained().count(), 0);
        let object = case.to_json();
        for key in ["unexplained_percent", "warm_unexplained_percent", "unexplained_percent_repetitions_median"] {
            assert!(object[key].is_null(), "{key}: {}", object[key]);
        }
    }

    #[test]
    fn the_cold_rate_is_that_of_the_time_beside_it() {
        let mut case = Case::new("heap", "SELECT 1");
        case.add_cold(measured(1.0, 100));
        case.add_cold(measured(3.0, 100));
        let (time, rate) = (case.median("cold_s").expect("timed"), case.cold_mb_s().expect("timed"));
        assert!((rate * time - case.bytes() as f64 / 1e6).abs() < 1e-9, "{rate} MB/s for {time} s");
        assert!(case.median("cold_mb_s").is_some_and(|of_rates| of_rates > rate), "not the mean of the rates");
    }

    #[test]
    fn a_warm_run_that_reads_says_so() {
        let mut case = Case::new("heap", "SELECT 1");
        case.add_warm(measured(1.0, 5));
        assert!(case.notes[0].starts_with("not warm"));
        assert_eq!(case.to_json()["warm_physical_reads_median"], 5.0);
    }
}
