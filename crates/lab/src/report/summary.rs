//! A report in words: what its figures come to, and what a reader must know before using them.

use std::collections::BTreeMap;

use super::{Case, Report, tenths};
use crate::figures::{amount, median};

/// Waits that take less than this part of the threads' time, in percent, are counted together: in the headline, in the
/// table, and in the chart.
const NAMED_PERCENT: f64 = 1.0;
/// The most waits that are named.
const NAMED_MOST: usize = 3;

/// Where the time of threads went, as percentages of that time.
pub(super) struct Shares {
    /// That time, in seconds: the mean of a case's runs, summed over the cases.
    pub(super) threads_s: f64,
    pub(super) cpu: f64,
    /// All waits, longest first.
    pub(super) waits: Vec<(String, f64)>,
    pub(super) unexplained: f64,
}

impl Shares {
    /// Those of the runs of all these cases together, of which each counts by its threads' time. `None` without runs
    /// whose waits were recorded.
    pub(super) fn of<'a>(cases: impl IntoIterator<Item = &'a Case>) -> Option<Shares> {
        let (mut whole, mut cpu, mut unexplained) = (0.0, 0.0, 0.0);
        let mut waits: BTreeMap<String, f64> = BTreeMap::new();
        for runs in cases.into_iter().map(Case::main) {
            let (Some(threads), Some(rest)) = (runs.mean_threads_s(), runs.unexplained()) else { continue };
            whole += threads;
            cpu += runs.mean_cpu_s().unwrap_or(0.0);
            unexplained += rest / 100.0 * threads;
            for (name, ms) in runs.mean_waits_ms() {
                *waits.entry(name).or_default() += ms / 1e3;
            }
        }
        if whole <= 0.0 {
            return None;
        }
        let percent = |time: f64| time / whole * 100.0;
        let mut waits: Vec<(String, f64)> = waits.into_iter().map(|(name, time)| (name, percent(time))).collect();
        waits.sort_by(|a, b| b.1.total_cmp(&a.1));
        Some(Shares { threads_s: whole, cpu: percent(cpu), waits, unexplained: percent(unexplained) })
    }

    /// The waits that are named, and all others together.
    pub(super) fn named_and_others(&self) -> (&[(String, f64)], f64) {
        let few = self.waits.iter().take(NAMED_MOST).take_while(|(_, share)| *share >= NAMED_PERCENT).count();
        let (named, others) = self.waits.split_at(few);
        (named, others.iter().map(|(_, share)| share).sum())
    }

    fn sentence(&self, runs: &str) -> String {
        let mut parts = vec![format!("CPU {:.0} %", self.cpu)];
        let (named, others) = self.named_and_others();
        parts.extend(named.iter().map(|(name, share)| format!("{name} {share:.0} %")));
        if others >= 0.5 {
            parts.push(format!("other waits {others:.0} %"));
        }
        parts.push(format!("unexplained {:.1} %", tenths(self.unexplained)));
        format!("Where the threads' time of {runs} went: {}.", parts.join(", "))
    }
}

impl Report {
    /// The disk's rate, to which all figures of the page refer: the median of the raw reads that were made beside the
    /// cold runs. A report without such reads has the rate that was measured before.
    pub fn disk_mb_s(&self) -> f64 {
        let beside: Vec<f64> = self.cases.iter().flat_map(|case| case.values("disk_mb_s").iter().copied()).collect();
        median(&beside).unwrap_or(self.limits.disk_read_mb_s)
    }

    /// A cold case's rate as a part of the disk's. `None` for a case whose pages were not read raw too, such as one of
    /// a modelled device.
    pub(super) fn over_disk(&self, case: &Case) -> Option<f64> {
        case.median("disk_mb_s")?;
        Some(case.cold_mb_s()? / self.disk_mb_s().max(1e-9))
    }

    /// What the figures come to: the experiment's findings, how much of the disk cold runs reach, where the time went,
    /// how many marks are met, and whether the machine was busy.
    pub fn headline(&self) -> Vec<String> {
        let parts = [self.disk_sentence(), self.time_sentence(), self.marks_sentence(), self.busy_sentence()];
        self.findings.iter().cloned().chain(parts.into_iter().flatten()).collect()
    }

    fn disk_sentence(&self) -> Option<String> {
        let mut ratios: Vec<f64> = self.cases.iter().filter_map(|case| self.over_disk(case)).collect();
        ratios.sort_by(f64::total_cmp);
        let percent = |ratio: &f64| format!("{:.0}", ratio * 100.0);
        let range = match (ratios.first().map(percent), ratios.last().map(percent)) {
            (Some(least), Some(most)) if least != most => format!(" ({least} to {most} % by case)"),
            _ => String::new(),
        };
        let middle = percent(&median(&ratios)?);
        let disk = amount(self.disk_mb_s());
        Some(format!("Cold runs read at {middle} % of this disk's {disk} MB/s{range}."))
    }

    fn time_sentence(&self) -> Option<String> {
        let shares = Shares::of(&self.cases)?;
        let has = |cold: bool| self.cases.iter().any(|case| case.main().count() > 0 && (case.cold.count() > 0) == cold);
        let runs = match (has(true), has(false)) {
            (true, true) => "all cases",
            (true, false) => "cold runs",
            _ => "warm runs",
        };
        Some(shares.sentence(runs))
    }

