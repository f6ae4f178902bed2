//! Expressions and conditions.

use std::fmt::{Display, Formatter, Result};

use super::{commas, flag, list, optional};
use crate::ast::*;

impl ArithmeticOperator {
    /// The operator as written.
    pub fn symbol(self) -> &'static str {
        match self {
            ArithmeticOperator::Add => "+",
            ArithmeticOperator::Subtract => "-",
            ArithmeticOperator::Multiply => "*",
            ArithmeticOperator::Divide => "/",
            ArithmeticOperator::Modulo => "%",
            ArithmeticOperator::BitAnd => "&",
            ArithmeticOperator::BitOr => "|",
            ArithmeticOperator::BitXor => "^",
        }
    }

    fn is_multiplicative(self) -> bool {
        matches!(self, ArithmeticOperator::Multiply | ArithmeticOperator::Divide | ArithmeticOperator::Modulo)
    }
}

impl ComparisonOperator {
    /// The operator as written.
    pub fn symbol(self) -> &'static str {
        match self {
            ComparisonOperator::Equal => "=",
            ComparisonOperator::NotEqual => "<>",
            ComparisonOperator::Less => "<",
            ComparisonOperator::LessOrEqual => "<=",
            ComparisonOperator::Greater => ">",
            ComparisonOperator::GreaterOrEqual => ">=",
        }
    }
}

/// The precedence of an expression: 1 for sums, 2 for signs, 3 for products, 4 for `~`, 5 for `COLLATE`, 6 for
/// expressions that never need parentheses.
fn level(expression: &Expression) -> u8 {
    match expression {
        Expression::Arithmetic { rest, .. } if rest.iter().all(|step| step.operator.is_multiplicative()) => 3,
        Expression::Arithmetic { .. } => 1,
        Expression::Unary { operator: UnaryOperator::BitNot, .. } => 4,
        Expression::Unary { .. } => 2,
        Expression::Collate { .. } => 5,
        // A negative number, which only a program creates, is parsed as a sign and a number.
        Expression::Literal { value: Literal::Integer(value), .. } if *value < 0 => 2,
        _ => 6,
    }
}

/// Prints `expression`, in parentheses if its precedence is below `least`.
fn operand(f: &mut Formatter<'_>, expression: &Expression, least: u8) -> Result {
    if level(expression) < least { write!(f, "({expression})") } else { write!(f, "{expression}") }
}

impl Display for Expression {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Expression::Literal { value, .. } => write!(f, "{value}"),
            Expression::Variable { name } | Expression::GlobalVariable { name } => write!(f, "{name}"),
            Expression::Column { name } => write!(f, "{name}"),
            Expression::Unary { operator, operand: of, .. } => {
                let (symbol, least) = match operator {
                    UnaryOperator::Plus => ("+", 2),
                    UnaryOperator::Minus => ("-", 2),
                    UnaryOperator::BitNot => ("~", 4),
                };
                f.write_str(symbol)?;
                // Two minus signs in a row begin a comment.
                flag(f, level(of) == 2, " ")?;
                operand(f, of, least)
            }
            Expression::Arithmetic { first, rest } => {
                let least = if level(self) == 3 { 4 } else { 2 };
                operand(f, first, least)?;
                for step in rest {
                    write!(f, " {} ", step.operator.symbol())?;
                    operand(f, &step.operand, least)?;
                }
                Ok(())
            }
            Expression::Function { call } => write!(f, "{call}"),
            Expression::Niladic { function, .. } => f.write_str(match function {
                NiladicFunction::CurrentDate => "CURRENT_DATE",
                NiladicFunction::CurrentTimestamp => "CURRENT_TIMESTAMP",
                NiladicFunction::CurrentUser => "CURRENT_USER",
                NiladicFunction::SessionUser => "SESSION_USER",
                NiladicFunction::SystemUser => "SYSTEM_USER",
                NiladicFunction::User => "USER",
            }),
            Expression::Subquery { query, .. } => write!(f, "({query})"),
            Expression::Collate { operand: of, collation } => {
                operand(f, of, 6)?;
                write!(f, " COLLATE {collation}")
            }
            Expression::PartitionNumber { call } => {
                optional(f, "", &call.database)?;
                flag(f, call.database.is_some(), ".")?;
                write!(f, "$PARTITION.{}", call.function)?;
                list(f, "", &call.arguments)
            }
            Expression::NextValue { sequence, over, .. } => {
                write!(f, "NEXT VALUE FOR {sequence}")?;
                optional(f, " OVER ", over)
            }
            Expression::Default { .. } => f.write_str("DEFAULT"),
            _ => special_form(f, self),
        }
    }
}

