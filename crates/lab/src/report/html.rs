//! A report as one self-contained page: style sheet and charts are inside, and there are no scripts.

use std::collections::BTreeSet;

use minijinja::{Environment, context};
use serde::Serialize;
use serde_json::Value;

use super::chart::{Bar, BarChart};
use super::{Case, Grid, Report, mark_text};
use crate::figures::{amount, thousands};

const TEMPLATE: &str = include_str!("page.html");

#[derive(Serialize)]
struct Chart {
    title: &'static str,
    says: &'static str,
    svg: String,
}

/// The page.
pub(super) fn page(report: &Report) -> String {
    let mut environment = Environment::new();
    // The extension of the name enables escaping.
    environment.add_template("page.html", TEMPLATE).expect("the template is sound");
    let template = environment.get_template("page.html").expect("it was added");
    let figure = |name: &str, value: String| context! { name, value };
    let limits = &report.limits;
    let machine = &report.machine;
    let notes = report
        .notes
        .iter()
        .cloned()
        .chain(report.cases.iter().flat_map(|case| case.notes.iter().map(|note| format!("{}: {note}", case.name))));
    template
        .render(context! {
            experiment => report.experiment,
            question => report.question,
            limits => [
                figure("disk, sequential read", format!("{} MB/s", amount(limits.disk_read_mb_s))),
                figure("disk, sequential write", format!("{} MB/s", amount(limits.disk_write_mb_s))),
                figure("disk, flushes", format!("{} /s", amount(limits.disk_flushes_per_s))),
                figure("memory, one core", format!("{} GB/s", amount(limits.memory_read_gb_s_1_core))),
                figure("memory, all cores", format!("{} GB/s", amount(limits.memory_read_gb_s_all_cores))),
            ],
            machine => format!(
                "{}, {} processors, {} MB of memory, {}, {}",
                machine.processor,
                machine.processors,
                thousands(machine.memory_bytes / 1_000_000),
                machine.system,
                machine.disk_kind,
            ),
            grids => report.grids().iter().map(grid_context).collect::<Vec<_>>(),
            charts => charts(report).into_iter().filter(|chart| !chart.svg.is_empty()).collect::<Vec<_>>(),
            marks => report.marks.iter().map(|mark| {
                let class = match mark.is_met() {
                    Some(true) => "met",
                    Some(false) => "missed",
                    None => "unjudged",
                };
                context! { class, text => mark_text(mark) }
            }).collect::<Vec<_>>(),
            notes => notes.collect::<Vec<_>>(),
            cases => report.cases.iter().filter(|case| !case.statement.is_empty())
                .map(|case| context! { name => case.name, statement => case.statement }).collect::<Vec<_>>(),
            version => machine.version,
            build => machine.build,
            settings => settings("", &Value::Object(report.settings.clone())).join(", "),
        })
        .expect("the template's values are all given")
}

/// A table, with the class of its column for each cell.
fn grid_context(grid: &Grid) -> minijinja::Value {
    let title = if grid.title.is_empty() { "Results" } else { &grid.title };
    let class = |column: usize| if grid.prose.contains(&column) { "prose" } else { "" };
    let cells = |row: &[String]| -> Vec<minijinja::Value> {
        row.iter().enumerate().map(|(column, text)| context! { class => class(column), text }).collect()
    };
    context! { title, headers => cells(&grid.headers), rows => grid.rows.iter().map(|row| cells(row)).collect::<Vec<_>>() }
}

/// Settings as `name value`. Those of an object follow the object's name.
fn settings(name: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Object(object) => object
            .iter()
            .flat_map(|(key, value)| {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                settings(&name, value)
            })
            .collect(),
        // Records are data, which the tables show.
        Value::Array(values) if values.iter().any(Value::is_object) => Vec::new(),
        Value::Array(values) => vec![format!("{name} {}", values.iter().map(setting).collect::<Vec<_>>().join(" / "))],
        value => vec![format!("{name} {}", setting(value))],
    }
}

fn setting(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_u64() {
            Some(whole) => thousands(whole),
            None => number.as_f64().map_or_else(|| number.to_string(), amount),
        },
        other => other.to_string(),
    }
}

fn charts(report: &Report) -> Vec<Chart> {
    vec![
        Chart {
            title: "Cold: megabytes per second against the disk",
            says: "No page in memory. The line is the disk read past every cache, without a database.",
            svg: cold_throughput(report),
        },
        warm(report),
        Chart {
            title: "Where the threads' time went",
            says: "Seconds of all threads together in a run, on the average (cold runs where there are any): processor \
                   time, named waits, and what neither explains.",
            svg: time_split(&report.cases),
        },
        Chart {
            title: "Rows by worker",
            says: "Equal pieces mean that no worker waited for another.",
            svg: rows_by_worker(&report.cases),
        },
        Chart {
            title: "Reads by size",
            says: "How many reads of each size class the cold run made.",
            svg: read_sizes(&report.cases),
        },
    ]
}

