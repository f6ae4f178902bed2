//! Inserts many rows: through bulk loaders, by building an index from them, or in the order of an index.
//!
//! Loaders work in parallel where the statement may (`SELECT INTO`, `WITH (TABLOCK)`): each worker pulls its own
//! partition of the plan and has a loader for each partition of the table, so workers share nothing until the loaded
//! runs are published.

use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::mpsc::channel;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use datafusion::common::{Column as LogicalColumn, DFSchema};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::physical_expr::{LexOrdering, create_physical_sort_expr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, SendableRecordBatchStream};
use futures::StreamExt;
use hobt_access::{AccessError, LoadedRuns, Loader};
use hobt_base::{HobtId, ObjectId, SqlError};
use hobt_catalog::IndexKeyColumn;
use hobt_engine::{RowChangeNotes, RowChanges};
use hobt_functions::array_value;
use hobt_instruments::processor;

use super::{WriteTarget, column, insert_one_by_one};
use crate::held::HeldBatches;
use crate::index_build::IndexBuild;
use crate::role::{Join, Role, role};
use crate::row_lock::lock_error;
use crate::runner::{Reader, drain, finish, run_query};
use crate::unordered::{Hides, UnorderedExec};
use crate::workers::WorkerPool;
use hobt_table::StatementRun;
use hobt_udf::{column_order, sql_error_of};

/// A statement without `TABLOCK` puts at most this many rows into the heap's last page.
const FEW_ROWS: usize = 1000;

/// What [`insert_select`] has done.
#[derive(Clone, Copy, Debug)]
pub struct Inserted {
    /// Rows.
    pub rows: u64,
    /// The table's other indexes are empty, and are to be built from its rows.
    pub has_left_indexes: bool,
}

/// Runs `plan`, made by `insert_plan`, and writes its rows. With `parallel` every worker writes. Without it only one
/// does, and few rows go into the heap's last page.
///
/// # Errors
/// The plan's, and those of [`insert_rows`](super::insert_rows).
pub fn insert_select(
    run: &Arc<StatementRun>,
    pool: &WorkerPool,
    plan: Arc<dyn ExecutionPlan>,
    task: &Arc<TaskContext>,
    target: &WriteTarget,
    parallel: bool,
) -> Result<Inserted, SqlError> {
    if target.heaps.is_none() {
        return insert_sorted(run, pool, plan, task, target);
    }
    let mut loaded = Vec::new();
    let (result, report) = pool.run(run.degree(), &run.affinity, &run.waits, &run.pending, |handle| {
        let (sender, receiver) = channel();
        let jobs = (0..plan.output_partitioning().partition_count())
            .map(|partition| {
                let job = Job { run: Arc::clone(run), target: target.clone(), few: !parallel };
                let (plan, task, sender) = (Arc::clone(&plan), Arc::clone(task), sender.clone());
                handle.spawn(async move {
                    let done = job.run(plan, partition, task).await;
                    let _receiver_is_gone = sender.send(done);
                })
            })
            .collect();
        drop(sender);
        let taken = drain(run, &receiver, &mut |part: Written| {
            loaded.push(part);
            Ok(())
        });
        finish(jobs, taken)
    });
    run.add_workers(report.workers(), report.cpu_total(), report.time_total());
    result?;
    let rows = publish(run, target, loaded)?;
    Ok(Inserted { rows, has_left_indexes: false })
}

