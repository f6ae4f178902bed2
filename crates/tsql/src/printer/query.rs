//! Queries.

use std::fmt::{Display, Formatter, Result};

use super::{commas, flag, list, optional, separated};
use crate::ast::*;

/// Prints `WITH …`, or nothing if there are no common table expressions.
pub(super) fn with(f: &mut Formatter<'_>, expressions: &[CommonTableExpression]) -> Result {
    if expressions.is_empty() {
        return Ok(());
    }
    f.write_str("WITH ")?;
    commas(f, expressions)?;
    f.write_str(" ")
}

impl Display for CommonTableExpression {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.name)?;
        list(f, " ", &self.columns)?;
        write!(f, " AS ({})", self.query)
    }
}

impl Display for Query {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        with(f, &self.with)?;
        write!(f, "{}", self.body)?;
        if !self.order_by.is_empty() {
            f.write_str(" ORDER BY ")?;
            commas(f, &self.order_by)?;
        }
        if let Some(offset) = &self.offset {
            write!(f, " OFFSET {} ROWS", offset.skip)?;
            if let Some(fetch) = &offset.fetch {
                write!(f, " FETCH NEXT {fetch} ROWS ONLY")?;
            }
        }
        Ok(())
    }
}

impl Display for QueryBody {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let operand = |f: &mut Formatter<'_>, body: &QueryBody, tight: bool| match body {
            QueryBody::SetOperation { rest, .. } if tight || !is_intersection(rest) => write!(f, "({body})"),
            _ => write!(f, "{body}"),
        };
        match self {
            QueryBody::Select(select) => write!(f, "{select}"),
            QueryBody::SetOperation { first, rest } => {
                let tight = is_intersection(rest);
                operand(f, first, tight)?;
                for step in rest {
                    f.write_str(match step.operator {
                        SetOperator::Union => " UNION ",
                        SetOperator::UnionAll => " UNION ALL ",
                        SetOperator::Except => " EXCEPT ",
                        SetOperator::Intersect => " INTERSECT ",
                    })?;
                    operand(f, &step.operand, tight)?;
                }
                Ok(())
            }
        }
    }
}

fn is_intersection(rest: &[SetOperationStep]) -> bool {
    rest.iter().all(|step| step.operator == SetOperator::Intersect)
}

impl Display for Select {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("SELECT ")?;
        flag(f, self.distinct, "DISTINCT ")?;
        if let Some(top) = &self.top {
            write!(f, "{top} ")?;
        }
        commas(f, &self.items)?;
        if let Some(into) = &self.into {
            write!(f, " INTO {}", into.name)?;
            optional(f, " ON ", &into.filegroup)?;
        }
        from(f, &self.from)?;
        optional(f, " WHERE ", &self.condition)?;
        if let Some(group_by) = &self.group_by {
            f.write_str(" GROUP BY ")?;
            commas(f, &group_by.items)?;
            match group_by.modifier {
                Some(GroupByModifier::Rollup) => f.write_str(" WITH ROLLUP")?,
                Some(GroupByModifier::Cube) => f.write_str(" WITH CUBE")?,
                None => {}
            }
        }
        optional(f, " HAVING ", &self.having)?;
        for (place, named) in self.windows.iter().enumerate() {
            let before = if place == 0 { " WINDOW " } else { ", " };
            write!(f, "{before}{} AS {}", named.name, named.window)?;
        }
        Ok(())
    }
}

/// Prints `FROM …`, or nothing if there are no sources.
pub(super) fn from(f: &mut Formatter<'_>, sources: &[TableSource]) -> Result {
    if sources.is_empty() {
        return Ok(());
    }
    f.write_str(" FROM ")?;
    commas(f, sources)
}

impl Display for Top {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "TOP ({})", self.count)?;
        flag(f, self.percent, " PERCENT")?;
        flag(f, self.with_ties, " WITH TIES")
    }
}

impl Display for SelectItem {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            SelectItem::Wildcard { qualifier, .. } => {
                optional(f, "", qualifier)?;
                f.write_str(if qualifier.is_some() { ".*" } else { "*" })
            }
            SelectItem::Value { value, alias } => {
                write!(f, "{value}")?;
                optional(f, " AS ", alias)
            }
            SelectItem::Assign { variable, operator, value } => write!(f, "{variable} {} {value}", operator.symbol()),
        }
    }
}

