//! Queries: everything from `WITH` to `OPTION`.

use super::{Condition, Expression, Identifier, ObjectName, OrderItem, Position, Span, VariableName, Window};

/// A query expression with the clauses that may surround it.
#[derive(Clone, PartialEq, Debug)]
pub struct Query {
    /// The common table expressions. Only the query of a statement, a view or an inline function has any.
    pub with: Vec<CommonTableExpression>,
    /// The selects and the set operators between them.
    pub body: QueryBody,
    /// `ORDER BY`; empty if absent.
    pub order_by: Vec<OrderItem>,
    /// `OFFSET … FETCH …`.
    pub offset: Option<Offset>,
    /// The whole query.
    pub span: Span,
}

/// `name (columns) AS (query)`.
#[derive(Clone, PartialEq, Debug)]
pub struct CommonTableExpression {
    /// Its name.
    pub name: Identifier,
    /// Names for its columns; empty if absent.
    pub columns: Vec<Identifier>,
    /// Its rows.
    pub query: Query,
}

/// Selects combined by set operators.
#[derive(Clone, PartialEq, Debug)]
pub enum QueryBody {
    /// One `SELECT`.
    Select(Box<Select>),
    /// Operators of one precedence level, from left to right: `first op1 rest1 op2 rest2 …`. `INTERSECT` binds tighter
    /// than `UNION` and `EXCEPT`, so a chain has either only `INTERSECT` or only the others. It has at least one step.
    SetOperation {
        /// The leftmost operand.
        first: Box<QueryBody>,
        /// The operators and their right operands.
        rest: Vec<SetOperationStep>,
    },
}

/// A set operator with its right operand.
#[derive(Clone, PartialEq, Debug)]
pub struct SetOperationStep {
    /// The operator.
    pub operator: SetOperator,
    /// The right operand.
    pub operand: QueryBody,
    /// The position of the operator.
    pub span: Span,
}

/// A set operator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SetOperator {
    /// `UNION`.
    Union,
    /// `UNION ALL`.
    UnionAll,
    /// `EXCEPT`.
    Except,
    /// `INTERSECT`.
    Intersect,
}

/// `OFFSET n ROWS [FETCH NEXT m ROWS ONLY]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Offset {
    /// The number of rows skipped.
    pub skip: Expression,
    /// The number of rows kept.
    pub fetch: Option<Expression>,
}

/// One `SELECT`.
#[derive(Clone, PartialEq, Debug)]
pub struct Select {
    /// Whether `DISTINCT` was written.
    pub distinct: bool,
    /// `TOP`.
    pub top: Option<Top>,
    /// The select list, at least one.
    pub items: Vec<SelectItem>,
    /// `INTO`.
    pub into: Option<SelectInto>,
    /// The entries of `FROM` between commas; empty if absent.
    pub from: Vec<TableSource>,
    /// `WHERE`.
    pub condition: Option<Condition>,
    /// `GROUP BY`.
    pub group_by: Option<GroupBy>,
    /// `HAVING`.
    pub having: Option<Condition>,
    /// `WINDOW`; empty if absent.
    pub windows: Vec<NamedWindow>,
    /// From `SELECT` to the end of its last clause.
    pub span: Span,
}

/// `name AS (…)` of the `WINDOW` clause.
#[derive(Clone, PartialEq, Debug)]
pub struct NamedWindow {
    /// Its name.
    pub name: Identifier,
    /// The window.
    pub window: Window,
}

/// `TOP (n) [PERCENT] [WITH TIES]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Top {
    /// The number of rows.
    pub count: Expression,
    /// Whether the count is a percentage.
    pub percent: bool,
    /// Whether rows that tie with the last one are included.
    pub with_ties: bool,
}

/// `INTO name [ON filegroup]`.
#[derive(Clone, PartialEq, Debug)]
pub struct SelectInto {
    /// The new table.
    pub name: ObjectName,
    /// The filegroup it is created in.
    pub filegroup: Option<Identifier>,
}

/// One entry of a select list.
#[derive(Clone, PartialEq, Debug)]
pub enum SelectItem {
    /// `*` or `t.*`.
    Wildcard {
        /// The table or alias.
        qualifier: Option<ObjectName>,
        /// Its position in the text.
        span: Span,
    },
    /// A value with or without a name: `x`, `x AS name`, `x name`, `name = x`.
    Value {
        /// The value.
        value: Expression,
        /// Its name.
        alias: Option<Identifier>,
    },
    /// `@v = x`, `@v += x`.
    Assign {
        /// The variable.
        variable: VariableName,
        /// The operator.
        operator: AssignmentOperator,
        /// The value.
        value: Expression,
    },
}

/// How a value is assigned to a variable or column.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AssignmentOperator {
    /// `=`.
    Assign,
    /// `+=`.
    Add,
    /// `-=`.
    Subtract,
    /// `*=`.
    Multiply,
    /// `/=`.
    Divide,
    /// `%=`.
    Modulo,
    /// `&=`.
    BitAnd,
    /// `|=`.
    BitOr,
    /// `^=`.
    BitXor,
}

