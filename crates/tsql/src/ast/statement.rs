//! Statements: the enum of all statements, and those that read and change rows.

use super::bulk::*;
use super::control::*;
use super::ddl::*;
use super::external::*;
use super::{
    AssignmentOperator, ColumnName, CommonTableExpression, Condition, Expression, Identifier, ObjectName, Query,
    QueryHint, SelectItem, Span, TableHint, TableSource, Top, VariableName,
};

/// A statement and its position.
#[derive(Clone, PartialEq, Debug)]
pub struct Statement {
    /// Its kind.
    pub kind: StatementKind,
    /// From its first word to the end of its last one, without the semicolon.
    pub span: Span,
}

/// The kind of a statement.
#[derive(Clone, PartialEq, Debug)]
pub enum StatementKind {
    /// `SELECT`.
    Select(Box<SelectStatement>),
    /// `INSERT`.
    Insert(Box<Insert>),
    /// `UPDATE`.
    Update(Box<Update>),
    /// `DELETE`.
    Delete(Box<Delete>),
    /// `MERGE`.
    Merge(Box<Merge>),
    /// `BULK INSERT`, `COPY INTO`.
    BulkInsert(Box<BulkInsert>),
    /// `TRUNCATE TABLE`.
    TruncateTable {
        /// The table.
        name: ObjectName,
        /// `WITH (PARTITIONS (…))`; empty if absent.
        partitions: Vec<super::PartitionRange>,
    },
    /// `CREATE TABLE`.
    CreateTable(Box<CreateTable>),
    /// `ALTER TABLE`.
    AlterTable(Box<AlterTable>),
    /// `CREATE INDEX`.
    CreateIndex(Box<CreateIndex>),
    /// `ALTER INDEX`.
    AlterIndex(Box<AlterIndex>),
    /// `DROP INDEX`.
    DropIndex(Box<DropIndex>),
    /// `DROP TABLE`, `DROP VIEW` and all other drops except that of an index.
    Drop(Box<Drop>),
    /// `CREATE PARTITION FUNCTION`.
    CreatePartitionFunction(Box<CreatePartitionFunction>),
    /// `ALTER PARTITION FUNCTION`.
    AlterPartitionFunction(Box<AlterPartitionFunction>),
    /// `CREATE PARTITION SCHEME`.
    CreatePartitionScheme(Box<CreatePartitionScheme>),
    /// `ALTER PARTITION SCHEME … NEXT USED`.
    AlterPartitionScheme(Box<AlterPartitionScheme>),
    /// `CREATE SEQUENCE`, `ALTER SEQUENCE`.
    Sequence(Box<SequenceDefinition>),
    /// `CREATE DATABASE`.
    CreateDatabase(Box<CreateDatabase>),
    /// `ALTER DATABASE`.
    AlterDatabase(Box<AlterDatabase>),
    /// `USE`.
    Use {
        /// The database.
        database: Identifier,
    },
    /// `CREATE EXTERNAL TABLE`.
    CreateExternalTable(Box<CreateExternalTable>),
    /// `CREATE EXTERNAL FILE FORMAT`.
    CreateExternalFileFormat(Box<CreateExternalFileFormat>),
    /// `CREATE VIEW`, `ALTER VIEW`.
    CreateView(Box<CreateView>),
    /// `CREATE FUNCTION`, `ALTER FUNCTION`.
    CreateFunction(Box<CreateFunction>),
    /// `CREATE PROCEDURE`, `ALTER PROCEDURE`.
    CreateProcedure(Box<CreateProcedure>),
    /// `CREATE SCHEMA`.
    CreateSchema {
        /// The schema.
        name: Identifier,
        /// `AUTHORIZATION`.
        owner: Option<Identifier>,
    },
    /// `CREATE STATISTICS`.
    CreateStatistics(Box<CreateStatistics>),
    /// `UPDATE STATISTICS`.
    UpdateStatistics(Box<UpdateStatistics>),
    /// `DECLARE`.
    Declare {
        /// The variables, at least one.
        declarations: Vec<Declaration>,
    },
    /// `SET @v = x`.
    SetVariable {
        /// The variable.
        variable: VariableName,
        /// The operator.
        operator: AssignmentOperator,
        /// The value.
        value: Expression,
    },
    /// `SET` of an option of the session.
    SetOption(SetOption),
    /// `IF … ELSE IF … ELSE …`.
    If {
        /// The conditions with their statements in order, at least one.
        branches: Vec<IfBranch>,
        /// The statement of the last `ELSE`.
        otherwise: Option<Box<Statement>>,
    },
    /// `WHILE`.
    While {
        /// The condition.
        condition: Box<Condition>,
        /// The repeated statement.
        body: Box<Statement>,
    },
    /// `BEGIN … END`.
    Block {
        /// The statements, at least one.
        statements: Vec<Statement>,
    },
    /// `BEGIN TRY … END TRY BEGIN CATCH … END CATCH`.
    TryCatch {
        /// The statements of the `TRY` block.
        body: Vec<Statement>,
        /// The statements of the `CATCH` block.
        handler: Vec<Statement>,
    },
    /// `BREAK`.
    Break,
    /// `CONTINUE`.
    Continue,
    /// `RETURN [x]`.
    Return {
        /// The value.
        value: Option<Box<Expression>>,
    },
    /// `GOTO label`.
    Goto {
        /// The label.
        label: Identifier,
    },
    /// `label:`.
    Label {
        /// The label.
        name: Identifier,
    },
    /// `THROW`.
    Throw {
        /// Number, message and state; `None` throws the caught error again.
        error: Option<Box<Throw>>,
    },
    /// `RAISERROR (…)`.
    RaisError(Box<RaisError>),
    /// `PRINT x`.
    Print {
        /// The text.
        value: Box<Expression>,
    },
    /// `WAITFOR DELAY x`, `WAITFOR TIME x`.
    WaitFor {
        /// Whether `value` is a time of day rather than a delay.
        until: bool,
        /// The delay or time.
        value: Box<Expression>,
    },
    /// `EXECUTE`, or a procedure's name at the start of a batch.
    Execute(Box<Execute>),
    /// `BEGIN TRANSACTION`.
    BeginTransaction {
        /// Its name.
        name: Option<TransactionName>,
        /// `WITH MARK`: the description, empty if absent.
        mark: Option<String>,
    },
    /// `COMMIT [TRANSACTION | WORK]`.
    Commit {
        /// The transaction's name.
        name: Option<TransactionName>,
        /// `WITH (DELAYED_DURABILITY = ON | OFF)`.
        delayed_durability: Option<bool>,
    },
    /// `ROLLBACK [TRANSACTION | WORK]`.
    Rollback {
        /// The name of a transaction or savepoint.
        name: Option<TransactionName>,
    },
    /// `SAVE TRANSACTION`.
    SaveTransaction {
        /// The savepoint.
        name: TransactionName,
    },
    /// `DBCC`.
    Dbcc(Box<Dbcc>),
    /// `CHECKPOINT [seconds]`.
    Checkpoint {
        /// The target duration in seconds.
        seconds: Option<i64>,
    },
    /// `KILL session`.
    Kill {
        /// The session.
        session: Box<Expression>,
        /// Whether `WITH STATUSONLY` was written.
        status_only: bool,
    },
    /// `BACKUP`, `RESTORE`.
    Backup(Box<Backup>),
    /// `ALTER SERVER CONFIGURATION SET …`.
    AlterServerConfiguration(ServerConfiguration),
    /// `RECONFIGURE [WITH OVERRIDE]`.
    Reconfigure {
        /// Whether `WITH OVERRIDE` was written.
        with_override: bool,
    },
}

