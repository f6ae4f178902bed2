//! A query's plan between its executions.
//!
//! What is kept is the plan before the operators are put into it that stop, spill or count few groups for one
//! execution. The estimates that these need, and the plan's wish for memory, are kept beside it.
//!
//! Leaves to others: whether the plan still holds (`hobt-interpreter`), the operators (`hobt_operators::KeptPlan`).

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::displayable;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::prelude::SessionConfig;
use hobt_base::{DatabaseId, SqlError};
use hobt_binder::{ResultColumn, reads_of};
use hobt_catalog::{Statistics, Table};
use hobt_operators::{Executor, KeptPlan, MemoryWish, Sizes};
use hobt_table::{KeptTable, ParameterValues, Parameters, StatementRun, TableRead, WantedColumn};

use crate::prepare::{BATCH_ROWS, FinishPlan, PhysicalPlan, Planned, for_run};

/// About how many bytes an operator takes in a kept plan, with its expressions, names and estimates. By the growth of
/// the process over 260 plans of a join with groups it is 4 to 5 KB.
const OPERATOR_BYTES: u64 = 6 << 10;

/// A query that is planned, without its statement.
#[derive(Debug)]
pub struct KeptQuery {
    plan: KeptPlan,
    columns: Arc<[ResultColumn]>,
    config: SessionConfig,
    /// The degree of parallelism that it was planned for, and whether one worker turned out to be enough.
    degree: usize,
    is_serial: bool,
    sizes: Sizes,
    width: usize,
    wish: MemoryWish,
    /// The rows that were expected of aggregations and their inputs, in the order in which `for_run` asks for them.
    expected: Vec<f64>,
    /// The columns whose statistics its estimates wanted.
    wanted: Vec<(DatabaseId, Arc<Table>, usize)>,
    /// The statistics that its estimates read.
    statistics: Vec<(DatabaseId, Arc<Table>, Arc<Statistics>)>,
    /// The most rows that one of its sorts keeps in memory.
    sorted_first: usize,
    /// Its parameters. None if it can be made for these values alone.
    parameters: Parameters,
    /// The hash of what is written of the plan with these values, constants included. 0 if it has no parameters.
    written: u64,
}

/// What planning has found out, as far as it outlives its statement.
pub(crate) struct Found<'p> {
    pub(crate) plan: KeptPlan,
    pub(crate) columns: &'p Arc<[ResultColumn]>,
    pub(crate) config: &'p SessionConfig,
    pub(crate) degree: usize,
    pub(crate) run: &'p StatementRun,
    pub(crate) sizes: Sizes,
    pub(crate) width: usize,
    pub(crate) wish: MemoryWish,
    pub(crate) expected: Vec<f64>,
    pub(crate) wanted: Vec<WantedColumn>,
    pub(crate) sorted_first: usize,
    pub(crate) parameters: Parameters,
    pub(crate) written: u64,
}

impl KeptQuery {
    pub(crate) fn of(found: Found<'_>) -> KeptQuery {
        let wanted = found.wanted.iter().map(|wanted| {
            let table = wanted.heap();
            (table.database().id(), Arc::clone(table.table()), wanted.column)
        });
        KeptQuery {
            wanted: wanted.collect(),
            statistics: found.run.noted_statistics(),
            is_serial: found.run.degree() < found.degree,
            plan: found.plan,
            columns: Arc::clone(found.columns),
            config: found.config.clone(),
            degree: found.degree,
            sizes: found.sizes,
            width: found.width,
            wish: found.wish,
            expected: found.expected,
            sorted_first: found.sorted_first,
            parameters: found.parameters,
            written: found.written,
        }
    }

    /// The values of its parameters, by the names of the literals for them.
    pub fn parameters(&self) -> &ParameterValues {
        &self.parameters.values
    }

    /// In how many places the query reads a variable, in lower case, as a parameter.
    pub fn reads_of(&self, variable: &str) -> usize {
        reads_of(variable, self.parameters.counts.keys())
    }

    /// Whether `plan`, which was planned for other values of the parameters, is this one but for these.
    pub(crate) fn is_made_alike(&self, plan: &KeptPlan, tables: &[Arc<TableRead>]) -> Result<bool, SqlError> {
        let made = plan.made(tables, Some(&self.parameters.values))?;
        Ok(made.is_some_and(|made| written(&made) == self.written))
    }

    /// The tables that it reads.
    pub fn tables(&self) -> &[KeptTable] {
        self.plan.tables()
    }

