//! Variables, settings, control of flow, calls, and administrative statements.

use super::{
    AssignmentOperator, ColumnDefinition, Condition, DataType, Expression, FileSize, Identifier, Literal, ObjectName,
    OptionItem, Span, Statement, TableConstraint, TableIndex, VariableName,
};

/// One variable of a `DECLARE`.
#[derive(Clone, PartialEq, Debug)]
pub struct Declaration {
    /// The variable.
    pub name: VariableName,
    /// What it holds.
    pub kind: DeclarationKind,
}

/// The kind of a variable.
#[derive(Clone, PartialEq, Debug)]
pub enum DeclarationKind {
    /// A value.
    Scalar {
        /// Its type.
        data_type: DataType,
        /// Its initial value; NULL if absent.
        value: Option<Expression>,
    },
    /// Rows: `TABLE (…)`.
    Table(TableDefinition),
}

/// The columns and constraints between a table's parentheses.
#[derive(Clone, PartialEq, Debug)]
pub struct TableDefinition {
    /// The columns in order, at least one.
    pub columns: Vec<ColumnDefinition>,
    /// The constraints on the table.
    pub constraints: Vec<TableConstraint>,
    /// `INDEX …` on the table.
    pub indexes: Vec<TableIndex>,
}

/// `SET` of an option.
#[derive(Clone, PartialEq, Debug)]
pub enum SetOption {
    /// Options that are on or off: `SET NOCOUNT, XACT_ABORT ON`.
    Switches {
        /// The options, at least one.
        options: Vec<SwitchOption>,
        /// Whether they are turned on.
        on: bool,
    },
    /// `SET STATISTICS IO, TIME ON`.
    Statistics {
        /// What is reported, at least one.
        kinds: Vec<StatisticsKind>,
        /// Whether it is turned on.
        on: bool,
    },
    /// `SET IDENTITY_INSERT t ON`.
    IdentityInsert {
        /// The table.
        table: ObjectName,
        /// Whether explicit values are allowed.
        on: bool,
    },
    /// `SET TRANSACTION ISOLATION LEVEL`.
    IsolationLevel(IsolationLevel),
    /// Options with a value: `SET ROWCOUNT 10`. A bare word (`SET DATEFORMAT dmy`) is a string here.
    Value {
        /// The option.
        option: ValueOption,
        /// The value: a constant, a negated one, or a variable.
        value: Expression,
    },
}

/// An option of the session that is on or off.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SwitchOption {
    /// `ANSI_DEFAULTS`.
    AnsiDefaults,
    /// `ANSI_NULL_DFLT_OFF`.
    AnsiNullDefaultOff,
    /// `ANSI_NULL_DFLT_ON`.
    AnsiNullDefaultOn,
    /// `ANSI_NULLS`.
    AnsiNulls,
    /// `ANSI_PADDING`.
    AnsiPadding,
    /// `ANSI_WARNINGS`.
    AnsiWarnings,
    /// `ARITHABORT`.
    ArithAbort,
    /// `ARITHIGNORE`.
    ArithIgnore,
    /// `CONCAT_NULL_YIELDS_NULL`.
    ConcatNullYieldsNull,
    /// `CURSOR_CLOSE_ON_COMMIT`.
    CursorCloseOnCommit,
    /// `DISABLE_DEF_CNST_CHK`.
    DisableDeferredConstraintCheck,
    /// `FMTONLY`.
    FormatOnly,
    /// `FORCEPLAN`.
    ForcePlan,
    /// `IMPLICIT_TRANSACTIONS`.
    ImplicitTransactions,
    /// `NOCOUNT`.
    NoCount,
    /// `NOEXEC`.
    NoExec,
    /// `NUMERIC_ROUNDABORT`.
    NumericRoundAbort,
    /// `PARSEONLY`.
    ParseOnly,
    /// `QUOTED_IDENTIFIER`.
    QuotedIdentifier,
    /// `REMOTE_PROC_TRANSACTIONS`.
    RemoteProcTransactions,
    /// `SHOWPLAN_ALL`.
    ShowplanAll,
    /// `SHOWPLAN_TEXT`.
    ShowplanText,
    /// `SHOWPLAN_XML`.
    ShowplanXml,
    /// `XACT_ABORT`.
    XactAbort,
}

