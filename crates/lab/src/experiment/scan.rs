//! `scan`: the speed of a parallel table scan, and the effect of the texts' remedies on it.

use hobt_showplan::counted;
use serde_json::{Map, json};

use super::{Experiment, Plan, Tuning, plan_steps, run_plans};
use crate::data::big_data;
use crate::error::Result;
use crate::figures::{amount, median, median_interval, thousands};
use crate::laboratory::{BIG_DATA_STEPS, Laboratory};
use crate::limits::LimitSettings;
use crate::report::{Case, Condition, Grid, Mark, Report, SHORT_S};

pub(super) struct ScanExperiment;

/// Rows of a run on a machine with enough room. The marks are for this size.
pub(crate) const WANTED_ROWS: u64 = 24_000_000;

/// Approximate bytes of a row of BigData on its page, for choosing a size.
pub(crate) const ROW_BYTES: u64 = 100;

/// Partitions of the sweep.
const SWEEP: [u64; 10] = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96];

/// Files of the filegroup with several files: the text's six on one device and one on another.
const FILES: usize = 7;

/// The cases of the heap and of the clustered index with 24 partitions.
const HEAP_24: &str = "heap_24_partitions";
const CLUSTERED: &str = "clustered_24_partitions";
const CLUSTERED_TABLE: &str = "BigData24Clustered";

/// The storage forms of BigData.
#[derive(Debug)]
pub(crate) struct FormTables {
    /// Rows of each form.
    pub(crate) rows: u64,
}

impl FormTables {
    /// Steps of [`FormTables::ensure`].
    pub(crate) const STEPS: u64 = BIG_DATA_STEPS + 3;

    /// Creates BigData with about `rows` rows, and its other forms: partitioned, without NULLs, both.
    ///
    /// # Errors
    /// If a statement failed.
    pub(crate) fn ensure(lab: &mut Laboratory, rows: u64) -> Result<FormTables> {
        let rows = lab.ensure_big_data(rows)?;
        if !lab.has_table("BigData24")? && !lab.has_table("BigData24NotNull")? {
            let doing = big_data::create_24_partitions("hash24", "PRIMARY");
            if lab.run("SELECT COUNT(*) FROM sys.partition_schemes WHERE name = 'hash24_scheme'")?.count() == Some(0) {
                for statement in doing {
                    lab.run(&statement)?;
                }
            }
        }
        let forms = [
            ("BigData24", true, "ON hash24_scheme(Col1)"),
            ("BigDataNotNull", false, ""),
            ("BigData24NotNull", false, "ON hash24_scheme(Col1)"),
        ];
        for (name, nullable, place) in forms {
            let target = format!("dbo.{name}");
            let build = [
                big_data::create_table(&target, nullable, place),
                big_data::copy_into(&target, "dbo.BigData", nullable),
            ];
            lab.ensure_table(name, rows, &build)?;
        }
        Ok(FormTables { rows })
    }
}

/// The six cases of every run, and one that reads the values.
pub(crate) fn scan_plans(forms: &FormTables) -> Vec<Plan> {
    let latched = Tuning { latched_dealer: true, ..Tuning::default() };
    let plan = |name: &str, meaning: &str, table: &str, tuning, text| Plan {
        tuning,
        text,
        ..Plan::new(name, meaning, table, big_data::count_ten(&format!("dbo.{table}")), forms.rows)
    };
    let none = Tuning::default();
    vec![
        plan(
            "heap",
            "BigData, a heap whose columns allow NULL: counts ten columns",
            "BigData",
            none,
            Some("70 s, 1,900 MB/s, 82 % CPU; 92 % of waits LATCH_EX"),
        ),
        plan(
            HEAP_24,
            "the heap in 24 partitions",
            "BigData24",
            none,
            Some("65 s, 2,060 MB/s, 100 % CPU; LATCH_EX < 1 %"),
        ),
        plan("heap_not_null", "the heap with columns that are NOT NULL", "BigDataNotNull", none, None),
        plan(
            "heap_24_partitions_not_null",
            "both of these",
            "BigData24NotNull",
            none,
            Some("55 s, 3,000 MB/s, 31 % CPU"),
        ),
        plan(
            "heap_latched_dealer",
            "workers take their ranges of pages under a latch",
            "BigData",
            latched,
            Some("70 s; the text's dealer is latched"),
        ),
        plan(
            "heap_24_partitions_latched_dealer",
            "one such latch for each partition",
            "BigData24",
            latched,
            Some("65 s; one dealer a partition"),
        ),
        Plan::new(
            "heap_max_and_sum",
            "MAX, SUM and LEN in place of counts: looks at values",
            "BigData",
            big_data::max_and_sum("dbo.BigData"),
            forms.rows,
        ),
    ]
}

