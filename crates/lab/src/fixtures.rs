//! `hobt lab fixtures`: the tables that the texts' scripts require.

use std::path::Path;

use hobt_engine::InstanceSettings;

use crate::data::TpchTable;
use crate::error::Result;
use crate::figures::thousands;
use crate::laboratory::{BIG_DATA_STEPS, Laboratory, RunOptions, TPCH_STEPS};
use crate::progress::Progress;

/// The database used by the texts.
pub const FIXTURE_DATABASE: &str = "AdventureWorksDW2014";

/// The tables to create in addition to `DimCustomer`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct FixtureOptions {
    /// Rows of `BigData`, rounded up to a multiple of the number of customers.
    pub big_data_rows: Option<u64>,
    /// Scale factor of `LINEITEM`.
    pub line_item_scale: Option<f64>,
    /// Scale factor of the eight tables of TPC-H, created as heaps with the specification's names. `LINEITEM` is one of
    /// these names, so it cannot be combined with `line_item_scale`.
    pub tpch_scale: Option<f64>,
}

/// Creates the tables in the instance of a folder, and closes the instance. An existing table with the same number of
/// rows is kept. Returns a line for each table. Blocks.
///
/// # Errors
/// If the instance cannot be opened or a table cannot be created.
pub fn make_fixtures(folder: &Path, options: FixtureOptions, progress: Progress) -> Result<String> {
    let settings = InstanceSettings::default();
    let mut lab =
        Laboratory::open_database(folder, FIXTURE_DATABASE, settings, RunOptions::default(), progress.clone())?;
    let made = make(&mut lab, options);
    progress.finish();
    let closed = lab.close();
    let text = made?;
    closed?;
    Ok(text)
}

fn make(lab: &mut Laboratory, options: FixtureOptions) -> Result<String> {
    let line = |table: &str, rows: u64| format!("{FIXTURE_DATABASE}.dbo.{table}: {} rows\n", thousands(rows));
    let line_items = u64::from(options.line_item_scale.is_some());
    let big_data = if options.big_data_rows.is_some() { BIG_DATA_STEPS } else { 0 };
    let tpch = if options.tpch_scale.is_some() { TPCH_STEPS } else { 0 };
    lab.progress().expect(1 + line_items + big_data + tpch);
    lab.ensure_customers()?;
    let mut text = line("DimCustomer", lab.row_count("DimCustomer")?);
    if let Some(scale) = options.line_item_scale {
        text += &line("LINEITEM", lab.ensure_line_item(scale)?);
    }
    if let Some(scale) = options.tpch_scale {
        lab.ensure_tpch(scale)?;
        for table in TpchTable::ALL {
            text += &line(table.name(), lab.row_count(table.name())?);
        }
    }
    if let Some(rows) = options.big_data_rows {
        text += &line("BigData", lab.ensure_big_data(rows)?);
    }
    Ok(text)
}
