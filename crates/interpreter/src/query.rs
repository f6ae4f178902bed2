//! Queries: binding, locking, execution, and delivery of rows.
//!
//! Steps of a statement: bind → lock the tables that binding found, in the order of their ids → bind again if one of
//! them has changed → optimise → wait for the operators' memory → run → commit or undo → unlock.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use arrow::record_batch::RecordBatch;
use datafusion::execution::TaskContext;
use datafusion::execution::context::SessionState;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::ExecutionPlan;
use hobt_base::{SqlError, number};
use hobt_catalog::ModuleKind;
use hobt_engine::{ColumnDefinition, DataSpaceDefinition, TableDefinition};
use hobt_sync::processor;
use hobt_tsql::ast::{
    CreateFunction, CreateView, Query, QueryBody, SelectInto, SelectItem, SelectStatement, StatisticsKind,
};
use hobt_txn::locks::LockMode;

use super::direct::{Learned, Wanted};
use super::event::{DoneKind, Event, ResultColumn};
use super::failure::Failure;
use super::plans::ChangeShown;
use super::run::{Interpreter, Outcome};
use super::statistics;
use hobt_binder::{BindOptions, Binder, BoundAssignments, BoundQuery, QueryHints};
use hobt_operators::{MemoryGrant, MemoryRequest, MemoryWish, Sizes};
use hobt_operators::{
    Reader, WriteTarget, cancellable, gathered, insert_plan, insert_select, is_one_stream, physical_plan, run_query,
    spilling,
};
use hobt_planner::{believes_few_rows, memory_wish, optimize, session_config, session_state, sort_large_tops};
use hobt_table::{JoinWay, MemoryFigures, StatementRun, declared_width, scanned_width};
use hobt_udf::sql_error_of;

/// Rows per batch between operators.
const BATCH_ROWS: usize = 8192;
/// A query that is bound and planned, with its tables locked.
pub(super) struct Prepared {
    query: BoundQuery,
    plan: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
    /// The memory granted to its operators.
    _grant: Option<MemoryGrant>,
}

