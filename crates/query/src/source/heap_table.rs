//! A heap in one statement.

use std::fmt;
use std::sync::{Arc, Weak};

use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::DFSchema;
use datafusion::common::Result;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use hobt_access::scan::{PageSample, ScanSettings};
use hobt_access::{AccessError, BTree, KeyRange, RowStore};
use hobt_base::{PAGE_SIZE, SqlError, number};
use hobt_catalog::{IndexKind, PartitionCounts, Table};
use hobt_engine::{DatabaseUse, EngineError};
use hobt_functions::carrier;
use hobt_txn::locks::LockMode;
use hobt_types::{MaxLength, SqlType};

use crate::access_path::{
    AccessHint, AccessPath, ColumnPredicate, Wanted, choose, choose_to_lock, missing_to, partitions_read, predicates,
    read_predicates,
};
use crate::binder::ScanSample;
use crate::cardinality::{LeafEstimate, Remembered, TableKnowledge, is_marked};
use crate::execute::{JoinWay, LockRowsExec, LockRowsSettings, ScanExec, SeekExec, StatementRun};
use crate::execute::{UnseenRows, UnseenRowsExec, UnseenUse};
use crate::wrap::external;

/// A table of a database, to be read by one statement.
pub struct HeapTable {
    this: Weak<HeapTable>,
    database: DatabaseUse,
    table: Arc<Table>,
    run: Arc<StatementRun>,
    schema: SchemaRef,
    has_places: bool,
    reads_versions: bool,
    hint: AccessHint,
    join_way: JoinWay,
    /// How its rows are locked, if they are.
    row_reading: Option<RowReading>,
    /// What is known of its rows that others are changing, where the statement may have to wait for them.
    unseen: Option<Arc<UnseenRows>>,
    /// The part of its pages that is read; all if absent.
    sample: Option<PageSample>,
    /// What estimates have computed of its columns.
    remembered: Arc<Remembered>,
}

/// How a scan locks the rows that it shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowReading {
    /// `S`, `U` or `X`.
    pub mode: LockMode,
    /// Whether until the transaction has ended; otherwise until the row has been read.
    pub is_kept: bool,
    /// Whether rows that others have locked are left out: `READPAST`.
    pub skips_locked: bool,
    /// Whether a row that was changed since the transaction first looked is an error.
    pub is_of_snapshot: bool,
    /// How the keys of the ranges that are read are locked, so that no row comes into them: `RangeS-S`, `RangeS-U` or
    /// `RangeX-X`.
    pub range: Option<LockMode>,
}

impl fmt::Debug for HeapTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeapTable").field("table", &self.table.name).finish_non_exhaustive()
    }
}

/// A table's columns in their carriers, by their names.
pub fn table_schema(table: &Table) -> SchemaRef {
    let field =
        |column: &hobt_catalog::TableColumn| Field::new(&column.name, carrier(column.sql_type), column.nullable);
    Arc::new(Schema::new(table.columns.iter().map(field).collect::<Vec<_>>()))
}

/// The type of the column that says where a row of a table lies: a number in a heap, the partition and the normalised
/// key in a clustered index.
pub(crate) fn place_type(table: &Table) -> SqlType {
    match table.is_clustered() {
        true => SqlType::VarBinary(MaxLength::Limited(8000)),
        false => SqlType::Decimal { precision: 38, scale: 0 },
    }
}

/// [`table_schema`] with the rows' places behind it, under a name that no column has.
fn with_places(table: &Table) -> SchemaRef {
    let mut name = "row_place".to_owned();
    while table.column_named(&name).is_some() {
        name.push('_');
    }
    let mut fields: Vec<Arc<Field>> = table_schema(table).fields().to_vec();
    fields.push(Arc::new(Field::new(name, carrier(place_type(table)), false)));
    Arc::new(Schema::new(fields))
}

