//! Missing indexes: those with which a scan would have been a seek.
//!
//! The key of such an index has the columns that conditions compare for equality, then those that they bound. The other
//! columns that are read are included columns. Without statistics of values, its rows are estimated with SQL Server's
//! guesses: the square root of the rows for an equality, 30 % for one bound, 9 % for two.

use std::sync::Arc;

use datafusion::logical_expr::Expr;
use hobt_base::SqlError;
use hobt_catalog::{IndexKind, Table};
use hobt_engine::{MissingIndex, MissingIndexGroup};
use hobt_types::{Collation, KeyColumn};

use super::{AccessHint, ColumnPredicate, DESCENT_PAGES, Test};
use crate::TableRead;

/// SQL Server's cost units: of a scan, of each page after the first, and of each row.
const COST_SCAN: f64 = 0.003_283_2;
const COST_PAGE: f64 = 0.000_740_74;
const COST_ROW: f64 = 0.000_001_1;

/// An index with which a scan would have been a seek.
#[derive(Clone, Debug)]
pub struct Missing {
    group: Arc<MissingIndexGroup>,
    cost: f64,
    impact: f64,
}

impl Missing {
    /// Records the start of the scan.
    pub fn note_scan(&self) {
        self.group.note_seek(self.cost, self.impact);
    }
}

/// The index that is missing for a scan of `table` which reads the columns `projection` of the rows that satisfy
/// `conditions`; `predicates` are those on single columns.
///
/// # Errors
/// If its heap or a tree cannot be opened.
pub fn missing_to(
    table: &TableRead,
    projection: &[usize],
    conditions: &[Expr],
    predicates: &[ColumnPredicate],
) -> Result<Option<Missing>, SqlError> {
    let run = table.run();
    let definition = table.table();
    if conditions.is_empty() || table.hint() != AccessHint::Free || !run.counts_index_use() || definition.is_system {
        return Ok(None);
    }
    let stores = table.stores()?;
    let counts = || stores.iter().map(|store| table.expected(store));
    let pages = counts().map(|counts| counts.data_pages).sum::<u64>() as f64;
    let rows = counts().map(|counts| counts.rows).sum::<u64>() as f64;
    if pages <= DESCENT_PAGES {
        return Ok(None);
    }
    let columns = columns_of(definition, projection, (conditions, predicates), rows);
    let Some((columns, rows_left)) = columns else { return Ok(None) };
    let cost = |pages: f64, rows: f64| COST_SCAN + COST_PAGE * pages + COST_ROW * rows;
    let now = cost(pages, rows);
    let part = if rows > 0.0 { rows_left / rows } else { 0.0 };
    let then = cost(pages * part + DESCENT_PAGES, rows_left);
    if then >= now || is_there(definition, &columns) {
        return Ok(None);
    }
    let group = run.instance.missing_indexes().note_plan(MissingIndex {
        database: table.database().id(),
        table: definition.id,
        equality: ids(definition, &columns.equality),
        inequality: ids(definition, &columns.inequality),
        included: ids(definition, &columns.included),
    });
    Ok(group.map(|group| Missing { group, cost: now, impact: 100.0 * (now - then) / now }))
}

/// The columns of an index, by their indexes in the table, in the table's order.
struct Columns {
    equality: Vec<usize>,
    inequality: Vec<usize>,
    included: Vec<usize>,
}

fn ids(table: &Table, places: &[usize]) -> Vec<i32> {
    places.iter().map(|&place| table.columns[place].id).collect()
}

/// The columns of the index and its expected rows; `None` if no condition can use a key.
fn columns_of(
    definition: &Table,
    projection: &[usize],
    (conditions, predicates): (&[Expr], &[ColumnPredicate]),
    rows: f64,
) -> Option<(Columns, f64)> {
    let mut columns = Columns { equality: Vec::new(), inequality: Vec::new(), included: Vec::new() };
    let mut left = rows;
    for (place, column) in definition.columns.iter().enumerate() {
        let is_usable = KeyColumn::new(column.sql_type, Collation::default(), true, false).is_some();
        let of_column = || {
            predicates.iter().filter(move |predicate| {
                predicate.column == place
                    && predicate.collation.is_none_or(|collation| Some(collation) == column.collation)
            })
        };
        if of_column().any(|predicate| predicate.test == Test::Never) {
            return None;
        }
        let is_equal = |test: &Test| matches!(test, Test::Equal(_) | Test::Null);
        if is_usable && of_column().any(|predicate| is_equal(&predicate.test)) {
            columns.equality.push(place);
            left *= rows.max(1.0).sqrt().recip();
            continue;
        }
        let is_bounded = |low_wanted: bool| {
            of_column().any(|predicate| match &predicate.test {
                Test::Range { low, high } => {
                    if low_wanted {
                        low.is_some()
                    } else {
                        high.is_some()
                    }
                }
                _ => false,
            })
        };
        let bounds = i32::from(is_bounded(true)) + i32::from(is_bounded(false));
        if is_usable && bounds > 0 {
            columns.inequality.push(place);
            left *= 0.3_f64.powi(bounds);
        } else if projection.contains(&place) || is_named(conditions, &column.name) {
            columns.included.push(place);
        }
    }
    let has_key = !columns.equality.is_empty() || !columns.inequality.is_empty();
    has_key.then_some((columns, left))
}

fn is_named(conditions: &[Expr], name: &str) -> bool {
    conditions.iter().flat_map(Expr::column_refs).any(|column| column.name == name)
}

/// Whether an index begins with this key. It was considered and rejected, so no better one can be proposed.
fn is_there(table: &Table, columns: &Columns) -> bool {
    table.indexes.iter().filter(|index| index.kind != IndexKind::Heap && !index.options.is_disabled).any(|index| {
        let count = columns.equality.len();
        let covers = |place: &usize| {
            index.kind == IndexKind::Clustered
                || index.included.contains(place)
                || index.key.iter().any(|part| part.column == *place)
        };
        index.key.len() > count.saturating_sub(1)
            && columns.equality.iter().all(|place| index.key[..count].iter().any(|part| part.column == *place))
            && (columns.inequality.is_empty()
                || index.key.get(count).is_some_and(|part| columns.inequality.contains(&part.column)))
            && columns.included.iter().chain(&columns.inequality).all(covers)
    })
}
