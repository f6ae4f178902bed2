//! System tables in ordinary heaps, and the immutable snapshot that readers use.
//!
//! Readers hold an `Arc` of a [`DatabaseSnapshot`] for as long as a statement runs; DDL writes rows of the system
//! tables through the same page changes as any table and then publishes a new snapshot.

mod schema;

pub use schema::{
    ColumnDefault, DataSpace, DatabaseFile, DatabaseSnapshot, Filegroup, Growth, IdentityColumn, Index, IndexKind,
    Module, ModuleKind, Partition, PartitionFunction, PartitionScheme, Schema, Table, TableColumn,
};
