//! From a bound query to a plan that runs.
//!
//! ```text
//!   bound query ─► Planning: optimised ──► Planned: physical, with the memory that it asks for ──► Prepared ─► rows
//!                              │ the columns whose statistics it wants                  └─► KeptQuery
//!                              └─► if any are made, the query is bound again
//! ```
//! Leaves to others: the statistics, the admission to the memory, and what is done with the rows.

use std::cell::RefCell;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use arrow::record_batch::RecordBatch;
use datafusion::execution::TaskContext;
use datafusion::execution::context::SessionState;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::ExecutionPlan;
use hobt_base::SqlError;
use hobt_binder::{BindOptions, BoundQuery, ResultColumn};
use hobt_operators::{
    Executor, Inserted, KeptPlan, KeptUse, MemoryGrant, MemoryWish, Reader, Sizes, WriteTarget, cancellable, choosing,
    connecting_spools, grouping_few, insert_select, is_one_stream, physical_plan, run_query, sorting_short_batches,
    spilling, spilling_windows, without_role,
};
use hobt_table::{
    Parameters, PlanRows, StatementRun, WantedColumn, Writes, declared_width, scanned_width, wanted_columns,
};
use hobt_udf::sql_error_of;

use crate::expected::Expectations;
use crate::explain::memory_wish;
use crate::index_join::believes_few_rows;
use crate::kept_query::{Found, KeptQuery, sorted_first, written};
use crate::large_top::sort_large_tops;
use crate::plan_rows::plan_rows;
use crate::session::{optimize, session_config, session_state};

/// Rows per batch between operators.
pub(crate) const BATCH_ROWS: usize = 8192;

/// What a sort counts at least for a row with a text that lies in a buffer: the view of 16 bytes and 13 more, twice.
const LEAST_TEXT_ROW_BYTES: usize = 58;

/// The operators of a plan.
pub type PhysicalPlan = Arc<dyn ExecutionPlan>;

/// Completes a plan for the consumer of its rows.
pub type FinishPlan<'f> = &'f dyn Fn(PhysicalPlan) -> Result<PhysicalPlan, SqlError>;

/// A bound query that is optimised.
pub struct Planning {
    /// The degree of parallelism at the beginning.
    degree: usize,
    executor: Arc<Executor>,
    run: Arc<StatementRun>,
    options: BindOptions,
    query: BoundQuery,
    sizes: Sizes,
    /// Of the optimiser; the first physical plan is made with it.
    session: Option<SessionState>,
    optimized: LogicalPlan,
    parameters: Parameters,
}

impl Planning {
    /// Optimises a query, of which at most `rows_max` rows are wanted; 0 is all.
    ///
    /// # Errors
    /// Those of the rules; "not supported" for a correlation that no rule turns into a join.
    pub fn of(
        executor: &Arc<Executor>,
        run: &Arc<StatementRun>,
        options: BindOptions,
        query: BoundQuery,
        rows_max: u64,
    ) -> Result<Planning, SqlError> {
        let sizes = executor.memory().sizes(run.degree());
        let session = session_of(executor, run, options, sizes);
        let plan = match usize::try_from(rows_max).unwrap_or(usize::MAX) {
            0 => query.plan.clone(),
            limit => LogicalPlanBuilder::from(query.plan.clone())
                .limit(0, Some(limit))
                .and_then(LogicalPlanBuilder::build)
                .map_err(sql_error_of)?,
        };
        let (optimized, parameters) = optimize(&plan, &session)?;
        let (degree, executor, run) = (run.degree(), Arc::clone(executor), Arc::clone(run));
        Ok(Planning { degree, executor, run, options, query, sizes, session: Some(session), optimized, parameters })
    }

    /// The columns whose statistics its estimates want.
    pub fn wanted_columns(&self) -> Vec<WantedColumn> {
        wanted_columns(&self.optimized)
    }

