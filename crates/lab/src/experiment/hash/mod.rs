//! `hash`: how fast hash functions are, and how evenly they spread keys, as in the second text.
//!
//! - Speed: `SELECT MAX(h) FROM (SELECT f(key) AS h FROM …) OPTION (MAXDOP 1)`, over ints and over strings, warm, the
//!   scan subtracted; and a loop over the crate of xxHash3, which the function is compared with.
//! - Spread: a million keys of four kinds, over 65,536 ranges of `int` by chi-square, and over 24 and 96 partitions.
//! - Both together are the text's quadrant.

mod functions;
mod grids;
mod speed;
mod spread;

use serde_json::{Map, json};

use super::Experiment;
use crate::error::Result;
use crate::figures::{median, median_interval};
use crate::laboratory::Laboratory;
use crate::limits::LimitSettings;
use crate::report::{Case, Grid, Mark, Report, SHORT_S, too_few_rows, too_short};

pub(super) struct HashExperiment;

/// Rows of timed keys in the text.
const WANTED_ROWS: u64 = 10_000_000;
/// Rows of spread keys in the text.
const SPREAD_ROWS: u64 = 1_000_000;
/// Approximate bytes of a row of the larger table.
const ROW_BYTES: u64 = 32;

impl Experiment for HashExperiment {
    fn name(&self) -> &'static str {
        "hash"
    }

    fn question(&self) -> &'static str {
        "How fast is each hash function, and how evenly does it spread keys over ranges and partitions?"
    }

    fn run(&self, lab: &mut Laboratory) -> Result<Report> {
        let rows = lab.rows_for(WANTED_ROWS, ROW_BYTES, 2)?;
        let repeat = lab.options().repeat.max(1);
        let mut timings = speed::timings(rows, &lab.options().cases.clone())?;
        let with_spread = lab.options().cases.is_empty();
        let spread_steps = if with_spread { spread::pairs().count() as u64 + 4 } else { 0 };
        let with_strings = speed::has_strings(&timings);
        let steps = (timings.len() * repeat) as u64 + 1 + u64::from(with_strings) + spread_steps;
        lab.progress().expect(LimitSettings::steps_beside() + steps);
        let limits = lab.limits(0)?;
        make_tables(lab, rows, with_strings)?;
        speed::measure(lab, &mut timings, repeat)?;
        let mut cases: Vec<Case> = timings.into_iter().map(|timing| timing.case).collect();
        let mut settings = Map::new();
        settings.insert("rows".to_owned(), json!(rows));
        settings.insert("repeat".to_owned(), json!(repeat));
        let mut marks: Vec<Mark> = ratio_mark(&cases, &mut settings).into_iter().collect();
        let mut tables = vec![grids::speed(&cases)];
        if with_spread {
            let spread_rows = rows.min(SPREAD_ROWS);
            settings.insert("spread_rows".to_owned(), json!(spread_rows));
            let random = spread::of_random(spread_rows);
            settings.insert("chi_square_of_random".to_owned(), json!(random));
            let spread_cases = spread_all(lab, spread_rows)?;
            marks.extend(spread_marks(&spread_cases, random, spread_rows));
            tables.extend([
                grids::ranges(&spread_cases, random),
                grids::partitions(&spread_cases),
                grids::quadrant(&cases, &spread_cases),
                distributed(lab)?,
            ]);
            cases.extend(spread_cases);
        }
        Ok(Report { marks, tables, cases, notes: notes(), ..self.report(lab, limits, settings) })
    }
}

fn notes() -> Vec<String> {
    vec![
        "ns a value is the time of the query less that of SELECT MAX(key), which the scan computes on its pages; no_hash is what \
         else a function in the place of a key costs: batches, the call, MAX over its results"
            .to_owned(),
        "a CRC is linear: it spreads keys in a row better than chance would, and other regular keys worse, by its polynomial"
            .to_owned(),
        format!(
            "chi-square: {} is the bound; far below it keys are spread more evenly than by chance, as remainders and CRCs do \
             with keys in a row",
            spread::EVEN
        ),
        "the text's figures are of a laptop of 2011 with SQL Server 2008 R2".to_owned(),
    ]
}

