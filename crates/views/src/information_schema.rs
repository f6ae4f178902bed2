//! `INFORMATION_SCHEMA`: the part of the SQL standard that clients ask for.

use hobt_catalog::{DatabaseSnapshot, Module, ModuleKind};
use hobt_interpreter::ViewContext;
use hobt_types::{Collation, MaxLength, SqlType, Value};

use crate::catalog::sorted_tables;
use crate::external::{external_tables, of_kind};
use crate::indexes::keys;
use crate::value::{NULL, datetime, row};
use crate::{Definition, Rows, Sources};

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
    Definition::of(SCHEMA, "ROUTINES", ROUTINE_COLUMNS, |_, context, _| {
        let snapshot = context.database.snapshot();
        let is_routine = |kind: ModuleKind| kind.is_program() && kind != ModuleKind::View;
        let routines = snapshot.modules.values().filter(|module| is_routine(module.kind));
        Ok(routines.map(|module| routine(&snapshot, module)).collect())
    }),
];

/// As on Microsoft's page on `ROUTINES`: the columns about the result type follow the names.
const ROUTINE_COLUMNS: &str = "SPECIFIC_CATALOG nvarchar(128), SPECIFIC_SCHEMA nvarchar(128), SPECIFIC_NAME sysname!, \
    ROUTINE_CATALOG nvarchar(128), ROUTINE_SCHEMA nvarchar(128), ROUTINE_NAME sysname!, ROUTINE_TYPE nvarchar(20), \
    MODULE_CATALOG sysname, MODULE_SCHEMA sysname, MODULE_NAME sysname, UDT_CATALOG sysname, UDT_SCHEMA sysname, \
    UDT_NAME sysname, DATA_TYPE sysname, CHARACTER_MAXIMUM_LENGTH int, CHARACTER_OCTET_LENGTH int, \
    COLLATION_CATALOG nvarchar(128), COLLATION_SCHEMA nvarchar(128), COLLATION_NAME nvarchar(128), \
    CHARACTER_SET_CATALOG nvarchar(128), CHARACTER_SET_SCHEMA nvarchar(128), CHARACTER_SET_NAME nvarchar(128), \
    NUMERIC_PRECISION smallint, NUMERIC_PRECISION_RADIX smallint, NUMERIC_SCALE smallint, \
    DATETIME_PRECISION smallint, INTERVAL_TYPE nvarchar(30), INTERVAL_PRECISION smallint, \
    TYPE_UDT_CATALOG sysname, TYPE_UDT_SCHEMA sysname, TYPE_UDT_NAME sysname, SCOPE_CATALOG sysname, \
    SCOPE_SCHEMA sysname, SCOPE_NAME sysname, MAXIMUM_CARDINALITY bigint, DTD_IDENTIFIER sysname, \
    ROUTINE_BODY nvarchar(30), ROUTINE_DEFINITION nvarchar(4000), EXTERNAL_NAME sysname, \
    EXTERNAL_LANGUAGE nvarchar(30), PARAMETER_STYLE nvarchar(30), IS_DETERMINISTIC nvarchar(10), \
    SQL_DATA_ACCESS nvarchar(30), IS_NULL_CALL nvarchar(10), SCHEMA_LEVEL_ROUTINE nvarchar(10), \
    MAX_DYNAMIC_RESULT_SETS smallint, IS_USER_DEFINED_CAST nvarchar(10), IS_IMPLICITLY_INVOCABLE nvarchar(10), \
    CREATED datetime!, LAST_ALTERED datetime!";

/// A row of `ROUTINES`: a procedure or a table-valued function.
fn routine(snapshot: &DatabaseSnapshot, module: &Module) -> Vec<Value> {
    let is_procedure = module.kind == ModuleKind::Procedure;
    let definition: String = module.definition.chars().take(4000).collect();
    let schema = schema_name(snapshot, module.schema);
    let kind = if is_procedure { "PROCEDURE" } else { "FUNCTION" };
    let mut row = row![&snapshot.name, &schema, &module.name, &snapshot.name, &schema, &module.name, kind];
    // Modules and user-defined types do not exist.
    row.extend(std::iter::repeat_n(NULL, 6));
    row.push(if is_procedure { NULL } else { Value::Text("TABLE".to_owned()) });
    // A table result has no values in these columns, and scope columns are unused.
    row.extend(std::iter::repeat_n(NULL, 22));
    row.extend(row!["SQL", definition, NULL, NULL, NULL, "NO"]);
    row.extend(row![if is_procedure { "MODIFIES" } else { "READS" }]);
    row.extend(row![(!is_procedure).then_some("YES"), "YES", if is_procedure { -1 } else { 0 }, "NO", "NO"]);
    row.extend(row![datetime(module.created), datetime(module.created)]);
    row
}

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
    for module in of_kind(&snapshot, ModuleKind::ExternalTable) {
        rows.push(row![&snapshot.name, schema_name(&snapshot, module.schema), &module.name, "BASE TABLE"]);
    }
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
            let shown = ShownColumn {
                name: &column.name,
                sql_type: column.sql_type,
                nullable: column.nullable,
                collation: column.collation,
                default: column.default.as_ref().map(|default| default.definition.clone()),
            };
            rows.push(column_row((&snapshot.name, &schema, &table.name), &shown, position));
        }
    }
    for (module, table) in external_tables(&snapshot)? {
        let schema = schema_name(&snapshot, module.schema);
        for (column, position) in table.columns.iter().zip(1..) {
            let shown = ShownColumn {
                name: &column.name,
                sql_type: column.sql_type,
                nullable: column.nullable,
                collation: column.collation,
                default: None,
            };
            rows.push(column_row((&snapshot.name, &schema, &module.name), &shown, position));
        }
    }
    Ok(rows)
}

/// A column of a table, whatever its rows are in.
struct ShownColumn<'c> {
    name: &'c str,
    sql_type: SqlType,
    nullable: bool,
    collation: Option<Collation>,
    default: Option<String>,
}

/// A row of `COLUMNS`.
fn column_row((catalog, schema, table): (&str, &str, &str), column: &ShownColumn<'_>, position: i32) -> Vec<Value> {
    let ShownColumn { name, sql_type, nullable, collation, default } = column;
    let sql_type = *sql_type;
    let characters = match sql_type {
        SqlType::Char(length) | SqlType::NChar(length) | SqlType::Binary(length) => Some(i64::from(length)),
        SqlType::VarChar(length) | SqlType::NVarChar(length) | SqlType::VarBinary(length) => Some(declared(length)),
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
    let collation = sql_type.is_text().then(|| collation.unwrap_or_default().name());
    row![
        catalog,
        schema,
        table,
        *name,
        position,
        default.clone(),
        if *nullable { "YES" } else { "NO" },
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
    ]
}