/// Prepares the plan of an `INSERT` for [`insert_select`]: rows come in the order of the table's first index, or, for a
/// heap, gathered unless `parallel`.
///
/// # Errors
/// The order cannot be planned.
pub fn insert_plan(
    plan: Arc<dyn ExecutionPlan>,
    target: &WriteTarget,
    parallel: bool,
) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
    let is_one = plan.output_partitioning().partition_count() == 1;
    if target.heaps.is_some() {
        return Ok(if parallel || is_one { plan } else { Arc::new(CoalescePartitionsExec::new(plan)) });
    }
    let table = target.table();
    let index = table.indexes.iter().find(|index| !index.key.is_empty());
    let schema = DFSchema::try_from(plan.schema()).map_err(sql_error_of)?;
    let mut order = Vec::new();
    for part in index.map_or(&[][..], |index| &index.key) {
        let column = LogicalColumn::from_name(plan.schema().field(part.column).name());
        let sort = column_order(column, &table.columns[part.column], part.is_descending);
        let context = PhysicalPlanningContext::default();
        order.push(create_physical_sort_expr(&sort, &schema, &ExecutionProps::new(), &context).map_err(sql_error_of)?);
    }
    let Some(order) = LexOrdering::new(order) else {
        return Err(SqlError::internal("a table without an index to sort by"));
    };
    let meets_its_own = may_read(&plan, table.id);
    let mut rows: Arc<dyn ExecutionPlan> = if is_one { plan } else { Arc::new(CoalescePartitionsExec::new(plan)) };
    if meets_its_own {
        rows = Arc::new(UnorderedExec::new(rows, Hides::All));
    }
    Ok(Arc::new(SortExec::new(order, rows)))
}

/// Whether a plan may read a table, as far as can be told.
fn may_read(plan: &Arc<dyn ExecutionPlan>, table: ObjectId) -> bool {
    let inputs = plan.children();
    match role(plan.as_ref()) {
        Role::Join(Join::Lookup(_) | Join::RowLoops(_)) => true,
        Role::Scan(scan) => scan.table().table().id == table,
        Role::Seek(seek) => seek.table().table().id == table,
        // The spool is in the plan, too.
        Role::Constant(_) | Role::Made | Role::SpoolRead(_) => false,
        _ => inputs.is_empty() || inputs.into_iter().any(|input| may_read(input, table)),
    }
}

/// Writes a plan's rows, which come in the order of the first of the table's indexes, on the statement's thread. If the
/// plan may read the table, its sort takes all rows before the first is written, so that the plan does not meet them.
/// More than a few rows build an empty table whole, if it is or can be locked for that: this needs little log, and no
/// memory for each row. A clustered index whose key has computed columns is not built, because their values are not
/// there yet when the rows are sorted.
fn insert_sorted(
    run: &Arc<StatementRun>,
    pool: &WorkerPool,
    plan: Arc<dyn ExecutionPlan>,
    task: &Arc<TaskContext>,
    target: &WriteTarget,
) -> Result<Inserted, SqlError> {
    let alone = OnceCell::new();
    let mut sorted = Sorted { run, target, alone: &alone, written: 0, sink: Sink::Held(Vec::new(), 0) };
    run_query(Reader::Statement, (run, pool), (plan, Arc::clone(task)), &mut |batch| sorted.take(batch))?;
    sorted.finish()
}

/// Rows in the order of an index, on their way into the table.
struct Sorted<'r> {
    run: &'r Arc<StatementRun>,
    target: &'r WriteTarget,
    /// The table's heap or clustered index alone, once rows go there.
    alone: &'r OnceCell<WriteTarget>,
    written: u64,
    sink: Sink<'r>,
}

