//! A table, a heap or a clustered index, as one statement reads it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, TableProviderFilterPushDown, TableSource};
use hobt_access::scan::{PageSample, ScanSettings};
use hobt_access::{AccessError, RowStore};
use hobt_base::{PAGE_SIZE, SqlError, errors};
use hobt_catalog::{PartitionCounts, Table};
use hobt_engine::{DatabaseUse, EngineError};
use hobt_functions::carrier;
use hobt_txn::locks::LockMode;
use hobt_types::{MaxLength, SqlType};

use super::join_way::JoinWay;
use super::unseen_rows::UnseenRows;
use crate::StatementRun;
use crate::access_path::AccessHint;
use crate::cardinality::Remembered;

/// A table of a database, to be read by one statement.
#[derive(Clone)]
pub struct TableRead {
    pub(crate) database: DatabaseUse,
    pub(crate) table: Arc<Table>,
    pub(crate) run: Arc<StatementRun>,
    pub(crate) schema: SchemaRef,
    pub(crate) has_places: bool,
    pub(crate) reads_versions: bool,
    pub(crate) hint: AccessHint,
    pub(crate) join_way: JoinWay,
    /// How its rows are locked, if they are.
    pub(crate) row_reading: Option<RowReading>,
    /// Rows of it that other transactions are changing, if the statement may have to wait for them.
    pub(crate) unseen: Option<Arc<UnseenRows>>,
    /// The part of its pages that is read; all if `None`.
    pub(crate) sample: Option<PageSample>,
    /// Figures of its columns that estimates have computed.
    pub(crate) remembered: Arc<Remembered>,
}

/// The part of a table that `TABLESAMPLE` selects.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ScanSample {
    /// Percent of the pages, or as many pages as hold this many rows.
    pub amount: f64,
    /// Whether `amount` counts rows.
    pub is_rows: bool,
    /// `REPEATABLE`.
    pub seed: Option<i64>,
}

/// How a scan locks the rows that it outputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowReading {
    /// `S`, `U` or `X`.
    pub mode: LockMode,
    /// Whether locks are kept until the transaction has ended; otherwise until the row has been read.
    pub is_kept: bool,
    /// Whether rows that other transactions have locked are left out: `READPAST`.
    pub skips_locked: bool,
    /// Whether it is an error if a row was changed since the transaction's snapshot.
    pub is_of_snapshot: bool,
    /// The lock mode for the keys of the ranges that are read, which prevents inserts into them: `RangeS-S`, `RangeS-U`
    /// or `RangeX-X`.
    pub range: Option<LockMode>,
}

impl fmt::Debug for TableRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableRead").field("table", &self.table.name).finish_non_exhaustive()
    }
}

/// A table's columns by name, in their carrier types.
pub fn table_schema(table: &Table) -> SchemaRef {
    let field =
        |column: &hobt_catalog::TableColumn| Field::new(&column.name, carrier(column.sql_type), column.nullable);
    Arc::new(Schema::new(table.columns.iter().map(field).collect::<Vec<_>>()))
}

/// The type of a table's position column: a number in a heap, the partition and the normalised key in a clustered
/// index.
pub fn place_type(table: &Table) -> SqlType {
    match table.is_clustered() {
        true => SqlType::VarBinary(MaxLength::Limited(8000)),
        false => SqlType::Decimal { precision: 38, scale: 0 },
    }
}

/// [`table_schema`] with the position column behind it, under a name that no column has.
fn with_places(table: &Table) -> SchemaRef {
    let mut name = "row_place".to_owned();
    while table.column_named(&name).is_some() {
        name.push('_');
    }
    let mut fields: Vec<Arc<Field>> = table_schema(table).fields().to_vec();
    fields.push(Arc::new(Field::new(name, carrier(place_type(table)), false)));
    Arc::new(Schema::new(fields))
}

impl TableRead {
    /// The table for the statement `run`, which holds its lock. With `has_places` its rows have one more column at the
    /// end: their position, as numbered by [`hobt_access::scan::RowPlace`]. With `reads_versions` the statement, which
    /// reads versions, sees rows as they were committed; without it, in their current state.
    pub fn new(
        database: DatabaseUse,
        table: Arc<Table>,
        run: Arc<StatementRun>,
        has_places: bool,
        reads_versions: bool,
    ) -> Arc<TableRead> {
        TableRead::read_so(database, table, run, has_places, reads_versions, None)
    }

    /// Creates a table whose scan locks every row before returning its current version. For a statement that reads
    /// versions and has listed the table's rows as locked ones.
    pub fn new_locked(
        database: DatabaseUse,
        table: Arc<Table>,
        run: Arc<StatementRun>,
        has_places: bool,
        row_reading: RowReading,
    ) -> Arc<TableRead> {
        TableRead::read_so(database, table, run, has_places, true, Some(row_reading))
    }

