//! Translates a physical plan to the plan that users see, with SQL Server's operators.
//!
//! A plan that has run carries its operators' counters. Operators that only pass rows on, rename columns or stop when a
//! statement is cancelled are not shown. A condition directly above a table belongs to the operator that reads it.
//!
//! Columns are followed by position from the tables upwards, since names in plans are the binder's own.
//!
//! Leaves to others: an operator's estimate (`expected`), the memory that it will keep (`memory`), its counters
//! (`actual`), joins (`join`), tables (`table`), expressions (`expression`), layout (`plan_tree`).

mod actual;
mod expression;
mod join;
mod memory;
mod running;
mod serial;
mod table;

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::logical_expr::physical_planning_context::SubqueryIndex;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalExpr};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, InputOrderMode};
use hobt_catalog::TableColumn;

use crate::expected::Expectations;
use hobt_table::Relation;

pub use expression::Texts;
use hobt_operators::{
    Exchange as Moves, FileScanExec, JoinFilter, LeafFilter, LockRowsExec, Role, SpoolReadExec, role,
};

use hobt_showplan::{Detail, Exchange, Fnv, OrderColumn, PlanColumn, PlanExpr, PlanNode, TableName};
pub use memory::memory_wish;
pub use running::running_plan;
pub use table::{changed_object, changes, fills_new};

/// The names of an operator that holds rows until others have read them.
const HELD: (&str, &str) = ("Table Spool", "Eager Spool");

/// The plan that users see. `texts` are the statement's constants. `has_run`: whether the operators' counters are
/// shown. `degree` is the number of workers.
pub fn explain(plan: &Arc<dyn ExecutionPlan>, texts: &Texts, has_run: bool, degree: usize) -> PlanNode {
    explain_with(plan, Some(Expectations::default()), texts, has_run, degree)
}

/// The tree of operators without estimates, for callers that only number the operators.
pub fn outline(plan: &Arc<dyn ExecutionPlan>, degree: usize) -> PlanNode {
    explain_with(plan, None, &Texts::default(), false, degree)
}

fn explain_with(
    plan: &Arc<dyn ExecutionPlan>,
    estimates: Option<Expectations>,
    texts: &Texts,
    has_run: bool,
    degree: usize,
) -> PlanNode {
    let (subqueries, bitmaps, spools) = (RefCell::default(), RefCell::default(), RefCell::default());
    let mapper = Mapper { estimates, made: Cell::new(1000), texts, has_run, subqueries, bitmaps, spools };
    let node = mapper.map(plan).node;
    if degree > 1 { node } else { serial::on_one_worker(node) }
}

/// A number that tells plans apart by their operators, for callers that see the same statement repeatedly.
pub fn shape(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    fn add(plan: &Arc<dyn ExecutionPlan>, hash: &mut Fnv) {
        hash.add(plan.name().as_bytes());
        if let Role::Seek(seek) = role(plan.as_ref()) {
            hash.add(&(seek.path().index as u64).to_le_bytes());
        }
        plan.children().into_iter().for_each(|input| add(input, hash));
    }
    let mut hash = Fnv::default();
    add(plan, &mut hash);
    // 0 stands for statements without a plan.
    hash.value() | 1
}

/// Bytes that the operators of a plan that has run wrote to disk because memory was short.
pub fn spilled_bytes(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    let holds = role(plan.as_ref()).holds_rows();
    let own = if holds { plan.metrics().and_then(|metrics| metrics.spilled_bytes()).unwrap_or(0) } else { 0 };
    own as u64 + plan.children().into_iter().map(spilled_bytes).sum::<u64>()
}

/// Builds the tree of one plan.
struct Mapper<'t> {
    /// The estimates; `None` if none are wanted.
    estimates: Option<Expectations>,
    /// The number of the last computed value.
    made: Cell<usize>,
    texts: &'t Texts,
    has_run: bool,
    /// The subqueries whose values are known so far.
    subqueries: RefCell<Vec<(SubqueryIndex, PlanColumn)>>,
    /// The filters that joins push to scans, by address, with the names of their bitmaps.
    bitmaps: RefCell<Vec<(*const JoinFilter, PlanColumn)>>,
    /// What spools compute.
    spools: RefCell<Vec<Computed>>,
}

