//! A statement with its plan, between executions.

use std::sync::{Arc, OnceLock};

use hobt_tsql::ast::Span;

use super::standing::{PlanSettings, SeenVariable, Standing};
use hobt_binder::{parameter_value, variable_of};
use hobt_planner::KeptQuery;
use hobt_table::{ParameterValues, is_inner};
use hobt_types::TypedValue;

/// Constants are in the plan, in its conditions, in estimates and in ranges.
const COPIES_OF_CONSTANTS: u64 = 4;

/// A statement with its plan, between executions.
#[derive(Debug)]
pub(crate) struct KeptStatement {
    pub(super) text: Arc<str>,
    pub(super) span: Span,
    pub(super) settings: PlanSettings,
    pub(super) standing: Standing,
    pub(crate) query: KeptQuery,
    /// Whether a plan that was made for other values of its parameters was this one but for these. Until one is made,
    /// nothing is known.
    pub(super) is_general: OnceLock<bool>,
}

impl KeptStatement {
    /// The values of the literals for a variable that has another value now. `None` if the plan is not for that value.
    pub(super) fn values_of(&self, seen: &SeenVariable, now: &TypedValue) -> Option<ParameterValues> {
        let is_typed = seen.value.as_ref().is_some_and(|before| before.sql_type == now.sql_type);
        let variable = seen.name.to_lowercase();
        let names = self.query.parameters().keys().filter(|name| variable_of(name) == variable);
        let value = |name: &String| Some((name.clone(), parameter_value(name, now).filter(is_inner)?));
        let values: ParameterValues = names.map(value).collect::<Option<_>>()?;
        // Where it is read otherwise, it is no parameter.
        (is_typed && !values.is_empty() && self.query.reads_of(&variable) == seen.reads).then_some(values)
    }

    /// The memory that it takes, in bytes, estimated: its operators, its text, and the constants of both the text and
    /// the variables.
    pub(super) fn bytes(&self) -> u64 {
        let constants = u64::from(self.span.end - self.span.start) + self.standing.bytes_of_variables();
        self.query.bytes() + self.text.len() as u64 + COPIES_OF_CONSTANTS * constants
    }

    /// Whether it makes `other` superfluous.
    pub(super) fn replaces(&self, other: &KeptStatement) -> bool {
        self.settings == other.settings && self.standing.has_values_of(&other.standing)
    }
}
