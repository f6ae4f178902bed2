//! Queries: binding, locking, execution, and delivery of rows.
//!
//! Steps of a statement: bind → lock the tables that binding found, in the order of their ids → bind again if one of
//! them has changed → optimise → wait for the operators' memory → run → commit or undo → unlock.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use arrow::record_batch::RecordBatch;
use hobt_base::{SqlError, errors, number};
use hobt_catalog::ModuleKind;
use hobt_engine::{ColumnDefinition, DataSpaceDefinition, TableDefinition};
use hobt_instruments::processor;
use hobt_tsql::ast::{
    CreateFunction, CreateView, Query, QueryBody, SelectInto, SelectItem, SelectStatement, StatisticsKind,
};
use hobt_txn::locks::LockMode;

use super::direct::Wanted;
use super::event::{DoneKind, ResultColumn};
use super::failure::Failure;
use super::statistics;
use crate::direct::learned::Learned;
use crate::interpreter::{Interpreter, Outcome};
use crate::plans::ChangeShown;
use hobt_binder::{BindOptions, Binder, BoundAssignments, BoundQuery, QueryHints, ResultColumn as BoundColumn};
use hobt_operators::{MemoryGrant, MemoryRequest, Reader, WriteTarget, gathered, insert_plan};
use hobt_planner::{FinishPlan, PhysicalPlan, Planned, Planning, Prepared};
use hobt_table::{JoinWay, MemoryFigures, StatementRun, Writes};