impl HeapTable {
    /// The table for the statement `run`, which holds its lock. With `has_places` its rows have one more column, the
    /// last: where they lie, as [`hobt_access::scan::RowPlace`] numbers it. With `reads_versions` the statement, which
    /// reads versions, sees rows as they were committed; without it, as they stand.
    pub fn new(
        database: DatabaseUse,
        table: Arc<Table>,
        run: Arc<StatementRun>,
        has_places: bool,
        reads_versions: bool,
    ) -> Arc<HeapTable> {
        HeapTable::read_so(database, table, run, has_places, reads_versions, None)
    }

    /// The same for a statement that reads versions and has listed the table's rows as such that it locks: its scan
    /// locks each row that it shows, and shows it as it stands then.
    pub fn new_locked(
        database: DatabaseUse,
        table: Arc<Table>,
        run: Arc<StatementRun>,
        has_places: bool,
        row_reading: RowReading,
    ) -> Arc<HeapTable> {
        HeapTable::read_so(database, table, run, has_places, true, Some(row_reading))
    }

    fn read_so(
        database: DatabaseUse,
        table: Arc<Table>,
        run: Arc<StatementRun>,
        has_places: bool,
        reads_versions: bool,
        row_reading: Option<RowReading>,
    ) -> Arc<HeapTable> {
        let schema = match has_places {
            true => with_places(&table),
            false => table_schema(&table),
        };
        Arc::new_cyclic(|this| HeapTable {
            this: Weak::clone(this),
            database,
            table,
            run,
            schema,
            has_places,
            reads_versions,
            row_reading,
            hint: AccessHint::Free,
            join_way: JoinWay::Free,
            unseen: None,
            sample: None,
            remembered: Arc::default(),
        })
    }

    /// The same for a statement that may be going to change its rows, and says by [`HeapTable::unseen`] whether it is.
    #[must_use]
    pub fn beside_unseen(self: Arc<HeapTable>) -> Arc<HeapTable> {
        self.changed(|table| HeapTable { unseen: Some(Arc::default()), ..table })
    }

    /// What is known of its rows that others are changing; `None` where the statement has no need of that.
    pub fn unseen(&self) -> Option<&Arc<UnseenRows>> {
        self.unseen.as_ref()
    }

    /// The same, to be reached as a hint asks for.
    #[must_use]
    pub fn hinted(self: Arc<HeapTable>, hint: AccessHint) -> Arc<HeapTable> {
        if hint == AccessHint::Free { self } else { self.hinted_both(hint, self.join_way) }
    }

    /// The same, to be joined as a hint asks for.
    #[must_use]
    pub(crate) fn joined(&self, way: JoinWay) -> Arc<HeapTable> {
        self.hinted_both(self.hint, way)
    }

    fn hinted_both(&self, hint: AccessHint, join_way: JoinWay) -> Arc<HeapTable> {
        self.changed(|table| HeapTable { hint, join_way, ..table })
    }

    /// A copy with something else in it.
    fn changed(&self, change: impl FnOnce(HeapTable) -> HeapTable) -> Arc<HeapTable> {
        Arc::new_cyclic(|this| {
            change(HeapTable {
                this: Weak::clone(this),
                database: self.database.clone(),
                table: Arc::clone(&self.table),
                run: Arc::clone(&self.run),
                schema: Arc::clone(&self.schema),
                has_places: self.has_places,
                reads_versions: self.reads_versions,
                hint: self.hint,
                join_way: self.join_way,
                row_reading: self.row_reading,
                unseen: self.unseen.clone(),
                sample: self.sample,
                remembered: Arc::clone(&self.remembered),
            })
        })
    }

    /// The same, of which a part of the pages is read.
    #[must_use]
    pub fn sampled(self: Arc<HeapTable>, sample: &ScanSample) -> Arc<HeapTable> {
        let rows = self.row_count() as f64;
        let percent = match sample.is_rows {
            false => sample.amount,
            true if rows > 0.0 => (sample.amount / rows * 100.0).min(100.0),
            true => 100.0,
        };
        let by_chance = || {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            i64::try_from(now.as_nanos() & u128::from(u32::MAX)).unwrap_or(1)
        };
        let seed = sample.seed.unwrap_or_else(by_chance).cast_unsigned();
        let sample = Some(PageSample { millionths: (percent * 10_000.0).round() as u32, seed });
        self.changed(|table| HeapTable { sample, ..table })
    }

