//! `INSERT`: rows of values go straight into the heap, queries through the executor.
//!
//! Columns that the statement does not list take their `IDENTITY`, their `DEFAULT` or NULL. A query that does not list
//! all columns is wrapped into one that does, so the executor always sees whole rows.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use hobt_base::{Position, SqlError, number};
use hobt_catalog::{DatabaseSnapshot, Table, TableColumn};
use hobt_engine::DatabaseUse;
use hobt_functions::array_value;
use hobt_tsql::ast::{
    ArithmeticOperator, ArithmeticStep, ColumnName, Execute, Expression, FunctionArguments, FunctionCall, Identifier,
    Insert, InsertSource, Literal, ObjectName, OrderItem, Query, QueryBody, Select, SelectItem, Span, TableAlias,
    TableHint, TableSource, TargetName, Window,
};
use hobt_types::{SqlType, TypedValue, Value};

use super::ddl::Place;
use super::direct::{Learned, Wanted};
use super::event::{DoneKind, Message, ResultColumn};
use super::failure::Failure;
use super::foreign_key::{foreign_keys_of, places_of};
use super::identity::integer_of_type;
use super::names::{UsedTable, invalid_object, written};
use super::output_clause::{OutputSink, OutputTarget};
use super::query::bind_options;
use super::run::{Interpreter, Outcome};
use super::system_views::batch_of_values;
use crate::binder::{
    self, BindOptions, Binder, BoundExpr, BoundQuery, OutputInput, QueryHints, SourceColumn, TargetColumn,
    cannot_be_modified,
};
use crate::execute::{
    HeldBatches, InsertTarget, NewKeys, RowRules, StatementRun, insert_held, insert_rows, stored_columns,
};
use crate::source::{clustered_disabled, table_schema};

/// The name of the wrapped query.
const SOURCE: &str = "inserted_rows";

/// Result sets that go into a table in place of the client: `INSERT … EXEC`.
#[derive(Debug, Default)]
pub(super) struct Capture {
    /// How many columns each result set must have.
    width: usize,
    rows: Vec<Vec<TypedValue>>,
    batches: Vec<RecordBatch>,
}

impl Capture {
    /// Takes a batch of the result set that is being sent.
    pub(super) fn push(&mut self, batch: RecordBatch) {
        self.batches.push(batch);
    }

    /// Ends the result set.
    ///
    /// # Errors
    /// 213 for another number of columns, which ends more than the call: the batch.
    pub(super) fn end(&mut self, columns: Vec<ResultColumn>) -> Result<(), Failure> {
        if columns.len() != self.width {
            return Err(Failure { dooms: true, ..Failure::of_batch(column_count()) });
        }
        for batch in std::mem::take(&mut self.batches) {
            for row in 0..batch.num_rows() {
                let values = batch.columns().iter().zip(&columns).map(|(array, column)| {
                    let value = array_value(array.as_ref(), row, column.sql_type)?;
                    Ok(TypedValue { sql_type: column.sql_type, value })
                });
                self.rows.push(values.collect::<Result<_, SqlError>>()?);
            }
        }
        Ok(())
    }
}

/// What an `INSERT` writes to, and what it puts out.
struct Write {
    target: Target,
    store: InsertTarget,
    sink: Option<OutputSink>,
}

/// What an `INSERT` writes to.
pub(super) struct Target {
    pub(super) place: Place,
    pub(super) table: Arc<Table>,
    /// The listed columns' places in the table, in the order of the list.
    listed: Vec<usize>,
    /// The listed columns as the binder wants them.
    columns: binder::InsertTarget,
    /// Whether the statement lists its columns.
    is_explicit: bool,
    /// The target as the statement names it.
    written: String,
    is_variable: bool,
}

impl Target {
    /// A table as such, of which no column is listed.
    pub(super) fn of_table(database: DatabaseUse, table: Arc<Table>) -> Target {
        let schema = database.snapshot().schema_by_id(table.schema).map_or("dbo", |schema| &schema.name).to_owned();
        let place = Place { database, schema, name: table.name.clone() };
        let columns = binder::InsertTarget { table: table.name.clone(), columns: Vec::new() };
        let written = table.name.clone();
        Target { place, table, listed: Vec::new(), columns, is_explicit: false, written, is_variable: false }
    }

