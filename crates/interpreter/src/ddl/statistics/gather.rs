//! Gathers data statistics with a query.
//!
//! - Statistics that were asked for: `SELECT partition, columns, COUNT_BIG(*) … GROUP BY … ORDER BY …`. Its groups
//!   arrive in the order of the statistics' keys. So counts are exact, and the query uses memory and spills like any
//!   other query.
//! - Automatic ones: `SELECT columns …`, whose scan hands its pages to gatherers ([`GatheredScan`]), without sort and
//!   groups: a query is planned as soon as the sample is read.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use hobt_base::{HobtId, SqlError};
use hobt_catalog::{DatabaseSnapshot, Statistics, StatisticsPart, Table, value_to_bytes};
use hobt_engine::{IsolationOption, statistics_columns, statistics_type};
use hobt_functions::array_value;
use hobt_tsql::ast::{Query, StatementKind};
use hobt_types::statistics::{GatherColumns, SortedGatherer, Summary};
use hobt_types::{SqlType, Value};

use super::options::Sample;
use super::{UNASKED_PAGES_MAX, statistics_types};
use crate::ddl::Definitions;
use crate::failure::Failure;
use crate::place::Place;
use crate::query::one_stream;
use hobt_binder::{BindOptions, Binder};
use hobt_operators::GatheredScan;
use hobt_planner::{FinishPlan, PhysicalPlan};
use hobt_table::{StatementRun, Writes};

/// The minimum number of sampled pages, 8 MB, as in SQL Server. Smaller tables are always read whole. A sample consists
/// of whole pages, and from few pages it may contain none.
const SAMPLED_PAGES_MIN: u64 = 1024;

/// A name in brackets.
pub(super) fn quoted(name: &str) -> String {
    format!("[{}]", name.replace(']', "]]"))
}

/// The share of what is left of a statement for statistics that its plan needs.
const OF_A_PLAN: f64 = 0.25;

/// What to read for a statistics object.
pub(super) struct Gathering<'a> {
    pub(super) place: &'a Place,
    pub(super) table: &'a Table,
    pub(super) statistics: &'a Statistics,
    /// The part of the table to read. `None` for all of it.
    pub(super) sample: Option<&'a Sample>,
    /// The partitions to read (from 0). `None` for all.
    pub(super) partitions: Option<&'a [usize]>,
    /// The share of the statement that is done when they are gathered.
    pub(super) ends_at: f64,
    /// Whether rows are gathered as they are read, if that is possible.
    pub(super) is_quick: bool,
}

/// The expression for a row's partition number: `[database].$PARTITION.[function]([column])`. The database is named
/// because the session may be in another one.
fn partition_number(place: &Place, snapshot: &DatabaseSnapshot, table: &Table) -> Option<String> {
    let (column, function) = snapshot.partitioning_of(&table.base_index().data_space)?;
    let [database, function, column] = [place.database.name(), &function.name, &table.columns[column].name].map(quoted);
    Some(format!("{database}.$PARTITION.{function}({column})"))
}

impl Gathering<'_> {
    /// The part of the table to read, from 0 to 1. `None` for all of it.
    fn share(&self) -> Option<f64> {
        let (mut pages, mut rows) = (0, 0);
        for partition in &self.table.base_index().partitions {
            let Ok(store) = self.place.database.database().store_to_read(partition.hobt) else { continue };
            pages += store.hobt().data_pages();
            rows += store.hobt().row_count();
        }
        let of_pages = |wanted: u64| wanted as f64 / pages.max(1) as f64;
        let most = if self.is_quick { of_pages(UNASKED_PAGES_MAX) } else { 1.0 };
        let wanted = match self.sample {
            Some(sample) => sample.share_of(rows as f64),
            None if self.is_quick => 1.0,
            None => return None,
        };
        let share = wanted.min(most).max(of_pages(SAMPLED_PAGES_MIN));
        (share < 1.0).then_some(share)
    }

    /// Whether only a part of the table is read, or was to be read: the whole table may be too small for a sample.
    fn is_sample(&self, share: Option<f64>) -> bool {
        self.sample.is_some() || share.is_some()
    }

    /// The table's full name, the sample and the hints, as part of a query.
    fn source(&self, share: Option<f64>, hint: &str) -> String {
        let place = self.place;
        let mut text = [place.database.name(), &place.schema, &place.name].map(quoted).join(".");
        if let Some(share) = share {
            let _ = write!(text, " TABLESAMPLE SYSTEM ({} PERCENT)", share * 100.0);
        }
        let versions = place.database.isolation().has(IsolationOption::ReadCommittedSnapshot);
        let _ = write!(text, " WITH ({}{hint})", if versions { "READCOMMITTED" } else { "NOLOCK" });
        text
    }

    /// The text of the query over the stored rows of this part of the table.
    fn quick_text(&self, share: Option<f64>) -> String {
        let names: Vec<String> = self.columns().iter().map(|place| quoted(&self.table.columns[*place].name)).collect();
        format!("SELECT {} FROM {}", names.join(", "), self.source(share, ", FORCESCAN"))
    }

    fn columns(&self) -> Vec<usize> {
        self.statistics.columns_in(self.table).unwrap_or_default()
    }

    /// The text of the query over this part of the table, from 0 to 1.
    fn text(&self, snapshot: &DatabaseSnapshot, share: Option<f64>) -> String {
        let table = self.table;
        let expression = |place: &usize| {
            let column = &table.columns[*place];
            let name = quoted(&column.name);
            match statistics_type(column.sql_type) {
                same if same == column.sql_type => name,
                SqlType::NVarChar(_) => format!("CAST({name} AS nvarchar(4000))"),
                SqlType::VarBinary(_) => format!("CAST({name} AS varbinary(8000))"),
                _ => format!("CAST({name} AS varchar(8000))"),
            }
        };
        let number = partition_number(self.place, snapshot, table);
        let keys: Vec<String> = self.columns().iter().map(expression).collect();
        let first = number.as_deref().unwrap_or("1");
        let mut text = format!("SELECT {first}, {}, COUNT_BIG(*) FROM {}", keys.join(", "), self.source(share, ""));
        let mut conditions: Vec<String> = self.statistics.filter.iter().map(|filter| format!("({filter})")).collect();
        if let (Some(number), Some(partitions)) = (&number, self.partitions) {
            let list: Vec<String> = partitions.iter().map(|partition| (partition + 1).to_string()).collect();
            conditions.push(format!("{number} IN ({})", list.join(", ")));
        }
        if !conditions.is_empty() {
            let _ = write!(text, " WHERE {}", conditions.join(" AND "));
        }
        let groups: Vec<&str> = number.iter().chain(&keys).map(String::as_str).collect();
        let groups = groups.join(", ");
        let _ = write!(text, " GROUP BY {groups} ORDER BY {groups}");
        text
    }
}

