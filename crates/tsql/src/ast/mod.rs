//! The syntax tree: what a T-SQL batch says, before any name in it is looked up.
//!
//! The tree keeps what the text means and drops how it was laid out: parentheses are gone (the printer puts back
//! those that the tree needs), comments are gone, `<>` and `!=` are one operator. Chains are flat: `a + b - c`,
//! `p AND q AND r`, `x JOIN y JOIN z` and `q UNION r UNION s` each are one node with a list, so a chain of any length
//! is parsed, cloned, compared and dropped without recursion, and the depth of a tree never exceeds what the parser's
//! nesting limit lets through.
//!
//! Two trees are equal when they say the same; where they stood in their texts does not count (see [`Span`]).
//!
//! Left to others: the binder gives names and types their meaning; this tree does not know whether a table exists.

mod control;
mod ddl;
mod expression;
mod query;
mod statement;

pub use control::*;
pub use ddl::*;
pub use expression::*;
pub use hobt_base::Position;
pub use query::*;
pub use statement::*;

/// Where a node stands in its batch: the position of its first character and its bytes.
///
/// All spans are equal to one another, so that trees compare by what they say.
#[derive(Clone, Copy, Default, Debug)]
pub struct Span {
    /// Line and column of the first character.
    pub position: Position,
    /// The first byte, counted from the start of the batch.
    pub start: u32,
    /// The byte behind the last one.
    pub end: u32,
}

impl PartialEq for Span {
    fn eq(&self, _: &Span) -> bool {
        true
    }
}

impl Eq for Span {}

impl Span {
    /// The node's text, cut out of the `batch` that it was parsed from; empty when `batch` is another text in which
    /// these bytes do not exist.
    pub fn text<'a>(&self, batch: &'a str) -> &'a str {
        batch.get(self.start as usize..self.end as usize).unwrap_or("")
    }
}

/// One batch: the statements between two `GO` lines.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    /// The statements in order; empty statements (a lone `;`) are not kept.
    pub statements: Vec<Statement>,
}

/// A name as the user wrote it, without its quotes.
///
/// Equality is that of the spelling (case counts) and of being quoted; the position does not count.
#[derive(Clone, Debug)]
pub struct Identifier {
    /// The name, with doubled closing quotes reduced to one.
    pub value: String,
    /// Whether it stood in `[brackets]` or `"quotes"` (or, as an alias, in `'apostrophes'`).
    pub quoted: bool,
    /// Its first character, the quote where it has one.
    pub position: Position,
}

impl PartialEq for Identifier {
    fn eq(&self, other: &Identifier) -> bool {
        self.value == other.value && self.quoted == other.quoted
    }
}

impl Eq for Identifier {}

impl Identifier {
    /// An unquoted identifier at the batch's first position, for trees made by a program.
    pub fn new(value: impl Into<String>) -> Identifier {
        Identifier { value: value.into(), quoted: false, position: Position::default() }
    }

    /// Whether the name is `other`, ASCII case ignored.
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

    /// Where the name begins.
    pub fn position(&self) -> Position {
        [&self.server, &self.database, &self.schema].into_iter().flatten().next().unwrap_or(&self.name).position
    }

    /// The name alone when it has no other part.
    pub fn as_simple(&self) -> Option<&Identifier> {
        let alone = self.server.is_none() && self.database.is_none() && self.schema.is_none();
        alone.then_some(&self.name)
    }
}

/// A variable's name with its `@`.
///
/// Equality is that of the spelling; the position does not count.
#[derive(Clone, Debug)]
pub struct VariableName {
    /// The name with the leading `@`, as spelled.
    pub value: String,
    /// Where the `@` stands.
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
    /// The type's name, with a schema where one was given.
    pub name: ObjectName,
    /// What stands in parentheses: length, or precision and scale.
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
    /// Digits alone that fit 64 bits. T-SQL types them `int` where they fit that, otherwise `numeric(digits, 0)`.
    Integer(i64),
    /// Digits with a point, or digits alone beyond 64 bits, as written (`1.50`, `.5`, `2.`).
    Decimal(Box<str>),
    /// With an exponent, as written (`1e3`, `1.5E-2`).
    Float(Box<str>),
    /// A currency sign and digits, without the sign (`$1.5` is `1.5`; `$` alone is empty and means 0).
    Money(Box<str>),
    /// `'text'` or `N'text'`, doubled apostrophes reduced.
    String {
        /// The characters.
        value: Box<str>,
        /// Whether `N` stood before it: `nvarchar` rather than `varchar`.
        national: bool,
    },
    /// `0x…`, decoded; an odd digit count has a zero put before it.
    Binary(Box<[u8]>),
}

/// One entry of a list of options that T-SQL writes as `NAME`, `NAME = value` or `NAME value`.
#[derive(Clone, PartialEq, Debug)]
pub struct OptionItem {
    /// The name in upper case; one of several words has single spaces between them.
    pub name: String,
    /// What follows the name.
    pub value: OptionValue,
    /// `ON PARTITIONS (…)` behind the value; empty without.
    pub partitions: Vec<PartitionRange>,
    /// Where the option stands.
    pub span: Span,
}

impl OptionItem {
    /// The last option of `options` with `name` (upper case), as a later one overrides an earlier one.
    pub fn find<'a>(options: &'a [OptionItem], name: &str) -> Option<&'a OptionItem> {
        options.iter().rev().find(|option| option.name == name)
    }
}

/// The value of an [`OptionItem`].
#[derive(Clone, PartialEq, Debug)]
pub enum OptionValue {
    /// The name stood alone.
    Absent,
    /// `ON`.
    On,
    /// `OFF`.
    Off,
    /// Another word: `PAGE`, `AUTO`, `SIMPLE`.
    Word(Identifier),
    /// A constant.
    Literal(Literal),
    /// A number with a word behind it: `99 PERCENT`, `60 SECONDS`, `64 KB`.
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
    /// The last, where `TO` was written.
    pub last: Option<Expression>,
}
