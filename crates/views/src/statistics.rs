//! Statistics objects, their columns and their contents.

use hobt_base::{HobtId, SqlError};
use hobt_catalog::{Statistics, StatisticsOrigin, Table, value_from_bytes};
use hobt_engine::{StatisticsState, statistics_type};
use hobt_functions::value_text;
use hobt_interpreter::ViewContext;
use hobt_types::statistics::Summary;
use hobt_types::{SqlType, Value};

use crate::catalog::sorted_tables;
use crate::value::{NULL, row};
use crate::{Definition, Rows, Sources};

pub(super) static VIEWS: &[Definition] = &[
    Definition::sys(
        "stats",
        "object_id int!, name sysname, stats_id int!, auto_created bit, user_created bit, no_recompute bit, \
         has_filter bit, filter_definition nvarchar(max), is_temporary bit, is_incremental bit, \
         has_persisted_sample bit, stats_generation_method int!, stats_generation_method_desc varchar(80)!, auto_drop bit",
        stats,
    ),
    Definition::sys(
        "stats_columns",
        "object_id int!, stats_id int!, stats_column_id int!, column_id int!",
        stats_columns,
    ),
    // The functions dm_db_stats_properties and so on select from these, so that they can be applied to columns.
    Definition::sys(
        "hobt_stats_properties",
        "object_id int!, stats_id int!, last_updated datetime2, rows bigint, rows_sampled bigint, steps int, \
         unfiltered_rows bigint, modification_counter bigint, persisted_sample_percent float",
        stats_properties,
    ),
    Definition::sys(
        "hobt_incremental_stats_properties",
        "object_id int!, stats_id int!, partition_number int!, last_updated datetime2, rows bigint, \
         rows_sampled bigint, steps int, unfiltered_rows bigint, modification_counter bigint",
        incremental_properties,
    ),
    Definition::sys(
        "hobt_stats_histogram",
        "object_id int!, stats_id int!, step_number int!, range_high_key nvarchar(4000), range_rows real!, \
         equal_rows real!, distinct_range_rows bigint!, average_range_rows real!",
        stats_histogram,
    ),
];

/// Visits every statistics object of the current database's tables.
fn for_each(
    context: &ViewContext,
    mut show: impl FnMut(&Table, &Statistics) -> Result<(), SqlError>,
) -> Result<(), SqlError> {
    let snapshot = context.database.snapshot();
    for table in sorted_tables(&snapshot).into_iter().filter(|table| !table.is_system) {
        for statistics in snapshot.statistics_of(table) {
            show(table, &statistics)?;
        }
    }
    Ok(())
}

fn state_of(context: &ViewContext, table: &Table, statistics: &Statistics, hobt: Option<HobtId>) -> StatisticsState {
    let all = table.base_index().partitions.iter().map(|partition| partition.hobt);
    let hobts: Vec<HobtId> = all.filter(|each| hobt.is_none_or(|hobt| hobt == *each)).collect();
    let database = context.database.database();
    database.statistics_state(statistics, &hobts)
}

fn stats(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let mut rows = Vec::new();
    for_each(context, |table, statistics| {
        rows.push(row![
            table.id.0,
            &statistics.name,
            statistics.id,
            statistics.origin == StatisticsOrigin::Automatic,
            statistics.origin == StatisticsOrigin::User,
            statistics.no_recompute,
            statistics.filter.is_some(),
            statistics.filter.clone().map_or(NULL, Value::Text),
            false,
            statistics.is_incremental,
            statistics.sample_millionths > 0,
            0,
            "Sort based statistics",
            statistics.auto_drop
        ]);
        Ok(())
    })?;
    Ok(rows)
}

fn stats_columns(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let mut rows = Vec::new();
    for_each(context, |table, statistics| {
        for (column, place) in statistics.columns[..statistics.own_column_count(table)].iter().zip(1..) {
            rows.push(row![table.id.0, statistics.id, place, *column]);
        }
        Ok(())
    })?;
    Ok(rows)
}

fn whole(number: f64) -> Value {
    Value::Int(number.round() as i64)
}

fn real(number: f64) -> Value {
    Value::Float(f64::from(number as f32))
}

/// The update time, the rows and the steps, for a statistics object; NULL if nothing was gathered yet.
fn figures(statistics: &Statistics, summary: &Summary) -> Vec<Value> {
    if statistics.updated.is_none() && summary.rows <= 0.0 {
        return vec![NULL; 5];
    }
    let unfiltered = match statistics.filter {
        Some(_) => Value::Int(statistics.unfiltered_rows),
        None => whole(summary.rows),
    };
    vec![
        statistics.updated.map_or(NULL, Value::Int),
        whole(summary.rows),
        whole(summary.sampled_rows),
        Value::Int(i64::try_from(summary.histogram.steps().len()).unwrap_or(i64::MAX)),
        unfiltered,
    ]
}

fn count(number: u64) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn stats_properties(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let mut rows = Vec::new();
    for_each(context, |table, statistics| {
        let state = state_of(context, table, statistics, None);
        let mut row = row![table.id.0, statistics.id];
        row.extend(figures(statistics, &state.summary));
        row.push(count(state.modifications));
        row.push(Value::Float(f64::from(statistics.sample_millionths) / 10_000.0));
        rows.push(row);
        Ok(())
    })?;
    Ok(rows)
}

fn incremental_properties(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let mut rows = Vec::new();
    for_each(context, |table, statistics| {
        for partition in table.base_index().partitions.iter().filter(|_| statistics.is_incremental) {
            let state = state_of(context, table, statistics, Some(partition.hobt));
            let mut row = row![table.id.0, statistics.id, Value::Int(i64::from(partition.number.0))];
            row.extend(figures(statistics, &state.summary));
            row.push(count(state.modifications));
            rows.push(row);
        }
        Ok(())
    })?;
    Ok(rows)
}

fn stats_histogram(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let mut rows = Vec::new();
    for_each(context, |table, statistics| {
        let state = state_of(context, table, statistics, None);
        let places = statistics.columns_in(table).unwrap_or_default();
        let Some(first) = places.first() else { return Ok(()) };
        let sql_type = statistics_type(table.columns[*first].sql_type);
        for (step, number) in state.summary.histogram.steps().iter().zip(1..) {
            let key = step.value.as_deref().map(|bytes| key_text(bytes, sql_type)).transpose()?;
            let mut row = row![table.id.0, statistics.id, number, key.map_or(NULL, Value::Text)];
            row.extend([real(step.range_rows), real(step.equal_rows), whole(step.distinct_range_rows)]);
            row.push(real(step.average_range_rows()));
            rows.push(row);
        }
        Ok(())
    })?;
    Ok(rows)
}

fn key_text(bytes: &[u8], sql_type: SqlType) -> Result<String, SqlError> {
    let value = value_from_bytes(sql_type, Some(bytes)).map_err(|error| SqlError::internal(error.to_string()))?;
    value_text(&value, sql_type)
}
