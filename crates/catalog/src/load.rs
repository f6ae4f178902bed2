//! Loads all rows of the system tables into a snapshot.

use std::collections::HashMap;
use std::sync::Arc;

use hobt_base::{DatabaseId, FileId, FilegroupId, HobtId, IndexId, ObjectId, PageId, PartitionNumber};
use hobt_page::MAX_COLUMNS;
use hobt_types::{Collation, SqlType};

use crate::constraint::{TableConstraints, load_constraints};
use crate::error::{CatalogError, damaged};
use crate::heaps::SystemHeaps;
use crate::index_leaf::base_layout;
use crate::long_value::{LongValues, ValueClass};
use crate::schema::{
    ColumnDefault, DataSpace, DatabaseFile, DatabaseSnapshot, Filegroup, IdentityColumn, Index, IndexKeyColumn,
    IndexKind, Module, Partition, PartitionFunction, PartitionScheme, Schema, Table, TableColumn, VirtualColumn,
};
use crate::sequence::{SEQUENCE_KIND, load_sequence};
use crate::system::{
    ColumnRow, ConstraintRow, DefaultRow, DestinationRow, FileRow, FilegroupRow, ForeignKeyColumnRow, FunctionRow,
    IndexColumnRow, IndexRow, ObjectRow, RowsetRow, SchemaRow, SchemeRow, SequenceRow, SystemTable,
};
use crate::type_columns::TypeColumns;
use crate::usage::IndexUsage;
use crate::value_bytes::value_from_bytes;
use crate::write::{FIRST_SCHEME_ID, STORED_COMPUTED, VIRTUAL_COMPUTED, index_kind, module_kind, status_of_index};

/// The part of a snapshot that is not in system tables.
#[derive(Clone, Debug)]
pub struct DatabaseIdentity {
    /// The database's id in its instance.
    pub id: DatabaseId,
    /// Its name.
    pub name: String,
    /// When it was created: 100 ns since 1970-01-01 UTC.
    pub created: i64,
    /// Its files, from their headers.
    pub files: Vec<DatabaseFile>,
}

type ByTable<T> = HashMap<i32, Vec<T>>;

fn by_table<T>(rows: Vec<T>, key: impl Fn(&T) -> i32) -> ByTable<T> {
    let mut map: ByTable<T> = HashMap::new();
    for row in rows {
        map.entry(key(&row)).or_default().push(row);
    }
    map
}

fn filegroup_id(id: i16, table: SystemTable) -> Result<FilegroupId, CatalogError> {
    u16::try_from(id).map(FilegroupId).map_err(|_| damaged(table, "a filegroup id is negative"))
}

fn sql_type(columns: TypeColumns, table: SystemTable) -> Result<SqlType, CatalogError> {
    columns.sql_type().ok_or_else(|| damaged(table, format!("no type is {columns:?}")))
}

fn collation(name: Option<&str>, table: SystemTable) -> Result<Option<Collation>, CatalogError> {
    name.map(|name| Collation::from_name(name).ok_or_else(|| damaged(table, format!("no collation is '{name}'"))))
        .transpose()
}

impl SystemHeaps {
    /// Reads and checks everything.
    ///
    /// # Errors
    /// A page cannot be read, a row is damaged, rows contradict each other or the files' headers.
    pub fn load(&self, identity: DatabaseIdentity) -> Result<DatabaseSnapshot, CatalogError> {
        let mut long = LongValues::read(self)?;
        let mut snapshot = DatabaseSnapshot {
            id: identity.id,
            name: identity.name,
            version: 1,
            created: identity.created,
            collation: Collation::default(),
            schemas: self.rows()?.into_iter().map(|row: SchemaRow| Schema { id: row.id, name: row.name }).collect(),
            tables: HashMap::new(),
            modules: HashMap::new(),
            sequences: HashMap::new(),
            statistics: HashMap::new(),
            filegroups: self.load_filegroups()?,
            files: identity.files,
            partition_functions: self.load_functions(&mut long)?,
            partition_schemes: self.load_schemes()?,
        };
        snapshot.schemas.sort_by_key(|schema| schema.id);
        self.check_file_rows(&snapshot)?;
        for (table, heap) in self.tables() {
            snapshot.tables.insert(table.id(), table.table(heap.run_list(), snapshot.created));
        }
        self.load_objects(&mut snapshot, &mut long)?;
        self.load_statistics(&mut snapshot, &mut long)?;
        snapshot.check()?;
        Ok(snapshot)
    }

    fn load_filegroups(&self) -> Result<Vec<Filegroup>, CatalogError> {
        let mut filegroups = Vec::new();
        for row in self.rows::<FilegroupRow>()? {
            let id = filegroup_id(row.id, SystemTable::Filegroups)?;
            filegroups.push(Filegroup { id, name: row.name, is_default: row.is_default });
        }
        filegroups.sort_by_key(|filegroup| filegroup.id);
        Ok(filegroups)
    }