/// What `SET STATISTICS` reports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StatisticsKind {
    /// `IO`.
    Io,
    /// `TIME`.
    Time,
    /// `PROFILE`.
    Profile,
    /// `XML`.
    Xml,
}

/// An isolation level.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IsolationLevel {
    /// `READ UNCOMMITTED`.
    ReadUncommitted,
    /// `READ COMMITTED`.
    ReadCommitted,
    /// `REPEATABLE READ`.
    RepeatableRead,
    /// `SNAPSHOT`.
    Snapshot,
    /// `SERIALIZABLE`.
    Serializable,
}

/// An option of the session that has a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ValueOption {
    /// `CONTEXT_INFO`.
    ContextInfo,
    /// `DATEFIRST`.
    DateFirst,
    /// `DATEFORMAT`.
    DateFormat,
    /// `DEADLOCK_PRIORITY`.
    DeadlockPriority,
    /// `LANGUAGE`.
    Language,
    /// `LOCK_TIMEOUT`, in milliseconds.
    LockTimeout,
    /// `QUERY_GOVERNOR_COST_LIMIT`.
    QueryGovernorCostLimit,
    /// `ROWCOUNT`.
    RowCount,
    /// `TEXTSIZE`, in bytes.
    TextSize,
}

/// A condition of an `IF` with its statement.
#[derive(Clone, PartialEq, Debug)]
pub struct IfBranch {
    /// The condition.
    pub condition: Condition,
    /// The statement for a true condition.
    pub body: Statement,
}

/// `THROW number, message, state`.
#[derive(Clone, PartialEq, Debug)]
pub struct Throw {
    /// The number.
    pub number: Expression,
    /// The message.
    pub message: Expression,
    /// The state.
    pub state: Expression,
}

/// `RAISERROR (message, severity, state, …) [WITH …]`.
#[derive(Clone, PartialEq, Debug)]
pub struct RaisError {
    /// The text, or the number of a stored message.
    pub message: Expression,
    /// The severity.
    pub severity: Expression,
    /// The state.
    pub state: Expression,
    /// The values for the message's placeholders.
    pub arguments: Vec<Expression>,
    /// `WITH`: `LOG`, `NOWAIT`, `SETERROR`; empty if absent.
    pub options: Vec<OptionItem>,
}

/// A call of a procedure, or of a text that is run as a batch.
#[derive(Clone, PartialEq, Debug)]
pub struct Execute {
    /// The variable that takes the return code.
    pub return_variable: Option<VariableName>,
    /// What is called.
    pub target: ExecuteTarget,
    /// The arguments of a procedure; none for a text.
    pub arguments: Vec<ExecuteArgument>,
    /// `AT` a linked server.
    pub at: Option<Identifier>,
    /// Whether `WITH RECOMPILE` was written.
    pub recompile: bool,
    /// The whole call.
    pub span: Span,
}

/// What is called.
#[derive(Clone, PartialEq, Debug)]
pub enum ExecuteTarget {
    /// A procedure by name.
    Procedure(ObjectName),
    /// A procedure whose name is in a variable: `EXEC @name`.
    Variable(VariableName),
    /// A text: `EXEC (@a + N'…')`.
    Text(Expression),
}

/// One argument of a procedure.
#[derive(Clone, PartialEq, Debug)]
pub struct ExecuteArgument {
    /// The parameter's name, if it is given.
    pub name: Option<VariableName>,
    /// The value: a constant, a negated one, a variable or [`Expression::Default`]. A bare word is a string here.
    pub value: Expression,
    /// Whether `OUTPUT` was written.
    pub output: bool,
}

/// The name of a transaction or savepoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TransactionName {
    /// The name itself.
    Name(Identifier),
    /// A variable that contains it.
    Variable(VariableName),
}

/// `DBCC command [(arguments)] [WITH options]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Dbcc {
    /// The command, in the user's letter case.
    pub command: Identifier,
    /// The arguments; empty if absent.
    pub arguments: Vec<DbccArgument>,
    /// `WITH`; empty if absent.
    pub options: Vec<OptionItem>,
}

