//! System tables in ordinary heaps, and the immutable snapshot that readers use.
//!
//! Readers hold an `Arc` of a [`DatabaseSnapshot`] for the duration of a statement. DDL writes rows of the system
//! tables through the same page changes as any table ([`SystemHeaps`]). It describes its changes as
//! [`SnapshotChange`]s, which produce the next snapshot when the statement commits.
//!
//! ```text
//! boot page ── run lists ──► SystemHeaps ── load ──► DatabaseSnapshot ── check
//!                                ▲                        ▲
//!                     rows through the statement   SnapshotChange, at commit
//! ```
//!
//! Nothing read is trusted: a row that contradicts its table or another row is a [`CatalogError`].
//!
//! Not here: commits, conflicts of two statements over a name, ids, files (crate `engine`).

mod change;
mod check;
mod compact;
mod constraint;
mod error;
#[cfg(test)]
mod fuzz;
mod heaps;
mod history;
mod identity;
mod index_leaf;
mod load;
mod long_value;
mod row_check;
mod schema;
mod sequence;
mod shown_counts;
mod statistics;
mod statistics_stream;
mod system;
mod type_columns;
mod usage;
mod value_bytes;
mod write;

pub use change::SnapshotChange;
pub use check::{BrokenRule, KEY_COLUMNS_MAX, NAME_LENGTH_MAX};
pub use compact::WithoutReaders;
pub use constraint::{CheckConstraint, ConstraintHead, ForeignKey, ReferentialRule, TableConstraints};
pub use error::CatalogError;
pub use heaps::SystemHeaps;
pub use identity::IdentityPosition;
pub use index_leaf::{IndexLeaf, LeafColumn};
pub use load::DatabaseIdentity;
pub use row_check::DamagedRow;
pub use schema::{
    ColumnDefault, DataSpace, DatabaseFile, DatabaseSnapshot, Filegroup, Growth, IdentityColumn, Index, IndexKeyColumn,
    IndexKind, IndexOptions, KeyConstraint, Module, ModuleKind, Partition, PartitionFunction, PartitionScheme, Schema,
    Sequence, Table, TableColumn, VirtualColumn, name_equals,
};
pub use sequence::SequencePosition;
pub use shown_counts::{CountsBeside, PartitionCounts};
pub use statistics::{Statistics, StatisticsOrigin, StatisticsPart};
pub use statistics_stream::{StatisticsStream, StreamDamage};
pub use system::{
    ColumnRow, ConstraintRow, DatabaseFileRow, DatabaseRow, DefaultRow, DestinationRow, FieldDefinition, FileRow,
    FilegroupRow, ForeignKeyColumnRow, FunctionRow, IndexColumnRow, IndexRow, ObjectRow, RowsetRow, SYS_SCHEMA,
    SchemaRow, SchemeRow, SequenceRow, StatisticsPartRow, StatisticsRow, SystemRow, SystemTable, Text, Timestamp,
    ValueRow,
};
pub use usage::{IndexUsage, IndexUse, IndexUser, IndexUses, IndexUsesByKind};
pub use value_bytes::{MalformedValue, check_value_bytes, compare_values, row_image, value_from_bytes, value_to_bytes};
pub use write::FIRST_SCHEME_ID;
