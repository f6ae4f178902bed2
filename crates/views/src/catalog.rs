//! Objects of a database: schemas, tables, columns, types, modules.

use hobt_catalog::{DatabaseSnapshot, ModuleKind, Table};
use hobt_interpreter::{ViewContext, type_names};
use hobt_types::{Collation, SqlType, Value};

use crate::constraints::constraint_object;
use crate::external::{external_object, external_tables};
use crate::indexes::{key_letters, keys};
use crate::value::{NULL, datetime, row};
use crate::{Definition, Known, Rows, Sources};

pub(super) static VIEWS: &[Definition] = &[
    Definition::sys("schemas", "name sysname!, schema_id int!, principal_id int", schemas),
    Definition::sys("objects", OBJECT, |_, context, _| Ok(objects(&context.database.snapshot(), |_| true))),
    Definition::sys("all_objects", OBJECT, all_objects),
    Definition::sys("system_objects", OBJECT, |sources, _, _| Ok(sources.of_databases().map(system_object).collect())),
    Definition::sys(
        "tables",
        "name sysname!, object_id int!, principal_id int, schema_id int!, parent_object_id int!, type char(2), \
         type_desc nvarchar(60), create_date datetime!, modify_date datetime!, is_ms_shipped bit!, is_published bit!, \
         is_schema_published bit!, lob_data_space_id int!, filestream_data_space_id int, max_column_id_used int!, \
         lock_on_bulk_load bit!, uses_ansi_nulls bit, is_replicated bit, has_replication_filter bit, \
         is_merge_published bit, is_sync_tran_subscribed bit, has_unchecked_assembly_data bit!, \
         text_in_row_limit int, large_value_types_out_of_row bit, is_tracked_by_cdc bit, lock_escalation tinyint, \
         lock_escalation_desc nvarchar(60), is_filetable bit, is_memory_optimized bit, durability tinyint, \
         durability_desc nvarchar(60), temporal_type tinyint, temporal_type_desc nvarchar(60), \
         history_table_id int, is_remote_data_archive_enabled bit, is_external bit!",
        tables,
    ),
    Definition::sys(
        "views",
        "name sysname!, object_id int!, principal_id int, schema_id int!, parent_object_id int!, type char(2), \
         type_desc nvarchar(60), create_date datetime!, modify_date datetime!, is_ms_shipped bit!, is_published bit!, \
         is_schema_published bit!, is_replicated bit, has_replication_filter bit, has_opaque_metadata bit!, \
         has_unchecked_assembly_data bit!, with_check_option bit!, is_date_correlation_view bit!",
        |_, context, _| Ok(views(&context.database.snapshot())),
    ),
    Definition::sys(
        "system_views",
        "name sysname!, object_id int!, principal_id int, schema_id int!, parent_object_id int!, type char(2), \
         type_desc nvarchar(60), create_date datetime!, modify_date datetime!, is_ms_shipped bit!, is_published bit!, \
         is_schema_published bit!, is_replicated bit, has_replication_filter bit, has_opaque_metadata bit!, \
         has_unchecked_assembly_data bit!, with_check_option bit!, is_date_correlation_view bit!",
        |sources, _, _| {
            let views = sources.of_databases().filter(|view| !view.is_function).map(system_object);
            Ok(views.map(with_view_flags).collect())
        },
    ),
    Definition::sys("procedures", OBJECT, |_, context, _| {
        Ok(objects(&context.database.snapshot(), |letters| letters == "P"))
    }),
    Definition::sys("columns", COLUMN, |_, context, _| user_columns(&context.database.snapshot())),
    Definition::sys("all_columns", COLUMN, |sources, context, _| {
        let mut rows = user_columns(&context.database.snapshot())?;
        rows.extend(system_columns(sources));
        Ok(rows)
    }),
    Definition::sys("system_columns", COLUMN, |sources, _, _| Ok(system_columns(sources))),
    Definition::sys(
        "identity_columns",
        "object_id int!, name sysname, column_id int!, system_type_id tinyint!, user_type_id int!, max_length smallint!, \
         precision tinyint!, scale tinyint!, is_nullable bit, is_identity bit!, seed_value nvarchar(40), \
         increment_value nvarchar(40), last_value nvarchar(40)",
        identity_columns,
    ),
    Definition::sys(
        "types",
        "name sysname!, system_type_id tinyint!, user_type_id int!, schema_id int!, principal_id int, \
         max_length smallint!, precision tinyint!, scale tinyint!, collation_name sysname, is_nullable bit, \
         is_user_defined bit!, is_assembly_type bit!, default_object_id int!, rule_object_id int!, is_table_type bit!",
        |_, _, _| Ok(types()),
    ),
    Definition::sys(
        "sql_modules",
        "object_id int!, definition nvarchar(max), uses_ansi_nulls bit, uses_quoted_identifier bit, is_schema_bound bit, \
         uses_database_collation bit, is_recompiled bit, null_on_null_input bit, execute_as_principal_id int, \
         uses_native_compilation bit, inline_type bit, is_inlineable bit",
        |_, context, _| {
            let snapshot = context.database.snapshot();
            let mut modules: Vec<_> = snapshot.modules.values().filter(|module| module.kind.is_program()).collect();
            modules.sort_by_key(|module| module.id);
            let inline = |kind| kind == ModuleKind::InlineFunction;
            let row = modules.into_iter().map(|module| {
                row![
                    module.id.0,
                    &module.definition,
                    true,
                    true,
                    false,
                    false,
                    false,
                    false,
                    NULL,
                    false,
                    inline(module.kind),
                    false
                ]
            });
            Ok(row.collect())
        },
    ),
    Definition::sys(
        "default_constraints",
        "name sysname!, object_id int!, principal_id int, schema_id int!, parent_object_id int!, type char(2), \
         type_desc nvarchar(60), create_date datetime!, modify_date datetime!, is_ms_shipped bit!, is_published bit!, \
         is_schema_published bit!, parent_column_id int!, definition nvarchar(max), is_system_named bit!",
        default_constraints,
    ),
    Definition::sys(
        "parameters",
        "object_id int!, name sysname, parameter_id int!, system_type_id tinyint!, user_type_id int!, \
         max_length smallint!, precision tinyint!, scale tinyint!, is_output bit!, has_default_value bit!",
        |_, _, _| Ok(Vec::new()),
    ),
];

