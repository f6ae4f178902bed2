//! The objects of a database, as one immutable value.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use hobt_base::{DatabaseId, FileId, FilegroupId, HobtId, IndexId, ObjectId, PageId, PartitionNumber};
use hobt_page::RowLayout;
use hobt_types::{Collation, SqlType, Value};

use crate::constraint::TableConstraints;
use crate::statistics::Statistics;
use crate::usage::IndexUsage;

/// The objects of a database at one moment.
#[derive(Clone, Debug)]
pub struct DatabaseSnapshot {
    /// The database's id in its instance.
    pub id: DatabaseId,
    /// Its name, as it was created.
    pub name: String,
    /// Incremented by every DDL statement. Cached plans compare it.
    pub version: u64,
    /// When it was created: 100 ns since 1970-01-01 UTC.
    pub created: i64,
    /// The default collation of its columns.
    pub collation: Collation,
    /// Schemas; `dbo` is 1, `sys` 4.
    pub schemas: Vec<Schema>,
    /// Tables by id, system tables among them.
    pub tables: HashMap<ObjectId, Arc<Table>>,
    /// Views, functions and procedures by id.
    pub modules: HashMap<ObjectId, Arc<Module>>,
    /// Sequences by id.
    pub sequences: HashMap<ObjectId, Arc<Sequence>>,
    /// Statistics objects that were created or updated, by table; see [`DatabaseSnapshot::statistics_of`].
    pub statistics: HashMap<ObjectId, Vec<Arc<Statistics>>>,
    /// Filegroups by id.
    pub filegroups: Vec<Filegroup>,
    /// Data files by id.
    pub files: Vec<DatabaseFile>,
    /// Partition functions.
    pub partition_functions: Vec<Arc<PartitionFunction>>,
    /// Partition schemes.
    pub partition_schemes: Vec<Arc<PartitionScheme>>,
}

/// A schema.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schema {
    /// Its id.
    pub id: i32,
    /// Its name.
    pub name: String,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its id.
    pub id: ObjectId,
    /// Its schema's id.
    pub schema: i32,
    /// Its name.
    pub name: String,
    /// Whether it is one of the catalog's own.
    pub is_system: bool,
    /// When it was created: 100 ns since 1970-01-01 UTC.
    pub created: i64,
    /// Its columns, in order.
    pub columns: Vec<TableColumn>,
    /// The version of the column layout, in every page's header.
    pub layout_version: u32,
    /// Its indexes; the first is the heap or the clustered index.
    pub indexes: Vec<Index>,
    /// `LOCK_ESCALATION`: 0 TABLE, 1 DISABLE, 2 AUTO.
    pub lock_escalation: u8,
    /// The columns as pages see them.
    pub rows: Arc<RowLayout>,
    /// Computed columns that are not stored.
    pub virtual_columns: Vec<VirtualColumn>,
    /// Its constraints beyond types and keys.
    pub constraints: TableConstraints,
}

impl Table {
    /// A computed column that is not stored, by its name.
    pub fn virtual_column_named(&self, name: &str) -> Option<&VirtualColumn> {
        self.virtual_columns.iter().find(|column| name_equals(&column.name, name))
    }

    /// Whether a column of this name is computed, stored or not.
    pub fn is_computed(&self, name: &str) -> bool {
        self.virtual_column_named(name).is_some()
            || self.column_named(name).is_some_and(|place| self.columns[place].computed.is_some())
    }

    /// The id that is shown for the DEFAULT of a column. No object has it.
    pub fn default_id(&self, column: i32) -> ObjectId {
        ObjectId(self.id.0.wrapping_mul(4096).wrapping_add(column) | 1 << 30)
    }

    /// Its identity column.
    pub fn identity_column(&self) -> Option<&TableColumn> {
        self.columns.iter().find(|column| column.identity.is_some())
    }

    /// Its DEFAULT constraints.
    pub fn defaults(&self) -> impl Iterator<Item = &ColumnDefault> {
        self.columns.iter().filter_map(|column| column.default.as_ref())
    }