impl AssignmentOperator {
    /// The operator as written.
    pub fn symbol(self) -> &'static str {
        match self {
            AssignmentOperator::Assign => "=",
            AssignmentOperator::Add => "+=",
            AssignmentOperator::Subtract => "-=",
            AssignmentOperator::Multiply => "*=",
            AssignmentOperator::Divide => "/=",
            AssignmentOperator::Modulo => "%=",
            AssignmentOperator::BitAnd => "&=",
            AssignmentOperator::BitOr => "|=",
            AssignmentOperator::BitXor => "^=",
        }
    }
}

impl Display for GroupingItem {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let (word, items) = match self {
            GroupingItem::Value(value) => return write!(f, "{value}"),
            GroupingItem::Composite(values) => {
                f.write_str("(")?;
                commas(f, values)?;
                return f.write_str(")");
            }
            GroupingItem::Rollup(items) => ("ROLLUP ", items),
            GroupingItem::Cube(items) => ("CUBE ", items),
            GroupingItem::Sets(items) => ("GROUPING SETS ", items),
        };
        list(f, word, items)
    }
}

impl Display for TableSource {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            TableSource::Table(table) => {
                write!(f, "{}", table.name)?;
                optional(f, " AS ", &table.alias)?;
                optional(f, " ", &table.sample)?;
                list(f, " WITH ", &table.hints)
            }
            TableSource::Function { name, arguments, alias, .. } => {
                write!(f, "{name}(")?;
                commas(f, arguments)?;
                f.write_str(")")?;
                optional(f, " AS ", alias)
            }
            TableSource::Files(files) => write!(f, "{files}"),
            TableSource::Derived { query, alias, .. } => write!(f, "({query}) AS {alias}"),
            TableSource::Values { rows, alias, .. } => {
                f.write_str("(VALUES ")?;
                value_rows(f, rows)?;
                write!(f, ") AS {alias}")
            }
            TableSource::Variable { name, alias } => {
                write!(f, "{name}")?;
                optional(f, " AS ", alias)
            }
            TableSource::Joined { first, rest } => {
                joined_operand(f, first)?;
                rest.iter().try_for_each(|step| join_step(f, step))
            }
        }
    }
}

fn joined_operand(f: &mut Formatter<'_>, source: &TableSource) -> Result {
    match source {
        TableSource::Joined { .. } => write!(f, "({source})"),
        _ => write!(f, "{source}"),
    }
}

fn join_step(f: &mut Formatter<'_>, step: &JoinStep) -> Result {
    f.write_str(match step.kind {
        JoinKind::Inner => " INNER",
        JoinKind::Left => " LEFT",
        JoinKind::Right => " RIGHT",
        JoinKind::Full => " FULL",
        JoinKind::Cross | JoinKind::CrossApply => " CROSS",
        JoinKind::OuterApply => " OUTER",
    })?;
    if let Some(hint) = step.hint {
        write!(f, " {}", hint.word())?;
    }
    f.write_str(match step.kind {
        JoinKind::CrossApply | JoinKind::OuterApply => " APPLY ",
        _ => " JOIN ",
    })?;
    joined_operand(f, &step.source)?;
    optional(f, " ON ", &step.on)
}

/// Prints `(x, …), (y, …)`.
pub(super) fn value_rows(f: &mut Formatter<'_>, rows: &[Vec<Expression>]) -> Result {
    for (index, row) in rows.iter().enumerate() {
        list(f, if index > 0 { ", " } else { "" }, row)?;
    }
    Ok(())
}

impl Display for TableAlias {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.name)?;
        list(f, "", &self.columns)
    }
}

impl Display for TableSample {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "TABLESAMPLE SYSTEM ({} {})", self.amount, if self.rows { "ROWS" } else { "PERCENT" })?;
        match &self.repeatable {
            Some(seed) => write!(f, " REPEATABLE ({seed})"),
            None => Ok(()),
        }
    }
}

/// Prints ` OPTION (…)`, or nothing if there are no hints.
pub(super) fn options(f: &mut Formatter<'_>, hints: &[QueryHint]) -> Result {
    if hints.is_empty() {
        return Ok(());
    }
    f.write_str(" OPTION (")?;
    separated(f, hints, ", ")?;
    f.write_str(")")
}
