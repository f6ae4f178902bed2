//! Queries as trees, simple enough to be generated at random and reduced, and printed as T-SQL.
//!
//! Calls and operators are templates with `{}` for their arguments. Constants are printed as such or as variables. The
//! printer collects the variables' declarations.

use std::fmt::Write as _;

/// A SQL type of the tests' tables. Within a family, a later one takes precedence in CASE and COALESCE (SQL Server's
/// order).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Type {
    Bit,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    Money,
    Decimal,
    Float,
    Date,
    DateTime,
    DateTime2,
    VarChar,
    NVarChar,
    VarBinary,
    Guid,
}

/// A group of types whose values can be compared with each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Family {
    Number,
    Time,
    Text,
    Binary,
    Guid,
}

impl Type {
    pub(super) const ALL: [Type; 15] = [
        Type::Bit,
        Type::TinyInt,
        Type::SmallInt,
        Type::Int,
        Type::BigInt,
        Type::Money,
        Type::Decimal,
        Type::Float,
        Type::Date,
        Type::DateTime,
        Type::DateTime2,
        Type::VarChar,
        Type::NVarChar,
        Type::VarBinary,
        Type::Guid,
    ];

    pub(super) fn sql(self) -> &'static str {
        match self {
            Type::Bit => "bit",
            Type::TinyInt => "tinyint",
            Type::SmallInt => "smallint",
            Type::Int => "int",
            Type::BigInt => "bigint",
            Type::Decimal => "decimal(9, 2)",
            Type::Money => "money",
            Type::Float => "float",
            Type::Date => "date",
            Type::DateTime => "datetime",
            Type::DateTime2 => "datetime2(3)",
            Type::VarChar => "varchar(10)",
            Type::NVarChar => "nvarchar(10)",
            Type::VarBinary => "varbinary(8)",
            Type::Guid => "uniqueidentifier",
        }
    }

    pub(super) fn family(self) -> Family {
        match self {
            Type::Date | Type::DateTime | Type::DateTime2 => Family::Time,
            Type::VarChar | Type::NVarChar => Family::Text,
            Type::VarBinary => Family::Binary,
            Type::Guid => Family::Guid,
            _ => Family::Number,
        }
    }

    pub(super) fn is_whole(self) -> bool {
        matches!(self, Type::TinyInt | Type::SmallInt | Type::Int | Type::BigInt)
    }
}

/// A value of an expression.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Expr {
    Column {
        alias: usize,
        name: String,
        of: Type,
    },
    /// A constant, printed as is or with a cast to its type.
    Constant {
        text: String,
        of: Type,
        is_cast: bool,
    },
    /// NULL, with or without a type.
    Null(Option<Type>),
    /// A call or an operator, with `{}` for each argument. Also used for aggregates.
    Form {
        template: &'static str,
        arguments: Vec<Expr>,
        of: Type,
    },
    Case {
        whens: Vec<(Cond, Expr)>,
        other: Option<Box<Expr>>,
    },
    Query(Box<Select>),
}

impl Expr {
    pub(super) fn of(&self) -> Type {
        match self {
            Expr::Column { of, .. } | Expr::Constant { of, .. } | Expr::Form { of, .. } => *of,
            Expr::Null(of) => of.unwrap_or(Type::Int),
            Expr::Case { whens, other } => {
                let values = whens.iter().map(|(_, value)| value).chain(other.as_deref());
                values.map(Expr::of).max().unwrap_or(Type::Int)
            }
            Expr::Query(query) => query.items.first().map_or(Type::Int, Expr::of),
        }
    }

    pub(super) fn form(template: &'static str, arguments: Vec<Expr>, of: Type) -> Expr {
        Expr::Form { template, arguments, of }
    }

    /// The value in a canonical form: text that differs only in case and trailing blanks is equal, and so are bytes
    /// that differ only in trailing zeros.
    pub(super) fn in_one_form(self) -> Expr {
        let of = self.of();
        match of.family() {
            Family::Text => Expr::form("UPPER(RTRIM({}))", vec![self], of),
            Family::Binary => Expr::form("CAST({} AS binary(8))", vec![self], of),
            _ => self,
        }
    }
}

