//! Expressions and conditions.
//!
//! T-SQL has no boolean type, so what is true or false is a [`Condition`], a type separate from [`Expression`]. The
//! binder decides what a name or function means. For example, `DATEADD(day, …)` has a [`Expression::Column`] named
//! `day` here.

use super::{DataType, Identifier, Literal, ObjectName, Position, Query, Span, VariableName};

/// An expression with a value.
#[derive(Clone, PartialEq, Debug)]
pub enum Expression {
    /// A constant.
    Literal {
        /// The constant.
        value: Literal,
        /// Its position in the text.
        span: Span,
    },
    /// `@name`.
    Variable {
        /// The variable.
        name: VariableName,
    },
    /// `@@name`: a function without parentheses.
    GlobalVariable {
        /// The name with its `@@`.
        name: VariableName,
    },
    /// A column, or any other bare name (a `datepart`, for instance).
    Column {
        /// The name.
        name: Box<ColumnName>,
    },
    /// `-x`, `+x`, `~x`.
    Unary {
        /// The operator.
        operator: UnaryOperator,
        /// What it applies to.
        operand: Box<Expression>,
        /// The position of the operator.
        span: Span,
    },
    /// Operators of one precedence level, from left to right: `first op1 rest1 op2 rest2 …`.
    ///
    /// `*`, `/` and `%` bind tighter than `+`, `-`, `&`, `|` and `^`, which share one level. A chain has operators of
    /// one level only, and at least one step.
    Arithmetic {
        /// The leftmost operand.
        first: Box<Expression>,
        /// The operators and their right operands.
        rest: Vec<ArithmeticStep>,
    },
    /// A function call, aggregate or not, windowed or not.
    Function {
        /// The call.
        call: Box<FunctionCall>,
    },
    /// `CURRENT_TIMESTAMP` and its like, written without parentheses.
    Niladic {
        /// Which one.
        function: NiladicFunction,
        /// Its position in the text.
        span: Span,
    },
    /// `CAST(x AS type)` and `TRY_CAST`.
    Cast {
        /// The value.
        operand: Box<Expression>,
        /// The type.
        data_type: Box<DataType>,
        /// Whether it is `TRY_CAST`: NULL instead of an error.
        attempt: bool,
        /// The whole call.
        span: Span,
    },
    /// `CONVERT(type, x [, style])` and `TRY_CONVERT`.
    Convert {
        /// The type.
        data_type: Box<DataType>,
        /// The value.
        operand: Box<Expression>,
        /// The style.
        style: Option<Box<Expression>>,
        /// Whether it is `TRY_CONVERT`: NULL instead of an error.
        attempt: bool,
        /// The whole call.
        span: Span,
    },
    /// `CASE x WHEN v THEN r … END`.
    SimpleCase {
        /// What is compared.
        operand: Box<Expression>,
        /// The branches in order, at least one.
        branches: Vec<SimpleWhen>,
        /// `ELSE`.
        otherwise: Option<Box<Expression>>,
        /// The whole expression.
        span: Span,
    },
    /// `CASE WHEN c THEN r … END`.
    SearchedCase {
        /// The branches in order, at least one.
        branches: Vec<SearchedWhen>,
        /// `ELSE`.
        otherwise: Option<Box<Expression>>,
        /// The whole expression.
        span: Span,
    },
    /// `IIF(c, x, y)`.
    Iif {
        /// The condition.
        condition: Box<Condition>,
        /// The value if it is true.
        then: Box<Expression>,
        /// The value if it is false or unknown.
        otherwise: Box<Expression>,
        /// The whole call.
        span: Span,
    },
    /// `COALESCE(x, …)`.
    Coalesce {
        /// The arguments, at least one.
        arguments: Vec<Expression>,
        /// The whole call.
        span: Span,
    },
    /// `NULLIF(x, y)`.
    NullIf {
        /// The value.
        left: Box<Expression>,
        /// The value that results in NULL if it is equal.
        right: Box<Expression>,
        /// The whole call.
        span: Span,
    },
    /// `(SELECT …)` where one value is expected.
    Subquery {
        /// The query.
        query: Box<Query>,
        /// With its parentheses.
        span: Span,
    },
    /// `x COLLATE name`.
    Collate {
        /// The text.
        operand: Box<Expression>,
        /// The collation.
        collation: Identifier,
    },
    /// `[database.]$PARTITION.function(x, …)`.
    PartitionNumber {
        /// The call.
        call: Box<PartitionNumberCall>,
    },
    /// `NEXT VALUE FOR sequence [OVER (…)]`.
    NextValue {
        /// The sequence.
        sequence: Box<ObjectName>,
        /// `OVER`.
        over: Option<Box<Window>>,
        /// The whole expression.
        span: Span,
    },
    /// `DEFAULT`, where a column, parameter or variable takes a value.
    Default {
        /// Its position in the text.
        span: Span,
    },
}