/// `GROUP BY`.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupBy {
    /// The entries, at least one.
    pub items: Vec<GroupingItem>,
    /// The old style `WITH ROLLUP` or `WITH CUBE` after them.
    pub modifier: Option<GroupByModifier>,
    /// The position of the clause.
    pub span: Span,
}

/// The old style of super-aggregates.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GroupByModifier {
    /// `WITH ROLLUP`.
    Rollup,
    /// `WITH CUBE`.
    Cube,
}

/// One entry of a `GROUP BY` or of `GROUPING SETS`.
#[derive(Clone, PartialEq, Debug)]
pub enum GroupingItem {
    /// An expression.
    Value(Expression),
    /// `(a, b)` as one entry, or the empty set `()`.
    Composite(Vec<Expression>),
    /// `ROLLUP (…)`, of values and composites.
    Rollup(Vec<GroupingItem>),
    /// `CUBE (…)`, of values and composites.
    Cube(Vec<GroupingItem>),
    /// `GROUPING SETS (…)`.
    Sets(Vec<GroupingItem>),
}

/// A source of rows.
#[derive(Clone, PartialEq, Debug)]
pub enum TableSource {
    /// A table, view or common table expression by name.
    Table(Box<NamedTable>),
    /// A table-valued function.
    Function {
        /// The function.
        name: ObjectName,
        /// Its arguments.
        arguments: Vec<Expression>,
        /// Its alias.
        alias: Option<TableAlias>,
        /// Its position in the text.
        span: Span,
    },
    /// `OPENROWSET (BULK …)`.
    Files(Box<super::FileSource>),
    /// `(SELECT …) alias`.
    Derived {
        /// The rows.
        query: Box<Query>,
        /// Its alias.
        alias: TableAlias,
        /// Its position in the text.
        span: Span,
    },
    /// `(VALUES (…), (…)) alias (columns)`.
    Values {
        /// The rows, at least one, each with at least one value.
        rows: Vec<Vec<Expression>>,
        /// Its alias.
        alias: TableAlias,
        /// Its position in the text.
        span: Span,
    },
    /// A table variable.
    Variable {
        /// The variable.
        name: VariableName,
        /// Its alias.
        alias: Option<TableAlias>,
    },
    /// Joins from left to right: `first JOIN rest1 JOIN rest2 …`. It has at least one step.
    Joined {
        /// The leftmost source.
        first: Box<TableSource>,
        /// The joins with their right sides.
        rest: Vec<JoinStep>,
    },
}

impl TableSource {
    /// The position where the source begins.
    pub fn position(&self) -> Position {
        let mut node = self;
        loop {
            node = match node {
                TableSource::Joined { first, .. } => first,
                TableSource::Table(table) => return table.span.position,
                TableSource::Variable { name, .. } => return name.position,
                TableSource::Files(files) => return files.span.position,
                TableSource::Function { span, .. }
                | TableSource::Derived { span, .. }
                | TableSource::Values { span, .. } => return span.position,
            };
        }
    }
}

/// A table by name, with the clauses that may follow the name in `FROM`.
#[derive(Clone, PartialEq, Debug)]
pub struct NamedTable {
    /// The table.
    pub name: ObjectName,
    /// Its alias.
    pub alias: Option<Identifier>,
    /// `TABLESAMPLE`.
    pub sample: Option<TableSample>,
    /// `WITH (…)`; empty if absent.
    pub hints: Vec<TableHint>,
    /// Its position in the text.
    pub span: Span,
}

/// `TABLESAMPLE SYSTEM (n [PERCENT | ROWS]) [REPEATABLE (seed)]`.
#[derive(Clone, PartialEq, Debug)]
pub struct TableSample {
    /// The amount.
    pub amount: Expression,
    /// Whether `amount` counts rows rather than percent.
    pub rows: bool,
    /// The seed.
    pub repeatable: Option<Expression>,
}

/// An alias with names for the columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableAlias {
    /// The alias.
    pub name: Identifier,
    /// Names for the columns; empty if absent.
    pub columns: Vec<Identifier>,
}

/// A join with its right side.
#[derive(Clone, PartialEq, Debug)]
pub struct JoinStep {
    /// The kind.
    pub kind: JoinKind,
    /// `LOOP`, `HASH`, `MERGE` or `REMOTE`.
    pub hint: Option<JoinHint>,
    /// The right side.
    pub source: TableSource,
    /// `ON`; present exactly if the kind takes one (not for a cross join or an apply).
    pub on: Option<Condition>,
    /// The position of the join's words.
    pub span: Span,
}

/// The kind of a join.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum JoinKind {
    /// `[INNER] JOIN`.
    Inner,
    /// `LEFT [OUTER] JOIN`.
    Left,
    /// `RIGHT [OUTER] JOIN`.
    Right,
    /// `FULL [OUTER] JOIN`.
    Full,
    /// `CROSS JOIN`.
    Cross,
    /// `CROSS APPLY`.
    CrossApply,
    /// `OUTER APPLY`.
    OuterApply,
}