/// Prints the forms that look like calls or blocks.
fn special_form(f: &mut Formatter<'_>, expression: &Expression) -> Result {
    match expression {
        Expression::Cast { operand, data_type, attempt, .. } => {
            flag(f, *attempt, "TRY_")?;
            write!(f, "CAST({operand} AS {data_type})")
        }
        Expression::Convert { data_type, operand, style, attempt, .. } => {
            flag(f, *attempt, "TRY_")?;
            write!(f, "CONVERT({data_type}, {operand}")?;
            optional(f, ", ", style)?;
            f.write_str(")")
        }
        Expression::SimpleCase { operand, branches, otherwise, .. } => {
            write!(f, "CASE {operand}")?;
            branches.iter().try_for_each(|branch| write!(f, " WHEN {} THEN {}", branch.when, branch.then))?;
            optional(f, " ELSE ", otherwise)?;
            f.write_str(" END")
        }
        Expression::SearchedCase { branches, otherwise, .. } => {
            f.write_str("CASE")?;
            branches.iter().try_for_each(|branch| write!(f, " WHEN {} THEN {}", branch.when, branch.then))?;
            optional(f, " ELSE ", otherwise)?;
            f.write_str(" END")
        }
        Expression::Iif { condition, then, otherwise, .. } => write!(f, "IIF({condition}, {then}, {otherwise})"),
        Expression::Coalesce { arguments, .. } => list(f, "COALESCE", arguments),
        Expression::NullIf { left, right, .. } => write!(f, "NULLIF({left}, {right})"),
        _ => Ok(()),
    }
}

impl Display for ColumnName {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        optional(f, "", &self.qualifier)?;
        flag(f, self.qualifier.is_some(), ".")?;
        write!(f, "{}", self.name)
    }
}

impl Display for FunctionCall {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.name.as_simple() {
            // These words are reserved, but are written without quotes before a parenthesis.
            Some(name) if !name.quoted && ["LEFT", "RIGHT", "IDENTITY"].iter().any(|word| name.is(word)) => {
                f.write_str(&name.value)?;
            }
            _ => write!(f, "{}", self.name)?,
        }
        match &self.arguments {
            FunctionArguments::Star => f.write_str("(*)")?,
            FunctionArguments::List { values, .. } if values.len() == 2 && self.name.name.is("TRIM") => {
                write!(f, "({} FROM {})", values[1], values[0])?;
            }
            FunctionArguments::List { distinct, values } => {
                f.write_str(if *distinct { "(DISTINCT " } else { "(" })?;
                commas(f, values)?;
                f.write_str(")")?;
            }
        }
        match self.ignore_nulls {
            Some(true) => f.write_str(" IGNORE NULLS")?,
            Some(false) => f.write_str(" RESPECT NULLS")?,
            None => {}
        }
        if !self.within_group.is_empty() {
            f.write_str(" WITHIN GROUP (ORDER BY ")?;
            commas(f, &self.within_group)?;
            f.write_str(")")?;
        }
        optional(f, " OVER ", &self.over)
    }
}

