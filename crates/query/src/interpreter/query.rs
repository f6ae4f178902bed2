//! Queries: binding, locking, running, and where their rows go.
//!
//! A statement's way: bind → lock the tables that binding found, in the order of their ids → bind again if one of them
//! changed meanwhile → optimise → wait for the operators' memory → run → commit, or undo → unlock.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::record_batch::RecordBatch;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::ExecutionPlan;
use hobt_base::{SqlError, number};
use hobt_engine::{ColumnDefinition, DataSpaceDefinition, IsolationOption, TableDefinition};
use hobt_sync::{processor, waits};
use hobt_tsql::ast::{
    CreateView, IsolationLevel, Query, QueryBody, SelectInto, SelectItem, SelectStatement, StatisticsKind,
};
use hobt_txn::locks::LockMode;

use super::direct::{Learned, Wanted};
use super::event::{DoneKind, Event, ResultColumn, StatementStatistics, TableReads};
use super::failure::Failure;
use super::memory::{MemoryGrant, batch_rows, merge_bytes, top_rows};
use super::names::UsedTable;
use super::reading::{begun_otherwise, changed_since, is_private, snapshot_not_allowed};
use super::run::{Interpreter, Outcome};
use super::statistics;
use super::transaction::OpenTransaction;
use crate::binder::{
    BindOptions, Binder, BoundAssignments, BoundQuery, QueryHints, optimize, session_config, session_state,
};
use crate::execute::{
    InsertTarget, JoinWay, StatementRun, cancellable, insert_select, physical_plan, run_query, sort_large_tops,
};
use crate::source::{declared_width, scanned_width};
use crate::wrap::sql_error_of;

/// Rows of a batch between operators.
const BATCH_ROWS: usize = 8192;
/// Trace flag 652: no read-ahead.
const NO_READ_AHEAD: i32 = 652;
/// How often a statement is bound again because a table changed before its lock was granted.
pub(super) const BIND_ATTEMPTS: usize = 20;

/// A query that is bound and planned, with its tables locked.
pub(super) struct Prepared {
    query: BoundQuery,
    plan: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
    /// The statement's place among those whose operators keep rows in memory.
    _grant: Option<MemoryGrant>,
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
            &run,
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

    /// A statement of this session that is about to run: a part of its open transaction, unless it changes a table
    /// variable.
    ///
    /// # Errors
    /// 6005: the instance is being closed.
    pub(super) fn new_run(&self, hints: Option<&QueryHints>) -> Result<Arc<StatementRun>, SqlError> {
        let max_dop = hints.and_then(|hints| hints.maxdop).map(|dop| dop as usize);
        let flagged = hints.is_some_and(|hints| hints.trace_flags.contains(&i64::from(NO_READ_AHEAD)));
        let no_read_ahead = flagged || self.state.trace_flags.contains(&NO_READ_AHEAD);
        let open = self.state.transaction.as_ref().filter(|_| !self.changes_variable);
        StatementRun::of(
            open.map(OpenTransaction::transaction),
            &self.environment.instance,
            self.state.id,
            max_dop,
            Arc::clone(&self.cancelled),
            no_read_ahead,
        )
    }

