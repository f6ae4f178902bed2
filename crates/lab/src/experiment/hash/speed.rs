//! Nanoseconds per value: the text's query around each function, with the scan subtracted, and a plain loop over the
//! crate.

use std::hint::black_box;
use std::time::{Duration, Instant};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int32Type;
use serde_json::json;
use xxhash_rust::xxh3::xxh3_64;

use super::functions::{FUNCTIONS, KeyType};
use crate::error::{LabError, Result};
use crate::figures::median;
use crate::laboratory::Laboratory;
use crate::measure::measure_warm;
use crate::report::Case;

/// A case whose first run takes this long is not repeated.
const LONG: Duration = Duration::from_secs(10);
/// The series of nanoseconds per value.
pub(super) const NS: &str = "ns_per_value";

/// What is timed.
pub(super) struct Timing {
    pub(super) case: Case,
    kind: Kind,
    answer: Option<Vec<Option<String>>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// The text's query.
    Query(KeyType),
    /// A loop over the crate that keeps the greatest hash, as the query does.
    LoopMax,
    /// A loop that keeps all hashes of a batch.
    LoopFill,
}

impl Timing {
    fn query(name: &str, of: KeyType, statement: String, rows: u64, text: Option<&'static str>) -> Timing {
        let prefix = if of == KeyType::Int { "int" } else { "string" };
        let mut case = Case { rows, ..Case::new(format!("{prefix}_{name}"), statement) };
        if let Some(text) = text {
            case.figures.insert("text_says".to_owned(), json!(text));
        }
        Timing { case, kind: Kind::Query(of), answer: None }
    }
}

/// All cases, or those named in `wanted` and the ones that they are compared with.
///
/// # Errors
/// If no case has one of the names.
pub(super) fn timings(rows: u64, wanted: &[String]) -> Result<Vec<Timing>> {
    let mut all = Vec::new();
    for (of, table, column, scan) in
        [(KeyType::Int, "CustKey", "SK", "SK"), (KeyType::Text, "CustName", "Name", "LEN(Name)")]
    {
        let query = |what: &str| {
            format!("SELECT MAX(h) FROM (SELECT {what} AS h FROM dbo.{table}) AS noRows OPTION (MAXDOP 1)")
        };
        all.push(Timing::query("scan", of, query(scan), rows, None));
        for function in &FUNCTIONS {
            let Some(expression) = function.timed(column, of) else { continue };
            let text = function.text.filter(|_| of == KeyType::Int);
            all.push(Timing::query(function.name, of, query(&expression), rows, text));
        }
    }
    for (kind, name, what) in [
        (Kind::LoopMax, "loop_xxhash3", "the greatest xxh3_64 of the same four bytes, in a loop over the crate"),
        (
            Kind::LoopFill,
            "loop_xxhash3_kept",
            "xxh3_64 of the same four bytes, in a loop over the crate that keeps all",
        ),
    ] {
        all.push(Timing { case: Case { rows, ..Case::new(name, what) }, kind, answer: None });
    }
    if let Some(name) = wanted.iter().find(|name| all.iter().all(|timing| timing.case.name != **name)) {
        let known: Vec<&str> = all.iter().map(|timing| timing.case.name.as_str()).collect();
        return Err(LabError::Input(format!("there is no case {name}. Known are {}.", known.join(", "))));
    }
    if !wanted.is_empty() {
        let with_strings = wanted.iter().any(|name| name.starts_with("string_"));
        let is_base = |name: &str| match name {
            "int_scan" | "int_no_hash" => true,
            "string_scan" | "string_no_hash" => with_strings,
            _ => name.starts_with("loop_"),
        };
        all.retain(|timing| is_base(&timing.case.name) || wanted.contains(&timing.case.name));
    }
    Ok(all)
}

/// Whether strings are timed too.
pub(super) fn has_strings(timings: &[Timing]) -> bool {
    timings.iter().any(|timing| timing.kind == Kind::Query(KeyType::Text))
}

/// Measures all cases in turn, reversing the order each time.
///
/// # Errors
/// If a statement failed, or gave another answer than before or than the loop.
pub(super) fn measure(lab: &mut Laboratory, timings: &mut [Timing], repeat: usize) -> Result<()> {
    let keys = lab.run("SELECT SK FROM dbo.CustKey")?.batches;
    for repetition in 0..repeat {
        let mut order: Vec<usize> = (0..timings.len()).collect();
        if repetition % 2 == 1 {
            order.reverse();
        }
        for place in order {
            let timing = &mut timings[place];
            lab.progress().step(&format!("{}, {} of {repeat}", timing.case.name, repetition + 1));
            let is_long = timing.case.values("warm_s").first().is_some_and(|first| *first >= LONG.as_secs_f64());
            if is_long {
                timing.case.note("not repeated: it takes more than ten seconds");
            } else {
                measure_one(lab, timing, &keys)?;
            }
        }
    }
    subtract_scans(timings);
    check_loop(timings)
}

