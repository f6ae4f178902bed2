//! A report as one self-contained page: style sheet and charts are inside, and there are no scripts.

use std::collections::BTreeSet;

use minijinja::{Environment, context};
use serde_json::Value;

use super::chart::{Bar, BarChart, Drawn, OTHER, REST};
use super::summary::Shares;
use super::{Case, Grid, Report, mark_text, verdict};
use crate::figures::{amount, thousands};

const TEMPLATE: &str = include_str!("page.html");

/// The page.
pub(super) fn page(report: &Report) -> String {
    let mut environment = Environment::new();
    // The extension of the name enables escaping.
    environment.add_template("page.html", TEMPLATE).expect("the template is sound");
    let template = environment.get_template("page.html").expect("it was added");
    let machine = &report.machine;
    let mut headline = report.headline().into_iter();
    template
        .render(context! {
            experiment => report.experiment,
            question => report.question,
            headline => headline.next(),
            further => headline.collect::<Vec<_>>(),
            made => report.made(),
            command => report.occasion.command,
            machine => format!(
                "{}, {} processors, {} MB of memory, {}, {}",
                machine.processor,
                machine.processors,
                thousands(machine.memory_bytes / 1_000_000),
                machine.system,
                machine.disk_kind,
            ),
            limits => report.machine_gives(),
            grids => report.grids().iter().map(grid_context).collect::<Vec<_>>(),
            charts => charts(report),
            marks => report.marks.iter().map(|mark| {
                let class = match mark.is_met() {
                    Some(true) => "met",
                    Some(false) => "missed",
                    None => "unjudged",
                };
                context! { class, verdict => verdict(mark), text => mark_text(mark) }
            }).collect::<Vec<_>>(),
            notes => report.all_notes(),
            cases => report.cases.iter().filter(|case| !case.statement.is_empty())
                .map(|case| context! { name => case.name, statement => case.statement }).collect::<Vec<_>>(),
            plans => report.cases.iter().filter_map(|case| Some((case, case.drawn_plan.as_ref()?)))
                .map(|(case, plan)| context! { name => case.name, plan }).collect::<Vec<_>>(),
            settings => settings("", &Value::Object(report.settings.clone())).join(", "),
        })
        .expect("the template's values are all given")
}

/// A table, with the class of its column for each cell.
fn grid_context(grid: &Grid) -> minijinja::Value {
    let class = |column: usize| if grid.prose.contains(&column) { "prose" } else { "" };
    let cells = |row: &[String]| -> Vec<minijinja::Value> {
        row.iter().enumerate().map(|(column, text)| context! { class => class(column), text }).collect()
    };
    context! { title => grid.title, headers => cells(&grid.headers), rows => grid.rows.iter().map(|row| cells(row)).collect::<Vec<_>>() }
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

/// The charts, that of the waits first.
fn charts(report: &Report) -> Vec<Drawn> {
    let cases = &report.cases;
    let warm = if report.compares_rates { warm_throughput(report) } else { warm_times(cases) };
    let charts = [time_split(cases), cold_throughput(report), warm, rows_by_worker(cases), read_sizes(cases)];
    charts.iter().filter_map(BarChart::drawn).collect()
}

/// Bars of one piece, of the cases that have it.
fn bars(cases: &[Case], figure: impl Fn(&Case) -> Option<f64>) -> Vec<Bar> {
    let bar = |case: &Case| Some(Bar { label: case.name.clone(), pieces: vec![figure(case)?] });
    cases.iter().filter_map(bar).collect()
}

/// For experiments that do not compare rates: a case that reads less than another must not look worse for it.
fn warm_times(cases: &[Case]) -> BarChart<'static> {
    BarChart {
        title: "Warm: time of a run",
        says: "Every page in memory, the median of all runs. A shorter bar is better.",
        legend: Vec::new(),
        bars: bars(cases, |case| Some(case.median("warm_s")? * 1e3)),
        is_of_shares: false,
        limit: None,
        unit: "ms",
    }
}