impl Experiment for ScanExperiment {
    fn name(&self) -> &'static str {
        "scan"
    }

    fn question(&self) -> &'static str {
        "How fast is a parallel table scan, and do partitions, NOT NULL columns, the dealer of page ranges or more files \
         change it?"
    }

    fn compares_rates(&self) -> bool {
        true
    }

    fn run(&self, lab: &mut Laboratory) -> Result<Report> {
        let tables = if lab.options().sweep { 7 } else { 6 };
        let wanted = lab.rows_for(WANTED_ROWS, ROW_BYTES, tables)?;
        let plans = experiment_plans(&FormTables { rows: big_data::rows_for(wanted) });
        let repeat = lab.options().repeat;
        let sweep_steps = if lab.options().sweep { SWEEP.len() as u64 * sweep_steps(repeat) } else { 0 };
        let measured = LimitSettings::steps_beside() + plan_steps(plans.len(), repeat) + sweep_steps;
        // The last tables are the one with several files and the clustered index.
        lab.progress().expect(FormTables::STEPS + 2 + measured);
        let forms = FormTables::ensure(lab, wanted)?;
        ensure_several_files(lab, forms.rows)?;
        ensure_clustered(lab, forms.rows)?;
        let limits = lab.limits(forms.rows * ROW_BYTES)?;
        let mut cases = run_plans(lab, &plans, repeat)?;
        if lab.options().sweep {
            cases.extend(sweep(lab, forms.rows)?);
        }
        let marks = marks(&cases);
        let mut settings = Map::new();
        settings.insert("rows".to_owned(), json!(forms.rows));
        settings.insert("repeat".to_owned(), json!(repeat));
        settings.insert("sweep".to_owned(), json!(lab.options().sweep));
        settings.insert("read_bytes".to_owned(), json!(lab.instance().runtime().read_bytes));
        settings.insert("queue_depth".to_owned(), json!(lab.instance().runtime().queue_depth));
        Ok(Report {
            notes: notes(&cases),
            tables: vec![heap_and_clustered(&cases)],
            cases,
            marks,
            ..self.report(lab, limits, settings)
        })
    }
}

/// All cases except those of the sweep.
fn experiment_plans(forms: &FormTables) -> Vec<Plan> {
    let mut plans = scan_plans(forms);
    plans.push(Plan {
        text: Some("46 s, 3,300 MB/s, 40 % CPU; in another text a second file made it slower (36.9 s against 31.2 s)"),
        ..Plan::new(
            "heap_7_files",
            "the heap in a filegroup of seven files",
            "BigData7Files",
            big_data::count_ten("dbo.BigData7Files"),
            forms.rows,
        )
    });
    plans.push(clustered_plan(forms.rows));
    plans.push(Plan {
        tuning: Tuning { no_accounting: true, ..Tuning::default() },
        ..Plan::new(
            "heap_without_accounting",
            "waits are not recorded: what the instruments cost",
            "BigData",
            big_data::count_ten("dbo.BigData"),
            forms.rows,
        )
    });
    plans
}

/// The scan of [`ensure_clustered`]'s table.
pub(crate) fn clustered_plan(rows: u64) -> Plan {
    Plan {
        text: Some("40.4 s against 45.8 s of the heap; 107,434 reads, mostly of 64 KiB, against 68,736"),
        ..Plan::new(
            CLUSTERED,
            "a clustered index in 24 partitions",
            CLUSTERED_TABLE,
            big_data::count_ten(&format!("dbo.{CLUSTERED_TABLE}")),
            rows,
        )
    }
}

/// Creates BigData as a clustered index with 24 partitions. One step. Uses the partition scheme of
/// [`FormTables::ensure`].
pub(crate) fn ensure_clustered(lab: &mut Laboratory, rows: u64) -> Result<()> {
    let (target, place) = (format!("dbo.{CLUSTERED_TABLE}"), "ON hash24_scheme(Col1)");
    let build = [
        big_data::create_table(&target, true, place),
        big_data::copy_into(&target, "dbo.BigData", true),
        big_data::create_clustered_index(&target, place),
    ];
    lab.ensure_table(CLUSTERED_TABLE, rows, &build)
}