    /// The id for the next column.
    pub fn next_column_id(&self) -> i32 {
        let stored = self.columns.iter().map(|column| column.id);
        stored.chain(self.virtual_columns.iter().map(|column| column.id)).max().unwrap_or(0) + 1
    }

    /// An index by its name.
    pub fn index_named(&self, name: &str) -> Option<&Index> {
        self.indexes.iter().find(|index| index.name.as_deref().is_some_and(|own| name_equals(own, name)))
    }

    /// The indexes that are maintained when rows change, except the heap or clustered index.
    pub fn nonclustered(&self) -> impl Iterator<Item = &Index> {
        self.indexes[1..].iter().filter(|index| !index.options.is_disabled)
    }

    /// Whether rows are stored in the order of a key.
    pub fn is_clustered(&self) -> bool {
        self.base_index().kind == IndexKind::Clustered
    }

    /// A column's place by its name, ignoring case.
    pub fn column_named(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| name_equals(&column.name, name))
    }

    /// The heap or clustered index.
    pub fn base_index(&self) -> &Index {
        &self.indexes[0]
    }
}

/// A column of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct TableColumn {
    /// The column's id, from 1; never reused after a drop.
    pub id: i32,
    /// Its name.
    pub name: String,
    /// Its type.
    pub sql_type: SqlType,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// The collation of a text column.
    pub collation: Option<Collation>,
    /// The DEFAULT constraint.
    pub default: Option<ColumnDefault>,
    /// `IDENTITY(seed, increment)`.
    pub identity: Option<IdentityColumn>,
    /// `ROWGUIDCOL`.
    pub is_rowguid: bool,
    /// The expression of a computed column that is `PERSISTED`, in parentheses.
    pub computed: Option<String>,
}

/// A computed column that is not `PERSISTED`: it is not stored, and is listed separately from the table's columns.
#[derive(Clone, PartialEq, Debug)]
pub struct VirtualColumn {
    /// The column's id, which determines its position among all columns.
    pub id: i32,
    /// Its name.
    pub name: String,
    /// The type of its expression.
    pub sql_type: SqlType,
    /// Whether its expression can be NULL.
    pub nullable: bool,
    /// The collation of text.
    pub collation: Option<Collation>,
    /// The expression, in parentheses.
    pub definition: String,
}

/// A DEFAULT constraint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnDefault {
    /// The constraint's name.
    pub name: String,
    /// The expression's text, in parentheses, as SQL Server shows it.
    pub definition: String,
}

/// An IDENTITY property. The current value is kept with the table's storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdentityColumn {
    /// The first value.
    pub seed: i64,
    /// The step, never 0.
    pub increment: i64,
}

/// The kind of an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexKind {
    /// No order: index id 0.
    Heap,
    /// A clustered B+tree: index id 1.
    Clustered,
    /// A nonclustered B+tree.
    Nonclustered,
}

/// A column of an index's key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexKeyColumn {
    /// Its place in the table.
    pub column: usize,
    /// `DESC`.
    pub is_descending: bool,
}

/// The constraint that an index enforces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyConstraint {
    /// Its object id; its name is the index's.
    pub id: ObjectId,
    /// `PRIMARY KEY` rather than `UNIQUE`.
    pub is_primary: bool,
    /// Whether its name was generated.
    pub is_system_named: bool,
}

/// The options of an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexOptions {
    /// `UNIQUE`: no two rows have the same key.
    pub is_unique: bool,
    /// `DISABLE`: it has no storage and is neither read nor maintained until it is rebuilt.
    pub is_disabled: bool,
    /// `PAD_INDEX`.
    pub is_padded: bool,
    /// `IGNORE_DUP_KEY`: an `INSERT` skips rows whose key exists already.
    pub ignores_duplicates: bool,
    /// `ALLOW_ROW_LOCKS`.
    pub allows_row_locks: bool,
    /// `ALLOW_PAGE_LOCKS`.
    pub allows_page_locks: bool,
    /// `OPTIMIZE_FOR_SEQUENTIAL_KEY`.
    pub is_sequential: bool,
    /// `FILLFACTOR`, in percent; 0 and 100 are full pages.
    pub fill_factor: u8,
}

