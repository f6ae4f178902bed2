//! Instances and databases: create, open, close, files, filegroups, DDL.
//!
//! An [`Instance`] is a folder: `master` (id 1: the list of databases), `tempdb` (2, created anew at each start) and
//! users' databases from id 5, each a set of data files. A [`Database`] is its files, its catalog snapshot and its
//! heaps.
//!
//! Changes of definitions: every DDL function takes the statement's [`hobt_txn::StatementContext`], writes rows of the
//! system tables through it, and publishes the new snapshot only when the statement commits. Until then only
//! [`Database::snapshot_of`] of the same statement sees the change. A statement that rolls back leaves nothing: no
//! rows, no extents, no files. Two statements that want the same name wait for each other.
//!
//! A database that was changed and not closed by [`Instance::close`] is recovered from its log when it is next used. If
//! its log or pages do not allow that, it is SUSPECT: listed, but refused with error 926. The clean flag in the file
//! headers is cleared, and synced, before anything else is written. A database that was not changed therefore stays
//! clean, whatever happens to the process, and needs no recovery.
//!
//! Not here: locks (callers take them from [`Instance::locks`]), the meaning of statements (`hobt-binder`,
//! `hobt-interpreter`), pages and extents (`hobt-access`), the list of sessions (`hobt-session`).
//!
//! The public surface in short:
//!
//! ```text
//! Instance::open(folder, InstanceSettings) -> Arc<Instance>        open_on(disk, …) for tests
//!   folder settings disk memory pool pool_memory locks             its parts
//!   runtime() -> Arc<RuntimeSettings>, change_runtime(Fn(&mut RuntimeSettings))
//!   missing_indexes() -> &MissingIndexes                           indexes that statements would have used
//!   spills() -> &Arc<SpillFiles>                                   create() -> SpillFile: append, read_at
//!   shown_pages(DatabaseId, &DataFile) -> u32                      with what is spilled, if it counts there
//!   next_stamp() -> Stamp
//!   statement_context(SessionId, dop, cancelled) -> Arc<StatementContext>
//!   end_statement(&ctx, succeeded, &[&Database])                   commit or roll back; a failure makes them SUSPECT.
//!   begin_transaction(SessionId) -> Arc<Transaction>            statement_of(&transaction, …) -> Arc<StatementContext>
//!   end_transaction(&transaction, commits, &[&Database])           roll_back_to(&transaction, &savepoint, …)
//!                                                                  Without it the last owner of ctx rolls it back
//!   databases() -> Vec<DatabaseDescription>                        every database, SUSPECT ones too
//!   database(name) / database_by_id(id) / master() / tempdb() -> DatabaseUse
//!   create_database(&DatabaseDefinition) -> Created { database }     drop_database(name)
//!   add_filegroup / set_default_filegroup(&DatabaseUse, name), add_files(&DatabaseUse, filegroup, &[FileDefinition])
//!   add_log_files(&DatabaseUse, &[FileDefinition])                 remove_file(&DatabaseUse, name)
//!   set_isolation_option(&DatabaseUse, IsolationOption, on)        DatabaseUse::isolation() has what is in force
//!   attach_database(name, &[PathBuf], rebuilds_log) -> Created     detach_database(name)
//!   set_offline(name) / set_online(name)
//!   set_options(&DatabaseUse, Fn(&mut DatabaseOptions))            the options of ALTER DATABASE … SET
//!   back_up(&DatabaseUse, &BackupRequest) -> BackupDone            back_up_tail(&TailRequest): of a log whose database
//!                                                                  cannot be opened, or is left restoring
//!   restore(&RestoreRequest) -> RestoreDone                        restore_pages(&RestoreRequest, &[PageId])
//!   recover_restored(name)                                         WITH RECOVERY alone
//!   backup_media / backup_set / backup_label / verify_backup       what backup files hold
//!   backup_history() -> Vec<(i32, HistoryEntry)>                   delete_backup_history(&[i32])
//!   start_buffer_pool_extension(path, bytes)                       stop_…()    buffer_pool_extension() shows it
//!   databases_recovering() -> Vec<RecoveringDatabase>              transactions_undone() -> Vec<UndoneTransaction>
//!   checkpoint()    close()                                        close also when dropped
//!   CREATE, DROP and ALTER DATABASE are statements of their own: they take no context and are not rolled back.
//!
//! DatabaseUse: Clone, Deref<Target = Arc<Database>>                the database is not dropped while one exists
//!
//! Database
//!   id name created state storage checkpoint check_usable mark_suspect storage_error(AccessError) -> EngineError
//!   snapshot() -> Arc<DatabaseSnapshot>    snapshot_of(&ctx): with ctx's own changes
//!   hobt(HobtId) -> Arc<Hobt>              hobt_to_read: leaves the database clean
//!   row_count(&[HobtId]) -> u64            rows of heaps and B+trees
//!   check() -> Vec<Found>                  what DBCC CHECKDB finds; DatabaseCheck: table by table
//!   create_table(&ctx, &TableDefinition) -> Arc<Table>
//!   drop_table / truncate_table(&ctx, schema, name, &mut lock) -> ObjectId         lock(ObjectId) takes Sch-M on it
//!   create_module(&ctx, &ModuleDefinition) -> Arc<Module>          drop_module(&ctx, schema, name, ModuleKind)
//!   create_sequence(&ctx, &SequenceDefinition) -> Arc<Sequence>
//!   alter_sequence(&ctx, schema, name, &…Alteration, &mut lock)
//!   drop_sequence(&ctx, schema, name, &mut lock)                   sequence_state(&sequence)
//!   take_sequence_values(&ctx, &sequence, count, FnMut(first, count))      take_sequence_range(&ctx, &sequence, count)
//!   create_schema(&ctx, name) -> i32                               drop_schema(&ctx, name)
//!   create_partition_function(&ctx, &…Definition) -> (Arc<PartitionFunction>, warnings)    drop_…(&ctx, name)
//!   create_partition_scheme(&ctx, &…Definition) -> (Arc<PartitionScheme>, messages)        drop_…(&ctx, name)
//!
//! EngineError: to_sql_error(); From for SqlError. After an error of a function that takes a context, the statement
//! must be rolled back.
//! ```