    /// The columns that the statement fills.
    pub(super) fn columns(&self) -> &binder::InsertTarget {
        &self.columns
    }

    /// The places of the columns that the statement fills, in the order of its list.
    pub(super) fn listed(&self) -> &[usize] {
        &self.listed
    }

    /// Whether it is a table variable.
    pub(super) fn is_variable(&self) -> bool {
        self.is_variable
    }

    /// The identity column, if the statement gives its values.
    pub(super) fn explicit_identity(&self) -> Option<(usize, &TableColumn)> {
        let place = self.listed.iter().copied().find(|&place| self.table.columns[place].identity.is_some())?;
        Some((place, &self.table.columns[place]))
    }

    /// The table and its database.
    pub(super) fn table(&self) -> (DatabaseUse, Arc<Table>) {
        (self.place.database.clone(), Arc::clone(&self.table))
    }

    /// The heaps behind it.
    pub(super) fn store(&self) -> Result<InsertTarget, SqlError> {
        let store = store_of(self.place.database.clone(), Arc::clone(&self.table))?;
        Ok(match self.is_variable {
            true => store.called(self.written.clone()),
            false => store,
        })
    }

    /// The error of values for another number of columns where the statement lists none.
    fn wrong_width(&self, width: usize) -> SqlError {
        let columns = &self.table.columns;
        if width == columns.len() && columns.iter().any(|column| column.identity.is_some()) {
            let text = format!(
                "An explicit value for the identity column in table '{}' can only be specified when a column list is used and \
                 IDENTITY_INSERT is ON.",
                self.written
            );
            return SqlError::new(number::IDENTITY_WITHOUT_LIST, text);
        }
        column_count()
    }
}

