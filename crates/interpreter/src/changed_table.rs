//! The target table of a change: its heaps and indexes, the rules of its definition, and its rows in stored form.

use std::sync::Arc;

use super::failure::Failure;
use crate::interpreter::Interpreter;
use crate::stored_table::has_rules;
use crate::stored_table::{foreign_keys_of, places_of};
use hobt_binder::{BindOptions, Binder};
use hobt_operators::{NewKeys, WriteTarget};
use hobt_table::StatementRun;

impl Interpreter<'_> {
    /// A target with the rules of its definition.
    pub(super) fn ruled(&self, run: &Arc<StatementRun>, store: WriteTarget) -> Result<WriteTarget, Failure> {
        let table = store.table();
        let keys = foreign_keys_of(table);
        if !has_rules(table) {
            return Ok(store);
        }
        let names = self.names(run);
        let rules = Binder::new(&names, BindOptions::default()).bind_row_rules(table).map_err(Failure::of_binding)?;
        let new_keys = (!keys.is_empty()).then(|| {
            let places = keys.iter().map(|key| places_of(table, &key.columns)).collect();
            NewKeys::new(run, places)
        });
        Ok(store.ruled_by(rules, new_keys))
    }
}
