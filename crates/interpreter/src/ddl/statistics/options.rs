//! The `WITH` options of `CREATE STATISTICS` and `UPDATE STATISTICS`.

use hobt_base::{SqlError, errors};
use hobt_engine::SAID_MAX;
use hobt_tsql::ast::{Literal, OptionItem, OptionValue};

/// The size of a sample.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Sample {
    /// `SAMPLE n PERCENT`, more than 0 and less than 100.
    Percent(f64),
    /// `SAMPLE n ROWS`.
    Rows(u64),
}

impl Sample {
    /// The sample's share of a table with this many rows, from 0 to 1.
    pub(super) fn share_of(&self, rows: f64) -> f64 {
        let share = match self {
            Sample::Percent(percent) => percent / 100.0,
            Sample::Rows(sampled) => *sampled as f64 / rows.max(1.0),
        };
        share.min(1.0)
    }
}

/// How much of the rows to read.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) enum Reading {
    /// Depends on the table's size.
    #[default]
    Default,
    /// `FULLSCAN`.
    Whole,
    /// `SAMPLE`.
    Sample(Sample),
    /// `RESAMPLE`: as in the last update.
    Again,
}

/// Which statistics of a table are updated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Kinds {
    /// `ALL`, or unspecified.
    #[default]
    All,
    /// `COLUMNS`.
    Columns,
    /// `INDEX`.
    Indexes,
}

/// The statement that the options belong to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verb {
    /// `CREATE STATISTICS`, which accepts fewer options.
    Create,
    /// `UPDATE STATISTICS`.
    Update,
}

impl Verb {
    fn name(self) -> &'static str {
        match self {
            Verb::Create => "CREATE STATISTICS",
            Verb::Update => "UPDATE STATISTICS",
        }
    }

    /// Whether the statement accepts an option of this name, if there is one.
    fn takes(self, option: &str) -> bool {
        let of_update = ["RESAMPLE", "ALL", "COLUMNS", "INDEX", "ROWCOUNT", "PAGECOUNT"];
        self == Verb::Update || !of_update.contains(&option)
    }
}

/// The parsed options.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Options {
    pub(super) reading: Reading,
    /// `PERSIST_SAMPLE_PERCENT`.
    pub(super) persists_sample: Option<bool>,
    pub(super) kinds: Kinds,
    pub(super) no_recompute: bool,
    pub(super) incremental: Option<bool>,
    /// `AUTO_DROP`.
    pub(super) auto_drop: Option<bool>,
    pub(super) max_dop: Option<u32>,
    /// `ROWCOUNT`: the number of rows that the optimiser assumes for the table.
    pub(super) row_count: Option<u64>,
    /// `PAGECOUNT`: the number of pages that the optimiser assumes.
    pub(super) page_count: Option<u64>,
    /// `STATS_STREAM`.
    pub(super) stream: Option<Vec<u8>>,
    /// `ON PARTITIONS` after `RESAMPLE`: ranges from 1, including their last.
    pub(super) partitions: Vec<hobt_tsql::ast::PartitionRange>,
}

fn unknown(verb: Verb, item: &OptionItem) -> SqlError {
    errors::UNKNOWN_OPTION.with([&item.name, &verb.name()]).at(item.span.position)
}

fn wrong_value(item: &OptionItem) -> SqlError {
    errors::OPTION_VALUE.with([&item.name]).at(item.span.position)
}

fn whole_number(item: &OptionItem) -> Result<u64, SqlError> {
    match &item.value {
        OptionValue::Literal(Literal::Integer(number)) => u64::try_from(*number).map_err(|_| wrong_value(item)),
        _ => Err(wrong_value(item)),
    }
}

/// A number of rows or pages that is set for a table.
fn said_count(item: &OptionItem) -> Result<u64, SqlError> {
    // An integer too large for the integer types is parsed as a decimal.
    let is_great = match &item.value {
        OptionValue::Literal(Literal::Integer(number)) => u64::try_from(*number).is_ok_and(|number| number > SAID_MAX),
        OptionValue::Literal(Literal::Decimal(digits)) => digits.bytes().all(|byte| byte.is_ascii_digit()),
        _ => false,
    };
    if is_great {
        return Err(errors::OPTION_OUT_OF_RANGE.with([&item.name, &SAID_MAX]).at(item.span.position));
    }
    whole_number(item)
}