/// The method of a join.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum JoinHint {
    /// `LOOP`.
    Loop,
    /// `HASH`.
    Hash,
    /// `MERGE`.
    Merge,
    /// `REMOTE`.
    Remote,
}

/// A hint on a table.
#[derive(Clone, PartialEq, Debug)]
pub enum TableHint {
    /// `INDEX (…)` or `INDEX = …`.
    Index(Vec<IndexReference>),
    /// `FORCESEEK [(index (columns))]`.
    ForceSeek(Option<ForceSeek>),
    /// `SPATIAL_WINDOW_MAX_CELLS = n`.
    SpatialWindowMaxCells(i64),
    /// `FORCESCAN`.
    ForceScan,
    /// `HOLDLOCK`.
    HoldLock,
    /// `IGNORE_CONSTRAINTS`.
    IgnoreConstraints,
    /// `IGNORE_TRIGGERS`.
    IgnoreTriggers,
    /// `KEEPDEFAULTS`.
    KeepDefaults,
    /// `KEEPIDENTITY`.
    KeepIdentity,
    /// `NOEXPAND`.
    NoExpand,
    /// `NOLOCK`.
    NoLock,
    /// `NOWAIT`.
    NoWait,
    /// `PAGLOCK`.
    PagLock,
    /// `READCOMMITTED`.
    ReadCommitted,
    /// `READCOMMITTEDLOCK`.
    ReadCommittedLock,
    /// `READPAST`.
    ReadPast,
    /// `READUNCOMMITTED`.
    ReadUncommitted,
    /// `REPEATABLEREAD`.
    RepeatableRead,
    /// `ROWLOCK`.
    RowLock,
    /// `SERIALIZABLE`.
    Serializable,
    /// `SNAPSHOT`.
    Snapshot,
    /// `TABLOCK`.
    TabLock,
    /// `TABLOCKX`.
    TabLockX,
    /// `UPDLOCK`.
    UpdLock,
    /// `XLOCK`.
    XLock,
}

/// An index, by name or by number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IndexReference {
    /// The name.
    Name(Identifier),
    /// The number: 0 is the heap, or a scan of the clustered index, 1 the clustered index.
    Number(i64),
}

/// The argument of `FORCESEEK`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForceSeek {
    /// The index.
    pub index: IndexReference,
    /// The columns to seek by; empty if absent.
    pub columns: Vec<Identifier>,
}

/// One entry of `OPTION (…)`.
#[derive(Clone, PartialEq, Debug)]
pub struct QueryHint {
    /// Its kind.
    pub kind: QueryHintKind,
    /// Its position in the text.
    pub span: Span,
}

/// The kind of a query hint.
#[derive(Clone, PartialEq, Debug)]
pub enum QueryHintKind {
    /// `MAXDOP n`.
    MaxDop(i64),
    /// `MAXRECURSION n`.
    MaxRecursion(i64),
    /// `FAST n`.
    Fast(i64),
    /// `QUERYTRACEON n`.
    QueryTraceOn(i64),
    /// `MIN_GRANT_PERCENT = n`.
    MinGrantPercent(Expression),
    /// `MAX_GRANT_PERCENT = n`.
    MaxGrantPercent(Expression),
    /// `RECOMPILE`.
    Recompile,
    /// `FORCE ORDER`.
    ForceOrder,
    /// `HASH JOIN`, `LOOP JOIN`, `MERGE JOIN`.
    Join(JoinHint),
    /// `HASH GROUP`.
    HashGroup,
    /// `ORDER GROUP`.
    OrderGroup,
    /// `CONCAT UNION`.
    ConcatUnion,
    /// `HASH UNION`.
    HashUnion,
    /// `MERGE UNION`.
    MergeUnion,
    /// `EXPAND VIEWS`.
    ExpandViews,
    /// `KEEP PLAN`.
    KeepPlan,
    /// `KEEPFIXED PLAN`.
    KeepFixedPlan,
    /// `ROBUST PLAN`.
    RobustPlan,
    /// `IGNORE_NONCLUSTERED_COLUMNSTORE_INDEX`.
    IgnoreNonclusteredColumnstoreIndex,
    /// `PARAMETERIZATION SIMPLE` (false) or `FORCED` (true).
    Parameterization {
        /// Whether `FORCED` was written.
        forced: bool,
    },
    /// `OPTIMIZE FOR UNKNOWN`.
    OptimizeForUnknown,
    /// `OPTIMIZE FOR (@v = x, @w UNKNOWN)`; `None` is `UNKNOWN`.
    OptimizeFor(Vec<(VariableName, Option<Expression>)>),
    /// `USE HINT ('name', …)`.
    UseHint(Vec<String>),
    /// `USE PLAN N'…'`.
    UsePlan(String),
    /// `LABEL = 'name'`.
    Label(String),
    /// `TABLE HINT (name, hints)`.
    TableHint {
        /// The table or alias.
        name: ObjectName,
        /// The hints.
        hints: Vec<TableHint>,
    },
}
