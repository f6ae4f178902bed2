//! `INFORMATION_SCHEMA`: the part of the SQL standard that clients ask for.

use hobt_catalog::{DatabaseSnapshot, ModuleKind};
use hobt_query::interpreter::ViewContext;
use hobt_types::{MaxLength, SqlType, Value};

use super::catalog::sorted_tables;
use super::indexes::keys;
use super::value::{NULL, datetime, row};
use super::{Definition, Rows, Sources};

const SCHEMA: &str = "INFORMATION_SCHEMA";

pub(super) static VIEWS: &[Definition] = &[
    Definition::of(
        SCHEMA,
        "TABLES",
        "TABLE_CATALOG nvarchar(128), TABLE_SCHEMA nvarchar(128), TABLE_NAME sysname!, TABLE_TYPE varchar(10)",
        tables,
    ),
    Definition::of(
        SCHEMA,
        "COLUMNS",
        "TABLE_CATALOG nvarchar(128), TABLE_SCHEMA nvarchar(128), TABLE_NAME nvarchar(128)!, COLUMN_NAME nvarchar(128), \
         ORDINAL_POSITION int, COLUMN_DEFAULT nvarchar(4000), IS_NULLABLE varchar(3), DATA_TYPE nvarchar(128), \
         CHARACTER_MAXIMUM_LENGTH int, CHARACTER_OCTET_LENGTH int, NUMERIC_PRECISION tinyint, \
         NUMERIC_PRECISION_RADIX smallint, NUMERIC_SCALE int, DATETIME_PRECISION smallint, \
         CHARACTER_SET_CATALOG sysname, CHARACTER_SET_SCHEMA sysname, CHARACTER_SET_NAME sysname, \
         COLLATION_CATALOG sysname, COLLATION_SCHEMA sysname, COLLATION_NAME sysname, DOMAIN_CATALOG sysname, \
         DOMAIN_SCHEMA sysname, DOMAIN_NAME sysname",
        columns,
    ),
    Definition::of(
        SCHEMA,
        "TABLE_CONSTRAINTS",
        "CONSTRAINT_CATALOG nvarchar(128), CONSTRAINT_SCHEMA nvarchar(128), CONSTRAINT_NAME sysname!, \
         TABLE_CATALOG nvarchar(128), TABLE_SCHEMA nvarchar(128), TABLE_NAME sysname!, CONSTRAINT_TYPE varchar(11), \
         IS_DEFERRABLE varchar(2)!, INITIALLY_DEFERRED varchar(2)!",
        table_constraints,
    ),
    Definition::of(
        SCHEMA,
        "KEY_COLUMN_USAGE",
        "CONSTRAINT_CATALOG nvarchar(128), CONSTRAINT_SCHEMA nvarchar(128), CONSTRAINT_NAME nvarchar(128)!, \
         TABLE_CATALOG nvarchar(128), TABLE_SCHEMA nvarchar(128), TABLE_NAME nvarchar(128)!, \
         COLUMN_NAME nvarchar(128)!, ORDINAL_POSITION int!",
        key_column_usage,
    ),
    Definition::of(
        SCHEMA,
        "SCHEMATA",
        "CATALOG_NAME sysname, SCHEMA_NAME nvarchar(128)!, SCHEMA_OWNER nvarchar(128)",
        |_, context, _| {
            let snapshot = context.database.snapshot();
            Ok(snapshot.schemas.iter().map(|schema| row![&snapshot.name, &schema.name, "dbo"]).collect())
        },
    ),
    Definition::of(
        SCHEMA,
        "VIEWS",
        "TABLE_CATALOG nvarchar(128), TABLE_SCHEMA nvarchar(128), TABLE_NAME sysname!, VIEW_DEFINITION nvarchar(4000), \
         CHECK_OPTION varchar(7), IS_UPDATABLE varchar(2)!",
        |_, context, _| {
            let snapshot = context.database.snapshot();
            let views = snapshot.modules.values().filter(|module| module.kind == ModuleKind::View);
            let row = views.map(|view| {
                let definition: String = view.definition.chars().take(4000).collect();
                row![&snapshot.name, schema_name(&snapshot, view.schema), &view.name, definition, "NONE", "NO"]
            });
            Ok(row.collect())
        },
    ),
    Definition::of(
        SCHEMA,
        "ROUTINES",
        "ROUTINE_CATALOG nvarchar(128), ROUTINE_SCHEMA nvarchar(128), ROUTINE_NAME sysname!, ROUTINE_TYPE nvarchar(20), \
         ROUTINE_DEFINITION nvarchar(4000), CREATED datetime!",
        |_, context, _| {
            let snapshot = context.database.snapshot();
            let routines = snapshot.modules.values().filter(|module| module.kind != ModuleKind::View);
            let row = routines.map(|routine| {
                let kind = if routine.kind == ModuleKind::Procedure { "PROCEDURE" } else { "FUNCTION" };
                let definition: String = routine.definition.chars().take(4000).collect();
                let schema = schema_name(&snapshot, routine.schema);
                row![&snapshot.name, schema, &routine.name, kind, definition, datetime(routine.created)]
            });
            Ok(row.collect())
        },
    ),
];