impl Interpreter<'_> {
    pub(super) fn insert(
        &mut self,
        insert: &Insert,
        caught_here: bool,
        learned: &mut Learned,
    ) -> Result<Outcome, Failure> {
        if let Some(outcome) = self.run_learned(Wanted::Insert(insert), learned)? {
            return Ok(outcome);
        }
        let hints = QueryHints::read(&insert.options).map_err(Failure::of_binding)?;
        if let InsertSource::Execute { call } = &insert.source {
            return self.in_insert_exec(|this| {
                // The procedure's own statements come first: they must not wait for the lock that this one takes.
                let width = this.insert_target(insert)?.listed.len();
                let captured = this.captured_rows(call, width, caught_here)?;
                this.insert_rows_of(insert, &hints, Some(captured))
            });
        }
        self.insert_rows_of(insert, &hints, None)
    }

    fn insert_rows_of(
        &mut self,
        insert: &Insert,
        hints: &QueryHints,
        captured: Option<Vec<Vec<TypedValue>>>,
    ) -> Result<Outcome, Failure> {
        let run = self.new_run(Some(hints))?;
        let rows = self.in_run(&run, |this| {
            let (target, into) = this.locked_target(&run, insert, hints)?;
            let sink = this.insert_sink(&run, insert, &target, into)?;
            let store = this.ruled(&run, target.store()?)?;
            store.note_update(&run.instance, None);
            let write = Write { store, target, sink };
            let rows = match (&insert.source, captured) {
                (InsertSource::Values { rows }, _) => this.insert_values(&run, insert, &write, rows),
                (InsertSource::DefaultValues, _) => {
                    let row = this.whole_row(&run, &write.target, &[], Vec::new())?;
                    this.insert_whole(&run, insert, &write, vec![row])
                }
                (InsertSource::Query { query }, _) => this.insert_from_query(&run, &write, insert, query, hints),
                (InsertSource::Execute { .. }, captured) => {
                    this.insert_captured(&run, insert, &write, captured.unwrap_or_default())
                }
            }?;
            this.check_new_keys(&run, &write.store)?;
            this.reseed(&run, &write.target)?;
            Ok(rows)
        })?;
        if run.left_duplicates_out() {
            let line = insert.target.span.position.line;
            self.send_message(Message::numbered(number::DUPLICATE_KEY_IGNORED, line, "Duplicate key was ignored."))?;
        }
        Ok(Outcome::counted(DoneKind::Insert, rows))
    }

    /// The table of an `INSERT`, locked together with those that its query reads.
    fn locked_target(
        &mut self,
        run: &Arc<StatementRun>,
        insert: &Insert,
        hints: &QueryHints,
    ) -> Result<(Target, Option<OutputTarget>), Failure> {
        self.until_locked(run, |this| {
            let target = this.insert_target(insert)?;
            let into = match &insert.output {
                Some(output) => this.output_target(output)?,
                None => None,
            };
            let mut used = match &insert.source {
                InsertSource::Query { query } => {
                    let query = with_tables_of(insert, query);
                    this.check_width(run, bind_options(hints), &target, &query)?
                }
                _ => Vec::new(),
            };
            let (database, table) = target.table();
            used.push(UsedTable::changed(database, table, &insert.target.hints));
            used.extend(into.as_ref().map(OutputTarget::used));
            Ok(((target, into), used))
        })
    }

    pub(super) fn insert_target(&self, insert: &Insert) -> Result<Target, Failure> {
        let place = match &insert.target.name {
            TargetName::Object(name) => self.place(name).map_err(|error| match error.number {
                number::DATABASE_DOES_NOT_EXIST => invalid_object(name),
                _ => error,
            })?,
            TargetName::Variable(variable) => {
                let name = self.frame().tables.get(&variable.value.to_lowercase()).cloned().ok_or_else(|| {
                    let text = format!("Must declare the table variable \"{}\".", variable.value);
                    Failure::of_batch(SqlError::new(number::UNDECLARED_TABLE_VARIABLE, text).at(variable.position))
                })?;
                let database = self.environment.instance.tempdb().map_err(SqlError::from)?;
                Place { database, schema: "dbo".to_owned(), name }
            }
        };
        let snapshot = place.database.snapshot();
        let schema = snapshot.schema_id(&place.schema);
        let Some(table) = schema.and_then(|schema| snapshot.table(schema, &place.name)) else {
            return Err(Failure::of_binding(self.no_such_target(&snapshot, schema, &place, &insert.target.name)));
        };
        if table.is_system {
            let text = "Ad hoc updates to system catalogs are not allowed.";
            return Err(SqlError::new(number::SYSTEM_TABLE_UPDATE, text).at(insert.target.span.position).into());
        }
        let is_explicit = !insert.columns.is_empty();
        let listed = match is_explicit {
            true => listed_columns(table, &insert.columns, self.inserts_identity(&place.database, table))
                .map_err(Failure::of_binding)?,
            false => {
                let is_given = |place: &usize| {
                    let column = &table.columns[*place];
                    column.identity.is_none() && column.computed.is_none()
                };
                (0..table.columns.len()).filter(is_given).collect()
            }
        };
        let column = |&place: &usize| TargetColumn {
            name: table.columns[place].name.clone(),
            sql_type: table.columns[place].sql_type,
        };
        let columns = binder::InsertTarget { table: table.name.clone(), columns: listed.iter().map(column).collect() };
        let (written, is_variable) = match &insert.target.name {
            TargetName::Object(name) => (written(name), false),
            TargetName::Variable(variable) => (variable.value.clone(), true),
        };
        Ok(Target { place, table: Arc::clone(table), listed, columns, is_explicit, written, is_variable })
    }

    fn no_such_target(
        &self,
        snapshot: &DatabaseSnapshot,
        schema: Option<i32>,
        place: &Place,
        name: &TargetName,
    ) -> SqlError {
        let TargetName::Object(name) = name else { return SqlError::internal("a table variable without a table") };
        if schema.is_some_and(|schema| snapshot.module(schema, &place.name).is_some()) {
            return SqlError::not_supported("INSERT into a view").at(name.position());
        }
        invalid_object(name)
    }

    fn insert_values(
        &mut self,
        run: &Arc<StatementRun>,
        insert: &Insert,
        write: &Write,
        rows: &[Vec<Expression>],
    ) -> Result<u64, Failure> {
        let target = &write.target;
        let position = rows.first().and_then(|row| row.first()).map(Expression::position).unwrap_or_default();
        if rows.iter().any(|row| row.len() != rows[0].len()) {
            let text = "The number of columns for each row in a table value constructor must be the same.";
            return Err(Failure::of_binding(SqlError::new(number::VALUES_COLUMN_COUNT, text).at(position)));
        }
        if !target.is_explicit && rows[0].len() != target.listed.len() {
            return Err(Failure::of_binding(target.wrong_width(rows[0].len()).at(position)));
        }
        let mut whole = Vec::with_capacity(rows.len());
        for row in rows {
            self.sequences.borrow_mut().next_row();
            let (values, deferred) = self.listed_values(run, target, row)?;
            whole.push(self.whole_row_of(run, target, row, values, &deferred)?);
        }
        self.insert_whole(run, insert, write, whole)
    }

    /// Writes whole rows, as many as a `TOP` lets through, and puts them out.
    fn insert_whole(
        &mut self,
        run: &Arc<StatementRun>,
        insert: &Insert,
        write: &Write,
        mut rows: Vec<Vec<Value>>,
    ) -> Result<u64, Failure> {
        if let Some(top) = &insert.top {
            let names = self.names(run);
            let binder = Binder::new(&names, BindOptions::default());
            let limit = binder.bind_row_limit(top).map_err(Failure::of_binding)?.of(rows.len() as u64);
            rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        }
        if let (Some((place, _)), Some(row)) = (write.target.explicit_identity(), rows.last()) {
            match row[place] {
                Value::Int(value) => self.note_identity(i128::from(value)),
                Value::Decimal(value) => self.note_identity(value),
                _ => {}
            }
        }
        let Some(sink) = &write.sink else { return Ok(insert_rows(run, &write.store, &rows)?) };
        let table = write.store.table();
        let types: Vec<SqlType> = table.columns.iter().map(|column| column.sql_type).collect();
        let batch = batch_of_values(nullable_schema(table), &types, &rows)?;
        let stored = stored_batch(&write.store, &batch)?;
        let count = insert_rows(run, &write.store, &rows)?;
        self.put_out_inserted(run, sink, &[stored])?;
        Ok(count)
    }

    /// Puts inserted rows out.
    fn put_out_inserted(
        &mut self,
        run: &Arc<StatementRun>,
        sink: &OutputSink,
        batches: &[RecordBatch],
    ) -> Result<(), Failure> {
        let put_out = batches.iter().map(|batch| {
            sink.output.evaluate(batch.num_rows(), &|input| match input {
                OutputInput::Inserted(column) => Ok(Arc::clone(batch.column(column))),
                _ => Err(SqlError::internal("an INSERT that puts out something else than what it inserts")),
            })
        });
        self.put_out(run, sink, put_out)
    }

    /// What an `INSERT` puts out.
    fn insert_sink(
        &self,
        run: &Arc<StatementRun>,
        insert: &Insert,
        target: &Target,
        into: Option<OutputTarget>,
    ) -> Result<Option<OutputSink>, Failure> {
        let Some(output) = &insert.output else { return Ok(None) };
        let column = |column: &TableColumn| SourceColumn {
            name: column.name.clone(),
            sql_type: column.sql_type,
            nullable: column.nullable,
            collation: column.collation,
        };
        let columns: Vec<SourceColumn> = target.table.columns.iter().map(column).collect();
        let names = self.names(run);
        let binder = Binder::new(&names, BindOptions::default());
        let filled = into.as_ref().map(OutputTarget::columns);
        let output = binder.bind_insert_output(output, &columns, filled).map_err(Failure::of_binding)?;
        Ok(Some(OutputSink { output, into }))
    }

    /// The values of a row in the listed columns' types; the places of those that only a query can evaluate are told
    /// apart.
    fn listed_values(
        &self,
        run: &Arc<StatementRun>,
        target: &Target,
        row: &[Expression],
    ) -> Result<(Vec<Value>, Vec<usize>), Failure> {
        let names = self.names(run);
        let binder = Binder::new(&names, BindOptions::default());
        let mut default = |place: usize| default_of(&binder, &target.table.columns[target.listed[place]]);
        let bound = binder.bind_insert_row(row, &target.columns, &mut default).map_err(Failure::of_binding)?;
        let mut deferred = Vec::new();
        let mut values = Vec::with_capacity(bound.len());
        for (place, value) in bound.iter().enumerate() {
            if Binder::needs_query(value) {
                deferred.push(place);
                values.push(Value::Null);
            } else {
                values.push(binder.evaluate(value)?);
            }
        }
        Ok((values, deferred))
    }

    fn whole_row_of(
        &mut self,
        run: &Arc<StatementRun>,
        target: &Target,
        row: &[Expression],
        mut values: Vec<Value>,
        deferred: &[usize],
    ) -> Result<Vec<Value>, Failure> {
        for &place in deferred {
            let given = self.evaluate(&row[place])?;
            values[place] = self.stored_value(run, given, target.columns.columns[place].sql_type)?;
        }
        self.whole_row(run, target, &target.listed, values)
    }

    /// A row of the table that has `values` in its listed columns.
    pub(super) fn whole_row_listed(
        &mut self,
        run: &Arc<StatementRun>,
        target: &Target,
        values: Vec<Value>,
    ) -> Result<Vec<Value>, Failure> {
        self.whole_row(run, target, &target.listed, values)
    }

    /// A row of the table: the given values at their places, elsewhere what the columns say.
    fn whole_row(
        &mut self,
        run: &Arc<StatementRun>,
        target: &Target,
        places: &[usize],
        values: Vec<Value>,
    ) -> Result<Vec<Value>, Failure> {
        let mut given: Vec<Option<Value>> = vec![None; target.table.columns.len()];
        for (place, value) in places.iter().zip(values) {
            given[*place] = Some(value);
        }
        let mut row = Vec::with_capacity(given.len());
        for (column, given) in target.table.columns.iter().zip(given) {
            row.push(match given {
                Some(value) => value,
                None if column.identity.is_some() => {
                    self.check_implicit_identity(&target.place.database, &target.table)?;
                    let value = self.next_identity(run, target, column, 1)?;
                    self.note_identity(value);
                    integer_of_type(value, column)?
                }
                None => self.default_value(run, column)?,
            });
        }
        Ok(row)
    }

    fn default_value(&self, run: &Arc<StatementRun>, column: &TableColumn) -> Result<Value, Failure> {
        if column.default.is_none() {
            return Ok(Value::Null);
        }
        let names = self.names(run);
        let binder = Binder::new(&names, BindOptions::default());
        let bound = default_of(&binder, column)?;
        Ok(binder.evaluate(&binder.assign(bound, column.sql_type)?)?)
    }

    /// A value in a column's type, as an insert stores it: text that is too long is left so, and refused later.
    fn stored_value(&self, run: &Arc<StatementRun>, given: TypedValue, to: SqlType) -> Result<Value, Failure> {
        if given.value.is_null() {
            return Ok(Value::Null);
        }
        let names = self.names(run);
        let binder = Binder::new(&names, BindOptions::default());
        let bound = BoundExpr::literal(given.value, given.sql_type, Position::default())?;
        Ok(binder.evaluate(&binder.assign(bound, to)?)?)
    }

    fn insert_from_query(
        &mut self,
        run: &Arc<StatementRun>,
        write: &Write,
        insert: &Insert,
        query: &Query,
        hints: &QueryHints,
    ) -> Result<u64, Failure> {
        let target = &write.target;
        let options = bind_options(hints);
        let query = with_tables_of(insert, query);
        let parallel =
            insert.target.hints.contains(&TableHint::TabLock) || insert.target.hints.contains(&TableHint::TabLockX);
        let is_whole = target.listed.iter().copied().eq(0..target.table.columns.len());
        if is_whole {
            let bind = |binder: &Binder<'_>| {
                binder.limited(binder.bind_insert_source(&query, &target.columns)?, insert.top.as_ref())
            };
            return self.insert_bound(run, options, &bind, write, parallel);
        }
        let identity = target.table.columns.iter().find(|column| column.identity.is_some());
        let identity = identity.filter(|_| target.explicit_identity().is_none());
        let first = match identity {
            Some(column) => {
                self.check_implicit_identity(&target.place.database, &target.table)?;
                Some(self.next_identity(run, target, column, 0)?)
            }
            None => None,
        };
        let wrapped = wrap(target, query, first)?;
        let all = binder::InsertTarget {
            table: target.table.name.clone(),
            columns: target
                .table
                .columns
                .iter()
                .map(|column| TargetColumn { name: column.name.clone(), sql_type: column.sql_type })
                .collect(),
        };
        let bind = |binder: &Binder<'_>| {
            binder.limited(binder.bind_wrapped_insert_source(&wrapped, &all)?, insert.top.as_ref())
        };
        let rows = self.insert_bound(run, options, &bind, write, parallel)?;
        if let (Some(column), Some(first), true) = (identity, first, rows > 0) {
            self.next_identity(run, target, column, rows)?;
            let increment = column.identity.map_or(1, |identity| i128::from(identity.increment));
            self.note_identity(first + increment * i128::from(rows - 1));
        }
        Ok(rows)
    }

    /// Runs a bound query into the target, and puts out what went in.
    fn insert_bound(
        &mut self,
        run: &Arc<StatementRun>,
        options: BindOptions,
        bind: &dyn Fn(&Binder<'_>) -> Result<BoundQuery, SqlError>,
        write: &Write,
        parallel: bool,
    ) -> Result<u64, Failure> {
        let Some(sink) = &write.sink else { return self.insert_query(run, options, bind, &write.store, parallel) };
        let mut held = HeldBatches::new(run, &write.store);
        let prepared = self.prepare(run, options, bind)?;
        self.run_prepared(run, prepared, &mut |batch| held.keep(stored_batch(&write.store, &batch)?))?;
        let rows = insert_held(run, &write.store, held.batches())?;
        self.put_out_inserted(run, sink, held.batches())?;
        Ok(rows)
    }

    /// Without a list of columns, a query of another width is 213; with one the binder says 120 or 121. Gives the tables
    /// that the query reads.
    fn check_width(
        &self,
        run: &Arc<StatementRun>,
        options: BindOptions,
        target: &Target,
        query: &Query,
    ) -> Result<Vec<UsedTable>, Failure> {
        let names = self.names(run);
        let binder = Binder::new(&names, options);
        if target.is_explicit {
            binder.bind_insert_source(query, &target.columns).map_err(Failure::of_binding)?;
        } else {
            let bound = binder.bind_query(query).map_err(Failure::of_binding)?;
            let width = bound.columns.len();
            if width != target.listed.len() {
                return Err(Failure::of_binding(target.wrong_width(width).at(query.span.position)));
            }
        }
        drop(binder);
        Ok(names.into_used())
    }

    fn captured_rows(
        &mut self,
        call: &Execute,
        width: usize,
        caught_here: bool,
    ) -> Result<Vec<Vec<TypedValue>>, Failure> {
        if self.capture.is_some() {
            let text = "An INSERT EXEC statement cannot be nested.";
            return Err(SqlError::new(number::NESTED_INSERT_EXEC, text).at(call.span.position).into());
        }
        self.capture = Some(Capture { width, ..Capture::default() });
        self.insert_exec_count = Some(self.state.transaction_count());
        let result = self.execute(call, caught_here);
        self.insert_exec_count = None;
        let capture = self.capture.take().unwrap_or_default();
        result.map(|_| capture.rows)
    }

    fn insert_captured(
        &mut self,
        run: &Arc<StatementRun>,
        insert: &Insert,
        write: &Write,
        captured: Vec<Vec<TypedValue>>,
    ) -> Result<u64, Failure> {
        let target = &write.target;
        let mut rows = Vec::with_capacity(captured.len());
        for row in captured {
            self.sequences.borrow_mut().next_row();
            let mut values = Vec::with_capacity(row.len());
            for (given, column) in row.into_iter().zip(&target.columns.columns) {
                values.push(self.stored_value(run, given, column.sql_type)?);
            }
            rows.push(self.whole_row(run, target, &target.listed, values)?);
        }
        self.insert_whole(run, insert, write, rows)
    }
}