impl Interpreter<'_> {
    pub(super) fn select(&mut self, select: &SelectStatement, learned: &mut Learned) -> Result<Outcome, Failure> {
        if let Some(outcome) = self.run_learned(Wanted::Read(select), learned)? {
            return Ok(outcome);
        }
        let hints = QueryHints::read(&select.options).map_err(Failure::of_binding)?;
        if assigns(&select.query) {
            return self.select_into_variables(select, &hints);
        }
        let run = self.new_run(Some(&hints))?;
        if let Some(into) = into_of(&select.query) {
            return self.select_into(&run, select, into, &hints);
        }
        let options = bind_options(&hints);
        let rows = self.run_bound_with(
            (&run, Reader::Client),
            options,
            |binder| binder.bind_query(&select.query),
            |this, columns| this.begin_result_set(shown_columns(columns)),
            |this, batch| this.give_rows(batch),
        )?;
        self.end_result_set(rows)?;
        if self.capture.is_some() {
            return Ok(Outcome::assigned_from(rows));
        }
        Ok(Outcome::counted(DoneKind::Select, rows))
    }

    /// Binds and runs a query for the statement itself. `begin` receives its columns before the first row.
    pub(super) fn run_bound(
        &mut self,
        run: &Arc<StatementRun>,
        bind: impl Fn(&Binder<'_>) -> Result<BoundQuery, SqlError>,
        begin: impl FnOnce(&mut Self, &[BoundColumn]) -> Result<(), Failure>,
        on_batch: impl FnMut(&mut Self, RecordBatch) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        self.run_bound_with((run, Reader::Statement), BindOptions::default(), bind, begin, on_batch)
    }

    fn run_bound_with(
        &mut self,
        (run, reader): (&Arc<StatementRun>, Reader),
        options: BindOptions,
        bind: impl Fn(&Binder<'_>) -> Result<BoundQuery, SqlError>,
        begin: impl FnOnce(&mut Self, &[BoundColumn]) -> Result<(), Failure>,
        mut on_batch: impl FnMut(&mut Self, RecordBatch) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        self.in_run(run, |this| {
            let prepared = this.prepare_for(run, options, &bind, &one_stream, reader == Reader::Client)?;
            if reader == Reader::Client {
                this.follow(run, &prepared, Writes::Nowhere, 1.0);
            }
            begin(this, prepared.columns())?;
            let executor = Arc::clone(&this.environment.executor);
            let mut failed = None;
            let rows = prepared.run(reader, run, &executor, &mut |batch| {
                on_batch(this, batch).map_err(|failure| {
                    let error = failure.error.clone();
                    failed = Some(failure);
                    error
                })
            });
            // The sink's failure is more specific than the error that stopped the plan.
            rows.map_err(|error| failed.take().unwrap_or_else(|| error.into()))
        })
    }

    /// Binds, locks and plans a query, and waits for the memory of its operators. `finish` completes the plan for the
    /// consumer of its rows.
    pub(super) fn prepare(
        &mut self,
        run: &Arc<StatementRun>,
        options: BindOptions,
        bind: &dyn Fn(&Binder<'_>) -> Result<BoundQuery, SqlError>,
        finish: FinishPlan<'_>,
    ) -> Result<Prepared, Failure> {
        self.prepare_for(run, options, bind, finish, false)
    }

    /// As [`Interpreter::prepare`]. With `keeps` the plan may be one of an earlier execution, and is kept for others.
    fn prepare_for(
        &mut self,
        run: &Arc<StatementRun>,
        options: BindOptions,
        bind: &dyn Fn(&Binder<'_>) -> Result<BoundQuery, SqlError>,
        finish: FinishPlan<'_>,
        keeps: bool,
    ) -> Result<Prepared, Failure> {
        let (started, cpu, before) = (Instant::now(), processor::thread_cpu_time(), run.statistics_cost());
        let planned = self.plan(run, options, bind, finish, keeps)?;
        self.keep_plan(run, planned.plan());
        let made = run.statistics_cost().since(before);
        let elapsed = started.elapsed().saturating_sub(made.elapsed);
        let cpu = processor::thread_cpu_time().saturating_sub(cpu + made.own_cpu);
        run.add_compile(elapsed, cpu);
        // The query that builds statistics is a part of the statement that needs them.
        if self.state.options.statistics(StatisticsKind::Time) && !self.is_gathering {
            self.scope.compile_shown.0 += elapsed + made.elapsed;
            self.scope.compile_shown.1 += cpu + made.cpu;
            self.send_message(statistics::compile_time(cpu, elapsed))?;
            if made.objects > 0 {
                self.send_message(statistics::statistics_times(&made))?;
            }
        }
        let grant = match planned.memory() {
            Some((least, ideal)) => Some(self.let_in(run, least, ideal)?),
            None => None,
        };
        Ok(planned.prepared(&self.environment.executor, grant))
    }

    /// Waits for the memory of the statement's operators.
    fn let_in(&mut self, run: &Arc<StatementRun>, least: u64, ideal: u64) -> Result<MemoryGrant, Failure> {
        let figures = Arc::new(MemoryFigures::default());
        run.show_memory(&figures);
        figures.asks(least, ideal);
        let memory = Arc::clone(self.environment.executor.memory());
        let (from, to) = run.grant_range(memory.total());
        let most = to.max(least);
        let wanted = MemoryRequest { least, ideal: ideal.max(from).min(most), most };
        let granted = memory.enter(wanted, &figures, &run.pending, &|| self.is_cancelled());
        let granted = granted.map_err(|_| Failure::cancelled())?;
        self.note_memory(figures);
        Ok(granted)
    }

    /// Binds, locks and plans a query, repeatedly until the names mean the locked tables, and no table is read as a
    /// whole that is not locked as a whole. `finish` completes the plan for the consumer of its rows. With `keeps` it
    /// may be one of an earlier execution, and is kept for others.
    pub(super) fn plan(
        &mut self,
        run: &Arc<StatementRun>,
        options: BindOptions,
        bind: &dyn Fn(&Binder<'_>) -> Result<BoundQuery, SqlError>,
        finish: FinishPlan<'_>,
        keeps: bool,
    ) -> Result<Planned, Failure> {
        let keeps = keeps && self.plans_statement(run);
        if keeps && let Some(planned) = self.plan_again(run, finish)? {
            return Ok(planned);
        }
        let options = BindOptions { names_variables: keeps, ..options };
        let mut has_statistics = false;
        loop {
            let (query, standing) = self.bind_and_lock(run, options, bind)?;
            let executor = Arc::clone(&self.environment.executor);
            let planning = Planning::of(&executor, run, options, query, self.row_limit());
            let planning = planning.map_err(Failure::of_binding)?;
            if !has_statistics && self.make_statistics(planning.wanted_columns())? {
                // The reads for statistics are over, so the session shows the statement itself again. What it stands on
                // includes the statistics, so it is bound again.
                self.environment.sessions.statement_runs(self.state.id, Arc::downgrade(run));
                has_statistics = true;
                continue;
            }
            let compared = self.compared_plan();
            let other = compared.as_ref().map(|kept| &kept.query);
            if let Some(mut planned) = planning.physical(finish, keeps, other)? {
                self.keep_for_reuse(run, &mut planned, standing);
                return Ok(planned);
            }
        }
    }

    /// `SET ROWCOUNT` of a query that is to be planned; 0 is no limit. It is of queries and changes of rows, and never
    /// of what the engine reads for its own work: to build or rewrite a table or an index, to check rows, to follow
    /// foreign keys, to make statistics.
    fn row_limit(&self) -> u64 {
        let is_asked_for = self.plans.current.statement.is_some() && !self.is_gathering && self.changed_keys.is_empty();
        if is_asked_for { self.state.options.row_count } else { 0 }
    }

    fn select_into(
        &mut self,
        run: &Arc<StatementRun>,
        select: &SelectStatement,
        into: &SelectInto,
        hints: &QueryHints,
    ) -> Result<Outcome, Failure> {
        let (place, remember) = self.new_table_place(&into.name)?;
        let rows = self.in_run(run, |this| {
            // A table that does not exist yet has no indexes.
            let bind = |binder: &Binder<'_>| binder.bind_query(&select.query);
            let prepared = this.prepare(run, bind_options(hints), &bind, &Ok)?;
            let columns = new_columns(prepared.columns())?;
            let data_space = match &into.filegroup {
                Some(filegroup) => DataSpaceDefinition::Named(filegroup.value.clone()),
                None => DataSpaceDefinition::Default,
            };
            let definition = TableDefinition {
                schema: place.schema.clone(),
                name: place.name.clone(),
                columns,
                data_space,
                indexes: Vec::new(),
            };
            run.uses_database(&place.database);
            let table = place
                .database
                .database()
                .create_table(&run.context, &definition)
                .map_err(|error| error.to_sql_error().at(into.name.position()))?;
            let lock = this.lock(&run.context, &place.database, table.id, LockMode::SchemaModification)?;
            run.hold_locks(vec![lock]);
            this.note_change(|| ChangeShown {
                database: place.database.clone(),
                table: Arc::clone(&table),
                columns: None,
                rows: 0,
            });
            let target = WriteTarget::new(place.database.clone(), table, &place.schema, None)?;
            this.follow(run, &prepared, target.writes(), 1.0);
            let executor = Arc::clone(&this.environment.executor);
            Ok(prepared.insert(run, &executor, &target, true)?.rows)
        })?;
        if let Some(lower) = remember {
            self.state.temporary_tables.insert(lower, place.name);
        }
        Ok(Outcome::counted(DoneKind::SelectInto, rows))
    }

    /// Runs a bound query into a table that has the query's columns.
    pub(super) fn insert_query(
        &mut self,
        run: &Arc<StatementRun>,
        options: BindOptions,
        bind: &dyn Fn(&Binder<'_>) -> Result<BoundQuery, SqlError>,
        target: &WriteTarget,
        parallel: bool,
    ) -> Result<u64, Failure> {
        let prepared = self.prepare(run, options, bind, &|plan| insert_plan(plan, target, parallel))?;
        // A load in batches is as far as it has read its files.
        if self.file_batches.is_none() {
            self.follow(run, &prepared, target.writes(), 1.0 / (1 + target.built_behind()) as f64);
        }
        let executor = Arc::clone(&self.environment.executor);
        let inserted = prepared.insert(run, &executor, target, parallel)?;
        if inserted.has_left_indexes {
            self.definitions().build_behind_insert(run, target, inserted.rows)?;
        }
        Ok(inserted.rows)
    }

    /// Takes the rows of a plan that is about to run as steps of the statement's progress. `share` of the statement is
    /// done when they are written.
    pub(super) fn follow(&self, run: &StatementRun, prepared: &Prepared, writes: Writes, share: f64) {
        run.follow(&self.state.progress, prepared.rows(writes), writes, share);
    }

    /// Runs a query and passes its batches to `take`.
    pub(super) fn run_prepared(
        &self,
        run: &Arc<StatementRun>,
        prepared: Prepared,
        take: &mut dyn FnMut(RecordBatch) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        prepared.run(Reader::Statement, run, &self.environment.executor, take).map(|_rows| ())
    }

    /// Binds a view, so that CREATE rejects a definition with unknown names or unsupported features.
    pub(super) fn bind_view(&self, create: &CreateView) -> Result<(), Failure> {
        let run = self.new_run(None)?;
        let names = self.names(&run).of_module(ModuleKind::View);
        Binder::new(&names, BindOptions::default()).bind_view(create).map_err(Failure::of_binding)
    }

    /// Binds an inline function, so that CREATE rejects a query that cannot be used.
    pub(super) fn bind_inline_function(&self, create: &CreateFunction) -> Result<(), Failure> {
        let run = self.new_run(None)?;
        let names = self.names(&run).of_module(ModuleKind::InlineFunction);
        Binder::new(&names, BindOptions::default()).bind_inline_function(create).map_err(Failure::of_binding)
    }

    fn select_into_variables(&mut self, select: &SelectStatement, hints: &QueryHints) -> Result<Outcome, Failure> {
        let run = self.new_run(Some(hints))?;
        let assignments: RefCell<Option<BoundAssignments>> = RefCell::default();
        let bind = |binder: &Binder<'_>| {
            let bound = binder.bind_assignments(&select.query)?;
            let query = bound.query.clone();
            *assignments.borrow_mut() = Some(bound);
            Ok(query)
        };
        let rows = self.run_bound_with(
            (&run, Reader::Statement),
            bind_options(hints),
            bind,
            |_, _| Ok(()),
            |_, batch| match assignments.borrow_mut().as_mut() {
                Some(bound) => Ok(bound.take(&batch)?),
                None => Err(SqlError::internal("rows without a query").into()),
            },
        );
        if let Err(failure) = &rows
            && failure.error.number == number::NOT_SUPPORTED
            && let Some(items) = items_without_rows(&select.query)
        {
            return self.assign_in_turn(items);
        }
        let Some(bound) = assignments.into_inner() else { return rows.map(Outcome::assigned_from) };
        // Row-by-row assignments made before a later row failed are kept.
        if rows.is_ok() || bound.is_row_by_row {
            for (variable, value) in bound.values()? {
                self.frame_mut().set(&variable.value, value.value)?;
            }
        }
        rows.map(Outcome::assigned_from)
    }

    /// Performs the assignments of a `SELECT` without rows one by one, as `SET` does. There, a subquery may read
    /// variables assigned before it.
    fn assign_in_turn(&mut self, items: &[SelectItem]) -> Result<Outcome, Failure> {
        for item in items {
            if let SelectItem::Assign { variable, operator, value } = item {
                self.set_variable(variable, *operator, value, &mut Learned::Interpreted)?;
            }
        }
        Ok(Outcome::assigned_from(1))
    }
}

/// Completes a plan whose rows go to one thread.
pub(super) fn one_stream(plan: PhysicalPlan) -> Result<PhysicalPlan, SqlError> {
    Ok(gathered(plan))
}

/// The select list of a query that consists only of its select list.
fn items_without_rows(query: &Query) -> Option<&[SelectItem]> {
    let QueryBody::Select(select) = &query.body else { return None };
    let is_bare = query.with.is_empty()
        && query.order_by.is_empty()
        && query.offset.is_none()
        && select.top.is_none()
        && select.from.is_empty()
        && select.condition.is_none()
        && select.group_by.is_none()
        && select.having.is_none();
    is_bare.then_some(select.items.as_slice())
}

pub(super) fn bind_options(hints: &QueryHints) -> BindOptions {
    let join_way = hints.join_way();
    let mut options = BindOptions {
        wants_equations: matches!(join_way, JoinWay::Hash | JoinWay::Merge),
        join_way,
        permitted_joins: hints.permitted_joins(),
        keeps_order: hints.force_order,
        ..BindOptions::default()
    };
    if let Some(limit) = hints.max_recursion {
        options.max_recursion = limit;
    }
    options
}

pub(super) fn shown_columns(columns: &[BoundColumn]) -> Vec<ResultColumn> {
    let column = |column: &BoundColumn| ResultColumn {
        name: column.name.clone().unwrap_or_default(),
        sql_type: column.sql_type,
        nullable: column.nullable,
    };
    columns.iter().map(column).collect()
}

/// The columns of the table that a `SELECT … INTO` creates.
fn new_columns(columns: &[BoundColumn]) -> Result<Vec<ColumnDefinition>, SqlError> {
    let column = |column: &BoundColumn| {
        let name =
            column.name.clone().filter(|name| !name.is_empty()).ok_or_else(|| errors::EMPTY_COLUMN_NAME.error())?;
        let mut definition = ColumnDefinition::new(name, column.sql_type, column.nullable);
        definition.collation = column.collation;
        Ok(definition)
    };
    columns.iter().map(column).collect()
}

/// The first `SELECT` of a query.
fn first_select(query: &Query) -> &hobt_tsql::ast::Select {
    let mut body = &query.body;
    loop {
        body = match body {
            QueryBody::Select(select) => return select,
            QueryBody::SetOperation { first, .. } => first,
        };
    }
}

pub(super) fn assigns(query: &Query) -> bool {
    first_select(query).items.iter().any(|item| matches!(item, SelectItem::Assign { .. }))
}

pub(super) fn into_of(query: &Query) -> Option<&SelectInto> {
    first_select(query).into.as_ref()
}