/// What a spool computes for several places.
struct Computed {
    /// The address of its operators.
    at: *const (),
    columns: Vec<PlanColumn>,
    /// Until they are shown below the spool.
    node: Option<PlanNode>,
}

/// An operator, and the columns of its output.
struct Mapped {
    node: PlanNode,
    columns: Vec<PlanColumn>,
}

impl Mapped {
    /// The rows with only the columns of `projection`.
    fn projected(mut self, projection: Option<&[usize]>) -> Mapped {
        if let Some(places) = projection {
            self.columns = places.iter().map(|&at| column_at(&self.columns, at)).collect();
            self.node.output = distinct(&self.columns);
        }
        self
    }
}

/// The column at a position; a nameless one where there is none.
fn column_at(columns: &[PlanColumn], at: usize) -> PlanColumn {
    columns.get(at).cloned().unwrap_or_else(|| PlanColumn::made(format!("Column{at}")))
}

/// A table's column.
fn table_column(table: &Arc<TableName>, column: &TableColumn) -> PlanColumn {
    PlanColumn { table: Some(Arc::clone(table)), name: column.name.clone(), sql_type: Some(column.sql_type) }
}

/// The columns without duplicates.
fn distinct(columns: &[PlanColumn]) -> Vec<PlanColumn> {
    let mut once: Vec<PlanColumn> = Vec::with_capacity(columns.len());
    for column in columns {
        if !once.contains(column) {
            once.push(column.clone());
        }
    }
    once
}

fn is_parallel(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.output_partitioning().partition_count() > 1
}