    /// How a hint has it joined to what stands before it.
    pub(crate) fn join_way(&self) -> JoinWay {
        self.join_way
    }

    /// The access that a hint asks for.
    pub(crate) fn hint(&self) -> AccessHint {
        self.hint
    }

    /// What estimates have computed of its columns.
    pub(crate) fn remembered(&self) -> &Remembered {
        &self.remembered
    }

    /// The statement that reads.
    pub(crate) fn run(&self) -> &Arc<StatementRun> {
        &self.run
    }

    /// Whether its scan locks the rows that it shows, as it shows them.
    pub fn locks_rows(&self) -> bool {
        self.row_reading.is_some()
    }

    /// How it is scanned.
    pub fn scan_settings(&self) -> ScanSettings {
        ScanSettings { reads_uncommitted: !self.reads_versions, sample: self.sample, ..self.run.scan_settings }
    }

    /// The database.
    pub fn database(&self) -> &DatabaseUse {
        &self.database
    }

    /// SQL Server's name of the operator that reads all of it.
    pub fn scan_name(&self) -> &'static str {
        if self.table.is_clustered() { "Clustered Index Scan" } else { "Table Scan" }
    }

    /// The column that says where a row lies, if the rows have it.
    pub fn place_column(&self) -> Option<usize> {
        self.has_places.then_some(self.table.columns.len())
    }

    /// Whether foreign keys refer to the table.
    pub fn is_referenced(&self) -> bool {
        let snapshot = self.database.snapshot();
        let refers = |table: &Arc<Table>| {
            table.constraints.foreign_keys.iter().any(|key| key.referenced == self.table.id && !key.head.is_disabled)
        };
        snapshot.tables.values().any(refers)
    }

    /// The definition.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The heaps of its partitions, or the trees of its clustered index, in order.
    ///
    /// # Errors
    /// One cannot be opened.
    pub fn stores(&self) -> Result<Vec<RowStore>, SqlError> {
        let stores =
            self.table.base_index().partitions.iter().map(|partition| self.database.store_to_read(partition.hobt));
        stores.collect::<Result<Vec<_>, EngineError>>().map_err(|error| error.to_sql_error())
    }

    /// Pages of rows of all partitions.
    ///
    /// # Errors
    /// One cannot be opened.
    pub(crate) fn data_pages(&self) -> Result<f64, SqlError> {
        Ok(self.stores()?.iter().map(|store| self.expected_data_pages(store)).sum::<u64>() as f64)
    }

    /// Pages of rows of some partitions (from 0).
    ///
    /// # Errors
    /// One cannot be opened.
    pub(crate) fn data_pages_of(&self, partitions: &[usize]) -> Result<f64, SqlError> {
        let stores = self.stores()?;
        let pages = partitions.iter().filter_map(|place| Some(self.expected_data_pages(stores.get(*place)?)));
        Ok(pages.sum::<u64>() as f64)
    }

    /// Rows that a scan of some partitions (from 0) is expected to look at.
    ///
    /// # Errors
    /// One cannot be opened.
    pub(crate) fn rows_read_of(&self, partitions: &[usize]) -> Result<f64, SqlError> {
        let stores = self.stores()?;
        let rows = partitions.iter().filter_map(|place| Some(self.expected(stores.get(*place)?).rows));
        Ok(rows.sum::<u64>() as f64 * self.share_read())
    }

    /// The part of the pages that `TABLESAMPLE` leaves, 1 without.
    fn share_read(&self) -> f64 {
        self.sample.map_or(1.0, |sample| f64::from(sample.millionths) / 1e6)
    }

    /// Rows of all partitions, as far as they can be opened.
    pub fn row_count(&self) -> u64 {
        let hobts = self.table.base_index().partitions.iter().map(|partition| partition.hobt);
        self.database.row_count(hobts).unwrap_or(0)
    }

    /// The same as estimates have it: in a clone what the source has, or what `ROWCOUNT` said.
    pub fn expected_rows(&self) -> u64 {
        self.stores().map_or(0, |stores| stores.iter().map(|store| self.database.database().expected_rows(store)).sum())
    }

    fn expected_data_pages(&self, store: &RowStore) -> u64 {
        self.database.database().expected_data_pages(store)
    }

    /// Rows and pages that estimates take a partition to have.
    pub(crate) fn expected(&self, store: &RowStore) -> PartitionCounts {
        self.database.database().expected_counts(store)
    }

    /// Bytes of a row's columns `projection`: what they may be by declaration, or what the table's rows take on their
    /// pages if that is less.
    pub fn row_width(&self, projection: &[usize]) -> usize {
        let columns = &self.table.columns;
        let place = place_type(&self.table);
        let width = |&column: &usize| columns.get(column).map_or(place, |column| column.sql_type);
        let declared: usize = projection.iter().map(|column| declared_width(width(column))).sum();
        declared.min(self.row_bytes())
    }

    /// Bytes that a row takes on its pages, values on pages of their own counted in, on average.
    fn row_bytes(&self) -> usize {
        let Ok(stores) = self.stores() else { return PAGE_SIZE };
        let counts = || stores.iter().map(|store| self.expected(store));
        let pages: u64 = counts().map(|counts| counts.used_pages).sum();
        let rows: u64 = counts().map(|counts| counts.rows).sum();
        let bytes = pages.saturating_mul(PAGE_SIZE as u64).checked_div(rows).unwrap_or(PAGE_SIZE as u64);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// An error of its storage as the user sees it.
    pub fn sql_error(&self, error: AccessError) -> SqlError {
        access_error(&self.database, error)
    }
}

