//! Writes whole objects as rows of the system tables, and deletes them.

use hobt_base::{FileId, FilegroupId, ObjectId};
use hobt_txn::StatementContext;
use hobt_types::{Collation, SqlType};

use crate::error::CatalogError;
use crate::heaps::SystemHeaps;
use crate::long_value::ValueClass;
use crate::schema::{
    DataSpace, DatabaseFile, Filegroup, Index, IndexKind, IndexOptions, KeyConstraint, Module, ModuleKind,
    PartitionFunction, PartitionScheme, Schema, Table, TableColumn, VirtualColumn,
};
use crate::system::{
    ColumnRow, DefaultRow, DestinationRow, FileRow, FilegroupRow, FunctionRow, IndexColumnRow, IndexRow, ObjectRow,
    RowsetRow, SchemaRow, SchemeRow, Timestamp,
};
use crate::type_columns::TypeColumns;
use crate::value_bytes::value_to_bytes;

/// The data space ids of partition schemes start here; those of filegroups are below.
pub const FIRST_SCHEME_ID: u32 = 65_601;

/// A computed column that is not stored.
pub(crate) const VIRTUAL_COMPUTED: u8 = 1;
/// A computed column that is stored.
pub(crate) const STORED_COMPUTED: u8 = 2;

const MODULE_KINDS: [(ModuleKind, &str); 7] = [
    (ModuleKind::View, "V"),
    (ModuleKind::InlineFunction, "IF"),
    (ModuleKind::ScalarFunction, "FN"),
    (ModuleKind::TableFunction, "TF"),
    (ModuleKind::Procedure, "P"),
    (ModuleKind::ExternalTable, "ET"),
    (ModuleKind::FileFormat, "FF"),
];

pub(crate) fn module_kind(name: &str) -> Option<ModuleKind> {
    MODULE_KINDS.iter().find(|(_, each)| *each == name).map(|(kind, _)| *kind)
}

impl ModuleKind {
    /// The code of its rows.
    fn stored_code(self) -> &'static str {
        let found = MODULE_KINDS.iter().find(|(kind, _)| *kind == self);
        found.expect("every kind is listed").1
    }

    /// SQL Server's object type: `V`, `IF`, `FN`, `TF`, `P`, and `U` for an external table.
    pub fn type_code(self) -> &'static str {
        if self == ModuleKind::ExternalTable { "U" } else { self.stored_code() }
    }

    /// Whether it is a view, a function or a procedure: its definition is a user's text, and it is an object.
    pub fn is_program(self) -> bool {
        !matches!(self, ModuleKind::ExternalTable | ModuleKind::FileFormat)
    }

    /// Whether it is an object, which `sys.objects` shows.
    pub fn is_object(self) -> bool {
        self != ModuleKind::FileFormat
    }
}

/// The row of a column for which only its name, type and collation are given.
fn column_row(table: ObjectId, id: i32, name: &str, sql_type: SqlType, collation: Option<Collation>) -> ColumnRow {
    let types = TypeColumns::of(sql_type);
    ColumnRow {
        table: table.0,
        column: id,
        name: name.to_owned(),
        type_id: types.type_id,
        length: types.length,
        precision: types.precision,
        scale: types.scale,
        nullable: false,
        collation: collation.map(|collation| collation.name().to_owned()),
        identity_seed: None,
        identity_increment: None,
        is_rowguid: false,
        computed: 0,
    }
}

const INDEX_KINDS: [IndexKind; 3] = [IndexKind::Heap, IndexKind::Clustered, IndexKind::Nonclustered];

pub(crate) fn index_kind(number: u8) -> Option<IndexKind> {
    INDEX_KINDS.get(usize::from(number)).copied()
}

/// The bits of an index's status.
const UNIQUE: i32 = 1;
const DISABLED: i32 = 2;
const PADDED: i32 = 4;
const IGNORES_DUPLICATES: i32 = 8;
const NO_ROW_LOCKS: i32 = 16;
const NO_PAGE_LOCKS: i32 = 32;
const SEQUENTIAL: i32 = 64;
const PRIMARY: i32 = 128;
const SYSTEM_NAMED: i32 = 256;