fn make_tables(lab: &mut Laboratory, rows: u64, with_strings: bool) -> Result<()> {
    let insert = |table: &str, value: &str| {
        format!("INSERT dbo.{table} WITH (TABLOCK) SELECT {value} FROM GENERATE_SERIES(1, {rows})")
    };
    let create = "CREATE TABLE dbo.CustKey (SK int NOT NULL)".to_owned();
    lab.ensure_table("CustKey", rows, &[create, insert("CustKey", "value")])?;
    if !with_strings {
        return Ok(());
    }
    let create = "CREATE TABLE dbo.CustName (Name nvarchar(20) NOT NULL)".to_owned();
    lab.ensure_table("CustName", rows, &[create, insert("CustName", &spread::name_of("value"))])
}

fn spread_all(lab: &mut Laboratory, rows: u64) -> Result<Vec<Case>> {
    lab.ensure_table("HashKeys", rows, &spread::keys_table(rows))?;
    let mut cases = Vec::new();
    for (function, key, of) in spread::pairs() {
        lab.progress().step(&spread::case_name(function.name, key));
        cases.push(spread::spread(lab, function, (key, of), rows)?);
    }
    Ok(cases)
}

/// The partitions into which the procedure puts the keys, from `sys.partitions`.
fn distributed(lab: &mut Laboratory) -> Result<Grid> {
    let mut rows = Vec::new();
    for partitions in spread::PARTITIONS {
        lab.progress().step(&format!("sp_hobt_hash_distribute over {partitions} partitions"));
        for (key, _) in spread::KEYS {
            rows.push((key, partitions, spread::distributed(lab, key, partitions)?));
        }
    }
    lab.progress().step("the hash experiment is done");
    Ok(grids::distributed(&rows))
}

/// The mark of speed. `None` if not everything that it needs was timed.
fn ratio_mark(cases: &[Case], settings: &mut Map<String, serde_json::Value>) -> Option<Mark> {
    let ratios = speed::ratios(cases)?;
    let value = median(&ratios.beyond_no_hash)?;
    settings.insert("hash_ratio".to_owned(), json!(value));
    settings.insert("hash_ratio_with_batches_and_call".to_owned(), json!(ratios.beyond_scan));
    let query_s = cases.iter().find(|case| case.name == "int_xxhash3")?.median("warm_s")?;
    Some(Mark {
        name: "xxHash3 of a column of ints, less the do-nothing function, over a loop over the crate".to_owned(),
        value,
        bound: 0.25,
        at_least: false,
        of: None,
        too_small: too_short(query_s, SHORT_S),
        interval: median_interval(&ratios.beyond_no_hash),
    })
}

fn spread_marks(cases: &[Case], random: f64, rows: u64) -> Vec<Mark> {
    let too_small = too_few_rows(rows, SPREAD_ROWS);
    let chi_square = |case: &Case| case.figures.get("chi_square").and_then(serde_json::Value::as_f64);
    let named = |name: &str| cases.iter().find(|case| case.name == name).and_then(chi_square);
    let mark = |name: &str, value: f64, bound: f64, at_least: bool, of: Option<String>| Mark {
        name: name.to_owned(),
        value,
        bound,
        at_least,
        of,
        too_small: too_small.clone(),
        interval: None,
    };
    let mut marks = Vec::new();
    let claiming = spread::pairs().filter(|(function, ..)| function.claims);
    let worst = claiming
        .filter_map(|(function, key, ..)| {
            let name = spread::case_name(function.name, key);
            named(&name).map(|value| (value, name))
        })
        .max_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((value, name)) = worst {
        marks.push(mark(
            "the largest chi-square of those that claim to be good",
            value,
            spread::EVEN,
            false,
            Some(name),
        ));
    }
    marks.push(mark("chi-square of random numbers", random, spread::EVEN, false, None));
    if let Some(value) = named("spread_checksum_sequential") {
        marks.push(mark("chi-square of CHECKSUM, which has to fail", value, spread::EVEN, true, None));
    }
    if let Some(value) = named("spread_modulo_sequential") {
        let off = (value.round() - 824.0).abs();
        marks.push(mark("chi-square of the remainder, off the text's 824 by", off, 0.0, false, None));
    }
    marks
}