impl Expression {
    /// The position where the expression begins.
    pub fn position(&self) -> Position {
        let mut node = self;
        loop {
            node = match node {
                Expression::Arithmetic { first, .. } => first,
                Expression::Collate { operand, .. } => operand,
                Expression::Variable { name } | Expression::GlobalVariable { name } => return name.position,
                Expression::Column { name } => return name.position(),
                Expression::Function { call } => return call.span.position,
                Expression::PartitionNumber { call } => return call.span.position,
                Expression::Literal { span, .. }
                | Expression::Unary { span, .. }
                | Expression::Niladic { span, .. }
                | Expression::Cast { span, .. }
                | Expression::Convert { span, .. }
                | Expression::SimpleCase { span, .. }
                | Expression::SearchedCase { span, .. }
                | Expression::Iif { span, .. }
                | Expression::Coalesce { span, .. }
                | Expression::NullIf { span, .. }
                | Expression::Subquery { span, .. }
                | Expression::NextValue { span, .. }
                | Expression::Default { span } => return span.position,
            };
        }
    }
}

/// One operator of a chain with its right operand.
#[derive(Clone, PartialEq, Debug)]
pub struct ArithmeticStep {
    /// The operator.
    pub operator: ArithmeticOperator,
    /// The right operand.
    pub operand: Expression,
    /// The position of the operator.
    pub span: Span,
}

/// A binary operator on values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ArithmeticOperator {
    /// `+`: sum or concatenation.
    Add,
    /// `-`.
    Subtract,
    /// `*`.
    Multiply,
    /// `/`.
    Divide,
    /// `%`.
    Modulo,
    /// `&`.
    BitAnd,
    /// `|`.
    BitOr,
    /// `^`.
    BitXor,
}

/// A unary operator on values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UnaryOperator {
    /// `+`.
    Plus,
    /// `-`. It binds looser than `*`: `-a * b` is `-(a * b)`.
    Minus,
    /// `~`. It binds tightest.
    BitNot,
}

/// A column with its qualifiers: `c`, `t.c`, `schema.t.c`, `database.schema.t.c`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnName {
    /// The table or alias.
    pub qualifier: Option<ObjectName>,
    /// The column; `$action`, `$IDENTITY` and `$ROWGUID` keep their sign.
    pub name: Identifier,
}

impl ColumnName {
    /// The position where the name begins.
    pub fn position(&self) -> Position {
        self.qualifier.as_ref().map_or(self.name.position, ObjectName::position)
    }
}

/// A function called without parentheses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NiladicFunction {
    /// `CURRENT_DATE`.
    CurrentDate,
    /// `CURRENT_TIMESTAMP`.
    CurrentTimestamp,
    /// `CURRENT_USER`.
    CurrentUser,
    /// `SESSION_USER`.
    SessionUser,
    /// `SYSTEM_USER`.
    SystemUser,
    /// `USER`.
    User,
}

