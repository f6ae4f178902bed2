//! `cores`: the table of seed 004. One core cannot process what the disk delivers; how much do more cores help?

use std::time::Instant;

use hobt_showplan::counted;
use serde_json::{Map, json};

use super::{Experiment, Plan, Tuning, plan_steps, run_plans};
use crate::data::test_guid;
use crate::error::{LabError, Result};
use crate::figures::{amount, median, median_interval, thousands};
use crate::laboratory::Laboratory;
use crate::limits::LimitSettings;
use crate::limits::memory::MemoryProbe;
use crate::machine;
use crate::report::{Case, Condition, Grid, Mark, Report};

pub(super) struct CoresExperiment;

/// Two gigabytes: more than a processor's cache holds.
const WANTED_ROWS: u64 = 2_000_000;

/// The text's figures by number of cores: bytes per read, reads per second, bytes per second, CPU ms, elapsed ms.
const OF_THE_TEXT: [(u64, u64, u64, u64, u64); 6] = [
    (411_619, 622, 256_306_080, 211_225, 228_679),
    (406_215, 1_244, 506_625_778, 216_249, 116_102),
    (407_495, 1_833, 746_940_222, 220_336, 78_957),
    (409_191, 2_392, 978_956_526, 223_797, 60_129),
    (408_588, 2_795, 1_142_225_279, 225_248, 51_388),
    (408_588, 3_270, 1_324_789_338, 229_429, 44_631),
];

/// The text's elapsed times, for a column of the general table.
const ELAPSED_OF_THE_TEXT: [&str; 6] = ["228.7 s", "116.1 s", "79.0 s", "60.1 s", "51.4 s", "44.6 s"];

impl Experiment for CoresExperiment {
    fn name(&self) -> &'static str {
        "cores"
    }

    fn question(&self) -> &'static str {
        "How does a scan that computes on every row grow with the cores, and is one parallel scan as good as many serial \
         ones at once?"
    }

    fn compares_rates(&self) -> bool {
        true
    }

    fn run(&self, lab: &mut Laboratory) -> Result<Report> {
        let rows = lab.rows_for(WANTED_ROWS, test_guid::ROW_BYTES, 1)?;
        let processors = hobt_instruments::processor::processor_count();
        let repeat = lab.options().repeat;
        let mut plans: Vec<Plan> = (1..=processors).map(|n| plan("dop", n, rows, test_guid::max_of_casts)).collect();
        plans.extend((1..=processors).map(|n| plan("count_dop", n, rows, test_guid::count)));
        // One table before the plans, and the serial scans after them.
        let other_steps = 1 + LimitSettings::steps_beside() + plan_steps(1, repeat);
        lab.progress().expect(other_steps + plan_steps(plans.len(), repeat));
        lab.ensure_table("TestGuid_HeapINSERT", rows, &[test_guid::create_table(), test_guid::fill(rows)])?;
        let limits = lab.limits(rows * test_guid::ROW_BYTES)?;
        let mut cases = run_plans(lab, &plans, repeat)?;
        let serial = serial_scans(lab, rows, processors, repeat)?;
        let memory = memory_ratios(limits.memory_bytes, processors, repeat);
        let marks = marks(&cases, &serial, &memory, processors);
        cases.push(serial);
        for case in &mut cases {
            if case.cold.count() > 0 {
                add_disk_figures(case);
            }
        }
        let tables = vec![of_the_texts_columns(&cases, processors), gains(&cases, processors)];
        let mut settings = Map::new();
        settings.insert("rows".to_owned(), json!(rows));
        settings.insert("repeat".to_owned(), json!(repeat));
        settings.insert("memory_ratios_all_cores_over_one".to_owned(), json!(memory));
        let notes = notes(processors).into_iter().chain(memory_note(&memory)).collect();
        Ok(Report { cases, marks, tables, notes, ..self.report(lab, limits, settings) })
    }
}

/// Notes about a run on this number of processors.
fn notes(processors: usize) -> Vec<String> {
    let mut notes = vec![format!(
        "the text's table had {} rows in 54 GB, its server six cores and 1 GB of memory",
        thousands(test_guid::ROWS_OF_THE_TEXT)
    )];
    let of_the_text = OF_THE_TEXT.len();
    if processors < of_the_text {
        notes.push(format!(
            "few cores: this machine has {processors} and the text's had {of_the_text}, so where the gain of a further \
             core ends cannot be seen here"
        ));
    }
    notes
}

/// The ratio of memory bandwidths that the marks use. The machine's limits were measured separately, and may give
/// another ratio.
fn memory_note(ratios: &[f64]) -> Option<String> {
    let ratio = amount(median(ratios)?);
    Some(format!(
        "all processors read memory {ratio} times as fast as one, the median of {} readings just before the marks, which \
         go by it; the machine's limits are readings of another moment",
        ratios.len()
    ))
}

