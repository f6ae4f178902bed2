//! A statement with its plan, between executions.

use std::sync::Arc;

use hobt_tsql::ast::Span;

use super::standing::{PlanSettings, Standing};
use hobt_planner::KeptQuery;

/// Constants are in the plan, in its conditions, in estimates and in ranges.
const COPIES_OF_CONSTANTS: u64 = 4;

/// A statement with its plan, between executions.
#[derive(Debug)]
pub(crate) struct KeptStatement {
    pub(super) text: Arc<str>,
    pub(super) span: Span,
    pub(super) settings: PlanSettings,
    pub(super) standing: Standing,
    pub(super) query: KeptQuery,
}

impl KeptStatement {
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