/// A query as a statement.
#[derive(Clone, PartialEq, Debug)]
pub struct SelectStatement {
    /// The query.
    pub query: Query,
    /// `OPTION`; empty if absent.
    pub options: Vec<QueryHint>,
}

/// The table that an `INSERT`, `UPDATE`, `DELETE` or `MERGE` changes.
#[derive(Clone, PartialEq, Debug)]
pub struct ChangeTarget {
    /// The table, or an alias from `FROM`, or a table variable.
    pub name: TargetName,
    /// `WITH (…)`; empty if absent.
    pub hints: Vec<TableHint>,
    /// Its position in the text.
    pub span: Span,
}

/// The name of a table that is changed.
#[derive(Clone, PartialEq, Debug)]
pub enum TargetName {
    /// A table, view or alias.
    Object(ObjectName),
    /// A table variable.
    Variable(VariableName),
}

/// `OUTPUT items [INTO target (columns)]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Output {
    /// The columns of the output.
    pub items: Vec<SelectItem>,
    /// The table that receives the rows; if absent, the client receives them.
    pub into: Option<TargetName>,
    /// The columns of that table; empty if absent.
    pub columns: Vec<Identifier>,
}

/// `INSERT`.
#[derive(Clone, PartialEq, Debug)]
pub struct Insert {
    /// The common table expressions before it.
    pub with: Vec<CommonTableExpression>,
    /// `TOP`.
    pub top: Option<Top>,
    /// The table.
    pub target: ChangeTarget,
    /// The columns; empty if there is no list.
    pub columns: Vec<Identifier>,
    /// `OUTPUT`.
    pub output: Option<Output>,
    /// The source of the rows.
    pub source: InsertSource,
    /// `OPTION`; empty if absent.
    pub options: Vec<QueryHint>,
}

