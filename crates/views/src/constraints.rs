//! Constraints and computed columns.

use hobt_catalog::{ConstraintHead, DatabaseSnapshot, ReferentialRule, Table};
use hobt_interpreter::ViewContext;
use hobt_types::Value;

use crate::catalog::{object, sorted_tables};
use crate::value::row;
use crate::{Definition, Rows, Sources};

pub(super) static VIEWS: &[Definition] = &[
    Definition::sys(
        "check_constraints",
        "name sysname!, object_id int!, principal_id int, schema_id int!, parent_object_id int!, type char(2), \
         type_desc nvarchar(60), create_date datetime!, modify_date datetime!, is_ms_shipped bit!, is_published bit!, \
         is_schema_published bit!, is_disabled bit!, is_not_for_replication bit!, is_not_trusted bit!, \
         parent_column_id int!, definition nvarchar(max), uses_database_collation bit, is_system_named bit!",
        check_constraints,
    ),
    Definition::sys(
        "foreign_keys",
        "name sysname!, object_id int!, principal_id int, schema_id int!, parent_object_id int!, type char(2), \
         type_desc nvarchar(60), create_date datetime!, modify_date datetime!, is_ms_shipped bit!, is_published bit!, \
         is_schema_published bit!, referenced_object_id int, key_index_id int, is_disabled bit!, \
         is_not_for_replication bit!, is_not_trusted bit!, delete_referential_action tinyint, \
         delete_referential_action_desc nvarchar(60), update_referential_action tinyint, \
         update_referential_action_desc nvarchar(60), is_system_named bit!",
        foreign_keys,
    ),
    Definition::sys(
        "foreign_key_columns",
        "constraint_object_id int!, constraint_column_id int!, parent_object_id int!, parent_column_id int!, \
         referenced_object_id int!, referenced_column_id int!",
        foreign_key_columns,
    ),
    Definition::sys(
        "computed_columns",
        "object_id int!, name sysname, column_id int!, system_type_id tinyint!, user_type_id int!, max_length smallint!, \
         precision tinyint!, scale tinyint!, collation_name sysname, is_nullable bit, is_computed bit!, \
         definition nvarchar(max), uses_database_collation bit!, is_persisted bit!",
        computed_columns,
    ),
];

/// A constraint as a row of `sys.objects`.
pub(super) fn constraint_object(table: &Table, head: &ConstraintHead, letters: &str) -> Vec<Value> {
    object(&head.name, head.id.0, table.schema, table.id.0, letters, head.created, false)
}

fn user_tables(snapshot: &DatabaseSnapshot) -> impl Iterator<Item = &Table> {
    sorted_tables(snapshot).into_iter().filter(|table| !table.is_system)
}

fn check_constraints(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let snapshot = context.database.snapshot();
    let mut rows = Vec::new();
    for table in user_tables(&snapshot) {
        for check in &table.constraints.checks {
            let head = &check.head;
            let mut row = constraint_object(table, head, "C");
            row.extend(row![
                head.is_disabled,
                head.not_for_replication,
                head.is_not_trusted,
                check.column.unwrap_or(0),
                &check.definition,
                true,
                head.is_system_named
            ]);
            rows.push(row);
        }
    }
    Ok(rows)
}

fn computed_columns(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let snapshot = context.database.snapshot();
    let mut rows = Vec::new();
    for table in user_tables(&snapshot) {
        let stored = table.columns.iter().filter_map(|column| {
            let definition = column.computed.as_ref()?;
            Some((column.id, &column.name, column.sql_type, column.collation, column.nullable, definition, true))
        });
        let others = table.virtual_columns.iter().map(|column| {
            let definition = &column.definition;
            (column.id, &column.name, column.sql_type, column.collation, column.nullable, definition, false)
        });
        let mut columns: Vec<_> = stored.chain(others).collect();
        columns.sort_by_key(|(id, ..)| *id);
        for (id, name, sql_type, collation, nullable, definition, is_persisted) in columns {
            let system_type = sql_type.system_type_id();
            rows.push(row![
                table.id.0,
                name,
                id,
                system_type,
                i32::from(system_type),
                sql_type.max_length_bytes(),
                sql_type.precision(),
                sql_type.scale(),
                collation.map(|collation| collation.name()),
                nullable,
                true,
                definition,
                false,
                is_persisted
            ]);
        }
    }
    Ok(rows)
}

fn rule_description(rule: ReferentialRule) -> &'static str {
    match rule {
        ReferentialRule::NoAction => "NO_ACTION",
        ReferentialRule::Cascade => "CASCADE",
        ReferentialRule::SetNull => "SET_NULL",
        ReferentialRule::SetDefault => "SET_DEFAULT",
    }
}

fn foreign_keys(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let snapshot = context.database.snapshot();
    let mut rows = Vec::new();
    for table in user_tables(&snapshot) {
        for key in &table.constraints.foreign_keys {
            let head = &key.head;
            let mut row = constraint_object(table, head, "F");
            row.extend(row![
                key.referenced.0,
                key.referenced_index.0,
                head.is_disabled,
                head.not_for_replication,
                head.is_not_trusted,
                key.on_delete as u8,
                rule_description(key.on_delete),
                key.on_update as u8,
                rule_description(key.on_update),
                head.is_system_named
            ]);
            rows.push(row);
        }
    }
    Ok(rows)
}

fn foreign_key_columns(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let snapshot = context.database.snapshot();
    let mut rows = Vec::new();
    for table in user_tables(&snapshot) {
        for key in &table.constraints.foreign_keys {
            for ((own, their), place) in key.columns.iter().zip(&key.referenced_columns).zip(1_i32..) {
                rows.push(row![key.head.id.0, place, table.id.0, *own, key.referenced.0, *their]);
            }
        }
    }
    Ok(rows)
}
