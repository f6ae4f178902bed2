//! A statement with its plan, between executions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use hobt_instruments::schedule::Mutex;
use hobt_tsql::ast::Span;

use super::standing::{PlanSettings, SeenVariable, Standing};
use hobt_binder::{parameter_value, variable_of};
use hobt_planner::KeptQuery;
use hobt_table::{ParameterValues, is_inner};
use hobt_types::TypedValue;

/// After so many plans for other values that were others, no further one is compared.
const DIFFERED_MAX: u8 = 8;

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
    /// Whether it serves other values of its parameters too.
    pub(super) general: General,
}

/// For which parameters a plan that was made for other values of them was the same but for these.
#[derive(Default, Debug)]
pub(crate) struct General {
    proven: Mutex<BTreeSet<String>>,
    /// How often another plan was another one.
    differed: AtomicU8,
}

impl General {
    /// Whether it serves other values of all these parameters.
    pub(super) fn is_for(&self, values: &ParameterValues) -> bool {
        values.is_empty() || {
            let proven = self.proven.lock();
            values.keys().all(|name| proven.contains(name))
        }
    }

    /// Whether it serves other values of any parameter.
    pub(super) fn is_for_some(&self) -> bool {
        !self.proven.lock().is_empty()
    }

    /// Whether a plan for other values is worth comparing.
    pub(super) fn is_open(&self) -> bool {
        self.differed.load(Ordering::Relaxed) < DIFFERED_MAX
    }

    /// Notes a plan for other values of these parameters.
    pub(super) fn note(&self, names: &[String], is_alike: bool) {
        match is_alike {
            true => self.proven.lock().extend(names.iter().cloned()),
            false => _ = self.differed.fetch_add(1, Ordering::Relaxed),
        }
    }
}

impl KeptStatement {
    /// The values of the literals for a variable that has another value now. `None` if the plan is not for that value.
    pub(super) fn values_of(&self, seen: &SeenVariable, now: &TypedValue) -> Option<ParameterValues> {
        let is_typed = seen.value.as_ref().is_some_and(|before| before.sql_type == now.sql_type);
        let names = self.query.parameters().keys().filter(|name| variable_of(name) == seen.name);
        let value = |name: &String| Some((name.clone(), parameter_value(name, now).filter(is_inner)?));
        let values: ParameterValues = names.map(value).collect::<Option<_>>()?;
        // Where it is read otherwise, it is no parameter.
        (is_typed && !values.is_empty() && self.query.reads_of(&seen.name) == seen.reads).then_some(values)
    }

    /// The memory that it takes, in bytes, estimated: its operators, its text, and the constants of both the text and
    /// the variables.
    pub(super) fn bytes(&self) -> u64 {
        let constants = u64::from(self.span.end - self.span.start) + self.standing.bytes_of_variables();
        self.query.bytes() + self.text.len() as u64 + COPIES_OF_CONSTANTS * constants
    }

    /// Whether it makes `other` superfluous.
    pub(super) fn replaces(&self, other: &KeptStatement) -> bool {
        self.span == other.span
            && self.text == other.text
            && self.settings == other.settings
            && self.standing.has_values_of(&other.standing)
    }
}