    /// The files that the database lists.
    ///
    /// # Errors
    /// A page cannot be read, or a row is damaged.
    pub fn file_ids(&self) -> Result<Vec<FileId>, CatalogError> {
        let rows: Vec<FileRow> = self.rows()?;
        Ok(rows.into_iter().map(|row| FileId(row.id.cast_unsigned())).collect())
    }

    /// Checks that the files that were opened are those that the database lists.
    fn check_file_rows(&self, snapshot: &DatabaseSnapshot) -> Result<(), CatalogError> {
        let mut rows = self.rows::<FileRow>()?;
        rows.sort_by_key(|row| row.id);
        let known = rows.iter().map(|row| (row.id, row.filegroup, row.name.as_str()));
        let mut opened: Vec<_> = snapshot
            .files
            .iter()
            .map(|file| (file.id.0.cast_signed(), file.filegroup.0.cast_signed(), file.name.as_str()))
            .collect();
        opened.sort_unstable();
        if known.eq(opened.iter().copied()) {
            return Ok(());
        }
        let is_opened = |row: &&FileRow| opened.iter().any(|(id, ..)| *id == row.id);
        let missing: Vec<String> =
            rows.iter().filter(|row| !is_opened(row)).map(|row| format!("file {} ('{}')", row.id, row.name)).collect();
        let text = match missing.is_empty() {
            true => "the database's files are not those that its catalog lists".to_owned(),
            false => format!("the catalog also lists {}: a database needs all its data files", missing.join(", ")),
        };
        Err(damaged(SystemTable::Files, text))
    }

    fn load_functions(&self, long: &mut LongValues) -> Result<Vec<Arc<PartitionFunction>>, CatalogError> {
        let table = SystemTable::Functions;
        let mut functions = Vec::new();
        for row in self.rows::<FunctionRow>()? {
            let columns =
                TypeColumns { type_id: row.type_id, length: row.length, precision: row.precision, scale: row.scale };
            let parameter = sql_type(columns, table)?;
            let mut boundaries = Vec::new();
            for index in 0..row.boundaries {
                let bytes = long.take(ValueClass::Boundary, row.id, index);
                let bytes =
                    bytes.ok_or_else(|| damaged(table, format!("boundary {index} of '{}' is missing", row.name)))?;
                let value = value_from_bytes(parameter, bytes.as_deref())
                    .map_err(|error| damaged(table, format!("boundary {index} of '{}': {error}", row.name)))?;
                boundaries.push(value);
            }
            functions.push(Arc::new(PartitionFunction {
                id: row.id.cast_unsigned(),
                name: row.name,
                parameter,
                collation: collation(row.collation.as_deref(), table)?,
                range_right: row.range_right,
                boundaries,
            }));
        }
        functions.sort_by_key(|function| function.id);
        Ok(functions)
    }

    fn load_schemes(&self) -> Result<Vec<Arc<PartitionScheme>>, CatalogError> {
        let mut destinations = by_table(self.rows::<DestinationRow>()?, |row| row.scheme);
        let mut schemes = Vec::new();
        for row in self.rows::<SchemeRow>()? {
            let mut rows = destinations.remove(&row.id).unwrap_or_default();
            rows.sort_by_key(|row| row.number);
            if !rows.iter().map(|row| row.number).eq(1..=i32::try_from(rows.len()).unwrap_or(i32::MAX)) {
                return Err(damaged(SystemTable::Destinations, format!("partitions of '{}' are missing", row.name)));
            }
            let filegroups = rows
                .iter()
                .map(|row| filegroup_id(row.filegroup, SystemTable::Destinations))
                .collect::<Result<_, _>>()?;
            let next_used = row.next_used.map(|id| filegroup_id(id, SystemTable::Schemes)).transpose()?;
            schemes.push(Arc::new(PartitionScheme {
                id: row.id.cast_unsigned(),
                name: row.name,
                function: row.function.cast_unsigned(),
                filegroups,
                next_used,
            }));
        }
        schemes.sort_by_key(|scheme| scheme.id);
        Ok(schemes)
    }