/// The columns of `sys.objects`.
const OBJECT: &str = "name sysname!, object_id int!, principal_id int, schema_id int!, parent_object_id int!, \
    type char(2), type_desc nvarchar(60), create_date datetime!, modify_date datetime!, is_ms_shipped bit!, \
    is_published bit!, is_schema_published bit!";

/// The columns of `sys.columns`.
const COLUMN: &str = "object_id int!, name sysname, column_id int!, system_type_id tinyint!, user_type_id int!, \
    max_length smallint!, precision tinyint!, scale tinyint!, collation_name sysname, is_nullable bit, \
    is_ansi_padded bit!, is_rowguidcol bit!, is_identity bit!, is_computed bit!, is_filestream bit!, is_replicated bit, \
    is_non_sql_subscribed bit, is_merge_published bit, is_dts_replicated bit, is_xml_document bit!, \
    xml_collection_id int!, default_object_id int!, rule_object_id int!, is_sparse bit, is_column_set bit, \
    generated_always_type tinyint, generated_always_type_desc nvarchar(60)";

/// The schema id shown for a system view.
pub(super) fn system_schema_id(schema: &str) -> i32 {
    match schema {
        "dbo" => 1,
        "INFORMATION_SCHEMA" => 3,
        _ => 4,
    }
}

fn schemas(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let snapshot = context.database.snapshot();
    let mut rows: Vec<Vec<Value>> = snapshot.schemas.iter().map(|schema| row![&schema.name, schema.id, 1]).collect();
    for (name, id) in [("INFORMATION_SCHEMA", 3), ("sys", 4)] {
        if snapshot.schema_id(name).is_none() {
            rows.push(row![name, id, id]);
        }
    }
    Ok(rows)
}

/// `type_desc` for an object's type code.
fn type_description(letters: &str) -> &'static str {
    match letters {
        "U" => "USER_TABLE",
        "S" => "SYSTEM_TABLE",
        "V" => "VIEW",
        "P" => "SQL_STORED_PROCEDURE",
        "IF" => "SQL_INLINE_TABLE_VALUED_FUNCTION",
        "FN" => "SQL_SCALAR_FUNCTION",
        "TF" => "SQL_TABLE_VALUED_FUNCTION",
        "D" => "DEFAULT_CONSTRAINT",
        "C" => "CHECK_CONSTRAINT",
        "F" => "FOREIGN_KEY_CONSTRAINT",
        "PK" => "PRIMARY_KEY_CONSTRAINT",
        "UQ" => "UNIQUE_CONSTRAINT",
        "SO" => "SEQUENCE_OBJECT",
        _ => "UNKNOWN",
    }
}

/// A row of `sys.objects`.
pub(super) fn object(
    name: &str,
    id: i32,
    schema: i32,
    parent: i32,
    letters: &str,
    created: i64,
    shipped: bool,
) -> Vec<Value> {
    let date = datetime(created);
    row![
        name,
        id,
        NULL,
        schema,
        parent,
        format!("{letters:<2}"),
        type_description(letters),
        date.clone(),
        date,
        shipped,
        false,
        false
    ]
}

