//! Under which text the store knows a statement: its own, or one with parameters in place of its constants.
//!
//! Statements of a batch that find a row by its key are parameterised (`PARAMETERIZATION SIMPLE`): once one of a form
//! has run, others of that form run without a plan, whatever their constants are, and are one entry. With
//! `PARAMETERIZATION FORCED` all statements of batches are entered so. Their plans are still made for the constants,
//! as they are for values of variables.

use std::sync::Arc;

use hobt_base::DatabaseId;
use hobt_tsql::ast::Span;

use super::store::{PlanEntry, StatementKey, text_hash};
use crate::interpreter::Interpreter;

/// What identifies a statement in the store, but the shape of its plan.
pub(super) struct Identity {
    pub(super) text: Arc<str>,
    /// The hash of the text.
    pub(super) hash: u64,
    /// The statement's place in the text.
    pub(super) span: Span,
    /// The database, the procedure that contains it, and the options that it runs under.
    pub(super) under: (DatabaseId, i32, i64),
    pub(super) is_parameterized: bool,
}

impl Identity {
    pub(super) fn key(&self, shape: u64) -> StatementKey {
        StatementKey::new(self.hash, self.span, self.under, shape)
    }
}

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
        let form = hobt_tsql::parameterized(self.text_of(span))?;
        let end = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let span = Span { start: end(form.start), end: end(form.text.len()), ..span };
        let (hash, under) = (text_hash(&form.text), (self.state.database.id(), 0, self.state.options.bits()));
        Some(Identity { text: form.text.into(), hash, span, under, is_parameterized: true })
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
