//! Definitions: tables, indexes, partitioning, databases, views, functions and procedures.

use super::{
    Condition, DataType, Expression, Identifier, ObjectName, OptionItem, Parameter, Query, Span, Statement,
    TableDefinition, VariableName,
};

/// `CREATE TABLE`.
#[derive(Clone, PartialEq, Debug)]
pub struct CreateTable {
    /// The table.
    pub name: ObjectName,
    /// Its columns and constraints.
    pub definition: TableDefinition,
    /// `ON`: where its rows are stored.
    pub storage: Option<Storage>,
    /// `TEXTIMAGE_ON`.
    pub text_storage: Option<Identifier>,
    /// `WITH (…)`; empty if absent.
    pub options: Vec<OptionItem>,
}

/// A column.
#[derive(Clone, PartialEq, Debug)]
pub struct ColumnDefinition {
    /// Its name.
    pub name: Identifier,
    /// Its type or its expression.
    pub kind: ColumnKind,
    /// `COLLATE`.
    pub collation: Option<Identifier>,
    /// `NULL` (true) or `NOT NULL` (false); `None` if neither was written.
    pub nullable: Option<bool>,
    /// `IDENTITY`.
    pub identity: Option<IdentityDefinition>,
    /// Whether `ROWGUIDCOL` was written.
    pub rowguidcol: bool,
    /// Whether `SPARSE` was written.
    pub sparse: bool,
    /// `DEFAULT`, `PRIMARY KEY`, `UNIQUE`, `CHECK` and `REFERENCES` on the column, in order.
    pub constraints: Vec<Constraint>,
    /// `INDEX …` on the column.
    pub indexes: Vec<TableIndex>,
}

/// The kind of a column.
#[derive(Clone, PartialEq, Debug)]
pub enum ColumnKind {
    /// Stored values of a type.
    Typed(DataType),
    /// `AS (x) [PERSISTED]`.
    Computed {
        /// The expression.
        value: Expression,
        /// Whether it is stored.
        persisted: bool,
    },
}

/// `IDENTITY [(seed, increment)] [NOT FOR REPLICATION]`.
#[derive(Clone, PartialEq, Debug)]
pub struct IdentityDefinition {
    /// The first value and the step, each a constant or a negated one; both are 1 if absent.
    pub seed_increment: Option<(Expression, Expression)>,
    /// Whether `NOT FOR REPLICATION` was written.
    pub not_for_replication: bool,
}

/// A constraint on a table: like one on a column, with columns of its own.
pub type TableConstraint = Constraint;

/// A constraint.
#[derive(Clone, PartialEq, Debug)]
pub struct Constraint {
    /// `CONSTRAINT name`.
    pub name: Option<Identifier>,
    /// Its kind.
    pub kind: ConstraintKind,
    /// Its position in the text.
    pub span: Span,
}

/// The kind of a constraint.
#[derive(Clone, PartialEq, Debug)]
pub enum ConstraintKind {
    /// `DEFAULT x`; on a table (`ALTER TABLE … ADD`) with `FOR column`.
    Default {
        /// The value.
        value: Expression,
        /// The column after `FOR`.
        column: Option<Identifier>,
        /// Whether `WITH VALUES` was written.
        with_values: bool,
    },
    /// `PRIMARY KEY` or `UNIQUE`.
    Key {
        /// Whether it is the primary key.
        primary: bool,
        /// `CLUSTERED` (true), `NONCLUSTERED` (false) or neither.
        clustered: Option<bool>,
        /// The columns; empty on a column.
        columns: Vec<IndexColumn>,
        /// `WITH (…)`; empty if absent.
        options: Vec<OptionItem>,
        /// `ON`.
        storage: Option<Storage>,
    },
    /// `CHECK (…)`.
    Check {
        /// The condition.
        condition: Condition,
        /// Whether `NOT FOR REPLICATION` was written.
        not_for_replication: bool,
    },
    /// `[FOREIGN KEY (…)] REFERENCES t (…)`.
    ForeignKey {
        /// The columns; empty on a column.
        columns: Vec<Identifier>,
        /// The table referred to.
        table: ObjectName,
        /// Its columns; empty if none were written.
        referenced: Vec<Identifier>,
        /// `ON DELETE`.
        on_delete: Option<ReferentialAction>,
        /// `ON UPDATE`.
        on_update: Option<ReferentialAction>,
        /// Whether `NOT FOR REPLICATION` was written.
        not_for_replication: bool,
    },
}