/// The tables, sorted by id.
pub(super) fn sorted_tables(snapshot: &DatabaseSnapshot) -> Vec<&Table> {
    let mut tables: Vec<&Table> = snapshot.tables.values().map(AsRef::as_ref).collect();
    tables.sort_by_key(|table| table.id);
    tables
}

fn objects(snapshot: &DatabaseSnapshot, wanted: fn(&str) -> bool) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in sorted_tables(snapshot) {
        let letters = if table.is_system { "S" } else { "U" };
        if wanted(letters) {
            rows.push(object(&table.name, table.id.0, table.schema, 0, letters, table.created, table.is_system));
        }
        for column in table.columns.iter().filter(|_| wanted("D")) {
            if let Some(default) = &column.default {
                let id = table.default_id(column.id).0;
                rows.push(object(&default.name, id, table.schema, table.id.0, "D", table.created, false));
            }
        }
        for (name, _, constraint) in keys(table) {
            let letters = key_letters(constraint);
            if wanted(letters) {
                rows.push(object(name, constraint.id.0, table.schema, table.id.0, letters, table.created, false));
            }
        }
    }
    for table in sorted_tables(snapshot) {
        let constraints = &table.constraints;
        let checks = constraints.checks.iter().filter(|_| wanted("C"));
        rows.extend(checks.map(|check| constraint_object(table, &check.head, "C")));
        let keys = constraints.foreign_keys.iter().filter(|_| wanted("F"));
        rows.extend(keys.map(|key| constraint_object(table, &key.head, "F")));
    }
    let mut modules: Vec<_> = snapshot.modules.values().filter(|module| module.kind.is_object()).collect();
    modules.sort_by_key(|module| module.id);
    for module in modules {
        let letters = module.kind.type_code();
        if wanted(letters) {
            rows.push(object(&module.name, module.id.0, module.schema, 0, letters, module.created, false));
        }
    }
    let mut sequences: Vec<_> = snapshot.sequences.values().filter(|_| wanted("SO")).collect();
    sequences.sort_by_key(|sequence| sequence.id);
    for sequence in sequences {
        rows.push(object(&sequence.name, sequence.id.0, sequence.schema, 0, "SO", sequence.created, false));
    }
    rows
}

fn system_object(view: &Known) -> Vec<Value> {
    let letters = if view.is_function { "IF" } else { "V" };
    object(view.name, view.id, system_schema_id(view.schema), 0, letters, 0, true)
}

fn all_objects(sources: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let mut rows = objects(&context.database.snapshot(), |_| true);
    rows.extend(sources.of_databases().map(system_object));
    Ok(rows)
}

fn tables(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let snapshot = context.database.snapshot();
    let mut rows = Vec::new();
    for table in sorted_tables(&snapshot).into_iter().filter(|table| !table.is_system) {
        let head = object(&table.name, table.id.0, table.schema, 0, "U", table.created, false);
        let columns = table.columns.iter().map(|column| column.id).max().unwrap_or(0);
        rows.push(table_row(head, columns, table.lock_escalation, false));
    }
    for (module, table) in external_tables(&snapshot)? {
        let columns = i32::try_from(table.columns.len()).unwrap_or(i32::MAX);
        rows.push(table_row(external_object(module), columns, 0, true));
    }
    Ok(rows)
}

/// A row of `sys.tables`, behind its columns of `sys.objects`.
fn table_row(head: Vec<Value>, columns: i32, lock_escalation: u8, is_external: bool) -> Vec<Value> {
    let mut row = head;
    let escalation = match lock_escalation {
        1 => "DISABLE",
        2 => "AUTO",
        _ => "TABLE",
    };
    row.extend(row![
        0,
        NULL,
        columns,
        false,
        true,
        false,
        false,
        false,
        false,
        false,
        0,
        false,
        false,
        lock_escalation,
        escalation,
        false,
        false,
        0,
        "SCHEMA_AND_DATA",
        0,
        "NON_TEMPORAL_TABLE",
        NULL,
        false,
        is_external
    ]);
    row
}

fn with_view_flags(mut row: Vec<Value>) -> Vec<Value> {
    row.extend(row![false, false, false, false, false, false]);
    row
}

fn views(snapshot: &DatabaseSnapshot) -> Vec<Vec<Value>> {
    objects(snapshot, |letters| letters == "V").into_iter().map(with_view_flags).collect()
}