/// A call of a function by name.
#[derive(Clone, PartialEq, Debug)]
pub struct FunctionCall {
    /// The function; `LEFT` and `RIGHT`, though reserved, are ordinary names here.
    pub name: ObjectName,
    /// The contents of the parentheses.
    pub arguments: FunctionArguments,
    /// `IGNORE NULLS` (true) or `RESPECT NULLS` (false) after the parentheses.
    pub ignore_nulls: Option<bool>,
    /// `WITHIN GROUP (ORDER BY …)`; empty if absent.
    pub within_group: Vec<OrderItem>,
    /// `OVER (…)`.
    pub over: Option<Window>,
    /// The whole call.
    pub span: Span,
}

/// A call of a partition function: `[database.]$PARTITION.function(x, …)`.
#[derive(Clone, PartialEq, Debug)]
pub struct PartitionNumberCall {
    /// The database.
    pub database: Option<Identifier>,
    /// The partition function.
    pub function: Identifier,
    /// The arguments.
    pub arguments: Vec<Expression>,
    /// The whole call.
    pub span: Span,
}

/// The arguments of a call.
#[derive(Clone, PartialEq, Debug)]
pub enum FunctionArguments {
    /// `(*)`.
    Star,
    /// A list, which may be empty.
    List {
        /// Whether `DISTINCT` stood before it (`ALL` is the default and is not kept).
        distinct: bool,
        /// The arguments.
        values: Vec<Expression>,
    },
}

/// The contents of `OVER (…)`.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Window {
    /// The window of the `WINDOW` clause that it extends; `OVER w` has nothing else.
    pub base: Option<Identifier>,
    /// `PARTITION BY`; empty if absent.
    pub partition_by: Vec<Expression>,
    /// `ORDER BY`; empty if absent.
    pub order_by: Vec<OrderItem>,
    /// `ROWS` or `RANGE`.
    pub frame: Option<WindowFrame>,
}

/// The frame of a window.
#[derive(Clone, PartialEq, Debug)]
pub struct WindowFrame {
    /// `ROWS` or `RANGE`.
    pub unit: FrameUnit,
    /// Where it starts.
    pub start: FrameBound,
    /// Where it ends; `None` if `BETWEEN` was not written, which means the current row.
    pub end: Option<FrameBound>,
    /// The position of the frame.
    pub span: Span,
}

/// The unit of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FrameUnit {
    /// Single rows.
    Rows,
    /// Rows with equal `ORDER BY` values count together.
    Range,
}

/// One end of a frame.
#[derive(Clone, PartialEq, Debug)]
pub enum FrameBound {
    /// `UNBOUNDED PRECEDING`.
    UnboundedPreceding,
    /// `n PRECEDING`.
    Preceding(Expression),
    /// `CURRENT ROW`.
    CurrentRow,
    /// `n FOLLOWING`.
    Following(Expression),
    /// `UNBOUNDED FOLLOWING`.
    UnboundedFollowing,
}

/// One entry of an `ORDER BY`.
#[derive(Clone, PartialEq, Debug)]
pub struct OrderItem {
    /// The value to sort by.
    pub value: Expression,
    /// Whether `DESC` was written.
    pub descending: bool,
}

/// A branch of a simple `CASE`.
#[derive(Clone, PartialEq, Debug)]
pub struct SimpleWhen {
    /// The value compared with.
    pub when: Expression,
    /// The result.
    pub then: Expression,
}

/// A branch of a searched `CASE`.
#[derive(Clone, PartialEq, Debug)]
pub struct SearchedWhen {
    /// The condition.
    pub when: Condition,
    /// The result.
    pub then: Expression,
}

