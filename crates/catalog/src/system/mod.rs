//! The list of system tables, and their columns.
//!
//! Each is an ordinary heap in the primary filegroup, whose run list is recorded in the boot page. Their object ids and
//! HOBT ids are fixed. A row of each is a plain struct, which [`SystemRow`] converts to values and back.

mod constraint;
mod field;
mod rows;
mod statistics;

use std::sync::Arc;

use hobt_base::{FilegroupId, HobtId, ObjectId, PageId, PartitionNumber};
use hobt_types::{Collation, SqlType, Value};

pub use constraint::{ConstraintRow, ForeignKeyColumnRow, SequenceRow};
pub use field::{Text, Timestamp};
pub use rows::{
    ColumnRow, DatabaseFileRow, DatabaseRow, DefaultRow, DestinationRow, FileRow, FilegroupRow, FunctionRow,
    IndexColumnRow, IndexRow, ObjectRow, RowsetRow, SchemaRow, SchemeRow, ValueRow,
};
pub use statistics::{StatisticsPartRow, StatisticsRow};

use crate::constraint::TableConstraints;
use crate::schema::{DataSpace, Index, Partition, Table, TableColumn};

/// The schema of the system tables.
pub const SYS_SCHEMA: i32 = 4;

/// A system table. The numbers are object ids and are stored on disk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(i32)]
pub enum SystemTable {
    /// Partitions of heaps and indexes: HOBTs.
    Rowsets = 5,
    /// Files of this database.
    Files = 24,
    /// Filegroups.
    Filegroups = 23,
    /// Databases of the instance; in `master` only.
    Databases = 28,
    /// Paths of the files of the instance's databases; in `master` only.
    DatabaseFiles = 29,
    /// Tables, views, functions and procedures.
    Objects = 34,
    /// Columns of tables.
    Columns = 41,
    /// Schemas.
    Schemas = 50,
    /// Heaps and indexes of tables.
    Indexes = 54,
    /// Columns of indexes.
    IndexColumns = 55,
    /// Long values of other rows: texts of modules and defaults, partition boundaries.
    Values = 60,
    /// DEFAULT constraints.
    Defaults = 61,
    /// Partition functions.
    Functions = 62,
    /// Partition schemes.
    Schemes = 63,
    /// Filegroups of partition schemes.
    Destinations = 64,
    /// Sequences and their positions.
    Sequences = 65,
    /// CHECK and FOREIGN KEY constraints.
    Constraints = 66,
    /// Columns of foreign keys.
    ForeignKeyColumns = 67,
    /// Statistics objects.
    Statistics = 68,
    /// What was gathered for partitions.
    StatisticsParts = 69,
}

const EVERYWHERE: &[SystemTable] = &[
    SystemTable::Objects,
    SystemTable::Columns,
    SystemTable::Indexes,
    SystemTable::IndexColumns,
    SystemTable::Rowsets,
    SystemTable::Schemas,
    SystemTable::Values,
    SystemTable::Defaults,
    SystemTable::Functions,
    SystemTable::Schemes,
    SystemTable::Destinations,
    SystemTable::Filegroups,
    SystemTable::Files,
    SystemTable::Sequences,
    SystemTable::Constraints,
    SystemTable::ForeignKeyColumns,
    SystemTable::Statistics,
    SystemTable::StatisticsParts,
];

impl SystemTable {
    /// The system tables of a database, in the order in which its boot page lists them.
    pub fn of_database(is_master: bool) -> Vec<SystemTable> {
        let mut tables = EVERYWHERE.to_vec();
        if is_master {
            tables.extend([SystemTable::Databases, SystemTable::DatabaseFiles]);
        }
        tables
    }

    /// Its object id.
    pub const fn id(self) -> ObjectId {
        ObjectId(self as i32)
    }

    /// Its heap.
    pub const fn hobt(self) -> HobtId {
        HobtId((self as i32 as u64) << 16)
    }