impl Interpreter<'_> {
    /// A target with what its definition says of its rows.
    pub(super) fn ruled(&self, run: &Arc<StatementRun>, store: InsertTarget) -> Result<InsertTarget, Failure> {
        let table = store.table();
        let keys = foreign_keys_of(table);
        let has_rules = table.columns.iter().any(|column| column.computed.is_some())
            || table.constraints.checks.iter().any(|check| !check.head.is_disabled)
            || !keys.is_empty();
        if !has_rules {
            return Ok(store);
        }
        let names = self.names(run);
        let rules = Binder::new(&names, BindOptions::default()).bind_row_rules(table).map_err(Failure::of_binding)?;
        let new_keys = (!keys.is_empty()).then(|| {
            let places = keys.iter().map(|key| places_of(table, &key.columns)).collect();
            Arc::new(NewKeys::new(places))
        });
        Ok(store.ruled_by(RowRules { new_keys, ..rules }))
    }
}

/// The query of an `INSERT`, with the common tables that stand before the statement.
pub(super) fn with_tables_of(insert: &Insert, query: &Query) -> Query {
    let mut query = query.clone();
    if query.with.is_empty() {
        query.with.clone_from(&insert.with);
    }
    query
}

/// The heaps and indexes of a table.
///
/// # Errors
/// 8655 the clustered index is disabled.
pub(super) fn store_of(database: DatabaseUse, table: Arc<Table>) -> Result<InsertTarget, SqlError> {
    if table.base_index().options.is_disabled {
        return Err(clustered_disabled(&table));
    }
    target_of(database, table)
}

