//! Constraints of tables: checked when they are defined.

use hobt_tsql::ast::{Expression, Literal};
use hobt_types::SqlType;

use super::super::failure::Failure;
use super::super::run::Interpreter;
use crate::binder::{BindOptions, Binder};

impl Interpreter<'_> {
    /// Refuses a DEFAULT that cannot be.
    ///
    /// # Errors
    /// 128, 206, 257, 302, 1046 and those of its names.
    pub(super) fn check_default(&self, value: &Expression, sql_type: SqlType) -> Result<(), Failure> {
        let run = self.new_run(None)?;
        let names = self.names(&run);
        let checked = Binder::new(&names, BindOptions::default()).check_default(value, sql_type);
        let ended = run.end(true);
        checked.map_err(Failure::of_binding)?;
        Ok(ended?)
    }
}

/// The text of a DEFAULT as the catalog keeps and shows it: in parentheses, numbers in two pairs of them.
pub(super) fn default_definition(value: &Expression) -> String {
    let number = match value {
        Expression::Unary { operand, .. } => operand,
        other => other,
    };
    let is_text = |literal: &Literal| matches!(literal, Literal::String { .. } | Literal::Null);
    match number {
        Expression::Literal { value: literal, .. } if !is_text(literal) => format!("(({value}))"),
        _ => format!("({value})"),
    }
}