fn parsed(text: &str) -> Result<Query, SqlError> {
    let wrong = || SqlError::internal(format!("statistics are gathered by a query that is none: {text}"));
    let batch = hobt_tsql::parse_batch(text)?;
    match batch.statements.into_iter().next().map(|statement| statement.kind) {
        Some(StatementKind::Select(select)) => Ok(select.query),
        _ => Err(wrong()),
    }
}

/// The groups of rows that the query returns, collected by partition.
struct Groups {
    types: Vec<SqlType>,
    columns: GatherColumns,
    by_partition: HashMap<i64, SortedGatherer>,
}

impl Groups {
    fn take(&mut self, batch: &RecordBatch) -> Result<(), SqlError> {
        let mut values = vec![None; self.types.len()];
        for row in 0..batch.num_rows() {
            let whole = |column: usize, sql_type| match array_value(batch.column(column).as_ref(), row, sql_type)? {
                Value::Int(number) => Ok(number),
                _ => Err(SqlError::internal("a count of rows is no number")),
            };
            let (partition, rows) = (whole(0, SqlType::Int)?, whole(self.types.len() + 1, SqlType::BigInt)?);
            for (place, sql_type) in self.types.iter().enumerate() {
                let value = array_value(batch.column(place + 1).as_ref(), row, *sql_type)?;
                let bytes = value_to_bytes(*sql_type, &value);
                values[place] = bytes.map_err(|error| SqlError::internal(error.to_string()))?;
            }
            let gatherer =
                self.by_partition.entry(partition).or_insert_with(|| SortedGatherer::new(self.columns.clone()));
            let row: Vec<Option<&[u8]>> = values.iter().map(|value| value.as_deref()).collect();
            gatherer.add(&row, rows as f64).map_err(|error| SqlError::internal(error.to_string()))?;
        }
        Ok(())
    }
}

impl Definitions<'_, '_> {
    /// Reads a table for a statistics object. Returns one part for each partition that has rows.
    pub(super) fn gather(
        &mut self,
        run: &Arc<StatementRun>,
        gathering: &Gathering<'_>,
    ) -> Result<Vec<StatisticsPart>, Failure> {
        let columns = statistics_columns(gathering.table, &gathering.columns());
        let columns = columns.ok_or_else(|| SqlError::internal("a column that has no keys"))?;
        let share = gathering.share();
        if gathering.is_quick
            && let Some(parts) = self.gather_scanned(run, gathering, share, &columns)?
        {
            return Ok(parts);
        }
        self.gather_groups(run, gathering, share, columns)
    }