/// Completes a plan for the consumer of its rows.
pub(super) type FinishPlan<'f> = &'f dyn Fn(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>, SqlError>;

/// A query that is bound and planned.
struct Planned {
    query: BoundQuery,
    plan: Arc<dyn ExecutionPlan>,
    planner: SessionState,
    wish: MemoryWish,
    /// The least memory that its operators need, in bytes.
    least_bytes: u64,
}

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
        let mut captured: Option<Vec<ResultColumn>> = None;
        let rows = self.run_bound_with(
            (&run, Reader::Client),
            options,
            |binder| binder.bind_query(&select.query),
            |this, query| {
                let columns = shown_columns(query);
                if this.capture.is_some() {
                    captured = Some(columns);
                    return Ok(());
                }
                this.send(Event::ResultSet(columns))
            },
            |this, batch| match &mut this.capture {
                Some(capture) => {
                    capture.push(batch);
                    Ok(())
                }
                None => this.send(Event::Rows(batch)),
            },
        )?;
        if let (Some(capture), Some(columns)) = (&mut self.capture, captured) {
            capture.end(columns)?;
            return Ok(Outcome::assigned_from(rows));
        }
        self.send(Event::ResultSetDone { rows })?;
        Ok(Outcome::counted(DoneKind::Select, rows))
    }

    /// Binds and runs a query for the statement itself. `begin` receives its columns before the first row.
    pub(super) fn run_bound(
        &mut self,
        run: &Arc<StatementRun>,
        bind: impl Fn(&Binder<'_>) -> Result<BoundQuery, SqlError>,
        begin: impl FnOnce(&mut Self, &BoundQuery) -> Result<(), Failure>,
        on_batch: impl FnMut(&mut Self, RecordBatch) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        self.run_bound_with((run, Reader::Statement), BindOptions::default(), bind, begin, on_batch)
    }

    fn run_bound_with(
        &mut self,
        (run, reader): (&Arc<StatementRun>, Reader),
        options: BindOptions,
        bind: impl Fn(&Binder<'_>) -> Result<BoundQuery, SqlError>,
        begin: impl FnOnce(&mut Self, &BoundQuery) -> Result<(), Failure>,
        mut on_batch: impl FnMut(&mut Self, RecordBatch) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        self.in_run(run, |this| {
            let prepared = this.prepare(run, options, &bind)?;
            begin(this, &prepared.query)?;
            let executor = Arc::clone(&this.environment.executor);
            let mut failed = None;
            let plan = (prepared.plan, prepared.task);
            let rows = run_query(reader, (run, &executor.workers), plan, &mut |batch| {
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

    /// Binds, locks and plans a query, repeatedly until the names mean the locked tables. All rows are delivered to one
    /// thread.
    pub(super) fn prepare(
        &mut self,
        run: &Arc<StatementRun>,
        options: BindOptions,
        bind: &dyn Fn(&Binder<'_>) -> Result<BoundQuery, SqlError>,
    ) -> Result<Prepared, Failure> {
        self.prepare_with(run, options, bind, &|plan| Ok(gathered(plan)))
    }

    fn prepare_with(
        &mut self,
        run: &Arc<StatementRun>,
        options: BindOptions,
        bind: &dyn Fn(&Binder<'_>) -> Result<BoundQuery, SqlError>,
        finish: FinishPlan<'_>,
    ) -> Result<Prepared, Failure> {
        loop {
            if let Some(prepared) = self.prepare_once(run, options, bind, finish)? {
                return Ok(prepared);
            }
        }
    }

    /// Makes one attempt of [`Interpreter::prepare`]. `None` if the plan reads a whole table that must be locked as a
    /// whole for that.
    fn prepare_once(
        &mut self,
        run: &Arc<StatementRun>,
        options: BindOptions,
        bind: &dyn Fn(&Binder<'_>) -> Result<BoundQuery, SqlError>,
        finish: FinishPlan<'_>,
    ) -> Result<Option<Prepared>, Failure> {
        let (started, cpu) = (Instant::now(), processor::thread_cpu_time());
        let Some(Planned { query, plan, planner, wish, least_bytes }) = self.plan_once(run, options, bind, finish)?
        else {
            return Ok(None);
        };
        let plan = finish(plan)?;
        self.keep_plan(run, &plan);
        self.compiled = (started.elapsed(), processor::thread_cpu_time().saturating_sub(cpu));
        // The query that builds statistics is a part of the statement that needs them.
        if self.state.options.statistics(StatisticsKind::Time) && !self.is_gathering {
            self.compile_shown.0 += self.compiled.0;
            self.compile_shown.1 += self.compiled.1;
            self.send_message(statistics::compile_time(self.compiled.1, self.compiled.0))?;
        }
        let mut task = TaskContext::from(&planner);
        let mut grant = None;
        if wish.operators > 0 {
            let granted = self.let_in(run, least_bytes, wish.bytes)?;
            let runtime = &self.environment.executor.runtime;
            task =
                task.with_runtime(Arc::new(RuntimeEnv { memory_pool: granted.pool(), ..RuntimeEnv::clone(runtime) }));
            grant = Some(granted);
        }
        Ok(Some(Prepared { query, plan, task: Arc::new(task), _grant: grant }))
    }

    /// Waits for the memory of the statement's operators.
    fn let_in(&mut self, run: &Arc<StatementRun>, least: u64, ideal: u64) -> Result<MemoryGrant, Failure> {
        let figures = Arc::new(MemoryFigures::default());
        run.show_memory(&figures);
        figures.asks(least, ideal);
        let memory = &self.environment.executor.memory;
        let (from, to) = run.grant_range(memory.total());
        let most = to.max(least);
        let wanted = MemoryRequest { least, ideal: ideal.max(from).min(most), most };
        let granted = memory.enter(wanted, &figures, &run.pending, &|| self.is_cancelled());
        let granted = granted.map_err(|_| Failure::cancelled())?;
        self.note_memory(figures);
        Ok(granted)
    }

    /// Plans a query without running it.
    pub(super) fn plan(
        &mut self,
        run: &Arc<StatementRun>,
        options: BindOptions,
        bind: &dyn Fn(&Binder<'_>) -> Result<BoundQuery, SqlError>,
    ) -> Result<Arc<dyn ExecutionPlan>, Failure> {
        loop {
            if let Some(planned) = self.plan_once(run, options, bind, &Ok)? {
                return Ok(planned.plan);
            }
        }
    }

    /// Binds, locks and plans. Computes the memory for the plan that `finish` returns. `None` as in
    /// [`Interpreter::prepare_once`].
    fn plan_once(
        &mut self,
        run: &Arc<StatementRun>,
        options: BindOptions,
        bind: &dyn Fn(&Binder<'_>) -> Result<BoundQuery, SqlError>,
        finish: FinishPlan<'_>,
    ) -> Result<Option<Planned>, Failure> {
        let query = self.bind_and_lock(run, options, bind)?;
        let mut sizes = self.environment.executor.memory.sizes(run.degree());
        let planner = self.planner(run, options, sizes);
        let limit = usize::try_from(self.state.options.row_count).unwrap_or(usize::MAX);
        let plan = match limit {
            0 => query.plan.clone(),
            limit => LogicalPlanBuilder::from(query.plan.clone())
                .limit(0, Some(limit))
                .and_then(LogicalPlanBuilder::build)
                .map_err(sql_error_of)?,
        };
        let mut logical = optimize(&plan, &planner).map_err(Failure::of_binding)?;
        if self.make_statistics(&logical)? {
            // The reads for statistics are over, so the session shows the statement itself again.
            self.environment.sessions.statement_runs(self.state.id, Arc::downgrade(run));
            logical = optimize(&plan, &planner).map_err(Failure::of_binding)?;
        }
        let (mut plan, mut planner) = self.physical(run, options, sizes, &query, &logical)?;
        if run.degree() > 1 && believes_few_rows(&plan) {
            run.make_serial();
            sizes = self.environment.executor.memory.sizes(run.degree());
            (plan, planner) = self.physical(run, options, sizes, &query, &logical)?;
        }
        if is_one_stream(&plan) {
            run.make_serial();
        }
        if run.takes_whole() {
            run.context.look_again();
            return Ok(None);
        }
        let width = row_width(&query, &logical);
        let plan = sort_large_tops(plan, sizes.top_rows(width)).map_err(sql_error_of)?;
        // Operators above the query's plan need memory too.
        let wish = memory_wish(&finish(Arc::clone(&plan))?);
        let least_bytes = sizes.least_bytes(&wish, planner.config().batch_size(), width);
        let plan = spilling(cancellable(plan, run)?, run)?;
        Ok(Some(Planned { query, plan, planner, wish, least_bytes }))
    }

    /// The planner for the statement's number of workers.
    fn planner(&self, run: &StatementRun, options: BindOptions, sizes: Sizes) -> SessionState {
        let runtime = &self.environment.executor.runtime;
        let mut config = session_config(run.degree(), BATCH_ROWS);
        config.options_mut().execution.sort_spill_reservation_bytes = sizes.merge_bytes();
        session_state(config, Arc::clone(runtime), options.join_way, options.keeps_order)
    }

    /// The physical plan, and the planner that made it.
    fn physical(
        &self,
        run: &StatementRun,
        options: BindOptions,
        sizes: Sizes,
        query: &BoundQuery,
        logical: &LogicalPlan,
    ) -> Result<(Arc<dyn ExecutionPlan>, SessionState), SqlError> {
        let mut planner = self.planner(run, options, sizes);
        // Some operators are built for a batch size, others read it when they start. The width of the rows is only
        // known from the plan.
        let width = row_width(query, logical);
        let rows = sizes.batch_rows(width, BATCH_ROWS);
        *planner.config_mut() = std::mem::take(planner.config_mut()).with_batch_size(rows);
        if rows < BATCH_ROWS {
            // When a sort handles its input as one batch, it counts the memory once for each resulting batch, because
            // batches of texts share their buffers.
            let bytes = rows.saturating_mul(width);
            planner.config_mut().options_mut().execution.sort_in_place_threshold_bytes = bytes;
        }
        Ok((physical_plan(&planner, logical)?, planner))
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
            let prepared = this.prepare_with(run, bind_options(hints), &bind, &Ok)?;
            let columns = new_columns(&prepared.query)?;
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
            let executor = Arc::clone(&this.environment.executor);
            Ok(insert_select(run, &executor.workers, prepared.plan, &prepared.task, &target, true)?)
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
        let prepared = self.prepare_with(run, options, bind, &|plan| insert_plan(plan, target, parallel))?;
        let executor = Arc::clone(&self.environment.executor);
        Ok(insert_select(run, &executor.workers, prepared.plan, &prepared.task, target, parallel)?)
    }

    /// Runs a query and passes its batches to `take`.
    pub(super) fn run_prepared(
        &self,
        run: &Arc<StatementRun>,
        prepared: Prepared,
        take: &mut dyn FnMut(RecordBatch) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let workers = &self.environment.executor.workers;
        run_query(Reader::Statement, (run, workers), (prepared.plan, prepared.task), take).map(|_rows| ())
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

pub(super) fn shown_columns(query: &BoundQuery) -> Vec<ResultColumn> {
    let column = |column: &hobt_binder::ResultColumn| ResultColumn {
        name: column.name.clone().unwrap_or_default(),
        sql_type: column.sql_type,
        nullable: column.nullable,
    };
    query.columns.iter().map(column).collect()
}

/// The columns of the table that a `SELECT … INTO` creates.
fn new_columns(query: &BoundQuery) -> Result<Vec<ColumnDefinition>, SqlError> {
    let column = |column: &hobt_binder::ResultColumn| {
        let name = column.name.clone().filter(|name| !name.is_empty()).ok_or_else(|| {
            let text = "An object or column name is missing or empty. For SELECT INTO statements, verify each column has a \
                        name. For other statements, look for empty alias names. Aliases defined as \"\" or [] are not \
                        allowed. Change the alias to a valid name.";
            SqlError::new(number::EMPTY_NAME, text)
        })?;
        let mut definition = ColumnDefinition::new(name, column.sql_type, column.nullable);
        definition.collation = column.collation;
        Ok(definition)
    };
    query.columns.iter().map(column).collect()
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

/// The approximate width of a query's widest rows, in bytes: of the tables that it reads, or of its result. Texts count
/// with half of their maximum length, a `max` type with as much as the longest other types.
fn row_width(query: &BoundQuery, optimized: &LogicalPlan) -> usize {
    const LONG: usize = 8000;
    let made = query.columns.iter().map(|column| declared_width(column.sql_type).min(LONG) / 2).sum();
    scanned_width(optimized).max(made)
}
