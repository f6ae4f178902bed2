//! Builds the trees of an index from the rows of its table, which come in key order.
//!
//! A batch has some of the table's columns and, last, each row's position. The rows are given to the builders of their
//! partitions.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use hobt_access::scan::RowPlace;
use hobt_access::{BTreeError, LoadColumn, LoadValues, TreeBuilder, TreeKey};
use hobt_base::SqlError;
use hobt_catalog::{IndexKeyColumn, IndexLeaf, LeafColumn, PartitionFunction, Statistics, Table};
use hobt_engine::{
    DatabaseUse, RowChangeNotes, RowChanges, TableChange, key_bytes_max, key_value_bytes, may_exceed_key_bytes,
    statistics_columns, uniqueifier_of_key,
};
use hobt_functions::array_value;
use hobt_types::statistics::Gatherer;
use hobt_types::{SqlType, Value};

use super::insert::{WriteTarget, column, entry_too_long, key_too_long};
use super::places::Places;
use hobt_table::StatementRun;

/// An index that is being filled.
pub struct IndexBuild<'r> {
    run: &'r Arc<StatementRun>,
    /// The table, for messages.
    target: &'r WriteTarget,
    /// The definition that the index belongs to.
    table: Arc<Table>,
    /// Its position in `table`'s indexes.
    index: usize,
    leaf: IndexLeaf,
    /// The columns of the table that a batch has, before the rows' positions.
    columns: Vec<usize>,
    /// The position in a batch of the column by which the index is partitioned.
    partitioning: Option<(usize, Arc<PartitionFunction>)>,
    /// A builder for each partition that is to be filled.
    builders: Vec<Option<TreeBuilder>>,
    last: Vec<LastRow>,
    /// Whether rows come from a clustered index with the same key and keep their uniqueifiers, which other indexes
    /// refer to.
    keeps_uniqueifiers: bool,
    rows: u64,
    /// Whether the rows are inserted, and so are rejected with the errors of an `INSERT`.
    is_insert: bool,
    /// Statistics of a new index's own columns, by partition.
    gatherers: Vec<Gatherer>,
    /// The positions of those columns in the leaves.
    gathered: Vec<usize>,
    /// Changes to all statistics of the table, for rows that are inserted.
    changes: Option<RowChanges>,
}

/// The previous row of a partition.
#[derive(Clone, Default)]
struct LastRow {
    /// Its key, without a uniqueifier.
    key: Vec<u8>,
    is_there: bool,
    uniqueifier: i32,
}

impl std::fmt::Debug for IndexBuild<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IndexBuild").field("index", &self.table.indexes[self.index].name).finish_non_exhaustive()
    }
}