/// Where they go.
enum Sink<'r> {
    /// A few batches, with the number of their rows: there may be no more.
    Held(Vec<RecordBatch>, usize),
    OneByOne,
    Build(Box<IndexBuild<'r>>),
    Load(Box<Writer<'r>>),
}

impl<'r> Sorted<'r> {
    fn take(&mut self, batch: RecordBatch) -> Result<(), SqlError> {
        match &mut self.sink {
            Sink::Held(held, rows) => {
                *rows += batch.num_rows();
                held.push(batch);
                if *rows > FEW_ROWS {
                    let held = std::mem::take(held);
                    self.sink = self.sink_for_many()?;
                    held.into_iter().try_for_each(|batch| self.take(batch))?;
                }
            }
            Sink::OneByOne => self.written += insert_one_by_one(self.run, self.target, [Ok(batch)])?,
            Sink::Build(build) => {
                build.append(&self.target.completed_batch(&batch)?)?;
                self.run.note_written(batch.num_rows());
            }
            Sink::Load(writer) => writer.append(&batch)?,
        }
        Ok(())
    }

    fn finish(self) -> Result<Inserted, SqlError> {
        let has_indexes = self.target.writer.has_indexes();
        let (rows, has_left_indexes) = match self.sink {
            Sink::Held(held, _) => (insert_one_by_one(self.run, self.target, held.into_iter().map(Ok))?, false),
            Sink::OneByOne => (self.written, false),
            Sink::Build(build) => (build.finish(None)?, has_indexes),
            Sink::Load(writer) => {
                let alone = self.alone.get().expect("made for the writer");
                (publish(self.run, alone, vec![writer.finish()?])?, has_indexes)
            }
        };
        Ok(Inserted { rows, has_left_indexes })
    }

    fn sink_for_many(&self) -> Result<Sink<'r>, SqlError> {
        let (target, table) = (self.target, self.target.table());
        let is_given = |part: &IndexKeyColumn| table.columns[part.column].computed.is_none();
        if !table.base_index().key.iter().all(is_given)
            || !target.is_empty()
            || !target.is_locked_whole(self.run)
            // Another session may have inserted a row before the lock.
            || !target.is_empty()
        {
            return Ok(Sink::OneByOne);
        }
        let alone = self.alone.get_or_init(|| target.base_alone());
        if alone.heaps.is_some() {
            return Ok(Sink::Load(Box::new(Writer::new(self.run, alone))));
        }
        let partitions: Vec<usize> = (0..target.writer.base().len()).collect();
        let function = target.partitioning.clone();
        let build = IndexBuild::new(self.run, alone, &target.database, table, 0, &partitions, function)?;
        Ok(Sink::Build(Box::new(build.of_insert())))
    }
}

/// Writes batches whose columns are the table's in order and type, on this thread, through bulk loaders.
///
/// # Errors
/// As [`insert_select`], and what the batches' source returns.
pub fn insert_batches(
    run: &Arc<StatementRun>,
    target: &WriteTarget,
    batches: impl IntoIterator<Item = Result<RecordBatch, SqlError>>,
) -> Result<u64, SqlError> {
    if target.heaps.is_none() {
        return insert_one_by_one(run, target, batches);
    }
    let mut writer = Writer::new(run, target);
    for batch in batches {
        writer.append(&batch?)?;
    }
    publish(run, target, vec![writer.finish()?])
}

/// Writes the `rows` rows of batches that the statement holds, whose columns are the table's in order and type: a few
/// rows one at a time, more through bulk loaders. Returns the number of rows written.
///
/// # Errors
/// As [`insert_rows`](super::insert_rows), and what the batches' source returns.
pub fn insert_held(
    run: &Arc<StatementRun>,
    target: &WriteTarget,
    rows: u64,
    batches: impl IntoIterator<Item = Result<RecordBatch, SqlError>>,
) -> Result<u64, SqlError> {
    match rows <= FEW_ROWS as u64 || !target.may_load(run) {
        true => insert_one_by_one(run, target, batches),
        false => insert_batches(run, target, batches),
    }
}

