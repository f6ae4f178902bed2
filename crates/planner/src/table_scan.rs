//! Plans the scan of a table: chooses the access path and makes the operators that read along it.
//!
//! ```text
//!   no row locks   [UnseenRows] ─ Scan or Seek     conditions stay above; the scan may leave rows out by them
//!   row locks      LockRows ─ Scan or Seek         conditions are tested again on the locked row
//! ```

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, Result};
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::expr_rewriter::unnormalize_cols;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use hobt_access::{KeyRange, RowStore};
use hobt_base::SqlError;
use hobt_catalog::IndexKind;
use hobt_txn::locks::LockMode;

use hobt_operators::{
    FileScanExec, LeafParameters, LockRowsExec, LockRowsSettings, ScanExec, SeekExec, UnseenRowsExec,
};
use hobt_table::{
    AccessPath, ColumnPredicate, FileRead, Wanted, choose, choose_to_lock, missing_to, partitions_read, predicates,
    read_predicates, text_conditions,
};
use hobt_table::{LeafEstimate, RowReading, TableKnowledge, TableRead, UnseenUse, is_marked};
use hobt_udf::external;

/// DataFusion's physical planner, with the scans of tables.
#[derive(Debug)]
pub struct Planner;

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(TableScans)]);
        planner.create_physical_plan(plan, session).await
    }
}

/// Plans the scans of tables.
struct TableScans;

#[async_trait]
impl ExtensionPlanner for TableScans {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        _: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        _: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        Ok(None)
    }

    async fn plan_table_scan(
        &self,
        _: &dyn PhysicalPlanner,
        scan: &TableScan,
        session: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let Some(files) = FileRead::of(&scan.source) {
            let conditions = unnormalize_cols(scan.filters.iter().cloned());
            return Ok(Some(Arc::new(FileScanExec::new(files, scan.projection.as_ref(), conditions)?)));
        }
        let Some(table) = TableRead::of(&scan.source) else { return Ok(None) };
        // The table's columns have no qualifier.
        let conditions = unnormalize_cols(scan.filters.iter().cloned());
        plan_scan(&table, session, scan.projection.as_ref(), &conditions, scan.fetch).map(Some)
    }
}

/// The operators that read the columns `projection` of a table's rows; all if it is `None`. `limit` is the number of
/// rows that are wanted.
fn plan_scan(
    table: &Arc<TableRead>,
    session: &dyn Session,
    projection: Option<&Vec<usize>>,
    conditions: &[Expr],
    limit: Option<usize>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let projection = projection.cloned().unwrap_or_else(|| (0..table.schema().fields().len()).collect());
    if let Some(reading) = table.row_reading() {
        let schema = Arc::new(table.schema().project(&projection)?);
        return scan_locked(table, session, (projection, schema), conditions, limit, reading);
    }
    plan_leaf(table, &projection, conditions)
}

/// The operators that read columns of a table's rows without locking them.
fn plan_leaf(table: &Arc<TableRead>, projection: &[usize], conditions: &[Expr]) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = Arc::new(table.schema().project(projection)?);
    let wanted = Conditions::of(table, conditions);
    let path = choose(table, projection, wanted.path()).map_err(external)?;
    let plan = scan_by(table, path.clone(), (projection.to_vec(), schema), &wanted)?;
    let plan = with_unseen(table, plan, path, projection.to_vec())?;
    // Conditions stay above, so the scan may leave rows out. Not below the operators for rows that other
    // transactions are changing: such rows may come to fulfil the conditions.
    Ok(match plan.downcast_ref::<ScanExec>() {
        Some(scan) => Arc::new(scan.sifting()),
        None => plan,
    })
}

/// Conditions on the rows of a table.
struct Conditions<'c> {
    conditions: &'c [Expr],
    /// The parts that are conditions on single columns.
    known: Arc<[ColumnPredicate]>,
    /// The conditions that estimates assume instead, if they differ.
    assumed: Option<Vec<ColumnPredicate>>,
    /// Conditions that say nothing of single columns.
    unread: Vec<&'c Expr>,
}

impl<'c> Conditions<'c> {
    fn of(table: &TableRead, conditions: &'c [Expr]) -> Conditions<'c> {
        let (read, unread) = read_predicates(table, conditions);
        let (known, assumed) = match conditions.iter().any(is_marked) {
            true => (predicates(table, conditions), Some(read)),
            false => (read, None),
        };
        Conditions { conditions, known: known.into(), assumed, unread }
    }

    fn assumed(&self) -> &[ColumnPredicate] {
        self.assumed.as_deref().unwrap_or(&self.known)
    }

    /// The conditions by which an access path is chosen.
    fn path(&self) -> Wanted<'_> {
        Wanted { predicates: &self.known, assumed: self.assumed.as_deref() }
    }
}

/// The estimate of the rows of some partitions that fulfil conditions, as far as statistics tell.
fn expected(
    heap: &Arc<TableRead>,
    partitions: &[usize],
    wanted: &Conditions<'_>,
    projection: &[usize],
) -> LeafEstimate {
    let share = heap.share_read();
    // `partitions` may follow from values that estimates must not know.
    let read = wanted.assumed.as_ref().map(|assumed| partitions_read(heap, assumed));
    let partitions = read.as_deref().unwrap_or(partitions);
    let knowledge = TableKnowledge::of(heap, partitions);
    let whole = knowledge.leaf(wanted.assumed(), &wanted.unread, (projection, heap));
    LeafEstimate { rows: whole.rows * share, ..whole }
}