impl Default for IndexOptions {
    fn default() -> IndexOptions {
        IndexOptions {
            is_unique: false,
            is_disabled: false,
            is_padded: false,
            ignores_duplicates: false,
            allows_row_locks: true,
            allows_page_locks: true,
            is_sequential: false,
            fill_factor: 0,
        }
    }
}

/// A heap or an index of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct Index {
    /// 0 the heap, 1 the clustered index, nonclustered from 2.
    pub id: IndexId,
    /// Its name; a heap has none.
    pub name: Option<String>,
    /// Its kind.
    pub kind: IndexKind,
    /// Its data space.
    pub data_space: DataSpace,
    /// Its partitions, in order of their numbers; one if it is not partitioned.
    pub partitions: Vec<Partition>,
    /// The columns of its key, in key order; a heap has none.
    pub key: Vec<IndexKeyColumn>,
    /// `INCLUDE`: further columns of a nonclustered index's leaves, by their places in the table.
    pub included: Vec<usize>,
    /// The primary key or unique constraint that it enforces.
    pub constraint: Option<KeyConstraint>,
    /// Its options.
    pub options: IndexOptions,
    /// How often statements have used it.
    pub usage: IndexUsage,
}

impl Index {
    /// A heap.
    pub fn heap(data_space: DataSpace, partitions: Vec<Partition>) -> Index {
        Index {
            id: IndexId(0),
            name: None,
            kind: IndexKind::Heap,
            data_space,
            partitions,
            key: Vec::new(),
            included: Vec::new(),
            constraint: None,
            options: IndexOptions::default(),
            usage: IndexUsage::default(),
        }
    }
}

/// Where an index is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DataSpace {
    /// One filegroup.
    Filegroup(FilegroupId),
    /// A partition scheme, by its id, with the partitioning column of the table.
    Scheme {
        /// The scheme's id.
        scheme: u32,
        /// The partitioning column's place in the table.
        column: usize,
    },
}

/// One partition of an index: a HOBT.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// From 1.
    pub number: PartitionNumber,
    /// The heap or B-tree.
    pub hobt: HobtId,
    /// Its filegroup.
    pub filegroup: FilegroupId,
    /// The first page of its run list.
    pub run_list: PageId,
}

/// `CREATE PARTITION FUNCTION`.
#[derive(Clone, PartialEq, Debug)]
pub struct PartitionFunction {
    /// Its id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The parameter's type.
    pub parameter: SqlType,
    /// The parameter's collation, for text.
    pub collation: Option<Collation>,
    /// `RANGE RIGHT`: a boundary value belongs to the partition above it.
    pub range_right: bool,
    /// The boundary values, sorted and distinct.
    pub boundaries: Vec<Value>,
}

impl PartitionFunction {
    /// The number of partitions: one more than its boundaries.
    pub fn partition_count(&self) -> usize {
        self.boundaries.len() + 1
    }
}

/// `CREATE PARTITION SCHEME`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionScheme {
    /// Its id; data space ids of schemes start at 65601.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The function's id.
    pub function: u32,
    /// The filegroup of each partition, in order.
    pub filegroups: Vec<FilegroupId>,
    /// The filegroup marked NEXT USED, if the user gave more than needed.
    pub next_used: Option<FilegroupId>,
}

/// A filegroup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filegroup {
    /// Its id; 1 is PRIMARY.
    pub id: FilegroupId,
    /// Its name.
    pub name: String,
    /// Whether new objects go there.
    pub is_default: bool,
}

/// How a file grows when it is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Growth {
    /// Not at all.
    None,
    /// By this number of pages.
    Pages(u32),
    /// By this percentage of its size.
    Percent(u32),
}

/// A data file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DatabaseFile {
    /// From 1.
    pub id: FileId,
    /// Its filegroup.
    pub filegroup: FilegroupId,
    /// Its logical name.
    pub name: String,
    /// Its path.
    pub path: PathBuf,
    /// How it grows.
    pub growth: Growth,
    /// The largest size in pages; `None` for no limit.
    pub max_pages: Option<u32>,
}

