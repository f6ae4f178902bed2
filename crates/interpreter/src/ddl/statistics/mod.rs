//! `CREATE`, `UPDATE` and `DROP STATISTICS`.
//!
//! A query of the statement gathers the data statistics (`gather`). `options` handles the `WITH` clause. Effects of
//! later row changes are handled by the crate `engine`, the use of statistics by `cardinality`.

mod columns;
mod filter;
mod gather;
pub(crate) mod of_index;
mod options;

use std::sync::Arc;

use hobt_base::{HobtId, IndexId, ObjectId, Position, SqlError, errors, number};
use hobt_catalog::{Statistics, StatisticsOrigin, StatisticsPart, StatisticsStream, Table, name_equals};
use hobt_engine::{
    EngineError, SaidCounts, StatisticsDefinition, no_such_object, no_such_statistics, partitions_in, statistics_type,
    time_of_day,
};
use hobt_tsql::ast::{CreateStatistics, Identifier, ObjectName, UpdateStatistics};
use hobt_txn::StatementContext;
use hobt_txn::locks::LockMode;
use hobt_types::{SqlType, Value};

use super::partition::wrong_range;
use crate::ddl::Definitions;
use crate::ddl::statistics::filter::check_filter;
use crate::ddl::statistics::gather::Gathering;
use crate::ddl::statistics::of_index::check_incremental;
use crate::ddl::statistics::options::{Kinds, Options, Reading, Sample, Verb};
use crate::event::TableReads;
use crate::failure::Failure;
use crate::interpreter::Outcome;
use crate::place::Place;
use hobt_binder::QueryHints;
use hobt_showplan::StatisticsCost;
use hobt_table::StatementRun;

/// Tables with at most this many rows are read completely if no sample is requested.
const WHOLE_ROWS_MAX: f64 = 1_000_000.0;

/// Automatic statistics read a table completely up to so many rows, and of a larger one a sample that grows slowly.
const UNASKED_ROWS: f64 = 500_000.0;
/// Of wide rows automatic statistics read fewer, 128 MB at most.
const UNASKED_PAGES_MAX: u64 = 16_384;

/// A day in units of 100 ns.
const DAY: i64 = 864_000_000_000;

/// How the contents of a statistics object are gathered.
#[derive(Clone, Copy)]
struct How<'a> {
    options: &'a Options,
    /// The share of the statement that is done then.
    ends_at: f64,
    /// Whether a statement of the user asked for it.
    is_asked: bool,
}

/// Above so many partitions, statistics that nobody asked for are gathered by groups: each worker keeps up to half a
/// megabyte of each partition that it reads.
const QUICK_PARTITIONS_MAX: usize = 64;

impl Definitions<'_, '_> {
    /// The table that a statement about statistics names.
    ///
    /// # Errors
    /// 1088, 911.
    fn table_of_statistics(&self, name: &ObjectName) -> Result<(Place, Arc<Table>), Failure> {
        let place = self.batch.place(name)?;
        let snapshot = place.database.snapshot();
        let schema = snapshot.schema_id(&place.schema);
        let table = schema.and_then(|schema| snapshot.table(schema, &place.name)).filter(|table| !table.is_system);
        let table = Arc::clone(table.ok_or_else(|| no_such_object(name).at(name.position()))?);
        Ok((place, table))
    }

    /// Locks the table and returns its current definition, which stays the same until the transaction ends: the
    /// statistics depend on its columns, and share their numbers with its indexes.
    ///
    /// # Errors
    /// 1088 if it no longer exists; 1222, 1205; 2801 if it was recreated repeatedly.
    fn hold_table(&self, context: &StatementContext, place: &Place, table: Arc<Table>) -> Result<Arc<Table>, Failure> {
        const ATTEMPTS: usize = 20;
        let mut wanted = table;
        for _ in 0..ATTEMPTS {
            let lock = self.batch.lock(context, &place.database, wanted.id, LockMode::SchemaStability)?;
            let snapshot = place.database.snapshot();
            let schema = snapshot.schema_id(&place.schema);
            let found = schema.and_then(|schema| snapshot.table(schema, &place.name)).cloned();
            let found = found.ok_or_else(|| no_such_object(&place.name))?;
            if found.id == wanted.id {
                context.hold([lock]);
                return Ok(found);
            }
            wanted = found;
        }
        Err(errors::STATISTICS_CHANGED.with([&place.name]).into())
    }