impl Display for Window {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("(")?;
        let mut between = "";
        if let Some(base) = &self.base {
            write!(f, "{base}")?;
            between = " ";
        }
        if !self.partition_by.is_empty() {
            write!(f, "{between}PARTITION BY ")?;
            commas(f, &self.partition_by)?;
            between = " ";
        }
        if !self.order_by.is_empty() {
            write!(f, "{between}ORDER BY ")?;
            commas(f, &self.order_by)?;
            between = " ";
        }
        optional(f, between, &self.frame)?;
        f.write_str(")")
    }
}

impl Display for WindowFrame {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self.unit {
            FrameUnit::Rows => "ROWS ",
            FrameUnit::Range => "RANGE ",
        })?;
        match &self.end {
            Some(end) => write!(f, "BETWEEN {} AND {end}", self.start),
            None => write!(f, "{}", self.start),
        }
    }
}

impl Display for FrameBound {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            FrameBound::UnboundedPreceding => f.write_str("UNBOUNDED PRECEDING"),
            FrameBound::Preceding(count) => write!(f, "{count} PRECEDING"),
            FrameBound::CurrentRow => f.write_str("CURRENT ROW"),
            FrameBound::Following(count) => write!(f, "{count} FOLLOWING"),
            FrameBound::UnboundedFollowing => f.write_str("UNBOUNDED FOLLOWING"),
        }
    }
}

impl Display for OrderItem {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.value)?;
        flag(f, self.descending, " DESC")
    }
}

/// Prints a condition inside another one, in parentheses if it is a chain.
fn inner(f: &mut Formatter<'_>, condition: &Condition) -> Result {
    match condition {
        Condition::Or { .. } | Condition::And { .. } => write!(f, "({condition})"),
        _ => write!(f, "{condition}"),
    }
}

impl Display for Condition {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Condition::Or { operands } => {
                for (index, operand) in operands.iter().enumerate() {
                    flag(f, index > 0, " OR ")?;
                    match operand {
                        Condition::And { .. } => write!(f, "{operand}")?,
                        _ => inner(f, operand)?,
                    }
                }
                Ok(())
            }
            Condition::And { operands } => {
                for (index, operand) in operands.iter().enumerate() {
                    flag(f, index > 0, " AND ")?;
                    inner(f, operand)?;
                }
                Ok(())
            }
            Condition::Not { operand, .. } => {
                f.write_str("NOT ")?;
                inner(f, operand)
            }
            Condition::Exists { query, .. } => write!(f, "EXISTS ({query})"),
            _ => predicate(f, self),
        }
    }
}

fn predicate(f: &mut Formatter<'_>, condition: &Condition) -> Result {
    let not = |negated: &bool| if *negated { " NOT" } else { "" };
    match condition {
        Condition::Comparison { left, operator, right, .. } => write!(f, "{left} {} {right}", operator.symbol()),
        Condition::Quantified { left, operator, quantifier, query, .. } => {
            let word = match quantifier {
                Quantifier::Any => "ANY",
                Quantifier::All => "ALL",
            };
            write!(f, "{left} {} {word} ({query})", operator.symbol())
        }
        Condition::Between { operand, low, high, negated, .. } => {
            write!(f, "{operand}{} BETWEEN {low} AND {high}", not(negated))
        }
        Condition::InList { operand, items, negated, .. } => {
            write!(f, "{operand}{} IN ", not(negated))?;
            list(f, "", items)
        }
        Condition::InQuery { operand, query, negated, .. } => write!(f, "{operand}{} IN ({query})", not(negated)),
        Condition::Like { operand, pattern, escape, negated, .. } => {
            write!(f, "{operand}{} LIKE {pattern}", not(negated))?;
            optional(f, " ESCAPE ", escape)
        }
        Condition::IsNull { operand, negated, .. } => write!(f, "{operand} IS{} NULL", not(negated)),
        Condition::IsDistinct { left, right, negated, .. } => {
            write!(f, "{left} IS{} DISTINCT FROM {right}", not(negated))
        }
        _ => Ok(()),
    }
}