/// The kind of a module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ModuleKind {
    /// `V`
    View,
    /// `IF`: an inline table-valued function.
    InlineFunction,
    /// `FN`: a scalar function.
    ScalarFunction,
    /// `TF`: a multi-statement table-valued function.
    TableFunction,
    /// `P`: a stored procedure.
    Procedure,
    /// `ET`: a table whose rows are in files; shown as `U`.
    ExternalTable,
    /// `FF`: how the files of external tables are read. Its schema is `sys`, since it has none, and it is no object.
    FileFormat,
}

/// A view, function, procedure or external table, with its text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Module {
    /// Its id.
    pub id: ObjectId,
    /// Its schema's id.
    pub schema: i32,
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: ModuleKind,
    /// The text of a CREATE statement.
    pub definition: String,
    /// When it was created: 100 ns since 1970-01-01 UTC.
    pub created: i64,
}

/// The definition of a sequence. Its position, up to which values are taken, is only in its row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sequence {
    /// Its id.
    pub id: ObjectId,
    /// Its schema's id.
    pub schema: i32,
    /// Its name.
    pub name: String,
    /// When it was created: 100 ns since 1970-01-01 UTC.
    pub created: i64,
    /// The type of its values: an integer type, or a decimal of scale 0.
    pub sql_type: SqlType,
    /// The first value.
    pub start: i128,
    /// The step, never 0.
    pub increment: i128,
    /// The minimum.
    pub minimum: i128,
    /// The maximum.
    pub maximum: i128,
    /// Whether it restarts after its last value.
    pub cycles: bool,
    /// How many values are taken at a time: 0 is `NO CACHE`, `None` if no size was given.
    pub cache: Option<i32>,
}

/// Whether two object names are equal, ignoring case, as in the default collation.
pub fn name_equals(left: &str, right: &str) -> bool {
    left == right || left.eq_ignore_ascii_case(right) || left.to_lowercase() == right.to_lowercase()
}

impl DatabaseSnapshot {
    /// A schema's id by its name.
    pub fn schema_id(&self, name: &str) -> Option<i32> {
        self.schemas.iter().find(|schema| name_equals(&schema.name, name)).map(|schema| schema.id)
    }

    /// A table by its schema and name.
    pub fn table(&self, schema: i32, name: &str) -> Option<&Arc<Table>> {
        self.tables.values().find(|table| table.schema == schema && name_equals(&table.name, name))
    }

    /// A view, function or procedure by its schema and name.
    pub fn module(&self, schema: i32, name: &str) -> Option<&Arc<Module>> {
        self.modules.values().find(|module| module.schema == schema && name_equals(&module.name, name))
    }

    /// A sequence by its schema and name.
    pub fn sequence(&self, schema: i32, name: &str) -> Option<&Arc<Sequence>> {
        self.sequences.values().find(|sequence| sequence.schema == schema && name_equals(&sequence.name, name))
    }

    /// A partition function by its name.
    pub fn partition_function(&self, name: &str) -> Option<&Arc<PartitionFunction>> {
        self.partition_functions.iter().find(|function| name_equals(&function.name, name))
    }

    /// A partition scheme by its name.
    pub fn partition_scheme(&self, name: &str) -> Option<&Arc<PartitionScheme>> {
        self.partition_schemes.iter().find(|scheme| name_equals(&scheme.name, name))
    }

    /// A filegroup by its name.
    pub fn filegroup(&self, name: &str) -> Option<&Filegroup> {
        self.filegroups.iter().find(|filegroup| name_equals(&filegroup.name, name))
    }
}

impl DatabaseSnapshot {
    /// A schema by its id.
    pub fn schema_by_id(&self, id: i32) -> Option<&Schema> {
        self.schemas.iter().find(|schema| schema.id == id)
    }

    /// A filegroup by its id.
    pub fn filegroup_by_id(&self, id: FilegroupId) -> Option<&Filegroup> {
        self.filegroups.iter().find(|filegroup| filegroup.id == id)
    }