fn cold_throughput(report: &Report) -> BarChart<'static> {
    BarChart {
        title: "Cold: megabytes per second against the disk",
        says: "No page in memory. The dashed line is the disk's rate, the median of reads past every cache without a database, \
               beside the cold runs where there are any.",
        legend: Vec::new(),
        bars: bars(&report.cases, |case| case.cold_mb_s()),
        is_of_shares: false,
        limit: Some((report.disk_mb_s(), "the disk")),
        unit: "MB/s",
    }
}

fn warm_throughput(report: &Report) -> BarChart<'static> {
    BarChart {
        title: "Warm: gigabytes per second against memory",
        says: "Every page in memory. The dashed line is all cores reading memory; a scan that counts from page headers or \
               leaves columns out may lie above it, because it does not touch every byte.",
        legend: Vec::new(),
        bars: bars(&report.cases, Case::warm_gb_s),
        is_of_shares: false,
        limit: Some((report.limits.memory_read_gb_s_all_cores, "memory, all cores")),
        unit: "GB/s",
    }
}

/// Bars with the waits that the table names too, in the order of all cases together.
fn time_split(cases: &[Case]) -> BarChart<'static> {
    let timed: Vec<(&Case, Shares)> = cases.iter().filter_map(|case| Some((case, Shares::of([case])?))).collect();
    let named = |shares: &Shares, wait: &str| {
        shares.named_and_others().0.iter().find(|(name, _)| name == wait).map(|(_, share)| *share)
    };
    let mut waits = Shares::of(cases).map_or_else(Vec::new, |all| all.waits);
    waits.retain(|(wait, _)| timed.iter().any(|(_, shares)| named(shares, wait).is_some()));
    let bar = |(case, shares): &(&Case, Shares)| {
        let mut percents = vec![shares.cpu];
        percents.extend(waits.iter().map(|(wait, _)| named(shares, wait).unwrap_or(0.0)));
        percents.extend([shares.named_and_others().1, shares.unexplained.max(0.0)]);
        let pieces = percents.iter().map(|percent| percent / 100.0 * shares.threads_s).collect();
        Bar { label: case.name.clone(), pieces }
    };
    let bars = timed.iter().map(bar).collect();
    let mut legend = vec!["CPU".to_owned()];
    legend.extend(waits.into_iter().map(|(wait, _)| wait));
    legend.extend([OTHER, REST].map(str::to_owned));
    BarChart {
        title: "Where the threads' time went",
        says: "Shares of the threads' time in a run, on the average (cold runs where there are any): processor time, named \
               waits, and what neither explains. Beside each bar the seconds of all threads together.",
        bars,
        legend,
        is_of_shares: true,
        limit: None,
        unit: "s",
    }
}

fn rows_by_worker(cases: &[Case]) -> BarChart<'static> {
    let most = cases.iter().map(|case| case.main().last.rows_per_worker.len()).max().unwrap_or(0);
    let bars = cases.iter().filter(|case| !case.main().last.rows_per_worker.is_empty()).map(|case| Bar {
        label: case.name.clone(),
        pieces: case.main().last.rows_per_worker.iter().map(|rows| *rows as f64 / 1e6).collect(),
    });
    BarChart {
        title: "Rows by worker",
        says: "Equal pieces mean that no worker waited for another.",
        bars: bars.collect(),
        legend: (1..=most).map(|worker| format!("worker {worker}")).collect(),
        is_of_shares: false,
        limit: None,
        unit: "million rows",
    }
}

fn read_sizes(cases: &[Case]) -> BarChart<'static> {
    let mut sizes = BTreeSet::new();
    for case in cases {
        sizes.extend(case.cold.last.reads_by_size.keys().copied());
    }
    let bars = cases.iter().filter(|case| !case.cold.last.reads_by_size.is_empty()).map(|case| Bar {
        label: case.name.clone(),
        pieces: sizes.iter().map(|size| case.cold.last.reads_by_size.get(size).copied().unwrap_or(0) as f64).collect(),
    });
    BarChart {
        title: "Reads by size",
        says: "How many reads of each size class the cold run made.",
        bars: bars.collect(),
        legend: sizes.iter().map(|size| format!("from {} KiB", size / 1024)).collect(),
        is_of_shares: false,
        limit: None,
        unit: "reads",
    }
}
