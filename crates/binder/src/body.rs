//! The body of a query that is bound.

use super::assignment::Assignments;
use super::bound::{BoundExpr, Coercibility, Constant, ExprCollation, ResultColumn};
use super::scope::SourceName;
use super::stored::Stored;
use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlan};
use hobt_base::Position;
use hobt_tsql::ast::SelectInto;
use hobt_types::{SqlType, Value};

/// A bound query.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) plan: LogicalPlan,
    pub(super) columns: Vec<BodyColumn>,
    /// Whether it returns at most one row.
    pub(super) is_single_row: bool,
    pub(super) into: Option<SelectInto>,
    pub(super) assignments: Assignments,
    /// The position of the first assignment to a variable.
    pub(super) assigns: Option<Position>,
    /// The stored rows behind its rows, if [`Names::places`] asks for them.
    pub(super) stored: Stored,
    /// For a side of a set operator, and for the first side of the result: the source columns that its own columns are.
    pub(super) sources: Vec<Option<SourceName>>,
}

/// A column of a bound query.
#[derive(Clone, Debug)]
pub(super) struct BodyColumn {
    /// The name as the user knows it.
    pub(super) name: Option<String>,
    /// The column in the plan.
    pub(super) column: Column,
    pub(super) sql_type: SqlType,
    pub(super) nullable: bool,
    pub(super) collation: ExprCollation,
    /// Whether it is the keyword `NULL`, which takes any type.
    pub(super) untyped_null: bool,
    /// Its value, if that is known and the same in every row.
    pub(super) literal: Option<Value>,
}

/// The context in which a query is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum QueryUse {
    /// The rows go to a client, a variable or a table.
    Statement,
    /// A subquery, derived table, common table expression, view or function.
    Nested,
    /// A side of a set operator.
    Operand,
    /// Only whether there are rows.
    Exists,
}

impl BodyColumn {
    /// The column as an expression over the query's plan.
    pub(super) fn bound(&self, position: Position) -> BoundExpr {
        let mut bound = BoundExpr::new(Expr::Column(self.column.clone()), self.sql_type, self.nullable, position)
            .with_collation(self.collation);
        if self.untyped_null {
            bound.constant = Constant::Null;
        }
        bound
    }

    /// The column as the user sees it.
    pub(super) fn result(&self) -> ResultColumn {
        ResultColumn {
            name: self.name.clone(),
            sql_type: self.sql_type,
            nullable: self.nullable,
            collation: self.sql_type.is_text().then_some(self.collation.collation),
        }
    }

    /// The collation of the column in a query that reads it.
    pub(super) fn source_collation(&self) -> ExprCollation {
        ExprCollation { coercibility: self.collation.coercibility.min(Coercibility::Implicit), ..self.collation }
    }
}