/// A condition.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Cond {
    Compare(&'static str, Expr, Expr),
    /// `{} IS NULL`, `{} LIKE 'a%'` and so on.
    Test(&'static str, Vec<Expr>),
    In {
        is_not: bool,
        value: Expr,
        list: Vec<Expr>,
    },
    And(Vec<Cond>),
    Or(Vec<Cond>),
    Not(Box<Cond>),
    Exists {
        is_not: bool,
        query: Box<Select>,
    },
    InQuery {
        is_not: bool,
        value: Expr,
        query: Box<Select>,
    },
    /// `value op ANY | ALL (query)`.
    Quantified {
        op: &'static str,
        all: bool,
        value: Expr,
        query: Box<Select>,
    },
    /// Whether it is neither true nor false.
    IsUnknown(Box<Cond>),
    /// `CASE WHEN … THEN 1 END = 1`.
    InCase(Box<Cond>),
}

impl Cond {
    pub(super) fn not(self) -> Cond {
        Cond::Not(Box::new(self))
    }

    pub(super) fn unknown(self) -> Cond {
        Cond::IsUnknown(Box::new(self))
    }

    pub(super) fn and(self, other: Option<Cond>) -> Cond {
        match other {
            Some(other) => Cond::And(vec![other, self]),
            None => self,
        }
    }
}

/// The storage of a table's rows. Each table exists in all shapes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Shape {
    Heap,
    Clustered,
    Indexed,
    Partitioned,
}

impl Shape {
    pub(super) const ALL: [Shape; 4] = [Shape::Heap, Shape::Clustered, Shape::Indexed, Shape::Partitioned];

    pub(super) fn suffix(self) -> &'static str {
        match self {
            Shape::Heap => "h",
            Shape::Clustered => "c",
            Shape::Indexed => "i",
            Shape::Partitioned => "p",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Join {
    Inner,
    Left,
    Right,
    Full,
    Cross,
}

impl Join {
    fn sql(self) -> &'static str {
        match self {
            Join::Inner => "JOIN",
            Join::Left => "LEFT JOIN",
            Join::Right => "RIGHT JOIN",
            Join::Full => "FULL JOIN",
            Join::Cross => "CROSS JOIN",
        }
    }
}

/// The source of a query. Each alias is a number that is unique in the whole query.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum From {
    Table { table: usize, shape: Shape, alias: usize },
    Derived { query: Box<Select>, alias: usize },
    Join { kind: Join, left: Box<From>, right: Box<From>, on: Option<Cond> },
    Apply { outer: bool, left: Box<From>, query: Box<Select>, alias: usize },
}