/// Makes loaded runs part of the table after the files have been synced to disk.
fn publish(run: &StatementRun, target: &WriteTarget, written: Vec<Written>) -> Result<u64, SqlError> {
    let mut by_partition: Vec<Vec<LoadedRuns>> = target.heaps().iter().map(|_| Vec::new()).collect();
    let mut rows = 0;
    let mut files = Vec::new();
    for part in written {
        rows += part.few_rows;
        if let (Some(notes), Some(changes)) = (target.writer.notes(), part.changes) {
            notes.note(&run.context, |all| all.merge(changes));
        }
        for (partition, loaded) in part.loaded {
            rows += loaded.rows;
            files.extend(loaded.runs.iter().map(|run| run.first.file));
            by_partition[partition].push(loaded);
        }
    }
    files.sort_unstable();
    files.dedup();
    for id in files {
        let file = target.heaps()[0].storage().file(id).map_err(|error| target.sql_error(error))?;
        file.disk().sync().map_err(|error| target.sql_error(AccessError::Disk(error)))?;
    }
    if let Some(locks) = target.row_locks(run) {
        let filled = target.heaps().iter().zip(&by_partition).filter(|(_, loaded)| !loaded.is_empty());
        let hobts: Vec<HobtId> = filled.map(|(hobt, _)| hobt.id()).collect();
        let locked = locks.lock_to_publish(&hobts, &|| run.is_cancelled());
        locked.map_err(|error| lock_error(run.context.lock_owner().session(), error))?;
    }
    for (hobt, loaded) in target.heaps().iter().zip(by_partition) {
        if !loaded.is_empty() {
            hobt.publish(&run.context, loaded).map_err(|error| target.sql_error(error))?;
        }
    }
    Ok(rows)
}

/// The output of one worker.
#[derive(Default)]
struct Written {
    /// Rows that are already in the heap.
    few_rows: u64,
    /// The loaded rows' changes to statistics.
    changes: Option<RowChanges>,
    /// Runs to publish, by partition.
    loaded: Vec<(usize, LoadedRuns)>,
}

struct Job {
    run: Arc<StatementRun>,
    target: WriteTarget,
    /// Few rows may go into the heap's last page.
    few: bool,
}

impl Job {
    async fn run(
        self,
        plan: Arc<dyn ExecutionPlan>,
        partition: usize,
        task: Arc<TaskContext>,
    ) -> Result<Written, SqlError> {
        let mut stream = plan.execute(partition, task).map_err(sql_error_of)?;
        let mut writer = Writer::new(&self.run, &self.target);
        if self.few {
            let (held, ended) = hold_few(&mut stream).await?;
            if ended {
                // The insert must not wait for a page that a scan in the stream is still loading.
                drop(stream);
                let rows = held.iter().map(RecordBatch::num_rows).sum();
                return self.insert_few(partition, rows, held.into_iter().map(Ok));
            }
            if !self.target.may_load(&self.run) {
                // All rows are read before any is written: the query may read the table, and would meet the inserted
                // rows.
                let mut all = HeldBatches::new(&self.run);
                held.into_iter().try_for_each(|batch| all.keep(batch))?;
                while let Some(batch) = stream.next().await {
                    all.keep(batch.map_err(sql_error_of)?)?;
                }
                drop(stream);
                self.run.begin_writing(all.row_count());
                let rows = usize::try_from(all.row_count()).unwrap_or(usize::MAX);
                return self.insert_few(partition, rows, all.into_batches()?);
            }
            held.iter().try_for_each(|batch| self.writing(partition, batch.num_rows(), || writer.append(batch)))?;
        }
        while let Some(batch) = stream.next().await {
            let batch = batch.map_err(sql_error_of)?;
            self.writing(partition, batch.num_rows(), || writer.append(&batch))?;
        }
        self.writing(partition, 0, || writer.finish())
    }

    fn insert_few(
        &self,
        partition: usize,
        rows: usize,
        held: impl IntoIterator<Item = Result<RecordBatch, SqlError>>,
    ) -> Result<Written, SqlError> {
        let few_rows = self.writing(partition, rows, || insert_one_by_one(&self.run, &self.target, held))?;
        Ok(Written { few_rows, ..Written::default() })
    }

    /// Writes rows by `write`, and adds its processor time to the statement's figures.
    fn writing<T>(&self, worker: usize, rows: usize, write: impl FnOnce() -> T) -> T {
        let before = processor::thread_cpu_time();
        let written = write();
        let cpu = processor::thread_cpu_time().saturating_sub(before);
        self.run.add_written(worker, rows as u64, cpu);
        written
    }
}