/// 8655.
pub(crate) fn clustered_disabled(table: &Table) -> SqlError {
    let index = table.base_index().name.as_deref().unwrap_or("");
    let text = format!(
        "The query processor is unable to produce a plan because the index '{index}' on table or view '{}' is disabled.",
        table.name
    );
    SqlError::new(number::CLUSTERED_DISABLED, text)
}

/// The most bytes of a value of this type as a batch holds it.
pub(crate) fn declared_width(sql_type: SqlType) -> usize {
    const VIEW_BYTES: usize = 16;
    sql_type.physical().width().unwrap_or_else(|| match sql_type.max_length_bytes() {
        -1 => usize::MAX >> 16,
        bytes => usize::from(bytes.unsigned_abs()) + VIEW_BYTES,
    })
}

/// Bytes of a row of all heaps that an optimised plan scans: about what its widest rows have of stored columns.
pub(crate) fn scanned_width(plan: &LogicalPlan) -> usize {
    let own = match plan {
        LogicalPlan::TableScan(scan) => source_as_provider(&scan.source).ok().and_then(|provider| {
            let heap = provider.downcast_ref::<HeapTable>()?;
            Some(match &scan.projection {
                Some(projection) => heap.row_width(projection),
                None => heap.row_width(&(0..heap.table.columns.len()).collect::<Vec<_>>()),
            })
        }),
        _ => None,
    };
    own.unwrap_or(0) + plan.inputs().into_iter().map(scanned_width).sum::<usize>()
}

/// Conditions on the rows of a table.
struct Conditions<'c> {
    conditions: &'c [Expr],
    /// What they say of single columns.
    known: Arc<[ColumnPredicate]>,
    /// What estimates take them to say, where that is something else.
    assumed: Option<Vec<ColumnPredicate>>,
    /// Those that say nothing of single columns.
    unread: Vec<&'c Expr>,
}