fn index_status(index: &Index) -> i32 {
    let options = &index.options;
    let bits = [
        (options.is_unique, UNIQUE),
        (options.is_disabled, DISABLED),
        (options.is_padded, PADDED),
        (options.ignores_duplicates, IGNORES_DUPLICATES),
        (!options.allows_row_locks, NO_ROW_LOCKS),
        (!options.allows_page_locks, NO_PAGE_LOCKS),
        (options.is_sequential, SEQUENTIAL),
        (index.constraint.is_some_and(|constraint| constraint.is_primary), PRIMARY),
        (index.constraint.is_some_and(|constraint| constraint.is_system_named), SYSTEM_NAMED),
    ];
    bits.iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum()
}

/// The options and the constraint in a status; `None` if it has unknown bits.
pub(crate) fn status_of_index(row: &IndexRow) -> Option<(IndexOptions, Option<KeyConstraint>)> {
    let has = |bit: i32| row.status & bit != 0;
    let known = UNIQUE | DISABLED | PADDED | IGNORES_DUPLICATES | NO_ROW_LOCKS | NO_PAGE_LOCKS | SEQUENTIAL;
    let of_constraint = if row.constraint.is_some() { PRIMARY | SYSTEM_NAMED } else { 0 };
    if row.status & !(known | of_constraint) != 0 || row.fill_factor > 100 {
        return None;
    }
    let options = IndexOptions {
        is_unique: has(UNIQUE),
        is_disabled: has(DISABLED),
        is_padded: has(PADDED),
        ignores_duplicates: has(IGNORES_DUPLICATES),
        allows_row_locks: !has(NO_ROW_LOCKS),
        allows_page_locks: !has(NO_PAGE_LOCKS),
        is_sequential: has(SEQUENTIAL),
        fill_factor: row.fill_factor,
    };
    let constraint = row.constraint.map(|id| KeyConstraint {
        id: ObjectId(id),
        is_primary: has(PRIMARY),
        is_system_named: has(SYSTEM_NAMED),
    });
    Some((options, constraint))
}

impl SystemHeaps {
    /// Writes the rows of a table.
    ///
    /// # Errors
    /// As of any insert.
    pub fn insert_table(&self, ctx: &StatementContext, table: &Table) -> Result<(), CatalogError> {
        self.insert(
            ctx,
            &ObjectRow {
                id: table.id.0,
                schema: table.schema,
                name: table.name.clone(),
                kind: "U".to_owned(),
                created: Timestamp(table.created),
                layout_version: i32::try_from(table.layout_version).expect("versions are counted from 1"),
                lock_escalation: table.lock_escalation,
            },
        )?;
        for column in &table.columns {
            self.insert_column(ctx, table.id, column)?;
        }
        for column in &table.virtual_columns {
            self.insert_virtual_column(ctx, table.id, column)?;
        }
        self.insert_constraints(ctx, table)?;
        table.indexes.iter().try_for_each(|index| self.insert_index(ctx, table, index))
    }

    fn insert_column(&self, ctx: &StatementContext, table: ObjectId, column: &TableColumn) -> Result<(), CatalogError> {
        let row = ColumnRow {
            nullable: column.nullable,
            identity_seed: column.identity.map(|identity| identity.seed),
            identity_increment: column.identity.map(|identity| identity.increment),
            is_rowguid: column.is_rowguid,
            computed: if column.computed.is_some() { STORED_COMPUTED } else { 0 },
            ..column_row(table, column.id, &column.name, column.sql_type, column.collation)
        };
        self.insert(ctx, &row)?;
        if let Some(definition) = &column.computed {
            self.insert_long(ctx, ValueClass::Computed, table.0, column.id, Some(definition.as_bytes()))?;
        }
        let Some(default) = &column.default else { return Ok(()) };
        self.insert(ctx, &DefaultRow { table: table.0, column: column.id, name: default.name.clone() })?;
        self.insert_long(ctx, ValueClass::Default, table.0, column.id, Some(default.definition.as_bytes()))
    }

    fn insert_virtual_column(
        &self,
        ctx: &StatementContext,
        table: ObjectId,
        column: &VirtualColumn,
    ) -> Result<(), CatalogError> {
        let row = ColumnRow {
            nullable: column.nullable,
            computed: VIRTUAL_COMPUTED,
            ..column_row(table, column.id, &column.name, column.sql_type, column.collation)
        };
        self.insert(ctx, &row)?;
        self.insert_long(ctx, ValueClass::Computed, table.0, column.id, Some(column.definition.as_bytes()))
    }

