//! `INSERT … VALUES` without a plan: formulas compute the values, and the table's writer stores the row.
//!
//! The second run of a statement, in a loop or in another batch, learns about its table and its values. Within the
//! batch this stays valid until a definition in the database changes. The next run is then interpreted, and the run
//! after it learns again. Constants are checked and converted to their stored format once.

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use hobt_base::SqlError;
use hobt_catalog::{DatabaseSnapshot, Table};
use hobt_tsql::ast::{Expression, Insert, InsertSource, IsolationLevel};
use hobt_txn::StatementContext;
use hobt_txn::locks::LockMode;
use hobt_types::Value;

use super::is_plain;
use super::plain_text::has_plain_text;
use crate::direct::learned::{DirectInsert, Source};
use crate::failure::Failure;
use crate::identities::Taken;
use crate::identity::integer_of_type;
use crate::insert::default_of;
use crate::insert_target::Target;
use crate::interpreter::Interpreter;
use crate::names::UsedTable;
use hobt_binder::formula;
use hobt_binder::{BindOptions, Binder};
use hobt_operators::{DirectValue, WriteTarget};

impl Interpreter<'_> {
    /// Collects what an `INSERT` needs to run without binding. `None` if it has anything that only the binder handles:
    /// a query, `OUTPUT`, `TOP`, constraints, computed columns, or hints that change its locks.
    pub(super) fn learn_insert(&self, insert: &Insert) -> Option<DirectInsert> {
        let empty;
        let given: &[Vec<Expression>] = match &insert.source {
            InsertSource::Values { rows } => rows,
            InsertSource::DefaultValues => {
                empty = [Vec::new()];
                &empty
            }
            InsertSource::Query { .. } | InsertSource::Execute { .. } => return None,
        };
        if !has_plain_text(insert) || self.state.options.isolation == IsolationLevel::Snapshot {
            return None;
        }
        let target = self.insert_target(insert).ok()?;
        let (database, table) = target.table();
        if database.id() != self.state.database.id() || target.explicit_identity().is_some() || !is_plain(&table) {
            return None;
        }
        let used = UsedTable::changed(database.clone(), Arc::clone(&table), &insert.target.hints);
        if used.mode != LockMode::IntentExclusive || used.waits_for_nobody {
            return None;
        }
        let store = target.store().ok()?;
        let names = self.names_alone();
        let binder = Binder::new(&names, BindOptions { keeps_variables: true, ..BindOptions::default() });
        let is_default = matches!(insert.source, InsertSource::DefaultValues);
        let row = |given: &Vec<Expression>| self.sources(&binder, &target, &store, (!is_default).then_some(given));
        let rows = given.iter().map(row).collect::<Option<Vec<_>>>()?;
        if !binder.is_timeless() {
            return None;
        }
        let locks = self.row_lock_settings(&[used]);
        let current = self.state.database.id();
        Some(DirectInsert { target, store, current, rows, locks, locked: RefCell::default() })
    }

    /// The sources of a row's values. `given` are those of the listed columns.
    fn sources(
        &self,
        binder: &Binder<'_>,
        target: &Target,
        store: &WriteTarget,
        given: Option<&Vec<Expression>>,
    ) -> Option<Vec<Source>> {
        let columns = &target.table.columns;
        let place_of = |name: &str| self.frame().place_of(name);
        let mut sources: Vec<Option<Source>> = columns.iter().map(|_| None).collect();
        if let Some(given) = given {
            if target.listed().len() != given.len() {
                return None;
            }
            let mut default = |place: usize| default_of(binder, &columns[target.listed()[place]]);
            let bound = binder.bind_insert_row(given, target.columns(), &mut default).ok()?;
            for (place, value) in target.listed().iter().zip(bound) {
                sources[*place] = Some(Source::Formula(formula::compile(&value, &place_of)?));
            }
        }
        for (source, column) in sources.iter_mut().zip(columns).filter(|(source, _)| source.is_none()) {
            *source = Some(match column.identity {
                Some(_) => Source::Identity,
                None => {
                    let bound = binder.assign(default_of(binder, column).ok()?, column.sql_type).ok()?;
                    Source::Formula(formula::compile(&bound, &place_of)?)
                }
            });
        }
        let settled = sources.into_iter().zip(columns).map(|(source, column)| match source? {
            Source::Formula(formula) => Some(match formula.constant() {
                // A value that does not fit the column is rejected at run time.
                Some(value) => Source::Stored(store.stored_bytes(column, &value).ok()?),
                None => Source::Formula(formula),
            }),
            source => Some(source),
        });
        settled.collect()
    }

    /// Runs the insert. `None` if the learned data is outdated; then nothing was done.
    ///
    /// # Errors
    /// As for the bound statement.
    pub(super) fn run_direct_insert(&mut self, insert: &DirectInsert) -> Result<Option<u64>, Failure> {
        let is_snapshot = self.state.options.isolation == IsolationLevel::Snapshot;
        if is_snapshot
            || !self.may_run_directly(insert.current, insert.locks.patience)
            || self.inserts_identity(insert.store.database(), &insert.target.table)
        {
            return Ok(None);
        }
        self.database().begin_change().map_err(SqlError::from)?;
        self.in_direct_context(|this, context| this.lock_and_insert(context, insert))
    }

    fn lock_and_insert(&mut self, context: &StatementContext, insert: &DirectInsert) -> Result<Option<u64>, Failure> {
        self.lock_directly(context, &insert.store, &insert.locks, &insert.locked)?;
        // While the lock is held, no other transaction changes the table's definition.
        if !is_in(&self.database().snapshot(), &insert.target.table) {
            return Ok(None);
        }
        insert.store.note_update(&self.environment.instance, None);
        let now = OnceCell::new();
        let mut rows = Vec::with_capacity(insert.rows.len());
        for row in &insert.rows {
            let mut values = Vec::with_capacity(row.len());
            for source in row {
                values.push(match source {
                    Source::Stored(bytes) => DirectValue::Stored(bytes.as_deref()),
                    Source::Formula(formula) => DirectValue::Value(formula.evaluate(&self.given_at(&now))?),
                    Source::Identity => DirectValue::Stored(None),
                });
            }
            // A row whose values fail to evaluate takes no identity value.
            if let Some(place) = row.iter().position(|source| matches!(source, Source::Identity)) {
                let Some(value) = self.next_known_identity(insert, place)? else { return Ok(None) };
                values[place] = DirectValue::Value(value);
            }
            rows.push(values);
        }
        rows.iter().try_for_each(|values| insert.store.write_directly(context, values))?;
        Ok(Some(insert.rows.len() as u64))
    }

    /// The next value of the identity column at a position. `None` if the table's next value is not in memory yet, or
    /// if the catalog must first be moved ahead of it.
    fn next_known_identity(&mut self, insert: &DirectInsert, place: usize) -> Result<Option<Value>, Failure> {
        let (table, column) = (&insert.target.table, &insert.target.table.columns[place]);
        let increment = column.identity.map_or(1, |identity| identity.increment);
        let key = (insert.store.database().id(), table.id);
        let Some(Taken::From(value)) = self.environment.identities.take(key, increment, 1) else {
            return Ok(None);
        };
        self.note_identity(value);
        Ok(Some(integer_of_type(value, column)?))
    }
}

/// Whether a table exists and is unchanged.
pub(super) fn is_in(snapshot: &DatabaseSnapshot, table: &Arc<Table>) -> bool {
    snapshot.tables.get(&table.id).is_some_and(|now| Arc::ptr_eq(now, table))
}