    pub(crate) fn create_statistics(&mut self, create: &CreateStatistics) -> Result<Outcome, Failure> {
        let (place, table) = self.table_of_statistics(&create.table)?;
        let options = Options::of(Verb::Create, &create.options)?;
        let run = self.batch.new_run(Some(&hints(&options)))?;
        self.batch.in_run(&run, |this| {
            let table = this.definitions().hold_table(&run.context, &place, table)?;
            let definition = definition_of(create, &table, &options)?;
            let created = place.database.database().create_statistics(&run.context, &table, &definition);
            let created = created.map_err(|error| error.to_sql_error().at(create.name.position))?;
            match &options.stream {
                Some(bytes) => {
                    this.definitions().put_stream(&run, &place, &table, &created, bytes, create.name.position)
                }
                None => {
                    let how = How { options: &options, ends_at: 1.0, is_asked: true };
                    this.definitions().update_one(&run, &place, &table, &created, how, create.name.position)
                }
            }
        })?;
        Ok(Outcome::QUIET)
    }

    pub(crate) fn update_statistics(&mut self, update: &UpdateStatistics) -> Result<Outcome, Failure> {
        let (place, table) = self.table_of_statistics(&update.table)?;
        let options = Options::of(Verb::Update, &update.options)?;
        let position = update.table.position();
        let run = self.batch.new_run(Some(&hints(&options)))?;
        self.batch.in_run(&run, |this| {
            let table = this.definitions().hold_table(&run.context, &place, table)?;
            let known = place.database.snapshot().statistics_of(&table);
            let wanted = wanted_statistics(&known, &update.targets, &options)?;
            if options.stream.is_some() && wanted.len() != 1 {
                return Err(errors::STREAM_OF_ONE.error().at(position).into());
            }
            for (nth, statistics) in (1u32..).zip(&wanted) {
                let ends_at = f64::from(nth) / wanted.len() as f64;
                if options.incremental == Some(true) {
                    check_incremental(&table, statistics.filter.is_some(), position)?;
                }
                match &options.stream {
                    Some(bytes) => this.definitions().put_stream(&run, &place, &table, statistics, bytes, position)?,
                    None if options.sets_counts_alone() => {}
                    None => {
                        let how = How { options: &options, ends_at, is_asked: true };
                        this.definitions().update_one(&run, &place, &table, statistics, how, position)?;
                    }
                }
            }
            if options.sets_counts() {
                run.uses_database(&place.database);
                let said = said_counts(&wanted, &update.targets, &options);
                place.database.database().say_counts(&run.context, &table, &said).map_err(SqlError::from)?;
            }
            Ok(())
        })?;
        Ok(Outcome::QUIET)
    }