    fn insert_index(&self, ctx: &StatementContext, table: &Table, index: &Index) -> Result<(), CatalogError> {
        let (data_space, partition_column) = match index.data_space {
            DataSpace::Filegroup(filegroup) => (i32::from(filegroup.0), None),
            DataSpace::Scheme { scheme, column } => (scheme.cast_signed(), Some(table.columns[column].id)),
        };
        self.insert(
            ctx,
            &IndexRow {
                table: table.id.0,
                index: index.id.0,
                name: index.name.clone(),
                kind: INDEX_KINDS
                    .iter()
                    .zip(0..)
                    .find_map(|(kind, number)| (*kind == index.kind).then_some(number))
                    .expect("every kind is listed"),
                data_space,
                partition_column,
                status: index_status(index),
                fill_factor: index.options.fill_factor,
                constraint: index.constraint.map(|constraint| constraint.id.0),
            },
        )?;
        let key = index.key.iter().map(|part| (part.column, false, part.is_descending));
        let included = index.included.iter().map(|column| (*column, true, false));
        for ((column, is_included, is_descending), place) in key.chain(included).zip(1..) {
            let column = table.columns[column].id;
            let row =
                IndexColumnRow { table: table.id.0, index: index.id.0, place, column, is_included, is_descending };
            self.insert(ctx, &row)?;
        }
        for partition in &index.partitions {
            self.insert(
                ctx,
                &RowsetRow {
                    hobt: partition.hobt.0.cast_signed(),
                    table: table.id.0,
                    index: index.id.0,
                    number: partition.number.0.cast_signed(),
                    filegroup: partition.filegroup.0.cast_signed(),
                    run_list_file: partition.run_list.file.0.cast_signed(),
                    run_list_page: partition.run_list.number.cast_signed(),
                },
            )?;
        }
        Ok(())
    }

    /// Deletes the rows of a table.
    ///
    /// # Errors
    /// As of any delete.
    pub fn delete_table(&self, ctx: &StatementContext, table: ObjectId) -> Result<(), CatalogError> {
        self.delete(ctx, |row: &ObjectRow| row.id == table.0)?;
        let mut computes = false;
        self.delete(ctx, |row: &ColumnRow| {
            let is_own = row.table == table.0;
            computes |= is_own && row.computed != 0;
            is_own
        })?;
        if computes {
            self.delete_long(ctx, ValueClass::Computed, table.0)?;
        }
        self.delete_constraints(ctx, table)?;
        self.delete(ctx, |row: &IndexRow| row.table == table.0)?;
        self.delete(ctx, |row: &IndexColumnRow| row.table == table.0)?;
        self.delete(ctx, |row: &RowsetRow| row.table == table.0)?;
        if self.delete(ctx, |row: &DefaultRow| row.table == table.0)? > 0 {
            self.delete_long(ctx, ValueClass::Default, table.0)?;
        }
        Ok(())
    }

    /// Writes the rows of a view, function or procedure.
    ///
    /// # Errors
    /// As of any insert.
    pub fn insert_module(&self, ctx: &StatementContext, module: &Module) -> Result<(), CatalogError> {
        self.insert(
            ctx,
            &ObjectRow {
                id: module.id.0,
                schema: module.schema,
                name: module.name.clone(),
                kind: module.kind.stored_code().to_owned(),
                created: Timestamp(module.created),
                layout_version: 0,
                lock_escalation: 0,
            },
        )?;
        self.insert_long(ctx, ValueClass::Module, module.id.0, 0, Some(module.definition.as_bytes()))
    }

    /// Deletes the rows of a view, function or procedure.
    ///
    /// # Errors
    /// As of any delete.
    pub fn delete_module(&self, ctx: &StatementContext, module: ObjectId) -> Result<(), CatalogError> {
        self.delete(ctx, |row: &ObjectRow| row.id == module.0)?;
        self.delete_long(ctx, ValueClass::Module, module.0)
    }

    /// Writes a schema's row.
    ///
    /// # Errors
    /// As of any insert.
    pub fn insert_schema(&self, ctx: &StatementContext, schema: &Schema) -> Result<(), CatalogError> {
        self.insert(ctx, &SchemaRow { id: schema.id, name: schema.name.clone() })
    }

    /// Deletes a schema's row.
    ///
    /// # Errors
    /// As of any delete.
    pub fn delete_schema(&self, ctx: &StatementContext, schema: i32) -> Result<(), CatalogError> {
        self.delete(ctx, |row: &SchemaRow| row.id == schema).map(|_| ())
    }