/// The action on referring rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReferentialAction {
    /// `NO ACTION`.
    NoAction,
    /// `CASCADE`.
    Cascade,
    /// `SET NULL`.
    SetNull,
    /// `SET DEFAULT`.
    SetDefault,
}

/// An index in the definition of its table.
#[derive(Clone, PartialEq, Debug)]
pub struct TableIndex {
    /// Its name.
    pub name: Identifier,
    /// Whether `UNIQUE` was written.
    pub unique: bool,
    /// `CLUSTERED` (true), `NONCLUSTERED` (false) or neither.
    pub clustered: Option<bool>,
    /// Whether `COLUMNSTORE` was written.
    pub columnstore: bool,
    /// The key's columns; empty on a column, and for a clustered columnstore index.
    pub columns: Vec<IndexColumn>,
    /// `INCLUDE`; empty if absent.
    pub include: Vec<Identifier>,
    /// `WHERE`.
    pub condition: Option<Condition>,
    /// `WITH (…)`; empty if absent.
    pub options: Vec<OptionItem>,
    /// `ON`.
    pub storage: Option<Storage>,
}

/// A column of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexColumn {
    /// The column.
    pub name: Identifier,
    /// Whether `DESC` was written.
    pub descending: bool,
}

/// Where rows are stored: `ON name` or `ON scheme(column)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Storage {
    /// A filegroup (or `"default"`), or a partition scheme if `column` is present.
    pub name: Identifier,
    /// The partitioning column.
    pub column: Option<Identifier>,
}

/// `ALTER TABLE`.
#[derive(Clone, PartialEq, Debug)]
pub struct AlterTable {
    /// The table.
    pub name: ObjectName,
    /// What is altered.
    pub action: AlterTableAction,
}

/// The action of an `ALTER TABLE`.
#[derive(Clone, PartialEq, Debug)]
pub enum AlterTableAction {
    /// `[WITH [NO]CHECK] ADD columns, constraints`.
    Add {
        /// `WITH CHECK` (true), `WITH NOCHECK` (false) or neither.
        check: Option<bool>,
        /// The new columns.
        columns: Vec<ColumnDefinition>,
        /// The new constraints.
        constraints: Vec<Constraint>,
    },
    /// `ALTER COLUMN name type …`.
    AlterColumn {
        /// The column.
        name: Identifier,
        /// Its new type.
        data_type: DataType,
        /// `COLLATE`.
        collation: Option<Identifier>,
        /// `NULL` (true), `NOT NULL` (false) or neither.
        nullable: Option<bool>,
    },
    /// `DROP …`.
    Drop {
        /// What is dropped, at least one.
        items: Vec<AlterTableDrop>,
    },
    /// `[WITH [NO]CHECK] CHECK CONSTRAINT` (enables) or `NOCHECK CONSTRAINT` (disables).
    EnableConstraints {
        /// `WITH CHECK` (true), `WITH NOCHECK` (false) or neither.
        check: Option<bool>,
        /// Whether they are enabled.
        enable: bool,
        /// The constraints; empty is `ALL`.
        names: Vec<Identifier>,
    },
    /// `REBUILD [PARTITION = …] [WITH (…)]`.
    Rebuild {
        /// Which partition.
        partition: Option<PartitionSelector>,
        /// `WITH (…)`; empty if absent.
        options: Vec<OptionItem>,
    },
    /// `SET (…)`.
    Set {
        /// The options, at least one.
        options: Vec<OptionItem>,
    },
    /// `SWITCH [PARTITION x] TO t [PARTITION y] [WITH (…)]`.
    Switch {
        /// The partition of this table.
        source_partition: Option<Expression>,
        /// The other table.
        target: ObjectName,
        /// The partition of the other table.
        target_partition: Option<Expression>,
        /// `WITH (…)`; empty if absent.
        options: Vec<OptionItem>,
    },
}

/// One item that an `ALTER TABLE … DROP` drops.
#[derive(Clone, PartialEq, Debug)]
pub enum AlterTableDrop {
    /// `COLUMN [IF EXISTS] name`.
    Column {
        /// The column.
        name: Identifier,
        /// Whether its absence is no error.
        if_exists: bool,
    },
    /// `[CONSTRAINT] [IF EXISTS] name`.
    Constraint {
        /// The constraint.
        name: Identifier,
        /// Whether its absence is no error.
        if_exists: bool,
        /// `WITH (…)`; empty if absent.
        options: Vec<OptionItem>,
    },
}