    fn marks_sentence(&self) -> Option<String> {
        let count = |met| self.marks.iter().filter(|mark| mark.is_met() == met).count();
        let (met, missed, open) = (count(Some(true)), count(Some(false)), count(None));
        let small = self.marks.iter().filter(|mark| mark.too_small.is_some()).count();
        let further =
            [(open - small, "not decided"), (small, "not judged")].into_iter().filter(|(count, _)| *count > 0);
        let further: String = further.map(|(count, verdict)| format!(", {count} {verdict}")).collect();
        (!self.marks.is_empty())
            .then(|| format!("Marks, whose bounds are hobt's own: {met} met, {missed} not met{further}."))
    }

    fn busy_sentence(&self) -> Option<String> {
        let load = self.occasion.load_before.filter(|_| self.occasion.is_busy(self.machine.processors))?;
        Some(format!("The machine was busy: load {load:.1} on {} processors before the run.", self.machine.processors))
    }

    /// Date, version, build and load, without the command.
    pub(super) fn made(&self) -> String {
        let load = |load: Option<f64>| load.map_or_else(|| "unknown".to_owned(), |load| format!("{load:.1}"));
        format!(
            "{}, hobt {} ({} build), load {} before and {} after",
            self.occasion.date,
            self.machine.version,
            self.machine.build,
            load(self.occasion.load_before),
            load(self.occasion.load_after),
        )
    }

    /// The notes of the report and of its cases, and those that its figures need.
    pub(super) fn all_notes(&self) -> Vec<String> {
        let memory = self.limits.memory_read_gb_s_all_cores;
        let is_faster = |case: &Case| case.warm_gb_s().is_some_and(|rate| rate > memory);
        let faster = self.compares_rates && self.cases.iter().any(is_faster);
        let why = "warm rates above the memory's: a scan that counts from page headers, or leaves columns out, does \
                   not touch every byte of its pages";
        let of_cases =
            self.cases.iter().flat_map(|case| case.notes.iter().map(|note| format!("{}: {note}", case.name)));
        self.notes.iter().cloned().chain(faster.then(|| why.to_owned())).chain(of_cases).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::machine::Machine;
    use crate::measure::Measured;
    use crate::occasion::Occasion;

    fn measured(wait: &str, pages: u64) -> Measured {
        Measured {
            elapsed_s: 1.0,
            threads_s: 2.0,
            cpu_s: 0.5,
            logical_pages: pages,
            read_ahead_pages: pages,
            waits_ms: [(wait.to_owned(), 1_475.0), ("X".to_owned(), 15.0)].into(),
            ..Measured::default()
        }
    }

    fn report(cases: Vec<Case>) -> Report {
        let limits = Limits {
            disk_read_mb_s: 9_999.0,
            disk_read_kib: 512,
            disk_read_depth: 8,
            disk_write_mb_s: 1.0,
            disk_copy_mb_s: None,
            disk_flushes_per_s: 1.0,
            disk_is_direct: true,
            disk_file_bytes: 1,
            memory_read_gb_s_1_core: 1.0,
            memory_read_gb_s_all_cores: 1.0,
            memory_bytes: 1,
            disk_reads: Vec::new(),
        };
        Report {
            experiment: "test".to_owned(),
            question: "What?".to_owned(),
            machine: Machine { processors: 2, ..Machine::this("threads") },
            occasion: Occasion { load_before: Some(5.0), ..Occasion::now() },
            limits,
            settings: serde_json::Map::new(),
            compares_rates: true,
            findings: Vec::new(),
            cases,
            marks: Vec::new(),
            tables: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_report_has_one_rate_of_the_disk_and_says_what_its_figures_come_to() {
        let mut real = Case::new("real", "SELECT 1");
        // 8,192 bytes by 12,207 pages: 100 MB in a second.
        real.add_cold(measured("PAGEIOLATCH_SH", 12_207));
        real.push("disk_mb_s", 200.0);
        let mut modelled = Case::new("modelled", "SELECT 1");
        modelled.add_cold(measured("PAGEIOLATCH_SH", 12_207));
        let mut unaccounted = Case::new("bare", "SELECT 1").without_accounting();
        unaccounted.add_cold(measured("PAGEIOLATCH_SH", 12_207));
        let report = report(vec![real, modelled, unaccounted]);
        assert_eq!(report.disk_mb_s(), 200.0);
        assert!(report.over_disk(&report.cases[0]).is_some_and(|ratio| (ratio - 0.5).abs() < 0.001));
        assert_eq!(report.over_disk(&report.cases[1]), None);
        let headline = report.headline();
        assert_eq!(headline[0], "Cold runs read at 50 % of this disk's 200 MB/s.");
        assert_eq!(
            headline[1],
            "Where the threads' time of cold runs went: CPU 25 %, PAGEIOLATCH_SH 74 %, other waits 1 %, unexplained 0.5 %."
        );
        assert_eq!(headline[2], "The machine was busy: load 5.0 on 2 processors before the run.");
        // The chart counts the same waits together.
        let page = report.to_html();
        assert!(page.contains("</i>PAGEIOLATCH_SH<") && page.contains("</i>other waits<") && !page.contains("</i>X<"));
        assert!(!page.contains("9,999") && !report.to_text_within(80).contains("9,999"));
    }

    #[test]
    fn a_report_without_runs_has_the_measured_rate_and_no_shares() {
        let report = report(vec![Case::new("none", "")]);
        assert_eq!((report.disk_mb_s(), report.headline().len()), (9_999.0, 1));
    }
}