impl From {
    pub(super) fn join(kind: Join, left: From, right: From, on: Option<Cond>) -> From {
        From::Join { kind, left: Box::new(left), right: Box::new(right), on }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Select {
    pub(super) distinct: bool,
    pub(super) items: Vec<Expr>,
    pub(super) from: From,
    pub(super) filter: Option<Cond>,
    pub(super) group: Vec<Expr>,
    pub(super) having: Option<Cond>,
}

impl Select {
    pub(super) fn plain(items: Vec<Expr>, from: From, filter: Option<Cond>) -> Select {
        Select { distinct: false, items, from, filter, group: Vec::new(), having: None }
    }

    /// Adds `condition` to the filter.
    pub(super) fn only(&self, condition: Cond) -> Select {
        Select { filter: Some(condition.and(self.filter.clone())), ..self.clone() }
    }
}

/// Prints trees, and collects the variables that they need.
#[derive(Default)]
pub(super) struct Printer {
    /// Whether constants are printed as variables.
    pub(super) with_variables: bool,
    /// The type and value of each variable, ordered by number.
    pub(super) variables: Vec<(String, String)>,
}

impl Printer {
    pub(super) fn select(&mut self, query: &Select) -> String {
        let mut text = String::from(if query.distinct { "SELECT DISTINCT " } else { "SELECT " });
        let items: Vec<String> =
            query.items.iter().enumerate().map(|(at, item)| format!("{} AS c{at}", self.expr(item))).collect();
        let from = self.from(&query.from);
        let _ = write!(text, "{} FROM {from}", items.join(", "));
        if let Some(filter) = &query.filter {
            let _ = write!(text, " WHERE {}", self.cond(filter));
        }
        if !query.group.is_empty() {
            let group: Vec<String> = query.group.iter().map(|expr| self.expr(expr)).collect();
            let _ = write!(text, " GROUP BY {}", group.join(", "));
        }
        if let Some(having) = &query.having {
            let _ = write!(text, " HAVING {}", self.cond(having));
        }
        text
    }

    fn from(&mut self, from: &From) -> String {
        match from {
            From::Table { table, shape, alias } => format!("t{table}{} AS a{alias}", shape.suffix()),
            From::Derived { query, alias } => format!("({}) AS a{alias}", self.select(query)),
            From::Join { kind, left, right, on } => {
                let right_text = self.from(right);
                let is_join = matches!(**right, From::Join { .. } | From::Apply { .. });
                let right = if is_join { format!("({right_text})") } else { right_text };
                let mut text = format!("{} {} {right}", self.from(left), kind.sql());
                if let Some(on) = on {
                    let _ = write!(text, " ON {}", self.cond(on));
                }
                text
            }
            From::Apply { outer, left, query, alias } => {
                let apply = if *outer { "OUTER APPLY" } else { "CROSS APPLY" };
                format!("{} {apply} ({}) AS a{alias}", self.from(left), self.select(query))
            }
        }
    }

    fn filled(&mut self, template: &str, arguments: &[Expr]) -> String {
        let mut texts = arguments.iter().map(|argument| self.expr(argument)).collect::<Vec<_>>().into_iter();
        let mut parts = template.split("{}");
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            text.push_str(&texts.next().expect("as many arguments as places"));
            text.push_str(part);
        }
        text
    }

    pub(super) fn expr(&mut self, expr: &Expr) -> String {
        match expr {
            Expr::Column { alias, name, .. } => format!("a{alias}.{name}"),
            Expr::Constant { text, of, is_cast } => {
                let cast = || format!("CAST({text} AS {})", of.sql());
                if self.with_variables && *is_cast {
                    return self.variable(of.sql().to_owned(), text.clone());
                }
                if self.with_variables {
                    return self.variable(type_of_literal(text, *of), text.clone());
                }
                if *is_cast { cast() } else { text.clone() }
            }
            Expr::Null(None) => "NULL".to_owned(),
            Expr::Null(Some(of)) if self.with_variables => self.variable(of.sql().to_owned(), "NULL".to_owned()),
            Expr::Null(Some(of)) => format!("CAST(NULL AS {})", of.sql()),
            Expr::Form { template, arguments, .. } => self.filled(template, arguments),
            Expr::Case { whens, other } => {
                let mut text = String::from("CASE");
                for (when, then) in whens {
                    let _ = write!(text, " WHEN {} THEN {}", self.cond(when), self.expr(then));
                }
                if let Some(other) = other {
                    let _ = write!(text, " ELSE {}", self.expr(other));
                }
                text + " END"
            }
            Expr::Query(query) => format!("({})", self.select(query)),
        }
    }

    fn variable(&mut self, of: String, value: String) -> String {
        self.variables.push((of, value));
        format!("@v{}", self.variables.len())
    }

    fn list(&mut self, conds: &[Cond], between: &str) -> String {
        let texts: Vec<String> = conds.iter().map(|cond| self.cond(cond)).collect();
        if texts.len() == 1 { texts.concat() } else { format!("({})", texts.join(between)) }
    }

    pub(super) fn cond(&mut self, cond: &Cond) -> String {
        let not = |is_not: bool| if is_not { "NOT " } else { "" };
        match cond {
            Cond::Compare(op, left, right) => format!("{} {op} {}", self.expr(left), self.expr(right)),
            Cond::Test(template, arguments) => self.filled(template, arguments),
            Cond::In { is_not, value, list } => {
                let value = self.expr(value);
                let list: Vec<String> = list.iter().map(|value| self.expr(value)).collect();
                format!("{value} {}IN ({})", not(*is_not), list.join(", "))
            }
            Cond::And(conds) => self.list(conds, " AND "),
            Cond::Or(conds) => self.list(conds, " OR "),
            Cond::Not(cond) => format!("NOT ({})", self.cond(cond)),
            Cond::Exists { is_not, query } => format!("{}EXISTS ({})", not(*is_not), self.select(query)),
            Cond::InQuery { is_not, value, query } => {
                format!("{} {}IN ({})", self.expr(value), not(*is_not), self.select(query))
            }
            Cond::Quantified { op, all, value, query } => {
                let quantifier = if *all { "ALL" } else { "ANY" };
                format!("{} {op} {quantifier} ({})", self.expr(value), self.select(query))
            }
            Cond::IsUnknown(cond) => {
                let (one, two) = (self.cond(cond), self.cond(cond));
                format!("CASE WHEN {one} THEN 1 WHEN NOT ({two}) THEN 0 END IS NULL")
            }
            Cond::InCase(cond) => format!("CASE WHEN {} THEN 1 END = 1", self.cond(cond)),
        }
    }
}

/// The type of a literal, so that a variable of that type means the same.
fn type_of_literal(text: &str, of: Type) -> String {
    let length = text.trim_start_matches('N').len().saturating_sub(2).max(1);
    let bytes = text.trim_start_matches("0x").len().div_ceil(2).max(1);
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    match of {
        Type::VarChar => format!("varchar({length})"),
        Type::NVarChar => format!("nvarchar({length})"),
        Type::VarBinary => format!("varbinary({bytes})"),
        Type::Decimal => {
            let scale = text.split_once('.').map_or(0, |(_, scale)| scale.len());
            format!("decimal({digits}, {scale})")
        }
        _ => of.sql().to_owned(),
    }
}
