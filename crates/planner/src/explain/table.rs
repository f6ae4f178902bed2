//! Operators that read or change a table.

use std::sync::Arc;

use datafusion::logical_expr::AggregateUDFImpl;
use datafusion::physical_plan::ExecutionPlan;
use hobt_access::Direction;
use hobt_access::scan::{Arithmetic, ScanAggregate, ScanExpression};
use hobt_catalog::{Index, IndexKind, Table};
use hobt_engine::DatabaseUse;

use super::{Mapped, Mapper, actual, is_parallel};
use hobt_operators::{AggregateScanExec, ScanExec, SeekExec};
use hobt_showplan::{CompareOp, Detail, PlanColumn, PlanExpr, PlanNode, PlanObject, SeekKey, TableName, WorkerActual};
use hobt_table::{ColumnPredicate, Comparand, Limit, TableRead, Test};
use hobt_udf::SqlAggregate;

/// SQL Server's name for the reference from an index entry to a heap row.
const ROW_PLACE: &str = "Bmk1000";

/// A table's full name.
fn name_of(database: &DatabaseUse, table: &Table) -> Arc<TableName> {
    let snapshot = database.snapshot();
    let schema = snapshot.schema_by_id(table.schema).map_or("dbo", |schema| schema.name.as_str());
    let (database, schema) = (database.name().to_owned(), schema.to_owned());
    Arc::new(TableName { database, schema, table: table.name.clone() })
}

fn object_of(name: &Arc<TableName>, index: &Index) -> PlanObject {
    let is_heap = index.kind == IndexKind::Heap;
    PlanObject {
        table: Arc::clone(name),
        index: index.name.clone().filter(|_| !is_heap),
        is_clustered: index.kind == IndexKind::Clustered,
    }
}

/// The object that a statement changes: the table's base index, which holds its rows.
pub fn changed_object(database: &DatabaseUse, table: &Table) -> PlanObject {
    object_of(&name_of(database, table), table.base_index())
}

/// The operator that changes `table` by the rows of `input`. `columns` are the columns that an `UPDATE` changes.
pub fn changes(
    kind: &'static str,
    database: &DatabaseUse,
    table: &Table,
    columns: Option<&[usize]>,
    input: PlanNode,
) -> PlanNode {
    let (physical, logical) = match (kind, table.is_clustered()) {
        ("INSERT" | "SELECT", false) => ("Table Insert", "Insert"),
        ("INSERT" | "SELECT", true) => ("Clustered Index Insert", "Insert"),
        ("UPDATE", false) => ("Table Update", "Update"),
        ("UPDATE", true) => ("Clustered Index Update", "Update"),
        ("DELETE", false) => ("Table Delete", "Delete"),
        ("DELETE", true) => ("Clustered Index Delete", "Delete"),
        (_, false) => ("Table Merge", "Merge"),
        (_, true) => ("Clustered Index Merge", "Merge"),
    };
    let name = name_of(database, table);
    let is_changed = |index: &&Index| {
        let has =
            |column: &usize| index.key.iter().any(|part| part.column == *column) || index.included.contains(column);
        index.kind == IndexKind::Nonclustered && columns.is_none_or(|columns| columns.iter().any(has))
    };
    let indexes = table.indexes.iter().filter(is_changed).map(|index| object_of(&name, index)).collect();
    let mut node = PlanNode::new(physical, logical, Detail::Change { indexes });
    node.object = Some(object_of(&name, table.base_index()));
    node.estimate.rows = input.estimate.rows;
    node.estimate.row_bytes = input.estimate.row_bytes;
    node.children = vec![input];
    node
}

/// The operator that puts the rows of `input` into a table that does not exist yet.
pub fn fills_new(table: TableName, input: PlanNode) -> PlanNode {
    let mut node = PlanNode::new("Table Insert", "Insert", Detail::Change { indexes: Vec::new() });
    node.object = Some(PlanObject { table: Arc::new(table), index: None, is_clustered: false });
    node.estimate.rows = input.estimate.rows;
    node.estimate.row_bytes = input.estimate.row_bytes;
    node.children = vec![input];
    node
}