/// The text's comparison of a heap and a clustered index with the same partitions: the last cold runs.
fn heap_and_clustered(cases: &[Case]) -> Grid {
    let headers = ["case", "cold s", "cold MB/s", "reads", "reads by KiB", "rows by worker", "waits", "warm GB/s"];
    let mut grid = Grid::new("A heap and a clustered index of 24 partitions each", &headers);
    grid.prose = vec![4, 5, 6];
    for case in cases.iter().filter(|case| [HEAP_24, CLUSTERED].contains(&case.name.as_str())) {
        let last = &case.cold.last;
        let list = |items: Vec<String>| if items.is_empty() { "-".to_owned() } else { items.join(", ") };
        let sizes = last.reads_by_size.iter().map(|(size, count)| format!("{} x {}", thousands(*count), size >> 10));
        let waits = case.cold.mean_waits_ms();
        let waits = waits.iter().filter(|(_, ms)| **ms >= 0.05).map(|(name, ms)| format!("{name} {} ms", amount(*ms)));
        let or_dash = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), amount);
        grid.rows.push(vec![
            case.name.clone(),
            case.median("cold_s").map_or_else(|| "-".to_owned(), |time| format!("{time:.3}")),
            or_dash(case.cold_mb_s()),
            thousands(last.reads),
            list(sizes.collect()),
            list(last.rows_per_worker.iter().map(|rows| thousands(*rows)).collect()),
            list(waits.collect()),
            or_dash(case.warm_gb_s()),
        ]);
    }
    grid
}

/// Creates the text's filegroup with seven files, and a copy of BigData in it.
fn ensure_several_files(lab: &mut Laboratory, rows: u64) -> Result<()> {
    if !lab.has_table("BigData7Files")? {
        let database = lab.database()?.name().to_owned();
        if lab.run("SELECT COUNT(*) FROM sys.filegroups WHERE name = 'FIO'")?.count() == Some(0) {
            let files: Vec<String> = (1..=FILES)
                .map(|file| format!("(NAME = N'FIO_{file:02}', FILENAME = N'{database}_FIO_{file:02}.ndf')"))
                .collect();
            lab.run(&format!("ALTER DATABASE [{database}] ADD FILEGROUP FIO"))?;
            lab.run(&format!("ALTER DATABASE [{database}] ADD FILE {} TO FILEGROUP FIO", files.join(", ")))?;
        }
    }
    let build = [
        big_data::create_table("dbo.BigData7Files", true, "ON [FIO]"),
        big_data::copy_into("dbo.BigData7Files", "dbo.BigData", true),
    ];
    lab.ensure_table("BigData7Files", rows, &build)
}

/// Repetitions of the sweep, which has many tables.
fn sweep_repeat(repeat: usize) -> usize {
    repeat.min(3)
}

/// Steps of the sweep per number of partitions: the table, and both dealers.
fn sweep_steps(repeat: usize) -> u64 {
    1 + plan_steps(2, sweep_repeat(repeat))
}

/// The scan on 1 to 96 partitions. Each table is created for its turn and dropped afterwards.
fn sweep(lab: &mut Laboratory, rows: u64) -> Result<Vec<Case>> {
    let repeats = rows / crate::data::CUSTOMERS;
    let repeat = sweep_repeat(lab.options().repeat);
    let mut cases = Vec::new();
    for partitions in SWEEP {
        let name = format!("Sweep{partitions}");
        let scheme = format!("sweep{partitions}");
        let table = format!("dbo.{name}");
        let mut build = Vec::new();
        let place = if partitions > 1 {
            if lab.run(&format!("SELECT COUNT(*) FROM sys.partition_schemes WHERE name = '{scheme}_scheme'"))?.count()
                == Some(0)
            {
                build.extend(big_data::create_range_partitions(&scheme, "PRIMARY", partitions, repeats));
            }
            format!("ON {scheme}_scheme(Col2)")
        } else {
            String::new()
        };
        build.push(big_data::create_table(&table, true, &place));
        build.push(big_data::copy_into(&table, "dbo.BigData", true));
        lab.ensure_table(&name, rows, &build)?;
        let both = [false, true].map(|latched_dealer| Plan {
            tuning: Tuning { latched_dealer, ..Tuning::default() },
            ..Plan::new(
                format!("sweep_{partitions}_partitions{}", if latched_dealer { "_latched_dealer" } else { "" }),
                format!(
                    "the heap in {}{}",
                    counted(partitions, "partition"),
                    if latched_dealer { ", a latch for each" } else { "" }
                ),
                &name,
                big_data::count_ten(&table),
                rows,
            )
        });
        cases.extend(run_plans(lab, &both, repeat)?);
        lab.run(&format!("DROP TABLE {table}"))?;
    }
    Ok(cases)
}

/// Notes about a run of [`scan_plans`].
pub(crate) fn notes(cases: &[Case]) -> Vec<String> {
    let mut notes = vec!["the text's table had 924,200,000 rows; compare rates, not times".to_owned()];
    if cases.iter().filter_map(|case| case.median("warm_s")).any(|warm| warm < SHORT_S) {
        notes.push("warm runs took less than 10 ms: more rows (--rows) give figures to rely on".to_owned());
    }
    notes
}