fn schema_name(snapshot: &DatabaseSnapshot, id: i32) -> String {
    snapshot.schemas.iter().find(|schema| schema.id == id).map(|schema| schema.name.clone()).unwrap_or_default()
}

fn tables(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let snapshot = context.database.snapshot();
    let mut rows: Vec<Vec<Value>> = sorted_tables(&snapshot)
        .into_iter()
        .filter(|table| !table.is_system)
        .map(|table| row![&snapshot.name, schema_name(&snapshot, table.schema), &table.name, "BASE TABLE"])
        .collect();
    let views = snapshot.modules.values().filter(|module| module.kind == ModuleKind::View);
    rows.extend(views.map(|view| row![&snapshot.name, schema_name(&snapshot, view.schema), &view.name, "VIEW"]));
    Ok(rows)
}

fn table_constraints(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let snapshot = context.database.snapshot();
    let mut rows = Vec::new();
    for table in sorted_tables(&snapshot) {
        let schema = schema_name(&snapshot, table.schema);
        for (name, _, constraint) in keys(table) {
            let kind = if constraint.is_primary { "PRIMARY KEY" } else { "UNIQUE" };
            let (catalog, table) = (&snapshot.name, &table.name);
            rows.push(row![catalog, &schema, name, catalog, &schema, table, kind, "NO", "NO"]);
        }
    }
    Ok(rows)
}

fn key_column_usage(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let snapshot = context.database.snapshot();
    let mut rows = Vec::new();
    for table in sorted_tables(&snapshot) {
        let schema = schema_name(&snapshot, table.schema);
        for (name, index, _) in keys(table) {
            for (part, ordinal) in index.key.iter().zip(1..) {
                let (catalog, column) = (&snapshot.name, &table.columns[part.column].name);
                rows.push(row![catalog, &schema, name, catalog, &schema, &table.name, column, ordinal]);
            }
        }
    }
    Ok(rows)
}

/// Characters of a declared length; -1 for `max`.
fn declared(length: MaxLength) -> i64 {
    match length {
        MaxLength::Limited(length) => i64::from(length),
        MaxLength::Max => -1,
    }
}

fn columns(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let snapshot = context.database.snapshot();
    let mut rows = Vec::new();
    for table in sorted_tables(&snapshot).into_iter().filter(|table| !table.is_system) {
        let schema = schema_name(&snapshot, table.schema);
        for (column, position) in table.columns.iter().zip(1..) {
            let sql_type = column.sql_type;
            let characters = match sql_type {
                SqlType::Char(length) | SqlType::NChar(length) | SqlType::Binary(length) => Some(i64::from(length)),
                SqlType::VarChar(length) | SqlType::NVarChar(length) | SqlType::VarBinary(length) => {
                    Some(declared(length))
                }
                _ => None,
            };
            let octets = characters.map(|_| i64::from(sql_type.max_length_bytes()));
            let exact = sql_type.is_numeric() && sql_type != SqlType::Bit;
            let approximate = matches!(sql_type, SqlType::Real | SqlType::Float);
            let precision = exact.then(|| sql_type.precision());
            let radix = exact.then_some(if approximate { 2 } else { 10 });
            let scale = (exact && !approximate).then(|| i32::from(sql_type.scale()));
            let fraction = sql_type.is_temporal().then(|| sql_type.scale());
            let character_set = sql_type.is_text().then_some(if sql_type.is_national() { "UNICODE" } else { "iso_1" });
            let collation = sql_type.is_text().then(|| column.collation.unwrap_or_default().name());
            let default = column.default.as_ref().map(|default| default.definition.clone());
            rows.push(row![
                &snapshot.name,
                &schema,
                &table.name,
                &column.name,
                position,
                default,
                if column.nullable { "YES" } else { "NO" },
                sql_type.name(),
                characters,
                octets,
                precision,
                radix,
                scale,
                fraction,
                NULL,
                NULL,
                character_set,
                NULL,
                NULL,
                collation,
                NULL,
                NULL,
                NULL
            ]);
        }
    }
    Ok(rows)
}