fn switch(item: &OptionItem) -> Result<bool, SqlError> {
    match &item.value {
        OptionValue::On => Ok(true),
        OptionValue::Off => Ok(false),
        _ => Err(wrong_value(item)),
    }
}

fn sample(item: &OptionItem) -> Result<Reading, SqlError> {
    let OptionValue::Quantity { amount, unit } = &item.value else { return Err(wrong_value(item)) };
    match (unit.as_str(), amount) {
        ("PERCENT", Literal::Integer(_) | Literal::Decimal(_)) => {
            let percent = match amount {
                Literal::Integer(number) => *number as f64,
                Literal::Decimal(number) => number.parse().map_err(|_| wrong_value(item))?,
                _ => return Err(wrong_value(item)),
            };
            if !(0.0..=100.0).contains(&percent) {
                return Err(errors::SAMPLE_PERCENT.with([&percent]).at(item.span.position));
            }
            Ok(if percent == 100.0 { Reading::Whole } else { Reading::Sample(Sample::Percent(percent)) })
        }
        // Like 0 percent: no rows.
        ("ROWS", Literal::Integer(0)) => Ok(Reading::Sample(Sample::Percent(0.0))),
        ("ROWS", Literal::Integer(rows)) => {
            let rows = u64::try_from(*rows).map_err(|_| wrong_value(item))?;
            Ok(Reading::Sample(Sample::Rows(rows)))
        }
        _ => Err(wrong_value(item)),
    }
}

impl Options {
    /// Parses a list of options.
    ///
    /// # Errors
    /// 102, 155, 156; 1052 if two of them contradict each other.
    pub(super) fn of(verb: Verb, items: &[OptionItem]) -> Result<Options, SqlError> {
        let mut options = Options::default();
        for item in items {
            let before = options.reading.clone();
            if !item.partitions.is_empty() && item.name != "RESAMPLE" {
                return Err(errors::PARTITIONS_WITHOUT_RESAMPLE.error().at(item.span.position));
            }
            match item.name.as_str() {
                name if !verb.takes(name) => return Err(unknown(verb, item)),
                "FULLSCAN" => options.reading = Reading::Whole,
                "SAMPLE" => options.reading = sample(item)?,
                "RESAMPLE" => {
                    options.reading = Reading::Again;
                    options.partitions.clone_from(&item.partitions);
                }
                "PERSIST_SAMPLE_PERCENT" => options.persists_sample = Some(switch(item)?),
                "ALL" => options.kinds = Kinds::All,
                "COLUMNS" => options.kinds = Kinds::Columns,
                "INDEX" => options.kinds = Kinds::Indexes,
                "NORECOMPUTE" => options.no_recompute = true,
                "INCREMENTAL" => options.incremental = Some(switch(item)?),
                "AUTO_DROP" => options.auto_drop = Some(switch(item)?),
                "MAXDOP" => options.max_dop = Some(u32::try_from(whole_number(item)?).map_err(|_| wrong_value(item))?),
                "ROWCOUNT" => options.row_count = Some(said_count(item)?),
                "PAGECOUNT" => options.page_count = Some(said_count(item)?),
                "STATS_STREAM" => match &item.value {
                    OptionValue::Literal(Literal::Binary(bytes)) => options.stream = Some(bytes.to_vec()),
                    _ => return Err(wrong_value(item)),
                },
                _ => return Err(unknown(verb, item)),
            }
            if before != Reading::Default && before != options.reading {
                let what = match verb {
                    Verb::Create => "FULLSCAN and SAMPLE",
                    Verb::Update => "FULLSCAN, SAMPLE and RESAMPLE",
                };
                return Err(errors::CONFLICTING_OPTIONS.with([&verb.name(), &what]).at(item.span.position));
            }
        }
        Ok(options)
    }

    /// Whether counts are set.
    pub(super) fn sets_counts(&self) -> bool {
        self.row_count.is_some() || self.page_count.is_some()
    }

    /// Whether nothing is read, because only counts are set and no sampling option is given.
    pub(super) fn sets_counts_alone(&self) -> bool {
        self.sets_counts() && self.stream.is_none() && self.reading == Reading::Default
    }
}