    /// Binds and runs a query in its statement; `begin` learns its columns before the first row.
    pub(super) fn run_bound(
        &mut self,
        run: &Arc<StatementRun>,
        bind: impl Fn(&Binder<'_>) -> Result<BoundQuery, SqlError>,
        begin: impl FnOnce(&mut Self, &BoundQuery) -> Result<(), Failure>,
        on_batch: impl FnMut(&mut Self, RecordBatch) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        self.run_bound_with(run, BindOptions::default(), bind, begin, on_batch)
    }

    fn run_bound_with(
        &mut self,
        run: &Arc<StatementRun>,
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
            let rows = run_query(run, &executor.workers, prepared.plan, prepared.task, &mut |batch| {
                on_batch(this, batch).map_err(|failure| {
                    let error = failure.error.clone();
                    failed = Some(failure);
                    error
                })
            });
            // The failure of the sink says more than the error that stopped the plan.
            rows.map_err(|error| failed.take().unwrap_or_else(|| error.into()))
        })
    }

    /// Runs `body` as the statement `run`: its waits are counted, what it did is kept or undone, its cost is noted.
    pub(super) fn in_run<R>(
        &mut self,
        run: &Arc<StatementRun>,
        body: impl FnOnce(&mut Self) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.note_direct_cost();
        let (started, cpu) = (Instant::now(), processor::thread_cpu_time());
        let session = self.state.id;
        run.context.lock_owner().begin_statement(Some(Arc::clone(&self.text)));
        self.environment.sessions.statement_runs(session, Arc::downgrade(run));
        let counters = waits::set_statement_counters(Some(Arc::clone(&run.waits)));
        let result = body(self);
        if let (Some(open), true) = (&self.state.transaction, run.context.is_in_transaction()) {
            run.databases().iter().for_each(|database| open.uses_database(database));
        }
        let ended = run.end(result.is_ok());
        drop(counters);
        let cpu = processor::thread_cpu_time().saturating_sub(cpu);
        let (compile, compile_cpu) = std::mem::take(&mut self.compiled);
        let cost = StatementStatistics { compile, compile_cpu, ..cost_of(run, started.elapsed(), cpu) };
        self.state.waits.absorb(&run.waits);
        self.environment.sessions.statement_ends(session, &cost, run.profiles());
        self.cost = Some(Box::new(cost));
        // That it could not be ended says more than why it failed.
        ended?;
        result
    }

    /// Binds until the tables that were found are the ones that are locked.
    pub(super) fn prepare(
        &mut self,
        run: &Arc<StatementRun>,
        options: BindOptions,
        bind: &dyn Fn(&Binder<'_>) -> Result<BoundQuery, SqlError>,
    ) -> Result<Prepared, Failure> {
        loop {
            if let Some(prepared) = self.prepare_once(run, options, bind)? {
                return Ok(prepared);
            }
        }
    }

    /// The same; `None` if the plan reads all of a table that is to be locked as a whole for that.
    fn prepare_once(
        &mut self,
        run: &Arc<StatementRun>,
        options: BindOptions,
        bind: &dyn Fn(&Binder<'_>) -> Result<BoundQuery, SqlError>,
    ) -> Result<Option<Prepared>, Failure> {
        let (started, cpu) = (Instant::now(), processor::thread_cpu_time());
        let query = self.bind_and_lock(run, options, bind)?;
        let executor = &self.environment.executor;
        let mut config = session_config(run.degree(), BATCH_ROWS);
        config.options_mut().execution.sort_spill_reservation_bytes = merge_bytes(&executor.runtime, run.degree());
        let mut planner = session_state(config, Arc::clone(&executor.runtime), options.join_way);
        let limit = usize::try_from(self.state.options.row_count).unwrap_or(usize::MAX);
        let plan = match limit {
            0 => query.plan.clone(),
            limit => LogicalPlanBuilder::from(query.plan.clone())
                .limit(0, Some(limit))
                .and_then(LogicalPlanBuilder::build)
                .map_err(sql_error_of)?,
        };
        let logical = optimize(&plan, &planner).map_err(Failure::of_binding)?;
        // Some operators are made for a batch size and others ask for it when they start. Only the plan says how wide its
        // rows are.
        let width = row_width(&query, &logical);
        let rows = batch_rows(&executor.runtime, run.degree(), width, BATCH_ROWS);
        *planner.config_mut() = std::mem::take(planner.config_mut()).with_batch_size(rows);
        let plan = physical_plan(&planner, &logical)?;
        if run.takes_whole() {
            return Ok(None);
        }
        let plan = sort_large_tops(plan, top_rows(&executor.runtime, run.degree(), width)).map_err(sql_error_of)?;
        let plan = cancellable(plan, run)?;
        self.compiled = (started.elapsed(), processor::thread_cpu_time().saturating_sub(cpu));
        if self.state.options.statistics(StatisticsKind::Time) {
            self.send_message(statistics::compile_time(self.compiled.1, self.compiled.0))?;
        }
        let grant = executor.gate.enter(&logical, &|| self.is_cancelled()).map_err(|_| Failure::cancelled())?;
        Ok(Some(Prepared { query, plan, task: planner.task_ctx(), _grant: grant }))
    }

    /// Binds, and locks the tables that were named.
    pub(super) fn bind_and_lock<B>(
        &mut self,
        run: &Arc<StatementRun>,
        options: BindOptions,
        bind: &dyn Fn(&Binder<'_>) -> Result<B, SqlError>,
    ) -> Result<B, Failure> {
        for _ in 0..BIND_ATTEMPTS {
            let names = self.names(run);
            let bound = bind(&Binder::new(&names, options)).map_err(Failure::of_binding)?;
            let used = names.into_used();
            if self.lock_tables(run, used)? {
                return Ok(bound);
            }
        }
        Err(definition_changed().into())
    }

    /// Locks tables, until the statement has ended or, where they are changed or the reader wants that, until its
    /// transaction has: each once, in a mode as strong as all that were asked for, in an order that is the same for all
    /// statements. `false`, and nothing is locked, if one of them is another table by now.
    pub(super) fn lock_tables(&self, run: &Arc<StatementRun>, mut used: Vec<UsedTable>) -> Result<bool, Failure> {
        let resource = |used: &UsedTable| (used.database.id(), used.table.id);
        used.sort_by_key(resource);
        let (mut kept, mut brief) = (Vec::new(), Vec::new());
        // What a statement beside the transaction reads for good is the transaction's to keep.
        let open = self.state.transaction.as_ref().map(OpenTransaction::transaction);
        for same in used.chunk_by(|one, other| resource(one) == resource(other)) {
            let (database, table) = (&same[0].database, same[0].table.id);
            run.uses_database(database);
            let mode = same.iter().fold(same[0].mode, |mode, used| mode.combined(used.mode));
            let timeout = self.lock_timeout(same);
            if same.iter().any(|used| used.is_kept) {
                if let (Some(open), true) = (&self.state.transaction, run.context.is_in_transaction()) {
                    open.changes_in_tempdb(&same[0].table.name);
                }
                let owner = open.map_or(run.context.lock_owner(), |open| open.lock_owner());
                kept.push(self.lock_for(owner, database, table, mode, timeout)?);
            } else {
                brief.push(self.lock_for(run.context.lock_owner(), database, table, mode, timeout)?);
            }
        }
        let current = used.iter().all(is_current);
        if current {
            self.check_snapshot(run, &used)?;
            for same in used.chunk_by(|one, other| resource(one) == resource(other)) {
                self.list_row_locks(run, same);
            }
            self.wait_for_inserts(run, &used)?;
            run.hold_locks_for_statement(brief);
            match open {
                Some(open) => open.hold(kept),
                None => run.hold_locks(kept),
            }
        }
        Ok(current)
    }

    /// How long a statement waits for a lock of a table; `same` are all its uses of it.
    pub(super) fn lock_timeout(&self, same: &[UsedTable]) -> Option<Duration> {
        match same.iter().any(|used| used.waits_for_nobody) {
            true => Some(Duration::ZERO),
            false => self.state.options.lock_timeout,
        }
    }

    /// Whether tables, which are locked, may be used under the isolation level that is in force.
    fn check_snapshot(&self, run: &Arc<StatementRun>, used: &[UsedTable]) -> Result<(), SqlError> {
        let is_snapshot = self.state.options.isolation == IsolationLevel::Snapshot;
        let mut shared = used.iter().filter(|used| !is_private(&used.database, &used.table)).peekable();
        let Some(first) = shared.peek() else { return Ok(()) };
        let began_otherwise = match &self.state.transaction {
            Some(open) => !open.began_in_snapshot(is_snapshot) && is_snapshot,
            None => false,
        };
        if began_otherwise {
            return Err(begun_otherwise(&first.database));
        }
        for used in shared {
            // What a statement changes it does not read as it was, but it is bound to what its transaction sees.
            let is_of_snapshot = used.is_of_snapshot || (is_snapshot && used.is_kept);
            if !is_of_snapshot {
                continue;
            }
            if !used.database.isolation().has(IsolationOption::AllowSnapshot) {
                return Err(snapshot_not_allowed(&used.database));
            }
            let transaction = self.state.transaction.as_ref().map(OpenTransaction::transaction);
            let seen = transaction.unwrap_or(run.context.transaction()).snapshot();
            if seen.is_some_and(|seen| !used.database.has_seen_definition(used.table.id, &seen)) {
                return Err(changed_since(&used.database));
            }
        }
        Ok(())
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
            let prepared = this.prepare(run, bind_options(hints), &|binder| binder.bind_query(&select.query))?;
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
            let target = InsertTarget::new(place.database.clone(), table, &place.schema, None)?;
            let executor = Arc::clone(&this.environment.executor);
            Ok(insert_select(run, &executor.workers, prepared.plan, &prepared.task, &target, true)?)
        })?;
        if let Some(lower) = remember {
            self.state.temporary_tables.insert(lower, place.name);
        }
        Ok(Outcome::counted(DoneKind::SelectInto, rows))
    }

    /// Runs a bound query into a table whose columns are the query's.
    pub(super) fn insert_query(
        &mut self,
        run: &Arc<StatementRun>,
        options: BindOptions,
        bind: &dyn Fn(&Binder<'_>) -> Result<BoundQuery, SqlError>,
        target: &InsertTarget,
        parallel: bool,
    ) -> Result<u64, Failure> {
        let prepared = self.prepare(run, options, bind)?;
        let executor = Arc::clone(&self.environment.executor);
        Ok(insert_select(run, &executor.workers, prepared.plan, &prepared.task, target, parallel)?)
    }

    /// Runs a query and hands its batches to `take`.
    pub(super) fn run_prepared(
        &self,
        run: &Arc<StatementRun>,
        prepared: Prepared,
        take: &mut dyn FnMut(RecordBatch) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let workers = &self.environment.executor.workers;
        run_query(run, workers, prepared.plan, prepared.task, take).map(|_rows| ())
    }

    /// Binds a view, so that a definition which names what is not there, or cannot be used, is refused at once.
    pub(super) fn bind_view(&self, create: &CreateView) -> Result<(), Failure> {
        let run = self.new_run(None)?;
        let names = self.names(&run);
        Binder::new(&names, BindOptions::default()).bind_view(create).map_err(Failure::of_binding)
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
            &run,
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
        // What was computed row by row was assigned before a later row failed.
        if rows.is_ok() || bound.is_row_by_row {
            for (variable, value) in bound.values()? {
                self.frame_mut().set(&variable.value, value.value)?;
            }
        }
        rows.map(Outcome::assigned_from)
    }

    /// The assignments of a `SELECT` without rows, one after the other as `SET` does them: there a subquery may read what
    /// was assigned before it.
    fn assign_in_turn(&mut self, items: &[SelectItem]) -> Result<Outcome, Failure> {
        for item in items {
            if let SelectItem::Assign { variable, operator, value } = item {
                self.set_variable(variable, *operator, value, &mut Learned::Interpreted)?;
            }
        }
        Ok(Outcome::assigned_from(1))
    }
}

/// The select list of a query that is nothing but its select list.
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

/// The tables of a statement changed faster than it could be compiled.
pub(super) fn definition_changed() -> SqlError {
    let text = "The definition of a table changed again and again while the statement was compiled.";
    SqlError::new(number::DEFINITION_CHANGED, text)
}

/// Whether the table is still the one of the catalog, now that it is locked.
fn is_current(used: &UsedTable) -> bool {
    used.database.snapshot().tables.get(&used.table.id).is_some_and(|table| Arc::ptr_eq(table, &used.table))
}

pub(super) fn bind_options(hints: &QueryHints) -> BindOptions {
    let join_way = hints.join_way();
    let mut options = BindOptions { hash_joins: join_way == JoinWay::Hash, join_way, ..BindOptions::default() };
    if let Some(limit) = hints.max_recursion {
        options.max_recursion = limit;
    }
    options
}

pub(super) fn shown_columns(query: &BoundQuery) -> Vec<ResultColumn> {
    let column = |column: &crate::binder::ResultColumn| ResultColumn {
        name: column.name.clone().unwrap_or_default(),
        sql_type: column.sql_type,
        nullable: column.nullable,
    };
    query.columns.iter().map(column).collect()
}

/// The columns of the table that a `SELECT … INTO` makes.
fn new_columns(query: &BoundQuery) -> Result<Vec<ColumnDefinition>, SqlError> {
    let column = |column: &crate::binder::ResultColumn| {
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

/// What a finished statement cost; `cpu` is that of the session's own thread.
fn cost_of(run: &StatementRun, elapsed: Duration, cpu: Duration) -> StatementStatistics {
    use std::sync::atomic::Ordering::Relaxed;
    let reads = run.table_counts().into_iter().map(|(table, counts)| TableReads {
        table,
        scans: counts.scans.load(Relaxed),
        logical: counts.logical_reads.load(Relaxed),
        physical: counts.physical_reads.load(Relaxed),
        read_ahead: counts.read_ahead_reads.load(Relaxed),
        lob_logical: counts.lob_logical_reads.load(Relaxed),
        lob_physical: counts.lob_physical_reads.load(Relaxed),
    });
    let waits = run
        .waits
        .rows()
        .into_iter()
        .map(|row| (row.wait_type.name(), row.waiting_tasks_count, Duration::from_nanos(row.wait_time_ns)));
    let widest = run.profiles().into_iter().map(|profile| profile.rows()).max_by_key(|rows| rows.iter().sum::<u64>());
    StatementStatistics {
        elapsed,
        cpu: cpu + run.worker_report().cpu_total(),
        degree_of_parallelism: run.degree(),
        reads: reads.collect(),
        waits: waits.collect(),
        rows_per_worker: widest.unwrap_or_default(),
        ..StatementStatistics::default()
    }
}

/// About how many bytes a row of a query has at its widest: of the tables that it reads, or of what it makes of them, where
/// a text is taken to be half as long as it may be, and a `max` type as long as the others may be.
fn row_width(query: &BoundQuery, optimized: &LogicalPlan) -> usize {
    const LONG: usize = 8000;
    let made = query.columns.iter().map(|column| declared_width(column.sql_type).min(LONG) / 2).sum();
    scanned_width(optimized).max(made)
}