    /// Its name in schema `sys`.
    pub const fn name(self) -> &'static str {
        match self {
            SystemTable::Rowsets => "sysrowsets",
            SystemTable::Files => "sysprufiles",
            SystemTable::Filegroups => "sysphfg",
            SystemTable::Databases => "sysdbreg",
            SystemTable::DatabaseFiles => "sysbrickfiles",
            SystemTable::Objects => "sysschobjs",
            SystemTable::Columns => "syscolpars",
            SystemTable::Schemas => "sysclsobjs",
            SystemTable::Indexes => "sysidxstats",
            SystemTable::IndexColumns => "sysiscols",
            SystemTable::Values => "sysobjvalues",
            SystemTable::Defaults => "sysdefaults",
            SystemTable::Functions => "syspartfuncs",
            SystemTable::Schemes => "syspartschemes",
            SystemTable::Destinations => "syspartdests",
            SystemTable::Sequences => "sysseqs",
            SystemTable::Constraints => "sysconstrs",
            SystemTable::ForeignKeyColumns => "sysfkcols",
            SystemTable::Statistics => "sysstatistics",
            SystemTable::StatisticsParts => "sysstatparts",
        }
    }

    /// Its columns.
    pub fn columns(self) -> Vec<TableColumn> {
        let fields = match self {
            SystemTable::Rowsets => RowsetRow::FIELDS,
            SystemTable::Files => FileRow::FIELDS,
            SystemTable::Filegroups => FilegroupRow::FIELDS,
            SystemTable::Databases => DatabaseRow::FIELDS,
            SystemTable::DatabaseFiles => DatabaseFileRow::FIELDS,
            SystemTable::Objects => ObjectRow::FIELDS,
            SystemTable::Columns => ColumnRow::FIELDS,
            SystemTable::Schemas => SchemaRow::FIELDS,
            SystemTable::Indexes => IndexRow::FIELDS,
            SystemTable::IndexColumns => IndexColumnRow::FIELDS,
            SystemTable::Values => ValueRow::FIELDS,
            SystemTable::Defaults => DefaultRow::FIELDS,
            SystemTable::Functions => FunctionRow::FIELDS,
            SystemTable::Schemes => SchemeRow::FIELDS,
            SystemTable::Destinations => DestinationRow::FIELDS,
            SystemTable::Sequences => SequenceRow::FIELDS,
            SystemTable::Constraints => ConstraintRow::FIELDS,
            SystemTable::ForeignKeyColumns => ForeignKeyColumnRow::FIELDS,
            SystemTable::Statistics => StatisticsRow::FIELDS,
            SystemTable::StatisticsParts => StatisticsPartRow::FIELDS,
        };
        fields.iter().zip(1..).map(|(field, id)| field.column(id)).collect()
    }

    /// The table as a snapshot shows it. Its heap's run list starts at `run_list`.
    pub fn table(self, run_list: PageId, created: i64) -> Arc<Table> {
        let columns = self.columns();
        let partition =
            Partition { number: PartitionNumber(1), hobt: self.hobt(), filegroup: FilegroupId(1), run_list };
        Arc::new(Table {
            id: self.id(),
            schema: SYS_SCHEMA,
            name: self.name().to_owned(),
            is_system: true,
            created,
            layout_version: 1,
            rows: Arc::new(Table::row_layout(&columns)),
            columns,
            indexes: vec![Index::heap(DataSpace::Filegroup(FilegroupId(1)), vec![partition])],
            lock_escalation: 0,
            virtual_columns: Vec::new(),
            constraints: TableConstraints::default(),
        })
    }
}

/// A column of a system table.
#[derive(Clone, Copy, Debug)]
pub struct FieldDefinition {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub sql_type: SqlType,
    /// Whether it may be NULL.
    pub nullable: bool,
}

impl FieldDefinition {
    fn column(&self, id: i32) -> TableColumn {
        TableColumn {
            id,
            name: self.name.to_owned(),
            sql_type: self.sql_type,
            nullable: self.nullable,
            collation: self.sql_type.is_text().then(Collation::default),
            default: None,
            identity: None,
            is_rowguid: false,
            computed: None,
        }
    }
}

/// A row of a system table.
pub trait SystemRow: Sized {
    /// The table.
    const TABLE: SystemTable;
    /// Its columns.
    const FIELDS: &'static [FieldDefinition];

    /// The row's values, one for each column.
    fn to_values(&self) -> Vec<Value>;

    /// The row with these values; `None` if they do not have the columns' types.
    fn from_values(values: Vec<Value>) -> Option<Self>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_names_and_layouts_are_distinct_and_possible() {
        let tables = SystemTable::of_database(true);
        for (index, table) in tables.iter().enumerate() {
            assert!((1..100).contains(&table.id().0), "system objects have ids below 100");
            assert!(table.table(PageId::default(), 0).rows.page_layout(1).is_some(), "{} fits a page", table.name());
            assert!(tables[index + 1..].iter().all(|other| other.id() != table.id() && other.name() != table.name()));
        }
    }
}