/// The partition that is rebuilt.
#[derive(Clone, PartialEq, Debug)]
pub enum PartitionSelector {
    /// `ALL`.
    All,
    /// One by number.
    Number(Expression),
}

/// `CREATE INDEX`.
#[derive(Clone, PartialEq, Debug)]
pub struct CreateIndex {
    /// Its name.
    pub name: Identifier,
    /// Whether `UNIQUE` was written.
    pub unique: bool,
    /// `CLUSTERED` (true), `NONCLUSTERED` (false) or neither.
    pub clustered: Option<bool>,
    /// Whether `COLUMNSTORE` was written.
    pub columnstore: bool,
    /// The table.
    pub table: ObjectName,
    /// The key's columns; empty for a clustered columnstore index.
    pub columns: Vec<IndexColumn>,
    /// `INCLUDE`; empty if absent.
    pub include: Vec<Identifier>,
    /// `WHERE`.
    pub condition: Option<Condition>,
    /// `WITH (…)`; empty if absent.
    pub options: Vec<OptionItem>,
    /// `ON`.
    pub storage: Option<Storage>,
}

/// `ALTER INDEX`.
#[derive(Clone, PartialEq, Debug)]
pub struct AlterIndex {
    /// The index; `None` is `ALL`.
    pub name: Option<Identifier>,
    /// The table.
    pub table: ObjectName,
    /// What is altered.
    pub action: AlterIndexAction,
}

/// The action of an `ALTER INDEX`.
#[derive(Clone, PartialEq, Debug)]
pub enum AlterIndexAction {
    /// `REBUILD`.
    Rebuild {
        /// `PARTITION = …`.
        partition: Option<PartitionSelector>,
        /// `WITH (…)`; empty if absent.
        options: Vec<OptionItem>,
    },
    /// `REORGANIZE`.
    Reorganize {
        /// `PARTITION = …`.
        partition: Option<PartitionSelector>,
        /// `WITH (…)`; empty if absent.
        options: Vec<OptionItem>,
    },
    /// `DISABLE`.
    Disable,
    /// `SET (…)`.
    Set {
        /// The options, at least one.
        options: Vec<OptionItem>,
    },
}

/// `DROP INDEX`.
#[derive(Clone, PartialEq, Debug)]
pub struct DropIndex {
    /// Whether absence is no error.
    pub if_exists: bool,
    /// The indexes with their tables (`i ON t`, or the old `t.i`), at least one.
    pub indexes: Vec<DroppedIndex>,
}

/// One index of a `DROP INDEX`.
#[derive(Clone, PartialEq, Debug)]
pub struct DroppedIndex {
    /// The index.
    pub name: Identifier,
    /// The table.
    pub table: ObjectName,
    /// `WITH (…)`; empty if absent.
    pub options: Vec<OptionItem>,
}

/// A drop of objects by name.
#[derive(Clone, PartialEq, Debug)]
pub struct Drop {
    /// Their kind.
    pub kind: ObjectKind,
    /// Whether absence is no error.
    pub if_exists: bool,
    /// Their names, at least one.
    pub names: Vec<ObjectName>,
}

/// A kind of object that can be dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ObjectKind {
    /// `TABLE`.
    Table,
    /// `VIEW`.
    View,
    /// `FUNCTION`.
    Function,
    /// `PROCEDURE`.
    Procedure,
    /// `DATABASE`.
    Database,
    /// `SCHEMA`.
    Schema,
    /// `STATISTICS`; a name's schema part is the table, its database part the table's schema.
    Statistics,
    /// `PARTITION FUNCTION`.
    PartitionFunction,
    /// `PARTITION SCHEME`.
    PartitionScheme,
    /// `SEQUENCE`.
    Sequence,
    /// `SYNONYM`.
    Synonym,
    /// `TRIGGER`.
    Trigger,
    /// `TYPE`.
    Type,
}

/// `CREATE PARTITION FUNCTION name (type) AS RANGE side FOR VALUES (…)`.
#[derive(Clone, PartialEq, Debug)]
pub struct CreatePartitionFunction {
    /// Its name.
    pub name: Identifier,
    /// The parameter's type.
    pub data_type: DataType,
    /// `COLLATE`.
    pub collation: Option<Identifier>,
    /// Whether a boundary value belongs to the partition on its right (`LEFT` is the default).
    pub range_right: bool,
    /// The boundary values as written; may be empty.
    pub values: Vec<Expression>,
    /// The position of `VALUES` and its list.
    pub values_span: Span,
}

