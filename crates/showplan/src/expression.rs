//! Columns and expressions of a plan, in T-SQL's syntax.

use std::fmt;
use std::sync::Arc;

use hobt_types::SqlType;

use super::bracketed;

/// A table's full name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableName {
    /// Its database.
    pub database: String,
    /// Its schema.
    pub schema: String,
    /// Its own name.
    pub table: String,
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", bracketed(&self.database), bracketed(&self.schema), bracketed(&self.table))
    }
}

/// A column of a table, or a value that an operator computes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanColumn {
    /// The table; `None` for a computed value.
    pub table: Option<Arc<TableName>>,
    /// The column's name; `Expr1001` for a computed value.
    pub name: String,
    /// The type, if the column is a table's or has the type of one.
    pub sql_type: Option<SqlType>,
}

impl PlanColumn {
    /// A computed value.
    pub fn made(name: impl Into<String>) -> PlanColumn {
        PlanColumn { table: None, name: name.into(), sql_type: None }
    }
}

impl fmt::Display for PlanColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(table) = &self.table {
            write!(f, "{table}.")?;
        }
        f.write_str(&bracketed(&self.name))
    }
}

/// How two values are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompareOp {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `IS`: NULL equals NULL.
    Is,
    /// `IS NOT`.
    IsNot,
}

impl CompareOp {
    /// Its sign in texts.
    pub fn sign(self) -> &'static str {
        match self {
            CompareOp::Equal => "=",
            CompareOp::NotEqual => "<>",
            CompareOp::Less => "<",
            CompareOp::LessOrEqual => "<=",
            CompareOp::Greater => ">",
            CompareOp::GreaterOrEqual => ">=",
            CompareOp::Is => " IS ",
            CompareOp::IsNot => " IS NOT ",
        }
    }

    /// Its name in XML.
    pub fn name(self) -> &'static str {
        match self {
            CompareOp::Equal => "EQ",
            CompareOp::NotEqual => "NE",
            CompareOp::Less => "LT",
            CompareOp::LessOrEqual => "LE",
            CompareOp::Greater => "GT",
            CompareOp::GreaterOrEqual => "GE",
            CompareOp::Is => "IS",
            CompareOp::IsNot => "IS NOT",
        }
    }
}

/// An expression over columns.
#[derive(Clone, PartialEq, Debug)]
pub enum PlanExpr {
    /// A column.
    Column(PlanColumn),
    /// A constant, in T-SQL's syntax.
    Constant(String),
    /// A comparison.
    Compare {
        /// The operator.
        op: CompareOp,
        /// The left side.
        left: Box<PlanExpr>,
        /// The right side.
        right: Box<PlanExpr>,
    },
    /// `AND`, `OR`.
    Logical {
        /// Whether all must be true.
        all: bool,
        /// The conditions, at least one.
        operands: Vec<PlanExpr>,
    },
    /// `NOT`.
    Not(Box<PlanExpr>),
    /// `a + b`; by sign.
    Arithmetic {
        /// The sign.
        sign: char,
        /// The left side.
        left: Box<PlanExpr>,
        /// The right side.
        right: Box<PlanExpr>,
    },
    /// `-x` and `~x`.
    Unary {
        /// The sign.
        sign: char,
        /// The operand.
        operand: Box<PlanExpr>,
    },
    /// `CONVERT(type, x, style)`.
    Convert {
        /// The type, as declared.
        data_type: String,
        /// The style.
        style: i32,
        /// The value.
        operand: Box<PlanExpr>,
    },
    /// `CASE`.
    Case {
        /// Conditions, each with its result.
        branches: Vec<(PlanExpr, PlanExpr)>,
        /// The result if no condition is true.
        otherwise: Box<PlanExpr>,
    },
    /// A function.
    Function {
        /// Its name.
        name: String,
        /// Its arguments.
        arguments: Vec<PlanExpr>,
    },
    /// An aggregate.
    Aggregate {
        /// Its name, in capitals.
        name: String,
        /// Whether only distinct values count.
        is_distinct: bool,
        /// Its arguments; none if it counts all rows.
        arguments: Vec<PlanExpr>,
    },
    /// An expression known only as text.
    Text(String),
}

impl PlanExpr {
    /// A comparison.
    pub fn compare(op: CompareOp, left: PlanExpr, right: PlanExpr) -> PlanExpr {
        PlanExpr::Compare { op, left: Box::new(left), right: Box::new(right) }
    }

