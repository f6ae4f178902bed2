//! `DBCC SHOW_STATISTICS`: the contents of a statistics object, as four result sets or the requested ones.

use std::sync::Arc;

use hobt_base::{HobtId, Position, SqlError, errors};
use hobt_catalog::{Statistics, StatisticsStream, Table, name_equals, value_from_bytes};
use hobt_engine::{DatabaseUse, no_such_statistics};
use hobt_tsql::ast::OptionItem;
use hobt_types::statistics::Summary;
use hobt_types::{MaxLength, SqlType, TypedValue, Value};

use super::NAME;
use crate::dbcc::Maintenance;
use crate::ddl::statistics::statistics_types;
use crate::failure::Failure;

/// The result sets, in the order in which they are sent.
const PARTS: [&str; 4] = ["STAT_HEADER", "DENSITY_VECTOR", "HISTOGRAM", "STATS_STREAM"];

/// A statistics object, and its current contents.
struct Shown {
    database: DatabaseUse,
    table: Arc<Table>,
    statistics: Arc<Statistics>,
    summary: Arc<Summary>,
    types: Vec<SqlType>,
}

impl Maintenance<'_, '_> {
    /// `DBCC SHOW_STATISTICS (table, statistics) [WITH …]`. A column's name finds statistics whose first column it is.
    ///
    /// # Errors
    /// 155, 2501, 2767; 2583 for a wrong number of arguments.
    pub(super) fn show_statistics(
        &mut self,
        arguments: &[Value],
        options: &[OptionItem],
        position: Position,
    ) -> Result<(), Failure> {
        let [table, Value::Text(target)] = arguments else {
            return Err(errors::DBCC_ARGUMENT_COUNT.error().at(position).into());
        };
        let is_known = |item: &&OptionItem| item.name == "NO_INFOMSGS" || PARTS.contains(&item.name.as_str());
        if let Some(other) = options.iter().find(|item| !is_known(item)) {
            return Err(errors::UNKNOWN_OPTION
                .with([&other.name, &"DBCC SHOW_STATISTICS"])
                .at(other.span.position)
                .into());
        }
        let (place, table) = self.table_to_check(table, position)?;
        let snapshot = place.database.snapshot();
        let known = snapshot.statistics_of(&table);
        let named = known.iter().find(|each| name_equals(&each.name, target));
        let of_column = || {
            let column = table.column_named(target).map(|place| table.columns[place].id);
            let begins = |each: &&Arc<Statistics>| column.is_some() && each.columns.first().copied() == column;
            // Unfiltered statistics are preferred. Filtered ones are used only if there are no others.
            known.iter().filter(begins).min_by_key(|each| each.filter.is_some())
        };
        let Some(statistics) = named.or_else(of_column).cloned() else {
            return Err(no_such_statistics(target).at(position).into());
        };
        let hobts: Vec<HobtId> = table.base_index().partitions.iter().map(|partition| partition.hobt).collect();
        let database = place.database.database();
        let summary = database.statistics_state(&statistics, &hobts).summary;
        let types = statistics_types(&table, &statistics);
        let shown = Shown { database: place.database.clone(), table, statistics, summary, types };
        let wanted: Vec<&str> = PARTS.into_iter().filter(|part| OptionItem::find(options, part).is_some()).collect();
        if wanted.is_empty() {
            return [0, 1, 2].into_iter().try_for_each(|part| self.send_part(&shown, PARTS[part]));
        }
        wanted.into_iter().try_for_each(|part| self.send_part(&shown, part))
    }

    fn send_part(&mut self, shown: &Shown, part: &str) -> Result<(), Failure> {
        match part {
            "STAT_HEADER" => {
                let updated = self.updated(&shown.statistics)?;
                self.batch.send_values(&HEADER, vec![shown.header(updated)])?
            }
            "DENSITY_VECTOR" => self.batch.send_values(&DENSITY_VECTOR, shown.density_vector())?,
            "HISTOGRAM" => {
                let columns = histogram_columns(shown.types[0]);
                self.batch.send_values(&columns, shown.histogram()?)?
            }
            _ => self.batch.send_values(&STREAM, vec![shown.stream()])?,
        };
        Ok(())
    }

    /// The time of the last update, as SQL Server prints it.
    fn updated(&self, statistics: &Statistics) -> Result<Value, SqlError> {
        let Some(updated) = statistics.updated else { return Ok(Value::Null) };
        let exact = TypedValue { sql_type: SqlType::DateTime2 { scale: 7 }, value: Value::Int(updated) };
        let value = self.batch.convert(exact, SqlType::DateTime)?;
        self.batch.convert(TypedValue { sql_type: SqlType::DateTime, value }, UPDATED)
    }
}

/// The type of the update time: `nvarchar`.
const UPDATED: SqlType = SqlType::NVarChar(MaxLength::Limited(20));