    fn load_objects(&self, snapshot: &mut DatabaseSnapshot, long: &mut LongValues) -> Result<(), CatalogError> {
        let mut columns = by_table(self.rows::<ColumnRow>()?, |row| row.table);
        let mut defaults = by_table(self.rows::<DefaultRow>()?, |row| row.table);
        let mut indexes = by_table(self.rows::<IndexRow>()?, |row| row.table);
        let mut index_columns = by_table(self.rows::<IndexColumnRow>()?, |row| row.table);
        let mut rowsets = by_table(self.rows::<RowsetRow>()?, |row| row.table);
        let mut constraints = by_table(self.rows::<ConstraintRow>()?, |row| row.table);
        let mut key_columns = by_table(self.rows::<ForeignKeyColumnRow>()?, |row| row.table);
        let mut sequences = by_table(self.rows::<SequenceRow>()?, |row| row.id);
        for row in self.rows::<ObjectRow>()? {
            let id = ObjectId(row.id);
            if let Some(kind) = module_kind(&row.kind) {
                let definition = long.take_text(ValueClass::Module, row.id, 0)?;
                let (schema, name, created) = (row.schema, row.name, row.created.0);
                snapshot.modules.insert(id, Arc::new(Module { id, schema, name, kind, definition, created }));
                continue;
            }
            if row.kind == SEQUENCE_KIND {
                let found = sequences.remove(&row.id).and_then(|mut rows| rows.pop());
                let found = found.ok_or_else(|| {
                    damaged(SystemTable::Sequences, format!("sequence {id} '{}' has no row", row.name))
                })?;
                snapshot.sequences.insert(id, Arc::new(load_sequence(row, &found)?));
                continue;
            }
            if row.kind != "U" || snapshot.tables.contains_key(&id) {
                let what = format!("object {id} '{}' is of kind '{}', or there twice", row.name, row.kind);
                return Err(damaged(SystemTable::Objects, what));
            }
            let defaults = defaults.remove(&row.id).unwrap_or_default();
            let of_table = columns.remove(&row.id).unwrap_or_default();
            let (columns, virtual_columns) = load_columns(of_table, &defaults, long)?;
            let rowsets = rowsets.remove(&row.id).unwrap_or_default();
            let own_columns = index_columns.remove(&row.id).unwrap_or_default();
            let own = indexes.remove(&row.id).unwrap_or_default();
            let indexes = load_indexes(own, &rowsets, own_columns, &columns)?;
            let own = constraints.remove(&row.id).unwrap_or_default();
            let of_keys = key_columns.remove(&row.id).unwrap_or_default();
            let constraints = load_constraints(own, of_keys, long)?;
            let table = load_table(row, columns, indexes)?;
            snapshot.tables.insert(id, Arc::new(Table { virtual_columns, constraints, ..table }));
        }
        for (rest, table) in [
            (columns.keys().next(), SystemTable::Columns),
            (defaults.keys().next(), SystemTable::Defaults),
            (indexes.keys().next(), SystemTable::Indexes),
            (index_columns.keys().next(), SystemTable::IndexColumns),
            (rowsets.keys().next(), SystemTable::Rowsets),
            (sequences.keys().next(), SystemTable::Sequences),
            (constraints.keys().next(), SystemTable::Constraints),
            (key_columns.keys().next(), SystemTable::ForeignKeyColumns),
        ] {
            if let Some(id) = rest {
                return Err(damaged(table, format!("object {id} does not exist")));
            }
        }
        Ok(())
    }
}

fn load_table(row: ObjectRow, columns: Vec<TableColumn>, indexes: Vec<Index>) -> Result<Table, CatalogError> {
    // The layout cannot be built from no columns, or from more. All other rules are in the snapshot's check.
    if !(1..=MAX_COLUMNS).contains(&columns.len()) {
        return Err(damaged(SystemTable::Columns, format!("table '{}' has {} columns", row.name, columns.len())));
    }
    let layout_version = u32::try_from(row.layout_version)
        .map_err(|_| damaged(SystemTable::Objects, format!("the layout version of '{}' is negative", row.name)))?;
    Ok(Table {
        id: ObjectId(row.id),
        schema: row.schema,
        name: row.name,
        is_system: false,
        created: row.created.0,
        rows: match indexes.first() {
            Some(base) => base_layout(&columns, base),
            None => return Err(damaged(SystemTable::Indexes, "a table has neither a heap nor an index")),
        },
        columns,
        layout_version,
        indexes,
        lock_escalation: row.lock_escalation,
        virtual_columns: Vec::new(),
        constraints: TableConstraints::default(),
    })
}