fn plan(prefix: &str, cores: usize, rows: u64, statement: fn(&str) -> String) -> Plan {
    let (what, text) = if prefix == "dop" {
        ("computes on every row", ELAPSED_OF_THE_TEXT.get(cores - 1).copied())
    } else {
        ("counts rows", Some("1,135 MB/s whatever the cores"))
    };
    Plan {
        text,
        tuning: Tuning { processors: Some(cores), ..Tuning::default() },
        ..Plan::new(
            format!("{prefix}_{cores}"),
            format!("{what}, on {}", counted(cores as u64, "core")),
            "TestGuid_HeapINSERT",
            statement(&format!("OPTION (MAXDOP {cores})")),
            rows,
        )
    }
}

/// As many concurrent serial scans as there are processors, warm: all of the machine, without parallelism inside a
/// statement.
fn serial_scans(lab: &mut Laboratory, rows: u64, scans: usize, repeat: usize) -> Result<Case> {
    let statement = test_guid::max_of_casts("OPTION (MAXDOP 1)");
    let meaning = format!("{} at once, each computes on every row with one worker", counted(scans as u64, "scan"));
    let mut case = Case { meaning, rows, ..Case::new(format!("serial_scans_{scans}"), &statement) };
    let bytes: u64 = lab.stretches("TestGuid_HeapINSERT")?.iter().map(|stretch| stretch.bytes).sum();
    case.set_bytes(bytes * scans as u64);
    let mut sessions = Vec::new();
    for _ in 0..scans {
        sessions.push(lab.connect()?);
    }
    for repetition in 0..repeat.max(1) {
        lab.progress().step(&format!("{scans} serial scans at once, {} of {}", repetition + 1, repeat.max(1)));
        let since = Instant::now();
        let ended: Vec<Result<_>> = std::thread::scope(|scope| {
            let running: Vec<_> = sessions.iter_mut().map(|session| scope.spawn(|| session.run(&statement))).collect();
            running.into_iter().map(|thread| thread.join().expect("a session does not panic")).collect()
        });
        let elapsed = since.elapsed().as_secs_f64();
        for answer in ended {
            let answer = answer?;
            if answer.count() != Some(rows) {
                return Err(LabError::Wrong(format!("a serial scan answered {:?}, not {rows}", answer.count())));
            }
        }
        case.push("all_scans_s", elapsed);
        case.push("all_scans_mb_s", case.bytes() as f64 / 1e6 / elapsed);
    }
    Ok(case)
}

/// How much faster all processors together read memory than one alone, for each reading.
fn memory_ratios(bytes: u64, processors: usize, repeat: usize) -> Vec<f64> {
    let probe = MemoryProbe::new(bytes.min(machine::free_memory() / 2));
    (0..repeat.max(3)).map(|_| probe.read_gb_s(1)).map(|one| probe.read_gb_s(processors) / one).collect()
}

fn marks(cases: &[Case], serial: &Case, memory: &[f64], processors: usize) -> Vec<Mark> {
    let case = |name: String| cases.iter().find(|case| case.name == name);
    let warm = |case: Option<&Case>| case.map_or(Vec::new(), |case| case.values("warm_s").to_vec());
    let too_small = |case: Option<&Case>| case.and_then(|case| case.too_small(Condition::Warm));
    let mut marks = Vec::new();
    let Some(memory) = median(memory) else { return marks };
    for prefix in ["dop", "count_dop"] {
        let (one, all) = (case(format!("{prefix}_1")), case(format!("{prefix}_{processors}")));
        // Runs of the same round are compared with each other.
        let ratios: Vec<f64> = warm(one).iter().zip(warm(all)).map(|(one, all)| one / all / memory).collect();
        marks.extend(median(&ratios).map(|value| Mark {
            name: format!("{prefix}: {processors} workers over one, over the same ratio of a raw memory read"),
            value,
            bound: 0.95,
            at_least: true,
            of: None,
            too_small: too_small(one).or_else(|| too_small(all)),
            interval: median_interval(&ratios),
        }));
    }
    let parallel = case(format!("dop_{processors}"));
    let parallel_mb_s =
        parallel.and_then(|case| Some(case.bytes() as f64 / 1e6 / case.median("warm_s").filter(|it| *it > 0.0)?));
    if let (Some(parallel_mb_s), Some(serial)) = (parallel_mb_s, serial.median("all_scans_mb_s")) {
        marks.push(Mark {
            name: format!("one parallel scan over {processors} serial ones at once, by MB/s"),
            value: parallel_mb_s / serial,
            bound: 0.95,
            at_least: true,
            of: None,
            too_small: too_small(parallel),
            interval: None,
        });
    }
    marks
}