/// One argument of a `DBCC`.
#[derive(Clone, PartialEq, Debug)]
pub enum DbccArgument {
    /// A bare word or name: `spinlockstats`, `dbo.Fact`.
    Name(ObjectName),
    /// A constant, a negated one, or a variable.
    Value(Expression),
}

/// `BACKUP` and `RESTORE`, in a form that covers all their variants.
#[derive(Clone, PartialEq, Debug)]
pub struct Backup {
    /// Whether it is `RESTORE`.
    pub restore: bool,
    /// What: `DATABASE`, `LOG`, `HEADERONLY`, `FILELISTONLY`, `VERIFYONLY`, `LABELONLY`.
    pub what: Identifier,
    /// The database; absent if `what` takes none.
    pub database: Option<TransactionName>,
    /// `FILE = …`, `FILEGROUP = …`, `READ_WRITE_FILEGROUPS` before the devices; empty if absent.
    pub files: Vec<OptionItem>,
    /// `TO` or `FROM`; empty if absent.
    pub devices: Vec<BackupDevice>,
    /// `WITH`; empty if absent.
    pub options: Vec<BackupOption>,
}

/// A device of a backup.
#[derive(Clone, PartialEq, Debug)]
pub enum BackupDevice {
    /// A logical device.
    Name(Identifier),
    /// `DISK = 'path'`, `URL = 'address'`.
    Physical {
        /// `DISK`, `TAPE`, `URL` in upper case.
        kind: String,
        /// The location, a string or a variable.
        place: Expression,
    },
}

/// An option of a backup.
#[derive(Clone, PartialEq, Debug)]
pub enum BackupOption {
    /// `MOVE 'logical' TO 'path'`.
    Move {
        /// The logical name.
        file: Literal,
        /// The path.
        path: Literal,
    },
    /// `NAME = @variable`.
    Variable {
        /// The name in upper case.
        name: String,
        /// The variable.
        value: Expression,
    },
    /// `STOPATMARK | STOPBEFOREMARK = 'mark' [AFTER 'time']`.
    Mark {
        /// Whether it is `STOPBEFOREMARK`.
        is_before: bool,
        /// The mark, a string or a variable.
        mark: Expression,
        /// `AFTER`.
        after: Option<Expression>,
    },
    /// Any other option.
    Item(OptionItem),
}

/// `ALTER SERVER CONFIGURATION SET …`.
#[derive(Clone, PartialEq, Debug)]
pub enum ServerConfiguration {
    /// `PROCESS AFFINITY CPU = AUTO`.
    AffinityAuto,
    /// `PROCESS AFFINITY CPU = 0 TO 1, 4`: inclusive ranges.
    AffinityCpu(Vec<(i64, i64)>),
    /// `PROCESS AFFINITY NUMANODE = 0 TO 1, 4`: inclusive ranges.
    AffinityNumaNode(Vec<(i64, i64)>),
    /// `BUFFER POOL EXTENSION ON (FILENAME = …, SIZE = …)`.
    BufferPoolExtension {
        /// The path.
        file_name: String,
        /// The size; its unit must be written.
        size: FileSize,
    },
    /// `BUFFER POOL EXTENSION OFF`.
    NoBufferPoolExtension,
}

/// A parameter of a function or procedure.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: VariableName,
    /// Its type.
    pub data_type: DataType,
    /// Its default: a constant or a negated one.
    pub default: Option<Expression>,
    /// Whether `OUTPUT` was written.
    pub output: bool,
    /// Whether `READONLY` was written.
    pub readonly: bool,
}

impl AssignmentOperator {
    /// The operator that a compound assignment applies; `None` for `=`.
    pub fn arithmetic(self) -> Option<super::ArithmeticOperator> {
        use super::ArithmeticOperator as A;
        match self {
            AssignmentOperator::Assign => None,
            AssignmentOperator::Add => Some(A::Add),
            AssignmentOperator::Subtract => Some(A::Subtract),
            AssignmentOperator::Multiply => Some(A::Multiply),
            AssignmentOperator::Divide => Some(A::Divide),
            AssignmentOperator::Modulo => Some(A::Modulo),
            AssignmentOperator::BitAnd => Some(A::BitAnd),
            AssignmentOperator::BitOr => Some(A::BitOr),
            AssignmentOperator::BitXor => Some(A::BitXor),
        }
    }
}
