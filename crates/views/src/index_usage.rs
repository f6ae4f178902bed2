//! The indexes that statements use, and those that they would use if they existed.

use std::sync::Arc;

use hobt_catalog::Table;
use hobt_engine::{DatabaseUse, MissingIndexGroup};
use hobt_interpreter::ViewContext;
use hobt_types::Value;

use crate::catalog::sorted_tables;
use crate::indexes::for_each_database;
use crate::value::{NULL, datetime, row};
use crate::{Definition, Rows, Sources};

pub(super) static VIEWS: &[Definition] = &[
    Definition::sys(
        "dm_db_index_usage_stats",
        "database_id smallint!, object_id int!, index_id int!, user_seeks bigint!, user_scans bigint!, \
         user_lookups bigint!, user_updates bigint!, last_user_seek datetime, last_user_scan datetime, \
         last_user_lookup datetime, last_user_update datetime, system_seeks bigint!, system_scans bigint!, \
         system_lookups bigint!, system_updates bigint!, last_system_seek datetime, last_system_scan datetime, \
         last_system_lookup datetime, last_system_update datetime",
        usage_stats,
    ),
    Definition::sys(
        "dm_db_missing_index_details",
        "index_handle int!, database_id smallint!, object_id int!, equality_columns nvarchar(4000), \
         inequality_columns nvarchar(4000), included_columns nvarchar(4000), statement nvarchar(4000)",
        missing_details,
    ),
    Definition::sys("dm_db_missing_index_groups", "index_group_handle int!, index_handle int!", |sources, _, _| {
        let groups = sources.instance.missing_indexes().groups();
        Ok(groups.iter().map(|group| row![group_handle(group), index_handle(group)]).collect())
    }),
    Definition::sys(
        "dm_db_missing_index_group_stats",
        "group_handle int!, unique_compiles bigint!, user_seeks bigint!, user_scans bigint!, last_user_seek datetime, \
         last_user_scan datetime, avg_total_user_cost float, avg_user_impact float, system_seeks bigint!, \
         system_scans bigint!, last_system_seek datetime, last_system_scan datetime, avg_total_system_cost float, \
         avg_system_impact float",
        missing_stats,
    ),
    // `sys.dm_db_missing_index_columns` of all indexes at once: that function is a query over it.
    Definition::sys(
        "hobt_missing_index_columns",
        "index_handle int!, column_id int, column_name nvarchar(128), column_usage varchar(20)",
        missing_columns,
    ),
];

fn usage_stats(sources: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let mut rows = Vec::new();
    for_each_database(sources, context, None, &mut |database| {
        let snapshot = database.snapshot();
        for table in sorted_tables(&snapshot).into_iter().filter(|table| !table.is_system) {
            for index in &table.indexes {
                let Some(uses) = index.usage.uses() else { continue };
                let mut row = row![database.id().0, table.id.0, index.id.0];
                for by_kind in uses {
                    row.extend(by_kind.iter().map(|uses| uses.count).flat_map(|count| row![count]));
                    row.extend(by_kind.iter().map(|uses| uses.last.map_or(NULL, datetime)));
                }
                rows.push(row);
            }
        }
        Ok(())
    })?;
    Ok(rows)
}

/// Handles of indexes are odd, those of groups even, so that they cannot be confused.
fn index_handle(group: &MissingIndexGroup) -> i64 {
    2 * i64::from(group.handle()) - 1
}

fn group_handle(group: &MissingIndexGroup) -> i64 {
    2 * i64::from(group.handle())
}

/// The table of a group, with its database; `None` if it was dropped meanwhile.
fn table_of(sources: &Sources, context: &ViewContext, group: &MissingIndexGroup) -> Option<(DatabaseUse, Arc<Table>)> {
    let id = group.index().database;
    let database = match id == context.database.id() {
        true => context.database.clone(),
        false => sources.instance.database_by_id(id).ok()?,
    };
    let table = database.snapshot().tables.get(&group.index().table).cloned()?;
    Some((database, table))
}

fn quoted(name: &str) -> String {
    format!("[{}]", name.replace(']', "]]"))
}

fn column_name(table: &Table, id: i32) -> Option<&str> {
    table.columns.iter().find(|column| column.id == id).map(|column| column.name.as_str())
}

fn missing_details(sources: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let mut rows = Vec::new();
    for group in sources.instance.missing_indexes().groups() {
        let Some((database, table)) = table_of(sources, context, &group) else { continue };
        let index = group.index();
        let list = |ids: &[i32]| -> Value {
            let names: Vec<String> = ids.iter().filter_map(|&id| column_name(&table, id)).map(quoted).collect();
            if names.is_empty() { NULL } else { Value::Text(names.join(", ")) }
        };
        let schema = database.snapshot().schema_by_id(table.schema).map_or("dbo", |schema| &schema.name).to_owned();
        let name = format!("{}.{}.{}", quoted(database.name()), quoted(&schema), quoted(&table.name));
        rows.push(row![
            index_handle(&group),
            database.id().0,
            table.id.0,
            list(&index.equality),
            list(&index.inequality),
            list(&index.included),
            name
        ]);
    }
    Ok(rows)
}

fn missing_stats(sources: &Sources, _: &ViewContext, _: &[Value]) -> Rows {
    let mut rows = Vec::new();
    for group in sources.instance.missing_indexes().groups() {
        let uses = group.uses();
        rows.push(row![
            group_handle(&group),
            uses.compiles,
            uses.seeks,
            0,
            uses.last_seek.map_or(NULL, datetime),
            NULL,
            uses.mean(uses.cost_sum),
            uses.mean(uses.impact_sum),
            0,
            0,
            NULL,
            NULL,
            0.0,
            0.0
        ]);
    }
    Ok(rows)
}

fn missing_columns(sources: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let mut rows = Vec::new();
    for group in sources.instance.missing_indexes().groups() {
        let Some((_, table)) = table_of(sources, context, &group) else { continue };
        let index = group.index();
        let lists = [("EQUALITY", &index.equality), ("INEQUALITY", &index.inequality), ("INCLUDE", &index.included)];
        for (usage, ids) in lists {
            for &id in ids {
                let Some(name) = column_name(&table, id) else { continue };
                rows.push(row![index_handle(&group), id, name, usage]);
            }
        }
    }
    Ok(rows)
}