    /// Reads the stored rows. `None` if the query's plan is not a scan of the table.
    fn gather_scanned(
        &mut self,
        run: &Arc<StatementRun>,
        gathering: &Gathering<'_>,
        share: Option<f64>,
        columns: &GatherColumns,
    ) -> Result<Option<Vec<StatisticsPart>>, Failure> {
        let gathered = GatheredScan::new(columns.clone(), gathering.columns(), share.is_some());
        let is_scan = Cell::new(false);
        let finish = |plan: PhysicalPlan| {
            let gathering = gathered.gathering(&plan);
            is_scan.set(gathering.is_some());
            one_stream(gathering.unwrap_or(plan))
        };
        let query = parsed(&gathering.quick_text(share))?;
        let no_rows = &mut |_: &RecordBatch| Err(SqlError::internal("rows of a scan that gathers statistics"));
        if !self.run_gathering(run, gathering, &query, (&finish, &|| is_scan.get()), no_rows)? {
            return Ok(None);
        }
        let of_base = &gathering.table.base_index().partitions;
        let mut parts = Vec::new();
        for (partition, gatherer) in gathered.take() {
            let hobt = of_base[partition].hobt;
            let summary = self.whole_of(gathering, hobt, share, |rows| gatherer.finish_table(rows))?;
            parts.push(StatisticsPart { hobt, summary: Arc::new(summary) });
        }
        parts.retain(|part| part.summary.rows > 0.0);
        Ok(Some(parts))
    }

    fn gather_groups(
        &mut self,
        run: &Arc<StatementRun>,
        gathering: &Gathering<'_>,
        share: Option<f64>,
        columns: GatherColumns,
    ) -> Result<Vec<StatisticsPart>, Failure> {
        let (place, table) = (gathering.place, gathering.table);
        let snapshot = place.database.snapshot_of(&run.context);
        let query = parsed(&gathering.text(&snapshot, share))?;
        let types = statistics_types(table, gathering.statistics);
        let mut groups = Groups { types, columns, by_partition: HashMap::new() };
        self.run_gathering(run, gathering, &query, (&one_stream, &|| true), &mut |batch| groups.take(batch))?;
        let of_base = &table.base_index().partitions;
        let hobt = |number: i64| {
            let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
            place.and_then(|place| of_base.get(place)).map(|partition| partition.hobt)
        };
        let mut parts = Vec::new();
        for (number, gatherer) in groups.by_partition {
            let hobt = hobt(number).ok_or_else(|| SqlError::internal("a row of a partition that is not there"))?;
            let gathered = gatherer.finish();
            // The number of rows that satisfy the filter is unknown: it is estimated from the sample's share of the
            // table.
            let left = gathering.statistics.filter.as_ref().map(|_| gathered.rows / share.unwrap_or(1.0));
            let summary = self.whole_of(gathering, hobt, share, |rows| match gathering.is_sample(share) {
                true => gathered.scaled_to(left.map_or(rows, |left| left.min(rows))),
                false => gathered,
            })?;
            parts.push(StatisticsPart { hobt, summary: Arc::new(summary) });
        }
        parts.sort_by_key(|part| of_base.iter().position(|partition| partition.hobt == part.hobt));
        Ok(parts)
    }

    /// Runs a query that gathers. Returns whether it was run: once it is planned, `wants` decides.
    fn run_gathering(
        &mut self,
        run: &Arc<StatementRun>,
        gathering: &Gathering<'_>,
        query: &Query,
        (finish, wants): (FinishPlan<'_>, &dyn Fn() -> bool),
        take: &mut dyn FnMut(&RecordBatch) -> Result<(), SqlError>,
    ) -> Result<bool, Failure> {
        // Otherwise the conditions of this query could trigger an update of these statistics, for other partitions too.
        let before = std::mem::replace(&mut self.batch.is_gathering, true);
        let mut run_query = |this: &mut Self| -> Result<bool, Failure> {
            let bind = |binder: &Binder<'_>| binder.bind_query(query);
            let prepared = this.batch.prepare(run, BindOptions::default(), &bind, finish)?;
            if !wants() {
                return Ok(false);
            }
            let ends_at = match before {
                false => gathering.ends_at,
                // A plan needs them, and its own work comes later.
                true => {
                    let done = this.batch.state.progress.percent() / 100.0;
                    done + (1.0 - done) * OF_A_PLAN
                }
            };
            this.batch.follow(run, &prepared, Writes::Nowhere, ends_at);
            this.batch.run_prepared(run, prepared, &mut |batch| take(&batch))?;
            Ok(true)
        };
        let done = run_query(self);
        self.batch.is_gathering = before;
        done
    }

    /// The summary of a partition. `whole` gives it for the partition's number of rows: what was gathered, scaled up if
    /// it is a sample.
    fn whole_of(
        &self,
        gathering: &Gathering<'_>,
        hobt: HobtId,
        share: Option<f64>,
        whole: impl FnOnce(f64) -> Summary,
    ) -> Result<Summary, Failure> {
        let database = gathering.place.database.database();
        let rows_of = |hobt| database.store_to_read(hobt).map(|store| store.hobt().row_count() as f64);
        let rows = rows_of(hobt).map_err(SqlError::from)?;
        let whole = whole(rows);
        if !gathering.is_sample(share) || gathering.statistics.filter.is_some() {
            return Ok(whole);
        }
        // A row count set by `ROWCOUNT` is used unless the whole table was to be read.
        let Some(said) = database.said_rows(gathering.table) else { return Ok(whole) };
        let mut all = 0.0;
        for partition in &gathering.table.base_index().partitions {
            all += rows_of(partition.hobt).map_err(SqlError::from)?;
        }
        Ok(whole.said_to_have(said as f64 * rows / all.max(1.0)))
    }
}
