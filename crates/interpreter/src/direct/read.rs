//! `SELECT` of one row by the key of the clustered index, without a plan: into variables, or as a result set of one
//! row.
//!
//! Used only under `READ COMMITTED` with row versions, where no row is locked: the row is read as the statement's
//! snapshot sees it.

use std::cell::OnceCell;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use arrow::record_batch::RecordBatch;
use hobt_base::{PageId, SlotId, SqlError};
use hobt_engine::{TableWriter, whole_row};
use hobt_functions::{carrier, value_to_array};
use hobt_page::RowPage;
use hobt_tsql::ast::{SelectItem, SelectStatement};
use hobt_txn::StatementContext;
use hobt_txn::locks::{LockMode, LockResource};
use hobt_types::{SqlType, Value};

use super::by_key::{GivenRow, key_columns};
use super::insert::is_in;
use super::plain_text::plain_parts;
use crate::direct::learned::{DirectRead, GoesTo, SoughtRow};
use crate::event::{DoneKind, Event, ResultColumn};
use crate::failure::Failure;
use crate::interpreter::{Interpreter, Outcome};
use crate::query::shown_columns;
use crate::reading::{Reading, Rows};
use hobt_binder::formula;
use hobt_binder::{BindOptions, Binder, BoundExpr, Formula, RowUse};
use hobt_operators::lock_error;
use hobt_table::access_error;