/// `ALTER PARTITION FUNCTION name () SPLIT | MERGE RANGE (x)`.
#[derive(Clone, PartialEq, Debug)]
pub struct AlterPartitionFunction {
    /// Its name.
    pub name: Identifier,
    /// Whether a boundary is added (`SPLIT`) rather than removed (`MERGE`).
    pub split: bool,
    /// The boundary value; `SPLIT RANGE ()` has none.
    pub value: Option<Expression>,
}

/// `CREATE PARTITION SCHEME name AS PARTITION function [ALL] TO (…)`.
#[derive(Clone, PartialEq, Debug)]
pub struct CreatePartitionScheme {
    /// Its name.
    pub name: Identifier,
    /// The partition function.
    pub function: Identifier,
    /// Whether all partitions use the one filegroup.
    pub all: bool,
    /// The filegroups in order, at least one.
    pub filegroups: Vec<Identifier>,
}

/// `ALTER PARTITION SCHEME name NEXT USED [filegroup]`.
#[derive(Clone, PartialEq, Debug)]
pub struct AlterPartitionScheme {
    /// Its name.
    pub name: Identifier,
    /// The filegroup for the next new partition; `None` marks none.
    pub filegroup: Option<Identifier>,
}

/// `CREATE SEQUENCE` and `ALTER SEQUENCE`.
#[derive(Clone, PartialEq, Debug)]
pub struct SequenceDefinition {
    /// Whether it is an `ALTER`.
    pub alter: bool,
    /// The sequence.
    pub name: ObjectName,
    /// The options as written, in order.
    pub options: Vec<SequenceOption>,
}

/// An option of a sequence.
#[derive(Clone, PartialEq, Debug)]
pub struct SequenceOption {
    /// Its kind, with its value.
    pub kind: SequenceOptionKind,
    /// Its position in the text.
    pub span: Span,
}

/// The kind of a sequence option, with its value.
#[derive(Clone, PartialEq, Debug)]
pub enum SequenceOptionKind {
    /// `AS type`.
    As(DataType),
    /// `START WITH x`.
    Start(Expression),
    /// `RESTART [WITH x]`.
    Restart(Option<Expression>),
    /// `INCREMENT BY x`.
    Increment(Expression),
    /// `MINVALUE x`; `None` is `NO MINVALUE`.
    Minimum(Option<Expression>),
    /// `MAXVALUE x`; `None` is `NO MAXVALUE`.
    Maximum(Option<Expression>),
    /// `CYCLE` (true), `NO CYCLE` (false).
    Cycle(bool),
    /// `CACHE [n]`.
    Cache(Option<Expression>),
    /// `NO CACHE`.
    NoCache,
}

/// `CREATE DATABASE`.
#[derive(Clone, PartialEq, Debug)]
pub struct CreateDatabase {
    /// Its name.
    pub name: Identifier,
    /// `CONTAINMENT = …`, in upper case.
    pub containment: Option<Identifier>,
    /// `ON`: the filegroups with their files, the primary one (with or without `PRIMARY`) first; empty if absent.
    pub filegroups: Vec<FilegroupDefinition>,
    /// `LOG ON`; empty if absent.
    pub log: Vec<FileDefinition>,
    /// `COLLATE`.
    pub collation: Option<Identifier>,
    /// `FOR ATTACH`, `FOR ATTACH_REBUILD_LOG`.
    pub attach: Option<Attach>,
    /// `AS SNAPSHOT OF`: the database that is shown as it is now.
    pub snapshot_of: Option<Identifier>,
    /// `WITH …`; empty if absent.
    pub options: Vec<OptionItem>,
}

/// How existing files are attached as a database.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Attach {
    /// `FOR ATTACH`.
    WithLog,
    /// `FOR ATTACH_REBUILD_LOG`.
    RebuildLog,
}

/// A filegroup of a new database.
#[derive(Clone, PartialEq, Debug)]
pub struct FilegroupDefinition {
    /// Its name; `None` for the primary filegroup.
    pub name: Option<Identifier>,
    /// Whether `DEFAULT` was written.
    pub default: bool,
    /// `CONTAINS FILESTREAM` or `CONTAINS MEMORY_OPTIMIZED_DATA`, the second word.
    pub contains: Option<Identifier>,
    /// Its files, at least one.
    pub files: Vec<FileDefinition>,
}