    /// Makes the physical plan, which `finish` completes, and with `keeps` what can be kept of it. `None` if the plan
    /// reads a whole table that must be locked as a whole for that: the query has to be bound again. Also finds out
    /// whether the plan is that of `other` but for the values of its parameters.
    ///
    /// # Errors
    /// The planner's errors, as the user sees them.
    pub fn physical(
        mut self,
        finish: FinishPlan<'_>,
        keeps: bool,
        other: Option<&KeptQuery>,
    ) -> Result<Option<Planned>, SqlError> {
        let (mut plan, mut session) = self.physical_for(self.sizes)?;
        let mut sizes = self.sizes;
        if self.run.degree() > 1 && believes_few_rows(&plan) {
            self.run.make_serial();
            sizes = self.executor.memory().sizes(self.run.degree());
            (plan, session) = self.physical_for(sizes)?;
        }
        if is_one_stream(&plan) {
            self.run.make_serial();
        }
        if self.run.takes_whole() {
            self.run.context.look_again();
            return Ok(None);
        }
        let width = self.row_width();
        let plan = sort_large_tops(plan, sizes.top_rows(width)).map_err(sql_error_of)?;
        // What a table that is locked as a whole was read by is not what the next execution begins with.
        let keeps = keeps && self.query.is_cacheable && !self.run.asks_for_whole();
        let kept = if keeps { KeptPlan::of(&plan) } else { None };
        let is_alike = match (&kept, other) {
            (Some((kept, tables)), Some(other)) => Some(other.is_made_alike(kept, tables)?),
            (None, Some(_)) => Some(false),
            (_, None) => None,
        };
        let kept = kept.map(|(kept, _)| {
            let occur =
                |(name, count): (&String, &usize)| kept.parameters().get(name).is_some_and(|in_plan| in_plan >= count);
            let has_all = self.parameters.counts.iter().all(occur);
            let parameters = if has_all { std::mem::take(&mut self.parameters) } else { Parameters::default() };
            let hash = if parameters.values.is_empty() { 0 } else { written(&plan) };
            (kept, sorted_first(&plan), parameters, hash)
        });
        // Operators above the query's plan need memory too.
        let plan = finish(plan)?;
        let wish = memory_wish(&plan);
        let least_bytes = sizes.least_bytes(&wish, session.config().batch_size(), width);
        let (expectations, expected) = (Expectations::default(), RefCell::new(Vec::new()));
        let plan = for_run(plan, &self.run, &|node| {
            let rows = expectations.of(node).rows;
            expected.borrow_mut().push(rows);
            rows
        })?;
        debug_assert_eq!(without_role(&plan), None, "give the operator a role (hobt_operators::role)");
        let columns: Arc<[ResultColumn]> = self.query.columns.as_slice().into();
        let kept = kept.map(|(plan, sorted_first, parameters, written)| {
            let (config, run, degree) = (session.config(), self.run.as_ref(), self.degree);
            let (expected, wanted) = (expected.into_inner(), self.wanted_columns());
            let columns = &columns;
            KeptQuery::of(Found {
                plan,
                columns,
                config,
                degree,
                run,
                sizes,
                width,
                wish,
                expected,
                wanted,
                sorted_first,
                parameters,
                written,
            })
        });
        let task = TaskContext::from(&session);
        Ok(Some(Planned { columns, plan, task, wish, least_bytes, kept, is_alike, in_use: None }))
    }

    /// The physical plan, and the session that made it.
    fn physical_for(&mut self, sizes: Sizes) -> Result<(PhysicalPlan, SessionState), SqlError> {
        let of_optimizer = self.session.take();
        let mut session = of_optimizer.unwrap_or_else(|| session_of(&self.executor, &self.run, self.options, sizes));
        // Some operators are built for a batch size, others read it when they start. The width of the rows is only
        // known from the plan.
        let width = self.row_width();
        let rows = sizes.batch_rows(width, BATCH_ROWS);
        *session.config_mut() = std::mem::take(session.config_mut()).with_batch_size(rows);
        // When a sort handles its input as one batch, it counts the memory once for each resulting batch, because
        // batches of texts share their buffers. So what it handles at once has to be no more than one batch.
        if has_texts(&self.optimized) {
            let in_place = &mut session.config_mut().options_mut().execution.sort_in_place_threshold_bytes;
            *in_place = rows.saturating_mul(LEAST_TEXT_ROW_BYTES).min(*in_place);
        }
        Ok((physical_plan(&session, &self.optimized)?, session))
    }

    /// The approximate width of the query's widest rows, in bytes: of the tables that it reads, or of its result. Texts
    /// count with half of their maximum length, a `max` type with as much as the longest other types.
    fn row_width(&self) -> usize {
        const LONG: usize = 8000;
        let columns = self.query.columns.iter();
        let made = columns.map(|column| declared_width(column.sql_type).min(LONG) / 2).sum();
        scanned_width(&self.optimized).max(made)
    }
}

/// Whether rows have texts anywhere in a plan, or binary values, which are like them.
fn has_texts(plan: &LogicalPlan) -> bool {
    let is_view = |field: &Arc<Field>| matches!(field.data_type(), DataType::Utf8View | DataType::BinaryView);
    plan.schema().fields().iter().any(is_view) || plan.inputs().into_iter().any(has_texts)
}