    /// The filegroup of objects that name none.
    pub fn default_filegroup(&self) -> FilegroupId {
        self.filegroups.iter().find(|filegroup| filegroup.is_default).map_or(FilegroupId(1), |filegroup| filegroup.id)
    }

    /// A partition function by its id.
    pub fn partition_function_by_id(&self, id: u32) -> Option<&Arc<PartitionFunction>> {
        self.partition_functions.iter().find(|function| function.id == id)
    }

    /// A partition scheme by its id.
    pub fn partition_scheme_by_id(&self, id: u32) -> Option<&Arc<PartitionScheme>> {
        self.partition_schemes.iter().find(|scheme| scheme.id == id)
    }

    /// The column (its place in the table) and the function by which a data space is partitioned; `None` if it is not
    /// partitioned. The scheme and the function exist: a catalog is checked when it is loaded.
    pub fn partitioning_of(&self, space: &DataSpace) -> Option<(usize, &Arc<PartitionFunction>)> {
        let DataSpace::Scheme { scheme, column } = space else { return None };
        let scheme = self.partition_scheme_by_id(*scheme)?;
        Some((*column, self.partition_function_by_id(scheme.function)?))
    }

    /// Whether a table, view, function, procedure or sequence has this name.
    pub fn has_object(&self, schema: i32, name: &str) -> bool {
        self.table(schema, name).is_some()
            || self.module(schema, name).is_some()
            || self.sequence(schema, name).is_some()
            || self.has_constraint(schema, name)
    }

    /// Whether a table, module, sequence or key constraint has this id.
    pub fn has_object_id(&self, id: ObjectId) -> bool {
        let constraints = |table: &Arc<Table>| {
            table.indexes.iter().any(|index| index.constraint.is_some_and(|constraint| constraint.id == id))
                || table.constraints.heads().any(|head| head.id == id)
        };
        self.tables.contains_key(&id)
            || self.modules.contains_key(&id)
            || self.sequences.contains_key(&id)
            || self.tables.values().any(constraints)
    }

    /// Whether a constraint of a schema has this name.
    pub fn has_constraint(&self, schema: i32, name: &str) -> bool {
        self.tables.values().filter(|table| table.schema == schema).any(|table| {
            table.index_named(name).is_some_and(|index| index.constraint.is_some())
                || table.constraints.heads().any(|head| name_equals(&head.name, name))
                || table.defaults().any(|default| name_equals(&default.name, name))
        })
    }

    /// The table, index and partition of a HOBT.
    pub fn partition_of_hobt(&self, hobt: HobtId) -> Option<(&Arc<Table>, &Index, &Partition)> {
        self.tables.values().find_map(|table| {
            table.indexes.iter().find_map(|index| {
                index.partitions.iter().find(|part| part.hobt == hobt).map(|part| (table, index, part))
            })
        })
    }
}

impl PartitionFunction {
    /// The partition (from 0) of a value of the parameter's type; NULL sorts below every value.
    pub fn partition_of(&self, value: &Value) -> usize {
        self.boundaries.partition_point(|boundary| {
            let order = crate::compare_values(self.collation, boundary, value);
            if self.range_right { order.is_le() } else { order.is_lt() }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boundary_belongs_to_the_side_that_the_range_names() {
        let function = |range_right, boundaries| PartitionFunction {
            id: 1,
            name: "pf".to_owned(),
            parameter: SqlType::Int,
            collation: None,
            range_right,
            boundaries,
        };
        let partitions = |range_right, first| {
            let function = function(range_right, vec![first, Value::Int(20)]);
            [Value::Null, Value::Int(9), Value::Int(10), Value::Int(11), Value::Int(20), Value::Int(21)]
                .map(|value| function.partition_of(&value))
        };
        assert_eq!(partitions(true, Value::Int(10)), [0, 0, 1, 1, 2, 2]);
        assert_eq!(partitions(false, Value::Int(10)), [0, 0, 0, 1, 1, 2]);
        assert_eq!(partitions(true, Value::Null), [1, 1, 1, 1, 2, 2]);
        assert_eq!(partitions(false, Value::Null), [0, 1, 1, 1, 1, 2]);
    }
}