/// Rows of a page, on average.
fn page_rows(table: &TableRead) -> f64 {
    table.expected_rows() as f64 / table.data_pages().unwrap_or(0.0).max(1.0)
}

impl Mapper<'_> {
    pub(super) fn scan(&self, plan: &Arc<dyn ExecutionPlan>, scan: &ScanExec) -> Mapped {
        let table = scan.table();
        let base = table.table().base_index();
        let name = name_of(table.database(), table.table());
        let all = base.partitions.len();
        let read = scan.partitions().len();
        let detail = Detail::Read {
            seek: Vec::new(),
            is_ordered: false,
            is_backward: false,
            looks_up: false,
            partitions: (all > 1).then_some((read, all)),
        };
        let operator = table.scan_name();
        let mut node = self.node(plan, (operator, operator), detail, Vec::new());
        node.object = Some(object_of(&name, base));
        node.mark = Some(scan.mark().clone());
        node.estimate.table_rows = Some(table.expected_rows() as f64);
        // If a table cannot be opened, nothing is known of it.
        node.estimate.rows_read = table.rows_read_of(scan.partitions()).ok().map(|rows| rows.max(node.estimate.rows));
        node.estimate.pages = table.data_pages().unwrap_or(0.0) * read as f64 / all.max(1) as f64;
        node.actual = match self.has_run {
            true => actual::of_reads(scan.profile().as_ref(), page_rows(table)),
            false => None,
        };
        let columns = self.read_columns(&name, table, scan.projection());
        node.defined = columns.iter().map(|column| (column.clone(), None)).collect();
        node.probes = self.probes(scan.filters(), &columns);
        self.mapped(node, columns)
    }

    fn read_columns(&self, name: &Arc<TableName>, table: &TableRead, projection: &[usize]) -> Vec<PlanColumn> {
        let column = |&at: &usize| match table.table().columns.get(at) {
            Some(column) => super::table_column(name, column),
            None => PlanColumn::made(ROW_PLACE),
        };
        projection.iter().map(column).collect()
    }

    pub(super) fn seek(&self, plan: &Arc<dyn ExecutionPlan>, seek: &SeekExec) -> Mapped {
        let table = seek.table();
        let keys = self.seek_keys(table, seek.path().index, seek.predicates());
        let keys = if seek.path().is_whole() { Vec::new() } else { keys };
        let columns = seek.projection();
        let mut node = self.index_read(table, seek.path().index, columns, (keys, seek.direction()), seek.path().covers);
        let reads = if seek.path().covers { &mut node } else { &mut node.children[0] };
        reads.estimate.pages = seek.path().pages;
        reads.estimate.rows_read = Some(seek.path().rows);
        reads.mark = Some(seek.mark().clone());
        let rows = self.expected(plan).rows;
        let ran = match self.has_run {
            true => actual::of_reads(seek.profile(), page_rows(table)),
            false => None,
        };
        let fill = |node: &mut PlanNode| {
            node.is_parallel = is_parallel(plan);
            node.estimate.rows = rows;
            node.actual.clone_from(&ran);
        };
        fill(&mut node);
        node.children.iter_mut().for_each(fill);
        if let Some(lookup) = node.children.get_mut(1) {
            // The lookup runs once for each index entry.
            lookup.estimate.executions = rows.max(1.0);
            let worker = |worker: &mut WorkerActual| (worker.executions, worker.reads) = (worker.rows, None);
            lookup.actual.iter_mut().flat_map(|actual| actual.workers.iter_mut()).for_each(worker);
        }
        let name = name_of(table.database(), table.table());
        let columns = self.read_columns(&name, table, columns);
        // Probes are tested in the index's leaves.
        let reads = if seek.path().covers { &mut node } else { &mut node.children[0] };
        reads.probes = self.probes(seek.filters(), &columns);
        self.mapped(node, columns)
    }

    /// An index read by keys or in order. If its entries lead to the rows, it is shown as a join with them, as in SQL
    /// Server.
    pub(super) fn index_read(
        &self,
        table: &TableRead,
        at: usize,
        projection: &[usize],
        (seek, direction): (Vec<SeekKey>, Direction),
        covers: bool,
    ) -> PlanNode {
        let definition = table.table();
        let index = &definition.indexes[at];
        let name = name_of(table.database(), definition);
        let operator = match (index.kind == IndexKind::Clustered, seek.is_empty()) {
            (true, false) => "Clustered Index Seek",
            (true, true) => "Clustered Index Scan",
            (false, false) => "Index Seek",
            (false, true) => "Index Scan",
        };
        let is_backward = direction == Direction::Backward;
        let detail = Detail::Read { seek, is_ordered: true, is_backward, looks_up: false, partitions: None };
        let mut node = PlanNode::new(operator, operator, detail);
        node.object = Some(object_of(&name, index));
        node.estimate.table_rows = Some(table.expected_rows() as f64);
        let columns = self.read_columns(&name, table, projection);
        node.output.clone_from(&columns);
        if covers {
            node.defined = columns.into_iter().map(|column| (column, None)).collect();
            return node;
        }
        let reference = match definition.is_clustered() {
            false => vec![PlanColumn::made(ROW_PLACE)],
            true => {
                let key: Vec<usize> = definition.base_index().key.iter().map(|part| part.column).collect();
                self.read_columns(&name, table, &key)
            }
        };
        node.output.clone_from(&reference);
        node.defined = reference.iter().map(|column| (column.clone(), None)).collect();
        let (operator, logical) = match definition.is_clustered() {
            true => ("Clustered Index Seek", "Clustered Index Seek"),
            false => ("RID Lookup", "RID Lookup"),
        };
        let same = |column: &PlanColumn| SeekKey {
            column: column.clone(),
            op: CompareOp::Equal,
            values: vec![PlanExpr::Column(column.clone())],
        };
        let seek = reference.iter().map(same).collect();
        let detail = Detail::Read { seek, is_ordered: true, is_backward: false, looks_up: true, partitions: None };
        let mut lookup = PlanNode::new(operator, logical, detail);
        lookup.object = Some(object_of(&name, definition.base_index()));
        lookup.estimate.table_rows = node.estimate.table_rows;
        lookup.output.clone_from(&columns);
        lookup.defined = columns.into_iter().map(|column| (column, None)).collect();
        let mut join = PlanNode::new("Nested Loops", "Inner Join", Detail::NestedLoops { outer: reference });
        join.output.clone_from(&lookup.output);
        join.children = vec![node, lookup];
        join
    }

    /// Seek keys from the conditions on an index's first columns.
    fn seek_keys(&self, table: &TableRead, at: usize, predicates: &[ColumnPredicate]) -> Vec<SeekKey> {
        let definition = table.table();
        let name = name_of(table.database(), definition);
        let mut keys = Vec::new();
        for part in &definition.indexes[at].key {
            let column = &definition.columns[part.column];
            let named = || super::table_column(&name, column);
            let usable = |predicate: &&ColumnPredicate| {
                predicate.column == part.column && predicate.collation.is_none_or(|by| Some(by) == column.collation)
            };
            let tests = || predicates.iter().filter(usable).map(|predicate| &predicate.test);
            let value = |comparand: &Comparand| self.comparand(comparand, column.sql_type);
            let fixed = tests().find_map(|test| match test {
                Test::Equal(values) => Some((CompareOp::Equal, values.iter().map(value).collect())),
                Test::Null => Some((CompareOp::Is, vec![PlanExpr::Constant("NULL".to_owned())])),
                Test::Range { .. } | Test::Never => None,
            });
            if let Some((op, values)) = fixed {
                keys.push(SeekKey { column: named(), op, values });
                continue;
            }
            let bound = |limit: Option<&Limit>, (open, closed): (CompareOp, CompareOp)| {
                limit.map(|(comparand, is_in)| SeekKey {
                    column: named(),
                    op: if *is_in { closed } else { open },
                    values: vec![value(comparand)],
                })
            };
            let low = tests().find_map(|test| if let Test::Range { low, .. } = test { low.as_ref() } else { None });
            let high = tests().find_map(|test| if let Test::Range { high, .. } = test { high.as_ref() } else { None });
            keys.extend(bound(low, (CompareOp::Greater, CompareOp::GreaterOrEqual)));
            keys.extend(bound(high, (CompareOp::Less, CompareOp::LessOrEqual)));
            break;
        }
        keys
    }

    /// Aggregates inside a scan: shown as an aggregate over the scan whose rows go no further.
    pub(super) fn aggregate_scan(&self, plan: &Arc<dyn ExecutionPlan>, aggregate: &AggregateScanExec) -> Mapped {
        let scan = self.map(aggregate.input());
        let mut below = scan.node;
        for worker in below.actual.iter_mut().flat_map(|actual| actual.workers.iter_mut()) {
            worker.rows_aggregated = Some(worker.rows);
        }
        let source = aggregate.source();
        let made: Vec<(PlanColumn, Option<PlanExpr>)> = aggregate
            .aggregates()
            .map(|(computed, definition)| {
                let name = SqlAggregate::new(*definition).name().to_uppercase();
                let arguments = self.scan_argument(source, computed).into_iter().collect();
                let made = PlanExpr::Aggregate { name, is_distinct: false, arguments };
                (self.column_for(&made), Some(made))
            })
            .collect();
        let groups = Vec::new();
        let names = ("Stream Aggregate", "Aggregate");
        let mut node = self.node(plan, names, Detail::StreamAggregate { groups }, Vec::new());
        if let Some(read) = &below.actual {
            let worker = |worker: &WorkerActual| WorkerActual {
                worker: worker.worker,
                rows: 1,
                batches: Some(1),
                executions: worker.executions,
                ..WorkerActual::default()
            };
            node.actual = Some(hobt_showplan::Actual {
                workers: read.workers.iter().map(worker).collect(),
                ..Default::default()
            });
        }
        node.estimate.rows =
            node.estimate.rows.min(aggregate.input().properties().partitioning.partition_count() as f64);
        node.children = vec![below];
        let columns: Vec<PlanColumn> = made.iter().map(|(column, _)| column.clone()).collect();
        // An aggregate may have more than one column of state.
        let width = plan.schema().fields().len();
        let last = columns.last().cloned();
        let columns =
            columns.into_iter().chain(std::iter::repeat_with(|| last.clone()).flatten()).take(width).collect();
        self.mapped(PlanNode { defined: made, ..node }, columns)
    }
    /// The argument of an aggregate in a scan; `None` if it counts all rows.
    fn scan_argument(&self, scan: &ScanExec, computed: &ScanAggregate) -> Option<PlanExpr> {
        let name = name_of(scan.table().database(), scan.table().table());
        let column = |at: usize| {
            let named = self.read_columns(&name, scan.table(), &[at]).pop();
            PlanExpr::Column(named.unwrap_or_else(|| PlanColumn::made(ROW_PLACE)))
        };
        Some(match computed {
            ScanAggregate::CountRows => return None,
            ScanAggregate::CountColumn(at) | ScanAggregate::MinText(at, _) | ScanAggregate::MaxText(at, _) => {
                column(*at)
            }
            ScanAggregate::Min(expr) | ScanAggregate::Max(expr) | ScanAggregate::Sum(expr) => {
                scan_expression(expr, &column)
            }
        })
    }
}

fn scan_expression(expr: &ScanExpression, column: &dyn Fn(usize) -> PlanExpr) -> PlanExpr {
    match expr {
        ScanExpression::Column(at) => column(*at),
        ScanExpression::Literal(value) => PlanExpr::Constant(format!("({value})")),
        ScanExpression::Length(at) => PlanExpr::Function { name: "len".to_owned(), arguments: vec![column(*at)] },
        ScanExpression::Arithmetic { operation, left, right, .. } => {
            let sign = match operation {
                Arithmetic::Add => '+',
                Arithmetic::Subtract => '-',
                Arithmetic::Multiply => '*',
            };
            let side = |side| Box::new(scan_expression(side, column));
            PlanExpr::Arithmetic { sign, left: side(left), right: side(right) }
        }
    }
}