    /// Gathers the contents of a statistics object.
    fn update_one(
        &mut self,
        run: &Arc<StatementRun>,
        place: &Place,
        table: &Arc<Table>,
        statistics: &Statistics,
        how: How<'_>,
        position: Position,
    ) -> Result<(), Failure> {
        let How { options, ends_at, is_asked } = how;
        let database = place.database.database();
        run.uses_database(&place.database);
        let partitions = self.partitions_to_update(table, statistics, options, position)?;
        let of_base = &table.base_index().partitions;
        let hobts: Vec<HobtId> = match &partitions {
            Some(some) => some.iter().map(|partition| of_base[*partition].hobt).collect(),
            None => of_base.iter().map(|partition| partition.hobt).collect(),
        };
        let rows = table_rows(place, table)?;
        // Whoever has fixed the sample wants that one, by groups. Parts of many partitions would take too much memory.
        let is_whole = statistics.filter.is_none() && partitions.is_none() && of_base.len() <= QUICK_PARTITIONS_MAX;
        let is_quick = !is_asked && statistics.sample_millionths == 0 && is_whole;
        let sample = if is_quick { unasked_sample(rows) } else { sample_of(statistics, options, rows) };
        let whole = partitions.is_none().then_some(HobtId(0));
        let begun: Vec<HobtId> = hobts.iter().copied().chain(whole).collect();
        database.begin_statistics_update(&run.context, statistics, &begun);
        database.forget_noted(&run.context, statistics, &begun);
        let partitions_read = partitions.as_deref();
        let sample_read = sample.as_ref();
        let gathering =
            Gathering { place, table, statistics, sample: sample_read, partitions: partitions_read, ends_at, is_quick };
        // A sample of nothing gives no parts, even for a table that is small enough to be read completely.
        let is_nothing = matches!(&sample, Some(Sample::Percent(0.0)));
        let mut parts = if is_nothing { Vec::new() } else { self.gather(run, &gathering)? };
        if partitions.is_some() {
            let kept = statistics.parts.iter().filter(|part| !hobts.contains(&part.hobt) && part.hobt != HobtId(0));
            parts.extend(kept.cloned());
        }
        let updated = Statistics {
            updated: Some(time_of_day()),
            unfiltered_rows: rows as i64,
            modified: 0,
            is_incremental: options.incremental.unwrap_or(statistics.is_incremental),
            no_recompute: options.no_recompute,
            auto_drop: options.auto_drop.unwrap_or(statistics.auto_drop),
            sample_millionths: persisted(options).unwrap_or(statistics.sample_millionths),
            parts,
            ..statistics.clone()
        };
        self.set(run, place, table, updated, position)
    }

    /// Gathers the contents of a statistics object in a transaction of its own. Creates the object first if `new` is
    /// given.
    pub(crate) fn update_unasked(
        &mut self,
        place: &Place,
        table: &Arc<Table>,
        statistics: &Statistics,
        new: Option<&StatisticsDefinition>,
    ) -> Result<(), Failure> {
        let options = Options::default();
        let run = self.batch.new_run(None)?;
        run.set_internal(true);
        let gathered = self.batch.in_run(&run, |this| {
            let database = place.database.database();
            if !database.statistics_are_free(table.id) {
                return Err(errors::STATISTICS_BUSY.error().into());
            }
            let created = new.map(|definition| database.create_statistics(&run.context, table, definition));
            let created = created.transpose().map_err(SqlError::from)?;
            let statistics = created.as_deref().unwrap_or(statistics);
            let how = How { options: &options, ends_at: 1.0, is_asked: false };
            this.definitions().update_one(&run, place, table, statistics, how, Position::default())
        });
        // Charges the reads to the table, so that the sum over statements equals what was read from the files.
        let (logical, pages) = TableReads::total(&TableReads::of(&run));
        let cost = self.batch.scope.cost.take().unwrap_or_default();
        if let Some(outer) = self.batch.runs.last() {
            outer.add_statistics_cost(StatisticsCost {
                objects: u64::from(gathered.is_ok()),
                elapsed: cost.elapsed,
                cpu: cost.cpu,
                own_cpu: cost.cpu.saturating_sub(run.worker_cpu()),
                logical,
                physical: pages,
            });
        }
        let first = &table.base_index().partitions[0];
        if let Ok(store) = place.database.database().store_to_read(first.hobt) {
            store.hobt().charge_later(pages);
        }
        gathered
    }

    fn set(
        &mut self,
        run: &Arc<StatementRun>,
        place: &Place,
        table: &Table,
        statistics: Statistics,
        position: Position,
    ) -> Result<(), Failure> {
        let set = place.database.database().set_statistics(&run.context, table, statistics);
        set.map_err(|error: EngineError| error.to_sql_error().at(position))?;
        Ok(())
    }

