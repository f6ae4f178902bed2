//! `sys.external_tables` and `sys.external_file_formats`.

use hobt_base::SqlError;
use hobt_catalog::{DatabaseSnapshot, Module, ModuleKind};
use hobt_interpreter::{ExternalFormat, ExternalTable, ViewContext};
use hobt_types::Value;

use crate::catalog::object;
use crate::value::{NULL, row};
use crate::{Definition, Rows, Sources};

pub(super) static VIEWS: &[Definition] = &[
    Definition::sys(
        "external_tables",
        "name sysname!, object_id int!, principal_id int, schema_id int!, parent_object_id int!, type char(2), \
         type_desc nvarchar(60), create_date datetime!, modify_date datetime!, is_ms_shipped bit!, is_published bit!, \
         is_schema_published bit!, max_column_id_used int!, uses_ansi_nulls bit, data_source_id int!, \
         file_format_id int, location nvarchar(4000), reject_type nvarchar(20), reject_value float, \
         reject_sample_value float, distribution_type tinyint, distribution_desc nvarchar(120), sharding_col_id int, \
         remote_schema_name sysname, remote_object_name sysname",
        tables,
    ),
    Definition::sys(
        "external_file_formats",
        "file_format_id int!, name sysname!, format_type nvarchar(100)!, field_terminator nvarchar(10), \
         string_delimiter nvarchar(10), date_format nvarchar(50), use_type_default bit, serde_method nvarchar(255), \
         row_terminator nvarchar(10), encoding nvarchar(10), data_compression nvarchar(255), first_row int",
        formats,
    ),
];

/// Modules of a kind, by id.
pub(super) fn of_kind(snapshot: &DatabaseSnapshot, kind: ModuleKind) -> Vec<&Module> {
    let mut modules: Vec<&Module> = snapshot.modules.values().map(AsRef::as_ref).collect();
    modules.retain(|module| module.kind == kind);
    modules.sort_by_key(|module| module.id);
    modules
}

/// The external tables, by id.
///
/// # Errors
/// Those of reading a definition.
pub(super) fn external_tables(snapshot: &DatabaseSnapshot) -> Result<Vec<(&Module, ExternalTable)>, SqlError> {
    let read = |module: &'_ Module| ExternalTable::read(&module.definition);
    of_kind(snapshot, ModuleKind::ExternalTable).into_iter().map(|module| Ok((module, read(module)?))).collect()
}

/// The columns of `sys.objects` for an external table.
pub(super) fn external_object(module: &Module) -> Vec<Value> {
    object(&module.name, module.id.0, module.schema, 0, module.kind.type_code(), module.created, false)
}

fn tables(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let snapshot = context.database.snapshot();
    let formats = of_kind(&snapshot, ModuleKind::FileFormat);
    let mut rows = Vec::new();
    for (module, table) in external_tables(&snapshot)? {
        let format = table.file_format.as_ref().and_then(|name| {
            formats.iter().find(|format| hobt_catalog::name_equals(&format.name, name)).map(|format| format.id.0)
        });
        let columns = i32::try_from(table.columns.len()).unwrap_or(i32::MAX);
        let mut row = external_object(module);
        row.extend(row![columns, true, 0, format, table.location, "VALUE", Value::Float(table.rejected_max as f64)]);
        row.extend(std::iter::repeat_n(NULL, 6));
        rows.push(row);
    }
    Ok(rows)
}

fn formats(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let snapshot = context.database.snapshot();
    let mut rows = Vec::new();
    for module in of_kind(&snapshot, ModuleKind::FileFormat) {
        let format = ExternalFormat::read(&module.definition)?;
        rows.push(row![
            module.id.0,
            &module.name,
            format.format_type,
            format.field_terminator,
            format.string_delimiter,
            NULL,
            false,
            NULL,
            format.row_terminator,
            format.encoding,
            format.data_compression,
            format.first_row
        ]);
    }
    Ok(rows)
}