/// A condition: true, false or unknown.
#[derive(Clone, PartialEq, Debug)]
pub enum Condition {
    /// `p OR q OR …`; two operands at least.
    Or {
        /// The operands in order.
        operands: Vec<Condition>,
    },
    /// `p AND q AND …`; two operands at least.
    And {
        /// The operands in order.
        operands: Vec<Condition>,
    },
    /// `NOT p`.
    Not {
        /// What is negated.
        operand: Box<Condition>,
        /// The position of `NOT`.
        span: Span,
    },
    /// `x = y` and its like.
    Comparison {
        /// The left side.
        left: Box<Expression>,
        /// The operator.
        operator: ComparisonOperator,
        /// The right side.
        right: Box<Expression>,
        /// The position of the operator.
        span: Span,
    },
    /// `x = ANY (SELECT …)`.
    Quantified {
        /// The left side.
        left: Box<Expression>,
        /// The operator.
        operator: ComparisonOperator,
        /// How many rows must satisfy the comparison.
        quantifier: Quantifier,
        /// The rows.
        query: Box<Query>,
        /// The position of the operator.
        span: Span,
    },
    /// `x [NOT] BETWEEN low AND high`.
    Between {
        /// The value.
        operand: Box<Expression>,
        /// The lower limit.
        low: Box<Expression>,
        /// The upper limit.
        high: Box<Expression>,
        /// Whether `NOT` was written.
        negated: bool,
        /// The position of the operator.
        span: Span,
    },
    /// `x [NOT] IN (y, …)`.
    InList {
        /// The value.
        operand: Box<Expression>,
        /// The list, at least one.
        items: Vec<Expression>,
        /// Whether `NOT` was written.
        negated: bool,
        /// The position of the operator.
        span: Span,
    },
    /// `x [NOT] IN (SELECT …)`.
    InQuery {
        /// The value.
        operand: Box<Expression>,
        /// The rows.
        query: Box<Query>,
        /// Whether `NOT` was written.
        negated: bool,
        /// The position of the operator.
        span: Span,
    },
    /// `x [NOT] LIKE pattern [ESCAPE c]`.
    Like {
        /// The text.
        operand: Box<Expression>,
        /// The pattern.
        pattern: Box<Expression>,
        /// The escape character.
        escape: Option<Box<Expression>>,
        /// Whether `NOT` was written.
        negated: bool,
        /// The position of the operator.
        span: Span,
    },
    /// `x IS [NOT] NULL`.
    IsNull {
        /// The value.
        operand: Box<Expression>,
        /// Whether `NOT` was written.
        negated: bool,
        /// The position of the operator.
        span: Span,
    },
    /// `x IS [NOT] DISTINCT FROM y`.
    IsDistinct {
        /// The left side.
        left: Box<Expression>,
        /// The right side.
        right: Box<Expression>,
        /// Whether `NOT` was written.
        negated: bool,
        /// The position of the operator.
        span: Span,
    },
    /// `EXISTS (SELECT …)`.
    Exists {
        /// The rows.
        query: Box<Query>,
        /// The position of `EXISTS`.
        span: Span,
    },
}

impl Condition {
    /// The position of the condition: that of its first operand, or of the word that begins it.
    pub fn position(&self) -> Position {
        let mut node = self;
        loop {
            node = match node {
                Condition::Or { operands } | Condition::And { operands } => match operands.first() {
                    Some(first) => first,
                    None => return Position::default(),
                },
                Condition::Not { span, .. }
                | Condition::Comparison { span, .. }
                | Condition::Quantified { span, .. }
                | Condition::Between { span, .. }
                | Condition::InList { span, .. }
                | Condition::InQuery { span, .. }
                | Condition::Like { span, .. }
                | Condition::IsNull { span, .. }
                | Condition::IsDistinct { span, .. }
                | Condition::Exists { span, .. } => return span.position,
            };
        }
    }
}

/// A comparison operator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ComparisonOperator {
    /// `=`.
    Equal,
    /// `<>` or `!=`.
    NotEqual,
    /// `<`.
    Less,
    /// `<=` or `!>`.
    LessOrEqual,
    /// `>`.
    Greater,
    /// `>=` or `!<`.
    GreaterOrEqual,
}

/// How many rows of a subquery must satisfy a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Quantifier {
    /// `ANY` or `SOME`.
    Any,
    /// `ALL`.
    All,
}