    /// The columns whose statistics its estimates wanted.
    pub fn wanted(&self) -> &[(DatabaseId, Arc<Table>, usize)] {
        &self.wanted
    }

    /// The statistics that its estimates read.
    pub fn statistics(&self) -> &[(DatabaseId, Arc<Table>, Arc<Statistics>)] {
        &self.statistics
    }

    /// The memory that it takes, in bytes, estimated.
    pub fn bytes(&self) -> u64 {
        OPERATOR_BYTES * (self.plan.operators() + self.plan.tables().len()) as u64
    }

    /// The query for the statement `run`, which reads `tables`; `values` are those of parameters that are not as in the
    /// plan. `None` if the statement has another degree of parallelism or less memory than this was planned for, if the
    /// values need another plan, or another statement uses a plan that serves one at a time.
    ///
    /// # Errors
    /// If an index cannot be opened; those of `finish`.
    pub fn planned(
        &self,
        executor: &Executor,
        run: &Arc<StatementRun>,
        tables: &[Arc<TableRead>],
        values: &ParameterValues,
        finish: FinishPlan<'_>,
    ) -> Result<Option<Planned>, SqlError> {
        if run.degree() != self.degree {
            return Ok(None);
        }
        let sizes = executor.memory().sizes(if self.is_serial { 1 } else { self.degree });
        let is_enough = sizes.merge_bytes() >= self.sizes.merge_bytes()
            && sizes.batch_rows(self.width, BATCH_ROWS) >= self.sizes.batch_rows(self.width, BATCH_ROWS)
            && sizes.top_rows(self.width) >= self.sorted_first;
        if !is_enough {
            return Ok(None);
        }
        let Some(in_use) = self.plan.begin() else { return Ok(None) };
        let made = self.plan.made(tables, (!values.is_empty()).then_some(values))?;
        let Some(plan) = made else { return Ok(None) };
        // Not before it is sure that this plan runs.
        if self.is_serial {
            run.make_serial();
        }
        let plan = finish(plan)?;
        let expected = RefCell::new(self.expected.iter());
        let plan = for_run(plan, run, &|_| expected.borrow_mut().next().copied().unwrap_or(f64::INFINITY))?;
        let least_bytes = self.sizes.least_bytes(&self.wish, self.config.batch_size(), self.width);
        let (columns, wish) = (Arc::clone(&self.columns), self.wish);
        let task = task_of(&self.config, executor.runtime());
        let (kept, in_use) = (None, Some(in_use));
        Ok(Some(Planned { columns, plan, task, wish, least_bytes, kept, is_alike: None, in_use }))
    }
}

/// The context of an execution under `config`. A plan has its functions in it, so there are none to find by name.
fn task_of(config: &SessionConfig, runtime: &Arc<RuntimeEnv>) -> TaskContext {
    let (scalar, higher_order, aggregate, window) = (HashMap::new(), HashMap::new(), HashMap::new(), HashMap::new());
    let runtime = Arc::clone(runtime);
    TaskContext::new(None, String::new(), config.clone(), scalar, higher_order, aggregate, window, runtime)
}

/// The hash of a plan as DataFusion shows it, and of the constants of its filters and projections, which it shortens.
pub(crate) fn written(plan: &PhysicalPlan) -> u64 {
    let mut hash = DefaultHasher::new();
    displayable(plan.as_ref()).indent(true).to_string().hash(&mut hash);
    add_constants(plan, &mut hash);
    hash.finish()
}

fn add_constants(plan: &PhysicalPlan, hash: &mut DefaultHasher) {
    let mut add = |expr: &Arc<dyn PhysicalExpr>| {
        let _never_fails = expr.apply(|part| {
            if let Some(literal) = part.downcast_ref::<Literal>() {
                literal.value().hash(hash);
            }
            Ok(TreeNodeRecursion::Continue)
        });
    };
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        add(filter.predicate());
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        projection.expr().iter().for_each(|projected| add(&projected.expr));
    }
    plan.children().into_iter().for_each(|child| add_constants(child, hash));
}

/// The most rows that a sort of a plan keeps in memory.
pub(crate) fn sorted_first(plan: &PhysicalPlan) -> usize {
    let own = plan.downcast_ref::<SortExec>().and_then(SortExec::fetch).unwrap_or(0);
    plan.children().into_iter().map(sorted_first).fold(own, usize::max)
}