    /// The type of its values, if they are a column's.
    pub fn sql_type(&self) -> Option<SqlType> {
        match self {
            PlanExpr::Column(column) => column.sql_type,
            PlanExpr::Aggregate { name, arguments, .. } if name == "MIN" || name == "MAX" => {
                arguments.first()?.sql_type()
            }
            _ => None,
        }
    }

    /// The conjunction of `parts`; `None` for none.
    pub fn conjunction(mut parts: Vec<PlanExpr>) -> Option<PlanExpr> {
        match parts.len() {
            0 | 1 => parts.pop(),
            _ => Some(PlanExpr::Logical { all: true, operands: parts }),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, items: &[PlanExpr], separator: &str) -> fmt::Result {
    for (at, item) in items.iter().enumerate() {
        write!(f, "{}{item}", if at == 0 { "" } else { separator })?;
    }
    Ok(())
}

/// An operand of `AND`, `OR` and signs, in parentheses if it is such an expression itself.
struct Operand<'e>(&'e PlanExpr);

impl fmt::Display for Operand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            PlanExpr::Logical { .. } | PlanExpr::Arithmetic { .. } | PlanExpr::Compare { .. } => {
                write!(f, "({})", self.0)
            }
            inner => write!(f, "{inner}"),
        }
    }
}

impl fmt::Display for PlanExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanExpr::Column(column) => write!(f, "{column}"),
            PlanExpr::Constant(text) | PlanExpr::Text(text) => f.write_str(text),
            PlanExpr::Compare { op, left, right } => write!(f, "{}{}{}", Operand(left), op.sign(), Operand(right)),
            PlanExpr::Logical { all, operands } => {
                let word = if *all { " AND " } else { " OR " };
                for (at, operand) in operands.iter().enumerate() {
                    f.write_str(if at == 0 { "" } else { word })?;
                    match operand {
                        PlanExpr::Logical { .. } => write!(f, "({operand})")?,
                        plain => write!(f, "{plain}")?,
                    }
                }
                Ok(())
            }
            PlanExpr::Not(operand) => write!(f, "NOT {}", Operand(operand)),
            PlanExpr::Arithmetic { sign, left, right } => write!(f, "{}{sign}{}", Operand(left), Operand(right)),
            PlanExpr::Unary { sign, operand } => write!(f, "{sign}{}", Operand(operand)),
            PlanExpr::Convert { data_type, style, operand } => write!(f, "CONVERT({data_type},{operand},{style})"),
            PlanExpr::Case { branches, otherwise } => {
                f.write_str("CASE")?;
                for (when, then) in branches {
                    write!(f, " WHEN {when} THEN {then}")?;
                }
                write!(f, " ELSE {otherwise} END")
            }
            PlanExpr::Function { name, arguments } if name == "like" && arguments.len() == 2 => {
                write!(f, "{} like {}", Operand(&arguments[0]), Operand(&arguments[1]))
            }
            PlanExpr::Function { name, arguments } => {
                write!(f, "{name}(")?;
                list(f, arguments, ",")?;
                f.write_str(")")
            }
            PlanExpr::Aggregate { name, is_distinct, arguments } => {
                write!(f, "{name}({}", if *is_distinct { "DISTINCT " } else { "" })?;
                match arguments.is_empty() {
                    true => f.write_str("*")?,
                    false => list(f, arguments, ",")?,
                }
                f.write_str(")")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_operands_keep_their_parentheses() {
        let column = |name: &str| PlanExpr::Column(PlanColumn::made(name));
        let one = || PlanExpr::Constant("1".to_owned());
        let sum = PlanExpr::Arithmetic { sign: '+', left: Box::new(column("a")), right: Box::new(one()) };
        let product = PlanExpr::Arithmetic { sign: '*', left: Box::new(sum), right: Box::new(column("b]")) };
        let less = PlanExpr::compare(CompareOp::Less, product, one());
        let either = PlanExpr::Logical { all: false, operands: vec![less.clone(), PlanExpr::Not(Box::new(less))] };
        let both = PlanExpr::conjunction(vec![either, column("c")]).expect("there are two");
        assert_eq!(both.to_string(), "((([a]+1)*[b]]])<1 OR NOT ((([a]+1)*[b]]])<1)) AND [c]");
    }
}