impl Mapper<'_> {
    /// A column for a value that an operator computes.
    fn new_column(&self) -> PlanColumn {
        self.made.set(self.made.get() + 1);
        PlanColumn::made(format!("Expr{}", self.made.get()))
    }

    /// A column for the value of an expression, with its type.
    fn column_for(&self, expr: &PlanExpr) -> PlanColumn {
        PlanColumn { sql_type: expr.sql_type(), ..self.new_column() }
    }

    /// The bitmap of a join's filter.
    fn bitmap(&self, filter: &Arc<JoinFilter>) -> PlanColumn {
        let at = Arc::as_ptr(filter);
        let mut bitmaps = self.bitmaps.borrow_mut();
        if let Some((_, known)) = bitmaps.iter().find(|(known, _)| *known == at) {
            return known.clone();
        }
        let column = PlanColumn::made(format!("Bitmap{}", 1001 + bitmaps.len()));
        bitmaps.push((at, column.clone()));
        column
    }

    /// The probes of join filters at an operator that reads `columns`.
    fn probes(&self, filters: &[LeafFilter], columns: &[PlanColumn]) -> Vec<PlanExpr> {
        let probe = |filter: &LeafFilter| PlanExpr::Function {
            name: "PROBE".to_owned(),
            arguments: vec![PlanExpr::Column(self.bitmap(&filter.filter)), self.expression(&filter.key, columns)],
        };
        filters.iter().map(probe).collect()
    }

    /// The estimate of an operator; one of nothing if none are wanted.
    fn expected(&self, plan: &Arc<dyn ExecutionPlan>) -> Arc<Relation> {
        self.estimates.as_ref().map(|estimates| estimates.of(plan)).unwrap_or_default()
    }

    /// An operator with the properties that all operators have.
    fn node(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        (physical, logical): (&'static str, &'static str),
        detail: Detail,
        children: Vec<PlanNode>,
    ) -> PlanNode {
        let mut node = PlanNode::new(physical, logical, detail);
        let known = self.expected(plan);
        node.estimate.rows = known.rows;
        node.estimate.row_bytes = known.width;
        node.is_parallel = is_parallel(plan);
        node.actual = if self.has_run { actual::of_metrics(plan) } else { None };
        node.children = children;
        node
    }

    fn mapped(&self, mut node: PlanNode, columns: Vec<PlanColumn>) -> Mapped {
        node.output = distinct(&columns);
        Mapped { node, columns }
    }

    fn map(&self, plan: &Arc<dyn ExecutionPlan>) -> Mapped {
        match role(plan.as_ref()) {
            Role::Passes(_) | Role::Unseen(_) => self.below(plan),
            Role::Locks(locks) => self.locks(plan, locks),
            Role::Filter(filter) => self.filter(plan, filter),
            Role::Project(projection) => self.projection(plan, projection),
            Role::Group(aggregate) => self.aggregate(plan, aggregate),
            Role::Scan(scan) => self.scan(plan, scan),
            Role::Seek(seek) => self.seek(plan, seek),
            Role::ScanAggregate(aggregate) => self.aggregate_scan(plan, aggregate),
            Role::Join(join) => self.join(plan, join),
            Role::Exchange(exchange) => self.exchange(plan, exchange),
            Role::Sort(sort) => self.sort(plan, sort),
            Role::Limit { skip, fetch } => self.limit(plan, skip, fetch),
            Role::Window { windows, .. } => self.windows(plan, windows),
            Role::Constant(rows) => self.constant_rows(plan, rows),
            Role::Made => self.made(plan),
            Role::WorkTable => self.leaf(plan, ("Table Spool", "Lazy Spool"), Detail::Spool { seek: Vec::new() }),
            Role::Spool => self.spool(plan),
            Role::SpoolRead(read) => self.spool_read(plan, read),
            Role::Subqueries(subqueries) => self.subqueries(plan, subqueries),
            Role::Union | Role::Recursion => self.concatenation(plan),
            Role::Unnest | Role::Outer(_) | Role::StandIn | Role::Unknown => self.generic(plan),
        }
    }

    /// The first input.
    fn below(&self, plan: &Arc<dyn ExecutionPlan>) -> Mapped {
        self.map(plan.children()[0])
    }

    fn spool(&self, plan: &Arc<dyn ExecutionPlan>) -> Mapped {
        let (columns, computed) = self.held(plan.children()[0], true);
        let node = self.node(plan, HELD, Detail::Spool { seek: Vec::new() }, computed.into_iter().collect());
        self.mapped(node, columns)
    }

    /// The operators that compute its rows are shown below the spool alone.
    fn spool_read(&self, plan: &Arc<dyn ExecutionPlan>, read: &SpoolReadExec) -> Mapped {
        let detail = Detail::Spool { seek: Vec::new() };
        let Some(computed) = read.computed_by() else { return self.leaf(plan, HELD, detail) };
        let (columns, _) = self.held(computed, false);
        self.mapped(self.node(plan, HELD, detail, Vec::new()), columns)
    }

    /// The columns of what a spool computes, which are mapped once for all places, and with `takes` its operators.
    fn held(&self, computed: &Arc<dyn ExecutionPlan>, takes: bool) -> (Vec<PlanColumn>, Option<PlanNode>) {
        let at = Arc::as_ptr(computed).cast::<()>();
        let is_known = self.spools.borrow().iter().any(|known| known.at == at);
        if !is_known {
            let Mapped { node, columns } = self.map(computed);
            self.spools.borrow_mut().push(Computed { at, columns, node: Some(node) });
        }
        let mut spools = self.spools.borrow_mut();
        let known = spools.iter_mut().find(|known| known.at == at);
        let given = known.map(|known| (known.columns.clone(), if takes { known.node.take() } else { None }));
        given.unwrap_or_default()
    }

    /// Rows are locked also if the condition rejects them. The condition is shown at the operator below.
    fn locks(&self, plan: &Arc<dyn ExecutionPlan>, locks: &LockRowsExec) -> Mapped {
        let mut mapped = self.below(plan);
        if let Some(condition) = locks.conditions() {
            mapped.node.predicate = mapped.node.predicate.or_else(|| Some(self.expression(condition, &mapped.columns)));
        }
        mapped.projected(Some(locks.output()))
    }

    fn filter(&self, plan: &Arc<dyn ExecutionPlan>, filter: &FilterExec) -> Mapped {
        let input = self.map(filter.input());
        let predicate = self.expression(filter.predicate(), &input.columns);
        let projection = filter.projection().as_ref().map(|places| places.as_ref());
        let is_free = input.node.predicate.is_none() && matches!(input.node.detail, Detail::Read { .. });
        if !is_free {
            let mut node = self.node(plan, ("Filter", "Filter"), Detail::Filter, vec![input.node]);
            node.predicate = Some(predicate);
            return self.mapped(node, input.columns).projected(projection);
        }
        let mut node = input.node;
        node.predicate = Some(predicate);
        node.estimate.rows_read = Some(node.estimate.rows_read.unwrap_or(node.estimate.rows));
        node.estimate.rows = self.expected(plan).rows;
        // A filter inside a scan has no figures; the scan has counted the rows that it passed.
        let kept = self.has_run.then(|| actual::of_metrics(plan)).flatten().filter(|kept| !kept.workers.is_empty());
        if let (Some(read), Some(kept)) = (&mut node.actual, kept) {
            actual::keep_of(read, &kept);
        }
        Mapped { node, columns: input.columns }.projected(projection)
    }

    /// Computed values need an operator of their own. Renamed columns do not.
    fn projection(&self, plan: &Arc<dyn ExecutionPlan>, projection: &ProjectionExec) -> Mapped {
        let input = self.map(projection.input());
        let mut defined: Vec<(PlanColumn, Option<PlanExpr>)> = Vec::new();
        let mut columns = Vec::with_capacity(projection.expr().len());
        for item in projection.expr() {
            columns.push(match self.expression(&item.expr, &input.columns) {
                PlanExpr::Column(column) => column,
                made => match defined.iter().find(|(_, known)| known.as_ref() == Some(&made)) {
                    Some((column, _)) => column.clone(),
                    None => {
                        let column = self.column_for(&made);
                        defined.push((column.clone(), Some(made)));
                        column
                    }
                },
            });
        }
        if defined.is_empty() {
            // A computed value represents a column of its input, namely the form in which texts are sorted.
            let mut node = input.node;
            if let (Some(actual), Some(own)) = (&mut node.actual, actual::of_metrics(plan).filter(|_| self.has_run)) {
                actual::add_cpu(actual, &own);
            }
            return Mapped { node, columns };
        }
        let node = self.node(plan, ("Compute Scalar", "Compute Scalar"), Detail::ComputeScalar, vec![input.node]);
        self.mapped(PlanNode { defined, ..node }, columns)
    }

    fn aggregate(&self, plan: &Arc<dyn ExecutionPlan>, aggregate: &AggregateExec) -> Mapped {
        let input = self.map(aggregate.input());
        let is_partial = matches!(aggregate.mode(), AggregateMode::Partial | AggregateMode::PartialReduce);
        let takes_partial = matches!(aggregate.mode(), AggregateMode::Final | AggregateMode::FinalPartitioned);
        let mut groups = Vec::new();
        let mut defined = Vec::new();
        for (at, (expr, _)) in aggregate.group_expr().expr().iter().enumerate() {
            groups.push(match self.expression(expr, &input.columns) {
                PlanExpr::Column(column) => column,
                _ if takes_partial => column_at(&input.columns, at),
                made => {
                    let column = self.column_for(&made);
                    defined.push((column.clone(), Some(made)));
                    column
                }
            });
        }
        let mut columns = groups.clone();
        // With grouping sets, a column tells which set a row belongs to.
        let width = plan.schema().fields().len();
        if aggregate.group_expr().has_grouping_set() {
            columns.push(self.new_column());
        }
        let mut behind = groups.len() + usize::from(aggregate.group_expr().has_grouping_set());
        for expr in aggregate.aggr_expr() {
            let states = expr.state_fields().map_or(1, |fields| fields.len().max(1));
            let made = match takes_partial {
                true => self.whole_of(expr.fun().name(), column_at(&input.columns, behind)),
                false => self.aggregate_of(expr, &input.columns),
            };
            behind += states;
            let column = self.column_for(&made);
            defined.push((column.clone(), Some(made)));
            columns.extend(std::iter::repeat_n(column, if is_partial { states } else { 1 }));
        }
        columns.truncate(width);
        let logical = if is_partial { "Partial Aggregate" } else { "Aggregate" };
        let is_in_order = groups.is_empty() || *aggregate.input_order_mode() != InputOrderMode::Linear;
        let (physical, detail) = match is_in_order {
            true => ("Stream Aggregate", Detail::StreamAggregate { groups }),
            false => ("Hash Match", Detail::HashAggregate { groups }),
        };
        // A stream aggregate has only one logical name.
        let logical = if is_in_order { "Aggregate" } else { logical };
        let node = self.node(plan, (physical, logical), detail, vec![input.node]);
        self.mapped(PlanNode { defined, ..node }, columns)
    }

    fn exchange(&self, plan: &Arc<dyn ExecutionPlan>, exchange: Moves<'_>) -> Mapped {
        let Mapped { node: below, columns } = self.below(plan);
        let by = match exchange {
            Moves::Merge(merge) => self.order_columns(merge.expr(), &columns),
            _ => Vec::new(),
        };
        let spread = if let Moves::Spread(spread) = exchange { Some(spread) } else { None };
        let (exchange, keys) = match spread.map(RepartitionExec::partitioning) {
            Some(Partitioning::Hash(keys, _)) => {
                (Exchange::Hash, keys.iter().map(|key| self.column_of(key, &columns)).collect())
            }
            Some(Partitioning::Range(_)) => (Exchange::Range, Vec::new()),
            Some(_) => (Exchange::RoundRobin, Vec::new()),
            None => (Exchange::Gather, Vec::new()),
        };
        let logical = match spread {
            None => "Gather Streams",
            Some(spread) if is_parallel(spread.input()) => "Repartition Streams",
            Some(_) => "Distribute Streams",
        };
        let detail = Detail::Parallelism { exchange, keys, by };
        let mut node = self.node(plan, ("Parallelism", logical), detail, vec![below]);
        node.is_parallel = true;
        if node.actual.as_ref().is_some_and(|actual| actual.workers.is_empty()) {
            // The gathering runs on the statement's own thread, which counts nothing.
            node.actual = node.children[0].actual.as_ref().map(actual::gathered);
        }
        self.mapped(node, columns)
    }

    fn order_columns(&self, order: &LexOrdering, columns: &[PlanColumn]) -> Vec<OrderColumn> {
        let one = |key: &datafusion::physical_expr::PhysicalSortExpr| OrderColumn {
            column: self.column_of(&key.expr, columns),
            is_ascending: !key.options.descending,
        };
        order.iter().map(one).collect()
    }

    fn sort(&self, plan: &Arc<dyn ExecutionPlan>, sort: &SortExec) -> Mapped {
        let input = self.map(sort.input());
        let by = self.order_columns(sort.expr(), &input.columns);
        let logical = if sort.fetch().is_some() { "TopN Sort" } else { "Sort" };
        let detail = Detail::Sort { by, top: sort.fetch().map(|rows| rows as u64) };
        let given = input.node.actual.clone();
        let mut node = self.node(plan, ("Sort", logical), detail, vec![input.node]);
        if node.actual.is_none() && self.has_run {
            // Input that is already in order is passed on.
            node.actual = given.map(actual::passed_on);
        }
        self.mapped(node, input.columns)
    }

    fn limit(&self, plan: &Arc<dyn ExecutionPlan>, skip: usize, fetch: Option<usize>) -> Mapped {
        let input = self.below(plan);
        let detail = Detail::Top { rows: fetch.map(|rows| rows as u64), offset: skip as u64 };
        let node = self.node(plan, ("Top", "Top"), detail, vec![input.node]);
        self.mapped(node, input.columns)
    }

    fn windows(&self, plan: &Arc<dyn ExecutionPlan>, windows: &[Arc<dyn WindowExpr>]) -> Mapped {
        let input = self.below(plan);
        let mut columns = input.columns.clone();
        let partition = windows.first().map_or(Vec::new(), |window| {
            window.partition_by().iter().map(|key| self.column_of(key, &input.columns)).collect()
        });
        let mut defined = Vec::new();
        for window in windows {
            let column = self.new_column();
            let arguments = window.expressions();
            let arguments = arguments.iter().map(|argument| self.expression(argument, &input.columns)).collect();
            // The binder's name is the function's with a number.
            let name = window.name().trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_').to_owned();
            defined.push((column.clone(), Some(PlanExpr::Function { name, arguments })));
            columns.push(column);
        }
        let names = ("Window Aggregate", "Window Aggregate");
        let node = self.node(plan, names, Detail::Window { partition }, vec![input.node]);
        self.mapped(PlanNode { defined, ..node }, columns)
    }

    /// An operator without input.
    fn leaf(&self, plan: &Arc<dyn ExecutionPlan>, names: (&'static str, &'static str), detail: Detail) -> Mapped {
        let columns = plan.schema().fields().iter().map(|field| PlanColumn::made(field.name())).collect();
        self.mapped(self.node(plan, names, detail, Vec::new()), columns)
    }

    fn constant_rows(&self, plan: &Arc<dyn ExecutionPlan>, rows: u64) -> Mapped {
        let mut leaf = self.leaf(plan, ("Constant Scan", "Constant Scan"), Detail::ConstantScan { rows });
        if self.has_run {
            leaf.node.estimate.rows = rows as f64;
            leaf.node.actual = Some(actual::constant(rows));
        }
        leaf
    }

    fn made(&self, plan: &Arc<dyn ExecutionPlan>) -> Mapped {
        if plan.is::<FileScanExec>() {
            return self.leaf(plan, ("Remote Scan", "Remote Scan"), Detail::TableFunction);
        }
        let names = ("Table-valued function", "Table-valued function");
        let mut leaf = self.leaf(plan, names, Detail::TableFunction);
        // The rows of a system view are computed before the plan runs, and are not counted.
        if leaf.node.actual.as_ref().is_some_and(|actual| actual.workers.is_empty()) {
            leaf.node.actual = rows_there(plan).map(actual::constant);
        }
        leaf
    }

    fn subqueries(&self, plan: &Arc<dyn ExecutionPlan>, subqueries: &ScalarSubqueryExec) -> Mapped {
        let mut children: Vec<PlanNode> = Vec::new();
        for link in subqueries.subqueries() {
            let Mapped { node, columns } = self.map(&link.plan);
            self.subqueries.borrow_mut().push((link.index, column_at(&columns, 0)));
            children.push(node);
        }
        let input = self.map(subqueries.input());
        children.push(input.node);
        let mut node = self.node(plan, ("Sequence", "Sequence"), Detail::Sequence, children);
        node.actual = node.actual.or_else(|| node.children.last().and_then(|input| input.actual.clone()));
        self.mapped(node, input.columns)
    }

    /// The inputs of an operator, and the columns of its output, which are the first input's if they are as many.
    fn inputs(&self, plan: &Arc<dyn ExecutionPlan>) -> (Vec<PlanNode>, Vec<PlanColumn>) {
        let inputs: Vec<Mapped> = plan.children().into_iter().map(|input| self.map(input)).collect();
        let width = plan.schema().fields().len();
        let columns = match inputs.first() {
            Some(first) if first.columns.len() == width => first.columns.clone(),
            _ => plan.schema().fields().iter().map(|field| PlanColumn::made(field.name())).collect(),
        };
        (inputs.into_iter().map(|input| input.node).collect(), columns)
    }

    /// Unions and recursions.
    fn concatenation(&self, plan: &Arc<dyn ExecutionPlan>) -> Mapped {
        let (mut children, columns) = self.inputs(plan);
        if children.len() == 1 {
            return self.mapped(children.remove(0), columns);
        }
        if matches!(role(plan.as_ref()), Role::Recursion) {
            // Each round runs a copy of the plan, with counters of its own.
            children.get_mut(1).into_iter().for_each(forget_runs);
        }
        let columns = columns.iter().map(|_| self.new_column()).collect();
        self.mapped(self.node(plan, ("Concatenation", "Concatenation"), Detail::Concatenation, children), columns)
    }

    fn generic(&self, plan: &Arc<dyn ExecutionPlan>) -> Mapped {
        let (children, columns) = self.inputs(plan);
        let node = self.node(plan, ("Generic", "Generic"), Detail::Generic(plan.name().to_owned()), children);
        self.mapped(node, columns)
    }

    /// The column that an expression is, or else a column named by its text.
    fn column_of(&self, expr: &Arc<dyn PhysicalExpr>, columns: &[PlanColumn]) -> PlanColumn {
        match self.expression(expr, columns) {
            PlanExpr::Column(column) => column,
            made => PlanColumn::made(made.to_string()),
        }
    }
}

/// The number of rows that an operator holds before it runs; `None` if it is not known exactly.
fn rows_there(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    let known = StatisticsContext::default().compute(plan.as_ref(), &StatisticsArgs::new()).ok()?;
    match known.num_rows {
        Precision::Exact(rows) => Some(rows as u64),
        _ => None,
    }
}

/// Marks the counters of an operator and all below it as unknown.
fn forget_runs(node: &mut PlanNode) {
    node.actual = None;
    node.children.iter_mut().for_each(forget_runs);
}