/// The same of a table whose clustered index may be disabled.
pub(super) fn target_of(database: DatabaseUse, table: Arc<Table>) -> Result<InsertTarget, SqlError> {
    let snapshot = database.snapshot();
    let partitioning = snapshot.partitioning_of(&table.base_index().data_space);
    let partitioning = partitioning.map(|(column, function)| (column, Arc::clone(function)));
    let schema = snapshot.schema_by_id(table.schema).map_or("dbo", |schema| schema.name.as_str()).to_owned();
    InsertTarget::new(database, table, &schema, partitioning)
}

/// A table's columns in their carriers, any of which may be NULL until it is checked.
fn nullable_schema(table: &Table) -> SchemaRef {
    let fields =
        table_schema(table).fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect::<Vec<_>>();
    Arc::new(Schema::new(fields))
}

/// Rows of the whole table as it stores them.
fn stored_batch(store: &InsertTarget, batch: &RecordBatch) -> Result<RecordBatch, SqlError> {
    if store.has_rules() {
        let columns = store.completed(batch.columns().to_vec(), batch.num_rows(), None)?;
        return whole_batch(store, columns);
    }
    let columns = stored_columns(store, batch.columns().iter().cloned().enumerate().collect())?;
    whole_batch(store, columns.into_iter().map(|(_, array)| array).collect())
}

