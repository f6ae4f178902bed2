//! The results of binding: expressions with their types, and queries with their columns.

use std::sync::Arc;

use arrow::array::Array;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, LogicalPlan};
use hobt_base::{Position, SqlError, errors};
use hobt_functions::value_to_array;
use hobt_tsql::ast::SelectInto;
use hobt_types::{Collation, SqlType, Value};

use super::parameters;
use hobt_table::{Assumed, marked, parameter};
use hobt_udf::sql_error_of;

/// The precedence of an expression's collation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Coercibility {
    /// Constants, variables and functions: any other collation wins.
    Default,
    /// Columns.
    Implicit,
    /// `COLLATE`.
    Explicit,
}

/// The collation of a text expression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExprCollation {
    /// The collation.
    pub collation: Collation,
    /// Its precedence.
    pub coercibility: Coercibility,
}

impl Default for ExprCollation {
    fn default() -> ExprCollation {
        ExprCollation { collation: Collation::default(), coercibility: Coercibility::Default }
    }
}

impl ExprCollation {
    /// A column's collation.
    pub fn of_column(collation: Option<Collation>) -> ExprCollation {
        ExprCollation { collation: collation.unwrap_or_default(), coercibility: Coercibility::Implicit }
    }

    /// The collation of an operation on both.
    ///
    /// # Errors
    /// 468 if both have the same precedence and different collations.
    pub fn meet(self, other: ExprCollation, operation: &str) -> Result<ExprCollation, SqlError> {
        if self.coercibility != other.coercibility {
            return Ok(if self.coercibility > other.coercibility { self } else { other });
        }
        if self.collation == other.collation || self.coercibility == Coercibility::Default {
            return Ok(self);
        }
        Err(errors::COLLATION_CONFLICT.with([&other.collation.name(), &self.collation.name(), &operation]))
    }
}

/// The kind of a constant in the text, if that affects its type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Constant {
    /// Not a constant, or one of no special kind.
    No,
    /// The word `NULL`: it takes any type.
    Null,
    /// An integer: combined with a decimal, its precision is the number of its digits.
    Integer,
}

/// An expression with its type and all properties that T-SQL defines.
#[derive(Clone, Debug)]
pub struct BoundExpr {
    /// The value, in the carrier of `sql_type`.
    pub expr: Expr,
    /// Its type.
    pub sql_type: SqlType,
    /// Whether it can be NULL.
    pub nullable: bool,
    /// Its collation; meaningless if `sql_type` is not text.
    pub collation: ExprCollation,
    /// Its value, if it is known.
    pub literal: Option<Value>,
    /// Whether the text alone determines that value, so that an expression over it is constant too.
    pub foldable: bool,
    /// What estimates assume instead of its value.
    pub assumed: Option<Assumed>,
    /// The reading of a variable whose value it is, if the plan may be made for other values of it.
    pub variable: Option<Arc<str>>,
    /// The kind of constant that it is in the text.
    pub constant: Constant,
    /// Its position in the text.
    pub position: Position,
}

impl BoundExpr {
    /// An expression whose value is not known.
    pub fn new(expr: Expr, sql_type: SqlType, nullable: bool, position: Position) -> BoundExpr {
        BoundExpr {
            expr,
            sql_type,
            nullable,
            collation: ExprCollation::default(),
            literal: None,
            foldable: false,
            assumed: None,
            variable: None,
            constant: Constant::No,
            position,
        }
    }

    /// The value of a variable, for other values of which the plan may be made too.
    pub(crate) fn of_variable(self, name: &str) -> BoundExpr {
        let name: Arc<str> = parameters::read_name(name, self.position).into();
        BoundExpr { expr: parameter(self.expr, &name), variable: Some(name), ..self }
    }

    /// A known value for which estimates assume something else.
    ///
    /// # Errors
    /// An internal error if the assumed value is not of its type.
    pub(crate) fn assuming(mut self, assumed: Assumed) -> Result<BoundExpr, SqlError> {
        if let Expr::Literal(value, _) = self.expr {
            let other = match &assumed {
                Assumed::Unknown => None,
                Assumed::Value(value) => Some(scalar_of(value, self.sql_type)?),
            };
            self.expr = marked(value, other.as_ref());
            self.assumed = Some(assumed);
        }
        Ok(self)
    }

    /// A known value.
    ///
    /// # Errors
    /// An internal error if the value is not of the type.
    pub fn literal(value: Value, sql_type: SqlType, position: Position) -> Result<BoundExpr, SqlError> {
        let expr = Expr::Literal(scalar_of(&value, sql_type)?, None);
        let mut bound = BoundExpr::new(expr, sql_type, value.is_null(), position);
        bound.literal = Some(value);
        Ok(bound)
    }

    /// The keyword `NULL`.
    ///
    /// # Errors
    /// None in practice, as [`BoundExpr::literal`].
    pub fn null(position: Position) -> Result<BoundExpr, SqlError> {
        let mut bound = BoundExpr::literal(Value::Null, SqlType::Int, position)?;
        bound.constant = Constant::Null;
        Ok(bound)
    }

    /// Whether this is the keyword `NULL`, which takes any type.
    pub fn is_untyped_null(&self) -> bool {
        self.constant == Constant::Null
    }

    /// Sets the collation.
    #[must_use]
    pub fn with_collation(mut self, collation: ExprCollation) -> BoundExpr {
        self.collation = collation;
        self
    }
}

/// A value as DataFusion's constant, in its type's carrier.
///
/// # Errors
/// An internal error if the value is not of the type.
pub fn scalar_of(value: &Value, sql_type: SqlType) -> Result<ScalarValue, SqlError> {
    let array = value_to_array(value, sql_type)?;
    debug_assert_eq!(array.len(), 1);
    ScalarValue::try_from_array(&array, 0).map_err(sql_error_of)
}

/// A column of a result.
#[derive(Clone, PartialEq, Debug)]
pub struct ResultColumn {
    /// Its name; an expression without an alias has none.
    pub name: Option<String>,
    /// Its type.
    pub sql_type: SqlType,
    /// Whether it can be NULL.
    pub nullable: bool,
    /// The collation of text.
    pub collation: Option<Collation>,
}

/// A query that is ready to be optimised and run.
#[derive(Clone, Debug)]
pub struct BoundQuery {
    /// The plan; its columns are `columns` in their carriers, under unique internal names.
    pub plan: LogicalPlan,
    /// The columns as the user sees them.
    pub columns: Vec<ResultColumn>,
    /// `INTO`.
    pub into: Option<SelectInto>,
    /// Whether the plan may be used for another execution of the text with these values of its variables: no date,
    /// system function or global variable was folded into it.
    pub is_cacheable: bool,
}