/// Reads the columns `projection` of the rows that `path` leads to.
fn scan_by(
    table: &Arc<TableRead>,
    path: AccessPath,
    (projection, schema): (Vec<usize>, SchemaRef),
    wanted: &Conditions<'_>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let known = Arc::clone(&wanted.known);
    let parameters = LeafParameters::of(wanted.conditions, plan_leaf);
    Ok(match path {
        AccessPath::Scan { partitions } if partitions.is_empty() => Arc::new(EmptyExec::new(schema)),
        AccessPath::Scan { partitions } => {
            let missing = missing_to(table, &projection, wanted.conditions, &known).map_err(external)?;
            let estimated = expected(table, &partitions, wanted, &projection);
            let scan = ScanExec::new(Arc::clone(table), Arc::clone(table.run()), projection, schema);
            let texts = text_conditions(table, wanted.conditions).into();
            let scan = scan.of_partitions(partitions).missing(missing).knowing(known).matching(texts);
            Arc::new(scan.estimating(estimated).parameterized(parameters))
        }
        AccessPath::Seek(path) => {
            let all: Vec<usize> = (0..table.table().base_index().partitions.len()).collect();
            // The tree's count of the ranges is as current as the rows, but no finer than a page.
            let mut estimated = expected(table, &all, wanted, &projection);
            estimated.rows = estimated.rows.min(path.rows.max(path.page_rows()));
            let seek = SeekExec::new(Arc::clone(table), path, projection, schema).knowing(known);
            Arc::new(seek.estimating(estimated).parameterized(parameters))
        }
    })
}

/// The scan with the rows of its path that other transactions are changing, if there are any and they matter.
fn with_unseen(
    table: &Arc<TableRead>,
    plan: Arc<dyn ExecutionPlan>,
    path: AccessPath,
    projection: Vec<usize>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(unseen) = table.unseen().filter(|unseen| unseen.usage() != UnseenUse::None) else {
        return Ok(plan);
    };
    if !has_unseen(table, &path).map_err(external)? {
        return Ok(plan);
    }
    unseen.watch();
    Ok(Arc::new(UnseenRowsExec::new(plan, Arc::clone(table), Arc::clone(unseen), path, projection)))
}

/// Whether rows to which `path` may lead have been changed by a transaction that the statement does not see. This
/// is the moment that counts: later changes come after the statement.
fn has_unseen(table: &TableRead, path: &AccessPath) -> Result<bool, SqlError> {
    let Some(view) = table.run().context.view_so_far().filter(|view| !view.is_of_present()) else { return Ok(false) };
    if let AccessPath::Seek(path) = path
        && table.table().indexes[path.index].kind == IndexKind::Clustered
    {
        for (_, tree) in &path.trees {
            for range in &path.ranges {
                if tree.has_unseen_keys(range, &view).map_err(|error| table.sql_error(error))? {
                    return Ok(true);
                }
            }
        }
        return Ok(false);
    }
    let stores = table.stores()?;
    let wanted: Vec<&RowStore> = match path {
        AccessPath::Scan { partitions } => partitions.iter().map(|partition| &stores[*partition]).collect(),
        // Index entries change only when their rows change.
        AccessPath::Seek(_) => stores.iter().collect(),
    };
    for store in wanted {
        let has_unseen = match store {
            RowStore::Heap(heap) => heap.has_unseen_rows(&view),
            RowStore::Tree(tree) => tree.has_unseen_keys(&KeyRange::all(), &view),
        };
        if has_unseen.map_err(|error| table.sql_error(error))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A scan that locks each row before it outputs it.
fn scan_locked(
    table: &Arc<TableRead>,
    session: &dyn Session,
    (projection, schema): (Vec<usize>, SchemaRef),
    conditions: &[Expr],
    limit: Option<usize>,
    reading: RowReading,
) -> Result<Arc<dyn ExecutionPlan>> {
    let (database, definition) = (table.database().clone(), Arc::clone(table.table()));
    let inner = TableRead::new(database, definition, Arc::clone(table.run()), true, true);
    let inner = inner.hinted_both(table.hint(), table.join_way());
    let place = table.table().columns.len();
    let mut columns: Vec<usize> = projection.iter().copied().filter(|column| *column != place).collect();
    // A row of a clustered index keeps its key; with another key it is another row.
    let mut is_of_key = table.table().is_clustered();
    for name in conditions.iter().flat_map(Expr::column_refs).map(|column| column.name.clone()) {
        let column = inner.schema().index_of(&name)?;
        if !columns.contains(&column) {
            columns.push(column);
        }
        is_of_key &= table.table().base_index().key.iter().any(|part| part.column == column);
    }
    let place_in = columns.len();
    let mut read = columns.clone();
    read.push(place);
    let position = |column: &usize| columns.iter().position(|known| known == column).unwrap_or(place_in);
    let output = projection.iter().map(position).collect();
    let read_schema = Arc::new(inner.schema().project(&read)?);
    let described = DFSchema::try_from(read_schema.as_ref().clone())?;
    let wanted = Conditions::of(&inner, conditions);
    let path = match reading.range {
        Some(_) => choose_to_lock(&inner, &read, wanted.path()).map_err(external)?,
        None => choose(&inner, &read, wanted.path()).map_err(external)?,
    };
    if reading.range == Some(LockMode::RangeSharedShared) && path.is_whole() {
        // The table lock prevents inserts anywhere in the table.
        table.run().ask_for_whole(table.database().id(), table.table().id);
    }
    let input = scan_by(&inner, path.clone(), (read, read_schema), &wanted)?;
    let conditions = conjunction(conditions.iter().cloned());
    let conditions = conditions.map(|expr| session.create_physical_expr(expr, &described)).transpose()?;
    let settings =
        LockRowsSettings { reading, path, columns, output, conditions, is_of_key, limit, order: None, schema };
    Ok(Arc::new(LockRowsExec::new(input, Arc::clone(table), Arc::clone(table.run()), settings)))
}