/// The marks, as far as these cases show their figures.
pub(crate) fn marks(cases: &[Case]) -> Vec<Mark> {
    let case = |name: &str| cases.iter().find(|case| case.name == name);
    let values = |name: &str, key: &str| case(name).map_or(&[][..], |case| case.values(key)).to_vec();
    let mut marks = Vec::new();
    let mut of_pairs = |name: &str, values: &[f64], bound: f64, at_least: bool, too_small: Option<String>| {
        let interval = median_interval(values);
        marks.extend(median(values).map(|value| Mark {
            name: name.to_owned(),
            value,
            bound,
            at_least,
            of: None,
            too_small,
            interval,
        }));
    };
    let small = |condition, names: &[&str]| {
        names.iter().filter_map(|name| case(name)).find_map(|case| case.too_small(condition))
    };
    let (cold, warm) = (Condition::Cold, Condition::Warm);
    of_pairs("cold heap scan over the disk", &values("heap", "cold_over_disk"), 0.95, true, small(cold, &["heap"]));
    // Runs of the same round are compared with each other.
    let ratios = |one: &str, other: &str, key: &str| -> Vec<f64> {
        values(one, key).iter().zip(values(other, key)).map(|(one, other)| one / other).collect()
    };
    for (name, one, other, bound) in [
        ("CPU of 24 partitions over one", "heap_24_partitions", "heap", 1.05),
        ("CPU of nullable over NOT NULL columns", "heap", "heap_not_null", 1.15),
    ] {
        of_pairs(name, &ratios(one, other, "cpu_s"), bound, false, small(warm, &[one, other]));
    }
    // Cold, because a warm scan hardly waits.
    let accounting = ratios("heap", "heap_without_accounting", "cold_cpu_s");
    let small = small(cold, &["heap", "heap_without_accounting"]);
    of_pairs("CPU of a cold scan with accounting over without", &accounting, 1.01, false, small);
    let at_most = |name: &str, value, bound, of, too_small| Mark {
        name: name.to_owned(),
        value,
        bound,
        at_least: false,
        of,
        too_small,
        interval: None,
    };
    let dealer = "ACCESS_METHODS_DATASET_PARENT";
    let waits = case("heap").map(|heap| heap.cold.latch_waits(dealer) + heap.warm.latch_waits(dealer));
    // On a table of any size, not a single wait is allowed.
    marks.extend(waits.map(|waits| at_most("dealer waits of the heap", waits, 0.0, None, None)));
    let unexplained = cases.iter().flat_map(|case| {
        let of = |condition: Condition| Some(format!("{}, {}", case.name, condition.name()));
        let name = "most unexplained time of a case, percent";
        // Below zero, some time is counted twice.
        case.unexplained().map(move |(condition, percent)| {
            at_most(name, percent.abs(), 3.0, of(condition), case.too_small(condition))
        })
    });
    marks.extend(worst(unexplained));
    let overdrawn = cases.iter().map(|case| {
        // It is not known which of its runs it was.
        let too_small = [cold, warm].into_iter().find_map(|condition| case.too_small(condition));
        at_most("CPU over the time of the threads", case.cpu_over_capacity(), 1.0, Some(case.name.clone()), too_small)
    });
    marks.extend(worst(overdrawn));
    marks
}

/// Of marks with the same upper limit: the worst one that is certainly missed, otherwise the worst one.
fn worst(marks: impl Iterator<Item = Mark>) -> Option<Mark> {
    marks.max_by(|a, b| {
        let missed = |mark: &Mark| mark.is_met() == Some(false);
        missed(a).cmp(&missed(b)).then(a.value.total_cmp(&b.value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(value: f64, is_small: bool) -> Mark {
        let too_small = is_small.then(|| "1 row, needs 2".to_owned());
        Mark { name: String::new(), value, bound: 3.0, at_least: false, of: None, too_small, interval: None }
    }

    #[test]
    fn what_is_missed_for_certain_is_worse_than_what_cannot_be_judged() {
        let found = |marks: &[Mark]| worst(marks.iter().cloned()).map(|mark| (mark.value, mark.is_met()));
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[mark(1.0, false), mark(2.0, true)]), Some((2.0, None)));
        assert_eq!(found(&[mark(1.0, false), mark(20.0, true)]), Some((20.0, None)));
        assert_eq!(found(&[mark(4.0, false), mark(20.0, true), mark(3.5, false)]), Some((4.0, Some(false))));
    }

    #[test]
    fn a_mark_is_decided_only_when_its_bound_lies_outside_the_interval() {
        let with = |value, low, high| {
            let interval = crate::MedianInterval { count: 12, low, high };
            Mark { interval: Some(interval), ..mark(value, false) }.is_met()
        };
        assert_eq!(with(2.5, 2.0, 2.9), Some(true));
        assert_eq!(with(2.5, 2.0, 3.1), None);
        assert_eq!(with(3.5, 2.0, 3.6), None);
        assert_eq!(with(3.5, 3.2, 3.6), Some(false));
    }
}