const HEADER: [(&str, SqlType); 11] = [
    ("Name", NAME),
    ("Updated", UPDATED),
    ("Rows", SqlType::BigInt),
    ("Rows Sampled", SqlType::BigInt),
    ("Steps", SqlType::SmallInt),
    ("Density", SqlType::Real),
    ("Average key length", SqlType::Real),
    ("String Index", SqlType::NVarChar(MaxLength::Limited(3))),
    ("Filter Expression", SqlType::NVarChar(MaxLength::Max)),
    ("Unfiltered Rows", SqlType::BigInt),
    ("Persisted Sample Percent", SqlType::Float),
];

const DENSITY_VECTOR: [(&str, SqlType); 3] =
    [("All density", SqlType::Real), ("Average Length", SqlType::Real), ("Columns", SqlType::NVarChar(MaxLength::Max))];

const STREAM: [(&str, SqlType); 3] =
    [("Stats_Stream", SqlType::VarBinary(MaxLength::Max)), ("Rows", SqlType::BigInt), ("Data Pages", SqlType::BigInt)];

fn histogram_columns(key: SqlType) -> [(&'static str, SqlType); 5] {
    [
        ("RANGE_HI_KEY", key),
        ("RANGE_ROWS", SqlType::Real),
        ("EQ_ROWS", SqlType::Real),
        ("DISTINCT_RANGE_ROWS", SqlType::BigInt),
        ("AVG_RANGE_ROWS", SqlType::Real),
    ]
}

fn whole(number: f64) -> Value {
    Value::Int(number.round() as i64)
}

fn real(number: f64) -> Value {
    Value::Float(f64::from(number as f32))
}

impl Shown {
    fn header(&self, updated: Value) -> Vec<Value> {
        let (statistics, summary) = (&self.statistics, &self.summary);
        if statistics.updated.is_none() && summary.rows <= 0.0 {
            // Statistics without contents: one row with only the name, as in SQL Server.
            let mut row = vec![Value::Null; HEADER.len()];
            row[0] = Value::Text(statistics.name.clone());
            return row;
        }
        let steps = summary.histogram.steps();
        let inner: f64 = steps.iter().map(|step| step.distinct_range_rows).sum();
        vec![
            Value::Text(statistics.name.clone()),
            updated,
            whole(summary.rows),
            whole(summary.sampled_rows),
            Value::Int(i64::try_from(steps.len()).unwrap_or(i64::MAX)),
            real(if inner > 0.0 { 1.0 / inner } else { 0.0 }),
            real(summary.average_bytes(statistics.columns.len())),
            // Whether `LIKE` with a prefix is estimated from the histogram.
            Value::Text(if self.types[0].is_text() { "YES" } else { "NO" }.to_owned()),
            statistics.filter.clone().map_or(Value::Null, Value::Text),
            match statistics.filter {
                Some(_) => Value::Int(statistics.unfiltered_rows),
                None => whole(summary.rows),
            },
            Value::Float(f64::from(statistics.sample_millionths) / 10_000.0),
        ]
    }

    fn density_vector(&self) -> Vec<Vec<Value>> {
        if self.summary.rows <= 0.0 {
            return Vec::new();
        }
        let places = self.statistics.columns_in(&self.table).unwrap_or_default();
        let names: Vec<&str> = places.iter().map(|place| self.table.columns[*place].name.as_str()).collect();
        let row = |prefix: usize| {
            vec![
                real(self.summary.density(prefix)),
                real(self.summary.average_bytes(prefix)),
                Value::Text(names[..prefix].join(", ")),
            ]
        };
        (1..=names.len()).filter(|prefix| self.summary.knows(*prefix)).map(row).collect()
    }

    fn histogram(&self) -> Result<Vec<Vec<Value>>, SqlError> {
        let row = |step: &hobt_types::statistics::Step| {
            let key = value_from_bytes(self.types[0], step.value.as_deref());
            Ok(vec![
                key.map_err(|error| SqlError::internal(error.to_string()))?,
                real(step.range_rows),
                real(step.equal_rows),
                whole(step.distinct_range_rows),
                real(step.average_range_rows()),
            ])
        };
        self.summary.histogram.steps().iter().map(row).collect()
    }

    fn stream(&self) -> Vec<Value> {
        let stream = StatisticsStream {
            types: self.types.clone(),
            unfiltered_rows: self.summary.rows.round() as i64,
            updated: self.statistics.updated.unwrap_or_default(),
            summary: Summary::clone(&self.summary),
        };
        let database = self.database.database();
        let stores =
            self.table.base_index().partitions.iter().filter_map(|part| database.store_to_read(part.hobt).ok());
        let pages = stores.map(|store| database.expected_data_pages(&store)).fold(0, u64::saturating_add);
        let big = |count: u64| Value::Int(i64::try_from(count).unwrap_or(i64::MAX));
        vec![
            Value::Binary(stream.encode()),
            whole(database.said_rows(&self.table).map_or(self.summary.rows, |rows| rows as f64)),
            big(pages),
        ]
    }
}
