//! Changes that statements make to a snapshot.

use std::sync::Arc;

use hobt_base::{FileId, FilegroupId, ObjectId};

use crate::schema::{
    DatabaseFile, DatabaseSnapshot, Filegroup, Module, PartitionFunction, PartitionScheme, Schema, Sequence, Table,
};
use crate::statistics::Statistics;

/// One change of a database's objects. It is applied when its statement commits, to the snapshot that is current then.
#[derive(Clone, Debug)]
pub enum SnapshotChange {
    /// A new table.
    AddTable(Arc<Table>),
    /// A table was dropped.
    RemoveTable(ObjectId),
    /// A new view, function or procedure; replaces the one of the same id.
    AddModule(Arc<Module>),
    /// A view, function or procedure was dropped.
    RemoveModule(ObjectId),
    /// A new sequence; replaces the one of the same id.
    AddSequence(Arc<Sequence>),
    /// A sequence was dropped.
    RemoveSequence(ObjectId),
    /// A statistics object is new or was updated.
    SetStatistics(Arc<Statistics>),
    /// A statistics object of a table was dropped.
    RemoveStatistics(ObjectId, i32),
    /// A new schema.
    AddSchema(Schema),
    /// A schema was dropped.
    RemoveSchema(i32),
    /// A new partition function.
    AddPartitionFunction(Arc<PartitionFunction>),
    /// A partition function was dropped.
    RemovePartitionFunction(u32),
    /// A new partition scheme.
    AddPartitionScheme(Arc<PartitionScheme>),
    /// A partition scheme was dropped.
    RemovePartitionScheme(u32),
    /// A new filegroup.
    AddFilegroup(Filegroup),
    /// Another filegroup is the default.
    SetDefaultFilegroup(FilegroupId),
    /// A new data file.
    AddFile(DatabaseFile),
    /// A data file was removed.
    RemoveFile(FileId),
    /// A filegroup was removed.
    RemoveFilegroup(FilegroupId),
}

impl DatabaseSnapshot {
    /// Applies `change` to this snapshot and increments its version.
    pub fn apply(&mut self, change: &SnapshotChange) {
        self.version += 1;
        match change {
            SnapshotChange::AddTable(table) => {
                self.tables.insert(table.id, Arc::clone(table));
                self.keep_statistics_of(table);
            }
            SnapshotChange::RemoveTable(id) => {
                self.tables.remove(id);
                self.statistics.remove(id);
            }
            SnapshotChange::AddModule(module) => {
                self.modules.insert(module.id, Arc::clone(module));
            }
            SnapshotChange::RemoveModule(id) => {
                self.modules.remove(id);
            }
            SnapshotChange::AddSequence(sequence) => {
                self.sequences.insert(sequence.id, Arc::clone(sequence));
            }
            SnapshotChange::RemoveSequence(id) => {
                self.sequences.remove(id);
            }
            SnapshotChange::SetStatistics(statistics) => {
                self.set_statistics(statistics.table, statistics.id, Some(Arc::clone(statistics)));
            }
            SnapshotChange::RemoveStatistics(table, id) => self.set_statistics(*table, *id, None),
            SnapshotChange::AddSchema(schema) => self.schemas.push(schema.clone()),
            SnapshotChange::RemoveSchema(id) => self.schemas.retain(|schema| schema.id != *id),
            SnapshotChange::AddPartitionFunction(function) => self.partition_functions.push(Arc::clone(function)),
            SnapshotChange::RemovePartitionFunction(id) => {
                self.partition_functions.retain(|function| function.id != *id);
            }
            SnapshotChange::AddPartitionScheme(scheme) => self.partition_schemes.push(Arc::clone(scheme)),
            SnapshotChange::RemovePartitionScheme(id) => self.partition_schemes.retain(|scheme| scheme.id != *id),
            SnapshotChange::AddFilegroup(filegroup) => self.filegroups.push(filegroup.clone()),
            SnapshotChange::SetDefaultFilegroup(id) => {
                for filegroup in &mut self.filegroups {
                    filegroup.is_default = filegroup.id == *id;
                }
            }
            SnapshotChange::AddFile(file) => {
                self.files.push(file.clone());
                self.files.sort_by_key(|file| file.id);
            }
            SnapshotChange::RemoveFile(id) => self.files.retain(|file| file.id != *id),
            SnapshotChange::RemoveFilegroup(id) => self.filegroups.retain(|filegroup| filegroup.id != *id),
        }
    }
}
