//! The syntax tree: the contents of a T-SQL batch, before any name in it is looked up.
//!
//! The tree keeps the meaning of the text and drops its layout. Parentheses are dropped (the printer adds those that
//! the tree needs), comments are dropped, and `<>` and `!=` are one operator. Chains are flat: `a + b - c`, `p AND q
//! AND r`, `x JOIN y JOIN z` and `q UNION r UNION s` each are one node with a list. So a chain of any length is parsed,
//! cloned, compared and dropped without recursion, and the depth of a tree never exceeds the parser's nesting limit.
//!
//! Two trees are equal if they have the same meaning. Their positions in the text are ignored (see [`Span`]).
//!
//! Not here: the meaning of names and types (the binder). This tree does not know whether a table exists.

mod bulk;
mod control;
mod ddl;
mod expression;
mod external;
mod query;
mod statement;

pub use bulk::*;
pub use control::*;
pub use ddl::*;
pub use expression::*;
pub use external::*;
pub use hobt_base::Position;
pub use query::*;
pub use statement::*;

/// The location of a node in its batch: the position of its first character, and its bytes.
///
/// All spans are equal to one another, so that trees compare by meaning.
#[derive(Clone, Copy, Default, Debug)]
pub struct Span {
    /// Line and column of the first character.
    pub position: Position,
    /// The first byte, counted from the start of the batch.
    pub start: u32,
    /// The byte after the last one.
    pub end: u32,
}

impl PartialEq for Span {
    fn eq(&self, _: &Span) -> bool {
        true
    }
}

impl Eq for Span {}

impl Span {
    /// The node's text, cut out of the `batch` that it was parsed from; empty if `batch` is another text without these
    /// bytes.
    pub fn text<'a>(&self, batch: &'a str) -> &'a str {
        batch.get(self.start as usize..self.end as usize).unwrap_or("")
    }
}

/// One batch: the statements between two `GO` lines.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    /// The statements in order. Empty statements (a lone `;`) are not kept.
    pub statements: Vec<Statement>,
}

/// A name as the user wrote it, without its quotes.
///
/// Two identifiers are equal if they have the same spelling, including letter case, and are both quoted or both not.
/// The position is ignored.
#[derive(Clone, Debug)]
pub struct Identifier {
    /// The name, with doubled closing quotes reduced to one.
    pub value: String,
    /// Whether it was written in `[brackets]` or `"quotes"` (or, as an alias, in `'apostrophes'`).
    pub quoted: bool,
    /// Its first character, or its quote if it has one.
    pub position: Position,
}

impl PartialEq for Identifier {
    fn eq(&self, other: &Identifier) -> bool {
        self.value == other.value && self.quoted == other.quoted
    }
}

impl Eq for Identifier {}

impl Identifier {
    /// An unquoted identifier at the batch's first position, for trees built by a program.
    pub fn new(value: impl Into<String>) -> Identifier {
        Identifier { value: value.into(), quoted: false, position: Position::default() }
    }

    /// Whether the name is `other`, ignoring ASCII case.
    pub fn is(&self, other: &str) -> bool {
        self.value.eq_ignore_ascii_case(other)
    }
}

/// The name of an object, in up to four parts; a part left empty (`tempdb..#t`) is `None`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectName {
    /// The linked server.
    pub server: Option<Identifier>,
    /// The database.
    pub database: Option<Identifier>,
    /// The schema.
    pub schema: Option<Identifier>,
    /// The object itself.
    pub name: Identifier,
}

impl ObjectName {
    /// A one-part name.
    pub fn simple(name: Identifier) -> ObjectName {
        ObjectName { server: None, database: None, schema: None, name }
    }

    /// The position where the name begins.
    pub fn position(&self) -> Position {
        [&self.server, &self.database, &self.schema].into_iter().flatten().next().unwrap_or(&self.name).position
    }

    /// The name alone, if it has no other parts.
    pub fn as_simple(&self) -> Option<&Identifier> {
        let alone = self.server.is_none() && self.database.is_none() && self.schema.is_none();
        alone.then_some(&self.name)
    }
}

