//! Instances and databases: create, open, close, files, filegroups, DDL.
//!
//! An [`Instance`] is a folder: `master` (id 1: the list of databases), `tempdb` (2, made anew at each start) and users'
//! databases from id 5, each a set of data files. A [`Database`] is its files, its catalog snapshot and its heaps.
//!
//! Who may change what: every DDL function takes the statement's [`hobt_txn::StatementContext`], writes rows of the
//! system tables through it, and puts the new snapshot off until the statement commits. Until then the change is seen by
//! [`Database::snapshot_of`] of the same statement alone; a statement that rolls back leaves nothing, neither rows nor
//! extents nor files. Two statements that want the same name wait for each other.
//!
//! A database that was not closed by [`Instance::close`] is SUSPECT at the next start (there is no log yet): listed, but
//! refused with error 926. The clean flag in the file headers is cleared, and synced, before anything else is written.
//!
//! Leaves to others: table locks (callers take them from [`Instance::locks`]), what a statement means (`hobt-query`),
//! pages and extents (`hobt-access`), which sessions there are (`hobt-session`).
//!
//! The public surface in short:
//!
//! ```text
//! Instance::open(folder: &Path, InstanceSettings) -> Result<Arc<Instance>, EngineError>
//!   .close() -> Result<(), EngineError>                      checkpoints all, marks clean; idempotent; also on drop
//!   .folder() -> &Path          .settings() -> &InstanceSettings
//!   .memory() -> &Arc<MemoryBudget>   .pool() -> &Arc<BufferPool>   .locks() -> &Arc<ObjectLocks>
//!   .runtime() -> Arc<RuntimeSettings>                       what is in force now, cheap
//!   .change_runtime(impl FnOnce(&mut RuntimeSettings))
//!   .next_stamp() -> Stamp
//!   .statement_context(SessionId, dop: usize, cancelled: Arc<AtomicBool>) -> Arc<StatementContext>
//!   .databases() -> Vec<DatabaseDescription>                 every database, SUSPECT ones too, by id
//!   .database(name: &str) -> Result<DatabaseUse, EngineError>          911, 926, 945
//!   .database_by_id(DatabaseId) -> Result<DatabaseUse, EngineError>
//!   .master() / .tempdb() -> DatabaseUse
//!   .create_database(&DatabaseDefinition) -> Result<Created, EngineError>     1801, 1802, 1828, 5123, 5170
//!   .drop_database(name) -> Result<(), EngineError>          3701, 3702 in use, 3708 system database
//!   .add_filegroup(&DatabaseUse, name) -> Result<(), EngineError>
//!   .add_files(&DatabaseUse, filegroup: Option<&str>, &[FileDefinition]) -> Result<(), EngineError>
//!   .set_default_filegroup(&DatabaseUse, name) -> Result<(), EngineError>
//!   .checkpoint() -> Result<(), EngineError>
//!   (CREATE, DROP and ALTER DATABASE are statements of their own: they take no context and cannot be rolled back)
//!
//! DatabaseUse: Clone, Deref<Target = Database>               a database that cannot be dropped meanwhile; a session
//!   .database() -> &Arc<Database>                            holds one for its current database, a statement one for
//!                                                            each database that it names
//! Database
//!   .id() .name() .created() .state() -> DatabaseState       .storage() -> &Arc<Storage>
//!   .snapshot() -> Arc<DatabaseSnapshot>                     what is committed, cheap
//!   .snapshot_of(&ctx) -> Arc<DatabaseSnapshot>              the same with ctx's own uncommitted DDL
//!   .hobt(HobtId) -> Result<Arc<Hobt>, EngineError>          opened at first use, cached; uncommitted ones too
//!   .create_table(&ctx, &TableDefinition) -> Result<Arc<Table>, EngineError>        2714 2705 1701 1702 1921 2760 …
//!   .drop_table(&ctx, schema: &str, name: &str) -> Result<(), EngineError>          3701
//!   .truncate_table(&ctx, schema, name) -> Result<(), EngineError>                  4701
//!   .create_module(&ctx, &ModuleDefinition) -> Result<Arc<Module>, EngineError>     2714; replaces if it says so
//!   .drop_module(&ctx, schema, name, ModuleKind) -> Result<(), EngineError>         3701, 3705 another kind
//!   .create_schema(&ctx, name) -> Result<i32, EngineError>   .drop_schema(&ctx, name)
//!   .create_partition_function(&ctx, &PartitionFunctionDefinition)
//!        -> Result<(Arc<PartitionFunction>, Vec<SqlError> warnings), EngineError>   7705 7708 2714; 7709 a warning
//!   .create_partition_scheme(&ctx, &PartitionSchemeDefinition)
//!        -> Result<(Arc<PartitionScheme>, Vec<SqlError> warnings), EngineError>     7707 208-like 1921 …
//!   .drop_partition_function(&ctx, name)   .drop_partition_scheme(&ctx, name)       3701, 7706/7717 in use
//!   .checkpoint() -> Result<(), EngineError>
//!   .mark_suspect(reason: &str)                              after an UndoError: refuse it from now on
//!
//! TableDefinition { schema: String, name: String, columns: Vec<ColumnDefinition>, data_space: DataSpaceDefinition }
//! ColumnDefinition { name, sql_type: SqlType, nullable: bool, collation: Option<Collation>,
//!                    default: Option<DefaultDefinition { name: Option<String>, definition: String }>,
//!                    identity: Option<IdentityColumn>, is_rowguid: bool }
//! DataSpaceDefinition::{Default, Named(String), Scheme { scheme: String, column: String }}
//! ModuleDefinition { schema, name, kind: ModuleKind, definition: String, replace: Replace::{No, IfExists, Must} }
//! PartitionFunctionDefinition { name, parameter: SqlType, collation: Option<Collation>, range_right: bool,
//!                    boundaries: Vec<Value> }              values already converted to the parameter's type
//! PartitionSchemeDefinition { name, function: String, filegroups: Vec<String>, all: bool }
//! DatabaseDefinition { name, primary: Vec<FileDefinition>, filegroups: Vec<FilegroupDefinition { name, is_default,
//!                    files: Vec<FileDefinition> }>, log: Vec<FileDefinition> }      all may be empty
//! FileDefinition { name: Option<String>, path: Option<PathBuf>, size_pages: Option<u32>, growth: Option<Growth>,
//!                    max_pages: Option<u32> }
//! Created { database: DatabaseUse, warnings: Vec<SqlError> }
//! DatabaseDescription { id, name, created, state: DatabaseState, files: Vec<PathBuf> }
//! DatabaseState::{Online, Suspect, RecoveryPending}          .name() -> "ONLINE" …
//! InstanceSettings { memory_bytes: Option<u64>, pool_bytes: Option<u64>, disk: DiskKind, long_runs: bool (-E),
//!                    allowed_folders: Vec<PathBuf>, trace_flags: Vec<i32> }: Default
//! RuntimeSettings { read_bytes: u32, queue_depth: u32, read_ahead: bool, dealer: DealerKind::{Atomic, Latched},
//!                    max_degree_of_parallelism: u32 (0: all), affinity_mask: u64 (0: all), trace_flags: BTreeSet<i32> }
//! EngineError::…  .to_sql_error() -> SqlError                From<AccessError>, From<EngineError> for SqlError
//! ```

mod clock;
mod data_file;
mod database;
mod definition;
mod error;
mod instance;
mod path;
mod settings;

pub use database::{Database, DatabaseState};
pub use definition::{
    ColumnDefinition, DataSpaceDefinition, DatabaseDefinition, DefaultDefinition, FileDefinition, FilegroupDefinition,
    ModuleDefinition, PartitionFunctionDefinition, PartitionSchemeDefinition, Replace, TableDefinition,
};
pub use error::{EngineError, storage_error};
pub use instance::{Created, DatabaseDescription, DatabaseUse, Instance};
pub use settings::{InstanceSettings, RuntimeSettings, TRACE_NO_READ_AHEAD};