/// Rows of the whole table from its columns.
pub(super) fn whole_batch(store: &InsertTarget, columns: Vec<ArrayRef>) -> Result<RecordBatch, SqlError> {
    RecordBatch::try_new(nullable_schema(store.table()), columns).map_err(|error| SqlError::internal(error.to_string()))
}

/// The places of the listed columns.
fn listed_columns(table: &Table, names: &[Identifier], inserts_identity: bool) -> Result<Vec<usize>, SqlError> {
    let mut places = Vec::with_capacity(names.len());
    for name in names {
        if table.is_computed(&name.value) {
            return Err(cannot_be_modified(&name.value).at(name.position));
        }
        let place = table.column_named(&name.value).ok_or_else(|| {
            SqlError::new(number::INVALID_COLUMN, format!("Invalid column name '{}'.", name.value)).at(name.position)
        })?;
        if places.contains(&place) {
            let text = format!(
                "The column name '{}' is specified more than once in the SET clause or column list of an INSERT. A column \
                 cannot be assigned more than one value in the same clause.",
                name.value
            );
            return Err(SqlError::new(number::COLUMN_TWICE, text).at(name.position));
        }
        if table.columns[place].identity.is_some() && !inserts_identity {
            let text = format!(
                "Cannot insert explicit value for identity column in table '{}' when IDENTITY_INSERT is set to OFF.",
                table.name
            );
            return Err(SqlError::new(number::IDENTITY_INSERT_OFF, text).at(name.position));
        }
        places.push(place);
    }
    Ok(places)
}