impl<'c> Conditions<'c> {
    fn of(table: &HeapTable, conditions: &'c [Expr]) -> Conditions<'c> {
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

    /// What a way to the rows is chosen by.
    fn path(&self) -> Wanted<'_> {
        Wanted { predicates: &self.known, assumed: self.assumed.as_deref() }
    }
}

/// What is expected of the rows of some partitions that fulfil conditions, as far as statistics tell.
fn expected(heap: &HeapTable, partitions: &[usize], wanted: &Conditions<'_>, projection: &[usize]) -> LeafEstimate {
    let share = heap.share_read();
    // Which partitions are read is known of values that estimates do not know.
    let read = wanted.assumed.as_ref().map(|assumed| partitions_read(heap, assumed));
    let partitions = read.as_deref().unwrap_or(partitions);
    let provider: Arc<dyn TableProvider> = heap.this.upgrade().expect("a provider in use is alive");
    let knowledge = TableKnowledge::of(heap, partitions);
    let whole = knowledge.leaf(wanted.assumed(), &wanted.unread, (projection, &provider));
    LeafEstimate { rows: whole.rows * share, ..whole }
}

/// An error of a database's storage as the user sees it.
pub(crate) fn access_error(database: &DatabaseUse, error: AccessError) -> SqlError {
    database.storage_error(error).to_sql_error()
}

#[async_trait]
impl TableProvider for HeapTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, conditions: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let answer = match self.row_reading {
            // What is locked is what fulfils the conditions.
            Some(_) => TableProviderFilterPushDown::Exact,
            // All may be seen, for indexes that are there and such that are not; none is relied on: they stay above.
            None => TableProviderFilterPushDown::Inexact,
        };
        Ok(vec![answer; conditions.len()])
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        conditions: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let projection = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let schema = Arc::new(self.schema.project(&projection)?);
        if let Some(reading) = self.row_reading {
            return self.scan_locked(session, (projection, schema), conditions, limit, reading);
        }
        let wanted = Conditions::of(self, conditions);
        let path = choose(self, &projection, wanted.path()).map_err(external)?;
        let plan = self.scan_by(path.clone(), (projection.clone(), schema), &wanted)?;
        let plan = self.with_unseen(plan, path, projection)?;
        // Conditions stay above, but rows that others are changing may fulfil them yet.
        Ok(match plan.downcast_ref::<ScanExec>() {
            Some(scan) => Arc::new(scan.sifting()),
            None => plan,
        })
    }
}

impl HeapTable {
    /// Reads the columns `projection` of the rows that `path` leads to.
    fn scan_by(
        &self,
        path: AccessPath,
        (projection, schema): (Vec<usize>, SchemaRef),
        wanted: &Conditions<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let table = self.this.upgrade().expect("a provider in use is alive");
        let known = Arc::clone(&wanted.known);
        Ok(match path {
            AccessPath::Scan { partitions } if partitions.is_empty() => Arc::new(EmptyExec::new(schema)),
            AccessPath::Scan { partitions } => {
                let missing = missing_to(self, &projection, wanted.conditions, &known).map_err(external)?;
                let estimated = expected(self, &partitions, wanted, &projection);
                let scan = ScanExec::new(table, Arc::clone(&self.run), projection, schema);
                Arc::new(scan.of_partitions(partitions).missing(missing).knowing(known).estimating(estimated))
            }
            AccessPath::Seek(path) => {
                let all: Vec<usize> = (0..self.table.base_index().partitions.len()).collect();
                // What the tree says of the ranges is as new as the rows, and nothing finer than a page.
                let mut estimated = expected(self, &all, wanted, &projection);
                estimated.rows = estimated.rows.min(path.rows.max(path.page_rows()));
                Arc::new(SeekExec::new(table, path, projection, schema).knowing(known).estimating(estimated))
            }
        })
    }

    /// A scan, with the rows of its path that others are changing where there are any and they are of consequence.
    fn with_unseen(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        path: AccessPath,
        projection: Vec<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(unseen) = self.unseen.as_ref().filter(|unseen| unseen.usage() != UnseenUse::None) else {
            return Ok(plan);
        };
        if !self.has_unseen(&path).map_err(external)? {
            return Ok(plan);
        }
        unseen.watch();
        let table = self.this.upgrade().expect("a provider in use is alive");
        Ok(Arc::new(UnseenRowsExec::new(plan, table, Arc::clone(unseen), path, projection)))
    }

