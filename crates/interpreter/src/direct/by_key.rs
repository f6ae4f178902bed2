//! `UPDATE` and `DELETE` of one row by the key of the clustered index, without a plan.
//!
//! The row is locked by its key before it is read. So the last committed version is read, and no other transaction can
//! change the row until this one ends. The path through a query reaches the same result by reading, locking and reading
//! again.

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use hobt_access::BTree;
use hobt_base::SqlError;
use hobt_catalog::{IndexUse, IndexUser, Table, row_image, value_from_bytes};
use hobt_engine::{RowAt, RowUpdate};
use hobt_functions::FunctionContext;
use hobt_page::RowImage;
use hobt_tsql::ast::{Assignment, ChangeTarget, Condition, IsolationLevel, TargetName};
use hobt_txn::locks::{KeyHash, LockMode};
use hobt_txn::{RowId, StatementContext};
use hobt_types::{SqlType, TypedValue, Value};

use super::{GivenValues, is_plain};
use crate::change::Change;
use crate::direct::learned::{DirectChange, SoughtRow};
use crate::failure::Failure;
use crate::interpreter::Interpreter;
use crate::names::UsedTable;
use crate::stored_table::store_of;
use hobt_binder::formula;
use hobt_binder::{BindOptions, Binder, BoundExpr, BoundRow, Formula, Given, RowUse};
use hobt_operators::{DirectValue, lock_error};

/// The columns of the unique key by which a row of `table` is found in a single tree. `None` if there is no such key.
pub(super) fn key_columns(table: &Table) -> Option<Vec<usize>> {
    let base = table.base_index();
    let has_tree = table.is_clustered() && base.options.is_unique && base.partitions.len() == 1;
    let is_usable = has_tree && !base.options.is_disabled && !table.is_system;
    is_usable.then(|| base.key.iter().map(|part| part.column).collect())
}

impl SoughtRow {
    /// Compiles the condition. `None` if a part of it is not a formula. `key` are the columns of the key.
    pub(super) fn compile(
        key: &[usize],
        bound: &BoundRow,
        compile: impl Fn(&BoundExpr) -> Option<Formula>,
    ) -> Option<SoughtRow> {
        let formulas = key.iter().zip(&bound.key).map(|(place, bound)| Some((*place, compile(bound)?)));
        let key = formulas.collect::<Option<Vec<_>>>()?;
        let rest = match &bound.rest {
            Some(rest) => Some(compile(rest)?),
            None => None,
        };
        Some(SoughtRow { key, rest })
    }

    /// Whether a row with the key satisfies the rest of the condition.
    pub(super) fn is(&self, given: &GivenRow<'_>) -> Result<bool, SqlError> {
        self.rest.as_ref().map_or(Ok(true), |rest| Ok(rest.evaluate(given)? == Value::Int(1)))
    }
}

/// A row, and a session's values.
pub(super) struct GivenRow<'a> {
    pub(super) row: &'a RowImage,
    pub(super) types: &'a [SqlType],
    pub(super) session: GivenValues<'a>,
}

impl Given for GivenRow<'_> {
    fn variable(&self, place: usize) -> &Value {
        self.session.variable(place)
    }

    fn column(&self, place: usize) -> Result<Value, SqlError> {
        let value = value_from_bytes(self.types[place], self.row.value(place));
        value.map_err(|error| SqlError::internal(error.to_string()))
    }

    fn global(&self, name: &str) -> Option<TypedValue> {
        self.session.global(name)
    }

    fn now(&self) -> &FunctionContext {
        self.session.now()
    }
}

/// The parts of a statement that can run this way.
struct Parts<'s> {
    target: &'s ChangeTarget,
    condition: &'s Condition,
    assignments: Option<&'s [Assignment]>,
}