    /// `RESAMPLE ON PARTITIONS (…)`: the indexes (from 0) of the partitions.
    ///
    /// # Errors
    /// 7722 if there is no such partition; 9111 if the statistics are not incremental.
    fn partitions_to_update(
        &mut self,
        table: &Table,
        statistics: &Statistics,
        options: &Options,
        position: Position,
    ) -> Result<Option<Vec<usize>>, Failure> {
        if options.partitions.is_empty() {
            return Ok(None);
        }
        if !statistics.is_incremental {
            return Err(errors::NOT_INCREMENTAL.error().at(position).into());
        }
        let ranges = self.partition_ranges(&options.partitions)?;
        let at = || wrong_range(table, &options.partitions, &ranges).unwrap_or(position);
        let wanted = partitions_in(table, &ranges).map_err(|error| error.to_sql_error().at(at()))?;
        Ok(Some((0..wanted.len()).filter(|partition| wanted[*partition]).collect()))
    }

    /// `STATS_STREAM`.
    ///
    /// # Errors
    /// 9105.
    fn put_stream(
        &mut self,
        run: &Arc<StatementRun>,
        place: &Place,
        table: &Table,
        statistics: &Statistics,
        bytes: &[u8],
        position: Position,
    ) -> Result<(), Failure> {
        let corrupt = |why: String| errors::STATISTICS_STREAM_CORRUPT.with([&statistics.name, &why]).at(position);
        let stream = StatisticsStream::decode(bytes).map_err(|damage| corrupt(damage.to_string()))?;
        let types = statistics_types(table, statistics);
        let of_both = stream.types.iter().zip(&types).zip(1..);
        let wrong = of_both.clone().find(|((brought, own), _)| brought != own);
        // The columns that make an index's entries unique may differ between tables.
        let known = wrong.map_or(types.len(), |(_, place)| place - 1);
        if let Some(((brought, own), place)) = wrong.filter(|_| known < statistics.own_column_count(table)) {
            let why = format!("its column {place} is {brought}, that of the statistics {own}");
            return Err(corrupt(why).into());
        }
        // Clocks differ by a little. But statistics from years ahead would count as the newest for that long.
        if !(0..=time_of_day().saturating_add(DAY)).contains(&stream.updated) {
            return Err(corrupt("the time when it was made is none, or is to come".to_owned()).into());
        }
        let of_base = table.base_index().partitions.iter().map(|partition| partition.hobt);
        let hobts: Vec<HobtId> = of_base.chain([HobtId(0)]).collect();
        run.uses_database(&place.database);
        place.database.database().begin_statistics_update(&run.context, statistics, &hobts);
        let summary = stream.summary.with_columns(known).with_columns(statistics.columns.len());
        let updated = Statistics {
            updated: Some(stream.updated),
            unfiltered_rows: stream.unfiltered_rows,
            modified: 0,
            parts: vec![StatisticsPart { hobt: HobtId(0), summary: Arc::new(summary) }],
            ..statistics.clone()
        };
        self.set(run, place, table, updated, position)
    }

