//! Views, functions, procedures, external tables and their file formats, and schemas.

use std::sync::Arc;

use hobt_base::errors;
use hobt_catalog::{DatabaseSnapshot, Module, ModuleKind, SYS_SCHEMA, Schema, SnapshotChange};
use hobt_txn::StatementContext;

use super::Database;
use super::pending::{Name, Sharing};
use super::table::schema_id;
use crate::definition::{ModuleDefinition, Replace, check_name};
use crate::error::{EngineError, Result, cannot_drop, name_is_taken};
use hobt_instruments::time_of_day;

/// The keyword after `DROP`, and the name in messages.
fn kind_words(kind: ModuleKind) -> (&'static str, &'static str) {
    match kind {
        ModuleKind::View => ("VIEW", "view"),
        ModuleKind::InlineFunction | ModuleKind::ScalarFunction | ModuleKind::TableFunction => ("FUNCTION", "function"),
        ModuleKind::Procedure => ("PROCEDURE", "procedure"),
        ModuleKind::ExternalTable => ("EXTERNAL TABLE", "external table"),
        ModuleKind::FileFormat => ("EXTERNAL FILE FORMAT", "external file format"),
    }
}

/// The schema that has a module; for a new one.
fn schema_of(snapshot: &DatabaseSnapshot, definition: &ModuleDefinition) -> Result<i32> {
    match definition.kind {
        ModuleKind::FileFormat => Ok(SYS_SCHEMA),
        _ => schema_id(snapshot, &definition.schema),
    }
}

/// 3705.
pub(super) fn wrong_kind(dropped_as: &str, module: &Module) -> EngineError {
    let (statement, noun) = kind_words(module.kind);
    let name = &module.name;
    EngineError::Statement(errors::WRONG_OBJECT_KIND.with([&dropped_as, &name, &name, &noun, &statement]))
}

impl Database {
    /// Creates a view, function, procedure, external table or file format, or replaces its text.
    ///
    /// # Errors
    /// 2714 the name is taken (by another kind of object, if replacing is allowed), 208 nothing to alter, 2760, 103; a
    /// device's error, after which the statement must be rolled back.
    pub fn create_module(
        self: &Arc<Database>,
        ctx: &StatementContext,
        definition: &ModuleDefinition,
    ) -> Result<Arc<Module>> {
        check_name(&definition.name)?;
        let schema = schema_of(&self.snapshot_of(ctx), definition)?;
        let claims =
            vec![(Name::object(schema, &definition.name), Sharing::Exclusive), (Name::Schema(schema), Sharing::Shared)];
        let change = self.begin(ctx, claims)?;
        let snapshot = self.snapshot_of(ctx);
        schema_of(&snapshot, definition)?;
        let old = snapshot.module(schema, &definition.name).cloned();
        let same_kind = old.as_ref().is_some_and(|old| kind_words(old.kind) == kind_words(definition.kind));
        if snapshot.has_object(schema, &definition.name) && (definition.replace == Replace::No || !same_kind) {
            return Err(name_is_taken(&definition.name));
        }
        if old.is_none() && definition.replace == Replace::Must {
            return Err(EngineError::Statement(errors::INVALID_OBJECT.with([&definition.name])));
        }
        let module = Arc::new(Module {
            id: old.as_ref().map_or_else(|| self.next_object_id(&snapshot), |old| old.id),
            schema,
            name: definition.name.clone(),
            kind: definition.kind,
            definition: definition.definition.clone(),
            created: old.as_ref().map_or_else(time_of_day, |old| old.created),
        });
        let (written, id) = (Arc::clone(&module), module.id);
        let replaces = old.is_some();
        self.write_rows(ctx, |heaps, rows| {
            if replaces {
                heaps.delete_module(rows, id)?;
            }
            heaps.insert_module(rows, &written)
        })?;
        change.add(SnapshotChange::AddModule(Arc::clone(&module)));
        Ok(module)
    }