    /// Writes the rows of a partition function.
    ///
    /// # Errors
    /// As of any insert.
    ///
    /// # Panics
    /// If a boundary does not belong to the parameter's type. Callers check that before.
    pub fn insert_partition_function(
        &self,
        ctx: &StatementContext,
        function: &PartitionFunction,
    ) -> Result<(), CatalogError> {
        let types = TypeColumns::of(function.parameter);
        let id = function.id.cast_signed();
        self.insert(
            ctx,
            &FunctionRow {
                id,
                name: function.name.clone(),
                type_id: types.type_id,
                length: types.length,
                precision: types.precision,
                scale: types.scale,
                collation: function.collation.map(|collation| collation.name().to_owned()),
                range_right: function.range_right,
                boundaries: i32::try_from(function.boundaries.len()).expect("at most 14999 boundaries"),
            },
        )?;
        for (boundary, index) in function.boundaries.iter().zip(0..) {
            let bytes = value_to_bytes(function.parameter, boundary).expect("a value of the parameter's type");
            self.insert_long(ctx, ValueClass::Boundary, id, index, bytes.as_deref())?;
        }
        Ok(())
    }

    /// Deletes the rows of a partition function.
    ///
    /// # Errors
    /// As of any delete.
    pub fn delete_partition_function(&self, ctx: &StatementContext, function: u32) -> Result<(), CatalogError> {
        let id = function.cast_signed();
        self.delete(ctx, |row: &FunctionRow| row.id == id)?;
        self.delete_long(ctx, ValueClass::Boundary, id)
    }

    /// Writes the rows of a partition scheme.
    ///
    /// # Errors
    /// As of any insert.
    pub fn insert_partition_scheme(
        &self,
        ctx: &StatementContext,
        scheme: &PartitionScheme,
    ) -> Result<(), CatalogError> {
        let id = scheme.id.cast_signed();
        self.insert(
            ctx,
            &SchemeRow {
                id,
                name: scheme.name.clone(),
                function: scheme.function.cast_signed(),
                next_used: scheme.next_used.map(|filegroup| filegroup.0.cast_signed()),
            },
        )?;
        for (filegroup, number) in scheme.filegroups.iter().zip(1..) {
            self.insert(ctx, &DestinationRow { scheme: id, number, filegroup: filegroup.0.cast_signed() })?;
        }
        Ok(())
    }

    /// Deletes the rows of a partition scheme.
    ///
    /// # Errors
    /// As of any delete.
    pub fn delete_partition_scheme(&self, ctx: &StatementContext, scheme: u32) -> Result<(), CatalogError> {
        let id = scheme.cast_signed();
        self.delete(ctx, |row: &SchemeRow| row.id == id)?;
        self.delete(ctx, |row: &DestinationRow| row.scheme == id).map(|_| ())
    }

    /// Writes a filegroup's row.
    ///
    /// # Errors
    /// As of any insert.
    pub fn insert_filegroup(&self, ctx: &StatementContext, filegroup: &Filegroup) -> Result<(), CatalogError> {
        let row = FilegroupRow {
            id: filegroup.id.0.cast_signed(),
            name: filegroup.name.clone(),
            is_default: filegroup.is_default,
        };
        self.insert(ctx, &row)
    }

    /// Deletes a filegroup's row.
    ///
    /// # Errors
    /// As of any delete.
    pub fn delete_filegroup(&self, ctx: &StatementContext, filegroup: FilegroupId) -> Result<(), CatalogError> {
        self.delete(ctx, |row: &FilegroupRow| row.id == filegroup.0.cast_signed()).map(|_| ())
    }

    /// Writes a file's row.
    ///
    /// # Errors
    /// As of any insert.
    pub fn insert_file(&self, ctx: &StatementContext, file: &DatabaseFile) -> Result<(), CatalogError> {
        let row =
            FileRow { id: file.id.0.cast_signed(), filegroup: file.filegroup.0.cast_signed(), name: file.name.clone() };
        self.insert(ctx, &row)
    }

    /// Deletes a file's row.
    ///
    /// # Errors
    /// As of any delete.
    pub fn delete_file(&self, ctx: &StatementContext, file: FileId) -> Result<(), CatalogError> {
        self.delete(ctx, |row: &FileRow| row.id == file.0.cast_signed()).map(|_| ())
    }
}