mod data_file;
mod database;
mod definition;
mod error;
mod instance;
mod isolation;
mod log_description;
mod log_file;
mod missing_index;
mod options;
mod path;
mod recovery_progress;
mod settings;
mod spill;

pub use database::{
    CheckDefinition, CheckScope, CheckedTable, ColumnAlteration, Database, DatabaseCheck, DatabaseState,
    ForeignKeyDefinition, Found, IndexMismatch, IndexSelector, LockTable, Owner, Problem, RowAt, RowChangeNotes,
    RowChanges, RowUpdate, SAID_MAX, SaidCounts, SequenceAlteration, SequenceDefinition, SequenceRange, SequenceState,
    StatisticsDefinition, StatisticsState, SwitchSide, TableChange, TableWriter, TakenOut, UndoneTransaction,
    WriteError, current_row, is_stored_alike, key_bytes_max, key_value_bytes, may_exceed_key_bytes, partitions_in,
    partitions_named, problem_counts, statistics_columns, statistics_type, uniqueifier_of_key, whole_row,
};
pub use definition::{
    ColumnDefinition, ComputedDefinition, DataSpaceDefinition, DatabaseDefinition, DefaultDefinition, FileDefinition,
    FilegroupDefinition, IndexDefinition, KeyKind, ModuleDefinition, PartitionFunctionDefinition,
    PartitionSchemeDefinition, Replace, TableDefinition,
};
pub use error::{EngineError, disk_error, no_such_object, no_such_statistics, storage_error};
pub use hobt_access::{FileShare, Fill};
pub use hobt_backup::{Guid, HistoryEntry, Media, MediaLabel, Opening, SetFacts, SetKind, SetPlace};
pub use hobt_buffer::ExtensionStatistics;
pub use hobt_instruments::time_of_day;
pub use hobt_log::TruncationWait;
pub use hobt_txn::{DelayedDurability, RECOVERED_SESSION};
pub use instance::{
    BackgroundWork, BackupDone, BackupRequest, BackupWhat, CloneOptions, Created, DatabaseDescription, DatabaseUse,
    ExtensionDescription, Instance, ObserveBackup, RESTORED_PAGES_MAX, RestoreDone, RestoreEnd, RestoreRequest,
    SnapshotDefinition, StopPoint, TailRequest,
};
pub use isolation::{IsolationOption, IsolationOptions};
pub use log_description::{LogDescription, LogFileDescription};
pub use missing_index::{MissingIndex, MissingIndexGroup, MissingIndexUses, MissingIndexes};
pub use options::{DatabaseOptions, RecoveryModel, StatisticsOptions, TargetRecoveryTime};
pub use recovery_progress::{RecoveringDatabase, RecoveryObserver, RecoveryProgress};
pub use settings::{
    InDoubtResolution, InstanceSettings, RuntimeSettings, TRACE_BACKOFF_STACKS, TRACE_NO_INDEX_STATISTICS,
    TRACE_NO_READ_AHEAD,
};
pub use spill::{SpillFile, SpillFiles};