fn load_columns(
    mut rows: Vec<ColumnRow>,
    defaults: &[DefaultRow],
    long: &mut LongValues,
) -> Result<(Vec<TableColumn>, Vec<VirtualColumn>), CatalogError> {
    let table = SystemTable::Columns;
    let mut virtual_columns = Vec::new();
    rows.sort_by_key(|row| row.column);
    let mut columns = Vec::with_capacity(rows.len());
    for row in rows {
        let types =
            TypeColumns { type_id: row.type_id, length: row.length, precision: row.precision, scale: row.scale };
        let default = defaults.iter().find(|default| default.column == row.column);
        let default = default
            .map(|default| {
                let definition = long.take_text(ValueClass::Default, row.table, row.column)?;
                Ok::<_, CatalogError>(ColumnDefault { name: default.name.clone(), definition })
            })
            .transpose()?;
        let computed = match row.computed {
            0 => None,
            VIRTUAL_COMPUTED | STORED_COMPUTED => Some(long.take_text(ValueClass::Computed, row.table, row.column)?),
            _ => return Err(damaged(table, format!("column '{}' is computed in no known way", row.name))),
        };
        if let (VIRTUAL_COMPUTED, Some(definition)) = (row.computed, &computed) {
            virtual_columns.push(VirtualColumn {
                id: row.column,
                sql_type: sql_type(types, table)?,
                nullable: row.nullable,
                collation: collation(row.collation.as_deref(), table)?,
                definition: definition.clone(),
                name: row.name,
            });
            continue;
        }
        let identity = match (row.identity_seed, row.identity_increment) {
            (Some(seed), Some(increment)) => Some(IdentityColumn { seed, increment }),
            (None, None) => None,
            _ => return Err(damaged(table, format!("column '{}' has half an identity", row.name))),
        };
        columns.push(TableColumn {
            id: row.column,
            name: row.name,
            sql_type: sql_type(types, table)?,
            nullable: row.nullable,
            collation: collation(row.collation.as_deref(), table)?,
            default,
            identity,
            is_rowguid: row.is_rowguid,
            computed,
        });
    }
    Ok((columns, virtual_columns))
}

fn load_indexes(
    mut rows: Vec<IndexRow>,
    rowsets: &[RowsetRow],
    mut index_columns: Vec<IndexColumnRow>,
    columns: &[TableColumn],
) -> Result<Vec<Index>, CatalogError> {
    let table = SystemTable::Indexes;
    rows.sort_by_key(|row| row.index);
    index_columns.sort_by_key(|row| (row.index, row.place));
    if let Some(column) = index_columns.iter().find(|column| rows.iter().all(|row| row.index != column.index)) {
        let what = format!("table {} has no index {}", column.table, column.index);
        return Err(damaged(SystemTable::IndexColumns, what));
    }
    if let Some(rowset) = rowsets.iter().find(|rowset| rows.iter().all(|row| row.index != rowset.index)) {
        let what = format!("table {} has no index {}", rowset.table, rowset.index);
        return Err(damaged(SystemTable::Rowsets, what));
    }
    let mut indexes = Vec::with_capacity(rows.len());
    for row in rows {
        let kind: IndexKind =
            index_kind(row.kind).ok_or_else(|| damaged(table, format!("no index is of kind {}", row.kind)))?;
        let space = row.data_space.cast_unsigned();
        let data_space = match row.partition_column {
            None => {
                let id = u16::try_from(space).map_err(|_| damaged(table, "a filegroup id is out of range"))?;
                DataSpace::Filegroup(FilegroupId(id))
            }
            Some(id) if space >= FIRST_SCHEME_ID => {
                let column = columns.iter().position(|column| column.id == id);
                let column = column.ok_or_else(|| damaged(table, "the partitioning column does not exist"))?;
                DataSpace::Scheme { scheme: space, column }
            }
            Some(_) => return Err(damaged(table, "a partitioned index lies in no partition scheme")),
        };
        let mut partitions = Vec::new();
        for rowset in rowsets.iter().filter(|rowset| rowset.index == row.index) {
            partitions.push(load_partition(rowset)?);
        }
        partitions.sort_by_key(|partition| partition.number);
        let (mut key, mut included) = (Vec::new(), Vec::new());
        for part in index_columns.iter().filter(|part| part.index == row.index) {
            let column = columns.iter().position(|column| column.id == part.column);
            let column = column
                .ok_or_else(|| damaged(SystemTable::IndexColumns, format!("no column has the id {}", part.column)))?;
            if part.is_included {
                included.push(column);
            } else {
                key.push(IndexKeyColumn { column, is_descending: part.is_descending });
            }
        }
        let status = status_of_index(&row);
        let (options, constraint) =
            status.ok_or_else(|| damaged(table, format!("no index has status {}", row.status)))?;
        let id = IndexId(row.index);
        let usage = IndexUsage::default();
        indexes.push(Index {
            id,
            name: row.name,
            kind,
            data_space,
            partitions,
            key,
            included,
            constraint,
            options,
            usage,
        });
    }
    Ok(indexes)
}

fn load_partition(row: &RowsetRow) -> Result<Partition, CatalogError> {
    let table = SystemTable::Rowsets;
    let number = u32::try_from(row.number).map_err(|_| damaged(table, "a partition number is negative"))?;
    let file = u16::try_from(row.run_list_file).map_err(|_| damaged(table, "a file id is negative"))?;
    Ok(Partition {
        number: PartitionNumber(number),
        hobt: HobtId(row.hobt.cast_unsigned()),
        filegroup: filegroup_id(row.filegroup, table)?,
        run_list: PageId::new(FileId(file), row.run_list_page.cast_unsigned()),
    })
}