/// One row of `sys.columns`.
fn column_row(
    object: i32,
    (name, id): (&str, i32),
    sql_type: SqlType,
    collation: Option<Collation>,
    nullable: bool,
    (rowguid, identity, computed): (bool, bool, bool),
    default: i32,
) -> Vec<Value> {
    let system_type = sql_type.system_type_id();
    let collation = sql_type.is_text().then(|| collation.unwrap_or_default().name());
    row![
        object,
        name,
        id,
        system_type,
        i32::from(system_type),
        sql_type.max_length_bytes(),
        sql_type.precision(),
        sql_type.scale(),
        collation,
        nullable,
        true,
        rowguid,
        identity,
        computed,
        false,
        false,
        false,
        false,
        false,
        false,
        0,
        default,
        0,
        false,
        false,
        0,
        "NOT_APPLICABLE"
    ]
}

fn user_columns(snapshot: &DatabaseSnapshot) -> Rows {
    let mut rows = Vec::new();
    for table in sorted_tables(snapshot) {
        let mut columns = Vec::with_capacity(table.columns.len() + table.virtual_columns.len());
        for column in &table.columns {
            let default = column.default.as_ref().map_or(0, |_| table.default_id(column.id).0);
            let flags = (column.is_rowguid, column.identity.is_some(), column.computed.is_some());
            let name = (column.name.as_str(), column.id);
            let row = column_row(table.id.0, name, column.sql_type, column.collation, column.nullable, flags, default);
            columns.push((column.id, row));
        }
        for column in &table.virtual_columns {
            let (name, flags) = ((column.name.as_str(), column.id), (false, false, true));
            let row = column_row(table.id.0, name, column.sql_type, column.collation, column.nullable, flags, 0);
            columns.push((column.id, row));
        }
        columns.sort_by_key(|(id, _)| *id);
        rows.extend(columns.into_iter().map(|(_, row)| row));
    }
    for (module, table) in external_tables(snapshot)? {
        for (column, id) in table.columns.iter().zip(1..) {
            let (name, flags) = ((column.name.as_str(), id), (false, false, false));
            rows.push(column_row(module.id.0, name, column.sql_type, column.collation, column.nullable, flags, 0));
        }
    }
    Ok(rows)
}

fn system_columns(sources: &Sources) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for view in sources.of_databases() {
        for (column, id) in view.columns.iter().zip(1..) {
            let name = (column.name, id);
            rows.push(column_row(view.id, name, column.sql_type, None, column.nullable, (false, false, false), 0));
        }
    }
    rows
}

fn identity_columns(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let snapshot = context.database.snapshot();
    let mut rows = Vec::new();
    for table in sorted_tables(&snapshot) {
        for column in &table.columns {
            let Some(identity) = column.identity else { continue };
            let system_type = column.sql_type.system_type_id();
            rows.push(row![
                table.id.0,
                &column.name,
                column.id,
                system_type,
                i32::from(system_type),
                column.sql_type.max_length_bytes(),
                column.sql_type.precision(),
                column.sql_type.scale(),
                false,
                true,
                identity.seed.to_string(),
                identity.increment.to_string(),
                NULL
            ]);
        }
    }
    Ok(rows)
}

/// Length, precision and scale of `sys.types`.
fn type_sizes(name: &str) -> (i16, u8, u8) {
    match name {
        "uniqueidentifier" => (16, 0, 0),
        "date" => (3, 10, 0),
        "time" => (5, 16, 7),
        "datetime2" => (8, 27, 7),
        "tinyint" => (1, 3, 0),
        "smallint" => (2, 5, 0),
        "int" => (4, 10, 0),
        "smalldatetime" => (4, 16, 0),
        "real" => (4, 24, 0),
        "money" => (8, 19, 4),
        "datetime" => (8, 23, 3),
        "float" => (8, 53, 0),
        "bit" => (1, 1, 0),
        "decimal" | "numeric" => (17, 38, 38),
        "smallmoney" => (4, 10, 4),
        "bigint" => (8, 19, 0),
        "sysname" => (256, 0, 0),
        _ => (8000, 0, 0),
    }
}

fn types() -> Vec<Vec<Value>> {
    let row = |(name, id): (&'static str, i32)| {
        let (length, precision, scale) = type_sizes(name);
        let text = name.contains("char") || name == "sysname";
        let collation = text.then(|| Collation::default().name());
        let system_type = if name == "sysname" { 231 } else { id };
        row![
            name,
            system_type,
            id,
            4,
            NULL,
            length,
            precision,
            scale,
            collation,
            name != "sysname",
            false,
            false,
            0,
            0,
            false
        ]
    };
    type_names().map(row).collect()
}

fn default_constraints(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let snapshot = context.database.snapshot();
    let mut rows = Vec::new();
    for table in sorted_tables(&snapshot) {
        for column in &table.columns {
            let Some(default) = &column.default else { continue };
            let id = table.default_id(column.id).0;
            let mut row = object(&default.name, id, table.schema, table.id.0, "D", table.created, false);
            row.extend(row![column.id, &default.definition, default.name.starts_with("DF__")]);
            rows.push(row);
        }
    }
    Ok(rows)
}