/// A column's `DEFAULT` as an expression; NULL without.
pub(super) fn default_of(binder: &Binder<'_>, column: &TableColumn) -> Result<BoundExpr, SqlError> {
    match &column.default {
        Some(default) => binder.bind_default(&hobt_tsql::parse_expression(&default.definition)?),
        None => BoundExpr::null(Position::default()),
    }
}

/// 213.
fn column_count() -> SqlError {
    SqlError::new(
        number::INSERT_COLUMN_COUNT,
        "Column name or number of supplied values does not match table definition.",
    )
}

/// The query with all columns of the table around one with the listed ones.
fn wrap(target: &Target, mut query: Query, first_identity: Option<i128>) -> Result<Query, SqlError> {
    let span = query.span;
    let with = std::mem::take(&mut query.with);
    let has_limit = matches!(&query.body, QueryBody::Select(select) if select.top.is_some()) || query.offset.is_some();
    if !has_limit {
        query.order_by.clear();
    }
    let names: Vec<Identifier> = (1..=target.listed.len()).map(|place| Identifier::new(format!("c{place}"))).collect();
    let mut items = Vec::with_capacity(target.table.columns.len());
    for (place, column) in target.table.columns.iter().enumerate() {
        let value = match target.listed.iter().position(|listed| *listed == place) {
            Some(listed) => {
                Expression::Column { name: Box::new(ColumnName { qualifier: None, name: names[listed].clone() }) }
            }
            None => match (&column.identity, first_identity, &column.default) {
                (Some(identity), Some(first), _) => identity_expression(first, identity.increment, span),
                (_, _, Some(default)) => hobt_tsql::parse_expression(&default.definition)?,
                _ => Expression::Literal { value: Literal::Null, span },
            },
        };
        items.push(SelectItem::Value { value, alias: Some(Identifier::new(column.name.clone())) });
    }
    let alias = TableAlias { name: Identifier::new(SOURCE), columns: names };
    let select = Select {
        distinct: false,
        top: None,
        items,
        into: None,
        from: vec![TableSource::Derived { query: Box::new(query), alias, span }],
        condition: None,
        group_by: None,
        having: None,
        windows: vec![],
        span,
    };
    Ok(Query { with, body: QueryBody::Select(Box::new(select)), order_by: Vec::new(), offset: None, span })
}