/// A file: `(NAME = …, FILENAME = …, SIZE = …, MAXSIZE = …, FILEGROWTH = …)`.
#[derive(Clone, PartialEq, Debug)]
pub struct FileDefinition {
    /// `NAME`.
    pub name: Identifier,
    /// `NEWNAME`, if a file is modified.
    pub new_name: Option<Identifier>,
    /// `FILENAME`.
    pub file_name: Option<String>,
    /// `SIZE`.
    pub size: Option<FileSize>,
    /// `MAXSIZE`.
    pub max_size: Option<MaxSize>,
    /// `FILEGROWTH`; zero means no growth.
    pub growth: Option<FileSize>,
    /// Whether `OFFLINE` was written.
    pub offline: bool,
    /// The position of the definition.
    pub span: Span,
}

/// A size or growth.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FileSize {
    /// The number of units.
    pub amount: u64,
    /// The unit; megabytes if none was written.
    pub unit: SizeUnit,
}

/// The unit of a size.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SizeUnit {
    /// `KB`: 1,024 bytes.
    Kilobytes,
    /// `MB`: 1,024 KB.
    Megabytes,
    /// `GB`: 1,024 MB.
    Gigabytes,
    /// `TB`: 1,024 GB.
    Terabytes,
    /// `%` of the file's size; only for a growth.
    Percent,
}

impl FileSize {
    /// The size in bytes; `None` for a percentage, and if it does not fit 64 bits.
    pub fn bytes(&self) -> Option<u64> {
        let unit_bytes = match self.unit {
            SizeUnit::Kilobytes => 1 << 10,
            SizeUnit::Megabytes => 1 << 20,
            SizeUnit::Gigabytes => 1 << 30,
            SizeUnit::Terabytes => 1 << 40,
            SizeUnit::Percent => return None,
        };
        self.amount.checked_mul(unit_bytes)
    }
}

/// `MAXSIZE`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MaxSize {
    /// `UNLIMITED`.
    Unlimited,
    /// A size.
    Limit(FileSize),
}

/// `ALTER DATABASE`.
#[derive(Clone, PartialEq, Debug)]
pub struct AlterDatabase {
    /// The database; `None` is `CURRENT`.
    pub name: Option<Identifier>,
    /// What is altered.
    pub action: AlterDatabaseAction,
}

/// The action of an `ALTER DATABASE`.
#[derive(Clone, PartialEq, Debug)]
pub enum AlterDatabaseAction {
    /// `ADD FILE … [TO FILEGROUP …]`.
    AddFiles {
        /// The files, at least one.
        files: Vec<FileDefinition>,
        /// Their filegroup; the primary one if absent.
        filegroup: Option<Identifier>,
    },
    /// `ADD LOG FILE`.
    AddLogFiles {
        /// The files, at least one.
        files: Vec<FileDefinition>,
    },
    /// `REMOVE FILE`.
    RemoveFile {
        /// The file.
        name: Identifier,
    },
    /// `MODIFY FILE`.
    ModifyFile {
        /// The file with its new properties.
        file: FileDefinition,
    },
    /// `ADD FILEGROUP [CONTAINS …]`.
    AddFilegroup {
        /// The filegroup.
        name: Identifier,
        /// The word after `CONTAINS`.
        contains: Option<Identifier>,
    },
    /// `REMOVE FILEGROUP`.
    RemoveFilegroup {
        /// The filegroup.
        name: Identifier,
    },
    /// `MODIFY FILEGROUP`.
    ModifyFilegroup {
        /// The filegroup.
        name: Identifier,
        /// The change.
        change: FilegroupChange,
    },
    /// `MODIFY NAME = …`.
    ModifyName {
        /// The new name.
        name: Identifier,
    },
    /// `COLLATE`.
    Collate {
        /// The collation.
        collation: Identifier,
    },
    /// `SET options [WITH termination]`.
    Set {
        /// The options, at least one.
        options: Vec<OptionItem>,
        /// `WITH ROLLBACK …` or `WITH NO_WAIT`.
        termination: Option<Termination>,
    },
    /// `SCOPED CONFIGURATION SET …`.
    ScopedConfiguration {
        /// The options, at least one.
        options: Vec<OptionItem>,
    },
    /// `SCOPED CONFIGURATION CLEAR …`.
    ClearScopedConfiguration {
        /// The item to clear: `PROCEDURE_CACHE`.
        name: Identifier,
    },
}