    /// Handles `sp_autostats`. The arguments are a table's object id, `ON` or `OFF`, and the name of one of its
    /// statistics or NULL.
    pub(crate) fn set_automatic_statistics(&mut self, arguments: &[Value]) -> Result<(), Failure> {
        let database = self.batch.database();
        let [Value::Int(id), Value::Text(flag), name] = arguments else {
            return Err(SqlError::internal("sp_autostats gives a table, a flag and a name").into());
        };
        let snapshot = database.snapshot();
        let table = i32::try_from(*id).ok().and_then(|id| snapshot.tables.get(&ObjectId(id)));
        let Some(table) = table.filter(|table| !table.is_system) else { return Ok(()) };
        let is_wanted = |statistics: &Statistics| match name {
            Value::Text(name) => name_equals(name, &statistics.name),
            _ => true,
        };
        let no_recompute = flag.eq_ignore_ascii_case("OFF");
        let schema = snapshot.schema_by_id(table.schema).map_or("dbo", |schema| schema.name.as_str()).to_owned();
        let place = Place { database: database.clone(), schema, name: table.name.clone() };
        self.batch.in_context(&database, |this, context| {
            let table = &this.definitions().hold_table(context, &place, Arc::clone(table))?;
            let snapshot = database.snapshot();
            for statistics in snapshot.statistics_of(table).iter().filter(|statistics| is_wanted(statistics)) {
                let changed = Statistics { no_recompute, ..Statistics::clone(statistics) };
                database.database().set_statistics(context, table, changed).map_err(SqlError::from)?;
            }
            Ok(())
        })
    }

    /// `DROP STATISTICS table.name`: the schema part of the name is the table.
    pub(super) fn drop_statistics(&mut self, name: &ObjectName) -> Result<(), Failure> {
        let Some(table) = &name.schema else {
            return Err(errors::STATISTICS_NEED_TABLE.with([&name]).at(name.position()).into());
        };
        let of_table =
            ObjectName { server: None, database: None, schema: name.database.clone(), name: Identifier::clone(table) };
        let missing = || {
            Failure::from(errors::DROP_NO_SUCH_STATISTICS.with([&table.value, &name.name.value]).at(name.position()))
        };
        let (place, table) = match self.table_of_statistics(&of_table) {
            Err(failure) if failure.error.number == number::NO_SUCH_OBJECT => return Err(missing()),
            other => other?,
        };
        self.batch.in_context(&place.database, |this, context| {
            let table = this.definitions().hold_table(context, &place, table)?;
            let dropped = place.database.database().drop_statistics(context, &table, &name.name.value);
            Ok(dropped.map_err(SqlError::from)?)
        })
    }
}

/// The definition of the statistics object to create.
///
/// # Errors
/// 1911 for a column that the table does not have; 40517 for a column without stored values; 9108; those of a filter
/// ([`check_filter`]).
fn definition_of(
    create: &CreateStatistics,
    table: &Table,
    options: &Options,
) -> Result<StatisticsDefinition, SqlError> {
    if let Some(condition) = &create.condition {
        check_filter(create, condition, table)?;
    }
    let mut columns = Vec::with_capacity(create.columns.len());
    for column in &create.columns {
        if table.virtual_column_named(&column.value).is_some() {
            let what = format!("CREATE STATISTICS of '{}', a computed column that is not PERSISTED,", column.value);
            return Err(SqlError::not_supported(what).at(column.position));
        }
        let found = table
            .column_named(&column.value)
            .ok_or_else(|| errors::NO_SUCH_KEY_COLUMN.with([&column.value]).at(column.position))?;
        columns.push(found);
    }
    // The gathering query binds it. That also checks which values it may be compared with.
    let filter = create.condition.as_ref().map(super::constraint::condition_definition);
    let is_incremental = options.incremental.unwrap_or(false);
    if is_incremental {
        check_incremental(table, filter.is_some(), create.name.position)?;
    }
    Ok(StatisticsDefinition {
        name: create.name.value.clone(),
        columns,
        filter,
        origin: StatisticsOrigin::User,
        is_incremental,
        no_recompute: options.no_recompute,
        auto_drop: options.auto_drop.unwrap_or(false),
        sample_millionths: persisted(options).unwrap_or(0),
    })
}

/// The types in which the columns of a statistics object are gathered.
pub(crate) fn statistics_types(table: &Table, statistics: &Statistics) -> Vec<SqlType> {
    let places = statistics.columns_in(table).unwrap_or_default();
    places.iter().map(|place| statistics_type(table.columns[*place].sql_type)).collect()
}

fn hints(options: &Options) -> QueryHints {
    QueryHints { maxdop: options.max_dop.filter(|dop| *dop > 0), ..QueryHints::default() }
}