/// Depends on what the experiment compares: a case that reads less than another must not look worse for it.
fn warm(report: &Report) -> Chart {
    if report.compares_rates {
        return Chart {
            title: "Warm: gigabytes per second against memory",
            says: "Every page in memory. The line is all cores reading memory; a scan that counts from page headers or \
                   leaves columns out may lie above it, because it does not touch every byte.",
            svg: warm_throughput(report),
        };
    }
    Chart {
        title: "Warm: time of a run",
        says: "Every page in memory, the median of all runs. A shorter bar is better.",
        svg: warm_times(&report.cases),
    }
}

fn warm_times(cases: &[Case]) -> String {
    let bar = |case: &Case| Some(Bar { label: case.name.clone(), pieces: vec![case.median("warm_s")? * 1e3] });
    let bars = cases.iter().filter_map(bar).collect();
    BarChart { legend: Vec::new(), bars, limit: None, unit: "ms" }.to_svg()
}

fn cold_throughput(report: &Report) -> String {
    let bar = |case: &Case| Some(Bar { label: case.name.clone(), pieces: vec![case.median("cold_mb_s")?] });
    let limit = (report.limits.disk_read_mb_s, "the disk".to_owned());
    let bars = report.cases.iter().filter_map(bar).collect();
    BarChart { legend: Vec::new(), bars, limit: Some(limit), unit: "MB/s" }.to_svg()
}

fn warm_throughput(report: &Report) -> String {
    let bar = |case: &Case| {
        let rate = case.bytes() as f64 / 1e9 / case.median("warm_s")?.max(1e-9);
        Some(Bar { label: case.name.clone(), pieces: vec![rate] })
    };
    let limit = (report.limits.memory_read_gb_s_all_cores, "memory, all cores".to_owned());
    let bars = report.cases.iter().filter_map(bar).collect();
    BarChart { legend: Vec::new(), bars, limit: Some(limit), unit: "GB/s" }.to_svg()
}

fn time_split(cases: &[Case]) -> String {
    /// A wait with less than this part of the time of every case gets no colour.
    const SHOWN: f64 = 0.005;
    let whole = |case: &Case| case.main().mean_threads_s().filter(|whole| *whole > 0.0);
    let timed: Vec<(&Case, f64)> = cases.iter().filter_map(|case| Some((case, whole(case)?))).collect();
    let mut waits = BTreeSet::new();
    for (case, whole) in &timed {
        let shown = |time: f64| time / 1e3 >= SHOWN * whole;
        waits.extend(case.main().mean_waits_ms().into_iter().filter(|(_, time)| shown(*time)).map(|(name, _)| name));
    }
    let bars = timed.iter().map(|(case, whole)| {
        let of_case = case.main().mean_waits_ms();
        let wait = |name: &String| of_case.get(name).copied().unwrap_or(0.0) / 1e3;
        let mut pieces = vec![case.main().mean_cpu_s().unwrap_or(0.0)];
        pieces.extend(waits.iter().map(wait));
        pieces.push(of_case.iter().filter(|(name, _)| !waits.contains(*name)).map(|(_, time)| time / 1e3).sum());
        pieces.push((case.main().unexplained().unwrap_or(0.0) / 100.0 * whole).max(0.0));
        Bar { label: case.name.clone(), pieces }
    });
    let mut legend = vec!["CPU".to_owned()];
    legend.extend(waits.iter().cloned());
    legend.extend(["other waits".to_owned(), "unexplained".to_owned()]);
    BarChart { bars: bars.collect(), legend, limit: None, unit: "s" }.to_svg()
}

fn rows_by_worker(cases: &[Case]) -> String {
    let most = cases.iter().map(|case| case.main().last.rows_per_worker.len()).max().unwrap_or(0);
    let bars = cases.iter().filter(|case| !case.main().last.rows_per_worker.is_empty()).map(|case| Bar {
        label: case.name.clone(),
        pieces: case.main().last.rows_per_worker.iter().map(|rows| *rows as f64 / 1e6).collect(),
    });
    let legend = (1..=most).map(|worker| format!("worker {worker}")).collect();
    BarChart { bars: bars.collect(), legend, limit: None, unit: "million rows" }.to_svg()
}

fn read_sizes(cases: &[Case]) -> String {
    let mut sizes = BTreeSet::new();
    for case in cases {
        sizes.extend(case.cold.last.reads_by_size.keys().copied());
    }
    let bars = cases.iter().filter(|case| !case.cold.last.reads_by_size.is_empty()).map(|case| Bar {
        label: case.name.clone(),
        pieces: sizes.iter().map(|size| case.cold.last.reads_by_size.get(size).copied().unwrap_or(0) as f64).collect(),
    });
    let legend = sizes.iter().map(|size| format!("from {} KiB", size / 1024)).collect();
    BarChart { bars: bars.collect(), legend, limit: None, unit: "reads" }.to_svg()
}