impl Interpreter<'_> {
    /// Collects what a `SELECT` needs to run without binding. `None` if it is more than some values of the row of one
    /// key.
    pub(super) fn learn_read(&self, select: &SelectStatement) -> Option<DirectRead> {
        let query = &select.query;
        let (body, named) = plain_parts(select)?;
        let place = self.place(&named.name).ok()?;
        let (database, snapshot) = (&place.database, place.database.snapshot());
        let table = snapshot.table(snapshot.schema_id(&place.schema)?, &place.name)?;
        let key = key_columns(table)?;
        let reading = Reading::of(&[], false, self.state.options.isolation, (database, table), false);
        if database.id() != self.state.database.id() || reading.rows != Rows::OfStatement {
            return None;
        }
        let types: Vec<SqlType> = table.columns.iter().map(|column| column.sql_type).collect();
        let name = named.alias.as_ref().unwrap_or(&named.name.name);
        let names = self.names_alone();
        let binder = Binder::new(&names, BindOptions { keeps_variables: true, ..BindOptions::default() });
        let usage = RowUse::Read(&body.items);
        let bound = binder.bind_row_by_key(table, &name.value, &key, body.condition.as_ref()?, usage)?;
        if !binder.is_timeless() {
            return None;
        }
        let place_of = |name: &str| self.frame().place_of(name);
        let over_row = |bound: &BoundExpr| formula::compile_over(bound, &types, &place_of);
        let row = SoughtRow::compile(&key, &bound, over_row)?;
        let values = bound.read.iter().map(|(_, value)| over_row(value)).collect::<Option<Vec<_>>>()?;
        let goes_to = match body.items.first()? {
            SelectItem::Assign { .. } => {
                let places = bound.read.iter().map(|(variable, _)| place_of(&variable.as_ref()?.value));
                let places = places.collect::<Option<Vec<_>>>()?;
                // A variable that an earlier assignment sets must be read as it is after that assignment.
                if values.iter().any(|value| places.iter().any(|place| value.reads(*place))) {
                    return None;
                }
                GoesTo::Variables(places)
            }
            _ => {
                // The client receives the same column descriptions as from the query.
                let known = Binder::new(&names, BindOptions::default()).bind_query(query).ok()?;
                let columns = shown_columns(&known.columns);
                let same = columns.iter().map(|column| column.sql_type).eq(values.iter().map(Formula::sql_type));
                if !same {
                    return None;
                }
                let field = |column: &ResultColumn| Field::new(&column.name, carrier(column.sql_type), true);
                let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
                GoesTo::Client(columns, schema)
            }
        };
        // A list that mixes assignments and results is rejected.
        let assigns = matches!(goes_to, GoesTo::Variables(_));
        if bound.read.iter().any(|(variable, _)| variable.is_some() != assigns) {
            return None;
        }
        let opened = TableWriter::open_to_read(database, &snapshot, Arc::clone(table)).ok()?;
        let tree = Arc::clone(opened.base()[0].tree()?);
        let patience = self.state.options.patience();
        let (table, current) = (Arc::clone(table), self.state.database.id());
        Some(DirectRead { table, tree, current, patience, row, values, goes_to })
    }

    /// Runs the read. `None` if the learned data is outdated; then nothing was done.
    ///
    /// # Errors
    /// As for the bound statement.
    pub(super) fn run_direct_read(&mut self, read: &DirectRead) -> Result<Option<Outcome>, Failure> {
        let database = self.database();
        let reading = Reading::of(&[], false, self.state.options.isolation, (&database, &read.table), false);
        let is_captured = self.capture.is_some();
        if is_captured || reading.rows != Rows::OfStatement || !self.may_run_directly(read.current, read.patience) {
            return Ok(None);
        }
        database.check_usable().map_err(SqlError::from)?;
        let Some(found) = self.in_direct_context(|this, context| this.read_row(context, read))? else {
            return Ok(None);
        };
        let rows = u64::from(found.is_some());
        match (&read.goes_to, found) {
            (GoesTo::Variables(places), found) => {
                for (place, value) in places.iter().zip(found.into_iter().flatten()) {
                    self.frame_mut().set_at(*place, value)?;
                }
                Ok(Some(Outcome::assigned_from(rows)))
            }
            (GoesTo::Client(columns, schema), found) => {
                if let Some(values) = found {
                    let arrays =
                        values.iter().zip(columns).map(|(value, column)| value_to_array(value, column.sql_type));
                    let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
                    let batch = RecordBatch::try_new(Arc::clone(schema), arrays);
                    self.send(Event::Rows(batch.map_err(|error| SqlError::internal(error.to_string()))?))?;
                }
                self.send(Event::ResultSetDone { rows })?;
                Ok(Some(Outcome::counted(DoneKind::Select, rows)))
            }
        }
    }

    /// The values of the row. `Some(None)` if there is no such row.
    fn read_row(
        &mut self,
        context: &StatementContext,
        read: &DirectRead,
    ) -> Result<Option<Option<Vec<Value>>>, Failure> {
        let manager = self.environment.instance.locks();
        let table = LockResource::Object(self.state.database.id(), read.table.id);
        let is_cancelled = || context.is_cancelled();
        let (owner, mode) = (context.lock_owner(), LockMode::SchemaStability);
        let held = manager.hold(owner, table, mode, read.patience, &is_cancelled);
        let _held = held.map_err(|error| lock_error(self.state.id, error))?;
        if !is_in(&self.database().snapshot(), &read.table) {
            return Ok(None);
        }
        self.count_seek(&read.table);
        if let GoesTo::Client(columns, _) = &read.goes_to {
            self.send(Event::ResultSet(columns.clone()))?;
        }
        context.read_versions(self.state.viewer());
        let types: Vec<SqlType> = read.table.columns.iter().map(|column| column.sql_type).collect();
        let now = OnceCell::new();
        let Some(key) = self.sought_key(&read.tree, &read.row, &types, &now)? else { return Ok(Some(None)) };
        let show = |id: PageId, page: &RowPage<'_>, slot: SlotId| {
            page.row_image(usize::from(slot.0)).map_err(|damage| (id, damage))
        };
        let reads = Arc::clone(&self.statements.reads);
        let found = read.tree.find_visible(&key, (context, false), &reads, show);
        let found = found.map_err(|error| access_error(&self.database(), error))?;
        let Some(row) = found else { return Ok(Some(None)) };
        let row = row.map_err(|(id, damage)| access_error(&self.database(), read.tree.hobt().damaged(id, damage)))?;
        let row = whole_row(read.tree.hobt(), row).map_err(|error| access_error(&self.database(), error))?;
        let given = GivenRow { row: &row, types: &types, session: self.given_at(&now) };
        if !read.row.is(&given)? {
            return Ok(Some(None));
        }
        let values = read.values.iter().map(|formula| formula.evaluate(&given)).collect::<Result<Vec<_>, _>>()?;
        Ok(Some(Some(values)))
    }
}
