//! Under which text the store knows a statement: its own, or one with parameters in place of its constants.
//!
//! Statements of a batch that find a row by its key are parameterised (`PARAMETERIZATION SIMPLE`): once one of a form
//! has run, others of that form run without a plan, whatever their constants are, and are one entry. With
//! `PARAMETERIZATION FORCED` all statements of batches are entered so. Their plans are still made for the constants.

use std::sync::Arc;

use hobt_tsql::ast::Span;

use super::store::{Identity, PlanEntry, text_hash};
use crate::interpreter::Interpreter;

/// Longer statements are not parameterised: their constants are data, and their forms come once.
const FORM_BYTES_MAX: u32 = 16 << 10;

impl Interpreter<'_> {
    /// The identity of the running statement.
    pub(super) fn identity(&self) -> Option<Identity> {
        let forced = self.state.database.options().is_parameterization_forced;
        forced.then(|| self.parameterized_identity()).flatten().or_else(|| self.identity_by_text())
    }

    fn identity_by_text(&self) -> Option<Identity> {
        let (span, _) = self.plans.current.statement?;
        let under = (self.state.database.id(), self.state.procedure, self.state.options.bits());
        Some(Identity { text: Arc::clone(&self.text), hash: self.hash_of_text(), span, under, is_parameterized: false })
    }

    /// The identity of the running statement by its parameterised text. `None` in a procedure, and for a statement
    /// without constants or with variables.
    fn parameterized_identity(&self) -> Option<Identity> {
        let (span, _) = self.plans.current.statement.filter(|_| self.state.procedure == 0)?;
        if span.end - span.start > FORM_BYTES_MAX {
            return None;
        }
        let make = || {
            let form = hobt_tsql::parameterized(self.text_of(span))?;
            let end = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
            let span = Span { start: end(form.start), end: end(form.text.len()), ..span };
            Some((Arc::from(form.text), span))
        };
        let (text, span): (Arc<str>, Span) = self.plans.current.form.get_or_init(make).clone()?;
        let (hash, under) = (text_hash(&text), (self.state.database.id(), 0, self.state.options.bits()));
        Some(Identity { text, hash, span, under, is_parameterized: true })
    }

    /// The store entry of the running statement, if it has run before, maybe with other constants.
    pub(crate) fn known_entry(&self) -> Option<Arc<PlanEntry>> {
        let store = &self.environment.plans;
        let own = self.identity().and_then(|known| store.latest(&known.key(0)));
        own.or_else(|| store.latest(&self.parameterized_identity()?.key(0)))
    }

    /// Notes that a statement runs that may be learned, so that others of its form are learned at once.
    pub(crate) fn note_form(&self) {
        if let Some(known) = self.parameterized_identity() {
            let store = &self.environment.plans;
            let _full = store.latest(&known.key(0)).or_else(|| store.insert(&known, 0));
        }
    }
}