/// Takes batches until there are more than a few rows. Returns whether the stream ended before that.
async fn hold_few(stream: &mut SendableRecordBatchStream) -> Result<(Vec<RecordBatch>, bool), SqlError> {
    let mut held = Vec::new();
    let mut rows = 0;
    while rows <= FEW_ROWS {
        let Some(batch) = stream.next().await else { return Ok((held, true)) };
        let batch = batch.map_err(sql_error_of)?;
        rows += batch.num_rows();
        held.push(batch);
    }
    Ok((held, false))
}

/// One worker's loaders.
struct Writer<'a> {
    run: &'a Arc<StatementRun>,
    target: &'a WriteTarget,
    loaders: Vec<Option<Loader>>,
    changes: Option<RowChanges>,
}

impl<'a> Writer<'a> {
    fn new(run: &'a Arc<StatementRun>, target: &'a WriteTarget) -> Writer<'a> {
        let changes = target.writer.notes().map(RowChangeNotes::of_worker);
        Writer { run, target, loaders: target.heaps().iter().map(|_| None).collect(), changes }
    }

    fn append(&mut self, batch: &RecordBatch) -> Result<(), SqlError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.run.note_written(batch.num_rows());
        let completed = self.target.completed_batch(batch)?;
        let batch = &completed;
        let Some((place, _)) = &self.target.partitioning else {
            return self.append_to(0, batch);
        };
        let partitions = self.partitions(batch.column(*place), *place)?;
        let first = partitions[0];
        if partitions.iter().all(|&partition| partition == first) {
            return self.append_to(first as usize, batch);
        }
        let mut rows: Vec<Vec<u32>> = self.target.heaps().iter().map(|_| Vec::new()).collect();
        for (row, &partition) in (0u32..).zip(&partitions) {
            rows[partition as usize].push(row);
        }
        for (partition, rows) in rows.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
            let part = take_record_batch(batch, &UInt32Array::from(rows))
                .map_err(|error| SqlError::internal(error.to_string()))?;
            self.append_to(partition, &part)?;
        }
        Ok(())
    }

    /// The partition of each row.
    fn partitions(&self, array: &ArrayRef, place: usize) -> Result<Vec<u32>, SqlError> {
        let sql_type = self.target.table().columns[place].sql_type;
        if let Some(partitions) = column::partitions_of_integers(self.target, array) {
            return Ok(partitions);
        }
        (0..array.len())
            .map(|row| {
                let value = array_value(array, row, sql_type)?;
                Ok(u32::try_from(self.target.partition_of(&value)).expect("at most 15,000 partitions"))
            })
            .collect()
    }

    fn append_to(&mut self, partition: usize, batch: &RecordBatch) -> Result<(), SqlError> {
        let target = self.target;
        let prepared: Result<Vec<column::Prepared>, SqlError> = batch
            .columns()
            .iter()
            .zip(&target.table().columns)
            .map(|(array, definition)| column::prepare(target, definition, array))
            .collect();
        let prepared = prepared?;
        let columns: Vec<_> = prepared.iter().map(column::Prepared::load_column).collect();
        let loader = self.loaders[partition]
            .get_or_insert_with(|| Loader::new(Arc::clone(&target.heaps()[partition]), Arc::clone(&self.run.context)));
        loader.append(batch.num_rows(), &columns).map_err(|error| target.sql_error(error))?;
        if let Some(changes) = &mut self.changes {
            let widths: Vec<_> = target.table().rows.columns().iter().map(|column| column.physical.width()).collect();
            let value = |row: usize, column: usize| column::value_at(&columns[column], widths[column], row);
            changes.inserted_rows(partition, batch.num_rows(), value);
        }
        Ok(())
    }

    fn finish(self) -> Result<Written, SqlError> {
        let target = self.target;
        let mut written = Written { changes: self.changes, ..Written::default() };
        for (partition, loader) in self.loaders.into_iter().enumerate() {
            if let Some(loader) = loader {
                written.loaded.push((partition, loader.finish().map_err(|error| target.sql_error(error))?));
            }
        }
        Ok(written)
    }
}