/// `first + (ROW_NUMBER() OVER (ORDER BY (SELECT NULL)) - 1) * increment`.
fn identity_expression(first: i128, increment: i64, span: Span) -> Expression {
    let integer = |value: i64| Expression::Literal { value: Literal::Integer(value), span };
    let step = |operator, operand| ArithmeticStep { operator, operand, span };
    let order = vec![OrderItem { value: no_order(span), descending: false }];
    let number = Expression::Function {
        call: Box::new(FunctionCall {
            name: ObjectName::simple(Identifier::new("ROW_NUMBER")),
            arguments: FunctionArguments::List { distinct: false, values: Vec::new() },
            ignore_nulls: None,
            within_group: Vec::new(),
            over: Some(Window { order_by: order, ..Window::default() }),
            span,
        }),
    };
    let before =
        Expression::Arithmetic { first: Box::new(number), rest: vec![step(ArithmeticOperator::Subtract, integer(1))] };
    let offset = Expression::Arithmetic {
        first: Box::new(before),
        rest: vec![step(ArithmeticOperator::Multiply, integer(increment))],
    };
    let first = integer(i64::try_from(first).unwrap_or(i64::MAX));
    Expression::Arithmetic { first: Box::new(first), rest: vec![step(ArithmeticOperator::Add, offset)] }
}

/// `(SELECT NULL)`: an order that asks for none.
fn no_order(span: Span) -> Expression {
    let select = Select {
        distinct: false,
        top: None,
        items: vec![SelectItem::Value { value: Expression::Literal { value: Literal::Null, span }, alias: None }],
        into: None,
        from: Vec::new(),
        condition: None,
        group_by: None,
        having: None,
        windows: vec![],
        span,
    };
    let query =
        Query { with: Vec::new(), body: QueryBody::Select(Box::new(select)), order_by: Vec::new(), offset: None, span };
    Expression::Subquery { query: Box::new(query), span }
}