/// The session of DataFusion for the statement's number of workers.
fn session_of(executor: &Executor, run: &StatementRun, options: BindOptions, sizes: Sizes) -> SessionState {
    let mut config = session_config(run.degree(), BATCH_ROWS);
    config.options_mut().execution.sort_spill_reservation_bytes = sizes.merge_bytes();
    session_state(config, Arc::clone(executor.runtime()), options.join_way, options.keeps_order)
}

/// A plan with the operators that it needs to run for the statement `run`: they stop, spill, and aggregate few groups.
/// `expected` tells how many rows an aggregation, or its input, is expected to give.
pub(crate) fn for_run(
    plan: PhysicalPlan,
    run: &Arc<StatementRun>,
    expected: &dyn Fn(&PhysicalPlan) -> f64,
) -> Result<PhysicalPlan, SqlError> {
    let plan = choosing(spilling(cancellable(plan, run)?, run)?)?;
    let plan = grouping_few(plan, expected)?;
    let plan = sorting_short_batches(spilling_windows(plan, run)?)?;
    // Last: all places that read a spool's rows share the operators that compute them.
    connecting_spools(plan, run)
}

/// A query with its physical plan.
pub struct Planned {
    pub(crate) columns: Arc<[ResultColumn]>,
    pub(crate) plan: PhysicalPlan,
    pub(crate) task: TaskContext,
    pub(crate) wish: MemoryWish,
    /// The least memory that its operators need, in bytes.
    pub(crate) least_bytes: u64,
    /// What can be kept of it.
    pub(crate) kept: Option<KeptQuery>,
    /// Whether it is the plan of another execution but for the values of parameters, if it was compared.
    pub(crate) is_alike: Option<bool>,
    /// Its use of a kept plan.
    pub(crate) in_use: Option<KeptUse>,
}

impl Planned {
    /// The plan.
    pub fn plan(&self) -> &PhysicalPlan {
        &self.plan
    }

    /// Whether it is the plan of another execution but for the values of parameters, if it was compared.
    pub fn is_alike(&self) -> Option<bool> {
        self.is_alike
    }

    /// Takes what can be kept of it for other executions.
    pub fn take_kept(&mut self) -> Option<KeptQuery> {
        self.kept.take()
    }

    /// The least and the ideal memory of its operators, in bytes; `None` if they keep almost nothing.
    pub fn memory(&self) -> Option<(u64, u64)> {
        (self.wish.operators > 0).then_some((self.least_bytes, self.wish.bytes))
    }

    /// The query as it runs, with the memory that it was granted.
    pub fn prepared(self, executor: &Executor, grant: Option<MemoryGrant>) -> Prepared {
        let mut task = self.task;
        if let Some(grant) = &grant {
            let runtime = RuntimeEnv { memory_pool: grant.pool(), ..RuntimeEnv::clone(executor.runtime()) };
            task = task.with_runtime(Arc::new(runtime));
        }
        Prepared { columns: self.columns, plan: self.plan, task: Arc::new(task), _grant: grant, _in_use: self.in_use }
    }
}

/// A query that is ready to run.
pub struct Prepared {
    columns: Arc<[ResultColumn]>,
    plan: PhysicalPlan,
    task: Arc<TaskContext>,
    /// The memory granted to its operators.
    _grant: Option<MemoryGrant>,
    _in_use: Option<KeptUse>,
}

impl Prepared {
    /// The columns of its result.
    pub fn columns(&self) -> &[ResultColumn] {
        &self.columns
    }

    /// The rows that it reads, and those that it gives to be written, as estimated.
    pub fn rows(&self, writes: Writes) -> PlanRows {
        plan_rows(&self.plan, writes)
    }

    /// Runs the query and hands its batches to `on_batch`, which may stop it by an error. Blocks until the last worker
    /// has released the plan. Returns the number of rows.
    ///
    /// # Errors
    /// The first error of the plan or of `on_batch`; the cancellation of the statement.
    pub fn run(
        self,
        reader: Reader,
        run: &Arc<StatementRun>,
        executor: &Executor,
        on_batch: &mut dyn FnMut(RecordBatch) -> Result<(), SqlError>,
    ) -> Result<u64, SqlError> {
        run_query(reader, (run, executor.workers()), (self.plan, self.task), on_batch)
    }

    /// Runs the query, whose plan `insert_plan` has completed, and writes its rows into `target`.
    ///
    /// # Errors
    /// The plan's, and those of the insert.
    pub fn insert(
        self,
        run: &Arc<StatementRun>,
        executor: &Executor,
        target: &WriteTarget,
        parallel: bool,
    ) -> Result<Inserted, SqlError> {
        insert_select(run, executor.workers(), self.plan, &self.task, target, parallel)
    }
}