/// The counts to set: `ROWCOUNT` for the table, `PAGECOUNT` for the named indexes, or for the heap or clustered index.
fn said_counts(wanted: &[Arc<Statistics>], targets: &[Identifier], options: &Options) -> SaidCounts {
    let named = wanted.iter().filter(|each| !targets.is_empty() && each.origin == StatisticsOrigin::Index);
    SaidCounts {
        rows: options.row_count,
        pages: options.page_count,
        indexes: named.map(|each| IndexId(each.id)).collect(),
    }
}

fn persisted(options: &Options) -> Option<i32> {
    options.persists_sample.map(|persists| match (&options.reading, persists) {
        (Reading::Sample(Sample::Percent(percent)), true) => (percent * 10_000.0) as i32,
        (Reading::Whole, true) => 1_000_000,
        _ => 0,
    })
}

/// The table's current number of rows, or the number set by `ROWCOUNT`.
fn table_rows(place: &Place, table: &Table) -> Result<f64, SqlError> {
    let database = place.database.database();
    if let Some(rows) = database.said_rows(table) {
        return Ok(rows as f64);
    }
    let hobts = table.base_index().partitions.iter().map(|partition| partition.hobt);
    Ok(database.row_count(hobts).map_err(SqlError::from)? as f64)
}

/// The part of a table of so many rows that automatic statistics read. `None` for all of it.
fn unasked_sample(rows: f64) -> Option<Sample> {
    let wanted = UNASKED_ROWS * (rows / UNASKED_ROWS).powf(0.25);
    (rows > UNASKED_ROWS).then(|| Sample::Percent((wanted / rows * 100.0).max(0.01)))
}

/// The part of the table to read. `None` for all of it.
fn sample_of(statistics: &Statistics, options: &Options, rows: f64) -> Option<Sample> {
    let by_size = || {
        // The pages that hold about this many rows: the error of the estimated share falls with the square root of the
        // sample.
        let wanted = (WHOLE_ROWS_MAX * (rows / WHOLE_ROWS_MAX).sqrt()).max(1.0);
        (rows > WHOLE_ROWS_MAX).then(|| Sample::Percent((wanted / rows * 100.0).clamp(0.01, 100.0)))
    };
    let of_millionths = |millionths: i32| match millionths {
        1_000_000 => None,
        some => Some(Sample::Percent(f64::from(some) / 10_000.0)),
    };
    match &options.reading {
        Reading::Whole => None,
        Reading::Sample(sample) => Some(sample.clone()),
        Reading::Again => {
            let (read, all) = statistics
                .parts
                .iter()
                .fold((0.0, 0.0), |(read, all), part| (read + part.summary.sampled_rows, all + part.summary.rows));
            (read < all && read > 0.0).then(|| Sample::Percent(read / all * 100.0))
        }
        Reading::Default if statistics.sample_millionths > 0 => of_millionths(statistics.sample_millionths),
        Reading::Default => by_size(),
    }
}

/// The statistics that a statement names.
///
/// # Errors
/// 2767.
fn wanted_statistics(
    known: &[Arc<Statistics>],
    targets: &[Identifier],
    options: &Options,
) -> Result<Vec<Arc<Statistics>>, SqlError> {
    if targets.is_empty() {
        let is_wanted = |each: &&Arc<Statistics>| match options.kinds {
            Kinds::All => true,
            Kinds::Columns => each.origin != StatisticsOrigin::Index,
            Kinds::Indexes => each.origin == StatisticsOrigin::Index,
        };
        return Ok(known.iter().filter(is_wanted).cloned().collect());
    }
    let find = |target: &Identifier| {
        let found = known.iter().find(|each| name_equals(&each.name, &target.value)).cloned();
        found.ok_or_else(|| no_such_statistics(&target.value).at(target.position))
    };
    targets.iter().map(find).collect()
}