    /// Whether rows to which `path` may lead have been changed by somebody whom the statement does not see. This is the
    /// moment that counts: what is changed later is changed behind the statement.
    fn has_unseen(&self, path: &AccessPath) -> Result<bool, SqlError> {
        let Some(view) = self.run.context.view_so_far().filter(|view| !view.is_of_present()) else { return Ok(false) };
        if let AccessPath::Seek(path) = path
            && self.table.indexes[path.index].kind == IndexKind::Clustered
        {
            let is_changed = |tree: &BTree| path.ranges.iter().any(|range| tree.has_unseen_keys(range, &view));
            return Ok(path.trees.iter().any(|(_, tree)| is_changed(tree)));
        }
        let stores = self.stores()?;
        let wanted: Vec<&RowStore> = match path {
            AccessPath::Scan { partitions } => partitions.iter().map(|partition| &stores[*partition]).collect(),
            // An entry comes and goes with a change of its row.
            AccessPath::Seek(_) => stores.iter().collect(),
        };
        Ok(wanted.into_iter().any(|store| match store {
            RowStore::Heap(heap) => heap.has_unseen_rows(&view),
            RowStore::Tree(tree) => tree.has_unseen_keys(&KeyRange::all(), &view),
        }))
    }

    /// A scan that locks the rows that it shows.
    fn scan_locked(
        &self,
        session: &dyn Session,
        (projection, schema): (Vec<usize>, SchemaRef),
        conditions: &[Expr],
        limit: Option<usize>,
        reading: RowReading,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (database, definition) = (self.database.clone(), Arc::clone(&self.table));
        let inner = HeapTable::new(database, definition, Arc::clone(&self.run), true, true);
        let inner = inner.hinted_both(self.hint, self.join_way);
        let place = self.table.columns.len();
        let mut columns: Vec<usize> = projection.iter().copied().filter(|column| *column != place).collect();
        // A row of a clustered index keeps its key: with another it is another row.
        let mut is_of_key = self.table.is_clustered();
        for name in conditions.iter().flat_map(Expr::column_refs).map(|column| column.name.clone()) {
            let column = inner.schema.index_of(&name)?;
            if !columns.contains(&column) {
                columns.push(column);
            }
            is_of_key &= self.table.base_index().key.iter().any(|part| part.column == column);
        }
        let place_in = columns.len();
        let mut read = columns.clone();
        read.push(place);
        let position = |column: &usize| columns.iter().position(|known| known == column).unwrap_or(place_in);
        let output = projection.iter().map(position).collect();
        let read_schema = Arc::new(inner.schema.project(&read)?);
        let described = DFSchema::try_from(read_schema.as_ref().clone())?;
        let wanted = Conditions::of(&inner, conditions);
        let path = match reading.range {
            Some(_) => choose_to_lock(&inner, &read, wanted.path()).map_err(external)?,
            None => choose(&inner, &read, wanted.path()).map_err(external)?,
        };
        if reading.range == Some(LockMode::RangeSharedShared) && path.is_whole() {
            // Nobody puts a row anywhere: that is what the lock of the table says.
            self.run.ask_for_whole(self.database.id(), self.table.id);
        }
        let input = inner.scan_by(path.clone(), (read, read_schema), &wanted)?;
        let conditions = conjunction(conditions.iter().cloned());
        let conditions = conditions.map(|expr| session.create_physical_expr(expr, &described)).transpose()?;
        let settings =
            LockRowsSettings { reading, path, columns, output, conditions, is_of_key, limit, order: None, schema };
        let table = self.this.upgrade().expect("a provider in use is alive");
        Ok(Arc::new(LockRowsExec::new(input, table, Arc::clone(&self.run), settings)))
    }
}