/// The source of inserted rows.
#[derive(Clone, PartialEq, Debug)]
pub enum InsertSource {
    /// `VALUES`: rows of values, which may be [`Expression::Default`].
    Values {
        /// The rows, at least one, each with at least one value.
        rows: Vec<Vec<Expression>>,
    },
    /// `DEFAULT VALUES`.
    DefaultValues,
    /// A query.
    Query {
        /// The query.
        query: Box<Query>,
    },
    /// The rows that a procedure returns.
    Execute {
        /// The call.
        call: Box<Execute>,
    },
}

/// `UPDATE`.
#[derive(Clone, PartialEq, Debug)]
pub struct Update {
    /// The common table expressions before it.
    pub with: Vec<CommonTableExpression>,
    /// `TOP`.
    pub top: Option<Top>,
    /// The table, or an alias of `from`.
    pub target: ChangeTarget,
    /// `SET`, at least one.
    pub assignments: Vec<Assignment>,
    /// `OUTPUT`.
    pub output: Option<Output>,
    /// `FROM`; empty if absent.
    pub from: Vec<TableSource>,
    /// `WHERE`.
    pub condition: Option<Condition>,
    /// `OPTION`; empty if absent.
    pub options: Vec<QueryHint>,
}

/// One assignment of an `UPDATE` or `MERGE`.
#[derive(Clone, PartialEq, Debug)]
pub struct Assignment {
    /// The variable of `@v = c = x` or `@v = x`.
    pub variable: Option<VariableName>,
    /// The column; one of `variable` and `column` is present.
    pub column: Option<ColumnName>,
    /// The operator before the value.
    pub operator: AssignmentOperator,
    /// The value, which may be [`Expression::Default`].
    pub value: Expression,
}

/// `DELETE`.
#[derive(Clone, PartialEq, Debug)]
pub struct Delete {
    /// The common table expressions before it.
    pub with: Vec<CommonTableExpression>,
    /// `TOP`.
    pub top: Option<Top>,
    /// The table, or an alias of `from`.
    pub target: ChangeTarget,
    /// `OUTPUT`.
    pub output: Option<Output>,
    /// The second `FROM`; empty if absent.
    pub from: Vec<TableSource>,
    /// `WHERE`.
    pub condition: Option<Condition>,
    /// `OPTION`; empty if absent.
    pub options: Vec<QueryHint>,
}

/// `MERGE`.
#[derive(Clone, PartialEq, Debug)]
pub struct Merge {
    /// The common table expressions before it.
    pub with: Vec<CommonTableExpression>,
    /// `TOP`.
    pub top: Option<Top>,
    /// The table.
    pub target: ChangeTarget,
    /// The table's alias.
    pub alias: Option<Identifier>,
    /// `USING`.
    pub source: TableSource,
    /// `ON`.
    pub condition: Condition,
    /// The `WHEN` clauses in order, at least one.
    pub clauses: Vec<MergeClause>,
    /// `OUTPUT`.
    pub output: Option<Output>,
    /// `OPTION`; empty if absent.
    pub options: Vec<QueryHint>,
}

/// One `WHEN` of a `MERGE`.
#[derive(Clone, PartialEq, Debug)]
pub struct MergeClause {
    /// Which rows it applies to.
    pub matched: MergeMatch,
    /// The condition after `AND`.
    pub condition: Option<Condition>,
    /// What it does with these rows.
    pub action: MergeAction,
}

/// Which rows a `WHEN` applies to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MergeMatch {
    /// `MATCHED`.
    Matched,
    /// `NOT MATCHED [BY TARGET]`.
    NotMatchedByTarget,
    /// `NOT MATCHED BY SOURCE`.
    NotMatchedBySource,
}

/// The action of a `WHEN`.
#[derive(Clone, PartialEq, Debug)]
pub enum MergeAction {
    /// `UPDATE SET …`.
    Update {
        /// The assignments, at least one.
        assignments: Vec<Assignment>,
    },
    /// `DELETE`.
    Delete,
    /// `INSERT`.
    Insert {
        /// The columns; empty if there is no list.
        columns: Vec<Identifier>,
        /// The values; empty is `DEFAULT VALUES`.
        values: Vec<Expression>,
    },
}