/// `None` if the statement has other parts.
fn parts_of(change: Change<'_>) -> Option<Parts<'_>> {
    let (with, top, output, from, options) = match change {
        Change::Update(update) => (&update.with, &update.top, &update.output, &update.from, &update.options),
        Change::Delete(delete) => (&delete.with, &delete.top, &delete.output, &delete.from, &delete.options),
    };
    if !with.is_empty() || top.is_some() || output.is_some() || !from.is_empty() || !options.is_empty() {
        return None;
    }
    Some(match change {
        Change::Update(update) => Parts {
            target: &update.target,
            condition: update.condition.as_ref()?,
            assignments: Some(&update.assignments),
        },
        Change::Delete(delete) => {
            Parts { target: &delete.target, condition: delete.condition.as_ref()?, assignments: None }
        }
    })
}

impl Interpreter<'_> {
    /// Collects what a change needs to run without binding. `None` if its condition does not name the row of one key,
    /// or if its table has rules or is referred to by a foreign key.
    pub(super) fn learn_change(&self, change: Change<'_>) -> Option<DirectChange> {
        let Parts { target, condition, assignments } = parts_of(change)?;
        let TargetName::Object(name) = &target.name else { return None };
        if name.name.value.starts_with('#') || !target.hints.is_empty() {
            return None;
        }
        let place = self.place(name).ok()?;
        let snapshot = place.database.snapshot();
        let table = snapshot.table(snapshot.schema_id(&place.schema)?, &place.name)?;
        let key = key_columns(table)?;
        if place.database.id() != self.state.database.id() || !is_plain(table) {
            return None;
        }
        let store = store_of(place.database.clone(), Arc::clone(table)).ok()?;
        if !self.referring_keys(&store).is_empty() {
            return None;
        }
        let used = UsedTable::changed(place.database.clone(), Arc::clone(table), &target.hints);
        let names = self.names_alone();
        let binder = Binder::new(&names, BindOptions { keeps_variables: true, ..BindOptions::default() });
        let usage = RowUse::Change(assignments.unwrap_or_default());
        let bound = binder.bind_row_by_key(table, &name.name.value, &key, condition, usage)?;
        if !binder.is_timeless() {
            return None;
        }
        let types: Vec<SqlType> = table.columns.iter().map(|column| column.sql_type).collect();
        let place_of = |name: &str| self.frame().place_of(name);
        let over_row = |bound: &BoundExpr| formula::compile_over(bound, &types, &place_of);
        let row = SoughtRow::compile(&key, &bound, over_row)?;
        let values = bound.values.iter().map(|(place, bound)| Some((*place, over_row(bound)?)));
        let values = values.collect::<Option<Vec<_>>>()?;
        let store = match assignments {
            Some(_) => store.written_by("UPDATE"),
            None => store,
        };
        let locks = self.row_lock_settings(&[used]);
        let current = self.state.database.id();
        let values = assignments.is_some().then_some(values);
        Some(DirectChange { store, snapshot, current, row, values, locks, locked: RefCell::default() })
    }

    /// Runs the change. `None` if the learned data is outdated; then nothing was done.
    ///
    /// # Errors
    /// As for the bound statement.
    pub(super) fn run_direct_change(&mut self, change: &DirectChange) -> Result<Option<u64>, Failure> {
        let isolation = self.state.options.isolation;
        if !matches!(isolation, IsolationLevel::ReadCommitted | IsolationLevel::ReadUncommitted)
            || !self.may_run_directly(change.current, change.locks.patience)
        {
            return Ok(None);
        }
        self.database().begin_change().map_err(SqlError::from)?;
        self.in_direct_context(|this, context| {
            this.lock_directly(context, &change.store, &change.locks, &change.locked)?;
            if !Arc::ptr_eq(&this.database().snapshot(), &change.snapshot) {
                return Ok(None);
            }
            this.count_seek(change.store.table());
            let changed: Option<Vec<usize>> =
                change.values.as_ref().map(|values| values.iter().map(|(place, _)| *place).collect());
            change.store.note_update(&this.environment.instance, changed.as_deref());
            this.change_row(context, change).map(Some)
        })
    }

    fn change_row(&self, context: &StatementContext, change: &DirectChange) -> Result<u64, Failure> {
        let (table, writer) = (change.store.table(), change.store.writer());
        let types: Vec<SqlType> = table.columns.iter().map(|column| column.sql_type).collect();
        let now = OnceCell::new();
        let hobt = writer.base()[0].hobt();
        let tree = writer.base()[0].tree().ok_or_else(|| SqlError::internal("a clustered index that is no tree"))?;
        let Some(key) = self.sought_key(tree, &change.row, &types, &now)? else { return Ok(0) };
        let row_locks = context.row_locks(hobt.storage().database_tag(), hobt.id());
        let mut taken = Vec::new();
        if let Some(locks) = &row_locks {
            let row = RowId::Key(KeyHash::of(&key));
            let is_cancelled = || context.is_cancelled();
            let locked = locks.lock(hobt.id(), row, LockMode::Exclusive, &is_cancelled, &mut taken);
            locked.map_err(|error| lock_error(self.state.id, error))?;
        }
        let found = writer.find(0, &key).map_err(|error| change.store.write_error(error))?;
        let changed = match found {
            Some(row) => self.change_found(context, change, &key, &row, (&types, &now))?,
            None => false,
        };
        if let (false, Some(locks)) = (changed, &row_locks) {
            locks.release(&taken);
        }
        row_locks.iter().for_each(|locks| locks.escalate_if_due());
        Ok(u64::from(changed))
    }

    /// The key that a statement looks for. `None` if no row can have it.
    pub(super) fn sought_key(
        &self,
        tree: &BTree,
        row: &SoughtRow,
        types: &[SqlType],
        now: &OnceCell<FunctionContext>,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let mut values = vec![Value::Null; types.len()];
        for (place, formula) in &row.key {
            let value = formula.evaluate(&self.given_at(now))?;
            if value.is_null() {
                return Ok(None);
            }
            values[*place] = value;
        }
        // If the column cannot hold a value, no row has it.
        let Ok(sought) = row_image(types.iter().copied(), &values) else { return Ok(None) };
        Ok(tree.key_of(&sought).ok())
    }

    /// Counts a seek in a table's first index.
    pub(super) fn count_seek(&self, table: &Table) {
        if self.environment.instance.counts_index_use() {
            table.base_index().usage.note(IndexUse::Seek, IndexUser::User);
        }
    }

    /// Changes the row if it satisfies the rest of the condition.
    fn change_found(
        &self,
        context: &StatementContext,
        change: &DirectChange,
        key: &[u8],
        row: &RowImage,
        (types, now): (&[SqlType], &OnceCell<FunctionContext>),
    ) -> Result<bool, Failure> {
        let given = GivenRow { row, types, session: self.given_at(now) };
        if !change.row.is(&given)? {
            return Ok(false);
        }
        let at = RowAt::Tree { partition: 0, key: key.to_vec() };
        let Some(new) = &change.values else {
            let deleted = change.store.writer().delete(context, &at);
            deleted.map_err(|error| change.store.write_error(error))?;
            return Ok(true);
        };
        let mut values: Vec<DirectValue<'_>> =
            (0..types.len()).map(|place| DirectValue::Stored(row.value(place))).collect();
        for (place, formula) in new {
            values[*place] = DirectValue::Value(formula.evaluate(&given)?);
        }
        let row = change.store.row_of(&values)?;
        let updates = [RowUpdate { at, partition: 0, row }];
        let updated = change.store.writer().update(context, &updates, &mut || context.is_cancelled());
        updated.map_err(|error| change.store.write_error(error))?;
        // A cancelled change stopped half-way.
        if context.is_cancelled() {
            return Err(SqlError::cancelled().into());
        }
        Ok(true)
    }
}