/// The columns of the text's table, from the last cold run.
fn add_disk_figures(case: &mut Case) {
    let last = &case.cold.last;
    let elapsed = last.elapsed_s.max(1e-9);
    let figures = [
        ("avg_disk_bytes_per_read", last.read_bytes as f64 / last.reads.max(1) as f64),
        ("avg_disk_s_per_read", last.read_latency_s),
        ("disk_reads_per_s", last.reads as f64 / elapsed),
        ("read_bytes_per_s", last.read_bytes as f64 / elapsed),
        ("logical_reads", last.logical_pages as f64),
        ("read_ahead_reads", last.read_ahead_pages as f64),
        ("cpu_ms", last.cpu_s * 1e3),
        ("elapsed_ms", last.elapsed_s * 1e3),
    ];
    for (key, value) in figures {
        case.figures.insert(key.to_owned(), json!(value));
    }
}

fn of_the_texts_columns(cases: &[Case], processors: usize) -> Grid {
    let headers = [
        "cores",
        "bytes/read",
        "s/read",
        "reads/s",
        "read bytes/s",
        "logical reads",
        "read-ahead reads",
        "CPU ms",
        "elapsed ms",
        "the text: read bytes/s",
        "CPU ms",
        "elapsed ms",
    ];
    let mut grid = Grid::new("MAX(CAST(expandrow AS bigint)), cold, in the text's columns", &headers);
    // The text's rows are shown even if this machine has fewer cores.
    for cores in 1..=processors.max(OF_THE_TEXT.len()) {
        let case = cases.iter().find(|case| case.name == format!("dop_{cores}"));
        let figure = |key: &str| case.and_then(|case| case.figures.get(key)).and_then(serde_json::Value::as_f64);
        let shown = |key: &str, text: fn(f64) -> String| figure(key).map_or_else(|| "-".to_owned(), text);
        let whole = |key: &str| shown(key, |value| thousands(value.round() as u64));
        let of_the_text = OF_THE_TEXT.get(cores - 1);
        let text = |value: fn(&(u64, u64, u64, u64, u64)) -> u64| {
            of_the_text.map_or_else(|| "-".to_owned(), |row| thousands(value(row)))
        };
        grid.rows.push(vec![
            cores.to_string(),
            whole("avg_disk_bytes_per_read"),
            shown("avg_disk_s_per_read", |value| format!("{value:.4}")),
            whole("disk_reads_per_s"),
            whole("read_bytes_per_s"),
            whole("logical_reads"),
            whole("read_ahead_reads"),
            whole("cpu_ms"),
            whole("elapsed_ms"),
            text(|row| row.2),
            text(|row| row.3),
            text(|row| row.4),
        ]);
    }
    grid
}

/// The gain from each additional core: the text's second table.
fn gains(cases: &[Case], processors: usize) -> Grid {
    let headers = ["cores", "elapsed ms, cold", "warm", "speed of one core, cold", "warm", "the text: elapsed ms"];
    let mut grid = Grid::new("What each core more brings", &headers);
    let median = |cores: usize, key: &str| {
        cases.iter().find(|case| case.name == format!("dop_{cores}")).and_then(|case| case.median(key))
    };
    for cores in 2..=processors.max(OF_THE_TEXT.len()) {
        let change = |key: &str| Some((median(cores, key)? - median(cores - 1, key)?) * 1e3);
        let speed = |key: &str| Some(median(1, key)? / median(cores, key)?.max(1e-9));
        let shown = |value: Option<f64>, text: fn(f64) -> String| value.map_or_else(|| "-".to_owned(), text);
        let of_the_text = match (OF_THE_TEXT.get(cores - 1), OF_THE_TEXT.get(cores - 2)) {
            (Some(this), Some(before)) => format!("-{}", thousands(before.4 - this.4)),
            _ => "-".to_owned(),
        };
        grid.rows.push(vec![
            cores.to_string(),
            shown(change("cold_s"), |change| format!("{change:.1}")),
            shown(change("warm_s"), |change| format!("{change:.1}")),
            shown(speed("cold_s"), |speed| format!("{} x", amount(speed))),
            shown(speed("warm_s"), |speed| format!("{} x", amount(speed))),
            of_the_text,
        ]);
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_cores_are_noted_and_the_texts_rows_stay() {
        assert!(notes(2).iter().any(|note| note.starts_with("few cores: this machine has 2")));
        assert_eq!(notes(6).len(), 1);
        assert!(memory_note(&[1.5, 2.0, 1.6]).is_some_and(|note| note.contains("1.60 times") && note.contains("of 3")));
        let cases = [Case::new("dop_1", ""), Case::new("dop_2", "")];
        let table = of_the_texts_columns(&cases, 2);
        assert_eq!(table.rows.len(), 6);
        assert_eq!(table.rows[5][..2], ["6", "-"]);
        assert_eq!(table.rows[5].last().map(String::as_str), Some("44,631"));
        assert_eq!(gains(&cases, 2).rows.last().and_then(|row| row.last()).map(String::as_str), Some("-6,757"));
        assert_eq!((of_the_texts_columns(&cases, 8).rows.len(), gains(&cases, 8).rows.len()), (8, 7));
    }
}