impl<'r> IndexBuild<'r> {
    /// Builds the partitions of `table.indexes[index]` that `partitions` lists.
    ///
    /// # Errors
    /// A tree cannot be opened, or is not empty.
    pub fn new(
        run: &'r Arc<StatementRun>,
        target: &'r WriteTarget,
        database: &DatabaseUse,
        table: &Arc<Table>,
        index: usize,
        partitions: &[usize],
        function: Option<(usize, Arc<PartitionFunction>)>,
    ) -> Result<IndexBuild<'r>, SqlError> {
        let definition = &table.indexes[index];
        let leaf = table.index_leaf(definition).ok_or_else(|| SqlError::internal("a heap is not built in order"))?;
        let mut columns: Vec<usize> = leaf
            .columns
            .iter()
            .filter_map(|column| if let LeafColumn::Table(place) = column { Some(*place) } else { None })
            .collect();
        let partitioning = function.map(|(column, function)| {
            let place = columns.iter().position(|known| *known == column).unwrap_or_else(|| {
                columns.push(column);
                columns.len() - 1
            });
            (place, function)
        });
        let mut builders = Vec::with_capacity(definition.partitions.len());
        for (number, partition) in definition.partitions.iter().enumerate() {
            if !partitions.contains(&number) {
                builders.push(None);
                continue;
            }
            let store = database.store(partition.hobt).map_err(|error| error.to_sql_error())?;
            let tree = store.tree().ok_or_else(|| SqlError::internal("an index that is no tree"))?;
            let builder = TreeBuilder::new(tree, &run.context, definition.options.fill_factor);
            builders.push(Some(builder.map_err(|error| target.sql_error(error))?));
        }
        let last = vec![LastRow::default(); builders.len()];
        let keys = Statistics::columns_of_index(table, definition);
        let gathered = keys.iter().map(|place| leaf.position_of(*place)).collect::<Option<Vec<usize>>>();
        let of_key = statistics_columns(table, &keys).filter(|_| builders.iter().all(Option::is_some));
        let gatherers = of_key.map(|columns| builders.iter().map(|_| Gatherer::new(columns.clone())).collect());
        let (gathered, gatherers) = (gathered.unwrap_or_default(), gatherers.unwrap_or_default());
        let table = Arc::clone(table);
        let (old, new) = (target.table().base_index(), table.base_index());
        let is_same = old.kind == new.kind && old.key == new.key && old.options.is_unique == new.options.is_unique;
        let keeps_uniqueifiers = index == 0 && is_same && old.data_space == new.data_space;
        Ok(IndexBuild {
            run,
            target,
            table,
            index,
            leaf,
            columns,
            partitioning,
            builders,
            last,
            keeps_uniqueifiers,
            rows: 0,
            is_insert: false,
            gatherers,
            gathered,
            changes: None,
        })
    }

    /// Makes the build one of inserted rows.
    #[must_use]
    pub fn of_insert(self) -> IndexBuild<'r> {
        let changes = self.target.writer().notes().map(RowChangeNotes::of_worker);
        IndexBuild { is_insert: true, keeps_uniqueifiers: false, gatherers: Vec::new(), changes, ..self }
    }

    /// Makes the build one of an index behind an insert: what it refuses are errors of an `INSERT`. The rows are in the
    /// statistics already.
    #[must_use]
    pub fn behind_insert(self) -> IndexBuild<'r> {
        IndexBuild { is_insert: true, gatherers: Vec::new(), ..self }
    }

    /// The key of the index, in whose order rows are added.
    pub fn key(&self) -> &[IndexKeyColumn] {
        &self.table.indexes[self.index].key
    }

    /// The columns of the table that a batch must have, before the rows' positions.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Adds rows, which must come after all earlier ones in key order and, where keys are equal, in order of their
    /// positions.
    ///
    /// # Errors
    /// 1505 for a duplicate key, 1946, 1105 and what storage returns.
    pub fn append(&mut self, batch: &RecordBatch) -> Result<(), SqlError> {
        if self.run.is_cancelled() {
            return Err(SqlError::cancelled());
        }
        self.rows += batch.num_rows() as u64;
        let Some((place, function)) = &self.partitioning else { return self.append_to(0, batch) };
        let sql_type = self.table.columns[self.columns[*place]].sql_type;
        let mut rows: Vec<Vec<u32>> = self.builders.iter().map(|_| Vec::new()).collect();
        for row in 0..batch.num_rows() {
            let value = array_value(batch.column(*place), row, sql_type)?;
            rows[function.partition_of(&value)].push(u32::try_from(row).expect("a row of a batch"));
        }
        for (partition, rows) in rows.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
            let part = take_record_batch(batch, &UInt32Array::from(rows));
            self.append_to(partition, &part.map_err(|error| SqlError::internal(error.to_string()))?)?;
        }
        Ok(())
    }

    fn append_to(&mut self, partition: usize, batch: &RecordBatch) -> Result<(), SqlError> {
        if self.builders[partition].is_none() {
            return Ok(());
        }
        let mut prepared = Vec::with_capacity(self.leaf.columns.len());
        let mut hidden = Vec::new();
        for leaf_column in &self.leaf.columns {
            match leaf_column {
                LeafColumn::Table(place) => {
                    let at = self.columns.iter().position(|known| known == place).expect("a column of the leaves");
                    let definition = &self.table.columns[*place];
                    prepared.push(Some(column::prepare(self.target, definition, batch.column(at))?));
                }
                LeafColumn::Uniqueifier | LeafColumn::RowId | LeafColumn::BasePartition => prepared.push(None),
            }
        }
        let mut columns: Vec<Option<LoadColumn<'_>>> =
            prepared.iter().map(|column| column.as_ref().map(column::Prepared::load_column)).collect();
        self.check_key_bytes(batch.num_rows(), &columns)?;
        let table = Arc::clone(&self.table);
        let definition = &table.indexes[self.index];
        let makes_unique = definition.kind == hobt_catalog::IndexKind::Clustered
            && !definition.options.is_unique
            && !self.keeps_uniqueifiers;
        let numbers = match definition.options.is_unique || makes_unique {
            true => self.number_rows(partition, batch, &columns)?,
            false => Vec::new(),
        };
        for leaf_column in &self.leaf.columns {
            let array: Option<ArrayRef> = match leaf_column {
                LeafColumn::Table(_) => None,
                LeafColumn::Uniqueifier if makes_unique => Some(Arc::new(Int32Array::from(numbers.clone()))),
                other => Some(reference_of(*other, batch)?),
            };
            hidden.push(array);
        }
        for (column, array) in columns.iter_mut().zip(&hidden) {
            if let Some(array) = array {
                *column = Some(LoadColumn { values: LoadValues::Fixed(native_bytes(array)), validity: None });
            }
        }
        let columns: Vec<LoadColumn<'_>> = columns.into_iter().flatten().collect();
        let builder = self.builders[partition].as_mut().expect("looked at above");
        builder.append(batch.num_rows(), &columns).map_err(|error| tree_error(self.target, definition, error))?;
        self.gather(partition, batch.num_rows(), &columns);
        Ok(())
    }

    /// Adds the appended rows to the statistics.
    fn gather(&mut self, partition: usize, rows: usize, columns: &[LoadColumn<'_>]) {
        let widths = |at: usize| self.leaf.rows.columns()[at].physical.width();
        if let Some(gatherer) = self.gatherers.get_mut(partition) {
            let mut values = Vec::with_capacity(self.gathered.len());
            for row in 0..rows {
                values.clear();
                values.extend(self.gathered.iter().map(|at| column::value_at(&columns[*at], widths(*at), row)));
                // The builder has refused a value that its column cannot have.
                let _seen = gatherer.add(&values);
            }
        }
        if let Some(changes) = &mut self.changes {
            // Rows are inserted through the clustered index, whose leaves have the table's columns in the table's
            // order.
            changes.inserted_rows(partition, rows, |row, at| column::value_at(&columns[at], widths(at), row));
        }
    }

    /// 1946.
    fn check_key_bytes(&self, rows: usize, columns: &[Option<LoadColumn<'_>>]) -> Result<(), SqlError> {
        let definition = &self.table.indexes[self.index];
        if !may_exceed_key_bytes(&self.table, definition) {
            return Ok(());
        }
        let places = self.leaf.key.columns()[..definition.key.len()].iter().map(|part| part.column);
        let parts: Vec<_> = definition
            .key
            .iter()
            .zip(places)
            .map(|(part, at)| {
                let width = self.leaf.rows.columns()[at].physical.width();
                (self.table.columns[part.column].sql_type, width, columns[at].as_ref())
            })
            .collect();
        for row in 0..rows {
            let stored = |(sql_type, width, column): &(SqlType, Option<usize>, Option<&LoadColumn<'_>>)| {
                key_value_bytes(*sql_type, column.and_then(|column| column::value_at(column, *width, row)))
            };
            let bytes: usize = parts.iter().map(stored).sum();
            if bytes > key_bytes_max(definition.kind) {
                return Err(key_too_long(definition, bytes));
            }
        }
        Ok(())
    }

    /// Numbers each row by how many rows with its key come before it. Equal keys are an error in a unique index.
    fn number_rows(
        &mut self,
        partition: usize,
        batch: &RecordBatch,
        columns: &[Option<LoadColumn<'_>>],
    ) -> Result<Vec<i32>, SqlError> {
        let definition = &self.table.indexes[self.index];
        let key: &TreeKey = &self.leaf.key;
        let last = &mut self.last[partition];
        let widths: Vec<Option<usize>> =
            self.leaf.rows.columns().iter().map(|layout| layout.physical.width()).collect();
        let mut numbers = Vec::with_capacity(batch.num_rows());
        let mut current = Vec::new();
        for row in 0..batch.num_rows() {
            current.clear();
            let parts = &key.columns()[..definition.key.len()];
            let values: Vec<Option<&[u8]>> = parts
                .iter()
                .map(|part| {
                    columns[part.column].as_ref().and_then(|column| column::value_at(column, widths[part.column], row))
                })
                .collect();
            let encoded = key.encode_prefix(&values, &mut current);
            encoded.map_err(|error| SqlError::internal(format!("a key of an index: {error}")))?;
            let is_same = last.is_there && last.key == current;
            if is_same && definition.options.is_unique {
                let key = self.key_values(batch, row)?;
                return Err(match self.is_insert {
                    true => self.target.duplicate(self.index, &key),
                    false => self.target.duplicate_in_build(definition, &key),
                });
            }
            last.uniqueifier = if is_same { last.uniqueifier + 1 } else { 0 };
            last.is_there = true;
            std::mem::swap(&mut last.key, &mut current);
            numbers.push(last.uniqueifier);
        }
        Ok(numbers)
    }

    fn key_values(&self, batch: &RecordBatch, row: usize) -> Result<Vec<Value>, SqlError> {
        let parts = &self.table.indexes[self.index].key;
        let value = |column: usize| {
            let at = self.columns.iter().position(|known| *known == column).expect("a key column");
            array_value(batch.column(at), row, self.table.columns[column].sql_type)
        };
        parts.iter().map(|part| value(part.column)).collect()
    }

    /// Writes the remaining rows and makes the tree the index's. `changed`, a change of the table's definition, gets
    /// the statistics. Returns the number of rows.
    ///
    /// # Errors
    /// As [`IndexBuild::append`].
    pub fn finish(self, changed: Option<&TableChange>) -> Result<u64, SqlError> {
        let definition = &self.table.indexes[self.index];
        for builder in self.builders.into_iter().flatten() {
            builder.finish().map_err(|error| tree_error(self.target, definition, error))?;
        }
        if let (Some(notes), Some(changes)) = (self.target.writer().notes(), self.changes) {
            notes.note(&self.run.context, |all| all.merge(changes));
        }
        if let Some(changed) = changed.filter(|_| !self.gatherers.is_empty()) {
            let summaries = self.gatherers.into_iter().map(Gatherer::finish).enumerate();
            changed.gathered(self.index, summaries.collect());
        }
        Ok(self.rows)
    }
}

fn tree_error(target: &WriteTarget, index: &hobt_catalog::Index, error: BTreeError) -> SqlError {
    match error {
        BTreeError::Storage(error) => target.sql_error(error),
        BTreeError::Duplicate => target.duplicate_in_build(index, &[]),
        BTreeError::RangeLocked { .. } => SqlError::internal("a range of a tree that nobody else has"),
        BTreeError::KeyTooLong { bytes } => entry_too_long(index, bytes),
    }
}

/// A hidden column of the leaves, computed from the rows' positions.
fn reference_of(column: LeafColumn, batch: &RecordBatch) -> Result<ArrayRef, SqlError> {
    let last = batch.num_columns() - 1;
    let only = batch.project(&[last]).map_err(|error| SqlError::internal(error.to_string()))?;
    let places = Places::of(&only)?;
    let rows = 0..batch.num_rows();
    let no_number = || SqlError::internal("a clustered index's row without a uniqueifier");
    let number = |partition: usize| i32::try_from(partition).expect("at most 15,000 partitions");
    Ok(match column {
        LeafColumn::BasePartition => {
            let partitions = rows.map(|row| Ok(number(places.partition(row)?)));
            Arc::new(Int32Array::from(partitions.collect::<Result<Vec<i32>, SqlError>>()?))
        }
        LeafColumn::RowId => {
            let ids = rows.map(|row| places.of_heap(row).map(|place| RowPlace::row_id(place.page, place.slot)));
            Arc::new(Int64Array::from(ids.collect::<Result<Vec<i64>, SqlError>>()?))
        }
        LeafColumn::Uniqueifier => {
            let numbers = rows.map(|row| uniqueifier_of_key(places.key(row)?.1).ok_or_else(no_number));
            Arc::new(Int32Array::from(numbers.collect::<Result<Vec<i32>, SqlError>>()?))
        }
        LeafColumn::Table(_) => return Err(SqlError::internal("a table's column taken for a hidden one")),
    })
}

fn native_bytes(array: &ArrayRef) -> &[u8] {
    if let Some(ints) = array.as_any().downcast_ref::<Int32Array>() {
        return ints.values().inner().as_slice();
    }
    let longs = array.as_any().downcast_ref::<Int64Array>();
    longs.map_or(&[], |longs| longs.values().inner().as_slice())
}