/// A variable's name with its `@`.
///
/// Two variable names are equal if they have the same spelling. The position is ignored.
#[derive(Clone, Debug)]
pub struct VariableName {
    /// The name with the leading `@`, as spelled.
    pub value: String,
    /// The position of the `@`.
    pub position: Position,
}

impl PartialEq for VariableName {
    fn eq(&self, other: &VariableName) -> bool {
        self.value == other.value
    }
}

impl Eq for VariableName {}

/// A data type as written: `decimal(10, 2)`, `[nvarchar](max)`, `dbo.PhoneNumber`.
///
/// Types of several words are reduced to their one-word synonym: `DOUBLE PRECISION` is `float`,
/// `NATIONAL CHARACTER VARYING` is `nvarchar`, `CHARACTER VARYING` is `varchar`, `BINARY VARYING` is `varbinary`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataType {
    /// The type's name, with a schema if one was given.
    pub name: ObjectName,
    /// The contents of the parentheses: length, or precision and scale.
    pub arguments: Vec<TypeArgument>,
}

/// One argument of a data type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypeArgument {
    /// A length, precision or scale; its range is not checked here.
    Number(i64),
    /// `max`.
    Max,
}

/// A constant.
#[derive(Clone, PartialEq, Debug)]
pub enum Literal {
    /// `NULL`.
    Null,
    /// Only digits, and they fit 64 bits. Its T-SQL type is `int` if it fits, otherwise `numeric(digits, 0)`.
    Integer(i64),
    /// Digits with a point, or only digits that exceed 64 bits, as written (`1.50`, `.5`, `2.`).
    Decimal(Box<str>),
    /// With an exponent, as written (`1e3`, `1.5E-2`).
    Float(Box<str>),
    /// A currency sign and digits, without the sign (`$1.5` is `1.5`; `$` alone is empty and means 0).
    Money(Box<str>),
    /// `'text'` or `N'text'`, doubled apostrophes reduced.
    String {
        /// The characters.
        value: Box<str>,
        /// Whether it has the prefix `N`: `nvarchar` rather than `varchar`.
        national: bool,
    },
    /// `0x…`, decoded; a zero is added in front of an odd number of digits.
    Binary(Box<[u8]>),
}

/// One entry of a list of options that T-SQL writes as `NAME`, `NAME = value` or `NAME value`.
#[derive(Clone, PartialEq, Debug)]
pub struct OptionItem {
    /// The name in upper case. Several words are separated by single spaces.
    pub name: String,
    /// What follows the name.
    pub value: OptionValue,
    /// `ON PARTITIONS (…)` after the value; empty if absent.
    pub partitions: Vec<PartitionRange>,
    /// The position of the option.
    pub span: Span,
}

impl OptionItem {
    /// The last option of `options` named `name` (upper case), because later options override earlier ones.
    pub fn find<'a>(options: &'a [OptionItem], name: &str) -> Option<&'a OptionItem> {
        options.iter().rev().find(|option| option.name == name)
    }
}

/// The value of an [`OptionItem`].
#[derive(Clone, PartialEq, Debug)]
pub enum OptionValue {
    /// Only the name was written.
    Absent,
    /// `ON`.
    On,
    /// `OFF`.
    Off,
    /// Another word: `PAGE`, `AUTO`, `SIMPLE`.
    Word(Identifier),
    /// A constant.
    Literal(Literal),
    /// A number followed by a word: `99 PERCENT`, `60 SECONDS`, `64 KB`.
    Quantity {
        /// The number.
        amount: Literal,
        /// The word in upper case (`%` is `PERCENT`).
        unit: String,
    },
    /// A parenthesised list: `(MAX_DURATION = 1 MINUTES, ABORT_AFTER_WAIT = SELF)`.
    List(Vec<OptionItem>),
}

/// Partition numbers: `3` or `5 TO 9`.
#[derive(Clone, PartialEq, Debug)]
pub struct PartitionRange {
    /// The first, or the only one.
    pub first: Expression,
    /// The last one, if `TO` was written.
    pub last: Option<Expression>,
}