fn measure_one(lab: &mut Laboratory, timing: &mut Timing, keys: &[RecordBatch]) -> Result<()> {
    let answer = match timing.kind {
        Kind::Query(_) => {
            let measured = measure_warm(lab, &timing.case.statement)?;
            let answer = measured.answer.clone();
            timing.case.add_warm(measured);
            answer
        }
        Kind::LoopMax | Kind::LoopFill => {
            let since = Instant::now();
            let greatest = if timing.kind == Kind::LoopMax { loop_max(keys) } else { loop_fill(keys) };
            let elapsed = since.elapsed().as_nanos() as f64;
            timing.case.push(NS, elapsed / timing.case.rows.max(1) as f64);
            vec![greatest.map(|hash| hash.to_string())]
        }
    };
    let first = timing.answer.get_or_insert_with(|| answer.clone());
    if *first != answer {
        return Err(LabError::Wrong(format!("{} answered {first:?} and later {answer:?}", timing.case.name)));
    }
    Ok(())
}

fn values(keys: &[RecordBatch]) -> impl Iterator<Item = &[i32]> {
    keys.iter().map(|batch| &**batch.column(0).as_primitive::<Int32Type>().values())
}

fn loop_max(keys: &[RecordBatch]) -> Option<i64> {
    let mut greatest = None;
    for values in values(keys) {
        let hashes = values.iter().map(|value| xxh3_64(&value.to_be_bytes()).cast_signed());
        greatest = greatest.max(hashes.max());
    }
    greatest
}

/// The greatest of the first hashes of all batches. The hashes are computed and not used otherwise.
fn loop_fill(keys: &[RecordBatch]) -> Option<i64> {
    let mut hashes: Vec<i64> = Vec::new();
    let mut greatest = None;
    for values in values(keys) {
        hashes.clear();
        hashes.extend(values.iter().map(|value| xxh3_64(&value.to_be_bytes()).cast_signed()));
        greatest = greatest.max(black_box(&hashes).first().copied());
    }
    greatest
}

/// Subtracts the median time of the scan from each query's time.
fn subtract_scans(timings: &mut [Timing]) {
    for (of, scan) in [(KeyType::Int, "int_scan"), (KeyType::Text, "string_scan")] {
        let scan = timings.iter().find(|timing| timing.case.name == scan);
        let Some(scan_s) = scan.and_then(|timing| timing.case.median("warm_s")) else { continue };
        for timing in timings.iter_mut().filter(|timing| timing.kind == Kind::Query(of)) {
            let rows = timing.case.rows.max(1) as f64;
            for elapsed in timing.case.values("warm_s").to_vec() {
                timing.case.push(NS, (elapsed - scan_s) / rows * 1e9);
            }
        }
    }
}

/// Checks that the loop over the crate and the function computed the same hashes.
fn check_loop(timings: &[Timing]) -> Result<()> {
    let answer = |name: &str| timings.iter().find(|timing| timing.case.name == name).map(|timing| &timing.answer);
    match (answer("int_xxhash3"), answer("loop_xxhash3")) {
        (Some(function), Some(crates)) if function != crates => Err(LabError::Wrong(format!(
            "hobt_xxhash3 has {function:?} as its greatest value and the crate {crates:?}"
        ))),
        _ => Ok(()),
    }
}

/// The time of xxHash3 on a column of ints over that of the loop: with the do-nothing function subtracted, and with the
/// scan subtracted.
pub(super) struct Ratios {
    pub(super) beyond_no_hash: Vec<f64>,
    pub(super) beyond_scan: f64,
}

/// `None` if not everything that it needs was timed.
pub(super) fn ratios(cases: &[Case]) -> Option<Ratios> {
    let ns = |name: &str| cases.iter().find(|case| case.name == name).map(|case| case.values(NS));
    let (hash, nothing, plain) = (ns("int_xxhash3")?, ns("int_no_hash")?, ns("loop_xxhash3")?);
    let of_repetition = |((hash, nothing), plain): ((&f64, &f64), &f64)| (hash - nothing) / plain;
    Some(Ratios {
        beyond_no_hash: hash.iter().zip(nothing).zip(plain).map(of_repetition).collect(),
        beyond_scan: median(hash)? / median(plain)?,
    })
}