    fn read_so(
        database: DatabaseUse,
        table: Arc<Table>,
        run: Arc<StatementRun>,
        has_places: bool,
        reads_versions: bool,
        row_reading: Option<RowReading>,
    ) -> Arc<TableRead> {
        let schema = match has_places {
            true => with_places(&table),
            false => table_schema(&table),
        };
        Arc::new(TableRead {
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

    /// Lets the statement see rows that other transactions are changing, because it may change rows. It sets by
    /// [`TableRead::unseen`] whether it does.
    #[must_use]
    pub fn beside_unseen(self: Arc<TableRead>) -> Arc<TableRead> {
        Arc::new(TableRead { unseen: Some(Arc::default()), ..Arc::unwrap_or_clone(self) })
    }

    /// The rows that other transactions are changing; `None` if the statement does not need them.
    pub fn unseen(&self) -> Option<&Arc<UnseenRows>> {
        self.unseen.as_ref()
    }

    /// Sets the access that a hint forces.
    #[must_use]
    pub fn hinted(self: Arc<TableRead>, hint: AccessHint) -> Arc<TableRead> {
        if hint == AccessHint::Free { self } else { self.hinted_both(hint, self.join_way) }
    }

    /// Sets the kind of join that a hint forces.
    #[must_use]
    pub fn joined(&self, way: JoinWay) -> Arc<TableRead> {
        self.hinted_both(self.hint, way)
    }

    /// Sets the access and the kind of join that hints force.
    pub fn hinted_both(&self, hint: AccessHint, join_way: JoinWay) -> Arc<TableRead> {
        Arc::new(TableRead { hint, join_way, ..self.clone() })
    }

    /// Restricts the table to a part of its pages.
    #[must_use]
    pub fn sampled(self: Arc<TableRead>, sample: &ScanSample) -> Arc<TableRead> {
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
        Arc::new(TableRead { sample, ..Arc::unwrap_or_clone(self) })
    }

    /// Whether the statement reads the table here as `other` does: the rows that are seen, their columns, and the way
    /// to them that a hint forces.
    pub fn reads_as(&self, other: &TableRead) -> bool {
        Arc::ptr_eq(&self.run, &other.run)
            && self.database.database().id() == other.database.database().id()
            && Arc::ptr_eq(&self.table, &other.table)
            && self.has_places == other.has_places
            && self.reads_versions == other.reads_versions
            && self.hint == other.hint
            && self.sample == other.sample
    }

    /// The kind of join that a hint forces, with the sources before it.
    pub fn join_way(&self) -> JoinWay {
        self.join_way
    }

    /// The access that a hint forces.
    pub fn hint(&self) -> AccessHint {
        self.hint
    }

    /// Figures of its columns that estimates have computed.
    pub(crate) fn remembered(&self) -> &Remembered {
        &self.remembered
    }

    /// The table behind a source of rows; `None` for another kind of source.
    pub fn of(source: &Arc<dyn TableSource>) -> Option<Arc<TableRead>> {
        Arc::downcast(Arc::clone(source) as Arc<dyn Any + Send + Sync>).ok()
    }

    /// Its columns in their carriers, with the position behind them if its rows have it.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// How its rows are locked, if they are.
    pub fn row_reading(&self) -> Option<RowReading> {
        self.row_reading
    }

    /// The statement that reads the table.
    pub fn run(&self) -> &Arc<StatementRun> {
        &self.run
    }

    /// Whether its scan locks each row before it outputs it.
    pub fn locks_rows(&self) -> bool {
        self.row_reading.is_some()
    }

    /// The settings of its scans.
    pub fn scan_settings(&self) -> ScanSettings {
        let of_run = self.run.scan_settings;
        // A sample is read for one look at it: nothing else leaves the pool for it.
        let pool_share_percent = if self.sample.is_some() { 0 } else { of_run.pool_share_percent };
        let reads_uncommitted = !self.reads_versions;
        ScanSettings { reads_uncommitted, sample: self.sample, pool_share_percent, ..of_run }
    }

    /// The database.
    pub fn database(&self) -> &DatabaseUse {
        &self.database
    }

    /// SQL Server's name for the operator that reads the whole table.
    pub fn scan_name(&self) -> &'static str {
        if self.table.is_clustered() { "Clustered Index Scan" } else { "Table Scan" }
    }

    /// The position column, if the rows have it.
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
    /// A heap or tree cannot be opened.
    pub fn stores(&self) -> Result<Vec<RowStore>, SqlError> {
        let stores =
            self.table.base_index().partitions.iter().map(|partition| self.database.store_to_read(partition.hobt));
        stores.collect::<Result<Vec<_>, EngineError>>().map_err(|error| error.to_sql_error())
    }

    /// Data pages of all partitions.
    ///
    /// # Errors
    /// A partition cannot be opened.
    pub fn data_pages(&self) -> Result<f64, SqlError> {
        Ok(self.stores()?.iter().map(|store| self.expected_data_pages(store)).sum::<u64>() as f64)
    }

    /// Data pages of some partitions (from 0).
    ///
    /// # Errors
    /// A partition cannot be opened.
    pub(crate) fn data_pages_of(&self, partitions: &[usize]) -> Result<f64, SqlError> {
        let stores = self.stores()?;
        let pages = partitions.iter().filter_map(|place| Some(self.expected_data_pages(stores.get(*place)?)));
        Ok(pages.sum::<u64>() as f64)
    }

    /// Rows that a scan of some partitions (from 0) is estimated to read.
    ///
    /// # Errors
    /// A partition cannot be opened.
    pub fn rows_read_of(&self, partitions: &[usize]) -> Result<f64, SqlError> {
        let stores = self.stores()?;
        let rows = partitions.iter().filter_map(|place| Some(self.expected(stores.get(*place)?).rows));
        Ok(rows.sum::<u64>() as f64 * self.share_read())
    }

    /// The part of the pages that `TABLESAMPLE` leaves; 1 without it.
    pub fn share_read(&self) -> f64 {
        self.sample.map_or(1.0, |sample| f64::from(sample.millionths) / 1e6)
    }

    /// Rows of all partitions; 0 if a partition cannot be opened.
    pub fn row_count(&self) -> u64 {
        let hobts = self.table.base_index().partitions.iter().map(|partition| partition.hobt);
        self.database.row_count(hobts).unwrap_or(0)
    }

    /// The rows that estimates assume for all partitions: in a clone the source's, or those that `ROWCOUNT` set.
    pub fn expected_rows(&self) -> u64 {
        self.stores().map_or(0, |stores| stores.iter().map(|store| self.database.database().expected_rows(store)).sum())
    }

    fn expected_data_pages(&self, store: &RowStore) -> u64 {
        self.database.database().expected_data_pages(store)
    }

    /// Rows and pages that estimates assume for a partition.
    pub fn expected(&self, store: &RowStore) -> PartitionCounts {
        self.database.database().expected_counts(store)
    }

    /// Bytes of a row's columns `projection`: their declared maximum, or the average size of the table's rows on their
    /// pages if that is less.
    pub fn row_width(&self, projection: &[usize]) -> usize {
        let columns = &self.table.columns;
        let place = place_type(&self.table);
        let width = |&column: &usize| columns.get(column).map_or(place, |column| column.sql_type);
        let declared: usize = projection.iter().map(|column| declared_width(width(column))).sum();
        declared.min(self.row_bytes())
    }

    /// Average bytes of a row on its pages, including values on separate pages.
    fn row_bytes(&self) -> usize {
        let Ok(stores) = self.stores() else { return PAGE_SIZE };
        let counts = || stores.iter().map(|store| self.expected(store));
        let pages: u64 = counts().map(|counts| counts.used_pages).sum();
        let rows: u64 = counts().map(|counts| counts.rows).sum();
        let bytes = pages.saturating_mul(PAGE_SIZE as u64).checked_div(rows).unwrap_or(PAGE_SIZE as u64);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// The error for the user for an error of its storage.
    pub fn sql_error(&self, error: AccessError) -> SqlError {
        access_error(&self.database, error)
    }
}

/// 8655.
pub fn clustered_disabled(table: &Table) -> SqlError {
    let index = table.base_index().name.as_deref().unwrap_or("");
    errors::CLUSTERED_DISABLED.with([&index, &table.name])
}

/// The most bytes of a value of this type in a batch.
pub fn declared_width(sql_type: SqlType) -> usize {
    const VIEW_BYTES: usize = 16;
    sql_type.physical().width().unwrap_or_else(|| match sql_type.max_length_bytes() {
        -1 => usize::MAX >> 16,
        bytes => usize::from(bytes.unsigned_abs()) + VIEW_BYTES,
    })
}

/// The sum of the row widths of all tables that an optimised plan scans: about the stored columns of its widest rows.
pub fn scanned_width(plan: &LogicalPlan) -> usize {
    let own = match plan {
        LogicalPlan::TableScan(scan) => scan.source.downcast_ref::<TableRead>().map(|heap| match &scan.projection {
            Some(projection) => heap.row_width(projection),
            None => heap.row_width(&(0..heap.table.columns.len()).collect::<Vec<_>>()),
        }),
        _ => None,
    };
    own.unwrap_or(0) + plan.inputs().into_iter().map(scanned_width).sum::<usize>()
}

impl TableSource for TableRead {
    fn schema(&self) -> SchemaRef {
        TableRead::schema(self)
    }

    fn supports_filters_pushdown(&self, conditions: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let answer = match self.row_reading {
            // Rows that fulfil the conditions are locked, so the scan tests them itself.
            Some(_) => TableProviderFilterPushDown::Exact,
            // The scan gets all conditions, to find existing and missing indexes, but need not test them: they stay
            // above.
            None => TableProviderFilterPushDown::Inexact,
        };
        Ok(vec![answer; conditions.len()])
    }
}

/// The error for the user for an error of a database's storage.
pub fn access_error(database: &DatabaseUse, error: AccessError) -> SqlError {
    database.storage_error(error).to_sql_error()
}