/// The change made by `MODIFY FILEGROUP`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FilegroupChange {
    /// `DEFAULT`.
    Default,
    /// `NAME = …`.
    Name(Identifier),
    /// `READONLY`, `READ_ONLY`.
    ReadOnly,
    /// `READWRITE`, `READ_WRITE`.
    ReadWrite,
    /// `AUTOGROW_SINGLE_FILE`.
    AutogrowSingleFile,
    /// `AUTOGROW_ALL_FILES`.
    AutogrowAllFiles,
}

/// What is done with transactions that conflict with a database's new state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Termination {
    /// `ROLLBACK AFTER n [SECONDS]`.
    RollbackAfterSeconds(i64),
    /// `ROLLBACK IMMEDIATE`.
    RollbackImmediate,
    /// `NO_WAIT`.
    NoWait,
}

/// Whether an object is created, replaced, or either.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CreateMode {
    /// `CREATE`.
    Create,
    /// `ALTER`.
    Alter,
    /// `CREATE OR ALTER`.
    CreateOrAlter,
}

/// `CREATE VIEW`.
#[derive(Clone, PartialEq, Debug)]
pub struct CreateView {
    /// Whether it may or must exist.
    pub mode: CreateMode,
    /// Its name.
    pub name: ObjectName,
    /// Names for its columns; empty if absent.
    pub columns: Vec<Identifier>,
    /// `WITH SCHEMABINDING, …`; empty if absent.
    pub options: Vec<OptionItem>,
    /// Its rows.
    pub query: Query,
    /// Whether `WITH CHECK OPTION` was written.
    pub check_option: bool,
}

/// `CREATE FUNCTION`.
#[derive(Clone, PartialEq, Debug)]
pub struct CreateFunction {
    /// Whether it may or must exist.
    pub mode: CreateMode,
    /// Its name.
    pub name: ObjectName,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// `WITH SCHEMABINDING, …`; empty if absent.
    pub options: Vec<OptionItem>,
    /// What it returns, and its statements.
    pub body: FunctionBody,
}

/// What a function returns, and its statements.
#[derive(Clone, PartialEq, Debug)]
pub enum FunctionBody {
    /// `RETURNS TABLE AS RETURN query`.
    Inline {
        /// The rows.
        query: Box<Query>,
    },
    /// `RETURNS type AS BEGIN … END`.
    Scalar {
        /// The type.
        data_type: DataType,
        /// The statements, at least one.
        statements: Vec<Statement>,
    },
    /// `RETURNS @t TABLE (…) AS BEGIN … END`.
    MultiStatement {
        /// The variable whose rows are returned.
        variable: VariableName,
        /// Its columns.
        definition: TableDefinition,
        /// The statements, at least one.
        statements: Vec<Statement>,
    },
}

/// `CREATE PROCEDURE`.
#[derive(Clone, PartialEq, Debug)]
pub struct CreateProcedure {
    /// Whether it may or must exist.
    pub mode: CreateMode,
    /// Its name.
    pub name: ObjectName,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// `WITH RECOMPILE, …`; empty if absent.
    pub options: Vec<OptionItem>,
    /// The statements to the end of the batch, at least one.
    pub statements: Vec<Statement>,
}

/// `CREATE STATISTICS`.
#[derive(Clone, PartialEq, Debug)]
pub struct CreateStatistics {
    /// Its name.
    pub name: Identifier,
    /// The table.
    pub table: ObjectName,
    /// The columns, at least one.
    pub columns: Vec<Identifier>,
    /// `WHERE`.
    pub condition: Option<Condition>,
    /// `WITH …`; empty if absent.
    pub options: Vec<OptionItem>,
}

/// `UPDATE STATISTICS`.
#[derive(Clone, PartialEq, Debug)]
pub struct UpdateStatistics {
    /// The table.
    pub table: ObjectName,
    /// The statistics or indexes; empty means all of the table's.
    pub targets: Vec<Identifier>,
    /// `WITH …`; empty if absent. `SAMPLE 99 PERCENT` is a quantity, `STATS_STREAM = 0x…` a constant.
    pub options: Vec<OptionItem>,
}