    /// Drops a view, function, procedure, external table or file format. It does not distinguish the three kinds of
    /// functions.
    ///
    /// # Errors
    /// 3701, 3705 if it is of another kind; a device's error, after which the statement must be rolled back.
    pub fn drop_module(
        self: &Arc<Database>,
        ctx: &StatementContext,
        schema: &str,
        name: &str,
        kind: ModuleKind,
    ) -> Result<()> {
        let (statement, noun) = kind_words(kind);
        let schema = self.snapshot_of(ctx).schema_id(schema).ok_or_else(|| cannot_drop(noun, name))?;
        let change = self.begin(ctx, vec![(Name::object(schema, name), Sharing::Exclusive)])?;
        let snapshot = self.snapshot_of(ctx);
        if snapshot.table(schema, name).is_some() {
            return Err(EngineError::Statement(
                errors::WRONG_OBJECT_KIND.with([&statement, &name, &name, &"table", &"TABLE"]),
            ));
        }
        let module = Arc::clone(snapshot.module(schema, name).ok_or_else(|| cannot_drop(noun, name))?);
        if kind_words(module.kind) != kind_words(kind) {
            return Err(wrong_kind(statement, &module));
        }
        let id = module.id;
        self.write_rows(ctx, |heaps, rows| heaps.delete_module(rows, id))?;
        change.add(SnapshotChange::RemoveModule(id));
        Ok(())
    }

    /// Creates a schema and returns its id.
    ///
    /// # Errors
    /// 2714, 103; a device's error, after which the statement must be rolled back.
    pub fn create_schema(self: &Arc<Database>, ctx: &StatementContext, name: &str) -> Result<i32> {
        check_name(name)?;
        let change = self.begin(ctx, vec![(Name::Schemas, Sharing::Exclusive)])?;
        let snapshot = self.snapshot_of(ctx);
        if snapshot.schema_id(name).is_some() {
            return Err(name_is_taken(name));
        }
        // 1 to 4 are the system's.
        let id = snapshot.schemas.iter().map(|schema| schema.id).max().unwrap_or(0).max(4) + 1;
        let schema = Schema { id, name: name.to_owned() };
        let written = schema.clone();
        self.write_rows(ctx, |heaps, rows| heaps.insert_schema(rows, &written))?;
        change.add(SnapshotChange::AddSchema(schema));
        Ok(id)
    }

    /// Drops an empty schema.
    ///
    /// # Errors
    /// 3701 it does not exist or is the system's (as 15151), 3729 it holds objects; a device's error, after which the
    /// statement must be rolled back.
    pub fn drop_schema(self: &Arc<Database>, ctx: &StatementContext, name: &str) -> Result<()> {
        let find = || {
            let snapshot = self.snapshot_of(ctx);
            let found = snapshot.schema_id(name).filter(|id| *id > 4);
            found.ok_or_else(|| cannot_drop("schema", name))
        };
        let id = find()?;
        let claims = vec![(Name::Schemas, Sharing::Exclusive), (Name::Schema(id), Sharing::Exclusive)];
        let change = self.begin(ctx, claims)?;
        find()?;
        let snapshot = self.snapshot_of(ctx);
        let tables = snapshot.tables.values().filter(|table| table.schema == id).map(|table| table.name.as_str());
        let modules = snapshot.modules.values().filter(|module| module.schema == id).map(|module| module.name.as_str());
        let sequences = snapshot.sequences.values().filter(|sequence| sequence.schema == id);
        let sequences = sequences.map(|sequence| sequence.name.as_str());
        if let Some(object) = tables.chain(modules).chain(sequences).next() {
            return Err(EngineError::Statement(errors::SCHEMA_IN_USE.with([&name, &object])));
        }
        self.write_rows(ctx, |heaps, rows| heaps.delete_schema(rows, id))?;
        change.add(SnapshotChange::RemoveSchema(id));
        Ok(())
    }
}
